/* SPDX-License-Identifier: MIT */
/*
 * Steps that compare windows. Second sources: a step put together by hand from three passes, one
 * for each loss alone and their sum; another number of threads, pieces and shards; another way to
 * the same end; what follows from the description of what is drawn.
 */
#include "same_training.h"

#include "base/mem.h"
#include "chisquare.h"

#include <math.h>

static options pair_options(kmf_objective objective)
{
    options o = small_options();
    o.objective = (int)objective;
    o.sources = KMF_SOURCES_RECORD;
    o.batch = 8;
    o.steps = 6;
    return o;
}

/* Settings that go different ways; the last ones with a validation. */
enum { CONTRASTS = 6 };

static options contrast_kind(int i)
{
    options o = pair_options(i % 2 == 1 ? KMF_OBJECTIVE_BOTH : KMF_OBJECTIVE_CONTRASTIVE);
    switch (i) {
    case 0:
        break;
    case 1:
        o.shards = 2;
        o.accumulate = 2;
        o.mix = 0.5;
        o.hardness = 0.5;
        o.mutations = 0.05;
        o.dropout = 0.1;
        o.length_min = 8;
        o.length_max = 20;
        o.contrast = 0.3;
        break;
    case 2:
        o.mix = 1;
        o.near = 0.9;
        o.distance = 40;
        o.shards = 2;
        o.temperature = 0.5;
        break;
    case 3:
        o.composition = 10;
        o.shards = 2;
        o.accumulate = 2;
        o.drift = 0.5;
        o.dropout = 0.1;
        o.mutations = 0.05;
        break;
    case 4:
        o.composition = 70;
        o.parts = KMF_PARTS_COMPOSITION;
        o.all_positives = 1;
        o.drift = 1;
        o.drift_rate = 0.1;
        o.held_fraction = 0.1;
        o.val_every = 2;
        o.val_windows = 9;
        break;
    default:
        o.objective = KMF_OBJECTIVE_CONTRASTIVE; /* no Markov models: they take half a second */
        o.held_fraction = 0.1;
        o.val_every = 2;
        o.val_windows = 9;
        o.length_min = 12;
        o.length_max = 24;
        o.stride = 2;
        o.precision = KMF_PRECISION_BF16;
        break;
    }
    return o;
}

/* ---------------------------------------------------------------- the same bits --------- */

START_TEST(comparing_has_the_same_bits_however_it_is_done)
{
    for (int k = 0; k < CONTRASTS; k++) {
        options o = contrast_kind(k);
        uint64_t one = trained(&o);
        for (o.threads = 2; o.threads <= 3; o.threads++)
            ck_assert_msg(trained(&o) == one, "kind %d with %d threads", k, o.threads);
        o.recompute = 1;
        ck_assert_msg(trained(&o) == one, "kind %d, made again", k);
        o.recompute = 0;
        o.seed++;
        ck_assert_msg(trained(&o) != one, "kind %d", k);
    }
}
END_TEST

