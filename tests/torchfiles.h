/* SPDX-License-Identifier: MIT */
/*
 * PyTorch's files put together byte by byte, so that any part of them can be a lie: pickles,
 * archives, the legacy layout. And the comparison of a list of tensors with another.
 */
#ifndef KMF_TEST_TORCHFILES_H
#define KMF_TEST_TORCHFILES_H

#include "base/le.h"
#include "model/safetensors.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

typedef struct bytes {
    unsigned char *at; /* owned [n]; freed by free */
    size_t n;
} bytes;

static inline void add(bytes *b, const void *data, size_t n)
{
    b->at = realloc(b->at, b->n + n + 1);
    ck_assert_ptr_nonnull(b->at);
    if (n > 0)
        memcpy(b->at + b->n, data, n);
    b->n += n;
}

/* A literal without its NUL. */
#define ADD(b, literal) add(b, literal, sizeof(literal) - 1)

/* The lowest n bytes of a number. */
static inline void add_number(bytes *b, uint64_t number, size_t n)
{
    unsigned char le[8];
    kmf_le_store64(le, number);
    add(b, le, n);
}

/* ---- pickles ----------------------------------------------------------------------------- */

static inline void add_text(bytes *b, const char *text)
{
    ADD(b, "X");
    add_number(b, strlen(text), 4);
    add(b, text, strlen(text));
}

static inline void add_int(bytes *b, int64_t number)
{
    ADD(b, "\x8a\x08");
    add_number(b, (uint64_t)number, 8);
}

/* A tensor as its storage's part. */
typedef struct part {
    const char *name;
    const char *type; /* "FloatStorage" */
    const char *key;
    int64_t elements; /* of the storage */
    int64_t offset;
    int rank;
    int64_t shape[9];
    int64_t stride[9];
} part;

/* The name and the tensor, for a dict. */
static inline void add_part(bytes *b, const part *p, bool legacy)
{
    add_text(b, p->name);
    ADD(b, "ctorch._utils\n_rebuild_tensor_v2\n((");
    add_text(b, "storage");
    ADD(b, "ctorch\n");
    add(b, p->type, strlen(p->type));
    ADD(b, "\n");
    add_text(b, p->key);
    add_text(b, "cpu");
    add_int(b, p->elements);
    if (legacy)
        ADD(b, "N");
    ADD(b, "tQ");
    add_int(b, p->offset);
    ADD(b, "(");
    for (int i = 0; i < p->rank; i++)
        add_int(b, p->shape[i]);
    ADD(b, "t(");
    for (int i = 0; i < p->rank; i++)
        add_int(b, p->stride[i]);
    ADD(b, "t\x89"
           "ccollections\nOrderedDict\n)RtR");
}

static inline void add_state_dict(bytes *b, const part *parts, size_t n, bool legacy)
{
    ADD(b, "\x80\x02"
           "ccollections\nOrderedDict\n)R(");
    for (size_t i = 0; i < n; i++)
        add_part(b, &parts[i], legacy);
    ADD(b, "u.");
}

/* ---- archives ---------------------------------------------------------------------------- */

typedef struct member {
    const char *name;
    const void *data;
    size_t n;
    unsigned method;
    unsigned flags;
    uint32_t checksum; /* 0: none was computed */
} member;

/* What is said of a member in either header. */
static inline void add_sizes(bytes *b, const member *m, bool wide)
{
    add_number(b, m->flags, 2);
    add_number(b, m->method, 2);
    add_number(b, 0, 4); /* time, date */
    add_number(b, m->checksum, 4);
    add_number(b, wide ? UINT32_MAX : m->n, 4);
    add_number(b, wide ? UINT32_MAX : m->n, 4);
    add_number(b, strlen(m->name), 2);
}

