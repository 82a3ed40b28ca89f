/* SPDX-License-Identifier: MIT */
/*
 * Vectors of one processor level, and sums over their lanes, for kernels that are included once for
 * each level (gemm_tile.h says why), and that define
 *
 *   NAME(stem)   the stem with the level's suffix     TARGET   attribute of the functions
 *   LANES        floats of a vector: 4, 8 or 16
 *
 * 16 sums are folded in halves: lane l takes in lane l + 8, then l + 4, and so on, whatever the
 * width of a vector. The includer includes nn/vec.h.
 */

typedef float NAME(vec_) __attribute__((vector_size(LANES * 4)));
/* The same anywhere in memory. */
typedef float NAME(mem_) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

TARGET static KMF_INLINE NAME(vec_) NAME(load_)(const float *p)
{
    return *(const NAME(mem_) *)p;
}

/* 16 sums to four: lane l takes in l + 4, l + 8 and l + 12. */
TARGET static KMF_INLINE vec4 NAME(fold_)(const NAME(vec_) * sum)
{
#if LANES == 16
    vec8 half = __builtin_shufflevector(sum[0], sum[0], 0, 1, 2, 3, 4, 5, 6, 7) +
                __builtin_shufflevector(sum[0], sum[0], 8, 9, 10, 11, 12, 13, 14, 15);
#elif LANES == 8
    vec8 half = sum[0] + sum[1];
#endif
#if LANES >= 8
    return __builtin_shufflevector(half, half, 0, 1, 2, 3) +
           __builtin_shufflevector(half, half, 4, 5, 6, 7);
#else
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
#endif
}

/* The sums of a's, b's, c's and d's lanes. */
TARGET static KMF_INLINE vec4 NAME(fold_four_)(vec4 a, vec4 b, vec4 c, vec4 d)
{
    vec4 ab =
        __builtin_shufflevector(a, b, 0, 4, 1, 5) + __builtin_shufflevector(a, b, 2, 6, 3, 7);
    vec4 cd =
        __builtin_shufflevector(c, d, 0, 4, 1, 5) + __builtin_shufflevector(c, d, 2, 6, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) +
           __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}
