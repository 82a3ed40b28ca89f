/* SPDX-License-Identifier: MIT */
/* What the tests of the files of tables share: a folder, texts that grow, saving and parsing. */
#ifndef KMF_TEST_TABLEFILES_H
#define KMF_TEST_TABLEFILES_H

#include "words/countfile.h"
#include "base/le.h"
#include "base/mem.h"
#include "checked.h"
#include "run.h"
#include "tables.h"

#include <check.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static char dir[] = "/tmp/kmf_countfile.XXXXXX";
static char path_buffer[256];

static inline void make_dir(void)
{
    strcpy(dir + sizeof dir - 7, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static inline void remove_dir(void)
{
    ck_assert_msg(rmdir(dir) == 0, "a file was left in %s", dir);
}

/* Valid until the next call. */
static inline const char *in_dir(const char *name)
{
    snprintf(path_buffer, sizeof path_buffer, "%s/%s", dir, name);
    return path_buffer;
}

typedef struct text {
    char *bytes; /* owned */
    size_t len;
    size_t cap;
} text;

static inline void add_bytes(text *t, const void *bytes, size_t n)
{
    if (kmf_grow(&t->bytes, &t->cap, t->len + n + 1, 1, NULL) < 0)
        ck_abort_msg("no memory for the test");
    if (n > 0)
        memcpy(t->bytes + t->len, bytes, n);
    t->len += n;
    t->bytes[t->len] = '\0';
}

static inline void add(text *t, const char *string)
{
    add_bytes(t, string, strlen(string));
}

static inline void free_text(text *t)
{
    kmf_free(t->bytes);
    *t = (text){0};
}

static inline text slurp(const char *path)
{
    text t = {0};
    t.bytes = kmf_file_read(path, SIZE_MAX / 2, &t.len, NULL);
    ck_assert_ptr_nonnull(t.bytes);
    t.cap = t.len + 1;
    return t;
}

static inline void spill(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
    ck_assert_int_eq(fclose(file), 0);
}

/* What kmf_counts_save writes; the file is gone again. */
static inline text saved(const kmf_counts *counts, kmf_counts_format format, int full,
                         kmf_pool *pool)
{
    kmf_err err = {0};
    const char *path = in_dir("saved");
    int status = kmf_counts_save(counts, path, format, full, pool, NULL, &err);
    ck_assert_msg(status == 0, "%s", err.msg);
    text t = slurp(path);
    ck_assert_int_eq(unlink(path), 0);
    return t;
}

static inline void must_equal(const text *a, const text *b)
{
    size_t n = a->len < b->len ? a->len : b->len;
    for (size_t i = 0; i < n; i++)
        if (a->bytes[i] != b->bytes[i])
            ck_abort_msg("byte %zu differs: ...%.40s", i, a->bytes + (i > 20 ? i - 20 : 0));
    ck_assert_uint_eq(a->len, b->len);
}

static inline kmf_counts *parsed(const text *t)
{
    kmf_err err = {0};
    kmf_counts *counts = kmf_counts_parse(t->bytes, t->len, "x", &err);
    ck_assert_msg(counts != NULL, "%s", err.msg);
    return counts;
}

#endif
