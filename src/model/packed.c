/* SPDX-License-Identifier: MIT */
#include "model/packed.h"

#include "base/err.h"
#include "base/mem.h"
#include "model/config.h"
#include "model/ffn_order.h"
#include "model/model.h"
#include "nn/kernels.h"

#include <assert.h>
#include <string.h>

#define SUM_TERMS_MOST 65536 /* of products of two bytes, in 32 bits */
/* A table larger than this would not stay in any cache, and takes long to make. */
#define TABLE_BYTES_MAX ((size_t)64 << 20)

kmf_packed *kmf_packed_new(kmf_err *err)
{
    kmf_packed *packed = kmf_calloc(1, sizeof *packed, err);
    if (!packed)
        return NULL;
    pthread_mutex_init(&packed->lock, NULL);
    pthread_mutex_init(&packed->table_lock, NULL);
    return packed;
}

void kmf_packed_free(kmf_packed *packed)
{
    if (!packed)
        return;
    pthread_mutex_destroy(&packed->lock);
    pthread_mutex_destroy(&packed->table_lock);
    kmf_free(packed->slab);
    kmf_free(packed->layers);
    kmf_free(packed->qkv_bias);
    kmf_free(packed->biases);
    kmf_free(atomic_load(&packed->table));
    kmf_free(packed);
}

/* *total += the bytes of a packed [Dout, Din] weight. */
static int add_packed(size_t *total, size_t Dout, size_t Din, kmf_operand operand, kmf_err *err)
{
    size_t n = kmf_gemm_packed_bytes(Dout, Din, operand);
    if (n == 0 || !kmf_add(*total, n, total))
        return kmf_fail(err, KMF_ENOMEM, "a weight of %zu x %zu does not fit the memory", Dout,
                        Din);
    return 0;
}

/* Where weights come from, and where they go. */
typedef struct packing {
    const kmf_tensors *stored;
    char *next;
    size_t n_weights;   /* so far */
    size_t *order;      /* owned [F], where columns are put in order; else NULL */
    const float **rows; /* owned [F], gated [2F] */
    float *turned;      /* owned [D, F] */
} packing;

/* Packs parts [Dout / n_parts, Din]. */
static kmf_weight pack(packing *p, const float *const *parts, size_t n_parts, size_t Dout,
                       size_t Din, kmf_operand operand)
{
    kmf_weight w = kmf_gemm_pack(p->next, parts, n_parts, Din, Dout, Din, operand);
    p->next += kmf_gemm_packed_bytes(Dout, Din, operand);
    p->n_weights += Dout * Din;
    return w;
}

static void give_back(const packing *p, const float *weight, size_t n)
{
    kmf_tensors_give_back(p->stored, weight, n * sizeof *weight);
}

/* Of Wqkv of layer l, and of its W2. */
static kmf_operand qkv_operand(const kmf_packed *packed, size_t l)
{
    return kmf_operand_of(l == 0 && packed->table_bytes ? KMF_PRECISION_F32
                                                        : packed->precision);
}

kmf_operand kmf_packed_w2(kmf_precision precision, size_t l)
{
    return precision == KMF_PRECISION_INT8 && l == 0 ? kmf_operand_finer()
                                                     : kmf_operand_of(precision);
}

/* Whether the columns of the middle are put in order. */
static bool in_order(const kmf_packed *packed, size_t l)
{
    return kmf_packed_w2(packed->precision, l) == KMF_OPERAND_INT8;
}

