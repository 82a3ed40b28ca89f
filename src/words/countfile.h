/* SPDX-License-Identifier: MIT */
/*
 * The files of a table of counts, for kmf_counts_load and kmf_counts_save: what the formats
 * have in common, and one reader and one writer each.
 *
 * The numbers of kmf_counts_info stand in both formats in this order, as uint64_t:
 */
#ifndef KMF_COUNTFILE_H
#define KMF_COUNTFILE_H

#include "kmerformer.h"
#include "words/counts.h"

enum {
    KMF_INFO_ALPHABET,
    KMF_INFO_K,
    KMF_INFO_CANONICAL,
    KMF_INFO_STRIDE,
    KMF_INFO_INPUTS,
    KMF_INFO_RECORDS,
    KMF_INFO_LETTERS,
    KMF_INFO_KMERS,
    KMF_INFO_AMBIGUOUS,
    KMF_INFO_DISTINCT,
    KMF_INFO_MIN_COUNT,
    KMF_INFO_MAX_SIZE,
    KMF_N_INFO
};
extern const char *const kmf_counts_info_names[KMF_N_INFO];

void kmf_counts_info_get(uint64_t values[KMF_N_INFO], const kmf_counts_info *info);
/* From a file that nobody vouches for. KMF_EMODEL names it and what does not fit. */
int kmf_counts_info_set(kmf_counts_info *info, const uint64_t values[KMF_N_INFO],
                        const char *name, kmf_err *err) KMF_MUST_CHECK;
/* Does a table come to what a file said of it? */
int kmf_counts_info_check(const kmf_counts_info *info, const kmf_block_tally *tally,
                          const char *name, kmf_err *err) KMF_MUST_CHECK;

/* A table from memory, binary or plain TSV, told apart by content. bytes are borrowed. */
kmf_counts *kmf_counts_parse(const void *bytes, size_t len, const char *name,
                             kmf_err *err) KMF_MUST_CHECK;

/* ---------------------------------------------------------------- binary ----------------- */

/* Do bytes begin as a binary file does? */
bool kmf_countfile_begins(const void *bytes, size_t len);
/* The table's blocks lie in bytes; map and buffer are left to the caller. */
kmf_counts *kmf_countfile_read(const unsigned char *bytes, size_t len, const char *name,
                               kmf_err *err) KMF_MUST_CHECK;
int kmf_countfile_write(const kmf_counts *counts, kmf_out *out, kmf_err *err) KMF_MUST_CHECK;

/*
 * The same for a table that is not there yet: kmf_countfile_add takes its blocks as a kmf_block_fn
 * and writes them in their order. out, which is borrowed, must be one that kmf_out_patch takes.
 */
typedef struct kmf_countfile kmf_countfile;

kmf_countfile *kmf_countfile_new(kmf_out *out, const kmf_cut_code *cut,
                                 kmf_err *err) KMF_MUST_CHECK;
int kmf_countfile_add(void *file, size_t p, const kmf_block *block,
                      kmf_err *err) KMF_MUST_CHECK;
/* When all blocks are in; sets info->distinct. */
int kmf_countfile_finish(kmf_countfile *file, kmf_counts_info *info,
                         kmf_err *err) KMF_MUST_CHECK;
void kmf_countfile_free(kmf_countfile *file);

/* ---------------------------------------------------------------- files ------------------ */

/* KMF_EINVAL if a table cannot have this name. */
int kmf_table_check_path(const char *path, bool beside, kmf_err *err) KMF_MUST_CHECK;
/*
 * Finishes a table that is written and gives it its name, together with x.json if provenance is not
 * NULL; or removes it. Frees it in either case.
 */
int kmf_table_publish(kmf_out *table, const char *path, const char *provenance,
                      kmf_err *err) KMF_MUST_CHECK;

/* ---------------------------------------------------------------- text ------------------- */

/* A TSV file is taken in piece by piece, cut anywhere. name is borrowed. */
typedef struct kmf_counttext kmf_counttext;

kmf_counttext *kmf_counttext_new(const char *name, kmf_err *err) KMF_MUST_CHECK;
int kmf_counttext_add(kmf_counttext *text, const char *bytes, size_t len,
                      kmf_err *err) KMF_MUST_CHECK;
/* The table, the caller's, once all has been added. */
kmf_counts *kmf_counttext_finish(kmf_counttext *text, kmf_err *err) KMF_MUST_CHECK;
void kmf_counttext_free(kmf_counttext *text);

/* Format TSV, VOCAB or DNABERT. */
int kmf_counttext_write(const kmf_counts *counts, kmf_out *out, kmf_counts_format format,
                        int full, kmf_pool *pool, kmf_err *err) KMF_MUST_CHECK;

#endif
