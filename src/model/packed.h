/* SPDX-License-Identifier: MIT */
/*
 * A model's weights as the encoder wants them: packed for the products of one precision, and the
 * first layer's queries, keys and values as a table over the vocabulary.
 *
 * The table, where places do not come in with the embedding. What the first layer reads is a
 * function of the token alone, so its product with Wqkv is V rows at most, whatever the input's
 * length: 6 D^2 of a layer's 24 D^2 operations are saved for each token, 6 % of a model of 4
 * layers. It is made when V tokens have gone through the product, which is when it has paid, and
 * its rows have the bits of the product.
 *
 * Precision. Not all weights suffer it alike. What the first layer does to the tokens goes
 * through all others: its Wqkv, which the table makes cheap, stays in float32, and its scores
 * are products of 16-bit integers, or of two bfloat16 for each number. With int8 what comes out
 * of the activation, mostly near 0 and seldom large, loses most: the first layer's W2 is in
 * bf16, or in int16 where the processor lacks that, and before the others the columns between
 * the products of a feed-forward stand in the order of how far they reach (ffn_order.h).
 * (Measured: tests/bench/results/encoder.md.)
 */
#ifndef KMF_PACKED_H
#define KMF_PACKED_H

#include "model/params.h"
#include "model/tensorfiles.h"
#include "nn/gemm.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct kmf_packed_layer {
    kmf_weight qkv;        /* [3D, D]: wq, wk, wv as one product */
    kmf_weight wo, w1, w2; /* w1 is [2F, D] in a gated feed-forward */
    const float *b1;       /* in w1's order; the model's or that in `biases`, or NULL */
} kmf_packed_layer;

typedef struct kmf_packed {
    pthread_mutex_t lock; /* of making it */
    bool ready;
    _Atomic(kmf_precision) precision; /* F32 before */
    void *slab;                       /* owned; the weights lie in it */
    kmf_packed_layer *layers;         /* owned [L] */
    kmf_weight proj;                  /* [D, E]; Dout 0 when E = D */
    float *qkv_bias;                  /* owned [L, 3D] */
    float *biases;      /* owned [L, F], gated [L, 2F]: b1 where it has an order */
    size_t bytes;       /* of all that is owned, the table too */
    size_t n_weights;   /* numbers that are packed */
    size_t table_bytes; /* 0: no table, or it would be too large */
    pthread_mutex_t table_lock;
    _Atomic(float *) table; /* owned [V, 3D], NULL until it has paid */
    atomic_size_t tokens;   /* seen so far, up to V */
} kmf_packed;

/* What W2 of layer l is packed as beside other weights in this precision. */
kmf_operand kmf_packed_w2(kmf_precision precision, size_t l);

/* Nothing is packed yet; free accepts NULL. */
kmf_packed *kmf_packed_new(kmf_err *err) KMF_MUST_CHECK;
void kmf_packed_free(kmf_packed *packed);
/*
 * Packs, unless that was done before; with another precision then is KMF_EINVAL. Thread-safe. What
 * params has in maps of stored goes out of memory again, layer by layer.
 */
int kmf_packed_make(kmf_packed *packed, const kmf_config *config, const kmf_params *params,
                    const kmf_tensors *stored, kmf_precision precision,
                    kmf_err *err) KMF_MUST_CHECK;

#endif
