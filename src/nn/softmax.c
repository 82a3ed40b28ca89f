/* SPDX-License-Identifier: MIT */
#include "nn/softmax.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "nn/lanes.h"
#include "nn/narrow.h"
#include "nn/panels.h"
#include "nn/vec.h"
#include "nn/vmath.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#if KMF_X86_LEVELS
#include <immintrin.h>
#endif

#define STEP 32 /* scores at a time, to bf16 */

/* Of the largest weight before it is rounded: of 254, and of KMF_WEIGHT_INT16. */
#define LOG2_BYTE 7.98868469f
#define LOG2_INT16 11.0f
_Static_assert(KMF_WEIGHT_INT16 == 1 << 11, "LOG2_INT16 is its logarithm");

/* 2^f for |f| <= 1/2, to 1e-4: a polynomial, its first coefficient that of f^0. */
#define POWER_0 0.999928057f
#define POWER_1 0.693260968f
#define POWER_2 0.242611125f
#define POWER_3 0.0551716685f

/* ---------------------------------------------------------------- plain ------------------ */

typedef int32_t four_bits __attribute__((vector_size(16)));

static KMF_INLINE vec4 larger(vec4 a, vec4 b)
{
    four_bits above = a > b;
    return (vec4)((above & (four_bits)a) | (~above & (four_bits)b));
}

/* The largest of KMF_SUM_LANES, by vectors of four for the reason told at kmf_sum_lanes. */
static KMF_INLINE float max_lanes(const float *part)
{
    vec4 v[KMF_SUM_LANES / 4];
    memcpy(v, part, sizeof v);
    vec4 most = larger(larger(larger(v[0], v[4]), larger(v[2], v[6])),
                       larger(larger(v[1], v[5]), larger(v[3], v[7])));
    float a = most[0] > most[2] ? most[0] : most[2];
    float b = most[1] > most[3] ? most[1] : most[3];
    return a > b ? a : b;
}

/* The largest of x and of row, in whole steps; of those with a NaN, any. */
static KMF_INLINE float max_of(const float *restrict row, float x, size_t n)
{
    float part[KMF_SUM_LANES];
    for (size_t l = 0; l < KMF_SUM_LANES; l++)
        part[l] = x;
    for (size_t j = 0; j < n; j += KMF_SUM_LANES)
        for (size_t l = 0; l < KMF_SUM_LANES; l++)
            part[l] = row[j + l] > part[l] ? row[j + l] : part[l];
    return max_lanes(part);
}

static KMF_INLINE float larger_of(float a, float b)
{
    return b > a ? b : a;
}

/* The weights 2^(score - max) of n scores, in whole steps and in their place, and their sum. */
static KMF_INLINE float softmax_row(bool fused, float *restrict row, float max, size_t n)
{
    float part[KMF_SUM_LANES] = {0};
    for (size_t j = 0; j < n; j += KMF_SUM_LANES)
        for (size_t l = 0; l < KMF_SUM_LANES; l++) {
            row[j + l] = kmf_exp2_down(fused, row[j + l] - max);
            part[l] += row[j + l];
        }
    return kmf_sum_lanes(part);
}

/* Behind the n-th score up to a whole step: weights of 0. Where that ends. */
static KMF_INLINE size_t fill_step(float *row, size_t n, size_t step)
{
    for (; n % step != 0; n++)
        row[n] = -HUGE_VALF;
    return n;
}

/* Fills up all rows, and takes in their maxima. How many scores there are in whole steps. */
static KMF_INLINE size_t prepare_rows(bool fused, kmf_softmax_state *r, float *scores,
                                      size_t ld, const float *most, bool first, size_t rows,
                                      size_t n, size_t step)
{
    size_t steps = n;
    for (size_t i = 0; i < rows; i++) {
        float *row = scores + i * ld;
        steps = fill_step(row, n, step);
        float before = first ? -HUGE_VALF : r->max[i];
        float max = most ? larger_of(before, most[i]) : max_of(row, before, steps);
        r->factor[i] = first ? 0.0f : kmf_exp2_down(fused, r->max[i] - max);
        r->max[i] = max;
    }
    return steps;
}

