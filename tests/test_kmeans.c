/* SPDX-License-Identifier: MIT */
/* k-means and nearest neighbours against naive twins, scales against their definitions. */
#include "base/mem.h"
#include "base/rng.h"
#include "eval/kmeans.h"
#include "eval/neighbours.h"
#include "eval/scaler.h"
#include "run.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { N = 330, DIM = 7, K = 4, RESTARTS = 5, QUERIES = 150 };

/* Coordinates are multiples of 1/16 below 64: products of float32 are exact, and so are ties. */
static void draw(float *x, size_t n, uint64_t seed)
{
    kmf_rng rng = kmf_rng_stream(seed, 0);
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < DIM; d++)
            x[i * DIM + d] = (float)((int)kmf_rng_below(&rng, 64) + (d == i % K ? 64 : 0)) / 16;
}

static double distance(const float *a, const double *b)
{
    double sum = 0;
    for (size_t d = 0; d < DIM; d++)
        sum += ((double)a[d] - b[d]) * ((double)a[d] - b[d]);
    return sum;
}

/* ---------------------------------------------------------------- k-means ---------------- */

static void naive_begin(double c[K][DIM], const float *x, kmf_rng *rng)
{
    double near[N];
    size_t row = (size_t)kmf_rng_below(rng, N);
    for (size_t k = 0; k < K; k++) {
        double total = 0;
        for (size_t i = 0; i < N && k > 0; i++) {
            near[i] = distance(x + i * DIM, c[0]);
            for (size_t j = 1; j < k; j++)
                near[i] = fmin(near[i], distance(x + i * DIM, c[j]));
            total += near[i];
        }
        if (k > 0) {
            double at = kmf_rng_unit(rng) * total;
            for (row = 0; at >= near[row]; row++)
                at -= near[row];
        }
        for (size_t d = 0; d < DIM; d++)
            c[k][d] = (double)x[row * DIM + d];
    }
}

static double naive_run(int32_t *cluster, const float *x, uint64_t seed, uint64_t r)
{
    double c[K][DIM];
    double inertia = 0;
    int changed = 1;
    kmf_rng rng = kmf_rng_stream(seed, r);
    naive_begin(c, x, &rng);
    memset(cluster, 0xff, N * sizeof *cluster);
    while (changed) {
        double sum[K][DIM] = {{0}};
        double count[K] = {0};
        changed = 0;
        for (size_t i = 0; i < N; i++) {
            int32_t best = 0;
            for (int32_t k = 1; k < K; k++)
                if (distance(x + i * DIM, c[k]) < distance(x + i * DIM, c[best]))
                    best = k;
            changed += cluster[i] != best;
            cluster[i] = best;
            count[best]++;
            for (size_t d = 0; d < DIM; d++)
                sum[best][d] += (double)x[i * DIM + d];
        }
        for (size_t k = 0; k < K && changed; k++)
            for (size_t d = 0; d < DIM && count[k] > 0; d++)
                c[k][d] = sum[k][d] / count[k];
    }
    for (size_t i = 0; i < N; i++)
        inertia += distance(x + i * DIM, c[cluster[i]]);
    return inertia;
}

START_TEST(kmeans_is_lloyd_from_kmeans_plus_plus_the_best_of_several)
{
    float x[N * DIM];
    int32_t got[N];
    int32_t want[N];
    int32_t one[N];
    double inertia;
    double best = HUGE_VAL;
    draw(x, N, 11);
    for (uint64_t r = 0; r < RESTARTS; r++) {
        double sum = naive_run(one, x, 9, r);
        if (sum < best) {
            best = sum;
            memcpy(want, one, sizeof want);
        }
    }
    ck_assert_int_eq(
        kmf_kmeans(got, &inertia, x, N, DIM, K, RESTARTS, 9, NULL, NULL, NULL, NULL), 0);
    ck_assert_int_eq(memcmp(got, want, sizeof got), 0);
    ck_assert_double_eq_tol(inertia, best, 1e-3);
    kmf_pool *pool = kmf_pool_new(3, NULL);
    ck_assert_int_eq(kmf_kmeans(one, &best, x, N, DIM, K, RESTARTS, 9, pool, NULL, NULL, NULL),
                     0);
    ck_assert_int_eq(memcmp(got, one, sizeof got), 0);
    ck_assert_int_eq(memcmp(&best, &inertia, sizeof best), 0);
    kmf_pool_free(pool);
}
END_TEST

