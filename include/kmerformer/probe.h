/* SPDX-License-Identifier: MIT */
/* Part of kmerformer.h: a linear classifier of vectors, learnt from labelled ones. */
#ifndef KMERFORMER_PROBE_H
#define KMERFORMER_PROBE_H

#include "embed.h"
#include "output.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Vectors and their classes, borrowed. A row of NaN is a record without a k-mer: nothing is learnt
 * from it, and where a class is asked for it gets the most frequent one of the training part.
 */
typedef struct kmf_points {
    const float *x;   /* [n, dim] */
    const int32_t *y; /* [n], 0 or more */
    size_t n;
} kmf_points;

/*
 * Multinomial logistic regression: probabilities are softmax(W x + b).
 *
 * It is learnt on z = (x - m) / s, and W and b are then brought back to those of x: m are the means
 * of the training part's columns, s their standard deviations or one number for all of them
 * (kmf_probe_scale). What is minimised is, W being that of z,
 *
 *   mean of -log p(y | x) + l2 / 2 |W|^2         (b is free)
 *
 * by L-BFGS. scikit-learn's C is 1 / (l2 n). Read-only once made, and may be shared between
 * threads.
 */
typedef struct kmf_probe kmf_probe;

#define KMF_PROBE_GRID 6 /* values tried: 1, 0.1, ... 1e-5 */

/* Which s columns are divided by. */
typedef enum kmf_probe_scale {
    KMF_PROBE_COLUMN, /* each one's own: large and small columns count alike                   */
    KMF_PROBE_COMMON, /* the root of the mean of their variances: columns keep their proportions */
    KMF_PROBE_AUTO /* the one of these that is best on dev                                  */
} kmf_probe_scale;
KMF_API extern const char *const kmf_probe_scale_names[]; /* column common auto */

/* How far learning is: of the probes that are tried, and the one that is kept, this is .. */
typedef struct kmf_probe_progress {
    int number, count; /* .. number 1 .. count */
    double l2;
    kmf_probe_scale scale;
    int iteration; /* iterations that it has taken, from 0 on */
} kmf_probe_progress;
typedef void kmf_probe_progress_fn(void *user, const kmf_probe_progress *now);

typedef struct kmf_probe_options {
    double l2;      /* above 0; 0: the value of the grid that is best on dev */
    int scale;      /* kmf_probe_scale; -1: COLUMN where l2 is given, AUTO where it is chosen */
    int iterations; /* at most, 1 or more, for each value */
    double tolerance; /* ends when no number of the gradient is larger; above 0 */
    /* Called on the caller's thread, before each iteration; NULL: none. */
    kmf_probe_progress_fn *fn;
    void *user;
} kmf_probe_options;

/* l2 0 and scale -1, 500 iterations, tolerance 1e-4. */
KMF_API void kmf_probe_options_default(kmf_probe_options *opts);
/* 1: l2 or scale is to be chosen, for which there must be a part. */
KMF_API int kmf_probe_chooses(const kmf_probe_options *opts);

/*
 * Learns from `train`, whose classes are 0 .. n_classes - 1. dev is the development part, by
 * which settings are chosen. If l2 or scale is to be chosen (kmf_probe_chooses), a probe with
 * each value is learnt from `fit` and scored on `dev` first; the most accurate one wins, of
 * equals COLUMN and then the largest l2. Otherwise fit and dev may be NULL. fit may be a part
 * of train; classes of dev that are n_classes or more count as mistakes. The bits do not depend
 * on the pool (NULL: one thread). KMF_EINVAL: an option or a class out of range, no class, no
 * part to choose by; KMF_EFORMAT: no row that is not NaN; KMF_ENUMERIC: a row is infinite, or a
 * column's numbers are so small that its weights are.
 */
