/* SPDX-License-Identifier: MIT */
/*
 * vocab.txt: one token a line, line number = id, in any order.
 *
 *   special  "[...]"        [PAD] [UNK] [CLS] [SEP] [MASK] are known, the rest never produced
 *   k-mer    k of ACGT      all of one length; either case and U are not taken: a published
 *                           vocabulary that holds "acg" means another token than "ACG"
 *
 * Lookup is one load from a dense table of 4^k ids, -1 for k-mers that are not listed: 4 KB at
 * k = 5, 16 KB at 6, 64 MB at 12. The text of the file stays as the tokens' storage.
 */
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"

#include <string.h>

#define K_VOCAB_MAX 12
#define VOCAB_BYTES_MAX ((size_t)1 << 30)

struct kmf_vocab {
    int k;
    size_t size;
    char *text;                     /* owned; the tokens, NUL-terminated, end to end */
    size_t *off;                    /* owned [size]; token id starts at text + off[id] */
    int32_t *id_of;                 /* owned [4^k] */
    int32_t special[KMF_N_SPECIAL]; /* -1: not listed */
};

static const char *const special_names[KMF_N_SPECIAL] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]",
                                                         "[MASK]"};

static size_t n_codes(int k)
{
    return (size_t)1 << 2 * k;
}

void kmf_vocab_free(kmf_vocab *vocab)
{
    if (!vocab)
        return;
    kmf_free(vocab->text);
    kmf_free(vocab->off);
    kmf_free(vocab->id_of);
    kmf_free(vocab);
}

/* Cuts text at its line ends, in place (CRLF too), and notes where tokens start. */
static int split_lines(kmf_vocab *v, size_t len, kmf_err *err)
{
    size_t cap = 0;
    for (size_t beg = 0; beg < len;) {
        char *line = v->text + beg;
        char *newline = memchr(line, '\n', len - beg);
        size_t n = newline ? (size_t)(newline - line) : len - beg;
        if (kmf_grow(&v->off, &cap, v->size + 1, sizeof *v->off, err) < 0)
            return KMF_ENOMEM;
        v->off[v->size++] = beg;
        line[n] = '\0';
        if (n > 0 && line[n - 1] == '\r')
            line[n - 1] = '\0';
        beg += n + 1;
    }
    return 0;
}

static int special_of(const char *token)
{
    for (int s = 0; s < KMF_N_SPECIAL; s++)
        if (strcmp(token, special_names[s]) == 0)
            return s;
    return -1;
}

static int add_special(kmf_vocab *v, size_t id, const char *name, kmf_err *err)
{
    int s = special_of(v->text + v->off[id]);
    if (s < 0)
        return 0;
    if (v->special[s] >= 0)
        return kmf_fail(err, KMF_EMODEL, "%s: line %zu: %s is listed twice", name, id + 1,
                        special_names[s]);
    v->special[s] = (int32_t)id;
    return 0;
}

static int add_kmer(kmf_vocab *v, size_t id, const char *name, kmf_err *err)
{
    const char *token = v->text + v->off[id];
    char shown[KMF_ERR_SHOW];
    size_t n = strlen(token);
    uint64_t code;
    if (n == 0 || strspn(token, "ACGT") != n)
        return kmf_fail(
            err, KMF_EMODEL,
            "%s: line %zu: '%s' is neither a k-mer of A, C, G, T nor a special token in "
            "brackets",
            name, id + 1, kmf_err_show(shown, token));
    if (!v->id_of) {
        if (n > K_VOCAB_MAX)
            return kmf_fail(err, KMF_EMODEL,
                            "%s: line %zu: k-mers of %zu bases; at most %d are "
                            "supported",
                            name, id + 1, n, K_VOCAB_MAX);
        v->k = (int)n;
        v->id_of = kmf_malloc(n_codes(v->k), sizeof *v->id_of, err);
        if (!v->id_of)
            return KMF_ENOMEM;
        memset(v->id_of, 0xff, n_codes(v->k) * sizeof *v->id_of);
    }
    if (n != (size_t)v->k)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: line %zu: '%s' has %zu bases, the k-mers before "
                        "it %d",
                        name, id + 1, token, n, v->k);
    kmf_kmer_encode(&code, token, v->k);
    if (v->id_of[code] >= 0)
        return kmf_fail(err, KMF_EMODEL, "%s: line %zu: '%s' is listed twice", name, id + 1,
                        token);
    v->id_of[code] = (int32_t)id;
    return 0;
}

