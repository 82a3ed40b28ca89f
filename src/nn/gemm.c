/* SPDX-License-Identifier: MIT */
/*
 * Products of weights: which engine, and what follows the sums while they are in the nearest cache.
 *
 * OpenBLAS is used where the plain engine has no fused multiply-add to build on. With AVX2 and
 * AVX-512 it is passed over, for three reasons that were measured with 0.3.21: the kernels
 * for Haswell and Zen sum the rows of one tile in different orders, so that a row's bits depend on
 * its place; processors younger than the library are taken for a Prescott, at a fifth of the
 * speed; and it packs the weight at every call, so calls get as many rows as the third-level cache
 * likes.
 */
#include "nn/gemm.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "nn/epilogue.h"
#include "nn/ops.h"
#include "nn/panels.h"
#include "nn/quantise.h"

#include <assert.h>
#include <cblas.h>

/* Exported by OpenBLAS built with threads, though not declared in its header. */
extern int blas_thread_shutdown_(void) __attribute__((weak));
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const kmf_precision_names[] = {"f32", "bf16", "int8", "auto", NULL};

/* ---------------------------------------------------------------- which engine ----------- */

static struct {
    const kmf_kernel *f32; /* of weight products */
    char name[64];
} engine;

static pthread_once_t engine_once = PTHREAD_ONCE_INIT;

#define PLAIN_LEVEL "plain %s"    /* the engine's name, by its level */
#define BLAS_ROWS (11 * KMF_TILE) /* at most, in a call */
#define BLAS_UNIT 24
/* Products of fewer multiplications may be given to kernels of another order of sums. */
#define BLAS_SMALL 2000000

/* What OpenBLAS is to those who pack weights: panels of many columns. */
static const kmf_kernel blas_kernel = {.cols = KMF_PANEL_COLS,
                                       .width = KMF_PANEL_COLS,
                                       .product_rows = BLAS_ROWS,
                                       .terms = 1,
                                       .parts = 1,
                                       .unit = 1,
                                       .depth = SIZE_MAX / 2};

/*
 * c = a b for a panel b.   a: [M, K], ld_a   c: [M, KMF_PANEL_COLS]
 * OpenBLAS sees a multiple of BLAS_UNIT rows, of KMF_TILE where the product is small. Both
 * a and c have room for whole tiles.
 */
static void blas_panel(float *c, const float *a, size_t ld_a, const float *b, size_t M,
                       size_t cols, size_t K)
{
    bool small = BLAS_UNIT * cols * K < BLAS_SMALL;
    size_t unit = small ? KMF_TILE : BLAS_UNIT;
    size_t step = small ? KMF_TILE : BLAS_ROWS;
    size_t end = kmf_round_up(M, unit);
    for (size_t i = 0; i < end; i += step)
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (blasint)kmf_min(end - i, step),
                    (blasint)cols, (blasint)K, 1.0f, a + i * ld_a, (blasint)ld_a, b,
                    KMF_PANEL_COLS, 0.0f, c + i * KMF_PANEL_COLS, KMF_PANEL_COLS);
}

/*
 * Whether OpenBLAS gives equal rows equal bits, and a row the same bits when the other rows change
 * and are fewer or more. The shapes are odd and even, shallow, and deeper than the depth at which
 * any of its kernels breaks a sum; of large products it sees any multiple of BLAS_UNIT rows. 10
 * to 50 ms.
 */
