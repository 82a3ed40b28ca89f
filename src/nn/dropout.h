/* SPDX-License-Identifier: MIT */
/*
 * Dropout (Srivastava et al., 2014) by counters: whether an element is dropped is a function of
 * a key and the element's number and nothing else, so nothing is kept for the backward, and rows
 * may be split over threads in any way. Element n of a key is dropped where z < floor(p 2^32), in
 * words of 32 bits:
 *
 *   z = n mod 2^31 + a
 *   z = (z ^ z >> 16) * 0x7feb352d + b
 *   z = (z ^ z >> 15) * 0x846ca68b
 *
 * a and b: the lower and the upper half of the first number of stream floor(n / 2^31) of the key
 * (base/rng.h).
 */
#ifndef KMF_DROPOUT_H
#define KMF_DROPOUT_H

#include "kmerformer.h"
#include "nn/real.h"

/*
 * x[n][i], element first + n D + i, is multiplied by 0 with probability p, else by 1 / (1 - p).
 * x: [N, D], ld.  0 <= p < 1, and 0 does nothing at all. NaN stays NaN. The backward is the same
 * call on the gradient, which has the same factors.
 */
void kmf_dropout_forward(kmf_real *x, size_t ld, uint64_t key, uint64_t first, double p,
                         size_t N, size_t D);

/* The n factors of the elements first .. first + n - 1 themselves. */
void kmf_dropout_factors(kmf_real *factors, uint64_t key, uint64_t first, double p, size_t n);

#endif