/* Takes over text, which has room for a NUL at text[len]. */
static kmf_vocab *from_text(char *text, size_t len, const char *name, kmf_err *err)
{
    kmf_vocab *v = kmf_calloc(1, sizeof *v, err);
    if (!v) {
        kmf_free(text);
        return NULL;
    }
    v->text = text;
    memset(v->special, 0xff, sizeof v->special);
    if (memchr(text, '\0', len)) {
        kmf_fail(err, KMF_EMODEL, "%s: not a text file", name);
        goto fail;
    }
    if (split_lines(v, len, err) < 0)
        goto fail;
    if (v->size > INT32_MAX) {
        kmf_fail(err, KMF_EMODEL, "%s: %zu tokens; ids are 32 bits", name, v->size);
        goto fail;
    }
    for (size_t id = 0; id < v->size; id++) {
        const char *token = v->text + v->off[id];
        size_t n = strlen(token);
        int bracketed = n > 2 && token[0] == '[' && token[n - 1] == ']';
        if ((bracketed ? add_special(v, id, name, err) : add_kmer(v, id, name, err)) < 0)
            goto fail;
    }
    if (!v->id_of) {
        kmf_fail(err, KMF_EMODEL, "%s: no k-mer in it", name);
        goto fail;
    }
    return v;
fail:
    kmf_vocab_free(v);
    return NULL;
}

kmf_vocab *kmf_vocab_load(const char *path, kmf_err *err)
{
    size_t len;
    char *text = kmf_file_read(path, VOCAB_BYTES_MAX, &len, err);
    return text ? from_text(text, len, path, err) : NULL;
}

kmf_vocab *kmf_vocab_parse(const char *text, size_t len_bytes, const char *name, kmf_err *err)
{
    char *copy = kmf_malloc(len_bytes + 1, 1, err);
    if (!copy)
        return NULL;
    memcpy(copy, text, len_bytes);
    copy[len_bytes] = '\0';
    return from_text(copy, len_bytes, name, err);
}

kmf_vocab *kmf_vocab_new(int k, kmf_err *err)
{
    if (k < 1 || k > K_VOCAB_MAX) {
        kmf_fail(err, KMF_EINVAL, "k is %d: a model's k-mers have 1 to %d bases", k,
                 K_VOCAB_MAX);
        return NULL;
    }
    size_t line = (size_t)k + 1;
    char *text = kmf_malloc(n_codes(k) * line + 64, 1, err);
    if (!text)
        return NULL;
    size_t len = 0;
    for (int s = 0; s < KMF_N_SPECIAL; s++) {
        size_t n = strlen(special_names[s]);
        memcpy(text + len, special_names[s], n);
        text[len + n] = '\n';
        len += n + 1;
    }
    for (uint64_t code = 0; code < n_codes(k); code++) {
        kmf_kmer_decode(text + len, code, k);
        text[len + line - 1] = '\n';
        len += line;
    }
    return from_text(text, len, "vocabulary", err);
}

int kmf_vocab_k(const kmf_vocab *vocab)
{
    return vocab->k;
}

size_t kmf_vocab_size(const kmf_vocab *vocab)
{
    return vocab->size;
}

const char *kmf_vocab_token(const kmf_vocab *vocab, int32_t id)
{
    if (id < 0 || (size_t)id >= vocab->size)
        return NULL;
    return vocab->text + vocab->off[id];
}

int32_t kmf_vocab_kmer(const kmf_vocab *vocab, uint64_t code)
{
    return code < n_codes(vocab->k) ? vocab->id_of[code] : -1;
}

int32_t kmf_vocab_special(const kmf_vocab *vocab, kmf_special special)
{
    return (unsigned)special < KMF_N_SPECIAL ? vocab->special[special] : -1;
}
