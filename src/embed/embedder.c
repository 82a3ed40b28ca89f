/* SPDX-License-Identifier: MIT */
/*
 * kmf_embedder: made from options and a model, given records, which it cuts into the pieces that
 * the method works on. What becomes of them is flow.h's.
 *
 * Bits. A piece is a function of its sequence and the options; where it depends on the batch size,
 * or on a place in a file, as in read.c, sums are exact. Its sum does not depend on the rest of the
 * batch; the sums over pieces run in input order in double. So a vector does not depend on threads,
 * batch size, neighbours, order or shard. The other strand is cut and read from its own beginning,
 * and with both the two vectors are added, and addition commutes: x and its reverse complement get
 * equal bits.
 */
#include "embed/flow.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "embed/provenance.h"
#include "embed/read.h"
#include "embed/settings.h"
#include "embed/sidecar.h"
#include "seq/dna.h"

#include <assert.h>
#include <string.h>

/* Letters of other shards between two calls of the progress function: a call takes as long as a
   read. */
#define PASSED_OVER ((uint64_t)1 << 20)

/* ---------------------------------------------------------------- making one ------------ */

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
    if (kmf_flow_begin(e, err) < 0)
        goto fail;
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
    kmf_reading_free(e->reading);
    kmf_flow_end(e);
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

size_t kmf_embedder_bytes(const kmf_embedder *embedder)
{
    const kmf_embedder *e = embedder;
    return e->n_slots * kmf_batch_bytes(&e->method->shape) +
           e->n_records * sizeof(kmf_pending) + e->method->kind->bytes(e->method) +
           kmf_read_bytes(e) + (e->repeats ? kmf_repeats_bytes(e->dim) : 0);
}

void kmf_embedder_sink(kmf_embedder *embedder, kmf_row_fn *fn, void *user)
{
    kmf_embedder_store(embedder, fn, &(kmf_rowstore){.user = user});
}

void kmf_embedder_store(kmf_embedder *embedder, kmf_row_fn *fn, const kmf_rowstore *store)
{
    embedder->to = (kmf_sink){.fn = fn, .store = *store};
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

uint64_t kmf_embedder_repeats(const kmf_embedder *embedder)
{
    return embedder->n_repeats;
}

/* ---------------------------------------------------------------- adding records -------- */

static void take_stats(kmf_embedder *e, int reverse)
{
    kmf_cut_stats s;
    kmf_pending *p = kmf_flow_newest(e);
    kmf_cutter_statistics(e->method->cutters[reverse], &s);
    p->seen.strands[reverse] = (kmf_strand_tally){s.tokens, s.ambiguous, s.unknown};
    p->seen.chunks = kmf_max(p->seen.chunks, s.chunks);
    p->seen.cut = p->seen.cut || s.cut;
    kmf_flow_tell(p);
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
    if (kmf_flow_per_token(e)) { /* rows go out before the end is seen: count first */
        kmf_cutter_start(cutter, name, seq, len);
        got = drain_cutter(cutter, err);
        if (got < 0)
            return kmf_flow_source(kmf_flow_newest(e), got, err);
        take_stats(e, reverse);
    }
    kmf_cutter_start(cutter, name, seq, len);
    while ((got = kmf_cutter_next(cutter, &chunk, err)) > 0) {
        if (!owns_a_kmer(&chunk))
            continue;
        int status = kmf_flow_room(e, chunk.n, err);
        if (status < 0)
            return status;
        kmf_batch_add_chunk(kmf_flow_batch(e), &chunk, reverse != 0);
        kmf_flow_newest(e)->n_pieces++;
    }
    return kmf_flow_source(kmf_flow_newest(e), got, err);
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
        size_t n = kmf_min(left, cut.span);
        size_t n_own = kmf_min(n, cut.step);
        const char *letters = reverse ? seq + (left - n) : seq + (len - left);
        int status = kmf_flow_room(e, n, err);
        if (status < 0)
            return status;
        kmf_batch_add_letters(kmf_flow_batch(e), letters, n, n_own, reverse != 0);
        kmf_flow_newest(e)->n_pieces++;
        left -= kmf_min(left, cut.step);
    }
    return 0;
}

/* The pieces of the record opened last. */
static int add_pieces(kmf_embedder *e, const char *name, const char *seq, size_t len,
                      kmf_err *err)
{
    bool strands[2] = {e->opts.strand != KMF_STRAND_RC, e->opts.strand != KMF_STRAND_FWD};
    int status = 0;
    if (!kmf_method_takes_ids(e->method) && e->opts.ambiguous == KMF_AMBIGUOUS_ERROR)
        status = kmf_flow_source(kmf_flow_newest(e), check_bases(name, seq, len, err), err);
    for (int reverse = 0; reverse < 2 && status == 0; reverse++) {
        if (!strands[reverse])
            continue;
        status = kmf_method_takes_ids(e->method) ? add_chunks(e, name, seq, len, reverse, err)
                                                 : add_stretches(e, seq, len, reverse, err);
        if (kmf_method_takes_ids(e->method) && status == 0)
            take_stats(e, reverse);
    }
    const kmf_pending *p = kmf_flow_newest(e);
    if (status == 0 && !kmf_flow_per_token(e) &&
        kmf_batch_close(kmf_flow_batch(e), p->n_pieces)) {
        kmf_piece *last = kmf_batch_last(kmf_flow_batch(e));
        last->row = e->to.n_rows + e->n_pending - 1;
        last->copy = p->met ? p->met->vector : NULL;
    }
    return status;
}

