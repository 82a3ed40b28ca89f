/* SPDX-License-Identifier: MIT */
/*
 * Files read by the embedder against their records added one by one: the same rows, statistics and
 * failures, whether the threads read the file in ranges or not.
 */
#include "base/err.h"
#include "checked.h"
#include "contigs.h"
#include "failing.h"

#include <malloc.h>

#define BEGUN (UINT64_MAX - 1) /* one is read in ranges, and not to its end */

/*
 * The rows of files by both ways, on several threads; either may fail. n_by_ranges: so many of the
 * files are read in ranges to their end, or ANY, or BEGUN.
 */
static void check_both(const char *model, const kmf_embed_options *o, const char *const *files,
                       size_t n, uint64_t fail_at, uint64_t n_by_ranges)
{
    rows one_by_one = {.fail_at = fail_at}, read = {.fail_at = fail_at};
    kmf_embedder *a = embedder_of(model, o, &one_by_one);
    kmf_embedder *b = embedder_of(model, o, &read);
    kmf_err said[2] = {{0}, {0}};
    kmf_embed_stats seen[2];
    int status[2] = {0, 0};
    for (size_t i = 0; i < n && status[0] == 0 && status[1] == 0; i++) {
        kmf_reader_stats stats[2];
        kmf_embedder_source(a, files[i]);
        kmf_embedder_source(b, files[i]);
        status[0] = add_file(a, files[i], &stats[0], &said[0]);
        status[1] = kmf_embedder_read(b, files[i], NULL, &stats[1], &said[1]);
        if (status[0] < 0 || status[1] < 0)
            break; /* a row's failure is told when it is its turn, by either way */
        ck_assert_uint_eq(stats[0].records, stats[1].records);
        ck_assert_uint_eq(stats[0].bases, stats[1].bases);
    }
    if (status[0] == 0)
        status[0] = kmf_embedder_finish(a, &said[0]);
    if (status[1] == 0)
        status[1] = kmf_embedder_finish(b, &said[1]);
    ck_assert_int_eq(status[0], status[1]);
    ck_assert_str_eq(said[0].msg, said[1].msg);
    if (n_by_ranges == BEGUN)
        ck_assert(b->reading && b->n_by_ranges == 0);
    else
        ck_assert(n_by_ranges == ANY || b->n_by_ranges == n_by_ranges);
    kmf_embedder_statistics(a, &seen[0]);
    kmf_embedder_statistics(b, &seen[1]);
    if (status[0] == 0) {
        ck_assert_int_eq(memcmp(&seen[0], &seen[1], sizeof seen[0]), 0);
        ck_assert_uint_eq(one_by_one.text.len, read.text.len);
    }
    /* before a failure as many rows are out as have been worked off */
    size_t len = one_by_one.text.len < read.text.len ? one_by_one.text.len : read.text.len;
    ck_assert(len == 0 || memcmp(one_by_one.text.bytes, read.text.bytes, len) == 0);
    /* afterwards it is as new */
    kmf_embedder_free(a);
    a = embedder_of(model, o, &one_by_one);
    one_by_one.text.len = read.text.len = 0;
    for (int i = 0; i < 2; i++) {
        kmf_embedder *e = i ? b : a;
        for (uint64_t record = 0; record <= o->shard; record++)
            ck_assert_int_eq(kmf_embedder_add(e, "x", "ACGTACGTACGTACGT", 16, NULL), 0);
        ck_assert_int_eq(kmf_embedder_finish(e, NULL), 0);
    }
    ck_assert_uint_gt(read.text.len, 0);
    must_equal(&one_by_one.text, &read.text);
    kmf_embedder_free(a);
    kmf_embedder_free(b);
    free(one_by_one.text.bytes);
    free(read.text.bytes);
}

/* Of one file, which is read in ranges to its end. */
static void check_same(const char *model, const kmf_embed_options *o, const char *file)
{
    check_both(model, o, &file, 1, 0, 1);
}

