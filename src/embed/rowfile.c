/* SPDX-License-Identifier: MIT */
/*
 * Vectors that were made before, read back row by row, or block after block for another output:
 * the lines of x.ids.tsv by the caller's thread, then the vectors of some rows by each thread, into
 * what the output stores of them, then the rows in their order.
 */
#include "base/crc.h"
#include "base/err.h"
#include "base/fmt.h"
#include "base/mem.h"
#include "embed/mapped.h"
#include "embed/output.h"
#include "embed/provenance.h"
#include "embed/rowfile.h"
#include "embed/sidecar.h"
#include "seq/par.h"
#include "seq/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct kmf_row_file {
    char *path; /* owned */
    kmf_mapped_rows rows;
    kmf_ids ids;
    bool named;
    json_t *json;                   /* owned; NULL: there is none */
    uint64_t at;                    /* the row that is next */
    float *vector;                  /* owned [dim] */
    char number[KMF_UINT_TEXT + 1]; /* in place of a name */
};

/* ---------------------------------------------------------------- a file ---------------- */

int kmf_is_row_file(const char *path)
{
    char magic[6];
    struct stat st;
    if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    FILE *file = fopen(path, "rb");
    bool is = file && fread(magic, 1, sizeof magic, file) == sizeof magic &&
              memcmp(magic, "\x93NUMPY", sizeof magic) == 0;
    if (file)
        fclose(file);
    return is;
}

static int open_all(kmf_row_file *f, const char *path, kmf_err *err)
{
    f->path = kmf_strdup(path, err);
    if (!f->path)
        return KMF_ENOMEM;
    int status = kmf_mapped_rows_open(&f->rows, f->path, err);
    if (status == 0)
        status = kmf_ids_open(&f->ids, f->path, err);
    if (status < 0)
        return status;
    f->named = status > 0;
    status = kmf_provenance_beside(&f->json, f->path, f->rows.dim, err);
    f->vector = status < 0 ? NULL : kmf_floats(f->rows.dim, err);
    return status < 0 ? status : f->vector ? 0 : KMF_ENOMEM;
}

kmf_row_file *kmf_row_file_open(const char *path, kmf_err *err)
{
    kmf_row_file *f = kmf_calloc(1, sizeof *f, err);
    if (!f || open_all(f, path, err) == 0)
        return f;
    kmf_row_file_close(f);
    return NULL;
}

void kmf_row_file_close(kmf_row_file *file)
{
    if (!file)
        return;
    kmf_mapped_rows_close(&file->rows);
    kmf_ids_close(&file->ids);
    json_decref(file->json);
    kmf_free(file->vector);
    kmf_free(file->path);
    kmf_free(file);
}

/* NULL: nothing tells it, or how it was asked. */
static const char *model_of(const kmf_row_file *f)
{
    return json_is_object(json_object_get(f->json, "settings"))
               ? json_string_value(json_object_get(json_object_get(f->json, "model"), "name"))
               : NULL;
}

/* By the names beside, or where these are missing by the settings. */
static bool is_per_token(const kmf_row_file *f)
{
    const char *pooling =
        json_string_value(json_object_get(json_object_get(f->json, "settings"), "pooling"));
    return f->ids.per_token ||
           (pooling && strcmp(pooling, kmf_pooling_names[KMF_POOL_NONE]) == 0);
}

void kmf_row_file_information(const kmf_row_file *file, kmf_row_file_info *info)
{
    *info = (kmf_row_file_info){.n = file->rows.n,
                                .dim = file->rows.dim,
                                .element_bytes = (int)file->rows.element_bytes,
                                .named = file->named,
                                .per_token = is_per_token(file),
                                .model = model_of(file)};
}

char *kmf_row_file_identity(const kmf_row_file *file, kmf_err *err)
{
    static const char *const keys[] = {"model", "settings"};
    json_t *json =
        json_pack("{s:{s:o}, s:{}, s:I}", "model", "name", kmf_json_of_text(file->path),
                  "settings", "columns", (json_int_t)file->rows.dim);
    for (size_t i = 0; model_of(file) && i < sizeof keys / sizeof keys[0]; i++)
        json = kmf_json_with(json, keys[i], json_copy(json_object_get(file->json, keys[i])));
    char *text = json ? kmf_json_text(json, JSON_COMPACT, err) : NULL;
    if (!json)
        kmf_fail(err, KMF_ENOMEM, "out of memory: no provenance could be made");
    json_decref(json);
    return text;
}

