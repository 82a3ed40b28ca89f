/* SPDX-License-Identifier: MIT */
/*
 * The baselines: k-mer counts of stretches of letters.
 *
 * `tnf` counts a tetranucleotide together with its reverse complement: 16 of the 256 are their own,
 * the other 240 make 120 pairs, so 136 columns, in the order of the smaller code. `kmer:K` counts
 * each of the 4^K k-mers by itself. Counts are whole numbers, exact in a double, so it does not
 * matter where a strand is cut.
 *
 * Speed. Of a read each window is an increment in its column. Of a long stretch only every S-th
 * window is, in a table of W = k + S - 1 letters: counting a W-mer counts its S k-mers, which get
 * their share at the end (words/dense.c does the same, in bytes): the last k letters of each; then,
 * with the last letter dropped and what is alike added up, the last k of what is left; and so on.
 * The tables are a worker's own.
 *
 *   k     1  2  3  4  5  6  7  8
 *   W     6  6  6  6  7  7  -  -     4^W places, 16 or 64 KB, and a third as many for shorter words
 */
#include "base/cpu.h"
#include "base/err.h"
#include "base/mem.h"
#include "embed/method.h"
#include "embed/settings.h"
#include "words/eights.h"
#include "words/kmer.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK KMF_EIGHTS_BLOCK
#define K_MAX 8
#define TNF_K 4
#define TNF_CODES 256
#define WORTH 1 /* windows for each place of the W-mers from which on they are used */

/* One worker's. Counts are 0 between pieces; a piece has less than 2^31 windows. */
typedef struct desk {
    int32_t *columns; /* owned [dim] */
    int32_t *groups;  /* owned [room_of_groups]; NULL: all windows go to columns */
    kmf_eights numbers;
    size_t beg, end; /* the batch's letters that are in numbers */
} desk;

typedef struct frequency {
    kmf_method base;
    char *name; /* owned */
    int k;
    int W;                     /* 0: no groups */
    bool canonical;            /* tnf: */
    uint8_t column[TNF_CODES]; /* of a tetranucleotide */
    desk *desks;               /* owned [n_desks] */
    size_t n_desks;
} frequency;

static size_t n_groups(const frequency *m)
{
    return m->W > 0 ? (size_t)1 << 2 * m->W : 0;
}

/* 4^W, and behind them 4^(W - 1) and so on, to 4^k. */
static size_t room_of_groups(const frequency *m)
{
    size_t n = 0;
    for (int w = m->k; w <= m->W; w++)
        n += (size_t)1 << 2 * w;
    return n;
}

/* n windows in a row, the first at the letters of `eights`. */
static void add_windows(const frequency *m, desk *own, const uint16_t *eights, size_t n)
{
    int shift = 2 * (8 - m->k);
    if (m->canonical)
        for (size_t i = 0; i < n; i++)
            own->columns[m->column[eights[i] >> shift]]++;
    else
        for (size_t i = 0; i < n; i++)
            own->columns[eights[i] >> shift]++;
}

