/* SPDX-License-Identifier: MIT */
/*
 * Random access by htslib's faidx: the index says where each contig begins and how long its lines
 * are, so that a base is found by arithmetic.
 *
 * All regions are resolved when the file is opened. A mistake in the last line of a BED file
 * is then found before hours of work, not after them. A region is 40 bytes, and its name.
 */
#include "seq/regions.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "base/number.h"
#include "seq/bytes.h"
#include "seq/dna.h"
#include "seq/fai.h"
#include "seq/textseq.h"

#include <htslib/hts.h>

#define BED_COLUMNS 6
#define NO_NAME SIZE_MAX

struct region {
    size_t contig;
    uint64_t beg; /* 0-based */
    uint64_t end; /* one past the last */
    size_t name;  /* offset in names; NO_NAME: it is called by its place */
    bool reverse;
};

struct kmf_regions {
    char *path;          /* owned */
    kmf_fai fai;         /* owned */
    struct region *list; /* owned [n] */
    size_t n;
    size_t cap;
    size_t next;
    kmf_text names; /* owned; of a BED file's fourth column, each with a NUL */
    char *label;    /* owned */
    size_t cap_label;
    char *seq; /* owned, from htslib: free() */
};

/* ---------------------------------------------------------------- the list ---------------- */

static int add_region(kmf_regions *r, struct region region, kmf_err *err)
{
    int status = kmf_grow(&r->list, &r->cap, r->n + 1, sizeof *r->list, err);
    if (status < 0)
        return status;
    r->list[r->n++] = region;
    return 0;
}

/* ":beg-end", ":beg-", ":beg" or nothing, up to `stop`. */
static int parse_range(const kmf_regions *r, const char *text, int n_text, const char *range,
                       const char *stop, struct region *region, kmf_err *err)
{
    uint64_t len = r->fai.contigs[region->contig].len;
    uint64_t beg = 1;
    uint64_t end = len;
    if (range < stop) {
        const char *p = *range == ':' ? kmf_read_digits(range + 1, &beg) : NULL;
        if (p && p < stop && *p == '-') {
            p++;
            if (p < stop)
                p = kmf_read_digits(p, &end);
        }
        if (p != stop)
            return kmf_fail(err, KMF_EINVAL,
                            "region '%.*s': a range is written NAME:BEG-END or NAME:BEG-",
                            n_text, text);
        if (beg < 1)
            return kmf_fail(err, KMF_EINVAL, "region '%.*s': positions begin at 1", n_text,
                            text);
        if (beg > len || end > len)
            return kmf_fail(err, KMF_EINVAL,
                            "region '%.*s': %s has only %" PRIu64 " bases in %s", n_text, text,
                            r->fai.contigs[region->contig].name, len, r->path);
        if (end < beg)
            return kmf_fail(err, KMF_EINVAL, "region '%.*s': ends before it begins", n_text,
                            text);
    }
    region->beg = beg - 1;
    region->end = end;
    return 0;
}

/* As what stands behind the comma of chr:1,000-2,000? */
static bool is_split_number(const char *text, size_t n)
{
    static const char digits[] = "0123456789";
    return strspn(text, digits) >= 3 && strspn(text, "0123456789-") >= n;
}

/* The last colon before stop; stop: there is none. */
static const char *last_colon(const char *text, const char *stop)
{
    for (const char *p = stop; p > text; p--)
        if (p[-1] == ':')
            return p - 1;
    return stop;
}

/* Is what stands in text up to stop, the name of a contig, also a range of another one? */
static bool is_ambiguous(const kmf_regions *r, const char *text, const char *stop)
{
    const char *colon = last_colon(text, stop);
    return colon < stop && colon + 1 + strspn(colon + 1, "0123456789-") >= stop &&
           kmf_fai_find(&r->fai, text, (size_t)(colon - text)) >= 0;
}

