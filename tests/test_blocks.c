/* SPDX-License-Identifier: MIT */
/*
 * BGZF in blocks, as htslib writes it, against the text that it holds; and files that are damaged,
 * cut off or something else besides, inflated by several threads, against what one thread makes of
 * them that reads them as gzip.
 */
#include "seq/blocks.h"

#include "base/rng.h"
#include "checked.h"
#include "run.h"
#include "seq/bytes.h"
#include "seq/input.h"
#include "seqfiles.h"

#include <fcntl.h>

enum { MANY = CHECKED ? 60 : 200, MOST = 4 * KMF_BLOCK_MOST, HTSLIB_BLOCK = 0xff00 };

static text make_text(kmf_rng *rng, size_t n)
{
    text t = {0};
    while (t.len < n) {
        char letter = "ACGTACGTACGTACGTACGTACGTACGTACG\n"[kmf_rng_below(rng, 32)];
        add_bytes(&t, &letter, 1);
    }
    return t;
}

/* Where block i of a packed text begins; or the end, of fewer. */
static size_t block_at(const text *packed, size_t i)
{
    size_t at = 0;
    for (; i > 0 && at < packed->len; i--) {
        const unsigned char *size = (const unsigned char *)packed->bytes + at + 16;
        at += (size_t)size[0] + 256 * (size_t)size[1] + 1;
    }
    return at;
}

static size_t count_blocks(const text *packed)
{
    size_t n = 0;
    while (block_at(packed, n) < packed->len)
        n++;
    return n;
}

static void insert(text *packed, size_t at, const void *bytes, size_t n)
{
    text t = {0};
    add_bytes(&t, packed->bytes, at);
    add_bytes(&t, bytes, n);
    add_bytes(&t, packed->bytes + at, packed->len - at);
    free(packed->bytes);
    *packed = t;
}

/* ---------------------------------------------------------------- blocks ---------------- */

static int open_file(const text *packed)
{
    int file = open(write_bytes("t.gz", packed->bytes, packed->len), O_RDONLY);
    ck_assert_int_ge(file, 0);
    return file;
}

/* Empty blocks between the others are regular. */
static text with_empty_blocks(const text *t, kmf_rng *rng)
{
    text packed = bgzipped(t->bytes, t->len);
    for (uint64_t n = kmf_rng_below(rng, 6); n > 0; n--) {
        size_t at = block_at(&packed, kmf_rng_below(rng, count_blocks(&packed)));
        char empty[BGZF_MARKER];
        memcpy(empty, packed.bytes + packed.len - BGZF_MARKER, BGZF_MARKER);
        for (uint64_t times = kmf_rng_below(rng, 40); times > 0; times--)
            insert(&packed, at, empty, BGZF_MARKER);
    }
    return packed;
}

/* The first bytes of any of them are those of all. */
static void check_peek(const kmf_blocks *b, kmf_inflater *inflater, const uint8_t *out,
                       kmf_rng *rng)
{
    static uint8_t some[MOST + 1];
    size_t first = kmf_rng_below(rng, b->n);
    size_t before = first > 0 ? b->outs[first - 1] : 0;
    size_t rest = b->outs[b->n - 1] - before;
    size_t n = kmf_rng_below(rng, rest + 1);
    some[n] = 7;
    ck_assert(kmf_blocks_peek(b, first, inflater, some, n));
    ck_assert_int_eq(memcmp(some, out + before, n), 0);
    ck_assert_uint_eq(some[n], 7);
    ck_assert(!kmf_blocks_peek(b, first, inflater, some, rest + 1));
}

