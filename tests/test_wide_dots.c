/* SPDX-License-Identifier: MIT */
/* Dot products in double: bit for bit the sums that the header promises, at every level. */
#include "nn/wide_dots.h"

#include "levels.h"
#include "run.h"

#include <math.h>
#include <string.h>

enum { MOST_R = 11, MOST_K = 70 };

static double in_order(const float *w, const float *x, size_t K)
{
    double sum[4] = {0};
    for (size_t k = 0; k < K; k++)
        sum[k < K / 4 * 4 ? k % 4 : 0] += (double)w[k] * (double)x[k];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

/* What lies behind the last row, and behind x, is no number. */
static const char *sums_are_in_order(size_t R, size_t K)
{
    static float w[MOST_R * MOST_K + 1];
    float x[MOST_K + 1];
    double y[MOST_R + 1];
    uint64_t seed = 1 + 101 * R + K;
    for (size_t i = 0; i < R * K; i++)
        w[i] = levels_random(&seed) * (i % 7 == 0 ? 1e6f : 1);
    for (size_t k = 0; k < K; k++)
        x[k] = levels_random(&seed);
    w[R * K] = x[K] = NAN;
    y[R] = 7;
    kmf_wide_dots(y, x, w, R, K);
    for (size_t r = 0; r < R; r++) {
        double right = in_order(w + r * K, x, K);
        if (memcmp(&y[r], &right, sizeof right) != 0)
            return "a sum is not in the order that is promised";
    }
    return memcmp(&y[R], &(double){7}, sizeof *y) == 0 ? NULL
                                                       : "more is written than asked for";
}

static const char *all_shapes(void)
{
    const char *wrong = NULL;
    for (size_t R = 0; R <= MOST_R && !wrong; R++)
        for (size_t K = 1; K <= MOST_K && !wrong; K++)
            wrong = sums_are_in_order(R, K);
    return wrong;
}

static const levels_part parts[] = {{"order", all_shapes}};

LEVELS_TEST(sums_have_the_same_bits_at_every_level, "order", levels_vectors[_i])

int main(int argc, char **argv)
{
    if (argc > 2)
        return levels_child(parts, sizeof parts / sizeof parts[0], argv);
    TCase *tcase = tcase_create("wide_dots");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, sums_have_the_same_bits_at_every_level, 0, N_VECTORS);
    return run_case("wide_dots", tcase);
}
