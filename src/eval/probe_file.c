/* SPDX-License-Identifier: MIT */
/*
 * A probe as a safetensors file (probe.h says what is in it): a format that other programs read
 * without our code, and that holds texts beside the numbers.
 */
#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/out.h"
#include "base/point.h"
#include "eval/probe.h"
#include "model/safetensors.h"

#include <math.h>
#include <string.h>

#define VERSION_KEY "kmerformer.probe"
#define VERSION "1"
#define EMBEDDER_KEY "embedder"
#define L2_KEY "l2"
#define SCALE_KEY "probe_scale"
#define N_OWN 4      /* pairs */
#define PAIRS_MAX 16 /* with which a probe may be saved */

/* ---------------------------------------------------------------- names ------------------ */

/* Points p->labels to the texts, as many as there are classes. */
static void point_to_labels(kmf_probe *p)
{
    const char *at = p->text;
    for (size_t c = 0; c < p->n_classes; c++) {
        p->labels[c] = at;
        at += strlen(at) + 1;
    }
}

static bool has_control(const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < ' ' && text[i] != '\0')
            return true;
    return false;
}

int kmf_probe_describe(kmf_probe *p, const char *const *labels, const char *identity,
                       kmf_err *err)
{
    size_t n = 0;
    for (size_t c = 0; c < p->n_classes; c++) {
        char shown[KMF_ERR_SHOW];
        size_t m = strlen(labels[c]);
        if (has_control(labels[c], m))
            return kmf_fail(err, KMF_EINVAL, "label '%s': a control character in it",
                            kmf_err_show(shown, labels[c]));
        n += m + 1;
    }
    char *text = kmf_malloc(n, 1, err);
    char *copy = kmf_strdup(identity, err);
    if (!text || !copy) {
        kmf_free(text);
        kmf_free(copy);
        return KMF_ENOMEM;
    }
    char *at = text;
    for (size_t c = 0; c < p->n_classes; c++) {
        size_t m = strlen(labels[c]) + 1;
        memcpy(at, labels[c], m);
        at += m;
    }
    kmf_free(p->text);
    kmf_free(p->identity);
    p->text = text;
    p->text_len = n;
    p->identity = copy;
    point_to_labels(p);
    return 0;
}

const char *kmf_probe_label(const kmf_probe *probe, size_t number)
{
    return probe->labels[number] ? probe->labels[number] : "";
}

const char *kmf_probe_identity(const kmf_probe *probe)
{
    return probe->identity ? probe->identity : "";
}

const char *kmf_probe_provenance(const kmf_probe *probe)
{
    return probe->provenance ? probe->provenance : "";
}

/* ---------------------------------------------------------------- writing ---------------- */

/* The values of the pairs are UTF-8. */
static int save(const kmf_probe *p, const char *path, const char *const *pairs, size_t n_pairs,
                kmf_err *err)
{
    char l2[32];
    const char *all[2 * (PAIRS_MAX + N_OWN)] = {
        VERSION_KEY, VERSION, EMBEDDER_KEY, p->identity,
        L2_KEY,      l2,      SCALE_KEY,    kmf_probe_scale_names[p->scale]};
    kmf_print(l2, sizeof l2, "%.17g", p->l2);
    for (size_t i = 0; i < 2 * n_pairs; i++)
        all[2 * N_OWN + i] = pairs[i];
    kmf_stored tensors[] = {
        {.name = "biases", .dtype = "F32", .shape = {p->n_classes}, .rank = 1},
        {.name = "labels", .dtype = "U8", .shape = {p->text_len}, .rank = 1},
        {.name = "shares", .dtype = "F32", .shape = {p->n_classes}, .rank = 1},
        {.name = "weights", .dtype = "F32", .shape = {p->n_classes, p->dim}, .rank = 2}};
    const void *values[] = {p->biases, p->text, p->shares, p->weights};
    err = kmf_err_or(err, &(kmf_err){0});
    kmf_out *out = kmf_out_open_plain(path, err);
    if (!out)
        return (int)err->code;
    int status = kmf_safetensors_write(out, tensors, values, 4, all, n_pairs + N_OWN, err);
    return kmf_out_end(out, status, err);
}

