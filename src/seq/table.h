/* SPDX-License-Identifier: MIT */
/*
 * Tables of text, row by row: fields between commas or tabs, in quotes or not, as RFC 4180 has
 * them. The first row names the columns.
 */
#ifndef KMF_TABLE_H
#define KMF_TABLE_H

#include "kmerformer.h"
#include "seq/bytes.h"

typedef struct kmf_table kmf_table;

/*
 * Takes over `in`, on failure too; name, which messages begin with, is copied. Reads the names of
 * the columns. KMF_EFORMAT: there are none.
 */
kmf_table *kmf_table_open(kmf_bytes *in, const char *name, kmf_err *err) KMF_MUST_CHECK;
void kmf_table_close(kmf_table *table);
/*
 * The column of this name, which is of small letters; else the one that has it with capitals; -1:
 * there is none. KMF_EFORMAT: there are two.
 */
int kmf_table_column(int *column, const kmf_table *table, const char *name,
                     kmf_err *err) KMF_MUST_CHECK;
/*
 * 1: the next row that is not blank, 0: the end, or a negative kmf_code: a row with more or fewer
 * fields than there are columns, a quote that is not closed, a NUL.
 */
int kmf_table_next(kmf_table *table, kmf_err *err) KMF_MUST_CHECK;
/* Of the row read last; borrowed until the next one. *len may be NULL. */
const char *kmf_table_field(const kmf_table *table, int column, size_t *len);
/*
 * KMF_EFORMAT, "file: line 12: what", of that row; or the failure of the source, which may be why.
 * Nothing can be read any more.
 */
KMF_PRINTF(3, 4)
int kmf_table_fail(const kmf_table *table, kmf_err *err, const char *format, ...);

#endif
