/* SPDX-License-Identifier: MIT */
/*
 * Scores of predictions and clusters. Classes are numbers from 0; truth and prediction both have
 * n of them.
 */
#ifndef KMF_SCORES_H
#define KMF_SCORES_H

#include "kmerformer.h"

/* What is predicted of one test part, and by what probabilities. All borrowed. */
typedef struct kmf_scored {
    const int32_t *truth;        /* [n], below n_all */
    const int32_t *predicted;    /* [n], below n_classes */
    const double *probabilities; /* [n, n_classes]; NULL: no auc */
    size_t n;
    size_t n_classes; /* that can be predicted */
    size_t n_all;     /* with those that cannot */
} kmf_scored;

/* The scores of kmf_eval_result, in its order but for knn, whose accuracy is one like the first. */
enum { KMF_ACCURACY, KMF_MACRO_F1, KMF_MCC, KMF_AUC, KMF_N_SCORES };

/*
 * intervals[KMF_N_SCORES]: the scores, NaN where one cannot be told, and percentiles 2.5 and 97.5,
 * interpolated as numpy's default, of those of `resamples` drawings of n records, each with the
 * numbers of its own stream of seed; a drawing of which a score cannot be told is left out of its
 * percentiles.
 */
int kmf_score_intervals(kmf_interval *intervals, const kmf_scored *scored, int resamples,
                        uint64_t seed, kmf_pool *pool, kmf_err *err) KMF_MUST_CHECK;

/* Of two partitions of n records into classes a, below n_a, and b, below n_b. */
int kmf_score_clusters(double *ari, double *nmi, const int32_t *a, size_t n_a, const int32_t *b,
                       size_t n_b, size_t n, kmf_err *err) KMF_MUST_CHECK;

#endif
