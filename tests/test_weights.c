/* SPDX-License-Identifier: MIT */
/*
 * Second sources: the golden checkpoints, whose bytes a Python program laid out and whose
 * header this test reads with jansson by itself; parameter counts and shapes added up by hand.
 * Every mutation of a golden file must be refused in words that name it.
 */
#include "base/half.h"
#include "base/json.h"
#include "base/rng.h"
#include "checked.h"
#include "model/safetensors.h"
#include "model/weights.h"
#include "models.h"
#include "nn/panels.h"
#include "run.h"

#include <math.h>
#include <stdbool.h>

/* ---- golden checkpoints ------------------------------------------------------------------ */

/* The tensor `name` of a safetensors file, found with jansson alone. */
static const float *tensor_of(const char *bytes, const char *name, size_t *n)
{
    uint64_t h;
    memcpy(&h, bytes, 8);
    json_t *header = json_loadb(bytes + 8, h, 0, NULL);
    json_t *offsets = json_object_get(json_object_get(header, name), "data_offsets");
    ck_assert_msg(json_array_size(offsets) == 2, "%s", name);
    size_t beg = (size_t)json_integer_value(json_array_get(offsets, 0));
    size_t end = (size_t)json_integer_value(json_array_get(offsets, 1));
    json_decref(header);
    *n = (end - beg) / 4;
    return (const float *)(const void *)(bytes + 8 + h + beg);
}

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

/* A list of tensors with their data, to be changed and laid out anew. */
struct part {
    char name[700];
    const char *dtype;
    size_t item_bytes;
    size_t shape[KMF_SAFETENSORS_RANK_MAX];
    int rank;
    unsigned char *data; /* owned */
    size_t bytes;
};
struct parts {
    struct part part[128];
    size_t n;
};

static struct parts *parts_of(const char *path)
{
    size_t len;
    kmf_safetensors st;
    kmf_err err = {0};
    char *bytes = get(path, &len);
    struct parts *parts = calloc(1, sizeof *parts);
    ck_assert_int_eq(kmf_safetensors_parse(&st, (unsigned char *)bytes, len, path, &err), 0);
    for (size_t i = 0; i < st.n; i++) {
        const kmf_stored *t = &st.tensors[i];
        struct part *p = &parts->part[parts->n++];
        snprintf(p->name, sizeof p->name, "%s", t->name);
        p->dtype = t->dtype;
        p->item_bytes = t->item_bytes;
        memcpy(p->shape, t->shape, sizeof p->shape);
        p->rank = t->rank;
        p->bytes = t->bytes;
        p->data = malloc(t->bytes);
        memcpy(p->data, st.data + t->begin, t->bytes);
    }
    kmf_safetensors_free(&st);
    kmf_free(bytes);
    return parts;
}

static void parts_free(struct parts *parts)
{
    for (size_t i = 0; i < parts->n; i++)
        free(parts->part[i].data);
    free(parts);
}

static struct part *find(struct parts *parts, const char *name)
{
    for (size_t i = 0; i < parts->n; i++)
        if (strcmp(parts->part[i].name, name) == 0)
            return &parts->part[i];
    ck_abort_msg("no tensor %s", name);
    return NULL;
}

/* A file of the parts, shifted by `shift` bytes of spaces in its header. */
static unsigned char *laid_out(const struct parts *parts, size_t shift, size_t *len)
{
    kmf_stored list[128];
    kmf_err err = {0};
    size_t begin = 0;
    size_t header_len;
    memset(list, 0, sizeof list);
    for (size_t i = 0; i < parts->n; i++) {
        const struct part *p = &parts->part[i];
        list[i].name = p->name;
        list[i].dtype = p->dtype;
        memcpy(list[i].shape, p->shape, sizeof p->shape);
        list[i].rank = p->rank;
        list[i].begin = begin;
        list[i].bytes = p->bytes;
        begin += p->bytes;
    }
    char *header = kmf_safetensors_header(list, parts->n, NULL, 0, &header_len, &err);
    ck_assert_msg(header != NULL, "%s", err.msg);
    unsigned char *bytes = malloc(header_len + shift + begin);
    memcpy(bytes, header, header_len);
    memset(bytes + header_len, ' ', shift);
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((header_len + shift - 8) >> 8 * i & 0xff);
    size_t at = header_len + shift;
    for (size_t i = 0; i < parts->n; i++) {
        memcpy(bytes + at, parts->part[i].data, parts->part[i].bytes);
        at += parts->part[i].bytes;
    }
    *len = at;
    kmf_free(header);
    return bytes;
}

static void put_parts(const struct parts *parts, size_t shift)
{
    size_t len;
    unsigned char *bytes = laid_out(parts, shift, &len);
    put(in_scratch("model.safetensors"), bytes, len);
    free(bytes);
}

static struct part *add(struct parts *parts, const char *name, const struct part *like)
{
    struct part *p = &parts->part[parts->n++];
    *p = *like;
    snprintf(p->name, sizeof p->name, "%s", name);
    p->data = malloc(like->bytes);
    memcpy(p->data, like->data, like->bytes);
    return p;
}

static void drop(struct parts *parts, const char *name)
{
    struct part *p = find(parts, name);
    free(p->data);
    *p = parts->part[--parts->n];
}

