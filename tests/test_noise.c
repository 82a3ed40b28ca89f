/* SPDX-License-Identifier: MIT */
/*
 * Second sources: the probabilities that the bins imply, summed up over all 2^64 draws; Pearson's
 * test on what is drawn.
 */
#include "learn/noise.h"

#include "base/mem.h"
#include "base/rng.h"
#include "chisquare.h"
#include "run.h"

#include <stdbool.h>
#include <string.h>

#define WORDS_MAX 5000

static double weights[WORDS_MAX];
static double implied[WORDS_MAX];

static double sum_of(const double *w, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += w[i];
    return sum;
}

/* How many of the 2^32 upper halves of a draw lead to a bin before bin i. */
static uint64_t halves_before(uint64_t i, uint64_t n)
{
    return ((i << 32) + n - 1) / n;
}

static void imply(const kmf_noise *noise)
{
    uint64_t n = noise->n;
    memset(implied, 0, sizeof implied);
    for (uint64_t i = 0; i < n; i++) {
        double bin = (double)(halves_before(i + 1, n) - halves_before(i, n)) * 0x1p-32;
        double own = noise->bins[i].below * 0x1p-32;
        quick_assert(noise->bins[i].other < n);
        implied[i] += bin * own;
        implied[noise->bins[i].other] += bin * (1 - own);
    }
}

static void check_table(const char *of, size_t n)
{
    kmf_noise noise;
    double sum = sum_of(weights, n);
    double worst = 0;
    ck_assert_int_eq(kmf_noise_make(&noise, weights, n, NULL), 0);
    ck_assert_uint_eq(noise.n, n);
    imply(&noise);
    for (size_t i = 0; i < n; i++) {
        worst = fmax(worst, fabs(implied[i] - weights[i] / sum));
        if (weights[i] <= 0 && implied[i] > 0)
            ck_abort_msg("%s: element %zu of weight 0 can be drawn", of, i);
    }
    ck_assert_msg(worst <= (double)n * 0x1p-32 + 1e-14, "%s: off by %g of %g", of, worst,
                  (double)n * 0x1p-32);
    kmf_noise_clear(&noise);
}

static void check_draws(const char *of, size_t n, size_t draws)
{
    static uint64_t seen[WORDS_MAX];
    static double expected[WORDS_MAX];
    kmf_noise noise;
    kmf_rng rng = kmf_rng_stream(5, n);
    double sum = sum_of(weights, n);
    memset(seen, 0, sizeof seen);
    ck_assert_int_eq(kmf_noise_make(&noise, weights, n, NULL), 0);
    for (size_t i = 0; i < draws; i++)
        seen[kmf_noise_draw(&noise, kmf_rng_next(&rng))]++;
    for (size_t i = 0; i < n; i++)
        expected[i] = (double)draws * weights[i] / sum;
    chi_square_test(of, seen, expected, n);
    kmf_noise_clear(&noise);
}

/* Counts as of k-mers: from one to many thousand, some never, to the power 3/4. */
static void skewed(size_t n, uint64_t seed, bool zeros)
{
    kmf_rng rng = kmf_rng_stream(seed, n);
    for (size_t i = 0; i < n; i++) {
        double count = floor(exp(11 * kmf_rng_unit(&rng)));
        weights[i] = zeros && kmf_rng_below(&rng, 4) == 0 ? 0 : pow(count, 0.75);
    }
    weights[n - 1] = 1; /* not all are 0 */
}

START_TEST(the_bins_imply_the_probabilities)
{
    static const size_t ns[] = {1, 2, 3, 7, 64, 1000, 4096, WORDS_MAX};
    for (size_t i = 0; i < sizeof ns / sizeof ns[0]; i++)
        for (uint64_t seed = 0; seed < 10; seed++) {
            skewed(ns[i], seed, false);
            check_table("skewed", ns[i]);
            skewed(ns[i], seed, true);
            check_table("with zeros", ns[i]);
        }
}
END_TEST

