/* SPDX-License-Identifier: MIT */
/*
 * Nothing in the header is believed before it is checked, in this order: its length against the
 * file, the JSON, each entry alone, then all together. Sorted by where they begin, tensors that
 * cover the data exactly make a chain: each begins where the one before ended, the first at 0,
 * the last ends with the data. One pass over the chain finds overlaps, holes and leftovers.
 * Sorted by name afterwards they are found by bisection.
 *
 * Cost: O(n log n) in the number of tensors; memory a small multiple of the header, whose
 * length is bounded. The data is never touched here.
 */
#include "model/safetensors.h"

#include "base/err.h"
#include "base/half.h"
#include "base/json.h"
#include "base/le.h"
#include "base/mem.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_BYTES 512
#define ALIGN 64 /* of the data in files of ours */
#define BLOCK 4096

static const struct dtype {
    const char *name;
    size_t bytes;
    int dtype; /* kmf_dtype, -1: not for weights */
} dtypes[] = {
    {"F32", 4, KMF_F32}, {"F16", 2, KMF_F16}, {"BF16", 2, KMF_BF16}, {"F64", 8, KMF_F64},
    {"I64", 8, -1},      {"I32", 4, -1},      {"I16", 2, -1},        {"I8", 1, KMF_I8},
    {"U64", 8, -1},      {"U32", 4, -1},      {"U16", 2, -1},        {"U8", 1, -1},
    {"BOOL", 1, -1},     {"F8_E4M3", 1, -1},  {"F8_E5M2", 1, -1},
};
#define N_DTYPES (sizeof dtypes / sizeof dtypes[0])

int kmf_stored_compare(const void *a, const void *b)
{
    const kmf_stored *x = a;
    const kmf_stored *y = b;
    return strcmp(x->name, y->name);
}

const kmf_stored *kmf_stored_find(const kmf_stored *list, size_t n, const char *name)
{
    kmf_stored key = {.name = name};
    return n == 0 ? NULL : bsearch(&key, list, n, sizeof *list, kmf_stored_compare);
}

int kmf_stored_dtype(const kmf_stored *tensor)
{
    for (size_t i = 0; i < N_DTYPES; i++)
        if (strcmp(tensor->dtype, dtypes[i].name) == 0)
            return dtypes[i].dtype;
    return -1;
}

const char *kmf_stored_name(kmf_dtype dtype)
{
    size_t i = 0;
    while (dtypes[i].dtype != (int)dtype)
        i++;
    return dtypes[i].name;
}

bool kmf_stored_set_dtype(kmf_stored *tensor, const char *name)
{
    for (size_t i = 0; i < N_DTYPES; i++)
        if (strcmp(name, dtypes[i].name) == 0) {
            tensor->dtype = dtypes[i].name;
            tensor->item_bytes = dtypes[i].bytes;
            return true;
        }
    return false;
}

/* ---- reading ----------------------------------------------------------------------------- */

/* The file and the tensor that messages speak of. */
struct place {
    const char *file;
    const char *tensor; /* made printable */
};

static int read_size(size_t *out, const json_t *value, const struct place *at, const char *what,
                     kmf_err *err)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        (uint64_t)json_integer_value(value) > SIZE_MAX)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: tensor %s: %s must be whole numbers, not negative", at->file,
                        at->tensor, what);
    *out = (size_t)json_integer_value(value);
    return 0;
}

static int read_dtype(kmf_stored *t, const json_t *entry, const struct place *at, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    const char *word = json_string_value(json_object_get(entry, "dtype"));
    if (!word)
        return kmf_fail(err, KMF_EMODEL, "%s: tensor %s: no dtype", at->file, at->tensor);
    if (kmf_stored_set_dtype(t, word))
        return 0;
    return kmf_fail(err, KMF_EMODEL, "%s: tensor %s: unknown dtype %s", at->file, at->tensor,
                    kmf_err_show(shown, word));
}

