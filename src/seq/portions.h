/* SPDX-License-Identifier: MIT */
/*
 * A gzip file in portions, which one thread reads in their order, while others make something of
 * those before. gzip can only be inflated by one thread at a time, so whoever reads inflates:
 *
 *   reader     | inflate 0 | inflate 1 | inflate 2 | ..
 *   thread a               | what it does with 0   | ..
 *   thread b                           | what it does with 1 | ..
 *
 * BGZF is read in whole blocks (seq/blocks.h), and inflated by whoever has the portion:
 *
 *   reader     | read 0 | read 1 | read 2 | ..
 *   thread a            | inflate 0 | what it does with 0 | ..
 *   thread b                     | inflate 1 | what it does with 1 | ..
 */
#ifndef KMF_PORTIONS_H
#define KMF_PORTIONS_H

#include "seq/blocks.h"

#include "kmerformer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kmf_portions kmf_portions;

/* So many bytes behind a portion are handed out with it, if they are there, or more. */
#define KMF_PORTION_BEHIND ((size_t)3072)

/* A portion and its room, which serves one file after the other. All zeros is one to begin with. */
typedef struct kmf_portion {
    uint64_t at; /* its place among the inflated bytes */
    size_t own;  /* its own bytes */
    size_t n;    /* all bytes, with those behind */
    bool ends;   /* no byte follows the last one */

    char *bytes; /* owned [cap]; of gzip: [n] */
    size_t cap;
    kmf_blocks blocks;      /* owned; of BGZF, */
    size_t n_blocks;        /* of them its own */
    kmf_inflater *inflater; /* owned */
} kmf_portion;

/*
 * The file at path, if it is regular, gzip, and the same that `file` is open of; else NULL, as if
 * there is no memory. own: bytes of a portion, 1 or more; with less than KMF_BLOCK_MOST BGZF is
 * taken for gzip; most: of them that are `mark`, 1 or more.
 */
kmf_portions *kmf_portions_open(const char *path, int file, size_t own, char mark, size_t most);
void kmf_portions_close(kmf_portions *portions);
/* Bytes of memory that it takes at most, and a portion's room, beside what inflates. */
size_t kmf_portions_bytes(size_t own);
size_t kmf_portion_bytes(size_t own);

/* Before any portion is read: the first bytes, 64 KB and the own ones of a portion at most. */
const char *kmf_portions_begin(const kmf_portions *portions, size_t *n);

/*
 * The next portion. Of `own` bytes; fewer if that would be more than `most` marks, before the first
 * that is too many, and at the end. Of BGZF fewer, as many as whole blocks have, and going by those
 * that were inflated last it has `most` marks or less. false: the file has ended, or what comes
 * next, bytes behind the portion included, could not be read or is damaged, or there is no memory;
 * no other follows.   One thread at a time
 */
bool kmf_portions_next(kmf_portions *portions, kmf_portion *portion);
/*
 * Its bytes: of gzip its own, until it is the next one; of BGZF those in `room`, which has room for
 * `own` of kmf_portions_open and KMF_PORTION_BEHIND. NULL: they are damaged.   From any thread,
 * several at a time, each with a portion and a room of its own
 */
const char *kmf_portions_inflate(kmf_portions *portions, kmf_portion *portion, char *room);
/* Frees its room; it is all zeros then. */
void kmf_portion_free(kmf_portion *portion);

#endif
