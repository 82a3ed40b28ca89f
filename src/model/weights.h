/* SPDX-License-Identifier: MIT */
/*
 * The weights of a model as loops over its family's table: drawn new, bound to the bytes of a
 * safetensors file, written. Each works on a kmf_model whose config is set and good.
 */
#ifndef KMF_WEIGHTS_H
#define KMF_WEIGHTS_H

#include "model/model.h"

/* Of the tensor beside a matrix of 8 bits that has its rows' scales. */
#define KMF_SCALE_ENDING ".scale"

/*
 * Fills params, slab, tensors and n_parameters from the model's files: aligned float32 tensors are
 * used where they lie. KMF_EMODEL names the tensor that is missing, unknown, of another shape, or
 * not finite; or has 8 bits and no good scales. On failure kmf_weights_free is still due.
 *
 * Names may lack the family's prefix, and norms be called gamma and beta. Left aside, and counted
 * in n_unused: tables that are computed here (sines, frequencies), a decoder equal to the word
 * table and head bias, position_ids, learned positions that the config does not use, heads for
 * other ends.
 */
int kmf_weights_bind(kmf_model *model, kmf_err *err) KMF_MUST_CHECK;

/*
 * Weights in a slab of the model's own, with a head: copies of those that it is bound to, and drawn
 * what these have not, which of a new model is all. Tensor i of the family's table (the first is 0)
 * in layer l draws from stream i + 2^16 (l + 1) of seed (i, if it is in no layer), so that a weight
 * depends on nothing but its place: row by row, each is the next kmf_rng_normal times 0.02, floats.
 */
int kmf_weights_own(kmf_model *model, uint64_t seed, kmf_err *err) KMF_MUST_CHECK;

/*
 * The safetensors file, tensors by name, in any dtype but KMF_F64; pairs [2 n_pairs]: keys and
 * texts of its metadata.
 */
int kmf_weights_write(const kmf_model *model, kmf_out *out, kmf_dtype dtype,
                      const char *const *pairs, size_t n_pairs, kmf_err *err) KMF_MUST_CHECK;

/* KMF_EINVAL: weights are not written so. */
int kmf_dtype_check(kmf_dtype dtype, kmf_err *err) KMF_MUST_CHECK;

void kmf_weights_free(kmf_model *model);

#endif
