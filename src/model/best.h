/* SPDX-License-Identifier: MIT */
/*
 * The nearest of many rows, which are offered one by one: those of the greatest cosine, of equal
 * ones those of the lowest number. As many as are asked for lie in a heap, the worst of them on
 * top, so that a row that is no better, nearly every one, costs one comparison; another one
 * O(log n).
 */
#ifndef KMF_BEST_H
#define KMF_BEST_H

#include "kmerformer.h"

#include <math.h>
#include <stdbool.h>

typedef struct kmf_best {
    kmf_neighbour *list; /* borrowed [cap] */
    size_t n;
    size_t cap;
} kmf_best;

/* Does a stand behind b in the answer? */
static inline bool kmf_is_worse(const kmf_neighbour *a, const kmf_neighbour *b)
{
    return a->cosine != b->cosine ? a->cosine < b->cosine : a->row > b->row;
}

/* One that is known to be among the best so far. */
void kmf_best_put(kmf_best *best, kmf_neighbour x);

/* The answer is the same in whatever order rows are offered. */
static inline void kmf_best_offer(kmf_best *best, kmf_neighbour x)
{
    if (best->n < best->cap || (best->n > 0 && kmf_is_worse(&best->list[0], &x)))
        kmf_best_put(best, x);
}

/* A later row is among the best if its cosine is greater than this, and only then. */
static inline float kmf_best_floor(const kmf_best *best)
{
    return best->n < best->cap ? -INFINITY : best->n > 0 ? best->list[0].cosine : INFINITY;
}

/* The list from now on with the best first; nothing more is offered. */
void kmf_best_sort(kmf_best *best);

#endif
