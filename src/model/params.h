/* SPDX-License-Identifier: MIT */
/*
 * The parameters of an encoder: one struct of pointers, and one table per family that names every
 * tensor, its field and its shape. Loading, saving, initialising, counting and optimising are loops
 * over the table. Gradients stand in a struct of the same type.
 *
 * Every matrix is [out, in] row-major, as published checkpoints store it.
 */
#ifndef KMF_PARAMS_H
#define KMF_PARAMS_H

#include "nn/composition.h"
#include "nn/real.h"

#include <stddef.h>

/*
 * One encoder block. All pointers are borrowed from the model; those of a loaded one may lead to
 * memory that cannot be written to. Biases and norms that the family does not have are NULL.
 */
typedef struct kmf_layer {
    kmf_real *wq, *bq;       /* [D, D], [D] */
    kmf_real *wk, *bk;       /* [D, D], [D] */
    kmf_real *wv, *bv;       /* [D, D], [D] */
    kmf_real *wo, *bo;       /* [D, D], [D]   attention output                      */
    kmf_real *ln1_w, *ln1_b; /* [D]           norm after attention, or before it    */
    kmf_real *w1, *b1;       /* [F, D], [F]   feed-forward, in; 2F if it is gated   */
    kmf_real *w2, *b2;       /* [D, F], [D]   feed-forward, out                     */
    kmf_real *ln2_w, *ln2_b; /* [D]           norm after the feed-forward, or before */
} kmf_layer;

typedef struct kmf_params {
    kmf_real *word;            /* [V, E] */
    kmf_real *type;            /* [type_vocab_size, E]; row 0 is used */
    kmf_real *position;        /* [position_offset + max_positions, E] */
    kmf_real *ln_w, *ln_b;     /* [E]    norm of the embedding */
    kmf_real *proj_w, *proj_b; /* [D, E], [D]; NULL when E = D */
    kmf_layer *layers;         /* [L]    owned by the model */
    kmf_real *last_w, *last_b; /* [D]    norm after the last layer */
    kmf_real *pool_w, *pool_b; /* [D, D], [D]  pooler */
    kmf_real *head_w, *head_b; /* [E, D], [E]  masked-LM head; NULL if the model has none */
    kmf_real *head_ln_w, *head_ln_b; /* [E] */
    kmf_real *decoder;               /* [V, E]; NULL: it is `word` */
    kmf_real *head_bias;             /* [V] */
    kmf_real *comp_word;             /* [V, C]  the composition's; all NULL if C is 0 */
    kmf_real *comp_ln_w, *comp_ln_b; /* [C] */
    kmf_real *comp_w1, *comp_b1;     /* [4C, C], [4C] */
    kmf_real *comp_w2, *comp_b2;     /* [C, 4C], [C] */
} kmf_params;

#endif
