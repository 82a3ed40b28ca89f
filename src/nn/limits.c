/* SPDX-License-Identifier: MIT */
/*
 * The limits of the processor, measured where the program runs: a virtual machine, a quota or a
 * neighbour on the same socket change what a data sheet says.
 *
 * Arithmetic: chains of the very instruction that the kernels use (kernels.c), as many side by side
 * as registers hold, so that it is the units which are waited for and not a result. Nothing is
 * loaded, so no product of matrices can be faster. Memory: a sum of all words, and memcpy.
 *
 * Each of REPEATS times all threads start together and go on for some time; a thread's rate is what
 * it did by the time it took, the limit the best sum of them. The best, because whatever disturbs
 * makes it less.
 */
#include "base/barrier.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/err.h"
#include "base/mem.h"
#include "nn/amx.h"
#include "nn/gemm.h"
#include "nn/limits.h"
#include "nn/narrow.h"
#include "seq/par.h"

#include <stdio.h>
#include <string.h>
#if KMF_X86_LEVELS
#include <immintrin.h>
#elif KMF_BASELINE_FMA
#include <arm_neon.h>
#endif

#define REPEATS 5

#define KB ((size_t)1024)
#define L1_BYTES (16 * KB)
#define L2_BYTES (256 * KB)
#define MEMORY_BYTES (128 * KB * KB)
#define MEMORY_TOTAL (2048 * KB * KB)

/* Between two looks at the clock. */
#define ROUNDS 10000
#define PIECE_BYTES (1024 * KB)

/* What a loop of arithmetic stores at most. */
#define TILE_BYTES 1024

const char *const kmf_limit_names[] = {"f32",     "bf16",        "int8",        "read_l1",
                                       "read_l2", "read_memory", "copy_memory", NULL};

/* ---------------------------------------------------------------- loops ------------------ */

/*
 * Returns the operations or bytes that it did. What else it finds out goes to `to`, so that it
 * must be computed. n: rounds of arithmetic, bytes of `from`.
 */
typedef double loop_fn(void *to, const void *from, size_t n);

#define LEVEL baseline
#define TARGET
#define LANES 4
#define SUM float
#define TERMS 1
#if KMF_BASELINE_FMA
#define SUMS 24 /* of 32 registers */
#define STEP(c, a, b) vfmaq_f32((float32x4_t)(b), (float32x4_t)(c), (float32x4_t)(a))
#else
#define SUMS 14 /* of 16 registers */
#define STEP(c, a, b) ((c) * (a) + (b))
#endif
#define READING
#include "nn/limits_level.h"

#if KMF_X86_LEVELS
#define LEVEL avx2
#define TARGET KMF_TARGET_AVX2
#define LANES 8
#define SUM float
#define TERMS 1
#define SUMS 12
#define STEP(c, a, b) _mm256_fmadd_ps((__m256)(c), (__m256)(a), (__m256)(b))
#define READING
#include "nn/limits_level.h"

#define LEVEL avx512
#define TARGET KMF_TARGET_AVX512
#define LANES 16
#define SUM float
#define TERMS 1
#define SUMS 24
#define STEP(c, a, b) _mm512_fmadd_ps((__m512)(c), (__m512)(a), (__m512)(b))
#define READING
#include "nn/limits_level.h"

#define LEVEL bf16
#define TARGET KMF_TARGET_BF16
#define LANES 16
#define SUM float
#define TERMS 2
#define SUMS 24
#define STEP(c, a, b) \
    _mm512_dpbf16_ps((__m512)(c), (__m512bh)(__m512)(a), (__m512bh)(__m512)(b))
#include "nn/limits_level.h"

/* Together, or the product, the same in each round, would be taken once. */
KMF_TARGET_AVX2 static KMF_INLINE __m256i dot_halves_8(__m256i a, __m256i b, __m256i c)
{
    __m256i product;
    __asm__("vpmaddwd %3, %2, %1\n\tvpaddd %1, %0, %0"
            : "+x"(c), "=&x"(product)
            : "x"(a), "x"(b));
    return c;
}

#define LEVEL halves_avx2
#define TARGET KMF_TARGET_AVX2
#define LANES 8
#define SUM int
#define TERMS 2
#define SUMS 12
#define STEP(c, a, b) dot_halves_8((__m256i)(a), (__m256i)(b), (__m256i)(c))
#include "nn/limits_level.h"

#define LEVEL int8_avx2
#define TARGET KMF_TARGET_AVX2
#define LANES 8
#define SUM int
#define TERMS 4
#define SUMS 12
#define STEP(c, a, b) kmf_dot_bytes_8((__m256i)(a), (__m256i)(b), (__m256i)(c))
#include "nn/limits_level.h"

