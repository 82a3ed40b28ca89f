/* SPDX-License-Identifier: MIT */
/*
 * L-BFGS on functions whose minimum is known, beside the inverse Hessian written down, and where
 * there is no number or no step.
 */
#include "eval/lbfgs.h"
#include "run.h"

#include <math.h>
#include <stdbool.h>

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
    ck_assert(done > 0 && done < 100);
    for (size_t i = 0; i < n; i++)
        ck_assert_double_eq_tol(x[i], 1, 1e-9);
}
END_TEST

enum { VALLEY = 6, PAIRS = 3, STEPS = 12 };

/* h = (I - r s y^T) h (I - r y s^T) + r s s^T, r = 1 / s^T y: Nocedal and Wright, (7.16). */
static void update_inverse(double h[VALLEY][VALLEY], const double *s, const double *y)
{
    double left[VALLEY][VALLEY];
    double r = 0;
    for (size_t i = 0; i < VALLEY; i++)
        r += s[i] * y[i];
    for (size_t i = 0; i < VALLEY; i++)
        for (size_t j = 0; j < VALLEY; j++) {
            left[i][j] = h[i][j];
            for (size_t k = 0; k < VALLEY; k++)
                left[i][j] -= s[i] * y[k] * h[k][j] / r;
        }
    for (size_t i = 0; i < VALLEY; i++)
        for (size_t j = 0; j < VALLEY; j++) {
            h[i][j] = left[i][j] + s[i] * s[j] / r;
            for (size_t k = 0; k < VALLEY; k++)
                h[i][j] -= left[i][k] * y[k] * s[j] / r;
        }
}

/* Where it stands after 0, 1, ... steps, and the gradients there. */
static void walk_valley(double x[STEPS + 1][VALLEY], double g[STEPS + 1][VALLEY])
{
    static const double start[VALLEY] = {-1.2, 1, 3, -2, 0, 0};
    size_t n = VALLEY;
    double value;
    for (int j = 0; j <= STEPS; j++) {
        const kmf_lbfgs_options opts = {.pairs = PAIRS, .iterations = j, .tolerance = 1e-9};
        memcpy(x[j], start, sizeof start);
        ck_assert_int_eq(kmf_lbfgs(x[j], n, valley, &n, &opts, NULL), j);
        (void)valley(&n, &value, g[j], x[j], NULL);
    }
}

START_TEST(lbfgs_goes_where_the_inverse_hessian_written_down_leads)
{
    double x[STEPS + 1][VALLEY];
    double g[STEPS + 1][VALLEY];
    walk_valley(x, g);
    for (int j = 1; j < STEPS; j++) {
        double h[VALLEY][VALLEY] = {{0}};
        int first = j > PAIRS ? j - PAIRS : 0;
        for (int i = first; i < j; i++) {
            double s[VALLEY];
            double y[VALLEY];
            double sy = 0;
            double yy = 0;
            for (size_t d = 0; d < VALLEY; d++) {
                s[d] = x[i + 1][d] - x[i][d];
                y[d] = g[i + 1][d] - g[i][d];
            }
            for (size_t d = 0; d < VALLEY; d++) { /* of the last pair: h begins with it */
                double s_last = x[j][d] - x[j - 1][d];
                double y_last = g[j][d] - g[j - 1][d];
                sy += s_last * y_last;
                yy += y_last * y_last;
            }
            for (size_t d = 0; d < VALLEY && i == first; d++)
                h[d][d] = sy / yy;
            update_inverse(h, s, y);
        }
        double along = 0; /* how much of the direction the step is */
        double square = 0;
        double way[VALLEY] = {0};
        for (size_t d = 0; d < VALLEY; d++) {
            for (size_t e = 0; e < VALLEY; e++)
                way[d] -= h[d][e] * g[j][e];
            along += way[d] * (x[j + 1][d] - x[j][d]);
            square += way[d] * way[d];
        }
        ck_assert(along > 0);
        for (size_t d = 0; d < VALLEY; d++)
            ck_assert_double_eq_tol(x[j + 1][d] - x[j][d], along / square * way[d],
                                    1e-9 * along / sqrt(square));
    }
}
END_TEST

/* x^2 / 2: a first step of length 1 leaves nearly all of the slope. */
static int wide_bowl(void *user, double *value, double *g, const double *x, kmf_err *err)
{
    (void)user;
    (void)err;
    *value = x[0] * x[0] / 2;
    g[0] = x[0];
    return 0;
}

/* Falls with slope -1 to a wall at 2.9: only steps between 2.901 and 3.15 are good ones. */
static int wall(void *user, double *value, double *g, const double *x, kmf_err *err)
{
    double behind = x[0] > 2.9 ? x[0] - 2.9 : 0;
    (void)user;
    (void)err;
    *value = -x[0] + 50 * behind * behind;
    g[0] = -1 + 100 * behind;
    return 0;
}

