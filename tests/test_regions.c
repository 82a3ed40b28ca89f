/* SPDX-License-Identifier: MIT */
/* Regions and BED lines of one small FASTA: their records written out, and every message. */
#include "seqfiles.h"
#include "run.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>

static const char regions_fasta[] = ">chr1 first\nACGTACGTAC\nGTTTGGGCCC\nAN\n>chr2\n"
                                    "acgtu\n>odd:1-3\nGGGGGG\n>odd\nCCCCCC\n>a,b\nTTTT\n";

static void expect_regions(const char *path, const char *regions, const char *bed,
                           const char *records)
{
    text out = {0};
    kmf_err err = {0};
    kmf_reader_options opts = reader_options();
    opts.regions = regions;
    opts.bed = bed;
    add(&out, "");
    int status = read_path(path, &opts, 0, &out, &err);
    ck_assert_msg(status == 0, "%s: %s", regions ? regions : bed, err.msg);
    ck_assert_str_eq(out.bytes, records);
    free(out.bytes);
}

START_TEST(regions_are_1_based_and_closed_and_keep_their_order)
{
    const char *plain = write_text("x.fa", regions_fasta);
    text packed = bgzipped(regions_fasta, sizeof regions_fasta - 1);
    const char *bgzf = write_bytes("x.fa.gz", packed.bytes, packed.len);
    for (int i = 0; i < 2; i++) {
        const char *path = i ? bgzf : plain;
        expect_regions(path, "chr1:1-1", NULL, "[chr1:1-1|A]");
        expect_regions(path, "chr1:9-12,chr2,chr1:21-", NULL,
                       "[chr1:9-12|ACGT][chr2:1-5|acgtu][chr1:21-22|AN]");
        expect_regions(path, "chr1:20", NULL, "[chr1:20-22|CAN]");
        expect_regions(path, "{odd:1-3}", NULL, "[odd:1-3:1-6|GGGGGG]");
        expect_regions(path, "{odd}:1-3", NULL, "[odd:1-3|CCC]");
        expect_regions(path, "odd:1-3:2-3,{odd:1-3}:2-2", NULL,
                       "[odd:1-3:2-3|GG][odd:1-3:2-2|G]");
        expect_regions(path, "{a,b}:2-3,{a,b}", NULL, "[a,b:2-3|TT][a,b:1-4|TTTT]");
    }
    const char *with_empty = write_text("z.fa", ">none\n>c\nAC\n");
    write_text("z.fa.fai", "none\t0\t6\t0\t0\nc\t2\t9\t2\t3\n");
    expect_regions(with_empty, "none,c", NULL, "[none:1-0|][c:1-2|AC]");
    free(packed.bytes);
}
END_TEST

START_TEST(bed_lines_are_0_based_and_half_open_and_honour_the_strand)
{
    static const char bed[] = "# comment\ntrack name=x\nbrowser position\n\n"
                              "chr1\t0\t4\r\n"
                              "chr1\t9\t13\tname with blanks\t0\t-\n"
                              "chr1\t9\t13\tn\t0\t+\textra\n"
                              "chr2\t0\t5\tn\t0\t.\n"
                              "chr1 10 12 n 0 -\n"
                              "chr2\t4\t5";
    static const char records[] = "[chr1:1-4|ACGT][chr1:10-13(-)|AACG][chr1:10-13|CGTT]"
                                  "[chr2:1-5|acgtu][chr1:11-12(-)|AC][chr2:5-5|u]";
    const char *path = write_text("x.fa", regions_fasta);
    expect_regions(path, NULL, write_text("x.bed", bed), records);
    text gz = gzipped(bed, sizeof bed - 1);
    expect_regions(path, NULL, write_bytes("x.bed.gz", gz.bytes, gz.len), records);
    free(gz.bytes);
    expect_regions(path, "chr2:5-5", write_text("y.bed", "chr2\t0\t2\n"),
                   "[chr2:5-5|u][chr2:1-2|ac]");
    expect_regions(path, NULL, write_text("z.bed", ""), "");
}
END_TEST

static void expect_bad_region(const char *path, const char *regions, const char *format, ...)
    KMF_PRINTF(3, 4);

