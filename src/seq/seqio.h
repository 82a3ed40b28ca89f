/* SPDX-License-Identifier: MIT */
/* What the reader offers beyond the public header: to tests and fuzzers. */
#ifndef KMF_SEQIO_H
#define KMF_SEQIO_H

#include "kmerformer.h"

/*
 * A reader of `len` bytes, which are copied: the content of a file of any format that
 * kmf_reader_open reads. It is called "memory" in messages. pool may be NULL.
 */
kmf_reader *kmf_reader_open_memory(const void *bytes, size_t len, kmf_pool *pool,
                                   kmf_err *err) KMF_MUST_CHECK;

#endif
