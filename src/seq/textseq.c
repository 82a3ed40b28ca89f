/* SPDX-License-Identifier: MIT */
/*
 * A parser of lines that never holds a line.
 *
 * Input comes in blocks; a line may be a few bytes or a whole chromosome of 250 Mb, and may be
 * cut by the end of a block anywhere. The unit of work is therefore the piece: what of a line
 * lies in one block, found by memchr, with the line end (LF or CR LF) taken off. Pieces of
 * sequence go straight into the record's buffer, checked as they are copied; pieces of quality
 * are only checked and counted. So each base is touched twice, once by memchr and once by the
 * copy, both 16 bytes or more at a time, and the extra memory is one block.
 *
 *     block    ...ACGT \r \n > s e q 2   b l a \n A C G | G T \n ...
 *              piece       header: name   rest     piece 1  piece 2 of one line
 *
 * A CR at the very end of a block is held back until the next byte shows whether it belonged
 * to a line end.
 *
 * Why not kseq.h or htslib's own FASTA reader: both pass over text that is in the wrong place,
 * neither knows line numbers, and htslib's record holds lengths in 32 bits.
 *
 * How many quality lines there are cannot be told from their looks, since a quality may begin
 * with '@' or '+'. Two rules settle it. A sequence on one line has its quality on one line;
 * then a line that is too short is seen at once and the message names the right record. A
 * sequence on several lines takes quality lines until it has enough values.
 */
#include "seq/textseq.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "seq/dna.h"

#define STEP 32                         /* bytes checked at once; a multiple of any vector */
#define SHRINK_ABOVE ((size_t)64 << 20) /* a larger buffer is given back after a small record */
#define BYTE_ORDER_MARK "\xef\xbb\xbf"  /* what some editors put before UTF-8 text */
#define SHOWN_NAME 80                   /* bytes of a name that a message shows */

typedef struct text {
    char *bytes; /* owned */
    size_t len;
    size_t cap;
} text;

struct kmf_textseq {
    kmf_bytes *in; /* owned */
    char *file;    /* owned; for messages */
    const char *p; /* the unread part of the block: borrowed from in */
    const char *end;
    bool fastq;
    bool held_cr;        /* the line so far ended with a CR at the end of a block */
    bool cut;            /* the line read last had no line end: the input ended in it */
    uint64_t line;       /* lines begun so far */
    uint64_t n_records;  /* records begun so far */
    uint64_t first_line; /* of this record */
    text name;
    text seq;
};

/* One piece of a line. */
typedef struct piece {
    const char *bytes; /* borrowed from the block */
    size_t len;
    bool last; /* the line ends with it */
} piece;

/* ---------------------------------------------------------------- messages ---------------- */

/* "file: record 812 (line 3245): what" */
static int fail_record(const kmf_textseq *t, kmf_err *err, const char *format, ...)
    KMF_PRINTF(3, 4);

static int fail_record(const kmf_textseq *t, kmf_err *err, const char *format, ...)
{
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return kmf_fail(err, KMF_EFORMAT, "%s: record %" PRIu64 " (line %" PRIu64 "): %s", t->file,
                    t->n_records, t->first_line, what);
}

/* The same with the record's name and the line at hand. */
static int fail_byte(const kmf_textseq *t, kmf_err *err, unsigned char byte, const char *where)
{
    char name[SHOWN_NAME + 1];
    size_t n = t->name.len < SHOWN_NAME ? t->name.len : SHOWN_NAME;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)t->name.bytes[i];
        name[i] = (char)(c < 0x20 || c == 0x7f ? '?' : c);
    }
    name[n] = '\0';
    if (byte == '\r')
        return kmf_fail(
            err, KMF_EFORMAT,
            "%s: record %" PRIu64 " (line %" PRIu64
            "): a carriage return inside the line: lines that end with CR alone must "
            "be converted (tr '\\r' '\\n')",
            t->file, t->n_records, t->line);
    return kmf_fail(err, KMF_EFORMAT,
                    "%s: record %" PRIu64 " '%s' (line %" PRIu64
                    "): unexpected byte 0x%02x in the %s",
                    t->file, t->n_records, name, t->line, byte, where);
}

static int fail_end(const kmf_textseq *t, kmf_err *err)
{
    return kmf_fail(err, KMF_EFORMAT, "%s: ends inside record %" PRIu64 " (line %" PRIu64 ")",
                    t->file, t->n_records, t->first_line);
}

