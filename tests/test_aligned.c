/* SPDX-License-Identifier: MIT */
/*
 * SAM, BAM and CRAM. Second sources: eight alignments written by htslib, with their records as
 * sequenced worked out by hand; a real CRAM beside the BAM that it was made of; every message.
 */
#include "seqfiles.h"
#include "run.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <htslib/cram.h>
#include <htslib/hfile.h>
#include <htslib/hts.h>
#include <htslib/sam.h>

#define CONTIG "ACGTTGCAACGGTCATTTGACCATGGCATCAG"

static const char sam_header[] = "@HD\tVN:1.6\n@SQ\tSN:c\tLN:32\n";
static const char *const sam_lines[] = {
    "r1\t0\tc\t1\t60\t8M\t*\t0\t0\tACGTTGCA\tIIIIIIII",
    "r2\t16\tc\t9\t60\t8M\t*\t0\t0\tACGGTCAT\tIIIIIIII",
    "r2\t272\tc\t9\t60\t8M\t*\t0\t0\t*\t*",
    "r3\t2064\tc\t9\t60\t4H4M\t*\t0\t0\tTCAT\t*",
    "r3\t2048\tc\t9\t60\t4H4M\t*\t0\t0\tTCAT\t*",
    "r4\t4\t*\t0\t0\t*\t*\t0\t0\tACMGRSVTWYHKDBN\t*",
    "r5\t20\t*\t0\t0\t*\t*\t0\t0\tACMGRSVTWYHKDBN\t*",
    "r6\t4\t*\t0\t0\t*\t*\t0\t0\t*\t*",
};
static const char sam_records[] = "[r1|ACGTTGCA][r2|ATGACCGT][r4|ACMGRSVTWYHKDBN]"
                                  "[r5|NVHMDRWABSYCKGT][r6|]";
#define N_SAM (sizeof sam_lines / sizeof *sam_lines)

/* Writes the lines as SAM ("w"), BAM ("wb") or CRAM ("wc"). */
static const char *write_alignments(const char *name, const char *mode, const char *reference,
                                    unsigned copies)
{
    const char *path = in_dir(name);
    samFile *file = sam_open(path, mode);
    sam_hdr_t *header = sam_hdr_init();
    bam1_t *b = bam_init1();
    kstring_t line = KS_INITIALIZE;
    ck_assert(file && header && b);
    ck_assert_int_eq(sam_hdr_add_lines(header, sam_header, 0), 0);
    if (reference)
        ck_assert_int_eq(hts_set_fai_filename(file, reference), 0);
    ck_assert_int_eq(sam_hdr_write(file, header), 0);
    for (unsigned copy = 0; copy < copies; copy++) {
        for (size_t i = 0; i < N_SAM; i++) {
            line.l = 0;
            ck_assert_int_ge(kputs(sam_lines[i], &line), 0);
            ck_assert_int_ge(sam_parse1(&line, header, b), 0);
            ck_assert_int_ge(sam_write1(file, header, b), 0);
        }
    }
    free(line.s);
    bam_destroy1(b);
    sam_hdr_destroy(header);
    ck_assert_int_eq(sam_close(file), 0);
    return path;
}

static const char *write_reference(void)
{
    return write_text("ref.fa", ">c\n" CONTIG "\n");
}

static void expect_alignments(const char *path, const char *reference)
{
    for (int threads = 0; threads <= 2; threads++) {
        kmf_err err = {0};
        kmf_reader_stats stats;
        text out = {0};
        kmf_reader_options opts = reader_options();
        opts.reference = reference;
        kmf_pool *pool = threads ? kmf_pool_new(threads, &err) : NULL;
        kmf_reader *reader = kmf_reader_open(path, &opts, pool, &err);
        ck_assert_msg(reader != NULL, "%s", err.msg);
        ck_assert_msg(drain(reader, &out, &err) == 0, "%s", err.msg);
        ck_assert_str_eq(out.bytes, sam_records);
        kmf_reader_statistics(reader, &stats);
        ck_assert_uint_eq(stats.records, 5);
        ck_assert_uint_eq(stats.bases, 8 + 8 + 15 + 15);
        ck_assert_uint_eq(stats.secondary, 1);
        ck_assert_uint_eq(stats.supplementary, 2);
        kmf_reader_close(reader);
        kmf_pool_free(pool);
        free(out.bytes);
    }
}

