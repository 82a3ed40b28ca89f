/* SPDX-License-Identifier: MIT */
/*
 * The engine and the processor level are chosen once per process, so a test that means all of
 * them runs itself again: a test file has "parts", functions that return NULL or what is wrong,
 * and a test is some parts, one after another in one process, under one environment.
 *
 *   static const levels_part parts[] = {{"name", function}, ...};
 *   int main(int argc, char **argv)
 *   {
 *       if (argc > 2)
 *           return levels_child(parts, n_parts, argv);
 *       ...
 *       levels_run("name other", "KMERFORMER_GEMM=plain KMERFORMER_CPU=avx2", NULL);
 *
 * TEST_RUNNER: the command that runs the program, where it is made for another processor.
 */
#ifndef KMF_TEST_LEVELS_H
#define KMF_TEST_LEVELS_H

#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct levels_part {
    const char *name;
    const char *(*run)(void);
} levels_part;

static inline int levels_part_run(const levels_part *parts, size_t n_parts, const char *name)
{
    for (size_t i = 0; i < n_parts; i++) {
        if (strcmp(name, parts[i].name) != 0)
            continue;
        const char *wrong = parts[i].run();
        if (wrong)
            fprintf(stderr, "%s: %s\n", name, wrong);
        return wrong ? EXIT_FAILURE : EXIT_SUCCESS;
    }
    fprintf(stderr, "there is no part %s\n", name);
    return EXIT_FAILURE;
}

/* argv: the program, "--part", names; all of them run, even if one fails. */
static inline int levels_child(const levels_part *parts, size_t n_parts, char **argv)
{
    int status = strcmp(argv[1], "--part") == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    for (char **name = argv + 2; *name; name++)
        if (levels_part_run(parts, n_parts, *name) != EXIT_SUCCESS)
            status = EXIT_FAILURE;
    return status;
}

/*
 * Runs parts, "name name", in a process of their own with the settings "NAME=VALUE NAME=VALUE";
 * fails the test if one fails. What they print goes to out [256], if there is one.
 */
static inline void levels_run(const char *names, const char *settings, char *out)
{
    char command[1024];
    char self[256];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    ck_assert(n > 0);
    self[n] = '\0';
    const char *runner = getenv("TEST_RUNNER");
    snprintf(
        command, sizeof command,
        "env -u KMERFORMER_GEMM -u KMERFORMER_CPU -u OPENBLAS_CORETYPE %s %s '%s' --part %s",
        settings, runner ? runner : "", self, names);
    fflush(NULL);
    FILE *pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    char line[256];
    size_t got = 0;
    while (fgets(line, sizeof line, pipe)) {
        if (!out)
            fputs(line, stdout);
        else if (got + strlen(line) < 256)
            got += (size_t)snprintf(out + got, 256 - got, "%s", line);
    }
    int status = pclose(pipe);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s fails with %s", names,
                  settings);
}

/* A test of nothing but parts. */
#define LEVELS_TEST(test, names, settings) \
    START_TEST(test)                       \
    {                                      \
        levels_run(names, settings, NULL); \
    }                                      \
    END_TEST

/* Every setting under which the products and loops must do the same. */
static const char *const levels_all[] = {
    "", /* what the program would do by itself */
    "KMERFORMER_GEMM=plain",
    "KMERFORMER_GEMM=plain KMERFORMER_CPU=avx2",
    "KMERFORMER_GEMM=plain KMERFORMER_CPU=baseline",
    "KMERFORMER_CPU=baseline OPENBLAS_CORETYPE=Haswell", /* found out by its rows */
    "KMERFORMER_CPU=baseline OPENBLAS_CORETYPE=Nehalem", /* used */
};
enum { N_LEVELS = sizeof levels_all / sizeof levels_all[0] };

/* What the processor may have beside float32; the first layer's attention differs in most. */
static const char *const levels_digits[] = {"", "KMERFORMER_CPU=bf16", "KMERFORMER_CPU=vnni",
                                            "KMERFORMER_CPU=avxvnni", "KMERFORMER_CPU=avx2"};
enum { N_DIGITS = sizeof levels_digits / sizeof levels_digits[0] };

/* The processor's own level, which may be amx, and every other one. */
static const char *const levels_each[] = {"",
                                          "KMERFORMER_CPU=bf16",
                                          "KMERFORMER_CPU=vnni",
                                          "KMERFORMER_CPU=avx512",
                                          "KMERFORMER_CPU=avxvnni",
                                          "KMERFORMER_CPU=avx2",
                                          "KMERFORMER_CPU=baseline"};
enum { N_EACH = sizeof levels_each / sizeof levels_each[0] };

/* Vectors of each width, for what uses no other instructions. */
static const char *const levels_vectors[] = {"", "KMERFORMER_CPU=avx2",
                                             "KMERFORMER_CPU=baseline"};
enum { N_VECTORS = sizeof levels_vectors / sizeof levels_vectors[0] };

/* xorshift: the tests' own random numbers, uniform in [-1, 1). */
static inline float levels_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (float)(*state >> 40) * 0x1p-23f - 1.0f;
}

#endif