/* ---------------------------------------------------------------- pieces ------------------ */

/* 1: there are unread bytes; 0: the end; negative: a kmf_code. */
static int refill(kmf_textseq *t, kmf_err *err)
{
    kmf_err reason = {0};
    const char *block;
    size_t len;
    int status = kmf_bytes_next(t->in, &block, &len, &reason);
    if (status < 0) {
        char place[64] = "";
        if (t->n_records > 0)
            snprintf(place, sizeof place,
                     "record %" PRIu64 " (line %" PRIu64 "): ", t->n_records, t->line);
        return kmf_fail(err, reason.code, "%s: %s%s", t->file, place, reason.msg);
    }
    if (status > 0) {
        t->p = block;
        t->end = block + len;
    }
    return status;
}

/* At the start of a line: 1 and its first byte; 0: the end; negative: a kmf_code. */
static int peek(kmf_textseq *t, char *first, kmf_err *err)
{
    if (t->p == t->end) {
        int status = refill(t, err);
        if (status <= 0)
            return status;
    }
    *first = *t->p;
    return 1;
}

/* The next piece of the line at hand. 0 or a negative kmf_code. */
static int next_piece(kmf_textseq *t, piece *part, kmf_err *err)
{
    t->cut = false;
    if (t->p == t->end) {
        int status = refill(t, err);
        if (status < 0)
            return status;
        if (status == 0) {
            part->bytes = "";
            part->len = 0;
            part->last = true;
            t->held_cr = false;
            t->cut = true;
            return 0;
        }
    }
    if (t->held_cr) {
        t->held_cr = false;
        if (*t->p != '\n') {
            part->bytes = "\r";
            part->len = 1;
            part->last = false;
            return 0;
        }
    }
    const char *newline = memchr(t->p, '\n', (size_t)(t->end - t->p));
    const char *stop = newline ? newline : t->end;
    part->bytes = t->p;
    part->len = (size_t)(stop - t->p);
    part->last = newline != NULL;
    t->p = newline ? newline + 1 : stop;
    if (part->len > 0 && stop[-1] == '\r') {
        part->len--;
        t->held_cr = !newline;
    }
    return 0;
}

/* ---------------------------------------------------------------- bytes ------------------- */

static inline unsigned char not_a_quality(char c)
{
    return (unsigned char)((unsigned char)c - 33) > 126 - 33;
}

static inline unsigned char copy_step(char *restrict out, const char *restrict in)
{
    unsigned char bad = 0;
    for (int i = 0; i < STEP; i++) {
        out[i] = in[i];
        bad |= kmf_not_a_base(in[i]);
    }
    return bad;
}

/* Copies n bytes; false if one of them is not a base. The last step overlaps the one before. */
static bool copy_bases(char *restrict out, const char *restrict in, size_t n)
{
    unsigned char bad = 0;
    if (n < STEP) {
        for (size_t i = 0; i < n; i++) {
            out[i] = in[i];
            bad |= kmf_not_a_base(in[i]);
        }
        return !bad;
    }
    for (size_t i = 0; i + STEP <= n; i += STEP)
        bad |= copy_step(out + i, in + i);
    bad |= copy_step(out + n - STEP, in + n - STEP);
    return !bad;
}

static inline unsigned char check_step(const char *in)
{
    unsigned char bad = 0;
    for (int i = 0; i < STEP; i++)
        bad |= not_a_quality(in[i]);
    return bad;
}

