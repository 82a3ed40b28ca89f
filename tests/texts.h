/* SPDX-License-Identifier: MIT */
/* Texts that grow, and files as texts. */
#ifndef KMF_TEST_TEXTS_H
#define KMF_TEST_TEXTS_H

#include "files.h"

#include <stdint.h>

typedef struct text {
    char *bytes; /* owned */
    size_t len;
    size_t cap;
} text;

/*
 * What is called for every piece of every text does without ck_assert, which writes to a file each
 * time, whether it holds or not.
 */
static inline void add_bytes(text *t, const void *bytes, size_t n)
{
    if (n >= SIZE_MAX / 4)
        ck_abort_msg("a piece of %zu bytes", n);
    if (t->len + n + 1 > t->cap) {
        t->cap = (t->len + n + 1) * 2;
        t->bytes = realloc(t->bytes, t->cap);
        if (!t->bytes)
            ck_abort_msg("no memory");
    }
    if (n > 0)
        memcpy(t->bytes + t->len, bytes, n);
    t->len += n;
    t->bytes[t->len] = '\0';
}

static inline void add(text *t, const char *string)
{
    add_bytes(t, string, strlen(string));
}

static inline text read_file(const char *path)
{
    static char block[65536];
    text t = {0};
    size_t got;
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "%s", path);
    while ((got = fread(block, 1, sizeof block, file)) > 0)
        add_bytes(&t, block, got);
    fclose(file);
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

#endif
