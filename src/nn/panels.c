/* SPDX-License-Identifier: MIT */
#include "nn/panels.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "nn/narrow.h"
#include "nn/transpose.h"
#include "nn/vec.h"
#include "nn/vmath.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#if KMF_X86_LEVELS
#include <immintrin.h>
#endif

#define WORDS_UNIT 16    /* of a row of activations */
#define NUMBERS_AHEAD 64 /* of a row, and of those beside it */
#define ROWS_AHEAD 16    /* of the one that is read */

/* ---------------------------------------------------------------- sizes ------------------ */

/* Words that hold K terms, without those of 0 that make them whole units. */
static size_t words_of(const kmf_kernel *kernel, size_t K)
{
    return kmf_div_up(K, kernel->terms);
}

/* Bytes of the panels alone. */
static bool panel_bytes(const kmf_kernel *kernel, size_t Dout, size_t Din, size_t *bytes)
{
    size_t cols = Dout;
    size_t words;
    if (!kmf_add(cols, kernel->cols - 1, &cols) ||
        !kmf_add(Din, kernel->terms * kernel->unit - 1, &words) ||
        !kmf_mul(words, kernel->parts, &words))
        return false;
    cols = cols / kernel->cols * kernel->cols;
    words = kmf_kernel_words(kernel, Din);
    return kmf_mul(cols, words, &words) && kmf_mul(words, sizeof(float), bytes);
}

static size_t groups(size_t Din)
{
    return Din / KMF_INT8_GROUP + (Din % KMF_INT8_GROUP > 0);
}

size_t kmf_panels_bytes(const kmf_kernel *kernel, size_t Dout, size_t Din)
{
    size_t bytes, scales;
    if (!panel_bytes(kernel, Dout, Din, &bytes) || !kmf_mul(Dout, 2 + groups(Din), &scales) ||
        !kmf_mul(scales, sizeof(float), &scales))
        return 0;
    if (!kmf_has_scales(kernel))
        scales = 0;
    if (!kmf_add(bytes, scales, &bytes) || !kmf_add(bytes, 63, &bytes))
        return 0;
    return bytes / 64 * 64;
}

static size_t scales_offset(const kmf_kernel *kernel, size_t Dout, size_t Din)
{
    return kmf_round_up(Dout, kernel->cols) * kmf_kernel_words(kernel, Din) * sizeof(float);
}

const float *kmf_panels_scales(const kmf_kernel *kernel, const void *panels, size_t Dout,
                               size_t Din)
{
    return (const float *)(const void *)((const char *)panels +
                                         scales_offset(kernel, Dout, Din));
}

size_t kmf_words_ld(const kmf_kernel *kernel, size_t K)
{
    return kmf_round_up(kmf_kernel_words(kernel, K), WORDS_UNIT);
}

/* ---------------------------------------------------------------- bfloat16 --------------- */

/*
 * row_to_bf16: K numbers, and zeros up to a multiple of 32; 32 of them stand side by side, `step`
 * words from there their next part, and behind the last part the next 32.
 * pair_rows: words [n] = a and b side by side, as bf16, and `step` words from there their next
 * part; the first PAIRED of them, `next` words from there those that follow; b may be NULL: zeros.
 */
#define PAIRED 16
#if KMF_X86_LEVELS
/* The lanes that the numbers of K from i on fill. */
static KMF_INLINE __mmask16 lanes_at(size_t i, size_t K)
{
    return kmf_first_lanes(K > i ? K - i : 0);
}

KMF_TARGET_BF16 static KMF_INLINE void row_to_parts(uint32_t *to, size_t step, size_t parts,
                                                    const float *x, size_t K)
{
    size_t i = 0;
    for (; i + 32 <= K; i += 32, to += parts * step)
        kmf_store_parts(to, step, parts, _mm512_loadu_ps(x + i), _mm512_loadu_ps(x + i + 16));
    if (i < K)
        kmf_store_parts(to, step, parts, _mm512_maskz_loadu_ps(lanes_at(i, K), x + i),
                        _mm512_maskz_loadu_ps(lanes_at(i + 16, K), x + i + 16));
}

