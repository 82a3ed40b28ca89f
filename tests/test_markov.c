/* SPDX-License-Identifier: MIT */
/*
 * Second source: every word of every segment and of its reverse complement, letter by letter,
 * sorted and counted.
 */
#include "learn/markov.h"

#include "base/mem.h"
#include "base/rng.h"
#include "checked.h"
#include "run.h"
#include "words/radix.h"

#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- the twin -------------- */

typedef struct text {
    uint8_t *letters; /* owned */
    size_t *starts;   /* owned [n_segments + 1] */
    size_t n_segments;
} text;

static void text_free(text *t)
{
    free(t->letters);
    free(t->starts);
}

/* Letters of which A has a share of `a` sixteenths; now and then a stretch comes again. */
static text random_text(const size_t *lens, size_t n, uint64_t a, kmf_rng *rng)
{
    text t = {.n_segments = n};
    size_t all = 0;
    for (size_t s = 0; s < n; s++)
        all += lens[s];
    t.letters = malloc(all + 1);
    t.starts = calloc(n + 1, sizeof *t.starts);
    for (size_t s = 0, at = 0; s < n; s++) {
        for (size_t i = 0; i < lens[s]; i++, at++) {
            uint64_t x = kmf_rng_next(rng);
            t.letters[at] = x >> 60 < a ? 0 : (uint8_t)(x & 3);
            if (x % 7 == 0 && at > 500)
                t.letters[at] = t.letters[at - 300];
        }
        t.starts[s + 1] = at;
    }
    return t;
}

static kmf_corpus *corpus_of(const text *t)
{
    kmf_corpus *corpus = kmf_corpus_new(KMF_DNA, 1, UINT64_MAX, NULL, NULL);
    ck_assert_ptr_nonnull(corpus);
    for (size_t s = 0; s < t->n_segments; s++) {
        size_t n = t->starts[s + 1] - t->starts[s];
        char *seq = malloc(n + 1);
        for (size_t i = 0; i < n; i++)
            seq[i] = "ACGT"[t->letters[t->starts[s] + i]];
        ck_assert_int_eq(kmf_corpus_add(corpus, seq, n, NULL), 0);
        free(seq);
    }
    ck_assert_int_eq(kmf_corpus_finish(corpus, NULL), 0);
    return corpus;
}

/* All words of a length on both strands, sorted; owned by the caller. */
static uint64_t *naive_words(const text *t, size_t len, size_t *n_words)
{
    uint64_t *words = malloc((2 * t->starts[t->n_segments] + 1) * sizeof *words);
    size_t n = 0;
    for (size_t s = 0; s < t->n_segments; s++)
        for (size_t at = t->starts[s]; at + len <= t->starts[s + 1]; at++) {
            uint64_t forward = 0;
            uint64_t backward = 0;
            for (size_t i = 0; i < len; i++) {
                forward = forward * 4 + t->letters[at + i];
                backward = backward * 4 + 3 - t->letters[at + len - 1 - i];
            }
            words[n++] = forward;
            words[n++] = backward;
        }
    uint64_t *spare = malloc((n + 1) * sizeof *spare);
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += words[i] * words[i];
    uint64_t *sorted = kmf_radix_sort_64(words, spare, n, 2 * (unsigned)len);
    free(sorted == words ? spare : words);
    for (size_t i = 0; i < n; i++) { /* in order, and the same ones */
        quick_assert(i == 0 || sorted[i - 1] <= sorted[i]);
        sum -= sorted[i] * sorted[i];
    }
    ck_assert_uint_eq(sum, 0);
    *n_words = n;
    return sorted;
}

/* Counts of all words of some length that occur; and, where those are few, of all that do not. */
static void compare_counts(const kmf_markov *m, const text *t, int len)
{
    size_t n;
    size_t wrong = 0;
    uint64_t *words = naive_words(t, (size_t)len, &n);
    uint64_t all = (uint64_t)1 << 2 * len;
    for (size_t i = 0; i < n;) {
        size_t beg = i;
        while (i < n && words[i] == words[beg])
            i++;
        wrong += kmf_markov_count(m, words[beg], len) != i - beg;
    }
    for (uint64_t code = 0; code < all && len < 11; code++)
        n -= kmf_markov_count(m, code, len);
    ck_assert_msg(wrong == 0, "%zu words of %d letters", wrong, len);
    ck_assert_msg(n == 0 || len >= 11, "words of %d letters: %zu too few", len, n);
    free(words);
}

