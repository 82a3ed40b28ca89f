/* SPDX-License-Identifier: MIT */
/*
 * Markov models of a corpus of DNA, of the orders 0 .. max_order: what a base costs that is
 * foretold from the bases before it. Both strands are counted.
 *
 *   P(x | c) = (n(c x) + 1/2) / (n(c) + 2)     n(c x): occurrences of context c before x,
 *                                              n(c) = n(c A) + n(c C) + n(c G) + n(c T)
 *
 * (R. Krichevsky and V. Trofimov, "The performance of universal encoding", IEEE Transactions on
 * Information Theory 27, 1981.)
 */
#ifndef KMF_MARKOV_H
#define KMF_MARKOV_H

#include "kmerformer.h"
#include "words/corpus.h"

#define KMF_MARKOV_MAX 12 /* order */

typedef struct kmf_markov kmf_markov;

/*
 * Counts are exact up to 2^32 - 1 and then stay there; those of shorter words, which are sums of
 * theirs, are exact where none has got there. Words lie within segments. fn (NULL: none) is told
 * now and then how many letters are counted. max_order: 0 .. KMF_MARKOV_MAX. The corpus is no
 * longer needed afterwards.
 */
kmf_markov *kmf_markov_new(const kmf_corpus *corpus, int max_order, kmf_progress_fn *fn,
                           void *user, kmf_err *err) KMF_MUST_CHECK;
void kmf_markov_free(kmf_markov *markov);
/*
 * Bytes of memory that a model of a corpus of so many letters takes: 16 a letter where that is
 * little, else 359 MB for order 12, 6 MB for order 9.
 */
uint64_t kmf_markov_bytes(int max_order, uint64_t letters);
/* Occurrences on both strands of a word of 1 .. max_order + 1 bases. */
uint64_t kmf_markov_count(const kmf_markov *markov, uint64_t code, int len);
/*
 * -log2 P(letters[at] | the min(order, at) letters before it). order: 0 .. max_order. Threads
 * may share a model.
 */
double kmf_markov_bits(const kmf_markov *markov, int order, const uint8_t *letters, size_t at);

#endif