static int add_record(kmf_embedder *e, const char *name, const char *seq, size_t len,
                      kmf_err *err)
{
    int status = kmf_flow_name_room(e, strlen(name), err);
    if (status == 0)
        status = kmf_flow_open(e, name, len, err);
    if (status == 0 && e->repeats)
        status = kmf_flow_meet(e, seq, len, err);
    if (status == 0 && !kmf_flow_newest(e)->repeats)
        status = add_pieces(e, name, seq, len, err);
    return status < 0 ? status : kmf_flow_close(e, err);
}

static bool is_done(const kmf_embedder *e)
{
    return e->n_seen < e->given.records;
}

static void pass_over(kmf_embedder *e, size_t len)
{
    e->passed_over += len + 1; /* of records without letters, too */
    if (e->passed_over < PASSED_OVER)
        return;
    e->passed_over = 0;
    kmf_flow_progress(e);
}

/* Behind the last record that an earlier run has done: are they what they were then? */
static int check_done(const kmf_embedder *e, kmf_err *err)
{
    if (e->n_seen != e->given.records || e->seen_sum == e->given.sum)
        return 0;
    return kmf_fail(err, KMF_EMODEL,
                    "the first %llu records are not those whose vectors were made before",
                    (unsigned long long)e->n_seen);
}

int kmf_embedder_take(kmf_embedder *e, const char *name, const char *seq, size_t len,
                      kmf_err *err)
{
    int status = 0;
    if (kmf_flow_check(e, err) < 0) {
        kmf_flow_reset(e);
        return KMF_ESTOPPED;
    }
    if (e->n_seen == 0) {
        e->seen_sum = 0;
        e->done = e->given;
    }
    if (e->opts.n_shards > 1 || kmf_flow_resumes(e))
        e->seen_sum = kmf_record_checksum(e->seen_sum, name, seq, len);
    bool done = is_done(e);
    if (!done && e->n_seen % e->opts.n_shards == e->opts.shard)
        status = add_record(e, name, seq, len, err);
    else
        pass_over(e, len);
    e->n_seen++;
    if (done)
        status = check_done(e, err);
    if (status < 0)
        kmf_flow_reset(e);
    return status;
}

bool kmf_embedder_mark(const kmf_embedder *e, kmf_embed_mark *mark)
{
    *mark = e->done;
    return mark->records > 0;
}

void kmf_embedder_given(kmf_embedder *e, const kmf_embed_mark *mark)
{
    e->given = *mark;
    e->stats = mark->stats;
}

int kmf_embedder_add(kmf_embedder *embedder, const char *name, const char *seq, size_t len,
                     kmf_err *err)
{
    if (kmf_flow_outside(embedder, err) < 0)
        return KMF_EINVAL;
    int status = kmf_row_check_name(name, err);
    if (status == 0)
        return kmf_embedder_take(embedder, name, seq, len, err);
    kmf_flow_reset(embedder);
    return status;
}

void kmf_embedder_stop(kmf_embedder *embedder)
{
    atomic_store(&embedder->stopped, true);
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
        x->status = kmf_flow_collect(e, x->err);
        return;
    }
    kmf_workers_join(&e->workers, thread);
}

/* What the vectors were made from is what it was. */
static int check_files(const kmf_method *method, kmf_err *err)
{
    int status = 0;
    for (size_t i = 0; i < KMF_METHOD_FILES && method->files[i].key; i++)
        for (size_t j = 0; status == 0 && j < method->files[i].n; j++)
            status = kmf_map_check(method->files[i].maps[j], err);
    return status;
}

int kmf_embedder_finish(kmf_embedder *embedder, kmf_err *err)
{
    kmf_embedder *e = embedder;
    if (kmf_flow_outside(e, err) < 0)
        return KMF_EINVAL;
    ending x = {.embedder = e, .status = kmf_flow_check(e, err), .err = err};
    if (x.status == 0 && is_done(e))
        x.status =
            kmf_fail(err, KMF_EMODEL, "%llu records, and the vectors of %llu were made before",
                     (unsigned long long)e->n_seen, (unsigned long long)e->given.records);
    else if (x.status == 0)
        x.status = kmf_flow_send(e, err);
    if (x.status == 0)
        x.n_helpers = kmf_workers_missing(&e->workers);
    if (x.status == 0 && (x.n_helpers == 0 || kmf_together(x.n_helpers + 1, end, &x, NULL) < 0))
        x.status = kmf_flow_collect(e, err);
    assert(x.status < 0 || e->n_pending == 0);
    kmf_flow_reset(e);
    return x.status < 0 ? x.status : check_files(e->method, err);
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
    if (kmf_flow_outside(embedder, err) < 0)
        return KMF_EINVAL;
    if (kmf_flow_per_token(embedder))
        return kmf_fail(err, KMF_EINVAL, "one vector was asked for, and one per token");
    if (embedder->opts.n_shards > 1 || embedder->n_seen > 0 || embedder->given.records > 0)
        return kmf_fail(err, KMF_EINVAL,
                        "one vector was asked for amid other records or of a shard");
    kmf_sink before = embedder->to;
    kmf_embed_mark done = embedder->done; /* of the run before, which may be saved yet */
    const char *source = embedder->source;
    kmf_progress_fn *progress = embedder->progress; /* of the run before: it may save that */
    embedder->source = NULL;
    embedder->progress = NULL;
    kmf_embedder_sink(embedder, keep_vector, &one);
    int status = kmf_embedder_add(embedder, "sequence", seq, strlen(seq), err);
    if (status == 0)
        status = kmf_embedder_finish(embedder, err);
    embedder->to = before;
    embedder->progress = progress;
    embedder->source = source;
    embedder->done = done;
    return status;
}
