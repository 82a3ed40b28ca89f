/* SPDX-License-Identifier: MIT */
/*
 * A file of gzip or BGZF in portions, read in turns by one thread or by several, which inflate them
 * at the same time, against the text that it holds; and what is no such file, or damaged.
 */
#include "base/rng.h"
#include "run.h"
#include "seq/blocks.h"
#include "seq/par.h"
#include "seq/portions.h"
#include "seqfiles.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define ANY SIZE_MAX

static text make_text(kmf_rng *rng, size_t n)
{
    text t = {0};
    while (t.len < n) {
        char letter = "ACGTACGTACGTACGTACGTACGTACGTACG\n>"[kmf_rng_below(rng, 33)];
        add_bytes(&t, &letter, 1);
    }
    return t;
}

static kmf_portions *open_portions(const char *path, size_t own, size_t most)
{
    int file = open(path, O_RDONLY);
    ck_assert_int_ge(file, 0);
    kmf_portions *p = kmf_portions_open(path, file, own, '>', most);
    ck_assert_int_eq(close(file), 0);
    return p;
}

static size_t count_marks(const char *bytes, size_t n)
{
    size_t marks = 0;
    for (size_t i = 0; i < n; i++)
        marks += bytes[i] == '>';
    return marks;
}

/* Several threads that take what comes next. */
typedef struct takers {
    kmf_portions *portions;
    const text *t;
    size_t own, most;
    size_t block;         /* bytes of each, which end portions; 0: gzip */
    pthread_mutex_t lock; /* of reading what comes next */
    atomic_size_t taken, wrong;
    _Atomic uint64_t end; /* of all that was taken */
    atomic_size_t ends;   /* portions that said so, behind which nothing is */
} takers;

/* Is it what it should be of the text? */
static bool is_right(const takers *x, const kmf_portion *p, const char *bytes)
{
    const text *t = x->t;
    if (p->at > t->len || p->own > p->n)
        return false;
    size_t at = (size_t)p->at;
    size_t behind = p->n - p->own;
    size_t follow = t->len - at - p->own;
    size_t marks = count_marks(t->bytes + at, p->own);
    bool full =
        p->own == x->own || follow == 0 || (marks == x->most && t->bytes[at + p->own] == '>');
    bool fits = marks <= x->most || (x->block > 0 && p->own <= KMF_BLOCK_MOST);
    bool whole = x->block > 0 ? follow == 0 || (at + p->own) % x->block == 0 : full;
    return p->own > 0 && p->own <= x->own && fits && whole &&
           memcmp(bytes, t->bytes + at, p->n) == 0 &&
           (behind == follow || (behind < follow && behind >= KMF_PORTION_BEHIND)) &&
           (!p->ends || behind == follow);
}

static void take(void *arg, int thread)
{
    takers *x = arg;
    (void)thread;
    char *room = malloc(x->own + KMF_PORTION_BEHIND);
    ck_assert_ptr_nonnull(room);
    kmf_portion p = {0};
    for (;;) {
        pthread_mutex_lock(&x->lock);
        bool there = kmf_portions_next(x->portions, &p);
        pthread_mutex_unlock(&x->lock);
        const char *bytes = there ? kmf_portions_inflate(x->portions, &p, room) : NULL;
        if (!bytes)
            break;
        atomic_fetch_add(&x->taken, 1);
        atomic_fetch_add(&x->end, p.own);
        atomic_fetch_add(&x->wrong, !is_right(x, &p, bytes));
        atomic_fetch_add(&x->ends, p.ends && p.own == p.n);
    }
    kmf_portion_free(&p);
    free(room);
}

static takers take_all(const char *path, const text *t, size_t own, size_t most, size_t block,
                       int threads)
{
    size_t n;
    takers x = {.portions = open_portions(path, own, most), .t = t, .own = own, .most = most};
    x.block = own >= KMF_BLOCK_MOST ? block : 0;
    ck_assert_ptr_nonnull(x.portions);
    const char *first = kmf_portions_begin(x.portions, &n);
    pthread_mutex_init(&x.lock, NULL);
    ck_assert_uint_le(n, own);
    ck_assert_int_eq(memcmp(first, t->bytes, n), 0);
    ck_assert_int_eq(kmf_together(threads, take, &x, NULL), 0);
    ck_assert_uint_eq(x.wrong, 0);
    kmf_portions_close(x.portions);
    pthread_mutex_destroy(&x.lock);
    return x;
}

