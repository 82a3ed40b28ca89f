/* SPDX-License-Identifier: MIT */
/*
 * Saving a model (modelfiles.h) writes "dir.tmp.NUMBER" with all files in it, synced, and renames
 * it: rename replaces an empty directory and refuses any other, so a model is either there as a
 * whole or not at all, and none is overwritten. Updating, which replaces a model, renames its files
 * one by one, but not before all are written.
 */
#include "model/modelfiles.h"

#include "base/err.h"
#include "base/io.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/out.h"
#include "base/path.h"
#include "base/temporary.h"
#include "model/config.h"
#include "model/weights.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TOKENIZER_CONFIG_CAP 80
#define REST_OF_HEADER ((size_t)1 << 20) /* of one file that holds all, beside the vocabulary */

/* The text of config.json, newline included. Freed by kmf_free. */
static char *config_text(const kmf_model *model, const char *provenance, kmf_err *err)
{
    char *text = kmf_config_write(&model->config, model->params.head_w != NULL, model->vocab,
                                  model->original, provenance, err);
    size_t n = text ? strlen(text) : 0;
    if (n >= KMF_CONFIG_BYTES_MAX)
        kmf_fail(err, KMF_EINVAL,
                 "config.json would have %zu bytes with this provenance: %zu are read", n + 1,
                 KMF_CONFIG_BYTES_MAX);
    json_t *read =
        text && n < KMF_CONFIG_BYTES_MAX ? kmf_json_parse(text, n, "config.json", err) : NULL;
    char *line = read ? kmf_realloc(text, n + 2, 1, err) : NULL;
    json_decref(read);
    if (!line) {
        kmf_free(text);
        return NULL;
    }
    memcpy(line + n, "\n", 2);
    return line;
}

static int save_config(const kmf_model *model, kmf_out *out, const char *provenance,
                       kmf_err *err)
{
    char *text = config_text(model, provenance, err);
    if (!text)
        return (int)err->code;
    int rc = kmf_out_write(out, text, strlen(text), err);
    kmf_free(text);
    return rc;
}

static int save_vocab(const kmf_vocab *vocab, kmf_out *out, kmf_err *err)
{
    size_t len;
    const char *text = kmf_vocab_text(vocab, &len);
    return kmf_out_write(out, text, len, err);
}

/* Has the model a file of this kind? */
static bool has_file(const kmf_model *model, size_t file)
{
    bool tokenizer = file == KMF_FILE_VOCAB || file == KMF_FILE_TOKENIZER;
    if (file == KMF_FILE_TOKENIZER_CONFIG || file == KMF_FILE_SPECIAL_TOKENS)
        return model->kept[file - KMF_FILE_TOKENIZER_CONFIG] ||
               (file == KMF_FILE_TOKENIZER_CONFIG && kmf_model_is_native(model));
    return !tokenizer || strcmp(kmf_model_files[file], kmf_vocab_file(model->vocab)) == 0;
}

/* For Hugging Face's tokenizers, which would turn the letters of a RoFormer to lower case. */
static void tokenizer_config(const kmf_model *model, char text[TOKENIZER_CONFIG_CAP])
{
    snprintf(text, TOKENIZER_CONFIG_CAP,
             "{\"do_lower_case\": false, \"model_max_length\": %zu}\n",
             model->config.max_positions);
}

static int fill_file(const kmf_model *model, kmf_out *out, size_t file, kmf_dtype dtype,
                     const char *provenance, kmf_err *err)
{
    char own[TOKENIZER_CONFIG_CAP];
    const char *kept;
    switch (file) {
    case KMF_FILE_CONFIG:
        return save_config(model, out, provenance, err);
    case KMF_FILE_VOCAB:
    case KMF_FILE_TOKENIZER:
        return save_vocab(model->vocab, out, err);
    case KMF_FILE_TOKENIZER_CONFIG:
    case KMF_FILE_SPECIAL_TOKENS:
        kept = model->kept[file - KMF_FILE_TOKENIZER_CONFIG];
        tokenizer_config(model, own);
        return kept ? kmf_out_write(out, kept, strlen(kept), err)
                    : kmf_out_write(out, own, strlen(own), err);
    case KMF_FILE_WEIGHTS:
        return kmf_weights_write(model, out, dtype, NULL, 0, err);
    }
    return kmf_fail(err, KMF_EINVAL, "file %zu is none of a model's", file);
}

/* A file of the directory, whole but without its name. NULL on failure. */
static kmf_out *write_file(const kmf_model *model, const char *dir, size_t file,
                           kmf_dtype dtype, const char *provenance, kmf_err *err)
{
    char *path = kmf_strprintf(err, "%s/%s", dir, kmf_model_files[file]);
    kmf_out *out = path ? kmf_out_open(path, err) : NULL;
    kmf_free(path);
    if (!out)
        return NULL;
    if (fill_file(model, out, file, dtype, provenance, err) == 0 &&
        kmf_out_finish(out, err) == 0)
        return out;
    kmf_out_free(out);
    return NULL;
}

/*
 * The files get their names in dir, or in temp, which then becomes dir. taken_back: after a failure
 * none keeps it.
 */
static int publish(kmf_out *const *outs, kmf_temporary *temp, const char *dir, bool taken_back,
                   kmf_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < KMF_N_FILES && rc == 0; i++)
        rc = outs[i] ? kmf_out_name(outs[i], err) : 0;
    if (rc == 0)
        rc = kmf_folder_sync(temp ? temp->path : dir, err);
    if (rc == 0 && temp && !kmf_temporary_rename(temp, dir))
        rc = kmf_fail(err, KMF_EIO, "%s: %s", dir, strerror(errno));
    for (size_t i = 0; i < KMF_N_FILES && rc < 0; i++)
        if (outs[i] && !kmf_out_give_back(outs[i]) && taken_back)
            kmf_out_withdraw(outs[i]);
    return rc;
}

