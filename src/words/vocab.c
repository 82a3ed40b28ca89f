/* SPDX-License-Identifier: MIT */
/*
 * vocab.txt: one token a line, line number = id, in any order.
 *
 *   special  "[...]"        [PAD] [UNK] [CLS] [SEP] [MASK] are known, the rest never produced
 *   k-mer    k of ACGT      all of one length; either case and U are not taken: a published
 *                           vocabulary that holds "acg" means another token than "ACG"
 *
 * One "<...>" makes the whole file one of the other kind:
 *
 *   special  "<...>"        <pad> <unk> <cls> <mask> are known
 *   k-mer    k > 1 of ACGT  all of one length
 *   letter   any one
 *
 * Lookup is one load from a dense table of 4^k ids, -1 for k-mers that are not listed: 4 KB at
 * k = 5, 16 KB at 6, 64 MB at 12. The file is kept twice, as it was and cut into tokens.
 */
#include "words/vocab.h"

#include "base/err.h"
#include "base/mem.h"
#include "seq/input.h"
#include "seq/text.h"

#include <stdio.h>
#include <string.h>

#define VOCAB_BYTES_MAX ((size_t)1 << 30)

/* By kmf_vocab_kind; BPE finds its own. */
static const char *const special_names[][KMF_N_SPECIAL] = {
    [KMF_VOCAB_KMERS] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"},
    [KMF_VOCAB_GREEDY] = {"<pad>", "<unk>", "<cls>", NULL, "<mask>"},
};

static size_t n_codes(int k)
{
    return (size_t)1 << 2 * k;
}

void kmf_vocab_free(kmf_vocab *vocab)
{
    if (!vocab)
        return;
    kmf_free(vocab->text);
    kmf_free(vocab->tokens);
    kmf_free(vocab->off);
    kmf_free(vocab->id_of);
    kmf_free(vocab->of_dna);
    kmf_free(vocab->written);
    kmf_pairs_free(vocab->pairs);
    kmf_free(vocab);
}

size_t kmf_vocab_bytes(const kmf_vocab *v)
{
    size_t codes = v->id_of ? n_codes(v->k) * sizeof *v->id_of : 0;
    return sizeof *v + 2 * v->len + codes +
           v->size * (sizeof *v->off + (v->of_dna ? sizeof *v->of_dna : 0));
}

int kmf_vocab_finish(kmf_vocab *v, kmf_err *err)
{
    v->of_dna = kmf_malloc(v->size, 1, err);
    if (!v->of_dna)
        return KMF_ENOMEM;
    for (size_t id = 0; id < v->size; id++) {
        const char *token = kmf_token_text(v, id);
        v->of_dna[id] = token[strspn(token, "ACGT")] == '\0';
    }
    for (size_t i = 0; i < v->n_written; i++)
        v->written_first[(unsigned char)kmf_token_text(v, (size_t)v->written[i])[0]] = 1;
    return 0;
}

/* ---- vocab.txt ----------------------------------------------------------------------------- */

static bool is_between(const char *token, char open, char close)
{
    size_t n = strlen(token);
    return n > 2 && token[0] == open && token[n - 1] == close;
}

/* Copies the text and cuts it at its line ends (CRLF too). */
static int split_lines(kmf_vocab *v, kmf_err *err)
{
    size_t cap = 0;
    v->tokens = kmf_malloc(v->len + 1, 1, err);
    if (!v->tokens)
        return KMF_ENOMEM;
    memcpy(v->tokens, v->text, v->len + 1);
    for (size_t beg = 0; beg < v->len;) {
        char *line = v->tokens + beg;
        char *newline = memchr(line, '\n', v->len - beg);
        size_t n = newline ? (size_t)(newline - line) : v->len - beg;
        if (kmf_grow(&v->off, &cap, v->size + 1, sizeof *v->off, err) < 0)
            return KMF_ENOMEM;
        v->off[v->size++] = beg;
        line[n] = '\0';
        if (n > 0 && line[n - 1] == '\r')
            line[n - 1] = '\0';
        if (is_between(line, '<', '>'))
            v->kind = KMF_VOCAB_GREEDY;
        beg += n + 1;
    }
    return 0;
}

