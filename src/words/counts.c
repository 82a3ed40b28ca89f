/* SPDX-License-Identifier: MIT */
/*
 * A table of counts is a row of blocks (block.h), one for each value of the first bits of a
 * code:
 *
 *   prefix  0        1        2              2^prefix_bits - 1
 *           | block  | block  | block  | ... | block |            code = prefix << suffix_bits
 *                                                                        | suffix
 * so blocks one after another list the k-mers in code order, and one that is small enough to
 * fit the cache can be made, merged, checked and written by itself.
 *
 * Selection finds the smallest count that is still taken without sorting the table. Counts are
 * cut into digits of 16 bits; a histogram of the highest digit tells in which of its values the
 * n-th largest count lies, a second walk sorts those counts by their next digit, and so on.
 * Counts below 2^16, which are nearly all, take one walk.
 */
#include "words/counts.h"

#include "base/err.h"
#include "base/mem.h"
#include "words/alphabet.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#define DIGIT_BITS 16
#define N_DIGITS ((size_t)1 << DIGIT_BITS)

/* ---------------------------------------------------------------- the table -------------- */

kmf_counts *kmf_counts_new(const kmf_counts_info *info, kmf_err *err)
{
    kmf_counts *c = kmf_calloc(1, sizeof *c, err);
    if (!c)
        return NULL;
    c->info = *info;
    c->cut = kmf_cut_code_of(info->alphabet, info->k);
    c->n_blocks = (size_t)1 << c->cut.prefix_bits;
    c->own_bytes = true;
    c->blocks = kmf_calloc(c->n_blocks, sizeof *c->blocks, err);
    if (!c->blocks) {
        kmf_counts_free(c);
        return NULL;
    }
    return c;
}

void kmf_counts_free(kmf_counts *counts)
{
    if (!counts)
        return;
    for (size_t p = 0; counts->blocks && counts->own_bytes && p < counts->n_blocks; p++)
        kmf_block_free(&counts->blocks[p]);
    kmf_free(counts->blocks);
    kmf_map_close(&counts->map);
    kmf_free(counts->buffer);
    kmf_free(counts->name);
    kmf_free(counts);
}

void kmf_counts_seal(kmf_counts *counts)
{
    counts->info.distinct = 0;
    for (size_t p = 0; p < counts->n_blocks; p++) {
        counts->info.distinct += kmf_block_distinct(&counts->blocks[p]);
        kmf_counts_leave(counts, p);
    }
}

void kmf_counts_information(const kmf_counts *counts, kmf_counts_info *info)
{
    *info = counts->info;
}

void kmf_counts_progress(kmf_counts *counts, kmf_fraction_fn *fn, void *user)
{
    counts->progress = fn;
    counts->user = user;
}

void kmf_counts_leave(const kmf_counts *counts, size_t p)
{
    const kmf_block *b = &counts->blocks[p];
    if (!counts->own_bytes && counts->map.len > 0 && b->n > 0)
        kmf_discard((void *)(uintptr_t)b->bytes, b->n_bytes);
    if (counts->progress)
        counts->progress(counts->user, (double)(p + 1) / (double)counts->n_blocks);
}

uint64_t kmf_counts_get(const kmf_counts *counts, uint64_t code)
{
    int k = counts->info.k;
    int bits = kmf_alphabet_bits(counts->info.alphabet) * k;
    if (bits < 64 && code >> bits != 0)
        return 0;
    if (counts->info.canonical)
        code = kmf_kmer_canonical(code, k);
    uint64_t prefix = code >> counts->cut.suffix_bits;
    uint64_t suffix = code & (((uint64_t)1 << counts->cut.suffix_bits) - 1);
    return kmf_block_get(&counts->blocks[prefix], suffix);
}

void kmf_counts_start(kmf_counts_walk *walk, const kmf_counts *counts)
{
    *walk = (kmf_counts_walk){.counts = counts};
}

int kmf_counts_next(kmf_counts_walk *walk, uint64_t *code, uint64_t *count)
{
    const kmf_counts *c = walk->counts;
    uint64_t suffix;
    for (; walk->block < c->n_blocks; walk->block++, walk->i = 0)
        if (kmf_block_next(&c->blocks[walk->block], &walk->i, &suffix, count)) {
            *code = walk->block << c->cut.suffix_bits | suffix;
            return 1;
        } else {
            kmf_counts_leave(c, walk->block);
        }
    return 0;
}

/* ---------------------------------------------------------------- building --------------- */

struct kmf_counts_builder {
    kmf_counts *counts; /* borrowed */
    uint64_t prefix;    /* of the block under way */
    uint64_t *suffixes; /* owned [cap] */
    uint64_t *numbers;  /* owned [cap]; the counts */
    size_t n, cap;
};

kmf_counts_builder *kmf_counts_builder_new(kmf_counts *counts, kmf_err *err)
{
    kmf_counts_builder *b = kmf_calloc(1, sizeof *b, err);
    if (b)
        b->counts = counts;
    return b;
}

