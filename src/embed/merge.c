/* SPDX-License-Identifier: MIT */
/*
 * Shards back to one output.
 *
 * Shard I of N holds the records I, I + N, I + 2N, ... and its .ids.tsv names the record of
 * every row, so putting them together is a merge by record number. Rows and lines are copied as
 * bytes: the result is what the unsharded run writes. A record number that does not come when it
 * must means that a shard is short, and nothing is written.
 */
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "embed/mapped.h"
#include "embed/output.h"
#include "embed/provenance.h"
#include "embed/sidecar.h"
#include "nn/gemm.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define LINE_STEP ((size_t)4096)
#define TELL ((uint64_t)4096) /* records from one call of the progress function to the next */

typedef struct line {
    char *text; /* owned */
    size_t cap;
    size_t len; /* with its newline */
} line;

typedef struct shard {
    const char *path;      /* borrowed */
    json_t *json;          /* owned */
    size_t number, count;  /* of those of its run */
    kmf_ids ids;           /* owned */
    kmf_mapped_rows array; /* owned; of .npy */
    gzFile table;          /* owned; of text, which may be compressed; NULL: an array */
    line line;             /* of it */
    uint64_t at;           /* the row of the array that comes next */
    const char *row;       /* borrowed [row_len]; the row at hand, its bytes */
    size_t row_len;
    const char *id_line; /* borrowed [id_len]; its line of ids */
    size_t id_len;
    uint64_t index; /* record of that line */
    bool ended;
} shard;

typedef struct merge {
    shard *shards; /* owned [n], by shard number after checking */
    size_t n;
    uint64_t n_records; /* in all, as the shards' .json say */
    bool npy;
    bool per_token;
    size_t dim;
    size_t element_bytes;
    size_t n_tabs;             /* of text, in the first row; 0 before it */
    kmf_merge_progress_fn *fn; /* may be NULL */
    void *user;
} merge;

static int open_array(shard *s, kmf_err *err)
{
    int status = kmf_mapped_rows_open(&s->array, s->path, err);
    if (status == 0 && s->array.element_bytes > sizeof(float))
        status =
            kmf_fail(err, KMF_EMODEL, "%s: an array of float64: embed writes none", s->path);
    return status;
}

static int open_files(shard *s, bool npy, kmf_err *err)
{
    int status = kmf_ids_open(&s->ids, s->path, err);
    if (status == 0) {
        char *name = kmf_companion(s->path, ".ids.tsv", err);
        status = name ? kmf_fail(err, KMF_EIO, "%s: %s", name, strerror(ENOENT)) : KMF_ENOMEM;
        kmf_free(name);
    }
    if (status < 0)
        return status;
    if (npy)
        return open_array(s, err);
    errno = 0;
    s->table = gzopen(s->path, "rb");
    return s->table
               ? 0
               : kmf_fail(err, KMF_EIO, "%s: %s", s->path, strerror(errno ? errno : ENOMEM));
}

static int read_provenance(shard *s, kmf_err *err)
{
    char *name = kmf_companion(s->path, ".json", err);
    if (!name)
        return KMF_ENOMEM;
    if (access(name, F_OK) != 0)
        kmf_fail(err, KMF_EIO,
                 "%s: %s: shards are joined by what embed -o FILE writes beside them", name,
                 strerror(errno));
    else
        s->json = kmf_provenance_read(s->path, name, kmf_ends_with(s->path, ".npy"), err);
    int status = s->json ? 0 : (int)err->code;
    if (status == 0) {
        const json_t *place = json_object_get(s->json, "shard");
        int a =
            place ? kmf_json_size(&s->count, place, "count", 1, SIZE_MAX / 2, name, err) : 0;
        int b =
            a > 0 ? kmf_json_size(&s->number, place, "index", 0, s->count - 1, name, err) : a;
        if (b < 0)
            status = b;
        else if (b == 0)
            status = kmf_fail(err, KMF_EMODEL, "%s: it does not say which shard it belongs to",
                              name);
    }
    kmf_free(name);
    return status;
}

