/* SPDX-License-Identifier: MIT */
/*
 * A small corpus is asked for each count (learn/suffixes.h), where tables would be mostly zeros.
 * Elsewhere words of C bases are counted once, and all else from that.
 *
 *   letters   T_C[w]           words of the forward strand, one pass
 *   strands   T_C[w]  +=       T_C[reverse complement of w]
 *   orders    T_l[w]  =        T_{l+1}[A w] + .. + T_{l+1}[T w] + those that begin a strand
 *
 * A word of l bases is the end of one of l + 1 bases, unless nothing stands before it: then it
 * is the first word of a segment, or the reverse complement of its last one. Those few are
 * counted by themselves, so that every table is exact.
 *
 * The strands are added in tiles. Of a word h m t, with two bases in h and in t, the reverse
 * complement is t' m' h': the 256 words of one m are 16 lines of a cache, and so are their
 * partners. Word by word the table would be gone through once in order and once at random.
 *
 * Time: for each letter one increment at random in a table that no cache holds, so it is sent
 * for some letters ahead; then the table of order 12, 268 MB, a few times from end to end.
 *
 * Words of C >= 9 bases are counted whatever the order asked for: their table is 1 MB, and
 * words of up to 8, which in a large corpus are more than 2^32, get 64 bits.
 */
#include "learn/markov.h"

#include "base/mem.h"
#include "learn/suffixes.h"
#include "words/kmer.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define WIDE 8 /* bases of the longest word with a count of 64 bits */
#define LONGEST (KMF_MARKOV_MAX + 1)
#define BLOCK 4096 /* letters */
#define AHEAD 24   /* words sent for before they are counted */
#define TOLD_EVERY ((uint64_t)1 << 22)
#define SMALL 4 /* tables have as many times the bytes of a small corpus' suffixes, or more */
static_assert(LONGEST <= KMF_SUFFIXES_LONGEST, "suffixes hold all words");

struct kmf_markov {
    int max_order;
    kmf_suffixes *suffixes;        /* owned; NULL: tables */
    int longest;                   /* C */
    uint64_t *wide[WIDE + 1];      /* owned [4^l], of words of l bases */
    uint32_t *narrow[LONGEST + 1]; /* owned [4^l], those beyond WIDE */
};

static bool is_narrow(int len)
{
    return len > WIDE;
}

static size_t words_of(int len)
{
    return (size_t)1 << 2 * len;
}

static int longest_of(int max_order)
{
    return max_order + 1 > WIDE + 1 ? max_order + 1 : WIDE + 1;
}

static uint32_t capped(uint64_t count)
{
    return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

static inline uint64_t count_at(const kmf_markov *m, int len, uint64_t code)
{
    return is_narrow(len) ? m->narrow[len][code] : m->wide[len][code];
}

static inline void add_at(kmf_markov *m, int len, uint64_t code, uint64_t count)
{
    if (is_narrow(len))
        m->narrow[len][code] = capped(m->narrow[len][code] + count);
    else
        m->wide[len][code] += count;
}

static uint64_t table_bytes(int max_order)
{
    uint64_t bytes = 0;
    for (int len = 1; len <= longest_of(max_order); len++)
        bytes += words_of(len) * (is_narrow(len) ? sizeof(uint32_t) : sizeof(uint64_t));
    return bytes;
}

static bool is_small(int max_order, uint64_t letters)
{
    return letters < UINT32_MAX &&
           kmf_suffixes_bytes(letters) <= table_bytes(max_order) / SMALL;
}

uint64_t kmf_markov_bytes(int max_order, uint64_t letters)
{
    return sizeof(kmf_markov) + (is_small(max_order, letters) ? kmf_suffixes_bytes(letters)
                                                              : table_bytes(max_order));
}

void kmf_markov_free(kmf_markov *markov)
{
    if (!markov)
        return;
    for (int len = 1; len <= WIDE; len++)
        kmf_free(markov->wide[len]);
    for (int len = WIDE + 1; len <= LONGEST; len++)
        kmf_free(markov->narrow[len]);
    kmf_suffixes_free(markov->suffixes);
    kmf_free(markov);
}

static bool take_tables(kmf_markov *m, kmf_err *err)
{
    for (int len = 1; len <= m->longest; len++) {
        void *table = kmf_large_zeroed(
            words_of(len), is_narrow(len) ? sizeof(uint32_t) : sizeof(uint64_t), err);
        if (!table)
            return false;
        if (is_narrow(len))
            m->narrow[len] = table;
        else
            m->wide[len] = table;
    }
    return true;
}

/* ---------------------------------------------------------------- counting -------------- */

static void count_codes(uint32_t *table, const uint32_t *codes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t ahead = i + AHEAD < n ? i + AHEAD : i;
        __builtin_prefetch(&table[codes[ahead]], 1);
        uint32_t *count = &table[codes[i]];
        *count += *count < UINT32_MAX;
    }
}