void kmf_counts_builder_free(kmf_counts_builder *builder)
{
    if (!builder)
        return;
    kmf_free(builder->suffixes);
    kmf_free(builder->numbers);
    kmf_free(builder);
}

static int flush(kmf_counts_builder *b, kmf_err *err)
{
    size_t n = b->n;
    b->n = 0;
    return kmf_block_pack(&b->counts->blocks[b->prefix], b->suffixes, b->numbers, n,
                          b->counts->cut.suffix_bits, err);
}

static int make_room(kmf_counts_builder *b, kmf_err *err)
{
    size_t need = b->n < 64 ? 64 : b->n + 1;
    size_t cap = b->cap;
    int status = kmf_grow(&b->suffixes, &cap, need, sizeof *b->suffixes, err);
    if (status == 0)
        status = kmf_grow(&b->numbers, &b->cap, need, sizeof *b->numbers, err);
    return status;
}

int kmf_counts_builder_add(kmf_counts_builder *b, uint64_t code, uint64_t count, kmf_err *err)
{
    uint64_t prefix = code >> b->counts->cut.suffix_bits;
    uint64_t suffix = code & (((uint64_t)1 << b->counts->cut.suffix_bits) - 1);
    assert(count > 0 && prefix < b->counts->n_blocks && prefix >= b->prefix);
    if (prefix != b->prefix) {
        if (flush(b, err) < 0)
            return KMF_ENOMEM;
        b->prefix = prefix;
    }
    assert(b->n == 0 || suffix > b->suffixes[b->n - 1]);
    if (b->n == b->cap && make_room(b, err) < 0)
        return KMF_ENOMEM;
    b->suffixes[b->n] = suffix;
    b->numbers[b->n] = count;
    b->n++;
    return 0;
}

int kmf_counts_builder_finish(kmf_counts_builder *builder, kmf_err *err)
{
    if (flush(builder, err) < 0)
        return KMF_ENOMEM;
    kmf_counts_seal(builder->counts);
    return 0;
}

/* ---------------------------------------------------------------- merging ---------------- */

static const char *is_canonical(const kmf_counts_info *info)
{
    return info->canonical ? "canonical k-mers" : "k-mers as they stand";
}

#define TABLE_NAME 32

/* The file of table i, or which of the tables it is, from 1 on, in buf. */
static const char *name_of(const kmf_counts *const *tables, size_t i, char buf[TABLE_NAME])
{
    snprintf(buf, TABLE_NAME, "table %zu", i + 1);
    return tables[i]->name ? tables[i]->name : buf;
}

/* Can table i be added to the first exactly? */
static int check_alike(const kmf_counts *const *tables, size_t i, kmf_err *err)
{
    const kmf_counts_info *first = &tables[0]->info;
    const kmf_counts_info *info = &tables[i]->info;
    char buf[2][TABLE_NAME];
    const char *a = name_of(tables, 0, buf[0]);
    const char *b = name_of(tables, i, buf[1]);
    if (info->alphabet != first->alphabet)
        return kmf_fail(err, KMF_EMODEL, "%s counts %s, %s %s", b,
                        kmf_alphabet_names[info->alphabet], a,
                        kmf_alphabet_names[first->alphabet]);
    if (info->k != first->k)
        return kmf_fail(err, KMF_EMODEL, "%s has k = %d, %s k = %d", b, info->k, a, first->k);
    if (info->canonical != first->canonical)
        return kmf_fail(err, KMF_EMODEL, "%s counts %s, %s %s", b, is_canonical(info), a,
                        is_canonical(first));
    if (info->stride != first->stride)
        return kmf_fail(err, KMF_EMODEL,
                        "%s was counted with stride %" PRIu64 ", %s with stride %" PRIu64, b,
                        info->stride, a, first->stride);
    if (info->min_count > 1)
        return kmf_fail(err, KMF_EMODEL,
                        "%s lacks the k-mers with a count below %" PRIu64
                        ": its sum with others would not be exact",
                        b, info->min_count);
    if (info->max_size > 0)
        return kmf_fail(err, KMF_EMODEL,
                        "%s holds the %" PRIu64
                        " most frequent k-mers alone: its sum with others would not be exact",
                        b, info->max_size);
    return 0;
}

static bool add_up(uint64_t *sum, uint64_t number)
{
    *sum += number;
    return *sum >= number;
}

static int sum_of_infos(kmf_counts_info *sum, const kmf_counts *const *tables, size_t n,
                        kmf_err *err)
{
    *sum = tables[0]->info;
    sum->inputs = sum->records = sum->letters = sum->kmers = sum->ambiguous = 0;
    for (size_t i = 0; i < n; i++) {
        const kmf_counts_info *info = &tables[i]->info;
        char buf[TABLE_NAME];
        int status = check_alike(tables, i, err);
        if (status < 0)
            return status;
        if (!add_up(&sum->inputs, info->inputs) || !add_up(&sum->records, info->records) ||
            !add_up(&sum->letters, info->letters) || !add_up(&sum->kmers, info->kmers) ||
            !add_up(&sum->ambiguous, info->ambiguous))
            return kmf_fail(err, KMF_EMODEL, "with %s the sum exceeds 64 bits",
                            name_of(tables, i, buf));
    }
    return 0;
}

