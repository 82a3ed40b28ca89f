/* SPDX-License-Identifier: MIT */
/*
 * Both jobs make the same list of slots (layout.h), sorted by name, and go through it; so does
 * weights_write.c.
 *
 *   bind    slot -> entry of the file -> pointer into the map, or a converted copy in the slab
 *   new     slot -> stream of random numbers -> slab
 *
 * The slab holds only what cannot be used in place: everything of a new model, tensors of any other
 * type than float32, and float32 ones that a file puts at odd addresses.
 *
 * What a matrix of 8 bits looks like in a file stands in weights_write.c.
 *
 * Cost of binding: one pass over the weights, to see that all are finite. It is also the pass
 * that brings the file into memory.
 */
#include "model/weights.h"

#include "base/err.h"
#include "base/le.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/rng.h"
#include "model/layout.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NAME_CAP KMF_SLOT_NAME
#define STREAMS_PER_LAYER ((uint64_t)1 << 16)
#define FINITE_BLOCK ((size_t)4096)
#define INIT_STD 0.02f
#define FREQUENCY_ERROR 4e-3 /* relative; bfloat16 has half of it */
#define SINE_ERROR 4e-3      /* likewise */

/* ---- the list of tensors ----------------------------------------------------------------- */

/* Hands the slots' names over to the model's list. */
static int list_tensors(kmf_model *model, kmf_slots *slots, kmf_err *err)
{
    model->tensors = kmf_calloc(slots->n, sizeof *model->tensors, err);
    if (!model->tensors)
        return KMF_ENOMEM;
    for (size_t i = 0; i < slots->n; i++) {
        kmf_slot *slot = &slots->slot[i];
        model->tensors[i] = (kmf_tensor_info){
            .name = slot->name,
            .shape = {slot->shape[0], slot->shape[1]},
            .rank = slot->rank,
            .dtype = KMF_F32,
        };
        model->n_parameters += slot->n;
        slot->name = NULL;
    }
    model->n_tensors = slots->n;
    return 0;
}

static int layers_new(kmf_model *model, kmf_err *err)
{
    model->params.layers = kmf_calloc(model->config.n_layers, sizeof(kmf_layer), err);
    return model->params.layers ? 0 : KMF_ENOMEM;
}

static void unlist_tensors(kmf_model *model)
{
    for (size_t i = 0; i < model->n_tensors; i++)
        kmf_free((void *)(uintptr_t)model->tensors[i].name);
    kmf_free(model->tensors);
    model->tensors = NULL;
    model->n_tensors = 0;
    model->n_parameters = 0;
}

void kmf_weights_free(kmf_model *model)
{
    unlist_tensors(model);
    kmf_free(model->params.layers);
    kmf_free(model->slab);
    model->params = (kmf_params){0};
    model->slab = NULL;
}

/* ---- binding ----------------------------------------------------------------------------- */

/* Where a slot's values are in the files. */
struct place {
    const kmf_stored *tensor;
    const kmf_stored *scale; /* NULL unless it is I8 */
};

/* The tensors being bound. */
struct source {
    const kmf_tensors *stored;
    unsigned char *used; /* owned [stored->n] */
    struct place *found; /* owned [slots.n] */
};

static bool begins_with(const char *s, const char *begin)
{
    return strncmp(s, begin, strlen(begin)) == 0;
}

/* Endings of names, and what else is written for them. */
static const char *const other_endings[][2] = {
    {"LayerNorm.weight", "LayerNorm.gamma"},
    {"LayerNorm.bias", "LayerNorm.beta"},
    {"cls.predictions.bias", "cls.predictions.decoder.bias"},
    {"cls.predictions.decoder.bias", "cls.predictions.bias"},
};

/* name as another file would have it; false if there is one way only. */
static bool other_name(char other[NAME_CAP], const char *name)
{
    for (size_t i = 0; i < sizeof other_endings / sizeof other_endings[0]; i++)
        if (kmf_ends_with(name, other_endings[i][0])) {
            size_t stem = strlen(name) - strlen(other_endings[i][0]);
            snprintf(other, NAME_CAP, "%.*s%s", (int)stem, name, other_endings[i][1]);
            return true;
        }
    return false;
}

