/* SPDX-License-Identifier: MIT */
/*
 * Self-attention, a head and KMF_ATTENTION_TRAIN_ROWS queries at a time (Vaswani et al., 2017, eq.
 * 1; nothing is masked):
 *
 *   S = q k^T       [rows, T]
 *   P = e^((S - max S) / sqrt K), s = sum of a row of P
 *   out = P v / s   [rows, K]     the K results are divided, and not the T weights: less work
 *
 * Keys and values are packed once a head, for all blocks. Scratch is these and one block of S, so
 * memory grows with T and not with its square.
 *
 * The backward goes over the same blocks. From max S and 1 / s of each row, kept by the forward,
 * it computes P / s again, with the same bits. Two blocks [rows, T] are at work, S and the
 * gradient by the weights, dout v^T; one pass over both turns them into the weights that met v
 * and into dS, from which three products make dq, and add to dk and dv:
 *
 *   block of S          P / s, dropped        (its transpose times dout)  added to dv
 *   block of dout v^T   dS                    (times k) = dq    (its transpose times q) added to dk
 *
 * The sum of P dP over a row, which the gradient of a softmax asks for, is that of dout out over
 * the K columns (Dao et al., 2022, FlashAttention, appendix B), with dropout as well.
 *
 * A score that is NaN or +infinity makes its row NaN.
 */
#include "nn/attention_train.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "nn/dropout.h"
#include "nn/gemm.h"
#include "nn/lanes.h"
#include "nn/ops.h"
#include "nn/vmath.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* ---------------------------------------------------------------- rows ------------------- */

/* P [rows, T] in place of S, the largest of each row of S, and 1 / s. */
static void softmax(kmf_real *scores, kmf_real *largest, kmf_real *inverse, kmf_real scale,
                    size_t rows, size_t T);

static KMF_INLINE void softmax_body(bool fused, kmf_real *scores, kmf_real *largest,
                                    kmf_real *inverse, kmf_real scale, size_t rows, size_t T)
{
    for (size_t r = 0; r < rows; r++) {
        kmf_real *restrict row = scores + r * T;
        kmf_order most = KMF_ORDER_LEAST;
        for (size_t i = 0; i < T; i++)
            most = kmf_order_of(row[i]) > most ? kmf_order_of(row[i]) : most;
        kmf_real max = kmf_order_back(most);

        for (size_t i = 0; i < T; i++)
            row[i] = kmf_exp(fused, (row[i] - max) * scale);

        largest[r] = max;
        inverse[r] = 1 / kmf_sum_row(row, T);
    }
}

KMF_CLONES_FUSED(softmax,
                 (kmf_real * scores, kmf_real *largest, kmf_real *inverse, kmf_real scale,
                  size_t rows, size_t T),
                 (scores, largest, inverse, scale, rows, T))

/*
 * One row, both in place: the weights that met v, f P / s, of the scores S; and
 * dS = P / s (f dweights - dot) / sqrt K.  f: what dropout multiplied by, if dropped, else 1.
 */
static void softmax_backward(kmf_real *scores, kmf_real *dweights, const kmf_real *f,
                             bool dropped, kmf_real largest, kmf_real inverse, kmf_real dot,
                             kmf_real scale, size_t T);

static KMF_INLINE void softmax_backward_body(bool fused, kmf_real *restrict scores,
                                             kmf_real *restrict dweights,
                                             const kmf_real *restrict f, bool dropped,
                                             kmf_real largest, kmf_real inverse, kmf_real dot,
                                             kmf_real scale, size_t T)
{
    if (!dropped) {
        for (size_t i = 0; i < T; i++) {
            kmf_real p = kmf_exp(fused, (scores[i] - largest) * scale) * inverse;
            scores[i] = p;
            dweights[i] = p * (dweights[i] - dot) * scale;
        }
        return;
    }
    for (size_t i = 0; i < T; i++) {
        kmf_real p = kmf_exp(fused, (scores[i] - largest) * scale) * inverse;
        scores[i] = p * f[i];
        dweights[i] = p * (dweights[i] * f[i] - dot) * scale;
    }
}