static bool check_quality(const char *in, size_t n)
{
    unsigned char bad = 0;
    if (n < STEP) {
        for (size_t i = 0; i < n; i++)
            bad |= not_a_quality(in[i]);
        return !bad;
    }
    for (size_t i = 0; i + STEP <= n; i += STEP)
        bad |= check_step(in + i);
    bad |= check_step(in + n - STEP);
    return !bad;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Room for n more bytes and a NUL. */
static int reserve(text *x, size_t n, kmf_err *err)
{
    size_t need;
    if (x->cap - x->len > n)
        return 0;
    if (!kmf_add(x->len, n, &need) || !kmf_add(need, 1, &need))
        return kmf_fail(err, KMF_ENOMEM, "out of memory: a record does not fit");
    return kmf_grow(&x->bytes, &x->cap, need, 1, err);
}

/* ---------------------------------------------------------------- lines ------------------- */

/* '>' or '@' and the name, which is left in t->name. */
static int header_line(kmf_textseq *t, kmf_err *err)
{
    piece part;
    bool in_name = true;
    t->line++;
    t->n_records++;
    t->first_line = t->line;
    t->name.len = 0;
    t->p++;
    do {
        int status = next_piece(t, &part, err);
        if (status < 0)
            return status;
        if (memchr(part.bytes, '\0', part.len))
            return fail_byte(t, err, '\0', "header");
        if (memchr(part.bytes, '\r', part.len))
            return fail_byte(t, err, '\r', "header");
        if (!in_name)
            continue;
        size_t n = 0;
        while (n < part.len && !is_blank(part.bytes[n]))
            n++;
        in_name = n == part.len;
        status = reserve(&t->name, n, err);
        if (status < 0)
            return status;
        memcpy(t->name.bytes + t->name.len, part.bytes, n);
        t->name.len += n;
        t->name.bytes[t->name.len] = '\0';
    } while (!part.last);
    return 0;
}

/* A piece with a byte that is not a base: blanks are left out, all others are an error. */
static int copy_with_blanks(kmf_textseq *t, const piece *part, kmf_err *err)
{
    for (size_t i = 0; i < part->len; i++) {
        char c = part->bytes[i];
        if (is_blank(c))
            continue;
        if (kmf_not_a_base(c))
            return fail_byte(t, err, (unsigned char)c, "sequence");
        t->seq.bytes[t->seq.len++] = c;
    }
    return 0;
}

static int sequence_line(kmf_textseq *t, kmf_err *err)
{
    piece part;
    t->line++;
    do {
        int status = next_piece(t, &part, err);
        if (status < 0)
            return status;
        status = reserve(&t->seq, part.len, err);
        if (status < 0)
            return status;
        if (copy_bases(t->seq.bytes + t->seq.len, part.bytes, part.len)) {
            t->seq.len += part.len;
            continue;
        }
        status = copy_with_blanks(t, &part, err);
        if (status < 0)
            return status;
    } while (!part.last);
    return 0;
}

/* Adds the line's values to *n_values. */
static int quality_line(kmf_textseq *t, size_t *n_values, kmf_err *err)
{
    piece part;
    t->line++;
    do {
        int status = next_piece(t, &part, err);
        if (status < 0)
            return status;
        if (!check_quality(part.bytes, part.len)) {
            const char *c = part.bytes;
            while (!not_a_quality(*c))
                c++;
            return fail_byte(t, err, (unsigned char)*c, "quality");
        }
        *n_values += part.len;
    } while (!part.last);
    return 0;
}

/* Goes on to the next line. *blank: it had nothing but blanks. */
static int skip_line(kmf_textseq *t, bool *blank, kmf_err *err)
{
    piece part;
    t->line++;
    *blank = true;
    do {
        int status = next_piece(t, &part, err);
        if (status < 0)
            return status;
        for (size_t i = 0; i < part.len && *blank; i++)
            *blank = is_blank(part.bytes[i]);
    } while (!part.last);
    return 0;
}

/*
 * Passes over blank lines. 1 and the first byte of a line that is not blank; 0: the end. A line
 * that begins with a blank but goes on otherwise is reported by its blank.
 */
static int skip_blank_lines(kmf_textseq *t, char *first, kmf_err *err)
{
    for (;;) {
        bool blank;
        int status = peek(t, first, err);
        if (status <= 0 || !(is_blank(*first) || *first == '\r' || *first == '\n'))
            return status;
        status = skip_line(t, &blank, err);
        if (status < 0)
            return status;
        if (!blank) {
            t->line--;
            return 1;
        }
    }
}

/* ---------------------------------------------------------------- records ----------------- */

static int fasta_record(kmf_textseq *t, kmf_err *err)
{
    char first;
    int status = header_line(t, err);
    if (status < 0)
        return status;
    while ((status = peek(t, &first, err)) > 0 && first != '>') {
        if (first == '@')
            return kmf_fail(err, KMF_EFORMAT,
                            "%s: record %" PRIu64 " (line %" PRIu64
                            "): a FASTQ record ('@') in a FASTA file",
                            t->file, t->n_records + 1, t->line + 1);
        status = sequence_line(t, err);
        if (status < 0)
            return status;
    }
    return status < 0 ? status : 1;
}

/* The sequence lines and the one with '+'. *n_lines: how many of them held bases. */
static int fastq_sequence(kmf_textseq *t, size_t *n_lines, kmf_err *err)
{
    char first;
    bool blank;
    *n_lines = 0;
    for (;;) {
        int status = peek(t, &first, err);
        if (status < 0)
            return status;
        if (status == 0)
            return fail_end(t, err);
        if (first == '+')
            return skip_line(t, &blank, err);
        if (first == '>')
            return fail_record(
                t, err, "a FASTA record ('>') begins inside it, on line %" PRIu64, t->line + 1);
        size_t before = t->seq.len;
        status = sequence_line(t, err);
        if (status < 0)
            return status;
        *n_lines += t->seq.len > before;
    }
}

static int fastq_quality(kmf_textseq *t, size_t n_lines, kmf_err *err)
{
    char first = '\n';
    size_t n = 0;
    bool more = true;
    while (more) {
        int status = peek(t, &first, err);
        if (status < 0)
            return status;
        if (status == 0 || (t->seq.len == 0 && first == '@'))
            break;
        status = quality_line(t, &n, err);
        if (status < 0)
            return status;
        more = n_lines > 1 && n < t->seq.len;
    }
    if (n == t->seq.len)
        return 0;
    if (n < t->seq.len && (more || t->cut))
        return fail_end(t, err);
    return fail_record(t, err, "%zu quality values for %zu bases", n, t->seq.len);
}

static int fastq_record(kmf_textseq *t, kmf_err *err)
{
    char first;
    size_t n_lines;
    int status = skip_blank_lines(t, &first, err);
    if (status <= 0)
        return status;
    if (first != '@') {
        t->n_records++;
        t->first_line = t->line + 1;
        if (first == '>')
            return fail_record(t, err, "a FASTA record ('>') in a FASTQ file");
        return fail_record(t, err, "a record must begin with '@', got byte 0x%02x",
                           (unsigned)(unsigned char)first);
    }
    status = header_line(t, err);
    if (status == 0)
        status = fastq_sequence(t, &n_lines, err);
    if (status == 0)
        status = fastq_quality(t, n_lines, err);
    return status < 0 ? status : 1;
}

kmf_textseq *kmf_textseq_open(kmf_bytes *in, const char *name, kmf_err *err)
{
    char first = '\0';
    kmf_textseq *t = kmf_calloc(1, sizeof *t, err);
    if (!t) {
        kmf_bytes_close(in);
        return NULL;
    }
    t->in = in;
    t->file = kmf_strdup(name, err);
    if (!t->file)
        goto failed;
    int status = peek(t, &first, err);
    if (status > 0 && t->end - t->p >= 3 && memcmp(t->p, BYTE_ORDER_MARK, 3) == 0)
        t->p += 3;
    if (status > 0)
        status = skip_blank_lines(t, &first, err);
    if (status < 0)
        goto failed;
    if (status > 0 && first != '>' && first != '@') {
        kmf_fail(err, KMF_EFORMAT, "%s: not FASTA, FASTQ, SAM, BAM or CRAM", name);
        goto failed;
    }
    t->fastq = first == '@';
    return t;
failed:
    kmf_textseq_close(t);
    return NULL;
}

void kmf_textseq_close(kmf_textseq *t)
{
    if (!t)
        return;
    kmf_bytes_close(t->in);
    kmf_free(t->file);
    kmf_free(t->name.bytes);
    kmf_free(t->seq.bytes);
    kmf_free(t);
}

int kmf_textseq_next(kmf_textseq *t, kmf_record *rec, kmf_err *err)
{
    if (t->seq.cap > SHRINK_ABOVE && t->seq.len < t->seq.cap / 8) {
        kmf_free(t->seq.bytes);
        t->seq = (text){0};
    }
    t->seq.len = 0;
    int status;
    if (t->fastq) {
        status = fastq_record(t, err);
    } else {
        char first;
        status = peek(t, &first, err);
        if (status > 0)
            status = fasta_record(t, err);
    }
    if (status > 0 && reserve(&t->seq, 0, err) < 0)
        status = KMF_ENOMEM;
    if (status <= 0)
        return status;
    t->seq.bytes[t->seq.len] = '\0';
    rec->name = t->name.bytes;
    rec->seq = t->seq.bytes;
    rec->len = t->seq.len;
    return 1;
}
