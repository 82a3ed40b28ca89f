/* SPDX-License-Identifier: MIT */
/*
 * One table of sizes (key, field, range) and one of enums (key, field, words) serve reading,
 * checking and the messages; the words stand in the order of the values, for both directions.
 *
 * The ranges are far beyond any model there is and small enough that nothing derived from them
 * wraps around; the number of parameters, a product of several, is computed with checks and
 * bounded before anything is allocated.
 */
#include "model/config.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "model/families/family.h"
#include "nn/composition.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define K_MAX 12 /* longest k-mer of a vocabulary */
#define WINDOW_MAX ((size_t)1 << 24)
#define UNSET ((size_t)-1)
#define ROTARY_BASE 10000.0
#define NO_NUMBER ((double)NAN) /* none changes nothing */
#define LEN(array) (sizeof(array) / sizeof((array)[0]))

const char *const kmf_pooling_names[] = {"mean",     "cls",    "max", "none",
                                         "mean-all", "pooler", NULL};
const char *const kmf_strand_names[] = {"fwd", "rc", "both", NULL};
const char *const kmf_parts_names[] = {"states", "composition", "states+composition", NULL};
const char *const kmf_norm_names[] = {"none", "l2", NULL};
const char *const kmf_dtype_names[] = {"f32", "f16", "bf16", "int8", NULL};

struct size_key {
    const char *key;
    size_t field;
    size_t min, max;
    bool needed;
};

static const struct size_key encoder_keys[] = {
    {"vocab_size", offsetof(kmf_config, vocab_size), 1, (size_t)1 << 25, true},
    {"hidden_size", offsetof(kmf_config, hidden_size), 2, 65536, true},
    {"num_hidden_layers", offsetof(kmf_config, n_layers), 1, 1024, true},
    {"num_attention_heads", offsetof(kmf_config, n_heads), 1, 4096, true},
    {"intermediate_size", offsetof(kmf_config, intermediate_size), 1, (size_t)1 << 20, true},
    {"embedding_size", offsetof(kmf_config, embedding_size), 1, 65536, false},
    {"max_position_embeddings", offsetof(kmf_config, max_positions), 3, WINDOW_MAX, false},
    {"type_vocab_size", offsetof(kmf_config, type_vocab_size), 0, 1024, false},
};

static const struct size_key use_keys[] = {
    {"stride", offsetof(kmf_config, stride), 1, (size_t)1 << 31, false},
    {"window", offsetof(kmf_config, window), 3, WINDOW_MAX, false},
    {"overlap", offsetof(kmf_config, overlap), 0, WINDOW_MAX / 2, false},
    {"composition", offsetof(kmf_config, composition), 0, KMF_COMPOSITION_MAX, false},
};

/* Enums, which are as large as an int. */
static const struct word_key {
    const char *key;
    size_t field;
    const char *const *words;
} word_keys[] = {
    {"pooling", offsetof(kmf_config, pooling), kmf_pooling_names},
    {"parts", offsetof(kmf_config, parts), kmf_parts_names},
    {"strand", offsetof(kmf_config, strand), kmf_strand_names},
    {"norm", offsetof(kmf_config, norm), kmf_norm_names},
    {"ambiguous", offsetof(kmf_config, ambiguous), kmf_ambiguous_names},
};

/* Those that are read by hand. */
static const char *const other_keys[] = {"k", "specials", "layer", "provenance"};

/* In the order of kmf_activation, then other names of some of them. */
const char *const kmf_activation_names[] = {
    "gelu", "gelu_new", "relu", "silu", "gelu_pytorch_tanh", "swish", NULL};
#define N_ACTIVATIONS 4
static const kmf_activation other_activations[] = {KMF_GELU_TANH, KMF_SILU};

static const struct preset {
    const char *name;
    size_t L, D, H, F;
} presets[] = {
    {"nano", 4, 128, 4, 512},
    {"tiny", 4, 256, 4, 1024},
    {"small", 6, 384, 6, 1536},
    {"base", 12, 768, 12, 3072},
};

static size_t n_words(const char *const *words)
{
    size_t n = 0;
    while (words[n])
        n++;
    return n;
}

static size_t get_size(const kmf_config *config, size_t field)
{
    size_t value;
    memcpy(&value, (const char *)config + field, sizeof value);
    return value;
}