START_TEST(primary_alignments_are_read_as_sequenced_from_sam_bam_and_cram)
{
    const char *reference = write_reference();
    expect_alignments(write_alignments("x.sam", "w", NULL, 1), NULL);
    expect_alignments(write_alignments("x.sam.gz", "wz", NULL, 1), NULL);
    expect_alignments(write_alignments("x.bam", "wb", NULL, 1), NULL);
    expect_alignments(write_alignments("x.cram", "wc", reference, 1), reference);
}
END_TEST

static void cut_file(const char *path, size_t n)
{
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(truncate(path, st.st_size - (off_t)n), 0);
}

START_TEST(truncated_alignments_are_refused)
{
    const char *reference = write_reference();
    kmf_reader_options opts = reader_options();
    opts.reference = reference;
    for (int threads = 0; threads <= 2; threads++) {
        const char *path = write_alignments("x.bam", "wb", NULL, 2000);
        cut_file(path, BGZF_MARKER);
        expect_path_failure(path, NULL, threads,
                            "truncated: the BGZF end-of-file marker is missing");
        cut_file(path, 1);
        text out = {0};
        kmf_err err = {0};
        ck_assert_int_eq(read_path(path, NULL, threads, &out, &err), KMF_EFORMAT);
        ck_assert_ptr_nonnull(strstr(err.msg, ": truncated or damaged"));
        free(out.bytes);
        path = write_alignments("x.cram", "wc", reference, 2000);
        cut_file(path, 38); /* the CRAM 3.0 end container */
        expect_path_failure(path, &opts, threads,
                            "truncated: the CRAM end-of-file marker is missing");
    }
}
END_TEST

/* It cannot be searched, so the marker is looked for where reading ended. */
START_TEST(a_cram_from_a_pipe_ends_in_its_marker)
{
    enum { MARKER = 38, MOST = 1 << 15 }; /* a pipe holds 64 KB */
    kmf_reader_options opts = reader_options();
    opts.reference = write_reference();
    text cram = read_file(write_alignments("x.cram", "wc", opts.reference, 1));
    ck_assert(cram.len > MARKER && cram.len < MOST);
    for (int i = 0; i < 4; i++) { /* whole and cut, alone and with threads */
        bool cut = i % 2;
        int pair[2];
        char path[32];
        text out = {0};
        kmf_err err = {0};
        size_t n = cram.len - (cut ? MARKER : 0);
        ck_assert_int_eq(pipe(pair), 0);
        ck_assert_int_eq(write(pair[1], cram.bytes, n), (ssize_t)n);
        ck_assert_int_eq(close(pair[1]), 0);
        snprintf(path, sizeof path, "/dev/fd/%d", pair[0]);
        ck_assert_int_eq(read_path(path, &opts, i / 2 * 2, &out, &err), cut ? KMF_EFORMAT : 0);
        ck_assert_str_eq(out.bytes, sam_records);
        if (cut)
            ck_assert_ptr_nonnull(
                strstr(err.msg, ": truncated: the CRAM end-of-file marker is missing"));
        ck_assert_int_eq(close(pair[0]), 0);
        free(out.bytes);
    }
    free(cram.bytes);
}
END_TEST

