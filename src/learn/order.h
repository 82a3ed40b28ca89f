/* SPDX-License-Identifier: MIT */
/*
 * The order in which an epoch takes its n pieces: number (a j + b) mod n comes j-th, a coprime
 * to n and far from both 0 and n. Neighbours in the corpus, above all repeats, are then far
 * from each other in time, every piece comes once, and any place of the order is had without
 * the others.
 *
 *   a   floor(n (sqrt 5 - 1) / 2), of doubles, and added to it below floor(n / 16) + 1; then the
 *       next that is coprime to n, mod n
 *   b   below n, drawn after it
 */
#ifndef KMF_ORDER_H
#define KMF_ORDER_H

#include "kmerformer.h"

/* A plain value. */
typedef struct kmf_order {
    uint64_t n, a, b; /* a and b below n */
} kmf_order;

/*
 * Drawn from stream `epoch` of the seed that is the first number of stream `stream` of `seed`.
 * n: 1 .. 2^62.
 */
kmf_order kmf_order_of(uint64_t seed, uint64_t stream, uint64_t epoch, uint64_t n);
/* The piece that comes j-th, j < n: exact for every n. */
uint64_t kmf_order_at(const kmf_order *order, uint64_t j);

#endif