static void count_rounds(void *user, uint64_t restart)
{
    (void)restart;
    ++*(int *)user;
}

/*
 * Along a line the borders of clusters move slowly, and all the more rows pass over them. In the
 * end each row is with the nearest of the clusters' means, but for roundings of squares up to 1.
 */
START_TEST(kmeans_goes_on_until_no_row_moves)
{
    enum { ROWS = 4096, CLUSTERS = 12 };
    static float x[ROWS];
    static int32_t cluster[ROWS];
    int most = 0;
    for (size_t i = 0; i < ROWS; i++)
        x[i] = (float)i / ROWS;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        double mean[CLUSTERS] = {0};
        double count[CLUSTERS] = {0};
        double inertia;
        int rounds = 0;
        ck_assert_int_eq(kmf_kmeans(cluster, &inertia, x, ROWS, 1, CLUSTERS, 1, seed, NULL,
                                    count_rounds, &rounds, NULL),
                         0);
        most = rounds > most ? rounds : most;
        for (size_t i = 0; i < ROWS; i++) {
            mean[cluster[i]] += (double)x[i];
            count[cluster[i]]++;
        }
        for (size_t c = 0; c < CLUSTERS; c++)
            mean[c] /= count[c];
        for (size_t i = 0; i < ROWS; i++)
            for (size_t c = 0; c < CLUSTERS; c++)
                ck_assert_double_le(pow((double)x[i] - mean[cluster[i]], 2),
                                    pow((double)x[i] - mean[c], 2) + 1e-6);
    }
    ck_assert_msg(most > 60, "%d rounds", most);
}
END_TEST

START_TEST(rows_that_are_all_the_same_are_clustered_too)
{
    float x[3 * DIM] = {0};
    int32_t got[3];
    double inertia;
    ck_assert_int_eq(kmf_kmeans(got, &inertia, x, 3, DIM, 3, 2, 1, NULL, NULL, NULL, NULL), 0);
    ck_assert(got[0] == 0 && got[1] == 0 && got[2] == 0);
    ck_assert_double_eq(inertia, 0);
}
END_TEST

/* As powers of two change no bits, but those of means among the very smallest numbers. */
START_TEST(clusters_do_not_depend_on_the_unit_of_the_numbers)
{
    static const int powers[] = {83, -83, 119, -145};
    float x[N * DIM];
    float other[N * DIM];
    int32_t want[N];
    int32_t got[N];
    double inertia;
    double other_inertia;
    draw(x, N, 11);
    ck_assert_int_eq(kmf_kmeans(want, &inertia, x, N, DIM, K, 2, 9, NULL, NULL, NULL, NULL), 0);
    for (size_t p = 0; p < sizeof powers / sizeof *powers; p++) {
        for (size_t i = 0; i < N * DIM; i++)
            other[i] = ldexpf(x[i], powers[p]);
        ck_assert_int_eq(
            kmf_kmeans(got, &other_inertia, other, N, DIM, K, 2, 9, NULL, NULL, NULL, NULL), 0);
        ck_assert_int_eq(memcmp(got, want, sizeof got), 0);
        ck_assert_double_eq_tol(ldexp(other_inertia, -2 * powers[p]), inertia,
                                (powers[p] < -126 ? 1e-2 : 1e-15) * inertia);
    }
}
END_TEST

/* ---------------------------------------------------------------- neighbours ------------- */

static int32_t naive_vote(const kmf_points *train, const float *q, size_t dim, size_t k,
                          int32_t otherwise)
{
    int32_t list[16];
    unsigned char used[N] = {0};
    size_t found = 0;
    size_t most = 0;
    if (isnan(q[0]))
        return otherwise;
    for (; found < k; found++) {
        size_t best = N;
        double least = HUGE_VAL;
        for (size_t i = 0; i < train->n; i++) {
            double sum = 0;
            for (size_t d = 0; d < dim; d++) {
                double away = (double)q[d] - (double)train->x[i * dim + d];
                sum += away * away;
            }
            if (!used[i] && sum < least) {
                least = sum;
                best = i;
            }
        }
        if (best == N)
            break;
        used[best] = 1;
        list[found] = train->y[best];
    }
    for (size_t i = 0; i < found; i++) {
        size_t count = 0;
        for (size_t j = 0; j < found; j++)
            count += list[j] == list[i];
        if (count > most) {
            most = count;
            otherwise = list[i];
        }
    }
    return otherwise;
}

