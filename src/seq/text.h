/* SPDX-License-Identifier: MIT */
/* Bytes that grow, and files that are held whole. */
#ifndef KMF_TEXT_H
#define KMF_TEXT_H

#include "kmerformer.h"

#include <stddef.h>

/* All zero is an empty one. */
typedef struct kmf_text {
    char *bytes; /* owned by whoever holds the text; freed by kmf_free */
    size_t len;
    size_t cap;
} kmf_text;

/* Makes room for n more bytes and a NUL. 0 or KMF_ENOMEM. */
int kmf_text_reserve(kmf_text *text, size_t n, kmf_err *err) KMF_MUST_CHECK;
/* Adds n bytes, and a NUL that does not count. 0 or KMF_ENOMEM. */
int kmf_text_append(kmf_text *text, const char *bytes, size_t n, kmf_err *err) KMF_MUST_CHECK;

/*
 * Adds what a file holds once it is inflated, and a NUL that does not count; "-" is standard input.
 * KMF_EMODEL: that is more than `most` bytes.
 */
int kmf_text_load(kmf_text *text, const char *path, size_t most, kmf_err *err) KMF_MUST_CHECK;

#endif
