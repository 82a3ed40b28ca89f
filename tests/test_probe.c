/* SPDX-License-Identifier: MIT */
/*
 * The probe: its gradient against differences, its minimum against scikit-learn's, L-BFGS on a
 * function whose minimum is known, files that come back as they went and files that lie.
 */
#include "base/io.h"
#include "base/mem.h"
#include "base/out.h"
#include "base/rng.h"
#include "eval/lbfgs.h"
#include "eval/logistic.h"
#include "eval/probe.h"
#include "files.h"
#include "model/safetensors.h"
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

/* ---------------------------------------------------------------- the probe -------------- */

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

static kmf_probe *train_probe(const data *d, kmf_pool *pool)
{
    const kmf_points train = {d->x, d->y, ROWS};
    const kmf_points fit = {d->x, d->y, ROWS / 2};
    const kmf_points dev = {d->x + (ROWS / 2) * DIM, d->y + ROWS / 2, ROWS / 2};
    kmf_probe_options opts;
    kmf_probe_options_default(&opts);
    return kmf_probe_train(&train, &fit, &dev, DIM, CLASSES, &opts, pool, NULL);
}

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

/* ---------------------------------------------------------------- files ------------------ */

static const char *path; /* of a file in the folder */

static size_t save_probe(kmf_probe *probe, unsigned char *bytes, size_t cap)
{
    const char *const labels[] = {"a", "with blank", "\xc3\xa9", "z"};
    const char *const pairs[] = {"note", "x"};
    const char *const bad[] = {"a", "b\tc", "d", "z"};
    kmf_err err = {0};
    ck_assert_int_eq(kmf_probe_describe(probe, bad, "{}", &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "label 'b?c': a control character in it");
    ck_assert_int_eq(kmf_probe_describe(probe, labels, "{\"model\": 1}", NULL), 0);
    const char *const own[] = {"l2", "77", "probe_scale", "column"};
    for (size_t i = 0; i < 4; i += 2)
        ck_assert_int_eq(kmf_probe_save(probe, path, own + i, 1, NULL), KMF_EINVAL);
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
    path = in_dir("probe");
    kmf_probe *probe = train_probe(&d, NULL);
    kmf_err err = {0};
    ck_assert_int_eq(kmf_probe_save(probe, path, NULL, 0, &err), KMF_EINVAL);
    probe->l2 = 1.0 / 3; /* which needs all of its digits */
    size_t n = save_probe(probe, bytes, sizeof bytes);
    kmf_probe *back = kmf_probe_load(path, NULL);
    ck_assert_ptr_nonnull(back);
    ck_assert_str_eq(kmf_probe_label(back, 1), "with blank");
    ck_assert_str_eq(kmf_probe_identity(back), "{\"model\": 1}");
    ck_assert_double_eq(kmf_probe_l2(back), kmf_probe_l2(probe));
    ck_assert_int_eq(kmf_probe_scaled_by(back), kmf_probe_scaled_by(probe));
    ck_assert_str_eq(kmf_probe_provenance(back), "{\"note\":\"x\"}");
    for (size_t i = 0; i < ROWS; i++) {
        ck_assert_int_eq(kmf_probe_predict(probe, p, d.x + i * DIM),
                         kmf_probe_predict(back, q, d.x + i * DIM));
        ck_assert_int_eq(memcmp(p, q, sizeof p), 0);
    }
    kmf_probe_free(back);
    kmf_probe_free(probe);
    /* cut anywhere, it is refused; a byte changed, it is refused or taken, and never more */
    for (size_t cut = 0; cut < n; cut += cut < 900 ? 1 : 13) {
        put(path, bytes, cut);
        ck_assert_ptr_null(kmf_probe_load(path, NULL));
    }
    for (size_t at = 0; at < n; at += 3) {
        bytes[at] ^= 0x15;
        put(path, bytes, n);
        kmf_probe_free(kmf_probe_load(path, NULL));
        bytes[at] ^= 0x15;
    }
    unlink(path);
}
END_TEST

/* What a file is written with. */
typedef struct written {
    const char *labels;
    size_t n_labels;
    const float *shares;
    size_t n_shares;
    const char *scale; /* NULL: none told */
    float weight;      /* the last one */
} written;

static const char *l2_text = "0.5";

/* A file whose header is right; NULL, or why it is no probe: in err. */
static kmf_probe *load_written(const written *w, kmf_err *err)
{
    static const float biases[CLASSES] = {1, 2};
    float weights[CLASSES * DIM] = {1, 2, 3};
    weights[CLASSES * DIM - 1] = w->weight;
    const char *const pairs[] = {"kmerformer.probe", "1",     "embedder", "{}", "l2", l2_text,
                                 "probe_scale",      w->scale};
    kmf_stored tensors[] = {
        {.name = "biases", .dtype = "F32", .shape = {CLASSES}, .rank = 1},
        {.name = "labels", .dtype = "U8", .shape = {w->n_labels}, .rank = 1},
        {.name = "shares", .dtype = "F32", .shape = {w->n_shares}, .rank = 1},
        {.name = "weights", .dtype = "F32", .shape = {CLASSES, DIM}, .rank = 2}};
    const void *const values[] = {biases, w->labels, w->shares, weights};
    kmf_out *out = kmf_out_open_plain(path, NULL);
    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(
        kmf_safetensors_write(out, tensors, values, 4, pairs, w->scale ? 4 : 3, NULL), 0);
    ck_assert_int_eq(kmf_out_finish(out, NULL), 0);
    ck_assert_int_eq(kmf_out_publish(out, NULL), 0);
    kmf_out_free(out);
    return kmf_probe_load(path, err);
}

START_TEST(a_file_of_other_numbers_than_a_probe_has_is_refused)
{
    static const char labels[] = "a\0b\0c\0d\0e"; /* with the last 0 of all strings */
    static const char bell[] = "a\0b\0\a\0d\0";
    static const float good[CLASSES] = {0.1f, 0.2f, 0.3f, 0.4f};
    static const float endless[CLASSES] = {0.1f, 0.2f, 0.3f, INFINITY};
    static const struct {
        written file;
        const char *says;
    } lies[] = {
        {{labels, 8, endless, 4, NULL, 0}, "a bias or share is not finite"},
        {{labels, 8, good, 4, NULL, NAN}, "a weight is not finite"},
        {{labels, 8, good, 3, NULL, 0},
         "weights, biases, shares and labels do not fit together"},
        {{labels, 10, good, 4, NULL, 0}, "5 labels for 4 classes"},
        {{labels, 6, good, 4, NULL, 0}, "3 labels for 4 classes"},
        {{labels, 7, good, 4, NULL, 0}, "3 labels for 4 classes"},
        {{labels, 9, good, 4, NULL, 0}, "4 labels for 4 classes"},
        {{bell, 8, good, 4, NULL, 0}, "a control character in a label"},
        {{labels, 8, good, 4, "auto", 0}, "its probe_scale is neither column nor common"}};
    static const char *const scales[] = {NULL, "column", "common"};
    path = in_dir("probe");
    for (size_t i = 0; i < 3; i++) {
        kmf_probe *probe = load_written(&(written){labels, 8, good, 4, scales[i], 4}, NULL);
        ck_assert_ptr_nonnull(probe);
        ck_assert_str_eq(kmf_probe_label(probe, 3), "d");
        ck_assert_double_eq((double)kmf_probe_weights(probe)[CLASSES * DIM - 1], 4);
        ck_assert_int_eq(kmf_probe_scaled_by(probe),
                         i == 2 ? KMF_PROBE_COMMON : KMF_PROBE_COLUMN);
        kmf_probe_free(probe);
    }
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        kmf_err err = {0};
        ck_assert_ptr_null(load_written(&lies[i].file, &err));
        ck_assert_int_eq(err.code, KMF_EMODEL);
        ck_assert_msg(strstr(err.msg, lies[i].says), "%s", err.msg);
    }
    static const char *const texts[] = {"0.5x", "0.5 ", "", "0", "-0.5", "inf", "nan"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        kmf_err err = {0};
        l2_text = texts[i];
        ck_assert_ptr_null(load_written(&(written){labels, 8, good, 4, NULL, 4}, &err));
        ck_assert_msg(strstr(err.msg, "its l2 is no number above 0"), "%s", err.msg);
    }
    l2_text = "0.5";
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
    path = in_dir("probe");
    kmf_probe *probe = train_probe(&d, NULL);
    ck_assert_int_eq(kmf_probe_describe(probe, labels, "{}", &err), 0);
    ck_assert_msg(kmf_probe_save(probe, path, pairs, 2, &err) == 0, "%s", err.msg);
    kmf_probe *back = kmf_probe_load(path, &err);
    ck_assert_msg(back != NULL, "%s", err.msg);
    ck_assert_str_eq(kmf_probe_label(back, 1), "\xff");
    char *bytes = get(path, &len);
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
    tcase_add_checked_fixture(tc, make_dir, remove_empty_dir);
    tcase_add_test(tc, lbfgs_finds_the_end_of_a_curved_valley);
    tcase_add_test(tc, lbfgs_goes_where_the_inverse_hessian_written_down_leads);
    tcase_add_test(
        tc, lbfgs_takes_steps_that_lower_the_value_and_leave_a_tenth_of_the_slope_behind);
    tcase_add_test(tc, lbfgs_that_finds_no_step_goes_straight_downhill);
    tcase_add_test(tc, lbfgs_stays_where_no_step_leads_down);
    tcase_add_test(tc, lbfgs_refuses_a_beginning_that_is_not_finite);
    tcase_add_test(tc, lbfgs_comes_back_from_where_there_is_no_number);
    tcase_add_test(tc, the_gradient_is_that_of_differences_and_of_any_number_of_threads);
    tcase_add_test(tc, a_loss_that_is_not_finite_leaves_nothing_behind);
    tcase_add_test(tc, the_minimum_is_that_of_scikit_learn);
    tcase_add_test(tc, l2_is_chosen_from_all_of_its_grid_and_the_largest_of_equals);
    tcase_add_test(tc, the_scale_is_chosen_that_tells_more_of_dev);
    tcase_add_test(tc, vectors_that_are_not_finite_are_an_error_of_numbers);
    tcase_add_test(tc, a_column_too_small_for_a_weight_is_an_error_that_names_it);
    tcase_add_test(tc, learning_says_which_probe_of_how_many_it_is_at);
    tcase_add_test(tc, columns_that_never_change_are_left_alone_at_any_scale);
    tcase_add_test(tc, rows_of_nan_teach_nothing_and_get_the_most_frequent_class);
    tcase_add_test(tc, threads_change_no_bit_of_a_probe);
    tcase_add_test(tc, a_file_brings_the_probe_back_and_lies_are_told);
    tcase_add_test(tc, a_file_of_other_numbers_than_a_probe_has_is_refused);
    tcase_add_test(tc, texts_that_are_not_utf8_do_not_lose_a_probe);
    tcase_add_test(tc, a_class_that_there_is_none_of_is_refused);
    tcase_add_test(tc, no_memory_is_an_error_wherever_it_runs_out);
    return run_case("probe", tc);
}