/* Which is not. */
static void check_usual(const char *model, const kmf_embed_options *o, const char *file)
{
    check_both(model, o, &file, 1, 0, 0);
}

/* ---------------------------------------------------------------- tests ----------------- */

START_TEST(rows_are_those_of_records_added_one_by_one)
{
    for (uint64_t seed = 0; seed < (CHECKED ? 1 : 2); seed++) {
        text t = make_fasta(seed, false);
        const char *fasta = write_bytes("x.fa", t.bytes, t.len);
        const char *const files[] = {fasta, write_text("y.fa", ">small\nACGTACGT\n"), fasta};
        for (int threads = 1; threads <= 3; threads++) {
            kmf_embed_options o = options_of(threads);
            check_both("tnf", &o, files, 3, 0, 2);
            o.norm = KMF_NORM_L2;
            check_same("kmer:3", &o, fasta);
            check_same("kmer:1", &o, fasta);
        }
        kmf_embed_options o = options_of(2);
        check_same("kmer:6", &o, fasta);
        check_usual("kmer:7", &o, fasta);
        free(t.bytes);
    }
}
END_TEST

/* BGZF, which one thread alone would inflate and count, is for several. */
START_TEST(rows_of_gzip_are_the_same)
{
    for (uint64_t seed = 0; seed < (CHECKED ? 1 : 2); seed++) {
        text t = make_fasta(seed, false);
        const char *gz = write_gzip("x.fa.gz", &t);
        const char *bgzf = write_bgzf("y.fa.gz", &t);
        const char *const files[] = {gz, write_text("z.fa", ">small\nACGTACGT\n"), bgzf, gz};
        for (int threads = 2; threads <= 4; threads++) {
            kmf_embed_options o = options_of(threads);
            check_both("tnf", &o, files, 4, 0, 3);
            check_same("kmer:6", &o, gz);
        }
        kmf_embed_options o = options_of(1);
        check_same("tnf", &o, gz);
        check_usual("tnf", &o, bgzf);
        o.threads = 16;
        check_same("tnf", &o, bgzf);
        o.threads = 3;
        check_same("kmer:6", &o, bgzf);
        free(t.bytes);
    }
}
END_TEST

/* Of a file that ends a byte behind a range, with the line end of a contig that began before it. */
START_TEST(a_line_end_may_be_a_range)
{
    text t = {0};
    kmf_rng rng = kmf_rng_stream(45, 0);
    while (t.len < 4 * KMF_RANGE_STEP - 10000)
        add_contig(&t, &rng, "contig", 4000);
    add(&t, ">last\n");
    while (t.len < 4 * KMF_RANGE_STEP)
        add(&t, "A");
    add(&t, "\n");
    const char *fasta = write_bytes("x.fa", t.bytes, t.len);
    kmf_embed_options o = options_of(1);
    check_same("tnf", &o, fasta);
    free(t.bytes);
}
END_TEST

/* CR LF, blank lines, and headers longer than what is looked back for. */
START_TEST(lines_of_other_kinds_are_read)
{
    for (size_t name = 10; name < 4000; name += 1300) {
        text t = {0}, crlf = {0};
        kmf_rng rng = kmf_rng_stream(46, name);
        char *header = malloc(name + 1);
        memset(header, 'A', name);
        header[name] = '\0';
        while (t.len < 4 * KMF_RANGE_STEP) {
            add_contig(&t, &rng, header, 1 + kmf_rng_below(&rng, 12000));
            add(&t, "\n\n");
        }
        for (size_t i = 0; i < t.len; i++)
            add_bytes(&crlf, t.bytes[i] == '\n' ? "\r\n" : t.bytes + i,
                      t.bytes[i] == '\n' ? 2 : 1);
        const char *const files[] = {write_bytes("x.fa", t.bytes, t.len),
                                     write_bytes("y.fa", crlf.bytes, crlf.len)};
        kmf_embed_options o = options_of(2);
        check_both("tnf", &o, files, 2, 0, name < 1000 ? 2 : ANY);
        free(header);
        free(t.bytes);
        free(crlf.bytes);
    }
}
END_TEST

