/* SPDX-License-Identifier: MIT */
/*
 * k-mer vectors from files and to files.
 *
 * A file is mapped if it can be; what cannot (standard input, a pipe, a gzip file) is taken into
 * memory as a whole. Text and binary know nothing of counts: they stand in a file of their own,
 * "path.vocab", which is read if it is there, so a file is never written that would leave counts of
 * other vectors beside it. Both get their names, or none does.
 */
#include "model/vectorfile.h"

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/out.h"
#include "model/safetensors.h"
#include "seq/bytes.h"

#include <string.h>
#include <unistd.h>

const char *const kmf_vectors_format_names[] = {"safetensors", "text", "binary", NULL};

/* ---------------------------------------------------------------- loading ---------------- */

/* The bytes of a file. */
typedef struct content {
    const unsigned char *bytes;
    size_t len;
    kmf_map map;           /* owned; of a file */
    unsigned char *buffer; /* owned; what a gzip file or a stream holds. NULL: it is map */
} content;

static void content_free(content *c)
{
    kmf_map_close(&c->map);
    kmf_free(c->buffer);
    *c = (content){0};
}

static int append_all(content *c, kmf_bytes *from, const char *name, kmf_err *err)
{
    const char *block;
    size_t n;
    size_t cap = 0;
    kmf_err cause = {0};
    int status;
    while ((status = kmf_bytes_next(from, &block, &n, &cause)) > 0) {
        if (kmf_grow(&c->buffer, &cap, c->len + n, 1, err) < 0)
            return KMF_ENOMEM;
        memcpy(c->buffer + c->len, block, n);
        c->len += n;
    }
    c->bytes = c->buffer;
    if (status < 0) /* a damaged file is one that does not fit */
        return kmf_fail(err, status == KMF_EFORMAT ? KMF_EMODEL : cause.code, "%s: %s", name,
                        cause.msg);
    return 0;
}

static bool is_gzip(const kmf_map *map)
{
    return map->len > 2 && map->bytes[0] == 0x1f && map->bytes[1] == 0x8b;
}

/* mapped: only a file will do. */
static int content_read(content *c, const char *path, const char *name, bool mapped,
                        kmf_err *err)
{
    struct hFILE *file;
    err = kmf_err_or(err, &(kmf_err){0});
    if (mapped || kmf_out_is_file(path)) {
        int status = kmf_map_open(&c->map, path, err);
        if (status == 0 && !is_gzip(&c->map)) {
            c->bytes = c->map.bytes;
            c->len = c->map.len;
        }
        if (status < 0 || !is_gzip(&c->map))
            return status;
        file = kmf_input_memory(c->map.bytes, c->map.len, err);
    } else {
        file = kmf_input_open(path, err);
    }
    kmf_bytes *from = file ? kmf_bytes_open(file, -1, NULL, err) : NULL;
    if (!from)
        return (int)err->code;
    int status = append_all(c, from, name, err);
    kmf_bytes_close(from);
    return status;
}

kmf_vectors *kmf_vectors_parse(const void *bytes, size_t len, const char *name, kmf_err *err)
{
    if (len == 0) {
        kmf_fail(err, KMF_EMODEL, "%s: an empty file", name);
        return NULL;
    }
    if (kmf_safetensors_begins(bytes, len))
        return kmf_vectortensors_read(bytes, len, name, err);
    return kmf_vectortext_read(bytes, len, name, err);
}

/* Counts from "path.vocab", if it is there. */
static int load_counts(kmf_vectors *v, content *c, const char *path, bool mapped, kmf_err *err)
{
    char *name = kmf_strprintf(err, "%s.vocab", path);
    if (!name)
        return KMF_ENOMEM;
    int status = kmf_file_there(name, err);
    if (status == 1) {
        status = content_read(c, name, name, mapped, err);
        if (status == 0)
            status = kmf_vectorcounts_read(v, (const char *)c->bytes, c->len, name, err);
    }
    kmf_free(name);
    return status;
}

/* The contents are zeroed, and the caller's to free. */
static kmf_vectors *load(content *c, content *counts, const char *path, bool mapped,
                         kmf_err *err)
{
    const char *name = kmf_input_name(path);
    if (content_read(c, path, name, mapped, err) < 0)
        return NULL;
    bool plain = !kmf_safetensors_begins(c->bytes, c->len);
    kmf_vectors *v = kmf_vectors_parse(c->bytes, c->len, name, err);
    if (v && plain && kmf_out_is_file(path) && load_counts(v, counts, path, mapped, err) < 0) {
        kmf_vectors_free(v);
        return NULL;
    }
    return v;
}

