/* SPDX-License-Identifier: MIT */
/*
 * A block, post-LN, with rotary queries and keys:
 *
 *   q, k, v = x Wqkv^T + bqkv                     strips     keeps  qkv, turned
 *   a       = attention(q, k, v)                  heads             heads, stats
 *   s1      = x + dropout(a Wo^T + bo)            strips            sum1
 *   m       = LN1(s1)
 *   h       = m W1^T + b1                                           h
 *   s2      = m + dropout(act(h) W2^T + b2)                         sum2
 *   x       = LN2(s2)
 *
 * What is not kept is one pass over a row away from what is: m and x are norms of sums, act(h) is
 * the activation. Backward makes them again by the way. In its terms, with d for the gradient:
 *
 *   strips  ds2 = LN2'(dx)   dy2 = dropout'(ds2)   dh = act'(h) (dy2 W2)
 *           ds1 = LN1'(ds2 + dh W1)   dy1 = dropout'(ds1)   da = dy1 Wo
 *   heads   dq, dk, dv = attention'(da), turned back   | weights  dW2 += dy2^T act(h)
 *                                                      |          dW1 += dh^T m
 *                                                      |          dWo += dy1^T a
 *   strips  dx = ds1 + dqkv Wqkv                       | weights  dWqkv += dqkv^T x
 */
#include "base/mem.h"
#include "learn/mlm_room.h"
#include "nn/attention_train.h"
#include "nn/ops.h"

#include <string.h>

/* ---------------------------------------------------------------- forward ---------------- */

enum { QKV, WO, W1, W2, N_WEIGHTS };

/* For products with the weights, kmf_mlm_pack, or with their transposes, kmf_mlm_pack_back. */
typedef void pack_fn(const kmf_mlm *m, kmf_packing *p, const kmf_real *const *w, size_t n_parts,
                     size_t Dout, size_t Din);

static void pack_weight(kmf_mlm *m, size_t i, pack_fn *pack)
{
    const kmf_layer *w = &m->w->layers[m->layer];
    size_t D = m->D;
    if (i == QKV)
        pack(m, &m->qkv, (const kmf_real *[]){w->wq, w->wk, w->wv}, 3, 3 * D, D);
    else if (i == WO)
        pack(m, &m->wo, (const kmf_real *[]){w->wo}, 1, D, D);
    else if (i == W1)
        pack(m, &m->w1, (const kmf_real *[]){w->w1}, 1, m->F, D);
    else
        pack(m, &m->w2, (const kmf_real *[]){w->w2}, 1, D, m->F);
}

static int pack_forward(void *arg, size_t i, int worker, kmf_err *err)
{
    kmf_mlm *m = arg;
    const kmf_layer *w = &m->w->layers[m->layer];
    size_t D = m->D;
    (void)worker;
    (void)err;
    pack_weight(m, i, kmf_mlm_pack);
    if (i == QKV) {
        memcpy(m->qkv_bias, w->bq, D * sizeof *w->bq);
        memcpy(m->qkv_bias + D, w->bk, D * sizeof *w->bk);
        memcpy(m->qkv_bias + 2 * D, w->bv, D * sizeof *w->bv);
    }
    return 0;
}

static int qkv_forward(void *arg, size_t i, int worker, kmf_err *err)
{
    const kmf_mlm *m = arg;
    size_t ld = 3 * m->D;
    kmf_strip strip = kmf_mlm_strip(m, i);
    kmf_real *qkv = m->layers[m->layer].qkv + strip.row * ld;
    (void)err;
    kmf_mlm_multiply(m, worker, qkv, ld, m->x + strip.row * m->D, m->D, &m->qkv, strip.rows,
                     m->qkv_bias); /* [t, D] -> [t, 3D] */
    return 0;
}

