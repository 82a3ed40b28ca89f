/* SPDX-License-Identifier: MIT */
/* What reading files takes beside the batches. */
#ifndef KMF_READ_H
#define KMF_READ_H

#include "kmerformer.h"

/* Of an embedder; NULL is accepted. No job is at work. */
typedef struct kmf_reading kmf_reading;
void kmf_reading_free(kmf_reading *reading);

/* Bytes that kmf_embedder_read may take, at most. */
size_t kmf_read_bytes(const kmf_embedder *e);

#endif