static void fill(text *t, kmf_rng *rng, size_t to)
{
    char letters[1024];
    while (t->len < to) {
        size_t n = to - t->len < sizeof letters ? to - t->len : sizeof letters;
        for (size_t i = 0; i < n; i++)
            letters[i] = "ACGT"[kmf_rng_below(rng, 4)];
        add_bytes(t, letters, n);
    }
}

/* Lines as long as contigs; `middle` begins d bytes behind the end of the first range. */
static text at_border(const char *middle, int d, size_t len)
{
    text t = {0};
    kmf_rng rng = kmf_rng_stream(45, 0);
    add(&t, ">a\n");
    fill(&t, &rng, (size_t)((int)KMF_RANGE_STEP + d));
    add(&t, middle);
    fill(&t, &rng, len);
    add(&t, "\n");
    return t;
}

START_TEST(a_record_may_begin_anywhere_at_a_border)
{
    kmf_embed_options o = options_of(1);
    for (int d = -12; d <= 4; d++) {
        text t = at_border("\n>b\n", d, 3 * KMF_RANGE_STEP + 1000);
        const char *fasta = write_bytes("x.fa", t.bytes, t.len);
        check_same("tnf", &o, fasta);
        free(t.bytes);
    }
}
END_TEST

START_TEST(a_long_header_at_a_border_is_no_sequence)
{
    kmf_embed_options o = options_of(1);
    for (size_t len = 3000; len <= 4000; len += 1000) {
        text name = {0};
        kmf_rng rng = kmf_rng_stream(46, 0);
        add(&name, "\n>");
        fill(&name, &rng, len);
        add(&name, "\n");
        text t = at_border(name.bytes, -1500, 4 * KMF_RANGE_STEP);
        const char *fasta = write_bytes("x.fa", t.bytes, t.len);
        if (len > KMF_RANGE_SEEK + 1500)
            check_usual("tnf", &o, fasta);
        else
            check_same("tnf", &o, fasta);
        free(t.bytes);
        free(name.bytes);
    }
}
END_TEST

/* What malloc gives beyond its order is little, as long as no part takes pages of its own. */
START_TEST(a_batch_takes_what_was_said_before)
{
    for (int i = 0; i < 4; i++) {
        const kmf_batch_shape shape = {.cap_pieces = 90,
                                       .units = 2000,
                                       .cap_units = 3000,
                                       .dim = 7,
                                       .ids = i % 2 == 1,
                                       .per_token = i / 2 == 1};
        kmf_batch *b = kmf_batch_new(&shape, NULL);
        ck_assert_ptr_nonnull(b);
        void *const parts[] = {b,       b->pieces, b->ids,     b->real, b->pos,     b->off,
                               b->rows, b->sums,   b->letters, b->sum,  b->row_pos, b->vector};
        size_t n = sizeof parts / sizeof parts[0], told = kmf_batch_bytes(&shape), taken = 0;
        for (size_t j = 0; j < n; j++)
            taken += malloc_usable_size(parts[j]);
        ck_assert_msg(told <= taken && taken <= told + n * 64, "%zu, and %zu", told, taken);
        kmf_batch_free(b);
    }
}
END_TEST

