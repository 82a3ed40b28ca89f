/* SPDX-License-Identifier: MIT */
/*
 * One reader for all formats.
 *
 *     file -- htslib says what it is --+-- SAM, BAM, CRAM ---------> aligned.c
 *                                      +-- all else -- bytes.c -+-> textseq.c: FASTA or FASTQ
 *                                                               +-> tabular.c: other text
 *     indexed FASTA and regions ---------------------------------> regions.c
 *
 * A record of any may be cut into several (tiles.c).
 *
 * The format is told by content alone: hts_detect_format looks at the first bytes, also under
 * gzip, without taking them, so it works on pipes.
 *
 * htslib prints to standard error. Here each failure becomes one sentence of ours, so its log
 * is turned off, for the whole process, when the first input is opened (seq/input.c).
 */
#include "seq/seqio.h"

#include <assert.h>
#include <stdbool.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "seq/aligned.h"
#include "seq/bytes.h"
#include "seq/gunzip.h"
#include "seq/regions.h"
#include "seq/tabular.h"
#include "seq/textseq.h"
#include "seq/tiles.h"

#include <htslib/hfile.h>
#include <htslib/hts.h>
#include <zlib.h>

#define PEEKED 1024 /* bytes of a compressed file that its first letter is looked for in */

struct kmf_reader {
    kmf_textseq *text;    /* owned; exactly one of the four is not NULL */
    kmf_tabular *table;   /* owned */
    kmf_aligned *aligned; /* owned */
    kmf_regions *regions; /* owned */
    kmf_tiles tiles;      /* owned; all zero: records are whole */
    kmf_text called;      /* owned; "INPUT:" and the name of the record that came last, */
    size_t n_input;       /* of which these bytes are "INPUT:"; 0: names stand alone */
    int file;             /* the descriptor of the whole file; -1: none */
    char *name;           /* owned; of that file */
    kmf_watch watch;      /* of that file, or of standard input */
    kmf_reader_stats stats;
    bool by_record;   /* kmf_reader_next was called */
    bool as_text;     /* kmf_reader_fill was called */
    const char *rest; /* [n_rest], of a record that is handed out in portions: borrowed from */
    size_t n_rest;    /* table, aligned, regions or tiles; NULL: none is */
    bool ended;
    kmf_err failure; /* once failed, always failed */
};

static kmf_reader *new_reader(kmf_err *err)
{
    kmf_reader *r = kmf_calloc(1, sizeof *r, err);
    if (r)
        r->file = -1;
    return r;
}

static const char *other_compression(enum htsCompression compression)
{
    switch (compression) {
    case bzip2_compression:
        return "bzip2";
    case xz_compression:
        return "xz";
    case zstd_compression:
        return "zstd";
    case razf_compression:
        return "razip";
    default:
        return NULL;
    }
}

/* Does text begin otherwise than a FASTA or FASTQ does? */
static bool is_other_text(const char *text, size_t n)
{
    size_t i = kmf_byte_order_mark(text, n);
    while (i < n && strchr(" \t\r\n", text[i]) && text[i] != '\0')
        i++;
    return i < n && text[i] != '>' && text[i] != '@';
}

/* Gives `bytes` to the parser of FASTA and FASTQ, or to that of tables. */
static int attach_text(kmf_reader *r, kmf_bytes *bytes, const char *name, kmf_err *err)
{
    kmf_err reason = {0};
    const char *block;
    size_t n;
    int got = kmf_bytes_peek(bytes, &block, &n, &reason);
    if (got < 0) {
        kmf_bytes_close(bytes);
        return kmf_fail(err, reason.code, "%s: %s", name, reason.msg);
    }
    if (got > 0 && is_other_text(block, n))
        r->table = kmf_tabular_open(bytes, name, err);
    else
        r->text = kmf_textseq_open(bytes, name, err);
    return r->text || r->table ? 0 : KMF_EFORMAT;
}

/* The first byte of a text, plain, gzip or BGZF, which is not taken; '\0': none is to be had. */
static char first_letter(hFILE *file)
{
    unsigned char in[PEEKED];
    unsigned char first = '\0';
    if (!kmf_gunzip_knows(file))
        return hpeek(file, &first, 1) > 0 ? (char)first : '\0'; /* no more: it may be a pipe */
    ssize_t n = hpeek(file, in, sizeof in);
    if (n <= 0)
        return '\0';
    z_stream z = {.next_in = in, .avail_in = (uInt)n, .next_out = &first, .avail_out = 1};
    if (inflateInit2(&z, MAX_WBITS + 16) == Z_OK) {
        (void)inflate(&z, Z_SYNC_FLUSH);
        inflateEnd(&z);
    }
    return (char)first;
}