KMF_API kmf_probe *kmf_probe_train(const kmf_points *train, const kmf_points *fit,
                                   const kmf_points *dev, size_t dim, size_t n_classes,
                                   const kmf_probe_options *opts, kmf_pool *pool,
                                   kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_probe_free(kmf_probe *probe);

KMF_API size_t kmf_probe_dim(const kmf_probe *probe);
KMF_API size_t kmf_probe_n_classes(const kmf_probe *probe);
/* What it was learnt with: l2, and KMF_PROBE_COLUMN or KMF_PROBE_COMMON. */
KMF_API double kmf_probe_l2(const kmf_probe *probe);
KMF_API kmf_probe_scale kmf_probe_scaled_by(const kmf_probe *probe);
/*
 * The share of dev that a probe with these settings was right about, when it had learnt from fit;
 * NaN: nothing was chosen, or the probe was loaded.
 */
KMF_API double kmf_probe_chosen_accuracy(const kmf_probe *probe);
/* W [n_classes, dim] and b [n_classes], borrowed. */
KMF_API const float *kmf_probe_weights(const kmf_probe *probe);
KMF_API const float *kmf_probe_biases(const kmf_probe *probe);

/*
 * The class of x [dim], finite, and its probabilities [n_classes]; of equally probable ones the
 * first. For a row of NaN they are the shares of the classes in training.
 */
KMF_API int32_t kmf_probe_predict(const kmf_probe *probe, double *probabilities,
                                  const float *x);

/* ---------------------------------------------------------------- as a file -------------- */

/*
 * A probe that knows the names of its classes and the embedder that its vectors come from can be
 * saved: a safetensors file with tensors weights F32 [n_classes, dim], biases F32 [n_classes],
 * shares F32 [n_classes], labels U8 (the names, each with a NUL), and metadata
 * "kmerformer.probe": "1", "embedder": the text of kmf_embedder_identity, "l2", "probe_scale"
 * (column, where there is none), and the pairs of texts that it was saved with.
 */

/* labels [n_classes] and identity are copied. KMF_EINVAL: a label has a control character. */
KMF_API int kmf_probe_describe(kmf_probe *probe, const char *const *labels,
                               const char *identity, kmf_err *err) KMF_MUST_CHECK;
/* "" before kmf_probe_describe. number: of the class, 0 .. n_classes - 1. */
KMF_API const char *kmf_probe_label(const kmf_probe *probe, size_t number);
KMF_API const char *kmf_probe_identity(const kmf_probe *probe);

/*
 * pairs: key, value, key, value, ... [2 n_pairs], 16 pairs at most; a value that is not UTF-8, as
 * file names may be, has '?' for its odd bytes. KMF_EINVAL: the probe was not described, there are
 * more pairs, or its identity or a key is not UTF-8, or a key is one of the probe's own.
 */
KMF_API int kmf_probe_save(const kmf_probe *probe, const char *path, const char *const *pairs,
                           size_t n_pairs, kmf_err *err) KMF_MUST_CHECK;
/* Nothing in the file is trusted: KMF_EMODEL says what is wrong. */
KMF_API kmf_probe *kmf_probe_load(const char *path, kmf_err *err) KMF_MUST_CHECK;
/* 1: a file of a probe, by its header; 0: it is none, is cut, or cannot be read. */
KMF_API int kmf_probe_is_file(const char *path);
/* The pairs that a loaded probe was saved with, as a JSON object; "" of another. Borrowed. */
KMF_API const char *kmf_probe_provenance(const kmf_probe *probe);

/* ---------------------------------------------------------------- as rows --------------- */

/*
 * What an output of vectors [kmf_probe_dim] writes in their place: the `top` most probable labels,
 * of equals the first class, each with its probability as %.6g; all 1: then the probability of each
 * class. NA for each of these of a row that is not finite. The first line names the columns: #name,
 * label, probability, label2, probability2, ..., and the classes.
 * top: 1 or more, but no more than the classes. KMF_EINVAL: top, or the probe was not described.
 */
typedef struct kmf_label_rows kmf_label_rows;

/* probe: borrowed, until no output has the rows. */
KMF_API kmf_label_rows *kmf_label_rows_new(const kmf_probe *probe, size_t top, int all,
                                           kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_label_rows_free(kmf_label_rows *rows);
/* Borrowed; for a kmf_output_form of kmf_probe_dim. Its name tells probe, top and all. */
KMF_API const kmf_row_format *kmf_label_rows_format(const kmf_label_rows *rows);

#ifdef __cplusplus
}
#endif

#endif