START_TEST(a_batch_makes_room_for_pieces)
{
    kmf_batch_shape shape = kmf_batch_choose(4096, 4096, 3, false);
    kmf_batch *b = kmf_batch_new(&shape, NULL);
    size_t cap = b->cap_pieces;
    ck_assert(kmf_batch_reserve(b, cap, cap));
    ck_assert(b->cap_pieces == cap && b->cap_sums == cap);
    ck_assert(kmf_batch_reserve(b, cap + 1, 1));
    ck_assert(b->cap_pieces == cap + 1 && b->cap_sums == cap);
    ck_assert(kmf_batch_reserve(b, cap + 2, cap + 2));
    ck_assert(b->cap_pieces == cap + 2 && b->cap_sums == cap + 2);
    for (size_t i = 0; i <= cap; i++)
        kmf_batch_place_letters(b, 2 * i, 1, 1);
    ck_assert_uint_eq(b->n_pieces, cap + 1);
    ck_assert_uint_eq(b->n_units, 2 * cap + 1);
    kmf_batch_free(b);
}
END_TEST

START_TEST(many_threads_take_their_turns)
{
    text t = make_fasta(3, false);
    const char *fasta = write_bytes("x.fa", t.bytes, t.len);
    kmf_embed_options o = options_of(16);
    for (int i = 0; i < 3; i++)
        check_same("tnf", &o, fasta);
    free(t.bytes);
}
END_TEST

START_TEST(rows_of_vectors_are_the_same)
{
    text t = make_fasta(7, false);
    const char *fasta = write_bytes("x.fa", t.bytes, t.len);
    const char *vectors = save_vectors(1);
    kmf_embed_options o = options_of(2);
    check_same(vectors, &o, fasta);
    o.k = 3;
    check_same(vectors, &o, fasta);
    o.weights = KMF_WEIGHTS_SIF;
    check_usual(vectors, &o, fasta);
    o = options_of(3);
    o.stride = 2;
    check_usual(vectors, &o, fasta);
    free(t.bytes);
}
END_TEST

static uint64_t exact_letters(const char *model, const kmf_embed_options *o)
{
    rows none = {0};
    kmf_embedder *e = embedder_of(model, o, &none);
    uint64_t n = e->method->exact_letters;
    kmf_embedder_free(e);
    return n;
}

/* Numbers of 2^24 units stay below 2^53 in 2^29 words; a letter begins a word of each length. */
START_TEST(sums_are_exact_up_to_so_many_letters)
{
    const char *vectors = save_vectors(1);
    kmf_embed_options o = options_of(1);
    ck_assert_uint_eq(exact_letters("kmer:2", &o), (uint64_t)1 << 53);
    ck_assert_uint_eq(exact_letters(vectors, &o), (uint64_t)1 << 28);
    o.k = 2;
    ck_assert_uint_eq(exact_letters(vectors, &o), (uint64_t)1 << 29);
}
END_TEST

/* Strands, shards, strictness and batches, some of which ranges are not for. */
START_TEST(rows_by_other_options_are_the_same)
{
    text t = make_fasta(3, false);
    const char *fasta = write_bytes("x.fa", t.bytes, t.len);
    kmf_embed_options o = options_of(2);
    o.strand = KMF_STRAND_BOTH;
    check_usual("kmer:3", &o, fasta);
    o.strand = KMF_STRAND_RC;
    check_usual("kmer:3", &o, fasta);
    o = options_of(2);
    o.shard = 1;
    o.n_shards = 3;
    check_usual("tnf", &o, fasta);
    o = options_of(2);
    o.batch_tokens = KMF_RANGE_MOST;
    check_usual("tnf", &o, fasta);
    o.batch_tokens = KMF_RANGE_MOST + 3;
    check_same("tnf", &o, fasta);
    o = options_of(2);
    o.strict = 1; /* an N in the first record */
    check_usual("tnf", &o, fasta);
    o = options_of(2);
    o.ambiguous = KMF_AMBIGUOUS_ERROR;
    check_usual("tnf", &o, fasta);
    free(t.bytes);
}
END_TEST

