/* SPDX-License-Identifier: MIT */
/*
 * Matrix products. The only module that knows BLAS.
 *
 * Float32 products of weights are computed by one of two engines:
 *   plain     our kernels (kernels.h) for the processor's level
 *   openblas  cblas_sgemm on one thread
 * bf16, int8 and all products inside a sequence are the plain engine's.
 *
 * The contract that matters here is not speed but: A ROW'S BITS DO NOT DEPEND ON ITS
 * NEIGHBOURS, nor on their number. A BLAS always sees multiples of some rows; and since some
 * OpenBLAS kernels (Haswell's and Zen's of 0.3.21 among them) sum the rows of one tile in different
 * orders even so, OpenBLAS is asked at start-up whether equal rows give equal bits before it is
 * used, unless KMERFORMER_GEMM=openblas wants it as it is.
 *
 * Numbers that are not finite make sums that are not: NaN, or infinite; those beyond 3.38e38 may.
 *
 * Dimensions: N rows (tokens), Din, Dout columns. Row-major.
 */
#ifndef KMF_GEMM_H
#define KMF_GEMM_H

#include "kmerformer.h"
#include "nn/kernels.h"
#include "nn/real.h"

#include <stdbool.h>
#include <stddef.h>

/* The unit of rows: those of a tile. */
#define KMF_TILE 96

/*
 * Chooses the engine, once per process: KMERFORMER_GEMM=openblas|plain if set; else plain with
 * AVX2 or AVX-512 (base/cpu.h), where it is the faster one; else openblas if it treats all rows
 * alike. Sets BLAS to one thread. Thread-safe; the functions below call it themselves.
 */
void kmf_gemm_init(void);
/* "openblas SkylakeX", "plain avx2": for `version` and provenance. */
const char *kmf_gemm_name(void);
/*
 * Of two such names: does what is computed in this precision have the same bits by both? By the
 * plain kernels float32 has from AVX2 on, tile registers apart (base/cpu.h), and int8 by AVX2 with
 * products of bytes or without.
 */
bool kmf_gemm_same(const char *one, const char *other, kmf_precision precision);
/* The BLAS that is linked, whether it is the engine or not: "OpenBLAS 0.3.21 ...". */
const char *kmf_gemm_library(void);

/* A weight matrix in its kernel's own layout. */
typedef struct kmf_weight {
    size_t Dout, Din;
    kmf_operand operand;
    const void *packed; /* borrowed */
} kmf_weight;

/*
 * Bytes of a packed weight, a multiple of 64; 0: does not fit a size_t. operand, here and below:
 * kmf_operand_of a precision that kmf_precision_here returns, or beside int8 kmf_operand_finer; F32
 * and THIRDS are both the engine's.
 */
size_t kmf_gemm_packed_bytes(size_t Dout, size_t Din, kmf_operand operand);

/*
 * Packs W [Dout, Din] into room of kmf_gemm_packed_bytes, aligned to 64. W is gathered from
 * n_parts blocks of Dout / n_parts rows each, ld apart.
 */
kmf_weight kmf_gemm_pack(void *room, const kmf_real *const *parts, size_t n_parts, size_t ld,
                         size_t Dout, size_t Din, kmf_operand operand);

/* The same for W^T, [Din, Dout]: y = x W, as the way back needs it. Not of integers. */
kmf_weight kmf_gemm_pack_back(void *room, const kmf_real *const *parts, size_t n_parts,
                              size_t ld, size_t Dout, size_t Din, kmf_operand operand);

/* What becomes of the sums of a weight product. */
typedef struct kmf_epilogue {
    const kmf_real *bias; /* [Dout]; NULL: none, and nothing to activate */
    bool activate;        /* y = act(x W^T + bias), as kmf_activation_forward; with weights in
                             anything but float32 GELU to 1e-4 alone */
    kmf_activation activation;
} kmf_epilogue;

/*
 * Rows that a product works on at a time: KMF_TILE, or some times as many with OpenBLAS and in tile
 * registers. Fewer in a call are slower.
 */
size_t kmf_gemm_rows(kmf_operand operand);

/*
 * Bytes of scratch, aligned to 64, for kmf_gemm_weight with so many rows and terms or fewer; 0: it
 * needs none.
 */
size_t kmf_gemm_scratch(size_t rows, size_t Din, kmf_operand operand);

/*
 * y = x W^T, or what epilogue (may be NULL) makes of it.   x: [N, Din], ld_x   y: [N, Dout], ld_y
 * Of x, rows up to a whole KMF_TILE must be there to be read, whatever they hold. y must not
 * overlap x. scratch: kmf_gemm_scratch(N, Din, operand of W).
 */
void kmf_gemm_weight(kmf_real *y, size_t ld_y, const kmf_real *x, size_t ld_x,
                     const kmf_weight *w, size_t N, const kmf_epilogue *epilogue,
                     void *scratch);

