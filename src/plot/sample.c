/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* strverscmp */
#include "plot/sample.h"

#include "base/err.h"
#include "base/half.h"
#include "base/le.h"
#include "base/mem.h"
#include "embed/npy.h"
#include "embed/provenance.h"
#include "embed/sidecar.h"
#include "seq/text.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---------------------------------------------------------------- vectors --------------- */

int kmf_mapped_rows_open(kmf_mapped_rows *rows, const char *path, kmf_err *err)
{
    size_t bytes;
    *rows = (kmf_mapped_rows){.path = path};
    int status = kmf_map_open(&rows->map, path, err);
    if (status < 0)
        return status;
    if (rows->map.len < KMF_NPY_HEADER)
        return kmf_fail(err, KMF_EMODEL, "%s: not an array written by kmerformer", path);
    status = kmf_npy_parse((const char *)rows->map.bytes, path, &rows->n, &rows->dim,
                           &rows->element_bytes, err);
    if (status < 0)
        return status;
    if (rows->n == 0 || rows->dim == 0)
        return kmf_fail(err, KMF_EMODEL, "%s: there are no vectors in it", path);
    if (!kmf_mul(rows->dim, rows->element_bytes, &bytes) || !kmf_mul(bytes, rows->n, &bytes) ||
        bytes != rows->map.len - KMF_NPY_HEADER)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: it has %zu bytes, not those of %" PRIu64 " rows of %zu columns",
                        path, rows->map.len, rows->n, rows->dim);
    return 0;
}

void kmf_mapped_rows_close(kmf_mapped_rows *rows)
{
    kmf_map_close(&rows->map);
}

static void widen(const kmf_mapped_rows *rows, uint64_t i, float *x)
{
    const unsigned char *p =
        rows->map.bytes + KMF_NPY_HEADER + (size_t)i * rows->dim * rows->element_bytes;
    for (size_t j = 0; j < rows->dim; j++, p += rows->element_bytes)
        x[j] = rows->element_bytes == 2 ? kmf_f16_to_f32(kmf_le_load16(p))
                                        : kmf_float_of(kmf_le_load32(p));
}

bool kmf_mapped_rows_get(const kmf_mapped_rows *rows, uint64_t i, bool unit, float *x)
{
    double squares = 0;
    assert(i < rows->n);
    widen(rows, i, x);
    for (size_t j = 0; j < rows->dim; j++)
        squares += (double)x[j] * (double)x[j];
    if (!isfinite(squares) || (unit && squares == 0))
        return false;
    for (size_t j = 0; unit && j < rows->dim; j++)
        x[j] = (float)((double)x[j] / sqrt(squares));
    return true;
}

/* ---------------------------------------------------------------- names ----------------- */

/* Where the i-th of n is, of so many evenly spaced among `of`. */
static uint64_t evenly(uint64_t i, uint64_t n, uint64_t of)
{
    uint64_t whole = of / n;
    uint64_t rest = of % n;
    return i * whole + i * rest / n;
}

static int choose(kmf_picked *s, const kmf_mapped_rows *rows, const unsigned char *good,
                  size_t most, kmf_err *err)
{
    uint64_t n_good = 0;
    for (uint64_t i = 0; i < rows->n; i++)
        n_good += good[i] != 0;
    if (n_good == 0)
        return kmf_fail(err, KMF_EMODEL, "%s: none of its %" PRIu64 " rows can be drawn",
                        rows->path, rows->n);
    s->n = n_good < most ? (size_t)n_good : most;
    s->drawn = kmf_calloc(s->n, sizeof *s->drawn, err);
    if (!s->drawn)
        return KMF_ENOMEM;
    uint64_t rank = 0;
    size_t taken = 0;
    for (uint64_t i = 0; i < rows->n && taken < s->n; i++) {
        if (good[i] && rank++ == evenly(taken, s->n, n_good))
            s->drawn[taken++] = (kmf_drawn){.row = i, .label = -1};
    }
    return 0;
}

/* Name and length of a line of x.ids.tsv; the name is cut off by a NUL. */
static bool read_ids(char *line, char **name, uint64_t *length)
{
    char *end;
    char *tab = strchr(line, '\t');
    if (!tab)
        return false;
    *name = tab + 1;
    tab = strchr(*name, '\t');
    if (!tab)
        return false;
    *tab = '\0';
    errno = 0;
    *length = strtoull(tab + 1, &end, 10);
    return errno == 0 && end > tab + 1 && *end == '\t';
}

