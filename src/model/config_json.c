/* SPDX-License-Identifier: MIT */
/* A configuration from config.json and back. */
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "model/config.h"
#include "model/config_fields.h"
#include "model/families/family.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NO_NUMBER ((double)NAN) /* none changes nothing */
#define LEN(array) (sizeof(array) / sizeof((array)[0]))

/* Those that are read by hand. */
static const char *const other_keys[] = {"k", "specials", "layer", "provenance"};

/* What the names behind the fourth mean. */
static const kmf_activation other_activations[] = {KMF_GELU_TANH, KMF_SILU};

/* ---- reading ----------------------------------------------------------------------------- */

static int read_sizes(kmf_config *config, const json_t *object, const kmf_size_field *keys,
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
            kmf_set_size_at(config, keys[i].at, value);
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
                    fabs(json_number_value(value) - KMF_ROTARY_BASE) <= 0;
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
        {"rope_theta", KMF_ROTARY_BASE, "rotary angles have the base 10000 here"},
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
    int rc = read_sizes(config, root, kmf_encoder_sizes, KMF_N_ENCODER_SIZES, name, err);
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
    config->activation = word < KMF_N_ACTIVATIONS ? (kmf_activation)word
                                                  : other_activations[word - KMF_N_ACTIVATIONS];
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
        for (size_t i = 0; i < KMF_N_USE_SIZES; i++)
            known = known || strcmp(key, kmf_use_sizes[i].key) == 0;
        for (size_t i = 0; i < KMF_N_USE_WORDS; i++)
            known = known || strcmp(key, kmf_use_words[i].key) == 0;
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
        rc = read_sizes(config, use, kmf_use_sizes, KMF_N_USE_SIZES, where, err);
    if (rc >= 0)
        rc = kmf_json_int(&k, use, "k", 1, KMF_VOCAB_K_MAX, where, err);
    if (rc >= 0)
        rc = kmf_json_int(&layer, use, "layer", -L - 1, L, where, err);
    if (rc >= 0)
        rc = kmf_json_bool(&config->specials, use, "specials", where, err);
    for (size_t i = 0; i < KMF_N_USE_WORDS && rc >= 0; i++) {
        int value = kmf_word_at(config, kmf_use_words[i].at);
        rc = kmf_json_choice(&value, use, kmf_use_words[i].key, kmf_use_words[i].words, where,
                             err);
        memcpy((char *)config + kmf_use_words[i].at, &value, sizeof value);
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
    kmf_config_defaults(config);
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
    if (config->overlap == KMF_UNSET)
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
