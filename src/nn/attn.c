/* SPDX-License-Identifier: MIT */
/*
 * Self-attention, a head and KMF_ATTN_ROWS queries at a time (Vaswani et al., 2017, eq. 1;
 * nothing is masked):
 *
 *   S = q k^T       [rows, T]
 *   P = e^((S - max S) / sqrt K), s = sum of a row of P
 *   out = P v / s   [rows, K]     the K results are divided, and not the T weights: less work
 *
 * Scratch is one block of S, so memory grows with T and not with its square.
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
#include "nn/attn.h"

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
static void weigh(kmf_real *scores, kmf_real *largest, kmf_real *inverse, kmf_real scale,
                  size_t rows, size_t T);

static KMF_INLINE void weigh_body(bool fused, kmf_real *scores, kmf_real *largest,
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

KMF_CLONES_FUSED(weigh,
                 (kmf_real * scores, kmf_real *largest, kmf_real *inverse, kmf_real scale,
                  size_t rows, size_t T),
                 (scores, largest, inverse, scale, rows, T))

/*
 * One row, both in place: the weights that met v, f P / s, of the scores S; and
 * dS = P / s (f dweights - dot) / sqrt K.  f: what dropout multiplied by, if dropped, else 1.
 */
static void weigh_backward(kmf_real *scores, kmf_real *dweights, const kmf_real *f,
                           bool dropped, kmf_real largest, kmf_real inverse, kmf_real dot,
                           kmf_real scale, size_t T);

static KMF_INLINE void weigh_backward_body(bool fused, kmf_real *restrict scores,
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

KMF_CLONES_FUSED(weigh_backward,
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
    return kmf_min(T, KMF_ATTN_ROWS);
}

size_t kmf_attn_scratch(size_t T)
{
    size_t floats;
    return kmf_mul(block_rows(T), T, &floats) ? floats : 0;
}

static kmf_real scale_of(size_t K)
{
    return (kmf_real)(1.0 / sqrt((double)K));
}

static int how_of(kmf_precision precision)
{
    return precision == KMF_PRECISION_BF16 ? KMF_GEMM_BF16 : KMF_GEMM_TILES;
}

void kmf_attn_forward_train(kmf_real *out, size_t ld_out, kmf_real *stats, const kmf_real *q,
                            const kmf_real *k, const kmf_real *v, size_t ld, kmf_real *scratch,
                            uint64_t key, double p, size_t T, size_t h0, size_t h1, size_t K,
                            kmf_precision precision)
{
    assert(T > 0 && K > 0);
    kmf_real *scores = scratch;
    kmf_real largest[KMF_ATTN_ROWS];
    kmf_real inverse[KMF_ATTN_ROWS];
    kmf_real scale = scale_of(K);
    int how = how_of(precision), turned = how | KMF_GEMM_TB;
    for (size_t h = h0; h < h1; h++) {
        for (size_t t = 0; t < T; t += KMF_ATTN_ROWS) {
            size_t rows = T - t < KMF_ATTN_ROWS ? T - t : KMF_ATTN_ROWS;
            kmf_real *to = out + t * ld_out + h * K;
            kmf_gemm_inner(scores, T, q + t * ld + h * K, ld, k + h * K, ld, rows, T, K,
                           turned);
            weigh(scores, largest, inverse, scale, rows, T);
            kmf_dropout_forward(scores, T, key, (h * T + t) * T, p, rows, T);
            kmf_gemm_inner(to, ld_out, scores, T, v + h * K, ld, rows, K, T, how);
            divide(to, ld_out, inverse, rows, K);
            if (stats) {
                memcpy(stats + h * 2 * T + t, largest, rows * sizeof *largest);
                memcpy(stats + h * 2 * T + T + t, inverse, rows * sizeof *inverse);
            }
        }
    }
}

/* ---------------------------------------------------------------- backward --------------- */

/* A block of S and one of the gradient by the weights; a row of dropout's factors. */
size_t kmf_attn_backward_scratch(size_t T)
{
    size_t floats;
    return kmf_mul(2 * block_rows(T) + 1, T, &floats) ? floats : 0;
}

void kmf_attn_backward(kmf_real *dq, kmf_real *dk, kmf_real *dv, size_t ld_d,
                       const kmf_real *dout, size_t ld_dout, const kmf_real *out, size_t ld_out,
                       const kmf_real *q, const kmf_real *k, const kmf_real *v, size_t ld,
                       const kmf_real *stats, kmf_real *scratch, uint64_t key, double p,
                       size_t T, size_t h0, size_t h1, size_t K, kmf_precision precision)
{
    assert(T > 0 && K > 0);
    kmf_real *scores = scratch;
    kmf_real *dweights = scores + block_rows(T) * T;
    kmf_real *factors = dweights + block_rows(T) * T;
    kmf_real dots[KMF_ATTN_ROWS];
    bool dropped = p > 0.0;
    kmf_real scale = scale_of(K);
    int how = how_of(precision), turned = how | KMF_GEMM_TB;
    for (size_t h = h0; h < h1; h++) {
        const kmf_real *largest = stats + h * 2 * T;
        const kmf_real *inverse = largest + T;
        size_t at = h * K; /* of a row, where this head begins */
        for (size_t t = 0; t < T; t += KMF_ATTN_ROWS) {
            size_t n = T - t < KMF_ATTN_ROWS ? T - t : KMF_ATTN_ROWS;
            const kmf_real *queries = q + t * ld + at;
            const kmf_real *dy = dout + t * ld_dout + at;
            int add = how | KMF_GEMM_TA | (t > 0 ? KMF_GEMM_ADD : 0);
            kmf_gemm_inner(scores, T, queries, ld, k + at, ld, n, T, K, turned); /* [n, T] */
            kmf_gemm_inner(dweights, T, dy, ld_dout, v + at, ld, n, T, K, turned);
            kmf_dots_forward(dots, dy, ld_dout, out + t * ld_out + at, ld_out, n, K);
            for (size_t r = 0; r < n; r++) {
                size_t first = (h * T + t + r) * T;
                if (dropped)
                    kmf_dropout_factors(factors, key, first, p, T);
                weigh_backward(scores + r * T, dweights + r * T, factors, dropped,
                               largest[t + r], inverse[t + r], dots[r], scale, T);
            }
            kmf_gemm_inner(dv + at, ld_d, scores, T, dy, ld_dout, T, K, n, add); /* [T, K] */
            kmf_gemm_inner(dq + t * ld_d + at, ld_d, dweights, T, k + at, ld, n, K, T, how);
            kmf_gemm_inner(dk + at, ld_d, dweights, T, queries, ld, T, K, n, add);
        }
    }
}
