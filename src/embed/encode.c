/* SPDX-License-Identifier: MIT */
/*
 * Vectors by an encoder. A piece is a chunk of token ids that fits the model's window.
 *
 * Pooling: from the hidden states of a batch to what each piece adds to its record.
 *
 *   mean   sum over the k-mers that the chunk owns, in double, in order
 *   max    maximum over them
 *   cls    the first token's state once for every k-mer that the chunk owns, so that a record's
 *          vector is the mean of its chunks weighted by what they own
 *   none   their states themselves
 */
#include "base/err.h"
#include "base/mem.h"
#include "embed/method.h"
#include "embed/settings.h"
#include "model/model.h"

#include <math.h>
#include <string.h>

typedef struct encode {
    kmf_method base;
    kmf_model *model;       /* owned */
    kmf_encoder **encoders; /* owned [threads] */
    size_t threads;
    size_t window;
    size_t layer; /* 0 .. L */
    kmf_pooling pooling;
} encode;

/* ---------------------------------------------------------------- pooling --------------- */

static void sum_rows(double *sum, const float *hidden, const kmf_batch *b, const kmf_piece *p)
{
    size_t D = b->dim;
    memset(sum, 0, D * sizeof *sum);
    for (size_t t = p->own_beg; t < p->own_end; t++) {
        if (!b->real[t])
            continue;
        const float *h = hidden + t * D;
        for (size_t d = 0; d < D; d++)
            sum[d] += (double)h[d];
    }
}

/* A NaN wins, so that it is found. */
static void max_rows(double *max, const float *hidden, const kmf_batch *b, const kmf_piece *p)
{
    size_t D = b->dim;
    for (size_t d = 0; d < D; d++)
        max[d] = -HUGE_VAL;
    for (size_t t = p->own_beg; t < p->own_end; t++) {
        if (!b->real[t])
            continue;
        const float *h = hidden + t * D;
        for (size_t d = 0; d < D; d++)
            max[d] = (double)h[d] <= max[d] ? max[d] : (double)h[d];
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

/* Pooled in double: sum [D]. */
static void pool_rows(double *sum, const float *hidden, const kmf_batch *b, const kmf_piece *p,
                      kmf_pooling pooling)
{
    if (pooling == KMF_POOL_MEAN)
        sum_rows(sum, hidden, b, p);
    else if (pooling == KMF_POOL_MAX)
        max_rows(sum, hidden, b, p);
    else
        for (size_t d = 0; d < b->dim; d++)
            sum[d] = (double)hidden[p->beg * b->dim + d] * (double)p->tokens;
}

/* ---------------------------------------------------------------- the method ------------ */

/* The pieces' results from the hidden states of the batch. */
static void pool(const encode *m, kmf_batch *batch, const float *hidden)
{
    size_t n_rows = 0;
    for (size_t i = 0; i < batch->n_pieces; i++) {
        kmf_piece *p = &batch->pieces[i];
        p->tokens = 0;
        for (size_t t = p->own_beg; t < p->own_end; t++)
            p->tokens += batch->real[t];
        p->weight = (double)p->tokens;
        if (m->pooling == KMF_POOL_NONE)
            copy_rows(batch, hidden, p, &n_rows);
        else
            pool_rows(batch->sums + i * batch->dim, hidden, batch, p, m->pooling);
    }
}

static void work(const kmf_method *method, kmf_batch *batch, int worker)
{
    const encode *m = (const encode *)method;
    pool(m, batch,
         kmf_encoder_forward(m->encoders[worker], batch->ids, batch->off, batch->n_pieces,
                             m->layer));
}

static int together(const kmf_method *method, kmf_batch *batch, kmf_err *err)
{
    const encode *m = (const encode *)method;
    const float *hidden;
    int status = kmf_encoder_forward_together(m->encoders, m->threads, &hidden, batch->ids,
                                              batch->off, batch->n_pieces, m->layer, err);
    if (status == 0)
        pool(m, batch, hidden);
    return status;
}

static size_t bytes(const kmf_method *method)
{
    const encode *m = (const encode *)method;
    return m->threads * kmf_encoder_bytes(kmf_model_config(m->model),
                                          kmf_model_precision(m->model),
                                          m->base.shape.cap_units, m->window) +
           sizeof(float) * (size_t)kmf_model_n_parameters(m->model) + m->model->packed->bytes;
}

static json_t *settings(const kmf_embed_options *o)
{
    return json_pack("{s:s, s:i, s:s, s:I, s:I, s:I, s:s}", "pooling",
                     kmf_pooling_names[o->pooling], "layer", o->layer, "long",
                     kmf_long_names[o->policy], "stride", (json_int_t)o->stride, "window",
                     (json_int_t)o->window, "overlap", (json_int_t)o->overlap, "precision",
                     kmf_precision_names[o->precision]);
}

static void release(kmf_method *method)
{
    encode *m = (encode *)method;
    for (size_t i = 0; m->encoders && i < m->threads; i++)
        kmf_encoder_free(m->encoders[i]);
    kmf_free(m->encoders);
    kmf_cutter_free(m->base.cutters[0]);
    kmf_cutter_free(m->base.cutters[1]);
    kmf_model_free(m->model);
    kmf_free(m);
}

static const kmf_method_kind kind = {.work = work,
                                     .together = together,
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
                           .policy = (kmf_long)o->policy};
    for (int reverse = 0; reverse < 2; reverse++) {
        cut.reverse = reverse;
        m->base.cutters[reverse] = kmf_cutter_new(kmf_model_vocab(m->model), &cut, err);
        if (!m->base.cutters[reverse])
            return KMF_EMODEL;
    }
    return 0;
}

static int make_encoders(encode *m, kmf_err *err)
{
    m->encoders = kmf_calloc(m->threads, sizeof(kmf_encoder *), err);
    if (!m->encoders)
        return KMF_ENOMEM;
    for (size_t i = 0; i < m->threads; i++) {
        m->encoders[i] = kmf_encoder_new(m->model, m->base.shape.cap_units, m->window, err);
        if (!m->encoders[i])
            return KMF_ENOMEM;
    }
    return 0;
}

kmf_method *kmf_encode_open(const char *name, kmf_embed_options *opts, kmf_err *err)
{
    encode *m = kmf_calloc(1, sizeof *m, err);
    if (!m)
        return NULL;
    m->base.kind = &kind;
    m->model = kmf_model_load(name, err);
    if (!m->model || kmf_settings_model(opts, kmf_model_config(m->model), err) < 0 ||
        make_cutters(m, opts, err) < 0 ||
        kmf_model_prepare(m->model, (kmf_precision)opts->precision, err) < 0)
        goto failed;
    m->base.name = kmf_model_path(m->model);
    m->base.model = m->model;
    m->base.files[0].key = "md5";
    m->base.files[0].map = &m->model->map;
    m->base.shape = kmf_batch_choose(opts->batch_tokens, opts->window,
                                     kmf_model_config(m->model)->hidden_size, true);
    m->base.shape.per_token = opts->pooling == KMF_POOL_NONE;
    m->threads = (size_t)opts->threads;
    m->window = opts->window;
    m->layer = (size_t)opts->layer;
    m->pooling = (kmf_pooling)opts->pooling;
    if (make_encoders(m, err) < 0)
        goto failed;
    return &m->base;
failed:
    kmf_method_free(&m->base);
    return NULL;
}
