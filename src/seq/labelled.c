/* SPDX-License-Identifier: MIT */
/*
 * One input for records with labels, whether they stand in a table, in headers, or in a file
 * beside the sequences.
 */
#include "base/err.h"
#include "base/mem.h"
#include "seq/dna.h"
#include "seq/input.h"
#include "seq/labelled.h"
#include "seq/labels.h"
#include "seq/seqio.h"
#include "seq/table.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kmf_labelled {
    kmf_labelled_options opts;
    char *file;                /* owned; for messages */
    kmf_reader *reader;        /* owned; exactly one of the two is not NULL */
    kmf_table *table;          /* owned */
    int sequence, label, name; /* columns of the table; -1: there is none */
    kmf_labels *labels;        /* owned; NULL: not from a file */
    kmf_text found;            /* owned; a label out of a header */
    char number[24];
    kmf_reader_stats stats; /* of a table */
    uint64_t skipped;
};

void kmf_labelled_options_default(kmf_labelled_options *opts)
{
    *opts = (kmf_labelled_options){0};
}

/* ---------------------------------------------------------------- opening ----------------- */

static int find_columns(kmf_labelled *in, kmf_err *err)
{
    in->label = in->name = -1;
    int status = kmf_table_column(&in->sequence, in->table, "sequence", err);
    if (status == 0 && !in->opts.optional)
        status = kmf_table_column(&in->label, in->table, "label", err);
    if (status == 0)
        status = kmf_table_column(&in->name, in->table, "name", err);
    if (status == 0 && in->name < 0)
        status = kmf_table_column(&in->name, in->table, "id", err);
    if (status < 0)
        return status;
    if (in->sequence < 0)
        return kmf_fail(
            err, KMF_EFORMAT,
            "%s: neither a sequence file nor a table: no column of its first line is "
            "called 'sequence'",
            in->file);
    if ((in->opts.labels || in->opts.key) && !in->opts.optional)
        return kmf_fail(
            err, KMF_EINVAL,
            "%s: a table has its labels in its column 'label'; a file of labels, or a "
            "key in the headers, is for sequence files: leave it out",
            in->file);
    if (in->label < 0 && !in->opts.optional)
        return kmf_fail(err, KMF_EFORMAT, "%s: no column of its first line is called 'label'",
                        in->file);
    return 0;
}

static int open_table(kmf_labelled *in, kmf_bytes *table, kmf_err *err)
{
    in->table = kmf_table_open(table, in->file, err);
    return in->table ? find_columns(in, err) : KMF_EFORMAT;
}

static int open_kind(kmf_labelled *in, const char *path, kmf_pool *pool, kmf_err *err)
{
    const kmf_labelled_options *o = &in->opts;
    kmf_bytes *table;
    if ((o->labels && o->key) || (o->rank && !o->key))
        return kmf_fail(err, KMF_EINVAL,
                        "labels are in a file or behind a key in the headers, "
                        "not both; a rank needs a key");
    if (o->key && o->key[0] == '\0')
        return kmf_fail(err, KMF_EINVAL, "the key of the labels is empty");
    in->reader = kmf_reader_or_table(path, &o->reader, pool, &table, err);
    if (table)
        return open_table(in, table, err);
    if (!in->reader || o->optional)
        return in->reader ? 0 : KMF_EFORMAT;
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
    if (in->file && open_kind(in, path, pool, err) == 0)
        return in;
    kmf_labelled_close(in);
    return NULL;
}

kmf_labelled *kmf_labelled_of_table(kmf_bytes *table, const char *file, kmf_err *err)
{
    kmf_labelled *in = kmf_calloc(1, sizeof *in, err);
    if (in)
        in->file = kmf_strdup(file, err);
    if (!in || !in->file) {
        kmf_bytes_close(table);
        kmf_labelled_close(in);
        return NULL;
    }
    in->opts.optional = 1;
    if (open_table(in, table, err) == 0)
        return in;
    kmf_labelled_close(in);
    return NULL;
}

void kmf_labelled_close(kmf_labelled *in)
{
    if (!in)
        return;
    kmf_reader_close(in->reader);
    kmf_table_close(in->table);
    kmf_labels_free(in->labels);
    kmf_free(in->found.bytes);
    kmf_free(in->file);
    kmf_free(in);
}

void kmf_labelled_statistics(const kmf_labelled *in, kmf_reader_stats *stats)
{
    *stats = in->stats;
    if (in->reader)
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

/* ---------------------------------------------------------------- records ----------------- */

static int next_of_reader(kmf_labelled *in, kmf_labelled_record *out, kmf_err *err)
{
    kmf_record rec;
    int status = kmf_reader_next(in->reader, &rec, err);
    if (status <= 0)
        return status;
    *out = (kmf_labelled_record){
        .name = rec.name, .seq = rec.seq, .len = rec.len, .index = rec.index};
    if (in->opts.optional)
        return 1;
    status = in->opts.key ? header_label(in, &rec, &out->label, err)
                          : listed_label(in, &rec, &out->label, err);
    return status < 0 ? status : 1;
}

static int check_letters(const kmf_labelled *in, const kmf_labelled_record *rec, kmf_err *err)
{
    for (size_t i = 0; i < rec->len; i++)
        if (kmf_not_a_base(rec->seq[i]))
            return kmf_fail(err, KMF_EFORMAT,
                            "%s: line %" PRIu64 ": unexpected byte 0x%02x in the sequence",
                            in->file, kmf_table_line(in->table),
                            (unsigned)(unsigned char)rec->seq[i]);
    return 0;
}

static int next_of_table(kmf_labelled *in, kmf_labelled_record *rec, kmf_err *err)
{
    int status = kmf_table_next(in->table, err);
    if (status <= 0)
        return status;
    *rec = (kmf_labelled_record){.name = in->number, .index = in->stats.records++};
    rec->seq = kmf_table_field(in->table, in->sequence, &rec->len);
    if (in->label >= 0)
        rec->label = kmf_table_field(in->table, in->label, NULL);
    if (in->name >= 0)
        rec->name = kmf_table_field(in->table, in->name, NULL);
    else
        snprintf(in->number, sizeof in->number, "%" PRIu64, rec->index + 1);
    in->stats.bases += rec->len;
    in->stats.nameless += rec->name[0] == '\0';
    if (rec->label && rec->label[strcspn(rec->label, "\t\r\n")] != '\0')
        return kmf_fail(err, KMF_EFORMAT,
                        "%s: line %" PRIu64 ": a tab or a line end in the label", in->file,
                        kmf_table_line(in->table));
    if (rec->label && rec->label[0] == '\0') {
        rec->label = NULL;
        if (!in->opts.skip_unlabelled)
            return kmf_fail(err, KMF_EFORMAT,
                            "%s: line %" PRIu64 ": the label is empty" MAY_SKIP, in->file,
                            kmf_table_line(in->table));
    }
    if (rec->name[strcspn(rec->name, "\t\r\n")] != '\0')
        return kmf_fail(err, KMF_EFORMAT,
                        "%s: line %" PRIu64 ": a tab or a line end in the name", in->file,
                        kmf_table_line(in->table));
    status = check_letters(in, rec, err);
    return status < 0 ? status : 1;
}

int kmf_labelled_next(kmf_labelled *in, kmf_labelled_record *rec, kmf_err *err)
{
    for (;;) {
        int got = in->table ? next_of_table(in, rec, err) : next_of_reader(in, rec, err);
        if (got <= 0 || rec->label || in->opts.optional)
            return got;
        in->skipped++;
    }
}
