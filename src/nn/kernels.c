/* SPDX-License-Identifier: MIT */
/*
 * The plain engine's kernels. A weight is cut into panels of as many output columns as a register
 * tile holds, and the kernel reads it from one end to the other:
 *
 *        Din                    panel 0     panel 1          x: ROWS rows, read in place
 *      +-----+                 +--------+  +--------+
 *  W   |     |  Dout   ->      | k = 0  |  | k = 0  | ..   tile: ROWS x COLS sums, in registers
 *      |     |                 | k = 1  |  | k = 1  |
 *      +-----+                 | ...    |  | ...    |        the last panel is filled up with 0
 *
 * With AVX-512 a tile is 6 x 64: 24 sums, 4 vectors of the panel and a broadcast word fill 29 of
 * the 32 registers, and 64 divides the widths of nearly all models. With AVX2 it is 4 x 24, of
 * integers 6 x 16: 12 sums of 16 registers. In f32 levels with fused multiply-add agree in every
 * bit; the baseline rounds once more per product. Tiles are elsewhere (nn/amx.c).
 */
#include "nn/kernels.h"

#include "base/cpu.h"
#include "nn/amx.h"
#include "nn/epilogue.h"
#include "nn/narrow.h"

#if KMF_X86_LEVELS
#include <immintrin.h>
#endif

#if KMF_BASELINE_FMA
#define BASELINE_ROWS 8 /* arm64 has 32 vector registers, SSE2 16 */
#define BASELINE_ADD(a, b, c) fma_4(a, b, c)
typedef float floats_4 __attribute__((vector_size(16)));
static KMF_INLINE floats_4 fma_4(float a, floats_4 b, floats_4 c)
{
    KMF_UNROLL(4)
    for (int l = 0; l < 4; l++)
        c[l] = __builtin_fmaf(a, b[l], c[l]);
    return c;
}
#else
#define BASELINE_ROWS 4
#define BASELINE_ADD(a, b, c) ((c) + (a) * (b))
#endif

#define GATHER_DEEP 8 /* rows of a whose lines the first-level cache keeps, however far apart */

#define LEVEL baseline
#define TARGET
#define LANES 4
#define SUM float
#define WORD float
#define ROWS BASELINE_ROWS
#define COLS 8
#define MULTIPLY_ADD BASELINE_ADD
#define GATHERED
#include "nn/gemm_tile.h"

#if KMF_X86_LEVELS
#define LEVEL avx2
#define TARGET KMF_TARGET_AVX2
#define LANES 8
#define SUM float
#define WORD float
#define ROWS 4
#define COLS 24
#define MULTIPLY_ADD(a, b, c) \
    (sums_avx2) _mm256_fmadd_ps(_mm256_set1_ps(a), (__m256)(b), (__m256)(c))
#define GATHERED
#define ROUGH false
#define EXACT false
#include "nn/gemm_tile.h"

#define LEVEL avx512
#define TARGET KMF_TARGET_AVX512
#define LANES 16
#define SUM float
#define WORD float
#define ROWS 6
#define COLS 64
#define MULTIPLY_ADD(a, b, c) \
    (sums_avx512) _mm512_fmadd_ps(_mm512_set1_ps(a), (__m512)(b), (__m512)(c))
#define GATHERED
#define ROUGH false
#define EXACT false
#include "nn/gemm_tile.h"

/*
 * A pair in every lane. clang 16 looks through the copying without end, and crashes, unless what is
 * copied comes out of nowhere.
 */
KMF_TARGET_BF16 static KMF_INLINE __m512bh pair_in_lanes(int a)
{
    __m512i pairs = _mm512_set1_epi32(a);
#if defined(__clang__) && __clang_major__ >= 16 && __clang_major__ < 19
    __asm__("" : "+v"(pairs));
#endif
    return (__m512bh)pairs;
}

/* c + a0 b0 + a1 b1 in every lane; subnormal numbers count as 0. */
#define LEVEL bf16
#define TARGET KMF_TARGET_BF16
#define LANES 16
#define SUM float
#define WORD int
#define ROWS 6
#define COLS 64
#define MULTIPLY_ADD(a, b, c) \
    (sums_bf16) _mm512_dpbf16_ps((__m512)(c), pair_in_lanes(a), (__m512bh)(b))
