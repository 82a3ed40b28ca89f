/* SPDX-License-Identifier: MIT */
/* A model of random weights and a batch for it, for tests of the training pass in float. */
#ifndef KMF_TEST_MLM_SCENES_H
#define KMF_TEST_MLM_SCENES_H

#include "checked.h"
#include "levels.h"
#include "passes.h"

static uint64_t seed;

static inline double uniform(void) /* in [0, 1) */
{
    return ((double)levels_random(&seed) + 1.0) / 2.0;
}

static inline size_t below(size_t n)
{
    return (size_t)(uniform() * (double)n);
}

/* More than a tile or block of everything, and no round numbers. */
static const kmf_config odd = {ROFORMER,
                               .vocab_size = 140,
                               .embedding_size = 66,
                               .hidden_size = 48,
                               .n_heads = 4,
                               .n_layers = 3,
                               .intermediate_size = 150,
                               .type_vocab_size = 2,
                               .layer_norm_eps = 1e-12,
                               .activation = KMF_GELU,
                               .rotary_value = 1};

typedef struct scene {
    kmf_config config;
    kmf_slots slots;
    slab weights, gradients, others;
    held_batch held;
    kmf_mlm_batch batch; /* with weights and dropout */
    kmf_precision precision;
} scene;

static inline void draw_batch(held_batch *b, size_t vocab_size, const size_t *lengths,
                              size_t n_seq)
{
    *b = (held_batch){.n_seq = n_seq};
    for (size_t s = 0; s < n_seq; s++)
        b->off[s + 1] = b->off[s] + lengths[s];
    ck_assert_uint_le(b->off[n_seq], BATCH_TOKENS);
    for (size_t i = 0; i < b->off[n_seq]; i++) {
        b->ids[i] = (int32_t)below(vocab_size);
        b->labels[i] = below(2) == 0 ? (int32_t)below(vocab_size) : -1;
        b->weights[i] = (kmf_real)(0.25 + uniform());
    }
}

static inline void scene_begin(scene *s)
{
    /*
     * Two stages for one thread, one for more; no multiple of a grain, and strips of several
     * lengths.
     */
    static const size_t lengths[] = {
        1, 130, 41, 1, CHECKED ? 20 : 220, 7, 64, CHECKED ? 600 : 400};
    *s = (scene){.config = odd};
    seed = 29;
    s->slots = slots_of(&s->config);
    s->weights = slab_new(&s->slots, &s->config);
    s->gradients = slab_new(&s->slots, &s->config);
    s->others = slab_new(&s->slots, &s->config);
    for (size_t i = 0; i < s->slots.n; i++) {
        const kmf_slot *slot = &s->slots.slot[i];
        double size = slot->rank == 1 ? 0.2 : sqrt(3.0 / (double)slot->shape[1]);
        double about = slot->row->init == KMF_INIT_ONE ? 1.0 : 0.0;
        for (size_t k = slot->begin; k < slot->begin + slot->n; k++)
            s->weights.at[k] = (kmf_real)(about + size * (2.0 * uniform() - 1.0));
    }
    draw_batch(&s->held, s->config.vocab_size, lengths, sizeof lengths / sizeof lengths[0]);
    s->batch = batch_of(&s->held);
    s->batch.weights = s->held.weights;
    s->batch.dropout = 0.1;
    s->batch.key = 77;
}

static inline void scene_end(scene *s)
{
    slab_free(&s->weights);
    slab_free(&s->gradients);
    slab_free(&s->others);
    kmf_slots_free(&s->slots);
}

static inline kmf_mlm *mlm_of(const scene *s, bool recompute, kmf_pool *pool)
{
    return mlm_in(s->precision, &s->config, &s->weights.params, &s->held, recompute, pool);
}

static inline bool same_slabs(const scene *s, const slab *a, const slab *b)
{
    return memcmp(a->at, b->at, s->slots.total * sizeof *a->at) == 0;
}

#endif
