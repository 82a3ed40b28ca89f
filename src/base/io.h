/* SPDX-License-Identifier: MIT */
/*
 * Files: whole-file reading, read-only maps, and outputs that appear under their final name only
 * when they are complete and on disk.
 */
#ifndef KMF_IO_H
#define KMF_IO_H

#include "kmerformer.h"

#include <stdbool.h>

/* The whole file, NUL-terminated, at most limit bytes (KMF_EMODEL beyond). Freed by kmf_free. */
char *kmf_file_read(const char *path, size_t limit, size_t *len_bytes,
                    kmf_err *err) KMF_MUST_CHECK;

/* A read-only map of a regular file. */
typedef struct kmf_map {
    const unsigned char *bytes; /* NULL if len is 0 */
    size_t len;
} kmf_map;

int kmf_map_open(kmf_map *map, const char *path, kmf_err *err) KMF_MUST_CHECK;
/* Accepts a zeroed map. */
void kmf_map_close(kmf_map *map);

/* Of the outputs of output.h: */

/* Writes n bytes over the first n of the file. Not on standard output, not compressed. */
int kmf_out_patch(kmf_out *out, const void *data, size_t n, kmf_err *err) KMF_MUST_CHECK;
/* Takes a published file back: for sets of files that appear together or not at all. */
void kmf_out_withdraw(kmf_out *out);

/* path with its extension (.npy .tsv .tsv.gz) replaced by suffix. Freed by kmf_free. */
char *kmf_sidecar(const char *path, const char *suffix, kmf_err *err) KMF_MUST_CHECK;

bool kmf_ends_with(const char *s, const char *suffix);

/* Does path exist and is no regular file: a pipe, a device? Such are written in place. */
bool kmf_path_is_special(const char *path);

#endif
