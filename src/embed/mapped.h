/* SPDX-License-Identifier: MIT */
/* Vectors as `embed -o x.npy` leaves them, mapped, never held as a whole. */
#ifndef KMF_MAPPED_H
#define KMF_MAPPED_H

#include "base/io.h"
#include "kmerformer.h"

#include <stdbool.h>

typedef struct kmf_mapped_rows {
    const char *path; /* borrowed */
    kmf_map map;
    uint64_t n;
    size_t dim, element_bytes;
    size_t begin; /* of the first row, in bytes */
} kmf_mapped_rows;

/* KMF_EMODEL: no such array, or of another length. */
int kmf_mapped_rows_open(kmf_mapped_rows *rows, const char *path, kmf_err *err) KMF_MUST_CHECK;
/* Accepts a zeroed one. */
void kmf_mapped_rows_close(kmf_mapped_rows *rows);
/* x [dim] = row i. false: one of its numbers is not finite. */
bool kmf_mapped_rows_read(const kmf_mapped_rows *rows, uint64_t i, float *x);
/* Scales x [dim] to length 1; false, and x as it was: it is 0, or not finite. */
bool kmf_row_to_unit(float *x, size_t dim);
/* As kmf_mapped_rows_read; with unit x is scaled to length 1, and false if it is 0, too. */
bool kmf_mapped_rows_get(const kmf_mapped_rows *rows, uint64_t i, bool unit, float *x);

#endif
