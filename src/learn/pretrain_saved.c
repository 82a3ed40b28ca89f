/* SPDX-License-Identifier: MIT */
/* What a checkpoint of a pretraining holds: weights, moments, and how far it is. */
#include "base/crc.h"
#include "base/err.h"
#include "learn/pretrain.h"
#include "learn/ranks.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

#define AT(field) offsetof(kmf_pretrain, field)
static const size_t progress[] = {
    AT(now.step), AT(now.steps), AT(now.tokens), AT(now.loss), AT(now.bits), AT(now.rate),
    AT(now.norm), AT(now.val_loss), AT(now.val_bits), AT(now.contrast), AT(now.hits),
    AT(now.val_contrast), AT(now.val_hits), AT(now.best), AT(now.best_step), AT(val_every),
    AT(val_due),
    /* which windows are held out may hang on the time, and so do these of them */
    AT(now.held_windows), AT(baseline.hidden), AT(baseline.copy), AT(baseline.markov[0]),
    AT(baseline.markov[1]), AT(baseline.markov[2]), AT(baseline.markov[3]),
    AT(baseline.markov[4]), AT(baseline.markov[5]), AT(baseline.markov[6]),
    AT(baseline.markov[7]), AT(baseline.markov[8]), AT(baseline.markov[9]),
    AT(baseline.markov[10]), AT(baseline.markov[11]), AT(baseline.markov[12])};
#undef AT
static_assert(KMF_MARKOV_MAX == 12, "an entry for each order");

#define N_ARRAYS 3

/* CRC-32 of the tokens in the order of their ids. */
static uint32_t vocabulary_sum(const kmf_vocab *vocab)
{
    uint32_t sum = 0;
    for (size_t id = 0; id < kmf_vocab_size(vocab); id++) {
        const char *token = kmf_vocab_token(vocab, (int32_t)id);
        sum = kmf_crc32(sum, token, strlen(token) + 1);
    }
    return sum;
}

/* CRC-32 of where each source begins: the same letters may be cut into other files. */
static uint32_t sources_sum(const kmf_genome *genome)
{
    uint32_t sum = 0;
    for (int p = 0; p < KMF_GENOME_PARTS; p++)
        for (size_t i = 0; i <= kmf_genome_n_sources(genome, (kmf_genome_part)p); i++) {
            uint64_t start = kmf_genome_source_start(genome, (kmf_genome_part)p, i);
            sum = kmf_crc32(sum, &start, sizeof start);
        }
    return sum;
}

/*
 * All that changes the result, causes before what follows from them: the first that differs is
 * the one that is told. How many steps a given time makes stands in the progress.
 */
