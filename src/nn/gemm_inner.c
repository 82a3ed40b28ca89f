/* SPDX-License-Identifier: MIT */
/*
 * Small products, such as those inside a sequence, and gradients of weights in parts: too small for
 * a BLAS, which would copy both factors for each. Of small ones b is copied to panels on the stack,
 * or was packed before, for several of them; an a that is stored the other way round is read as it
 * lies, or gathered there: for many panels, and for tile registers. Of a gradient, dy^T x, both
 * factors are copied when they are made, and an item of work multiplies parts of them. bf16 is
 * rounded on the way, and thirds are made.
 */
#include "nn/gemm.h"

#include "base/mem.h"
#include "nn/panels.h"

#include <assert.h>
#include <string.h>

/*
 * Words of a sum that are multiplied in one go, as many as the panel on the stack has, and rows of
 * an a: both together fit the second-level cache, and the more rows, the less often b is copied.
 */
#define DEPTH 288
#define ROWS 192
/*
 * Words of a gradient's sums. With panels of 64 columns, which means AVX-512: 192 rows and a panel
 * are 590 KB, where that cache has 1 MB; in tile registers it has 2 MB; others as above.
 */
#define WIDE_DEPTH 576
#define TILED_DEPTH 1152
/* Panels for which a transposed a is not worth gathering. */
#define FEW_PANELS 4

/* A part of an a while it is gathered: words, and its columns. */
#define PART_WORDS 16
#define PART_COLS ((size_t)KMF_ROW_STEP * 2)

_Static_assert(DEPTH % (KMF_ROWS_TILE * KMF_MOST_PARTS) == 0, "whole units of any parts");
_Static_assert(TILED_DEPTH % (KMF_ROWS_TILE * KMF_MOST_PARTS) == 0, "and here");
_Static_assert(ROWS % KMF_ROW_STEP == 0, "rows at a time are whole groups");
_Static_assert(KMF_TILE % KMF_ROW_STEP == 0, "and those of a tile");
_Static_assert(KMF_FACTOR_ROWS % (2 * PART_WORDS) == 0, "no pair of tokens is of two pieces");
_Static_assert(KMF_FACTOR_ROWS % (2 * KMF_ROWS_TILE) == 0, "units of tile registers are whole");

/* A left operand, and the kernel's product that reads it. */
typedef struct lefts {
    kmf_panel_fn *panel;
    const float *words;
    size_t ld;  /* as panel wants it */
    size_t row; /* words from a row to the next one, of whole groups if it is gathered */
} lefts;

/* Panels of which only `cols` columns are wanted. Steps of a kernel's rows are whole groups. */
static void edge_panel(const kmf_kernel *kernel, const lefts *a, float *c, size_t ld_c,
                       const float *b, size_t ld_b, size_t M, size_t cols, size_t K, bool more,
                       kmf_ahead ahead)
{
    if (cols % kernel->cols == 0) {
        a->panel(c, ld_c, a->words, a->ld, b, ld_b, M, cols, K, more, ahead);
        return;
    }
    float whole[KMF_ROW_STEP * KMF_KERNEL_COLS];
    memset(whole, 0, kernel->rows * kernel->width * sizeof *whole);
    for (size_t i = 0; i < M; i += kernel->rows) {
        size_t rows = kmf_min(M - i, kernel->rows);
        for (size_t r = 0; more && r < rows; r++)
            memcpy(whole + r * kernel->width, c + (i + r) * ld_c, cols * sizeof *c);
        a->panel(whole, kernel->width, a->words + i * a->row, a->ld, b, ld_b, rows, cols, K,
                 more, (kmf_ahead){0});
        for (size_t r = 0; r < rows; r++)
            memcpy(c + (i + r) * ld_c, whole + r * kernel->width, cols * sizeof *c);
    }
}

