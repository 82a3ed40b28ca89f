/* SPDX-License-Identifier: MIT */
/*
 * Second sources: the golden checkpoints, whose bytes a Python program laid out and whose
 * header this test reads with jansson by itself; parameter counts and shapes added up by hand.
 * Every mutation of a golden file must be refused in words that name it.
 */
#include "base/half.h"
#include "models.h"
#include "parts.h"
#include "run.h"

#include <math.h>
#include <stdbool.h>

/* ---- golden checkpoints ------------------------------------------------------------------ */

static void same_values(const float *got, const char *bytes, const char *name)
{
    size_t n;
    const float *want = tensor_of(bytes, name, &n);
    ck_assert_msg(got && memcmp(got, want, n * 4) == 0, "%s", name);
}

START_TEST(a_published_checkpoint_loads_with_every_tensor_in_its_place)
{
    kmf_err err = {0};
    size_t len;
    kmf_model *m = kmf_model_load(GOLDEN, &err);
    ck_assert_msg(m != NULL, "%s", err.msg);
    char *f = get(GOLDEN "/model.safetensors", &len);
    same_values(m->params.word, f, "roformer.embeddings.word_embeddings.weight");
    same_values(m->params.type, f, "roformer.embeddings.token_type_embeddings.weight");
    same_values(m->params.ln_w, f, "roformer.embeddings.LayerNorm.weight");
    same_values(m->params.ln_b, f, "roformer.embeddings.LayerNorm.bias");
    same_values(m->params.proj_w, f, "roformer.embeddings_project.weight");
    same_values(m->params.proj_b, f, "roformer.embeddings_project.bias");
    same_values(m->params.head_w, f, "cls.predictions.transform.dense.weight");
    same_values(m->params.head_b, f, "cls.predictions.transform.dense.bias");
    same_values(m->params.head_ln_w, f, "cls.predictions.transform.LayerNorm.weight");
    same_values(m->params.head_ln_b, f, "cls.predictions.transform.LayerNorm.bias");
    same_values(m->params.head_bias, f, "cls.predictions.bias");
    for (int l = 0; l < 3; l++) {
        const kmf_layer *y = &m->params.layers[l];
        const struct {
            const float *values;
            const char *name;
        } want[] = {{y->wq, "attention.self.query.weight"},
                    {y->bq, "attention.self.query.bias"},
                    {y->wk, "attention.self.key.weight"},
                    {y->bk, "attention.self.key.bias"},
                    {y->wv, "attention.self.value.weight"},
                    {y->bv, "attention.self.value.bias"},
                    {y->wo, "attention.output.dense.weight"},
                    {y->bo, "attention.output.dense.bias"},
                    {y->ln1_w, "attention.output.LayerNorm.weight"},
                    {y->ln1_b, "attention.output.LayerNorm.bias"},
                    {y->w1, "intermediate.dense.weight"},
                    {y->b1, "intermediate.dense.bias"},
                    {y->w2, "output.dense.weight"},
                    {y->b2, "output.dense.bias"},
                    {y->ln2_w, "output.LayerNorm.weight"},
                    {y->ln2_b, "output.LayerNorm.bias"}};
        for (size_t i = 0; i < 16; i++) {
            char name[128];
            snprintf(name, sizeof name, "roformer.encoder.layer.%d.%s", l, want[i].name);
            same_values(want[i].values, f, name);
        }
    }
    ck_assert_ptr_null(m->slab); /* float32 and aligned: all used from the map */
    ck_assert_uint_eq(kmf_model_n_tensors(m), 11 + 3 * 16);
    /* data bytes less the table of sines, 4 bytes a number */
    ck_assert_uint_eq(kmf_model_n_parameters(m), (401300 - 512 * 12 * 4) / 4);
    ck_assert_uint_eq(kmf_model_n_parameters(m), kmf_config_parameters(&m->config, 1));
    ck_assert_int_eq(kmf_model_config(m)->k, 4 + 1);
    ck_assert_int_eq(kmf_model_config(m)->specials, 1);
    ck_assert_str_eq(kmf_model_path(m), GOLDEN);
    ck_assert_str_eq(kmf_model_provenance(m), "");
    kmf_free(f);
    kmf_model_free(m);
}
END_TEST

