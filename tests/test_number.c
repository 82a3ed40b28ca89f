/* SPDX-License-Identifier: MIT */
/* Our numbers from text against strtof's, bit for bit. */
#include "base/fmt.h"
#include "base/number.h"
#include "base/rng.h"
#include "checked.h"
#include "run.h"

#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_RANDOM = CHECKED ? 100000 : 1000000 };

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float random_float(kmf_rng *rng)
{
    float value;
    do {
        uint32_t bits = (uint32_t)kmf_rng_next(rng);
        memcpy(&value, &bits, sizeof value);
    } while (!isfinite(value));
    return value;
}

/* An assertion that holds is reported to libcheck as well: too slow for millions of them. */
static void check_number(const char *text)
{
    float got = 0;
    float want = strtof(text, NULL);
    const char *end = text + strlen(text);
    if (kmf_read_float(text, end, &got) != end)
        ck_abort_msg("%s is not read", text);
    if (bits_of(got) != bits_of(want))
        ck_abort_msg("%s: got %a, strtof says %a", text, (double)got, (double)want);
}

START_TEST(floats_come_back_from_nine_digits)
{
    kmf_rng rng = kmf_rng_stream(1, 0);
    char text[KMF_FLOAT_TEXT + 1];
    for (int i = 0; i < N_RANDOM; i++) {
        float got;
        float value = i % 2 ? random_float(&rng) : (float)(kmf_rng_unit(&rng) * 2 - 1);
        size_t n = kmf_format_float9(text, value);
        text[n] = '\0';
        if (kmf_read_float(text, text + n, &got) != text + n || bits_of(got) != bits_of(value))
            ck_abort_msg("%s does not give %a back", text, (double)value);
    }
}
END_TEST

START_TEST(any_number_of_digits_is_read_as_by_strtof)
{
    kmf_rng rng = kmf_rng_stream(2, 0);
    char text[160];
    for (int i = 0; i < N_RANDOM; i++) {
        int digits = (int)(kmf_rng_next(&rng) % 40);
        snprintf(text, sizeof text, i % 2 ? "%.*e" : "%.*g", digits,
                 (double)random_float(&rng));
        check_number(text);
        snprintf(text, sizeof text, "%+.*f", digits, kmf_rng_unit(&rng) * 200 - 100);
        check_number(text);
    }
}
END_TEST

/*
 * The middle of two floats, and what lies just above and below it: 24 bits and a half have at most
 * 26 digits as numbers from 2^-1 on, so %.30e gives them whole.
 */
START_TEST(middles_between_floats_are_rounded_once)
{
    kmf_rng rng = kmf_rng_stream(3, 0);
    char text[160];
    for (int i = 0; i < N_RANDOM / 4; i++) {
        float value = (float)(kmf_rng_unit(&rng) + 0.5);
        double middle = ((double)value + (double)nextafterf(value, 2)) / 2;
        for (int digits = 6; digits <= 18; digits += 3) {
            snprintf(text, sizeof text, "%.*e", digits, middle);
            check_number(text);
        }
        snprintf(text, sizeof text, "%.25f", middle);
        check_number(text);
        text[strlen(text) - 1] = '1'; /* a little above */
        check_number(text);
        snprintf(text, sizeof text, "%.25f", nextafter(middle, 0));
        check_number(text);
    }
    check_number("16777217");         /* 2^24 + 1: to even, down */
    check_number("16777219");         /* 2^24 + 3: to even, up   */
    check_number("9007199254740993"); /* 2^53 + 1 */
    check_number("18446744073709551615");
    check_number("36893488147419103231");
}
END_TEST

