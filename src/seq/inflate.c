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

struct kmf_inflater {
    z_stream z; /* by zlib in any case: headers of members, and what is peeked at */
#ifdef KMF_ISAL
    bool in_header;
    struct inflate_state body;
    kmf_inflated failure; /* of the body, KMF_INFLATED_SOME: none */
#endif
};

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

kmf_inflater *kmf_inflater_new(kmf_err *err)
{
    kmf_inflater *i = kmf_calloc(1, sizeof *i, err);
    if (!i)
        return NULL;
    if (inflateInit2(&i->z, 16 + MAX_WBITS) != Z_OK) { /* 16: gzip */
        kmf_fail(err, KMF_ENOMEM, "out of memory: no room to decompress");
        kmf_free(i);
        return NULL;
    }
#ifdef KMF_ISAL
    isal_inflate_init(&i->body);
#endif
    return i;
}

void kmf_inflater_free(kmf_inflater *inflater)
{
    if (inflater)
        inflateEnd(&inflater->z);
    kmf_free(inflater);
}

kmf_inflated kmf_inflater_peek(kmf_inflater *inflater, kmf_inflating *s)
{
    return decode_by_zlib(&inflater->z, s, Z_NO_FLUSH);
}

#ifdef KMF_ISAL

/*
 * By ISA-L, but for the headers of members: it passes over reserved flags, and (2.30) finds a wrong
 * checksum in a header whose bytes come in two parts.
 */

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

const char *kmf_inflate_library(void)
{
    return "ISA-L " TEXT(ISAL_MAJOR_VERSION) "." TEXT(ISAL_MINOR_VERSION) "." TEXT(
        ISAL_PATCH_VERSION);
}

void kmf_inflater_begin(kmf_inflater *inflater)
{
    inflateReset(&inflater->z);
    isal_inflate_reset(&inflater->body);
    inflater->body.crc_flag = ISAL_GZIP_NO_HDR_VER;
    inflater->in_header = true;
    inflater->failure = KMF_INFLATED_SOME;
}

/* Before the failure comes what ISA-L had inflated, of which it gives out as much as has room. */
static kmf_inflated give_rest(kmf_inflater *i, kmf_inflating *s)
{
    struct inflate_state *body = &i->body;
    size_t rest = (size_t)(body->tmp_out_valid - body->tmp_out_processed);
    size_t n = kmf_min(rest, s->room);
    memcpy(s->to, body->tmp_out_buffer + body->tmp_out_processed, n);
    body->tmp_out_processed += (int32_t)n;
    s->to += n;
    s->room -= n;
    return n < rest ? KMF_INFLATED_SOME : i->failure;
}

kmf_inflated kmf_inflater_go(kmf_inflater *i, kmf_inflating *s)
{
    struct inflate_state *body = &i->body;
    if (i->failure != KMF_INFLATED_SOME)
        return give_rest(i, s);
    if (i->in_header) {
        kmf_inflated so_far = decode_by_zlib(&i->z, s, Z_BLOCK);
        i->in_header = !(i->z.data_type & 128); /* it has stopped there */
        if (i->in_header || so_far != KMF_INFLATED_SOME)
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
        i->failure =
            status == ISAL_INCORRECT_CHECKSUM ? KMF_INFLATED_OTHER : KMF_INFLATED_BADLY;
        return give_rest(i, s);
    }
    return body->block_state == ISAL_BLOCK_FINISH ? KMF_INFLATED_ALL : KMF_INFLATED_SOME;
}

#else

const char *kmf_inflate_library(void)
{
    return "zlib " ZLIB_VERSION;
}

void kmf_inflater_begin(kmf_inflater *inflater)
{
    inflateReset(&inflater->z);
}

kmf_inflated kmf_inflater_go(kmf_inflater *inflater, kmf_inflating *s)
{
    return kmf_inflater_peek(inflater, s);
}

#endif
