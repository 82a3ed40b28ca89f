/* SPDX-License-Identifier: MIT */
/* Classes by the vote of the nearest neighbours. */
#ifndef KMF_NEIGHBOURS_H
#define KMF_NEIGHBOURS_H

#include "kmerformer.h"

#define KMF_NEIGHBOURS_MAX 1024

/*
 * predicted[i] = the class that most of the k rows of train nearest to q[i] have, by Euclidean
 * distance, whose square is summed in double; of equally near ones the first, of classes with as
 * many votes that of the nearest. train: n_train rows, q: n rows, [dim] each, of any finite
 * numbers; a row of NaN in train is nobody's neighbour, one in q gets `otherwise`. k beyond n_train
 * is n_train. The same bits for any pool.
 * fn: told, on the caller's thread, how many of q have been begun; NULL: none.
 */
int kmf_neighbours_vote(int32_t *predicted, const kmf_points *train, const float *q, size_t n,
                        size_t dim, size_t k, int32_t otherwise, kmf_pool *pool,
                        kmf_progress_fn *fn, void *user, kmf_err *err) KMF_MUST_CHECK;

#endif
