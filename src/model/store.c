/* SPDX-License-Identifier: MIT */
/*
 * A model directory:
 *
 *   config.json                    config.h
 *   vocab.txt or tokenizer.json    what the family has
 *   tokenizer_config.json          for Hugging Face's tokenizers: not understood here, and written
 *   special_tokens_map.json        again as they are
 *   model.safetensors              or what else tensorfiles.h reads
 *
 * Or one safetensors file, with the text of the others in its metadata under their names.
 *
 * Saving writes "dir.tmp.NUMBER" with all files in it, synced, and renames it: rename replaces an
 * empty directory and refuses any other, so a model is either there as a whole or not at all,
 * and none is overwritten. Updating, which replaces a model, renames its files one by one, but not
 * before all are written.
 */
#include "model/model.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/temporary.h"
#include "model/config.h"
#include "model/families/family.h"
#include "model/locate.h"
#include "model/weights.h"
#include "nn/gemm.h"
#include "nn/kernels.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CONFIG_BYTES_MAX ((size_t)1 << 20)
#define VOCAB_BYTES_MAX ((size_t)1 << 30)
#define TOKENIZER_CONFIG_CAP 80
#define REST_OF_HEADER ((size_t)1 << 20) /* of one file that holds all, beside the vocabulary */

/* All that a directory may hold; those in tokenizer files' places are one or the other. */
enum {
    FILE_CONFIG,
    FILE_VOCAB,
    FILE_TOKENIZER,
    FILE_TOKENIZER_CONFIG,
    FILE_SPECIAL_TOKENS,
    FILE_WEIGHTS,
    N_FILES
};
static const char *const file_names[N_FILES] = {"config.json",
                                                "vocab.txt",
                                                "tokenizer.json",
                                                "tokenizer_config.json",
                                                "special_tokens_map.json",
                                                "model.safetensors"};

bool kmf_model_is_native(const kmf_model *model)
{
    return strcmp(model->config.family, kmf_family_roformer.name) == 0;
}

/* ---- life -------------------------------------------------------------------------------- */

void kmf_model_free(kmf_model *model)
{
    if (!model)
        return;
    kmf_weights_free(model);
    kmf_tensors_close(&model->stored);
    kmf_vocab_free(model->vocab);
    kmf_free(model->path);
    kmf_free(model->original);
    for (size_t i = 0; i < KMF_KEPT; i++)
        kmf_free(model->kept[i]);
    kmf_free(model->provenance);
    kmf_packed_free(model->packed);
    kmf_free(model);
}

