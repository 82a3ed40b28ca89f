/* SPDX-License-Identifier: MIT */
/*
 * The masked-language-model head, for the labelled tokens alone, and the loss:
 *
 *   g = x Wh^T + bh    o = LN(act(g))    p = softmax(o word^T + b)    loss = sum -w ln p[label]
 *
 * Probabilities are the largest array there is, so `chunk` tokens at a time go all the way, and
 * back again when gradients are wanted. The word table is tied: it has a gradient from here and
 * one from the embedding.
 */
#include "base/mem.h"
#include "learn/mlm_room.h"
#include "nn/loss.h"
#include "nn/ops.h"

#include <string.h>

enum { HEAD, WORD, HEAD_BACK, WORD_BACK, N_PACKED };

static int pack_head(void *arg, size_t i, int worker, kmf_err *err)
{
    kmf_mlm *m = arg;
    const kmf_params *w = m->w;
    (void)worker;
    (void)err;
    if (i == HEAD)
        kmf_mlm_pack(m, &m->head, (const kmf_real *[]){w->head_w}, 1, m->E, m->D);
    else if (i == WORD)
        kmf_mlm_pack(m, &m->word, (const kmf_real *[]){w->word}, 1, m->V, m->E);
    else if (i == HEAD_BACK)
        kmf_mlm_pack_back(m, &m->head_back, (const kmf_real *[]){w->head_w}, 1, m->E, m->D);
    else
        kmf_mlm_pack_back(m, &m->word_back, (const kmf_real *[]){w->word}, 1, m->V, m->E);
    return 0;
}

/* ---------------------------------------------------------------- forward ---------------- */

/* [t, D] -> probabilities [t, V] and losses, for a strip of the chunk. */
static void strip_forward(const kmf_mlm *m, const kmf_strip *strip, int worker)
{
    const kmf_params *w = m->w;
    size_t D = m->D, E = m->E, V = m->V;
    size_t beg = strip->row, rows = strip->rows;
    size_t first = m->first + beg;
    kmf_real *x = m->head_x + beg * D;
    kmf_real *h = m->head_h + beg * E;
    kmf_real *act = m->head_act + beg * E;
    kmf_real *out = m->head_out + beg * E;
    kmf_real *p = m->probs + beg * V;
    for (size_t i = 0; i < rows; i++)
        memcpy(x + i * D, m->x + m->rows[first + i] * D, D * sizeof *x);
    kmf_mlm_multiply(m, worker, h, E, x, D, &m->head, rows, w->head_b); /* [t, D] -> [t, E] */
    kmf_activation_forward(act, E, h, E, m->config.activation, rows, E);
    kmf_layernorm_copy_forward(out, E, act, E, w->head_ln_w, w->head_ln_b,
                               m->config.layer_norm_eps, rows, E);
    kmf_mlm_multiply(m, worker, p, V, out, E, &m->word, rows, w->head_bias); /* -> [t, V] */
    kmf_softmax_forward(p, V, m->nll + first, m->labels + first, rows, V);
    if (m->sites)
        kmf_gemm_inner(m->sites + first * m->opts.n_sites, m->opts.n_sites, p, V, m->opts.sites,
                       m->opts.n_sites, rows, m->opts.n_sites, V, 0); /* [t, V] -> [t, sites] */
}

/* ---------------------------------------------------------------- backward --------------- */

enum { LN_W, LN_B, HEAD_B };

/* Probabilities -> gradients by the logits, in place, and by x, to dx. */
static void strip_backward(const kmf_mlm *m, const kmf_strip *strip, int worker)
{
    const kmf_params *w = m->w;
    size_t D = m->D, E = m->E, V = m->V;
    size_t beg = strip->row, rows = strip->rows;
    size_t first = m->first + beg;
    kmf_real *p = m->probs + beg * V;
    kmf_real *dh = kmf_mlm_of_worker(m, m->strip_y, worker, kmf_max(D, E));
    kmf_real *dx = kmf_mlm_of_worker(m, m->strip_x, worker, D);
    kmf_real *weights = m->head_weights + beg;
    kmf_mlm_clear_sums(m, strip);
    for (size_t i = 0; i < rows; i++)
        weights[i] = m->batch->weights ? m->batch->weights[m->rows[first + i]] : 1;
    kmf_softmax_backward(p, V, m->labels + first, weights, rows, V);
    kmf_gemm_pack_left(&m->products[WORD].dy, p, V, beg, rows);
    kmf_gemm_pack_right(&m->products[WORD].x, m->head_out + beg * E, E, beg, rows);
    kmf_mlm_multiply(m, worker, dh, E, p, V, &m->word_back, rows, NULL); /* [t, V] -> [t, E] */
    kmf_mlm_norm_backward(m, strip, LN_W, LN_B, dh, m->head_act + beg * E, w->head_ln_w);
    kmf_activation_backward(dh, E, dh, E, m->head_h + beg * E, E, m->config.activation, rows,
                            E);
    kmf_mlm_bias_backward(m, strip, HEAD_B, dh, E);
    kmf_gemm_pack_left(&m->products[HEAD].dy, dh, E, beg, rows);
    kmf_gemm_pack_right(&m->products[HEAD].x, m->head_x + beg * D, D, beg, rows);
    kmf_mlm_multiply(m, worker, dx, D, dh, E, &m->head_back, rows, NULL); /* [t, E] -> [t, D] */
    for (size_t i = 0; i < rows; i++)
        memcpy(m->dx + m->rows[first + i] * D, dx + i * D, D * sizeof *dx);
}

