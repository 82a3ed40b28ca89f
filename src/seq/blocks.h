/* SPDX-License-Identifier: MIT */
/*
 * BGZF (SAM specification, 4.1): gzip whose members, the blocks, tell how many bytes they take in
 * the file, and inflated, so that several threads can inflate blocks of one file at the same time.
 *
 * Only what is regular is read: a block that another one follows, or an empty one that the file
 * ends with. Of all else, sound or not, seq/gunzip.h knows what to say.
 */
#ifndef KMF_BLOCKS_H
#define KMF_BLOCKS_H

#include "seq/inflate.h"

#include "kmerformer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KMF_BLOCK_MOST ((size_t)64 << 10) /* bytes of a block, in the file and inflated */
#define KMF_BLOCK_HEADER ((size_t)18)

#define KMF_BLOCKS_MOST 64 /* that are read at a time */

/* Blocks that stand behind each other. */
typedef struct kmf_blocks {
    uint8_t *in;                  /* owned [cap] */
    size_t cap;                   /* 2 KMF_BLOCK_MOST or more */
    uint64_t at;                  /* where the first one begins in the file */
    size_t n;                     /* blocks */
    size_t ins[KMF_BLOCKS_MOST];  /* bytes of `in` up to the end of each */
    size_t outs[KMF_BLOCKS_MOST]; /* bytes inflated up to the end of each */
    bool ends;                    /* the file ends with them */
} kmf_blocks;

/* Bytes of the block that begins so, 28 or more; 0: it is none. header: [KMF_BLOCK_HEADER] */
size_t kmf_block_bytes(const uint8_t *header);
/* Does the file, open of a regular one, begin with a block? */
bool kmf_blocks_knows(int file);

/* For blocks of so many bytes inflated. All zeros can be freed. */
int kmf_blocks_init(kmf_blocks *blocks, size_t most, kmf_err *err) KMF_MUST_CHECK;
void kmf_blocks_free(kmf_blocks *blocks);
/* Bytes of memory beside the struct. */
size_t kmf_blocks_bytes(size_t most);

/*
 * Reads those from `at` on that inflate to no more than `most` bytes, KMF_BLOCK_MOST or more, and
 * that there is room for. false: none is regular there, or it cannot be read; `at` is kept, too.
 */
bool kmf_blocks_read(kmf_blocks *blocks, int file, uint64_t at, size_t most);

/*
 * Inflates the first n, 1 or more. false: something else came of one than what it tells.
 *   to: room for blocks->outs[n - 1] + 1 bytes
 */
bool kmf_blocks_inflate(const kmf_blocks *blocks, size_t n, kmf_inflater *inflater,
                        uint8_t *to);

/*
 * The first n_bytes of what block `first` and those behind it inflate to, which is no less; whether
 * the rest is sound is not looked at. false: they do not inflate to so many, going by zlib.
 *   to: [n_bytes]
 */
bool kmf_blocks_peek(const kmf_blocks *blocks, size_t first, kmf_inflater *inflater,
                     uint8_t *to, size_t n_bytes);

#endif