static bool is_own_key(const char *key)
{
    return strcmp(key, VERSION_KEY) == 0 || strcmp(key, EMBEDDER_KEY) == 0 ||
           strcmp(key, L2_KEY) == 0 || strcmp(key, SCALE_KEY) == 0;
}

int kmf_probe_save(const kmf_probe *p, const char *path, const char *const *pairs,
                   size_t n_pairs, kmf_err *err)
{
    char *values[PAIRS_MAX] = {NULL}; /* owned */
    const char *texts[2 * PAIRS_MAX];
    int status = 0;
    if (!p->identity)
        return kmf_fail(err, KMF_EINVAL, "%s: the probe's classes have no names yet", path);
    if (n_pairs > PAIRS_MAX)
        return kmf_fail(err, KMF_EINVAL, "%s: more than %d pairs of texts", path, PAIRS_MAX);
    for (size_t i = 0; i < n_pairs; i++)
        if (is_own_key(pairs[2 * i]))
            return kmf_fail(err, KMF_EINVAL, "%s: the key %s is the probe's own", path,
                            pairs[2 * i]);
    for (size_t i = 0; i < n_pairs && status == 0; i++) {
        values[i] = kmf_json_fit(pairs[2 * i + 1], err);
        texts[2 * i] = pairs[2 * i];
        texts[2 * i + 1] = values[i];
        status = values[i] ? 0 : KMF_ENOMEM;
    }
    if (status == 0)
        status = save(p, path, texts, n_pairs, err);
    for (size_t i = 0; i < n_pairs; i++)
        kmf_free(values[i]);
    return status;
}

/* ---------------------------------------------------------------- reading ---------------- */

/* All there, of the shapes that belong together; finite. */
static int check_tensors(const kmf_stored *const t[4], const char *path, kmf_err *err)
{
    static const char *const names[] = {"biases", "labels", "shares", "weights"};
    for (size_t i = 0; i < 4; i++)
        if (!t[i] || strcmp(t[i]->dtype, i == 1 ? "U8" : "F32") != 0)
            return kmf_fail(err, KMF_EMODEL, "%s: no tensor %s of %s", path, names[i],
                            i == 1 ? "U8" : "F32");
    if (t[3]->rank != 2 || t[3]->n == 0 || t[3]->shape[0] > INT32_MAX || t[0]->rank != 1 ||
        t[0]->n != t[3]->shape[0] || t[2]->rank != 1 || t[2]->n != t[0]->n || t[1]->rank != 1)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: weights, biases, shares and labels do not fit together", path);
    return 0;
}

static int check_values(const kmf_probe *p, const char *path, kmf_err *err)
{
    size_t n = 0;
    for (size_t i = 0; i < p->text_len; i++)
        n += p->text[i] == '\0';
    if (n != p->n_classes || p->text[p->text_len - 1] != '\0')
        return kmf_fail(err, KMF_EMODEL, "%s: %zu labels for %zu classes", path, n,
                        p->n_classes);
    if (has_control(p->text, p->text_len))
        return kmf_fail(err, KMF_EMODEL, "%s: a control character in a label", path);
    if (!(p->l2 > 0) || !isfinite(p->l2))
        return kmf_fail(err, KMF_EMODEL, "%s: its l2 is no number above 0", path);
    for (size_t i = 0; i < p->n_classes * p->dim; i++)
        if (!isfinite(p->weights[i]))
            return kmf_fail(err, KMF_EMODEL, "%s: a weight is not finite", path);
    for (size_t c = 0; c < p->n_classes; c++)
        if (!isfinite(p->biases[c]) || !isfinite(p->shares[c]))
            return kmf_fail(err, KMF_EMODEL, "%s: a bias or share is not finite", path);
    return 0;
}

