/* SPDX-License-Identifier: MIT */
/*
 * Matrix products. The only module that knows BLAS.
 *
 * Two engines compute the same thing:
 *   openblas  cblas_sgemm on one thread
 *   plain     portable C with run-time dispatch
 *
 * The contract that matters here is not speed but: A ROW'S BITS DO NOT DEPEND ON ITS
 * NEIGHBOURS. The weight product works on tiles of exactly KMF_TILE rows, so a BLAS sees one
 * shape per weight; and since some OpenBLAS kernels (Haswell's and Zen's of 0.3.21 among them)
 * sum the rows of one tile in different orders even so, OpenBLAS is asked at start-up whether
 * equal rows give equal bits before it is used.
 *
 * Dimensions: N rows (tokens), Din, Dout columns. Row-major.
 */
#ifndef KMF_GEMM_H
#define KMF_GEMM_H

#include "nn/real.h"

#include <stddef.h>

/* Rows of a weight product are handed over in multiples of this. */
#define KMF_TILE 128

/*
 * Chooses the engine, once per process: KMERFORMER_GEMM=openblas|plain if set; else plain with
 * AVX2 or AVX-512 (base/cpu.h), where it is the faster one; else openblas if it treats all rows
 * alike. Sets BLAS to one thread. Thread-safe; the functions below call it themselves.
 */
void kmf_gemm_init(void);
/* "openblas SkylakeX", "plain avx2": for `version` and provenance. */
const char *kmf_gemm_name(void);
/* The BLAS that is linked, whether it is the engine or not: "OpenBLAS 0.3.21 ...". */
const char *kmf_gemm_library(void);

/*
 * A weight matrix in the engine's own layout: kmf_gemm_packed_size floats (0: does not fit a
 * size_t), written by kmf_gemm_pack from w [Dout, Din] row-major. Several matrices of one Din
 * may be packed as one: rows 0 .. Dout-1 are gathered from n_parts blocks of Dout / n_parts
 * rows.
 */
size_t kmf_gemm_packed_size(size_t Dout, size_t Din);
void kmf_gemm_pack(kmf_real *packed, const kmf_real *const *parts, size_t n_parts, size_t Dout,
                   size_t Din);

/*
 * y = x W^T.   x: [N, Din], ld_x   packed: W [Dout, Din]   y: [N, Dout], ld_y
 * N is a multiple of KMF_TILE. Overwrites y, which must not overlap x.
 */
void kmf_gemm_weight(kmf_real *y, size_t ld_y, const kmf_real *x, size_t ld_x,
                     const kmf_real *packed, size_t N, size_t Dout, size_t Din);

/*
 * The way back: packs the same parts so that, with them,
 *   kmf_gemm_weight(dx, ld_dx, dy, ld_dy, packed, N, Din, Dout)   is   dx = dy W
 * dy: [N, Dout]  dx: [N, Din]. Takes kmf_gemm_packed_size(Din, Dout).
 */
void kmf_gemm_pack_back(kmf_real *packed, const kmf_real *const *parts, size_t n_parts,
                        size_t Dout, size_t Din);

/*
 * c = a b.   a: [M, K]   b: [K, N]   c: [M, N]
 * For the products inside one sequence, whose shapes depend on that sequence alone, and for the
 * gradients of weights; by the plain kernel with either engine, so a row of c has the same bits
 * for any M, too. c must not overlap a or b. how: 0, or any of
 *   KMF_GEMM_TA    a is stored as [K, M]
 *   KMF_GEMM_TB    b is stored as [N, K]
 *   KMF_GEMM_ADD   c = c + a b
 */
enum { KMF_GEMM_TA = 1, KMF_GEMM_TB = 2, KMF_GEMM_ADD = 4 };
void kmf_gemm_inner(kmf_real *c, size_t ld_c, const kmf_real *a, size_t ld_a, const kmf_real *b,
                    size_t ld_b, size_t M, size_t N, size_t K, int how);

#endif