/* By the formula, from counts looked up in the sorted words. */
static size_t naive_count(const uint64_t *words, size_t n, uint64_t code)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += words[i] == code;
    return count;
}

/* ---------------------------------------------------------------- tests ----------------- */

/* A model whose longest segment has so many letters, against words of lengths from, from + by .. */
static void check_counts(int max_order, uint64_t a, size_t longest, int from, int by)
{
    enum { SEGMENTS = 60 };
    size_t lens[SEGMENTS];
    kmf_rng rng = kmf_rng_stream((uint64_t)max_order, a);
    for (size_t s = 0; s < SEGMENTS; s++)
        lens[s] = 1 + s % 30;
    lens[7] = longest;
    lens[23] = 4096; /* letters come in blocks of so many */
    lens[24] = 4097;
    text t = random_text(lens, SEGMENTS, a, &rng);
    kmf_corpus *corpus = corpus_of(&t);
    kmf_markov *m = kmf_markov_new(corpus, max_order, NULL, NULL, NULL);
    ck_assert_ptr_nonnull(m);
    kmf_corpus_free(corpus);
    for (int len = from; len <= max_order + 1; len += by)
        compare_counts(m, &t, len);
    kmf_markov_free(m);
    text_free(&t);
}

/* Letters from which on tables are taken, as their memory no longer grows with the letters. */
static size_t large(int max_order)
{
    uint64_t tables = kmf_markov_bytes(max_order, UINT64_MAX / 64);
    size_t letters = 1;
    while (kmf_markov_bytes(max_order, letters) != tables)
        letters *= 2;
    return letters;
}

START_TEST(counts_are_those_of_a_list_of_all_words)
{
    static const int orders[] = {0, 1, 3, 7, 8, 9, 10};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++)
        for (uint64_t a = 0; a <= 14; a += 7)
            check_counts(orders[i], a, 5000, 1, 1);
    check_counts(KMF_MARKOV_MAX, 5, 30000, 1, 1);
}
END_TEST

START_TEST(those_of_tables_are_as_well)
{
    static const int orders[] = {0, 3, 7, 8, 9, 10};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++)
        check_counts(orders[i], 7 * (i % 3), large(orders[i]), 1, 1);
}
END_TEST

START_TEST(the_largest_order_has_tables_as_well)
{
    check_counts(KMF_MARKOV_MAX, 5, large(KMF_MARKOV_MAX), 1, 4);
}
END_TEST

START_TEST(counts_and_bits_by_hand)
{
    /* AAAAC and, on the other strand, GTTTT; and TA, which is its own partner */
    static uint8_t letters[] = {0, 0, 0, 0, 1, 3, 0};
    static size_t starts[] = {0, 5, 7};
    text t = {letters, starts, 2};
    kmf_corpus *corpus = corpus_of(&t);
    kmf_markov *m = kmf_markov_new(corpus, 3, NULL, NULL, NULL);
    ck_assert_uint_eq(kmf_markov_count(m, 0, 1), 6);         /* A */
    ck_assert_uint_eq(kmf_markov_count(m, 1, 1), 1);         /* C */
    ck_assert_uint_eq(kmf_markov_count(m, 0, 2), 3);         /* AA */
    ck_assert_uint_eq(kmf_markov_count(m, 1, 2), 1);         /* AC */
    ck_assert_uint_eq(kmf_markov_count(m, 12, 2), 2);        /* TA */
    ck_assert_uint_eq(kmf_markov_count(m, 4, 2), 0);         /* CA: across segments */
    ck_assert_uint_eq(kmf_markov_count(m, 2 * 4 + 3, 2), 1); /* GT */
    ck_assert_uint_eq(kmf_markov_count(m, 0, 4), 1);         /* AAAA */
    static const uint8_t asked[] = {0, 0, 1, 2};
    double tiny = 1e-12;
    /* order 0: 14 letters, of which A 6, C 1, G 1, T 6 */
    ck_assert_double_eq_tol(kmf_markov_bits(m, 0, asked, 0), -log2(6.5 / 16), tiny);
    ck_assert_double_eq_tol(kmf_markov_bits(m, 0, asked, 3), -log2(1.5 / 16), tiny);
    /* after A: A 3, C 1; after AA: A 2, C 1; after AAC, and CG: nothing */
    ck_assert_double_eq_tol(kmf_markov_bits(m, 1, asked, 1), -log2(3.5 / 6), tiny);
    ck_assert_double_eq_tol(kmf_markov_bits(m, 2, asked, 2), -log2(1.5 / 5), tiny);
    ck_assert_double_eq_tol(kmf_markov_bits(m, 3, asked, 3), 2, tiny);
    /* no more letters before it than there are */
    ck_assert_double_eq_tol(kmf_markov_bits(m, 3, asked, 0), -log2(6.5 / 16), tiny);
    ck_assert_double_eq_tol(kmf_markov_bits(m, 3, asked, 2), -log2(1.5 / 5), tiny);
    kmf_markov_free(m);
    kmf_corpus_free(corpus);
    kmf_markov_free(NULL);
}
END_TEST