/* A slot's tensor, under its name or the other one, with the prefix or without. */
static const kmf_stored *find_slot(const kmf_tensors *stored, const char *prefix,
                                   const char *name)
{
    char other[NAME_CAP];
    size_t skip = begins_with(name, prefix) ? strlen(prefix) : 0;
    const kmf_stored *t = kmf_tensors_find(stored, name);
    if (!t)
        t = kmf_tensors_find(stored, name + skip);
    if (!t && other_name(other, name)) {
        t = kmf_tensors_find(stored, other);
        if (!t)
            t = kmf_tensors_find(stored, other + skip);
    }
    return t;
}

static bool has_head(const kmf_tensors *stored, const kmf_family *family)
{
    for (size_t i = 0; i < family->n_rows; i++)
        if (family->rows[i].part == KMF_PART_HEAD &&
            find_slot(stored, family->prefix, family->rows[i].name))
            return true;
    return false;
}

/* "dir/model.safetensors: tensor x: what" */
static int fail_tensor(const struct source *source, const kmf_stored *t, kmf_err *err,
                       const char *what)
{
    char shown[KMF_ERR_SHOW];
    return kmf_fail(err, KMF_EMODEL, "%s: tensor %s: %s", kmf_tensors_file(source->stored, t),
                    kmf_err_show(shown, t->name), what);
}

/* The scales of an I8 tensor. */
static int find_scale(struct source *source, const kmf_slot *slot, struct place *place,
                      kmf_err *err)
{
    char name[NAME_CAP + sizeof KMF_SCALE_ENDING];
    const char *file = kmf_tensors_file(source->stored, place->tensor);
    snprintf(name, sizeof name, "%s" KMF_SCALE_ENDING, place->tensor->name);
    const kmf_stored *t = kmf_tensors_find(source->stored, name);
    if (!t)
        return kmf_fail(err, KMF_EMODEL, "%s: tensor %s is missing, %s is I8", file, name,
                        place->tensor->name);
    if (kmf_stored_dtype(t) != KMF_F32 || t->rank != 1 || t->shape[0] != slot->shape[0])
        return kmf_fail(err, KMF_EMODEL, "%s: tensor %s: must be F32 of shape %zu", file, name,
                        slot->shape[0]);
    for (size_t o = 0; o < t->n; o++) {
        float scale;
        kmf_stored_to_f32(&scale, t->values + o * t->item_bytes, KMF_F32, 1);
        if (!isfinite(scale) || scale < 0)
            return kmf_fail(err, KMF_EMODEL,
                            "%s: tensor %s: scale %zu is %g, must be 0 or more", file, name, o,
                            (double)scale);
    }
    place->scale = t;
    source->used[t - source->stored->list] = 1;
    return 0;
}

static int find_tensor(struct source *source, const char *path, const kmf_slots *slots,
                       size_t i, kmf_err *err)
{
    const kmf_slot *slot = &slots->slot[i];
    const kmf_stored *t = find_slot(source->stored, slots->family->prefix, slot->name);
    bool head = slot->row->part == KMF_PART_HEAD;
    if (!t)
        return kmf_fail(err, KMF_EMODEL, "%s: tensor %s is missing%s", path, slot->name,
                        head ? ", the other tensors of the masked-LM head are there" : "");
    bool fits = t->rank == slot->rank;
    for (int d = 0; fits && d < slot->rank; d++)
        fits = t->shape[d] == slot->shape[d];
    if (!fits) {
        char want[64];
        char got[256] = "";
        size_t len = 0;
        if (slot->rank == 2)
            snprintf(want, sizeof want, "%zu x %zu", slot->shape[0], slot->shape[1]);
        else
            snprintf(want, sizeof want, "%zu", slot->shape[0]);
        for (int d = 0; d < t->rank; d++)
            len += (size_t)snprintf(got + len, sizeof got - len, "%s%zu", d ? " x " : "",
                                    t->shape[d]);
        return kmf_fail(err, KMF_EMODEL, "%s: tensor %s: its shape is %s, config.json wants %s",
                        kmf_tensors_file(source->stored, t), slot->name,
                        t->rank ? got : "a single number", want);
    }
    int dtype = kmf_stored_dtype(t);
    if (dtype < 0 || (dtype == KMF_I8 && slot->rank != 2))
        return kmf_fail(
            err, KMF_EMODEL, "%s: tensor %s: %s are F32, F16, BF16%s or F64, not %s",
            kmf_tensors_file(source->stored, t), slot->name,
            slot->rank == 2 ? "matrices" : "vectors", slot->rank == 2 ? ", I8" : "", t->dtype);
    source->found[i].tensor = t;
    source->used[t - source->stored->list] = 1;
    return dtype == KMF_I8 ? find_scale(source, slot, &source->found[i], err) : 0;
}

