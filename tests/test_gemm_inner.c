/* SPDX-License-Identifier: MIT */
/*
 * Small products and gradients of weights, each precision and processor level, against three loops
 * in double over the operands as they are rounded (products.h).
 */
#include "products.h"
#include "run.h"

#include <string.h>

/* x turned about: [K, M] of [M, K], ld_to and ld. */
static void turn(float *to, size_t ld_to, const float *x, size_t ld, size_t M, size_t K)
{
    for (size_t m = 0; m < M; m++)
        for (size_t k = 0; k < K; k++)
            to[k * ld_to + m] = x[m * ld + k];
}

/* The product c, of whose b the packed form is another way to give it, has the same bits by it. */
static const char *packed_has_the_bits(const float *c, const float *before, size_t ld_c,
                                       const float *a, size_t ld_a, const float *b, size_t ld_b,
                                       size_t M, size_t N, size_t K, int how)
{
    size_t n = kmf_gemm_inner_floats(N, K, how);
    float *packed = kmf_floats(n + 1, NULL);
    float *again = kmf_floats(M * ld_c, NULL);
    if (!packed || !again)
        return "no memory";
    memset(packed, 0xff, (n + 1) * sizeof *packed);
    memcpy(again, before, M * ld_c * sizeof *again);
    kmf_gemm_inner_pack(packed, b, ld_b, N, K, how);
    kmf_gemm_inner_packed(again, ld_c, a, ld_a, packed, M, N, K, how);
    bool same = memcmp(again, c, M * ld_c * sizeof *c) == 0;
    uint32_t behind;
    memcpy(&behind, packed + n, sizeof behind);
    kmf_free(packed);
    kmf_free(again);
    if (behind != UINT32_MAX || n % 16 != 0)
        return "something was written behind what is packed, or it is no multiple of 16";
    return same ? NULL : "with a packed factor a product has other bits";
}

/* Each way to store a and b, and with something in c already. */
static const char *inner_is_right(kmf_operand operand)
{
    bool bf16 = operand == KMF_OPERAND_BF16;
    static const size_t sizes[][3] = {{1, 1, 1},        {3, 50, 7},    {64, 148, 64},
                                      {20, 64, 148},    {13, 33, 300}, {70, 31, 513},
                                      {300, 40, 260},   {7, 3, 2},     {133, 65, 9},
                                      {197, 130, 1025}, {5, 7, 0},     {199, 300, 301}};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t M = sizes[s][0], N = sizes[s][1], K = sizes[s][2];
        size_t ld_a = K + 3, ld_t = M + 1, ld_b = N > K ? N + 5 : K + 5, ld_c = N + 2;
        float *a = random_floats(M * ld_a);
        float *t = random_floats(K * ld_t);
        float *b = random_floats((N > K ? N : K) * ld_b);
        float *c = random_floats(M * ld_c);
        float *before = random_floats(M * ld_c);
        if (!a || !t || !b || !c || !before)
            return "no memory";
        turn(t, ld_t, a, ld_a, M, K);
        for (int ways = 0; ways < (bf16 ? 8 : 16); ways++) {
            int how = ways % 8 + (ways < 8 ? 0 : KMF_GEMM_TILES);
            const float *left = how & KMF_GEMM_TA ? t : a;
            size_t ld_left = how & KMF_GEMM_TA ? ld_t : ld_a;
            int as = how | (bf16 ? KMF_GEMM_BF16 : 0);
            memcpy(c, before, M * ld_c * sizeof *c);
            kmf_gemm_inner(c, ld_c, left, ld_left, b, ld_b, M, N, K, as);
            const char *wrong =
                packed_has_the_bits(c, before, ld_c, left, ld_left, b, ld_b, M, N, K, as);
            if (wrong)
                return wrong;
            for (size_t m = 0; m < M; m++) {
                for (size_t i = N; i < ld_c; i++)
                    if (memcmp(&c[m * ld_c + i], &before[m * ld_c + i], sizeof *c) != 0)
                        return "something was written behind a row";
                for (size_t i = 0; how & KMF_GEMM_ADD && i < N; i++)
                    c[m * ld_c + i] -= before[m * ld_c + i];
            }
            bool turned = how & KMF_GEMM_TB;
            if (!is_rounded_product(c, ld_c, a, ld_a, b, turned ? ld_b : 1, turned ? 1 : ld_b,
                                    M, N, K, how & KMF_GEMM_ADD ? 4.0 : 0.0, operand))
                return "an inner product is not that of three loops";
        }
        kmf_free(a);
        kmf_free(t);
        kmf_free(b);
        kmf_free(c);
        kmf_free(before);
    }
    return NULL;
}

