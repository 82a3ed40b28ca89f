/* SPDX-License-Identifier: MIT */
/*
 * What a configuration is: presets, what follows from its fields, and the rules between them. The
 * number of parameters, a product of several fields, is computed with checks and bounded before
 * anything is allocated.
 */
#include "model/config.h"

#include "base/err.h"
#include "base/mem.h"
#include "model/config_fields.h"
#include "model/families/family.h"
#include "nn/composition.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define WINDOW_MAX ((size_t)1 << 24)
#define LEN(array) (sizeof(array) / sizeof((array)[0]))

const char *const kmf_pooling_names[] = {"mean",     "cls",    "max", "none",
                                         "mean-all", "pooler", NULL};
const char *const kmf_strand_names[] = {"fwd", "rc", "both", NULL};
const char *const kmf_parts_names[] = {"states", "composition", "states+composition", NULL};
const char *const kmf_norm_names[] = {"none", "l2", NULL};
const char *const kmf_dtype_names[] = {"f32", "f16", "bf16", "int8", NULL};

const kmf_size_field kmf_encoder_sizes[] = {
    {"vocab_size", offsetof(kmf_config, vocab_size), 1, (size_t)1 << 25, true},
    {"hidden_size", offsetof(kmf_config, hidden_size), 2, 65536, true},
    {"num_hidden_layers", offsetof(kmf_config, n_layers), 1, 1024, true},
    {"num_attention_heads", offsetof(kmf_config, n_heads), 1, 4096, true},
    {"intermediate_size", offsetof(kmf_config, intermediate_size), 1, (size_t)1 << 20, true},
    {"embedding_size", offsetof(kmf_config, embedding_size), 1, 65536, false},
    {"max_position_embeddings", offsetof(kmf_config, max_positions), 3, WINDOW_MAX, false},
    {"type_vocab_size", offsetof(kmf_config, type_vocab_size), 0, 1024, false},
};

const kmf_size_field kmf_use_sizes[] = {
    {"stride", offsetof(kmf_config, stride), 1, (size_t)1 << 31, false},
    {"window", offsetof(kmf_config, window), 3, WINDOW_MAX, false},
    {"overlap", offsetof(kmf_config, overlap), 0, WINDOW_MAX / 2, false},
    {"composition", offsetof(kmf_config, composition), 0, KMF_COMPOSITION_MAX, false},
};

const kmf_word_field kmf_use_words[] = {
    {"pooling", offsetof(kmf_config, pooling), kmf_pooling_names},
    {"parts", offsetof(kmf_config, parts), kmf_parts_names},
    {"strand", offsetof(kmf_config, strand), kmf_strand_names},
    {"norm", offsetof(kmf_config, norm), kmf_norm_names},
    {"ambiguous", offsetof(kmf_config, ambiguous), kmf_ambiguous_names},
};

/* In the order of kmf_activation, then other names of some of them. */
const char *const kmf_activation_names[] = {
    "gelu", "gelu_new", "relu", "silu", "gelu_pytorch_tanh", "swish", NULL};

static const struct preset {
    const char *name;
    size_t L, D, H, F;
} presets[] = {
    {"nano", 4, 128, 4, 512},
    {"tiny", 4, 256, 4, 1024},
    {"small", 6, 384, 6, 1536},
    {"base", 12, 768, 12, 3072},
};

/* ---- what follows from its fields -------------------------------------------------------- */

size_t kmf_config_columns(const kmf_config *config, kmf_vector_parts parts)
{
    return (kmf_has_states(parts) ? config->hidden_size : 0) +
           (kmf_has_composition(parts) ? config->composition : 0);
}

size_t kmf_config_overlap(const kmf_config *config, const kmf_vocab *vocab, size_t window,
                          int specials)
{
    size_t frame = specials ? kmf_vocab_frame(vocab) : 0;
    size_t most = window > frame ? (window - frame) / 2 : 0;
    return config->overlap < most ? config->overlap : most;
}

static bool has_rotary(const kmf_config *c)
{
    return c->positions == KMF_POSITIONS_ROTARY || c->positions == KMF_POSITIONS_ROTARY_HALVES;
}

