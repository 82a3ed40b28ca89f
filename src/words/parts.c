/* SPDX-License-Identifier: MIT */
/*
 * From codes to sorted counts in bounded memory.
 *
 *     texts -> codes -> scatter by prefix -> chunks            any number of workers at once
 *                                              |  when they are full, or at the end
 *     part by part: gather -> sort -> equal ones counted -> packed block (block.h)
 *                                                             = one run: a block for each part
 *     at the end, if there are several runs: part by part their blocks are merged
 *
 * Scatter. A code's prefix names its part, of 1024; what is kept is the suffix, as a key of 4 bytes
 * (k up to 21) or 8. Writing to a thousand places at once would miss the cache and the TLB at each
 * key, so a worker collects a line of 64 bytes for each part and writes whole lines. Lines go to
 * chunks, which a worker takes from a common arena by adding to a counter; the chunks of a worker
 * and part form a list. Nothing is ever moved or grown.
 *
 * Sort. A part of some 100,000 keys fits the second-level cache, where sorting by digits
 * (radix.h) costs 1 ns a key and digit. The blocks come out in code order by themselves, so the
 * table needs no further sorting. Parts of very unequal size, as a genome rich in A and T has,
 * are taken in pieces of bounded size, whose blocks are merged.
 *
 * Memory. Half of what is allowed is the arena, a quarter scratch to sort in, a quarter may be
 * held by the blocks of earlier runs; blocks beyond that go to a file without a name. A block
 * holds each k-mer once, so repetitive input, reads of a genome at high coverage above all,
 * rarely gets there.
 */
#include "words/parts.h"

#include "base/cpu.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/spill.h"
#include "seq/par.h"
#include "words/radix.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#define LINE 64 /* bytes */
#define CODES 1024
#define CHUNK_MIN ((size_t)256) /* bytes */
#define CHUNK_MAX ((size_t)65536)
#define PIECE_MIN ((size_t)1 << 14) /* keys sorted at once */
#define PIECE_MAX ((size_t)1 << 20)
#define NO_CHUNK UINT32_MAX

typedef struct list {
    uint32_t chunk; /* the one being filled, NO_CHUNK: none */
    uint32_t fill;  /* bytes in it */
} list;

/* One worker's. */
typedef struct workspace {
    unsigned char *lines; /* owned [n_parts][LINE] */
    uint8_t *held;        /* owned [n_parts]: bytes in a line */
    list *lists;          /* owned [n_parts] */
    uint64_t codes[CODES];
    /* for sorting, made when first needed */
    void *keys;         /* owned [piece] */
    void *spare;        /* owned [piece] */
    uint64_t *suffixes; /* owned [piece] */
    uint64_t *counts;   /* owned [piece] */
} workspace;

/* A block in memory or, if bytes is NULL and n is not 0, in the spill at an offset. */
typedef struct stored {
    kmf_block block;
    uint64_t offset;
} stored;

struct kmf_parts {
    const kmf_kmer_kind *kind; /* borrowed */
    const char *tmp;           /* borrowed */
    kmf_cut_code cut;
    size_t n_parts;
    size_t key; /* bytes: 4 or 8 */
    size_t piece;
    int workers;
    workspace *workspaces; /* owned [workers] */

    unsigned char *arena; /* owned [n_chunks][chunk] */
    size_t chunk;         /* bytes */
    size_t n_chunks;
    size_t chunks_of_text; /* the most that a text may take */
    uint32_t *before;      /* owned [n_chunks]: the chunk before it in its list */
    atomic_size_t n_taken;
    bool last; /* no text will follow */
    /*
     * Where the blocks of the table go. NULL: they stay in memory, and chunks are given back as
     * they are read, to make room for them.
     */
    kmf_block_fn *fn;
    void *fn_arg;
    kmf_fraction_fn *made; /* NULL: nobody wants to know */
    void *made_arg;
    int caller; /* the worker that is the caller's thread */

    stored **runs; /* owned [n_runs][n_parts] */
    size_t n_runs;
    size_t runs_cap;
    uint64_t result_max; /* bytes of a table that is kept in memory */
    uint64_t hold_max;   /* bytes of blocks of runs */
    _Atomic uint64_t n_held;
    kmf_spill *spill; /* owned; NULL: nothing has been spilled */
};

/* ---------------------------------------------------------------- making one ------------ */

