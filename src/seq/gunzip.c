/* SPDX-License-Identifier: MIT */
#include "seq/gunzip.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "seq/inflate.h"

#include <htslib/hfile.h>

#define INPUT ((size_t)1 << 17)
#define BLOCK_HEADER 16 /* bytes by which a block is known */

struct kmf_gunzip {
    hFILE *file;   /* borrowed */
    bool bgzf;     /* the member is a block of it */
    bool between;  /* members: the next byte is the first of another one, or there is none */
    bool empty;    /* the member so far */
    kmf_err error; /* code: KMF_OK if there was none */
    const uint8_t *in, *in_end; /* what was read and not yet inflated, of bytes */
    kmf_inflater *inflater;     /* owned */
    uint8_t bytes[INPUT];
};

bool kmf_gunzip_knows(hFILE *file)
{
    unsigned char magic[2];
    return hpeek(file, magic, 2) == 2 && magic[0] == KMF_GZIP_MAGIC && magic[1] == 0x8b;
}

kmf_gunzip *kmf_gunzip_new(hFILE *file, kmf_err *err)
{
    kmf_gunzip *g = kmf_calloc(1, sizeof *g, err);
    if (!g)
        return NULL;
    g->file = file;
    g->between = true;
    g->inflater = kmf_inflater_new(err);
    if (g->inflater)
        return g;
    kmf_free(g);
    return NULL;
}

void kmf_gunzip_free(kmf_gunzip *gunzip)
{
    if (gunzip)
        kmf_inflater_free(gunzip->inflater);
    kmf_free(gunzip);
}

/* Reads on behind what is not yet inflated. */
static void read_more(kmf_gunzip *g)
{
    size_t n = (size_t)(g->in_end - g->in);
    if (n > 0)
        memmove(g->bytes, g->in, n);
    ssize_t more = hread(g->file, g->bytes + n, INPUT - n);
    if (more < 0)
        kmf_fail(&g->error, KMF_EIO, "%s", strerror(errno));
    g->in = g->bytes;
    g->in_end = g->bytes + n + (more > 0 ? more : 0);
}

/* Bytes to inflate: true if there are some, false at the end of the file and if it fails. */
static bool has_input(kmf_gunzip *g)
{
    if (g->in == g->in_end)
        read_more(g);
    return g->in < g->in_end;
}

static void note(kmf_gunzip *g, kmf_inflated what)
{
    if (what == KMF_INFLATED_ALL)
        g->between = true;
    if (what == KMF_INFLATED_BADLY)
        kmf_fail(&g->error, KMF_EFORMAT, "the compressed data is truncated or damaged");
    if (what == KMF_INFLATED_OTHER)
        kmf_fail(&g->error, KMF_EFORMAT, "the checksum of the compressed data is wrong");
    if (what == KMF_INFLATED_NONE)
        kmf_fail(&g->error, KMF_EFORMAT,
                 "the compressed data is followed by something that does not belong to it");
}

/* Inflates what has been read: how many bytes, 0 if more has to be read for them. */
static size_t inflate_some(kmf_gunzip *g, void *to, size_t room)
{
    kmf_inflating s = {.in = g->in, .in_end = g->in_end, .to = to, .room = room};
    note(g, kmf_inflater_go(g->inflater, &s));
    g->in = s.in;
    g->empty = g->empty && s.room == room;
    return room - s.room;
}

/* Tapes fill their last block with zeros, which say nothing; nothing may come behind them. */
static void pass_padding(kmf_gunzip *g)
{
    bool padded = false;
    while (has_input(g) && *g->in == 0) {
        padded = true;
        g->in++;
    }
    if (padded && has_input(g))
        note(g, KMF_INFLATED_NONE);
}

/* A block of BGZF has an extra field that begins with its own size, in two bytes called BC. */
static bool is_block(kmf_gunzip *g)
{
    if (g->in_end - g->in < BLOCK_HEADER) /* the rest of it is not read yet */
        read_more(g);
    return g->in_end - g->in >= BLOCK_HEADER && (g->in[3] & 4) &&
           memcmp(g->in + 12, "BC\2", 4) == 0;
}

/* The next member's begin; false at the end of the file, and if that is too early. */
static bool next_member(kmf_gunzip *g)
{
    pass_padding(g);
    if (g->error.code != KMF_OK)
        return false;
    if (!has_input(g)) {
        if (g->bgzf && !g->empty)
            kmf_fail(&g->error, KMF_EFORMAT,
                     "truncated: the BGZF end-of-file marker is missing");
        return false;
    }
    if (*g->in != KMF_GZIP_MAGIC) {
        note(g, KMF_INFLATED_NONE);
        return false;
    }
    g->bgzf = is_block(g);
    kmf_inflater_begin(g->inflater);
    g->between = false;
    g->empty = true;
    return g->error.code == KMF_OK;
}

ptrdiff_t kmf_gunzip_read(kmf_gunzip *g, void *to, size_t room, kmf_err *err)
{
    room = kmf_min(room, INT32_MAX);
    while (g->error.code == KMF_OK) {
        if (g->between && !next_member(g))
            break;
        size_t n = inflate_some(g, to, room);
        if (n > 0)
            return (ptrdiff_t)n;
        if (!g->between && g->error.code == KMF_OK && !has_input(g))
            note(g, KMF_INFLATED_BADLY);
    }
    return g->error.code == KMF_OK ? 0 : kmf_fail(err, g->error.code, "%s", g->error.msg);
}
