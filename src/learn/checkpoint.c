/* SPDX-License-Identifier: MIT */
#include "learn/checkpoint.h"

#include "base/cpu.h"
#include "base/crc.h"
#include "base/err.h"
#include "base/io.h"
#include "base/le.h"
#include "base/out.h"
#include "base/point.h"
#include "model/safetensors.h"
#include "nn/gemm.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define FORMAT_CAP 64
#define PAIRS (KMF_SAVED_SETTINGS + 3)
#define TENSORS (KMF_SAVED_ARRAYS + 1)
#define VERSION 2
#define REAL_DIGITS 17 /* by which any double is read back */

typedef char number_text[16];

static void format_of(const kmf_checkpoint *c, char format[FORMAT_CAP])
{
    snprintf(format, FORMAT_CAP, "kmerformer %s checkpoint %d", c->kind, VERSION);
}

/* What last digits are alike with: AVX2 and AVX-512 are one, those of tiles and of BLAS differ. */
static const char *kernels(void)
{
    const char *engine = kmf_gemm_name();
    kmf_cpu level = kmf_cpu_level();
    if (strncmp(engine, "plain", 5) != 0)
        return engine;
    if (level == KMF_CPU_AMX)
        return "tiles";
    return level >= KMF_CPU_AVX2 ? "vectors" : "baseline";
}

static void get_progress(const kmf_checkpoint *c, uint64_t *progress, const void *training)
{
    for (size_t i = 0; i < c->n_progress; i++)
        memcpy(&progress[i], (const char *)training + c->progress[i], sizeof *progress);
}

static void set_progress(const kmf_checkpoint *c, void *training, const uint64_t *progress)
{
    for (size_t i = 0; i < c->n_progress; i++)
        memcpy((char *)training + c->progress[i], &progress[i], sizeof *progress);
}

void kmf_setting_add(kmf_settings *settings, const char *name, const char *format, ...)
{
    assert(settings->n < KMF_SAVED_SETTINGS);
    kmf_setting *setting = &settings->list[settings->n++];
    va_list args;
    va_start(args, format);
    setting->name = name;
    kmf_vprint(setting->value, sizeof setting->value, format, args);
    va_end(args);
}

/* ---------------------------------------------------------------- writing --------------- */

int kmf_checkpoint_write(const kmf_checkpoint *checkpoint, const void *training,
                         const char *path, kmf_err *err)
{
    const kmf_checkpoint *c = checkpoint;
    kmf_stored tensors[TENSORS];
    const void *values[TENSORS];
    const char *pairs[2 * PAIRS];
    char format[FORMAT_CAP];
    uint64_t progress[KMF_SAVED_PROGRESS];
    number_text text;
    uint32_t sum = 0;
    size_t n = 0;
    assert(c->n_arrays <= KMF_SAVED_ARRAYS && c->n_settings <= KMF_SAVED_SETTINGS &&
           c->n_progress <= KMF_SAVED_PROGRESS);
    for (; n < c->n_arrays; n++) {
        const kmf_saved_array *a = &c->arrays[n];
        tensors[n] = (kmf_stored){
            .name = a->name, .dtype = "F32", .shape = {a->rows, a->width}, .rank = 2};
        values[n] = a->values;
        sum = kmf_crc32(sum, a->values, a->rows * a->width * sizeof *a->values);
    }
    tensors[n] =
        (kmf_stored){.name = "progress", .dtype = "U64", .shape = {c->n_progress}, .rank = 1};
    get_progress(c, progress, training);
    values[n++] = progress;
    sum = kmf_crc32(sum, progress, c->n_progress * sizeof *progress);

    size_t p = 0;
    format_of(c, format);
    pairs[p++] = "format";
    pairs[p++] = format;
    for (size_t i = 0; i < c->n_settings; i++) {
        pairs[p++] = c->settings[i].name;
        pairs[p++] = c->settings[i].value;
    }
    snprintf(text, sizeof text, "%08" PRIx32, sum);
    pairs[p++] = "kernels";
    pairs[p++] = kernels();
    pairs[p++] = "checksum";
    pairs[p++] = text;

    err = kmf_err_or(err, &(kmf_err){0});
    kmf_out *out = kmf_out_open_plain(path, err);
    int status = out ? 0 : (int)err->code;
    if (status == 0)
        status = kmf_safetensors_write(out, tensors, values, n, pairs, p / 2, err);
    return kmf_out_end(out, status, err);
}

/* ---------------------------------------------------------------- reading --------------- */

