/* SPDX-License-Identifier: MIT */
/*
 * One increment for several windows, in bytes.
 *
 * Counting is limited by increments of a table that does not fit the nearest cache. So there are
 * fewer of them, on a smaller table:
 *
 *   groups    S windows in a row are W = k + S - 1 letters. Counting that W-mer counts all S
 *             of them: its first k letters, its second k, ... At the end each W-mer's count is
 *             added to its S k-mers. What is left over of a run of windows, fewer than S, goes
 *             to `singles`
 *   bytes     places of 8 bits, four or eight times as many in a cache as usual. Every 256th
 *             increment finds the place at 0 again and adds 256 to the k-mers' places in
 *             `high`, which has 64 bits and is shared: rare, so an atomic addition costs nothing
 *
 *     count(c) = high[c] + sum over workers ( singles[c] + sum_s sum of groups[x], x with c at s )
 *
 * Exact, whatever the counts are. Each worker has tables of its own:
 *
 *   k     1-3   4    5-6   7-8   9-10  11-12
 *   S      5    4     3     3      2     1
 *   W     <=7   7    <=8  <=10  <=11     k      4^12 places are 16 MB
 *
 * `high` is written to in few places where k is large, so most of it never takes memory; `carried`
 * tells where there is something in it.
 *
 * The text is worked off in blocks of 4096 letters that stay in the first-level cache, in
 * passes that become vector code: letters to numbers, numbers to codes of all 8-mers; then, in
 * scalar code, runs of clean letters and their increments. Only the loads of increments miss
 * caches, and those are fetched ahead where the table is large.
 *
 * Protein, and strides beyond 1, take the codes of textkmers.h, one increment of `singles` each.
 */
#include "words/dense.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "seq/par.h"
#include "words/eights.h"
#include "words/kmer.h"

#include <assert.h>
#include <string.h>

#define BLOCK KMF_EIGHTS_BLOCK
#define AHEAD KMF_EIGHTS_AHEAD      /* W is at most 12 */
#define FAR_TABLE ((size_t)2 << 20) /* from this size on increments are fetched ahead */
#define FETCH 32                    /* increments ahead */
#define CARRIED 64

/* One worker's. */
typedef struct workspace {
    uint8_t *singles;   /* owned [2^bits], and [4^W] more for groups */
    uint8_t *groups;    /* in singles; NULL if S is 1: all windows are singles */
    kmf_eights numbers; /* of a block's letters, and some after it */
    uint64_t codes[BLOCK];
    uint64_t *counts; /* owned; of a block of the table, at the end */
} workspace;

struct kmf_dense {
    const kmf_kmer_kind *kind; /* borrowed */
    size_t n_codes;            /* 2^bits */
    int S;                     /* windows of a group */
    int W;                     /* letters of a group */
    int workers;
    workspace *workspaces; /* owned [workers] */
    uint64_t *high;        /* owned [n_codes]; added to atomically while workers are at work */
    uint8_t *carried; /* owned [n_codes / CARRIED + 1]: 1 if so many of high are not all 0 */
};

static bool in_groups(const kmf_kmer_kind *kind)
{
    return kind->alphabet->bits == 2 && kind->stride == 1;
}

static int group_of(const kmf_kmer_kind *kind)
{
    static const int S_of[] = {0, 5, 5, 5, 4, 3, 3, 3, 3, 2, 2, 1, 1};
    return in_groups(kind) ? S_of[kind->k] : 1;
}

static size_t n_groups_of(const kmf_kmer_kind *kind)
{
    int S = group_of(kind);
    return S > 1 ? (size_t)1 << 2 * (kind->k + S - 1) : 0;
}

size_t kmf_dense_bytes(const kmf_kmer_kind *kind, int workers)
{
    return (size_t)workers * (sizeof(workspace) + n_groups_of(kind) + kmf_kmer_codes(kind)) +
           kmf_kmer_codes(kind) * sizeof(uint64_t) + kmf_kmer_codes(kind) / CARRIED + 1;
}

