/* SPDX-License-Identifier: MIT */
/*
 * The probe: its gradient against differences, its minimum against scikit-learn's, L-BFGS on a
 * function whose minimum is known, files that come back as they went and files that lie.
 */
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "eval/lbfgs.h"
#include "eval/logistic.h"
#include "numbers.h"
#include "run.h"

#include <math.h>
#include <unistd.h>

/* ---------------------------------------------------------------- L-BFGS ----------------- */

/* Rosenbrock's valley in pairs: 0 at (1, 1, ...). */
static int valley(void *user, double *value, double *g, const double *x, kmf_err *err)
{
    size_t n = *(size_t *)user;
    (void)err;
    *value = 0;
    for (size_t i = 0; i < n; i += 2) {
        double a = 1 - x[i];
        double b = x[i + 1] - x[i] * x[i];
        *value += a * a + 100 * b * b;
        g[i] = -2 * a - 400 * b * x[i];
        g[i + 1] = 200 * b;
    }
    return 0;
}

START_TEST(lbfgs_finds_the_end_of_a_curved_valley)
{
    size_t n = 6;
    double x[] = {-1.2, 1, 3, -2, 0, 0};
    const kmf_lbfgs_options opts = {.pairs = 10, .iterations = 300, .tolerance = 1e-9};
    int done = kmf_lbfgs(x, n, valley, &n, &opts, NULL);
    ck_assert(done > 0 && done < 150);
    for (size_t i = 0; i < n; i++)
        ck_assert_double_eq_tol(x[i], 1, 1e-9);
}
END_TEST

static int endless(void *user, double *value, double *g, const double *x, kmf_err *err)
{
    (void)user;
    (void)err;
    *value = (double)NAN;
    g[0] = x[0];
    return 0;
}

START_TEST(lbfgs_refuses_a_beginning_that_is_not_finite)
{
    double x[] = {1};
    kmf_err err = {0};
    const kmf_lbfgs_options opts = {.pairs = 2, .iterations = 3, .tolerance = 1};
    ck_assert_int_eq(kmf_lbfgs(x, 1, endless, NULL, &opts, &err), KMF_ENUMERIC);
}
END_TEST

/* ---------------------------------------------------------------- the loss --------------- */

enum { ROWS = 700, DIM = 5, CLASSES = 4, N_THETA = CLASSES * (DIM + 1) };

typedef struct data {
    float x[ROWS * DIM];
    int32_t y[ROWS];
} data;

static void draw(data *d, uint64_t seed)
{
    kmf_rng rng = kmf_rng_stream(seed, 0);
    for (size_t i = 0; i < ROWS; i++) {
        d->y[i] = (int32_t)(i % CLASSES);
        for (size_t j = 0; j < DIM; j++)
            d->x[i * DIM + j] = kmf_rng_normal(&rng) + (float)((size_t)d->y[i] == j ? 1.5 : 0);
    }
}

/* The loss in double, by its definition. */
static double naive_loss(const data *d, const double *theta, double l2)
{
    double sum = 0;
    double square = 0;
    for (size_t i = 0; i < ROWS; i++) {
        double below = 0;
        double own = 0;
        for (size_t c = 0; c < CLASSES; c++) {
            double v = theta[CLASSES * DIM + c];
            for (size_t j = 0; j < DIM; j++)
                v += theta[c * DIM + j] * (double)d->x[i * DIM + j];
            below += exp(v);
            own = (int32_t)c == d->y[i] ? v : own;
        }
        sum += log(below) - own;
    }
    for (size_t j = 0; j < CLASSES * DIM; j++)
        square += theta[j] * theta[j];
    return sum / ROWS + l2 / 2 * square;
}

