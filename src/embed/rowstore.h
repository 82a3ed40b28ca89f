/* SPDX-License-Identifier: MIT */
/* Vectors that go where they belong out of the thread that made them, ahead of their rows. */
#ifndef KMF_ROWSTORE_H
#define KMF_ROWSTORE_H

#include "embed/batch.h"

/*
 * n vectors, one after the other, of the rows from `row` on, counted from kmf_embedder_store on;
 * they may be overwritten. 1: they are stored; 0: not, they are as they were and come with their
 * rows; or a failure, which ends the run. From any thread, several at a time, in no order.
 */
typedef int kmf_store_fn(void *user, uint64_t row, float *vectors, size_t n, kmf_err *err);

typedef struct kmf_rowstore {
    kmf_store_fn *fn; /* NULL: there is none */
    void *user;       /* borrowed */
    bool all;         /* it stores whatever it is offered, but for what ends the run as a row */
} kmf_rowstore;

/*
 * As kmf_embedder_sink with fn and the user of the store, which is copied. A later call of
 * kmf_embedder_sink takes the store away.
 * Vectors of records that are whole in a batch are offered to the store first, unless there is
 * nothing to gain by that, and if they are stored their rows have NULL. What was stored of rows
 * that never come, after a failure, is overwritten by those that come in their place, or to be
 * dropped.
 */
void kmf_embedder_store(kmf_embedder *embedder, kmf_row_fn *fn, const kmf_rowstore *store);

/*
 * Offers the vectors of pieces beg .. end - 1 that are made and not stored to a store, which there
 * is; the pieces tell what is stored. 1: all are that are finite; 0: some are not; or a failure.
 */
int kmf_store_pieces(kmf_batch *batch, size_t beg, size_t end, const kmf_rowstore *store,
                     kmf_err *err) KMF_MUST_CHECK;

#endif