/* Each setting of what is alike is heeded. */
START_TEST(each_setting_of_pairs_changes_the_result)
{
    options usual = contrast_kind(0);
    uint64_t one = trained(&usual);
#define CHANGES(setting, value)                      \
    do {                                             \
        options o = usual;                           \
        o.setting = (value);                         \
        ck_assert_msg(trained(&o) != one, #setting); \
    } while (0)
    CHANGES(objective, KMF_OBJECTIVE_BOTH);
    CHANGES(length_max, 20);
    CHANGES(near, 0.9);
    CHANGES(distance, 50);
    CHANGES(mutations, 0.1);
    CHANGES(temperature, 0.06);
    CHANGES(hardness, 0.1);
    CHANGES(mix, 0.5);
    CHANGES(composition, 8);
    CHANGES(drift, 0.5);
    usual.drift = 0.5;
    one = trained(&usual);
    CHANGES(drift_rate, 0.1);
    usual.objective = KMF_OBJECTIVE_BOTH;
    one = trained(&usual);
    CHANGES(contrast, 2);
#undef CHANGES
}
END_TEST

/* All vectors are compared with all others, whatever the pieces; states, then compositions. */
START_TEST(pieces_of_pairs_change_the_rounding_alone)
{
    for (int variant = 0; variant < 4; variant++) {
        options o = contrast_kind(0);
        o.objective = variant % 2 == 0 ? KMF_OBJECTIVE_CONTRASTIVE : KMF_OBJECTIVE_BOTH;
        o.composition = variant < 2 ? 0 : 12;
        o.batch = 16;
        o.steps = 3;
        o.mutations = 0.1;
        o.hardness = 0.5;
        o.temperature = 0.2;
        kmf_pretrain *whole = begin(&o);
        train(whole, NULL, NULL);
        ck_assert(whole->now.contrast > 0.1 && whole->now.hits >= 0 && whole->now.hits <= 1);
        for (int k = 0; k < 3; k++) {
            o.shards = k == 0 ? 1 : k == 1 ? 8 : 2;
            o.accumulate = k == 0 ? 8 : k == 1 ? 1 : 4;
            kmf_pretrain *cut = begin(&o);
            float most = 0;
            train(cut, NULL, NULL);
            ck_assert_msg(fabs(cut->now.contrast - whole->now.contrast) < 1e-5,
                          "%.9g, not %.9g", cut->now.contrast, whole->now.contrast);
            ck_assert(fabs(cut->now.norm / whole->now.norm - 1) < 1e-3);
            ck_assert(cut->now.tokens == whole->now.tokens &&
                      isnan(cut->now.loss) == isnan(whole->now.loss));
            ck_assert(isnan(cut->now.loss) || fabs(cut->now.loss - whole->now.loss) < 1e-5);
            for (size_t i = 0; i < whole->slots.total; i++)
                most = fmaxf(most, fabsf(cut->model->slab[i] - whole->model->slab[i]));
            ck_assert_msg((most > 0 || o.composition > 0) && most < 1e-4f, "%g", (double)most);
            kmf_pretrain_free(cut);
        }
        kmf_pretrain_free(whole);
    }
}
END_TEST

START_TEST(what_is_stopped_saved_and_loaded_ends_the_same)
{
    for (int k = 0; k < CONTRASTS; k++)
        check_resume(contrast_kind(k), k);
}
END_TEST

/* The same letters and runs, but other sources, are no inputs to go on with. */
START_TEST(a_checkpoint_of_other_pairs_is_refused_by_name)
{
    static char texts[2][3000];
    options o = contrast_kind(0);
    const char *path = in_dir("checkpoint");
    kmf_err err = {0};
    kmf_rng rng = kmf_rng_stream(4, 4);
    for (int part = 0; part < 3; part++)
        for (int t = 0; t < 2; t++) {
            kmf_rng same = rng;
            char *at = texts[t] + strlen(texts[t]);
            bool begins = part == 0 || (t == 0 ? part == 1 : part == 2);
            at += sprintf(at, "%s", begins ? "\n>r\n" : "N");
            for (int i = 0; i < 500; i++)
                *at++ = "ACGT"[kmf_rng_below(&same, 4)];
            *at = '\0';
            if (t == 1)
                rng = same;
        }
    kmf_pretrain *t = begun(&o, texts[0] + 1, &err);
    ck_assert_msg(t && kmf_pretrain_save(t, path, &err) == 0, "%s", err.msg);
    kmf_pretrain_free(t);
    cannot_go_on(&o, texts[1] + 1, path, "checksum of the sources");
#define REFUSE(setting, value, name)                      \
    do {                                                  \
        options changed = o;                              \
        changed.setting = (value);                        \
        cannot_go_on(&changed, texts[0] + 1, path, name); \
    } while (0)
    REFUSE(objective, KMF_OBJECTIVE_BOTH, "objective was contrastive, now it is both");
    REFUSE(length_max, 20, "shortest window was 24, now it is 20");
    REFUSE(all_positives, 1, "all of a source positive was 0, now it is 1");
    REFUSE(near, 0.5, "near was 0.25, now it is 0.5");
    REFUSE(distance, 10, "distance was 5000, now it is 10");
    REFUSE(mutations, 0.5, "mutations was 0, now it is 0.5");
    REFUSE(temperature, 0.5, "temperature was ");
    REFUSE(hardness, 0.5, "hardness was 0, now it is 0.5");
    REFUSE(mix, 0.5, "mix was 0, now it is 0.5");
    REFUSE(drift, 0.5, "drift was 0, now it is 0.5");
    REFUSE(drift_rate, 0.5, "drift rate was 0.3, now it is 0.5");
    REFUSE(composition, 8, "composition was 0, now it is 8");
    REFUSE(contrast, 0.5, "weight of the contrastive loss was 1, now it is 0.5");
    o.length_min = 8;
    o.length_max = 20;
    t = begun(&o, texts[0] + 1, &err);
    ck_assert_int_eq(kmf_pretrain_save(t, path, NULL), 0);
    kmf_pretrain_free(t);
    REFUSE(length_max, 22, "longest window was 20, now it is 22");
#undef REFUSE
}
END_TEST

/* Of the same shape and weights, and yet another model: what its vectors are made of is learnt. */
START_TEST(a_checkpoint_of_a_model_that_is_used_otherwise_is_refused_by_name)
{
    options o = pair_options(KMF_OBJECTIVE_CONTRASTIVE);
    const char *path = in_dir("checkpoint");
    kmf_pretrain *t = begin(&o);
    ck_assert_int_eq(kmf_pretrain_save(t, path, NULL), 0);
    kmf_pretrain_free(t);
    static const struct {
        kmf_pooling pooling;
        kmf_activation activation;
        double eps;
        const char *says;
    } others[] = {{KMF_POOL_CLS, KMF_GELU, 1e-12, "pooling was mean, now it is cls"},
                  {KMF_POOL_MEAN, KMF_RELU, 1e-12, "activation was 0, now it is 2"},
                  {KMF_POOL_MEAN, KMF_GELU, 1e-5, "layer norm epsilon was "}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char other[600];
        kmf_model *model = kmf_model_load(o.init, NULL);
        ck_assert_ptr_nonnull(model);
        kmf_config c = *kmf_model_config(model);
        kmf_model_free(model);
        c.pooling = others[i].pooling;
        c.activation = others[i].activation;
        c.layer_norm_eps = others[i].eps;
        snprintf(other, sizeof other, "%s_%zu", o.init, i);
        model = kmf_model_new(&c, 5, NULL); /* the seed of the other one */
        ck_assert_int_eq(kmf_model_save(model, other, KMF_F32, NULL, NULL), 0);
        kmf_model_free(model);
        options changed = o;
        changed.init = other;
        cannot_go_on(&changed, input, path, others[i].says);
    }
}
END_TEST

/* ---------------------------------------------------------------- what is known --------- */

/* What a callback is told, after each step. */
static int look_at_pairs(void *user, const state *s, kmf_err *err)
{
    kmf_pretrain *t = user;
    bool val = t->now.held_windows > 0 && s->step % 2 == 0;
    (void)err;
    t->now.step--; /* what the step that is done was */
    bool mixed = kmf_pretrain_mixes(t);
    t->now.step++;
    ck_assert(isfinite(s->contrast) && s->contrast >= 0 && s->hits >= 0 && s->hits <= 1);
    ck_assert(s->norm > 0 && s->sources == 3);
    ck_assert(isnan(s->loss) == (!t->asks || mixed));
    ck_assert(t->asks || (isnan(s->loss) && isnan(s->bits) && isnan(s->val_bits)));
    ck_assert(s->validated == val);
    ck_assert(isnan(s->val_contrast) == (t->now.held_windows == 0 || s->step < 2));
    if (!isnan(s->val_contrast))
        ck_assert(s->val_hits >= 0 && s->val_hits <= 1 && s->best <= s->val_contrast);
    return 0;
}

START_TEST(what_is_told_of_pairs)
{
    for (int k = 0; k < CONTRASTS; k++) {
        options o = contrast_kind(k);
        kmf_err err = {0};
        kmf_pretrain *t = begin(&o);
        ck_assert_int_eq(train(t, look_at_pairs, t), 0);
        state s = state_of(t);
        double pairs = (double)(o.batch / 2 * s.steps);
        ck_assert(fabs(s.epochs - pairs / (double)s.windows) < 1e-12);
        ck_assert_int_eq(kmf_pretrain_model(t, in_dir("out"), KMF_F32, "{}", &err), 0);
        kmf_model *model = kmf_model_load(in_dir("out"), &err);
        ck_assert_msg(model, "%s", err.msg);
        ck_assert_int_eq(kmf_model_config(model)->norm, KMF_NORM_L2);
        kmf_model_free(model);
        kmf_pretrain_free(t);
    }
}
END_TEST

/* Pairs leave the encoder as it is; hidden bases teach it beside them. */
START_TEST(pairs_teach_the_composition_alone)
{
    for (int objective = KMF_OBJECTIVE_CONTRASTIVE; objective <= KMF_OBJECTIVE_BOTH;
         objective++) {
        options o = contrast_kind(0);
        kmf_err err = {0};
        o.composition = 12;
        o.objective = objective;
        kmf_pretrain *t = begin(&o);
        ck_assert_int_eq(t->model->config.parts, KMF_PARTS_STATES_COMPOSITION);
        float *before = kmf_floats(t->slots.total, NULL);
        memcpy(before, t->model->slab, t->slots.total * sizeof *before);
        train(t, NULL, NULL);
        for (size_t i = 0; i < t->slots.n; i++) {
            const kmf_slot *slot = &t->slots.slot[i];
            bool learnt =
                objective == KMF_OBJECTIVE_BOTH || strncmp(slot->name, "composition.", 12) == 0;
            ck_assert_msg((memcmp(before + slot->begin, t->model->slab + slot->begin,
                                  slot->n * sizeof *before) != 0) == learnt,
                          "%s", slot->name);
        }
        ck_assert_int_eq(kmf_pretrain_model(t, in_dir("out"), KMF_F32, "{}", &err), 0);
        kmf_model *model = kmf_model_load(in_dir("out"), &err);
        ck_assert_msg(model, "%s", err.msg);
        ck_assert_uint_eq(kmf_model_config(model)->composition, 12);
        assert_same_weights(model, t->model);
        kmf_model_free(model);
        kmf_pretrain_free(t);
        kmf_free(before);
        /* what was made here is learnt on, and is of so many numbers */
        o.init = in_dir("out");
        o.composition = 0;
        t = begin(&o);
        ck_assert(t->composes && t->model->config.composition == 12);
        kmf_pretrain_free(t);
        o.composition = 13;
        ck_assert_ptr_null(begun(&o, input, &err));
        ck_assert_msg(err.code == KMF_EMODEL && strstr(err.msg, "12 numbers, not 13"), "%s",
                      err.msg);
    }
}
END_TEST

/* Half of the steps are pairs of windows: two epochs take twice as many. */
START_TEST(an_epoch_of_pairs_has_each_window_as_a_first_one)
{
    options o = contrast_kind(0);
    o.steps = 0;
    o.epochs = 0.5;
    kmf_pretrain *t = begin(&o);
    state s = state_of(t);
    ck_assert_uint_eq(s.steps, (uint64_t)ceil(0.5 * (double)s.windows / 4));
    kmf_pretrain_free(t);
    o.epochs = 0;
    o.seconds = 1e-3;
    t = begin(&o);
    ck_assert_uint_ge(state_of(t).steps, 1);
    kmf_pretrain_free(t);
}
END_TEST

/* ---------------------------------------------------------------- a step ----------------- */

/* The first step's gradient by one loss alone, added up in sums[0]. Its weight, if it asks. */
static double learn_alone(kmf_pretrain *t, bool asks, double contrast)
{
    static int32_t none[1024];
    kmf_mlm_batch batch;
    kmf_mlm_result result;
    kmf_contrast_result compared;
    kmf_comparison *c = &t->comparison;
    size_t n = t->opts.batch;
    memset(t->sums[0], 0, t->slots.total * sizeof(float));
    ck_assert_int_eq(kmf_pretrain_show(t, &batch, 0, 0, n, NULL), 0);
    if (!asks) {
        ck_assert_uint_le(batch.off[n], 1024);
        memset(none, -1, sizeof none);
        batch.labels = none;
    }
    ck_assert_int_eq(kmf_mlm_encode(t->mlm, &batch, c->vectors, NULL), 0);
    kmf_contrast_views views = {.vectors = c->vectors, .sources = c->sources, .n = n};
    ck_assert_int_eq(
        kmf_contrast_learn(c->contrast, c->dvectors, &views, contrast, &compared, NULL), 0);
    ck_assert_int_eq(
        kmf_mlm_return(t->mlm, asks ? NULL : c->dvectors, &t->gradients[0], &result, NULL), 0);
    return result.weight;
}

/*
 * Both losses: the one of hidden bases a mean by their weight, the other one times its own. What
 * is summed up is divided by that weight at the end.
 */
START_TEST(a_step_of_both_is_the_sum_of_both)
{
    for (int variant = 0; variant < 3; variant++) {
        options o = pair_options(KMF_OBJECTIVE_BOTH);
        o.soft_weight = 0.3;
        o.contrast = 0.25;
        o.steps = 1;
        kmf_pretrain *by_hand = begin(&o);
        o.shards = variant == 1 ? 4 : 1;
        o.accumulate = variant == 2 ? 2 : 1;
        kmf_pretrain *t = begin(&o);
        size_t n = t->slots.total;
        train(t, NULL, NULL);
        double weight = learn_alone(by_hand, true, 0);
        float *masked = kmf_floats(n, NULL);
        ck_assert_ptr_nonnull(masked);
        memcpy(masked, by_hand->sums[0], n * sizeof *masked);
        ck_assert(weight > 1 && learn_alone(by_hand, false, 1) <= 0);
        double squares = 0, off = 0, of_pairs = 0;
        for (size_t i = 0; i < n; i++) {
            double pairs = 0.25 * (double)by_hand->sums[0][i];
            double g = (double)masked[i] / weight + pairs;
            double d = (double)t->sums[0][i] / weight - g;
            squares += g * g;
            of_pairs += pairs * pairs;
            off += d * d;
        }
        ck_assert_msg(off < 1e-10 * squares && of_pairs > 0.01 * squares, "%g of %g, %g", off,
                      squares, of_pairs);
        ck_assert(fabs(t->now.norm / sqrt(squares) - 1) < 1e-5);
        kmf_free(masked);
        kmf_pretrain_free(t);
        kmf_pretrain_free(by_hand);
    }
}
END_TEST

typedef struct tally {
    double least;
    uint64_t least_step, seen, others;
} tally;

/* The best step is that of the least contrastive loss, and not that of the fewest bits. */
static int keep_least(void *user, const state *s, kmf_err *err)
{
    tally *a = user;
    (void)err;
    if (!s->validated)
        return 0;
    a->seen++;
    ck_assert(isfinite(s->val_bits) && isfinite(s->val_contrast));
    if (s->val_contrast < a->least) {
        a->least = s->val_contrast;
        a->least_step = s->step;
    }
    ck_assert(s->best == a->least && s->best_step == a->least_step);
    return 0;
}

START_TEST(with_both_the_best_model_is_that_of_the_pairs)
{
    options o = pair_options(KMF_OBJECTIVE_BOTH);
    tally a = {.least = (double)INFINITY};
    o.held_fraction = 0.1;
    o.val_every = 2;
    kmf_pretrain *t = begin(&o);
    train(t, keep_least, &a);
    ck_assert_uint_eq(a.seen, 3);
    kmf_pretrain_free(t);
}
END_TEST

/* A rate so small that no weight moves: all validations are equal, and the first is the best. */
START_TEST(of_equal_validations_the_first_is_the_best)
{
    for (int i = 0; i < KMF_OBJECTIVE_BOTH + 1; i++) {
        options o = pair_options((kmf_objective)i);
        watch w = {.stop_at = 2, .answer = 1};
        o.rate = 1e-37;
        o.held_fraction = 0.1;
        o.val_every = 2;
        o.val_windows = 9;
        kmf_pretrain *t = begin(&o);
        train(t, look, &w);
        double best = state_of(t).best;
        ck_assert(isfinite(best) && state_of(t).best_step == 2);
        train(t, NULL, NULL);
        state s = state_of(t);
        ck_assert(s.step == 6 && s.validated);
        ck_assert((s.val_contrast == best) == (i != KMF_OBJECTIVE_MASKED));
        ck_assert(i != KMF_OBJECTIVE_MASKED || s.val_bits == best);
        ck_assert(s.best == best && s.best_step == 2);
        kmf_pretrain_free(t);
    }
}
END_TEST

/* What is asked of held-out windows is that of before the first step; steps drift, they do not. */
START_TEST(a_validation_does_not_depend_on_what_was_shown_before)
{
    options o = pair_options(KMF_OBJECTIVE_BOTH);
    o.rate = 1e-37;
    o.held_fraction = 0.1;
    o.val_windows = 9;
    o.drift = 1;
    kmf_pretrain *t = begin(&o);
    ck_assert_int_eq(kmf_pretrain_validate(t, NULL), 0);
    state before = state_of(t);
    train(t, NULL, NULL);
    state s = state_of(t);
    ck_assert(s.step == 6 && s.validated);
    ck_assert_double_eq(s.val_bits, before.val_bits);
    ck_assert_double_eq(s.val_loss, before.val_loss);
    ck_assert_double_eq(s.val_contrast, before.val_contrast);
    kmf_pretrain_free(t);
}
END_TEST

/*
 * A gradient longer than clip - 10^-6 is made clip / (length + 10^-6) times as long, as PyTorch's
 * clip_grad_norm_ does. After one step the first moments are 1 - beta1 of it. A loss so light that
 * the gradient's length is 10^-5 lets the small number be seen.
 */
START_TEST(a_long_gradient_is_made_as_long_as_the_clip)
{
    const double length = 1e-5;
    const double clips[] = {1e-6, 0.5 * length, length + 5e-7, length + 2e-6, 1, 0};
    options o = pair_options(KMF_OBJECTIVE_CONTRASTIVE);
    o.steps = 1;
    o.clip = 0;
    kmf_pretrain *t = begin(&o);
    train(t, NULL, NULL);
    o.contrast = length / t->now.norm;
    kmf_pretrain_free(t);
    for (size_t i = 0; i < sizeof clips / sizeof clips[0]; i++) {
        double squares = 0, wanted = length;
        o.clip = clips[i];
        t = begin(&o);
        train(t, NULL, NULL);
        ck_assert(fabs(t->now.norm / length - 1) < 1e-4);
        if (o.clip > 0 && o.clip < length + 1e-6)
            wanted = o.clip * length / (length + 1e-6);
        for (size_t j = 0; j < t->slots.total; j++)
            squares += (double)t->m[j] * (double)t->m[j];
        double got = sqrt(squares) / (1 - o.beta1);
        ck_assert_msg(fabs(got / wanted - 1) < 1e-3, "clip %g: %g, not %g", o.clip, got,
                      wanted);
        kmf_pretrain_free(t);
    }
}
END_TEST

/* ---------------------------------------------------------------- draws ------------------ */

static int compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* No two pieces of a training share their draws of dropout; the same piece has them twice. */
START_TEST(each_piece_has_a_dropout_of_its_own)
{
    enum { STEPS = 60, PIECES = 2, SEEDS = 2 };
    uint64_t keys[STEPS * PIECES * SEEDS];
    size_t n = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        options o = pair_options(KMF_OBJECTIVE_CONTRASTIVE);
        kmf_mlm_batch batch;
        o.shards = PIECES;
        o.dropout = 0.2;
        o.seed = seed;
        kmf_pretrain *t = begin(&o);
        for (t->now.step = 0; t->now.step < STEPS; t->now.step++)
            for (size_t at = 0; at < o.batch; at += o.batch / PIECES) {
                for (int time = 0; time < 2; time++) {
                    uint64_t first = t->now.step * o.batch + at;
                    ck_assert_int_eq(
                        kmf_pretrain_show(t, &batch, first, at, o.batch / PIECES, NULL), 0);
                    ck_assert(batch.dropout == o.dropout);
                    ck_assert(time == 0 || batch.key == keys[n]);
                    keys[n] = batch.key;
                }
                n++;
            }
        kmf_pretrain_free(t);
    }
    qsort(keys, n, sizeof *keys, compare_keys);
    for (size_t i = 1; i < n; i++)
        ck_assert(keys[i] != keys[i - 1]);
}
END_TEST

