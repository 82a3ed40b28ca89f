/* SPDX-License-Identifier: MIT */
#include "seq/inflate.h"

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <string.h>

#include <zlib.h>

#ifdef KMF_ISAL
#include <isa-l.h>
#endif

/* ---------------------------------------------------------------- by zlib --------------- */

static bool open_zlib(z_stream *z)
{
    return inflateInit2(z, 16 + MAX_WBITS) == Z_OK; /* 16: gzip */
}

/* flush Z_BLOCK: stops where a header ends. */
static kmf_inflated decode_by_zlib(z_stream *z, kmf_inflating *s, int flush)
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
        return KMF_INFLATED_NONE;
    if (status == Z_DATA_ERROR && z->msg && strncmp(z->msg, "incorrect ", 10) == 0)
        return KMF_INFLATED_OTHER; /* or length */
    if (status == Z_STREAM_END)
        return KMF_INFLATED_ALL;
    return status == Z_OK || status == Z_BUF_ERROR ? KMF_INFLATED_SOME : KMF_INFLATED_BADLY;
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
    kmf_inflated failure; /* of the body, KMF_INFLATED_SOME: none */
} decoder;

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *kmf_inflate_library(void)
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
    d->failure = KMF_INFLATED_SOME;
}

static void end(decoder *d)
{
    inflateEnd(&d->header);
}

static kmf_inflated peek(decoder *d, kmf_inflating *s)
{
    return decode_by_zlib(&d->header, s, Z_NO_FLUSH);
}

/* Before the failure comes what ISA-L had inflated, of which it gives out as much as has room. */
static kmf_inflated give_rest(decoder *d, kmf_inflating *s)
{
    struct inflate_state *body = &d->body;
    size_t rest = (size_t)(body->tmp_out_valid - body->tmp_out_processed);
    size_t n = kmf_min(rest, s->room);
    memcpy(s->to, body->tmp_out_buffer + body->tmp_out_processed, n);
    body->tmp_out_processed += (int32_t)n;
    s->to += n;
    s->room -= n;
    return n < rest ? KMF_INFLATED_SOME : d->failure;
}

static kmf_inflated decode(decoder *d, kmf_inflating *s)
{
    struct inflate_state *body = &d->body;
    if (d->failure != KMF_INFLATED_SOME)
        return give_rest(d, s);
    if (d->in_header) {
        kmf_inflated so_far = decode_by_zlib(&d->header, s, Z_BLOCK);
        d->in_header = !(d->header.data_type & 128); /* it has stopped there */
        if (d->in_header || so_far != KMF_INFLATED_SOME)
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
    if (status != ISAL_DECOMP_OK) {
        d->failure =
            status == ISAL_INCORRECT_CHECKSUM ? KMF_INFLATED_OTHER : KMF_INFLATED_BADLY;
        return give_rest(d, s);
    }
    return body->block_state == ISAL_BLOCK_FINISH ? KMF_INFLATED_ALL : KMF_INFLATED_SOME;
}

#else

typedef z_stream decoder;

const char *kmf_inflate_library(void)
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

static kmf_inflated peek(decoder *d, kmf_inflating *s)
{
    return decode_by_zlib(d, s, Z_NO_FLUSH);
}

static kmf_inflated decode(decoder *d, kmf_inflating *s)
{
    return peek(d, s);
}

#endif

/* ---------------------------------------------------------------- one of them ----------- */

struct kmf_inflater {
    bool begun; /* the decoder is there */
    decoder decoder;
};

kmf_inflater *kmf_inflater_new(kmf_err *err)
{
    kmf_inflater *i = kmf_calloc(1, sizeof *i, err);
    if (!i)
        return NULL;
    i->begun = begin(&i->decoder);
    if (i->begun)
        return i;
    kmf_fail(err, KMF_ENOMEM, "out of memory: no room to decompress");
    kmf_inflater_free(i);
    return NULL;
}

void kmf_inflater_free(kmf_inflater *inflater)
{
    if (inflater && inflater->begun)
        end(&inflater->decoder);
    kmf_free(inflater);
}

void kmf_inflater_begin(kmf_inflater *inflater)
{
    begin_member(&inflater->decoder);
}

kmf_inflated kmf_inflater_go(kmf_inflater *inflater, kmf_inflating *s)
{
    return decode(&inflater->decoder, s);
}

kmf_inflated kmf_inflater_peek(kmf_inflater *inflater, kmf_inflating *s)
{
    return peek(&inflater->decoder, s);
}
