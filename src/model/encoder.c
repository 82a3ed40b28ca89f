/* SPDX-License-Identifier: MIT */
/*
 * The encoder: RoFormer (Su et al., 2021, arXiv 2104.09864), a BERT with norms after the
 * sublayers and rotary positions in place of learned ones.
 *
 *   x = LN(word[id] + type[0]);  x = x Wp^T + bp  where the embedding has a width of its own
 *   per block:
 *     q, k, v = x Wq^T + bq, ...            [N, D] each
 *     q, k    = turned by their positions   pairs (2i, 2i+1) of a head by t 10000^(-2i/K);
 *                                           v as well if the config says so
 *     x = LN(x + (softmax(q k^T / sqrt K) v) Wo^T + bo)
 *     x = LN(x + act(x W1^T + b1) W2^T + b2)
 *   logits = LN(act(x Wh^T + bh)) word^T + b
 *
 * A batch is sequences end to end; no token is padding, only the last tile of rows is filled
 * up.
 *
 *   rows    0             128            256            384
 *           |    tile     |    tile      |    tile      |
 *   tokens  | sequence 0      | sequence 1 | seq. 2 |///|     /// rows that nobody reads
 *
 * Whatever joins rows (attention) goes by sequences, whatever does not goes by tiles; so a
 * sequence's rows come out the same in any batch. From the attention's output to the end of the
 * block a tile goes through alone: its rows and the feed-forward's [tile, F] stay in the
 * second-level cache. The attention's result takes the place of q.
 *
 * Workspace, one slab:   x [N, D]   qkv [N, 3D]   out [tile, max(D, E)]   ff [tile, F]
 *                        cos, sin [max_seq, K/2]   attention's scratch
 */
#include "base/err.h"
#include "base/mem.h"
#include "model/model.h"
#include "nn/attn.h"
#include "nn/gemm.h"
#include "nn/ops.h"

#include <assert.h>
#include <string.h>

#define ROTARY_BASE 10000.0

struct kmf_encoder {
    const kmf_model *model; /* borrowed */
    size_t max_tokens;
    size_t max_seq;
    size_t n_rows;  /* tokens of the last forward */
    float *slab;    /* owned; the rest points into it */
    float *x;       /* [N, D]        N: max_tokens up to a whole tile */
    float *qkv;     /* [N, 3D]       q, then the attention's output; k; v */
    float *out;     /* [tile, max(D, E)] */
    float *ff;      /* [tile, F] */
    float *cos_t;   /* [max_seq, K/2] */
    float *sin_t;   /* [max_seq, K/2] */
    float *scratch; /* the attention's */
};

/* ---------------------------------------------------------------- packing ---------------- */

/* *total += the packed size of a [Dout, Din] weight, a multiple of a cache line. */
static int add_packed(size_t *total, size_t Dout, size_t Din, kmf_err *err)
{
    size_t n = kmf_gemm_packed_size(Dout, Din);
    size_t rounded;
    if (n == 0 || !kmf_add(n, 15, &rounded) || !kmf_add(*total, rounded / 16 * 16, total))
        return kmf_fail(err, KMF_ENOMEM, "a weight of %zu x %zu does not fit the memory", Dout,
                        Din);
    return 0;
}

/* Packs parts [Dout / n_parts, Din] at *next and moves it on. */
static const float *pack(float **next, const float *const *parts, size_t n_parts, size_t Dout,
                         size_t Din)
{
    float *packed = *next;
    kmf_gemm_pack(packed, parts, n_parts, Dout, Din);
    *next = packed + (kmf_gemm_packed_size(Dout, Din) + 15) / 16 * 16;
    return packed;
}

