/* SPDX-License-Identifier: MIT */
/*
 * Which tensors a model of some config has, and where each lies when all are in one slab, as
 * parameters, gradients and moments of a training are.
 *
 * A slot is one tensor: a row of the family's table, once or per layer, with its name written out
 * and its shape in numbers.
 */
#ifndef KMF_LAYOUT_H
#define KMF_LAYOUT_H

#include "model/families/family.h"

#include <stdbool.h>

#define KMF_SLOT_NAME 128

typedef struct kmf_slot {
    char *name; /* owned */
    const kmf_tensor_row *row;
    size_t layer;
    size_t shape[2];
    int rank;
    size_t n;     /* elements */
    size_t begin; /* in a slab; a multiple of 16 */
} kmf_slot;

typedef struct kmf_slots {
    const kmf_family *family;
    kmf_slot *slot; /* owned [n], by name */
    size_t n;
    size_t cap;
    size_t total; /* elements of a slab; those between two tensors belong to none */
} kmf_slots;

/* config is good (kmf_config_check). On failure kmf_slots_free is still due. */
int kmf_slots_new(kmf_slots *slots, const kmf_config *config, bool has_head,
                  kmf_err *err) KMF_MUST_CHECK;
void kmf_slots_free(kmf_slots *slots);

/* The field of params that a slot stands for; params->layers must be there. */
kmf_real *kmf_slot_get(const kmf_params *params, const kmf_slot *slot);
void kmf_slot_set(kmf_params *params, const kmf_slot *slot, kmf_real *values);
/* What a tensor takes of a slab. */
size_t kmf_slot_room(const kmf_slot *slot);
/* Every field of params leads into the slab. */
void kmf_slots_point(const kmf_slots *slots, kmf_params *params, kmf_real *slab);

/* Of the composition what is behind its table, where config has one: weights, or gradients. */
kmf_composer kmf_composer_of(const kmf_params *params, const kmf_config *config);

#endif