KMF_TARGET_BF16 static void row_to_bf16(uint32_t *to, size_t step, size_t parts, const float *x,
                                        size_t K)
{
    if (parts == 1)
        row_to_parts(to, step, 1, x, K);
    else if (parts == 3)
        row_to_parts(to, step, 3, x, K);
    else
        row_to_parts(to, step, parts, x, K);
}

KMF_TARGET_BF16 static KMF_INLINE void pair_parts(uint32_t *words, size_t next, size_t step,
                                                  size_t parts, const float *a, const float *b,
                                                  size_t n)
{
    static const uint16_t place[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                       21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                       11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    __m512i side_by_side = _mm512_loadu_si512(place);
    for (size_t j = 0; j < n; j += PAIRED, words += next) {
        __mmask16 there = lanes_at(j, n);
        __m512 x = _mm512_maskz_loadu_ps(there, a + j);
        __m512 y = b ? _mm512_maskz_loadu_ps(there, b + j) : _mm512_setzero_ps();
        uint32_t *to = words;
        for (size_t p = 1; p < parts; p++, to += step) {
            __m512i low = _mm512_castps_si512(kmf_take_part(&x));
            __m512i high = _mm512_castps_si512(kmf_take_part(&y));
            _mm512_mask_storeu_epi32(to, there,
                                     _mm512_or_si512(_mm512_srli_epi32(low, 16), high));
        }
        __m512i both = (__m512i)_mm512_cvtne2ps_pbh(y, x);
        _mm512_mask_storeu_epi32(to, there, _mm512_permutexvar_epi16(side_by_side, both));
    }
}

KMF_TARGET_BF16 static void pair_rows(uint32_t *words, size_t next, size_t step, size_t parts,
                                      const float *a, const float *b, size_t n)
{
    if (parts == 1)
        pair_parts(words, next, step, 1, a, b, n);
    else if (parts == 3)
        pair_parts(words, next, step, 3, a, b, n);
    else
        pair_parts(words, next, step, parts, a, b, n);
}
#else
/* base/half.h's rounding, without a branch. */
static KMF_INLINE uint32_t bf16_of(float x)
{
    uint32_t bits = kmf_bits_of(x);
    uint32_t quiet = (bits >> 16) | 0x40u;
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (bits & ~KMF_SIGN_BIT) > KMF_INFINITY_BITS ? quiet : rounded;
}

/* Without tiles there is one part. */
static void row_to_bf16(uint32_t *to, size_t step, size_t parts, const float *x, size_t K)
{
    assert(parts == 1);
    for (size_t i = 0; i < kmf_round_up(K, 32); i += 2)
        to[i / 32 * step * parts + i % 32 / 2] =
            (i < K ? bf16_of(x[i]) : 0) | (i + 1 < K ? bf16_of(x[i + 1]) << 16 : 0);
}

static void pair_rows(uint32_t *words, size_t next, size_t step, size_t parts, const float *a,
                      const float *b, size_t n)
{
    assert(parts == 1);
    (void)step, (void)parts;
    for (size_t j = 0; j < n; j++)
        words[j / PAIRED * next + j % PAIRED] = bf16_of(a[j]) | (b ? bf16_of(b[j]) << 16 : 0);
}
#endif

void kmf_words_bf16(kmf_rows to, const float *x, size_t ld_x, size_t N, size_t K)
{
    for (size_t n = 0; n < N; n++)
        row_to_bf16(to.words + kmf_rows_at(&to, n, 0), kmf_rows_step(&to), to.parts,
                    x + n * ld_x, K);
}

/* Where word k of the first part stands; that of the next one is a unit from there. */
static size_t place_of(const kmf_kernel *kernel, size_t k)
{
    return k / kernel->unit * kernel->unit * kernel->parts + k % kernel->unit;
}

/* to, words of cols each: zeros from the first part's word k on up to a whole unit. */
static void fill_unit(uint32_t *to, const kmf_kernel *kernel, size_t cols, size_t k)
{
    for (; k % kernel->unit != 0; k++)
        for (size_t p = 0; p < kernel->parts; p++)
            memset(to + (place_of(kernel, k) + p * kernel->unit) * cols, 0, cols * sizeof *to);
}

void kmf_words_pairs(void *words, size_t ld, const kmf_kernel *kernel, const float *x,
                     size_t ld_x, size_t N, size_t K)
{
    for (size_t k = 0; k < K; k += 2)
        pair_rows((uint32_t *)words + place_of(kernel, k / 2) * ld, PAIRED, kernel->unit * ld,
                  kernel->parts, x + k * ld_x, k + 1 < K ? x + (k + 1) * ld_x : NULL, N);
    fill_unit(words, kernel, ld, words_of(kernel, K));
}

/* ---------------------------------------------------------------- int8 ------------------- */

#define INT8_MOST 127.0f

/* most: the bits of the largest magnitude; integer: what that becomes. */
static KMF_INLINE float scale_of(uint32_t most, float integer)
{
    return most < KMF_INFINITY_BITS ? kmf_float_of(most) / integer : NAN;
}

/* What a number is multiplied by; 0 where all are 0, or one is not finite. */
static KMF_INLINE float factor_of(float scale)
{
    return scale > 0 ? 1.0f / scale : 0.0f;
}

static KMF_INLINE uint32_t magnitude(float x)
{
    return kmf_bits_of(x) & ~KMF_SIGN_BIT;
}

static void find_scale(float *scale, const float *row, size_t K);

/* Magnitudes are in the order of their bits, and the largest of integers is found in any order. */
static KMF_INLINE void find_scale_body(float *scale, const float *row, size_t K)
{
    uint32_t most = 0;
    for (size_t i = 0; i < K; i++) {
        uint32_t bits = magnitude(row[i]);
        most = bits > most ? bits : most;
    }
    *scale = scale_of(most, INT8_MOST);
}

KMF_CLONES(find_scale, (float *scale, const float *row, size_t K), (scale, row, K))

/*
 * Why rounding twice is rounding once. Let m be the largest magnitude and scale = k u, u the
 * spacing of floats there, 2^23 <= k < 2^24, so that |m / u - 127 k| < 64. The largest of the
 * rounded row is 127 scale as a float. From 127 k = 2^30 on floats are 128 u apart, m is one, so
 * 127 scale becomes m. Below they are 64 u apart: it is off by 32 u at most, the quotient by
 * 0.26 u.
 */
float kmf_int8_scale(const float *row, size_t K)
{
    float scale;
    find_scale(&scale, row, K);
    return scale;
}

/* x factor, rounded, in its lowest bits: two's complement. */
static KMF_INLINE uint32_t round_times(float x, float factor)
{
    return kmf_bits_of(x * factor + KMF_TO_INTEGER);
}

static KMF_INLINE uint32_t low_byte(float x, float factor)
{
    return round_times(x, factor) & 0xffu;
}

static KMF_INLINE uint32_t low_half(float x, float factor)
{
    return round_times(x, factor) & 0xffffu;
}

static KMF_INLINE void kmf_int8_round_body(int8_t *restrict q, float *sum,
                                           const float *restrict x, float scale, size_t n)
{
    float factor = factor_of(scale);
    int32_t total = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t low = low_byte(x[i], factor);
        int32_t value = (int32_t)(low ^ 0x80u) - 0x80;
        q[i] = (int8_t)value;
        total += value;
    }
    *sum += (float)total;
}

