/* SPDX-License-Identifier: MIT */
/*
 * Rows and counts of the words of a text, against a search for each window's letters in the list of
 * words: all of a length in order, or in another one and some lacking, of any weight; by columns
 * and by codes; with stretches of more than a block that have no row. And that words of DNA are
 * looked up by columns, which is several times as fast.
 */
#include "embed/wordrows.h"

#include "base/mem.h"
#include "base/rng.h"
#include "run.h"
#include "seqfiles.h"

#include <check.h>
#include <string.h>

enum { K = 3, CODES = 64, MOST = CODES + 1, LETTERS = 6000, GAP = 3 * KMF_WORD_BLOCK };

/* The words of a file, in its order, which is that of its rows. */
static char words[MOST][K + 1];
static size_t n_words;

/* A word that is shorter, if asked for, and every `step`-th word of 64, from 0 on; 1: in order. */
static const char *write_words(size_t shorter, size_t step, size_t n)
{
    static char file[MOST * 16];
    char *at = file + sprintf(file, "%zu 1\n", shorter + n);
    n_words = shorter + n;
    for (size_t i = 0; i < n_words; i++) {
        size_t k = i < shorter ? K - 1 : K;
        size_t code = i < shorter ? 0 : (i - shorter) * step % CODES;
        memset(words[i], 0, sizeof words[i]);
        for (size_t j = 0; j < k; j++)
            words[i][j] = "ACGT"[code >> 2 * (k - 1 - j) & 3];
        at += sprintf(at, "%s %zu\n", words[i], i + 1);
    }
    return write_text("words.txt", file);
}

/* In either case, U in place of some T, and letters that are none; then N alone, and C alone. */
static void draw_letters(char *letters, size_t n, kmf_rng *rng)
{
    for (size_t i = 0; i < n; i++)
        letters[i] = "ACGTacgtUuACGTACGTACGTACGTACGTNACGT-"[kmf_rng_below(rng, 36)];
    memset(letters + n / 6, 'N', GAP);
    memset(letters + n / 2, 'C', GAP);
}

/* The row of the word that begins here; -1: it has none, -2: it is no word. */
static int32_t row_of(const char *letters)
{
    char word[K + 1] = "";
    for (size_t j = 0; j < K; j++) {
        const char *at = strchr("AaCcGgTtUu", letters[j]);
        if (!at)
            return -2;
        word[j] = "AACCGGTTTT"[at - "AaCcGgTtUu"];
    }
    for (size_t i = 0; i < n_words; i++)
        if (strcmp(words[i], word) == 0)
            return (int32_t)i;
    return -1;
}

/* The piece of the letters from beg on: the first `own` windows of it. */
static void check_piece(const kmf_wordrows *w, kmf_columns *columns, const char *letters,
                        size_t beg, size_t own)
{
    static int32_t right[LETTERS], rows[LETTERS + KMF_WORD_BLOCK], counts[MOST + 1];
    kmf_piece listed = {.beg = beg, .end = LETTERS, .own_beg = beg, .own_end = beg + own};
    kmf_piece counted = listed;
    kmf_wordwalk walk;
    size_t n_right = 0, unknown = 0, ambiguous = 0, n = 0, more;
    uint64_t weight = 0;
    for (size_t i = beg; i < beg + own && i + K <= LETTERS; i++) {
        int32_t row = row_of(letters + i);
        if (row >= 0 && w->row_weights && w->row_weights[row] == 0)
            row = -1;
        if (row >= 0) {
            weight += w->row_weights ? w->row_weights[row] : KMF_WEIGHT_ONE;
            right[n_right++] = row;
        }
        unknown += row == -1;
        ambiguous += row == -2;
    }
    kmf_wordwalk_start(&walk, w, columns, letters, &listed);
    while ((more = kmf_wordwalk_rows(rows + n, &walk, &listed)) > 0)
        n += more;
    ck_assert_uint_eq(n, n_right);
    ck_assert_mem_eq(rows, right, n * sizeof *rows);
    ck_assert_uint_eq(walk.weight, weight);

    kmf_wordwalk_start(&walk, w, columns, letters, &counted);
    kmf_wordwalk_count(counts, &walk, &counted);
    ck_assert_uint_eq(walk.weight, weight);
    for (size_t i = 0; i < n_right; i++)
        for (size_t c = 0; c < w->n_rows; c++)
            counts[c] -= w->rows[c] == right[i];
    for (size_t c = 0; c <= w->n_rows; c++)
        ck_assert_int_eq(counts[c], 0);

    const kmf_piece *both[] = {&listed, &counted};
    for (size_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(both[i]->tokens, n_right);
        ck_assert_uint_eq(both[i]->unknown, unknown);
        ck_assert_uint_eq(both[i]->ambiguous, ambiguous);
    }
}

/* first: of all words in order the first one's row, else -1. */
static void check_words(size_t shorter, size_t step, size_t n, const uint64_t *weights,
                        int32_t first)
{
    kmf_rng rng = kmf_rng_stream(step, 0);
    static char letters[LETTERS];
    draw_letters(letters, LETTERS, &rng);
    kmf_vectors *vectors = kmf_vectors_load(write_words(shorter, step, n), NULL);
    ck_assert_ptr_nonnull(vectors);
    kmf_kmer_kind kind = {.alphabet = kmf_alphabet_of(KMF_DNA), .k = K, .stride = 1};
    kmf_wordrows w = kmf_wordrows_of(kind, vectors);
    kmf_wordrows_weigh(&w, weights, !weights);
    ck_assert(w.in_columns);
    ck_assert_int_eq(w.first, first);
    ck_assert_int_eq(kmf_wordrows_columns(&w, NULL), 0);
    kmf_columns *columns = kmf_columns_new(K, w.column, NULL);
    ck_assert_ptr_nonnull(columns);
    kmf_columns_start(columns, letters, LETTERS);
    for (size_t i = 0; i < 60; i++) {
        size_t beg = kmf_rng_below(&rng, LETTERS);
        size_t own = kmf_rng_below(&rng, LETTERS - beg + 1);
        check_piece(&w, columns, letters, beg, own);
        check_piece(&w, NULL, letters, beg, own);
    }
    kmf_columns_free(columns);
    kmf_wordrows_free(&w);
    kmf_vectors_free(vectors);
}

START_TEST(windows_have_the_rows_of_their_words)
{
    static uint64_t some[MOST];
    for (size_t i = 0; i < MOST; i++)
        some[i] = i % 3 == 0 ? 0 : KMF_WEIGHT_ONE / (i + 1);
    make_dir();
    check_words(0, 1, CODES, NULL, 0);
    check_words(1, 1, CODES, NULL, 1);
    check_words(1, 1, CODES, some, 1);
    check_words(0, 37, CODES, NULL, -1);
    check_words(0, 37, 49, NULL, -1); /* 15 are lacking, CCC too */
    check_words(0, 37, 49, some, -1);
    remove_dir();
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    tcase_add_test(tcase, windows_have_the_rows_of_their_words);
    return run_case("wordrows", tcase);
}
