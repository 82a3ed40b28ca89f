/* SPDX-License-Identifier: MIT */
/*
 * The encoder of every family: a BERT (J. Devlin et al., arXiv 1810.04805), native with norms
 * after the sublayers and rotary positions (RoFormer, J. Su et al., arXiv 2104.09864). What the
 * config chooses stands on the right.
 *
 *   x = LN(word[id] + type[0])                 LN: embedding_norm; + position[t]: LEARNED
 *   x = x Wp^T + bp                            where the embedding has a width of its own
 *   per block:
 *     q, k, v = x Wq^T + bq, ...               [N, D] each; of LN(x): pre_norm
 *     q, k    = turned by their positions      ROTARY, ROTARY_HALVES: pairs of columns by
 *                                              t base^(-2i/r); v as well: rotary_value
 *     a = softmax(q k^T / sqrt K) v Wo^T + bo  scores - slope_h |t - u|: ALIBI
 *     x = LN(x + a)                            x + a: pre_norm
 *     f = act(x W1^T + b1) W2^T + b2           of LN(x): pre_norm; gated:
 *                                              (act(x Wg^T) * x Wu^T) W2^T
 *     x = LN(x + f)                            x + f: pre_norm
 *   x = LN(x)                                  closing_norm
 *   logits = LN(act(x Wh^T + bh)) word^T + b   decoder^T: own_decoder;  2 b: head_biases
 *   pooled = tanh(x_0 Wp^T + bp)               pooler
 *
 * A batch is sequences end to end; no token is padding.
 *
 *   rows    0             96             192            288
 *           |    tile     |    tile      |    tile |
 *   tokens  | sequence 0      | sequence 1 | seq. 2|
 *
 * Whatever joins rows (attention) goes by sequences, whatever does not goes by tiles; so a
 * sequence's rows come out the same in any batch. From the attention's output to the next block's
 * q, k, v a tile goes through alone: its rows, and the columns of the feed-forward's [tile, F] that
 * are at work, stay in the second-level cache. The attention's result takes the place of q.
 *
 * A batch goes in rounds (base/rounds.h), whose items are tiles or parts of heads:
 *
 *   tiles into block 0 -- heads of block 0 -- tiles out of it and into 1 -- heads of block 1 ..
 *
 * Other threads may help at any time, each with a workspace of its own beside x and qkv, which are
 * the owner's. A round has as many items as its threads need, which changes no bit.
 *
 * Workspace, one slab:   x [N, D]   qkv [N, 3D]   out [tile, max(D, E)]   normed [tile, D]
 *                        cos, sin [max_seq, r/2]   the products' and the attention's scratch
 */
#include "base/err.h"
#include "base/mem.h"
#include "base/rounds.h"
#include "model/encoder.h"
#include "model/model.h"
#include "nn/attention.h"
#include "nn/gemm.h"
#include "nn/ops.h"
#include "seq/par.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* Rows of a tile are a multiple of a kernel's, where there are that many. */
#define TILE_UNIT 24
/* Rows of a sequence that are worth a part of their own in the attention. */
#define PART_ROWS 96

/* What an encoder works on, with whoever helps. */
typedef struct batch {
    kmf_rounds rounds;
    atomic_size_t helpers;
    const int32_t *ids; /* borrowed, as all below */
    const size_t *off;
    size_t n_seq, layer, rows; /* rows: tokens */
    const float *table;        /* of the first layer, NULL: the product */
    /* of the open round */
    size_t tile;    /* rows of a tile */
    size_t n_parts; /* of a sequence's rows */
} batch;

