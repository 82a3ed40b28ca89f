/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the training pass share, in float and in double: a model whose weights and
 * gradients are a slab each, batches, and the golden files of tests/golden/pretrain
 * (scripts/pretrain_reference.py describes them).
 */
#ifndef KMF_TEST_PASSES_H
#define KMF_TEST_PASSES_H

#include "base/io.h"
#include "base/mem.h"
#include "learn/mlm.h"
#include "model/config.h"
#include "model/layout.h"
#include "model/safetensors.h"

#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------------- slabs ------------------ */

/* One number for each weight: the weights, gradients or moments. */
typedef struct slab {
    kmf_real *at; /* owned [slots.total] */
    kmf_params params;
} slab;

static inline slab slab_new(const kmf_slots *slots, const kmf_config *config)
{
    slab s = {0};
    s.at = kmf_calloc(slots->total, sizeof *s.at, NULL);
    s.params.layers = kmf_calloc(config->n_layers, sizeof *s.params.layers, NULL);
    ck_assert(s.at && s.params.layers);
    kmf_slots_point(slots, &s.params, s.at);
    return s;
}

static inline void slab_free(slab *s)
{
    kmf_free(s->at);
    kmf_free(s->params.layers);
}

static inline void slab_zero(slab *s, const kmf_slots *slots)
{
    memset(s->at, 0, slots->total * sizeof *s->at);
}

static inline kmf_slots slots_of(const kmf_config *config)
{
    kmf_slots slots;
    kmf_err err = {0};
    ck_assert_msg(kmf_slots_new(&slots, config, true, &err) == 0, "%s", err.msg);
    return slots;
}

/* ---------------------------------------------------------------- batches ---------------- */

enum { BATCH_TOKENS = 900, BATCH_SEQS = 24 };

typedef struct held_batch {
    int32_t ids[BATCH_TOKENS];
    int32_t labels[BATCH_TOKENS];
    kmf_real weights[BATCH_TOKENS];
    size_t off[BATCH_SEQS + 1];
    size_t n_seq;
} held_batch;

/* Without weights and dropout. */
static inline kmf_mlm_batch batch_of(const held_batch *b)
{
    return (kmf_mlm_batch){
        .ids = b->ids, .labels = b->labels, .off = b->off, .n_seq = b->n_seq};
}

/* A workspace for batches as this one. */
static inline kmf_mlm *mlm_in(kmf_precision precision, const kmf_config *config,
                              const kmf_params *params, const held_batch *b, bool recompute,
                              kmf_pool *pool)
{
    kmf_err err = {0};
    kmf_mlm_options opts = {
        .max_tokens = b->off[b->n_seq], .recompute = recompute, .precision = precision};
    for (size_t s = 0; s < b->n_seq; s++)
        if (b->off[s + 1] - b->off[s] > opts.max_seq)
            opts.max_seq = b->off[s + 1] - b->off[s];
    kmf_mlm *mlm = kmf_mlm_new(config, params, &opts, pool, &err);
    ck_assert_msg(mlm, "%s", err.msg);
    return mlm;
}

static inline kmf_mlm *mlm_for(const kmf_config *config, const kmf_params *params,
                               const held_batch *b, bool recompute, kmf_pool *pool)
{
    return mlm_in(KMF_PRECISION_F32, config, params, b, recompute, pool);
}

static inline kmf_mlm_result learn(kmf_mlm *mlm, const kmf_mlm_batch *batch, slab *gradients)
{
    kmf_err err = {0};
    kmf_mlm_result result;
    ck_assert_msg(kmf_mlm_learn(mlm, batch, &gradients->params, &result, &err) == 0, "%s",
                  err.msg);
    return result;
}

static inline kmf_mlm_result evaluate(kmf_mlm *mlm, const kmf_mlm_batch *batch)
{
    kmf_err err = {0};
    kmf_mlm_result result;
    ck_assert_msg(kmf_mlm_evaluate(mlm, batch, NULL, &result, &err) == 0, "%s", err.msg);
    return result;
}

/* The fields of a kmf_config that every native model has, for those written out in tests. */
#define ROFORMER                                                                   \
    .family = "roformer", .positions = KMF_POSITIONS_ROTARY, .rotary_base = 10000, \
    .embedding_norm = 1, .bias_in = 1, .bias_out = 1, .head_biases = 1

/* ---------------------------------------------------------------- golden files ----------- */

typedef struct golden {
    kmf_config config;
    kmf_slots slots;
    slab weights;
    double *gradient; /* owned, as a slab */
    json_t *json;     /* owned */
} golden;

/* The tensors of a file, F32 or F64, as a slab in double. */
static inline double *read_tensors(const char *path, const kmf_slots *slots)
{
    kmf_err err = {0};
    kmf_safetensors st = {0};
    size_t len;
    char *bytes = kmf_file_read(path, (size_t)1 << 30, &len, &err);
    ck_assert_msg(bytes, "%s", err.msg);
    ck_assert_msg(kmf_safetensors_parse(&st, (const unsigned char *)bytes, len, path, &err) ==
                      0,
                  "%s", err.msg);
    double *to = kmf_calloc(slots->total, sizeof *to, NULL);
    ck_assert_ptr_nonnull(to);
    for (size_t i = 0; i < slots->n; i++) {
        const kmf_slot *slot = &slots->slot[i];
        const kmf_stored *stored = kmf_safetensors_find(&st, slot->name);
        ck_assert_msg(stored && stored->n == slot->n, "%s: %s", path, slot->name);
        const unsigned char *from = st.data + stored->begin;
        double *at = to + slot->begin;
        if (strcmp(stored->dtype, "F64") == 0) {
            memcpy(at, from, slot->n * sizeof *at);
            continue;
        }
        ck_assert_str_eq(stored->dtype, "F32");
        for (size_t k = 0; k < slot->n; k++) {
            float x;
            memcpy(&x, from + k * sizeof x, sizeof x);
            at[k] = (double)x;
        }
    }
    kmf_safetensors_free(&st);
    kmf_free(bytes);
    return to;
}

