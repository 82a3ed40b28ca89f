/* SPDX-License-Identifier: MIT */
/* What resume.c, merge.c and rowfile.c need of an output. */
#ifndef KMF_EMBED_OUTPUT_H
#define KMF_EMBED_OUTPUT_H

#include "base/json.h"
#include "embed/rowstore.h"
#include "kmerformer.h"

#include <stdbool.h>

enum { KMF_OUTPUT_TABLE, KMF_OUTPUT_IDS, KMF_OUTPUT_JSON, KMF_OUTPUT_FILES };

/* A compressed table is compressed on this pool, too: kmf_out_share. The first one stays. */
void kmf_output_share(kmf_output *output, kmf_pool *pool, bool caller_too);

/* Takes vectors of the rows that come next, which are counted from 0 on from here. */
kmf_rowstore kmf_output_store(kmf_output *output);

/* A row as another output holds it: n bytes of the table and its line of ids. */
int kmf_output_copy(kmf_output *output, const void *row, size_t n, const char *ids,
                    size_t n_ids, kmf_err *err) KMF_MUST_CHECK;

/* Where the files of an output stand between two records. */
typedef struct kmf_output_place {
    uint64_t rows;
    uint64_t bytes[KMF_OUTPUT_FILES];
} kmf_output_place;

/* All of these files, or the table alone, where its rows have a format. */
int kmf_output_n_files(const kmf_output_form *form);

/* The name of one of the files of an output at path. Freed by kmf_free; NULL: out of memory. */
char *kmf_output_name(const char *path, int file, kmf_err *err) KMF_MUST_CHECK;

/* A regular file, and the table not compressed? */
bool kmf_output_is_keepable(const kmf_output *output);
/* As it was made with. */
const kmf_output_form *kmf_output_form_of(const kmf_output *output);
/* What checkpoints say of its run: takes over the reference, NULL too; borrowed. NULL: unknown. */
void kmf_output_describe(kmf_output *output, json_t *run);
json_t *kmf_output_described(const kmf_output *output);
/*
 * Brings to the disk what is out, and keeps it: base/out.h. *place: behind the rows of the records
 * whose index is below `records`, which are all out; of one more some may be, else KMF_EINVAL.
 */
int kmf_output_keep(kmf_output *output, uint64_t records, kmf_output_place *place,
                    kmf_err *err) KMF_MUST_CHECK;
bool kmf_output_is_kept(const kmf_output *output);
/* Its files go as if they had never been kept. */
void kmf_output_unkeep(kmf_output *output);
/* The temporary name of one of its files; borrowed. */
const char *kmf_output_temporary(const kmf_output *output, int file);
/*
 * The output as it was at a place, in these files. KMF_EMODEL: none was there; else as
 * kmf_output_new.
 */
kmf_output *kmf_output_reopen(const char *path, const kmf_output_form *form,
                              char *const temporary[KMF_OUTPUT_FILES],
                              const kmf_output_place *place, kmf_err *err) KMF_MUST_CHECK;

#endif