/* Do two runs agree in this value? A model that is told by digests may have another name. */
static bool agree(const json_t *one, const json_t *other, const char *key)
{
    json_t *a = json_object_get(one, key);
    json_t *b = json_object_get(other, key);
    if (json_object_get(a, "md5") || json_object_get(a, "config_md5"))
        return b && !kmf_json_difference(a, b, "name");
    return json_equal(a, b) || (!a && !b);
}

/* Do products that are computed as these two runs say give the same bits? None is as good. */
static bool same_products(const json_t *one, const json_t *other)
{
    const char *a = json_string_value(json_object_get(one, "products"));
    const char *b = json_string_value(json_object_get(other, "products"));
    const char *precision =
        json_string_value(json_object_get(json_object_get(one, "settings"), "precision"));
    if (!precision || !a || !b) /* what has no precision has no products */
        return !precision || agree(one, other, "products");
    kmf_precision p = KMF_PRECISION_F32;
    while (p < KMF_PRECISION_AUTO && strcmp(precision, kmf_precision_names[p]) != 0)
        p++;
    return kmf_gemm_same(a, b, p);
}

static int by_number(const void *a, const void *b)
{
    const shard *one = a, *other = b;
    return one->number != other->number ? (one->number > other->number ? 1 : -1)
                                        : strcmp(one->path, other->path);
}

/* The shards are in order, and none of them is there twice. */
static int fail_missing(const merge *m, kmf_err *err)
{
    char list[128] = "";
    size_t count = m->shards[0].count;
    size_t told = 0, at = 0, len = 0;
    for (size_t i = 0; told < 4 && i < count; i++) {
        if (at < m->n && m->shards[at].number == i) {
            at++;
            continue;
        }
        len += (size_t)snprintf(list + len, sizeof list - len, "%s%zu", told ? ", " : "", i);
        told++;
    }
    return kmf_fail(err, KMF_EMODEL, "%zu of %zu shards were given; there is no shard %s%s",
                    m->n, count, list, count - m->n > told ? ", .." : "");
}

/*
 * What two runs differ in; NULL: they are the same, whatever their inputs were called, for their
 * records have a checksum. Where that differs, what made it do so is the better answer.
 */
static const char *difference(const json_t *one, const json_t *other)
{
    static const char *const same[] = {"program", "version", "model", "settings", "columns"};
    static const char *const causes[] = {"regions",   "bed",         "names", "tile",
                                         "tile_step", "input_names", "inputs"};
    if (!same_products(one, other))
        return "products";
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        if (!agree(one, other, same[i]))
            return same[i];
    if (agree(one, other, KMF_RECORDS_CHECKSUM))
        return NULL;
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++)
        if (!agree(one, other, causes[i]))
            return causes[i];
    return KMF_RECORDS_CHECKSUM;
}

/* Each number once, and the same run. */
static int check_set(merge *m, kmf_err *err)
{
    qsort(m->shards, m->n, sizeof *m->shards, by_number);
    for (size_t i = 1; i < m->n; i++) {
        const shard *one = &m->shards[i - 1], *other = &m->shards[i];
        if (one->count != other->count)
            return kmf_fail(err, KMF_EMODEL, "%s is one of %zu shards, and %s is one of %zu",
                            one->path, one->count, other->path, other->count);
        if (one->number == other->number)
            return kmf_fail(err, KMF_EMODEL, "%s and %s are both shard %zu", one->path,
                            other->path, one->number);
    }
    if (m->n != m->shards[0].count)
        return fail_missing(m, err);
    if (m->n > 1 && !json_object_get(m->shards[0].json, KMF_RECORDS_CHECKSUM))
        return kmf_fail(err, KMF_EMODEL,
                        "%s: its .json has no " KMF_RECORDS_CHECKSUM
                        ": it was made by an earlier build, or changed",
                        m->shards[0].path);
    for (size_t i = 1; i < m->n; i++) {
        const char *differs = difference(m->shards[0].json, m->shards[i].json);
        if (differs)
            return kmf_fail(err, KMF_EMODEL,
                            "%s and %s are of different runs: they differ in %s",
                            m->shards[0].path, m->shards[i].path, differs);
    }
    return 0;
}

