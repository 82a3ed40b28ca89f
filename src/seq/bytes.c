/* SPDX-License-Identifier: MIT */
/*
 * Decompression, kept ahead of the parser, in pieces.
 *
 * Plain input is read straight into the piece: nothing is gained by a second thread. gzip
 * (seq/gunzip.h) is one stream, which only one thread at a time can inflate, so while the parser
 * works on one piece a job inflates those that follow, as many as the ring has room for:
 *
 *     parser   | wait | piece 0 | piece 1 | ..
 *     job      | fill 0 | fill 1 | fill 2 | ..       until the ring is full, or the input ends
 *
 * A file of BGZF is read in blocks (seq/blocks.h), some for each piece, one reading after another,
 * but inflated by several jobs at a time, and by the parser while it waits:
 *
 *     job      | read 0 | inflate 0      | read 2 | ..
 *     job               | read 1 | inflate 1      | ..
 *
 * Half of the pool's threads do so: the others have what is made of the bytes to do. If there is
 * anything that is not regular, its piece says so, those behind it are forgotten, and what comes
 * from there on is read as gzip. So damage is met where it is, and told in the same words, whatever
 * the threads. htslib could inflate BGZF on several threads, too, but (1.16) when the file is
 * damaged it then drops blocks that were sound, as many as happen to be under way, so that the
 * reported record depends on timing, and it may take the damage for the end of the file if the
 * last block it handed out was an empty one.
 *
 * Jobs stand in the same pool as the computation and may be queued behind it. So the parser never
 * waits for a job that has not started: if it needs a piece and nobody fills it, it does so itself,
 * and a job that comes meanwhile finds nothing to do. No more jobs wait in the pool than there are
 * pieces to fill, and none before a second piece is asked for. All that parser and jobs share but
 * the bytes is under the lock, which is taken a few times for each piece.
 */
#include "seq/bytes.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"
#include "seq/blocks.h"
#include "seq/gunzip.h"
#include "seq/par.h"

#include <htslib/hfile.h>

/* Inflating it takes 0.5 ms or more, handing it over some 10 us. */
#define PIECE ((size_t)1 << 19)
/* Of the ring, the one that the parser has among them: 2 MB, which stay in a shared cache. */
#define AHEAD 4
/* Jobs for BGZF at most: a parser is not faster than so many. */
#define JOBS_MOST 8
/* Bytes of a file of BGZF; in less there is not enough to do for several. */
#define BLOCKS_LEAST ((off_t)128 << 10)
#define SLOTS_MOST (AHEAD - 1 + JOBS_MOST)
/* Plain input is read in smaller pieces, so that the cache has room for what is made of it. */
#define PLAIN ((size_t)1 << 17)
#define LOOKED_THROUGH ((size_t)64 << 20) /* for damage */

typedef enum ending { MORE, ENDED, FAILED, IRREGULAR } ending; /* blocks that are not regular */

/* A place in the ring, for a piece. */
typedef struct slot {
    char *bytes; /* owned [PIECE + 1] */
    size_t len;
    bool full;
    bool refused;           /* what was read for it is not regular: nothing is in it */
    kmf_blocks packed;      /* owned; of BGZF */
    kmf_inflater *inflater; /* owned; of BGZF, else NULL */
} slot;

typedef struct job {
    kmf_bytes *of;    /* borrowed */
    kmf_queue *queue; /* owned */
    bool sent;        /* it is in the queue, running, or done and not fetched */
    bool under_way;   /* not done; under the lock */
} job;

struct kmf_bytes {
    hFILE *file;      /* owned */
    kmf_gunzip *gzip; /* owned; NULL: plain input, or BGZF in blocks */
    int blocks;       /* borrowed: the descriptor to read blocks of BGZF from; -1: none */
    job jobs[JOBS_MOST];
    size_t n_jobs;
    slot ring[SLOTS_MOST];
    size_t n_slots;   /* of the ring that there are */
    const char *seen; /* bytes that were peeked at, to be given out again; NULL: none */
    size_t n_seen;
    bool in_use; /* the piece that was handed out last */

