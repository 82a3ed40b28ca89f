/* SPDX-License-Identifier: MIT */
/*
 * The plain engine's kernel, included by kernels.c once for each processor level and kind of
 * operand. Operands are read in words of 32 bits, one float, two bfloat16 or int16, or four int8:
 * that many neighbours along k.
 *
 *   LEVEL     suffix of the names        TARGET    attribute of the functions
 *   LANES     words of a vector          SUM       type of a sum: float or int
 *   ROWS      rows of a register tile    COLS      its columns, a multiple of LANES
 *   WORD      a word of the operands     MULTIPLY_ADD(a, b, c)  c + a b for a word a and vectors
 *                                        b and c, where a and b hold several terms: c + a . b
 *   GATHERED  defined: kmf_gather_fn and products with a transposed a are wanted, too;
 *             GATHER_DEEP rows of it at a time
 *   ROUGH     defined: products with their epilogue (nn/epilogue.h) are wanted; true where what
 *             they end in is rounded soon. EXACT: whether sums are integers. For levels with fused
 *             multiply-add alone
 *
 * A tile is ROWS x COLS sums kept in registers; for every k one row of the panel is loaded and
 * multiplied by ROWS broadcast words of a. Text that is included, because vector code of one
 * width inside a function made for another is taken apart by gcc before inlining; and loops
 * that are unrolled by order, because gcc 12 otherwise keeps the sums in memory.
 */
#include "nn/level.h"

#define VECS (COLS / LANES)

typedef SUM NAME(sums_) __attribute__((vector_size(LANES * 4)));
typedef WORD NAME(words_) __attribute__((vector_size(LANES * 4)));
/* The same anywhere in memory. */
typedef SUM NAME(sums_mem_) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef WORD NAME(words_mem_) __attribute__((vector_size(LANES * 4), aligned(4), may_alias));
typedef WORD NAME(word_mem_) __attribute__((may_alias));

TARGET static KMF_INLINE NAME(sums_) NAME(multiply_add_)(WORD a, NAME(words_) b, NAME(sums_) c)
{
    return MULTIPLY_ADD(a, b, c);
}

/*
 * c = c + a b (more) or a b.   a: [rows, K]   b: [K, COLS]   c: [rows, COLS], ld_c
 * Word i, k of a is a[i * ld_a + k * step]. Of the COLS columns only vecs vectors are computed.
 * Beside each k the line at next is fetched into the second-level cache, and next moves on by
 * next_step bytes. rows and vecs are constants wherever this is inlined.
 */
TARGET static KMF_INLINE void NAME(tile_)(int rows, int vecs, void *restrict c_, size_t ld_c,
                                          const void *restrict a_, size_t ld_a, size_t step,
                                          const void *restrict b_, size_t K, bool more,
                                          const char *next, size_t next_step)
{
    SUM *restrict c = c_;
    const NAME(word_mem_) *restrict a = a_;
    const WORD *restrict b = b_;
    NAME(sums_) sum[ROWS][VECS];
    KMF_UNROLL(16)
    for (int i = 0; i < rows; i++) {
        KMF_UNROLL(4)
        for (int v = 0; v < vecs; v++) {
            sum[i][v] = (NAME(sums_)){0};
            if (more)
                sum[i][v] = *(const NAME(sums_mem_) *)(c + (size_t)i * ld_c + v * LANES);
        }
    }
    KMF_UNROLL_BY(2) /* what is no multiply-add is done half as often; the order stays */
    for (size_t k = 0; k < K; k++) {
        NAME(words_) row[VECS];
        __builtin_prefetch(next + k * next_step, 0, 2);
        KMF_UNROLL(4)
        for (int v = 0; v < vecs; v++)
            row[v] = *(const NAME(words_mem_) *)(b + k * COLS + v * LANES);
        KMF_UNROLL(16)
        for (int i = 0; i < rows; i++) {
            WORD x = a[(size_t)i * ld_a + k * step];
            KMF_UNROLL(4)
            for (int v = 0; v < vecs; v++)
                sum[i][v] = NAME(multiply_add_)(x, row[v], sum[i][v]);
        }
    }
    KMF_UNROLL(16)
    for (int i = 0; i < rows; i++) {
        KMF_UNROLL(4)
        for (int v = 0; v < vecs; v++)
            *(NAME(sums_mem_) *)(c + (size_t)i * ld_c + v * LANES) = sum[i][v];
    }
}

