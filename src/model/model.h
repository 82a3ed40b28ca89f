/* SPDX-License-Identifier: MIT */
/* A loaded or new model: what it is, what it knows, and its weights. */
#ifndef KMF_MODEL_H
#define KMF_MODEL_H

#include "base/io.h"
#include "model/params.h"

struct kmf_model {
    kmf_config config;
    kmf_params params;
    kmf_vocab *vocab;         /* owned */
    char *path;               /* owned; "" if it was not loaded */
    char *provenance;         /* owned JSON text; "" if none */
    kmf_map map;              /* weights used in place */
    float *slab;              /* owned; weights that had to be converted, or new ones */
    kmf_tensor_info *tensors; /* owned [n_tensors], names owned too */
    size_t n_tensors;
    uint64_t n_parameters;

    /* For the encoder: the weight products' own layout, made once by kmf_model_pack. */
    float *packed; /* owned slab */
    struct kmf_packed_layer {
        const float *qkv; /* [3D, D]: wq, wk, wv as one product */
        const float *wo, *w1, *w2;
    } * packed_layers;        /* owned [L] */
    const float *packed_proj; /* NULL when E = D */
    float *qkv_bias;          /* owned [L, 3D] */
};

/* Packs the weights (gemm.h). Called once, by load and new. */
int kmf_model_pack(kmf_model *model, kmf_err *err) KMF_MUST_CHECK;

#endif
