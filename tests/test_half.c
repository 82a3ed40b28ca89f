/* SPDX-License-Identifier: MIT */
/*
 * Second sources: the value of a half by its definition with ldexp, and rounding by comparing
 * with the midpoints of all neighbouring halves, so that every case there is gets tried.
 */
#include "base/half.h"
#include "levels.h"
#include "run.h"

#include <check.h>
#include <math.h>
#include <string.h>

static double f16_by_definition(unsigned h)
{
    double sign = h & 0x8000 ? -1 : 1;
    int exponent = (int)(h >> 10 & 31);
    double fraction = (double)(h & 1023);
    if (exponent == 31)
        return fraction > 0 ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, -24);
    return sign * ldexp(1024 + fraction, exponent - 25);
}

static double bf16_by_definition(unsigned h)
{
    double sign = h & 0x8000 ? -1 : 1;
    int exponent = (int)(h >> 7 & 255);
    double fraction = (double)(h & 127);
    if (exponent == 255)
        return fraction > 0 ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, -133);
    return sign * ldexp(128 + fraction, exponent - 134);
}

START_TEST(every_f16_widens_to_its_definition_and_comes_back)
{
    for (unsigned h = 0; h < 65536; h++) {
        double want = f16_by_definition(h);
        float got = kmf_f16_to_f32((uint16_t)h);
        if (isnan(want)) {
            quick_assert(isnan(got));
            quick_assert(isnan(kmf_f16_to_f32(kmf_f16_from_f32(got))));
            continue;
        }
        quick_assert_msg((double)got == want, "%04x", h);
        quick_assert_msg(kmf_f16_from_f32(got) == h, "%04x: comes back otherwise", h);
    }
}
END_TEST

START_TEST(every_bf16_widens_to_its_definition_and_comes_back)
{
    for (unsigned h = 0; h < 65536; h++) {
        double want = bf16_by_definition(h);
        float got = kmf_bf16_to_f32((uint16_t)h);
        if (isnan(want)) {
            quick_assert(isnan(got));
            quick_assert(isnan(kmf_bf16_to_f32(kmf_bf16_from_f32(got))));
            continue;
        }
        quick_assert_msg((double)got == want, "%04x", h);
        quick_assert_msg(kmf_bf16_from_f32(got) == h, "%04x: comes back otherwise", h);
    }
}
END_TEST

/* Between the halves h and h + 1: below, at and above the middle, both signs. */
static void check_middle(unsigned h, double low, double high, uint16_t (*narrow)(float))
{
    float middle = (float)((low + high) / 2);
    unsigned even = h % 2 == 0 ? h : h + 1;
    quick_assert_msg((double)middle == (low + high) / 2, "the middle is a float");
    quick_assert_msg(narrow(middle) == even, "%04x", h);
    quick_assert_msg(narrow(nextafterf(middle, 0)) == h, "%04x", h);
    quick_assert_msg(narrow(nextafterf(middle, INFINITY)) == h + 1, "%04x", h);
    quick_assert_msg(narrow(-middle) == (even | 0x8000), "%04x", h);
    quick_assert_msg(narrow(-nextafterf(middle, 0)) == (h | 0x8000), "%04x", h);
}

START_TEST(f16_rounds_to_nearest_and_ties_to_even_between_all_neighbours)
{
    for (unsigned h = 0; h < 0x7bff; h++)
        check_middle(h, f16_by_definition(h), f16_by_definition(h + 1), kmf_f16_from_f32);
}
END_TEST

START_TEST(bf16_rounds_to_nearest_and_ties_to_even_between_all_neighbours)
{
    for (unsigned h = 0; h < 0x7f7f; h++)
        check_middle(h, bf16_by_definition(h), bf16_by_definition(h + 1), kmf_bf16_from_f32);
}
END_TEST

