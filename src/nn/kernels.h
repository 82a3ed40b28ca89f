/* SPDX-License-Identifier: MIT */
/*
 * The kernels of matrix products, one for each kind of operand and processor level. Operands are
 * arrays of words of 32 bits, each holding `terms` neighbours along k:
 *
 *   f32    one float                          sums are float
 *   bf16   two bfloat16, the first below      sums are float
 *   int8   four, of a: 0 .. 255, of b: -127 .. 127     sums are int32
 *          by AVX2 alone, which has no exact product of bytes, two of them, 16 bits each
 *   int16  two, -32767 .. 32767: sums are int32 that must not overflow
 *   split  two numbers of two parts each      sums are float
 *   thirds two of three parts
 *
 * Parts are bfloat16, of which a number is the sum: the one next to it, the one next to what is
 * left, and so on; for tile registers, which have no float32. Three parts are the number, bit for
 * bit, if its magnitude is between 2^-103 and 3.38e38; a smaller one may lose less than 2^-126, a
 * larger one is no finite number. Of a product a b those products of parts are summed up, in
 * float32, that are not smaller than what the last part leaves:
 *
 *   thirds a0 b0 + a0 b1 + a1 b0 + a0 b2 + a1 b1 + a2 b0      the rest is 2^-24 |a b| at most
 *   split  a0 b0 + a0 b1 + a1 b0                              2^-15 |a b|
 *
 * so that thirds are as exact as float32 by fused multiply-add, and more, as sums are of fewer
 * pieces (the scheme: G. Henry, P. Tang, A. Heinecke 2019, arXiv 1904.06376). Where there are
 * parts, units of 16 words stand one part after the other.
 *
 * The right operand comes in panels of `cols` columns, [K, cols] words each, one after the other;
 * of the left one rows are kmf_rows.
 *
 * Each sum is taken over k in an order that is the same for any place of its row and column: by one
 * lane from the first word to the last, or in tile registers unit by unit. So a row's bits do not
 * depend on its neighbours. Where a kernel is tiled, rows of a up to a whole KMF_ROWS_TILE must be
 * there to be read, whatever they hold; of a product with its epilogue, tiled or not, those that
 * nn/epilogue.h says.
 */
#ifndef KMF_KERNELS_H
#define KMF_KERNELS_H

#include "base/mem.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The most columns of a panel: of OpenBLAS's; of the others, the most columns at a time. */
#define KMF_PANEL_COLS 512
#define KMF_KERNEL_COLS 64
#define KMF_MOST_PARTS 3
/* The most rows of a step, and a multiple of the rows of any. */
#define KMF_ROW_STEP 96

/*
 * What will be read next, to be fetched into the second-level cache meanwhile: a hint, which a
 * kernel may ignore, and does where there are few rows.
 */
typedef struct kmf_ahead {
    const void *from;
    size_t bytes; /* 0: nothing */
} kmf_ahead;

/*
 * c = c + a b (more) or a b.   a: [M, K] words, ld_a   c: [M, cols], ld_c
 * b: panels that begin ld_b words apart, one unless it is `tiled`. At least the first `cols`
 * columns are computed, and no more than the panels have that these are in.
 */
typedef void kmf_panel_fn(void *c, size_t ld_c, const void *a, size_t ld_a, const void *b,
                          size_t ld_b, size_t M, size_t cols, size_t K, bool more,
                          kmf_ahead ahead);

/*
 * The transpose of a [K, M] in groups of a register tile's rows, so that a tile reads it from one
 * end to the other: groups [M / group, ld, group] words of which K are written, ld >= K; the last
 * group with room for as many. tiled: kmf_rows in tiles, and K is in whole units.
 */
typedef void kmf_gather_fn(void *groups, size_t ld, const void *a, size_t ld_a, size_t M,
                           size_t K);

/* A whole product of weights with its epilogue (nn/epilogue.h), where a kernel does both. */
struct kmf_fused;
typedef void kmf_fused_fn(const struct kmf_fused *product);

typedef enum kmf_operand {
    KMF_OPERAND_F32,
    KMF_OPERAND_BF16,
    KMF_OPERAND_INT8,
    KMF_OPERAND_INT16,
    KMF_OPERAND_SPLIT,
    KMF_OPERAND_THIRDS
} kmf_operand;

