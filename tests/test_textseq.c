/* SPDX-License-Identifier: MIT */
/*
 * The grammar of FASTA and FASTQ: small inputs, their records or the message written out, and
 * the same letters again when they are read as a text. What is simple is read by other code
 * than what is not; simple input with one byte changed is therefore read twice, the second time
 * with the end of a block inside, which no simple record or line has.
 */
#include "base/mem.h"
#include "checked.h"
#include "fills.h"
#include "run.h"
#include "seq/scan.h"

#define LONG "ACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACGT"

/* With a long record behind: at the very end of a block nothing counts as simple. */
static void read_followed(const char *input, size_t n, const char *records)
{
    text in = {0};
    text expected = {0};
    const char *first = strpbrk(input, "@>");
    if (!first)
        return;
    add_bytes(&in, input, n);
    add(&in, input[n - 1] == '\n' ? "" : "\n");
    add(&in, *first == '@' ? "@long\n" LONG "\n+\n" LONG "\n" : ">long\n" LONG "\n");
    add(&expected, records);
    add_record(&expected, "long", LONG);
    expect(in.bytes, in.len, expected.bytes);
    expect_fills(in.bytes, in.len);
    free(in.bytes);
    free(expected.bytes);
}

static void read_both(const char *input, size_t n, const char *records)
{
    expect(input, n, records);
    expect_fills(input, n);
    read_followed(input, n, records);
}

static void fail_both(const char *input, size_t n, const char *records, const char *message)
{
    expect_failure(input, n, records, message);
    expect_fills(input, n);
}

#define BOTH_READ(input, records) read_both(input, sizeof(input) - 1, records)
#define BOTH_FAIL(input, records, message) fail_both(input, sizeof(input) - 1, records, message)

/* ---------------------------------------------------------------- one block --------------- */

#define MANY 24
#define ROOM 8192

/* Records, or lines of FASTA, of many lengths; the first i are ends[i] bytes, taken[i] letters. */
typedef struct many {
    text bytes, letters;
    size_t ends[MANY + 1], taken[MANY + 1];
} many;

static many write_many(bool records)
{
    many m = {0};
    for (size_t i = 0; i < MANY; i++) {
        char line[200] = "";
        const char *end = i % 5 == 0 ? "\r\n" : "\n";
        for (size_t j = 0; j < (i % 3 == 0 ? 80 : 1 + i * 37 % 150); j++)
            line[j] = "ACGT"[(i + j) % 4];
        const char *const parts[] = {records ? "@x" : "",
                                     records ? end : "",
                                     line,
                                     end,
                                     records ? "+" : "",
                                     records ? end : "",
                                     records ? line : "",
                                     records ? end : ""};
        for (size_t j = 0; j < sizeof parts / sizeof parts[0]; j++)
            add(&m.bytes, parts[j]);
        add(&m.letters, line);
        add(&m.letters, records ? "\n" : "");
        m.ends[i + 1] = m.bytes.len;
        m.taken[i + 1] = m.letters.len;
    }
    return m;
}

/*
 * What lies behind the end of a block is sound, too, but is left alone; so is what is behind the
 * room.
 */
START_TEST(nothing_beyond_the_block_or_the_room_is_taken)
{
    const bool records = _i == 1;
    static char out[ROOM], untouched[ROOM];
    many m = write_many(records);
    size_t all = m.bytes.len;
    size_t most = 0;
    ck_assert_uint_lt(m.letters.len + 256, ROOM);
    memset(untouched, '!', ROOM);
    for (size_t n = 0; n <= all + ROOM; n++) {
        size_t in = kmf_min(n, all);
        size_t room = n < all ? ROOM : n - all;
        memset(out, '!', ROOM);
        kmf_scan s = {.in = m.bytes.bytes,
                      .in_end = m.bytes.bytes + in,
                      .out = out,
                      .stop = out + room,
                      .room = out + room,
                      .width = n % 100};
        (records ? kmf_scan_records : kmf_scan_lines)(&s);
        quick_assert(s.n <= MANY && m.ends[s.n] <= in && m.taken[s.n] <= room);
        quick_assert(s.in == m.bytes.bytes + m.ends[s.n] && s.out == out + m.taken[s.n]);
        quick_assert(memcmp(out, m.letters.bytes, m.taken[s.n]) == 0);
        quick_assert(memcmp(out + room, untouched, ROOM - room) == 0);
        most = kmf_max(most, s.n);
    }
    ck_assert_uint_ge(most, MANY - 4);
    free(m.bytes.bytes);
    free(m.letters.bytes);
}
END_TEST

/* ---------------------------------------------------------------- FASTA ------------------- */

