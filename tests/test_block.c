/* SPDX-License-Identifier: MIT */
/*
 * Packed blocks against plain arrays: an array of the counts of all suffixes where those are
 * few, a sorted list where they are many.
 */
#include "words/block.h"
#include "base/le.h"
#include "checked.h"
#include "failing.h"
#include "run.h"
#include "tables.h"

#include <check.h>

#define ROUNDS (CHECKED ? 3 : 10)

/* A random list of suffixes; n_wanted SIZE_MAX: all of them. */
static list suffixes(unsigned bits, size_t n_wanted, unsigned count_bits, uint64_t seed)
{
    list l = {0};
    size_t n = n_wanted == SIZE_MAX ? (size_t)1 << bits : n_wanted;
    l.kmers = malloc((n ? n : 1) * sizeof *l.kmers);
    ck_assert_ptr_nonnull(l.kmers);
    for (; l.n < n; l.n++) {
        uint64_t code = n_wanted == SIZE_MAX ? l.n : draw(&seed) >> (64 - bits);
        l.kmers[l.n] = (kmf_kmer_count){code, draw_count(&seed, count_bits)};
    }
    tidy(&l, 0);
    return l;
}

static kmf_block pack(const list *l, unsigned bits)
{
    kmf_block block;
    uint64_t *codes = malloc((l->n + 1) * sizeof *codes);
    uint64_t *counts = malloc((l->n + 1) * sizeof *counts);
    for (size_t i = 0; i < l->n; i++) {
        codes[i] = l->kmers[i].code;
        counts[i] = l->kmers[i].count;
    }
    ck_assert_int_eq(kmf_block_pack(&block, codes, counts, l->n, bits, NULL), 0);
    free(codes);
    free(counts);
    return block;
}

static void drop(kmf_block *block)
{
    kmf_free((void *)(uintptr_t)block->bytes);
}

static uint64_t naive_get(const list *l, uint64_t code)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->kmers[i].code == code)
            return l->kmers[i].count;
    return 0;
}

/* Does the block hold the list in the fewest bytes, and can it be looked up? */
static void holds(const kmf_block *block, const list *l, unsigned bits)
{
    uint64_t i = 0;
    uint64_t suffix;
    uint64_t count;
    uint64_t largest = 0;
    uint64_t seed = bits;
    kmf_block_tally tally;
    for (size_t at = 0; at < l->n; at++) {
        if (!kmf_block_next(block, &i, &suffix, &count) || suffix != l->kmers[at].code ||
            count != l->kmers[at].count)
            ck_abort_msg("entry %zu of %zu, %u bits", at, l->n, bits);
        largest = count > largest ? count : largest;
    }
    ck_assert(!kmf_block_next(block, &i, &suffix, &count));
    ck_assert(!kmf_block_next(block, &i, &suffix, &count));
    for (size_t at = 0; at < l->n; at += 1 + l->n / 1000)
        if (kmf_block_get(block, l->kmers[at].code) != l->kmers[at].count)
            ck_abort_msg("entry %zu of %zu is not found", at, l->n);
    for (int r = 0; r < 50; r++) {
        suffix = draw(&seed) >> (64 - bits);
        if (kmf_block_get(block, suffix) != naive_get(l, suffix))
            ck_abort_msg("suffix %llu", (unsigned long long)suffix);
    }

    uint64_t cw = largest < 256 ? 1 : largest < 65536 ? 2 : largest >> 32 ? 8 : 4;
    uint64_t sparse = l->n * ((bits + 7) / 8 + cw);
    uint64_t dense = ((uint64_t)1 << bits) * cw;
    uint64_t expected = l->n == 0 ? 0 : (dense < sparse ? dense : sparse) + 8;
    ck_assert_uint_eq(block->n_bytes, expected);
    ck_assert(l->n > 0 || block->bytes == NULL);

    ck_assert_ptr_null(kmf_block_check(block, bits, &tally));
    ck_assert_uint_eq(tally.distinct, l->n);
    ck_assert_uint_eq(tally.sum, l->info.kmers);
    uint64_t smallest = UINT64_MAX;
    for (size_t at = 0; at < l->n; at++)
        if (l->kmers[at].count < smallest)
            smallest = l->kmers[at].count;
    ck_assert_uint_eq(tally.smallest, smallest);
}

static const unsigned all_bits[] = {1,  2,  7,  8,  9,  14, 16, 17, 23,
                                    24, 25, 32, 40, 47, 48, 49, 54};
