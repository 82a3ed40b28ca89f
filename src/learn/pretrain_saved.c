/* SPDX-License-Identifier: MIT */
/* What a checkpoint of a pretraining holds: weights, moments, and how far it is. */
#include "base/err.h"
#include "learn/pretrain.h"
#include "learn/ranks.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define AT(field) offsetof(kmf_pretrain, field)
static const size_t progress[] = {AT(step),     AT(steps),    AT(tokens),    AT(loss),
                                  AT(bits),     AT(rate),     AT(norm),      AT(val_loss),
                                  AT(val_bits), AT(contrast), AT(hits),      AT(val_contrast),
                                  AT(val_hits), AT(best),     AT(best_step), AT(val_every)};
#undef AT

#define N_ARRAYS 3

/* CRC-32 of the tokens in the order of their ids. */
static uint32_t vocabulary_sum(const kmf_vocab *vocab)
{
    uLong sum = crc32(0, NULL, 0);
    for (size_t id = 0; id < kmf_vocab_size(vocab); id++) {
        const char *token = kmf_vocab_token(vocab, (int32_t)id);
        sum = crc32_z(sum, (const Bytef *)token, strlen(token) + 1);
    }
    return (uint32_t)sum;
}

/* CRC-32 of where each source begins: the same letters may be cut into other files. */
static uint32_t sources_sum(const kmf_genome *genome)
{
    uLong sum = crc32(0, NULL, 0);
    for (int p = 0; p < KMF_GENOME_PARTS; p++)
        for (size_t i = 0; i <= kmf_genome_n_sources(genome, (kmf_genome_part)p); i++) {
            uint64_t start = kmf_genome_source_start(genome, (kmf_genome_part)p, i);
            sum = crc32_z(sum, (const Bytef *)&start, sizeof start);
        }
    return (uint32_t)sum;
}

/*
 * All that changes the result, causes before what follows from them: the first that differs is
 * the one that is told. How many steps a given time makes stands in the progress.
 */
static size_t settings_of(const kmf_pretrain *t, kmf_setting settings[KMF_SAVED_SETTINGS])
{
    const kmf_pretrain_options *o = &t->opts;
    const kmf_config *c = &t->model->config;
    kmf_genome_info info;
    size_t n = 0;
    kmf_genome_information(t->genome, &info);
#define SETTING(label, ...)                                                 \
    do {                                                                    \
        settings[n].name = (label);                                         \
        snprintf(settings[n].value, sizeof settings[n].value, __VA_ARGS__); \
        n++;                                                                \
    } while (0)
    SETTING("scheme", "2");
    SETTING("objective", "%s", kmf_objective_names[o->objective]);
    SETTING("k", "%d", c->k);
    SETTING("layers", "%zu", c->n_layers);
    SETTING("hidden size", "%zu", c->hidden_size);
    SETTING("embedding size", "%zu", c->embedding_size);
    SETTING("heads", "%zu", c->n_heads);
    SETTING("feed-forward size", "%zu", c->intermediate_size);
    SETTING("activation", "%d", (int)c->activation);
    SETTING("rotary value", "%d", c->rotary_value);
    SETTING("layer norm epsilon", "%.17g", c->layer_norm_eps);
    SETTING("specials", "%d", c->specials);
    if (t->compares || c->composition > 0)
        SETTING("composition", "%zu", c->composition);
    SETTING("parameters", "%" PRIu64, t->model->n_parameters);
    SETTING("checksum of the vocabulary", "%08" PRIx32, vocabulary_sum(t->model->vocab));
    SETTING("stride", "%zu", c->stride);
    SETTING("window", "%zu", c->window);
    if (o->seconds > 0)
        SETTING("time", "%.17g", o->seconds);
    else if (o->epochs > 0)
        SETTING("epochs", "%.17g", o->epochs);
    else
        SETTING("steps", "%" PRIu64, t->steps);
    SETTING("mask rate", "%.17g", t->spans.rate);
    SETTING("shortest span", "%zu", t->spans.span_min);
    SETTING("longest span", "%zu", t->spans.span_max);
    SETTING("masked spans", "%.17g", t->spans.p_mask);
    SETTING("random spans", "%.17g", t->spans.p_random);
    SETTING("softmask", "%.17g", o->soft_weight);
    if (t->compares) {
        SETTING("parts", "%s", kmf_parts_names[c->parts]);
        SETTING("sources", "%s", kmf_sources_names[o->sources]);
        SETTING("shortest window", "%zu", t->pairs.length_min);
        SETTING("longest window", "%zu", t->pairs.length_max);
        SETTING("all of a source positive", "%d", o->all_positives != 0);
        SETTING("near", "%.17g", o->near);
        SETTING("distance", "%zu", o->distance);
        SETTING("mutations", "%.17g", o->mutations);
        SETTING("drift", "%.17g", o->drift);
        SETTING("drift rate", "%.17g", o->drift_rate);
        SETTING("temperature", "%.17g", o->temperature);
        SETTING("hardness", "%.17g", o->hardness);
        SETTING("mix", "%.17g", o->mix);
        SETTING("weight of the contrastive loss", "%.17g", o->contrast);
        SETTING("pooling", "%s", kmf_pooling_names[c->pooling]);
    }
    SETTING("batch", "%zu", o->batch);
    SETTING("shards", "%zu", o->shards);
    SETTING("accumulate", "%zu", o->accumulate);
    SETTING("precision", "%s", kmf_precision_names[o->precision]);
    SETTING("dropout", "%.17g", o->dropout);
    SETTING("lr", "%.17g", o->rate);
    SETTING("warmup", "%.17g", o->warmup);
    SETTING("schedule", "%s", kmf_schedule_names[o->schedule]);
    SETTING("decay", "%.17g", o->decay);
    SETTING("beta1", "%.17g", o->beta1);
    SETTING("beta2", "%.17g", o->beta2);
    SETTING("epsilon", "%.17g", o->epsilon);
    SETTING("clip", "%.17g", o->clip);
    SETTING("seed", "%" PRIu64, o->seed);
    SETTING("checksum of the first weights", "%08" PRIx32, t->first_weights);
    SETTING("validation every", "%" PRIu64, o->val_every);
    SETTING("validation windows", "%" PRIu64, t->n_held);
    SETTING("bases", "%" PRIu64, info.parts[KMF_GENOME_TRAIN].kept);
    SETTING("held-out bases", "%" PRIu64, info.parts[KMF_GENOME_HELD].kept);
    SETTING("checksum of the inputs", "%08" PRIx32, info.checksum);
    if (t->compares)
        SETTING("checksum of the sources", "%08" PRIx32, sources_sum(t->genome));
#undef SETTING
    return n;
}

