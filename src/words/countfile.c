/* SPDX-License-Identifier: MIT */
/*
 * The binary file of a table of counts. All numbers are little-endian and unsigned.
 *
 *   0       8    magic  8b 4b 4d 46 0d 0a 1a 0a  (no text file begins so, nor survives as one)
 *   8       4    version of the format, 1
 *   12      4    0
 *   16      96   alphabet (0 DNA, 1 protein), k, canonical, stride, inputs, records, letters,
 *                kmers, ambiguous, distinct, min_count, max_size: 8 bytes each
 *   112     32   prefix_bits, suffix_bits, where the index begins, length of the file: 8 each
 *   144     44   0
 *   188     4    CRC-32 of bytes 0 .. 187
 *   192          2^prefix_bits blocks as in memory (block.h), each filled up with zeros to a
 *                multiple of 8 bytes
 *   index        for each block: where it begins (8), n (8), suffix_width (4), count_width (4),
 *                CRC-32 of its bytes (4), 0 (4)
 *   then    4    CRC-32 of the index
 *           4    0
 *           8    the magic again
 *
 * So it is written front to back, into a pipe too, and read in place: a table of 100 million
 * k-mers is there as soon as its bytes have been looked at. And they all are, for a table that
 * is wrong is worse than one that is slow: checksums find damage, and what a checksum cannot
 * find, a file that was made to harm, is found by the checks that every block gets.
 *
 * There is one file for one set of blocks: nothing may stand between blocks, and every byte is
 * covered by a checksum or must be zero.
 */
#include "words/countfile.h"

#include "base/crc.h"
#include "base/err.h"
#include "base/le.h"
#include "base/mem.h"
#include "base/out.h"
#include "words/alphabet.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#define VERSION 1
#define HEADER 192
#define HEADER_INFO 16
#define HEADER_SHAPE (HEADER_INFO + 8 * KMF_N_INFO)
#define HEADER_CRC 188
#define ENTRY 32
#define TRAILER 16
#define MAGIC 8

static const unsigned char magic[MAGIC] = {0x8b, 'K', 'M', 'F', '\r', '\n', 0x1a, '\n'};

typedef struct shape {
    uint64_t prefix_bits;
    uint64_t suffix_bits;
    uint64_t index; /* where it begins */
    uint64_t len;   /* of the file */
} shape;

bool kmf_countfile_begins(const void *bytes, size_t len)
{
    return len >= MAGIC && memcmp(bytes, magic, MAGIC) == 0;
}

/* Bytes that follow n to a multiple of 8. */
static size_t padding(size_t n)
{
    return (8 - n % 8) % 8;
}

/* ---------------------------------------------------------------- writing ---------------- */

struct kmf_countfile {
    kmf_out *out; /* borrowed */
    kmf_cut_code cut;
    size_t n_blocks;
    unsigned char *index; /* owned [n_blocks][ENTRY] */
    uint64_t at;          /* bytes written */
    size_t n_written;     /* blocks written */
    /* of blocks that come in any order */
    pthread_mutex_t lock;
    kmf_block *waiting; /* owned [n_blocks]; bytes of those that wait for others are owned */
    bool *there;        /* owned [n_blocks]: waiting[p] is set */
    uint64_t distinct;
};

static void make_header(unsigned char header[HEADER], const kmf_countfile *f,
                        const kmf_counts_info *info, uint64_t index)
{
    const uint64_t shape_values[] = {f->cut.prefix_bits, f->cut.suffix_bits, index,
                                     index + f->n_blocks * ENTRY + TRAILER};
    uint64_t values[KMF_N_INFO];
    kmf_counts_info_get(values, info);
    memset(header, 0, HEADER);
    memcpy(header, magic, MAGIC);
    kmf_le_store32(header + MAGIC, VERSION);
    for (size_t i = 0; i < KMF_N_INFO; i++)
        kmf_le_store64(header + HEADER_INFO + 8 * i, values[i]);
    for (size_t i = 0; i < 4; i++)
        kmf_le_store64(header + HEADER_SHAPE + 8 * i, shape_values[i]);
    kmf_le_store32(header + HEADER_CRC, kmf_crc32(0, header, HEADER_CRC));
}

static int put(kmf_countfile *f, const void *bytes, size_t n, kmf_err *err)
{
    f->at += n;
    return kmf_out_write(f->out, bytes, n, err);
}

