/* SPDX-License-Identifier: MIT */
/*
 * htslib's thread pool behind a few names, so that this floor and base/gzip.c alone include htslib.
 * One pool serves decompression and computation. Jobs of a queue begin, and come back, in the order
 * in which they were sent.
 */
#ifndef KMF_PAR_H
#define KMF_PAR_H

#include "kmerformer.h"

typedef struct kmf_queue kmf_queue;
typedef void *kmf_job_fn(void *arg);

/* Inside a job: 0 .. threads - 1, the number of the thread that runs it. */
int kmf_pool_worker(const kmf_pool *pool);
/* One reference more: the pool ends with the last of as many calls of kmf_pool_free. */
kmf_pool *kmf_pool_keep(kmf_pool *pool);
/* The hts_tpool itself, for this floor and for kmf_out_share. */
void *kmf_pool_handle(const kmf_pool *pool);

/* max_jobs: the most that are ever under way; sending up to so many never blocks. */
kmf_queue *kmf_queue_new(kmf_pool *pool, int max_jobs, kmf_err *err) KMF_MUST_CHECK;
/* Waits for jobs that run; the others are dropped. */
void kmf_queue_free(kmf_queue *queue);
int kmf_queue_send(kmf_queue *queue, kmf_job_fn *fn, void *arg, kmf_err *err) KMF_MUST_CHECK;
/* What the oldest unfetched job returned; waits for it. A job must be under way. */
void *kmf_queue_wait(kmf_queue *queue);
/* The same without waiting. NULL: it is not done, or there is none. */
void *kmf_queue_poll(kmf_queue *queue);

/* How many threads it has; NULL: 0. */
int kmf_pool_threads(const kmf_pool *pool);

/* Work on item i by worker 0 .. kmf_pool_threads(pool); 0 or a negative kmf_code. */
typedef int kmf_item_fn(void *arg, size_t i, int worker, kmf_err *err);
/*
 * Calls fn for the items 0 .. n - 1, each once, in any order, on the pool's threads and on the
 * caller's, which is the last worker; on it alone if pool is NULL. Returns when all are done. After
 * a failure no further item is begun. The failure of the first item that fails is reported,
 * whatever the threads: items are begun in their order.
 */
int kmf_pool_each(kmf_pool *pool, size_t n, kmf_item_fn *fn, void *arg,
                  kmf_err *err) KMF_MUST_CHECK;

/* The part of thread 0 .. threads - 1. */
typedef void kmf_part_fn(void *arg, int thread);
/*
 * Calls fn on as many threads, the caller's being the last of them, all at the same time, so that
 * they may wait for each other (base/barrier.h). Returns when all are done. KMF_ENOMEM: there
 * cannot be so many, and fn was not called.
 */
int kmf_together(int threads, kmf_part_fn *fn, void *arg, kmf_err *err) KMF_MUST_CHECK;

/* Of the htslib in use, as "1.16". */
const char *kmf_htslib_version(void);

#endif
