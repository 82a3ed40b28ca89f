/* SPDX-License-Identifier: MIT */
/*
 * Decompression, kept ahead of the parser.
 *
 * Plain input is read straight into the block: nothing is gained by a second thread. gzip
 * (seq/gunzip.h) is one stream, which only one thread at a time can inflate, so while the parser
 * works on one block a job inflates those that follow, as many as the ring has room for:
 *
 *     parser   | wait | block 0 | block 1 | ..
 *     job      | fill 0 | fill 1 | fill 2 | ..       until the ring is full, or the input ends
 *
 * BGZF goes the same way. htslib could inflate its blocks on several threads, but (1.16) when the
 * file is damaged it then drops blocks that were sound, as many as happen to be under way, so
 * that the reported record depends on timing, and it may take the damage for the end of the file
 * if the last block it handed out was an empty one.
 *
 * The job stands in the same pool as the computation and may be queued behind it. So the parser
 * never waits for a job that has not started: if it needs a block and nobody fills one, it does so
 * itself, and a job that comes meanwhile finds nothing to do. At most one that has not started is
 * in the pool, and none before a second block is asked for. All that parser and job share but the
 * bytes is under the lock, which is taken a few times for each block.
 */
#include "seq/bytes.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "seq/gunzip.h"
#include "seq/par.h"

#include <htslib/hfile.h>

/* Inflating it takes 0.5 ms or more, handing it over some 10 us. */
#define BLOCK ((size_t)1 << 19)
/* Of the ring, the one that the parser has among them: 2 MB, which stay in a shared cache. */
#define AHEAD 4
/* Plain input is read in smaller pieces, so that the cache has room for what is made of it. */
#define PLAIN ((size_t)1 << 17)
#define LOOKED_THROUGH ((size_t)64 << 20) /* for damage */

typedef enum ending { MORE, ENDED, FAILED } ending;

struct kmf_bytes {
    hFILE *file;      /* owned */
    kmf_gunzip *gzip; /* owned; NULL: plain input */
    kmf_queue *queue; /* owned; NULL: nothing runs ahead */
    size_t n_blocks;  /* of the ring */
    struct block {
        char *bytes; /* owned [BLOCK]; NULL beyond n_blocks */
        size_t len;
    } ring[AHEAD];
    const char *seen; /* a block that was peeked at, to be given out again; NULL: none */
    size_t n_seen;
    kmf_watch watch;
    bool in_use; /* the block that was handed out last */
    bool sent;   /* a job is in the queue, running, or done and not fetched */

    pthread_mutex_t lock;   /* of all that follows */
    pthread_cond_t changed; /* a block was filled, or nobody fills any more */
    size_t n_filled;        /* blocks so far */
    size_t n_given_back;    /* by the parser */
    bool filling;           /* somebody is: the next block, ending and reason are theirs */
    bool waiting;           /* a job was sent that has not started */
    bool closing;           /* no more is wanted */
    ending ending;          /* what follows the block filled last */
    kmf_err reason;         /* of FAILED */
};

/* At most `room` bytes; 0 and *ending, *reason set when there are no more. */
static size_t read_plain(kmf_bytes *b, char *to, size_t room)
{
    ssize_t got = hread(b->file, to, room);
    if (got > 0)
        return (size_t)got;
    b->ending = got < 0 ? FAILED : ENDED;
    if (got < 0)
        kmf_fail(&b->reason, KMF_EIO, "%s", strerror(errno));
    return 0;
}

static size_t read_gzip(kmf_bytes *b, char *to, size_t room)
{
    ptrdiff_t got = kmf_gunzip_read(b->gzip, to, room, &b->reason);
    if (got > 0)
        return (size_t)got;
    b->ending = got < 0 ? FAILED : ENDED;
    return 0;
}

/* Fills a block to the brim, or to the end. */
static void fill(kmf_bytes *b, struct block *block)
{
    block->len = 0;
    size_t size = b->gzip ? BLOCK : PLAIN;
    while (block->len < size && b->ending == MORE) {
        char *to = block->bytes + block->len;
        size_t room = size - block->len;
        block->len += b->gzip ? read_gzip(b, to, room) : read_plain(b, to, room);
    }
}

/* Under the lock, as those that follow: is there anything to fill, and room for it? */
static bool wants_more(const kmf_bytes *b)
{
    return b->ending == MORE && !b->closing && b->n_filled - b->n_given_back < b->n_blocks;
}

