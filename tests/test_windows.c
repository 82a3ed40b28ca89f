/* SPDX-License-Identifier: MIT */
/*
 * Second sources: orders computed in Python's unbounded integers; the windows of an epoch put
 * in the order of the corpus and held against the definition; genomes whose two parts are
 * written in letters of their own.
 */
#include "learn/windows.h"

#include "base/mem.h"
#include "checked.h"
#include "chisquare.h"
#include "learn/order.h"
#include "run.h"
#include "seqfiles.h"

#define SEED 11

/* ---------------------------------------------------------------- orders ---------------- */

typedef struct known_order {
    uint64_t seed, stream, epoch, n;
    kmf_order is;
    uint64_t j, at;
} known_order;

START_TEST(orders_are_those_computed_elsewhere)
{
    static const known_order known[] = {
        /* clang-format off */
        {1, UINT64_MAX - 1, 0, 1, {1, 0, 0}, 0, 0},
        {1, UINT64_MAX - 1, 0, 2, {2, 1, 0}, 0, 0},
        {1, UINT64_MAX - 1, 3, 1000, {1000, 649, 126}, 261, 515},
        {42, UINT64_MAX - 1, 1, 131071, {131071, 86455, 113855}, 15455, 7035},
        {7, 0, 2, UINT64_C(4294967296),
         {UINT64_C(4294967296), UINT64_C(2700273127), UINT64_C(3902759562)},
         UINT64_C(1930549411), UINT64_C(1587129503)},
        {7, 0, 2, UINT64_C(4294967297),
         {UINT64_C(4294967297), UINT64_C(2700273127), UINT64_C(3370593955)},
         UINT64_C(2798570523), UINT64_C(2998664485)},
        {3, 5, 1, UINT64_C(1099511627689),
         {UINT64_C(1099511627689), UINT64_C(710190666900), UINT64_C(157111574564)},
         UINT64_C(231020807702), UINT64_C(1016182269666)},
        {9, 1, 9, UINT64_C(1099514773504),
         {UINT64_C(1099514773504), UINT64_C(715935003471), UINT64_C(1056393208922)},
         UINT64_C(1069849980556), UINT64_C(619432273294)},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_C(1) << 62,
         {UINT64_C(1) << 62, UINT64_C(2978496184503126739), UINT64_C(4553564476732789367)},
         UINT64_C(3595351650018309042), UINT64_C(3865378892425749037)},
        /* clang-format on */
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const known_order *k = &known[i];
        kmf_order order = kmf_order_of(k->seed, k->stream, k->epoch, k->n);
        ck_assert_uint_eq(order.n, k->is.n);
        ck_assert_uint_eq(order.a, k->is.a);
        ck_assert_uint_eq(order.b, k->is.b);
        ck_assert_uint_eq(kmf_order_at(&order, k->j), k->at);
    }
}
END_TEST

START_TEST(an_order_has_every_piece_once)
{
    static uint8_t seen[3000];
    size_t twice = 0;
    for (uint64_t n = 1; n <= 3000; n += 1 + n / 7)
        for (uint64_t epoch = 0; epoch < 4; epoch++) {
            kmf_order order = kmf_order_of(n, 3, epoch, n);
            memset(seen, 0, sizeof seen);
            for (uint64_t j = 0; j < n; j++)
                twice += seen[kmf_order_at(&order, j)]++;
        }
    ck_assert_uint_eq(twice, 0);
}
END_TEST

/* From one piece to the next is one step of a, wherever it is taken. */
START_TEST(large_orders_go_on_by_one_step)
{
    kmf_rng rng = kmf_rng_stream(1, 1);
    for (int bits = 20; bits <= 62; bits++) {
        uint64_t n = ((uint64_t)1 << bits) - kmf_rng_below(&rng, 1000);
        kmf_order order = kmf_order_of(5, 5, 5, n);
        for (int i = 0; i < 50; i++) {
            uint64_t j = kmf_rng_below(&rng, n - 1);
            uint64_t here = kmf_order_at(&order, j);
            uint64_t next = kmf_order_at(&order, j + 1);
            uint64_t step = next >= here ? next - here : n - (here - next);
            ck_assert_uint_eq(step, order.a);
        }
        ck_assert_uint_eq(kmf_order_at(&order, 0), order.b);
    }
}
END_TEST

