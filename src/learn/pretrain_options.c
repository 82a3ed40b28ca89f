/* SPDX-License-Identifier: MIT */
/* The options of a pretraining: what they are unless told otherwise, and their ranges. */
#include "learn/pretrain.h"

#include "base/err.h"
#include "learn/ranks.h"
#include "nn/composition.h"

#include <limits.h>

#define ABOVE_0 1e-37 /* about the least of which float32 keeps all digits */

const char *const kmf_schedule_names[] = {"cosine", "linear", "constant", NULL};
const char *const kmf_words_start_names[] = {"letters", "random", "tetramers", NULL};
const char *const kmf_objective_names[] = {"masked", "contrastive", "both", NULL};
const char *const kmf_sources_names[] = {"input", "record", NULL};

void kmf_pretrain_options_default(kmf_pretrain_options *opts)
{
    kmf_spans_options spans;
    kmf_spans_options_default(&spans);
    *opts = (kmf_pretrain_options){
        .objective = KMF_OBJECTIVE_MASKED,
        .parts = -1,
        .preset = "tiny",
        .k = 6,
        .val_windows = 512,
        .val_share = 0.1,
        .mask_rate = spans.rate,
        .span_min = spans.span_min,
        .span_max = spans.span_max,
        .mask_share = spans.p_mask,
        .random_share = spans.p_random,
        .soft_weight = 1,
        .sources = KMF_SOURCES_INPUT,
        .near = 0.25,
        .distance = 5000,
        .drift_rate = 0.3,
        .temperature = 0.05,
        .contrast = 1,
        .batch = 32,
        .shards = 1,
        .accumulate = 1,
        .rate = 1e-3,
        .warmup = 0.05,
        .schedule = KMF_SCHEDULE_COSINE,
        .decay = 0.01,
        .beta1 = 0.9,
        .beta2 = 0.98,
        .epsilon = 1e-6,
        .clip = 1,
        .seed = 1,
    };
}

typedef struct bounds {
    double value, least, most;
    const char *message;
} bounds;

/* A number that is 0 or not so small that float32 may lose it; else one out of all bounds. */
static double none_or_more(double x)
{
    return x > 0 && x < ABOVE_0 ? -1 : x;
}

/* NaN is out of all bounds. */
static int check_bounds(const bounds *list, size_t n, kmf_err *err)
{
    for (size_t i = 0; i < n; i++)
        if (!(list[i].value >= list[i].least && list[i].value <= list[i].most))
            return kmf_fail(err, KMF_EINVAL, "%s", list[i].message);
    return 0;
}

static int check_comparison(const kmf_pretrain_options *o, kmf_err *err)
{
    if (o->batch / o->shards / o->accumulate % 2 != 0)
        return kmf_fail(err, KMF_EINVAL,
                        "batch: %zu windows in %zu shards of %zu pieces do not make pairs",
                        o->batch, o->shards, o->accumulate);
    if (o->batch < 4)
        return kmf_fail(err, KMF_EINVAL, "batch: two pairs, 4 windows, at least");
    if (o->batch > 65536)
        return kmf_fail(err, KMF_EINVAL, "batch: to 65536 windows in pairs");
    if (o->length_min > o->length_max)
        return kmf_fail(err, KMF_EINVAL, "length: %zu is more than %zu", o->length_min,
                        o->length_max);
    if (o->objective == KMF_OBJECTIVE_BOTH && o->mix >= 1)
        return kmf_fail(err, KMF_EINVAL,
                        "mix: below 1 with both objectives, as no bases are masked on steps "
                        "that mix");
    const bounds list[] = {
        {o->sources, KMF_SOURCES_INPUT, KMF_SOURCES_RECORD, "sources: unknown"},
        {o->near, 0, 1, "near: from 0 to 1"},
        {(double)o->distance, 1, 0x1p40, "distance: from 1 to 2^40 bases"},
        {o->mutations, 0, 0.5, "mutations: from 0 to 0.5"},
        {o->drift, 0, 1, "drift: from 0 to 1"},
        {o->drift_rate, 0, 0.5, "drift-rate: from 0 to 0.5"},
        {o->temperature, 0.001, 10, "temperature: from 0.001 to 10"},
        {o->hardness, 0, 10, "hardness: from 0 to 10"},
        {o->mix, 0, 1, "mix: from 0 to 1"},
        {o->contrast, ABOVE_0, 1000, "contrast: from 1e-37 to 1000"},
    };
    return check_bounds(list, sizeof list / sizeof *list, err);
}