static void to_dtype(struct part *p, const char *dtype)
{
    size_t n = p->bytes / 4;
    size_t item = strcmp(dtype, "F64") == 0 ? 8 : 2;
    unsigned char *data = malloc(n * item);
    for (size_t i = 0; i < n; i++) {
        float x;
        memcpy(&x, p->data + 4 * i, 4);
        double wide = (double)x;
        uint16_t half = dtype[0] == 'B' ? kmf_bf16_from_f32(x) : kmf_f16_from_f32(x);
        if (item == 8)
            memcpy(data + 8 * i, &wide, 8);
        else
            memcpy(data + 2 * i, &half, 2);
    }
    free(p->data);
    p->data = data;
    p->dtype = dtype;
    p->bytes = n * item;
}

#define WORD "roformer.embeddings.word_embeddings.weight"
#define QUERY "roformer.encoder.layer.1.attention.self.query.weight"
#define QUERY_BIAS "roformer.encoder.layer.1.attention.self.query.bias"
#define SINES "roformer.encoder.embed_positions.weight"
#define HEAD "cls.predictions.transform.dense.weight"

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

static const struct mutation {
    void (*change)(struct parts *parts);
    const char *says;
} mutations[] = {
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
        put(in_scratch("model.safetensors"), bytes, cuts[i]);
        ck_assert_ptr_null(kmf_model_load(scratch, &err));
        ck_assert_int_eq(err.code, KMF_EMODEL);
    }
    kmf_free(bytes);
}
END_TEST

/* ---- what must be tolerated -------------------------------------------------------------- */

static kmf_model *loaded(void)
{
    kmf_err err = {0};
    kmf_model *model = kmf_model_load(scratch, &err);
    ck_assert_msg(model != NULL, "%s", err.msg);
    return model;
}

static void rename_bare(struct parts *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (strncmp(p->part[i].name, "roformer.", 9) == 0)
            memmove(p->part[i].name, p->part[i].name + 9, strlen(p->part[i].name + 9) + 1);
}
static void rename_norms(struct parts *p)
{
    for (size_t i = 0; i < p->n; i++) {
        char *norm = strstr(p->part[i].name, "LayerNorm.");
        if (norm)
            strcpy(norm + 10, norm[10] == 'w' ? "gamma" : "beta");
    }
}
static void rename_both(struct parts *p)
{
    rename_bare(p);
    rename_norms(p);
}
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
static void turn_around(struct parts *p)
{
    for (size_t i = 0; i < p->n / 2; i++) {
        struct part t = p->part[i];
        p->part[i] = p->part[p->n - 1 - i];
        p->part[p->n - 1 - i] = t;
    }
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
    ck_assert_int_eq(kmf_model_save(m, in_scratch("saved"), KMF_F32, NULL, &err), 0);
    kmf_model *again = kmf_model_load(in_scratch("saved"), &err);
    ck_assert_msg(again != NULL, "%s", err.msg);
    assert_same_weights(m, again);
    ck_assert_ptr_null(again->params.head_w);
    kmf_model_free(m);
    kmf_model_free(again);
}
END_TEST

/* ---- 8 bits ------------------------------------------------------------------------------ */

/* The golden model with weights of 8 bits, in "q"; its parts. */
static struct parts *in_8_bits(const char *golden)
{
    kmf_err err = {0};
    kmf_model *m = kmf_model_load(golden, &err);
    ck_assert_msg(m != NULL, "%s", err.msg);
    ck_assert_msg(kmf_model_save(m, in_scratch("q"), KMF_I8, NULL, &err) == 0, "%s", err.msg);
    kmf_model_free(m);
    copy_golden(golden, "model.safetensors");
    return parts_of(in_scratch("q/model.safetensors"));
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
    char *file = get(in_scratch("q/model.safetensors"), &len);
    kmf_model *m = kmf_model_load(GOLDEN, &err);
    kmf_model *l = kmf_model_load(in_scratch("q"), &err);
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
    kmf_model *want = kmf_model_load(in_scratch("q"), &err);
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
        m = kmf_model_load(scratch, &err);
        kmf_mem_fail_at(0);
        ck_assert_msg(err.code == (m ? KMF_OK : KMF_ENOMEM), "%zu: %s", n, err.msg);
        ck_assert_uint_lt(n, 10000);
    }
    kmf_model_free(m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("weights");
    TCase *tc = tcase_create("weights");
    tcase_set_timeout(tc, 0);
    tcase_add_checked_fixture(tc, set_up, tear_down);
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
    tcase_add_loop_test(tc, each_kind_of_lie_about_8_bits_is_named, 0,
                        (int)(sizeof mutations_8_bits / sizeof mutations_8_bits[0]));
    tcase_add_test(tc, matrices_of_the_products_are_of_8_bits_and_half_a_step_off_at_most);
    tcase_add_loop_test(tc, names_order_and_addresses_are_free_in_8_bits_too, 0,
                        (int)(sizeof tolerated_8_bits / sizeof tolerated_8_bits[0]));
    tcase_add_test(tc, rounding_to_8_bits_twice_is_rounding_once);
    tcase_add_test(tc, loading_survives_every_failed_allocation);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
