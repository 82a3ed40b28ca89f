/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as a table of counts, binary or text. What is accepted is in order and adds up,
 * every k-mer is found by its code, and the table written as text and as binary is read back
 * the same.
 *
 * Checksums would keep changed binary files from the checks behind them, so a binary file is
 * tried a second time with its checksums made right.
 */
#include "base/le.h"
#include "base/mem.h"
#include "fuzzing.h"
#include "words/alphabet.h"
#include "words/countfile.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define MOST_BYTES ((size_t)1 << 20)
#define HEADER 192
#define ENTRY 32
#define TRAILER 16

static void check_walk(const kmf_counts *counts)
{
    kmf_counts_info info;
    kmf_counts_walk walk;
    kmf_counts_summary summary;
    uint64_t code;
    uint64_t count;
    uint64_t before = 0;
    uint64_t n = 0;
    uint64_t sum = 0;
    kmf_counts_information(counts, &info);
    for (kmf_counts_start(&walk, counts); kmf_counts_next(&walk, &code, &count); n++) {
        must(n == 0 || code > before);
        must(count >= info.min_count && count > 0);
        must(!info.canonical || kmf_kmer_canonical(code, info.k) == code);
        must(kmf_alphabet_round_up(info.alphabet, info.k, code) == code);
        must(kmf_counts_get(counts, code) == count);
        before = code;
        sum += count;
        must(sum >= count);
    }
    must(n == info.distinct && sum <= info.kmers);
    must(info.max_size == 0 || n <= info.max_size);
    must(sum == info.kmers || info.min_count > 1 || info.max_size > 0);
    kmf_counts_summarise(counts, &summary);
    must(summary.total == sum && summary.coverage <= 1 && summary.entropy >= 0);
}

static void must_equal(const kmf_counts *a, const kmf_counts *b)
{
    uint64_t x[KMF_N_INFO];
    uint64_t y[KMF_N_INFO];
    kmf_counts_walk at_a;
    kmf_counts_walk at_b;
    uint64_t code[2];
    uint64_t count[2];
    kmf_counts_info_get(x, &a->info);
    kmf_counts_info_get(y, &b->info);
    must(memcmp(x, y, sizeof x) == 0);
    kmf_counts_start(&at_a, a);
    kmf_counts_start(&at_b, b);
    while (kmf_counts_next(&at_a, &code[0], &count[0])) {
        must(kmf_counts_next(&at_b, &code[1], &count[1]));
        must(code[0] == code[1] && count[0] == count[1]);
    }
    must(!kmf_counts_next(&at_b, &code[1], &count[1]));
}

/* Through a file without a name. */
static void check_saved(const kmf_counts *counts, kmf_counts_format format, int full)
{
    char path[32];
    kmf_err err = {0};
    FILE *file = tmpfile();
    must(file != NULL);
    snprintf(path, sizeof path, "/dev/fd/%d", fileno(file));
    must(kmf_counts_save(counts, path, format, full, NULL, NULL, &err) == 0);
    kmf_counts *again = kmf_counts_load(path, &err);
    must(again != NULL);
    must_equal(counts, again);
    kmf_counts_free(again);
    fclose(file);
}

static void try_bytes(const uint8_t *data, size_t size)
{
    kmf_err err = {0};
    kmf_counts *counts = kmf_counts_parse(data, size, "fuzz", &err);
    if (!counts) {
        must_tell(&err);
        return;
    }
    check_walk(counts);
    check_saved(counts, KMF_COUNTS_TSV, 0);
    check_saved(counts, KMF_COUNTS_BINARY, 0);
    if (kmf_counts_possible(&counts->info) < 5000)
        check_saved(counts, KMF_COUNTS_TSV, 1);
    kmf_counts_free(counts);
}

static uint32_t crc(const uint8_t *bytes, size_t n)
{
    return (uint32_t)crc32(0, bytes, (uInt)n);
}

static void reseal(uint8_t *bytes, size_t size)
{
    uint64_t index = kmf_le_load64(bytes + 128);
    kmf_le_store64(bytes + 136, size);
    if (index >= HEADER && index <= size && size - index >= TRAILER) {
        size_t n_index = size - index - TRAILER;
        for (size_t i = 0; i + ENTRY <= n_index; i += ENTRY) {
            uint8_t *entry = bytes + index + i;
            uint64_t beg = kmf_le_load64(entry);
            uint64_t n = kmf_le_load64(entry + 8);
            uint64_t width = kmf_le_load32(entry + 16) + (uint64_t)kmf_le_load32(entry + 20);
            if (n > 0 && beg <= index && n <= size && width <= 16 &&
                n * width + 8 <= index - beg)
                kmf_le_store32(entry + 24, crc(bytes + beg, n * width + 8));
        }
        kmf_le_store32(bytes + size - TRAILER, crc(bytes + index, n_index));
    }
    kmf_le_store32(bytes + 188, crc(bytes, 188));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > MOST_BYTES)
        return 0;
    try_bytes(data, size);
    if (!kmf_countfile_begins(data, size) || size < HEADER)
        return 0;
    uint8_t *copy = kmf_malloc(size, 1, NULL);
    must(copy != NULL);
    memcpy(copy, data, size);
    reseal(copy, size);
    try_bytes(copy, size);
    kmf_free(copy);
    return 0;
}
