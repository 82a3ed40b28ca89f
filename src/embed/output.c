/* SPDX-License-Identifier: MIT */
/*
 * Rows to files. One table goes by up to three files that stay in step:
 *
 *   x.npy | x.tsv | x.tsv.gz   the vectors, row i
 *   x.ids.tsv                  line i (after the header) says what row i is
 *   x.json                     how they came about
 *
 * They are written under temporary names and published together, the vectors last, so whoever
 * waits for x.npy finds the rest beside it.
 */
#include "base/err.h"
#include "base/fmt.h"
#include "base/half.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/out.h"
#include "base/path.h"
#include "embed/npy.h"
#include "embed/output.h"
#include "embed/rowstore.h"
#include "embed/rowtext.h"
#include "embed/sidecar.h"
#include "seq/par.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#define F16_INFINITE 65520.0f /* to nearest, from here on */
#define PART 256              /* numbers that are narrowed at a time */

struct kmf_output {
    kmf_output_form form;
    kmf_row_format format; /* of the table, unless it is an array */
    void *scratch;         /* owned; of the format */
    kmf_rowtext *texts;    /* owned; NULL: the table is an array, or its rows are no vectors */
    kmf_out *table;        /* owned */
    kmf_pool *pool;        /* owned, with others; NULL: none; where the table is compressed */
    kmf_out *ids;          /* owned; NULL: there is nothing beside the table */
    kmf_out *json;         /* owned; NULL likewise */
    uint64_t n_rows;
    uint64_t n_before;     /* of them, those before kmf_output_take */
    uint64_t record;       /* index of the one whose row was the last; 0: none's, too */
    uint64_t n_before_it;  /* index of the one before it, and 1; 0: there was none */
    kmf_output_place came; /* where the first row of that record begins */
    bool npy;
    bool begun;  /* the first line of the table is there, if it has one */
    bool misfit; /* the rows of the embedder that it took are others */
    json_t *run; /* owned; what its checkpoints say of that; NULL: there was none */
    char *line;  /* owned; of one row its text, its halves, or its ids */
    size_t line_cap;
};

/* As of `-o $name.npy` where name is empty. */
static bool is_bare_ending(const char *path)
{
    static const char *const endings[] = {".npy", ".tsv", ".tsv.gz"};
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    bool bare = false;
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        bare = bare || strcmp(name, endings[i]) == 0;
    return bare;
}

static int check_path(const char *path, const kmf_output_form *form, kmf_err *err)
{
    const char *foreign = kmf_foreign_ending(path);
    if (is_bare_ending(path))
        return kmf_fail(err, KMF_EINVAL, "%s: there is no name before the ending", path);
    bool npy = kmf_ends_with(path, ".npy");
    if (kmf_ends_with(path, ".npy.gz"))
        return kmf_fail(err, KMF_EINVAL, "%s: an array is written uncompressed, as .npy", path);
    if (kmf_ends_with(path, ".json") || kmf_ends_with(path, ".ids.tsv"))
        return kmf_fail(err, KMF_EINVAL,
                        "%s: names ending so are taken by the output's companions", path);
    if (foreign)
        return kmf_fail(err, KMF_EINVAL,
                        "%s: no output is written as %s; .npy is an array, .tsv and .tsv.gz "
                        "are text with tabs",
                        path, foreign);
    if (form->f16 && !npy)
        return kmf_fail(err, KMF_EINVAL, "float16 needs an output named .npy, not %s", path);
    if (npy && kmf_path_is_special(path))
        return kmf_fail(err, KMF_EINVAL, "%s: an array can only be written to a regular file",
                        path);
    if (form->format && (npy || form->per_token))
        return kmf_fail(err, KMF_EINVAL, "%s: rows of text go to a table, one for each record",
                        path);
    if (form->format && !form->format->name)
        return kmf_fail(err, KMF_EINVAL, "%s: a format of rows has no name", path);
    if (!form->format && (form->dim == 0 || form->dim > KMF_COLUMNS_MAX))
        return kmf_fail(err, KMF_EINVAL, "%s: rows of %zu numbers: there must be 1 to %zu",
                        path, form->dim, KMF_COLUMNS_MAX);
    return 0;
}

