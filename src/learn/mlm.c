/* SPDX-License-Identifier: MIT */
/*
 * The pass as a whole. Forward goes through embedding, blocks and head; backward the other way,
 * each part's backward beside its forward:
 *
 *   ids -> embed -> x -> block 0 -> x -> .. -> block L-1 -> x -> head -> loss
 *          embed <- dx <- block 0 <- dx <- .. <- block L-1 <- dx <- head
 *
 * A part is a row of phases; in a phase the threads take items, and it ends when all are done.
 * Two kinds of sums over tokens want an order that does not depend on threads. A weight's gradient
 * dy^T x is cut by blocks of the weight, and each item goes over the tokens in order; dy and x are
 * packed for that, once, by the strips that make them or take them up, for a stage of some rows at
 * a time. Gradients of vectors (biases, norms) are summed by grains of rows, into partial sums that
 * one item then adds up in order. Strips are cut so that all threads have as much to do; sums go by
 * grains whatever the strip.
 *
 * Weights are packed for the products one layer at a time, when they are wanted: they change with
 * every step, and packing takes less than a hundredth of the time of the products.
 *
 * All memory is one slab. Its layout is written down once, as a function that either counts or
 * places (lay_out), so what is said before the first step is what is taken.
 */
#include "learn/mlm.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "learn/mlm_room.h"
#include "nn/attention_train.h"
#include "nn/dropout.h"
#include "nn/ops.h"

#include <assert.h>
#include <string.h>

#define ROTARY_BASE 10000.0
#define CHUNK_NUMBERS ((size_t)1 << 22)   /* of the head's probabilities, about */
#define STRIP_ROWS ((size_t)2 * KMF_TILE) /* the most, where a product works on as many */
#define STAGE_ROWS ((size_t)6 * KMF_TILE) /* of a worker: caches hold what they pack */
_Static_assert(KMF_TILE % KMF_GRAIN == 0, "strips of whole tiles are of whole grains");
#define MOST_NUMBERS ((size_t)1 << 56) /* of a slab: sums of so many do not wrap around */
#define CACHE_LINE ((size_t)64)        /* where the slab's arrays begin */

/* ---------------------------------------------------------------- workspace -------------- */

typedef struct arena {
    kmf_real *base; /* NULL: only count */
    size_t used;
    bool too_much;
} arena;

/* rows * width numbers, at a multiple of 64 bytes. */
static kmf_real *take(arena *a, size_t rows, size_t width)
{
    size_t n;
    if (!kmf_mul(rows, width, &n) || n > MOST_NUMBERS || a->used > MOST_NUMBERS) {
        a->too_much = true;
        return NULL;
    }
    kmf_real *at = a->base ? a->base + a->used : NULL;
    a->used += kmf_round_up(n, 16);
    return at;
}

static kmf_operand operand_of(const kmf_mlm *m)
{
    return kmf_operand_of(m->opts.precision);
}

/* Room for a weight packed either way. */
static kmf_packing take_packing(const kmf_mlm *m, arena *a, size_t Dout, size_t Din)
{
    size_t there = kmf_gemm_packed_bytes(Dout, Din, operand_of(m));
    size_t back = kmf_gemm_packed_bytes(Din, Dout, operand_of(m));
    if (there == 0 || back == 0)
        a->too_much = true;
    return (kmf_packing){.room = take(a, kmf_max(there, back) / sizeof(kmf_real), 1)};
}

/* Room for a factor of a gradient. */
static kmf_real *take_factor(const kmf_mlm *m, arena *a, size_t N, size_t cols)
{
    size_t bytes = kmf_gemm_factor_bytes(N, cols, m->opts.precision);
    if (bytes == 0)
        a->too_much = true;
    return take(a, bytes / sizeof(kmf_real), 1);
}

static void lay_out_layers(kmf_mlm *m, arena *a)
{
    kmf_activations shared = {0};
    for (size_t l = 0; l < m->L; l++) {
        kmf_activations act = shared;
        if (l == 0 || !m->opts.recompute) {
            act.qkv = take(a, m->N, 3 * m->D);
            act.heads = take(a, m->N, m->D);
            act.stats = take(a, m->N, 2 * m->H);
            act.sum1 = take(a, m->N, m->D);
            act.h = take(a, m->N, m->F);
            shared = act;
        }
        if (l == 0 || !m->opts.forward_only)
            act.sum2 = take(a, m->N, m->D);
        shared.sum2 = act.sum2;
        if (m->layers)
            m->layers[l] = act;
    }
}

