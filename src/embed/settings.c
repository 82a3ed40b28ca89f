/* SPDX-License-Identifier: MIT */
#include "embed/settings.h"

#include "base/err.h"
#include "model/config.h"

#include <stddef.h>
#include <string.h>

#define BATCH_TOKENS 1024
#define BATCH_WORDS 16384 /* tokens whose rows in a table are all that is wanted */
#define BATCH_LETTERS ((size_t)1 << 20)
#define BATCH_UNITS_MIN 64
#define BATCH_UNITS_MAX ((size_t)1 << 24)

const char *const kmf_weights_names[] = {"none", "sif", NULL};

void kmf_embed_options_default(kmf_embed_options *opts)
{
    *opts = (kmf_embed_options){.pooling = -1,
                                .layer = KMF_LAYER_MODEL,
                                .parts = -1,
                                .strand = -1,
                                .norm = -1,
                                .ambiguous = -1,
                                .policy = -1,
                                .overlap = KMF_OVERLAP_MODEL,
                                .precision = -1,
                                .weights = -1,
                                .seed = 1,
                                .n_shards = 1};
}

int kmf_settings_common(kmf_embed_options *o, kmf_err *err)
{
    static const struct {
        size_t field;
        int most;
        const char *name;
    } ranges[] = {
        {offsetof(kmf_embed_options, pooling), KMF_POOL_POOLER, "pooling"},
        {offsetof(kmf_embed_options, parts), KMF_PARTS_STATES_COMPOSITION, "parts"},
        {offsetof(kmf_embed_options, strand), KMF_STRAND_BOTH, "strand"},
        {offsetof(kmf_embed_options, norm), KMF_NORM_L2, "norm"},
        {offsetof(kmf_embed_options, ambiguous), KMF_AMBIGUOUS_ERROR, "ambiguous"},
        {offsetof(kmf_embed_options, policy), KMF_LONG_ERROR, "policy"},
        {offsetof(kmf_embed_options, weights), KMF_WEIGHTS_SIF, "weights"},
        {offsetof(kmf_embed_options, precision), KMF_PRECISION_AUTO, "precision"},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        int value;
        memcpy(&value, (const char *)o + ranges[i].field, sizeof value);
        if (value < -1 || value > ranges[i].most)
            return kmf_fail(err, KMF_EINVAL, "%s: %d is none of its values", ranges[i].name,
                            value);
    }
    if (o->threads < 0 || o->threads > KMF_THREADS_MAX)
        return kmf_fail(err, KMF_EINVAL, "%d threads: it must be 1 to %d", o->threads,
                        KMF_THREADS_MAX);
    if (o->n_shards == 0)
        o->n_shards = 1;
    if (o->shard >= o->n_shards)
        return kmf_fail(err, KMF_EINVAL, "shard %llu of %llu: it must be 0 to %llu",
                        (unsigned long long)o->shard, (unsigned long long)o->n_shards,
                        (unsigned long long)o->n_shards - 1);
    if (o->threads == 0)
        o->threads = kmf_threads_default();
    if (o->batch_tokens != 0 &&
        (o->batch_tokens < BATCH_UNITS_MIN || o->batch_tokens > BATCH_UNITS_MAX))
        return kmf_fail(err, KMF_EINVAL, "a batch of %zu tokens: it must be %d to %zu",
                        o->batch_tokens, BATCH_UNITS_MIN, BATCH_UNITS_MAX);
    return 0;
}

/* Between k-mers there would be letters that no vector sees. k 0: tokens are no k-mers. */
static int check_gaps(const kmf_embed_options *o, int k, kmf_err *err)
{
    if (o->strict && k > 0 && o->stride > (size_t)k)
        return kmf_fail(err, KMF_EFORMAT,
                        "a stride of %zu passes over letters between %d-mers, and strict was "
                        "asked for",
                        o->stride, k);
    return 0;
}

/*
 * The published tokenizer's own limit: what is beyond is cut, and where there is none nothing may
 * be; and what is no base has the token that it gives it.
 */
static int settle_exact(kmf_embed_options *o, const kmf_config *c, kmf_err *err)
{
    if (o->ambiguous >= 0)
        return kmf_fail(err, KMF_EINVAL,
                        "exact reads every letter as the published tokenizer does: there is no "
                        "choice for ambiguous ones");
    o->ambiguous = KMF_AMBIGUOUS_UNK;
    if (o->policy < 0)
        o->policy = c->bounded ? KMF_LONG_TRUNCATE : KMF_LONG_ERROR;
    return 0;
}

