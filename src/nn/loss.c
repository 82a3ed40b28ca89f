/* SPDX-License-Identifier: MIT */
/*
 * The sum of a row's e^(x - max) is taken in double, in SUM_LANES parts (see lanes.h): where
 * one word has nearly all the probability, the others' share, which is the loss, would be lost in
 * a float beside 1.
 */
#include "nn/loss.h"

#include "base/cpu.h"
#include "nn/lanes.h"
#include "nn/vmath.h"

#include <assert.h>
#include <math.h>

#define SUM_LANES 16

/* The row's softmax in its place; the largest logit and the sum. */
static KMF_INLINE void softmax_row(bool fused, kmf_real *restrict row, kmf_real *max,
                                   double *sum, size_t V)
{
    kmf_order most = KMF_ORDER_LEAST;
    for (size_t i = 0; i < V; i++)
        most = kmf_order_of(row[i]) > most ? kmf_order_of(row[i]) : most;
    kmf_real top = kmf_order_back(most);

    for (size_t i = 0; i < V; i++)
        row[i] = kmf_exp(fused, row[i] - top);

    double part[SUM_LANES] = {0};
    size_t i = 0;
    for (; i + SUM_LANES <= V; i += SUM_LANES)
        for (size_t l = 0; l < SUM_LANES; l++)
            part[l] += (double)row[i + l];
    for (size_t l = 0; i + l < V; l++)
        part[l] += (double)row[i + l];
    *sum = kmf_fold_lanes(part, SUM_LANES);

    kmf_real inverse = (kmf_real)(1.0 / *sum);
    for (i = 0; i < V; i++)
        row[i] *= inverse;
    *max = top;
}

static KMF_INLINE void kmf_softmax_forward_body(bool fused, kmf_real *x, size_t ld, double *nll,
                                                const int32_t *labels, size_t N, size_t V)
{
    assert(!nll == !labels);
    for (size_t n = 0; n < N; n++) {
        kmf_real *row = x + n * ld;
        kmf_real max;
        double sum;
        assert(!labels || (labels[n] >= 0 && (size_t)labels[n] < V));
        double right = labels ? (double)row[labels[n]] : 0;
        softmax_row(fused, row, &max, &sum, V);
        if (nll)
            nll[n] = log(sum) + ((double)max - right);
    }
}

KMF_CLONES_FUSED(kmf_softmax_forward,
                 (kmf_real * x, size_t ld, double *nll, const int32_t *labels, size_t N,
                  size_t V),
                 (x, ld, nll, labels, N, V))

static KMF_INLINE void kmf_softmax_backward_body(kmf_real *p, size_t ld, const int32_t *labels,
                                                 const kmf_real *weights, size_t N, size_t V)
{
    for (size_t n = 0; n < N; n++) {
        kmf_real *row = p + n * ld;
        kmf_real weight = weights[n];
        assert(labels[n] >= 0 && (size_t)labels[n] < V);
        row[labels[n]] -= 1;
        for (size_t i = 0; i < V; i++)
            row[i] *= weight;
    }
}

KMF_CLONES(kmf_softmax_backward,
           (kmf_real * p, size_t ld, const int32_t *labels, const kmf_real *weights, size_t N,
            size_t V),
           (p, ld, labels, weights, N, V))