kmf_dense *kmf_dense_new(const kmf_kmer_kind *kind, int workers, kmf_err *err)
{
    assert(kind->alphabet->bits * kind->k <= KMF_DENSE_BITS_MAX);
    kmf_dense *d = kmf_calloc(1, sizeof *d, err);
    if (!d)
        return NULL;
    d->kind = kind;
    d->n_codes = kmf_kmer_codes(kind);
    d->S = group_of(kind);
    d->W = kind->k + d->S - 1;
    d->workers = workers;
    d->workspaces = kmf_calloc((size_t)workers, sizeof *d->workspaces, err);
    d->high = kmf_calloc(d->n_codes, sizeof *d->high, err);
    d->carried = kmf_calloc(d->n_codes / CARRIED + 1, 1, err);
    if (!d->workspaces || !d->high || !d->carried)
        goto failed;
    for (int w = 0; w < workers; w++) {
        size_t n_groups = n_groups_of(kind);
        workspace *k = &d->workspaces[w];
        k->singles = kmf_large_zeroed(n_groups + d->n_codes, 1, err);
        if (!k->singles)
            goto failed;
        k->groups = n_groups > 0 ? k->singles + d->n_codes : NULL;
    }
    return d;
failed:
    kmf_dense_free(d);
    return NULL;
}

void kmf_dense_free(kmf_dense *dense)
{
    if (!dense)
        return;
    for (int w = 0; dense->workspaces && w < dense->workers; w++) {
        kmf_free(dense->workspaces[w].singles);
        kmf_free(dense->workspaces[w].counts);
    }
    kmf_free(dense->workspaces);
    kmf_free(dense->high);
    kmf_free(dense->carried);
    kmf_free(dense);
}

/* ---------------------------------------------------------------- a block --------------- */

/* The code of the W letters from `eights` on. */
static KMF_INLINE uint32_t code_at(const uint16_t *eights, int W, bool wide)
{
    if (!wide)
        return (uint32_t)eights[0] >> 2 * (8 - W);
    return ((uint32_t)eights[0] << 16 | eights[8]) >> 2 * (16 - W);
}

static void carry(kmf_dense *d, uint64_t code)
{
    __atomic_fetch_add(&d->high[code], 256, __ATOMIC_RELAXED);
    __atomic_store_n(&d->carried[code / CARRIED], 1, __ATOMIC_RELAXED);
}

static inline void add_single(kmf_dense *d, workspace *k, uint64_t code)
{
    if (++k->singles[code] == 0)
        carry(d, code);
}

static void carry_group(kmf_dense *d, uint64_t group)
{
    for (int s = 0; s < d->S; s++)
        carry(d, group >> 2 * s & (d->n_codes - 1));
}

/* n groups in a row, S letters from one to the next. */
static KMF_INLINE void add_groups(kmf_dense *d, uint8_t *table, const uint16_t *eights,
                                  size_t n, bool wide, bool far)
{
    int W = d->W;
    size_t S = (size_t)d->S;
    size_t ahead = far && n > FETCH ? n - FETCH : 0;
    for (size_t i = 0; i < n; i++, eights += S) {
        uint32_t group = code_at(eights, W, wide);
        if (far && i < ahead)
            __builtin_prefetch(&table[code_at(eights + FETCH * S, W, wide)], 1);
        if (++table[group] == 0)
            carry_group(d, group);
    }
}

/* n windows in a row, the first at the letters of `eights`. */
static void add_windows(kmf_dense *d, workspace *own, const uint16_t *eights, size_t n)
{
    size_t S = (size_t)d->S;
    size_t n_groups = (unsigned)n / (unsigned)S; /* n is at most BLOCK */
    uint8_t *table = own->groups ? own->groups : own->singles;
    if ((size_t)1 << 2 * d->W >= FAR_TABLE)
        add_groups(d, table, eights, n_groups, true, true);
    else if (d->W > 8)
        add_groups(d, table, eights, n_groups, true, false);
    else
        add_groups(d, table, eights, n_groups, false, false);
    for (size_t i = n_groups * S; i < n; i++)
        add_single(d, own, code_at(eights + i, d->W, d->W > 8) >> 2 * (S - 1));
}

