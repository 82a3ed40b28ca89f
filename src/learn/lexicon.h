/* SPDX-License-Identifier: MIT */
/*
 * The words that vectors are learnt for: all k-mers of one length or of several, numbered by length
 * and then in code order; with canonical words those alone that are the smaller strand.
 */
#ifndef KMF_LEXICON_H
#define KMF_LEXICON_H

#include "kmerformer.h"
#include "words/alphabet.h"

#include <stdbool.h>

#define KMF_LEXICON_NONE UINT32_MAX

typedef struct kmf_lexicon {
    const kmf_alphabet_row *alphabet;
    kmf_alphabet name;
    int k_min, k_max;
    bool canonical;
    uint32_t n;                       /* words */
    uint32_t first[KMF_K_MAX + 2];    /* of the words of length k; [k_max + 1]: n */
    uint32_t *of_code[KMF_K_MAX + 1]; /* owned [2^(bits k)]: the word; NULL: first[k] + code */
} kmf_lexicon;

/* The longest k-mer of a lexicon: DNA 12, protein 5. */
int kmf_lexicon_k_max(kmf_alphabet alphabet);

/* 1 <= k_min <= k_max <= kmf_lexicon_k_max. */
int kmf_lexicon_make(kmf_lexicon *lexicon, kmf_alphabet alphabet, int k_min, int k_max,
                     bool canonical, kmf_err *err) KMF_MUST_CHECK;
/* Bytes of memory held by its tables. */
uint64_t kmf_lexicon_bytes(const kmf_lexicon *lexicon);
/* Accepts a zeroed one. */
void kmf_lexicon_clear(kmf_lexicon *lexicon);

/* Of a code made of k letters of the alphabet; canonical: of either strand's. */
static inline uint32_t kmf_lexicon_word(const kmf_lexicon *lexicon, uint64_t code, int k)
{
    const uint32_t *table = lexicon->of_code[k];
    return table ? table[code] : lexicon->first[k] + (uint32_t)code;
}

#endif