/* By whoever has set `filling`; the lock is given back meanwhile. */
static void fill_next(kmf_bytes *b)
{
    struct block *block = &b->ring[b->n_filled % b->n_blocks];
    pthread_mutex_unlock(&b->lock);
    fill(b, block);
    pthread_mutex_lock(&b->lock);
    b->n_filled++;
    pthread_cond_signal(&b->changed);
}

static void *fill_job(void *arg)
{
    kmf_bytes *b = arg;
    pthread_mutex_lock(&b->lock);
    b->waiting = false;
    if (!b->filling) {
        b->filling = true;
        while (wants_more(b))
            fill_next(b);
        b->filling = false;
        pthread_cond_signal(&b->changed);
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* Where no job can be sent the parser fills its blocks itself. */
static void start_ahead(kmf_bytes *b)
{
    if (!b->queue || b->filling || b->waiting || !wants_more(b))
        return;
    if (b->sent)
        kmf_queue_wait(b->queue); /* it has nothing left to do but return */
    b->waiting = true;
    b->sent = kmf_queue_send(b->queue, fill_job, b, NULL) == 0;
    if (!b->sent)
        b->waiting = false;
}

/* Returns when a block is filled: true; or there will be none. */
static bool settle(kmf_bytes *b)
{
    while (b->n_filled == b->n_given_back) {
        if (b->filling) {
            pthread_cond_wait(&b->changed, &b->lock);
            continue;
        }
        if (b->ending != MORE)
            return false;
        b->filling = true;
        fill_next(b);
        b->filling = false;
    }
    return true;
}

kmf_bytes *kmf_bytes_open(hFILE *file, kmf_pool *pool, kmf_err *err)
{
    kmf_bytes *b = kmf_calloc(1, sizeof *b, err);
    if (!b) {
        hclose_abruptly(file);
        return NULL;
    }
    b->file = file;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    b->n_blocks = 1;
    b->ring[0].bytes = kmf_malloc(BLOCK, 1, err);
    if (!b->ring[0].bytes)
        goto failed;
    if (!kmf_gunzip_knows(file))
        return b;
    b->gzip = kmf_gunzip_new(file, err);
    if (!b->gzip)
        goto failed;
    if (!pool)
        return b;
    for (; b->n_blocks < AHEAD; b->n_blocks++) {
        b->ring[b->n_blocks].bytes = kmf_malloc(BLOCK, 1, err);
        if (!b->ring[b->n_blocks].bytes)
            goto failed;
    }
    b->queue = kmf_queue_new(pool, 1, err);
    if (b->queue)
        return b;
failed:
    kmf_bytes_close(b);
    return NULL;
}

void kmf_bytes_close(kmf_bytes *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    b->closing = true;
    pthread_mutex_unlock(&b->lock);
    kmf_queue_free(b->queue);
    kmf_gunzip_free(b->gzip);
    hclose_abruptly(b->file);
    for (size_t i = 0; i < AHEAD; i++)
        kmf_free(b->ring[i].bytes);
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    kmf_free(b);
}

void kmf_bytes_watch(kmf_bytes *bytes, const kmf_watch *watch)
{
    bytes->watch = *watch;
}

int kmf_bytes_peek(kmf_bytes *b, const char **block, size_t *len, kmf_err *err)
{
    int status = kmf_bytes_next(b, block, len, err);
    if (status > 0) {
        b->seen = *block;
        b->n_seen = *len;
    }
    return status;
}

int kmf_bytes_next(kmf_bytes *b, const char **block, size_t *len, kmf_err *err)
{
    if (b->seen) {
        *block = b->seen;
        *len = b->n_seen;
        b->seen = NULL;
        return 1;
    }
    pthread_mutex_lock(&b->lock);
    b->n_given_back += b->in_use;
    b->in_use = settle(b);
    if (b->n_given_back > 0) /* the first block may be all that is asked for */
        start_ahead(b);
    const struct block *full = &b->ring[b->n_given_back % b->n_blocks];
    size_t n = b->in_use ? full->len : 0;
    pthread_mutex_unlock(&b->lock);
    if (n == 0 && b->ending == ENDED && kmf_watch_end(&b->watch, &b->reason) < 0)
        b->ending = FAILED;
    if (n == 0)
        return b->ending == ENDED ? 0 : kmf_fail(err, b->reason.code, "%s", b->reason.msg);
    *block = full->bytes;
    *len = n;
    return 1;
}

int kmf_bytes_look_for_damage(kmf_bytes *b, kmf_err *err)
{
    const char *block;
    size_t len = 0;
    int status = b->gzip != NULL;
    for (size_t n = 0; status > 0 && n < LOOKED_THROUGH; n += len)
        status = kmf_bytes_next(b, &block, &len, err);
    return status < 0 ? status : 0;
}