static int read_shape(kmf_stored *t, const json_t *entry, const struct place *at, kmf_err *err)
{
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape))
        return kmf_fail(err, KMF_EMODEL, "%s: tensor %s: no shape", at->file, at->tensor);
    if (json_array_size(shape) > KMF_SAFETENSORS_RANK_MAX)
        return kmf_fail(err, KMF_EMODEL, "%s: tensor %s: %zu dimensions, at most %d are read",
                        at->file, at->tensor, json_array_size(shape), KMF_SAFETENSORS_RANK_MAX);
    t->rank = (int)json_array_size(shape);
    t->n = 1;
    for (int i = 0; i < t->rank; i++) {
        const json_t *side = json_array_get(shape, (size_t)i);
        if (read_size(&t->shape[i], side, at, "dimensions", err) < 0)
            return KMF_EMODEL;
        if (!kmf_mul(t->n, t->shape[i], &t->n))
            return kmf_fail(err, KMF_EMODEL, "%s: tensor %s: its shape is too large", at->file,
                            at->tensor);
    }
    if (!kmf_mul(t->n, t->item_bytes, &t->bytes))
        return kmf_fail(err, KMF_EMODEL, "%s: tensor %s: its shape is too large", at->file,
                        at->tensor);
    return 0;
}

static int read_offsets(kmf_stored *t, const json_t *entry, size_t data_len,
                        const struct place *at, kmf_err *err)
{
    const json_t *offsets = json_object_get(entry, "data_offsets");
    size_t end = 0;
    if (!json_is_array(offsets) || json_array_size(offsets) != 2)
        return kmf_fail(err, KMF_EMODEL, "%s: tensor %s: no pair of data_offsets", at->file,
                        at->tensor);
    if (read_size(&t->begin, json_array_get(offsets, 0), at, "data_offsets", err) < 0 ||
        read_size(&end, json_array_get(offsets, 1), at, "data_offsets", err) < 0)
        return KMF_EMODEL;
    if (t->begin > end || end > data_len)
        return kmf_fail(
            err, KMF_EMODEL,
            "%s: tensor %s: data_offsets %zu to %zu, but the file holds %zu bytes of "
            "data",
            at->file, at->tensor, t->begin, end, data_len);
    if (end - t->begin != t->bytes)
        return kmf_fail(err, KMF_EMODEL, "%s: tensor %s: %zu bytes for a shape that needs %zu",
                        at->file, at->tensor, end - t->begin, t->bytes);
    return 0;
}

static int read_entry(kmf_stored *t, const char *key, const json_t *entry, size_t data_len,
                      const char *file, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    struct place at = {file, kmf_err_show(shown, key)};
    t->name = key;
    if (strlen(key) > NAME_MAX_BYTES)
        return kmf_fail(err, KMF_EMODEL, "%s: tensor %s: its name is longer than %d bytes",
                        file, at.tensor, NAME_MAX_BYTES);
    if (!json_is_object(entry))
        return kmf_fail(err, KMF_EMODEL, "%s: tensor %s: must be a JSON object", file,
                        at.tensor);
    if (read_dtype(t, entry, &at, err) < 0 || read_shape(t, entry, &at, err) < 0 ||
        read_offsets(t, entry, data_len, &at, err) < 0)
        return KMF_EMODEL;
    return 0;
}

static int check_metadata(json_t *metadata, const char *file, kmf_err *err)
{
    const char *key;
    json_t *value;
    bool good = json_is_object(metadata);
    json_object_foreach(metadata, key, value)
        good = good && json_is_string(value);
    return good ? 0 : kmf_fail(err, KMF_EMODEL, "%s: __metadata__ must hold texts only", file);
}