kmf_model *kmf_model_draw(const kmf_config *config, uint64_t seed, kmf_err *err)
{
    if (kmf_config_check_native(config, "model", err) < 0)
        return NULL;
    kmf_model *model = kmf_calloc(1, sizeof *model, err);
    if (!model)
        return NULL;
    model->config = *config;
    model->path = kmf_strdup("", err);
    model->provenance = kmf_strdup("", err);
    model->original = kmf_strdup("", err);
    model->vocab = kmf_vocab_new(config->k, err);
    if (!model->path || !model->provenance || !model->original || !model->vocab)
        goto fail;
    if (kmf_vocab_size(model->vocab) != config->vocab_size) {
        kmf_fail(err, KMF_EINVAL, "model: vocab_size is %zu, but k %d gives %zu tokens",
                 config->vocab_size, config->k, kmf_vocab_size(model->vocab));
        goto fail;
    }
    if (kmf_weights_own(model, seed, err) < 0)
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
    if (precision < KMF_PRECISION_F32 || precision > KMF_PRECISION_AUTO)
        return kmf_fail(err, KMF_EINVAL, "precision: there is no number %d", (int)precision);
    precision = kmf_precision_here(precision);
    return kmf_packed_make(model->packed, &model->config, &model->params, &model->stored,
                           precision, err);
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

/* No path is a baseline, which commands that show or train an encoder cannot take. */
static int fail_absent(const char *name, kmf_err *err)
{
    const char *why = kmf_is_counts(name)   ? "which has neither tokenizer nor encoder"
                      : kmf_is_random(name) ? "whose weights are drawn and in no file"
                                            : NULL;
    if (!why)
        return kmf_fail(err, KMF_EIO, "%s: %s", name, strerror(errno));
    return kmf_fail(err, KMF_EMODEL,
                    "%s: a baseline of embed, eval and probe, %s: give the directory or "
                    "file of a model, such as init makes",
                    name, why);
}

/* dir must be there; a file that is no model of one file is taken for a mistake. */
static int check_there(const char *dir, const char *path, const char *name, kmf_err *err)
{
    struct stat st;
    if (stat(dir, &st) != 0)
        return fail_absent(dir, err);
    if (!S_ISDIR(st.st_mode))
        return kmf_fail(err, KMF_EMODEL,
                        "%s: no model: that is a directory with %s, or a safetensors file that "
                        "holds its text",
                        dir, name);
    int rc = kmf_file_there(path, err);
    if (rc == 0)
        rc = kmf_fail(err, KMF_EMODEL, "%s: no %s in it", dir, name);
    return rc < 0 ? rc : 0;
}

/* What a model of one file has of one of a directory's; NULL: it is a directory, or has none. */
static const char *text_within(const kmf_model *model, const char *name)
{
    struct stat st;
    bool dir = stat(model->path, &st) == 0 && S_ISDIR(st.st_mode);
    return dir ? NULL : kmf_tensors_metadata(&model->stored, name);
}

/*
 * The text of one of the model's files, from the metadata or the directory. *where names it for
 * messages. Both freed by kmf_free; NULL on failure.
 */
static char *text_of(const kmf_model *model, const char *name, size_t limit, char **where,
                     size_t *len, kmf_err *err)
{
    const char *kept = text_within(model, name);
    char *text = NULL;
    *where = kmf_strprintf(err, "%s/%s", model->path, name);
    if (!*where)
        return NULL;
    if (kept) {
        *len = strlen(kept);
        text = kmf_strdup(kept, err);
    } else if (check_there(model->path, *where, name, err) == 0) {
        text = kmf_file_read(*where, limit, len, err);
    }
    if (!text) {
        kmf_free(*where);
        *where = NULL;
    }
    return text;
}

static int load_config(kmf_model *model, char **where, kmf_err *err)
{
    size_t len;
    char *text = text_of(model, file_names[FILE_CONFIG], CONFIG_BYTES_MAX, where, &len, err);
    if (!text)
        return (int)err->code;
    int rc = kmf_config_parse(&model->config, &model->provenance, text, len, &model->stored,
                              *where, err);
    model->original = text;
    return rc;
}

static int load_vocab(kmf_model *model, kmf_err *err)
{
    const kmf_family *family = kmf_family_named(model->config.family);
    char *where;
    size_t len;
    char *text = text_of(model, family->vocabulary, VOCAB_BYTES_MAX, &where, &len, err);
    if (!text)
        return (int)err->code;
    model->vocab = kmf_vocab_parse(text, len, where, err);
    kmf_free(text);
    kmf_free(where);
    return model->vocab ? 0 : (int)err->code;
}

/* Files that are only handed on. */
static int load_kept(kmf_model *model, kmf_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < KMF_KEPT && rc == 0; i++) {
        size_t len = 0;
        const char *name = file_names[FILE_TOKENIZER_CONFIG + i];
        const char *within = text_within(model, name);
        char *path = kmf_strprintf(err, "%s/%s", model->path, name);
        int there = path && !within ? kmf_file_there(path, err) : path != NULL;
        if (there == 1)
            model->kept[i] = within ? kmf_strdup(within, err)
                                    : kmf_file_read(path, CONFIG_BYTES_MAX, &len, err);
        if (model->kept[i] && !within && strlen(model->kept[i]) != len) {
            kmf_free(model->kept[i]);
            model->kept[i] = NULL;
            kmf_fail(err, KMF_EMODEL, "%s: there is a NUL byte in it", path);
        }
        rc = !path || there < 0 || (there && !model->kept[i]) ? (int)err->code : 0;
        kmf_free(path);
    }
    return rc;
}

