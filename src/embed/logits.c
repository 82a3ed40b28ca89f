/* SPDX-License-Identifier: MIT */
/*
 * Logits of the tokens of sequences.
 *
 *   add      a sequence is cut into chunks, and each chunk is one pass of the encoder, or with
 *            KMF_LOGITS_MASK_EACH as many as tokens are asked for
 *   job      passes of JOB_TOKENS tokens, or of a window: one batch of an encoder
 *   round    as many jobs as keep all threads at work; rows are given out when it is done
 *
 * A job alone, as of a single query, is worked on by all threads.
 *
 * A run that goes on cuts all records once more, and makes no pass whose rows are all out: that is
 * what takes the time.
 */
#include "base/err.h"
#include "base/mem.h"
#include "embed/basespans.h"
#include "embed/logits.h"
#include "embed/provenance.h"
#include "embed/vector.h"
#include "nn/loss.h"
#include "seq/par.h"
#include "seq/text.h"

#include <stdbool.h>
#include <string.h>

#define JOB_TOKENS ((size_t)512)
#define ROWS ((size_t)96) /* that the head takes at a time */
#define TOP_MAX ((size_t)1 << 24)

const char *const kmf_logits_mask_names[] = {"none", "together", "each", NULL};

/* A token that is asked for. */
typedef struct row {
    size_t at; /* in the ids of the job */
    size_t name;
    uint64_t index, len, position;
    int32_t id;   /* before it was masked */
    uint32_t sum; /* checksum of the records up to its own */
    bool finite;
} row;

/* All arrays are owned, and have room for a job's tokens. */
typedef struct job {
    int32_t *ids;
    size_t *off; /* [n_passes + 1] */
    size_t n_passes;
    row *rows;
    size_t n_rows;
    float *values;       /* [n_rows, V]; NULL with top */
    kmf_candidate *best; /* [n_rows, top]; NULL without */
    kmf_text names;      /* each with a NUL behind it */
} job;

struct kmf_logits {
    const kmf_model *model;
    kmf_logits_options o;
    kmf_base_spans spans; /* owned; o.spans are these */
    kmf_logits_fn *fn;
    void *user;
    kmf_cutter *cutter;     /* owned */
    kmf_pool *pool;         /* owned; NULL: one thread */
    kmf_encoder **encoders; /* owned [threads] */
    float *scratch;         /* owned [threads, ROWS, V], with top */
    job *jobs;              /* owned [n_jobs] */
    size_t n_jobs, at;      /* the one that is being filled */
    size_t tokens, V;       /* of a job; of the vocabulary */
    size_t lead, trail;     /* tokens that frame a chunk */
    int32_t *ids;           /* owned [window]; of a chunk, as the encoder sees them */
    size_t *wanted;         /* owned [window]; its tokens that are asked for */
    int32_t mask;
    kmf_embed_stats stats;
    uint32_t seen_sum;     /* checksum of the records added */
    uint64_t n_asked;      /* rows of all passes so far, and */
    uint64_t n_out;        /* of them, those that are out */
    kmf_logits_mark done;  /* up to the row that was given out last */
    kmf_logits_mark given; /* what an earlier run has done */
    bool spent;            /* a call has failed */
};

void kmf_logits_options_default(kmf_logits_options *opts)
{
    *opts = (kmf_logits_options){.mask = KMF_LOGITS_MASK_NONE};
}

/* ---------------------------------------------------------------- one token ------------- */

/* best [n]: the n largest of x, of equal ones the first; n is at most V. */
static void find_best(kmf_candidate *best, size_t n, const float *x, size_t V)
{
    size_t found = 0;
    for (size_t v = 0; v < V; v++) {
        if (found == n && !(x[v] > best[n - 1].logit))
            continue;
        size_t place = found < n ? found++ : n - 1;
        for (; place > 0 && x[v] > best[place - 1].logit; place--)
            best[place] = best[place - 1];
        best[place] = (kmf_candidate){.id = (int32_t)v, .logit = x[v]};
    }
}

