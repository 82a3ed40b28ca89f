/* SPDX-License-Identifier: MIT */
/*
 * What a model's tensors are in a file, and what is lost by their rounding.
 *
 * Slot -> field of kmf_params -> file. A matrix of 8 bits is two tensors: x, I8 [out, in], and
 * x.scale, F32 [out]. Whole numbers -127 .. 127 times their row's scale are the weights, as in
 * nn/panels.h, and so a model computes in int8 with the same panels whether it was stored so or
 * not.
 */
#include "model/weights.h"

#include "base/err.h"
#include "base/half.h"
#include "base/mem.h"
#include "model/layout.h"
#include "nn/panels.h"

#include <math.h>
#include <stdio.h>

#define SCALE_CAP (KMF_SLOT_NAME + sizeof KMF_SCALE_ENDING)
#define ROUND_BLOCK ((size_t)1024)

/* ---- dtypes ------------------------------------------------------------------------------ */

/*
 * How a tensor is stored in a file of dtype. Of 8 bits are the matrices of the encoder's products,
 * which --precision int8 would round so anyway; it leaves the head and the tables alone.
 */
static kmf_dtype stored_as(const kmf_slot *slot, kmf_dtype dtype)
{
    if (dtype != KMF_I8)
        return dtype;
    if (slot->rank == 1)
        return KMF_F32;
    bool product = slot->row->part >= KMF_PART_LAYER || slot->row->part == KMF_PART_PROJECT;
    return product ? KMF_I8 : KMF_BF16;
}

/* q and scale of a matrix w. */
static int quantise(int8_t *q, float *scale, const float *w, const kmf_slot *slot, kmf_err *err)
{
    size_t Din = slot->shape[1];
    for (size_t o = 0; o < slot->shape[0]; o++) {
        float sum = 0;
        scale[o] = kmf_int8_scale(w + o * Din, Din);
        if (!isfinite(127 * scale[o]))
            return kmf_fail(err, KMF_ENUMERIC, "tensor %s: row %zu is too large for I8",
                            slot->name, o);
        kmf_int8_round(q + o * Din, &sum, w + o * Din, scale[o], Din);
    }
    return 0;
}

/* x as it will be read. */
static float rounded(float x, kmf_dtype dtype)
{
    if (dtype == KMF_F16)
        return kmf_f16_to_f32(kmf_f16_from_f32(x));
    return dtype == KMF_BF16 ? kmf_bf16_to_f32(kmf_bf16_from_f32(x)) : x;
}

/* |stored - row| / |row| for the n numbers of a row. */
static double row_error(const float *row, size_t n, kmf_dtype dtype)
{
    int8_t q[ROUND_BLOCK];
    float scale = dtype == KMF_I8 ? kmf_int8_scale(row, n) : 0;
    float sum = 0;
    double off = 0;
    double all = 0;
    for (size_t i = 0; i < n; i++) {
        size_t j = i % ROUND_BLOCK;
        if (dtype == KMF_I8 && j == 0)
            kmf_int8_round(q, &sum, row + i, scale, kmf_min(n - i, ROUND_BLOCK));
        float stored = dtype == KMF_I8 ? (float)q[j] * scale : rounded(row[i], dtype);
        double d = (double)stored - (double)row[i];
        off += d * d;
        all += (double)row[i] * (double)row[i];
    }
    return all > 0 ? sqrt(off / all) : 0;
}

int kmf_dtype_check(kmf_dtype dtype, kmf_err *err)
{
    if ((unsigned)dtype < KMF_F64)
        return 0;
    return kmf_fail(err, KMF_EINVAL,
                    "weights are written as float32, float16, bfloat16 or int8");
}

int kmf_model_rounding(const kmf_model *model, kmf_dtype dtype, kmf_rounding *rounding,
                       kmf_err *err)
{
    kmf_slots slots = {0};
    *rounding = (kmf_rounding){0};
    int rc = kmf_dtype_check(dtype, err);
    if (rc == 0)
        rc = kmf_slots_new(&slots, &model->config, model->params.head_w != NULL, err);
    for (size_t i = 0; i < slots.n && rc == 0; i++) {
        const kmf_slot *slot = &slots.slot[i];
        const float *values = kmf_slot_get(&model->params, slot);
        size_t n_rows = slot->rank == 2 ? slot->shape[0] : 1;
        size_t width = slot->n / n_rows;
        for (size_t row = 0; row < n_rows; row++) {
            double error = row_error(values + row * width, width, stored_as(slot, dtype));
            if (error > rounding->error)
                *rounding = (kmf_rounding){error, i, row};
        }
    }
    kmf_slots_free(&slots);
    return rc;
}

