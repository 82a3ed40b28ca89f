/* SPDX-License-Identifier: MIT */
/*
 * The words whose vectors point the way of a query.
 *
 *   cos(q, x) = q . x / sqrt(q . q  x . x)
 *
 * All vectors are looked at, in one pass: with a million words of 100 numbers that is 400 MB, as
 * fast as memory gives them, and no lengths need to be stored. Sums are doubles: products of floats
 * are exact in them, squares neither overflow nor vanish, and equal vectors have equal cosines.
 * LANES partial sums are what a compiler turns into vector instructions; without a fused
 * multiply-add they come to the same bits on every processor. O(rows (dim + log n)) in all.
 */
#include "kmerformer.h"

#include "base/cpu.h"
#include "base/err.h"
#include "base/mem.h"
#include "model/best.h"
#include "model/vectors.h"
#include "nn/lanes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LANES 8
#define ROWS 64

/* ---------------------------------------------------------------- cosines ---------------- */

/* dots[i] = query . x, squares[i] = x . x, where x is row i of rows [n, dim]. */
static void multiply(double *dots, double *squares, const float *rows, size_t n,
                     const float *query, size_t dim);

static KMF_INLINE void multiply_body(double *dots, double *squares, const float *rows, size_t n,
                                     const float *query, size_t dim)
{
    for (size_t row = 0; row < n; row++) {
        const float *x = rows + row * dim;
        double dot[LANES] = {0};
        double square[LANES] = {0};
        size_t i = 0;
        for (; i + LANES <= dim; i += LANES)
            for (size_t l = 0; l < LANES; l++) {
                double value = (double)x[i + l];
                dot[l] += value * (double)query[i + l];
                square[l] += value * value;
            }
        for (size_t l = 0; i + l < dim; l++) {
            double value = (double)x[i + l];
            dot[l] += value * (double)query[i + l];
            square[l] += value * value;
        }
        dots[row] = kmf_fold_lanes(dot, LANES);
        squares[row] = kmf_fold_lanes(square, LANES);
    }
}

KMF_CLONES(multiply,
           (double *dots, double *squares, const float *rows, size_t n, const float *query,
            size_t dim),
           (dots, squares, rows, n, query, dim))

/* ---------------------------------------------------------------- the search ------------- */

static int by_row(const void *a, const void *b)
{
    size_t x;
    size_t y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static void search(kmf_best *b, const kmf_vectors *v, const float *query, double length, int k,
                   const size_t *without, size_t n_without)
{
    double dots[ROWS];
    double squares[ROWS];
    size_t at = 0; /* of without, ascending */
    for (size_t beg = 0; beg < v->info.n; beg += ROWS) {
        size_t n = kmf_min(v->info.n - beg, ROWS);
        multiply(dots, squares, v->values + beg * v->info.dim, n, query, v->info.dim);
        for (size_t i = 0; i < n; i++) {
            size_t row = beg + i;
            while (at < n_without && without[at] < row)
                at++;
            if ((at < n_without && without[at] == row) || (k > 0 && v->k[row] != k) ||
                (v->count && v->count[row] == 0) || squares[i] == 0)
                continue;
            kmf_best_offer(
                b, (kmf_neighbour){row, (float)(dots[i] / (length * sqrt(squares[i])))});
        }
    }
}

int64_t kmf_vectors_nearest(const kmf_vectors *vectors, const float *query, int k,
                            const size_t *without, size_t n_without, kmf_neighbour *list,
                            size_t n, kmf_err *err)
{
    kmf_best b = {.list = list, .cap = n};
    double dot;
    double square;
    multiply(&dot, &square, query, 1, query, vectors->info.dim);
    if (!isfinite(square) || square == 0)
        return kmf_fail(err, KMF_EINVAL, "the query's vector is %s",
                        square == 0 ? "0" : "not finite");
    size_t *sorted = kmf_malloc(n_without, sizeof *sorted, err);
    if (!sorted)
        return KMF_ENOMEM;
    if (n_without > 0) {
        memcpy(sorted, without, n_without * sizeof *sorted);
        qsort(sorted, n_without, sizeof *sorted, by_row);
    }
    search(&b, vectors, query, sqrt(square), k, sorted, n_without);
    kmf_free(sorted);
    kmf_best_sort(&b);
    return (int64_t)b.n;
}