START_TEST(more_records_than_a_batch_has_room_for_are_read_on)
{
    text t = make_fasta(4, true);
    const char *fasta = write_bytes("x.fa", t.bytes, t.len);
    kmf_embed_options o = options_of(2);
    check_usual("tnf", &o, fasta);
    check_usual("kmer:5", &o, fasta);
    const char *gz = write_gzip("x.fa.gz", &t); /* whose ranges end before there are too many */
    check_same("tnf", &o, gz);
    check_same("kmer:5", &o, gz);
    const char *bgzf = write_bgzf("y.fa.gz", &t); /* where that is a guess */
    check_both("tnf", &o, &bgzf, 1, 0, ANY);
    check_both("kmer:5", &o, &bgzf, 1, 0, ANY);
    free(t.bytes);
}
END_TEST

/* With another byte in a line of letters, `place` fortieths behind the beginning. */
static void check_with_byte(uint64_t seed, char byte, size_t place, int threads)
{
    text t = make_fasta(seed, false);
    size_t at = t.len / 40 * place;
    while (t.bytes[at] == '\n' || t.bytes[at - 1] == '\n')
        at++;
    t.bytes[at] = byte;
    const char *fasta = write_bytes("x.fa", t.bytes, t.len);
    kmf_embed_options o = options_of(threads);
    check_both("tnf", &o, &fasta, 1, 0, BEGUN);
    const char *gz = write_gzip("x.fa.gz", &t);
    o = options_of(2);
    check_both("tnf", &o, &gz, 1, 0, BEGUN);
    const char *bgzf = write_bgzf("y.fa.gz", &t);
    check_both("tnf", &o, &bgzf, 1, 0, BEGUN);
    free(t.bytes);
}

/* In what is out, in what is under way, in the first record. */
START_TEST(faults_are_told_as_by_the_reader)
{
    for (size_t i = 1; i < 40; i += CHECKED ? 14 : 7)
        check_with_byte(5, i % 4 == 1 ? '>' : '1', i, 1 + (int)i % 3);
}
END_TEST

/* What is sound but not for ranges: the records before it are not added twice. */
START_TEST(blanks_in_a_line_are_left_out)
{
    for (size_t i = 1; i < 40; i += CHECKED ? 18 : 9)
        check_with_byte(6, ' ', i, 2);
}
END_TEST

/* Cut off or with a wrong bit, at some places. */
START_TEST(damage_is_told_as_by_the_reader)
{
    text t = make_fasta(5, false);
    text packed = _i ? bgzipped(t.bytes, t.len) : gzipped(t.bytes, t.len);
    kmf_embed_options o = options_of(3);
    for (size_t i = 1; i < 40; i += CHECKED ? 18 : 6) {
        size_t at = packed.len / 40 * i;
        const char *file = write_bytes("cut.gz", packed.bytes, at);
        check_both("tnf", &o, &file, 1, 0, i < 10 ? 0 : BEGUN); /* or too small for ranges */
        packed.bytes[at] ^= 8;
        file = write_bytes("bit.gz", packed.bytes, packed.len);
        check_both("tnf", &o, &file, 1, 0, BEGUN);
        packed.bytes[at] ^= 8;
    }
    free(packed.bytes);
    free(t.bytes);
}
END_TEST

START_TEST(a_row_that_is_refused_ends_the_run)
{
    text t = make_fasta(5, false);
    const char *files[] = {write_bytes("x.fa", t.bytes, t.len), write_gzip("x.fa.gz", &t),
                           write_bgzf("y.fa.gz", &t)};
    kmf_embed_options o = options_of(2);
    for (uint64_t row = 1; row < 60; row += 19)
        for (int i = 0; i < 3; i++)
            check_both("tnf", &o, &files[i], 1, row, 0);
    free(t.bytes);
}
END_TEST

typedef struct refusal {
    uint64_t calls, at; /* is refused that one alone */
} refusal;

static int refuse(void *user, const kmf_row *row, kmf_err *err)
{
    refusal *r = user;
    (void)row;
    return ++r->calls == r->at ? kmf_fail(err, KMF_EIO, "enough") : 0;
}

