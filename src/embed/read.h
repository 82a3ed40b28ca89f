/* SPDX-License-Identifier: MIT */
/* What reading files takes beside the batches. */
#ifndef KMF_READ_H
#define KMF_READ_H

#include "kmerformer.h"

/* Of an embedder; NULL is accepted. No job is at work. */
typedef struct kmf_reading kmf_reading;
void kmf_reading_free(kmf_reading *reading);

/* kmf_embedder_add of a record that a reader has made, whose name fits a line. */
int kmf_embedder_take(kmf_embedder *e, const char *name, const char *seq, size_t len,
                      kmf_err *err) KMF_MUST_CHECK;

/* Records that one range may open, and one that goes on, at most; 0: it reads no ranges. */
size_t kmf_read_records(const kmf_embedder *e);
/* Bytes that kmf_embedder_read may take beside readers and what inflates, at most. */
size_t kmf_read_bytes(const kmf_embedder *e);

#endif
