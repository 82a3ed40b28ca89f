/* SPDX-License-Identifier: MIT */
/*
 * Lengths are taken from the text of path.fai, since faidx_seq_len gives an int and contigs may be
 * longer than 2^31. Names live once, in that text.
 */
#include "seq/fai.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/out.h"
#include "base/path.h"
#include "seq/gzi.h"
#include "seq/input.h"
#include "seq/text.h"

#include <htslib/hfile.h>
#include <htslib/hts.h>

#define INDEX_MOST ((size_t)4 << 30)
#define BLOCK 65536
#define LINE_END_MOST 256 /* bytes behind the bases of a line */

/* A file and the names of what is beside it. */
typedef struct place {
    const char *path;
    char *fai, *gzi; /* owned */
    bool packed;     /* bgzip: it has a .gzi */
    bool by_name;    /* as kmf_fai_open */
} place;

/* Tells the usual mistakes apart before htslib, which would only say no. */
static int look_at(place *p, kmf_err *err)
{
    htsFormat format;
    p->fai = kmf_strprintf(err, "%s.fai", p->path);
    p->gzi = kmf_strprintf(err, "%s.gzi", p->path);
    if (!p->fai || !p->gzi)
        return KMF_ENOMEM;
    if (hisremote(p->path))
        return kmf_fail(err, KMF_EINVAL, "%s: an address; only local files are read", p->path);
    hFILE *file = kmf_input_open(p->path, err);
    if (!file)
        return KMF_EIO;
    int detected = hts_detect_format(file, &format);
    int reason = herrno(file);
    hclose_abruptly(file);
    if (detected < 0)
        return kmf_fail(err, KMF_EIO, "%s: %s", p->path, strerror(reason ? reason : EIO));
    if (format.format != fasta_format && format.format != text_format)
        return kmf_fail(err, KMF_EFORMAT, "%s: not FASTA, which alone can be indexed", p->path);
    if (format.compression == gzip)
        return kmf_fail(err, KMF_EFORMAT,
                        "%s: a gzip file cannot be indexed: compress with bgzip", p->path);
    p->packed = format.compression == bgzf;
    return 0;
}

/* ---------------------------------------------------------------- making ----------------- */

/* Records that have a base: those without one are in no index, or have length 0 there. */
typedef struct records {
    int64_t n;
    bool torn; /* a line of bases has a blank between them */
} records;

/* What count_records is in. */
typedef struct reading {
    bool begins; /* the next byte is the first of a line */
    bool header; /* the line is a header */
    bool behind; /* a header came, and no base yet */
    bool blank;  /* a blank came in this line, of bases */
    bool torn;   /* a base came behind such a blank, in some line */
    bool named;  /* the name of this record has been read */
    /* Borrowed; the name of the first record that has a base. NULL: it is not asked for. */
    kmf_text *first;
    int status; /* of that */
} reading;

static bool is_blank(int c)
{
    return c == ' ' || c == '\t';
}

static bool is_line_end(int c)
{
    return c == '\n' || c == '\r';
}

/* Of a line of bases a part without its end. Places are told by the bytes of lines. */
static void read_bases(reading *r, const char *p, const char *end)
{
    size_t n = (size_t)(end - p);
    if (!r->blank && !memchr(p, ' ', n) && !memchr(p, '\t', n))
        return;
    for (; p < end; p++) {
        r->torn = r->torn || (r->blank && !is_blank(*p) && *p != '\r');
        r->blank = r->blank || is_blank(*p);
    }
}

static void read_byte(reading *r, records *found, char c)
{
    bool blank = is_line_end(c) || is_blank(c);
    bool wanted = r->first && found->n == 0;
    if (r->begins && c == '>') {
        *r = (reading){.header = true,
                       .behind = true,
                       .torn = r->torn,
                       .first = r->first,
                       .status = r->status};
        if (wanted)
            r->first->len = 0;
        return;
    }
    if (r->begins)
        r->header = r->blank = false;
    if (!r->header)
        read_bases(r, &c, &c + (c != '\n'));
    r->begins = c == '\n';
    r->named = r->named || blank;
    if (r->header && wanted && !r->named && r->status == 0)
        r->status = kmf_text_append(r->first, &c, 1, NULL);
    if (!r->header && r->behind && !blank) {
        r->behind = false;
        found->n++;
    }
}

/*
 * Records of the file, from where it stands on, which may be within one. first: the name of the
 * first of them, without its NUL; or NULL. KMF_EFORMAT: its data is damaged, or cut off where a
 * block ends.
 */
