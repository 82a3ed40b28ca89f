/* SPDX-License-Identifier: MIT */
/*
 * Matrix products by OpenBLAS or by the plain engine.
 *
 * The plain engine. A weight is cut into panels of as many output columns as a register tile
 * holds, each stored [Din][columns], and the kernel reads it from one end to the other:
 *
 *        Din                    panel 0     panel 1          x: ROWS rows, read in place
 *      +-----+                 +--------+  +--------+
 *  W   |     |  Dout   ->      | k = 0  |  | k = 0  | ..   tile: ROWS x COLS sums, in registers
 *      |     |                 | k = 1  |  | k = 1  |
 *      +-----+                 | ...    |  | ...    |        the last panel is filled up with 0
 *
 * Each sum is taken over k in order, by one lane, whatever the place of its row or column: that
 * is where the promise of the header comes from. A sum longer than DEPTH is broken off, stored
 * and taken up again, which changes no bit, so that the part of a panel in use stays in the
 * second-level cache. Levels with fused multiply-add agree in every bit, too; the baseline rounds
 * once more per product.
 *
 * OpenBLAS is used where the plain engine has no fused multiply-add to build on. With AVX2 and
 * AVX-512 it is passed over, for three reasons that were measured with 0.3.21: the kernels
 * for Haswell and Zen sum the rows of one tile in different orders, so that a row's bits depend on
 * its place; processors younger than the library are taken for a Prescott, at a fifth of the
 * speed; and since it packs the weight at every call, the whole encoder runs 1.15 times as fast
 * without it (preset small, reads of 150 bp, one thread, against its SkylakeX kernels).
 *
 * Products inside a sequence go through the same kernel with either engine: they are too small
 * for a BLAS, which would copy both factors for each. b is copied to panels on the stack, and so
 * is an a that is stored the other way round: gradients of weights, dy^T x, are of that kind.
 */
#include "nn/gemm.h"

#include "base/cpu.h"
#include "kmerformer.h"

#include <assert.h>
#include <cblas.h>

/* Exported by OpenBLAS built with threads, though not declared in its header. */
extern int blas_thread_shutdown_(void) __attribute__((weak));
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- the kernels ------------ */

#define BASELINE_ROWS (KMF_BASELINE_FMA ? 8 : 4) /* arm64 has 32 vector registers, SSE2 16 */

#define LEVEL baseline
#define TARGET
#define LANES 4
#define FMA KMF_BASELINE_FMA
#define ROWS BASELINE_ROWS
#define COLS 8
#include "nn/gemm_tile.h"

#if KMF_X86_LEVELS
#define LEVEL avx2
#define TARGET KMF_TARGET_AVX2
#define LANES 8
#define FMA 1
#define ROWS 4
#define COLS 24
#include "nn/gemm_tile.h"

#define LEVEL avx512
#define TARGET KMF_TARGET_AVX512
#define LANES 16
#define FMA 1
#define ROWS 8
#define COLS 32
#include "nn/gemm_tile.h"
#endif

#define MAX_COLS 32
#define MAX_ROWS 8

/* Terms of a sum taken in one go. */
#define DEPTH 512

/* c = c + a b (more) or a b.  a: [M, K], ld_a  b: [K, cols], dense  c: [M, cols], ld_c */
typedef void tile_panel(float *restrict c, size_t ld_c, const float *restrict a, size_t ld_a,
                        const float *restrict b, size_t M, size_t K, bool more);

/*
 * The transpose of a [K, M] in groups of a register tile's rows, so that a tile reads it from one
 * end to the other: groups [M / rows, K, rows], the last group with room for as many.
 */
typedef void gather_groups(float *restrict groups, const float *restrict a, size_t ld_a,
                           size_t M, size_t K);

static const struct kernel {
    tile_panel *panel;       /* a row-major */
    tile_panel *group_panel; /* a gathered; ld_a is not looked at */
    gather_groups *gather;
    size_t cols;
} kernels[KMF_N_CPU] = {
    {panel_baseline, group_panel_baseline, gather_baseline, 8},
#if KMF_X86_LEVELS
    {panel_avx2, group_panel_avx2, gather_avx2, 24},
    {panel_avx512, group_panel_avx512, gather_avx512, 32},
#endif
};

