/* SPDX-License-Identifier: MIT */
#include "embed/wordrows.h"

#include "base/cpu.h"
#include "base/mem.h"

/* ---------------------------------------------------------------- words ------------------ */

/* The row of the first code, if those of all others follow in order; else -1. */
static int32_t first_of(const kmf_wordrows *words)
{
    const int32_t *dense = words->vectors->words[words->kind.k].dense;
    size_t n = words->in_columns && dense ? kmf_kmer_codes(&words->kind) : 0;
    size_t code = 0;
    while (code < n && dense[0] >= 0 && dense[code] == dense[0] + (int32_t)code)
        code++;
    return n > 0 && code == n ? dense[0] : -1;
}

kmf_wordrows kmf_wordrows_of(kmf_kmer_kind kind, const kmf_vectors *vectors)
{
    kmf_wordrows words = {.kind = kind, .vectors = vectors};
    words.in_columns =
        vectors->info.alphabet == KMF_DNA && kind.stride == 1 && kind.k <= KMF_COLUMNS_K_MAX;
    kmf_wordrows_weigh(&words, NULL, true);
    return words;
}

void kmf_wordrows_weigh(kmf_wordrows *words, const uint64_t *weights, bool alike)
{
    words->row_weights = weights;
    words->alike = alike;
    words->first = first_of(words);
}

int kmf_wordrows_columns(kmf_wordrows *words, kmf_err *err)
{
    const kmf_vectors *v = words->vectors;
    const int32_t *dense = v->words[words->kind.k].dense;
    size_t n = kmf_kmer_codes(&words->kind);
    int32_t *column = kmf_malloc(v->info.n, sizeof *column, err); /* of each row */
    words->column = kmf_malloc(n, sizeof *words->column, err);
    words->rows = kmf_malloc(v->words[words->kind.k].n, sizeof *words->rows, err);
    if (!column || !words->column || !words->rows) {
        kmf_free(column);
        return KMF_ENOMEM;
    }
    for (size_t row = 0; row < v->info.n; row++) {
        if (v->k[row] != words->kind.k ||
            (words->row_weights && words->row_weights[row] == 0)) {
            column[row] = -1;
            continue;
        }
        column[row] = (int32_t)words->n_rows;
        words->rows[words->n_rows++] = (int32_t)row;
    }
    for (size_t code = 0; code < n; code++) {
        bool has = dense[code] >= 0 && column[dense[code]] >= 0;
        words->column[code] = has ? column[dense[code]] : (int32_t)words->n_rows;
    }
    kmf_free(column);
    if (!words->row_weights)
        return 0;
    words->weights = kmf_malloc(words->n_rows, sizeof *words->weights, err);
    if (!words->weights)
        return KMF_ENOMEM;
    for (size_t i = 0; i < words->n_rows; i++)
        words->weights[i] = words->row_weights[words->rows[i]];
    return 0;
}

void kmf_wordrows_free(kmf_wordrows *words)
{
    kmf_free(words->column);
    kmf_free(words->rows);
    kmf_free(words->weights);
}

size_t kmf_wordrows_bytes(const kmf_wordrows *words)
{
    if (!words->column)
        return 0;
    return kmf_kmer_codes(&words->kind) * sizeof *words->column +
           words->n_rows * sizeof *words->rows +
           (words->weights ? words->n_rows * sizeof *words->weights : 0);
}

/* ---------------------------------------------------------------- windows ---------------- */

void kmf_wordwalk_start(kmf_wordwalk *w, const kmf_wordrows *words, kmf_columns *columns,
                        const char *letters, const kmf_piece *p)
{
    size_t k = (size_t)words->kind.k;
    size_t here = p->end - p->beg;
    size_t windows = kmf_min(here < k ? 0 : here - k + 1, p->own_end - p->own_beg);
    w->words = words;
    w->columns = columns;
    w->beg = p->beg;
    w->end = p->beg + windows;
    w->weight = 0;
    kmf_textkmers_start(&w->text, &words->kind, letters + p->beg,
                        windows > 0 ? windows + k - 1 : 0, 0);
}

/* At most KMF_WORD_BLOCK codes; none only at the end. */
static size_t next_codes(kmf_wordwalk *w, uint64_t *codes, kmf_piece *p)
{
    uint64_t before = w->text.tally.ambiguous;
    size_t n = kmf_textkmers_next(&w->text, codes, KMF_WORD_BLOCK);
    p->ambiguous += w->text.tally.ambiguous - before;
    return n;
}

