/* SPDX-License-Identifier: MIT */
/*
 * BGZF in blocks on any bytes: what they inflate to is what the same file does as gzip, from its
 * beginning on, and if they are the whole file that is sound and ends there, too. Of any block the
 * first bytes are those of the whole.
 */
#include "base/mem.h"
#include "fuzzing.h"
#include "seq/blocks.h"
#include "seq/gunzip.h"
#include "seq/input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <htslib/hfile.h>

#define MOST_BYTES ((size_t)1 << 18)
#define AT_ONCE (3 * KMF_BLOCK_MOST)

/* The bytes that come next are the next ones of gzip, too. */
static void must_follow(kmf_gunzip *gzip, const uint8_t *bytes, size_t n)
{
    static uint8_t same[AT_ONCE];
    size_t got = 0;
    while (got < n) {
        ptrdiff_t more = kmf_gunzip_read(gzip, same + got, n - got, NULL);
        if (more <= 0)
            abort();
        got += (size_t)more;
    }
    if (n > 0 && memcmp(same, bytes, n) != 0)
        abort();
}

/* zlib refuses sets of codes that ISA-L takes, so that the first bytes may be refused. */
static void may_begin(const kmf_blocks *b, size_t first, kmf_inflater *inflater,
                      const uint8_t *bytes)
{
    static uint8_t some[AT_ONCE];
    size_t beg = first > 0 ? b->outs[first - 1] : 0;
    size_t n = (b->outs[b->n - 1] - beg) / 3;
    if (n > 0 && kmf_blocks_peek(b, first, inflater, some, n) &&
        memcmp(some, bytes + beg, n) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t out[AT_ONCE + 1];
    static FILE *file;
    kmf_blocks b;
    uint64_t at = 0;
    if (!file)
        file = tmpfile();
    if (!file || size > MOST_BYTES || ftruncate(fileno(file), 0) < 0 ||
        pwrite(fileno(file), data, size, 0) != (ssize_t)size)
        return 0;
    hFILE *whole = kmf_input_memory(data, size, NULL);
    kmf_gunzip *gzip = whole ? kmf_gunzip_new(whole, NULL) : NULL;
    kmf_inflater *inflater = kmf_inflater_new(NULL);
    if (!gzip || !inflater || kmf_blocks_init(&b, AT_ONCE, NULL) < 0)
        abort();
    size_t most = size % 2 ? KMF_BLOCK_MOST : AT_ONCE;
    while (kmf_blocks_read(&b, fileno(file), at, most) &&
           kmf_blocks_inflate(&b, b.n, inflater, out)) {
        must_follow(gzip, out, b.outs[b.n - 1]);
        may_begin(&b, size % b.n, inflater, out);
        at += b.ins[b.n - 1];
        if (!b.ends)
            continue;
        if (at != size || kmf_gunzip_read(gzip, out, 1, NULL) != 0)
            abort();
        break;
    }
    kmf_blocks_free(&b);
    kmf_inflater_free(inflater);
    kmf_gunzip_free(gzip);
    hclose_abruptly(whole);
    return 0;
}
