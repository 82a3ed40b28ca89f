/* SPDX-License-Identifier: MIT */
/*
 * The plain engine's kernel, included by gemm.c once for each processor level:
 *
 *   LEVEL     suffix of the names        TARGET    attribute of the functions
 *   LANES     floats of a vector         FMA       1: fused multiply-add, 0: multiply, then add
 *   ROWS      rows of a register tile    COLS      its columns, a multiple of LANES
 *
 * A tile is ROWS x COLS sums kept in registers; for every k one row of the panel is loaded and
 * multiplied by ROWS broadcast elements of a. Text that is included, because vector code of one
 * width inside a function made for another is taken apart by gcc before inlining; and loops
 * that are unrolled by order, because gcc 12 otherwise keeps the sums in memory.
 */
#define GLUE_(a, b) a##b
#define GLUE(a, b) GLUE_(a, b)
#define NAME(stem) GLUE(stem, LEVEL)
#define VECS (COLS / LANES)

typedef float NAME(vec_) __attribute__((vector_size(LANES * 4)));
/* The same anywhere in memory. */
typedef float NAME(mem_) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

TARGET static KMF_INLINE NAME(vec_) NAME(multiply_add_)(float a, NAME(vec_) b, NAME(vec_) c)
{
#if FMA
    NAME(vec_) sum = c;
    KMF_UNROLL(16)
    for (int l = 0; l < LANES; l++)
        sum[l] = __builtin_fmaf(a, b[l], c[l]);
    return sum;
#else
    return c + a * b;
#endif
}

/*
 * c = c + a b (more) or a b.   a: [rows, K]   b: [K, COLS]   c: [rows, COLS], ld_c
 * Element i, k of a is a[i * ld_a + k * step]. rows is a constant wherever this is inlined.
 */
TARGET static KMF_INLINE void NAME(tile_)(int rows, float *restrict c, size_t ld_c,
                                          const float *restrict a, size_t ld_a, size_t step,
                                          const float *restrict b, size_t K, bool more)
{
    NAME(vec_) sum[ROWS][VECS];
    KMF_UNROLL(16)
    for (int i = 0; i < rows; i++) {
        KMF_UNROLL(4)
        for (int v = 0; v < VECS; v++) {
            sum[i][v] = (NAME(vec_)){0};
            if (more)
                sum[i][v] = *(const NAME(mem_) *)(c + (size_t)i * ld_c + v * LANES);
        }
    }
    for (size_t k = 0; k < K; k++) {
        NAME(vec_) row[VECS];
        KMF_UNROLL(4)
        for (int v = 0; v < VECS; v++)
            row[v] = *(const NAME(mem_) *)(b + k * COLS + v * LANES);
        KMF_UNROLL(16)
        for (int i = 0; i < rows; i++) {
            float x = a[(size_t)i * ld_a + k * step];
            KMF_UNROLL(4)
            for (int v = 0; v < VECS; v++)
                sum[i][v] = NAME(multiply_add_)(x, row[v], sum[i][v]);
        }
    }
    KMF_UNROLL(16)
    for (int i = 0; i < rows; i++) {
        KMF_UNROLL(4)
        for (int v = 0; v < VECS; v++)
            *(NAME(mem_) *)(c + (size_t)i * ld_c + v * LANES) = sum[i][v];
    }
}

/* As tile_panel, which see. */
TARGET static void NAME(panel_)(float *restrict c, size_t ld_c, const float *restrict a,
                                size_t ld_a, const float *restrict b, size_t M, size_t K,
                                bool more)
{
    size_t i = 0;
    for (; i + ROWS <= M; i += ROWS)
        NAME(tile_)(ROWS, c + i * ld_c, ld_c, a + i * ld_a, ld_a, 1, b, K, more);
    for (; i + 4 <= M; i += 4)
        NAME(tile_)(4, c + i * ld_c, ld_c, a + i * ld_a, ld_a, 1, b, K, more);
    for (; i < M; i++)
        NAME(tile_)(1, c + i * ld_c, ld_c, a + i * ld_a, ld_a, 1, b, K, more);
}

/* As gather_groups, which see. */
TARGET static void NAME(gather_)(float *restrict groups, const float *restrict a, size_t ld_a,
                                 size_t M, size_t K)
{
    for (size_t i = 0; i < M; i += ROWS) {
        size_t rows = M - i < ROWS ? M - i : ROWS;
        float *group = groups + i * K;
        if (rows == ROWS)
            for (size_t k = 0; k < K; k++)
                memcpy(group + k * ROWS, a + k * ld_a + i, ROWS * sizeof *a);
        else
            for (size_t k = 0; k < K; k++)
                memcpy(group + k * ROWS, a + k * ld_a + i, rows * sizeof *a);
    }
}

/* The same product as panel_ for an a that was gathered. */
TARGET static void NAME(group_panel_)(float *restrict c, size_t ld_c,
                                      const float *restrict groups, size_t unused,
                                      const float *restrict b, size_t M, size_t K, bool more)
{
    (void)unused;
    size_t i = 0;
    for (; i + ROWS <= M; i += ROWS)
        NAME(tile_)(ROWS, c + i * ld_c, ld_c, groups + i * K, 1, ROWS, b, K, more);
    for (size_t r = 0; i + r < M; r++)
        NAME(tile_)(1, c + (i + r) * ld_c, ld_c, groups + i * K + r, 1, ROWS, b, K, more);
}

#undef GLUE_
#undef GLUE
#undef NAME
#undef VECS
#undef LEVEL
#undef TARGET
#undef LANES
#undef FMA
#undef ROWS
#undef COLS