/*
 * A value as a user would write it, for a message; NULL: there is none. Real numbers have so many
 * digits in the file that they are read back as they were; the fewest that do are shown.
 */
static const char *shown_value(char shown[KMF_ERR_SHOW], const char *value)
{
    char *end = NULL;
    double x = value && strchr(value, '.') ? kmf_read_double(value, &end) : 0;
    if (!end || *end != '\0')
        return kmf_err_show(shown, value ? value : "not told");
    for (int digits = 1; digits <= REAL_DIGITS; digits++) {
        kmf_print(shown, KMF_ERR_SHOW, "%.*g", digits, x);
        if (kmf_read_double(shown, NULL) == x)
            break;
    }
    return shown;
}

static int check_settings(const kmf_checkpoint *c, const kmf_safetensors *st, const char *path,
                          kmf_err *err)
{
    char wanted[FORMAT_CAP];
    const char *format = kmf_safetensors_metadata(st, "format");
    format_of(c, wanted);
    if (!format || strcmp(format, wanted) != 0)
        return kmf_fail(err, KMF_EMODEL, "%s: no checkpoint of %s", path, c->kind);
    for (size_t i = 0; i < c->n_settings; i++) {
        const char *value = kmf_safetensors_metadata(st, c->settings[i].name);
        char was[KMF_ERR_SHOW];
        char is[KMF_ERR_SHOW];
        if (!value || strcmp(value, c->settings[i].value) != 0)
            return kmf_fail(err, KMF_EMODEL,
                            "%s: a checkpoint of another training: %s was %s, now it is %s",
                            path, c->settings[i].name, shown_value(was, value),
                            shown_value(is, c->settings[i].value));
    }
    return 0;
}

/* Tensor i of the checkpoint in the file; NULL if it is not there as it should be. */
static const kmf_stored *find(const kmf_checkpoint *c, const kmf_safetensors *st, size_t i)
{
    bool last = i == c->n_arrays;
    const kmf_stored *t = kmf_safetensors_find(st, last ? "progress" : c->arrays[i].name);
    if (!t || strcmp(t->dtype, last ? "U64" : "F32") != 0 ||
        t->n != (last ? c->n_progress : c->arrays[i].rows * c->arrays[i].width))
        return NULL;
    return t;
}

static bool is_whole(const kmf_checkpoint *c, const kmf_safetensors *st)
{
    const char *stored = kmf_safetensors_metadata(st, "checksum");
    uint32_t sum = 0;
    number_text text;
    for (size_t i = 0; i <= c->n_arrays; i++) {
        const kmf_stored *t = find(c, st, i);
        if (!t)
            return false;
        sum = kmf_crc32(sum, t->values, t->bytes);
    }
    snprintf(text, sizeof text, "%08" PRIx32, sum);
    return stored && strcmp(stored, text) == 0;
}

/* Nothing if the progress is not sound: -1. */
static int take(const kmf_checkpoint *c, void *training, const kmf_safetensors *st)
{
    uint64_t before[KMF_SAVED_PROGRESS];
    uint64_t progress[KMF_SAVED_PROGRESS];
    const kmf_stored *stored = find(c, st, c->n_arrays);
    for (size_t i = 0; i < c->n_progress; i++)
        progress[i] = kmf_le_load64(stored->values + 8 * i);
    get_progress(c, before, training);
    set_progress(c, training, progress);
    if (c->is_sound && !c->is_sound(training)) {
        set_progress(c, training, before);
        return -1;
    }
    for (size_t i = 0; i < c->n_arrays; i++) {
        const kmf_stored *t = find(c, st, i);
        kmf_stored_to_f32(c->arrays[i].values, t->values, KMF_F32, t->n);
    }
    const char *written = kmf_safetensors_metadata(st, "kernels");
    if (c->other_kernels)
        *c->other_kernels = written && strcmp(written, kernels()) != 0;
    return 0;
}

int kmf_checkpoint_read(const kmf_checkpoint *checkpoint, void *training, const char *path,
                        kmf_err *err)
{
    kmf_map map = {0};
    kmf_safetensors st = {0};
    int status = kmf_map_open(&map, path, err);
    if (status == 0)
        status = kmf_safetensors_parse(&st, map.bytes, map.len, path, err);
    if (status == 0)
        status = check_settings(checkpoint, &st, path, err);
    if (status == 0 && (!is_whole(checkpoint, &st) || take(checkpoint, training, &st) < 0))
        status = kmf_fail(err, KMF_EMODEL, "%s: the checkpoint is damaged", path);
    kmf_safetensors_free(&st);
    kmf_map_close(&map);
    return status;
}