/* Item i: head i % H of sequence i / H. */
static int attention_forward(void *arg, size_t i, int worker, kmf_err *err)
{
    const kmf_mlm *m = arg;
    const kmf_activations *a = &m->layers[m->layer];
    size_t s = i / m->H, h = i % m->H;
    size_t beg = m->batch->off[s];
    size_t T = m->batch->off[s + 1] - beg;
    size_t ld = 3 * m->D;
    kmf_real *q = a->qkv + beg * ld;
    kmf_real *k = q + m->D;
    kmf_real *v = k + m->D;
    double dropout = m->training ? m->batch->dropout : 0;
    (void)err;
    kmf_rotary_forward(q + h * m->K, ld, m->cos_t, m->sin_t, T, 1, m->K);
    kmf_rotary_forward(k + h * m->K, ld, m->cos_t, m->sin_t, T, 1, m->K);
    if (m->config.rotary_value)
        kmf_rotary_forward(v + h * m->K, ld, m->cos_t, m->sin_t, T, 1, m->K);
    const kmf_attention_task task = {.q = q,
                                     .k = k,
                                     .v = v,
                                     .ld = ld,
                                     .T = T,
                                     .K = m->K,
                                     .key =
                                         kmf_mlm_drop_key(m, KMF_DROP_ATTENTION, m->layer, s),
                                     .p = dropout,
                                     .precision = m->opts.precision,
                                     .scratch = m->scratch + (size_t)worker * m->scratch_size};
    kmf_attention_forward_train(a->heads + beg * m->D, m->D, a->stats + beg * 2 * m->H, &task,
                                h, h + 1); /* [T, 3D] -> [T, D] */
    return 0;
}

static int feed_forward(void *arg, size_t i, int worker, kmf_err *err)
{
    const kmf_mlm *m = arg;
    const kmf_layer *w = &m->w->layers[m->layer];
    const kmf_activations *a = &m->layers[m->layer];
    double eps = m->config.layer_norm_eps;
    size_t D = m->D, F = m->F;
    kmf_strip strip = kmf_mlm_strip(m, i);
    size_t row = strip.row, rows = strip.rows;
    size_t cells = rows * D * sizeof(kmf_real);
    kmf_real *x = m->x + row * D;
    kmf_real *sum1 = a->sum1 + row * D;
    kmf_real *sum2 = a->sum2 + row * D;
    kmf_real *h = a->h + row * F;
    kmf_real *y = kmf_mlm_of_worker(m, m->strip_y, worker, kmf_max(m->D, m->E));
    kmf_real *mid = kmf_mlm_of_worker(m, m->strip_x, worker, D);
    kmf_real *act = kmf_mlm_of_worker(m, m->strip_f, worker, F);
    (void)err;

    kmf_mlm_multiply(m, worker, y, D, a->heads + row * D, D, &m->wo, rows, w->bo);
    kmf_mlm_drop(m, y, D, KMF_DROP_HEADS, m->layer, row, rows, D);
    memcpy(sum1, x, cells);
    kmf_residual_forward(sum1, D, y, D, NULL, rows, D);
    kmf_layernorm_copy_forward(mid, D, sum1, D, w->ln1_w, w->ln1_b, eps, rows, D);

    kmf_mlm_multiply(m, worker, h, F, mid, D, &m->w1, rows, w->b1); /* [t, D] -> [t, F] */
    kmf_activation_forward(act, F, h, F, m->config.activation, rows, F);
    kmf_mlm_multiply(m, worker, y, D, act, F, &m->w2, rows, w->b2); /* [t, F] -> [t, D] */
    kmf_mlm_drop(m, y, D, KMF_DROP_FEED, m->layer, row, rows, D);
    memcpy(sum2, mid, cells);
    kmf_residual_forward(sum2, D, y, D, NULL, rows, D);
    kmf_layernorm_copy_forward(x, D, sum2, D, w->ln2_w, w->ln2_b, eps, rows, D);
    return 0;
}

int kmf_mlm_block_forward(kmf_mlm *m, size_t layer, kmf_err *err)
{
    m->layer = layer;
    int rc = kmf_pool_each(m->pool, N_WEIGHTS, pack_forward, m, err);
    if (rc == 0)
        rc = kmf_mlm_each(m, m->n, KMF_GRAIN, qkv_forward, err);
    if (rc == 0)
        rc = kmf_pool_each(m->pool, m->batch->n_seq * m->H, attention_forward, m, err);
    if (rc == 0)
        rc = kmf_mlm_each(m, m->n, KMF_GRAIN, feed_forward, err);
    return rc;
}

