/* SPDX-License-Identifier: MIT */
/*
 * The encoder's arithmetic that is not a matrix product. Single passes over rows; each row's
 * bits depend on that row alone.
 *
 * Dimensions, here and everywhere:
 *   B sequences   T tokens of a sequence   N rows (tokens of a batch)   D width   H heads
 *   K head size (D = H K)   F feed-forward width   V vocabulary   L layers
 * Outputs come first, then inputs, then sizes. Arithmetic cannot fail; preconditions are
 * asserts.
 */
#ifndef KMF_OPS_H
#define KMF_OPS_H

#include "kmerformer.h"

/* x = (x - mean) / sqrt(var + eps) * weight + bias in place, var biased.  x: [N, D], ld */
void kmf_layernorm_forward(float *x, size_t ld, const float *weight, const float *bias,
                           double eps, size_t N, size_t D);

/* x = LN(x + y + y_bias): residual, the product's bias and norm in one pass.  x, y: [N, D] */
void kmf_residual_layernorm_forward(float *x, size_t ld_x, const float *y, size_t ld_y,
                                    const float *y_bias, const float *weight, const float *bias,
                                    double eps, size_t N, size_t D);

/* x = x + bias. */
void kmf_bias_forward(float *x, size_t ld, const float *bias, size_t N, size_t D);

/*
 * x = act(x + bias). GELU is the exact x/2 (1 + erf(x / sqrt 2)), to 2e-7 absolute, or half a
 * unit in the last place of a large x.
 */
void kmf_bias_activation_forward(float *x, size_t ld, const float *bias,
                                 kmf_activation activation, size_t N, size_t D);

/* y[i] = LN(word[ids[i]] + type0), the embedding.  y: [N, E]  word: [V, E]  type0: [E] */
void kmf_embedding_forward(float *y, size_t ld, const int32_t *ids, const float *word,
                           const float *type0, const float *weight, const float *bias,
                           double eps, size_t N, size_t E);

/*
 * Rotary tables: cos_t, sin_t [T, K/2], angle(t, i) = t * base^(-2i/K), computed in double and
 * rounded once, as the published tables are.  (RoFormer, arXiv 2104.09864, eq. 34.)
 */
void kmf_rotary_table(float *cos_t, float *sin_t, double base, size_t T, size_t K);

/*
 * Turns each interleaved pair (2i, 2i+1) of each of the H heads of x [T, H K], ld, row t by
 * angle(t, i), in place.
 */
void kmf_rotary_forward(float *x, size_t ld, const float *cos_t, const float *sin_t, size_t T,
                        size_t H, size_t K);

#endif
