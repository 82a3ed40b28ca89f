/* SPDX-License-Identifier: MIT */
/*
 * The streaming pipeline behind `embed`.
 *
 *   add(record) -> pieces -> batch --+ send                   wait +--> pieces -> record -> row
 *                                    +-- [job: the method's work] -+    in input order
 *   batches in a ring of 2t + 1      +-- [job]                   --+
 *
 * What the pieces are, chunks of ids or stretches of letters, and what is added up for each, is
 * the method's business (method.h); what a job does with that is job.h's; who computes, and who
 * helps whom at the end, is crew.h's.
 *
 * The caller's thread cuts, sends and collects; the pool's threads compute. Jobs come back in
 * the order in which they were sent and pieces lie in input order, so one accumulator is enough:
 * a piece belongs to the oldest record that is not complete. Records that are one piece, or one of
 * each strand in one batch, as reads are, need none: the job makes their vectors, and may store
 * them where they belong (rowstore.h), so that nobody else need touch them. Nothing is sorted by
 * length: batches are packed without padding, so there is nothing that sorting would save.
 *
 * Everything is allocated by kmf_embedder_new; a record costs a place in a ring and its name.
 * When the ring of batches or of records is full, the oldest batch is waited for, so memory is
 * bounded by the options and does not grow with the input.
 *
 * Bits. A piece is a function of its sequence and the options (those of frequencies depend on the
 * batch size, but counts are exact); its sum does not depend on the rest of the batch; the sums
 * over pieces run in input order in double. So a vector does not depend on threads, batch size,
 * neighbours, order or shard. The other strand is cut and read from its own beginning, and with
 * both the two vectors are added, and addition commutes: x and its reverse complement get equal
 * bits.
 */
#include "base/err.h"
#include "base/mem.h"
#include "embed/crew.h"
#include "embed/digests.h"
#include "embed/job.h"
#include "embed/rowstore.h"
#include "embed/settings.h"
#include "embed/vector.h"
#include "seq/dna.h"
#include "seq/par.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The windows of a strand. */
typedef struct tally {
    uint64_t tokens, ambiguous, unknown;
} tally;

typedef struct pending {
    const char *source; /* borrowed; where the record came from, or NULL */
    uint64_t number;    /* of the record there, from 1 */
    kmf_row row;        /* name points to the entry's own buffer */
    char *name;         /* owned, reused */
    size_t name_cap;
    tally seen[2]; /* forward, reverse */
    uint64_t unknown;
    bool cut;
    uint64_t n_pieces; /* handed to batches so far */
    uint64_t n_done;   /* collected */
    bool closed;       /* no piece will follow */
} pending;

typedef struct slot {
    kmf_embedder *embedder; /* borrowed */
    kmf_batch *batch;       /* owned */
    int status;             /* of storing its vectors, */
    kmf_err failed;         /* and why */
} slot;

/* Where rows go. */
typedef struct sink {
    kmf_row_fn *fn;      /* NULL: nowhere */
    kmf_store_fn *store; /* NULL: there is none */
    void *user;          /* borrowed; of both */
    uint64_t n_rows;     /* handed out so far */
} sink;

struct kmf_embedder {
    kmf_embed_options opts; /* resolved */
    kmf_method *method;     /* owned */
    size_t dim;

    kmf_pool *pool;       /* owned */
    kmf_queue *queue;     /* owned */
    kmf_digests *digests; /* owned, or NULL */

    slot *slots; /* owned [n_slots], a ring: n_sent under way from first_sent on, then
                               the one being filled */
    size_t n_slots;
    size_t first_sent;
    size_t n_sent;
    bool spare_core;         /* for the caller's thread beside the workers' */
    _Atomic(slot *) awaited; /* that the caller waits for */
    kmf_crew crew;

    pending *records; /* owned [n_records], a ring */
    size_t n_records;
    size_t first_record;
    size_t n_pending;
    kmf_sum sums[2]; /* values owned; of the oldest pending record: forward, reverse */
    float *vector;   /* owned [dim] */