static int load_from(kmf_model *model, kmf_err *err)
{
    char *where = NULL;
    char *config = kmf_strprintf(err, "%s/%s", model->path, file_names[FILE_CONFIG]);
    int rc = config ? 0 : KMF_ENOMEM;
    struct stat st;
    /* what is missing is better said of config.json, which every model has */
    if (rc == 0 && (stat(model->path, &st) != 0 || S_ISDIR(st.st_mode)))
        rc = check_there(model->path, config, file_names[FILE_CONFIG], err);
    kmf_free(config);
    if (rc == 0)
        rc = kmf_tensors_open(&model->stored, model->path, err);
    if (rc == 0)
        rc = load_config(model, &where, err);
    if (rc == 0)
        rc = load_vocab(model, err);
    if (rc == 0)
        rc = load_kept(model, err);
    if (rc == 0)
        rc = kmf_config_fit(&model->config, model->vocab, where, err);
    if (rc == 0)
        rc = kmf_weights_bind(model, err);
    kmf_free(where);
    return rc;
}

static kmf_model *open_model(const char *path, kmf_err *err)
{
    err = kmf_err_or(err, &(kmf_err){0});
    kmf_model *model = kmf_calloc(1, sizeof *model, err);
    if (!model)
        return NULL;
    model->path = path ? kmf_strdup(path, err) : kmf_locate_default(err);
    const char *wish = path ? NULL : getenv("KMERFORMER_MODEL");
    if (!model->path || load_from(model, err) < 0) {
        if (wish && *wish)
            kmf_err_prefix(err, "the variable KMERFORMER_MODEL");
        kmf_model_free(model);
        return NULL;
    }
    return model;
}

kmf_model *kmf_model_load(const char *path, kmf_err *err)
{
    return packable(open_model(path, err), err);
}

int kmf_model_is_file(const char *path, kmf_err *err)
{
    kmf_err cause = {0};
    kmf_tensors stored;
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return 0;
    int rc = kmf_tensors_check_foreign(path, err);
    if (rc < 0)
        return rc;
    if (kmf_tensors_open(&stored, path, &cause) < 0)
        return cause.code == KMF_ENOMEM ? kmf_fail(err, KMF_ENOMEM, "%s", cause.msg) : 0;
    int is = kmf_tensors_metadata(&stored, file_names[FILE_CONFIG]) != NULL;
    kmf_tensors_close(&stored);
    return is;
}

kmf_model *kmf_model_load_own(const char *dir, uint64_t seed, size_t composition,
                              bool *new_head, bool *new_composition, kmf_err *err)
{
    kmf_model *model = open_model(dir, err);
    if (!model)
        return NULL;
    if (!kmf_model_is_native(model) || kmf_vocab_kind_of(model->vocab) != KMF_VOCAB_KMERS) {
        kmf_fail(err, KMF_EMODEL,
                 "%s: a %s model; those that are trained here are %s, on k-mers", dir,
                 model->config.family, kmf_family_roformer.name);
        kmf_model_free(model);
        return NULL;
    }
    *new_head = !model->params.head_w;
    *new_composition = model->config.composition == 0 && composition > 0;
    if (*new_composition)
        model->config.composition = composition;
    /* it becomes another one, of our making */
    for (size_t i = 0; i < KMF_KEPT; i++) {
        kmf_free(model->kept[i]);
        model->kept[i] = NULL;
    }
    model->original[0] = '\0';
    if (kmf_weights_own(model, seed, err) == 0)
        return model;
    kmf_model_free(model);
    return NULL;
}

/* ---- saving ------------------------------------------------------------------------------ */

/* The text of config.json, newline included. Freed by kmf_free. */
static char *config_text(const kmf_model *model, const char *provenance, kmf_err *err)
{
    char *text = kmf_config_write(&model->config, model->params.head_w != NULL, model->vocab,
                                  model->original, provenance, err);
    size_t n = text ? strlen(text) : 0;
    if (n >= CONFIG_BYTES_MAX)
        kmf_fail(err, KMF_EINVAL,
                 "config.json would have %zu bytes with this provenance: %zu are read", n + 1,
                 CONFIG_BYTES_MAX);
    json_t *read =
        text && n < CONFIG_BYTES_MAX ? kmf_json_parse(text, n, "config.json", err) : NULL;
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
    bool tokenizer = file == FILE_VOCAB || file == FILE_TOKENIZER;
    if (file == FILE_TOKENIZER_CONFIG || file == FILE_SPECIAL_TOKENS)
        return model->kept[file - FILE_TOKENIZER_CONFIG] ||
               (file == FILE_TOKENIZER_CONFIG && kmf_model_is_native(model));
    return !tokenizer || strcmp(file_names[file], kmf_vocab_file(model->vocab)) == 0;
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
    case FILE_CONFIG:
        return save_config(model, out, provenance, err);
    case FILE_VOCAB:
    case FILE_TOKENIZER:
        return save_vocab(model->vocab, out, err);
    case FILE_TOKENIZER_CONFIG:
    case FILE_SPECIAL_TOKENS:
        kept = model->kept[file - FILE_TOKENIZER_CONFIG];
        tokenizer_config(model, own);
        return kept ? kmf_out_write(out, kept, strlen(kept), err)
                    : kmf_out_write(out, own, strlen(own), err);
    default:
        return kmf_weights_write(model, out, dtype, NULL, 0, err);
    }
}

