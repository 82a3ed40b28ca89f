/* SPDX-License-Identifier: MIT */
/*
 * The sum of some columns stays in registers while rows go by: of TIMES_MOST numbers of up to 2^24
 * units, so that it stays below 2^31.
 *
 * Of a table of not too many rows a panel lies in the second cache, where the whole table would
 * not, while one list after the other takes its rows of it.
 */
#include "embed/rowtable.h"

#include "base/cpu.h"
#include "base/err.h"
#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define UNIT_BITS 24
#define TIMES_MOST 127
#define LOSS_MOST 1e-3                  /* of a row's length */
#define USUAL_LOSS_MOST 1e-5            /* of the usual one, that many rows add up to */
#define PANEL_ROWS_MOST ((size_t)16384) /* of a table in panels: 1 MB each */
#define AHEAD 64                        /* rows that are asked for before they are added */

_Static_assert(KMF_ROWTABLE_ROWS <= TIMES_MOST, "the rows of a call, once each, fit a sum");

/* ---------------------------------------------------------------- making ---------------- */

static double weight_of(const uint64_t *weights, size_t row)
{
    return weights ? ldexp((double)weights[row], -KMF_WEIGHT_BITS) : 1;
}

/* Raises the largest magnitudes; returns the length. */
static double raise_most(double *restrict most, const float *restrict row, double w, size_t dim)
{
    double square = 0;
    for (size_t d = 0; d < dim; d++) {
        double x = fabs(w * (double)row[d]);
        most[d] = x > most[d] ? x : most[d];
        square += x * x;
    }
    return sqrt(square);
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
 * A row in units, of which there are so many in 1; false: it loses too much, of itself and of the
 * `usual` length. Of at most 2^24 units, they are rounded by adding a number so large that it has
 * no fraction.
 */
static bool to_units(int32_t *units, const float *row, double w, const double *in_one,
                     size_t dim, double usual)
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
    double most = fmax(LOSS_MOST * sqrt(length), USUAL_LOSS_MOST * usual);
    return lost <= most * most;
}

static int loses_too_much(const char *name, size_t row, kmf_err *err)
{
    return kmf_fail(err, KMF_EMODEL,
                    "%s: the numbers of vector %zu are too small beside the largest of their "
                    "columns to be added to them",
                    name, row + 1);
}

/* The columns of a row to their panels. */
static void put_row(kmf_rowtable *table, size_t row, const int32_t *units)
{
    for (size_t d = 0; d < table->dim; d += table->width) {
        size_t n = kmf_min(table->dim - d, table->width);
        int32_t *to = table->units + d * table->n + row * table->width;
        memcpy(to, units + d, n * sizeof *to);
        memset(to + n, 0, (table->width - n) * sizeof *to);
    }
}

int kmf_rowtable_make(kmf_rowtable *table, const char *name, float *values,
                      const uint64_t *weights, size_t n, size_t dim, kmf_err *err)
{
    int32_t *rows = (int32_t *)(void *)values; /* each number gives way to its units */
    size_t line = KMF_ROWTABLE_LINE;
    bool panels = n <= PANEL_ROWS_MOST || dim < line;
    *table = (kmf_rowtable){.n = n, .dim = dim, .width = panels ? line : dim, .units = rows};
    if (panels)
        table->units = kmf_large(n * kmf_div_up(dim, line), line * sizeof *rows, err);
    table->unit = kmf_calloc(dim, sizeof *table->unit, err);
    int status = table->unit && table->units ? 0 : KMF_ENOMEM;
    double inverse = 0; /* of lengths, the sum, by which an outlier counts for little */
    size_t n_lengths = 0;
    for (size_t i = 0; i < n && status == 0; i++) {
        double length = raise_most(table->unit, values + i * dim, weight_of(weights, i), dim);
        inverse += length > 0 ? 1 / length : 0;
        n_lengths += length > 0;
    }
    double usual = n_lengths > 0 ? (double)n_lengths / inverse : 0;
    if (status == 0)
        count_units(table->unit, dim);
    for (size_t i = 0; i < n && status == 0; i++) {
        if (!to_units(rows + i * dim, values + i * dim, weight_of(weights, i), table->unit, dim,
                      usual))
            status = loses_too_much(name, i, err);
        if (panels)
            put_row(table, i, rows + i * dim);
    }
    for (size_t d = 0; d < dim && status == 0; d++)
        table->unit[d] = 1 / table->unit[d];
    if (panels)
        kmf_free(values);
    if (status < 0)
        kmf_rowtable_free(table);
    return status;
}

void kmf_rowtable_free(kmf_rowtable *table)
{
    kmf_free(table->units);
    kmf_free(table->unit);
    *table = (kmf_rowtable){0};
}

/* ---------------------------------------------------------------- sums ------------------ */

/* Asks for rows beg .. end - 1 of a table that is far from the processor; returns end. */
static size_t fetch(const kmf_rowtable *table, const int32_t *rows, size_t beg, size_t end)
{
    for (size_t i = beg; i < end; i++)
        for (size_t d = 0; d < table->dim; d += KMF_ROWTABLE_LINE)
            __builtin_prefetch(kmf_rowtable_units(table, (size_t)rows[i], 0) + d);
    return end;
}

#define LEVEL baseline
#define TARGET
#define LANES 4
#include "embed/rowtable_lines.h"

#if KMF_X86_LEVELS
#define LEVEL avx2
#define TARGET KMF_TARGET_AVX2
#define LANES 8
#include "embed/rowtable_lines.h"

#define LEVEL avx512
#define TARGET KMF_TARGET_AVX512
#define LANES 16
#include "embed/rowtable_lines.h"
#endif

static const struct level {
    void (*add)(double *sums, const kmf_rowtable *table, const int32_t *rows, const size_t *off,
                size_t n);
    void (*add_times)(double *sum, const kmf_rowtable *table, const int32_t *times,
                      const int32_t *rows, size_t n);
} levels[] = {
    [KMF_CPU_BASELINE] = {add_baseline, add_times_baseline},
#if KMF_X86_LEVELS
    [KMF_CPU_AVX2] = {add_avx2, add_times_avx2},
    [KMF_CPU_AVX512] = {add_avx512, add_times_avx512},
#endif
};

void kmf_rowtable_add(double *sums, const kmf_rowtable *table, const int32_t *rows,
                      const size_t *off, size_t n)
{
    levels[kmf_cpu_vectors()].add(sums, table, rows, off, n);
}

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
        levels[kmf_cpu_vectors()].add_times(sum, table, part, rows + beg, i - beg + (done > 0));
    }
}

void kmf_rowtable_scale(double *restrict numbers, const double *restrict sum,
                        const kmf_rowtable *table)
{
    for (size_t d = 0; d < table->dim; d++)
        numbers[d] = sum[d] * table->unit[d];
}

static KMF_INLINE void kmf_rowtable_mean_body(float *restrict mean, const double *restrict sum,
                                              const kmf_rowtable *table, double weight)
{
    const double *unit = table->unit;
    size_t dim = table->dim;
    for (size_t d = 0; d < dim; d++)
        mean[d] = (float)(sum[d] * unit[d] / weight);
}

KMF_CLONES(kmf_rowtable_mean,
           (float *mean, const double *sum, const kmf_rowtable *table, double weight),
           (mean, sum, table, weight))
