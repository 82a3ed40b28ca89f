/* SPDX-License-Identifier: MIT */
/*
 * The loops whose speed is a limit, included by limits.c once for each processor level and kind of
 * operand.
 *
 *   LEVEL     suffix of the names             TARGET   attribute of the functions
 *   LANES     words of 32 bits of a vector    SUM      type of a sum: float or int
 *   SUMS      of them kept in registers       STEP(c, a, b)   the multiply-add, of vectors
 *   TERMS     products for each sum           READING  defined: a loop that reads is wanted too
 *
 * Text that is included for the reasons told in gemm_tile.h.
 */
#include "nn/level.h"

typedef SUM NAME(sums_) __attribute__((vector_size(LANES * 4)));

/* n rounds of SUMS multiply-adds, none of which waits for another of its round. */
TARGET static double NAME(multiply_)(void *to, const void *from, size_t n)
{
    NAME(sums_) a = {0};
    NAME(sums_) b = {0};
    NAME(sums_) sum[SUMS];
    (void)from;
    for (int l = 0; l < LANES; l++) {
        a[l] = (SUM)1.0001;
        b[l] = (SUM)1.5;
    }
    /* No two alike: a compiler may compute equal ones once. */
    KMF_UNROLL(32)
    for (int i = 0; i < SUMS; i++)
        sum[i] = a + (SUM)i;
    for (size_t k = 0; k < n; k++) {
        KMF_UNROLL(32)
        for (int i = 0; i < SUMS; i++)
            sum[i] = (NAME(sums_))STEP(sum[i], a, b);
    }
    KMF_UNROLL(32)
    for (int i = 1; i < SUMS; i++)
        sum[0] += sum[i];
    memcpy(to, sum, sizeof sum[0]);
    return 2.0 * (double)(n * SUMS * LANES * TERMS);
}

#ifdef READING
typedef int NAME(words_) __attribute__((vector_size(LANES * 4), may_alias));

/* Reads n bytes, a multiple of eight vectors, from an address that is one of a vector. */
TARGET static double NAME(read_)(void *to, const void *from, size_t n)
{
    const NAME(words_) *p = from;
    NAME(words_) sum[8] = {{0}};
    for (size_t i = 0; i < n / sizeof *p; i += 8) {
        KMF_UNROLL(8)
        for (size_t v = 0; v < 8; v++)
            sum[v] ^= p[i + v];
    }
    KMF_UNROLL(8)
    for (int v = 1; v < 8; v++)
        sum[0] ^= sum[v];
    memcpy(to, sum, sizeof sum[0]);
    return (double)n;
}
#endif

#undef LEVEL
#undef TARGET
#undef LANES
#undef SUM
#undef SUMS
#undef TERMS
#undef STEP
#undef READING
