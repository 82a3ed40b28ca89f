/* SPDX-License-Identifier: MIT */
/*
 * Second sources: NumPy's singular values (scripts/golden_plot.py), Jacobi's rotations on the
 * covariance by its definition, and closed forms of cosines and rotary decay.
 */
#include "base/io.h"
#include "base/mem.h"
#include "files.h"
#include "kmerformer.h"
#include "nn/eigen.h"
#include "plot/draft.h"
#include "plot/sample.h"
#include "run.h"

#include <check.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GOLDEN "tests/golden/plot/"

static uint32_t state = 1;

/* In -1 .. 1. */
static double draw(void)
{
    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) * 0x1p-23 - 1;
}

static kmf_pca *pca_of(const float *x, size_t n, size_t dim, size_t count, kmf_pool *pool)
{
    kmf_err err = {0};
    kmf_pca *pca = kmf_pca_new(dim, &err);
    ck_assert_ptr_nonnull(pca);
    ck_assert_int_eq(kmf_pca_add(pca, x, n, pool, &err), 0);
    ck_assert_msg(kmf_pca_finish(pca, count, &err) == 0, "%s", err.msg);
    return pca;
}

/* ---------------------------------------------------------------- golden ---------------- */

static double next(FILE *file)
{
    double x = 0;
    ck_assert_int_eq(fscanf(file, "%lf", &x), 1);
    return x;
}

static float *golden_rows(size_t *n, size_t *dim)
{
    kmf_mapped_rows rows;
    kmf_err err = {0};
    ck_assert_msg(kmf_mapped_rows_open(&rows, GOLDEN "rows.npy", &err) == 0, "%s", err.msg);
    *n = (size_t)rows.n;
    *dim = rows.dim;
    float *x = kmf_floats(*n * *dim, NULL);
    ck_assert_ptr_nonnull(x);
    for (size_t i = 0; i < *n; i++)
        ck_assert(kmf_mapped_rows_get(&rows, i, false, x + i * *dim));
    kmf_mapped_rows_close(&rows);
    return x;
}

START_TEST(components_are_those_of_numpy)
{
    size_t n, dim;
    double y[3];
    float *x = golden_rows(&n, &dim);
    kmf_pca *pca = pca_of(x, n, dim, 3, NULL);
    FILE *file = fopen(GOLDEN "pca.tsv", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_double_eq_tol(kmf_pca_total(pca), next(file), 1e-4);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_double_eq_tol(kmf_pca_variance(pca, i), next(file), 1e-4);
        for (size_t j = 0; j < dim; j++)
            ck_assert_double_eq_tol(kmf_pca_axis(pca, i)[j], next(file), 1e-4);
    }
    fclose(file);
    /* What is projected has mean 0 and the variance of its component. */
    double sum[3] = {0}, squares[3] = {0};
    for (size_t r = 0; r < n; r++) {
        kmf_pca_project(pca, y, x + r * dim);
        for (size_t i = 0; i < 3; i++) {
            sum[i] += y[i];
            squares[i] += y[i] * y[i];
        }
    }
    for (size_t i = 0; i < 3; i++) {
        ck_assert_double_eq_tol(sum[i], 0, 1e-4);
        ck_assert_double_eq_tol(squares[i] / (double)(n - 1), kmf_pca_variance(pca, i), 1e-4);
    }
    kmf_pca_free(pca);
    kmf_free(x);
}
END_TEST