static kmf_out *open_companion(const char *path, int file, kmf_err *err)
{
    char *name = kmf_output_name(path, file, err);
    kmf_out *out = name ? kmf_out_open(name, err) : NULL;
    kmf_free(name);
    return out;
}

static int open_companions(kmf_output *o, const char *path, kmf_err *err)
{
    o->ids = open_companion(path, KMF_OUTPUT_IDS, err);
    o->json = o->ids ? open_companion(path, KMF_OUTPUT_JSON, err) : NULL;
    if (!o->json)
        return KMF_EIO;
    return kmf_out_print(o->ids, err, "%s%s", KMF_IDS_HEADER,
                         o->form.per_token ? KMF_IDS_HEADER_POSITION "\n" : "\n");
}

/* Without its files. */
static kmf_output *make(const char *path, const kmf_output_form *form, kmf_err *err)
{
    if (check_path(path, form, err) < 0)
        return NULL;
    kmf_output *o = kmf_calloc(1, sizeof *o, err);
    if (!o)
        return NULL;
    o->form = *form;
    o->npy = kmf_ends_with(path, ".npy");
    if (o->npy)
        return o;
    o->format = form->format ? *form->format : kmf_row_numbers(form->dim);
    if (form->format)
        o->form.format = &o->format;
    if (!o->format.put)
        return o;
    o->scratch = kmf_calloc(1, o->format.scratch_bytes, err);
    o->texts = o->scratch ? kmf_rowtext_new(&o->format, form->dim, err) : NULL;
    if (o->texts)
        return o;
    kmf_output_free(o);
    return NULL;
}

kmf_output *kmf_output_new(const char *path, const kmf_output_form *form, kmf_err *err)
{
    char header[KMF_NPY_HEADER];
    kmf_output *o = make(path, form, err);
    if (!o)
        return NULL;
    o->table = kmf_out_open(path, err);
    if (!o->table)
        goto fail;
    if (!form->format && kmf_out_is_file(path) && open_companions(o, path, err) < 0)
        goto fail;
    kmf_npy_header(header, 0, form->dim, form->f16 ? 2 : 4);
    if (o->npy && kmf_out_write(o->table, header, sizeof header, err) < 0)
        goto fail;
    return o;
fail:
    kmf_output_free(o);
    return NULL;
}

/* ---------------------------------------------------------------- kept files ------------ */

char *kmf_output_name(const char *path, int file, kmf_err *err)
{
    static const char *const endings[KMF_OUTPUT_FILES] = {NULL, ".ids.tsv", ".json"};
    return endings[file] ? kmf_companion(path, endings[file], err) : kmf_strdup(path, err);
}

int kmf_output_n_files(const kmf_output_form *form)
{
    return form->format ? 1 : KMF_OUTPUT_FILES;
}

const kmf_output_form *kmf_output_form_of(const kmf_output *o)
{
    return &o->form;
}

static kmf_output_place place_of(const kmf_output *o)
{
    return (kmf_output_place){o->n_rows,
                              {kmf_out_bytes(o->table), o->ids ? kmf_out_bytes(o->ids) : 0, 0}};
}

bool kmf_output_is_keepable(const kmf_output *o)
{
    return kmf_out_is_keepable(o->table);
}

int kmf_output_keep(kmf_output *o, uint64_t records, kmf_output_place *place, kmf_err *err)
{
    kmf_out *const files[KMF_OUTPUT_FILES] = {o->table, o->ids, o->json};
    bool goes_on = o->record >= records; /* records: 1 or more */
    int status = 0;
    if (goes_on && o->n_before_it > records)
        return kmf_fail(err, KMF_EINVAL,
                        "rows of several records are out, and the mark is before them");
    for (int i = 0; i < kmf_output_n_files(&o->form) && status == 0; i++)
        status = kmf_out_keep(files[i], err);
    *place = goes_on ? o->came : place_of(o);
    return status;
}

void kmf_output_describe(kmf_output *o, json_t *run)
{
    json_decref(o->run);
    o->run = run;
}

json_t *kmf_output_described(const kmf_output *o)
{
    return o->run;
}

bool kmf_output_is_kept(const kmf_output *o)
{
    return kmf_out_is_kept(o->table);
}

void kmf_output_unkeep(kmf_output *o)
{
    kmf_out *const files[KMF_OUTPUT_FILES] = {o->table, o->ids, o->json};
    for (int i = 0; i < kmf_output_n_files(&o->form); i++)
        kmf_out_unkeep(files[i]);
}

