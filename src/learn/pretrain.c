/* SPDX-License-Identifier: MIT */
/*
 * A pretraining from options to the moment before the first step.
 *
 *   new     options -> model (drawn, or loaded to go on with), vocabulary, how letters are spelt
 *   read    records -> genome: what is learnt from and what is held out
 *   begin   genome -> windows; Markov models of it, asked about the held-out windows and let go
 *           again; room for one piece of a batch; gradients, moments
 *
 * Everything that takes memory and lasts is made by begin, and counted there: a step makes nothing
 * new. The Markov models, up to 359 MB, live before the rest is made.
 */
#include "learn/pretrain.h"

#include "base/err.h"
#include "base/groups.h"
#include "base/mem.h"
#include "learn/markov.h"
#include "learn/ranks.h"
#include "learn/word_init.h"
#include "model/config.h"
#include "nn/composition.h"
#include "seq/par.h"
#include "words/vocab.h"

#include <math.h>

#define SHORTEST 16 /* bases: shorter runs tell nothing */

/* ---------------------------------------------------------------- the model -------------- */

/* Bases of a window. */
static size_t window_letters(const kmf_pretrain *t)
{
    return kmf_spelling_letters(&t->spelling, t->model->config.window);
}

size_t kmf_pretrain_columns(const kmf_pretrain *t)
{
    const kmf_config *c = &t->model->config;
    return t->composes ? c->composition : c->hidden_size;
}

size_t kmf_pretrain_piece(const kmf_pretrain *t)
{
    return t->opts.batch / t->opts.shards / t->opts.accumulate;
}

/* Lengths of windows in pairs; and the model's vectors are what the loss sees. */
static int set_comparison(kmf_pretrain *t, const kmf_pretrain_options *o, kmf_err *err)
{
    kmf_config *c = &t->model->config;
    size_t window = window_letters(t);
    size_t most = o->length_max > 0 ? o->length_max : window;
    size_t least = o->length_min > 0 ? o->length_min : most;
    int layer = c->layer < 0 ? (int)c->n_layers + 1 + c->layer : c->layer;
    if (c->pooling == KMF_POOL_NONE || c->pooling == KMF_POOL_POOLER)
        return kmf_fail(err, KMF_EINVAL, "pooling %s makes no vectors to compare",
                        kmf_pooling_names[c->pooling]);
    if (!t->composes && layer < (int)c->n_layers)
        return kmf_fail(err, KMF_EINVAL,
                        "the model's vectors are those of layer %d, and not of the last one",
                        c->layer);
    if (t->composes && o->mix > 0)
        return kmf_fail(err, KMF_EINVAL,
                        "a composition has no hidden states to mix: mix is for parts states");
    if (least < t->spelling.k || most > window)
        return kmf_fail(err, KMF_EINVAL,
                        "length: from %zu, a k-mer, to %zu bases, a window of %zu tokens",
                        t->spelling.k, window, c->window);
    t->pairs = (kmf_pair_options){.length_min = least,
                                  .length_max = most,
                                  .near = o->near,
                                  .distance = o->distance,
                                  .drift = o->drift};
    c->norm = KMF_NORM_L2;
    return 0;
}

/* Weights, their gradients and two moments are the least that trains: before they are drawn. */
static int check_model_memory(const kmf_config *config, const kmf_pretrain_options *o,
                              kmf_err *err)
{
    kmf_slots slots = {0};
    double here = (double)kmf_memory_here();
    int status = kmf_slots_new(&slots, config, true, err);
    double bytes = 4.0 * sizeof(float) * (double)slots.total;
    kmf_slots_free(&slots);
    if (status == 0 && bytes > here)
        return kmf_fail(err, KMF_ENOMEM,
                        "%.1f GB of memory are needed to train %.0f M parameters, and there "
                        "are %.1f: take a smaller k than %d, or a smaller preset than %s",
                        1e-9 * bytes, 1e-6 * bytes / (4 * sizeof(float)), 1e-9 * here, o->k,
                        o->preset);
    return status;
}