    sink to;
    kmf_progress_fn *progress;
    void *progress_user;
    uint64_t tokens_done;
    const char *source;   /* borrowed; of the records being added */
    uint64_t n_seen;      /* records given, those of other shards too */
    uint64_t source_seen; /* of them, those that were given before this source */
    kmf_embed_stats stats;
};

/* ---------------------------------------------------------------- making one ------------ */

static bool takes_ids(const kmf_embedder *e)
{
    return kmf_method_takes_ids(e->method);
}

static bool per_token(const kmf_embedder *e)
{
    return e->opts.pooling == KMF_POOL_NONE;
}

static int make_batches(kmf_embedder *e, kmf_err *err)
{
    size_t threads = (size_t)e->opts.threads;
    if (kmf_crew_init(&e->crew, e->method, e->opts.threads, err) < 0)
        return KMF_ENOMEM;
    e->spare_core = e->opts.threads < kmf_threads_default();
    e->n_slots = 2 * threads + 1;
    e->slots = kmf_calloc(e->n_slots, sizeof *e->slots, err);
    if (!e->slots)
        return KMF_ENOMEM;
    for (size_t i = 0; i < e->n_slots; i++) {
        e->slots[i].embedder = e;
        e->slots[i].batch = kmf_batch_new(&e->method->shape, err);
        if (!e->slots[i].batch)
            return KMF_ENOMEM;
    }
    e->n_records = 2 * e->n_slots * e->method->shape.cap_pieces;
    e->records = kmf_calloc(e->n_records, sizeof *e->records, err);
    e->vector = kmf_floats(e->dim, err);
    e->sums[0].values = kmf_calloc(e->dim, sizeof(double), err);
    e->sums[1].values = kmf_calloc(e->dim, sizeof(double), err);
    if (!e->records || !e->vector || !e->sums[0].values || !e->sums[1].values)
        return KMF_ENOMEM;
    return 0;
}

static void clear_sums(kmf_embedder *e)
{
    for (int s = 0; s < 2; s++) {
        e->sums[s].tokens = 0;
        e->sums[s].weight = 0;
        for (size_t d = 0; d < e->dim; d++)
            e->sums[s].values[d] = e->opts.pooling == KMF_POOL_MAX ? -HUGE_VAL : 0;
    }
}

kmf_embedder *kmf_embedder_new(const char *model, const kmf_embed_options *opts, kmf_err *err)
{
    kmf_embedder *e = kmf_calloc(1, sizeof *e, err);
    if (!e)
        return NULL;
    e->opts = *opts;
    if (kmf_settings_common(&e->opts, err) < 0)
        goto fail;
    e->method = kmf_method_open(model, &e->opts, err);
    if (!e->method)
        goto fail;
    e->dim = e->method->shape.dim;
    e->pool = kmf_pool_new(e->opts.threads, err);
    if (!e->pool)
        goto fail;
    if (e->opts.provenance)
        e->digests = kmf_digests_begin(e->method, e->pool, err);
    if (e->opts.provenance && !e->digests)
        goto fail;
    if (e->method->kind->prepare && e->method->kind->prepare(e->method, &e->opts, err) < 0)
        goto fail;
    if (make_batches(e, err) < 0)
        goto fail;
    e->queue = kmf_queue_new(e->pool, (int)e->n_slots, err);
    if (!e->queue)
        goto fail;
    clear_sums(e);
    return e;
fail:
    kmf_embedder_free(e);
    return NULL;
}

void kmf_embedder_free(kmf_embedder *embedder)
{
    kmf_embedder *e = embedder;
    if (!e)
        return;
    kmf_digests_free(e->digests);
    kmf_queue_free(e->queue);
    kmf_pool_free(e->pool);
    for (size_t i = 0; e->slots && i < e->n_slots; i++)
        kmf_batch_free(e->slots[i].batch);
    for (size_t i = 0; e->records && i < e->n_records; i++)
        kmf_free(e->records[i].name);
    kmf_crew_free(&e->crew);
    kmf_free(e->slots);
    kmf_free(e->records);
    kmf_free(e->sums[0].values);
    kmf_free(e->sums[1].values);
    kmf_free(e->vector);
    kmf_method_free(e->method);
    kmf_free(e);
}

