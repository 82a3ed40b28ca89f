/* SPDX-License-Identifier: MIT */
/* What decides an embedder's vectors, as JSON: for x.json, and to know it again. */
#ifndef KMF_PROVENANCE_H
#define KMF_PROVENANCE_H

#include "base/json.h"
#include "embed/method.h"

/* Key of the checksum of all records of a run, in the x.json of a shard. */
#define KMF_RECORDS_CHECKSUM "records_checksum"

/* {"name"} and a key for each of the method's files (method.h): the model. NULL after an error. */
json_t *kmf_model_json(const kmf_embedder *embedder, kmf_err *err);
/* The name of an output for its provenance: the last part of path. NULL: out of memory. */
json_t *kmf_output_json(const char *path);
/*
 * The provenance of a table from its file name, that of path with .json. NULL after an error;
 * KMF_EMODEL: it says that it is of an array and path is of text, or the other way round, so what
 * lies beside path is no longer its own.
 */
json_t *kmf_provenance_read(const char *path, const char *name, kmf_err *err);
/* KMF_EMODEL: it tells another number of columns than path has. */
int kmf_provenance_check_columns(const json_t *json, const char *name, const char *path,
                                 size_t columns, kmf_err *err);
/* The options that decide the vectors. NULL: out of memory. */
json_t *kmf_settings_json(const kmf_embedder *embedder);

/* The first key under which two objects differ; NULL: none. but: a key that may. */
const char *kmf_json_difference(json_t *a, json_t *b, const char *but);

#endif