/*
 * From the last piece one step more leads to the first, as n steps of a are 0 mod n: so i pieces
 * before the end is b - i a. There a j is largest: a product cut to 64 bits is wrong from
 * n = 2^32.3 on.
 */
START_TEST(large_orders_end_where_they_began)
{
    for (int bits = 30; bits <= 62; bits++)
        for (uint64_t less = 0; less < 12; less++) {
            uint64_t n = ((uint64_t)1 << bits) - less;
            kmf_order order = kmf_order_of(7, 3, less, n);
            uint64_t at = order.b;
            for (uint64_t i = 1; i <= 20; i++) {
                at = at >= order.a ? at - order.a : at + (n - order.a);
                ck_assert_uint_eq(kmf_order_at(&order, n - i), at);
            }
        }
}
END_TEST

START_TEST(streams_of_purposes_epochs_and_numbers_differ)
{
    uint64_t drawn[5 * 5 * 5];
    size_t n = 0;
    for (uint64_t purpose = 0; purpose < 5; purpose++)
        for (uint64_t epoch = 0; epoch < 5; epoch++)
            for (uint64_t number = 0; number < 5; number++) {
                kmf_rng rng = kmf_draw(SEED, purpose, epoch, number);
                drawn[n++] = kmf_rng_next(&rng);
            }
    size_t same = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            same += drawn[i] == drawn[j];
    ck_assert_uint_eq(same, 0);
}
END_TEST

/* ---------------------------------------------------------------- corpora --------------- */

/* Segments of the lengths given. */
static kmf_corpus *corpus_of(const size_t *lens, size_t n)
{
    kmf_rng rng = kmf_rng_stream(n, 7);
    kmf_corpus *corpus = kmf_corpus_new(KMF_DNA, 1, UINT64_MAX, NULL, NULL);
    ck_assert_ptr_nonnull(corpus);
    for (size_t s = 0; s < n; s++) {
        char *seq = malloc(lens[s] + 1);
        for (size_t i = 0; i < lens[s]; i++)
            seq[i] = "ACGT"[kmf_rng_below(&rng, 4)];
        ck_assert_int_eq(kmf_corpus_add(corpus, seq, lens[s], NULL), 0);
        free(seq);
    }
    ck_assert_int_eq(kmf_corpus_finish(corpus, NULL), 0);
    return corpus;
}

static kmf_windows *windows_of(const kmf_corpus *corpus, size_t letters)
{
    kmf_windows *w = kmf_windows_new(corpus, letters, SEED, NULL);
    ck_assert_ptr_nonnull(w);
    return w;
}

static int by_place(const void *a, const void *b)
{
    uint64_t x = ((const kmf_excerpt *)a)->at;
    uint64_t y = ((const kmf_excerpt *)b)->at;
    return (x > y) - (x < y);
}

/* All windows of an epoch in the order of the corpus; owned by the caller. */
static kmf_excerpt *windows_in_place(const kmf_windows *w, uint64_t epoch)
{
    uint64_t n = kmf_windows_count(w);
    kmf_excerpt *list = malloc((n + 1) * sizeof *list);
    for (uint64_t i = 0; i < n; i++)
        kmf_windows_get(w, epoch, i, &list[i]);
    qsort(list, n, sizeof *list, by_place);
    return list;
}

/* By the definition, in real numbers. */
static uint64_t naive_count(size_t n, size_t letters)
{
    if (n <= letters)
        return 1;
    uint64_t c = 0;
    while ((c + 1) * letters <= n)
        c++;
    double rest = (double)(n - c * letters);
    if (c > 1 && rest < (double)letters / 2)
        c--;
    return c;
}