static KMF_INLINE void add_sum(kmf_softmax_state *r, size_t i, bool first, float sum)
{
    r->sum[i] = (first ? 0.0f : r->sum[i] * r->factor[i]) + sum;
}

static KMF_INLINE void kmf_softmax_step_body(bool fused, float *scores, size_t ld,
                                             kmf_softmax_state *r, const float *most,
                                             bool first, size_t rows, size_t n)
{
    size_t steps = prepare_rows(fused, r, scores, ld, most, first, rows, n, KMF_SUM_LANES);
    for (size_t i = 0; i < rows; i++)
        add_sum(r, i, first, softmax_row(fused, scores + i * ld, r->max[i], steps));
}

KMF_CLONES_FUSED(kmf_softmax_step,
                 (float *scores, size_t ld, kmf_softmax_state *r, const float *most, bool first,
                  size_t rows, size_t n),
                 (scores, ld, r, most, first, rows, n))

#if KMF_X86_LEVELS
/*
 * What is added to the weights of 16 keys before they are rounded, in units of 1/64 and beside
 * -31.5 of them: the four highest bits of six, turned round. Those of the next 16 keys are 2, 1, 3
 * more.
 */
static const float of_16[16] = {0, 32, 16, 48, 8, 40, 24, 56, 4, 36, 20, 52, 12, 44, 28, 60};
static const float of_64[4] = {0, 2, 1, 3};

/* 2^(x - max) as by AVX-512, below; without its instructions: n = -127 makes the bits of 0. */
KMF_TARGET_AVX2 static KMF_INLINE __m256 power_of_2_by_8(__m256 x, __m256 max)
{
    __m256 shift = _mm256_set1_ps(KMF_TO_INTEGER);
    __m256 y = _mm256_max_ps(_mm256_set1_ps(-127.0f), _mm256_sub_ps(x, max)); /* or NaN */
    __m256 t = _mm256_add_ps(y, shift);
    __m256 f = _mm256_sub_ps(y, _mm256_sub_ps(t, shift));
    __m256 p = _mm256_set1_ps(POWER_3);
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(POWER_2));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(POWER_1));
    p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(POWER_0));
    __m256i n = _mm256_add_epi32(_mm256_castps_si256(t), _mm256_set1_epi32(127));
    return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(n, 23)));
}

/* The weight of key l of 64 and the seven behind it, to integers; below 0 for NaN. */
KMF_TARGET_AVX2 static KMF_INLINE __m256i level_by_8(const float *row, size_t l, __m256 top)
{
    __m256 of = _mm256_loadu_ps(of_16 + l % 16);
    __m256 more = _mm256_set1_ps(of_64[l / 16] - 31.5f);
    __m256 threshold = _mm256_mul_ps(_mm256_add_ps(of, more), _mm256_set1_ps(0x1p-6f));
    __m256 weight = power_of_2_by_8(_mm256_loadu_ps(row + l), top);
    return _mm256_cvtps_epi32(_mm256_add_ps(weight, threshold));
}

/*
 * Weights of n scores, in whole steps, to integers, and their sum. terms, of a word, is a constant
 * wherever this is inlined; one: the score whose weight is 1.
 */
KMF_TARGET_AVX2 static KMF_INLINE float softmax_row_by_8(uint8_t *to, size_t terms,
                                                         const float *row, float one, size_t n)
{
    __m256 top = _mm256_set1_ps(one);
    __m256i sum = _mm256_setzero_si256();
    __m256i any = sum;
    for (size_t j = 0; j < n; j += KMF_SOFTMAX_STEP) {
        KMF_UNROLL(2)
        for (size_t l = 0; l < KMF_SOFTMAX_STEP; l += 32) {
            __m256i a = level_by_8(row + j, l, top);
            __m256i b = level_by_8(row + j, l + 8, top);
            __m256i c = level_by_8(row + j, l + 16, top);
            __m256i d = level_by_8(row + j, l + 24, top);
            any = _mm256_or_si256(_mm256_or_si256(any, _mm256_or_si256(a, b)),
                                  _mm256_or_si256(c, d));
            sum = _mm256_add_epi32(
                sum, _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d)));
            kmf_store_units_8(to + (j + l) * (4 / terms), terms, a, b, c, d);
        }
    }
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
    __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    __m128i all = _mm_add_epi32(two, _mm_shuffle_epi32(two, 1));
    bool nan = _mm256_movemask_ps(_mm256_castsi256_ps(any)) != 0;
    return nan ? NAN : (float)_mm_cvtsi128_si32(all);
}

