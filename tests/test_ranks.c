/* SPDX-License-Identifier: MIT */
/*
 * What ranks tell each other: one, or as many as mpirun makes of `test_ranks mpi`, as in
 * tests/cli/pretrain_mpi.reg. Each knows what all of them began with.
 */
#include "learn/ranks.h"

#include "base/mem.h"
#include "base/rng.h"
#include "run.h"

#include <stdio.h>
#include <string.h>

enum { MOST_RANKS = 64, GUARD = 5 };

static float beginning(size_t rank, size_t i)
{
    kmf_rng rng = kmf_rng_stream(rank, i);
    return (float)kmf_rng_unit(&rng) - 0.3f;
}

/* Neighbours are added until one sum is left. */
static float tree_sum(size_t i)
{
    float sums[MOST_RANKS];
    size_t n = (size_t)kmf_ranks();
    for (size_t r = 0; r < n; r++)
        sums[r] = beginning(r, i);
    for (; n > 1; n /= 2)
        for (size_t r = 0; r < n / 2; r++)
            sums[r] = sums[2 * r] + sums[2 * r + 1];
    return sums[0];
}

/* Numbers that no power of 2 divides, and fewer than ranks, too; nothing behind them changes. */
START_TEST(sums_have_the_bits_of_a_tree)
{
    static const size_t sizes[] = {0, 1, 2, 3, 5, 7, 8, 17, 63, 64, 1000, 4099};
    size_t n = sizes[_i], n_scratch = kmf_ranks_scratch(n);
    float *x = kmf_floats(n + GUARD, NULL), *scratch = kmf_floats(n_scratch + GUARD, NULL);
    ck_assert(x && scratch);
    for (size_t i = 0; i < n + GUARD; i++)
        x[i] = i < n ? beginning((size_t)kmf_rank(), i) : 7;
    for (size_t i = 0; i < n_scratch + GUARD; i++)
        scratch[i] = 9;
    kmf_ranks_sum(x, n, scratch);
    for (size_t i = 0; i < n + GUARD; i++) {
        float right = i < n ? tree_sum(i) : 7;
        ck_assert_msg(memcmp(&x[i], &right, sizeof right) == 0, "%zu of %zu: %.9g, not %.9g", i,
                      n, (double)x[i], (double)right);
    }
    for (size_t i = n_scratch; i < n_scratch + GUARD; i++)
        ck_assert(scratch[i] == 9);
    kmf_free(x);
    kmf_free(scratch);
}
END_TEST

START_TEST(what_one_has_is_shared)
{
    size_t n = 3 * (size_t)kmf_ranks();
    double x[3 * MOST_RANKS];
    for (size_t i = 0; i < n; i++)
        x[i] = i % (size_t)kmf_ranks() == (size_t)kmf_rank() ? 1.5 - (double)i : 0;
    kmf_ranks_share(x, n);
    for (size_t i = 0; i < n; i++)
        ck_assert_double_eq(x[i], 1.5 - (double)i);
}
END_TEST

/* The odd one out is each rank in turn, and its number the least and the greatest there is. */
START_TEST(they_agree_if_all_have_the_same)
{
    static const uint64_t others[] = {0, 1, 12344, 12346, UINT64_MAX - 1, UINT64_MAX};
    ck_assert(kmf_ranks_agree(0) && kmf_ranks_agree(UINT64_MAX) && kmf_ranks_agree(12345));
    for (int r = 0; r < kmf_ranks(); r++)
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
            bool same = kmf_ranks_agree(kmf_rank() == r ? others[i] : 12345);
            ck_assert_int_eq(same, kmf_ranks() == 1);
        }
}
END_TEST

START_TEST(one_flag_is_enough)
{
    ck_assert_int_eq(kmf_ranks_any(0), 0);
    ck_assert_int_eq(kmf_ranks_any(3), 1);
    for (int r = 0; r < kmf_ranks(); r++) {
        ck_assert_int_eq(kmf_ranks_any(kmf_rank() == r), 1);
        ck_assert_int_eq(kmf_ranks_any(kmf_rank() == r ? -4 : 0), 1);
    }
}
END_TEST

int main(int argc, char **argv)
{
    kmf_err err = {0};
    setenv("CK_FORK", "no", 1); /* ranks are processes already */
    int status = argc > 1 ? kmf_ranks_start(&argc, &argv, &err) : 0;
    if (status < 0 || kmf_ranks() > MOST_RANKS) {
        fprintf(stderr, "test_ranks: %s\n", err.code ? err.msg : "too many ranks");
        return EXIT_FAILURE;
    }
    TCase *tcase = untimed_case();
    tcase_add_loop_test(tcase, sums_have_the_bits_of_a_tree, 0, 12);
    tcase_add_test(tcase, what_one_has_is_shared);
    tcase_add_test(tcase, they_agree_if_all_have_the_same);
    tcase_add_test(tcase, one_flag_is_enough);
    status = run_case("ranks", tcase);
    if (status != EXIT_SUCCESS)
        kmf_ranks_abort(status);
    kmf_ranks_end();
    return status;
}
