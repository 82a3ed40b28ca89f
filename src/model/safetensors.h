/* SPDX-License-Identifier: MIT */
/*
 * The safetensors format, read from memory and written.
 *
 *   8 bytes   n, little-endian
 *   n bytes   a JSON object, maybe spaces after it:
 *               name -> {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}
 *               "__metadata__" -> {text: text}
 *   the rest  data, little-endian, row-major; offsets count from its start
 *
 * A file is taken only if its tensors cover the data exactly: no overlap, no hole, nothing
 * behind the last. Then every byte has one meaning.
 */
#ifndef KMF_SAFETENSORS_H
#define KMF_SAFETENSORS_H

#include "kmerformer.h"

#include <stdbool.h>

/* Longer headers are refused, and those of more than 66,000 tensors (base/json.c). */
#define KMF_SAFETENSORS_HEADER_MAX ((size_t)16 << 20)
#define KMF_SAFETENSORS_RANK_MAX 8

typedef struct kmf_stored {
    const char *name;  /* borrowed from the kmf_safetensors (or from the maker of a list) */
    const char *dtype; /* "F32"; static storage */
    size_t item_bytes; /* of one element */
    size_t shape[KMF_SAFETENSORS_RANK_MAX];
    int rank;     /* 0: a single number */
    size_t n;     /* elements */
    size_t begin; /* offset in the data of a safetensors file, of any other 0 */
    size_t bytes;
    const unsigned char *values; /* borrowed [bytes]: row-major, little-endian, any alignment */
} kmf_stored;

typedef struct kmf_safetensors {
    kmf_stored *tensors; /* owned [n], by name */
    size_t n;
    const unsigned char *data; /* borrowed from the bytes given */
    size_t data_len;
    void *header; /* owned; the parsed JSON, where the names live */
} kmf_safetensors;

/*
 * Reads the header in bytes[0 .. len - 1]; no data is looked at. KMF_EMODEL names the tensor
 * and what is wrong with it; name is the file's, for messages. On failure *st needs no free.
 */
int kmf_safetensors_parse(kmf_safetensors *st, const unsigned char *bytes, size_t len,
                          const char *name, kmf_err *err) KMF_MUST_CHECK;
/* Do the bytes begin as a safetensors file does? No text does. */
bool kmf_safetensors_begins(const unsigned char *bytes, size_t len);
/* Accepts a zeroed one. */
void kmf_safetensors_free(kmf_safetensors *st);
/* NULL if there is none of this name. */
const kmf_stored *kmf_safetensors_find(const kmf_safetensors *st, const char *name);
/* The text under a key of __metadata__, NULL if there is none. Borrowed from st. */
const char *kmf_safetensors_metadata(const kmf_safetensors *st, const char *key);

/* The tensor of this name in a list; NULL if there is none. */
const kmf_stored *kmf_stored_find(const kmf_stored *list, size_t n, const char *name);
/* For qsort and such: in the order of their names, as lists are. */
int kmf_stored_compare(const void *a, const void *b);
/* -1 for the dtypes that weights are never in. */
int kmf_stored_dtype(const kmf_stored *tensor);
/* "F32"; static storage. */
const char *kmf_stored_name(kmf_dtype dtype);
/* Sets dtype and item_bytes by a dtype's name; false, *tensor untouched, if there is none such. */
bool kmf_stored_set_dtype(kmf_stored *tensor, const char *name) KMF_MUST_CHECK;

/*
 * to[i] = element i of a tensor at bytes, any alignment. Exact but for F64, which is rounded.
 */
void kmf_stored_to_f32(float *to, const unsigned char *bytes, kmf_dtype dtype, size_t n);

/*
 * Length and header of a file with these tensors, in this order, begins as they say; padded
 * with spaces so that the data starts at a multiple of 64. Freed by kmf_free. pairs: as
 * kmf_safetensors_write.
 */
char *kmf_safetensors_header(const kmf_stored *tensors, size_t n, const char *const *pairs,
                             size_t n_pairs, size_t *len_bytes, kmf_err *err) KMF_MUST_CHECK;

/*
 * Writes header and data. On entry name, dtype, shape and rank of each are set, the rest is filled
 * in; values[i] are uint64_t for "U64", bytes for "U8" and "I8", float for "F32", "F16" and "BF16".
 * To __metadata__ go n_pairs pairs of texts: key, value, key, value, ... KMF_ENUMERIC: a finite
 * value is too large for its dtype; KMF_EINVAL: a text is not UTF-8, or the header is longer than
 * may be.
 */
int kmf_safetensors_write(kmf_out *out, kmf_stored *tensors, const void *const *values,
                          size_t n, const char *const *pairs, size_t n_pairs,
                          kmf_err *err) KMF_MUST_CHECK;

#endif
