/* SPDX-License-Identifier: MIT */
/*
 * Learning a probe: its minimum beside scikit-learn's, what is chosen, rows and columns that teach
 * nothing, threads, and what fails.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "drawn_points.h"
#include "eval/probe.h"
#include "numbers.h"
#include "run.h"

#include <math.h>

START_TEST(the_minimum_is_that_of_scikit_learn)
{
    FILE *f = golden_open();
    int n_cases = 0;
    for (; golden_next(f, "probe"); n_cases++) {
        size_t n = (size_t)golden_number(f);
        size_t dim = (size_t)golden_number(f);
        size_t C = (size_t)golden_number(f);
        kmf_probe_options opts = {.iterations = 2000, .tolerance = 1e-7};
        opts.l2 = golden_number(f);
        opts.scale = (int)golden_number(f);
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
    ck_assert_int_eq(n_cases, 6);
    fclose(f);
}
END_TEST

/*
 * Two columns that are the same but for `gap`, by which the classes differ: the smaller that is,
 * the larger are the weights that tell them apart.
 */
static double chosen_l2(float gap, uint64_t seed)
{
    enum { N_FIT = 30, N_ALL = 60 };
    float x[N_ALL][2];
    int32_t y[N_ALL];
    kmf_rng rng = kmf_rng_stream(seed, 0);
    for (size_t i = 0; i < N_ALL; i++) {
        y[i] = (int32_t)(i % 2);
        x[i][1] = kmf_rng_normal(&rng);
        x[i][0] = x[i][1] + (y[i] ? gap : -gap);
    }
    const kmf_points all = {x[0], y, N_ALL};
    const kmf_points fit = {x[0], y, N_FIT};
    const kmf_points dev = {x[N_FIT], y + N_FIT, N_ALL - N_FIT};
    kmf_probe_options opts;
    kmf_probe_options_default(&opts);
    kmf_probe *probe = kmf_probe_train(&all, &fit, &dev, 2, 2, &opts, NULL, NULL);
    ck_assert_ptr_nonnull(probe);
    double l2 = kmf_probe_l2(probe);
    kmf_probe_free(probe);
    return l2;
}

START_TEST(l2_is_chosen_from_all_of_its_grid_and_the_largest_of_equals)
{
    static const double grid[KMF_PROBE_GRID] = {1, 0.1, 0.01, 1e-3, 1e-4, 1e-5};
    static const float gaps[KMF_PROBE_GRID] = {100, 1, 0.3f, 0.1f, 0.04f, 0.01f};
    int taken[KMF_PROBE_GRID] = {0};
    for (size_t i = 0; i < KMF_PROBE_GRID; i++)
        for (uint64_t seed = 1; seed < 9; seed++) {
            double l2 = chosen_l2(gaps[i], seed);
            size_t at = 0;
            while (at < KMF_PROBE_GRID && (l2 < grid[at] || l2 > grid[at]))
                at++;
            ck_assert(at < KMF_PROBE_GRID);
            ck_assert(i > 0 || at == 0); /* all do: the largest */
            taken[at]++;
        }
    for (size_t i = 0; i < KMF_PROBE_GRID; i++)
        ck_assert_int_gt(taken[i], 0);
}
END_TEST

/*
 * One column is what classes differ by; many hardly change, and know nothing: few records teach
 * their noise where each counts as much, and none of it where all have one scale.
 */