static int draw_model(kmf_pretrain *t, const kmf_pretrain_options *o, kmf_err *err)
{
    kmf_config config;
    if (kmf_config_preset(&config, o->preset, o->k, err) < 0)
        return -1;
    config.composition = o->composition;
    if (check_model_memory(&config, o, err) < 0)
        return -1;
    t->model = kmf_model_draw(&config, o->seed, err);
    return t->model ? 0 : -1;
}

/* The model as it will be used: window and stride are those that it was trained with. */
static int make_model(kmf_pretrain *t, const kmf_pretrain_options *o, kmf_err *err)
{
    bool new_composition = o->composition > 0;
    if (o->init) {
        t->model = kmf_model_load_own(o->init, o->seed, o->composition, &t->new_head,
                                      &new_composition, err);
        t->old_head = t->model && !t->new_head;
    } else if (draw_model(t, o, err) < 0) {
        return -1;
    }
    if (!t->model)
        return -1;
    kmf_config *c = &t->model->config;
    if (o->composition > 0 && c->composition != o->composition)
        return kmf_fail(err, KMF_EMODEL, "%s has a composition of %zu numbers, not %zu",
                        o->init, c->composition, o->composition);
    if (new_composition) {
        c->parts = o->init || t->asks ? KMF_PARTS_STATES_COMPOSITION : KMF_PARTS_COMPOSITION;
        kmf_word_init_composition(t->model, o->seed);
    }
    c->stride = o->stride ? o->stride : c->stride;
    c->window = o->window ? o->window : c->window;
    if (c->stride > (size_t)c->k)
        return kmf_fail(err, KMF_EINVAL, "stride: from 1 to k, which is %d", c->k);
    if (c->window < 8 || c->window > 65536)
        return kmf_fail(err, KMF_EINVAL, "window: from 8 to 65536 tokens");
    c->parts = o->parts >= 0 ? (kmf_vector_parts)o->parts : c->parts;
    if (c->max_positions < c->window)
        c->max_positions = c->window;
    if (c->overlap > c->window / 2 || o->window)
        c->overlap = c->window / 8;
    if (kmf_spelling_make(&t->spelling, t->model->vocab, c->stride, c->specials != 0, err) < 0)
        return -1;
    if (!o->init && o->words == KMF_WORDS_TETRAMERS && c->k < KMF_TETRAMER)
        return kmf_fail(err, KMF_EINVAL, "words of %d letters have no tetramers", c->k);
    if (!o->init && o->words != KMF_WORDS_RANDOM)
        kmf_word_init_letters(t->model, o->seed, o->words == KMF_WORDS_TETRAMERS);
    if (o->embeddings &&
        kmf_word_init_vectors(t->model, o->embeddings, &t->now.unfilled, err) < 0)
        return -1;
    if (kmf_config_check(c, KMF_EINVAL, o->init ? o->init : "model", err) < 0)
        return -1;
    t->composes = t->compares && kmf_has_composition(c->parts);
    if (new_composition && !t->composes)
        return kmf_fail(
            err, KMF_EINVAL,
            "composition: nothing would teach it: the objective must be contrastive "
            "or both, and the parts not states alone");
    if (t->compares && set_comparison(t, o, err) < 0)
        return -1;
    return kmf_slots_new(&t->slots, c, true, err);
}

/* ---------------------------------------------------------------- life ------------------- */

static int make_genome(kmf_pretrain *t, const kmf_pretrain_options *o, kmf_err *err)
{
    kmf_genome_options g;
    kmf_genome_options_default(&g);
    g.held = o->held;
    g.n_held = o->n_held;
    g.fraction = o->held_fraction;
    g.shortest = t->spelling.k > SHORTEST ? t->spelling.k : SHORTEST;
    g.memory = o->memory;
    g.tmp = o->tmp;
    g.soft = o->soft_weight < 1;
    g.sources = (kmf_sources)o->sources;
    t->genome = kmf_genome_new(&g, err);
    return t->genome ? 0 : -1;
}

