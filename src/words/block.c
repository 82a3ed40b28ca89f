/* SPDX-License-Identifier: MIT */
/*
 * A block is written once and then only read, so it is packed as tightly as whole bytes allow.
 *
 * Widths are chosen for the block as a whole: all suffixes in as many bytes as suffix_bits
 * need, all counts in 1, 2, 4 or 8 by the largest. At k = 21 that is 4 + 1 bytes an entry of a
 * read set whose k-mers occur less than 256 times, against 16 as two numbers. Where most
 * suffixes occur (k to 12, and the first blocks of a genome's 13-mers) the counts of all of
 * them, without the suffixes, are shorter.
 *
 * Every number is read by one 8-byte load and a mask, and written by one 8-byte store whose
 * high bytes the next store puts right:
 *
 *     store  v0 v0 v0 0  0  0  0  0
 *               store   v1 v1 v1 0  0  0  0  0
 *                          store   v2 v2 v2 0  0  0  0  0
 *
 * The last store and the last load reach up to 7 bytes beyond the numbers: this is what the 8
 * zero bytes at the end are for. Between suffixes and counts none are needed, for counts are
 * written later.
 *
 * Merging: where all suffixes fit a small array, counts are added up there; else a heap holds
 * the next entry of each block, and its top goes to the result.
 */
#include "words/block.h"

#include "base/cpu.h"
#include "base/err.h"
#include "base/heap.h"
#include "base/le.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>

#define TAIL 8
#define PREFIX_BITS_MAX 10
#define SUFFIX_BITS_MIN 16 /* where there are more bits than that */
#define SUM_BITS 16        /* suffixes added up in an array: 512 KB */

kmf_cut_code kmf_cut_code_of(kmf_alphabet alphabet, int k)
{
    int bits = kmf_alphabet_bits(alphabet) * k;
    int prefix = bits - SUFFIX_BITS_MIN;
    if (prefix < 0)
        prefix = 0;
    if (prefix > PREFIX_BITS_MAX)
        prefix = PREFIX_BITS_MAX;
    return (kmf_cut_code){(unsigned)prefix, (unsigned)(bits - prefix)};
}

/* ---------------------------------------------------------------- packing ---------------- */

static uint64_t low_bytes(unsigned width)
{
    return ~(uint64_t)0 >> (64 - 8 * width);
}

static unsigned suffix_width_of(unsigned suffix_bits)
{
    return (suffix_bits + 7) / 8;
}

static unsigned count_width_of(uint64_t largest)
{
    unsigned width = 1;
    while (width < 8 && largest > low_bytes(width))
        width *= 2;
    return width;
}

bool kmf_block_size(uint64_t n, unsigned suffix_width, unsigned count_width, size_t *n_bytes)
{
    size_t entries;
    if (n == 0) {
        *n_bytes = 0;
        return true;
    }
    return kmf_mul(n, suffix_width + count_width, &entries) && kmf_add(entries, TAIL, n_bytes);
}

/*
 * A block for n entries, at most 2^suffix_bits, in the shorter way, all zero if that is without
 * suffixes. any_count: a number with the highest bit of the largest count. The writable bytes,
 * or NULL: n is 0, or KMF_ENOMEM.
 */
static unsigned char *new_block(kmf_block *block, uint64_t n, uint64_t any_count,
                                unsigned suffix_bits, kmf_err *err)
{
    uint64_t all = (uint64_t)1 << suffix_bits;
    unsigned suffix_width = suffix_width_of(suffix_bits);
    unsigned count_width = count_width_of(any_count);
    *block = (kmf_block){0};
    if (n == 0)
        return NULL;
    if (all * count_width <= n * (suffix_width + count_width)) {
        n = all;
        suffix_width = 0;
    }
    if (!kmf_block_size(n, suffix_width, count_width, &block->n_bytes)) {
        kmf_fail(err, KMF_ENOMEM, "out of memory: a block of the table exceeds it");
        return NULL;
    }
    unsigned char *bytes = suffix_width == 0 ? kmf_calloc(block->n_bytes, 1, err)
                                             : kmf_malloc(block->n_bytes, 1, err);
    if (!bytes) {
        *block = (kmf_block){0};
        return NULL;
    }
    memset(bytes + block->n_bytes - TAIL, 0, TAIL);
    block->bytes = bytes;
    block->n = n;
    block->suffix_width = suffix_width;
    block->count_width = count_width;
    return bytes;
}

