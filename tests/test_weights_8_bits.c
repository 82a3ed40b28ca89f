/* SPDX-License-Identifier: MIT */
/*
 * Weights of 8 bits with a scale for each row. Second sources: the file read with jansson alone,
 * the weights that were rounded, and the step that a row's largest number allows. Every mutation of
 * such a file must be refused in words that name it.
 */
#include "base/rng.h"
#include "checked.h"
#include "nn/panels.h"
#include "parts.h"
#include "run.h"

#include <math.h>
#include <stdbool.h>

/* The golden model with weights of 8 bits, in "q"; its parts. */
static struct parts *in_8_bits(const char *golden)
{
    kmf_err err = {0};
    kmf_model *m = kmf_model_load(golden, &err);
    ck_assert_msg(m != NULL, "%s", err.msg);
    ck_assert_msg(kmf_model_save(m, in_dir("q"), KMF_I8, NULL, &err) == 0, "%s", err.msg);
    kmf_model_free(m);
    copy_golden(golden, "model.safetensors");
    return parts_of(in_dir("q/model.safetensors"));
}

#define QUERY_SCALE QUERY ".scale"

static void lose_the_scale(struct parts *p)
{
    drop(p, QUERY_SCALE);
}
static void shorten_the_scale(struct parts *p)
{
    struct part *t = find(p, QUERY_SCALE);
    t->shape[0]--;
    t->bytes -= 4;
}
static void turn_the_scale_2d(struct parts *p)
{
    struct part *t = find(p, QUERY_SCALE);
    t->rank = 2;
    t->shape[1] = 1;
}
static void halve_the_scale(struct parts *p)
{
    to_dtype(find(p, QUERY_SCALE), "F16");
}
static void put_scale(struct parts *p, float scale)
{
    memcpy(find(p, QUERY_SCALE)->data + 4 * 47, &scale, 4);
}
static void put_a_nan_scale(struct parts *p)
{
    put_scale(p, NAN);
}
static void put_a_negative_scale(struct parts *p)
{
    put_scale(p, -0.5f);
}
static void put_an_infinite_scale(struct parts *p)
{
    put_scale(p, INFINITY);
}
static void put_a_scale_too_large(struct parts *p)
{
    put_scale(p, 1e38f);
}
static void store_a_vector_in_8_bits(struct parts *p)
{
    struct part *t = find(p, QUERY_BIAS);
    t->dtype = "I8";
    t->bytes /= 4;
}
static void make_the_matrix_float(struct parts *p)
{
    struct part *t = find(p, QUERY);
    t->dtype = "F16";
    t->bytes *= 2;
    free(t->data);
    t->data = calloc(t->bytes, 1);
}

static const struct mutation mutations_8_bits[] = {
    {lose_the_scale, "tensor " QUERY_SCALE " is missing, " QUERY " is I8"},
    {shorten_the_scale, "tensor " QUERY_SCALE ": must be F32 of shape 48"},
    {turn_the_scale_2d, "tensor " QUERY_SCALE ": must be F32 of shape 48"},
    {halve_the_scale, "tensor " QUERY_SCALE ": must be F32 of shape 48"},
    {put_a_nan_scale, "tensor " QUERY_SCALE ": scale 47 is"},
    {put_a_negative_scale, "tensor " QUERY_SCALE ": scale 47 is -0.5, must be 0 or more"},
    {put_an_infinite_scale, "tensor " QUERY_SCALE ": scale 47 is inf"},
    {put_a_scale_too_large, "tensor " QUERY ": holds a value that is not finite"},
    {store_a_vector_in_8_bits, QUERY_BIAS ": vectors are F32, F16, BF16 or F64, not I8"},
    {make_the_matrix_float, "tensor " QUERY_SCALE ": has no place in this model"},
};

START_TEST(each_kind_of_lie_about_8_bits_is_named)
{
    struct parts *parts = in_8_bits(GOLDEN);
    mutations_8_bits[_i].change(parts);
    put_parts(parts, 0);
    parts_free(parts);
    refused(KMF_EMODEL, mutations_8_bits[_i].says);
}
END_TEST

/* w of the original against the file, read with jansson alone, and what was loaded. */
static void check_8_bits(const float *w, const float *loaded, size_t rows, size_t cols,
                         const char *file, const char *name)
{
    char scale_name[160];
    size_t n;
    const int8_t *q = (const int8_t *)(const void *)tensor_of(file, name, &n);
    ck_assert_uint_eq(4 * n, rows * cols);
    snprintf(scale_name, sizeof scale_name, "%s.scale", name);
    const float *scale = tensor_of(file, scale_name, &n);
    ck_assert_uint_eq(n, rows);
    for (size_t o = 0; o < rows; o++) {
        float most = 0;
        for (size_t i = o * cols; i < (o + 1) * cols; i++)
            most = fmaxf(most, fabsf(w[i]));
        ck_assert(scale[o] == (float)((double)most / 127));
        for (size_t i = o * cols; i < (o + 1) * cols; i++) {
            double off = fabs((double)loaded[i] - (double)w[i]);
            ck_assert_msg(q[i] >= -127 && off <= (double)scale[o] * (0.5 + 1e-4), "%s %zu: %g",
                          name, i, off);
            ck_assert(loaded[i] == (float)q[i] * scale[o]);
        }
    }
}

