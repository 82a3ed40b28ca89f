/* SPDX-License-Identifier: MIT */
/*
 * Self-attention of one head (Vaswani et al., 2017, eq. 1; nothing is masked), some queries and
 * KEYS keys at a time, so that what is at work stays in the second-level cache:
 *
 *   panels of k^T and of v                             once
 *   for some queries, rows of them
 *     q' = q log2(e) / sqrt K
 *     for KEYS keys
 *       S = q' k^T - slope log2(e) |t - u|             [rows, KEYS]
 *       m' = max(m, max S)   P = 2^(S - m')
 *       s = s 2^(m - m') + sum P   O = O 2^(m - m') + P v
 *     out = O / s                                      [rows, K]
 *
 * m and s are the running maximum and sum of a softmax taken in pieces (Milakov and Gimelshein
 * 2018, arXiv 1805.02867; Dao et al. 2022, FlashAttention). Where a piece begins depends on
 * neither the processor nor the threads. S are float32 sums, or exact ones of integers, q' by rows
 * and k by keys with a scale of their own (nn/panels.h). P is rounded to what v is in
 * (nn/softmax.h); v in integers has a scale for each column. Sums of integers are exact within KEYS
 * keys, O is float32.
 *
 * A score that is NaN or +infinity makes its row NaN; where scores are of integers, or numbers have
 * parts (nn/kernels.h), a key that is not finite makes all rows NaN. A value that is not finite
 * makes its column NaN, or infinite.
 */
#include "nn/attention.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "nn/panels.h"
#include "nn/quantise.h"
#include "nn/softmax.h"
#include "nn/vmath.h"

#include <assert.h>
#include <math.h>

#define MOST_ROWS KMF_SOFTMAX_ROWS /* a multiple of a tile's, as are those of rows_at_once */
#define FEW_TOKENS 4096
#define KEYS 576 /* a multiple of the columns of every kernel's panel */
#define LOG2_E 1.44269504f

_Static_assert((int64_t)KEYS *KMF_WEIGHT_INT16 *KMF_VALUE_INT16 <= INT32_MAX,
               "no sum of int16 overflows");
_Static_assert(KEYS % KMF_SOFTMAX_STEP == 0, "a row of scores is filled up to whole steps");

typedef struct layout {
    size_t keys, values, scores, weights, queries, sums, parts; /* offsets */
    size_t bytes;                                               /* in all */
} layout;

/* The kernels of both products. */
typedef struct kernels {
    const kmf_kernel *scores, *values;
} kernels;

static kernels kernels_for(kmf_attention_precision precision)
{
    return (kernels){kmf_kernel_of(precision.scores), kmf_kernel_of(precision.values)};
}

/*
 * Queries at a time. While keys and values stay in the second-level cache, few, for which scores
 * stay in the first or nearly so; then so many that keys and values come from the third seldom
 * enough. In float32 keys and values are larger, so these come first. Tiles are faster than either
 * cache, and read whole ones.
 */
static size_t rows_at_once(const kernels *with, size_t T)
{
    if (with->scores->tiled || with->values->tiled)
        return T <= FEW_TOKENS ? 48 : MOST_ROWS;
    return T > FEW_TOKENS ? 48 : with->values->operand == KMF_OPERAND_F32 ? 24 : 12;
}

/* false if it does not fit a size_t. */
static bool lay_out(layout *l, const kernels *with, size_t T, size_t K)
{
    size_t cols = with->values->width;
    size_t rows = rows_at_once(with, T);
    size_t keys = kmf_panels_bytes(with->scores, T, K);
    size_t values = kmf_panels_bytes(with->values, K, T);
    size_t out = kmf_round_up(K, cols);
    size_t weights = kmf_words_ld(with->values, KEYS);
    size_t queries = kmf_words_ld(with->scores, K);
    *l = (layout){0};
    return keys && values && kmf_place(&l->keys, &l->bytes, keys, 1) &&
           kmf_place(&l->values, &l->bytes, values, 1) &&
           kmf_place(&l->scores, &l->bytes, rows * KEYS, sizeof(float)) &&
           kmf_place(&l->weights, &l->bytes, rows * weights, sizeof(float)) &&
           kmf_place(&l->queries, &l->bytes, rows * queries, sizeof(float)) &&
           kmf_place(&l->sums, &l->bytes, rows * out, sizeof(float)) &&
           kmf_place(&l->parts, &l->bytes, rows * out, sizeof(int32_t));
}

size_t kmf_attention_scratch(size_t T, size_t K, kmf_attention_precision precision)
{
    layout l;
    kernels with = kernels_for(precision);
    return lay_out(&l, &with, T, K) ? l.bytes : 0;
}

/* ---------------------------------------------------------------- scores ----------------- */

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