    pthread_mutex_t lock;   /* of all that follows */
    pthread_cond_t changed; /* a piece was filled, or what comes next was read */
    size_t n_begun;         /* pieces that somebody fills or has filled */
    size_t n_given_back;    /* by the parser */
    size_t n_inflating;     /* pieces whose blocks somebody inflates */
    size_t n_waiting;       /* jobs that have not started */
    bool reading;           /* somebody is: the file, gzip and reason are theirs */
    uint64_t at;            /* where the next blocks begin; changed by who was reading */
    bool closing;           /* no more is wanted */
    ending ending;          /* what follows the piece begun last */
    kmf_err reason;         /* of FAILED */
};

/* ---------------------------------------------------------------- a piece --------------- */

/* To the brim, or to the end, which is told; of FAILED b->reason, too. */
static ending fill(kmf_bytes *b, slot *p)
{
    size_t size = b->gzip ? PIECE : PLAIN;
    ptrdiff_t got = 1;
    p->len = 0;
    while (p->len < size && got > 0) {
        char *to = p->bytes + p->len;
        size_t room = size - p->len;
        got =
            b->gzip ? kmf_gunzip_read(b->gzip, to, room, &b->reason) : hread(b->file, to, room);
        p->len += got > 0 ? (size_t)got : 0;
    }
    if (got < 0 && !b->gzip)
        kmf_fail(&b->reason, KMF_EIO, "%s", strerror(errno));
    return got > 0 ? MORE : got < 0 ? FAILED : ENDED;
}

/* The next blocks, as many as there is room for. */
static ending read_blocks(const kmf_bytes *b, slot *p)
{
    if (!kmf_blocks_read(&p->packed, b->blocks, b->at, PIECE))
        return IRREGULAR;
    p->len = p->packed.outs[p->packed.n - 1];
    return p->packed.ends ? ENDED : MORE;
}

/* Under the lock, which is given back meanwhile. */
static void inflate_blocks(kmf_bytes *b, slot *p)
{
    b->n_inflating++;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    bool sound = kmf_blocks_inflate(&p->packed, p->packed.n, p->inflater, (uint8_t *)p->bytes);
    pthread_mutex_lock(&b->lock);
    b->n_inflating--;
    p->refused = !sound;
    if (!sound)
        b->ending = IRREGULAR;
}

/* ---------------------------------------------------------------- the ring -------------- */

/* Under the lock, as all that follow: is there anything to fill, and room for it? */
static bool wants_more(const kmf_bytes *b)
{
    return b->ending == MORE && !b->closing && b->n_begun - b->n_given_back < b->n_slots;
}

/* Where more is wanted and nobody is reading. The lock is given back meanwhile. */
static void fill_next(kmf_bytes *b)
{
    bool in_blocks = b->blocks >= 0;
    slot *p = &b->ring[b->n_begun++ % b->n_slots];
    p->full = false;
    b->reading = true;
    pthread_mutex_unlock(&b->lock);
    ending end = in_blocks ? read_blocks(b, p) : fill(b, p);
    pthread_mutex_lock(&b->lock);
    b->reading = false;
    p->refused = end == IRREGULAR;
    if (in_blocks && !p->refused)
        b->at += p->packed.ins[p->packed.n - 1];
    if (b->ending == MORE) /* else one that was begun before was refused meanwhile */
        b->ending = end;
    if (in_blocks && !p->refused)
        inflate_blocks(b, p);
    p->full = true;
    pthread_cond_broadcast(&b->changed);
}

