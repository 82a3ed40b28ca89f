/* SPDX-License-Identifier: MIT */
/* Part of kmerformer.h: what the processor can do, and how near the encoder comes to it. */
#ifndef KMERFORMER_BENCH_H
#define KMERFORMER_BENCH_H

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kmf_processor {
    char name[128];       /* as the system has it; "unknown" if it does not tell */
    const char *level;    /* in use: one of kmf_level_names */
    const char *products; /* what computes products of float32: "plain avx512" */
} kmf_processor;

KMF_API void kmf_processor_describe(kmf_processor *processor);

/* What KMERFORMER_CPU may say, from the lowest level on; and KMERFORMER_GEMM. NULL is last. */
KMF_API extern const char
    *const kmf_level_names[]; /* baseline avx2 avxvnni avx512 vnni bf16 amx */
KMF_API extern const char *const kmf_engine_names[]; /* openblas plain */

/*
 * What nothing on this processor can exceed, at the level in use, but for F32 with AMX. A
 * multiply-add is two operations. Each thread reads and copies an array of its own, again and
 * again.
 */
typedef enum kmf_limit_kind {
    KMF_LIMIT_F32,         /* operations/s: multiply-adds of float32 in vector registers, which
                              its products in AMX's tiles may exceed; this and the next two in
                              the order of kmf_precision */
    KMF_LIMIT_BF16,        /* operations/s: dot products of pairs of bfloat16 in registers */
    KMF_LIMIT_INT8,        /* operations/s: dot products of four bytes in registers, with
                              AVX2 alone of two numbers of 16 bits */
    KMF_LIMIT_READ_L1,     /* bytes/s: reading 16 KiB */
    KMF_LIMIT_READ_L2,     /* bytes/s: reading 256 KiB */
    KMF_LIMIT_READ_MEMORY, /* bytes/s: reading 128 MiB; less with more than 16 threads */
    KMF_LIMIT_COPY_MEMORY, /* bytes/s: copying one half of 128 MiB onto the other, each byte
                              counted once */
    KMF_N_LIMITS
} kmf_limit_kind;
KMF_API extern const char *const kmf_limit_names[]; /* f32 bf16 int8 read_l1 read_l2 read_memory
                                                       copy_memory */

#define KMF_BENCH_SECONDS_MAX 3600.0

/*
 * Measures a limit on `threads` threads at the same time, 1 to 1024: *rate is their sum, the best
 * of five times of `seconds`, 0 (one portion) to KMF_BENCH_SECONDS_MAX; 0.02 are enough; *rate is 0
 * if the level lacks the instruction. Returns 0, KMF_EINVAL or KMF_ENOMEM.
 */
KMF_API int kmf_limit_measure(double *rate, kmf_limit_kind kind, int threads, double seconds,
                              kmf_err *err) KMF_MUST_CHECK;

/*
 * Multiplications and additions in the matrix products that a pass through all layers asks for,
 * for each token of a sequence of T.
 */
KMF_API double kmf_encoder_operations(const kmf_config *config, size_t T);

typedef struct kmf_speed {
    double tokens; /* a second, through all layers, by all threads */
    double limit;  /* operations/s by all threads: F32, BF16 or INT8 in turns with it */
} kmf_speed;

/*
 * How many tokens kmf_encoder_forward takes through all layers in a second, on `threads` threads
 * at the same time, 1 to 1024, in the precision that the model is prepared for. Each has an encoder
 * and a batch of its own: as many sequences of T tokens as go into batch_tokens, but one at least,
 * of ids drawn from seed. After a short run-up it works the batch off again and again, until
 * `seconds` are over, 0 (one turn) to KMF_BENCH_SECONDS_MAX.
 *
 * A processor's clock depends on what it computes, and what another process takes of it changes
 * from one moment to the next. So each thread measures its limit in turns with the encoder, 6 ms
 * after 20 ms or a longer batch, and both are sums over all turns: a share of this limit is one of
 * what the processor could do in just these seconds.
 */
KMF_API int kmf_encoder_speed(kmf_speed *speed, const kmf_model *model, int threads, size_t T,
                              size_t batch_tokens, double seconds, uint64_t seed,
                              kmf_err *err) KMF_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif
