/* SPDX-License-Identifier: MIT */
/*
 * Members of gzip files (RFC 1952), one after the other, inflated by ISA-L if the program was built
 * with it, else by zlib, which takes two to three times as long. Both give the same bytes of what
 * is sound; of damaged data one may give more than the other before it fails.
 */
#ifndef KMF_INFLATE_H
#define KMF_INFLATE_H

#include "kmerformer.h"

#include <stddef.h>
#include <stdint.h>

#define KMF_GZIP_MAGIC 0x1f /* the first byte of a member */

typedef struct kmf_inflater kmf_inflater;

typedef enum kmf_inflated {
    KMF_INFLATED_SOME,  /* as far as there is input, or room */
    KMF_INFLATED_ALL,   /* the member, whose checksum and length are right */
    KMF_INFLATED_BADLY, /* it is damaged, */
    KMF_INFLATED_OTHER, /* or has another checksum or length, */
    KMF_INFLATED_NONE   /* or is none */
} kmf_inflated;

/* Where it reads from, in .. in_end - 1, and writes to, how many bytes; both below 4 GB. */
typedef struct kmf_inflating {
    const uint8_t *in, *in_end;
    uint8_t *to;
    size_t room;
} kmf_inflating;

/* Name and version of what inflates. */
const char *kmf_inflate_library(void);

kmf_inflater *kmf_inflater_new(kmf_err *err) KMF_MUST_CHECK;
void kmf_inflater_free(kmf_inflater *inflater);

/* The next byte is the first of a member. */
void kmf_inflater_begin(kmf_inflater *inflater);
/* Goes on where it was; s is moved on by what was read and written. Not beyond the member. */
kmf_inflated kmf_inflater_go(kmf_inflater *inflater, kmf_inflating *s);
/*
 * The same, where no more than the beginning of a member is wanted: by zlib in any case, which
 * stops where it is to, while ISA-L inflates 64 KB to give out some. It refuses some sets of codes
 * that ISA-L takes. Not by turns with the other.
 */
kmf_inflated kmf_inflater_peek(kmf_inflater *inflater, kmf_inflating *s);

#endif
