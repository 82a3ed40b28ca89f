/* SPDX-License-Identifier: MIT */
/*
 * How often words occur in a small corpus of DNA, on both strands: what follows each letter, cut
 * to the longest word, sorted. Memory is that of the letters, whatever the words' length.
 */
#ifndef KMF_SUFFIXES_H
#define KMF_SUFFIXES_H

#include "kmerformer.h"
#include "words/corpus.h"

#define KMF_SUFFIXES_LONGEST 13 /* bases of a word */

typedef struct kmf_suffixes kmf_suffixes;

/*
 * longest: bases, 1 .. KMF_SUFFIXES_LONGEST. The corpus, of fewer than 2^31 letters, is no longer
 * needed afterwards.
 */
kmf_suffixes *kmf_suffixes_new(const kmf_corpus *corpus, int longest,
                               kmf_err *err) KMF_MUST_CHECK;
void kmf_suffixes_free(kmf_suffixes *suffixes);
/* Bytes of memory that kmf_suffixes_new takes at the most. */
uint64_t kmf_suffixes_bytes(uint64_t letters);
/*
 * Occurrences within segments of the words code .. code + n - 1, of len bases each, 1 .. longest,
 * which differ in their last base alone. Threads may share suffixes.
 */
uint64_t kmf_suffixes_count(const kmf_suffixes *suffixes, uint64_t code, unsigned n, int len);

#endif
