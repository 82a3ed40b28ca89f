/* SPDX-License-Identifier: MIT */
/*
 * All distances, by products, and those that count once more in double.
 *
 *   rows of train  (x - m) 2^-e, in float32, packed for products in panels of 256
 *   queries        (q - m) 2^-e, 64 at a time: a and b below are such vectors
 *   scores         2 a b - |b|^2, which is |a|^2 - |a - b|^2: the nearest have the greatest
 *   distances      |q - x|^2 in double, from the numbers as they were given, of those rows whose
 *                  score says that they may be among the k nearest
 *
 * m is the mean of train, for what all vectors have in common would be most of each product and
 * leave its roundings to the differences; 2^e is above all numbers, so no square overflows, and
 * what vanishes is far below the greatest. Neither changes an order of distances.
 *
 * How far may a score be off? With u = 2^-24, dim numbers, A = |a|^2 and B = |b|^2:
 *   rounding a and b     |a - b|^2 by 4 u (A + B), as each of the two is off by u of its length
 *   the product, twice   dim u (A + B), as 2 |a| |b| <= A + B (Jeannerod and Rump 2013: dim u for
 *                        any order of the sum, fused or not)
 *   |b|^2, the score     3 u (A + B)
 *   what vanishes        32 dim 2^-126, even if all below 2^-126 did
 * Twice the first three is taken, e (A + B); e B is taken from |b|^2 beforehand, so what is left to
 * compare a score with is a number of the query. Rows that are no nearer than the k-th so far are
 * passed over, and no others: the answers are those of distances in double, whatever the threads
 * and the processor's kernels. That is some fifty rows of 20,000; where numbers differ by less
 * than their roundings, as those beside a row that is 10^9 times the others, it is all.
 *
 * Why no index: a test part has thousands of queries in hundreds of columns, where trees look at
 * everything anyway, and the answers are to be exact.
 */
#include "eval/neighbours.h"

#include "base/cpu.h"
#include "base/heap.h"
#include "base/mem.h"
#include "eval/scaler.h"
#include "nn/gemm.h"
#include "nn/lanes.h"
#include "seq/par.h"

#include <float.h>
#include <string.h>

#define QUERIES 64
#define LANES 8
#define AT_ONCE ((size_t)32) /* scores that are looked at together: few are any good */

typedef struct neighbour {
    double distance; /* squared */
    size_t row;
} neighbour;

/* Those of one query, the farthest on top as soon as there are k. */
typedef struct nearest {
    neighbour *list; /* borrowed [k] */
    size_t n;
    double square; /* |a|^2 */
    float floor;   /* rows whose score is no greater are not among them */
} nearest;

typedef struct votes {
    const kmf_points *train;
    const float *q;
    size_t n, dim, k;
    int32_t otherwise;
    int32_t *predicted;
    double *mean;    /* owned [dim] */
    double unit;     /* 2^-e */
    double error;    /* of a score, as a part of A + B; */
    double vanishes; /* and what may vanish of it */
    size_t panels;
    size_t packed_each;
    float *packed;    /* owned [panels, packed_each] */
    float *square;    /* owned [panels, KMF_ROWS_BLOCK]; |b|^2, less its part of the error */
    float *moved;     /* owned [workers, KMF_ROWS_BLOCK, dim] */
    float *products;  /* owned [workers, QUERIES, KMF_ROWS_BLOCK] */
    neighbour *lists; /* owned [workers, QUERIES, k] */
    int caller;       /* the worker who tells */
    kmf_progress_fn *fn;
    void *user;
} votes;

#define is_nearer(a, b) \
    ((a).distance != (b).distance ? (a).distance < (b).distance : (a).row < (b).row)
KMF_HEAP(nearest, neighbour, is_nearer)
KMF_HEAP_SORT(nearest, neighbour)

/* ---------------------------------------------------------------- vectors ---------------- */

/* to = (row - m) 2^-e; returns its square. One that is not there becomes 0, and the square NaN. */
static double move(const votes *v, float *to, const float *row)
{
    double square = 0;
    if (!kmf_row_is_there(row)) {
        memset(to, 0, v->dim * sizeof *to);
        return (double)NAN;
    }
    for (size_t d = 0; d < v->dim; d++)
        to[d] = (float)(((double)row[d] - v->mean[d]) * v->unit);
    for (size_t d = 0; d < v->dim; d++)
        square += (double)to[d] * (double)to[d];
    return square;
}