static size_t chunks_of_text(size_t chunk, size_t key, size_t n_parts, size_t text_max)
{
    return (text_max * key + n_parts * LINE) / chunk + n_parts;
}

/* The least memory that can work: chunks of the smallest size for a text and a bit. */
static uint64_t least_memory(const kmf_parts *p, size_t text_max)
{
    uint64_t arena = (CHUNK_MIN + sizeof *p->before) *
                     chunks_of_text(CHUNK_MIN, p->key, p->n_parts, text_max);
    uint64_t scratch = (uint64_t)p->workers * PIECE_MIN * (2 * p->key + 2 * sizeof(uint64_t));
    return kmf_max(2 * arena, 4 * scratch);
}

static int plan(kmf_parts *p, size_t text_max, uint64_t memory, kmf_err *err)
{
    uint64_t least = least_memory(p, text_max);
    if (memory < least)
        return kmf_fail(
            err, KMF_ENOMEM,
            "k = %d with %d thread%s needs %llu bytes of memory at least, %llu were "
            "allowed",
            p->kind->k, p->workers, p->workers == 1 ? "" : "s", (unsigned long long)least,
            (unsigned long long)memory);
    if (memory > SIZE_MAX / 2)
        memory = SIZE_MAX / 2;
    size_t arena = (size_t)memory / 2;
    p->chunk = CHUNK_MAX;
    while (p->chunk > CHUNK_MIN && p->chunk * 2 * p->n_parts * (size_t)(p->workers + 4) > arena)
        p->chunk /= 2;
    p->n_chunks = arena / (p->chunk + sizeof *p->before);
    if (p->n_chunks > NO_CHUNK - 1)
        p->n_chunks = NO_CHUNK - 1;
    p->chunks_of_text = chunks_of_text(p->chunk, p->key, p->n_parts, text_max);
    assert(p->n_chunks >= p->chunks_of_text);
    p->piece = (size_t)memory / 4 / (size_t)p->workers / (2 * p->key + 2 * sizeof(uint64_t));
    if (p->piece > PIECE_MAX)
        p->piece = PIECE_MAX;
    p->hold_max = memory / 4;
    p->result_max = memory / 2;
    return 0;
}

/* Addresses alone, which a limit on them counts as if they were filled. */
static int reserve(kmf_parts *p, uint64_t memory, kmf_err *err)
{
    size_t bytes = p->n_chunks * p->chunk;
    p->arena = kmf_reserve(bytes, NULL);
    p->before = kmf_reserve(p->n_chunks * sizeof *p->before, NULL);
    if (p->arena && p->before)
        return 0;
    return kmf_fail(err, KMF_ENOMEM,
                    "out of memory: %zu bytes are not to be had at once, of %llu that were "
                    "allowed: allow less memory, as what exceeds it goes to disk",
                    bytes, (unsigned long long)memory);
}

static int make_workspace(const kmf_parts *p, workspace *own, kmf_err *err)
{
    own->lines = kmf_large(p->n_parts, LINE, err);
    own->held = kmf_calloc(p->n_parts, sizeof *own->held, err);
    own->lists = kmf_malloc(p->n_parts, sizeof *own->lists, err);
    return own->lines && own->held && own->lists ? 0 : KMF_ENOMEM;
}

static void clear_lists(kmf_parts *p)
{
    atomic_store(&p->n_taken, 0);
    for (int w = 0; w < p->workers; w++)
        for (size_t i = 0; i < p->n_parts; i++)
            p->workspaces[w].lists[i] = (list){NO_CHUNK, 0};
}

kmf_parts *kmf_parts_new(const kmf_kmer_kind *kind, kmf_cut_code cut, int workers,
                         size_t text_max, uint64_t memory, const char *tmp, kmf_err *err)
{
    kmf_parts *p = kmf_calloc(1, sizeof *p, err);
    if (!p)
        return NULL;
    p->kind = kind;
    p->tmp = tmp;
    p->workers = workers;
    p->caller = workers - 1;
    p->cut = cut;
    p->n_parts = (size_t)1 << p->cut.prefix_bits;
    p->key = p->cut.suffix_bits > 32 ? 8 : 4;
    if (plan(p, text_max, memory, err) < 0 || reserve(p, memory, err) < 0)
        goto failed;
    p->workspaces = kmf_calloc((size_t)workers, sizeof *p->workspaces, err);
    if (!p->workspaces)
        goto failed;
    for (int w = 0; w < workers; w++)
        if (make_workspace(p, &p->workspaces[w], err) < 0)
            goto failed;
    clear_lists(p);
    return p;
failed:
    kmf_parts_free(p);
    return NULL;
}

