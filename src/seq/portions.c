/* SPDX-License-Identifier: MIT */
#include "seq/portions.h"

#include "base/mem.h"
#include "base/spin.h"
#include "seq/input.h"
#include "seq/gunzip.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include <htslib/hfile.h>

#define PIECE ((size_t)256 << 10)    /* bytes, at the end of which marks are counted */
#define CALLS 16                     /* so that few wake up who are not meant */
#define LAST ((size_t)128 << 10)     /* which take 0.1 ms, as waking a thread may */
#define BEGINNING ((size_t)64 << 10) /* bytes, to tell what is in the file */

struct kmf_portions {
    hFILE *file;        /* owned */
    kmf_gunzip *gunzip; /* owned */
    kmf_watch watch;
    size_t own; /* bytes of a portion */
    char mark;
    size_t most; /* marks of a portion */

    /* of whoever has the turn */
    uint64_t at;   /* where the next portion begins */
    char *kept;    /* owned: the bytes before it, and those behind that are inflated */
    size_t before; /* so many of them are before it */
    size_t n_kept;
    bool ended;  /* nothing follows what is kept */
    bool failed; /* it cannot be inflated to its end */

    _Atomic uint64_t turn;           /* the portion that may be taken */
    pthread_mutex_t lock;            /* of what follows */
    uint64_t called;                 /* the portion whose turn it is, or nearly so */
    pthread_cond_t is_called[CALLS]; /* one of those whose number has this remainder */
};

size_t kmf_portions_bytes(size_t own)
{
    return sizeof(kmf_portions) + KMF_PORTION_BEFORE + own + KMF_PORTION_BEHIND;
}

/* Inflates on, if those up to `wanted` are not there: the end of what is. */
static char *inflate_to(kmf_portions *p, char *end, const char *wanted)
{
    while (end < wanted && !p->ended && !p->failed) {
        ptrdiff_t got = kmf_gunzip_read(p->gunzip, end, (size_t)(wanted - end), NULL);
        p->ended = got == 0;
        p->failed = got < 0 || (got == 0 && kmf_watch_end(&p->watch, NULL) < 0);
        end += got > 0 ? got : 0;
    }
    return end;
}

/* Is it a regular file, and the one that `file` is open of? */
static bool is_same(int opened, int file)
{
    struct stat a, b;
    return fstat(opened, &a) == 0 && fstat(file, &b) == 0 && S_ISREG(a.st_mode) &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

kmf_portions *kmf_portions_open(const char *path, int file, size_t own, char mark, size_t most)
{
    int opened;
    kmf_portions *p = kmf_calloc(1, sizeof *p, NULL);
    if (!p)
        return NULL;
    *p = (kmf_portions){.own = own, .mark = mark, .most = most};
    pthread_mutex_init(&p->lock, NULL);
    for (size_t i = 0; i < CALLS; i++)
        pthread_cond_init(&p->is_called[i], NULL);
    p->kept = kmf_malloc(KMF_PORTION_BEFORE + own + KMF_PORTION_BEHIND, 1, NULL);
    p->file = p->kept ? kmf_input_open_file(path, &opened, NULL) : NULL;
    if (!p->file || !is_same(opened, file) || !kmf_gunzip_knows(p->file))
        goto failed;
    p->watch = kmf_watch_begin(opened);
    p->gunzip = kmf_gunzip_new(p->file, NULL);
    if (!p->gunzip)
        goto failed;
    const char *beginning = p->kept + kmf_min(own, BEGINNING);
    p->n_kept = (size_t)(inflate_to(p, p->kept, beginning) - p->kept);
    return p;
failed:
    kmf_portions_close(p);
    return NULL;
}

void kmf_portions_close(kmf_portions *portions)
{
    kmf_portions *p = portions;
    if (!p)
        return;
    kmf_gunzip_free(p->gunzip);
    if (p->file)
        hclose_abruptly(p->file);
    kmf_free(p->kept);
    for (size_t i = 0; i < CALLS; i++)
        pthread_cond_destroy(&p->is_called[i]);
    pthread_mutex_destroy(&p->lock);
    kmf_free(p);
}

const char *kmf_portions_begin(const kmf_portions *portions, size_t *n)
{
    *n = portions->n_kept;
    return portions->kept;
}

/* How many of n bytes have no more marks than are left, which they then take. */
static size_t with_marks(const char *bytes, size_t n, char mark, size_t *left)
{
    const char *end = bytes + n;
    const char *at = bytes;
    while ((at = memchr(at, mark, (size_t)(end - at))) != NULL) {
        if (*left == 0)
            return (size_t)(at - bytes);
        --*left;
        at++;
    }
    return n;
}

/* Whoever has the next turn wakes up, which takes about as long as inflating the LAST bytes. */
static void call_next(kmf_portions *p)
{
    pthread_mutex_lock(&p->lock);
    p->called = atomic_load(&p->turn) + 1;
    pthread_cond_broadcast(&p->is_called[p->called % CALLS]);
    pthread_mutex_unlock(&p->lock);
}

/*
 * The next portion, by whoever has the turn. Inflated piece by piece, so that little is left over
 * of one that ends early.
 */
static bool take_next(kmf_portions *p, char *bytes, kmf_portion *portion)
{
    char *first = bytes + p->before;
    char *end = bytes + p->n_kept;
    size_t own = 0;
    size_t marks = p->most;
    bool whole = false;
    memcpy(bytes, p->kept, p->n_kept);
    while (!whole) {
        size_t left = p->own - own;
        if (left <= LAST)
            call_next(p);
        end = inflate_to(p, end,
                         first + own + (left <= LAST ? left : kmf_min(left - LAST, PIECE)));
        size_t here = kmf_min((size_t)(end - first), p->own);
        size_t n = with_marks(first + own, here - own, p->mark, &marks);
        own += n;
        whole = own < here || own == p->own || p->ended || p->failed;
    }
    end = inflate_to(p, end, first + own + KMF_PORTION_BEHIND);
    *portion = (kmf_portion){.at = p->at,
                             .before = p->before,
                             .own = own,
                             .n = (size_t)(end - bytes),
                             .ends = p->ended};
    p->at += own;
    p->before = kmf_min(p->before + own, KMF_PORTION_BEFORE);
    const char *kept = first + own - p->before;
    p->n_kept = (size_t)(end - kept);
    memcpy(p->kept, kept, p->n_kept);
    return own > 0 && !p->failed;
}

/* Waits: asleep until it is nearly portion i's turn. */
static void await_turn(kmf_portions *p, uint64_t i)
{
    int tries = 0;
    pthread_mutex_lock(&p->lock);
    while (p->called < i)
        pthread_cond_wait(&p->is_called[i % CALLS], &p->lock);
    pthread_mutex_unlock(&p->lock);
    while (atomic_load(&p->turn) != i)
        kmf_spin(&tries);
}

bool kmf_portions_take(kmf_portions *portions, uint64_t i, char *bytes, kmf_portion *portion)
{
    kmf_portions *p = portions;
    await_turn(p, i);
    bool taken = take_next(p, bytes, portion);
    if (p->called == i)
        call_next(p);
    atomic_store(&p->turn, i + 1);
    return taken;
}
