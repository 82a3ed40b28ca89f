/* SPDX-License-Identifier: MIT */
/*
 * Sums of rows, each as often as it was counted, of many pieces at a time: the product of a matrix
 * of counts with the table, by the kernels of int8 (nn/kernels.h).
 *
 * Counts are digits to the base of 256, a row for each digit that one of a piece's has. A number of
 * the table (embed/rowtable.h) of up to 2^24 units is four digits of -128 .. 127, so that a product
 * and the sum of all are whole numbers below 2^31: exact, the same as by additions.
 */
#ifndef KMF_BYTETABLE_H
#define KMF_BYTETABLE_H

#include "embed/rowtable.h"
#include "nn/kernels.h"

typedef struct kmf_bytetable {
    const kmf_kernel *kernel; /* NULL: the processor has none, and the table is empty */
    uint32_t *panels;         /* owned, aligned to a line, as tiles are read fastest */
    size_t n, dim;
    size_t words; /* of several counts, in whole lines */
} kmf_bytetable;

/* The most rows of a table: their sums fit an int32_t. */
#define KMF_BYTETABLE_MOST ((size_t)65536)

/* Of rows [n], 1 <= n <= KMF_BYTETABLE_MOST, of the table. 0 or KMF_ENOMEM. */
int kmf_bytetable_make(kmf_bytetable *table, const kmf_rowtable *from, const int32_t *rows,
                       size_t n, kmf_err *err) KMF_MUST_CHECK;
void kmf_bytetable_free(kmf_bytetable *table);
size_t kmf_bytetable_bytes(const kmf_bytetable *table);

/* Rows of digits that are multiplied at a time, and that one piece has at most. */
#define KMF_BYTETABLE_ROWS 96
#define KMF_BYTETABLE_DIGITS 3

/* One worker's. */
typedef struct kmf_digits {
    uint32_t *words; /* owned, aligned likewise */
    size_t n;        /* rows in use */
    struct {
        size_t to;     /* the number of the sum */
        double weight; /* 256 to the digit */
    } rows[KMF_BYTETABLE_ROWS];
} kmf_digits;

/* For tables of so many words. 0 or KMF_ENOMEM. */
int kmf_digits_new(kmf_digits *digits, size_t words, kmf_err *err) KMF_MUST_CHECK;
void kmf_digits_free(kmf_digits *digits);

/* Is there room for another piece? */
bool kmf_digits_fits(const kmf_digits *digits);
/* Counts [table's n], below 2^24, become rows for sum number `to`, and 0. */
void kmf_digits_take(kmf_digits *digits, const kmf_bytetable *table, int32_t *counts,
                     size_t to);
/* sums [.., dim] += the product, in units; there are no digits afterwards. */
void kmf_digits_multiply(kmf_digits *digits, const kmf_bytetable *table, double *sums);

#endif