static void store_all(unsigned char *to, const uint64_t *values, size_t n, unsigned width)
{
    for (size_t i = 0; i < n; i++, to += width)
        kmf_le_store64(to, values[i]);
}

int kmf_block_pack(kmf_block *block, const uint64_t *suffixes, const uint64_t *counts, size_t n,
                   unsigned suffix_bits, kmf_err *err)
{
    uint64_t any_count = 0;
    for (size_t i = 0; i < n; i++)
        any_count |= counts[i];
    unsigned char *bytes = new_block(block, n, any_count, suffix_bits, err);
    if (!bytes)
        return n == 0 ? 0 : KMF_ENOMEM;
    if (block->suffix_width > 0) {
        store_all(bytes, suffixes, n, block->suffix_width);
        store_all(bytes + n * block->suffix_width, counts, n, block->count_width);
    } else {
        for (size_t i = 0; i < n; i++)
            kmf_le_store64(bytes + suffixes[i] * block->count_width, counts[i]);
    }
    return 0;
}

int kmf_block_pack_all(kmf_block *block, const uint64_t *counts, unsigned suffix_bits,
                       kmf_err *err)
{
    size_t all = (size_t)1 << suffix_bits;
    uint64_t any_count = 0;
    size_t n = 0;
    for (size_t s = 0; s < all; s++) {
        any_count |= counts[s];
        n += counts[s] != 0;
    }
    unsigned char *bytes = new_block(block, n, any_count, suffix_bits, err);
    if (!bytes)
        return n == 0 ? 0 : KMF_ENOMEM;
    unsigned count_width = block->count_width;
    if (block->suffix_width == 0) {
        store_all(bytes, counts, all, count_width);
        return 0;
    }
    /* One that does not count is written too, and the next over it: no branch to guess. */
    unsigned char *to = bytes;
    for (size_t s = 0; s < all; s++) {
        kmf_le_store64(to, s);
        to += counts[s] != 0 ? block->suffix_width : 0;
    }
    for (size_t s = 0; s < all; s++) {
        kmf_le_store64(to, counts[s]);
        to += counts[s] != 0 ? count_width : 0;
    }
    return 0;
}

/* ---------------------------------------------------------------- reading ---------------- */

static const unsigned char *counts_of(const kmf_block *block)
{
    return block->bytes + block->n * block->suffix_width;
}

void kmf_block_free(kmf_block *block)
{
    kmf_free((void *)(uintptr_t)block->bytes);
    block->bytes = NULL;
}

uint64_t kmf_block_distinct(const kmf_block *block)
{
    uint64_t n = 0;
    uint64_t suffix;
    uint64_t count;
    if (block->suffix_width > 0)
        return block->n;
    for (uint64_t i = 0; kmf_block_next(block, &i, &suffix, &count);)
        n++;
    return n;
}

uint64_t kmf_block_get(const kmf_block *block, uint64_t suffix)
{
    unsigned width = block->suffix_width;
    uint64_t at = 0;
    if (block->n == 0 || (width == 0 && suffix >= block->n))
        return 0;
    if (width == 0)
        return kmf_block_number(counts_of(block), suffix, block->count_width);
    for (uint64_t n = block->n; n > 1;) {
        uint64_t half = n / 2;
        at += kmf_block_number(block->bytes, at + half, width) <= suffix ? half : 0;
        n -= half;
    }
    if (kmf_block_number(block->bytes, at, width) != suffix)
        return 0;
    return kmf_block_number(counts_of(block), at, block->count_width);
}

bool kmf_block_next_dense(const kmf_block *block, uint64_t *i, uint64_t *suffix,
                          uint64_t *count)
{
    uint64_t at = *i;
    unsigned width = block->count_width;
    const unsigned char *counts = block->bytes;
    while (at < block->n) {
        uint64_t word = kmf_le_load64(counts + at * width);
        if (word ==
            0) { /* of 8, 4, 2 or 1 suffixes at once; beyond the last one zeros follow */
            at += 8 / width;
            continue;
        }
        if ((word & low_bytes(width)) != 0) {
            *suffix = at;
            *count = word & low_bytes(width);
            *i = at + 1;
            return true;
        }
        at++;
    }
    *i = block->n;
    return false;
}

