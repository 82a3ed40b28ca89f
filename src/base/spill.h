/* SPDX-License-Identifier: MIT */
/*
 * A file without a name, for what does not fit in memory. It is gone when the process is, however
 * that ends: nothing has to be cleaned up.
 */
#ifndef KMF_SPILL_H
#define KMF_SPILL_H

#include "base/io.h"
#include "kmerformer.h"

typedef struct kmf_spill kmf_spill;

/* In folder dir; NULL: $TMPDIR, or /tmp if that is not set. */
kmf_spill *kmf_spill_new(const char *dir, kmf_err *err) KMF_MUST_CHECK;
void kmf_spill_free(kmf_spill *spill);

/* Any threads at once. *offset: where the bytes begin, a multiple of 8. */
int kmf_spill_append(kmf_spill *spill, const void *bytes, size_t n, uint64_t *offset,
                     kmf_err *err) KMF_MUST_CHECK;
/* Any threads at once. */
int kmf_spill_read(const kmf_spill *spill, uint64_t offset, void *bytes, size_t n,
                   kmf_err *err) KMF_MUST_CHECK;
/* Maps all of it, read-only; the map outlives the spill. */
int kmf_spill_map(const kmf_spill *spill, kmf_map *map, kmf_err *err) KMF_MUST_CHECK;
/* Bytes appended so far. */
uint64_t kmf_spill_size(const kmf_spill *spill);

#endif
