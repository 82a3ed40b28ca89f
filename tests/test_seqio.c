/* SPDX-License-Identifier: MIT */
/*
 * Second sources: small inputs with their records written out; random FASTA and FASTQ whose
 * records the generator knows, laid out in every way the formats allow; the same records packed
 * by zlib and htslib in every container; sums from the README of the data; every message.
 */
#include "base/mem.h"
#include "seq/seqio.h"

#include <check.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <htslib/bgzf.h>
#include <htslib/hts.h>
#include <htslib/sam.h>
#include <zlib.h>

/* ---------------------------------------------------------------- texts ------------------- */

typedef struct text {
    char *bytes; /* owned */
    size_t len;
    size_t cap;
} text;

static void add_bytes(text *t, const void *bytes, size_t n)
{
    ck_assert_uint_lt(n, SIZE_MAX / 4);
    if (t->len + n + 1 > t->cap) {
        t->cap = (t->len + n + 1) * 2;
        t->bytes = realloc(t->bytes, t->cap);
        ck_assert_ptr_nonnull(t->bytes);
    }
    if (n > 0)
        memcpy(t->bytes + t->len, bytes, n);
    t->len += n;
    t->bytes[t->len] = '\0';
}

static void add(text *t, const char *string)
{
    add_bytes(t, string, strlen(string));
}

/* A record as one line of text: that is how records are compared. */
static void add_record(text *t, const char *name, const char *seq)
{
    add(t, "[");
    add(t, name);
    add(t, "|");
    add(t, seq);
    add(t, "]");
}

/* ---------------------------------------------------------------- files ------------------- */

static char dir[] = "/tmp/kmf_seqio_XXXXXX";
static char paths[8][64];

static void make_dir(void)
{
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
    memcpy(dir + strlen(dir) - 6, "XXXXXX", 6);
}

/* The path of a file in the directory of this test; eight are remembered. */
static const char *in_dir(const char *name)
{
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static const char *write_bytes(const char *name, const void *bytes, size_t n)
{
    const char *path = in_dir(name);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, n, file), n);
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

static const char *write_text(const char *name, const char *string)
{
    return write_bytes(name, string, strlen(string));
}

static text read_file(const char *path)
{
    static char block[65536];
    text t = {0};
    size_t got;
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    while ((got = fread(block, 1, sizeof block, file)) > 0)
        add_bytes(&t, block, got);
    fclose(file);
    return t;
}