/* A decoder in the file must be the tensor that it is tied to, byte for byte. */
static int check_tied(const struct source *source, const kmf_stored *t, const kmf_stored *to,
                      kmf_err *err)
{
    bool same = to && t->dtype == to->dtype && t->bytes == to->bytes &&
                (t->bytes == 0 || memcmp(t->values, to->values, t->bytes) == 0);
    kmf_tensors_give_back(source->stored, t->values, t->bytes);
    if (same)
        return 0;
    return fail_tensor(source, t, err,
                       "differs from the table of tokens or the bias that it is tied to");
}

/* Is number i of a tensor of floats this one, but for an error? */
static bool is_near(const kmf_stored *t, size_t i, double right, double error)
{
    float stored;
    kmf_stored_to_f32(&stored, t->values + i * t->item_bytes, (kmf_dtype)kmf_stored_dtype(t),
                      1);
    return fabs((double)stored - right) <= error;
}

/* The frequencies that are stored must be those that are computed here, where these are. */
static int check_frequencies(const struct source *source, const kmf_config *config,
                             const kmf_stored *t, kmf_err *err)
{
    size_t r = kmf_config_rotary_size(config);
    if (r == 0)
        return fail_tensor(
            source, t, err,
            "holds frequencies of rotation, and config.json has other positions");
    bool fits = kmf_stored_dtype(t) >= 0 && t->n == r / 2;
    for (size_t i = 0; fits && i < t->n; i++) {
        double right = pow(config->rotary_base, -2.0 * (double)i / (double)r);
        fits = is_near(t, i, right, FREQUENCY_ERROR * right);
    }
    return fits ? 0
                : fail_tensor(source, t, err,
                              "holds other frequencies of rotation than those of config.json");
}

/* A table of rows [K/2 sines, K/2 cosines] for all positions must be what is computed here. */
static int check_sines(const struct source *source, const kmf_config *config,
                       const kmf_stored *t, kmf_err *err)
{
    char text[128];
    size_t K = config->hidden_size / config->n_heads;
    size_t half = K / 2;
    if (t->rank != 2 || t->shape[0] != config->max_positions || t->shape[1] != K) {
        snprintf(text, sizeof text, "must be max_position_embeddings %zu x head size %zu",
                 config->max_positions, K);
        return fail_tensor(source, t, err, text);
    }
    bool fits = kmf_stored_dtype(t) >= 0;
    for (size_t i = 0; fits && i < half; i++) {
        double frequency = pow(config->rotary_base, -2.0 * (double)i / (double)K);
        for (size_t row = 0; fits && row < t->shape[0]; row++) {
            double angle = (double)row * frequency;
            fits = is_near(t, row * K + i, sin(angle), SINE_ERROR) &&
                   is_near(t, row * K + half + i, cos(angle), SINE_ERROR);
        }
    }
    kmf_tensors_give_back(source->stored, t->values, t->bytes);
    return fits ? 0
                : fail_tensor(source, t, err,
                              "holds others than the sines and cosines of rotary positions");
}