static void expect_bad_region(const char *path, const char *regions, const char *format, ...)
{
    kmf_err err = {0};
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    kmf_reader_options opts = reader_options();
    opts.regions = regions;
    ck_assert_ptr_null(kmf_reader_open(path, &opts, NULL, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    ck_assert_str_eq(err.msg, message);
}

START_TEST(bad_regions_are_named)
{
    static const char form[] = "a range is written NAME:BEG-END or NAME:BEG-";
    const char *x = write_text("x.fa", regions_fasta);
    expect_bad_region(x, "chr1,chr9:1-5",
                      "region 'chr9:1-5': %s has no sequence of this name with letters in it",
                      x);
    expect_bad_region(x, "chr",
                      "region 'chr': %s has no sequence of this name with letters in it", x);
    expect_bad_region(
        x, "chr1:1,000-2,000",
        "region '000-2': %s has no sequence of this name with letters in it (commas "
        "separate regions: write numbers without them)",
        x);
    expect_bad_region(
        x, "chr1:1-2,000",
        "region '000': %s has no sequence of this name with letters in it (commas "
        "separate regions: write numbers without them)",
        x);
    expect_bad_region(x, "chr1:1-2,00",
                      "region '00': %s has no sequence of this name with letters in it", x);
    expect_bad_region(x, "", "regions: there is an empty name in the list");
    expect_bad_region(x, "chr1,", "regions: there is an empty name in the list");
    expect_bad_region(x, "chr1:5-23", "region 'chr1:5-23': chr1 has only 22 bases in %s", x);
    expect_bad_region(x, "chr1:23-", "region 'chr1:23-': chr1 has only 22 bases in %s", x);
    expect_bad_region(x, "chr1:0-5", "region 'chr1:0-5': positions begin at 1");
    expect_bad_region(x, "chr1:9-8", "region 'chr1:9-8': ends before it begins");
    expect_bad_region(x, "chr1:a-b", "region 'chr1:a-b': %s", form);
    expect_bad_region(x, "chr1:", "region 'chr1:': %s", form);
    expect_bad_region(x, "chr1:-5", "region 'chr1:-5': %s", form);
    expect_bad_region(x, "chr1:5-6-7", "region 'chr1:5-6-7': %s", form);
    expect_bad_region(x, "chr1:99999999999999999999", "region 'chr1:99999999999999999999': %s",
                      form);
    expect_bad_region(x, "chr2,odd:1-3",
                      "region 'odd:1-3': a sequence of this name, or a part of another one: "
                      "write {NAME} or {NAME}:BEG-END");
    expect_bad_region(x, "{chr1", "region '{chr1': a closing brace is missing");
    expect_bad_region(x, "{chr1}5", "region '{chr1}5': %s", form);
    expect_bad_region("-", "chr1",
                      "regions need a file: they cannot be taken from standard input");
}
END_TEST

START_TEST(bed_lines_may_name_their_records)
{
    static const char bed[] = "chr1\t1\t5\tgene A\t0\t-\nchr1\t1\t5\tB\n";
    kmf_reader_options opts = {.bed_names = 1};
    kmf_record rec;
    kmf_err err = {0};
    const char *path = write_text("x.fa", ">chr1\nAACCGGTT\n");
    ck_assert_ptr_null(kmf_reader_open(path, &opts, NULL, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    opts.bed = write_text("x.bed", bed);
    kmf_reader *r = kmf_reader_open(path, &opts, NULL, NULL);
    ck_assert_int_eq(kmf_reader_next(r, &rec, NULL), 1);
    ck_assert_str_eq(rec.name, "gene A");
    ck_assert_str_eq(rec.seq, "CGGT");
    ck_assert_int_eq(kmf_reader_next(r, &rec, NULL), 1);
    ck_assert_str_eq(rec.name, "B");
    ck_assert_str_eq(rec.seq, "ACCG");
    ck_assert_int_eq(kmf_reader_next(r, &rec, NULL), 0);
    kmf_reader_close(r);
    opts.bed = write_text("y.bed", "chr1\t1\t5\tA\nchr1\t1\t5\n");
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_reader_open(path, &opts, NULL, &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "line 2: no name in its fourth column"));
    opts.bed = write_text("z.bed", "chr1\t1\t5\tA\rB\t0\t+\n");
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_reader_open(path, &opts, NULL, &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "line 1: a line end in a name"));
}
END_TEST

static void expect_bad_bed(const char *path, const char *lines, const char *what)
{
    kmf_err err = {0};
    char message[512];
    kmf_reader_options opts = reader_options();
    opts.bed = write_text("bad.bed", lines);
    ck_assert_ptr_null(kmf_reader_open(path, &opts, NULL, &err));
    ck_assert_int_eq(err.code, KMF_EFORMAT);
    snprintf(message, sizeof message, "%s: %s", opts.bed, what);
    ck_assert_str_eq(err.msg, message);
}

START_TEST(bytes_of_bed_lines_reach_no_message_raw)
{
    char message[256];
    const char *x = write_text("x.fa", regions_fasta);
    snprintf(message, sizeof message, "line 1: %s has no sequence 'chr?[2J'", x);
    expect_bad_bed(x, "chr\x1b[2J\t5\t23\n", message);
    expect_bad_bed(x, "chr1\t5\t8\tn\t0\t\x1b\n",
                   "line 1: a strand is '+', '-' or '.', got '?'");
}
END_TEST

START_TEST(lines_of_gff_are_told_from_bad_ones)
{
    const char *x = write_text("x.fa", regions_fasta);
    expect_bad_bed(x, "##gff-version 3\nchr1\tx\tCDS\t1\t5\t.\t-\t0\tID=a\n",
                   "line 2 is one of GFF, and BED has a name, begin, from 0, and end (the "
                   "manual shows how to make it)");
    expect_bad_bed(x, "chr1\tx\ty\t1\tz\t.\n", "line 1: a BED line is a name, begin and end");
}
END_TEST

START_TEST(bad_bed_lines_are_named)
{
    char message[256];
    const char *x = write_text("x.fa", regions_fasta);
    expect_bad_bed(x, "chr1\t0\t5\nchr1\t5\n", "line 2: a BED line is a name, begin and end");
    expect_bad_bed(x, "chr1\tx\t5\n", "line 1: a BED line is a name, begin and end");
    expect_bad_bed(x, "chr1\t1\t-5\n", "line 1: a BED line is a name, begin and end");
    expect_bad_bed(x, "#\nchr1\t5\t5\n", "line 2: begin 5 is not below end 5");
    expect_bad_bed(x, "chr1\t5\t8\tn\t0\tx\n", "line 1: a strand is '+', '-' or '.', got 'x'");
    snprintf(message, sizeof message, "line 1: end 23, but chr1 has only 22 bases in %s", x);
    expect_bad_bed(x, "chr1\t5\t23\n", message);
    snprintf(message, sizeof message, "line 1: %s has no sequence 'chr7'", x);
    expect_bad_bed(x, "chr7\t5\t23\n", message);
    kmf_err err = {0};
    kmf_reader_options opts = reader_options();
    opts.bed = "/nonexistent/x.bed";
    ck_assert_ptr_null(kmf_reader_open(x, &opts, NULL, &err));
    ck_assert_str_eq(err.msg, "/nonexistent/x.bed: No such file or directory");
}
END_TEST

START_TEST(regions_need_a_fasta_file_that_can_be_indexed)
{
    kmf_reader_options opts = reader_options();
    opts.regions = "chr1";
    text gz = gzipped(regions_fasta, sizeof regions_fasta - 1);
    expect_path_failure(write_bytes("x.fa.gz", gz.bytes, gz.len), &opts, 0,
                        "a gzip file cannot be indexed: compress with bgzip");
    free(gz.bytes);
    expect_path_failure(write_text("x.fq", "@a\nACGT\n+\nIIII\n"), &opts, 0,
                        "not FASTA, which alone can be indexed");
    const char *none =
        "has no .fai index and none can be made: it must begin with '>', no name come twice, "
        "lines of a sequence be of one length, none empty, and the last record have bases";
    expect_path_failure(write_text("x.fa", ">chr1\nACG\nACGT\nAC\n"), &opts, 0, none);
    /* only the last one: htslib takes its header for one that was cut off */
    expect_path_failure(write_text("e.fa", ">chr1\nACG\n>chr2\n"), &opts, 0, none);
    expect_regions(write_text("f.fa", ">chr2\n>chr1\nACG\n"), "chr1:1-1", NULL, "[chr1:1-1|A]");
    const char *stale = write_text("y.fa", regions_fasta);
    expect_regions(stale, "chr1:1-1", NULL, "[chr1:1-1|A]");
    write_text("y.fa", ">chr1\nACGT\n>chr2\nAC\n");
    const struct timespec now_and_before[][2] = {
        {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_NOW}}, {{.tv_sec = 1000}, {.tv_sec = 1000}}};
    char index[4096];
    snprintf(index, sizeof index, "%s.fai", stale);
    ck_assert_int_eq(utimensat(AT_FDCWD, index, now_and_before[1], 0), 0);
    expect_path_failure(
        stale, &opts, 0,
        "its .fai is older: remove that, and it is made anew, or touch it if it "
        "still fits");
    /* within a second of it */
    struct timespec of_fasta[2] = {{.tv_sec = 5000, .tv_nsec = 600},
                                   {.tv_sec = 5000, .tv_nsec = 600}};
    struct timespec of_index[2] = {{.tv_sec = 5000, .tv_nsec = 500},
                                   {.tv_sec = 5000, .tv_nsec = 500}};
    ck_assert_int_eq(utimensat(AT_FDCWD, stale, of_fasta, 0), 0);
    ck_assert_int_eq(utimensat(AT_FDCWD, index, of_index, 0), 0);
    expect_path_failure(
        stale, &opts, 0,
        "its .fai is older: remove that, and it is made anew, or touch it if it "
        "still fits");
    /* newer, but of another file: a shorter one, one with something else in the same place */
    ck_assert_int_eq(utimensat(AT_FDCWD, index, now_and_before[0], 0), 0);
    expect_path_failure(
        stale, &opts, 0,
        "ends before its .fai does: it was cut off, or that was made of another "
        "one");
    char other[sizeof regions_fasta];
    memcpy(other, regions_fasta, sizeof other);
    other[strlen(">chr1 first\n") + 3] = '>';
    write_text("y.fa", other);
    ck_assert_int_eq(utimensat(AT_FDCWD, index, now_and_before[0], 0), 0);
    expect_path_failure(
        stale, &opts, 0,
        "chr1:1-22 cannot be read: the file is damaged, or its .fai was made of "
        "another one");
}
END_TEST

/* What begins as a header does may be a contig. */
START_TEST(contigs_may_be_called_as_headers_are)
{
    const char *path = write_text("x.fa", ">track\nACGT\n>browser\nGGCC\n>track1\nTTAA\n");
    expect_regions(path, NULL,
                   write_text("x.bed", "track name=x 3\ntrack\t0\t2\nbrowser position a:1-2\n"
                                       "browser 1 3\ntrack1\t0\t2\nbrowser\ntrack \n"),
                   "[track:1-2|AC][browser:2-3|GC][track1:1-2|TT]");
}
END_TEST

/* bgzip's last block is an empty one: without it something may be missing. */
START_TEST(a_bed_file_that_was_cut_off_is_refused)
{
    kmf_reader_options opts = reader_options();
    const char *path = write_text("x.fa", regions_fasta);
    text packed = bgzipped("chr1\t0\t4\n", 9);
    opts.bed = write_bytes("x.bed.gz", packed.bytes, packed.len - 28);
    kmf_err err = {0};
    ck_assert_ptr_null(kmf_reader_open(path, &opts, NULL, &err));
    ck_assert_msg(
        err.code == KMF_EFORMAT &&
            strstr(err.msg, "x.bed.gz: truncated: the BGZF end-of-file marker is missing"),
        "%s", err.msg);
    expect_regions(path, NULL, write_bytes("x.bed.gz", packed.bytes, packed.len),
                   "[chr1:1-4|ACGT]");
    free(packed.bytes);
}
END_TEST

/* Whatever is wrong with an index, no base of another place comes out. */
START_TEST(an_index_that_is_not_whole_is_refused)
{
    static const char four_lines[] = ">c1\nAAAAAAAAAA\nCCCCCCCCCC\nGGGGGGGGGG\nTTTTTTTTTT\n";
    static const char *const broken[] = {
        "c1\t40\t4\t10\t1",    "c1\t40\t4\t10\t11",       "c1\t40\t4\t10\n",
        "c1\t40\t4\t10\t\n",   "c1\t40\t4\t10\t11\t12\n", "c1\t40\t4\t10\t10\n",
        "c1\t40\t4\t10\t9\n",  "c1\t40\t4\t0\t11\n",      "c1\t-40\t4\t10\t11\n",
        "c1\t40\tx\t10\t11\n", "c1 40 4 10 11\n",         "c1\t40\t4\t10\t11x\n"};
    kmf_reader_options opts = reader_options();
    opts.regions = "c1:11-24";
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        const char *path = write_text("x.fa", four_lines);
        write_text("x.fa.fai", broken[i]);
        kmf_err err = {0};
        ck_assert_ptr_null(kmf_reader_open(path, &opts, NULL, &err));
        ck_assert_msg(err.code == KMF_EFORMAT &&
                          strstr(err.msg, "x.fa.fai: line 1: not that of an index, or cut off"),
                      "%zu: %s", i, err.msg);
    }
    const char *path = write_text("x.fa", four_lines);
    write_text("x.fa.fai", "c1\t40\t4\t10\t11\n");
    expect_regions(path, opts.regions, NULL, "[c1:11-24|CCCCCCCCCCGGGG]");
    write_text("x.fa.fai", "c1\t10\t4\t10\t11\nc1\t30\t15\t10\t11\n");
    kmf_err err = {0};
    ck_assert_ptr_null(kmf_reader_open(path, &opts, NULL, &err));
    ck_assert_msg(strstr(err.msg, "x.fa.fai: a name is there twice"), "%s", err.msg);
    /* a line that has no end, since the file ends there; lines that end in two bytes */
    path = write_text("y.fa", ">c1\nACGT");
    expect_regions(path, "c1:2-3", NULL, "[c1:2-3|CG]");
    path = write_text("w.fa", ">c1\r\nACGT\r\nAC\r\n");
    expect_regions(path, "c1:4-6", NULL, "[c1:4-6|TAC]");
}
END_TEST

