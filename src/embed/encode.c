/* SPDX-License-Identifier: MIT */
/*
 * Pooling: from the hidden states of a batch to what each piece adds to its record.
 *
 *   mean   sum over the k-mers that the chunk owns, in double, in order
 *   max    maximum over them
 *   cls    the first token's state times their number
 *   none   their states themselves
 */
#include "embed/batch.h"

#include <math.h>
#include <string.h>

static void sum_rows(double *sum, const float *hidden, const kmf_batch *b, const kmf_piece *p)
{
    size_t D = b->dim;
    memset(sum, 0, D * sizeof *sum);
    for (size_t t = p->own_beg; t < p->own_end; t++) {
        if (!b->real[t])
            continue;
        const float *h = hidden + t * D;
        for (size_t d = 0; d < D; d++)
            sum[d] += (double)h[d];
    }
}

/* A NaN wins, so that it is found. */
static void max_rows(double *max, const float *hidden, const kmf_batch *b, const kmf_piece *p)
{
    size_t D = b->dim;
    for (size_t d = 0; d < D; d++)
        max[d] = -HUGE_VAL;
    for (size_t t = p->own_beg; t < p->own_end; t++) {
        if (!b->real[t])
            continue;
        const float *h = hidden + t * D;
        for (size_t d = 0; d < D; d++)
            max[d] = (double)h[d] <= max[d] ? max[d] : (double)h[d];
    }
}

static void copy_rows(kmf_batch *b, const float *hidden, kmf_piece *p, size_t *n_rows)
{
    size_t D = b->dim;
    p->row_beg = *n_rows;
    for (size_t t = p->own_beg; t < p->own_end; t++) {
        if (!b->real[t])
            continue;
        memcpy(b->rows + *n_rows * D, hidden + t * D, D * sizeof *hidden);
        b->row_pos[*n_rows] = b->pos[t];
        (*n_rows)++;
    }
}

/* Pooled in double: sum [D]. */
static void pool_rows(double *sum, const float *hidden, const kmf_batch *b, const kmf_piece *p,
                      kmf_pooling pooling)
{
    if (pooling == KMF_POOL_MEAN)
        sum_rows(sum, hidden, b, p);
    else if (pooling == KMF_POOL_MAX)
        max_rows(sum, hidden, b, p);
    else
        for (size_t d = 0; d < b->dim; d++)
            sum[d] = (double)hidden[p->beg * b->dim + d] * (double)p->tokens;
}

void kmf_batch_encode(kmf_batch *batch, kmf_encoder *encoder, kmf_pooling pooling, size_t layer)
{
    size_t n_rows = 0;
    const float *hidden =
        kmf_encoder_forward(encoder, batch->ids, batch->off, batch->n_pieces, layer);
    for (size_t i = 0; i < batch->n_pieces; i++) {
        kmf_piece *p = &batch->pieces[i];
        p->tokens = 0;
        for (size_t t = p->own_beg; t < p->own_end; t++)
            p->tokens += batch->real[t];
        if (pooling == KMF_POOL_NONE)
            copy_rows(batch, hidden, p, &n_rows);
        else
            pool_rows(batch->sums + i * batch->dim, hidden, batch, p, pooling);
    }
}
