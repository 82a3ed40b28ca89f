/* SPDX-License-Identifier: MIT */
/* Part of kmerformer.h: records that have a label: what they are, as somebody found out. */
#ifndef KMERFORMER_LABELLED_H
#define KMERFORMER_LABELLED_H

#include "reader.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * What kmf_reader_open reads. The label of a record is, in a table, what its column `label` has. Of
 * any other input it is in a file of lines name<TAB>label, or in the record's header:
 *
 *     >x gene=HLA-A ...                      key "gene"              HLA-A
 *     >x;tax=d:Bacteria,g:Bacillus;          key "tax", rank "g"     Bacillus
 */
typedef struct kmf_labelled kmf_labelled;

typedef struct kmf_labelled_options {
    /*
     * File of name<TAB>label; NULL: none. '#' begins a comment, a first line name<TAB>label is a
     * header, further columns are skipped. Names that no record has do no harm; one may stand
     * there again with the same label. Plain or compressed; "-": standard input.
     */
    const char *labels;
    const char *key;  /* what stands in the header before '=', at its beginning or after a
                              blank, ';' or '|'; the label ends before the next blank or ';',
                              and after a '|' before the next one. NULL: none */
    const char *rank; /* with key: of the value's parts between commas, the one that begins
                              with this and ':'; the label follows. NULL: all of it */
    kmf_reader_options reader; /* regions have no header to look for a key in */
    int skip_unlabelled; /* 1: a record without a label, or with an empty one, is passed over
                            and counted, where it is an error otherwise */
} kmf_labelled_options;

/* Nothing set. */
KMF_API void kmf_labelled_options_default(kmf_labelled_options *opts);

/* Borrowed from the input, valid until its next call; NUL-terminated. */
typedef struct kmf_labelled_record {
    const char *name;
    const char *label; /* never empty */
    const char *seq;   /* as in kmf_record */
    size_t len;
    uint64_t index;
} kmf_labelled_record;

/*
 * opts: copied but for its texts, which must outlive the input; NULL: the default. pool (may be
 * NULL) must outlive it too. KMF_EINVAL: both labels and key, an empty key, rank without key, a
 * sequence file and neither, or a table and one of them, since its labels are its own; KMF_EIO,
 * KMF_EFORMAT as kmf_reader_open, and a table without a column `label`.
 */
KMF_API kmf_labelled *kmf_labelled_open(const char *path, const kmf_labelled_options *opts,
                                        kmf_pool *pool, kmf_err *err) KMF_MUST_CHECK;
/*
 * 1: *rec holds the next record; 0: the end was reached and the input is sound; negative: a
 * kmf_code, and the message names file and line, or file and record. KMF_EFORMAT: also a record
 * without a label, unless these are passed over.
 */
KMF_API int kmf_labelled_next(kmf_labelled *input, kmf_labelled_record *rec,
                              kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_labelled_statistics(const kmf_labelled *input, kmf_reader_stats *stats);
/* Records that were passed over so far: of the statistics, and without a label. */
KMF_API uint64_t kmf_labelled_skipped(const kmf_labelled *input);
KMF_API void kmf_labelled_close(kmf_labelled *input);

#ifdef __cplusplus
}
#endif

#endif
