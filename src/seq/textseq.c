/* SPDX-License-Identifier: MIT */
/*
 * A parser of lines that never holds a line.
 *
 * Input comes in blocks; a line may be a few bytes or a whole chromosome of 250 Mb, and may be
 * cut by the end of a block anywhere. The unit of work is therefore the piece: what of a line
 * lies in one block, found by memchr, with the line end (LF or CR LF) taken off. Pieces of
 * sequence go straight into the buffer asked for, checked as they are copied; pieces of quality
 * are only checked and counted. The extra memory is one block.
 *
 *     block    ...ACGT \r \n > s e q 2   b l a \n A C G | G T \n ...
 *              piece       header: name   rest     piece 1  piece 2 of one line
 *
 * A CR at the very end of a block is held back until the next byte shows whether it belonged
 * to a line end.
 *
 * Nearly all of a usual file needs none of this: FASTQ records of four lines, and lines of
 * FASTA, that lie in one block. scan.c takes these first, as many as there are, and stops
 * without a trace before anything else: what crosses the end of a block, blanks, more lines,
 * faults. That is read here, piece by piece, and only here a fault gets its message.
 *
 * Sequences are handed out in one of two ways: record by record, or as one text in portions
 * that may begin and end inside a record (in_record) and inside a line of FASTA (in_line).
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
#include "seq/scan.h"

#define SHRINK_ABOVE ((size_t)64 << 20) /* a larger buffer is given back after a small record */
#define SLACK ((size_t)64 << 10)        /* bytes by which a text may go beyond what is wanted */

struct kmf_textseq {
    kmf_bytes *in; /* owned */
    char *file;    /* owned; for messages */
    const char *p; /* the unread part of the block: borrowed from in */
    const char *end;
    bool fastq;
    bool held_cr;        /* the line so far ended with a CR at the end of a block */
    bool cut;            /* the line read last had no line end: the input ended in it */
    bool in_record;      /* of a text: its header was read, its '\n' not written */
    bool in_line;        /* the rest of a sequence line comes next */
    size_t width;        /* bytes of a sequence line, lately */
    uint64_t line;       /* lines begun so far */
    uint64_t n_records;  /* records begun so far */
    uint64_t first_line; /* of this record */
    kmf_text name;
    kmf_text comment; /* what follows it in the header, from the blank on */
    kmf_text seq;     /* of this record, if records are handed out */
};

/* One piece of a line. */
typedef struct piece {
    const char *bytes; /* borrowed from the block */
    size_t len;
    bool last; /* the line ends with it */
} piece;

/* ---------------------------------------------------------------- messages ---------------- */

/* What the source tells, with its place. */
static int fail_source(const kmf_textseq *t, kmf_err *err, const kmf_err *reason)
{
    char place[64] = "";
    if (t->n_records > 0)
        snprintf(place, sizeof place, "record %" PRIu64 " (line %" PRIu64 "): ", t->n_records,
                 t->line);
    return kmf_fail(err, reason->code, "%s: %s%s", t->file, place, reason->msg);
}

/* Damaged data may inflate to nonsense before that is found: 0, or it is the failure. */
static int blame_damage(const kmf_textseq *t, kmf_err *err)
{
    kmf_err reason = {0};
    int status = kmf_bytes_look_for_damage(t->in, &reason);
    return status < 0 ? fail_source(t, err, &reason) : 0;
}

/* "file: record 812 (line 3245): what" */
static KMF_PRINTF(3, 4) int fail_record(const kmf_textseq *t, kmf_err *err, const char *format,
                                        ...)
{
    char what[256];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    int status = blame_damage(t, err);
    if (status < 0)
        return status;
    return kmf_fail(err, KMF_EFORMAT, "%s: record %" PRIu64 " (line %" PRIu64 "): %s", t->file,
                    t->n_records, t->first_line, what);
}

