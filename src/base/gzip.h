/* SPDX-License-Identifier: MIT */
/*
 * Output compressed as BGZF, the gzip of htslib and bgzip: members of 64 KB at most, each of them
 * compressed by itself, so by any number of threads to the same bytes. Whatever reads gzip reads
 * it. It has no time and no name in it.
 */
#ifndef KMF_GZIP_H
#define KMF_GZIP_H

#include <stddef.h>

/* htslib prints to standard error, where each failure is to be one sentence of ours: no more. */
void kmf_silence_htslib(void);

struct hts_tpool;
typedef struct BGZF kmf_gzip;

/* Of a descriptor, which it takes over, on failure too. NULL: errno says why. */
kmf_gzip *kmf_gzip_new(int fd);
/* What follows is compressed by a pool, borrowed; without memory for that, by the caller still. */
void kmf_gzip_share(kmf_gzip *gzip, struct hts_tpool *pool, int threads);
/* 0; -1: errno says why, of this or an earlier call. */
int kmf_gzip_write(kmf_gzip *gzip, const void *data, size_t n);
/* All is written, and the descriptor closed. The same; freed either way. */
int kmf_gzip_close(kmf_gzip *gzip);

#endif
