/* SPDX-License-Identifier: MIT */
/*
 * Dropout (Srivastava et al., 2014) by counters: whether an element is dropped is a function of
 * a key and the element's number and nothing else, so nothing is kept for the backward, and rows
 * may be split over threads in any way.
 */
#ifndef KMF_DROPOUT_H
#define KMF_DROPOUT_H

#include "kmerformer.h"
#include "nn/real.h"

/*
 * x[n][i] is multiplied by 0 with probability p, else by 1 / (1 - p): which, is a hash of key and
 * first + n D + i.  x: [N, D], ld.  0 <= p < 1; p counts in steps of 2^-32, and 0 does nothing at
 * all. NaN stays NaN. The backward is the same call on the gradient, which has the same factors.
 */
void kmf_dropout_forward(kmf_real *x, size_t ld, uint64_t key, uint64_t first, double p,
                         size_t N, size_t D);

/* The n factors of the elements first .. first + n - 1 themselves. */
void kmf_dropout_factors(kmf_real *factors, uint64_t key, uint64_t first, double p, size_t n);

#endif
