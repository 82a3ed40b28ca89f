/* SPDX-License-Identifier: MIT */
/*
 * The weights of a model as loops over its family's table: drawn new, bound to the bytes of a
 * safetensors file, written. Each works on a kmf_model whose config is set and good.
 */
#ifndef KMF_WEIGHTS_H
#define KMF_WEIGHTS_H

#include "model/model.h"

/*
 * Fills params, slab, tensors and n_parameters from the len bytes of a safetensors file, which
 * must outlive the model: aligned float32 tensors are used where they lie. KMF_EMODEL names the
 * tensor that is missing, unknown, of another shape, or not finite; or has 8 bits and no good
 * scales. name is the file's. On failure kmf_weights_free is still due.
 *
 * Names may lack the family's prefix, and norms be called gamma and beta. Left aside: the table
 * of sines (its shape is checked), a decoder equal to the word table and head bias,
 * position_ids, pooler and cls.seq_relationship.
 */
int kmf_weights_bind(kmf_model *model, const unsigned char *bytes, size_t len, const char *name,
                     kmf_err *err) KMF_MUST_CHECK;

/*
 * New weights, with a head. Tensor i of the table in layer l draws from stream i + 2^16 (l + 1)
 * of seed (i, if it is in no layer), so that a weight depends on nothing but its place.
 */
int kmf_weights_new(kmf_model *model, uint64_t seed, kmf_err *err) KMF_MUST_CHECK;

/*
 * Copies the weights of a model that is bound to a slab of its own and draws a head as above if it
 * has none.
 */
int kmf_weights_own(kmf_model *model, uint64_t seed, kmf_err *err) KMF_MUST_CHECK;

/* The safetensors file, tensors by name. */
int kmf_weights_write(const kmf_model *model, kmf_out *out, kmf_dtype dtype,
                      kmf_err *err) KMF_MUST_CHECK;

void kmf_weights_free(kmf_model *model);

#endif