/*
 * A tensor for which there is no slot. Fails if what it holds would have changed the results.
 */
static int check_extra(const struct source *source, const kmf_family *family,
                       const kmf_config *config, const kmf_stored *t, kmf_err *err)
{
    static const char *const aside[] = {"pooler.", "contact_head.", "cls.seq_relationship.",
                                        "classifier."};
    size_t skip = begins_with(t->name, family->prefix) ? strlen(family->prefix) : 0;
    const char *name = t->name + skip;
    if (config->positions == KMF_POSITIONS_ROTARY &&
        strcmp(name, "encoder.embed_positions.weight") == 0)
        return check_sines(source, config, t, err);
    if (kmf_ends_with(name, "decoder.weight"))
        return check_tied(
            source, t,
            kmf_family_find(family, source->stored, "embeddings.word_embeddings.weight"), err);
    if (strcmp(name, "cls.predictions.decoder.bias") == 0)
        return check_tied(source, t, kmf_tensors_find(source->stored, "cls.predictions.bias"),
                          err);
    if (strcmp(name, "cls.predictions.bias") == 0)
        return check_tied(
            source, t, kmf_tensors_find(source->stored, "cls.predictions.decoder.bias"), err);
    if (family->unused && strcmp(name, family->unused) == 0)
        return 0;
    if (kmf_ends_with(name, ".inv_freq"))
        return check_frequencies(source, config, t, err);
    for (size_t i = 0; i < sizeof aside / sizeof aside[0]; i++)
        if (begins_with(name, aside[i]))
            return 0;
    if (kmf_ends_with(name, "position_ids"))
        return 0;
    return fail_tensor(source, t, err, "has no place in this model");
}

static bool in_place(const kmf_stored *t)
{
    return KMF_LITTLE_ENDIAN && kmf_stored_dtype(t) == KMF_F32 &&
           (uintptr_t)t->values % _Alignof(float) == 0;
}

/* A float is not finite when all exponent bits are set; integers keep the loop branch-free. */
static bool all_finite(const float *values, size_t n)
{
    uint32_t bits[FINITE_BLOCK];
    for (size_t i = 0; i < n; i += FINITE_BLOCK) {
        size_t m = kmf_min(n - i, FINITE_BLOCK);
        uint32_t bad = 0;
        memcpy(bits, values + i, m * sizeof *bits);
        for (size_t j = 0; j < m; j++)
            bad |= (bits[j] & 0x7f800000u) == 0x7f800000u;
        if (bad)
            return false;
    }
    return true;
}

/* values [n] of a tensor's numbers. */
static void convert(float *values, const struct place *place)
{
    const kmf_stored *t = place->tensor;
    kmf_stored_to_f32(values, t->values, (kmf_dtype)kmf_stored_dtype(t), t->n);
    for (size_t o = 0; place->scale && o < t->shape[0]; o++) {
        float scale;
        kmf_stored_to_f32(&scale, place->scale->values + o * sizeof scale, KMF_F32, 1);
        for (size_t i = 0; i < t->shape[1]; i++)
            values[o * t->shape[1] + i] *= scale;
    }
}

/*
 * What is used where it lies is read to see that it is finite, and its pages are given back: it
 * comes to memory again when it is packed, and then not at once with all others.
 */
static int bind_values(kmf_model *model, const struct source *source, const kmf_slots *slots,
                       kmf_err *err)
{
    size_t room = 0;
    for (size_t i = 0; i < slots->n; i++)
        if (!in_place(source->found[i].tensor))
            room += kmf_slot_room(&slots->slot[i]);
    if (room > 0) {
        model->slab = kmf_floats(room, err);
        if (!model->slab)
            return KMF_ENOMEM;
    }
    float *next = model->slab;
    for (size_t i = 0; i < slots->n; i++) {
        const kmf_slot *slot = &slots->slot[i];
        const kmf_stored *t = source->found[i].tensor;
        float *values = (void *)(uintptr_t)t->values;
        if (!in_place(t)) {
            convert(next, &source->found[i]);
            values = next;
            next += kmf_slot_room(slot);
        }
        if (!all_finite(values, slot->n))
            return fail_tensor(source, t, err,
                               kmf_stored_dtype(t) == KMF_F64
                                   ? "holds a value that is not finite as float32"
                                   : "holds a value that is not finite");
        kmf_tensors_give_back(source->stored, t->values, t->bytes);
        kmf_slot_set(&model->params, slot, values);
    }
    return 0;
}

