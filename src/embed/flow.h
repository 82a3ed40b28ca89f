/* SPDX-License-Identifier: MIT */
/*
 * The pipeline behind kmf_embedder: batches and records that are under way.
 *
 *   record -> pieces -> batch --+ send                   collect +--> pieces -> record -> row
 *                               +-- [job: the method's work] ----+    in input order
 *   batches in a ring of 2t + 1 +-- [job]                      --+
 *
 * What the pieces are, chunks of ids or stretches of letters, and what is added up for each, is
 * decided in method.h; what a job does with them in job.h; which threads compute, and how they help
 * one another at the end, in workers.h; how records become pieces in embedder.c and read.c.
 *
 * The caller's thread reads or cuts, sends and collects; the pool's threads compute. Jobs come
 * back in the order in which they were sent and pieces lie in input order, so one accumulator is
 * enough: a piece belongs to the oldest record that is not complete. Records that are one piece,
 * or one of each strand in one batch, as reads are, need none: the job makes their vectors, and
 * may store them where they belong (rowstore.h), so that nobody else need touch them. Nothing is
 * sorted by length: batches are packed without padding, so there is nothing that sorting would
 * save. A record that repeats the sequence of an earlier one has no pieces, and its turn is after
 * that one's (repeats.h).
 *
 * All is allocated once, but for what read.c needs and, up to its bound, repeats.h; a record costs
 * a place in a ring and its name. When the ring of batches or of records is full, the oldest batch
 * is waited for, and a batch is sent before it is full where names are long, so memory is bounded
 * by the options and does not grow with the input.
 */
#ifndef KMF_FLOW_H
#define KMF_FLOW_H

#include "base/mem.h"
#include "embed/digests.h"
#include "embed/job.h"
#include "embed/read.h"
#include "embed/repeats.h"
#include "embed/rowstore.h"
#include "embed/workers.h"
#include "seq/par.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>

/* A record whose row is not out. */
typedef struct kmf_pending {
    const char *source; /* borrowed; where the record came from, or NULL */
    uint64_t number;    /* of the record there, from 1 */
    kmf_row row;        /* name points to the entry's own buffer */
    char *name;         /* owned, reused unless it is long */
    size_t name_cap;
    kmf_cut_tally seen;
    uint64_t unknown;
    kmf_met *met;      /* borrowed, held; its place among those that were met, or NULL */
    bool repeats;      /* it repeats that one, and has no pieces; else its vector goes there */
    uint32_t seen_sum; /* of the records up to this one */
    uint64_t n_pieces; /* handed to batches so far */
    uint64_t n_done;   /* collected */
    bool closed;       /* no piece will follow */
} kmf_pending;

typedef struct kmf_slot kmf_slot;

/* Batches that are sent empty. */
typedef struct kmf_filler {
    /* In the job: fills the batch and works on it; a failure is that of storing vectors. */
    int (*work)(void *user, kmf_slot *slot, int worker, kmf_err *err);
    /* By the caller, in the order of the batches: opens the records that its pieces are of. */
    int (*open)(void *user, kmf_slot *slot, kmf_err *err);
    void *user;
} kmf_filler;

struct kmf_slot {
    kmf_embedder *embedder;   /* borrowed */
    kmf_batch *batch;         /* owned */
    const kmf_filler *filler; /* borrowed; NULL: the batch is filled before it is sent */
    uint64_t number;          /* of those that are sent empty */
    int status;               /* negative: its vectors could not be stored, */
    kmf_err failed;           /* and why */
};

/* Where rows go. */
typedef struct kmf_sink {
    kmf_row_fn *fn;     /* NULL: nowhere */
    kmf_rowstore store; /* its user is that of both */
    uint64_t n_rows;    /* handed out so far */
} kmf_sink;

/* How far a run has come: the records given up to the last one whose rows are all out. */
typedef struct kmf_embed_mark {
    uint64_t records; /* those of other shards too */
    uint32_t sum;     /* checksum of them, if there is one */
    kmf_embed_stats stats;
} kmf_embed_mark;

struct kmf_embedder {
    kmf_embed_options opts; /* resolved */
    kmf_method *method;     /* owned */
    size_t dim;

    kmf_pool *pool;       /* owned */
    kmf_queue *queue;     /* owned */
    kmf_digests *digests; /* owned, or NULL */
    kmf_reading *reading; /* owned; NULL: no file has been read in ranges */
    kmf_repeats *repeats; /* owned; NULL: vectors take less time than looking for them */

    kmf_slot *slots; /* owned [n_slots], a ring: n_sent under way from first_sent on, then
                        the one being filled */
    size_t n_slots;
    size_t first_sent;
    size_t n_sent;
    bool spare_core;             /* for the caller's thread beside the workers' */
    _Atomic(kmf_slot *) awaited; /* that the caller waits for */
    kmf_workers workers;

    kmf_pending *records; /* owned [n_records], a ring */
    size_t n_records;
    size_t first_record;
    size_t n_pending;
    size_t long_names; /* bytes of them since a batch was sent for them */
    kmf_sum sums[2];   /* values owned; of the oldest pending record: forward, reverse */
    float *vector;     /* owned [dim] */