static text gzipped(const char *bytes, size_t n)
{
    z_stream z = {0};
    text t = {0};
    ck_assert_int_eq(deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    t.cap = deflateBound(&z, n) + 1;
    t.bytes = malloc(t.cap);
    ck_assert_ptr_nonnull(t.bytes);
    z.next_in = (Bytef *)(uintptr_t)bytes;
    z.avail_in = (uInt)n;
    z.next_out = (Bytef *)t.bytes;
    z.avail_out = (uInt)t.cap;
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    t.len = z.total_out;
    deflateEnd(&z);
    return t;
}

static text bgzipped(const char *bytes, size_t n)
{
    const char *path = in_dir("bgzipped");
    BGZF *file = bgzf_open(path, "w1");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(bgzf_write(file, bytes, n), (ssize_t)n);
    ck_assert_int_eq(bgzf_close(file), 0);
    return read_file(path);
}

#define BGZF_MARKER 28 /* bytes of the empty block that ends a BGZF file */

/* ---------------------------------------------------------------- reading ----------------- */

/* All records as text, up to the end or a failure. */
static int drain(kmf_reader *reader, text *out, kmf_err *err)
{
    kmf_record rec;
    uint64_t index = 0;
    uint64_t bases = 0;
    int status;
    while ((status = kmf_reader_next(reader, &rec, err)) == 1) {
        ck_assert_uint_eq(rec.index, index++);
        ck_assert_uint_eq(strlen(rec.seq), rec.len);
        bases += rec.len;
        add_record(out, rec.name, rec.seq);
    }
    kmf_err again = {0};
    ck_assert_int_eq(kmf_reader_next(reader, &rec, &again), status);
    ck_assert_str_eq(again.msg, err->msg);
    ck_assert_int_eq(status < 0, err->code != KMF_OK);
    ck_assert_ptr_null(strchr(err->msg, '\n'));
    kmf_reader_stats stats;
    kmf_reader_statistics(reader, &stats);
    ck_assert_uint_eq(stats.records, index);
    ck_assert_uint_eq(stats.bases, bases);
    return status;
}

static int read_with(kmf_reader *reader, text *out, kmf_err *err)
{
    int status = reader ? drain(reader, out, err) : err->code;
    kmf_reader_close(reader);
    return status;
}

static int read_path(const char *path, const kmf_reader_options *opts, int threads, text *out,
                     kmf_err *err)
{
    kmf_pool *pool = threads > 0 ? kmf_pool_new(threads, err) : NULL;
    int status = read_with(kmf_reader_open(path, opts, pool, err), out, err);
    kmf_pool_free(pool);
    return status;
}

static int read_memory(const void *bytes, size_t n, int threads, text *out, kmf_err *err)
{
    kmf_pool *pool = threads > 0 ? kmf_pool_new(threads, err) : NULL;
    int status = read_with(kmf_reader_open_memory(bytes, n, pool, err), out, err);
    kmf_pool_free(pool);
    return status;
}

static void expect(const char *input, size_t n, const char *records)
{
    text out = {0};
    kmf_err err = {0};
    add(&out, "");
    int status = read_memory(input, n, 0, &out, &err);
    ck_assert_msg(status == 0, "%s: %s", input, err.msg);
    ck_assert_str_eq(out.bytes, records);
    free(out.bytes);
}

static void expect_failure(const char *input, size_t n, const char *records,
                           const char *message)
{
    text out = {0};
    kmf_err err = {0};
    add(&out, "");
    ck_assert_int_eq(read_memory(input, n, 0, &out, &err), KMF_EFORMAT);
    ck_assert_str_eq(err.msg, message);
    ck_assert_str_eq(out.bytes, records);
    free(out.bytes);
}

/* For literals, which may hold NUL bytes. */
#define READS(input, records) expect(input, sizeof(input) - 1, records)
#define FAILS(input, records, message) \
    expect_failure(input, sizeof(input) - 1, records, message)

/* ---------------------------------------------------------------- FASTA ------------------- */

START_TEST(fasta_is_read_in_every_layout)
{
    READS(">a\nACGT\n", "[a|ACGT]");
    READS(">a\nACGT", "[a|ACGT]");
    READS(">a some words\nACGT\n>b\tmore\nGG\nCC\n", "[a|ACGT][b|GGCC]");
    READS(">a\r\nAC\r\nGT\r\n", "[a|ACGT]");
    READS(">a\nAC\r\nGT\n", "[a|ACGT]");
    READS(">a\nACGT\r", "[a|ACGT]");
    READS("\n \t\r\n\n>a\nACGT\n\n\n>b\n\nGG\n\nCC\n\n", "[a|ACGT][b|GGCC]");
    READS(">a\nACGT  \n\tGG TT\t\n", "[a|ACGTGGTT]");
    READS(">a\n>b\n", "[a|][b|]");
    READS(">a", "[a|]");
    READS(">\nACGT\n", "[|ACGT]");
    READS("> a\nACGT\n", "[|ACGT]");
    READS(">a\nAC\n>a\nGT\n", "[a|AC][a|GT]");
    READS(">a>b@c\nacgtUuNnRYKMSWBDHVX*-.\n", "[a>b@c|acgtUuNnRYKMSWBDHVX*-.]");
    READS("\xef\xbb\xbf>a\nACGT\n", "[a|ACGT]");
}
END_TEST

START_TEST(input_without_records_is_no_error)
{
    READS("", "");
    READS("\n", "");
    READS(" \r\n\t\n", "");
    text gz = gzipped("", 0);
    expect(gz.bytes, gz.len, "");
    free(gz.bytes);
    make_dir();
    gz = bgzipped("", 0);
    expect(gz.bytes, gz.len, "");
    free(gz.bytes);
    remove_dir();
}
END_TEST

START_TEST(fasta_faults_are_reported_with_record_and_line)
{
    FAILS(">x\nA\n>y\n>name z\nACGT\nAC\aGT\n", "[x|A][y|]",
          "memory: record 3 'name' (line 6): unexpected byte 0x07 in the sequence");
    FAILS(">a\nAC\0GT\n", "",
          "memory: record 1 'a' (line 2): unexpected byte 0x00 in the sequence");
    FAILS(">a\nACGT1\n", "",
          "memory: record 1 'a' (line 2): unexpected byte 0x31 in the sequence");
    FAILS(">a\nAC>GT\n", "",
          "memory: record 1 'a' (line 2): unexpected byte 0x3e in the sequence");
    FAILS(">a\n;comment\n", "",
          "memory: record 1 'a' (line 2): unexpected byte 0x3b in the sequence");
    FAILS(">a\nACG\xc3\xa9\n", "",
          "memory: record 1 'a' (line 2): unexpected byte 0xc3 in the sequence");
    FAILS(">a\nACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACG!\n", "",
          "memory: record 1 'a' (line 2): unexpected byte 0x21 in the sequence");
    FAILS(">a\0b\nACGT\n", "",
          "memory: record 1 '' (line 1): unexpected byte 0x00 in the header");
    FAILS(">e\x1b[1m\n1\n", "",
          "memory: record 1 'e?[1m' (line 2): unexpected byte 0x31 in the sequence");
    FAILS(">a\nACGT\n@b\nACGT\n+\nIIII\n", "",
          "memory: record 2 (line 3): a FASTQ record ('@') in a FASTA file");
}
END_TEST

START_TEST(lines_that_end_with_cr_alone_are_refused)
{
    FAILS(
        ">a\rACGT\r>b\rGG\r", "",
        "memory: record 1 (line 1): a carriage return inside the line: lines that end with CR "
        "alone must be converted (tr '\\r' '\\n')");
    FAILS(
        ">a\nACGT\rACGT\n", "",
        "memory: record 1 (line 2): a carriage return inside the line: lines that end with CR "
        "alone must be converted (tr '\\r' '\\n')");
    FAILS(
        "@a\rACGT\r+\rIIII\r", "",
        "memory: record 1 (line 1): a carriage return inside the line: lines that end with CR "
        "alone must be converted (tr '\\r' '\\n')");
}
END_TEST

START_TEST(names_and_lines_may_be_of_any_length)
{
    const size_t n = 3000001;
    text in = {0};
    text expected = {0};
    char *name = malloc(n + 1);
    char *seq = malloc(n + 1);
    for (size_t i = 0; i < n; i++) {
        name[i] = (char)('!' + i % 90);
        seq[i] = "ACGTN"[i % 5];
    }
    name[n] = seq[n] = '\0';
    add(&in, ">");
    add(&in, name);
    add(&in, " x\r\n");
    add(&in, seq);
    add(&in, "\r\n>b\r\n");
    add(&in, seq);
    add_record(&expected, name, seq);
    add_record(&expected, "b", seq);
    expect(in.bytes, in.len, expected.bytes);
    free(in.bytes);
    free(expected.bytes);
    free(name);
    free(seq);
}
END_TEST

/* ---------------------------------------------------------------- FASTQ ------------------- */

START_TEST(fastq_is_read_in_every_layout)
{
    READS("@a\nACGT\n+\nIIII\n", "[a|ACGT]");
    READS("@a\nACGT\n+\nIIII", "[a|ACGT]");
    READS("@a b\r\nACGT\r\n+a b\r\nIIII\r\n@c\r\nG\r\n+\r\n!\r\n", "[a|ACGT][c|G]");
    READS("@a\nACGT\n+something else\n@@@@\n@b\nAC\n+\n++\n", "[a|ACGT][b|AC]");
    READS("@a\nAC\nGT\nA\n+\n@I\n+I\n>\n@b\nA\n+\nI\n", "[a|ACGTA][b|A]");
    READS("@a\nAC\nGT\n+\nIIII\n", "[a|ACGT]");
    READS("@a\nAC\nGT\n+\nI\nI\n\nI\nI\n", "[a|ACGT]");
    READS("@a\n\n+\n\n@b\nA\n+\nI\n", "[a|][b|A]");
    READS("@a\n+\n@b\n\n+\n", "[a|][b|]");
    READS("\n\n@a\nA\n+\nI\n\n \n@b\nA\n+\n~\n\n", "[a|A][b|A]");
    READS("@\nA\n+\nI\n", "[|A]");
}
END_TEST

START_TEST(fastq_faults_are_reported_with_record_and_line)
{
    FAILS("@a\nA\n+\nI\n@b\nACGT\n+\nIII\n@c\nA\n+\nI\n", "[a|A]",
          "memory: record 2 (line 5): 3 quality values for 4 bases");
    FAILS("@a\nA\n+\nI\n@b\nACGT\n+\nIIIII\n@c\nA\n+\nI\n", "[a|A]",
          "memory: record 2 (line 5): 5 quality values for 4 bases");
    FAILS("@a\nAC\nGT\n+\nIII\nII\n", "",
          "memory: record 1 (line 1): 5 quality values for 4 bases");
    FAILS("@a\nACGT\n+\n\n@b\n", "", "memory: record 1 (line 1): 0 quality values for 4 bases");
    FAILS("@a\n\n+\nIII\n", "", "memory: record 1 (line 1): 3 quality values for 0 bases");
    FAILS("@a\nACGT\n+\nII I\n", "",
          "memory: record 1 'a' (line 4): unexpected byte 0x20 in the quality");
    FAILS("@a\nACGT\n+\nII\x7fI\n", "",
          "memory: record 1 'a' (line 4): unexpected byte 0x7f in the quality");
    FAILS("@a\nAC1T\n+\nIIII\n", "",
          "memory: record 1 'a' (line 2): unexpected byte 0x31 in the sequence");
    FAILS("@a\nA\n+\nI\n>b\nA\n", "[a|A]",
          "memory: record 2 (line 5): a FASTA record ('>') in a FASTQ file");
    FAILS("@a\nA\n>b\nA\n", "",
          "memory: record 1 (line 1): a FASTA record ('>') begins inside it, on line 3");
    FAILS("@a\nA\n+\nI\nA\n", "[a|A]",
          "memory: record 2 (line 5): a record must begin with '@', got byte 0x41");
    FAILS("@a\nA\n+\nI\n\n @b\n", "[a|A]",
          "memory: record 2 (line 6): a record must begin with '@', got byte 0x20");
}
END_TEST

START_TEST(fastq_that_ends_inside_a_record_is_refused)
{
    static const char whole[] = "@a\nA\n+\nI\n@b\nACGT\n+\nIIII\n";
    /* Every cut after the first byte of record 2 but before its last quality value. */
    for (size_t n = 10; n < sizeof whole - 2; n++)
        expect_failure(whole, n, "[a|A]", "memory: ends inside record 2 (line 5)");
    expect(whole, sizeof whole - 2, "[a|A][b|ACGT]");
    FAILS("@a\nAC\nGT\n+\nII\n", "", "memory: ends inside record 1 (line 1)");
}
END_TEST

START_TEST(what_is_no_sequence_file_is_refused_by_content)
{
    static const char message[] = "memory: not FASTA, FASTQ, SAM, BAM or CRAM";
    FAILS("hello\n", "", message);
    FAILS("ACGT\n", "", message);
    FAILS(" >a\nACGT\n", "", message);
    FAILS("\x7f"
          "ELF\2\1\1\0",
          "", message);
    FAILS("##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n", "", message);
    text gz = gzipped("hello\n", 6);
    expect_failure(gz.bytes, gz.len, "", message);
    free(gz.bytes);
    FAILS("BZh91AY&SY\x12\x34", "",
          "memory: compressed with bzip2, which cannot be read: use bgzip or gzip");
}
END_TEST

/* ---------------------------------------------------------------- random layouts ---------- */

static uint64_t state;

static unsigned below(unsigned n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)((state >> 20) % n);
}

