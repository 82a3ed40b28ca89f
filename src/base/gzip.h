/* SPDX-License-Identifier: MIT */
/*
 * Output compressed as BGZF, the gzip of htslib and bgzip: members of 64 KB at most, each of them
 * compressed by itself, so by any number of threads to the same bytes. Whatever reads gzip reads
 * it. It has no time and no name in it.
 */
#ifndef KMF_GZIP_H
#define KMF_GZIP_H

#include "kmerformer.h"

#include <stdbool.h>
#include <stdio.h>

/* htslib prints to standard error, where each failure is to be one sentence of ours: no more. */
void kmf_silence_htslib(void);

struct hts_tpool;
typedef struct kmf_gzip kmf_gzip;

/* To a file, borrowed. */
kmf_gzip *kmf_gzip_new(FILE *file, kmf_err *err) KMF_MUST_CHECK;
/*
 * What follows is compressed by a pool, borrowed, and with caller_too by the caller, where it would
 * wait for the pool; without memory for that, by the caller alone still.
 */
void kmf_gzip_share(kmf_gzip *gzip, struct hts_tpool *pool, int threads, bool caller_too);
/*
 * For k-mers in their order, among which looking for the longest match takes ten times as long and
 * saves a tenth. Before anything is written.
 */
void kmf_gzip_quickly(kmf_gzip *gzip);
/* 0; -1: errno says why. After a failure it can only be freed. */
int kmf_gzip_write(kmf_gzip *gzip, const void *data, size_t n);
/* All that was written goes to the file, and the end marker. The same. */
int kmf_gzip_finish(kmf_gzip *gzip);
/* Drops what is not in the file. */
void kmf_gzip_free(kmf_gzip *gzip);

#endif
