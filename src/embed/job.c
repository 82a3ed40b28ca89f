/* SPDX-License-Identifier: MIT */
#include "embed/job.h"

#include "embed/vector.h"

#include <string.h>

/*
 * The mean of the strands that have a k-mer: with a stride beyond 1 the windows of the two
 * differ, and those of one may all touch an N.
 */
static void join_strands(float *vector, const kmf_sum strands[2], bool maxima, size_t dim)
{
    const kmf_sum *fwd = &strands[0], *rc = &strands[1];
    double w_fwd = maxima ? 1 : fwd->weight;
    double w_rc = maxima ? 1 : rc->weight;
    if (rc->tokens == 0)
        kmf_vector_mean(vector, fwd->values, w_fwd, dim);
    else if (fwd->tokens == 0)
        kmf_vector_mean(vector, rc->values, w_rc, dim);
    else
        for (size_t d = 0; d < dim; d++)
            vector[d] = (float)((fwd->values[d] / w_fwd + rc->values[d] / w_rc) / 2);
}

/* The vectors of n records, which are the means of their strands, as they are to be. */
static void end_vectors(const kmf_method *method, const kmf_embed_options *opts,
                        float *const *vectors, size_t n)
{
    if (method->kind->finish)
        method->kind->finish(method, vectors, n);
    for (size_t i = 0; i < n; i++)
        kmf_vector_norm(vectors[i], method->shape.dim, method->first, (kmf_norm)opts->norm);
}

void kmf_sums_vector(const kmf_method *method, const kmf_embed_options *opts, float *vector,
                     const kmf_sum strands[2])
{
    join_strands(vector, strands, opts->pooling == KMF_POOL_MAX, method->shape.dim);
    end_vectors(method, opts, &vector, 1);
}

/* ---------------------------------------------------------------- a batch --------------- */

#define AT_ONCE 16                      /* records whose vectors are ended together */
#define STORE_BYTES ((size_t)512 << 10) /* of vectors that are stored together */

/* A walk along the pieces of a batch: their sums and vectors lie one behind the other. */
typedef struct walk {
    const kmf_method *method;
    const kmf_embed_options *opts;
    kmf_batch *batch;
    const kmf_rowstore *store;
    size_t n_offered;           /* pieces: their vectors, if any, were offered to the store */
    size_t kept;                /* floats, of all that must stay where it is */
    size_t end;                 /* of what has its place, in floats */
    kmf_sum strands[2];         /* of the record under way, if it is there as a whole */
    kmf_piece *joined[AT_ONCE]; /* [n_joined] of records whose vectors are not ended yet */
    size_t n_joined;
} walk;

/* The place of a sum. */
static double *place_sum(walk *w, kmf_piece *p)
{
    p->sum_beg = (w->end + 1) / 2;
    w->kept = w->end = 2 * (p->sum_beg + w->batch->dim);
    return w->batch->sums + p->sum_beg;
}

static float *place_vector(walk *w, kmf_piece *p)
{
    p->sum_beg = w->end;
    w->end += w->batch->dim;
    return kmf_batch_vector(w->batch, p);
}

static void end_joined(walk *w)
{
    float *vectors[AT_ONCE];
    for (size_t i = 0; i < w->n_joined; i++)
        vectors[i] = kmf_batch_vector(w->batch, w->joined[i]);
    end_vectors(w->method, w->opts, vectors, w->n_joined);
    for (size_t i = 0; i < w->n_joined; i++) {
        kmf_vector_finite(vectors[i], w->batch->dim, &w->joined[i]->finite);
        if (w->joined[i]->copy)
            memcpy(w->joined[i]->copy, vectors[i], w->batch->dim * sizeof *vectors[i]);
    }
    w->n_joined = 0;
}

/* The vector of the piece's record lies at its place; of one without tokens there is none. */
static void join(walk *w, kmf_piece *p, uint64_t tokens)
{
    if (tokens == 0)
        return;
    w->joined[w->n_joined++] = p;
    if (w->n_joined == AT_ONCE)
        end_joined(w);
}

