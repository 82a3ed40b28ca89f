/* SPDX-License-Identifier: MIT */
/*
 * Self-attention of one head (Vaswani et al., 2017, eq. 1; nothing is masked), some queries and
 * KEYS keys at a time, so that what is at work stays in the second-level cache:
 *
 *   panels of k^T and of v                             once
 *   for up to ROWS queries
 *     q' = q log2(e) / sqrt K
 *     for KEYS keys
 *       S = q' k^T - slope log2(e) |t - u|             [ROWS, KEYS]
 *       m' = max(m, max S)   P = 2^(S - m')
 *       s = s 2^(m - m') + sum P   O = O 2^(m - m') + P v
 *     out = O / s                                      [ROWS, K]
 *
 * m and s are the running maximum and sum of a softmax taken in pieces (Milakov and Gimelshein
 * 2018, arXiv 1805.02867; Dao et al. 2022, FlashAttention). Where a piece begins depends on
 * neither the processor nor the threads. Scores are float32 sums, or exact ones of bytes, q' by
 * rows and k by keys with a scale of their own (nn/panels.h). With values in bf16 the weights are
 * rounded, too; sums are float32.
 *
 * A score that is NaN or +infinity makes its row NaN; where scores are of bytes, a key that is not
 * finite makes all rows NaN.
 */
#include "nn/attend.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "nn/panels.h"
#include "nn/vmath.h"
#include "nn/weigh.h"

#include <assert.h>
#include <math.h>

#define ROWS KMF_WEIGH_ROWS
#define FEW_ROWS \
    12 /* while keys and values stay in the second-level cache: scores in the first */
#define FEW_TOKENS 4096
#define KEYS 576 /* a multiple of the columns of every kernel's panel */
#define LOG2_E 1.44269504f

_Static_assert(KEYS % KMF_WEIGH_STEP == 0, "a row of scores is filled up to whole steps");

typedef struct layout {
    size_t keys, values, scores, weights, queries, sums, bytes; /* offsets; bytes in all */
} layout;

static bool place(size_t *at, size_t *bytes, size_t n)
{
    *at = *bytes;
    return kmf_add(n, 63, &n) && kmf_add(*bytes, n / 64 * 64, bytes);
}

/* The kernels of both products. */
typedef struct kernels {
    const kmf_kernel *scores, *values;
} kernels;

static kernels kernels_for(kmf_attend_precision precision)
{
    return (kernels){kmf_kernel_for(precision.scores), kmf_kernel_for(precision.values)};
}

/* false if it does not fit a size_t. */
static bool lay_out(layout *l, const kernels *with, size_t T, size_t K)
{
    size_t cols = with->values->cols;
    size_t keys = kmf_panels_bytes(with->scores, T, K);
    size_t values = kmf_panels_bytes(with->values, K, T);
    size_t out = (K + cols - 1) / cols * cols;
    size_t weights = kmf_words_ld(with->values, KEYS);
    size_t queries = kmf_words_ld(with->scores, K);
    *l = (layout){0};
    return keys && values && place(&l->keys, &l->bytes, keys) &&
           place(&l->values, &l->bytes, values) &&
           place(&l->scores, &l->bytes, ROWS * KEYS * sizeof(float)) &&
           place(&l->weights, &l->bytes, ROWS * weights * sizeof(float)) &&
           place(&l->queries, &l->bytes, ROWS * queries * sizeof(float)) &&
           place(&l->sums, &l->bytes, ROWS * out * sizeof(float));
}

size_t kmf_attend_scratch(size_t T, size_t K, kmf_attend_precision precision)
{
    layout l;
    kernels with = kernels_for(precision);
    return lay_out(&l, &with, T, K) ? l.bytes : 0;
}

/* ---------------------------------------------------------------- scores ----------------- */

/* What turns sums of bytes into scores (nn/panels.h). */
typedef struct quantised {
    float scale[ROWS], low[ROWS];       /* of the queries */
    const float *key_scales, *key_sums; /* of the first key at work, and on */
} quantised;

/* Sums [rows, n] become the scores that they stand for, in their place. */
static void number_scores(float *scores, size_t ld, const quantised *q, size_t rows, size_t n);

static KMF_INLINE void number_scores_body(bool fused, float *scores, size_t ld,
                                          const quantised *q, size_t rows, size_t n)
{
    for (size_t i = 0; i < rows; i++) {
        float *row = scores + i * ld;
        const int32_t *sums = (const int32_t *)(const void *)row;
        KMF_INDEPENDENT
        for (size_t j = 0; j < n; j++)
            row[j] = kmf_int8_number(fused, sums[j], q->scale[i], q->low[i], q->key_scales[j],
                                     q->key_sums[j]);
    }
}

KMF_CLONES_FUSED(number_scores,
                 (float *scores, size_t ld, const quantised *q, size_t rows, size_t n),
                 (scores, ld, q, rows, n))

/* scores [rows, n] of the queries t .. and the keys u ..: less slope for each place between. */
static void lean(float *scores, size_t ld, float slope, size_t t, size_t u, size_t rows,
                 size_t n);

static KMF_INLINE void lean_body(float *scores, size_t ld, float slope, size_t t, size_t u,
                                 size_t rows, size_t n)
{
    for (size_t i = 0; i < rows; i++) {
        float *row = scores + i * ld;
        int32_t first = (int32_t)u - (int32_t)(t + i);
        for (size_t j = 0; j < n; j++) {
            int32_t apart = first + (int32_t)j;
            row[j] -= slope * (float)(apart < 0 ? -apart : apart);
        }
    }
}

KMF_CLONES(lean,
           (float *scores, size_t ld, float slope, size_t t, size_t u, size_t rows, size_t n),
           (scores, ld, slope, t, u, rows, n))

