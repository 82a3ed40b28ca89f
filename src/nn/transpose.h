/* SPDX-License-Identifier: MIT */
/* The transposition of a matrix of words of 32 bits. */
#ifndef KMF_TRANSPOSE_H
#define KMF_TRANSPOSE_H

#include <stddef.h>

/*
 * to [cols, rows], ld_to, is the transpose of from [rows, cols], ld_from; both are counted in
 * words, and may not overlap. Nothing else is read or written.
 */
void kmf_transpose_words(void *to, size_t ld_to, const void *from, size_t ld_from, size_t rows,
                         size_t cols);

#endif
