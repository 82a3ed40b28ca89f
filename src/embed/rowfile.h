/* SPDX-License-Identifier: MIT */
/* Rows that were made before, names and vectors each by themselves. */
#ifndef KMF_ROWFILE_H
#define KMF_ROWFILE_H

#include "kmerformer.h"

/* As kmf_row_file_next, without the vector. */
int kmf_row_file_line(kmf_row_file *file, kmf_row *row, kmf_err *err) KMF_MUST_CHECK;
/* How many rows were read so far, with or without their vectors. */
uint64_t kmf_row_file_at(const kmf_row_file *file);
/* x [dim] = row 0 .. n - 1. KMF_ENUMERIC as of kmf_row_file_next. */
int kmf_row_file_vector(const kmf_row_file *file, uint64_t row, float *x,
                        kmf_err *err) KMF_MUST_CHECK;
/* The checksum `sum`, 0 of nothing, goes on over the vectors of n rows from `first` on. */
uint32_t kmf_row_file_checksum(const kmf_row_file *file, uint32_t sum, uint64_t first,
                               uint64_t n);
/* KMF_EIO: the vectors were written to since they were opened. */
int kmf_row_file_check_bytes(const kmf_row_file *file, kmf_err *err) KMF_MUST_CHECK;

#endif