size_t kmf_embedder_dim(const kmf_embedder *embedder)
{
    return embedder->dim;
}

void kmf_embedder_options(const kmf_embedder *embedder, kmf_embed_options *opts)
{
    *opts = embedder->opts;
}

kmf_pool *kmf_embedder_pool(kmf_embedder *embedder)
{
    return embedder->pool;
}

const char *kmf_embedder_name(const kmf_embedder *embedder)
{
    return embedder->method->name;
}

const kmf_model *kmf_embedder_model(const kmf_embedder *embedder)
{
    return embedder->method->model;
}

const kmf_vectors_info *kmf_embedder_vectors(const kmf_embedder *embedder)
{
    return embedder->method->vectors;
}

const kmf_method *kmf_embedder_method(const kmf_embedder *embedder)
{
    return embedder->method;
}

kmf_digests *kmf_embedder_digests(const kmf_embedder *embedder)
{
    return embedder->digests;
}

size_t kmf_embedder_bytes(const kmf_embedder *embedder)
{
    const kmf_embedder *e = embedder;
    return e->n_slots * kmf_batch_bytes(&e->method->shape) + e->n_records * sizeof(pending) +
           e->method->kind->bytes(e->method);
}

void kmf_embedder_sink(kmf_embedder *embedder, kmf_row_fn *fn, void *user)
{
    kmf_embedder_store(embedder, fn, NULL, user);
}

void kmf_embedder_store(kmf_embedder *embedder, kmf_row_fn *fn, kmf_store_fn *store, void *user)
{
    embedder->to = (sink){.fn = fn, .store = store, .user = user};
}

void kmf_embedder_progress(kmf_embedder *embedder, kmf_progress_fn *fn, void *user)
{
    embedder->progress = fn;
    embedder->progress_user = user;
}

void kmf_embedder_source(kmf_embedder *embedder, const char *source)
{
    embedder->source = source;
    embedder->source_seen = embedder->n_seen;
}

void kmf_embedder_statistics(const kmf_embedder *embedder, kmf_embed_stats *stats)
{
    *stats = embedder->stats;
}

/* ---------------------------------------------------------------- a record's end -------- */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* With both strands the larger count of the two; with a stride of 1 they are the same. */
static void tell_tally(pending *p)
{
    const tally *fwd = &p->seen[0];
    const tally *rc = &p->seen[1];
    p->row.tokens = larger(fwd->tokens, rc->tokens);
    p->row.ambiguous = larger(fwd->ambiguous, rc->ambiguous);
    p->unknown = larger(fwd->unknown, rc->unknown);
}

static void fill_nan(float *vector, size_t dim)
{
    for (size_t d = 0; d < dim; d++)
        vector[d] = NAN;
}

/* "reads.fq: record 812 'name': what". */
static int fail_record(const pending *p, kmf_code code, const char *what, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    return kmf_fail(err, code, "%s%srecord %llu '%s': %s", p->source ? p->source : "",
                    p->source ? ": " : "", (unsigned long long)p->number,
                    kmf_err_show(shown, p->row.name), what);
}

/*
 * What a failure says of a record, "record 'name': what", is said with its number and where it came
 * from. Returns status.
 */
static int with_source(const pending *p, int status, kmf_err *err)
{
    kmf_err told = {0};
    if (status == 0 || !err || strncmp(err->msg, "record '", 8) != 0)
        return status;
    kmf_fail(&told, err->code, "record %llu %s", (unsigned long long)p->number,
             err->msg + strlen("record "));
    if (p->source)
        kmf_err_prefix(&told, p->source);
    *err = told;
    return status;
}

static int fail_not_finite(const pending *p, kmf_err *err)
{
    return fail_record(p, KMF_ENUMERIC, "the model gives a vector that is not finite", err);
}

