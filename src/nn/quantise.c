/* SPDX-License-Identifier: MIT */
#include "nn/quantise.h"

#include "base/cpu.h"
#include "nn/narrow.h"
#include "nn/vec.h"

#include <assert.h>
#include <math.h>
#if KMF_X86_LEVELS
#include <immintrin.h>

#define LEVEL avx512
#define TARGET KMF_TARGET_AVX512
#define LANES 16
#define FLOATS __m512
#define INTS __m512i
#define MASK __mmask16
#define SET(x) _mm512_set1_ps(x)
#define MIN _mm512_min_ps
#define MAX _mm512_max_ps
#define MULTIPLY_ADD _mm512_fmadd_ps
#define LOAD _mm512_loadu_ps
#define STORE(p, terms, a, b, c, d) _mm512_storeu_si512(p, kmf_bytes_of(a, b, c, d))
#define HALVES false
#define FIRST kmf_first_lanes
#define LOAD_SOME(p, there, other) _mm512_mask_loadu_ps(other, there, p)
#define KEEP(there, v) _mm512_maskz_mov_epi32(there, v)
#define FINITE(zero) (_mm512_cmp_ps_mask(zero, zero, _CMP_UNORD_Q) == 0)
#define LEAST _mm512_reduce_min_ps
#define MOST _mm512_reduce_max_ps
#define ROUND _mm512_cvtps_epi32
#include "nn/quantise_level.h"

KMF_TARGET_AVX2 static KMF_INLINE __m256 load_some(const float *p, __m256i there, __m256 other)
{
    return _mm256_blendv_ps(other, _mm256_maskload_ps(p, there), _mm256_castsi256_ps(there));
}

KMF_TARGET_AVX2 static KMF_INLINE float least_of(__m256 v)
{
    __m128 four = _mm_min_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 two = _mm_min_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_min_ps(two, _mm_movehdup_ps(two)));
}

KMF_TARGET_AVX2 static KMF_INLINE float most_of(__m256 v)
{
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ps(two, _mm_movehdup_ps(two)));
}

#define LEVEL avx2
#define TARGET KMF_TARGET_AVX2
#define LANES 8
#define FLOATS __m256
#define INTS __m256i
#define MASK __m256i
#define SET(x) _mm256_set1_ps(x)
#define MIN _mm256_min_ps
#define MAX _mm256_max_ps
#define MULTIPLY_ADD _mm256_fmadd_ps
#define LOAD _mm256_loadu_ps
#define STORE kmf_store_units_8
#define HALVES true
#define FIRST kmf_first_lanes_8
#define LOAD_SOME load_some
#define KEEP(there, v) _mm256_and_si256(there, v)
#define FINITE(zero) (_mm256_movemask_ps(_mm256_cmp_ps(zero, zero, _CMP_UNORD_Q)) == 0)
#define LEAST least_of
#define MOST most_of
#define ROUND _mm256_cvtps_epi32
#include "nn/quantise_level.h"
#endif

void kmf_words_int8(kmf_rows to, float *scale, float *low, const float *x, size_t ld_x,
                    size_t N, size_t K)
{
#if KMF_X86_LEVELS
    if (kmf_cpu_level() >= KMF_CPU_AVX512)
        rows_avx512(to, scale, low, x, ld_x, N, K);
    else
        rows_avx2(to, scale, low, x, ld_x, N, K);
#else
    (void)to, (void)scale, (void)low, (void)x, (void)ld_x, (void)N, (void)K;
    assert(!"bytes where kmf_precision_here has none");
#endif
}