/* ---- writing ----------------------------------------------------------------------------- */

/* The tensors of a file: a slot's, and behind it its scales if it is I8. */
struct list {
    kmf_stored *tensors; /* owned [2 slots.n at most] */
    const void **values; /* owned [n] */
    size_t n;
    char (*names)[SCALE_CAP]; /* owned [slots.n], of the scales */
    int8_t *q;                /* owned; the I8 tensors, one behind another */
    float *scales;            /* owned; likewise */
};

static void list_free(struct list *list)
{
    kmf_free(list->tensors);
    kmf_free(list->values);
    kmf_free(list->names);
    kmf_free(list->q);
    kmf_free(list->scales);
}

static int list_new(struct list *list, const kmf_slots *slots, kmf_dtype dtype, kmf_err *err)
{
    size_t n_q = 0;
    size_t n_scales = 0;
    for (size_t i = 0; i < slots->n; i++)
        if (stored_as(&slots->slot[i], dtype) == KMF_I8) {
            n_q += slots->slot[i].n;
            n_scales += slots->slot[i].shape[0];
        }
    list->tensors = kmf_calloc(2 * slots->n, sizeof *list->tensors, err);
    list->values = kmf_calloc(2 * slots->n, sizeof *list->values, err);
    list->names = kmf_calloc(slots->n, sizeof *list->names, err);
    list->q = kmf_malloc(n_q, sizeof *list->q, err);
    list->scales = kmf_malloc(n_scales, sizeof *list->scales, err);
    return list->tensors && list->values && list->names && list->q && list->scales ? 0
                                                                                   : KMF_ENOMEM;
}

static kmf_stored *add(struct list *list, const char *name, kmf_dtype dtype, const void *values)
{
    kmf_stored *t = &list->tensors[list->n];
    t->name = name;
    t->dtype = kmf_stored_name(dtype);
    list->values[list->n++] = values;
    return t;
}

static int list_slots(struct list *list, const kmf_model *model, const kmf_slots *slots,
                      kmf_dtype dtype, kmf_err *err)
{
    int8_t *q = list->q;
    float *scale = list->scales;
    for (size_t i = 0; i < slots->n; i++) {
        const kmf_slot *slot = &slots->slot[i];
        const float *w = kmf_slot_get(&model->params, slot);
        kmf_dtype as = stored_as(slot, dtype);
        kmf_stored *t = add(list, slot->name, as, as == KMF_I8 ? (const void *)q : w);
        t->rank = slot->rank;
        t->shape[0] = slot->shape[0];
        t->shape[1] = slot->shape[1];
        if (as != KMF_I8)
            continue;
        int rc = quantise(q, scale, w, slot, err);
        if (rc < 0)
            return rc;
        snprintf(list->names[i], SCALE_CAP, "%s" KMF_SCALE_ENDING, slot->name);
        t = add(list, list->names[i], KMF_F32, scale);
        t->rank = 1;
        t->shape[0] = slot->shape[0];
        q += slot->n;
        scale += slot->shape[0];
    }
    return 0;
}

int kmf_weights_write(const kmf_model *model, kmf_out *out, kmf_dtype dtype,
                      const char *const *pairs, size_t n_pairs, kmf_err *err)
{
    kmf_slots slots = {0};
    struct list list = {0};
    int rc = kmf_slots_new(&slots, &model->config, model->params.head_w != NULL, err);
    if (rc == 0)
        rc = list_new(&list, &slots, dtype, err);
    if (rc == 0)
        rc = list_slots(&list, model, &slots, dtype, err);
    if (rc == 0)
        rc = kmf_safetensors_write(out, list.tensors, list.values, list.n, pairs, n_pairs, err);
    list_free(&list);
    kmf_slots_free(&slots);
    return rc;
}