const char *kmf_output_temporary(const kmf_output *o, int file)
{
    kmf_out *const files[KMF_OUTPUT_FILES] = {o->table, o->ids, o->json};
    return kmf_out_temporary(files[file]);
}

/* Bytes of an array's row. */
static size_t row_bytes(const kmf_output *o)
{
    return o->form.dim * (o->form.f16 ? sizeof(uint16_t) : sizeof(float));
}

/* KMF_EMODEL: no output of this form was ever there. */
static int check_place(const kmf_output *o, const char *path, const kmf_output_place *place,
                       kmf_err *err)
{
    uint64_t table = place->bytes[KMF_OUTPUT_TABLE];
    uint64_t numbers = table - KMF_NPY_HEADER;
    bool fits = place->rows == 0 || table > 0;
    if (o->npy)
        fits = table >= KMF_NPY_HEADER && numbers % row_bytes(o) == 0 &&
               numbers / row_bytes(o) == place->rows;
    if (kmf_output_n_files(&o->form) > KMF_OUTPUT_IDS)
        fits = fits && place->bytes[KMF_OUTPUT_IDS] >= sizeof KMF_IDS_HEADER &&
               place->bytes[KMF_OUTPUT_JSON] == 0;
    if (fits)
        return 0;
    return kmf_fail(err, KMF_EMODEL,
                    "%s: its checkpoint is damaged: %" PRIu64 " rows are not in %" PRIu64
                    " bytes, beside %" PRIu64 " of names",
                    path, place->rows, table, place->bytes[KMF_OUTPUT_IDS]);
}

kmf_output *kmf_output_reopen(const char *path, const kmf_output_form *form,
                              char *const temporary[KMF_OUTPUT_FILES],
                              const kmf_output_place *place, kmf_err *err)
{
    kmf_output *o = make(path, form, err);
    if (!o)
        return NULL;
    kmf_out **const files[KMF_OUTPUT_FILES] = {&o->table, &o->ids, &o->json};
    int n = kmf_output_n_files(form);
    if (check_place(o, path, place, err) < 0)
        goto fail;
    o->n_rows = place->rows;
    o->begun = place->bytes[KMF_OUTPUT_TABLE] > 0;
    for (int i = 0; i < n; i++) {
        char *name = kmf_output_name(path, i, err);
        *files[i] = name ? kmf_out_reopen(name, temporary[i], err) : NULL;
        kmf_free(name);
        if (!*files[i] || kmf_out_check_bytes(*files[i], place->bytes[i], err) < 0)
            goto fail;
    }
    for (int i = 0; i < n; i++)
        if (kmf_out_cut(*files[i], place->bytes[i], err) < 0)
            goto fail;
    return o;
fail:
    kmf_output_free(o);
    return NULL;
}

/* ---------------------------------------------------------------- rows ------------------ */

void kmf_output_free(kmf_output *output)
{
    if (!output)
        return;
    kmf_out_free(output->table);
    kmf_pool_free(output->pool);
    kmf_out_free(output->ids);
    kmf_out_free(output->json);
    json_decref(output->run);
    kmf_rowtext_free(output->texts);
    kmf_free(output->scratch);
    kmf_free(output->line);
    kmf_free(output);
}

uint64_t kmf_output_rows(const kmf_output *output)
{
    return output->n_rows;
}

static size_t put(char *to, const char *text)
{
    size_t n = strlen(text);
    memcpy(to, text, n);
    return n;
}

/* Of a record without a k-mer it is -1. */
static size_t put_position(char *to, int64_t position)
{
    return position < 0 ? put(to, "-1") : kmf_format_uint(to, (uint64_t)position);
}

static int write_tsv(kmf_output *o, const kmf_row *row, kmf_err *err)
{
    size_t need = strlen(row->name) + 64 + o->format.room;
    size_t len = 0;
    const char *text =
        row->vector ? NULL : kmf_rowtext_take(o->texts, o->n_rows - o->n_before, &len);
    if (kmf_grow(&o->line, &o->line_cap, need, 1, err) < 0)
        return KMF_ENOMEM;
    char *p = o->line;
    p += put(p, row->name);
    if (o->form.per_token) {
        *p++ = '\t';
        p += put_position(p, row->position);
    }
    if (!text)
        p += o->format.put(o->format.user, o->scratch, p, row->vector, o->form.dim);
    int status = kmf_out_write(o->table, o->line, (size_t)(p - o->line), err);
    return status == 0 && text ? kmf_out_write(o->table, text, len, err) : status;
}