int kmf_model_pack(kmf_model *model, kmf_err *err)
{
    const kmf_config *config = &model->config;
    const kmf_params *params = &model->params;
    size_t D = config->hidden_size;
    size_t E = config->embedding_size;
    size_t F = config->intermediate_size;
    size_t L = config->n_layers;
    size_t layer = 0;
    size_t total = 0;
    size_t D3, n_bias;
    if (!kmf_mul(D, 3, &D3))
        return kmf_fail(err, KMF_ENOMEM, "a model %zu wide does not fit the memory", D);
    if (add_packed(&layer, D3, D, err) || add_packed(&layer, D, D, err) ||
        add_packed(&layer, F, D, err) || add_packed(&layer, D, F, err))
        return KMF_ENOMEM;
    if (!kmf_mul(layer, L, &total) || !kmf_mul(D3, L, &n_bias))
        return kmf_fail(err, KMF_ENOMEM, "%zu layers do not fit the memory", L);
    if (params->proj_w && add_packed(&total, D, E, err))
        return KMF_ENOMEM;

    model->packed = kmf_floats(total, err);
    model->packed_layers = kmf_calloc(L, sizeof *model->packed_layers, err);
    model->qkv_bias = kmf_floats(n_bias, err);
    if (!model->packed || !model->packed_layers || !model->qkv_bias)
        return KMF_ENOMEM;

    float *next = model->packed;
    for (size_t l = 0; l < L; l++) {
        const kmf_layer *w = &params->layers[l];
        float *bias = model->qkv_bias + l * D3;
        struct kmf_packed_layer *packed = &model->packed_layers[l];
        packed->qkv = pack(&next, (const float *[]){w->wq, w->wk, w->wv}, 3, D3, D);
        packed->wo = pack(&next, (const float *[]){w->wo}, 1, D, D);
        packed->w1 = pack(&next, (const float *[]){w->w1}, 1, F, D);
        packed->w2 = pack(&next, (const float *[]){w->w2}, 1, D, F);
        memcpy(bias, w->bq, D * sizeof *bias);
        memcpy(bias + D, w->bk, D * sizeof *bias);
        memcpy(bias + 2 * D, w->bv, D * sizeof *bias);
    }
    if (params->proj_w)
        model->packed_proj = pack(&next, (const float *[]){params->proj_w}, 1, D, E);
    return 0;
}

/* ---------------------------------------------------------------- workspace -------------- */

/* Where each array of the slab begins, in floats. */
typedef struct layout {
    size_t x, qkv, out, ff, cos_t, sin_t, scratch, total;
} layout;

/* *at = where a [rows, cols] array begins; *total moves on behind it, to a cache line. */
static bool place(size_t *at, size_t *total, size_t rows, size_t cols)
{
    size_t n;
    *at = *total;
    if (!kmf_mul(rows, cols, &n) || !kmf_add(n, 15, &n) || !kmf_add(*total, n / 16 * 16, total))
        return false;
    return true;
}

/* false if it does not fit a size_t. */
static bool lay_out(layout *l, const kmf_config *config, size_t max_tokens, size_t max_seq)
{
    size_t D = config->hidden_size;
    size_t E = config->embedding_size;
    size_t F = config->intermediate_size;
    size_t K = D / config->n_heads;
    size_t N, D3, bytes;
    size_t scratch = kmf_attn_scratch(max_seq, K);
    *l = (layout){0};
    if (!kmf_add(max_tokens, KMF_TILE - 1, &N) || !kmf_mul(D, 3, &D3) || scratch == 0)
        return false;
    N = N / KMF_TILE * KMF_TILE;
    return place(&l->x, &l->total, N, D) && place(&l->qkv, &l->total, N, D3) &&
           place(&l->out, &l->total, KMF_TILE, D > E ? D : E) &&
           place(&l->ff, &l->total, KMF_TILE, F) &&
           place(&l->cos_t, &l->total, max_seq, K / 2) &&
           place(&l->sin_t, &l->total, max_seq, K / 2) &&
           place(&l->scratch, &l->total, 1, scratch) &&
           kmf_mul(l->total, sizeof(float), &bytes);
}

size_t kmf_encoder_bytes(const kmf_config *config, size_t max_tokens, size_t max_seq)
{
    layout l;
    size_t bytes;
    if (!lay_out(&l, config, max_tokens, max_seq) ||
        !kmf_add(l.total * sizeof(float), sizeof(kmf_encoder), &bytes))
        return 0;
    return bytes;
}