/* Empty tensors come before the one that begins at the same place. */
static int by_begin(const void *a, const void *b)
{
    const kmf_stored *x = a;
    const kmf_stored *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int check_cover(const kmf_safetensors *st, const char *file, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    size_t end = 0;
    for (size_t i = 0; i < st->n; i++) {
        const kmf_stored *t = &st->tensors[i];
        if (t->begin < end)
            return kmf_fail(err, KMF_EMODEL,
                            "%s: tensor %s: its data overlaps another tensor's", file,
                            kmf_err_show(shown, t->name));
        if (t->begin > end)
            return kmf_fail(err, KMF_EMODEL,
                            "%s: tensor %s: %zu bytes before its data belong to "
                            "no tensor",
                            file, kmf_err_show(shown, t->name), t->begin - end);
        end += t->bytes;
    }
    if (end != st->data_len)
        return kmf_fail(err, KMF_EMODEL, "%s: %zu bytes at its end belong to no tensor", file,
                        st->data_len - end);
    return 0;
}

static int read_entries(kmf_safetensors *st, const char *file, kmf_err *err)
{
    const char *key;
    json_t *entry;
    st->tensors = kmf_calloc(json_object_size(st->header), sizeof *st->tensors, err);
    if (!st->tensors)
        return KMF_ENOMEM;
    json_object_foreach((json_t *)st->header, key, entry) {
        bool metadata = strcmp(key, "__metadata__") == 0;
        int rc = metadata
                     ? check_metadata(entry, file, err)
                     : read_entry(&st->tensors[st->n], key, entry, st->data_len, file, err);
        if (rc < 0)
            return rc;
        st->n += !metadata;
    }
    qsort(st->tensors, st->n, sizeof *st->tensors, by_begin);
    int rc = check_cover(st, file, err);
    for (size_t i = 0; i < st->n; i++)
        st->tensors[i].values = st->data + st->tensors[i].begin;
    qsort(st->tensors, st->n, sizeof *st->tensors, kmf_stored_compare);
    return rc;
}

/* A header's length has its upper bytes 0, which no text has, and JSON follows. */
bool kmf_safetensors_begins(const unsigned char *bytes, size_t len)
{
    return len > 8 && bytes[8] == '{' && kmf_le_load64(bytes) <= KMF_SAFETENSORS_HEADER_MAX;
}

int kmf_safetensors_parse(kmf_safetensors *st, const unsigned char *bytes, size_t len,
                          const char *name, kmf_err *err)
{
    *st = (kmf_safetensors){0};
    if (len < 8)
        return kmf_fail(err, KMF_EMODEL, "%s: %zu bytes are too short for a safetensors file",
                        name, len);
    uint64_t n = kmf_le_load64(bytes);
    if (n > KMF_SAFETENSORS_HEADER_MAX)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: not a safetensors file: its header would be %" PRIu64
                        " bytes long, more than %zu",
                        name, n, KMF_SAFETENSORS_HEADER_MAX);
    if (n > len - 8)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: cut off: a header of %" PRIu64 " bytes in a file of %zu", name, n,
                        len);
    if (n == 0 || bytes[8] != '{')
        return kmf_fail(err, KMF_EMODEL,
                        "%s: not a safetensors file: its header does not begin with '{'", name);
    st->data = bytes + 8 + n;
    st->data_len = len - 8 - (size_t)n;
    err = kmf_err_or(err, &(kmf_err){0});
    st->header = kmf_json_parse((const char *)bytes + 8, (size_t)n, name, err);
    if (!st->header)
        return (int)err->code;
    int rc = read_entries(st, name, err);
    if (rc < 0)
        kmf_safetensors_free(st);
    return rc;
}

void kmf_safetensors_free(kmf_safetensors *st)
{
    json_decref(st->header);
    kmf_free(st->tensors);
    *st = (kmf_safetensors){0};
}

const kmf_stored *kmf_safetensors_find(const kmf_safetensors *st, const char *name)
{
    return kmf_stored_find(st->tensors, st->n, name);
}

const char *kmf_safetensors_metadata(const kmf_safetensors *st, const char *key)
{
    return json_string_value(json_object_get(json_object_get(st->header, "__metadata__"), key));
}

