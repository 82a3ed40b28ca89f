/* SPDX-License-Identifier: MIT */
/*
 * Who works on the batches of a run. Each worker has a room, 0 .. threads - 1, which is the worker
 * of the method's functions. A job of the pool enters one for its batch. At the end of a run, where
 * the method's batches can be shared, whoever has no batch left, or had none, does parts of the
 * others', so that a single query, one long sequence, and the last batches leave no thread idle.
 *
 *   expect -- enter -- the method's work -- leave        a batch
 *   missing -- join, join ..                             at the end, threads beyond the batches
 */
#ifndef KMF_CREW_H
#define KMF_CREW_H

#include "embed/method.h"

#include <stdatomic.h>

typedef struct kmf_crew {
    const kmf_method *method; /* borrowed */
    int threads;
    atomic_size_t n_unstarted, n_undone; /* of the batches expected */
    atomic_bool finishing;               /* no batch will follow */
    atomic_bool *rooms;                  /* owned [threads]: which are in use */
} kmf_crew;

int kmf_crew_init(kmf_crew *crew, const kmf_method *method, int threads,
                  kmf_err *err) KMF_MUST_CHECK;
/* A crew made in part, or of zeros, is freed, too. */
void kmf_crew_free(kmf_crew *crew);

/* A batch is about to be sent. */
void kmf_crew_expect(kmf_crew *crew);
/* It could not be. */
void kmf_crew_call_off(kmf_crew *crew);
/* Its job begins: a room, this one if it is free. */
int kmf_crew_enter(kmf_crew *crew, int preferred);
/*
 * Its job is done. At the end of a run, when no other is left to begin, goes on with those of the
 * others; which all have been begun, so that it waits for nobody who waits for it.
 */
void kmf_crew_leave(kmf_crew *crew, int room);

/* No batch will follow until the reset. How many threads more could join: 0 if none could help. */
int kmf_crew_missing(kmf_crew *crew);
/* One of these: helps until all batches are done. */
void kmf_crew_join(kmf_crew *crew, int preferred);
/* When no batch is under way: as new. */
void kmf_crew_reset(kmf_crew *crew);

#endif