/* One region: n bytes of text. */
static int parse_region(kmf_regions *r, const char *text, size_t n, kmf_err *err)
{
    const char *stop = text + n;
    const char *name = text;
    const char *name_end = stop;
    const char *range = stop;
    int n_text = n < 200 ? (int)n : 200;
    if (n > 0 && *text == '{') {
        const char *brace = memchr(text, '}', n);
        if (!brace)
            return kmf_fail(err, KMF_EINVAL, "region '%.*s': a closing brace is missing",
                            n_text, text);
        name = text + 1;
        name_end = brace;
        range = brace + 1;
    }
    ptrdiff_t contig = kmf_fai_find(&r->fai, name, (size_t)(name_end - name));
    if (name == text && contig >= 0 && is_ambiguous(r, text, stop))
        return kmf_fail(err, KMF_EINVAL,
                        "region '%.*s': a sequence of this name, or a part of another one: "
                        "write {NAME} or {NAME}:BEG-END",
                        n_text, text);
    if (name == text && contig < 0) {
        name_end = range = last_colon(text, stop);
        contig = kmf_fai_find(&r->fai, name, (size_t)(name_end - name));
    }
    if (contig < 0)
        return kmf_fail(err, KMF_EINVAL,
                        "region '%.*s': %s has no sequence of this name with letters in it%s",
                        n_text, text, r->path,
                        is_split_number(text, n)
                            ? " (commas separate regions: write numbers without them)"
                            : "");
    struct region region = {.contig = (size_t)contig, .name = NO_NAME};
    int status = parse_range(r, text, n_text, range, stop, &region, err);
    return status < 0 ? status : add_region(r, region, err);
}

static int parse_regions(kmf_regions *r, const char *text, kmf_err *err)
{
    for (;;) {
        size_t n = 0;
        if (*text == '{')
            n = strcspn(text, "}");
        n += strcspn(text + n, ",");
        if (n == 0)
            return kmf_fail(err, KMF_EINVAL, "regions: there is an empty name in the list");
        int status = parse_region(r, text, n, err);
        if (status < 0 || text[n] == '\0')
            return status;
        text += n + 1;
    }
}

/* Splits the line in place at tabs, or at blanks if it has no tab. Returns the columns. */
static int split(char *line, char *column[BED_COLUMNS])
{
    const char *separators = strchr(line, '\t') ? "\t" : " ";
    int n = 0;
    for (char *p = line; n < BED_COLUMNS; n++) {
        if (*separators == ' ')
            p += strspn(p, separators);
        if (*p == '\0' && (n == 0 || *separators == ' '))
            return n;
        column[n] = p;
        p += strcspn(p, separators);
        if (*p == '\0')
            return n + 1;
        *p++ = '\0';
    }
    return n;
}

/* Does the line begin with this word, and is it none of a contig of that name? */
static bool is_header(const char *line, const char *word)
{
    uint64_t number;
    size_t n = strlen(word);
    if (strncmp(line, word, n) != 0)
        return false;
    const char *more = line + n + strspn(line + n, " \t");
    return *more == '\0' || (more > line + n && !kmf_read_digits(more, &number));
}

static bool is_number(const char *text)
{
    uint64_t number;
    const char *stop = kmf_read_digits(text, &number);
    return stop && *stop == '\0';
}

/* Not begin and end, but those of GFF or GTF, which counts from 1, in the fourth and fifth? */
static int fail_places(char *const column[BED_COLUMNS], int n, const char *bed, uint64_t number,
                       kmf_err *err)
{
    if (n == BED_COLUMNS && is_number(column[3]) && is_number(column[4]))
        return kmf_fail(err, KMF_EFORMAT,
                        "%s: line %" PRIu64
                        " is one of GFF, and BED has a name, begin, from 0, "
                        "and end (the manual shows how to make it)",
                        bed, number);
    return kmf_fail(err, KMF_EFORMAT,
                    "%s: line %" PRIu64 ": a BED line is a name, begin and end", bed, number);
}