static void set_size(kmf_config *config, size_t field, size_t value)
{
    memcpy((char *)config + field, &value, sizeof value);
}

static int get_word(const kmf_config *config, size_t field)
{
    int value;
    memcpy(&value, (const char *)config + field, sizeof value);
    return value;
}

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
    size_t K = c->hidden_size / c->n_heads;
    return !has_rotary(c) ? 0 : c->rotary_size ? c->rotary_size : K;
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

static void set_defaults(kmf_config *config)
{
    *config = (kmf_config){
        .family = kmf_family_roformer.name,
        .max_positions = 1536,
        .type_vocab_size = 2,
        .layer_norm_eps = 1e-12,
        .activation = KMF_GELU,
        .positions = KMF_POSITIONS_ROTARY,
        .rotary_base = ROTARY_BASE,
        .embedding_norm = 1,
        .bias_in = 1,
        .bias_out = 1,
        .head_biases = 1,
        .stride = 1,
        .overlap = UNSET,
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
    if (k < 1 || k > K_MAX)
        return kmf_fail(err, KMF_EINVAL, "k is %d: a model's k-mers have 1 to %d bases", k,
                        K_MAX);
    set_defaults(config);
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

static int check_sizes(const kmf_config *config, const struct size_key *keys, size_t n,
                       const char *group, kmf_code code, const char *name, kmf_err *err)
{
    for (size_t i = 0; i < n; i++) {
        size_t value = get_size(config, keys[i].field);
        if (value < keys[i].min || value > keys[i].max)
            return kmf_fail(err, code, "%s: %s%s: must be from %zu to %zu, got %zu", name,
                            group, keys[i].key, keys[i].min, keys[i].max, value);
    }
    return 0;
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
    if (c->k < 0 || c->k > K_MAX)
        return kmf_fail(err, code, "%s: k: must be from 1 to %d, got %d", name, K_MAX, c->k);
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
    int rc = check_sizes(c, encoder_keys, LEN(encoder_keys), "", code, name, err);
    if (rc == 0)
        rc = check_sizes(c, use_keys, LEN(use_keys), "kmerformer.", code, name, err);
    if (rc == 0)
        rc = check_word((int)c->activation, N_ACTIVATIONS, "hidden_act", code, name, err);
    for (size_t i = 0; i < LEN(word_keys) && rc == 0; i++)
        rc = check_word(get_word(c, word_keys[i].field), n_words(word_keys[i].words),
                        word_keys[i].key, code, name, err);
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
        c->rotary_size != 0 || !(fabs(c->rotary_base - ROTARY_BASE) <= 0) ||
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

/* ---- reading ----------------------------------------------------------------------------- */

static int read_sizes(kmf_config *config, const json_t *object, const struct size_key *keys,
                      size_t n, const char *where, kmf_err *err)
{
    for (size_t i = 0; i < n; i++) {
        size_t value = 0;
        int rc =
            kmf_json_size(&value, object, keys[i].key, keys[i].min, keys[i].max, where, err);
        if (rc < 0)
            return rc;
        if (rc == 0 && keys[i].needed)
            return kmf_fail(err, KMF_EMODEL, "%s: %s is missing", where, keys[i].key);
        if (rc == 1)
            set_size(config, keys[i].field, value);
    }
    return 0;
}

/* Also sets config->family. NULL after KMF_EMODEL. */
static const kmf_family *find_family(kmf_config *config, const json_t *root,
                                     const kmf_tensors *stored, const char *name, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    char list[128] = "";
    size_t len = 0;
    const json_t *told = json_object_get(root, "model_type");
    const char *type = json_string_value(told);
    if (told && !type && !json_is_null(told)) {
        kmf_fail(err, KMF_EMODEL, "%s: model_type: must be a text", name);
        return NULL;
    }
    const kmf_family *family = kmf_family_detect(type, stored);
    if (family) {
        config->family = family->name;
        return family;
    }
    for (size_t i = 0; kmf_family_name(i); i++)
        len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", i ? ", " : "",
                                kmf_family_name(i));
    kmf_fail(err, KMF_EMODEL, "%s: %s%s, and no tensors of a family that works here: %s", name,
             type ? "model_type " : "no model_type", type ? kmf_err_show(shown, type) : "",
             list);
    return NULL;
}

/* Rotary angles of the type default and the usual base, and nothing else. */
static bool are_usual_angles(json_t *object)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        const char *text = json_string_value(value);
        bool type = strcmp(key, "rope_type") == 0 || strcmp(key, "type") == 0;
        bool base = strcmp(key, "rope_theta") == 0 && json_is_number(value) &&
                    fabs(json_number_value(value) - ROTARY_BASE) <= 0;
        if (!base && !(type && text && strcmp(text, "default") == 0))
            return false;
    }
    return true;
}

