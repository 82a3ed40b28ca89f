/* SPDX-License-Identifier: MIT */
/* Part of kmerformer.h: k-mers as numbers, and the letters they are made of. */
#ifndef KMERFORMER_KMER_H
#define KMERFORMER_KMER_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- k-mers ----------------- */

/*
 * A k-mer is a uint64_t of 2-bit bases, A=0 C=1 G=2 T=3 (U=T, either case), the first base in
 * the most significant place. k: 1 to 32.
 */
#define KMF_K_MAX 32

/* 0 and *code, or KMF_EFORMAT if one of the k characters is not A, C, G, T or U. */
KMF_API int kmf_kmer_encode(uint64_t *code, const char *seq, int k);
/* Writes k characters and a NUL. */
KMF_API void kmf_kmer_decode(char *text, uint64_t code, int k);
KMF_API uint64_t kmf_kmer_revcomp(uint64_t code, int k);
/* The smaller of a k-mer and its reverse complement. */
KMF_API uint64_t kmf_kmer_canonical(uint64_t code, int k);

/* ---------------------------------------------------------------- alphabets -------------- */

/*
 * The letters that k-mers are made of. A letter takes `bits` bits of a code, the first letter
 * of a k-mer the most significant ones; letters have the numbers 0, 1, ... in alphabetical
 * order.
 *
 *   dna       ACGT, U = T                    2 bits   k 1 .. 32
 *   protein   ACDEFGHIKLMNPQRSTVWY           5 bits   k 1 .. 6
 *
 * Either case; all other letters are ambiguous.
 */
typedef enum kmf_alphabet { KMF_DNA, KMF_PROTEIN, KMF_N_ALPHABETS } kmf_alphabet;
KMF_API extern const char *const kmf_alphabet_names[]; /* dna protein */

/* "ACGT", "ACDEFGHIKLMNPQRSTVWY": letter number i is the i-th character. Static storage. */
KMF_API const char *kmf_alphabet_letters(kmf_alphabet alphabet);
KMF_API int kmf_alphabet_bits(kmf_alphabet alphabet);
KMF_API int kmf_alphabet_k_max(kmf_alphabet alphabet);
/* As kmf_kmer_encode and kmf_kmer_decode, which are those of KMF_DNA. */
KMF_API int kmf_alphabet_encode(kmf_alphabet alphabet, uint64_t *code, const char *seq, int k);
KMF_API void kmf_alphabet_decode(kmf_alphabet alphabet, char *text, uint64_t code, int k);

#ifdef __cplusplus
}
#endif

#endif
