/* SPDX-License-Identifier: MIT */
/*
 * One reader for all formats.
 *
 *     file -- htslib says what it is --+-- SAM, BAM, CRAM --------> aligned.c
 *                                      +-- all else -- bytes.c --> textseq.c: FASTA or FASTQ
 *     indexed FASTA and regions --------------------------------> regions.c
 *
 * The format is told by content alone: hts_detect_format looks at the first bytes, also under
 * gzip, without taking them, so it works on pipes.
 *
 * htslib prints to standard error. Here each failure becomes one sentence of ours, so its log
 * is turned off, for the whole process, when the first reader is opened.
 */
#include "seq/seqio.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "seq/aligned.h"
#include "seq/bytes.h"
#include "seq/regions.h"
#include "seq/textseq.h"

#include <htslib/hfile.h>
#include <htslib/hts.h>
#include <htslib/hts_log.h>

struct kmf_reader {
    kmf_textseq *text;    /* owned; exactly one of the three is not NULL */
    kmf_aligned *aligned; /* owned */
    kmf_regions *regions; /* owned */
    kmf_reader_stats stats;
    bool ended;
    kmf_err failure; /* once failed, always failed */
};

static void silence(void)
{
    hts_set_log_level(HTS_LOG_OFF);
}

static kmf_reader *new_reader(kmf_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, silence);
    return kmf_calloc(1, sizeof(kmf_reader), err);
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
    char first = '\0';
    bool fasta = format.format == sam && hpeek(file, &first, 1) == 1 && first == '>';
    if (!fasta && (format.format == sam || format.format == bam || format.format == cram)) {
        r->aligned = kmf_aligned_open(file, name, reference, pool, err);
        return r->aligned ? 0 : KMF_EFORMAT;
    }
    kmf_bytes *bytes = kmf_bytes_open(file, pool, err);
    if (bytes)
        r->text = kmf_textseq_open(bytes, name, err);
    return r->text ? 0 : KMF_EFORMAT;
}

void kmf_reader_options_default(kmf_reader_options *opts)
{
    *opts = (kmf_reader_options){0};
}

kmf_reader *kmf_reader_open(const char *path, const kmf_reader_options *opts, kmf_pool *pool,
                            kmf_err *err)
{
    int status = KMF_EIO;
    const char *reference = opts ? opts->reference : NULL;
    kmf_reader *r = new_reader(err);
    if (!r)
        return NULL;
    if (opts && (opts->regions || opts->bed)) {
        r->regions = kmf_regions_open(path, opts->regions, opts->bed, err);
        status = r->regions ? 0 : KMF_EFORMAT;
    } else {
        const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
        hFILE *file = kmf_input_open(path, err);
        if (file)
            status = attach(r, file, name, reference, pool, err);
    }
    if (status == 0)
        return r;
    kmf_reader_close(r);
    return NULL;
}

kmf_reader *kmf_reader_open_memory(const void *bytes, size_t len, kmf_pool *pool, kmf_err *err)
{
    char *copy = NULL;
    hFILE *file = NULL;
    kmf_reader *r = new_reader(err);
    if (!r)
        return NULL;
    copy = kmf_malloc(len, 1, err);
    if (!copy)
        goto failed;
    if (len > 0)
        memcpy(copy, bytes, len);
    file = hopen("mem:", "r:", copy, len);
    if (!file) {
        kmf_fail(err, KMF_ENOMEM, "out of memory: no room for a file in memory");
        kmf_free(copy);
        goto failed;
    }
    /* The file owns the copy from here on, and frees it as kmf_free would. */
    if (attach(r, file, "memory", NULL, pool, err) == 0)
        return r;
failed:
    kmf_reader_close(r);
    return NULL;
}

int kmf_reader_next(kmf_reader *r, kmf_record *rec, kmf_err *err)
{
    int status;
    if (r->failure.code != KMF_OK)
        return kmf_fail(err, r->failure.code, "%s", r->failure.msg);
    if (r->ended)
        return 0;
    if (r->text)
        status = kmf_textseq_next(r->text, rec, &r->failure);
    else if (r->aligned)
        status = kmf_aligned_next(r->aligned, rec, &r->stats, &r->failure);
    else
        status = kmf_regions_next(r->regions, rec, &r->failure);
    if (status < 0)
        return kmf_fail(err, r->failure.code, "%s", r->failure.msg);
    if (status == 0) {
        r->ended = true;
        return 0;
    }
    rec->index = r->stats.records++;
    r->stats.bases += rec->len;
    return 1;
}

void kmf_reader_statistics(const kmf_reader *r, kmf_reader_stats *stats)
{
    *stats = r->stats;
}

void kmf_reader_close(kmf_reader *r)
{
    if (!r)
        return;
    kmf_textseq_close(r->text);
    kmf_aligned_close(r->aligned);
    kmf_regions_close(r->regions);
    kmf_free(r);
}
