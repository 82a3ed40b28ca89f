/* SPDX-License-Identifier: MIT */
/*
 * Numbers in a program that has set a locale with a decimal comma. Machines need not have one, so
 * the test brings its own: the file LC_NUMERIC as glibc's localedef makes it.
 */
#include "base/point.h"

#include "base/err.h"
#include "base/fmt.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/number.h"
#include "kmerformer.h"
#include "learn/checkpoint.h"
#include "files.h"
#include "run.h"

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Of the leak sanitizer, where there is one. */
extern void __lsan_disable(void) __attribute__((weak));
extern void __lsan_enable(void) __attribute__((weak));

/* Without a few bytes of LOCPATH that newlocale of glibc 2.36 never gives back. */
static locale_t new_comma(void)
{
    if (__lsan_disable)
        __lsan_disable();
    locale_t comma = newlocale(LC_NUMERIC_MASK, "comma", (locale_t)0);
    if (__lsan_enable)
        __lsan_enable();
    return comma;
}

/* Whether there is one then. */
static bool make_locale(void)
{
    const struct {
        uint32_t magic, n, offset[6];
        char point[2], thousands[2], groups[4];
        uint32_t wide_point, wide_thousands;
        char charset[8];
    } numeric = {.magic = 0x20031114,
                 .n = 6,
                 .offset = {32, 34, 36, 40, 44, 48},
                 .point = ",",
                 .thousands = ".",
                 .groups = {3, 3},
                 .wide_point = ',',
                 .wide_thousands = '.',
                 .charset = "UTF-8"};
    strcpy(dir, "/tmp/kmf_test_XXXXXX");
    return mkdtemp(dir) && mkdir(in_dir("comma"), 0700) == 0 &&
           kmf_file_save(in_dir("comma/LC_NUMERIC"), &numeric, sizeof numeric, NULL) == 0 &&
           setenv("LOCPATH", dir, 1) == 0 && setlocale(LC_NUMERIC, "comma") != NULL &&
           strcmp(localeconv()->decimal_point, ",") == 0; /* musl takes any name, for "C" */
}

static void remove_locale(void)
{
    unlink(in_dir("comma/LC_NUMERIC"));
    rmdir(in_dir("comma"));
    rmdir(dir);
}

static void speak_c(void)
{
    ck_assert_ptr_nonnull(setlocale(LC_NUMERIC, "C"));
}

static void speak_comma(void)
{
    char text[8];
    ck_assert_ptr_nonnull(setlocale(LC_NUMERIC, "comma"));
    snprintf(text, sizeof text, "%.1f", 0.5);
    ck_assert_str_eq(text, "0,5");
}

/* ---------------------------------------------------------------- numbers --------------- */

START_TEST(numbers_have_a_point_and_the_locale_stays)
{
    char text[64];
    char *end;
    float value;
    speak_comma();
    ck_assert_int_eq(kmf_print(text, sizeof text, "%.2f %g", 1.25, 1e-3), 10);
    ck_assert_str_eq(text, "1.25 0.001");
    ck_assert(kmf_read_double("2.5e1x", &end) == 25 && *end == 'x');
    ck_assert(kmf_read_double("2,5", &end) == 2 && *end == ',');
    /* what only printf and strtof can: numbers far from 1 */
    static const struct {
        float value;
        const char *text;
    } far[] = {{0x1p-126f, "1.1754944e-38"}, {0x1.fffffep127f, "3.4028235e+38"}};
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        size_t n = kmf_format_float(text, far[i].value);
        ck_assert_msg(n == strlen(far[i].text) && memcmp(text, far[i].text, n) == 0, "%.*s",
                      (int)n, text);
        ck_assert_ptr_nonnull(kmf_read_float(far[i].text, far[i].text + n, &value));
        ck_assert(value == far[i].value);
    }
    kmf_err err = {0};
    kmf_fail(&err, KMF_EINVAL, "got %g", 0.5);
    ck_assert_str_eq(err.msg, "got 0.5");
    char *longer = kmf_strprintf(NULL, "%g", 0.25);
    ck_assert_str_eq(longer, "0.25");
    kmf_free(longer);
    snprintf(text, sizeof text, "%.1f", 0.5);
    ck_assert_str_eq(text, "0,5");
    speak_c();
}
END_TEST