static const char *line_end(void)
{
    return below(4) == 0 ? "\r\n" : "\n";
}

/* n bytes in lines of random lengths, or on one line. Returns the number of lines. */
static unsigned add_wrapped(text *t, const char *bytes, size_t n, bool one_line)
{
    size_t width = 1 + below(200);
    unsigned n_lines = 0;
    for (size_t i = 0; i < n; n_lines++) {
        size_t left = n - i;
        size_t take = one_line || left < width ? left : width;
        add_bytes(t, bytes + i, take);
        add(t, line_end());
        i += take;
        if (below(8) == 0)
            width = 1 + below(200);
    }
    return n_lines;
}

static size_t random_length(void)
{
    switch (below(8)) {
    case 0:
        return below(3);
    case 1:
        return 20000 + below(20000);
    default:
        return below(400);
    }
}

static void random_fasta(text *in, text *expected, unsigned n_records)
{
    static char seq[40001];
    char name[32];
    for (unsigned i = 0; i < n_records; i++) {
        size_t n = random_length();
        for (size_t k = 0; k < n; k++)
            seq[k] = "ACGTNacgtnUuRYKMSWBDHV*-."[below(25)];
        seq[n] = '\0';
        snprintf(name, sizeof name, "%.*s%u", (int)below(4), "@>+", below(1000));
        add(in, ">");
        add(in, name);
        add(in, below(2) ? " a description > with @ signs" : "");
        add(in, line_end());
        add_wrapped(in, seq, n, below(3) == 0);
        for (unsigned blank = below(4); blank > 2; blank--)
            add(in, line_end());
        add_record(expected, name, seq);
    }
}

