/* SPDX-License-Identifier: MIT */
/* Records of a table, whose labels are not asked for. */
#ifndef KMF_SEQ_LABELLED_H
#define KMF_SEQ_LABELLED_H

#include "kmerformer.h"
#include "seq/bytes.h"

/*
 * As kmf_labelled_open, `optional`, of what kmf_reader_or_table handed over, which is taken, on
 * failure, too; file: its name in messages, copied.
 */
kmf_labelled *kmf_labelled_of_table(kmf_bytes *table, const char *file,
                                    kmf_err *err) KMF_MUST_CHECK;

#endif
