/* SPDX-License-Identifier: MIT */
/*
 * A model directory:
 *
 *   config.json             config.h
 *   vocab.txt               one token a line
 *   tokenizer_config.json   for Hugging Face's tokenizers; not read here
 *   model.safetensors       safetensors.h
 *
 * Saving writes "dir.tmp.PID" with all files in it, synced, and renames it: rename replaces an
 * empty directory and refuses any other, so a model is either there as a whole or not at all,
 * and none is ever overwritten.
 */
#include "model/model.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "model/config.h"
#include "model/locate.h"
#include "model/weights.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIG_BYTES_MAX ((size_t)1 << 20)

static const char *const file_names[] = {"config.json", "vocab.txt", "tokenizer_config.json",
                                         "model.safetensors"};
#define N_FILES (sizeof file_names / sizeof file_names[0])

/* "dir/name"; freed by kmf_free. */
static char *join(const char *dir, const char *name, kmf_err *err)
{
    size_t cap = strlen(dir) + strlen(name) + 2;
    char *path = kmf_malloc(cap, 1, err);
    if (path)
        snprintf(path, cap, "%s/%s", dir, name);
    return path;
}

/* ---- life -------------------------------------------------------------------------------- */

void kmf_model_free(kmf_model *model)
{
    if (!model)
        return;
    kmf_weights_free(model);
    kmf_map_close(&model->map);
    kmf_vocab_free(model->vocab);
    kmf_free(model->path);
    kmf_free(model->provenance);
    kmf_packed_free(model->packed);
    kmf_free(model);
}

kmf_model *kmf_model_draw(const kmf_config *config, uint64_t seed, kmf_err *err)
{
    if (kmf_config_check(config, KMF_EINVAL, "model", err) < 0)
        return NULL;
    kmf_model *model = kmf_calloc(1, sizeof *model, err);
    if (!model)
        return NULL;
    model->config = *config;
    model->path = kmf_strdup("", err);
    model->provenance = kmf_strdup("", err);
    model->vocab = kmf_vocab_new(config->k, err);
    if (!model->path || !model->provenance || !model->vocab)
        goto fail;
    if (kmf_vocab_size(model->vocab) != config->vocab_size) {
        kmf_fail(err, KMF_EINVAL, "model: vocab_size is %zu, but k %d gives %zu tokens",
                 config->vocab_size, config->k, kmf_vocab_size(model->vocab));
        goto fail;
    }
    if (kmf_weights_new(model, seed, err) < 0)
        goto fail;
    return model;
fail:
    kmf_model_free(model);
    return NULL;
}

/* The model, with a place for packed weights; NULL, and it is freed, on failure. */
static kmf_model *packable(kmf_model *model, kmf_err *err)
{
    if (!model)
        return NULL;
    model->packed = kmf_packed_new(err);
    if (model->packed)
        return model;
    kmf_model_free(model);
    return NULL;
}

int kmf_model_prepare(const kmf_model *model, kmf_precision precision, kmf_err *err)
{
    precision = kmf_precision_here(precision);
    return kmf_packed_make(model->packed, &model->config, &model->params, precision, err);
}

kmf_precision kmf_model_precision(const kmf_model *model)
{
    return model->packed->precision;
}

kmf_model *kmf_model_new(const kmf_config *config, uint64_t seed, kmf_err *err)
{
    return packable(kmf_model_draw(config, seed, err), err);
}

/* ---- loading ----------------------------------------------------------------------------- */

/* dir must be a directory that holds name. */
static int check_there(const char *dir, const char *path, const char *name, kmf_err *err)
{
    struct stat st;
    if (stat(dir, &st) != 0)
        return kmf_fail(err, KMF_EIO, "%s: %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return kmf_fail(err, KMF_EMODEL,
                        "%s: not a directory; a model is one with config.json, vocab.txt and "
                        "model.safetensors",
                        dir);
    if (stat(path, &st) == 0)
        return 0;
    if (errno != ENOENT)
        return kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(errno));
    return kmf_fail(err, KMF_EMODEL, "%s: no %s in it", dir, name);
}

/* A checkpoint in a form that is not read gets a hint. */
static int check_weights_there(const char *dir, const char *path, kmf_err *err)
{
    static const char *const others[] = {"model.safetensors.index.json", "pytorch_model.bin"};
    kmf_err cause = {0};
    if (check_there(dir, path, "model.safetensors", &cause) == 0)
        return 0;
    for (size_t i = 0; cause.code == KMF_EMODEL && i < 2; i++) {
        char *other = join(dir, others[i], err);
        bool there = other && access(other, F_OK) == 0;
        bool starved = !other;
        kmf_free(other);
        if (starved)
            return KMF_ENOMEM;
        if (there)
            return kmf_fail(
                err, KMF_EMODEL,
                "%s: no model.safetensors in it but %s, which is not read: save the "
                "weights again as one safetensors file",
                dir, others[i]);
    }
    return kmf_fail(err, cause.code, "%s", cause.msg);
}