static int check_strict(const pending *p, const char *unknown, kmf_err *err)
{
    char text[128];
    const char *what = NULL;
    if (p->row.tokens == 0)
        what = "no valid k-mer";
    else if (p->cut)
        what = "k-mers left out";
    else if (p->row.chunks > 1)
        what = "more than one chunk";
    else if (p->row.ambiguous > 0)
        what = "ambiguous letters";
    else if (p->unknown > 0)
        what = unknown;
    if (!what)
        return 0;
    snprintf(text, sizeof text, "%s, and --strict was asked for", what);
    return fail_record(p, KMF_EFORMAT, text, err);
}

static void count_record(kmf_embed_stats *s, const pending *p)
{
    s->records++;
    s->bases += p->row.len;
    s->tokens += p->row.tokens;
    s->ambiguous += p->row.ambiguous;
    s->unknown += p->unknown;
    s->chunked += p->row.chunks > 1;
    s->truncated += p->cut;
    s->empty += p->row.tokens == 0;
}

/*
 * Hands out the oldest record, which is complete; made: the piece whose job has made its vector,
 * `whole`, else NULL. Per token its rows are out already.
 */
static int emit(kmf_embedder *e, const kmf_piece *made, const float *whole, kmf_err *err)
{
    pending *p = &e->records[e->first_record];
    bool finite = made && made->finite;
    if (!takes_ids(e)) {
        tell_tally(p);
        p->row.chunks = p->row.tokens > 0;
    }
    bool empty = per_token(e) || whole ? p->row.tokens == 0
                                       : e->sums[0].tokens == 0 && e->sums[1].tokens == 0;
    int status = e->opts.strict ? check_strict(p, e->method->kind->unknown, err) : 0;
    if (status == 0 && (!per_token(e) || empty)) {
        if (empty) {
            fill_nan(e->vector, e->dim);
        } else if (!whole) {
            kmf_sums_vector(e->method, &e->opts, e->vector, e->sums);
            kmf_vector_finite(e->vector, e->dim, &finite);
        }
        p->row.vector = whole && !empty ? whole : e->vector;
        if (made && made->stored)
            p->row.vector = NULL;
        if (!empty && !finite)
            status = fail_not_finite(p, err);
        p->row.position = -1;
        if (status == 0 && e->to.fn)
            status = with_source(p, e->to.fn(e->to.user, &p->row, err), err);
    }
    count_record(&e->stats, p);
    e->to.n_rows += status == 0;
    if (!whole)
        clear_sums(e);
    e->first_record = (e->first_record + 1) % e->n_records;
    e->n_pending--;
    return status;
}

static int emit_complete(kmf_embedder *e, kmf_err *err)
{
    while (e->n_pending > 0) {
        const pending *p = &e->records[e->first_record];
        if (!p->closed || p->n_done < p->n_pieces)
            return 0;
        int status = emit(e, NULL, NULL, err);
        if (status < 0)
            return status;
    }
    return 0;
}

/* ---------------------------------------------------------------- batches --------------- */

static void *work(void *arg)
{
    slot *s = arg;
    kmf_embedder *e = s->embedder;
    int room = kmf_crew_enter(&e->crew, kmf_pool_worker(e->pool));
    kmf_job_work(e->method, &e->opts, s->batch, room);
    kmf_crew_leave(&e->crew, room);
    /* where the caller is idle, and has a core, its writing the rows holds up the run less */
    bool idle = e->spare_core && atomic_load(&e->awaited) == s;
    s->status = 0;
    s->failed = (kmf_err){0};
    if (e->to.store && !idle)
        s->status = kmf_store_batch(s->batch, e->to.store, e->to.user, &s->failed);
    return s;
}

static void count_piece(tally *seen, const kmf_piece *piece)
{
    seen->tokens += piece->tokens;
    seen->ambiguous += piece->ambiguous;
    seen->unknown += piece->unknown;
}

static void add_piece(kmf_embedder *e, const kmf_piece *piece, const double *values)
{
    kmf_sum *s = &e->sums[piece->reverse];
    s->tokens += piece->tokens;
    s->weight += piece->weight;
    if (e->opts.pooling == KMF_POOL_MAX)
        for (size_t d = 0; d < e->dim; d++)
            s->values[d] = kmf_greater(s->values[d], values[d]);
    else
        for (size_t d = 0; d < e->dim; d++)
            s->values[d] += values[d];
}