/* Of an array; a text names its rows itself. */
static int check_columns(const shard *s, kmf_err *err)
{
    char *name = kmf_companion(s->path, ".json", err);
    int status = name ? kmf_provenance_check_columns(s->json, name, s->path, s->array.dim, err)
                      : KMF_ENOMEM;
    kmf_free(name);
    return status;
}

static int open_tables(merge *m, kmf_err *err)
{
    for (size_t i = 0; i < m->n; i++) {
        shard *s = &m->shards[i];
        int status = open_files(s, m->npy, err);
        if (status == 0 && m->npy)
            status = check_columns(s, err);
        if (status < 0)
            return status;
        size_t dim = s->array.dim;
        size_t element = s->array.element_bytes;
        bool per_token = s->ids.per_token;
        if (i > 0 &&
            (dim != m->dim || element != m->element_bytes || per_token != m->per_token))
            return kmf_fail(err, KMF_EMODEL, "%s and %s have other shapes", m->shards[0].path,
                            s->path);
        m->dim = dim;
        m->element_bytes = element;
        m->per_token = per_token;
    }
    return 0;
}

static int fail_more(const shard *s, kmf_err *err)
{
    return kmf_fail(err, KMF_EMODEL, "%s: it has more rows than its .ids.tsv", s->path);
}

/* ---------------------------------------------------------------- an array -------------- */

/* 1 a row, 0 the end. */
static int take_row(shard *s)
{
    if (s->at == s->array.n)
        return 0;
    s->row_len = s->array.dim * s->array.element_bytes;
    s->row = (const char *)s->array.map.bytes + s->array.begin + (size_t)s->at * s->row_len;
    s->at++;
    return 1;
}

static int check_array_end(const shard *s, kmf_err *err)
{
    return s->at < s->array.n ? fail_more(s, err) : kmf_map_check(&s->array.map, err);
}

/* ---------------------------------------------------------------- text ------------------ */

/* 1 a line of the table, 0 the end. */
static int read_line(shard *s, kmf_err *err)
{
    line *l = &s->line;
    l->len = 0;
    for (;;) {
        if (kmf_grow(&l->text, &l->cap, l->len + LINE_STEP, 1, err) < 0)
            return KMF_ENOMEM;
        if (!gzgets(s->table, l->text + l->len, (int)LINE_STEP))
            break;
        size_t n = strlen(l->text + l->len);
        bool ends = n > 0 && l->text[l->len + n - 1] == '\n';
        if (n < LINE_STEP - 1 && !ends && !gzeof(s->table))
            return kmf_fail(err, KMF_EMODEL, "%s: a NUL in the row of record %" PRIu64, s->path,
                            s->index);
        l->len += n;
        if (l->len > 0 && l->text[l->len - 1] == '\n')
            return 1;
    }
    int code;
    const char *message = gzerror(s->table, &code);
    if (code != Z_OK)
        return kmf_fail(err, KMF_EIO, "%s: %s", s->path, message);
    return l->len == 0 ? 0 : kmf_fail(err, KMF_EMODEL, "%s: its last line is cut", s->path);
}

/* After the last row: nothing more, and a sound end of the compression. */
static int check_text_end(shard *s, kmf_err *err)
{
    int code;
    if (gzgetc(s->table) != -1)
        return fail_more(s, err);
    const char *message = gzerror(s->table, &code);
    if (code != Z_OK)
        return kmf_fail(err, KMF_EIO, "%s: %s", s->path, message);
    code = gzclose_r(s->table);
    s->table = NULL;
    return code == Z_OK ? 0 : kmf_fail(err, KMF_EIO, "%s: truncated", s->path);
}

/* Does a row of text begin with the name that its line of ids has? */
static bool same_name(const shard *s)
{
    const char *name = strchr(s->id_line, '\t') + 1;
    size_t n = strcspn(name, "\t");
    return strncmp(s->row, name, n) == 0 && s->row[n] == '\t';
}