/* Each record before the file fills a batch; the last one goes out when the file is begun. */
START_TEST(a_row_that_is_refused_when_a_file_is_begun_ends_the_run)
{
    enum { BEFORE = 6, LETTERS = KMF_RANGE_MOST + 3 };
    static char letters[LETTERS];
    text t = make_fasta(5, false);
    const char *file = write_bytes("x.fa", t.bytes, t.len);
    kmf_embed_options o = options_of(2);
    o.batch_tokens = LETTERS;
    memset(letters, 'A', LETTERS);
    for (uint64_t row = 0; row <= BEFORE; row++) {
        kmf_reader_stats stats;
        kmf_err err = {0};
        rows none = {0};
        refusal r = {.at = row};
        int status = 0;
        kmf_embedder *e = embedder_of("kmer:2", &o, &none);
        kmf_embedder_sink(e, refuse, &r);
        for (int i = 0; i < BEFORE && status == 0; i++)
            status = kmf_embedder_add(e, "before", letters, LETTERS, &err);
        if (status == 0)
            status = kmf_embedder_read(e, file, NULL, &stats, &err);
        ck_assert_int_eq(status, row > 0 ? KMF_EIO : 0);
        ck_assert(row > 0 ? r.calls == row : e->n_by_ranges == 1);
        kmf_embedder_free(e);
    }
    free(t.bytes);
}
END_TEST

/* Of a contig longer than sums are exact for the rest of the file is read in the usual way. */
START_TEST(contigs_that_are_too_long_are_read_on)
{
    text t = make_fasta(8, false);
    const char *fasta = write_bytes("x.fa", t.bytes, t.len);
    kmf_embed_options o = options_of(2);
    rows expected = {0};
    kmf_embedder *e = embedder_of("tnf", &o, &expected);
    kmf_reader_stats stats;
    ck_assert_int_eq(add_file(e, fasta, &stats, NULL), 0);
    ck_assert_int_eq(kmf_embedder_finish(e, NULL), 0);
    kmf_embedder_free(e);
    for (uint64_t most = 0; most <= CONTIG; most += CONTIG / 3) {
        rows got = {0};
        kmf_err err = {0};
        e = embedder_of("tnf", &o, &got);
        e->method->exact_letters = most + 1;
        ck_assert_msg(kmf_embedder_read(e, fasta, NULL, &stats, &err) == 0, "%s", err.msg);
        ck_assert_int_eq(kmf_embedder_finish(e, NULL), 0);
        ck_assert_uint_eq(e->n_by_ranges, most + 1 >= CONTIG);
        must_equal(&got.text, &expected.text);
        kmf_embedder_free(e);
        free(got.text.bytes);
    }
    free(expected.text.bytes);
    free(t.bytes);
}
END_TEST

/* A file is read the usual way if there is no memory, and not the next one, when there is. */
START_TEST(a_failing_allocation_is_not_remembered)
{
    text t = {0};
    kmf_rng rng = kmf_rng_stream(48, 0);
    add_contig(&t, &rng, "contig", 1400000);
    const char *fasta = _i ? write_bgzf("x.fa.gz", &t) : write_gzip("x.fa.gz", &t);
    kmf_embed_options o = options_of(2);
    size_t n_usual = 0;
    for (size_t n = 1; n < 60; n += CHECKED ? 2 : 1) {
        rows none = {0};
        kmf_reader_stats stats;
        kmf_embedder *e = embedder_of("tnf", &o, &none);
        kmf_mem_fail_at(n);
        int status = kmf_embedder_read(e, fasta, NULL, &stats, NULL);
        kmf_mem_fail_at(0);
        uint64_t before = e->n_by_ranges;
        n_usual += status == 0 && before == 0;
        ck_assert_int_eq(kmf_embedder_read(e, fasta, NULL, &stats, NULL), 0);
        ck_assert_int_eq(kmf_embedder_finish(e, NULL), 0);
        ck_assert_uint_eq(e->n_by_ranges, before + 1);
        kmf_embedder_free(e);
        free(none.text.bytes);
    }
    ck_assert_uint_gt(n_usual, 3);
    free(t.bytes);
}
END_TEST