/* line [len], without its newline but with a NUL, which is cut into its columns. */
static int parse_bed_line(kmf_regions *r, const char *bed, bool named, uint64_t number,
                          char *line, size_t len, kmf_err *err)
{
    char *column[BED_COLUMNS] = {0};
    char shown[KMF_ERR_SHOW];
    uint64_t beg;
    uint64_t end;
    if (strlen(line) != len)
        return kmf_fail(err, KMF_EFORMAT, "%s: line %" PRIu64 ": unexpected byte 0x00", bed,
                        number);
    if (len > 0 && line[len - 1] == '\r')
        line[len - 1] = '\0';
    if (line[strspn(line, " \t")] == '\0' || *line == '#' || is_header(line, "track") ||
        is_header(line, "browser"))
        return 0;
    int n = split(line, column);
    const char *stop_beg = n >= 3 ? kmf_read_digits(column[1], &beg) : NULL;
    const char *stop_end = n >= 3 ? kmf_read_digits(column[2], &end) : NULL;
    if (!stop_beg || *stop_beg || !stop_end || *stop_end)
        return fail_places(column, n, bed, number, err);
    ptrdiff_t contig = kmf_fai_find(&r->fai, column[0], strlen(column[0]));
    if (contig < 0)
        return kmf_fail(err, KMF_EFORMAT, "%s: line %" PRIu64 ": %s has no sequence '%s'", bed,
                        number, r->path, kmf_err_show(shown, column[0]));
    if (end <= beg)
        return kmf_fail(err, KMF_EFORMAT,
                        "%s: line %" PRIu64 ": begin %" PRIu64 " is not below end %" PRIu64,
                        bed, number, beg, end);
    if (end > r->fai.contigs[contig].len)
        return kmf_fail(err, KMF_EFORMAT,
                        "%s: line %" PRIu64 ": end %" PRIu64 ", but %s has only %" PRIu64
                        " bases in %s",
                        bed, number, end, kmf_err_show(shown, column[0]),
                        r->fai.contigs[contig].len, r->path);
    const char *strand = n >= 6 ? column[5] : ".";
    if (strcmp(strand, "+") != 0 && strcmp(strand, "-") != 0 && strcmp(strand, ".") != 0)
        return kmf_fail(err, KMF_EFORMAT,
                        "%s: line %" PRIu64 ": a strand is '+', '-' or '.', got '%s'", bed,
                        number, kmf_err_show(shown, strand));
    if (named && (n < 4 || !column[3][0]))
        return kmf_fail(err, KMF_EFORMAT, "%s: line %" PRIu64 ": no name in its fourth column",
                        bed, number);
    if (named && strchr(column[3], '\r'))
        return kmf_fail(err, KMF_EFORMAT, "%s: line %" PRIu64 ": a line end in a name", bed,
                        number);
    size_t name = named ? r->names.len : NO_NAME;
    if (named && kmf_text_append(&r->names, column[3], strlen(column[3]) + 1, err) < 0)
        return KMF_ENOMEM;
    return add_region(r, (struct region){(size_t)contig, beg, end, name, *strand == '-'}, err);
}

/* Lines of a BED file as pieces of it come. */
typedef struct bed_lines {
    kmf_regions *regions; /* borrowed */
    const char *bed;      /* borrowed; for messages */
    bool named;
    kmf_text line;   /* owned; the line at hand */
    uint64_t number; /* of lines that have ended */
} bed_lines;

static int end_line(bed_lines *b, kmf_err *err)
{
    int status = parse_bed_line(b->regions, b->bed, b->named, ++b->number, b->line.bytes,
                                b->line.len, err);
    b->line.len = 0;
    return status;
}

static int add_piece(bed_lines *b, const char *piece, size_t n, kmf_err *err)
{
    const char *end = piece + n;
    int status = 0;
    if (b->number == 0 && b->line.len == 0)
        piece += kmf_byte_order_mark(piece, n);
    while (piece < end && status == 0) {
        const char *newline = memchr(piece, '\n', (size_t)(end - piece));
        const char *stop = newline ? newline : end;
        status = kmf_text_append(&b->line, piece, (size_t)(stop - piece), err);
        if (status == 0 && newline)
            status = end_line(b, err);
        piece = stop + 1;
    }
    return status;
}

static int parse_bed(kmf_regions *r, const char *bed, bool named, kmf_err *err)
{
    bed_lines b = {.regions = r, .bed = kmf_input_name(bed), .named = named};
    kmf_err reason = {0};
    const char *piece;
    size_t n;
    int status = 0;
    kmf_bytes *in = kmf_bytes_open_path(bed, err);
    if (!in)
        return KMF_EIO;
    while (status == 0 && (status = kmf_bytes_next(in, &piece, &n, &reason)) > 0)
        status = add_piece(&b, piece, n, err);
    if (status == 0 && b.line.len > 0)
        status = end_line(&b, err);
    if (reason.code)
        status = kmf_fail(err, reason.code, "%s: %s", b.bed, reason.msg);
    kmf_bytes_close(in);
    kmf_free(b.line.bytes);
    return status;
}

