/* SPDX-License-Identifier: MIT */
/*
 * Sums over a row in KMF_SUM_LANES partial sums, element i in sum i % KMF_SUM_LANES, which are then
 * added in pairs. The order is part of the source, so a vector unit of any width gives the same
 * bits, and no row sees its neighbours.
 */
#ifndef KMF_LANES_H
#define KMF_LANES_H

#include "base/cpu.h"
#include "nn/real.h"

#include <string.h>

#define KMF_SUM_LANES 32

/*
 * The sum of partial sums: part i and part i + 16, then of what is left i and i + 8, and so on; by
 * vectors of four, which every processor has, as gcc makes 31 single additions of loops.
 */
static KMF_INLINE kmf_real kmf_sum_lanes(const kmf_real *part)
{
    typedef kmf_real four __attribute__((vector_size(4 * sizeof(kmf_real))));
    four v[KMF_SUM_LANES / 4];
    memcpy(v, part, sizeof v);
    four sum = ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

/* The sum of n partial sums, a power of 2: of two halves, side by side, until one is left. */
static KMF_INLINE double kmf_fold_lanes(double *part, size_t n)
{
    for (size_t half = n / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            part[l] += part[l + half];
    return part[0];
}

/* The sum of a row. */
static KMF_INLINE kmf_real kmf_sum_row(const kmf_real *x, size_t n)
{
    kmf_real part[KMF_SUM_LANES] = {0};
    size_t i = 0;
    for (; i + KMF_SUM_LANES <= n; i += KMF_SUM_LANES)
        for (size_t l = 0; l < KMF_SUM_LANES; l++)
            part[l] += x[i + l];
    for (size_t l = 0; i + l < n; l++)
        part[l] += x[i + l];
    return kmf_sum_lanes(part);
}

#endif