    kmf_sink to;
    kmf_progress_fn *progress;
    void *progress_user;
    uint64_t tokens_done;
    uint64_t passed_over; /* letters of other shards since it was told of them */
    const char *source;   /* borrowed; of the records being added */
    uint64_t n_seen;      /* records given, those of other shards too */
    uint32_t seen_sum;    /* checksum of these; of shards, and where a run can be resumed */
    kmf_embed_mark done;
    kmf_embed_mark given; /* what an earlier run has done; records 0: nothing */
    atomic_bool stopped;  /* an end was asked for */
    bool calling;         /* a row or progress function is, by the caller's thread */
    uint64_t source_seen; /* of them, those that were given before this source */
    uint64_t n_repeats;   /* records that were not computed, as they had been met before */
    uint64_t n_by_ranges; /* files that were read in ranges to their end; for tests */
    kmf_embed_stats stats;
};

/* A row for each token? */
static inline bool kmf_flow_per_token(const kmf_embedder *e)
{
    return e->opts.pooling == KMF_POOL_NONE;
}

/*
 * Can a run be stopped and gone on with? Where vectors are counted or looked up, a run takes as
 * long as reading its input, and parts of a file may be read in any order.
 */
static inline bool kmf_flow_resumes(const kmf_embedder *e)
{
    return kmf_method_takes_ids(e->method);
}

/* Batches and records of an embedder whose method, pool and options are there. */
int kmf_flow_begin(kmf_embedder *e, kmf_err *err) KMF_MUST_CHECK;
/* Frees all of it but the queue, also of an embedder made in part; no job may be under way. */
void kmf_flow_end(kmf_embedder *e);

/*
 * Room for a record's name of n bytes, before it is opened; not for records of ranges, whose names
 * are short.
 */
int kmf_flow_name_room(kmf_embedder *e, size_t n, kmf_err *err) KMF_MUST_CHECK;
/* A place for a record, whose pieces come next. */
int kmf_flow_open(kmf_embedder *e, const char *name, size_t len, kmf_err *err) KMF_MUST_CHECK;
/* The record opened last. */
static inline kmf_pending *kmf_flow_newest(kmf_embedder *e)
{
    assert(e->n_pending > 0);
    return &e->records[kmf_wrap(e->first_record + e->n_pending - 1, e->n_records)];
}
/*
 * Its sequence is looked for among those that were met; where there are any, and before its pieces.
 * There are none if it repeats one.
 */
int kmf_flow_meet(kmf_embedder *e, const char *seq, size_t len, kmf_err *err) KMF_MUST_CHECK;
/* Its row's counts, from the tallies of its strands. */
void kmf_flow_tell(kmf_pending *p);
/* No piece of it will follow; it goes out now if its pieces are back. */
int kmf_flow_close(kmf_embedder *e, kmf_err *err) KMF_MUST_CHECK;
/* Tells how far it is. */
void kmf_flow_progress(kmf_embedder *e);
/*
 * What a failure says of it, "record 'name': what", with its number and source; kmf_flow_source
 * does so if there is one, and returns status.
 */
void kmf_flow_tell_source(const kmf_pending *p, kmf_err *err);
static inline int kmf_flow_source(const kmf_pending *p, int status, kmf_err *err)
{
    if (status < 0)
        kmf_flow_tell_source(p, err);
    return status;
}

/* KMF_ESTOPPED: an end was asked for. */
int kmf_flow_check(const kmf_embedder *e, kmf_err *err);
/* KMF_EINVAL: it is a row or progress function that calls, amid a run that is to stay as it is. */
int kmf_flow_outside(const kmf_embedder *e, kmf_err *err) KMF_MUST_CHECK;

/* Which of the slots is sent next. */
static inline size_t kmf_flow_slot(const kmf_embedder *e)
{
    return kmf_wrap(e->first_sent + e->n_sent, e->n_slots);
}
/* The batch being filled. */
static inline kmf_batch *kmf_flow_batch(kmf_embedder *e)
{
    return e->slots[kmf_flow_slot(e)].batch;
}
/* The same with room for a piece of n tokens or letters: another one, if need be. */
int kmf_flow_room(kmf_embedder *e, size_t n, kmf_err *err) KMF_MUST_CHECK;
/* Sends it, if it holds anything; afterwards an empty one stands in its place. */
int kmf_flow_send(kmf_embedder *e, kmf_err *err) KMF_MUST_CHECK;
/* Sends an empty batch; none is being filled. */
int kmf_flow_send_empty(kmf_embedder *e, const kmf_filler *filler, uint64_t number,
                        kmf_err *err) KMF_MUST_CHECK;
/* Would sending wait for a batch? */
bool kmf_flow_is_full(const kmf_embedder *e);
/* Hands out the oldest batch, for which it waits; those that are done, without waiting; or all. */
int kmf_flow_wait(kmf_embedder *e, kmf_err *err) KMF_MUST_CHECK;
int kmf_flow_poll(kmf_embedder *e, kmf_err *err) KMF_MUST_CHECK;
int kmf_flow_collect(kmf_embedder *e, kmf_err *err) KMF_MUST_CHECK;

/* Of one that resumes; false: there is nothing to go on from yet. */
bool kmf_embedder_mark(const kmf_embedder *e, kmf_embed_mark *mark);
/* Before the first record of a run: an earlier one has come so far, and the rows are out. */
void kmf_embedder_given(kmf_embedder *e, const kmf_embed_mark *mark);

/* Drops the record opened last, the only one that is pending. */
void kmf_flow_drop(kmf_embedder *e);
/* Drops whatever is pending: the embedder is as new, its statistics apart. */
void kmf_flow_reset(kmf_embedder *e);

#endif
