/* SPDX-License-Identifier: MIT */
/*
 * The kernels of matrix products, one for each kind of operand and processor level. Operands are
 * arrays of words of 32 bits, each holding `terms` neighbours along k:
 *
 *   f32    one float                          sums are float
 *   bf16   two bfloat16, the first below      sums are float
 *   int8   four, of a: 0 .. 255, of b: -127 .. 127     sums are int32
 *   int16  two, -32767 .. 32767, which only attention has: sums are int32 that must not overflow
 *
 * The right operand comes in panels of `cols` columns, [K, cols] words each, one after the other.
 * Each sum is taken over k in order, by one lane, whatever the place of its row or column: a row's
 * bits do not depend on its neighbours.
 */
#ifndef KMF_KERNELS_H
#define KMF_KERNELS_H

#include "kmerformer.h"

#include <stdbool.h>
#include <stddef.h>

/* The most columns of a panel (of OpenBLAS's; the others have at most 64), rows of a group. */
#define KMF_PANEL_COLS 512
#define KMF_KERNEL_COLS 64
#define KMF_GROUP_ROWS 8
/* A multiple of any kernel's rows. */
#define KMF_ROW_STEP 24

/*
 * What will be read next, to be fetched into the second-level cache meanwhile: a hint, which a
 * kernel may ignore, and does where there are few rows.
 */
typedef struct kmf_ahead {
    const void *from;
    size_t bytes; /* 0: nothing */
} kmf_ahead;

/*
 * c = c + a b (more) or a b for one panel b.   a: [M, K] words, ld_a   c: [M, cols], ld_c
 * Of the panel's columns at least the first `cols` are computed, and no more than there are.
 */
typedef void kmf_panel_fn(void *c, size_t ld_c, const void *a, size_t ld_a, const void *b,
                          size_t M, size_t cols, size_t K, bool more, kmf_ahead ahead);

/*
 * The transpose of a [K, M] in groups of a register tile's rows, so that a tile reads it from one
 * end to the other: groups [M / rows, K, rows] words, the last group with room for as many.
 */
typedef void kmf_gather_fn(void *groups, const void *a, size_t ld_a, size_t M, size_t K);

typedef enum kmf_operand {
    KMF_OPERAND_F32,
    KMF_OPERAND_BF16,
    KMF_OPERAND_INT8,
    KMF_OPERAND_INT16
} kmf_operand;

typedef struct kmf_kernel {
    kmf_operand operand;
    kmf_panel_fn *panel;       /* a row-major */
    kmf_panel_fn *group_panel; /* a gathered; NULL: there is none */
    kmf_gather_fn *gather;
    size_t cols;  /* of a panel */
    size_t terms; /* of a word: 1, 2, 4 */
    size_t depth; /* words of a sum taken in one go, so that the part of a panel in use stays in
                     the second-level cache; breaking a sum off changes no bit */
} kmf_kernel;

/*
 * NULL if the processor, or the level asked for (base/cpu.h), lacks the instructions. Who has those
 * of int8 has those of int16.
 */
const kmf_kernel *kmf_kernel_of(kmf_operand operand);

/* What products of weights in this precision are computed in. */
static inline kmf_operand kmf_operand_of(kmf_precision precision)
{
    return precision == KMF_PRECISION_F32    ? KMF_OPERAND_F32
           : precision == KMF_PRECISION_BF16 ? KMF_OPERAND_BF16
                                             : KMF_OPERAND_INT8;
}

/* Words of K terms. */
static inline size_t kmf_kernel_words(const kmf_kernel *kernel, size_t K)
{
    return (K + kernel->terms - 1) / kernel->terms;
}

#endif
