/* SPDX-License-Identifier: MIT */
/*
 * Vectors by an encoder. A piece is a chunk of token ids that fits the model's window.
 *
 * Pooling: from the hidden states of a batch to what each piece adds to its record.
 *
 *   mean      sum over the k-mers that the chunk owns, in double, in order
 *   mean-all  over all tokens that it owns, and those that frame it; of a chunk that owns no k-mer
 *             nothing
 *   max       maximum over the k-mers
 *   cls       the first token's state once for every k-mer that the chunk owns, so that a record's
 *             vector is the mean of its chunks weighted by what they own
 *   pooler    the same with what the model's pooler makes of that state
 *   none      the k-mers' states themselves
 *
 * A composition begins as a mean of rows of the model's table for it, and is made out of that when
 * the record is complete.
 */
#include "base/cpu.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "embed/method.h"
#include "embed/hashedmodel.h"
#include "embed/settings.h"
#include "embed/vector.h"
#include "model/config.h"
#include "model/encoder.h"
#include "model/layout.h"
#include "model/model.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Tokens before and behind a chunk: [CLS], and maybe [SEP]. */
typedef struct frame {
    size_t lead, trail;
} frame;

typedef struct encode {
    kmf_method base;
    kmf_model *model;       /* owned */
    char *drawn;            /* owned; "random" or "random:MODEL"; NULL: weights out of files */
    kmf_encoder **encoders; /* owned [threads] */
    float *pooled;          /* owned [threads, D] */
    size_t threads;
    size_t window;
    size_t D;     /* hidden size: numbers of a state */
    size_t layer; /* 0 .. L */
    size_t first; /* numbers of a vector that are states: D or 0 */
    size_t C;     /* numbers behind them that are its composition, or 0 */
    kmf_composer composer;
    kmf_pooling pooling;
    frame around; /* of every chunk */
    kmf_hashed_model hashed;
} encode;

/* ---------------------------------------------------------------- pooling --------------- */

/* sum += row, n numbers. */
static void add_row(double *sum, const float *row, size_t n);

static KMF_INLINE void add_row_body(double *restrict sum, const float *restrict row, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += (double)row[i];
}

KMF_CLONES(add_row, (double *sum, const float *row, size_t n), (sum, row, n))

/* Sums those of p that count: its own k-mers, or with a frame all its own and those around them. */
static size_t sum_rows(double *sum, const float *hidden, size_t D, const kmf_batch *b,
                       const kmf_piece *p, const frame *around)
{
    size_t n = 0;
    memset(sum, 0, D * sizeof *sum);
    for (size_t t = p->beg; t < p->end; t++) {
        bool own = t >= p->own_beg && t < p->own_end;
        bool framing = around && (t < p->beg + around->lead || t >= p->end - around->trail);
        if (!framing && !(own && (around || b->real[t])))
            continue;
        add_row(sum, hidden + t * D, D);
        n++;
    }
    return n;
}

static void max_rows(double *max, const float *hidden, size_t D, const kmf_batch *b,
                     const kmf_piece *p)
{
    for (size_t d = 0; d < D; d++)
        max[d] = -HUGE_VAL;
    for (size_t t = p->own_beg; t < p->own_end; t++) {
        if (!b->real[t])
            continue;
        const float *h = hidden + t * D;
        for (size_t d = 0; d < D; d++)
            max[d] = kmf_greater(max[d], (double)h[d]);
    }
}

static void copy_rows(kmf_batch *b, const float *hidden, kmf_piece *p, size_t *n_rows)
{
    size_t D = b->dim;
    p->row_beg = *n_rows;
    for (size_t t = p->own_beg; t < p->own_end; t++) {
        if (!b->real[t])
            continue;
        memcpy(b->rows + *n_rows * D, hidden + t * D, D * sizeof *hidden);
        b->row_pos[*n_rows] = b->pos[t];
        (*n_rows)++;
    }
}

/* One state for all tokens: sum [D] = row times their number, 0 never negative, as in sums. */
static void repeat_row(double *sum, const float *row, size_t D, uint64_t tokens)
{
    for (size_t d = 0; d < D; d++)
        sum[d] = 0 + (double)row[d] * (double)tokens;
}

/* Columns of a table that are summed up in registers, and how far ahead its rows are asked for. */
#define SUM_COLS 32
#define SUM_AHEAD 8