START_TEST(blocks_are_the_text)
{
    kmf_rng rng = kmf_rng_stream(81, 0);
    kmf_inflater *inflater = kmf_inflater_new(NULL);
    kmf_blocks b;
    ck_assert_ptr_nonnull(inflater);
    ck_assert_int_eq(kmf_blocks_init(&b, MOST, NULL), 0);
    for (int round = 0; round < 40; round++) {
        text t = make_text(&rng, kmf_rng_below(&rng, 1000000));
        text packed = with_empty_blocks(&t, &rng);
        text got = {0};
        uint64_t at = 0;
        int file = open_file(&packed);
        ck_assert(kmf_blocks_knows(file));
        do {
            static uint8_t out[MOST + 1];
            size_t most = KMF_BLOCK_MOST + kmf_rng_below(&rng, MOST - KMF_BLOCK_MOST + 1);
            ck_assert(kmf_blocks_read(&b, file, at, most));
            ck_assert_uint_eq(b.at, at);
            ck_assert_uint_le(b.outs[b.n - 1], most);
            ck_assert(kmf_blocks_inflate(&b, b.n, inflater, out));
            add_bytes(&got, out, b.outs[b.n - 1]);
            check_peek(&b, inflater, out, &rng);
            at += b.ins[b.n - 1];
        } while (!b.ends);
        ck_assert_uint_eq(at, packed.len);
        ck_assert_uint_eq(got.len, t.len);
        ck_assert_int_eq(memcmp(got.bytes, t.bytes, t.len), 0);
        ck_assert(!kmf_blocks_read(&b, file, at, MOST));
        close(file);
        free(got.bytes);
        free(packed.bytes);
        free(t.bytes);
    }
    kmf_blocks_free(&b);
    kmf_inflater_free(inflater);
}
END_TEST

/* The block before what is not regular is not read, either, and one that lies is not inflated. */
START_TEST(only_regular_blocks_are_read)
{
    static uint8_t out[MOST + 1];
    kmf_rng rng = kmf_rng_stream(82, 0);
    kmf_inflater *inflater = kmf_inflater_new(NULL);
    kmf_blocks b;
    ck_assert_int_eq(kmf_blocks_init(&b, MOST, NULL), 0);
    text t = make_text(&rng, 150000); /* three blocks */
    text packed = bgzipped(t.bytes, t.len);
    size_t marker = packed.len - BGZF_MARKER;
    size_t last = block_at(&packed, 2);
    ck_assert_uint_eq(block_at(&packed, 3), marker);

    packed.len = marker; /* without a marker */
    int file = open_file(&packed);
    ck_assert(kmf_blocks_read(&b, file, 0, MOST));
    ck_assert_uint_eq(b.ins[b.n - 1], last);
    ck_assert(!b.ends);
    ck_assert(!kmf_blocks_read(&b, file, last, MOST));
    close(file);

    packed.len -= 1; /* cut off */
    file = open_file(&packed);
    ck_assert(kmf_blocks_read(&b, file, 0, MOST));
    ck_assert_uint_eq(b.ins[b.n - 1], last);
    ck_assert(!kmf_blocks_read(&b, file, last, MOST));
    close(file);

    packed.len = marker + BGZF_MARKER;
    packed.bytes[last + 12] = 'X'; /* another gzip member */
    file = open_file(&packed);
    ck_assert(kmf_blocks_read(&b, file, 0, MOST));
    ck_assert_uint_eq(b.ins[b.n - 1], block_at(&packed, 1));
    close(file);
    packed.bytes[last + 12] = 'B';

    packed.bytes[last - 8] ^= 1; /* a checksum */
    file = open_file(&packed);
    ck_assert(kmf_blocks_read(&b, file, 0, MOST));
    ck_assert(b.ends);
    ck_assert(!kmf_blocks_inflate(&b, b.n, inflater, out));
    packed.bytes[last - 8] ^= 1;
    close(file);

    /* an end marker that is longer than its member, and ends with its length, 0, all the same */
    add_bytes(&packed, "ACGT\0\0\0\0", 8);
    packed.bytes[marker + 16] = (char)(packed.bytes[marker + 16] + 8);
    file = open_file(&packed);
    ck_assert(kmf_blocks_read(&b, file, 0, MOST));
    ck_assert(b.ends);
    ck_assert(!kmf_blocks_inflate(&b, b.n, inflater, out));
    close(file);

    ck_assert(!kmf_blocks_knows(-1));
    text other = gzipped(t.bytes, t.len);
    file = open_file(&other);
    ck_assert(!kmf_blocks_knows(file));
    close(file);
    kmf_blocks_free(&b);
    kmf_inflater_free(inflater);
    free(other.bytes);
    free(packed.bytes);
    free(t.bytes);
}
END_TEST

/* ---------------------------------------------------------------- bytes ----------------- */

typedef struct outcome {
    text out;
    int status;
    kmf_err err;
} outcome;

