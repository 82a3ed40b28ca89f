/* SPDX-License-Identifier: MIT */
/* How far numbers in float are from those in double that they should be. */
#ifndef ERRORS_H
#define ERRORS_H

#include <math.h>
#include <stddef.h>

/* The largest difference; NaN if there is one anywhere. */
static inline double difference(const float *ours, const double *right, size_t n)
{
    double worst = 0.0;
    for (size_t i = 0; i < n; i++) {
        double error = fabs((double)ours[i] - right[i]);
        worst = error <= worst ? worst : error;
    }
    return worst;
}

/* Of the largest of those. */
static inline double relative_error(const float *ours, const double *right, size_t n)
{
    double largest = 0.0;
    for (size_t i = 0; i < n; i++)
        largest = fabs(right[i]) > largest ? fabs(right[i]) : largest;
    return difference(ours, right, n) / largest;
}

#endif
