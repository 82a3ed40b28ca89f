/* SPDX-License-Identifier: MIT */
/*
 * A model's tensors, whatever files hold them. In a directory, the first of these that is there:
 *
 *   model.safetensors               safetensors.h
 *   model.safetensors.index.json    {"weight_map": {tensor: file beside it, ...}}: the shards
 *   pytorch_model.bin               torchfile.h
 *   pytorch_model.bin.index.json    the same with shards in this format
 *
 * A path that is no directory is one such file, of either format; what a file is, is told by its
 * content. Files are mapped and their values used where they lie.
 */
#ifndef KMF_TENSORFILES_H
#define KMF_TENSORFILES_H

#include "base/io.h"
#include "model/safetensors.h"

typedef struct kmf_tensors {
    kmf_stored *list; /* owned [n], by name */
    size_t n;
    struct kmf_tensorfile *files; /* owned [n_files], in the order of their names */
    size_t n_files;
} kmf_tensors;

/*
 * KMF_EIO: a file cannot be read. KMF_EMODEL: none is there, one is damaged or of another format,
 * or the index and the shards contradict each other. On failure *t needs no close.
 */
int kmf_tensors_open(kmf_tensors *t, const char *path, kmf_err *err) KMF_MUST_CHECK;
/* One file in memory, borrowed; name is for messages, and borrowed as well. */
int kmf_tensors_parse(kmf_tensors *t, const unsigned char *bytes, size_t len, const char *name,
                      kmf_err *err) KMF_MUST_CHECK;
/* Accepts a zeroed one. */
void kmf_tensors_close(kmf_tensors *t);

/*
 * Does a file say of itself that it holds tensors, but in no way that ours are kept: a checkpoint
 * of PyTorch, or a pointer of Git LFS? Why it is not read, then, as KMF_EMODEL; else 0.
 */
int kmf_tensors_check_foreign(const char *path, kmf_err *err) KMF_MUST_CHECK;

/* NULL if there is none of this name. */
const kmf_stored *kmf_tensors_find(const kmf_tensors *t, const char *name);
/*
 * The text under a key of __metadata__ of a single safetensors file; NULL if there is none, or the
 * tensors are in other files. Borrowed from t.
 */
const char *kmf_tensors_metadata(const kmf_tensors *t, const char *key);
/* The name of the file that a tensor of the list is in. Borrowed from t. */
const char *kmf_tensors_file(const kmf_tensors *t, const kmf_stored *tensor);

/*
 * The pages of mapped values are not needed for now: they are read from the file again when they
 * are. Does nothing for values that are few, or in no map.
 */
void kmf_tensors_give_back(const kmf_tensors *t, const void *values, size_t bytes);

/* Maps of whole files, those that tensors are in; none for a file that was in memory. */
size_t kmf_tensors_n_files(const kmf_tensors *t);
const kmf_map *kmf_tensors_map(const kmf_tensors *t, size_t i);

#endif
