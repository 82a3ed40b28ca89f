/* SPDX-License-Identifier: MIT */
#include "seq/tabular.h"

#include "base/err.h"
#include "base/mem.h"
#include "seq/dna.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

struct kmf_tabular {
    kmf_table *table;   /* owned */
    kmf_bytes *in;      /* borrowed from it */
    int sequence, name; /* columns of it; -1: there is none */
    uint64_t n_records; /* handed out so far */
    char number[24];    /* the name of a record that has none */
};

/* ---------------------------------------------------------------- opening ----------------- */

/* NumPy's arrays are read elsewhere, from files of their own. */
static bool is_array(const char *text, size_t n)
{
    static const char magic[] = "\x93NUMPY";
    return n >= sizeof magic - 1 && memcmp(text, magic, sizeof magic - 1) == 0;
}

/* A NUL in the first line is none of a text. */
static bool is_text(const char *text, size_t n)
{
    const char *newline = memchr(text, '\n', n);
    return !memchr(text, '\0', newline ? (size_t)(newline - text) : n);
}

/* Damaged data may inflate to nonsense before that is found. */
static int fail_kind(kmf_bytes *in, const char *file, kmf_err *err)
{
    kmf_err reason = {0};
    if (kmf_bytes_look_for_damage(in, &reason) < 0)
        return kmf_fail(err, reason.code, "%s: %s", file, reason.msg);
    return kmf_fail(err, KMF_EFORMAT,
                    "%s: not FASTA, FASTQ, SAM, BAM or CRAM, nor a table with a column "
                    "'sequence'",
                    file);
}

/* Of what is no table by its first bytes. */
static int check_kind(kmf_bytes *in, const char *file, kmf_err *err)
{
    kmf_err reason = {0};
    const char *block;
    size_t n;
    int got = kmf_bytes_peek(in, &block, &n, &reason);
    if (got < 0)
        return kmf_fail(err, reason.code, "%s: %s", file, reason.msg);
    if (got > 0 && is_array(block, n))
        return kmf_fail(err, KMF_EFORMAT,
                        "%s: a NumPy array, no sequences; where vectors are read, too, an "
                        "array is a plain file, not compressed, nor standard input",
                        file);
    return got > 0 && !is_text(block, n) ? fail_kind(in, file, err) : 0;
}

static int find_columns(kmf_tabular *t, const char *file, kmf_err *err)
{
    int status = kmf_table_column(&t->sequence, t->table, "sequence", err);
    if (status == 0)
        status = kmf_table_column(&t->name, t->table, "name", err);
    if (status == 0 && t->name < 0)
        status = kmf_table_column(&t->name, t->table, "id", err);
    return status == 0 && t->sequence < 0 ? fail_kind(t->in, file, err) : status;
}

kmf_tabular *kmf_tabular_open(kmf_bytes *in, const char *name, kmf_err *err)
{
    kmf_tabular *t = kmf_calloc(1, sizeof *t, err);
    if (!t || check_kind(in, name, err) < 0) {
        kmf_free(t);
        kmf_bytes_close(in);
        return NULL;
    }
    t->in = in;
    t->table = kmf_table_open(in, name, err);
    if (t->table && find_columns(t, name, err) == 0)
        return t;
    kmf_tabular_close(t);
    return NULL;
}

void kmf_tabular_close(kmf_tabular *t)
{
    if (!t)
        return;
    kmf_table_close(t->table);
    kmf_free(t);
}

uint64_t kmf_tabular_taken(kmf_tabular *t, int descriptor)
{
    return kmf_bytes_taken(t->in, descriptor);
}

const kmf_table *kmf_tabular_table(const kmf_tabular *t)
{
    return t->table;
}

/* ---------------------------------------------------------------- records ----------------- */

static const char *name_of(kmf_tabular *t)
{
    if (t->name >= 0)
        return kmf_table_field(t->table, t->name, NULL);
    snprintf(t->number, sizeof t->number, "%" PRIu64, t->n_records);
    return t->number;
}

static bool are_letters(const char *seq, size_t n)
{
    unsigned char bad = 0;
    for (size_t i = 0; i < n; i++) /* without an end before, so that it becomes vector code */
        bad |= kmf_not_a_base(seq[i]);
    return bad == 0;
}

/* Of a sequence that are_letters refused. */
static int fail_letter(const kmf_tabular *t, const char *seq, kmf_err *err)
{
    while (!kmf_not_a_base(*seq))
        seq++;
    if (*seq == ' ') /* as the authors of DNABERT write theirs */
        return kmf_table_fail(t->table, err,
                              "a blank in the sequence: letters are read, not k-mers with "
                              "blanks between them");
    return kmf_table_fail(t->table, err, "unexpected byte 0x%02x in the sequence",
                          (unsigned)(unsigned char)*seq);
}

int kmf_tabular_next(kmf_tabular *t, kmf_record *rec, kmf_err *err)
{
    int status = kmf_table_next(t->table, err);
    if (status <= 0)
        return status;
    t->n_records++;
    rec->name = name_of(t);
    rec->comment = "";
    rec->seq = kmf_table_field(t->table, t->sequence, &rec->len);
    if (rec->name[strcspn(rec->name, "\t\r\n")] != '\0')
        return kmf_table_fail(t->table, err, "a tab or a line end in the name");
    return are_letters(rec->seq, rec->len) ? 1 : fail_letter(t, rec->seq, err);
}
