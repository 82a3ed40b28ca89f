/* SPDX-License-Identifier: MIT */
#include "nn/quantise.h"

#include "base/cpu.h"
#include "nn/narrow.h"

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
#define STORE(p, v) _mm512_storeu_si512(p, v)
#define FIRST(n) (__mmask16)((n) < 16 ? (1u << (n)) - 1 : 0xffffu)
#define LOAD_SOME(p, there, other) _mm512_mask_loadu_ps(other, there, p)
#define KEEP(there, v) _mm512_maskz_mov_epi32(there, v)
#define FINITE(zero) (_mm512_cmp_ps_mask(zero, zero, _CMP_UNORD_Q) == 0)
#define LEAST _mm512_reduce_min_ps
#define MOST _mm512_reduce_max_ps
#define ROUND _mm512_cvtps_epi32
#define BYTES kmf_bytes_of
#include "nn/quantise_level.h"
#endif

void kmf_words_int8(kmf_rows to, float *scale, float *low, const float *x, size_t ld_x,
                    size_t N, size_t K)
{
#if KMF_X86_LEVELS
    rows_avx512(to, scale, low, x, ld_x, N, K);
#else
    (void)to, (void)scale, (void)low, (void)x, (void)ld_x, (void)N, (void)K;
    assert(!"bytes where kmf_precision_here has none");
#endif
}