/* Logits x [m, V] of rows i .. i + m - 1 of a job become what was asked for. */
static void take_logits(const kmf_logits *l, job *j, size_t i, float *x, size_t m)
{
    for (size_t r = 0; r < m; r++) {
        kmf_vector_finite(x + r * l->V, l->V, &j->rows[i + r].finite);
        if (l->o.top > 0)
            find_best(j->best + (i + r) * l->o.top, l->o.top, x + r * l->V, l->V);
    }
    if (l->o.top > 0 || l->o.probabilities)
        kmf_softmax_forward(x, l->V, NULL, NULL, m, l->V);
    for (size_t r = 0; r < m && l->o.top > 0; r++)
        for (size_t b = 0; b < l->o.top; b++) {
            kmf_candidate *c = &j->best[(i + r) * l->o.top + b];
            c->probability = x[r * l->V + (size_t)c->id];
        }
}

/* ---------------------------------------------------------------- a round --------------- */

/* Of a job that has gone forward. */
static int take_rows(const kmf_logits *l, job *j, int worker, kmf_err *err)
{
    size_t at[ROWS];
    for (size_t i = 0; i < j->n_rows; i += ROWS) {
        size_t m = kmf_min(j->n_rows - i, ROWS);
        float *x =
            l->o.top > 0 ? l->scratch + (size_t)worker * ROWS * l->V : j->values + i * l->V;
        for (size_t r = 0; r < m; r++)
            at[r] = j->rows[i + r].at;
        int status = kmf_encoder_logits(l->encoders[worker], x, at, m, err);
        if (status < 0)
            return status;
        take_logits(l, j, i, x, m);
    }
    return 0;
}

/* A kmf_item_fn. */
static int run_job(void *arg, size_t i, int worker, kmf_err *err)
{
    const kmf_logits *l = arg;
    job *j = &l->jobs[i];
    kmf_encoder_forward(l->encoders[worker], j->ids, j->off, j->n_passes,
                        kmf_model_config(l->model)->n_layers);
    return take_rows(l, j, worker, err);
}

static int run_alone(const kmf_logits *l, job *j, kmf_err *err)
{
    const float *hidden;
    int status =
        kmf_encoder_forward_together(l->encoders, (size_t)l->o.threads, &hidden, j->ids, j->off,
                                     j->n_passes, kmf_model_config(l->model)->n_layers, err);
    return status < 0 ? status : take_rows(l, j, 0, err);
}

/* Those that are not out already. */
static int give_out(kmf_logits *l, const job *j, kmf_err *err)
{
    int status = 0;
    for (size_t i = 0; i < j->n_rows && status == 0; i++) {
        char shown[KMF_ERR_SHOW];
        const row *r = &j->rows[i];
        const kmf_logits_row out = {.index = r->index,
                                    .name = j->names.bytes + r->name,
                                    .len = r->len,
                                    .position = r->position,
                                    .id = r->id,
                                    .values = l->o.top > 0 ? NULL : j->values + i * l->V,
                                    .best = l->o.top > 0 ? j->best + i * l->o.top : NULL,
                                    .n_best = l->o.top};
        if (!r->finite)
            return kmf_fail(err, KMF_ENUMERIC,
                            "record '%s': the model gives logits that are not finite",
                            kmf_err_show(shown, out.name));
        if (l->n_out++ < l->given.rows)
            continue;
        l->done = (kmf_logits_mark){.records = r->index + 1, .sum = r->sum};
        status = kmf_answered(l->fn(l->user, &out, err), err);
    }
    return status;
}

static void clear(job *j)
{
    j->n_passes = j->n_rows = j->names.len = 0;
}

/* All jobs that have a pass. */
static int run_round(kmf_logits *l, kmf_err *err)
{
    size_t n = l->at + (l->jobs[l->at].n_passes > 0);
    int status = n == 1 && l->o.threads > 1 ? run_alone(l, &l->jobs[0], err)
                                            : kmf_pool_each(l->pool, n, run_job, l, err);
    for (size_t i = 0; i < n; i++) {
        if (status == 0)
            status = give_out(l, &l->jobs[i], err);
        clear(&l->jobs[i]);
    }
    l->at = 0;
    return status;
}

/* ---------------------------------------------------------------- passes ---------------- */

/* What a pass reads and is asked for, of the record that is being cut. */
typedef struct pass {
    const char *name;
    uint64_t len;
    const kmf_chunk *chunk;
    const size_t *wanted; /* [n], places in the chunk */
    size_t n;
} pass;