START_TEST(the_scale_is_chosen_that_tells_more_of_dev)
{
    enum { N = 24, WIDTH = 60 };
    static float x[2 * N][WIDTH];
    int32_t y[2 * N];
    kmf_rng rng = kmf_rng_stream(5, 0);
    for (size_t i = 0; i < 2 * N; i++) {
        y[i] = (int32_t)(i % 2);
        for (size_t j = 0; j < WIDTH; j++)
            x[i][j] = 0.01f * kmf_rng_normal(&rng);
        x[i][7] = (y[i] ? 1.0f : -1.0f) + kmf_rng_normal(&rng);
    }
    const kmf_points fit = {x[0], y, N};
    const kmf_points dev = {x[N], y + N, N};
    kmf_probe_options opts;
    size_t right[3] = {0};
    for (int scale = 0; scale <= KMF_PROBE_AUTO; scale++) {
        double p[2];
        kmf_probe_options_default(&opts);
        ck_assert_int_eq(opts.scale, -1);
        ck_assert_int_eq(kmf_probe_chooses(&opts), 1);
        opts.scale = scale < KMF_PROBE_AUTO ? scale : -1; /* the same as AUTO, without l2 */
        kmf_probe *probe = kmf_probe_train(&fit, &fit, &dev, WIDTH, 2, &opts, NULL, NULL);
        ck_assert_ptr_nonnull(probe);
        ck_assert_int_eq(kmf_probe_scaled_by(probe),
                         scale == KMF_PROBE_AUTO ? KMF_PROBE_COMMON : scale);
        for (size_t i = N; i < 2 * N; i++)
            right[scale] += kmf_probe_predict(probe, p, x[i]) == y[i];
        ck_assert_double_eq(kmf_probe_chosen_accuracy(probe), (double)right[scale] / N);
        kmf_probe_free(probe);
    }
    ck_assert_uint_gt(right[KMF_PROBE_COMMON], right[KMF_PROBE_COLUMN]);
    ck_assert_uint_eq(right[KMF_PROBE_AUTO], right[KMF_PROBE_COMMON]);
    opts = (kmf_probe_options){
        .l2 = 0.01, .scale = KMF_PROBE_AUTO, .iterations = 300, .tolerance = 1e-4};
    kmf_probe *at_this = kmf_probe_train(&fit, &fit, &dev, WIDTH, 2, &opts, NULL, NULL);
    ck_assert_ptr_nonnull(at_this);
    ck_assert_int_eq(kmf_probe_scaled_by(at_this), KMF_PROBE_COMMON);
    ck_assert_double_eq(kmf_probe_l2(at_this), 0.01);
    kmf_probe_free(at_this);
    ck_assert_ptr_null(kmf_probe_train(&fit, NULL, NULL, WIDTH, 2, &opts, NULL, NULL));
    opts.scale = -1;
    ck_assert_int_eq(kmf_probe_chooses(&opts), 0);
    kmf_probe *by_default = kmf_probe_train(&fit, NULL, NULL, WIDTH, 2, &opts, NULL, NULL);
    ck_assert_ptr_nonnull(by_default);
    ck_assert_int_eq(kmf_probe_scaled_by(by_default), KMF_PROBE_COLUMN);
    ck_assert(isnan(kmf_probe_chosen_accuracy(by_default)));
    kmf_probe_free(by_default);
    for (int wrong = -2; wrong <= KMF_PROBE_AUTO + 1; wrong += KMF_PROBE_AUTO + 3) {
        kmf_err err = {0};
        opts.scale = wrong;
        ck_assert_ptr_null(kmf_probe_train(&fit, &fit, &dev, WIDTH, 2, &opts, NULL, &err));
        ck_assert_int_eq(err.code, KMF_EINVAL);
    }
}
END_TEST

/* An infinite number has no place on any scale. */
START_TEST(vectors_that_are_not_finite_are_an_error_of_numbers)
{
    static const float x[][1] = {{1}, {INFINITY}, {2}};
    static const int32_t y[] = {0, 1, 0};
    const kmf_points train = {x[0], y, 3};
    for (int scale = 0; scale < KMF_PROBE_AUTO; scale++) {
        kmf_err err = {0};
        const kmf_probe_options opts = {
            .l2 = 1, .scale = scale, .iterations = 10, .tolerance = 1e-4};
        ck_assert_ptr_null(kmf_probe_train(&train, NULL, NULL, 1, 2, &opts, NULL, &err));
        ck_assert_int_eq(err.code, KMF_ENUMERIC);
    }
}
END_TEST