static void add_groups(const frequency *m, desk *own, const uint16_t *eights, size_t n)
{
    int shift = 2 * (8 - m->W);
    size_t S = (size_t)m->W - (size_t)m->k + 1;
    size_t i = 0;
    for (; i + S <= n; i += S)
        own->groups[eights[i] >> shift]++;
    add_windows(m, own, eights + i, n - i);
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

/* Adds the k-mers of all W-mers to the columns; the W-mers' counts are 0 again. */
static void share_out_groups(const frequency *m, desk *own)
{
    int32_t tetramers[TNF_CODES] = {0};
    int32_t *counts = m->canonical ? tetramers : own->columns;
    size_t n = (size_t)1 << 2 * m->k;
    int32_t *words = own->groups;
    size_t n_words = n_groups(m);
    add_endings(counts, n, words, n_words);
    for (; n_words > n; n_words /= 4) {
        drop_letter(words + n_words, words, n_words / 4);
        words += n_words;
        add_endings(counts, n, words, n_words / 4);
    }
    memset(own->groups, 0, n_groups(m) * sizeof *own->groups);
    for (size_t code = 0; m->canonical && code < n; code++)
        own->columns[m->column[code]] += tetramers[code];
}

/* The place in own->numbers of n letters from `beg` on, which are taken with what follows them. */
static size_t find_numbers(desk *own, const kmf_batch *b, size_t beg, size_t n)
{
    if (beg < own->beg || beg + n > own->end) {
        size_t left = b->n_units - beg;
        size_t most = BLOCK + KMF_EIGHTS_AHEAD;
        own->beg = beg;
        own->end = beg + (left < most ? left : most);
        kmf_eights_take(&own->numbers, b->letters + beg, own->end - beg);
    }
    return beg - own->beg;
}

/* The windows that start in n letters from `beg` on, BLOCK at most. How many are clean. */
static size_t count_block(const frequency *m, desk *own, const kmf_batch *b, size_t beg,
                          size_t n, bool in_groups)
{
    size_t k = (size_t)m->k;
    size_t reach = n + k - 1;
    size_t i = find_numbers(own, b, beg, reach);
    size_t stop = i + reach;
    size_t n_clean = 0;
    for (size_t end; i < stop; i = end + 1) {
        end = kmf_eights_run(&own->numbers, i, stop);
        if (end < i + k)
            continue;
        size_t windows = end - k + 1 - i;
        if (in_groups)
            add_groups(m, own, own->numbers.codes + i, windows);
        else
            add_windows(m, own, own->numbers.codes + i, windows);
        n_clean += windows;
    }
    return n_clean;
}

/* Counts as doubles; the columns are 0 again. */
static void take_counts(double *sum, int32_t *columns, size_t dim);

static KMF_INLINE void take_counts_body(double *restrict sum, int32_t *restrict columns,
                                        size_t dim)
{
    for (size_t d = 0; d < dim; d++) {
        sum[d] = columns[d];
        columns[d] = 0;
    }
}

KMF_CLONES(take_counts, (double *sum, int32_t *columns, size_t dim), (sum, columns, dim))

static void count_piece(double *sum, const frequency *m, desk *own, const kmf_batch *b,
                        kmf_piece *p)
{
    size_t windows = p->end - p->beg - (size_t)m->k + 1;
    bool in_groups = own->groups && windows >= WORTH * n_groups(m);
    for (size_t at = 0; at < windows; at += BLOCK) {
        size_t n = windows - at < BLOCK ? windows - at : BLOCK;
        p->tokens += count_block(m, own, b, p->beg + at, n, in_groups);
    }
    if (in_groups)
        share_out_groups(m, own);
    take_counts(sum, own->columns, b->dim);
    p->ambiguous = windows - p->tokens;
    p->weight = (double)p->tokens;
}

static void work(const kmf_method *method, kmf_batch *batch, int worker)
{
    const frequency *m = (const frequency *)method;
    desk *own = &m->desks[worker];
    own->beg = own->end = 0;
    for (size_t i = 0; i < batch->n_pieces; i++)
        count_piece(batch->sums + i * batch->dim, m, own, batch, &batch->pieces[i]);
}

static size_t bytes(const kmf_method *method)
{
    const frequency *m = (const frequency *)method;
    size_t n_counts = m->base.shape.dim + room_of_groups(m);
    return m->n_desks * (sizeof(desk) + n_counts * sizeof(int32_t));
}

static json_t *settings(const kmf_method *method, const kmf_embed_options *opts)
{
    (void)method;
    (void)opts;
    return json_object();
}

static void release(kmf_method *method)
{
    frequency *m = (frequency *)method;
    for (size_t i = 0; m->desks && i < m->n_desks; i++) {
        kmf_free(m->desks[i].columns);
        kmf_free(m->desks[i].groups);
    }
    kmf_free(m->desks);
    kmf_free(m->name);
    kmf_free(m);
}

static const kmf_method_kind kind = {.work = work,
                                     .bytes = bytes,
                                     .settings = settings,
                                     .free = release,
                                     .unknown = "k-mers without a column"};

/* The columns, and how many there are. */
static size_t fill_columns(frequency *m)
{
    uint8_t n = 0;
    for (uint64_t code = 0; code < TNF_CODES; code++) {
        uint64_t canonical = kmf_kmer_canonical(code, TNF_K);
        m->column[code] = canonical == code ? n++ : m->column[canonical];
    }
    return n;
}

/* Reads K out of "kmer:K"; tnf has its own. */
static int read_k(frequency *m, kmf_err *err)
{
    static const int W_of[] = {0, 6, 6, 6, 6, 7, 7, 0, 0};
    m->canonical = strcmp(m->name, "tnf") == 0;
    m->k = TNF_K;
    m->W = W_of[TNF_K];
    if (m->canonical)
        return 0;
    const char *digits = m->name + strlen("kmer:");
    char *end;
    long k = strtol(digits, &end, 10);
    if (digits[0] < '0' || digits[0] > '9' || *end != '\0' || k < 1 || k > K_MAX)
        return kmf_fail(err, KMF_EINVAL, "%s: write kmer:K with K from 1 to %d", m->name,
                        K_MAX);
    m->k = (int)k;
    m->W = W_of[k];
    return 0;
}

static int make_desks(frequency *m, size_t n, kmf_err *err)
{
    m->n_desks = n;
    m->desks = kmf_calloc(n, sizeof *m->desks, err);
    if (!m->desks)
        return KMF_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        desk *own = &m->desks[i];
        own->columns = kmf_calloc(m->base.shape.dim, sizeof *own->columns, err);
        if (m->W > 0)
            own->groups = kmf_calloc(room_of_groups(m), sizeof *own->groups, err);
        if (!own->columns || (m->W > 0 && !own->groups))
            return KMF_ENOMEM;
    }
    return 0;
}

kmf_method *kmf_frequency_open(const char *name, kmf_embed_options *opts, kmf_err *err)
{
    frequency *m = kmf_calloc(1, sizeof *m, err);
    if (!m)
        return NULL;
    m->base.kind = &kind;
    m->name = kmf_strdup(name, err);
    if (!m->name || read_k(m, err) < 0 || kmf_settings_frequency(opts, name, err) < 0)
        goto failed;
    size_t k = (size_t)m->k;
    size_t dim = m->canonical ? fill_columns(m) : (size_t)1 << 2 * k;
    size_t letters = opts->batch_tokens;
    m->base.name = m->name;
    m->base.shape = kmf_batch_choose(letters, letters, dim, false);
    m->base.stretch = (kmf_stretch){.step = letters - (k - 1), .span = letters, .least = k};
    if (make_desks(m, (size_t)opts->threads, err) < 0)
        goto failed;
    return &m->base;
failed:
    kmf_method_free(&m->base);
    return NULL;
}