static int count_records(BGZF *file, const char *path, bool begins, records *found,
                         kmf_text *first, kmf_err *err)
{
    char block[BLOCK];
    reading r = {.begins = begins, .first = first};
    ssize_t got;
    *found = (records){0};
    while ((got = bgzf_read(file, block, sizeof block)) > 0)
        for (const char *p = block, *end = block + got; p < end;) {
            /* of a line of bases nothing matters but its end, and blanks */
            bool bases = !r.begins && !r.header && !r.behind;
            const char *stop = bases ? memchr(p, '\n', (size_t)(end - p)) : p;
            if (bases)
                read_bases(&r, p, stop ? stop : end);
            if (!stop)
                break;
            read_byte(&r, found, *stop);
            p = stop + 1;
        }
    found->torn = r.torn;
    if (r.status < 0)
        return kmf_fail(err, r.status, "out of memory: no room for a name");
    if (got < 0)
        return file->is_compressed
                   ? kmf_fail(err, KMF_EFORMAT,
                              "%s: the compressed data is truncated or damaged", path)
                   : kmf_fail(err, KMF_EIO, "%s: cannot be read", path);
    if (file->is_compressed && file->no_eof_block)
        return kmf_fail(err, KMF_EFORMAT,
                        "%s: truncated: the BGZF end-of-file marker is missing", path);
    return 0;
}

/* The same of the whole file. */
static int count_all(const place *p, records *found, kmf_err *err)
{
    BGZF *file = bgzf_open(p->path, "r");
    *found = (records){0};
    if (!file)
        return kmf_fail(err, KMF_EIO, "%s: cannot be read", p->path);
    int status = count_records(file, p->path, true, found, NULL, err);
    bgzf_close(file);
    return status;
}

/* Has the FASTA, of which htslib has made an index with bases of n contigs, no more of them? */
static int check_count(const place *p, int64_t n, kmf_err *err)
{
    records all;
    int status = count_all(p, &all, err);
    if (status < 0)
        return status;
    if (all.torn)
        return kmf_fail(
            err, KMF_EFORMAT,
            "%s: it has lines with blanks between bases: an index cannot tell their "
            "places",
            p->path);
    if (all.n != n)
        return kmf_fail(err, KMF_EFORMAT,
                        "%s: %" PRId64 " records of %" PRId64 " different names: regions could "
                        "not be told apart",
                        p->path, all.n, n);
    return 0;
}

/* Why htslib can make no index: the file is damaged, or its layout has none. */
static int blame(const place *p, kmf_err *err)
{
    records all;
    int status = count_all(p, &all, err);
    return status < 0
               ? status
               : kmf_fail(
                     err, KMF_EFORMAT,
                     "%s: has no .fai index and none can be made: it must begin with '>', no "
                     "name come twice, lines of a sequence be of one length, none empty, and "
                     "the last record have bases",
                     p->path);
}

/* Numbers of a line behind its name. */
enum { LENGTH, OFFSET, LINE_BASES, LINE_BYTES, NUMBERS };

/* Each behind a tab; returns where they end, NULL: they are not there. */
static const char *read_numbers(const char *p, uint64_t number[NUMBERS])
{
    for (int i = 0; i < NUMBERS && p; i++)
        p = *p == '\t' ? kmf_read_digits(p + 1, &number[i]) : NULL;
    return p;
}

/*
 * htslib has 32 bits for the length of a line, so that places of a longer one would be others. A
 * contig on one line is known by the rest; it is no other one's but by a chance of 2^-32.
 */
static int check_line_length(const place *p, const uint64_t number[NUMBERS], kmf_err *err)
{
    uint64_t length = number[LENGTH];
    if (length <= UINT32_MAX || number[LINE_BASES] != (uint32_t)length)
        return 0;
    return kmf_fail(err, KMF_EFORMAT,
                    "%s: a contig of %" PRIu64
                    " bases on one line cannot be indexed: write it in "
                    "shorter lines",
                    p->path, length);
}

/* Contigs of an index just made that have a base. */
static int count_contigs(const place *p, const char *index, int64_t *n, kmf_err *err)
{
    size_t len;
    uint64_t number[NUMBERS] = {0};
    int status = 0;
    char *text = kmf_file_read(index, INDEX_MOST, &len, err);
    *n = 0;
    if (!text)
        return KMF_EIO;
    for (const char *line = text; line && *line && status == 0; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *tab = strchr(line, '\t');
        if (!tab || !read_numbers(tab, number))
            continue;
        *n += number[LENGTH] > 0;
        status = check_line_length(p, number, err);
    }
    kmf_free(text);
    return status;
}