START_TEST(bits_are_those_of_the_formula)
{
    enum { ORDER = 4, N = 400 };
    static const size_t lens[] = {N, 3, 90};
    kmf_rng rng = kmf_rng_stream(4, 4);
    text t = random_text(lens, 3, 6, &rng);
    kmf_corpus *corpus = corpus_of(&t);
    kmf_markov *m = kmf_markov_new(corpus, ORDER, NULL, NULL, NULL);
    double worst = 0;
    for (int order = 0; order <= ORDER; order++)
        for (size_t at = 0; at < N; at += 3) {
            size_t before = at < (size_t)order ? at : (size_t)order;
            size_t n_words;
            uint64_t *words = naive_words(&t, before + 1, &n_words);
            uint64_t code = 0;
            double total = 0;
            for (size_t i = at - before; i < at; i++)
                code = code * 4 + t.letters[i];
            for (uint64_t x = 0; x < 4; x++)
                total += (double)naive_count(words, n_words, code * 4 + x);
            double count = (double)naive_count(words, n_words, code * 4 + t.letters[at]);
            double bits = -log2((count + 0.5) / (total + 2));
            worst = fmax(worst, fabs(bits - kmf_markov_bits(m, order, t.letters, at)));
            free(words);
        }
    ck_assert_double_lt(worst, 1e-12);
    kmf_markov_free(m);
    kmf_corpus_free(corpus);
    text_free(&t);
}
END_TEST

/* Of other letters drawn in the same way. */
static double mean_bits(const kmf_markov *m, int order, const uint8_t *letters, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += kmf_markov_bits(m, order, letters, i);
    return sum / (double)n;
}

START_TEST(a_base_of_uniform_letters_costs_two_bits)
{
    enum { N = 200000 };
    kmf_rng rng = kmf_rng_stream(6, 6);
    text t = {malloc(2 * N), calloc(2, sizeof(size_t)), 1};
    t.starts[1] = N;
    for (size_t i = 0; i < 2 * N; i++)
        t.letters[i] = (uint8_t)kmf_rng_below(&rng, 4);
    kmf_corpus *corpus = corpus_of(&t);
    kmf_markov *m = kmf_markov_new(corpus, 5, NULL, NULL, NULL);
    for (int order = 0; order <= 5; order++)
        ck_assert_double_eq_tol(mean_bits(m, order, t.letters + N, N), 2, 0.01);
    ck_assert_double_ge(mean_bits(m, 5, t.letters + N, N), 2);
    kmf_markov_free(m);
    kmf_corpus_free(corpus);
    text_free(&t);
}
END_TEST

/*
 * After x comes x + 1 (mod 4) three times in four, else x + 3: 0.8113 bits. On the other strand
 * a step from x to x + 1 is one from 2 - x to 3 - x: the same law.
 */
START_TEST(a_chain_costs_its_entropy_from_its_order_on)
{
    enum { N = 300000 };
    kmf_rng rng = kmf_rng_stream(7, 7);
    double entropy = -0.75 * log2(0.75) - 0.25 * log2(0.25);
    text t = {malloc(2 * N), calloc(2, sizeof(size_t)), 1};
    t.starts[1] = N;
    t.letters[0] = 2;
    for (size_t i = 1; i < 2 * N; i++)
        t.letters[i] = (uint8_t)((t.letters[i - 1] + (kmf_rng_below(&rng, 4) ? 1 : 3)) % 4);
    kmf_corpus *corpus = corpus_of(&t);
    kmf_markov *m = kmf_markov_new(corpus, 4, NULL, NULL, NULL);
    ck_assert_double_eq_tol(mean_bits(m, 0, t.letters + N, N), 2, 0.01);
    for (int order = 1; order <= 4; order++)
        ck_assert_double_eq_tol(mean_bits(m, order, t.letters + N, N), entropy, 0.01);
    kmf_markov_free(m);
    kmf_corpus_free(corpus);
    text_free(&t);
}
END_TEST

