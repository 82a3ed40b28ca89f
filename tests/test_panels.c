/* SPDX-License-Identifier: MIT */
/* Where words stand: turned about, in rows and in tiles. */
#include "levels.h"
#include "nn/panels.h"
#include "nn/turn.h"
#include "run.h"

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
        kmf_turn_words(to, rows + GAP, from, cols + GAP, rows, cols);
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
        kmf_rows plain = {rows, LD, false};
        kmf_rows tiled = {tiles, LD, true};
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

static const levels_part parts[] = {{"turned", words_are_turned},
                                    {"tiles", tiles_hold_the_rows}};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

static const char *const settings[] = {"",
                                       "KMERFORMER_CPU=bf16",
                                       "KMERFORMER_CPU=vnni",
                                       "KMERFORMER_CPU=avx512",
                                       "KMERFORMER_CPU=avx2",
                                       "KMERFORMER_CPU=baseline"};
enum { N_SETTINGS = sizeof settings / sizeof settings[0] };

START_TEST(words_are_turned_at_every_level)
{
    levels_run("turned", settings[_i], NULL);
}
END_TEST

START_TEST(words_in_tiles_are_those_of_rows)
{
    levels_run("tiles", settings[_i], NULL);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3)
        return levels_child(parts, N_PARTS, argv);
    Suite *suite = suite_create("panels");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, words_are_turned_at_every_level, 0, N_SETTINGS);
    tcase_add_loop_test(tcase, words_in_tiles_are_those_of_rows, 0, N_SETTINGS);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