START_TEST(the_tensor_list_is_by_name_with_shapes)
{
    kmf_err err = {0};
    kmf_model *m = kmf_model_load(GOLDEN, &err);
    ck_assert_msg(m != NULL, "%s", err.msg);
    kmf_tensor_info last = {.name = ""};
    uint64_t sum = 0;
    for (size_t i = 0; i < kmf_model_n_tensors(m); i++) {
        kmf_tensor_info t;
        kmf_model_tensor(m, i, &t);
        ck_assert_int_gt(strcmp(t.name, last.name), 0);
        ck_assert_int_eq(t.dtype, KMF_F32);
        sum += t.shape[0] * (t.rank == 2 ? t.shape[1] : 1);
        if (strcmp(t.name, "roformer.encoder.layer.1.output.dense.weight") == 0) {
            ck_assert_int_eq(t.rank, 2);
            ck_assert_uint_eq(t.shape[0], 48);
            ck_assert_uint_eq(t.shape[1], 96);
        }
        last = t;
    }
    ck_assert_uint_eq(sum, kmf_model_n_parameters(m));
    kmf_model_free(m);
}
END_TEST

START_TEST(a_checkpoint_without_projection_has_none)
{
    kmf_err err = {0};
    kmf_model *m = kmf_model_load(GOLDEN_VALUE, &err);
    ck_assert_msg(m != NULL, "%s", err.msg);
    ck_assert_ptr_null(m->params.proj_w);
    ck_assert_ptr_null(m->params.proj_b);
    ck_assert_int_eq(m->config.rotary_value, 1);
    ck_assert_int_eq(m->config.k, 4);
    kmf_model_free(m);
}
END_TEST

/* ---- mutations of the weights ------------------------------------------------------------ */

static void lose_query(struct parts *p)
{
    drop(p, QUERY);
}
static void lose_part_of_the_head(struct parts *p)
{
    drop(p, HEAD);
}
static void lose_all_but_one_of_the_head(struct parts *p)
{
    drop(p, HEAD);
    drop(p, "cls.predictions.transform.dense.bias");
    drop(p, "cls.predictions.transform.LayerNorm.weight");
    drop(p, "cls.predictions.transform.LayerNorm.bias");
}
static void gain_a_layer(struct parts *p)
{
    add(p, "roformer.encoder.layer.3.attention.self.query.weight", find(p, QUERY));
}
static void gain_a_stranger(struct parts *p)
{
    add(p, "some\x1bthing.weight", find(p, QUERY));
}
static void gain_a_name_twice_over(struct parts *p)
{
    add(p, "encoder.layer.1.attention.self.query.weight", find(p, QUERY));
}
static void turn_query_bias_2d(struct parts *p)
{
    struct part *t = find(p, QUERY_BIAS);
    t->rank = 2;
    t->shape[1] = 1;
}
static void transpose_the_feed_forward(struct parts *p)
{
    struct part *t = find(p, "roformer.encoder.layer.0.intermediate.dense.weight");
    t->shape[0] = 48;
    t->shape[1] = 96;
}
static void make_query_integers(struct parts *p)
{
    find(p, QUERY)->dtype = "I32";
}
static void gain_a_scale(struct parts *p)
{
    add(p, QUERY ".scale", find(p, QUERY_BIAS));
}
static void put_nan(struct parts *p)
{
    float nan_value = NAN;
    struct part *t = find(p, QUERY);
    memcpy(t->data + t->bytes - 4, &nan_value, 4);
}
static void put_infinity(struct parts *p)
{
    float infinite = -INFINITY;
    memcpy(find(p, WORD)->data + 4 * 5000, &infinite, 4);
}
static void put_nan_behind_all_others(struct parts *p) /* of many, and no round number */
{
    float nan_value = NAN;
    struct part *t = find(p, WORD);
    ck_assert(t->bytes / 4 > 30000 && t->bytes / 4 % 1024 != 0);
    memcpy(t->data + t->bytes - 4, &nan_value, 4);
}
static void put_a_double_beyond_float(struct parts *p)
{
    double large = 1e300;
    struct part *t = find(p, QUERY_BIAS);
    to_dtype(t, "F64");
    memcpy(t->data, &large, 8);
}
static void put_half_infinity(struct parts *p)
{
    struct part *t = find(p, QUERY_BIAS);
    to_dtype(t, "F16");
    t->data[1] = 0x7c;
    t->data[0] = 0;
}
static void shrink_the_sines(struct parts *p)
{
    struct part *t = find(p, SINES);
    t->shape[0] = 256;
    t->bytes /= 2;
}
static void change_the_last_cosine(struct parts *p)
{
    struct part *t = find(p, SINES);
    float x;
    memcpy(&x, t->data + t->bytes - 4, 4);
    x -= 0.01f;
    memcpy(t->data + t->bytes - 4, &x, 4);
}
static void put_nan_for_a_sine(struct parts *p)
{
    float nan_value = NAN;
    memcpy(find(p, SINES)->data + 4 * 12, &nan_value, 4);
}
static void make_sines_integers(struct parts *p)
{
    find(p, SINES)->dtype = "I32";
}
static void untie_the_decoder(struct parts *p)
{
    add(p, "cls.predictions.decoder.weight", find(p, WORD))->data[7] ^= 1;
}
static void untie_the_decoder_bias(struct parts *p)
{
    add(p, "cls.predictions.decoder.bias", find(p, "cls.predictions.bias"))->data[0] ^= 1;
}
static void store_the_decoder_as_half(struct parts *p)
{
    to_dtype(add(p, "cls.predictions.decoder.weight", find(p, WORD)), "F16");
}