kmf_pretrain *kmf_pretrain_new(const kmf_pretrain_options *opts, kmf_err *err)
{
    err = kmf_err_or(err, &(kmf_err){0});
    if (kmf_pretrain_check_options(opts, err) < 0)
        return NULL;
    kmf_pretrain *t = kmf_calloc(1, sizeof *t, err);
    if (!t)
        return NULL;
    t->opts = *opts;
    t->opts.preset = t->opts.init = t->opts.embeddings = t->opts.tmp = NULL;
    t->opts.held = NULL;
    t->opts.precision = (int)kmf_precision_here((kmf_precision)opts->precision);
    t->opts.threads = opts->threads ? opts->threads : kmf_threads_default();
    t->spans = (kmf_spans_options){.rate = opts->mask_rate,
                                   .span_min = opts->span_min,
                                   .span_max = opts->span_max,
                                   .p_mask = opts->mask_share,
                                   .p_random = opts->random_share};
    t->asks = opts->objective != KMF_OBJECTIVE_CONTRASTIVE;
    t->compares = opts->objective != KMF_OBJECTIVE_MASKED;
    t->now.val_loss = t->now.val_bits = t->now.val_contrast = t->now.val_hits = t->now.best =
        (double)NAN;
    t->now.loss = t->now.bits = t->now.contrast = t->now.hits = t->now.norm = (double)NAN;
    if (kmf_spans_options_check(&t->spans, err) < 0 || make_model(t, opts, err) < 0 ||
        make_genome(t, opts, err) < 0)
        goto failed;
    if (kmf_helpers_new(&t->pool, t->opts.threads, err) < 0)
        goto failed;
    return t;
failed:
    kmf_pretrain_free(t);
    return NULL;
}

/* What make_training makes. */
static void clear_training(kmf_pretrain *t)
{
    for (size_t i = 0; i < KMF_MOST_SUMS_OPEN; i++) {
        kmf_free(t->sums[i]);
        kmf_free(t->gradients[i].layers);
        t->sums[i] = NULL;
        t->gradients[i].layers = NULL;
    }
    kmf_free(t->m);
    kmf_free(t->v);
    kmf_free(t->scratch);
    kmf_free(t->shard_stats);
    kmf_comparison_clear(&t->comparison);
    kmf_mlm_free(t->mlm);
    kmf_update_free(t->update);
    t->m = t->v = t->scratch = NULL;
    t->shard_stats = NULL;
    t->mlm = NULL;
    t->update = NULL;
}

void kmf_pretrain_free(kmf_pretrain *trainer)
{
    kmf_pretrain *t = trainer;
    if (!t)
        return;
    clear_training(t);
    kmf_free(t->views);
    kmf_masker_free(t->masker);
    kmf_windows_free(t->windows);
    kmf_windows_free(t->held_windows);
    kmf_genome_free(t->genome);
    kmf_slots_free(&t->slots);
    kmf_model_free(t->model);
    kmf_pool_free(t->pool);
    kmf_free(t);
}

kmf_pool *kmf_pretrain_pool(kmf_pretrain *trainer)
{
    return trainer->pool;
}

int kmf_pretrain_read(kmf_pretrain *trainer, kmf_reader *reader, int held_whole,
                      kmf_progress_fn *fn, void *user, kmf_err *err)
{
    if (trainer->tried)
        return kmf_fail(err, KMF_EINVAL, "the training has begun: its reading has ended");
    if (trainer->cut_short)
        return kmf_fail(err, KMF_EINVAL, "an input was not read to its end");
    int status = kmf_genome_read(trainer->genome, reader, held_whole != 0, fn, user, err);
    trainer->cut_short |= status < 0 && status != KMF_EINVAL;
    return status;
}

/* ---------------------------------------------------------------- begin ------------------ */

static kmf_masker_options masker_options(const kmf_pretrain *t)
{
    return (kmf_masker_options){.genome = t->genome,
                                .spelling = t->spelling,
                                .letters = window_letters(t),
                                .most = kmf_pretrain_piece(t),
                                .soft_weight = (float)t->opts.soft_weight,
                                .pool = t->pool};
}

