/* SPDX-License-Identifier: MIT */
/*
 * From the words of a file to k-mer vectors. The alphabet is known only when all words have been
 * seen, so each is first taken as DNA if it can be, else as protein, and its row marked with what
 * else it could be; in the end rows of the other alphabet go, and rows that were taken as DNA in a
 * file of proteins get their other code. Rows close up in place.
 */
#include "model/vectorfile.h"

#include "base/err.h"
#include "base/mem.h"
#include "words/alphabet.h"

#include <assert.h>
#include <string.h>

/* What a row's word is: bits. */
enum { IS_DNA = 1, IS_PROTEIN = 2 };

int kmf_maker_start(kmf_maker *maker, size_t n_words, size_t dim, int alphabet, bool counted,
                    kmf_err *err)
{
    *maker = (kmf_maker){.n_words = n_words, .alphabet = alphabet};
    maker->vectors = kmf_vectors_new(KMF_DNA, n_words, dim, counted, err);
    maker->kinds = maker->vectors ? kmf_malloc(n_words, sizeof *maker->kinds, err) : NULL;
    if (maker->kinds)
        return 0;
    kmf_maker_free(maker);
    return KMF_ENOMEM;
}

void kmf_maker_free(kmf_maker *maker)
{
    kmf_vectors_free(maker->vectors);
    kmf_free(maker->kinds);
    *maker = (kmf_maker){0};
}

float *kmf_maker_room(kmf_maker *maker)
{
    assert(maker->n < maker->n_words);
    return maker->vectors->values + maker->n * maker->vectors->info.dim;
}

static bool encode(kmf_alphabet alphabet, uint64_t *code, const char *word, size_t len)
{
    return len >= 1 && len <= (size_t)kmf_alphabet_k_max(alphabet) &&
           kmf_alphabet_encode(alphabet, code, word, (int)len) == 0;
}

static bool has_odd_letter(const char *word, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (strchr("EFILPQefilpq", word[i]))
            return true;
    return false;
}

bool kmf_maker_take(kmf_maker *maker, const char *word, size_t len)
{
    uint64_t dna = 0;
    uint64_t protein = 0;
    unsigned kind = 0;
    if (maker->alphabet != KMF_PROTEIN && encode(KMF_DNA, &dna, word, len))
        kind |= IS_DNA;
    if (maker->alphabet != KMF_DNA && encode(KMF_PROTEIN, &protein, word, len))
        kind |= IS_PROTEIN;
    if (kind == 0)
        return false;
    size_t row = maker->n++;
    maker->kinds[row] = (uint8_t)kind;
    maker->vectors->code[row] = kind & IS_DNA ? dna : protein;
    maker->vectors->k[row] = (uint8_t)len;
    maker->n_dna += kind & IS_DNA;
    maker->n_odd += kind == IS_PROTEIN && has_odd_letter(word, len);
    return true;
}

static kmf_alphabet guess_alphabet(size_t n_dna, size_t n_odd)
{
    return n_dna == 0 || n_odd >= n_dna ? KMF_PROTEIN : KMF_DNA;
}

static kmf_alphabet tell_alphabet(const kmf_maker *m)
{
    return m->alphabet >= 0 ? (kmf_alphabet)m->alphabet : guess_alphabet(m->n_dna, m->n_odd);
}

kmf_alphabet kmf_maker_alphabet(const kmf_vectors *vectors)
{
    char word[KMF_K_MAX + 1];
    uint64_t code;
    size_t n_dna = 0;
    size_t n_odd = 0;
    for (size_t row = 0; row < vectors->info.n; row++) {
        size_t len = (size_t)kmf_vectors_word(vectors, row, word);
        bool dna = encode(KMF_DNA, &code, word, len);
        n_dna += dna;
        n_odd += !dna && has_odd_letter(word, len);
    }
    return guess_alphabet(n_dna, n_odd);
}

/* A code of DNA as that of the same letters in a protein. */
static uint64_t as_protein(uint64_t code, int k)
{
    char word[KMF_K_MAX + 1];
    kmf_kmer_decode(word, code, k);
    int status = kmf_alphabet_encode(KMF_PROTEIN, &code, word, k);
    assert(status == 0);
    (void)status;
    return code;
}

/* Rows that are no words of the alphabet go. */
static void close_up(kmf_maker *m, kmf_alphabet alphabet)
{
    kmf_vectors *v = m->vectors;
    size_t dim = v->info.dim;
    unsigned needed = alphabet == KMF_DNA ? IS_DNA : IS_PROTEIN;
    size_t to = 0;
    for (size_t from = 0; from < m->n; from++) {
        unsigned kind = m->kinds[from];
        if (!(kind & needed))
            continue;
        v->k[to] = v->k[from];
        v->code[to] = v->code[from];
        if (alphabet == KMF_PROTEIN && kind & IS_DNA)
            v->code[to] = as_protein(v->code[from], v->k[from]);
        if (v->count)
            v->count[to] = v->count[from];
        if (to != from)
            memcpy(v->values + to * dim, v->values + from * dim, dim * sizeof *v->values);
        to++;
    }
    m->n = to;
}

kmf_vectors *kmf_maker_finish(kmf_maker *maker, int canonical, const char *name, kmf_err *err)
{
    kmf_vectors *v = maker->vectors;
    kmf_alphabet alphabet = tell_alphabet(maker);
    close_up(maker, alphabet);
    v->info.alphabet = alphabet;
    v->info.n = maker->n;
    v->info.foreign = maker->n_words - maker->n;
    v->info.canonical = canonical;
    bool good = maker->n > 0;
    if (!good)
        kmf_fail(err, KMF_EMODEL, "%s: none of its %zu words is a k-mer", name, maker->n_words);
    if (good && kmf_vectors_index(v, name, err) == 0)
        maker->vectors = NULL; /* the caller's */
    else
        v = NULL;
    kmf_maker_free(maker);
    return v;
}