START_TEST(spellings_of_a_number_are_read)
{
    static const char *const good[] = {
        "0",         "-0",      "+0",     "00012",
        "1.",        ".5",      "-.5e1",  "1e5",
        "1E+5",      "1e-5",    "1e-50",  "1e50",
        "-1e999",    "1e-999",  "0e999",  "1e22",
        "1e23",      "1e-22",   "1e-23",  "inf",
        "-Infinity", "+INF",    "nan",    "1e000001",
        "0.1e+010",  "3.4e38",  "3.5e38", "1.17549435e-38",
        "1e-45",     "0.7e-45", "4e-40",  "1e99999999999999999999"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        check_number(good[i]);
}
END_TEST

START_TEST(what_is_no_number_is_refused)
{
    static const char *const bad[] = {"",     "-",    "+",     ".",       "-.",       "e5",
                                      "1e",   "1e+",  "1e-",   "--1",     "1-",       "1x",
                                      "x",    "0x10", "1,5",   "1.2.3",   "1e5.0",    "na",
                                      "nano", "infi", "1_000", "1e5e5",   "\xff",     "1\x01",
                                      "+-1",  "1+1",  "-x",    "infinit", "infinityy"};
    float value;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!kmf_read_float(bad[i], bad[i] + strlen(bad[i]), &value), "'%s'", bad[i]);
    static const char with_nul[] = "1\0";
    ck_assert_ptr_null(kmf_read_float(with_nul, with_nul + 2, &value));
}
END_TEST

START_TEST(a_number_ends_at_a_blank_or_at_the_end)
{
    static const char *const after[] = {" ", "\t", "\n", "\r", "", " 7"};
    char text[16];
    float value;
    for (size_t i = 0; i < sizeof after / sizeof after[0]; i++) {
        snprintf(text, sizeof text, "2.5%s", after[i]);
        ck_assert_ptr_eq(kmf_read_float(text, text + strlen(text), &value), text + 3);
        ck_assert(value == 2.5f);
        snprintf(text, sizeof text, "nan%s", after[i]);
        ck_assert_ptr_eq(kmf_read_float(text, text + strlen(text), &value), text + 3);
        ck_assert(isnan(value));
    }
    static const char cut[] = "1234";
    ck_assert_ptr_eq(kmf_read_float(cut, cut + 2, &value), cut + 2);
    ck_assert(value == 12);
}
END_TEST

/* Of the end alone is known where it is: no byte behind it is looked at. */
START_TEST(nothing_behind_the_end_is_read)
{
    static const char *const words[] = {"-",   "1",    "1.", "1.5", "1e",
                                        "1e-", "1e-5", "na", "nan"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        float value;
        size_t n = strlen(words[i]);
        char *exact = malloc(n); /* a sanitizer sees a read past it */
        ck_assert_ptr_nonnull(exact);
        memcpy(exact, words[i], n);
        bool number = strchr("5n.1", words[i][n - 1]) != NULL;
        ck_assert((kmf_read_float(exact, exact + n, &value) != NULL) == number);
        free(exact);
    }
}
END_TEST

START_TEST(a_number_of_more_than_127_bytes_is_refused)
{
    char text[300];
    float value;
    for (int zero = 0; zero < 3; zero++) {
        memset(text, zero ? '0' : '1', sizeof text);
        memcpy(text, zero == 2 ? "1e" : "1.", 2);
        ck_assert_ptr_eq(kmf_read_float(text, text + 127, &value), text + 127);
        ck_assert_ptr_null(kmf_read_float(text, text + 128, &value));
        ck_assert_ptr_null(kmf_read_float(text, text + 300, &value));
    }
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_test(tcase, floats_come_back_from_nine_digits);
    tcase_add_test(tcase, any_number_of_digits_is_read_as_by_strtof);
    tcase_add_test(tcase, middles_between_floats_are_rounded_once);
    tcase_add_test(tcase, spellings_of_a_number_are_read);
    tcase_add_test(tcase, what_is_no_number_is_refused);
    tcase_add_test(tcase, a_number_ends_at_a_blank_or_at_the_end);
    tcase_add_test(tcase, nothing_behind_the_end_is_read);
    tcase_add_test(tcase, a_number_of_more_than_127_bytes_is_refused);
    return run_case("number", tcase);
}