/* ---------------------------------------------------------------- backward --------------- */

static int pack_backward(void *arg, size_t i, int worker, kmf_err *err)
{
    (void)worker;
    (void)err;
    pack_weight(arg, i, kmf_mlm_pack_back);
    return 0;
}

/* The input of the block, again: `rows` rows from `row` on, to `to`. */
static void input_again(const kmf_mlm *m, kmf_real *to, size_t row, size_t rows)
{
    size_t D = m->D;
    if (m->layer == 0) {
        memcpy(to, m->x0 + row * D, rows * D * sizeof *to);
        return;
    }
    const kmf_layer *below = &m->w->layers[m->layer - 1];
    kmf_layernorm_copy_forward(to, D, m->layers[m->layer - 1].sum2 + row * D, D, below->ln2_w,
                               below->ln2_b, m->config.layer_norm_eps, rows, D);
}

enum { LN2_W, LN2_B, B2, B1, LN1_W, LN1_B, BO };
/* Factors of the gradients after the attention, and of those before it, in the same rooms. */
enum { DY2, DY1, MID, HEADS };
enum { DH, ACT };
enum { DQ, DK, DV, IN };

static kmf_factor factor(const kmf_mlm *m, size_t i)
{
    return kmf_mlm_factor(m, m->factors[i], m->stage, m->D);
}

static kmf_factor wide_factor(const kmf_mlm *m, size_t i)
{
    return kmf_mlm_factor(m, m->wide[i], m->stage, m->F);
}

static int feed_backward(void *arg, size_t i, int worker, kmf_err *err)
{
    const kmf_mlm *m = arg;
    const kmf_layer *w = &m->w->layers[m->layer];
    const kmf_activations *a = &m->layers[m->layer];
    size_t D = m->D, F = m->F;
    kmf_strip strip = kmf_mlm_strip(m, i);
    size_t row = strip.row, rows = strip.rows, at = strip.at;
    size_t cells = rows * D * sizeof(kmf_real);
    kmf_real *dx = m->dx + row * D; /* then ds2 */
    kmf_real *h = a->h + row * F;
    kmf_real *mid = kmf_mlm_of_worker(m, m->strip_x, worker, D);
    kmf_real *dh = kmf_mlm_of_worker(m, m->strip_f, worker, F);
    kmf_real *act = kmf_mlm_of_worker(m, m->strip_act, worker, F);
    kmf_real *dy2 = kmf_mlm_of_worker(m, m->strip_y, worker, kmf_max(m->D, m->E));
    kmf_real *dy1 = dy2;
    kmf_real *ds1 = m->dsum1 + row * D;
    kmf_real *sum1 = a->sum1 + row * D;
    kmf_factor of_dy2 = factor(m, DY2), of_dy1 = factor(m, DY1), of_mid = factor(m, MID);
    kmf_factor of_heads = factor(m, HEADS), of_dh = wide_factor(m, DH);
    kmf_factor of_act = wide_factor(m, ACT);
    (void)err;
    kmf_mlm_clear_sums(m, &strip);

    kmf_mlm_norm_backward(m, &strip, LN2_W, LN2_B, dx, a->sum2 + row * D, w->ln2_w);
    memcpy(dy2, dx, cells);
    kmf_mlm_drop(m, dy2, D, KMF_DROP_FEED, m->layer, row, rows, D);
    kmf_mlm_bias_backward(m, &strip, B2, dy2, D);
    kmf_gemm_pack_left(&of_dy2, dy2, D, at, rows);
    kmf_mlm_multiply(m, worker, dh, F, dy2, D, &m->w2, rows, NULL); /* [t, D] -> [t, F] */
    kmf_activation_backward_both(dh, F, act, F, dh, F, h, F, m->config.activation, rows, F);
    kmf_gemm_pack_right(&of_act, act, F, at, rows);
    kmf_mlm_bias_backward(m, &strip, B1, dh, F);
    kmf_gemm_pack_left(&of_dh, dh, F, at, rows);
    kmf_mlm_multiply(m, worker, ds1, D, dh, F, &m->w1, rows, NULL); /* [t, F] -> [t, D] */
    kmf_residual_forward(ds1, D, dx, D, NULL, rows, D);

    kmf_mlm_norm_backward(m, &strip, LN1_W, LN1_B, ds1, sum1, w->ln1_w);
    memcpy(dy1, ds1, cells);
    kmf_mlm_drop(m, dy1, D, KMF_DROP_HEADS, m->layer, row, rows, D);
    kmf_mlm_bias_backward(m, &strip, BO, dy1, D);
    kmf_gemm_pack_left(&of_dy1, dy1, D, at, rows);
    kmf_mlm_multiply(m, worker, m->dheads + row * D, D, dy1, D, &m->wo, rows, NULL);

    kmf_layernorm_copy_forward(mid, D, sum1, D, w->ln1_w, w->ln1_b, m->config.layer_norm_eps,
                               rows, D);
    kmf_gemm_pack_right(&of_mid, mid, D, at, rows);
    kmf_gemm_pack_right(&of_heads, a->heads + row * D, D, at, rows);
    input_again(m, m->x + row * D, row, rows);
    return 0;
}