/* All M rows; those that fill no tile by smaller ones, which give the same bits. */
TARGET static KMF_INLINE void NAME(rows_)(int vecs, void *c_, size_t ld_c, const void *a_,
                                          size_t ld_a, const void *b, size_t M, size_t K,
                                          bool more, kmf_ahead ahead)
{
    SUM *c = c_;
    const NAME(word_mem_) *a = a_;
    const char *next = ahead.bytes > 0 ? ahead.from : b;
    size_t by = ahead.bytes > 0 ? ahead.bytes / (kmf_div_up(M, ROWS) * K) : 0;
    size_t i = 0;
    for (; i + ROWS <= M; i += ROWS, next += K * by) {
        const NAME(word_mem_) *row = a + i * ld_a;
        NAME(tile_)(ROWS, vecs, c + i * ld_c, ld_c, row, ld_a, 1, b, K, more, next, by);
    }
    for (; i + 4 <= M; i += 4, next += K * by)
        NAME(tile_)(4, vecs, c + i * ld_c, ld_c, a + i * ld_a, ld_a, 1, b, K, more, next, by);
    for (; i + 2 <= M; i += 2)
        NAME(tile_)(2, vecs, c + i * ld_c, ld_c, a + i * ld_a, ld_a, 1, b, K, more, b, 0);
    for (; i < M; i++)
        NAME(tile_)(1, vecs, c + i * ld_c, ld_c, a + i * ld_a, ld_a, 1, b, K, more, b, 0);
}

/* A kmf_panel_fn: its contract stands in nn/kernels.h. */
TARGET static void NAME(panel_)(void *c, size_t ld_c, const void *a, size_t ld_a, const void *b,
                                size_t ld_b, size_t M, size_t cols, size_t K, bool more,
                                kmf_ahead ahead)
{
    (void)ld_b;
    int vecs = (int)kmf_div_up(cols, LANES);
    if (vecs == VECS)
        NAME(rows_)(VECS, c, ld_c, a, ld_a, b, M, K, more, ahead);
    else if (vecs == 3)
        NAME(rows_)(VECS < 3 ? VECS : 3, c, ld_c, a, ld_a, b, M, K, more, ahead);
    else if (vecs == 2)
        NAME(rows_)(VECS < 2 ? VECS : 2, c, ld_c, a, ld_a, b, M, K, more, ahead);
    else
        NAME(rows_)(1, c, ld_c, a, ld_a, b, M, K, more, ahead);
}

#ifdef GATHERED
/* A kmf_gather_fn: its contract stands in nn/kernels.h. */
TARGET static void NAME(gather_)(void *groups_, size_t ld, const void *a_, size_t ld_a,
                                 size_t M, size_t K)
{
    NAME(word_mem_) *groups = groups_;
    const NAME(word_mem_) *a = a_;
    for (size_t beg = 0; beg < K; beg += GATHER_DEEP) {
        size_t end = K - beg < GATHER_DEEP ? K : beg + GATHER_DEEP;
        for (size_t i = 0; i < M; i += ROWS) {
            size_t rows = M - i < ROWS ? M - i : ROWS;
            NAME(word_mem_) *group = groups + i * ld;
            if (rows == ROWS)
                for (size_t k = beg; k < end; k++)
                    memcpy(group + k * ROWS, a + k * ld_a + i, ROWS * sizeof *a);
            else
                for (size_t k = beg; k < end; k++)
                    memcpy(group + k * ROWS, a + k * ld_a + i, rows * sizeof *a);
        }
    }
}

/* Word i, k of a is a[i * row + k * step]. */
TARGET static KMF_INLINE void NAME(columns_)(void *c_, size_t ld_c, const void *a_, size_t row,
                                             size_t step, const void *b, size_t M, size_t K,
                                             bool more, kmf_ahead ahead)
{
    SUM *c = c_;
    const NAME(word_mem_) *a = a_;
    const char *next = ahead.bytes > 0 ? ahead.from : b;
    size_t by = ahead.bytes > 0 ? ahead.bytes / (kmf_div_up(M, ROWS) * K) : 0;
    size_t i = 0;
    for (; i + ROWS <= M; i += ROWS, next += K * by)
        NAME(tile_)(ROWS, VECS, c + i * ld_c, ld_c, a + i * row, 1, step, b, K, more, next, by);
    for (const NAME(word_mem_) *last = a + i * row; i < M; i++, last++)
        NAME(tile_)(1, VECS, c + i * ld_c, ld_c, last, 1, step, b, K, more, b, 0);
}

/* The same product as panel_ for an a that was gathered; */
TARGET static void NAME(group_panel_)(void *c, size_t ld_c, const void *groups, size_t ld,
                                      const void *b, size_t ld_b, size_t M, size_t cols,
                                      size_t K, bool more, kmf_ahead ahead)
{
    (void)ld_b;
    (void)cols;
    NAME(columns_)(c, ld_c, groups, ld, ROWS, b, M, K, more, ahead);
}

/* and for one that lies the other way round. */
TARGET static void NAME(back_panel_)(void *c, size_t ld_c, const void *a, size_t ld_a,
                                     const void *b, size_t ld_b, size_t M, size_t cols,
                                     size_t K, bool more, kmf_ahead ahead)
{
    (void)ld_b;
    (void)cols;
    NAME(columns_)(c, ld_c, a, 1, ld_a, b, M, K, more, ahead);
}
#endif

#ifdef ROUGH
/*
 * Ends a tile: rows by n columns of sums [ROWS, COLS], which are those of the product from row i
 * and column j on. n is a constant wherever this is inlined.
 */