static bool rows_are_alike(void)
{
    static const struct {
        size_t Dout, Din;
    } shapes[] = {{32, 48}, {33, 17}, {144, 48}, {67, 801}, {96, 256}, {192, 768}, {256, 512}};
    enum { MAX_DIN = 801, MAX_DOUT = KMF_PANEL_COLS };
    enum { MANY = 2 * KMF_TILE + BLAS_UNIT, ROOM = 3 * KMF_TILE };
    static const size_t counts[] = {BLAS_UNIT, 2 * BLAS_UNIT, 3 * BLAS_UNIT, MANY};
    static float x[ROOM * MAX_DIN], w_t[MAX_DIN * MAX_DOUT], y[ROOM * MAX_DOUT];
    float first[MAX_DOUT];
    uint32_t state = 1;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        size_t Dout = shapes[s].Dout;
        size_t Din = shapes[s].Din;
        for (size_t i = 0; i < MAX_DOUT * Din; i++) {
            state = state * 1664525u + 1013904223u;
            w_t[i] = (float)(state >> 8) * 0x1p-23f - 1.0f;
        }
        for (size_t i = 0; i < Din; i++) {
            state = state * 1664525u + 1013904223u;
            x[i] = (float)(state >> 8) * 0x1p-23f - 1.0f;
        }
        for (size_t n = 1; n < MANY; n++)
            memcpy(x + n * Din, x, Din * sizeof *x);
        blas_panel(y, x, Din, w_t, KMF_TILE, Dout, Din);
        memcpy(first, y, Dout * sizeof *y);
        for (size_t n = 1; n < KMF_TILE; n++)
            if (memcmp(y + n * MAX_DOUT, first, Dout * sizeof *y) != 0)
                return false;
        for (size_t n = 0; n < MANY; n++)
            for (size_t i = 0; n % 3 != 1 && i < Din; i++)
                x[n * Din + i] = (float)(n % 5) - x[i] * (float)n;
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            blas_panel(y, x, Din, w_t, counts[i], Dout, Din);
            for (size_t n = 1; n < counts[i]; n += 3)
                if (memcmp(y + n * MAX_DOUT, first, Dout * sizeof *y) != 0)
                    return false;
        }
    }
    return true;
}

enum { OPENBLAS, PLAIN };
const char *const kmf_engine_names[] = {[OPENBLAS] = "openblas", [PLAIN] = "plain", NULL};