/* Absent, false, empty, the number that is usual, or usual rotary angles. */
static bool changes_nothing(json_t *value, double usual)
{
    return !value || json_is_null(value) || json_is_false(value) ||
           (json_is_object(value) && are_usual_angles(value)) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_number(value) && fabs(json_number_value(value) - usual) <= 0);
}

/*
 * What would change the computation and is not computed here. Sparse attention is what GENA-LM's
 * code, or BigBird's, calls it: blocks of keys, some of them drawn when the model is made.
 */
static int refuse_uncomputed(const json_t *root, const char *name, kmf_err *err)
{
    static const struct {
        const char *key;
        double usual; /* the number that changes nothing */
        const char *why;
    } keys[] = {
        {"sparse_attention", NO_NUMBER, "attention is full here"},
        {"sparse_config_cls", NO_NUMBER, "attention is full here"},
        {"rope_theta", ROTARY_BASE, "rotary angles have the base 10000 here"},
        {"rope_scaling", NO_NUMBER, "rotary angles are not scaled here"},
        {"rope_parameters", NO_NUMBER, "rotary angles are not scaled here"},
        {"rescaling_factor", 1, "rotary angles are not scaled here"},
        {"pruned_heads", NO_NUMBER, "all heads are computed here"},
        {"quantization_config", NO_NUMBER,
         "weights are f32, f16, bf16, or what kmerformer convert stores"},
    };
    const char *type = json_string_value(json_object_get(root, "attention_type"));
    for (size_t i = 0; i < LEN(keys); i++) {
        if (!changes_nothing(json_object_get(root, keys[i].key), keys[i].usual))
            return kmf_fail(err, KMF_EMODEL, "%s: %s: must be absent, %s", name, keys[i].key,
                            keys[i].why);
    }
    if (type && strcmp(type, "block_sparse") == 0)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: attention_type: must not be block_sparse, attention is full here",
                        name);
    return 0;
}

static int read_encoder(kmf_config *config, const json_t *root, const kmf_tensors *stored,
                        const char *name, kmf_err *err)
{
    int word = (int)config->activation;
    int decoder = 0;
    const kmf_family *family = find_family(config, root, stored, name, err);
    if (!family)
        return KMF_EMODEL;
    int rc = read_sizes(config, root, encoder_keys, LEN(encoder_keys), name, err);
    if (rc >= 0)
        rc =
            kmf_json_double(&config->layer_norm_eps, root, "layer_norm_eps", 0, 0.1, name, err);
    if (rc >= 0)
        rc = kmf_json_choice(&word, root, "hidden_act", kmf_activation_names, name, err);
    if (rc >= 0)
        rc = kmf_json_bool(&decoder, root, "is_decoder", name, err);
    if (rc >= 0)
        rc = refuse_uncomputed(root, name, err);
    if (rc < 0)
        return rc;
    if (decoder)
        return kmf_fail(err, KMF_EMODEL, "%s: is_decoder: must be false, this is for encoders",
                        name);
    config->activation =
        word < N_ACTIVATIONS ? (kmf_activation)word : other_activations[word - N_ACTIVATIONS];
    config->pooler = stored && kmf_family_has(family, KMF_PART_POOLER) &&
                     (kmf_family_find(family, stored, "pooler.dense.weight") ||
                      kmf_family_find(family, stored, "pooler.dense.bias"));
    if (config->embedding_size == 0)
        config->embedding_size = config->hidden_size;
    rc = family->read(config, root, stored, name, err);
    return rc < 0 ? rc : 0;
}

