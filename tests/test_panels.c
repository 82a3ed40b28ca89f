/* SPDX-License-Identifier: MIT */
/* Where words stand: turned about, in rows and in tiles. */
#include "levels.h"
#include "nn/panels.h"
#include "nn/quantise.h"
#include "nn/transpose.h"
#include "run.h"

#include <math.h>

static uint64_t seed = 88172645463325252u;

/* Each word says where it comes from; what lies between the columns is not written. */
static const char *words_are_turned(void)
{
    enum { MOST = 70, GAP = 3, EMPTY = -1 };
    static const size_t sizes[][2] = {{1, 1}, {16, 16}, {15, 33}, {64, 1}, {17, 70}, {70, 20}};
    static int32_t from[MOST * (MOST + GAP)], to[MOST * (MOST + GAP)];
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t rows = sizes[s][0];
        size_t cols = sizes[s][1];
        for (size_t i = 0; i < rows * (cols + GAP); i++)
            from[i] = (int32_t)i;
        memset(to, 0xff, sizeof to);
        kmf_transpose_words(to, rows + GAP, from, cols + GAP, rows, cols);
        for (size_t j = 0; j < cols; j++)
            for (size_t i = 0; i < rows + GAP; i++) {
                int32_t want = i < rows ? (int32_t)(i * (cols + GAP) + j) : EMPTY;
                if (to[j * (rows + GAP) + i] != want)
                    return "words are turned wrongly";
            }
    }
    return NULL;
}

/*
 * The same words in both orders: that of rows, and of tiles, whose place is counted here by the
 * picture: 16 words of 16 rows, then the next 16 words of these rows.
 */
static const char *tiles_hold_the_rows(void)
{
    enum { N = 37, K = 75, LD = 48, TILES = (N + 15) / 16 * 16 };
    static float x[N * K];
    static uint32_t rows[TILES * LD], tiles[TILES * LD];
    float scale[2][N], low[2][N];
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        x[i] = levels_random(&seed);
    for (int bytes = 0; bytes < 2; bytes++) {
        size_t terms = bytes ? 4 : 2;
        kmf_rows plain = {rows, LD, false, terms, 1};
        kmf_rows tiled = {tiles, LD, true, terms, 1};
        size_t words = bytes ? 32 : 48; /* of 75 terms, up to whole 16 */
        memset(rows, 0xff, sizeof rows);
        memset(tiles, 0xee, sizeof tiles);
        if (bytes && kmf_precision_here(KMF_PRECISION_INT8) == KMF_PRECISION_INT8) {
            kmf_words_int8(plain, scale[0], low[0], x, K, N, K);
            kmf_words_int8(tiled, scale[1], low[1], x, K, N, K);
        } else if (!bytes && kmf_precision_here(KMF_PRECISION_BF16) == KMF_PRECISION_BF16) {
            kmf_words_bf16(plain, x, K, N, K);
            kmf_words_bf16(tiled, x, K, N, K);
        } else {
            continue;
        }
        for (size_t n = 0; n < N; n++)
            for (size_t k = 0; k < words; k++) {
                size_t tile = n / 16 * (LD / 16) + k / 16;
                if (tiles[tile * 256 + n % 16 * 16 + k % 16] != rows[n * LD + k])
                    return "a tile does not hold its rows";
                if (k >= (bytes ? 19 : 38) && rows[n * LD + k] != 0)
                    return "behind a row there are no zeros";
            }
        if (bytes && (memcmp(scale[0], scale[1], sizeof scale[0]) != 0 ||
                      memcmp(low[0], low[1], sizeof low[0]) != 0))
            return "scales differ";
    }
    return NULL;
}

/* By AVX2 alone rows are halves: the bytes that they would be, and zeros up to 16 words. */
static const char *halves_hold_the_bytes(void)
{
    enum { N = 5, MOST = 97, LD = 80 };
    static float x[N * MOST];
    static uint32_t rows[2][N * LD];
    float scale[2][N], low[2][N];
    const kmf_kernel *kernel = kmf_kernel_of(KMF_OPERAND_INT8);
    if (!kernel || kernel->terms != 2)
        return NULL;
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        x[i] = levels_random(&seed);
    for (size_t K = 1; K <= MOST; K++) {
        size_t end = kmf_words_ld(kernel, K);
        memset(rows, 0xff, sizeof rows);
        for (int halves = 0; halves < 2; halves++)
            kmf_words_int8((kmf_rows){rows[halves], LD, false, halves ? 2 : 4, 1},
                           scale[halves], low[halves], x, MOST, N, K);
        for (size_t n = 0; n < N; n++) {
            const uint8_t *bytes = (const uint8_t *)(rows[0] + n * LD);
            for (size_t k = 0; k < 2 * end; k++) {
                uint32_t half = rows[1][n * LD + k / 2] >> k % 2 * 16 & 0xffffu;
                if (half != (k < K ? bytes[k] : 0))
                    return "a half is not its byte";
            }
            if (rows[1][n * LD + end] != 0xffffffffu)
                return "behind a row of halves something is written";
        }
        if (memcmp(scale[0], scale[1], sizeof scale[0]) != 0 ||
            memcmp(low[0], low[1], sizeof low[0]) != 0)
            return "scales differ";
    }
    return NULL;
}

/* Half k % 2 of word k / 2 of a column, in panels of so many. */
static int half_at(const uint32_t *panels, const kmf_kernel *kernel, size_t words, size_t col,
                   size_t k)
{
    size_t at =
        col / kernel->cols * kernel->cols * words + k / 2 * kernel->cols + col % kernel->cols;
    return (int16_t)(panels[at] >> k % 2 * 16 & 0xffffu);
}

