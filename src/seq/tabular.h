/* SPDX-License-Identifier: MIT */
/*
 * Records of a table (seq/table.h): its column `sequence` holds them, `name` or, where there is
 * none, `id` calls them, else their number does, from 1; other columns are passed over.
 */
#ifndef KMF_TABULAR_H
#define KMF_TABULAR_H

#include "kmerformer.h"
#include "seq/bytes.h"
#include "seq/table.h"

typedef struct kmf_tabular kmf_tabular;

/*
 * Takes over `in`, on failure too; name, which messages begin with, is copied. KMF_EFORMAT: no
 * table, or without such a column.
 */
kmf_tabular *kmf_tabular_open(kmf_bytes *in, const char *name, kmf_err *err) KMF_MUST_CHECK;
void kmf_tabular_close(kmf_tabular *t);
/* kmf_bytes_taken of the input. */
uint64_t kmf_tabular_taken(kmf_tabular *t, int descriptor);

/* As kmf_reader_next; rec->index is not set. Not to be called again after a failure. */
int kmf_tabular_next(kmf_tabular *t, kmf_record *rec, kmf_err *err) KMF_MUST_CHECK;

/* For what else it has of the record that came last. Borrowed. */
const kmf_table *kmf_tabular_table(const kmf_tabular *t);

#endif