/* Names of the drawn rows; their places in s->names until all of it is there. */
static int read_names(kmf_picked *s, const kmf_mapped_rows *rows, FILE *file, const char *path,
                      size_t *places, kmf_err *err)
{
    kmf_text names = {0};
    char *line = NULL;
    size_t cap = 0, next = 0;
    uint64_t row = 0;
    int status = 0;
    if (getline(&line, &cap, file) < 0 ||
        strncmp(line, KMF_IDS_HEADER, strlen(KMF_IDS_HEADER)) != 0)
        status = kmf_fail(err, KMF_EMODEL, "%s: it has an unknown header", path);
    for (; status == 0 && getline(&line, &cap, file) > 0; row++) {
        if (next == s->n || row != s->drawn[next].row)
            continue;
        char *name;
        if (!read_ids(line, &name, &s->drawn[next].length)) {
            status = kmf_fail(err, KMF_EMODEL, "%s: line %" PRIu64 ": not index, name, length",
                              path, row + 2);
            break;
        }
        places[next++] = names.len;
        status = kmf_text_append(&names, name, strlen(name) + 1, err);
    }
    s->names = names.bytes;
    if (status == 0 && ferror(file))
        status = kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(errno));
    if (status == 0 && row != rows->n)
        status =
            kmf_fail(err, KMF_EMODEL, "%s: %" PRIu64 " lines for the %" PRIu64 " rows of %s",
                     path, row, rows->n, rows->path);
    free(line);
    return status;
}

/* KMF_EMODEL: what lies beside the rows is of another table. Without a .json nothing says so. */
static int check_beside(const kmf_mapped_rows *rows, kmf_err *err)
{
    char *name = kmf_companion(rows->path, ".json", err);
    if (!name)
        return KMF_ENOMEM;
    bool there = access(name, F_OK) == 0;
    json_t *json = there ? kmf_provenance_read(rows->path, name, err) : NULL;
    int status = json || !there ? 0 : (int)err->code;
    if (json)
        status = kmf_provenance_check_columns(json, name, rows->path, rows->dim, err);
    json_decref(json);
    kmf_free(name);
    return status;
}

static int add_names(kmf_picked *s, const kmf_mapped_rows *rows, kmf_err *err)
{
    size_t *places = NULL;
    int status = KMF_ENOMEM;
    char *path = kmf_companion(rows->path, ".ids.tsv", err);
    if (!path)
        return KMF_ENOMEM;
    FILE *file = fopen(path, "rb");
    if (!file) {
        status = errno == ENOENT ? 0 : kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(errno));
        goto out;
    }
    status = check_beside(rows, err);
    places = status == 0 ? kmf_calloc(s->n, sizeof *places, err) : NULL;
    if (status == 0 && !places)
        status = KMF_ENOMEM;
    if (status == 0)
        status = read_names(s, rows, file, path, places, err);
    fclose(file);
    s->named = status == 0;
    for (size_t i = 0; s->named && i < s->n; i++)
        s->drawn[i].name = s->names + places[i];
out:
    kmf_free(places);
    kmf_free(path);
    return status;
}

/* ---------------------------------------------------------------- labels ---------------- */

/* "contig2" comes before "contig10". */
static int by_text(const void *a, const void *b)
{
    return strverscmp(*(const char *const *)a, *(const char *const *)b);
}

/* The distinct texts among found[n], NULLs apart, in order; then each row's place among them. */
static int number_labels(kmf_picked *s, const char *const *found, kmf_err *err)
{
    s->labels = kmf_calloc(s->n, sizeof *s->labels, err);
    if (!s->labels)
        return KMF_ENOMEM;
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++)
        if (found[i])
            s->labels[n++] = found[i];
    if (n > 0)
        qsort(s->labels, n, sizeof *s->labels, by_text);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(s->labels[i], s->labels[s->n_labels - 1]) != 0)
            s->labels[s->n_labels++] = s->labels[i];
    for (size_t i = 0; i < s->n; i++) {
        const char **at =
            found[i] ? bsearch(&found[i], s->labels, s->n_labels, sizeof *s->labels, by_text)
                     : NULL;
        s->drawn[i].label = at ? (int32_t)(at - s->labels) : -1;
    }
    return 0;
}

static int add_labels(kmf_picked *s, const kmf_mapped_rows *rows, const char *path,
                      kmf_err *err)
{
    if (!s->named)
        return kmf_fail(err, KMF_EMODEL, "%s: the .ids.tsv with the names is not beside it",
                        rows->path);
    s->label_file = kmf_labels_load(path, err);
    if (!s->label_file)
        return (int)err->code;
    const char **found = kmf_calloc(s->n, sizeof *found, err);
    if (!found)
        return KMF_ENOMEM;
    for (size_t i = 0; i < s->n; i++) {
        found[i] = kmf_labels_find(s->label_file, s->drawn[i].name);
        s->unlabelled += !found[i];
    }
    int status =
        s->unlabelled < s->n
            ? number_labels(s, found, err)
            : kmf_fail(err, KMF_EMODEL, "%s: no row of %s has a label in it", path, rows->path);
    kmf_free(found);
    return status;
}

int kmf_picked_take(kmf_picked *sample, const kmf_mapped_rows *rows, const unsigned char *good,
                    size_t most, const char *labels, kmf_err *err)
{
    *sample = (kmf_picked){0};
    int status = choose(sample, rows, good, most, err);
    if (status == 0)
        status = add_names(sample, rows, err);
    if (status == 0 && labels)
        status = add_labels(sample, rows, labels, err);
    return status;
}

void kmf_picked_free(kmf_picked *sample)
{
    kmf_free(sample->drawn);
    kmf_free(sample->labels);
    kmf_free(sample->names);
    kmf_labels_free(sample->label_file);
    *sample = (kmf_picked){0};
}
