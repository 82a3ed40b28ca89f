/* SPDX-License-Identifier: MIT */
#include "model/best.h"

#include "base/heap.h"

#define comes_before(a, b) kmf_is_worse(&(b), &(a))
KMF_HEAP(best, kmf_neighbour, comes_before)
KMF_HEAP_SORT(best, kmf_neighbour)

void kmf_best_put(kmf_best *best, kmf_neighbour x)
{
    if (best->n == best->cap) {
        best->list[0] = x;
        best_sink(best->list, best->n, 0);
        return;
    }
    best->list[best->n++] = x;
    if (best->n == best->cap)
        best_heap(best->list, best->n);
}

void kmf_best_sort(kmf_best *best)
{
    if (best->n < best->cap)
        best_heap(best->list, best->n);
    best_sort(best->list, best->n);
}