START_TEST(the_gradient_is_that_of_differences_and_of_any_number_of_threads)
{
    static data d;
    double theta[N_THETA];
    double gradient[N_THETA];
    double threaded[N_THETA];
    double value;
    double again;
    const double step = 1e-5;
    draw(&d, 3);
    kmf_rng rng = kmf_rng_stream(4, 0);
    for (size_t i = 0; i < N_THETA; i++)
        theta[i] = (double)(float)(0.5 * (double)kmf_rng_normal(&rng));
    kmf_logistic *l = kmf_logistic_new(d.x, d.y, ROWS, DIM, CLASSES, NULL, NULL);
    ck_assert_ptr_nonnull(l);
    kmf_logistic_set_l2(l, 0.3);
    ck_assert_int_eq(kmf_logistic_loss(l, &value, gradient, theta, NULL), 0);
    ck_assert_double_eq_tol(value, naive_loss(&d, theta, 0.3), 1e-6);
    for (size_t i = 0; i < N_THETA; i++) {
        double at = theta[i];
        theta[i] = at + step;
        double more = naive_loss(&d, theta, 0.3);
        theta[i] = at - step;
        double less = naive_loss(&d, theta, 0.3);
        theta[i] = at;
        ck_assert_double_eq_tol(gradient[i], (more - less) / (2 * step), 2e-6);
    }
    kmf_logistic_free(l);
    kmf_pool *pool = kmf_pool_new(3, NULL);
    l = kmf_logistic_new(d.x, d.y, ROWS, DIM, CLASSES, pool, NULL);
    ck_assert_ptr_nonnull(l);
    kmf_logistic_set_l2(l, 0.3);
    ck_assert_int_eq(kmf_logistic_loss(l, &again, threaded, theta, NULL), 0);
    ck_assert_int_eq(memcmp(&value, &again, sizeof value), 0);
    ck_assert_int_eq(memcmp(gradient, threaded, sizeof gradient), 0);
    kmf_logistic_free(l);
    kmf_pool_free(pool);
}
END_TEST

/* ---------------------------------------------------------------- the probe -------------- */

START_TEST(the_minimum_is_that_of_scikit_learn)
{
    FILE *f = golden_open();
    int n_cases = 0;
    for (; golden_next(f, "probe"); n_cases++) {
        size_t n = (size_t)golden_number(f);
        size_t dim = (size_t)golden_number(f);
        size_t C = (size_t)golden_number(f);
        kmf_probe_options opts = {
            .l2 = golden_number(f), .iterations = 2000, .tolerance = 1e-7};
        double *x = golden_numbers(f, n * dim);
        int32_t *y = golden_classes(f, n);
        float *rows = calloc(n * dim, sizeof *rows);
        double *p = calloc(C, sizeof *p);
        ck_assert(rows && p);
        for (size_t i = 0; i < n * dim; i++)
            rows[i] = (float)x[i];
        const kmf_points train = {rows, y, n};
        kmf_probe *probe = kmf_probe_train(&train, NULL, NULL, dim, C, &opts, NULL, NULL);
        ck_assert_ptr_nonnull(probe);
        for (size_t i = 0; i < n; i++) {
            (void)kmf_probe_predict(probe, p, rows + i * dim);
            for (size_t c = 0; c < C; c++) /* a loss to 1e-8 leaves 1e-4 of the probabilities */
                ck_assert_double_eq_tol(p[c], golden_number(f), 3e-4);
        }
        kmf_probe_free(probe);
        free(x);
        free(y);
        free(rows);
        free(p);
    }
    ck_assert_int_eq(n_cases, 3);
    fclose(f);
}
END_TEST

static kmf_probe *train_probe(const data *d, kmf_pool *pool)
{
    const kmf_points train = {d->x, d->y, ROWS};
    const kmf_points fit = {d->x, d->y, ROWS / 2};
    const kmf_points dev = {d->x + (ROWS / 2) * DIM, d->y + ROWS / 2, ROWS / 2};
    kmf_probe_options opts;
    kmf_probe_options_default(&opts);
    return kmf_probe_train(&train, &fit, &dev, DIM, CLASSES, &opts, pool, NULL);
}