/*
 * The same for a panel of which only `cols` columns are wanted. Steps of MAX_ROWS rows are whole
 * groups at any level, and where they begin does not depend on the layout of a: a gathered one has
 * K floats a row as well.
 */
static void edge_panel(const struct kernel *kernel, tile_panel *panel, float *c, size_t ld_c,
                       const float *a, size_t ld_a, const float *b, size_t M, size_t cols,
                       size_t K, bool more)
{
    if (cols == kernel->cols) {
        panel(c, ld_c, a, ld_a, b, M, K, more);
        return;
    }
    float whole[MAX_ROWS * MAX_COLS] = {0};
    for (size_t i = 0; i < M; i += MAX_ROWS) {
        size_t rows = M - i < MAX_ROWS ? M - i : MAX_ROWS;
        for (size_t r = 0; more && r < rows; r++)
            memcpy(whole + r * kernel->cols, c + (i + r) * ld_c, cols * sizeof *c);
        panel(whole, kernel->cols, a + i * ld_a, ld_a, b, rows, K, more);
        for (size_t r = 0; r < rows; r++)
            memcpy(c + (i + r) * ld_c, whole + r * kernel->cols, cols * sizeof *c);
    }
}

/* ---------------------------------------------------------------- which engine ----------- */

static struct {
    bool blas;
    kmf_cpu level;
    char name[64];
} engine;

static pthread_once_t engine_once = PTHREAD_ONCE_INIT;

/* y = x W^T for one tile by OpenBLAS.  w_t: [Din, Dout] */
static void blas_tile(float *y, size_t ld_y, const float *x, size_t ld_x, const float *w_t,
                      size_t Dout, size_t Din)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, KMF_TILE, (blasint)Dout,
                (blasint)Din, 1.0f, x, (blasint)ld_x, w_t, (blasint)Dout, 0.0f, y,
                (blasint)ld_y);
}

/*
 * Whether OpenBLAS gives equal rows of a tile equal bits, and a row the same bits when the
 * other rows change. The shapes are odd and even, shallow, and deeper than the depth at which
 * any of its kernels breaks a sum. 5 to 20 ms.
 */
static bool rows_are_alike(void)
{
    static const struct {
        size_t Dout, Din;
    } shapes[] = {{32, 48}, {33, 17}, {144, 48}, {67, 801}, {96, 256}, {192, 768}};
    enum { MAX_DIN = 801, MAX_WEIGHT = 192 * 768, MAX_DOUT = 192 };
    static float x[KMF_TILE * MAX_DIN], w_t[MAX_WEIGHT], y[KMF_TILE * MAX_DOUT];
    float first[MAX_DOUT];
    uint32_t state = 1;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        size_t Dout = shapes[s].Dout;
        size_t Din = shapes[s].Din;
        for (size_t i = 0; i < Dout * Din; i++) {
            state = state * 1664525u + 1013904223u;
            w_t[i] = (float)(state >> 8) * 0x1p-23f - 1.0f;
        }
        for (size_t i = 0; i < Din; i++) {
            state = state * 1664525u + 1013904223u;
            x[i] = (float)(state >> 8) * 0x1p-23f - 1.0f;
        }
        for (size_t n = 1; n < KMF_TILE; n++)
            memcpy(x + n * Din, x, Din * sizeof *x);
        blas_tile(y, Dout, x, Din, w_t, Dout, Din);
        memcpy(first, y, Dout * sizeof *y);
        for (size_t n = 1; n < KMF_TILE; n++)
            if (memcmp(y + n * Dout, first, Dout * sizeof *y) != 0)
                return false;
        for (size_t n = 0; n < KMF_TILE; n++)
            for (size_t i = 0; n % 3 != 1 && i < Din; i++)
                x[n * Din + i] = (float)(n % 5) - x[i] * (float)n;
        blas_tile(y, Dout, x, Din, w_t, Dout, Din);
        for (size_t n = 1; n < KMF_TILE; n += 3)
            if (memcmp(y + n * Dout, first, Dout * sizeof *y) != 0)
                return false;
    }
    return true;
}