/* ---------------------------------------------------------------- a text ---------------- */

/* A text in work. */
typedef struct place {
    const char *text;     /* borrowed; the block */
    const char *end;      /* of the whole text */
    const char *sequence; /* where the sequence at hand begins */
    uint64_t windows;     /* of the sequences that have ended, clean or not */
    uint64_t kmers;
} place;

static uint64_t windows_of(const char *sequence, const char *end, int k)
{
    return end - sequence >= k ? (uint64_t)(end - sequence - k + 1) : 0;
}

/* The windows that start in the first n letters of the block. */
static void count_block(kmf_dense *d, workspace *own, place *at, size_t n)
{
    size_t k = (size_t)d->kind->k;
    size_t left = (size_t)(at->end - at->text);
    size_t reach = left - n < AHEAD ? left : n + AHEAD;
    kmf_eights_take(&own->numbers, at->text, reach);
    for (size_t i = 0; i < n;) {
        if (own->numbers.letters[i] & KMF_NOT_CLEAN) {
            const char *letter = at->text + i++;
            if (*letter == '\n') {
                at->windows += windows_of(at->sequence, letter, d->kind->k);
                at->sequence = letter + 1;
            }
            continue;
        }
        size_t end = kmf_eights_run(&own->numbers, i, reach);
        if (end >= i + k) {
            size_t behind_last = end - k + 1;
            size_t windows = kmf_min(behind_last, n) - i;
            add_windows(d, own, own->numbers.codes + i, windows);
            at->kmers += windows;
        }
        i = end;
    }
}

static void count_in_groups(kmf_dense *d, workspace *own, const char *text, size_t len,
                            kmf_tally *tally)
{
    place at = {.text = text, .end = text + len, .sequence = text};
    while (at.text < at.end) {
        size_t left = (size_t)(at.end - at.text);
        size_t n = kmf_min(left, BLOCK);
        count_block(d, own, &at, n);
        at.text += n;
    }
    at.windows += windows_of(at.sequence, at.end, d->kind->k);
    tally->kmers += at.kmers;
    tally->ambiguous += at.windows - at.kmers;
}

void kmf_dense_count(kmf_dense *dense, int worker, const char *text, size_t len, size_t phase,
                     kmf_tally *tally)
{
    workspace *own = &dense->workspaces[worker];
    if (in_groups(dense->kind)) {
        count_in_groups(dense, own, text, len, tally);
        return;
    }
    kmf_textkmers walk;
    size_t n;
    kmf_textkmers_start(&walk, dense->kind, text, len, phase);
    while ((n = kmf_textkmers_next(&walk, own->codes, BLOCK)) > 0)
        for (size_t i = 0; i < n; i++)
            add_single(dense, own, own->codes[i]);
    tally->kmers += walk.tally.kmers;
    tally->ambiguous += walk.tally.ambiguous;
}

/* ---------------------------------------------------------------- the table ------------- */

typedef struct ending {
    kmf_dense *dense;   /* borrowed */
    kmf_counts *counts; /* borrowed */
    size_t n;           /* codes of a block */
} ending;

/*
 * Adds to high[0 .. n - 1], the counts of the codes from `code` on, one worker's groups in
 * which the k-mer is at window s: before it there are S - 1 - s letters, after it s.
 */