/* A kmf_item_fn, as vote_tile is. A row that is not there has a score below any floor. */
static int pack_panel(void *arg, size_t p, int worker, kmf_err *err)
{
    votes *v = arg;
    size_t beg = p * KMF_ROWS_BLOCK;
    size_t n = kmf_min(v->train->n - beg, KMF_ROWS_BLOCK);
    float *moved = v->moved + (size_t)worker * KMF_ROWS_BLOCK * v->dim;
    (void)err;
    for (size_t i = 0; i < n; i++) {
        double square = move(v, moved + i * v->dim, v->train->x + (beg + i) * v->dim);
        v->square[beg + i] = isnan(square) ? INFINITY : (float)(square * (1 - v->error));
    }
    kmf_gemm_inner_pack(v->packed + p * v->packed_each, moved, v->dim, n, v->dim, KMF_GEMM_TB);
    return 0;
}

/* ---------------------------------------------------------------- neighbours ------------- */

/* Squared. In lanes without a fused multiply-add: the same bits on every processor. */
static void measure(double *distance, const float *x, const float *y, size_t dim);

static KMF_INLINE void measure_body(double *distance, const float *x, const float *y,
                                    size_t dim)
{
    double sum[LANES] = {0};
    size_t d = 0;
    for (; d + LANES <= dim; d += LANES)
        for (size_t l = 0; l < LANES; l++) {
            double away = (double)x[d + l] - (double)y[d + l];
            sum[l] += away * away;
        }
    for (size_t l = 0; d + l < dim; l++) {
        double away = (double)x[d + l] - (double)y[d + l];
        sum[l] += away * away;
    }
    *distance = kmf_fold_lanes(sum, LANES);
}

KMF_CLONES(measure, (double *distance, const float *x, const float *y, size_t dim),
           (distance, x, y, dim))

/* Rows come by their numbers, so of equally near ones those that are there stay. */
static void offer(const votes *v, nearest *best, neighbour x)
{
    if (best->n == v->k && x.distance >= best->list[0].distance)
        return;
    if (best->n < v->k) {
        best->list[best->n++] = x;
        if (best->n == v->k)
            nearest_heap(best->list, best->n);
    } else {
        best->list[0] = x;
        nearest_sink(best->list, best->n, 0);
    }
    if (best->n < v->k)
        return;
    double floor = best->square * (1 - v->error) - v->vanishes -
                   best->list[0].distance * v->unit * v->unit;
    best->floor = (float)floor;
    if ((double)best->floor > floor)
        best->floor = nextafterf(best->floor, -INFINITY);
}

/* To query q the rows of train from number `first` on, m of them, by their products with it. */
static void look_through(const votes *v, nearest *best, const float *q, size_t first, size_t m,
                         const float *products)
{
    const float *square = v->square + first;
    for (size_t beg = 0; beg < m; beg += AT_ONCE) {
        size_t end = kmf_min(beg + AT_ONCE, m);
        int any = 0;
        for (size_t j = beg; j < end; j++)
            any |= 2 * products[j] - square[j] > best->floor;
        for (size_t j = beg; any && j < end; j++)
            if (2 * products[j] - square[j] > best->floor) {
                neighbour x = {.row = first + j};
                measure(&x.distance, q, v->train->x + x.row * v->dim, v->dim);
                offer(v, best, x);
            }
    }
}

/* k is small: counting again for each is faster than a table over the classes. */
static int32_t winner(const nearest *best, const int32_t *y, int32_t otherwise)
{
    size_t most = 0;
    for (size_t i = 0; i < best->n; i++) {
        size_t count = 0;
        for (size_t j = 0; j < best->n; j++)
            count += y[best->list[j].row] == y[best->list[i].row];
        if (count > most) {
            most = count;
            otherwise = y[best->list[i].row];
        }
    }
    return otherwise;
}