static int special_of(kmf_vocab_kind kind, const char *token)
{
    for (int s = 0; s < KMF_N_SPECIAL; s++)
        if (special_names[kind][s] && strcmp(token, special_names[kind][s]) == 0)
            return s;
    return -1;
}

static int listed_twice(size_t id, const char *token, const char *name, kmf_err *err)
{
    return kmf_fail(err, KMF_EMODEL, "%s: line %zu: '%s' is listed twice", name, id + 1, token);
}

static int add_special(kmf_vocab *v, size_t id, const char *name, kmf_err *err)
{
    int s = special_of(v->kind, kmf_token_text(v, id));
    if (s < 0)
        return 0;
    if (v->special[s] >= 0)
        return kmf_fail(err, KMF_EMODEL, "%s: line %zu: %s is listed twice", name, id + 1,
                        special_names[v->kind][s]);
    v->special[s] = (int32_t)id;
    return 0;
}

static int add_letter(kmf_vocab *v, size_t id, const char *name, kmf_err *err)
{
    const char *token = kmf_token_text(v, id);
    unsigned char letter = (unsigned char)token[0];
    if (letter <= ' ' || letter > '~')
        return kmf_fail(err, KMF_EMODEL, "%s: line %zu: not a letter", name, id + 1);
    if (v->letter[letter] >= 0)
        return listed_twice(id, token, name, err);
    v->letter[letter] = (int32_t)id;
    return 0;
}

static int add_kmer(kmf_vocab *v, size_t id, const char *name, kmf_err *err)
{
    const char *token = kmf_token_text(v, id);
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
        if (n > KMF_VOCAB_K_MAX)
            return kmf_fail(err, KMF_EMODEL,
                            "%s: line %zu: k-mers of %zu bases; at most %d are "
                            "supported",
                            name, id + 1, n, KMF_VOCAB_K_MAX);
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
                        name, id + 1, kmf_err_show(shown, token), n, v->k);
    kmf_kmer_encode(&code, token, v->k);
    if (v->id_of[code] >= 0)
        return listed_twice(id, token, name, err);
    v->id_of[code] = (int32_t)id;
    return 0;
}

static int add_token(kmf_vocab *v, size_t id, const char *name, kmf_err *err)
{
    const char *token = kmf_token_text(v, id);
    if (v->kind == KMF_VOCAB_KMERS)
        return is_between(token, '[', ']') ? add_special(v, id, name, err)
                                           : add_kmer(v, id, name, err);
    if (is_between(token, '<', '>')) {
        v->written[v->n_written++] = (int32_t)id;
        return add_special(v, id, name, err);
    }
    return token[0] != '\0' && token[1] == '\0' ? add_letter(v, id, name, err)
                                                : add_kmer(v, id, name, err);
}

static int finish_greedy(kmf_vocab *v, const char *name, kmf_err *err)
{
    if (v->special[KMF_UNK] < 0)
        return kmf_fail(err, KMF_EMODEL, "%s: no <unk> in it", name);
    v->frame = v->special[KMF_CLS] >= 0 ? 1 : 0;
    return kmf_vocab_finish(v, err);
}