static void random_fastq(text *in, text *expected, unsigned n_records)
{
    static char seq[40001];
    static char quality[40001];
    char name[32];
    for (unsigned i = 0; i < n_records; i++) {
        size_t n = random_length();
        for (size_t k = 0; k < n; k++) {
            seq[k] = "ACGTN"[below(5)];
            quality[k] = (char)(33 + below(94));
        }
        seq[n] = '\0';
        snprintf(name, sizeof name, "r%u", below(1000));
        add(in, "@");
        add(in, name);
        add(in, below(2) ? "\tlength=7" : "");
        add(in, line_end());
        unsigned n_lines = add_wrapped(in, seq, n, below(2));
        add(in, below(2) ? "+" : "+again @ + >");
        add(in, line_end());
        add_wrapped(in, quality, n, n_lines <= 1 || below(2));
        if (n == 0 && below(2))
            add(in, line_end());
        add_record(expected, name, seq);
    }
}

/* The same text plain, as gzip in one and in three members, and as BGZF. */
static void expect_in_every_container(const text *in, const text *expected)
{
    text packed[4];
    packed[0] = (text){0};
    add_bytes(&packed[0], in->bytes, in->len);
    packed[1] = gzipped(in->bytes, in->len);
    packed[2] = (text){0};
    for (int part = 0; part < 3; part++) {
        size_t beg = in->len * (size_t)part / 3;
        size_t end = in->len * (size_t)(part + 1) / 3;
        text member = gzipped(in->bytes + beg, end - beg);
        add_bytes(&packed[2], member.bytes, member.len);
        free(member.bytes);
    }
    packed[3] = bgzipped(in->bytes, in->len);
    for (int i = 0; i < 4; i++) {
        for (int threads = 0; threads <= 2; threads++) {
            text out = {0};
            kmf_err err = {0};
            int status = read_memory(packed[i].bytes, packed[i].len, threads, &out, &err);
            ck_assert_msg(status == 0, "container %d, %d threads: %s", i, threads, err.msg);
            ck_assert_uint_eq(out.len, expected->len);
            ck_assert_mem_eq(out.bytes, expected->bytes, expected->len);
            free(out.bytes);
        }
        free(packed[i].bytes);
    }
}

START_TEST(random_fasta_and_fastq_are_read_alike_from_every_container)
{
    make_dir();
    for (unsigned seed = 1; seed <= 12; seed++) {
        text in = {0};
        text expected = {0};
        state = seed * UINT64_C(0x9e3779b97f4a7c15);
        /* Some of them many times the 512 KB of a block, so that lines are cut everywhere. */
        unsigned n_records = seed <= 8 ? 1 + below(50) : 600;
        if (seed % 2)
            random_fasta(&in, &expected, n_records);
        else
            random_fastq(&in, &expected, n_records);
        expect_in_every_container(&in, &expected);
        free(in.bytes);
        free(expected.bytes);
    }
    remove_dir();
}
END_TEST

START_TEST(a_line_end_may_fall_anywhere_on_the_border_of_a_block)
{
    const size_t block = (size_t)1 << 19;
    for (size_t shift = 0; shift < 12; shift++) {
        text in = {0};
        text expected = {0};
        size_t n = block - 14 + shift;
        char *seq = malloc(n + 1);
        memset(seq, 'A', n);
        seq[n] = '\0';
        add(&in, ">a\r\n");
        add(&in, seq);
        add(&in, "\r\n>b\r\nCC\r\n");
        add_record(&expected, "a", seq);
        add_record(&expected, "b", "CC");
        expect(in.bytes, in.len, expected.bytes);
        free(in.bytes);
        free(expected.bytes);
        free(seq);
    }
}
END_TEST

/* ---------------------------------------------------------------- damage ------------------ */

START_TEST(truncated_compressed_input_is_refused_after_the_sound_records)
{
    make_dir();
    text in = {0};
    text expected = {0};
    state = 99;
    random_fasta(&in, &expected, 300);
    for (int bgzf = 0; bgzf < 2; bgzf++) {
        text packed = bgzf ? bgzipped(in.bytes, in.len) : gzipped(in.bytes, in.len);
        text first = {0};
        size_t cuts[] = {
            20, 100, packed.len / 2, packed.len - 40, packed.len - 9, packed.len - 1};
        for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
            for (int threads = 0; threads <= 2; threads++) {
                text out = {0};
                kmf_err err = {0};
                add(&out, "");
                ck_assert_int_eq(read_memory(packed.bytes, cuts[c], threads, &out, &err),
                                 KMF_EFORMAT);
                ck_assert_ptr_nonnull(
                    strstr(err.msg, "the compressed data is truncated or damaged"));
                ck_assert_uint_le(out.len, expected.len);
                ck_assert_mem_eq(out.bytes, expected.bytes, out.len);
                if (threads == 0) {
                    free(first.bytes);
                    first = out;
                    continue;
                }
                ck_assert_str_eq(out.bytes, first.bytes);
                free(out.bytes);
            }
        }
        free(first.bytes);
        free(packed.bytes);
    }
    free(in.bytes);
    free(expected.bytes);
    remove_dir();
}
END_TEST