/* The next block, and its entry in the index. */
static int put_block(kmf_countfile *f, const kmf_block *b, kmf_err *err)
{
    static const unsigned char zeros[8];
    unsigned char *entry = f->index + f->n_written++ * ENTRY;
    memset(entry, 0, ENTRY);
    kmf_le_store64(entry, f->at);
    kmf_le_store64(entry + 8, b->n);
    if (b->n == 0)
        return 0;
    kmf_le_store32(entry + 16, b->suffix_width);
    kmf_le_store32(entry + 20, b->count_width);
    kmf_le_store32(entry + 24, kmf_crc32(0, b->bytes, b->n_bytes));
    int status = put(f, b->bytes, b->n_bytes, err);
    return status == 0 ? put(f, zeros, padding(b->n_bytes), err) : status;
}

static int put_index(kmf_countfile *f, kmf_err *err)
{
    unsigned char trailer[TRAILER] = {0};
    size_t n = f->n_blocks * ENTRY;
    kmf_le_store32(trailer, kmf_crc32(0, f->index, n));
    memcpy(trailer + TRAILER - MAGIC, magic, MAGIC);
    int status = put(f, f->index, n, err);
    return status == 0 ? put(f, trailer, sizeof trailer, err) : status;
}

static kmf_countfile *new_file(kmf_out *out, const kmf_cut_code *cut, kmf_err *err)
{
    kmf_countfile *f = kmf_calloc(1, sizeof *f, err);
    if (!f)
        return NULL;
    f->out = out;
    f->cut = *cut;
    f->n_blocks = (size_t)1 << cut->prefix_bits;
    pthread_mutex_init(&f->lock, NULL);
    f->index = kmf_malloc(f->n_blocks, ENTRY, err);
    f->waiting = kmf_calloc(f->n_blocks, sizeof *f->waiting, err);
    f->there = kmf_calloc(f->n_blocks, sizeof *f->there, err);
    if (f->index && f->waiting && f->there)
        return f;
    kmf_countfile_free(f);
    return NULL;
}

int kmf_countfile_write(const kmf_counts *counts, kmf_out *out, kmf_err *err)
{
    unsigned char header[HEADER];
    uint64_t index = HEADER;
    kmf_countfile *f = new_file(out, &counts->cut, err);
    if (!f)
        return KMF_ENOMEM;
    for (size_t p = 0; p < counts->n_blocks; p++)
        index += counts->blocks[p].n_bytes + padding(counts->blocks[p].n_bytes);
    make_header(header, f, &counts->info, index);
    int status = put(f, header, sizeof header, err);
    for (size_t p = 0; p < counts->n_blocks && status == 0; p++) {
        status = put_block(f, &counts->blocks[p], err);
        kmf_counts_leave(counts, p);
    }
    if (status == 0)
        status = put_index(f, err);
    kmf_countfile_free(f);
    return status;
}

kmf_countfile *kmf_countfile_new(kmf_out *out, const kmf_cut_code *cut, kmf_err *err)
{
    static const unsigned char place[HEADER];
    kmf_countfile *f = new_file(out, cut, err);
    if (f && put(f, place, sizeof place, err) < 0) {
        kmf_countfile_free(f);
        return NULL;
    }
    return f;
}

/* All blocks up to the first that is not there yet. */
static int write_waiting(kmf_countfile *f, kmf_err *err)
{
    int status = 0;
    while (status == 0 && f->n_written < f->n_blocks && f->there[f->n_written]) {
        kmf_block *b = &f->waiting[f->n_written];
        status = put_block(f, b, err);
        kmf_block_free(b);
    }
    return status;
}

int kmf_countfile_add(void *file, size_t p, const kmf_block *block, kmf_err *err)
{
    kmf_countfile *f = file;
    uint64_t n = kmf_block_distinct(block);
    pthread_mutex_lock(&f->lock);
    f->waiting[p] = *block;
    f->there[p] = true;
    f->distinct += n;
    int status = write_waiting(f, err);
    pthread_mutex_unlock(&f->lock);
    return status;
}

int kmf_countfile_finish(kmf_countfile *file, kmf_counts_info *info, kmf_err *err)
{
    unsigned char header[HEADER];
    assert(file->n_written == file->n_blocks);
    info->distinct = file->distinct;
    make_header(header, file, info, file->at);
    int status = put_index(file, err);
    return status == 0 ? kmf_out_patch(file->out, header, sizeof header, err) : status;
}

void kmf_countfile_free(kmf_countfile *file)
{
    if (!file)
        return;
    for (size_t p = 0; file->waiting && p < file->n_blocks; p++)
        kmf_block_free(&file->waiting[p]);
    pthread_mutex_destroy(&file->lock);
    kmf_free(file->index);
    kmf_free(file->waiting);
    kmf_free(file->there);
    kmf_free(file);
}

