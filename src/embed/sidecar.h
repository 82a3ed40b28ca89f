/* SPDX-License-Identifier: MIT */
/* The rows' file beside an output, x.ids.tsv, as the writer and those who read it know it. */
#ifndef KMF_SIDECAR_H
#define KMF_SIDECAR_H

#include "kmerformer.h"

#include <stdbool.h>
#include <stdio.h>

#define KMF_IDS_HEADER "#index\tname\tlength\ttokens\tambiguous\tchunks"
#define KMF_IDS_HEADER_POSITION "\tposition" /* one vector per token */

/* KMF_EINVAL: a name with a tab or a line end, which would be two fields or lines. */
int kmf_row_check_name(const char *name, kmf_err *err) KMF_MUST_CHECK;

/* The lines of one, read back. */
typedef struct kmf_ids {
    char *path; /* owned */
    FILE *file; /* owned */
    char *line; /* owned */
    size_t cap;
    char *name_end; /* where kmf_ids_row has put a NUL for the tab; NULL: it has not */
    uint64_t n;     /* lines so far, without the header */
    bool per_token; /* rows have a position */
    int64_t record; /* of the last one that was asked for; -1: none */
} kmf_ids;

/* Of the table at path. 1: it is open; 0: there is none; KMF_EIO; KMF_EMODEL: another header. */
int kmf_ids_open(kmf_ids *ids, const char *path, kmf_err *err) KMF_MUST_CHECK;
/* Accepts a zeroed one, and one that could not be opened. */
void kmf_ids_close(kmf_ids *ids);
/* 1: there is a next line; 0: the end; KMF_EIO, KMF_ENOMEM; KMF_EMODEL: the last one is cut. */
int kmf_ids_next(kmf_ids *ids, kmf_err *err) KMF_MUST_CHECK;
/*
 * What it says, once; there is no vector, and the name is valid until the next one. KMF_EMODEL:
 * nothing of that kind, or a record before the last one, as where lines were sorted.
 */
int kmf_ids_row(kmf_ids *ids, kmf_row *row, kmf_err *err) KMF_MUST_CHECK;

/* The line of the row that was asked for, n bytes as they stand there; its name has no end byte. */
const char *kmf_ids_line(kmf_ids *ids, size_t *n);

#endif