KMF_TARGET_AVX2 static void softmax_integers_avx2(kmf_rows to, float log2_most, float *scores,
                                                  size_t ld, kmf_softmax_state *r,
                                                  const float *most, bool first, size_t rows,
                                                  size_t n)
{
    size_t steps = prepare_rows(true, r, scores, ld, most, first, rows, n, KMF_SOFTMAX_STEP);
    assert(!to.tiled);
    for (size_t i = 0; i < rows; i++) {
        uint8_t *words = (uint8_t *)(to.words + i * to.ld);
        const float *row = scores + i * ld;
        float one = r->max[i] - log2_most;
        add_sum(r, i, first,
                to.terms == 2 ? softmax_row_by_8(words, 2, row, one, steps)
                              : softmax_row_by_8(words, 4, row, one, steps));
    }
}

KMF_TARGET_AVX2 static void scores_of_integers_avx2(float *scores, size_t ld,
                                                    const kmf_score_units *units, float *most,
                                                    size_t rows, size_t n)
{
    for (size_t i = 0; i < rows; i++) {
        float *row = scores + i * ld;
        size_t steps = n / KMF_SUM_LANES * KMF_SUM_LANES;
        for (size_t j = 0; j < n; j++)
            row[j] = kmf_int8_number(true, (int32_t)kmf_bits_of(row[j]), units->scale[i],
                                     units->low[i], units->key_scales[j], units->key_sums[j]);
        most[i] = max_of(row, -HUGE_VALF, steps);
        for (size_t j = steps; j < n; j++)
            most[i] = larger_of(most[i], row[j]);
    }
}

/* ---------------------------------------------------------------- by AVX-512 ------------- */

/*
 * 2^(x - max) to 1e-4, down to 0: 2^n p(f), |f| <= 1/2. NaN stays NaN; for x of -infinity f and p
 * are NaN, and vscalefps makes 0 of a NaN times 2^-infinity. x - max is a product as well, because
 * the units of sums have most of the rest to do (Zen 4).
 */
KMF_TARGET_AVX512 static KMF_INLINE __m512 power_of_2(__m512 x, __m512 max)
{
    __m512 y = _mm512_fmsub_ps(x, _mm512_set1_ps(1.0f), max);
    __m512 whole = _mm512_roundscale_ps(y, 8);
    __m512 f = _mm512_sub_ps(y, whole);
    __m512 p = _mm512_set1_ps(POWER_3);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(POWER_2));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(POWER_1));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(POWER_0));
    return _mm512_scalef_ps(p, whole);
}

/* The largest of row, in whole steps; of one with a NaN, any. */
KMF_TARGET_AVX512 static KMF_INLINE float max_of_steps(const float *row, size_t n)
{
    __m512 a = _mm512_set1_ps(-HUGE_VALF);
    __m512 b = a;
    for (size_t j = 0; j < n; j += STEP) {
        a = _mm512_max_ps(a, _mm512_loadu_ps(row + j));
        b = _mm512_max_ps(b, _mm512_loadu_ps(row + j + 16));
    }
    return _mm512_reduce_max_ps(_mm512_max_ps(a, b));
}

#define AT_ONCE 4 /* rows */

_Static_assert(KMF_SOFTMAX_ROWS % AT_ONCE == 0, "sums of rows are read so many at a time");

/* a + b, or the larger one: b where one is NaN. */
KMF_TARGET_AVX512 static KMF_INLINE __m512 fold(__m512 a, __m512 b, bool largest)
{
    return largest ? _mm512_max_ps(a, b) : _mm512_add_ps(a, b);
}