/* The same with the record's name and the line at hand. */
static int fail_byte(const kmf_textseq *t, kmf_err *err, unsigned char byte, const char *where)
{
    char shown[KMF_ERR_SHOW];
    int status = blame_damage(t, err);
    if (status < 0)
        return status;
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
                    t->file, t->n_records,
                    kmf_err_show_n(shown, t->name.len > 0 ? t->name.bytes : "", t->name.len),
                    t->line, byte, where);
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
    if (status < 0)
        return fail_source(t, err, &reason);
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

/* The next piece of the line at hand, of at most `most` > 0 bytes. 0 or a negative kmf_code. */
static int next_piece(kmf_textseq *t, size_t most, piece *part, kmf_err *err)
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
    size_t left = (size_t)(t->end - t->p);
    size_t n = kmf_min(left, most);
    const char *newline = memchr(t->p, '\n', n);
    const char *stop = newline ? newline : t->p + n;
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

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool is_quality(char c)
{
    return c >= 33 && c <= 126;
}

/* ---------------------------------------------------------------- lines ------------------- */

/*
 * Adds to t->name what of a header comes before its first blank, and the rest to t->comment.
 * *whole: the name has ended.
 */
static int add_header(kmf_textseq *t, const char *header, size_t len, bool *whole, kmf_err *err)
{
    size_t n = 0;
    while (!*whole && n < len && !is_blank(header[n]))
        n++;
    *whole = *whole || n < len;
    int status = kmf_text_append(&t->name, header, n, err);
    return status < 0 ? status : kmf_text_append(&t->comment, header + n, len - n, err);
}

/* '>' or '@', the name and the comment, which are left in t->name and t->comment. */
static int header_line(kmf_textseq *t, kmf_err *err)
{
    piece part;
    bool whole_name = false;
    t->line++;
    t->n_records++;
    t->first_line = t->line;
    t->name.len = 0;
    t->comment.len = 0;
    t->p++;
    do {
        int status = next_piece(t, SIZE_MAX, &part, err);
        if (status < 0)
            return status;
        if (memchr(part.bytes, '\0', part.len))
            return fail_byte(t, err, '\0', "header");
        if (memchr(part.bytes, '\r', part.len))
            return fail_byte(t, err, '\r', "header");
        status = add_header(t, part.bytes, part.len, &whole_name, err);
        if (status < 0)
            return status;
    } while (!part.last);
    return 0;
}

/* A piece with a byte that is not a base: blanks are left out, all others are an error. */
static int copy_with_blanks(kmf_textseq *t, kmf_text *to, const piece *part, kmf_err *err)
{
    for (size_t i = 0; i < part->len; i++) {
        char c = part->bytes[i];
        if (is_blank(c))
            continue;
        if (kmf_not_a_base(c))
            return fail_byte(t, err, (unsigned char)c, "sequence");
        to->bytes[to->len++] = c;
    }
    return 0;
}

/* Appends the letters of the line at hand, or of its rest, as long as to->len < want. */
static int sequence_line(kmf_textseq *t, kmf_text *to, size_t want, kmf_err *err)
{
    piece part;
    bool sound;
    t->line += !t->in_line;
    do {
        int status = next_piece(t, want - to->len, &part, err);
        if (status < 0)
            return status;
        status = kmf_text_reserve(to, part.len, err);
        if (status < 0)
            return status;
        kmf_scan_letters(to->bytes + to->len, part.bytes, part.len, &sound);
        if (sound)
            to->len += part.len;
        else
            status = copy_with_blanks(t, to, &part, err);
        if (status < 0)
            return status;
        t->in_line = !part.last;
    } while (t->in_line && to->len < want);
    return 0;
}