/* Contigs, many of them shorter than a window, so that a batch has windows of several lengths. */
static const char *short_and_long(void)
{
    kmf_rng rng = kmf_rng_stream(21, 0);
    input[0] = '\0';
    for (int i = 0; i < 200; i++)
        add_contig("c", kmf_rng_below(&rng, 2) == 0 ? 17 : 72, &rng);
    return input;
}

/* What must hold of the mixture of a piece whatever is drawn; returns how many may be mixed. */
static size_t is_a_mixture(const kmf_pretrain *t, size_t at, size_t n)
{
    const kmf_comparison *c = &t->comparison;
    size_t longest = 0, mixed = 0;
    bool served[64] = {false};
    ck_assert(c->mix.layer < t->model->config.n_layers && n <= 64);
    ck_assert(c->mix.partner == c->piece_partner && c->mix.served == c->piece_served);
    ck_assert(c->mix.share == c->share + at);
    for (size_t i = 0; i < n; i++)
        longest = t->views[i].excerpt.n > longest ? t->views[i].excerpt.n : longest;
    for (size_t i = 0; i < n; i++) {
        size_t partner = c->mix.partner[i];
        bool may = i % 2 == 0 && t->views[i].excerpt.n == longest;
        ck_assert(partner < n && !served[partner] && c->mix.served[partner] == i);
        served[partner] = true;
        ck_assert_uint_eq(c->partner[at + i], at + partner);
        if (may)
            ck_assert(partner % 2 == 0 && t->views[partner].excerpt.n == longest &&
                      c->mix.share[i] >= 0 && c->mix.share[i] < 1);
        else
            ck_assert(partner == i && c->mix.share[i] >= 1 && c->mix.share[i] <= 1);
        mixed += may;
    }
    return mixed;
}

