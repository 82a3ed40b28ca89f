/* SPDX-License-Identifier: MIT */
/*
 * A family of published models as data: which tensor of the file is which field of kmf_params,
 * with its shape in symbols and how a new one is drawn.
 *
 * Full names are prefix + name, in layers prefix + layer_prefix + number + "." + name; names
 * that begin with "cls." have no prefix. A table names every tensor once per layer, so the same
 * rows serve a model of any depth.
 */
#ifndef KMF_FAMILY_H
#define KMF_FAMILY_H

#include "kmerformer.h"
#include "model/params.h"

/* See ops.h; KMF_DIM_NONE as the second one: a vector. */
typedef enum kmf_dim {
    KMF_DIM_NONE,
    KMF_DIM_V,
    KMF_DIM_E,
    KMF_DIM_D,
    KMF_DIM_F,
    KMF_DIM_TYPES
} kmf_dim;

typedef enum kmf_init {
    KMF_INIT_NORMAL, /* standard deviation 0.02 */
    KMF_INIT_ZERO,
    KMF_INIT_ONE
} kmf_init;

typedef enum kmf_part {
    KMF_PART_BODY,    /* in every model                          */
    KMF_PART_LAYER,   /* in every layer; field is in kmf_layer   */
    KMF_PART_PROJECT, /* if E != D                               */
    KMF_PART_HEAD     /* the masked-LM head: all of it or nothing */
} kmf_part;

typedef struct kmf_tensor_row {
    const char *name;
    size_t field; /* offset of a kmf_real * in kmf_params or kmf_layer */
    kmf_part part;
    kmf_dim shape[2];
    kmf_init init;
} kmf_tensor_row;

typedef struct kmf_family {
    const char *model_type; /* in config.json */
    const char *prefix;
    const char *layer_prefix;
    const char *positions; /* a stored table of sines [max_positions, D / H]; not needed */
    const kmf_tensor_row *rows;
    size_t n_rows;
} kmf_family;

/* NULL if there is none of this model_type. */
const kmf_family *kmf_family_find(const char *model_type);

/* RoFormer, the native family. */
const kmf_family *kmf_family_roformer(void);

#endif
