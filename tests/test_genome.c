/* SPDX-License-Identifier: MIT */
/*
 * Second source: records kept as text, cut by a loop that looks at one letter at a time.
 */
#include "learn/genome.h"

#include "base/mem.h"
#include "base/rng.h"
#include "checked.h"
#include "run.h"
#include "seqfiles.h"

#include <ctype.h>
#include <math.h>

#define RECORDS 12

/* ---------------------------------------------------------------- the twin -------------- */

/* One part: what its corpus must hold. */
typedef struct naive {
    uint8_t *letters; /* owned */
    uint8_t *soft;    /* owned */
    uint64_t *starts; /* owned */
    kmf_genome_part_info info;
} naive;

static int code_of(char letter)
{
    switch (toupper((unsigned char)letter)) {
    case 'A':
        return 0;
    case 'C':
        return 1;
    case 'G':
        return 2;
    case 'T':
    case 'U':
        return 3;
    default:
        return -1;
    }
}

static void naive_clear(naive *n)
{
    free(n->letters);
    free(n->soft);
    free(n->starts);
    *n = (naive){0};
}

/* Returns how many letters are no bases. */
static uint64_t naive_add(naive *n, const char *seq, size_t len, size_t shortest, bool soft)
{
    uint64_t others = 0;
    n->letters = realloc(n->letters, n->info.kept + len + 1);
    n->soft = realloc(n->soft, n->info.kept + len + 1);
    n->starts = realloc(n->starts, (n->info.segments + len + 1) * sizeof *n->starts);
    for (size_t i = 0; i < len; i++) {
        if (code_of(seq[i]) < 0) {
            others++;
            continue;
        }
        size_t end = i;
        while (end < len && code_of(seq[end]) >= 0)
            end++;
        if (end - i < shortest) {
            n->info.too_short += end - i;
            i = end - 1;
            continue;
        }
        n->starts[n->info.segments++] = n->info.kept;
        for (; i < end; i++) {
            n->letters[n->info.kept] = (uint8_t)code_of(seq[i]);
            n->soft[n->info.kept] = soft && islower((unsigned char)seq[i]);
            n->info.soft += n->soft[n->info.kept++];
        }
        i--;
    }
    return others;
}

static void compare_part(const kmf_genome *genome, kmf_genome_part part, const naive *n,
                         kmf_rng *rng)
{
    const kmf_corpus *corpus = kmf_genome_corpus(genome, part);
    kmf_genome_info info;
    kmf_corpus_info corpus_info;
    kmf_genome_information(genome, &info);
    kmf_corpus_information(corpus, &corpus_info);
    ck_assert_uint_eq(info.parts[part].kept, n->info.kept);
    ck_assert_uint_eq(info.parts[part].segments, n->info.segments);
    ck_assert_uint_eq(info.parts[part].too_short, n->info.too_short);
    ck_assert_uint_eq(info.parts[part].soft, n->info.soft);
    ck_assert_uint_eq(corpus_info.kept, n->info.kept);
    ck_assert_uint_eq(corpus_info.segments, n->info.segments);
    size_t wrong = 0;
    for (uint64_t s = 0; s < n->info.segments; s++)
        wrong += kmf_corpus_start(corpus, s) != n->starts[s];
    ck_assert_uint_eq(wrong, 0);
    uint8_t *got = malloc(n->info.kept + 1);
    kmf_corpus_letters(corpus, got, 0, n->info.kept);
    ck_assert(n->info.kept == 0 || memcmp(got, n->letters, n->info.kept) == 0);
    kmf_genome_soft(genome, part, got, 0, n->info.kept);
    ck_assert(n->info.kept == 0 || memcmp(got, n->soft, n->info.kept) == 0);
    for (int i = 0; i < 300 && n->info.kept > 0; i++) {
        uint64_t at = kmf_rng_below(rng, n->info.kept);
        size_t m = (size_t)kmf_rng_below(rng, n->info.kept - at + 1);
        kmf_genome_soft(genome, part, got, at, m);
        wrong += m > 0 && memcmp(got, n->soft + at, m) != 0;
    }
    ck_assert_uint_eq(wrong, 0);
    free(got);
}

/* ---------------------------------------------------------------- records --------------- */

/* Runs of bases of about `run` letters, of either case in stretches; others between them. */
static char *random_seq(size_t len, size_t run, kmf_rng *rng)
{
    char *seq = malloc(len + 1);
    bool lower = false;
    for (size_t i = 0; i < len; i++) {
        uint64_t x = kmf_rng_next(rng);
        lower ^= x % 23 == 0;
        char letter = "ACGTACGTACGTACGU"[x >> 60];
        if ((x >> 8) % run == 0)
            letter = "NNNNNRYKMSW"[(x >> 40) % 11];
        seq[i] = lower ? (char)tolower((unsigned char)letter) : letter;
    }
    seq[len] = '\0';
    return seq;
}