int kmf_settings_model(kmf_embed_options *o, const kmf_config *c, const kmf_vocab *vocab,
                       kmf_err *err)
{
    if (o->k != 0 || o->weights >= 0)
        return kmf_fail(err, KMF_EINVAL,
                        "a model with an encoder has one k and weighs all k-mers alike: k and "
                        "weights are for k-mer vectors");
    if (o->exact && settle_exact(o, c, err) < 0)
        return KMF_EINVAL;
    if (o->policy < 0)
        o->policy = KMF_LONG_CHUNK;
    if (o->pooling < 0)
        o->pooling = (int)c->pooling;
    if (o->parts < 0)
        o->parts = (int)c->parts;
    if (o->strand < 0)
        o->strand = (int)c->strand;
    if (o->norm < 0)
        o->norm = (int)c->norm;
    if (o->ambiguous < 0)
        o->ambiguous = (int)c->ambiguous;
    if (o->stride == 0)
        o->stride = c->stride;
    if (o->window == 0)
        o->window = c->window;
    if (c->positions == KMF_POSITIONS_LEARNED && o->window > c->max_positions)
        return kmf_fail(err, KMF_EINVAL,
                        "a window of %zu tokens: the model has learned %zu positions, no more",
                        o->window, c->max_positions);
    if (o->overlap == KMF_OVERLAP_MODEL)
        o->overlap = kmf_config_overlap(c, vocab, o->window, c->specials);
    if (o->batch_tokens == 0)
        o->batch_tokens =
            kmf_has_states((kmf_vector_parts)o->parts) ? BATCH_TOKENS : BATCH_WORDS;
    if (o->precision < 0)
        o->precision = KMF_PRECISION_F32;
    o->precision = (int)kmf_precision_here((kmf_precision)o->precision);
    if (o->layer == KMF_LAYER_MODEL)
        o->layer = c->layer;
    long long layer = o->layer < 0 ? (long long)c->n_layers + 1 + o->layer : o->layer;
    if (layer < 0 || layer > (long long)c->n_layers)
        return kmf_fail(err, KMF_EINVAL, "layer %d: the model has 0 to %zu, or -1 to -%zu",
                        o->layer, c->n_layers, c->n_layers + 1);
    o->layer = (int)layer;
    if ((o->pooling == KMF_POOL_CLS || o->pooling == KMF_POOL_POOLER) && !c->specials)
        return kmf_fail(err, KMF_EINVAL, "the model frames no window with [CLS] to pool");
    if (o->pooling == KMF_POOL_POOLER && !c->pooler)
        return kmf_fail(err, KMF_EINVAL, "the model has no pooler");
    if (kmf_has_composition((kmf_vector_parts)o->parts) && c->composition == 0)
        return kmf_fail(err, KMF_EINVAL,
                        "the model has no composition: the parts of its vectors are states");
    if (kmf_has_composition((kmf_vector_parts)o->parts) && o->pooling != KMF_POOL_MEAN)
        return kmf_fail(err, KMF_EINVAL,
                        "a composition is a mean over k-mers: pooling %s is for parts states%s",
                        kmf_pooling_names[o->pooling],
                        o->pooling == KMF_POOL_NONE && o->strand == KMF_STRAND_BOTH
                            ? ", and strand fwd or rc"
                            : "");
    if (o->pooling == KMF_POOL_NONE && o->strand == KMF_STRAND_BOTH)
        return kmf_fail(
            err, KMF_EINVAL,
            "pooling none: the strands' tokens have no common vector: choose strand fwd or rc");
    return check_gaps(o, c->k, err);
}

static int no_precision(const kmf_embed_options *o, const char *name, kmf_err *err)
{
    if (o->precision >= 0)
        return kmf_fail(err, KMF_EINVAL,
                        "%s has no matrix products: a precision is for encoders", name);
    return 0;
}

/* What remains where whole records are read letter by letter. */
static void settle_letters(kmf_embed_options *o)
{
    o->pooling = KMF_POOL_MEAN;
    o->policy = KMF_LONG_CHUNK;
    o->layer = 0;
    o->parts = KMF_PARTS_STATES;
    o->overlap = 0;
    if (o->stride == 0)
        o->stride = 1;
    if (o->ambiguous < 0)
        o->ambiguous = KMF_AMBIGUOUS_SKIP;
    if (o->strand < 0)
        o->strand = KMF_STRAND_FWD;
    if (o->norm < 0)
        o->norm = KMF_NORM_NONE;
    if (o->weights < 0)
        o->weights = KMF_WEIGHTS_NONE;
    if (o->batch_tokens == 0)
        o->batch_tokens = BATCH_LETTERS;
}

int kmf_settings_vectors(kmf_embed_options *o, const char *name, const kmf_vectors_info *info,
                         kmf_err *err)
{
    if (o->pooling > KMF_POOL_MEAN || o->layer != KMF_LAYER_MODEL || o->parts >= 0 ||
        o->window != 0 || o->overlap != KMF_OVERLAP_MODEL || o->policy > KMF_LONG_CHUNK ||
        o->exact)
        return kmf_fail(
            err, KMF_EINVAL,
            "%s holds k-mer vectors, and the mean is taken over whole records: there "
            "is no other pooling, no layer, parts, window, overlap, exact or policy for long "
            "ones",
            name);
    if (o->ambiguous > KMF_AMBIGUOUS_SKIP)
        return kmf_fail(
            err, KMF_EINVAL,
            "%s holds k-mer vectors: k-mers with an ambiguous letter have none, and "
            "can only be skipped",
            name);
    if (o->strand > KMF_STRAND_FWD && info->alphabet != KMF_DNA)
        return kmf_fail(err, KMF_EINVAL, "%s holds vectors of proteins, which have no strand",
                        name);
    settle_letters(o);
    if (o->k == 0 && info->k_min == info->k_max)
        o->k = info->k_min;
    if (check_gaps(o, o->k > 0 ? o->k : info->k_max, err) < 0)
        return KMF_EINVAL;
    return no_precision(o, name, err);
}

int kmf_settings_frequency(kmf_embed_options *o, const char *name, kmf_err *err)
{
    if (o->pooling >= 0 || o->layer != KMF_LAYER_MODEL || o->parts >= 0 || o->stride != 0 ||
        o->window != 0 || o->overlap != KMF_OVERLAP_MODEL || o->policy > KMF_LONG_CHUNK ||
        o->k != 0 || o->weights >= 0 || o->exact)
        return kmf_fail(err, KMF_EINVAL,
                        "%s counts whole records: it has no pooling, layer, parts, stride, "
                        "window, overlap, policy for long ones, k, weights or exact",
                        name);
    if (o->ambiguous > KMF_AMBIGUOUS_SKIP && o->ambiguous != KMF_AMBIGUOUS_ERROR)
        return kmf_fail(err, KMF_EINVAL, "%s can skip ambiguous bases or fail on them, no more",
                        name);
    settle_letters(o);
    return no_precision(o, name, err);
}
