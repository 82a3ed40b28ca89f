/* SPDX-License-Identifier: MIT */
/*
 * A checkpoint of word2vec: a safetensors file.
 *
 *   table     F32 [2 words, ld]   the vectors, then those of the words as targets, padded as in
 *                                 memory
 *   progress  U64 [4]             steps done, centres learnt, pairs in the loss, its sum (the bits
 *                                 of a double)
 *   metadata  "format", every setting, "loss" as last told, and the checksum of all that
 *             follows from no setting
 *
 * There is no random state: all numbers are drawn by where and when they are needed.
 */
#include "learn/word2vec.h"

#include "base/err.h"
#include "base/io.h"
#include "base/le.h"
#include "model/safetensors.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define FORMAT "kmerformer word2vec checkpoint 1"
#define N_TENSORS 2
#define N_PROGRESS 4
#define N_PAIRS (KMF_WORD2VEC_SETTINGS + 3)

typedef char number_text[32];

static size_t table_floats(const kmf_word2vec *t)
{
    return 2 * (size_t)t->lexicon.n * t->ld;
}

/* Of the tensors' bytes and the loss as text: of all that the settings do not vouch for. */
static void checksum_of(const kmf_word2vec *t, const void *table, const void *progress,
                        const char *loss, number_text text)
{
    uLong sum = crc32_z(crc32(0, NULL, 0), table, table_floats(t) * sizeof *t->table);
    sum = crc32_z(sum, progress, N_PROGRESS * sizeof(uint64_t));
    sum = crc32_z(sum, (const Bytef *)loss, strlen(loss));
    snprintf(text, sizeof(number_text), "%08lx", (unsigned long)sum);
}

int kmf_word2vec_save(const kmf_word2vec *trainer, const char *path, kmf_err *err)
{
    const kmf_word2vec *t = trainer;
    kmf_word2vec_setting settings[KMF_WORD2VEC_SETTINGS];
    const char *pairs[2 * N_PAIRS];
    uint64_t progress[N_PROGRESS] = {t->step, t->tokens, t->loss_pairs, 0};
    number_text loss, checksum;
    size_t n = 0;
    memcpy(&progress[3], &t->loss_sum, sizeof t->loss_sum);
    snprintf(loss, sizeof loss, "%.17g", t->loss);
    checksum_of(t, t->table, progress, loss, checksum);
    kmf_word2vec_settings(t, settings);
    pairs[n++] = "format";
    pairs[n++] = FORMAT;
    for (size_t i = 0; i < KMF_WORD2VEC_SETTINGS; i++) {
        pairs[n++] = settings[i].name;
        pairs[n++] = settings[i].value;
    }
    pairs[n++] = "loss";
    pairs[n++] = loss;
    pairs[n++] = "checksum";
    pairs[n++] = checksum;

    kmf_stored tensors[N_TENSORS] = {
        {.name = "table",
         .dtype = "F32",
         .shape = {2 * (size_t)t->lexicon.n, t->ld},
         .rank = 2},
        {.name = "progress", .dtype = "U64", .shape = {N_PROGRESS}, .rank = 1}};
    const void *values[N_TENSORS] = {t->table, progress};
    kmf_out *out = kmf_out_open(path, err);
    if (!out)
        return err ? (int)err->code : KMF_EIO;
    int status =
        kmf_safetensors_write_mixed(out, tensors, values, N_TENSORS, pairs, n / 2, err);
    if (status == 0)
        status = kmf_out_finish(out, err);
    if (status == 0)
        status = kmf_out_publish(out, err);
    kmf_out_free(out);
    return status;
}

static int check_settings(const kmf_word2vec *t, const kmf_safetensors *st, const char *path,
                          kmf_err *err)
{
    kmf_word2vec_setting settings[KMF_WORD2VEC_SETTINGS];
    const char *format = kmf_safetensors_metadata(st, "format");
    if (!format || strcmp(format, FORMAT) != 0)
        return kmf_fail(err, KMF_EMODEL, "%s: no checkpoint of word2vec", path);
    kmf_word2vec_settings(t, settings);
    for (size_t i = 0; i < KMF_WORD2VEC_SETTINGS; i++) {
        const char *value = kmf_safetensors_metadata(st, settings[i].name);
        char shown[KMF_ERR_SHOW];
        if (!value || strcmp(value, settings[i].value) != 0)
            return kmf_fail(err, KMF_EMODEL,
                            "%s: a checkpoint of another training: %s was %s, now it is %s",
                            path, settings[i].name,
                            kmf_err_show(shown, value ? value : "not told"), settings[i].value);
    }
    return 0;
}

static int take_state(kmf_word2vec *t, const kmf_safetensors *st, const char *path,
                      kmf_err *err)
{
    const kmf_stored *table = kmf_safetensors_find(st, "table");
    const kmf_stored *progress = kmf_safetensors_find(st, "progress");
    const char *loss = kmf_safetensors_metadata(st, "loss");
    const char *stored = kmf_safetensors_metadata(st, "checksum");
    number_text checksum;
    bool fits = table && progress && loss && stored && strcmp(table->dtype, "F32") == 0 &&
                table->n == table_floats(t) && strcmp(progress->dtype, "U64") == 0 &&
                progress->n == N_PROGRESS;
    if (fits) {
        checksum_of(t, st->data + table->begin, st->data + progress->begin, loss, checksum);
        fits = strcmp(checksum, stored) == 0;
    }
    uint64_t numbers[N_PROGRESS] = {0};
    for (size_t i = 0; fits && i < N_PROGRESS; i++)
        numbers[i] = kmf_le_load64(st->data + progress->begin + 8 * i);
    if (!fits || numbers[0] > t->steps_per_epoch * (uint64_t)t->opts.epochs)
        return kmf_fail(err, KMF_EMODEL, "%s: the checkpoint is damaged", path);
    kmf_stored_to_f32(t->table, st->data + table->begin, KMF_F32, table->n);
    t->step = numbers[0];
    t->tokens = numbers[1];
    t->loss_pairs = numbers[2];
    memcpy(&t->loss_sum, &numbers[3], sizeof t->loss_sum);
    t->loss = strtod(loss, NULL);
    return 0;
}

int kmf_word2vec_load(kmf_word2vec *trainer, const char *path, kmf_err *err)
{
    kmf_map map = {0};
    kmf_safetensors st = {0};
    int status = kmf_map_open(&map, path, err);
    if (status == 0)
        status = kmf_safetensors_parse(&st, map.bytes, map.len, path, err);
    if (status == 0)
        status = check_settings(trainer, &st, path, err);
    if (status == 0)
        status = take_state(trainer, &st, path, err);
    kmf_safetensors_free(&st);
    kmf_map_close(&map);
    return status;
}