KMF_CLONES(kmf_int8_round, (int8_t * q, float *sum, const float *x, float scale, size_t n),
           (q, sum, x, scale, n))

/* most [n]: bits of the largest magnitudes so far of n columns, one row after the other. */
static void raise_magnitudes(uint32_t *most, const float *row, size_t n);

static KMF_INLINE void raise_magnitudes_body(uint32_t *restrict most, const float *restrict row,
                                             size_t n)
{
    for (size_t j = 0; j < n; j++) {
        uint32_t bits = magnitude(row[j]);
        most[j] = bits > most[j] ? bits : most[j];
    }
}

KMF_CLONES(raise_magnitudes, (uint32_t * most, const float *row, size_t n), (most, row, n))

/* words [n] = two rows side by side, in halves, or four, as bytes; a factor for each column. */
static void integer_rows(uint32_t *words, size_t terms, const float *const rows[4],
                         const float *factors, size_t n);

static KMF_INLINE void integer_rows_body(uint32_t *words, size_t terms,
                                         const float *const rows[4], const float *factors,
                                         size_t n)
{
    const float *a = rows[0];
    const float *b = rows[1];
    const float *c = rows[2];
    const float *d = rows[3];
    if (terms == 2) {
        KMF_INDEPENDENT
        for (size_t j = 0; j < n; j++)
            words[j] = low_half(a[j], factors[j]) | low_half(b[j], factors[j]) << 16;
    } else {
        KMF_INDEPENDENT
        for (size_t j = 0; j < n; j++)
            words[j] = low_byte(a[j], factors[j]) | low_byte(b[j], factors[j]) << 8 |
                       low_byte(c[j], factors[j]) << 16 | low_byte(d[j], factors[j]) << 24;
    }
}

