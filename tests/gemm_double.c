/* SPDX-License-Identifier: MIT */
/*
 * The products of nn/gemm.h and nn/dots.h in double, by the definition, for
 * tests/test_gradients.c; whatever the precision. A weight is packed as it is, and for the way back
 * transposed.
 */
#include "nn/dots.h"
#include "nn/gemm.h"

#include <assert.h>
#include <string.h>

void kmf_gemm_init(void)
{
}

size_t kmf_gemm_packed_bytes(size_t Dout, size_t Din, kmf_operand operand)
{
    (void)operand;
    return (Dout * Din * sizeof(kmf_real) + 63) / 64 * 64;
}

kmf_weight kmf_gemm_pack(void *room, const kmf_real *const *parts, size_t n_parts, size_t ld,
                         size_t Dout, size_t Din, kmf_operand operand)
{
    kmf_real *packed = room;
    size_t rows = Dout / n_parts;
    for (size_t o = 0; o < Dout; o++)
        memcpy(packed + o * Din, parts[o / rows] + o % rows * ld, Din * sizeof *packed);
    return (kmf_weight){Dout, Din, operand, room};
}

kmf_weight kmf_gemm_pack_back(void *room, const kmf_real *const *parts, size_t n_parts,
                              size_t ld, size_t Dout, size_t Din, kmf_operand operand)
{
    kmf_real *packed = room;
    size_t rows = Dout / n_parts;
    for (size_t i = 0; i < Din; i++)
        for (size_t o = 0; o < Dout; o++)
            packed[i * Dout + o] = parts[o / rows][o % rows * ld + i];
    return (kmf_weight){Din, Dout, operand, room};
}

size_t kmf_gemm_rows(kmf_operand operand)
{
    (void)operand;
    return (size_t)2 * KMF_TILE;
}

size_t kmf_gemm_scratch(size_t rows, size_t Din, kmf_operand operand)
{
    (void)rows;
    (void)Din;
    (void)operand;
    return 0;
}

void kmf_gemm_weight(kmf_real *y, size_t ld_y, const kmf_real *x, size_t ld_x,
                     const kmf_weight *w, size_t N, const kmf_epilogue *epilogue, void *scratch)
{
    (void)scratch;
    assert(!epilogue || !epilogue->activate);
    kmf_gemm_inner(y, ld_y, x, ld_x, w->packed, w->Din, N, w->Dout, w->Din, KMF_GEMM_TB);
    for (size_t n = 0; epilogue && epilogue->bias && n < N; n++)
        for (size_t o = 0; o < w->Dout; o++)
            y[n * ld_y + o] += epilogue->bias[o];
}

size_t kmf_gemm_factor_bytes(size_t N, size_t cols, kmf_precision precision)
{
    (void)precision;
    return N * cols * sizeof(kmf_real);
}

void kmf_gemm_pack_left(const kmf_factor *dy, const kmf_real *from, size_t ld_from, size_t row,
                        size_t rows)
{
    assert(row % KMF_FACTOR_ROWS == 0 && row + rows <= dy->N);
    for (size_t n = 0; n < rows; n++)
        memcpy((kmf_real *)dy->room + (row + n) * dy->cols, from + n * ld_from,
               dy->cols * sizeof *from);
}

void kmf_gemm_pack_right(const kmf_factor *x, const kmf_real *from, size_t ld_from, size_t row,
                         size_t rows)
{
    kmf_gemm_pack_left(x, from, ld_from, row, rows);
}

void kmf_gemm_outer(kmf_real *dw, size_t ld, const kmf_factor *dy, size_t o, size_t Dout,
                    const kmf_factor *x, size_t k, size_t Din, size_t n)
{
    assert(o % KMF_TILE == 0 && k % KMF_FACTOR_COLS == 0 && dy->N == x->N && n <= x->N);
    kmf_gemm_inner(dw, ld, (const kmf_real *)dy->room + o, dy->cols,
                   (const kmf_real *)x->room + k, x->cols, Dout, Din, n,
                   KMF_GEMM_TA | KMF_GEMM_ADD);
}

void kmf_gemm_inner(kmf_real *c, size_t ld_c, const kmf_real *a, size_t ld_a, const kmf_real *b,
                    size_t ld_b, size_t M, size_t N, size_t K, int how)
{
    for (size_t m = 0; m < M; m++)
        for (size_t n = 0; n < N; n++) {
            kmf_real sum = how & KMF_GEMM_ADD ? c[m * ld_c + n] : 0;
            for (size_t k = 0; k < K; k++)
                sum += (how & KMF_GEMM_TA ? a[k * ld_a + m] : a[m * ld_a + k]) *
                       (how & KMF_GEMM_TB ? b[n * ld_b + k] : b[k * ld_b + n]);
            c[m * ld_c + n] = sum;
        }
}

/* Packed, b is [K, N]. */
size_t kmf_gemm_inner_floats(size_t N, size_t K, int how)
{
    (void)how;
    return (N * K + 15) / 16 * 16;
}

void kmf_gemm_inner_pack(kmf_real *packed, const kmf_real *b, size_t ld_b, size_t N, size_t K,
                         int how)
{
    for (size_t k = 0; k < K; k++)
        for (size_t n = 0; n < N; n++)
            packed[k * N + n] = how & KMF_GEMM_TB ? b[n * ld_b + k] : b[k * ld_b + n];
}

void kmf_gemm_inner_packed(kmf_real *c, size_t ld_c, const kmf_real *a, size_t ld_a,
                           const kmf_real *packed, size_t M, size_t N, size_t K, int how)
{
    kmf_gemm_inner(c, ld_c, a, ld_a, packed, N, M, N, K, how & ~KMF_GEMM_TB);
}

void kmf_dots_product(kmf_real *y, size_t ld_y, const kmf_real *x, size_t ld_x,
                      const kmf_real *w, size_t ld_w, size_t N, size_t R, size_t K)
{
    kmf_gemm_inner(y, ld_y, x, ld_x, w, ld_w, N, R, K, KMF_GEMM_TB);
}
