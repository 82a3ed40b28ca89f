/* SPDX-License-Identifier: MIT */
#include "seq/portions.h"

#include "base/mem.h"
#include "base/spin.h"
#include "seq/blocks.h"
#include "seq/gunzip.h"
#include "seq/input.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include <htslib/hfile.h>

#define PIECE ((size_t)256 << 10)    /* bytes, at the end of which marks are counted */
#define CALLS 16                     /* so that few wake up who are not meant */
#define LAST ((size_t)128 << 10)     /* which take 0.1 ms, as waking a thread may */
#define BEGINNING ((size_t)64 << 10) /* bytes, to tell what is in the file */

/* What a thread inflates blocks with. */
typedef struct scratch {
    kmf_blocks blocks;      /* owned */
    kmf_inflater *inflater; /* owned */
    struct scratch *next;   /* of those that are free */
} scratch;

struct kmf_portions {
    hFILE *file;        /* owned */
    int descriptor;     /* of the file */
    kmf_gunzip *gunzip; /* owned; NULL: BGZF */
    kmf_watch watch;
    size_t own; /* bytes of a portion */
    char mark;
    size_t most; /* marks of a portion */

    /* of whoever has the turn */
    uint64_t at;       /* where the next portion begins, inflated, */
    uint64_t at_block; /* and of BGZF, in the file */
    char *kept;        /* owned: bytes from there on, that are inflated */
    size_t n_kept;
    bool ended;  /* nothing follows what is kept; of BGZF, the portion that was taken last */
    bool failed; /* it cannot be inflated to its end */

    atomic_size_t next_own;          /* of BGZF: bytes that the next one may have */
    _Atomic uint64_t turn;           /* the portion that may be taken */
    pthread_mutex_t lock;            /* of what follows */
    uint64_t called;                 /* the portion whose turn it is, or nearly so */
    pthread_cond_t is_called[CALLS]; /* one of those whose number has this remainder */
    scratch *idle;                   /* owned; of BGZF */
};

/* Bytes that are read, inflated, so that those behind the portion are among them. */
static size_t most_read(size_t own)
{
    return own + KMF_BLOCK_MOST + KMF_PORTION_BEHIND;
}

size_t kmf_portions_bytes(size_t own, size_t threads)
{
    return sizeof(kmf_portions) + own + KMF_PORTION_BEHIND +
           threads * (sizeof(scratch) + kmf_blocks_bytes(most_read(own)));
}

/* ---------------------------------------------------------------- turns ----------------- */

/* Whoever has the next turn wakes up, which takes about as long as inflating the LAST bytes. */
static void call_next(kmf_portions *p)
{
    pthread_mutex_lock(&p->lock);
    p->called = atomic_load(&p->turn) + 1;
    pthread_cond_broadcast(&p->is_called[p->called % CALLS]);
    pthread_mutex_unlock(&p->lock);
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

/* ---------------------------------------------------------------- gzip ------------------ */

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

/*
 * The next portion, by whoever has the turn. Inflated piece by piece, so that little is left over
 * of one that ends early.
 */
static bool take_next(kmf_portions *p, char *bytes, kmf_portion *portion)
{
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
                         bytes + own + (left <= LAST ? left : kmf_min(left - LAST, PIECE)));
        size_t here = kmf_min((size_t)(end - bytes), p->own);
        size_t n = with_marks(bytes + own, here - own, p->mark, &marks);
        own += n;
        whole = own < here || own == p->own || p->ended || p->failed;
    }
    end = inflate_to(p, end, bytes + own + KMF_PORTION_BEHIND);
    *portion =
        (kmf_portion){.at = p->at, .own = own, .n = (size_t)(end - bytes), .ends = p->ended};
    p->at += own;
    p->n_kept = portion->n - own;
    memcpy(p->kept, bytes + own, p->n_kept);
    return own > 0 && !p->failed;
}

static bool take_gzip(kmf_portions *p, uint64_t i, char *bytes, kmf_portion *portion)
{
    await_turn(p, i);
    bool taken = take_next(p, bytes, portion);
    if (p->called == i)
        call_next(p);
    atomic_store(&p->turn, i + 1);
    return taken;
}

/* ---------------------------------------------------------------- BGZF ------------------ */

static void free_scratch(scratch *x)
{
    if (!x)
        return;
    kmf_blocks_free(&x->blocks);
    kmf_inflater_free(x->inflater);
    kmf_free(x);
}

/* One that is free, or a new one; NULL: no memory. */
static scratch *take_scratch(kmf_portions *p)
{
    pthread_mutex_lock(&p->lock);
    scratch *x = p->idle;
    p->idle = x ? x->next : NULL;
    pthread_mutex_unlock(&p->lock);
    if (x)
        return x;
    x = kmf_calloc(1, sizeof *x, NULL);
    if (!x)
        return NULL;
    x->inflater = kmf_inflater_new(NULL);
    if (x->inflater && kmf_blocks_init(&x->blocks, most_read(p->own), NULL) == 0)
        return x;
    free_scratch(x);
    return NULL;
}

static void give_back(kmf_portions *p, scratch *x)
{
    pthread_mutex_lock(&p->lock);
    x->next = p->idle;
    p->idle = x;
    pthread_mutex_unlock(&p->lock);
}

/* How many of the blocks are a portion of `own` bytes or less; 0: what must follow is not there. */
static size_t choose_blocks(const kmf_blocks *b, size_t own)
{
    size_t n = b->n;
    size_t all = b->outs[n - 1];
    while (n > 0 &&
           (b->outs[n - 1] > own || (all - b->outs[n - 1] < KMF_PORTION_BEHIND && !b->ends)))
        n--;
    return n > 0 && b->outs[n - 1] > 0 ? n : 0;
}