static kmf_mlm_options mlm_options(const kmf_pretrain *t)
{
    size_t window = kmf_spelling_tokens(&t->spelling, window_letters(t));
    return (kmf_mlm_options){.max_tokens = kmf_pretrain_piece(t) * window,
                             .max_seq = window,
                             .recompute = t->opts.recompute != 0,
                             .vectors = t->compares,
                             .composes = t->composes,
                             .unasked = !t->asks,
                             .max_seqs = kmf_pretrain_piece(t),
                             .unknown = t->spelling.unk,
                             .precision = (kmf_precision)t->opts.precision,
                             .sites = t->masker ? kmf_masker_sites(t->masker) : NULL,
                             .n_sites = 4 * t->spelling.k};
}

/* Sums that are open at once: one for each level of this rank's part of the tree, and one. */
static size_t open_sums(const kmf_pretrain *t)
{
    size_t n = 1;
    for (size_t own = t->opts.shards / (size_t)kmf_ranks(); own > 1; own /= 2)
        n++;
    return n;
}

static uint64_t short_segments(const kmf_pretrain *t)
{
    const kmf_corpus *corpus = kmf_genome_corpus(t->genome, KMF_GENOME_TRAIN);
    uint64_t n = 0;
    kmf_corpus_info info;
    kmf_corpus_information(corpus, &info);
    for (uint64_t s = 0; s < info.segments; s++)
        n += kmf_corpus_start(corpus, s + 1) - kmf_corpus_start(corpus, s) < window_letters(t);
    return n;
}

/* Of a genome in lower case nothing counts if soft letters count nothing. */
static int check_soft(const kmf_pretrain *t, kmf_err *err)
{
    kmf_genome_info info;
    kmf_genome_information(t->genome, &info);
    const kmf_genome_part_info *train = &info.parts[KMF_GENOME_TRAIN];
    if (t->opts.soft_weight > 0 || train->soft < train->kept)
        return 0;
    return kmf_fail(err, KMF_EFORMAT,
                    "there is nothing to learn from: all bases are lower case, and softmask 0 "
                    "leaves those out");
}

/* Windows of one source have no others to be told from, nor is there a loss of those held out. */
static int check_sources(const kmf_pretrain *t, kmf_err *err)
{
    bool inputs = t->opts.sources == KMF_SOURCES_INPUT;
    if (!t->compares)
        return 0;
    if (kmf_genome_n_sources(t->genome, KMF_GENOME_TRAIN) < 2)
        return kmf_fail(err, KMF_EINVAL,
                        "all that is learnt from is one %s, and windows of it have no others "
                        "to be told from: give several, or take %s",
                        inputs ? "input" : "record",
                        inputs ? "each record as a source" : "the masked objective");
    if (kmf_genome_n_sources(t->genome, KMF_GENOME_HELD) == 1)
        return kmf_fail(err, KMF_EINVAL,
                        "all that is held out is of one %s, and windows of it have no others "
                        "to be told from: hold out of several (val-fraction does of all), or "
                        "nothing",
                        inputs ? "input" : "record");
    return 0;
}

/* The same of those windows that validation looks at: they lie evenly, and sources may be small. */
static int check_held_windows(const kmf_pretrain *t, kmf_err *err)
{
    size_t first = 0;
    if (!t->compares)
        return 0;
    for (uint64_t i = 0; i < t->now.held_windows; i++) {
        kmf_excerpt excerpt;
        kmf_windows_fixed(t->held_windows, t->now.held_windows, i, &excerpt);
        size_t source = kmf_genome_source(t->genome, KMF_GENOME_HELD, excerpt.at);
        if (i == 0)
            first = source;
        if (source != first)
            return 0;
    }
    return kmf_fail(
        err, KMF_EINVAL,
        "the windows that validation looks at, %llu, are all of one %s, and have no "
        "others to be told from: look at more (val-windows), or hold out others",
        (unsigned long long)t->now.held_windows,
        t->opts.sources == KMF_SOURCES_INPUT ? "input" : "record");
}