/* Whatever htslib makes an index of, plain and packed; twice, to find the index that was made. */
START_TEST(fasta_of_many_shapes_has_regions)
{
    static const struct {
        const char *fasta, *regions, *records;
    } shapes[] = {
        {">a\nACGT\n>b\nGGC", "b,a", "[b:1-3|GGC][a:1-4|ACGT]"},
        {">a\nA", "a", "[a:1-1|A]"},
        {">a\r\nACGT\r\nAC\r\n>b\r\nGG\r\n", "a:4-6,b", "[a:4-6|TAC][b:1-2|GG]"},
        {">a\r\nACGT\r\n>b\r\nGG", "b", "[b:1-2|GG]"},
        {">\nACGT\n>b\nGG\n", "b", "[b:1-2|GG]"},
        {">b\nGG\n>a\n\n>c\nAC\n", "b,c", "[b:1-2|GG][c:1-2|AC]"},
        {">b\r\nGG\r\n>a\r\n\r\n>c\r\nAC\r\n", "c", "[c:1-2|AC]"},
        {">a\n>b\nAC\n>c x y\nGT\n", "b,c", "[b:1-2|AC][c:1-2|GT]"},
        {">a\nACGTACGT\nACGTACGT\nAC\n\n\n", "a:15-18", "[a:15-18|GTAC]"},
        {">a lcl|x\tmore >b\nACGT\n>b\nCC\n", "b", "[b:1-2|CC]"},
        {">p\nMKVL*\n>c\nAC\n", "c", "[c:1-2|AC]"},
    };
    for (size_t i = 0; i < 2 * sizeof shapes / sizeof shapes[0]; i++) {
        const char *fasta = shapes[i / 2].fasta;
        text packed = bgzipped(fasta, strlen(fasta));
        char name[32];
        snprintf(name, sizeof name, "x%zu.fa%s", i, i % 2 ? ".gz" : "");
        const char *path =
            i % 2 ? write_bytes(name, packed.bytes, packed.len) : write_text(name, fasta);
        for (int time = 0; time < 2; time++)
            expect_regions(path, shapes[i / 2].regions, NULL, shapes[i / 2].records);
        free(packed.bytes);
    }
}
END_TEST

