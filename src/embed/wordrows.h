/* SPDX-License-Identifier: MIT */
/*
 * Words of one length, and which row of a file of vectors each has: the windows of a piece become
 * a list of rows, or counts of columns, of which there is one for each row of words that long.
 *
 * A k-mer that the file lacks, or whose weight is 0, has no row: it is left out, and counted as
 * unknown. Codes come in blocks, of DNA in vector code (words/columns.h).
 */
#ifndef KMF_WORDROWS_H
#define KMF_WORDROWS_H

#include "embed/batch.h"
#include "embed/rowtable.h"
#include "model/vectors.h"
#include "words/columns.h"
#include "words/textkmers.h"

#define KMF_WORD_BLOCK 512 /* windows that are looked up at a time */

typedef struct kmf_wordrows {
    kmf_kmer_kind kind;
    const kmf_vectors *vectors;  /* borrowed */
    const uint64_t *row_weights; /* borrowed; of all rows; NULL: all are 1 */
    bool in_columns;             /* kmf_columns knows the words */
    bool alike;                  /* the weights of all that are found are 1 */
    int32_t first; /* in_columns, and the row of each is its code and this; -1: it is not so */
    /* After kmf_wordrows_columns; else NULL, and words are not counted. */
    int32_t *column; /* owned, of each code; n_rows: it has no row */
    int32_t *rows;   /* owned [n_rows], of each column, ascending */
    size_t n_rows;
    uint64_t *weights; /* owned [n_rows], of each column; NULL: all are 1 */
} kmf_wordrows;

/* Words of this kind, all of weight 1; the vectors outlive them. */
kmf_wordrows kmf_wordrows_of(kmf_kmer_kind kind, const kmf_vectors *vectors);
/*
 * weights: of all rows, borrowed; NULL: all are 1. alike: so are those of all words found. Again
 * after each change of which words are found (kmf_words).
 */
void kmf_wordrows_weigh(kmf_wordrows *words, const uint64_t *weights, bool alike);
/*
 * A column for each row that has a weight; only if words have rows by code (kmf_words.dense). 0 or
 * KMF_ENOMEM.
 */
int kmf_wordrows_columns(kmf_wordrows *words, kmf_err *err) KMF_MUST_CHECK;
void kmf_wordrows_free(kmf_wordrows *words);
size_t kmf_wordrows_bytes(const kmf_wordrows *words);

/* The windows of a piece whose words are to be found. */
typedef struct kmf_wordwalk {
    const kmf_wordrows *words;
    kmf_columns *columns; /* borrowed; NULL: by codes */
    kmf_textkmers text;
    size_t beg, end; /* windows left, by the letters of the batch that they start at */
    uint64_t weight; /* of the windows so far, times KMF_WEIGHT_ONE */
} kmf_wordwalk;

/*
 * columns: of words->kind.k and words->column, started on the batch's letters; NULL: there are
 * none, as if not in_columns.
 */
void kmf_wordwalk_start(kmf_wordwalk *walk, const kmf_wordrows *words, kmf_columns *columns,
                        const char *letters, const kmf_piece *piece);
/*
 * Rows of the next windows that have one, KMF_WORD_BLOCK at most; returns how many, none only at
 * the end. The piece's tallies go on.
 */
size_t kmf_wordwalk_rows(int32_t *rows, kmf_wordwalk *walk, kmf_piece *piece);
/* In its place: counts [n_rows + 1], 0 at first, of the columns of all windows; the last is 0. */
void kmf_wordwalk_count(int32_t *counts, kmf_wordwalk *walk, kmf_piece *piece);

#endif
