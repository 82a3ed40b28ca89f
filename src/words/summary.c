/* SPDX-License-Identifier: MIT */
/*
 * What a table of counts comes to. Everything is one walk over the table.
 *
 * Entropy. With counts c of total t, p = c / t:
 *
 *   -sum p log2 p  =  log2 t - (sum c log2 c) / t
 *
 * Nearly all counts are small and come again and again, so how many k-mers have count c is
 * noted for small c, exactly, and their logarithms are taken once each. The sum runs over small
 * counts in ascending order, after large ones in code order: the same bits however the table is
 * stored.
 *
 * GC is exact: the counts are summed for each number of G and C that a k-mer can have, which
 * cannot overflow where their total does not. A k-mer and its reverse complement have the same
 * GC.
 *
 * Canonical k-mers. Reverse complement pairs up the 4^k k-mers, but for those that are their
 * own reverse complement. A base is never its own complement, so for odd k, whose middle base
 * would have to be, there are none; for even k the first half determines the second: 4^(k/2).
 * Hence (4^k + 4^(k/2)) / 2 or 4^k / 2 pairs.
 *
 * The most frequent ones are kept in a heap whose top is the last of them, the first to go.
 */
#include "base/err.h"
#include "base/heap.h"
#include "base/mem.h"
#include "words/alphabet.h"
#include "words/counts.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#define N_SMALL 1024               /* counts whose logarithm is taken once */
#define N_COMMON ((size_t)1 << 16) /* counts tallied in an array */
#define ODD_BITS 0x5555555555555555u

double kmf_counts_possible(const kmf_counts_info *info)
{
    double all = kmf_alphabet_possible(info->alphabet, info->k);
    if (!info->canonical)
        return all;
    double own = info->k % 2 ? 0 : kmf_alphabet_possible(info->alphabet, info->k / 2);
    return (all + own) / 2;
}

/* G and C are the bases whose two bits differ. */
static unsigned n_gc(uint64_t code)
{
    uint64_t x = (code ^ code >> 1) & ODD_BITS;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (unsigned)(x * 0x0101010101010101u >> 56);
}

static double entropy_of(const uint64_t n_of[N_SMALL], double large, uint64_t total)
{
    double sum = large;
    if (total == 0)
        return 0;
    for (size_t c = 2; c < N_SMALL; c++)
        sum += (double)n_of[c] * ((double)c * log2((double)c));
    double entropy = log2((double)total) - sum / (double)total;
    return entropy > 0 ? entropy : 0;
}

void kmf_counts_summarise(const kmf_counts *counts, kmf_counts_summary *summary)
{
    const kmf_counts_info *info = &counts->info;
    kmf_counts_walk walk;
    uint64_t code;
    uint64_t count;
    uint64_t n_of[N_SMALL] = {0}; /* k-mers with a count */
    uint64_t gc[KMF_K_MAX + 1] = {0};
    double large = 0; /* sum c log2 c */
    double n_bases = 0;
    kmf_counts_summary s = {.possible = kmf_counts_possible(info), .gc = -1};
    for (kmf_counts_start(&walk, counts); kmf_counts_next(&walk, &code, &count);) {
        if (s.smallest == 0 || count < s.smallest)
            s.smallest = count;
        if (count > s.largest)
            s.largest = count;
        s.total += count;
        gc[info->alphabet == KMF_DNA ? n_gc(code) : 0] += count;
        if (count < N_SMALL)
            n_of[count]++;
        else
            large += (double)count * log2((double)count);
    }
    s.coverage = (double)info->distinct / s.possible;
    s.entropy = entropy_of(n_of, large, s.total);
    for (int i = 1; i <= info->k; i++)
        n_bases += i * (double)gc[i];
    if (info->alphabet == KMF_DNA && s.total > 0)
        s.gc = n_bases / (info->k * (double)s.total);
    *summary = s;
}

/* ---------------------------------------------------------------- extremes --------------- */

/* The last of the list on top. */
#define comes_before(a, b) \
    ((a).count < (b).count || ((a).count == (b).count && (a).code < (b).code))
KMF_HEAP(extremes, kmf_kmer_count, comes_before)
KMF_HEAP_SORT(extremes, kmf_kmer_count)

