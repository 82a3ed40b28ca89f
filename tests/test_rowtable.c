/* SPDX-License-Identifier: MIT */
/*
 * Sums of rows of a table: against sums of the numbers themselves, which are multiples of 1/1024,
 * so that these are exact in doubles; in every bit, at every level.
 */
#include "levels.h"

#include "base/mem.h"
#include "base/rng.h"
#include "embed/rowtable.h"
#include "run.h"

#include <check.h>
#include <string.h>

enum { LISTS = 9, MOST_ROWS = 1400 };

/* Numbers from -1 on, below 1; of two columns the largest that there are. */
static float *draw_values(size_t n, kmf_rng *rng)
{
    float *values = kmf_malloc(n, sizeof *values, NULL);
    for (size_t i = 0; values && i < n; i++)
        values[i] = (float)kmf_rng_below(rng, 2048) / 1024 - 1;
    return values;
}

static const char *check_lists(const kmf_rowtable *table, const float *values, kmf_rng *rng)
{
    static const size_t lengths[LISTS] = {3, 0, 127, 128, 1, 300, 0, 600, 63};
    static int32_t rows[MOST_ROWS];
    size_t off[LISTS + 1] = {5}; /* a list need not begin at the first row */
    size_t dim = table->dim;
    double *sums = kmf_calloc(LISTS * dim, sizeof *sums, NULL);
    double *right = kmf_calloc(LISTS * dim, sizeof *right, NULL);
    double *numbers = kmf_calloc(dim, sizeof *numbers, NULL);
    if (!sums || !right || !numbers)
        return "no memory";
    for (size_t i = 0; i < LISTS; i++) {
        off[i + 1] = off[i] + lengths[i];
        for (size_t at = off[i]; at < off[i + 1]; at++) {
            rows[at] = (int32_t)kmf_rng_below(rng, table->n);
            for (size_t d = 0; d < dim; d++)
                right[i * dim + d] += 2 * (double)values[(size_t)rows[at] * dim + d];
        }
    }
    kmf_rowtable_add(sums, table, rows, off, LISTS);
    kmf_rowtable_add(sums, table, rows, off, LISTS); /* to what is there */
    const char *wrong = NULL;
    for (size_t i = 0; i < LISTS; i++) {
        kmf_rowtable_scale(numbers, sums + i * dim, table);
        for (size_t d = 0; d < dim; d++)
            if (numbers[d] != right[i * dim + d])
                wrong = "the sum of a list is not that of its rows";
    }
    kmf_free(numbers);
    kmf_free(sums);
    kmf_free(right);
    return wrong;
}

/* Up to 300 times a row: more than are added at once. */
static const char *check_times(const kmf_rowtable *table, const float *values, kmf_rng *rng)
{
    int32_t rows[KMF_ROWTABLE_ROWS];
    int32_t times[KMF_ROWTABLE_ROWS];
    double *sum = kmf_calloc(table->dim, sizeof *sum, NULL);
    double *right = kmf_calloc(table->dim, sizeof *right, NULL);
    double *numbers = kmf_calloc(table->dim, sizeof *numbers, NULL);
    if (!sum || !right || !numbers)
        return "no memory";
    for (size_t i = 0; i < KMF_ROWTABLE_ROWS; i++) {
        rows[i] = (int32_t)kmf_rng_below(rng, table->n);
        times[i] = 1 + (int32_t)kmf_rng_below(rng, i % 8 == 0 ? 300 : 3);
        for (size_t d = 0; d < table->dim; d++)
            right[d] += times[i] * (double)values[(size_t)rows[i] * table->dim + d];
    }
    kmf_rowtable_add_times(sum, table, times, rows, KMF_ROWTABLE_ROWS);
    kmf_rowtable_scale(numbers, sum, table);
    bool same = memcmp(numbers, right, table->dim * sizeof *numbers) == 0;
    kmf_free(numbers);
    kmf_free(sum);
    kmf_free(right);
    return same ? NULL : "the sum of rows is not as often as told";
}

/* Few rows and many, which lie in another order, of whole lines and of parts of one. */
static const char *sums(void)
{
    static const size_t shapes[][2] = {{1, 1},      {3, 16},      {100, 17},   {300, 100},
                                       {4096, 64},  {64, 300},    {20000, 16}, {20000, 5},
                                       {17000, 33}, {17000, 100}, {17000, 300}};
    kmf_rng rng = kmf_rng_stream(12, 0);
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        size_t n = shapes[s][0];
        size_t dim = shapes[s][1];
        float *values = draw_values(n * dim, &rng);
        float *copy = kmf_malloc(n * dim, sizeof *copy, NULL);
        kmf_rowtable table;
        if (!values || !copy)
            return "no memory";
        memcpy(copy, values, n * dim * sizeof *copy);
        if (kmf_rowtable_make(&table, "table", values, NULL, n, dim, NULL) < 0)
            return "there is no table";
        const char *wrong = check_lists(&table, copy, &rng);
        if (!wrong)
            wrong = check_times(&table, copy, &rng);
        kmf_rowtable_free(&table);
        kmf_free(copy);
        if (wrong)
            return wrong;
    }
    return NULL;
}