/* Has a row of text as many fields as the first one? */
static bool same_fields(merge *m, const shard *s)
{
    size_t n = 0;
    for (const char *p = s->row; (p = strchr(p, '\t')) != NULL; p++)
        n++;
    if (m->n_tabs == 0)
        m->n_tabs = n;
    return n == m->n_tabs;
}

/* As take_row; of this name and with these fields. */
static int read_row(merge *m, shard *s, kmf_err *err)
{
    int got = read_line(s, err);
    s->row = s->line.text;
    s->row_len = s->line.len;
    if (got > 0 && !same_name(s))
        return kmf_fail(err, KMF_EMODEL, "%s: its rows are not those of its .ids.tsv", s->path);
    if (got > 0 && !same_fields(m, s))
        return kmf_fail(err, KMF_EMODEL, "%s: the row of record %" PRIu64 " has other fields",
                        s->path, s->index);
    return got;
}

/* ---------------------------------------------------------------- all of them ----------- */

/* The next line of ids and, if there is one, its row. */
static int advance(merge *m, shard *s, kmf_err *err)
{
    kmf_row row;
    int got = kmf_ids_next(&s->ids, err);
    if (got == 0) {
        s->ended = true;
        return m->npy ? check_array_end(s, err) : check_text_end(s, err);
    }
    if (got < 0 || kmf_ids_row(&s->ids, &row, err) < 0)
        return (int)err->code;
    if (row.index % m->n != s->number)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: record %" PRIu64 " in its .ids.tsv is no record of shard %zu",
                        s->path, row.index, s->number);
    s->index = row.index;
    s->id_line = kmf_ids_line(&s->ids, &s->id_len);
    got = m->npy ? take_row(s) : read_row(m, s, err);
    if (got == 0)
        return kmf_fail(err, KMF_EMODEL, "%s: it has fewer rows than its .ids.tsv", s->path);
    return got < 0 ? got : 0;
}

static int copy_rows(merge *m, kmf_output *out, kmf_err *err)
{
    uint64_t next = 0; /* the record that must come */
    size_t n_open = m->n;
    int status;
    for (size_t i = 0; i < m->n; i++) {
        status = advance(m, &m->shards[i], err);
        if (status < 0)
            return status;
        n_open -= m->shards[i].ended;
    }
    for (; n_open > 0; next++) {
        shard *s = &m->shards[next % m->n];
        if (s->ended || s->index != next)
            return kmf_fail(err, KMF_EMODEL, "%s: record %" PRIu64 " is missing", s->path,
                            next);
        while (!s->ended && s->index == next) {
            status = kmf_output_copy(out, s->row, s->row_len, s->id_line, s->id_len, err);
            if (status == 0)
                status = advance(m, s, err);
            if (status < 0)
                return status;
        }
        n_open -= s->ended;
        if (m->fn && (next + 1) % TELL == 0)
            m->fn(m->user, next + 1, m->n_records);
    }
    if (next != m->n_records)
        return kmf_fail(err, KMF_EMODEL,
                        "%" PRIu64 " records, but the shards' .json speak of %" PRIu64, next,
                        m->n_records);
    return 0;
}

/* In the place of the shard's. */
static int set_command(json_t *json, const char *command_line)
{
    if (command_line)
        return json_object_set_new(json, "command", kmf_json_of_text(command_line));
    (void)json_object_del(json, "command");
    return 0;
}

/* The first shard's, for the whole. */
static char *merged_provenance(merge *m, const char *out, const char *command_line,
                               kmf_err *err)
{
    json_t *json = m->shards[0].json;
    json_t *sums = json_object_get(json, "statistics");
    const char *key;
    json_t *value;
    bool good = json_is_object(sums);
    if (good)
        json_object_foreach(sums, key, value) {
            uint64_t total =
                (uint64_t)json_integer_value(value); /* from a file: it may overflow */
            for (size_t i = 1; i < m->n; i++)
                total += (uint64_t)json_integer_value(
                    json_object_get(json_object_get(m->shards[i].json, "statistics"), key));
            json_integer_set(value, (json_int_t)total);
        }
    m->n_records = (uint64_t)json_integer_value(json_object_get(sums, "records"));
    good = good && json_object_set_new(json, "output", kmf_output_json(out)) == 0 &&
           set_command(json, command_line) == 0 &&
           json_object_set_new(json, "shard",
                               json_pack("{s:i, s:i}", "index", 0, "count", 1)) == 0;
    (void)json_object_del(json, KMF_RECORDS_CHECKSUM); /* of shards alone */
    if (!good) {
        kmf_fail(err, KMF_EMODEL, "%s: its .json has no statistics", m->shards[0].path);
        return NULL;
    }
    return kmf_json_text(json, JSON_INDENT(2), err);
}

