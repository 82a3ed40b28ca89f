/* SPDX-License-Identifier: MIT */
/*
 * From a text to the tokens of a vocabulary, one after another, without frame and chunks: GREEDY
 * and BPE, and KMERS as they are written. What `exact` changes is told in kmerformer/tokens.h.
 */
#ifndef KMF_PIECES_H
#define KMF_PIECES_H

#include "words/vocab.h"

typedef struct kmf_piece {
    int32_t id;
    size_t pos; /* its first letter */
    size_t n;   /* how many there are */
} kmf_piece;

typedef struct kmf_pieces kmf_pieces;

/*
 * vocab is borrowed, has [UNK], and is not KMERS unless exact. stride, the letters between the
 * starts of two k-mers, is KMERS' alone.
 */
kmf_pieces *kmf_pieces_new(const kmf_vocab *vocab, kmf_exact exact, size_t stride,
                           kmf_err *err) KMF_MUST_CHECK;
void kmf_pieces_free(kmf_pieces *pieces);
/* Begins a text, borrowed until its last piece. */
void kmf_pieces_start(kmf_pieces *pieces, const char *text, size_t len);
/* 1: the next token; 0: no more; negative: a kmf_code, KMF_ENOMEM. */
int kmf_pieces_next(kmf_pieces *pieces, kmf_piece *piece, kmf_err *err) KMF_MUST_CHECK;

#endif