KMF_CLONES_FUSED(softmax_backward,
                 (kmf_real * scores, kmf_real *dweights, const kmf_real *f, bool dropped,
                  kmf_real largest, kmf_real inverse, kmf_real dot, kmf_real scale, size_t T),
                 (scores, dweights, f, dropped, largest, inverse, dot, scale, T))

/* out [rows, K] times 1 / s. */
static void divide(kmf_real *out, size_t ld, const kmf_real *inverse, size_t rows, size_t K);

static KMF_INLINE void divide_body(kmf_real *out, size_t ld, const kmf_real *inverse,
                                   size_t rows, size_t K)
{
    for (size_t r = 0; r < rows; r++) {
        kmf_real *restrict row = out + r * ld;
        kmf_real factor = inverse[r];
        for (size_t i = 0; i < K; i++)
            row[i] *= factor;
    }
}

KMF_CLONES(divide, (kmf_real * out, size_t ld, const kmf_real *inverse, size_t rows, size_t K),
           (out, ld, inverse, rows, K))

/* ---------------------------------------------------------------- forward ---------------- */

/* Rows of a block. */
static size_t block_rows(size_t T)
{
    return kmf_min(T, KMF_ATTENTION_TRAIN_ROWS);
}

static kmf_real scale_of(size_t K)
{
    return (kmf_real)(1.0 / sqrt((double)K));
}

static int how_of(kmf_precision precision)
{
    return precision == KMF_PRECISION_BF16 ? KMF_GEMM_BF16 : KMF_GEMM_TILES;
}

/* Where arrays begin in scratch, in numbers; those of the backward alone are 0 in the forward. */
typedef struct layout {
    size_t keys, values; /* packed as k^T and v^T; the forward's values as v */
    size_t keys_back;    /* packed as k */
    size_t scores, dweights, factors;
    size_t floats; /* in all */
} layout;

/* Counted in floats: 64 of them are whole cache lines, too. false if it does not fit a size_t. */
static bool lay_out(layout *l, size_t T, size_t K, kmf_precision precision, bool backward)
{
    int how = how_of(precision);
    size_t turned = kmf_gemm_inner_floats(T, K, how);
    size_t straight = kmf_gemm_inner_floats(K, T, how);
    size_t block;
    *l = (layout){0};
    bool fits = turned > 0 && straight > 0 && kmf_mul(block_rows(T), T, &block) &&
                kmf_place(&l->keys, &l->floats, turned, 1) &&
                kmf_place(&l->values, &l->floats, backward ? turned : straight, 1) &&
                kmf_place(&l->scores, &l->floats, block, 1);
    if (backward)
        fits = fits && kmf_place(&l->keys_back, &l->floats, straight, 1) &&
               kmf_place(&l->dweights, &l->floats, block, 1) &&
               kmf_place(&l->factors, &l->floats, T, 1);
    return fits;
}

size_t kmf_attention_train_scratch(size_t T, size_t K, kmf_precision precision)
{
    layout l;
    return lay_out(&l, T, K, precision, false) ? l.floats : 0;
}

void kmf_attention_forward_train(kmf_real *out, size_t ld_out, kmf_real *stats,
                                 const kmf_attention_task *task, size_t h0, size_t h1)
{
    size_t T = task->T, K = task->K, ld = task->ld;
    assert(T > 0 && K > 0);
    kmf_real largest[KMF_ATTENTION_TRAIN_ROWS];
    kmf_real inverse[KMF_ATTENTION_TRAIN_ROWS];
    kmf_real scale = scale_of(K);
    int how = how_of(task->precision), turned = how | KMF_GEMM_TB;
    layout l;
    bool fits = lay_out(&l, T, K, task->precision, false);
    assert(fits);
    (void)fits;
    kmf_real *keys = task->scratch + l.keys, *values = task->scratch + l.values;
    kmf_real *scores = task->scratch + l.scores;
    for (size_t h = h0; h < h1; h++) {
        kmf_gemm_inner_pack(keys, task->k + h * K, ld, T, K, turned);
        kmf_gemm_inner_pack(values, task->v + h * K, ld, K, T, how);
        for (size_t t = 0; t < T; t += KMF_ATTENTION_TRAIN_ROWS) {
            size_t rows = kmf_min(T - t, KMF_ATTENTION_TRAIN_ROWS);
            kmf_real *to = out + t * ld_out + h * K;
            kmf_gemm_inner_packed(scores, T, task->q + t * ld + h * K, ld, keys, rows, T, K,
                                  how);
            softmax(scores, largest, inverse, scale, rows, T);
            kmf_dropout_forward(scores, T, task->key, (h * T + t) * T, task->p, rows, T);
            kmf_gemm_inner_packed(to, ld_out, scores, T, values, rows, K, T, how);
            divide(to, ld_out, inverse, rows, K);
            if (stats) {
                memcpy(stats + h * 2 * T + t, largest, rows * sizeof *largest);
                memcpy(stats + h * 2 * T + T + t, inverse, rows * sizeof *inverse);
            }
        }
    }
}

