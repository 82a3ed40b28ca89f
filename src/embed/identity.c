/* SPDX-License-Identifier: MIT */
/*
 * An embedder described, and made again from the description.
 *
 *   {"model": {"name", "md5", ...}, "settings": {"strand", ...}, "columns": D}
 *
 * Whether it is the same one is asked of the result: what was made again describes itself, and the
 * two descriptions are compared. A model is known by the MD5 of its files, wherever they lie; one
 * without files by its name.
 */
#include "base/err.h"
#include "embed/provenance.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static json_t *identity_json(const kmf_embedder *embedder, kmf_err *err)
{
    json_t *model = kmf_model_json(embedder, err);
    if (!model)
        return NULL;
    json_t *json =
        json_pack("{s:o, s:o, s:I}", "model", model, "settings", kmf_settings_json(embedder),
                  "columns", (json_int_t)kmf_embedder_dim(embedder));
    if (!json)
        kmf_fail(err, KMF_ENOMEM, "out of memory: no provenance could be made");
    return json;
}

char *kmf_embedder_identity(const kmf_embedder *embedder, kmf_err *err)
{
    json_t *json = identity_json(embedder, err);
    char *text = json ? kmf_json_text(json, JSON_COMPACT, err) : NULL;
    json_decref(json);
    return text;
}

/* ---------------------------------------------------------------- settings -------------- */

static int read_words(kmf_embed_options *o, const json_t *json, kmf_err *err)
{
    const struct {
        const char *key;
        const char *const *words;
        int *to;
    } rows[] = {{"strand", kmf_strand_names, &o->strand},
                {"norm", kmf_norm_names, &o->norm},
                {"ambiguous", kmf_ambiguous_names, &o->ambiguous},
                {"parts", kmf_parts_names, &o->parts},
                {"pooling", kmf_pooling_names, &o->pooling},
                {"long", kmf_long_names, &o->policy},
                {"precision", kmf_precision_names, &o->precision},
                {"weights", kmf_weights_names, &o->weights}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int status =
            kmf_json_choice(rows[i].to, json, rows[i].key, rows[i].words, "embedder", err);
        if (status < 0)
            return status;
    }
    /* encoders alone have a layer, and tell parts only where they are not the states */
    if (o->parts < 0 && json_object_get(json, "layer"))
        o->parts = KMF_PARTS_STATES;
    return 0;
}

static int read_numbers(kmf_embed_options *o, const json_t *json, kmf_err *err)
{
    int64_t layer = o->layer;
    int64_t k = o->k;
    int status = 0;
    const struct {
        const char *key;
        size_t *to;
    } sizes[] = {{"stride", &o->stride}, {"window", &o->window}, {"overlap", &o->overlap}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && status >= 0; i++)
        status =
            kmf_json_size(sizes[i].to, json, sizes[i].key, 0, (size_t)1 << 31, "embedder", err);
    if (status >= 0)
        status = kmf_json_int(&layer, json, "layer", 0, INT_MAX, "embedder", err);
    if (status >= 0)
        status = kmf_json_int(&k, json, "k", 0, KMF_K_MAX, "embedder", err);
    if (status >= 0)
        status = kmf_json_bool(&o->exact, json, "exact", "embedder", err);
    if (status < 0)
        return status;
    o->layer = (int)layer;
    o->k = (int)k;
    const char *seed = json_string_value(json_object_get(json, "seed"));
    if (seed)
        o->seed = strtoull(seed, NULL, 10);
    if (o->exact)
        o->ambiguous = -1; /* the published tokenizer leaves no choice */
    return 0;
}

/* ---------------------------------------------------------------- again ----------------- */

int kmf_fail_difference(const char *path, const char *is, const char *whose, const char *what,
                        const json_t *was, const json_t *now, kmf_err *err)
{
    char shown[2][KMF_ERR_SHOW];
    const json_t *const values[] = {was, now};
    bool told = true;
    for (size_t i = 0; i < 2; i++) {
        const json_t *v = values[i];
        bool plain = v && !json_is_object(v) && !json_is_array(v);
        char *text = plain ? json_dumps(v, JSON_ENCODE_ANY) : NULL;
        told = told && text;
        kmf_err_show(shown[i], text ? text : "");
        free(text);
    }
    return told ? kmf_fail(err, KMF_EMODEL, "%s: %s: %s%s was %s, now it is %s", path, is,
                           whose, what, shown[0], shown[1])
                : kmf_fail(err, KMF_EMODEL, "%s: %s: %s%s changed", path, is, whose, what);
}

const char *kmf_json_difference(json_t *a, json_t *b, const char *but)
{
    const char *key;
    json_t *value;
    json_object_foreach(a, key, value)
        if (strcmp(key, but) != 0 && !json_equal(value, json_object_get(b, key)))
            return key;
    json_object_foreach(b, key, value)
        if (strcmp(key, but) != 0 && !json_object_get(a, key))
            return key;
    return NULL;
}