typedef struct records {
    char *seqs[RECORDS]; /* owned */
    size_t n;
} records;

static records some_records(kmf_rng *rng, size_t run)
{
    static const size_t lens[RECORDS] = {0, 1, 2, 3, 10, 99, 100, 1000, 7, 5000, 333, 64};
    records r = {.n = RECORDS};
    for (size_t i = 0; i < RECORDS; i++)
        r.seqs[i] = random_seq(lens[i], run, rng);
    return r;
}

static void free_records(records *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->seqs[i]);
}

/* Names r0, r1, ..., each followed by more words; lines of 60 letters. */
static text fasta(const records *r, size_t beg, size_t end)
{
    text t = {0};
    char header[64];
    for (size_t i = beg; i < end; i++) {
        snprintf(header, sizeof header, ">r%zu r%zu of a test\n", i, i + 1);
        add(&t, header);
        size_t len = strlen(r->seqs[i]);
        for (size_t at = 0; at < len; at += 60) {
            add_bytes(&t, r->seqs[i] + at, len - at < 60 ? len - at : 60);
            add(&t, "\n");
        }
    }
    return t;
}

static int read_text(kmf_genome *genome, const char *bytes, size_t len, bool held_whole,
                     kmf_err *err)
{
    kmf_reader *reader = kmf_reader_open_memory(bytes, len, NULL, err);
    ck_assert_ptr_nonnull(reader);
    int status = kmf_genome_read(genome, reader, held_whole, NULL, NULL, err);
    kmf_reader_close(reader);
    return status;
}

static int read_fasta(kmf_genome *genome, const char *file, bool held_whole, kmf_err *err)
{
    return read_text(genome, file, strlen(file), held_whole, err);
}

static kmf_genome *genome_of(const char *const *held, size_t n_held, double fraction)
{
    kmf_genome_options opts;
    kmf_err err = {0};
    kmf_genome_options_default(&opts);
    opts.held = held;
    opts.n_held = n_held;
    opts.fraction = fraction;
    opts.soft = true;
    kmf_genome *genome = kmf_genome_new(&opts, &err);
    ck_assert_msg(genome != NULL, "%s", err.msg);
    return genome;
}

/* ---------------------------------------------------------------- parts ----------------- */

/*
 * r5 and r9 are held out by name, the last two records by their input, the rest in part. Two
 * readers, so that inputs add up.
 */
static void check_parts(double fraction, size_t shortest, bool soft, size_t run)
{
    static const char *const held[] = {"r9", "r5"};
    kmf_rng rng = kmf_rng_stream(shortest, run);
    records r = some_records(&rng, run);
    naive parts[KMF_GENOME_PARTS] = {{0}};
    kmf_genome_info info;
    kmf_genome_options opts;
    kmf_err err = {0};
    uint64_t others = 0;
    uint64_t letters = 0;
    kmf_genome_options_default(&opts);
    opts = (kmf_genome_options){.held = held,
                                .n_held = 2,
                                .fraction = fraction,
                                .shortest = shortest,
                                .memory = opts.memory,
                                .soft = soft};
    kmf_genome *genome = kmf_genome_new(&opts, &err);
    ck_assert_ptr_nonnull(genome);
    text one = fasta(&r, 0, RECORDS - 2);
    text two = fasta(&r, RECORDS - 2, RECORDS);
    ck_assert_int_eq(read_text(genome, one.bytes, one.len, false, &err), 0);
    ck_assert_int_eq(read_text(genome, two.bytes, two.len, true, &err), 0);
    ck_assert_msg(kmf_genome_finish(genome, &err) == 0, "%s", err.msg);
    for (size_t i = 0; i < RECORDS; i++) {
        size_t len = strlen(r.seqs[i]);
        bool whole = i == 5 || i == 9 || i >= RECORDS - 2;
        size_t out = whole ? len : (size_t)floor(fraction * (double)len);
        others += naive_add(&parts[KMF_GENOME_TRAIN], r.seqs[i], len - out, shortest, soft);
        others +=
            naive_add(&parts[KMF_GENOME_HELD], r.seqs[i] + len - out, out, shortest, soft);
        letters += len;
    }
    kmf_genome_information(genome, &info);
    ck_assert_uint_eq(info.inputs, 2);
    ck_assert_uint_eq(info.records, RECORDS);
    ck_assert_uint_eq(info.held_records, 4);
    ck_assert_uint_eq(info.letters, letters);
    ck_assert_uint_eq(info.ambiguous, others);
    compare_part(genome, KMF_GENOME_TRAIN, &parts[KMF_GENOME_TRAIN], &rng);
    compare_part(genome, KMF_GENOME_HELD, &parts[KMF_GENOME_HELD], &rng);
    kmf_genome_free(genome);
    naive_clear(&parts[0]);
    naive_clear(&parts[1]);
    free_records(&r);
    free(one.bytes);
    free(two.bytes);
}