#define GATHERED
#define ROUGH true
#define EXACT false
#include "nn/gemm_tile.h"

/* Exact as long as it fits: Din up to 65536. */
#define LEVEL halves_avx2
#define TARGET KMF_TARGET_AVX2
#define LANES 8
#define SUM int
#define WORD int
#define ROWS 6
#define COLS 16
#define MULTIPLY_ADD(a, b, c) \
    ((c) + (sums_halves_avx2)_mm256_madd_epi16(_mm256_set1_epi32(a), (__m256i)(b)))
#define ROUGH true
#define EXACT true
#include "nn/gemm_tile.h"

/* The same. */
#define LEVEL int8_avx2
#define TARGET KMF_TARGET_AVX2
#define LANES 8
#define SUM int
#define WORD int
#define ROWS 6
#define COLS 16
#define MULTIPLY_ADD(a, b, c) \
    (sums_int8_avx2) kmf_dot_bytes_8(_mm256_set1_epi32(a), (__m256i)(b), (__m256i)(c))
#define ROUGH true
#define EXACT true
#include "nn/gemm_tile.h"

#define LEVEL int8
#define TARGET KMF_TARGET_VNNI
#define LANES 16
#define SUM int
#define WORD int
#define ROWS 6
#define COLS 64
#define MULTIPLY_ADD(a, b, c) \
    (sums_int8) kmf_dot_bytes(_mm512_set1_epi32(a), (__m512i)(b), (__m512i)(c))
#define ROUGH true
#define EXACT true
#include "nn/gemm_tile.h"

/* Exact as long as it fits, which the scales of its rows see to (nn/panels.h). */
#define LEVEL int16
#define TARGET KMF_TARGET_VNNI
#define LANES 16
#define SUM int
#define WORD int
#define ROWS 6
#define COLS 64
#define MULTIPLY_ADD(a, b, c) \
    (sums_int16) kmf_dot_halves(_mm512_set1_epi32(a), (__m512i)(b), (__m512i)(c))
#define ROUGH true
#define EXACT true
#include "nn/gemm_tile.h"
#endif

#define WORDS_DEEP 512   /* of 64 columns: 128 KB, of which the second-level cache has more */
#define THIRDS_DEEP 1152 /* of 192 rows: 884 KB, which stay there while the columns pass by */
_Static_assert(WORDS_DEEP % KMF_ROWS_TILE == 0, "whole units of one part, and of two");
_Static_assert(THIRDS_DEEP % (3 * KMF_ROWS_TILE) == 0, "whole units of three parts");

#define IN_ROWS(which, level, n_cols, n_terms)                                        \
    .operand = (which), .panel = panel_##level, .rows = 24, .cols = (n_cols),         \
    .terms = (n_terms), .parts = 1, .unit = 1, .width = (n_cols), .product_rows = 96, \
    .depth = WORDS_DEEP
#define GATHERS(level, n_rows)                                            \
    .group_panel = group_panel_##level, .back_panel = back_panel_##level, \
    .gather = gather_##level, .group = (n_rows)

static const kmf_kernel f32_baseline = {IN_ROWS(KMF_OPERAND_F32, baseline, 8, 1),
                                        GATHERS(baseline, BASELINE_ROWS)};

#if KMF_X86_LEVELS
static const kmf_kernel f32_avx2 = {IN_ROWS(KMF_OPERAND_F32, avx2, 24, 1), GATHERS(avx2, 4),
                                    .fused = fused_avx2};
static const kmf_kernel f32_avx512 = {IN_ROWS(KMF_OPERAND_F32, avx512, 64, 1),
                                      GATHERS(avx512, 6), .fused = fused_avx512};
static const kmf_kernel bf16_rows = {IN_ROWS(KMF_OPERAND_BF16, bf16, 64, 2), GATHERS(bf16, 6),
                                     .fused = fused_bf16};
static const kmf_kernel int8_halves = {IN_ROWS(KMF_OPERAND_INT8, halves_avx2, 16, 2),
                                       .fused = fused_halves_avx2};
static const kmf_kernel int8_avx2 = {IN_ROWS(KMF_OPERAND_INT8, int8_avx2, 16, 4),
                                     .fused = fused_int8_avx2};
static const kmf_kernel int8_vnni = {IN_ROWS(KMF_OPERAND_INT8, int8, 64, 4),
                                     .fused = fused_int8};
