/* SPDX-License-Identifier: MIT */
#include "base/spin.h"

#include "base/cpu.h"

#include <sched.h>

/*
 * 5 us of AMD's, 9 of Intel's. More would gain nothing where each thread has a core, as to yield is
 * no more than a call where nobody else wants it, and costs those who share one so much each time.
 */
#define SPINS 200

static void relax(void)
{
#if KMF_X86_LEVELS
    __builtin_ia32_pause();
#endif
}

void kmf_spin(int *tries)
{
    if (*tries < SPINS) {
        relax();
        (*tries)++;
    } else {
        sched_yield();
    }
}