/* What rounding leaves over lies at the beginning: no element of weight 0 must take it. */
START_TEST(rounding_leaves_nothing_to_an_element_of_weight_zero)
{
    for (size_t n = 2; n <= 60; n++)
        for (uint64_t seed = 0; seed < 100; seed++) {
            skewed(n, seed, false);
            weights[0] = 0;
            check_table("nothing first", n);
        }
}
END_TEST

START_TEST(extreme_weights_imply_the_probabilities)
{
    for (size_t n = 1; n <= 300; n++) {
        for (size_t i = 0; i < n; i++)
            weights[i] = 1.0 / 3;
        check_table("all equal", n);
        for (size_t i = 0; i < n; i++)
            weights[i] = i == n / 2 ? 1e300 : 1e-300;
        check_table("one for all", n);
        for (size_t i = 0; i < n; i++)
            weights[i] = i == n / 3 ? 7 : 0;
        check_table("one alone", n);
        for (size_t i = 0; i < n; i++)
            weights[i] = pow(0.5, (double)i);
        check_table("halves", n);
    }
}
END_TEST

START_TEST(a_million_draws_follow_the_weights)
{
    skewed(4096, 1, false);
    check_draws("skewed", 4096, 1000000);
    skewed(64, 2, true);
    check_draws("with zeros", 64, 1000000);
    for (size_t i = 0; i < 1000; i++)
        weights[i] = 1;
    check_draws("all equal", 1000, 1000000);
}
END_TEST

START_TEST(of_one_element_that_is_drawn)
{
    kmf_noise noise;
    kmf_rng rng = kmf_rng_stream(1, 1);
    uint32_t others = 0;
    weights[0] = 0.1;
    ck_assert_int_eq(kmf_noise_make(&noise, weights, 1, NULL), 0);
    for (int i = 0; i < 100000; i++)
        others |= kmf_noise_draw(&noise, kmf_rng_next(&rng));
    others |= kmf_noise_draw(&noise, 0) | kmf_noise_draw(&noise, UINT64_MAX);
    ck_assert_uint_eq(others, 0);
    kmf_noise_clear(&noise);
    kmf_noise_clear(&noise);
}
END_TEST

START_TEST(the_ends_of_the_range_are_elements)
{
    for (size_t n = 1; n <= 4096; n = n * 2 + 1) {
        kmf_noise noise;
        skewed(n, 3, true);
        ck_assert_int_eq(kmf_noise_make(&noise, weights, n, NULL), 0);
        static const uint64_t ends[] = {0, UINT32_MAX, (uint64_t)UINT32_MAX << 32, UINT64_MAX};
        for (int i = 0; i < 4; i++) {
            uint32_t word = kmf_noise_draw(&noise, ends[i]);
            ck_assert_uint_lt(word, n);
            ck_assert(weights[word] > 0);
        }
        kmf_noise_clear(&noise);
    }
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    skewed(100, 4, true);
    for (size_t at = 1; at <= 3; at++) {
        kmf_err err = {0};
        kmf_noise noise;
        kmf_mem_fail_at(at);
        ck_assert_int_eq(kmf_noise_make(&noise, weights, 100, &err), KMF_ENOMEM);
        ck_assert_int_eq(err.code, KMF_ENOMEM);
        ck_assert_ptr_null(noise.bins);
    }
    kmf_mem_fail_at(0);
}
END_TEST

int main(void)
{
    TCase *c = untimed_case();
    tcase_add_test(c, the_bins_imply_the_probabilities);
    tcase_add_test(c, rounding_leaves_nothing_to_an_element_of_weight_zero);
    tcase_add_test(c, extreme_weights_imply_the_probabilities);
    tcase_add_test(c, a_million_draws_follow_the_weights);
    tcase_add_test(c, of_one_element_that_is_drawn);
    tcase_add_test(c, the_ends_of_the_range_are_elements);
    tcase_add_test(c, every_allocation_may_fail);
    return run_case("noise", c);
}
