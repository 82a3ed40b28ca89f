/* SPDX-License-Identifier: MIT */
/*
 * The k-mers of a text of sequences, which is what counting works on:
 *
 *   text   letters of sequences, '\n' after the last letter of each; it may begin and end inside a
 *          sequence. Every other byte that is no letter of the alphabet is an ambiguous letter
 *
 * Windows start at letters 0, stride, 2 stride, ... of a sequence. The first sequence of the text
 * may go on from an earlier text: `phase` is then the number, modulo stride, of its first letter in
 * the text. Windows that reach beyond the end of the text belong to the next one, which therefore
 * has to begin with the last k - 1 letters of this one.
 */
#ifndef KMF_TEXTKMERS_H
#define KMF_TEXTKMERS_H

#include "kmerformer.h"
#include "words/alphabet.h"

/* What is counted. */
typedef struct kmf_kmer_kind {
    const kmf_alphabet_row *alphabet;
    int k;
    size_t stride;
    bool canonical;
} kmf_kmer_kind;

/* How many codes there are, for tables that have a place for each. */
static inline size_t kmf_kmer_codes(const kmf_kmer_kind *kind)
{
    return (size_t)1 << kind->alphabet->bits * kind->k;
}

typedef struct kmf_tally {
    uint64_t kmers;     /* windows of letters alone */
    uint64_t ambiguous; /* the other windows        */
} kmf_tally;

/* A walk over a text. Set up by kmf_textkmers_start; the text is borrowed. */
typedef struct kmf_textkmers {
    const kmf_kmer_kind *kind; /* borrowed */
    const unsigned char *p;    /* the next letter */
    const unsigned char *end;
    uint64_t forward, reverse; /* the window's code and that of its reverse complement */
    uint64_t mask;
    size_t clean;   /* letters since the last ambiguous one, in this sequence     */
    size_t seen;    /* letters of the sequence that lie in the text               */
    size_t to_skip; /* windows yet to pass over before the next one that counts   */
    kmf_tally tally;
} kmf_textkmers;

void kmf_textkmers_start(kmf_textkmers *walk, const kmf_kmer_kind *kind, const char *text,
                         size_t len, size_t phase);
/* The next n codes at most; fewer only at the end of the text. */
size_t kmf_textkmers_next(kmf_textkmers *walk, uint64_t *codes, size_t n);

#endif
