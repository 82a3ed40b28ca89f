/* SPDX-License-Identifier: MIT */
/*
 * Runs a fuzz target on files: replay_fuzz_x FILE... . Linked with tests/fuzz/fuzz_x.c instead of
 * libFuzzer, so that inputs which once broke something are tried with any compiler.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input in a block of exactly its size, so that a sanitizer sees a read past its end. */
static int run_file(const char *path)
{
    int status = 1;
    uint8_t *data = NULL;
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        goto out;
    long size = ftell(file);
    if (size < 0 || fseek(file, 0, SEEK_SET) != 0)
        goto out;
    data = malloc(size > 0 ? (size_t)size : 1);
    if (!data || fread(data, 1, (size_t)size, file) != (size_t)size)
        goto out;
    status = LLVMFuzzerTestOneInput(data, (size_t)size) != 0;
out:
    if (status != 0)
        fprintf(stderr, "%s: cannot be read, or was not accepted by the target\n", path);
    free(data);
    if (file)
        fclose(file);
    return status;
}

int main(int argc, char **argv)
{
    int status = 0;
    for (int i = 1; i < argc; i++)
        status |= run_file(argv[i]);
    return status;
}