/* An index to be written; NULL where it cannot, as in a folder of somebody else's. */
static kmf_out *open_index(const char *path, kmf_err *err)
{
    kmf_err cause = {0};
    kmf_out *out = kmf_out_open(path, &cause);
    if (!out)
        kmf_fail(err, cause.code,
                 "%s: the index of a FASTA is made beside it; a link to the FASTA, in a folder "
                 "that can be written, will do",
                 cause.msg);
    return out;
}

static int make(const place *p, kmf_err *err)
{
    kmf_out *outs[2] = {NULL, NULL};
    kmf_out **fai = &outs[p->packed]; /* the last one: where it is, the other one is, too */
    size_t n = 1 + (size_t)p->packed;
    int64_t contigs;
    struct stat st;
    int status = KMF_EIO;
    if (kmf_path_is_special(p->fai) || (stat(p->path, &st) == 0 && !S_ISREG(st.st_mode)))
        return kmf_fail(err, KMF_EIO,
                        "%s: has no .fai index and none can be made: it is no regular file",
                        p->path);
    if (p->packed && !(outs[0] = open_index(p->gzi, err)))
        goto out;
    *fai = open_index(p->fai, err);
    if (!*fai)
        goto out;
    errno = 0;
    if (fai_build3(p->path, kmf_out_temporary(*fai),
                   p->packed ? kmf_out_temporary(outs[0]) : NULL) < 0) {
        bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO;
        status =
            full ? kmf_fail(err, KMF_EIO, "%s: %s", p->fai, strerror(errno)) : blame(p, err);
        goto out;
    }
    status = count_contigs(p, kmf_out_temporary(*fai), &contigs, err);
    if (status == 0 && p->by_name)
        status = check_count(p, contigs, err);
    for (size_t i = 0; i < n && status == 0; i++)
        status = kmf_out_finish(outs[i], err);
    if (status == 0)
        status = kmf_out_publish_all(outs, n, err);
out:
    for (size_t i = 0; i < 2; i++)
        kmf_out_free(outs[i]);
    return status;
}

/* One thread makes it, the others find it. */
static int make_if_missing(const place *p, bool *made, kmf_err *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct stat s;
    pthread_mutex_lock(&lock);
    bool there = stat(p->fai, &s) == 0 && (!p->packed || stat(p->gzi, &s) == 0);
    int status = there ? 0 : make(p, err);
    pthread_mutex_unlock(&lock);
    *made = !there && status == 0;
    return status;
}

/* ---------------------------------------------------------------- reading ---------------- */

/* An index of what the file was before it was changed would give bases of other places. */
static int check_age(const place *p, kmf_err *err)
{
    struct stat fasta;
    struct stat fai;
    if (stat(p->path, &fasta) != 0 || stat(p->fai, &fai) != 0)
        return kmf_fail(err, KMF_EIO, "%s: %s", p->fai, strerror(errno));
    bool older = fai.st_mtim.tv_sec == fasta.st_mtim.tv_sec
                     ? fai.st_mtim.tv_nsec < fasta.st_mtim.tv_nsec
                     : fai.st_mtim.tv_sec < fasta.st_mtim.tv_sec;
    return older ? kmf_fail(err, KMF_EFORMAT,
                            "%s: its .fai is older: remove that, and it is made anew, or touch "
                            "it if it still fits",
                            p->path)
                 : 0;
}

/* Splits a line in place, of which only the name is left. False: it is none of an index. */
static bool parse_line(char *line, uint64_t number[NUMBERS])
{
    char *end = strchr(line, '\t');
    const char *p = end ? read_numbers(end, number) : NULL;
    if (!p || *p != '\0')
        return false;
    *end = '\0';
    double lines = (double)number[LENGTH] / (double)(number[LINE_BASES] + 1);
    if (lines * (double)number[LINE_BYTES] > 1e18)
        return false;
    /* a line has an end, unless it is the last of the file */
    return number[LENGTH] == 0 ||
           (number[LINE_BASES] > 0 &&
            (number[LENGTH] > number[LINE_BASES] ? number[LINE_BYTES] > number[LINE_BASES]
                                                 : number[LINE_BYTES] >= number[LINE_BASES]));
}

/* Of a base of the contig in the file. */
static uint64_t place_of(const kmf_contig *c, uint64_t base)
{
    return c->beg + base / c->line_bases * c->line_bytes + base % c->line_bases;
}

