/* SPDX-License-Identifier: MIT */
/*
 * Sums of rows of a table, exact and so the same in any order. Each column is in fixed point: with
 * 2^e the least power of two above all its magnitudes, a number is the nearest multiple of the unit
 * 2^(e - 24), off by 2^-24 of the largest magnitude at most; without weights, floats from 2^(e - 1)
 * on are what they were. That is 32 bits a number, as a float has, and one integer addition where
 * floats are converted to doubles first.
 *
 * Sums are doubles that count units: exact while they stay below 2^53, which KMF_ROWTABLE_EXACT
 * rows cannot leave.
 */
#ifndef KMF_ROWTABLE_H
#define KMF_ROWTABLE_H

#include "kmerformer.h"

#include <stddef.h>
#include <stdint.h>

#define KMF_ROWTABLE_LINE 16 /* numbers */
#define KMF_ROWTABLE_EXACT (UINT64_C(1) << 29)

typedef struct kmf_rowtable {
    int32_t *units; /* owned: panels of `width` columns, in each all rows one after the other */
    double *unit;   /* owned [dim] */
    size_t n, dim;
    size_t width; /* KMF_ROWTABLE_LINE, or dim: all columns are one panel */
} kmf_rowtable;

/* Row i from column d on; columns up to the next multiple of the width lie behind it. */
static inline const int32_t *kmf_rowtable_units(const kmf_rowtable *table, size_t i, size_t d)
{
    size_t first = d / table->width * table->width;
    return table->units + first * table->n + i * table->width + (d - first);
}

/* Weights, 0 .. 1, are whole numbers of 2^-40, so that 2^23 of them have a sum in uint64_t. */
#define KMF_WEIGHT_BITS 40
#define KMF_WEIGHT_ONE ((uint64_t)1 << KMF_WEIGHT_BITS)

/*
 * Row i is weights[i] times values[i]; weights NULL: all are 1.
 * values: [n, dim], finite, from base/mem.h; taken over, whatever comes back. weights: [n]
 * KMF_EMODEL, its message beginning with name: a row would lose more than a 1000th of its length,
 * and more than 10^-5 of the harmonic mean of all lengths, because its numbers are so small beside
 * the largest of their columns.
 */
int kmf_rowtable_make(kmf_rowtable *table, const char *name, float *values,
                      const uint64_t *weights, size_t n, size_t dim,
                      kmf_err *err) KMF_MUST_CHECK;
void kmf_rowtable_free(kmf_rowtable *table);

/*
 * Of each list i: sums[i] += the rows rows[off[i]] .. rows[off[i + 1] - 1], in units.
 * sums: [n, dim]   off: [n + 1]
 */
void kmf_rowtable_add(double *sums, const kmf_rowtable *table, const int32_t *rows,
                      const size_t *off, size_t n);

/* The most rows of a call that tells how often. */
#define KMF_ROWTABLE_ROWS 64

/* sum += times[0] rows[0] + ..   times: [n], 1 or more   n: at most KMF_ROWTABLE_ROWS */
void kmf_rowtable_add_times(double *sum, const kmf_rowtable *table, const int32_t *times,
                            const int32_t *rows, size_t n);

/* From a sum in units to numbers, elsewhere.   both: [dim] */
void kmf_rowtable_scale(double *numbers, const double *sum, const kmf_rowtable *table);
/* To the numbers divided by a weight, as floats.   both: [dim] */
void kmf_rowtable_mean(float *mean, const double *sum, const kmf_rowtable *table,
                       double weight);

#endif
