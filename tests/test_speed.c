/* SPDX-License-Identifier: MIT */
/*
 * Second sources: for the arithmetic, the shapes of the model's own tensors and a count of the
 * attention's products one by one; for what can be measured, what kmf_precision_here says.
 */
#include "base/groups.h"
#include "base/mem.h"
#include "nn/limits.h"
#include "run.h"

#include "kmerformer.h"

#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MOMENT 0.001

static kmf_model *new_model(size_t E, size_t D, size_t H, size_t F, size_t L)
{
    kmf_err err = {0};
    kmf_config config;
    ck_assert_int_eq(kmf_config_preset(&config, "nano", 2, &err), 0);
    config.embedding_size = E;
    config.hidden_size = D;
    config.n_heads = H;
    config.intermediate_size = F;
    config.n_layers = L;
    kmf_model *model = kmf_model_new(&config, 1, &err);
    ck_assert_msg(model != NULL, "%s", err.msg);
    return model;
}

/* ---------------------------------------------------------------- arithmetic ------------- */

/* Of a token: a multiplication and an addition for each element of the matrices it meets. */
static double operations_of_matrices(const kmf_model *model)
{
    double n = 0;
    for (size_t i = 0; i < kmf_model_n_tensors(model); i++) {
        kmf_tensor_info t;
        kmf_model_tensor(model, i, &t);
        if (t.rank == 2 && (strstr(t.name, "encoder.layer") || strstr(t.name, "project")))
            n += 2.0 * (double)t.shape[0] * (double)t.shape[1];
    }
    return n;
}

/* Of all tokens of a sequence. */
static double operations_of_attention(const kmf_config *c, size_t T)
{
    uint64_t n = 0;
    for (size_t l = 0; l < c->n_layers; l++)
        for (size_t h = 0; h < c->n_heads; h++)
            for (size_t t = 0; t < T; t++)
                for (size_t u = 0; u < T; u++)
                    for (size_t k = 0; k < c->hidden_size / c->n_heads; k++)
                        n += 2 + 2; /* of the score, and of the weighted sum */
    return (double)n;
}

START_TEST(operations_are_those_of_the_tensors_and_of_attention)
{
    static const size_t shapes[][5] = {
        {8, 8, 2, 16, 1}, {8, 8, 2, 16, 3}, {6, 12, 3, 20, 2}, {16, 4, 1, 4, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const size_t *s = shapes[i];
        kmf_model *model = new_model(s[0], s[1], s[2], s[3], s[4]);
        const kmf_config *c = kmf_model_config(model);
        for (size_t T = 1; T < 30; T += 7) {
            double want =
                (double)T * operations_of_matrices(model) + operations_of_attention(c, T);
            ck_assert_double_eq((double)T * kmf_encoder_operations(c, T), want);
        }
        kmf_model_free(model);
    }
}
END_TEST

START_TEST(operations_of_the_tiny_preset)
{
    kmf_err err = {0};
    kmf_config config;
    ck_assert_int_eq(kmf_config_preset(&config, "tiny", 6, &err), 0);
    /* 4 layers: 24 * 256^2 and 4 * 148 * 256 */
    ck_assert_double_eq(kmf_encoder_operations(&config, 148), 4 * (1572864.0 + 151552.0));
}
END_TEST

/* ---------------------------------------------------------------- encoder ---------------- */

START_TEST(every_precision_and_batch_has_a_speed)
{
    static const struct {
        int threads;
        size_t T, batch;
    } runs[] = {{1, 1, 64}, {2, 7, 64}, {1, 100, 64}, {2, 64, 64}, {1, 5, 0}};
    for (int p = 0; p < KMF_PRECISION_AUTO; p++) {
        kmf_err err = {0};
        kmf_model *model = new_model(8, 8, 2, 16, 1);
        ck_assert_int_eq(kmf_model_prepare(model, (kmf_precision)p, &err), 0);
        for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
            kmf_speed speed;
            int rc = kmf_encoder_speed(&speed, model, runs[i].threads, runs[i].T, runs[i].batch,
                                       MOMENT, 1, &err);
            ck_assert_msg(rc == 0, "%s", err.msg);
            ck_assert_double_gt(speed.tokens, 0);
            ck_assert_double_gt(speed.limit, 0);
        }
        kmf_model_free(model);
    }
}
END_TEST

static const double no_seconds[] = {(double)NAN, -1, -(double)INFINITY, (double)INFINITY,
                                    3600.5};