/* to [rows, K] = from times a factor for each row; they may be the same. */
static void scale_rows(float *to, size_t ld_to, const float *from, size_t ld,
                       const float *factor, size_t rows, size_t K);

static KMF_INLINE void scale_rows_body(float *to, size_t ld_to, const float *from, size_t ld,
                                       const float *factor, size_t rows, size_t K)
{
    for (size_t i = 0; i < rows; i++) {
        float f = factor[i];
        KMF_INDEPENDENT
        for (size_t j = 0; j < K; j++)
            to[i * ld_to + j] = from[i * ld + j] * f;
    }
}

KMF_CLONES(scale_rows,
           (float *to, size_t ld_to, const float *from, size_t ld, const float *factor,
            size_t rows, size_t K),
           (to, ld_to, from, ld, factor, rows, K))

/* ---------------------------------------------------------------- attention -------------- */

/* c (+)= a b over all panels of N columns; c has room for whole panels. */
static void multiply(float *c, size_t ld_c, const float *a, size_t ld_a, const float *panels,
                     size_t panel_words, const kmf_kernel *kernel, size_t M, size_t N, size_t K,
                     bool more)
{
    for (size_t beg = 0; beg < N; beg += kernel->cols) {
        size_t cols = N - beg < kernel->cols ? N - beg : kernel->cols;
        kernel->panel(c + beg, ld_c, a, ld_a, panels + beg / kernel->cols * panel_words, M,
                      cols, K, more, (kmf_ahead){0});
    }
}

/* q' of some queries, as the product with keys reads it. room: [rows, K] floats */
static void take_queries(float *queries, size_t ld_queries, quantised *units, const float *q,
                         size_t ld, float *room, const kmf_kernel *kernel, size_t rows,
                         size_t K)
{
    bool exact = kernel->terms == 1;
    float unit = (float)(1.0 / sqrt((double)K)) * LOG2_E;
    float factor[ROWS];
    for (size_t i = 0; i < rows; i++)
        factor[i] = unit;
    scale_rows(exact ? queries : room, exact ? ld_queries : K, q, ld, factor, rows, K);
    if (kernel->terms == 2)
        kmf_words_bf16(queries, ld_queries, room, K, rows, K);
    else if (kernel->terms == 4)
        kmf_words_int8(queries, ld_queries, units->scale, units->low, room, K, rows, K);
}

void kmf_attend(float *out, size_t ld_out, const float *q, const float *k, const float *v,
                size_t ld, void *scratch, size_t t0, size_t t1, size_t T, size_t K, float slope,
                kmf_attend_precision precision)
{
    kernels with = kernels_for(precision);
    bool rough = with.values->terms > 1;
    size_t cols = with.values->cols;
    size_t words = kmf_kernel_words(with.scores, K);
    size_t value_words = kmf_kernel_words(with.values, T) * cols; /* of a panel of v */
    size_t ld_sums = (K + cols - 1) / cols * cols;
    size_t ld_queries = kmf_words_ld(with.scores, K);
    size_t ld_weights = kmf_words_ld(with.values, KEYS);
    layout l;
    bool fits = lay_out(&l, &with, T, K);
    assert(fits && t0 <= t1 && t1 <= T && (rough || with.scores->terms == 1));
    (void)fits;
    char *room = scratch;
    float *keys = (float *)(void *)(room + l.keys);
    float *values = (float *)(void *)(room + l.values);
    float *scores = (float *)(void *)(room + l.scores);
    float *weights = (float *)(void *)(room + l.weights);
    float *queries = (float *)(void *)(room + l.queries);
    float *sums = (float *)(void *)(room + l.sums);
    size_t step = T <= FEW_TOKENS ? FEW_ROWS : ROWS;
    kmf_running r;
    quantised units = {0};

    kmf_panels_pack(keys, with.scores, (const float *[]){k}, 1, ld, T, K);
    kmf_panels_pack_back(values, with.values, (const float *[]){v}, 1, ld, T, K);
    for (size_t t = t0; t < t1; t += step) {
        size_t rows = t1 - t < step ? t1 - t : step;
        take_queries(queries, ld_queries, &units, q + t * ld, ld, sums, with.scores, rows, K);
        for (size_t u = 0; u < T; u += KEYS) {
            size_t n = T - u < KEYS ? T - u : KEYS;
            multiply(scores, KEYS, queries, ld_queries, keys + u * words,
                     words * with.scores->cols, with.scores, rows, n, words,
                     false); /* [rows, n] */
            if (with.scores->terms == 4) {
                units.key_scales = kmf_panels_scales(with.scores, keys, T, K) + u;
                units.key_sums = units.key_scales + T;
                number_scores(scores, KEYS, &units, rows, n);
            }
            if (slope > 0)
                lean(scores, KEYS, slope * LOG2_E, t, u, rows, n);
            if (rough)
                kmf_weigh_bf16(weights, ld_weights, scores, KEYS, &r, u == 0, rows, n);
            else
                kmf_weigh(scores, KEYS, &r, u == 0, rows, n);
            if (u > 0)
                scale_rows(sums, ld_sums, sums, ld_sums, r.factor, rows, K);
            multiply(sums, ld_sums, rough ? weights : scores, rough ? ld_weights : KEYS,
                     values + u / with.values->terms * cols, value_words, with.values, rows, K,
                     kmf_kernel_words(with.values, n), u > 0); /* [rows, K] */
        }
        for (size_t i = 0; i < rows; i++)
            r.factor[i] = 1 / r.sum[i];
        scale_rows(out + t * ld_out, ld_out, sums, ld_sums, r.factor, rows, K);
    }
}
