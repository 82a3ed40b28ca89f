/* SPDX-License-Identifier: MIT */
/* Files: read as a whole or in part, written to at a place, and read-only maps. */
#ifndef KMF_IO_H
#define KMF_IO_H

#include "kmerformer.h"

#include <stdbool.h>

/* The whole file, NUL-terminated, at most limit bytes (KMF_EMODEL beyond). Freed by kmf_free. */
char *kmf_file_read(const char *path, size_t limit, size_t *len_bytes,
                    kmf_err *err) KMF_MUST_CHECK;

/*
 * 1: there is something at path; 0: nothing. A link to nothing is KMF_EIO: hubs keep models
 * as links, which are broken by copying a folder alone; so is a pipe, whose reader would wait.
 */
int kmf_file_there(const char *path, kmf_err *err) KMF_MUST_CHECK;

/* Up to n bytes of a file from `at` on, fewer at its end; false: errno says why not. */
bool kmf_read_at(int fd, void *to, size_t n, uint64_t at, size_t *got) KMF_MUST_CHECK;
/* All n bytes; false: errno says why not. */
bool kmf_write_at(int fd, const void *bytes, size_t n, uint64_t at) KMF_MUST_CHECK;

/* Which file it is, and its last change. */
typedef struct kmf_stamp {
    uint64_t device, inode, size;
    int64_t seconds, nanoseconds;
} kmf_stamp;

/*
 * A read-only map of a regular file. What others write to the file meanwhile shows in it; one that
 * takes its name does not.
 */
typedef struct kmf_map {
    const unsigned char *bytes; /* NULL if len is 0 */
    size_t len;
    char *path;      /* owned; NULL: no file's */
    kmf_stamp stamp; /* the file's, when it was opened */
} kmf_map;

int kmf_map_open(kmf_map *map, const char *path, kmf_err *err) KMF_MUST_CHECK;
/* KMF_EIO: the file was written to since. */
int kmf_map_check(const kmf_map *map, kmf_err *err) KMF_MUST_CHECK;
/* Accepts a zeroed map. */
void kmf_map_close(kmf_map *map);

#endif
