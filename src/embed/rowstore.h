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

/*
 * As kmf_embedder_sink, which ends it. Vectors of records that are whole in a batch are offered to
 * `store` first, unless there is nothing to gain by that, and if they are stored their rows have
 * NULL. What was stored of rows that never come, after a failure, is overwritten by those that come
 * in their place, or to be dropped.
 */
void kmf_embedder_store(kmf_embedder *embedder, kmf_row_fn *fn, kmf_store_fn *store,
                        void *user);

/* The vectors of a batch that is done; its pieces tell what is stored. */
int kmf_store_batch(kmf_batch *batch, kmf_store_fn *store, void *user,
                    kmf_err *err) KMF_MUST_CHECK;

#endif