static int by_place(const void *a, const void *b)
{
    uint64_t x = ((const kmf_contig *)a)->beg, y = ((const kmf_contig *)b)->beg;
    return (x > y) - (x < y);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const kmf_contig *)a)->name, ((const kmf_contig *)b)->name);
}

static int fail_line(const place *p, uint64_t line, kmf_err *err)
{
    return kmf_fail(err, KMF_EFORMAT,
                    "%s: line %" PRIu64 ": not that of an index, or cut off: remove the file, "
                    "and it is made anew",
                    p->fai, line);
}

static kmf_contig contig_of(const char *name, const uint64_t number[NUMBERS])
{
    kmf_contig c = {.name = name,
                    .len = number[LENGTH],
                    .beg = number[OFFSET],
                    .end = number[OFFSET],
                    .line_bases = number[LINE_BASES],
                    .line_bytes = number[LINE_BYTES]};
    if (c.len > 0)
        c.end = place_of(&c, c.len - 1) + 1;
    return c;
}

static int parse(kmf_fai *f, const place *p, kmf_err *err)
{
    uint64_t number[NUMBERS];
    for (char *line = f->text; *line;) {
        char *stop = strchr(line, '\n');
        if (stop)
            *stop = '\0';
        if (!stop || !parse_line(line, number))
            return fail_line(p, f->n + 1, err);
        int status = check_line_length(p, number, err);
        if (status == 0)
            status = kmf_grow(&f->contigs, &f->cap, f->n + 1, sizeof *f->contigs, err);
        if (status < 0)
            return status;
        f->contigs[f->n++] = contig_of(line, number);
        line = stop + 1;
    }
    return 0;
}

/* No place is that of two contigs, no name either. end: one past the last base. */
static int check_contigs(kmf_fai *f, const place *p, uint64_t *end, kmf_err *err)
{
    *end = 0;
    if (f->n == 0)
        return 0;
    qsort(f->contigs, f->n, sizeof *f->contigs, by_place);
    for (size_t i = 0; i < f->n; i++) {
        if (f->contigs[i].beg < *end)
            return kmf_fail(err, KMF_EFORMAT,
                            "%s: two contigs are in one place: remove the file, and it is made "
                            "anew",
                            p->fai);
        *end = f->contigs[i].end;
    }
    qsort(f->contigs, f->n, sizeof *f->contigs, by_name);
    for (size_t i = 1; i < f->n; i++)
        if (strcmp(f->contigs[i - 1].name, f->contigs[i].name) == 0)
            return kmf_fail(err, KMF_EFORMAT, "%s: a name is there twice: remove the file",
                            p->fai);
    return 0;
}

/*
 * The last base of the index must be there, and behind it no record that the index does not know:
 * one whose name it has already is not in it.
 */
static int check_end(const kmf_fai *f, const place *p, uint64_t end, kmf_err *err)
{
    char last;
    records more = {0};
    kmf_text name = {0};        /* of the first of them */
    uint64_t text = UINT64_MAX; /* told by the blocks; htslib may not be sent beyond the last */
    BGZF *file = f->file;
    int status = 0;
    if (p->packed)
        status = kmf_gzi_check(p->path, p->gzi, &text, err);
    if (status == 0 && p->packed && bgzf_index_load(file, p->path, ".gzi") < 0)
        status = kmf_fail(err, KMF_EFORMAT,
                          "%s: cannot be used: remove it, and it is made anew", p->gzi);
    if (status == 0 && end > 0 &&
        (end > text || bgzf_useek(file, (off_t)end - 1, SEEK_SET) < 0 ||
         bgzf_read(file, &last, 1) != 1))
        status = kmf_fail(err, KMF_EFORMAT,
                          "%s: ends before its .fai does: it was cut off, or that was made of "
                          "another one",
                          p->path);
    if (status == 0)
        status = count_records(file, p->path, end == 0, &more, &name, err);
    if (status == 0 && more.n > 0 &&
        kmf_fai_find(f, name.len > 0 ? name.bytes : "", name.len) < 0)
        status = kmf_fail(err, KMF_EFORMAT,
                          "%s: its .fai ends before it does: remove that, and it is made anew",
                          p->path);
    kmf_free(name.bytes);
    return status;
}

/* Is there a base at this place, and behind it no other one up to the end of the line? */
static bool ends_line(BGZF *file, uint64_t last)
{
    int c = bgzf_useek(file, (off_t)last, SEEK_SET) < 0 ? '\n' : bgzf_getc(file);
    bool good = c > 0 && !is_blank(c) && !is_line_end(c);
    while (good && (c = bgzf_getc(file)) >= 0 && c != '\n')
        good = is_blank(c) || c == '\r';
    return good && c >= -1;
}

