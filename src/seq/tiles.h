/* SPDX-License-Identifier: MIT */
/*
 * A record cut into tiles, each a record of its own:
 *
 *     |------------------- len -------------------|      tile 5, step 3
 *     [1-5]
 *         [4-8]
 *             ...                        [last-len]      the last one ends with the record
 *
 * Tile i begins i steps behind the first base. There are as many as reach the end: no base is in
 * none. A tile is called "name:beg-end", 1-based, both ends belong to it; a record of no bases is
 * left as it is.
 */
#ifndef KMF_TILES_H
#define KMF_TILES_H

#include "kmerformer.h"
#include "seq/text.h"

#include <stdbool.h>

typedef struct kmf_tiles {
    size_t tile, step; /* bases; 1 <= step <= tile */
    kmf_record whole;  /* borrowed from whoever cuts it */
    size_t beg;        /* of the next tile */
    bool more;         /* there is one */
    uint64_t cut;      /* bases of all records so far */
    kmf_text bases;    /* owned; of the last tile, NUL-terminated */
    kmf_text name;     /* owned; likewise */
} kmf_tiles;

/* KMF_EINVAL: a step without tiles, or one that is longer than they are. step 0: that of tile. */
int kmf_tiles_begin(kmf_tiles *t, size_t tile, size_t step, kmf_err *err) KMF_MUST_CHECK;
void kmf_tiles_end(kmf_tiles *t);

/* The record that is cut next. It must stay until its tiles are taken. */
void kmf_tiles_cut(kmf_tiles *t, const kmf_record *whole);

/* 1: *rec is the next tile, valid until the next call; 0: none is left; KMF_ENOMEM. */
int kmf_tiles_next(kmf_tiles *t, kmf_record *rec, kmf_err *err) KMF_MUST_CHECK;

/* The share of the bases of all records so far that is before the next tile: 0 .. 1. */
double kmf_tiles_share(const kmf_tiles *t);

#endif
