/* SPDX-License-Identifier: MIT */
/* Counting of codes that are too many for a table of all: by sorting them in parts. */
#ifndef KMF_PARTS_H
#define KMF_PARTS_H

#include "kmerformer.h"
#include "words/counts.h"
#include "words/textkmers.h"

typedef struct kmf_parts kmf_parts;

/*
 * kind and tmp are borrowed; cut is that of the table to be filled. text_max: the most letters
 * of a text given to kmf_parts_count. KMF_ENOMEM if `memory` bytes are not enough; the message
 * says how many are.
 */
kmf_parts *kmf_parts_new(const kmf_kmer_kind *kind, kmf_cut_code cut, int workers,
                         size_t text_max, uint64_t memory, const char *tmp,
                         kmf_err *err) KMF_MUST_CHECK;
void kmf_parts_free(kmf_parts *parts);

/* fn is told, by the caller's thread, what fraction of the table is made. */
void kmf_parts_progress(kmf_parts *parts, kmf_fraction_fn *fn, void *arg);

/* Is there room for the k-mers of n_texts more texts, in work or to come? */
bool kmf_parts_has_room(const kmf_parts *parts, size_t n_texts);

/*
 * Takes in the k-mers of a text (textkmers.h). Workers 0 .. workers - 1 may work at once. There
 * must be room.
 */
void kmf_parts_count(kmf_parts *parts, int worker, const char *text, size_t len, size_t phase,
                     kmf_tally *tally);

/* Makes room by counting what was taken in, when no worker is at work. */
int kmf_parts_settle(kmf_parts *parts, kmf_pool *pool, kmf_err *err) KMF_MUST_CHECK;

/* Fills counts, a new table, when no worker is at work. parts is spent. */
int kmf_parts_finish(kmf_parts *parts, kmf_pool *pool, kmf_counts *counts,
                     kmf_err *err) KMF_MUST_CHECK;
/* Hands all blocks of the table to fn instead. */
int kmf_parts_stream(kmf_parts *parts, kmf_pool *pool, kmf_block_fn *fn, void *arg,
                     kmf_err *err) KMF_MUST_CHECK;

#endif
