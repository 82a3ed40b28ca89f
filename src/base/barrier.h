/* SPDX-License-Identifier: MIT */
/* Where a known number of threads wait for each other (base/spin.h). */
#ifndef KMF_BARRIER_H
#define KMF_BARRIER_H

#include <stdatomic.h>

typedef struct kmf_barrier {
    int n;
    atomic_int arrived;
    atomic_uint round;
} kmf_barrier;

/* For n threads, 1 or more. */
void kmf_barrier_init(kmf_barrier *barrier, int n);
/*
 * Returns when all n threads have called it; what they wrote before is then seen by all. It may be
 * used again at once.
 */
void kmf_barrier_wait(kmf_barrier *barrier);

#endif
