/* SPDX-License-Identifier: MIT */
/* What nearest_run.c needs of a search of rows. */
#ifndef KMF_EMBED_ROWNEAREST_H
#define KMF_EMBED_ROWNEAREST_H

#include "kmerformer.h"

/* How far a search has come. */
typedef struct kmf_search_mark {
    kmf_row_search_stats stats; /* 0 queries: nothing is answered */
    uint32_t sum;               /* checksum of the queries that are */
} kmf_search_mark;

kmf_search_mark kmf_row_search_done(const kmf_row_search *s);
/* Before the first query: an earlier search has come so far. */
void kmf_row_search_given(kmf_row_search *s, const kmf_search_mark *mark);
/* Neighbours that were asked for, or as many as there can be. */
size_t kmf_row_search_most(const kmf_row_search *s);
/* Of the references' vectors, and of their names, if they have any. */
uint32_t kmf_row_search_checksum(const kmf_row_search *s);

#endif