static bool factor_new(kmf_factor *f, size_t N, size_t cols, kmf_precision precision)
{
    size_t bytes = kmf_gemm_factor_bytes(N, cols, precision);
    *f = (kmf_factor){N, cols, precision, kmf_floats(bytes / sizeof(float), NULL)};
    if (f->room)
        memset(f->room, 0xff, bytes); /* NaN where nothing is packed */
    return f->room && bytes % 64 == 0;
}

/*
 * Gradients over no whole tiles of tokens, added to what is there; in one part and in many they
 * have the same bits.
 */
/* Rows beg .. end - 1 become tokens of both factors from 0 on, in pieces of 32 to 96. */
static void pack_pieces(const kmf_factor *left, const float *dy, size_t ld_dy,
                        const kmf_factor *right, const float *x, size_t ld_x, size_t beg,
                        size_t end)
{
    size_t rows = 0;
    for (size_t row = beg, i = 0; row < end; row += rows, i++) {
        rows = (1 + i % 3) * KMF_FACTOR_ROWS;
        rows = end - row < rows ? end - row : rows;
        kmf_gemm_pack_left(left, dy + row * ld_dy, ld_dy, row - beg, rows);
        kmf_gemm_pack_right(right, x + row * ld_x, ld_x, row - beg, rows);
    }
}

static const char *outer_is_right(kmf_operand operand)
{
    kmf_precision precision =
        operand == KMF_OPERAND_BF16 ? KMF_PRECISION_BF16 : KMF_PRECISION_F32;
    static const size_t sizes[][3] = {{1, 1, 1},      {7, 70, 5},      {64, 16, 96},
                                      {66, 64, 97},   {200, 3, 131},   {97, 390, 33},
                                      {16, 200, 290}, {250, 193, 700}, {40, 30, 2500}};
    enum { APART = 3, MORE = 2 * KMF_TILE };
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t Dout = sizes[s][0], Din = sizes[s][1], n = sizes[s][2];
        size_t N = (n + KMF_TILE - 1) / KMF_TILE * KMF_TILE + MORE, ld = Din + APART;
        size_t ld_dy = Dout + APART, ld_x = Din + 1;
        float *dy = random_floats(n * ld_dy), *turned = random_floats(Dout * n);
        float *x = random_floats(n * ld_x), *before = random_floats(Dout * ld);
        float *whole = random_floats(Dout * ld), *cut = random_floats(Dout * ld);
        kmf_factor left, right;
        if (!dy || !turned || !x || !before || !whole || !cut ||
            !factor_new(&left, N, Dout, precision) || !factor_new(&right, N, Din, precision))
            return "no memory";
        pack_pieces(&left, dy, ld_dy, &right, x, ld_x, 0, n);
        memcpy(whole, before, Dout * ld * sizeof *whole);
        memcpy(cut, before, Dout * ld * sizeof *cut);
        kmf_gemm_outer(whole, ld, &left, 0, Dout, &right, 0, Din, n);
        for (size_t o = 0; o < Dout; o += KMF_TILE)
            for (size_t k = 0; k < Din; k += KMF_FACTOR_COLS)
                kmf_gemm_outer(cut + o * ld + k, ld, &left, o,
                               Dout - o < KMF_TILE ? Dout - o : KMF_TILE, &right, k,
                               Din - k < KMF_FACTOR_COLS ? Din - k : KMF_FACTOR_COLS, n);
        if (memcmp(whole, cut, Dout * ld * sizeof *whole) != 0)
            return "a gradient depends on the parts that it is computed in";
        size_t stage = n / 2 / KMF_FACTOR_ROWS * KMF_FACTOR_ROWS;
        memcpy(cut, before, Dout * ld * sizeof *cut);
        if (stage > 0)
            kmf_gemm_outer(cut, ld, &left, 0, Dout, &right, 0, Din, stage);
        pack_pieces(&left, dy, ld_dy, &right, x, ld_x, stage, n);
        kmf_gemm_outer(cut, ld, &left, 0, Dout, &right, 0, Din, n - stage);
        if (memcmp(whole, cut, Dout * ld * sizeof *whole) != 0)
            return "a gradient depends on the stages that it is computed in";
        for (size_t o = 0; o < Dout; o++) {
            if (memcmp(whole + o * ld + Din, before + o * ld + Din, APART * sizeof *whole) != 0)
                return "something was written behind a row";
            for (size_t k = 0; k < Din; k++)
                whole[o * ld + k] -= before[o * ld + k];
        }
        turn(turned, n, dy, ld_dy, n, Dout);
        if (!is_rounded_product(whole, ld, turned, n, x, 1, ld_x, Dout, Din, n, 4.0, operand))
            return "a gradient is not that of three loops";
        kmf_free(dy);
        kmf_free(turned);
        kmf_free(x);
        kmf_free(before);
        kmf_free(whole);
        kmf_free(cut);
        kmf_free(left.room);
        kmf_free(right.room);
    }
    return NULL;
}

