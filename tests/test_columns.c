/* SPDX-License-Identifier: MIT */
/* K-mers of stretches, and their counts by column: against windows read letter by letter. */
#include "base/rng.h"
#include "failing.h"
#include "run.h"
#include "words/columns.h"
#include "words/eights.h"

#include <check.h>
#include <string.h>

/* More than the windows from which on all k of less than 7 are counted in groups. */
#define LEN 80021
#define MOST ((size_t)1 << 16)

static char text[LEN];

/* A repeat, then letters of unlike shares, both cases, U, and some that are none. */
static void make_text(void)
{
    kmf_rng rng = kmf_rng_stream(41, 0);
    for (size_t i = 0; i < LEN; i++)
        text[i] = "ACGGTTUAaACgt"[i < 9000 ? i % 7 : kmf_rng_below(&rng, 13)];
    for (size_t i = 9100; i < LEN; i += 1 + kmf_rng_below(&rng, 3000))
        text[i] = "N-\n*"[i % 4];
    memset(text + 30000, 'N', 40);
    text[LEN - 4] = 'n';
}

/* The code of the k letters at `at`; -1: one is none. */
static int64_t code_at(size_t at, int k)
{
    static const char letters[] = "ACGTacgtUu";
    int64_t code = 0;
    for (int i = 0; i < k; i++) {
        const char *found = memchr(letters, text[at + (size_t)i], 10);
        if (!found)
            return -1;
        code = 4 * code + (found - letters < 8 ? (found - letters) % 4 : 3);
    }
    return code;
}

static void check_stretch(kmf_columns *c, const int32_t *column, int k, size_t beg, size_t n)
{
    static int32_t right[MOST], counts[MOST];
    static int32_t codes[LEN];
    size_t n_clean = 0;
    size_t n_bytes = ((size_t)1 << 2 * k) * sizeof *right;
    memset(right, 0, n_bytes);
    memset(counts, 0, n_bytes);
    counts[0] = right[0] = 5; /* they are added to */
    ck_assert_uint_le(kmf_columns_codes(c, codes, beg, n), n);
    for (size_t at = beg; at < beg + n; at++) {
        int64_t code = code_at(at, k);
        if (code < 0)
            continue;
        quick_assert(codes[n_clean] == code);
        n_clean++;
        right[column ? column[code] : code]++;
    }
    ck_assert_uint_eq(kmf_columns_codes(c, codes, beg, n), n_clean);
    ck_assert_uint_eq(kmf_columns_count(c, counts, beg, n), n_clean);
    ck_assert_int_eq(memcmp(counts, right, n_bytes), 0);
}

/* Stretches of all lengths, in any order; and a text that goes on where another one did. */
START_TEST(counts_and_codes_are_those_of_the_windows)
{
    static int32_t shared[MOST];
    int k = 1 + _i / 2;
    size_t most = LEN - (size_t)k + 1;
    const int32_t *column = _i % 2 ? shared : NULL;
    kmf_rng rng = kmf_rng_stream(43, (uint64_t)_i);
    make_text();
    for (size_t i = 0; i < (size_t)1 << 2 * k; i++)
        shared[i] = (int32_t)kmf_rng_below(&rng, 1 + ((uint64_t)1 << 2 * k) / 2);
    kmf_columns *c = kmf_columns_new(k, column, NULL);
    ck_assert_ptr_nonnull(c);
    kmf_columns_start(c, text, LEN);
    check_stretch(c, column, k, 0, most);
    check_stretch(c, column, k, 0, most); /* its own counts are 0 again */
    check_stretch(c, column, k, 17, 0);
    check_stretch(c, column, k, most - 1, 1);
    for (int round = 0; round < 20; round++) {
        size_t beg = kmf_rng_below(&rng, most);
        size_t n = kmf_rng_below(&rng, round % 2 ? 300 : LEN);
        check_stretch(c, column, k, beg, n < most - beg ? n : most - beg);
    }
    check_stretch(c, column, k, 0, 200);
    for (size_t i = 0; i < 6000; i++)
        text[i] = "TGCA"[i % 4];
    kmf_columns_start(c, text, 6000);
    check_stretch(c, column, k, 0, 200);
    check_stretch(c, column, k, 0, 6000 - (size_t)k + 1);
    ck_assert_uint_gt(kmf_columns_bytes(k), k < 7 ? (size_t)4 << 12 : 0);
    kmf_columns_free(c);
}
END_TEST

/* Both look at eight letters at a time, those behind the text included, which are none. */
START_TEST(runs_and_gaps_end_where_their_letters_do)
{
    static kmf_eights numbers;
    const char *sample = text + 29900; /* letters, 40 N, letters */
    size_t n = 100 + 40 + 61;
    make_text();
    for (size_t i = 0; i < n; i++)
        if (i % 13 == 0)
            text[29900 + i] = 'N';
    kmf_eights_take(&numbers, sample, n);
    for (size_t beg = 0; beg <= n; beg++) {
        for (size_t end = beg; end <= n; end++) {
            size_t run = beg;
            size_t gap = beg;
            while (run < end && memchr("ACGTacgtUu", sample[run], 10))
                run++;
            while (gap < end && !memchr("ACGTacgtUu", sample[gap], 10))
                gap++;
            quick_assert(kmf_eights_run(&numbers, beg, end) == run);
            quick_assert(kmf_eights_gap(&numbers, beg, end) == gap);
        }
    }
}
END_TEST

START_TEST(any_failing_allocation_is_reported)
{
    bool reached = true;
    for (size_t n = 1; reached; n++) {
        kmf_err err = {0};
        kmf_mem_fail_at(n);
        kmf_columns *c = kmf_columns_new(6, NULL, &err);
        reached = failed_at(n);
        ck_assert(reached == !c);
        ck_assert_int_eq(err.code, reached ? KMF_ENOMEM : KMF_OK);
        kmf_columns_free(c);
    }
    kmf_columns_free(NULL);
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_loop_test(tcase, counts_and_codes_are_those_of_the_windows, 0,
                        2 * KMF_COLUMNS_K_MAX);
    tcase_add_test(tcase, runs_and_gaps_end_where_their_letters_do);
    tcase_add_test(tcase, any_failing_allocation_is_reported);
    return run_case("columns", tcase);
}