/* By the numbers of an index places would be others than what is read of the whole file. */
START_TEST(lines_with_blanks_between_bases_have_no_regions)
{
    static const struct {
        const char *fasta, *regions, *records; /* NULL: refused */
    } shapes[] = {
        {">c\nAAAAACCCCC GGGGG\nACGTACGTAC ACGTA\nACG\n", "c:13-16", NULL},
        {">d\n ACGT\n ACCC\n", "d:3-6", NULL},
        {">c\nAAAAACCCCC\nAC GT\n", "c:14-14", NULL},
        {">c\nAAAAACCCCC\nAC\tGT\n", "c:11-14", NULL},
        {">c\nAA\n>d\nA C\nA C\n", "c", NULL},
        {">c\r\nA CG\r\nA CG\r\n", "c:2-3", NULL},
        {">c\nACGT  \nGGCC  \nA \n", "c:4-9", "[c:4-9|TGGCCA]"},
        {">c d e\nACGT\t\r\nGGCC \r\n", "c:4-8", "[c:4-8|TGGCC]"},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        char name[32];
        kmf_err err = {0};
        kmf_reader_options opts = reader_options();
        opts.regions = shapes[i].regions;
        snprintf(name, sizeof name, "x%zu.fa", i);
        const char *path = write_text(name, shapes[i].fasta);
        if (shapes[i].records) {
            expect_regions(path, opts.regions, NULL, shapes[i].records);
            continue;
        }
        ck_assert_ptr_null(kmf_reader_open(path, &opts, NULL, &err));
        ck_assert_msg(strstr(err.msg, "blanks between bases: an index cannot tell"), "%zu: %s",
                      i, err.msg);
    }
}
END_TEST