/* The words of C bases in letters beg .. end - 1. */
static void count_segment(kmf_markov *m, const kmf_corpus *corpus, uint64_t beg, uint64_t end)
{
    uint8_t letters[BLOCK];
    uint32_t codes[BLOCK];
    uint32_t low = (uint32_t)(words_of(m->longest) - 1);
    uint32_t code = 0;
    size_t before = (size_t)m->longest - 1; /* letters without a word that ends at them */
    for (uint64_t at = beg; at < end; at += BLOCK) {
        size_t n = end - at < BLOCK ? (size_t)(end - at) : BLOCK;
        kmf_corpus_letters(corpus, letters, at, n);
        for (size_t i = 0; i < n; i++) {
            code = (code << 2 | letters[i]) & low;
            codes[i] = code;
        }
        if (before < n)
            count_codes(m->narrow[m->longest], codes + before, n - before);
        before = 0;
    }
}

/* The first words of a segment's two strands, of all lengths below C. */
static void count_ends(kmf_markov *m, const kmf_corpus *corpus, uint64_t beg, uint64_t end)
{
    uint8_t first[LONGEST];
    uint8_t last[LONGEST];
    size_t n = end - beg < (uint64_t)m->longest ? (size_t)(end - beg) : (size_t)m->longest - 1;
    uint64_t forward = 0;
    uint64_t backward = 0;
    kmf_corpus_letters(corpus, first, beg, n);
    kmf_corpus_letters(corpus, last, end - n, n);
    for (size_t i = 0; i < n; i++) {
        forward = forward << 2 | first[i];
        backward = backward << 2 | (3u - last[n - 1 - i]);
        add_at(m, (int)i + 1, forward, 1);
        add_at(m, (int)i + 1, backward, 1);
    }
}

/* tile[head][tail]: the counts of the words whose middle is `mid`. */
static void read_tile(uint32_t tile[16][16], const uint32_t *table, int len, uint64_t mid)
{
    for (uint64_t head = 0; head < 16; head++)
        memcpy(tile[head], table + (head << 2 * (len - 2) | mid << 4), sizeof tile[head]);
}

static void write_tile(uint32_t *table, int len, uint64_t mid, uint32_t tile[16][16])
{
    for (uint64_t head = 0; head < 16; head++)
        memcpy(table + (head << 2 * (len - 2) | mid << 4), tile[head], sizeof tile[head]);
}

/* sum[head][tail] = both strands' count of a word of tile a, whose partner is in tile b. */
static void add_tiles(uint32_t sum[16][16], uint32_t a[16][16], uint32_t b[16][16])
{
    for (uint64_t head = 0; head < 16; head++)
        for (uint64_t tail = 0; tail < 16; tail++)
            sum[head][tail] = capped((uint64_t)a[head][tail] +
                                     b[kmf_revcomp_of(tail, 2)][kmf_revcomp_of(head, 2)]);
}