START_TEST(too_large_becomes_infinite_and_too_small_zero)
{
    ck_assert_uint_eq(kmf_f16_from_f32(65504.0f), 0x7bff);
    ck_assert_uint_eq(kmf_f16_from_f32(nextafterf(65520.0f, 0)), 0x7bff);
    ck_assert_uint_eq(kmf_f16_from_f32(65520.0f), 0x7c00);
    ck_assert_uint_eq(kmf_f16_from_f32(-1e30f), 0xfc00);
    ck_assert_uint_eq(kmf_f16_from_f32(INFINITY), 0x7c00);
    ck_assert_uint_eq(kmf_f16_from_f32(0x1p-25f), 0);
    ck_assert_uint_eq(kmf_f16_from_f32(-0x1p-26f), 0x8000);
    ck_assert_uint_eq(kmf_f16_from_f32(1e-45f), 0);
    ck_assert_uint_eq(kmf_bf16_from_f32(3.4028235e38f), 0x7f80);
    ck_assert_uint_eq(kmf_bf16_from_f32(-INFINITY), 0xff80);
}
END_TEST

START_TEST(a_nan_stays_a_nan_whatever_its_bits)
{
    static const uint32_t nans[] = {0x7f800001u, 0x7fc00000u, 0xffffffffu, 0xff800fffu};
    for (size_t i = 0; i < sizeof nans / sizeof nans[0]; i++) {
        float value;
        memcpy(&value, &nans[i], sizeof value);
        unsigned f16 = kmf_f16_from_f32(value);
        unsigned bf16 = kmf_bf16_from_f32(value);
        ck_assert((f16 & 0x7c00) == 0x7c00 && (f16 & 0x3ff) != 0);
        ck_assert((bf16 & 0x7f80) == 0x7f80 && (bf16 & 0x7f) != 0);
        ck_assert_uint_eq(f16 >> 15, nans[i] >> 31);
        ck_assert_uint_eq(bf16 >> 15, nans[i] >> 31);
    }
}
END_TEST

/* ---------------------------------------------------------------- many at a time --------- */

#define N_DRAWN 100003

/* Of any bits, and about the numbers where the ways part: those that one by one are well known. */
static const char *check_narrow(void)
{
    static const float parts[] = {0, 0x1p-25f, 0x1p-24f, 0x1p-14f, 1, 65504, 65520, 65536};
    static float values[N_DRAWN];
    static uint16_t halves[N_DRAWN];
    uint64_t state = 7;
    for (size_t i = 0; i < N_DRAWN; i++) {
        float near = parts[i / 2 % 8] * (1 + 0x1p-11f * levels_random(&state));
        uint32_t any = 0;
        for (int byte = 0; byte < 4; byte++)
            any = any << 8 | (uint32_t)((levels_random(&state) + 1) * 128);
        values[i] = i % 2 ? kmf_float_of(any) : near;
    }
    for (size_t n = 0; n < 70; n++) {
        halves[n] = 0xdead;
        kmf_f16_narrow(halves, values + n, n);
        for (size_t i = 0; i < n; i++)
            if (halves[i] != kmf_f16_from_f32(values[n + i]))
                return "few differ from one by one";
        if (halves[n] != 0xdead)
            return "one too many";
    }
    kmf_f16_narrow(halves, values, N_DRAWN);
    for (size_t i = 0; i < N_DRAWN; i++)
        if (halves[i] != kmf_f16_from_f32(values[i]))
            return "many differ from one by one";
    return NULL;
}

static const levels_part parts[] = {{"narrow", check_narrow}};

LEVELS_TEST(many_at_a_time_are_as_one_by_one, "narrow", levels_vectors[_i])

int main(int argc, char **argv)
{
    if (argc > 2)
        return levels_child(parts, sizeof parts / sizeof parts[0], argv);
    TCase *tc = untimed_case();
    tcase_add_test(tc, every_f16_widens_to_its_definition_and_comes_back);
    tcase_add_test(tc, every_bf16_widens_to_its_definition_and_comes_back);
    tcase_add_test(tc, f16_rounds_to_nearest_and_ties_to_even_between_all_neighbours);
    tcase_add_test(tc, bf16_rounds_to_nearest_and_ties_to_even_between_all_neighbours);
    tcase_add_test(tc, too_large_becomes_infinite_and_too_small_zero);
    tcase_add_test(tc, a_nan_stays_a_nan_whatever_its_bits);
    tcase_add_loop_test(tc, many_at_a_time_are_as_one_by_one, 0, N_VECTORS);
    return run_case("half", tc);
}
