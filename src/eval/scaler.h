/* SPDX-License-Identifier: MIT */
/* Rows of vectors: which there are, their means and deviations, and what they are scaled by. */
#ifndef KMF_SCALER_H
#define KMF_SCALER_H

#include "kmerformer.h"

#include <math.h>
#include <stdbool.h>

/* Rows that a product takes at a time; where they begin does not depend on threads. */
#define KMF_ROWS_BLOCK 256

/* Is it a vector, and no row of NaN? */
static inline bool kmf_row_is_there(const float *row)
{
    return !isnan(row[0]);
}

/* The rows that are there, by number. keep [n]; returns how many. */
size_t kmf_rows_there(size_t *keep, const float *x, size_t n, size_t dim);

/* The greatest magnitude in the rows that are there; 0 if none is. */
float kmf_rows_largest(const float *x, size_t n, size_t dim);

/*
 * Of the rows that are there, [dim] each: mean, and deviation (of the population), a column's own
 * or for all columns the root of the mean of their variances. A column that never changes has 1;
 * with one number for all that number, which is 1 if none changes. Less than 1e-9 of the mean, or
 * of the root of the means' mean square, is no change.
 */
void kmf_rows_mean(double *mean, const float *x, size_t n, size_t dim);
void kmf_rows_deviation(double *deviation, const double *mean, const float *x, size_t n,
                        size_t dim);
void kmf_rows_common_deviation(double *deviation, const double *mean, const float *x, size_t n,
                               size_t dim);

/* The class that most rows have, of equals the first: classes of n_classes or more have none. */
int32_t kmf_most_frequent(double *shares, const int32_t *y, size_t n, size_t n_classes);

/*
 * How vectors are brought to one scale before distances between them are taken. m, s: mean and
 * deviation of a training part; a column that never changes has s = 1.
 *
 *   none       x            l2          x / |x|
 *   standard   (x - m) / s  center-l2   (x - m) / |x - m|
 *
 * Of each, the mean over the training part is taken away at the end, which changes no distance
 * but keeps what is the same in all vectors out of the roundings. A vector of length 0 stays.
 */
typedef struct kmf_scaler {
    kmf_scale kind;
    size_t dim;
    double *mean;      /* owned [dim]; taken away first */
    double *deviation; /* owned [dim] */
    double *middle;    /* owned [dim]; taken away last */
} kmf_scaler;

/* Of the rows of x [n, dim]. */
int kmf_scaler_init(kmf_scaler *scaler, kmf_scale kind, const float *x, size_t n, size_t dim,
                    kmf_err *err) KMF_MUST_CHECK;
/* Accepts a zeroed one. */
void kmf_scaler_free(kmf_scaler *scaler);
/* y = the rows of x, scaled; y may be x. Rows of NaN stay. */
void kmf_scaler_apply(const kmf_scaler *scaler, float *y, const float *x, size_t n);

#endif
