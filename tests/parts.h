/* SPDX-License-Identifier: MIT */
/*
 * The weights of a checkpoint as a list of tensors, which tests change and lay out anew; and a
 * tensor of a file by jansson alone.
 */
#ifndef KMF_TEST_PARTS_H
#define KMF_TEST_PARTS_H

#include "base/half.h"
#include "base/json.h"
#include "model/safetensors.h"
#include "models.h"

/* The tensor `name` of a safetensors file, found with jansson alone. */
static inline const float *tensor_of(const char *bytes, const char *name, size_t *n)
{
    uint64_t h;
    memcpy(&h, bytes, 8);
    json_t *header = json_loadb(bytes + 8, h, 0, NULL);
    json_t *offsets = json_object_get(json_object_get(header, name), "data_offsets");
    ck_assert_msg(json_array_size(offsets) == 2, "%s", name);
    size_t beg = (size_t)json_integer_value(json_array_get(offsets, 0));
    size_t end = (size_t)json_integer_value(json_array_get(offsets, 1));
    json_decref(header);
    *n = (end - beg) / 4;
    return (const float *)(const void *)(bytes + 8 + h + beg);
}

/* A list of tensors with their data, to be changed and laid out anew. */
struct part {
    char name[700];
    const char *dtype;
    size_t item_bytes;
    size_t shape[KMF_SAFETENSORS_RANK_MAX];
    int rank;
    unsigned char *data; /* owned */
    size_t bytes;
};
struct parts {
    struct part part[128];
    size_t n;
};

static inline struct parts *parts_of(const char *path)
{
    size_t len;
    kmf_safetensors st;
    kmf_err err = {0};
    char *bytes = get(path, &len);
    struct parts *parts = calloc(1, sizeof *parts);
    ck_assert_int_eq(kmf_safetensors_parse(&st, (unsigned char *)bytes, len, path, &err), 0);
    for (size_t i = 0; i < st.n; i++) {
        const kmf_stored *t = &st.tensors[i];
        struct part *p = &parts->part[parts->n++];
        snprintf(p->name, sizeof p->name, "%s", t->name);
        p->dtype = t->dtype;
        p->item_bytes = t->item_bytes;
        memcpy(p->shape, t->shape, sizeof p->shape);
        p->rank = t->rank;
        p->bytes = t->bytes;
        p->data = malloc(t->bytes);
        memcpy(p->data, st.data + t->begin, t->bytes);
    }
    kmf_safetensors_free(&st);
    kmf_free(bytes);
    return parts;
}

static inline void parts_free(struct parts *parts)
{
    for (size_t i = 0; i < parts->n; i++)
        free(parts->part[i].data);
    free(parts);
}

static inline struct part *find(struct parts *parts, const char *name)
{
    for (size_t i = 0; i < parts->n; i++)
        if (strcmp(parts->part[i].name, name) == 0)
            return &parts->part[i];
    ck_abort_msg("no tensor %s", name);
    return NULL;
}

/* A file of the parts, shifted by `shift` bytes of spaces in its header. */
static inline unsigned char *laid_out(const struct parts *parts, size_t shift, size_t *len)
{
    kmf_stored list[128];
    kmf_err err = {0};
    size_t begin = 0;
    size_t header_len;
    memset(list, 0, sizeof list);
    for (size_t i = 0; i < parts->n; i++) {
        const struct part *p = &parts->part[i];
        list[i].name = p->name;
        list[i].dtype = p->dtype;
        memcpy(list[i].shape, p->shape, sizeof p->shape);
        list[i].rank = p->rank;
        list[i].begin = begin;
        list[i].bytes = p->bytes;
        begin += p->bytes;
    }
    char *header = kmf_safetensors_header(list, parts->n, NULL, 0, &header_len, &err);
    ck_assert_msg(header != NULL, "%s", err.msg);
    unsigned char *bytes = malloc(header_len + shift + begin);
    memcpy(bytes, header, header_len);
    memset(bytes + header_len, ' ', shift);
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((header_len + shift - 8) >> 8 * i & 0xff);
    size_t at = header_len + shift;
    for (size_t i = 0; i < parts->n; i++) {
        memcpy(bytes + at, parts->part[i].data, parts->part[i].bytes);
        at += parts->part[i].bytes;
    }
    *len = at;
    kmf_free(header);
    return bytes;
}

static inline void put_parts(const struct parts *parts, size_t shift)
{
    size_t len;
    unsigned char *bytes = laid_out(parts, shift, &len);
    put(in_dir("model.safetensors"), bytes, len);
    free(bytes);
}

static inline struct part *add(struct parts *parts, const char *name, const struct part *like)
{
    struct part *p = &parts->part[parts->n++];
    *p = *like;
    snprintf(p->name, sizeof p->name, "%s", name);
    p->data = malloc(like->bytes);
    memcpy(p->data, like->data, like->bytes);
    return p;
}

static inline void drop(struct parts *parts, const char *name)
{
    struct part *p = find(parts, name);
    free(p->data);
    *p = parts->part[--parts->n];
}

static inline void to_dtype(struct part *p, const char *dtype)
{
    size_t n = p->bytes / 4;
    size_t item = strcmp(dtype, "F64") == 0 ? 8 : 2;
    unsigned char *data = malloc(n * item);
    for (size_t i = 0; i < n; i++) {
        float x;
        memcpy(&x, p->data + 4 * i, 4);
        double wide = (double)x;
        uint16_t half = dtype[0] == 'B' ? kmf_bf16_from_f32(x) : kmf_f16_from_f32(x);
        if (item == 8)
            memcpy(data + 8 * i, &wide, 8);
        else
            memcpy(data + 2 * i, &half, 2);
    }
    free(p->data);
    p->data = data;
    p->dtype = dtype;
    p->bytes = n * item;
}

#define WORD "roformer.embeddings.word_embeddings.weight"
#define QUERY "roformer.encoder.layer.1.attention.self.query.weight"
#define QUERY_BIAS "roformer.encoder.layer.1.attention.self.query.bias"
#define SINES "roformer.encoder.embed_positions.weight"
#define HEAD "cls.predictions.transform.dense.weight"

/* A change, and what the refusal of the file says. */
struct mutation {
    void (*change)(struct parts *parts);
    const char *says;
};

static inline kmf_model *loaded(void)
{
    kmf_err err = {0};
    kmf_model *model = kmf_model_load(dir, &err);
    ck_assert_msg(model != NULL, "%s", err.msg);
    return model;
}

static inline void rename_bare(struct parts *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (strncmp(p->part[i].name, "roformer.", 9) == 0)
            memmove(p->part[i].name, p->part[i].name + 9, strlen(p->part[i].name + 9) + 1);
}

static inline void rename_norms(struct parts *p)
{
    for (size_t i = 0; i < p->n; i++) {
        char *norm = strstr(p->part[i].name, "LayerNorm.");
        if (norm)
            strcpy(norm + 10, norm[10] == 'w' ? "gamma" : "beta");
    }
}

static inline void rename_both(struct parts *p)
{
    rename_bare(p);
    rename_norms(p);
}

static inline void turn_around(struct parts *p)
{
    for (size_t i = 0; i < p->n / 2; i++) {
        struct part t = p->part[i];
        p->part[i] = p->part[p->n - 1 - i];
        p->part[p->n - 1 - i] = t;
    }
}

#endif
