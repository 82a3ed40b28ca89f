/* SPDX-License-Identifier: MIT */
/* One step of the optimiser over all parameters in a slab (model/layout.h). */
#ifndef KMF_UPDATE_H
#define KMF_UPDATE_H

#include "kmerformer.h"
#include "model/layout.h"
#include "nn/adamw.h"

typedef struct kmf_update kmf_update;

/* What is learnt: the tensors of one part of a model, or of both. The others stay as they are. */
enum { KMF_LEARN_ENCODER = 1, KMF_LEARN_COMPOSITION = 2 };

/* slots, pool: borrowed. */
kmf_update *kmf_update_new(const kmf_slots *slots, int learn, kmf_pool *pool,
                           kmf_err *err) KMF_MUST_CHECK;
void kmf_update_free(kmf_update *update);
uint64_t kmf_update_bytes(const kmf_slots *slots);

/* g = 0. */
int kmf_update_clear(kmf_update *update, float *g, kmf_err *err) KMF_MUST_CHECK;
/* a += b. */
int kmf_update_add(kmf_update *update, float *a, const float *b, kmf_err *err) KMF_MUST_CHECK;
/* *norm: that of g. Its bits do not depend on threads. */
int kmf_update_norm(kmf_update *update, double *norm, const float *g,
                    kmf_err *err) KMF_MUST_CHECK;
/* The name of the first tensor of g that is not finite; NULL if all are. */
const char *kmf_update_broken(const kmf_update *update, const float *g);
/*
 * A step of AdamW with the gradient g. step->decay is applied to the matrices, as BERT has it:
 * biases and norms do not decay.
 */
int kmf_update_step(kmf_update *update, float *w, float *m, float *v, const float *g,
                    const kmf_adamw_step *step, kmf_err *err) KMF_MUST_CHECK;

#endif
