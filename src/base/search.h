/* SPDX-License-Identifier: MIT */
/* A place among numbers in ascending order, by halves. */
#ifndef KMF_SEARCH_H
#define KMF_SEARCH_H

#include <stddef.h>
#include <stdint.h>

/* How many of the n numbers, in ascending order, are x or less. */
static inline size_t kmf_count_up_to(const uint64_t *numbers, size_t n, uint64_t x)
{
    size_t lo = 0;
    size_t hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (numbers[mid] <= x)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

#endif