static void *fill_job(void *arg)
{
    job *j = arg;
    kmf_bytes *b = j->of;
    pthread_mutex_lock(&b->lock);
    b->n_waiting--;
    while (wants_more(b) && (!b->reading || b->blocks >= 0)) {
        if (b->reading)
            pthread_cond_wait(&b->changed, &b->lock);
        else
            fill_next(b);
    }
    j->under_way = false;
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* Where no job can be sent the parser fills its pieces itself. */
static void start_ahead(kmf_bytes *b)
{
    job *j = b->jobs;
    while (j < b->jobs + b->n_jobs && j->under_way)
        j++;
    if (j == b->jobs + b->n_jobs || !wants_more(b) || (b->blocks < 0 && b->reading) ||
        b->n_waiting >= b->n_slots - (b->n_begun - b->n_given_back))
        return;
    if (j->sent)
        kmf_queue_wait(j->queue); /* it has nothing left to do but return */
    b->n_waiting++;
    j->under_way = true;
    j->sent = kmf_queue_send(j->queue, fill_job, j, NULL) == 0;
    if (!j->sent) {
        b->n_waiting--;
        j->under_way = false;
    }
}

/* From the refused piece on, which is the next one. */
static void go_on_as_gzip(kmf_bytes *b, const slot *refused)
{
    while (b->reading || b->n_inflating > 0)
        pthread_cond_wait(&b->changed, &b->lock);
    b->n_begun = b->n_given_back;
    b->blocks = -1;
    b->ending = FAILED;
    if (hseek(b->file, (off_t)refused->packed.at, SEEK_SET) < 0)
        kmf_fail(&b->reason, KMF_EIO, "%s", strerror(errno));
    else if ((b->gzip = kmf_gunzip_new(b->file, &b->reason)) != NULL)
        b->ending = MORE;
}

/* Returns when the next piece is filled; NULL: there is none. */
static const slot *settle(kmf_bytes *b)
{
    for (;;) {
        const slot *next =
            b->n_begun > b->n_given_back ? &b->ring[b->n_given_back % b->n_slots] : NULL;
        if (next && next->full && next->refused)
            go_on_as_gzip(b, next);
        else if (next && next->full && next->len > 0)
            return next;
        else if (next && next->full)
            b->n_given_back++; /* of empty blocks, or the end */
        else if (wants_more(b) && !b->reading)
            fill_next(b);
        else if (next)
            pthread_cond_wait(&b->changed, &b->lock);
        else
            return NULL;
    }
}

/* ---------------------------------------------------------------- the input ------------- */

static int add_slot(kmf_bytes *b, kmf_err *err)
{
    slot *p = &b->ring[b->n_slots];
    b->n_slots++;
    p->bytes = kmf_malloc(PIECE + 1, 1, err);
    if (!p->bytes)
        return KMF_ENOMEM;
    if (b->blocks < 0)
        return 0;
    p->inflater = kmf_inflater_new(err);
    return p->inflater ? kmf_blocks_init(&p->packed, PIECE, err) : KMF_ENOMEM;
}

static int add_job(kmf_bytes *b, kmf_pool *pool, kmf_err *err)
{
    job *j = &b->jobs[b->n_jobs++];
    j->of = b;
    j->queue = kmf_queue_new(pool, 1, err);
    return j->queue ? 0 : KMF_ENOMEM;
}

static bool is_for_blocks(int descriptor)
{
    struct stat st;
    return kmf_blocks_knows(descriptor) && fstat(descriptor, &st) == 0 &&
           st.st_size >= BLOCKS_LEAST;
}

/* Of a compressed file. */
static int begin_ahead(kmf_bytes *b, int descriptor, kmf_pool *pool, kmf_err *err)
{
    bool in_blocks = pool && is_for_blocks(descriptor);
    size_t threads = (size_t)kmf_pool_threads(pool);
    size_t n_jobs = in_blocks ? kmf_min((threads + 1) / 2, JOBS_MOST) : threads > 0;
    size_t n_slots = pool ? AHEAD - 1 + n_jobs : 1;
    int status = 0;
    if (in_blocks)
        b->blocks = descriptor;
    else if (!(b->gzip = kmf_gunzip_new(b->file, err)))
        status = KMF_ENOMEM;
    while (status == 0 && b->n_slots < n_slots)
        status = add_slot(b, err);
    while (status == 0 && b->n_jobs < n_jobs)
        status = add_job(b, pool, err);
    return status;
}

kmf_bytes *kmf_bytes_open(hFILE *file, int descriptor, kmf_pool *pool, kmf_err *err)
{
    kmf_bytes *b = kmf_calloc(1, sizeof *b, err);
    if (!b) {
        hclose_abruptly(file);
        return NULL;
    }
    b->file = file;
    b->blocks = -1;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    int status =
        kmf_gunzip_knows(file) ? begin_ahead(b, descriptor, pool, err) : add_slot(b, err);
    if (status == 0)
        return b;
    kmf_bytes_close(b);
    return NULL;
}

kmf_bytes *kmf_bytes_open_path(const char *path, kmf_err *err)
{
    hFILE *file = kmf_input_open(path, err);
    return file ? kmf_bytes_open(file, -1, NULL, err) : NULL;
}

void kmf_bytes_close(kmf_bytes *b)
{
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    b->closing = true;
    pthread_mutex_unlock(&b->lock);
    for (size_t i = 0; i < b->n_jobs; i++)
        kmf_queue_free(b->jobs[i].queue);
    kmf_gunzip_free(b->gzip);
    hclose_abruptly(b->file);
    for (size_t i = 0; i < b->n_slots; i++) {
        kmf_free(b->ring[i].bytes);
        kmf_blocks_free(&b->ring[i].packed);
        kmf_inflater_free(b->ring[i].inflater);
    }
    pthread_cond_destroy(&b->changed);
    pthread_mutex_destroy(&b->lock);
    kmf_free(b);
}

uint64_t kmf_bytes_taken(kmf_bytes *bytes, int descriptor)
{
    pthread_mutex_lock(&bytes->lock);
    double done = bytes->n_begun > 0 ? (double)bytes->n_given_back / (double)bytes->n_begun : 0;
    double at = (double)bytes->at;
    pthread_mutex_unlock(&bytes->lock);
    if (at <= 0)
        at = (double)lseek(descriptor, 0, SEEK_CUR);
    return at > 0 ? (uint64_t)(at * done) : 0;
}

int kmf_bytes_peek(kmf_bytes *b, const char **piece, size_t *len, kmf_err *err)
{
    int status = kmf_bytes_next(b, piece, len, err);
    if (status > 0) {
        b->seen = *piece;
        b->n_seen = *len;
    }
    return status;
}

int kmf_bytes_next(kmf_bytes *b, const char **piece, size_t *len, kmf_err *err)
{
    if (b->seen) {
        *piece = b->seen;
        *len = b->n_seen;
        b->seen = NULL;
        return 1;
    }
    pthread_mutex_lock(&b->lock);
    b->n_given_back += b->in_use;
    const slot *full = settle(b);
    b->in_use = full != NULL;
    if (b->n_given_back > 0) /* the first piece may be all that is asked for */
        start_ahead(b);
    int status = full ? 1 : b->ending == ENDED ? 0 : -1;
    pthread_mutex_unlock(&b->lock);
    if (full) {
        *piece = full->bytes;
        *len = full->len;
    }
    return status < 0 ? kmf_fail(err, b->reason.code, "%s", b->reason.msg) : status;
}

int kmf_bytes_look_for_damage(kmf_bytes *b, kmf_err *err)
{
    const char *piece;
    size_t len = 0;
    int status = b->gzip || b->blocks >= 0;
    for (size_t n = 0; status > 0 && n < LOOKED_THROUGH; n += len)
        status = kmf_bytes_next(b, &piece, &len, err);
    return status < 0 ? status : 0;
}