KMF_CLONES(integer_rows,
           (uint32_t * words, size_t terms, const float *const rows[4], const float *factors,
            size_t n),
           (words, terms, rows, factors, n))

/* ---------------------------------------------------------------- int16 ------------------ */

#define INT16_NORM 32000.0f

/*
 * squares_of: the sum of the squares of x [K].
 * row_to_int16: to [room] = x factor, rounded, and zeros behind the K-th.
 */
#if KMF_X86_LEVELS
KMF_TARGET_VNNI static float squares_by_16(const float *x, size_t K)
{
    __m512 sum = _mm512_setzero_ps();
    for (size_t i = 0; i < K; i += 16) {
        __m512 v = _mm512_maskz_loadu_ps(lanes_at(i, K), x + i);
        sum = _mm512_fmadd_ps(v, v, sum);
    }
    return _mm512_reduce_add_ps(sum);
}

KMF_TARGET_VNNI static void int16_by_16(int16_t *to, const float *x, float factor, size_t K,
                                        size_t room)
{
    for (size_t i = 0; i < room; i += 16) {
        __m512 v = _mm512_setzero_ps();
        if (i < K)
            v = _mm512_maskz_loadu_ps(lanes_at(i, K), x + i);
        __m512i rounded = _mm512_cvtps_epi32(_mm512_mul_ps(v, _mm512_set1_ps(factor)));
        _mm256_storeu_si256((__m256i *)(void *)(to + i), _mm512_cvtsepi32_epi16(rounded));
    }
}