static const struct mutation mutations[] = {
    {lose_query, "tensor " QUERY " is missing"},
    {lose_part_of_the_head,
     "tensor " HEAD " is missing, the other tensors of the masked-LM head"},
    {lose_all_but_one_of_the_head, "is missing, the other tensors of the masked-LM head"},
    {gain_a_layer, "roformer.encoder.layer.3.attention.self.query.weight: has no place"},
    {gain_a_stranger, "some?thing.weight: has no place in this model"},
    {gain_a_name_twice_over, "encoder.layer.1.attention.self.query.weight: has no place"},
    {turn_query_bias_2d, QUERY_BIAS ": its shape is 48 x 1, config.json wants 48"},
    {transpose_the_feed_forward, "its shape is 48 x 96, config.json wants 96 x 48"},
    {make_query_integers, QUERY ": matrices are F32, F16, BF16, I8 or F64, not I32"},
    {gain_a_scale, QUERY ".scale: has no place in this model"},
    {put_nan, QUERY ": holds a value that is not finite"},
    {put_infinity, WORD ": holds a value that is not finite"},
    {put_nan_behind_all_others, WORD ": holds a value that is not finite"},
    {put_a_double_beyond_float, QUERY_BIAS ": holds a value that is not finite as float32"},
    {put_half_infinity, QUERY_BIAS ": holds a value that is not finite"},
    {shrink_the_sines, SINES ": must be max_position_embeddings 512 x head size 12"},
    {change_the_last_cosine, SINES ": holds others than the sines and cosines of rotary"},
    {put_nan_for_a_sine, SINES ": holds others than the sines and cosines of rotary"},
    {make_sines_integers, SINES ": holds others than the sines and cosines of rotary"},
    {untie_the_decoder, "cls.predictions.decoder.weight: differs from the table of tokens"},
    {untie_the_decoder_bias,
     "cls.predictions.decoder.bias: differs from the table of tokens or the bias"},
    {store_the_decoder_as_half,
     "differs from the table of tokens or the bias that it is tied to"},
};

START_TEST(each_kind_of_lie_about_the_weights_is_named)
{
    copy_golden(GOLDEN, "model.safetensors");
    struct parts *parts = parts_of(GOLDEN "/model.safetensors");
    mutations[_i].change(parts);
    put_parts(parts, 0);
    parts_free(parts);
    refused(KMF_EMODEL, mutations[_i].says);
}
END_TEST