static void lay_out_backward(kmf_mlm *m, arena *a)
{
    m->dx = take(a, m->N, m->D);
    m->dsum1 = take(a, m->N, m->D);
    m->dheads = take(a, m->N, m->D);
    m->dqkv = take(a, m->N, 3 * m->D);
    /* gradients of a block's vectors, or of the embedding's */
    m->partial_width = kmf_max(6 * m->D + m->F, 3 * m->E + m->D);
    m->partial = take(a, m->N / KMF_GRAIN, m->partial_width);
    for (size_t i = 0; i < KMF_FACTORS; i++)
        m->factors[i] = take_factor(m, a, kmf_max(m->stage, m->chunk), kmf_max(m->D, m->E));
    for (size_t i = 0; i < KMF_WIDE_FACTORS; i++)
        m->wide[i] = take_factor(m, a, m->stage, m->F);
    m->dlogits = take_factor(m, a, m->chunk, m->V);
    m->head_weights = take(a, m->chunk, 1);
    m->head_back = take_packing(m, a, m->E, m->D);
    m->word_back = take_packing(m, a, m->V, m->E);
}

/* Terms of the longest sum of a weight product. */
static size_t deepest(const kmf_mlm *m)
{
    size_t forward = kmf_max(kmf_max(m->D, m->E), m->F);
    return m->opts.forward_only ? forward : kmf_max(forward, kmf_max(3 * m->D, m->V));
}

static void lay_out_composition(kmf_mlm *m, arena *a)
{
    size_t n = m->opts.max_seqs, C = m->config.composition, F = KMF_COMPOSITION_HIDDEN * C;
    m->means = take(a, n, C);
    m->composing.u = take(a, n, C);
    m->composing.h = take(a, n, F);
    m->composing.act = take(a, n, F);
    m->dmeans = take(a, n, C);
    m->composing.dh = take(a, n, F);
}

/* Every array its place. */
static void lay_out(kmf_mlm *m, arena *a)
{
    size_t workers = (size_t)m->workers;
    m->cos_t = take(a, m->opts.max_seq, m->K / 2);
    m->sin_t = take(a, m->opts.max_seq, m->K / 2);
    m->x = take(a, m->N, m->D);
    m->emb_sum = take(a, m->N, m->E);
    m->emb = take(a, m->E == m->D ? 0 : m->N, m->E);
    m->x0 = m->opts.forward_only ? NULL : take(a, m->N, m->D);
    lay_out_layers(m, a);
    size_t rows = workers * m->strip_rows;
    m->strip_y = take(a, rows, kmf_max(m->D, m->E));
    m->strip_x = take(a, rows, m->D);
    m->strip_f = take(a, rows, m->F);
    m->strip_act = m->opts.forward_only ? NULL : take(a, rows, m->F);
    m->scratch_size =
        m->opts.forward_only
            ? kmf_attention_train_scratch(m->opts.max_seq, m->K, m->opts.precision)
            : kmf_attention_backward_scratch(m->opts.max_seq, m->K, m->opts.precision);
    if (m->scratch_size == 0)
        a->too_much = true;
    m->scratch = take(a, workers, m->scratch_size);
    m->words_size =
        kmf_gemm_scratch(m->strip_rows, deepest(m), operand_of(m)) / sizeof(kmf_real);
    m->words = take(a, workers, m->words_size);
    m->qkv_bias = take(a, 3, m->D);
    m->qkv = take_packing(m, a, 3 * m->D, m->D);
    m->wo = take_packing(m, a, m->D, m->D);
    m->w1 = take_packing(m, a, m->F, m->D);
    m->w2 = take_packing(m, a, m->D, m->F);
    if (m->E != m->D)
        m->proj = take_packing(m, a, m->D, m->E);
    m->head_x = take(a, m->chunk, m->D);
    m->head_h = take(a, m->chunk, m->E);
    m->head_act = take(a, m->chunk, m->E);
    m->head_out = take(a, m->chunk, m->E);
    m->probs = take(a, m->chunk, m->V);
    m->head = take_packing(m, a, m->E, m->D);
    m->word = take_packing(m, a, m->V, m->E);
    m->sites = m->opts.sites ? take(a, m->N + m->chunk, m->opts.n_sites) : NULL;
    if (m->opts.composes)
        lay_out_composition(m, a);
    else if (m->opts.vectors && !m->opts.forward_only)
        m->mixed = take(a, m->N, m->D);
    if (!m->opts.forward_only)
        lay_out_backward(m, a);
}

