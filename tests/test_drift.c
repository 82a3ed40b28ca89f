/* SPDX-License-Identifier: MIT */
/*
 * Second sources: the table by its definition, with contexts and the other strand written out as
 * letters; tables that leave no choice, followed by hand; Pearson's test on what is drawn.
 */
#include "learn/drift.h"

#include "checked.h"
#include "chisquare.h"
#include "run.h"

#include <stdbool.h>
#include <string.h>

enum { SEEDS = 200, TIMES = CHECKED ? 300000 : 3000000 };
#define CUT 0.9
#define ROUNDING 1e-12

static uint8_t letters[TIMES], before[TIMES];

static kmf_drift drift_of(double rate, uint64_t seed)
{
    kmf_drift drift;
    kmf_rng rng = kmf_rng_stream(61, seed);
    kmf_drift_draw(&drift, rate, &rng);
    return drift;
}

/* P(the middle letter of abc becomes x). */
static double chance(const kmf_drift *drift, size_t abc, size_t x)
{
    return drift->upto[abc][x] - (x > 0 ? drift->upto[abc][x - 1] : 0);
}

/* P(it becomes another one). */
static double leaves(const kmf_drift *drift, size_t abc)
{
    double sum = 0;
    for (size_t x = 0; x < 4; x++)
        sum += x != abc / 4 % 4 ? chance(drift, abc, x) : 0;
    return sum;
}

static double mean_leaving(const kmf_drift *drift)
{
    double sum = 0;
    for (size_t abc = 0; abc < 64; abc++)
        sum += leaves(drift, abc);
    return sum / 64;
}

static void draw_letters(size_t n, uint64_t seed)
{
    kmf_rng rng = kmf_rng_stream(67, seed);
    for (size_t i = 0; i < n; i++)
        before[i] = letters[i] = (uint8_t)kmf_rng_below(&rng, 4);
}

/* ---------------------------------------------------------------- tables ---------------- */

/* The other strand of three letters. */
static size_t turned(size_t abc)
{
    static const char forward[] = "ACGT", other[] = "TGCA";
    const char text[3] = {forward[abc / 16], forward[abc / 4 % 4], forward[abc % 4]};
    size_t result = 0;
    for (int i = 2; i >= 0; i--)
        result = 4 * result + (size_t)(strchr(other, text[i]) - other);
    return result;
}

START_TEST(every_context_has_a_distribution)
{
    static const double rates[] = {0, 1e-6, 0.1, 0.3, 0.5};
    double rate = rates[_i];
    size_t cut = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        kmf_drift drift = drift_of(rate, seed);
        for (size_t abc = 0; abc < 64; abc++) {
            for (size_t x = 0; x < 4; x++)
                quick_assert(chance(&drift, abc, x) >= 0);
            quick_assert(fabs(drift.upto[abc][3] - 1) <= ROUNDING);
            quick_assert(leaves(&drift, abc) <= CUT + ROUNDING);
            cut += leaves(&drift, abc) >= CUT - ROUNDING;
        }
        double mean = mean_leaving(&drift);
        ck_assert(mean >= 0 && mean <= rate + ROUNDING);
        ck_assert(mean > 0 || rate <= 0);
    }
    ck_assert(cut > 0 || rate <= 0.3);
    ck_assert(cut == 0 || rate > 0.1);
}
END_TEST

START_TEST(both_strands_change_alike)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        kmf_drift drift = drift_of(0.5, seed);
        for (size_t abc = 0; abc < 64; abc++)
            for (size_t x = 0; x < 4; x++) {
                double own = chance(&drift, abc, x);
                double other = chance(&drift, turned(abc), 3 - x);
                quick_assert_msg(fabs(own - other) <= ROUNDING, "%zu to %zu: %g and %g", abc, x,
                                 own, other);
            }
    }
}
END_TEST