/* A panel of b, terms k .. k + depth - 1 of columns beg .. beg + cols - 1. */
static void pack_b(float *panel, const kmf_kernel *kernel, const float *b, size_t ld_b,
                   size_t beg, size_t cols, size_t k, size_t depth, bool transposed)
{
    if (transposed)
        kmf_panels_pack(panel, kernel, (const float *[]){b + beg * ld_b + k}, 1, ld_b, cols,
                        depth);
    else
        kmf_panels_pack_back(panel, kernel, (const float *[]){b + k * ld_b + beg}, 1, ld_b,
                             depth, cols);
}

/*
 * The M rows of a, terms k .. k + depth - 1, for a product of N columns: in place, or in words. A
 * transposed one is read as it lies if that is for few panels, else gathered.
 */
static lefts pack_a(float *words, float *groups, const kmf_kernel *kernel, const float *a,
                    size_t ld_a, size_t M, size_t N, size_t k, size_t depth, bool transposed)
{
    bool convert = kernel->terms == 2;
    size_t ld = kmf_kernel_words(kernel, depth);
    if (!transposed && !convert)
        return (lefts){kernel->panel, a + k, ld_a, ld_a};
    if (!transposed) {
        ld = kmf_words_ld(kernel, depth);
        kmf_words_bf16(kmf_kernel_rows(kernel, words, ld), a + k, ld_a, M, depth);
        return (lefts){kernel->panel, words, ld, ld};
    }
    const float *columns = convert ? words : a + k * ld_a;
    size_t ld_columns = convert ? M : ld_a;
    if (convert)
        kmf_words_pairs(words, M, kernel, a + k * ld_a, ld_a, M, depth);
    if (kernel->back_panel && N <= FEW_PANELS * kernel->width)
        return (lefts){kernel->back_panel, columns, ld_columns, 1};
    kernel->gather(groups, ld, columns, ld_columns, M, ld);
    return (lefts){kernel->group_panel, groups, ld, ld};
}

static const kmf_kernel *kernel_for(int how)
{
    if (how & KMF_GEMM_BF16)
        return kmf_kernel_of(KMF_OPERAND_BF16);
    return kmf_kernel_of(how & KMF_GEMM_TILES ? kmf_operand_of(KMF_PRECISION_F32)
                                              : KMF_OPERAND_F32);
}

/* ---------------------------------------------------------------- small products --------- */

/* n up to a multiple of unit; false: does not fit a size_t. */
static bool rounded(size_t n, size_t unit, size_t *to)
{
    if (!kmf_add(n, unit - 1, to))
        return false;
    *to = *to / unit * unit;
    return true;
}

/* b of a small product: as it is, to be copied panel by panel, or packed. */
typedef struct rights {
    const float *b;
    size_t ld;
    const float *packed; /* NULL: it is as it is */
} rights;

/* Where terms k .. of columns beg .. stand among the panels of a b that is packed. */
static size_t packed_at(const kmf_kernel *kernel, size_t N, size_t K, size_t k, size_t beg)
{
    size_t most = kmf_kernel_terms(kernel, DEPTH);
    size_t columns = kmf_round_up(N, kernel->width);
    return kmf_kernel_words(kernel, k) * columns +
           kmf_kernel_words(kernel, kmf_min(K - k, most)) * beg;
}