kmf_encoder *kmf_encoder_new(const kmf_model *model, size_t max_tokens, size_t max_seq,
                             kmf_err *err)
{
    const kmf_config *config = &model->config;
    layout l;
    if (max_tokens == 0 || max_seq == 0) {
        kmf_fail(err, KMF_EINVAL, "an encoder needs room for at least one token");
        return NULL;
    }
    if (!lay_out(&l, config, max_tokens, max_seq)) {
        kmf_fail(err, KMF_ENOMEM, "batches of %zu tokens do not fit the memory", max_tokens);
        return NULL;
    }
    kmf_encoder *encoder = kmf_calloc(1, sizeof *encoder, err);
    if (!encoder)
        return NULL;
    encoder->slab = kmf_floats(l.total, err);
    if (!encoder->slab) {
        kmf_encoder_free(encoder);
        return NULL;
    }
    encoder->model = model;
    encoder->max_tokens = max_tokens;
    encoder->max_seq = max_seq;
    encoder->x = encoder->slab + l.x;
    encoder->qkv = encoder->slab + l.qkv;
    encoder->out = encoder->slab + l.out;
    encoder->ff = encoder->slab + l.ff;
    encoder->cos_t = encoder->slab + l.cos_t;
    encoder->sin_t = encoder->slab + l.sin_t;
    encoder->scratch = encoder->slab + l.scratch;
    kmf_rotary_table(encoder->cos_t, encoder->sin_t, ROTARY_BASE, max_seq,
                     config->hidden_size / config->n_heads);
    return encoder;
}

void kmf_encoder_free(kmf_encoder *encoder)
{
    if (!encoder)
        return;
    kmf_free(encoder->slab);
    kmf_free(encoder);
}

/* ---------------------------------------------------------------- forward ---------------- */

/* x [N, D] from n ids; rows n .. N - 1, the rest of a tile, are 0 before Wp. */
static void embed(kmf_encoder *e, const int32_t *ids, size_t n, size_t N)
{
    const kmf_config *config = &e->model->config;
    const kmf_params *w = &e->model->params;
    const float *proj = e->model->packed_proj;
    size_t D = config->hidden_size;
    size_t E = config->embedding_size;
    for (size_t t = 0; t < N; t += KMF_TILE) {
        size_t rows = n - t < KMF_TILE ? n - t : KMF_TILE;
        float *x = e->x + t * D;
        float *y = proj ? e->out : x;
        kmf_embedding_forward(y, E, ids + t, w->word, w->type, w->ln_w, w->ln_b,
                              config->layer_norm_eps, rows, E); /* ids -> [t, E] */
        memset(y + rows * E, 0, (KMF_TILE - rows) * E * sizeof *y);
        if (!proj)
            continue;
        kmf_gemm_weight(x, D, y, E, proj, KMF_TILE, D, E); /* [t, E] -> [t, D] */
        kmf_bias_forward(x, D, w->proj_b, KMF_TILE, D);
    }
}