START_TEST(fasta_is_read_in_every_layout)
{
    BOTH_READ(">a\nACGT\n", "[a|ACGT]");
    BOTH_READ(">a\nACGT", "[a|ACGT]");
    BOTH_READ(">a some words\nACGT\n>b\tmore\nGG\nCC\n", "[a|ACGT][b|GGCC]");
    BOTH_READ(">a\r\nAC\r\nGT\r\n", "[a|ACGT]");
    BOTH_READ(">a\nAC\r\nGT\n", "[a|ACGT]");
    BOTH_READ(">a\nACGT\r", "[a|ACGT]");
    BOTH_READ("\n \t\r\n\n>a\nACGT\n\n\n>b\n\nGG\n\nCC\n\n", "[a|ACGT][b|GGCC]");
    BOTH_READ(">a\nACGT  \n\tGG TT\t\n", "[a|ACGTGGTT]");
    BOTH_READ(">a\n>b\n", "[a|][b|]");
    BOTH_READ(">a", "[a|]");
    BOTH_READ(">\nACGT\n", "[|ACGT]");
    BOTH_READ("> a\nACGT\n", "[|ACGT]");
    BOTH_READ(">a\nAC\n>a\nGT\n", "[a|AC][a|GT]");
    BOTH_READ(">a>b@c\nacgtUuNnRYKMSWBDHVX*-.\n", "[a>b@c|acgtUuNnRYKMSWBDHVX*-.]");
    BOTH_READ("\xef\xbb\xbf>a\nACGT\n", "[a|ACGT]");
}
END_TEST

START_TEST(input_without_records_is_no_error)
{
    BOTH_READ("", "");
    BOTH_READ("\n", "");
    BOTH_READ(" \r\n\t\n", "");
    BOTH_READ("\xef\xbb\xbf", "");
    text gz = gzipped("", 0);
    read_both(gz.bytes, gz.len, "");
    free(gz.bytes);
    make_dir();
    gz = bgzipped("", 0);
    read_both(gz.bytes, gz.len, "");
    free(gz.bytes);
    remove_dir();
}
END_TEST

START_TEST(fasta_faults_are_reported_with_record_and_line)
{
    BOTH_FAIL(">x\nA\n>y\n>name z\nACGT\nAC\aGT\n", "[x|A][y|]",
              "memory: record 3 'name' (line 6): unexpected byte 0x07 in the sequence");
    BOTH_FAIL(">a\nAC\0GT\n", "",
              "memory: record 1 'a' (line 2): unexpected byte 0x00 in the sequence");
    BOTH_FAIL(">a\nACGT1\n", "",
              "memory: record 1 'a' (line 2): unexpected byte 0x31 in the sequence");
    BOTH_FAIL(">a\nAC>GT\n", "",
              "memory: record 1 'a' (line 2): unexpected byte 0x3e in the sequence");
    BOTH_FAIL(">a\n;comment\n", "",
              "memory: record 1 'a' (line 2): unexpected byte 0x3b in the sequence");
    BOTH_FAIL(">a\nACG\xc3\xa9\n", "",
              "memory: record 1 'a' (line 2): unexpected byte 0xc3 in the sequence");
    BOTH_FAIL(">a\nACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACGTACG!\n", "",
              "memory: record 1 'a' (line 2): unexpected byte 0x21 in the sequence");
    BOTH_FAIL(">a\0b\nACGT\n", "",
              "memory: record 1 '' (line 1): unexpected byte 0x00 in the header");
    BOTH_FAIL(">e\x1b[1m\n1\n", "",
              "memory: record 1 'e?[1m' (line 2): unexpected byte 0x31 in the sequence");
    BOTH_FAIL(">a\nACGT\n@b\nACGT\n+\nIIII\n", "",
              "memory: record 2 (line 3): a FASTQ record ('@') in a FASTA file");
}
END_TEST

