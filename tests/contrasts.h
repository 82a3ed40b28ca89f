/* SPDX-License-Identifier: MIT */
/*
 * The contrastive loss of a batch of views through a whole model, in float and in double, held
 * against PyTorch's numbers in tests/golden/contrast (scripts/contrast_reference.py has their
 * description).
 */
#ifndef KMF_TEST_CONTRASTS_H
#define KMF_TEST_CONTRASTS_H

#include "learn/contrast.h"
#include "passes.h"

enum { GOLDEN_CONTRASTS = 10 };

/* How far from PyTorch: losses, and the worst tensor, relative to the gradient's norm. */
typedef struct contrast_limits {
    double loss, tensor;
} contrast_limits;

typedef struct contrast_mixture {
    kmf_mlm_mix mix;
    uint32_t partner[BATCH_SEQS], served[BATCH_SEQS];
    double share[BATCH_SEQS];
} contrast_mixture;

static inline double contrast_number(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    ck_assert_msg(json_is_number(value), "%s", key);
    return json_number_value(value);
}

static inline kmf_pooling pooling_called(const char *name)
{
    int i = 0;
    while (kmf_pooling_names[i] && strcmp(kmf_pooling_names[i], name) != 0)
        i++;
    ck_assert_msg(kmf_pooling_names[i], "%s", name);
    return (kmf_pooling)i;
}

static inline void read_mixture(contrast_mixture *m, const json_t *json, size_t n)
{
    m->mix = (kmf_mlm_mix){.layer = (size_t)contrast_number(json, "layer"),
                           .partner = m->partner,
                           .served = m->served,
                           .share = m->share};
    for (size_t i = 0; i < n; i++) {
        const json_t *partner = json_array_get(json_object_get(json, "partner"), i);
        const json_t *share = json_array_get(json_object_get(json, "share"), i);
        m->partner[i] = (uint32_t)json_integer_value(partner);
        m->served[m->partner[i]] = (uint32_t)i;
        m->share[i] = json_number_value(share);
    }
}

/* The model gets a composition of C numbers, whose weights are those of the reference. */
static inline void compose_golden(golden *g, size_t C)
{
    kmf_slots slots = g->slots;
    slab weights = g->weights;
    uint64_t tensor = 0;
    g->config.composition = C;
    g->slots = slots_of(&g->config);
    g->weights = slab_new(&g->slots, &g->config);
    for (size_t s = 0; s < g->slots.n; s++) {
        const kmf_slot *slot = &g->slots.slot[s];
        kmf_real *to = g->weights.at + slot->begin;
        if (slot->row->part != KMF_PART_COMPOSITION) {
            memcpy(to, kmf_slot_get(&weights.params, slot), slot->n * sizeof *to);
            continue;
        }
        double more = slot->row->field == offsetof(kmf_params, comp_ln_w) ? 1 : 0;
        tensor++;
        for (uint64_t i = 0; i < slot->n; i++) {
            uint64_t x = i + tensor;
            to[i] = (kmf_real)(more + ((double)(x * x * x % 1013) - 506) / 1024);
        }
    }
    ck_assert_uint_eq(tensor, 7);
    slab_free(&weights);
    kmf_slots_free(&slots);
}

/* Norm and product with sin(0.7 i + 1) of each tensor's gradient. */
static inline double compare_gradients(const slab *gradients, const kmf_slots *slots,
                                       const json_t *json, double limit)
{
    double whole = 0, worst = 0;
    for (size_t i = 0; i < slots->n; i++) {
        double norm =
            json_number_value(json_array_get(json_object_get(json, slots->slot[i].name), 0));
        whole += norm * norm;
    }
    ck_assert(whole > 0);
    for (size_t i = 0; i < slots->n; i++) {
        const kmf_slot *slot = &slots->slot[i];
        const json_t *right = json_object_get(json, slot->name);
        double squares = 0, dot = 0;
        ck_assert_msg(json_array_size(right) == 2, "%s", slot->name);
        for (size_t k = 0; k < slot->n; k++) {
            double g = (double)gradients->at[slot->begin + k];
            squares += g * g;
            dot += g * sin(0.7 * (double)k + 1);
        }
        double norm = json_number_value(json_array_get(right, 0));
        double off = fabs(sqrt(squares) - norm);
        off = fmax(off, fabs(dot - json_number_value(json_array_get(right, 1))));
        double error = off / (norm > 1e-3 * sqrt(whole) ? norm : sqrt(whole));
        ck_assert_msg(error <= limit, "%s: %.1e off", slot->name, error);
        ck_assert_msg(norm > 0 || squares == 0, "%s has a gradient", slot->name);
        worst = error > worst ? error : worst;
    }
    return worst;
}

