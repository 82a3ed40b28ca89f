/* SPDX-License-Identifier: MIT */
/*
 * A .gzi is a number n and n pairs of 64 bits, little-endian: where a block begins in the file, and
 * in the text. The first block, at 0 and 0, is left out; that of the end may be there. A block is a
 * gzip member whose header tells its size, and whose last four bytes that of its text (SAM/BAM
 * format specification, 4.1), so a few bytes of each are enough to hold the two against each other.
 */
#include "seq/gzi.h"

#include "base/err.h"
#include "base/io.h"
#include "base/le.h"
#include "base/mem.h"
#include "seq/blocks.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INDEX_MOST ((size_t)1 << 32)
#define TAIL 4 /* of a block: the size of its text */

typedef struct walk {
    int file;
    uint64_t len;  /* of the file */
    uint64_t at;   /* where the block at hand begins */
    uint64_t text; /* the text before it */
    uint64_t size; /* of the block; 0: there is no more */
    uint64_t held; /* of its text */
} walk;

/* Of the block at w->at its size; false: there is no sound one. */
static bool look(walk *w)
{
    unsigned char header[KMF_BLOCK_HEADER];
    unsigned char tail[TAIL];
    w->size = 0;
    if (w->at == w->len)
        return true;
    if (pread(w->file, header, sizeof header, (off_t)w->at) != (ssize_t)sizeof header)
        return false;
    uint64_t size = kmf_block_bytes(header);
    if (size == 0 || size > w->len - w->at ||
        pread(w->file, tail, TAIL, (off_t)(w->at + size - TAIL)) != TAIL)
        return false;
    w->size = size;
    w->held = kmf_le_load32(tail);
    return true;
}

static bool next(walk *w)
{
    w->at += w->size;
    w->text += w->held;
    return look(w);
}

/* Every block that holds some text but the first has its pair, in order; others may have one. */
static bool agrees(walk *w, const unsigned char *index, size_t len, bool *sound)
{
    if (len < 8 || (len - 8) % 16 != 0 || kmf_le_load64(index) != (len - 8) / 16)
        return false;
    const unsigned char *pair = index + 8;
    const unsigned char *end = index + len;
    for (*sound = look(w); *sound && w->size > 0; *sound = next(w)) {
        bool here =
            pair < end && kmf_le_load64(pair) == w->at && kmf_le_load64(pair + 8) == w->text;
        if (!here && w->at > 0 && w->held > 0)
            return false;
        pair += here ? 16 : 0;
    }
    /* htslib notes the end as well, where the next block would be */
    while (*sound && pair < end && kmf_le_load64(pair) == w->at &&
           kmf_le_load64(pair + 8) == w->text)
        pair += 16;
    return pair == end;
}

int kmf_gzi_check(const char *path, const char *gzi, uint64_t *text, kmf_err *err)
{
    size_t len;
    struct stat st;
    bool sound = true;
    err = kmf_err_or(err, &(kmf_err){0});
    char *index = kmf_file_read(gzi, INDEX_MOST, &len, err);
    if (!index)
        return (int)err->code;
    walk w = {.file = open(path, O_RDONLY | O_CLOEXEC)};
    int status = 0;
    if (w.file < 0 || fstat(w.file, &st) != 0) {
        status = kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(errno));
    } else {
        w.len = (uint64_t)st.st_size;
        if (!agrees(&w, (const unsigned char *)index, len, &sound))
            status = sound ? kmf_fail(err, KMF_EFORMAT,
                                      "%s: not that of %s as it is: remove it, and it is made "
                                      "anew",
                                      gzi, path)
                           : kmf_fail(err, KMF_EFORMAT,
                                      "%s: the compressed data is truncated or damaged", path);
        *text = w.text;
    }
    if (w.file >= 0)
        close(w.file);
    kmf_free(index);
    return status;
}