static int take_room(kmf_packed *packed, const kmf_config *config, bool has_proj, kmf_err *err)
{
    size_t D = config->hidden_size;
    size_t F = config->intermediate_size;
    size_t L = config->n_layers;
    kmf_operand operand = kmf_operand_of(packed->precision);
    size_t F_in = kmf_config_inner(config);
    bool placeless = config->positions != KMF_POSITIONS_LEARNED && !config->token_dropout;
    size_t total = 0;
    size_t n_ordered = L > 0 && in_order(packed, L - 1) ? L : 0;
    size_t D3, n_bias, n_b1;
    if (!kmf_mul(D, 3, &D3))
        return kmf_fail(err, KMF_ENOMEM, "a model %zu wide does not fit the memory", D);
    if (!placeless || !kmf_mul(D3, sizeof(float), &packed->table_bytes) ||
        !kmf_mul(packed->table_bytes, config->vocab_size, &packed->table_bytes) ||
        packed->table_bytes > TABLE_BYTES_MAX)
        packed->table_bytes = 0;
    for (size_t l = 0; l < L; l++)
        if (add_packed(&total, D3, D, qkv_operand(packed, l), err) ||
            add_packed(&total, D, D, operand, err) ||
            add_packed(&total, F_in, D, operand, err) ||
            add_packed(&total, D, F, kmf_packed_w2(packed->precision, l), err))
            return KMF_ENOMEM;
    if (!kmf_mul(D3, L, &n_bias) || !kmf_mul(F_in, n_ordered, &n_b1))
        return kmf_fail(err, KMF_ENOMEM, "%zu layers do not fit the memory", L);
    if (has_proj && add_packed(&total, D, config->embedding_size, KMF_OPERAND_F32, err))
        return KMF_ENOMEM;
    packed->bytes = total + (n_bias + n_b1) * sizeof(float) + packed->table_bytes;
    packed->slab = kmf_large(total ? total : 1, 1, err);
    packed->layers = kmf_calloc(L, sizeof *packed->layers, err);
    packed->qkv_bias = kmf_floats(n_bias, err);
    packed->biases = kmf_floats(n_b1 ? n_b1 : 1, err);
    return packed->slab && packed->layers && packed->qkv_bias && packed->biases ? 0
                                                                                : KMF_ENOMEM;
}

/* Room to put a layer's columns in order. */
static int take_order(packing *p, size_t D, size_t F, size_t F_in, kmf_err *err)
{
    size_t n;
    p->order = kmf_malloc(F, sizeof *p->order, err);
    p->rows = kmf_malloc(F_in, sizeof *p->rows, err);
    if (!p->order || !p->rows)
        return KMF_ENOMEM;
    if (!kmf_mul(D, F, &n))
        return kmf_fail(err, KMF_ENOMEM, "a weight of %zu x %zu does not fit the memory", D, F);
    p->turned = kmf_large(n, sizeof *p->turned, err);
    return p->turned ? 0 : KMF_ENOMEM;
}

static void free_order(packing *p)
{
    kmf_free(p->order);
    kmf_free(p->rows);
    kmf_free(p->turned);
}

/* W1, b1 and W2 of a layer with the columns of the middle in order. b1: room for its biases. */
static int pack_in_order(packing *p, kmf_packed_layer *to, const kmf_config *config,
                         const kmf_layer *w, float *b1, kmf_operand operand, kmf_err *err)
{
    size_t D = config->hidden_size;
    size_t F = config->intermediate_size;
    size_t F_in = kmf_config_inner(config);
    assert(p->order && p->rows && p->turned);
    int status = kmf_ffn_order(p->order, config, w, err);
    if (status < 0)
        return status;
    for (size_t f = 0; f < F_in; f++) {
        size_t o = f < F ? p->order[f] : F + p->order[f - F];
        p->rows[f] = w->w1 + o * D;
        if (w->b1)
            b1[f] = w->b1[o];
    }
    for (size_t d = 0; d < D; d++)
        for (size_t f = 0; f < F; f++)
            p->turned[d * F + f] = w->w2[d * F + p->order[f]];
    to->w1 = pack(p, p->rows, F_in, F_in, D, operand);
    to->w2 = pack(p, (const float *[]){p->turned}, 1, D, F, operand);
    to->b1 = w->b1 ? b1 : NULL;
    return 0;
}

