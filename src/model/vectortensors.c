/* SPDX-License-Identifier: MIT */
/*
 * Vectors as safetensors, the format of our own that loses nothing.
 *
 *   counts    U64 [n]          how often each word occurred; left out if not known
 *   vectors   F32 [n, dim]     F16, BF16 and F64 are read as well
 *   words     U8 [n, k_max]    letters, NUL after the end of a shorter word
 *
 *   __metadata__   format              "pt"
 *                  kmerformer_vectors  "1", the version of the format
 *                  alphabet            "dna" or "protein"
 *                  canonical           "0" or "1"
 *                  kmerformer          provenance: the text of a JSON object
 *
 * The widest numbers come first, so that each tensor begins at a multiple of its numbers' size. A
 * file that somebody made with other tools may lack any of the metadata: alphabet and canonical are
 * then told by the words, as in the text formats.
 */
#include "model/vectorfile.h"

#include "base/err.h"
#include "base/json.h"
#include "base/le.h"
#include "base/mem.h"
#include "model/safetensors.h"

#include <string.h>

#define VERSION "1"
#define VERSION_KEY "kmerformer_vectors"
#define ALPHABET_KEY "alphabet"
#define CANONICAL_KEY "canonical"
#define PROVENANCE_KEY "kmerformer"

/* ---------------------------------------------------------------- reading ---------------- */

/* What the header says. Tensors are borrowed from the kmf_safetensors. */
typedef struct layout {
    const kmf_stored *vectors;
    const kmf_stored *words;
    const kmf_stored *counts; /* NULL: none */
    int alphabet;             /* -1: not said */
    int canonical;            /* KMF_CANONICAL_UNKNOWN: not said */
    const char *provenance;   /* NULL: none */
} layout;

/* *out: the index of the text under key in words, as it was if there is none. */
static int read_choice(int *out, const kmf_safetensors *st, const char *key,
                       const char *const *words, const char *name, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    const char *text = kmf_safetensors_metadata(st, key);
    for (int i = 0; text && words[i]; i++)
        if (strcmp(words[i], text) == 0) {
            *out = i;
            return 0;
        }
    return text ? kmf_fail(err, KMF_EMODEL, "%s: its metadata say '%s' for %s", name,
                           kmf_err_show(shown, text), key)
                : 0;
}

/* "where: ..." and code if it is no JSON object. */
static int check_provenance(const char *text, const char *where, kmf_code code, kmf_err *err)
{
    kmf_err cause = {0};
    if (kmf_json_check(text, &cause) == 0)
        return 0;
    return kmf_fail(err, cause.code == KMF_ENOMEM ? KMF_ENOMEM : code, "%s: %s", where,
                    cause.msg);
}

static int read_metadata(layout *l, const kmf_safetensors *st, const char *name, kmf_err *err)
{
    static const char *const versions[] = {VERSION, NULL};
    static const char *const answers[] = {"0", "1", NULL};
    int version = 0;
    if (read_choice(&version, st, VERSION_KEY, versions, name, err) < 0 ||
        read_choice(&l->alphabet, st, ALPHABET_KEY, kmf_alphabet_names, name, err) < 0 ||
        read_choice(&l->canonical, st, CANONICAL_KEY, answers, name, err) < 0)
        return KMF_EMODEL;
    l->provenance = kmf_safetensors_metadata(st, PROVENANCE_KEY);
    return l->provenance ? check_provenance(l->provenance, name, KMF_EMODEL, err) : 0;
}

static int check_tensors(const layout *l, const kmf_safetensors *st, const char *name,
                         kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    const kmf_stored *v = l->vectors;
    const kmf_stored *w = l->words;
    const kmf_stored *c = l->counts;
    if (!v || !w)
        return kmf_fail(err, KMF_EMODEL, "%s: no k-mer vectors: it has no tensor %s%s", name,
                        v ? "words" : "vectors",
                        v || w ? ""
                               : "; a model is its directory, "
                                 "and a probe is for probe predict");
    for (size_t i = 0; i < st->n; i++) {
        const kmf_stored *t = &st->tensors[i];
        if (t != v && t != w && t != c)
            return kmf_fail(err, KMF_EMODEL,
                            "%s: tensor %s is none of those of k-mer vectors: vectors, words, "
                            "counts",
                            name, kmf_err_show(shown, t->name));
    }
    if (kmf_stored_dtype(v) < 0 || kmf_stored_dtype(v) == KMF_I8 || v->rank != 2 || v->n == 0)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: tensor vectors must be F32, F16, BF16 or F64 of shape [n, dim]",
                        name);
    if (strcmp(w->dtype, "U8") != 0 || w->rank != 2 || w->shape[0] != v->shape[0] ||
        w->shape[1] < 1 || w->shape[1] > KMF_K_MAX)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: tensor words must be U8 of shape [%zu, k], k from 1 to %d", name,
                        v->shape[0], KMF_K_MAX);
    if (c && (strcmp(c->dtype, "U64") != 0 || c->rank != 1 || c->shape[0] != v->shape[0]))
        return kmf_fail(err, KMF_EMODEL, "%s: tensor counts must be U64 of shape [%zu]", name,
                        v->shape[0]);
    return 0;
}

