/* SPDX-License-Identifier: MIT */
/*
 * A batch: what one job of the pool works on. It holds pieces of sequences in input order and,
 * when the job is done, what each piece adds to its record's vector.
 *
 *   a chunk of token ids adds the sum (or maximum) of its tokens' hidden states;
 *   a stretch of letters adds the counts, or the sum of the vectors, of its k-mers
 *
 * Either way a record's vector is the sum of its pieces divided by the sum of their weights, so
 * the pipeline (flow.h) need not know which it is. Memory is taken once, but for what
 * kmf_batch_reserve takes.
 */
#ifndef KMF_BATCH_H
#define KMF_BATCH_H

#include "kmerformer.h"

#include <stdbool.h>

typedef struct kmf_piece {
    size_t beg, end;         /* in ids or letters                                            */
    size_t own_beg, own_end; /* what is counted here: tokens, or windows that start there    */
    bool reverse;            /* of the record's reverse complement                           */
    bool half;               /* of a record with two pieces, one a strand: the next is whole */
    bool whole;              /* the last piece of its record, which has no others elsewhere  */
    uint64_t row;            /* whole: of its record                                         */
    float *copy;             /* whole: where its vector goes as well, [dim], or NULL         */
    /* results */
    double weight;      /* that the sum is to be divided by                             */
    uint64_t tokens;    /* k-mers in the sum                                            */
    uint64_t ambiguous; /* letters: windows without a code                              */
    uint64_t unknown;   /* letters: k-mers without a vector                             */
    bool finite;        /* whole, and with tokens: so is its vector                     */
    bool stored;        /* its vector, embed/rowstore.h                                    */
    size_t sum_beg;     /* where in the batch's sums its sum is, in doubles, or its
                           vector, in floats                                            */
    size_t row_beg;     /* per token: its first row; there are `tokens` of them         */
} kmf_piece;

typedef struct kmf_batch {
    size_t cap_pieces, cap_units;
    size_t cap_sums; /* of as many pieces, cap_pieces at most: those that are added have room */
    size_t units;    /* to be filled up to; a piece of more is alone */
    size_t n_pieces;
    size_t n_units;    /* tokens or letters in use */
    kmf_piece *pieces; /* owned [cap_pieces] */

    /* of chunks; NULL otherwise */
    int32_t *ids;  /* owned [cap_units] */
    uint8_t *real; /* owned [cap_units] */
    uint64_t *pos; /* owned [cap_units] */
    size_t *off;   /* owned [cap_pieces + 1] */
    /* of stretches; NULL otherwise */
    char *letters; /* owned [cap_units] */

    /* results */
    size_t dim;
    double *sums;      /* owned [cap_sums, dim]; NULL per token. Of chunks those of the pieces
                          in their order; then, as of stretches at once, those that are no whole
                          records, and the vectors, floats, of those that are */
    float *rows;       /* owned [cap_units, dim]; per token only */
    uint64_t *row_pos; /* owned [cap_units]; per token only: base of the k-mer */
    /* scratch of the job: of one record all of whose pieces are in this batch */
    double *sum;   /* owned [2, dim]; of stretches */
    float *vector; /* owned [dim] */
} kmf_batch;

typedef struct kmf_batch_shape {
    size_t cap_pieces;
    size_t units;
    size_t cap_units;
    size_t dim;
    bool ids; /* of chunks */
    bool per_token;
} kmf_batch_shape;

/*
 * Room for `units` tokens or letters, for a piece of `longest` at least, and for pieces of the
 * length that is usual.
 */
kmf_batch_shape kmf_batch_choose(size_t units, size_t longest, size_t dim, bool ids);
/* Bytes of a batch, 0 if they do not fit a size_t. */
size_t kmf_batch_bytes(const kmf_batch_shape *shape);
kmf_batch *kmf_batch_new(const kmf_batch_shape *shape, kmf_err *err) KMF_MUST_CHECK;
void kmf_batch_free(kmf_batch *batch);
void kmf_batch_clear(kmf_batch *batch);

/*
 * Of an empty batch of stretches: room for so many pieces to be placed, of no more letters, and for
 * so many sums, n_pieces at most; or more. false: out of memory, with as much room as was, or more.
 */
bool kmf_batch_reserve(kmf_batch *batch, size_t n_pieces, size_t n_sums) KMF_MUST_CHECK;

/* Room for one more piece of n units, and its sum? */
bool kmf_batch_fits(const kmf_batch *batch, size_t n);
void kmf_batch_add_chunk(kmf_batch *batch, const kmf_chunk *chunk, bool reverse);
/* Windows that start in the first n_own of the n letters belong to the piece. */
void kmf_batch_add_letters(kmf_batch *batch, const char *letters, size_t n, size_t n_own,
                           bool reverse);
/* The same of letters that are in the batch already, from `beg` on, behind those of the pieces. */
void kmf_batch_place_letters(kmf_batch *batch, size_t beg, size_t n, size_t n_own);
/* The piece added last. */
kmf_piece *kmf_batch_last(kmf_batch *batch);
/*
 * The last record had so many pieces, 0 or more. Is it here as a whole: as one piece, or as one of
 * each strand? The last piece is then whole, and the one before it its half.
 */
bool kmf_batch_close(kmf_batch *batch, uint64_t n_pieces);
/* The vector of a piece that is whole, [dim]; of one that is stored its place may be another's. */
float *kmf_batch_vector(const kmf_batch *batch, const kmf_piece *piece);
/* Turns the letters of the other strand round, so that all are read from left to right. */
void kmf_batch_turn(kmf_batch *batch);

#endif