const char *kmf_identity_difference(const json_t *was, const json_t *now, const char **whose,
                                    const json_t *values[2])
{
    const char *key = NULL;
    json_t *model = json_object_get(was, "model");
    bool by_files = json_object_get(model, "md5") || json_object_get(model, "config_md5");
    const struct {
        const char *key, *but, *whose;
    } objects[] = {{"model", by_files ? "name" : "", "model's "},
                   {"settings", "strict", "setting "}};
    for (size_t i = 0; i < sizeof objects / sizeof objects[0] && !key; i++) {
        json_t *a = json_object_get(was, objects[i].key);
        json_t *b = json_object_get(now, objects[i].key);
        key = kmf_json_difference(a, b, objects[i].but);
        *whose = objects[i].whose;
        values[0] = key ? json_object_get(a, key) : NULL;
        values[1] = key ? json_object_get(b, key) : NULL;
    }
    if (key)
        return key;
    *whose = "number of ";
    values[0] = json_object_get(was, "columns");
    values[1] = json_object_get(now, "columns");
    return json_equal(values[0], values[1]) ? NULL : "columns";
}

static int compare(const kmf_embedder *embedder, const json_t *was, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    const char *whose;
    const json_t *values[2];
    json_t *now = identity_json(embedder, err);
    if (!now)
        return KMF_ENOMEM;
    const char *key = kmf_identity_difference(was, now, &whose, values);
    const char *precision =
        json_string_value(json_object_get(json_object_get(was, "settings"), "precision"));
    int status = 0;
    if (key && strcmp(key, "precision") == 0 && precision)
        status = kmf_fail(err, KMF_EMODEL,
                          "%s: the vectors were made in %s, which this processor, or "
                          "KMERFORMER_CPU, does not have",
                          kmf_embedder_name(embedder), precision);
    else if (key)
        status =
            kmf_fail(err, KMF_EMODEL, "%s is not the model of these vectors: the %s%s differs",
                     kmf_embedder_name(embedder), whose, kmf_err_show(shown, key));
    json_decref(now);
    return status;
}

/* A name is told as it is wherever its model fails. */
static bool is_printable(const char *name)
{
    for (const unsigned char *p = (const unsigned char *)name; *p; p++)
        if (*p < ' ' || *p == 127 || (*p == 0xc2 && p[1] < 0xa0)) /* C0, DEL, C1 in UTF-8 */
            return false;
    return true;
}

/* NULL after KMF_EMODEL. */
static const char *name_in(const json_t *was, kmf_err *err)
{
    const char *name =
        json_string_value(json_object_get(json_object_get(was, "model"), "name"));
    if (!name || !json_is_object(json_object_get(was, "settings"))) {
        kmf_fail(err, KMF_EMODEL, "embedder: neither a model nor settings");
        return NULL;
    }
    return name;
}

/* The default model, which has another place in every installation, if it is that; else NULL. */
static kmf_embedder *as_the_default(const json_t *was, const kmf_embed_options *opts)
{
    kmf_embedder *embedder = kmf_embedder_new(NULL, opts, NULL);
    if (!embedder || compare(embedder, was, NULL) == 0)
        return embedder;
    kmf_embedder_free(embedder);
    return NULL;
}

kmf_embedder *kmf_embedder_reopen(const char *identity, const char *model, int threads,
                                  kmf_err *err)
{
    kmf_embed_options opts;
    kmf_err cause = {0};
    char shown[KMF_ERR_SHOW];
    kmf_embedder *embedder = NULL;
    if (threads < 1 || threads > KMF_THREADS_MAX) {
        kmf_fail(err, KMF_EINVAL, "threads: must be between 1 and %d, got %d", KMF_THREADS_MAX,
                 threads);
        return NULL;
    }
    json_t *was = kmf_json_parse(identity, strlen(identity), "embedder", err);
    const char *name = was ? name_in(was, err) : NULL;
    if (!name)
        goto out;
    if (!model && !is_printable(name)) {
        kmf_fail(err, KMF_EMODEL, "embedder: a control character in the model's name");
        goto out;
    }
    const json_t *settings = json_object_get(was, "settings");
    if (json_object_size(settings) == 0) { /* those of a row file that nothing tells of */
        kmf_fail(
            err, KMF_EMODEL,
            "the vectors were those of %s, and nothing tells how they were made: no others "
            "can be",
            kmf_err_show(shown, name));
        goto out;
    }
    kmf_embed_options_default(&opts);
    opts.threads = threads;
    opts.provenance = true;
    if (read_words(&opts, settings, err) < 0 || read_numbers(&opts, settings, err) < 0)
        goto out;
    embedder = kmf_embedder_new(model ? model : name, &opts, &cause);
    if (!embedder && cause.code == KMF_EIO && !model)
        embedder = as_the_default(was, &opts);
    if (!embedder && cause.code == KMF_EINVAL) /* settings that a model of its kind has not */
        kmf_fail(err, KMF_EMODEL,
                 "%.200s is not the model of these vectors, which are of %s: %s",
                 model ? model : name, kmf_err_show(shown, name), cause.msg);
    else if (!embedder)
        kmf_fail(err, cause.code, "%s", cause.msg);
    if (embedder && compare(embedder, was, err) < 0) {
        kmf_embedder_free(embedder);
        embedder = NULL;
    }
out:
    json_decref(was);
    return embedder;
}