/* Is one of n numbers finite, and would not be as a float16? */
static bool any_too_large(const float *numbers, size_t n)
{
    uint32_t least = kmf_bits_of(F16_INFINITE);
    uint32_t infinite = kmf_bits_of(INFINITY);
    unsigned found = 0;
    for (size_t i = 0; i < n; i++)
        found |= (kmf_bits_of(numbers[i]) & 0x7fffffffu) - least < infinite - least;
    return found;
}

static int f16_overflow(const kmf_row *row, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    const float *value = row->vector;
    while (!any_too_large(value, 1))
        value++;
    return kmf_fail(err, KMF_ENUMERIC, "record '%s': %g is too large for float16",
                    kmf_err_show(shown, row->name), (double)*value);
}

static int write_npy(kmf_output *o, const kmf_row *row, kmf_err *err)
{
    if (!row->vector)
        return kmf_out_pass(o->table, row_bytes(o), err);
    if (!o->form.f16)
        return kmf_out_write(o->table, row->vector, o->form.dim * sizeof *row->vector, err);
    if (kmf_grow(&o->line, &o->line_cap, o->form.dim * sizeof(uint16_t), 1, err) < 0)
        return KMF_ENOMEM;
    if (any_too_large(row->vector, o->form.dim))
        return f16_overflow(row, err);
    kmf_f16_narrow((void *)o->line, row->vector, o->form.dim);
    return kmf_out_write(o->table, o->line, row_bytes(o), err);
}

static int write_ids(kmf_output *o, const kmf_row *row, kmf_err *err)
{
    const uint64_t numbers[] = {row->len, row->tokens, row->ambiguous, row->chunks};
    size_t need = strlen(row->name) + 7 * (KMF_UINT_TEXT + 1);
    if (kmf_grow(&o->line, &o->line_cap, need, 1, err) < 0)
        return KMF_ENOMEM;
    char *p = o->line;
    p += kmf_format_uint(p, row->index);
    *p++ = '\t';
    p += put(p, row->name);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        *p++ = '\t';
        p += kmf_format_uint(p, numbers[i]);
    }
    if (o->form.per_token) {
        *p++ = '\t';
        p += put_position(p, row->position);
    }
    *p++ = '\n';
    return kmf_out_write(o->ids, o->line, (size_t)(p - o->line), err);
}

/* A table that fails before it has a row is empty. */
static int begin_table(kmf_output *o, kmf_err *err)
{
    if (o->begun || !o->format.header)
        return 0;
    o->begun = true;
    return kmf_out_write(o->table, o->format.header, strlen(o->format.header), err);
}

/* Are its rows vectors? */
static bool takes_vectors(const kmf_output *o)
{
    return o->npy || o->texts;
}

/* A row of this record comes next. */
static int begin_row(kmf_output *o, uint64_t record, kmf_err *err)
{
    int status = begin_table(o, err);
    if (kmf_output_is_keepable(o) && record != o->record) {
        o->n_before_it = o->n_rows > 0 ? o->record + 1 : 0;
        o->record = record;
        o->came = place_of(o);
    }
    return status;
}

int kmf_output_row(void *output, const kmf_row *row, kmf_err *err)
{
    kmf_output *o = output;
    if (o->misfit || !takes_vectors(o))
        return kmf_fail(err, KMF_EINVAL, "the output has other rows than its embedder makes");
    int status = kmf_row_check_name(row->name, err);
    if (status == 0)
        status = begin_row(o, row->index, err);
    if (status == 0)
        status = o->npy ? write_npy(o, row, err) : write_tsv(o, row, err);
    if (status == 0 && o->ids)
        status = write_ids(o, row, err);
    if (status == 0)
        o->n_rows++;
    return status;
}

int kmf_output_print(kmf_output *output, uint64_t index, kmf_err *err, const char *format, ...)
{
    va_list args;
    if (takes_vectors(output))
        return kmf_fail(err, KMF_EINVAL, "the rows of the output are vectors, not text");
    int status = begin_row(output, index, err);
    va_start(args, format);
    if (status == 0)
        status = kmf_out_vprint(output->table, err, format, args);
    va_end(args);
    output->n_rows += status == 0;
    return status;
}