/* z = x / 1e-40 has weights of about 1; those of x are 1e40, which float32 has not. */
START_TEST(a_column_too_small_for_a_weight_is_an_error_that_names_it)
{
    static const float x[][2] = {{1, 1e-40F}, {2, 3e-40F}, {2, 1e-40F}, {1, 3e-40F}};
    static const int32_t y[] = {0, 1, 0, 1};
    const kmf_points train = {x[0], y, 4};
    kmf_err err = {0};
    kmf_probe_options opts = {
        .l2 = 0.01, .scale = KMF_PROBE_COLUMN, .iterations = 100, .tolerance = 1e-4};
    ck_assert_ptr_null(kmf_probe_train(&train, NULL, NULL, 2, 2, &opts, NULL, &err));
    ck_assert_int_eq(err.code, KMF_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(err.msg, "column 2: "));
    opts.scale = KMF_PROBE_COMMON;
    kmf_probe *p = kmf_probe_train(&train, NULL, NULL, 2, 2, &opts, NULL, NULL);
    ck_assert_ptr_nonnull(p);
    kmf_probe_free(p);
}
END_TEST

typedef struct told {
    kmf_probe_progress last;
    size_t calls;
} told;

static void listen(void *user, const kmf_probe_progress *now)
{
    told *t = user;
    if (now->number == t->last.number) { /* the same probe goes on */
        ck_assert_int_eq(now->iteration, t->last.iteration + 1);
        ck_assert_double_eq(now->l2, t->last.l2);
        ck_assert_int_eq(now->scale, t->last.scale);
    } else {
        ck_assert_int_eq(now->iteration, 0);
        ck_assert_int_eq(now->number, t->last.number + 1);
    }
    if (now->number > 1)
        ck_assert_int_eq(now->count, t->last.count);
    t->last = *now;
    t->calls++;
}

/* One probe for each value and scale, and the one that is kept; a step of each is told. */
START_TEST(learning_says_which_probe_of_how_many_it_is_at)
{
    static const float x[][2] = {{1, 2}, {2, 1}, {-1, 3}, {0, -2}, {3, 3}, {-2, 0}};
    static const int32_t y[] = {0, 1, 0, 1, 1, 0};
    static const struct {
        double l2;
        int scale, probes;
    } cases[] = {{0, KMF_PROBE_AUTO, 2 * KMF_PROBE_GRID + 1},
                 {0, KMF_PROBE_COMMON, KMF_PROBE_GRID + 1},
                 {0.01, KMF_PROBE_AUTO, 3},
                 {0.01, KMF_PROBE_COMMON, 1}};
    const kmf_points all = {x[0], y, 6};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        told t = {{0}, 0};
        kmf_probe_options opts;
        kmf_probe_options_default(&opts);
        opts.l2 = cases[i].l2;
        opts.scale = cases[i].scale;
        opts.fn = listen;
        opts.user = &t;
        kmf_probe *probe = kmf_probe_train(&all, &all, &all, 2, 2, &opts, NULL, NULL);
        ck_assert_ptr_nonnull(probe);
        ck_assert_int_eq(t.last.count, cases[i].probes);
        ck_assert_int_eq(t.last.number, cases[i].probes);
        ck_assert_double_eq(t.last.l2, kmf_probe_l2(probe));
        ck_assert_int_eq(t.last.scale, kmf_probe_scaled_by(probe));
        ck_assert_uint_gt(t.calls, (size_t)cases[i].probes);
        kmf_probe_free(probe);
    }
}
END_TEST

