/* SPDX-License-Identifier: MIT */
/*
 * The files of k-mer vectors, for kmf_vectors_load and kmf_vectors_save: what the formats have in
 * common, and a reader and a writer for each. Readers are given the bytes of a file, which nobody
 * vouches for, and its name for messages; what is wrong is KMF_EMODEL.
 */
#ifndef KMF_VECTORFILE_H
#define KMF_VECTORFILE_H

#include "base/io.h"
#include "model/vectors.h"

/* ---------------------------------------------------------------- vectors in the making -- */

/*
 * Takes words as a file has them, keeps those that are k-mers, and tells the alphabet in the end. A
 * word that is DNA (1 to 32 of ACGTU) may be protein as well (1 to 6 of its 20 letters). The
 * vectors are protein if none is DNA, or no more are than have a letter that no sequence of DNA
 * has, its ambiguity codes included: E, F, I, L, P or Q. So a few words such as NNN or PAD among
 * k-mers of DNA are foreign, as what is no k-mer at all is.
 */
typedef struct kmf_maker {
    kmf_vectors *vectors; /* owned; rows 0 .. n - 1 are taken */
    uint8_t *kinds;       /* owned; of each row taken */
    size_t n;
    size_t n_words; /* of the file */
    size_t n_dna;   /* rows that may be DNA */
    size_t n_odd;   /* rows with one of EFILPQ */
    int alphabet;   /* as kmf_maker_start was given it */
} kmf_maker;

/* alphabet: a kmf_alphabet, or -1 to be told by the words. On failure there is nothing to free. */
int kmf_maker_start(kmf_maker *maker, size_t n_words, size_t dim, int alphabet, bool counted,
                    kmf_err *err) KMF_MUST_CHECK;
/* [dim], room for the next word's vector. At most n_words words may be taken. */
float *kmf_maker_room(kmf_maker *maker);
/* The word of that vector, not its count, which may be set before. False: it is no k-mer. */
bool kmf_maker_take(kmf_maker *maker, const char *word, size_t len);
/* The vectors, indexed; their info.foreign is set. The maker is spent in either case. */
kmf_vectors *kmf_maker_finish(kmf_maker *maker, int canonical, const char *name,
                              kmf_err *err) KMF_MUST_CHECK;
/* Accepts a zeroed or spent one. */
void kmf_maker_free(kmf_maker *maker);

/* The alphabet that a maker that is not given one tells by the words of these vectors. */
kmf_alphabet kmf_maker_alphabet(const kmf_vectors *vectors);

/* ---------------------------------------------------------------- formats ---------------- */

/* Of any format, told apart by content. */
kmf_vectors *kmf_vectors_parse(const void *bytes, size_t len, const char *name,
                               kmf_err *err) KMF_MUST_CHECK;

/*
 * kmf_vectors_load of a file, and maps of what was read: of the file, and of path.vocab, empty if
 * that was not. To be closed in any case.
 */
kmf_vectors *kmf_vectors_load_maps(const char *path, kmf_map *file, kmf_map *counts,
                                   kmf_err *err) KMF_MUST_CHECK;

/* Safetensors. */
kmf_vectors *kmf_vectortensors_read(const unsigned char *bytes, size_t len, const char *name,
                                    kmf_err *err) KMF_MUST_CHECK;
int kmf_vectortensors_write(const kmf_vectors *vectors, const char *provenance, kmf_out *out,
                            kmf_err *err) KMF_MUST_CHECK;

/* Text or binary, told apart by content. */
kmf_vectors *kmf_vectortext_read(const char *bytes, size_t len, const char *name,
                                 kmf_err *err) KMF_MUST_CHECK;
int kmf_vectortext_write(const kmf_vectors *vectors, kmf_out *out, kmf_err *err) KMF_MUST_CHECK;
int kmf_vectorbinary_write(const kmf_vectors *vectors, kmf_out *out,
                           kmf_err *err) KMF_MUST_CHECK;

/*
 * Gives vectors without counts those of a file of lines "word count". Each word of the vectors must
 * stand in it once; foreign words are passed over.
 */
int kmf_vectorcounts_read(kmf_vectors *vectors, const char *bytes, size_t len, const char *name,
                          kmf_err *err) KMF_MUST_CHECK;
int kmf_vectorcounts_write(const kmf_vectors *vectors, kmf_out *out,
                           kmf_err *err) KMF_MUST_CHECK;

#endif
