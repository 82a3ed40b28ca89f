/* SPDX-License-Identifier: MIT */
/*
 * What a job does with a batch: the method's work on its pieces, and then the vectors of records
 * that are there as a whole, which nobody need put together any more.
 */
#ifndef KMF_JOB_H
#define KMF_JOB_H

#include "embed/method.h"
#include "embed/rowstore.h"

/* What the pieces of one strand of a record add up to. */
typedef struct kmf_sum {
    double *values; /* [dim]; of KMF_POOL_MAX the greatest */
    double weight;
    uint64_t tokens; /* 0: there is no strand */
} kmf_sum;

/* strands: forward, reverse; one has a token. opts: resolved.   vector: [dim] */
void kmf_sums_vector(const kmf_method *method, const kmf_embed_options *opts, float *vector,
                     const kmf_sum strands[2]);
/*
 * worker: 0 .. threads - 1; store: its fn may be NULL. 0: the results of the pieces are filled in,
 * batch.h; some may be stored already, if it is a store of all, so that a batch may have more of
 * them than sums. 1: there is no room for all, or a failure of the store: some pieces may have
 * results, and some be stored.
 */
int kmf_job_work(const kmf_method *method, const kmf_embed_options *opts, kmf_batch *batch,
                 int worker, const kmf_rowstore *store, kmf_err *err) KMF_MUST_CHECK;

#endif
