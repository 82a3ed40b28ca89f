/* SPDX-License-Identifier: MIT */
/*
 * Rows to bytes by vectors, included by quantise.c once for each width of them.
 *
 *   LEVEL     suffix of the names          TARGET   attribute of the functions
 *   LANES     numbers of a vector          FLOATS, INTS, MASK   types of vectors, and of some lanes
 *   SET(x)    all lanes x                  MIN, MAX, MULTIPLY_ADD(a, b, c)
 *   LOAD(p)   of numbers anywhere
 *   FIRST(n)  the first n lanes, all if there are fewer
 *   LOAD_SOME(p, there, other)             numbers of some lanes, and other's
 *   KEEP(there, v)                         integers of some lanes, and zeros
 *   FINITE(zero)                           no lane is NaN
 *   LEAST(v), MOST(v)                      of all lanes
 *   ROUND(v)                               to integers, to nearest
 *   STORE(p, terms, a, b, c, d)            integers in 0 .. 255 in their order, to words of so many
 *   HALVES                                 whether words may have two terms, and not four
 *
 * Text that is included for the reasons told in gemm_tile.h.
 */
#include "nn/level.h"

typedef struct NAME(bounds_) {
    FLOATS least, most;
    FLOATS zero; /* or NaN, if one was no finite number */
} NAME(bounds_);

TARGET static KMF_INLINE NAME(bounds_) NAME(widen_)(NAME(bounds_) r, FLOATS v)
{
    return (NAME(bounds_)){MIN(r.least, v), MAX(r.most, v), MULTIPLY_ADD(v, SET(0), r.zero)};
}

/* The smallest and the largest of x [K]; NaN, both, if any is no finite number. */
TARGET static KMF_INLINE void NAME(extremes_)(float *min, float *max, const float *x, size_t K)
{
    FLOATS first = SET(x[0]);
    NAME(bounds_) a = {first, first, SET(0)};
    NAME(bounds_) b = a;
    size_t i = 0;
    for (; i + 2 * LANES <= K; i += 2 * LANES) {
        a = NAME(widen_)(a, LOAD(x + i));
        b = NAME(widen_)(b, LOAD(x + i + LANES));
    }
    for (; i < K; i += LANES)
        a = NAME(widen_)(a, LOAD_SOME(x + i, FIRST(K - i), first));
    bool finite = FINITE(a.zero + b.zero);
    *min = finite ? LEAST(MIN(a.least, b.least)) : NAN;
    *max = finite ? MOST(MAX(a.most, b.most)) : NAN;
}

/* (x - min) factor, rounded. */
TARGET static KMF_INLINE INTS NAME(units_)(FLOATS x, FLOATS min, FLOATS factor)
{
    return ROUND((x - min) * factor);
}

/* The same of numbers i .. of K, and zeros. */
TARGET static KMF_INLINE INTS NAME(last_units_)(const float *x, size_t i, size_t K, FLOATS min,
                                                FLOATS factor)
{
    MASK there = FIRST(i < K ? K - i : 0);
    return KEEP(there, NAME(units_)(LOAD_SOME(x + i, there, SET(0)), min, factor));
}

/*
 * to: units of x [K], and zeros up to a multiple of 16 words, which stand side by side; the next 16
 * `step` bytes from there. terms, of a word, is a constant wherever this is inlined.
 */
TARGET static KMF_INLINE void NAME(row_)(uint8_t *to, size_t step, size_t terms, const float *x,
                                         float min, float factor, size_t K)
{
    FLOATS low = SET(min);
    FLOATS by = SET(factor);
    size_t line = 16 * terms;
    size_t i = 0;
    for (; i + line <= K; i += line, to += step)
        for (size_t j = 0; j < line; j += 4 * LANES)
            STORE(to + j * 4 / terms, terms, NAME(units_)(LOAD(x + i + j), low, by),
                  NAME(units_)(LOAD(x + i + j + LANES), low, by),
                  NAME(units_)(LOAD(x + i + j + 2 * LANES), low, by),
                  NAME(units_)(LOAD(x + i + j + 3 * LANES), low, by));
    for (size_t j = i; i < K && j < i + line; j += 4 * LANES)
        STORE(to + (j - i) * 4 / terms, terms, NAME(last_units_)(x, j, K, low, by),
              NAME(last_units_)(x, j + LANES, K, low, by),
              NAME(last_units_)(x, j + 2 * LANES, K, low, by),
              NAME(last_units_)(x, j + 3 * LANES, K, low, by));
}

TARGET static void NAME(rows_)(kmf_rows to, float *scale, float *low, const float *x,
                               size_t ld_x, size_t N, size_t K)
{
    for (size_t n = 0; n < N; n++) {
        float min, max;
        NAME(extremes_)(&min, &max, x + n * ld_x, K);
        float range = max - min;
        float factor = range > 0 ? 255.0f / range : 0.0f;
        uint8_t *words = (uint8_t *)(to.words + kmf_rows_at(&to, n, 0));
        size_t step = kmf_rows_step(&to) * 4;
        if (HALVES && to.terms == 2)
            NAME(row_)(words, step, 2, x + n * ld_x, min, factor, K);
        else
            NAME(row_)(words, step, 4, x + n * ld_x, min, factor, K);
        scale[n] = range / 255.0f;
        low[n] = min;
    }
}

#undef LEVEL
#undef TARGET
#undef LANES
#undef FLOATS
#undef INTS
#undef MASK
#undef SET
#undef MIN
#undef MAX
#undef MULTIPLY_ADD
#undef LOAD
#undef STORE
#undef FIRST
#undef LOAD_SOME
#undef KEEP
#undef FINITE
#undef LEAST
#undef MOST
#undef ROUND
#undef HALVES