START_TEST(mixtures_are_drawn_evenly)
{
    enum { STEPS = 800, BINS = 10 };
    options o = pair_options(KMF_OBJECTIVE_CONTRASTIVE);
    kmf_err err = {0};
    kmf_mlm_batch batch;
    uint64_t layers[2] = {0}, partners[16] = {0}, shares[BINS] = {0}, all_four = 0, fewer = 0;
    o.mix = 1;
    o.shards = 2;
    o.batch = 16;
    kmf_pretrain *t = begun(&o, short_and_long(), &err);
    ck_assert_msg(t, "%s", err.msg);
    for (t->now.step = 0; t->now.step < STEPS; t->now.step++)
        for (size_t at = 0; at < 16; at += 8) {
            uint64_t first = t->now.step * o.batch + at;
            kmf_rng rng =
                kmf_draw(o.seed, KMF_DRAW_MIX, t->now.step, 1 + first); /* pretrain.h */
            ck_assert_int_eq(kmf_pretrain_show(t, &batch, first, at, 8, NULL), 0);
            ck_assert_ptr_eq(batch.mix, &t->comparison.mix);
            ck_assert_uint_eq(batch.mix->layer, kmf_rng_below(&rng, 2));
            size_t mixed = is_a_mixture(t, at, 8);
            layers[batch.mix->layer]++;
            for (size_t i = 0; mixed == 4 && i < 8; i += 2) {
                partners[i / 2 * 4 + batch.mix->partner[i] / 2]++;
                shares[(size_t)(batch.mix->share[i] * BINS)]++;
            }
            all_four += mixed == 4;
            fewer += mixed > 0 && mixed < 4;
        }
    ck_assert(all_four > 100 && fewer > 100);
    double half[2] = {STEPS, STEPS}, quarter[16], tenth[BINS];
    for (size_t i = 0; i < 16; i++)
        quarter[i] = (double)all_four / 4;
    for (size_t i = 0; i < BINS; i++)
        tenth[i] = (double)all_four * 4 / BINS;
    chi_square_test("layers", layers, half, 2);
    chi_square_test("shares", shares, tenth, BINS);
    for (size_t i = 0; i < 16; i += 4)
        chi_square_test("partners", partners + i, quarter + i, 4);
    kmf_pretrain_free(t);
}
END_TEST