int kmf_pretrain_check_options(const kmf_pretrain_options *o, kmf_err *err)
{
    int lengths = (o->steps > 0) + (o->epochs > 0) + (o->seconds > 0);
    if (!o->init && !o->preset)
        return kmf_fail(err, KMF_EINVAL, "neither a preset nor a model to begin with");
    if (lengths != 1 || !(o->epochs >= 0) || !(o->seconds >= 0))
        return kmf_fail(err, KMF_EINVAL, "one of steps, epochs and time says how long");
    if ((double)o->steps > KMF_STEPS_MAX || o->epochs > 1e9 || o->seconds > 1e9)
        return kmf_fail(err, KMF_EINVAL, "steps, epochs and seconds: to 10^15, 10^9 and 10^9");
    if (o->batch < 1 || o->batch > 1000000)
        return kmf_fail(err, KMF_EINVAL, "batch: from 1 to 1000000");
    if (o->shards < 1 || o->shards > 65536 || (o->shards & (o->shards - 1)) != 0)
        return kmf_fail(err, KMF_EINVAL, "shards: a power of 2, to 65536");
    if (o->shards % (size_t)kmf_ranks() != 0)
        return kmf_fail(err, KMF_EINVAL, "shards: %zu cannot be dealt out to %d ranks",
                        o->shards, kmf_ranks());
    if (o->accumulate < 1 || o->batch % o->shards != 0 ||
        o->batch / o->shards % o->accumulate != 0)
        return kmf_fail(err, KMF_EINVAL,
                        "batch: %zu windows cannot be cut into %zu shards of %zu pieces",
                        o->batch, o->shards, o->accumulate);
    if (o->composition > KMF_COMPOSITION_MAX)
        return kmf_fail(err, KMF_EINVAL, "composition: to %zu numbers", KMF_COMPOSITION_MAX);
    if (o->threads < 0 || o->threads > KMF_THREADS_MAX)
        return kmf_fail(err, KMF_EINVAL, "threads: from 1 to %d", KMF_THREADS_MAX);
    const bounds list[] = {
        {o->dropout, 0, 0.9, "dropout: from 0 to 0.9"},
        {o->rate, ABOVE_0, 1, "lr: from 1e-37 to 1"},
        {o->schedule, KMF_SCHEDULE_COSINE, KMF_SCHEDULE_CONSTANT, "schedule: unknown"},
        {o->parts, -1, KMF_PARTS_STATES_COMPOSITION, "parts: unknown"},
        {o->words, KMF_WORDS_LETTERS, KMF_WORDS_TETRAMERS, "words: unknown"},
        {o->precision, KMF_PRECISION_F32, KMF_PRECISION_BF16, "precision: f32 or bf16"},
        {o->warmup, 0, 1, "warmup: from 0 to 1"},
        {o->decay, 0, 1, "decay: from 0 to 1"},
        {o->beta1, 0, 0.99999, "beta1, beta2: from 0 to below 1"},
        {o->beta2, 0, 0.9999999, "beta1, beta2: from 0 to below 1"},
        {o->epsilon, ABOVE_0, 1, "epsilon: from 1e-37 to 1"},
        {none_or_more(o->clip), 0, 1e9, "clip: 0 (none), or from 1e-37 to 1e9"},
        {none_or_more(o->soft_weight), 0, 1, "softmask: 0, or from 1e-37 to 1"},
        {o->held_fraction, 0, 0.5, "val-fraction: from 0 to 0.5"},
        {(double)o->val_windows, 1, 10000000, "val-windows: from 1 to 10000000"},
        {o->val_share, 0, 0.5, "val-share: from 0 to 0.5"},
        {o->objective, KMF_OBJECTIVE_MASKED, KMF_OBJECTIVE_BOTH, "objective: unknown"},
    };
    int status = check_bounds(list, sizeof list / sizeof *list, err);
    if (status < 0 || o->objective == KMF_OBJECTIVE_MASKED)
        return status;
    return check_comparison(o, err);
}