START_TEST(speed_refuses_what_cannot_run)
{
    kmf_speed speed;
    kmf_model *model = new_model(8, 8, 2, 16, 1);
    ck_assert_int_eq(kmf_encoder_speed(&speed, model, 0, 5, 64, 0, 1, NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_encoder_speed(&speed, model, 1025, 5, 64, 0, 1, NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_encoder_speed(&speed, model, 1, 0, 64, 0, 1, NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_encoder_speed(&speed, model, 1, SIZE_MAX / 2, 64, 0, 1, NULL),
                     KMF_ENOMEM);
    for (size_t i = 0; i < sizeof no_seconds / sizeof no_seconds[0]; i++)
        ck_assert_int_eq(kmf_encoder_speed(&speed, model, 1, 5, 64, no_seconds[i], 1, NULL),
                         KMF_EINVAL);
    ck_assert_int_eq(kmf_encoder_speed(&speed, model, 1, 5, 64, 0, 1, NULL), 0);
    kmf_model_free(model);
}
END_TEST

START_TEST(speed_survives_each_failed_allocation)
{
    kmf_err err = {0};
    kmf_model *model = new_model(8, 8, 2, 16, 1);
    ck_assert_int_eq(kmf_model_prepare(model, KMF_PRECISION_F32, &err), 0);
    int status = KMF_ENOMEM;
    size_t n = 0;
    while (status != 0) {
        kmf_speed speed;
        kmf_mem_fail_at(++n);
        status = kmf_encoder_speed(&speed, model, 2, 5, 64, 0, 1, NULL);
        kmf_mem_fail_at(0);
        ck_assert(status == 0 || status == KMF_ENOMEM);
        ck_assert(status != 0 || speed.tokens > 0);
    }
    ck_assert_uint_gt(n, 6); /* offsets, runners, and twice ids, encoder and its slab */
    kmf_model_free(model);
}
END_TEST

/* ---------------------------------------------------------------- limits ----------------- */

START_TEST(limits_are_there_where_their_instructions_are)
{
    for (int i = 0; i < KMF_N_LIMITS; i++)
        for (int threads = 1; threads <= 3; threads++) {
            double rate = -1;
            kmf_err err = {0};
            int rc = kmf_limit_measure(&rate, (kmf_limit_kind)i, threads, MOMENT, &err);
            ck_assert_msg(rc == 0, "%s", err.msg);
            bool there = i >= KMF_PRECISION_AUTO ||
                         kmf_precision_here((kmf_precision)i) == (kmf_precision)i;
            ck_assert_msg(there ? rate > 0 : rate == 0, "%s: %g", kmf_limit_names[i], rate);
            if (i < KMF_PRECISION_AUTO)
                ck_assert((kmf_limit_portion((kmf_limit_kind)i) > 0) == there);
        }
    ck_assert_ptr_null(kmf_limit_names[KMF_N_LIMITS]);
    for (int p = 0; p < KMF_PRECISION_AUTO; p++)
        ck_assert_str_eq(kmf_limit_names[p], kmf_precision_names[p]);
}
END_TEST

/* A sanitizer sees a piece that ends beyond its array, where threads share an odd number of MB. */
START_TEST(copies_stay_within_their_arrays)
{
    double rate = -1;
    kmf_err err = {0};
    if (kmf_memory_here() < (uint64_t)4 << 30) {
        printf("skip: 2 GB of memory are not to be had\n");
        return;
    }
    int rc = kmf_limit_measure(&rate, KMF_LIMIT_COPY_MEMORY, 18, 20 * MOMENT, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    ck_assert(rate > 0);
}
END_TEST

START_TEST(limits_refuse_what_cannot_run)
{
    double rate;
    ck_assert_int_eq(kmf_limit_measure(&rate, KMF_LIMIT_F32, 0, MOMENT, NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_limit_measure(&rate, KMF_LIMIT_F32, 1025, MOMENT, NULL), KMF_EINVAL);
    for (size_t i = 0; i < sizeof no_seconds / sizeof no_seconds[0]; i++)
        ck_assert_int_eq(kmf_limit_measure(&rate, KMF_LIMIT_F32, 1, no_seconds[i], NULL),
                         KMF_EINVAL);
    ck_assert_int_eq(kmf_limit_measure(&rate, KMF_LIMIT_READ_L1, 1, 0, NULL), 0);
    ck_assert_double_gt(rate, 0);
    for (size_t n = 1; n <= 3; n++) { /* arrays, rates, threads */
        kmf_mem_fail_at(n);
        int status = kmf_limit_measure(&rate, KMF_LIMIT_READ_L1, 2, MOMENT, NULL);
        kmf_mem_fail_at(0);
        ck_assert_int_eq(status, KMF_ENOMEM);
    }
}
END_TEST

START_TEST(processor_has_a_name_a_level_and_products)
{
    kmf_processor p;
    char text[4096];
    kmf_processor_describe(&p);
    kmf_build_info(text, sizeof text);
    ck_assert_uint_gt(strlen(p.name), 0);
    ck_assert_ptr_null(strchr(p.name, '\n'));
    ck_assert_ptr_nonnull(strstr(text, p.level));
    ck_assert_ptr_nonnull(strstr(text, p.products));
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    tcase_add_test(tcase, operations_are_those_of_the_tensors_and_of_attention);
    tcase_add_test(tcase, operations_of_the_tiny_preset);
    tcase_add_test(tcase, every_precision_and_batch_has_a_speed);
    tcase_add_test(tcase, speed_refuses_what_cannot_run);
    tcase_add_test(tcase, speed_survives_each_failed_allocation);
    tcase_add_test(tcase, limits_are_there_where_their_instructions_are);
    tcase_add_test(tcase, copies_stay_within_their_arrays);
    tcase_add_test(tcase, limits_refuse_what_cannot_run);
    tcase_add_test(tcase, processor_has_a_name_a_level_and_products);
    tcase_set_timeout(tcase, 60);
    return run_case("speed", tcase);
}
