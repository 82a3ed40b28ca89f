/* SPDX-License-Identifier: MIT */
#ifndef KMF_CLOCK_H
#define KMF_CLOCK_H

#include <time.h>

/* Seconds from some moment on; they do not leap. */
static inline double kmf_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#endif
