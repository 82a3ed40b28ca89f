/* SPDX-License-Identifier: MIT */
/* Counting in tables that have a place for every code: up to 2^24 codes (DNA: k = 12). */
#ifndef KMF_DENSE_H
#define KMF_DENSE_H

#include "kmerformer.h"
#include "words/counts.h"
#include "words/textkmers.h"

#define KMF_DENSE_BITS_MAX 24

typedef struct kmf_dense kmf_dense;

/* Bytes that kmf_dense_new takes. */
size_t kmf_dense_bytes(const kmf_kmer_kind *kind, int workers);
/* kind is borrowed; its alphabet's bits times k are at most KMF_DENSE_BITS_MAX. */
kmf_dense *kmf_dense_new(const kmf_kmer_kind *kind, int workers, kmf_err *err) KMF_MUST_CHECK;
void kmf_dense_free(kmf_dense *dense);

/* Counts the k-mers of a text (textkmers.h). Workers 0 .. workers - 1 may work at once. */
void kmf_dense_count(kmf_dense *dense, int worker, const char *text, size_t len, size_t phase,
                     kmf_tally *tally);

/* Fills counts, a new table, when no worker is at work. dense is spent. */
int kmf_dense_finish(kmf_dense *dense, kmf_pool *pool, kmf_counts *counts,
                     kmf_err *err) KMF_MUST_CHECK;

#endif