KMF_TARGET_AVX2 static float squares_by_8(const float *x, size_t K)
{
    __m256 sum = _mm256_setzero_ps();
    for (size_t i = 0; i < K; i += 8) {
        __m256 v = _mm256_maskload_ps(x + i, kmf_first_lanes_8(K - i));
        sum = _mm256_fmadd_ps(v, v, sum);
    }
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

/* Eight of them from i on, as 32 bits. */
KMF_TARGET_AVX2 static KMF_INLINE __m256i integers_at(const float *x, size_t i, size_t K,
                                                      float factor)
{
    __m256 v = _mm256_maskload_ps(x + i, kmf_first_lanes_8(i < K ? K - i : 0));
    return _mm256_cvtps_epi32(_mm256_mul_ps(v, _mm256_set1_ps(factor)));
}

KMF_TARGET_AVX2 static void int16_by_8(int16_t *to, const float *x, float factor, size_t K,
                                       size_t room)
{
    for (size_t i = 0; i < room; i += 16) {
        __m256i packed =
            _mm256_packs_epi32(integers_at(x, i, K, factor), integers_at(x, i + 8, K, factor));
        _mm256_storeu_si256((__m256i *)(void *)(to + i),
                            _mm256_permute4x64_epi64(packed, 0xd8)); /* in their order */
    }
}

static float squares_of(const float *x, size_t K)
{
    return kmf_cpu_level() >= KMF_CPU_VNNI ? squares_by_16(x, K) : squares_by_8(x, K);
}

static void row_to_int16(int16_t *to, const float *x, float factor, size_t K, size_t room)
{
    if (kmf_cpu_level() >= KMF_CPU_VNNI)
        int16_by_16(to, x, factor, K, room);
    else
        int16_by_8(to, x, factor, K, room);
}
#else
static float squares_of(const float *x, size_t K)
{
    float sum = 0;
    for (size_t i = 0; i < K; i++)
        sum += x[i] * x[i];
    return sum;
}

static void row_to_int16(int16_t *to, const float *x, float factor, size_t K, size_t room)
{
    for (size_t i = 0; i < room; i++)
        to[i] = (int16_t)(i < K ? lrintf(x[i] * factor) : 0);
}
#endif

/* NaN if the row holds what is not finite, or whose square is not. */
static float int16_scale(const float *x, size_t K)
{
    float norm = sqrtf(squares_of(x, K));
    return norm < HUGE_VALF ? norm / INT16_NORM : NAN;
}

void kmf_words_int16(kmf_rows to, float *scale, float *low, const float *x, size_t ld_x,
                     size_t N, size_t K)
{
    assert(!to.tiled);
    for (size_t n = 0; n < N; n++) {
        scale[n] = int16_scale(x + n * ld_x, K);
        low[n] = 0;
        row_to_int16((int16_t *)(to.words + n * to.ld), x + n * ld_x, factor_of(scale[n]), K,
                     kmf_round_up(K, 32));
    }
}

/* ---------------------------------------------------------------- panels ----------------- */

typedef struct matrix {
    const float *const *parts;
    size_t part_rows, ld, rows;
} matrix;

/* There are three parts at most: faster than dividing. */
static const float *row_of(const matrix *m, size_t o)
{
    size_t part = 0;
    while (o >= m->part_rows) {
        o -= m->part_rows;
        part++;
    }
    return m->parts[part] + o * m->ld;
}

/*
 * Fetches columns beg .. beg + n - 1 of n_rows rows from o on, as far as there are. Keys and values
 * of a head are short pieces far apart, which no processor sees coming.
 */
static void fetch_rows(const matrix *m, size_t o, size_t n_rows, size_t beg, size_t n)
{
    for (size_t end = o + n_rows; o < end && o < m->rows; o++) {
        const float *row = row_of(m, o) + beg;
        for (size_t j = 0; j < n; j += 16)
            __builtin_prefetch(row + j);
    }
}

/*
 * Of n_cols rows from o on, which are read n numbers at a time, those that come some steps behind
 * the numbers from k on; near the end of the rows, of the n_cols rows behind them.
 */
static void fetch_ahead(const matrix *m, size_t o, size_t n_cols, size_t k, size_t n,
                        size_t Din)
{
    size_t at = k + NUMBERS_AHEAD;
    if (Din <= NUMBERS_AHEAD)
        fetch_rows(m, o + n_cols, n_cols, k, n);
    else if (at < Din)
        fetch_rows(m, o, n_cols, at, kmf_min(n, Din - at));
    else
        fetch_rows(m, o + n_cols, n_cols, at - Din, n);
}

static float row_scale(const kmf_kernel *kernel, const float *row, size_t K)
{
    return kernel->operand == KMF_OPERAND_INT16 ? int16_scale(row, K) : kmf_int8_scale(row, K);
}

#define WORDS_TURNED 16 /* of a part */

/*
 * kmf_int8_round; where a word has two terms, to WORDS_TURNED words of halves, zeros behind the
 * n-th.
 */
static void int8_words(uint32_t *words, const kmf_kernel *kernel, float *sum, const float *x,
                       float scale, size_t n)
{
    int8_t q[WORDS_TURNED * 2] = {0};
    int16_t halves[WORDS_TURNED * 2]; /* and not words as such: they are read as uint32_t */
    if (kernel->terms == 4) {
        kmf_int8_round((int8_t *)words, sum, x, scale, n);
        return;
    }
    assert(n <= sizeof q);
    kmf_int8_round(q, sum, x, scale, n);
    for (size_t i = 0; i < sizeof q; i++)
        halves[i] = (int16_t)q[i];
    memcpy(words, halves, sizeof halves);
}

/* Words of terms k .. k + n - 1 of row o of a weight. */
static void weight_words(uint32_t *words, const kmf_kernel *kernel, const matrix *m, size_t o,
                         size_t k, size_t n, float scale, float *sum)
{
    const float *x = row_of(m, o) + k;
    memset(words, 0, kmf_kernel_words(kernel, n) * sizeof *words);
    if (kernel->terms == 1)
        memcpy(words, x, n * sizeof *words);
    else if (kernel->operand == KMF_OPERAND_INT8)
        int8_words(words, kernel, sum, x, scale, n);
    else if (kernel->operand == KMF_OPERAND_INT16)
        row_to_int16((int16_t *)(void *)words, x, factor_of(scale), n, kmf_round_up(n, 16));
    else
        row_to_bf16(words, WORDS_TURNED, kernel->parts, x, n);
}

/* sums [Dout] = what stands behind it added up over the groups. */
static void add_groups(float *sums, size_t Dout, size_t Din)
{
    for (size_t k = 0; k < Din; k += KMF_INT8_GROUP)
        for (size_t o = 0; o < Dout; o++)
            sums[o] += sums[(1 + k / KMF_INT8_GROUP) * Dout + o];
}

void kmf_panels_pack(void *panels, const kmf_kernel *kernel, const float *const *parts,
                     size_t n_parts, size_t ld, size_t Dout, size_t Din)
{
    assert(n_parts > 0 && Dout % n_parts == 0);
    assert(kernel->cols * kernel->parts <= KMF_PANEL_COLS);
    matrix m = {parts, Dout / n_parts, ld, Dout};
    size_t words = kmf_kernel_words(kernel, Din);
    size_t cols = kernel->cols;
    bool quantised = kmf_has_scales(kernel);
    float *scales = (float *)(void *)((char *)panels + scales_offset(kernel, Dout, Din));
    _Alignas(64) uint32_t rows[KMF_PANEL_COLS * WORDS_TURNED];
    size_t row_words = WORDS_TURNED * kernel->parts;
    size_t most =
        WORDS_TURNED * kernel->terms; /* of a row, converted at a time: divides a group */
    if (quantised)
        memset(scales + Dout, 0, (1 + groups(Din)) * Dout * sizeof *scales);
    for (size_t beg = 0; beg < Dout; beg += cols) {
        uint32_t *panel = (uint32_t *)panels + beg * words;
        size_t n_cols = kmf_min(Dout - beg, cols);
        bool in_place = kernel->terms == 1 && cols <= KMF_KERNEL_COLS &&
                        beg % m.part_rows + n_cols <= m.part_rows;
        if (quantised)
            fetch_rows(&m, beg + cols, cols, 0, kmf_min(Din, 4 * NUMBERS_AHEAD));
        for (size_t j = 0; quantised && j < n_cols; j++)
            scales[beg + j] = row_scale(kernel, row_of(&m, beg + j), Din);
        for (size_t k = 0; k < Din; k += most) {
            size_t n = kmf_min(Din - k, most);
            size_t n_words = kmf_kernel_words(kernel, n);
            uint32_t *to = panel + kmf_kernel_words(kernel, k) * cols;
            float *sums = quantised ? scales + (2 + k / KMF_INT8_GROUP) * Dout + beg : NULL;
            if (!quantised) /* then all were read to find the scales */
                fetch_ahead(&m, beg, cols, k, n, Din);
            if (in_place) {
                kmf_transpose_words(to, cols, row_of(&m, beg) + k, ld, n_cols, n);
            } else {
                for (size_t j = 0; j < n_cols; j++)
                    weight_words(rows + j * row_words, kernel, &m, beg + j, k, n,
                                 quantised ? scales[beg + j] : 0.0f, sums ? &sums[j] : NULL);
                kmf_transpose_words(to, cols, rows, row_words, n_cols, n_words);
            }
            for (size_t i = 0; n_cols < cols && i < n_words; i++)
                memset(to + i * cols + n_cols, 0, (cols - n_cols) * sizeof *to);
        }
    }
    if (quantised)
        add_groups(scales + Dout, Dout, Din);
}

/*
 * Of columns beg .. beg + n - 1 of W, which are rows of W^T: what a value is multiplied by, and the
 * scales.
 */
static void find_column_scales(float *scales, float *factors, const kmf_kernel *kernel,
                               const matrix *m, size_t beg, size_t n)
{
    float integer = kernel->operand == KMF_OPERAND_INT16 ? (float)KMF_VALUE_INT16 : INT8_MOST;
    uint32_t most[KMF_PANEL_COLS] = {0};
    for (size_t o = 0; o < m->rows; o++) {
        fetch_rows(m, o + ROWS_AHEAD, 1, beg, n);
        raise_magnitudes(most, row_of(m, o) + beg, n);
    }
    for (size_t j = 0; j < n; j++) {
        scales[j] = scale_of(most[j], integer);
        factors[j] = factor_of(scales[j]);
    }
}

/* Words of integers, of n columns of a panel. */
static void integer_words(uint32_t *to, const kmf_kernel *kernel, const matrix *m, size_t o,
                          size_t beg, size_t n, const float *factors)
{
    static const float zeros[KMF_PANEL_COLS];
    const float *rows[4] = {zeros, zeros, zeros, zeros};
    for (size_t i = 0; i < kernel->terms && o + i < m->rows; i++)
        rows[i] = row_of(m, o + i) + beg;
    integer_rows(to, kernel->terms, rows, factors, n);
}

/*
 * One word for each of n columns, and zeros behind the last one of a panel: the terms of W^T that
 * begin at row o of W, of all parts. Panels are ld words apart.
 */
static void column_words(uint32_t *to, size_t ld, const kmf_kernel *kernel, const matrix *m,
                         size_t o, size_t beg, size_t n, const float *factors)
{
    size_t cols = kernel->cols;
    size_t last = n % cols; /* columns of a panel that is not full */
    bool integers = kmf_has_scales(kernel);
    assert(kernel->terms != 2 || integers || cols == PAIRED ||
           (cols % PAIRED == 0 && n <= cols));
    assert(kernel->terms != 1 || n <= cols);
    if (kernel->terms == 1) {
        memcpy(to, row_of(m, o) + beg, n * sizeof *to);
    } else if (!integers) {
        const float *next = o + 1 < m->rows ? row_of(m, o + 1) + beg : NULL;
        pair_rows(to, cols == PAIRED ? ld : PAIRED, kernel->unit * cols, kernel->parts,
                  row_of(m, o) + beg, next, n);
    } else {
        for (size_t j = 0; j < n; j += cols)
            integer_words(to + j / cols * ld, kernel, m, o, beg + j, kmf_min(n - j, cols),
                          factors + j);
    }
    for (size_t p = 0; last > 0 && p < kernel->parts; p++)
        memset(to + n / cols * ld + p * kernel->unit * cols + last, 0,
               (cols - last) * sizeof *to);
}

/* W^T in panels of ld words, of which those that W fills are written; of integers scales [Din]. */
static void pack_columns(uint32_t *panels, size_t ld, const kmf_kernel *kernel, const matrix *m,
                         float *scales, size_t Din)
{
    size_t cols = kernel->cols;
    size_t there = words_of(kernel, m->rows);
    float factors[KMF_PANEL_COLS] = {0}; /* of integers */
    for (size_t beg = 0; beg < Din; beg += kernel->width) {
        uint32_t *panel = panels + beg * ld;
        size_t n = kmf_min(Din - beg, kernel->width);
        if (scales)
            find_column_scales(scales + beg, factors, kernel, m, beg, n);
        for (size_t k = 0; k < there; k++) {
            fetch_rows(m, k * kernel->terms + ROWS_AHEAD, kernel->terms, beg, n);
            column_words(panel + place_of(kernel, k) * cols, cols * ld, kernel, m,
                         k * kernel->terms, beg, n, factors);
        }
        for (size_t j = 0; j < n; j += cols)
            fill_unit(panel + j * ld, kernel, cols, there);
    }
}

void kmf_panels_pack_back(void *panels, const kmf_kernel *kernel, const float *const *parts,
                          size_t n_parts, size_t ld, size_t Dout, size_t Din)
{
    assert(n_parts > 0 && Dout % n_parts == 0);
    matrix m = {parts, Dout / n_parts, ld, Dout};
    char *scales = (char *)panels + scales_offset(kernel, Din, Dout);
    pack_columns(panels, kmf_kernel_words(kernel, Dout), kernel, &m,
                 kmf_has_scales(kernel) ? (float *)(void *)scales : NULL, Din);
}

void kmf_panels_pack_rows(void *panels, size_t ld, const kmf_kernel *kernel, const float *x,
                          size_t ld_x, size_t N, size_t cols)
{
    assert(!kmf_has_scales(kernel) && N > 0);
    matrix m = {&x, N, ld_x, N};
    pack_columns(panels, ld, kernel, &m, NULL, cols);
}