/* Windows list[0 ..] of a segment of n letters that begins at `start`; returns how many. */
static uint64_t check_segment(const kmf_excerpt *list, uint64_t start, size_t n, size_t letters)
{
    uint64_t c = naive_count(n, letters);
    size_t wrong = 0;
    if (n <= letters) {
        ck_assert(list[0].at == start && list[0].n == n);
        return 1;
    }
    wrong += list[0].at < start || list[0].at > start + n - c * letters;
    for (uint64_t i = 0; i < c; i++)
        wrong += list[i].n != letters || list[i].at != list[0].at + i * letters;
    wrong += list[c - 1].at + letters > start + n;
    ck_assert_uint_eq(wrong, 0);
    return c;
}

START_TEST(windows_of_an_epoch_are_those_of_the_definition)
{
    enum { SEGMENTS = 150 };
    size_t lens[SEGMENTS];
    for (size_t i = 0; i < SEGMENTS; i++)
        lens[i] = i % 3 ? i : 1 + i * i % 997;
    lens[0] = 1;
    kmf_corpus *corpus = corpus_of(lens, SEGMENTS);
    for (size_t letters = 1; letters <= 60; letters += letters < 8 ? 1 : 13) {
        kmf_windows *w = windows_of(corpus, letters);
        uint64_t count = 0;
        for (size_t s = 0; s < SEGMENTS; s++)
            count += naive_count(lens[s], letters);
        ck_assert_uint_eq(kmf_windows_count(w), count);
        for (uint64_t epoch = 0; epoch < 5; epoch++) {
            kmf_excerpt *list = windows_in_place(w, epoch * epoch * 1000003);
            uint64_t done = 0;
            for (size_t s = 0; s < SEGMENTS; s++)
                done +=
                    check_segment(list + done, kmf_corpus_start(corpus, s), lens[s], letters);
            ck_assert_uint_eq(done, count);
            free(list);
        }
        ck_assert_uint_ge(kmf_windows_bytes(w), (SEGMENTS + 1) * sizeof(uint64_t));
        kmf_windows_free(w);
    }
    kmf_corpus_free(corpus);
    kmf_windows_free(NULL);
}
END_TEST

START_TEST(counts_by_hand)
{
    static const struct {
        size_t n, letters;
        uint64_t count;
    } cases[] = {{9, 10, 1},  {10, 10, 1}, {11, 10, 1}, {19, 10, 1}, {20, 10, 1},
                 {24, 10, 1}, {25, 10, 2}, {30, 10, 2}, {34, 10, 2}, {35, 10, 3},
                 {27, 11, 1}, {28, 11, 2}, {3, 1, 2},   {1, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kmf_corpus *corpus = corpus_of(&cases[i].n, 1);
        kmf_windows *w = windows_of(corpus, cases[i].letters);
        ck_assert_uint_eq(kmf_windows_count(w), cases[i].count);
        kmf_windows_free(w);
        kmf_corpus_free(corpus);
    }
}
END_TEST

START_TEST(any_window_is_had_without_those_before_it)
{
    static const size_t lens[] = {1000, 35, 7, 2000, 64};
    kmf_corpus *corpus = corpus_of(lens, 5);
    kmf_windows *w = windows_of(corpus, 32);
    kmf_windows *other = windows_of(corpus, 32);
    uint64_t n = kmf_windows_count(w);
    kmf_excerpt *in_order = malloc(3 * n * sizeof *in_order);
    size_t wrong = 0;
    for (uint64_t i = 0; i < 3 * n; i++)
        kmf_windows_get(w, i / n, i % n, &in_order[i]);
    for (uint64_t i = 3 * n; i-- > 0;) {
        kmf_excerpt e;
        kmf_windows_get(other, i / n, i % n, &e);
        wrong +=
            e.at != in_order[i].at || e.n != in_order[i].n || e.reverse != in_order[i].reverse;
    }
    ck_assert_uint_eq(wrong, 0);
    size_t same = 0; /* places of two epochs */
    for (uint64_t i = 0; i < n; i++)
        same += in_order[i].at == in_order[n + i].at;
    ck_assert_uint_lt(same, n / 4);
    free(in_order);
    kmf_windows_free(w);
    kmf_windows_free(other);
    kmf_corpus_free(corpus);
}
END_TEST

START_TEST(every_base_is_covered_over_the_epochs)
{
    static const size_t lens[] = {1, 9, 10, 11, 14, 19, 20, 25, 29, 30, 57, 200};
    enum { SEGMENTS = sizeof lens / sizeof lens[0], EPOCHS = 300 };
    kmf_corpus *corpus = corpus_of(lens, SEGMENTS);
    kmf_windows *w = windows_of(corpus, 10);
    uint64_t all = kmf_corpus_start(corpus, SEGMENTS);
    uint32_t *covered = calloc(all, sizeof *covered);
    size_t missed = 0;
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++)
        for (uint64_t i = 0; i < kmf_windows_count(w); i++) {
            kmf_excerpt e;
            kmf_windows_get(w, epoch, i, &e);
            for (size_t j = 0; j < e.n; j++)
                covered[e.at + j]++;
        }
    for (uint64_t at = 0; at < all; at++)
        missed += covered[at] == 0;
    ck_assert_uint_eq(missed, 0);
    free(covered);
    kmf_windows_free(w);
    kmf_corpus_free(corpus);
}
END_TEST

