/* SPDX-License-Identifier: MIT */
/*
 * The composition of each sequence (nn/composition.h has the equations), and the way back to the
 * table:
 *
 *   z_s = the mean over its k-mers t of table[id_t]      dtable[id_t] += dz_s / n
 *
 * Some sequences are an item of work, their sums are in double, in the order of the tokens; those
 * of dtable go over all sequences, some columns of the table an item.
 */
#include "base/mem.h"
#include "learn/mlm_room.h"
#include "model/layout.h"
#include "nn/composition.h"

#include <assert.h>

/* Sequences that are composed together. */
#define AT_ONCE ((size_t)8)

/* What the call under way works on. */
typedef struct composing {
    const kmf_mlm *m;
    kmf_composer weights;
    kmf_real *vectors; /* [n_seq, C] */
} composing;

static void mean_of(kmf_real *mean, const kmf_mlm *m, size_t s)
{
    size_t C = m->config.composition, beg, end;
    kmf_mlm_pooled(m, s, &beg, &end);
    size_t n = kmf_mlm_count(m, beg, end);
    double sum[KMF_COMPOSITION_MAX] = {0};
    for (size_t t = beg; t < end; t++) {
        const kmf_real *row = m->w->comp_word + (size_t)m->batch->ids[t] * C;
        if (!kmf_mlm_counts(m, t))
            continue;
        for (size_t i = 0; i < C; i++)
            sum[i] += (double)row[i];
    }
    for (size_t i = 0; i < C; i++)
        mean[i] = n > 0 ? (kmf_real)(sum[i] / (double)n) : 0;
}

/* Those of sequence i and the ones behind it, for the way forward. */
static kmf_composing between_from(const kmf_composing *all, size_t C, size_t i)
{
    size_t F = KMF_COMPOSITION_HIDDEN * C;
    return (kmf_composing){.u = all->u + i * C, .h = all->h + i * F, .act = all->act + i * F};
}

/* Sequences `item` * AT_ONCE and on. */
static int compose_some(void *arg, size_t item, int worker, kmf_err *err)
{
    const composing *p = arg;
    const kmf_mlm *m = p->m;
    size_t C = m->config.composition, beg = item * AT_ONCE;
    size_t n = kmf_min(m->batch->n_seq - beg, AT_ONCE);
    kmf_composing between = between_from(&m->composing, C, beg);
    (void)worker;
    (void)err;
    for (size_t s = beg; s < beg + n; s++)
        mean_of(m->means + s * C, m, s);
    kmf_composition_forward(p->vectors + beg * C, m->means + beg * C, &p->weights, &between, n);
    return 0;
}

/* Columns `item` * KMF_WORD_COLS and on of the table's gradient. */
static int return_columns(void *arg, size_t item, int worker, kmf_err *err)
{
    const kmf_mlm *m = arg;
    size_t C = m->config.composition, beg, end;
    size_t from = item * KMF_WORD_COLS;
    size_t to = C - from < KMF_WORD_COLS ? C : from + KMF_WORD_COLS;
    (void)worker;
    (void)err;
    for (size_t s = 0; s < m->batch->n_seq; s++) {
        const kmf_real *dz = m->dmeans + s * C;
        kmf_mlm_pooled(m, s, &beg, &end);
        kmf_real n = (kmf_real)kmf_mlm_count(m, beg, end);
        for (size_t t = beg; t < end; t++) {
            kmf_real *row = m->d->comp_word + (size_t)m->batch->ids[t] * C;
            if (!kmf_mlm_counts(m, t))
                continue;
            for (size_t i = from; i < to; i++)
                row[i] += dz[i] / n;
        }
    }
    return 0;
}

int kmf_mlm_compose_forward(kmf_mlm *m, kmf_real *vectors, kmf_err *err)
{
    composing p = {.m = m, .weights = kmf_composer_of(m->w, &m->config), .vectors = vectors};
    assert(m->opts.composes && m->batch->n_seq <= m->opts.max_seqs);
    return kmf_pool_each(m->pool, kmf_div_up(m->batch->n_seq, AT_ONCE), compose_some, &p, err);
}

int kmf_mlm_compose_backward(kmf_mlm *m, const kmf_real *dvectors, kmf_err *err)
{
    kmf_composer weights = kmf_composer_of(m->w, &m->config);
    kmf_composer gradients = kmf_composer_of(m->d, &m->config);
    size_t C = weights.C;
    kmf_composition_backward(m->dmeans, &gradients, dvectors, m->means, &weights, &m->composing,
                             m->batch->n_seq);
    return kmf_pool_each(m->pool, kmf_div_up(C, KMF_WORD_COLS), return_columns, m, err);
}
