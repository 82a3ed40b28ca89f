/* SPDX-License-Identifier: MIT */
/*
 * An input as pieces of plain bytes, whatever it was compressed with. Messages of
 * kmf_bytes_next give the reason only; the caller knows the place and puts it before.
 */
#ifndef KMF_BYTES_H
#define KMF_BYTES_H

#include "seq/input.h"

#include "kmerformer.h"

#include <stddef.h>

typedef struct kmf_bytes kmf_bytes;

/*
 * Takes over `file`, on failure too. With a pool (may be NULL) inflating runs some pieces ahead, as
 * a job on it, or as several for BGZF.
 * descriptor: of `file`, at its beginning; -1: none is known
 */
kmf_bytes *kmf_bytes_open(struct hFILE *file, int descriptor, kmf_pool *pool,
                          kmf_err *err) KMF_MUST_CHECK;
/* A file, or standard input if path is "-", from its beginning; the caller inflates it. */
kmf_bytes *kmf_bytes_open_path(const char *path, kmf_err *err) KMF_MUST_CHECK;
void kmf_bytes_close(kmf_bytes *bytes);

/*
 * Bytes of the file that the pieces before the one at hand have taken, about: as if those ahead
 * were alike. descriptor: as of kmf_bytes_open.
 */
uint64_t kmf_bytes_taken(kmf_bytes *bytes, int descriptor);

/* As kmf_bytes_next, which then gives the same piece again. */
int kmf_bytes_peek(kmf_bytes *bytes, const char **piece, size_t *len,
                   kmf_err *err) KMF_MUST_CHECK;

/*
 * 1: *piece has *len > 0 bytes, borrowed until the next call; 0: the end, and the input is
 * sound; negative: KMF_EIO or, if the compressed data is damaged or cut off, KMF_EFORMAT. All
 * that could be inflated has been handed out by then. The end and a failure stay.
 */
int kmf_bytes_next(kmf_bytes *bytes, const char **piece, size_t *len,
                   kmf_err *err) KMF_MUST_CHECK;

/*
 * For whoever has met nonsense: may it come of damage? Negative, as kmf_bytes_next: compressed data
 * fails in what comes next, 64 MB at most; 0: not there. Nothing can be read any more.
 */
int kmf_bytes_look_for_damage(kmf_bytes *bytes, kmf_err *err) KMF_MUST_CHECK;

#endif
