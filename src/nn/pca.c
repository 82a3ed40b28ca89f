/* SPDX-License-Identifier: MIT */
/*
 * Principal components (K. Pearson, 1901) of many rows in one pass.
 *
 * With rows x_1 .. x_n, any fixed s and y = x - s, the covariance is
 *
 *   C = (sum y y^T - n d d^T) / (n - 1),     d = mean(y),     mean(x) = s + d.
 *
 * The second term takes away what the first has too much, and costs digits if d is large beside
 * the spread: so s is the mean of the first block, and d is small. sum y y^T grows by a block of
 * KMF_PCA_BLOCK rows at a time: a product of float32 within the block (kmf_gemm_inner), added up in
 * double. The matrix is cut into strips of STRIP of its rows; threads share the strips, and each
 * element gets its blocks in the order of the rows, so its bits depend on no thread.
 *
 * y is taken times 2^-e, for squares of float32 beyond 1e19 or below 1e-19 are not: e is 0 while
 * the largest number is usual, else 2^e is above all so far. Where a block has a greater one, what
 * was added up is divided once more.
 *
 *        j ->              Only j >= i is computed: a strip begins at its own column.
 *      +-----------+
 *    i |\ strip 0  |       Cost: dim^2 operations a row, dim^2 doubles of memory, and 4/3 dim^3
 *    | | \---------|       operations for the eigenvectors in the end.
 *    v |   strip 1 |
 */
#include "kmerformer.h"

#include "base/err.h"
#include "base/half.h"
#include "base/mem.h"
#include "nn/eigen.h"
#include "nn/gemm.h"
#include "seq/par.h"

#include <math.h>
#include <stdlib.h>

#define STRIP ((size_t)64)
#define NO_EXPONENT (-200) /* below that of any float32 */
#define USUAL 40 /* exponents to either side of 0 of which sums of squares are float32 */

struct kmf_pca {
    size_t dim, count;
    uint64_t n;
    int exponent;     /* e */
    float *shift;     /* s                            [dim], owned */
    double *sum;      /* of y; after finish the mean  [dim], owned */
    double *squares;  /* of y y^T, j >= i             [dim, dim], owned */
    double *axes;     /* [count, dim], owned; NULL until finish */
    double *variance; /* [count], owned; NULL until finish */
    double total;
    bool spent;   /* finish has begun */
    float *block; /* y [KMF_PCA_BLOCK, dim], owned */
};

kmf_pca *kmf_pca_new(size_t dim, kmf_err *err)
{
    if (dim == 0) {
        kmf_fail(err, KMF_EINVAL, "principal components of no columns");
        return NULL;
    }
    if (dim > KMF_PCA_DIM_MAX) {
        kmf_fail(err, KMF_ENOMEM,
                 "principal components of %zu columns: %d are the most that are computed", dim,
                 KMF_PCA_DIM_MAX);
        return NULL;
    }
    kmf_pca *pca = kmf_calloc(1, sizeof *pca, err);
    if (!pca)
        return NULL;
    pca->dim = dim;
    pca->exponent = NO_EXPONENT;
    pca->shift = kmf_floats(dim, err);
    pca->sum = kmf_calloc(dim, sizeof *pca->sum, err);
    pca->squares = kmf_large_zeroed(dim * dim, sizeof *pca->squares, err);
    pca->block = kmf_floats(KMF_PCA_BLOCK * dim, err);
    if (!pca->shift || !pca->sum || !pca->squares || !pca->block) {
        kmf_pca_free(pca);
        return NULL;
    }
    return pca;
}

void kmf_pca_free(kmf_pca *pca)
{
    if (!pca)
        return;
    kmf_free(pca->shift);
    kmf_free(pca->sum);
    kmf_free(pca->squares);
    kmf_free(pca->axes);
    kmf_free(pca->variance);
    kmf_free(pca->block);
    kmf_free(pca);
}

/* ---------------------------------------------------------------- sums ------------------ */

typedef struct adding {
    kmf_pca *pca;
    size_t n;    /* rows in the block */
    float *room; /* [workers, STRIP, dim] */
} adding;

static void set_shift(kmf_pca *pca, const float *x, size_t n)
{
    for (size_t j = 0; j < pca->dim; j++) {
        double sum = 0;
        for (size_t r = 0; r < n; r++)
            sum += (double)x[r * pca->dim + j];
        pca->shift[j] = (float)(sum / (double)n);
    }
}

/* The largest of |x|, NaN and infinity above all, by bits, which vectors compare. */
static float largest(const float *x, size_t n)
{
    int32_t most = 0;
    for (size_t i = 0; i < n; i++) {
        int32_t bits = (int32_t)(kmf_bits_of(x[i]) & INT32_MAX);
        most = bits > most ? bits : most;
    }
    return kmf_float_of((uint32_t)most);
}

/* Takes the block's n rows times 2^-e. */
static void scale_block(kmf_pca *pca, size_t n)
{
    size_t D = pca->dim;
    float most = largest(pca->block, n * D);
    int e;
    if (most <= 0 || !isfinite(most))
        return;
    (void)frexpf(most, &e);
    if (abs(e) <= USUAL)
        e = 0;
    if (e > pca->exponent) {
        const double less = ldexp(1, pca->exponent - e);
        for (size_t i = 0; i < D; i++)
            pca->sum[i] *= less;
        for (size_t i = 0; i < D * D; i++)
            pca->squares[i] *= less * less;
        pca->exponent = e;
    }
    const double unit = ldexp(1, -pca->exponent);
    for (size_t i = 0; i < n * D && pca->exponent != 0; i++)
        pca->block[i] = (float)((double)pca->block[i] * unit);
}

