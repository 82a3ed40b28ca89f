/* SPDX-License-Identifier: MIT */
/*
 * A gzip file, member after member (seq/inflate.h) to the last. BGZF, whose members are blocks of
 * 64 KB, is gzip and ends with an empty member, by which a file that was cut between two blocks is
 * known.
 */
#ifndef KMF_GUNZIP_H
#define KMF_GUNZIP_H

#include "kmerformer.h"

#include <stdbool.h>
#include <stddef.h>

struct hFILE;

typedef struct kmf_gunzip kmf_gunzip;

/* Does a file begin as gzip does? It stays at its first byte. */
bool kmf_gunzip_knows(struct hFILE *file);

/* Of a file at its first byte, borrowed. */
kmf_gunzip *kmf_gunzip_new(struct hFILE *file, kmf_err *err) KMF_MUST_CHECK;
void kmf_gunzip_free(kmf_gunzip *gunzip);

/*
 * The next bytes that the file inflates to: how many, 1 to room; 0: it ends, behind a whole member;
 * negative: KMF_EIO, or KMF_EFORMAT if the data is damaged or cut off, or something else than a
 * member, or zeros to the end, follows one. Messages give the reason only. What could be inflated
 * before a failure has been given out then, and the end and a failure stay.
 * room: 1 or more
 */
ptrdiff_t kmf_gunzip_read(kmf_gunzip *gunzip, void *to, size_t room,
                          kmf_err *err) KMF_MUST_CHECK;

#endif