/* threads: 0: one alone, which is not told of the descriptor. */
static outcome read_bytes(const char *path, int threads)
{
    outcome o = {0};
    int descriptor;
    const char *piece;
    size_t n;
    kmf_pool *pool = threads > 0 ? kmf_pool_new(threads, NULL) : NULL;
    struct hFILE *file = kmf_input_open_file(path, &descriptor, NULL);
    ck_assert_ptr_nonnull(file);
    kmf_bytes *b = kmf_bytes_open(file, pool ? descriptor : -1, pool, NULL);
    ck_assert_ptr_nonnull(b);
    while ((o.status = kmf_bytes_next(b, &piece, &n, &o.err)) > 0) {
        ck_assert_uint_gt(n, 0);
        add_bytes(&o.out, piece, n);
    }
    kmf_err again = {0};
    ck_assert_int_eq(kmf_bytes_next(b, &piece, &n, &again), o.status);
    ck_assert_str_eq(again.msg, o.err.msg);
    kmf_bytes_close(b);
    kmf_pool_free(pool);
    return o;
}

static void check_same(const char *path, const outcome *expected, int threads)
{
    outcome o = read_bytes(path, threads);
    ck_assert_int_eq(o.status, expected->status);
    ck_assert_str_eq(o.err.msg, expected->err.msg);
    ck_assert_uint_eq(o.out.len, expected->out.len);
    if (o.out.len > 0)
        ck_assert_int_eq(memcmp(o.out.bytes, expected->out.bytes, o.out.len), 0);
    free(o.out.bytes);
}

/* Something is wrong with it, or unusual. */
static void spoil(text *packed, kmf_rng *rng)
{
    static const char zeros[50];
    size_t at = kmf_rng_below(rng, packed->len);
    size_t block = block_at(packed, kmf_rng_below(rng, count_blocks(packed)));
    text more = make_text(rng, 1000);
    text member = gzipped(more.bytes, more.len);
    text blocks = bgzipped(more.bytes, more.len);
    switch (kmf_rng_below(rng, 11)) {
    case 0:
        packed->bytes[at] ^= (char)(1 << kmf_rng_below(rng, 8));
        break;
    case 1:
        packed->len = at;
        break;
    case 2:
        packed->len = block;
        break;
    case 3:
        add(packed, "what does not belong there");
        break;
    case 4:
        add_bytes(packed, zeros, sizeof zeros);
        break;
    case 5:
        insert(packed, kmf_rng_below(rng, 2) ? packed->len : block, member.bytes, member.len);
        break;
    case 6:
        insert(packed, kmf_rng_below(rng, 2) ? packed->len : block, blocks.bytes, blocks.len);
        break;
    case 7: /* its size in the file */
        packed->bytes[block + 16 + kmf_rng_below(rng, 2)] ^= (char)(1 << kmf_rng_below(rng, 8));
        break;
    case 8: /* its size inflated, of the block before */
        if (block > 0)
            packed->bytes[block - 4 + kmf_rng_below(rng, 4)] ^= 1;
        break;
    case 9:
        insert(packed, block, zeros, sizeof zeros);
        break;
    default:
        break;
    }
    free(blocks.bytes);
    free(member.bytes);
    free(more.bytes);
}

START_TEST(any_threads_read_what_one_reads)
{
    static const size_t lengths[] = {0, 1, 600000, 900000, 3000000};
    kmf_rng rng = kmf_rng_stream(83, 0);
    size_t sound = 0;
    size_t in_part = 0;
    for (int round = 0; round < MANY; round++) {
        text t = make_text(&rng, lengths[kmf_rng_below(&rng, CHECKED ? 4 : 5)]);
        text packed = with_empty_blocks(&t, &rng);
        spoil(&packed, &rng);
        const char *path = write_bytes("t.gz", packed.bytes, packed.len);
        outcome expected = read_bytes(path, 0);
        check_same(path, &expected, 1 + (int)kmf_rng_below(&rng, 4));
        check_same(path, &expected, 12);
        sound += expected.status == 0;
        in_part += expected.status < 0 && expected.out.len > 0;
        free(expected.out.bytes);
        free(packed.bytes);
        free(t.bytes);
    }
    ck_assert_uint_gt(sound, MANY / 5);
    ck_assert_uint_gt(in_part, MANY / 5);
}
END_TEST