/* c (+)= a b for M <= ROWS rows of c. A panel of b is copied for each depth, or is there. */
static void inner_rows(float *c, size_t ld_c, const float *a, size_t ld_a, const rights *b,
                       size_t M, size_t N, size_t K, int how)
{
    const kmf_kernel *kernel = kernel_for(how);
    _Alignas(64) float copy[DEPTH * KMF_KERNEL_COLS];
    _Alignas(64) float words[ROWS * DEPTH];
    _Alignas(64) float groups[ROWS * DEPTH];
    size_t most = kmf_kernel_terms(kernel, DEPTH);
    for (size_t k = 0; k == 0 || k < K; k += most) {
        size_t depth = kmf_min(K - k, most);
        size_t words_deep = kmf_kernel_words(kernel, depth);
        lefts rows = pack_a(words, groups, kernel, a, ld_a, M, N, k, depth, how & KMF_GEMM_TA);
        for (size_t beg = 0; beg < N; beg += kernel->width) {
            size_t cols = kmf_min(N - beg, kernel->width);
            const float *panel = copy;
            if (b->packed)
                panel = b->packed + packed_at(kernel, N, K, k, beg);
            else
                pack_b(copy, kernel, b->b, b->ld, beg, cols, k, depth, how & KMF_GEMM_TB);
            edge_panel(kernel, &rows, c + beg, ld_c, panel, kernel->cols * words_deep, M, cols,
                       words_deep, k > 0 || how & KMF_GEMM_ADD, (kmf_ahead){0});
        }
    }
}

static void inner(float *c, size_t ld_c, const float *a, size_t ld_a, const rights *b, size_t M,
                  size_t N, size_t K, int how)
{
    size_t step = how & KMF_GEMM_TA ? 1 : ld_a; /* from a row of a to the next */
    bool tiled = kernel_for(how)->tiled;
    kmf_kernels_open(tiled);
    for (size_t i = 0; i < M; i += ROWS)
        inner_rows(c + i * ld_c, ld_c, a + i * step, ld_a, b, kmf_min(M - i, ROWS), N, K, how);
    kmf_kernels_close(tiled);
}

void kmf_gemm_inner(float *c, size_t ld_c, const float *a, size_t ld_a, const float *b,
                    size_t ld_b, size_t M, size_t N, size_t K, int how)
{
    inner(c, ld_c, a, ld_a, &(rights){.b = b, .ld = ld_b}, M, N, K, how);
}

size_t kmf_gemm_inner_floats(size_t N, size_t K, int how)
{
    const kmf_kernel *kernel = kernel_for(how);
    size_t columns;
    return rounded(N, kernel->width, &columns)
               ? kmf_panels_bytes(kernel, columns, K) / sizeof(float)
               : 0;
}

void kmf_gemm_inner_pack(float *packed, const float *b, size_t ld_b, size_t N, size_t K,
                         int how)
{
    const kmf_kernel *kernel = kernel_for(how);
    size_t most = kmf_kernel_terms(kernel, DEPTH);
    for (size_t k = 0; k < K; k += most)
        for (size_t beg = 0; beg < N; beg += kernel->width)
            pack_b(packed + packed_at(kernel, N, K, k, beg), kernel, b, ld_b, beg,
                   kmf_min(N - beg, kernel->width), k, kmf_min(K - k, most), how & KMF_GEMM_TB);
}

void kmf_gemm_inner_packed(float *c, size_t ld_c, const float *a, size_t ld_a,
                           const float *packed, size_t M, size_t N, size_t K, int how)
{
    inner(c, ld_c, a, ld_a, &(rights){.packed = packed}, M, N, K, how);
}

/* ---------------------------------------------------------------- gradients of weights --- */

static const kmf_kernel *kernel_of(const kmf_factor *f)
{
    return kmf_kernel_of(kmf_operand_of(f->precision));
}

size_t kmf_gemm_factor_bytes(size_t N, size_t cols, kmf_precision precision)
{
    const kmf_kernel *kernel = kmf_kernel_of(kmf_operand_of(precision));
    size_t left, right, n;
    if (!rounded(cols, kernel->group, &left) || !rounded(cols, kernel->cols, &right) ||
        !kmf_mul(N, kernel->parts, &n) ||
        !kmf_mul(kmf_kernel_words(kernel, N), left > right ? left : right, &n) ||
        !kmf_mul(n, sizeof(float), &n))
        return 0;
    return n;
}