/* ---------------------------------------------------------------- reading ---------------- */

/* The file as it is read. */
typedef struct source {
    const unsigned char *bytes;
    size_t len;
    const char *name;
} source;

static bool all_zero(const unsigned char *bytes, size_t n)
{
    unsigned any = 0;
    for (size_t i = 0; i < n; i++)
        any |= bytes[i];
    return any == 0;
}

static int damaged(const source *from, const char *what, kmf_err *err)
{
    return kmf_fail(err, KMF_EMODEL, "%s: damaged: %s", from->name, what);
}

static int read_header(const source *from, kmf_counts_info *info, shape *s, kmf_err *err)
{
    const unsigned char *header = from->bytes;
    uint64_t values[KMF_N_INFO];
    if (from->len < HEADER)
        return kmf_fail(err, KMF_EMODEL, "%s: cut off: %zu bytes", from->name, from->len);
    uint32_t version = kmf_le_load32(header + MAGIC);
    if (version > VERSION)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: a table of counts in format %" PRIu32
                        "; this version of the program reads format %d",
                        from->name, version, VERSION);
    if (version != VERSION ||
        kmf_le_load32(header + HEADER_CRC) != kmf_crc32(0, header, HEADER_CRC))
        return damaged(from, "the checksum of its header is wrong", err);
    if (!all_zero(header + 12, 4) || !all_zero(header + HEADER_SHAPE + 32, 44))
        return damaged(from, "its header is not that of a table of counts", err);
    for (size_t i = 0; i < KMF_N_INFO; i++)
        values[i] = kmf_le_load64(header + HEADER_INFO + 8 * i);
    *s = (shape){kmf_le_load64(header + HEADER_SHAPE), kmf_le_load64(header + HEADER_SHAPE + 8),
                 kmf_le_load64(header + HEADER_SHAPE + 16),
                 kmf_le_load64(header + HEADER_SHAPE + 24)};
    if (s->len != from->len)
        return kmf_fail(err, KMF_EMODEL, "%s: %s: %zu bytes where its header says %" PRIu64,
                        from->name, from->len < s->len ? "cut off" : "damaged", from->len,
                        s->len);
    return kmf_counts_info_set(info, values, from->name, err);
}

/* Do index and trailer lie where they should, and are they whole? */
static int check_index(const source *from, const kmf_counts *c, const shape *s, kmf_err *err)
{
    size_t n_index = c->n_blocks * ENTRY;
    if (s->prefix_bits != c->cut.prefix_bits || s->suffix_bits != c->cut.suffix_bits)
        return damaged(from, "its blocks are not cut as those of its k", err);
    if (s->index < HEADER || s->index > from->len || from->len - s->index != n_index + TRAILER)
        return damaged(from, "its index is not at its end", err);
    const unsigned char *index = from->bytes + s->index;
    const unsigned char *trailer = index + n_index;
    if (memcmp(trailer + TRAILER - MAGIC, magic, MAGIC) != 0 || !all_zero(trailer + 4, 4))
        return damaged(from, "its end is not that of a table of counts", err);
    if (kmf_le_load32(trailer) != kmf_crc32(0, index, n_index))
        return damaged(from, "the checksum of its index is wrong", err);
    return 0;
}

/* The block that begins at *at, where the one before it ended, and is to end before `end`. */
static int read_block(kmf_block *block, const source *from, const unsigned char *entry,
                      uint64_t *at, uint64_t end, const kmf_cut_code *cut, kmf_err *err)
{
    kmf_block b = {.n = kmf_le_load64(entry + 8),
                   .suffix_width = kmf_le_load32(entry + 16),
                   .count_width = kmf_le_load32(entry + 20)};
    if (kmf_le_load64(entry) != *at || !all_zero(entry + 28, 4))
        return damaged(from, "a block is not where the one before it ends", err);
    if (b.suffix_width > 8 || b.count_width > 8 || b.n > (uint64_t)1 << cut->suffix_bits ||
        !kmf_block_size(b.n, b.suffix_width, b.count_width, &b.n_bytes) ||
        b.n_bytes > end - *at || padding(b.n_bytes) > end - *at - b.n_bytes)
        return damaged(from, "a block is larger than its place", err);
    b.bytes = b.n > 0 ? from->bytes + *at : NULL;
    if (kmf_le_load32(entry + 24) != kmf_crc32(0, b.bytes, b.n_bytes) ||
        !all_zero(from->bytes + *at + b.n_bytes, padding(b.n_bytes)))
        return damaged(from, "the checksum of a block is wrong", err);
    *at += b.n_bytes + padding(b.n_bytes);
    *block = b;
    return 0;
}

