/* SPDX-License-Identifier: MIT */
#include "base/spin.h"

#include "base/cpu.h"

#include <sched.h>

#define SPINS 4000

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