static void choose_engine(void)
{
    const char *wish = getenv("KMERFORMER_GEMM");
    bool forced = wish && strcmp(wish, kmf_engine_names[OPENBLAS]) == 0;
    bool blas = kmf_cpu_level() == KMF_CPU_BASELINE;
    if (forced)
        blas = true;
    else if (wish && strcmp(wish, kmf_engine_names[PLAIN]) == 0)
        blas = false;
    if (blas)
        openblas_set_num_threads(1); /* of the whole process, so only where it is used */
    if (blas && !forced)
        blas = rows_are_alike();
    engine.f32 = blas ? &blas_kernel : kmf_kernel_of(kmf_operand_of(KMF_PRECISION_F32));
    if (blas)
        snprintf(engine.name, sizeof engine.name, "openblas %s", openblas_get_corename());
    else
        snprintf(engine.name, sizeof engine.name, PLAIN_LEVEL, kmf_cpu_name(kmf_cpu_level()));
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

/* Is it the name of the plain kernels of a level from AVX2 to `last`? */
static bool is_plain(const char *name, kmf_cpu last)
{
    char plain[sizeof engine.name];
    for (kmf_cpu level = KMF_CPU_AVX2; level <= last; level++) {
        snprintf(plain, sizeof plain, PLAIN_LEVEL, kmf_cpu_name(level));
        if (strcmp(name, plain) == 0)
            return true;
    }
    return false;
}

bool kmf_gemm_same(const char *one, const char *other, kmf_precision precision)
{
    static const kmf_cpu alike_to[] = {[KMF_PRECISION_F32] = KMF_CPU_BF16,
                                       [KMF_PRECISION_BF16] = KMF_CPU_BASELINE,
                                       [KMF_PRECISION_INT8] = KMF_CPU_AVXVNNI,
                                       [KMF_PRECISION_AUTO] = KMF_CPU_BASELINE};
    kmf_cpu last = alike_to[precision];
    return strcmp(one, other) == 0 || (is_plain(one, last) && is_plain(other, last));
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

kmf_precision kmf_precision_here(kmf_precision wish)
{
    if (wish == KMF_PRECISION_AUTO)
        wish = kmf_cpu_bf16_is_faster() ? KMF_PRECISION_BF16 : KMF_PRECISION_F32;
    bool known = wish == KMF_PRECISION_BF16 || wish == KMF_PRECISION_INT8;
    return known && kmf_kernel_of(kmf_operand_of(wish)) ? wish : KMF_PRECISION_F32;
}

/* The kernel of weights. */
static const kmf_kernel *kernel_of(kmf_operand operand)
{
    kmf_gemm_init();
    return operand == KMF_OPERAND_F32 || operand == KMF_OPERAND_THIRDS ? engine.f32
                                                                       : kmf_kernel_of(operand);
}

/* ---------------------------------------------------------------- packing ---------------- */

size_t kmf_gemm_packed_bytes(size_t Dout, size_t Din, kmf_operand operand)
{
    return kmf_panels_bytes(kernel_of(operand), Dout, Din);
}

kmf_weight kmf_gemm_pack(void *room, const float *const *parts, size_t n_parts, size_t ld,
                         size_t Dout, size_t Din, kmf_operand operand)
{
    kmf_panels_pack(room, kernel_of(operand), parts, n_parts, ld, Dout, Din);
    return (kmf_weight){Dout, Din, operand, room};
}

kmf_weight kmf_gemm_pack_back(void *room, const float *const *parts, size_t n_parts, size_t ld,
                              size_t Dout, size_t Din, kmf_operand operand)
{
    kmf_panels_pack_back(room, kernel_of(operand), parts, n_parts, ld, Dout, Din);
    return (kmf_weight){Din, Dout, operand, room};
}

/* ---------------------------------------------------------------- epilogues ---------------- */

/* y [N, n] from sums [N, n], ld. epilogue.bias begins at the first of the columns. */
static void epilogue_rows(float *y, size_t ld_y, const void *sums, size_t ld, kmf_quantised q,
                          kmf_epilogue epilogue, bool rough, size_t N, size_t n);

static KMF_INLINE void epilogue_rows_body(bool fused, float *y, size_t ld_y, const void *sums,
                                          size_t ld, kmf_quantised q, kmf_epilogue epilogue,
                                          bool rough, size_t N, size_t n)
{
    for (size_t i = 0; i < N; i++) {
        const float *row = (const float *)sums + i * ld;
        if (q.scale)
            kmf_epilogue_row(fused, true, y + i * ld_y, kmf_sums_of(true, row, &q, i, 0),
                             q.more, epilogue, rough, n);
        else
            kmf_epilogue_row(fused, false, y + i * ld_y, kmf_sums_of(false, row, &q, i, 0),
                             false, epilogue, rough, n);
    }
}

KMF_CLONES_FUSED(epilogue_rows,
                 (float *y, size_t ld_y, const void *sums, size_t ld, kmf_quantised q,
                  kmf_epilogue epilogue, bool rough, size_t N, size_t n),
                 (y, ld_y, sums, ld, q, epilogue, rough, N, n))

/* ---------------------------------------------------------------- products --------------- */

size_t kmf_gemm_rows(kmf_operand operand)
{
    return kernel_of(operand)->product_rows;
}

/*
 * Terms of its rows that a product works on at a time: in tile registers those that are multiplied
 * in one go, in about equal pieces, each with all columns of the weight. A row of int8 is whole,
 * for its scale is of all its terms. (The first product of a pair takes whole rows, too.)
 */
static size_t piece_terms(const kmf_kernel *kernel, size_t Din)
{
    size_t unit = kernel->terms * kernel->unit;
    size_t pieces = kmf_div_up(kmf_kernel_words(kernel, Din), kernel->depth);
    if (!kernel->tiled || kernel->terms != 2 || pieces < 2)
        return Din;
    return kmf_round_up(kmf_div_up(Din, pieces), unit);
}

/* Bytes for the words of so many rows, or with OpenBLAS for sums. */
static size_t scratch_bytes(const kmf_kernel *kernel, size_t rows, size_t K)
{
    size_t tiles = kmf_div_up(rows, KMF_TILE);
    size_t most = kernel->product_rows / KMF_TILE;
    rows = kmf_min(tiles, most) * KMF_TILE;
    if (kernel == &blas_kernel)
        return rows * KMF_PANEL_COLS * sizeof(float); /* sums */
    if (kernel->terms == 1)
        return 0;
    return (rows * kmf_words_ld(kernel, K) + 2 * kernel->product_rows) *
           sizeof(float); /* and scale, low */
}

size_t kmf_gemm_scratch(size_t rows, size_t Din, kmf_operand operand)
{
    const kmf_kernel *kernel = kernel_of(operand);
    bool pieces = piece_terms(kernel, Din) < Din; /* a smaller Din may have longer ones */
    return scratch_bytes(kernel, rows, pieces ? kmf_kernel_terms(kernel, kernel->depth) : Din);
}

/* The left operand: words, and what they mean. */
typedef struct left {
    kmf_rows rows;
    float *scale, *low; /* of integers */
} left;

/* Where the words of a tile's rows lie in scratch. */
static left rows_in(void *scratch, const kmf_kernel *kernel, size_t K)
{
    size_t ld = kmf_words_ld(kernel, K);
    float *scale = scratch;
    float *low = scale + kernel->product_rows;
    return (left){kmf_kernel_rows(kernel, low + kernel->product_rows, ld), scale, low};
}

static left convert(void *scratch, const float *x, size_t ld_x, const kmf_kernel *kernel,
                    size_t N, size_t K)
{
    if (kernel->terms == 1)
        return (left){{(uint32_t *)(uintptr_t)x, ld_x, false, 1, 1}, NULL, NULL};
    left a = rows_in(scratch, kernel, K);
    if (kernel->operand == KMF_OPERAND_INT8)
        kmf_words_int8(a.rows, a.scale, a.low, x, ld_x, N, K);
    else if (kernel->operand == KMF_OPERAND_INT16)
        kmf_words_int16(a.rows, a.scale, a.low, x, ld_x, N, K);
    else
        kmf_words_bf16(a.rows, x, ld_x, N, K);
    return a;
}

/* Where results go: y, or words of bf16. */
typedef struct right {
    float *y;
    size_t ld;
    kmf_rows rows; /* words NULL: to y */
} right;

/* Sums [N, cols] of rows from n and columns from beg on, ended, to bf16 words. */
static void words_of_rows(const right *out, size_t n, size_t beg, const float *sums, size_t ld,
                          kmf_quantised q, kmf_epilogue epilogue, bool rough, size_t N,
                          size_t cols)
{
    enum { STEP = 32 }; /* whole tiles, and the nearest cache holds them */
    _Alignas(64) float ended[STEP * KMF_KERNEL_COLS];
    for (size_t i = 0; i < N; i += STEP) {
        size_t rows = kmf_min(N - i, STEP);
        kmf_rows to = out->rows;
        to.words += kmf_rows_at(&to, n + i, beg / 2 * to.parts);
        epilogue_rows(ended, KMF_KERNEL_COLS, sums + i * ld, ld, q, epilogue, rough, rows,
                      cols);
        kmf_words_bf16(to, ended, KMF_KERNEL_COLS, rows, cols);
        if (q.scale) {
            q.row_scale += rows;
            q.row_low += rows;
        }
    }
}

/* Columns beg .. end - 1 of a product; of its sums, words k .. k + K - 1. */
typedef struct span {
    size_t beg, end;
    size_t k, K;
} span;

/*
 * The words of a panel from k on that are multiplied in one go; of all panels that are, where they
 * stand side by side.
 */
static kmf_ahead piece_of(const kmf_weight *w, const kmf_kernel *kernel, size_t beg, size_t k,
                          size_t end)
{
    size_t words = kmf_kernel_words(kernel, w->Din);
    size_t depth = kmf_min(end - k, kernel->depth);
    return (kmf_ahead){(const float *)w->packed + beg * words + k * kernel->cols,
                       depth * (depth == words ? kernel->width : kernel->cols) * sizeof(float)};
}

/* The share of ahead that is fetched beside rows n .. n + rows - 1 of N. */
static kmf_ahead share_of(kmf_ahead ahead, size_t n, size_t rows, size_t N)
{
    if (ahead.bytes == 0)
        return ahead;
    size_t beg = ahead.bytes / N * n;
    return (kmf_ahead){(const char *)ahead.from + beg, ahead.bytes / N * rows};
}

/* c [rows, cols] = y */
static void copy_rows(float *c, size_t ld_c, const float *y, size_t ld_y, size_t rows,
                      size_t cols)
{
    for (size_t n = 0; n < rows; n++)
        memcpy(c + n * ld_c, y + n * ld_y, cols * sizeof *c);
}

/* y [N, Dout] from x [N, Din] by OpenBLAS. sums: [BLAS_ROWS, KMF_PANEL_COLS] */
static void blas_product(float *y, size_t ld_y, const float *x, size_t ld_x,
                         const kmf_weight *w, size_t N, kmf_epilogue epilogue, float *sums)
{
    const float *panel = w->packed;
    const float *bias = epilogue.bias;
    for (size_t beg = 0; beg < w->Dout; beg += KMF_PANEL_COLS) {
        size_t cols = kmf_min(w->Dout - beg, KMF_PANEL_COLS);
        epilogue.bias = bias ? bias + beg : NULL;
        blas_panel(sums, x, ld_x, panel + beg * w->Din, N, cols, w->Din);
        epilogue_rows(y + beg, ld_y, sums, KMF_PANEL_COLS, (kmf_quantised){0}, epilogue, false,
                      N, cols);
    }
}

/* As tile_product, by a kernel that ends its products by itself. */
static void fused_product(const right *out, const left *x, const kmf_weight *w,
                          const kmf_kernel *kernel, size_t N, kmf_epilogue epilogue, span part,
                          kmf_quantised q, kmf_ahead then)
{
    if (epilogue.bias)
        epilogue.bias += part.beg;
    kernel->fused(&(kmf_fused){.a = x->rows.words,
                               .ld_a = x->rows.ld,
                               .b = piece_of(w, kernel, part.beg, part.k, part.k + part.K).from,
                               .ld_b = kernel->cols * kmf_kernel_words(kernel, w->Din),
                               .M = N,
                               .cols = part.end - part.beg,
                               .K = part.K,
                               .q = q,
                               .epilogue = epilogue,
                               .y = out->y,
                               .ld_y = out->ld,
                               .to = out->rows,
                               .after = then});
}

/*
 * A part of the product for no more rows than the kernel's product_rows, column `beg` being the
 * first of out's; added to what is there if its sums have begun. While a sum is taken in one go, a
 * step of rows is finished at a time, which leaves the sums in the nearest cache; else KMF_TILE
 * rows, for which the piece of a panel in use stays in the second-level one. The piece after it is
 * fetched meanwhile; after the last one `then`. A kernel that can ends the product by itself, where
 * its sums are taken in one go and its columns are whole blocks.
 */
static void tile_product(const right *out, const left *x, const kmf_weight *w,
                         const kmf_kernel *kernel, size_t N, kmf_epilogue epilogue, span part,
                         kmf_ahead then)
{
    _Alignas(64) float sums[KMF_TILE * KMF_KERNEL_COLS];
    size_t step = part.K <= kernel->depth ? kernel->rows : KMF_TILE;
    size_t last = part.k + part.K;
    size_t words = kmf_kernel_words(kernel, w->Din);
    const float *scales =
        kmf_has_scales(kernel) ? kmf_panels_scales(kernel, w->packed, w->Dout, w->Din) : NULL;
    size_t group = part.K == words ? 0 : 1 + kmf_kernel_terms(kernel, part.k) / KMF_INT8_GROUP;
    const float *bias = epilogue.bias;
    assert(bias || !epilogue.activate);
    assert(part.beg % kernel->cols == 0 && (part.k == 0 || out->y));
    bool rough = kernel->operand != KMF_OPERAND_F32 && kernel->operand != KMF_OPERAND_THIRDS;
    bool whole = out->y && !scales && !bias;
    if (kernel->fused && !whole && part.K <= kernel->depth && (scales || part.k == 0) &&
        (part.end - part.beg) % KMF_FUSED_COLS == 0) {
        kmf_quantised q = {0};
        if (scales)
            q = (kmf_quantised){x->scale, x->low, scales + part.beg,
                                scales + (1 + group) * w->Dout + part.beg, part.k > 0};
        fused_product(out, x, w, kernel, N, epilogue, part, q, then);
        return;
    }
    for (size_t beg = part.beg; beg < part.end; beg += kernel->width) {
        size_t cols = kmf_min(part.end - beg, kernel->width);
        size_t at = beg - part.beg;
        bool in_place = whole && cols % kernel->cols == 0;
        kmf_ahead after =
            beg + cols < part.end ? piece_of(w, kernel, beg + cols, part.k, last) : then;
        epilogue.bias = bias ? bias + beg : NULL;
        for (size_t n = 0; n < N; n += step) {
            size_t rows = kmf_min(N - n, step);
            float *c = in_place ? out->y + n * out->ld + at : sums;
            size_t ld_c = in_place ? out->ld : kernel->width;
            kmf_quantised q = {0};
            if (part.k > 0 && !in_place && !scales)
                copy_rows(c, ld_c, out->y + n * out->ld + at, out->ld, rows, cols);
            for (size_t k = part.k; k < last; k += kernel->depth) {
                kmf_ahead piece = piece_of(w, kernel, beg, k, last);
                size_t depth = kmf_min(last - k, kernel->depth);
                kmf_ahead next =
                    k + depth < last ? piece_of(w, kernel, beg, k + depth, last) : after;
                kernel->panel(c, ld_c, x->rows.words + kmf_rows_at(&x->rows, n, k - part.k),
                              x->rows.ld, piece.from, kernel->cols * words, rows, cols, depth,
                              scales ? k > part.k : k > 0, share_of(next, n, rows, N));
            }
            if (in_place)
                continue;
            if (scales)
                q = (kmf_quantised){x->scale + n, x->low + n, scales + beg,
                                    scales + (1 + group) * w->Dout + beg, part.k > 0};
            if (out->rows.words) {
                words_of_rows(out, n, at, sums, kernel->width, q, epilogue, rough, rows, cols);
            } else {
                assert(out->y);
                epilogue_rows(out->y + n * out->ld + at, out->ld, sums, kernel->width, q,
                              epilogue, rough, rows, cols);
            }
        }
    }
}

/* The same by either engine; OpenBLAS takes whole products. */
static void part_product(const right *out, const left *x, const kmf_weight *w,
                         const kmf_kernel *kernel, size_t N, kmf_epilogue epilogue, span part,
                         kmf_ahead then, void *scratch)
{
    if (kernel == &blas_kernel) {
        assert(out->y && part.beg == 0 && part.end == w->Dout && part.K == w->Din);
        blas_product(out->y, out->ld, (const float *)(const void *)x->rows.words, x->rows.ld, w,
                     N, epilogue, scratch);
    } else {
        tile_product(out, x, w, kernel, N, epilogue, part, then);
    }
}

void kmf_gemm_weight(float *y, size_t ld_y, const float *x, size_t ld_x, const kmf_weight *w,
                     size_t N, const kmf_epilogue *epilogue, void *scratch)
{
    const kmf_kernel *kernel = kernel_of(w->operand);
    const kmf_epilogue end = epilogue ? *epilogue : (kmf_epilogue){0};
    size_t step = kmf_gemm_rows(w->operand);
    size_t piece = piece_terms(kernel, w->Din);
    assert(ld_y >= w->Dout && ld_x >= w->Din);
    kmf_kernels_open(kernel->tiled);
    for (size_t n = 0; n < N; n += step) {
        size_t rows = kmf_min(N - n, step);
        right out = {.y = y + n * ld_y, .ld = ld_y};
        for (size_t k = 0; k < w->Din; k += piece) {
            size_t K = kmf_min(w->Din - k, piece);
            span part = {0, w->Dout, kmf_kernel_words(kernel, k), kmf_kernel_words(kernel, K)};
            left a = convert(scratch, x + n * ld_x + k, ld_x, kernel, rows, K);
            part_product(&out, &a, w, kernel, rows, k + K == w->Din ? end : (kmf_epilogue){0},
                         part, (kmf_ahead){0}, scratch);
        }
    }
    kmf_kernels_close(kernel->tiled);
}

/*
 * Columns of the middle [N, F] of two products that are at work at a time: as many as the second
 * one takes into its sums in one go, in int8 a group, and whole panels of the first; gated ones
 * where the second half of the first one's columns begins with a panel.
 */
static size_t columns_between(const kmf_kernel *first, const kmf_kernel *second, size_t F,
                              bool gated)
{
    size_t terms = second->terms * second->unit;
    size_t unit = first->width > terms ? first->width : terms;
    size_t most = kmf_kernel_terms(second, second->depth);
    if (kmf_has_scales(second)) { /* groups are the same whatever the panels */
        unit = KMF_KERNEL_COLS;
        most = KMF_INT8_GROUP;
    }
    if (most >= F || (gated && F % unit != 0))
        return F;
    if (kmf_has_scales(second))
        return most;
    most = most / unit * unit;
    size_t blocks = kmf_div_up(F, most);
    size_t n = kmf_div_up(F, blocks); /* they are about equal */
    return kmf_round_up(n, unit);
}

static size_t pair_rows(kmf_operand first, kmf_operand second)
{
    size_t rows = kmf_gemm_rows(first);
    size_t most = kmf_gemm_rows(second);
    return kmf_min(rows, most);
}

/* Whether what lies between is written as the second product's words at once. */
static bool takes_words(const kmf_kernel *second, bool gated)
{
    return second->terms == 2 && !kmf_has_scales(second) && !gated;
}

size_t kmf_gemm_pair_scratch(size_t Din, size_t F, bool gated, kmf_operand first,
                             kmf_operand second)
{
    const kmf_kernel *kernel = kernel_of(second);
    size_t n = columns_between(kernel_of(first), kernel, F, gated);
    size_t rows = pair_rows(first, second);
    size_t words = scratch_bytes(kernel_of(first), rows, Din) + scratch_bytes(kernel, rows, n);
    if (takes_words(kernel, gated))
        return words;
    return rows * (gated ? 2 * n : n) * sizeof(float) + words;
}

/* What two products in a row work with. */
typedef struct pair {
    const kmf_weight *w1, *w2;
    const kmf_kernel *first, *second;
    size_t F;
    kmf_epilogue between;
    float *hidden; /* [N, columns], gated [N, 2 columns]; not where words are written at once */
    void *words;   /* of these columns, as the second product reads them; its scratch */
    void *scratch; /* the first product's */
} pair;

/* Columns f .. f + n - 1 of what lies between, for N rows. */
static left middle(const pair *p, const left *a, size_t N, size_t f, size_t n, kmf_ahead then)
{
    size_t end = n == p->F ? p->w1->Dout : f + n;
    span gate = {f, end, 0, kmf_kernel_words(p->first, p->w1->Din)};
    if (!p->hidden) {
        left b = rows_in(p->words, p->second, n);
        tile_product(&(right){.rows = b.rows}, a, p->w1, p->first, N, p->between, gate, then);
        return b;
    }
    bool gated = p->w1->Dout > p->F;
    size_t ld = gated ? 2 * n : n;
    kmf_epilogue epilogue = p->between;
    epilogue.activate = !gated;
    bool halves = gated && n < p->F;
    part_product(&(right){.y = p->hidden, .ld = ld}, a, p->w1, p->first, N, epilogue, gate,
                 halves ? piece_of(p->w1, p->first, f + p->F, 0, gate.K) : then, p->scratch);
    if (halves) {
        span up = {f + p->F, end + p->F, 0, gate.K};
        tile_product(&(right){.y = p->hidden + n, .ld = ld}, a, p->w1, p->first, N, epilogue,
                     up, then);
    }
    if (gated)
        kmf_gate_forward(p->hidden, ld, p->hidden, ld, p->between.activation, N, n);
    return convert(p->words, p->hidden, ld, p->second, N, n);
}

void kmf_gemm_pair(float *y, size_t ld_y, const float *x, size_t ld_x, const kmf_weight *w1,
                   const kmf_weight *w2, size_t N, const kmf_epilogue *between, bool gated,
                   void *scratch)
{
    size_t most = pair_rows(w1->operand, w2->operand);
    assert(w1->Dout == (gated ? 2 * w2->Din : w2->Din) && N <= most);
    pair p = {.w1 = w1,
              .w2 = w2,
              .first = kernel_of(w1->operand),
              .second = kernel_of(w2->operand),
              .F = w2->Din,
              .between = *between,
              .scratch = scratch};
    size_t columns = columns_between(p.first, p.second, p.F, gated);
    char *room = (char *)scratch + scratch_bytes(p.first, most, w1->Din);
    left a = convert(scratch, x, ld_x, p.first, N, w1->Din);
    p.words = room;
    if (!takes_words(p.second, gated)) {
        p.hidden = (float *)(void *)room;
        p.words = p.hidden + most * columns * (gated ? 2u : 1u);
    }
    bool tiled = p.first->tiled || p.second->tiled;
    kmf_kernels_open(tiled);
    for (size_t f = 0; f < p.F; f += columns) {
        size_t n = kmf_min(p.F - f, columns);
        span sums = {0, w2->Dout, kmf_kernel_words(p.second, f), kmf_kernel_words(p.second, n)};
        left b = middle(&p, &a, N, f, n, piece_of(w2, p.second, 0, sums.k, sums.k + sums.K));
        size_t words = kmf_kernel_words(p.first, w1->Din);
        part_product(&(right){.y = y, .ld = ld_y}, &b, w2, p.second, N, (kmf_epilogue){0}, sums,
                     f + n < p.F ? piece_of(w1, p.first, f + n, 0, words) : (kmf_ahead){0},
                     p.words);
    }
    kmf_kernels_close(tiled);
}