/* Case i of the file. */
static inline void meets_pytorch(int number, bool recompute, contrast_limits limits)
{
    golden g = golden_read("roformer");
    json_t *file = json_load_file("tests/golden/contrast/roformer.json", 0, NULL);
    const json_t *cases = json_object_get(file, "cases");
    ck_assert_uint_eq(json_array_size(cases), GOLDEN_CONTRASTS);
    const json_t *json = json_array_get(cases, (size_t)number);
    held_batch held = golden_batch(json_object_get(json, "batch"));
    kmf_mlm_batch batch = batch_of(&held);
    contrast_mixture mixture;
    size_t n = held.n_seq, sources[BATCH_SEQS];
    size_t C = (size_t)contrast_number(json, "composition");
    bool mixed = json_is_object(json_object_get(json, "mix"));
    bool labelled = false;
    for (size_t s = 0; s < n; s++)
        sources[s] =
            (size_t)json_integer_value(json_array_get(json_object_get(json, "sources"), s));
    for (size_t i = 0; i < held.off[n]; i++)
        labelled |= held.labels[i] >= 0;
    if (C > 0)
        compose_golden(&g, C);
    if (mixed) {
        read_mixture(&mixture, json_object_get(json, "mix"), n);
        batch.mix = &mixture.mix;
    }
    g.config.pooling = pooling_called(json_string_value(json_object_get(json, "pooling")));
    g.config.specials = 1;
    size_t D = C > 0 ? C : g.config.hidden_size;
    kmf_mlm_options opts = {.max_tokens = held.off[n],
                            .max_seq = 32,
                            .recompute = recompute,
                            .vectors = true,
                            .composes = C > 0,
                            .unasked = !labelled,
                            .max_seqs = n,
                            .unknown = (int32_t)contrast_number(file, "unknown")};
    kmf_contrast_options how = {.most = n,
                                .D = D,
                                .temperature = contrast_number(json, "temperature"),
                                .hardness = contrast_number(json, "hardness"),
                                .all_positives =
                                    json_is_true(json_object_get(json, "all_positives"))};
    kmf_real *vectors = kmf_calloc(2 * n, D * sizeof *vectors, NULL);
    kmf_mlm *mlm = kmf_mlm_new(&g.config, &g.weights.params, &opts, NULL, NULL);
    kmf_contrast *contrast = kmf_contrast_new(&how, NULL);
    slab gradients = slab_new(&g.slots, &g.config);
    kmf_contrast_views views = {.vectors = vectors,
                                .sources = sources,
                                .n = n,
                                .partner = mixed ? mixture.partner : NULL,
                                .share = mixed ? mixture.share : NULL};
    kmf_contrast_result compared;
    kmf_mlm_result asked;
    ck_assert(vectors && mlm && contrast);
    ck_assert_int_eq(kmf_mlm_encode(mlm, &batch, vectors, NULL), 0);
    ck_assert_int_eq(kmf_contrast_learn(contrast, vectors + n * D, &views,
                                        contrast_number(json, "weight"), &compared, NULL),
                     0);
    ck_assert_int_eq(kmf_mlm_return(mlm, vectors + n * D, &gradients.params, &asked, NULL), 0);

    double loss = contrast_number(json, "contrast"), nll = contrast_number(json, "nll");
    ck_assert_msg(fabs(compared.loss / loss - 1) <= limits.loss, "%.15g, not %.15g",
                  compared.loss, loss);
    ck_assert_msg(fabs(asked.loss - nll) <= limits.loss * nll, "%.15g, not %.15g", asked.loss,
                  nll);
    ck_assert_double_eq(compared.hits, contrast_number(json, "hits"));
    double worst = compare_gradients(&gradients, &g.slots, json_object_get(json, "gradient"),
                                     limits.tensor);
    printf("%s: relative error: loss %.1e, worst tensor %.1e\n",
           json_string_value(json_object_get(json, "name")), fabs(compared.loss / loss - 1),
           worst);
    kmf_free(vectors);
    kmf_mlm_free(mlm);
    kmf_contrast_free(contrast);
    slab_free(&gradients);
    json_decref(file);
    golden_free(&g);
}

#endif