START_TEST(cosines_are_those_of_numpy)
{
    size_t n, dim;
    float c[36];
    float *x = golden_rows(&n, &dim);
    FILE *file = fopen(GOLDEN "cosines.tsv", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(kmf_cosines(c, x, 6, dim, NULL, NULL), 0);
    for (size_t i = 0; i < 36; i++)
        ck_assert_double_eq_tol((double)c[i], next(file), 1e-6);
    fclose(file);
    kmf_free(x);
}
END_TEST

/* ---------------------------------------------------------------- components ------------ */

#define D 7
#define N 1300 /* two blocks and a bit */

/* Cyclic Jacobi: a [D, D] becomes diagonal, v the rows of eigenvectors. */
static void jacobi(double a[D][D], double v[D][D])
{
    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++)
            v[i][j] = i == j;
    for (int sweep = 0; sweep < 60; sweep++)
        for (int p = 0; p < D; p++)
            for (int q = p + 1; q < D; q++) {
                double angle = 0.5 * atan2(2 * a[p][q], a[q][q] - a[p][p]);
                double c = cos(angle), s = sin(angle);
                for (int k = 0; k < D; k++) {
                    double x = a[k][p], y = a[k][q];
                    a[k][p] = c * x - s * y;
                    a[k][q] = s * x + c * y;
                }
                for (int k = 0; k < D; k++) {
                    double x = a[p][k], y = a[q][k];
                    a[p][k] = c * x - s * y;
                    a[q][k] = s * x + c * y;
                    x = v[p][k], y = v[q][k];
                    v[p][k] = c * x - s * y;
                    v[q][k] = s * x + c * y;
                }
            }
}

static void make_rows(float *x)
{
    for (size_t r = 0; r < N; r++) {
        double common = draw();
        for (size_t j = 0; j < D; j++)
            x[r * D + j] = (float)(100 + (double)j * common + (1 + 0.3 * (double)j) * draw());
    }
}

START_TEST(components_are_those_of_jacobis_rotations)
{
    static float x[N * D];
    double mean[D] = {0}, a[D][D] = {{0}}, v[D][D];
    make_rows(x);
    for (size_t r = 0; r < N; r++)
        for (size_t j = 0; j < D; j++)
            mean[j] += (double)x[r * D + j] / N;
    for (size_t r = 0; r < N; r++)
        for (size_t i = 0; i < D; i++)
            for (size_t j = 0; j < D; j++)
                a[i][j] += ((double)x[r * D + i] - mean[i]) * ((double)x[r * D + j] - mean[j]) /
                           (N - 1);
    jacobi(a, v);
    kmf_pca *pca = pca_of(x, N, D, D, NULL);
    double above = DBL_MAX;
    for (size_t c = 0; c < D; c++) {
        double value = kmf_pca_variance(pca, c);
        size_t same = 0;
        for (size_t i = 1; i < D; i++)
            if (fabs(a[i][i] - value) < fabs(a[same][same] - value))
                same = i;
        double dot = 0, greatest = 0;
        for (size_t j = 0; j < D; j++) {
            double at = kmf_pca_axis(pca, c)[j];
            dot += at * v[same][j];
            greatest = fabs(at) > fabs(greatest) ? at : greatest;
        }
        ck_assert_double_eq_tol(value, a[same][same], 1e-4);
        ck_assert_double_eq_tol(fabs(dot), 1, 1e-5);
        ck_assert_double_gt(greatest, 0);
        ck_assert_double_lt(value, above);
        above = value;
    }
    kmf_pca_free(pca);
}
END_TEST

/* Wide enough for three strips of the covariance. */
START_TEST(threads_and_whole_blocks_change_no_bit)
{
    enum { WIDE = 150, ROWS = 2 * KMF_PCA_BLOCK + 40 };
    float *x = kmf_floats(ROWS * WIDE, NULL);
    double first[2][WIDE];
    ck_assert_ptr_nonnull(x);
    for (size_t i = 0; i < ROWS * WIDE; i++)
        x[i] = (float)(draw() * (1 + (double)(i % WIDE)));
    for (int threads = 1; threads <= 3; threads++) {
        kmf_pool *pool = kmf_pool_new(threads, NULL);
        kmf_pca *pca = kmf_pca_new(WIDE, NULL);
        size_t split = threads == 2 ? KMF_PCA_BLOCK : ROWS;
        ck_assert(pool && pca);
        ck_assert_int_eq(kmf_pca_add(pca, x, split, pool, NULL), 0);
        ck_assert_int_eq(kmf_pca_add(pca, x + split * WIDE, ROWS - split, pool, NULL), 0);
        ck_assert_int_eq(kmf_pca_finish(pca, 2, NULL), 0);
        for (size_t i = 0; i < 2; i++) {
            const double *axis = kmf_pca_axis(pca, i);
            if (threads == 1)
                memcpy(first[i], axis, sizeof first[i]);
            ck_assert_mem_eq(first[i], axis, sizeof first[i]);
        }
        kmf_pca_free(pca);
        kmf_pool_free(pool);
    }
    kmf_free(x);
}
END_TEST