static int strip_pass(void *arg, size_t i, int worker, kmf_err *err)
{
    const kmf_mlm *m = arg;
    kmf_strip strip = kmf_mlm_strip(m, i);
    (void)err;
    strip_forward(m, &strip, worker);
    if (m->d)
        strip_backward(m, &strip, worker);
    return 0;
}

static size_t bias_items(const kmf_mlm *m)
{
    return kmf_div_up(m->V, KMF_WEIGHT_ROWS);
}

/* The products, the bias in blocks of the vocabulary, the vectors. */
static int weights_backward(void *arg, size_t i, int worker, kmf_err *err)
{
    const kmf_mlm *m = arg;
    size_t n_products = kmf_mlm_product_items(m);
    (void)worker;
    (void)err;
    if (i < n_products) {
        kmf_mlm_product_add(m, i);
    } else if (i - n_products < bias_items(m)) {
        size_t beg = (i - n_products) * KMF_WEIGHT_ROWS;
        size_t n = kmf_min(m->V - beg, KMF_WEIGHT_ROWS);
        kmf_bias_backward(m->d->head_bias + beg, m->probs + beg, m->V, m->n_chunk, n);
    } else {
        kmf_mlm_reduce(m, m->n_chunk);
    }
    return 0;
}

static void plan_backward(kmf_mlm *m)
{
    m->n_products = m->n_sums = 0;
    kmf_mlm_sum(m, m->d->head_ln_w, m->E);
    kmf_mlm_sum(m, m->d->head_ln_b, m->E);
    kmf_mlm_sum(m, m->d->head_b, m->E);
    size_t n = m->chunk;
    kmf_mlm_product(m, m->d->head_w, kmf_mlm_factor(m, m->factors[0], n, m->E),
                    kmf_mlm_factor(m, m->factors[1], n, m->D));
    kmf_mlm_product(m, m->d->word, kmf_mlm_factor(m, m->dlogits, n, m->V),
                    kmf_mlm_factor(m, m->factors[2], n, m->E));
}

static int chunk_pass(kmf_mlm *m, kmf_err *err)
{
    if (m->d)
        plan_backward(m);
    int rc = kmf_mlm_each(m, m->n_chunk, KMF_TILE, strip_pass, err);
    if (rc == 0 && m->d)
        rc = kmf_pool_each(m->pool, kmf_mlm_product_items(m) + bias_items(m) + 1,
                           weights_backward, m, err);
    return rc;
}

int kmf_mlm_head(kmf_mlm *m, kmf_mlm_result *result, kmf_err *err)
{
    size_t n_packed = m->d ? N_PACKED : HEAD_BACK;
    int rc = kmf_pool_each(m->pool, m->n_labels > 0 ? n_packed : 0, pack_head, m, err);
    if (m->d && kmf_mlm_encodes(m))
        memset(m->dx, 0, m->n * m->D * sizeof *m->dx);
    for (m->first = 0; m->first < m->n_labels && rc == 0; m->first += m->chunk) {
        size_t left = m->n_labels - m->first;
        m->n_chunk = kmf_min(left, m->chunk);
        rc = chunk_pass(m, err);
    }
    *result =
        (kmf_mlm_result){.n = m->n_labels, .rows = m->rows, .nll = m->nll, .sites = m->sites};
    for (size_t i = 0; i < m->n_labels; i++) {
        double weight = m->batch->weights ? (double)m->batch->weights[m->rows[i]] : 1.0;
        result->loss += weight * m->nll[i];
        result->weight += weight;
    }
    return rc;
}