void kmf_stored_to_f32(float *to, const unsigned char *bytes, kmf_dtype dtype, size_t n)
{
    switch (dtype) {
    case KMF_F16:
        for (size_t i = 0; i < n; i++)
            to[i] = kmf_f16_to_f32(kmf_le_load16(bytes + 2 * i));
        break;
    case KMF_BF16:
        for (size_t i = 0; i < n; i++)
            to[i] = kmf_bf16_to_f32(kmf_le_load16(bytes + 2 * i));
        break;
    case KMF_F32:
        for (size_t i = 0; i < n; i++)
            to[i] = kmf_float_of(kmf_le_load32(bytes + 4 * i));
        break;
    case KMF_I8:
        for (size_t i = 0; i < n; i++)
            to[i] = (float)((int)(bytes[i] ^ 0x80u) - 0x80);
        break;
    case KMF_F64:
        for (size_t i = 0; i < n; i++) {
            uint64_t bits = kmf_le_load64(bytes + 8 * i);
            double wide;
            memcpy(&wide, &bits, sizeof bits);
            to[i] = (float)wide;
        }
        break;
    }
}

/* ---- writing ----------------------------------------------------------------------------- */

/* Owned by the caller; NULL when memory ran out. */
static json_t *entry_of(const kmf_stored *t)
{
    json_t *shape = json_array();
    size_t end = t->begin + t->bytes;
    int bad = 0;
    for (int i = 0; i < t->rank; i++)
        bad |= json_array_append_new(shape, json_integer((json_int_t)t->shape[i]));
    json_t *entry = bad ? NULL
                        : json_pack("{s:s, s:O, s:[I, I]}", "dtype", t->dtype, "shape", shape,
                                    "data_offsets", (json_int_t)t->begin, (json_int_t)end);
    json_decref(shape);
    return entry;
}

static int put_text(json_t *metadata, const char *key, const char *text, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    if (json_object_set_new(metadata, key, json_string(text)) == 0)
        return 0;
    /* for its bytes, or for want of memory? */
    char *fit = kmf_json_fit(text, err);
    char *fit_key = fit ? kmf_json_fit(key, err) : NULL;
    int rc = KMF_ENOMEM;
    if (fit_key && (strcmp(fit, text) != 0 || strcmp(fit_key, key) != 0))
        rc = kmf_fail(err, KMF_EINVAL, "%s: not UTF-8, as the texts of safetensors must be",
                      kmf_err_show(shown, key));
    else
        kmf_fail(err, KMF_ENOMEM, "out of memory");
    kmf_free(fit);
    kmf_free(fit_key);
    return rc;
}

/* The JSON text of the header; NULL on failure. */
static char *header_text(const kmf_stored *tensors, size_t n, const char *const *pairs,
                         size_t n_pairs, kmf_err *err)
{
    char *text = NULL;
    json_t *root = json_object();
    json_t *metadata = json_object();
    int bad = 0;
    bad |= json_object_set_new(metadata, "format", json_string("pt"));
    for (size_t i = 0; i < n_pairs; i++)
        bad |= put_text(metadata, pairs[2 * i], pairs[2 * i + 1], err);
    bad |= json_object_set(root, "__metadata__", metadata);
    for (size_t i = 0; i < n && !bad; i++)
        bad |= json_object_set_new(root, tensors[i].name, entry_of(&tensors[i]));
    if (bad)
        kmf_fail(err, KMF_ENOMEM, "out of memory");
    else
        text = kmf_json_text(root, JSON_COMPACT, err);
    json_decref(metadata);
    json_decref(root);
    return text;
}

char *kmf_safetensors_header(const kmf_stored *tensors, size_t n, const char *const *pairs,
                             size_t n_pairs, size_t *len_bytes, kmf_err *err)
{
    char *header = NULL;
    char *text = header_text(tensors, n, pairs, n_pairs, err);
    if (!text)
        return NULL;
    size_t len = strlen(text);
    size_t whole = kmf_round_up(8 + len, ALIGN);
    if (whole - 8 > KMF_SAFETENSORS_HEADER_MAX)
        kmf_fail(err, KMF_EINVAL, "a safetensors header of %zu bytes: at most %zu are read",
                 whole - 8, KMF_SAFETENSORS_HEADER_MAX);
    else
        header = kmf_malloc(whole, 1, err);
    if (header) {
        kmf_le_store64((unsigned char *)header, whole - 8);
        memcpy(header + 8, text, len);
        memset(header + 8 + len, ' ', whole - 8 - len);
        *len_bytes = whole;
    }
    kmf_free(text);
    return header;
}

