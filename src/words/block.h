/* SPDX-License-Identifier: MIT */
/*
 * A stretch of a table of counts, packed: the k-mers that share the first bits of their code.
 *
 *   code     prefix (prefix_bits) | suffix (suffix_bits)       a table has 2^prefix_bits blocks
 *   block    suffixes, ascending: n times suffix_width bytes | counts: n times count_width bytes
 *            | 8 zero bytes
 *
 * Numbers are little-endian. suffix_width 0: no suffixes are stored, count i is that of suffix
 * i, 0 where there is none; n is then 2^suffix_bits. Else counts are 1 or more. The same bytes
 * in memory, in a file, and in what is spilled to disk.
 */
#ifndef KMF_BLOCK_H
#define KMF_BLOCK_H

#include "base/le.h"
#include "kmerformer.h"

#include <stdbool.h>

typedef struct kmf_block {
    const unsigned char *bytes; /* NULL if n is 0 */
    size_t n_bytes;             /* the zero bytes included; 0 if n is 0, as are the widths */
    uint64_t n;
    unsigned suffix_width; /* 0 .. 8 */
    unsigned count_width;  /* 1 2 4 8 */
} kmf_block;

#define KMF_N_BLOCKS_MAX 1024 /* 2^10 prefixes */

/* How the codes of an alphabet's k-mers are cut. */
typedef struct kmf_cut_code {
    unsigned prefix_bits; /* 0 .. 10 */
    unsigned suffix_bits; /* 2 .. 54 */
} kmf_cut_code;

kmf_cut_code kmf_cut_code_of(kmf_alphabet alphabet, int k);

/*
 * Packs n suffixes, strictly ascending, with counts of 1 or more, in the shorter of the two
 * ways. block->bytes is then the caller's, freed by kmf_free. n may be 0.
 */
int kmf_block_pack(kmf_block *block, const uint64_t *suffixes, const uint64_t *counts, size_t n,
                   unsigned suffix_bits, kmf_err *err) KMF_MUST_CHECK;
/* The same from counts [2^suffix_bits] of all suffixes, suffix_bits at most 24. */
int kmf_block_pack_all(kmf_block *block, const uint64_t *counts, unsigned suffix_bits,
                       kmf_err *err) KMF_MUST_CHECK;

/* The bytes that a block of n entries has. False if that does not fit a size_t. */
bool kmf_block_size(uint64_t n, unsigned suffix_width, unsigned count_width, size_t *n_bytes);

/* Frees the bytes of a block that owns them; its numbers stay. */
void kmf_block_free(kmf_block *block);

/* How many suffixes have a count of 1 or more. */
uint64_t kmf_block_distinct(const kmf_block *block);

/* The count of a suffix, 0 if it is not there. */
uint64_t kmf_block_get(const kmf_block *block, uint64_t suffix);

/*
 * A place in a block; begin with i = 0. True: the next entry with a count of 1 or more, in
 * ascending order of suffix, and *i is moved on.
 */
static inline bool kmf_block_next(const kmf_block *block, uint64_t *i, uint64_t *suffix,
                                  uint64_t *count);

/* What the counts of a block come to. */
typedef struct kmf_block_tally {
    uint64_t distinct; /* counts of 1 or more */
    uint64_t sum;
    uint64_t smallest; /* of those; UINT64_MAX: there is none */
} kmf_block_tally;

/*
 * For a block whose bytes nobody vouches for; n_bytes of them can be read. NULL if all that is
 * promised above holds, else what does not.
 */
const char *kmf_block_check(const kmf_block *block, unsigned suffix_bits,
                            kmf_block_tally *tally);

/*
 * The sum of n blocks that have the same prefix, packed; n at least 1. As kmf_block_pack.
 * KMF_EMODEL if a sum exceeds 64 bits.
 */
int kmf_block_merge(kmf_block *sum, const kmf_block *blocks, size_t n, unsigned suffix_bits,
                    kmf_err *err) KMF_MUST_CHECK;

/* ---------------------------------------------------------------- in line ---------------- */

/* Number i of an array whose numbers have width bytes, 1 .. 8; 8 bytes are read. */
static inline uint64_t kmf_block_number(const unsigned char *numbers, uint64_t i,
                                        unsigned width)
{
    return kmf_le_load64(numbers + i * width) & (~(uint64_t)0 >> (64 - 8 * width));
}

/* kmf_block_next of a block without suffixes. */
bool kmf_block_next_dense(const kmf_block *block, uint64_t *i, uint64_t *suffix,
                          uint64_t *count);

static inline bool kmf_block_next(const kmf_block *block, uint64_t *i, uint64_t *suffix,
                                  uint64_t *count)
{
    unsigned width = block->suffix_width;
    uint64_t at = *i;
    if (width == 0)
        return kmf_block_next_dense(block, i, suffix, count);
    if (at >= block->n)
        return false;
    *suffix = kmf_block_number(block->bytes, at, width);
    *count = kmf_block_number(block->bytes + block->n * width, at, block->count_width);
    *i = at + 1;
    return true;
}

#endif