static void free_run(const kmf_parts *p, stored *run)
{
    for (size_t i = 0; i < p->n_parts; i++)
        kmf_block_free(&run[i].block);
    kmf_free(run);
}

/* What only taking in and sorting need. */
static void free_workspaces(kmf_parts *p)
{
    for (int w = 0; p->workspaces && w < p->workers; w++) {
        workspace *own = &p->workspaces[w];
        kmf_free(own->lines);
        kmf_free(own->held);
        kmf_free(own->lists);
        kmf_free(own->keys);
        kmf_free(own->spare);
        kmf_free(own->suffixes);
        kmf_free(own->counts);
    }
    kmf_free(p->workspaces);
    kmf_unreserve(p->arena, p->n_chunks * p->chunk);
    kmf_unreserve(p->before, p->n_chunks * sizeof *p->before);
    p->workspaces = NULL;
    p->arena = NULL;
    p->before = NULL;
}

void kmf_parts_free(kmf_parts *parts)
{
    if (!parts)
        return;
    free_workspaces(parts);
    for (size_t r = 0; r < parts->n_runs; r++)
        free_run(parts, parts->runs[r]);
    kmf_free(parts->runs);
    kmf_spill_free(parts->spill);
    kmf_free(parts);
}

void kmf_parts_progress(kmf_parts *parts, kmf_fraction_fn *fn, void *arg)
{
    parts->made = fn;
    parts->made_arg = arg;
}

/* Part i of the table is made; parts come in order but for those at work. */
static void tell_part(const kmf_parts *p, size_t i, int worker)
{
    if (p->made && worker == p->caller)
        p->made(p->made_arg, (double)(i + 1) / (double)p->n_parts);
}

/* ---------------------------------------------------------------- scatter --------------- */

bool kmf_parts_has_room(const kmf_parts *parts, size_t n_texts)
{
    return parts->n_chunks - atomic_load(&parts->n_taken) >= n_texts * parts->chunks_of_text;
}

static void write_line(kmf_parts *p, workspace *own, size_t part)
{
    list *l = &own->lists[part];
    if (l->chunk == NO_CHUNK || l->fill == p->chunk) {
        size_t taken = atomic_fetch_add_explicit(&p->n_taken, 1, memory_order_relaxed);
        assert(taken < p->n_chunks);
        p->before[taken] = l->chunk;
        *l = (list){(uint32_t)taken, 0};
    }
    memcpy(p->arena + l->chunk * p->chunk + l->fill, own->lines + part * LINE, LINE);
    l->fill += LINE;
}

static KMF_INLINE void scatter(kmf_parts *p, workspace *own, size_t n, size_t key)
{
    unsigned shift = p->cut.suffix_bits;
    uint64_t low = ((uint64_t)1 << shift) - 1;
    for (size_t i = 0; i < n; i++) {
        size_t part = (size_t)(own->codes[i] >> shift);
        uint64_t suffix = own->codes[i] & low;
        size_t held = own->held[part];
        uint32_t narrow = (uint32_t)suffix;
        if (key == sizeof narrow)
            memcpy(own->lines + part * LINE + held, &narrow, sizeof narrow);
        else
            memcpy(own->lines + part * LINE + held, &suffix, sizeof suffix);
        held += key;
        if (held == LINE) {
            write_line(p, own, part);
            held = 0;
        }
        own->held[part] = (uint8_t)held;
    }
}

void kmf_parts_count(kmf_parts *parts, int worker, const char *text, size_t len, size_t phase,
                     kmf_tally *tally)
{
    workspace *own = &parts->workspaces[worker];
    kmf_textkmers walk;
    size_t n;
    kmf_textkmers_start(&walk, parts->kind, text, len, phase);
    while ((n = kmf_textkmers_next(&walk, own->codes, CODES)) > 0) {
        if (parts->key == 4)
            scatter(parts, own, n, 4);
        else
            scatter(parts, own, n, 8);
    }
    tally->kmers += walk.tally.kmers;
    tally->ambiguous += walk.tally.ambiguous;
}

