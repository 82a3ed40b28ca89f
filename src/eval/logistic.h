/* SPDX-License-Identifier: MIT */
/* The loss of multinomial logistic regression and its gradient. */
#ifndef KMF_LOGISTIC_H
#define KMF_LOGISTIC_H

#include "kmerformer.h"

/*
 *   f(W, b) = 1/n sum_i -log softmax(W z_i + b)[y_i] + l2 / 2 |W|^2
 *
 * z: [n, dim], no NaN   y: [n], below n_classes   W: [n_classes, dim]   b: [n_classes]
 */
typedef struct kmf_logistic kmf_logistic;

/* z and y are borrowed, pool as well (NULL: one thread). n is 1 or more. */
kmf_logistic *kmf_logistic_new(const float *z, const int32_t *y, size_t n, size_t dim,
                               size_t n_classes, kmf_pool *pool, kmf_err *err) KMF_MUST_CHECK;
void kmf_logistic_free(kmf_logistic *logistic);
void kmf_logistic_set_l2(kmf_logistic *logistic, double l2);
/*
 * A kmf_objective_fn: user is the kmf_logistic; x and gradient are W, then b. Both are rounded
 * to float32, as are products and probabilities; gradients are summed in float32 within a sixteenth
 * of the rows, and in double beyond, as the loss is. The same bits for any pool.
 */
int kmf_logistic_loss(void *user, double *value, double *gradient, const double *x,
                      kmf_err *err);

#endif