/* Changes a byte in the header of container n of those with alignments, from 0. */
static void damage_container(const char *path, int n)
{
    cram_fd *cram = cram_open(path, "r");
    ck_assert_ptr_nonnull(cram);
    hFILE *bytes = cram_fd_get_fp(cram);
    off_t at = htell(bytes);
    for (; n > 0; n--) {
        cram_container *container = cram_read_container(cram);
        ck_assert_ptr_nonnull(container);
        ck_assert_int_gt(hseek(bytes, cram_container_get_length(container), SEEK_CUR), 0);
        cram_free_container(container);
        at = htell(bytes);
    }
    ck_assert_int_eq(cram_close(cram), 0);
    FILE *file = fopen(path, "r+b");
    ck_assert(file && fseek(file, at + 4, SEEK_SET) == 0);
    int byte = fgetc(file);
    ck_assert(byte != EOF && fseek(file, at + 4, SEEK_SET) == 0 &&
              fputc(byte ^ 1, file) != EOF);
    ck_assert_int_eq(fclose(file), 0);
}

/* 24,000 alignments, in three containers: with threads htslib takes a damaged one for the end. */
START_TEST(a_damaged_container_is_not_the_end)
{
    kmf_reader_options opts = reader_options();
    opts.reference = write_reference();
    for (int n = 0; n < 3; n++) {
        const char *path = write_alignments("x.cram", "wc", opts.reference, 3000);
        damage_container(path, n);
        for (int threads = 0; threads <= 2; threads++) {
            text out = {0};
            kmf_err err = {0};
            ck_assert_int_eq(read_path(path, &opts, threads, &out, &err), KMF_EFORMAT);
            ck_assert_msg(strstr(err.msg, "damaged") != NULL, "%s", err.msg);
            free(out.bytes);
        }
    }
}
END_TEST

START_TEST(a_cram_without_its_reference_says_what_to_give)
{
    const char *reference = write_reference();
    const char *path = write_alignments("x.cram", "wc", reference, 1);
    kmf_reader_options opts = reader_options();
    unsetenv("REF_PATH");
    unsetenv("REF_CACHE");
    expect_alignments(path, NULL); /* it names the file, which is there */
    ck_assert_int_eq(unlink(reference), 0);
    expect_path_failure(path, NULL, 0,
                        "record 1: a CRAM needs the FASTA that it was made against: give it as "
                        "the reference (if it needs none, the file is damaged)");
    ck_assert_str_eq(getenv("REF_PATH"), "/dev/null/%s");

    const char *other = write_text("other.fa", ">c\nTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT\n");
    char message[160];
    snprintf(message, sizeof message,
             "record 1: damaged, or made against another reference than %s", other);
    opts.reference = other;
    expect_path_failure(path, &opts, 0, message);

    kmf_err err = {0};
    opts.reference = "/nonexistent/ref.fa";
    ck_assert_ptr_null(kmf_reader_open(path, &opts, NULL, &err));
    ck_assert_int_eq(err.code, KMF_EIO);
    ck_assert_str_eq(err.msg, "/nonexistent/ref.fa: No such file or directory");
}
END_TEST

/* It is told by the MD5 of its sequences: a copy may be younger than its index, and have twins. */
START_TEST(a_reference_need_not_be_older_than_its_index)
{
    const char *reference = write_reference();
    const char *path = write_alignments("x.cram", "wc", reference, 1);
    const struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    char index[4096];
    expect_alignments(path, reference);
    snprintf(index, sizeof index, "%s.fai", reference);
    ck_assert_int_eq(utimensat(AT_FDCWD, index, long_ago, 0), 0);
    expect_alignments(path, reference);
    ck_assert_int_eq(unlink(reference), 0);
    expect_alignments(path,
                      write_text("twins.fa", ">c\n" CONTIG "\n>other\nACGT\n>other\nTTTT\n"));
}
END_TEST

START_TEST(a_network_address_in_ref_path_is_not_followed)
{
    const char *reference = write_reference();
    static const char *const addresses[] = {"https://localhost/%s",
                                            "/ref/%s:HTTP:localhost/%s",
                                            "ftp:localhost/%s",
                                            "https:localhost/%s",
                                            "URL=x",
                                            ""};
    const char *path = write_alignments("x.cram", "wc", reference, 1);
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        setenv("REF_PATH", addresses[i], 1);
        expect_alignments(path, reference);
        ck_assert_str_eq(getenv("REF_PATH"), "/dev/null/%s");
    }
    setenv("REF_PATH", "/ref/%s:/more/%s", 1); /* folders stay */
    expect_alignments(path, reference);
    ck_assert_str_eq(getenv("REF_PATH"), "/ref/%s:/more/%s");
    unsetenv("REF_PATH");
}
END_TEST

