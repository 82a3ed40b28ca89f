/* SPDX-License-Identifier: MIT */
/*
 * A gzip file in portions, which several threads inflate, each the portions that it is given, into
 * memory of its own. So what is made of the bytes is made where they are in the cache, and no
 * thread is ahead of the others.
 *
 * gzip can only be inflated by one thread at a time, but it need not always be the same:
 *
 *   thread a   | inflate 0 | what it does with 0 | inflate 2 | ..
 *   thread b               | inflate 1 | what it does with 1 | inflate 3 | ..
 *
 * BGZF is read in turns, in whole blocks (seq/blocks.h), and inflated by all at the same time:
 *
 *   thread a   | read 0 | inflate 0 | what it does with 0 | read 2 | ..
 *   thread b            | read 1 | inflate 1 | what it does with 1 | read 3 | ..
 */
#ifndef KMF_PORTIONS_H
#define KMF_PORTIONS_H

#include "kmerformer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kmf_portions kmf_portions;

/* So many bytes behind a portion are handed out with it, if they are there, or more. */
#define KMF_PORTION_BEHIND ((size_t)3072)

typedef struct kmf_portion {
    uint64_t at; /* its place among the inflated bytes */
    size_t own;  /* its own bytes */
    size_t n;    /* all bytes, with those behind */
    bool ends;   /* no byte follows the last one */
} kmf_portion;

/*
 * The file at path, if it is regular, gzip, and the same that `file` is open of; else NULL, as if
 * there is no memory. own: bytes of a portion, 1 or more; with less than KMF_BLOCK_MOST BGZF is
 * taken for gzip; most: of them that are `mark`, 1 or more.
 */
kmf_portions *kmf_portions_open(const char *path, int file, size_t own, char mark, size_t most);
void kmf_portions_close(kmf_portions *portions);
/* Bytes of memory that it takes at most, beside what inflates, for portions of so many bytes. */
size_t kmf_portions_bytes(size_t own, size_t threads);

/* Before any portion is taken: the first bytes, 64 KB and the own ones of a portion at most. */
const char *kmf_portions_begin(const kmf_portions *portions, size_t *n);

/*
 * Portion i, when those before it have been taken. Of `own` bytes; fewer if that would be more than
 * `most` marks, before the first that is too many, and at the end. Of BGZF fewer, as many as whole
 * blocks have, and going by those that were inflated last it has `most` marks or less. false: there
 * is no such portion, as the file ended before it; or what was inflated for it, bytes behind it
 * included, could not be read or is damaged. Of gzip that is the end, while portions of BGZF may
 * follow one that is damaged.
 *   bytes: room for `own` and KMF_PORTION_BEHIND.   From any thread
 */
bool kmf_portions_take(kmf_portions *portions, uint64_t i, char *bytes, kmf_portion *portion);

#endif
