/* SPDX-License-Identifier: MIT */
/*
 * The unit of a table is the field, which may be a sequence of any length,
 * and blocks end anywhere. The fields of one row lie end to end in one buffer, each with a NUL:
 *
 *     row     A C G T \0 l a b e l \0
 *     begin   0          5
 *
 * RFC 4180: a field that begins with a quote goes to the next single quote, two of them stand for
 * one, and commas and line ends inside are its own. What the RFC leaves open: lines may end with
 * LF alone, and a quote inside a field that does not begin with one is a letter like others.
 */
#include "seq/table.h"

#include "base/err.h"
#include "base/mem.h"
#include "seq/textseq.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { END = -1 }; /* instead of a byte */

struct kmf_table {
    kmf_bytes *in; /* owned */
    char *file;    /* owned; for messages */
    const char *p; /* the unread part of the block: borrowed from in */
    const char *end;
    char separator;
    uint64_t line;       /* line ends read so far, and 1 */
    uint64_t first_line; /* of the row */
    kmf_text row;        /* owned */
    size_t *begin;       /* owned [cap_fields]; of its n_fields, and where a next would begin */
    size_t cap_fields;
    size_t n_fields;
    bool quoted;     /* a field of the row was */
    kmf_text names;  /* owned; the first row */
    size_t *columns; /* owned [n_columns]; where they begin in it */
    size_t n_columns;
};

/* ---------------------------------------------------------------- messages ---------------- */

/* What the source tells, with its place. */
static int fail_source(const kmf_table *t, kmf_err *err, const kmf_err *reason)
{
    return kmf_fail(err, reason->code, "%s: line %" PRIu64 ": %s", t->file, t->line,
                    reason->msg);
}

/* Damaged data may inflate to nonsense before that is found. */
static int fail_line(const kmf_table *t, kmf_err *err, uint64_t line, const char *what)
{
    kmf_err reason = {0};
    if (kmf_bytes_look_for_damage(t->in, &reason) < 0)
        return fail_source(t, err, &reason);
    return kmf_fail(err, KMF_EFORMAT, "%s: line %" PRIu64 ": %s", t->file, line, what);
}

int kmf_table_fail(const kmf_table *t, kmf_err *err, const char *format, ...)
{
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return fail_line(t, err, t->first_line, what);
}

/* ---------------------------------------------------------------- bytes ------------------- */

static int next_block(kmf_table *t, kmf_err *err)
{
    kmf_err reason = {0};
    const char *block;
    size_t len;
    int status = kmf_bytes_next(t->in, &block, &len, &reason);
    if (status < 0)
        return fail_source(t, err, &reason);
    if (status > 0) {
        t->p = block;
        t->end = block + len;
    }
    return status;
}

/* 1: there are unread bytes; 0: the end; negative: a kmf_code. */
static int refill(kmf_table *t, kmf_err *err)
{
    return t->p < t->end ? 1 : next_block(t, err);
}

/* The next byte, or END, is left where it is. 0 or a negative kmf_code. */
static int peek(kmf_table *t, int *byte, kmf_err *err)
{
    int status = refill(t, err);
    *byte = status > 0 ? (unsigned char)*t->p : END;
    return status < 0 ? status : 0;
}

/* The first of the n bytes from p on that is one of these, the most frequent first; or the end. */
static const char *find_any(const char *p, size_t n, const char *bytes, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++) {
        const char *found = memchr(p, bytes[i], n);
        if (found)
            n = (size_t)(found - p);
    }
    return p + n;
}

/* Appends what comes before the next byte that means something. */
static int copy_plain(kmf_table *t, const char *meaning, size_t n_meaning, kmf_err *err)
{
    int status;
    while ((status = refill(t, err)) > 0) {
        const char *stop = find_any(t->p, (size_t)(t->end - t->p), meaning, n_meaning);
        status = kmf_text_append(&t->row, t->p, (size_t)(stop - t->p), err);
        t->p = stop;
        if (status < 0 || stop < t->end)
            return status;
    }
    return status;
}

/* A field in quotes, the first of which has been read. */
static int quoted_field(kmf_table *t, kmf_err *err)
{
    uint64_t opened = t->line;
    int byte = END;
    for (;;) {
        int status = copy_plain(t, "\"\n\0", 3, err);
        if (status == 0)
            status = peek(t, &byte, err);
        if (status < 0)
            return status;
        if (byte == END)
            return fail_line(t, err, opened, "a quote is not closed");
        if (byte == '\0')
            return 0;
        t->p++;
        if (byte == '\n') {
            t->line++;
            status = kmf_text_append(&t->row, "\n", 1, err);
        } else {
            status = peek(t, &byte, err);
            if (status == 0 && byte != '"')
                return 0;
            t->p += byte == '"';
            if (status == 0)
                status = kmf_text_append(&t->row, "\"", 1, err);
        }
        if (status < 0)
            return status;
    }
}

