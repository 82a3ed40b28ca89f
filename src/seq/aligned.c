/* SPDX-License-Identifier: MIT */
/*
 * SAM, BAM and CRAM by htslib's sam_read1.
 *
 * Of a read that was aligned the file may hold several records. Exactly one, the primary, has
 * neither the secondary (0x100) nor the supplementary (0x800) flag; it alone is sure to hold
 * the whole sequence. The others are counted and passed over. A primary record with flag 0x10
 * holds the reverse complement of the read, since SAM prints all sequences on the reference's
 * strand.
 *
 * BAM packs two bases into a byte, high half first, as indices into "=ACMGRSVTWYHKDBN". '='
 * means "as the reference has it" (samtools calmd -e writes it) and cannot be known here.
 *
 * CRAM stores differences to a reference. htslib looks for that reference in the file given, in
 * the directories of REF_CACHE and REF_PATH, and then, by default, asks a server of the EBI, or
 * opens the address in the header's UR field. A program on a cluster node must not go and
 * download genomes, so
 *   - REF_PATH is set, where it is unset or names a network address, to a place that holds
 *     nothing. setenv is not safe beside a getenv of another thread, so a program with threads
 *     that read the environment should set REF_PATH itself before it opens a CRAM;
 *   - UR fields that do not name a local file that exists are removed from the header that
 *     htslib uses (for one that does not exist it would print a line of its own).
 * Only name, flags and sequence are asked for, which lets htslib pass over the other columns.
 *
 * The end-of-file markers of BGZF and CRAM are insisted on, like in gunzip.c. BAM is inflated on
 * the caller's thread for the reason told in bytes.c. CRAM, which takes several times as long, is
 * decoded on the pool; htslib (1.16) then no longer tells whether it met the marker, so it is
 * looked for beforehand, and a stream, where that is impossible, gets no threads.
 */
#define _GNU_SOURCE /* strcasestr */

#include "seq/aligned.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "seq/dna.h"
#include "seq/fai.h"
#include "seq/par.h"

#include <htslib/bgzf.h>
#include <htslib/cram.h>
#include <htslib/hfile.h>
#include <htslib/kstring.h>
#include <htslib/sam.h>

#define NOWHERE "/dev/null/%s" /* a search path in which nothing can be found */
#define MARKER_UNKNOWN 2       /* of hts_check_EOF: the input cannot be searched */

static const char packed_letters[] = "=ACMGRSVTWYHKDBN";

struct kmf_aligned {
    htsFile *file;     /* owned */
    sam_hdr_t *header; /* owned */
    bam1_t *alignment; /* owned */
    char *name;        /* owned; for messages */
    char *reference;   /* owned; NULL: none */
    char *seq;         /* owned [cap] */
    size_t cap;
    char letters[256][2]; /* of a byte that BAM packs two into */
    uint64_t n;           /* alignments read so far, of any kind */
    bool indexed;         /* the reference was */
};

static void forbid_network(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    const char *path = getenv("REF_PATH");
    if (!path || !*path || strstr(path, "://") || strcasestr(path, "http:") ||
        strcasestr(path, "https:") || strcasestr(path, "ftp:") || strcasestr(path, "URL="))
        setenv("REF_PATH", NOWHERE, 1);
    pthread_mutex_unlock(&lock);
}

static int fail_marker(const kmf_aligned *a, const char *kind, kmf_err *err)
{
    return kmf_fail(err, KMF_EFORMAT, "%s: truncated: the %s end-of-file marker is missing",
                    a->name, kind);
}