static void close_shards(merge *m)
{
    for (size_t i = 0; m->shards && i < m->n; i++) {
        shard *s = &m->shards[i];
        json_decref(s->json);
        kmf_ids_close(&s->ids);
        if (s->table)
            (void)gzclose_r(s->table);
        kmf_free(s->line.text);
        kmf_mapped_rows_close(&s->array);
    }
    kmf_free(m->shards);
}

/* Names that differ in .gz alone have one .json, and one .ids.tsv. */
static int check_companions(const char *const *shards, size_t n, const char *out, kmf_err *err)
{
    char *own = kmf_companion(out, ".json", err);
    int status = own ? 0 : KMF_ENOMEM;
    for (size_t i = 0; i < n && status == 0; i++) {
        char *other = kmf_companion(shards[i], ".json", err);
        if (!other)
            status = KMF_ENOMEM;
        else if (kmf_path_same(own, other))
            status = kmf_fail(err, KMF_EINVAL, "%s: what lies beside it is a shard's, %s", out,
                              shards[i]);
        kmf_free(other);
    }
    kmf_free(own);
    return status;
}

static int check_names(const char *const *shards, size_t n, const char *out, kmf_err *err)
{
    bool npy = kmf_ends_with(out, ".npy");
    if (n == 0)
        return kmf_fail(err, KMF_EINVAL, "no shards were given");
    for (size_t i = 0; i < n; i++)
        if (kmf_ends_with(shards[i], ".npy") != npy)
            return kmf_fail(
                err, KMF_EINVAL, "%s is %s and %s %s: shards make a file of their own kind",
                shards[i], npy ? "a table" : "an array", out, npy ? "an array" : "a table");
    for (size_t i = 0; i < n; i++)
        if (kmf_path_same(shards[i], out))
            return kmf_fail(err, KMF_EINVAL, "%s is one of the shards", out);
    return check_companions(shards, n, out, err);
}

int kmf_merge(const char *const *shards, size_t n_shards, const char *out,
              const char *command_line, kmf_pool *pool, kmf_merge_progress_fn *fn, void *user,
              kmf_err *err)
{
    merge m = {.n = n_shards, .fn = fn, .user = user};
    kmf_output *output = NULL;
    char *provenance = NULL;
    err = kmf_err_or(err, &(kmf_err){0});
    int status = check_names(shards, n_shards, out, err);
    if (status < 0)
        return status;
    m.npy = kmf_ends_with(out, ".npy");
    m.shards = kmf_calloc(n_shards, sizeof *m.shards, err);
    if (!m.shards)
        return KMF_ENOMEM;
    for (size_t i = 0; i < n_shards && status == 0; i++) {
        m.shards[i].path = shards[i];
        status = read_provenance(&m.shards[i], err);
    }
    if (status == 0)
        status = check_set(&m, err);
    if (status == 0)
        status = open_tables(&m, err);
    if (status < 0)
        goto out;
    provenance = merged_provenance(&m, out, command_line, err);
    const kmf_output_form form = {.dim = m.npy ? m.dim : 1, /* lines are copied as they are */
                                  .f16 = m.element_bytes == 2,
                                  .per_token = m.per_token};
    output = provenance ? kmf_output_new(out, &form, err) : NULL;
    if (!output) {
        status = (int)err->code;
        goto out;
    }
    if (pool)
        kmf_output_share(output, pool, true);
    status = copy_rows(&m, output, err);
    if (status == 0)
        status = kmf_output_commit(output, provenance, err);
out:
    kmf_output_free(output);
    kmf_free(provenance);
    close_shards(&m);
    return status;
}