static int refuse_unknown(const json_t *use, const char *where, kmf_err *err)
{
    void *it;
    for (it = json_object_iter((json_t *)(uintptr_t)use); it;
         it = json_object_iter_next((json_t *)(uintptr_t)use, it)) {
        const char *key = json_object_iter_key(it);
        bool known = false;
        for (size_t i = 0; i < LEN(use_keys); i++)
            known = known || strcmp(key, use_keys[i].key) == 0;
        for (size_t i = 0; i < LEN(word_keys); i++)
            known = known || strcmp(key, word_keys[i].key) == 0;
        for (size_t i = 0; i < LEN(other_keys); i++)
            known = known || strcmp(key, other_keys[i]) == 0;
        char shown[KMF_ERR_SHOW];
        if (!known)
            return kmf_fail(
                err, KMF_EMODEL,
                "%s: unknown key '%s': written by a newer kmerformer than " KMF_VERSION, where,
                kmf_err_show(shown, key));
    }
    return 0;
}

static int read_use(kmf_config *config, const json_t *use, const char *where, kmf_err *err)
{
    int64_t k = 0;
    int64_t layer = -1;
    int64_t L = (int64_t)config->n_layers;
    int rc = refuse_unknown(use, where, err);
    if (rc >= 0)
        rc = read_sizes(config, use, use_keys, LEN(use_keys), where, err);
    if (rc >= 0)
        rc = kmf_json_int(&k, use, "k", 1, K_MAX, where, err);
    if (rc >= 0)
        rc = kmf_json_int(&layer, use, "layer", -L - 1, L, where, err);
    if (rc >= 0)
        rc = kmf_json_bool(&config->specials, use, "specials", where, err);
    for (size_t i = 0; i < LEN(word_keys) && rc >= 0; i++) {
        int value = get_word(config, word_keys[i].field);
        rc = kmf_json_choice(&value, use, word_keys[i].key, word_keys[i].words, where, err);
        memcpy((char *)config + word_keys[i].field, &value, sizeof value);
    }
    if (rc < 0)
        return rc;
    config->k = (int)k;
    config->layer = (int)layer;
    return 0;
}

/* The object at "provenance" as text, "" if there is none; NULL on failure. */
static char *read_provenance(const json_t *use, const char *where, kmf_err *err)
{
    const json_t *provenance = json_object_get(use, "provenance");
    if (!provenance || json_is_null(provenance))
        return kmf_strdup("", err);
    if (!json_is_object(provenance)) {
        kmf_fail(err, KMF_EMODEL, "%s: provenance: must be a JSON object", where);
        return NULL;
    }
    return kmf_json_text(provenance, JSON_COMPACT, err);
}