TARGET static KMF_INLINE void NAME(epilogue_columns_)(const kmf_fused *e, const SUM *sums,
                                                      size_t i, size_t j, size_t rows, size_t n)
{
    _Alignas(64) float ended[ROWS * COLS];
    bool words = e->to.words != NULL;
    float *y = words ? ended : e->y + i * e->ld_y + j;
    size_t ld_y = words ? COLS : e->ld_y;
    kmf_epilogue epilogue = e->epilogue;
    if (epilogue.bias)
        epilogue.bias += j;
    for (size_t r = 0; r < rows; r++)
        kmf_epilogue_row(true, EXACT, y + r * ld_y,
                         kmf_sums_of(EXACT, sums + r * COLS, &e->q, i + r, j), e->q.more,
                         epilogue, ROUGH, n);
    if (words) {
        kmf_rows to = e->to;
        to.words += kmf_rows_at(&to, i, j / 2 * to.parts);
        kmf_words_bf16(to, ended, COLS, rows, n);
    }
}

/* The same, n being what is left of the columns. */
TARGET static void NAME(epilogue_tile_)(const kmf_fused *e, const SUM *sums, size_t i, size_t j,
                                        size_t rows)
{
    size_t left = e->cols - j;
    if (VECS == 2 || left >= COLS)
        NAME(epilogue_columns_)(e, sums, i, j, rows, COLS);
    else if (VECS == 4 || left == 2 * LANES)
        NAME(epilogue_columns_)(e, sums, i, j, rows, 2 * LANES);
    else
        NAME(epilogue_columns_)(e, sums, i, j, rows, LANES);
}

/* Fetches the lines of y that a tile's results go to, while its sums are taken. */
TARGET static KMF_INLINE void NAME(fetch_results_)(const kmf_fused *e, size_t i, size_t j,
                                                   size_t rows)
{
    size_t n = e->cols - j < COLS ? e->cols - j : COLS;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < n; c += 16)
            __builtin_prefetch(e->y + (i + r) * e->ld_y + j + c, 1, 3);
}

/*
 * Sums of a whole tile, though of the last one fewer rows and columns may be wanted. Of three
 * vectors, of which the last panel of most models holds two, no more than are (cols); of four half
 * panels are rare. Apart, for gcc 12 keeps sums in memory where more stands beside them.
 */
TARGET KMF_APART static void NAME(sum_tile_)(SUM *sums, const void *a, size_t ld_a,
                                             const void *b, size_t cols, size_t K,
                                             const char *next, size_t next_step)
{
    if (VECS != 3 || cols > 2 * LANES)
        NAME(tile_)(ROWS, VECS, sums, COLS, a, ld_a, 1, b, K, false, next, next_step);
    else
        NAME(tile_)(ROWS, 2, sums, COLS, a, ld_a, 1, b, K, false, next, next_step);
}

/* A kmf_fused_fn (nn/kernels.h): a tile is ended while its sums are in the nearest cache. */
TARGET static void NAME(fused_)(const kmf_fused *product)
{
    _Alignas(64) SUM sums[ROWS * COLS];
    const kmf_fused e = *product; /* what is written cannot lie in it */
    const NAME(word_mem_) *a = (const NAME(word_mem_) *)e.a;
    const WORD *b = e.b;
    size_t tiles = kmf_div_up(e.M, ROWS);
    assert(e.M > 0 && e.K > 0 && !(e.to.words && e.to.tiled));
    _Static_assert(2 <= VECS && VECS <= 4 &&
                       KMF_FUSED_COLS % ((VECS == 3 ? 1 : 2) * LANES) == 0,
                   "of a panel all is wanted, or as many vectors as epilogue_tile_ knows");
    _Static_assert(KMF_TILE % ROWS == 0, "rows up to a whole tile of registers are there");
    for (size_t j = 0; j < e.cols; j += COLS, b += e.ld_b) {
        kmf_ahead after = {b + e.ld_b, e.K * COLS * sizeof *b};
        if (e.cols - j <= COLS)
            after = e.after;
        const char *next = after.bytes > 0 ? after.from : (const void *)b;
        size_t by = after.bytes / (tiles * e.K);
        for (size_t i = 0; i < e.M; i += ROWS, next += e.K * by) {
            size_t rows = e.M - i < ROWS ? e.M - i : ROWS;
            if (e.y)
                NAME(fetch_results_)(&e, i, j, rows);
            NAME(sum_tile_)(sums, a + i * e.ld_a, e.ld_a, b, e.cols - j, e.K, next, by);
            NAME(epilogue_tile_)(&e, sums, i, j, rows);
        }
    }
}
#endif

#undef VECS
#undef LEVEL
#undef TARGET
#undef LANES
#undef SUM
#undef WORD
#undef ROWS
#undef COLS
#undef MULTIPLY_ADD
#undef GATHERED
#undef ROUGH
#undef EXACT
