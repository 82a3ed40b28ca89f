/* SPDX-License-Identifier: MIT */
#include "embed/flow.h"

#include "base/err.h"
#include "base/mem.h"
#include "embed/vector.h"
#include "model/config.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NAME_KEPT ((size_t)256) /* bytes; the room of a longer one is not kept for another */
#define LONG_NAMES ((size_t)1 << 20) /* bytes of longer ones that go with a batch */

/* ---------------------------------------------------------------- making one ------------ */

static void clear_sums(kmf_embedder *e)
{
    for (int s = 0; s < 2; s++) {
        e->sums[s].tokens = 0;
        e->sums[s].weight = 0;
        for (size_t d = 0; d < e->dim; d++)
            e->sums[s].values[d] = e->opts.pooling == KMF_POOL_MAX ? -HUGE_VAL : 0;
    }
}

int kmf_flow_begin(kmf_embedder *e, kmf_err *err)
{
    size_t threads = (size_t)e->opts.threads;
    if (kmf_workers_init(&e->workers, e->method, e->opts.threads, err) < 0)
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
    e->n_records = kmf_max(2 * e->n_slots * e->method->shape.cap_pieces, kmf_read_records(e));
    e->records = kmf_calloc(e->n_records, sizeof *e->records, err);
    e->vector = kmf_floats(e->dim, err);
    e->sums[0].values = kmf_calloc(e->dim, sizeof(double), err);
    e->sums[1].values = kmf_calloc(e->dim, sizeof(double), err);
    if (!e->records || !e->vector || !e->sums[0].values || !e->sums[1].values)
        return KMF_ENOMEM;
    clear_sums(e);
    if (kmf_method_takes_ids(e->method) && !kmf_flow_per_token(e) &&
        kmf_has_states((kmf_vector_parts)e->opts.parts)) {
        e->repeats = kmf_repeats_new(e->dim, err);
        if (!e->repeats)
            return KMF_ENOMEM;
    }
    e->queue = kmf_queue_new(e->pool, (int)e->n_slots, err);
    return e->queue ? 0 : KMF_ENOMEM;
}

void kmf_flow_end(kmf_embedder *e)
{
    for (size_t i = 0; e->slots && i < e->n_slots; i++)
        kmf_batch_free(e->slots[i].batch);
    for (size_t i = 0; e->records && i < e->n_records; i++)
        kmf_free(e->records[i].name);
    kmf_workers_free(&e->workers);
    kmf_repeats_free(e->repeats);
    kmf_free(e->slots);
    kmf_free(e->records);
    kmf_free(e->sums[0].values);
    kmf_free(e->sums[1].values);
    kmf_free(e->vector);
}

/* ---------------------------------------------------------------- a record's end -------- */

/* With both strands the larger count of the two; with a stride of 1 they are the same. */
void kmf_flow_tell(kmf_pending *p)
{
    const kmf_strand_tally *fwd = &p->seen.strands[0];
    const kmf_strand_tally *rc = &p->seen.strands[1];
    p->row.tokens = kmf_max(fwd->tokens, rc->tokens);
    p->row.ambiguous = kmf_max(fwd->ambiguous, rc->ambiguous);
    p->unknown = kmf_max(fwd->unknown, rc->unknown);
    p->row.chunks = p->seen.chunks;
}

/* That of a record without a k-mer. */
static const float *no_vector(kmf_embedder *e)
{
    for (size_t d = 0; d < e->dim; d++)
        e->vector[d] = NAN;
    return e->vector;
}

/* That of the oldest record, by what its pieces add up to. */
static const float *end_sums(kmf_embedder *e, bool *finite)
{
    kmf_sums_vector(e->method, &e->opts, e->vector, e->sums);
    kmf_vector_finite(e->vector, e->dim, finite);
    return e->vector;
}

/* "reads.fq: record 812 'name': what". */
static int fail_record(const kmf_pending *p, kmf_code code, const char *what, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    return kmf_fail(err, code, "%s%srecord %llu '%s': %s", p->source ? p->source : "",
                    p->source ? ": " : "", (unsigned long long)p->number,
                    kmf_err_show(shown, p->row.name), what);
}

void kmf_flow_tell_source(const kmf_pending *p, kmf_err *err)
{
    kmf_err told = {0};
    if (!err || strncmp(err->msg, "record '", 8) != 0)
        return;
    kmf_fail(&told, err->code, "record %llu %s", (unsigned long long)p->number,
             err->msg + strlen("record "));
    if (p->source)
        kmf_err_prefix(&told, p->source);
    *err = told;
}

