/* SPDX-License-Identifier: MIT */
/*
 * One input for records with labels, whether they stand in a table, in headers, or in a file
 * beside the sequences.
 */
#include "base/err.h"
#include "base/mem.h"
#include "seq/input.h"
#include "seq/labels.h"
#include "seq/seqio.h"
#include "seq/table.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

struct kmf_labelled {
    kmf_labelled_options opts;
    char *file;             /* owned; for messages */
    kmf_reader *reader;     /* owned */
    const kmf_table *table; /* borrowed from it; NULL: it reads none */
    int column;             /* of the labels in it */
    kmf_labels *labels;     /* owned; NULL: not from a file */
    kmf_text found;         /* owned; a label out of a header */
    uint64_t skipped;
};

void kmf_labelled_options_default(kmf_labelled_options *opts)
{
    *opts = (kmf_labelled_options){0};
}

/* ---------------------------------------------------------------- opening ----------------- */

static int find_column(kmf_labelled *in, kmf_err *err)
{
    if (in->opts.labels || in->opts.key)
        return kmf_fail(
            err, KMF_EINVAL,
            "%s: a table has its labels in its column 'label'; a file of labels, or a "
            "key in the headers, is for sequence files: leave it out",
            in->file);
    int status = kmf_table_column(&in->column, in->table, "label", err);
    return status == 0 && in->column < 0
               ? kmf_fail(err, KMF_EFORMAT, "%s: no column of its first line is called 'label'",
                          in->file)
               : status;
}

static int open_input(kmf_labelled *in, const char *path, kmf_pool *pool, kmf_err *err)
{
    const kmf_labelled_options *o = &in->opts;
    if ((o->labels && o->key) || (o->rank && !o->key))
        return kmf_fail(err, KMF_EINVAL,
                        "labels are in a file or behind a key in the headers, "
                        "not both; a rank needs a key");
    if (o->key && o->key[0] == '\0')
        return kmf_fail(err, KMF_EINVAL, "the key of the labels is empty");
    in->reader = kmf_reader_open(path, &o->reader, pool, err);
    if (!in->reader)
        return KMF_EFORMAT;
    in->table = kmf_reader_table(in->reader);
    if (in->table)
        return find_column(in, err);
    if (!o->labels && !o->key)
        return kmf_fail(err, KMF_EINVAL,
                        "%s: a sequence file has no labels: they come from a file of names and "
                        "labels (labels), or from a key in the headers (label-key)",
                        in->file);
    in->labels = o->labels ? kmf_labels_load(o->labels, err) : NULL;
    return o->labels && !in->labels ? KMF_EFORMAT : 0;
}

kmf_labelled *kmf_labelled_open(const char *path, const kmf_labelled_options *opts,
                                kmf_pool *pool, kmf_err *err)
{
    kmf_labelled *in = kmf_calloc(1, sizeof *in, err);
    if (!in)
        return NULL;
    if (opts)
        in->opts = *opts;
    in->file = kmf_strdup(kmf_input_name(path), err);
    if (in->file && open_input(in, path, pool, err) == 0)
        return in;
    kmf_labelled_close(in);
    return NULL;
}

void kmf_labelled_close(kmf_labelled *in)
{
    if (!in)
        return;
    kmf_reader_close(in->reader);
    kmf_labels_free(in->labels);
    kmf_free(in->found.bytes);
    kmf_free(in->file);
    kmf_free(in);
}

void kmf_labelled_statistics(const kmf_labelled *in, kmf_reader_stats *stats)
{
    kmf_reader_statistics(in->reader, stats);
}

uint64_t kmf_labelled_skipped(const kmf_labelled *in)
{
    return in->skipped;
}

/* ---------------------------------------------------------------- labels in headers ------- */

/* Of how a record without a label can be passed over. */
#define MAY_SKIP " (skip-unlabelled leaves such records out)"

/*
 * The value of the key in text, *len bytes of it; NULL: the key is not there. A bar may stand in a
 * value, unless one stands before the key.
 */