/* No two matrices of a new model are alike, of whichever layer: of as many numbers all differ. */
START_TEST(each_matrix_of_a_new_model_is_drawn_by_itself)
{
    kmf_config c;
    ck_assert_int_eq(kmf_config_preset(&c, "nano", 2, NULL), 0);
    kmf_model *m = kmf_model_new(&c, 1, NULL);
    ck_assert_ptr_nonnull(m);
    const float *matrices[64];
    size_t n = 0, size = c.hidden_size * c.hidden_size;
    for (size_t l = 0; l < c.n_layers; l++) {
        const kmf_layer *layer = &m->params.layers[l];
        const float *const own[] = {layer->wq, layer->wk, layer->wv, layer->wo};
        for (size_t i = 0; i < 4; i++)
            matrices[n++] = own[i];
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            ck_assert(memcmp(matrices[i], matrices[j], size * sizeof(float)) != 0);
    kmf_model_free(m);
}
END_TEST

START_TEST(a_cut_off_weight_file_is_refused_wherever_it_is_cut)
{
    size_t len;
    copy_golden(GOLDEN, "model.safetensors");
    char *bytes = get(GOLDEN "/model.safetensors", &len);
    static const size_t cuts[] = {0, 7, 8, 9, 100, 6711, 6712, 6713, 200000, 408011};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        kmf_err err = {0};
        put(in_dir("model.safetensors"), bytes, cuts[i]);
        ck_assert_ptr_null(kmf_model_load(dir, &err));
        ck_assert_int_eq(err.code, KMF_EMODEL);
    }
    kmf_free(bytes);
}
END_TEST

/* ---- what must be tolerated -------------------------------------------------------------- */

static void drop_sines(struct parts *p)
{
    drop(p, SINES);
}

static void add_the_usual_extras(struct parts *p)
{
    struct part *ids = add(p, "roformer.embeddings.position_ids", find(p, QUERY_BIAS));
    ids->dtype = "I64";
    ids->shape[0] = 24;
    add(p, "roformer.contact_head.regression.weight", find(p, QUERY));
    add(p, "contact_head.regression.bias", find(p, QUERY_BIAS));
    add(p, "cls.seq_relationship.weight", find(p, QUERY));
    add(p, "cls.predictions.decoder.weight", find(p, WORD));
    add(p, "cls.predictions.decoder.bias", find(p, "cls.predictions.bias"));
}

static void widen_some(struct parts *p)
{
    to_dtype(find(p, QUERY), "F64");
    to_dtype(find(p, WORD), "F64");
}
static void halve_sines(struct parts *p)
{
    to_dtype(find(p, SINES), "F16");
}
static void halve_sines_to_bfloat(struct parts *p)
{
    to_dtype(find(p, SINES), "BF16");
}

static void (*const tolerated[])(struct parts *) = {
    rename_bare,          rename_norms, rename_both, drop_sines,  halve_sines_to_bfloat,
    add_the_usual_extras, turn_around,  widen_some,  halve_sines,
};

START_TEST(names_order_and_extras_of_other_writers_are_tolerated)
{
    kmf_err err = {0};
    copy_golden(GOLDEN, "model.safetensors");
    struct parts *parts = parts_of(GOLDEN "/model.safetensors");
    tolerated[_i](parts);
    put_parts(parts, 0);
    parts_free(parts);
    kmf_model *golden = kmf_model_load(GOLDEN, &err);
    kmf_model *model = loaded();
    assert_same_weights(golden, model);
    kmf_model_free(golden);
    kmf_model_free(model);
}
END_TEST

START_TEST(weights_at_odd_addresses_are_copied)
{
    kmf_err err = {0};
    kmf_model *golden = kmf_model_load(GOLDEN, &err);
    for (size_t shift = 1; shift <= 4; shift++) {
        copy_golden(GOLDEN, "model.safetensors");
        struct parts *parts = parts_of(GOLDEN "/model.safetensors");
        put_parts(parts, shift);
        parts_free(parts);
        kmf_model *model = loaded();
        ck_assert_int_eq(model->slab != NULL, shift != 4);
        assert_same_weights(golden, model);
        kmf_model_free(model);
    }
    kmf_model_free(golden);
}
END_TEST