START_TEST(offsets_are_uniform_and_strands_are_half_and_half)
{
    enum { EPOCHS = CHECKED ? 1000 : 8000 };
    static const size_t lens[] = {38, 61};
    uint64_t offsets[2][30] = {{0}};
    uint64_t strands[2] = {0};
    uint64_t pairs[4] = {0}; /* strand of a window in two epochs */
    double expected[30];
    kmf_corpus *corpus = corpus_of(lens, 2);
    kmf_windows *w = windows_of(corpus, 20);
    ck_assert_uint_eq(kmf_windows_count(w), 1 + 2);
    unsigned last = 0;
    for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
        kmf_excerpt *list = windows_in_place(w, epoch);
        offsets[0][list[0].at]++;
        offsets[1][list[1].at - lens[0]]++;
        for (int i = 0; i < 3; i++)
            strands[list[i].reverse]++;
        pairs[last * 2 + list[0].reverse]++;
        last = list[0].reverse;
        free(list);
    }
    for (size_t i = 0; i < 30; i++)
        expected[i] = EPOCHS / 19.0;
    chi_square_test("offsets of 38 letters", offsets[0], expected, 19);
    for (size_t i = 0; i < 30; i++)
        expected[i] = EPOCHS / 22.0;
    chi_square_test("offsets of 61 letters", offsets[1], expected, 22);
    expected[0] = expected[1] = EPOCHS * 3 / 2.0;
    chi_square_test("strands", strands, expected, 2);
    for (size_t i = 0; i < 4; i++)
        expected[i] = EPOCHS / 4.0;
    chi_square_test("strands of two epochs", pairs, expected, 4);
    kmf_windows_free(w);
    kmf_corpus_free(corpus);
}
END_TEST

START_TEST(the_fixed_set_is_spread_evenly_and_stays_the_same)
{
    static const size_t lens[] = {500, 3, 33, 4096, 9, 700};
    kmf_corpus *corpus = corpus_of(lens, 6);
    kmf_windows *w = windows_of(corpus, 16);
    uint64_t count = kmf_windows_count(w);
    kmf_excerpt *all = windows_in_place(w, 0);
    uint64_t reversed = 0;
    ck_assert_uint_eq(kmf_windows_fixed_count(w, 0), 0);
    ck_assert_uint_eq(kmf_windows_fixed_count(w, count + 1), count);
    for (uint64_t wanted = 1; wanted <= count + 5; wanted += 1 + wanted / 9) {
        uint64_t n = kmf_windows_fixed_count(w, wanted);
        size_t wrong = 0;
        ck_assert_uint_eq(n, wanted < count ? wanted : count);
        for (uint64_t i = 0; i < n; i++) {
            kmf_excerpt e;
            kmf_excerpt again;
            kmf_windows_fixed(w, wanted, i, &e);
            kmf_windows_get(w, 3, i, &again);
            kmf_windows_fixed(w, wanted, i, &again);
            uint64_t number = (uint64_t)((double)i * (double)count / (double)n + 1e-9);
            wrong += e.at != all[number].at || e.n != all[number].n;
            wrong += again.at != e.at || again.reverse != e.reverse;
            reversed += e.reverse;
        }
        ck_assert_uint_eq(wrong, 0);
    }
    ck_assert_uint_gt(reversed, 0);
    free(all);
    kmf_windows_free(w);
    kmf_corpus_free(corpus);
}
END_TEST

