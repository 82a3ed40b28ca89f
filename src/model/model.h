/* SPDX-License-Identifier: MIT */
/* A loaded or new model: what it is, what it knows, and its weights. */
#ifndef KMF_MODEL_H
#define KMF_MODEL_H

#include "model/packed.h"
#include "model/params.h"
#include "model/tensorfiles.h"

#include <stdbool.h>

#define KMF_KEPT 2

struct kmf_model {
    kmf_config config;
    kmf_params params;
    kmf_vocab *vocab;         /* owned */
    char *path;               /* owned; "" if it was not loaded */
    char *provenance;         /* owned JSON text; "" if none */
    char *original;           /* owned; config.json as it was read; "": written anew */
    char *kept[KMF_KEPT];     /* owned; other files of the tokenizer, NULL: not there */
    kmf_tensors stored;       /* the files; weights used in place */
    float *slab;              /* owned; weights that had to be converted, or new ones */
    kmf_tensor_info *tensors; /* owned [n_tensors], names owned too */
    size_t n_tensors;
    size_t n_unused; /* tensors of the files that the encoder has no use for */
    uint64_t n_parameters;

    kmf_packed *packed; /* owned; for the encoder */
};

/* Is it of the family that is made and trained here, the RoFormer? */
bool kmf_model_is_native(const kmf_model *model);

/*
 * For training: as kmf_model_new and kmf_model_load, but for no encoder: with all weights in the
 * model's slab, by the layout of all slots (layout.h), where they may be
 * changed. A loaded model without a head gets a new one, and without a composition one of so many
 * numbers, if they are not 0: *new_head and *new_composition say so.
 */
kmf_model *kmf_model_draw(const kmf_config *config, uint64_t seed, kmf_err *err) KMF_MUST_CHECK;
kmf_model *kmf_model_load_own(const char *dir, uint64_t seed, size_t composition,
                              bool *new_head, bool *new_composition,
                              kmf_err *err) KMF_MUST_CHECK;

/*
 * Writes the files of a model directory into dir, which is made if it is not there. They take the
 * places of those before one by one, once all are written: a failure to write leaves the model that
 * was there, and only a crash between two renames files of both. Other files in dir stay.
 */
int kmf_model_update(const kmf_model *model, const char *dir, kmf_dtype dtype,
                     const char *provenance, kmf_err *err) KMF_MUST_CHECK;

#endif
