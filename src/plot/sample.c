/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* strverscmp */
#include "plot/sample.h"

#include "base/err.h"
#include "base/mem.h"
#include "embed/provenance.h"
#include "embed/sidecar.h"
#include "seq/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

/* Names of the drawn rows; their places in s->names until all of it is there. */
static int read_names(kmf_picked *s, const kmf_mapped_rows *rows, kmf_ids *ids, size_t *places,
                      kmf_err *err)
{
    kmf_text names = {0};
    kmf_row row;
    size_t next = 0;
    int status;
    while ((status = kmf_ids_next(ids, err)) > 0) {
        if (next == s->n || ids->n - 1 != s->drawn[next].row)
            continue;
        status = kmf_ids_row(ids, &row, err);
        if (status < 0)
            break;
        s->drawn[next].length = row.len;
        places[next++] = names.len;
        status = kmf_text_append(&names, row.name, strlen(row.name) + 1, err);
        if (status < 0)
            break;
    }
    s->names = names.bytes;
    if (status == 0 && ids->n != rows->n)
        status =
            kmf_fail(err, KMF_EMODEL, "%s: %" PRIu64 " lines for the %" PRIu64 " rows of %s",
                     ids->path, ids->n, rows->n, rows->path);
    return status;
}

static int add_names(kmf_picked *s, const kmf_mapped_rows *rows, kmf_err *err)
{
    kmf_ids ids;
    json_t *json = NULL;
    size_t *places = NULL;
    int status = kmf_ids_open(&ids, rows->path, err);
    if (status <= 0)
        return status;
    status = kmf_provenance_beside(&json, rows->path, rows->dim, err);
    json_decref(json);
    if (status >= 0) {
        places = kmf_calloc(s->n, sizeof *places, err);
        status = places ? read_names(s, rows, &ids, places, err) : KMF_ENOMEM;
    }
    s->named = status == 0;
    for (size_t i = 0; s->named && i < s->n; i++)
        s->drawn[i].name = s->names + places[i];
    kmf_free(places);
    kmf_ids_close(&ids);
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