static int fail_others(const kmf_logits *l, kmf_err *err)
{
    return kmf_fail(err, KMF_EMODEL,
                    "the first %llu records are not those whose logits were made before",
                    (unsigned long long)l->given.records);
}

/* l->ids, of the chunk or masked. */
static int add_pass(kmf_logits *l, const pass *p, kmf_err *err)
{
    const kmf_chunk *c = p->chunk;
    l->n_asked += p->n;
    if (l->n_asked <= l->given.rows) {
        l->n_out += p->n;
        return 0;
    }
    if (l->stats.records + 1 < l->given.records) /* the last row that is out was of that one */
        return fail_others(l, err);
    if (l->jobs[l->at].off[l->jobs[l->at].n_passes] + c->n > l->tokens) {
        int status = l->at + 1 < l->n_jobs ? 0 : run_round(l, err);
        if (status < 0)
            return status;
        l->at += l->jobs[l->at].n_passes > 0;
    }
    job *j = &l->jobs[l->at];
    size_t beg = j->off[j->n_passes];
    size_t name = j->names.len;
    const row *last = j->n_rows > 0 ? &j->rows[j->n_rows - 1] : NULL;
    if (last && last->index == l->stats.records)
        name = last->name;
    else if (kmf_text_append(&j->names, p->name, strlen(p->name) + 1, err) < 0)
        return KMF_ENOMEM;
    if (l->o.top == 0 && !j->values &&
        !(j->values = kmf_malloc(l->tokens * l->V, sizeof *j->values, err)))
        return KMF_ENOMEM;
    memcpy(j->ids + beg, l->ids, c->n * sizeof *j->ids);
    for (size_t i = 0; i < p->n; i++) {
        size_t t = p->wanted[i];
        j->rows[j->n_rows++] = (row){.at = beg + t,
                                     .name = name,
                                     .index = l->stats.records,
                                     .len = p->len,
                                     .position = c->pos[t],
                                     .id = c->ids[t],
                                     .sum = l->seen_sum};
    }
    j->off[++j->n_passes] = beg + c->n;
    return 0;
}

static bool is_wanted(const kmf_logits *l, const kmf_chunk *chunk, size_t t)
{
    return kmf_base_spans_meet(&l->spans, chunk->pos[t], chunk->end[t]);
}

/*
 * A token that a neighbouring chunk counts is masked here as well: k-mers overlap, and it would
 * tell what is hidden.
 */
static int add_chunk(kmf_logits *l, pass *p, kmf_err *err)
{
    const kmf_chunk *c = p->chunk;
    size_t n = 0;
    int status = 0;
    memcpy(l->ids, c->ids, c->n * sizeof *l->ids);
    for (size_t t = l->lead; t < c->n - l->trail; t++) {
        if (!is_wanted(l, c, t))
            continue;
        if (l->o.mask == KMF_LOGITS_MASK_TOGETHER)
            l->ids[t] = l->mask;
        if (t >= c->own_beg && t < c->own_end)
            l->wanted[n++] = t;
    }
    if (l->o.mask != KMF_LOGITS_MASK_EACH) {
        p->wanted = l->wanted;
        p->n = n;
        return n > 0 ? add_pass(l, p, err) : 0;
    }
    p->n = 1;
    for (size_t i = 0; i < n && status == 0; i++) {
        size_t t = l->wanted[i];
        p->wanted = &l->wanted[i];
        l->ids[t] = l->mask;
        status = add_pass(l, p, err);
        l->ids[t] = c->ids[t];
    }
    return status;
}

static int add_sequence(kmf_logits *l, const char *name, const char *seq, size_t len,
                        kmf_err *err)
{
    kmf_chunk chunk;
    kmf_cut_stats s;
    kmf_err cause = {0};
    pass p = {.name = name, .len = len, .chunk = &chunk};
    int got;
    bool last = l->stats.records + 1 == l->given.records; /* of those that were begun before */
    l->seen_sum = kmf_record_checksum(l->seen_sum, name, seq, len);
    if (last && l->seen_sum != l->given.sum)
        return fail_others(l, err);
    kmf_cutter_start(l->cutter, name, seq, len);
    while ((got = kmf_cutter_next(l->cutter, &chunk, &cause)) > 0) {
        int status = add_chunk(l, &p, err);
        if (status < 0)
            return status;
    }
    if (got < 0) {
        int status = run_round(l, err); /* what came before it is told first */
        return status < 0 ? status : kmf_fail(err, cause.code, "%s", cause.msg);
    }
    kmf_cutter_statistics(l->cutter, &s);
    kmf_embed_stats_add(&l->stats, &s);
    l->stats.records++;
    l->stats.bases += len;
    l->stats.tokens += s.tokens;
    return last && l->n_asked < l->given.rows ? fail_others(l, err) : 0;
}