int kmf_row_file_check(const kmf_row_file *file, const char *identity, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    const char *whose;
    const json_t *values[2];
    int status = 0;
    json_t *wanted = kmf_json_parse(identity, strlen(identity), "embedder", err);
    if (!wanted)
        return KMF_EMODEL;
    json_int_t columns = json_integer_value(json_object_get(wanted, "columns"));
    const char *key =
        model_of(file) ? kmf_identity_difference(wanted, file->json, &whose, values) : NULL;
    if (key)
        status =
            kmf_fail_difference(file->path, "its vectors are not those that are wanted", whose,
                                kmf_err_show(shown, key), values[0], values[1], err);
    else if (columns != (json_int_t)file->rows.dim)
        status =
            kmf_fail(err, KMF_EMODEL, "%s: it has %zu columns, and not %" JSON_INTEGER_FORMAT,
                     file->path, file->rows.dim, columns);
    json_decref(wanted);
    return status;
}

int kmf_row_file_check_records(const kmf_row_file *file, kmf_err *err)
{
    if (!is_per_token(file))
        return 0;
    return kmf_fail(err, KMF_EMODEL, "%s: it has a row for each token, not for each record",
                    file->path);
}

int kmf_row_file_check_alike(const kmf_row_file *file, const kmf_row_file *other, kmf_err *err)
{
    if (file->rows.dim != other->rows.dim)
        return kmf_fail(err, KMF_EMODEL, "%s: it has %zu columns, and %s has %zu", file->path,
                        file->rows.dim, other->path, other->rows.dim);
    if (!model_of(other))
        return 0;
    char *identity = kmf_row_file_identity(other, err);
    int status = identity ? kmf_row_file_check(file, identity, err) : KMF_ENOMEM;
    kmf_free(identity);
    return status;
}

/* ---------------------------------------------------------------- rows ------------------ */

static int fail_count(const kmf_row_file *f, const char *what, kmf_err *err)
{
    return kmf_fail(err, KMF_EMODEL, "%s: it has %s lines than %s has rows", f->ids.path, what,
                    f->path);
}

/* 1: there are numbers; 0: all are NaN, as of a record without a vector; KMF_ENUMERIC. */
static int read_vector(const kmf_row_file *f, uint64_t row, float *x, kmf_err *err)
{
    size_t dim = f->rows.dim;
    size_t missing = 0, at = 0;
    if (kmf_mapped_rows_read(&f->rows, row, x))
        return 1;
    for (size_t j = 0; j < dim; j++)
        missing += isnan(x[j]) != 0;
    if (missing == dim)
        return 0;
    while (isfinite(x[at]))
        at++;
    return kmf_fail(err, KMF_ENUMERIC, "%s: row %" PRIu64 ": column %zu is %s", f->path,
                    row + 1, at + 1, isnan(x[at]) ? "no number" : "infinite in float32");
}

int kmf_row_file_line(kmf_row_file *f, kmf_row *row, kmf_err *err)
{
    bool over = f->at == f->rows.n;
    int got = f->named ? kmf_ids_next(&f->ids, err) : !over;
    *row = (kmf_row){.index = f->at, .name = f->number, .position = -1};
    if (got < 0)
        return got;
    if (over)
        return got ? fail_count(f, "more", err) : kmf_map_check(&f->rows.map, err);
    if (!got)
        return fail_count(f, "fewer", err);
    f->at++;
    if (f->named)
        got = kmf_ids_row(&f->ids, row, err);
    else
        f->number[kmf_format_uint(f->number, f->at)] = '\0';
    return got < 0 ? got : 1;
}

int kmf_row_file_next(kmf_row_file *file, kmf_row *row, kmf_err *err)
{
    int got = kmf_row_file_line(file, row, err);
    if (got <= 0)
        return got;
    row->vector = file->vector;
    got = read_vector(file, file->at - 1, file->vector, err);
    return got < 0 ? got : 1;
}

uint64_t kmf_row_file_at(const kmf_row_file *file)
{
    return file->at;
}

int kmf_row_file_vector(const kmf_row_file *file, uint64_t row, float *x, kmf_err *err)
{
    int got = read_vector(file, row, x, err);
    return got < 0 ? got : 0;
}

uint32_t kmf_row_file_checksum(const kmf_row_file *file, uint32_t sum, uint64_t first,
                               uint64_t n)
{
    const kmf_mapped_rows *rows = &file->rows;
    size_t each = rows->dim * rows->element_bytes;
    return kmf_crc32(sum, rows->map.bytes + rows->begin + (size_t)first * each,
                     (size_t)n * each);
}