static int vote_tile(void *arg, size_t tile, int worker, kmf_err *err)
{
    votes *v = arg;
    const kmf_points *train = v->train;
    size_t beg = tile * QUERIES;
    size_t n = kmf_min(v->n - beg, QUERIES);
    const float *q = v->q + beg * v->dim;
    float *moved = v->moved + (size_t)worker * KMF_ROWS_BLOCK * v->dim;
    float *products = v->products + (size_t)worker * QUERIES * KMF_ROWS_BLOCK;
    neighbour *lists = v->lists + (size_t)worker * QUERIES * v->k;
    nearest best[QUERIES];
    (void)err;
    for (size_t r = 0; r < n; r++) {
        double square = move(v, moved + r * v->dim, q + r * v->dim);
        best[r] = (nearest){.list = lists + r * v->k,
                            .square = square,
                            .floor = isnan(square) ? INFINITY : -INFINITY};
    }
    if (v->fn && worker == v->caller)
        v->fn(v->user, beg);
    for (size_t p = 0; p < v->panels; p++) {
        size_t first = p * KMF_ROWS_BLOCK;
        size_t m = kmf_min(train->n - first, KMF_ROWS_BLOCK);
        kmf_gemm_inner_packed(products, KMF_ROWS_BLOCK, moved, v->dim,
                              v->packed + p * v->packed_each, n, m, v->dim, 0);
        for (size_t r = 0; r < n; r++)
            look_through(v, &best[r], q + r * v->dim, first, m, products + r * KMF_ROWS_BLOCK);
    }
    for (size_t r = 0; r < n; r++) {
        if (best[r].n < v->k)
            nearest_heap(best[r].list, best[r].n);
        nearest_sort(best[r].list, best[r].n);
        v->predicted[beg + r] = winner(&best[r], train->y, v->otherwise);
    }
    return 0;
}

/* ---------------------------------------------------------------- all of it -------------- */

static int make_room(votes *v, size_t workers, kmf_err *err)
{
    v->packed_each = kmf_gemm_inner_floats(KMF_ROWS_BLOCK, v->dim, KMF_GEMM_TB);
    v->mean = kmf_malloc(v->dim, sizeof *v->mean, err);
    v->packed = kmf_large(v->panels, v->packed_each * sizeof *v->packed, err);
    v->square = kmf_floats(v->panels * KMF_ROWS_BLOCK, err);
    v->moved = kmf_large(workers * KMF_ROWS_BLOCK, v->dim * sizeof *v->moved, err);
    v->products = kmf_floats(workers * QUERIES * KMF_ROWS_BLOCK, err);
    v->lists = kmf_malloc(workers * QUERIES * v->k, sizeof *v->lists, err);
    bool all = v->mean && v->packed && v->square && v->moved && v->products && v->lists;
    return all ? 0 : KMF_ENOMEM;
}

static void free_room(votes *v)
{
    kmf_free(v->mean);
    kmf_free(v->packed);
    kmf_free(v->square);
    kmf_free(v->moved);
    kmf_free(v->products);
    kmf_free(v->lists);
}

int kmf_neighbours_vote(int32_t *predicted, const kmf_points *train, const float *q, size_t n,
                        size_t dim, size_t k, int32_t otherwise, kmf_pool *pool,
                        kmf_progress_fn *fn, void *user, kmf_err *err)
{
    size_t workers = (size_t)kmf_pool_threads(pool) + 1;
    float most = kmf_rows_largest(train->x, train->n, dim);
    float most_of_q = kmf_rows_largest(q, n, dim);
    int e;
    (void)frexpf(most > most_of_q ? most : most_of_q, &e);
    votes v = {.train = train,
               .q = q,
               .n = n,
               .dim = dim,
               .k = kmf_min(k, train->n),
               .otherwise = otherwise,
               .predicted = predicted,
               .unit = ldexp(1, -e),
               .error = (double)(dim + 8) * (double)FLT_EPSILON,
               .vanishes = 32 * (double)dim * (double)FLT_MIN,
               .panels = kmf_div_up(train->n, KMF_ROWS_BLOCK),
               .caller = kmf_pool_threads(pool),
               .fn = fn,
               .user = user};
    int status = make_room(&v, workers, err);
    if (status == 0) {
        kmf_rows_mean(v.mean, train->x, train->n, dim);
        status = kmf_pool_each(pool, v.panels, pack_panel, &v, err);
    }
    if (status == 0)
        status = kmf_pool_each(pool, kmf_div_up(n, QUERIES), vote_tile, &v, err);
    free_room(&v);
    return status;
}