/* Numbers that almost are 2^24 units, all with one sign, as many of them as fit a sum and more. */
static const char *largest(void)
{
    enum { DIM = 16, LONGEST = 600 };
    static const int32_t rows[LONGEST]; /* all the same */
    for (int sign = -1; sign <= 1; sign += 2) {
        const char *wrong = NULL;
        double x = sign * 1023.0 / 1024;
        float *values = kmf_malloc(DIM, sizeof *values, NULL);
        kmf_rowtable table;
        for (size_t d = 0; values && d < DIM; d++)
            values[d] = (float)x;
        if (!values || kmf_rowtable_make(&table, "table", values, NULL, 1, DIM, NULL) < 0)
            return "there is no table";
        for (size_t n = 0; n <= LONGEST; n++) {
            double sum[DIM] = {0};
            double numbers[DIM];
            kmf_rowtable_add(sum, &table, rows, (size_t[]){0, n}, 1);
            kmf_rowtable_scale(numbers, sum, &table);
            for (size_t d = 0; d < DIM; d++)
                if (numbers[d] != (double)n * x)
                    wrong = "a sum of the largest numbers is another";
        }
        kmf_rowtable_free(&table);
        if (wrong)
            return wrong;
    }
    return NULL;
}

static const levels_part parts[] = {{"sums", sums}, {"largest", largest}};

/* Of one column some lie so near 0 that a part of them is lost: no harm beside so many. */
START_TEST(numbers_near_0_among_many_are_taken)
{
    enum { MANY = 20000 };
    kmf_rng rng = kmf_rng_stream(13, 0);
    kmf_rowtable table;
    kmf_err err = {0};
    float *values = kmf_malloc(MANY, sizeof *values, NULL);
    ck_assert_ptr_nonnull(values);
    for (size_t i = 0; i < MANY; i++)
        values[i] = (float)(2 * kmf_rng_unit(&rng) - 1);
    values[100] = 1e-6f; /* 16.8 units */
    ck_assert_msg(kmf_rowtable_make(&table, "t", values, NULL, MANY, 1, &err) == 0, "%s",
                  err.msg);
    kmf_rowtable_free(&table);
}
END_TEST

/* One that dwarfs all others is not. */
START_TEST(numbers_that_one_dwarfs_are_refused)
{
    kmf_rowtable table;
    kmf_err err = {0};
    float *values = kmf_malloc(1000, sizeof *values, NULL);
    ck_assert_ptr_nonnull(values);
    for (size_t i = 0; i < 1000; i++)
        values[i] = i == 7 ? 1e6f : 1.3f;
    ck_assert_int_eq(kmf_rowtable_make(&table, "t", values, NULL, 1000, 1, &err), KMF_EMODEL);
    ck_assert_msg(strncmp(err.msg, "t: the numbers of vector 1 are too small", 40) == 0, "%s",
                  err.msg);
}
END_TEST

/* Rows of zeros lose nothing, nor do they change what the usual length is. */
START_TEST(rows_of_zeros_are_taken)
{
    static const size_t starts[] = {0, 999};
    kmf_rowtable table;
    for (int i = 0; i < 3; i++) {
        double sum = 0;
        double number;
        float *values = kmf_calloc(1000, sizeof *values, NULL);
        ck_assert_ptr_nonnull(values);
        for (size_t j = 0; i > 0 && j < 1000; j++)
            values[j] = j == starts[i - 1] ? 0 : j == 500 ? 20.1f * 0x1p-23f : 1;
        ck_assert_int_eq(kmf_rowtable_make(&table, "t", values, NULL, 1000, 1, NULL), 0);
        kmf_rowtable_add(&sum, &table, (const int32_t[]){0, 500, 999}, (const size_t[]){0, 3},
                         1);
        kmf_rowtable_scale(&number, &sum, &table);
        ck_assert(number == (i > 0 ? 1 + 20 * 0x1p-23 : 0));
        kmf_rowtable_free(&table);
    }
}
END_TEST

static const char *const settings[] = {"", "KMERFORMER_CPU=avx512", "KMERFORMER_CPU=avx2",
                                       "KMERFORMER_CPU=baseline"};

LEVELS_TEST(sums_are_those_of_the_numbers, "sums largest", settings[_i])

int main(int argc, char **argv)
{
    if (argc > 2)
        return levels_child(parts, sizeof parts / sizeof parts[0], argv);
    TCase *tcase = untimed_case();
    tcase_add_loop_test(tcase, sums_are_those_of_the_numbers, 0,
                        sizeof settings / sizeof settings[0]);
    tcase_add_test(tcase, numbers_near_0_among_many_are_taken);
    tcase_add_test(tcase, numbers_that_one_dwarfs_are_refused);
    tcase_add_test(tcase, rows_of_zeros_are_taken);
    return run_case("rowtable", tcase);
}