START_TEST(a_locale_of_the_thread_alone_stays_too)
{
    char text[64];
    locale_t comma = new_comma();
    ck_assert(comma);
    locale_t before = uselocale(comma);
    kmf_print(text, sizeof text, "%.1f", 0.5);
    ck_assert_str_eq(text, "0.5");
    ck_assert(uselocale((locale_t)0) == comma);
    uselocale(before);
    freelocale(comma);
}
END_TEST

/* ---------------------------------------------------------------- files ----------------- */

static char *read_all(const char *name)
{
    size_t len;
    char *text = get(in_dir(name), &len);
    ck_assert_int_eq(unlink(in_dir(name)), 0);
    return text;
}

/* A file made in the one locale and in the other. */
static void compare(void (*make)(void), const char *name)
{
    speak_c();
    make();
    char *want = read_all(name);
    speak_comma();
    make();
    char *got = read_all(name);
    speak_c();
    ck_assert_str_eq(got, want);
    kmf_free(want);
    kmf_free(got);
}

static void make_text(void)
{
    kmf_err err = {0};
    kmf_out *out = kmf_out_open(in_dir("x.txt"), &err);
    ck_assert_ptr_nonnull(out);
    ck_assert_int_eq(kmf_out_print(out, &err, "%g %*g\n", 0.5, 2000, 0.25), 0);
    ck_assert_int_eq(kmf_out_finish(out, &err), 0);
    ck_assert_int_eq(kmf_out_publish(out, &err), 0);
    kmf_out_free(out);
}

static void make_plot(void)
{
    const kmf_picture picture = {.path = in_dir("x.svg"), .data_only = 1};
    ck_assert_int_eq(kmf_plot_positions(&picture, 8, 100.5, 6, 4, NULL), 0);
}

static void make_numbers(void)
{
    make_plot();
    ck_assert_int_eq(unlink(in_dir("x.gp")), 0);
}

static void make_script(void)
{
    make_plot();
    ck_assert_int_eq(unlink(in_dir("x.tsv")), 0);
}

static void make_setting(void)
{
    kmf_settings settings = {.n = 0};
    kmf_setting_add(&settings, "lr", "%.17g", 0.001);
    const char *value = settings.list[0].value;
    ck_assert_int_eq(kmf_file_save(in_dir("x.set"), value, strlen(value), NULL), 0);
}

static void make_json(void)
{
    kmf_err err = {0};
    static const char json[] = "{\"eps\":1e-12,\"p\":0.1}";
    json_t *object = kmf_json_parse(json, sizeof json - 1, "x", &err);
    ck_assert_msg(object != NULL, "%s", err.msg);
    char *text = kmf_json_text(object, JSON_COMPACT, &err);
    ck_assert_int_eq(kmf_file_save(in_dir("x.json"), text, strlen(text), NULL), 0);
    kmf_free(text);
    json_decref(object);
}

START_TEST(files_are_the_same_in_any_locale)
{
    compare(make_text, "x.txt");
    compare(make_numbers, "x.tsv");
    compare(make_script, "x.gp");
    compare(make_setting, "x.set");
    compare(make_json, "x.json");
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("point");
    if (make_locale()) {
        setlocale(LC_NUMERIC, "C");
        tcase_add_test(tc, numbers_have_a_point_and_the_locale_stays);
        tcase_add_test(tc, a_locale_of_the_thread_alone_stays_too);
        tcase_add_test(tc, files_are_the_same_in_any_locale);
    } else {
        puts("skip: this C library takes no locale with a decimal comma");
    }
    int failed = run_case("point", tc);
    remove_locale();
    return failed;
}