/* ---------------------------------------------------------------- backward --------------- */

size_t kmf_attention_backward_scratch(size_t T, size_t K, kmf_precision precision)
{
    layout l;
    return lay_out(&l, T, K, precision, true) ? l.floats : 0;
}

void kmf_attention_backward(const kmf_attention_gradients *d, const kmf_real *dout,
                            size_t ld_dout, const kmf_real *out, size_t ld_out,
                            const kmf_real *stats, const kmf_attention_task *task, size_t h0,
                            size_t h1)
{
    size_t T = task->T, K = task->K, ld = task->ld;
    assert(T > 0 && K > 0);
    int how = how_of(task->precision), turned = how | KMF_GEMM_TB;
    layout l;
    bool fits = lay_out(&l, T, K, task->precision, true);
    assert(fits);
    (void)fits;
    kmf_real *keys = task->scratch + l.keys, *values = task->scratch + l.values;
    kmf_real *keys_back = task->scratch + l.keys_back;
    kmf_real *scores = task->scratch + l.scores, *dweights = task->scratch + l.dweights;
    kmf_real *factors = task->scratch + l.factors; /* of dropout, of a row */
    kmf_real dots[KMF_ATTENTION_TRAIN_ROWS];
    bool dropped = task->p > 0.0;
    kmf_real scale = scale_of(K);
    for (size_t h = h0; h < h1; h++) {
        const kmf_real *largest = stats + h * 2 * T;
        const kmf_real *inverse = largest + T;
        size_t at = h * K; /* of a row, where this head begins */
        kmf_gemm_inner_pack(keys, task->k + at, ld, T, K, turned);
        kmf_gemm_inner_pack(values, task->v + at, ld, T, K, turned);
        kmf_gemm_inner_pack(keys_back, task->k + at, ld, K, T, how);
        for (size_t t = 0; t < T; t += KMF_ATTENTION_TRAIN_ROWS) {
            size_t n = kmf_min(T - t, KMF_ATTENTION_TRAIN_ROWS);
            const kmf_real *queries = task->q + t * ld + at;
            const kmf_real *dy = dout + t * ld_dout + at;
            int add = how | KMF_GEMM_TA | (t > 0 ? KMF_GEMM_ADD : 0);
            /* [n, T] */
            kmf_gemm_inner_packed(scores, T, queries, ld, keys, n, T, K, how);
            kmf_gemm_inner_packed(dweights, T, dy, ld_dout, values, n, T, K, how);
            kmf_dots_forward(dots, dy, ld_dout, out + t * ld_out + at, ld_out, n, K);
            for (size_t r = 0; r < n; r++) {
                size_t first = (h * T + t + r) * T;
                if (dropped)
                    kmf_dropout_factors(factors, task->key, first, task->p, T);
                softmax_backward(scores + r * T, dweights + r * T, factors, dropped,
                                 largest[t + r], inverse[t + r], dots[r], scale, T);
            }
            kmf_gemm_inner(d->dv + at, d->ld, scores, T, dy, ld_dout, T, K, n,
                           add); /* [T, K] */
            kmf_gemm_inner_packed(d->dq + t * d->ld + at, d->ld, dweights, T, keys_back, n, K,
                                  T, how);
            kmf_gemm_inner(d->dk + at, d->ld, dweights, T, queries, ld, T, K, n, add);
        }
    }
}
