/* SPDX-License-Identifier: MIT */
/*
 * htslib's bgzf_compress, a block at a time: as jobs of a pool, whose results come back in their
 * order, and by the caller, where there is none, or where it would wait for one and has nothing
 * better to do. Not its bgzf_write, which (1.16) loses memory and a descriptor when the disk is
 * full.
 */
#include "base/gzip.h"

#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include <htslib/bgzf.h>
#include <htslib/hts_log.h>
#include <htslib/thread_pool.h>

#define LEVEL 5 /* about as small as by gzip -6 */
#define QUICK_LEVEL 1
#define BLOCK 0xff00      /* bytes, as bgzip has them */
#define BLOCKS_A_THREAD 4 /* that are under way */

typedef struct block {
    char plain[BLOCK];
    size_t n;
    char packed[BGZF_MAX_BLOCK_SIZE];
    size_t n_packed; /* 0: it could not be compressed */
    int level;
    bool here; /* compressed by the caller: no result of it will come */
} block;

struct kmf_gzip {
    FILE *file;    /* borrowed */
    int level;     /* of libdeflate, which htslib mostly has */
    block *blocks; /* owned [n_blocks], a ring: n_sent under way, then the one being filled */
    size_t n_blocks;
    size_t first_sent, n_sent;
    hts_tpool *pool;          /* borrowed; NULL: none */
    bool caller_too;          /* compresses a block where it would wait for one */
    hts_tpool_process *queue; /* owned */
};

static void silence(void)
{
    hts_set_log_level(HTS_LOG_OFF);
}

void kmf_silence_htslib(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, silence);
}

kmf_gzip *kmf_gzip_new(FILE *file, kmf_err *err)
{
    kmf_gzip *g = kmf_calloc(1, sizeof *g, err);
    if (!g)
        return NULL;
    g->file = file;
    g->level = LEVEL;
    g->n_blocks = 1;
    g->blocks = kmf_calloc(1, sizeof *g->blocks, err);
    if (g->blocks)
        return g;
    kmf_free(g);
    return NULL;
}

void kmf_gzip_quickly(kmf_gzip *gzip)
{
    gzip->level = QUICK_LEVEL;
}

void kmf_gzip_share(kmf_gzip *gzip, struct hts_tpool *pool, int threads, bool caller_too)
{
    size_t n = (size_t)threads * BLOCKS_A_THREAD + 1;
    block *blocks = kmf_malloc(n, sizeof *blocks, NULL);
    /* seq/par.c tells why a queue has more room than jobs */
    hts_tpool_process *queue =
        blocks ? hts_tpool_process_init(pool, (int)n + threads + 1, 0) : NULL;
    if (!queue) {
        kmf_free(blocks);
        return;
    }
    blocks[0].n = gzip->blocks[0].n;
    memcpy(blocks[0].plain, gzip->blocks[0].plain, blocks[0].n);
    kmf_free(gzip->blocks);
    gzip->blocks = blocks;
    gzip->n_blocks = n;
    gzip->pool = pool;
    gzip->caller_too = caller_too;
    gzip->queue = queue;
}

static void *compress_block(void *arg)
{
    block *b = arg;
    b->n_packed = sizeof b->packed;
    if (bgzf_compress(b->packed, &b->n_packed, b->plain, b->n, b->level) < 0)
        b->n_packed = 0;
    return NULL;
}

static int write_block(kmf_gzip *g, const block *b)
{
    if (b->n_packed == 0) {
        errno = ENOMEM;
        return -1;
    }
    return fwrite(b->packed, 1, b->n_packed, g->file) == b->n_packed ? 0 : -1;
}

/* Fetches the result of the oldest block under way, once. false: it is not there yet. */
static bool fetch(kmf_gzip *g, bool wait)
{
    if (g->blocks[g->first_sent].here)
        return true;
    hts_tpool_result *result =
        wait ? hts_tpool_next_result_wait(g->queue) : hts_tpool_next_result(g->queue);
    if (result)
        hts_tpool_delete_result(result, 0);
    return result != NULL;
}

/* The oldest block under way, whose result was fetched. */
static const block *take(kmf_gzip *g)
{
    const block *b = &g->blocks[g->first_sent];
    g->first_sent = (g->first_sent + 1) % g->n_blocks;
    g->n_sent--;
    return b;
}

/* It goes to the file. */
static int collect(kmf_gzip *g)
{
    (void)fetch(g, true);
    return write_block(g, take(g));
}

static block *filling(const kmf_gzip *g)
{
    return &g->blocks[(g->first_sent + g->n_sent) % g->n_blocks];
}

/* The block being filled is compressed, now or by and by; an empty one is the end marker. */
static int send(kmf_gzip *g)
{
    block *b = filling(g);
    int status = 0;
    bool room = !g->caller_too || g->n_sent + 1 < g->n_blocks;
    if (!room && g->n_sent > 0 && fetch(g, false)) {
        status = write_block(g, take(g));
        room = true;
    }
    b->level = g->level;
    b->here =
        !g->queue || !room || hts_tpool_dispatch(g->pool, g->queue, compress_block, b) < 0;
    if (b->here)
        compress_block(b);
    g->n_sent++;
    if (g->n_sent == g->n_blocks && status == 0)
        status = collect(g);
    filling(g)->n = 0;
    return status;
}

int kmf_gzip_write(kmf_gzip *gzip, const void *data, size_t n)
{
    const char *from = data;
    while (n > 0) {
        block *b = filling(gzip);
        size_t m = kmf_min(n, BLOCK - b->n);
        memcpy(b->plain + b->n, from, m);
        b->n += m;
        from += m;
        n -= m;
        if (b->n == BLOCK && send(gzip) < 0)
            return -1;
    }
    return 0;
}

int kmf_gzip_finish(kmf_gzip *gzip)
{
    int status = filling(gzip)->n > 0 ? send(gzip) : 0;
    status = status == 0 ? send(gzip) : status;
    while (gzip->n_sent > 0 && status == 0)
        status = collect(gzip);
    return status;
}

void kmf_gzip_free(kmf_gzip *gzip)
{
    if (!gzip)
        return;
    while (gzip->n_sent > 0) {
        (void)fetch(gzip, true);
        (void)take(gzip);
    }
    if (gzip->queue)
        hts_tpool_process_destroy(gzip->queue);
    kmf_free(gzip->blocks);
    kmf_free(gzip);
}