/* A step mixes with the chance that was asked for, and as a whole. */
START_TEST(so_many_steps_mix)
{
    enum { STEPS = 4000 };
    options o = pair_options(KMF_OBJECTIVE_BOTH);
    kmf_mlm_batch batch;
    uint64_t seen[2] = {0};
    o.mix = 0.3;
    o.shards = 2;
    kmf_pretrain *t = begin(&o);
    for (t->now.step = 0; t->now.step < STEPS; t->now.step++) {
        bool mixes = kmf_pretrain_mixes(t);
        seen[mixes]++;
        for (size_t at = 0; t->now.step < 20 && at < 8; at += 4) {
            size_t labelled = 0;
            ck_assert_int_eq(
                kmf_pretrain_show(t, &batch, t->now.step * o.batch + at, at, 4, NULL), 0);
            for (size_t i = 0; i < batch.off[4]; i++)
                labelled += batch.labels[i] >= 0;
            /* what is mixed is not asked */
            ck_assert((batch.mix != NULL) == mixes && (labelled == 0) == mixes);
        }
    }
    chi_square_test("steps that mix", seen, (double[]){0.7 * STEPS, 0.3 * STEPS}, 2);
    kmf_pretrain_free(t);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, begin_test, remove_dir);
    tcase_add_test(tcase, comparing_has_the_same_bits_however_it_is_done);
    tcase_add_test(tcase, each_setting_of_pairs_changes_the_result);
    tcase_add_test(tcase, pieces_of_pairs_change_the_rounding_alone);
    tcase_add_test(tcase, what_is_stopped_saved_and_loaded_ends_the_same);
    tcase_add_test(tcase, a_checkpoint_of_other_pairs_is_refused_by_name);
    tcase_add_test(tcase, a_checkpoint_of_a_model_that_is_used_otherwise_is_refused_by_name);
    tcase_add_test(tcase, what_is_told_of_pairs);
    tcase_add_test(tcase, pairs_teach_the_composition_alone);
    tcase_add_test(tcase, an_epoch_of_pairs_has_each_window_as_a_first_one);
    tcase_add_test(tcase, a_step_of_both_is_the_sum_of_both);
    tcase_add_test(tcase, with_both_the_best_model_is_that_of_the_pairs);
    tcase_add_test(tcase, of_equal_validations_the_first_is_the_best);
    tcase_add_test(tcase, a_validation_does_not_depend_on_what_was_shown_before);
    tcase_add_test(tcase, a_long_gradient_is_made_as_long_as_the_clip);
    tcase_add_test(tcase, each_piece_has_a_dropout_of_its_own);
    tcase_add_test(tcase, mixtures_are_drawn_evenly);
    tcase_add_test(tcase, so_many_steps_mix);
    return run_case("pretrain_pairs", tcase);
}