static int read_lines(kmf_vocab *v, const char *name, kmf_err *err)
{
    if (memchr(v->text, '\0', v->len))
        return kmf_fail(err, KMF_EMODEL, "%s: not a text file", name);
    if (split_lines(v, err) < 0)
        return KMF_ENOMEM;
    if (v->size > INT32_MAX)
        return kmf_fail(err, KMF_EMODEL, "%s: %zu tokens; ids are 32 bits", name, v->size);
    if (v->kind == KMF_VOCAB_GREEDY) {
        v->written = kmf_malloc(v->size, sizeof *v->written, err);
        if (!v->written)
            return KMF_ENOMEM;
    }
    for (size_t id = 0; id < v->size; id++) {
        int rc = add_token(v, id, name, err);
        if (rc < 0)
            return rc;
    }
    if (!v->id_of)
        return kmf_fail(err, KMF_EMODEL, "%s: no k-mer in it", name);
    if (v->kind == KMF_VOCAB_GREEDY)
        return finish_greedy(v, name, err);
    v->frame = v->special[KMF_CLS] >= 0 && v->special[KMF_SEP] >= 0 ? 2 : 0;
    return 0;
}

/* ---- the object ---------------------------------------------------------------------------- */

/* Takes over text, which has a NUL at text[len]. */
static kmf_vocab *from_text(char *text, size_t len, const char *name, kmf_err *err)
{
    kmf_vocab *v = kmf_calloc(1, sizeof *v, err);
    if (!v) {
        kmf_free(text);
        return NULL;
    }
    size_t mark = kmf_byte_order_mark(text, len);
    memmove(text, text + mark, len - mark + 1);
    v->text = text;
    v->len = len - mark;
    memset(v->special, 0xff, sizeof v->special);
    memset(v->letter, 0xff, sizeof v->letter);
    int rc = text[0] == '{' ? kmf_tokenizer_read(v, name, err) : read_lines(v, name, err);
    if (rc < 0) {
        kmf_vocab_free(v);
        return NULL;
    }
    return v;
}

kmf_vocab *kmf_vocab_load(const char *path, kmf_err *err)
{
    kmf_text text = {0};
    if (kmf_text_load(&text, path, VOCAB_BYTES_MAX, err) == 0)
        return from_text(text.bytes, text.len, kmf_input_name(path), err);
    kmf_free(text.bytes);
    return NULL;
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
    if (k < 1 || k > KMF_VOCAB_K_MAX) {
        kmf_fail(err, KMF_EINVAL, "k is %d: a model's k-mers have 1 to %d bases", k,
                 KMF_VOCAB_K_MAX);
        return NULL;
    }
    size_t line = (size_t)k + 1;
    char *text = kmf_malloc(n_codes(k) * line + 64, 1, err);
    if (!text)
        return NULL;
    size_t len = 0;
    for (int s = 0; s < KMF_N_SPECIAL; s++)
        len += (size_t)sprintf(text + len, "%s\n", special_names[KMF_VOCAB_KMERS][s]);
    for (uint64_t code = 0; code < n_codes(k); code++) {
        kmf_kmer_decode(text + len, code, k);
        text[len + line - 1] = '\n';
        len += line;
    }
    text[len] = '\0';
    return from_text(text, len, "vocabulary", err);
}

kmf_vocab_kind kmf_vocab_kind_of(const kmf_vocab *vocab)
{
    return vocab->kind;
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
    return kmf_token_text(vocab, (size_t)id);
}

int32_t kmf_vocab_kmer(const kmf_vocab *vocab, uint64_t code)
{
    return vocab->id_of && code < n_codes(vocab->k) ? vocab->id_of[code] : -1;
}

int32_t kmf_vocab_special(const kmf_vocab *vocab, kmf_special special)
{
    return (unsigned)special < KMF_N_SPECIAL ? vocab->special[special] : -1;
}

size_t kmf_vocab_frame(const kmf_vocab *vocab)
{
    return vocab->frame;
}

const char *kmf_vocab_text(const kmf_vocab *vocab, size_t *len_bytes)
{
    *len_bytes = vocab->len;
    return vocab->text;
}

const char *kmf_vocab_file(const kmf_vocab *vocab)
{
    return vocab->kind == KMF_VOCAB_BPE ? "tokenizer.json" : "vocab.txt";
}