static const kmf_kernel int16_avx2 = {IN_ROWS(KMF_OPERAND_INT16, halves_avx2, 16, 2),
                                      .fused = fused_halves_avx2};
static const kmf_kernel int16_vnni = {IN_ROWS(KMF_OPERAND_INT16, int16, 64, 2),
                                      .fused = fused_int16};

/* Tiles are so fast that a weight must be used often while it is near. */
#define IN_TILES(which, name, n_terms, n_parts, words_deep)                                 \
    .operand = (which), .tiled = true, .panel = kmf_amx_panel_##name, .rows = KMF_ROW_STEP, \
    .cols = KMF_ROWS_TILE, .terms = (n_terms), .parts = (n_parts), .unit = KMF_ROWS_TILE,   \
    .width = 64, .product_rows = 192, .depth = (words_deep)
#define GATHERS_TILES(name) \
    .group_panel = kmf_amx_panel_##name, .gather = kmf_amx_gather, .group = KMF_ROWS_TILE

static const kmf_kernel thirds_tiles = {
    IN_TILES(KMF_OPERAND_THIRDS, thirds, 2, 3, THIRDS_DEEP),
    GATHERS_TILES(thirds),
    .fused = kmf_amx_fused_thirds,
};
static const kmf_kernel bf16_tiles = {
    IN_TILES(KMF_OPERAND_BF16, bf16, 2, 1, WORDS_DEEP),
    GATHERS_TILES(bf16),
    .fused = kmf_amx_fused_bf16,
};
static const kmf_kernel split_tiles = {
    IN_TILES(KMF_OPERAND_SPLIT, split, 2, 2, 2 * WORDS_DEEP)};
static const kmf_kernel int8_tiles = {
    IN_TILES(KMF_OPERAND_INT8, int8, 4, 1, WORDS_DEEP),
    .fused = kmf_amx_fused_int8,
};
#endif

static const kmf_kernel *const kernels[KMF_OPERAND_THIRDS + 1][KMF_N_CPU] = {
#if KMF_X86_LEVELS
    [KMF_OPERAND_BF16] = {[KMF_CPU_BF16] = &bf16_rows, [KMF_CPU_AMX] = &bf16_tiles},
    [KMF_OPERAND_INT8] = {[KMF_CPU_AVX2] = &int8_halves,
                          [KMF_CPU_AVXVNNI] = &int8_avx2,
                          [KMF_CPU_VNNI] = &int8_vnni,
                          [KMF_CPU_BF16] = &int8_vnni,
                          [KMF_CPU_AMX] = &int8_tiles},
    [KMF_OPERAND_INT16] = {[KMF_CPU_AVX2] = &int16_avx2,
                           [KMF_CPU_AVXVNNI] = &int16_avx2,
                           [KMF_CPU_VNNI] = &int16_vnni,
                           [KMF_CPU_BF16] = &int16_vnni,
                           [KMF_CPU_AMX] = &int16_vnni},
    [KMF_OPERAND_SPLIT] = {[KMF_CPU_AMX] = &split_tiles},
    [KMF_OPERAND_THIRDS] = {[KMF_CPU_AMX] = &thirds_tiles},
    [KMF_OPERAND_F32][KMF_CPU_AVX2] = &f32_avx2,
    [KMF_OPERAND_F32][KMF_CPU_AVXVNNI] = &f32_avx2,
    [KMF_OPERAND_F32][KMF_CPU_AVX512] = &f32_avx512,
    [KMF_OPERAND_F32][KMF_CPU_VNNI] = &f32_avx512,
    [KMF_OPERAND_F32][KMF_CPU_BF16] = &f32_avx512,
    [KMF_OPERAND_F32][KMF_CPU_AMX] = &f32_avx512,
#endif
    [KMF_OPERAND_F32][KMF_CPU_BASELINE] = &f32_baseline,
};

const kmf_kernel *kmf_kernel_of(kmf_operand operand)
{
    return kernels[operand][kmf_cpu_level()];
}

void kmf_kernels_open(bool tiled)
{
    (void)tiled;
#if KMF_X86_LEVELS
    if (tiled)
        kmf_amx_open();
#endif
}

void kmf_kernels_close(bool tiled)
{
    (void)tiled;
#if KMF_X86_LEVELS
    if (tiled)
        kmf_amx_close();
#endif
}