/* Such lines, and indexes as samtools makes of them, which counts bases and bytes of a line. */
START_TEST(an_index_of_lines_with_blanks_gives_no_other_bases)
{
    static const struct {
        const char *fasta, *fai, *regions, *records; /* NULL: refused */
    } shapes[] = {
        {">c\nAAAAACCCCC GGGGG\nACGTACGTAC ACGTA\nACG\n", "c\t33\t3\t15\t17\n", "c:13-16",
         NULL},
        {">c\nACGT\n>d\nAACC GGTT\nAACC GGTT\n", "c\t4\t3\t4\t5\nd\t16\t11\t8\t10\n", "d:7-7",
         NULL},
        {">c\nACGT\n>d\nAACC GGTT\nAACC GGTT\n", "c\t4\t3\t4\t5\nd\t16\t11\t8\t10\n", "c:2-4",
         "[c:2-4|CGT]"},
        {">c\nAACC GGTT", "c\t8\t3\t8\t10\n", "c:7-7", NULL},
        {">c\nAACCGGTT", "c\t8\t3\t8\t9\n", "c:7-8", "[c:7-8|TT]"},
        {">c\nAACC \nGGTT \nA CGT\n", "c\t12\t3\t4\t6\n", "c:2-3", NULL},
        /* the second line alone */
        {">c\nAACC \nGG TT\nAACC \nAC\n", "c\t14\t3\t4\t6\n", "c:3-5", NULL},
        {">c\nAACC \nGG TT\nAACC \nAC\n", "c\t14\t3\t4\t6\n", "c:9-14", "[c:9-14|AACCAC]"},
        {">c\r\nAACC\r\nGGTT\r\nA\r\n", "c\t9\t4\t4\t6\n", "c:4-9", "[c:4-9|CGGTTA]"},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const char *path = write_text("y.fa", shapes[i].fasta);
        write_text("y.fa.fai", shapes[i].fai);
        if (shapes[i].records)
            expect_regions(path, shapes[i].regions, NULL, shapes[i].records);
        else
            expect_path_failure(path, &(kmf_reader_options){.regions = shapes[i].regions}, 0,
                                "by its .fai lines have blanks between bases, or that was made "
                                "of another one");
    }
}
END_TEST