/*
 * Two products in a row, the feed-forward: y = act(x W1^T + b1) W2^T for N rows, no more than
 * kmf_gemm_rows of either. Of x, rows up to a whole KMF_TILE must be there to be read. What lies
 * between is in scratch, some columns at a time, as the second product reads them.
 *   x: [N, Din]   W1: [F, Din]   between: b1 and act   W2: [Dout, F]   y: [N, Dout]
 * gated: W1 is [2F, Din], b1 may be NULL, and kmf_gate_forward takes the place of act.
 * The bits of two kmf_gemm_weight; but where W2 is INT8 or INT16, KMF_INT8_GROUP columns of
 * what lies between have a scale at a time (nn/panels.h), all F if it is gated and F no multiple of
 * 64. W1 is not in F32 where W2 is anything else. scratch:
 * kmf_gemm_pair_scratch(Din, F, gated, operand of W1, that of W2).
 */
size_t kmf_gemm_pair_scratch(size_t Din, size_t F, bool gated, kmf_operand first,
                             kmf_operand second);
void kmf_gemm_pair(kmf_real *y, size_t ld_y, const kmf_real *x, size_t ld_x,
                   const kmf_weight *w1, const kmf_weight *w2, size_t N,
                   const kmf_epilogue *between, bool gated, void *scratch);

/*
 * c = a b.   a: [M, K]   b: [K, N]   c: [M, N]
 * For small products, such as those inside one sequence, whose shapes depend on that sequence
 * alone; by the plain kernel with either engine, so a row of c has the same bits for any M, too. c
 * must not overlap a or b. how: 0, or any of
 *   KMF_GEMM_TA     a is stored as [K, M]
 *   KMF_GEMM_TB     b is stored as [N, K]
 *   KMF_GEMM_ADD    c = c + a b
 *   KMF_GEMM_BF16   both factors are rounded to bfloat16; only where kmf_precision_here has it
 *   KMF_GEMM_TILES  float32 in tile registers, where there are; else, and without, AVX2, AVX-512
 *                   and what has them give the same bits
 */
enum {
    KMF_GEMM_TA = 1,
    KMF_GEMM_TB = 2,
    KMF_GEMM_ADD = 4,
    KMF_GEMM_BF16 = 8,
    KMF_GEMM_TILES = 16
};
void kmf_gemm_inner(kmf_real *c, size_t ld_c, const kmf_real *a, size_t ld_a, const kmf_real *b,
                    size_t ld_b, size_t M, size_t N, size_t K, int how);

/*
 * The same with a b that is packed before, for several products; the same bits. N and K are the
 * same in all three, and so are KMF_GEMM_BF16 and KMF_GEMM_TILES of how.
 *   kmf_gemm_inner_floats  numbers of room, a multiple of 16; 0 if N or K is 0, or if they do not
 *                          fit a size_t
 *   kmf_gemm_inner_pack    to packed, aligned to 64 for speed; KMF_GEMM_TB tells how b is stored
 *   kmf_gemm_inner_packed  takes KMF_GEMM_TA and KMF_GEMM_ADD
 */
size_t kmf_gemm_inner_floats(size_t N, size_t K, int how);
void kmf_gemm_inner_pack(kmf_real *packed, const kmf_real *b, size_t ld_b, size_t N, size_t K,
                         int how);
void kmf_gemm_inner_packed(kmf_real *c, size_t ld_c, const kmf_real *a, size_t ld_a,
                           const kmf_real *packed, size_t M, size_t N, size_t K, int how);

/*
 * The gradient of a weight, dw [Dout, Din] += dy^T x over tokens. A factor, dy or x, is packed some
 * tokens at a time, where it is made: once, in however many parts the product is computed.
 * Plain kernels with either engine; an element of dw has the same bits in any part.
 */
typedef struct kmf_factor {
    size_t N;                /* tokens that there is room for, a multiple of KMF_FACTOR_ROWS */
    size_t cols;             /* Dout of dy, Din of x */
    kmf_precision precision; /* F32 or BF16 */
    void *room;              /* borrowed, of kmf_gemm_factor_bytes, aligned to 64 */
} kmf_factor;

/* Pieces of a factor begin at multiples of so many rows, parts of x of so many columns. */
#define KMF_FACTOR_ROWS 32
#define KMF_FACTOR_COLS 192

/* A multiple of 64, enough for either factor; 0: does not fit a size_t. */
size_t kmf_gemm_factor_bytes(size_t N, size_t cols, kmf_precision precision);

/*
 * Rows [rows, cols] become tokens row .. row + rows - 1: a multiple of KMF_FACTOR_ROWS, if they are
 * not the last ones.
 */
void kmf_gemm_pack_left(const kmf_factor *dy, const kmf_real *from, size_t ld_from, size_t row,
                        size_t rows);
void kmf_gemm_pack_right(const kmf_factor *x, const kmf_real *from, size_t ld_from, size_t row,
                         size_t rows);

/*
 * dw [Dout, Din], ld, += dy^T x over the first n tokens, for columns o .. o + Dout - 1 of dy and
 * k .. k + Din - 1 of x. o is a multiple of KMF_TILE, k of KMF_FACTOR_COLS.
 */
void kmf_gemm_outer(kmf_real *dw, size_t ld, const kmf_factor *dy, size_t o, size_t Dout,
                    const kmf_factor *x, size_t k, size_t Din, size_t n);

#endif