/* A kmf_item_fn: the strip's rows of sum y y^T, and its columns of sum y. */
static int add_strip(void *arg, size_t strip, int worker, kmf_err *err)
{
    const adding *a = arg;
    kmf_pca *pca = a->pca;
    size_t D = pca->dim;
    size_t beg = strip * STRIP;
    size_t rows = kmf_min(D - beg, STRIP);
    size_t cols = D - beg;
    const float *y = pca->block + beg;
    float *c = a->room + (size_t)worker * STRIP * D;
    (void)err;
    kmf_gemm_inner(c, D, y, D, y, D, rows, cols, a->n, KMF_GEMM_TA);
    for (size_t i = 0; i < rows; i++) {
        double *to = pca->squares + (beg + i) * D + beg;
        for (size_t j = i; j < cols; j++)
            to[j] += (double)c[i * D + j];
    }
    for (size_t r = 0; r < a->n; r++)
        for (size_t i = 0; i < rows; i++)
            pca->sum[beg + i] += (double)y[r * D + i];
    return 0;
}

int kmf_pca_add(kmf_pca *pca, const float *x, size_t n, kmf_pool *pool, kmf_err *err)
{
    size_t D = pca->dim;
    size_t strips = kmf_div_up(D, STRIP);
    size_t workers = (size_t)kmf_pool_threads(pool) + 1;
    int status = 0;
    if (pca->axes)
        return kmf_fail(err, KMF_EINVAL, "components that are found take no more vectors");
    float *room = kmf_floats(workers * STRIP * D, err);
    if (!room)
        return KMF_ENOMEM;
    for (size_t at = 0; at < n && status == 0; at += KMF_PCA_BLOCK) {
        adding a = {pca, kmf_min(n - at, KMF_PCA_BLOCK), room};
        if (pca->n == 0)
            set_shift(pca, x, a.n);
        for (size_t r = 0; r < a.n; r++)
            for (size_t j = 0; j < D; j++)
                pca->block[r * D + j] = x[(at + r) * D + j] - pca->shift[j];
        scale_block(pca, a.n);
        status = kmf_pool_each(pool, strips, add_strip, &a, err);
        pca->n += a.n;
    }
    kmf_free(room);
    return status;
}

/* ---------------------------------------------------------------- components ------------ */

/* Sums become the covariance and the mean. */
static void settle(kmf_pca *pca)
{
    size_t D = pca->dim;
    double n = (double)pca->n;
    const double size = ldexp(1, pca->exponent);
    pca->total = 0;
    for (size_t i = 0; i < D; i++)
        pca->sum[i] /= n;
    for (size_t i = 0; i < D; i++) {
        double *row = pca->squares + i * D;
        for (size_t j = i; j < D; j++)
            row[j] = (row[j] - n * pca->sum[i] * pca->sum[j]) / (n - 1) * size * size;
        pca->total += row[i];
    }
    for (size_t i = 0; i < D; i++)
        pca->sum[i] = pca->sum[i] * size + (double)pca->shift[i];
}

int kmf_pca_finish(kmf_pca *pca, size_t count, kmf_err *err)
{
    if (pca->spent || count < 1 || count > pca->dim)
        return kmf_fail(err, KMF_EINVAL, "%zu components: once, from 1 to %zu", count,
                        pca->dim);
    if (pca->n < 2)
        return kmf_fail(err, KMF_EMODEL, "principal components want two vectors at least");
    pca->spent = true;
    settle(pca);
    if (!isfinite(pca->total))
        return kmf_fail(err, KMF_EMODEL,
                        "there are no principal components: the vectors are so far apart that "
                        "their differences are not finite");
    if (pca->total <= 0)
        return kmf_fail(err, KMF_EMODEL,
                        "there are no principal components: all vectors are equal");
    pca->count = count;
    pca->variance = kmf_malloc(count, sizeof *pca->variance, err);
    pca->axes = kmf_malloc(count * pca->dim, sizeof *pca->axes, err);
    if (!pca->variance || !pca->axes)
        return KMF_ENOMEM;
    return kmf_eigen_greatest(pca->variance, pca->axes, pca->squares, pca->dim, count, err);
}

/* A variance of 0 may come out of LAPACK as a little less. */
double kmf_pca_variance(const kmf_pca *pca, size_t i)
{
    return pca->variance[i] > 0 ? pca->variance[i] : 0;
}

double kmf_pca_total(const kmf_pca *pca)
{
    return pca->total;
}

const double *kmf_pca_axis(const kmf_pca *pca, size_t i)
{
    return pca->axes + i * pca->dim;
}

void kmf_pca_project(const kmf_pca *pca, double *y, const float *x)
{
    for (size_t c = 0; c < pca->count; c++) {
        const double *axis = kmf_pca_axis(pca, c);
        y[c] = 0;
        for (size_t j = 0; j < pca->dim; j++)
            y[c] += ((double)x[j] - pca->sum[j]) * axis[j];
    }
}