/* ---------------------------------------------------------------- checking --------------- */

/*
 * Both loops look at every number of a table that is loaded; with a width that the compiler
 * knows they are a fifth of the time that they are without.
 */

/* Strictly ascending, and none too large. */
static KMF_INLINE bool order_of_width(const kmf_block *block, unsigned suffix_bits,
                                      unsigned width)
{
    const unsigned char *from = block->bytes;
    uint64_t mask = low_bytes(width);
    uint64_t before = kmf_le_load64(from) & mask;
    unsigned bad = 0;
    for (uint64_t i = 1; i < block->n; i++) {
        uint64_t suffix = kmf_le_load64(from + i * width) & mask;
        bad |= suffix <= before;
        before = suffix;
    }
    return !bad && before >> suffix_bits == 0;
}

/* False if the sum exceeds 64 bits. */
static KMF_INLINE bool tally_of_width(kmf_block_tally *tally, const kmf_block *block,
                                      unsigned width)
{
    const unsigned char *from = counts_of(block);
    uint64_t mask = low_bytes(width);
    uint64_t sum = 0;
    uint64_t distinct = 0;
    uint64_t smallest = UINT64_MAX; /* less 1, so that 0 is the largest of all */
    unsigned over = 0;
    for (uint64_t i = 0; i < block->n; i++) {
        uint64_t count = kmf_le_load64(from + i * width) & mask;
        sum += count;
        over |= sum < count;
        distinct += count != 0;
        smallest = count - 1 < smallest ? count - 1 : smallest;
    }
    tally->sum = sum;
    tally->distinct = distinct;
    tally->smallest = distinct > 0 ? smallest + 1 : UINT64_MAX;
    return !over;
}

static bool good_order(const kmf_block *block, unsigned suffix_bits)
{
    switch (block->suffix_width) {
    case 1:
        return order_of_width(block, suffix_bits, 1);
    case 2:
        return order_of_width(block, suffix_bits, 2);
    case 3:
        return order_of_width(block, suffix_bits, 3);
    case 4:
        return order_of_width(block, suffix_bits, 4);
    default:
        return order_of_width(block, suffix_bits, block->suffix_width);
    }
}

static bool tally_counts(kmf_block_tally *tally, const kmf_block *block)
{
    switch (block->count_width) {
    case 1:
        return tally_of_width(tally, block, 1);
    case 2:
        return tally_of_width(tally, block, 2);
    case 4:
        return tally_of_width(tally, block, 4);
    default:
        return tally_of_width(tally, block, 8);
    }
}

const char *kmf_block_check(const kmf_block *block, unsigned suffix_bits,
                            kmf_block_tally *tally)
{
    size_t n_bytes;
    unsigned sw = block->suffix_width;
    unsigned cw = block->count_width;
    *tally = (kmf_block_tally){.smallest = UINT64_MAX};
    if (block->n == 0)
        return block->n_bytes > 0 || sw > 0 || cw > 0 ? "an empty block has a size" : NULL;
    if (block->n > (uint64_t)1 << suffix_bits)
        return "a block has more entries than there are k-mers";
    if (cw != 1 && cw != 2 && cw != 4 && cw != 8)
        return "counts of a width that does not exist";
    if (sw != 0 && sw != suffix_width_of(suffix_bits))
        return "k-mers of a width that does not exist";
    if (sw == 0 && block->n != (uint64_t)1 << suffix_bits)
        return "a block of all k-mers lacks some";
    if (!kmf_block_size(block->n, sw, cw, &n_bytes) || n_bytes != block->n_bytes)
        return "a block of the wrong size";
    if (kmf_le_load64(block->bytes + n_bytes - TAIL) != 0)
        return "no zeros at the end of a block";
    if (sw > 0 && !good_order(block, suffix_bits))
        return "k-mers are not in ascending order";
    if (!tally_counts(tally, block))
        return "the sum of the counts exceeds 64 bits";
    return sw > 0 && tally->distinct != block->n ? "a k-mer has the count 0" : NULL;
}

/* ---------------------------------------------------------------- merging ---------------- */

