/* SPDX-License-Identifier: MIT */
/* Text that is made by many threads and taken by one, against printf. */
#include "embed/rowtext.h"

#include "base/mem.h"
#include "run.h"
#include "seq/par.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DIM 3
#define N_ROWS 4000
#define PRIME 7919 /* a step through blocks that meets each of them once */

static float number(uint64_t row, size_t d)
{
    return d == 1 ? 0.25f : sinf((float)row * 3 + (float)d);
}

static void fill(float *vectors, uint64_t row, size_t n, float sign)
{
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < DIM; d++)
            vectors[i * DIM + d] = sign * number(row + i, d);
}

static kmf_rowtext *new_texts(size_t dim)
{
    const kmf_row_format numbers = kmf_row_numbers(dim);
    kmf_rowtext *texts = kmf_rowtext_new(&numbers, dim, NULL);
    ck_assert_ptr_nonnull(texts);
    return texts;
}

/* The row's text is what printf makes of its numbers. */
static void check_row(kmf_rowtext *texts, uint64_t row, float sign)
{
    char right[DIM * 32];
    size_t n = 0, len;
    for (size_t d = 0; d < DIM; d++)
        n += (size_t)snprintf(right + n, sizeof right - n, "\t%.8g",
                              (double)(sign * number(row, d)));
    right[n++] = '\n';
    const char *text = kmf_rowtext_take(texts, row, &len);
    quick_assert_msg(len == n && memcmp(text, right, n) == 0, "row %llu: %.*s",
                     (unsigned long long)row, (int)len, text);
}

/* ---------------------------------------------------------------- order ----------------- */

/* Blocks of 8 rows, of which the last ones are missing here and there. */
static size_t rows_of_block(size_t block)
{
    return 1 + block % 8;
}

static void put_blocks(void *arg, int thread)
{
    size_t n_blocks = N_ROWS / 8;
    for (size_t i = (size_t)thread; i < n_blocks; i += 4) {
        float vectors[8 * DIM];
        size_t block = i * PRIME % n_blocks;
        fill(vectors, block * 8, rows_of_block(block), 1);
        if (!kmf_rowtext_put(arg, block * 8, vectors, rows_of_block(block)))
            abort();
    }
}

START_TEST(rows_come_in_their_order_whoever_made_them)
{
    kmf_rowtext *texts = new_texts(DIM);
    for (int round = 0; round < 2; round++) {
        ck_assert_int_eq(kmf_together(4, put_blocks, texts, NULL), 0);
        for (uint64_t row = 0; row < N_ROWS; row++)
            if (row % 8 < rows_of_block(row / 8))
                check_row(texts, row, 1);
    }
    kmf_rowtext_free(texts);
}
END_TEST

/* While others are made: rows of one thread are taken by another. */
static void put_and_take(void *arg, int thread)
{
    kmf_rowtext *texts = arg;
    float vectors[8 * DIM];
    if (thread > 0) {
        for (uint64_t row = N_ROWS / 2 + (uint64_t)thread * 8; row < N_ROWS; row += 24) {
            fill(vectors, row, 8, 1);
            if (!kmf_rowtext_put(texts, row, vectors, 8))
                abort();
        }
        return;
    }
    for (uint64_t row = 0; row < N_ROWS / 2; row++)
        check_row(texts, row, 1);
}

START_TEST(rows_are_taken_while_others_are_made)
{
    kmf_rowtext *texts = new_texts(DIM);
    float vectors[N_ROWS / 2 * DIM];
    fill(vectors, 0, N_ROWS / 2, 1);
    for (uint64_t row = 0; row < N_ROWS / 2; row += 100)
        ck_assert_int_eq(kmf_rowtext_put(texts, row, vectors + row * DIM, 100), 1);
    ck_assert_int_eq(kmf_together(4, put_and_take, texts, NULL), 0);
    kmf_rowtext_free(texts);
}
END_TEST

/* ---------------------------------------------------------------- a run that failed ------ */

