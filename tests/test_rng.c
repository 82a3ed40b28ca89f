/* SPDX-License-Identifier: MIT */
/*
 * Second sources: the first numbers of SplitMix64 from seeds 1234567 and 0 as its authors'
 * program prints them; the stream equation and the sum of twelve written out again; moments and
 * counts of long draws, whose bounds are five standard deviations of the statistic.
 */
#include "base/rng.h"
#include "run.h"

#include <check.h>
#include <math.h>

START_TEST(the_generator_is_splitmix64)
{
    static const uint64_t from_1234567[] = {
        UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
        UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
        UINT64_C(16408922859458223821)};
    static const uint64_t from_0[] = {UINT64_C(0xe220a8397b1dcdaf),
                                      UINT64_C(0x6e789e6aa1b965f4),
                                      UINT64_C(0x06c45d188009454f)};
    kmf_rng rng = {1234567};
    for (size_t i = 0; i < 5; i++)
        ck_assert_uint_eq(kmf_rng_next(&rng), from_1234567[i]);
    rng = (kmf_rng){0};
    for (size_t i = 0; i < 3; i++)
        ck_assert_uint_eq(kmf_rng_next(&rng), from_0[i]);
}
END_TEST

/* mix(x) is what the generator gives from the state x - g. */
static uint64_t mix(uint64_t x)
{
    kmf_rng rng = {x - UINT64_C(0x9e3779b97f4a7c15)};
    return kmf_rng_next(&rng);
}

START_TEST(streams_start_where_the_header_says)
{
    const uint64_t g = UINT64_C(0x9e3779b97f4a7c15);
    for (uint64_t seed = 0; seed < 20; seed++)
        for (uint64_t s = 0; s < 20; s++) {
            kmf_rng rng = kmf_rng_stream(seed, s);
            uint64_t start = mix(mix(seed + g) + s * g);
            ck_assert_uint_eq(rng.state, start);
            ck_assert_uint_eq(kmf_rng_next(&rng), mix(start + g));
            ck_assert_uint_eq(kmf_rng_next(&rng), mix(start + 2 * g));
        }
}
END_TEST

START_TEST(skipping_equals_drawing)
{
    kmf_rng a = kmf_rng_stream(7, 3);
    kmf_rng b = a;
    for (int i = 0; i < 1000; i++)
        (void)kmf_rng_next(&a);
    kmf_rng_skip(&b, 1000);
    ck_assert_uint_eq(kmf_rng_next(&a), kmf_rng_next(&b));
}
END_TEST

START_TEST(below_reaches_every_number_equally)
{
    enum { N = 7, DRAWS = 700000 };
    uint64_t count[N] = {0};
    kmf_rng rng = kmf_rng_stream(1, 0);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t x = kmf_rng_below(&rng, N);
        quick_assert_msg(x < N, "number %d is not below %d", i, N);
        count[x]++;
    }
    double sd = sqrt(DRAWS * (1.0 / N) * (1 - 1.0 / N));
    for (int i = 0; i < N; i++)
        ck_assert_double_lt(fabs((double)count[i] - DRAWS / (double)N), 5 * sd);
    for (int i = 0; i < 100; i++) {
        ck_assert_uint_eq(kmf_rng_below(&rng, 1), 0);
        ck_assert_uint_lt(kmf_rng_below(&rng, UINT64_MAX), UINT64_MAX);
        ck_assert_uint_lt(kmf_rng_below(&rng, (UINT64_C(1) << 63) + 1),
                          (UINT64_C(1) << 63) + 1);
    }
}
END_TEST

START_TEST(below_takes_the_remainder_of_a_full_word)
{
    kmf_rng a = {1234567};
    kmf_rng b = {1234567};
    for (int i = 0; i < 100; i++)
        ck_assert_uint_eq(kmf_rng_below(&a, 1000), kmf_rng_next(&b) % 1000);
}
END_TEST

START_TEST(unit_is_the_upper_53_bits)
{
    kmf_rng a = {1234567};
    kmf_rng b = {1234567};
    double sum = 0;
    for (int i = 0; i < 100000; i++) {
        double x = kmf_rng_unit(&a);
        quick_assert_msg(x >= 0 && x < 1, "number %d: %.17g", i, x);
        quick_assert_msg(x == ldexp((double)(kmf_rng_next(&b) / 2048), -53), "number %d", i);
        sum += x;
    }
    ck_assert_double_lt(fabs(sum / 100000 - 0.5), 5 * sqrt(1.0 / 12 / 100000));
}
END_TEST

START_TEST(normal_is_the_centred_sum_of_twelve_uniforms)
{
    kmf_rng a = kmf_rng_stream(42, 9);
    kmf_rng b = a;
    for (int i = 0; i < 1000; i++) {
        double sum = 0;
        for (int word = 0; word < KMF_RNG_NORMAL_DRAWS; word++) {
            uint64_t x = kmf_rng_next(&b);
            for (int part = 0; part < 4; part++, x /= 65536)
                sum += (double)(x % 65536) - 32767.5;
        }
        ck_assert((double)kmf_rng_normal(&a) == sum / 65536);
    }
}
END_TEST

START_TEST(normal_has_the_moments_and_tails_promised)
{
    enum { N = 1000000 };
    double sum = 0;
    double squares = 0;
    double fourth = 0;
    int beyond2 = 0;
    kmf_rng rng = kmf_rng_stream(3, 1);
    for (int i = 0; i < N; i++) {
        double x = (double)kmf_rng_normal(&rng);
        quick_assert_msg(fabs(x) <= 6, "number %d: %.17g", i, x);
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
        beyond2 += fabs(x) > 2;
    }
    ck_assert_double_lt(fabs(sum / N), 5e-3);
    ck_assert_double_lt(fabs(squares / N - 1), 7e-3);
    ck_assert_double_lt(fabs(fourth / N - 2.9), 5e-2);
    ck_assert_double_lt(fabs(beyond2 / (double)N - 0.0455), 2e-3);
}
END_TEST

START_TEST(neighbouring_seeds_and_streams_share_no_numbers)
{
    kmf_rng a = kmf_rng_stream(1, 1);
    kmf_rng b = kmf_rng_stream(1, 2);
    kmf_rng c = kmf_rng_stream(2, 1);
    int equal = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t x = kmf_rng_next(&a);
        uint64_t y = kmf_rng_next(&b);
        uint64_t z = kmf_rng_next(&c);
        equal += x == y || y == z || x == z;
    }
    ck_assert_int_eq(equal, 0);
}
END_TEST

int main(void)
{
    TCase *tc = untimed_case();
    tcase_add_test(tc, the_generator_is_splitmix64);
    tcase_add_test(tc, streams_start_where_the_header_says);
    tcase_add_test(tc, skipping_equals_drawing);
    tcase_add_test(tc, below_reaches_every_number_equally);
    tcase_add_test(tc, below_takes_the_remainder_of_a_full_word);
    tcase_add_test(tc, unit_is_the_upper_53_bits);
    tcase_add_test(tc, normal_is_the_centred_sum_of_twelve_uniforms);
    tcase_add_test(tc, normal_has_the_moments_and_tails_promised);
    tcase_add_test(tc, neighbouring_seeds_and_streams_share_no_numbers);
    return run_case("rng", tc);
}