/* Its row, to whoever takes rows. */
static int give_row(kmf_embedder *e, const kmf_pending *p, kmf_err *err)
{
    e->calling = true;
    int answer = e->to.fn(e->to.store.user, &p->row, err);
    e->calling = false;
    return kmf_flow_source(p, kmf_answered(answer, err), err);
}

static int fail_not_finite(const kmf_pending *p, kmf_err *err)
{
    return fail_record(p, KMF_ENUMERIC, "the model gives a vector that is not finite", err);
}

static int check_strict(const kmf_pending *p, const char *unknown, kmf_err *err)
{
    char text[128];
    const char *what = NULL;
    if (p->seen.cut)
        what = "k-mers left out";
    else if (p->row.tokens == 0)
        what = "no valid k-mer";
    else if (p->row.chunks > 1)
        what = "more than one chunk";
    else if (p->row.ambiguous > 0)
        what = "ambiguous letters";
    else if (p->unknown > 0)
        what = unknown;
    if (!what)
        return 0;
    snprintf(text, sizeof text, "%s, and strict was asked for", what);
    return fail_record(p, KMF_EFORMAT, text, err);
}

void kmf_embed_stats_add(kmf_embed_stats *stats, const kmf_cut_stats *record)
{
    stats->ambiguous += record->ambiguous;
    stats->unknown += record->unknown;
    stats->chunked += record->chunks > 1;
    stats->truncated += record->cut != 0;
    stats->empty += record->tokens == 0 && !(record->cut && record->chunks == 0);
}

static void count_record(kmf_embed_stats *s, const kmf_pending *p)
{
    const kmf_cut_stats record = {p->row.tokens, p->row.ambiguous, p->unknown, p->row.chunks,
                                  p->seen.cut};
    s->records++;
    s->bases += p->row.len;
    s->tokens += p->row.tokens;
    kmf_embed_stats_add(s, &record);
}

/* Its sequence was met before: what came of that one. */
static void repeat(kmf_embedder *e, kmf_pending *p)
{
    p->seen = p->met->tally;
    kmf_flow_tell(p);
    e->tokens_done += p->seen.strands[0].tokens + p->seen.strands[1].tokens;
    e->n_repeats++;
}

/* Its place; what came of it stays there. whole: its job has put the vector there. */
static void release(const kmf_embedder *e, const kmf_pending *p, bool empty, bool whole)
{
    if (!p->met)
        return;
    p->met->held--;
    if (p->repeats)
        return;
    p->met->tally = p->seen;
    p->met->empty = empty;
    if (!empty && !whole)
        memcpy(p->met->vector, e->vector, e->dim * sizeof *e->vector);
}

/*
 * Hands out the oldest record, which is complete; made: the piece whose job has made its vector,
 * `whole`, else NULL. Per token its rows are out already.
 */
static int emit(kmf_embedder *e, const kmf_piece *made, const float *whole, kmf_err *err)
{
    kmf_pending *p = &e->records[e->first_record];
    bool finite = p->repeats || (made && made->finite);
    if (p->repeats) {
        repeat(e, p);
        whole = p->met->vector;
    }
    if (!kmf_method_takes_ids(e->method)) {
        kmf_flow_tell(p);
        p->row.chunks = p->row.tokens > 0;
    } else if (!kmf_has_states((kmf_vector_parts)e->opts.parts) && p->row.chunks > 1) {
        p->row.chunks = 1; /* a composition is that of the record, wherever it was cut */
    }
    bool empty = p->repeats ? p->met->empty
                 : kmf_flow_per_token(e) || whole
                     ? p->row.tokens == 0
                     : e->sums[0].tokens == 0 && e->sums[1].tokens == 0;
    int status = e->opts.strict ? check_strict(p, e->method->kind->unknown, err) : 0;
    if (status == 0 && (!kmf_flow_per_token(e) || empty)) {
        const float *vector = empty ? no_vector(e) : whole ? whole : end_sums(e, &finite);
        p->row.vector = made && made->stored ? NULL : vector;
        if (!empty && !finite)
            status = fail_not_finite(p, err);
        p->row.position = -1;
        if (status == 0 && e->to.fn)
            status = give_row(e, p, err);
    }
    if (status < 0)
        kmf_met_forget(p->met);
    else
        release(e, p, empty, whole != NULL);
    count_record(&e->stats, p);
    e->to.n_rows += status == 0;
    if (status == 0 && kmf_flow_resumes(e)) {
        e->done.records = p->row.index + 1;
        e->done.sum = p->seen_sum;
        e->done.stats = e->stats;
    }
    if (!whole)
        clear_sums(e);
    e->first_record = kmf_wrap(e->first_record + 1, e->n_records);
    e->n_pending--;
    if (p->name_cap > NAME_KEPT) {
        kmf_free(p->name);
        p->name = NULL;
        p->name_cap = 0;
    }
    return status;
}