static int emit_tokens(kmf_embedder *e, pending *p, kmf_batch *b, const kmf_piece *piece,
                       kmf_err *err)
{
    for (size_t i = 0; i < piece->tokens; i++) {
        float *vector = b->rows + (piece->row_beg + i) * e->dim;
        bool finite;
        kmf_vector_finite(vector, e->dim, &finite);
        int status = finite ? 0 : fail_not_finite(p, err);
        kmf_vector_norm(vector, e->dim, e->method->first, (kmf_norm)e->opts.norm);
        p->row.vector = vector;
        p->row.position = (int64_t)b->row_pos[piece->row_beg + i];
        if (status == 0 && e->to.fn)
            status = with_source(p, e->to.fn(e->to.user, &p->row, err), err);
        if (status < 0)
            return status;
    }
    return 0;
}

/* Gives the pieces of the oldest batch, which is done, to their records. */
static int hand_out(kmf_embedder *e, kmf_batch *b, kmf_err *err)
{
    int status = 0;
    for (size_t i = 0; i < b->n_pieces && status == 0; i++) {
        const kmf_piece *piece = &b->pieces[i];
        status = emit_complete(e, err);
        if (status < 0)
            break;
        pending *p = &e->records[e->first_record];
        assert(e->n_pending > 0 && p->n_done < p->n_pieces);
        p->n_done++;
        e->tokens_done += piece->tokens;
        if (!takes_ids(e))
            count_piece(&p->seen[piece->reverse], piece);
        if (per_token(e))
            status = emit_tokens(e, p, b, piece, err);
        else if (piece->whole)
            status = emit(e, piece, kmf_batch_vector(b, piece), err);
        else if (!piece->half)
            add_piece(e, piece, b->sums + piece->sum_beg);
    }
    kmf_batch_clear(b);
    if (e->progress)
        e->progress(e->progress_user, e->tokens_done);
    return status < 0 ? status : emit_complete(e, err);
}

/* Waits for the oldest batch. */
static int collect(kmf_embedder *e, kmf_err *err)
{
    assert(e->n_sent > 0);
    atomic_store(&e->awaited, &e->slots[e->first_sent]);
    slot *s = kmf_queue_wait(e->queue);
    atomic_store(&e->awaited, NULL);
    e->first_sent = (e->first_sent + 1) % e->n_slots;
    e->n_sent--;
    if (s->status < 0)
        return kmf_fail(err, s->failed.code, "%s", s->failed.msg);
    return hand_out(e, s->batch, err);
}

static kmf_batch *filling(kmf_embedder *e)
{
    return e->slots[(e->first_sent + e->n_sent) % e->n_slots].batch;
}

/* Sends the batch being filled; afterwards an empty one stands in its place. */
static int send(kmf_embedder *e, kmf_err *err)
{
    slot *s = &e->slots[(e->first_sent + e->n_sent) % e->n_slots];
    if (s->batch->n_pieces == 0)
        return 0;
    kmf_crew_expect(&e->crew);
    int status = kmf_queue_send(e->queue, work, s, err);
    if (status < 0) {
        kmf_crew_call_off(&e->crew);
        return status;
    }
    e->n_sent++;
    return e->n_sent == e->n_slots ? collect(e, err) : 0;
}

static int make_room(kmf_embedder *e, size_t n_units, kmf_err *err)
{
    return kmf_batch_fits(filling(e), n_units) ? 0 : send(e, err);
}

/* ---------------------------------------------------------------- adding records -------- */

static int open_record(kmf_embedder *e, const char *name, size_t len, kmf_err *err)
{
    while (e->n_pending == e->n_records) {
        int status = e->n_sent > 0 ? collect(e, err) : send(e, err);
        if (status < 0)
            return status;
    }
    pending *p = &e->records[(e->first_record + e->n_pending) % e->n_records];
    size_t n = strlen(name) + 1;
    if (kmf_grow(&p->name, &p->name_cap, n, 1, err) < 0)
        return KMF_ENOMEM;
    memcpy(p->name, name, n);
    *p = (pending){.name = p->name,
                   .name_cap = p->name_cap,
                   .source = e->source,
                   .number = e->n_seen - e->source_seen + 1,
                   .row = {.index = e->n_seen, .name = p->name, .len = len}};
    e->n_pending++;
    return 0;
}