/*
 * A piece of a record that is there as a whole adds these values [dim], and the last one makes its
 * vector, which may take the place of the values.
 */
static void take_whole(walk *w, kmf_piece *p, double *values)
{
    kmf_batch *b = w->batch;
    w->strands[p->reverse] =
        (kmf_sum){.values = values, .weight = p->weight, .tokens = p->tokens};
    if (p->half)
        return;
    float *place = place_vector(w, p);
    uint64_t tokens = w->strands[0].tokens + w->strands[1].tokens;
    if (tokens > 0) {
        join_strands(b->vector, w->strands, w->opts->pooling == KMF_POOL_MAX, b->dim);
        memcpy(place, b->vector, b->dim * sizeof *place);
    }
    join(w, p, tokens);
    memset(w->strands, 0, sizeof w->strands);
}

/* Offers the vectors of pieces before `end`; the places of those that are stored are free. */
static int store_vectors(walk *w, size_t end, kmf_err *err)
{
    end_joined(w);
    int stored = kmf_store_pieces(w->batch, w->n_offered, end, w->store, err);
    if (stored < 0)
        return stored;
    w->n_offered = end;
    if (stored)
        w->end = w->kept;
    else
        w->kept = w->end;
    return 0;
}

/* Room for the sum of piece i: 0; 1: there is none; or a failure. */
static int make_room(walk *w, size_t i, kmf_err *err)
{
    const kmf_batch *b = w->batch;
    if (b->n_pieces <= b->cap_sums)
        return 0; /* for all of them, which are stored when they are done */
    size_t last = 2 * (b->cap_sums - 1) * b->dim; /* place of a sum */
    bool many = (w->end - w->kept) * sizeof(float) >= STORE_BYTES;
    if (w->store->all && (many || w->end > last)) {
        int status = store_vectors(w, i, err);
        if (status < 0)
            return status;
    }
    return w->end > last;
}

static int work_stretches(walk *w, int worker, kmf_err *err)
{
    const kmf_method *m = w->method;
    kmf_batch *b = w->batch;
    kmf_batch_turn(b);
    m->kind->start(m, b, worker);
    for (size_t i = 0; i < b->n_pieces; i++) {
        kmf_piece *p = &b->pieces[i];
        int status = make_room(w, i, err);
        if (status != 0)
            return status;
        if (p->whole && (i == 0 || !p[-1].half)) {
            m->kind->vector(m, b, p, place_vector(w, p), worker);
            join(w, p, p->tokens);
        } else if (p->half || p->whole) {
            double *values = b->sum + (p->half ? b->dim : 0);
            m->kind->piece(m, b, p, values, worker);
            take_whole(w, p, values);
        } else {
            m->kind->piece(m, b, p, place_sum(w, p), worker);
        }
    }
    return 0;
}

/* No piece's sum has its new place behind the one that the method gave it. */
static void work_chunks(walk *w, int worker)
{
    kmf_batch *b = w->batch;
    w->method->kind->work(w->method, b, worker);
    for (size_t i = 0; i < b->n_pieces && b->sums; i++) {
        kmf_piece *p = &b->pieces[i];
        double *values = b->sums + p->sum_beg;
        if (p->half || p->whole)
            take_whole(w, p, values);
        else
            memmove(place_sum(w, p), values, b->dim * sizeof *values);
    }
}

int kmf_job_work(const kmf_method *method, const kmf_embed_options *opts, kmf_batch *batch,
                 int worker, const kmf_rowstore *store, kmf_err *err)
{
    walk w = {.method = method, .opts = opts, .batch = batch, .store = store};
    int status = 0;
    if (kmf_method_takes_ids(method))
        work_chunks(&w, worker);
    else
        status = work_stretches(&w, worker, err);
    end_joined(&w);
    return status;
}