/* What is left of a sequence that was not added whole would be given out with the next one. */
static int check_usable(const kmf_logits *l, kmf_err *err)
{
    return l->spent ? kmf_fail(err, KMF_EINVAL, "these logits have failed before") : 0;
}

static int ends(kmf_logits *l, int status)
{
    l->spent = status < 0;
    return status;
}

int kmf_logits_add(kmf_logits *logits, const char *name, const char *seq, size_t len,
                   kmf_err *err)
{
    int status = check_usable(logits, err);
    return status < 0 ? status : ends(logits, add_sequence(logits, name, seq, len, err));
}

int kmf_logits_flush(kmf_logits *logits, kmf_err *err)
{
    int status = check_usable(logits, err);
    return status < 0 ? status : ends(logits, run_round(logits, err));
}

static int check_records(const kmf_logits *l, kmf_err *err)
{
    return l->stats.records >= l->given.records
               ? 0
               : kmf_fail(err, KMF_EMODEL, "%llu records, and logits of %llu were made before",
                          (unsigned long long)l->stats.records,
                          (unsigned long long)l->given.records);
}

int kmf_logits_finish(kmf_logits *logits, kmf_err *err)
{
    int status = check_usable(logits, err);
    if (status == 0)
        status = ends(logits, check_records(logits, err));
    return status < 0 ? status : kmf_logits_flush(logits, err);
}

void kmf_logits_statistics(const kmf_logits *logits, kmf_embed_stats *stats)
{
    *stats = logits->stats;
}

const kmf_logits_options *kmf_logits_used(const kmf_logits *l)
{
    return &l->o;
}

const kmf_model *kmf_logits_model(const kmf_logits *l)
{
    return l->model;
}

kmf_logits_mark kmf_logits_done(const kmf_logits *l)
{
    return l->done;
}

void kmf_logits_given(kmf_logits *l, const kmf_logits_mark *mark)
{
    l->given = l->done = *mark;
}

/* ---------------------------------------------------------------- the run --------------- */

static int check_options(const kmf_logits_options *o, kmf_err *err)
{
    if ((unsigned)o->mask > KMF_LOGITS_MASK_EACH)
        return kmf_fail(err, KMF_EINVAL, "mask: %d is none of its values", (int)o->mask);
    if (o->top > TOP_MAX)
        return kmf_fail(err, KMF_EINVAL, "top: %zu candidates are too many", o->top);
    if (o->top > 0 && o->probabilities)
        return kmf_fail(err, KMF_EINVAL, "candidates have their probabilities: not both");
    return 0;
}

static int make_cutter(kmf_logits *l, kmf_err *err)
{
    const kmf_config *c = kmf_model_config(l->model);
    const kmf_vocab *vocab = kmf_model_vocab(l->model);
    kmf_long policy = !l->o.exact  ? KMF_LONG_CHUNK
                      : c->bounded ? KMF_LONG_TRUNCATE
                                   : KMF_LONG_ERROR;
    const kmf_cut_options cut = {.stride = c->stride,
                                 .window = c->window,
                                 .overlap =
                                     kmf_config_overlap(c, vocab, c->window, c->specials),
                                 .specials = c->specials,
                                 .ambiguous = c->ambiguous,
                                 .policy = policy,
                                 .exact = l->o.exact ? c->exact : KMF_EXACT_NO};
    l->mask = kmf_vocab_special(vocab, KMF_MASK);
    if (l->o.mask != KMF_LOGITS_MASK_NONE && l->mask < 0)
        return kmf_fail(err, KMF_EMODEL, "the vocabulary has no [MASK]");
    l->lead = c->specials && kmf_vocab_frame(vocab) > 0;
    l->trail = c->specials && kmf_vocab_frame(vocab) > 1;
    l->cutter = kmf_cutter_new(vocab, &cut, err);
    return l->cutter ? 0 : KMF_EMODEL;
}

