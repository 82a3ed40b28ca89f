/* SPDX-License-Identifier: MIT */
#include "seq/portions.h"

#include "base/mem.h"
#include "seq/gunzip.h"
#include "seq/input.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#include <htslib/hfile.h>

#define PIECE ((size_t)256 << 10)    /* bytes, at the end of which marks are counted */
#define BEGINNING ((size_t)64 << 10) /* bytes, to tell what is in the file */

struct kmf_portions {
    hFILE *file;        /* owned */
    int descriptor;     /* of the file */
    kmf_gunzip *gunzip; /* owned; NULL: BGZF */
    kmf_watch watch;
    size_t own; /* bytes of a portion */
    char mark;
    size_t most; /* marks of a portion */

    uint64_t at;       /* where the next portion begins, inflated, */
    uint64_t at_block; /* and of BGZF, in the file */
    char *kept;        /* owned: bytes from there on, that are inflated */
    size_t n_kept;
    bool ended;  /* nothing follows what is kept; of BGZF, the portion that was read last */
    bool failed; /* nothing more can be read, whatever follows */

    atomic_size_t next_own; /* of BGZF: bytes that the next one may have */
};

/* Bytes that are read, inflated, so that those behind the portion are among them. */
static size_t most_read(size_t own)
{
    return own + KMF_BLOCK_MOST + KMF_PORTION_BEHIND;
}

size_t kmf_portions_bytes(size_t own)
{
    return sizeof(kmf_portions) + own + KMF_PORTION_BEHIND;
}

size_t kmf_portion_bytes(size_t own)
{
    return sizeof(kmf_portion) +
           kmf_max(own + KMF_PORTION_BEHIND, kmf_blocks_bytes(most_read(own)));
}

void kmf_portion_free(kmf_portion *portion)
{
    kmf_free(portion->bytes);
    kmf_blocks_free(&portion->blocks);
    kmf_inflater_free(portion->inflater);
    *portion = (kmf_portion){0};
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

static bool has_room(const kmf_portions *p, kmf_portion *portion)
{
    size_t need = p->own + KMF_PORTION_BEHIND;
    if (portion->cap >= need)
        return true;
    kmf_portion_free(portion);
    portion->bytes = kmf_malloc(need, 1, NULL);
    portion->cap = portion->bytes ? need : 0;
    return portion->bytes != NULL;
}

/* Inflated piece by piece, so that little is left over of one that ends early. */
static bool next_gzip(kmf_portions *p, kmf_portion *portion)
{
    if (!has_room(p, portion))
        return false;
    char *bytes = portion->bytes;
    char *end = bytes + p->n_kept;
    size_t own = 0;
    size_t marks = p->most;
    bool whole = false;
    memcpy(bytes, p->kept, p->n_kept);
    while (!whole) {
        end = inflate_to(p, end, bytes + own + kmf_min(p->own - own, PIECE));
        size_t here = kmf_min((size_t)(end - bytes), p->own);
        size_t n = with_marks(bytes + own, here - own, p->mark, &marks);
        own += n;
        whole = own < here || own == p->own || p->ended || p->failed;
    }
    end = inflate_to(p, end, bytes + own + KMF_PORTION_BEHIND);
    portion->at = p->at;
    portion->own = own;
    portion->n = (size_t)(end - bytes);
    portion->ends = p->ended;
    p->at += own;
    p->n_kept = portion->n - own;
    memcpy(p->kept, bytes + own, p->n_kept);
    return own > 0 && !p->failed;
}

/* ---------------------------------------------------------------- BGZF ------------------ */

static bool has_room_for_blocks(const kmf_portions *p, kmf_portion *portion)
{
    size_t need = most_read(p->own);
    if (portion->inflater && portion->blocks.cap >= kmf_blocks_bytes(need))
        return true;
    kmf_portion_free(portion);
    portion->inflater = kmf_inflater_new(NULL);
    return portion->inflater && kmf_blocks_init(&portion->blocks, need, NULL) == 0;
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

static bool next_blocks(kmf_portions *p, kmf_portion *portion)
{
    kmf_blocks *b = &portion->blocks;
    size_t own = atomic_load(&p->next_own);
    size_t n = 0;
    if (p->ended || !has_room_for_blocks(p, portion))
        return false;
    if (kmf_blocks_read(b, p->descriptor, p->at_block, most_read(own)))
        n = choose_blocks(b, own);
    if (n == 0)
        return false;
    size_t behind = b->outs[b->n - 1] - b->outs[n - 1];
    portion->at = p->at;
    portion->own = b->outs[n - 1];
    portion->n = b->outs[n - 1] + kmf_min(behind, KMF_PORTION_BEHIND);
    portion->ends = b->ends && behind <= KMF_PORTION_BEHIND;
    portion->n_blocks = n;
    p->at += portion->own;
    p->at_block += b->ins[n - 1];
    p->ended = b->ends && behind == 0;
    return !p->ended || kmf_watch_end(&p->watch, NULL) == 0;
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

static bool inflate(const kmf_portion *portion, char *room)
{
    uint8_t *to = (uint8_t *)room;
    return kmf_blocks_inflate(&portion->blocks, portion->n_blocks, portion->inflater, to) &&
           kmf_blocks_peek(&portion->blocks, portion->n_blocks, portion->inflater,
                           to + portion->own, portion->n - portion->own);
}

/* ---------------------------------------------------------------- both ------------------ */

bool kmf_portions_next(kmf_portions *p, kmf_portion *portion)
{
    bool there = !p->failed && (p->gunzip ? next_gzip(p, portion) : next_blocks(p, portion));
    p->failed = !there;
    return there;
}

const char *kmf_portions_inflate(kmf_portions *p, kmf_portion *portion, char *room)
{
    if (p->gunzip)
        return portion->bytes;
    if (!inflate(portion, room))
        return NULL;
    size_t marks = count_marks(room, portion->own, p->mark);
    atomic_store(&p->next_own, guess_own(p, portion->own, marks));
    return room;
}

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

void kmf_portions_close(kmf_portions *p)
{
    if (!p)
        return;
    kmf_gunzip_free(p->gunzip);
    if (p->file)
        hclose_abruptly(p->file);
    kmf_free(p->kept);
    kmf_free(p);
}

const char *kmf_portions_begin(const kmf_portions *portions, size_t *n)
{
    *n = portions->n_kept;
    return portions->kept;
}
