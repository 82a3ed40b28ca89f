/* SPDX-License-Identifier: MIT */
/* Our "%.8g", "%.9g" and whole numbers against printf's. */
#include "base/fmt.h"
#include "base/rng.h"
#include "checked.h"
#include "run.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N_RANDOM = CHECKED ? 200000 : 2000000, TIE_STEP = CHECKED ? 211 : 41 };

/* An assertion that holds is reported to libcheck as well: too slow for millions of them. */
static void check_text(float value, char *got, size_t n, const char *want)
{
    if (n > KMF_FLOAT_TEXT)
        ck_abort_msg("%a: %zu bytes", (double)value, n);
    got[n] = '\0';
    if (strcmp(got, want) != 0)
        ck_abort_msg("%a: got %s, printf says %s", (double)value, got, want);
}

static void check_value(float value)
{
    char want[64];
    char got[64];
    snprintf(want, sizeof want, "%.8g", (double)value);
    check_text(value, got, kmf_format_float(got, value), want);
    snprintf(want, sizeof want, "%.9g", (double)value);
    check_text(value, got, kmf_format_float9(got, value), want);
}

START_TEST(random_bit_patterns_print_as_printf_does)
{
    kmf_rng rng = kmf_rng_stream(4, 0);
    for (int i = 0; i < N_RANDOM; i++) {
        uint32_t bits = (uint32_t)kmf_rng_next(&rng);
        float value;
        memcpy(&value, &bits, sizeof value);
        if (!isnan(value))
            check_value(value);
    }
}
END_TEST

START_TEST(usual_values_print_as_printf_does)
{
    kmf_rng rng = kmf_rng_stream(5, 0);
    for (int i = 0; i < N_RANDOM / 2; i++)
        check_value((float)(kmf_rng_unit(&rng) * 4 - 2));
    for (int a = 0; a <= 300; a++)
        for (int b = 1; b <= 300; b++)
            check_value((float)a / (float)b);
}
END_TEST

/* Numbers of one digit more that end in 5 are halves of the last one: the tie rule decides. */
START_TEST(ties_and_powers_of_ten_print_as_printf_does)
{
    for (int e = -45; e <= 38; e++) {
        float p = (float)pow(10, e);
        check_value(p);
        check_value(nextafterf(p, 0));
        check_value(nextafterf(p, INFINITY));
        check_value(-p);
    }
    for (uint32_t n = 10000000; n < 16777216; n += TIE_STEP)
        for (int shift = 1; shift < 20; shift++)
            check_value(ldexpf((float)n, -shift));
    check_value(0);
    check_value(-0.0f);
    check_value(INFINITY);
    check_value(-INFINITY);
}
END_TEST

START_TEST(nan_is_written_without_a_sign)
{
    char text[KMF_FLOAT_TEXT];
    ck_assert_uint_eq(kmf_format_float(text, copysignf(NAN, -1)), 3);
    ck_assert_int_eq(memcmp(text, "nan", 3), 0);
    ck_assert_uint_eq(kmf_format_float9(text, copysignf(NAN, -1)), 3);
    ck_assert_int_eq(memcmp(text, "nan", 3), 0);
}
END_TEST

START_TEST(whole_numbers_print_as_printf_does)
{
    char want[32];
    char got[KMF_UINT_TEXT + 1];
    for (uint64_t power = 1; power <= UINT64_MAX / 10; power *= 10)
        for (uint64_t i = 0; i < 3; i++) {
            got[kmf_format_uint(got, power - 1 + i)] = '\0';
            snprintf(want, sizeof want, "%llu", (unsigned long long)(power - 1 + i));
            ck_assert_str_eq(got, want);
        }
    got[kmf_format_uint(got, UINT64_MAX)] = '\0';
    ck_assert_str_eq(got, "18446744073709551615");
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_test(tcase, random_bit_patterns_print_as_printf_does);
    tcase_add_test(tcase, usual_values_print_as_printf_does);
    tcase_add_test(tcase, ties_and_powers_of_ten_print_as_printf_does);
    tcase_add_test(tcase, nan_is_written_without_a_sign);
    tcase_add_test(tcase, whole_numbers_print_as_printf_does);
    return run_case("fmt", tcase);
}
