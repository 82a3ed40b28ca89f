/* SPDX-License-Identifier: MIT */
/*
 * Vectors as text, by the threads that make them, for one thread that takes them row by row in
 * their order.
 */
#ifndef KMF_ROWTEXT_H
#define KMF_ROWTEXT_H

#include "kmerformer.h"

/* The numbers of a vector [dim]: "\tvalue" for each, and '\n'. */
kmf_row_format kmf_row_numbers(size_t dim);

typedef struct kmf_rowtext kmf_rowtext;

/* Of vectors [dim] in this format, which is copied. */
kmf_rowtext *kmf_rowtext_new(const kmf_row_format *format, size_t dim,
                             kmf_err *err) KMF_MUST_CHECK;
void kmf_rowtext_free(kmf_rowtext *texts);

/*
 * n vectors, 1 or more, one after the other, of the rows from `row` on. 1: they wait as text, in
 * the place of any that waited for one of these rows before; 0: there is no room, nothing is
 * changed. From any thread, several at a time.
 */
int kmf_rowtext_put(kmf_rowtext *texts, uint64_t row, const float *vectors, size_t n);
/* The text of a row that waits, [*len], until the next call. Rows before it wait no more. */
const char *kmf_rowtext_take(kmf_rowtext *texts, uint64_t row, size_t *len);

#endif
