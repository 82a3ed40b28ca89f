/* SPDX-License-Identifier: MIT */
/*
 * The encoder's arithmetic that is not a matrix product, forward and backward. Single passes over
 * rows; each row's bits depend on that row alone.
 *
 * Dimensions, here and everywhere:
 *   B sequences   T tokens of a sequence   N rows (tokens of a batch)   D width   H heads
 *   K head size (D = H K)   F feed-forward width   V vocabulary   L layers
 * An ld is the distance of two rows, at least their width. Outputs come first, then inputs, then
 * sizes. Arithmetic cannot fail; preconditions are asserts.
 *
 * Gradients: dx is the gradient of the loss by x. A backward function overwrites the gradient of
 * what flows (dx) and ADDS to the gradients of parameters (dweight, dbias, dword), whose terms
 * are sums over rows: row after row, so that a caller who splits the rows into fixed tiles and
 * adds those up in a fixed order has the same bits with any number of threads. Arrays do not
 * overlap but where one is said to be allowed in the place of another, with the same ld.
 */
#ifndef KMF_OPS_H
#define KMF_OPS_H

#include "kmerformer.h"
#include "nn/real.h"

/* ---------------------------------------------------------------- layer norm ------------- */

/* x = (x - mean) / sqrt(var + eps) * weight + bias in place, var biased.  x: [N, D], ld */
void kmf_layernorm_forward(kmf_real *x, size_t ld, const kmf_real *weight, const kmf_real *bias,
                           double eps, size_t N, size_t D);

/* y = LN(x), x kept for the backward.  x, y: [N, D].  The bits of kmf_layernorm_forward. */
void kmf_layernorm_copy_forward(kmf_real *y, size_t ld_y, const kmf_real *x, size_t ld_x,
                                const kmf_real *weight, const kmf_real *bias, double eps,
                                size_t N, size_t D);

/*
 * With z = (x - mean) / sqrt(var + eps), mean and var those of the forward again, x its INPUT:
 *   dweight += sum over rows of dy z   dbias += sum over rows of dy   [D] each
 *   dx = (g - mean(g) - z mean(g z)) / sqrt(var + eps),  g = dy weight
 * dx, dy, x: [N, D].  dx may be dy.
 */
void kmf_layernorm_backward(kmf_real *dx, size_t ld_dx, kmf_real *dweight, kmf_real *dbias,
                            const kmf_real *dy, size_t ld_dy, const kmf_real *x, size_t ld_x,
                            const kmf_real *weight, double eps, size_t N, size_t D);

/* x = LN(x + y + y_bias): residual, the product's bias and norm in one pass.  x, y: [N, D] */
void kmf_residual_layernorm_forward(kmf_real *x, size_t ld_x, const kmf_real *y, size_t ld_y,
                                    const kmf_real *y_bias, const kmf_real *weight,
                                    const kmf_real *bias, double eps, size_t N, size_t D);

/*
 * x += y + y_bias, the sum that kmf_residual_layernorm_forward takes the norm of, with its bits.
 * y_bias may be NULL: x += y.  Backward: dy is dx, and kmf_bias_backward.
 */
void kmf_residual_forward(kmf_real *x, size_t ld_x, const kmf_real *y, size_t ld_y,
                          const kmf_real *y_bias, size_t N, size_t D);

/* ---------------------------------------------------------------- dot products ---------- */

/* dots[r] = the sum of a[r][i] b[r][i].  a, b: [rows, K] */
void kmf_dots_forward(kmf_real *dots, const kmf_real *a, size_t ld_a, const kmf_real *b,
                      size_t ld_b, size_t rows, size_t K);

/* ---------------------------------------------------------------- bias, activation ------- */

/* x = x + bias.  x: [N, D] */
void kmf_bias_forward(kmf_real *x, size_t ld, const kmf_real *bias, size_t N, size_t D);

/* dbias[i] += sum over rows of dy[n][i], one after the other.  dy: [N, D] */
void kmf_bias_backward(kmf_real *dbias, const kmf_real *dy, size_t ld, size_t N, size_t D);

