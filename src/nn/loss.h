/* SPDX-License-Identifier: MIT */
/* Softmax and cross-entropy over the vocabulary. */
#ifndef KMF_LOSS_H
#define KMF_LOSS_H

#include "kmerformer.h"
#include "nn/real.h"

/*
 * Row softmax in place of the logits x [N, V], ld, and
 *   nll[n] = -ln p[n][labels[n]] = ln(sum_i e^(x[i] - max)) + max - x[label]
 * summed in double, from the logits and not from p: right also where p is 0. Labels are
 * 0 .. V - 1; labels and nll may both be NULL: the softmax alone. A row with a NaN or +infinity
 * is NaN, and so is its nll.
 */
void kmf_softmax_forward(kmf_real *x, size_t ld, double *nll, const int32_t *labels, size_t N,
                         size_t V);

/*
 * In place of the probabilities p [N, V]: the gradient of sum_n weights[n] nll[n] by the logits,
 *   dx[n][i] = (p[n][i] - (i == labels[n])) weights[n]
 */
void kmf_softmax_backward(kmf_real *p, size_t ld, const int32_t *labels,
                          const kmf_real *weights, size_t N, size_t V);

#endif
