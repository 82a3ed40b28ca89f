/* SPDX-License-Identifier: MIT */
/* The loss of multinomial logistic regression by its definition, its gradient by differences. */
#include "drawn_points.h"
#include "eval/logistic.h"
#include "run.h"

#include <math.h>

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

/* A step that went too far is taken back, and nothing of it may stay. */
START_TEST(a_loss_that_is_not_finite_leaves_nothing_behind)
{
    static data d;
    double theta[N_THETA], far[N_THETA], gradient[N_THETA], again[N_THETA];
    double values[3];
    draw(&d, 5);
    kmf_rng rng = kmf_rng_stream(6, 0);
    for (size_t i = 0; i < N_THETA; i++) {
        theta[i] = (double)kmf_rng_normal(&rng);
        far[i] = 1e39 * theta[i];
    }
    kmf_logistic *l = kmf_logistic_new(d.x, d.y, ROWS, DIM, CLASSES, NULL, NULL);
    ck_assert_ptr_nonnull(l);
    ck_assert_int_eq(kmf_logistic_loss(l, &values[0], gradient, theta, NULL), 0);
    ck_assert_int_eq(kmf_logistic_loss(l, &values[1], again, far, NULL), 0);
    ck_assert(isfinite(values[0]) && !isfinite(values[1]));
    ck_assert_int_eq(kmf_logistic_loss(l, &values[2], again, theta, NULL), 0);
    ck_assert_int_eq(memcmp(&values[0], &values[2], sizeof values[0]), 0);
    ck_assert_int_eq(memcmp(gradient, again, sizeof gradient), 0);
    kmf_logistic_free(l);
}
END_TEST

int main(void)
{
    TCase *tc = untimed_case();
    tcase_add_test(tc, the_gradient_is_that_of_differences_and_of_any_number_of_threads);
    tcase_add_test(tc, a_loss_that_is_not_finite_leaves_nothing_behind);
    return run_case("logistic", tc);
}