/* sum [cols] = those columns of the rows `ids` [n] of a table, ld, that are real. */
static KMF_INLINE void sum_columns(double *restrict sum, const float *restrict table, size_t ld,
                                   size_t cols, const int32_t *ids, const uint8_t *real,
                                   size_t n)
{
    double part[SUM_COLS] = {0};
    for (size_t t = 0; t < n; t++) {
        const float *row = table + (size_t)ids[t] * ld;
        __builtin_prefetch(table + (size_t)ids[t + SUM_AHEAD < n ? t + SUM_AHEAD : n - 1] * ld);
        for (size_t i = 0; real[t] && i < cols; i++)
            part[i] += (double)row[i];
    }
    memcpy(sum, part, cols * sizeof *sum);
}

/* sum [C] = the rows `ids` [n] of the table [V, C] that are real, one after the other. */
static void sum_table(double *sum, const float *table, size_t C, const int32_t *ids,
                      const uint8_t *real, size_t n);

static KMF_INLINE void sum_table_body(double *sum, const float *table, size_t C,
                                      const int32_t *ids, const uint8_t *real, size_t n)
{
    size_t i = 0;
    for (; i + SUM_COLS <= C; i += SUM_COLS)
        sum_columns(sum + i, table + i, C, SUM_COLS, ids, real, n);
    if (i < C)
        sum_columns(sum + i, table + i, C, C - i, ids, real, n);
}

KMF_CLONES(sum_table,
           (double *sum, const float *table, size_t C, const int32_t *ids, const uint8_t *real,
            size_t n),
           (sum, table, C, ids, real, n))

/* ---------------------------------------------------------------- the method ------------ */

/* One piece's result from the hidden states of the batch, in double. */
static void pool_piece(const encode *m, int worker, const kmf_batch *b, kmf_piece *p,
                       double *sum, const float *hidden)
{
    size_t D = m->D;
    switch (m->pooling) {
    case KMF_POOL_MEAN:
        p->weight = (double)sum_rows(sum, hidden, D, b, p, NULL);
        break;
    case KMF_POOL_MEAN_ALL:
        p->weight = (double)sum_rows(sum, hidden, D, b, p, &m->around);
        break;
    case KMF_POOL_MAX:
        max_rows(sum, hidden, D, b, p);
        break;
    case KMF_POOL_POOLER: {
        float *pooled = m->pooled + (size_t)worker * D;
        int status = kmf_encoder_pooler(m->encoders[worker], pooled, &p->beg, 1, NULL);
        assert(status == 0); /* the settings were checked */
        (void)status;
        repeat_row(sum, pooled, D, p->tokens);
        break;
    }
    case KMF_POOL_CLS:
        repeat_row(sum, hidden + p->beg * D, D, p->tokens);
        break;
    case KMF_POOL_NONE:
        break;
    }
}

/* The k-mers that each piece counts, which is what it weighs if the pooling says nothing else. */
static void count_tokens(kmf_batch *batch)
{
    for (size_t i = 0; i < batch->n_pieces; i++) {
        kmf_piece *p = &batch->pieces[i];
        p->tokens = 0;
        for (size_t t = p->own_beg; t < p->own_end; t++)
            p->tokens += batch->real[t];
        p->weight = (double)p->tokens;
    }
}

/* Of the states, which the worker's encoder gave last. */
static void pool_states(const encode *m, int worker, kmf_batch *batch, const float *hidden)
{
    size_t n_rows = 0;
    for (size_t i = 0; i < batch->n_pieces; i++) {
        kmf_piece *p = &batch->pieces[i];
        if (m->pooling == KMF_POOL_NONE)
            copy_rows(batch, hidden, p, &n_rows);
        else
            pool_piece(m, worker, batch, p, batch->sums + i * batch->dim, hidden);
    }
}

/* Sums the composition's rows of the tokens that each piece owns. */
static void pool_words(const encode *m, kmf_batch *batch)
{
    for (size_t i = 0; m->C > 0 && i < batch->n_pieces; i++) {
        const kmf_piece *p = &batch->pieces[i];
        sum_table(batch->sums + i * batch->dim + m->first, m->model->params.comp_word, m->C,
                  batch->ids + p->own_beg, batch->real + p->own_beg, p->own_end - p->own_beg);
    }
}

