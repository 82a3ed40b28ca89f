/* SPDX-License-Identifier: MIT */
/* Clusters by k-means. */
#ifndef KMF_KMEANS_H
#define KMF_KMEANS_H

#include "kmerformer.h"

/*
 * cluster[i] = the cluster, 0 .. k - 1, of row i of x [n, dim], which holds no NaN; k is 1 .. n.
 * Of `restarts` runs that begin by k-means++, with the numbers of stream r of seed in run r, the
 * one with the smallest *inertia, the sum of the squared distances to the centres; of equal ones
 * the first. The same bits for any pool.
 * fn: told, on the caller's thread, how many runs came before the one that it is at; NULL: none.
 */
int kmf_kmeans(int32_t *cluster, double *inertia, const float *x, size_t n, size_t dim,
               size_t k, int restarts, uint64_t seed, kmf_pool *pool, kmf_progress_fn *fn,
               void *user, kmf_err *err) KMF_MUST_CHECK;

#endif
