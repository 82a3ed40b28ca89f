/* SPDX-License-Identifier: MIT */
/*
 * Full self-attention of one sequence:  out = softmax(q k^T / sqrt K) v  per head.
 * Worked off a block of KMF_ATTN_ROWS query rows at a time, so memory is linear in T.
 */
#ifndef KMF_ATTN_H
#define KMF_ATTN_H

#include "kmerformer.h"

#define KMF_ATTN_ROWS 64

/* Floats of scratch for sequences of at most T tokens; 0 if it does not fit a size_t. */
size_t kmf_attn_scratch(size_t T, size_t K);

/*
 * q, k, v: [T, H K], row stride ld.  out: [T, H K], row stride ld_out; may be q itself.
 * The bits depend on this sequence alone.
 */
void kmf_attn_forward(float *out, size_t ld_out, const float *q, const float *k, const float *v,
                      size_t ld, float *scratch, size_t T, size_t H, size_t K);

#endif
