/* SPDX-License-Identifier: MIT */
/*
 * The order of a feed-forward's middle. Second source: weights made so that the reach of each
 * column is known in advance, and a norm's results drawn at random, whose largest product with a
 * column comes near it.
 */
#include "base/mem.h"
#include "model/ffn_order.h"
#include "run.h"

#include <math.h>
#include <string.h>

enum { D = 48, F = 5 };

typedef struct layer {
    float w1[2 * F * D], b1[2 * F], norm_w[D], norm_b[D];
    kmf_config config;
    kmf_layer weights;
} layer;

static uint64_t seed = 88172645463325252u;

/* Of about the standard normal distribution. */
static double draw(void)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(seed >> 40) * 0x1p-24;
    }
    return sum;
}

static layer *new_layer(bool gated, bool pre_norm)
{
    layer *l = kmf_calloc(1, sizeof *l, NULL);
    ck_assert_ptr_nonnull(l);
    l->config = (kmf_config){.hidden_size = D, .intermediate_size = F};
    l->config.gated = gated;
    l->config.pre_norm = pre_norm;
    l->weights.w1 = l->w1;
    l->weights.b1 = l->b1;
    if (pre_norm) {
        l->weights.ln2_w = l->norm_w;
        l->weights.ln2_b = l->norm_b;
    } else {
        l->weights.ln1_w = l->norm_w;
        l->weights.ln1_b = l->norm_b;
    }
    for (size_t i = 0; i < D; i++)
        l->norm_w[i] = 1;
    for (size_t i = 0; i < (size_t)(gated ? 2 : 1) * F * D; i++)
        l->w1[i] = i % 2 ? 0.1f : -0.1f;
    return l;
}

static void expect(layer *l, const size_t *expected)
{
    size_t order[F];
    kmf_err err = {0};
    ck_assert_int_eq(kmf_ffn_order(order, &l->config, &l->weights, &err), 0);
    for (size_t f = 0; f < F; f++)
        ck_assert_msg(order[f] == expected[f], "place %zu: column %zu, expected %zu", f,
                      order[f], expected[f]);
    kmf_free(l);
}

START_TEST(equal_columns_keep_their_order)
{
    expect(new_layer(_i & 1, _i & 2), (const size_t[]){0, 1, 2, 3, 4});
}
END_TEST

START_TEST(a_bias_reaches_by_itself)
{
    layer *l = new_layer(false, _i);
    memcpy(l->b1, (const float[]){0.5f, -1, 3, 0, 2}, F * sizeof *l->b1);
    expect(l, (const size_t[]){1, 3, 0, 4, 2});
}
END_TEST

START_TEST(what_is_not_a_number_reaches_farthest)
{
    layer *l = new_layer(_i, false);
    l->w1[1 * D] = NAN;
    l->b1[2] = 1;
    expect(l, (const size_t[]){0, 3, 4, 2, 1});
}
END_TEST

START_TEST(the_norm_counts)
{
    layer *l = new_layer(false, _i);
    l->norm_w[7] = 30; /* what is large in this place decides */
    l->norm_b[9] = 2;
    for (size_t f = 0; f < F; f++)
        l->w1[f * D + 7] = (const float[]){0.3f, 0, -0.5f, 0.1f, 0}[f];
    l->w1[1 * D + 9] = 1;
    l->w1[4 * D + 9] = -1;
    expect(l, (const size_t[]){4, 1, 3, 0, 2});
}
END_TEST

START_TEST(of_a_gated_one_both_halves_count)
{
    layer *l = new_layer(true, _i);
    for (size_t i = 0; i < D; i++) {
        l->w1[1 * D + i] *= 3;       /* gate */
        l->w1[(F + 1) * D + i] *= 3; /* up */
        l->w1[(F + 3) * D + i] *= 5;
        l->w1[0 * D + i] *= 0.5f;
    }
    expect(l, (const size_t[]){0, 2, 4, 3, 1});
}
END_TEST

/* 4 deviations: of 20,000 draws the largest is between 3 and 6. */
START_TEST(columns_reach_as_far_as_said)
{
    layer *l = new_layer(false, false);
    double far[F] = {0};
    size_t order[F];
    kmf_err err = {0};
    for (size_t i = 0; i < D; i++) {
        l->norm_w[i] = (float)(0.5 + fabs(draw()));
        l->norm_b[i] = (float)draw() / 4;
    }
    for (size_t f = 0; f < F; f++) {
        l->b1[f] = (float)draw();
        for (size_t i = 0; i < D; i++)
            l->w1[f * D + i] = (float)(draw() * pow(2, (double)((3 * f + 1) % F)));
    }
    ck_assert_int_eq(kmf_ffn_order(order, &l->config, &l->weights, &err), 0);
    for (int n = 0; n < 20000; n++) {
        double x[D];
        for (size_t i = 0; i < D; i++)
            x[i] = draw() * (double)l->norm_w[i] + (double)l->norm_b[i];
        for (size_t f = 0; f < F; f++) {
            double sum = (double)l->b1[f];
            for (size_t i = 0; i < D; i++)
                sum += x[i] * (double)l->w1[f * D + i];
            far[f] = fmax(far[f], sum);
        }
    }
    for (size_t f = 0; f + 1 < F; f++)
        ck_assert_double_lt(far[order[f]], far[order[f + 1]]);
    kmf_free(l);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    tcase_add_loop_test(tcase, equal_columns_keep_their_order, 0, 4);
    tcase_add_loop_test(tcase, a_bias_reaches_by_itself, 0, 2);
    tcase_add_loop_test(tcase, what_is_not_a_number_reaches_farthest, 0, 2);
    tcase_add_loop_test(tcase, the_norm_counts, 0, 2);
    tcase_add_loop_test(tcase, of_a_gated_one_both_halves_count, 0, 2);
    tcase_add_test(tcase, columns_reach_as_far_as_said);
    return run_case("ffn_order", tcase);
}
