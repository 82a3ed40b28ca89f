/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a tokenizer.json; behind a line "#text" in them the text that it reads. Every id of
 * what is accepted has a token, tokens stand in order inside the text, a second reading gives
 * the same ones, and letters that are tokens are encoded alike in blocks of any length, into tokens
 * that spell them.
 */
#include "base/mem.h"
#include "fuzzing.h"
#include "words/vocab.h"

#include <string.h>

#define MOST_BYTES ((size_t)1 << 20)
#define MARK "\n#text\n"

static void check_vocab(const kmf_vocab *v)
{
    int32_t V = (int32_t)kmf_vocab_size(v);
    must(kmf_vocab_kind_of(v) == KMF_VOCAB_BPE && kmf_vocab_k(v) == 0 && V >= 1);
    must(kmf_vocab_token(v, -1) == NULL && kmf_vocab_token(v, V) == NULL);
    for (int32_t id = 0; id < V; id++)
        must(kmf_vocab_token(v, id)[0] != '\0');
    for (int s = 0; s < KMF_N_SPECIAL; s++)
        must(kmf_vocab_special(v, (kmf_special)s) < V);
    must(kmf_vocab_special(v, KMF_UNK) >= 0 && kmf_vocab_kmer(v, 0) == -1);
}

/* A number that two readings of the same text have in common. */
static uint64_t read_all(kmf_cutter *cutter, const kmf_vocab *v, const char *text, size_t len)
{
    kmf_err err = {0};
    kmf_chunk chunk;
    uint64_t sum = 0;
    uint64_t next = 0;
    int got;
    kmf_cutter_start(cutter, "fuzz", text, len);
    while ((got = kmf_cutter_next(cutter, &chunk, &err)) > 0)
        for (size_t i = 0; i < chunk.n; i++) {
            must(kmf_vocab_token(v, chunk.ids[i]) != NULL);
            must(chunk.pos[i] >= next && chunk.pos[i] < len);
            next = chunk.pos[i] + 1;
            sum = sum * 31 + (uint64_t)chunk.ids[i];
        }
    must(got == 0);
    return sum;
}

static void check_reading(const kmf_vocab *v, const char *text, size_t len, kmf_exact exact)
{
    kmf_cut_options o = {
        .stride = 1, .window = 64, .ambiguous = KMF_AMBIGUOUS_UNK, .exact = exact};
    kmf_cutter *cutter = kmf_cutter_new(v, &o, NULL);
    must(cutter != NULL);
    uint64_t sum = read_all(cutter, v, text, len);
    must(read_all(cutter, v, text, len) == sum);
    kmf_cutter_free(cutter);
}

/* The tokens of known letters, in blocks of a length, spell them; freed by kmf_free. */
static int32_t *encode(const kmf_vocab *v, const unsigned char *known, size_t n, size_t block,
                       size_t *n_tokens)
{
    kmf_bpe *bpe = kmf_bpe_new(v->pairs, block, NULL);
    must(bpe != NULL);
    const int32_t *tokens = kmf_bpe_encode(bpe, known, n, v->letter, n_tokens, NULL);
    must(tokens != NULL);
    size_t at = 0;
    for (size_t i = 0; i < *n_tokens; i++) {
        const char *token = kmf_vocab_token(v, tokens[i]);
        size_t len = strlen(token);
        must(len <= n - at && memcmp(token, known + at, len) == 0);
        at += len;
    }
    must(at == n);
    int32_t *copy = kmf_malloc(*n_tokens, sizeof *copy, NULL);
    must(copy != NULL);
    memcpy(copy, tokens, *n_tokens * sizeof *copy);
    kmf_bpe_free(bpe);
    return copy;
}

static void check_blocks(const kmf_vocab *v, const char *text, size_t len)
{
    unsigned char *known = kmf_malloc(len, 1, NULL);
    must(known != NULL);
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        if (v->letter[(unsigned char)text[i]] >= 0)
            known[n++] = (unsigned char)text[i];
    if (n > 0) {
        size_t n_whole;
        size_t n_parts;
        int32_t *whole = encode(v, known, n, KMF_BPE_BLOCK, &n_whole);
        int32_t *parts = encode(v, known, n, 1 + n / 8, &n_parts);
        must(n_whole == n_parts && memcmp(whole, parts, n_whole * sizeof *whole) == 0);
        kmf_free(whole);
        kmf_free(parts);
    }
    kmf_free(known);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kmf_err err = {0};
    const char *text = "ACGTNNNNNNNNNNNNACGTACGTTTTAAAC-GATTACA[MASK] AC acgtu";
    size_t len = strlen(text);
    size_t json = find_mark(data, size, MARK);
    if (size > MOST_BYTES || size == 0 || data[0] != '{')
        return 0;
    if (json < size) {
        text = (const char *)data + json + strlen(MARK);
        len = size - json - strlen(MARK);
    }
    kmf_vocab *v = kmf_vocab_parse((const char *)data, json, "fuzz", &err);
    if (!v) {
        must_tell(&err);
        return 0;
    }
    check_vocab(v);
    check_reading(v, text, len, KMF_EXACT_NO);
    check_reading(v, text, len, KMF_EXACT_SPLIT);
    check_blocks(v, text, len);
    kmf_vocab_free(v);
    return 0;
}
