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
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "seq/bytes.h"

#include <htslib/bgzf.h>
#include <htslib/hfile.h>
#include <htslib/hts.h>

#define INDEX_MOST ((size_t)4 << 30)
#define BLOCK 65536
#define DIGITS_MOST 18 /* any number of so many digits fits an int64_t */

/* A file and the names of what is beside it. */
typedef struct place {
    const char *path;
    char *fai, *gzi; /* owned */
    bool packed;     /* bgzip: it has a .gzi */
} place;

static char *name_beside(const char *path, const char *ending, kmf_err *err)
{
    size_t cap = strlen(path) + strlen(ending) + 1;
    char *name = kmf_malloc(cap, 1, err);
    if (name)
        snprintf(name, cap, "%s%s", path, ending);
    return name;
}

/* Tells the usual mistakes apart before htslib, which would only say no. */
static int look_at(place *p, kmf_err *err)
{
    htsFormat format;
    p->fai = name_beside(p->path, ".fai", err);
    p->gzi = name_beside(p->path, ".gzi", err);
    if (!p->fai || !p->gzi)
        return KMF_ENOMEM;
    if (hisremote(p->path))
        return kmf_fail(err, KMF_EINVAL, "%s: an address; only local files are read", p->path);
    hFILE *file = kmf_input_open(p->path, err);
    if (!file)
        return KMF_EIO;
    int detected = hts_detect_format(file, &format);
    hclose_abruptly(file);
    if (detected < 0)
        return kmf_fail(err, KMF_EIO, "%s: %s", p->path, strerror(errno));
    if (format.format != fasta_format && format.format != text_format)
        return kmf_fail(err, KMF_EFORMAT, "%s: not FASTA, which alone can be indexed", p->path);
    if (format.compression == gzip)
        return kmf_fail(err, KMF_EFORMAT,
                        "%s: a gzip file cannot be indexed: compress with bgzip", p->path);
    p->packed = format.compression == bgzf;
    return 0;
}

/* ---------------------------------------------------------------- making ----------------- */

/*
 * Records of the file that have a base, from where it stands on, which may be within one: headers
 * with another line behind them. Those without one are in no index. Negative: it cannot be read.
 */
static int64_t count_records(BGZF *file)
{
    char block[BLOCK];
    bool begins = bgzf_tell(file) == 0; /* is the next byte the first of a line */
    bool behind_header = false;
    int64_t n = 0;
    ssize_t got;
    while ((got = bgzf_read(file, block, sizeof block)) > 0)
        for (const char *p = block, *end = block + got; p < end;) {
            if (begins) {
                n += behind_header && *p != '>';
                behind_header = *p == '>';
            }
            const char *stop = memchr(p, '\n', (size_t)(end - p));
            begins = stop != NULL;
            p = stop ? stop + 1 : end;
        }
    return got < 0 ? -1 : n;
}

/* Has the FASTA, of which htslib has made an index of n contigs, no more of them? */
static int check_count(const place *p, int64_t n, kmf_err *err)
{
    BGZF *file = bgzf_open(p->path, "r");
    int64_t records = file ? count_records(file) : -1;
    if (file)
        bgzf_close(file);
    if (records < 0)
        return kmf_fail(err, KMF_EIO, "%s: cannot be read", p->path);
    if (records != n)
        return kmf_fail(err, KMF_EFORMAT,
                        "%s: %" PRId64 " records of %" PRId64 " different names: regions could "
                        "not be told apart",
                        p->path, records, n);
    return 0;
}

/* Lines of an index. */
static int count_lines(const char *path, int64_t *n, kmf_err *err)
{
    size_t len;
    char *text = kmf_file_read(path, INDEX_MOST, &len, err);
    *n = 0;
    if (!text)
        return KMF_EIO;
    for (const char *p = text; (p = strchr(p, '\n')); p++)
        ++*n;
    kmf_free(text);
    return 0;
}