static void work(const kmf_method *method, kmf_batch *batch, int worker)
{
    const encode *m = (const encode *)method;
    count_tokens(batch);
    if (m->first > 0)
        pool_states(m, worker, batch,
                    kmf_encoder_forward(m->encoders[worker], batch->ids, batch->off,
                                        batch->n_pieces, m->layer));
    pool_words(m, batch);
}

static void help(const kmf_method *method, int worker)
{
    const encode *m = (const encode *)method;
    for (size_t i = 1; i < m->threads; i++)
        (void)kmf_encoder_help(m->encoders[((size_t)worker + i) % m->threads],
                               m->encoders[worker]);
}

/* Numbers of compositions that are made together: those of two or more. */
#define COMPOSED (2 * KMF_COMPOSITION_MAX)

static void compose(const kmf_method *method, float *const *vectors, size_t n)
{
    const encode *m = (const encode *)method;
    size_t C = m->C;
    _Alignas(64) float z[COMPOSED], u[COMPOSED], c[COMPOSED];
    _Alignas(64) float h[KMF_COMPOSITION_HIDDEN * COMPOSED];
    kmf_composing between = {.u = u, .h = h, .act = h};
    for (size_t i = 0, some; C > 0 && i < n; i += some) {
        some = n - i < COMPOSED / C ? n - i : COMPOSED / C;
        for (size_t r = 0; r < some; r++)
            memcpy(z + r * C, vectors[i + r] + m->first, C * sizeof *z);
        kmf_composition_forward(c, z, &m->composer, &between, some);
        for (size_t r = 0; r < some; r++)
            memcpy(vectors[i + r] + m->first, c + r * C, C * sizeof *c);
    }
}

static size_t bytes(const kmf_method *method)
{
    const encode *m = (const encode *)method;
    /* what is packed out of a map is not held twice */
    size_t n = (size_t)kmf_model_n_parameters(m->model);
    if (!m->model->slab)
        n -= m->model->packed->n_weights;
    size_t encoders = m->encoders
                          ? m->threads * kmf_encoder_bytes(kmf_model_config(m->model),
                                                           kmf_model_precision(m->model),
                                                           m->base.shape.cap_units, m->window)
                          : 0;
    return encoders + sizeof(float) * n + m->model->packed->bytes;
}

static json_t *settings(const kmf_method *method, const kmf_embed_options *o)
{
    const encode *m = (const encode *)method;
    json_t *json = json_pack("{s:s, s:i, s:s, s:I, s:I, s:I, s:s, s:b}", "pooling",
                             kmf_pooling_names[o->pooling], "layer", o->layer, "long",
                             kmf_long_names[o->policy], "stride", (json_int_t)o->stride,
                             "window", (json_int_t)o->window, "overlap", (json_int_t)o->overlap,
                             "precision", kmf_precision_names[o->precision], "exact", o->exact);
    if (o->parts != KMF_PARTS_STATES)
        json = kmf_json_with(json, "parts", json_string(kmf_parts_names[o->parts]));
    if (m->drawn)
        json = kmf_json_with(json, "seed", json_sprintf("%llu", (unsigned long long)o->seed));
    return json;
}

static void release(kmf_method *method)
{
    encode *m = (encode *)method;
    for (size_t i = 0; m->encoders && i < m->threads; i++)
        kmf_encoder_free(m->encoders[i]);
    kmf_free(m->encoders);
    kmf_hashed_model_free(&m->hashed);
    kmf_free(m->pooled);
    kmf_free(m->drawn);
    kmf_cutter_free(m->base.cutters[0]);
    kmf_cutter_free(m->base.cutters[1]);
    kmf_model_free(m->model);
    kmf_free(m);
}

/* Packs the weights, and makes an encoder for each thread. */
static int prepare(kmf_method *method, const kmf_embed_options *opts, kmf_err *err)
{
    encode *m = (encode *)method;
    if (m->first == 0)
        return 0;
    int status = kmf_model_prepare(m->model, (kmf_precision)opts->precision, err);
    if (status < 0)
        return status;
    m->encoders = kmf_calloc(m->threads, sizeof(kmf_encoder *), err);
    if (!m->encoders)
        return KMF_ENOMEM;
    m->pooled = kmf_floats(m->threads * m->base.shape.dim, err);
    if (!m->pooled)
        return KMF_ENOMEM;
    for (size_t i = 0; i < m->threads; i++) {
        m->encoders[i] = kmf_encoder_new(m->model, m->base.shape.cap_units, m->window, err);
        if (!m->encoders[i])
            return KMF_ENOMEM;
    }
    return 0;
}