/* What of a damaged block comes out does not go by how much is asked for. */
START_TEST(bytes_before_damage_are_the_same)
{
    kmf_rng rng = kmf_rng_stream(85, 0);
    text t = make_text(&rng, 600000);
    text packed = bgzipped(t.bytes, t.len);
    size_t beg = block_at(&packed, 8); /* bytes on both sides of the end of a piece */
    size_t end = block_at(&packed, 9);
    for (size_t at = beg + KMF_BLOCK_HEADER; at < end; at += CHECKED ? 997 : 149) {
        packed.bytes[at] ^= 0x55;
        const char *path = write_bytes("t.gz", packed.bytes, packed.len);
        outcome expected = read_bytes(path, 0);
        ck_assert_int_lt(expected.status, 0);
        check_same(path, &expected, 3);
        free(expected.out.bytes);
        packed.bytes[at] ^= 0x55;
    }
    free(packed.bytes);
    free(t.bytes);
}
END_TEST

/* It may be closed at any time. */
START_TEST(a_file_is_left_before_its_end)
{
    kmf_rng rng = kmf_rng_stream(84, 0);
    text t = make_text(&rng, 5000000);
    text packed = bgzipped(t.bytes, t.len);
    const char *path = write_bytes("t.gz", packed.bytes, packed.len);
    kmf_pool *pool = kmf_pool_new(3, NULL);
    for (size_t n_read = 0; n_read < 10; n_read++) {
        int descriptor;
        const char *piece;
        size_t n;
        size_t at = 0;
        struct hFILE *file = kmf_input_open_file(path, &descriptor, NULL);
        kmf_bytes *b = kmf_bytes_open(file, descriptor, pool, NULL);
        ck_assert_ptr_nonnull(b);
        for (size_t i = 0; i < n_read; i++, at += n) {
            ck_assert_int_eq(kmf_bytes_next(b, &piece, &n, NULL), 1);
            ck_assert_int_eq(memcmp(piece, t.bytes + at, n), 0);
            ck_assert(n % HTSLIB_BLOCK == 0 || at + n == t.len); /* whole blocks */
        }
        kmf_bytes_close(b);
    }
    kmf_pool_free(pool);
    free(packed.bytes);
    free(t.bytes);
}
END_TEST

/* Read in part, it becomes one that is sound and shorter, or has no end marker. */
START_TEST(a_file_that_becomes_shorter_is_told)
{
    static const char *const told[] = {"the file became shorter while it was read",
                                       "truncated: the BGZF end-of-file marker is missing"};
    kmf_rng rng = kmf_rng_stream(86, 0);
    text t = make_text(&rng, 5000000);
    text packed = bgzipped(t.bytes, t.len);
    size_t len = block_at(&packed, 60);
    for (int cut = 0; cut < 2; cut++) {
        kmf_err err = {0};
        int descriptor, status;
        const char *piece;
        size_t n;
        size_t all = 0;
        const char *path = write_bytes("t.gz", packed.bytes, packed.len);
        kmf_pool *pool = kmf_pool_new(2, NULL);
        struct hFILE *file = kmf_input_open_file(path, &descriptor, NULL);
        kmf_watch watch = kmf_watch_begin(descriptor);
        kmf_bytes *b = kmf_bytes_open(file, descriptor, pool, NULL);
        ck_assert_int_eq(kmf_bytes_next(b, &piece, &n, NULL), 1);
        ck_assert_int_eq(truncate(path, (off_t)len), 0);
        if (cut == 0) {
            FILE *more = fopen(path, "ab");
            ck_assert_ptr_nonnull(more);
            ck_assert_uint_eq(
                fwrite(packed.bytes + packed.len - BGZF_MARKER, 1, BGZF_MARKER, more),
                BGZF_MARKER);
            ck_assert_int_eq(fclose(more), 0);
        }
        do
            all += n;
        while ((status = kmf_bytes_next(b, &piece, &n, &err)) > 0);
        if (status == 0)
            status = kmf_watch_end(&watch, &err);
        ck_assert_int_lt(status, 0);
        ck_assert_str_eq(err.msg, told[cut]);
        ck_assert_uint_eq(all, 60 * HTSLIB_BLOCK);
        kmf_bytes_close(b);
        kmf_pool_free(pool);
    }
    free(packed.bytes);
    free(t.bytes);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("blocks");
    tcase_add_checked_fixture(tests, make_dir, remove_dir);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, blocks_are_the_text);
    tcase_add_test(tests, only_regular_blocks_are_read);
    tcase_add_test(tests, any_threads_read_what_one_reads);
    tcase_add_test(tests, bytes_before_damage_are_the_same);
    tcase_add_test(tests, a_file_is_left_before_its_end);
    tcase_add_test(tests, a_file_that_becomes_shorter_is_told);
    return run_case("blocks", tests);
}
