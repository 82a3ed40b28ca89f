/* SPDX-License-Identifier: MIT */
/*
 * Parts of an indexed FASTA file.
 *
 *   regions   "chr1,chr2:100-200,chr3:5-": 1-based, both ends belong to it. A name that ends
 *             like a range, or holds a comma, is put in braces: "{a,b:1-2}:5-9". Without
 *             them, what is a name and a range of another one is refused
 *   BED       contig, begin (0-based), end (not in it), name if asked for; column 6
 *             is the strand, '-' asks for the reverse complement. Lines that are empty or begin
 *             with '#', or with "track" or "browser" and no number behind it, are passed
 *             over
 *
 * A record's name is "contig:beg-end" as in regions, "(-)" added for the reverse complement, or
 * that of the BED line.
 */
#ifndef KMF_REGIONS_H
#define KMF_REGIONS_H

#include "kmerformer.h"

typedef struct kmf_regions kmf_regions;

/*
 * opts->regions first, then those of opts->bed, each in its order; either may be NULL. path.fai
 * is made if it is missing. All regions are checked here: KMF_EINVAL for a malformed or
 * unknown one in `regions`, KMF_EFORMAT with file and line in a BED file. Stats are told whether
 * an index was made.
 */
kmf_regions *kmf_regions_open(const char *path, const kmf_reader_options *opts,
                              kmf_reader_stats *stats, kmf_err *err) KMF_MUST_CHECK;
void kmf_regions_close(kmf_regions *regions);

/* As kmf_reader_next; rec->index is not set. Not to be called again after a failure. */
int kmf_regions_next(kmf_regions *regions, kmf_record *rec, kmf_err *err) KMF_MUST_CHECK;

#endif