/* flip: 0; UINT64_MAX: the greatest count is the least, until it is flipped again. */
static bool next_of(kmf_counts_walk *walk, kmf_kmer_count *next, uint64_t flip)
{
    if (!kmf_counts_next(walk, &next->code, &next->count))
        return false;
    next->count ^= flip;
    return true;
}

int64_t kmf_counts_extreme(const kmf_counts *counts, kmf_kmer_count *list, size_t n, int least,
                           kmf_err *err)
{
    kmf_counts_walk walk;
    kmf_kmer_count next;
    size_t n_list = 0;
    const uint64_t flip = least ? 0 : UINT64_MAX;
    if (n > INT64_MAX)
        return kmf_fail(err, KMF_EINVAL, "a list of %zu k-mers is too long", n);
    kmf_counts_start(&walk, counts);
    while (n_list < n && next_of(&walk, &list[n_list], flip))
        n_list++;
    extremes_heap(list, n_list);
    while (n > 0 && next_of(&walk, &next, flip))
        if (comes_before(next, list[0])) {
            list[0] = next;
            extremes_sink(list, n, 0);
        }
    extremes_sort(list, n_list);
    for (size_t i = 0; i < n_list; i++)
        list[i].count ^= flip;
    return (int64_t)n_list;
}

/* ---------------------------------------------------------------- spectrum --------------- */

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Counts below N_COMMON into n_of, the others, sorted, into rare. */
static int tally(const kmf_counts *counts, uint64_t *n_of, uint64_t **rare, size_t *n_rare,
                 kmf_err *err)
{
    kmf_counts_walk walk;
    uint64_t code;
    uint64_t count;
    size_t cap = 0;
    for (kmf_counts_start(&walk, counts); kmf_counts_next(&walk, &code, &count);) {
        if (count < N_COMMON) {
            n_of[count]++;
            continue;
        }
        if (kmf_grow(rare, &cap, *n_rare + 1, sizeof **rare, err) < 0)
            return KMF_ENOMEM;
        (*rare)[(*n_rare)++] = count;
    }
    if (*n_rare > 0)
        qsort(*rare, *n_rare, sizeof **rare, by_value);
    return 0;
}

static void add_line(kmf_spectrum *s, uint64_t count, uint64_t kmers)
{
    if (s->n == 0 || s->count[s->n - 1] != count) {
        s->count[s->n] = count;
        s->kmers[s->n++] = 0;
    }
    s->kmers[s->n - 1] += kmers;
}

int kmf_counts_spectrum(const kmf_counts *counts, kmf_spectrum *spectrum, kmf_err *err)
{
    int status = KMF_ENOMEM;
    uint64_t *rare = NULL;
    size_t n_rare = 0;
    *spectrum = (kmf_spectrum){0};
    uint64_t *n_of = kmf_calloc(N_COMMON, sizeof *n_of, err);
    if (!n_of || tally(counts, n_of, &rare, &n_rare, err) < 0)
        goto out;
    size_t n = 0; /* lines at most */
    for (size_t c = 0; c < N_COMMON; c++)
        n += n_of[c] > 0;
    for (size_t i = 0; i < n_rare; i++)
        n += i == 0 || rare[i] != rare[i - 1];
    spectrum->count = kmf_malloc(n, sizeof *spectrum->count, err);
    spectrum->kmers = spectrum->count ? kmf_malloc(n, sizeof *spectrum->kmers, err) : NULL;
    if (!spectrum->kmers)
        goto out;
    for (size_t c = 0; c < N_COMMON; c++)
        if (n_of[c] > 0)
            add_line(spectrum, c, n_of[c]);
    for (size_t i = 0; i < n_rare; i++)
        add_line(spectrum, rare[i], 1);
    status = 0;
out:
    kmf_free(n_of);
    kmf_free(rare);
    if (status < 0)
        kmf_spectrum_free(spectrum);
    return status;
}

void kmf_spectrum_free(kmf_spectrum *spectrum)
{
    if (!spectrum)
        return;
    kmf_free(spectrum->count);
    kmf_free(spectrum->kmers);
    *spectrum = (kmf_spectrum){0};
}
