/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a vocab.txt of either kind. Every id of what is accepted has a token, every k-mer's
 * id is its line, and the lines written out again give the same vocabulary. Text that begins with
 * '{' is fuzz_tokenizer's.
 */
#include "base/mem.h"
#include "fuzzing.h"

#include <string.h>

/* No k-mer: in brackets, or a letter beside k-mers. */
static int is_special(const kmf_vocab *vocab, const char *token)
{
    if (kmf_vocab_kind_of(vocab) == KMF_VOCAB_KMERS)
        return token[0] == '[';
    return (token[0] == '<' && token[1] != '\0') || token[1] == '\0';
}

static void check(const kmf_vocab *vocab)
{
    int k = kmf_vocab_k(vocab);
    int32_t V = (int32_t)kmf_vocab_size(vocab);
    must(k >= 1 && k <= 12 && V >= 1);
    must(kmf_vocab_token(vocab, -1) == NULL && kmf_vocab_token(vocab, V) == NULL);
    for (int32_t id = 0; id < V; id++) {
        const char *token = kmf_vocab_token(vocab, id);
        uint64_t code = 0;
        must(token != NULL && strchr(token, '\n') == NULL);
        if (is_special(vocab, token))
            continue;
        must(strlen(token) == (size_t)k && kmf_kmer_encode(&code, token, k) == 0);
        must(kmf_vocab_kmer(vocab, code) == id);
    }
    for (int s = 0; s < KMF_N_SPECIAL; s++)
        must(kmf_vocab_special(vocab, (kmf_special)s) < V);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kmf_err err = {0};
    size_t kept;
    if (size > 0 && data[0] == '{')
        return 0;
    kmf_vocab *vocab = kmf_vocab_parse((const char *)data, size, "fuzz", &err);
    if (!vocab) {
        must_tell(&err);
        return 0;
    }
    check(vocab);
    must(memcmp(kmf_vocab_text(vocab, &kept), data, size) == 0 && kept == size);
    int32_t V = (int32_t)kmf_vocab_size(vocab);
    size_t len = 0;
    char *text = kmf_malloc(size + (size_t)V + 1, 1, &err);
    must(text != NULL);
    for (int32_t id = 0; id < V; id++) {
        const char *token = kmf_vocab_token(vocab, id);
        size_t n = strlen(token);
        memcpy(text + len, token, n);
        text[len + n] = '\n';
        len += n + 1;
    }
    kmf_vocab *again = kmf_vocab_parse(text, len, "again", &err);
    must(again != NULL && kmf_vocab_size(again) == (size_t)V);
    must(kmf_vocab_k(again) == kmf_vocab_k(vocab));
    must(kmf_vocab_kind_of(again) == kmf_vocab_kind_of(vocab));
    for (int32_t id = 0; id < V; id++)
        must(strcmp(kmf_vocab_token(vocab, id), kmf_vocab_token(again, id)) == 0);
    for (int s = 0; s < KMF_N_SPECIAL; s++)
        must(kmf_vocab_special(vocab, (kmf_special)s) ==
             kmf_vocab_special(again, (kmf_special)s));
    kmf_free(text);
    kmf_vocab_free(again);
    kmf_vocab_free(vocab);
    return 0;
}