/* Removes the UR fields that do not name a file that is here. */
static int drop_addresses(kmf_aligned *a, kmf_err *err)
{
    sam_hdr_t *header = cram_fd_get_header(a->file->fp.cram);
    kstring_t address = KS_INITIALIZE;
    int n = header ? sam_hdr_count_lines(header, "SQ") : 0;
    int status = 0;
    for (int i = 0; i < n && status == 0; i++) {
        if (sam_hdr_find_tag_pos(header, "SQ", i, "UR", &address) != 0)
            continue;
        const char *path = strncmp(address.s, "file:", 5) == 0 ? address.s + 5 : address.s;
        if (access(path, R_OK) == 0)
            continue;
        const char *contig = sam_hdr_line_name(header, "SQ", i);
        if (!contig || sam_hdr_remove_tag_id(header, "SQ", "SN", contig, "UR") < 0)
            status = kmf_fail(err, KMF_EFORMAT, "%s: the header is damaged", a->name);
    }
    free(address.s);
    return status;
}

/* Sees to it that the reference can be used, so that a failure can be told by its cause. */
static int set_reference(kmf_aligned *a, kmf_err *err)
{
    kmf_fai fai;
    if (!a->reference)
        return 0;
    int status = kmf_fai_open(&fai, a->reference, false, err);
    if (status < 0)
        return status;
    a->indexed = fai.made;
    kmf_fai_close(&fai);
    if (hts_set_fai_filename(a->file, a->reference) < 0)
        return kmf_fail(err, KMF_EIO, "%s: cannot be used as a reference", a->reference);
    return 0;
}

static int prepare_cram(kmf_aligned *a, kmf_pool *pool, kmf_err *err)
{
    forbid_network();
    int marker = hts_check_EOF(a->file);
    if (marker == 0)
        return fail_marker(a, "CRAM", err);
    if (hts_set_opt(a->file, CRAM_OPT_REQUIRED_FIELDS, SAM_QNAME | SAM_FLAG | SAM_SEQ) != 0)
        return kmf_fail(err, KMF_EINVAL, "%s: htslib refuses an option of CRAM", a->name);
    int status = drop_addresses(a, err);
    if (status == 0)
        status = set_reference(a, err);
    if (status < 0 || !pool || marker == MARKER_UNKNOWN)
        return status;
    htsThreadPool threads = {kmf_pool_handle(pool), 0};
    if (hts_set_thread_pool(a->file, &threads) < 0)
        return kmf_fail(err, KMF_ENOMEM, "out of memory: no room to decode with threads");
    return 0;
}

kmf_aligned *kmf_aligned_open(hFILE *file, const char *name, const char *reference,
                              kmf_pool *pool, kmf_err *err)
{
    kmf_aligned *a = kmf_calloc(1, sizeof *a, err);
    if (!a) {
        hclose_abruptly(file);
        return NULL;
    }
    for (size_t i = 0; i < 256; i++) {
        a->letters[i][0] = packed_letters[i >> 4];
        a->letters[i][1] = packed_letters[i & 15];
    }
    a->name = kmf_strdup(name, err);
    if (reference)
        a->reference = kmf_strdup(reference, err);
    if (!a->name || (reference && !a->reference)) {
        hclose_abruptly(file);
        goto failed;
    }
    a->file = hts_hopen(file, name, "r");
    if (!a->file) {
        kmf_fail(err, KMF_EFORMAT, "%s: the header is truncated or damaged", name);
        hclose_abruptly(file);
        goto failed;
    }
    if (a->file->format.format == cram && prepare_cram(a, pool, err) < 0)
        goto failed;
    a->header = sam_hdr_read(a->file);
    if (!a->header) {
        kmf_fail(err, KMF_EFORMAT, "%s: the header is truncated or damaged", name);
        goto failed;
    }
    a->alignment = bam_init1();
    if (!a->alignment) {
        kmf_fail(err, KMF_ENOMEM, "out of memory: no room for an alignment");
        goto failed;
    }
    return a;
failed:
    kmf_aligned_close(a);
    return NULL;
}

void kmf_aligned_close(kmf_aligned *a)
{
    if (!a)
        return;
    bam_destroy1(a->alignment);
    sam_hdr_destroy(a->header);
    if (a->file)
        hts_close(a->file);
    kmf_free(a->name);
    kmf_free(a->reference);
    kmf_free(a->seq);
    kmf_free(a);
}