START_TEST(matrices_of_the_products_are_of_8_bits_and_half_a_step_off_at_most)
{
    kmf_err err = {0};
    size_t len, n;
    parts_free(in_8_bits(GOLDEN));
    char *file = get(in_dir("q/model.safetensors"), &len);
    kmf_model *m = kmf_model_load(GOLDEN, &err);
    kmf_model *l = kmf_model_load(in_dir("q"), &err);
    ck_assert_msg(l != NULL, "%s", err.msg);
    check_8_bits(m->params.proj_w, l->params.proj_w, 48, 32, file,
                 "roformer.embeddings_project.weight");
    for (int i = 0; i < 3; i++) {
        const kmf_layer *x = &m->params.layers[i];
        const kmf_layer *y = &l->params.layers[i];
        const struct {
            const float *w, *loaded;
            size_t rows, cols;
            const char *name;
        } want[] = {{x->wq, y->wq, 48, 48, "attention.self.query.weight"},
                    {x->wk, y->wk, 48, 48, "attention.self.key.weight"},
                    {x->wv, y->wv, 48, 48, "attention.self.value.weight"},
                    {x->wo, y->wo, 48, 48, "attention.output.dense.weight"},
                    {x->w1, y->w1, 96, 48, "intermediate.dense.weight"},
                    {x->w2, y->w2, 48, 96, "output.dense.weight"}};
        for (size_t j = 0; j < 6; j++) {
            char name[128];
            snprintf(name, sizeof name, "roformer.encoder.layer.%d.%s", i, want[j].name);
            check_8_bits(want[j].w, want[j].loaded, want[j].rows, want[j].cols, file, name);
        }
        ck_assert_int_eq(memcmp(x->b1, y->b1, 96 * sizeof(float)), 0);
        ck_assert_int_eq(memcmp(x->ln2_w, y->ln2_w, 48 * sizeof(float)), 0);
    }
    for (size_t i = 0; i < 1029 * 32; i++)
        ck_assert(l->params.word[i] == kmf_bf16_to_f32(kmf_bf16_from_f32(m->params.word[i])));
    for (size_t i = 0; i < 32 * 48; i++)
        ck_assert(l->params.head_w[i] ==
                  kmf_bf16_to_f32(kmf_bf16_from_f32(m->params.head_w[i])));
    ck_assert_uint_eq(kmf_model_n_parameters(l), kmf_model_n_parameters(m));
    ck_assert_uint_eq(kmf_model_n_tensors(l), kmf_model_n_tensors(m));
    for (n = 0; n < l->n_tensors; n++) {
        kmf_tensor_info t;
        kmf_model_tensor(l, n, &t);
        bool product = strstr(t.name, "project.weight") ||
                       (strstr(t.name, ".layer.") && !strstr(t.name, "LayerNorm") &&
                        strstr(t.name, "weight"));
        ck_assert_msg(t.dtype == (product       ? KMF_I8
                                  : t.rank == 2 ? KMF_BF16
                                                : KMF_F32),
                      "%s", t.name);
    }
    kmf_free(file);
    kmf_model_free(m);
    kmf_model_free(l);
}
END_TEST

static void (*const tolerated_8_bits[])(struct parts *) = {rename_bare, rename_norms,
                                                           rename_both, turn_around};

START_TEST(names_order_and_addresses_are_free_in_8_bits_too)
{
    kmf_err err = {0};
    struct parts *parts = in_8_bits(GOLDEN);
    tolerated_8_bits[_i](parts);
    put_parts(parts, (size_t)_i);
    parts_free(parts);
    kmf_model *want = kmf_model_load(in_dir("q"), &err);
    kmf_model *model = loaded();
    assert_same_weights(want, model);
    kmf_model_free(want);
    kmf_model_free(model);
}
END_TEST

/* Is what x [n] is rounded to rounded to the same? */
static bool rounds_once(const float *x, size_t n)
{
    int8_t q[64], again[64];
    float y[64];
    float sum = 0;
    float scale = kmf_int8_scale(x, n);
    kmf_int8_round(q, &sum, x, scale, n);
    for (size_t i = 0; i < n; i++)
        y[i] = (float)q[i] * scale;
    kmf_int8_round(again, &sum, y, scale, n);
    return kmf_int8_scale(y, n) == scale && memcmp(q, again, n) == 0;
}

START_TEST(rounding_to_8_bits_twice_is_rounding_once)
{
    static const float units[] = {0x1p-110f, 0x1p-23f, 0x1p80f};
    float x[64];
    /* the largest: fractions in steps that miss no remainder of 127 and 128 */
    for (uint32_t m = 1u << 23; m < 1u << 24; m += CHECKED ? 55 : 5) {
        x[0] = (float)m * units[m % 3];
        if (!rounds_once(x, 1))
            ck_abort_msg("%a", (double)x[0]);
    }
    kmf_rng rng = kmf_rng_stream(1, 1);
    for (size_t i = 0; i < 20000; i++) {
        for (size_t j = 0; j < 64; j++)
            x[j] = kmf_rng_normal(&rng) * units[i % 3];
        if (!rounds_once(x, 1 + i % 64))
            ck_abort_msg("row %zu", i);
    }
    memset(x, 0, sizeof x);
    ck_assert(rounds_once(x, 64) && kmf_int8_scale(x, 64) == 0);
}
END_TEST

int main(void)
{
    TCase *tc = untimed_case();
    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_add_loop_test(tc, each_kind_of_lie_about_8_bits_is_named, 0,
                        (int)(sizeof mutations_8_bits / sizeof mutations_8_bits[0]));
    tcase_add_test(tc, matrices_of_the_products_are_of_8_bits_and_half_a_step_off_at_most);
    tcase_add_loop_test(tc, names_order_and_addresses_are_free_in_8_bits_too, 0,
                        (int)(sizeof tolerated_8_bits / sizeof tolerated_8_bits[0]));
    tcase_add_test(tc, rounding_to_8_bits_twice_is_rounding_once);
    return run_case("weights of 8 bits", tc);
}