/* Sums of integers [rows, K], with a scale for each column, go into those so far, or begin them. */
static void take_parts(float *sums, const int32_t *parts, size_t ld, const float *factor,
                       const float *scales, bool first, size_t rows, size_t K);

static KMF_INLINE void take_parts_body(float *restrict sums, const int32_t *restrict parts,
                                       size_t ld, const float *factor,
                                       const float *restrict scales, bool first, size_t rows,
                                       size_t K)
{
    for (size_t i = 0; i < rows; i++) {
        float *row = sums + i * ld;
        const int32_t *part = parts + i * ld;
        if (first)
            for (size_t j = 0; j < K; j++)
                row[j] = (float)part[j] * scales[j];
        else
            for (size_t j = 0; j < K; j++)
                row[j] = row[j] * factor[i] + (float)part[j] * scales[j];
    }
}

KMF_CLONES(take_parts,
           (float *sums, const int32_t *parts, size_t ld, const float *factor,
            const float *scales, bool first, size_t rows, size_t K),
           (sums, parts, ld, factor, scales, first, rows, K))

/* ---------------------------------------------------------------- attention -------------- */

/* c (+)= a b over all panels of N columns; c, float or int32, has room for whole panels. */
static void multiply(void *c, size_t ld_c, const float *a, size_t ld_a, const float *panels,
                     size_t panel_words, const kmf_kernel *kernel, size_t M, size_t N, size_t K,
                     bool more)
{
    size_t most = kernel->tiled ? N : kernel->width;
    for (size_t beg = 0; beg < N; beg += most) {
        size_t cols = kmf_min(N - beg, most);
        kernel->panel((float *)c + beg, ld_c, a, ld_a,
                      panels + beg / kernel->cols * panel_words, panel_words, M, cols, K, more,
                      (kmf_ahead){0});
    }
}

/* One head at work. */
typedef struct head {
    kernels with;
    size_t T, K;
    size_t key_words;                         /* of a key */
    size_t ld_queries, ld_weights, ld_sums;   /* words */
    float *keys, *values;                     /* panels */
    float *queries, *scores, *weights, *sums; /* of some queries; weights may be scores */
    int32_t *parts;                           /* sums of integers */
    float slope;
    kmf_score_units units;
    const float *most; /* the largest score of each of them; NULL: not known */
    float largest[MOST_ROWS];
    kmf_softmax_state r;
} head;

static void open_head(head *h, void *scratch, const kmf_attention_head *of)
{
    size_t T = of->T, K = of->K;
    kmf_attention_precision precision = of->precision;
    kernels with = kernels_for(precision);
    layout l;
    bool fits = lay_out(&l, &with, T, K);
    assert(fits);
    assert(precision.scores == precision.values ||
           ((precision.scores == KMF_OPERAND_INT16 || precision.scores == KMF_OPERAND_SPLIT) &&
            (precision.values == KMF_OPERAND_F32 || precision.values == KMF_OPERAND_BF16)));
    (void)fits;
    char *room = scratch;
    bool in_place = with.values->terms == 1;
    *h = (head){.with = with,
                .T = T,
                .K = K,
                .key_words = kmf_kernel_words(with.scores, K),
                .ld_queries = kmf_words_ld(with.scores, K),
                .ld_weights = in_place ? KEYS : kmf_words_ld(with.values, KEYS),
                .ld_sums = kmf_round_up(K, with.values->width),
                .keys = (float *)(void *)(room + l.keys),
                .values = (float *)(void *)(room + l.values),
                .queries = (float *)(void *)(room + l.queries),
                .scores = (float *)(void *)(room + l.scores),
                .weights = (float *)(void *)(room + (in_place ? l.scores : l.weights)),
                .sums = (float *)(void *)(room + l.sums),
                .parts = (int32_t *)(void *)(room + l.parts),
                .slope = of->slope * LOG2_E};
}

/* q' of some queries, as the product with keys reads it. */
static void take_queries(head *h, const float *q, size_t ld, size_t rows)
{
    kmf_operand operand = h->with.scores->operand;
    bool in_place = h->with.scores->terms == 1;
    size_t K = h->K;
    float unit = (float)(1.0 / sqrt((double)K)) * LOG2_E;
    float factor[MOST_ROWS];
    kmf_rows to = kmf_kernel_rows(h->with.scores, h->queries, h->ld_queries);
    for (size_t i = 0; i < rows; i++)
        factor[i] = unit;
    scale_rows(in_place ? h->queries : h->sums, in_place ? h->ld_queries : K, q, ld, factor,
               rows, K);
    if (operand == KMF_OPERAND_INT8)
        kmf_words_int8(to, h->units.scale, h->units.low, h->sums, K, rows, K);
    else if (operand == KMF_OPERAND_INT16)
        kmf_words_int16(to, h->units.scale, h->units.low, h->sums, K, rows, K);
    else if (!in_place)
        kmf_words_bf16(to, h->sums, K, rows, K);
}