int kmf_weights_bind(kmf_model *model, kmf_err *err)
{
    struct source source = {.stored = &model->stored};
    kmf_slots slots = {0};
    const kmf_family *family = kmf_family_named(model->config.family);
    int rc = kmf_slots_new(&slots, &model->config, has_head(source.stored, family), err);
    if (rc < 0)
        goto out;
    rc = KMF_ENOMEM;
    source.used = kmf_calloc(source.stored->n, 1, err);
    if (!source.used)
        goto out;
    source.found = kmf_calloc(slots.n, sizeof *source.found, err);
    if (!source.found || layers_new(model, err) < 0)
        goto out;
    rc = 0;
    for (size_t i = 0; i < slots.n && rc == 0; i++)
        rc = find_tensor(&source, model->path, &slots, i, err);
    for (size_t i = 0; i < source.stored->n && rc == 0; i++)
        if (!source.used[i]) {
            rc = check_extra(&source, family, &model->config, &source.stored->list[i], err);
            model->n_unused++;
        }
    if (rc == 0)
        rc = bind_values(model, &source, &slots, err);
    if (rc == 0)
        rc = list_tensors(model, &slots, err);
    for (size_t i = 0; i < model->n_tensors && rc == 0; i++)
        model->tensors[i].dtype = (kmf_dtype)kmf_stored_dtype(source.found[i].tensor);
out:
    kmf_free(source.used);
    kmf_free(source.found);
    kmf_slots_free(&slots);
    return rc;
}

/* ---- new --------------------------------------------------------------------------------- */

static void draw(float *values, const kmf_slot *slot, uint64_t seed, const kmf_family *family)
{
    uint64_t stream = (uint64_t)(slot->row - family->rows);
    if (slot->row->part >= KMF_PART_LAYER)
        stream += STREAMS_PER_LAYER * (slot->layer + 1);
    kmf_rng rng = kmf_rng_stream(seed, stream);
    for (size_t i = 0; i < slot->n; i++) {
        if (slot->row->init == KMF_INIT_NORMAL)
            values[i] = kmf_rng_normal(&rng) * INIT_STD;
        else
            values[i] = slot->row->init == KMF_INIT_ONE ? 1.0f : 0.0f;
    }
}

/* A slab for all slots, with what params leads to now, or drawn where that is nothing. */
static int make_slab(kmf_model *model, const kmf_slots *slots, uint64_t seed, kmf_err *err)
{
    float *slab = kmf_large_zeroed(slots->total, sizeof *slab, err);
    if (!slab)
        return KMF_ENOMEM;
    for (size_t i = 0; i < slots->n; i++) {
        const kmf_slot *slot = &slots->slot[i];
        const float *values = kmf_slot_get(&model->params, slot);
        if (values)
            memcpy(slab + slot->begin, values, slot->n * sizeof *slab);
        else
            draw(slab + slot->begin, slot, seed, slots->family);
    }
    kmf_free(model->slab);
    model->slab = slab;
    kmf_slots_point(slots, &model->params, slab);
    return 0;
}

int kmf_weights_own(kmf_model *model, uint64_t seed, kmf_err *err)
{
    kmf_slots slots = {0};
    int rc = kmf_slots_new(&slots, &model->config, true, err);
    if (rc == 0 && !model->params.layers)
        rc = layers_new(model, err);
    if (rc == 0)
        rc = make_slab(model, &slots, seed, err);
    if (rc == 0) {
        unlist_tensors(model);
        rc = list_tensors(model, &slots, err);
    }
    kmf_slots_free(&slots);
    return rc;
}