/* Words of bf16 of `rows` tokens, gathered; behind them zeros up to a whole unit. */
static void gather_pairs(float *groups, size_t ld, const kmf_kernel *kernel, const float *from,
                         size_t ld_from, size_t rows, size_t cols)
{
    _Alignas(64) float words[PART_WORDS * KMF_MOST_PARTS * PART_COLS];
    for (size_t k = 0; k < rows; k += 2 * PART_WORDS) {
        size_t n = rows - k < 2 * PART_WORDS ? rows - k : 2 * PART_WORDS;
        size_t whole = kmf_kernel_words(kernel, n);
        for (size_t j = 0; j < cols; j += PART_COLS) {
            size_t part = kmf_min(cols - j, PART_COLS);
            kmf_words_pairs(words, PART_COLS, kernel, from + k * ld_from + j, ld_from, part, n);
            kernel->gather(groups + j * ld + kmf_kernel_words(kernel, k) * kernel->group, ld,
                           words, PART_COLS, part, whole);
        }
    }
}

void kmf_gemm_pack_left(const kmf_factor *dy, const float *from, size_t ld_from, size_t row,
                        size_t rows)
{
    const kmf_kernel *kernel = kernel_of(dy);
    size_t ld = kmf_kernel_words(kernel, dy->N);
    float *groups = (float *)dy->room + kmf_kernel_words(kernel, row) * kernel->group;
    assert(row % KMF_FACTOR_ROWS == 0 && row + rows <= dy->N);
    if (kernel->terms == 2)
        gather_pairs(groups, ld, kernel, from, ld_from, rows, dy->cols);
    else
        kernel->gather(groups, ld, from, ld_from, dy->cols, rows);
}

void kmf_gemm_pack_right(const kmf_factor *x, const float *from, size_t ld_from, size_t row,
                         size_t rows)
{
    const kmf_kernel *kernel = kernel_of(x);
    assert(row % KMF_FACTOR_ROWS == 0 && row + rows <= x->N);
    kmf_panels_pack_rows((float *)x->room + kmf_kernel_words(kernel, row) * kernel->cols,
                         kmf_kernel_words(kernel, x->N), kernel, from, ld_from, rows, x->cols);
}

void kmf_gemm_outer(float *dw, size_t ld, const kmf_factor *dy, size_t o, size_t Dout,
                    const kmf_factor *x, size_t k, size_t Din, size_t n)
{
    const kmf_kernel *kernel = kernel_of(x);
    size_t words = kmf_kernel_words(kernel, x->N);
    size_t last = kmf_kernel_words(kernel, n);
    const float *groups = (const float *)dy->room + o * words;
    const float *right = (const float *)x->room + k * words;
    assert(KMF_TILE % kernel->group == 0 && KMF_FACTOR_COLS % kernel->cols == 0);
    assert(dy->precision == x->precision && dy->N == x->N && n <= x->N);
    assert(o % KMF_TILE == 0 && k % KMF_FACTOR_COLS == 0);
    assert(Dout > 0 && o + Dout <= dy->cols && k + Din <= x->cols);
    kmf_kernels_open(kernel->tiled);
    size_t most = kernel->tiled                     ? TILED_DEPTH
                  : kernel->cols == KMF_KERNEL_COLS ? WIDE_DEPTH
                                                    : DEPTH;
    for (size_t w = 0; w < last; w += most) {
        size_t depth = kmf_min(last - w, most);
        lefts rows = {kernel->group_panel, groups + w * kernel->group, words, words};
        for (size_t beg = 0; beg < Din; beg += kernel->width) {
            size_t cols = kmf_min(Din - beg, kernel->width);
            const float *panel = right + beg * words + w * kernel->cols;
            const float *after = beg + cols < Din ? panel + kernel->width * words
                                                  : right + (w + depth) * kernel->cols;
            edge_panel(kernel, &rows, dw + beg, ld, panel, kernel->cols * words, Dout, cols,
                       depth, true, (kmf_ahead){after, depth * kernel->cols * sizeof(float)});
        }
    }
    kmf_kernels_close(kernel->tiled);
}