static int emit_complete(kmf_embedder *e, kmf_err *err)
{
    while (e->n_pending > 0) {
        const kmf_pending *p = &e->records[e->first_record];
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
    kmf_slot *s = arg;
    kmf_embedder *e = s->embedder;
    int worker = kmf_workers_enter(&e->workers, kmf_pool_worker(e->pool));
    s->failed = (kmf_err){0};
    s->status = s->filler ? s->filler->work(s->filler->user, s, worker, &s->failed)
                          : kmf_job_work(e->method, &e->opts, s->batch, worker, &e->to.store,
                                         &s->failed);
    assert(s->status <= 0); /* pieces that were added have room */
    kmf_workers_leave(&e->workers, worker);
    /* where the caller is idle, and has a core, its writing the rows holds up the run less */
    bool idle = e->spare_core && atomic_load(&e->awaited) == s;
    if (s->status == 0 && e->to.store.fn && !idle)
        s->status = kmf_store_pieces(s->batch, 0, s->batch->n_pieces, &e->to.store, &s->failed);
    return s;
}

static void count_piece(kmf_strand_tally *seen, const kmf_piece *piece)
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

static int emit_tokens(kmf_embedder *e, kmf_pending *p, kmf_batch *b, const kmf_piece *piece,
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
            status = give_row(e, p, err);
        if (status < 0)
            return status;
    }
    return 0;
}

void kmf_flow_progress(kmf_embedder *e)
{
    if (!e->progress)
        return;
    e->calling = true;
    e->progress(e->progress_user,
                e->opts.strand == KMF_STRAND_BOTH ? e->tokens_done / 2 : e->tokens_done);
    e->calling = false;
}

int kmf_flow_check(const kmf_embedder *e, kmf_err *err)
{
    return atomic_load(&e->stopped) ? kmf_fail(err, KMF_ESTOPPED, "the run was stopped") : 0;
}

int kmf_flow_outside(const kmf_embedder *e, kmf_err *err)
{
    return e->calling ? kmf_fail(err, KMF_EINVAL,
                                 "a row or progress function gives its embedder no sequences "
                                 "and does not finish it")
                      : 0;
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
        kmf_pending *p = &e->records[e->first_record];
        assert(e->n_pending > 0 && p->n_done < p->n_pieces);
        p->n_done++;
        e->tokens_done += piece->tokens;
        if (!kmf_method_takes_ids(e->method))
            count_piece(&p->seen.strands[piece->reverse], piece);
        if (kmf_flow_per_token(e))
            status = emit_tokens(e, p, b, piece, err);
        else if (piece->whole)
            status = emit(e, piece, kmf_batch_vector(b, piece), err);
        else if (!piece->half)
            add_piece(e, piece, b->sums + piece->sum_beg);
    }
    kmf_batch_clear(b);
    if (status == 0)
        status = emit_complete(e, err);
    if (status < 0)
        return status;
    kmf_flow_progress(e);
    return kmf_flow_check(e, err);
}

/* The oldest batch, whose job is done. */
static int take_back(kmf_embedder *e, kmf_slot *s, kmf_err *err)
{
    e->first_sent = kmf_wrap(e->first_sent + 1, e->n_slots);
    e->n_sent--;
    if (s->status < 0)
        return kmf_fail(err, s->failed.code, "%s", s->failed.msg);
    int status = s->filler ? s->filler->open(s->filler->user, s, err) : 0;
    return status < 0 ? status : hand_out(e, s->batch, err);
}

int kmf_flow_wait(kmf_embedder *e, kmf_err *err)
{
    assert(e->n_sent > 0);
    atomic_store(&e->awaited, &e->slots[e->first_sent]);
    kmf_slot *s = kmf_queue_wait(e->queue);
    atomic_store(&e->awaited, NULL);
    return take_back(e, s, err);
}

int kmf_flow_poll(kmf_embedder *e, kmf_err *err)
{
    kmf_slot *s;
    int status = 0;
    while (status == 0 && (s = kmf_queue_poll(e->queue)) != NULL)
        status = take_back(e, s, err);
    return status;
}

bool kmf_flow_is_full(const kmf_embedder *e)
{
    return e->n_sent + 1 == e->n_slots;
}