/* ---------------------------------------------------------------- records ----------------- */

kmf_regions *kmf_regions_open(const char *path, const kmf_reader_options *opts,
                              kmf_reader_stats *stats, kmf_err *err)
{
    if (opts->bed_names && !opts->bed) {
        kmf_fail(err, KMF_EINVAL, "names of regions come from a BED file, and there is none");
        return NULL;
    }
    if (strcmp(path, "-") == 0) {
        kmf_fail(err, KMF_EINVAL,
                 "regions need a file: they cannot be taken from standard input");
        return NULL;
    }
    kmf_regions *r = kmf_calloc(1, sizeof *r, err);
    if (!r)
        return NULL;
    r->path = kmf_strdup(path, err);
    if (!r->path || kmf_fai_open(&r->fai, path, true, err) < 0)
        goto failed;
    if (opts->regions && parse_regions(r, opts->regions, err) < 0)
        goto failed;
    if (opts->bed && parse_bed(r, opts->bed, opts->bed_names, err) < 0)
        goto failed;
    stats->indexed = r->fai.made;
    return r;
failed:
    kmf_regions_close(r);
    return NULL;
}

void kmf_regions_close(kmf_regions *r)
{
    if (!r)
        return;
    kmf_fai_close(&r->fai);
    kmf_free(r->path);
    kmf_free(r->list);
    kmf_free(r->names.bytes);
    kmf_free(r->label);
    free(r->seq);
    kmf_free(r);
}

/* Reads the bases of a region into r->seq. */
static int fetch(kmf_regions *r, const struct region *region, kmf_err *err)
{
    const char *name = r->fai.contigs[region->contig].name;
    char shown[KMF_ERR_SHOW];
    uint64_t n = region->end - region->beg;
    unsigned char bad = 0;
    hts_pos_t got = 0;
    free(r->seq);
    r->seq = NULL;
    int status = kmf_fai_check_lines(&r->fai, region->contig, region->beg, region->end, err);
    if (status < 0)
        return status;
    errno = 0;
    /* faidx takes an end before the beginning for 1 base: it is not asked for no bases. */
    r->seq = n == 0 ? calloc(1, 1)
                    : faidx_fetch_seq64(r->fai.index, name, (hts_pos_t)region->beg,
                                        (hts_pos_t)region->end - 1, &got);
    if (!r->seq && errno == ENOMEM)
        return kmf_fail(err, KMF_ENOMEM, "out of memory: no room for %s:%" PRIu64 "-%" PRIu64,
                        kmf_err_show(shown, name), region->beg + 1, region->end);
    for (hts_pos_t i = 0; r->seq && i < got; i++)
        bad |= kmf_not_a_base(r->seq[i]);
    if (!r->seq || (uint64_t)got != n || bad)
        return kmf_fail(err, KMF_EFORMAT,
                        "%s: %s:%" PRIu64 "-%" PRIu64
                        " cannot be read: the file is damaged, or "
                        "its .fai was made of another one",
                        r->path, kmf_err_show(shown, name), region->beg + 1, region->end);
    return 0;
}

int kmf_regions_next(kmf_regions *r, kmf_record *rec, kmf_err *err)
{
    if (r->next == r->n)
        return 0;
    const struct region *region = &r->list[r->next];
    const char *name = r->fai.contigs[region->contig].name;
    size_t need = strlen(name) + 64; /* two numbers of at most 20 digits */
    int status = fetch(r, region, err);
    if (status < 0)
        return status;
    status = kmf_grow(&r->label, &r->cap_label, need, 1, err);
    if (status < 0)
        return status;
    size_t len = (size_t)(region->end - region->beg);
    snprintf(r->label, need, "%s:%" PRIu64 "-%" PRIu64 "%s", name, region->beg + 1, region->end,
             region->reverse ? "(-)" : "");
    if (region->reverse)
        kmf_dna_revcomp(r->seq, r->seq, len);
    rec->name = region->name == NO_NAME ? r->label : r->names.bytes + region->name;
    rec->seq = r->seq;
    rec->len = len;
    r->next++;
    return 1;
}