static int copy(kmf_block *to, const kmf_block *from, kmf_err *err)
{
    *to = (kmf_block){0};
    if (from->n == 0)
        return 0;
    unsigned char *bytes = kmf_malloc(from->n_bytes, 1, err);
    if (!bytes)
        return KMF_ENOMEM;
    memcpy(bytes, from->bytes, from->n_bytes);
    *to = *from;
    to->bytes = bytes;
    return 0;
}

static int sum_too_large(kmf_err *err)
{
    return kmf_fail(err, KMF_EMODEL, "the sum of a k-mer's counts exceeds 64 bits");
}

static int merge_by_array(kmf_block *sum, const kmf_block *blocks, size_t n,
                          unsigned suffix_bits, kmf_err *err)
{
    int status = 0;
    uint64_t suffix;
    uint64_t count;
    uint64_t *total = kmf_calloc((size_t)1 << suffix_bits, sizeof *total, err);
    if (!total)
        return KMF_ENOMEM;
    for (size_t b = 0; b < n && status == 0; b++)
        for (uint64_t i = 0; kmf_block_next(&blocks[b], &i, &suffix, &count);) {
            total[suffix] += count;
            if (total[suffix] < count) {
                status = sum_too_large(err);
                break;
            }
        }
    if (status == 0)
        status = kmf_block_pack_all(sum, total, suffix_bits, err);
    kmf_free(total);
    return status;
}

/* The next entry of a block. */
typedef struct cursor {
    uint64_t suffix;
    uint64_t count;
    uint64_t i;
    const kmf_block *block;
} cursor;

static bool advance(cursor *c)
{
    return kmf_block_next(c->block, &c->i, &c->suffix, &c->count);
}

/* The smallest suffix on top. */
#define comes_later(a, b) ((a).suffix > (b).suffix)
KMF_HEAP(cursors, cursor, comes_later)

/* Writes the sums, returns their number; SIZE_MAX: one exceeds 64 bits. */
static size_t merge_heap(cursor *heap, size_t n, uint64_t *suffixes, uint64_t *counts)
{
    size_t n_out = 0;
    cursors_heap(heap, n);
    while (n > 0) {
        const cursor *top = &heap[0];
        if (n_out > 0 && suffixes[n_out - 1] == top->suffix) {
            counts[n_out - 1] += top->count;
            if (counts[n_out - 1] < top->count)
                return SIZE_MAX;
        } else {
            suffixes[n_out] = top->suffix;
            counts[n_out++] = top->count;
        }
        if (!advance(&heap[0]))
            heap[0] = heap[--n];
        cursors_sink(heap, n, 0);
    }
    return n_out;
}

static int merge_by_heap(kmf_block *sum, const kmf_block *blocks, size_t n, size_t n_entries,
                         unsigned suffix_bits, kmf_err *err)
{
    int status = KMF_ENOMEM;
    size_t n_heap = 0;
    uint64_t *suffixes = NULL;
    uint64_t *counts = NULL;
    cursor *heap = kmf_malloc(n, sizeof *heap, err);
    if (!heap)
        goto out;
    suffixes = kmf_malloc(n_entries, sizeof *suffixes, err);
    counts = suffixes ? kmf_malloc(n_entries, sizeof *counts, err) : NULL;
    if (!counts)
        goto out;
    for (size_t b = 0; b < n; b++) {
        heap[n_heap] = (cursor){.block = &blocks[b]};
        n_heap += advance(&heap[n_heap]);
    }
    size_t n_out = merge_heap(heap, n_heap, suffixes, counts);
    if (n_out == SIZE_MAX)
        status = sum_too_large(err);
    else
        status = kmf_block_pack(sum, suffixes, counts, n_out, suffix_bits, err);
out:
    kmf_free(heap);
    kmf_free(suffixes);
    kmf_free(counts);
    return status;
}

int kmf_block_merge(kmf_block *sum, const kmf_block *blocks, size_t n, unsigned suffix_bits,
                    kmf_err *err)
{
    uint64_t n_entries = 0;
    assert(n > 0);
    *sum = (kmf_block){0};
    if (n == 1)
        return copy(sum, blocks, err);
    for (size_t b = 0; b < n; b++)
        n_entries += blocks[b].n;
    if (suffix_bits <= SUM_BITS && n_entries >= (uint64_t)1 << suffix_bits >> 3)
        return merge_by_array(sum, blocks, n, suffix_bits, err);
    return merge_by_heap(sum, blocks, n, n_entries, suffix_bits, err);
}