START_TEST(a_bgzf_file_cut_between_two_blocks_is_refused)
{
    make_dir();
    text packed = bgzipped(">a\nACGT\n", 8);
    expect(packed.bytes, packed.len, "[a|ACGT]");
    expect_failure(
        packed.bytes, packed.len - BGZF_MARKER, "",
        "memory: record 1 (line 2): truncated: the BGZF end-of-file marker is missing");
    /* An empty block in the middle is no end; one at the end is enough. */
    text twice = {0};
    add_bytes(&twice, packed.bytes, packed.len);
    add_bytes(&twice, packed.bytes, packed.len);
    expect(twice.bytes, twice.len, "[a|ACGT][a|ACGT]");
    free(packed.bytes);
    free(twice.bytes);
    remove_dir();
}
END_TEST

START_TEST(flipped_bits_in_compressed_input_are_found)
{
    make_dir();
    text in = {0};
    text expected = {0};
    state = 7;
    random_fasta(&in, &expected, 20);
    for (int bgzf = 0; bgzf < 2; bgzf++) {
        text packed = bgzf ? bgzipped(in.bytes, in.len) : gzipped(in.bytes, in.len);
        for (int i = 0; i < 200; i++) {
            /* Behind the header, before the marker. */
            size_t at = 18 + below((unsigned)(packed.len - 18 - BGZF_MARKER));
            char bit = (char)(1 << below(8));
            text out = {0};
            kmf_err err = {0};
            packed.bytes[at] ^= bit;
            int status = read_memory(packed.bytes, packed.len, i % 3, &out, &err);
            ck_assert_msg(status == KMF_EFORMAT, "byte %zu of %zu: %d", at, packed.len, status);
            packed.bytes[at] ^= bit;
            free(out.bytes);
        }
        free(packed.bytes);
    }
    free(in.bytes);
    free(expected.bytes);
    remove_dir();
}
END_TEST

START_TEST(files_that_cannot_be_opened_are_named_with_the_reason)
{
    static const char *const path[] = {"/nonexistent/x.fa", "/tmp"};
    static const char *const message[] = {"/nonexistent/x.fa: No such file or directory",
                                          "/tmp: Is a directory"};
    for (int i = 0; i < 2; i++) {
        kmf_err err = {0};
        ck_assert_ptr_null(kmf_reader_open(path[i], NULL, NULL, &err));
        ck_assert_int_eq(err.code, KMF_EIO);
        ck_assert_str_eq(err.msg, message[i]);
    }
    kmf_reader_close(NULL);
}
END_TEST

START_TEST(standard_input_is_read_from_a_pipe)
{
    make_dir();
    text in = {0};
    text expected = {0};
    state = 5;
    random_fastq(&in, &expected, 300);
    text packed = gzipped(in.bytes, in.len);
    for (int i = 0; i < 2; i++) {
        char command[128];
        text out = {0};
        kmf_err err = {0};
        const char *path = i ? write_bytes("x.gz", packed.bytes, packed.len)
                             : write_bytes("x", in.bytes, in.len);
        int old = dup(STDIN_FILENO);
        snprintf(command, sizeof command, "cat %s", path);
        FILE *pipe = popen(command, "r");
        ck_assert_ptr_nonnull(pipe);
        dup2(fileno(pipe), STDIN_FILENO);
        ck_assert_int_eq(read_path("-", NULL, 1, &out, &err), 0);
        ck_assert_str_eq(out.bytes, expected.bytes);
        dup2(old, STDIN_FILENO);
        close(old);
        ck_assert_int_eq(pclose(pipe), 0);
        free(out.bytes);
    }
    free(in.bytes);
    free(expected.bytes);
    free(packed.bytes);
    remove_dir();
}
END_TEST

/* ---------------------------------------------------------------- alignments -------------- */

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
        kmf_reader_options opts;
        kmf_reader_options_default(&opts);
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
    make_dir();
    const char *reference = write_reference();
    expect_alignments(write_alignments("x.sam", "w", NULL, 1), NULL);
    expect_alignments(write_alignments("x.sam.gz", "wz", NULL, 1), NULL);
    expect_alignments(write_alignments("x.bam", "wb", NULL, 1), NULL);
    expect_alignments(write_alignments("x.cram", "wc", reference, 1), reference);
    remove_dir();
}
END_TEST

static void expect_path_failure(const char *path, const kmf_reader_options *opts, int threads,
                                const char *message)
{
    text out = {0};
    kmf_err err = {0};
    char expected[512];
    ck_assert_int_lt(read_path(path, opts, threads, &out, &err), 0);
    snprintf(expected, sizeof expected, "%s: %s", path, message);
    ck_assert_str_eq(err.msg, expected);
    free(out.bytes);
}

static void cut_file(const char *path, size_t n)
{
    struct stat st;
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(truncate(path, st.st_size - (off_t)n), 0);
}

START_TEST(truncated_alignments_are_refused)
{
    make_dir();
    const char *reference = write_reference();
    kmf_reader_options opts;
    kmf_reader_options_default(&opts);
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
    remove_dir();
}
END_TEST