static int make_windows(kmf_pretrain *t, kmf_err *err)
{
    kmf_genome_info info;
    const kmf_corpus *held = kmf_genome_corpus(t->genome, KMF_GENOME_HELD);
    size_t letters = window_letters(t);
    kmf_genome_information(t->genome, &info);
    t->windows = kmf_windows_new(kmf_genome_corpus(t->genome, KMF_GENOME_TRAIN), letters,
                                 t->opts.seed, err);
    if (!t->windows)
        return KMF_ENOMEM;
    t->now.short_ones = short_segments(t);
    if (info.parts[KMF_GENOME_HELD].kept == 0)
        return 0;
    t->held_windows = kmf_windows_new(held, letters, t->opts.seed, err);
    if (!t->held_windows)
        return KMF_ENOMEM;
    t->most_held = kmf_windows_fixed_count(t->held_windows, t->opts.val_windows);
    t->now.held_windows = t->most_held;
    return check_held_windows(t, err);
}

/* What copying and Markov models would take for the bases that validation asks for; rank 0. */
static int ask_baselines(kmf_pretrain *t, kmf_progress_fn *fn, void *user, kmf_err *err)
{
    size_t piece = kmf_pretrain_piece(t);
    kmf_markov *markov = kmf_markov_new(kmf_genome_corpus(t->genome, KMF_GENOME_TRAIN),
                                        KMF_MARKOV_MAX, fn, user, err);
    if (!markov)
        return KMF_ENOMEM;
    int status = 0;
    for (uint64_t first = 0; first < t->now.held_windows && status >= 0; first += piece) {
        kmf_mlm_batch batch;
        status = kmf_pretrain_show_held(t, &batch, first, err);
        if (status >= 0)
            status = kmf_masker_baselines(t->masker, markov, &t->baseline, err);
    }
    kmf_markov_free(markov);
    return status < 0 ? status : 0;
}

static uint64_t count_bytes(const kmf_pretrain *t)
{
    kmf_masker_options masker = masker_options(t);
    kmf_mlm_options mlm = mlm_options(t);
    kmf_genome_info info;
    kmf_genome_information(t->genome, &info);
    uint64_t slab = t->slots.total * sizeof(float);
    uint64_t held = t->held_windows ? kmf_windows_bytes(t->held_windows) : 0;
    uint64_t kept = kmf_vocab_bytes(t->model->vocab) + kmf_genome_bytes(t->genome) +
                    kmf_windows_bytes(t->windows) + held + slab + kmf_masker_bytes(&masker) +
                    kmf_pretrain_piece(t) * sizeof *t->views;
    uint64_t tried = t->opts.seconds > 0 ? 1 : 0; /* weights that learn in trials */
    uint64_t trained = (2 + open_sums(t) + tried) * slab +
                       kmf_ranks_scratch(t->slots.total) * sizeof(float) +
                       kmf_update_bytes(&t->slots) + kmf_comparison_bytes(t) +
                       kmf_mlm_bytes(&t->model->config, &mlm, kmf_pool_threads(t->pool) + 1);
    uint64_t markov = t->asks && t->now.held_windows > 0 && kmf_rank() == 0
                          ? kmf_markov_bytes(KMF_MARKOV_MAX, info.parts[KMF_GENOME_TRAIN].kept)
                          : 0;
    return kept + (trained > markov ? trained : markov);
}

static int check_memory(const kmf_pretrain *t, kmf_err *err)
{
    uint64_t here = kmf_memory_here();
    if (t->now.bytes > here)
        return kmf_fail(
            err, KMF_ENOMEM,
            "%.1f GB of memory are needed, and there are %.1f: take a "
            "smaller batch or window, accumulate, or recompute%s",
            1e-9 * (double)t->now.bytes, 1e-9 * (double)here,
            t->compares ? ", or look at fewer held-out windows, of which all pairs are compared"
                        : "");
    return 0;
}

/* Hidden bases teach the encoder, pairs teach it or the composition that they compare. */
static int learns(const kmf_pretrain *t)
{
    int encoder = t->asks || (t->compares && !t->composes) ? KMF_LEARN_ENCODER : 0;
    return encoder | (t->composes ? KMF_LEARN_COMPOSITION : 0);
}

