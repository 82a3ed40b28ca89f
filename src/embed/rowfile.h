/* SPDX-License-Identifier: MIT */
/* Rows that were made before, in any order. */
#ifndef KMF_ROWFILE_H
#define KMF_ROWFILE_H

#include "kmerformer.h"

/* x [dim] = row 0 .. n - 1 */
void kmf_row_file_vector(const kmf_row_file *file, uint64_t row, float *x);

#endif
