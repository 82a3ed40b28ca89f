/* SPDX-License-Identifier: MIT */
/*
 * Rows of activations in 8 bits, the left operand (a) of products in int8: row n of x is
 * u scale[n] + low[n], u = 0 .. 255, low the smallest of the row and scale (largest - smallest) /
 * 255, so that (x - low) 255 / (largest - smallest), rounded to the nearest, is u.
 */
#ifndef KMF_QUANTISE_H
#define KMF_QUANTISE_H

#include "nn/kernels.h"

/*
 * x [N, K] to bytes, or where words have two terms to halves, scale [N] and low [N]; behind the
 * K-th up to a multiple of 16 words there are zeros. Both are NaN for a row that holds what is not
 * finite. Only where kmf_precision_here has INT8.
 */
void kmf_words_int8(kmf_rows to, float *scale, float *low, const float *x, size_t ld_x,
                    size_t N, size_t K);

#endif
