/* SPDX-License-Identifier: MIT */
/*
 * All distances, by products: |q - x|^2 = |q|^2 - 2 q x + |x|^2, of which |q|^2 is the same for
 * all x. A tile of 64 queries by 256 rows is one product; what it gives is offered, row after row,
 * to each query's k nearest so far (model/best.h), |q|^2 - |q - x|^2 in a cosine's place.
 *
 * Why no index: a test part has thousands of queries in hundreds of columns, where trees look at
 * everything anyway, and the answers are to be exact.
 */
#include "eval/neighbours.h"

#include "base/mem.h"
#include "eval/scaler.h"
#include "model/best.h"
#include "nn/gemm.h"
#include "seq/par.h"

#define QUERIES 64

typedef struct votes {
    const kmf_points *train;
    const float *q;
    size_t n, dim, k;
    int32_t otherwise;
    int32_t *predicted;
    float *square;        /* owned [train->n]; |x|^2 */
    float *products;      /* owned [workers, QUERIES, KMF_ROWS_BLOCK] */
    kmf_neighbour *lists; /* owned [workers, QUERIES, k] */
    int caller;           /* the worker who tells */
    kmf_progress_fn *fn;
    void *user;
} votes;

/* k is small: counting again for each is faster than a table over the classes. */
static int32_t winner(const kmf_best *best, const int32_t *y, int32_t otherwise)
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
    float *products = v->products + (size_t)worker * QUERIES * KMF_ROWS_BLOCK;
    kmf_neighbour *lists = v->lists + (size_t)worker * QUERIES * v->k;
    kmf_best best[QUERIES];
    (void)err;
    for (size_t r = 0; r < n; r++)
        best[r] = (kmf_best){.list = lists + r * v->k, .cap = v->k};
    if (v->fn && worker == v->caller)
        v->fn(v->user, beg);
    for (size_t i = 0; i < train->n; i += KMF_ROWS_BLOCK) {
        size_t m = kmf_min(train->n - i, KMF_ROWS_BLOCK);
        kmf_gemm_inner(products, KMF_ROWS_BLOCK, v->q + beg * v->dim, v->dim,
                       train->x + i * v->dim, v->dim, n, m, v->dim, KMF_GEMM_TB);
        for (size_t r = 0; r < n; r++)
            for (size_t j = 0; j < m; j++)
                if (!isnan(v->square[i + j]))
                    kmf_best_offer(&best[r],
                                   (kmf_neighbour){i + j, 2 * products[r * KMF_ROWS_BLOCK + j] -
                                                              v->square[i + j]});
    }
    for (size_t r = 0; r < n; r++) {
        kmf_best_sort(&best[r]);
        v->predicted[beg + r] = kmf_row_is_there(v->q + (beg + r) * v->dim)
                                    ? winner(&best[r], train->y, v->otherwise)
                                    : v->otherwise;
    }
    return 0;
}

int kmf_neighbours_vote(int32_t *predicted, const kmf_points *train, const float *q, size_t n,
                        size_t dim, size_t k, int32_t otherwise, kmf_pool *pool,
                        kmf_progress_fn *fn, void *user, kmf_err *err)
{
    size_t workers = (size_t)kmf_pool_threads(pool) + 1;
    votes v = {.train = train,
               .q = q,
               .n = n,
               .dim = dim,
               .k = kmf_min(k, train->n),
               .otherwise = otherwise,
               .predicted = predicted,
               .caller = kmf_pool_threads(pool),
               .fn = fn,
               .user = user};
    int status = KMF_ENOMEM;
    v.square = kmf_malloc(train->n, sizeof *v.square, err);
    v.products = kmf_floats(workers * QUERIES * KMF_ROWS_BLOCK, err);
    v.lists = kmf_malloc(workers * QUERIES * v.k, sizeof *v.lists, err);
    if (v.square && v.products && v.lists) {
        for (size_t i = 0; i < train->n; i++) {
            double sum = 0;
            for (size_t d = 0; d < dim; d++)
                sum += (double)train->x[i * dim + d] * (double)train->x[i * dim + d];
            v.square[i] = (float)sum;
        }
        status = kmf_pool_each(pool, kmf_div_up(n, QUERIES), vote_tile, &v, err);
    }
    kmf_free(v.square);
    kmf_free(v.products);
    kmf_free(v.lists);
    return status;
}