size_t kmf_config_rotary_size(const kmf_config *c)
{
    if (!has_rotary(c))
        return 0;
    return c->rotary_size ? c->rotary_size : c->hidden_size / c->n_heads;
}

size_t kmf_config_inner(const kmf_config *c)
{
    return c->intermediate_size * (c->gated ? 2 : 1);
}

bool kmf_has_states(kmf_vector_parts parts)
{
    return parts != KMF_PARTS_COMPOSITION;
}

bool kmf_has_composition(kmf_vector_parts parts)
{
    return parts != KMF_PARTS_STATES;
}

void kmf_config_defaults(kmf_config *config)
{
    *config = (kmf_config){
        .family = kmf_family_roformer.name,
        .max_positions = 1536,
        .type_vocab_size = 2,
        .layer_norm_eps = 1e-12,
        .activation = KMF_GELU,
        .positions = KMF_POSITIONS_ROTARY,
        .rotary_base = KMF_ROTARY_BASE,
        .embedding_norm = 1,
        .bias_in = 1,
        .bias_out = 1,
        .head_biases = 1,
        .stride = 1,
        .overlap = KMF_UNSET,
        .specials = -1,
        .pooling = KMF_POOL_MEAN,
        .layer = -1,
        .strand = KMF_STRAND_FWD,
        .norm = KMF_NORM_NONE,
        .ambiguous = KMF_AMBIGUOUS_SKIP,
        .exact = KMF_EXACT_WHOLE,
        .bounded = 1,
    };
}

int kmf_config_preset(kmf_config *config, const char *preset, int k, kmf_err *err)
{
    const struct preset *p = NULL;
    for (size_t i = 0; i < LEN(presets); i++)
        if (strcmp(preset, presets[i].name) == 0)
            p = &presets[i];
    if (!p)
        return kmf_fail(err, KMF_EINVAL,
                        "no preset is called '%s': there are nano, tiny, small and base",
                        preset);
    if (k < 1 || k > KMF_VOCAB_K_MAX)
        return kmf_fail(err, KMF_EINVAL, "k is %d: a model's k-mers have 1 to %d bases", k,
                        KMF_VOCAB_K_MAX);
    kmf_config_defaults(config);
    config->vocab_size = KMF_N_SPECIAL + ((size_t)1 << 2 * k);
    config->embedding_size = p->D;
    config->hidden_size = p->D;
    config->n_layers = p->L;
    config->n_heads = p->H;
    config->intermediate_size = p->F;
    config->max_positions = 512;
    config->k = k;
    config->window = 512;
    config->overlap = 64;
    config->specials = 1;
    return 0;
}

/* ---- rules ------------------------------------------------------------------------------- */

/* Names the factors of the larger of the two places where parameters can be. */
static int too_many_parameters(const kmf_config *c, kmf_code code, const char *name,
                               kmf_err *err)
{
    double word = (double)c->vocab_size * (double)c->embedding_size;
    double D = (double)c->hidden_size;
    double layers = (double)c->n_layers * D * (4 * D + 2 * (double)c->intermediate_size);
    if (word > layers)
        return kmf_fail(err, code,
                        "%s: vocab_size %zu times embedding_size %zu: more than %" PRIu64
                        " parameters",
                        name, c->vocab_size, c->embedding_size, KMF_PARAMETERS_MAX);
    return kmf_fail(err, code,
                    "%s: num_hidden_layers %zu with hidden_size %zu and "
                    "intermediate_size %zu: more than %" PRIu64 " parameters",
                    name, c->n_layers, c->hidden_size, c->intermediate_size,
                    KMF_PARAMETERS_MAX);
}

static int check_sizes(const kmf_config *config, const kmf_size_field *keys, size_t n,
                       const char *group, kmf_code code, const char *name, kmf_err *err)
{
    for (size_t i = 0; i < n; i++) {
        size_t value = kmf_size_at(config, keys[i].at);
        if (value < keys[i].min || value > keys[i].max)
            return kmf_fail(err, code, "%s: %s%s: must be from %zu to %zu, got %zu", name,
                            group, keys[i].key, keys[i].min, keys[i].max, value);
    }
    return 0;
}

static size_t n_words(const char *const *words)
{
    size_t n = 0;
    while (words[n])
        n++;
    return n;
}