/* ---------------------------------------------------------------- genomes --------------- */

START_TEST(letters_and_soft_flags_of_an_excerpt_are_read_either_way)
{
    static const char seq[] = "ACCGTtgcaNNacgTTTGgGnCATCATcatnACGTACGTacgtttga";
    kmf_genome_options opts;
    kmf_genome_options_default(&opts);
    opts.soft = true;
    opts.fraction = 0.2;
    kmf_genome *genome = kmf_genome_new(&opts, NULL);
    ck_assert_int_eq(kmf_genome_add(genome, "a", seq, sizeof seq - 1, false, NULL), 0);
    ck_assert_int_eq(kmf_genome_finish(genome, NULL), 0);
    for (kmf_genome_part part = 0; part < KMF_GENOME_PARTS; part++) {
        kmf_genome_info info;
        uint8_t letters[64], soft[64], got[64], got_soft[64];
        const kmf_corpus *corpus = kmf_genome_corpus(genome, part);
        kmf_genome_information(genome, &info);
        size_t all = (size_t)info.parts[part].kept;
        kmf_corpus_letters(corpus, letters, 0, all);
        kmf_genome_soft(genome, part, soft, 0, all);
        size_t wrong = 0;
        for (size_t at = 0; at < all; at++)
            for (size_t n = 1; at + n <= all; n++)
                for (int reverse = 0; reverse < 2; reverse++) {
                    kmf_excerpt e = {.at = at, .n = n, .reverse = reverse};
                    kmf_excerpt_letters(&e, corpus, got);
                    kmf_excerpt_soft(&e, genome, part, got_soft);
                    for (size_t i = 0; i < n; i++) {
                        size_t from = reverse ? at + n - 1 - i : at + i;
                        int letter = reverse ? 3 - letters[from] : letters[from];
                        wrong += got[i] != letter || got_soft[i] != soft[from];
                    }
                }
        ck_assert_uint_eq(wrong, 0);
    }
    kmf_genome_free(genome);
}
END_TEST

/* Bases to learn from are A and C, bases held out G and T, wherever they lie. */
static text two_lettered_fasta(double fraction, kmf_rng *rng)
{
    text t = {0};
    for (int r = 0; r < 12; r++) {
        char header[32];
        snprintf(header, sizeof header, ">contig%d of a test\n", r);
        add(&t, header);
        size_t len = 50 + (size_t)kmf_rng_below(rng, 900);
        size_t border = len - (size_t)(fraction * (double)len);
        for (size_t i = 0; i < len; i++) {
            uint64_t x = kmf_rng_next(rng);
            bool out = i >= border || r == 3 || r == 8;
            const char *letters = out ? "GTgt" : "ACac";
            add_bytes(&t, (x >> 40) % 80 == 0 ? "N" : letters + (x & 3), 1);
            if (i % 70 == 69)
                add(&t, "\n");
        }
        add(&t, "\n");
    }
    return t;
}

