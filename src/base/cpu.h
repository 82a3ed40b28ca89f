/* SPDX-License-Identifier: MIT */
/*
 * Which instructions may be used. The program is built for the oldest processor of its kind;
 * hot loops are compiled once for each level below and chosen when the program runs:
 *
 *   baseline   what the compiler was told to build for (x86-64: SSE2; arm64: NEON)
 *   avx2       AVX2 and FMA
 *   avxvnni    and AVX-VNNI: dot products of bytes, of processors without AVX-512
 *   avx512     AVX2, FMA and AVX-512 F, VL, BW, DQ
 *   vnni       and AVX512-VNNI: dot products of bytes
 *   bf16       and AVX512-BF16: dot products of bfloat16
 *   amx        and AMX: products of tiles of bfloat16, of which those of float32 are made there,
 *              and of bytes, where the kernel allows them
 *
 * KMERFORMER_CPU=baseline|avx2|avxvnni|avx512|vnni|bf16|amx lowers the level; it never raises it;
 * avxvnni is avx2 where a processor with AVX-512 lacks it. To ask for AMX gives the whole process
 * the permission, for which Linux wants alternate signal stacks to have room for the tiles;
 * KMERFORMER_CPU=bf16 does not ask.
 */
#ifndef KMF_CPU_H
#define KMF_CPU_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sizes of files, tables and models are products that only 64 bits hold. */
_Static_assert(sizeof(size_t) >= sizeof(uint64_t), "kmerformer needs a 64-bit system");
/* Sums in more than the digits of a float would have other bits each time the compiler spills. */
#if FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16
#error "floats must be computed as floats: CFLAGS=-fexcess-precision=fast, if gcc knows how to"
#endif

typedef enum kmf_cpu {
    KMF_CPU_BASELINE,
    KMF_CPU_AVX2,
    KMF_CPU_AVXVNNI,
    KMF_CPU_AVX512,
    KMF_CPU_VNNI,
    KMF_CPU_BF16,
    KMF_CPU_AMX,
    KMF_N_CPU
} kmf_cpu;

/* The same answer throughout the process. */
kmf_cpu kmf_cpu_level(void);
/* The same, baseline, avx2 or avx512: which vectors there are, for code without dot products. */
kmf_cpu kmf_cpu_vectors(void);
/*
 * Whether products of bfloat16 are faster than those of float32. Those of AVX512-BF16 are not on
 * Intel's processors with AVX512-FP16, which leave the work to AMX: half as fast.
 */
bool kmf_cpu_bf16_is_faster(void);
/* Of kmf_level_names (kmerformer/bench.h). */
const char *kmf_cpu_name(kmf_cpu level);

#if defined(__GNUC__)
#define KMF_INLINE inline __attribute__((always_inline))
#define KMF_APART __attribute__((noinline))
#define KMF_TARGET(features) __attribute__((target(features)))
#else
#define KMF_INLINE inline
#define KMF_APART
#define KMF_TARGET(features)
#endif

#if defined(__GNUC__) && defined(__x86_64__)
#define KMF_X86_LEVELS 1
#define KMF_TARGET_AVX2 KMF_TARGET("avx2,fma")
#define KMF_TARGET_AVX512 KMF_TARGET("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")
#define KMF_TARGET_VNNI KMF_TARGET("avx512vnni,avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")
#define KMF_TARGET_BF16 KMF_TARGET("avx512bf16,avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")
#define KMF_TARGET_AMX                                                                     \
    KMF_TARGET("amx-tile,amx-bf16,amx-int8,avx512bf16,avx512f,avx512vl,avx512bw,avx512dq," \
               "avx2,fma")
#else
#define KMF_X86_LEVELS 0
#endif

/* Whether the baseline has a fused multiply-add. */
#if defined(__aarch64__)
#define KMF_BASELINE_FMA 1
#else
#define KMF_BASELINE_FMA 0
#endif

/*
 * Before a loop: KMF_UNROLL unrolls it wholly, n being at least its number of rounds; KMF_UNROLL_BY
 * takes n of many rounds at a time.
 */
#define KMF_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define KMF_UNROLL(n) KMF_PRAGMA(clang loop unroll(full))
#define KMF_UNROLL_BY(n) KMF_PRAGMA(clang loop unroll_count(n))
#elif defined(__GNUC__)
#define KMF_UNROLL(n) KMF_PRAGMA(GCC unroll n)
#define KMF_UNROLL_BY(n) KMF_UNROLL(n)
#else
#define KMF_UNROLL(n)
#define KMF_UNROLL_BY(n)
#endif

/*
 * KMF_CLONES(name, (parameters), (arguments)) defines `void name(parameters)`, which runs
 * `static KMF_INLINE void name_body(parameters)` compiled for the level in use. Bodies are
 * plain C that a compiler can vectorise.
 *
 * KMF_CLONES_FUSED: name_body takes `bool fused` before the parameters, a constant: whether a
 * fused multiply-add is one instruction. AVX2 and AVX-512 give the same bits, therefore.
 */
#define KMF_CLONES(name, parameters, arguments) \
    KMF_CLONES_AS(name, parameters, arguments, arguments)
#define KMF_CLONES_FUSED(name, parameters, arguments) \
    KMF_CLONES_AS(name, parameters, arguments, (fused, KMF_LIST arguments))
#define KMF_LIST(...) __VA_ARGS__

#if KMF_X86_LEVELS
#define KMF_CLONES_AS(name, parameters, arguments, body_arguments) \
    KMF_TARGET_AVX512 static void name##_avx512 parameters         \
    {                                                              \
        enum { fused = 1 };                                        \
        name##_body body_arguments;                                \
    }                                                              \
    KMF_TARGET_AVX2 static void name##_avx2 parameters             \
    {                                                              \
        enum { fused = 1 };                                        \
        name##_body body_arguments;                                \
    }                                                              \
    void name parameters                                           \
    {                                                              \
        enum { fused = 0 };                                        \
        kmf_cpu level = kmf_cpu_level();                           \
        if (level >= KMF_CPU_AVX512)                               \
            name##_avx512 arguments;                               \
        else if (level >= KMF_CPU_AVX2)                            \
            name##_avx2 arguments;                                 \
        else                                                       \
            name##_body body_arguments;                            \
    }
#else
#define KMF_CLONES_AS(name, parameters, arguments, body_arguments) \
    void name parameters                                           \
    {                                                              \
        enum { fused = KMF_BASELINE_FMA };                         \
        name##_body body_arguments;                                \
    }
#endif

#endif
