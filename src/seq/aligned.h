/* SPDX-License-Identifier: MIT */
/*
 * Reads out of SAM, BAM and CRAM, as the sequencer gave them: primary records only, those that
 * the aligner turned around turned back.
 */
#ifndef KMF_ALIGNED_H
#define KMF_ALIGNED_H

#include "kmerformer.h"

struct hFILE;
typedef struct kmf_aligned kmf_aligned;

/*
 * Takes over `file`, on failure too; name, which messages begin with, is copied. reference: the
 * FASTA of a CRAM, or NULL. pool may be NULL.
 */
kmf_aligned *kmf_aligned_open(struct hFILE *file, const char *name, const char *reference,
                              kmf_pool *pool, kmf_err *err) KMF_MUST_CHECK;
void kmf_aligned_close(kmf_aligned *aligned);

/*
 * As kmf_reader_next; rec->index is not set. Adds the records passed over to stats, and whether an
 * index was made. Not to be called again after a failure.
 */
int kmf_aligned_next(kmf_aligned *aligned, kmf_record *rec, kmf_reader_stats *stats,
                     kmf_err *err) KMF_MUST_CHECK;

#endif
