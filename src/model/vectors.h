/* SPDX-License-Identifier: MIT */
/*
 * What k-mer vectors are made of: for those that make them, read them or look a k-mer up for every
 * window of a sequence.
 *
 * A maker calls kmf_vectors_new, fills in code, k, values and, if counted, count of each row, may
 * set info.canonical and lower info.n, and ends with kmf_vectors_index.
 */
#ifndef KMF_VECTORS_H
#define KMF_VECTORS_H

#include "kmerformer.h"
#include "words/kmer.h"

#include <stdbool.h>

/* info.canonical of new vectors: kmf_vectors_index finds out, by the rule of kmf_vectors_load. */
#define KMF_CANONICAL_UNKNOWN (-1)

/* The words of one length: either a table of all codes, or a sorted list. */
typedef struct kmf_words {
    size_t n;
    int32_t *dense;  /* owned [2^(bits k)]: the row, -1: no word; with canonical vectors under
                        either strand's code. NULL: there is a list */
    uint64_t *codes; /* owned [n], ascending; NULL: there is a table, or no word */
    int32_t *rows;   /* owned [n], of codes */
} kmf_words;

struct kmf_vectors {
    kmf_vectors_info info;
    uint64_t *code;                 /* owned [n] */
    uint8_t *k;                     /* owned [n] */
    uint64_t *count;                /* owned [n]; NULL if not counted */
    float *values;                  /* owned [n, dim]; NULL: taken */
    char *provenance;               /* owned; JSON text or "" */
    kmf_words words[KMF_K_MAX + 1]; /* by length */
};

/*
 * Room for n words, 1 .. 2^31 - 1, of dim numbers, 1 or more. k-mers and values are to be filled
 * in, counts are 0.
 */
kmf_vectors *kmf_vectors_new(kmf_alphabet alphabet, size_t n, size_t dim, bool counted,
                             kmf_err *err) KMF_MUST_CHECK;

/*
 * Makes words findable and completes info: k_min, k_max, canonical, unseen. Codes must be k-mers of
 * the alphabet. KMF_EMODEL, its message beginning with name: a word is listed twice, a canonical
 * one is the larger strand, or a value is not finite.
 */
int kmf_vectors_index(kmf_vectors *vectors, const char *name, kmf_err *err) KMF_MUST_CHECK;

/* For kmf_free. Of the vectors, all but rows can still be asked for. */
float *kmf_vectors_take_values(kmf_vectors *vectors);

/* Takes a copy of JSON text. */
int kmf_vectors_set_provenance(kmf_vectors *vectors, const char *text,
                               kmf_err *err) KMF_MUST_CHECK;

/* kmf_vectors_lookup where words[k] is a list. */
int64_t kmf_words_find(const kmf_words *words, uint64_t code);

/* kmf_vectors_find for a k from 1 to k_max of the alphabet and a code of that many letters. */
static inline int64_t kmf_vectors_lookup(const kmf_vectors *vectors, uint64_t code, int k)
{
    const kmf_words *words = &vectors->words[k];
    if (words->dense)
        return words->dense[code];
    if (vectors->info.canonical) {
        uint64_t other = kmf_revcomp_of(code, k);
        code = other < code ? other : code;
    }
    return kmf_words_find(words, code);
}

#endif
