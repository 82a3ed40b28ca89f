/* SPDX-License-Identifier: MIT */
/*
 * Products inside a sequence, and gradients of weights: too small for a BLAS, which would copy
 * both factors for each. b is copied to panels on the stack, and so is an a that is stored the
 * other way round: gradients of weights, dy^T x, are of that kind. bf16 is rounded on the way.
 */
#include "nn/gemm.h"
#include "nn/panels.h"

#include "base/cpu.h"

#include <string.h>

/*
 * Words of a sum whose part of b lies in the panel on the stack, and rows of an a: both together
 * fit the second-level cache, and the more rows, the less often b is copied.
 */
#define DEPTH 256
#define ROWS 192

_Static_assert(ROWS % KMF_ROW_STEP == 0, "rows at a time are whole groups");

/*
 * Panels of which only `cols` columns are wanted. Steps of a kernel's rows are whole groups, and
 * where they begin does not depend on the layout of a: a gathered one has K words a row as well.
 */
static void edge_panel(const kmf_kernel *kernel, kmf_panel_fn *panel, float *c, size_t ld_c,
                       const float *a, size_t ld_a, const float *b, size_t M, size_t cols,
                       size_t K, bool more)
{
    size_t ld_b = kernel->cols * K;
    if (cols % kernel->cols == 0) {
        panel(c, ld_c, a, ld_a, b, ld_b, M, cols, K, more, (kmf_ahead){0});
        return;
    }
    float whole[KMF_ROW_STEP * KMF_KERNEL_COLS];
    memset(whole, 0, kernel->rows * kernel->width * sizeof *whole);
    for (size_t i = 0; i < M; i += kernel->rows) {
        size_t rows = M - i < kernel->rows ? M - i : kernel->rows;
        for (size_t r = 0; more && r < rows; r++)
            memcpy(whole + r * kernel->width, c + (i + r) * ld_c, cols * sizeof *c);
        panel(whole, kernel->width, a + i * ld_a, ld_a, b, ld_b, rows, cols, K, more,
              (kmf_ahead){0});
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
 * The M rows of a, terms k .. k + depth - 1, as the kernel reads them: in place, or in words, or
 * gathered. Returns them and their ld.
 */
static const float *pack_a(float *words, float *groups, size_t *ld, const kmf_kernel *kernel,
                           const float *a, size_t ld_a, size_t M, size_t k, size_t depth,
                           bool transposed)
{
    bool convert = kernel->terms == 2;
    *ld = kmf_kernel_words(kernel, depth);
    if (transposed && convert) {
        size_t there = (depth + 1) / 2;
        kmf_words_pairs(words, M, a + k * ld_a, ld_a, M, depth);
        memset(words + there * M, 0, (*ld - there) * M * sizeof *words);
        kernel->gather(groups, words, M, M, *ld);
        return groups;
    }
    if (transposed) {
        kernel->gather(groups, a + k * ld_a, ld_a, M, depth);
        return groups;
    }
    if (convert) {
        *ld = kmf_words_ld(kernel, depth);
        kmf_words_bf16(kmf_kernel_rows(kernel, words, *ld), a + k, ld_a, M, depth);
        return words;
    }
    *ld = ld_a;
    return a + k;
}

static const kmf_kernel *kernel_for(int how)
{
    return kmf_kernel_of(how & KMF_GEMM_BF16 ? KMF_OPERAND_BF16 : KMF_OPERAND_F32);
}

/* c (+)= a b for M <= ROWS rows of c. The panel of b is copied for each depth. */
static void inner_rows(float *c, size_t ld_c, const float *a, size_t ld_a, const float *b,
                       size_t ld_b, size_t M, size_t N, size_t K, int how)
{
    bool gathered = how & KMF_GEMM_TA;
    const kmf_kernel *kernel = kernel_for(how);
    _Alignas(64) float panel[DEPTH * KMF_KERNEL_COLS];
    _Alignas(64) float words[ROWS * DEPTH];
    _Alignas(64) float groups[ROWS * DEPTH];
    size_t most = DEPTH * kernel->terms;
    for (size_t k = 0; k == 0 || k < K; k += most) {
        size_t depth = K - k < most ? K - k : most;
        size_t ld;
        const float *left = pack_a(words, groups, &ld, kernel, a, ld_a, M, k, depth, gathered);
        for (size_t beg = 0; beg < N; beg += kernel->width) {
            size_t cols = N - beg < kernel->width ? N - beg : kernel->width;
            pack_b(panel, kernel, b, ld_b, beg, cols, k, depth, how & KMF_GEMM_TB);
            edge_panel(kernel, gathered ? kernel->group_panel : kernel->panel, c + beg, ld_c,
                       left, ld, panel, M, cols, kmf_kernel_words(kernel, depth),
                       k > 0 || how & KMF_GEMM_ADD);
        }
    }
}

void kmf_gemm_inner(float *c, size_t ld_c, const float *a, size_t ld_a, const float *b,
                    size_t ld_b, size_t M, size_t N, size_t K, int how)
{
    size_t step = how & KMF_GEMM_TA ? 1 : ld_a; /* from a row of a to the next */
    bool tiled = kernel_for(how)->tiled;
    kmf_kernels_open(tiled);
    for (size_t i = 0; i < M; i += ROWS)
        inner_rows(c + i * ld_c, ld_c, a + i * step, ld_a, b, ld_b, M - i < ROWS ? M - i : ROWS,
                   N, K, how);
    kmf_kernels_close(tiled);
}