/* Finds out what `file` is and takes it over, on failure too. */
static int attach(kmf_reader *r, hFILE *file, const char *name, const char *reference,
                  kmf_pool *pool, kmf_err *err)
{
    htsFormat format;
    if (hts_detect_format(file, &format) < 0) {
        int status = herrno(file)
                         ? kmf_fail(err, KMF_EIO, "%s: %s", name, strerror(herrno(file)))
                         : kmf_fail(err, KMF_EFORMAT,
                                    "%s: not FASTA, FASTQ, SAM, BAM or CRAM, or damaged", name);
        hclose_abruptly(file);
        return status;
    }
    const char *compression = other_compression(format.compression);
    if (compression) {
        hclose_abruptly(file);
        return kmf_fail(err, KMF_EFORMAT,
                        "%s: compressed with %s, which cannot be read: use bgzip or gzip", name,
                        compression);
    }
    /* '>' begins a FASTA, even if what follows has the tabs of a SAM without a header */
    bool fasta = format.format == sam && first_letter(file) == '>';
    if (!fasta && (format.format == sam || format.format == bam || format.format == cram)) {
        r->aligned = kmf_aligned_open(file, name, reference, pool, err);
        return r->aligned ? 0 : KMF_EFORMAT;
    }
    kmf_bytes *bytes = kmf_bytes_open(file, r->file, pool, err);
    return bytes ? attach_text(r, bytes, name, err) : KMF_ENOMEM;
}

void kmf_reader_options_default(kmf_reader_options *opts)
{
    *opts = (kmf_reader_options){0};
}

/* The file at path, as attach has it. */
static int attach_path(kmf_reader *r, const char *path, const char *reference, kmf_pool *pool,
                       kmf_err *err)
{
    r->name = kmf_strdup(kmf_input_name(path), err);
    hFILE *file = r->name ? kmf_input_open_file(path, &r->file, err) : NULL;
    if (!file)
        return KMF_EIO;
    r->watch = kmf_watch_begin(r->file >= 0 ? r->file : STDIN_FILENO);
    return attach(r, file, r->name, reference, pool, err);
}

/* Of records that are called by their input, too. */
static int begin_names(kmf_reader *r, const char *path, kmf_err *err)
{
    if (strpbrk(path, "\t\n\r"))
        return kmf_fail(err, KMF_EINVAL,
                        "%s: a tab or a line end in the input that records are called by",
                        path);
    if (kmf_text_append(&r->called, path, strlen(path), err) < 0 ||
        kmf_text_append(&r->called, ":", 1, err) < 0)
        return KMF_ENOMEM;
    r->n_input = r->called.len;
    return 0;
}

kmf_reader *kmf_reader_open(const char *path, const kmf_reader_options *opts, kmf_pool *pool,
                            kmf_err *err)
{
    int status = 0;
    const char *reference = opts ? opts->reference : NULL;
    kmf_reader *r = new_reader(err);
    if (!r)
        return NULL;
    if (opts && (opts->tile > 0 || opts->tile_step > 0))
        status = kmf_tiles_begin(&r->tiles, opts->tile, opts->tile_step, err);
    if (status == 0 && opts && opts->input_names)
        status = begin_names(r, path, err);
    if (status == 0 && opts && (opts->regions || opts->bed || opts->bed_names)) {
        r->regions = kmf_regions_open(path, opts, &r->stats, err);
        status = r->regions ? 0 : KMF_EFORMAT;
    } else if (status == 0) {
        status = attach_path(r, path, reference, pool, err);
    }
    if (status == 0)
        return r;
    kmf_reader_close(r);
    return NULL;
}

kmf_reader *kmf_reader_open_memory(const void *bytes, size_t len, kmf_pool *pool, kmf_err *err)
{
    kmf_reader *r = new_reader(err);
    hFILE *file = r ? kmf_input_memory(bytes, len, err) : NULL;
    if (file && attach(r, file, "memory", NULL, pool, err) == 0)
        return r;
    kmf_reader_close(r);
    return NULL;
}

/* The next record of the input. As kmf_reader_next, the reason in r->failure. */
static int whole_record(kmf_reader *r, kmf_record *rec)
{
    rec->comment = "";
    if (r->text)
        return kmf_textseq_next(r->text, rec, &r->failure);
    if (r->table)
        return kmf_tabular_next(r->table, rec, &r->failure);
    if (r->aligned)
        return kmf_aligned_next(r->aligned, rec, &r->stats, &r->failure);
    return kmf_regions_next(r->regions, rec, &r->failure);
}

static bool is_cut(const kmf_reader *r)
{
    return r->tiles.tile > 0;
}

/* The same, or a tile. */
static int record_or_tile(kmf_reader *r, kmf_record *rec)
{
    if (!is_cut(r))
        return whole_record(r, rec);
    int status;
    while ((status = kmf_tiles_next(&r->tiles, rec, &r->failure)) == 0) {
        status = whole_record(r, rec);
        if (status <= 0)
            return status;
        kmf_tiles_cut(&r->tiles, rec);
    }
    return status;
}

