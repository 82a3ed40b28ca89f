/* SPDX-License-Identifier: MIT */
/*
 * The reader whatever it reads from. Second sources: random FASTA and FASTQ whose records the
 * generator knows, laid out in every way the formats allow; the same text packed by zlib and
 * htslib in every container, whole, cut and damaged; sums from the README of the data.
 */
#include "base/rng.h"
#include "failing.h"
#include "fills.h"
#include "run.h"

#include <math.h>

#include <htslib/sam.h>
#include <zlib.h>

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
            expect_fills_from(&(source){.bytes = packed[i].bytes,
                                        .n = packed[i].len,
                                        .threads = threads,
                                        .fastq = in->bytes[0] == '@'});
        }
        free(packed[i].bytes);
    }
}

START_TEST(random_fasta_and_fastq_are_read_alike_from_every_container)
{
    for (unsigned seed = 1; seed <= 10; seed++) {
        text in = {0};
        text expected = {0};
        state = seed * UINT64_C(0x9e3779b97f4a7c15);
        /* The last two are many times the 512 KB of a block, so that lines are cut everywhere. */
        unsigned n_records = seed <= 8 ? 1 + below(50) : 600;
        if (seed % 2)
            random_fasta(&in, &expected, n_records);
        else
            random_fastq(&in, &expected, n_records);
        expect_in_every_container(&in, &expected);
        free(in.bytes);
        free(expected.bytes);
    }
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
        expect_fills_from(&(source){.bytes = in.bytes, .n = in.len});
        free(in.bytes);
        free(expected.bytes);
        free(seq);
    }
}
END_TEST

START_TEST(a_block_may_end_anywhere_in_a_short_read_or_line)
{
    const size_t block = (size_t)1 << 19;
    for (size_t shift = 0; shift < 40; shift += 13) {
        text in[2] = {{0}, {0}};
        text expected[2] = {{0}, {0}};
        for (int fastq = 0; fastq < 2; fastq++) {
            text name = {0};
            for (size_t i = 0; i < shift; i++)
                add(&name, "n");
            add(&name, "r");
            for (size_t i = 0; in[fastq].len < 2 * block + 4000; i++) {
                /* Some 8 to 200 bytes a record, so that blocks end at many places of one. */
                char seq[100];
                memset(seq, 'C', sizeof seq);
                seq[i % 89 + 1] = '\0';
                add(&in[fastq], fastq ? "@" : ">");
                add(&in[fastq], name.bytes);
                add(&in[fastq], "\n");
                add(&in[fastq], seq);
                add(&in[fastq], fastq ? "\n+\n" : "\n");
                add(&in[fastq], fastq ? seq : "");
                add(&in[fastq], fastq ? "\n" : "");
                add_record(&expected[fastq], name.bytes, seq);
                name.len = 1;
                name.bytes[1] = '\0';
            }
            free(name.bytes);
        }
        for (int fastq = 0; fastq < 2; fastq++) {
            expect(in[fastq].bytes, in[fastq].len, expected[fastq].bytes);
            expect_fills_from(
                &(source){.bytes = in[fastq].bytes, .n = in[fastq].len, .fastq = fastq});
            free(in[fastq].bytes);
            free(expected[fastq].bytes);
        }
    }
}
END_TEST

START_TEST(a_text_holds_a_line_of_many_blocks_in_portions)
{
    size_t n = 3 * ((size_t)1 << 19) + 77;
    text in = {0};
    outcome filled;
    char *seq = malloc(n + 1);
    for (size_t i = 0; i < n; i++)
        seq[i] = "ACGTTGCANacgt"[i % 13];
    seq[n] = '\0';
    add(&in, ">a\n");
    add(&in, seq);
    add(&in, "\n>b\n>c\nAC\r\nG T\n");
    for (size_t want = 300; want < 3000000; want *= 10) {
        filled = letters_of(&(source){.bytes = in.bytes, .n = in.len}, want);
        ck_assert_int_eq(filled.status, 0);
        ck_assert_uint_eq(filled.letters.len, n + 7);
        ck_assert_mem_eq(filled.letters.bytes, seq, n);
        ck_assert_str_eq(filled.letters.bytes + n, "\n\nACGT\n");
        ck_assert_uint_eq(filled.stats.records, 3);
        ck_assert_uint_eq(filled.stats.bases, n + 4);
        kmf_free(filled.letters.bytes);
    }
    free(in.bytes);
    free(seq);
}
END_TEST