/*
 * Canonical codes are quickly told: the first letters of a code are its block's prefix, those
 * of its reverse complement follow from the last letters alone. Where these are larger than the
 * prefix there is nothing more to compare. begins[x] is for last letters x, as many as a prefix
 * has.
 */
static void fill_begins(uint16_t begins[KMF_N_BLOCKS_MAX], const kmf_cut_code *cut)
{
    int n_letters = (int)cut->prefix_bits / 2;
    for (uint64_t x = 0; n_letters > 0 && x < (uint64_t)1 << cut->prefix_bits; x++)
        begins[x] = (uint16_t)kmf_kmer_revcomp(x, n_letters);
}

static bool all_canonical(const kmf_counts *c, size_t prefix, const uint16_t *begins)
{
    uint64_t mask = ((uint64_t)1 << c->cut.prefix_bits) - 1;
    uint64_t suffix;
    uint64_t count;
    for (uint64_t i = 0; kmf_block_next(&c->blocks[prefix], &i, &suffix, &count);) {
        uint64_t code = (uint64_t)prefix << c->cut.suffix_bits | suffix;
        if (begins[code & mask] <= prefix && kmf_kmer_canonical(code, c->info.k) != code)
            return false;
    }
    return true;
}

static bool all_letters(const kmf_counts *c, size_t prefix)
{
    const kmf_counts_info *info = &c->info;
    uint64_t suffix;
    uint64_t count;
    for (uint64_t i = 0; kmf_block_next(&c->blocks[prefix], &i, &suffix, &count);) {
        uint64_t code = (uint64_t)prefix << c->cut.suffix_bits | suffix;
        if (kmf_alphabet_round_up(info->alphabet, info->k, code) != code)
            return false;
    }
    return true;
}

/* NULL, or what is wrong with a block or with the k-mers that its codes stand for. */
static const char *check_block(kmf_block_tally *tally, const kmf_counts *c, size_t prefix,
                               const uint16_t *begins)
{
    const kmf_alphabet_row *row = kmf_alphabet_of(c->info.alphabet);
    const char *wrong = kmf_block_check(&c->blocks[prefix], c->cut.suffix_bits, tally);
    if (wrong)
        return wrong;
    if (c->info.canonical && !all_canonical(c, prefix, begins))
        return "a k-mer that is larger than its reverse complement";
    if (row->n_letters < 1 << row->bits && !all_letters(c, prefix))
        return "a k-mer with a letter that does not exist";
    return NULL;
}

static int read_blocks(kmf_counts *c, const source *from, const shape *s, kmf_err *err)
{
    uint16_t begins[KMF_N_BLOCKS_MAX] = {0};
    kmf_block_tally all = {.smallest = UINT64_MAX};
    kmf_block_tally tally;
    uint64_t at = HEADER;
    if (c->info.canonical)
        fill_begins(begins, &c->cut);
    for (size_t p = 0; p < c->n_blocks; p++) {
        const unsigned char *entry = from->bytes + s->index + p * ENTRY;
        if (read_block(&c->blocks[p], from, entry, &at, s->index, &c->cut, err) < 0)
            return KMF_EMODEL;
        const char *wrong = check_block(&tally, c, p, begins);
        if (wrong)
            return damaged(from, wrong, err);
        all.sum += tally.sum;
        if (all.sum < tally.sum)
            return damaged(from, "the sum of the counts exceeds 64 bits", err);
        all.distinct += tally.distinct;
        if (tally.smallest < all.smallest)
            all.smallest = tally.smallest;
    }
    if (at != s->index)
        return damaged(from, "bytes that belong to no block", err);
    return kmf_counts_info_check(&c->info, &all, from->name, err);
}

kmf_counts *kmf_countfile_read(const unsigned char *bytes, size_t len, const char *name,
                               kmf_err *err)
{
    source from = {bytes, len, name};
    kmf_counts_info info;
    shape s = {0};
    if (read_header(&from, &info, &s, err) < 0)
        return NULL;
    kmf_counts *c = kmf_counts_new(&info, err);
    if (!c)
        return NULL;
    c->own_bytes = false;
    if (check_index(&from, c, &s, err) < 0 || read_blocks(c, &from, &s, err) < 0) {
        kmf_counts_free(c);
        return NULL;
    }
    return c;
}
