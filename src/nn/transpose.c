/* SPDX-License-Identifier: MIT */
#include "nn/transpose.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "nn/vec.h"

#include <stdint.h>
#if KMF_X86_LEVELS
#include <immintrin.h>
#endif

static void transpose_plain(uint32_t *to, size_t ld_to, const uint32_t *from, size_t ld_from,
                            size_t rows, size_t cols)
{
    for (size_t j = 0; j < cols; j++)
        for (size_t i = 0; i < rows; i++)
            to[j * ld_to + i] = from[i * ld_from + j];
}

#if KMF_X86_LEVELS
#define SIDE ((size_t)16)

/*
 * Of 16 rows of 16 words: y[2 i] and y[2 i + 1] take the words of x[i] and x[i + 8] by turns. The
 * number of a word's place, four bits of its row and four of its column, is thereby turned by one
 * bit, so after four times rows are columns.
 */
KMF_TARGET_AVX512 static KMF_INLINE void interleave(__m512i y[16], const __m512i x[16])
{
    const __m512i low =
        _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high =
        _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    KMF_UNROLL(8)
    for (int i = 0; i < 8; i++) {
        y[2 * i] = _mm512_permutex2var_epi32(x[i], low, x[i + 8]);
        y[2 * i + 1] = _mm512_permutex2var_epi32(x[i], high, x[i + 8]);
    }
}

/* rows <= 16, cols <= 16 */
KMF_TARGET_AVX512 static KMF_INLINE void transpose_square(uint32_t *to, size_t ld_to,
                                                          const uint32_t *from, size_t ld_from,
                                                          size_t rows, size_t cols)
{
    __m512i a[16];
    __m512i b[16];
    KMF_UNROLL(16)
    for (size_t i = 0; i < SIDE; i++)
        a[i] = i < rows ? _mm512_maskz_loadu_epi32(kmf_first_lanes(cols), from + i * ld_from)
                        : _mm512_setzero_si512();
    interleave(b, a);
    interleave(a, b);
    interleave(b, a);
    interleave(a, b);
    KMF_UNROLL(16)
    for (size_t j = 0; j < SIDE; j++)
        if (j < cols)
            _mm512_mask_storeu_epi32(to + j * ld_to, kmf_first_lanes(rows), a[j]);
}

KMF_TARGET_AVX512 static void transpose_avx512(uint32_t *to, size_t ld_to, const uint32_t *from,
                                               size_t ld_from, size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i += SIDE)
        for (size_t j = 0; j < cols; j += SIDE) {
            size_t n = kmf_min(rows - i, SIDE);
            size_t m = kmf_min(cols - j, SIDE);
            transpose_square(to + j * ld_to + i, ld_to, from + i * ld_from + j, ld_from, n, m);
        }
}
#endif

void kmf_transpose_words(void *to, size_t ld_to, const void *from, size_t ld_from, size_t rows,
                         size_t cols)
{
#if KMF_X86_LEVELS
    if (kmf_cpu_level() >= KMF_CPU_AVX512) {
        transpose_avx512(to, ld_to, from, ld_from, rows, cols);
        return;
    }
#endif
    transpose_plain(to, ld_to, from, ld_from, rows, cols);
}
