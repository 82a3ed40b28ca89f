/* SPDX-License-Identifier: MIT */
/*
 * Everything of the encoder that is not a product, in loops a compiler can turn into vector
 * code, compiled for each processor level (base/cpu.h).
 *
 * Sums over a row are taken in SUM_LANES partial sums, element i into sum i % SUM_LANES, which
 * are then added in pairs. The order is part of the source, so a vector unit of any width gives
 * the same bits, and no row sees its neighbours. The layer norm goes over the row once for the
 * mean, once to mend it, once for the variance about it and once for the result: with an eps of
 * 1e-12 the one-pass formula E[x^2] - E[x]^2 would be all rounding error where a row is nearly
 * constant. A row is in the first-level cache, so a pass is cheap.
 */
#include "nn/ops.h"

#include "base/cpu.h"
#include "nn/vmath.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>

#define SUM_LANES 32

/* ---------------------------------------------------------------- layer norm ------------- */

/* The sum of (x[i] - about)^2 (squared) or x[i]. */
static KMF_INLINE float sum_row(const float *x, float about, bool squared, size_t D)
{
    float part[SUM_LANES] = {0};
    size_t i = 0;
    for (; i + SUM_LANES <= D; i += SUM_LANES)
        for (size_t l = 0; l < SUM_LANES; l++) {
            float d = x[i + l] - about;
            part[l] += squared ? d * d : d;
        }
    for (size_t l = 0; i + l < D; l++) {
        float d = x[i + l] - about;
        part[l] += squared ? d * d : d;
    }
    for (size_t half = SUM_LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            part[l] += part[l + half];
    return part[0];
}

static KMF_INLINE void layernorm_row(float *x, const float *weight, const float *bias,
                                     double eps, size_t D)
{
    float mean = sum_row(x, 0.0f, false, D) / (float)D;
    mean += sum_row(x, mean, false, D) / (float)D; /* what rounding the first sum left over */
    double var = (double)sum_row(x, mean, true, D) / (double)D;
    /* squares that overflow must be seen: 1 / inf would leave the bias and look sound */
    float scale = var <= DBL_MAX ? (float)(1.0 / sqrt(var + eps)) : NAN;
    for (size_t i = 0; i < D; i++)
        x[i] = (x[i] - mean) * scale * weight[i] + bias[i];
}

static KMF_INLINE void kmf_layernorm_forward_body(float *x, size_t ld, const float *weight,
                                                  const float *bias, double eps, size_t N,
                                                  size_t D)
{
    for (size_t n = 0; n < N; n++)
        layernorm_row(x + n * ld, weight, bias, eps, D);
}

KMF_CLONES(kmf_layernorm_forward,
           (float *x, size_t ld, const float *weight, const float *bias, double eps, size_t N,
            size_t D),
           (x, ld, weight, bias, eps, N, D))

static KMF_INLINE void
kmf_residual_layernorm_forward_body(float *x, size_t ld_x, const float *y, size_t ld_y,
                                    const float *y_bias, const float *weight, const float *bias,
                                    double eps, size_t N, size_t D)
{
    for (size_t n = 0; n < N; n++) {
        float *restrict sum = x + n * ld_x;
        const float *restrict add = y + n * ld_y;
        for (size_t i = 0; i < D; i++)
            sum[i] += add[i] + y_bias[i];
        layernorm_row(sum, weight, bias, eps, D);
    }
}

KMF_CLONES(kmf_residual_layernorm_forward,
           (float *x, size_t ld_x, const float *y, size_t ld_y, const float *y_bias,
            const float *weight, const float *bias, double eps, size_t N, size_t D),
           (x, ld_x, y, ld_y, y_bias, weight, bias, eps, N, D))

static KMF_INLINE void kmf_embedding_forward_body(float *y, size_t ld, const int32_t *ids,
                                                  const float *word, const float *type0,
                                                  const float *weight, const float *bias,
                                                  double eps, size_t N, size_t E)
{
    for (size_t n = 0; n < N; n++) {
        float *restrict row = y + n * ld;
        const float *restrict token = word + (size_t)ids[n] * E;
        for (size_t i = 0; i < E; i++)
            row[i] = token[i] + type0[i];
        layernorm_row(row, weight, bias, eps, E);
    }
}

KMF_CLONES(kmf_embedding_forward,
           (float *y, size_t ld, const int32_t *ids, const float *word, const float *type0,
            const float *weight, const float *bias, double eps, size_t N, size_t E),
           (y, ld, ids, word, type0, weight, bias, eps, N, E))

/* ---------------------------------------------------------------- bias, activation ------- */

static KMF_INLINE void kmf_bias_forward_body(float *x, size_t ld, const float *bias, size_t N,
                                             size_t D)
{
    for (size_t n = 0; n < N; n++) {
        float *restrict row = x + n * ld;
        for (size_t i = 0; i < D; i++)
            row[i] += bias[i];
    }
}

KMF_CLONES(kmf_bias_forward, (float *x, size_t ld, const float *bias, size_t N, size_t D),
           (x, ld, bias, N, D))

static KMF_INLINE void kmf_bias_activation_forward_body(bool fused, float *x, size_t ld,
                                                        const float *bias,
                                                        kmf_activation activation, size_t N,
                                                        size_t D)
{
    for (size_t n = 0; n < N; n++) {
        float *restrict row = x + n * ld;
        switch (activation) {
        case KMF_GELU:
            for (size_t i = 0; i < D; i++)
                row[i] = kmf_gelu(fused, row[i] + bias[i]);
            break;
        case KMF_GELU_TANH:
            for (size_t i = 0; i < D; i++)
                row[i] = kmf_gelu_tanh(fused, row[i] + bias[i]);
            break;
        case KMF_RELU:
            for (size_t i = 0; i < D; i++)
                row[i] = kmf_relu(row[i] + bias[i]);
            break;
        }
    }
}

KMF_CLONES_FUSED(kmf_bias_activation_forward,
                 (float *x, size_t ld, const float *bias, kmf_activation activation, size_t N,
                  size_t D),
                 (x, ld, bias, activation, N, D))

/* ---------------------------------------------------------------- rotary ----------------- */

void kmf_rotary_table(float *cos_t, float *sin_t, double base, size_t T, size_t K)
{
    assert(K % 2 == 0);
    for (size_t i = 0; i < K / 2; i++) {
        double frequency = pow(base, -2.0 * (double)i / (double)K);
        for (size_t t = 0; t < T; t++) {
            cos_t[t * (K / 2) + i] = (float)cos((double)t * frequency);
            sin_t[t * (K / 2) + i] = (float)sin((double)t * frequency);
        }
    }
}

static KMF_INLINE void kmf_rotary_forward_body(float *x, size_t ld, const float *cos_t,
                                               const float *sin_t, size_t T, size_t H, size_t K)
{
    size_t pairs = K / 2;
    for (size_t t = 0; t < T; t++) {
        const float *restrict c = cos_t + t * pairs;
        const float *restrict s = sin_t + t * pairs;
        for (size_t h = 0; h < H; h++) {
            float *restrict head = x + t * ld + h * K;
            for (size_t i = 0; i < pairs; i++) {
                float even = head[2 * i];
                float odd = head[2 * i + 1];
                head[2 * i] = even * c[i] - odd * s[i];
                head[2 * i + 1] = odd * c[i] + even * s[i];
            }
        }
    }
}

KMF_CLONES(kmf_rotary_forward,
           (float *x, size_t ld, const float *cos_t, const float *sin_t, size_t T, size_t H,
            size_t K),
           (x, ld, cos_t, sin_t, T, H, K))
