/* SPDX-License-Identifier: MIT */
#include "seq/gunzip.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"

#include <htslib/hfile.h>

#include <zlib.h>

#ifdef KMF_ISAL
#include <isa-l.h>
#endif

#define INPUT ((size_t)1 << 17)
#define MAGIC 0x1f /* the first byte of a member */

typedef enum outcome { GOES_ON, MEMBER_ENDS, DAMAGED, OTHER_CHECKSUM, NO_MEMBER } outcome;

/* A decoder goes on where it was: from in .. in_end - 1 to `room` bytes. It takes what it needs. */
typedef struct stretch {
    const uint8_t *in, *in_end;
    uint8_t *to;
    size_t room;
} stretch;

/* ---------------------------------------------------------------- by zlib --------------- */

static bool open_zlib(z_stream *z)
{
    return inflateInit2(z, 16 + MAX_WBITS) == Z_OK; /* 16: gzip */
}

/* flush Z_BLOCK: stops where a header ends. */
static outcome decode_by_zlib(z_stream *z, stretch *s, int flush)
{
    z->next_in = (uint8_t *)(uintptr_t)s->in; /* which it does not write to */
    z->avail_in = (uInt)(s->in_end - s->in);
    z->next_out = s->to;
    z->avail_out = (uInt)s->room;
    int status = inflate(z, flush);
    s->in = z->next_in;
    s->to = z->next_out;
    s->room = z->avail_out;
    if (status == Z_DATA_ERROR && z->msg && strcmp(z->msg, "incorrect header check") == 0)
        return NO_MEMBER;
    if (status == Z_DATA_ERROR && z->msg && strncmp(z->msg, "incorrect ", 10) == 0)
        return OTHER_CHECKSUM; /* or length */
    if (status == Z_STREAM_END)
        return MEMBER_ENDS;
    return status == Z_OK || status == Z_BUF_ERROR ? GOES_ON : DAMAGED;
}

#ifdef KMF_ISAL

/*
 * By ISA-L, but for the headers of members: it passes over reserved flags, and (2.30) finds a wrong
 * checksum in a header whose bytes come in two parts.
 */
typedef struct decoder {
    z_stream header;
    bool in_header;
    struct inflate_state body;
} decoder;

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *kmf_gunzip_library(void)
{
    return "ISA-L " TEXT(ISAL_MAJOR_VERSION) "." TEXT(ISAL_MINOR_VERSION) "." TEXT(
        ISAL_PATCH_VERSION);
}

static bool begin(decoder *d)
{
    isal_inflate_init(&d->body);
    return open_zlib(&d->header);
}

static void begin_member(decoder *d)
{
    inflateReset(&d->header);
    isal_inflate_reset(&d->body);
    d->body.crc_flag = ISAL_GZIP_NO_HDR_VER;
    d->in_header = true;
}

static void end(decoder *d)
{
    inflateEnd(&d->header);
}

static outcome decode(decoder *d, stretch *s)
{
    struct inflate_state *body = &d->body;
    if (d->in_header) {
        outcome so_far = decode_by_zlib(&d->header, s, Z_BLOCK);
        d->in_header = !(d->header.data_type & 128); /* it has stopped there */
        if (d->in_header || so_far != GOES_ON)
            return so_far;
    }
    body->next_in = (uint8_t *)(uintptr_t)s->in; /* which it does not write to */
    body->avail_in = (uint32_t)(s->in_end - s->in);
    body->next_out = s->to;
    body->avail_out = (uint32_t)s->room;
    int status = isal_inflate(body);
    s->in = body->next_in;
    s->to = body->next_out;
    s->room = body->avail_out;
    if (status != ISAL_DECOMP_OK)
        return status == ISAL_INCORRECT_CHECKSUM ? OTHER_CHECKSUM : DAMAGED;
    return body->block_state == ISAL_BLOCK_FINISH ? MEMBER_ENDS : GOES_ON;
}

#else

typedef z_stream decoder;