/* In one member or in several. */
static const char *gzip_file(const text *t, bool members)
{
    text packed = gzipped(t->bytes, members ? t->len / 3 : t->len);
    if (members) {
        text rest = gzipped(t->bytes + t->len / 3, t->len - t->len / 3);
        add_bytes(&packed, rest.bytes, rest.len);
        free(rest.bytes);
    }
    const char *path = write_bytes("t.gz", packed.bytes, packed.len);
    free(packed.bytes);
    return path;
}

static const char *bgzf_file(const text *t, size_t block)
{
    text packed = bgzipped_by(t->bytes, t->len, block);
    const char *path = write_bytes("t.gz", packed.bytes, packed.len);
    free(packed.bytes);
    return path;
}

START_TEST(portions_are_the_text)
{
    kmf_rng rng = kmf_rng_stream(61, (uint64_t)_i);
    for (int round = 0; round < 40; round++) {
        bool large = round % 8 == 7;
        text t = make_text(&rng, 1 + kmf_rng_below(&rng, large ? 2000000 : 30000));
        size_t own = 1 + kmf_rng_below(&rng, large ? 900000 : 9000);
        size_t most = 1 + kmf_rng_below(&rng, large ? 20000 : 200);
        takers x = take_all(gzip_file(&t, round % 2), &t, own, most, 0, 1 + _i);
        ck_assert_uint_eq(x.end, t.len);
        ck_assert_uint_eq(x.ends, 1);
        ck_assert_uint_ge(x.taken, (t.len + own - 1) / own);
        free(t.bytes);
    }
}
END_TEST

START_TEST(portions_of_blocks_are_the_text)
{
    kmf_rng rng = kmf_rng_stream(63, (uint64_t)_i);
    for (int round = 0; round < 20; round++) {
        text t = make_text(&rng, 1 + kmf_rng_below(&rng, round % 2 ? 2000000 : 300000));
        size_t own = KMF_BLOCK_MOST + kmf_rng_below(&rng, round % 3 ? 900000 : 1000);
        size_t most = round % 4 ? ANY : 1 + kmf_rng_below(&rng, 20000);
        size_t block = round % 5 ? 1000 + kmf_rng_below(&rng, 0xff00 - 1000) : 0xff00;
        takers x = take_all(bgzf_file(&t, block), &t, own, most, block, 1 + _i);
        ck_assert_uint_eq(x.end, t.len);
        ck_assert_uint_eq(x.ends, 1);
        free(t.bytes);
    }
}
END_TEST

/* What was taken before is right; the end is not reached. */
START_TEST(damaged_files_end_early)
{
    kmf_rng rng = kmf_rng_stream(62, 0);
    size_t some = 0;
    for (int round = 0; round < 60; round++) {
        text t = make_text(&rng, 100000);
        text packed = round % 2 ? gzipped(t.bytes, t.len) : bgzipped(t.bytes, t.len);
        if (round % 3 == 0)
            packed.len -= 1 + kmf_rng_below(&rng, packed.len - 2000);
        else
            packed.bytes[packed.len - 8 - (round % 2 ? 0 : BGZF_MARKER)] ^= 1; /* a checksum */
        takers x = take_all(write_bytes("t.gz", packed.bytes, packed.len), &t,
                            round % 4 < 2 ? 7000 : 70000, ANY, round % 2 ? 0 : 0xff00, 2);
        ck_assert_uint_lt(x.end, t.len);
        ck_assert_uint_eq(x.ends, 0);
        some += x.taken > 0;
        free(packed.bytes);
        free(t.bytes);
    }
    ck_assert_uint_gt(some, 20);
}
END_TEST