/* wide: every size and offset in the fields of ZIP64. */
static inline bytes archive_of(const member *members, size_t n, bool wide)
{
    bytes b = {0};
    size_t begins[16];
    for (size_t i = 0; i < n; i++) {
        begins[i] = b.n;
        ADD(&b, "PK\3\4-\0");
        add_sizes(&b, &members[i], wide);
        add_number(&b, 5, 2);
        add(&b, members[i].name, strlen(members[i].name));
        ADD(&b, "FB\1\0Z"); /* an extra field, as PyTorch pads with */
        add(&b, members[i].data, members[i].n);
    }
    size_t directory = b.n;
    for (size_t i = 0; i < n; i++) {
        ADD(&b, "PK\1\2-\0-\0");
        add_sizes(&b, &members[i], wide);
        add_number(&b, wide ? 4 + 3 + 4 + 24 : 0, 2);
        add_number(&b, 2, 2);
        add_number(&b, 0, 8);
        add_number(&b, wide ? UINT32_MAX : begins[i], 4);
        add(&b, members[i].name, strlen(members[i].name));
        if (wide) {
            ADD(&b, "\7\7\3\0abc\1\0\x18\0");
            add_number(&b, members[i].n, 8);
            add_number(&b, members[i].n, 8);
            add_number(&b, begins[i], 8);
        }
        ADD(&b, "hi"); /* a comment */
    }
    size_t end = b.n;
    if (wide) {
        ADD(&b, "PK\6\6");
        add_number(&b, 44, 8);
        ADD(&b, "-\0-\0\0\0\0\0\0\0\0\0");
        add_number(&b, n, 8);
        add_number(&b, n, 8);
        add_number(&b, end - directory, 8);
        add_number(&b, directory, 8);
        ADD(&b, "PK\6\7\0\0\0\0");
        add_number(&b, end, 8);
        add_number(&b, 1, 4);
    }
    ADD(&b, "PK\5\6\0\0\0\0");
    add_number(&b, wide ? UINT16_MAX : n, 2);
    add_number(&b, wide ? UINT16_MAX : n, 2);
    add_number(&b, wide ? UINT32_MAX : end - directory, 4);
    add_number(&b, wide ? UINT32_MAX : directory, 4);
    add_number(&b, 3, 2);
    ADD(&b, "end");
    return b;
}

/* A state dict and its storages data/0, data/1, .. as torch.save has it. */
static inline bytes zip_of(const part *parts, size_t n, const member *storages,
                           size_t n_storages, bool wide)
{
    bytes pickle = {0};
    member members[16];
    add_state_dict(&pickle, parts, n, false);
    members[0] = (member){.name = "x/data.pkl", .data = pickle.at, .n = pickle.n};
    memcpy(members + 1, storages, n_storages * sizeof *members);
    bytes b = archive_of(members, n_storages + 1, wide);
    free(pickle.at);
    return b;
}

/* ---- the legacy layout ------------------------------------------------------------------- */

/* Up to the state dict. */
static inline void add_legacy_head(bytes *b)
{
    ADD(b, "\x80\2\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.\x80\2M\xe9\3.\x80\2}");
    add_text(b, "little_endian");
    ADD(b, "\x88s.");
}

/* ---- comparing --------------------------------------------------------------------------- */

static inline void assert_same_tensors(const kmf_stored *a, size_t n_a, const kmf_stored *b,
                                       size_t n_b)
{
    ck_assert_uint_eq(n_a, n_b);
    for (size_t i = 0; i < n_a; i++) {
        ck_assert_str_eq(a[i].name, b[i].name);
        ck_assert_msg(a[i].dtype == b[i].dtype, "%s: %s, %s", a[i].name, a[i].dtype,
                      b[i].dtype);
        ck_assert_uint_eq(a[i].item_bytes, b[i].item_bytes);
        ck_assert_int_eq(a[i].rank, b[i].rank);
        ck_assert_msg(memcmp(a[i].shape, b[i].shape, sizeof a[i].shape) == 0, "%s", a[i].name);
        ck_assert_uint_eq(a[i].n, b[i].n);
        ck_assert_uint_eq(a[i].bytes, b[i].bytes);
        ck_assert_msg(a[i].bytes == 0 || memcmp(a[i].values, b[i].values, a[i].bytes) == 0,
                      "%s: values", a[i].name);
    }
}

#endif
