/* SPDX-License-Identifier: MIT */
/* The files beside an output, x.ids.tsv and x.json, as the writer and `merge` both know them. */
#ifndef KMF_SIDECAR_H
#define KMF_SIDECAR_H

#include "kmerformer.h"

#define KMF_IDS_HEADER "#index\tname\tlength\ttokens\tambiguous\tchunks"
#define KMF_IDS_HEADER_POSITION "\tposition" /* one vector per token */

/* path with its extension replaced by suffix. Freed by kmf_free. */
char *kmf_sidecar(const char *path, const char *suffix, kmf_err *err) KMF_MUST_CHECK;

/* A row as another output holds it: n bytes of the table and its line of ids. */
int kmf_output_copy(kmf_output *output, const void *row, size_t n, const char *ids,
                    size_t n_ids, kmf_err *err) KMF_MUST_CHECK;

int kmf_ends_with(const char *s, const char *suffix);

#endif