#define N_BITS (sizeof all_bits / sizeof all_bits[0])
static const unsigned count_bits[] = {1, 8, 9, 16, 17, 32, 33, 40};
#define N_COUNT_BITS (sizeof count_bits / sizeof count_bits[0])

START_TEST(a_block_gives_back_what_was_packed_in_the_fewest_bytes)
{
    static const size_t sizes[] = {0, 1, 2, 3, 8, 100, 3000};
    for (size_t b = 0; b < N_BITS; b++)
        for (size_t c = 0; c < N_COUNT_BITS; c++)
            for (size_t s = 0; s < 7; s++) {
                list l = suffixes(all_bits[b], sizes[s], count_bits[c], b * 100 + c);
                kmf_block block = pack(&l, all_bits[b]);
                holds(&block, &l, all_bits[b]);
                drop(&block);
                free_list(&l);
            }
}
END_TEST

START_TEST(dense_and_sparse_blocks_come_from_arrays_of_all_counts_too)
{
    for (unsigned bits = 1; bits <= 16; bits++)
        for (size_t c = 0; c < N_COUNT_BITS; c++)
            for (size_t part = 1; part <= 64; part *= 4) {
                size_t n = ((size_t)1 << bits) / part;
                list l = suffixes(bits, part == 1 ? SIZE_MAX : n, count_bits[c], bits + c);
                uint64_t *counts = calloc((size_t)1 << bits, sizeof *counts);
                for (size_t i = 0; i < l.n; i++)
                    counts[l.kmers[i].code] = l.kmers[i].count;
                kmf_block block;
                kmf_block twin = pack(&l, bits);
                ck_assert_int_eq(kmf_block_pack_all(&block, counts, bits, NULL), 0);
                holds(&block, &l, bits);
                ck_assert_uint_eq(block.n_bytes, twin.n_bytes);
                ck_assert_uint_eq(block.suffix_width, twin.suffix_width);
                if (l.n > 0)
                    ck_assert_mem_eq(block.bytes, twin.bytes, twin.n_bytes);
                drop(&block);
                drop(&twin);
                free(counts);
                free_list(&l);
            }
}
END_TEST