kmf_vectors *kmf_vectors_load(const char *path, kmf_err *err)
{
    content c = {0};
    content counts = {0};
    kmf_vectors *v = load(&c, &counts, path, false, err);
    content_free(&c);
    content_free(&counts);
    return v;
}

/* The map is the caller's now. */
static kmf_map give(content *c)
{
    kmf_map map = c->map;
    c->map = (kmf_map){0};
    content_free(c);
    return map;
}

kmf_vectors *kmf_vectors_load_maps(const char *path, kmf_map *file, kmf_map *counts,
                                   kmf_err *err)
{
    content c = {0};
    content beside = {0};
    kmf_vectors *v = load(&c, &beside, path, true, err);
    *file = give(&c);
    *counts = give(&beside);
    return v;
}

/* ---------------------------------------------------------------- saving ----------------- */

static int write_vectors(const kmf_vectors *v, kmf_vectors_format format,
                         const char *provenance, kmf_out *out, kmf_err *err)
{
    switch (format) {
    case KMF_VECTORS_TEXT:
        return kmf_vectortext_write(v, out, err);
    case KMF_VECTORS_BINARY:
        return kmf_vectorbinary_write(v, out, err);
    case KMF_VECTORS_SAFETENSORS:
        break;
    }
    return kmf_vectortensors_write(v, provenance ? provenance : v->provenance, out, err);
}

/* Writes vectors and, if beside is not NULL, counts of that name; publishes them behind first. */
static int save_all(const kmf_vectors *v, const char *path, const char *beside,
                    kmf_vectors_format format, const char *provenance, kmf_out *first,
                    kmf_err *err)
{
    kmf_out *out = kmf_out_open(path, err);
    kmf_out *counts = out && beside ? kmf_out_open(beside, err) : NULL;
    int status = out && (counts || !beside) ? 0 : (int)err->code;
    if (status == 0)
        status = write_vectors(v, format, provenance, out, err);
    if (status == 0 && counts)
        status = kmf_vectorcounts_write(v, counts, err);
    if (status == 0)
        status = kmf_out_finish(out, err);
    if (status == 0 && counts)
        status = kmf_out_finish(counts, err);
    kmf_out *files[3];
    size_t n = 0;
    if (first)
        files[n++] = first;
    if (counts)
        files[n++] = counts;
    files[n++] = out;
    if (status == 0)
        status = kmf_out_publish_all(files, n, err);
    kmf_out_free(counts);
    kmf_out_free(out);
    return status;
}

int kmf_vectors_save_with(const kmf_vectors *vectors, const char *path,
                          kmf_vectors_format format, const char *provenance, kmf_out *first,
                          kmf_err *err)
{
    char *beside = NULL;
    err = kmf_err_or(err, &(kmf_err){0});
    if ((unsigned)format > KMF_VECTORS_BINARY)
        return kmf_fail(err, KMF_EINVAL, "there is no format number %d", (int)format);
    if (strcmp(path, "-") == 0 && format != KMF_VECTORS_TEXT)
        return kmf_fail(err, KMF_EINVAL, "%s vectors are not written to standard output",
                        kmf_vectors_format_names[format]);
    if (format != KMF_VECTORS_SAFETENSORS && kmf_out_is_file(path)) {
        beside = kmf_strprintf(err, "%s.vocab", path);
        if (!beside)
            return KMF_ENOMEM;
        if (!vectors->info.counted && access(beside, F_OK) == 0) {
            int status =
                kmf_fail(err, KMF_EIO,
                         "%s: would be read as counts of the vectors, which have none: "
                         "remove it or choose another name",
                         beside);
            kmf_free(beside);
            return status;
        }
    }
    int status = save_all(vectors, path, vectors->info.counted ? beside : NULL, format,
                          provenance, first, err);
    kmf_free(beside);
    return status;
}

int kmf_vectors_save(const kmf_vectors *vectors, const char *path, kmf_vectors_format format,
                     const char *provenance, kmf_err *err)
{
    return kmf_vectors_save_with(vectors, path, format, provenance, NULL, err);
}