/* It is reported, or the rows are the same all the same. */
START_TEST(any_failing_allocation_leaves_rows_right)
{
    text t = {0};
    kmf_rng rng = kmf_rng_stream(44, 0);
    kmf_embed_options o = options_of(_i > 0 ? 2 : 1);
    kmf_reader_stats stats;
    rows expected = {0};
    size_t n_whole = 0;
    add_contig(&t, &rng, "contig", 1400000);
    for (int i = 0; i < 1300; i++) /* more than a batch has room for */
        add_contig(&t, &rng, "short", 100);
    const char *fasta = _i == 0   ? write_bytes("x.fa", t.bytes, t.len)
                        : _i == 1 ? write_gzip("x.fa.gz", &t)
                                  : write_bgzf("x.fa.gz", &t);
    kmf_embedder *e = embedder_of("tnf", &o, &expected);
    ck_assert_int_eq(add_file(e, fasta, &stats, NULL), 0);
    ck_assert_int_eq(kmf_embedder_finish(e, NULL), 0);
    kmf_embedder_free(e);
    for (size_t n = 1;; n += n >= 60 ? 41 : CHECKED ? 3 : 1) { /* most are of names */
        rows got = {0};
        kmf_err err = {0};
        e = embedder_of("tnf", &o, &got);
        kmf_mem_fail_at(n);
        int status = kmf_embedder_read(e, fasta, NULL, &stats, &err);
        if (status == 0)
            status = kmf_embedder_finish(e, &err);
        bool reached = failed_at(n);
        ck_assert_msg(status == 0 || status == KMF_ENOMEM, "%zu: %s", n, err.msg);
        ck_assert_int_eq(status == 0, err.code == KMF_OK);
        if (status == 0) {
            n_whole++;
            must_equal(&got.text, &expected.text);
        }
        kmf_embedder_free(e);
        free(got.text.bytes);
        if (!reached)
            break;
    }
    ck_assert_uint_gt(n_whole, 2); /* some were of ranges, without which it goes on */
    free(expected.text.bytes);
    free(t.bytes);
}
END_TEST

START_TEST(a_file_that_cannot_be_opened_is_told)
{
    kmf_err err = {0};
    kmf_reader_stats stats;
    rows r = {0};
    kmf_embed_options o = options_of(1);
    kmf_embedder *e = embedder_of("tnf", &o, &r);
    ck_assert_int_eq(kmf_embedder_add(e, "x", "ACGT", 4, NULL), 0);
    ck_assert_int_eq(kmf_embedder_read(e, in_dir("none.fa"), NULL, &stats, &err), KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "none.fa: No such file"));
    ck_assert_int_eq(kmf_embedder_read(e, write_text("t.txt", "text\n"), NULL, &stats, NULL),
                     KMF_EFORMAT);
    ck_assert_int_eq(kmf_embedder_finish(e, NULL), 0);
    ck_assert_uint_eq(r.text.len, 0);
    kmf_embedder_free(e);
}
END_TEST

/* ---------------------------------------------------------------- long names ------------ */

enum { LONG_NAME = 5000, LONG_NAMED = CHECKED ? 1500 : 6000 };

static const char *long_name(char name[LONG_NAME + 1], size_t i)
{
    memset(name, 'x', LONG_NAME);
    snprintf(name + LONG_NAME - 8, 9, "%08zu", i);
    return i % 100 == 50 ? name + LONG_NAME - 8 : name;
}

/* Records of few letters, of which some have no k-mer, and many in a row. */
static const char *letters_of(size_t i)
{
    return i % 7 == 3 || i / 1000 % 2 == 1 ? "ACG" : "ACGTTGCATTGCA";
}

