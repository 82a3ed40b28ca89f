/* SPDX-License-Identifier: MIT */
/*
 * One vector of each sequence, pooled as embed/encode.c does it, and the way back:
 *
 *   mean      the mean over its k-mers       dx_t += dv / n
 *   mean-all  the same over all its tokens
 *   max       the greatest, number by number; the first of several takes the gradient
 *   cls       the first token
 *
 * from x, what left the last block.
 *
 * Sums are in double, in the order of the tokens; a sequence is an item of work.
 */
#include "learn/mlm_room.h"

#include <assert.h>

/* What the call under way works on. */
typedef struct pooling {
    const kmf_mlm *m;
    kmf_real *vectors;        /* [n_seq, D] */
    const kmf_real *dvectors; /* the same, on the way back */
} pooling;

void kmf_mlm_pooled(const kmf_mlm *m, size_t s, size_t *beg, size_t *end)
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

bool kmf_mlm_counts(const kmf_mlm *m, size_t t)
{
    return m->config.pooling == KMF_POOL_MEAN_ALL || m->batch->ids[t] != m->opts.unknown;
}

size_t kmf_mlm_count(const kmf_mlm *m, size_t beg, size_t end)
{
    size_t n = 0;
    for (size_t t = beg; t < end; t++)
        n += kmf_mlm_counts(m, t);
    return n;
}

/* The first token that is greatest in column d; `end`: none counts. */
static size_t greatest(const kmf_mlm *m, size_t beg, size_t end, size_t d)
{
    size_t best = end, D = m->D;
    for (size_t t = beg; t < end; t++)
        if (kmf_mlm_counts(m, t) && (best == end || m->x[t * D + d] > m->x[best * D + d]))
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
    kmf_mlm_pooled(m, s, &beg, &end);
    size_t n = kmf_mlm_count(m, beg, end);
    for (size_t d = 0; d < D; d++) {
        double sum = 0;
        if (m->config.pooling == KMF_POOL_MAX && n > 0) {
            sum = (double)m->x[greatest(m, beg, end, d) * D + d] * (double)n;
        } else {
            for (size_t t = beg; t < end; t++)
                sum += kmf_mlm_counts(m, t) ? (double)m->x[t * D + d] : 0;
        }
        p->vectors[s * D + d] = n > 0 ? (kmf_real)(sum / (double)n) : 0;
    }
    return 0;
}

static int return_sequence(void *arg, size_t s, int worker, kmf_err *err)
{
    const pooling *p = arg;
    const kmf_mlm *m = p->m;
    size_t D = m->D, beg, end;
    const kmf_real *dv = p->dvectors + s * D;
    (void)worker;
    (void)err;
    kmf_mlm_pooled(m, s, &beg, &end);
    size_t n = kmf_mlm_count(m, beg, end);
    if (m->config.pooling == KMF_POOL_MAX) {
        for (size_t d = 0; d < D && n > 0; d++)
            m->dx[greatest(m, beg, end, d) * D + d] += dv[d];
        return 0;
    }
    for (size_t t = beg; t < end; t++)
        for (size_t d = 0; kmf_mlm_counts(m, t) && d < D; d++)
            m->dx[t * D + d] += dv[d] / (kmf_real)n;
    return 0;
}

int kmf_mlm_pool_forward(kmf_mlm *m, kmf_real *vectors, kmf_err *err)
{
    pooling p = {.m = m, .vectors = vectors};
    assert(m->opts.vectors);
    return kmf_pool_each(m->pool, m->batch->n_seq, pool_sequence, &p, err);
}

int kmf_mlm_pool_backward(kmf_mlm *m, const kmf_real *dvectors, kmf_err *err)
{
    pooling p = {.m = m, .dvectors = dvectors};
    return kmf_pool_each(m->pool, m->batch->n_seq, return_sequence, &p, err);
}