const char *kmf_reader_call(kmf_reader *r, const char *name, kmf_err *err)
{
    if (r->n_input == 0)
        return name;
    r->called.len = r->n_input;
    return kmf_text_append(&r->called, name, strlen(name), err) < 0 ? NULL : r->called.bytes;
}

/* The same, counted and called. */
static int next_record(kmf_reader *r, kmf_record *rec)
{
    int status = record_or_tile(r, rec);
    if (status <= 0)
        return status;
    rec->index = r->stats.records++;
    r->stats.bases += rec->len;
    r->stats.nameless += rec->name[0] == '\0';
    rec->name = kmf_reader_call(r, rec->name, &r->failure);
    return rec->name ? 1 : KMF_ENOMEM;
}

/* As kmf_textseq_fill: records that are whole in memory, handed out in portions. */
static int fill_from_records(kmf_reader *r, kmf_text *text, size_t want)
{
    size_t before = text->len;
    kmf_record rec;
    while (text->len < want) {
        if (!r->rest) {
            int status = next_record(r, &rec);
            if (status <= 0)
                return status < 0 ? status : text->len > before;
            r->rest = rec.seq;
            r->n_rest = rec.len;
        }
        size_t room = want - text->len;
        size_t n = kmf_min(r->n_rest, room);
        int status = kmf_text_reserve(text, n + 1, &r->failure);
        if (status < 0)
            return status;
        memcpy(text->bytes + text->len, r->rest, n);
        text->len += n;
        r->rest += n;
        r->n_rest -= n;
        if (r->n_rest == 0) {
            text->bytes[text->len++] = '\n';
            r->rest = NULL;
        }
    }
    return 1;
}

/* What both ways of reading do: the end and a failure stay. */
static int settle(kmf_reader *r, int status, kmf_err *err)
{
    if (status == 0 && kmf_watch_end(&r->watch, &r->failure) < 0) {
        kmf_err_prefix(&r->failure, r->name);
        status = KMF_EIO;
    }
    if (status < 0)
        return kmf_fail(err, r->failure.code, "%s", r->failure.msg);
    r->ended = status == 0;
    return status;
}

static int fail_taken(kmf_err *err)
{
    return kmf_fail(err, KMF_EINVAL, "the reader's records were taken before");
}

int kmf_reader_next(kmf_reader *r, kmf_record *rec, kmf_err *err)
{
    if (r->as_text)
        return fail_taken(err);
    r->by_record = true;
    if (r->failure.code != KMF_OK)
        return settle(r, r->failure.code, err);
    return r->ended ? 0 : settle(r, next_record(r, rec), err);
}

int kmf_reader_fill(kmf_reader *r, kmf_text *text, size_t want, kmf_err *err)
{
    assert(!r->by_record && text->len < want);
    r->as_text = true;
    if (r->failure.code != KMF_OK)
        return settle(r, r->failure.code, err);
    if (r->ended)
        return 0;
    int status = r->text && !is_cut(r)
                     ? kmf_textseq_fill(r->text, text, want, &r->stats, &r->failure)
                     : fill_from_records(r, text, want);
    return settle(r, status, err);
}

int kmf_reader_unread(const kmf_reader *r, kmf_err *err)
{
    return r->by_record || r->as_text ? fail_taken(err) : 0;
}

int kmf_reader_file(const kmf_reader *r)
{
    return r->text && !is_cut(r) && kmf_reader_unread(r, NULL) == 0 ? r->file : -1;
}

const kmf_table *kmf_reader_table(const kmf_reader *r)
{
    return r->table ? kmf_tabular_table(r->table) : NULL;
}

static double share_of(const kmf_reader *r)
{
    if (r->regions || !r->watch.regular || r->watch.size <= 0)
        return 0;
    int file = r->watch.file;
    off_t at = r->text    ? (off_t)kmf_textseq_taken(r->text, file)
               : r->table ? (off_t)kmf_tabular_taken(r->table, file)
                          : lseek(file, 0, SEEK_CUR);
    double taken = at > 0 ? fmin((double)at / (double)r->watch.size, 1) : 0;
    return is_cut(r) ? taken * kmf_tiles_share(&r->tiles) : taken;
}

void kmf_reader_statistics(const kmf_reader *r, kmf_reader_stats *stats)
{
    *stats = r->stats;
    stats->share = share_of(r);
}

void kmf_reader_close(kmf_reader *r)
{
    if (!r)
        return;
    kmf_textseq_close(r->text);
    kmf_tabular_close(r->table);
    kmf_aligned_close(r->aligned);
    kmf_regions_close(r->regions);
    kmf_tiles_end(&r->tiles);
    kmf_free(r->called.bytes);
    kmf_free(r->name);
    kmf_free(r);
}