START_TEST(a_cram_without_its_reference_says_what_to_give)
{
    make_dir();
    const char *reference = write_reference();
    const char *path = write_alignments("x.cram", "wc", reference, 1);
    kmf_reader_options opts;
    kmf_reader_options_default(&opts);
    ck_assert_int_eq(unlink(reference), 0);
    unsetenv("REF_PATH");
    unsetenv("REF_CACHE");
    expect_path_failure(path, NULL, 0,
                        "record 1: a CRAM needs the FASTA that it was made against: give it by "
                        "--reference (if it needs none, the file is damaged)");
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
    remove_dir();
}
END_TEST

START_TEST(a_network_address_in_ref_path_is_not_followed)
{
    make_dir();
    const char *reference = write_reference();
    const char *path = write_alignments("x.cram", "wc", reference, 1);
    setenv("REF_PATH", "https://localhost/%s", 1);
    expect_alignments(path, reference);
    ck_assert_str_eq(getenv("REF_PATH"), "/dev/null/%s");
    remove_dir();
}
END_TEST

START_TEST(what_alignments_cannot_tell_is_an_error)
{
    FAILS(
        "@HD\tVN:1.6\n@SQ\tSN:c\tLN:9\nr\t0\tc\t1\t0\t4M\t*\t0\t0\tAC=T\t*\n", "",
        "memory: record 1 'r': '=' for bases that equal the reference cannot be read; samtools "
        "calmd without -e writes them out");
    FAILS(
        "r\t0\tc\t1\t0\t4M\t*\t0\t0\tACGT\t*\n", "",
        "memory: record 1: damaged, or aligned to a sequence that the header lacks: a SAM file "
        "needs its @SQ lines");
    READS("r\t4\t*\t0\t0\t*\t*\t0\t0\tACGT\t*\n", "[r|ACGT]");
}
END_TEST

/* ---------------------------------------------------------------- regions ----------------- */

static const char regions_fasta[] = ">chr1 first\nACGTACGTAC\nGTTTGGGCCC\nAN\n>chr2\n"
                                    "acgtu\n>odd:1-3\nGGGGGG\n>odd\nCCCCCC\n>a,b\nTTTT\n";

static void expect_regions(const char *path, const char *regions, const char *bed,
                           const char *records)
{
    text out = {0};
    kmf_err err = {0};
    kmf_reader_options opts;
    kmf_reader_options_default(&opts);
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
    make_dir();
    const char *plain = write_text("x.fa", regions_fasta);
    text packed = bgzipped(regions_fasta, sizeof regions_fasta - 1);
    const char *bgzf = write_bytes("x.fa.gz", packed.bytes, packed.len);
    for (int i = 0; i < 2; i++) {
        const char *path = i ? bgzf : plain;
        expect_regions(path, "chr1:1-1", NULL, "[chr1:1-1|A]");
        expect_regions(path, "chr1:9-12,chr2,chr1:21-", NULL,
                       "[chr1:9-12|ACGT][chr2:1-5|acgtu][chr1:21-22|AN]");
        expect_regions(path, "chr1:20", NULL, "[chr1:20-22|CAN]");
        expect_regions(path, "odd:1-3", NULL, "[odd:1-3:1-6|GGGGGG]");
        expect_regions(path, "{odd}:1-3", NULL, "[odd:1-3|CCC]");
        expect_regions(path, "odd:1-3:2-3,{odd:1-3}:2-2", NULL,
                       "[odd:1-3:2-3|GG][odd:1-3:2-2|G]");
        expect_regions(path, "{a,b}:2-3,{a,b}", NULL, "[a,b:2-3|TT][a,b:1-4|TTTT]");
    }
    write_text("z.fa.fai", "none\t0\t6\t0\t0\nc\t2\t9\t2\t3\n");
    expect_regions(write_text("z.fa", ">none\n>c\nAC\n"), "none,c", NULL,
                   "[none:1-0|][c:1-2|AC]");
    free(packed.bytes);
    remove_dir();
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
    make_dir();
    const char *path = write_text("x.fa", regions_fasta);
    expect_regions(path, NULL, write_text("x.bed", bed), records);
    text gz = gzipped(bed, sizeof bed - 1);
    expect_regions(path, NULL, write_bytes("x.bed.gz", gz.bytes, gz.len), records);
    free(gz.bytes);
    expect_regions(path, "chr2:5-5", write_text("y.bed", "chr2\t0\t2\n"),
                   "[chr2:5-5|u][chr2:1-2|ac]");
    expect_regions(path, NULL, write_text("z.bed", ""), "");
    remove_dir();
}
END_TEST

static void expect_bad_region(const char *path, const char *regions, const char *format, ...)
    KMF_PRINTF(3, 4);

