/* SPDX-License-Identifier: MIT */
#include "base/cpu.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[KMF_N_CPU] = {"baseline", "avx2", "avx512", "vnni", "bf16"};

/* The level, or -1 until somebody asks. Two threads asking at once find the same. */
static atomic_int known = -1;

static kmf_cpu detect(void)
{
    kmf_cpu level = KMF_CPU_BASELINE;
#if KMF_X86_LEVELS
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        level = KMF_CPU_AVX2;
    if (level == KMF_CPU_AVX2 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq"))
        level = KMF_CPU_AVX512;
    if (level == KMF_CPU_AVX512 && __builtin_cpu_supports("avx512vnni"))
        level = KMF_CPU_VNNI;
    if (level == KMF_CPU_VNNI && __builtin_cpu_supports("avx512bf16"))
        level = KMF_CPU_BF16;
#endif
    const char *limit = getenv("KMERFORMER_CPU");
    for (int i = 0; limit && i < (int)level; i++)
        if (strcmp(limit, names[i]) == 0)
            level = (kmf_cpu)i;
    return level;
}

kmf_cpu kmf_cpu_level(void)
{
    int level = atomic_load_explicit(&known, memory_order_relaxed);
    if (level < 0) {
        level = (int)detect();
        atomic_store_explicit(&known, level, memory_order_relaxed);
    }
    return (kmf_cpu)level;
}

kmf_cpu kmf_cpu_vectors(void)
{
    kmf_cpu level = kmf_cpu_level();
    return level < KMF_CPU_AVX512 ? level : KMF_CPU_AVX512;
}

const char *kmf_cpu_name(kmf_cpu level)
{
    return names[level];
}