static void add_groups_at(const kmf_dense *d, const uint8_t *groups, uint64_t code, size_t n,
                          int s, uint64_t *restrict high)
{
    size_t n_before = (size_t)1 << 2 * (d->S - 1 - s);
    size_t n_after = (size_t)1 << 2 * s;
    for (size_t before = 0; before < n_before; before++) {
        const uint8_t *g = groups + ((before << 2 * d->kind->k | code) << 2 * s);
        for (size_t i = 0; i < n; i++) {
            unsigned sum = 0;
            for (size_t after = 0; after < n_after; after++)
                sum += g[i * n_after + after];
            high[i] += sum;
        }
    }
}

/* Makes `high` of block p the counts without the singles. */
static int add_up_groups(void *arg, size_t p, int worker, kmf_err *err)
{
    const ending *e = arg;
    const kmf_dense *d = e->dense;
    uint64_t code = p * e->n;
    (void)worker;
    (void)err;
    for (int w = 0; w < d->workers; w++)
        for (int s = 0; s < d->S; s++)
            add_groups_at(d, d->workspaces[w].groups, code, e->n, s, d->high + code);
    return 0;
}

/* Adds the singles of the other workers to those of the first, in block p. */
static int add_up_singles(void *arg, size_t p, int worker, kmf_err *err)
{
    const ending *e = arg;
    kmf_dense *d = e->dense;
    (void)worker;
    (void)err;
    for (int w = 1; w < d->workers; w++)
        for (uint64_t code = p * e->n; code < (p + 1) * e->n; code++) {
            unsigned sum = d->workspaces[0].singles[code] + d->workspaces[w].singles[code];
            d->workspaces[0].singles[code] = (uint8_t)sum;
            if (sum > UINT8_MAX)
                carry(d, code);
        }
    return 0;
}

/*
 * Folding: the counts of a k-mer and of its reverse complement become that of the smaller one. The
 * other workers' singles are part of the first one's by now.
 */
static int fold_high(void *arg, size_t p, int worker, kmf_err *err)
{
    const ending *e = arg;
    kmf_dense *d = e->dense;
    (void)worker;
    (void)err;
    for (uint64_t code = p * e->n; code < (p + 1) * e->n; code++) {
        if (!__atomic_load_n(&d->carried[code / CARRIED], __ATOMIC_RELAXED))
            continue;
        uint64_t other = kmf_revcomp_of(code, d->kind->k);
        if (other >= code || d->high[code] == 0)
            continue;
        d->high[other] += d->high[code]; /* of no other pair, hence of no other worker */
        __atomic_store_n(&d->carried[other / CARRIED], 1, __ATOMIC_RELAXED);
        d->high[code] = 0;
    }
    return 0;
}

/*
 * A k-mer and its reverse complement lie far apart, at distances that fall on the same few
 * places of a cache. So singles are folded in tiles that are copied: the codes (first, middle,
 * last) of one middle, all firsts and lasts of EDGE letters, which are rows of 64 bytes in a
 * row, and those of the reverse complement of the middle:
 *
 *     (f, m, l)  in tile m, row f, place l   --   (l', m', f')  in tile m', row l', place f'
 *
 * with x' the reverse complement of x. The former is the smaller one if f < l', or f = l' and m
 * < m'.
 */
#define EDGE 3
#define EDGES 64 /* 4^EDGE */

typedef uint8_t tile[EDGES][EDGES];

/* Where row f of tile m begins. */
static uint64_t row_of(const kmf_dense *d, uint64_t f, uint64_t m)
{
    return (f << 2 * (d->kind->k - 2 * EDGE) | m) << 2 * EDGE;
}

static void read_tile(const kmf_dense *d, tile t, uint64_t m)
{
    for (uint64_t f = 0; f < EDGES; f++)
        memcpy(t[f], d->workspaces[0].singles + row_of(d, f, m), EDGES);
}

static void write_tile(const kmf_dense *d, tile t, uint64_t m)
{
    for (uint64_t f = 0; f < EDGES; f++)
        memcpy(d->workspaces[0].singles + row_of(d, f, m), t[f], EDGES);
}