/* The text of a SAM with a long, some short and an empty read, and one to be passed over. */
static text alignments(void)
{
    text t = {0};
    add(&t, "@HD\tVN:1.6\nlong\t4\t*\t0\t0\t*\t*\t0\t0\t");
    for (int i = 0; i < 300000; i++)
        add_bytes(&t, &"ACGTN"[i % 5], 1);
    add(&t, "\t*\n");
    for (int i = 0; i < 50; i++)
        add(&t, "a\t4\t*\t0\t0\t*\t*\t0\t0\tACGTTGCA\tIIIIIIII\n"
                "b\t20\t*\t0\t0\t*\t*\t0\t0\tAACC\t*\n"
                "c\t4\t*\t0\t0\t*\t*\t0\t0\t*\t*\n"
                "c\t260\t*\t0\t0\t*\t*\t0\t0\tAAAA\t*\n");
    return t;
}

static const char *write_bam(const char *sam)
{
    const char *path = in_dir("x.bam");
    samFile *from = sam_open(sam, "r");
    samFile *to = sam_open(path, "wb");
    bam1_t *b = bam_init1();
    ck_assert(from && to && b);
    sam_hdr_t *header = sam_hdr_read(from);
    ck_assert_int_eq(sam_hdr_write(to, header), 0);
    while (sam_read1(from, header, b) >= 0)
        ck_assert_int_ge(sam_write1(to, header, b), 0);
    bam_destroy1(b);
    sam_hdr_destroy(header);
    ck_assert_int_eq(sam_close(to), 0);
    ck_assert_int_eq(sam_close(from), 0);
    return path;
}

START_TEST(alignments_and_regions_are_read_as_a_text_too)
{
    text sam = alignments();
    const char *path = write_bytes("x.sam", sam.bytes, sam.len);
    const char *bam = write_bam(path);
    for (int threads = 0; threads < 2; threads++) {
        expect_fills_from(&(source){.path = path, .threads = threads});
        expect_fills_from(&(source){.path = bam, .threads = threads});
    }
    outcome filled = letters_of(&(source){.path = bam}, 5000);
    ck_assert_uint_eq(filled.stats.records, 151);
    ck_assert_uint_eq(filled.stats.bases, 300000 + 50 * 12);
    ck_assert_uint_eq(filled.stats.secondary, 50);
    ck_assert_mem_eq(filled.letters.bytes + 300000, "\nACGTTGCA\nGGTT\n\nACGT", 20);
    kmf_free(filled.letters.bytes);
    /* Cut off: the same failure. */
    text packed = read_file(bam);
    expect_fills_from(&(source){.bytes = packed.bytes, .n = packed.len / 2});
    free(packed.bytes);

    kmf_reader_options opts = reader_options();
    opts.regions = "a:2-7,b,a";
    const char *fasta = write_text("x.fa", ">a\nACGTT\nGCAAC\nGG\n>b\nTTT\n");
    source regions = {.path = fasta, .opts = &opts};
    expect_fills_from(&regions);
    filled = letters_of(&regions, 3);
    ck_assert_str_eq(filled.letters.bytes, "CGTTGC\nTTT\nACGTTGCAACGG\n");
    kmf_free(filled.letters.bytes);
    free(sam.bytes);
}
END_TEST