/*
 * y = act(x), x kept for the backward. GELU is the exact x/2 (1 + erf(x / sqrt 2)), to 2e-7
 * absolute, or half a unit in the last place of a large x.  x, y: [N, D].  y may be x.
 */
void kmf_activation_forward(kmf_real *y, size_t ld_y, const kmf_real *x, size_t ld_x,
                            kmf_activation activation, size_t N, size_t D);

/*
 * dx = dy act'(x), x the INPUT of the forward (the bias added). act' to 2e-7 absolute; that of
 * ReLU is 0 at 0.  dx, dy, x: [N, D].  dx may be dy.
 */
void kmf_activation_backward(kmf_real *dx, size_t ld_dx, const kmf_real *dy, size_t ld_dy,
                             const kmf_real *x, size_t ld_x, kmf_activation activation,
                             size_t N, size_t D);

/*
 * dx = dy act'(x), as above, and y = act(x) with the bits of kmf_activation_forward: cheaper than
 * one after the other. y NULL: dx alone.  y: [N, D], overlaps none of the others.
 */
void kmf_activation_backward_both(kmf_real *dx, size_t ld_dx, kmf_real *y, size_t ld_y,
                                  const kmf_real *dy, size_t ld_dy, const kmf_real *x,
                                  size_t ld_x, kmf_activation activation, size_t N, size_t D);

/*
 * y = act(x[.][i]) x[.][F + i], the middle of a gated feed-forward (N. Shazeer, arXiv 2002.05202).
 * x: [N, 2F]  y: [N, F].  y may be x.
 */
void kmf_gate_forward(kmf_real *y, size_t ld_y, const kmf_real *x, size_t ld_x,
                      kmf_activation activation, size_t N, size_t F);

/* x = tanh(x + bias).  x: [N, D] */
void kmf_bias_tanh_forward(kmf_real *x, size_t ld, const kmf_real *bias, size_t N, size_t D);

/* ---------------------------------------------------------------- embedding -------------- */

/* y[n] = word[ids[n]] + type0, or the token's row alone: type0 NULL.  y: [N, E]  word: [V, E] */
void kmf_gather_forward(kmf_real *y, size_t ld, const int32_t *ids, const kmf_real *word,
                        const kmf_real *type0, size_t N, size_t E);

/*
 * dword[ids[n]][i] += dy[n][i] for the columns beg .. end - 1, row after row: threads that take
 * columns of their own do not meet.  dword: [V, E]  dy: [N, E].  dtype0 is kmf_bias_backward's.
 */
void kmf_gather_backward(kmf_real *dword, const int32_t *ids, const kmf_real *dy, size_t ld,
                         size_t beg, size_t end, size_t N, size_t E);

/* ---------------------------------------------------------------- rotary ----------------- */

/*
 * Rows beg .. end - 1 of rotary tables: cos_t, sin_t [T, K/2], angle(t, i) = t * base^(-2i/K),
 * computed in double and rounded once, as the published tables are.  (RoFormer, arXiv 2104.09864,
 * eq. 34.)
 */
void kmf_rotary_table(kmf_real *cos_t, kmf_real *sin_t, double base, size_t beg, size_t end,
                      size_t K);

/*
 * Turns each interleaved pair (2i, 2i+1) of each of the H heads of x [T, H K], ld, row t by
 * angle(t, i), in place.
 */
void kmf_rotary_forward(kmf_real *x, size_t ld, const kmf_real *cos_t, const kmf_real *sin_t,
                        size_t T, size_t H, size_t K);

/*
 * The same for the pairs (i, i + r/2) of the first r columns of each head; the tables are those of
 * r columns, [T, r/2].
 */
void kmf_rotary_halves_forward(kmf_real *x, size_t ld, const kmf_real *cos_t,
                               const kmf_real *sin_t, size_t T, size_t H, size_t K, size_t r);

/* Turns dx, the gradient by the turned x, back by the same angles, in place: a turn's transpose. */
void kmf_rotary_backward(kmf_real *dx, size_t ld, const kmf_real *cos_t, const kmf_real *sin_t,
                         size_t T, size_t H, size_t K);

#endif
