/* SPDX-License-Identifier: MIT */
/*
 * Of a read each window is an increment of its column. Of a long stretch only every S-th window
 * is, in a table of W = k + S - 1 letters: counting a W-mer counts its S k-mers, which get their
 * share at the end (words/dense.c does the same, in bytes): the last k letters of each; then, with
 * the last letter dropped and what is alike added up, the last k of what is left; and so on.
 *
 *   k        1  2  3  4  5  6  7  8
 *   W        6  6  6  6  7  7  -  -     4^W places, 16 or 64 KB, a third as many for shorter words
 *   from     1  1  1  1  2  4           windows for each of the 4^W on, by measurement
 */
#include "words/columns.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "words/eights.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#define BLOCK KMF_EIGHTS_BLOCK

struct kmf_columns {
    int k;
    int W;                 /* 0: no groups */
    const int32_t *column; /* borrowed; [4^k] or NULL */
    int32_t *groups;       /* owned [room_of]; 0 between calls, where W-mers are counted */
    const char *text;      /* borrowed [n] */
    size_t n;
    size_t beg, end; /* the letters that are in numbers */
    kmf_eights numbers;
};

static size_t n_words(int letters)
{
    return (size_t)1 << 2 * letters;
}

static int letters_of_group(int k)
{
    static const int W_of[] = {0, 6, 6, 6, 6, 7, 7, 0, 0};
    return W_of[k];
}

static size_t worth_groups(const kmf_columns *c)
{
    return n_words(c->W) * (c->k <= 4 ? 1 : c->k == 5 ? 2 : 4);
}

/* 4^W, and behind them 4^(W - 1) and so on, to 4^k; and 4^k sums. 0 without groups. */
static size_t room_of(int k)
{
    int W = letters_of_group(k);
    size_t n = W > 0 ? n_words(k) : 0;
    for (int w = k; w <= W; w++)
        n += n_words(w);
    return n;
}

size_t kmf_columns_bytes(int k)
{
    return sizeof(kmf_columns) + room_of(k) * sizeof(int32_t);
}

kmf_columns *kmf_columns_new(int k, const int32_t *column, kmf_err *err)
{
    assert(k >= 1 && k <= KMF_COLUMNS_K_MAX);
    kmf_columns *c = kmf_calloc(1, sizeof *c, err);
    if (!c)
        return NULL;
    c->k = k;
    c->W = letters_of_group(k);
    c->column = column;
    if (c->W > 0)
        c->groups = kmf_calloc(room_of(k), sizeof *c->groups, err);
    if (c->W == 0 || c->groups)
        return c;
    kmf_columns_free(c);
    return NULL;
}

void kmf_columns_free(kmf_columns *columns)
{
    if (!columns)
        return;
    kmf_free(columns->groups);
    kmf_free(columns);
}

void kmf_columns_start(kmf_columns *columns, const char *text, size_t n)
{
    columns->text = text;
    columns->n = n;
    columns->beg = columns->end = 0;
}

/* ---------------------------------------------------------------- increments ------------ */

/*
 * Every S-th of n windows of k letters, the first at the letters of `eights`, as far as S of them
 * are left; returns how far. k is a constant where this is inlined, and whether there is a column:
 * four windows at a time, as a window is not much more than its increment.
 */
static KMF_INLINE size_t add_every(int32_t *counts, const int32_t *column,
                                   const uint16_t *eights, size_t n, size_t S, int k)
{
    int shift = 2 * (8 - k);
    size_t i = 0;
    for (; i + 4 * S <= n; i += 4 * S) {
        KMF_UNROLL(4)
        for (size_t j = 0; j < 4; j++) {
            size_t code = (size_t)eights[i + j * S] >> shift;
            counts[column ? (size_t)column[code] : code]++;
        }
    }
    for (; i + S <= n; i += S) {
        size_t code = (size_t)eights[i] >> shift;
        counts[column ? (size_t)column[code] : code]++;
    }
    return i;
}

/* n windows in a row. */
static void add_windows(const kmf_columns *c, int32_t *counts, const uint16_t *eights, size_t n)
{
#define OF(letters)                                              \
    case letters:                                                \
        if (c->column)                                           \
            add_every(counts, c->column, eights, n, 1, letters); \
        else                                                     \
            add_every(counts, NULL, eights, n, 1, letters);      \
        break;
    switch (c->k) {
        OF(1)
        OF(2)
        OF(3)
        OF(4)
        OF(5)
        OF(6)
        OF(7)
        OF(8)
    }
#undef OF
}

static void add_groups(kmf_columns *c, int32_t *counts, const uint16_t *eights, size_t n)
{
    size_t S = (size_t)c->W - (size_t)c->k + 1;
    size_t i = c->W == 6 ? add_every(c->groups, NULL, eights, n, S, 6)
                         : add_every(c->groups, NULL, eights, n, S, 7);
    add_windows(c, counts, eights + i, n - i);
}

/* counts [n] += those of longer words, [n_words], by their last letters. */
static void add_endings(int32_t *counts, size_t n, const int32_t *words, size_t n_words);