/* What a record's tiles are by their definition: one after another, until one ends with it. */
static void add_tiles(text *t, const char *name, const char *seq, size_t tile, size_t step)
{
    size_t len = strlen(seq);
    if (len == 0)
        add_record(t, name, seq);
    for (size_t beg = 0, end = 0; end < len; beg += step) {
        char place[100];
        char bases[1000];
        end = beg + tile > len ? len : beg + tile;
        snprintf(place, sizeof place, "%s:%zu-%zu", name, beg + 1, end);
        snprintf(bases, sizeof bases, "%.*s", (int)(end - beg), seq + beg);
        add_record(t, place, bases);
    }
}

START_TEST(tiles_are_pieces_of_their_records)
{
    kmf_rng rng = kmf_rng_stream(7, 1);
    for (int round = 0; round < 200; round++) {
        text in = {0}, want = {0}, got = {0};
        kmf_err err = {0};
        kmf_reader_options opts = reader_options();
        opts.tile = 1 + kmf_rng_below(&rng, 40);
        opts.tile_step = kmf_rng_below(&rng, opts.tile + 1);
        for (uint64_t i = kmf_rng_below(&rng, 6); i > 0; i--) {
            char name[32];
            char seq[200];
            size_t len = kmf_rng_below(&rng, i % 2 ? 5 : 150);
            for (size_t j = 0; j < len; j++)
                seq[j] = "ACGTN"[kmf_rng_below(&rng, 5)];
            seq[len] = '\0';
            snprintf(name, sizeof name, "r%d:%d-3", round, (int)i);
            add(&in, ">");
            add(&in, name);
            add(&in, " more\n");
            add(&in, seq);
            add(&in, "\n");
            add_tiles(&want, name, seq, opts.tile, opts.tile_step ? opts.tile_step : opts.tile);
        }
        add(&in, "\n");
        add(&want, "");
        source tiles = {.path = write_bytes("x.fa", in.bytes, in.len), .opts = &opts};
        kmf_reader *reader = kmf_reader_open(tiles.path, &opts, NULL, &err);
        ck_assert_msg(reader != NULL, "%s", err.msg);
        ck_assert_int_eq(kmf_reader_file(reader), -1);
        ck_assert_msg(drain(reader, &got, &err) == 0, "%s", err.msg);
        kmf_reader_close(reader);
        add(&got, "");
        ck_assert_str_eq(got.bytes, want.bytes);
        expect_fills_from(&tiles);
        free(in.bytes);
        free(want.bytes);
        free(got.bytes);
    }
}
END_TEST

/* Of a contig that is read at once, too, and of the one behind it. */
START_TEST(the_share_of_a_file_follows_its_tiles)
{
    enum { TILES = 300, LETTERS = 20000 };
    static char bases[LETTERS];
    text fasta = {0};
    kmf_err err = {0};
    kmf_record rec;
    kmf_reader_stats stats;
    memset(bases, 'C', sizeof bases);
    for (int i = 0; i < TILES; i++) {
        if (i % (TILES * 2 / 3) == 0)
            add(&fasta, i ? "\n>b\n" : ">a\n");
        add_bytes(&fasta, bases, LETTERS);
    }
    add(&fasta, "\n");
    kmf_reader_options opts = reader_options();
    opts.tile = LETTERS;
    const char *path = write_bytes("x.fa", fasta.bytes, fasta.len);
    kmf_reader *reader = kmf_reader_open(path, &opts, NULL, &err);
    ck_assert_msg(reader != NULL, "%s", err.msg);
    for (int i = 1; i <= TILES; i++) {
        ck_assert_int_eq(kmf_reader_next(reader, &rec, &err), 1);
        kmf_reader_statistics(reader, &stats);
        ck_assert_double_eq_tol(stats.share, (double)i / TILES, 0.1);
    }
    ck_assert_double_eq_tol(stats.share, 1, 1e-9);
    kmf_reader_close(reader);
    free(fasta.bytes);
}
END_TEST

