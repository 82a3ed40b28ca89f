/* SPDX-License-Identifier: MIT */
/*
 * Byte-pair encoding: letters grow into tokens by the merges of a list.
 *
 * The definition: of all neighbouring pairs that the list has, the one that stands first in it is
 * merged, the leftmost if there are several; and again, until no pair is left. The place in the
 * list is a merge's rank.
 */
#ifndef KMF_BPE_H
#define KMF_BPE_H

#include "kmerformer.h"

#include <stdbool.h>

#define KMF_BPE_NONE UINT32_MAX /* no rank */

typedef struct kmf_pair {
    int32_t left;
    int32_t right;
    int32_t result; /* the token whose letters are those of left and right */
} kmf_pair;

typedef struct kmf_ranked_pair {
    kmf_pair pair;
    uint32_t left_n; /* letters of pair.left */
    uint32_t n;      /* letters of pair.result */
} kmf_ranked_pair;

typedef struct kmf_pair_slot {
    uint32_t tag;  /* of the pair */
    uint32_t rank; /* KMF_BPE_NONE: the slot is free */
} kmf_pair_slot;

/* The list, read-only once it is filled. */
typedef struct kmf_pairs {
    size_t n;
    kmf_ranked_pair *by_rank; /* owned [n] */
    kmf_pair_slot *slots;     /* owned [mask + 1]; a hash table that is at most half full */
    size_t mask;
    uint32_t *near;    /* owned [KMF_BPE_NEAR * KMF_BPE_NEAR]: ranks of pairs of small ids */
    uint32_t *letters; /* owned [n_tokens]: the number of letters in a token */
} kmf_pairs;

/* Ids below it, single letters and the first merges, are most of what is looked up. */
#define KMF_BPE_NEAR 64

/* Room for n pairs of n_tokens tokens, n below 2^31. letters[] is the caller's to fill, first. */
kmf_pairs *kmf_pairs_new(size_t n, size_t n_tokens, kmf_err *err) KMF_MUST_CHECK;
void kmf_pairs_free(kmf_pairs *pairs);
/* Adds the pair of the next rank; false, nothing done, if it is there already. */
bool kmf_pairs_add(kmf_pairs *pairs, const kmf_pair *pair) KMF_MUST_CHECK;

/* What encoding works in; one for each thread. */
typedef struct kmf_bpe kmf_bpe;

/* Letters that are encoded at once. */
#define KMF_BPE_BLOCK ((size_t)1 << 15)

/* pairs is borrowed. block: KMF_BPE_BLOCK; it changes no token, and tests take others. */
kmf_bpe *kmf_bpe_new(const kmf_pairs *pairs, size_t block, kmf_err *err) KMF_MUST_CHECK;
void kmf_bpe_free(kmf_bpe *bpe);

/*
 * The *n_tokens tokens of text [n], in which every letter c is the token letter[c] to begin with;
 * borrowed until the next call. NULL after KMF_ENOMEM.
 */
const int32_t *kmf_bpe_encode(kmf_bpe *bpe, const unsigned char *text, size_t n,
                              const int32_t letter[256], size_t *n_tokens,
                              kmf_err *err) KMF_MUST_CHECK;

#endif