START_TEST(other_files_are_refused)
{
    text t = {0};
    add(&t, ">a\nACGT\n");
    text packed = gzipped(t.bytes, t.len);
    const char *path = write_bytes("a.gz", packed.bytes, packed.len);
    const char *same = write_bytes("b.gz", packed.bytes, packed.len);
    int file = open(same, O_RDONLY);
    ck_assert_int_ge(file, 0);
    ck_assert_ptr_null(kmf_portions_open(path, file, 100, '>', 100));
    kmf_portions *p = kmf_portions_open(same, file, 100, '>', 100);
    ck_assert_ptr_nonnull(p);
    kmf_portions_close(p);
    ck_assert_int_eq(unlink(same), 0);
    ck_assert_ptr_null(kmf_portions_open(same, file, 100, '>', 100));
    ck_assert_ptr_null(kmf_portions_open(path, -1, 100, '>', 100));
    ck_assert_ptr_null(open_portions(write_bytes("plain", t.bytes, t.len), 100, 100));
    ck_assert_int_eq(close(file), 0);
    free(packed.bytes);
    free(t.bytes);
}
END_TEST

/* It was longer when it was opened, and is whole up to where it ends now. */
START_TEST(a_file_that_becomes_shorter_ends_early)
{
    enum { N = 2000000, OWN = N / 4 };
    kmf_rng rng = kmf_rng_stream(63, 0);
    text t = make_text(&rng, N);
    text packed = gzipped(t.bytes, t.len);
    size_t one = packed.len;
    add_bytes(&packed, packed.bytes, one);
    for (int cut = 0; cut < 2; cut++) {
        const char *path = write_bytes("t.gz", packed.bytes, packed.len);
        kmf_portions *p = open_portions(path, OWN, ANY);
        kmf_portion got = {0};
        ck_assert_ptr_nonnull(p);
        if (cut)
            ck_assert_int_eq(truncate(path, (off_t)one), 0);
        for (int i = 0; i < 3; i++)
            ck_assert(kmf_portions_next(p, &got));
        ck_assert_int_eq(kmf_portions_next(p, &got), !cut);
        ck_assert_int_eq(kmf_portions_next(p, &got), !cut);
        kmf_portions_close(p);
        kmf_portion_free(&got);
    }
    free(packed.bytes);
    free(t.bytes);
}
END_TEST

/* By one that is sound, and by one without an end marker. */
START_TEST(blocks_of_a_file_that_becomes_shorter_end_early)
{
    kmf_rng rng = kmf_rng_stream(64, 0);
    text t = make_text(&rng, 20 * 40000);
    text packed = bgzipped_by(t.bytes, t.len, 40000);
    text first = bgzipped_by(t.bytes, 10 * 40000, 40000);
    for (int cut = 0; cut < 2; cut++) {
        kmf_portion got = {0};
        const char *path = write_bytes("t.gz", packed.bytes, packed.len);
        kmf_portions *p = open_portions(path, KMF_BLOCK_MOST, ANY);
        ck_assert_ptr_nonnull(p);
        int i = 0;
        for (; i < 3; i++)
            ck_assert(kmf_portions_next(p, &got));
        ck_assert_int_eq(truncate(path, (off_t)(first.len - (cut ? BGZF_MARKER : 0))), 0);
        if (!cut) {
            int file = open(path, O_WRONLY);
            ck_assert_int_eq(pwrite(file, first.bytes, first.len, 0), (ssize_t)first.len);
            ck_assert_int_eq(close(file), 0);
        }
        for (; kmf_portions_next(p, &got); i++)
            ck_assert(!got.ends || got.own < got.n);
        ck_assert_int_eq(i, cut ? 8 : 9); /* of ten; but for the last, or with the one before */
        ck_assert(!kmf_portions_next(p, &got));
        kmf_portions_close(p);
        kmf_portion_free(&got);
    }
    free(first.bytes);
    free(packed.bytes);
    free(t.bytes);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("portions");
    tcase_add_checked_fixture(tests, make_dir, remove_dir);
    tcase_add_loop_test(tests, portions_are_the_text, 0, 4);
    tcase_add_loop_test(tests, portions_of_blocks_are_the_text, 0, 4);
    tcase_add_test(tests, damaged_files_end_early);
    tcase_add_test(tests, other_files_are_refused);
    tcase_add_test(tests, a_file_that_becomes_shorter_ends_early);
    tcase_add_test(tests, blocks_of_a_file_that_becomes_shorter_end_early);
    return run_case("portions", tests);
}