#define LEVEL int8
#define TARGET KMF_TARGET_VNNI
#define LANES 16
#define SUM int
#define TERMS 4
#define SUMS 24
#define STEP(c, a, b) kmf_dot_bytes((__m512i)(a), (__m512i)(b), (__m512i)(c))
#include "nn/limits_level.h"

#define TILE_WORDS 256

/* Numbers, as models have them: with zeros the clock is up to a third higher. */
static void fill_tiles(uint32_t words[4 * TILE_WORDS], uint32_t kept, uint32_t set)
{
    uint32_t state = 1;
    for (size_t i = 0; i < 4 * TILE_WORDS; i++) {
        state = state * 1664525u + 1013904223u;
        words[i] = ((state >> 16 | state << 16) & kept) | set;
    }
}

/* n rounds of four products of tiles that do not wait for one another. */
#define MULTIPLY_TILES(name, product, terms, kept, set)                     \
    KMF_TARGET_AMX static double name(void *to, const void *from, size_t n) \
    {                                                                       \
        uint32_t words[4 * TILE_WORDS];                                     \
        (void)from;                                                         \
        fill_tiles(words, kept, set);                                       \
        kmf_amx_open();                                                     \
        _tile_loadd(4, words, 64);                                          \
        _tile_loadd(5, words + TILE_WORDS, 64);                             \
        _tile_loadd(6, words + 2 * TILE_WORDS, 64);                         \
        _tile_loadd(7, words + 3 * TILE_WORDS, 64);                         \
        for (size_t i = 0; i < n; i++) {                                    \
            product(0, 4, 6);                                               \
            product(1, 4, 7);                                               \
            product(2, 5, 6);                                               \
            product(3, 5, 7);                                               \
        }                                                                   \
        _tile_stored(0, to, 64);                                            \
        kmf_amx_close();                                                    \
        return 2.0 * (double)(n * 4 * 16 * 16 * 16 * (terms));              \
    }
/* Halves are of 0.5 to 1, of either sign; bytes are all that there are. */
MULTIPLY_TILES(multiply_tiles_bf16, _tile_dpbf16ps, 2, 0x807f807fu, 0x3f003f00u)
MULTIPLY_TILES(multiply_tiles_int8, _tile_dpbusd, 4, UINT32_MAX, 0)
#endif

static double copy(void *to, const void *from, size_t n)
{
    memcpy(to, from, n);
    return (double)n;
}

static loop_fn *const multiplying[KMF_LIMIT_READ_L1][KMF_N_CPU] = {
#if KMF_X86_LEVELS
    [KMF_LIMIT_F32][KMF_CPU_AVX2] = multiply_avx2,
    [KMF_LIMIT_F32][KMF_CPU_AVXVNNI] = multiply_avx2,
    [KMF_LIMIT_F32][KMF_CPU_AVX512] = multiply_avx512,
    [KMF_LIMIT_F32][KMF_CPU_VNNI] = multiply_avx512,
    [KMF_LIMIT_F32][KMF_CPU_BF16] = multiply_avx512,
    [KMF_LIMIT_F32][KMF_CPU_AMX] = multiply_avx512,
    [KMF_LIMIT_BF16][KMF_CPU_BF16] = multiply_bf16,
    [KMF_LIMIT_BF16][KMF_CPU_AMX] = multiply_tiles_bf16,
    [KMF_LIMIT_INT8][KMF_CPU_AVX2] = multiply_halves_avx2,
    [KMF_LIMIT_INT8][KMF_CPU_AVXVNNI] = multiply_int8_avx2,
    [KMF_LIMIT_INT8][KMF_CPU_VNNI] = multiply_int8,
    [KMF_LIMIT_INT8][KMF_CPU_BF16] = multiply_int8,
    [KMF_LIMIT_INT8][KMF_CPU_AMX] = multiply_tiles_int8,
#endif
    [KMF_LIMIT_F32][KMF_CPU_BASELINE] = multiply_baseline,
};

static loop_fn *const reading[] = {
    [KMF_CPU_BASELINE] = read_baseline,
#if KMF_X86_LEVELS
    [KMF_CPU_AVX2] = read_avx2,
    [KMF_CPU_AVX512] = read_avx512,
#endif
};

/* NULL: the level has no such instruction. */
static loop_fn *find_loop(kmf_limit_kind kind)
{
    if (kind < KMF_LIMIT_READ_L1)
        return multiplying[kind][kmf_cpu_level()];
    return kind == KMF_LIMIT_COPY_MEMORY ? copy : reading[kmf_cpu_vectors()];
}

double kmf_limit_portion(kmf_limit_kind kind)
{
    char sum[TILE_BYTES];
    loop_fn *fn = kind < KMF_LIMIT_READ_L1 ? find_loop(kind) : NULL;
    return fn ? fn(sum, sum, ROUNDS) : 0;
}

/* ---------------------------------------------------------------- measuring -------------- */

