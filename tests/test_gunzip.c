/* SPDX-License-Identifier: MIT */
/*
 * gzip files that zlib writes, in all its ways, and those that are cut off or have a wrong bit:
 * what comes out is what went in, and zlib's own inflate is the judge of what is sound.
 */
#include "seq/gunzip.h"

#include "base/rng.h"
#include "checked.h"
#include "run.h"
#include "seq/input.h"

#include <check.h>
#include <htslib/hfile.h>
#include <string.h>
#include <zlib.h>

enum { PLAIN_MOST = 1 << 20, PACKED_MOST = 4 << 20 };

static unsigned char plain[PLAIN_MOST], packed[PACKED_MOST], out[PLAIN_MOST], twin[PLAIN_MOST];
static size_t n_plain, n_packed;

/* ---------------------------------------------------------------- files ------------------ */

static void start_file(void)
{
    n_plain = n_packed = 0;
}

/* n letters more: of DNA, one alone, any bytes, lines that are much alike. */
static void add_plain(size_t n, kmf_rng *rng)
{
    uint64_t kind = kmf_rng_below(rng, 4);
    for (size_t i = 0; i < n; i++) {
        size_t at = (i * 7 + (kmf_rng_below(rng, 50) == 0)) % 32;
        plain[n_plain++] = kind == 0   ? (unsigned char)"ACGT"[kmf_rng_below(rng, 4)]
                           : kind == 1 ? 'A'
                           : kind == 2 ? (unsigned char)kmf_rng_below(rng, 256)
                                       : (unsigned char)"ACGTACGTACGTACGTACGTTTTTTTTTTNN\n"[at];
    }
}

/* Of the next members: each is a block of BGZF; only where it stands matters, not its size. */
static bool blocks;

/* What a header may have beside its ten bytes. */
static void draw_header(gz_header *header, unsigned char *extra, kmf_rng *rng)
{
    if (blocks) {
        memcpy(extra, "BC\2\0\1\1", 6);
        *header = (gz_header){.extra = extra, .extra_len = 6};
        return;
    }
    static unsigned char name[] = "a name.fq", comment[] = "of some length";
    *header = (gz_header){.name = kmf_rng_below(rng, 2) ? name : NULL,
                          .comment = kmf_rng_below(rng, 2) ? comment : NULL,
                          .hcrc = (int)kmf_rng_below(rng, 2)};
    if (kmf_rng_below(rng, 2) == 0)
        return;
    header->extra = extra;
    header->extra_len = (uInt)kmf_rng_below(rng, 60);
}

/* A member of n letters more. */
static void add_member(size_t n, kmf_rng *rng)
{
    unsigned char extra[60] = {1, 2, 3};
    gz_header header;
    z_stream z = {0};
    size_t beg = n_plain;
    quick_assert(beg + n <= PLAIN_MOST);
    add_plain(n, rng);
    /* one after another: the arguments of a call are drawn in any order, as the compiler likes */
    int strategy = (int)kmf_rng_below(rng, 5);
    int memory = 1 + (int)kmf_rng_below(rng, 9);
    int window = 16 + 9 + (int)kmf_rng_below(rng, 7);
    int level = (int)kmf_rng_below(rng, 10);
    bool done = deflateInit2(&z, level, Z_DEFLATED, window, memory, strategy) == Z_OK;
    draw_header(&header, extra, rng);
    done &= deflateSetHeader(&z, &header) == Z_OK;
    z.next_in = plain + beg;
    z.next_out = packed + n_packed;
    z.avail_out = (uInt)(PACKED_MOST - n_packed);
    if (kmf_rng_below(rng, 2)) { /* two blocks at least */
        z.avail_in = (uInt)(n / 3);
        done &= deflate(&z, kmf_rng_below(rng, 2) ? Z_SYNC_FLUSH : Z_FULL_FLUSH) == Z_OK;
    }
    z.avail_in = (uInt)(plain + n_plain - z.next_in);
    done &= deflate(&z, Z_FINISH) == Z_STREAM_END;
    n_packed += z.total_out;
    done &= deflateEnd(&z) == Z_OK;
    quick_assert_msg(done, "a member of %zu letters", n);
}

