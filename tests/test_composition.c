/* SPDX-License-Identifier: MIT */
/*
 * Compositions in float, as the library has them: the formula in double, and what must not change
 * a bit. Their gradients are held against PyTorch and against differences in
 * tests/test_contrast.c and tests/test_contrast_gradients.c.
 */
#include "nn/composition.h"

#include "base/rng.h"
#include "learn/mlm_room.h"
#include "passes.h"
#include "run.h"

enum { V = 40, C = 70, UNKNOWN = 1, SEQS = 11 }; /* more than KMF_WORD_COLS numbers */

static const kmf_config config = {ROFORMER,
                                  .vocab_size = V,
                                  .embedding_size = 10,
                                  .hidden_size = 12,
                                  .n_heads = 2,
                                  .n_layers = 2,
                                  .intermediate_size = 14,
                                  .type_vocab_size = 2,
                                  .layer_norm_eps = 1e-12,
                                  .activation = KMF_GELU,
                                  .specials = 1,
                                  .composition = C};

/* Some have no k-mer: nothing between the specials, or unknown ones alone. */
static const size_t lengths[SEQS] = {9, 2, 40, 5, 3, 130, 17, 3, 64, 4, 30};

typedef struct scene {
    kmf_config config;
    kmf_slots slots;
    slab weights, gradients, others;
    held_batch held, unlabelled;
    kmf_real vectors[SEQS * C], dvectors[SEQS * C];
} scene;

static scene *scene_new(void)
{
    scene *s = calloc(1, sizeof *s);
    kmf_rng rng = kmf_rng_stream(97, 0);
    s->config = config;
    s->slots = slots_of(&config);
    s->weights = slab_new(&s->slots, &config);
    s->gradients = slab_new(&s->slots, &config);
    s->others = slab_new(&s->slots, &config);
    for (size_t i = 0; i < s->slots.total; i++)
        s->weights.at[i] = (kmf_real)(0.4 * (double)kmf_rng_normal(&rng));
    s->held.n_seq = SEQS;
    for (size_t q = 0; q < SEQS; q++) {
        s->held.off[q + 1] = s->held.off[q] + lengths[q];
        for (size_t t = s->held.off[q]; t < s->held.off[q + 1]; t++) {
            bool known = lengths[q] != 4 && kmf_rng_below(&rng, 6) > 0;
            s->held.ids[t] = known ? (int32_t)(2 + kmf_rng_below(&rng, V - 2)) : UNKNOWN;
            s->held.labels[t] = t % 3 == 1 ? (int32_t)kmf_rng_below(&rng, V) : -1;
        }
    }
    s->unlabelled = s->held;
    for (size_t t = 0; t < BATCH_TOKENS; t++)
        s->unlabelled.labels[t] = -1;
    for (size_t i = 0; i < SEQS * C; i++)
        s->dvectors[i] = (kmf_real)kmf_rng_normal(&rng);
    return s;
}

static void scene_free(scene *s)
{
    slab_free(&s->weights);
    slab_free(&s->gradients);
    slab_free(&s->others);
    kmf_slots_free(&s->slots);
    free(s);
}

static kmf_mlm *mlm_of(const scene *s, bool unasked, kmf_pool *pool)
{
    kmf_err err = {0};
    kmf_mlm_options opts = {.max_tokens = s->held.off[SEQS],
                            .max_seq = 130,
                            .vectors = true,
                            .composes = true,
                            .unasked = unasked,
                            .max_seqs = SEQS,
                            .unknown = UNKNOWN};
    kmf_mlm *mlm = kmf_mlm_new(&s->config, &s->weights.params, &opts, pool, &err);
    ck_assert_msg(mlm, "%s", err.msg);
    return mlm;
}

/* Of a batch: vectors, and gradients where there is something to add them to. */
static double pass(scene *s, kmf_mlm *mlm, const held_batch *held, slab *gradients)
{
    kmf_mlm_batch batch = batch_of(held);
    kmf_mlm_result result;
    batch.dropout = 0.2;
    batch.key = 5;
    ck_assert_int_eq(kmf_mlm_encode(mlm, &batch, s->vectors, NULL), 0);
    ck_assert_int_eq(kmf_mlm_return(mlm, s->dvectors, &gradients->params, &result, NULL), 0);
    return result.loss;
}

static bool is_composition(const kmf_slot *slot)
{
    return strncmp(slot->name, "composition.", 12) == 0;
}

