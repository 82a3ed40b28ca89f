/* SPDX-License-Identifier: MIT */
/* All rows of a run of the embedder, to be looked at and compared. */
#ifndef KMF_TEST_ROWS_H
#define KMF_TEST_ROWS_H

#include "kmerformer.h"

#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 32768

/* The usual ones, on two threads. */
static inline kmf_embed_options options(void)
{
    kmf_embed_options o;
    kmf_embed_options_default(&o);
    o.threads = 2;
    return o;
}

typedef struct table {
    float *values; /* [n, dim] */
    size_t n;
    size_t dim;
    uint64_t index[ROWS_MAX];
    int64_t position[ROWS_MAX];
    uint64_t tokens[ROWS_MAX];
    uint64_t ambiguous[ROWS_MAX];
} table;

static inline int keep(void *user, const kmf_row *row, kmf_err *err)
{
    table *t = user;
    (void)err;
    ck_assert_uint_lt(t->n, ROWS_MAX);
    t->values = realloc(t->values, (t->n + 1) * t->dim * sizeof *t->values);
    memcpy(t->values + t->n * t->dim, row->vector, t->dim * sizeof *t->values);
    t->index[t->n] = row->index;
    t->position[t->n] = row->position;
    t->tokens[t->n] = row->tokens;
    t->ambiguous[t->n] = row->ambiguous;
    t->n++;
    return 0;
}

static inline int ignore(void *user, const kmf_row *row, kmf_err *err)
{
    (void)user;
    (void)row;
    (void)err;
    return 0;
}

static inline void add_all(kmf_embedder *e, const char *const *seqs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ck_assert_int_eq(kmf_embedder_add(e, "a name", seqs[i], strlen(seqs[i]), NULL), 0);
    ck_assert_int_eq(kmf_embedder_finish(e, NULL), 0);
}

static inline table *run(const char *model, const kmf_embed_options *o, const char *const *seqs,
                         size_t n, kmf_embed_stats *stats)
{
    kmf_err err = {0};
    table *t = calloc(1, sizeof *t);
    kmf_embedder *e = kmf_embedder_new(model, o, &err);
    ck_assert_msg(e != NULL, "%s", err.msg);
    t->dim = kmf_embedder_dim(e);
    kmf_embedder_sink(e, keep, t);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(kmf_embedder_add(e, "x", seqs[i], strlen(seqs[i]), &err) == 0, "%s",
                      err.msg);
    ck_assert_msg(kmf_embedder_finish(e, &err) == 0, "%s", err.msg);
    if (stats)
        kmf_embedder_statistics(e, stats);
    kmf_embedder_free(e);
    return t;
}

static inline void drop(table *t)
{
    free(t->values);
    free(t);
}

static inline void assert_same(const table *a, const table *b)
{
    ck_assert_uint_eq(a->n, b->n);
    ck_assert_uint_eq(a->dim, b->dim);
    ck_assert_int_eq(memcmp(a->values, b->values, a->n * a->dim * sizeof(float)), 0);
    ck_assert_int_eq(memcmp(a->position, b->position, a->n * sizeof *a->position), 0);
}

#endif