/* By AVX2 alone so are weights, either way round, and zeros behind them. */
static const char *weights_are_halves(void)
{
    enum { DOUT = 21, MOST = 97, ROOM = (MOST + 64) * (MOST + 64) };
    static float w[DOUT * MOST], turned[MOST * DOUT];
    static _Alignas(64) uint32_t panels[2][ROOM];
    const kmf_kernel *kernel = kmf_kernel_of(KMF_OPERAND_INT8);
    if (!kernel || kernel->terms != 2)
        return NULL;
    for (size_t K = 1; K <= MOST; K++) {
        for (size_t i = 0; i < DOUT * K; i++) {
            w[i] = levels_random(&seed);
            turned[i % K * DOUT + i / K] = w[i];
        }
        size_t words = kmf_kernel_words(kernel, K);
        size_t cols = (DOUT + kernel->cols - 1) / kernel->cols * kernel->cols;
        if (kmf_panels_bytes(kernel, DOUT, K) > sizeof panels[0])
            return "the test has too little room";
        memset(panels, 0xee, sizeof panels);
        kmf_panels_pack(panels[0], kernel, (const float *[]){w}, 1, K, DOUT, K);
        kmf_panels_pack_back(panels[1], kernel, (const float *[]){turned}, 1, DOUT, K, DOUT);
        for (size_t o = 0; o < cols; o++) {
            int8_t q[MOST] = {0};
            float sum = 0;
            if (o < DOUT)
                kmf_int8_round(q, &sum, w + o * K, kmf_int8_scale(w + o * K, K), K);
            for (size_t k = 0; k < 2 * words; k++)
                if (half_at(panels[0], kernel, words, o, k) != (k < K ? q[k] : 0) ||
                    half_at(panels[1], kernel, words, o, k) != (k < K ? q[k] : 0))
                    return "a half of a weight is not its byte";
            for (int i = 0; i < 2 && o < DOUT; i++)
                if (kmf_panels_scales(kernel, panels[i], DOUT, K)[o] !=
                    kmf_int8_scale(w + o * K, K))
                    return "a weight has another scale";
            if (o < DOUT && kmf_panels_scales(kernel, panels[0], DOUT, K)[DOUT + o] != sum)
                return "a sum of halves is wrong";
        }
    }
    return NULL;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Part p of term k of row n, counted by the picture: units of 16 words, part after part. */
static float part_at(const uint32_t *tiles, size_t ld, size_t n_parts, size_t n, size_t k,
                     size_t p)
{
    size_t tile = n / 16 * (ld / 16) + k / 32 * n_parts + p;
    uint32_t word = tiles[tile * 256 + n % 16 * 16 + k % 32 / 2];
    return float_of(k % 2 ? word & 0xffff0000u : word << 16);
}

/* Three parts are the number from 2^-103 on, two are it to 16 bits. */
static const char *parts_add_up(void)
{
    enum { N = 20, K = 75, MOST = 3, LD = 3 * 16 * MOST };
    static const float odd[] = {1.0f,
                                -1.0f,
                                0x1.008p0f,
                                0x1.018p0f,
                                0x1.fffffep0f,
                                0x1.000002p-103f,
                                0x1.000002p-110f,
                                0x1.fcp127f,
                                0.0f,
                                -0x1.010102p5f,
                                0x1.010101p0f};
    static float x[N * K];
    static uint32_t tiles[(N + 15) / 16 * 16 * LD];
    if (kmf_precision_here(KMF_PRECISION_BF16) != KMF_PRECISION_BF16)
        return NULL;
    for (size_t i = 0; i < (size_t)N * K; i++)
        x[i] = i < sizeof odd / sizeof odd[0]
                   ? odd[i]
                   : ldexpf(levels_random(&seed), (int)(i % 200) - 100);
    for (size_t n_parts = 2; n_parts <= MOST; n_parts++) {
        size_t ld = 3 * 16 * n_parts;
        memset(tiles, 0xee, sizeof tiles);
        kmf_words_bf16((kmf_rows){tiles, ld, true, 2, n_parts}, x, K, N, K);
        for (size_t n = 0; n < N; n++)
            for (size_t k = 0; k < 96; k++) {
                double sum = 0;
                for (size_t p = 0; p < n_parts; p++)
                    sum += (double)part_at(tiles, ld, n_parts, n, k, p);
                double want = k < K ? (double)x[n * K + k] : 0;
                bool small = fabs(want) < 0x1p-103;
                double lost = n_parts == 3 ? (small ? 0x1p-126 : 0) : 0x1p-17 * fabs(want);
                if (!(fabs(sum - want) <= lost))
                    return "the parts of a number do not add up to it";
            }
    }
    return NULL;
}

static const levels_part parts[] = {{"turned", words_are_turned},
                                    {"tiles", tiles_hold_the_rows},
                                    {"halves", halves_hold_the_bytes},
                                    {"weights", weights_are_halves},
                                    {"parts", parts_add_up}};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

LEVELS_TEST(words_are_turned_at_every_level, "turned", levels_each[_i])
LEVELS_TEST(words_in_tiles_are_those_of_rows, "tiles halves weights", levels_each[_i])
LEVELS_TEST(parts_add_up_at_every_level, "parts", levels_each[_i])

int main(int argc, char **argv)
{
    if (argc > 2)
        return levels_child(parts, N_PARTS, argv);
    TCase *tcase = untimed_case();
    tcase_add_loop_test(tcase, words_are_turned_at_every_level, 0, N_EACH);
    tcase_add_loop_test(tcase, words_in_tiles_are_those_of_rows, 0, N_EACH);
    tcase_add_loop_test(tcase, parts_add_up_at_every_level, 0, N_EACH);
    return run_case("panels", tcase);
}
