/* SPDX-License-Identifier: MIT */
#include "model/packed.h"

#include "base/err.h"
#include "base/mem.h"
#include "model/model.h"

#include <string.h>

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
    kmf_free(atomic_load(&packed->table));
    kmf_free(packed);
}

/* *total += the bytes of a packed [Dout, Din] weight. */
static int add_packed(size_t *total, size_t Dout, size_t Din, kmf_precision precision,
                      kmf_err *err)
{
    size_t n = kmf_gemm_packed_bytes(Dout, Din, precision);
    if (n == 0 || !kmf_add(*total, n, total))
        return kmf_fail(err, KMF_ENOMEM, "a weight of %zu x %zu does not fit the memory", Dout,
                        Din);
    return 0;
}

/* Where weights come from, and where they go. */
typedef struct packing {
    const kmf_tensors *stored;
    char *next;
    size_t n_weights; /* so far */
} packing;

/* Packs parts [Dout / n_parts, Din]. */
static kmf_weight pack(packing *p, const float *const *parts, size_t n_parts, size_t Dout,
                       size_t Din, kmf_precision precision)
{
    kmf_weight w = kmf_gemm_pack(p->next, parts, n_parts, Din, Dout, Din, precision);
    p->next += kmf_gemm_packed_bytes(Dout, Din, precision);
    p->n_weights += Dout * Din;
    for (size_t i = 0; i < n_parts; i++)
        kmf_tensors_give_back(p->stored, parts[i], Dout / n_parts * Din * sizeof(float));
    return w;
}

/* Of Wqkv of layer l, and of W2. */
static kmf_precision qkv_precision(const kmf_packed *packed, size_t l)
{
    return l == 0 && packed->table_bytes ? KMF_PRECISION_F32 : packed->precision;
}

kmf_precision kmf_packed_w2(kmf_precision precision)
{
    return precision == KMF_PRECISION_INT8 ? kmf_precision_here(KMF_PRECISION_BF16) : precision;
}

static int take_room(kmf_packed *packed, const kmf_config *config, bool has_proj, kmf_err *err)
{
    size_t D = config->hidden_size;
    size_t F = config->intermediate_size;
    size_t L = config->n_layers;
    kmf_precision p = packed->precision;
    size_t F_in = config->gated ? 2 * F : F;
    bool placeless = config->positions != KMF_POSITIONS_LEARNED && !config->token_dropout;
    size_t total = 0;
    size_t D3, n_bias;
    if (!kmf_mul(D, 3, &D3))
        return kmf_fail(err, KMF_ENOMEM, "a model %zu wide does not fit the memory", D);
    if (!placeless || !kmf_mul(D3, sizeof(float), &packed->table_bytes) ||
        !kmf_mul(packed->table_bytes, config->vocab_size, &packed->table_bytes) ||
        packed->table_bytes > TABLE_BYTES_MAX)
        packed->table_bytes = 0;
    for (size_t l = 0; l < L; l++)
        if (add_packed(&total, D3, D, qkv_precision(packed, l), err) ||
            add_packed(&total, D, D, p, err) || add_packed(&total, F_in, D, p, err) ||
            add_packed(&total, D, F, kmf_packed_w2(p), err))
            return KMF_ENOMEM;
    if (!kmf_mul(D3, L, &n_bias))
        return kmf_fail(err, KMF_ENOMEM, "%zu layers do not fit the memory", L);
    if (has_proj && add_packed(&total, D, config->embedding_size, KMF_PRECISION_F32, err))
        return KMF_ENOMEM;
    packed->bytes = total + n_bias * sizeof(float) + packed->table_bytes;
    packed->slab = kmf_large(total ? total : 1, 1, err);
    packed->layers = kmf_calloc(L, sizeof *packed->layers, err);
    packed->qkv_bias = kmf_floats(n_bias, err);
    return packed->slab && packed->layers && packed->qkv_bias ? 0 : KMF_ENOMEM;
}

static int make(kmf_packed *packed, const kmf_config *config, const kmf_params *params,
                const kmf_tensors *stored, kmf_err *err)
{
    size_t D = config->hidden_size;
    size_t F = config->intermediate_size;
    size_t F_in = config->gated ? 2 * F : F;
    kmf_precision p = packed->precision;
    if (take_room(packed, config, params->proj_w != NULL, err) < 0)
        return KMF_ENOMEM;
    packing to_slab = {stored, packed->slab, 0};
    for (size_t l = 0; l < config->n_layers; l++) {
        const kmf_layer *w = &params->layers[l];
        kmf_packed_layer *to = &packed->layers[l];
        float *bias = packed->qkv_bias + l * 3 * D;
        to->qkv = pack(&to_slab, (const float *[]){w->wq, w->wk, w->wv}, 3, 3 * D, D,
                       qkv_precision(packed, l));
        to->wo = pack(&to_slab, (const float *[]){w->wo}, 1, D, D, p);
        to->w1 = pack(&to_slab, (const float *[]){w->w1}, 1, F_in, D, p);
        to->w2 = pack(&to_slab, (const float *[]){w->w2}, 1, D, F, kmf_packed_w2(p));
        memcpy(bias, w->bq, D * sizeof *bias);
        memcpy(bias + D, w->bk, D * sizeof *bias);
        memcpy(bias + 2 * D, w->bv, D * sizeof *bias);
    }
    if (params->proj_w)
        packed->proj = pack(&to_slab, (const float *[]){params->proj_w}, 1, D,
                            config->embedding_size, KMF_PRECISION_F32);
    packed->n_weights = to_slab.n_weights;
    return 0;
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
        status = make(packed, config, params, stored, err);
        packed->ready = status == 0;
        if (status < 0) { /* a later call may find more memory */
            kmf_free(packed->slab);
            kmf_free(packed->layers);
            kmf_free(packed->qkv_bias);
            packed->slab = NULL;
            packed->layers = NULL;
            packed->qkv_bias = NULL;
            packed->precision = KMF_PRECISION_F32;
        }
    }
    pthread_mutex_unlock(&packed->lock);
    return status;
}