/* r, then four weights for each context, in order, that is not the other strand of an earlier. */
START_TEST(the_table_is_its_definition)
{
    static const double rates[] = {0.01, 0.5};
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        double w[64][4], all = 0, rate = rates[seed % 2];
        bool known[64] = {false};
        kmf_drift drift = drift_of(rate, seed);
        kmf_rng rng = kmf_rng_stream(61, seed);
        double r = rate * kmf_rng_unit(&rng);
        for (size_t abc = 0; abc < 64; abc++) {
            for (size_t x = 0; x < 4 && !known[abc]; x++) {
                w[abc][x] = exp((double)kmf_rng_normal(&rng));
                w[turned(abc)][3 - x] = w[abc][x];
            }
            known[abc] = known[turned(abc)] = true;
            for (size_t x = 0; x < 4; x++)
                all += x != abc / 4 % 4 ? w[abc][x] : 0;
        }
        for (size_t abc = 0; abc < 64; abc++) {
            double sum = 0;
            for (size_t x = 0; x < 4; x++)
                sum += x != abc / 4 % 4 ? r * w[abc][x] / (all / 64) : 0;
            for (size_t x = 0; x < 4; x++) {
                double right = r * w[abc][x] / (all / 64) * fmin(1, CUT / sum);
                if (x == abc / 4 % 4)
                    right = 1 - fmin(sum, CUT);
                quick_assert(fabs(chance(&drift, abc, x) - right) <= ROUNDING);
            }
        }
    }
}
END_TEST

/* Where nothing is cut the mean over the contexts is r, uniform up to the rate. */
START_TEST(rates_are_uniform_up_to_the_greatest)
{
    enum { DRAWS = 4000, BINS = 20 };
    const double rate = 0.1;
    uint64_t seen[BINS] = {0};
    double expected[BINS];
    for (uint64_t seed = 0; seed < DRAWS; seed++) {
        kmf_drift drift = drift_of(rate, seed);
        kmf_rng rng = kmf_rng_stream(61, seed);
        double r = mean_leaving(&drift);
        quick_assert(fabs(r - rate * kmf_rng_unit(&rng)) <= ROUNDING);
        seen[(size_t)(r / rate * BINS)]++;
    }
    for (size_t i = 0; i < BINS; i++)
        expected[i] = (double)DRAWS / BINS;
    chi_square_test("rates", seen, expected, BINS);
}
END_TEST

/* Half of the 192 substitutions of a table are drawn, the others are theirs. */
START_TEST(weights_are_log_normal)
{
    double variance = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        kmf_drift drift = drift_of(0.1, seed);
        double sum = 0, squares = 0;
        for (size_t abc = 0; abc < 64; abc++)
            for (size_t x = 0; x < 4; x++) {
                double w = x != abc / 4 % 4 ? log(chance(&drift, abc, x)) : 0;
                sum += w;
                squares += w * w;
            }
        variance += (squares / 192 - sum / 192 * (sum / 192)) * 96 / 95 / SEEDS;
    }
    /* of 96 SEEDS numbers, 5 standard errors */
    ck_assert_msg(fabs(variance - 1) <= 5 * sqrt(2.0 / (96 * SEEDS)), "%g", variance);
}
END_TEST

/* ---------------------------------------------------------------- letters --------------- */

START_TEST(letters_change_as_often_as_the_table_says)
{
    static uint64_t seen[64][4];
    kmf_drift drift = drift_of(0.5, (uint64_t)_i);
    kmf_rng rng = kmf_rng_stream(71, (uint64_t)_i);
    draw_letters(TIMES, (uint64_t)_i);
    memset(seen, 0, sizeof seen);
    kmf_drift_apply(&drift, letters, TIMES, &rng);
    for (size_t i = 1; i + 1 < TIMES; i++)
        seen[before[i - 1] * 16 + before[i] * 4 + before[i + 1]][letters[i]]++;
    for (size_t abc = 0; abc < 64; abc++) {
        double expected[4], n = 0;
        for (size_t x = 0; x < 4; x++)
            n += (double)seen[abc][x];
        for (size_t x = 0; x < 4; x++)
            expected[x] = n * chance(&drift, abc, x);
        chi_square_test("a context", seen[abc], expected, 4);
    }
}
END_TEST