/* Powers of two change no bit, however small or large their squares, and whatever came before. */
START_TEST(components_are_the_same_at_any_size)
{
    enum { WIDE = 5, PART = KMF_PCA_BLOCK * WIDE, ROWS = 3 * KMF_PCA_BLOCK };
    static const int powers[] = {0, -100, -70, -36, 42, 70, 120};
    float *x = kmf_floats(ROWS * WIDE, NULL);
    double axis[WIDE], variance = 0, y = 0;
    ck_assert_ptr_nonnull(x);
    for (size_t p = 0; p < sizeof powers / sizeof powers[0]; p++) {
        double at;
        state = 1;
        for (size_t i = 0; i < ROWS * WIDE; i++) { /* one block is 0, another far smaller */
            double size = i < PART ? 0 : i < 2 * PART ? 0x1p-10 : 1;
            x[i] = (float)ldexp((draw() + (double)(i % WIDE)) * size, powers[p]);
        }
        kmf_pca *pca = pca_of(x, ROWS, WIDE, 1, NULL);
        kmf_pca_project(pca, &at, x + PART);
        if (p == 0) {
            memcpy(axis, kmf_pca_axis(pca, 0), sizeof axis);
            variance = kmf_pca_variance(pca, 0);
            y = at;
        }
        for (size_t i = 0; i < WIDE; i++)
            ck_assert_double_eq_tol(kmf_pca_axis(pca, 0)[i], axis[i], 1e-12);
        ck_assert_double_eq_tol(ldexp(kmf_pca_variance(pca, 0), -2 * powers[p]), variance,
                                1e-12 * variance);
        ck_assert_double_eq_tol(ldexp(at, -powers[p]), y, 1e-12);
        kmf_pca_free(pca);
    }
    kmf_free(x);
}
END_TEST