/* ---------------------------------------------------------------- sort and count -------- */

static int make_scratch(const kmf_parts *p, workspace *own, kmf_err *err)
{
    if (!own->keys)
        own->keys = kmf_large(p->piece, p->key, err);
    if (!own->spare)
        own->spare = kmf_large(p->piece, p->key, err);
    if (!own->suffixes)
        own->suffixes = kmf_large(p->piece, sizeof *own->suffixes, err);
    if (!own->counts)
        own->counts = kmf_large(p->piece, sizeof *own->counts, err);
    return own->keys && own->spare && own->suffixes && own->counts ? 0 : KMF_ENOMEM;
}

/* A walk over the keys of a part: of all workers, chunk by chunk and the lines at last. */
typedef struct gathering {
    kmf_parts *parts; /* borrowed */
    size_t part;
    int w;          /* the worker whose list is at hand */
    uint32_t chunk; /* of its list; NO_CHUNK: its line is next */
    size_t fill;    /* bytes in the chunk or line */
    size_t done;    /* of them, taken */
    bool in_line;
} gathering;

static void begin_list(gathering *g)
{
    if (g->w == g->parts->workers)
        return;
    list *l = &g->parts->workspaces[g->w].lists[g->part];
    g->chunk = l->chunk;
    g->fill = l->fill;
    g->done = 0;
    g->in_line = false;
}

/* On to the next chunk, line or list. */
static void go_on(gathering *g)
{
    kmf_parts *p = g->parts;
    g->done = 0;
    if (g->in_line) {
        p->workspaces[g->w].held[g->part] = 0;
        g->w++;
        begin_list(g);
        return;
    }
    if (g->chunk != NO_CHUNK) {
        if (p->last && !p->fn)
            kmf_discard(p->arena + g->chunk * p->chunk, p->chunk);
        g->chunk = p->before[g->chunk];
        g->fill = p->chunk;
    }
    if (g->chunk == NO_CHUNK) {
        g->in_line = true;
        g->fill = p->workspaces[g->w].held[g->part];
    }
}

static const unsigned char *place_of(const gathering *g)
{
    const kmf_parts *p = g->parts;
    return g->in_line ? p->workspaces[g->w].lines + g->part * LINE
                      : p->arena + g->chunk * p->chunk;
}

/* At most n_max keys, to `keys`; 0 at the end. */
static size_t gather(gathering *g, void *keys, size_t n_max)
{
    const kmf_parts *p = g->parts;
    unsigned char *to = keys;
    size_t room = n_max * p->key;
    while (room > 0 && g->w < p->workers) {
        bool nothing = g->chunk == NO_CHUNK && !g->in_line;
        size_t n = nothing ? 0 : g->fill - g->done;
        size_t take = kmf_min(n, room);
        if (take > 0)
            memcpy(to, place_of(g) + g->done, take);
        to += take;
        room -= take;
        g->done += take;
        if (take == n)
            go_on(g);
    }
    return n_max - room / p->key;
}

static int pack_piece(const kmf_parts *p, workspace *own, size_t n, kmf_block *block,
                      kmf_err *err)
{
    unsigned bits = p->cut.suffix_bits;
    size_t n_equal;
    if (p->key == 4)
        n_equal = kmf_count_equal_32(kmf_radix_sort_32(own->keys, own->spare, n, bits), n,
                                     own->suffixes, own->counts);
    else
        n_equal = kmf_count_equal_64(kmf_radix_sort_64(own->keys, own->spare, n, bits), n,
                                     own->suffixes, own->counts);
    return kmf_block_pack(block, own->suffixes, own->counts, n_equal, bits, err);
}

/* Adds `more`, which is then spent, to *sum. */
static int add_block(const kmf_parts *p, kmf_block *sum, kmf_block *more, kmf_err *err)
{
    kmf_block both[2] = {*sum, *more};
    kmf_block merged = {0};
    int status = kmf_block_merge(&merged, both, 2, p->cut.suffix_bits, err);
    kmf_block_free(more);
    if (status < 0)
        return status;
    kmf_block_free(sum);
    *sum = merged;
    return 0;
}