/* Each of three letters has one successor: what comes of the first must not be seen by the next. */
START_TEST(contexts_are_those_before_any_substitution)
{
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        size_t target[64], n = seed % 100, wrong = 0;
        kmf_drift drift;
        kmf_rng rng = kmf_rng_stream(73, seed);
        for (size_t abc = 0; abc < 64; abc++) {
            target[abc] = (size_t)kmf_rng_below(&rng, 4);
            for (size_t x = 0; x < 4; x++)
                drift.upto[abc][x] = x >= target[abc] ? 1 : 0;
        }
        draw_letters(n + 1, seed); /* the last one is not given */
        kmf_drift_apply(&drift, letters, n, &rng);
        for (size_t i = 0; i <= n; i++) {
            bool inner = i > 0 && i + 1 < n;
            size_t abc = inner ? before[i - 1] * 16u + before[i] * 4u + before[i + 1] : 0;
            wrong += letters[i] != (inner ? target[abc] : before[i]);
        }
        ck_assert_uint_eq(wrong, 0);
    }
}
END_TEST

START_TEST(ends_stay)
{
    kmf_drift drift = drift_of(0.5, 1);
    kmf_rng rng = kmf_rng_stream(79, 0);
    for (size_t abc = 0; abc < 64; abc++) /* no letter stays what it was */
        for (size_t x = 0; x < 4; x++)
            drift.upto[abc][x] = x >= (abc / 4 + 1) % 4 ? 1 : 0;
    for (size_t n = 0; n < 6; n++) {
        draw_letters(7, n);
        kmf_drift_apply(&drift, letters, n, &rng);
        for (size_t i = 0; i < 7; i++)
            ck_assert((letters[i] != before[i]) == (i > 0 && i + 1 < n));
    }
}
END_TEST

START_TEST(a_seed_gives_the_same_again)
{
    enum { N = 1000 };
    static uint8_t first[N];
    for (uint64_t seed = 0; seed < 3; seed++) {
        for (int again = 0; again < 2; again++) {
            kmf_drift drift = drift_of(0.5, 5);
            kmf_rng rng = kmf_rng_stream(83, seed);
            draw_letters(N, 0);
            kmf_drift_apply(&drift, letters, N, &rng);
            ck_assert(again == 0 || memcmp(letters, first, N) == 0);
            ck_assert(again == 1 || seed == 0 || memcmp(letters, first, N) != 0);
            memcpy(first, letters, N);
        }
    }
}
END_TEST

START_TEST(without_a_rate_nothing_changes)
{
    enum { N = 10000 };
    for (uint64_t seed = 0; seed < 20; seed++) {
        kmf_drift drift = drift_of(0, seed);
        kmf_rng rng = kmf_rng_stream(89, seed);
        draw_letters(N, seed);
        kmf_drift_apply(&drift, letters, N, &rng);
        ck_assert(memcmp(letters, before, N) == 0);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_loop_test(tcase, every_context_has_a_distribution, 0, 5);
    tcase_add_test(tcase, both_strands_change_alike);
    tcase_add_test(tcase, the_table_is_its_definition);
    tcase_add_test(tcase, rates_are_uniform_up_to_the_greatest);
    tcase_add_test(tcase, weights_are_log_normal);
    tcase_add_loop_test(tcase, letters_change_as_often_as_the_table_says, 0, 3);
    tcase_add_test(tcase, contexts_are_those_before_any_substitution);
    tcase_add_test(tcase, ends_stay);
    tcase_add_test(tcase, a_seed_gives_the_same_again);
    tcase_add_test(tcase, without_a_rate_nothing_changes);
    return run_case("drift", tcase);
}