PART(inner, F32, inner_is_right)
PART(inner, BF16, inner_is_right)
PART(outer, F32, outer_is_right)
PART(outer, BF16, outer_is_right)

static const levels_part parts[] = {{"inner_f32", inner_F32},
                                    {"inner_bf16", inner_BF16},
                                    {"outer_f32", outer_F32},
                                    {"outer_bf16", outer_BF16},
                                    {"here", here}};

LEVELS_TEST(small_products_equal_three_loops_in_double, "inner_f32", setting(_i))
LEVELS_TEST(gradients_of_weights_equal_three_loops_in_double, "outer_f32", setting(_i))

START_TEST(in_bf16_they_are_those_of_the_rounded_operands)
{
    if (!has("bf16", "")) {
        printf("skip: this processor has no products of bfloat16\n");
        return;
    }
    levels_run("inner_bf16 outer_bf16", precise[_i], NULL);
}
END_TEST

START_TEST(a_size_that_does_not_fit_is_0)
{
    ck_assert_uint_eq(kmf_gemm_factor_bytes(SIZE_MAX / 96 * 96, 3, KMF_PRECISION_F32), 0);
    ck_assert_uint_eq(kmf_gemm_factor_bytes(96, SIZE_MAX - 1, KMF_PRECISION_F32), 0);
    ck_assert_uint_eq(kmf_gemm_inner_floats(SIZE_MAX - 1, 3, KMF_GEMM_TILES), 0);
    ck_assert_uint_eq(kmf_gemm_inner_floats(3, SIZE_MAX - 1, KMF_GEMM_TILES), 0);
    ck_assert_uint_eq(kmf_gemm_inner_floats(SIZE_MAX / 64, 64, 0), 0);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 2)
        return levels_child(parts, sizeof parts / sizeof parts[0], argv);
    TCase *tcase = untimed_case();
    tcase_add_loop_test(tcase, small_products_equal_three_loops_in_double, 0, N_SETTINGS);
    tcase_add_loop_test(tcase, gradients_of_weights_equal_three_loops_in_double, 0, N_SETTINGS);
    tcase_add_loop_test(tcase, in_bf16_they_are_those_of_the_rounded_operands, 0, N_BF16);
    tcase_add_test(tcase, a_size_that_does_not_fit_is_0);
    return run_case("gemm_inner", tcase);
}