static int load_config(kmf_model *model, const char *path, kmf_err *err)
{
    size_t len;
    char *text = kmf_file_read(path, CONFIG_BYTES_MAX, &len, err);
    if (!text)
        return KMF_EIO;
    int rc = kmf_config_parse(&model->config, &model->provenance, text, len, path, err);
    kmf_free(text);
    return rc;
}

static int load_from(kmf_model *model, const char *dir, kmf_err *err)
{
    char *config = join(dir, "config.json", err);
    char *vocab = join(dir, "vocab.txt", err);
    char *weights = join(dir, "model.safetensors", err);
    int rc = KMF_ENOMEM;
    if (!config || !vocab || !weights)
        goto out;
    rc = check_there(dir, config, "config.json", err);
    if (rc == 0)
        rc = load_config(model, config, err);
    if (rc == 0)
        rc = check_there(dir, vocab, "vocab.txt", err);
    if (rc < 0)
        goto out;
    model->vocab = kmf_vocab_load(vocab, err);
    if (!model->vocab) {
        rc = KMF_EMODEL;
        goto out;
    }
    rc = kmf_config_fit(&model->config, model->vocab, config, err);
    if (rc == 0)
        rc = check_weights_there(dir, weights, err);
    if (rc == 0)
        rc = kmf_map_open(&model->map, weights, err);
    if (rc == 0)
        rc = kmf_weights_bind(model, model->map.bytes, model->map.len, weights, err);
out:
    kmf_free(config);
    kmf_free(vocab);
    kmf_free(weights);
    return rc;
}

static kmf_model *open_model(const char *dir, kmf_err *err)
{
    kmf_model *model = kmf_calloc(1, sizeof *model, err);
    if (!model)
        return NULL;
    model->path = dir ? kmf_strdup(dir, err) : kmf_locate_default(err);
    if (!model->path || load_from(model, model->path, err) < 0) {
        kmf_model_free(model);
        return NULL;
    }
    return model;
}

kmf_model *kmf_model_load(const char *dir, kmf_err *err)
{
    return packable(open_model(dir, err), err);
}

kmf_model *kmf_model_load_own(const char *dir, uint64_t seed, bool *new_head, kmf_err *err)
{
    kmf_model *model = open_model(dir, err);
    if (!model)
        return NULL;
    *new_head = !model->params.head_w;
    if (kmf_weights_own(model, seed, err) == 0)
        return model;
    kmf_model_free(model);
    return NULL;
}

/* ---- saving ------------------------------------------------------------------------------ */

/* A file of the directory being written: opened, filled by the caller, closed and named. */
static int finish(kmf_out *out, int rc, kmf_err *err)
{
    if (rc == 0)
        rc = kmf_out_finish(out, err);
    if (rc == 0)
        rc = kmf_out_publish(out, err);
    kmf_out_free(out);
    return rc;
}

static int save_config(const kmf_model *model, kmf_out *out, const char *provenance,
                       kmf_err *err)
{
    char *text = kmf_config_write(&model->config, model->params.head_w != NULL, model->vocab,
                                  provenance, err);
    if (!text)
        return (int)err->code;
    int rc = kmf_out_write(out, text, strlen(text), err);
    if (rc == 0)
        rc = kmf_out_write(out, "\n", 1, err);
    kmf_free(text);
    return rc;
}

static int save_vocab(const kmf_vocab *vocab, kmf_out *out, kmf_err *err)
{
    int rc = 0;
    int32_t V = (int32_t)kmf_vocab_size(vocab);
    for (int32_t id = 0; id < V && rc == 0; id++) {
        const char *token = kmf_vocab_token(vocab, id);
        rc = kmf_out_write(out, token, strlen(token), err);
        if (rc == 0)
            rc = kmf_out_write(out, "\n", 1, err);
    }
    return rc;
}

static int save_file(const kmf_model *model, const char *dir, size_t file, kmf_dtype dtype,
                     const char *provenance, kmf_err *err)
{
    int rc = KMF_EINVAL;
    char *path = join(dir, file_names[file], err);
    if (!path)
        return KMF_ENOMEM;
    kmf_out *out = kmf_out_open(path, err);
    kmf_free(path);
    if (!out)
        return (int)err->code;
    switch (file) {
    case 0:
        rc = save_config(model, out, provenance, err);
        break;
    case 1:
        rc = save_vocab(model->vocab, out, err);
        break;
    case 2:
        rc = kmf_out_print(out, err, "{\"do_lower_case\": false, \"model_max_length\": %zu}\n",
                           model->config.max_positions);
        break;
    case 3:
        rc = kmf_weights_write(model, out, dtype, err);
        break;
    }
    return finish(out, rc, err);
}

