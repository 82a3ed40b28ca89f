/* SPDX-License-Identifier: MIT */
/*
 * Golden files of a model: expected.json, hidden.npy, layers.npy, logits.npy, as
 * scripts/golden_families.py and the published sets have them, and the encoder held against them.
 */
#ifndef KMF_TESTS_GOLDEN_H
#define KMF_TESTS_GOLDEN_H

#include "base/mem.h"

#include "kmerformer.h"
#include "model/model.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define GOLDEN_TOKENS 2200 /* of a case at most */

/* The floats of a little-endian float32 .npy of version 1; NULL if it cannot be read. */
static inline float *read_npy(const char *dir, const char *name, size_t *n)
{
    char path[256];
    unsigned char head[10];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    float *data = NULL;
    if (fread(head, 1, 10, file) == 10 && fseek(file, 0, SEEK_END) == 0) {
        long beg = 10 + head[8] + 256 * head[9];
        *n = (size_t)(ftell(file) - beg) / sizeof *data;
        data = kmf_floats(*n, NULL);
        if (data &&
            (fseek(file, beg, SEEK_SET) != 0 || fread(data, sizeof *data, *n, file) != *n)) {
            kmf_free(data);
            data = NULL;
        }
    }
    fclose(file);
    return data;
}

/* The largest |a - b|; NaN if there is a NaN. */
static inline double largest(double so_far, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        so_far = d <= so_far ? so_far : d;
    }
    return so_far;
}

/* The token ids of a golden case; returns their number. */
static inline size_t case_ids(int32_t ids[GOLDEN_TOKENS], const json_t *item)
{
    json_t *input = json_object_get(item, "input_ids");
    size_t T = json_array_size(input);
    for (size_t t = 0; t < T; t++)
        ids[t] = (int32_t)json_integer_value(json_array_get(input, t));
    return T;
}

/* The longest sequence that the golden cases of a model can have. */
static inline size_t golden_longest(const kmf_config *config)
{
    bool bounded = config->positions == KMF_POSITIONS_LEARNED;
    return bounded && config->max_positions < GOLDEN_TOKENS ? config->max_positions
                                                            : GOLDEN_TOKENS;
}

static inline bool golden_has(const char *dir, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

/* What is wrong; NULL: nothing. */
static inline const char *golden(const char *dir)
{
    static int32_t ids[GOLDEN_TOKENS];
    char path[256];
    kmf_err err = {0};
    size_t n_hidden = 0, n_layers = 0, n_logits = 0;
    bool has_head = golden_has(dir, "logits.npy");
    float *hidden = read_npy(dir, "hidden.npy", &n_hidden);
    float *layers = read_npy(dir, "layers.npy", &n_layers);
    float *logits = has_head ? read_npy(dir, "logits.npy", &n_logits) : NULL;
    snprintf(path, sizeof path, "%s/expected.json", dir);
    json_t *expected = json_load_file(path, 0, NULL);
    kmf_model *model = kmf_model_load(dir, &err);
    if (!hidden || !layers || (has_head && !logits) || !expected || !model) {
        fprintf(stderr, "%s: %s\n", dir, err.msg);
        return "the golden files cannot be read";
    }
    const kmf_config *config = kmf_model_config(model);
    size_t D = config->hidden_size;
    size_t V = config->vocab_size;
    kmf_encoder *encoder = kmf_encoder_new(model, GOLDEN_TOKENS, golden_longest(config), &err);
    float *row_logits = kmf_floats(V, NULL);
    if (!encoder || !row_logits)
        return "no encoder";

    double worst_hidden = 0.0, worst_layers = 0.0, worst_logits = 0.0;
    size_t n_cases = 0, n_rows = 0, n_states = 0, n_tokens = 0;
    const char *of =
        json_string_value(json_object_get(json_object_get(expected, "files"), "layers.npy"));
    bool medium = of && strstr(of, "'medium'");
    size_t c;
    json_t *item;
    json_array_foreach(json_object_get(expected, "cases"), c, item) {
        size_t T = case_ids(ids, item);
        const size_t off[2] = {0, T};
        size_t row = (size_t)json_integer_value(json_object_get(item, "hidden_row"));
        if (strcmp(json_string_value(json_object_get(item, "name")),
                   medium ? "medium" : "short") == 0)
            for (size_t l = 0; l <= config->n_layers; l++, n_states++) {
                const float *state = kmf_encoder_forward(encoder, ids, off, 1, l);
                worst_layers = largest(worst_layers, state, layers + l * T * D, T * D);
            }
        const float *x = kmf_encoder_forward(encoder, ids, off, 1, config->n_layers);
        worst_hidden = largest(worst_hidden, x, hidden + row * D, T * D);
        n_cases++;
        n_tokens += T;
        size_t m;
        json_t *mlm;
        json_array_foreach(json_object_get(item, "mlm"), m, mlm) {
            size_t position = (size_t)json_integer_value(json_object_get(mlm, "position"));
            size_t at = (size_t)json_integer_value(json_object_get(mlm, "logits_row"));
            if (kmf_encoder_logits(encoder, row_logits, &position, 1, &err) != 0)
                return "no logits";
            worst_logits = largest(worst_logits, row_logits, logits + at * V, V);
            n_rows++;
        }
    }
    printf("%s: %zu cases: largest error: hidden %.2e, layers %.2e, logits %.2e\n", dir,
           n_cases, worst_hidden, worst_layers, worst_logits);
    bool complete = n_cases > 5 && n_tokens * D == n_hidden && n_rows * V == n_logits &&
                    n_states == config->n_layers + 1;
    kmf_encoder_free(encoder);
    kmf_model_free(model);
    json_decref(expected);
    kmf_free(hidden);
    kmf_free(layers);
    kmf_free(logits);
    kmf_free(row_logits);
    if (!complete)
        return "not all golden rows were met";
    if (!(worst_hidden <= 4e-5 && worst_layers <= 4e-5 && worst_logits <= 6e-5))
        return "the golden numbers are not met";
    return NULL;
}

#endif