static void expect_bad_region(const char *path, const char *regions, const char *format, ...)
{
    kmf_err err = {0};
    char message[512];
    kmf_reader_options opts;
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    kmf_reader_options_default(&opts);
    opts.regions = regions;
    ck_assert_ptr_null(kmf_reader_open(path, &opts, NULL, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    ck_assert_str_eq(err.msg, message);
}

START_TEST(bad_regions_are_named)
{
    static const char form[] = "a range is written NAME:BEG-END or NAME:BEG-";
    make_dir();
    const char *x = write_text("x.fa", regions_fasta);
    expect_bad_region(x, "chr1,chr9:1-5", "region 'chr9:1-5': %s has no sequence of this name",
                      x);
    expect_bad_region(x, "chr", "region 'chr': %s has no sequence of this name", x);
    expect_bad_region(x, "", "region '': %s has no sequence of this name", x);
    expect_bad_region(x, "chr1,", "region '': %s has no sequence of this name", x);
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
    expect_bad_region(x, "{chr1", "region '{chr1': a closing brace is missing");
    expect_bad_region(x, "{chr1}5", "region '{chr1}5': %s", form);
    expect_bad_region("-", "chr1",
                      "regions need a file: they cannot be taken from standard input");
    remove_dir();
}
END_TEST

static void expect_bad_bed(const char *path, const char *lines, const char *what)
{
    kmf_err err = {0};
    char message[512];
    kmf_reader_options opts;
    kmf_reader_options_default(&opts);
    opts.bed = write_text("bad.bed", lines);
    ck_assert_ptr_null(kmf_reader_open(path, &opts, NULL, &err));
    ck_assert_int_eq(err.code, KMF_EFORMAT);
    snprintf(message, sizeof message, "%s: %s", opts.bed, what);
    ck_assert_str_eq(err.msg, message);
}

START_TEST(bad_bed_lines_are_named)
{
    char message[256];
    make_dir();
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
    kmf_reader_options opts;
    kmf_reader_options_default(&opts);
    opts.bed = "/nonexistent/x.bed";
    ck_assert_ptr_null(kmf_reader_open(x, &opts, NULL, &err));
    ck_assert_str_eq(err.msg, "/nonexistent/x.bed: No such file or directory");
    remove_dir();
}
END_TEST

START_TEST(regions_need_a_fasta_file_that_can_be_indexed)
{
    make_dir();
    kmf_reader_options opts;
    kmf_reader_options_default(&opts);
    opts.regions = "chr1";
    text gz = gzipped(regions_fasta, sizeof regions_fasta - 1);
    expect_path_failure(write_bytes("x.fa.gz", gz.bytes, gz.len), &opts, 0,
                        "regions cannot be taken from a gzip file: compress with bgzip");
    free(gz.bytes);
    expect_path_failure(write_text("x.fq", "@a\nACGT\n+\nIIII\n"), &opts, 0,
                        "regions can only be taken from FASTA");
    expect_path_failure(
        write_text("x.fa", ">chr1\nACG\nACGT\nAC\n"), &opts, 0,
        "has no usable .fai index and none can be made: lines of a sequence must "
        "be of one length and the directory writable");
    const char *stale = write_text("y.fa", regions_fasta);
    expect_regions(stale, "chr1:1-1", NULL, "[chr1:1-1|A]");
    write_text("y.fa", ">chr1\nACGT\n>chr2\nAC\n");
    expect_path_failure(
        stale, &opts, 0,
        "chr1:1-22 cannot be read: the file is damaged, or its .fai was made of "
        "another one");
    remove_dir();
}
END_TEST

/* ---------------------------------------------------------------- memory ------------------ */

/* Lets the n-th allocation fail, for every n that there is. */
static void fail_everywhere(const char *path, const kmf_reader_options *opts, int threads)
{
    for (size_t n = 1;; n++) {
        kmf_err err = {0};
        text out = {0};
        kmf_pool *pool = threads ? kmf_pool_new(threads, NULL) : NULL;
        kmf_mem_fail_at(n);
        int status = read_with(kmf_reader_open(path, opts, pool, &err), &out, &err);
        size_t needed = kmf_mem_count();
        kmf_mem_fail_at(0);
        kmf_pool_free(pool);
        free(out.bytes);
        if (needed < n) {
            ck_assert_msg(status == 0, "%s", err.msg);
            return;
        }
        ck_assert_int_eq(err.code, KMF_ENOMEM);
        ck_assert_int_lt(status, 0);
    }
}

START_TEST(any_failing_allocation_is_reported_and_nothing_leaks)
{
    make_dir();
    text in = {0};
    text expected = {0};
    state = 3;
    random_fasta(&in, &expected, 40);
    text gz = gzipped(in.bytes, in.len);
    const char *path = write_bytes("x.fa.gz", gz.bytes, gz.len);
    for (int threads = 0; threads < 2; threads++)
        fail_everywhere(path, NULL, threads);
    fail_everywhere(write_alignments("x.bam", "wb", NULL, 3), NULL, 0);
    kmf_reader_options opts;
    kmf_reader_options_default(&opts);
    opts.regions = "chr1,chr2:1-2";
    opts.bed = write_text("x.bed", "chr1\t0\t5\n");
    fail_everywhere(write_text("x.fa", regions_fasta), &opts, 0);
    kmf_reader_options_default(&opts);
    opts.reference = write_reference();
    fail_everywhere(write_alignments("x.cram", "wc", opts.reference, 3), &opts, 0);
    free(in.bytes);
    free(expected.bytes);
    free(gz.bytes);
    remove_dir();
}
END_TEST

START_TEST(a_reader_can_be_closed_before_the_end)
{
    text in = {0};
    text expected = {0};
    state = 11;
    random_fasta(&in, &expected, 500);
    text gz = gzipped(in.bytes, in.len);
    for (int stop = 0; stop < 40; stop++) {
        kmf_err err = {0};
        kmf_record rec;
        kmf_pool *pool = kmf_pool_new(1 + stop % 2, &err);
        kmf_reader *reader = kmf_reader_open_memory(gz.bytes, gz.len, pool, &err);
        for (int i = 0; i < stop; i++)
            ck_assert_int_eq(kmf_reader_next(reader, &rec, &err), 1);
        kmf_reader_close(reader);
        kmf_pool_free(pool);
    }
    free(in.bytes);
    free(expected.bytes);
    free(gz.bytes);
}
END_TEST

/* ---------------------------------------------------------------- real data --------------- */

/* From the table in the README of the data. */
static const struct real_file {
    const char *name;
    uint64_t records;
    uint64_t bases;
} real_files[] = {
    {"streptococcus_illumina_1.fq.gz", 25000, 2464417},
    {"streptococcus_illumina_2.fq.gz", 25000, 2442834},
    {"tuberculosis_illumina.fq.gz", 16587, 4918570},
    {"portiera_illumina_1.fq.gz", 1750, 176750},
    {"portiera_illumina_2.fq.gz", 1750, 173250},
    {"illumina_150bp.fq.gz", 10000, 1500000},
    {"staphylococcus_nanopore.fq.gz", 500, 3955758},
    {"nanopore.fq.gz", 4000, 1798723},
    {"amplicon_16s_v4_1.fq.gz", 1500, 375000},
    {"amplicon_16s_v4_2.fq.gz", 1500, 375000},
    {"amplicon_16s_pair_1.fq.gz", 2500, 567516},
    {"amplicon_16s_pair_2.fq.gz", 2500, 560002},
    {"amplicon_16s_pacbio.fq.gz", 500, 737664},
    {"phix_illumina_100bp.fq.gz", 10000, 1000000},
    {"human_illumina_100bp.fq.gz", 1000, 100000},
    {"hg003_novaseq.fq.gz", 12439, 1878289},
    {"lambda_long.fq.gz", 236, 1674628},
};

static const char *shared(void)
{
    const char *place = getenv("KMF_SHARED");
    place = place ? place : "../shared";
    return access(place, R_OK) == 0 ? place : NULL;
}

START_TEST(real_reads_have_the_records_and_bases_of_their_table)
{
    const char *place = shared();
    char path[512];
    for (size_t i = 0; place && i < sizeof real_files / sizeof *real_files; i++) {
        kmf_err err = {0};
        kmf_reader_stats stats;
        text out = {0};
        snprintf(path, sizeof path, "%s/data/reads/%s", place, real_files[i].name);
        kmf_pool *pool = i % 3 ? kmf_pool_new((int)(i % 3), &err) : NULL;
        kmf_reader *reader = kmf_reader_open(path, NULL, pool, &err);
        ck_assert_msg(reader != NULL, "%s", err.msg);
        ck_assert_msg(drain(reader, &out, &err) == 0, "%s", err.msg);
        kmf_reader_statistics(reader, &stats);
        ck_assert_uint_eq(stats.records, real_files[i].records);
        ck_assert_uint_eq(stats.bases, real_files[i].bases);
        kmf_reader_close(reader);
        kmf_pool_free(pool);
        free(out.bytes);
    }
    if (!place)
        printf("skip: real reads: neither KMF_SHARED nor ../shared is there\n");
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
    kmf_reader_options opts;
    make_dir();
    snprintf(path, sizeof path, "%s/data/variants/chr22_tiny_ref.fa.gz", place);
    text reference = read_file(path);
    kmf_reader_options_default(&opts);
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
    remove_dir();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("seqio");
    TCase *tc = tcase_create("seqio");
    tcase_set_timeout(tc, 0);
    tcase_add_test(tc, fasta_is_read_in_every_layout);
    tcase_add_test(tc, input_without_records_is_no_error);
    tcase_add_test(tc, fasta_faults_are_reported_with_record_and_line);
    tcase_add_test(tc, lines_that_end_with_cr_alone_are_refused);
    tcase_add_test(tc, names_and_lines_may_be_of_any_length);
    tcase_add_test(tc, fastq_is_read_in_every_layout);
    tcase_add_test(tc, fastq_faults_are_reported_with_record_and_line);
    tcase_add_test(tc, fastq_that_ends_inside_a_record_is_refused);
    tcase_add_test(tc, what_is_no_sequence_file_is_refused_by_content);
    tcase_add_test(tc, random_fasta_and_fastq_are_read_alike_from_every_container);
    tcase_add_test(tc, a_line_end_may_fall_anywhere_on_the_border_of_a_block);
    tcase_add_test(tc, truncated_compressed_input_is_refused_after_the_sound_records);
    tcase_add_test(tc, a_bgzf_file_cut_between_two_blocks_is_refused);
    tcase_add_test(tc, flipped_bits_in_compressed_input_are_found);
    tcase_add_test(tc, files_that_cannot_be_opened_are_named_with_the_reason);
    tcase_add_test(tc, standard_input_is_read_from_a_pipe);
    tcase_add_test(tc, primary_alignments_are_read_as_sequenced_from_sam_bam_and_cram);
    tcase_add_test(tc, truncated_alignments_are_refused);
    tcase_add_test(tc, a_cram_without_its_reference_says_what_to_give);
    tcase_add_test(tc, a_network_address_in_ref_path_is_not_followed);
    tcase_add_test(tc, what_alignments_cannot_tell_is_an_error);
    tcase_add_test(tc, regions_are_1_based_and_closed_and_keep_their_order);
    tcase_add_test(tc, bed_lines_are_0_based_and_half_open_and_honour_the_strand);
    tcase_add_test(tc, bad_regions_are_named);
    tcase_add_test(tc, bad_bed_lines_are_named);
    tcase_add_test(tc, regions_need_a_fasta_file_that_can_be_indexed);
    tcase_add_test(tc, any_failing_allocation_is_reported_and_nothing_leaks);
    tcase_add_test(tc, a_reader_can_be_closed_before_the_end);
    tcase_add_test(tc, real_reads_have_the_records_and_bases_of_their_table);
    tcase_add_test(tc, a_real_cram_reads_like_the_bam_it_was_made_of);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