static void note_progress(void *user, uint64_t done)
{
    uint64_t *last = user;
    ck_assert_uint_gt(done, *last);
    *last = done;
}

START_TEST(progress_is_told_in_letters_and_memory_is_known)
{
    static const size_t lens[] = {3000000, 10, 3000000, 5};
    uint64_t last = 0;
    kmf_rng rng = kmf_rng_stream(7, 7);
    text t = random_text(lens, 4, 0, &rng);
    kmf_corpus *corpus = corpus_of(&t);
    kmf_markov *m = kmf_markov_new(corpus, 2, note_progress, &last, NULL);
    ck_assert_uint_eq(last, 6000010);
    kmf_markov_free(m);
    kmf_corpus_free(corpus);
    text_free(&t);
    uint64_t genome = 3000000000;
    ck_assert_uint_ge(kmf_markov_bytes(12, genome), ((uint64_t)4 << 26) * 4 / 3 - (4 << 20));
    ck_assert_uint_lt(kmf_markov_bytes(12, genome), 359000000);
    ck_assert_uint_lt(kmf_markov_bytes(9, genome), 6000000);
    ck_assert_uint_lt(kmf_markov_bytes(0, genome), 2000000);
    ck_assert_uint_lt(kmf_markov_bytes(12, 1000), 100000);
    /* a place of 4 bytes for each letter of either strand, and as many again to sort them */
    ck_assert_uint_eq(kmf_markov_bytes(12, 3000) - kmf_markov_bytes(12, 1000),
                      2000 * 2 * 2 * 4);
}
END_TEST

START_TEST(an_empty_corpus_foretells_nothing)
{
    static uint8_t letters[] = {0, 1, 2};
    static size_t starts[] = {0};
    text t = {letters, starts, 0};
    kmf_corpus *corpus = corpus_of(&t);
    kmf_markov *m = kmf_markov_new(corpus, 2, NULL, NULL, NULL);
    ck_assert_double_eq_tol(kmf_markov_bits(m, 2, letters, 2), 2, 1e-12);
    kmf_markov_free(m);
    kmf_corpus_free(corpus);
}
END_TEST

/* Fails one allocation after the other; returns how many there are. */
static size_t fail_each(const kmf_corpus *corpus, int max_order)
{
    kmf_mem_fail_at(0);
    kmf_markov_free(kmf_markov_new(corpus, max_order, NULL, NULL, NULL));
    size_t n = kmf_mem_count();
    for (size_t at = 1; at <= n; at++) {
        kmf_err err = {0};
        kmf_mem_fail_at(at);
        ck_assert_ptr_null(kmf_markov_new(corpus, max_order, NULL, NULL, &err));
        ck_assert_int_eq(err.code, KMF_ENOMEM);
    }
    kmf_mem_fail_at(0);
    return n;
}

START_TEST(every_allocation_may_fail)
{
    size_t lens[] = {large(0)};
    kmf_rng rng = kmf_rng_stream(8, 8);
    text t = random_text(lens, 1, 0, &rng);
    kmf_corpus *corpus = corpus_of(&t);
    ck_assert_uint_eq(fail_each(corpus, 0), 10);
    ck_assert_uint_eq(fail_each(corpus, KMF_MARKOV_MAX), 4);
    kmf_corpus_free(corpus);
    text_free(&t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("markov");
    TCase *c = tcase_create("markov");
    tcase_set_timeout(c, 0);
    tcase_add_test(c, counts_are_those_of_a_list_of_all_words);
    tcase_add_test(c, those_of_tables_are_as_well);
    if (!CHECKED)
        tcase_add_test(c, the_largest_order_has_tables_as_well);
    tcase_add_test(c, counts_and_bits_by_hand);
    tcase_add_test(c, bits_are_those_of_the_formula);
    tcase_add_test(c, a_base_of_uniform_letters_costs_two_bits);
    tcase_add_test(c, a_chain_costs_its_entropy_from_its_order_on);
    tcase_add_test(c, progress_is_told_in_letters_and_memory_is_known);
    tcase_add_test(c, an_empty_corpus_foretells_nothing);
    tcase_add_test(c, every_allocation_may_fail);
    suite_add_tcase(suite, c);
    return run_suite(suite);
}