/* Makes the entries of a directory durable. */
static int sync_dir(const char *dir, kmf_err *err)
{
    int fd = open(dir, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kmf_fail(err, KMF_EIO, "%s: %s", dir, strerror(errno));
    /* Some file systems cannot sync a directory and say EINVAL. */
    int rc = fsync(fd) == 0 || errno == EINVAL
                 ? 0
                 : kmf_fail(err, KMF_EIO, "%s: %s", dir, strerror(errno));
    close(fd);
    return rc;
}

static int sync_parent(const char *dir, kmf_err *err)
{
    char *parent = kmf_strdup(dir, err);
    if (!parent)
        return KMF_ENOMEM;
    char *slash = strrchr(parent, '/');
    if (slash)
        slash[slash == parent] = '\0';
    int rc = sync_dir(slash ? parent : ".", err);
    kmf_free(parent);
    return rc;
}

/* Nothing must be at dir, or an empty directory. */
static int check_free(const char *dir, kmf_err *err)
{
    struct stat st;
    if (lstat(dir, &st) != 0)
        return errno == ENOENT ? 0 : kmf_fail(err, KMF_EIO, "%s: %s", dir, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return kmf_fail(err, KMF_EIO, "%s: exists and is not a directory", dir);
    DIR *entries = opendir(dir);
    if (!entries)
        return kmf_fail(err, KMF_EIO, "%s: %s", dir, strerror(errno));
    bool empty = true;
    for (struct dirent *entry = readdir(entries); entry; entry = readdir(entries))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            empty = false;
    closedir(entries);
    return empty ? 0 : kmf_fail(err, KMF_EIO, "%s: exists and is not empty", dir);
}

/* Never fails: it runs when something else has. Needs no memory. */
static void remove_dir(const char *dir)
{
    char path[4096];
    for (size_t i = 0; i < N_FILES; i++) {
        int n = snprintf(path, sizeof path, "%s/%s", dir, file_names[i]);
        if (n > 0 && (size_t)n < sizeof path)
            unlink(path);
    }
    rmdir(dir);
}

static int publish(const char *temp, const char *dir, kmf_err *err)
{
    int rc = sync_dir(temp, err);
    if (rc == 0 && rename(temp, dir) != 0)
        rc = kmf_fail(err, KMF_EIO, "%s: %s", dir, strerror(errno));
    return rc;
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
    kmf_err own = {0};
    if (!err)
        err = &own; /* the code is needed */
    char *path = clean_path(dir, err);
    char *temp = NULL;
    bool made = false;
    int rc = KMF_ENOMEM;
    if (!path)
        return rc;
    size_t cap = strlen(path) + 32;
    temp = kmf_malloc(cap, 1, err);
    if (!temp)
        goto out;
    snprintf(temp, cap, "%s.tmp.%ld", path, (long)getpid());
    rc = check_free(path, err);
    if (rc < 0)
        goto out;
    if (mkdir(temp, 0777) != 0) {
        rc = kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(errno));
        goto out;
    }
    made = true;
    for (size_t i = 0; i < N_FILES && rc == 0; i++)
        rc = save_file(model, temp, i, dtype, provenance ? provenance : model->provenance, err);
    if (rc == 0)
        rc = publish(temp, path, err);
    if (rc == 0) {
        made = false;
        rc = sync_parent(path, err);
    }
out:
    if (made)
        remove_dir(temp);
    kmf_free(temp);
    kmf_free(path);
    return rc;
}

int kmf_model_update(const kmf_model *model, const char *dir, kmf_dtype dtype,
                     const char *provenance, kmf_err *err)
{
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return kmf_fail(err, KMF_EIO, "%s: %s", dir, strerror(errno));
    int rc = 0;
    for (size_t i = 0; i < N_FILES && rc == 0; i++)
        rc = save_file(model, dir, i, dtype, provenance, err);
    return rc == 0 ? sync_dir(dir, err) : rc;
}

/* ---- questions --------------------------------------------------------------------------- */

const kmf_config *kmf_model_config(const kmf_model *model)
{
    return &model->config;
}

const kmf_vocab *kmf_model_vocab(const kmf_model *model)
{
    return model->vocab;
}

const char *kmf_model_path(const kmf_model *model)
{
    return model->path;
}

const char *kmf_model_provenance(const kmf_model *model)
{
    return model->provenance;
}

uint64_t kmf_model_n_parameters(const kmf_model *model)
{
    return model->n_parameters;
}

size_t kmf_model_n_tensors(const kmf_model *model)
{
    return model->n_tensors;
}

void kmf_model_tensor(const kmf_model *model, size_t i, kmf_tensor_info *info)
{
    assert(i < model->n_tensors);
    *info = model->tensors[i];
}