static bool same_reals(const kmf_real *a, const kmf_real *b, size_t n)
{
    return memcmp(a, b, n * sizeof *a) == 0;
}

/* Of those tensors that are of the composition, or of those that are not. */
static size_t differ(const scene *s, const slab *a, const slab *b, bool composition)
{
    size_t n = 0;
    for (size_t i = 0; i < s->slots.n; i++) {
        const kmf_slot *slot = &s->slots.slot[i];
        if (is_composition(slot) == composition)
            n += !same_reals(a->at + slot->begin, b->at + slot->begin, slot->n);
    }
    return n;
}

/* ---------------------------------------------------------------- the formula ----------- */

static const kmf_real *weight(const scene *s, const char *name)
{
    for (size_t i = 0; i < s->slots.n; i++)
        if (is_composition(&s->slots.slot[i]) && strcmp(s->slots.slot[i].name + 12, name) == 0)
            return s->weights.at + s->slots.slot[i].begin;
    ck_abort_msg("%s", name);
    return NULL;
}

static void naive_mean(double z[C], const scene *s, size_t beg, size_t end)
{
    const kmf_real *table = weight(s, "word_embeddings.weight");
    size_t n = 0;
    memset(z, 0, C * sizeof *z);
    for (size_t t = beg; t < end; t++) {
        if (s->held.ids[t] == UNKNOWN)
            continue;
        for (size_t i = 0; i < C; i++)
            z[i] += (double)table[(size_t)s->held.ids[t] * C + i];
        n++;
    }
    for (size_t i = 0; i < C && n > 0; i++)
        z[i] /= (double)n;
}

static void naive_composition(double c[C], const scene *s, const double z[C])
{
    const kmf_real *w1 = weight(s, "intermediate.dense.weight");
    const kmf_real *b1 = weight(s, "intermediate.dense.bias");
    const kmf_real *w2 = weight(s, "output.dense.weight");
    const kmf_real *b2 = weight(s, "output.dense.bias");
    const kmf_real *scale = weight(s, "LayerNorm.weight");
    const kmf_real *shift = weight(s, "LayerNorm.bias");
    double u[C], mean = 0, variance = 0;
    for (size_t i = 0; i < C; i++)
        mean += z[i] / C;
    for (size_t i = 0; i < C; i++)
        variance += (z[i] - mean) * (z[i] - mean) / C;
    for (size_t i = 0; i < C; i++) {
        u[i] = (z[i] - mean) / sqrt(variance + config.layer_norm_eps) * (double)scale[i];
        u[i] += (double)shift[i];
    }
    for (size_t i = 0; i < C; i++)
        c[i] = u[i] + (double)b2[i];
    for (size_t j = 0; j < 4 * C; j++) {
        double h = (double)b1[j];
        for (size_t i = 0; i < C; i++)
            h += (double)w1[j * C + i] * u[i];
        for (size_t i = 0; i < C; i++)
            c[i] += (double)w2[i * 4 * C + j] * h * (1 + erf(h / sqrt(2))) / 2;
    }
}

/* With specials the first and the last token are no k-mers, without they are. */
START_TEST(compositions_are_their_formula)
{
    scene *s = scene_new();
    double worst = 0;
    s->config.specials = _i;
    kmf_mlm *mlm = mlm_of(s, true, NULL);
    pass(s, mlm, &s->unlabelled, &s->gradients);
    for (size_t q = 0; q < SEQS; q++) {
        double z[C], c[C], size = 0, off = 0;
        naive_mean(z, s, s->held.off[q] + (size_t)_i, s->held.off[q + 1] - (size_t)_i);
        naive_composition(c, s, z);
        for (size_t i = 0; i < C; i++) {
            size = fmax(size, fabs(c[i]));
            off = fmax(off, fabs(c[i] - (double)s->vectors[q * C + i]));
        }
        worst = fmax(worst, off / size);
    }
    printf("largest relative error %.1e\n", worst);
    ck_assert(worst <= 1e-5);
    kmf_mlm_free(mlm);
    scene_free(s);
}
END_TEST

/* ---------------------------------------------------------------- bits ------------------ */