/* Numbers as drawn, and such that many rows are equally near. */
START_TEST(neighbours_vote_and_the_nearest_breaks_ties)
{
    float x[N * DIM];
    float q[QUERIES * DIM];
    int32_t y[N];
    int32_t got[QUERIES];
    int32_t threaded[QUERIES];
    static const size_t some_k[] = {1, 2, 4, 5, 16};
    draw(x, N, 21);
    draw(q, QUERIES, 22);
    for (size_t i = 0; i < N * DIM && _i == 1; i++)
        x[i] = x[i] < 2 ? 0.0f : 1.0f;
    for (size_t i = 0; i < QUERIES * DIM && _i == 1; i++)
        q[i] = q[i] < 2 ? 0.0f : 1.0f;
    for (size_t i = 0; i < N; i++)
        y[i] = (int32_t)(i * 7 % 5);
    x[4 * DIM] = q[9 * DIM] = NAN;
    const kmf_points train = {x, y, N};
    kmf_pool *pool = kmf_pool_new(2, NULL);
    for (size_t j = 0; j < 5; j++) {
        size_t k = some_k[j];
        ck_assert_int_eq(
            kmf_neighbours_vote(got, &train, q, QUERIES, DIM, k, 3, NULL, NULL, NULL, NULL), 0);
        for (size_t i = 0; i < QUERIES; i++)
            ck_assert_int_eq(got[i], naive_vote(&train, q + i * DIM, DIM, k, 3));
        ck_assert_int_eq(kmf_neighbours_vote(threaded, &train, q, QUERIES, DIM, k, 3, pool,
                                             NULL, NULL, NULL),
                         0);
        ck_assert_int_eq(memcmp(got, threaded, sizeof got), 0);
    }
    kmf_pool_free(pool);
}
END_TEST

/* What sums of float32 lose: case by case, rows of train and behind them queries. */
enum { WIDE = 40 };
enum {
    FAR_AWAY,
    ONE_COLUMN,
    LARGE,
    SMALL,
    LARGEST,
    SMALLEST,
    ONE_ROW,
    ONE_QUERY,
    LAST_BITS,
    N_CASES
};

static void spoil(float *x, int how)
{
    static const float times[N_CASES] = {
        [LARGE] = 1e25f, [SMALL] = 1e-25f, [LARGEST] = 2e38f, [SMALLEST] = 1e-42f};
    for (size_t i = 0; i < (size_t)(N + QUERIES) * WIDE; i++) {
        size_t row = i / WIDE;
        if (how == FAR_AWAY)
            x[i] += 1e5f;
        if (how == ONE_COLUMN && i % WIDE == 0)
            x[i] = row % 2 ? 20000 : 90000;
        if (times[how] > 0)
            x[i] *= times[how];
        if ((how == ONE_ROW && row == 5) || (how == ONE_QUERY && row == N + 5))
            x[i] *= how == ONE_ROW ? 1e6f : 1e30f;
        if (how == LAST_BITS)
            x[i] = x[i] < 0 ? 1 : 1 + FLT_EPSILON;
    }
}

/* All then have in common what the mean owes to one row. */
static void standardise(float *x)
{
    kmf_scaler scaler;
    ck_assert_int_eq(kmf_scaler_init(&scaler, KMF_SCALE_STANDARD, x, N, WIDE, NULL), 0);
    kmf_scaler_apply(&scaler, x, x, N + QUERIES);
    kmf_scaler_free(&scaler);
}

