/* SPDX-License-Identifier: MIT */
/* Vectors that are learnt from and judged by. */
#ifndef KMF_REPEATED_H
#define KMF_REPEATED_H

#include "kmerformer.h"

/* *n: rows [dim] of test that are a row of train, bit for bit; those without numbers are none. */
int kmf_count_repeated(size_t *n, const kmf_points *test, const kmf_points *train, size_t dim,
                       kmf_err *err) KMF_MUST_CHECK;

#endif