/* Why sam_read1 failed is only said in htslib's log; these are the causes there are. */
static int fail_read(const kmf_aligned *a, kmf_err *err)
{
    bool packed = a->file->is_bgzf && a->file->fp.bgzf->errcode != 0; /* damage is told below */
    if (a->file->format.format == sam && sam_hdr_nref(a->header) == 0 && !packed)
        return kmf_fail(err, KMF_EFORMAT,
                        "%s: record %" PRIu64 ": damaged, or aligned to a sequence that the "
                        "header lacks: a SAM file needs its @SQ lines",
                        a->name, a->n + 1);
    if (a->file->format.format != cram)
        return kmf_fail(err, KMF_EFORMAT, "%s: record %" PRIu64 ": truncated or damaged",
                        a->name, a->n + 1);
    if (a->reference)
        return kmf_fail(err, KMF_EFORMAT,
                        "%s: record %" PRIu64 ": damaged, or made against another reference "
                        "than %s",
                        a->name, a->n + 1, a->reference);
    return kmf_fail(err, KMF_EFORMAT,
                    "%s: record %" PRIu64 ": a CRAM needs the FASTA that it was made against: "
                    "give it as the reference (if it needs none, the file is damaged)",
                    a->name, a->n + 1);
}

/*
 * The end was reached: is the marker there? With threads htslib (1.16) takes a container that it
 * cannot read for the end of a CRAM; then there are bytes left.
 */
static int end_of_file(const kmf_aligned *a, kmf_err *err)
{
    const htsFile *file = a->file;
    if (file->format.format == cram && cram_eof(file->fp.cram) == 2)
        return fail_marker(a, "CRAM", err);
    if (file->format.format == cram && hgetc(cram_fd_get_fp(file->fp.cram)) != EOF)
        return kmf_fail(err, KMF_EFORMAT, "%s: damaged behind record %" PRIu64, a->name, a->n);
    if (file->format.compression == bgzf && file->fp.bgzf->no_eof_block)
        return fail_marker(a, "BGZF", err);
    return 0;
}

static void unpack(char *seq, char (*letters)[2], const uint8_t *packed, size_t len)
{
    for (size_t i = 0; i + 1 < len; i += 2)
        memcpy(seq + i, letters[packed[i / 2]], 2);
    if (len % 2)
        seq[len - 1] = letters[packed[len / 2]][0];
    seq[len] = '\0';
}

int kmf_aligned_next(kmf_aligned *a, kmf_record *rec, kmf_reader_stats *stats, kmf_err *err)
{
    bam1_t *b = a->alignment;
    char shown[KMF_ERR_SHOW];
    stats->indexed = a->indexed;
    for (;;) {
        int status = sam_read1(a->file, a->header, b);
        if (status < 0)
            return status == -1 ? end_of_file(a, err) : fail_read(a, err);
        a->n++;
        if (!(b->core.flag & (BAM_FSECONDARY | BAM_FSUPPLEMENTARY)))
            break;
        if (b->core.flag & BAM_FSECONDARY)
            stats->secondary++;
        else
            stats->supplementary++;
    }
    /* SAM allows no blank in a name, but writers that keep all of a FASTQ header put them there. */
    char *name = bam_get_qname(b);
    name[strcspn(name, " \t\r\n")] = '\0';
    size_t len = (size_t)b->core.l_qseq;
    if (kmf_grow(&a->seq, &a->cap, len + 1, 1, err) < 0)
        return KMF_ENOMEM;
    unpack(a->seq, a->letters, bam_get_seq(b), len);
    if (memchr(a->seq, '=', len))
        return kmf_fail(err, KMF_EFORMAT,
                        "%s: record %" PRIu64 " '%s': '=' for bases that equal the reference "
                        "cannot be read; samtools calmd without -e writes them out",
                        a->name, a->n, kmf_err_show(shown, name));
    if (b->core.flag & BAM_FREVERSE)
        kmf_dna_revcomp(a->seq, a->seq, len);
    rec->name = name;
    rec->seq = a->seq;
    rec->len = len;
    return 1;
}
