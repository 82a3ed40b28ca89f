/* SPDX-License-Identifier: MIT */
/* Dot products of floats whose sums are double: for the few rows of a classifier. */
#ifndef KMF_WIDE_DOTS_H
#define KMF_WIDE_DOTS_H

#include <stddef.h>

/*
 * y = w x.   x: [K]   w: [R, K]   y: [R]
 * There are four sums, which term k belongs to is k % 4, and those behind the last multiple of four
 * to the first one; then (s0 + s1) + (s2 + s3). The same bits on every processor.
 */
void kmf_wide_dots(double *y, const float *x, const float *w, size_t R, size_t K);

#endif