static void choose_engine(void)
{
    engine.level = kmf_cpu_level();
    const char *wish = getenv("KMERFORMER_GEMM");
    if (wish && strcmp(wish, "openblas") == 0)
        engine.blas = true;
    else if (wish && strcmp(wish, "plain") == 0)
        engine.blas = false;
    else
        engine.blas = engine.level == KMF_CPU_BASELINE;
    if (engine.blas)
        openblas_set_num_threads(1); /* of the whole process, so only where it is used */
    if (engine.blas && !(wish && strcmp(wish, "openblas") == 0))
        engine.blas = rows_are_alike();
    if (engine.blas)
        snprintf(engine.name, sizeof engine.name, "openblas %s", openblas_get_corename());
    else
        snprintf(engine.name, sizeof engine.name, "plain %s", kmf_cpu_name(engine.level));
}

void kmf_gemm_init(void)
{
    pthread_once(&engine_once, choose_engine);
}

const char *kmf_gemm_name(void)
{
    kmf_gemm_init();
    return engine.name;
}

void kmf_stop_blas_threads(void)
{
    if (blas_thread_shutdown_)
        (void)blas_thread_shutdown_();
}

const char *kmf_gemm_library(void)
{
    return openblas_get_config();
}

/* ---------------------------------------------------------------- weight products -------- */

/* panel [depth, width] = columns beg .. beg + cols - 1 of b [depth, N], the rest 0. */
static void copy_panel(float *panel, size_t width, const float *b, size_t ld_b, size_t beg,
                       size_t cols, size_t depth)
{
    for (size_t k = 0; k < depth; k++) {
        memcpy(panel + k * width, b + k * ld_b + beg, cols * sizeof *b);
        for (size_t j = cols; j < width; j++)
            panel[k * width + j] = 0.0f;
    }
}

/* Columns of a panel; for OpenBLAS the transposed weight is one panel. */
static size_t panel_cols(size_t Dout)
{
    return engine.blas ? Dout : kernels[engine.level].cols;
}

size_t kmf_gemm_packed_size(size_t Dout, size_t Din)
{
    kmf_gemm_init();
    size_t cols = panel_cols(Dout);
    size_t rest = cols ? Dout % cols : 0;
    size_t padding = rest ? cols - rest : 0;
    if (Dout > SIZE_MAX - padding)
        return 0;
    Dout += padding;
    return Din && Dout > SIZE_MAX / Din ? 0 : Dout * Din;
}

void kmf_gemm_pack(float *packed, const float *const *parts, size_t n_parts, size_t Dout,
                   size_t Din)
{
    kmf_gemm_init();
    assert(n_parts > 0 && Dout % n_parts == 0);
    size_t part_rows = Dout / n_parts;
    size_t cols = panel_cols(Dout);
    for (size_t beg = 0; beg < Dout; beg += cols) {
        float *panel = packed + beg * Din;
        for (size_t j = 0; j < cols; j++) {
            size_t o = beg + j;
            const float *row = o < Dout ? parts[o / part_rows] + o % part_rows * Din : NULL;
            for (size_t i = 0; i < Din; i++)
                panel[i * cols + j] = row ? row[i] : 0.0f;
        }
    }
}

void kmf_gemm_pack_back(float *packed, const float *const *parts, size_t n_parts, size_t Dout,
                        size_t Din)
{
    kmf_gemm_init();
    assert(n_parts > 0 && Dout % n_parts == 0);
    size_t part_rows = Dout / n_parts;
    size_t width = panel_cols(Din);
    for (size_t beg = 0; beg < Din; beg += width) {
        size_t cols = Din - beg < width ? Din - beg : width;
        for (size_t p = 0; p < n_parts; p++)
            copy_panel(packed + beg * Dout + p * part_rows * width, width, parts[p], Din, beg,
                       cols, part_rows);
    }
}

