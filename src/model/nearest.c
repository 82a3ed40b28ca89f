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
 * multiply-add they come to the same bits on every processor.
 *
 * The n best so far lie in a heap, the worst of them on top: a row that is no better, nearly every
 * one, costs one comparison. O(rows (dim + log n)) in all.
 */
#include "kmerformer.h"

#include "base/cpu.h"
#include "base/err.h"
#include "base/mem.h"
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

/* ---------------------------------------------------------------- the best --------------- */

typedef struct best {
    kmf_neighbour *list; /* borrowed [cap]; a heap of n, the worst first */
    size_t n;
    size_t cap;
} best;

/* Does a stand behind b in the answer? */
static bool is_worse(const kmf_neighbour *a, const kmf_neighbour *b)
{
    return a->cosine != b->cosine ? a->cosine < b->cosine : a->row > b->row;
}

static void swap(kmf_neighbour *a, kmf_neighbour *b)
{
    kmf_neighbour t = *a;
    *a = *b;
    *b = t;
}

/* Lets the top of a heap of n sink to its place. */
static void sink(kmf_neighbour *list, size_t n)
{
    size_t i = 0;
    for (;;) {
        size_t worst = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < n; child++)
            if (is_worse(&list[child], &list[worst]))
                worst = child;
        if (worst == i)
            return;
        swap(&list[i], &list[worst]);
        i = worst;
    }
}

static void offer(best *b, kmf_neighbour x)
{
    if (b->n == b->cap) {
        if (b->n == 0 || !is_worse(&b->list[0], &x))
            return;
        b->list[0] = x;
        sink(b->list, b->n);
        return;
    }
    size_t i = b->n++;
    for (; i > 0 && is_worse(&x, &b->list[(i - 1) / 2]); i = (i - 1) / 2)
        b->list[i] = b->list[(i - 1) / 2];
    b->list[i] = x;
}

/* The worst go to the end, one after another. */
static void put_in_order(best *b)
{
    for (size_t n = b->n; n > 1; n--) {
        swap(&b->list[0], &b->list[n - 1]);
        sink(b->list, n - 1);
    }
}

/* ---------------------------------------------------------------- the search ------------- */

static int by_row(const void *a, const void *b)
{
    size_t x;
    size_t y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

static void search(best *b, const kmf_vectors *v, const float *query, double length, int k,
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
            offer(b, (kmf_neighbour){row, (float)(dots[i] / (length * sqrt(squares[i])))});
        }
    }
}

int64_t kmf_vectors_nearest(const kmf_vectors *vectors, const float *query, int k,
                            const size_t *without, size_t n_without, kmf_neighbour *list,
                            size_t n, kmf_err *err)
{
    best b = {.list = list, .cap = n};
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
    put_in_order(&b);
    return (int64_t)b.n;
}