int kmf_row_file_check_bytes(const kmf_row_file *file, kmf_err *err)
{
    return kmf_map_check(&file->rows.map, err);
}

/* ---------------------------------------------------------------- to an output ---------- */

#define BLOCK ((size_t)1024) /* rows at most */
#define BLOCK_NUMBERS ((size_t)4 << 20)
#define PART ((size_t)32) /* rows that a thread makes at a time */

typedef struct copying {
    kmf_row_file *file; /* borrowed, as the output */
    kmf_output *output;
    kmf_rowstore store;
    uint64_t first;      /* row of the file, counted in the store from its first one here */
    uint64_t done;       /* rows that went to the output */
    size_t most, n;      /* rows of a block, and of the one at hand */
    kmf_row rows[BLOCK]; /* their names are places in the text until it is whole */
    size_t names[BLOCK];
    bool missing[BLOCK]; /* has no vector */
    kmf_text text;       /* owned */
    float *x;            /* owned [most, dim] */
} copying;

/* The lines of the next block. */
static int read_block(copying *c, kmf_err *err)
{
    int got = 0;
    c->first = c->file->at;
    c->text.len = 0;
    for (c->n = 0; c->n < c->most; c->n++) {
        kmf_row *row = &c->rows[c->n];
        got = kmf_row_file_line(c->file, row, err);
        if (got <= 0)
            break;
        c->names[c->n] = c->text.len;
        got = kmf_text_append(&c->text, row->name, strlen(row->name) + 1, err);
        if (got < 0)
            break;
    }
    for (size_t i = 0; i < c->n; i++)
        c->rows[i].name = c->text.bytes + c->names[i];
    return got < 0 ? got : 0;
}

/* A kmf_item_fn: the vectors of a part of the block. */
static int make_part(void *arg, size_t part, int worker, kmf_err *err)
{
    copying *c = arg;
    size_t dim = c->file->rows.dim;
    size_t beg = part * PART;
    size_t end = kmf_min(beg + PART, c->n);
    (void)worker;
    for (size_t i = beg; i < end; i++) {
        float *x = c->x + i * dim;
        int got = read_vector(c->file, c->first + i, x, err);
        if (got < 0)
            return got;
        c->missing[i] = got == 0;
        c->rows[i].vector = x;
    }
    int status = c->store.fn(c->store.user, c->done + beg, c->x + beg * dim, end - beg, err);
    for (size_t i = beg; i < end && status > 0; i++)
        c->rows[i].vector = NULL;
    return status < 0 ? status : 0;
}

static int write_block(copying *c, kmf_embed_stats *stats, kmf_err *err)
{
    int status = 0;
    for (size_t i = 0; i < c->n && status == 0; i++) {
        const kmf_row *row = &c->rows[i];
        status = kmf_output_row(c->output, row, err);
        if (status < 0)
            break;
        stats->records++;
        stats->bases += row->len;
        stats->tokens += row->tokens;
        stats->ambiguous += row->ambiguous;
        stats->chunked += row->chunks > 1;
        stats->empty += c->missing[i];
    }
    c->done += c->n;
    return status;
}

int kmf_row_file_copy(kmf_row_file *file, kmf_output *output, kmf_pool *pool,
                      kmf_embed_stats *stats, kmf_progress_fn *fn, void *user, kmf_err *err)
{
    size_t dim = file->rows.dim;
    const kmf_output_form *form = kmf_output_form_of(output);
    size_t most = kmf_min(BLOCK, kmf_round_up(BLOCK_NUMBERS / dim, PART) + PART);
    if (form->dim != dim || form->per_token || is_per_token(file))
        return kmf_fail(err, KMF_EINVAL,
                        "%s: it and the output have to have a row of as many columns for each "
                        "record",
                        file->path);
    copying *c = kmf_calloc(1, sizeof *c, err);
    float *x = kmf_floats(most * dim, err);
    int status = c && x ? 0 : KMF_ENOMEM;
    if (status == 0) {
        if (pool)
            kmf_output_share(output, pool, true);
        *c = (copying){.file = file,
                       .output = output,
                       .most = most,
                       .x = x,
                       .store = kmf_output_store(output)};
    }
    while (status == 0) {
        status = read_block(c, err);
        if (status < 0 || c->n == 0)
            break;
        status = kmf_pool_each(pool, kmf_div_up(c->n, PART), make_part, c, err);
        if (status == 0)
            status = write_block(c, stats, err);
        if (status == 0 && fn)
            fn(user, file->at);
    }
    if (c)
        kmf_free(c->text.bytes);
    kmf_free(c);
    kmf_free(x);
    return status;
}