/* y = x W^T for one tile of rows by the plain kernel. */
static void plain_tile(float *y, size_t ld_y, const float *x, size_t ld_x, const float *packed,
                       size_t Dout, size_t Din)
{
    const struct kernel *kernel = &kernels[engine.level];
    for (size_t k = 0; k == 0 || k < Din; k += DEPTH) {
        size_t depth = Din - k < DEPTH ? Din - k : DEPTH;
        for (size_t beg = 0; beg < Dout; beg += kernel->cols) {
            size_t cols = Dout - beg < kernel->cols ? Dout - beg : kernel->cols;
            const float *panel = packed + beg * Din + k * kernel->cols;
            edge_panel(kernel, kernel->panel, y + beg, ld_y, x + k, ld_x, panel, KMF_TILE, cols,
                       depth, k > 0);
        }
    }
}

void kmf_gemm_weight(float *y, size_t ld_y, const float *x, size_t ld_x, const float *packed,
                     size_t N, size_t Dout, size_t Din)
{
    kmf_gemm_init();
    assert(N % KMF_TILE == 0 && ld_y >= Dout && ld_x >= Din);
    for (size_t n = 0; n < N; n += KMF_TILE) {
        if (engine.blas)
            blas_tile(y + n * ld_y, ld_y, x + n * ld_x, ld_x, packed, Dout, Din);
        else
            plain_tile(y + n * ld_y, ld_y, x + n * ld_x, ld_x, packed, Dout, Din);
    }
}

/* ---------------------------------------------------------------- inner products --------- */

/* Terms of a sum whose part of b lies in the panel on the stack, and rows of a gathered a. */
#define INNER_DEPTH 256
#define INNER_ROWS 128

/* The same of b^T, b [N, depth]. */
static void transpose_panel(float *panel, size_t width, const float *b, size_t ld_b, size_t beg,
                            size_t cols, size_t depth)
{
    for (size_t j = 0; j < width; j++)
        for (size_t k = 0; k < depth; k++)
            panel[k * width + j] = j < cols ? b[(beg + j) * ld_b + k] : 0.0f;
}

/* c (+)= a b for M rows of c. The panel of b is copied for each depth. */
static void inner_rows(float *c, size_t ld_c, const float *a, size_t ld_a, const float *b,
                       size_t ld_b, size_t M, size_t N, size_t K, int how)
{
    const struct kernel *kernel = &kernels[engine.level];
    _Alignas(64) float panel[INNER_DEPTH * MAX_COLS];
    _Alignas(64) float groups[INNER_ROWS * INNER_DEPTH];
    bool gathered = how & KMF_GEMM_TA;
    for (size_t k = 0; k == 0 || k < K; k += INNER_DEPTH) {
        size_t depth = K - k < INNER_DEPTH ? K - k : INNER_DEPTH;
        bool more = k > 0 || how & KMF_GEMM_ADD;
        if (gathered)
            kernel->gather(groups, a + k * ld_a, ld_a, M, depth);
        for (size_t beg = 0; beg < N; beg += kernel->cols) {
            size_t cols = N - beg < kernel->cols ? N - beg : kernel->cols;
            if (how & KMF_GEMM_TB)
                transpose_panel(panel, kernel->cols, b + k, ld_b, beg, cols, depth);
            else
                copy_panel(panel, kernel->cols, b + k * ld_b, ld_b, beg, cols, depth);
            if (gathered)
                edge_panel(kernel, kernel->group_panel, c + beg, ld_c, groups, depth, panel, M,
                           cols, depth, more);
            else
                edge_panel(kernel, kernel->panel, c + beg, ld_c, a + k, ld_a, panel, M, cols,
                           depth, more);
        }
    }
}

void kmf_gemm_inner(float *c, size_t ld_c, const float *a, size_t ld_a, const float *b,
                    size_t ld_b, size_t M, size_t N, size_t K, int how)
{
    kmf_gemm_init();
    size_t most = how & KMF_GEMM_TA ? INNER_ROWS : M;
    size_t step = how & KMF_GEMM_TA ? 1 : ld_a; /* from a row of a to the next */
    for (size_t i = 0; i < M; i += most)
        inner_rows(c + i * ld_c, ld_c, a + i * step, ld_a, b, ld_b, M - i < most ? M - i : most,
                   N, K, how);
}
