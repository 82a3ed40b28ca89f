/* SPDX-License-Identifier: MIT */
/*
 * The parameters of an encoder: one struct of pointers, and one table per family that names every
 * tensor, its field and its shape. Loading, saving, initialising, counting and (later) optimising
 * are loops over the table.
 *
 * Every matrix is [out, in] row-major, as published checkpoints store it.
 */
#ifndef KMF_PARAMS_H
#define KMF_PARAMS_H

#include "kmerformer.h"

/* One encoder block. All pointers are borrowed from the model. */
typedef struct kmf_layer {
    const float *wq, *bq;       /* [D, D], [D] */
    const float *wk, *bk;       /* [D, D], [D] */
    const float *wv, *bv;       /* [D, D], [D] */
    const float *wo, *bo;       /* [D, D], [D]   attention output            */
    const float *ln1_w, *ln1_b; /* [D]           norm after attention        */
    const float *w1, *b1;       /* [F, D], [F]   feed-forward, in            */
    const float *w2, *b2;       /* [D, F], [D]   feed-forward, out           */
    const float *ln2_w, *ln2_b; /* [D]           norm after the feed-forward */
} kmf_layer;

typedef struct kmf_params {
    const float *word;            /* [V, E] */
    const float *type;            /* [type_vocab_size, E]; row 0 is used */
    const float *ln_w, *ln_b;     /* [E]    norm of the embedding */
    const float *proj_w, *proj_b; /* [D, E], [D]; NULL when E = D */
    kmf_layer *layers;            /* [L]    owned by the model */
    const float *head_w, *head_b; /* [E, D], [E]  masked-LM head; NULL if the model has none */
    const float *head_ln_w, *head_ln_b; /* [E] */
    const float *head_bias;             /* [V]    the decoder's weight is `word` */
} kmf_params;

#endif
