/* SPDX-License-Identifier: MIT */
/*
 * Second sources: the golden checkpoints, whose bytes a Python program laid out and whose
 * header this test reads with jansson by itself; parameter counts and shapes added up by hand.
 * Every mutation of a golden file must be refused in words that name it.
 */
#include "base/err.h"
#include "base/half.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rng.h"
#include "model/config.h"
#include "model/locate.h"
#include "model/model.h"
#include "model/safetensors.h"
#include "model/weights.h"

#include <check.h>
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define GOLDEN "tests/golden/roformer"
#define GOLDEN_VALUE "tests/golden/roformer-rotary-value"

/* ---- files ------------------------------------------------------------------------------- */

static char scratch[256]; /* a directory of each test's own */

static void set_up(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(scratch, sizeof scratch, "%s/kmf_store_XXXXXX", tmp ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(scratch));
}

/* Whatever is in it goes, two levels deep. */
static void empty_dir(const char *dir)
{
    DIR *entries = opendir(dir);
    if (!entries)
        return;
    for (struct dirent *e = readdir(entries); e; e = readdir(entries)) {
        char path[1024];
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (unlink(path) != 0) {
            empty_dir(path);
            rmdir(path);
        }
    }
    closedir(entries);
}

static void tear_down(void)
{
    empty_dir(scratch);
    ck_assert_int_eq(rmdir(scratch), 0);
}

static int n_entries(const char *dir)
{
    int n = -2;
    DIR *entries = opendir(dir);
    ck_assert_ptr_nonnull(entries);
    while (readdir(entries))
        n++;
    closedir(entries);
    return n;
}

static const char *in_scratch(const char *name)
{
    static char path[4][512];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", scratch, name);
    return path[turn];
}

static void put(const char *path, const void *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    ck_assert_msg(file != NULL, "%s", path);
    ck_assert_uint_eq(fwrite(bytes, 1, len, file), len);
    ck_assert_int_eq(fclose(file), 0);
}

static char *get(const char *path, size_t *len)
{
    kmf_err err = {0};
    char *bytes = kmf_file_read(path, (size_t)1 << 30, len, &err);
    ck_assert_msg(bytes != NULL, "%s", err.msg);
    return bytes;
}

/* A copy of a golden model in the scratch directory, without the files named in `but`. */
static void copy_golden(const char *golden, const char *but)
{
    static const char *const names[] = {"config.json", "vocab.txt", "model.safetensors"};
    for (size_t i = 0; i < 3; i++) {
        char from[256];
        size_t len;
        if (strstr(but, names[i]))
            continue;
        snprintf(from, sizeof from, "%s/%s", golden, names[i]);
        char *bytes = get(from, &len);
        put(in_scratch(names[i]), bytes, len);
        kmf_free(bytes);
    }
}

/* Loading the scratch directory must fail with code and say so. */
static void refused(kmf_code code, const char *says)
{
    kmf_err err = {0};
    kmf_model *model = kmf_model_load(scratch, &err);
    ck_assert_msg(!model, "loaded, should say '%s'", says);
    ck_assert_msg(err.code == code, "%d: %s", err.code, err.msg);
    ck_assert_msg(strstr(err.msg, says), "'%s' does not say '%s'", err.msg, says);
}

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
    char *header = kmf_safetensors_header(list, parts->n, &header_len, &err);
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
    {make_query_integers, QUERY ": weights are F32, F16, BF16 or F64, not I32"},
    {put_nan, QUERY ": holds a value that is not finite"},
    {put_infinity, WORD ": holds a value that is not finite"},
    {put_a_double_beyond_float, QUERY_BIAS ": holds a value that is not finite as float32"},
    {put_half_infinity, QUERY_BIAS ": holds a value that is not finite"},
    {shrink_the_sines, SINES ": must be max_position_embeddings 512 x head size 12"},
    {untie_the_decoder, "cls.predictions.decoder.weight: differs from " WORD},
    {untie_the_decoder_bias, "cls.predictions.decoder.bias: differs from cls.predictions.bias"},
    {store_the_decoder_as_half, "a head that is not tied is not supported"},
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

