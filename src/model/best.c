/* SPDX-License-Identifier: MIT */
#include "model/best.h"

static void swap(kmf_neighbour *a, kmf_neighbour *b)
{
    kmf_neighbour t = *a;
    *a = *b;
    *b = t;
}

/* Lets the top of a heap of n sink to its place. */
static void sink(kmf_neighbour *list, size_t n)
{
    size_t i = 0;
    for (;;) {
        size_t worst = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < n; child++)
            if (kmf_is_worse(&list[child], &list[worst]))
                worst = child;
        if (worst == i)
            return;
        swap(&list[i], &list[worst]);
        i = worst;
    }
}

void kmf_best_put(kmf_best *best, kmf_neighbour x)
{
    kmf_neighbour *list = best->list;
    if (best->n == best->cap) {
        list[0] = x;
        sink(list, best->n);
        return;
    }
    size_t i = best->n++;
    for (; i > 0 && kmf_is_worse(&x, &list[(i - 1) / 2]); i = (i - 1) / 2)
        list[i] = list[(i - 1) / 2];
    list[i] = x;
}

/* The worst go to the end, one after another. */
void kmf_best_sort(kmf_best *best)
{
    for (size_t n = best->n; n > 1; n--) {
        swap(&best->list[0], &best->list[n - 1]);
        sink(best->list, n - 1);
    }
}
