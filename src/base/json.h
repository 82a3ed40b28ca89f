/* SPDX-License-Identifier: MIT */
/*
 * JSON from files that nobody vouches for, over jansson.
 *
 * The getters read one key of an object. `where` (a file name, perhaps with a place in it)
 * begins their messages, the key follows. They return 1 if the key was there and good, 0 if it
 * is absent or null, in which case *out is as it was, and KMF_EMODEL if it holds something
 * else.
 */
#ifndef KMF_JSON_H
#define KMF_JSON_H

#include "kmerformer.h"

#include <jansson.h>

/*
 * The object in text; released by json_decref. KMF_EMODEL: not JSON, not an object, a key twice
 * in one object, nested deeper than 64 levels, or of more than 200,000 objects and lists.
 */
json_t *kmf_json_parse(const char *text, size_t len, const char *where,
                       kmf_err *err) KMF_MUST_CHECK;

/* Is this the text of an object, as a provenance is? 0, or KMF_EINVAL; NULL is none. */
int kmf_json_check(const char *provenance, kmf_err *err) KMF_MUST_CHECK;

/*
 * As text, numbers with the fewest digits that read back as the same. flags: JSON_INDENT(2) or
 * JSON_COMPACT. Freed by kmf_free.
 */
char *kmf_json_text(const json_t *json, size_t flags, kmf_err *err) KMF_MUST_CHECK;

/* *text is that of json, compact, which is released; NULL, after an error: KMF_ENOMEM. */
int kmf_json_give(json_t *json, char **text, kmf_err *err) KMF_MUST_CHECK;

/* A JSON string; text that is not UTF-8, as file names may be, has '?' for its odd bytes. */
json_t *kmf_json_of_text(const char *text);
/*
 * json with value under `key`; takes over both references. NULL, with both released, if one of them
 * is NULL or there is no memory.
 */
json_t *kmf_json_with(json_t *json, const char *key, json_t *value) KMF_MUST_CHECK;
/* The text of a JSON string. Freed by kmf_free. */
char *kmf_json_fit(const char *text, kmf_err *err) KMF_MUST_CHECK;

/* A whole number in min .. max. */
int kmf_json_int(int64_t *out, const json_t *object, const char *key, int64_t min, int64_t max,
                 const char *where, kmf_err *err) KMF_MUST_CHECK;
/* A whole number from 0 to max, INT64_MAX at most, that has to be there; 0 or KMF_EMODEL. */
int kmf_json_count(uint64_t *out, const json_t *object, const char *key, uint64_t max,
                   const char *where, kmf_err *err) KMF_MUST_CHECK;
/* As kmf_json_int; max is at most INT64_MAX. */
int kmf_json_size(size_t *out, const json_t *object, const char *key, size_t min, size_t max,
                  const char *where, kmf_err *err) KMF_MUST_CHECK;
/* A number above min, up to max. */
int kmf_json_double(double *out, const json_t *object, const char *key, double min, double max,
                    const char *where, kmf_err *err) KMF_MUST_CHECK;
/* true or false, as 1 or 0. */
int kmf_json_bool(int *out, const json_t *object, const char *key, const char *where,
                  kmf_err *err) KMF_MUST_CHECK;
/* One of the words, behind which is NULL; *out is its index. */
int kmf_json_choice(int *out, const json_t *object, const char *key, const char *const *words,
                    const char *where, kmf_err *err) KMF_MUST_CHECK;

#endif