/* ---- what must be tolerated -------------------------------------------------------------- */

static kmf_model *loaded(void)
{
    kmf_err err = {0};
    kmf_model *model = kmf_model_load(scratch, &err);
    ck_assert_msg(model != NULL, "%s", err.msg);
    return model;
}

static void assert_same_weights(const kmf_model *a, const kmf_model *b)
{
    const kmf_config *c = &a->config;
    size_t D = c->hidden_size;
    ck_assert_uint_eq(a->n_tensors, b->n_tensors);
    ck_assert_int_eq(memcmp(a->params.word, b->params.word,
                            c->vocab_size * c->embedding_size * sizeof(float)),
                     0);
    for (size_t l = 0; l < c->n_layers; l++) {
        const kmf_layer *x = &a->params.layers[l];
        const kmf_layer *y = &b->params.layers[l];
        ck_assert_int_eq(memcmp(x->wq, y->wq, D * D * sizeof(float)), 0);
        ck_assert_int_eq(memcmp(x->wv, y->wv, D * D * sizeof(float)), 0);
        ck_assert_int_eq(memcmp(x->bo, y->bo, D * sizeof(float)), 0);
        ck_assert_int_eq(memcmp(x->ln2_w, y->ln2_w, D * sizeof(float)), 0);
        ck_assert_int_eq(memcmp(x->w2, y->w2, D * c->intermediate_size * sizeof(float)), 0);
    }
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
    add(p, "roformer.pooler.dense.weight", find(p, QUERY));
    add(p, "pooler.dense.bias", find(p, QUERY_BIAS));
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

static void (*const tolerated[])(struct parts *) = {
    rename_bare,          rename_norms, rename_both, drop_sines,
    add_the_usual_extras, turn_around,  widen_some};

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

/* ---- the directory ----------------------------------------------------------------------- */

START_TEST(a_directory_that_is_no_model_is_refused_in_words)
{
    kmf_err err = {0};
    ck_assert_ptr_null(kmf_model_load(in_scratch("nowhere"), &err));
    ck_assert_int_eq(err.code, KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "nowhere: No such file or directory"));
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_model_load(GOLDEN "/config.json", &err));
    ck_assert_int_eq(err.code, KMF_EMODEL);
    ck_assert_ptr_nonnull(strstr(err.msg, "config.json: not a directory"));
    refused(KMF_EMODEL, "no config.json in it");
    copy_golden(GOLDEN, "vocab.txt model.safetensors");
    refused(KMF_EMODEL, "no vocab.txt in it");
    copy_golden(GOLDEN, "model.safetensors");
    refused(KMF_EMODEL, "no model.safetensors in it");
    put(in_scratch("pytorch_model.bin"), "x", 1);
    refused(KMF_EMODEL, "no model.safetensors in it but pytorch_model.bin");
    put(in_scratch("model.safetensors.index.json"), "{}", 2);
    refused(KMF_EMODEL, "but model.safetensors.index.json");
    put(in_scratch("model.safetensors"), "", 0);
    refused(KMF_EMODEL, "0 bytes are too short");
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_an_input_error)
{
    copy_golden(GOLDEN, "");
    if (geteuid() == 0) {
        ck_assert_int_eq(unlink(in_scratch("model.safetensors")), 0);
        ck_assert_int_eq(mkdir(in_scratch("model.safetensors"), 0777), 0);
        refused(KMF_EIO, "not a regular file");
        ck_assert_int_eq(unlink(in_scratch("config.json")), 0);
        ck_assert_int_eq(mkdir(in_scratch("config.json"), 0777), 0);
        refused(KMF_EIO, "config.json: Is a directory");
        return;
    }
    ck_assert_int_eq(chmod(in_scratch("model.safetensors"), 0), 0);
    refused(KMF_EIO, "model.safetensors: Permission denied");
    ck_assert_int_eq(chmod(in_scratch("config.json"), 0), 0);
    refused(KMF_EIO, "config.json: Permission denied");
}
END_TEST