static void set_sizes(kmf_mlm *m, const kmf_config *config, const kmf_mlm_options *opts,
                      int workers)
{
    m->config = *config;
    m->opts = *opts;
    if (opts->forward_only)
        m->opts.recompute = true; /* nothing is kept of any layer */
    m->workers = workers;
    m->D = config->hidden_size;
    m->E = config->embedding_size;
    m->F = config->intermediate_size;
    m->H = config->n_heads;
    m->K = m->D / m->H;
    m->V = config->vocab_size;
    m->L = config->n_layers;
    size_t tokens = opts->composes && opts->unasked ? 1 : opts->max_tokens;
    size_t whole = kmf_round_up(tokens, KMF_TILE);
    m->N = kmf_round_up(tokens, KMF_GRAIN) + KMF_TILE - KMF_GRAIN;
    bool fast =
        whole > KMF_TILE && kmf_gemm_rows(kmf_operand_of(opts->precision)) >= STRIP_ROWS;
    m->strip_rows = fast ? STRIP_ROWS : KMF_TILE;
    m->stage = kmf_min(whole, STAGE_ROWS * (size_t)workers);
    m->chunk = CHUNK_NUMBERS / m->V / KMF_TILE * KMF_TILE;
    m->chunk = kmf_max(kmf_min(m->chunk, whole), KMF_TILE);
}

size_t kmf_mlm_bytes(const kmf_config *config, const kmf_mlm_options *opts, int threads)
{
    kmf_mlm m = {0};
    arena a = {0};
    if (opts->max_tokens > MOST_NUMBERS)
        return 0;
    set_sizes(&m, config, opts, threads);
    lay_out(&m, &a);
    size_t bytes = opts->max_tokens * (sizeof *m.rows + sizeof *m.labels + sizeof *m.nll);
    bytes += m.L * sizeof *m.layers + sizeof m + CACHE_LINE;
    return a.too_much ? 0 : a.used * sizeof(kmf_real) + bytes;
}

