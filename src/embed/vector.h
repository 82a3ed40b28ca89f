/* SPDX-License-Identifier: MIT */
/* A record's vector out of its sums, as numbers: mean, maximum, length, whether they are finite. */
#ifndef KMF_VECTOR_H
#define KMF_VECTOR_H

#include "kmerformer.h"

#include <math.h>
#include <stdbool.h>

/* The greater of two; if one is a NaN, that, so that it is found. */
static inline double kmf_greater(double a, double b)
{
    return b > a || isnan(b) ? b : a;
}

/* vector [dim] = total / weight */
void kmf_vector_mean(float *vector, const double *total, double weight, size_t dim);
/*
 * As kmf_norm says. first: numbers of the first of two parts, whose squares then sum to 1/5; 0:
 * there is one part.
 */
void kmf_vector_norm(float *vector, size_t dim, size_t first, kmf_norm norm);
/* *finite: whether all numbers are. */
void kmf_vector_finite(const float *vector, size_t dim, bool *finite);

#endif
