/* SPDX-License-Identifier: MIT */
/* What decides an embedder's vectors, as JSON: for x.json, and to know it again. */
#ifndef KMF_PROVENANCE_H
#define KMF_PROVENANCE_H

#include "base/json.h"
#include "embed/digests.h"
#include "embed/method.h"

/* Key of the checksum of all records of a run, in the x.json of a shard. */
#define KMF_RECORDS_CHECKSUM "records_checksum"
/* Of the records before, and one more; 0 of none. */
uint32_t kmf_record_checksum(uint32_t sum, const char *name, const char *seq, size_t len);

/*
 * json with the MD5 of files, KMF_METHOD_FILES at most; begun: they are being taken; NULL: they are
 * not. Takes over json; NULL: it was, or after an error.
 */
json_t *kmf_json_with_files(json_t *json, const kmf_method_file *files, kmf_digests *begun,
                            kmf_err *err) KMF_MUST_CHECK;
/* {"name"} and a key for each of the method's files (method.h): the model. NULL after an error. */
json_t *kmf_model_json(const kmf_embedder *embedder, kmf_err *err);
/* The name of an output for its provenance: the last part of path. NULL: out of memory. */
json_t *kmf_output_json(const char *path);
/*
 * The provenance of a table from its file name, that of path with .json. array: what path is, not
 * text. NULL after an error; KMF_EMODEL: it says the other, so what lies beside path is no longer
 * its own.
 */
json_t *kmf_provenance_read(const char *path, const char *name, bool array, kmf_err *err);
/* KMF_EMODEL: it tells another number of columns than path has. */
int kmf_provenance_check_columns(const json_t *json, const char *name, const char *path,
                                 size_t columns, kmf_err *err);
/*
 * What lies beside the table at path, of `columns`. 1: *json is it, owned by the caller; 0: there
 * is none; or the failures of the two above.
 */
int kmf_provenance_beside(json_t **json, const char *path, size_t columns,
                          kmf_err *err) KMF_MUST_CHECK;
/*
 * json with model, settings, shard and kernels of an embedder; with inputs and columns of a run;
 * with regions and tiles of the inputs (reader; NULL: all of them, whole). They take over json;
 * NULL: it was, or after an error.
 */
json_t *kmf_json_with_embedder(json_t *json, const kmf_embedder *embedder,
                               kmf_err *err) KMF_MUST_CHECK;
json_t *kmf_json_with_inputs(json_t *json, const char *const *inputs, size_t n_inputs,
                             size_t columns) KMF_MUST_CHECK;
json_t *kmf_json_with_regions(json_t *json, const kmf_reader_options *reader) KMF_MUST_CHECK;
/* So many records, of this checksum, that are done. NULL: out of memory. */
json_t *kmf_records_json(uint64_t records, uint32_t sum);
/* The same read back; KMF_EMODEL, with `where` in its message: one is missing, or no record. */
int kmf_records_read(uint64_t *records, uint32_t *sum, const json_t *json, const char *where,
                     kmf_err *err) KMF_MUST_CHECK;
/* The counts of a run. NULL: out of memory. */
json_t *kmf_statistics_json(const kmf_embed_stats *stats);
/* The same read back; KMF_EMODEL, with `where` in its message: one is missing, or none. */
int kmf_statistics_read(kmf_embed_stats *stats, const json_t *json, const char *where,
                        kmf_err *err) KMF_MUST_CHECK;
/* The options that decide the vectors. NULL: out of memory. */
json_t *kmf_settings_json(const kmf_embedder *embedder);

/*
 * The first thing in which two embedders differ that describe themselves (kmf_embedder_identity;
 * x.json, too, has those keys), of *whose: "model's ", "setting " or "number of ", there [0] and
 * here [1] in values, borrowed. NULL: they make the same vectors.
 */
const char *kmf_identity_difference(const json_t *was, const json_t *now, const char **whose,
                                    const json_t *values[2]);

/*
 * KMF_EMODEL: "path: it is of another run: the model's md5 was a, now it is b", that being whose
 * and what; of what is no text or number, or is missing, that it changed.
 */
int kmf_fail_difference(const char *path, const char *is, const char *whose, const char *what,
                        const json_t *was, const json_t *now, kmf_err *err);

/* The first key under which two objects differ; NULL: none. but: a key that may. */
const char *kmf_json_difference(json_t *a, json_t *b, const char *but);

#endif
