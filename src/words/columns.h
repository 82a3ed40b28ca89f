/* SPDX-License-Identifier: MIT */
/*
 * The k-mers of stretches of DNA, k up to 8, and their counts by column: each k-mer has one, its
 * code or one that it shares with others. What words/dense.c is for whole inputs this is for
 * thousands of letters at a time.
 */
#ifndef KMF_COLUMNS_H
#define KMF_COLUMNS_H

#include "kmerformer.h"

#include <stddef.h>
#include <stdint.h>

#define KMF_COLUMNS_K_MAX 8

typedef struct kmf_columns kmf_columns;

/* column: [4^k], borrowed; NULL: the code of a k-mer is its column. */
kmf_columns *kmf_columns_new(int k, const int32_t *column, kmf_err *err) KMF_MUST_CHECK;
void kmf_columns_free(kmf_columns *columns);
size_t kmf_columns_bytes(int k);

/* The calls that follow are about this text, which is borrowed: n letters. */
void kmf_columns_start(kmf_columns *columns, const char *text, size_t n);

/*
 * Adds the `windows` k-mers that start from text[beg] on, which end in the text, to the counts of
 * their columns; those that hold what is no letter are left out. Returns how many were added. A
 * count must stay below 2^31.
 */
size_t kmf_columns_count(kmf_columns *columns, int32_t *counts, size_t beg, size_t windows);

/* The codes of the same k-mers, in order; returns how many there are. */
size_t kmf_columns_codes(kmf_columns *columns, int32_t *codes, size_t beg, size_t windows);

#endif