/* Block l over rows 0 .. N - 1 of x. Shapes at the right; t is a tile of rows. */
static void block(kmf_encoder *e, size_t l, const size_t *off, size_t n_seq, size_t N)
{
    const kmf_config *config = &e->model->config;
    const kmf_layer *w = &e->model->params.layers[l];
    const struct kmf_packed_layer *packed = &e->model->packed_layers[l];
    double eps = config->layer_norm_eps;
    size_t D = config->hidden_size;
    size_t F = config->intermediate_size;
    size_t H = config->n_heads;
    size_t K = D / H;
    size_t ld = 3 * D; /* of a row q, k, v */
    const float *qkv_bias = e->model->qkv_bias + l * ld;

    for (size_t t = 0; t < N; t += KMF_TILE) {
        float *x = e->x + t * D;
        float *qkv = e->qkv + t * ld;
        kmf_gemm_weight(qkv, ld, x, D, packed->qkv, KMF_TILE, ld, D); /* [t, D] -> [t, 3D] */
        kmf_bias_forward(qkv, ld, qkv_bias, KMF_TILE, ld);
    }

    for (size_t s = 0; s < n_seq; s++) {
        size_t T = off[s + 1] - off[s];
        float *q = e->qkv + off[s] * ld;
        float *k = q + D;
        float *v = q + 2 * D;
        kmf_rotary_forward(q, ld, e->cos_t, e->sin_t, T, H, K); /* [T, D] */
        kmf_rotary_forward(k, ld, e->cos_t, e->sin_t, T, H, K); /* [T, D] */
        if (config->rotary_value)
            kmf_rotary_forward(v, ld, e->cos_t, e->sin_t, T, H, K); /* [T, D] */
        kmf_attn_forward(q, ld, q, k, v, ld, e->scratch, T, H, K);  /* [T, 3D] -> [T, D] */
    }

    for (size_t t = 0; t < N; t += KMF_TILE) {
        float *x = e->x + t * D;
        float *heads = e->qkv + t * ld;
        float *y = e->out;
        float *f = e->ff;
        kmf_gemm_weight(y, D, heads, ld, packed->wo, KMF_TILE, D, D); /* [t, D] -> [t, D] */
        kmf_residual_layernorm_forward(x, D, y, D, w->bo, w->ln1_w, w->ln1_b, eps, KMF_TILE, D);
        kmf_gemm_weight(f, F, x, D, packed->w1, KMF_TILE, F, D); /* [t, D] -> [t, F] */
        kmf_bias_activation_forward(f, F, w->b1, config->activation, KMF_TILE, F);
        kmf_gemm_weight(y, D, f, F, packed->w2, KMF_TILE, D, F); /* [t, F] -> [t, D] */
        kmf_residual_layernorm_forward(x, D, y, D, w->b2, w->ln2_w, w->ln2_b, eps, KMF_TILE, D);
    }
}

const float *kmf_encoder_forward(kmf_encoder *encoder, const int32_t *ids, const size_t *off,
                                 size_t n_seq, size_t layer)
{
    size_t n = off[n_seq];
    size_t N = (n + KMF_TILE - 1) / KMF_TILE * KMF_TILE;
    assert(off[0] == 0 && n <= encoder->max_tokens);
    assert(layer <= encoder->model->config.n_layers);
    for (size_t s = 0; s < n_seq; s++)
        assert(off[s + 1] > off[s] && off[s + 1] - off[s] <= encoder->max_seq);
    for (size_t i = 0; i < n; i++)
        assert(ids[i] >= 0 && (size_t)ids[i] < encoder->model->config.vocab_size);
    embed(encoder, ids, n, N);
    for (size_t l = 0; l < layer; l++)
        block(encoder, l, off, n_seq, N);
    encoder->n_rows = n;
    return encoder->x;
}

/* ---------------------------------------------------------------- masked-LM head --------- */

int kmf_encoder_logits(kmf_encoder *encoder, float *logits, const size_t *rows, size_t n_rows,
                       kmf_err *err)
{
    const kmf_config *config = &encoder->model->config;
    const kmf_params *w = &encoder->model->params;
    size_t D = config->hidden_size;
    size_t E = config->embedding_size;
    size_t V = config->vocab_size;
    if (!w->head_w)
        return kmf_fail(err, KMF_EMODEL, "the model has no masked-language-model head");
    float *x = encoder->qkv; /* free between two forwards: [tile, D] */
    float *h = encoder->out; /* [tile, E] */
    for (size_t r = 0; r < n_rows; r += KMF_TILE) {
        size_t n = n_rows - r < KMF_TILE ? n_rows - r : KMF_TILE;
        float *y = logits + r * V;
        for (size_t i = 0; i < n; i++) {
            assert(rows[r + i] < encoder->n_rows);
            memcpy(x + i * D, encoder->x + rows[r + i] * D, D * sizeof *x);
        }
        kmf_gemm_inner(h, E, x, D, w->head_w, D, n, E, D, KMF_GEMM_TB); /* [n, D] -> [n, E] */
        kmf_bias_activation_forward(h, E, w->head_b, config->activation, n, E);
        kmf_layernorm_forward(h, E, w->head_ln_w, w->head_ln_b, config->layer_norm_eps, n, E);
        kmf_gemm_inner(y, V, h, E, w->word, E, n, V, E, KMF_GEMM_TB); /* [n, E] -> [n, V] */
        kmf_bias_forward(y, V, w->head_bias, n, V);
    }
    return 0;
}
