/* SPDX-License-Identifier: MIT */
/* Models: life, loading (modelfiles.h), and what they are asked. */
#include "model/model.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "model/config.h"
#include "model/families/family.h"
#include "model/locate.h"
#include "model/modelfiles.h"
#include "model/weights.h"
#include "nn/kernels.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#define VOCAB_BYTES_MAX ((size_t)1 << 30)

const char *const kmf_model_files[KMF_N_FILES] = {"config.json",
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
    char *text = text_of(model, kmf_model_files[KMF_FILE_CONFIG], KMF_CONFIG_BYTES_MAX, where,
                         &len, err);
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
        const char *name = kmf_model_files[KMF_FILE_TOKENIZER_CONFIG + i];
        const char *within = text_within(model, name);
        char *path = kmf_strprintf(err, "%s/%s", model->path, name);
        int there = path && !within ? kmf_file_there(path, err) : path != NULL;
        if (there == 1)
            model->kept[i] = within ? kmf_strdup(within, err)
                                    : kmf_file_read(path, KMF_CONFIG_BYTES_MAX, &len, err);
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
    char *config = kmf_strprintf(err, "%s/%s", model->path, kmf_model_files[KMF_FILE_CONFIG]);
    int rc = config ? 0 : KMF_ENOMEM;
    struct stat st;
    /* what is missing is better said of config.json, which every model has */
    if (rc == 0 && (stat(model->path, &st) != 0 || S_ISDIR(st.st_mode)))
        rc = check_there(model->path, config, kmf_model_files[KMF_FILE_CONFIG], err);
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

char *kmf_model_read_provenance(const char *path, kmf_err *err)
{
    err = kmf_err_or(err, &(kmf_err){0});
    char *text = NULL;
    char *where = NULL;
    kmf_model *model = kmf_calloc(1, sizeof *model, err);
    if (model && (model->path = kmf_strdup(path, err)) &&
        kmf_tensors_open(&model->stored, path, err) == 0 &&
        load_config(model, &where, err) == 0)
        text = kmf_strdup(model->provenance, err);
    kmf_free(where);
    kmf_model_free(model);
    return text;
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
    int is = kmf_tensors_metadata(&stored, kmf_model_files[KMF_FILE_CONFIG]) != NULL;
    kmf_tensors_close(&stored);
    return is;
}

kmf_model *kmf_model_load_own(const char *dir, uint64_t seed, size_t composition,
                              bool *new_head, bool *new_composition, kmf_err *err)
{
    kmf_model *model = open_model(dir, err);
    if (!model)
        return NULL;
    bool kmers = kmf_vocab_kind_of(model->vocab) == KMF_VOCAB_KMERS;
    if (!kmf_model_is_native(model) || !kmers) {
        kmf_fail(err, KMF_EMODEL,
                 "%s: a %s model%s; those that are trained here are %s, on k-mers", dir,
                 model->config.family, kmers ? "" : ", whose tokens are of several lengths",
                 kmf_family_roformer.name);
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
    return kmf_gemm_packed_bytes(MANY, MANY, KMF_OPERAND_F32) / ((size_t)MANY * MANY);
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
    info->stored = kmf_stored_name(info->dtype);
}
