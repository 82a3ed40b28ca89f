/* SPDX-License-Identifier: MIT */
/*
 * Full self-attention of one sequence:  out = dropout(softmax(q k^T / sqrt K)) v  per head,
 * forward and backward. Processed a block of KMF_ATTENTION_TRAIN_ROWS query rows at a time, so
 * memory is linear in T.
 *
 * q, k, v, out and their gradients are [T, H K] with a row stride; head h has the columns
 * h K .. h K + K - 1. Heads are independent: the functions work on heads h0 .. h1 - 1 of arrays
 * that hold all of them, so that any thread may take any (sequence, head), each with scratch of
 * its own. The bits depend on this sequence alone.
 */
#ifndef KMF_ATTENTION_TRAIN_H
#define KMF_ATTENTION_TRAIN_H

#include "kmerformer.h"
#include "nn/real.h"

/* So many that keys and values, packed, come from the second-level cache seldom enough. */
#define KMF_ATTENTION_TRAIN_ROWS ((size_t)192)

/*
 * Numbers of scratch for sequences of at most T tokens with the same K and precision, a multiple of
 * 16; 0 if it does not fit a size_t. Scratch is aligned to 64 bytes.
 */
size_t kmf_attention_train_scratch(size_t T, size_t K, kmf_precision precision);
/* The same for kmf_attention_backward. */
size_t kmf_attention_backward_scratch(size_t T, size_t K, kmf_precision precision);

/* A sequence's attention; all borrowed. */
typedef struct kmf_attention_task {
    const kmf_real *q, *k, *v; /* [T, H K], ld from row to row */
    size_t ld;
    size_t T, K;
    /* The weight of row t and column u of head h is dropped with probability p, by
       kmf_dropout_forward's rule (nn/dropout.h) with the counter (h T + t) T + u; key is this
       sequence's alone. */
    uint64_t key;
    double p;
    /*
     * Of the products: F32, or BF16 where kmf_precision_here has it, both factors rounded to it.
     * In the forward these are q and k; and M e^((q k^T - largest) / sqrt K), as the weights are
     * before what they make is multiplied by the inverse of their sum, and v. In the backward,
     * below, they are also dout and v; M P and dout; dS, with its 1 / sqrt K, and k or q.
     */
    kmf_precision precision;
    kmf_real *scratch; /* kmf_attention_train_scratch, or that of the backward */
} kmf_attention_task;

/*
 * out of heads h0 .. h1 - 1, and what the backward needs. out, row stride ld_out, must not overlap
 * q, k and v.
 *
 * stats  [H, 2, T], head h's at stats + h 2 T: for each row t the largest q k^T, [0][t], and the
 *        inverse of the sum of e^((q k^T - largest) / sqrt K), [1][t]. NULL: not kept.
 */
void kmf_attention_forward_train(kmf_real *out, size_t ld_out, kmf_real *stats,
                                 const kmf_attention_task *task, size_t h0, size_t h1);

typedef struct kmf_attention_gradients {
    kmf_real *dq, *dk, *dv; /* [T, H K], ld from row to row */
    size_t ld;
} kmf_attention_gradients;

/*
 * The gradients by q, k and v from dout, and from out, stats and the task as the forward had and
 * left them. The weights P are computed again, a block of rows at a time:
 *
 *   P = softmax(q k^T / sqrt K)   M = 1 / (1 - p) where a weight was kept, else 0
 *   dv = (M P)^T dout   dS = P (M (dout v^T) - rowsum(dout out)) / sqrt K
 *   dq = dS k           dk = dS^T q
 *
 * Overwrites the columns of heads h0 .. h1 - 1 of dq, dk and dv, which must not overlap the
 * inputs.
 */
void kmf_attention_backward(const kmf_attention_gradients *d, const kmf_real *dout,
                            size_t ld_dout, const kmf_real *out, size_t ld_out,
                            const kmf_real *stats, const kmf_attention_task *task, size_t h0,
                            size_t h1);

#endif
