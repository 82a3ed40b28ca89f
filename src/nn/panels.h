/* SPDX-License-Identifier: MIT */
/*
 * Operands of the kernels (kernels.h): weights, or the keys and values of a head, cut into panels;
 * rows of activations turned into words.
 *
 * bf16 rounds to nearest, ties to even. int8 (b): row o of W is q scale[o], q = -127 .. 127,
 * scale[o] = max |w| / 127. int8 (a): row n of x is u scale[n] + low[n] (nn/quantise.h). So
 *
 *   x W^T [n, o] = scale[o] (scale[n] sum_k u q + low[n] sum_k q)
 *
 * and where groups of KMF_INT8_GROUP terms of x have a scale and a low of their own, the sum of
 * that over the groups.
 *
 * Of split and thirds all parts of a number (nn/kernels.h) are made of it here.
 *
 * int16, either side: scale = |row| / 32000, by the Euclidean norm, so that no product of two rows
 * overflows (rows whose squares are no normal numbers aside: their scores are 0 to 1e-3 anyway, and
 * a row whose squares are infinite counts as not finite); without a low, so that for low and
 * sum_k q there are zeros. But of W^T, attention's values (kmf_panels_pack_back), scale = max |w| /
 * KMF_VALUE_INT16, for what they are multiplied by has no norm to go by.
 */
#ifndef KMF_PANELS_H
#define KMF_PANELS_H

#include "base/cpu.h"
#include "nn/kernels.h"
#include "nn/vmath.h"

#define KMF_INT8_GROUP 256
#define KMF_VALUE_INT16 1820

/*
 * Panels are whole, with zeros in columns that W has not, and so are their units of words.
 *
 * Bytes of W [Dout, Din] in panels, a multiple of 64; 0: does not fit a size_t. Behind the panels
 * of int8 and int16 stand, float, scale [Dout], which kmf_panels_scales finds, sum_k q [Dout], and
 * that sum group by group, [Din / KMF_INT8_GROUP, rounded up; Dout].
 */
size_t kmf_panels_bytes(const kmf_kernel *kernel, size_t Dout, size_t Din);
const float *kmf_panels_scales(const kmf_kernel *kernel, const void *panels, size_t Dout,
                               size_t Din);

/* Whether there are scales. */
static inline bool kmf_has_scales(const kmf_kernel *kernel)
{
    return kernel->operand == KMF_OPERAND_INT8 || kernel->operand == KMF_OPERAND_INT16;
}

/* W [Dout, Din] from n_parts blocks of Dout / n_parts rows, ld floats from row to row. */
void kmf_panels_pack(void *panels, const kmf_kernel *kernel, const float *const *parts,
                     size_t n_parts, size_t ld, size_t Dout, size_t Din);
/* Of the same W, the panels of W^T [Din, Dout], with its scales; of integers without the sums. */
void kmf_panels_pack_back(void *panels, const kmf_kernel *kernel, const float *const *parts,
                          size_t n_parts, size_t ld, size_t Dout, size_t Din);

/*
 * Rows x [N, cols] as terms of such panels, without scales, that are ld words long: from where
 * `panels` points on, and zeros behind them up to a whole unit of words.
 */
void kmf_panels_pack_rows(void *panels, size_t ld, const kmf_kernel *kernel, const float *x,
                          size_t ld_x, size_t N, size_t cols);

/*
 * A row of W in int8 (b): its scale, NaN if the row holds what is not finite; q [n] of n of its
 * values, whose sum is added to *sum. The numbers q scale have the same scale and the same q, bit
 * for bit.
 */
float kmf_int8_scale(const float *row, size_t K);
void kmf_int8_round(int8_t *q, float *sum, const float *x, float scale, size_t n);

/*
 * The number that a sum of u q stands for, by the equation above. scale, low: of the row of x;
 * weight_scale, weight_sum: of the row of W. fused must be a constant where this is inlined.
 */
static KMF_INLINE float kmf_int8_number(bool fused, int32_t sum, float scale, float low,
                                        float weight_scale, float weight_sum)
{
    return weight_scale * kmf_multiply_add(fused, scale, (float)sum, low * weight_sum);
}

/* Words of a converted row: a multiple of 16. */
size_t kmf_words_ld(const kmf_kernel *kernel, size_t K);
/*
 * x [N, K] to bf16 words of as many parts as the rows have; behind the K-th term up to a multiple
 * of 32 there are zeros.
 */
void kmf_words_bf16(kmf_rows to, const float *x, size_t ld_x, size_t N, size_t K);
/*
 * x [K, N], stored the other way round, to the kernel's words [kmf_kernel_words(K), N], ld, of
 * bf16: pairs of its rows, and zeros.
 */
void kmf_words_pairs(void *words, size_t ld, const kmf_kernel *kernel, const float *x,
                     size_t ld_x, size_t N, size_t K);
/*
 * x [N, K] to int16, not tiled, scale [N] and low [N], which is 0; behind the K-th up to a multiple
 * of 32 there are zeros. Only where kmf_kernel_of has INT16.
 */
void kmf_words_int16(kmf_rows to, float *scale, float *low, const float *x, size_t ld_x,
                     size_t N, size_t K);

#endif
