/* SPDX-License-Identifier: MIT */
#include "seq/blocks.h"

#include "base/io.h"
#include "base/le.h"
#include "base/mem.h"

#include <string.h>
#include <sys/stat.h>

#define LEAST ((size_t)28)      /* bytes of a block: that of an empty one */
#define PACKED 3                /* times that DNA letters become shorter, or more */
#define MORE ((size_t)32 << 10) /* bytes that are read at a time if these were not enough */

size_t kmf_block_bytes(const uint8_t *header)
{
    static const uint8_t magic[] = {KMF_GZIP_MAGIC, 0x8b, 8, 4};
    static const uint8_t extra[] = {6, 0, 'B', 'C', 2, 0};
    if (memcmp(header, magic, sizeof magic) != 0 ||
        memcmp(header + 10, extra, sizeof extra) != 0)
        return 0;
    size_t n = (size_t)kmf_le_load16(header + 16) + 1;
    return n < LEAST ? 0 : n;
}

bool kmf_blocks_knows(int file)
{
    struct stat st;
    uint8_t header[KMF_BLOCK_HEADER];
    size_t n;
    return file >= 0 && fstat(file, &st) == 0 && S_ISREG(st.st_mode) &&
           kmf_read_at(file, header, sizeof header, 0, &n) && n == sizeof header &&
           kmf_block_bytes(header) > 0;
}

size_t kmf_blocks_bytes(size_t most)
{
    return most + 2 * KMF_BLOCK_MOST;
}

int kmf_blocks_init(kmf_blocks *blocks, size_t most, kmf_err *err)
{
    size_t cap = kmf_blocks_bytes(most);
    *blocks = (kmf_blocks){.in = kmf_malloc(cap, 1, err)};
    if (!blocks->in)
        return KMF_ENOMEM;
    blocks->cap = cap;
    return 0;
}

void kmf_blocks_free(kmf_blocks *blocks)
{
    kmf_free(blocks->in);
}

/* Of the bytes from b->at on, *n of which are there, n_wanted or, to the file's end, fewer. */
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

bool kmf_blocks_read(kmf_blocks *b, int file, uint64_t at, size_t most)
{
    size_t there = 0; /* bytes */
    size_t in = 0;
    size_t out = 0;
    b->at = at;
    b->n = 0;
    b->ends = false;
    if (!read_to(b, file, &there, kmf_min(most / PACKED, b->cap)))
        return false;
    while (!b->ends && b->n < KMF_BLOCKS_MOST && in + 2 * KMF_BLOCK_MOST <= b->cap) {
        if (!read_to(b, file, &there, in + KMF_BLOCK_HEADER) || there < in + KMF_BLOCK_HEADER)
            break;
        size_t n_in = kmf_block_bytes(b->in + in);
        size_t end = in + n_in;
        if (n_in == 0 || !read_to(b, file, &there, end + KMF_BLOCK_HEADER) || there < end)
            break;
        size_t n_out = kmf_le_load32(b->in + end - 4);
        bool ends = there == end && n_out == 0;
        bool goes_on = there >= end + KMF_BLOCK_HEADER && kmf_block_bytes(b->in + end) > 0;
        if (n_out > KMF_BLOCK_MOST || n_out > most - out || !(ends || goes_on))
            break;
        in = b->ins[b->n] = end;
        out = b->outs[b->n] = out + n_out;
        b->n++;
        b->ends = ends;
    }
    return b->n > 0;
}

bool kmf_blocks_inflate(const kmf_blocks *blocks, size_t n, kmf_inflater *inflater, uint8_t *to)
{
    kmf_inflating s = {.in = blocks->in, .to = to, .room = blocks->outs[n - 1] + 1};
    for (size_t i = 0; i < n; i++) {
        s.in_end = blocks->in + blocks->ins[i];
        kmf_inflater_begin(inflater);
        if (kmf_inflater_go(inflater, &s) != KMF_INFLATED_ALL || s.in != s.in_end)
            return false;
    }
    return s.room == 1;
}

bool kmf_blocks_peek(const kmf_blocks *blocks, size_t first, kmf_inflater *inflater,
                     uint8_t *to, size_t n_bytes)
{
    kmf_inflating s = {.to = to, .room = n_bytes};
    for (size_t i = first; s.room > 0 && i < blocks->n; i++) {
        s.in = blocks->in + (i > 0 ? blocks->ins[i - 1] : 0);
        s.in_end = blocks->in + blocks->ins[i];
        kmf_inflater_begin(inflater);
        kmf_inflated how = kmf_inflater_peek(inflater, &s);
        if (how != KMF_INFLATED_ALL && (how != KMF_INFLATED_SOME || s.room > 0))
            return false;
    }
    return s.room == 0;
}