static int send(kmf_embedder *e, const kmf_filler *filler, uint64_t number, kmf_err *err)
{
    kmf_slot *s = &e->slots[kmf_flow_slot(e)];
    s->filler = filler;
    s->number = number;
    kmf_workers_expect(&e->workers);
    int status = kmf_queue_send(e->queue, work, s, err);
    if (status < 0) {
        kmf_workers_call_off(&e->workers);
        return status;
    }
    e->n_sent++;
    return e->n_sent == e->n_slots ? kmf_flow_wait(e, err) : 0;
}

int kmf_flow_send(kmf_embedder *e, kmf_err *err)
{
    return kmf_flow_batch(e)->n_pieces > 0 ? send(e, NULL, 0, err) : 0;
}

int kmf_flow_send_empty(kmf_embedder *e, const kmf_filler *filler, uint64_t number,
                        kmf_err *err)
{
    assert(kmf_flow_batch(e)->n_pieces == 0);
    return send(e, filler, number, err);
}

int kmf_flow_room(kmf_embedder *e, size_t n_units, kmf_err *err)
{
    return kmf_batch_fits(kmf_flow_batch(e), n_units) ? 0 : kmf_flow_send(e, err);
}

int kmf_flow_collect(kmf_embedder *e, kmf_err *err)
{
    int status = 0;
    while (status == 0 && e->n_sent > 0)
        status = kmf_flow_wait(e, err);
    return status;
}

/* ---------------------------------------------------------------- records --------------- */

/*
 * Else a batch might have some thousand names with it however long they are. Of records without a
 * piece there is nothing to send: those wait for the batches before them.
 */
int kmf_flow_name_room(kmf_embedder *e, size_t n, kmf_err *err)
{
    if (n < NAME_KEPT)
        return 0;
    e->long_names += n;
    if (e->long_names <= LONG_NAMES)
        return 0;
    e->long_names = n;
    if (kmf_flow_batch(e)->n_pieces == 0 && e->n_sent > 0)
        return kmf_flow_wait(e, err);
    return kmf_flow_send(e, err);
}

int kmf_flow_open(kmf_embedder *e, const char *name, size_t len, kmf_err *err)
{
    while (e->n_pending == e->n_records) {
        int status = e->n_sent > 0 ? kmf_flow_wait(e, err) : kmf_flow_send(e, err);
        if (status < 0)
            return status;
    }
    kmf_pending *p = &e->records[kmf_wrap(e->first_record + e->n_pending, e->n_records)];
    size_t n = strlen(name) + 1;
    if (kmf_grow(&p->name, &p->name_cap, n, 1, err) < 0)
        return KMF_ENOMEM;
    memcpy(p->name, name, n);
    *p = (kmf_pending){.name = p->name,
                       .name_cap = p->name_cap,
                       .source = e->source,
                       .number = e->n_seen - e->source_seen + 1,
                       .seen_sum = e->seen_sum,
                       .row = {.index = e->n_seen, .name = p->name, .len = len}};
    e->n_pending++;
    return 0;
}

int kmf_flow_meet(kmf_embedder *e, const char *seq, size_t len, kmf_err *err)
{
    kmf_pending *p = kmf_flow_newest(e);
    int known = kmf_repeats_meet(&p->met, e->repeats, seq, len, err);
    p->repeats = known > 0;
    return known < 0 ? known : 0;
}

int kmf_flow_close(kmf_embedder *e, kmf_err *err)
{
    kmf_pending *p = kmf_flow_newest(e);
    bool repeats = p->repeats;
    p->closed = true;
    int status = emit_complete(e, err);
    if (status == 0 && repeats)
        kmf_flow_progress(e); /* no batch may come of it */
    return status;
}

void kmf_flow_drop(kmf_embedder *e)
{
    const kmf_pending *p = kmf_flow_newest(e);
    assert(e->n_pending == 1);
    e->tokens_done -= p->seen.strands[0].tokens + p->seen.strands[1].tokens;
    e->n_pending = 0;
    e->n_seen--;
    clear_sums(e);
}

void kmf_flow_reset(kmf_embedder *e)
{
    for (; e->n_sent > 0; e->n_sent--)
        (void)kmf_queue_wait(e->queue);
    kmf_workers_reset(&e->workers);
    for (size_t i = 0; i < e->n_slots; i++)
        kmf_batch_clear(e->slots[i].batch);
    for (; e->n_pending > 0; e->n_pending--)
        kmf_met_forget(kmf_flow_newest(e)->met);
    e->long_names = 0;
    e->n_seen = 0;
    atomic_store(&e->stopped, false);
    e->given.records = 0;
    e->source_seen = 0;
    e->source = NULL;
    clear_sums(e);
}