static void add_settings(kmf_settings *s, const kmf_pretrain *t)
{
    const kmf_pretrain_options *o = &t->opts;
    const kmf_config *c = &t->model->config;
    kmf_genome_info info;
    kmf_genome_information(t->genome, &info);
    kmf_setting_add(s, "scheme", "3");
    kmf_setting_add(s, "objective", "%s", kmf_objective_names[o->objective]);
    kmf_setting_add(s, "k", "%d", c->k);
    kmf_setting_add(s, "layers", "%zu", c->n_layers);
    kmf_setting_add(s, "hidden size", "%zu", c->hidden_size);
    kmf_setting_add(s, "embedding size", "%zu", c->embedding_size);
    kmf_setting_add(s, "heads", "%zu", c->n_heads);
    kmf_setting_add(s, "feed-forward size", "%zu", c->intermediate_size);
    kmf_setting_add(s, "activation", "%d", (int)c->activation);
    kmf_setting_add(s, "rotary value", "%d", c->rotary_value);
    kmf_setting_add(s, "layer norm epsilon", "%.17g", c->layer_norm_eps);
    kmf_setting_add(s, "specials", "%d", c->specials);
    if (t->compares || c->composition > 0)
        kmf_setting_add(s, "composition", "%zu", c->composition);
    kmf_setting_add(s, "parameters", "%" PRIu64, t->model->n_parameters);
    kmf_setting_add(s, "checksum of the vocabulary", "%08" PRIx32,
                    vocabulary_sum(t->model->vocab));
    kmf_setting_add(s, "stride", "%zu", c->stride);
    kmf_setting_add(s, "window", "%zu", c->window);
    if (o->seconds > 0)
        kmf_setting_add(s, "time", "%.17g", o->seconds);
    else if (o->epochs > 0)
        kmf_setting_add(s, "epochs", "%.17g", o->epochs);
    else
        kmf_setting_add(s, "steps", "%" PRIu64, t->now.steps);
    kmf_setting_add(s, "mask rate", "%.17g", t->spans.rate);
    kmf_setting_add(s, "shortest span", "%zu", t->spans.span_min);
    kmf_setting_add(s, "longest span", "%zu", t->spans.span_max);
    kmf_setting_add(s, "masked spans", "%.17g", t->spans.p_mask);
    kmf_setting_add(s, "random spans", "%.17g", t->spans.p_random);
    kmf_setting_add(s, "softmask", "%.17g", o->soft_weight);
    if (t->compares) {
        kmf_setting_add(s, "parts", "%s", kmf_parts_names[c->parts]);
        kmf_setting_add(s, "sources", "%s", kmf_sources_names[o->sources]);
        kmf_setting_add(s, "shortest window", "%zu", t->pairs.length_min);
        kmf_setting_add(s, "longest window", "%zu", t->pairs.length_max);
        kmf_setting_add(s, "all of a source positive", "%d", o->all_positives != 0);
        kmf_setting_add(s, "near", "%.17g", o->near);
        kmf_setting_add(s, "distance", "%zu", o->distance);
        kmf_setting_add(s, "mutations", "%.17g", o->mutations);
        kmf_setting_add(s, "drift", "%.17g", o->drift);
        kmf_setting_add(s, "drift rate", "%.17g", o->drift_rate);
        kmf_setting_add(s, "temperature", "%.17g", o->temperature);
        kmf_setting_add(s, "hardness", "%.17g", o->hardness);
        kmf_setting_add(s, "mix", "%.17g", o->mix);
        kmf_setting_add(s, "weight of the contrastive loss", "%.17g", o->contrast);
        kmf_setting_add(s, "pooling", "%s", kmf_pooling_names[c->pooling]);
    }
    kmf_setting_add(s, "batch", "%zu", o->batch);
    kmf_setting_add(s, "shards", "%zu", o->shards);
    kmf_setting_add(s, "accumulate", "%zu", o->accumulate);
    kmf_setting_add(s, "precision", "%s", kmf_precision_names[o->precision]);
    kmf_setting_add(s, "dropout", "%.17g", o->dropout);
    kmf_setting_add(s, "lr", "%.17g", o->rate);
    kmf_setting_add(s, "warmup", "%.17g", o->warmup);
    kmf_setting_add(s, "schedule", "%s", kmf_schedule_names[o->schedule]);
    kmf_setting_add(s, "decay", "%.17g", o->decay);
    kmf_setting_add(s, "beta1", "%.17g", o->beta1);
    kmf_setting_add(s, "beta2", "%.17g", o->beta2);
    kmf_setting_add(s, "epsilon", "%.17g", o->epsilon);
    kmf_setting_add(s, "clip", "%.17g", o->clip);
    kmf_setting_add(s, "seed", "%" PRIu64, o->seed);
    kmf_setting_add(s, "checksum of the first weights", "%08" PRIx32, t->first_weights);
    kmf_setting_add(s, "validation every", "%" PRIu64, o->val_every);
    kmf_setting_add(s, "validation windows", "%" PRIu64, t->most_held);
    if (o->seconds > 0)
        kmf_setting_add(s, "share of validation", "%.17g", o->val_every > 0 ? 0 : o->val_share);
    kmf_setting_add(s, "bases", "%" PRIu64, info.parts[KMF_GENOME_TRAIN].kept);
    kmf_setting_add(s, "held-out bases", "%" PRIu64, info.parts[KMF_GENOME_HELD].kept);
    kmf_setting_add(s, "checksum of the inputs", "%08" PRIx32, info.checksum);
    if (t->compares)
        kmf_setting_add(s, "checksum of the sources", "%08" PRIx32, sources_sum(t->genome));
}

