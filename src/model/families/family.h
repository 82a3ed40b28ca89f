/* SPDX-License-Identifier: MIT */
/*
 * A family of published models as data: which tensor of the file is which field of kmf_params,
 * with its shape in symbols and how a new one is drawn; and how its config.json is read. What the
 * encoder does follows from kmf_config alone.
 *
 * Full names are prefix + name, in layers prefix + "encoder.layer." + number + "." + name; those
 * of the head and of the composition have no prefix. A table names every tensor once per layer,
 * so the same rows serve a model of any depth. Rows whose part the config does not have are
 * passed over.
 */
#ifndef KMF_FAMILY_H
#define KMF_FAMILY_H

#include "kmerformer.h"
#include "model/params.h"
#include "model/tensorfiles.h"

#include <jansson.h>
#include <stdbool.h>

/* See ops.h; KMF_DIM_NONE as the second one: a vector. */
typedef enum kmf_dim {
    KMF_DIM_NONE,
    KMF_DIM_V,
    KMF_DIM_E,
    KMF_DIM_D,
    KMF_DIM_QKV, /* 3D: the field is the query's, those of key and value lie behind it */
    KMF_DIM_F,
    KMF_DIM_F_IN, /* 2F if the feed-forward is gated, else F */
    KMF_DIM_C,
    KMF_DIM_C_HIDDEN, /* 4C */
    KMF_DIM_TYPES,
    KMF_DIM_POSITIONS
} kmf_dim;

typedef enum kmf_init {
    KMF_INIT_NORMAL, /* standard deviation 0.02 */
    KMF_INIT_ZERO,
    KMF_INIT_ONE
} kmf_init;

typedef enum kmf_part {
    KMF_PART_BODY,        /* in every model                           */
    KMF_PART_TYPE,        /* if type_vocab_size > 0                   */
    KMF_PART_POSITION,    /* if positions are LEARNED                 */
    KMF_PART_NORM,        /* if embedding_norm                        */
    KMF_PART_PROJECT,     /* if E != D                                */
    KMF_PART_CLOSING,     /* if closing_norm                          */
    KMF_PART_POOLER,      /* if pooler                                */
    KMF_PART_HEAD,        /* the masked-LM head: all of it or nothing */
    KMF_PART_DECODER,     /* of the head: if own_decoder              */
    KMF_PART_COMPOSITION, /* if composition > 0                       */
    KMF_PART_LAYER,       /* in every layer, as those below; field is in kmf_layer */
    KMF_PART_NORM_BEFORE, /* if pre_norm  */
    KMF_PART_NORM_AFTER,  /* if not       */
    KMF_PART_BIAS_IN,     /* if bias_in   */
    KMF_PART_BIAS_OUT     /* if bias_out  */
} kmf_part;

typedef struct kmf_tensor_row {
    const char *name;
    size_t field; /* offset of a kmf_real * in kmf_params or kmf_layer */
    kmf_part part;
    kmf_dim shape[2];
    kmf_init init;
} kmf_tensor_row;

typedef struct kmf_family {
    const char *name;       /* kmf_config.family */
    const char *model_type; /* in config.json; NULL: none tells it */
    const char *marker;     /* a tensor, without prefix, that tells it; NULL: none does */
    const char *vocabulary; /* the file with its tokens */
    const char *prefix;
    const kmf_tensor_row *rows;
    size_t n_rows;
    const char *unused; /* a tensor that its files hold and no equation reads; NULL: none */
    /*
     * Fills in what the family's config.json says in its own way, and the family's defaults; on
     * entry everything that all have in common is read. where names the file.
     */
    int (*read)(kmf_config *config, const json_t *root, const kmf_tensors *stored,
                const char *where, kmf_err *err);
} kmf_family;

extern const kmf_family kmf_family_roformer; /* the native one */
extern const kmf_family kmf_family_dnabert;
extern const kmf_family kmf_family_nucleotide;
extern const kmf_family kmf_family_mosaic;
extern const kmf_family kmf_family_gena;

/*
 * The first family, in the order that tells them apart, whose model_type it is; of one without a
 * model_type, or where none is given, whose marker is among the tensors. NULL: none.
 * Either argument may be NULL.
 */
const kmf_family *kmf_family_detect(const char *model_type, const kmf_tensors *stored);
/* By kmf_config.family, which is one of theirs. */
const kmf_family *kmf_family_named(const char *name);
/* Name i of them, NULL after the last. */
const char *kmf_family_name(size_t i);

/* Has its table a row of this part? */
bool kmf_family_has(const kmf_family *family, kmf_part part);

/* A tensor by its name with the family's prefix, or without. */
const kmf_stored *kmf_family_find(const kmf_family *family, const kmf_tensors *stored,
                                  const char *name);

/* Sets what position_embedding_type says: absolute (the default): learned; rotary: in halves. */
int kmf_family_positions(kmf_config *config, const json_t *root, const char *where,
                         kmf_err *err) KMF_MUST_CHECK;

#endif