START_TEST(tiles_that_would_lose_bases_are_refused)
{
    static const size_t wrong[][2] = {{0, 1}, {3, 4}, {1, SIZE_MAX}};
    const char *path = write_text("x.fa", ">a\nACGTTGCA\n");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        kmf_err err = {0};
        kmf_reader_options opts = reader_options();
        opts.tile = wrong[i][0];
        opts.tile_step = wrong[i][1];
        ck_assert_ptr_null(kmf_reader_open(path, &opts, NULL, &err));
        ck_assert_int_eq(err.code, KMF_EINVAL);
    }
}
END_TEST

/* ---------------------------------------------------------------- damage ------------------ */

/* text [n] as a gzip file that stores it, with the checksum of `sum` [n]; n below 200. */
static size_t store(unsigned char *file, const char *letters, const char *sum, size_t n)
{
    static const unsigned char header[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1};
    uint32_t check = (uint32_t)crc32(0, (const Bytef *)sum, (uInt)n);
    unsigned char *p = file;
    memcpy(p, header, sizeof header);
    p += sizeof header;
    *p++ = (unsigned char)n;
    *p++ = 0;
    *p++ = (unsigned char)~n;
    *p++ = 255;
    memcpy(p, letters, n);
    p += n;
    for (int i = 0; i < 4; i++)
        *p++ = (unsigned char)(check >> 8 * i);
    *p++ = (unsigned char)n;
    memset(p, 0, 3);
    return (size_t)(p + 3 - file);
}

/* What a damaged byte makes of a record is not blamed on the record. */
START_TEST(nonsense_out_of_damaged_data_is_told_as_damage)
{
    static const char sound[] = ">a\nACGT\nACGT\n>b\nAC\n";
    static const struct {
        size_t at;
        char letter;
        const char *told; /* where the data is not damaged */
    } wrong[] = {
        {0, 'X', "not FASTA"}, {8, '@', "a FASTQ record"}, {9, '!', "unexpected byte"}};
    unsigned char file[256];
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        for (int damaged = 0; damaged < 2; damaged++) {
            char letters[sizeof sound];
            text out = {0};
            kmf_err err = {0};
            memcpy(letters, sound, sizeof sound);
            letters[wrong[i].at] = wrong[i].letter;
            size_t n = store(file, letters, damaged ? sound : letters, strlen(sound));
            add(&out, "");
            ck_assert_int_eq(read_memory((char *)file, n, 0, &out, &err), KMF_EFORMAT);
            ck_assert_msg(strstr(err.msg, damaged
                                              ? "the checksum of the compressed data is wrong"
                                              : wrong[i].told),
                          "%s", err.msg);
            free(out.bytes);
        }
}
END_TEST

START_TEST(truncated_compressed_input_is_refused_after_the_sound_records)
{
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
                expect_fills_from(
                    &(source){.bytes = packed.bytes, .n = cuts[c], .threads = threads});
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
}
END_TEST

START_TEST(a_bgzf_file_cut_between_two_blocks_is_refused)
{
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
}
END_TEST

START_TEST(flipped_bits_in_compressed_input_are_found)
{
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
            if (i < 20)
                expect_fills(packed.bytes, packed.len);
            packed.bytes[at] ^= bit;
            free(out.bytes);
        }
        free(packed.bytes);
    }
    free(in.bytes);
    free(expected.bytes);
}
END_TEST

/* ---------------------------------------------------------------- streams and failures ---- */

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
}
END_TEST