/* How many it comes with, and whether h and act share their room, is all one. */
START_TEST(a_sequence_has_the_same_bits_in_any_place)
{
    enum { N = 33 };
    static kmf_real z[N * C], c[N * C], alone[C], u[N * C], h[N * 4 * C], act[N * 4 * C];
    scene *s = scene_new();
    kmf_rng rng = kmf_rng_stream(101, 0);
    kmf_composer weights = kmf_composer_of(&s->weights.params, &config);
    kmf_composing between = {.u = u, .h = h, .act = act};
    for (size_t i = 0; i < N * C; i++)
        z[i] = (kmf_real)kmf_rng_normal(&rng);
    kmf_composition_forward(c, z, &weights, &between, N);
    for (size_t n = 0; n < N; n++) {
        kmf_real own_u[C], own_h[4 * C];
        kmf_composing in_place = {.u = own_u, .h = own_h, .act = own_h};
        kmf_composition_forward(alone, z + n * C, &weights, &in_place, 1);
        ck_assert(same_reals(alone, c + n * C, C));
        ck_assert(same_reals(own_u, u + n * C, C));
    }
    scene_free(s);
}
END_TEST

START_TEST(threads_do_not_change_a_bit)
{
    scene *s = scene_new();
    kmf_real first[SEQS * C];
    double loss = 0;
    for (int threads = 1; threads <= 4; threads++) {
        kmf_pool *pool = threads > 1 ? kmf_pool_new(threads - 1, NULL) : NULL;
        kmf_mlm *mlm = mlm_of(s, false, pool);
        slab *to = threads == 1 ? &s->gradients : &s->others;
        slab_zero(to, &s->slots);
        double found = pass(s, mlm, &s->held, to);
        if (threads == 1) {
            memcpy(first, s->vectors, sizeof first);
            loss = found;
        }
        ck_assert(found == loss && same_reals(first, s->vectors, SEQS * C));
        ck_assert(same_reals(to->at, s->gradients.at, s->slots.total));
        kmf_mlm_free(mlm);
        kmf_pool_free(pool);
    }
    scene_free(s);
}
END_TEST

/* As a batch in pieces is: its vectors were asked for before, and now the way back alone. */
START_TEST(the_way_back_wants_no_vectors)
{
    scene *s = scene_new();
    kmf_mlm *mlm = mlm_of(s, false, NULL);
    for (int asked = 0; asked < 2; asked++) {
        const held_batch *held = asked ? &s->held : &s->unlabelled;
        held_batch next = s->unlabelled;
        kmf_mlm_batch batch = batch_of(held), other = batch_of(&next);
        kmf_mlm_result result;
        for (size_t t = 0; t < next.off[SEQS]; t++)
            next.ids[t] = (next.ids[t] + 7) % V;
        batch.dropout = 0.2;
        batch.key = 5;
        slab_zero(&s->gradients, &s->slots);
        slab_zero(&s->others, &s->slots);
        pass(s, mlm, held, &s->gradients);
        ck_assert_int_eq(kmf_mlm_encode(mlm, &other, s->vectors, NULL), 0);
        ck_assert_int_eq(kmf_mlm_encode(mlm, &batch, NULL, NULL), 0);
        ck_assert_int_eq(kmf_mlm_return(mlm, s->dvectors, &s->others.params, &result, NULL), 0);
        ck_assert(same_reals(s->gradients.at, s->others.at, s->slots.total));
    }
    kmf_mlm_free(mlm);
    scene_free(s);
}
END_TEST

START_TEST(gradients_are_added_to_those_that_are_there)
{
    scene *s = scene_new();
    kmf_mlm *mlm = mlm_of(s, true, NULL);
    double worst = 0;
    pass(s, mlm, &s->unlabelled, &s->gradients);
    for (int i = 0; i < 3; i++)
        pass(s, mlm, &s->unlabelled, &s->others);
    for (size_t i = 0; i < s->slots.n; i++) {
        const kmf_slot *slot = &s->slots.slot[i];
        double most = 0, off = 0;
        for (size_t k = slot->begin; k < slot->begin + slot->n; k++) {
            most = fmax(most, fabs((double)s->gradients.at[k]));
            off = fmax(off, fabs((double)s->others.at[k] - 3 * (double)s->gradients.at[k]));
        }
        ck_assert((most > 0) == is_composition(slot));
        worst = fmax(worst, most > 0 ? off / most : off);
    }
    ck_assert_msg(worst < 1e-5, "%g", worst);
    kmf_mlm_free(mlm);
    scene_free(s);
}
END_TEST

/* ---------------------------------------------------------------- two parts ------------- */