/* n numbers in place. */
static void to_halves(float *numbers, size_t n)
{
    uint16_t part[PART];
    char *to = (char *)numbers;
    for (size_t beg = 0; beg < n; beg += PART) {
        size_t here = kmf_min(n - beg, PART);
        kmf_f16_narrow(part, numbers + beg, here);
        memcpy(to + beg * sizeof *part, part, here * sizeof *part);
    }
}

static int store_text(void *output, uint64_t row, float *vectors, size_t n, kmf_err *err)
{
    const kmf_output *o = output;
    (void)err;
    return kmf_rowtext_put(o->texts, row, vectors, n);
}

static int store_array(void *output, uint64_t row, float *vectors, size_t n, kmf_err *err)
{
    const kmf_output *o = output;
    if (o->form.f16 && any_too_large(vectors, n * o->form.dim))
        return 0; /* its row tells its record */
    if (o->form.f16)
        to_halves(vectors, n * o->form.dim);
    uint64_t at = KMF_NPY_HEADER + (o->n_before + row) * row_bytes(o);
    int status = kmf_out_put(o->table, at, vectors, n * row_bytes(o), err);
    return status < 0 ? status : 1;
}

void kmf_output_share(kmf_output *output, kmf_pool *pool, bool caller_too)
{
    if (output->pool)
        return;
    output->pool = kmf_pool_keep(pool);
    kmf_out_share(output->table, kmf_pool_handle(pool), kmf_pool_threads(pool), caller_too);
}

kmf_rowstore kmf_output_store(kmf_output *output)
{
    output->n_before = output->n_rows;
    return (kmf_rowstore){
        .fn = output->npy ? store_array : store_text, .user = output, .all = output->npy};
}

void kmf_output_take(kmf_output *output, kmf_embedder *embedder)
{
    kmf_embed_options used;
    kmf_embedder_options(embedder, &used);
    output->misfit = !takes_vectors(output) || kmf_embedder_dim(embedder) != output->form.dim ||
                     (used.pooling == KMF_POOL_NONE) != (output->form.per_token != 0);
    if (output->misfit) {
        kmf_embedder_sink(embedder, kmf_output_row, output);
        return;
    }
    kmf_output_share(output, kmf_embedder_pool(embedder), false);
    kmf_rowstore store = kmf_output_store(output);
    kmf_embedder_store(embedder, kmf_output_row, &store);
}

int kmf_output_copy(kmf_output *output, const void *row, size_t n, const char *ids,
                    size_t n_ids, kmf_err *err)
{
    int status = kmf_out_write(output->table, row, n, err);
    if (status == 0 && output->ids)
        status = kmf_out_write(output->ids, ids, n_ids, err);
    output->n_rows++;
    return status;
}

/* What is told of the rows. */
static int finish_companions(kmf_output *o, const char *provenance, kmf_err *err)
{
    int status = kmf_out_finish(o->ids, err);
    if (status == 0)
        status = kmf_out_write(o->json, provenance, strlen(provenance), err);
    if (status == 0)
        status = kmf_out_write(o->json, "\n", 1, err);
    return status < 0 ? status : kmf_out_finish(o->json, err);
}

int kmf_output_commit(kmf_output *output, const char *provenance, kmf_err *err)
{
    kmf_output *o = output;
    char header[KMF_NPY_HEADER];
    /* the last one is waited for */
    kmf_out *const files[KMF_OUTPUT_FILES] = {o->json, o->ids, o->table};
    int status = o->ids ? kmf_json_check(provenance, err) : 0;
    if (status == 0)
        status = begin_table(o, err);
    if (status == 0 && o->npy) {
        kmf_npy_header(header, o->n_rows, o->form.dim, o->form.f16 ? 2 : 4);
        status = kmf_out_patch(o->table, header, sizeof header, err);
    }
    if (status == 0)
        status = kmf_out_finish(o->table, err);
    if (status == 0 && o->ids)
        status = finish_companions(o, provenance, err);
    if (status < 0)
        return status;
    return o->ids ? kmf_out_publish_all(files, KMF_OUTPUT_FILES, err)
                  : kmf_out_publish(o->table, err);
}