/* The sum of each vector's lanes, or their largest: halves, then halves of these, and so on. */
KMF_TARGET_AVX512 static KMF_INLINE __m128 fold_rows(const __m512 v[AT_ONCE], bool largest)
{
    __m512 a = fold(_mm512_shuffle_f32x4(v[0], v[1], 0xee),
                    _mm512_shuffle_f32x4(v[0], v[1], 0x44), largest);
    __m512 b = fold(_mm512_shuffle_f32x4(v[2], v[3], 0xee),
                    _mm512_shuffle_f32x4(v[2], v[3], 0x44), largest);
    __m512 x =
        fold(_mm512_shuffle_f32x4(a, b, 0xdd), _mm512_shuffle_f32x4(a, b, 0x88), largest);
    x = fold(_mm512_permute_ps(x, 0x4e), x, largest);
    x = fold(_mm512_permute_ps(x, 0xb1), x, largest);
    __m512i firsts = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    return _mm512_castps512_ps128(_mm512_permutexvar_ps(firsts, x));
}

KMF_TARGET_AVX512 static KMF_INLINE void store_rows(float *to, __m128 x, size_t rows)
{
    _mm_mask_storeu_ps(to, (__mmask8)((1u << rows) - 1), x);
}

/* Of some rows: what turns their sums into scores, and the largest ones so far, in lanes. */
typedef struct numbering {
    __m512 scale[AT_ONCE], low[AT_ONCE], most[AT_ONCE];
} numbering;

/* Those of 16 keys that are there, as kmf_int8_number has it. */
KMF_TARGET_AVX512 static KMF_INLINE void number_16(numbering *of, float *scores, size_t ld,
                                                   const float *key_scales,
                                                   const float *key_sums, __mmask16 there,
                                                   size_t rows)
{
    __m512 by = _mm512_maskz_loadu_ps(there, key_scales);
    __m512 more = _mm512_maskz_loadu_ps(there, key_sums);
    KMF_UNROLL(AT_ONCE)
    for (size_t r = 0; r < rows; r++) {
        __m512 sums = _mm512_cvtepi32_ps(_mm512_maskz_loadu_epi32(there, scores + r * ld));
        __m512 x = _mm512_fmadd_ps(of->scale[r], sums, _mm512_mul_ps(of->low[r], more));
        x = _mm512_mul_ps(by, x);
        _mm512_mask_storeu_ps(scores + r * ld, there, x);
        of->most[r] = _mm512_mask_max_ps(of->most[r], there, of->most[r], x);
    }
}

/* The rows from i on; how many is a constant wherever this is inlined. */
KMF_TARGET_AVX512 static KMF_INLINE void number_rows(float *scores, size_t ld,
                                                     const kmf_score_units *units, float *most,
                                                     size_t i, size_t rows, size_t n)
{
    numbering of;
    KMF_UNROLL(AT_ONCE)
    for (size_t r = 0; r < AT_ONCE; r++) {
        of.scale[r] = _mm512_set1_ps(r < rows ? units->scale[i + r] : 0);
        of.low[r] = _mm512_set1_ps(r < rows ? units->low[i + r] : 0);
        of.most[r] = _mm512_set1_ps(-HUGE_VALF);
    }
    scores += i * ld;
    size_t j = 0;
    for (; j + 16 <= n; j += 16)
        number_16(&of, scores + j, ld, units->key_scales + j, units->key_sums + j, 0xffff,
                  rows);
    if (j < n)
        number_16(&of, scores + j, ld, units->key_scales + j, units->key_sums + j,
                  kmf_first_lanes(n - j), rows);
    store_rows(most + i, fold_rows(of.most, true), rows);
}

KMF_TARGET_AVX512 static void scores_of_integers_avx512(float *scores, size_t ld,
                                                        const kmf_score_units *units,
                                                        float *most, size_t rows, size_t n)
{
    size_t i = 0;
    for (; i + AT_ONCE <= rows; i += AT_ONCE)
        number_rows(scores, ld, units, most, i, AT_ONCE, n);
    for (; i < rows; i++)
        number_rows(scores, ld, units, most, i, 1, n);
}