/* A name with a NUL in it is none of an index, whatever stands there behind one that ends so. */
START_TEST(a_name_with_a_nul_is_none_of_an_index)
{
    static const char fasta[] = ">abc\nACGT\n>abc\0nnnnnnn\nGG\n";
    const char *path = write_bytes("y.fa", fasta, sizeof fasta - 1);
    write_text("y.fa.fai", "abc\t4\t5\t4\t5\n");
    expect_path_failure(path, &(kmf_reader_options){.regions = "abc"}, 0,
                        "its .fai ends before it does: remove that, and it is made anew");
}
END_TEST

/* Behind the last base of an index may stand a record whose name it has already, of any length. */
START_TEST(a_long_name_that_comes_twice_is_that_of_the_first)
{
    enum { LETTERS = 1100 };
    char name[LETTERS + 1];
    char buf[3 * LETTERS];
    memset(name, 'n', LETTERS);
    name[LETTERS] = '\0';
    snprintf(buf, sizeof buf, ">%s\nACGT\n>%s\nGGCC\n", name, name);
    const char *path = write_text("y.fa", buf);
    snprintf(buf, sizeof buf, "%s\t4\t%d\t4\t5\n", name, LETTERS + 2);
    write_text("y.fa.fai", buf);
    snprintf(buf, sizeof buf, "[%s:1-2|AC]", name);
    char region[LETTERS + 8];
    snprintf(region, sizeof region, "%s:1-2", name);
    expect_regions(path, region, NULL, buf);
    /* one that differs in its last letter is none that the index has */
    name[LETTERS - 1] = 'x';
    snprintf(buf, sizeof buf, ">%.*sn\nACGT\n>%s\nGGCC\n", LETTERS - 1, name, name);
    write_text("y.fa", buf);
    snprintf(buf, sizeof buf, "%.*sn\t4\t%d\t4\t5\n", LETTERS - 1, name, LETTERS + 2);
    write_text("y.fa.fai", buf);
    expect_path_failure(path, &(kmf_reader_options){.regions = region}, 0,
                        "its .fai ends before it does: remove that, and it is made anew");
}
END_TEST

/* htslib takes what a .gzi says for the truth, and ends the process where it is not. */
START_TEST(a_gzi_is_that_of_its_file)
{
    enum { BASES = 3000, MOST = 400 };
    static char fasta[BASES + 64];
    kmf_reader_options opts = reader_options();
    opts.regions = "a:2995-3000";
    size_t n = (size_t)snprintf(fasta, sizeof fasta, ">a\n");
    for (int i = 0; i < BASES; i++)
        fasta[n++] = "ACGT"[i * i % 7 % 4];
    fasta[n++] = '\n';
    text packed = bgzipped_by(fasta, n, MOST);
    char path[512];
    snprintf(path, sizeof path, "%s", write_bytes("x.fa.gz", packed.bytes, packed.len));
    char records[64];
    snprintf(records, sizeof records, "[a:2995-3000|%.6s]", fasta + 3 + 2994);
    expect_regions(path, opts.regions, NULL, records);
    text index = read_file(in_dir("x.fa.gz.gzi"));
    ck_assert_uint_ge(index.len, 8 + 7 * 16);
    for (int i = 0; i < 8; i++) {
        text other = {0};
        kmf_err err = {0};
        add_bytes(&other, index.bytes, index.len);
        unsigned char *p = (unsigned char *)other.bytes;
        if (i == 0) { /* without the last */
            other.len -= 16;
            p[0]--;
        } else if (i == 1) {
            p[0] = 0;
        } else if (i == 2) {
            p[7] = 0x10;
        } else if (i == 3) {
            p[8 + 8] += 5; /* of the text */
        } else if (i == 4) {
            p[8] ^= 1; /* of the file */
        } else if (i == 5) {
            other.len = 0;
        } else if (i == 6) {
            memmove(p + 8, p + 24, other.len - 24); /* without the first */
            other.len -= 16;
            p[0]--;
        } else {
            other.len--;
        }
        write_bytes("x.fa.gz.gzi", other.bytes, other.len);
        ck_assert_ptr_null(kmf_reader_open(path, &opts, NULL, &err));
        ck_assert_msg(strstr(err.msg, "x.fa.gz as it is: remove it, and it is made anew"),
                      "%d: %s", i, err.msg);
        free(other.bytes);
    }
    /* a pair for the end, as older releases of htslib write it */
    const uint64_t end[] = {packed.len, n};
    add_bytes(&index, (const char *)end, sizeof end);
    index.bytes[0]++;
    write_bytes("x.fa.gz.gzi", index.bytes, index.len);
    expect_regions(path, opts.regions, NULL, records);
    free(index.bytes);
    free(packed.bytes);
}
END_TEST

