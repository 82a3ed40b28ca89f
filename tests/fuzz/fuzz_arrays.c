/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as x.npy; behind a line "#ids" in them x.ids.tsv. Of an array that is accepted every
 * number can be read, and is what stands at the end of the file. Rows that are accepted come in
 * order, and written again are read the same.
 */
#include "base/le.h"
#include "base/mem.h"
#include "embed/mapped.h"
#include "embed/npy.h"
#include "embed/sidecar.h"
#include "fuzzing.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_BYTES ((size_t)1 << 20)
#define MARK "\n#ids\n"

static void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    must(file != NULL && fwrite(bytes, 1, n, file) == n && fclose(file) == 0);
}

/* ---------------------------------------------------------------- arrays ---------------- */

/* A row of float32, where they stand. */
static void check_numbers(const float *x, const uint8_t *bytes, size_t dim)
{
    for (size_t j = 0; j < dim; j++) {
        uint32_t bits;
        memcpy(&bits, x + j, sizeof bits);
        must(bits == kmf_le_load32(bytes + 4 * j));
    }
}

static void check_rows(const kmf_mapped_rows *rows, const uint8_t *data, size_t size)
{
    size_t width = rows->dim * rows->element_bytes;
    const uint8_t *at = data + size - rows->n * width;
    float *x = kmf_malloc(rows->dim, sizeof *x, NULL);
    must(x != NULL);
    for (uint64_t i = 0; i < rows->n; i++, at += width) {
        bool finite = true;
        bool told = kmf_mapped_rows_read(rows, i, x);
        if (rows->element_bytes == 4)
            check_numbers(x, at, rows->dim);
        for (size_t j = 0; j < rows->dim; j++)
            finite = finite && isfinite(x[j]);
        must(finite == told && finite == kmf_mapped_rows_get(rows, i, false, x));
    }
    kmf_free(x);
}

static void check_header(const kmf_mapped_rows *rows)
{
    char header[KMF_NPY_HEADER];
    uint64_t n;
    size_t dim, element_bytes, begin;
    if (rows->element_bytes == 8)
        return; /* none is written */
    kmf_npy_header(header, rows->n, rows->dim, rows->element_bytes);
    must(kmf_npy_read((const unsigned char *)header, sizeof header, "again", &n, &dim,
                      &element_bytes, &begin, NULL) == 0);
    must(begin == sizeof header && n == rows->n && dim == rows->dim &&
         element_bytes == rows->element_bytes);
}

static void try_array(const char *path, const uint8_t *data, size_t size)
{
    kmf_mapped_rows rows;
    kmf_err err = {0};
    write_file(path, data, size);
    if (kmf_mapped_rows_open(&rows, path, &err) < 0) {
        must_tell(&err);
    } else {
        check_rows(&rows, data, size);
        check_header(&rows);
    }
    kmf_mapped_rows_close(&rows);
}

/* ---------------------------------------------------------------- ids ------------------- */

static void print_row(FILE *file, const kmf_row *row, bool per_token)
{
    fprintf(file, "%" PRIu64 "\t%s\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64,
            row->index, row->name, row->len, row->tokens, row->ambiguous, row->chunks);
    if (per_token)
        fprintf(file, "\t%" PRId64, row->position);
    fprintf(file, "\n");
}

/* The rows of a table that is open, as text; false: not all are accepted. */
static bool copy_rows(kmf_ids *ids, FILE *to, kmf_err *err)
{
    uint64_t before = 0;
    uint64_t n = 0;
    int got;
    fprintf(to, KMF_IDS_HEADER "%s\n", ids->per_token ? KMF_IDS_HEADER_POSITION : "");
    while ((got = kmf_ids_next(ids, err)) > 0) {
        kmf_row row;
        must(ids->n == ++n);
        if (kmf_ids_row(ids, &row, err) < 0)
            return false;
        must(n == 1 || row.index > before || (ids->per_token && row.index == before));
        must(strpbrk(row.name, "\t\n") == NULL);
        print_row(to, &row, ids->per_token);
        before = row.index;
    }
    return got == 0;
}

/* Its text is owned by the caller; NULL: it is not accepted. */
static char *read_ids(const char *path)
{
    kmf_ids ids;
    kmf_err err = {0};
    char *text = NULL;
    size_t len;
    bool good = false;
    if (kmf_ids_open(&ids, path, &err) > 0) {
        FILE *to = open_memstream(&text, &len);
        must(to != NULL);
        good = copy_rows(&ids, to, &err);
        must(fclose(to) == 0);
    }
    kmf_ids_close(&ids);
    if (good)
        return text;
    must_tell(&err);
    free(text);
    return NULL;
}

static void try_ids(const char *path, const char *table, const void *bytes, size_t n)
{
    write_file(table, bytes, n);
    char *text = read_ids(path);
    if (!text)
        return;
    write_file(table, text, strlen(text));
    char *again = read_ids(path);
    must(again != NULL && strcmp(text, again) == 0);
    free(text);
    free(again);
}

/* ---------------------------------------------------------------- both ------------------ */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char folder[] = "/tmp/kmf_fuzz_XXXXXX";
    char array[sizeof folder + 16];
    char table[sizeof folder + 16];
    if (size > MOST_BYTES)
        return 0;
    must(mkdtemp(folder) != NULL);
    snprintf(array, sizeof array, "%s/x.npy", folder);
    snprintf(table, sizeof table, "%s/x.ids.tsv", folder);
    size_t mark = find_mark(data, size, MARK);
    try_array(array, data, mark);
    if (mark < size) {
        size_t ids = mark + strlen(MARK);
        try_ids(array, table, data + ids, size - ids);
        unlink(table);
    }
    unlink(array);
    rmdir(folder);
    return 0;
}