int kmf_pretrain_agree(const kmf_pretrain *t, kmf_err *err)
{
    kmf_setting settings[KMF_SAVED_SETTINGS];
    size_t n = settings_of(t, settings);
    const char *name = NULL;
    uint32_t weights = (uint32_t)crc32_z(crc32(0, NULL, 0), (const Bytef *)t->model->slab,
                                         t->slots.total * sizeof *t->model->slab);
    for (size_t i = 0; i < n && !name; i++) {
        const char *value = settings[i].value;
        uLong sum = crc32_z(crc32(0, NULL, 0), (const Bytef *)value, strlen(value));
        if (!kmf_ranks_agree(sum))
            name = settings[i].name;
    }
    if (!name && !kmf_ranks_agree(t->step))
        name = "the step that is gone on from";
    if (!name && !kmf_ranks_agree(weights))
        name = "the weights";
    if (!name)
        return 0;
    return kmf_fail(
        err, KMF_EMODEL,
        "the ranks differ in: %s; all of them must see the same options, inputs and "
        "output directory",
        name);
}

static bool is_sound(const void *training)
{
    const kmf_pretrain *t = training;
    return t->step <= t->steps && t->val_every > 0;
}

static kmf_checkpoint checkpoint_of(const kmf_pretrain *t,
                                    kmf_setting settings[KMF_SAVED_SETTINGS],
                                    kmf_saved_array arrays[N_ARRAYS])
{
    arrays[0] = (kmf_saved_array){"weights", t->model->slab, 1, t->slots.total};
    arrays[1] = (kmf_saved_array){"m", t->m, 1, t->slots.total};
    arrays[2] = (kmf_saved_array){"v", t->v, 1, t->slots.total};
    return (kmf_checkpoint){.kind = "pretrain",
                            .settings = settings,
                            .n_settings = settings_of(t, settings),
                            .arrays = arrays,
                            .n_arrays = N_ARRAYS,
                            .progress = progress,
                            .n_progress = sizeof progress / sizeof *progress,
                            .is_sound = is_sound};
}

int kmf_pretrain_save(const kmf_pretrain *trainer, const char *path, kmf_err *err)
{
    kmf_setting settings[KMF_SAVED_SETTINGS];
    kmf_saved_array arrays[N_ARRAYS];
    if (kmf_pretrain_check_begun(trainer, err) < 0)
        return KMF_EINVAL;
    kmf_checkpoint checkpoint = checkpoint_of(trainer, settings, arrays);
    return kmf_checkpoint_write(&checkpoint, trainer, path, err);
}

int kmf_pretrain_load(kmf_pretrain *trainer, const char *path, kmf_err *err)
{
    kmf_setting settings[KMF_SAVED_SETTINGS];
    kmf_saved_array arrays[N_ARRAYS];
    if (kmf_pretrain_check_begun(trainer, err) < 0)
        return KMF_EINVAL;
    kmf_checkpoint checkpoint = checkpoint_of(trainer, settings, arrays);
    checkpoint.other_kernels = &trainer->other_kernels;
    return kmf_checkpoint_read(&checkpoint, trainer, path, err);
}