/* Adds the line's values to *n_values. */
static int quality_line(kmf_textseq *t, size_t *n_values, kmf_err *err)
{
    piece part;
    bool sound;
    t->line++;
    do {
        int status = next_piece(t, SIZE_MAX, &part, err);
        if (status < 0)
            return status;
        kmf_scan_quality(part.bytes, part.len, &sound);
        if (!sound) {
            const char *c = part.bytes;
            while (is_quality(*c))
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
        int status = next_piece(t, SIZE_MAX, &part, err);
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

/* ---------------------------------------------------------------- the simple -------------- */

/* What of the block can be taken, and SLACK. */
static size_t room_for(const kmf_textseq *t, const kmf_text *to, size_t want)
{
    size_t left = (size_t)(t->end - t->p);
    size_t wanted = want - to->len;
    return kmf_min(wanted, left) + SLACK;
}

/*
 * What is simple is appended to `to` up to `want` bytes, the last record or line whole. room:
 * so many bytes of `to` may be used.
 */
static kmf_scan scan_from(const kmf_textseq *t, const kmf_text *to, size_t want, size_t room)
{
    return (kmf_scan){.in = t->p,
                      .in_end = t->end,
                      .out = to->bytes + to->len,
                      .stop = to->bytes + kmf_min(want, room),
                      .room = to->bytes + room,
                      .width = t->width};
}

static void scan_to(kmf_textseq *t, kmf_text *to, const kmf_scan *s)
{
    t->p = s->in;
    t->width = s->width;
    to->len = (size_t)(s->out - to->bytes);
}

/* Appends FASTQ records, each with '\n' after it. 0 or a negative kmf_code. */
static int scan_records(kmf_textseq *t, kmf_text *to, size_t want, kmf_err *err)
{
    int status = kmf_text_reserve(to, room_for(t, to, want), err);
    if (status < 0)
        return status;
    kmf_scan s = scan_from(t, to, want, to->cap);
    kmf_scan_records(&s);
    scan_to(t, to, &s);
    t->n_records += s.n;
    t->line += 4 * s.n;
    return 0;
}

/* Appends FASTA sequence lines. 0 or a negative kmf_code. */
static int scan_lines(kmf_textseq *t, kmf_text *to, size_t want, kmf_err *err)
{
    size_t n = room_for(t, to, want);
    int status = kmf_text_reserve(to, n, err);
    if (status < 0)
        return status;
    kmf_scan s = scan_from(t, to, want, to->len + n);
    kmf_scan_lines(&s);
    scan_to(t, to, &s);
    t->line += s.n;
    return 0;
}

/* ---------------------------------------------------------------- records ----------------- */

/*
 * Appends the letters of the record at hand. 0: it has no more; 1: to->len >= want; negative: a
 * kmf_code.
 */
static int fasta_sequence(kmf_textseq *t, kmf_text *to, size_t want, kmf_err *err)
{
    char first;
    while (to->len < want) {
        int status = t->in_line ? 0 : scan_lines(t, to, want, err);
        if (status < 0 || to->len >= want)
            return status < 0 ? status : 1;
        if (!t->in_line) {
            status = peek(t, &first, err);
            if (status <= 0 || first == '>')
                return status < 0 ? status : 0;
            if (first == '@') {
                status = blame_damage(t, err);
                return status < 0 ? status
                                  : kmf_fail(err, KMF_EFORMAT,
                                             "%s: record %" PRIu64 " (line %" PRIu64
                                             "): a FASTQ record ('@') in a FASTA file",
                                             t->file, t->n_records + 1, t->line + 1);
            }
        }
        status = sequence_line(t, to, want, err);
        if (status < 0)
            return status;
    }
    return 1;
}

/* As kmf_textseq_next. */
static int fasta_record(kmf_textseq *t, kmf_err *err)
{
    char first;
    int status = peek(t, &first, err);
    if (status <= 0)
        return status;
    status = header_line(t, err);
    if (status == 0)
        status = fasta_sequence(t, &t->seq, SIZE_MAX, err);
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
        status = sequence_line(t, &t->seq, SIZE_MAX, err);
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
    if (status > 0)
        t->p += kmf_byte_order_mark(t->p, (size_t)(t->end - t->p));
    if (status > 0)
        status = skip_blank_lines(t, &first, err);
    if (status < 0)
        goto failed;
    if (status > 0 && first != '>' && first != '@') {
        if (blame_damage(t, err) == 0)
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
    kmf_free(t->comment.bytes);
    kmf_free(t->seq.bytes);
    kmf_free(t);
}

/* A simple record; 0: the next is none. */
static int simple_record(kmf_textseq *t, kmf_err *err)
{
    const char *header = t->p + 1;
    bool whole = false;
    int status = scan_records(t, &t->seq, 1, err);
    if (status < 0 || t->seq.len == 0)
        return status;
    t->seq.len--;
    t->name.len = 0;
    t->comment.len = 0;
    const char *stop = memchr(header, '\n', (size_t)(t->p - header));
    assert(stop);
    stop -= stop[-1] == '\r';
    status = add_header(t, header, (size_t)(stop - header), &whole, err);
    return status < 0 ? status : 1;
}

uint64_t kmf_textseq_taken(kmf_textseq *t, int descriptor)
{
    return kmf_bytes_taken(t->in, descriptor);
}

int kmf_textseq_next(kmf_textseq *t, kmf_record *rec, kmf_err *err)
{
    if (t->seq.cap > SHRINK_ABOVE && t->seq.len < t->seq.cap / 8) {
        kmf_free(t->seq.bytes);
        t->seq = (kmf_text){0};
    }
    t->seq.len = 0;
    int status = t->fastq ? simple_record(t, err) : fasta_record(t, err);
    if (status == 0 && t->fastq)
        status = fastq_record(t, err);
    if (status > 0 && kmf_text_append(&t->seq, "", 0, err) < 0)
        status = KMF_ENOMEM;
    if (status <= 0)
        return status;
    rec->name = t->name.bytes;
    rec->comment = t->comment.bytes;
    while (is_blank(*rec->comment))
        rec->comment++;
    rec->seq = t->seq.bytes;
    rec->len = t->seq.len;
    return 1;
}

/* ---------------------------------------------------------------- as a text --------------- */

/* The last letter of a record has been written. 1 or a negative kmf_code. */
static int end_record(kmf_text *text, uint64_t *n_ended, kmf_err *err)
{
    int status = kmf_text_append(text, "\n", 1, err);
    *n_ended += status == 0;
    return status < 0 ? status : 1;
}

/* 1: there may be more; 0: the end; negative: a kmf_code. */
static int fasta_portion(kmf_textseq *t, kmf_text *text, size_t want, uint64_t *n_ended,
                         kmf_err *err)
{
    char first;
    int status;
    if (!t->in_record) {
        status = peek(t, &first, err);
        if (status <= 0)
            return status;
        status = header_line(t, err);
        if (status < 0)
            return status;
        t->in_record = true;
    }
    status = fasta_sequence(t, text, want, err);
    if (status != 0)
        return status;
    t->in_record = false;
    return end_record(text, n_ended, err);
}

/* Likewise. A record that is not simple is read whole and then copied. */
static int fastq_portion(kmf_textseq *t, kmf_text *text, size_t want, uint64_t *n_ended,
                         kmf_err *err)
{
    uint64_t n_records = t->n_records;
    int status = scan_records(t, text, want, err);
    *n_ended += t->n_records - n_records;
    if (status < 0 || text->len >= want)
        return status < 0 ? status : 1;
    t->seq.len = 0;
    status = fastq_record(t, err);
    if (status <= 0)
        return status;
    status = kmf_text_append(text, t->seq.bytes, t->seq.len, err);
    return status < 0 ? status : end_record(text, n_ended, err);
}

int kmf_textseq_fill(kmf_textseq *t, kmf_text *text, size_t want, kmf_reader_stats *stats,
                     kmf_err *err)
{
    size_t before = text->len;
    uint64_t n_ended = 0;
    int status = 1;
    while (status > 0 && text->len < want)
        status = t->fastq ? fastq_portion(t, text, want, &n_ended, err)
                          : fasta_portion(t, text, want, &n_ended, err);
    stats->records += n_ended;
    stats->bases += text->len - before - n_ended;
    return status < 0 ? status : text->len > before;
}