/* By whose time is told: the share of the bytes is about that of the records before. */
START_TEST(the_share_of_a_file_follows_its_records)
{
    enum { RECORDS = 60000, LETTERS = 150 };
    static const char *const names[] = {"x.fa", "x.fa.gz", "y.fa.gz"};
    char seq[LETTERS + 1];
    char name[32];
    text fasta = {0};
    uint64_t draw = 1;
    for (int i = 0; i < RECORDS; i++) {
        for (int j = 0; j < LETTERS; j++, draw = draw * 6364136223846793005U + 1)
            seq[j] = "ACGT"[draw >> 62];
        seq[LETTERS] = '\0';
        snprintf(name, sizeof name, ">r%d\n", i);
        add(&fasta, name);
        add(&fasta, seq);
        add(&fasta, "\n");
    }
    text files[] = {fasta, gzipped(fasta.bytes, fasta.len), bgzipped(fasta.bytes, fasta.len)};
    for (int f = 0; f < 3; f++) {
        const char *path = write_bytes(names[f], files[f].bytes, files[f].len);
        for (int threads = 0; threads <= 2; threads += 2) {
            kmf_err err = {0};
            kmf_record rec;
            kmf_reader_stats stats;
            kmf_pool *pool = threads ? kmf_pool_new(threads, &err) : NULL;
            kmf_reader *reader = kmf_reader_open(path, NULL, pool, &err);
            ck_assert_msg(reader != NULL, "%s", err.msg);
            for (int i = 0; i < RECORDS; i++) {
                ck_assert_int_eq(kmf_reader_next(reader, &rec, &err), 1);
                kmf_reader_statistics(reader, &stats);
                double share = stats.share;
                double right = (double)i / RECORDS;
                ck_assert_msg(share >= 0 && share <= 1 && fabs(share - right) < 0.2,
                              "%s, %d threads: %g after %d records", path, threads, share, i);
            }
            kmf_reader_close(reader);
            kmf_pool_free(pool);
        }
    }
    kmf_err err = {0};
    kmf_reader_stats stats;
    kmf_record rec;
    kmf_reader_options opts = reader_options();
    opts.regions = "r1";
    kmf_reader *regions = kmf_reader_open(in_dir("x.fa"), &opts, NULL, &err);
    ck_assert_msg(regions && kmf_reader_next(regions, &rec, &err) == 1, "%s", err.msg);
    kmf_reader_statistics(regions, &stats);
    ck_assert_double_eq(stats.share, 0);
    kmf_reader_close(regions);
    for (int f = 0; f < 3; f++)
        free(files[f].bytes);
}
END_TEST

/* The records of a file of 1000 of them, of which `then` are there once one was read. */
static int read_while_it_changes(uint64_t *n_records, unsigned then, kmf_err *err)
{
    text in = {0};
    kmf_record rec;
    kmf_reader_stats stats;
    char letters[1001];
    memset(letters, 'A', 1000);
    letters[1000] = '\0';
    for (unsigned i = 0; i < (then > 1000 ? then : 1000); i++) {
        add(&in, ">r\n");
        add(&in, letters);
        add(&in, "\n");
    }
    const size_t each = 1004;
    const char *path = write_bytes("x.fa", in.bytes, 1000 * each);
    kmf_reader *r = kmf_reader_open(path, NULL, NULL, err);
    ck_assert_int_eq(kmf_reader_next(r, &rec, err), 1);
    if (then <= 1000)
        ck_assert_int_eq(truncate(path, (off_t)(then * each)), 0);
    else
        write_bytes("x.fa", in.bytes, then * each);
    int status;
    while ((status = kmf_reader_next(r, &rec, err)) > 0)
        ck_assert_uint_eq(rec.len, 1000);
    if (status < 0)
        ck_assert_int_eq(kmf_reader_next(r, &rec, NULL), status);
    kmf_reader_statistics(r, &stats);
    *n_records = stats.records;
    kmf_reader_close(r);
    free(in.bytes);
    return status;
}