/* As fill_step, by vectors: loads of whole ones need not wait for single stores. */
KMF_TARGET_AVX512 static KMF_INLINE size_t fill_vectors(float *row, size_t n, size_t step)
{
    size_t steps = kmf_round_up(n, step);
    __m512 least = _mm512_set1_ps(-HUGE_VALF);
    if (n % 16 > 0)
        _mm512_mask_storeu_ps(row + n / 16 * 16, (__mmask16)(0xffffu << n % 16), least);
    for (size_t j = kmf_round_up(n, 16); j < steps; j += 16)
        _mm512_storeu_ps(row + j, least);
    return steps;
}

/*
 * The rows' new maxima, and the factors that go with them: 1, and not 1 - 7e-5, if one stays. All
 * rows before any is made weights.
 */
KMF_TARGET_AVX512 static KMF_INLINE void raise(kmf_softmax_state *r, const float *most,
                                               bool first, size_t rows)
{
    for (size_t i = 0; i < rows; i += 16) {
        __mmask16 there = kmf_first_lanes(rows - i);
        __m512 before =
            first ? _mm512_set1_ps(-HUGE_VALF) : _mm512_maskz_loadu_ps(there, r->max + i);
        __m512 max = _mm512_max_ps(_mm512_maskz_loadu_ps(there, most + i), before);
        __mmask16 stays = _mm512_cmp_ps_mask(before, max, _CMP_EQ_OQ);
        __m512 factor =
            _mm512_mask_mov_ps(power_of_2(before, max), stays, _mm512_set1_ps(1.0f));
        _mm512_mask_storeu_ps(r->max + i, there, max);
        _mm512_mask_storeu_ps(r->factor + i, there, first ? _mm512_setzero_ps() : factor);
    }
}

/* Fills up all rows, and takes in their maxima. How many scores there are in whole steps. */
KMF_TARGET_AVX512 static KMF_INLINE size_t prepare(kmf_softmax_state *r, float *scores,
                                                   size_t ld, const float *most, bool first,
                                                   size_t rows, size_t n, size_t step)
{
    float found[KMF_SOFTMAX_ROWS];
    size_t steps = n;
    assert(rows <= KMF_SOFTMAX_ROWS);
    for (size_t i = 0; i < rows; i++) {
        steps = fill_vectors(scores + i * ld, n, step);
        if (!most)
            found[i] = max_of_steps(scores + i * ld, steps);
    }
    raise(r, most ? most : found, first, rows);
    return steps;
}

/* s of some rows, from the lanes' sums. */
KMF_TARGET_AVX512 static KMF_INLINE void add_sums(kmf_softmax_state *r, size_t i, bool first,
                                                  const __m512 sums[AT_ONCE], size_t rows)
{
    __m128 sum = fold_rows(sums, false);
    if (!first)
        sum =
            _mm_add_ps(_mm_mul_ps(_mm_loadu_ps(r->sum + i), _mm_loadu_ps(r->factor + i)), sum);
    store_rows(r->sum + i, sum, rows);
}

/*
 * Weights below the normal numbers, which keys far away have under ALiBi, become 0, and what is
 * returned goes to _mm_setcsr: a vector with one of them takes 150 cycles. Neither bf16 nor a byte
 * has them, nor can they be seen in a sum of which 1 is a part.
 */
static KMF_INLINE unsigned flush_subnormal(void)
{
    unsigned before = _mm_getcsr();
    _mm_setcsr(before | _MM_FLUSH_ZERO_ON);
    return before;
}