/* Means of 0.1f are rounded, which is no change; the third column is, in the second case. */
START_TEST(columns_that_never_change_are_left_alone_at_any_scale)
{
    static const float still[][3] = {{3, 0.1f, 5}, {3, 0.1f, 5}, {3, 0.1f, 5}};
    static const float moves[][3] = {{3, 0.1f, 0.5f}, {3, 0.1f, 1}, {3, 0.1f, 1.5f}};
    static const int32_t y[] = {0, 1, 1};
    for (int scale = 0; scale < KMF_PROBE_AUTO; scale++)
        for (int moving = 0; moving < 2; moving++) {
            double p[2];
            const float *x = moving ? moves[0] : still[0];
            const kmf_points train = {x, y, 3};
            kmf_probe_options opts = {
                .l2 = 0.1, .scale = scale, .iterations = 100, .tolerance = 1e-7};
            kmf_probe *probe = kmf_probe_train(&train, NULL, NULL, 3, 2, &opts, NULL, NULL);
            ck_assert_ptr_nonnull(probe);
            const float *w = kmf_probe_weights(probe);
            for (size_t c = 0; c < 2; c++)
                for (size_t d = 0; d < 3; d++)
                    ck_assert((fabsf(w[3 * c + d]) > 0.1f) == (moving == 1 && d == 2));
            (void)kmf_probe_predict(probe, p, x);
            if (moving)
                ck_assert(p[0] > 0.5);
            else
                ck_assert_double_eq_tol(p[1], 2.0 / 3, 1e-4);
            kmf_probe_free(probe);
        }
}
END_TEST

START_TEST(rows_of_nan_teach_nothing_and_get_the_most_frequent_class)
{
    static data d;
    double p[CLASSES];
    double share[CLASSES] = {0};
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
    for (size_t i = 0; i < ROWS; i++)
        share[d.y[i]] += 1.0 / ROWS;
    for (size_t c = 0; c < CLASSES; c++)
        ck_assert_double_eq_tol(p[c], share[c], 1e-6);
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

START_TEST(a_class_that_there_is_none_of_is_refused)
{
    static const float x[] = {0, 1, 1, 0};
    static const int32_t wrong[] = {2, -1};
    for (size_t i = 0; i < 2; i++) {
        const int32_t right[] = {0, 1}, y[] = {0, wrong[i]};
        const kmf_points good = {x, right, 2}, bad = {x, y, 2};
        kmf_err err = {0};
        kmf_probe_options opts = {.l2 = 0.1, .iterations = 3, .tolerance = 1e-3};
        ck_assert_ptr_null(kmf_probe_train(&bad, NULL, NULL, 2, 2, &opts, NULL, &err));
        ck_assert_int_eq(err.code, KMF_EINVAL);
        opts.l2 = 0;
        err = (kmf_err){0};
        ck_assert_ptr_null(kmf_probe_train(&good, &bad, &good, 2, 2, &opts, NULL, &err));
        ck_assert_int_eq(err.code, KMF_EINVAL);
    }
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
    TCase *tc = untimed_case();
    tcase_add_test(tc, the_minimum_is_that_of_scikit_learn);
    tcase_add_test(tc, l2_is_chosen_from_all_of_its_grid_and_the_largest_of_equals);
    tcase_add_test(tc, the_scale_is_chosen_that_tells_more_of_dev);
    tcase_add_test(tc, vectors_that_are_not_finite_are_an_error_of_numbers);
    tcase_add_test(tc, a_column_too_small_for_a_weight_is_an_error_that_names_it);
    tcase_add_test(tc, learning_says_which_probe_of_how_many_it_is_at);
    tcase_add_test(tc, columns_that_never_change_are_left_alone_at_any_scale);
    tcase_add_test(tc, rows_of_nan_teach_nothing_and_get_the_most_frequent_class);
    tcase_add_test(tc, threads_change_no_bit_of_a_probe);
    tcase_add_test(tc, a_class_that_there_is_none_of_is_refused);
    tcase_add_test(tc, no_memory_is_an_error_wherever_it_runs_out);
    return run_case("probe", tc);
}
