/* SPDX-License-Identifier: MIT */
/* The rows' file beside an output, x.ids.tsv, as the writer and `merge` both know it. */
#ifndef KMF_SIDECAR_H
#define KMF_SIDECAR_H

#include "kmerformer.h"

#define KMF_IDS_HEADER "#index\tname\tlength\ttokens\tambiguous\tchunks"
#define KMF_IDS_HEADER_POSITION "\tposition" /* one vector per token */

/* KMF_EINVAL: a name with a tab or a line end, which would be two fields or lines. */
int kmf_row_check_name(const char *name, kmf_err *err) KMF_MUST_CHECK;

/* A row as another output holds it: n bytes of the table and its line of ids. */
int kmf_output_copy(kmf_output *output, const void *row, size_t n, const char *ids,
                    size_t n_ids, kmf_err *err) KMF_MUST_CHECK;

#endif