/* ---------------------------------------------------------------- reading ---------------- */

/* What the first n bytes of `packed` inflate to, in `out`; err tells whether that failed. */
static size_t read_packed(size_t n, size_t room_most, kmf_rng *rng, kmf_err *err)
{
    size_t total = 0;
    ptrdiff_t got;
    *err = (kmf_err){0};
    hFILE *file = kmf_input_memory(packed, n, NULL);
    ck_assert_ptr_nonnull(file);
    ck_assert(kmf_gunzip_knows(file));
    kmf_gunzip *g = kmf_gunzip_new(file, NULL);
    ck_assert_ptr_nonnull(g);
    do {
        size_t room = kmf_rng_below(rng, room_most) + 1;
        room = room < PLAIN_MOST - total ? room : PLAIN_MOST - total;
        got = kmf_gunzip_read(g, out + total, room > 0 ? room : 1, err);
        quick_assert_msg(got <= (ptrdiff_t)room, "%td bytes, more than %zu", got, room);
        total += got > 0 ? (size_t)got : 0;
    } while (got > 0);
    kmf_err again = {0};
    ck_assert_int_eq(kmf_gunzip_read(g, out, 1, &again), got); /* it stays so */
    ck_assert_str_eq(again.msg, err->msg);
    kmf_gunzip_free(g);
    hclose_abruptly(file);
    return total;
}

/* The same by zlib, in `twin`; false: it fails. */
static bool read_twin(size_t n, size_t *n_twin)
{
    z_stream z = {.next_in = packed, .avail_in = (uInt)n, .next_out = twin};
    int status = Z_STREAM_END;
    z.avail_out = PLAIN_MOST;
    ck_assert_int_eq(inflateInit2(&z, 16 + MAX_WBITS), Z_OK);
    while (status == Z_STREAM_END && z.avail_in > 0) {
        ck_assert_int_eq(inflateReset(&z), Z_OK);
        status = inflate(&z, Z_FINISH);
    }
    *n_twin = PLAIN_MOST - z.avail_out;
    inflateEnd(&z);
    return status == Z_STREAM_END;
}

static void check_against_zlib(size_t n, kmf_rng *rng)
{
    kmf_err err;
    size_t n_twin;
    size_t got = read_packed(n, 3000, rng, &err);
    bool sound = read_twin(n, &n_twin);
    ck_assert_int_eq(err.code, sound ? KMF_OK : KMF_EFORMAT);
    if (sound) {
        ck_assert_uint_eq(got, n_twin);
        ck_assert_mem_eq(out, twin, got);
    }
}

/* The file is sound, and what went in comes out. */
static void check_whole(size_t room_most, kmf_rng *rng)
{
    kmf_err err;
    size_t n = read_packed(n_packed, room_most, rng, &err);
    ck_assert_msg(err.code == KMF_OK, "%zu bytes: %s", n_packed, err.msg);
    ck_assert_uint_eq(n, n_plain);
    ck_assert_mem_eq(out, plain, n);
}

/* ---------------------------------------------------------------- tests ------------------ */

START_TEST(all_that_zlib_writes_is_read)
{
    kmf_rng rng = kmf_rng_stream(51, 0);
    for (int i = 0; i < (CHECKED ? 20 : 200); i++) {
        start_file();
        for (uint64_t left = 1 + kmf_rng_below(&rng, 3); left > 0; left--)
            add_member(kmf_rng_below(&rng, i % 10 == 0 ? 300000 : 3000), &rng);
        check_whole(i % 2 ? 100 : 200000, &rng);
    }
}
END_TEST

/* Small members, so that what is read at a time ends in every part of one, its header above all. */
START_TEST(members_lie_anywhere)
{
    kmf_rng rng = kmf_rng_stream(52, 0);
    for (int i = 0; i < (CHECKED ? 4 : 16); i++) {
        start_file();
        while (n_packed < 600000)
            add_member(kmf_rng_below(&rng, 30), &rng);
        check_whole(200000, &rng);
    }
}
END_TEST