/* The record being added. */
static pending *newest(kmf_embedder *e)
{
    return &e->records[(e->first_record + e->n_pending - 1) % e->n_records];
}

static void take_stats(kmf_embedder *e, int reverse)
{
    kmf_cut_stats s;
    pending *p = newest(e);
    kmf_cutter_statistics(e->method->cutters[reverse], &s);
    p->seen[reverse] = (tally){s.tokens, s.ambiguous, s.unknown};
    p->row.chunks = larger(p->row.chunks, s.chunks);
    p->cut = p->cut || s.cut;
    tell_tally(p);
}

static int drain_cutter(kmf_cutter *cutter, kmf_err *err)
{
    kmf_chunk chunk;
    int got;
    while ((got = kmf_cutter_next(cutter, &chunk, err)) > 0)
        continue;
    return got;
}

static bool owns_a_kmer(const kmf_chunk *chunk)
{
    for (size_t i = chunk->own_beg; i < chunk->own_end; i++)
        if (chunk->real[i])
            return true;
    return false;
}

static int add_chunks(kmf_embedder *e, const char *name, const char *seq, size_t len,
                      int reverse, kmf_err *err)
{
    kmf_cutter *cutter = e->method->cutters[reverse];
    kmf_chunk chunk;
    int got;
    if (per_token(e)) { /* rows go out before the end is seen: count first */
        kmf_cutter_start(cutter, name, seq, len);
        got = drain_cutter(cutter, err);
        if (got < 0)
            return with_source(newest(e), got, err);
        take_stats(e, reverse);
    }
    kmf_cutter_start(cutter, name, seq, len);
    while ((got = kmf_cutter_next(cutter, &chunk, err)) > 0) {
        if (!owns_a_kmer(&chunk))
            continue;
        int status = make_room(e, chunk.n, err);
        if (status < 0)
            return status;
        kmf_batch_add_chunk(filling(e), &chunk, reverse != 0);
        newest(e)->n_pieces++;
    }
    return with_source(newest(e), got, err);
}

static int check_bases(const char *name, const char *seq, size_t len, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    for (size_t i = 0; i < len; i++)
        if (kmf_base_code[(unsigned char)seq[i]] > 3)
            return kmf_fail(err, KMF_EFORMAT,
                            "record '%s': base %zu is '%c', not A, C, G, T or U",
                            kmf_err_show(shown, name), i + 1, kmf_err_letter(seq[i]));
    return 0;
}

/*
 * Of the reverse complement, too, from its beginning on: as the letters stand in the sequence,
 * which a job turns round.
 */
static int add_stretches(kmf_embedder *e, const char *seq, size_t len, int reverse,
                         kmf_err *err)
{
    kmf_stretch cut = e->method->stretch;
    for (size_t left = len; left >= cut.least;) {
        size_t n = left < cut.span ? left : cut.span;
        size_t n_own = n < cut.step ? n : cut.step;
        const char *letters = reverse ? seq + (left - n) : seq + (len - left);
        int status = make_room(e, n, err);
        if (status < 0)
            return status;
        kmf_batch_add_letters(filling(e), letters, n, n_own, reverse != 0);
        newest(e)->n_pieces++;
        left -= left < cut.step ? left : cut.step;
    }
    return 0;
}