/* Other programs count no end to a line that has none, the last of the file. */
START_TEST(an_index_may_count_no_end_to_the_last_line)
{
    static const char *const endings[] = {"6", "7"};
    const char *path = write_text("x.fa", ">a\nACGTACGT\nAC\n>b\nGGCCTA");
    for (size_t i = 0; i < 2; i++) {
        char index[64];
        snprintf(index, sizeof index, "a\t10\t3\t8\t9\nb\t6\t18\t6\t%s\n", endings[i]);
        write_text("x.fa.fai", index);
        expect_regions(path, "b:2-6,a:7-10,b", NULL,
                       "[b:2-6|GCCTA][a:7-10|GTAC][b:1-6|GGCCTA]");
    }
}
END_TEST

/* A file of one block has a .gzi that fits any such file, and htslib goes where a .fai sends it. */
START_TEST(a_fai_beyond_the_only_block_is_refused)
{
    static const char short_one[] = ">a\nACGTACGT\n";
    kmf_err err = {0};
    kmf_reader_options opts = reader_options();
    opts.regions = "a:2-3";
    text packed = bgzipped(short_one, sizeof short_one - 1);
    const char *path = write_bytes("x.fa.gz", packed.bytes, packed.len);
    expect_regions(path, opts.regions, NULL, "[a:2-3|CG]");
    for (int i = 0; i < 2; i++) {
        write_text("x.fa.gz.fai", i ? "a\t8\t3\t8\t9\n" : "a\t6161\t3\t6161\t6162\n");
        kmf_reader *reader = kmf_reader_open(path, &opts, NULL, &err);
        ck_assert_int_eq(reader != NULL, i);
        kmf_reader_close(reader);
    }
    ck_assert_int_eq(err.code, KMF_EFORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "x.fa.gz: ends before its .fai does"));
    free(packed.bytes);
}
END_TEST

/* bgzip's end-of-file block is missing, or more. */
START_TEST(packed_fasta_that_was_cut_off_has_no_regions)
{
    kmf_reader_options opts = reader_options();
    opts.regions = "chr1:1-2";
    text packed = bgzipped(regions_fasta, strlen(regions_fasta));
    const char *path = write_bytes("x.fa.gz", packed.bytes, packed.len);
    expect_regions(path, opts.regions, NULL, "[chr1:1-2|AC]");
    path = write_bytes("y.fa.gz", packed.bytes, packed.len - 28);
    expect_path_failure(path, &opts, 0, "truncated: the BGZF end-of-file marker is missing");
    free(packed.bytes);
}
END_TEST

/* A part of the two files of a packed one's index; a file that is shorter than its index says. */
START_TEST(an_index_and_its_file_fit)
{
    static const char fasta[] = ">a\nACGT\n>b\nGGC\n";
    kmf_reader_options opts = reader_options();
    opts.regions = "a";
    text packed = bgzipped(fasta, sizeof fasta - 1);
    const char *path = write_bytes("x.fa.gz", packed.bytes, packed.len);
    char index[4096];
    expect_regions(path, "b", NULL, "[b:1-3|GGC]");
    snprintf(index, sizeof index, "%s.gzi", path);
    ck_assert_int_eq(unlink(index), 0);
    expect_regions(path, "b", NULL, "[b:1-3|GGC]");
    write_text("x.fa.gz.gzi", "x");
    kmf_err err = {0};
    ck_assert_ptr_null(kmf_reader_open(path, &opts, NULL, &err));
    ck_assert_msg(strstr(err.msg, "x.fa.gz as it is: remove it, and it is made anew"), "%s",
                  err.msg);
    free(packed.bytes);
    path = write_text("y.fa", fasta);
    expect_regions(path, "b", NULL, "[b:1-3|GGC]");
    write_text("y.fa", ">a\nACGT\n>b\nG");
    snprintf(index, sizeof index, "%s.fai", path);
    ck_assert_int_eq(utimensat(AT_FDCWD, index, NULL, 0), 0);
    expect_path_failure(
        path, &opts, 0,
        "ends before its .fai does: it was cut off, or that was made of another "
        "one");
    path = write_text("w.fa", ">a\nACGT\n>b\nGGCC\n");
    write_text("w.fa.fai", "a\t4\t3\t4\t5\nb\t4\t3\t4\t5\n");
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_reader_open(path, &opts, NULL, &err));
    ck_assert_msg(strstr(err.msg, "w.fa.fai: two contigs are in one place"), "%s", err.msg);
    write_text("w.fa.fai", "b\t4\t11\t4\t5\na\t4\t3\t4\t5\n"); /* any order will do */
    expect_regions(path, "a,b", NULL, "[a:1-4|ACGT][b:1-4|GGCC]");
    write_text("w.fa.fai", "a\t900000000000000000\t3\t1\t900000000000000000\n");
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_reader_open(path, &opts, NULL, &err));
    ck_assert_msg(strstr(err.msg, "line 1: not that of an index"), "%s", err.msg);
    /* of two records of a name, an index that is there knows the first */
    path = write_text("z.fa", ">a\nAC\n>b\nGG\n>a\nTT\n");
    write_text("z.fa.fai", "a\t2\t3\t2\t3\nb\t2\t9\t2\t3\n");
    expect_regions(path, "a,b", NULL, "[a:1-2|AC][b:1-2|GG]");
}
END_TEST

