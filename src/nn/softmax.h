/* SPDX-License-Identifier: MIT */
/*
 * Attention's scores become weights, in powers of 2 and some keys at a time (nn/attention.h):
 *
 *   m' = max(m, max S)   P = 2^(S - m')   s = s 2^(m - m') + sum P
 *
 * Weights are float32, bfloat16, or integers: bytes, in units of 1/254 of the largest so far, or
 * int16, of 1/KMF_WEIGHT_INT16. Rounded to the nearest, many small ones beside a large one would
 * all be 0. So an integer is w + d rounded, d between -1/2 and 1/2 by the key's place, such that of
 * 64 neighbours of equal weight as many are rounded up as make their sum right to half a unit.
 *
 * The bits of a row depend on its scores and where they are broken off, and not on other rows.
 */
#ifndef KMF_SOFTMAX_H
#define KMF_SOFTMAX_H

#include "nn/kernels.h"

#include <stdbool.h>
#include <stddef.h>

#define KMF_SOFTMAX_ROWS 192 /* at most, at a time */
#define KMF_SOFTMAX_STEP 64  /* a row of scores has room for a multiple of it */

#define KMF_WEIGHT_INT16 2048

/* Of the rows under way. */
typedef struct kmf_softmax_state {
    float max[KMF_SOFTMAX_ROWS], sum[KMF_SOFTMAX_ROWS]; /* m, s */
    float factor[KMF_SOFTMAX_ROWS];                     /* 2^(m - m'), of earlier sums */
} kmf_softmax_state;

/* What turns sums of integers into scores (kmf_int8_number, nn/panels.h). */
typedef struct kmf_score_units {
    float scale[KMF_SOFTMAX_ROWS], low[KMF_SOFTMAX_ROWS]; /* of the queries */
    const float *key_scales, *key_sums;                   /* [n], of the keys at work */
} kmf_score_units;

/*
 * Sums of integers, int32 [rows, n], become the scores that they stand for, in their place; what is
 * behind the n-th is left alone. most [rows]: the largest of each row; of one with a NaN, any. Only
 * where kmf_kernel_of has integers.
 */
void kmf_scores_of_integers(float *scores, size_t ld, const kmf_score_units *units, float *most,
                            size_t rows, size_t n);

/*
 * Takes in n more scores of each row, S [rows, ld], which become weights P: in their place, or in
 * words; of integers, s is the sum. What is behind the n-th up to a multiple of KMF_SOFTMAX_STEP is
 * written over, and words have room for as many. most: the largest of each row's n scores as they
 * are now, of one with a NaN any; NULL: not known. first: there were none before. A NaN or
 * +infinity makes its row's sum NaN, and so does a row of nothing but -infinity. Words only where
 * kmf_kernel_of has the operand.
 */
void kmf_softmax_step(float *scores, size_t ld, kmf_softmax_state *r, const float *most,
                      bool first, size_t rows, size_t n);
void kmf_softmax_step_bf16(kmf_rows to, float *scores, size_t ld, kmf_softmax_state *r,
                           const float *most, bool first, size_t rows, size_t n);
void kmf_softmax_step_int8(kmf_rows to, float *scores, size_t ld, kmf_softmax_state *r,
                           const float *most, bool first, size_t rows, size_t n);
void kmf_softmax_step_int16(kmf_rows to, float *scores, size_t ld, kmf_softmax_state *r,
                            const float *most, bool first, size_t rows, size_t n);

#endif
