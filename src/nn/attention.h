/* SPDX-License-Identifier: MIT */
/*
 * Full self-attention for inference:  out = softmax(q k^T / sqrt K - slope |t - u|) v  for one head
 * of one sequence, query t and key u, in memory linear in T. A slope beyond 0 is ALiBi's (O. Press
 * et al., arXiv 2108.12409), symmetric. Training's is nn/attention_train.h.
 *
 * q, k, v, out are [T, K] with a row stride. The bits depend on this sequence alone, and those of
 * a row on nothing but q's row, k and v.
 */
#ifndef KMF_ATTENTION_H
#define KMF_ATTENTION_H

#include "nn/kernels.h"

#include <stddef.h>

/*
 * What the two products are computed in, of what kmf_kernel_of has; scores in int16 or split go
 * with values in float32 or bfloat16 as well, all but split with values in the same. An error of a
 * score is one of the exponent, so scores may deserve more: int16 is as fast as bfloat16 where the
 * processor has no tiles, with 12 bits and more for 8; split, with 16, takes three products of
 * bfloat16 (nn/kernels.h).
 *
 * Queries and keys of integers have a scale each, values of integers one for each column
 * (nn/panels.h); what weights become is in nn/softmax.h. The models that were tried lost little
 * (tests/bench/results/encoder.md).
 */
typedef struct kmf_attention_precision {
    kmf_operand scores; /* q k^T */
    kmf_operand values; /* the weights times v */
} kmf_attention_precision;

/* Bytes of scratch, a multiple of 64, for sequences of at most T tokens; 0: too many. */
size_t kmf_attention_scratch(size_t T, size_t K, kmf_attention_precision precision);

/* A head of a sequence; all borrowed. */
typedef struct kmf_attention_head {
    const float *q, *k, *v; /* [T, K], ld from row to row */
    size_t ld;
    size_t T, K;
    float slope; /* of ALiBi; 0: none */
    kmf_attention_precision precision;
} kmf_attention_head;

/*
 * Rows t0 .. t1 - 1 of out. out may be q, where nobody works on these rows of q at the same time.
 * scratch: kmf_attention_scratch, aligned to 64.
 */
void kmf_attention(float *out, size_t ld_out, const kmf_attention_head *of, void *scratch,
                   size_t t0, size_t t1);

#endif
