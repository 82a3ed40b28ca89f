/* SPDX-License-Identifier: MIT */
/*
 * The kernel of dots.c, included once for each processor level, for the reason that gemm_tile.h
 * gives:
 *
 *   LEVEL   suffix of the names      TARGET   attribute of the functions
 *   LANES   floats of a vector       ROWS     rows of x that share each load of w, 2 to 4
 *
 * A dot product is KMF_SUM_LANES sums, in parts of LANES; a part is summed up for ROWS rows of x
 * and four of w in registers.
 */
#include "nn/level.h"

#define PARTS (KMF_SUM_LANES / LANES)

#include "nn/fold_level.h"

/* sum += x w for LANES terms. rows is a constant wherever this is inlined. */
TARGET static KMF_INLINE void NAME(add_)(int rows, NAME(vec_) sum[ROWS][4], const float *x,
                                         size_t ld_x, const float *const w[4], size_t k)
{
    NAME(vec_) left[ROWS];
    KMF_UNROLL(4)
    for (int i = 0; i < rows; i++)
        left[i] = NAME(load_)(x + (size_t)i * ld_x + k);
    KMF_UNROLL(4)
    for (int j = 0; j < 4; j++) {
        NAME(vec_) right = NAME(load_)(w[j] + k);
        KMF_UNROLL(4)
        for (int i = 0; i < rows; i++)
            sum[i][j] += left[i] * right;
    }
}

/* The KMF_SUM_LANES sums of a dot product to four. */
TARGET static KMF_INLINE vec4 NAME(fold_parts_)(NAME(vec_) part[PARTS][ROWS][4], int i, int j)
{
    NAME(vec_) half[PARTS / 2];
    KMF_UNROLL(4)
    for (int p = 0; p < PARTS / 2; p++)
        half[p] = part[p][i][j] + part[p + PARTS / 2][i][j];
    return NAME(fold_)(half);
}

/* y [rows, 4] = x w^T, of which the first w->n columns are stored. */
TARGET static KMF_INLINE void NAME(tile_)(int rows, float *y, size_t ld_y, const float *x,
                                          size_t ld_x, float x_rest[][KMF_SUM_LANES],
                                          const four_rows *w, size_t K)
{
    NAME(vec_) part[PARTS][ROWS][4];
    for (size_t p = 0; p < PARTS; p++) {
        NAME(vec_) sum[ROWS][4];
        KMF_UNROLL(4)
        for (int i = 0; i < rows; i++) {
            KMF_UNROLL(4)
            for (int j = 0; j < 4; j++)
                sum[i][j] = (NAME(vec_)){0};
        }
        for (size_t k = p * LANES; k < K / KMF_SUM_LANES * KMF_SUM_LANES; k += KMF_SUM_LANES)
            NAME(add_)(rows, sum, x, ld_x, w->row, k);
        if (K % KMF_SUM_LANES > 0)
            NAME(add_)(rows, sum, x_rest[0], KMF_SUM_LANES, w->rests, p * LANES);
        KMF_UNROLL(4)
        for (int i = 0; i < rows; i++) {
            KMF_UNROLL(4)
            for (int j = 0; j < 4; j++)
                part[p][i][j] = sum[i][j];
        }
    }
    KMF_UNROLL(4)
    for (int i = 0; i < rows; i++) {
        vec4 dots =
            NAME(fold_four_)(NAME(fold_parts_)(part, i, 0), NAME(fold_parts_)(part, i, 1),
                             NAME(fold_parts_)(part, i, 2), NAME(fold_parts_)(part, i, 3));
        for (size_t j = 0; j < 4 && j < w->n; j++)
            y[(size_t)i * ld_y + j] = dots[j];
    }
}

/* As kmf_dots_product, of AT_ONCE rows of x at most: those of w are read once for all of them. */
TARGET static void NAME(product_)(float *y, size_t ld_y, const float *x, size_t ld_x,
                                  const float *w, size_t ld_w, size_t N, size_t R, size_t K)
{
    float x_rest[AT_ONCE][KMF_SUM_LANES];
    for (size_t n = 0; n < N; n++)
        take_rest(x_rest[n], x + n * ld_x, K);
    for (size_t r = 0; r < R; r += 4) {
        four_rows right;
        take_four(&right, w + r * ld_w, ld_w, R - r, K);
        size_t n = 0;
        for (; n + ROWS <= N; n += ROWS) {
            const float *left = x + n * ld_x;
            NAME(tile_)(ROWS, y + n * ld_y + r, ld_y, left, ld_x, x_rest + n, &right, K);
        }
        for (; n < N; n++) {
            const float *left = x + n * ld_x;
            NAME(tile_)(1, y + n * ld_y + r, ld_y, left, ld_x, x_rest + n, &right, K);
        }
    }
}

#undef PARTS
#undef LEVEL
#undef TARGET
#undef LANES
#undef ROWS