/* A file of the directory, whole but without its name. NULL on failure. */
static kmf_out *write_file(const kmf_model *model, const char *dir, size_t file,
                           kmf_dtype dtype, const char *provenance, kmf_err *err)
{
    char *path = kmf_strprintf(err, "%s/%s", dir, file_names[file]);
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
    for (size_t i = 0; i < N_FILES && rc == 0; i++)
        rc = outs[i] ? kmf_out_name(outs[i], err) : 0;
    if (rc == 0)
        rc = kmf_folder_sync(temp ? temp->path : dir, err);
    if (rc == 0 && temp && !kmf_temporary_rename(temp, dir))
        rc = kmf_fail(err, KMF_EIO, "%s: %s", dir, strerror(errno));
    for (size_t i = 0; i < N_FILES && rc < 0; i++)
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
    kmf_out *outs[N_FILES] = {NULL};
    int rc = 0;
    for (size_t i = 0; i < N_FILES && rc == 0; i++) {
        if (!has_file(model, i))
            continue;
        outs[i] = write_file(model, temp ? temp->path : dir, i, dtype, provenance, err);
        rc = outs[i] ? 0 : (int)err->code;
    }
    kmf_publishing_begins();
    if (rc == 0)
        rc = publish(outs, temp, dir, empty, err);
    kmf_publishing_ends();
    for (size_t i = 0; i < N_FILES; i++)
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
    pairs[n++] = file_names[FILE_CONFIG];
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
        if (!has_file(model, FILE_TOKENIZER_CONFIG + i))
            continue;
        pairs[n++] = file_names[FILE_TOKENIZER_CONFIG + i];
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

static int check_dtype(kmf_dtype dtype, kmf_err *err)
{
    if ((unsigned)dtype < KMF_F64)
        return 0;
    return kmf_fail(err, KMF_EINVAL,
                    "weights are written as float32, float16, bfloat16 or int8");
}

int kmf_model_save(const kmf_model *model, const char *dir, kmf_dtype dtype,
                   const char *provenance, kmf_err *err)
{
    err = kmf_err_or(err, &(kmf_err){0});
    if (check_dtype(dtype, err) < 0)
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
    if (check_dtype(dtype, err) < 0)
        return KMF_EINVAL;
    bool made = mkdir(dir, 0777) == 0;
    if (!made && errno != EEXIST)
        return kmf_fail(err, KMF_EIO, "%s: %s", dir, strerror(errno));
    int rc = save_files(model, NULL, dir, false, dtype, provenance, err);
    if (rc < 0 && made)
        (void)rmdir(dir); /* if nothing is in it */
    return rc == 0 && made ? kmf_parent_sync(dir, err) : rc;
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

/* Of one weight among many, as float32 is multiplied here. */
static uint64_t bytes_packed(void)
{
    enum { MANY = 3 * KMF_PANEL_COLS }; /* whole panels of any kernel */
    return kmf_gemm_packed_bytes(MANY, MANY, KMF_PRECISION_F32) / ((size_t)MANY * MANY);
}

/* Weights of the layers' matrices, which are packed. */
static uint64_t n_packed(const kmf_config *c)
{
    uint64_t D = c->hidden_size;
    uint64_t F = c->intermediate_size;
    return c->n_layers * (4 * D * D + (c->gated ? 3 : 2) * F * D);
}

uint64_t kmf_model_bytes(const kmf_model *model)
{
    uint64_t packed = n_packed(&model->config);
    uint64_t plain = model->n_parameters - (model->slab ? 0 : packed);
    return packed * bytes_packed() + plain * sizeof(float);
}

size_t kmf_model_n_unused(const kmf_model *model)
{
    return model->n_unused;
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
