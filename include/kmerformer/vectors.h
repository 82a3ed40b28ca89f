/* SPDX-License-Identifier: MIT */
/* Part of kmerformer.h: k-mers and their vectors: asked, loaded and saved. */
#ifndef KMERFORMER_VECTORS_H
#define KMERFORMER_VECTORS_H

#include "kmer.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Words and their vectors: k-mers of one alphabet, of one length or of several, each with the
 * float32 vector [dim] that word2vec gave it. Read-only once made, and may be shared between
 * threads.
 */
typedef struct kmf_vectors kmf_vectors;

typedef struct kmf_vectors_info {
    kmf_alphabet alphabet;
    int k_min, k_max; /* lengths of the shortest and the longest word */
    int canonical;  /* 1: a k-mer and its reverse complement share the vector of the smaller  */
    int counted;    /* 1: it is known how often each word occurred in training                */
    size_t n;       /* words, 1 or more */
    size_t dim;     /* of a vector, 1 or more */
    size_t unseen;  /* words that never occurred, whose vectors say nothing; 0 if not counted */
    size_t foreign; /* words of the file that are no k-mers, such as "</s>": skipped          */
} kmf_vectors_info;

/*
 * File formats.
 *
 *   safetensors  vectors F32 [n, dim], words U8 [n, k_max] (the letters, NUL after shorter
 *                words), counts U64 [n] if known; metadata "kmerformer": JSON object text
 *   text         word2vec's and fastText's: a line "n dim", then a line "word v1 ... v_dim" for
 *                each, %.9g, so that a float comes back as it was
 *   binary       word2vec's: the same line, then for each word, space, dim little-endian
 *                float32, newline
 */
typedef enum kmf_vectors_format {
    KMF_VECTORS_SAFETENSORS,
    KMF_VECTORS_TEXT,
    KMF_VECTORS_BINARY
} kmf_vectors_format;
KMF_API extern const char *const kmf_vectors_format_names[]; /* safetensors text binary */

/*
 * Reads a file ("-": standard input) of any of the formats, told apart by content; text and binary
 * also as gensim, fastText, word2vec.c and dna2vec write them. Counts of a text or binary file come
 * from the file "path.vocab", a line "word count" for each word, if there is one. Nothing in the
 * files is trusted: KMF_EMODEL says what is wrong and where. The vectors of a text or binary file
 * are taken for canonical if they are those of all canonical k-mers and of no others.
 */
KMF_API kmf_vectors *kmf_vectors_load(const char *path, kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_vectors_free(kmf_vectors *vectors);

/*
 * Writes path ("-": standard output, text alone), and counts that are known to "path.vocab" beside
 * text and binary, words in the order of their rows. provenance, the text of a JSON object, is
 * kept in a safetensors file; NULL: what the vectors were loaded with. Nothing is left behind
 * on failure.
 */
KMF_API int kmf_vectors_save(const kmf_vectors *vectors, const char *path,
                             kmf_vectors_format format, const char *provenance,
                             kmf_err *err) KMF_MUST_CHECK;

/*
 * The same, and `first` (NULL: none), which is finished, gets its name before them, so that they
 * are never there without it; or neither does.
 */
KMF_API int kmf_vectors_save_with(const kmf_vectors *vectors, const char *path,
                                  kmf_vectors_format format, const char *provenance,
                                  kmf_out *first, kmf_err *err) KMF_MUST_CHECK;

KMF_API void kmf_vectors_information(const kmf_vectors *vectors, kmf_vectors_info *info);
/*
 * 1: a text or binary file of them, which does not say what they are, is read as the same; 0: as
 * k-mers of the other alphabet, or as canonical where they are not, or the other way round.
 */
KMF_API int kmf_vectors_plain(const kmf_vectors *vectors);
/* The JSON text kept in the file, "" if there is none. */
KMF_API const char *kmf_vectors_provenance(const kmf_vectors *vectors);
/* The row of a k-mer, or -1. Canonical vectors: of whichever of the two strands is listed. */
KMF_API int64_t kmf_vectors_find(const kmf_vectors *vectors, uint64_t code, int k);
/* [dim], borrowed. Rows: 0 .. n - 1. */
KMF_API const float *kmf_vectors_row(const kmf_vectors *vectors, size_t row);
/* 0 if not counted. */
KMF_API uint64_t kmf_vectors_count(const kmf_vectors *vectors, size_t row);
/* Writes the letters of the word and a NUL: k_max + 1 bytes at most. Returns its length k. */
KMF_API int kmf_vectors_word(const kmf_vectors *vectors, size_t row, char *text);

typedef struct kmf_neighbour {
    size_t row;
    float cosine;
} kmf_neighbour;

/*
 * The n words of the greatest cosine with query [dim], in that order, equal ones in row order.
 * Left out are the rows in without[0 .. n_without - 1], words that were never seen, vectors of
 * length 0 and, with k > 0, words of another length. Returns how many there are, n at most.
 * KMF_EINVAL: query is 0 or not finite.
 */
KMF_API int64_t kmf_vectors_nearest(const kmf_vectors *vectors, const float *query, int k,
                                    const size_t *without, size_t n_without,
                                    kmf_neighbour *list, size_t n, kmf_err *err) KMF_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
