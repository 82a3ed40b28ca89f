/* SPDX-License-Identifier: MIT */
#include "seq/blocks.h"

#include "base/io.h"
#include "base/mem.h"

#include <string.h>
#include <sys/stat.h>

#define LEAST ((size_t)28)      /* bytes of a block: that of an empty one */
#define PACKED 3                /* times that DNA letters become shorter, or more */
#define MORE ((size_t)32 << 10) /* bytes that are read at a time if these were not enough */

static size_t two_bytes(const uint8_t *p)
{
    return (size_t)p[0] | (size_t)p[1] << 8;
}

/* Bytes of the block that has this header, 0 if it is none. */
static size_t block_bytes(const uint8_t *header)
{
    static const uint8_t magic[] = {KMF_GZIP_MAGIC, 0x8b, 8, 4};
    static const uint8_t extra[] = {6, 0, 'B', 'C', 2, 0};
    if (memcmp(header, magic, sizeof magic) != 0 ||
        memcmp(header + 10, extra, sizeof extra) != 0)
        return 0;
    size_t n = two_bytes(header + 16) + 1;
    return n < LEAST ? 0 : n;
}

bool kmf_blocks_knows(int file)
{
    struct stat st;
    uint8_t header[KMF_BLOCK_HEADER];
    size_t n;
    return file >= 0 && fstat(file, &st) == 0 && S_ISREG(st.st_mode) &&
           kmf_read_at(file, header, sizeof header, 0, &n) && n == sizeof header &&
           block_bytes(header) > 0;
}

int kmf_blocks_init(kmf_blocks *blocks, size_t most, kmf_err *err)
{
    size_t cap = most + KMF_BLOCK_MOST + KMF_BLOCK_HEADER;
    *blocks = (kmf_blocks){.in = kmf_malloc(cap, 1, err), .cap = cap};
    return blocks->in ? 0 : KMF_ENOMEM;
}

void kmf_blocks_free(kmf_blocks *blocks)
{
    kmf_free(blocks->in);
}

/* Of the bytes from blocks->at on, *n of which are there, n_wanted or, where the file ends, fewer. */
static bool read_to(kmf_blocks *b, int file, size_t *n, size_t n_wanted)
{
    size_t got;
    if (*n >= n_wanted)
        return true;
    size_t more = kmf_min(kmf_max(n_wanted - *n, MORE), b->cap - *n);
    if (!kmf_read_at(file, b->in + *n, more, b->at + *n, &got))
        return false;
    *n += got;
    return true;
}

bool kmf_blocks_read(kmf_blocks *blocks, int file, uint64_t at, size_t most)
{
    kmf_blocks *b = blocks;
    size_t n = 0; /* bytes that are there */
    b->at = at;
    b->n_in = b->n_out = 0;
    b->ends = false;
    if (!read_to(b, file, &n, kmf_min(most / PACKED, b->cap)))
        return false;
    while (!b->ends && b->n_in + KMF_BLOCK_MOST + KMF_BLOCK_HEADER <= b->cap) {
        if (!read_to(b, file, &n, b->n_in + KMF_BLOCK_HEADER) || n < b->n_in + KMF_BLOCK_HEADER)
            break;
        size_t size = block_bytes(b->in + b->n_in);
        size_t end = b->n_in + size;
        if (size == 0 || !read_to(b, file, &n, end + KMF_BLOCK_HEADER) || n < end)
            break;
        const uint8_t *tail = b->in + end - 4;
        size_t n_out = two_bytes(tail) | two_bytes(tail + 2) << 16;
        bool ends = n == end && n_out == 0;
        bool goes_on = n >= end + KMF_BLOCK_HEADER && block_bytes(b->in + end) > 0;
        if (n_out > most - b->n_out || !(ends || goes_on))
            break;
        b->n_in = end;
        b->n_out += n_out;
        b->ends = ends;
    }
    return b->n_in > 0;
}

bool kmf_blocks_inflate(const kmf_blocks *blocks, kmf_inflater *inflater, uint8_t *to)
{
    kmf_stretch s = {.in = blocks->in, .to = to, .room = blocks->n_out + 1};
    const uint8_t *end = blocks->in + blocks->n_in;
    while (s.in < end) {
        s.in_end = s.in + block_bytes(s.in);
        kmf_inflater_begin(inflater);
        if (kmf_inflater_go(inflater, &s) != KMF_INFLATED_ALL || s.in != s.in_end)
            return false;
    }
    return s.room == 1;
}