START_TEST(a_file_may_end_behind_a_member_alone)
{
    kmf_rng rng = kmf_rng_stream(53, 0);
    for (int i = 0; i < 6; i++) {
        size_t ends[3];
        size_t plain_ends[3];
        start_file();
        for (size_t j = 0; j < 3; j++) {
            add_member(kmf_rng_below(&rng, 300), &rng);
            ends[j] = n_packed;
            plain_ends[j] = n_plain;
        }
        for (size_t n = 2, j = 0; n <= n_packed; n++) {
            kmf_err err;
            size_t got = read_packed(n, 100, &rng, &err);
            bool whole = n == ends[j];
            ck_assert_int_eq(err.code, whole ? KMF_OK : KMF_EFORMAT);
            if (whole)
                ck_assert_uint_eq(got, plain_ends[j++]);
            else
                ck_assert_ptr_nonnull(strstr(err.msg, "truncated or damaged"));
            ck_assert_mem_eq(out, plain, got);
        }
    }
}
END_TEST

/*
 * A last member that is a block of BGZF, and not the empty one of its end, is not the last that
 * there was. Those before it may be anything, and so long that its header lies anywhere in what is
 * read.
 */
START_TEST(what_ends_in_a_block_ends_in_an_empty_one)
{
    kmf_rng rng = kmf_rng_stream(57, 0);
    for (int i = 0; i < (CHECKED ? 40 : 400); i++) {
        kmf_err err;
        start_file();
        size_t before = 131072 - 40 + kmf_rng_below(&rng, 60);
        while (n_packed < (i % 4 ? 100 : before)) {
            blocks = kmf_rng_below(&rng, 2);
            add_member(kmf_rng_below(&rng, 30), &rng);
        }
        blocks = i / 4 % 2;
        size_t last = i / 8 % 2 ? 0 : 1 + kmf_rng_below(&rng, 30);
        add_member(last, &rng);
        bool cut = blocks && last > 0;
        blocks = false;
        size_t got = read_packed(n_packed, 200000, &rng, &err);
        ck_assert_int_eq(err.code, cut ? KMF_EFORMAT : KMF_OK);
        ck_assert_str_eq(err.msg,
                         cut ? "truncated: the BGZF end-of-file marker is missing" : "");
        ck_assert_uint_eq(got, n_plain);
        ck_assert_mem_eq(out, plain, got);
    }
}
END_TEST

/* Twelve bytes in, where a block is called BC, the name of a file may say anything. */
START_TEST(a_name_makes_no_block_of_a_member)
{
    kmf_rng rng = kmf_rng_stream(58, 0);
    unsigned char name[] = "xxBC\2";
    gz_header header = {.name = name};
    z_stream z = {.next_in = plain, .avail_in = 100, .next_out = packed};
    z.avail_out = PACKED_MOST;
    start_file();
    add_plain(100, &rng);
    ck_assert_int_eq(deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY),
                     Z_OK);
    ck_assert_int_eq(deflateSetHeader(&z, &header), Z_OK);
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    n_packed = z.total_out;
    ck_assert_int_eq(deflateEnd(&z), Z_OK);
    ck_assert_mem_eq(packed + 12, "BC\2", 4);
    check_whole(200000, &rng);
}
END_TEST

START_TEST(what_has_a_wrong_bit_is_refused_as_by_zlib)
{
    kmf_rng rng = kmf_rng_stream(54, 0);
    for (int i = 0; i < (CHECKED ? 2 : 12); i++) {
        start_file();
        add_member(kmf_rng_below(&rng, 200), &rng);
        add_member(kmf_rng_below(&rng, 200), &rng);
        for (size_t bit = 16; bit < 8 * n_packed; bit++) {
            packed[bit / 8] ^= (unsigned char)(1 << bit % 8);
            check_against_zlib(n_packed, &rng);
            packed[bit / 8] ^= (unsigned char)(1 << bit % 8);
        }
    }
}
END_TEST

