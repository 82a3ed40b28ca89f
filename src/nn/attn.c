/* SPDX-License-Identifier: MIT */
/*
 * Self-attention, a head and KMF_ATTN_ROWS queries at a time (Vaswani et al., 2017, eq. 1;
 * nothing is masked):
 *
 *   k^T             [K, T]        once per head: the products below read it in order
 *   S = q k^T       [rows, T]
 *   P = e^((S - max S) / sqrt K), s = sum of a row of P
 *   out = P v / s   [rows, K]     the K results are divided, and not the T weights: less work
 *
 * Scratch is k^T and one block of S, so memory grows with T and not with its square. A block's
 * queries are read before its results are written, and no later block reads them: out may take
 * the place of q.
 *
 * A score that is NaN or +infinity makes its row NaN.
 */
#include "nn/attn.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "nn/gemm.h"
#include "nn/vmath.h"

#include <assert.h>
#include <math.h>

#define LANES 32

/* P [rows, T] in place of S, and 1 / s. The sum in LANES parts, as in ops.c. */
static void weigh(float *scores, float *inverse, float scale, size_t rows, size_t T);

static KMF_INLINE void weigh_body(bool fused, float *scores, float *inverse, float scale,
                                  size_t rows, size_t T)
{
    for (size_t r = 0; r < rows; r++) {
        float *restrict row = scores + r * T;
        int32_t most = INT32_MIN;
        for (size_t i = 0; i < T; i++)
            most = kmf_float_order(row[i]) > most ? kmf_float_order(row[i]) : most;
        float max = kmf_order_float(most);

        for (size_t i = 0; i < T; i++)
            row[i] = kmf_exp(fused, (row[i] - max) * scale);

        float part[LANES] = {0};
        size_t i = 0;
        for (; i + LANES <= T; i += LANES)
            for (size_t l = 0; l < LANES; l++)
                part[l] += row[i + l];
        for (size_t l = 0; i + l < T; l++)
            part[l] += row[i + l];
        for (size_t half = LANES / 2; half > 0; half /= 2)
            for (size_t l = 0; l < half; l++)
                part[l] += part[l + half];
        inverse[r] = 1.0f / part[0];
    }
}

KMF_CLONES_FUSED(weigh, (float *scores, float *inverse, float scale, size_t rows, size_t T),
                 (scores, inverse, scale, rows, T))

/* out [rows, K] times 1 / s. */
static void divide(float *out, size_t ld, const float *inverse, size_t rows, size_t K);

static KMF_INLINE void divide_body(float *out, size_t ld, const float *inverse, size_t rows,
                                   size_t K)
{
    for (size_t r = 0; r < rows; r++) {
        float *restrict row = out + r * ld;
        float factor = inverse[r];
        for (size_t i = 0; i < K; i++)
            row[i] *= factor;
    }
}

KMF_CLONES(divide, (float *out, size_t ld, const float *inverse, size_t rows, size_t K),
           (out, ld, inverse, rows, K))

/* k_t [K, T] = k^T, in squares that stay in the nearest cache. */
static void transpose(float *restrict k_t, const float *restrict k, size_t ld, size_t T,
                      size_t K)
{
    enum { SQUARE = 16 };
    for (size_t t0 = 0; t0 < T; t0 += SQUARE)
        for (size_t i0 = 0; i0 < K; i0 += SQUARE)
            for (size_t i = i0; i < K && i < i0 + SQUARE; i++)
                for (size_t t = t0; t < T && t < t0 + SQUARE; t++)
                    k_t[i * T + t] = k[t * ld + i];
}

size_t kmf_attn_scratch(size_t T, size_t K)
{
    size_t rows, floats;
    if (!kmf_add(K, KMF_ATTN_ROWS, &rows) || !kmf_mul(rows, T, &floats))
        return 0;
    return floats;
}

void kmf_attn_forward(float *out, size_t ld_out, const float *q, const float *k, const float *v,
                      size_t ld, float *scratch, size_t T, size_t H, size_t K)
{
    assert(T > 0 && K > 0);
    float *k_t = scratch;
    float *scores = scratch + K * T;
    float inverse[KMF_ATTN_ROWS];
    float scale = (float)(1.0 / sqrt((double)K));
    for (size_t h = 0; h < H; h++) {
        transpose(k_t, k + h * K, ld, T, K);
        for (size_t t = 0; t < T; t += KMF_ATTN_ROWS) {
            size_t rows = T - t < KMF_ATTN_ROWS ? T - t : KMF_ATTN_ROWS;
            float *to = out + t * ld_out + h * K;
            kmf_gemm_inner(scores, T, q + t * ld + h * K, ld, k_t, T, rows, T, K, 0);
            weigh(scores, inverse, scale, rows, T);
            kmf_gemm_inner(to, ld_out, scores, T, v + h * K, ld, rows, K, T, 0);
            divide(to, ld_out, inverse, rows, K);
        }
    }
}