static bool skip(BGZF *file, uint64_t n)
{
    char bytes[BLOCK];
    while (n > 0) {
        ssize_t got = bgzf_read(file, bytes, (size_t)kmf_min(n, sizeof bytes));
        if (got <= 0)
            return false;
        n -= (uint64_t)got;
    }
    return true;
}

/* The same of n whole lines, of which the first has its last base at this place. */
static bool end_lines(BGZF *file, const kmf_contig *c, uint64_t last, uint64_t n)
{
    char end[1 + LINE_END_MOST];
    uint64_t bytes = 1 + c->line_bytes - c->line_bases;
    bool good = bytes <= sizeof end && bgzf_useek(file, (off_t)last, SEEK_SET) == 0;
    for (uint64_t i = 0; good && i < n; i++) {
        good = (i == 0 || skip(file, c->line_bytes - bytes)) &&
               bgzf_read(file, end, (size_t)bytes) == (ssize_t)bytes && !is_blank(end[0]) &&
               !is_line_end(end[0]) && end[bytes - 1] == '\n';
        for (uint64_t j = 1; good && j + 1 < bytes; j++)
            good = is_blank(end[j]) || end[j] == '\r';
    }
    return good;
}

int kmf_fai_check_lines(kmf_fai *fai, size_t contig, uint64_t beg, uint64_t end, kmf_err *err)
{
    kmf_contig *c = &fai->contigs[contig];
    if (beg == end)
        return 0;
    uint64_t whole = (c->len - 1) / c->line_bases; /* lines before the last one */
    bool good = true;
    if (!c->checked)
        good = ends_line(fai->file, c->end - 1) &&
               (whole == 0 || end_lines(fai->file, c, place_of(c, c->line_bases - 1), 1));
    c->checked = true;
    uint64_t line = beg / c->line_bases;
    uint64_t stop = kmf_min(whole, (end - 1) / c->line_bases + 1);
    if (good && c->line_bytes - c->line_bases > 1 && line < stop)
        good =
            end_lines(fai->file, c, place_of(c, (line + 1) * c->line_bases - 1), stop - line);
    return good ? 0
                : kmf_fail(
                      err, KMF_EFORMAT,
                      "%s: by its .fai lines have blanks between bases, or that was made of "
                      "another one",
                      fai->path);
}

int kmf_fai_open(kmf_fai *fai, const char *path, bool by_name, kmf_err *err)
{
    place p = {.path = path, .by_name = by_name};
    uint64_t end;
    size_t len;
    *fai = (kmf_fai){.path = path};
    int status = look_at(&p, err);
    if (status == 0)
        status = make_if_missing(&p, &fai->made, err);
    if (status == 0 && by_name)
        status = check_age(&p, err);
    if (status < 0)
        goto out;
    status = KMF_EIO;
    fai->text = kmf_file_read(p.fai, INDEX_MOST, &len, err);
    if (!fai->text)
        goto out;
    status = parse(fai, &p, err);
    if (status == 0)
        status = check_contigs(fai, &p, &end, err);
    fai->file = status == 0 ? bgzf_open(path, "r") : NULL;
    if (status == 0)
        status = fai->file ? check_end(fai, &p, end, err)
                           : kmf_fail(err, KMF_EIO, "%s: cannot be read", path);
    if (status < 0)
        goto out;
    fai->index = fai_load3(path, p.fai, p.packed ? p.gzi : NULL, 0);
    if (!fai->index)
        status =
            kmf_fail(err, KMF_EFORMAT,
                     "%s: its .fai cannot be used: htslib takes no names of more than some "
                     "65,000 letters; else remove it, and it is made anew",
                     path);
out:
    kmf_free(p.fai);
    kmf_free(p.gzi);
    if (status < 0)
        kmf_fai_close(fai);
    return status;
}

void kmf_fai_close(kmf_fai *fai)
{
    if (fai->index)
        fai_destroy(fai->index);
    if (fai->file)
        bgzf_close(fai->file);
    kmf_free(fai->contigs);
    kmf_free(fai->text);
    *fai = (kmf_fai){0};
}

ptrdiff_t kmf_fai_find(const kmf_fai *fai, const char *name, size_t n)
{
    size_t lo = 0;
    size_t hi = memchr(name, '\0', n) ? 0 : fai->n; /* no name of an index has one */
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int order = strncmp(fai->contigs[mid].name, name, n);
        if (order == 0 && fai->contigs[mid].name[n] == '\0')
            return (ptrdiff_t)mid;
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return -1;
}