START_TEST(neighbours_are_those_of_distances_in_double)
{
    static float x[(N + QUERIES) * WIDE];
    const float *q = x + N * WIDE;
    int32_t y[N];
    int32_t got[QUERIES];
    kmf_rng rng = kmf_rng_stream(25, 0);
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = (float)(2 * kmf_rng_unit(&rng) - 1);
    spoil(x, _i);
    if (_i == ONE_ROW)
        standardise(x);
    const kmf_points train = {x, y, N};
    for (size_t k = 1; k <= 5; k += 2) {
        for (size_t i = 0; i < N; i++) /* the row itself, or one of some classes */
            y[i] = (int32_t)(k == 1 ? i : i * 7 % 5);
        ck_assert_int_eq(
            kmf_neighbours_vote(got, &train, q, QUERIES, WIDE, k, 3, NULL, NULL, NULL, NULL),
            0);
        for (size_t i = 0; i < QUERIES; i++)
            ck_assert_int_eq(got[i], naive_vote(&train, q + i * WIDE, WIDE, k, 3));
    }
}
END_TEST

/* The first ones too, which come when a list has room for anything; some lists are never full. */
START_TEST(train_rows_without_a_vector_have_no_vote)
{
    enum { MISSING = 9, THERE = 11 };
    float x[(MISSING + THERE) * DIM];
    float q[QUERIES * DIM];
    int32_t y[MISSING + THERE];
    int32_t got[QUERIES];
    draw(x, MISSING + THERE, 23);
    draw(q, QUERIES, 24);
    for (size_t i = 0; i < MISSING + THERE; i++)
        y[i] = i < MISSING ? 4 : (int32_t)(i % 4);
    for (size_t i = 0; i < MISSING * DIM; i++)
        x[i] = NAN;
    const kmf_points train = {x, y, MISSING + THERE};
    const kmf_points there = {x + MISSING * DIM, y + MISSING, THERE};
    for (size_t k = 1; k <= 16; k++) {
        ck_assert_int_eq(
            kmf_neighbours_vote(got, &train, q, QUERIES, DIM, k, 3, NULL, NULL, NULL, NULL), 0);
        for (size_t i = 0; i < QUERIES; i++)
            ck_assert_int_eq(got[i], naive_vote(&there, q + i * DIM, DIM, k, 3));
    }
    const kmf_points none = {x, y, MISSING};
    ck_assert_int_eq(
        kmf_neighbours_vote(got, &none, q, QUERIES, DIM, 5, 3, NULL, NULL, NULL, NULL), 0);
    for (size_t i = 0; i < QUERIES; i++)
        ck_assert_int_eq(got[i], 3);
}
END_TEST

/* ---------------------------------------------------------------- scales ----------------- */

START_TEST(scales_are_what_they_say_up_to_a_shift)
{
    float x[N * DIM];
    float y[N * DIM];
    double mean[DIM] = {0};
    double deviation[DIM] = {0};
    draw(x, N, 31);
    for (size_t i = 0; i < N; i++) {
        x[i * DIM + 2] = 0.1f;  /* does not change */
        x[i * DIM + 3] += 4096; /* does, but by little */
    }
    x[5 * DIM] = NAN;
    for (size_t i = 0; i < N; i++)
        for (size_t d = 0; d < DIM && i != 5; d++)
            mean[d] += (double)x[i * DIM + d] / (N - 1);
    for (size_t i = 0; i < N; i++)
        for (size_t d = 0; d < DIM && i != 5; d++)
            deviation[d] += pow((double)x[i * DIM + d] - mean[d], 2) / (N - 1);
    for (int kind = 0; kind < KMF_SCALE_AUTO; kind++) {
        bool centred = kind == KMF_SCALE_STANDARD || kind == KMF_SCALE_CENTER_L2;
        kmf_scaler scaler;
        ck_assert_int_eq(kmf_scaler_init(&scaler, (kmf_scale)kind, x, N, DIM, NULL), 0);
        kmf_scaler_apply(&scaler, y, x, N);
        kmf_scaler_free(&scaler);
        ck_assert(isnan(y[5 * DIM]));
        for (size_t d = 0; d < DIM; d++) { /* what all have in common is away */
            double sum = 0;
            for (size_t i = 0; i < N; i++)
                sum += i == 5 ? 0 : (double)y[i * DIM + d];
            ck_assert_double_eq_tol(sum / (N - 1), 0, 1e-6);
        }
        for (size_t i = 0; i < N; i++) {
            if (i == 5)
                continue;
            for (size_t d = 0; d < DIM; d++) { /* against row 0, so that the shift is gone */
                double want[2];
                for (size_t j = 0; j < 2; j++) {
                    const float *row = j ? x : x + i * DIM;
                    double whole = 0;
                    for (size_t e = 0; e < DIM; e++)
                        whole += pow((double)row[e] - (centred ? mean[e] : 0), 2);
                    want[j] = (double)row[d] - (centred ? mean[d] : 0);
                    if (kind == KMF_SCALE_STANDARD)
                        want[j] /= d == 2 ? 1 : sqrt(deviation[d]);
                    else if (kind != KMF_SCALE_NONE)
                        want[j] /= sqrt(whole);
                }
                ck_assert_double_eq_tol((double)y[i * DIM + d] - (double)y[d],
                                        want[0] - want[1], 2e-6);
            }
        }
    }
}
END_TEST