START_TEST(a_file_that_becomes_shorter_while_it_is_read_is_refused)
{
    kmf_err err = {0};
    uint64_t n = 0;
    ck_assert_int_eq(read_while_it_changes(&n, 500, &err), KMF_EIO);
    ck_assert_uint_eq(n, 500);
    ck_assert_ptr_nonnull(strstr(err.msg, "/x.fa: the file became shorter while it was read"));
    err = (kmf_err){0};
    ck_assert_int_eq(read_while_it_changes(&n, 1000, &err), 0);
    ck_assert_uint_eq(n, 1000);
    ck_assert_int_eq(read_while_it_changes(&n, 1200, &err), 0);
    ck_assert_uint_eq(n, 1200);
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

static void fill_fails_everywhere(const char *path)
{
    bool reached = true;
    for (size_t n = 1; reached; n++) {
        kmf_err err = {0};
        kmf_text portion = {0};
        kmf_mem_fail_at(n);
        kmf_reader *reader = kmf_reader_open(path, NULL, NULL, &err);
        int status = reader ? 1 : err.code;
        while (status > 0) {
            status = kmf_reader_fill(reader, &portion, 1000, &err);
            portion.len = 0;
        }
        reached = failed_at(n);
        kmf_reader_close(reader);
        kmf_free(portion.bytes);
        ck_assert_int_eq(status, reached ? KMF_ENOMEM : 0);
    }
}

START_TEST(any_failing_allocation_is_reported_and_nothing_leaks)
{
    text in = {0};
    text expected = {0};
    state = 3;
    random_fasta(&in, &expected, 40);
    text gz = gzipped(in.bytes, in.len);
    const char *path = write_bytes("x.fa.gz", gz.bytes, gz.len);
    const kmf_reader_options named = {.input_names = 1};
    for (int threads = 0; threads < 2; threads++) {
        fail_everywhere(path, NULL, threads);
        fail_everywhere(path, &named, threads);
    }
    fill_fails_everywhere(path);
    text fastq = {0};
    random_fastq(&fastq, &expected, 40);
    fill_fails_everywhere(write_bytes("x.fq", fastq.bytes, fastq.len));
    free(fastq.bytes);
    text sam = alignments();
    fill_fails_everywhere(write_bytes("x.sam", sam.bytes, sam.len));
    free(sam.bytes);
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

int main(void)
{
    TCase *tc = untimed_case();
    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_add_test(tc, random_fasta_and_fastq_are_read_alike_from_every_container);
    tcase_add_test(tc, a_line_end_may_fall_anywhere_on_the_border_of_a_block);
    tcase_add_test(tc, a_block_may_end_anywhere_in_a_short_read_or_line);
    tcase_add_test(tc, a_text_holds_a_line_of_many_blocks_in_portions);
    tcase_add_test(tc, alignments_and_regions_are_read_as_a_text_too);
    tcase_add_test(tc, tiles_are_pieces_of_their_records);
    tcase_add_test(tc, the_share_of_a_file_follows_its_tiles);
    tcase_add_test(tc, tiles_that_would_lose_bases_are_refused);
    tcase_add_test(tc, truncated_compressed_input_is_refused_after_the_sound_records);
    tcase_add_test(tc, nonsense_out_of_damaged_data_is_told_as_damage);
    tcase_add_test(tc, a_bgzf_file_cut_between_two_blocks_is_refused);
    tcase_add_test(tc, flipped_bits_in_compressed_input_are_found);
    tcase_add_test(tc, files_that_cannot_be_opened_are_named_with_the_reason);
    tcase_add_test(tc, standard_input_is_read_from_a_pipe);
    tcase_add_test(tc, the_share_of_a_file_follows_its_records);
    tcase_add_test(tc, a_file_that_becomes_shorter_while_it_is_read_is_refused);
    tcase_add_test(tc, a_reader_can_be_closed_before_the_end);
    tcase_add_test(tc, any_failing_allocation_is_reported_and_nothing_leaks);
    tcase_add_test(tc, real_reads_have_the_records_and_bases_of_their_table);
    return run_case("seqio", tc);
}