struct kmf_encoder {
    const kmf_model *model;  /* borrowed */
    kmf_precision precision; /* of the weights' products */
    size_t max_tokens;
    size_t max_seq;
    size_t n_rows; /* tokens of the last forward */
    void *slab;    /* owned; the rest points into it */
    float *x;      /* [N, D]        N: max_tokens, and a whole tile from any of them */
    float *qkv;    /* [N, 3D]       q, then the attention's output; k; v */
    float *out;    /* [tile, max(D, E)] */
    float *normed; /* [tile, D]     pre_norm: what a sublayer reads */
    float *cos_t;  /* [max_seq, r/2], where heads are turned: rows are made when they are met */
    float *sin_t;  /* [max_seq, r/2] */
    size_t n_made; /* of these rows */
    void *words;   /* of the products */
    void *scratch; /* of the attention */
    batch batch;   /* that it works on */
};

/* ---------------------------------------------------------------- workspace -------------- */

/* Where each array of the slab begins, in bytes. */
typedef struct layout {
    size_t x, qkv, out, normed, cos_t, sin_t, words, scratch, total;
} layout;

static bool place_floats(size_t *at, size_t *total, size_t rows, size_t cols)
{
    size_t n;
    return kmf_mul(rows, cols, &n) && kmf_place(at, total, n, sizeof(float));
}

/*
 * What the attention of layer l computes in beside products of weights in this precision: as
 * kmf_attention can. Beside rough ones the first layer's scores are split, where the processor has
 * that, else int16, and its values bfloat16 or int16 likewise: their errors, and no others', go
 * through all layers.
 */
static kmf_attention_precision attention_precision(kmf_precision precision, size_t l)
{
    kmf_operand same = kmf_operand_of(precision);
    if (l > 0 || precision == KMF_PRECISION_F32)
        return (kmf_attention_precision){same, same};
    kmf_operand scores =
        kmf_kernel_of(KMF_OPERAND_SPLIT) ? KMF_OPERAND_SPLIT : KMF_OPERAND_INT16;
    return (kmf_attention_precision){scores, kmf_operand_finer()};
}

/* false if it does not fit a size_t. */
static bool lay_out(layout *l, const kmf_config *config, kmf_precision precision,
                    size_t max_tokens, size_t max_seq)
{
    size_t D = config->hidden_size;
    size_t E = config->embedding_size;
    size_t F = config->intermediate_size;
    size_t K = D / config->n_heads;
    size_t width = kmf_max(D, E);
    kmf_operand operand = kmf_operand_of(precision);
    size_t tile = kmf_gemm_rows(operand);
    size_t pairs = kmf_config_rotary_size(config) / 2;
    size_t first = kmf_attention_scratch(max_seq, K, attention_precision(precision, 0));
    size_t scratch = kmf_attention_scratch(max_seq, K, attention_precision(precision, 1));
    size_t words = /* the first layer's q, k, v are float32 in any precision */
        kmf_max(kmf_gemm_scratch(tile, width, operand),
                kmf_gemm_scratch(tile, width, KMF_OPERAND_F32));
    for (size_t i = 0; i < config->n_layers && i < 2; i++)
        words = kmf_max(words, kmf_gemm_pair_scratch(D, F, config->gated, operand,
                                                     kmf_packed_w2(precision, i)));
    size_t N, D3;
    *l = (layout){0};
    if (!kmf_add(max_tokens, 2 * KMF_TILE - 1, &N) || !kmf_mul(D, 3, &D3) || first == 0 ||
        scratch == 0)
        return false;
    N = N / KMF_TILE * KMF_TILE;
    return place_floats(&l->x, &l->total, N, D) && place_floats(&l->qkv, &l->total, N, D3) &&
           place_floats(&l->out, &l->total, tile, width) &&
           place_floats(&l->normed, &l->total, config->pre_norm ? tile : 0, D) &&
           place_floats(&l->cos_t, &l->total, max_seq, pairs) &&
           place_floats(&l->sin_t, &l->total, max_seq, pairs) &&
           kmf_place(&l->words, &l->total, 1, words) &&
           kmf_place(&l->scratch, &l->total, 1, kmf_max(first, scratch));
}

