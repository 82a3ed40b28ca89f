/* SPDX-License-Identifier: MIT */
/*
 * A batch: what one job of the pool works on. It holds pieces of sequences in input order and,
 * when the job is done, what each piece adds to its record's vector.
 *
 *   an encoder's piece is a chunk of token ids; it adds the sum (or maximum) of its tokens'
 *   hidden states;
 *   a frequency's piece is a stretch of bases; it adds the counts of its k-mers
 *
 * Either way a record's vector is the sum of its pieces divided by the sum of their weights, so
 * the pipeline (embedder.c) need not know which it is. All memory is taken once.
 */
#ifndef KMF_BATCH_H
#define KMF_BATCH_H

#include "kmerformer.h"

#include <stdbool.h>

typedef struct kmf_piece {
    size_t beg, end;         /* in ids or bases                                              */
    size_t own_beg, own_end; /* ids: the tokens counted here, within beg .. end              */
    bool reverse;            /* of the record's reverse complement                           */
    /* results */
    uint64_t tokens;    /* the weight: k-mers counted                                   */
    uint64_t ambiguous; /* bases: windows without a code                                */
    size_t row_beg;     /* per token: its first row; there are `tokens` of them         */
} kmf_piece;

typedef struct kmf_batch {
    size_t cap_pieces, cap_units;
    size_t n_pieces;
    size_t n_units;    /* tokens or bases in use */
    kmf_piece *pieces; /* owned [cap_pieces] */

    /* an encoder's; NULL otherwise */
    int32_t *ids;  /* owned [cap_units] */
    uint8_t *real; /* owned [cap_units] */
    uint64_t *pos; /* owned [cap_units] */
    size_t *off;   /* owned [cap_pieces + 1] */
    /* a frequency's; NULL otherwise */
    char *bases; /* owned [cap_units] */

    /* results */
    size_t dim;
    double *sums;      /* owned [cap_pieces, dim]; NULL per token */
    float *rows;       /* owned [cap_units, dim]; per token only */
    uint64_t *row_pos; /* owned [cap_units]; per token only: base of the k-mer */
} kmf_batch;

typedef struct kmf_batch_shape {
    size_t cap_pieces;
    size_t cap_units;
    size_t dim;
    bool ids; /* an encoder's */
    bool per_token;
} kmf_batch_shape;

/* Bytes of a batch, 0 if they do not fit a size_t. */
size_t kmf_batch_bytes(const kmf_batch_shape *shape);
kmf_batch *kmf_batch_new(const kmf_batch_shape *shape, kmf_err *err) KMF_MUST_CHECK;
void kmf_batch_free(kmf_batch *batch);
void kmf_batch_clear(kmf_batch *batch);

/* Room for one more piece of n units? */
bool kmf_batch_fits(const kmf_batch *batch, size_t n);
void kmf_batch_add_chunk(kmf_batch *batch, const kmf_chunk *chunk, bool reverse);
void kmf_batch_add_bases(kmf_batch *batch, const char *bases, size_t n, bool reverse);

/*
 * Fills in the results. pooling and layer (0 .. L) as in kmf_config; CLS adds the first token's
 * state once for every k-mer of its chunk, so that a record's vector is the mean of its chunks
 * weighted by what they own.
 */
void kmf_batch_encode(kmf_batch *batch, kmf_encoder *encoder, kmf_pooling pooling,
                      size_t layer);

/* k-mer counts; dim is 136 when canonical (k = 4), else 4^k. */
void kmf_batch_count(kmf_batch *batch, int k, bool canonical);
/* Columns of the canonical tetranucleotide count. */
#define KMF_TNF_DIM 136
#define KMF_TNF_K 4

#endif