static void add_strands(uint32_t *table, int len)
{
    uint32_t tile[16][16];
    uint32_t other[16][16];
    uint32_t sum[16][16];
    assert(len > 4); /* two letters at either end, and some between */
    for (uint64_t mid = 0; mid < words_of(len - 4); mid++) {
        uint64_t partner = kmf_revcomp_of(mid, len - 4);
        if (mid > partner)
            continue;
        read_tile(tile, table, len, mid);
        read_tile(other, table, len, partner);
        add_tiles(sum, tile, other);
        write_tile(table, len, mid, sum);
        add_tiles(sum, other, tile);
        write_tile(table, len, partner, sum);
    }
}

static void add_longer(kmf_markov *m, int len)
{
    size_t n = words_of(len);
    for (size_t w = 0; w < n; w++) {
        uint64_t sum = 0;
        for (size_t x = 0; x < 4; x++)
            sum += count_at(m, len + 1, x * n + w);
        add_at(m, len, w, sum);
    }
}

static void fill_tables(kmf_markov *m, const kmf_corpus *corpus, uint64_t n_segments,
                        kmf_progress_fn *fn, void *user)
{
    uint64_t told = 0;
    for (uint64_t s = 0; s < n_segments; s++) {
        uint64_t beg = kmf_corpus_start(corpus, s);
        uint64_t end = kmf_corpus_start(corpus, s + 1);
        count_segment(m, corpus, beg, end);
        count_ends(m, corpus, beg, end);
        if (!fn || end - told < TOLD_EVERY)
            continue;
        told = end;
        fn(user, told);
    }
    add_strands(m->narrow[m->longest], m->longest);
    for (int len = m->longest - 1; len >= 1; len--)
        add_longer(m, len);
}

kmf_markov *kmf_markov_new(const kmf_corpus *corpus, int max_order, kmf_progress_fn *fn,
                           void *user, kmf_err *err)
{
    assert(max_order >= 0 && max_order <= KMF_MARKOV_MAX);
    kmf_corpus_info info;
    kmf_markov *m = kmf_calloc(1, sizeof *m, err);
    if (!m)
        return NULL;
    kmf_corpus_information(corpus, &info);
    m->max_order = max_order;
    m->longest = longest_of(max_order);
    if (is_small(max_order, info.kept)) {
        m->suffixes = kmf_suffixes_new(corpus, max_order + 1, err);
        if (m->suffixes)
            return m;
    } else if (take_tables(m, err)) {
        fill_tables(m, corpus, info.segments, fn, user);
        return m;
    }
    kmf_markov_free(m);
    return NULL;
}

/* ---------------------------------------------------------------- asking ---------------- */

/* Of the words code .. code + n - 1, which differ in their last base alone. */
static uint64_t occurrences(const kmf_markov *m, uint64_t code, unsigned n, int len)
{
    if (m->suffixes)
        return kmf_suffixes_count(m->suffixes, code, n, len);
    uint64_t sum = 0;
    for (unsigned x = 0; x < n; x++)
        sum += count_at(m, len, code + x);
    return sum;
}

uint64_t kmf_markov_count(const kmf_markov *markov, uint64_t code, int len)
{
    assert(len >= 1 && len <= markov->max_order + 1 && code < words_of(len));
    return occurrences(markov, code, 1, len);
}

double kmf_markov_bits(const kmf_markov *markov, int order, const uint8_t *letters, size_t at)
{
    assert(order >= 0 && order <= markov->max_order);
    size_t before = at < (size_t)order ? at : (size_t)order;
    uint64_t context = 0;
    for (size_t i = at - before; i < at; i++)
        context = context << 2 | letters[i];
    int len = (int)before + 1;
    uint64_t total = occurrences(markov, context << 2, 4, len);
    uint64_t n = occurrences(markov, context << 2 | letters[at], 1, len);
    return log2((double)total + 2) - log2((double)n + 0.5);
}
