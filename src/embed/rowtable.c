/* SPDX-License-Identifier: MIT */
/*
 * The sum of some columns stays in registers, where there are as many, while rows go by: of
 * TIMES_MOST numbers of up to 2^24 units, so that it stays below 2^31.
 */
#include "embed/rowtable.h"

#include "base/cpu.h"
#include "base/err.h"
#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#define UNIT_BITS 24
#define TIMES_MOST 127
#define COLUMNS \
    128 /* added up at a time: a quarter of the registers of AVX-512, all of AVX2's */
#define LOSS_MOST 1e-3
#define LINE_NUMBERS 16

_Static_assert(KMF_ROWTABLE_ROWS <= TIMES_MOST, "the rows of a call, once each, fit a sum");

/* ---------------------------------------------------------------- making ---------------- */

static double weight_of(const uint64_t *weights, size_t row)
{
    return weights ? ldexp((double)weights[row], -KMF_WEIGHT_BITS) : 1;
}

static void raise_most(double *restrict most, const float *restrict row, double w, size_t dim)
{
    for (size_t d = 0; d < dim; d++) {
        double x = fabs(w * (double)row[d]);
        most[d] = x > most[d] ? x : most[d];
    }
}

/* In place, of columns whose largest magnitudes these are: units in 1; of one of zeros, 1. */
static void count_units(double *most, size_t dim)
{
    for (size_t d = 0; d < dim; d++) {
        int e = UNIT_BITS;
        if (most[d] > 0)
            (void)frexp(most[d], &e);
        most[d] = ldexp(1, UNIT_BITS - e);
    }
}

/*
 * A row in units, of which there are so many in 1; false: it loses too much. Of at most 2^24
 * units, they are rounded by adding a number so large that it has no fraction.
 */
static bool to_units(int32_t *units, const float *row, double w, const double *in_one,
                     size_t dim)
{
    double length = 0;
    double lost = 0;
    for (size_t d = 0; d < dim; d++) {
        double x = w * (double)row[d];
        double rounded = (x * in_one[d] + 0x1.8p52) - 0x1.8p52;
        double error = x - rounded / in_one[d];
        units[d] = (int32_t)rounded;
        length += x * x;
        lost += error * error;
    }
    return lost <= LOSS_MOST * LOSS_MOST * length;
}

int kmf_rowtable_make(kmf_rowtable *table, const char *name, float *values,
                      const uint64_t *weights, size_t n, size_t dim, kmf_err *err)
{
    *table = (kmf_rowtable){.units = (int32_t *)(void *)values, .dim = dim};
    table->unit = kmf_calloc(dim, sizeof *table->unit, err);
    if (!table->unit) {
        kmf_rowtable_free(table);
        return KMF_ENOMEM;
    }
    for (size_t i = 0; i < n; i++)
        raise_most(table->unit, values + i * dim, weight_of(weights, i), dim);
    count_units(table->unit, dim);
    for (size_t i = 0; i < n; i++) { /* a number is read before its units are written */
        if (to_units(table->units + i * dim, values + i * dim, weight_of(weights, i),
                     table->unit, dim))
            continue;
        kmf_rowtable_free(table);
        return kmf_fail(err, KMF_EMODEL,
                        "%s: the numbers of vector %zu are too small beside the largest of "
                        "their columns to be added to them",
                        name, i + 1);
    }
    for (size_t d = 0; d < dim; d++)
        table->unit[d] = 1 / table->unit[d];
    return 0;
}

void kmf_rowtable_free(kmf_rowtable *table)
{
    kmf_free(table->units);
    kmf_free(table->unit);
    *table = (kmf_rowtable){0};
}

/* ---------------------------------------------------------------- sums ------------------ */

/*
 * Rows, each as often as times says, TIMES_MOST at most in all; times NULL: once. That, and
 * columns, COLUMNS at most, are constants where this is inlined.
 */
static KMF_INLINE void add_columns(double *restrict sum, const int32_t *restrict units,
                                   const int32_t *restrict times, const int32_t *restrict rows,
                                   size_t n, size_t dim, size_t columns)
{
    int32_t s[COLUMNS];
    KMF_UNROLL(COLUMNS)
    for (size_t d = 0; d < columns; d++)
        s[d] = 0;
    for (size_t i = 0; i < n; i++) {
        const int32_t *restrict row = units + (size_t)rows[i] * dim;
        int32_t x = times ? times[i] : 1;
        KMF_UNROLL(COLUMNS)
        for (size_t d = 0; d < columns; d++)
            s[d] += x * row[d];
    }
    for (size_t d = 0; d < columns; d++)
        sum[d] += (double)s[d];
}

static KMF_INLINE void add_all_columns(double *sum, const kmf_rowtable *table,
                                       const int32_t *times, const int32_t *rows, size_t n)
{
    const int32_t *units = table->units;
    size_t dim = table->dim;
    size_t d = 0;
    assert(n <= KMF_ROWTABLE_ROWS);
    for (; d + COLUMNS <= dim; d += COLUMNS)
        add_columns(sum + d, units + d, times, rows, n, dim, COLUMNS);
    for (; d + 16 <= dim; d += 16)
        add_columns(sum + d, units + d, times, rows, n, dim, 16);
    for (; d + 4 <= dim; d += 4)
        add_columns(sum + d, units + d, times, rows, n, dim, 4);
    for (; d < dim; d++)
        add_columns(sum + d, units + d, times, rows, n, dim, 1);
}

static KMF_INLINE void kmf_rowtable_add_body(double *sum, const kmf_rowtable *table,
                                             const int32_t *rows, size_t n)
{
    add_all_columns(sum, table, NULL, rows, n);
}

KMF_CLONES(kmf_rowtable_add,
           (double *sum, const kmf_rowtable *table, const int32_t *rows, size_t n),
           (sum, table, rows, n))

/* As kmf_rowtable_add_times, of TIMES_MOST at most. */
static void add_some(double *sum, const kmf_rowtable *table, const int32_t *times,
                     const int32_t *rows, size_t n);

static KMF_INLINE void add_some_body(double *sum, const kmf_rowtable *table,
                                     const int32_t *times, const int32_t *rows, size_t n)
{
    add_all_columns(sum, table, times, rows, n);
}

KMF_CLONES(add_some,
           (double *sum, const kmf_rowtable *table, const int32_t *times, const int32_t *rows,
            size_t n),
           (sum, table, times, rows, n))

void kmf_rowtable_add_times(double *sum, const kmf_rowtable *table, const int32_t *times,
                            const int32_t *rows, size_t n)
{
    int32_t part[KMF_ROWTABLE_ROWS];
    int32_t done = 0; /* of times[i] */
    assert(n <= KMF_ROWTABLE_ROWS);
    for (size_t i = 0; i < n;) {
        size_t beg = i;
        int32_t room = TIMES_MOST;
        while (i < n && room > 0) {
            int32_t left = times[i] - done;
            int32_t now = left < room ? left : room;
            part[i - beg] = now;
            room -= now;
            done = now < left ? done + now : 0;
            i += now == left;
        }
        add_some(sum, table, part, rows + beg, i - beg + (done > 0));
    }
}

void kmf_rowtable_scale(double *sum, const kmf_rowtable *table)
{
    for (size_t d = 0; d < table->dim; d++)
        sum[d] *= table->unit[d];
}

void kmf_rowtable_fetch(const kmf_rowtable *table, const int32_t *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < table->dim; d += LINE_NUMBERS)
            __builtin_prefetch(table->units + (size_t)rows[i] * table->dim + d);
}