/*
 * One row of many is away from the others by the last bit of a float32: divided by the deviation it
 * would be as far out as a row can be.
 */
START_TEST(a_column_that_changes_by_roundings_alone_is_not_blown_up)
{
    enum { ROWS = 5000 };
    static float x[2 * ROWS];
    static float y[2 * ROWS];
    double mean = 0;
    double square = 0;
    for (size_t i = 0; i < ROWS; i++) {
        x[2 * i] = i == 77 ? nextafterf(1.9f, 2) : 1.9f;
        x[2 * i + 1] = (float)(i % 2); /* m = s = 1/2 */
        mean += (double)x[2 * i] / ROWS;
    }
    for (size_t i = 0; i < ROWS; i++)
        square += pow((double)x[2 * i] - mean, 2) / ROWS;
    ck_assert_double_gt(square, 0);
    kmf_scaler scaler;
    ck_assert_int_eq(kmf_scaler_init(&scaler, KMF_SCALE_STANDARD, x, ROWS, 2, NULL), 0);
    kmf_scaler_apply(&scaler, y, x, ROWS);
    kmf_scaler_free(&scaler);
    for (size_t i = 0; i < ROWS; i++) {
        ck_assert_double_eq_tol((double)y[2 * i], 0, 1e-6);
        ck_assert_double_eq_tol((double)y[2 * i + 1], i % 2 ? 1 : -1, 1e-6);
    }
}
END_TEST

/* ---------------------------------------------------------------- memory ----------------- */

static int cluster_or_vote(int which, const kmf_points *rows, kmf_err *err)
{
    int32_t answers[N];
    double inertia;
    if (which == 0)
        return kmf_kmeans(answers, &inertia, rows->x, N, DIM, K, 2, 9, NULL, NULL, NULL, err);
    return kmf_neighbours_vote(answers, rows, rows->x, N, DIM, 3, 0, NULL, NULL, NULL, err);
}

START_TEST(no_memory_is_an_error_wherever_it_runs_out)
{
    float x[N * DIM];
    static const int32_t y[N];
    const kmf_points rows = {x, y, N};
    draw(x, N, 21);
    for (int which = 0; which < 2; which++) {
        int status = KMF_ENOMEM;
        for (size_t n = 1; status != 0; n++) {
            kmf_err err = {0};
            kmf_mem_fail_at(n);
            status = cluster_or_vote(which, &rows, &err);
            kmf_mem_fail_at(0);
            ck_assert_int_eq(err.code, status);
            ck_assert(status == KMF_ENOMEM || (status == 0 && n > 3));
        }
    }
}
END_TEST

int main(void)
{
    TCase *tc = untimed_case();
    tcase_add_test(tc, kmeans_is_lloyd_from_kmeans_plus_plus_the_best_of_several);
    tcase_add_test(tc, kmeans_goes_on_until_no_row_moves);
    tcase_add_test(tc, rows_that_are_all_the_same_are_clustered_too);
    tcase_add_test(tc, clusters_do_not_depend_on_the_unit_of_the_numbers);
    tcase_add_loop_test(tc, neighbours_vote_and_the_nearest_breaks_ties, 0, 2);
    tcase_add_loop_test(tc, neighbours_are_those_of_distances_in_double, 0, N_CASES);
    tcase_add_test(tc, train_rows_without_a_vector_have_no_vote);
    tcase_add_test(tc, scales_are_what_they_say_up_to_a_shift);
    tcase_add_test(tc, a_column_that_changes_by_roundings_alone_is_not_blown_up);
    tcase_add_test(tc, no_memory_is_an_error_wherever_it_runs_out);
    return run_case("kmeans", tc);
}