START_TEST(config_and_vocabulary_must_go_together)
{
    size_t len;
    copy_golden(GOLDEN, "vocab.txt");
    char *text = get(GOLDEN "/vocab.txt", &len);
    put(in_scratch("vocab.txt"), text, len - 6);
    refused(KMF_EMODEL, "config.json: vocab_size is 1029, but vocab.txt has 1028 tokens");
    kmf_free(text);
    copy_golden(GOLDEN, "");
    put(in_scratch("config.json"), "{\"model_type\":\"bert\"}", 21);
    refused(KMF_EMODEL, "config.json: model_type bert does not work here");
}
END_TEST

START_TEST(a_config_that_promises_more_layers_is_held_to_it)
{
    size_t len;
    copy_golden(GOLDEN, "");
    char *text = get(GOLDEN "/config.json", &len);
    char *layers = strstr(text, "\"num_hidden_layers\": 3");
    ck_assert_ptr_nonnull(layers);
    layers[21] = '4';
    put(in_scratch("config.json"), text, len);
    refused(KMF_EMODEL, "roformer.encoder.layer.3.attention.output.LayerNorm.bias is missing");
    layers[21] = '2';
    put(in_scratch("config.json"), text, len);
    refused(KMF_EMODEL,
            "roformer.encoder.layer.2.attention.output.LayerNorm.bias: has no place");
    kmf_free(text);
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

/* ---- the default model ------------------------------------------------------------------- */

START_TEST(the_variable_names_the_default_model)
{
    kmf_err err = {0};
    ck_assert_int_eq(setenv("KMERFORMER_MODEL", GOLDEN, 1), 0);
    kmf_model *m = kmf_model_load(NULL, &err);
    ck_assert_msg(m != NULL, "%s", err.msg);
    ck_assert_str_eq(kmf_model_path(m), GOLDEN);
    kmf_model_free(m);
    ck_assert_int_eq(setenv("KMERFORMER_MODEL", "/nowhere/at all", 1), 0);
    ck_assert_ptr_null(kmf_model_load(NULL, &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "/nowhere/at all"));
    unsetenv("KMERFORMER_MODEL");
}
END_TEST

START_TEST(without_it_the_places_looked_at_are_named_or_one_is_found)
{
    kmf_err err = {0};
    unsetenv("KMERFORMER_MODEL");
    char *path = kmf_locate_default(&err);
    if (path) {
        char config[4096];
        snprintf(config, sizeof config, "%s/config.json", path);
        ck_assert_int_eq(access(config, F_OK), 0);
        kmf_free(path);
        return;
    }
    ck_assert_int_eq(err.code, KMF_EMODEL);
    ck_assert_ptr_nonnull(strstr(err.msg, "KMERFORMER_MODEL"));
    ck_assert_ptr_nonnull(strstr(err.msg, "/../data/default"));
    ck_assert_ptr_nonnull(strstr(err.msg, "/../share/kmerformer/default"));
}
END_TEST

/* ---- new models -------------------------------------------------------------------------- */

static kmf_model *new_nano(int k, uint64_t seed)
{
    kmf_config c;
    kmf_err err = {0};
    ck_assert_int_eq(kmf_config_preset(&c, "nano", k, &err), 0);
    kmf_model *m = kmf_model_new(&c, seed, &err);
    ck_assert_msg(m != NULL, "%s", err.msg);
    return m;
}

START_TEST(a_new_model_has_the_weights_its_seed_and_place_say)
{
    kmf_model *m = new_nano(3, 42);
    /* rows of the table: word 0, query 6; layer 2 has streams from 3 x 2^16 on */
    kmf_rng word = kmf_rng_stream(42, 0);
    for (size_t i = 0; i < 69 * 128; i++)
        ck_assert(m->params.word[i] == kmf_rng_normal(&word) * 0.02f);
    kmf_rng query = kmf_rng_stream(42, 3 * 65536 + 6);
    for (size_t i = 0; i < 128 * 128; i++)
        ck_assert(m->params.layers[2].wq[i] == kmf_rng_normal(&query) * 0.02f);
    for (size_t i = 0; i < 128; i++) {
        ck_assert(m->params.layers[2].bq[i] == 0.0f);
        ck_assert(m->params.layers[2].ln1_w[i] == 1.0f);
        ck_assert(m->params.layers[2].ln1_b[i] == 0.0f);
        ck_assert(m->params.head_ln_w[i] == 1.0f);
    }
    ck_assert_ptr_null(m->params.proj_w);
    ck_assert_uint_eq(kmf_model_n_parameters(m), kmf_config_parameters(&m->config, 1));
    ck_assert_str_eq(kmf_model_path(m), "");
    ck_assert_uint_eq(kmf_vocab_size(kmf_model_vocab(m)), 69);
    kmf_model_free(m);
}
END_TEST

START_TEST(the_first_weights_have_these_very_bits)
{
    /* Worked out in Python's integers from the equations of rng.h and rounded once. */
    static const uint32_t want[] = {0x3d35bfaeu, 0x3b9a7ae1u, 0x3bcde147u, 0xbca04852u};
    kmf_model *m = new_nano(3, 42);
    for (size_t i = 0; i < 4; i++) {
        uint32_t bits;
        memcpy(&bits, &m->params.word[i], 4);
        ck_assert_msg(bits == want[i], "%zu: %08x", i, bits);
    }
    kmf_model_free(m);
}
END_TEST

START_TEST(a_config_out_of_range_makes_no_model)
{
    kmf_config c;
    kmf_err err = {0};
    ck_assert_int_eq(kmf_config_preset(&c, "nano", 3, &err), 0);
    c.vocab_size = 70;
    ck_assert_ptr_null(kmf_model_new(&c, 1, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    ck_assert_str_eq(err.msg, "model: vocab_size is 70, but k 3 gives 69 tokens");
    err = (kmf_err){0};
    c.vocab_size = 69;
    c.n_heads = 5;
    ck_assert_ptr_null(kmf_model_new(&c, 1, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
}
END_TEST

/* ---- saving ------------------------------------------------------------------------------ */

static void assert_same_file(const char *a, const char *b, const char *name)
{
    char path[1024];
    size_t n;
    size_t m;
    snprintf(path, sizeof path, "%s/%s", a, name);
    char *x = get(path, &n);
    snprintf(path, sizeof path, "%s/%s", b, name);
    char *y = get(path, &m);
    ck_assert_msg(n == m && memcmp(x, y, n) == 0, "%s", name);
    kmf_free(x);
    kmf_free(y);
}

static void assert_same_dirs(const char *a, const char *b)
{
    ck_assert_int_eq(n_entries(a), 4);
    ck_assert_int_eq(n_entries(b), 4);
    assert_same_file(a, b, "config.json");
    assert_same_file(a, b, "vocab.txt");
    assert_same_file(a, b, "tokenizer_config.json");
    assert_same_file(a, b, "model.safetensors");
}

START_TEST(save_load_save_gives_the_same_bytes)
{
    static const kmf_dtype dtypes[] = {KMF_F32, KMF_F16, KMF_BF16};
    kmf_err err = {0};
    kmf_model *m = new_nano(2, 7);
    const char *kept = "{\"command\":\"kmerformer pretrain x.fa\",\"loss\":1.2345,\"a\":null}";
    int rc = kmf_model_save(m, in_scratch("one"), dtypes[_i], kept, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    kmf_model *n = kmf_model_load(in_scratch("one"), &err);
    ck_assert_msg(n != NULL, "%s", err.msg);
    ck_assert_str_eq(kmf_model_provenance(n), kept);
    rc = kmf_model_save(n, in_scratch("two/"), dtypes[_i], NULL, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    assert_same_dirs(in_scratch("one"), in_scratch("two"));
    if (dtypes[_i] == KMF_F32)
        assert_same_weights(m, n);
    ck_assert_int_eq(n_entries(scratch), 2);
    kmf_model_free(m);
    kmf_model_free(n);
}
END_TEST

START_TEST(a_published_checkpoint_saved_keeps_every_weight)
{
    kmf_err err = {0};
    size_t len;
    kmf_model *m = kmf_model_load(GOLDEN, &err);
    ck_assert_int_eq(kmf_model_save(m, in_scratch("s"), KMF_F32, NULL, &err), 0);
    kmf_model *n = kmf_model_load(in_scratch("s"), &err);
    ck_assert_msg(n != NULL, "%s", err.msg);
    assert_same_weights(m, n);
    assert_same_file(GOLDEN, in_scratch("s"), "vocab.txt");
    char *text = get(in_scratch("s/tokenizer_config.json"), &len);
    ck_assert_str_eq(text, "{\"do_lower_case\": false, \"model_max_length\": 512}\n");
    kmf_free(text);
    kmf_model_free(m);
    kmf_model_free(n);
}
END_TEST

START_TEST(an_empty_directory_is_used_and_any_other_thing_refused)
{
    kmf_err err = {0};
    kmf_model *m = new_nano(1, 1);
    ck_assert_int_eq(mkdir(in_scratch("empty"), 0777), 0);
    int rc = kmf_model_save(m, in_scratch("empty"), KMF_F32, NULL, &err);
    ck_assert_msg(rc == 0, "%s", err.msg);
    ck_assert_int_eq(kmf_model_save(m, in_scratch("empty"), KMF_F32, NULL, &err), KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "empty: exists and is not empty"));
    err = (kmf_err){0};
    put(in_scratch("file"), "x", 1);
    ck_assert_int_eq(kmf_model_save(m, in_scratch("file"), KMF_F32, NULL, &err), KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "file: exists and is not a directory"));
    err = (kmf_err){0};
    ck_assert_int_eq(kmf_model_save(m, in_scratch("no/such"), KMF_F32, NULL, &err), KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "No such file or directory"));
    ck_assert_int_eq(kmf_model_save(m, in_scratch("x"), KMF_F64, NULL, NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_model_save(m, in_scratch("x"), KMF_F32, "[]", NULL), KMF_EINVAL);
    ck_assert_int_eq(n_entries(scratch), 2);
    kmf_model_free(m);
}
END_TEST

START_TEST(a_value_that_float16_cannot_hold_leaves_nothing_behind)
{
    kmf_err err = {0};
    kmf_model *m = new_nano(1, 1);
    m->slab[0] = 1e6f;
    ck_assert_int_eq(kmf_model_save(m, in_scratch("x"), KMF_F16, NULL, &err), KMF_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.msg, "1e+06 is too large for F16"));
    ck_assert_int_eq(n_entries(scratch), 0);
    kmf_model_free(m);
}
END_TEST

START_TEST(a_disk_that_fills_up_leaves_nothing_behind)
{
    kmf_model *m = new_nano(2, 1);
    ck_assert(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    struct rlimit old;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
    static const rlim_t limits[] = {0, 100, 1000, 100000, 1000000};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        kmf_err err = {0};
        struct rlimit limit = {limits[i], old.rlim_max};
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        int rc = kmf_model_save(m, in_scratch("x"), KMF_F32, NULL, &err);
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
        ck_assert_int_eq(rc, KMF_EIO);
        ck_assert_ptr_nonnull(strstr(err.msg, "File too large"));
        ck_assert_int_eq(n_entries(scratch), 0);
    }
    kmf_err err = {0};
    ck_assert_int_eq(kmf_model_save(m, in_scratch("x"), KMF_F32, NULL, &err), 0);
    kmf_model_free(m);
}
END_TEST

/* ---- memory ------------------------------------------------------------------------------ */

static void *counted_malloc(size_t n)
{
    return kmf_malloc(n, 1, NULL);
}

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

START_TEST(making_one_survives_every_failed_allocation)
{
    kmf_config c;
    kmf_model *m = NULL;
    ck_assert_int_eq(kmf_config_preset(&c, "nano", 1, NULL), 0);
    for (size_t n = 1; !m; n++) {
        kmf_err err = {0};
        kmf_mem_fail_at(n);
        m = kmf_model_new(&c, 1, &err);
        kmf_mem_fail_at(0);
        ck_assert_msg(err.code == (m ? KMF_OK : KMF_ENOMEM), "%zu: %s", n, err.msg);
        ck_assert_uint_lt(n, 10000);
    }
    kmf_model_free(m);
}
END_TEST

/* jansson's own allocations included, in steps, for there are thousands. */
START_TEST(saving_survives_failed_allocations_and_leaves_nothing_behind)
{
    kmf_model *m = new_nano(1, 1);
    int rc = KMF_ENOMEM;
    json_set_alloc_funcs(counted_malloc, kmf_free);
    for (size_t n = 1; rc != 0; n += n < 400 ? 1 : 37) {
        kmf_err err = {0};
        kmf_mem_fail_at(n);
        rc = kmf_model_save(m, in_scratch("x"), KMF_F32, "{\"a\":1.5}", &err);
        kmf_mem_fail_at(0);
        ck_assert_int_eq(rc, (int)err.code);
        ck_assert_int_eq(n_entries(scratch), rc == 0);
        ck_assert_uint_lt(n, 200000);
    }
    json_set_alloc_funcs(malloc, free);
    kmf_model_free(m);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store");
    TCase *tc = tcase_create("store");
    tcase_set_timeout(tc, 0);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, a_published_checkpoint_loads_with_every_tensor_in_its_place);
    tcase_add_test(tc, the_tensor_list_is_by_name_with_shapes);
    tcase_add_test(tc, a_checkpoint_without_projection_has_none);
    tcase_add_loop_test(tc, each_kind_of_lie_about_the_weights_is_named, 0,
                        (int)(sizeof mutations / sizeof mutations[0]));
    tcase_add_loop_test(tc, names_order_and_extras_of_other_writers_are_tolerated, 0,
                        (int)(sizeof tolerated / sizeof tolerated[0]));
    tcase_add_test(tc, weights_at_odd_addresses_are_copied);
    tcase_add_test(tc, half_floats_are_widened);
    tcase_add_test(tc, a_model_without_head_loads_and_saves);
    tcase_add_test(tc, a_directory_that_is_no_model_is_refused_in_words);
    tcase_add_test(tc, a_file_that_cannot_be_read_is_an_input_error);
    tcase_add_test(tc, config_and_vocabulary_must_go_together);
    tcase_add_test(tc, a_config_that_promises_more_layers_is_held_to_it);
    tcase_add_test(tc, a_cut_off_weight_file_is_refused_wherever_it_is_cut);
    tcase_add_test(tc, the_variable_names_the_default_model);
    tcase_add_test(tc, without_it_the_places_looked_at_are_named_or_one_is_found);
    tcase_add_test(tc, a_new_model_has_the_weights_its_seed_and_place_say);
    tcase_add_test(tc, the_first_weights_have_these_very_bits);
    tcase_add_test(tc, a_config_out_of_range_makes_no_model);
    tcase_add_loop_test(tc, save_load_save_gives_the_same_bytes, 0, 3);
    tcase_add_test(tc, a_published_checkpoint_saved_keeps_every_weight);
    tcase_add_test(tc, an_empty_directory_is_used_and_any_other_thing_refused);
    tcase_add_test(tc, a_value_that_float16_cannot_hold_leaves_nothing_behind);
    tcase_add_test(tc, a_disk_that_fills_up_leaves_nothing_behind);
    tcase_add_test(tc, loading_survives_every_failed_allocation);
    tcase_add_test(tc, making_one_survives_every_failed_allocation);
    tcase_add_test(tc, saving_survives_failed_allocations_and_leaves_nothing_behind);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
