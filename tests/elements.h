/* SPDX-License-Identifier: MIT */
/* Random numbers for tests of arithmetic on floats, and how many of all floats they go through. */
#ifndef KMF_TEST_ELEMENTS_H
#define KMF_TEST_ELEMENTS_H

#include "checked.h"
#include "levels.h"

#include <stdbool.h>

static uint64_t seed = 88172645463325252u;

static inline void fill(float *x, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++)
        x[i] = scale * levels_random(&seed);
}

static inline bool equal(const float *x, const float *y, size_t n)
{
    return memcmp(x, y, n * sizeof *x) == 0;
}

/* Every float in the ordinary run is too slow; KMF_EXHAUSTIVE=1 takes them all. */
static inline uint32_t step(void)
{
    const char *all = getenv("KMF_EXHAUSTIVE");
    return all && *all == '1' ? 1 : CHECKED ? 4099 : 251;
}

#endif
