/* SPDX-License-Identifier: MIT */
#include "nn/weigh.h"

#include "base/cpu.h"
#include "nn/vmath.h"

#include <assert.h>
#include <math.h>
#if KMF_X86_LEVELS
#include <immintrin.h>
#endif

#define LANES 32

/* ---------------------------------------------------------------- f32 -------------------- */

static KMF_INLINE float sum_lanes(float *part)
{
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            part[l] += part[l + half];
    return part[0];
}

/* The largest of x and of row; a NaN may be passed over. */
static KMF_INLINE float max_of(const float *restrict row, float x, size_t n)
{
    float part[LANES];
    size_t j = 0;
    for (size_t l = 0; l < LANES; l++)
        part[l] = x;
    for (; j + LANES <= n; j += LANES)
        for (size_t l = 0; l < LANES; l++)
            part[l] = row[j + l] > part[l] ? row[j + l] : part[l];
    for (size_t l = 0; j + l < n; l++)
        part[l] = row[j + l] > part[l] ? row[j + l] : part[l];
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            part[l] = part[l + half] > part[l] ? part[l + half] : part[l];
    return part[0];
}

/* The weights 2^(score - max) of n scores, in their place, and their sum. */
static KMF_INLINE float weigh_row(bool fused, float *restrict row, float max, size_t n)
{
    float part[LANES] = {0};
    size_t j = 0;
    for (; j + LANES <= n; j += LANES)
        for (size_t l = 0; l < LANES; l++) {
            row[j + l] = kmf_exp2_down(fused, row[j + l] - max);
            part[l] += row[j + l];
        }
    for (size_t l = 0; j + l < n; l++) {
        row[j + l] = kmf_exp2_down(fused, row[j + l] - max);
        part[l] += row[j + l];
    }
    return sum_lanes(part);
}

static KMF_INLINE void kmf_weigh_body(bool fused, float *scores, size_t ld, kmf_running *r,
                                      bool first, size_t rows, size_t n)
{
    for (size_t i = 0; i < rows; i++) {
        float *row = scores + i * ld;
        float max = max_of(row, first ? -HUGE_VALF : r->max[i], n);
        r->factor[i] = first ? 0.0f : kmf_exp2_down(fused, r->max[i] - max);
        r->max[i] = max;
        float sum = weigh_row(fused, row, max, n);
        r->sum[i] = (first ? 0.0f : r->sum[i] * r->factor[i]) + sum;
    }
}

KMF_CLONES_FUSED(kmf_weigh,
                 (float *scores, size_t ld, kmf_running *r, bool first, size_t rows, size_t n),
                 (scores, ld, r, first, rows, n))

/* ---------------------------------------------------------------- bf16 ------------------- */

#if KMF_X86_LEVELS
/* 2^(x - max) to 1e-4, at least 2^-125: 2^n p(f), |f| <= 1/2. NaN stays NaN. */
KMF_TARGET_BF16 static KMF_INLINE __m512 power_of_2(__m512 x, __m512 max)
{
    __m512 y = _mm512_max_ps(_mm512_set1_ps(-125.0f), _mm512_sub_ps(x, max));
    __m512 whole = _mm512_roundscale_ps(y, 8);
    __m512 f = _mm512_sub_ps(y, whole);
    __m512 p = _mm512_set1_ps(0.0551716685f);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.242611125f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.693260968f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.999928057f));
    return _mm512_scalef_ps(p, whole);
}

/* The largest of x and of row, in whole steps; a NaN may be passed over. */
KMF_TARGET_BF16 static KMF_INLINE float max_of_bf16(const float *row, float x, size_t n)
{
    __m512 a = _mm512_set1_ps(x);
    __m512 b = a;
    for (size_t j = 0; j < n; j += KMF_WEIGH_STEP) {
        a = _mm512_max_ps(a, _mm512_loadu_ps(row + j));
        b = _mm512_max_ps(b, _mm512_loadu_ps(row + j + 16));
    }
    return _mm512_reduce_max_ps(_mm512_max_ps(a, b));
}

/* Weights of n scores, in whole steps, to half, and their sum. */
KMF_TARGET_BF16 static KMF_INLINE float weigh_row_bf16(uint16_t *half, const float *row,
                                                       float max, size_t n)
{
    __m512 top = _mm512_set1_ps(max);
    __m512 a = _mm512_setzero_ps();
    __m512 b = _mm512_setzero_ps();
    for (size_t j = 0; j < n; j += KMF_WEIGH_STEP) {
        __m512 x = power_of_2(_mm512_loadu_ps(row + j), top);
        __m512 y = power_of_2(_mm512_loadu_ps(row + j + 16), top);
        a = _mm512_add_ps(a, x);
        b = _mm512_add_ps(b, y);
        _mm512_storeu_si512(half + j, (__m512i)_mm512_cvtne2ps_pbh(y, x));
    }
    return _mm512_reduce_add_ps(_mm512_add_ps(a, b));
}

KMF_TARGET_BF16 void kmf_weigh_bf16(void *words, size_t ld_words, float *scores, size_t ld,
                                    kmf_running *r, bool first, size_t rows, size_t n)
{
    for (size_t i = 0; i < rows; i++) {
        float *row = scores + i * ld;
        uint16_t *half = (uint16_t *)words + i * ld_words * 2;
        float before = first ? -HUGE_VALF : r->max[i];
        for (size_t j = n; j % KMF_WEIGH_STEP != 0; j++)
            row[j] = -HUGE_VALF; /* a weight of 2^-125, for a value that is 0 */
        float max = max_of_bf16(row, before, n);
        __m512 factor = power_of_2(_mm512_set1_ps(before), _mm512_set1_ps(max));
        float sum = weigh_row_bf16(half, row, max, n);
        r->factor[i] = first ? 0.0f : _mm512_cvtss_f32(factor);
        r->sum[i] = (first ? 0.0f : r->sum[i] * r->factor[i]) + sum;
        r->max[i] = max;
    }
}
#else
void kmf_weigh_bf16(void *words, size_t ld_words, float *scores, size_t ld, kmf_running *r,
                    bool first, size_t rows, size_t n)
{
    (void)words, (void)ld_words, (void)scores, (void)ld, (void)r, (void)first, (void)rows;
    (void)n;
    assert(!"bf16 where kmf_precision_here has none");
}
#endif