kmf_counts *kmf_counts_merge(const kmf_counts *const *tables, size_t n, kmf_err *err)
{
    kmf_counts_info info;
    kmf_counts *sum = NULL;
    kmf_block *parts = NULL;
    int status = KMF_ENOMEM;
    if (n == 0) {
        kmf_fail(err, KMF_EINVAL, "no table to merge");
        return NULL;
    }
    if (sum_of_infos(&info, tables, n, err) < 0)
        return NULL;
    sum = kmf_counts_new(&info, err);
    parts = sum ? kmf_malloc(n, sizeof *parts, err) : NULL;
    if (!parts)
        goto out;
    for (size_t p = 0; p < sum->n_blocks; p++) {
        for (size_t i = 0; i < n; i++)
            parts[i] = tables[i]->blocks[p];
        status = kmf_block_merge(&sum->blocks[p], parts, n, sum->cut.suffix_bits, err);
        for (size_t i = 0; i < n; i++)
            kmf_counts_leave(tables[i], p);
        if (status < 0)
            goto out;
    }
    kmf_counts_seal(sum);
out:
    kmf_free(parts);
    if (status < 0) {
        kmf_counts_free(sum);
        return NULL;
    }
    return sum;
}

/* ---------------------------------------------------------------- selection -------------- */

/* Counts from `least` on are taken, and of those that equal it the first n_least. */
typedef struct threshold {
    uint64_t least;
    uint64_t n_least;
} threshold;

/* The place of the highest digit that a count of the table may have. */
static unsigned highest_digit(const kmf_counts *counts)
{
    unsigned width = 2;
    for (size_t p = 0; p < counts->n_blocks; p++)
        if (counts->blocks[p].count_width > width)
            width = counts->blocks[p].count_width;
    return 8 * width - DIGIT_BITS;
}

/* For the n largest counts, n at least 1; where fewer are min_count or more, for all those. */
static int find_threshold(threshold *t, const kmf_counts *counts, uint64_t min_count,
                          uint64_t n, kmf_err *err)
{
    kmf_counts_walk walk;
    uint64_t code;
    uint64_t count;
    uint64_t above = 0; /* the digits of the n-th largest count that are known, above `shift` */
    uint64_t *histogram = kmf_malloc(N_DIGITS, sizeof *histogram, err);
    if (!histogram)
        return KMF_ENOMEM;
    *t = (threshold){min_count, UINT64_MAX};
    for (unsigned shift = highest_digit(counts);; shift -= DIGIT_BITS) {
        for (size_t d = 0; d < N_DIGITS; d++)
            histogram[d] = 0;
        for (kmf_counts_start(&walk, counts); kmf_counts_next(&walk, &code, &count);)
            if (count >= min_count && count >> shift >> DIGIT_BITS == above)
                histogram[count >> shift & (N_DIGITS - 1)]++;
        size_t digit = N_DIGITS - 1;
        for (; digit > 0 && histogram[digit] < n; digit--)
            n -= histogram[digit];
        if (histogram[digit] < n) /* at the first digit: there are fewer */
            break;
        above = above << DIGIT_BITS | digit;
        if (shift == 0) {
            *t = (threshold){above, n};
            break;
        }
    }
    kmf_free(histogram);
    return 0;
}

static int take(kmf_counts *to, const kmf_counts *from, threshold t, kmf_err *err)
{
    kmf_counts_walk walk;
    uint64_t code;
    uint64_t count;
    int status = 0;
    kmf_counts_builder *builder = kmf_counts_builder_new(to, err);
    if (!builder)
        return KMF_ENOMEM;
    kmf_counts_start(&walk, from);
    while (status == 0 && kmf_counts_next(&walk, &code, &count)) {
        if (count < t.least || (count == t.least && t.n_least == 0))
            continue;
        t.n_least -= count == t.least;
        status = kmf_counts_builder_add(builder, code, count, err);
    }
    if (status == 0)
        status = kmf_counts_builder_finish(builder, err);
    kmf_counts_builder_free(builder);
    return status;
}

kmf_counts *kmf_counts_select(const kmf_counts *counts, uint64_t min_count, uint64_t max_size,
                              kmf_err *err)
{
    kmf_counts_info info = counts->info;
    if (min_count > info.min_count)
        info.min_count = min_count;
    if (max_size > 0 && (info.max_size == 0 || max_size < info.max_size))
        info.max_size = max_size;
    threshold t = {info.min_count, UINT64_MAX};
    if (info.max_size > 0 && info.max_size < counts->info.distinct &&
        find_threshold(&t, counts, info.min_count, info.max_size, err) < 0)
        return NULL;
    kmf_counts *selected = kmf_counts_new(&info, err);
    if (selected && take(selected, counts, t, err) < 0) {
        kmf_counts_free(selected);
        return NULL;
    }
    return selected;
}