int kmf_config_parse(kmf_config *config, char **provenance, const char *text, size_t len,
                     const kmf_tensors *stored, const char *name, kmf_err *err)
{
    char where[512];
    err = kmf_err_or(err, &(kmf_err){0});
    *provenance = NULL;
    set_defaults(config);
    json_t *root = kmf_json_parse(text, len, name, err);
    if (!root)
        return (int)err->code;
    snprintf(where, sizeof where, "%s: kmerformer", name);
    const json_t *use = json_object_get(root, "kmerformer");
    int rc = read_encoder(config, root, stored, name, err);
    if (rc == 0 && use && !json_is_object(use))
        rc = kmf_fail(err, KMF_EMODEL, "%s: must be a JSON object", where);
    if (rc == 0 && use)
        rc = read_use(config, use, where, err);
    if (rc < 0)
        goto out;
    if (config->window == 0)
        config->window = config->max_positions;
    if (config->overlap == UNSET)
        config->overlap = config->window / 8;
    /* Checked as it will be once the vocabulary has decided the rest. */
    kmf_config whole = *config;
    if (whole.specials < 0)
        whole.specials = 1;
    rc = kmf_config_check(&whole, KMF_EMODEL, name, err);
    if (rc < 0)
        goto out;
    *provenance = read_provenance(use, where, err);
    if (!*provenance)
        rc = (int)err->code;
out:
    json_decref(root);
    return rc;
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

/* ---- writing ----------------------------------------------------------------------------- */

/* Each returns 0, or -1 when memory ran out, as jansson does. */
static int put_size(json_t *object, const char *key, size_t value)
{
    return json_object_set_new(object, key, json_integer((json_int_t)value));
}

static int put_word(json_t *object, const char *key, const char *word)
{
    return json_object_set_new(object, key, json_string(word));
}

static int put_use(json_t *root, const kmf_config *c, json_t *provenance)
{
    json_t *use = json_object();
    int bad = 0;
    if (c->k > 0)
        bad |= put_size(use, "k", (size_t)c->k);
    bad |= put_size(use, "stride", c->stride);
    bad |= put_size(use, "window", c->window);
    bad |= put_size(use, "overlap", c->overlap);
    bad |= json_object_set_new(use, "specials", json_boolean(c->specials));
    bad |= put_word(use, "pooling", kmf_pooling_names[c->pooling]);
    bad |= json_object_set_new(use, "layer", json_integer(c->layer));
    if (c->composition > 0)
        bad |= put_size(use, "composition", c->composition);
    if (c->parts != KMF_PARTS_STATES)
        bad |= put_word(use, "parts", kmf_parts_names[c->parts]);
    bad |= put_word(use, "strand", kmf_strand_names[c->strand]);
    bad |= put_word(use, "norm", kmf_norm_names[c->norm]);
    bad |= put_word(use, "ambiguous", kmf_ambiguous_names[c->ambiguous]);
    if (provenance)
        bad |= json_object_set(use, "provenance", provenance);
    return json_object_set_new(root, "kmerformer", use) | bad;
}

/* The keys of a RoFormer as Hugging Face writes them; 0, or not when memory ran out. */
static int put_encoder(json_t *root, const kmf_config *c, int has_head, int32_t pad)
{
    int bad = 0;
    json_t *architectures = json_array();
    bad |= json_array_append_new(
        architectures, json_string(has_head ? "RoFormerForMaskedLM" : "RoFormerModel"));
    bad |= json_object_set(root, "architectures", architectures);
    bad |= json_object_set_new(root, "attention_probs_dropout_prob", json_real(0.1));
    bad |= put_size(root, "embedding_size", c->embedding_size);
    bad |= put_word(root, "hidden_act", kmf_activation_names[c->activation]);
    bad |= json_object_set_new(root, "hidden_dropout_prob", json_real(0.1));
    bad |= put_size(root, "hidden_size", c->hidden_size);
    bad |= json_object_set_new(root, "initializer_range", json_real(0.02));
    bad |= put_size(root, "intermediate_size", c->intermediate_size);
    bad |= json_object_set_new(root, "layer_norm_eps", json_real(c->layer_norm_eps));
    bad |= put_size(root, "max_position_embeddings", c->max_positions);
    bad |= put_word(root, "model_type", "roformer");
    bad |= put_size(root, "num_attention_heads", c->n_heads);
    bad |= put_size(root, "num_hidden_layers", c->n_layers);
    bad |= json_object_set_new(root, "pad_token_id", pad < 0 ? json_null() : json_integer(pad));
    bad |= json_object_set_new(root, "rotary_value", json_boolean(c->rotary_value));
    bad |= put_size(root, "type_vocab_size", c->type_vocab_size);
    bad |= json_object_set_new(root, "use_cache", json_true());
    bad |= put_size(root, "vocab_size", c->vocab_size);
    json_decref(architectures);
    return bad;
}

char *kmf_config_write(const kmf_config *c, int has_head, const kmf_vocab *vocab,
                       const char *original, const char *provenance, kmf_err *err)
{
    json_t *root = NULL;
    json_t *kept = NULL;
    char *text = NULL;
    int bad = 0;
    if (provenance && *provenance) {
        kmf_err cause = {0};
        kept = kmf_json_parse(provenance, strlen(provenance), "provenance", &cause);
        if (!kept) {
            kmf_fail(err, cause.code == KMF_EMODEL ? KMF_EINVAL : cause.code, "%s", cause.msg);
            return NULL;
        }
    }
    root = *original ? kmf_json_parse(original, strlen(original), "config.json", err)
                     : json_object();
    if (*original && !root)
        goto out;
    if (!*original)
        bad |= put_encoder(root, c, has_head, kmf_vocab_special(vocab, KMF_PAD));
    bad |= put_use(root, c, kept);
    if (bad)
        kmf_fail(err, KMF_ENOMEM, "out of memory");
    else
        text = kmf_json_text(root, JSON_INDENT(2), err);
out:
    json_decref(kept);
    json_decref(root);
    return text;
}
