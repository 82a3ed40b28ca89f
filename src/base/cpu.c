/* SPDX-License-Identifier: MIT */
#define _DEFAULT_SOURCE /* syscall */
#include "base/cpu.h"

#include "kmerformer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#if KMF_X86_LEVELS
#include <cpuid.h>
#endif
#if KMF_X86_LEVELS && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

const char *const kmf_level_names[KMF_N_CPU + 1] = {"baseline", "avx2", "avxvnni", "avx512",
                                                    "vnni",     "bf16", "amx",     NULL};

/* The level, or -1 until somebody asks. Two threads asking at once find the same. */
static atomic_int known = -1;

#if KMF_X86_LEVELS
/* CPUID, leaf 7, register EDX; of its second part, EAX. */
static unsigned extended_features(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) ? d : 0;
}

static unsigned later_features(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) ? a : 0;
}
#endif

/*
 * Tile registers: whether the processor has those of bfloat16 and bytes, and Linux lets this
 * process use them, which it wants to be asked (5.16 and later; arch_prctl(2)).
 */
static bool takes_tiles(void)
{
#if KMF_X86_LEVELS && defined(__linux__) && defined(SYS_arch_prctl)
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
    const unsigned all = 1u << 22 | 1u << 24 | 1u << 25; /* of bf16, at all, of bytes */
    return (extended_features() & all) == all &&
           syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
#else
    return false;
#endif
}

/* Which levels the processor has, but for AMX. */
static void find_levels(bool *has)
{
    has[KMF_CPU_BASELINE] = true;
#if KMF_X86_LEVELS
    __builtin_cpu_init();
    has[KMF_CPU_AVX2] = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    has[KMF_CPU_AVXVNNI] = has[KMF_CPU_AVX2] && (later_features() & 1u << 4);
    has[KMF_CPU_AVX512] = has[KMF_CPU_AVX2] && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq");
    has[KMF_CPU_VNNI] = has[KMF_CPU_AVX512] && __builtin_cpu_supports("avx512vnni");
    has[KMF_CPU_BF16] = has[KMF_CPU_VNNI] && __builtin_cpu_supports("avx512bf16");
#endif
}

static kmf_cpu detect(void)
{
    bool has[KMF_N_CPU] = {false};
    int level = KMF_CPU_BF16;
    find_levels(has);
    while (!has[level])
        level--;
    const char *limit = getenv("KMERFORMER_CPU");
    for (int i = 0; limit && i <= level; i++) {
        if (strcmp(limit, kmf_level_names[i]) != 0)
            continue;
        while (!has[i])
            i--;
        return (kmf_cpu)i;
    }
    return level == KMF_CPU_BF16 && takes_tiles() ? KMF_CPU_AMX : (kmf_cpu)level;
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
    if (level >= KMF_CPU_AVX512)
        return KMF_CPU_AVX512;
    return level >= KMF_CPU_AVX2 ? KMF_CPU_AVX2 : KMF_CPU_BASELINE;
}

bool kmf_cpu_bf16_is_faster(void)
{
    bool slow = false;
#if KMF_X86_LEVELS
    __builtin_cpu_init();
    slow = __builtin_cpu_is("intel") && (extended_features() & 1u << 23); /* AVX512-FP16 */
#endif
    kmf_cpu level = kmf_cpu_level();
    return level >= KMF_CPU_AMX || (level == KMF_CPU_BF16 && !slow);
}

const char *kmf_cpu_name(kmf_cpu level)
{
    return kmf_level_names[level];
}
