/* SPDX-License-Identifier: MIT */
/* Part of kmerformer.h: what vectors are good for, measured on labelled records. */
#ifndef KMERFORMER_EVAL_H
#define KMERFORMER_EVAL_H

#include "labelled.h"
#include "probe.h"
#include "rowfile.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- records ---------------- */

/* What a record is for: to learn from, to choose by, to be judged by. */
typedef enum kmf_role { KMF_ROLE_TRAIN, KMF_ROLE_DEV, KMF_ROLE_TEST, KMF_N_ROLES } kmf_role;

/* Labelled records of all three parts, in memory, for one model after another. */
typedef struct kmf_samples kmf_samples;

KMF_API kmf_samples *kmf_samples_new(kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_samples_free(kmf_samples *samples);
/*
 * Copies all records of an input into a part. KMF_EFORMAT: it has none; KMF_EINVAL: the samples are
 * settled. After a failure amid an input records of it are there, and the samples can only be
 * freed: to read or to settle them is KMF_EINVAL.
 */
KMF_API int kmf_samples_read(kmf_samples *samples, kmf_role role, kmf_labelled *input,
                             kmf_err *err) KMF_MUST_CHECK;

/*
 * The same of rows, whose vectors are made: all of x.npy. opts: labels, which are needed, and
 * skip_unlabelled apply. Samples are all sequences or all rows, of one file for each part, made in
 * the same way as far as the files tell. KMF_EFORMAT: also a row without a label; else as
 * kmf_row_file_open and kmf_row_file_next.
 */
KMF_API int kmf_samples_read_rows(kmf_samples *samples, kmf_role role, const char *path,
                                  const kmf_labelled_options *opts,
                                  kmf_err *err) KMF_MUST_CHECK;
/* The rows of train, borrowed; NULL: there are none, or the samples are sequences. */
KMF_API const kmf_row_file *kmf_samples_rows(const kmf_samples *samples);

/*
 * *n = how many records that were read into part b are called as one of part a, *name = the first
 * of them, borrowed; NULL: there is none. What finds labels by names takes them for the same.
 */
KMF_API int kmf_samples_alike(const kmf_samples *samples, kmf_role a, kmf_role b, size_t *n,
                              const char **name, kmf_err *err) KMF_MUST_CHECK;

typedef struct kmf_samples_options {
    int no_test;       /* 1: there is no test part, none is made */
    int no_dev;        /* 1: nothing is to be chosen: no dev part is drawn if none was read */
    double test_share; /* of each class that becomes the test part if none was read; 0.2 */
    double dev_share;  /* of each class of train that others are chosen by if no dev part was
                          read; 0.2 */
    size_t min_class;  /* classes of fewer records in train are left out of all parts; 2 */
    uint64_t seed;     /* of both drawings; 1 */
} kmf_samples_options;

KMF_API void kmf_samples_options_default(kmf_samples_options *opts);

/*
 * How the records lie, part after part, each in input order:
 *
 *   0 .. n_fit - 1                   of train: what is learnt from while something is chosen
 *   dev .. dev + n_dev - 1           what it is chosen by: of train, or the dev part
 *   0 .. n_train - 1                 train
 *   test .. test + n_test - 1        test
 */
typedef struct kmf_samples_info {
    size_t n; /* records that are kept */
    size_t n_train, n_fit;
    size_t dev, n_dev;
    size_t test, n_test;
    size_t
        n_classes;  /* in train, 2 or more: classes 0 .. n_classes - 1, by the order of bytes */
    size_t n_all;   /* with those that only other parts have, which come after them */
    size_t unknown; /* records of the test part of such a class: never predicted, so wrong */
    size_t classes_unknown; /* of those records */
    size_t dev_unknown;     /* likewise of the dev part: wrong whatever is chosen */
    size_t left_out;        /* records of classes with fewer than min_class */
    size_t classes_left_out;
    size_t unlabelled; /* records that were passed over: skip_unlabelled */
} kmf_samples_info;

/*
 * Once, after reading: draws the parts that are missing, leaves out small classes and numbers the
 * others. A drawn part has share x records of each class, rounded, but never its last one.
 * KMF_EINVAL: an option is out of range, or it was done before, be it in vain; KMF_EFORMAT: fewer
 * than two classes or an empty part is left; KMF_ENOMEM: also beyond INT32_MAX records.
 */
KMF_API int kmf_samples_settle(kmf_samples *samples, const kmf_samples_options *opts,
                               kmf_samples_info *info, kmf_err *err) KMF_MUST_CHECK;

/* Borrowed. */
typedef struct kmf_sample {
    const char *name;
    const char *seq; /* "" of a row */
    size_t len;
    int32_t y; /* its class */
} kmf_sample;

/* After kmf_samples_settle; i: 0 .. n - 1. */
KMF_API void kmf_samples_get(const kmf_samples *samples, size_t i, kmf_sample *sample);
/*
 * *n = how many records to test have bases of one to train, as far as names tell, which those of
 * tiles and regions do (record:beg-end), of each other and of the record; *name = one of them,
 * borrowed; NULL: there is none. Scores of such records tell how well the others are remembered.
 */
KMF_API int kmf_samples_overlap(const kmf_samples *samples, const kmf_samples_info *info,
                                size_t *n, const char **name, kmf_err *err) KMF_MUST_CHECK;
/* number: 0 .. n_all - 1. */
KMF_API const char *kmf_samples_class(const kmf_samples *samples, size_t number);
/* The classes of all records [n], borrowed. */
KMF_API const int32_t *kmf_samples_classes(const kmf_samples *samples);
/*
 * The vectors of all records: x [n, dim], dim being the embedder's, which has no sink afterwards.
 * KMF_EINVAL of rows, with KMF_POOL_NONE, of a shard, or between kmf_embedder_add and
 * kmf_embedder_finish.
 */
KMF_API int kmf_samples_embed(const kmf_samples *samples, kmf_embedder *embedder, float *x,
                              kmf_err *err) KMF_MUST_CHECK;

/*
 * The same of rows, of so many columns: kmf_samples_rows. KMF_EINVAL: they are none; KMF_ENUMERIC,
 * KMF_EIO as of kmf_row_file_next.
 */
KMF_API int kmf_samples_vectors(const kmf_samples *samples, float *x,
                                kmf_err *err) KMF_MUST_CHECK;

/* ---------------------------------------------------------------- the judgement ---------- */

/* How vectors are brought to one scale before distances are taken: src/eval/scaler.h. */
typedef enum kmf_scale {
    KMF_SCALE_NONE,
    KMF_SCALE_STANDARD,  /* each column by mean and deviation of train           */
    KMF_SCALE_L2,        /* each vector to length 1                              */
    KMF_SCALE_CENTER_L2, /* the same after the mean of train was taken away      */
    KMF_SCALE_AUTO       /* the one whose nearest neighbours are right about dev */
} kmf_scale;
KMF_API extern const char *const kmf_scale_names[]; /* none standard l2 center-l2 auto */

/* How much is done, 0 .. 1, of what takes long: of "neighbours", then of "clusters". */
typedef void kmf_eval_progress_fn(void *user, const char *doing, double share);

typedef struct kmf_eval_options {
    kmf_probe_options probe;
    int scale;     /* kmf_scale; AUTO */
    size_t k;      /* neighbours, 1 .. 1024; 5 */
    int restarts;  /* of k-means, 1 .. 10000; 10 */
    int resamples; /* of the bootstrap, 0 (no intervals) .. 1000000; 1000 */
    uint64_t seed; /* 1 */
    /* Called on the caller's thread; NULL: none. */
    kmf_eval_progress_fn *fn;
    void *user;
} kmf_eval_options;

KMF_API void kmf_eval_options_default(kmf_eval_options *opts);

/* A score and its 95 % interval: the percentiles 2.5 and 97.5 of the scores of test parts that
   are drawn from this one with replacement. NaN: there is none. */
typedef struct kmf_interval {
    double value, low, high;
} kmf_interval;

/*
 * The scores of predictions on a test part; each class counts that occurs among the true or the
 * predicted ones.
 *
 *   accuracy   of the probe
 *   macro_f1   mean over the classes of 2 right / (true + predicted)
 *   mcc        Matthews' coefficient for any number of classes (Gorodkin 2004)
 *   auc        area under the ROC curve: the mean of each class against the rest, over those of
 *              train that occur in test; of two classes in all that of the second one, which is
 *              the first one's
 *   knn        accuracy of the vote of the k nearest records of train; of classes with as many
 *              votes, that of the nearest one
 *   ari, nmi   the test part in as many clusters (k-means) as it has classes beside its classes:
 *              Rand index adjusted for chance (Hubert and Arabie 1985), mutual information over
 *              the mean of both entropies. Records without a vector are a cluster of their own.
 *              NaN where test has one class
 */
typedef struct kmf_eval_result {
    kmf_interval accuracy, macro_f1, mcc, auc, knn;
    double ari, nmi;
    double l2;
    kmf_probe_scale probe_scale; /* COLUMN or COMMON */
    int scale;                   /* kmf_scale, the one in use */
    size_t without_train;        /* records without a vector */
    size_t without_test;
    size_t repeated; /* records of test whose vector is that of one of train, bit for bit */
} kmf_eval_result;

/* Of each record of the test part, [n_test] each; any may be NULL. */
typedef struct kmf_eval_answers {
    int32_t *probe;
    int32_t *knn;
    int32_t *cluster;
} kmf_eval_answers;

/*
 * Judges the vectors x [info->n, dim] of settled samples. All that is chosen is chosen on train and
 * dev. The same bits for any pool (NULL: one thread). KMF_EINVAL: an option out of range, no test
 * part (`no_test`), or none to choose a scale or L2 by (`no_dev`); KMF_EFORMAT: no record of train
 * has a vector; KMF_ENUMERIC: as kmf_probe_train. answers may be NULL.
 */
KMF_API int kmf_evaluate(const kmf_samples *samples, const kmf_samples_info *info,
                         const float *x, size_t dim, const kmf_eval_options *opts,
                         kmf_pool *pool, kmf_eval_result *result,
                         const kmf_eval_answers *answers, kmf_err *err) KMF_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
