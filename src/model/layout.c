/* SPDX-License-Identifier: MIT */
#include "model/layout.h"

#include "base/mem.h"

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
    case KMF_DIM_F:
        return config->intermediate_size;
    case KMF_DIM_TYPES:
        return config->type_vocab_size;
    case KMF_DIM_NONE:
        break;
    }
    return 1;
}

static void write_name(char name[KMF_SLOT_NAME], const kmf_family *family,
                       const kmf_tensor_row *row, size_t layer)
{
    if (row->part == KMF_PART_LAYER)
        snprintf(name, KMF_SLOT_NAME, "%s%s%zu.%s", family->prefix, family->layer_prefix, layer,
                 row->name);
    else if (row->part == KMF_PART_HEAD)
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
    *slots = (kmf_slots){.family = kmf_family_roformer()};
    for (size_t i = 0; i < slots->family->n_rows; i++) {
        const kmf_tensor_row *row = &slots->family->rows[i];
        size_t times = row->part == KMF_PART_LAYER ? config->n_layers : 1;
        if (row->part == KMF_PART_HEAD && !has_head)
            times = 0;
        if (row->part == KMF_PART_PROJECT && config->embedding_size == config->hidden_size)
            times = 0;
        for (size_t layer = 0; layer < times; layer++)
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
    const void *base = slot->row->part == KMF_PART_LAYER
                           ? (const void *)&params->layers[slot->layer]
                           : (const void *)params;
    memcpy(&values, (const char *)base + slot->row->field, sizeof values);
    return values;
}

void kmf_slot_set(kmf_params *params, const kmf_slot *slot, kmf_real *values)
{
    void *base = slot->row->part == KMF_PART_LAYER ? (void *)&params->layers[slot->layer]
                                                   : (void *)params;
    memcpy((char *)base + slot->row->field, &values, sizeof values);
}

size_t kmf_slot_room(const kmf_slot *slot)
{
    return (slot->n + SLAB_REALS - 1) / SLAB_REALS * SLAB_REALS;
}

void kmf_slots_point(const kmf_slots *slots, kmf_params *params, kmf_real *slab)
{
    for (size_t i = 0; i < slots->n; i++)
        kmf_slot_set(params, &slots->slot[i], slab + slots->slot[i].begin);
}