static void attention_backward(const kmf_mlm *m, size_t i, int worker)
{
    const kmf_activations *a = &m->layers[m->layer];
    size_t s = i / m->H, h = i % m->H;
    size_t beg = m->batch->off[s];
    size_t T = m->batch->off[s + 1] - beg;
    size_t D = m->D;
    size_t ld = 3 * D;
    const kmf_real *q = a->qkv + beg * ld;
    kmf_real *dq = m->dqkv + beg * ld;
    const kmf_attention_task task = {.q = q,
                                     .k = q + D,
                                     .v = q + 2 * D,
                                     .ld = ld,
                                     .T = T,
                                     .K = m->K,
                                     .key =
                                         kmf_mlm_drop_key(m, KMF_DROP_ATTENTION, m->layer, s),
                                     .p = m->batch->dropout,
                                     .precision = m->opts.precision,
                                     .scratch = m->scratch + (size_t)worker * m->scratch_size};
    const kmf_attention_gradients d = {dq, dq + D, dq + 2 * D, ld};
    kmf_attention_backward(&d, m->dheads + beg * D, D, a->heads + beg * D, D,
                           a->stats + beg * 2 * m->H, &task, h, h + 1);
    kmf_rotary_backward(dq + h * m->K, ld, m->cos_t, m->sin_t, T, 1, m->K);
    kmf_rotary_backward(dq + D + h * m->K, ld, m->cos_t, m->sin_t, T, 1, m->K);
    if (m->config.rotary_value)
        kmf_rotary_backward(dq + 2 * D + h * m->K, ld, m->cos_t, m->sin_t, T, 1, m->K);
}

/* Weights after the attention, then heads, then the vectors. */
static int attention_and_weights_backward(void *arg, size_t i, int worker, kmf_err *err)
{
    const kmf_mlm *m = arg;
    size_t n_products = kmf_mlm_product_items(m);
    size_t n_heads = m->batch->n_seq * m->H;
    (void)err;
    if (i < n_products)
        kmf_mlm_product_add(m, i);
    else if (i - n_products < n_heads)
        attention_backward(m, i - n_products, worker);
    else
        kmf_mlm_reduce(m, m->n);
    return 0;
}

