/* SPDX-License-Identifier: MIT */
/*
 * Processes that train together (MPI; kmf_ranks_start and its like are public). One process, and a
 * build without MPI, are the case of one rank.
 *
 * Collective: every rank has to call these, in the same order. A rank that fails must call
 * kmf_ranks_abort, or the others wait for it.
 */
#ifndef KMF_RANKS_H
#define KMF_RANKS_H

#include "kmerformer.h"

#include <stdbool.h>

/* Numbers of scratch that kmf_ranks_sum of n takes; 0 with one rank. */
size_t kmf_ranks_scratch(size_t n);
/*
 * x [n] = the sum of all ranks' x, the same bits on each: added in pairs, neighbours first, as a
 * binary tree whose leaves are the ranks. Their number is a power of 2. Each rank sends and
 * receives 2 n (1 - 1 / ranks) numbers: halves of halves, and then back.
 */
void kmf_ranks_sum(float *x, size_t n, float *scratch);
/* Each of x [n] is 0 on all ranks but one: afterwards it is that one's everywhere. */
void kmf_ranks_share(double *x, size_t n);
/* Is x the same on all ranks? The answer is. */
bool kmf_ranks_agree(uint64_t x);

#endif