/* Zeros alone, as gzip -d has it; another file, with or without zeros before it; half a header. */
START_TEST(what_follows_is_a_member_or_zeros)
{
    kmf_rng rng = kmf_rng_stream(55, 0);
    kmf_err err;
    start_file();
    add_member(1000, &rng);
    for (size_t n = 1; n < 300000; n = n < 40 ? n + 1 : 7 * n) {
        memset(packed + n_packed, 0, n);
        ck_assert_uint_eq(read_packed(n_packed + n, 5000, &rng, &err), n_plain);
        ck_assert_int_eq(err.code, KMF_OK);
        packed[n_packed + n - 1] = 'A';
        packed[n_packed + n] = 'A';
        ck_assert_uint_eq(read_packed(n_packed + n + 1, 5000, &rng, &err), n_plain);
        ck_assert_str_eq(
            err.msg, "the compressed data is followed by something that does not belong to it");
        memset(packed + n_packed, 0, n);
        packed[n_packed + n] = 0x1f;
        ck_assert_uint_eq(read_packed(n_packed + n + 1, 5000, &rng, &err), n_plain);
        ck_assert_int_eq(err.code, KMF_EFORMAT);
    }
    packed[n_packed] = '\n';
    ck_assert_uint_eq(read_packed(n_packed + 1, 5000, &rng, &err), n_plain);
    ck_assert_ptr_nonnull(strstr(err.msg, "does not belong to it"));
    packed[n_packed] = 0x1f;
    packed[n_packed + 1] = 0x8b;
    ck_assert_uint_eq(read_packed(n_packed + 2, 5000, &rng, &err), n_plain);
    ck_assert_str_eq(err.msg, "the compressed data is truncated or damaged");
}
END_TEST

/* Not even one that would be sound right behind the member before. */
START_TEST(no_member_follows_zeros)
{
    static const size_t zeros[] = {1, 512, 200000};
    kmf_rng rng = kmf_rng_stream(59, 0);
    for (size_t i = 0; i < 3; i++) {
        kmf_err err;
        start_file();
        add_member(1000, &rng);
        size_t n = n_plain;
        memset(packed + n_packed, 0, zeros[i]);
        n_packed += zeros[i];
        size_t at = n_packed;
        add_member(1000, &rng);
        ck_assert_uint_eq(read_packed(n_packed, 5000, &rng, &err), n);
        ck_assert_int_eq(err.code, KMF_EFORMAT);
        ck_assert_str_eq(
            err.msg, "the compressed data is followed by something that does not belong to it");
        memmove(packed + at - zeros[i], packed + at, n_packed - at);
        n_packed -= zeros[i];
        check_whole(5000, &rng);
    }
}
END_TEST

START_TEST(checksums_and_lengths_are_told)
{
    kmf_rng rng = kmf_rng_stream(56, 0);
    start_file();
    add_member(1000, &rng);
    for (size_t at = n_packed - 8; at < n_packed; at++) {
        kmf_err err;
        packed[at] ^= 1;
        ck_assert_uint_eq(read_packed(n_packed, 5000, &rng, &err), n_plain);
        ck_assert_str_eq(err.msg, "the checksum of the compressed data is wrong");
        packed[at] ^= 1;
    }
}
END_TEST

int main(void)
{
    TCase *tc = untimed_case();
    tcase_add_test(tc, all_that_zlib_writes_is_read);
    tcase_add_test(tc, members_lie_anywhere);
    tcase_add_test(tc, a_file_may_end_behind_a_member_alone);
    tcase_add_test(tc, what_ends_in_a_block_ends_in_an_empty_one);
    tcase_add_test(tc, a_name_makes_no_block_of_a_member);
    tcase_add_test(tc, what_has_a_wrong_bit_is_refused_as_by_zlib);
    tcase_add_test(tc, what_follows_is_a_member_or_zeros);
    tcase_add_test(tc, no_member_follows_zeros);
    tcase_add_test(tc, checksums_and_lengths_are_told);
    return run_case("gunzip", tc);
}