static int make(const place *p, kmf_err *err)
{
    kmf_out *outs[2] = {NULL, NULL};
    kmf_out **fai = &outs[p->packed]; /* the last one: where it is, the other one is, too */
    size_t n = 1 + (size_t)p->packed;
    int64_t contigs;
    int status = KMF_EIO;
    if (p->packed && !(outs[0] = kmf_out_open(p->gzi, err)))
        goto out;
    *fai = kmf_out_open(p->fai, err);
    if (!*fai)
        goto out;
    errno = 0;
    if (fai_build3(p->path, kmf_out_temporary(*fai),
                   p->packed ? kmf_out_temporary(outs[0]) : NULL) < 0) {
        bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO;
        status = full ? kmf_fail(err, KMF_EIO, "%s: %s", p->fai, strerror(errno))
                      : kmf_fail(err, KMF_EFORMAT,
                                 "%s: has no .fai index and none can be made: lines of a "
                                 "sequence must be of one length, and none empty",
                                 p->path);
        goto out;
    }
    status = count_lines(kmf_out_temporary(*fai), &contigs, err);
    if (status == 0)
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

/* Threads of one process would write under the same temporary name. */
static int make_if_missing(const place *p, kmf_err *err)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct stat s;
    pthread_mutex_lock(&lock);
    int status = stat(p->fai, &s) == 0 ? 0 : make(p, err);
    pthread_mutex_unlock(&lock);
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

/* Numbers of a line behind its name. */
enum { LENGTH, OFFSET, LINE_BASES, LINE_BYTES, NUMBERS };

/* Splits a line in place, of which only the name is left. False: it is none of an index. */
static bool parse_line(char *line, uint64_t number[NUMBERS])
{
    char *p = strchr(line, '\t');
    char *end = p;
    for (int i = 0; i < NUMBERS; i++) {
        size_t n = p && *p == '\t' ? strspn(p + 1, "0123456789") : 0;
        if (n == 0 || n > DIGITS_MOST)
            return false;
        number[i] = strtoull(p + 1, NULL, 10);
        p += 1 + n;
    }
    if (*p != '\0' || end == line)
        return false;
    *end = '\0';
    /* a line has an end, unless it is the last of the file */
    return number[LENGTH] == 0 ||
           (number[LINE_BASES] > 0 &&
            (number[LENGTH] > number[LINE_BASES] ? number[LINE_BYTES] > number[LINE_BASES]
                                                 : number[LINE_BYTES] >= number[LINE_BASES]));
}

static uint64_t end_of(const uint64_t number[NUMBERS])
{
    if (number[LENGTH] == 0)
        return number[OFFSET];
    uint64_t last = number[LENGTH] - 1;
    return number[OFFSET] + last / number[LINE_BASES] * number[LINE_BYTES] +
           last % number[LINE_BASES] + 1;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const kmf_contig *)a)->name, ((const kmf_contig *)b)->name);
}

static int is_broken(const place *p, uint64_t line, kmf_err *err)
{
    return kmf_fail(err, KMF_EFORMAT,
                    "%s: line %" PRIu64 ": not that of an index, or cut off: remove the file, "
                    "and it is made anew",
                    p->fai, line);
}

/* end: one past the last base that the index has. */
static int parse(kmf_fai *f, const place *p, uint64_t *end, kmf_err *err)
{
    uint64_t number[NUMBERS];
    *end = 0;
    for (char *line = f->text; *line;) {
        char *stop = strchr(line, '\n');
        if (stop)
            *stop = '\0';
        if (!stop || !parse_line(line, number))
            return is_broken(p, f->n + 1, err);
        int status = kmf_grow(&f->contigs, &f->cap, f->n + 1, sizeof *f->contigs, err);
        if (status < 0)
            return status;
        f->contigs[f->n++] = (kmf_contig){line, number[LENGTH]};
        *end = end_of(number) > *end ? end_of(number) : *end;
        line = stop + 1;
    }
    if (f->n > 0)
        qsort(f->contigs, f->n, sizeof *f->contigs, by_name);
    for (size_t i = 1; i < f->n; i++)
        if (strcmp(f->contigs[i - 1].name, f->contigs[i].name) == 0)
            return kmf_fail(err, KMF_EFORMAT, "%s: a name is there twice: remove the file",
                            p->fai);
    return 0;
}

/* Nothing may come behind the last base of the index but the end of its line. */
static int check_end(const place *p, uint64_t end, kmf_err *err)
{
    BGZF *file = bgzf_open(p->path, "r");
    int64_t records = -1;
    if (file && (!p->packed || bgzf_index_load(file, p->path, ".gzi") == 0) &&
        bgzf_useek(file, (off_t)end, SEEK_SET) == 0)
        records = count_records(file);
    if (file)
        bgzf_close(file);
    if (records != 0)
        return kmf_fail(err, KMF_EFORMAT,
                        "%s: its .fai ends %s: remove that, and it is made anew", p->path,
                        records > 0 ? "before it does" : "where it has no base");
    return 0;
}

int kmf_fai_open(kmf_fai *fai, const char *path, kmf_err *err)
{
    place p = {.path = path};
    uint64_t end;
    size_t len;
    *fai = (kmf_fai){0};
    int status = look_at(&p, err);
    if (status == 0)
        status = make_if_missing(&p, err);
    if (status == 0)
        status = check_age(&p, err);
    if (status < 0)
        goto out;
    status = KMF_EIO;
    fai->text = kmf_file_read(p.fai, INDEX_MOST, &len, err);
    if (!fai->text)
        goto out;
    status = parse(fai, &p, &end, err);
    if (status == 0)
        status = check_end(&p, end, err);
    if (status < 0)
        goto out;
    fai->index = fai_load3(path, p.fai, p.packed ? p.gzi : NULL, 0);
    if (!fai->index)
        status = kmf_fail(err, KMF_EFORMAT,
                          "%s: its .fai%s cannot be used: remove it, and it is made anew", path,
                          p.packed ? " or .gzi" : "");
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
    kmf_free(fai->contigs);
    kmf_free(fai->text);
    *fai = (kmf_fai){0};
}

ptrdiff_t kmf_fai_find(const kmf_fai *fai, const char *name, size_t n)
{
    size_t lo = 0;
    size_t hi = fai->n;
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
