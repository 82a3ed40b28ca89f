/* SPDX-License-Identifier: MIT */
/*
 * Files that are read, as htslib opens them.
 */
#ifndef KMF_INPUT_H
#define KMF_INPUT_H

#include "kmerformer.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct hFILE;

/*
 * A local file, or standard input if path is "-", for htslib to read. A name is never taken for
 * a network address. KMF_EIO: no such file, a directory, no permission.
 */
struct hFILE *kmf_input_open(const char *path, kmf_err *err) KMF_MUST_CHECK;
/* The same; *descriptor: the file's, which it owns, -1 of standard input. */
struct hFILE *kmf_input_open_file(const char *path, int *descriptor,
                                  kmf_err *err) KMF_MUST_CHECK;

/* What messages call it: "-" is standard input. */
const char *kmf_input_name(const char *path);

/* Bytes in memory, which are copied, for htslib to read. */
struct hFILE *kmf_input_memory(const void *bytes, size_t len, kmf_err *err) KMF_MUST_CHECK;

/* Has text what some editors put before UTF-8? How many bytes it takes: 3 or 0. */
size_t kmf_byte_order_mark(const char *text, size_t n);

/* A file that is read, and may be cut or overwritten meanwhile. Zeroed: none. */
typedef struct kmf_watch {
    bool regular; /* a pipe has no size */
    int file;     /* descriptor, borrowed */
    off_t size;   /* when the watch began */
} kmf_watch;

kmf_watch kmf_watch_begin(int file);
/* Where the reading has come to its end: 0, or KMF_EIO if the file is shorter now. */
int kmf_watch_end(const kmf_watch *watch, kmf_err *err) KMF_MUST_CHECK;

#endif