/* Weights of n scores, in whole steps, to half, and their lanes' sums. */
KMF_TARGET_BF16 static KMF_INLINE __m512 softmax_row_bf16(uint16_t *half, size_t step,
                                                          const float *row, float max, size_t n)
{
    __m512 top = _mm512_set1_ps(max);
    __m512 a = _mm512_setzero_ps();
    __m512 b = _mm512_setzero_ps();
    for (size_t j = 0; j < n; j += STEP, half += step) {
        __m512 x = power_of_2(_mm512_loadu_ps(row + j), top);
        __m512 y = power_of_2(_mm512_loadu_ps(row + j + 16), top);
        a = _mm512_add_ps(a, x);
        b = _mm512_add_ps(b, y);
        _mm512_storeu_si512(half, (__m512i)_mm512_cvtne2ps_pbh(y, x));
    }
    return _mm512_add_ps(a, b);
}

KMF_TARGET_BF16 void kmf_softmax_step_bf16(kmf_rows to, float *scores, size_t ld,
                                           kmf_softmax_state *r, const float *most, bool first,
                                           size_t rows, size_t n)
{
    size_t steps = prepare(r, scores, ld, most, first, rows, n, STEP);
    unsigned before = flush_subnormal();
    for (size_t i = 0; i < rows; i += AT_ONCE) {
        __m512 sums[AT_ONCE] = {_mm512_setzero_ps()};
        size_t some = kmf_min(rows - i, AT_ONCE);
        for (size_t k = 0; k < some; k++)
            sums[k] = softmax_row_bf16((uint16_t *)(to.words + kmf_rows_at(&to, i + k, 0)),
                                       kmf_rows_step(&to) * 2, scores + (i + k) * ld,
                                       r->max[i + k], steps);
        add_sums(r, i, first, sums, some);
    }
    _mm_setcsr(before);
}

/* Of 16 keys, numbered in their 64. */
KMF_TARGET_VNNI static KMF_INLINE __m512 thresholds(int which)
{
    return _mm512_mul_ps(
        _mm512_add_ps(_mm512_loadu_ps(of_16), _mm512_set1_ps(of_64[which] - 31.5f)),
        _mm512_set1_ps(0x1p-6f));
}

/* A weight to an integer; below 0 for NaN. */
KMF_TARGET_VNNI static KMF_INLINE __m512i level(const float *row, __m512 top, __m512 threshold)
{
    return _mm512_cvtps_epi32(_mm512_add_ps(power_of_2(_mm512_loadu_ps(row), top), threshold));
}

KMF_TARGET_VNNI static KMF_INLINE __m512i or_3(__m512i a, __m512i b, __m512i c)
{
    return _mm512_ternarylogic_epi32(a, b, c, 0xfe);
}

/*
 * Weights of n scores, in whole steps, to integers, and their lanes' sums. terms, of a word, is a
 * constant wherever this is inlined; 16 words stand side by side, the next `step` bytes from there.
 * one: the score whose weight is 1.
 */
KMF_TARGET_VNNI static KMF_INLINE __m512 softmax_row_integers(uint8_t *words, size_t step,
                                                              size_t terms, const float *row,
                                                              float one, size_t n)
{
    __m512 top = _mm512_set1_ps(one);
    __m512 of_a = thresholds(0);
    __m512 of_b = thresholds(1);
    __m512 of_c = thresholds(2);
    __m512 of_d = thresholds(3);
    __m512i sum = _mm512_setzero_si512();
    __m512i any = sum;
    for (size_t j = 0; j < n; j += KMF_SOFTMAX_STEP, words += step * (4 / terms)) {
        __m512i a = level(row + j, top, of_a);
        __m512i b = level(row + j + 16, top, of_b);
        __m512i c = level(row + j + 32, top, of_c);
        __m512i d = level(row + j + 48, top, of_d);
        any = or_3(or_3(any, a, b), c, d);
        if (terms == 4) {
            __m512i packed = kmf_bytes_of(a, b, c, d);
            sum = _mm512_dpbusd_epi32(sum, packed, _mm512_set1_epi8(1));
            _mm512_storeu_si512(words, packed);
        } else {
            __m512i first = kmf_halves_of(a, b);
            __m512i second = kmf_halves_of(c, d);
            sum = kmf_dot_halves(first, _mm512_set1_epi16(1), sum);
            sum = kmf_dot_halves(second, _mm512_set1_epi16(1), sum);
            _mm512_storeu_si512(words, first);
            _mm512_storeu_si512(words + step, second);
        }
    }
    return _mm512_mask_mov_ps(_mm512_cvtepi32_ps(sum), _mm512_movepi32_mask(any),
                              _mm512_set1_ps(NAN));
}