/* name: of a model in tests/golden. */
static inline golden golden_read(const char *name)
{
    golden g = {0};
    kmf_err err = {0};
    char path[128];
    char *provenance;
    size_t len;
    snprintf(path, sizeof path, "tests/golden/%s/config.json", name);
    char *text = kmf_file_read(path, (size_t)1 << 20, &len, &err);
    ck_assert_msg(text, "%s", err.msg);
    ck_assert_msg(kmf_config_parse(&g.config, &provenance, text, len, NULL, path, &err) == 0,
                  "%s", err.msg);
    kmf_free(provenance);
    kmf_free(text);
    g.slots = slots_of(&g.config);
    g.weights = slab_new(&g.slots, &g.config);
    snprintf(path, sizeof path, "tests/golden/%s/model.safetensors", name);
    double *weights = read_tensors(path, &g.slots);
    for (size_t i = 0; i < g.slots.total; i++)
        g.weights.at[i] = (kmf_real)weights[i];
    kmf_free(weights);
    snprintf(path, sizeof path, "tests/golden/pretrain/%s.safetensors", name);
    g.gradient = read_tensors(path, &g.slots);
    snprintf(path, sizeof path, "tests/golden/pretrain/%s.json", name);
    g.json = json_load_file(path, 0, NULL);
    ck_assert_msg(g.json, "%s", path);
    return g;
}

static inline void golden_free(golden *g)
{
    slab_free(&g->weights);
    kmf_slots_free(&g->slots);
    kmf_free(g->gradient);
    json_decref(g->json);
}

static inline held_batch golden_batch(const json_t *json)
{
    held_batch b = {0};
    const json_t *offsets = json_object_get(json, "offsets");
    const json_t *ids = json_object_get(json, "ids");
    const json_t *labels = json_object_get(json, "labels");
    b.n_seq = json_array_size(offsets) - 1;
    size_t n = json_array_size(ids);
    ck_assert(b.n_seq > 0 && b.n_seq <= BATCH_SEQS);
    ck_assert(n > 0 && n <= BATCH_TOKENS && json_array_size(labels) == n);
    for (size_t s = 0; s <= b.n_seq; s++)
        b.off[s] = (size_t)json_integer_value(json_array_get(offsets, s));
    for (size_t i = 0; i < n; i++) {
        b.ids[i] = (int32_t)json_integer_value(json_array_get(ids, i));
        b.labels[i] = (int32_t)json_integer_value(json_array_get(labels, i));
    }
    ck_assert_uint_eq(b.off[b.n_seq], n);
    return b;
}

/* |factor ours - right| / |right| over n numbers; 0 if both are 0, infinite for a NaN. */
static inline double far_from(const kmf_real *ours, double factor, const double *right,
                              size_t n)
{
    double apart = 0.0, size = 0.0;
    for (size_t i = 0; i < n; i++) {
        double d = factor * (double)ours[i] - right[i];
        apart += d * d;
        size += right[i] * right[i];
    }
    if (apart == 0.0)
        return 0.0;
    return size > 0.0 && isfinite(apart) ? sqrt(apart / size) : HUGE_VAL;
}

static const char *const golden_names[] = {"roformer", "roformer-rotary-value"};

/*
 * Loss and gradients of a golden model beside PyTorch's: the loss within loss_off, each tensor
 * within tensor_off and all of them together within whole_off, as shares of what is right.
 */
static inline void pass_meets_pytorch(const char *name, double loss_off, double tensor_off,
                                      double whole_off)
{
    golden g = golden_read(name);
    const json_t *json = json_object_get(g.json, "gradient");
    held_batch held = golden_batch(json_object_get(json, "batch"));
    kmf_mlm_batch batch = batch_of(&held);
    slab gradients = slab_new(&g.slots, &g.config);
    kmf_mlm *mlm = mlm_for(&g.config, &g.weights.params, &held, false, NULL);
    kmf_mlm_result result = learn(mlm, &batch, &gradients);
    ck_assert_uint_gt(result.n, 20);
    ck_assert_double_eq(result.weight, (double)result.n);

    double loss = result.loss / result.weight;
    double right = json_real_value(json_object_get(json, "loss"));
    ck_assert_msg(fabs(loss / right - 1.0) <= loss_off, "%.9g, not %.9g", loss, right);
    double worst = 0.0;
    for (size_t i = 0; i < g.slots.n; i++) {
        const kmf_slot *slot = &g.slots.slot[i];
        double error = far_from(gradients.at + slot->begin, 1.0 / result.weight,
                                g.gradient + slot->begin, slot->n);
        ck_assert_msg(error <= tensor_off, "%s: relative error %.2e", slot->name, error);
        worst = error > worst ? error : worst;
    }
    double whole = far_from(gradients.at, 1.0 / result.weight, g.gradient, g.slots.total);
    ck_assert_msg(whole <= whole_off, "gradient: relative error %.2e", whole);
    printf("%s: relative error: loss %.1e, gradient %.1e, worst tensor %.1e\n", name,
           fabs(loss / right - 1.0), whole, worst);
    kmf_mlm_free(mlm);
    slab_free(&gradients);
    golden_free(&g);
}

#endif