/* The same of words that are in columns. */
static size_t next_columns(int32_t *codes, kmf_wordwalk *w, kmf_piece *p)
{
    size_t n = 0;
    while (n == 0 && w->beg < w->end) {
        size_t windows = kmf_min(w->end - w->beg, KMF_WORD_BLOCK);
        n = kmf_columns_codes(w->columns, codes, w->beg, windows);
        p->ambiguous += windows - n;
        w->beg += windows;
    }
    return n;
}

/* Behind n rows the one of a code of k letters, if it has one; how many there are now. */
static KMF_INLINE size_t keep_row(int32_t *rows, size_t n, const kmf_vectors *vectors,
                                  uint64_t code, int k)
{
    const int32_t *dense = vectors->words[k].dense;
    rows[n] = dense ? dense[code] : (int32_t)kmf_vectors_lookup(vectors, code, k);
    return n + (rows[n] >= 0);
}

/*
 * Looks up the next k-mers, KMF_WORD_BLOCK at most; returns how many, none only at the end. rows:
 * of the *n_rows that have one.
 */
static size_t look_up(int32_t *rows, size_t *n_rows, kmf_wordwalk *w, kmf_piece *p)
{
    const kmf_vectors *vectors = w->words->vectors;
    int k = w->words->kind.k;
    int32_t first = w->words->first;
    size_t n_out = 0;
    size_t n;
    if (w->columns && first >= 0) {
        n = n_out = next_columns(rows, w, p);
        for (size_t i = 0; first > 0 && i < n; i++)
            rows[i] += first;
    } else if (w->columns) {
        n = next_columns(rows, w, p);
        for (size_t i = 0; i < n; i++)
            n_out = keep_row(rows, n_out, vectors, (uint64_t)rows[i], k);
    } else {
        uint64_t codes[KMF_WORD_BLOCK];
        n = next_codes(w, codes, p);
        for (size_t i = 0; i < n; i++)
            n_out = keep_row(rows, n_out, vectors, codes[i], k);
    }
    *n_rows = n_out;
    return n;
}

/* Rows of weight 0 are left out; *sum: the weights of the others are added. */
static size_t weigh_rows(uint64_t *sum, int32_t *rows, size_t n, const uint64_t *weights)
{
    size_t n_out = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t w = weights[rows[i]];
        rows[n_out] = rows[i];
        *sum += w;
        n_out += w > 0;
    }
    return n_out;
}

size_t kmf_wordwalk_rows(int32_t *rows, kmf_wordwalk *w, kmf_piece *p)
{
    size_t n_rows = 0;
    size_t n;
    while (n_rows == 0 && (n = look_up(rows, &n_rows, w, p)) > 0) {
        if (w->words->alike)
            w->weight += n_rows * KMF_WEIGHT_ONE;
        else
            n_rows = weigh_rows(&w->weight, rows, n_rows, w->words->row_weights);
        p->unknown += n - n_rows;
    }
    p->tokens += n_rows;
    return n_rows;
}

/* The k-mers of a walk, to counts of columns; how many there are. */
static size_t count_words(int32_t *counts, kmf_wordwalk *w, kmf_piece *p)
{
    const int32_t *column = w->words->column;
    uint64_t codes[KMF_WORD_BLOCK];
    size_t total = 0;
    size_t n;
    if (w->columns) {
        size_t windows = w->end - w->beg;
        total = kmf_columns_count(w->columns, counts, w->beg, windows);
        p->ambiguous += windows - total;
        return total;
    }
    while ((n = next_codes(w, codes, p)) > 0) {
        for (size_t i = 0; i < n; i++)
            counts[column[codes[i]]]++;
        total += n;
    }
    return total;
}

/* sum += counts[0] weights[0] + .. */
static void weigh(uint64_t *sum, const int32_t *counts, const uint64_t *weights, size_t n);

static KMF_INLINE void weigh_body(uint64_t *sum, const int32_t *restrict counts,
                                  const uint64_t *restrict weights, size_t n)
{
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++)
        all += (uint64_t)counts[i] * weights[i];
    *sum += all;
}

KMF_CLONES(weigh, (uint64_t * sum, const int32_t *counts, const uint64_t *weights, size_t n),
           (sum, counts, weights, n))

void kmf_wordwalk_count(int32_t *counts, kmf_wordwalk *w, kmf_piece *p)
{
    const kmf_wordrows *words = w->words;
    size_t total = count_words(counts, w, p);
    size_t unknown = (size_t)counts[words->n_rows];
    counts[words->n_rows] = 0;
    p->tokens += total - unknown;
    p->unknown += unknown;
    if (words->weights)
        weigh(&w->weight, counts, words->weights, words->n_rows);
    else
        w->weight += (total - unknown) * KMF_WEIGHT_ONE;
}