static void fold_pair(kmf_dense *d, uint8_t *smaller, uint8_t *larger, uint64_t code)
{
    unsigned sum = (unsigned)*smaller + *larger;
    *smaller = (uint8_t)sum;
    *larger = 0;
    if (sum > UINT8_MAX)
        carry(d, code);
}

static int fold_tile(void *arg, size_t m, int worker, kmf_err *err)
{
    const ending *e = arg;
    kmf_dense *d = e->dense;
    uint64_t turned = kmf_revcomp_of(m, d->kind->k - 2 * EDGE);
    tile t;
    tile u;
    (void)worker;
    (void)err;
    if (turned < m)
        return 0;
    read_tile(d, t, m);
    if (turned > m)
        read_tile(d, u, turned);
    for (uint64_t f = 0; f < EDGES; f++)
        for (uint64_t l = 0; l < EDGES; l++) {
            uint64_t lt = kmf_revcomp_of(l, EDGE);
            uint64_t ft = kmf_revcomp_of(f, EDGE);
            if (turned == m && f < lt)
                fold_pair(d, &t[f][l], &t[lt][ft], row_of(d, f, m) + l);
            else if (turned > m && f <= lt)
                fold_pair(d, &t[f][l], &u[lt][ft], row_of(d, f, m) + l);
            else if (turned > m)
                fold_pair(d, &u[lt][ft], &t[f][l], row_of(d, lt, turned) + ft);
        }
    write_tile(d, t, m);
    if (turned > m)
        write_tile(d, u, turned);
    return 0;
}

/* The same where the table is small. */
static void fold_small(kmf_dense *d)
{
    uint8_t *singles = d->workspaces[0].singles;
    for (uint64_t code = 0; code < d->n_codes; code++) {
        uint64_t other = kmf_revcomp_of(code, d->kind->k);
        if (code < other)
            fold_pair(d, &singles[code], &singles[other], code);
    }
}

static int fold(ending *e, kmf_pool *pool, kmf_err *err)
{
    int inner = e->dense->kind->k - 2 * EDGE;
    int status = kmf_pool_each(pool, e->counts->n_blocks, fold_high, e, err);
    if (status == 0 && inner > 0)
        status = kmf_pool_each(pool, (size_t)1 << 2 * inner, fold_tile, e, err);
    else if (status == 0)
        fold_small(e->dense);
    return status;
}

static int pack(void *arg, size_t p, int worker, kmf_err *err)
{
    const ending *e = arg;
    const kmf_dense *d = e->dense;
    uint64_t *counts = d->workspaces[worker].counts;
    if (!counts)
        counts = d->workspaces[worker].counts = kmf_malloc(e->n, sizeof *counts, err);
    if (!counts)
        return KMF_ENOMEM;
    for (size_t i = 0; i < e->n; i++) {
        uint64_t code = p * e->n + i;
        counts[i] =
            d->workspaces[0].singles[code] + (d->carried[code / CARRIED] ? d->high[code] : 0);
    }
    return kmf_block_pack_all(&e->counts->blocks[p], counts, e->counts->cut.suffix_bits, err);
}

int kmf_dense_finish(kmf_dense *dense, kmf_pool *pool, kmf_counts *counts, kmf_err *err)
{
    ending e = {dense, counts, (size_t)1 << counts->cut.suffix_bits};
    int status = 0;
    if (dense->S > 1) {
        memset(dense->carried, 1, dense->n_codes / CARRIED + 1);
        status = kmf_pool_each(pool, counts->n_blocks, add_up_groups, &e, err);
    }
    if (status == 0 && dense->workers > 1)
        status = kmf_pool_each(pool, counts->n_blocks, add_up_singles, &e, err);
    if (status == 0 && dense->kind->canonical)
        status = fold(&e, pool, err);
    return status == 0 ? kmf_pool_each(pool, counts->n_blocks, pack, &e, err) : status;
}