const char *kmf_gunzip_library(void)
{
    return "zlib " ZLIB_VERSION;
}

static bool begin(decoder *d)
{
    return open_zlib(d);
}

static void begin_member(decoder *d)
{
    inflateReset(d);
}

static void end(decoder *d)
{
    inflateEnd(d);
}

static outcome decode(decoder *d, stretch *s)
{
    return decode_by_zlib(d, s, Z_NO_FLUSH);
}

#endif

/* ---------------------------------------------------------------- the file -------------- */

struct kmf_gunzip {
    hFILE *file; /* borrowed */
    bool bgzf;
    bool begun;    /* the decoder is there */
    bool between;  /* members: the next byte is the first of another one, or there is none */
    bool empty;    /* the member so far */
    kmf_err error; /* code: KMF_OK if there was none */
    const uint8_t *in, *in_end; /* what was read and not yet inflated, of bytes */
    decoder decoder;
    uint8_t bytes[INPUT];
};

bool kmf_gunzip_knows(hFILE *file)
{
    unsigned char magic[2];
    return hpeek(file, magic, 2) == 2 && magic[0] == MAGIC && magic[1] == 0x8b;
}

/* The first member has an extra field that begins with its own size, in two bytes called BC. */
static bool is_bgzf(hFILE *file)
{
    unsigned char header[16];
    return hpeek(file, header, sizeof header) == sizeof header && (header[3] & 4) &&
           memcmp(header + 12, "BC\2", 4) == 0;
}

kmf_gunzip *kmf_gunzip_new(hFILE *file, kmf_err *err)
{
    kmf_gunzip *g = kmf_calloc(1, sizeof *g, err);
    if (!g)
        return NULL;
    g->file = file;
    g->bgzf = is_bgzf(file);
    g->between = true;
    g->begun = begin(&g->decoder);
    if (g->begun)
        return g;
    kmf_fail(err, KMF_ENOMEM, "out of memory: no room to decompress");
    kmf_gunzip_free(g);
    return NULL;
}

void kmf_gunzip_free(kmf_gunzip *gunzip)
{
    if (gunzip && gunzip->begun)
        end(&gunzip->decoder);
    kmf_free(gunzip);
}

/* Bytes to inflate: true if there are some, false at the end of the file and if it fails. */
static bool has_input(kmf_gunzip *g)
{
    if (g->in < g->in_end)
        return true;
    ssize_t n = hread(g->file, g->bytes, INPUT);
    if (n < 0)
        kmf_fail(&g->error, KMF_EIO, "%s", strerror(errno));
    g->in = g->bytes;
    g->in_end = g->bytes + (n > 0 ? n : 0);
    return n > 0;
}

static void note(kmf_gunzip *g, outcome what)
{
    if (what == MEMBER_ENDS)
        g->between = true;
    if (what == DAMAGED)
        kmf_fail(&g->error, KMF_EFORMAT, "the compressed data is truncated or damaged");
    if (what == OTHER_CHECKSUM)
        kmf_fail(&g->error, KMF_EFORMAT, "the checksum of the compressed data is wrong");
    if (what == NO_MEMBER)
        kmf_fail(&g->error, KMF_EFORMAT,
                 "the compressed data is followed by something that does not belong to it");
}

/* Inflates what has been read: how many bytes, 0 if more has to be read for them. */
static size_t inflate_some(kmf_gunzip *g, void *to, size_t room)
{
    stretch s = {.in = g->in, .in_end = g->in_end, .to = to, .room = room};
    note(g, decode(&g->decoder, &s));
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
        note(g, NO_MEMBER);
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
    if (*g->in != MAGIC) {
        note(g, NO_MEMBER);
        return false;
    }
    begin_member(&g->decoder);
    g->between = false;
    g->empty = true;
    return true;
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
            note(g, DAMAGED);
    }
    return g->error.code == KMF_OK ? 0 : kmf_fail(err, g->error.code, "%s", g->error.msg);
}