/* A field and the separator or line end behind it. *last: it ends the row. */
static int read_field(kmf_table *t, bool *last, kmf_err *err)
{
    const char meaning[] = {'\n', t->separator, '\r', '\0'};
    int byte;
    int status = peek(t, &byte, err);
    bool quoted = status == 0 && byte == '"';
    if (quoted) {
        t->quoted = true;
        t->p++;
        status = quoted_field(t, err);
    }
    while (status == 0) {
        size_t before = t->row.len;
        status = copy_plain(t, meaning, sizeof meaning, err);
        if (status == 0 && quoted && t->row.len > before)
            return fail_line(t, err, t->line, "text behind a closing quote");
        if (status == 0)
            status = peek(t, &byte, err);
        if (status < 0)
            return status;
        if (byte == '\0')
            return fail_line(t, err, t->line, "a NUL byte");
        *last = byte != t->separator;
        if (byte == END)
            break;
        t->p++;
        if (byte != '\r')
            break;
        status = peek(t, &byte, err); /* a CR is part of a line end, or a letter */
        if (status == 0 && byte != '\n' && byte != END)
            status = kmf_text_append(&t->row, "\r", 1, err);
    }
    if (status == 0 && byte == '\n')
        t->line++;
    return status < 0 ? status : kmf_text_append(&t->row, "", 1, err);
}

static bool is_blank_row(const kmf_table *t)
{
    return t->n_fields == 1 && !t->quoted && t->row.bytes[strspn(t->row.bytes, " \t")] == '\0';
}

/* 1: a row that is not blank; 0: the end; negative: a kmf_code. */
static int read_row(kmf_table *t, kmf_err *err)
{
    do {
        bool last = false;
        int byte;
        int status = peek(t, &byte, err);
        if (status < 0 || byte == END)
            return status;
        t->row.len = 0;
        t->n_fields = 0;
        t->first_line = t->line;
        t->quoted = false;
        while (!last) {
            if (kmf_grow(&t->begin, &t->cap_fields, t->n_fields + 2, sizeof *t->begin, err) < 0)
                return KMF_ENOMEM;
            t->begin[t->n_fields++] = t->row.len;
            status = read_field(t, &last, err);
            if (status < 0)
                return status;
            t->begin[t->n_fields] = t->row.len;
        }
    } while (is_blank_row(t));
    return 1;
}

static bool is_blank_line(const char *line, size_t n)
{
    size_t i = 0;
    while (i < n && (line[i] == ' ' || line[i] == '\t' || line[i] == '\r'))
        i++;
    return i == n;
}

/* By the first line that is not blank; those before it and a byte order mark are passed over. */
static int find_separator(kmf_table *t, kmf_err *err)
{
    int status = refill(t, err);
    if (status > 0)
        t->p += kmf_byte_order_mark(t->p, (size_t)(t->end - t->p));
    while (status > 0 && (status = refill(t, err)) > 0) {
        const char *newline = memchr(t->p, '\n', (size_t)(t->end - t->p));
        size_t n = (size_t)((newline ? newline : t->end) - t->p);
        t->separator = memchr(t->p, '\t', n) ? '\t' : ',';
        if (!newline || !is_blank_line(t->p, n))
            return 0;
        t->p = newline + 1;
        t->line++;
    }
    return status;
}

static int read_names(kmf_table *t, kmf_err *err)
{
    int status = find_separator(t, err);
    if (status == 0)
        status = read_row(t, err);
    if (status <= 0)
        return status < 0 ? status
                          : kmf_fail(err, KMF_EFORMAT,
                                     "%s: an empty file, without names of columns", t->file);
    t->n_columns = t->n_fields;
    t->columns = kmf_calloc(t->n_columns, sizeof *t->columns, err);
    if (!t->columns)
        return KMF_ENOMEM;
    memcpy(t->columns, t->begin, t->n_columns * sizeof *t->columns);
    t->names = t->row;
    t->row = (kmf_text){0};
    return 0;
}

kmf_table *kmf_table_open(kmf_bytes *in, const char *name, kmf_err *err)
{
    kmf_table *t = kmf_calloc(1, sizeof *t, err);
    if (!t) {
        kmf_bytes_close(in);
        return NULL;
    }
    t->in = in;
    t->line = 1;
    t->file = kmf_strdup(name, err);
    if (t->file && read_names(t, err) == 0)
        return t;
    kmf_table_close(t);
    return NULL;
}

void kmf_table_close(kmf_table *t)
{
    if (!t)
        return;
    kmf_bytes_close(t->in);
    kmf_free(t->file);
    kmf_free(t->row.bytes);
    kmf_free(t->begin);
    kmf_free(t->names.bytes);
    kmf_free(t->columns);
    kmf_free(t);
}

/* folded: capitals of ASCII count as small letters, whatever the locale. */
static bool is_name(const char *column, const char *name, bool folded)
{
    for (; *name; column++, name++) {
        char letter = *column;
        if (folded && letter >= 'A' && letter <= 'Z')
            letter = (char)(letter - 'A' + 'a');
        if (letter != *name)
            return false;
    }
    return *column == '\0';
}

int kmf_table_column(int *column, const kmf_table *t, const char *name, kmf_err *err)
{
    *column = -1;
    for (int folded = 0; folded < 2 && *column < 0; folded++)
        for (size_t i = 0; i < t->n_columns; i++) {
            if (!is_name(t->names.bytes + t->columns[i], name, folded != 0))
                continue;
            if (*column >= 0)
                return kmf_fail(err, KMF_EFORMAT, "%s: two columns are called '%s'", t->file,
                                name);
            *column = (int)i;
        }
    return 0;
}

int kmf_table_next(kmf_table *t, kmf_err *err)
{
    int status = read_row(t, err);
    if (status > 0 && t->n_fields != t->n_columns)
        return kmf_table_fail(t, err, "%zu fields for %zu columns", t->n_fields, t->n_columns);
    return status;
}

const char *kmf_table_field(const kmf_table *t, int column, size_t *len)
{
    const char *field = t->row.bytes + t->begin[column];
    if (len)
        *len = t->begin[column + 1] - t->begin[column] - 1;
    return field;
}