/* Keeps the block in memory, or spills it when too much is held. */
static int store(kmf_parts *p, stored *s, kmf_err *err)
{
    uint64_t held = atomic_fetch_add(&p->n_held, s->block.n_bytes) + s->block.n_bytes;
    if (held <= p->hold_max || s->block.n == 0)
        return 0;
    int status = kmf_spill_append(p->spill, s->block.bytes, s->block.n_bytes, &s->offset, err);
    atomic_fetch_sub(&p->n_held, s->block.n_bytes);
    kmf_block_free(&s->block);
    return status;
}

/* Is the run at hand the table itself? */
static bool is_table(const kmf_parts *p)
{
    return p->last && p->n_runs == 1;
}

static int count_part(void *arg, size_t part, int worker, kmf_err *err)
{
    kmf_parts *p = arg;
    workspace *own = &p->workspaces[worker];
    stored *s = &p->runs[p->n_runs - 1][part];
    gathering g = {.parts = p, .part = part};
    size_t n;
    if (make_scratch(p, own, err) < 0)
        return KMF_ENOMEM;
    begin_list(&g);
    while ((n = gather(&g, own->keys, p->piece)) > 0) {
        kmf_block block = {0};
        int status = pack_piece(p, own, n, &block, err);
        if (status == 0 && s->block.n == 0)
            s->block = block;
        else if (status == 0)
            status = add_block(p, &s->block, &block, err);
        if (status < 0)
            return status;
    }
    if (!is_table(p))
        return store(p, s, err);
    tell_part(p, part, worker);
    if (!p->fn)
        return 0;
    kmf_block block = s->block;
    s->block = (kmf_block){0};
    return p->fn(p->fn_arg, part, &block, err);
}

/* Bytes that the run to come may have. */
static uint64_t run_bound(const kmf_parts *p)
{
    uint64_t keys = (uint64_t)atomic_load(&p->n_taken) * (p->chunk / p->key) +
                    (uint64_t)p->workers * p->n_parts * (LINE / p->key);
    return keys * (p->cut.suffix_bits / 8 + 1 + sizeof(uint32_t));
}

static int new_run(kmf_parts *p, kmf_err *err)
{
    if (kmf_grow(&p->runs, &p->runs_cap, p->n_runs + 1, sizeof *p->runs, err) < 0)
        return KMF_ENOMEM;
    stored *run = kmf_calloc(p->n_parts, sizeof *run, err);
    if (!run)
        return KMF_ENOMEM;
    p->runs[p->n_runs++] = run;
    return 0;
}

static bool may_have_to_spill(const kmf_parts *p)
{
    return !is_table(p) && atomic_load(&p->n_held) + run_bound(p) > p->hold_max;
}

int kmf_parts_settle(kmf_parts *parts, kmf_pool *pool, kmf_err *err)
{
    err = kmf_err_or(err, &(kmf_err){0});
    if (new_run(parts, err) < 0)
        return KMF_ENOMEM;
    if (!parts->spill && may_have_to_spill(parts)) {
        parts->spill = kmf_spill_new(parts->tmp, err);
        if (!parts->spill)
            return (int)err->code;
    }
    int status = kmf_pool_each(pool, parts->n_parts, count_part, parts, err);
    clear_lists(parts);
    return status;
}

/* ---------------------------------------------------------------- the table ------------- */

/* The blocks of a table become its own, or lie in a file if they are too many for the memory. */
typedef struct ending {
    kmf_counts *counts; /* borrowed */
    kmf_spill *file;    /* owned; NULL: in memory */
    uint64_t *offsets;  /* owned [n_parts]; of the blocks in file */
} ending;

static int keep_block(void *arg, size_t p, const kmf_block *block, kmf_err *err)
{
    ending *e = arg;
    e->counts->blocks[p] = *block;
    if (!e->file || block->n == 0)
        return 0;
    int status = kmf_spill_append(e->file, block->bytes, block->n_bytes, &e->offsets[p], err);
    kmf_block_free(&e->counts->blocks[p]);
    return status;
}

static int load_spilled(const kmf_parts *p, stored *s, kmf_err *err)
{
    if (s->block.bytes || s->block.n == 0)
        return 0;
    unsigned char *bytes = kmf_malloc(s->block.n_bytes, 1, err);
    if (!bytes)
        return KMF_ENOMEM;
    s->block.bytes = bytes;
    return kmf_spill_read(p->spill, s->offset, bytes, s->block.n_bytes, err);
}

