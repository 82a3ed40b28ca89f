/* SPDX-License-Identifier: MIT */
/*
 * The products of nn/gemm.h in double, by the definition, for tests/test_gradients.c. A weight is
 * packed as it is, and for the way back transposed.
 */
#include "nn/gemm.h"

#include <string.h>

void kmf_gemm_init(void)
{
}

size_t kmf_gemm_packed_size(size_t Dout, size_t Din)
{
    return Dout * Din;
}

void kmf_gemm_pack(kmf_real *packed, const kmf_real *const *parts, size_t n_parts, size_t Dout,
                   size_t Din)
{
    size_t n = Dout / n_parts * Din;
    for (size_t part = 0; part < n_parts; part++)
        memcpy(packed + part * n, parts[part], n * sizeof *packed);
}

void kmf_gemm_pack_back(kmf_real *packed, const kmf_real *const *parts, size_t n_parts,
                        size_t Dout, size_t Din)
{
    size_t rows = Dout / n_parts;
    for (size_t i = 0; i < Din; i++)
        for (size_t o = 0; o < Dout; o++)
            packed[i * Dout + o] = parts[o / rows][o % rows * Din + i];
}

void kmf_gemm_weight(kmf_real *y, size_t ld_y, const kmf_real *x, size_t ld_x,
                     const kmf_real *packed, size_t N, size_t Dout, size_t Din)
{
    kmf_gemm_inner(y, ld_y, x, ld_x, packed, Din, N, Dout, Din, KMF_GEMM_TB);
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