static int check_word(int value, size_t n, const char *key, kmf_code code, const char *name,
                      kmf_err *err)
{
    if (value < 0 || (size_t)value >= n)
        return kmf_fail(err, code, "%s: %s: %d is none of its values", name, key, value);
    return 0;
}

/* What the layers are made of. */
static int check_encoder(const kmf_config *c, kmf_code code, const char *name, kmf_err *err)
{
    size_t K = c->hidden_size / c->n_heads;
    bool turned = has_rotary(c);
    bool whole = turned && c->rotary_size == 0;
    if (c->hidden_size % c->n_heads != 0 || (whole && K % 2 != 0))
        return kmf_fail(err, code,
                        "%s: hidden_size %zu over num_attention_heads %zu: must give "
                        "heads of one%s size",
                        name, c->hidden_size, c->n_heads, whole ? " even" : "");
    if (turned && (c->rotary_size > K || c->rotary_size % 2 != 0))
        return kmf_fail(err, code, "%s: rotary_dim: must be even, at most %zu, got %zu", name,
                        K, c->rotary_size);
    if (c->embedding_size != c->hidden_size &&
        !kmf_family_has(kmf_family_named(c->family), KMF_PART_PROJECT))
        return kmf_fail(err, code,
                        "%s: embedding_size %zu: must be hidden_size %zu in a %s model", name,
                        c->embedding_size, c->hidden_size, c->family);
    if (!c->bias_in && !c->gated)
        return kmf_fail(err, code, "%s: a feed-forward with neither a bias nor a gate", name);
    if (!(c->layer_norm_eps > 0 && c->layer_norm_eps <= 0.1))
        return kmf_fail(err, code, "%s: layer_norm_eps: must be a number above 0, at most 0.1",
                        name);
    return 0;
}

/* How sequences are cut, and which states make their vectors. */
static int check_use(const kmf_config *c, kmf_code code, const char *name, kmf_err *err)
{
    if (c->positions == KMF_POSITIONS_LEARNED && c->window > c->max_positions)
        return kmf_fail(err, code,
                        "%s: window: must be at most the %zu positions that were learned, got "
                        "%zu",
                        name, c->max_positions, c->window);
    if (c->k < 0 || c->k > KMF_VOCAB_K_MAX)
        return kmf_fail(err, code, "%s: k: must be from 1 to %d, got %d", name, KMF_VOCAB_K_MAX,
                        c->k);
    if (c->overlap > c->window / 2)
        return kmf_fail(err, code,
                        "%s: overlap: must be at most half of the window of %zu tokens, "
                        "got %zu",
                        name, c->window, c->overlap);
    if (c->layer < -(int)c->n_layers - 1 || c->layer > (int)c->n_layers)
        return kmf_fail(err, code, "%s: layer: must be from %d to %d, got %d", name,
                        -(int)c->n_layers - 1, (int)c->n_layers, c->layer);
    if (c->specials != 0 && c->specials != 1)
        return kmf_fail(err, code, "%s: specials: must be true or false", name);
    if ((c->pooling == KMF_POOL_CLS || c->pooling == KMF_POOL_POOLER) && !c->specials)
        return kmf_fail(err, code, "%s: pooling %s needs specials true", name,
                        kmf_pooling_names[c->pooling]);
    if (c->pooling == KMF_POOL_POOLER && !c->pooler)
        return kmf_fail(err, code, "%s: pooling pooler: the model has no pooler", name);
    return 0;
}

static int check_parts(const kmf_config *c, kmf_code code, const char *name, kmf_err *err)
{
    if (c->composition > 0 &&
        !kmf_family_has(kmf_family_named(c->family), KMF_PART_COMPOSITION))
        return kmf_fail(err, code, "%s: composition %zu: must be 0 in a %s model", name,
                        c->composition, c->family);
    if (kmf_has_composition(c->parts) && c->composition == 0)
        return kmf_fail(err, code, "%s: parts %s: the model has no composition", name,
                        kmf_parts_names[c->parts]);
    if (kmf_has_composition(c->parts) && c->pooling != KMF_POOL_MEAN)
        return kmf_fail(err, code, "%s: parts %s: a composition is a mean, and pooling is %s",
                        name, kmf_parts_names[c->parts], kmf_pooling_names[c->pooling]);
    return 0;
}