uint32_t kmf_pretrain_checksum(const kmf_pretrain *t)
{
    return kmf_crc32(0, t->model->slab, t->slots.total * sizeof *t->model->slab);
}

int kmf_pretrain_disagree(const char *what, kmf_err *err)
{
    return kmf_fail(err, KMF_EMODEL,
                    "the ranks differ in: %s; all of them must see the same options, inputs "
                    "and output directory",
                    what);
}

int kmf_pretrain_agree(const kmf_pretrain *t, kmf_err *err)
{
    kmf_settings settings = {0};
    const char *name = NULL;
    if (kmf_ranks() == 1)
        return 0;
    uint32_t weights = kmf_pretrain_checksum(t);
    add_settings(&settings, t);
    for (size_t i = 0; i < settings.n && !name; i++) {
        const char *value = settings.list[i].value;
        uint32_t sum = kmf_crc32(0, value, strlen(value));
        if (!kmf_ranks_agree(sum))
            name = settings.list[i].name;
    }
    if (!name && !kmf_ranks_agree(t->now.step))
        name = KMF_STEP_RESUMED;
    if (!name && !kmf_ranks_agree(weights))
        name = "the weights";
    return name ? kmf_pretrain_disagree(name, err) : 0;
}

static bool is_sound(const void *training)
{
    const kmf_pretrain *t = training;
    return t->now.step <= t->now.steps && t->val_every > 0 &&
           t->now.held_windows <= t->most_held && t->val_due <= (t->now.held_windows > 0) &&
           (t->now.held_windows > 0) == (t->most_held > 0);
}

static kmf_checkpoint checkpoint_of(const kmf_pretrain *t, kmf_settings *settings,
                                    kmf_saved_array arrays[N_ARRAYS])
{
    add_settings(settings, t);
    arrays[0] = (kmf_saved_array){"weights", t->model->slab, 1, t->slots.total};
    arrays[1] = (kmf_saved_array){"m", t->m, 1, t->slots.total};
    arrays[2] = (kmf_saved_array){"v", t->v, 1, t->slots.total};
    return (kmf_checkpoint){.kind = "pretrain",
                            .settings = settings->list,
                            .n_settings = settings->n,
                            .arrays = arrays,
                            .n_arrays = N_ARRAYS,
                            .progress = progress,
                            .n_progress = sizeof progress / sizeof *progress,
                            .is_sound = is_sound};
}

int kmf_pretrain_save(const kmf_pretrain *trainer, const char *path, kmf_err *err)
{
    kmf_settings settings = {0};
    kmf_saved_array arrays[N_ARRAYS];
    if (kmf_pretrain_check_begun(trainer, err) < 0)
        return KMF_EINVAL;
    kmf_checkpoint checkpoint = checkpoint_of(trainer, &settings, arrays);
    return kmf_checkpoint_write(&checkpoint, trainer, path, err);
}

int kmf_pretrain_load(kmf_pretrain *trainer, const char *path, kmf_err *err)
{
    kmf_settings settings = {0};
    kmf_saved_array arrays[N_ARRAYS];
    if (!trainer->begun)
        return kmf_pretrain_check_begun(trainer, err);
    kmf_checkpoint checkpoint = checkpoint_of(trainer, &settings, arrays);
    checkpoint.other_kernels = &trainer->now.other_kernels;
    int status = kmf_checkpoint_read(&checkpoint, trainer, path, err);
    if (status == 0)
        trainer->unloaded = false;
    return status;
}
