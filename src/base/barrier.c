/* SPDX-License-Identifier: MIT */
#include "base/barrier.h"

#include "base/spin.h"

void kmf_barrier_init(kmf_barrier *barrier, int n)
{
    barrier->n = n;
    atomic_init(&barrier->arrived, 0);
    atomic_init(&barrier->round, 0);
}

void kmf_barrier_wait(kmf_barrier *barrier)
{
    unsigned round = atomic_load(&barrier->round);
    if (atomic_fetch_add(&barrier->arrived, 1) + 1 == barrier->n) {
        atomic_store(&barrier->arrived, 0);
        atomic_fetch_add(&barrier->round, 1);
        return;
    }
    for (int tries = 0; atomic_load_explicit(&barrier->round, memory_order_acquire) == round;)
        kmf_spin(&tries);
}