START_TEST(what_alignments_cannot_tell_is_an_error)
{
    FAILS(
        "@HD\tVN:1.6\n@SQ\tSN:c\tLN:9\nr\t0\tc\t1\t0\t4M\t*\t0\t0\tAC=T\t*\n", "",
        "memory: record 1 'r': '=' for bases that equal the reference cannot be read; samtools "
        "calmd without -e writes them out");
    FAILS("@HD\tVN:1.6\n@SQ\tSN:c\tLN:9\nr\x1b[2J\t0\tc\t1\t0\t4M\t*\t0\t0\tAC=T\t*\n", "",
          "memory: record 1 'r?[2J': '=' for bases that equal the reference cannot be read; "
          "samtools calmd without -e writes them out");
    FAILS(
        "r\t0\tc\t1\t0\t4M\t*\t0\t0\tACGT\t*\n", "",
        "memory: record 1: damaged, or aligned to a sequence that the header lacks: a SAM file "
        "needs its @SQ lines");
    READS("r\t4\t*\t0\t0\t*\t*\t0\t0\tACGT\t*\n", "[r|ACGT]");
}
END_TEST

START_TEST(a_failing_allocation_among_alignments_is_reported_and_nothing_leaks)
{
    fail_everywhere(write_alignments("x.bam", "wb", NULL, 3), NULL, 0);
    kmf_reader_options opts = reader_options();
    opts.reference = write_reference();
    fail_everywhere(write_alignments("x.cram", "wc", opts.reference, 3), &opts, 0);
}
END_TEST

START_TEST(a_real_cram_reads_like_the_bam_it_was_made_of)
{
    const char *place = shared();
    if (!place) {
        printf("skip: real CRAM: neither KMF_SHARED nor ../shared is there\n");
        return;
    }
    char path[512];
    text bam = {0};
    text cram = {0};
    kmf_err err = {0};
    snprintf(path, sizeof path, "%s/data/variants/chr22_tiny_ref.fa.gz", place);
    text reference = read_file(path);
    kmf_reader_options opts = reader_options();
    opts.reference = write_bytes("ref.fa.gz", reference.bytes, reference.len);
    snprintf(path, sizeof path, "%s/data/reads/na12878_chr22.bam", place);
    ck_assert_int_eq(read_path(path, NULL, 0, &bam, &err), 0);
    snprintf(path, sizeof path, "%s/data/reads/na12878_chr22.cram", place);
    ck_assert_int_eq(read_path(path, &opts, 2, &cram, &err), 0);
    ck_assert_uint_gt(bam.len, 500000);
    ck_assert_str_eq(cram.bytes, bam.bytes);
    free(reference.bytes);
    free(bam.bytes);
    free(cram.bytes);
}
END_TEST

int main(void)
{
    TCase *tc = untimed_case();
    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_add_test(tc, primary_alignments_are_read_as_sequenced_from_sam_bam_and_cram);
    tcase_add_test(tc, truncated_alignments_are_refused);
    tcase_add_test(tc, a_cram_from_a_pipe_ends_in_its_marker);
    tcase_add_test(tc, a_damaged_container_is_not_the_end);
    tcase_add_test(tc, a_cram_without_its_reference_says_what_to_give);
    tcase_add_test(tc, a_reference_need_not_be_older_than_its_index);
    tcase_add_test(tc, a_network_address_in_ref_path_is_not_followed);
    tcase_add_test(tc, what_alignments_cannot_tell_is_an_error);
    tcase_add_test(tc, a_failing_allocation_among_alignments_is_reported_and_nothing_leaks);
    tcase_add_test(tc, a_real_cram_reads_like_the_bam_it_was_made_of);
    return run_case("aligned", tc);
}