typedef struct trial {
    loop_fn *fn;
    size_t n;      /* of one call; of an array, the bytes of a piece */
    size_t calls;  /* between two looks at the clock */
    size_t from;   /* bytes of a thread's array */
    size_t to;     /* bytes of its other array, which takes the same if it copies */
    char *rooms;   /* owned [threads, to + from] */
    double *rates; /* owned [threads, REPEATS] */
    double seconds;
    kmf_barrier barrier;
} trial;

/* The arrays of one thread. */
static void set_arrays(trial *t, kmf_limit_kind kind, int threads)
{
    size_t memory = MEMORY_TOTAL / (size_t)threads / PIECE_BYTES * PIECE_BYTES;
    if (memory > MEMORY_BYTES)
        memory = MEMORY_BYTES;
    t->to = KMF_PAGE;
    t->from = 0;
    t->n = ROUNDS;
    t->calls = 1;
    if (kind < KMF_LIMIT_READ_L1)
        return;
    if (kind == KMF_LIMIT_COPY_MEMORY)
        t->to = t->from = memory / 2 / PIECE_BYTES * PIECE_BYTES; /* 1 MB or more */
    else
        t->from = kind == KMF_LIMIT_READ_L1   ? L1_BYTES
                  : kind == KMF_LIMIT_READ_L2 ? L2_BYTES
                                              : memory;
    t->n = t->from < PIECE_BYTES ? t->from : PIECE_BYTES;
    t->calls = PIECE_BYTES / t->n;
}

static void run(void *arg, int thread)
{
    trial *t = arg;
    char *to = t->rooms + (size_t)thread * (t->to + t->from);
    const char *from = to + t->to;
    size_t at = 0;
    memset(to, 1, t->to + t->from); /* each page comes to the processor that uses it */
    for (int r = 0; r < REPEATS; r++) {
        double done = 0;
        double seconds;
        kmf_barrier_wait(&t->barrier);
        double begin = kmf_now();
        do {
            for (size_t i = 0; i < t->calls; i++) {
                done += t->fn(to + (t->to > KMF_PAGE ? at : 0), from + at, t->n);
                at = at + t->n < t->from ? at + t->n : 0;
            }
            seconds = kmf_now() - begin;
        } while (seconds < t->seconds);
        t->rates[thread * REPEATS + r] = done / seconds;
    }
}

int kmf_limit_check_seconds(double seconds, kmf_err *err)
{
    if (seconds >= 0 && seconds <= KMF_BENCH_SECONDS_MAX)
        return 0;
    return kmf_fail(err, KMF_EINVAL, "%g seconds: they must be 0 to %g", seconds,
                    KMF_BENCH_SECONDS_MAX);
}

int kmf_limit_measure(double *rate, kmf_limit_kind kind, int threads, double seconds,
                      kmf_err *err)
{
    int status = KMF_ENOMEM;
    trial t = {.fn = find_loop(kind), .seconds = seconds};
    *rate = 0;
    if ((unsigned)kind >= KMF_N_LIMITS)
        return kmf_fail(err, KMF_EINVAL, "there is no limit number %d", (int)kind);
    if (threads < 1 || threads > KMF_THREADS_MAX)
        return kmf_fail(err, KMF_EINVAL, "%d threads: it must be 1 to %d", threads,
                        KMF_THREADS_MAX);
    if (kmf_limit_check_seconds(seconds, err) < 0)
        return KMF_EINVAL;
    if (!t.fn)
        return 0;
    set_arrays(&t, kind, threads);
    kmf_barrier_init(&t.barrier, threads);
    t.rooms = kmf_large((size_t)threads, t.to + t.from, err);
    t.rates = kmf_calloc((size_t)threads * REPEATS, sizeof *t.rates, err);
    if (!t.rooms || !t.rates)
        goto out;
    status = kmf_together(threads, run, &t, err);
    for (int r = 0; r < REPEATS && status == 0; r++) {
        double sum = 0;
        for (int i = 0; i < threads; i++)
            sum += t.rates[i * REPEATS + r];
        *rate = sum > *rate ? sum : *rate;
    }
out:
    kmf_free(t.rooms);
    kmf_free(t.rates);
    return status;
}

/* ---------------------------------------------------------------- description ------------ */

void kmf_processor_describe(kmf_processor *processor)
{
    char line[256];
    FILE *file = fopen("/proc/cpuinfo", "r");
    snprintf(processor->name, sizeof processor->name, "unknown");
    while (file && fgets(line, sizeof line, file)) {
        const char *value = strstr(line, ": ");
        if (!value || strncmp(line, "model name", 10) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        snprintf(processor->name, sizeof processor->name, "%.120s", value + 2);
        break;
    }
    if (file)
        fclose(file);
    processor->level = kmf_cpu_name(kmf_cpu_level());
    processor->products = kmf_gemm_name();
}
