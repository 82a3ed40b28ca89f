/* SPDX-License-Identifier: MIT */
/*
 * Pearson's test. Sums of (seen - expected)^2 / variance over n independent classes follow the
 * chi-square distribution, whose upper tail is taken from Wilson and Hilferty's approximation
 * (1931). The seeds of the tests are fixed: what passes once passes for ever.
 */
#ifndef KMF_TEST_CHISQUARE_H
#define KMF_TEST_CHISQUARE_H

#include <check.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

/* Exceeded once in 100,000 times. */
static inline double chi_square_limit(double freedom)
{
    double part = 2 / (9 * freedom);
    double root = 1 - part + 4.265 * sqrt(part);
    return freedom * root * root * root;
}

/* Fails unless the sum over that many degrees of freedom is a likely one. */
static inline void chi_square_passes(const char *of, double sum, double freedom)
{
    ck_assert_msg(freedom >= 1, "%s: nothing to test", of);
    ck_assert_msg(sum < chi_square_limit(freedom), "%s: chi-square %.1f with %.0f degrees", of,
                  sum, freedom);
}

/*
 * Draws from one distribution: n classes of which seen[i] were drawn and expected[i] are expected,
 * which have the same sum. Classes that are expected fewer than 8 times are taken as one; one
 * that is expected never must not be seen.
 */
static inline void chi_square_test(const char *of, const uint64_t *seen, const double *expected,
                                   size_t n)
{
    double sum = 0;
    double classes = 0;
    double few_seen = 0;
    double few_expected = 0;
    for (size_t i = 0; i < n; i++) {
        double off = (double)seen[i] - expected[i];
        if (expected[i] <= 0 && seen[i] > 0)
            ck_abort_msg("%s: class %zu cannot be, and was seen", of, i);
        if (expected[i] < 8) {
            few_seen += (double)seen[i];
            few_expected += expected[i];
            continue;
        }
        sum += off * off / expected[i];
        classes++;
    }
    if (few_expected >= 8) {
        sum += (few_seen - few_expected) * (few_seen - few_expected) / few_expected;
        classes++;
    }
    chi_square_passes(of, sum, classes - 1);
}

#endif
