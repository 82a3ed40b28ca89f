/* SPDX-License-Identifier: MIT */
#include "model/layout.h"

#include "base/mem.h"
#include "model/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLAB_REALS ((size_t)16)

static size_t side_of(const kmf_config *config, kmf_dim dim)
{
    switch (dim) {
    case KMF_DIM_V:
        return config->vocab_size;
    case KMF_DIM_E:
        return config->embedding_size;
    case KMF_DIM_D:
        return config->hidden_size;
    case KMF_DIM_QKV:
        return 3 * config->hidden_size;
    case KMF_DIM_F:
        return config->intermediate_size;
    case KMF_DIM_F_IN:
        return kmf_config_inner(config);
    case KMF_DIM_C:
        return config->composition;
    case KMF_DIM_C_HIDDEN:
        return KMF_COMPOSITION_HIDDEN * config->composition;
    case KMF_DIM_TYPES:
        return config->type_vocab_size;
    case KMF_DIM_POSITIONS:
        return config->position_offset + config->max_positions;
    case KMF_DIM_NONE:
        break;
    }
    return 1;
}

static bool in_layers(kmf_part part)
{
    return part >= KMF_PART_LAYER;
}

/* How many tensors a row stands for. */
static size_t times(const kmf_config *config, kmf_part part, bool has_head)
{
    size_t L = config->n_layers;
    switch (part) {
    case KMF_PART_BODY:
        return 1;
    case KMF_PART_TYPE:
        return config->type_vocab_size > 0;
    case KMF_PART_POSITION:
        return config->positions == KMF_POSITIONS_LEARNED;
    case KMF_PART_NORM:
        return config->embedding_norm != 0;
    case KMF_PART_PROJECT:
        return config->embedding_size != config->hidden_size;
    case KMF_PART_CLOSING:
        return config->closing_norm != 0;
    case KMF_PART_POOLER:
        return config->pooler != 0;
    case KMF_PART_HEAD:
        return has_head;
    case KMF_PART_DECODER:
        return has_head && config->own_decoder;
    case KMF_PART_COMPOSITION:
        return config->composition > 0;
    case KMF_PART_NORM_BEFORE:
        return config->pre_norm ? L : 0;
    case KMF_PART_NORM_AFTER:
        return config->pre_norm ? 0 : L;
    case KMF_PART_BIAS_IN:
        return config->bias_in ? L : 0;
    case KMF_PART_BIAS_OUT:
        return config->bias_out ? L : 0;
    case KMF_PART_LAYER:
        break;
    }
    return L;
}

uint64_t kmf_config_parameters(const kmf_config *config, int has_head)
{
    const kmf_family *family = kmf_family_named(config->family);
    uint64_t sum = 0;
    for (size_t i = 0; i < family->n_rows; i++) {
        const kmf_tensor_row *row = &family->rows[i];
        uint64_t n = times(config, row->part, has_head);
        for (int d = 0; d < 2; d++) {
            uint64_t side = side_of(config, row->shape[d]);
            if (side != 0 && n > KMF_PARAMETERS_MAX / side)
                return 0;
            n *= side;
        }
        sum += n;
        if (sum > KMF_PARAMETERS_MAX)
            return 0;
    }
    return sum;
}

static void write_name(char name[KMF_SLOT_NAME], const kmf_family *family,
                       const kmf_tensor_row *row, size_t layer)
{
    if (in_layers(row->part))
        snprintf(name, KMF_SLOT_NAME, "%sencoder.layer.%zu.%s", family->prefix, layer,
                 row->name);
    else if (row->part == KMF_PART_HEAD || row->part == KMF_PART_DECODER ||
             row->part == KMF_PART_COMPOSITION)
        snprintf(name, KMF_SLOT_NAME, "%s", row->name);
    else
        snprintf(name, KMF_SLOT_NAME, "%s%s", family->prefix, row->name);
}

