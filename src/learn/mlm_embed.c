/* SPDX-License-Identifier: MIT */
/*
 * The embedding of a batch, as rows of the word table, and the projection of models whose
 * embedding has a width of its own:
 *
 *   s = word[id] + type[0]    y = dropout(LN(s))    x = y, or y Wp^T + bp
 */
#include "base/mem.h"
#include "learn/mlm_room.h"
#include "nn/ops.h"

#include <string.h>

/* ---------------------------------------------------------------- forward ---------------- */

static int embed_strip_forward(void *arg, size_t i, int worker, kmf_err *err)
{
    const kmf_mlm *m = arg;
    const kmf_params *w = m->w;
    kmf_strip strip = kmf_mlm_strip(m, i);
    size_t row = strip.row, rows = strip.rows;
    kmf_real *x = m->x + row * m->D;
    kmf_real *s = m->emb_sum + row * m->E;
    kmf_real *y = m->proj.room ? m->emb + row * m->E : x;
    (void)err;
    kmf_gather_forward(s, m->E, m->batch->ids + row, w->word, w->type, rows, m->E);
    kmf_layernorm_copy_forward(y, m->E, s, m->E, w->ln_w, w->ln_b, m->config.layer_norm_eps,
                               rows, m->E);
    kmf_mlm_drop(m, y, m->E, KMF_DROP_FEED, m->L, row, rows, m->E);
    if (m->proj.room)
        kmf_mlm_multiply(m, worker, x, m->D, y, m->E, &m->proj, rows, w->proj_b);
    if (m->x0)
        memcpy(m->x0 + row * m->D, x, rows * m->D * sizeof *x);
    return 0;
}

int kmf_mlm_embed_forward(kmf_mlm *m, kmf_err *err)
{
    if (m->proj.room)
        kmf_mlm_pack(m, &m->proj, (const kmf_real *[]){m->w->proj_w}, 1, m->D, m->E);
    return kmf_mlm_each(m, m->n, KMF_TILE, embed_strip_forward, err);
}

/* ---------------------------------------------------------------- backward --------------- */

enum { LN_W, LN_B, TYPE, PROJ_B };

/* dx -> the gradient by s, in the place of s. */
static int embed_strip_backward(void *arg, size_t i, int worker, kmf_err *err)
{
    const kmf_mlm *m = arg;
    kmf_strip strip = kmf_mlm_strip(m, i);
    size_t row = strip.row, rows = strip.rows;
    const kmf_real *dx = m->dx + row * m->D;
    kmf_real *s = m->emb_sum + row * m->E;
    kmf_real *dy = kmf_mlm_of_worker(m, m->strip_y, worker, kmf_max(m->D, m->E));
    (void)err;
    kmf_mlm_clear_sums(m, &strip);
    if (m->proj.room) {
        const kmf_product *proj = &m->products[0];
        kmf_mlm_bias_backward(m, &strip, PROJ_B, dx, m->D);
        kmf_gemm_pack_left(&proj->dy, dx, m->D, strip.at, rows);
        kmf_gemm_pack_right(&proj->x, m->emb + row * m->E, m->E, strip.at, rows);
        kmf_mlm_multiply(m, worker, dy, m->E, dx, m->D, &m->proj, rows, NULL);
    } else {
        memcpy(dy, dx, rows * m->E * sizeof *dy);
    }
    kmf_mlm_drop(m, dy, m->E, KMF_DROP_FEED, m->L, row, rows, m->E);
    kmf_mlm_norm_backward(m, &strip, LN_W, LN_B, dy, s, m->w->ln_w);
    kmf_mlm_bias_backward(m, &strip, TYPE, dy, m->E);
    memcpy(s, dy, rows * m->E * sizeof *s);
    return 0;
}

static size_t word_items(const kmf_mlm *m)
{
    return kmf_div_up(m->E, KMF_WORD_COLS);
}

/* Columns of the word table, then the projection's weight, then the vectors. */
static int embed_weights_backward(void *arg, size_t i, int worker, kmf_err *err)
{
    const kmf_mlm *m = arg;
    size_t beg = i * KMF_WORD_COLS;
    (void)worker;
    (void)err;
    if (i < word_items(m))
        kmf_gather_backward(m->d->word, m->batch->ids, m->emb_sum, m->E, beg,
                            m->E - beg < KMF_WORD_COLS ? m->E : beg + KMF_WORD_COLS, m->n,
                            m->E);
    else if (i - word_items(m) < kmf_mlm_product_items(m))
        kmf_mlm_product_add(m, i - word_items(m));
    else
        kmf_mlm_reduce(m, m->n);
    return 0;
}

int kmf_mlm_embed_backward(kmf_mlm *m, kmf_err *err)
{
    m->n_products = m->n_sums = 0;
    kmf_mlm_sum(m, m->d->ln_w, m->E);
    kmf_mlm_sum(m, m->d->ln_b, m->E);
    kmf_mlm_sum(m, m->d->type, m->E);
    if (m->proj.room) {
        kmf_mlm_sum(m, m->d->proj_b, m->D);
        size_t n = m->stage;
        kmf_mlm_product(m, m->d->proj_w, kmf_mlm_factor(m, m->factors[0], n, m->D),
                        kmf_mlm_factor(m, m->factors[1], n, m->E));
        kmf_mlm_pack_back(m, &m->proj, (const kmf_real *[]){m->w->proj_w}, 1, m->D, m->E);
    }
    int rc = kmf_mlm_stages(m, embed_strip_backward, err);
    if (rc < 0)
        return rc;
    return kmf_pool_each(m->pool, word_items(m) + kmf_mlm_product_items(m) + 1,
                         embed_weights_backward, m, err);
}
