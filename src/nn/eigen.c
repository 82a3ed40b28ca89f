/* SPDX-License-Identifier: MIT */
/*
 * The greatest eigenvalues of a symmetric matrix by LAPACK's dsyevr: a tridiagonal form by
 * Householder's reflections, 4/3 n^3 operations, of which the wanted eigenvectors alone are then
 * computed (I. S. Dhillon and B. N. Parlett, "Multiple representations to compute orthogonal
 * eigenvectors of symmetric tridiagonal matrices", 2004). A power iteration would be shorter, but
 * it crawls where two eigenvalues are near each other, as the second and third of embeddings are.
 *
 * OpenBLAS holds all of LAPACK, and its Debian package no header for it: the one routine is
 * declared here as the Fortran compiler exports it, with the lengths of its three texts last.
 * Fortran stores columns: our upper triangle is its lower one, and its columns are our rows.
 */
#include "nn/eigen.h"

#include "base/err.h"
#include "base/mem.h"

#include <assert.h>
#include <cblas.h>
#include <limits.h>
#include <math.h>
#include <string.h>

#define BLAS_BUFFER ((size_t)160 << 20) /* 128 MB, and what is allocated meanwhile */

extern void dsyevr_(const char *jobz, const char *range, const char *uplo, const blasint *n,
                    double *a, const blasint *lda, const double *vl, const double *vu,
                    const blasint *il, const blasint *iu, const double *abstol, blasint *m,
                    double *w, double *z, const blasint *ldz, blasint *isuppz, double *work,
                    const blasint *lwork, blasint *iwork, const blasint *liwork, blasint *info,
                    size_t jobz_len, size_t range_len, size_t uplo_len);

static int is_finite(const double *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = i; j < n; j++)
            if (!isfinite(a[i * n + j]))
                return 0;
    return 1;
}

static void fix_sign(double *v, size_t n)
{
    size_t greatest = 0;
    for (size_t i = 1; i < n; i++)
        if (fabs(v[i]) > fabs(v[greatest]))
            greatest = i;
    const double sign = v[greatest] < 0 ? -1 : 1;
    for (size_t i = 0; i < n; i++)
        v[i] *= sign;
}

/* LAPACK's come in ascending order. */
static void turn_over(double *values, double *vectors, const double *w, const double *z,
                      size_t n, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = w[count - 1 - i];
        memcpy(vectors + i * n, z + (count - 1 - i) * n, n * sizeof *vectors);
        fix_sign(vectors + i * n, n);
    }
}

/* OpenBLAS tries for ever to get a buffer that there is no memory for. */
static bool has_buffer(void)
{
    void *p = kmf_malloc(BLAS_BUFFER, 1, NULL);
    kmf_free(p);
    return p;
}

int kmf_eigen_greatest(double *values, double *vectors, double *a, size_t n, size_t count,
                       kmf_err *err)
{
    assert(1 <= count && count <= n && n <= INT_MAX / 32);
    const blasint order = (blasint)n;
    const blasint first = (blasint)(n - count + 1);
    const blasint n_work = 32 * order; /* 26 n at least; more lets it work in blocks */
    const blasint n_iwork = 10 * order;
    const double none = 0;
    blasint found = 0;
    blasint info = 0;
    int status = 0;
    if (!is_finite(a, n))
        return kmf_fail(err, KMF_ENUMERIC, "the matrix of the eigenvectors is not finite");
    double *w = kmf_calloc(n, sizeof *w, err);
    double *z = kmf_calloc(n * count, sizeof *z, err);
    double *work = kmf_malloc((size_t)n_work, sizeof *work, err);
    blasint *iwork = kmf_malloc((size_t)n_iwork, sizeof *iwork, err);
    blasint *support = kmf_calloc(2 * count, sizeof *support, err);
    if (!w || !z || !work || !iwork || !support) {
        status = KMF_ENOMEM;
        goto out;
    }
    if (!has_buffer()) {
        status = kmf_fail(err, KMF_ENOMEM, "out of memory: OpenBLAS needs %zu MB",
                          BLAS_BUFFER >> 20);
        goto out;
    }
    openblas_set_num_threads(1);
    dsyevr_("V", "I", "L", &order, a, &order, &none, &none, &first, &order, &none, &found, w, z,
            &order, support, work, &n_work, iwork, &n_iwork, &info, 1, 1, 1);
    if (info != 0 || (size_t)found != count)
        status = kmf_fail(err, KMF_ENUMERIC, "the eigenvectors of a matrix were not found");
    else
        turn_over(values, vectors, w, z, n, count);
out:
    kmf_free(w);
    kmf_free(z);
    kmf_free(work);
    kmf_free(iwork);
    kmf_free(support);
    return status;
}
