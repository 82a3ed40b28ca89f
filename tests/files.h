/* SPDX-License-Identifier: MIT */
/* A folder of each test's own, and the files in it. */
#ifndef KMF_TEST_FILES_H
#define KMF_TEST_FILES_H

#include "base/io.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[256]; /* the folder */

static inline void make_dir(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/kmf_test_XXXXXX", tmp ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

/* With all that is in it. */
static inline void remove_dir(void)
{
    char command[sizeof dir + 16];
    snprintf(command, sizeof command, "rm -r '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

/* Of tests that remove their files by name, so that one that is left is found. */
static inline void remove_empty_dir(void)
{
    ck_assert_msg(rmdir(dir) == 0, "a file was left in %s", dir);
}

/* The path of a file in the folder; 32 are remembered. */
static inline const char *in_dir(const char *name)
{
    static char paths[32][512];
    static int next;
    char *path = paths[next++ % 32];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static inline void put(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    ck_assert_msg(file != NULL, "%s", path);
    ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
    ck_assert_int_eq(fclose(file), 0);
}

static inline const char *write_bytes(const char *name, const void *bytes, size_t n)
{
    const char *path = in_dir(name);
    put(path, bytes, n);
    return path;
}

static inline const char *write_text(const char *name, const char *string)
{
    return write_bytes(name, string, strlen(string));
}

/* Freed by kmf_free. */
static inline char *get(const char *path, size_t *len)
{
    kmf_err err = {0};
    char *bytes = kmf_file_read(path, (size_t)1 << 30, len, &err);
    ck_assert_msg(bytes != NULL, "%s", err.msg);
    return bytes;
}

#endif