START_TEST(what_has_no_components_is_refused)
{
    const float equal[] = {1.1f, 2, 3, 1.1f, 2, 3, 1.1f, 2, 3};
    kmf_err err = {0};
    kmf_pca *pca = kmf_pca_new(3, &err);
    ck_assert_int_eq(kmf_pca_add(pca, equal, 1, NULL, &err), 0);
    ck_assert_int_eq(kmf_pca_finish(pca, 1, &err), KMF_EMODEL);
    kmf_pca_free(pca);
    err = (kmf_err){0};
    pca = kmf_pca_new(3, &err);
    ck_assert_int_eq(kmf_pca_add(pca, equal, 3, NULL, &err), 0);
    ck_assert_int_eq(kmf_pca_finish(pca, 1, &err), KMF_EMODEL);
    kmf_pca_free(pca);
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_pca_new(KMF_PCA_DIM_MAX + 1, &err));
    ck_assert_int_eq(err.code, KMF_ENOMEM);
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_pca_new(0, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    pca = kmf_pca_new(2, NULL);
    ck_assert_int_eq(kmf_pca_add(pca, equal, 4, NULL, NULL), 0);
    ck_assert_int_eq(kmf_pca_finish(pca, 0, NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_pca_finish(pca, 3, NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_pca_finish(pca, 2, NULL), 0);
    ck_assert_int_eq(kmf_pca_finish(pca, 2, NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_pca_add(pca, equal, 4, NULL, NULL), KMF_EINVAL);
    kmf_pca_free(pca);
    for (size_t fails = 1; fails <= 2; fails++) { /* what has failed in the middle has ended */
        pca = kmf_pca_new(2, NULL);
        ck_assert_int_eq(kmf_pca_add(pca, equal, 4, NULL, NULL), 0);
        kmf_mem_fail_at(fails);
        ck_assert_int_eq(kmf_pca_finish(pca, 2, NULL), KMF_ENOMEM);
        kmf_mem_fail_at(0);
        ck_assert_int_eq(kmf_pca_finish(pca, 2, NULL), KMF_EINVAL);
        kmf_pca_free(pca);
    }
}
END_TEST

START_TEST(eigenvectors_by_hand)
{
    /* 2 1; 1 2 has 3 along (1, 1) and 1 along (1, -1); the lower half is not read. */
    double a[] = {2, 1, (double)NAN, 2};
    double values[2], vectors[4];
    kmf_err err = {0};
    ck_assert_int_eq(kmf_eigen_greatest(values, vectors, a, 2, 2, &err), 0);
    ck_assert_double_eq_tol(values[0], 3, 1e-14);
    ck_assert_double_eq_tol(values[1], 1, 1e-14);
    ck_assert_double_eq_tol(vectors[0], sqrt(0.5), 1e-14);
    ck_assert_double_eq_tol(vectors[1], sqrt(0.5), 1e-14);
    ck_assert_double_eq_tol(vectors[2] * vectors[3], -0.5, 1e-14);
    double one[] = {5};
    ck_assert_int_eq(kmf_eigen_greatest(values, vectors, one, 1, 1, &err), 0);
    ck_assert_double_eq(values[0], 5);
    ck_assert_double_eq(vectors[0], 1);
    double bad[] = {1, (double)INFINITY, 0, 1};
    ck_assert_int_eq(kmf_eigen_greatest(values, vectors, bad, 2, 1, &err), KMF_ENUMERIC);
}
END_TEST

/* ---------------------------------------------------------------- closed forms ---------- */

START_TEST(cosines_by_hand)
{
    const float x[] = {1, 0, 3, 4, -2, 0, 0, 0.5f};
    const float want[] = {1, 0.6f, -1, 0, 0.6f, 1, -0.6f, 0.8f, -1, -0.6f, 1, 0, 0, 0.8f, 0, 1};
    float c[16];
    ck_assert_int_eq(kmf_cosines(c, x, 4, 2, NULL, NULL), 0);
    for (size_t i = 0; i < 16; i++)
        ck_assert_double_eq_tol((double)c[i], (double)want[i], 1e-7);
}
END_TEST

START_TEST(cosines_of_many_rows_are_symmetric_and_the_same_for_any_threads)
{
    enum { ROWS = 140, COLS = 33 };
    static float x[ROWS * COLS], c[ROWS * ROWS], first[ROWS * ROWS];
    for (size_t i = 0; i < ROWS * COLS; i++)
        x[i] = (float)draw();
    for (int threads = 1; threads <= 3; threads++) {
        kmf_pool *pool = kmf_pool_new(threads, NULL);
        ck_assert_int_eq(kmf_cosines(c, x, ROWS, COLS, pool, NULL), 0);
        kmf_pool_free(pool);
        if (threads == 1)
            memcpy(first, c, sizeof c);
        ck_assert_mem_eq(first, c, sizeof c);
    }
    for (size_t i = 0; i < ROWS; i++) {
        ck_assert(c[i * ROWS + i] == 1);
        for (size_t j = 0; j < i; j++)
            ck_assert(c[i * ROWS + j] == c[j * ROWS + i]);
    }
}
END_TEST

/* Along one line, either way: roundings of float32 would leave some a little beyond 1. */
START_TEST(no_cosine_is_beyond_one)
{
    enum { ROWS = 60, COLS = 33 };
    static float x[ROWS * COLS], c[ROWS * ROWS];
    for (size_t j = 0; j < COLS; j++)
        x[j] = (float)draw();
    for (size_t i = 1; i < ROWS; i++)
        for (size_t j = 0; j < COLS; j++)
            x[i * COLS + j] = (float)(i % 2 ? -1.1 : 1.3) * x[(i - 1) * COLS + j];
    ck_assert_int_eq(kmf_cosines(c, x, ROWS, COLS, NULL, NULL), 0);
    for (size_t i = 0; i < ROWS * ROWS; i++) {
        ck_assert(c[i] >= -1 && c[i] <= 1);
        ck_assert_double_eq_tol(fabs((double)c[i]), 1, 1e-6);
    }
}
END_TEST

/*
 * At distance 0 |S_j| = j. One pair: theta = 1, score cos m and bound 1. Base 1: all pairs are
 * alike, score cos m and |S_j| = j. Two pairs: |1 + exp(i(t0 - t1)m)| = 2 |cos((t0 - t1) m / 2)|.
 */
START_TEST(rotary_decay_has_its_closed_forms)
{
    double score[9], bound[9];
    kmf_rotary_decay(score, bound, 9, 64, 10000);
    ck_assert_double_eq_tol(score[0], 1, 1e-15);
    ck_assert_double_eq_tol(bound[0], 33.0 / 2, 1e-13);
    kmf_rotary_decay(score, bound, 9, 2, 10000);
    for (int m = 0; m < 9; m++) {
        ck_assert_double_eq_tol(score[m], cos(m), 1e-15);
        ck_assert_double_eq_tol(bound[m], 1, 1e-15);
    }
    kmf_rotary_decay(score, bound, 9, 10, 1);
    for (int m = 0; m < 9; m++) {
        ck_assert_double_eq_tol(score[m], cos(m), 1e-14);
        ck_assert_double_eq_tol(bound[m], 3, 1e-14);
    }
    kmf_rotary_decay(score, bound, 9, 4, 100);
    for (int m = 0; m < 9; m++) {
        ck_assert_double_eq_tol(score[m], (cos(m) + cos(0.1 * m)) / 2, 1e-14);
        ck_assert_double_eq_tol(bound[m], (1 + 2 * fabs(cos(0.45 * m))) / 2, 1e-14);
    }
}
END_TEST

START_TEST(sinusoids_have_their_frequencies)
{
    float table[5 * 4];
    kmf_sinusoids(table, 5, 4);
    for (int t = 0; t < 5; t++) {
        ck_assert_double_eq_tol((double)table[4 * t], sin(t), 1e-7);
        ck_assert_double_eq_tol((double)table[4 * t + 1], cos(t), 1e-7);
        ck_assert_double_eq_tol((double)table[4 * t + 2], sin(0.01 * t), 1e-7);
        ck_assert_double_eq_tol((double)table[4 * t + 3], cos(0.01 * t), 1e-7);
    }
}
END_TEST

/* ---------------------------------------------------------------- text ------------------ */

static void quoted_is(const char *text, size_t most, const char *want)
{
    char got[256] = "";
    FILE *to = fmemopen(got, sizeof got, "w");
    ck_assert_ptr_nonnull(to);
    kmf_draft_quote(to, text, most);
    fclose(to);
    ck_assert_str_eq(got, want);
}

START_TEST(no_text_is_more_than_text)
{
    quoted_is("E. coli K-12", 40, "\"E. coli K-12\"");
    quoted_is("", 40, "\"\"");
    quoted_is("'; x '", 40, "\"'; x '\"");
    quoted_is("a\"b", 40, "\"a\\\"b\"");
    quoted_is("\\n`ls`@m{}", 40, "\"\\134n\\140ls\\140\\100m\\173\\175\"");
    quoted_is("a\nb\tc\x7f", 40, "\"a?b?c?\"");
    quoted_is("\xc3\xbc\xe2\x82\xac\xf0\x9f\xa7\xac", 3,
              "\"\xc3\xbc\xe2\x82\xac\xf0\x9f\xa7\xac\"");
    quoted_is("\xc3\xbc\xe2\x82\xac\xf0\x9f\xa7\xac", 2, "\"\xc3\xbc\xe2\x82\xac...\"");
    /* Cut, overlong, surrogate, beyond the last one, alone. */
    quoted_is("\xc3", 9, "\"?\"");
    quoted_is("\xc0\xaf", 9, "\"??\"");
    quoted_is("\xed\xa0\x80", 9, "\"???\"");
    quoted_is("\xf4\x90\x80\x80", 9, "\"????\"");
    quoted_is("\xbf", 9, "\"?\"");
}
END_TEST

START_TEST(names_of_pictures_have_an_ending)
{
    static const char *const bad[] = {"x",   "x.pdf", ".svg",    "a/.png",
                                      "svg", "",      "a\n.svg", "\xff.svg"};
    kmf_err err = {0};
    char *name = kmf_picture_name("a.b/x.y.svg", ".tsv", &err);
    ck_assert_str_eq(name, "a.b/x.y.tsv");
    kmf_text_free(name);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        err = (kmf_err){0};
        ck_assert_ptr_null(kmf_picture_name(bad[i], ".tsv", &err));
        ck_assert_int_eq(err.code, KMF_EINVAL);
    }
}
END_TEST

/* ---------------------------------------------------------------- gnuplot --------------- */

START_TEST(a_program_without_standard_files_gets_its_picture)
{
    static const char gnuplot[] = "#!/bin/sh\necho complaint >&2\nexec cat\n";
    char paths[4096];
    size_t len;
    int kept[3];
    kmf_err err = {0};
    make_dir();
    ck_assert_int_eq(chmod(write_text("gnuplot", gnuplot), 0700), 0);
    const char *path = in_dir("x.svg");
    snprintf(paths, sizeof paths, "%s:%s", dir, getenv("PATH"));
    ck_assert_int_eq(setenv("PATH", paths, 1), 0);
    for (int closed = 0; closed < 8; closed++) { /* each a bit */
        for (int i = 0; i < 3; i++) {
            kept[i] = fcntl(i, F_DUPFD, 10);
            if (closed >> i & 1)
                close(i);
        }
        int status = kmf_gnuplot(path, NULL, "picture\n", 8, &err);
        for (int i = 0; i < 3; i++) {
            dup2(kept[i], i);
            close(kept[i]);
        }
        ck_assert_msg(status == 0, "%d: %s", closed, err.msg);
        char *picture = get(path, &len);
        ck_assert_msg(strncmp(picture, "picture\n", 8) == 0, "%d: %s", closed, picture);
        ck_assert_msg(!strstr(picture, "complaint"), "%d: %s", closed, picture);
        kmf_free(picture);
    }
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(unlink(in_dir("gnuplot")), 0);
    remove_empty_dir();
}
END_TEST

/* ---------------------------------------------------------------- memory ---------------- */

START_TEST(a_size_out_of_range_is_refused)
{
    static const int sizes[] = {-1, 1, KMF_PIXELS_MIN - 1, KMF_PIXELS_MAX + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int side = 0; side < 2; side++) {
            const kmf_picture picture = {.path = "none/x.svg",
                                         .width = side == 0 ? sizes[i] : 0,
                                         .height = side == 1 ? sizes[i] : KMF_PIXELS_MAX,
                                         .data_only = 1};
            kmf_err err = {0};
            ck_assert_int_eq(kmf_plot_positions(&picture, 8, 100, 6, 4, &err), KMF_EINVAL);
            ck_assert_ptr_nonnull(strstr(err.msg, "pixels: there are 100 to 10000"));
        }
}
END_TEST

START_TEST(positions_beyond_the_range_are_refused)
{
    static const struct {
        size_t K, tokens, width;
    } rows[] = {{SIZE_MAX - 1, 6, 4},
                {65538, 6, 4},
                {8, 65537, 4},
                {8, 6, 65538},
                {0, 6, 4},
                {7, 6, 4},
                {8, 1, 4},
                {8, 6, 2}};
    const kmf_picture picture = {.path = "none/x.svg", .data_only = 1};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_int_eq(
            kmf_plot_positions(&picture, rows[i].K, 100, rows[i].tokens, rows[i].width, NULL),
            KMF_EINVAL);
    static const double bases[] = {(double)NAN, (double)INFINITY, 1, -2};
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++)
        ck_assert_int_eq(kmf_plot_positions(&picture, 8, bases[i], 6, 4, NULL), KMF_EINVAL);
}
END_TEST

/* Numbers and script of each plot; the picture itself is gnuplot's. */
static int each_plot(int which, const char *path, kmf_err *err)
{
    const kmf_picture picture = {.path = path, .data_only = 1};
    const kmf_plot_rows rows = {.vectors = GOLDEN "rows.npy", .most = 20, .threads = 1};
    const int components[] = {1, 2};
    kmf_plot_report report;
    if (which == 0)
        return kmf_plot_map(&picture, &rows, components, 1, KMF_PLOT_LABEL, &report, err);
    if (which == 1)
        return kmf_plot_similarity(&picture, &rows, &report, err);
    if (which == 2) {
        uint64_t numbers[] = {1, 5, 40, 2};
        const kmf_spectrum spectrum = {numbers, numbers + 2, 2};
        const kmf_counts_info info = {.k = 3, .distinct = 42};
        return kmf_plot_spectrum(&picture, &spectrum, &info, err);
    }
    return kmf_plot_positions(&picture, 8, 100, 6, 4, err);
}

START_TEST(a_failure_is_told_by_the_code_that_is_returned)
{
    const kmf_picture picture = {.path = "none/x.svg", .data_only = 1};
    const kmf_plot_rows rows = {.vectors = GOLDEN "rows.npy", .most = 20, .threads = 1025};
    const int components[] = {1, 2};
    kmf_plot_report report;
    kmf_err err[2] = {{0}};
    ck_assert_int_eq(
        kmf_plot_map(&picture, &rows, components, 1, KMF_PLOT_LABEL, &report, &err[0]),
        KMF_EINVAL);
    ck_assert_int_eq(kmf_plot_similarity(&picture, &rows, &report, &err[1]), KMF_EINVAL);
    ck_assert_int_eq(kmf_plot_similarity(&picture, &rows, &report, NULL), KMF_EINVAL);
    ck_assert(err[0].code == KMF_EINVAL && err[1].code == KMF_EINVAL);
    ck_assert_int_eq(
        kmf_plot_loss(&picture, (const char *const[]){"none"}, 1, (kmf_plot_x)3, NULL, NULL),
        KMF_EINVAL);
    const kmf_plot_rows sound = {.vectors = GOLDEN "rows.npy", .most = 20, .threads = 1};
    ck_assert_int_eq(
        kmf_plot_map(&picture, &sound, (const int[]){2, 2}, 1, KMF_PLOT_LABEL, &report, NULL),
        KMF_EINVAL);
    ck_assert_int_eq(kmf_plot_map(&picture, &sound, (const int[]){1, 2}, 1, (kmf_plot_colour)9,
                                  &report, NULL),
                     KMF_EINVAL);
    const kmf_plot_rows one = {.vectors = GOLDEN "rows.npy", .most = 1, .threads = 1};
    ck_assert_int_eq(kmf_plot_similarity(&picture, &one, &report, NULL), KMF_EINVAL);
    kmf_mem_fail_at(1);
    ck_assert_int_eq(each_plot(2, picture.path, NULL), KMF_ENOMEM);
    kmf_mem_fail_at(0);
}
END_TEST

START_TEST(any_allocation_may_fail)
{
    make_dir();
    const char *path = in_dir("x.svg");
    for (int which = 0; which < 4; which++) {
        int status = -1;
        for (size_t n = 1; status < 0; n++) {
            kmf_err err = {0};
            kmf_mem_fail_at(n);
            status = each_plot(which, path, &err);
            kmf_mem_fail_at(0);
            ck_assert_int_eq(err.code, status < 0 ? KMF_ENOMEM : KMF_OK);
            ck_assert_uint_lt(n, 100);
        }
    }
    ck_assert_int_eq(unlink(in_dir("x.tsv")), 0);
    ck_assert_int_eq(unlink(in_dir("x.gp")), 0);
    remove_empty_dir();
}
END_TEST

int main(void)
{
    TCase *tc = untimed_case();
    tcase_add_test(tc, components_are_those_of_numpy);
    tcase_add_test(tc, cosines_are_those_of_numpy);
    tcase_add_test(tc, components_are_those_of_jacobis_rotations);
    tcase_add_test(tc, threads_and_whole_blocks_change_no_bit);
    tcase_add_test(tc, components_are_the_same_at_any_size);
    tcase_add_test(tc, what_has_no_components_is_refused);
    tcase_add_test(tc, eigenvectors_by_hand);
    tcase_add_test(tc, cosines_by_hand);
    tcase_add_test(tc, no_cosine_is_beyond_one);
    tcase_add_test(tc, cosines_of_many_rows_are_symmetric_and_the_same_for_any_threads);
    tcase_add_test(tc, rotary_decay_has_its_closed_forms);
    tcase_add_test(tc, sinusoids_have_their_frequencies);
    tcase_add_test(tc, no_text_is_more_than_text);
    tcase_add_test(tc, names_of_pictures_have_an_ending);
    tcase_add_test(tc, a_failure_is_told_by_the_code_that_is_returned);
    tcase_add_test(tc, a_size_out_of_range_is_refused);
    tcase_add_test(tc, positions_beyond_the_range_are_refused);
    tcase_add_test(tc, a_program_without_standard_files_gets_its_picture);
    tcase_add_test(tc, any_allocation_may_fail);
    return run_case("plot", tc);
}
