/* SPDX-License-Identifier: MIT */
/* The grammar of FASTA and FASTQ: small inputs, their records or the message written out. */
#include "seqfiles.h"
#include "run.h"

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

int main(void)
{
    Suite *suite = suite_create("textseq");
    TCase *tc = tcase_create("textseq");
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
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
