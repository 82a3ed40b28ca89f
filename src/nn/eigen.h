/* SPDX-License-Identifier: MIT */
/* Eigenvectors of symmetric matrices. The only module that knows LAPACK. */
#ifndef KMF_EIGEN_H
#define KMF_EIGEN_H

#include "kmerformer.h"

#include <stddef.h>

/*
 * The `count` greatest eigenvalues of the symmetric a [n, n], descending, with their vectors as
 * rows of length 1: a v_i = values[i] v_i.   values: [count]   vectors: [count, n]
 * Of the two signs of a vector the one whose greatest component is positive is taken, the first
 * such component where several are as great. Of a, only a[i, j] with j >= i is read; it is
 * overwritten. 1 <= count <= n, and n fits an int.
 *
 * Sets BLAS to one thread: the bits do not depend on how many the processor has.
 * KMF_ENUMERIC: a is not finite; KMF_ENOMEM.
 */
int kmf_eigen_greatest(double *values, double *vectors, double *a, size_t n, size_t count,
                       kmf_err *err) KMF_MUST_CHECK;

#endif
