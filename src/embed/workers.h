/* SPDX-License-Identifier: MIT */
/*
 * The workers of a run, numbered 0 .. threads - 1: the `worker` of the method's functions. A job of
 * the pool takes an idle one for its batch. At the end of a run, where the method can share its
 * batches, workers without a batch take over parts of the others', so that a single query, one long
 * sequence, and the last batches leave no thread idle.
 *
 *   expect -- enter -- the method's work -- leave        a batch
 *   missing -- join, join ..                             at the end, threads beyond the batches
 */
#ifndef KMF_WORKERS_H
#define KMF_WORKERS_H

#include "embed/method.h"

#include <stdatomic.h>

typedef struct kmf_workers {
    const kmf_method *method; /* borrowed */
    int threads;
    atomic_size_t n_unstarted, n_undone; /* of the batches expected */
    atomic_bool finishing;               /* no batch will follow */
    atomic_bool *busy;                   /* owned [threads] */
} kmf_workers;

int kmf_workers_init(kmf_workers *workers, const kmf_method *method, int threads,
                     kmf_err *err) KMF_MUST_CHECK;
/* Also of workers made in part, or all zeros. */
void kmf_workers_free(kmf_workers *workers);

/* A batch is about to be sent. */
void kmf_workers_expect(kmf_workers *workers);
/* It could not be. */
void kmf_workers_call_off(kmf_workers *workers);
/* Its job begins: takes an idle worker, the preferred one if that is idle, and returns it. */
int kmf_workers_enter(kmf_workers *workers, int preferred);
/*
 * Its job is done. At the end of a run, when no other is left to begin, goes on with those of the
 * others; which all have been begun, so that it waits for nobody who waits for it.
 */
void kmf_workers_leave(kmf_workers *workers, int worker);

/* No batch will follow until the reset. How many threads more could join: 0 if none could help. */
int kmf_workers_missing(kmf_workers *workers);
/* One of these: helps until all batches are done. */
void kmf_workers_join(kmf_workers *workers, int preferred);
/* When no batch is under way: as new. */
void kmf_workers_reset(kmf_workers *workers);

#endif