/* Part i of all runs becomes block i of the table. */
static int merge_part(void *arg, size_t i, int worker, kmf_err *err)
{
    const kmf_parts *p = arg;
    kmf_block sum = {0};
    kmf_block *blocks = kmf_calloc(p->n_runs, sizeof *blocks, err);
    int status = blocks ? 0 : KMF_ENOMEM;
    for (size_t r = 0; r < p->n_runs && status == 0; r++) {
        status = load_spilled(p, &p->runs[r][i], err);
        blocks[r] = p->runs[r][i].block;
    }
    if (status == 0)
        status = kmf_block_merge(&sum, blocks, p->n_runs, p->cut.suffix_bits, err);
    kmf_free(blocks);
    for (size_t r = 0; r < p->n_runs; r++) {
        kmf_block_free(&p->runs[r][i].block);
        p->runs[r][i].block = (kmf_block){0};
    }
    if (status < 0)
        return status;
    tell_part(p, i, worker);
    return p->fn(p->fn_arg, i, &sum, err);
}

/* Counts what was taken in last. If there are several runs, the table is their sum. */
static int settle_last(kmf_parts *p, kmf_pool *pool, kmf_err *err)
{
    p->last = true;
    int status = kmf_parts_settle(p, pool, err);
    free_workspaces(p);
    return status;
}

static uint64_t n_bytes_of_runs(const kmf_parts *p)
{
    uint64_t sum = 0;
    for (size_t r = 0; r < p->n_runs; r++)
        for (size_t i = 0; i < p->n_parts; i++)
            sum += p->runs[r][i].block.n_bytes;
    return sum;
}

/* Merges all parts, on one thread if that is all the memory allows: of each run a block is held. */
static int merge_parts(kmf_parts *p, kmf_pool *pool, kmf_err *err)
{
    uint64_t most = 0;
    for (size_t i = 0; i < p->n_parts; i++) {
        uint64_t sum = 0;
        for (size_t r = 0; r < p->n_runs; r++)
            sum += p->runs[r][i].block.n_bytes +
                   p->runs[r][i].block.n * 2 * sizeof(uint64_t); /* unpacked */
        most = sum > most ? sum : most;
    }
    bool alone = most * (uint64_t)p->workers > p->result_max;
    if (alone)
        p->caller = 0;
    return kmf_pool_each(alone ? NULL : pool, p->n_parts, merge_part, p, err);
}

int kmf_parts_stream(kmf_parts *parts, kmf_pool *pool, kmf_block_fn *fn, void *arg,
                     kmf_err *err)
{
    parts->fn = fn;
    parts->fn_arg = arg;
    int status = settle_last(parts, pool, err);
    return status == 0 && parts->n_runs > 1 ? merge_parts(parts, pool, err) : status;
}

static int merge_runs(kmf_parts *p, kmf_pool *pool, kmf_counts *counts, kmf_err *err)
{
    ending e = {.counts = counts};
    int status = KMF_ENOMEM;
    if (n_bytes_of_runs(p) > p->result_max) {
        e.file = kmf_spill_new(p->tmp, err);
        e.offsets = kmf_calloc(p->n_parts, sizeof *e.offsets, err);
        if (!e.file || !e.offsets)
            goto out;
    }
    p->fn = keep_block;
    p->fn_arg = &e;
    status = merge_parts(p, pool, err);
    if (status < 0 || !e.file)
        goto out;
    status = kmf_spill_map(e.file, &counts->map, err);
    if (status < 0)
        goto out;
    counts->own_bytes = false;
    for (size_t i = 0; i < p->n_parts; i++)
        if (counts->blocks[i].n > 0)
            counts->blocks[i].bytes = counts->map.bytes + e.offsets[i];
out:
    p->fn = NULL;
    p->fn_arg = NULL;
    kmf_spill_free(e.file);
    kmf_free(e.offsets);
    return status;
}

int kmf_parts_finish(kmf_parts *p, kmf_pool *pool, kmf_counts *counts, kmf_err *err)
{
    int status = settle_last(p, pool, err);
    if (status == 0 && p->n_runs > 1)
        return merge_runs(p, pool, counts, err);
    for (size_t i = 0; i < p->n_parts && status == 0; i++) {
        counts->blocks[i] = p->runs[0][i].block;
        p->runs[0][i].block = (kmf_block){0};
    }
    return status;
}