START_TEST(rows_of_nan_teach_nothing_and_get_the_most_frequent_class)
{
    static data d;
    double p[CLASSES];
    draw(&d, 6);
    for (size_t i = 0; i < ROWS; i++)
        if (i % 7 == 0) {
            for (size_t j = 0; j < DIM; j++)
                d.x[i * DIM + j] = NAN;
            d.y[i] = 2;
        }
    kmf_probe *probe = train_probe(&d, NULL);
    ck_assert_ptr_nonnull(probe);
    for (size_t i = 0; i < DIM * CLASSES; i++)
        ck_assert(isfinite(kmf_probe_weights(probe)[i]));
    ck_assert_int_eq(kmf_probe_predict(probe, p, d.x), 2);
    double sum = p[0] + p[1] + p[2] + p[3];
    ck_assert_double_eq_tol(sum, 1, 1e-6);
    ck_assert(p[2] > p[0] && p[2] > p[1] && p[2] > p[3]);
    int right = 0;
    for (size_t i = 0; i < ROWS; i++)
        right += kmf_probe_predict(probe, p, d.x + i * DIM) == d.y[i];
    ck_assert_int_gt(right, ROWS / 2);
    kmf_probe_free(probe);
}
END_TEST

START_TEST(threads_change_no_bit_of_a_probe)
{
    static data d;
    draw(&d, 7);
    kmf_probe *one = train_probe(&d, NULL);
    kmf_pool *pool = kmf_pool_new(3, NULL);
    kmf_probe *more = train_probe(&d, pool);
    ck_assert(one && more);
    ck_assert_int_eq(
        memcmp(kmf_probe_weights(one), kmf_probe_weights(more), CLASSES * DIM * sizeof(float)),
        0);
    ck_assert_int_eq(
        memcmp(kmf_probe_biases(one), kmf_probe_biases(more), CLASSES * sizeof(float)), 0);
    kmf_probe_free(one);
    kmf_probe_free(more);
    kmf_pool_free(pool);
}
END_TEST

/* ---------------------------------------------------------------- files ------------------ */

static char path[] = "/tmp/kmf_probe_XXXXXX";