/* One value as stored; false if it is finite but would not be. */
static bool store(unsigned char *to, float value, kmf_dtype dtype)
{
    uint32_t bits;
    size_t n = 2;
    bool lost = false;
    if (dtype == KMF_F16) {
        bits = kmf_f16_from_f32(value);
        lost = (bits & 0x7c00u) == 0x7c00u && isfinite(value);
    } else if (dtype == KMF_BF16) {
        bits = kmf_bf16_from_f32(value);
        lost = (bits & 0x7f80u) == 0x7f80u && isfinite(value);
    } else {
        bits = kmf_bits_of(value);
        n = 4;
    }
    for (size_t i = 0; i < n; i++)
        to[i] = (unsigned char)(bits >> 8 * i & 0xff);
    return !lost;
}

static int write_tensor(kmf_out *out, const kmf_stored *t, const float *values, kmf_dtype dtype,
                        kmf_err *err)
{
    unsigned char block[BLOCK * sizeof(float)];
    for (size_t i = 0; i < t->n;) {
        size_t n = kmf_min(t->n - i, BLOCK);
        for (size_t j = 0; j < n; j++)
            if (!store(block + j * t->item_bytes, values[i + j], dtype))
                return kmf_fail(err, KMF_ENUMERIC, "tensor %s: %g is too large for %s", t->name,
                                (double)values[i + j], t->dtype);
        int rc = kmf_out_write(out, block, n * t->item_bytes, err);
        if (rc < 0)
            return rc;
        i += n;
    }
    return 0;
}

/* Puts the tensors one behind another; dtype is set to a name of the table. */
static void place(kmf_stored *tensors, size_t n)
{
    size_t begin = 0;
    for (size_t i = 0; i < n; i++) {
        kmf_stored *t = &tensors[i];
        bool known = kmf_stored_set_dtype(t, t->dtype);
        assert(known);
        (void)known;
        t->n = 1;
        for (int d = 0; d < t->rank; d++)
            t->n *= t->shape[d];
        t->bytes = t->n * t->item_bytes;
        t->begin = begin;
        begin += t->bytes;
    }
}

static int write_numbers(kmf_out *out, const uint64_t *values, size_t n, kmf_err *err)
{
    unsigned char block[BLOCK * sizeof(uint64_t)];
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i += BLOCK) {
        size_t m = kmf_min(n - i, BLOCK);
        for (size_t j = 0; j < m; j++)
            kmf_le_store64(block + j * sizeof(uint64_t), values[i + j]);
        rc = kmf_out_write(out, block, m * sizeof(uint64_t), err);
    }
    return rc;
}

int kmf_safetensors_write(kmf_out *out, kmf_stored *tensors, const void *const *values,
                          size_t n, const char *const *pairs, size_t n_pairs, kmf_err *err)
{
    size_t len = 0;
    place(tensors, n);
    err = kmf_err_or(err, &(kmf_err){0});
    char *header = kmf_safetensors_header(tensors, n, pairs, n_pairs, &len, err);
    if (!header)
        return (int)err->code;
    int rc = kmf_out_write(out, header, len, err);
    kmf_free(header);
    for (size_t i = 0; i < n && rc == 0; i++) {
        const kmf_stored *t = &tensors[i];
        if (strcmp(t->dtype, "U64") == 0)
            rc = write_numbers(out, values[i], t->n, err);
        else if (t->item_bytes == 1)
            rc = kmf_out_write(out, values[i], t->n, err);
        else
            rc = write_tensor(out, t, values[i], (kmf_dtype)kmf_stored_dtype(t), err);
    }
    return rc;
}