typedef struct kmf_kernel {
    kmf_operand operand;
    bool tiled;                /* works in tile registers (nn/amx.h), and reads a in tiles */
    kmf_panel_fn *panel;       /* a is kmf_rows */
    kmf_panel_fn *group_panel; /* a gathered, ld_a words a row; NULL: there is none */
    kmf_panel_fn *back_panel;  /* a is [K, M] words, ld_a; NULL: there is none */
    kmf_gather_fn *gather;
    size_t group;        /* its rows, a divisor of KMF_ROW_STEP */
    kmf_fused_fn *fused; /* NULL: epilogues are a pass of their own */
    size_t rows;         /* of a step: multiples of it are whole register tiles */
    size_t cols;         /* of a panel */
    size_t terms;        /* of a word: 1, 2, 4 */
    size_t parts;        /* of a term: 1, 2, 3 */
    size_t unit; /* words of a part that sums are taken in multiples of; zeros are behind K */
    /* Columns of a product of weights at a time, a multiple of cols. */
    size_t width;
    /*
     * Rows that such a product works on at a time: the more, the less often a weight comes from the
     * third-level cache.
     */
    size_t product_rows;
    /*
     * Words of a sum taken in one go, a multiple of a unit of all parts, so that the part of a
     * panel in use stays in the second-level cache, in tile registers beside the words of
     * product_rows rows; breaking a sum off between two units changes no bit.
     */
    size_t depth;
} kmf_kernel;

/*
 * NULL if the processor, or the level asked for (base/cpu.h), lacks the instructions. int16 is
 * where bf16 or int8 is; split is only where it is faster than they are, thirds where they are
 * faster than f32.
 */
const kmf_kernel *kmf_kernel_of(kmf_operand operand);

/*
 * Words of the left operand: rows of ld words, one after the other; or in tiles of 16 rows of 16
 * words, as many side by side as ld has room for, then the next 16 rows.
 */
typedef struct kmf_rows {
    uint32_t *words;
    size_t ld; /* a multiple of 16 where words hold several terms */
    bool tiled;
    size_t terms; /* of a word */
    size_t parts; /* of a term, beyond 1 only in tiles */
} kmf_rows;

#define KMF_ROWS_TILE ((size_t)16)

/* Where word k, a multiple of 16, of row n stands; up to the next such k all is side by side. */
static inline size_t kmf_rows_at(const kmf_rows *rows, size_t n, size_t k)
{
    if (!rows->tiled)
        return n * rows->ld + k;
    return n / KMF_ROWS_TILE * KMF_ROWS_TILE * rows->ld + n % KMF_ROWS_TILE * KMF_ROWS_TILE +
           k * KMF_ROWS_TILE;
}

/* From there to the next such k, or to the next part of the same: words. */
static inline size_t kmf_rows_step(const kmf_rows *rows)
{
    return rows->tiled ? KMF_ROWS_TILE * KMF_ROWS_TILE : KMF_ROWS_TILE;
}

/* What products of weights in this precision are computed in. */
static inline kmf_operand kmf_operand_of(kmf_precision precision)
{
    if (precision == KMF_PRECISION_F32)
        return kmf_kernel_of(KMF_OPERAND_THIRDS) ? KMF_OPERAND_THIRDS : KMF_OPERAND_F32;
    return precision == KMF_PRECISION_BF16 ? KMF_OPERAND_BF16 : KMF_OPERAND_INT8;
}

/* What is beside int8 where bytes are too rough. */
static inline kmf_operand kmf_operand_finer(void)
{
    return kmf_kernel_of(KMF_OPERAND_BF16) ? KMF_OPERAND_BF16 : KMF_OPERAND_INT16;
}

/* How a kernel reads rows. */
static inline kmf_rows kmf_kernel_rows(const kmf_kernel *kernel, void *words, size_t ld)
{
    return (kmf_rows){words, ld, kernel->tiled, kernel->terms, kernel->parts};
}

/* Words of K terms, in whole units of all parts. */
static inline size_t kmf_kernel_words(const kmf_kernel *kernel, size_t K)
{
    size_t terms = kernel->terms * kernel->unit;
    return kmf_div_up(K, terms) * kernel->unit * kernel->parts;
}

/* Terms of so many words. */
static inline size_t kmf_kernel_terms(const kmf_kernel *kernel, size_t words)
{
    return words / kernel->parts * kernel->terms;
}

/*
 * Around all calls of a panel function, on the same thread, not one within another. tiled: whether
 * one of them is, for which registers are to be taken, and given back.
 */
void kmf_kernels_open(bool tiled);
void kmf_kernels_close(bool tiled);

#endif