/*
 * None gets its name before all are written. temp: the folder that becomes dir; NULL: it is dir.
 * empty: there was nothing in it, and after a failure there is not.
 */
static int save_files(const kmf_model *model, kmf_temporary *temp, const char *dir, bool empty,
                      kmf_dtype dtype, const char *provenance, kmf_err *err)
{
    kmf_out *outs[KMF_N_FILES] = {NULL};
    int rc = 0;
    for (size_t i = 0; i < KMF_N_FILES && rc == 0; i++) {
        if (!has_file(model, i))
            continue;
        outs[i] = write_file(model, temp ? temp->path : dir, i, dtype, provenance, err);
        rc = outs[i] ? 0 : (int)err->code;
    }
    kmf_publishing_begins();
    if (rc == 0)
        rc = publish(outs, temp, dir, empty, err);
    kmf_publishing_ends();
    for (size_t i = 0; i < KMF_N_FILES; i++)
        kmf_out_free(outs[i]);
    return rc;
}

/* One file that holds all. */
static int save_whole(const kmf_model *model, const char *path, kmf_dtype dtype,
                      const char *provenance, kmf_err *err)
{
    const char *pairs[2 * (2 + KMF_KEPT)];
    char own[TOKENIZER_CONFIG_CAP];
    size_t n = 0;
    size_t len;
    struct stat st;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        return kmf_fail(err, KMF_EIO, "%s: exists; a model is not overwritten", path);
    char *config = config_text(model, provenance, err);
    if (!config)
        return (int)err->code;
    pairs[n++] = kmf_model_files[KMF_FILE_CONFIG];
    pairs[n++] = config;
    pairs[n++] = kmf_vocab_file(model->vocab);
    pairs[n++] = kmf_vocab_text(model->vocab, &len);
    if (len + kmf_vocab_size(model->vocab) > KMF_SAFETENSORS_HEADER_MAX - REST_OF_HEADER) {
        kmf_free(config);
        return kmf_fail(err, KMF_EMODEL,
                        "%s: the vocabulary is too long for one file: write a directory", path);
    }
    tokenizer_config(model, own);
    for (size_t i = 0; i < KMF_KEPT; i++) {
        if (!has_file(model, KMF_FILE_TOKENIZER_CONFIG + i))
            continue;
        pairs[n++] = kmf_model_files[KMF_FILE_TOKENIZER_CONFIG + i];
        pairs[n++] = model->kept[i] ? model->kept[i] : own;
    }
    kmf_out *out = kmf_out_open(path, err);
    int rc = out ? kmf_weights_write(model, out, dtype, pairs, n / 2, err) : (int)err->code;
    rc = kmf_out_end(out, rc, err);
    kmf_free(config);
    return rc;
}

/* Nothing must be at dir, 0, or an empty directory, 1. */
static int check_free(const char *dir, kmf_err *err)
{
    struct stat st;
    int there = kmf_file_there(dir, err);
    if (there <= 0)
        return there;
    if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode))
        return kmf_fail(err, KMF_EIO, "%s: exists and is not a directory", dir);
    DIR *entries = opendir(dir);
    if (!entries)
        return kmf_fail(err, KMF_EIO, "%s: %s", dir, strerror(errno));
    bool empty = true;
    for (struct dirent *entry = readdir(entries); entry; entry = readdir(entries))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            empty = false;
    closedir(entries);
    return empty ? 1 : kmf_fail(err, KMF_EIO, "%s: exists and is not empty", dir);
}

/* dir without slashes at its end. */
static char *clean_path(const char *dir, kmf_err *err)
{
    char *path = kmf_strdup(dir, err);
    for (size_t n = path ? strlen(path) : 0; n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = '\0';
    return path;
}

int kmf_model_save(const kmf_model *model, const char *dir, kmf_dtype dtype,
                   const char *provenance, kmf_err *err)
{
    err = kmf_err_or(err, &(kmf_err){0});
    if (kmf_dtype_check(dtype, err) < 0)
        return KMF_EINVAL;
    if (!provenance)
        provenance = model->provenance;
    if (kmf_ends_with(dir, ".safetensors"))
        return save_whole(model, dir, dtype, provenance, err);
    kmf_temporary temp = {0};
    char *path = clean_path(dir, err);
    int there = path ? check_free(path, err) : KMF_ENOMEM;
    int rc = there < 0 ? there : 0;
    if (there == 0)
        rc = kmf_temporary_folder(&temp, path, err);
    if (rc == 0)
        rc = save_files(model, there == 0 ? &temp : NULL, path, true, dtype, provenance, err);
    if (rc == 0)
        rc = kmf_parent_sync(path, err);
    kmf_temporary_remove(&temp);
    kmf_free(path);
    return rc;
}

int kmf_model_update(const kmf_model *model, const char *dir, kmf_dtype dtype,
                     const char *provenance, kmf_err *err)
{
    err = kmf_err_or(err, &(kmf_err){0});
    if (kmf_dtype_check(dtype, err) < 0)
        return KMF_EINVAL;
    bool made = mkdir(dir, 0777) == 0;
    if (!made && errno != EEXIST)
        return kmf_fail(err, KMF_EIO, "%s: %s", dir, strerror(errno));
    int rc = save_files(model, NULL, dir, false, dtype, provenance, err);
    if (rc < 0 && made)
        (void)rmdir(dir); /* if nothing is in it */
    return rc == 0 && made ? kmf_parent_sync(dir, err) : rc;
}