START_TEST(parts_are_those_of_a_naive_cut)
{
    static const double fractions[] = {0, 0.001, 0.1, 0.37, 0.5};
    for (size_t f = 0; f < sizeof fractions / sizeof fractions[0]; f++)
        for (size_t shortest = 1; shortest <= 200; shortest = 3 * shortest + 1)
            for (size_t run = 5; run < 1000; run *= 9) {
                if (shortest > 20 && run < 100)
                    continue; /* nothing would be left */
                check_parts(fractions[f], shortest, run != 45, run);
            }
}
END_TEST

START_TEST(a_small_genome_is_cut_as_by_hand)
{
    /* a: 19 letters, of which the last 5, GTTTT, are held out; b: held out by name */
    static const char file[] = ">a x\nACGTNNacgtuRA\nCGTTTT\n>b\nGGccAANT\n>c\nNNNN\n";
    static const char *const held[] = {"b"};
    static const uint8_t train[] = {0, 1, 2, 3, 0, 1, 2, 3, 3, 0, 1};
    static const uint8_t train_soft[] = {0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0};
    static const uint8_t out[] = {2, 3, 3, 3, 3, 2, 2, 1, 1, 0, 0};
    static const uint8_t out_soft[] = {0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0};
    uint8_t got[16];
    kmf_err err = {0};
    kmf_genome_info info;
    kmf_genome_options opts;
    kmf_genome_options_default(&opts);
    opts = (kmf_genome_options){
        .held = held, .n_held = 1, .fraction = 0.3, .shortest = 2, .soft = true};
    kmf_genome *genome = kmf_genome_new(&opts, &err);
    ck_assert_int_eq(read_fasta(genome, file, false, &err), 0);
    ck_assert_int_eq(kmf_genome_finish(genome, &err), 0);
    kmf_genome_information(genome, &info);
    ck_assert_uint_eq(info.letters, 31);
    ck_assert_uint_eq(info.ambiguous, 2 + 1 + 1 + 4);
    ck_assert_uint_eq(info.parts[KMF_GENOME_TRAIN].kept, sizeof train);
    ck_assert_uint_eq(info.parts[KMF_GENOME_TRAIN].segments, 3);
    ck_assert_uint_eq(info.parts[KMF_GENOME_TRAIN].too_short, 0);
    ck_assert_uint_eq(info.parts[KMF_GENOME_TRAIN].soft, 5);
    ck_assert_uint_eq(info.parts[KMF_GENOME_HELD].kept, sizeof out);
    ck_assert_uint_eq(info.parts[KMF_GENOME_HELD].segments, 2);
    ck_assert_uint_eq(info.parts[KMF_GENOME_HELD].too_short, 1);
    kmf_corpus_letters(kmf_genome_corpus(genome, KMF_GENOME_TRAIN), got, 0, sizeof train);
    ck_assert_mem_eq(got, train, sizeof train);
    kmf_genome_soft(genome, KMF_GENOME_TRAIN, got, 0, sizeof train);
    ck_assert_mem_eq(got, train_soft, sizeof train);
    kmf_corpus_letters(kmf_genome_corpus(genome, KMF_GENOME_HELD), got, 0, sizeof out);
    ck_assert_mem_eq(got, out, sizeof out);
    kmf_genome_soft(genome, KMF_GENOME_HELD, got, 0, sizeof out);
    ck_assert_mem_eq(got, out_soft, sizeof out);
    kmf_genome_free(genome);
}
END_TEST

