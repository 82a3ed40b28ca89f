/* SPDX-License-Identifier: MIT */
/* Sums of counted rows by products of bytes: against additions, in every bit, at every level. */
#include "levels.h"

#include "base/mem.h"
#include "base/rng.h"
#include "embed/bytetable.h"
#include "run.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

enum { MOST_ROWS = 6000, PIECES = 100 };

/* Counts of a piece: of most rows none, small ones, or one of up to so many bits. */
static void draw_counts(int32_t *counts, size_t n, int bits, kmf_rng *rng)
{
    for (size_t i = 0; i < n; i++)
        counts[i] = (int32_t)kmf_rng_below(rng, 6) % 4;
    for (size_t i = 0; i < 3; i++)
        counts[kmf_rng_below(rng, n)] = (int32_t)(((uint32_t)1 << bits) - 1 - i % 2);
}

/* By additions of whole rows, some at a time. */
static void add(double *sum, const kmf_rowtable *table, const int32_t *rows,
                const int32_t *counts, size_t n)
{
    int32_t some[KMF_ROWTABLE_ROWS], times[KMF_ROWTABLE_ROWS];
    size_t n_some = 0;
    for (size_t i = 0; i <= n; i++) {
        if (n_some == KMF_ROWTABLE_ROWS || i == n) {
            kmf_rowtable_add_times(sum, table, times, some, n_some);
            n_some = 0;
        }
        if (i < n && counts[i] > 0) {
            some[n_some] = rows[i];
            times[n_some++] = counts[i];
        }
    }
}

/* Every third row of the table is left out; two columns have their largest number in all rows. */
static const char *check_shape(size_t n_all, size_t dim, kmf_rng *rng)
{
    static int32_t rows[MOST_ROWS], counts[MOST_ROWS];
    size_t n = 0;
    float *values = kmf_malloc(n_all * dim, sizeof *values, NULL);
    double *right = kmf_calloc(PIECES * dim, sizeof *right, NULL);
    double *sums = kmf_calloc(PIECES * dim, sizeof *sums, NULL);
    kmf_rowtable table;
    kmf_bytetable bytes;
    kmf_digits digits;
    if (!values || !right || !sums)
        return "no memory";
    for (size_t i = 0; i < n_all * dim; i++)
        values[i] = i % dim == 0   ? 1.0f
                    : i % dim == 1 ? -0.99999994f
                                   : (float)kmf_rng_below(rng, 2000001) / 1e6f - 1.0f;
    for (size_t i = 0; i < n_all; i++)
        if (i % 3 != 1)
            rows[n++] = (int32_t)i;
    if (kmf_rowtable_make(&table, "table", values, NULL, n_all, dim, NULL) < 0 ||
        kmf_bytetable_make(&bytes, &table, rows, n, NULL) < 0)
        return "no memory";
    if (!bytes.kernel) {
        kmf_rowtable_free(&table);
        kmf_free(right);
        kmf_free(sums);
        return "no kernel";
    }
    if (kmf_digits_new(&digits, bytes.words, NULL) < 0)
        return "no memory";
    bool filled = false;
    for (size_t p = 0; p < PIECES; p++) {
        draw_counts(counts, n, p % 3 == 0 ? 7 : p % 3 == 1 ? 12 : 18, rng);
        if (p == 5)
            memset(counts, 0, sizeof counts);
        add(right + p * dim, &table, rows, counts, n);
        if (!kmf_digits_fits(&digits)) {
            filled = true;
            kmf_digits_multiply(&digits, &bytes, sums);
        }
        kmf_digits_take(&digits, &bytes, counts, p);
        for (size_t i = 0; i < n; i++)
            if (counts[i] != 0)
                return "counts are left";
    }
    kmf_digits_multiply(&digits, &bytes, sums);
    kmf_digits_multiply(&digits, &bytes, sums); /* of nothing */
    const char *wrong = memcmp(sums, right, PIECES * dim * sizeof *sums) != 0
                            ? "a product is not the sum of its rows"
                        : !filled ? "there was room for all digits"
                                  : NULL;
    kmf_digits_free(&digits);
    kmf_bytetable_free(&bytes);
    kmf_rowtable_free(&table);
    kmf_free(right);
    kmf_free(sums);
    return wrong;
}

static const char *products(void)
{
    static const size_t shapes[][2] = {{2, 1},    {5, 16},   {64, 17},    {97, 100},
                                       {200, 33}, {1500, 7}, {3200, 128}, {9000, 20}};
    kmf_rng rng = kmf_rng_stream(11, 0);
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        const char *wrong = check_shape(shapes[s][0], shapes[s][1], &rng);
        if (wrong && strcmp(wrong, "no kernel") == 0)
            printf("none");
        if (wrong)
            return strcmp(wrong, "no kernel") == 0 ? NULL : wrong;
    }
    return NULL;
}

static const levels_part parts[] = {{"products", products}};

START_TEST(products_have_the_bits_of_additions)
{
    char said[256] = "";
    levels_run("products", levels_digits[_i], said);
    if (strcmp(said, "none") == 0)
        printf("skip: this processor has no products of bytes\n");
}
END_TEST

START_TEST(without_the_instructions_there_is_no_table)
{
    char said[256] = "";
    levels_run("products", "KMERFORMER_CPU=baseline", said);
    ck_assert_str_eq(said, "none");
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 2)
        return levels_child(parts, sizeof parts / sizeof parts[0], argv);
    TCase *tcase = untimed_case();
    tcase_add_loop_test(tcase, products_have_the_bits_of_additions, 0, N_DIGITS);
    tcase_add_test(tcase, without_the_instructions_there_is_no_table);
    return run_case("bytetable", tcase);
}
