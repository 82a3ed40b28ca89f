/* SPDX-License-Identifier: MIT */
/*
 * A matrix product that gives the same bits on every processor, for any number of rows and any
 * place of a row: the sums are those of nn/lanes.h, as kmf_dots_forward has them. For the few rows
 * that records bring as they come; nn/gemm.h is for those of tokens.
 */
#ifndef KMF_DOTS_H
#define KMF_DOTS_H

#include "nn/real.h"

#include <stddef.h>

/* y = x w^T.   x: [N, K]   w: [R, K]   y: [N, R], ld_y, not over x or w */
void kmf_dots_product(kmf_real *y, size_t ld_y, const kmf_real *x, size_t ld_x,
                      const kmf_real *w, size_t ld_w, size_t N, size_t R, size_t K);

#endif