kmf_mlm *kmf_mlm_new(const kmf_config *config, const kmf_params *params,
                     const kmf_mlm_options *opts, kmf_pool *pool, kmf_err *err)
{
    assert(params->head_w && opts->max_tokens > 0 && opts->max_seq > 0);
    int workers = kmf_pool_threads(pool) + 1;
    if (kmf_mlm_bytes(config, opts, workers) == 0) {
        kmf_fail(err, KMF_ENOMEM, "batches of %zu tokens do not fit the memory",
                 opts->max_tokens);
        return NULL;
    }
    kmf_mlm *m = kmf_calloc(1, sizeof *m, err);
    if (!m)
        return NULL;
    arena a = {0};
    set_sizes(m, config, opts, workers);
    m->w = params;
    m->pool = pool;
    lay_out(m, &a);
    m->layers = kmf_calloc(m->L, sizeof *m->layers, err);
    m->rows = kmf_calloc(opts->max_tokens, sizeof *m->rows, err);
    m->labels = kmf_calloc(opts->max_tokens, sizeof *m->labels, err);
    m->nll = kmf_calloc(opts->max_tokens, sizeof *m->nll, err);
    m->slab = kmf_large_zeroed(a.used * sizeof(kmf_real) + CACHE_LINE, 1, err);
    if (!m->layers || !m->rows || !m->labels || !m->nll || !m->slab) {
        kmf_mlm_free(m);
        return NULL;
    }
    a = (arena){
        .base = (kmf_real *)(((uintptr_t)m->slab + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE)};
    lay_out(m, &a);
    kmf_rotary_table(m->cos_t, m->sin_t, ROTARY_BASE, 0, opts->max_seq, m->K);
    return m;
}

void kmf_mlm_free(kmf_mlm *mlm)
{
    if (!mlm)
        return;
    kmf_free(mlm->slab);
    kmf_free(mlm->layers);
    kmf_free(mlm->rows);
    kmf_free(mlm->labels);
    kmf_free(mlm->nll);
    kmf_free(mlm);
}

/* ---------------------------------------------------------------- shared by the parts ---- */

/*
 * As few strips as strip_rows allows, but as many for each thread; where there are fewer units than
 * threads, one unit each.
 */
static kmf_strips cut(const kmf_mlm *m, size_t row, size_t rows, size_t unit)
{
    size_t units = kmf_div_up(rows, unit), workers = (size_t)m->workers;
    size_t n = kmf_round_up(kmf_div_up(units, m->strip_rows / unit), workers);
    return (kmf_strips){row, rows, unit, kmf_min(n, units)};
}

kmf_strip kmf_mlm_strip(const kmf_mlm *m, size_t i)
{
    const kmf_strips *all = &m->strips;
    size_t units = kmf_div_up(all->rows, all->unit);
    size_t beg = units * i / all->n * all->unit;
    size_t end = kmf_min(units * (i + 1) / all->n * all->unit, all->rows);
    return (kmf_strip){all->row + beg, end - beg, beg};
}

int kmf_mlm_each(kmf_mlm *m, size_t rows, size_t unit, kmf_item_fn *fn, kmf_err *err)
{
    m->strips = cut(m, 0, rows, unit);
    return kmf_pool_each(m->pool, m->strips.n, fn, m, err);
}

uint64_t kmf_mlm_drop_key(const kmf_mlm *m, int site, size_t layer, size_t sequence)
{
    kmf_rng rng =
        kmf_rng_stream(m->batch->key, (uint64_t)layer * KMF_DROP_SITES + (uint64_t)site);
    kmf_rng_skip(&rng, sequence);
    return kmf_rng_next(&rng);
}

void kmf_mlm_drop(const kmf_mlm *m, kmf_real *x, size_t ld, int site, size_t layer, size_t row,
                  size_t rows, size_t width)
{
    if (m->training && m->batch->dropout > 0)
        kmf_dropout_forward(x, ld, kmf_mlm_drop_key(m, site, layer, 0), (uint64_t)row * width,
                            m->batch->dropout, rows, width);
}

void kmf_mlm_pack(const kmf_mlm *m, kmf_packing *p, const kmf_real *const *w, size_t n_parts,
                  size_t Dout, size_t Din)
{
    p->weight = kmf_gemm_pack(p->room, w, n_parts, Din, Dout, Din, operand_of(m));
}

void kmf_mlm_pack_back(const kmf_mlm *m, kmf_packing *p, const kmf_real *const *w,
                       size_t n_parts, size_t Dout, size_t Din)
{
    p->weight = kmf_gemm_pack_back(p->room, w, n_parts, Din, Dout, Din, operand_of(m));
}

void kmf_mlm_multiply(const kmf_mlm *m, int worker, kmf_real *y, size_t ld_y, const kmf_real *x,
                      size_t ld_x, const kmf_packing *w, size_t rows, const kmf_real *bias)
{
    kmf_gemm_weight(y, ld_y, x, ld_x, &w->weight, rows, &(kmf_epilogue){.bias = bias},
                    m->words + (size_t)worker * m->words_size);
}

kmf_real *kmf_mlm_of_worker(const kmf_mlm *m, kmf_real *array, int worker, size_t width)
{
    return array + (size_t)worker * m->strip_rows * width;
}

kmf_factor kmf_mlm_factor(const kmf_mlm *m, kmf_real *room, size_t N, size_t cols)
{
    return (kmf_factor){N, cols, m->opts.precision, room};
}

void kmf_mlm_product(kmf_mlm *m, kmf_real *dw, kmf_factor dy, kmf_factor x)
{
    assert(m->n_products < KMF_MOST_PRODUCTS);
    m->products[m->n_products++] = (kmf_product){dw, dy, x};
}

/* Blocks of columns of a weight, and all of its blocks. */
static size_t blocks_across(const kmf_product *p)
{
    return kmf_div_up(p->x.cols, KMF_WEIGHT_COLS);
}

static size_t blocks_of(const kmf_product *p)
{
    return kmf_div_up(p->dy.cols, KMF_WEIGHT_ROWS) * blocks_across(p);
}

size_t kmf_mlm_product_items(const kmf_mlm *m)
{
    size_t n = 0;
    for (size_t p = 0; p < m->n_products; p++)
        n += blocks_of(&m->products[p]);
    return n;
}

void kmf_mlm_product_add(const kmf_mlm *m, size_t i)
{
    const kmf_product *p = m->products;
    for (; i >= blocks_of(p); p++)
        i -= blocks_of(p);
    size_t o = i / blocks_across(p) * KMF_WEIGHT_ROWS;
    size_t k = i % blocks_across(p) * KMF_WEIGHT_COLS;
    size_t Dout = p->dy.cols, Din = p->x.cols;
    size_t n_rows = kmf_min(Dout - o, KMF_WEIGHT_ROWS);
    size_t n_cols = kmf_min(Din - k, KMF_WEIGHT_COLS);
    kmf_gemm_outer(p->dw + o * Din + k, Din, &p->dy, o, n_rows, &p->x, k, n_cols,
                   m->strips.rows);
}

static int add_products(void *arg, size_t i, int worker, kmf_err *err)
{
    const kmf_mlm *m = arg;
    (void)worker;
    (void)err;
    kmf_mlm_product_add(m, i);
    return 0;
}

int kmf_mlm_stages(kmf_mlm *m, kmf_item_fn *fn, kmf_err *err)
{
    size_t stages = m->n_products > 0 ? kmf_div_up(m->n, m->stage) : 1;
    size_t each = kmf_div_up(kmf_div_up(m->n, KMF_GRAIN), stages) * KMF_GRAIN;
    assert(each <= m->stage || m->n_products == 0); /* stage is whole grains */
    int rc = 0;
    for (size_t row = 0; row < m->n && rc == 0; row += each) {
        if (row > 0)
            rc = kmf_pool_each(m->pool, kmf_mlm_product_items(m), add_products, m, err);
        m->strips = cut(m, row, kmf_min(m->n - row, each), KMF_GRAIN);
        if (rc == 0)
            rc = kmf_pool_each(m->pool, m->strips.n, fn, m, err);
    }
    return rc;
}

size_t kmf_mlm_sum(kmf_mlm *m, kmf_real *to, size_t n)
{
    const kmf_partial_sum *last = m->n_sums > 0 ? &m->sums[m->n_sums - 1] : NULL;
    size_t from = last ? last->from + last->n : 0;
    assert(m->n_sums < KMF_MOST_SUMS && from + n <= m->partial_width);
    m->sums[m->n_sums++] = (kmf_partial_sum){to, from, n};
    return from;
}

/* Those of the grain that begins at a row. */
static kmf_real *partials(const kmf_mlm *m, size_t row)
{
    return m->partial + row / KMF_GRAIN * m->partial_width;
}

void kmf_mlm_clear_sums(const kmf_mlm *m, const kmf_strip *strip)
{
    memset(partials(m, strip->row), 0,
           kmf_div_up(strip->rows, KMF_GRAIN) * m->partial_width * sizeof *m->partial);
}

void kmf_mlm_bias_backward(const kmf_mlm *m, const kmf_strip *strip, size_t sum,
                           const kmf_real *dy, size_t ld)
{
    for (size_t r = 0; r < strip->rows; r += KMF_GRAIN)
        kmf_bias_backward(partials(m, strip->row + r) + m->sums[sum].from, dy + r * ld, ld,
                          kmf_min(strip->rows - r, KMF_GRAIN), m->sums[sum].n);
}

void kmf_mlm_norm_backward(const kmf_mlm *m, const kmf_strip *strip, size_t weight_sum,
                           size_t bias_sum, kmf_real *dx, const kmf_real *x, const kmf_real *w)
{
    size_t D = m->sums[weight_sum].n;
    for (size_t r = 0; r < strip->rows; r += KMF_GRAIN) {
        kmf_real *sums = partials(m, strip->row + r);
        kmf_layernorm_backward(dx + r * D, D, sums + m->sums[weight_sum].from,
                               sums + m->sums[bias_sum].from, dx + r * D, D, x + r * D, D, w,
                               m->config.layer_norm_eps, kmf_min(strip->rows - r, KMF_GRAIN),
                               D);
    }
}

void kmf_mlm_reduce(const kmf_mlm *m, size_t rows)
{
    for (size_t s = 0; s < m->n_sums; s++)
        for (size_t r = 0; r < rows; r += KMF_GRAIN)
            kmf_residual_forward(m->sums[s].to, m->sums[s].n, partials(m, r) + m->sums[s].from,
                                 m->partial_width, NULL, 1, m->sums[s].n);
}

/* ---------------------------------------------------------------- the pass --------------- */

static void begin(kmf_mlm *m, const kmf_mlm_batch *batch, bool training)
{
    assert(!training || !m->opts.forward_only);
    m->batch = batch;
    m->training = training;
    m->d = NULL;
    m->n = batch->off[batch->n_seq];
    m->n_labels = 0;
    assert(m->n > 0 && m->n <= m->opts.max_tokens);
    for (size_t s = 0; s < batch->n_seq; s++)
        assert(batch->off[s + 1] > batch->off[s] &&
               batch->off[s + 1] - batch->off[s] <= m->opts.max_seq);
    for (size_t i = 0; i < m->n; i++) {
        assert(batch->ids[i] >= 0 && (size_t)batch->ids[i] < m->V);
        assert(batch->labels[i] < 0 || (size_t)batch->labels[i] < m->V);
        if (batch->labels[i] < 0)
            continue;
        assert(!m->opts.unasked);
        m->rows[m->n_labels] = i;
        m->labels[m->n_labels++] = batch->labels[i];
    }
}

bool kmf_mlm_encodes(const kmf_mlm *m)
{
    return !m->opts.composes || m->n_labels > 0;
}

/*
 * vectors: NULL, or room for them. A composition's way back wants what lies on the way there,
 * whether the vector is asked for or was before; dmeans is not in use yet.
 */
static int forward(kmf_mlm *m, kmf_real *vectors, kmf_err *err)
{
    int rc = 0;
    if (m->opts.composes && (vectors || m->training))
        rc = kmf_mlm_compose_forward(m, vectors ? vectors : m->dmeans, err);
    if (rc < 0 || !kmf_mlm_encodes(m))
        return rc;
    rc = kmf_mlm_embed_forward(m, err);
    for (size_t l = 0; l < m->L && rc == 0; l++) {
        kmf_mlm_mix_forward(m, m->x, l);
        rc = kmf_mlm_block_forward(m, l, err);
    }
    if (rc == 0 && vectors && !m->opts.composes)
        rc = kmf_mlm_pool_forward(m, vectors, err);
    return rc;
}

/* From dx. */
static int backward(kmf_mlm *m, kmf_err *err)
{
    int rc = 0;
    for (size_t l = m->L; l > 0 && rc == 0; l--) {
        rc = kmf_mlm_block_backward(m, l - 1, err);
        kmf_mlm_mix_backward(m, m->dx, l - 1);
    }
    return rc == 0 ? kmf_mlm_embed_backward(m, err) : rc;
}

int kmf_mlm_evaluate(kmf_mlm *mlm, const kmf_mlm_batch *batch, kmf_real *vectors,
                     kmf_mlm_result *result, kmf_err *err)
{
    begin(mlm, batch, false);
    int rc = forward(mlm, vectors, err);
    return rc == 0 ? kmf_mlm_head(mlm, result, err) : rc;
}

int kmf_mlm_encode(kmf_mlm *mlm, const kmf_mlm_batch *batch, kmf_real *vectors, kmf_err *err)
{
    begin(mlm, batch, true);
    return forward(mlm, vectors, err);
}

int kmf_mlm_return(kmf_mlm *mlm, const kmf_real *dvectors, const kmf_params *gradients,
                   kmf_mlm_result *result, kmf_err *err)
{
    assert(mlm->training && !mlm->d);
    mlm->d = gradients;
    int rc = kmf_mlm_head(mlm, result, err);
    if (rc == 0 && dvectors)
        rc = mlm->opts.composes ? kmf_mlm_compose_backward(mlm, dvectors, err)
                                : kmf_mlm_pool_backward(mlm, dvectors, err);
    return rc == 0 && kmf_mlm_encodes(mlm) ? backward(mlm, err) : rc;
}

int kmf_mlm_learn(kmf_mlm *mlm, const kmf_mlm_batch *batch, const kmf_params *gradients,
                  kmf_mlm_result *result, kmf_err *err)
{
    int rc = kmf_mlm_encode(mlm, batch, NULL, err);
    return rc == 0 ? kmf_mlm_return(mlm, NULL, gradients, result, err) : rc;
}