START_TEST(counts_get_the_width_of_the_largest)
{
    static const struct {
        uint64_t largest;
        unsigned width;
    } cases[] = {{1, 1},
                 {255, 1},
                 {256, 2},
                 {65535, 2},
                 {65536, 4},
                 {UINT32_MAX, 4},
                 {UINT64_C(1) << 32, 8},
                 {UINT64_MAX, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (unsigned bits = 1; bits <= 40; bits += 13) {
            uint64_t suffix = 1;
            kmf_block block;
            ck_assert_int_eq(kmf_block_pack(&block, &suffix, &cases[i].largest, 1, bits, NULL),
                             0);
            ck_assert_uint_eq(block.count_width, cases[i].width);
            ck_assert_uint_eq(kmf_block_get(&block, 1), cases[i].largest);
            ck_assert_uint_eq(kmf_block_get(&block, 0), 0);
            drop(&block);
        }
}
END_TEST

START_TEST(suffixes_have_the_width_that_the_header_says)
{
    uint64_t suffix[] = {0x0102, 0xfffe};
    uint64_t count[] = {3, 0x1234};
    static const unsigned char bytes[] = {0x02, 0x01, 0xfe, 0xff, 3, 0, 0x34, 0x12,
                                          0,    0,    0,    0,    0, 0, 0,    0};
    kmf_block block;
    ck_assert_int_eq(kmf_block_pack(&block, suffix, count, 2, 16, NULL), 0);
    ck_assert_uint_eq(block.n_bytes, sizeof bytes);
    ck_assert_mem_eq(block.bytes, bytes, sizeof bytes);
    ck_assert_uint_eq(kmf_block_get(&block, 0xfffe), 0x1234);
    ck_assert_uint_eq(kmf_block_get(&block, 0xffff), 0);
    ck_assert_uint_eq(kmf_block_get(&block, 0), 0);
    drop(&block);
    uint64_t largest[] = {UINT64_MAX};
    ck_assert_int_eq(kmf_block_pack(&block, suffix, largest, 1, 54, NULL), 0);
    ck_assert_uint_eq(kmf_block_get(&block, 0x0102), UINT64_MAX);
    ck_assert_uint_eq(block.n_bytes, 7 + 8 + 8);
    drop(&block);
}
END_TEST

START_TEST(codes_are_cut_into_at_most_1024_blocks)
{
    for (int k = 1; k <= 32; k++) {
        kmf_cut_code cut = kmf_cut_code_of(KMF_DNA, k);
        ck_assert_uint_eq(cut.prefix_bits + cut.suffix_bits, 2 * (unsigned)k);
        ck_assert_uint_eq(cut.prefix_bits, k <= 8 ? 0 : k >= 13 ? 10 : 2 * (unsigned)k - 16);
    }
    ck_assert_uint_eq(kmf_cut_code_of(KMF_PROTEIN, 6).suffix_bits, 20);
    ck_assert_uint_eq(kmf_cut_code_of(KMF_PROTEIN, 3).suffix_bits, 15);
}
END_TEST

START_TEST(blocks_add_up_as_their_lists_do)
{
    static const size_t ways[] = {1, 2, 3, 7, 64};
    for (size_t b = 0; b < N_BITS; b++)
        for (size_t w = 0; w < 5; w++)
            for (uint64_t round = 0; round < ROUNDS; round++) {
                kmf_block parts[64];
                kmf_block sum;
                list all = {0};
                uint64_t seed = b * 1000 + w * 100 + round;
                all.kmers = malloc(64 * 1500 * sizeof *all.kmers);
                for (size_t i = 0; i < ways[w]; i++) {
                    size_t n = draw(&seed) % (round % 2 ? 1500 : 20);
                    list l = suffixes(all_bits[b], n, count_bits[draw(&seed) % 8], draw(&seed));
                    parts[i] = pack(&l, all_bits[b]);
                    if (l.n > 0)
                        memcpy(all.kmers + all.n, l.kmers, l.n * sizeof *l.kmers);
                    all.n += l.n;
                    free_list(&l);
                }
                tidy(&all, 1);
                ck_assert_int_eq(kmf_block_merge(&sum, parts, ways[w], all_bits[b], NULL), 0);
                holds(&sum, &all, all_bits[b]);
                for (size_t i = 0; i < ways[w]; i++)
                    drop(&parts[i]);
                drop(&sum);
                free_list(&all);
            }
}
END_TEST

START_TEST(a_sum_beyond_64_bits_is_refused)
{
    static const unsigned bits[] = {2, 16, 40};
    static const struct {
        uint64_t a, b;
        bool fits;
    } counts[] = {{(uint64_t)1 << 63, (uint64_t)1 << 63, false},
                  {UINT64_MAX, 1, false},
                  {1, UINT64_MAX, false},
                  {UINT64_MAX - 1, 1, true}};
    for (size_t i = 0; i < 3 * sizeof counts / sizeof counts[0]; i++) {
        unsigned b = bits[i % 3];
        uint64_t suffix[] = {1};
        kmf_block parts[2];
        kmf_block sum;
        kmf_err err = {0};
        bool fits = counts[i / 3].fits;
        ck_assert_int_eq(kmf_block_pack(&parts[0], suffix, &counts[i / 3].a, 1, b, NULL), 0);
        ck_assert_int_eq(kmf_block_pack(&parts[1], suffix, &counts[i / 3].b, 1, b, NULL), 0);
        ck_assert_int_eq(kmf_block_merge(&sum, parts, 2, b, &err), fits ? 0 : KMF_EMODEL);
        if (fits) {
            ck_assert_uint_eq(kmf_block_get(&sum, 1), UINT64_MAX);
            drop(&sum);
        } else {
            ck_assert_ptr_nonnull(strstr(err.msg, "64 bits"));
        }
        drop(&parts[0]);
        drop(&parts[1]);
    }
}
END_TEST

START_TEST(a_block_that_breaks_a_promise_is_found)
{
    uint64_t suffix[] = {5, 6, 9};
    uint64_t count[] = {1, 2, 3};
    kmf_block_tally tally;
    kmf_block good;
    unsigned char bytes[32];
    ck_assert_int_eq(kmf_block_pack(&good, suffix, count, 3, 16, NULL), 0);
    ck_assert_uint_eq(good.n_bytes, 3 * 3 + 8);
    memcpy(bytes, good.bytes, good.n_bytes);
    drop(&good);
    kmf_block block = good;
    block.bytes = bytes;
    ck_assert_ptr_null(kmf_block_check(&block, 16, &tally));
    ck_assert_uint_eq(tally.sum, 6);
    ck_assert_uint_eq(tally.smallest, 1);
    static const struct {
        size_t at;
        unsigned char value;
    } changes[] = {{0, 6}, {0, 7}, {2, 9}, {2, 10}, {2, 5}, {6, 0}, {8, 0}, {9, 1}, {16, 1}};
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        unsigned char was = bytes[changes[i].at];
        bytes[changes[i].at] = changes[i].value;
        ck_assert_msg(kmf_block_check(&block, 16, &tally) != NULL, "change %zu", i);
        bytes[changes[i].at] = was;
    }
    ck_assert_ptr_nonnull(kmf_block_check(&block, 3, &tally));
    ck_assert_ptr_nonnull(kmf_block_check(&block, 17, &tally));
    static const kmf_block bad[] = {
        {.n = 3, .n_bytes = 17, .suffix_width = 2, .count_width = 3},
        {.n = 3, .n_bytes = 17, .suffix_width = 1, .count_width = 1},
        {.n = 3, .n_bytes = 16, .suffix_width = 2, .count_width = 1},
        {.n = 4, .n_bytes = 17, .suffix_width = 2, .count_width = 1},
        {.n = 3, .n_bytes = 11, .suffix_width = 0, .count_width = 1},
        {.n = 65537, .n_bytes = 65537 * 3 + 8, .suffix_width = 2, .count_width = 1},
        {.n = 0, .n_bytes = 8, .suffix_width = 0, .count_width = 0},
        {.n = 0, .n_bytes = 0, .suffix_width = 2, .count_width = 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        block = bad[i];
        block.bytes = bytes;
        ck_assert_msg(kmf_block_check(&block, 16, &tally) != NULL, "block %zu", i);
    }
    uint64_t huge[] = {UINT64_MAX, 1};
    ck_assert_int_eq(kmf_block_pack(&block, suffix, huge, 2, 16, NULL), 0);
    ck_assert_ptr_nonnull(kmf_block_check(&block, 16, &tally));
    drop(&block);
}
END_TEST

START_TEST(any_failing_allocation_is_reported)
{
    static const unsigned bits[] = {3, 20};
    for (size_t b = 0; b < 2; b++) {
        list l = suffixes(bits[b], 8, 8, 1);
        kmf_block parts[3] = {pack(&l, bits[b]), pack(&l, bits[b]), pack(&l, bits[b])};
        for (size_t ways = 1; ways <= 3; ways++) {
            kmf_block sum;
            bool reached = true;
            for (size_t n = 1; reached; n++) {
                kmf_err err = {0};
                kmf_mem_fail_at(n);
                int status = kmf_block_merge(&sum, parts, ways, bits[b], &err);
                reached = failed_at(n);
                ck_assert_int_eq(status, reached ? KMF_ENOMEM : 0);
                ck_assert_int_eq(err.code, status);
            }
            drop(&sum);
        }
        for (size_t i = 0; i < 3; i++)
            drop(&parts[i]);
        free_list(&l);
    }
}
END_TEST

START_TEST(numbers_are_little_endian)
{
    unsigned char bytes[9] = {0};
    static const unsigned char expected[9] = {0, 8, 7, 6, 5, 4, 3, 2, 1};
    kmf_le_store64(bytes + 1, 0x0102030405060708u);
    ck_assert_mem_eq(bytes, expected, 9);
    ck_assert_uint_eq(kmf_le_load64(bytes + 1), 0x0102030405060708u);
    ck_assert_uint_eq(kmf_le_load32(bytes + 1), 0x05060708u);
    kmf_le_store32(bytes, 0xa0b0c0d0u);
    ck_assert_uint_eq(kmf_le_load32(bytes), 0xa0b0c0d0u);
    ck_assert_uint_eq(bytes[0], 0xd0);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("block");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, a_block_gives_back_what_was_packed_in_the_fewest_bytes);
    tcase_add_test(tcase, dense_and_sparse_blocks_come_from_arrays_of_all_counts_too);
    tcase_add_test(tcase, counts_get_the_width_of_the_largest);
    tcase_add_test(tcase, suffixes_have_the_width_that_the_header_says);
    tcase_add_test(tcase, codes_are_cut_into_at_most_1024_blocks);
    tcase_add_test(tcase, blocks_add_up_as_their_lists_do);
    tcase_add_test(tcase, a_sum_beyond_64_bits_is_refused);
    tcase_add_test(tcase, a_block_that_breaks_a_promise_is_found);
    tcase_add_test(tcase, any_failing_allocation_is_reported);
    tcase_add_test(tcase, numbers_are_little_endian);
    return run_case("block", tcase);
}