/* What is told beside that which makes the probe, as JSON. */
static char *read_pairs(const kmf_safetensors *st, kmf_err *err)
{
    static const char *const own[] = {VERSION_KEY, EMBEDDER_KEY, L2_KEY, SCALE_KEY, "format"};
    json_t *pairs = json_deep_copy(json_object_get(st->header, "__metadata__"));
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        (void)json_object_del(pairs, own[i]);
    char *text = pairs ? kmf_json_text(pairs, JSON_COMPACT, err) : NULL;
    if (!text)
        kmf_fail(err, KMF_ENOMEM, "out of memory");
    json_decref(pairs);
    return text;
}

/* Files of before there was a choice have none. */
static int read_scale(kmf_probe *p, const char *name, const char *path, kmf_err *err)
{
    for (int scale = 0; scale < KMF_PROBE_AUTO; scale++)
        if (!name || strcmp(name, kmf_probe_scale_names[scale]) == 0) {
            p->scale = (kmf_probe_scale)scale;
            return 0;
        }
    return kmf_fail(err, KMF_EMODEL, "%s: its probe_scale is neither column nor common", path);
}

static kmf_probe *read_probe(const kmf_safetensors *st, const char *path, kmf_err *err)
{
    const char *version = kmf_safetensors_metadata(st, VERSION_KEY);
    const char *identity = kmf_safetensors_metadata(st, EMBEDDER_KEY);
    const char *l2 = kmf_safetensors_metadata(st, L2_KEY);
    char *end;
    const kmf_stored *const t[4] = {
        kmf_safetensors_find(st, "biases"), kmf_safetensors_find(st, "labels"),
        kmf_safetensors_find(st, "shares"), kmf_safetensors_find(st, "weights")};
    if (!version || strcmp(version, VERSION) != 0 || !identity || !l2) {
        kmf_fail(err, KMF_EMODEL, "%s: no probe, or not one of version %s", path, VERSION);
        return NULL;
    }
    if (check_tensors(t, path, err) < 0)
        return NULL;
    kmf_probe *p = kmf_probe_new(t[3]->shape[1], t[3]->shape[0], err);
    if (!p)
        return NULL;
    if (read_scale(p, kmf_safetensors_metadata(st, SCALE_KEY), path, err) < 0)
        goto failed;
    p->l2 = kmf_read_double(l2, &end);
    if (*end != '\0')
        p->l2 = (double)NAN;
    p->text = kmf_calloc(t[1]->n + 1, 1, err);
    p->identity = kmf_strdup(identity, err);
    p->provenance = read_pairs(st, err);
    if (!p->text || !p->identity || !p->provenance)
        goto failed;
    p->text_len = t[1]->n;
    memcpy(p->text, t[1]->values, t[1]->n);
    kmf_stored_to_f32(p->biases, t[0]->values, KMF_F32, t[0]->n);
    kmf_stored_to_f32(p->shares, t[2]->values, KMF_F32, t[2]->n);
    kmf_stored_to_f32(p->weights, t[3]->values, KMF_F32, t[3]->n);
    if (check_values(p, path, err) < 0)
        goto failed;
    point_to_labels(p);
    return p;
failed:
    kmf_probe_free(p);
    return NULL;
}

int kmf_probe_is_file(const char *path)
{
    kmf_map map = {0};
    kmf_safetensors st;
    int is = 0;
    if (kmf_map_open(&map, path, NULL) < 0)
        return 0;
    if (kmf_safetensors_parse(&st, map.bytes, map.len, path, NULL) == 0) {
        is = kmf_safetensors_metadata(&st, VERSION_KEY) != NULL;
        kmf_safetensors_free(&st);
    }
    kmf_map_close(&map);
    return is;
}

kmf_probe *kmf_probe_load(const char *path, kmf_err *err)
{
    kmf_map map = {0};
    kmf_safetensors st;
    kmf_probe *p = NULL;
    if (kmf_map_open(&map, path, err) < 0)
        return NULL;
    if (kmf_safetensors_parse(&st, map.bytes, map.len, path, err) == 0) {
        p = read_probe(&st, path, err);
        kmf_safetensors_free(&st);
    }
    kmf_map_close(&map);
    return p;
}