START_TEST(an_index_ends_where_the_file_does)
{
    static const char fasta[] = ">a\nACGT\nAC\n>b x\nGGG\n>none\n>c\nTT\n";
    kmf_reader_options opts = reader_options();
    opts.regions = "a";
    text packed = bgzipped(fasta, sizeof fasta - 1);
    for (int i = 0; i < 2; i++) {
        const char *path =
            i ? write_bytes("x.fa.gz", packed.bytes, packed.len) : write_text("x.fa", fasta);
        const char *index = i ? "x.fa.gz.fai" : "x.fa.fai";
        expect_regions(path, "c,a:4-5", NULL, "[c:1-2|TT][a:4-5|TA]");
        write_text(index, "a\t6\t3\t4\t5\nb\t3\t16\t3\t4\n");
        expect_path_failure(path, &opts, 0,
                            "its .fai ends before it does: remove that, and it is made anew");
        write_text(index, "");
        expect_path_failure(path, &opts, 0,
                            "its .fai ends before it does: remove that, and it is made anew");
        write_text(index, "a\t6\t3\t4\t5\nb\t3\t16\t3\t4\nc\t2\t29\t2\t3\n");
        expect_regions(path, "c,a:4-5", NULL, "[c:1-2|TT][a:4-5|TA]");
    }
    free(packed.bytes);
}
END_TEST

START_TEST(a_name_that_is_there_twice_has_no_regions)
{
    static const char fasta[] = ">chr1 one\nAAAA\n>chr2\nAC\n>chr1 other\nCCCC\n";
    kmf_reader_options opts = reader_options();
    opts.regions = "chr1";
    text packed = bgzipped(fasta, sizeof fasta - 1);
    for (int i = 0; i < 2; i++) {
        const char *path =
            i ? write_bytes("x.fa.gz", packed.bytes, packed.len) : write_text("x.fa", fasta);
        struct stat s;
        char index[4096];
        expect_path_failure(path, &opts, 0,
                            "3 records of 2 different names: regions could not be told apart");
        snprintf(index, sizeof index, "%s.fai", path);
        ck_assert(stat(index, &s) != 0);
        snprintf(index, sizeof index, "%s.gzi", path);
        ck_assert(stat(index, &s) != 0);
    }
    free(packed.bytes);
    /* one of the two has no base */
    expect_regions(write_text("y.fa", ">a\n>b\nAC\n>a\nGG\n"), "a", NULL, "[a:1-2|GG]");
}
END_TEST

START_TEST(a_failing_allocation_among_regions_is_reported_and_nothing_leaks)
{
    kmf_reader_options opts = reader_options();
    opts.regions = "chr1,chr2:1-2";
    opts.bed = write_text("x.bed", "chr1\t0\t5\n");
    fail_everywhere(write_text("x.fa", regions_fasta), &opts, 0);
}
END_TEST

int main(void)
{
    TCase *tc = untimed_case();
    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_add_test(tc, regions_are_1_based_and_closed_and_keep_their_order);
    tcase_add_test(tc, bed_lines_are_0_based_and_half_open_and_honour_the_strand);
    tcase_add_test(tc, bed_lines_may_name_their_records);
    tcase_add_test(tc, bad_regions_are_named);
    tcase_add_test(tc, bad_bed_lines_are_named);
    tcase_add_test(tc, lines_of_gff_are_told_from_bad_ones);
    tcase_add_test(tc, bytes_of_bed_lines_reach_no_message_raw);
    tcase_add_test(tc, regions_need_a_fasta_file_that_can_be_indexed);
    tcase_add_test(tc, contigs_may_be_called_as_headers_are);
    tcase_add_test(tc, a_bed_file_that_was_cut_off_is_refused);
    tcase_add_test(tc, an_index_that_is_not_whole_is_refused);
    tcase_add_test(tc, fasta_of_many_shapes_has_regions);
    tcase_add_test(tc, lines_with_blanks_between_bases_have_no_regions);
    tcase_add_test(tc, an_index_of_lines_with_blanks_gives_no_other_bases);
    tcase_add_test(tc, a_name_with_a_nul_is_none_of_an_index);
    tcase_add_test(tc, a_long_name_that_comes_twice_is_that_of_the_first);
    tcase_add_test(tc, packed_fasta_that_was_cut_off_has_no_regions);
    tcase_add_test(tc, a_gzi_is_that_of_its_file);
    tcase_add_test(tc, an_index_may_count_no_end_to_the_last_line);
    tcase_add_test(tc, a_fai_beyond_the_only_block_is_refused);
    tcase_add_test(tc, an_index_and_its_file_fit);
    tcase_add_test(tc, an_index_ends_where_the_file_does);
    tcase_add_test(tc, a_name_that_is_there_twice_has_no_regions);
    tcase_add_test(tc, a_failing_allocation_among_regions_is_reported_and_nothing_leaks);
    return run_case("regions", tc);
}
