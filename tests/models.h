/* SPDX-License-Identifier: MIT */
/*
 * What the tests of models on disk share: copies of a golden model in the folder of a test, and a
 * comparison of weights.
 */
#ifndef KMF_TEST_MODELS_H
#define KMF_TEST_MODELS_H

#include "base/err.h"
#include "base/mem.h"
#include "files.h"
#include "model/config.h"
#include "model/model.h"

#include <dirent.h>

#define GOLDEN "tests/golden/roformer"
#define GOLDEN_VALUE "tests/golden/roformer-rotary-value"

static inline int n_entries(const char *path)
{
    int n = -2;
    DIR *entries = opendir(path);
    ck_assert_ptr_nonnull(entries);
    while (readdir(entries))
        n++;
    closedir(entries);
    return n;
}

/* A copy of a golden model in the folder, without the files named in `but`. */
static inline void copy_golden(const char *golden, const char *but)
{
    static const char *const names[] = {"config.json", "vocab.txt", "model.safetensors"};
    for (size_t i = 0; i < 3; i++) {
        char from[256];
        size_t len;
        if (strstr(but, names[i]))
            continue;
        snprintf(from, sizeof from, "%s/%s", golden, names[i]);
        char *bytes = get(from, &len);
        put(in_dir(names[i]), bytes, len);
        kmf_free(bytes);
    }
}

/* Loading the folder must fail with code and say so. */
static inline void refused(kmf_code code, const char *says)
{
    kmf_err err = {0};
    kmf_model *model = kmf_model_load(dir, &err);
    ck_assert_msg(!model, "loaded, should say '%s'", says);
    ck_assert_msg(err.code == code, "%d: %s", err.code, err.msg);
    ck_assert_msg(strstr(err.msg, says), "'%s' does not say '%s'", err.msg, says);
}

static inline void assert_same_weights(const kmf_model *a, const kmf_model *b)
{
    const kmf_config *c = &a->config;
    size_t D = c->hidden_size;
    ck_assert_uint_eq(a->n_tensors, b->n_tensors);
    ck_assert_int_eq(memcmp(a->params.word, b->params.word,
                            c->vocab_size * c->embedding_size * sizeof(float)),
                     0);
    for (size_t l = 0; l < c->n_layers; l++) {
        const kmf_layer *x = &a->params.layers[l];
        const kmf_layer *y = &b->params.layers[l];
        ck_assert_int_eq(memcmp(x->wq, y->wq, D * D * sizeof(float)), 0);
        ck_assert_int_eq(memcmp(x->wv, y->wv, D * D * sizeof(float)), 0);
        ck_assert_int_eq(memcmp(x->bo, y->bo, D * sizeof(float)), 0);
        ck_assert_int_eq(memcmp(x->ln2_w, y->ln2_w, D * sizeof(float)), 0);
        ck_assert_int_eq(memcmp(x->w2, y->w2, D * c->intermediate_size * sizeof(float)), 0);
    }
}

#endif
