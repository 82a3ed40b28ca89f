/* SPDX-License-Identifier: MIT */
/*
 * The state of a training as a file, so that it can go on as if nothing had happened: safetensors
 * with
 *
 *   arrays     F32, one tensor each
 *   progress   U64 [n], whatever else the training counts
 *   metadata   "format"; every setting that changes the result, as text; "kernels" that decide
 *              last digits; "checksum", CRC-32 of the bytes of all tensors
 *
 * There is no random state among it: all numbers are drawn by where and when they are needed.
 */
#ifndef KMF_CHECKPOINT_H
#define KMF_CHECKPOINT_H

#include "kmerformer.h"

#include <stdbool.h>

typedef struct kmf_setting {
    const char *name;
    char value[64];
} kmf_setting;

#define KMF_SAVED_SETTINGS 64 /* at most */

/* Settings on their way into a checkpoint; it begins as {0}. */
typedef struct kmf_settings {
    kmf_setting list[KMF_SAVED_SETTINGS];
    size_t n;
} kmf_settings;

/* One more; name is borrowed. */
void kmf_setting_add(kmf_settings *settings, const char *name, const char *format, ...)
    KMF_PRINTF(3, 4);

typedef struct kmf_saved_array {
    const char *name;
    float *values; /* [rows, width] */
    size_t rows, width;
} kmf_saved_array;

#define KMF_SAVED_ARRAYS 4 /* at most */
#define KMF_SAVED_PROGRESS 40

/* What there is to save. All borrowed. */
typedef struct kmf_checkpoint {
    const char *kind; /* "word2vec": of the format's name, and for messages */
    const kmf_setting *settings;
    size_t n_settings;
    const kmf_saved_array *arrays;
    size_t n_arrays;
    const size_t *progress; /* where in the training its numbers are, of 64 bits each */
    size_t n_progress;
    bool (*is_sound)(const void *training); /* by these numbers; NULL: whatever they are */
    int *other_kernels; /* was what is read written by such? NULL: not asked */
} kmf_checkpoint;

/* Under its name only when it is complete and on disk: the one before stays until then. */
int kmf_checkpoint_write(const kmf_checkpoint *checkpoint, const void *training,
                         const char *path, kmf_err *err) KMF_MUST_CHECK;
/*
 * Fills arrays, the training's progress and *other_kernels. KMF_EMODEL: it is damaged, of another
 * kind, or of other settings, and the message names the first that differs; nothing is filled
 * then.
 */
int kmf_checkpoint_read(const kmf_checkpoint *checkpoint, void *training, const char *path,
                        kmf_err *err) KMF_MUST_CHECK;

#endif