START_TEST(no_window_touches_what_the_other_part_holds)
{
    static const char *const held[] = {"contig8", "contig3"};
    kmf_rng rng = kmf_rng_stream(2, 2);
    kmf_genome_options opts;
    kmf_err err = {0};
    kmf_genome_options_default(&opts);
    opts.held = held;
    opts.n_held = 2;
    opts.fraction = 0.25;
    opts.shortest = 6;
    kmf_genome *genome = kmf_genome_new(&opts, &err);
    text t = two_lettered_fasta(opts.fraction, &rng);
    make_dir();
    kmf_reader *reader = kmf_reader_open(write_bytes("g.fa", t.bytes, t.len), NULL, NULL, &err);
    ck_assert_msg(reader != NULL, "%s", err.msg);
    ck_assert_int_eq(kmf_genome_read(genome, reader, false, NULL, NULL, &err), 0);
    ck_assert_int_eq(kmf_genome_finish(genome, &err), 0);
    for (kmf_genome_part part = 0; part < KMF_GENOME_PARTS; part++) {
        const kmf_corpus *corpus = kmf_genome_corpus(genome, part);
        kmf_windows *w = windows_of(corpus, 40);
        uint64_t n = kmf_windows_count(w);
        size_t foreign = 0;
        size_t letters = 0;
        ck_assert_uint_gt(n, 20);
        for (uint64_t i = 0; i < 40 * n; i++) {
            uint8_t got[40];
            kmf_excerpt e;
            kmf_windows_get(w, i / n, i % n, &e);
            kmf_excerpt_letters(&e, corpus, got);
            bool high = (part == KMF_GENOME_HELD) != e.reverse; /* G and T, not A and C */
            for (size_t j = 0; j < e.n; j++)
                foreign += (got[j] >= 2) != high;
            letters += e.n;
        }
        ck_assert_uint_eq(foreign, 0);
        ck_assert_uint_gt(letters, 1000);
        kmf_windows_free(w);
    }
    kmf_reader_close(reader);
    kmf_genome_free(genome);
    free(t.bytes);
    remove_dir();
}
END_TEST

START_TEST(an_empty_part_has_no_windows)
{
    kmf_corpus *corpus = corpus_of(NULL, 0);
    kmf_windows *w = windows_of(corpus, 10);
    ck_assert_uint_eq(kmf_windows_count(w), 0);
    ck_assert_uint_eq(kmf_windows_fixed_count(w, 5), 0);
    kmf_windows_free(w);
    kmf_corpus_free(corpus);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    static const size_t lens[] = {10, 20};
    kmf_corpus *corpus = corpus_of(lens, 2);
    for (size_t at = 1; at <= 2; at++) {
        kmf_err err = {0};
        kmf_mem_fail_at(at);
        ck_assert_ptr_null(kmf_windows_new(corpus, 5, 1, &err));
        ck_assert_int_eq(err.code, KMF_ENOMEM);
    }
    kmf_mem_fail_at(0);
    kmf_windows *w = kmf_windows_new(corpus, 5, 1, NULL);
    ck_assert_uint_eq(kmf_mem_count(), 2);
    kmf_windows_free(w);
    kmf_corpus_free(corpus);
}
END_TEST

int main(void)
{
    TCase *c = untimed_case();
    tcase_add_test(c, orders_are_those_computed_elsewhere);
    tcase_add_test(c, an_order_has_every_piece_once);
    tcase_add_test(c, large_orders_go_on_by_one_step);
    tcase_add_test(c, large_orders_end_where_they_began);
    tcase_add_test(c, streams_of_purposes_epochs_and_numbers_differ);
    tcase_add_test(c, windows_of_an_epoch_are_those_of_the_definition);
    tcase_add_test(c, counts_by_hand);
    tcase_add_test(c, any_window_is_had_without_those_before_it);
    tcase_add_test(c, every_base_is_covered_over_the_epochs);
    tcase_add_test(c, offsets_are_uniform_and_strands_are_half_and_half);
    tcase_add_test(c, the_fixed_set_is_spread_evenly_and_stays_the_same);
    tcase_add_test(c, letters_and_soft_flags_of_an_excerpt_are_read_either_way);
    tcase_add_test(c, no_window_touches_what_the_other_part_holds);
    tcase_add_test(c, an_empty_part_has_no_windows);
    tcase_add_test(c, every_allocation_may_fail);
    return run_case("windows", c);
}