START_TEST(a_row_that_comes_again_takes_the_place)
{
    float vectors[20 * DIM];
    kmf_rowtext *texts = new_texts(DIM);
    fill(vectors, 0, 20, -1);
    ck_assert_int_eq(kmf_rowtext_put(texts, 0, vectors, 10), 1);
    ck_assert_int_eq(kmf_rowtext_put(texts, 10, vectors + 10 * DIM, 10), 1);
    for (uint64_t row = 0; row < 3; row++)
        check_row(texts, row, -1);
    fill(vectors, 3, 9, 1); /* of the block in hand and of one that waits */
    ck_assert_int_eq(kmf_rowtext_put(texts, 3, vectors, 9), 1);
    for (uint64_t row = 3; row < 12; row++)
        check_row(texts, row, 1);
    fill(vectors, 30, 2, 1); /* behind some that never came */
    ck_assert_int_eq(kmf_rowtext_put(texts, 30, vectors, 2), 1);
    check_row(texts, 30, 1);
    check_row(texts, 31, 1);
    kmf_rowtext_free(texts);
}
END_TEST

/* ---------------------------------------------------------------- memory ---------------- */

START_TEST(what_waits_is_bounded)
{
    enum { LONG = 20000, ROWS = 10 };
    kmf_rowtext *texts = new_texts(LONG);
    float *vectors = kmf_floats(LONG * ROWS, NULL);
    size_t len;
    uint64_t n = 0;
    for (size_t i = 0; i < LONG * ROWS; i++)
        vectors[i] = sinf((float)i);
    while (kmf_rowtext_put(texts, n * ROWS, vectors, ROWS)) {
        n++;
        ck_assert_uint_lt(n, 100);
    }
    ck_assert_uint_gt(n, 5);
    (void)kmf_rowtext_take(texts, 0, &len); /* its block waits no more */
    ck_assert_uint_gt(len, (size_t)LONG * 8);
    ck_assert_int_eq(kmf_rowtext_put(texts, n * ROWS, vectors, ROWS), 1);
    ck_assert_int_eq(kmf_rowtext_put(texts, (n + 1) * ROWS, vectors, ROWS), 0);
    (void)kmf_rowtext_take(texts, n * ROWS, &len); /* nor do those before its own */
    for (uint64_t block = n + 1; block < 2 * n + 1; block++)
        ck_assert_int_eq(kmf_rowtext_put(texts, block * ROWS, vectors, ROWS), 1);
    kmf_free(vectors);
    kmf_rowtext_free(texts);
}
END_TEST

/* Once as many blocks as wait at a time have been filled. */
START_TEST(no_block_takes_memory)
{
    kmf_rowtext *texts = new_texts(DIM);
    float vectors[8 * DIM];
    size_t took[4] = {0};
    for (uint64_t round = 0; round < 400; round++) {
        if (round % 100 == 0)
            kmf_mem_fail_at(0);
        fill(vectors, round * 8, 8, 1);
        ck_assert_int_eq(kmf_rowtext_put(texts, round * 8, vectors, 8), 1);
        for (uint64_t row = round > 0 ? (round - 1) * 8 : 0; row < round * 8; row++)
            check_row(texts, row, 1);
        took[round / 100] = kmf_mem_count();
    }
    ck_assert_uint_gt(took[0], 0);
    for (size_t i = 1; i < 4; i++)
        ck_assert_uint_eq(took[i], 0);
    kmf_rowtext_free(texts);
}
END_TEST

START_TEST(without_memory_a_row_stays_a_vector)
{
    float vectors[DIM * 4];
    size_t refused = 0;
    fill(vectors, 0, 4, 1);
    for (size_t fail = 1; fail <= 8; fail++) {
        kmf_rowtext *texts = new_texts(DIM);
        kmf_mem_fail_at(fail);
        int put = kmf_rowtext_put(texts, 0, vectors, 4);
        kmf_mem_fail_at(0);
        refused += !put;
        if (!put)
            ck_assert_int_eq(kmf_rowtext_put(texts, 0, vectors, 4), 1);
        for (uint64_t row = 0; row < 4; row++)
            check_row(texts, row, 1);
        kmf_rowtext_free(texts);
    }
    ck_assert_uint_ge(refused, 4); /* the block, its scratch, its ends, its text */
    ck_assert_uint_lt(refused, 8);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("rowtext");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, rows_come_in_their_order_whoever_made_them);
    tcase_add_test(tc, rows_are_taken_while_others_are_made);
    tcase_add_test(tc, a_row_that_comes_again_takes_the_place);
    tcase_add_test(tc, what_waits_is_bounded);
    tcase_add_test(tc, no_block_takes_memory);
    tcase_add_test(tc, without_memory_a_row_stays_a_vector);
    return run_case("rowtext", tc);
}