START_TEST(lines_that_end_with_cr_alone_are_refused)
{
    BOTH_FAIL(
        ">a\rACGT\r>b\rGG\r", "",
        "memory: record 1 (line 1): a carriage return inside the line: lines that end with CR "
        "alone must be converted (tr '\\r' '\\n')");
    BOTH_FAIL(
        ">a\nACGT\rACGT\n", "",
        "memory: record 1 (line 2): a carriage return inside the line: lines that end with CR "
        "alone must be converted (tr '\\r' '\\n')");
    BOTH_FAIL(
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
    read_both(in.bytes, in.len, expected.bytes);
    free(in.bytes);
    free(expected.bytes);
    free(name);
    free(seq);
}
END_TEST

/* ---------------------------------------------------------------- FASTQ ------------------- */

START_TEST(fastq_is_read_in_every_layout)
{
    BOTH_READ("@a\nACGT\n+\nIIII\n", "[a|ACGT]");
    BOTH_READ("@a\r\nACGT\r\n+\r\nIIII\r\n", "[a|ACGT]");
    BOTH_READ("@a\nAC\r\n+\nII\n@b\r\nGGT\n+\nIII\r\n", "[a|AC][b|GGT]");
    BOTH_READ("@a\nACGT\n+\nIIII", "[a|ACGT]");
    BOTH_READ("@a b\r\nACGT\r\n+a b\r\nIIII\r\n@c\r\nG\r\n+\r\n!\r\n", "[a|ACGT][c|G]");
    BOTH_READ("@a\nACGT\n+something else\n@@@@\n@b\nAC\n+\n++\n", "[a|ACGT][b|AC]");
    BOTH_READ("@a\nAC\nGT\nA\n+\n@I\n+I\n>\n@b\nA\n+\nI\n", "[a|ACGTA][b|A]");
    BOTH_READ("@a\nAC\nGT\n+\nIIII\n", "[a|ACGT]");
    BOTH_READ("@a\nAC\nGT\n+\nI\nI\n\nI\nI\n", "[a|ACGT]");
    BOTH_READ("@a\n\n+\n\n@b\nA\n+\nI\n", "[a|][b|A]");
    BOTH_READ("@a\n+\n@b\n\n+\n", "[a|][b|]");
    BOTH_READ("\n\n@a\nA\n+\nI\n\n \n@b\nA\n+\n~\n\n", "[a|A][b|A]");
    BOTH_READ("@\nA\n+\nI\n", "[|A]");
}
END_TEST

START_TEST(fastq_faults_are_reported_with_record_and_line)
{
    BOTH_FAIL("@a\nA\n+\nI\n@b\nACGT\n+\nIII\n@c\nA\n+\nI\n", "[a|A]",
              "memory: record 2 (line 5): 3 quality values for 4 bases");
    BOTH_FAIL("@a\nA\n+\nI\n@b\nACGT\n+\nIIIII\n@c\nA\n+\nI\n", "[a|A]",
              "memory: record 2 (line 5): 5 quality values for 4 bases");
    BOTH_FAIL("@a\nAC\nGT\n+\nIII\nII\n", "",
              "memory: record 1 (line 1): 5 quality values for 4 bases");
    BOTH_FAIL("@a\nACGT\n+\n\n@b\n", "",
              "memory: record 1 (line 1): 0 quality values for 4 bases");
    BOTH_FAIL("@a\n\n+\nIII\n", "", "memory: record 1 (line 1): 3 quality values for 0 bases");
    BOTH_FAIL("@a\nACGT\n+\nII I\n", "",
              "memory: record 1 'a' (line 4): unexpected byte 0x20 in the quality");
    BOTH_FAIL("@a\nACGT\n+\nII\x7fI\n", "",
              "memory: record 1 'a' (line 4): unexpected byte 0x7f in the quality");
    BOTH_FAIL("@a\nAC1T\n+\nIIII\n", "",
              "memory: record 1 'a' (line 2): unexpected byte 0x31 in the sequence");
    BOTH_FAIL("@a\nA\n+\nI\n>b\nA\n", "[a|A]",
              "memory: record 2 (line 5): a FASTA record ('>') in a FASTQ file");
    BOTH_FAIL("@a\nA\n>b\nA\n", "",
              "memory: record 1 (line 1): a FASTA record ('>') begins inside it, on line 3");
    BOTH_FAIL("@a\nA\n+\nI\nA\n", "[a|A]",
              "memory: record 2 (line 5): a record must begin with '@', got byte 0x41");
    BOTH_FAIL("@a\nA\n+\nI\n\n @b\n", "[a|A]",
              "memory: record 2 (line 6): a record must begin with '@', got byte 0x20");
}
END_TEST

START_TEST(fastq_that_ends_inside_a_record_is_refused)
{
    static const char whole[] = "@a\nA\n+\nI\n@b\nACGT\n+\nIIII\n";
    /* Every cut after the first byte of record 2 but before its last quality value. */
    for (size_t n = 10; n < sizeof whole - 2; n++)
        fail_both(whole, n, "[a|A]", "memory: ends inside record 2 (line 5)");
    read_both(whole, sizeof whole - 2, "[a|A][b|ACGT]");
    BOTH_FAIL("@a\nAC\nGT\n+\nII\n", "", "memory: ends inside record 1 (line 1)");
}
END_TEST

START_TEST(what_is_no_sequence_file_is_refused_by_content)
{
    static const char message[] = "memory: not FASTA, FASTQ, SAM, BAM or CRAM, nor a table "
                                  "with a column 'sequence'";
    BOTH_FAIL("hello\n", "", message);
    BOTH_FAIL("ACGT\n", "", message);
    BOTH_FAIL(" >a\nACGT\n", "", "memory: not FASTA, FASTQ, SAM, BAM or CRAM");
    BOTH_FAIL("\x7f"
              "ELF\2\1\1\0",
              "", message);
    BOTH_FAIL("##fileformat=VCFv4.2\n#CHROM\tPOS\tID\tREF\tALT\tQUAL\tFILTER\tINFO\n", "",
              message);
    text gz = gzipped("hello\n", 6);
    fail_both(gz.bytes, gz.len, "", message);
    free(gz.bytes);
    BOTH_FAIL("BZh91AY&SY\x12\x34", "",
              "memory: compressed with bzip2, which cannot be read: use bgzip or gzip");
}
END_TEST

/* ---------------------------------------------------------------- one byte changed -------- */

#define BLOCK ((size_t)1 << 19)
#define WIDEST 130
#define HEADER "@r 2 some words\n"

/* Three records of `width` letters, the first with a long header; *at: the second begins. */
static text three_records(bool fastq, size_t width, size_t n_header, size_t *at)
{
    char letters[WIDEST + 1];
    text t = {0};
    for (size_t i = 0; i < width; i++)
        letters[i] = "ACGTNacgtn*-.RY"[i % 15];
    letters[width] = '\0';
    for (int i = 0; i < 3; i++) {
        if (i == 1)
            *at = t.len;
        add(&t, fastq ? "@" : ">");
        add(&t, i == 1 ? &HEADER[1] : "r ");
        for (size_t n = 3; i == 0 && n < n_header; n++)
            add(&t, "x");
        add(&t, i == 1 ? "" : "\n");
        add(&t, letters);
        add(&t, "\n");
        if (!fastq)
            continue;
        add(&t, i == 1 ? "+r2\n" : "+\n");
        for (size_t k = 0; k < width; k++)
            letters[k] = (char)('!' + k % 94);
        add(&t, letters);
        add(&t, "\n");
        for (size_t k = 0; k < width; k++)
            letters[k] = "ACGTN"[k % 5];
    }
    return t;
}

static void change_every_byte(bool fastq, size_t width)
{
    static const unsigned char bytes[] = {0,   '\t', '\n', '\r', ' ', '!',
                                          '+', '>',  '@',  'A',  127, 128};
    size_t at;
    size_t far;
    text simple = three_records(fastq, width, 3, &at);
    size_t length = simple.len - at;
    /* The block ends behind the first letter. */
    text careful = three_records(fastq, width, BLOCK - at - sizeof HEADER + 3, &far);
    ck_assert_uint_eq(far, BLOCK - sizeof HEADER);
    for (size_t i = 0; i < length; i += CHECKED ? 7 : 1) {
        char before = simple.bytes[at + i];
        for (size_t b = 0; b < sizeof bytes; b++) {
            simple.bytes[at + i] = careful.bytes[far + i] = (char)bytes[b];
            source near_source = {.bytes = simple.bytes, .n = simple.len, .fastq = fastq};
            source far_source = {.bytes = careful.bytes, .n = careful.len, .fastq = fastq};
            outcome expected = letters_of(&far_source, 0);
            for (size_t want = 0; want <= 300; want += 300) {
                outcome got = letters_of(&near_source, want);
                expect_same_outcome(&got, &expected);
                if (want == 0)
                    quick_assert(got.letters.len == expected.letters.len);
                kmf_free(got.letters.bytes);
            }
            kmf_free(expected.letters.bytes);
        }
        simple.bytes[at + i] = careful.bytes[far + i] = before;
    }
    free(simple.bytes);
    free(careful.bytes);
}

START_TEST(simple_input_with_a_byte_changed_is_read_as_where_a_block_ends)
{
    static const size_t widths[] = {1, 63, 65, 129};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i += CHECKED ? 2 : 1) {
        change_every_byte(true, widths[i]);
        change_every_byte(false, widths[i]);
    }
}
END_TEST

int main(void)
{
    TCase *tc = untimed_case();
    tcase_add_loop_test(tc, nothing_beyond_the_block_or_the_room_is_taken, 0, 2);
    tcase_add_test(tc, fasta_is_read_in_every_layout);
    tcase_add_test(tc, input_without_records_is_no_error);
    tcase_add_test(tc, fasta_faults_are_reported_with_record_and_line);
    tcase_add_test(tc, lines_that_end_with_cr_alone_are_refused);
    tcase_add_test(tc, names_and_lines_may_be_of_any_length);
    tcase_add_test(tc, fastq_is_read_in_every_layout);
    tcase_add_test(tc, fastq_faults_are_reported_with_record_and_line);
    tcase_add_test(tc, fastq_that_ends_inside_a_record_is_refused);
    tcase_add_test(tc, simple_input_with_a_byte_changed_is_read_as_where_a_block_ends);
    tcase_add_test(tc, what_is_no_sequence_file_is_refused_by_content);
    return run_case("textseq", tc);
}