START_TEST(lbfgs_takes_steps_that_lower_the_value_and_leave_a_tenth_of_the_slope_behind)
{
    double x = 1000;
    const kmf_lbfgs_options once = {.pairs = 2, .iterations = 1, .tolerance = 1e-9};
    ck_assert_int_eq(kmf_lbfgs(&x, 1, wide_bowl, NULL, &once, NULL), 1);
    ck_assert(fabs(x) <= 900);
    x = 0;
    ck_assert_int_eq(kmf_lbfgs(&x, 1, wall, NULL, &once, NULL), 1);
    ck_assert(x >= 2.901 && x <= 3.15);
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

/* 10 x - ln x, which is no number at 0 and before it; its minimum, 0.1, by hand. */
static int walled(void *user, double *value, double *g, const double *x, kmf_err *err)
{
    (void)err;
    *(int *)user += x[0] < 0;
    *value = 10 * x[0] - log(x[0]);
    g[0] = 10 - 1 / x[0];
    return 0;
}

START_TEST(lbfgs_comes_back_from_where_there_is_no_number)
{
    int beyond = 0;
    double x[] = {0.5}; /* the first step, of length 1, leads beyond */
    const kmf_lbfgs_options opts = {.pairs = 3, .iterations = 100, .tolerance = 1e-8};
    ck_assert_int_gt(kmf_lbfgs(x, 1, walled, &beyond, &opts, NULL), 0);
    ck_assert_int_gt(beyond, 0);
    ck_assert_double_eq_tol(x[0], 0.1, 1e-8);
}
END_TEST

/* A bowl that is no number while its second step is sought. */
typedef struct spell {
    bool cast;
    int left;        /* calls that it lasts */
    bool over;       /* a call came behind it */
    double begin[2]; /* where the first step led */
    double asked[2]; /* by the last call before it, then by the first one behind it */
} spell;

static int spellbound(void *user, double *value, double *g, const double *x, kmf_err *err)
{
    spell *s = user;
    (void)err;
    *value = x[0] * x[0] + 10 * x[1] * x[1];
    g[0] = 2 * x[0];
    g[1] = 20 * x[1];
    if (s->left > 0) {
        s->left--;
        *value = (double)NAN;
    } else if (!s->over) {
        memcpy(s->asked, x, sizeof s->asked);
        s->over = s->cast;
    }
    return 0;
}

static void cast_once(void *user, int done)
{
    spell *s = user;
    if (done != 1 || s->cast)
        return;
    s->cast = true;
    s->left = 40; /* trials of a step */
    memcpy(s->begin, s->asked, sizeof s->begin);
}

START_TEST(lbfgs_that_finds_no_step_goes_straight_downhill)
{
    spell s = {0};
    double x[] = {3, 2};
    const kmf_lbfgs_options opts = {
        .pairs = 3, .iterations = 100, .tolerance = 1e-9, .before = cast_once, .about = &s};
    ck_assert_int_gt(kmf_lbfgs(x, 2, spellbound, &s, &opts, NULL), 1);
    ck_assert(s.over);
    ck_assert_double_eq_tol(x[0], 0, 1e-9);
    ck_assert_double_eq_tol(x[1], 0, 1e-9);
    /* Against the gradient (2 x, 20 y), of which a first step is the length of 1. */
    double slope = hypot(2 * s.begin[0], 20 * s.begin[1]);
    ck_assert_double_gt(slope, 1);
    ck_assert_double_eq_tol(s.asked[0], s.begin[0] - 2 * s.begin[0] / slope, 1e-12);
    ck_assert_double_eq_tol(s.asked[1], s.begin[1] - 20 * s.begin[1] / slope, 1e-12);
}
END_TEST

/* Its gradient points downhill, so that what should lower it does not. */
static int lie(void *user, double *value, double *g, const double *x, kmf_err *err)
{
    (void)user;
    (void)err;
    *value = x[0] * x[0];
    g[0] = -2 * x[0];
    return 0;
}

START_TEST(lbfgs_stays_where_no_step_leads_down)
{
    double x[] = {3};
    const kmf_lbfgs_options opts = {.pairs = 3, .iterations = 100, .tolerance = 1e-9};
    ck_assert_int_eq(kmf_lbfgs(x, 1, lie, NULL, &opts, NULL), 0);
    ck_assert_double_eq(x[0], 3);
}
END_TEST

START_TEST(lbfgs_refuses_a_beginning_that_is_not_finite)
{
    double x[] = {1};
    kmf_err err = {0};
    const kmf_lbfgs_options opts = {.pairs = 2, .iterations = 3, .tolerance = 1};
    ck_assert_int_eq(kmf_lbfgs(x, 1, endless, NULL, &opts, &err), KMF_ENUMERIC);
}
END_TEST

int main(void)
{
    TCase *tc = untimed_case();
    tcase_add_test(tc, lbfgs_finds_the_end_of_a_curved_valley);
    tcase_add_test(tc, lbfgs_goes_where_the_inverse_hessian_written_down_leads);
    tcase_add_test(
        tc, lbfgs_takes_steps_that_lower_the_value_and_leave_a_tenth_of_the_slope_behind);
    tcase_add_test(tc, lbfgs_comes_back_from_where_there_is_no_number);
    tcase_add_test(tc, lbfgs_that_finds_no_step_goes_straight_downhill);
    tcase_add_test(tc, lbfgs_stays_where_no_step_leads_down);
    tcase_add_test(tc, lbfgs_refuses_a_beginning_that_is_not_finite);
    return run_case("lbfgs", tc);
}