START_TEST(a_genome_without_soft_letters_or_a_held_out_part_is_sound)
{
    kmf_genome_info info;
    kmf_err err = {0};
    uint8_t soft[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    static const uint8_t none[8] = {0};
    kmf_genome *genome = genome_of(NULL, 0, 0);
    ck_assert_int_eq(read_fasta(genome, ">a\nACGTACGT\n", false, &err), 0);
    ck_assert_int_eq(kmf_genome_finish(genome, &err), 0);
    kmf_genome_information(genome, &info);
    ck_assert_uint_eq(info.parts[KMF_GENOME_HELD].kept, 0);
    ck_assert_uint_eq(info.parts[KMF_GENOME_HELD].segments, 0);
    kmf_genome_soft(genome, KMF_GENOME_TRAIN, soft, 0, 8);
    ck_assert_mem_eq(soft, none, 8);
    kmf_genome_free(genome);
    kmf_genome_free(NULL);
}
END_TEST

/* ---------------------------------------------------------------- places ---------------- */

#define CHROMOSOME 60
#define REGIONS 6

/* The place of each base of a region in the chromosome, in the order of the region's letters. */
typedef struct region {
    size_t base[CHROMOSOME];
    size_t n, n_held;
    bool chromosome; /* all of it */
} region;

/* Is a held-out base of it learnt from in any region? Two of its name may be other chromosomes. */
static bool is_shared(const region *own, const region *all)
{
    for (size_t i = own->n - own->n_held; i < own->n; i++)
        for (size_t r = 0; r < REGIONS; r++)
            for (size_t j = 0; j < all[r].n - all[r].n_held; j++)
                if (!(own->chromosome && all[r].chromosome) && all[r].base[j] == own->base[i])
                    return true;
    return false;
}

/* Second source: each base of each region by itself. */
START_TEST(held_out_bases_that_are_learnt_from_in_other_regions_are_counted)
{
    uint64_t met = 0;
    kmf_rng rng = kmf_rng_stream(11, 0);
    for (int round = 0; round < 300; round++) {
        region regions[REGIONS] = {0};
        kmf_genome_info info;
        kmf_err err = {0};
        uint64_t want = 0;
        double fraction = round % 3 * 0.2;
        kmf_genome *genome = genome_of(NULL, 0, fraction);
        for (size_t r = 0; r < REGIONS; r++) {
            region *own = &regions[r];
            char name[32], letters[CHROMOSOME + 1] = "";
            size_t beg = 1 + (size_t)kmf_rng_below(&rng, CHROMOSOME - 20);
            bool reverse = kmf_rng_below(&rng, 2) == 1;
            bool whole = r > 0 && kmf_rng_below(&rng, 4) == 0;
            own->chromosome = kmf_rng_below(&rng, 20) == 0;
            own->n = 1 + (size_t)kmf_rng_below(&rng, 15);
            if (own->chromosome) {
                beg = 1;
                own->n = CHROMOSOME;
            }
            reverse = reverse && !own->chromosome;
            own->n_held = whole ? own->n : (size_t)(fraction * (double)own->n);
            for (size_t i = 0; i < own->n; i++)
                own->base[i] = reverse ? beg + own->n - 1 - i : beg + i;
            memset(letters, 'A', own->n);
            snprintf(name, sizeof name, "c:%zu-%zu%s", beg, beg + own->n - 1,
                     reverse ? "(-)" : "");
            if (own->chromosome)
                snprintf(name, sizeof name, "c");
            ck_assert_int_eq(kmf_genome_add(genome, name, letters, own->n, whole, &err), 0);
        }
        for (size_t r = 0; r < REGIONS; r++)
            want += is_shared(&regions[r], regions);
        kmf_genome_information(genome, &info);
        ck_assert_uint_eq(info.held_shared, 0);
        int status = kmf_genome_finish(genome, &err);
        ck_assert_msg(status == 0 || info.held_records == 0 || err.code == KMF_EINVAL, "%s",
                      err.msg);
        kmf_genome_information(genome, &info);
        ck_assert_uint_eq(info.held_shared, want);
        met += want;
        kmf_genome_free(genome);
    }
    ck_assert_uint_gt(met, 300);
    ck_assert_uint_lt(met, 300 * (uint64_t)REGIONS / 2);
}
END_TEST

/* A name tells a place if it has as many bases as the record; places are of one chromosome. */
START_TEST(names_that_tell_no_place_share_nothing)
{
    static const char *const names[][2] = {
        {"a:1-20", "b:1-20"},   {"a:0-20", "a:10-30"},    {"a:1-21", "a:10-30"},
        {"a:1-20", "a:11-30x"}, {"a:1-20", "a:11-30(+)"}, {"a", "a"},
        {":1-20", ":11-30"},    {"a:1-20", "a:21-40"},    {"a:b:1-20", "b:11-30"},
        {"a", "a:21-40"},       {"a:21-40", "a"},         {"a", "b:1-20"},
        {"b", "a:1-20"},        {"a:1-20", "a:11-30"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        kmf_genome_info info;
        kmf_err err = {0};
        kmf_genome *genome = genome_of(NULL, 0, 0);
        for (int held = 0; held < 2; held++)
            ck_assert_int_eq(kmf_genome_add(genome, names[i][held], "ACGTACGTACGTACGTACGT", 20,
                                            held == 1, &err),
                             0);
        ck_assert_int_eq(kmf_genome_finish(genome, &err), 0);
        kmf_genome_information(genome, &info);
        ck_assert_uint_eq(info.held_shared, i + 1 == sizeof names / sizeof names[0]);
        kmf_genome_free(genome);
    }
}
END_TEST

/* ---------------------------------------------------------------- what may be wrong ----- */

static void assert_finish_fails(kmf_genome *genome, kmf_code code, const char *says)
{
    kmf_err err = {0};
    ck_assert_int_eq(kmf_genome_finish(genome, &err), code);
    ck_assert_int_eq(err.code, code);
    ck_assert_msg(strstr(err.msg, says) != NULL, "'%s' does not say '%s'", err.msg, says);
    kmf_genome_free(genome);
}

START_TEST(a_name_to_hold_out_must_come_once)
{
    static const char file[] = ">chr1 first\nACGTACGT\n>chr2\nACGT\n>chr2 again\nAC\n>\nACGT\n";
    static const char *const names[] = {"chr3", "CHR1", "chr1 first", "chr", "chr2"};
    kmf_err err = {0};
    for (size_t i = 0; i < 5; i++) {
        kmf_genome *genome = genome_of(&names[i], 1, 0);
        ck_assert_int_eq(read_fasta(genome, file, false, &err), 0);
        assert_finish_fails(genome, KMF_EINVAL, names[i]);
    }
    kmf_genome *genome = genome_of(&names[4], 1, 0);
    ck_assert_int_eq(read_fasta(genome, file, false, &err), 0);
    assert_finish_fails(genome, KMF_EINVAL, "2 records");
    static const char *const good[] = {"chr1"};
    genome = genome_of(good, 1, 0);
    ck_assert_int_eq(read_fasta(genome, file, false, &err), 0);
    ck_assert_int_eq(kmf_genome_finish(genome, &err), 0);
    kmf_genome_free(genome);
    genome = genome_of(good, 1, 0);
    ck_assert_int_eq(read_fasta(genome, file, false, &err), 0);
    ck_assert_int_eq(read_fasta(genome, file, true, &err), 0);
    assert_finish_fails(genome, KMF_EINVAL, "2 records are called 'chr1'");
}
END_TEST

START_TEST(nothing_to_train_on_is_an_error_that_says_why)
{
    static const char *const all[] = {"a", "b"};
    kmf_err err = {0};
    kmf_genome *genome = genome_of(NULL, 0, 0);
    assert_finish_fails(genome, KMF_EFORMAT, "no record");
    genome = genome_of(NULL, 0, 0);
    ck_assert_int_eq(read_fasta(genome, ">a\nNNNN\n>b\n\n>c\nRYnn\n", false, &err), 0);
    assert_finish_fails(genome, KMF_EFORMAT,
                        "no run of at least 1 bases A, C, G, T (3 records, 8 letters, of which "
                        "8 are others)");
    genome = genome_of(all, 2, 0);
    ck_assert_int_eq(read_fasta(genome, ">a\nACGT\n>b\nACGT\n", false, &err), 0);
    assert_finish_fails(genome, KMF_EINVAL, "held out");
    genome = genome_of(NULL, 0, 0);
    ck_assert_int_eq(read_fasta(genome, ">a\nACGT\n", true, &err), 0);
    assert_finish_fails(genome, KMF_EFORMAT, "no record but those of inputs that are held out");
    kmf_genome_options opts;
    kmf_genome_options_default(&opts);
    opts.shortest = 100;
    genome = kmf_genome_new(&opts, &err);
    ck_assert_int_eq(read_fasta(genome, ">a\nMKVLAAGILGLLACDEFGHIKTRSTVWY\n", false, &err), 0);
    assert_finish_fails(genome, KMF_EFORMAT, "at least 100 bases");
}
END_TEST

START_TEST(options_out_of_range_are_refused)
{
    static const double fractions[] = {-0.01, 0.51, 1, 1e300, (double)NAN, (double)INFINITY};
    static const char *const twice[] = {"chr2", "chr1", "chr2"};
    kmf_genome_options opts;
    kmf_err err = {0};
    for (size_t i = 0; i < sizeof fractions / sizeof fractions[0]; i++) {
        kmf_genome_options_default(&opts);
        opts.fraction = fractions[i];
        err = (kmf_err){0};
        ck_assert_ptr_null(kmf_genome_new(&opts, &err));
        ck_assert_int_eq(err.code, KMF_EINVAL);
    }
    kmf_genome_options_default(&opts);
    opts.shortest = 0;
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_genome_new(&opts, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    kmf_genome_options_default(&opts);
    opts.held = twice;
    opts.n_held = 3;
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_genome_new(&opts, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.msg, "'chr2' is named twice"));
}
END_TEST

START_TEST(a_reader_that_fails_fails_the_genome)
{
    kmf_err err = {0};
    kmf_genome *genome = genome_of(NULL, 0, 0);
    ck_assert_int_eq(read_fasta(genome, ">a\nACGTACGT\n>b\nACG1\n", false, &err), KMF_EFORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "record 2"));
    kmf_genome_free(genome);
}
END_TEST

/* ---------------------------------------------------------------- the rest -------------- */

static uint32_t checksum_of(const char *file, double fraction, bool soft)
{
    kmf_genome_info info;
    kmf_genome_options opts;
    kmf_genome_options_default(&opts);
    opts.fraction = fraction;
    opts.soft = soft;
    kmf_genome *genome = kmf_genome_new(&opts, NULL);
    ck_assert_int_eq(read_fasta(genome, file, false, NULL), 0);
    ck_assert_int_eq(kmf_genome_finish(genome, NULL), 0);
    kmf_genome_information(genome, &info);
    kmf_genome_free(genome);
    return info.checksum;
}

START_TEST(the_checksum_tells_genomes_apart)
{
    static const struct {
        const char *file;
        double fraction;
        bool soft;
    } genomes[] = {
        {">a\nACGTACGTACGTACGT\n", 0, true},       {">a\nACGTACGTACGTACGA\n", 0, true},
        {">a\nACGTACGTACGTACGT\n", 0.25, true},    {">a\nACGTACGTACGTACGT\n", 0.5, true},
        {">a\nACGTACGT\n>b\nACGTACGT\n", 0, true}, {">a\nACGTACGTACGTACGt\n", 0, true},
        {">a\nacgtacgtacgtacgt\n", 0, true},       {">a\nacgtACGTACGTACGT\n", 0, true},
        {">a\nacgtACGTACGTACGt\n", 0.25, true},    {">a\nacgtACGTACGTacgt\n", 0.25, true},
    };
    enum { N = sizeof genomes / sizeof genomes[0] };
    uint32_t sums[N];
    for (size_t i = 0; i < N; i++) {
        sums[i] = checksum_of(genomes[i].file, genomes[i].fraction, genomes[i].soft);
        ck_assert_uint_eq(checksum_of(genomes[i].file, genomes[i].fraction, genomes[i].soft),
                          sums[i]);
        for (size_t j = 0; j < i; j++)
            ck_assert_uint_ne(sums[i], sums[j]);
    }
    ck_assert_uint_eq(checksum_of(">a\nacgtACGTACGTacgt\n", 0, false), sums[0]);
    ck_assert_uint_eq(checksum_of(">b of it\nACGUACGT\nACGTACGT\n", 0, true), sums[0]);
}
END_TEST

/* ---------------------------------------------------------------- sources --------------- */

/* Where the sources of a part begin, and the end; each letter is of the one that it lies in. */
static void check_sources(const kmf_genome *genome, kmf_genome_part part,
                          const uint64_t *starts, size_t n)
{
    ck_assert_uint_eq(kmf_genome_n_sources(genome, part), n);
    for (size_t s = 0; s <= n; s++)
        ck_assert_uint_eq(kmf_genome_source_start(genome, part, s), starts[s]);
    for (size_t s = 0; s < n; s++)
        for (uint64_t at = starts[s]; at < starts[s + 1]; at++)
            ck_assert_uint_eq(kmf_genome_source(genome, part, at), s);
}

/* Three inputs, of which the second has nothing to keep; of 10 letters 4 are held out. */
START_TEST(sources_are_inputs_or_records)
{
    static const char *const inputs[] = {">a\nACGTACGTAC\n>b\nNNNN\n>c\nGGGGGGGGGGTTTTTTTTTT\n",
                                         ">d\nACN\n>e\nNNNNNNNNNN\n",
                                         ">f\nAC\n>g\nACGTANCGTA\n>h\nACG\n"};
    static const char *const held[] = {"f"};
    static const uint64_t train[2][4] = {{0, 18, 23}, {0, 6, 18, 23}};
    static const uint64_t out[2][4] = {{0, 12, 16}, {0, 4, 12, 16}};
    for (int by = KMF_SOURCES_INPUT; by <= KMF_SOURCES_RECORD; by++) {
        kmf_err err = {0};
        kmf_genome_options opts = {.held = held,
                                   .n_held = 1,
                                   .fraction = 0.4,
                                   .shortest = 4,
                                   .sources = (kmf_sources)by};
        kmf_genome *genome = kmf_genome_new(&opts, &err);
        for (int i = 0; i < 3; i++)
            ck_assert_int_eq(read_fasta(genome, inputs[i], false, &err), 0);
        ck_assert_msg(kmf_genome_finish(genome, &err) == 0, "%s", err.msg);
        size_t n = by == KMF_SOURCES_INPUT ? 2 : 3;
        check_sources(genome, KMF_GENOME_TRAIN, train[by], n);
        check_sources(genome, KMF_GENOME_HELD, out[by], n);
        kmf_genome_free(genome);
    }
}
END_TEST

/* Held out whole, an input is a source of that part alone; records without a reader are one. */
START_TEST(a_source_is_of_the_part_that_it_has_letters_in)
{
    static const uint64_t starts[] = {0, 8, 16}, one[] = {0, 8}, none[] = {0};
    kmf_genome_options opts = {.shortest = 4};
    kmf_genome *genome = kmf_genome_new(&opts, NULL);
    ck_assert_int_eq(read_fasta(genome, ">a\nACGTACGT\n", false, NULL), 0);
    ck_assert_int_eq(read_fasta(genome, ">b\nACGTACGT\n", true, NULL), 0);
    ck_assert_int_eq(read_fasta(genome, ">c\nACGTACGT\n", false, NULL), 0);
    ck_assert_int_eq(kmf_genome_finish(genome, NULL), 0);
    check_sources(genome, KMF_GENOME_TRAIN, starts, 2);
    check_sources(genome, KMF_GENOME_HELD, one, 1);
    kmf_genome_free(genome);
    genome = kmf_genome_new(&opts, NULL);
    ck_assert_int_eq(kmf_genome_add(genome, "a", "ACGT", 4, false, NULL), 0);
    ck_assert_int_eq(kmf_genome_add(genome, "b", "ACGT", 4, false, NULL), 0);
    ck_assert_int_eq(kmf_genome_finish(genome, NULL), 0);
    check_sources(genome, KMF_GENOME_TRAIN, one, 1);
    check_sources(genome, KMF_GENOME_HELD, none, 0);
    kmf_genome_free(genome);
}
END_TEST

START_TEST(soft_letters_take_memory_by_the_interval)
{
    kmf_genome_info info;
    kmf_genome *plain = genome_of(NULL, 0, 0);
    kmf_genome *marked = genome_of(NULL, 0, 0);
    kmf_genome *long_one = genome_of(NULL, 0, 0);
    char *seq = malloc(100001);
    memset(seq, 'A', 100000);
    ck_assert_int_eq(kmf_genome_add(plain, "a", seq, 100000, false, NULL), 0);
    for (size_t i = 0; i < 100000; i += 10)
        seq[i] = 'c';
    ck_assert_int_eq(kmf_genome_add(marked, "a", seq, 100000, false, NULL), 0);
    memset(seq, 'g', 100000);
    for (int i = 0; i < 10; i++) /* ten records, one interval */
        ck_assert_int_eq(kmf_genome_add(long_one, "a", seq, 10000, false, NULL), 0);
    ck_assert_int_eq(kmf_genome_finish(plain, NULL), 0);
    ck_assert_int_eq(kmf_genome_finish(marked, NULL), 0);
    ck_assert_int_eq(kmf_genome_finish(long_one, NULL), 0);
    kmf_genome_information(long_one, &info);
    ck_assert_uint_eq(info.parts[KMF_GENOME_TRAIN].soft, 100000);
    uint64_t more = kmf_genome_bytes(marked) - kmf_genome_bytes(plain);
    ck_assert_uint_ge(more, 10000 * 16);
    ck_assert_uint_lt(more, 10000 * 16 * 2);
    ck_assert_uint_lt(kmf_genome_bytes(long_one), kmf_genome_bytes(plain) + 500);
    ck_assert_uint_ge(kmf_genome_bytes(plain), (1 << 24) / 4);
    kmf_genome_free(plain);
    kmf_genome_free(marked);
    kmf_genome_free(long_one);
    free(seq);
}
END_TEST

static void note_progress(void *user, uint64_t done)
{
    uint64_t *last = user;
    ck_assert_uint_gt(done, *last);
    *last = done;
}

START_TEST(progress_is_told_in_letters)
{
    enum { LEN = 700000, N = 6 };
    uint64_t last = 0;
    text t = {0};
    char *seq = malloc(LEN + 2);
    memset(seq, 'A', LEN);
    seq[LEN] = '\n';
    seq[LEN + 1] = '\0';
    for (int i = 0; i < N; i++) {
        add(&t, ">a\n");
        add(&t, seq);
    }
    kmf_genome *genome = genome_of(NULL, 0, 0);
    kmf_reader *reader = kmf_reader_open_memory(t.bytes, t.len, NULL, NULL);
    ck_assert_int_eq(kmf_genome_read(genome, reader, false, note_progress, &last, NULL), 0);
    ck_assert_uint_gt(last, 3 * LEN);
    ck_assert_uint_le(last, N * LEN);
    kmf_reader_close(reader);
    kmf_genome_free(genome);
    free(t.bytes);
    free(seq);
}
END_TEST

START_TEST(a_genome_larger_than_its_memory_lies_in_a_file)
{
    enum { LEN = 40000000 };
    kmf_genome *genomes[2];
    kmf_genome_info info[2];
    uint8_t some[2][1000];
    kmf_rng rng = kmf_rng_stream(1, 2);
    char *seq = malloc(LEN);
    for (size_t i = 0; i < LEN; i += 32)
        for (uint64_t j = 0, x = kmf_rng_next(&rng); j < 32; j++, x >>= 2)
            seq[i + j] = "ACGT"[x & 3];
    make_dir();
    for (int g = 0; g < 2; g++) {
        kmf_genome_options opts;
        kmf_genome_options_default(&opts);
        opts.fraction = 0.5;
        opts.memory = g ? 1 : 0;
        opts.tmp = dir;
        genomes[g] = kmf_genome_new(&opts, NULL);
        ck_assert_int_eq(kmf_genome_add(genomes[g], "a", seq, LEN, false, NULL), 0);
        ck_assert_int_eq(kmf_genome_finish(genomes[g], NULL), 0);
        kmf_genome_information(genomes[g], &info[g]);
    }
    ck_assert_uint_eq(info[0].checksum, info[1].checksum);
    ck_assert_uint_lt(kmf_genome_bytes(genomes[1]), kmf_genome_bytes(genomes[0]));
    for (int g = 0; g < 2; g++)
        kmf_corpus_letters(kmf_genome_corpus(genomes[g], KMF_GENOME_HELD), some[g],
                           LEN / 2 - 1000, 1000);
    ck_assert_mem_eq(some[0], some[1], 1000);
    kmf_genome_free(genomes[0]);
    kmf_genome_free(genomes[1]);
    ck_assert_int_eq(rmdir(dir), 0); /* its files have no names */
    free(seq);
}
END_TEST

static int make_by(size_t fail_at, kmf_err *err)
{
    static const char file[] = ">a\nACGTACnnACGTttTTACg\n>b\nACGTacgtAC\n";
    static const char *const held[] = {"b", "c"};
    kmf_genome_options opts;
    int status = KMF_ENOMEM;
    kmf_genome_options_default(&opts);
    opts.held = held;
    opts.n_held = 2;
    opts.fraction = 0.3;
    opts.soft = true;
    opts.tmp = "/tmp";
    kmf_reader *reader = kmf_reader_open_memory(file, sizeof file - 1, NULL, NULL);
    kmf_mem_fail_at(fail_at);
    kmf_genome *genome = kmf_genome_new(&opts, err);
    if (genome)
        status = kmf_genome_read(genome, reader, false, NULL, NULL, err);
    if (status == 0)
        status = kmf_genome_add(genome, "c", "ACGTAAacgNNAC", 13, false, err);
    if (status == 0)
        status = kmf_genome_finish(genome, err);
    kmf_genome_free(genome);
    kmf_reader_close(reader);
    return status;
}

START_TEST(every_allocation_may_fail)
{
    kmf_err err = {0};
    size_t failed = 0;
    for (size_t at = 1; make_by(at, &err) != 0; at++, failed++) {
        ck_assert_int_eq(err.code, KMF_ENOMEM);
        err = (kmf_err){0};
    }
    ck_assert_uint_ge(failed, 10);
    kmf_mem_fail_at(0);
}
END_TEST

int main(void)
{
    TCase *c = untimed_case();
    tcase_add_test(c, parts_are_those_of_a_naive_cut);
    tcase_add_test(c, a_small_genome_is_cut_as_by_hand);
    tcase_add_test(c, a_genome_without_soft_letters_or_a_held_out_part_is_sound);
    tcase_add_test(c, held_out_bases_that_are_learnt_from_in_other_regions_are_counted);
    tcase_add_test(c, names_that_tell_no_place_share_nothing);
    tcase_add_test(c, a_name_to_hold_out_must_come_once);
    tcase_add_test(c, nothing_to_train_on_is_an_error_that_says_why);
    tcase_add_test(c, options_out_of_range_are_refused);
    tcase_add_test(c, a_reader_that_fails_fails_the_genome);
    tcase_add_test(c, the_checksum_tells_genomes_apart);
    tcase_add_test(c, sources_are_inputs_or_records);
    tcase_add_test(c, a_source_is_of_the_part_that_it_has_letters_in);
    tcase_add_test(c, soft_letters_take_memory_by_the_interval);
    tcase_add_test(c, progress_is_told_in_letters);
    if (!CHECKED)
        tcase_add_test(c, a_genome_larger_than_its_memory_lies_in_a_file);
    tcase_add_test(c, every_allocation_may_fail);
    return run_case("genome", c);
}
