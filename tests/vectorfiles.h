/* SPDX-License-Identifier: MIT */
/* What the tests of the files of k-mer vectors share: vectors of random numbers, and files. */
#ifndef KMF_TEST_VECTORFILES_H
#define KMF_TEST_VECTORFILES_H

#include "model/vectorfile.h"
#include "tablefiles.h"

#include <math.h>
#include <stdbool.h>

#define N_OF(array) (sizeof(array) / sizeof(array)[0])

/* ---------------------------------------------------------------- making ----------------- */

typedef struct sample {
    kmf_alphabet alphabet;
    int k_min, k_max;
    int canonical;
    size_t n; /* of each length, at most; SIZE_MAX: all there are */
    size_t dim;
    int counted;
} sample;

static const sample samples[] = {
    {KMF_DNA, 1, 1, 0, SIZE_MAX, 1, 0}, {KMF_DNA, 3, 3, 1, SIZE_MAX, 7, 1},
    {KMF_DNA, 3, 8, 0, 30, 10, 1},      {KMF_DNA, 21, 21, 0, 50, 3, 0},
    {KMF_DNA, 1, 32, 0, 5, 2, 1},       {KMF_PROTEIN, 2, 2, 0, SIZE_MAX, 5, 0},
    {KMF_PROTEIN, 1, 6, 0, 60, 100, 1}, {KMF_DNA, 6, 6, 0, SIZE_MAX, 4, 1},
    {KMF_DNA, 2, 5, 1, SIZE_MAX, 3, 0}, {KMF_DNA, 32, 32, 0, 1, 1, 0},
    {KMF_DNA, 4, 4, 0, 100, 300, 0},
};

/* Any finite bits, and usual values among them. */
static inline float draw_value(uint64_t *seed)
{
    uint64_t x = draw(seed);
    uint32_t bits = (uint32_t)x;
    float value;
    memcpy(&value, &bits, sizeof value);
    return x >> 63 || !isfinite(value) ? (float)(x >> 40 & 0xffff) / 65536.0f - 0.5f : value;
}

static inline kmf_vectors *vectors_of(const sample *s, uint64_t seed)
{
    size_t n = 0;
    list lists[KMF_K_MAX + 1];
    for (int k = s->k_min; k <= s->k_max; k++) {
        lists[k] = random_list(s->alphabet, k, s->canonical, s->n, 40, seed + (unsigned)k);
        n += lists[k].n;
    }
    kmf_vectors *v = kmf_vectors_new(s->alphabet, n, s->dim, s->counted, NULL);
    ck_assert_ptr_nonnull(v);
    v->info.canonical = s->canonical;
    size_t row = 0;
    for (int k = s->k_min; k <= s->k_max; k++) {
        for (size_t i = 0; i < lists[k].n; i++, row++) {
            v->code[row] = lists[k].kmers[i].code;
            v->k[row] = (uint8_t)k;
            if (s->counted)
                v->count[row] = row % 5 ? lists[k].kmers[i].count : 0;
        }
        free_list(&lists[k]);
    }
    for (size_t i = 0; i < n * s->dim; i++)
        v->values[i] = draw_value(&seed);
    kmf_err err = {0};
    ck_assert_msg(kmf_vectors_index(v, "made", &err) == 0, "%s", err.msg);
    return v;
}