int kmf_config_check(const kmf_config *c, kmf_code code, const char *name, kmf_err *err)
{
    int rc = check_sizes(c, kmf_encoder_sizes, KMF_N_ENCODER_SIZES, "", code, name, err);
    if (rc == 0)
        rc = check_sizes(c, kmf_use_sizes, KMF_N_USE_SIZES, "kmerformer.", code, name, err);
    if (rc == 0)
        rc = check_word((int)c->activation, KMF_N_ACTIVATIONS, "hidden_act", code, name, err);
    for (size_t i = 0; i < KMF_N_USE_WORDS && rc == 0; i++)
        rc = check_word(kmf_word_at(c, kmf_use_words[i].at), n_words(kmf_use_words[i].words),
                        kmf_use_words[i].key, code, name, err);
    if (rc == 0)
        rc = check_word((int)c->exact, KMF_EXACT_WHOLE + 1, "exact", code, name, err);
    if (rc == 0)
        rc = check_encoder(c, code, name, err);
    if (rc == 0)
        rc = check_use(c, code, name, err);
    if (rc == 0)
        rc = check_parts(c, code, name, err);
    if (rc < 0)
        return rc;
    if (kmf_config_parameters(c, 1) == 0)
        return too_many_parameters(c, code, name, err);
    return 0;
}

int kmf_config_check_native(const kmf_config *c, const char *name, kmf_err *err)
{
    if (!c->family || strcmp(c->family, kmf_family_roformer.name) != 0 ||
        c->positions != KMF_POSITIONS_ROTARY || c->position_offset != 0 ||
        c->rotary_size != 0 || !(fabs(c->rotary_base - KMF_ROTARY_BASE) <= 0) ||
        !c->embedding_norm || c->pre_norm || c->closing_norm || c->gated || !c->bias_in ||
        !c->bias_out || c->token_dropout || c->pooler || c->own_decoder ||
        c->head_biases != 1 || !(fabs(c->head_eps) <= 0) || c->head_gelu ||
        c->type_vocab_size == 0)
        return kmf_fail(
            err, KMF_EINVAL,
            "%s: only %s models are made here, with what kmf_config_preset sets apart", name,
            kmf_family_roformer.name);
    return kmf_config_check(c, KMF_EINVAL, name, err);
}

/* Published families always are; of our own layout one of the two tokens tells. */
static bool is_framed(const kmf_config *config, const kmf_vocab *vocab)
{
    return (config->family && strcmp(config->family, kmf_family_roformer.name) != 0) ||
           kmf_vocab_special(vocab, KMF_CLS) >= 0 || kmf_vocab_special(vocab, KMF_SEP) >= 0;
}

int kmf_config_fit(kmf_config *config, const kmf_vocab *vocab, const char *name, kmf_err *err)
{
    int k = kmf_vocab_k(vocab);
    size_t V = kmf_vocab_size(vocab);
    bool frames = kmf_vocab_frame(vocab) > 0;
    if (config->vocab_size != V)
        return kmf_fail(err, KMF_EMODEL, "%s: vocab_size is %zu, but %s has %zu tokens", name,
                        config->vocab_size, kmf_vocab_file(vocab), V);
    if (config->k != 0 && config->k != k)
        return kmf_fail(err, KMF_EMODEL, "%s: k is %d, but the k-mers of %s have %d bases",
                        name, config->k, kmf_vocab_file(vocab), k);
    if (config->specials == 1 && !frames)
        return kmf_fail(err, KMF_EMODEL, "%s: specials is true, but %s lacks [CLS] or [SEP]",
                        name, kmf_vocab_file(vocab));
    if (config->specials < 0 && !frames && is_framed(config, vocab))
        return kmf_fail(
            err, KMF_EMODEL,
            "%s: %s lacks the special tokens, or one of them, that a %s model has "
            "around its k-mers (\"kmerformer\": {\"specials\": false} does without)",
            name, kmf_vocab_file(vocab), config->family);
    config->k = k;
    if (config->specials < 0)
        config->specials = frames;
    return kmf_config_check(config, KMF_EMODEL, name, err);
}