/* Without waiting for the disk. */
static void put_file(const unsigned char *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static size_t save_probe(kmf_probe *probe, unsigned char *bytes, size_t cap)
{
    const char *const labels[] = {"a", "with blank", "\xc3\xa9", "z"};
    const char *const pairs[] = {"note", "x"};
    const char *const bad[] = {"a", "b\tc", "d", "z"};
    kmf_err err = {0};
    ck_assert_int_eq(kmf_probe_describe(probe, bad, "{}", &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "label 'b?c': a control character in it");
    ck_assert_int_eq(kmf_probe_describe(probe, labels, "{\"model\": 1}", NULL), 0);
    const char *const own[] = {"l2", "77"};
    ck_assert_int_eq(kmf_probe_save(probe, path, own, 1, NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_probe_save(probe, path, pairs, 1, NULL), 0);
    FILE *f = fopen(path, "rb");
    ck_assert_ptr_nonnull(f);
    size_t n = fread(bytes, 1, cap, f);
    fclose(f);
    ck_assert(n > 0 && n < cap);
    return n;
}

START_TEST(a_file_brings_the_probe_back_and_lies_are_told)
{
    static data d;
    static unsigned char bytes[1 << 16];
    double p[CLASSES];
    double q[CLASSES];
    draw(&d, 8);
    close(mkstemp(path));
    kmf_probe *probe = train_probe(&d, NULL);
    kmf_err err = {0};
    ck_assert_int_eq(kmf_probe_save(probe, path, NULL, 0, &err), KMF_EINVAL);
    size_t n = save_probe(probe, bytes, sizeof bytes);
    kmf_probe *back = kmf_probe_load(path, NULL);
    ck_assert_ptr_nonnull(back);
    ck_assert_str_eq(kmf_probe_label(back, 1), "with blank");
    ck_assert_str_eq(kmf_probe_identity(back), "{\"model\": 1}");
    ck_assert_double_eq(kmf_probe_l2(back), kmf_probe_l2(probe));
    for (size_t i = 0; i < ROWS; i++) {
        ck_assert_int_eq(kmf_probe_predict(probe, p, d.x + i * DIM),
                         kmf_probe_predict(back, q, d.x + i * DIM));
        ck_assert_int_eq(memcmp(p, q, sizeof p), 0);
    }
    kmf_probe_free(back);
    kmf_probe_free(probe);
    /* cut anywhere, it is refused; a byte changed, it is refused or taken, and never more */
    for (size_t cut = 0; cut < n; cut += cut < 900 ? 1 : 13) {
        put_file(bytes, cut);
        ck_assert_ptr_null(kmf_probe_load(path, NULL));
    }
    for (size_t at = 0; at < n; at += 3) {
        bytes[at] ^= 0x15;
        put_file(bytes, n);
        kmf_probe_free(kmf_probe_load(path, NULL));
        bytes[at] ^= 0x15;
    }
    unlink(path);
}
END_TEST

START_TEST(texts_that_are_not_utf8_do_not_lose_a_probe)
{
    static data d;
    static const char *const labels[] = {"a", "\xff", "c", "d"};
    static const char *const pairs[] = {"command", "train -o p\xff\xc3\xa9", "note",
                                        "\xc3\xa9"};
    static const char *const odd_key[] = {"k\xff", "x"};
    kmf_err err = {0};
    size_t len;
    draw(&d, 8);
    close(mkstemp(path));
    kmf_probe *probe = train_probe(&d, NULL);
    ck_assert_int_eq(kmf_probe_describe(probe, labels, "{}", &err), 0);
    ck_assert_msg(kmf_probe_save(probe, path, pairs, 2, &err) == 0, "%s", err.msg);
    kmf_probe *back = kmf_probe_load(path, &err);
    ck_assert_msg(back != NULL, "%s", err.msg);
    ck_assert_str_eq(kmf_probe_label(back, 1), "\xff");
    char *bytes = kmf_file_read(path, 1 << 16, &len, &err);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_ptr_nonnull(strstr(bytes + 8, "\"command\":\"train -o p???\""));
    ck_assert_ptr_nonnull(strstr(bytes + 8, "\"note\":\"\xc3\xa9\""));
    ck_assert_int_eq(kmf_probe_save(probe, path, odd_key, 1, &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "k?: not UTF-8, as the texts of safetensors must be");
    err = (kmf_err){0};
    ck_assert_int_eq(kmf_probe_describe(probe, labels, "\xff", &err), 0);
    ck_assert_int_eq(kmf_probe_save(probe, path, pairs, 2, &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "embedder: not UTF-8, as the texts of safetensors must be");
    kmf_free(bytes);
    kmf_probe_free(back);
    kmf_probe_free(probe);
    unlink(path);
}
END_TEST

START_TEST(no_memory_is_an_error_wherever_it_runs_out)
{
    static data d;
    draw(&d, 9);
    const kmf_points train = {d.x, d.y, 40};
    kmf_probe_options opts = {.l2 = 0.1, .iterations = 3, .tolerance = 1e-3};
    kmf_probe *probe = NULL;
    for (size_t n = 1; !probe; n++) {
        kmf_err err = {0};
        kmf_mem_fail_at(n);
        probe = kmf_probe_train(&train, NULL, NULL, DIM, CLASSES, &opts, NULL, &err);
        kmf_mem_fail_at(0);
        ck_assert(probe ? n > 10 : err.code == KMF_ENOMEM);
    }
    kmf_probe_free(probe);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("probe");
    TCase *tc = tcase_create("probe");
    tcase_set_timeout(tc, 0);
    tcase_add_test(tc, lbfgs_finds_the_end_of_a_curved_valley);
    tcase_add_test(tc, lbfgs_refuses_a_beginning_that_is_not_finite);
    tcase_add_test(tc, the_gradient_is_that_of_differences_and_of_any_number_of_threads);
    tcase_add_test(tc, the_minimum_is_that_of_scikit_learn);
    tcase_add_test(tc, rows_of_nan_teach_nothing_and_get_the_most_frequent_class);
    tcase_add_test(tc, threads_change_no_bit_of_a_probe);
    tcase_add_test(tc, a_file_brings_the_probe_back_and_lies_are_told);
    tcase_add_test(tc, texts_that_are_not_utf8_do_not_lose_a_probe);
    tcase_add_test(tc, no_memory_is_an_error_wherever_it_runs_out);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