static const char *find_value(const char *text, const char *key, size_t *len)
{
    size_t n = strlen(key);
    for (const char *p = strstr(text, key); p; p = strstr(p + 1, key)) {
        bool begins = p == text || strchr(" \t;|", p[-1]);
        if (begins && p[n] == '=') {
            *len = strcspn(p + n + 1, p > text && p[-1] == '|' ? " \t;|" : " \t;");
            return p + n + 1;
        }
    }
    return NULL;
}

/* The part of a value that begins with rank and ':', without them; NULL: there is none. */
static const char *find_rank(const char *value, size_t *len, const char *rank)
{
    size_t n = strlen(rank);
    const char *end = value + *len;
    while (value < end) {
        const char *comma = memchr(value, ',', (size_t)(end - value));
        const char *stop = comma ? comma : end;
        if ((size_t)(stop - value) > n && strncmp(value, rank, n) == 0 && value[n] == ':') {
            *len = (size_t)(stop - value) - n - 1;
            return value + n + 1;
        }
        value = stop + 1;
    }
    return NULL;
}

static int header_label(kmf_labelled *in, const kmf_record *rec, const char **label,
                        kmf_err *err)
{
    const kmf_labelled_options *o = &in->opts;
    char shown[KMF_ERR_SHOW];
    size_t n = 0;
    const char *value = find_value(rec->name, o->key, &n);
    if (!value)
        value = find_value(rec->comment, o->key, &n);
    if (value && o->rank)
        value = find_rank(value, &n, o->rank);
    *label = NULL;
    if ((!value || n == 0) && in->opts.skip_unlabelled)
        return 0;
    if (!value || n == 0)
        return kmf_fail(err, KMF_EFORMAT,
                        "%s: record %" PRIu64 " '%s': its header has no '%s='%s%s%s" MAY_SKIP,
                        in->file, rec->index + 1, kmf_err_show(shown, rec->name), o->key,
                        o->rank ? " with '" : "", o->rank ? o->rank : "", o->rank ? ":'" : "");
    in->found.len = 0;
    if (kmf_text_append(&in->found, value, n, err) < 0)
        return KMF_ENOMEM;
    *label = in->found.bytes;
    return 0;
}

static int listed_label(const kmf_labelled *in, const kmf_record *rec, const char **label,
                        kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    *label = kmf_labels_find(in->labels, rec->name);
    if (!*label && !in->opts.skip_unlabelled)
        return kmf_fail(err, KMF_EFORMAT,
                        "%s: record %" PRIu64 " '%s' has no label in %s" MAY_SKIP, in->file,
                        rec->index + 1, kmf_err_show(shown, rec->name), in->opts.labels);
    return 0;
}

static int table_label(const kmf_labelled *in, const char **label, kmf_err *err)
{
    *label = kmf_table_field(in->table, in->column, NULL);
    if ((*label)[strcspn(*label, "\t\r\n")] != '\0')
        return kmf_table_fail(in->table, err, "a tab or a line end in the label");
    if ((*label)[0] != '\0')
        return 0;
    *label = NULL;
    return in->opts.skip_unlabelled
               ? 0
               : kmf_table_fail(in->table, err, "the label is empty" MAY_SKIP);
}

/* ---------------------------------------------------------------- records ----------------- */

int kmf_labelled_next(kmf_labelled *in, kmf_labelled_record *out, kmf_err *err)
{
    kmf_record rec;
    int status;
    while ((status = kmf_reader_next(in->reader, &rec, err)) > 0) {
        *out = (kmf_labelled_record){
            .name = rec.name, .seq = rec.seq, .len = rec.len, .index = rec.index};
        status = in->table      ? table_label(in, &out->label, err)
                 : in->opts.key ? header_label(in, &rec, &out->label, err)
                                : listed_label(in, &rec, &out->label, err);
        if (status < 0)
            return status;
        if (out->label)
            return 1;
        in->skipped++;
    }
    return status;
}