static int add_slot(kmf_slots *slots, const kmf_config *config, const kmf_tensor_row *row,
                    size_t layer, kmf_err *err)
{
    char name[KMF_SLOT_NAME];
    if (kmf_grow(&slots->slot, &slots->cap, slots->n + 1, sizeof *slots->slot, err) < 0)
        return KMF_ENOMEM;
    write_name(name, slots->family, row, layer);
    kmf_slot slot = {
        .name = kmf_strdup(name, err),
        .row = row,
        .layer = layer,
        .shape = {side_of(config, row->shape[0]), side_of(config, row->shape[1])},
        .rank = row->shape[1] == KMF_DIM_NONE ? 1 : 2,
    };
    if (!slot.name)
        return KMF_ENOMEM;
    slot.n = slot.shape[0] * slot.shape[1];
    slots->slot[slots->n++] = slot;
    return 0;
}

static int by_name(const void *a, const void *b)
{
    const kmf_slot *x = a;
    const kmf_slot *y = b;
    return strcmp(x->name, y->name);
}

int kmf_slots_new(kmf_slots *slots, const kmf_config *config, bool has_head, kmf_err *err)
{
    *slots = (kmf_slots){.family = kmf_family_named(config->family)};
    for (size_t i = 0; i < slots->family->n_rows; i++) {
        const kmf_tensor_row *row = &slots->family->rows[i];
        size_t n = times(config, row->part, has_head);
        for (size_t layer = 0; layer < n; layer++)
            if (add_slot(slots, config, row, layer, err) < 0)
                return KMF_ENOMEM;
    }
    if (slots->n > 0)
        qsort(slots->slot, slots->n, sizeof *slots->slot, by_name);
    for (size_t i = 0; i < slots->n; i++) {
        slots->slot[i].begin = slots->total;
        slots->total += kmf_slot_room(&slots->slot[i]);
    }
    return 0;
}

void kmf_slots_free(kmf_slots *slots)
{
    for (size_t i = 0; i < slots->n; i++)
        kmf_free(slots->slot[i].name);
    kmf_free(slots->slot);
}

kmf_real *kmf_slot_get(const kmf_params *params, const kmf_slot *slot)
{
    kmf_real *values;
    const void *base = in_layers(slot->row->part) ? (const void *)&params->layers[slot->layer]
                                                  : (const void *)params;
    memcpy(&values, (const char *)base + slot->row->field, sizeof values);
    return values;
}

void kmf_slot_set(kmf_params *params, const kmf_slot *slot, kmf_real *values)
{
    void *base =
        in_layers(slot->row->part) ? (void *)&params->layers[slot->layer] : (void *)params;
    memcpy((char *)base + slot->row->field, &values, sizeof values);
    if (slot->row->shape[0] == KMF_DIM_QKV) { /* key and value lie behind the query */
        kmf_layer *layer = &params->layers[slot->layer];
        size_t third = slot->n / 3;
        bool bias = slot->rank == 1;
        *(bias ? &layer->bk : &layer->wk) = values + third;
        *(bias ? &layer->bv : &layer->wv) = values + 2 * third;
    }
}

size_t kmf_slot_room(const kmf_slot *slot)
{
    return kmf_round_up(slot->n, SLAB_REALS);
}

void kmf_slots_point(const kmf_slots *slots, kmf_params *params, kmf_real *slab)
{
    for (size_t i = 0; i < slots->n; i++)
        kmf_slot_set(params, &slots->slot[i], slab + slots->slot[i].begin);
}

kmf_composer kmf_composer_of(const kmf_params *params, const kmf_config *config)
{
    return (kmf_composer){.ln_w = params->comp_ln_w,
                          .ln_b = params->comp_ln_b,
                          .w1 = params->comp_w1,
                          .b1 = params->comp_b1,
                          .w2 = params->comp_w2,
                          .b2 = params->comp_b2,
                          .C = config->composition,
                          .eps = config->layer_norm_eps};
}
