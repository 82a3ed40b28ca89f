/* SPDX-License-Identifier: MIT */
/*
 * One vector of each sequence, pooled as embed/encode.c does it, and the way back:
 *
 *   mean      the mean over its k-mers       dx_t += dv / n
 *   mean-all  the same over all its tokens
 *   max       the greatest, number by number; the first of several takes the gradient
 *   cls       the first token
 *
 * from x, what left the last block, and with the words beside it also from x0, what went into the
 * first, whose gradient is added where that of the blocks has come through.
 *
 * Sums are in double, in the order of the tokens; a sequence is an item of work.
 */
#include "learn/mlm_room.h"
#include "model/config.h"

#include <assert.h>

/* What the call under way works on. */
typedef struct pooling {
    const kmf_mlm *m;
    const kmf_real *x;        /* [n, D] states */
    kmf_real *vectors;        /* numbers `at` .. at + D - 1 of [n_seq, columns] */
    const kmf_real *dvectors; /* the same, on the way back */
    size_t at, columns;
} pooling;

/* Tokens of a sequence that its vector is made from: *beg .. *end - 1. */
static void pooled_rows(const kmf_mlm *m, size_t s, size_t *beg, size_t *end)
{
    *beg = m->batch->off[s];
    *end = m->batch->off[s + 1];
    if (m->config.pooling == KMF_POOL_CLS) {
        *end = *beg + 1;
    } else if (m->config.pooling != KMF_POOL_MEAN_ALL && m->config.specials) {
        *beg += 1;
        *end -= 1;
    }
}

bool kmf_mlm_pools_words(const kmf_mlm *m)
{
    return m->opts.vectors && m->config.parts == KMF_PARTS_STATES_WORDS;
}

static size_t columns_of(const kmf_mlm *m)
{
    return kmf_config_columns(&m->config, m->config.parts);
}

static bool counts(const kmf_mlm *m, size_t t)
{
    return m->config.pooling == KMF_POOL_MEAN_ALL || m->batch->ids[t] != m->opts.unknown;
}

/* The number of tokens that a mean is over. */
static size_t count(const kmf_mlm *m, size_t beg, size_t end)
{
    size_t n = 0;
    for (size_t t = beg; t < end; t++)
        n += counts(m, t);
    return n;
}

/* The first token that is greatest in column d; `end`: none counts. */
static size_t greatest(const pooling *p, size_t beg, size_t end, size_t d)
{
    size_t best = end, D = p->m->D;
    for (size_t t = beg; t < end; t++)
        if (counts(p->m, t) && (best == end || p->x[t * D + d] > p->x[best * D + d]))
            best = t;
    return best;
}

static int pool_sequence(void *arg, size_t s, int worker, kmf_err *err)
{
    const pooling *p = arg;
    const kmf_mlm *m = p->m;
    size_t D = m->D, beg, end;
    (void)worker;
    (void)err;
    pooled_rows(m, s, &beg, &end);
    size_t n = count(m, beg, end);
    for (size_t d = 0; d < D; d++) {
        double sum = 0;
        if (m->config.pooling == KMF_POOL_MAX && n > 0) {
            sum = (double)p->x[greatest(p, beg, end, d) * D + d] * (double)n;
        } else {
            for (size_t t = beg; t < end; t++)
                sum += counts(m, t) ? (double)p->x[t * D + d] : 0;
        }
        p->vectors[s * p->columns + p->at + d] = n > 0 ? (kmf_real)(sum / (double)n) : 0;
    }
    return 0;
}

static int return_sequence(void *arg, size_t s, int worker, kmf_err *err)
{
    const pooling *p = arg;
    const kmf_mlm *m = p->m;
    const kmf_real *dv = p->dvectors + s * p->columns + p->at;
    size_t D = m->D, beg, end;
    (void)worker;
    (void)err;
    pooled_rows(m, s, &beg, &end);
    size_t n = count(m, beg, end);
    if (m->config.pooling == KMF_POOL_MAX) {
        for (size_t d = 0; d < D && n > 0; d++)
            m->dx[greatest(p, beg, end, d) * D + d] += dv[d];
        return 0;
    }
    for (size_t t = beg; t < end; t++)
        for (size_t d = 0; counts(m, t) && d < D; d++)
            m->dx[t * D + d] += dv[d] / (kmf_real)n;
    return 0;
}

int kmf_mlm_pool_forward(kmf_mlm *m, kmf_real *vectors, kmf_err *err)
{
    pooling p = {.m = m, .x = m->x, .vectors = vectors, .columns = columns_of(m)};
    assert(m->opts.vectors);
    int rc = kmf_pool_each(m->pool, m->batch->n_seq, pool_sequence, &p, err);
    if (rc < 0 || !kmf_mlm_pools_words(m))
        return rc;
    p.x = m->x0;
    p.at = m->D;
    return kmf_pool_each(m->pool, m->batch->n_seq, pool_sequence, &p, err);
}

int kmf_mlm_pool_backward(kmf_mlm *m, const kmf_real *dvectors, kmf_err *err)
{
    pooling p = {.m = m, .x = m->x, .dvectors = dvectors, .columns = columns_of(m)};
    return kmf_pool_each(m->pool, m->batch->n_seq, return_sequence, &p, err);
}

int kmf_mlm_pool_words_backward(kmf_mlm *m, const kmf_real *dvectors, kmf_err *err)
{
    pooling p = {
        .m = m, .x = m->x0, .dvectors = dvectors, .at = m->D, .columns = columns_of(m)};
    return kmf_pool_each(m->pool, m->batch->n_seq, return_sequence, &p, err);
}