static int make_training(kmf_pretrain *t, kmf_err *err)
{
    kmf_mlm_options mlm = mlm_options(t);
    t->update = kmf_update_new(&t->slots, learns(t), t->pool, err);
    t->mlm = kmf_mlm_new(&t->model->config, &t->model->params, &mlm, t->pool, err);
    t->m = kmf_large_zeroed(t->slots.total, sizeof *t->m, err);
    t->v = kmf_large_zeroed(t->slots.total, sizeof *t->v, err);
    t->shard_stats = kmf_calloc(t->opts.shards * KMF_SHARD_STATS, sizeof(double), err);
    t->scratch = kmf_floats(kmf_ranks_scratch(t->slots.total), err);
    if (t->compares && kmf_comparison_new(&t->comparison, t, err) < 0)
        return KMF_ENOMEM;
    if (!t->update || !t->mlm || !t->m || !t->v || !t->shard_stats || !t->scratch)
        return KMF_ENOMEM;
    for (t->n_sums = 0; t->n_sums < open_sums(t); t->n_sums++) {
        kmf_params *gradients = &t->gradients[t->n_sums];
        t->sums[t->n_sums] = kmf_large_zeroed(t->slots.total, sizeof(float), err);
        gradients->layers =
            kmf_calloc(t->model->config.n_layers, sizeof *gradients->layers, err);
        if (!t->sums[t->n_sums] || !gradients->layers)
            return KMF_ENOMEM;
        kmf_slots_point(&t->slots, gradients, t->sums[t->n_sums]);
    }
    return 0;
}

/* Of an epoch's windows a step takes so many: of pairs the first one. */
static double step_windows(const kmf_pretrain *t)
{
    return (double)t->opts.batch / (t->compares ? 2 : 1);
}

static void set_plan(kmf_pretrain *t, const kmf_pretrain_plan *plan)
{
    t->now.steps = plan->steps;
    t->val_every = plan->val_every;
    t->now.held_windows = plan->windows;
    /* of pairs so many that they are of several sources, as all of them are */
    while (check_held_windows(t, NULL) < 0 && t->now.held_windows < t->most_held)
        t->now.held_windows =
            t->now.held_windows < t->most_held / 2 ? 2 * t->now.held_windows : t->most_held;
}

static int set_steps_of_time(kmf_pretrain *t, kmf_err *err)
{
    kmf_pretrain_costs costs;
    int status = make_training(t, err);
    if (status == 0)
        status = kmf_pretrain_measure(t, &costs, err);
    clear_training(t);
    if (status < 0)
        return status;
    kmf_pretrain_plan plan =
        kmf_pretrain_plan_time(&costs, t->most_held, t->opts.val_every, t->opts.val_share);
    set_plan(t, &plan);
    return 0;
}

static int set_steps(kmf_pretrain *t, kmf_err *err)
{
    const kmf_pretrain_options *o = &t->opts;
    if (o->seconds > 0)
        return o->resumes ? 0 : set_steps_of_time(t, err);
    t->now.steps = o->steps;
    if (o->epochs > 0)
        t->now.steps = (uint64_t)fmin(
            ceil(o->epochs * (double)kmf_windows_count(t->windows) / step_windows(t)),
            KMF_STEPS_MAX);
    if (t->now.steps < 1)
        t->now.steps = 1;
    t->val_every = o->val_every;
    if (o->val_every == 0)
        t->val_every = (t->now.steps + KMF_VALIDATIONS - 1) / KMF_VALIDATIONS;
    return 0;
}