static const kmf_method_kind kind = {.work = work,
                                     .prepare = prepare,
                                     .help = help,
                                     .finish = compose,
                                     .bytes = bytes,
                                     .settings = settings,
                                     .free = release,
                                     .unknown = "k-mers that the vocabulary lacks"};

static int make_cutters(encode *m, const kmf_embed_options *o, kmf_err *err)
{
    kmf_cut_options cut = {.stride = o->stride,
                           .window = o->window,
                           .overlap = o->overlap,
                           .specials = kmf_model_config(m->model)->specials,
                           .ambiguous = (kmf_ambiguous)o->ambiguous,
                           .policy = (kmf_long)o->policy,
                           .exact =
                               o->exact ? kmf_model_config(m->model)->exact : KMF_EXACT_NO};
    for (int reverse = 0; reverse < 2; reverse++) {
        cut.reverse = reverse;
        m->base.cutters[reverse] = kmf_cutter_new(kmf_model_vocab(m->model), &cut, err);
        if (!m->base.cutters[reverse])
            return KMF_EMODEL;
    }
    return 0;
}

/* A model of the shape of another, NULL: the default one, with weights drawn from seed. */
static kmf_model *draw_model(const char *name, const char *shape, uint64_t seed, kmf_err *err)
{
    kmf_model *model = NULL;
    kmf_model *like = kmf_model_load(shape, err);
    const kmf_config *c = like ? kmf_model_config(like) : NULL;
    if (c && kmf_config_check_native(c, "", NULL) < 0)
        kmf_fail(err, KMF_EMODEL,
                 "%s: random weights are drawn for models of our own family alone", name);
    else if (c)
        model = kmf_model_new(c, seed, err);
    kmf_model_free(like);
    return model;
}

static int get_model(encode *m, const char *name, uint64_t seed, kmf_err *err)
{
    if (!kmf_is_random(name)) {
        m->model = kmf_model_load(name, err);
        m->base.name = m->model ? kmf_model_path(m->model) : NULL;
        return m->model ? 0 : KMF_EMODEL;
    }
    m->drawn = kmf_strdup(name, err);
    m->base.name = m->drawn;
    const char *shape = strchr(name, ':');
    if (shape && shape[1] == '\0')
        return kmf_fail(err, KMF_EINVAL, "%s: write random, or random:MODEL", name);
    if (m->drawn)
        m->model = draw_model(name, shape ? shape + 1 : NULL, seed, err);
    return m->model ? 0 : KMF_EMODEL;
}

kmf_method *kmf_encode_open(const char *name, kmf_embed_options *opts, kmf_err *err)
{
    encode *m = kmf_calloc(1, sizeof *m, err);
    if (!m)
        return NULL;
    m->base.kind = &kind;
    if (get_model(m, name, opts->seed, err) < 0 ||
        kmf_settings_model(opts, kmf_model_config(m->model), kmf_model_vocab(m->model), err) <
            0 ||
        make_cutters(m, opts, err) < 0)
        goto failed;
    const kmf_config *c = kmf_model_config(m->model);
    kmf_vector_parts parts = (kmf_vector_parts)opts->parts;
    m->D = c->hidden_size;
    m->first = kmf_has_states(parts) ? m->D : 0;
    m->C = kmf_has_composition(parts) ? c->composition : 0;
    m->base.shared = m->first > 0;
    m->composer = kmf_composer_of(&m->model->params, c);
    m->base.model = m->model;
    m->base.first = m->C > 0 ? m->first : 0;
    if (kmf_hashed_model_list(&m->hashed, m->model, err) < 0)
        goto failed;
    memcpy(m->base.files, m->hashed.list, sizeof m->base.files);
    m->base.shape = kmf_batch_choose(opts->batch_tokens, opts->window, m->first + m->C, true);
    m->base.shape.per_token = opts->pooling == KMF_POOL_NONE;
    m->threads = (size_t)opts->threads;
    m->window = opts->window;
    m->layer = (size_t)opts->layer;
    m->pooling = (kmf_pooling)opts->pooling;
    if (c->specials) {
        size_t n = kmf_vocab_frame(kmf_model_vocab(m->model));
        m->around = (frame){n > 0, n > 1};
    }
    return &m->base;
failed:
    kmf_method_free(&m->base);
    return NULL;
}