KMF_TARGET_VNNI static void softmax_integers_vnni(kmf_rows to, float log2_most, float *scores,
                                                  size_t ld, kmf_softmax_state *r,
                                                  const float *most, bool first, size_t rows,
                                                  size_t n)
{
    size_t steps = prepare(r, scores, ld, most, first, rows, n, KMF_SOFTMAX_STEP);
    unsigned before = flush_subnormal();
    for (size_t i = 0; i < rows; i += AT_ONCE) {
        __m512 sums[AT_ONCE] = {_mm512_setzero_ps()};
        size_t some = kmf_min(rows - i, AT_ONCE);
        for (size_t k = 0; k < some; k++) {
            uint8_t *words = (uint8_t *)(to.words + kmf_rows_at(&to, i + k, 0));
            size_t step = kmf_rows_step(&to) * 4;
            const float *row = scores + (i + k) * ld;
            float one = r->max[i + k] - log2_most;
            sums[k] = to.terms == 2 ? softmax_row_integers(words, step, 2, row, one, steps)
                                    : softmax_row_integers(words, step, 4, row, one, steps);
        }
        add_sums(r, i, first, sums, some);
    }
    _mm_setcsr(before);
}

void kmf_scores_of_integers(float *scores, size_t ld, const kmf_score_units *units, float *most,
                            size_t rows, size_t n)
{
    assert(rows <= KMF_SOFTMAX_ROWS);
    if (kmf_cpu_level() >= KMF_CPU_AVX512)
        scores_of_integers_avx512(scores, ld, units, most, rows, n);
    else
        scores_of_integers_avx2(scores, ld, units, most, rows, n);
}

static void softmax_integers(kmf_rows to, float log2_most, float *scores, size_t ld,
                             kmf_softmax_state *r, const float *most, bool first, size_t rows,
                             size_t n)
{
    if (kmf_cpu_level() >= KMF_CPU_VNNI)
        softmax_integers_vnni(to, log2_most, scores, ld, r, most, first, rows, n);
    else
        softmax_integers_avx2(to, log2_most, scores, ld, r, most, first, rows, n);
}

void kmf_softmax_step_int8(kmf_rows to, float *scores, size_t ld, kmf_softmax_state *r,
                           const float *most, bool first, size_t rows, size_t n)
{
    softmax_integers(to, LOG2_BYTE, scores, ld, r, most, first, rows, n);
}

void kmf_softmax_step_int16(kmf_rows to, float *scores, size_t ld, kmf_softmax_state *r,
                            const float *most, bool first, size_t rows, size_t n)
{
    softmax_integers(to, LOG2_INT16, scores, ld, r, most, first, rows, n);
}

#else
void kmf_scores_of_integers(float *scores, size_t ld, const kmf_score_units *units, float *most,
                            size_t rows, size_t n)
{
    (void)scores, (void)ld, (void)units, (void)most, (void)rows, (void)n;
    assert(!"integers where kmf_kernel_of has none");
}

void kmf_softmax_step_bf16(kmf_rows to, float *scores, size_t ld, kmf_softmax_state *r,
                           const float *most, bool first, size_t rows, size_t n)
{
    (void)to, (void)scores, (void)ld, (void)r, (void)most, (void)first, (void)rows;
    (void)n;
    assert(!"words where kmf_kernel_of has none");
}

void kmf_softmax_step_int8(kmf_rows to, float *scores, size_t ld, kmf_softmax_state *r,
                           const float *most, bool first, size_t rows, size_t n)
{
    kmf_softmax_step_bf16(to, scores, ld, r, most, first, rows, n);
}

void kmf_softmax_step_int16(kmf_rows to, float *scores, size_t ld, kmf_softmax_state *r,
                            const float *most, bool first, size_t rows, size_t n)
{
    kmf_softmax_step_bf16(to, scores, ld, r, most, first, rows, n);
}
#endif