START_TEST(half_floats_are_widened)
{
    copy_golden(GOLDEN, "model.safetensors");
    struct parts *parts = parts_of(GOLDEN "/model.safetensors");
    float word;
    float query;
    memcpy(&word, find(parts, WORD)->data + 400, 4);
    memcpy(&query, find(parts, QUERY)->data + 400, 4);
    to_dtype(find(parts, WORD), "F16");
    to_dtype(find(parts, QUERY), "BF16");
    put_parts(parts, 0);
    parts_free(parts);
    kmf_model *m = loaded();
    ck_assert(m->params.word[100] == kmf_f16_to_f32(kmf_f16_from_f32(word)));
    ck_assert(m->params.layers[1].wq[100] == kmf_bf16_to_f32(kmf_bf16_from_f32(query)));
    for (size_t i = 0; i < m->n_tensors; i++) {
        bool is_word = strcmp(m->tensors[i].name, WORD) == 0;
        bool is_query = strcmp(m->tensors[i].name, QUERY) == 0;
        ck_assert_int_eq(m->tensors[i].dtype, is_word    ? KMF_F16
                                              : is_query ? KMF_BF16
                                                         : KMF_F32);
    }
    kmf_model_free(m);
}
END_TEST

START_TEST(a_model_without_head_loads_and_saves)
{
    kmf_err err = {0};
    copy_golden(GOLDEN, "model.safetensors");
    struct parts *parts = parts_of(GOLDEN "/model.safetensors");
    lose_all_but_one_of_the_head(parts);
    drop(parts, "cls.predictions.bias");
    put_parts(parts, 0);
    parts_free(parts);
    kmf_model *m = loaded();
    ck_assert_ptr_null(m->params.head_w);
    ck_assert_ptr_null(m->params.head_bias);
    ck_assert_uint_eq(kmf_model_n_tensors(m), 6 + 3 * 16);
    ck_assert_int_eq(kmf_model_save(m, in_dir("saved"), KMF_F32, NULL, &err), 0);
    kmf_model *again = kmf_model_load(in_dir("saved"), &err);
    ck_assert_msg(again != NULL, "%s", err.msg);
    assert_same_weights(m, again);
    ck_assert_ptr_null(again->params.head_w);
    kmf_model_free(m);
    kmf_model_free(again);
}
END_TEST

/* ---- memory ------------------------------------------------------------------------------ */

START_TEST(loading_survives_every_failed_allocation)
{
    kmf_model *m = NULL;
    copy_golden(GOLDEN_VALUE, "model.safetensors");
    struct parts *parts = parts_of(GOLDEN_VALUE "/model.safetensors");
    put_parts(parts, 1); /* odd addresses: the slab is needed too */
    parts_free(parts);
    for (size_t n = 1; !m; n++) {
        kmf_err err = {0};
        kmf_mem_fail_at(n);
        m = kmf_model_load(dir, &err);
        kmf_mem_fail_at(0);
        ck_assert_msg(err.code == (m ? KMF_OK : KMF_ENOMEM), "%zu: %s", n, err.msg);
        ck_assert_uint_lt(n, 10000);
    }
    kmf_model_free(m);
}
END_TEST

int main(void)
{
    TCase *tc = untimed_case();
    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_add_test(tc, a_published_checkpoint_loads_with_every_tensor_in_its_place);
    tcase_add_test(tc, the_tensor_list_is_by_name_with_shapes);
    tcase_add_test(tc, a_checkpoint_without_projection_has_none);
    tcase_add_loop_test(tc, each_kind_of_lie_about_the_weights_is_named, 0,
                        (int)(sizeof mutations / sizeof mutations[0]));
    tcase_add_test(tc, each_matrix_of_a_new_model_is_drawn_by_itself);
    tcase_add_test(tc, a_cut_off_weight_file_is_refused_wherever_it_is_cut);
    tcase_add_loop_test(tc, names_order_and_extras_of_other_writers_are_tolerated, 0,
                        (int)(sizeof tolerated / sizeof tolerated[0]));
    tcase_add_test(tc, weights_at_odd_addresses_are_copied);
    tcase_add_test(tc, half_floats_are_widened);
    tcase_add_test(tc, a_model_without_head_loads_and_saves);
    tcase_add_test(tc, loading_survives_every_failed_allocation);
    return run_case("weights", tc);
}