/* Those of rows t .. that come next: far apart, so that no processor sees them coming. */
static void fetch_queries(const head *h, const float *q, size_t ld, size_t t, size_t end)
{
    for (; t < end; t++)
        for (size_t j = 0; j < h->K; j += 16)
            __builtin_prefetch(q + t * ld + j, 0, 2);
}

/* S of the queries t .. and the n keys from u on. */
static void score(head *h, size_t t, size_t u, size_t rows, size_t n)
{
    const kmf_kernel *kernel = h->with.scores;
    multiply(h->scores, KEYS, h->queries, h->ld_queries, h->keys + u * h->key_words,
             h->key_words * kernel->cols, kernel, rows, n, h->key_words, false); /* [rows, n] */
    h->most = NULL;
    if (kmf_has_scales(kernel)) {
        h->units.key_scales = kmf_panels_scales(kernel, h->keys, h->T, h->K) + u;
        h->units.key_sums = h->units.key_scales + h->T;
        kmf_scores_of_integers(h->scores, KEYS, &h->units, h->largest, rows, n);
        h->most = h->slope > 0 ? NULL : h->largest;
    }
    if (h->slope > 0)
        lean(h->scores, KEYS, h->slope, t, u, rows, n);
}

static void softmax(head *h, bool first, size_t rows, size_t n)
{
    kmf_rows to = kmf_kernel_rows(h->with.values, h->weights, h->ld_weights);
    kmf_operand operand = h->with.values->operand;
    if (operand == KMF_OPERAND_BF16)
        kmf_softmax_step_bf16(to, h->scores, KEYS, &h->r, h->most, first, rows, n);
    else if (operand == KMF_OPERAND_INT8)
        kmf_softmax_step_int8(to, h->scores, KEYS, &h->r, h->most, first, rows, n);
    else if (operand == KMF_OPERAND_INT16)
        kmf_softmax_step_int16(to, h->scores, KEYS, &h->r, h->most, first, rows, n);
    else
        kmf_softmax_step(h->scores, KEYS, &h->r, h->most, first, rows, n);
    if (h->with.values->parts > 1)
        kmf_words_bf16(to, h->scores, KEYS, rows, n);
}

/* O = O 2^(m - m') + P v for the n values from u on; O = P v for the first ones. */
static void add_values(head *h, size_t u, size_t rows, size_t n)
{
    const kmf_kernel *kernel = h->with.values;
    bool integers = kmf_has_scales(kernel);
    size_t words = kmf_kernel_words(kernel, n);
    if (u > 0 && !integers)
        scale_rows(h->sums, h->ld_sums, h->sums, h->ld_sums, h->r.factor, rows, h->K);
    multiply(integers ? (void *)h->parts : h->sums, h->ld_sums, h->weights, h->ld_weights,
             h->values + kmf_kernel_words(kernel, u) * kernel->cols,
             kmf_kernel_words(kernel, h->T) * kernel->cols, kernel, rows, h->K, words,
             u > 0 && !integers); /* [rows, K] */
    if (integers)
        take_parts(h->sums, h->parts, h->ld_sums, h->r.factor,
                   kmf_panels_scales(kernel, h->values, h->K, h->T), u == 0, rows, h->K);
}

void kmf_attention(float *out, size_t ld_out, const kmf_attention_head *of, void *scratch,
                   size_t t0, size_t t1)
{
    head h;
    const float *q = of->q;
    size_t ld = of->ld, T = of->T, K = of->K;
    assert(t0 <= t1 && t1 <= T);
    open_head(&h, scratch, of);
    size_t step = rows_at_once(&h.with, T);
    kmf_panels_pack(h.keys, h.with.scores, (const float *[]){of->k}, 1, ld, T, K);
    kmf_panels_pack_back(h.values, h.with.values, (const float *[]){of->v}, 1, ld, T, K);
    bool tiled = h.with.scores->tiled || h.with.values->tiled;
    kmf_kernels_open(tiled);
    for (size_t t = t0; t < t1; t += step) {
        size_t rows = kmf_min(t1 - t, step);
        take_queries(&h, q + t * ld, ld, rows);
        fetch_queries(&h, q, ld, t + rows, t1 - t < 2 * step ? t1 : t + 2 * step);
        for (size_t u = 0; u < T; u += KEYS) {
            size_t n = kmf_min(T - u, KEYS);
            score(&h, t, u, rows, n);
            softmax(&h, u == 0, rows, n);
            add_values(&h, u, rows, n);
        }
        for (size_t i = 0; i < rows; i++)
            h.r.factor[i] = 1 / h.r.sum[i];
        scale_rows(out + t * ld_out, ld_out, h.sums, h.ld_sums, h.r.factor, rows, K);
    }
    kmf_kernels_close(tiled);
}