/* Two vectors in all that a format keeps. */
static inline void same_vectors(const kmf_vectors *a, const kmf_vectors *b)
{
    size_t n = a->info.n;
    ck_assert_int_eq((int)a->info.alphabet, (int)b->info.alphabet);
    ck_assert_int_eq(a->info.k_min, b->info.k_min);
    ck_assert_int_eq(a->info.k_max, b->info.k_max);
    ck_assert_int_eq(a->info.canonical, b->info.canonical);
    ck_assert_int_eq(a->info.counted, b->info.counted);
    ck_assert_uint_eq(n, b->info.n);
    ck_assert_uint_eq(a->info.dim, b->info.dim);
    ck_assert_uint_eq(a->info.unseen, b->info.unseen);
    ck_assert_uint_eq(a->info.foreign, b->info.foreign);
    ck_assert_int_eq(memcmp(a->code, b->code, n * sizeof *a->code), 0);
    ck_assert_int_eq(memcmp(a->k, b->k, n), 0);
    ck_assert_int_eq(memcmp(a->values, b->values, n * a->info.dim * sizeof(float)), 0);
    if (a->info.counted)
        ck_assert_int_eq(memcmp(a->count, b->count, n * sizeof *a->count), 0);
}

static inline kmf_vectors *load(const char *path)
{
    kmf_err err = {0};
    kmf_vectors *v = kmf_vectors_load(path, &err);
    ck_assert_msg(v != NULL, "%s", err.msg);
    return v;
}

static inline kmf_vectors *parse(const void *bytes, size_t len)
{
    kmf_err err = {0};
    char *exact = malloc(len ? len : 1); /* a sanitizer sees a read past its end */
    ck_assert_ptr_nonnull(exact);
    memcpy(exact, bytes, len);
    kmf_vectors *v = kmf_vectors_parse(exact, len, "f", &err);
    ck_assert_msg(v != NULL, "%s", err.msg);
    free(exact);
    return v;
}

static inline void must_fail(const void *bytes, size_t len, const char *says)
{
    kmf_err err = {0};
    char *exact = malloc(len ? len : 1);
    ck_assert_ptr_nonnull(exact);
    memcpy(exact, bytes, len);
    kmf_vectors *v = kmf_vectors_parse(exact, len, "f", &err);
    free(exact);
    ck_assert_msg(v == NULL, "this should not pass: %s", says);
    ck_assert_int_eq(err.code, KMF_EMODEL);
    ck_assert_msg(strncmp(err.msg, "f: ", 3) == 0 && strstr(err.msg, says),
                  "'%s' does not say '%s'", err.msg, says);
    ck_assert_ptr_null(strchr(err.msg, '\n'));
}

static inline void save(const kmf_vectors *v, const char *path, kmf_vectors_format format,
                        const char *provenance)
{
    kmf_err err = {0};
    int status = kmf_vectors_save(v, path, format, provenance, &err);
    ck_assert_msg(status == 0, "%s", err.msg);
}

/* ---------------------------------------------------------------- safetensors ------------ */

/* A file with these entries and data, and what a test would say of it. */
static inline text tensors_of(const char *entries, const void *data, size_t n)
{
    text t = {0};
    unsigned char length[8];
    char header[2048];
    int len = snprintf(header, sizeof header, "{%s}", entries);
    kmf_le_store64(length, (uint64_t)len);
    add_bytes(&t, length, 8);
    add(&t, header);
    add_bytes(&t, data, n);
    return t;
}

/* vectors [2, 2], words [2, 3], counts [2]: 16 + 16 + 6 bytes. */
static const unsigned char plain_data[] = {
    9,   0,   0,   0,   0, 0, 0, 0,  0, 0, 0,  0,   0, 0, 0, 1, /* 9 and 2^56 */
    0,   0,   128, 63,  0, 0, 0, 64, 0, 0, 64, 192, 0, 0, 0, 0, /* 1 2 -3 0 */
    'A', 'C', 'G', 'T', 0, 0};

#define COUNTS "\"counts\":{\"dtype\":\"U64\",\"shape\":[2],\"data_offsets\":[0,16]}"
#define VECTORS "\"vectors\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[16,32]}"
#define WORDS "\"words\":{\"dtype\":\"U8\",\"shape\":[2,3],\"data_offsets\":[32,38]}"
#define META(text) "\"__metadata__\":{" text "}"

#define TWO "2 1\nACG 1\nTTT 2\n"

#endif