static int check_name(void *user, const kmf_row *row, kmf_err *err)
{
    size_t *n = user;
    char name[LONG_NAME + 1];
    (void)err;
    ck_assert(strcmp(row->name, long_name(name, *n)) == 0);
    ck_assert_uint_eq(row->tokens, strlen(letters_of(*n)) > 3 ? 10 : 0);
    ++*n;
    return 0;
}

static size_t bytes_of_names(const kmf_embedder *e)
{
    size_t sum = 0;
    for (size_t i = 0; i < e->n_records; i++)
        sum += e->records[i].name_cap;
    return sum;
}

/* Some thousand go with a batch while they are short; a megabyte, and one that waits, of others. */
START_TEST(long_names_take_no_more_room_than_some_for_each_batch)
{
    kmf_embed_options o = options_of(1 + _i);
    rows none = {0};
    size_t n_out = 0;
    size_t most = 0;
    kmf_embedder *e = embedder_of("tnf", &o, &none);
    kmf_embedder_sink(e, check_name, &n_out);
    for (size_t i = 0; i < LONG_NAMED; i++) {
        char room[LONG_NAME + 1];
        const char *name = long_name(room, i);
        const char *letters = letters_of(i);
        ck_assert_int_eq(kmf_embedder_add(e, name, letters, strlen(letters), NULL), 0);
        if (i % 64 == 0)
            most = kmf_max(most, bytes_of_names(e));
    }
    ck_assert_int_eq(kmf_embedder_finish(e, NULL), 0);
    ck_assert_uint_eq(n_out, LONG_NAMED);
    ck_assert_uint_gt(most, (size_t)1 << 19);
    ck_assert_uint_le(most, (2 * e->n_slots + 1) << 20);
    ck_assert_uint_le(bytes_of_names(e), LONG_NAMED * 256);
    kmf_embedder_free(e);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("read");
    tcase_add_unchecked_fixture(tests, make_dir, remove_dir);
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, rows_are_those_of_records_added_one_by_one);
    tcase_add_test(tests, rows_of_gzip_are_the_same);
    tcase_add_test(tests, a_line_end_may_be_a_range);
    tcase_add_test(tests, lines_of_other_kinds_are_read);
    tcase_add_test(tests, a_record_may_begin_anywhere_at_a_border);
    tcase_add_test(tests, a_long_header_at_a_border_is_no_sequence);
    tcase_add_test(tests, a_batch_takes_what_was_said_before);
    tcase_add_test(tests, a_batch_makes_room_for_pieces);
    tcase_add_test(tests, many_threads_take_their_turns);
    tcase_add_test(tests, rows_of_vectors_are_the_same);
    tcase_add_test(tests, sums_are_exact_up_to_so_many_letters);
    tcase_add_test(tests, rows_by_other_options_are_the_same);
    tcase_add_test(tests, more_records_than_a_batch_has_room_for_are_read_on);
    tcase_add_test(tests, faults_are_told_as_by_the_reader);
    tcase_add_test(tests, blanks_in_a_line_are_left_out);
    tcase_add_loop_test(tests, damage_is_told_as_by_the_reader, 0, 2);
    tcase_add_test(tests, a_row_that_is_refused_ends_the_run);
    tcase_add_test(tests, a_row_that_is_refused_when_a_file_is_begun_ends_the_run);
    tcase_add_test(tests, contigs_that_are_too_long_are_read_on);
    tcase_add_loop_test(tests, a_failing_allocation_is_not_remembered, 0, 2);
    tcase_add_loop_test(tests, any_failing_allocation_leaves_rows_right, 0, 3);
    tcase_add_test(tests, a_file_that_cannot_be_opened_is_told);
    tcase_add_loop_test(tests, long_names_take_no_more_room_than_some_for_each_batch, 0, 3);
    return run_case("read", tests);
}
