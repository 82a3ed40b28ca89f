/* SPDX-License-Identifier: MIT */
/* Part of kmerformer.h: vectors of records that were made before, read back. */
#ifndef KMERFORMER_ROWFILE_H
#define KMERFORMER_ROWFILE_H

#include "output.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * x.npy as a kmf_output writes it, or as NumPy saves an array [rows, columns] of little-endian
 * float16, float32 or float64, which is rounded, in C order; mapped, with x.ids.tsv and x.json
 * where these lie beside it. Used by one thread at a time.
 */
typedef struct kmf_row_file kmf_row_file;

typedef struct kmf_row_file_info {
    uint64_t n;        /* rows, 0 or more */
    size_t dim;        /* 1 .. 2^24 */
    int element_bytes; /* of a number: 2, 4, 8 */
    int named;         /* 1: x.ids.tsv is there; 0: row i is called i + 1, and has no length */
    int per_token;     /* 1: rows of KMF_POOL_NONE, which have a position */
    const char *model; /* its name by x.json, borrowed; NULL: none, or no settings, are told */
} kmf_row_file_info;

/* 1: a regular file that begins as an array of NumPy does; 0: another, or it cannot be read. */
KMF_API int kmf_is_row_file(const char *path);
/*
 * KMF_EIO; KMF_ENOMEM; KMF_EMODEL: an array of another type or order, or of other bytes than its
 * header tells; what lies beside it is not its own.
 */
KMF_API kmf_row_file *kmf_row_file_open(const char *path, kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_row_file_close(kmf_row_file *file);
KMF_API void kmf_row_file_information(const kmf_row_file *file, kmf_row_file_info *info);
/*
 * Were its vectors made as those of an embedder, by kmf_embedder_identity? 0: so x.json tells, or
 * info.model is NULL and the columns are as many; KMF_EMODEL: no, and the message names what
 * differs first.
 */
KMF_API int kmf_row_file_check(const kmf_row_file *file, const char *identity,
                               kmf_err *err) KMF_MUST_CHECK;
/* Has it a row for each record? 0; KMF_EMODEL: one for each token. */
KMF_API int kmf_row_file_check_records(const kmf_row_file *file, kmf_err *err) KMF_MUST_CHECK;
/*
 * Has it as many columns as the other file, and vectors that were made alike, as far as x.json of
 * both tell? 0; KMF_EMODEL: no, and the message names what differs first; KMF_ENOMEM.
 */
KMF_API int kmf_row_file_check_alike(const kmf_row_file *file, const kmf_row_file *other,
                                     kmf_err *err) KMF_MUST_CHECK;
/*
 * What its vectors are, in the words of kmf_embedder_identity: the model, the settings and the
 * columns that x.json tells, or where none does the path for a model's name and no settings. Freed
 * by kmf_text_free; NULL: out of memory.
 */
KMF_API char *kmf_row_file_identity(const kmf_row_file *file, kmf_err *err) KMF_MUST_CHECK;
/*
 * 1: *row is the next row, its pointers valid until the next call; 0: the end. A vector all of NaN
 * is that of a record without one; KMF_ENUMERIC: another that is not finite. KMF_EMODEL: x.ids.tsv
 * has a line that is none, not one for each row, or other than in their order; KMF_EIO: also, at
 * the end, that the file was written to meanwhile.
 */
KMF_API int kmf_row_file_next(kmf_row_file *file, kmf_row *row, kmf_err *err) KMF_MUST_CHECK;
/*
 * All rows that are left to an output of such rows, made on the threads of a pool (NULL: the
 * caller's) into whatever it writes; indices are those of the file. stats: adds records, bases,
 * tokens, ambiguous, chunked and empty. fn (NULL: none) is told now and then how many rows of the
 * file are done. Fails as kmf_row_file_next and kmf_output_row; KMF_EINVAL: another dim, or either
 * has rows of tokens.
 */
KMF_API int kmf_row_file_copy(kmf_row_file *file, kmf_output *output, kmf_pool *pool,
                              kmf_embed_stats *stats, kmf_progress_fn *fn, void *user,
                              kmf_err *err) KMF_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