/* Not run, and no gradient touched, whether the room for it is there or not. */
START_TEST(without_labels_the_encoder_has_nothing_to_do)
{
    scene *s = scene_new();
    kmf_real first[SEQS * C];
    for (size_t i = 0; i < s->slots.total; i++)
        s->gradients.at[i] = s->others.at[i] = 1;
    kmf_mlm *unasked = mlm_of(s, true, NULL);
    ck_assert(pass(s, unasked, &s->unlabelled, &s->gradients) == 0);
    memcpy(first, s->vectors, sizeof first);
    kmf_mlm *mlm = mlm_of(s, false, NULL);
    ck_assert(pass(s, mlm, &s->unlabelled, &s->others) == 0);
    ck_assert(same_reals(first, s->vectors, SEQS * C));
    ck_assert(same_reals(s->gradients.at, s->others.at, s->slots.total));
    for (size_t i = 0; i < s->held.off[SEQS] * config.hidden_size; i++)
        ck_assert(mlm->x[i] == 0);
    for (size_t i = 0; i < s->slots.n; i++) {
        const kmf_slot *slot = &s->slots.slot[i];
        size_t touched = 0;
        for (size_t k = slot->begin; k < slot->begin + slot->n; k++)
            touched += s->gradients.at[k] != 1;
        ck_assert_msg((touched > 0) == is_composition(slot), "%s", slot->name);
    }
    kmf_mlm_free(mlm);
    kmf_mlm_free(unasked);
    scene_free(s);
}
END_TEST

/* The encoder learns from labels as if nothing were compared, the composition as if none were. */
START_TEST(neither_part_knows_of_the_other)
{
    scene *s = scene_new();
    kmf_real first[SEQS * C];
    kmf_mlm_result result;
    kmf_mlm *mlm = mlm_of(s, false, NULL);
    kmf_mlm_batch batch = batch_of(&s->held);
    batch.dropout = 0.2;
    batch.key = 5;
    double loss = pass(s, mlm, &s->held, &s->gradients);
    memcpy(first, s->vectors, sizeof first);
    ck_assert_int_eq(kmf_mlm_learn(mlm, &batch, &s->others.params, &result, NULL), 0);
    ck_assert(loss > 0 && result.loss == loss);
    ck_assert_uint_eq(differ(s, &s->gradients, &s->others, false), 0);
    ck_assert_uint_eq(differ(s, &s->gradients, &s->others, true), 7);
    pass(s, mlm, &s->unlabelled, &s->others);
    ck_assert(same_reals(first, s->vectors, SEQS * C));
    ck_assert_uint_eq(differ(s, &s->gradients, &s->others, true), 0);
    /* nor does dropout know of the composition */
    ck_assert_int_eq(kmf_mlm_evaluate(mlm, &batch, s->vectors, &result, NULL), 0);
    ck_assert(same_reals(first, s->vectors, SEQS * C) && result.loss != loss);
    kmf_mlm_free(mlm);
    scene_free(s);
}
END_TEST

/* What unknown tokens and specials have in the table, nothing learns. */
START_TEST(only_k_mers_are_taught)
{
    scene *s = scene_new();
    kmf_mlm *mlm = mlm_of(s, true, NULL);
    bool counted[V] = {false};
    pass(s, mlm, &s->unlabelled, &s->gradients);
    for (size_t q = 0; q < SEQS; q++)
        for (size_t t = s->held.off[q] + 1; t + 1 < s->held.off[q + 1]; t++)
            counted[s->held.ids[t]] |= s->held.ids[t] != UNKNOWN;
    for (size_t id = 0; id < V; id++) {
        size_t taught = 0;
        for (size_t i = 0; i < C; i++)
            taught += s->gradients.params.comp_word[id * C + i] != 0;
        ck_assert_msg(taught == (counted[id] ? C : 0), "%zu: %zu", id, taught);
    }
    ck_assert(!counted[0] && !counted[UNKNOWN]);
    kmf_mlm_free(mlm);
    scene_free(s);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    tcase_add_loop_test(tcase, compositions_are_their_formula, 0, 2);
    tcase_add_test(tcase, a_sequence_has_the_same_bits_in_any_place);
    tcase_add_test(tcase, threads_do_not_change_a_bit);
    tcase_add_test(tcase, the_way_back_wants_no_vectors);
    tcase_add_test(tcase, gradients_are_added_to_those_that_are_there);
    tcase_add_test(tcase, without_labels_the_encoder_has_nothing_to_do);
    tcase_add_test(tcase, neither_part_knows_of_the_other);
    tcase_add_test(tcase, only_k_mers_are_taught);
    return run_case("composition", tcase);
}