/* The next blocks: how many are those of the portion; 0: they are not there. */
static size_t read_next(kmf_portions *p, kmf_blocks *b, kmf_portion *portion)
{
    size_t own = atomic_load(&p->next_own);
    size_t n = 0;
    if (kmf_blocks_read(b, p->descriptor, p->at_block, most_read(own)))
        n = choose_blocks(b, own);
    p->failed = n == 0;
    if (n == 0)
        return 0;
    size_t behind = b->outs[b->n - 1] - b->outs[n - 1];
    *portion = (kmf_portion){.at = p->at,
                             .own = b->outs[n - 1],
                             .n = b->outs[n - 1] + kmf_min(behind, KMF_PORTION_BEHIND),
                             .ends = b->ends && behind <= KMF_PORTION_BEHIND};
    p->at += portion->own;
    p->at_block += b->ins[n - 1];
    p->ended = b->ends && behind == 0;
    p->failed = p->ended && kmf_watch_end(&p->watch, NULL) < 0;
    return p->failed ? 0 : n;
}

/* How many bytes the next portions may have, going by one of so many bytes and marks. */
static size_t guess_own(const kmf_portions *p, size_t n, size_t marks)
{
    size_t for_mark = n / (marks + 1);
    size_t most = p->most - p->most / 4;
    size_t bytes = for_mark < p->own / most ? for_mark * most : p->own;
    return kmf_max(bytes, KMF_BLOCK_MOST);
}

static size_t count_marks(const char *bytes, size_t n, char mark)
{
    size_t left = SIZE_MAX;
    with_marks(bytes, n, mark, &left);
    return SIZE_MAX - left;
}

/* In turn: the next blocks, n of which are those of the portion. false: there are none. */
static bool read_in_turn(kmf_portions *p, uint64_t i, scratch *x, size_t *n,
                         kmf_portion *portion)
{
    await_turn(p, i);
    call_next(p); /* reading takes less time than waking does */
    p->failed = p->failed || !x;
    *n = p->failed || p->ended ? 0 : read_next(p, &x->blocks, portion);
    atomic_store(&p->turn, i + 1);
    return *n > 0;
}

static bool inflate(const scratch *x, size_t n, char *bytes, const kmf_portion *portion)
{
    uint8_t *to = (uint8_t *)bytes;
    return kmf_blocks_inflate(&x->blocks, n, x->inflater, to) &&
           kmf_blocks_peek(&x->blocks, n, x->inflater, to + portion->own,
                           portion->n - portion->own);
}

static bool take_blocks(kmf_portions *p, uint64_t i, char *bytes, kmf_portion *portion)
{
    size_t n;
    scratch *x = take_scratch(p);
    bool taken = read_in_turn(p, i, x, &n, portion) && inflate(x, n, bytes, portion);
    if (taken)
        atomic_store(&p->next_own,
                     guess_own(p, portion->own, count_marks(bytes, portion->own, p->mark)));
    if (x)
        give_back(p, x);
    return taken;
}

/* ---------------------------------------------------------------- both ------------------ */

/* Is it a regular file, and the one that `file` is open of? */
static bool is_same(int opened, int file)
{
    struct stat a, b;
    return fstat(opened, &a) == 0 && fstat(file, &b) == 0 && S_ISREG(a.st_mode) &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* It has been inflated as far as kmf_portions_begin tells. */
static void begin_blocks(kmf_portions *p)
{
    kmf_gunzip_free(p->gunzip);
    p->gunzip = NULL;
    p->ended = p->failed = false;
    atomic_init(&p->next_own,
                guess_own(p, p->n_kept, count_marks(p->kept, p->n_kept, p->mark)));
}

kmf_portions *kmf_portions_open(const char *path, int file, size_t own, char mark, size_t most)
{
    kmf_portions *p = kmf_calloc(1, sizeof *p, NULL);
    if (!p)
        return NULL;
    *p = (kmf_portions){.own = own, .mark = mark, .most = most};
    pthread_mutex_init(&p->lock, NULL);
    for (size_t i = 0; i < CALLS; i++)
        pthread_cond_init(&p->is_called[i], NULL);
    p->kept = kmf_malloc(own + KMF_PORTION_BEHIND, 1, NULL);
    p->file = p->kept ? kmf_input_open_file(path, &p->descriptor, NULL) : NULL;
    if (!p->file || !is_same(p->descriptor, file) || !kmf_gunzip_knows(p->file))
        goto failed;
    p->watch = kmf_watch_begin(p->descriptor);
    p->gunzip = kmf_gunzip_new(p->file, NULL);
    if (!p->gunzip)
        goto failed;
    const char *beginning = p->kept + kmf_min(own, BEGINNING);
    p->n_kept = (size_t)(inflate_to(p, p->kept, beginning) - p->kept);
    if (own >= KMF_BLOCK_MOST && kmf_blocks_knows(p->descriptor))
        begin_blocks(p);
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
    for (scratch *next, *x = p->idle; x; x = next) {
        next = x->next;
        free_scratch(x);
    }
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

bool kmf_portions_take(kmf_portions *portions, uint64_t i, char *bytes, kmf_portion *portion)
{
    return portions->gunzip ? take_gzip(portions, i, bytes, portion)
                            : take_blocks(portions, i, bytes, portion);
}