static KMF_INLINE void add_endings_body(int32_t *restrict counts, size_t n,
                                        const int32_t *restrict words, size_t n_words)
{
    for (size_t beg = 0; beg < n_words; beg += n)
        for (size_t i = 0; i < n; i++)
            counts[i] += words[beg + i];
}

KMF_CLONES(add_endings, (int32_t * counts, size_t n, const int32_t *words, size_t n_words),
           (counts, n, words, n_words))

/* counts [n] = those of words of one letter more, [4 n], without the last one. */
static void drop_letter(int32_t *counts, const int32_t *words, size_t n);

static KMF_INLINE void drop_letter_body(int32_t *restrict counts, const int32_t *restrict words,
                                        size_t n)
{
    for (size_t i = 0; i < n; i++)
        counts[i] = words[4 * i] + words[4 * i + 1] + words[4 * i + 2] + words[4 * i + 3];
}

KMF_CLONES(drop_letter, (int32_t * counts, const int32_t *words, size_t n), (counts, words, n))

/* Adds the k-mers of all W-mers to their columns; the W-mers' counts are 0 again. */
static void share_out_groups(kmf_columns *c, int32_t *counts)
{
    size_t n = n_words(c->k);
    size_t n_longer = n_words(c->W);
    int32_t *longer = c->groups;
    int32_t *kmers = c->column ? c->groups + room_of(c->k) - n : counts;
    add_endings(kmers, n, longer, n_longer);
    for (; n_longer > n; n_longer /= 4) {
        drop_letter(longer + n_longer, longer, n_longer / 4);
        longer += n_longer;
        add_endings(kmers, n, longer, n_longer / 4);
    }
    memset(c->groups, 0, n_words(c->W) * sizeof *c->groups);
    if (!c->column)
        return;
    for (size_t code = 0; code < n; code++)
        counts[c->column[code]] += kmers[code];
    memset(kmers, 0, n * sizeof *kmers);
}

/* ---------------------------------------------------------------- stretches ------------- */

/* The place in c->numbers of n letters from `beg` on, which are taken with what follows them. */
static size_t find_numbers(kmf_columns *c, size_t beg, size_t n)
{
    assert(beg + n <= c->n);
    if (beg < c->beg || beg + n > c->end) {
        size_t left = c->n - beg;
        size_t most = BLOCK + KMF_EIGHTS_AHEAD;
        c->beg = beg;
        c->end = beg + kmf_min(left, most);
        kmf_eights_take(&c->numbers, c->text + beg, c->end - beg);
    }
    return beg - c->beg;
}

/* The next of the runs of windows that lie in the letters i .. stop - 1 of c->numbers. */
typedef struct run {
    size_t i, stop;
    size_t first, n; /* windows */
} run;

static bool next_run(run *r, const kmf_columns *c)
{
    size_t k = (size_t)c->k;
    while (r->i < r->stop) {
        if (c->numbers.letters[r->i] & KMF_NOT_CLEAN)
            r->i = kmf_eights_gap(&c->numbers, r->i, r->stop);
        size_t end = kmf_eights_run(&c->numbers, r->i, r->stop);
        r->first = r->i;
        r->i = end + 1;
        if (end >= r->first + k) {
            r->n = end - k + 1 - r->first;
            return true;
        }
    }
    return false;
}

/* The windows that start in n letters from `beg` on, BLOCK at most. */
static run runs_of_block(kmf_columns *c, size_t beg, size_t n)
{
    size_t reach = n + (size_t)c->k - 1;
    size_t i = find_numbers(c, beg, reach);
    return (run){.i = i, .stop = i + reach};
}

size_t kmf_columns_count(kmf_columns *c, int32_t *counts, size_t beg, size_t windows)
{
    bool in_groups = c->groups && windows >= worth_groups(c);
    size_t n_clean = 0;
    for (size_t at = 0; at < windows; at += BLOCK) {
        run r = runs_of_block(c, beg + at, kmf_min(windows - at, BLOCK));
        while (next_run(&r, c)) {
            if (in_groups)
                add_groups(c, counts, c->numbers.codes + r.first, r.n);
            else
                add_windows(c, counts, c->numbers.codes + r.first, r.n);
            n_clean += r.n;
        }
    }
    if (in_groups)
        share_out_groups(c, counts);
    return n_clean;
}

/* codes [n] = the first letters of these eights. */
static void cut_eights(int32_t *codes, const uint16_t *eights, size_t n, int shift);

static KMF_INLINE void cut_eights_body(int32_t *restrict codes, const uint16_t *restrict eights,
                                       size_t n, int shift)
{
    for (size_t i = 0; i < n; i++)
        codes[i] = eights[i] >> shift;
}

KMF_CLONES(cut_eights, (int32_t * codes, const uint16_t *eights, size_t n, int shift),
           (codes, eights, n, shift))

size_t kmf_columns_codes(kmf_columns *c, int32_t *codes, size_t beg, size_t windows)
{
    size_t n_out = 0;
    for (size_t at = 0; at < windows; at += BLOCK) {
        run r = runs_of_block(c, beg + at, kmf_min(windows - at, BLOCK));
        for (; next_run(&r, c); n_out += r.n)
            cut_eights(codes + n_out, c->numbers.codes + r.first, r.n, 2 * (8 - c->k));
    }
    return n_out;
}