/* Row i of tensor words; KMF_EMODEL if something follows its NUL. */
static int word_length(const unsigned char *word, size_t width, size_t *len)
{
    const unsigned char *nul = memchr(word, 0, width);
    *len = nul ? (size_t)(nul - word) : width;
    for (size_t i = *len; i < width; i++)
        if (word[i] != 0)
            return KMF_EMODEL;
    return 0;
}

static int take_rows(kmf_maker *maker, const layout *l, const char *name, kmf_err *err)
{
    size_t n = l->vectors->shape[0];
    size_t dim = l->vectors->shape[1];
    size_t width = l->words->shape[1];
    kmf_dtype dtype = (kmf_dtype)kmf_stored_dtype(l->vectors);
    for (size_t row = 0; row < n; row++) {
        size_t len = 0;
        const unsigned char *word = l->words->values + row * width;
        const unsigned char *x = l->vectors->values + row * dim * l->vectors->item_bytes;
        kmf_stored_to_f32(kmf_maker_room(maker), x, dtype, dim);
        if (l->counts)
            maker->vectors->count[row] = kmf_le_load64(l->counts->values + 8 * row);
        if (word_length(word, width, &len) < 0 ||
            !kmf_maker_take(maker, (const char *)word, len))
            return kmf_fail(err, KMF_EMODEL, "%s: word %zu is not a k-mer%s%s", name, row + 1,
                            l->alphabet < 0 ? "" : " of ",
                            l->alphabet < 0 ? "" : kmf_alphabet_names[l->alphabet]);
    }
    return 0;
}

static kmf_vectors *read_layout(const layout *l, const char *name, kmf_err *err)
{
    kmf_maker maker;
    kmf_vectors *v = NULL;
    size_t n = l->vectors->shape[0];
    size_t dim = l->vectors->shape[1];
    if (kmf_maker_start(&maker, n, dim, l->alphabet, l->counts != NULL, err) < 0)
        return NULL;
    if (take_rows(&maker, l, name, err) == 0)
        v = kmf_maker_finish(&maker, l->canonical, name, err);
    kmf_maker_free(&maker);
    if (v && v->info.foreign > 0) {
        kmf_fail(err, KMF_EMODEL, "%s: %zu of its words are not k-mers of %s", name,
                 v->info.foreign, kmf_alphabet_names[v->info.alphabet]);
        goto failed;
    }
    if (v && l->provenance && kmf_vectors_set_provenance(v, l->provenance, err) < 0)
        goto failed;
    return v;
failed:
    kmf_vectors_free(v);
    return NULL;
}

kmf_vectors *kmf_vectortensors_read(const unsigned char *bytes, size_t len, const char *name,
                                    kmf_err *err)
{
    kmf_safetensors st;
    kmf_vectors *v = NULL;
    if (kmf_safetensors_parse(&st, bytes, len, name, err) < 0)
        return NULL;
    layout l = {.vectors = kmf_safetensors_find(&st, "vectors"),
                .words = kmf_safetensors_find(&st, "words"),
                .counts = kmf_safetensors_find(&st, "counts"),
                .alphabet = -1,
                .canonical = KMF_CANONICAL_UNKNOWN};
    if (check_tensors(&l, &st, name, err) == 0 && read_metadata(&l, &st, name, err) == 0)
        v = read_layout(&l, name, err);
    kmf_safetensors_free(&st);
    return v;
}

/* ---------------------------------------------------------------- writing ---------------- */

/* The tensor words; freed by kmf_free. */
static char *spell_words(const kmf_vectors *v, kmf_err *err)
{
    char word[KMF_K_MAX + 1];
    size_t width = (size_t)v->info.k_max;
    char *words = kmf_calloc(v->info.n, width, err);
    for (size_t row = 0; words && row < v->info.n; row++) {
        int k = kmf_vectors_word(v, row, word);
        memcpy(words + row * width, word, (size_t)k);
    }
    return words;
}

int kmf_vectortensors_write(const kmf_vectors *vectors, const char *provenance, kmf_out *out,
                            kmf_err *err)
{
    const kmf_vectors_info *info = &vectors->info;
    const char *pairs[] = {VERSION_KEY,    VERSION,
                           ALPHABET_KEY,   kmf_alphabet_names[info->alphabet],
                           CANONICAL_KEY,  info->canonical ? "1" : "0",
                           PROVENANCE_KEY, provenance};
    bool empty = provenance[0] == '\0';
    int rc = empty ? 0 : check_provenance(provenance, "k-mer vectors", KMF_EINVAL, err);
    if (rc < 0)
        return rc;
    char *words = spell_words(vectors, err);
    if (!words)
        return KMF_ENOMEM;
    kmf_stored tensors[] = {
        {.name = "counts", .dtype = "U64", .shape = {info->n}, .rank = 1},
        {.name = "vectors", .dtype = "F32", .shape = {info->n, info->dim}, .rank = 2},
        {.name = "words", .dtype = "U8", .shape = {info->n, (size_t)info->k_max}, .rank = 2}};
    const void *values[] = {vectors->count, vectors->values, words};
    size_t skip = !info->counted; /* the first */
    int status = kmf_safetensors_write(out, tensors + skip, values + skip, 3 - skip, pairs,
                                       4 - empty, err);
    kmf_free(words);
    return status;
}