size_t kmf_encoder_bytes(const kmf_config *config, kmf_precision precision, size_t max_tokens,
                         size_t max_seq)
{
    layout l;
    size_t bytes;
    if (!lay_out(&l, config, precision, max_tokens, max_seq) ||
        !kmf_add(l.total, sizeof(kmf_encoder), &bytes))
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
    if (config->positions == KMF_POSITIONS_LEARNED && max_seq > config->max_positions) {
        kmf_fail(err, KMF_EINVAL,
                 "sequences of %zu tokens: the model has learned %zu positions, no more",
                 max_seq, config->max_positions);
        return NULL;
    }
    if (kmf_model_prepare(model, kmf_model_precision(model), err) < 0)
        return NULL;
    kmf_precision precision = kmf_model_precision(model);
    if (!lay_out(&l, config, precision, max_tokens, max_seq)) {
        kmf_fail(err, KMF_ENOMEM, "batches of %zu tokens do not fit the memory", max_tokens);
        return NULL;
    }
    kmf_encoder *encoder = kmf_calloc(1, sizeof *encoder, err);
    if (!encoder)
        return NULL;
    encoder->slab = kmf_large(l.total, 1, NULL);
    if (!encoder->slab) {
        kmf_fail(
            err, KMF_ENOMEM,
            "out of memory: %zu bytes are not to be had for batches of %zu tokens, of which "
            "each thread has one: a shorter window, smaller batches or fewer threads take less",
            l.total, max_tokens);
        kmf_encoder_free(encoder);
        return NULL;
    }
    char *room = encoder->slab;
    encoder->model = model;
    encoder->precision = precision;
    encoder->max_tokens = max_tokens;
    encoder->max_seq = max_seq;
    encoder->x = (float *)(void *)(room + l.x);
    encoder->qkv = (float *)(void *)(room + l.qkv);
    encoder->out = (float *)(void *)(room + l.out);
    encoder->normed = (float *)(void *)(room + l.normed);
    encoder->cos_t = (float *)(void *)(room + l.cos_t);
    encoder->sin_t = (float *)(void *)(room + l.sin_t);
    encoder->words = room + l.words;
    encoder->scratch = room + l.scratch;
    kmf_rounds_init(&encoder->batch.rounds);
    atomic_init(&encoder->batch.helpers, 0);
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

/* Below, e is the encoder whose batch it is, and own the one of the thread that works on it. */

/* The sequence of a row. */
static size_t sequence_of(const batch *b, size_t row)
{
    size_t s = 0;
    for (size_t high = b->n_seq; high - s > 1;) {
        size_t middle = s + (high - s) / 2;
        if (b->off[middle] <= row)
            s = middle;
        else
            high = middle;
    }
    return s;
}

/*
 * In training 15 % of the tokens were hidden, four fifths of them by [MASK], whose embeddings
 * count as 0 and were made up for; so embeddings are scaled as if as many were hidden now.
 */
static void scale_as_trained(const kmf_encoder *own, float *y, const int32_t *ids, size_t rows,
                             const int32_t *sequence, size_t T)
{
    size_t E = own->model->config.embedding_size;
    int32_t mask = kmf_vocab_special(own->model->vocab, KMF_MASK);
    size_t n = 0;
    for (size_t t = 0; t < T; t++)
        n += sequence[t] == mask;
    double share = (double)n / (double)T;
    float factor = n < T ? (float)((1 - 0.15 * 0.8) / (1 - share)) : 0;
    for (size_t t = 0; t < rows; t++)
        for (size_t i = 0; i < E; i++)
            y[t * E + i] *= ids[t] == mask ? 0 : factor;
}

/* What a token's place adds to its embedding: rows beg .. beg + rows - 1 of the batch in y. */
static void add_places(const batch *b, const kmf_encoder *own, float *y, size_t beg,
                       size_t rows)
{
    const kmf_config *config = &own->model->config;
    const float *position = own->model->params.position;
    size_t E = config->embedding_size;
    size_t end = beg + rows;
    for (size_t row = beg, s = sequence_of(b, beg); row < end; s++) {
        size_t stop = kmf_min(b->off[s + 1], end);
        size_t t = row - b->off[s];
        float *to = y + (row - beg) * E;
        if (config->token_dropout)
            scale_as_trained(own, to, b->ids + row, stop - row, b->ids + b->off[s],
                             b->off[s + 1] - b->off[s]);
        if (position)
            kmf_residual_forward(to, E, position + (config->position_offset + t) * E, E, NULL,
                                 stop - row, E);
        row = stop;
    }
}

/*
 * x [rows, D] of the tokens ids, before the first layer: those from row beg on of a batch, or b
 * NULL: tokens whose places do not matter.
 */
static void embed(const batch *b, kmf_encoder *own, float *x, const int32_t *ids, size_t beg,
                  size_t rows)
{
    const kmf_config *config = &own->model->config;
    const kmf_params *w = &own->model->params;
    const kmf_weight *proj = &own->model->packed->proj;
    size_t D = config->hidden_size;
    size_t E = config->embedding_size;
    float *y = proj->Dout ? own->out : x;
    kmf_gather_forward(y, E, ids, w->word, w->type, rows, E); /* ids -> [t, E] */
    if (b && (w->position || config->token_dropout))
        add_places(b, own, y, beg, rows);
    if (config->embedding_norm)
        kmf_layernorm_forward(y, E, w->ln_w, w->ln_b, config->layer_norm_eps, rows, E);
    if (proj->Dout)
        kmf_gemm_weight(x, D, y, E, proj, rows, &(kmf_epilogue){.bias = w->proj_b},
                        own->words); /* [t, E] -> [t, D] */
}

/* What a sublayer reads of x [rows, D]: x, or its norm where that stands before. */
static const float *before(kmf_encoder *own, const float *x, const float *ln_w,
                           const float *ln_b, size_t rows)
{
    const kmf_config *config = &own->model->config;
    size_t D = config->hidden_size;
    if (!config->pre_norm)
        return x;
    kmf_layernorm_copy_forward(own->normed, D, x, D, ln_w, ln_b, config->layer_norm_eps, rows,
                               D);
    return own->normed;
}

/* x = x + y + bias, what a sublayer gives; and its norm where that stands after. */
static void after(const kmf_encoder *own, float *x, const float *y, const float *bias,
                  const float *ln_w, const float *ln_b, size_t rows)
{
    const kmf_config *config = &own->model->config;
    size_t D = config->hidden_size;
    if (config->pre_norm)
        kmf_residual_forward(x, D, y, D, bias, rows, D);
    else
        kmf_residual_layernorm_forward(x, D, y, D, bias, ln_w, ln_b, config->layer_norm_eps,
                                       rows, D);
}

/* qkv [rows, 3D] = x Wqkv^T + bqkv of layer l. */
static void project(kmf_encoder *own, float *qkv, const float *x, size_t l, size_t rows)
{
    const kmf_packed *packed = own->model->packed;
    const kmf_layer *w = &own->model->params.layers[l];
    size_t D = own->model->config.hidden_size;
    const float *in = before(own, x, w->ln1_w, w->ln1_b, rows);
    kmf_gemm_weight(qkv, 3 * D, in, D, &packed->layers[l].qkv, rows,
                    &(kmf_epilogue){.bias = packed->qkv_bias + l * 3 * D}, own->words);
}

/* Makes the tables' rows of n positions: the longest sequence that may come is often far away. */
static void reach(kmf_encoder *own, size_t n)
{
    const kmf_config *config = &own->model->config;
    if (n <= own->n_made)
        return;
    kmf_rotary_table(own->cos_t, own->sin_t, config->rotary_base, own->n_made, n,
                     kmf_config_rotary_size(config));
    own->n_made = n;
}

/* Turns q and k, and v if the model says so, of rows beg .. end - 1 of any sequences. */
static void turn(const batch *b, kmf_encoder *own, float *qkv, size_t beg, size_t end)
{
    const kmf_config *config = &own->model->config;
    size_t D = config->hidden_size;
    size_t H = config->n_heads;
    size_t K = D / H;
    size_t r = kmf_config_rotary_size(config);
    int n_turned = config->rotary_value ? 3 : 2;
    for (size_t row = beg, s = sequence_of(b, beg); row < end; s++) {
        size_t stop = kmf_min(b->off[s + 1], end);
        size_t at = (row - b->off[s]) * (r / 2);
        reach(own, stop - b->off[s]);
        for (int i = 0; i < n_turned; i++) {
            float *x = qkv + (row - beg) * 3 * D + (size_t)i * D;
            if (config->positions == KMF_POSITIONS_ROTARY)
                kmf_rotary_forward(x, 3 * D, own->cos_t + at, own->sin_t + at, stop - row, H,
                                   K);
            else
                kmf_rotary_halves_forward(x, 3 * D, own->cos_t + at, own->sin_t + at,
                                          stop - row, H, K, r);
        }
        row = stop;
    }
}

/* A tile's q, k, v of layer l. Shapes at the right; t is the tile's rows. */
static void enter_block(kmf_encoder *e, kmf_encoder *own, size_t l, size_t beg, size_t rows)
{
    const batch *b = &e->batch;
    size_t D = e->model->config.hidden_size;
    float *qkv = e->qkv + beg * 3 * D;
    if (l == 0 && b->table)
        kmf_gather_forward(qkv, 3 * D, b->ids + beg, b->table, NULL, rows, 3 * D);
    else
        project(own, qkv, e->x + beg * D, l, rows); /* [t, D] -> [t, 3D] */
    if (kmf_config_rotary_size(&e->model->config) > 0)
        turn(b, own, qkv, beg, beg + rows);
}

/*
 * The slope of a head's scores, by the rule of ALiBi's authors: the powers of 2^(-8/n) for n heads,
 * a power of 2; for other n those of the next smaller power c, then every other one of 2 c.
 */
static float slope_of(const kmf_config *config, size_t head)
{
    size_t c = 1;
    if (config->positions != KMF_POSITIONS_ALIBI)
        return 0;
    while (2 * c <= config->n_heads)
        c *= 2;
    double power = head < c ? 8.0 * (double)(head + 1) / (double)c
                            : 4.0 * (double)(2 * (head - c) + 1) / (double)c;
    return (float)exp2(-power);
}

/* One head of rows of one sequence: what the attention gives takes the place of q. */
static void attend(kmf_encoder *e, kmf_encoder *own, size_t l, size_t s, size_t head,
                   size_t part)
{
    const batch *b = &e->batch;
    const kmf_config *config = &own->model->config;
    size_t D = config->hidden_size;
    size_t K = D / config->n_heads;
    size_t T = b->off[s + 1] - b->off[s];
    size_t rows = kmf_div_up(T, b->n_parts);
    size_t beg = kmf_min(part * rows, T);
    float *q = e->qkv + b->off[s] * 3 * D + head * K;
    const kmf_attention_head of = {.q = q,
                                   .k = q + D,
                                   .v = q + 2 * D,
                                   .ld = 3 * D,
                                   .T = T,
                                   .K = K,
                                   .slope = slope_of(config, head),
                                   .precision = attention_precision(own->precision, l)};
    if (beg < T) /* [T, 3K] -> [T, K] */
        kmf_attention(q, 3 * D, &of, own->scratch, beg, kmf_min(beg + rows, T));
}

/* A tile from the attention's result to the end of block l. */
static void leave_block(kmf_encoder *e, kmf_encoder *own, size_t l, size_t beg, size_t rows)
{
    const kmf_config *config = &own->model->config;
    const kmf_layer *w = &own->model->params.layers[l];
    const kmf_packed_layer *packed = &own->model->packed->layers[l];
    size_t D = config->hidden_size;
    float *x = e->x + beg * D;
    const float *heads = e->qkv + beg * 3 * D;
    float *y = own->out;
    kmf_epilogue act = {.bias = packed->b1, .activate = true, .activation = config->activation};
    kmf_gemm_weight(y, D, heads, 3 * D, &packed->wo, rows, NULL, own->words); /* -> [t, D] */
    after(own, x, y, w->bo, w->ln1_w, w->ln1_b, rows);
    const float *in = before(own, x, w->ln2_w, w->ln2_b, rows);
    kmf_gemm_pair(y, D, in, D, &packed->w1, &packed->w2, rows, &act, config->gated,
                  own->words); /* [t, D] -> [t, F] -> [t, D] */
    after(own, x, y, w->b2, w->ln2_w, w->ln2_b, rows);
    if (config->closing_norm && l + 1 == config->n_layers)
        kmf_layernorm_forward(x, D, own->model->params.last_w, own->model->params.last_b,
                              config->layer_norm_eps, rows, D);
}

/* Round 0 goes into block 0; of block l 2l + 1 is the attention, and 2l + 2 goes out of it. */
static size_t block_of(size_t round)
{
    return (round - 1) / 2;
}

static bool attends(size_t round)
{
    return round % 2 == 1;
}

/* Enough of the round's items for all threads that are here. */
static void open_round(kmf_encoder *e, size_t round)
{
    batch *b = &e->batch;
    size_t n = 1 + atomic_load(&b->helpers);
    size_t pairs = b->n_seq * e->model->config.n_heads;
    size_t items;
    if (attends(round)) {
        b->n_parts =
            n == 1 ? 1 : kmf_min(kmf_div_up(4 * n, pairs), kmf_div_up(e->max_seq, PART_ROWS));
        items = pairs * b->n_parts;
    } else {
        size_t rows = kmf_round_up(kmf_div_up(b->rows, n), TILE_UNIT);
        b->tile = kmf_min(rows, kmf_gemm_rows(kmf_operand_of(e->precision)));
        items = kmf_div_up(b->rows, b->tile);
    }
    assert(items < UINT32_MAX && round < UINT32_MAX);
    kmf_rounds_open(&b->rounds, (uint32_t)round, (uint32_t)items);
}

static void do_item(kmf_encoder *e, kmf_encoder *own, size_t round, size_t item)
{
    const batch *b = &e->batch;
    size_t H = e->model->config.n_heads;
    if (attends(round)) {
        size_t pair = item / b->n_parts;
        attend(e, own, block_of(round), pair / H, pair % H, item % b->n_parts);
        return;
    }
    size_t beg = item * b->tile;
    size_t rows = kmf_min(b->rows - beg, b->tile);
    size_t next = round / 2;
    if (round == 0)
        embed(b, own, e->x + beg * e->model->config.hidden_size, b->ids + beg, beg, rows);
    else
        leave_block(e, own, block_of(round), beg, rows);
    if (next < b->layer)
        enter_block(e, own, next, beg, rows);
}

/* What each thread does until the batch is done: how many items. */
static size_t work(kmf_encoder *e, kmf_encoder *own)
{
    batch *b = &e->batch;
    uint32_t round;
    uint32_t item;
    size_t n = 0;
    for (; kmf_rounds_take(&b->rounds, &round, &item); n++) {
        do_item(e, own, round, item);
        if (!kmf_rounds_done(&b->rounds))
            continue;
        if (round < 2 * b->layer)
            open_round(e, round + 1);
        else
            kmf_rounds_close(&b->rounds);
    }
    return n;
}

/* The first layer's table, made when V tokens have been seen; NULL: not yet. */
static const float *first_layer(kmf_encoder *own, size_t n_tokens)
{
    kmf_packed *packed = own->model->packed;
    const kmf_config *config = &own->model->config;
    size_t V = config->vocab_size;
    size_t D = config->hidden_size;
    float *table = atomic_load_explicit(&packed->table, memory_order_acquire);
    if (table || packed->table_bytes == 0 || config->n_layers == 0)
        return table;
    if (atomic_fetch_add(&packed->tokens, n_tokens) < V ||
        pthread_mutex_trylock(&packed->table_lock) != 0)
        return NULL;
    table = atomic_load(&packed->table);
    if (!table) {
        table = kmf_large(packed->table_bytes, 1, NULL); /* without memory it stays slow */
        for (size_t v = 0; table && v < V; v += KMF_TILE) {
            int32_t ids[KMF_TILE];
            size_t rows = kmf_min(V - v, KMF_TILE);
            for (size_t r = 0; r < rows; r++)
                ids[r] = (int32_t)(v + r);
            embed(NULL, own, own->x, ids, 0, rows);
            project(own, table + v * 3 * D, own->x, 0, rows);
        }
        atomic_store_explicit(&packed->table, table, memory_order_release);
    }
    pthread_mutex_unlock(&packed->table_lock);
    return table;
}

static void check(const kmf_encoder *e, const int32_t *ids, const size_t *off, size_t n_seq,
                  size_t layer)
{
    size_t n = off[n_seq];
    assert(off[0] == 0 && n <= e->max_tokens);
    assert(layer <= e->model->config.n_layers);
    for (size_t s = 0; s < n_seq; s++)
        assert(off[s + 1] > off[s] && off[s + 1] - off[s] <= e->max_seq);
    for (size_t i = 0; i < n; i++)
        assert(ids[i] >= 0 && (size_t)ids[i] < e->model->config.vocab_size);
    (void)e, (void)ids, (void)layer, (void)n;
}

/* Opens the batch, which is not empty. */
static void begin(kmf_encoder *e, const int32_t *ids, const size_t *off, size_t n_seq,
                  size_t layer)
{
    batch *b = &e->batch;
    b->ids = ids;
    b->off = off;
    b->n_seq = n_seq;
    b->layer = layer;
    b->rows = off[n_seq];
    b->table = layer > 0 ? first_layer(e, b->rows) : NULL;
    open_round(e, 0);
}

const float *kmf_encoder_forward(kmf_encoder *encoder, const int32_t *ids, const size_t *off,
                                 size_t n_seq, size_t layer)
{
    kmf_encoder *e = encoder;
    check(e, ids, off, n_seq, layer);
    e->n_rows = off[n_seq];
    if (e->n_rows > 0) {
        begin(e, ids, off, n_seq, layer);
        (void)work(e, e);
    }
    return e->x;
}

size_t kmf_encoder_help(kmf_encoder *owner, kmf_encoder *own)
{
    assert(owner->model == own->model && owner->max_seq == own->max_seq);
    if (kmf_rounds_closed(&owner->batch.rounds))
        return 0;
    atomic_fetch_add(&owner->batch.helpers, 1);
    size_t n = work(owner, own);
    atomic_fetch_sub(&owner->batch.helpers, 1);
    return n;
}

typedef struct team {
    kmf_encoder *const *encoders; /* borrowed; of each thread; the batch is the first one's */
} team;

static void work_together(void *arg, int thread)
{
    const team *t = arg;
    (void)work(t->encoders[0], t->encoders[thread]);
}

int kmf_encoder_forward_together(kmf_encoder *const *encoders, size_t n, const float **hidden,
                                 const int32_t *ids, const size_t *off, size_t n_seq,
                                 size_t layer, kmf_err *err)
{
    if (n == 0)
        return kmf_fail(err, KMF_EINVAL, "a forward pass needs at least one encoder");
    kmf_encoder *e = encoders[0];
    *hidden = e->x;
    if (n == 1 || off[n_seq] == 0) {
        kmf_encoder_forward(e, ids, off, n_seq, layer);
        return 0;
    }
    check(e, ids, off, n_seq, layer);
    e->n_rows = off[n_seq];
    atomic_fetch_add(&e->batch.helpers, n - 1);
    begin(e, ids, off, n_seq, layer);
    int status = kmf_together((int)n, work_together, &(team){encoders}, err);
    atomic_fetch_sub(&e->batch.helpers, n - 1);
    if (status < 0)
        kmf_rounds_close(&e->batch.rounds);
    return status;
}

/* ---------------------------------------------------------------- heads ------------------ */

/*
 * n rows of the last forward, from rows on, side by side: [n, D], room that is free between two
 * forwards.
 */
static const float *gather(kmf_encoder *encoder, const size_t *rows, size_t n)
{
    size_t D = encoder->model->config.hidden_size;
    for (size_t i = 0; i < n; i++) {
        assert(rows[i] < encoder->n_rows);
        memcpy(encoder->qkv + i * D, encoder->x + rows[i] * D, D * sizeof *encoder->x);
    }
    return encoder->qkv;
}

static int fail_unfinished(kmf_err *err)
{
    return kmf_fail(err, KMF_EINVAL, "the last forward did not go through all layers");
}

int kmf_encoder_logits(kmf_encoder *encoder, float *logits, const size_t *rows, size_t n_rows,
                       kmf_err *err)
{
    const kmf_config *config = &encoder->model->config;
    const kmf_params *w = &encoder->model->params;
    const float *decoder = w->decoder ? w->decoder : w->word;
    double eps = config->head_eps > 0 ? config->head_eps : config->layer_norm_eps;
    kmf_activation activation = config->head_gelu ? KMF_GELU : config->activation;
    size_t D = config->hidden_size;
    size_t E = config->embedding_size;
    size_t V = config->vocab_size;
    if (!w->head_w)
        return kmf_fail(err, KMF_EMODEL, "the model has no masked-language-model head");
    if (n_rows > 0 && encoder->batch.layer != config->n_layers)
        return fail_unfinished(err);
    float *h = encoder->out; /* [tile, E] */
    for (size_t r = 0; r < n_rows; r += KMF_TILE) {
        size_t n = kmf_min(n_rows - r, KMF_TILE);
        const float *x = gather(encoder, rows + r, n);
        float *y = logits + r * V;
        kmf_gemm_inner(h, E, x, D, w->head_w, D, n, E, D, KMF_GEMM_TB); /* [n, D] -> [n, E] */
        kmf_bias_forward(h, E, w->head_b, n, E);
        kmf_activation_forward(h, E, h, E, activation, n, E);
        kmf_layernorm_forward(h, E, w->head_ln_w, w->head_ln_b, eps, n, E);
        kmf_gemm_inner(y, V, h, E, decoder, E, n, V, E, KMF_GEMM_TB); /* [n, E] -> [n, V] */
        for (int i = 0; i < config->head_biases; i++)
            kmf_bias_forward(y, V, w->head_bias, n, V);
    }
    return 0;
}

int kmf_encoder_pooler(kmf_encoder *encoder, float *pooled, const size_t *rows, size_t n_rows,
                       kmf_err *err)
{
    const kmf_params *w = &encoder->model->params;
    size_t D = encoder->model->config.hidden_size;
    if (!w->pool_w)
        return kmf_fail(err, KMF_EMODEL, "the model has no pooler");
    if (n_rows > 0 && encoder->batch.layer != encoder->model->config.n_layers)
        return fail_unfinished(err);
    for (size_t r = 0; r < n_rows; r += KMF_TILE) {
        size_t n = kmf_min(n_rows - r, KMF_TILE);
        float *y = pooled + r * D;
        kmf_gemm_inner(y, D, gather(encoder, rows + r, n), D, w->pool_w, D, n, D, D,
                       KMF_GEMM_TB); /* [n, D] -> [n, D] */
        kmf_bias_tanh_forward(y, D, w->pool_b, n, D);
    }
    return 0;
}