static int add_record(kmf_embedder *e, const char *name, const char *seq, size_t len,
                      kmf_err *err)
{
    bool strands[2] = {e->opts.strand != KMF_STRAND_RC, e->opts.strand != KMF_STRAND_FWD};
    int status = open_record(e, name, len, err);
    if (status == 0 && !takes_ids(e) && e->opts.ambiguous == KMF_AMBIGUOUS_ERROR)
        status = with_source(newest(e), check_bases(name, seq, len, err), err);
    for (int reverse = 0; reverse < 2 && status == 0; reverse++) {
        if (!strands[reverse])
            continue;
        status = takes_ids(e) ? add_chunks(e, name, seq, len, reverse, err)
                              : add_stretches(e, seq, len, reverse, err);
        if (takes_ids(e) && status == 0)
            take_stats(e, reverse);
    }
    if (status < 0)
        return status;
    newest(e)->closed = true;
    if (!per_token(e) && kmf_batch_close(filling(e), newest(e)->n_pieces))
        kmf_batch_last(filling(e))->row = e->to.n_rows + e->n_pending - 1;
    return emit_complete(e, err);
}

/* Drops whatever is pending: after a failure the embedder is as new. */
static void reset(kmf_embedder *e)
{
    for (; e->n_sent > 0; e->n_sent--)
        (void)kmf_queue_wait(e->queue);
    kmf_crew_reset(&e->crew);
    for (size_t i = 0; i < e->n_slots; i++)
        kmf_batch_clear(e->slots[i].batch);
    e->n_pending = 0;
    e->n_seen = 0;
    e->source_seen = 0;
    clear_sums(e);
}

int kmf_embedder_add(kmf_embedder *embedder, const char *name, const char *seq, size_t len,
                     kmf_err *err)
{
    kmf_embedder *e = embedder;
    int status = 0;
    if (e->n_seen % e->opts.n_shards == e->opts.shard) {
        status = add_record(e, name, seq, len, err);
        if (status < 0) {
            reset(e);
            return status;
        }
    }
    e->n_seen++;
    return 0;
}

/* Hands out all batches that were sent. */
static int collect_all(kmf_embedder *e, kmf_err *err)
{
    int status = 0;
    while (status == 0 && e->n_sent > 0)
        status = collect(e, err);
    return status;
}

/* The end of a run: the last thread collects, the others help. */
typedef struct ending {
    kmf_embedder *embedder;
    int n_helpers;
    int status;
    kmf_err *err;
} ending;

static void end(void *arg, int thread)
{
    ending *x = arg;
    kmf_embedder *e = x->embedder;
    if (thread == x->n_helpers) {
        x->status = collect_all(e, x->err);
        return;
    }
    kmf_crew_join(&e->crew, thread);
}

int kmf_embedder_finish(kmf_embedder *embedder, kmf_err *err)
{
    kmf_embedder *e = embedder;
    ending x = {.embedder = e, .err = err};
    x.status = send(e, err);
    if (x.status == 0)
        x.n_helpers = kmf_crew_missing(&e->crew);
    if (x.status == 0 && (x.n_helpers == 0 || kmf_together(x.n_helpers + 1, end, &x, NULL) < 0))
        x.status = collect_all(e, err);
    assert(x.status < 0 || e->n_pending == 0);
    reset(e);
    return x.status;
}

/* ---------------------------------------------------------------- one sequence ---------- */

typedef struct one_vector {
    float *vector;
    size_t dim;
} one_vector;

static int keep_vector(void *user, const kmf_row *row, kmf_err *err)
{
    one_vector *one = user;
    (void)err;
    memcpy(one->vector, row->vector, one->dim * sizeof *one->vector);
    return 0;
}

int kmf_embed_sequence(kmf_embedder *embedder, float *vector, const char *seq, kmf_err *err)
{
    one_vector one = {.vector = vector, .dim = embedder->dim};
    if (per_token(embedder))
        return kmf_fail(err, KMF_EINVAL, "one vector was asked for, and one per token");
    if (embedder->opts.n_shards > 1 || embedder->n_seen > 0)
        return kmf_fail(err, KMF_EINVAL,
                        "one vector was asked for amid other records or of a shard");
    sink before = embedder->to;
    kmf_embedder_sink(embedder, keep_vector, &one);
    int status = kmf_embedder_add(embedder, "sequence", seq, strlen(seq), err);
    if (status == 0)
        status = kmf_embedder_finish(embedder, err);
    embedder->to = before;
    return status;
}
