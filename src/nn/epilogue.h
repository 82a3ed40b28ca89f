/* SPDX-License-Identifier: MIT */
/*
 * What follows the sums of a weight's product, row by row, while they are in the nearest cache:
 * bias and activation, and for int8 first the numbers that the sums stand for (nn/panels.h).
 * Whoever ends a product does it by kmf_epilogue_row, so that it has the same bits wherever
 * that is.
 */
#ifndef KMF_EPILOGUE_H
#define KMF_EPILOGUE_H

#include "base/cpu.h"
#include "nn/gemm.h"
#include "nn/kernels.h"
#include "nn/panels.h"
#include "nn/vmath.h"

#include <assert.h>

/* What turns sums of int8 into numbers; scale NULL: they are numbers. */
typedef struct kmf_quantised {
    const float *row_scale, *row_low; /* [N] */
    const float *scale, *sums;        /* [cols] */
    bool more;                        /* they are added to what is there */
} kmf_quantised;

/* Sums of one row, of bytes if `exact`, which is a constant wherever this is inlined. */
typedef struct kmf_sums_row {
    const float *numbers;
    const int32_t *bytes;
    float scale, low; /* of the left operand's row */
    const float *scales, *sums;
} kmf_sums_row;

/* The sums of a row n, from the column that q begins with, plus `col`, on. */
static KMF_INLINE kmf_sums_row kmf_sums_of(bool exact, const void *sums, const kmf_quantised *q,
                                           size_t n, size_t col)
{
    if (!exact)
        return (kmf_sums_row){.numbers = sums};
    return (kmf_sums_row){.bytes = sums,
                          .scale = q->row_scale[n],
                          .low = q->row_low[n],
                          .scales = q->scale + col,
                          .sums = q->sums + col};
}

static KMF_INLINE float kmf_number_at(bool fused, bool exact, const kmf_sums_row *x, size_t j)
{
    return exact
               ? kmf_int8_number(fused, x->bytes[j], x->scale, x->low, x->scales[j], x->sums[j])
               : x->numbers[j];
}

/* rough: an approximate activation will do, as the result is rounded to bf16 or int8 next. */
static KMF_INLINE void kmf_activate_row(bool fused, bool exact, float *restrict y,
                                        kmf_sums_row x, const float *restrict bias,
                                        kmf_activation activation, bool rough, size_t n)
{
    if (activation == KMF_GELU && rough)
        for (size_t j = 0; j < n; j++)
            y[j] = kmf_gelu_rough(fused, kmf_number_at(fused, exact, &x, j) + bias[j]);
    else if (activation == KMF_GELU_TANH && rough)
        for (size_t j = 0; j < n; j++)
            y[j] = kmf_gelu_tanh_rough(fused, kmf_number_at(fused, exact, &x, j) + bias[j]);
    else if (activation == KMF_GELU)
        for (size_t j = 0; j < n; j++)
            y[j] = kmf_gelu(fused, kmf_number_at(fused, exact, &x, j) + bias[j]);
    else if (activation == KMF_GELU_TANH)
        for (size_t j = 0; j < n; j++)
            y[j] = kmf_gelu_tanh(fused, kmf_number_at(fused, exact, &x, j) + bias[j]);
    else if (activation == KMF_SILU)
        for (size_t j = 0; j < n; j++)
            y[j] = kmf_silu(fused, kmf_number_at(fused, exact, &x, j) + bias[j]);
    else
        for (size_t j = 0; j < n; j++)
            y[j] = kmf_relu(kmf_number_at(fused, exact, &x, j) + bias[j]);
}

/* y [n] of the sums x; more: added to what is there, without a bias alone. */
static KMF_INLINE void kmf_epilogue_row(bool fused, bool exact, float *restrict y,
                                        kmf_sums_row x, bool more, kmf_epilogue epilogue,
                                        bool rough, size_t n)
{
    assert(!more || !epilogue.bias);
    if (epilogue.activate && epilogue.bias)
        kmf_activate_row(fused, exact, y, x, epilogue.bias, epilogue.activation, rough, n);
    else if (epilogue.bias)
        for (size_t j = 0; j < n; j++)
            y[j] = kmf_number_at(fused, exact, &x, j) + epilogue.bias[j];
    else if (more)
        for (size_t j = 0; j < n; j++)
            y[j] = kmf_number_at(fused, exact, &x, j) + y[j];
    else
        for (size_t j = 0; j < n; j++)
            y[j] = kmf_number_at(fused, exact, &x, j);
}

/*
 * A product of weights that a kernel ends by itself (kmf_kernel's fused): rows a [M, K], of which
 * those up to a whole KMF_TILE must be there to be read, tiled ones up to two whole tiles, and
 * panels b that begin ld_b words apart, of `cols` columns in all, a multiple of KMF_FUSED_COLS; K
 * words, in one go.
 */
typedef struct kmf_fused {
    const uint32_t *a;
    size_t ld_a;
    const void *b;
    size_t ld_b;
    size_t M, cols, K;
    kmf_quantised q; /* as in kmf_sums_of */
    kmf_epilogue epilogue;
    float *y; /* [M, cols], ld_y */
    size_t ld_y;
    kmf_rows to;     /* words not NULL: bf16 words, in place of y; tiled where a is */
    kmf_ahead after; /* what will be read after the last panel */
} kmf_fused;

#define KMF_FUSED_COLS ((size_t)32)

#endif