int kmf_pretrain_begin(kmf_pretrain *trainer, kmf_progress_fn *fn, void *user, kmf_err *err)
{
    kmf_pretrain *t = trainer;
    if (t->tried)
        return kmf_fail(err, KMF_EINVAL, "a training begins once");
    if (t->cut_short)
        return kmf_fail(err, KMF_EINVAL, "an input was not read to its end");
    t->tried = true;
    t->unloaded = t->opts.resumes != 0;
    if (!kmf_ranks_agree((uint64_t)t->unloaded))
        return kmf_pretrain_disagree(KMF_STEP_RESUMED, err);
    int status = kmf_genome_finish(t->genome, err);
    if (status == 0)
        status = check_soft(t, err);
    if (status == 0)
        status = check_sources(t, err);
    if (status == 0)
        status = make_windows(t, err);
    if (status == 0) /* before a time is made steps of, which takes steps of all ranks */
        status = kmf_pretrain_agree(t, err);
    if (status < 0)
        return status;
    kmf_masker_options masker = masker_options(t);
    t->masker = kmf_masker_new(&masker, err);
    t->views = kmf_calloc(kmf_pretrain_piece(t), sizeof *t->views, err);
    if (!t->masker || !t->views)
        return KMF_ENOMEM;
    t->now.bytes = count_bytes(t);
    status = check_memory(t, err);
    if (status == 0)
        status = set_steps(t, err);
    if (status == 0 && t->asks && t->now.held_windows > 0 && kmf_rank() == 0 && !t->unloaded)
        status = ask_baselines(t, fn, user, err);
    if (status == 0)
        kmf_ranks_share((double *)&t->baseline, sizeof t->baseline / sizeof(double));
    if (status == 0)
        status = make_training(t, err);
    t->first_weights = kmf_pretrain_checksum(t);
    t->begun = status == 0;
    return status;
}

int kmf_pretrain_check_begun(const kmf_pretrain *t, kmf_err *err)
{
    if (t->begun && t->unloaded)
        return kmf_fail(err, KMF_EINVAL, "the checkpoint to resume from is not loaded");
    return t->begun ? 0 : kmf_fail(err, KMF_EINVAL, "the training has not begun");
}

/* ---------------------------------------------------------------- what is known ---------- */

static void tell_baselines(const kmf_pretrain *t, kmf_pretrain_state *state)
{
    double n = t->baseline.hidden;
    state->val_hidden = (uint64_t)n;
    state->copy_bits = t->baseline.copy / n;
    state->markov_best = 1;
    for (int m = 0; m < KMF_MARKOV_ORDERS; m++) {
        state->markov_bits[m] = t->baseline.markov[m] / n;
        if (m > 1 && state->markov_bits[m] < state->markov_bits[state->markov_best])
            state->markov_best = m;
    }
}

void kmf_pretrain_information(const kmf_pretrain *trainer, kmf_pretrain_state *state)
{
    const kmf_pretrain *t = trainer;
    kmf_genome_info info;
    kmf_genome_information(t->genome, &info);
    *state = t->now;
    state->records = info.records;
    state->letters = info.letters;
    state->ambiguous = info.ambiguous;
    state->too_short =
        info.parts[KMF_GENOME_TRAIN].too_short + info.parts[KMF_GENOME_HELD].too_short;
    state->bases = info.parts[KMF_GENOME_TRAIN].kept;
    state->held_bases = info.parts[KMF_GENOME_HELD].kept;
    state->held_shared = info.held_shared;
    state->segments = info.parts[KMF_GENOME_TRAIN].segments;
    state->parameters = t->model->n_parameters;
    state->window = t->model->config.window;
    state->window_bases = window_letters(t);
    state->precision = t->opts.precision;
    state->undropped = t->opts.dropout > 0 && !(learns(t) & KMF_LEARN_ENCODER);
    state->new_head = t->asks && t->new_head;
    state->val_every = t->val_every;
    state->val_due = t->val_due != 0;
    state->ranks = kmf_ranks();
    state->rank = kmf_rank();
    if (t->windows) {
        state->windows = kmf_windows_count(t->windows);
        state->epochs =
            (double)t->now.step * step_windows(t) / (double)kmf_windows_count(t->windows);
        state->sources = kmf_genome_n_sources(t->genome, KMF_GENOME_TRAIN);
    }
    tell_baselines(t, state);
}

const char *kmf_pretrain_origin(const kmf_pretrain *trainer)
{
    return trainer->model->provenance;
}

int kmf_pretrain_model(const kmf_pretrain *trainer, const char *dir, kmf_dtype dtype,
                       const char *provenance, kmf_err *err)
{
    kmf_model model = *trainer->model;
    bool left_behind = learns(trainer) & KMF_LEARN_ENCODER;
    if (!trainer->asks && (left_behind || !trainer->old_head)) /* such a head knows nothing */
        model.params.head_w = NULL;
    return kmf_model_update(&model, dir, dtype, provenance, err);
}