static int pack_layer(packing *p, kmf_packed *packed, const kmf_config *config,
                      const kmf_layer *w, size_t l, kmf_err *err)
{
    size_t D = config->hidden_size;
    size_t F = config->intermediate_size;
    size_t F_in = kmf_config_inner(config);
    kmf_packed_layer *to = &packed->layers[l];
    kmf_operand operand = kmf_operand_of(packed->precision);
    int status = 0;
    to->qkv =
        pack(p, (const float *[]){w->wq, w->wk, w->wv}, 3, 3 * D, D, qkv_operand(packed, l));
    to->wo = pack(p, (const float *[]){w->wo}, 1, D, D, operand);
    if (in_order(packed, l)) {
        status = pack_in_order(p, to, config, w, packed->biases + l * F_in, operand, err);
    } else {
        to->w1 = pack(p, (const float *[]){w->w1}, 1, F_in, D, operand);
        to->w2 =
            pack(p, (const float *[]){w->w2}, 1, D, F, kmf_packed_w2(packed->precision, l));
        to->b1 = w->b1;
    }
    const struct {
        const float *weight;
        size_t n;
    } done[] = {{w->wq, D * D}, {w->wk, D * D},    {w->wv, D * D},
                {w->wo, D * D}, {w->w1, F_in * D}, {w->w2, D * F}};
    for (size_t i = 0; i < sizeof done / sizeof done[0]; i++)
        give_back(p, done[i].weight, done[i].n);
    return status;
}

static int make(kmf_packed *packed, const kmf_config *config, const kmf_params *params,
                const kmf_tensors *stored, kmf_err *err)
{
    size_t D = config->hidden_size;
    if (take_room(packed, config, params->proj_w != NULL, err) < 0)
        return KMF_ENOMEM;
    packing to_slab = {.stored = stored, .next = packed->slab};
    int status = 0;
    if (config->n_layers > 0 && in_order(packed, config->n_layers - 1))
        status =
            take_order(&to_slab, D, config->intermediate_size, kmf_config_inner(config), err);
    for (size_t l = 0; status == 0 && l < config->n_layers; l++) {
        const kmf_layer *w = &params->layers[l];
        float *bias = packed->qkv_bias + l * 3 * D;
        memcpy(bias, w->bq, D * sizeof *bias);
        memcpy(bias + D, w->bk, D * sizeof *bias);
        memcpy(bias + 2 * D, w->bv, D * sizeof *bias);
        status = pack_layer(&to_slab, packed, config, w, l, err);
    }
    if (status == 0 && params->proj_w) {
        packed->proj = pack(&to_slab, (const float *[]){params->proj_w}, 1, D,
                            config->embedding_size, KMF_OPERAND_F32);
        give_back(&to_slab, params->proj_w, D * config->embedding_size);
    }
    packed->n_weights = to_slab.n_weights;
    free_order(&to_slab);
    return status;
}

/* A gated feed-forward that cannot be halved at a panel is one sum in int8, of 32 bits. */
static int check_sums(const kmf_config *config, kmf_precision precision, kmf_err *err)
{
    size_t F = config->intermediate_size;
    if (precision != KMF_PRECISION_INT8 || !config->gated || F <= SUM_TERMS_MOST ||
        F % KMF_KERNEL_COLS == 0)
        return 0;
    return kmf_fail(
        err, KMF_EMODEL,
        "int8: intermediate_size %zu: above %d it must be a multiple of %d, or sums "
        "would not fit",
        F, SUM_TERMS_MOST, KMF_KERNEL_COLS);
}

int kmf_packed_make(kmf_packed *packed, const kmf_config *config, const kmf_params *params,
                    const kmf_tensors *stored, kmf_precision precision, kmf_err *err)
{
    int status = 0;
    pthread_mutex_lock(&packed->lock);
    if (packed->ready && packed->precision != precision) {
        status =
            kmf_fail(err, KMF_EINVAL, "the model is in use in %s already, not in %s",
                     kmf_precision_names[packed->precision], kmf_precision_names[precision]);
    } else if (!packed->ready) {
        packed->precision = precision;
        status = check_sums(config, precision, err);
        if (status == 0)
            status = make(packed, config, params, stored, err);
        packed->ready = status == 0;
        if (status < 0) { /* a later call may find more memory */
            kmf_free(packed->slab);
            kmf_free(packed->layers);
            kmf_free(packed->qkv_bias);
            kmf_free(packed->biases);
            packed->biases = NULL;
            packed->slab = NULL;
            packed->layers = NULL;
            packed->qkv_bias = NULL;
            packed->precision = KMF_PRECISION_F32;
        }
    }
    pthread_mutex_unlock(&packed->lock);
    return status;
}