/* dx = ds1 + dqkv Wqkv */
static int qkv_backward(void *arg, size_t i, int worker, kmf_err *err)
{
    const kmf_mlm *m = arg;
    size_t D = m->D;
    size_t ld = 3 * D;
    kmf_strip strip = kmf_mlm_strip(m, i);
    size_t row = strip.row, rows = strip.rows, at = strip.at;
    kmf_real *dx = m->dx + row * D;
    const kmf_real *dqkv = m->dqkv + row * ld;
    (void)err;
    kmf_mlm_clear_sums(m, &strip);
    for (size_t b = 0; b < m->n_sums; b++)
        kmf_mlm_bias_backward(m, &strip, b, dqkv + b * D, ld);
    kmf_mlm_multiply(m, worker, dx, D, dqkv, ld, &m->qkv, rows, NULL); /* [t, 3D] -> [t, D] */
    kmf_residual_forward(dx, D, m->dsum1 + row * D, D, NULL, rows, D);
    for (size_t d = DQ; d <= DV; d++) {
        kmf_factor part = factor(m, d);
        kmf_gemm_pack_left(&part, dqkv + d * D, ld, at, rows);
    }
    kmf_factor in = factor(m, IN);
    kmf_gemm_pack_right(&in, m->x + row * D, D, at, rows);
    return 0;
}

static int qkv_weights_backward(void *arg, size_t i, int worker, kmf_err *err)
{
    const kmf_mlm *m = arg;
    (void)worker;
    (void)err;
    if (i < kmf_mlm_product_items(m))
        kmf_mlm_product_add(m, i);
    else
        kmf_mlm_reduce(m, m->n);
    return 0;
}

static void plan_feed_backward(kmf_mlm *m)
{
    const kmf_layer *d = &m->d->layers[m->layer];
    size_t D = m->D, F = m->F;
    m->n_products = m->n_sums = 0;
    kmf_mlm_sum(m, d->ln2_w, D);
    kmf_mlm_sum(m, d->ln2_b, D);
    kmf_mlm_sum(m, d->b2, D);
    kmf_mlm_sum(m, d->b1, F);
    kmf_mlm_sum(m, d->ln1_w, D);
    kmf_mlm_sum(m, d->ln1_b, D);
    kmf_mlm_sum(m, d->bo, D);
    kmf_mlm_product(m, d->w2, factor(m, DY2), wide_factor(m, ACT));
    kmf_mlm_product(m, d->w1, wide_factor(m, DH), factor(m, MID));
    kmf_mlm_product(m, d->wo, factor(m, DY1), factor(m, HEADS));
}

static void plan_qkv_backward(kmf_mlm *m)
{
    const kmf_layer *d = &m->d->layers[m->layer];
    kmf_real *dw[] = {d->wq, d->wk, d->wv};
    kmf_real *db[] = {d->bq, d->bk, d->bv};
    m->n_products = m->n_sums = 0;
    for (size_t i = 0; i < 3; i++) {
        kmf_mlm_sum(m, db[i], m->D);
        kmf_mlm_product(m, dw[i], factor(m, DQ + i), factor(m, IN));
    }
}

/* What the forward left in the arrays that the layers share has to be made again. */
static int forward_again(kmf_mlm *m, size_t layer, kmf_err *err)
{
    m->layer = layer;
    input_again(m, m->x, 0, m->n);
    kmf_mlm_mix_forward(m, m->x, layer);
    return kmf_mlm_block_forward(m, layer, err);
}

int kmf_mlm_block_backward(kmf_mlm *m, size_t layer, kmf_err *err)
{
    int rc = 0;
    if (m->opts.recompute && layer + 1 < m->L)
        rc = forward_again(m, layer, err);
    m->layer = layer;
    if (rc == 0)
        rc = kmf_pool_each(m->pool, N_WEIGHTS, pack_backward, m, err);
    plan_feed_backward(m);
    if (rc == 0)
        rc = kmf_mlm_stages(m, feed_backward, err);
    if (rc == 0)
        rc = kmf_pool_each(m->pool, kmf_mlm_product_items(m) + m->batch->n_seq * m->H + 1,
                           attention_and_weights_backward, m, err);
    plan_qkv_backward(m);
    kmf_mlm_mix_forward(m, m->x, layer);
    if (rc == 0)
        rc = kmf_mlm_stages(m, qkv_backward, err);
    if (rc == 0)
        rc = kmf_pool_each(m->pool, kmf_mlm_product_items(m) + 1, qkv_weights_backward, m, err);
    return rc;
}