static int make_encoders(kmf_logits *l, kmf_err *err)
{
    size_t window = kmf_model_config(l->model)->window;
    size_t threads = (size_t)l->o.threads;
    l->encoders = kmf_calloc(threads, sizeof *l->encoders, err);
    if (!l->encoders)
        return KMF_ENOMEM;
    for (size_t i = 0; i < threads; i++) {
        l->encoders[i] = kmf_encoder_new(l->model, l->tokens, window, err);
        if (!l->encoders[i])
            return KMF_ENOMEM;
    }
    if (l->o.top > 0 &&
        !(l->scratch = kmf_malloc(threads * ROWS * l->V, sizeof *l->scratch, err)))
        return KMF_ENOMEM;
    return kmf_encoder_logits(l->encoders[0], l->scratch, NULL, 0, err); /* is there a head? */
}

static int make_jobs(kmf_logits *l, kmf_err *err)
{
    l->n_jobs = (size_t)l->o.threads * (l->o.top > 0 ? 2 : 1);
    l->jobs = kmf_calloc(l->n_jobs, sizeof *l->jobs, err);
    for (size_t i = 0; l->jobs && i < l->n_jobs; i++) {
        job *j = &l->jobs[i];
        j->ids = kmf_malloc(l->tokens, sizeof *j->ids, err);
        j->off = j->ids ? kmf_calloc(l->tokens + 1, sizeof *j->off, err) : NULL;
        j->rows = j->off ? kmf_malloc(l->tokens, sizeof *j->rows, err) : NULL;
        if (j->rows && l->o.top > 0)
            j->best = kmf_malloc(l->tokens * l->o.top, sizeof *j->best, err);
        if (!j->rows || (l->o.top > 0 && !j->best))
            return KMF_ENOMEM;
    }
    return l->jobs ? 0 : KMF_ENOMEM;
}

static int make(kmf_logits *l, kmf_err *err)
{
    size_t window = kmf_model_config(l->model)->window;
    l->V = kmf_model_config(l->model)->vocab_size;
    l->tokens = window > JOB_TOKENS ? window : JOB_TOKENS;
    l->o.top = kmf_min(l->o.top, l->V);
    if (l->o.threads == 0)
        l->o.threads = kmf_threads_default();
    l->ids = kmf_malloc(window, sizeof *l->ids, err);
    l->wanted = l->ids ? kmf_malloc(window, sizeof *l->wanted, err) : NULL;
    if (!l->wanted)
        return KMF_ENOMEM;
    int status = kmf_base_spans_make(&l->spans, l->o.spans, l->o.n_spans, err);
    l->o.spans = l->spans.list;
    l->o.n_spans = l->spans.n;
    if (status == 0)
        status = kmf_helpers_new(&l->pool, l->o.threads, err);
    if (status == 0)
        status = make_cutter(l, err);
    if (status == 0)
        status = make_encoders(l, err);
    return status == 0 ? make_jobs(l, err) : status;
}

kmf_logits *kmf_logits_new(const kmf_model *model, const kmf_logits_options *opts,
                           kmf_logits_fn *fn, void *user, kmf_err *err)
{
    if (check_options(opts, err) < 0)
        return NULL;
    kmf_logits *l = kmf_calloc(1, sizeof *l, err);
    if (!l)
        return NULL;
    l->model = model;
    l->o = *opts;
    l->fn = fn;
    l->user = user;
    if (make(l, err) == 0)
        return l;
    kmf_logits_free(l);
    return NULL;
}

void kmf_logits_free(kmf_logits *l)
{
    if (!l)
        return;
    for (size_t i = 0; l->jobs && i < l->n_jobs; i++) {
        job *j = &l->jobs[i];
        kmf_free(j->ids);
        kmf_free(j->off);
        kmf_free(j->rows);
        kmf_free(j->values);
        kmf_free(j->best);
        kmf_free(j->names.bytes);
    }
    for (int i = 0; l->encoders && i < l->o.threads; i++)
        kmf_encoder_free(l->encoders[i]);
    kmf_pool_free(l->pool);
    kmf_cutter_free(l->cutter);
    kmf_free(l->jobs);
    kmf_free(l->encoders);
    kmf_free(l->scratch);
    kmf_base_spans_free(&l->spans);
    kmf_free(l->ids);
    kmf_free(l->wanted);
    kmf_free(l);
}
