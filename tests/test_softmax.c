/* SPDX-License-Identifier: MIT */
/*
 * Scores of attention become weights, at every processor level: sums of integers by their equation,
 * rows by themselves and beside others, in one piece and in several.
 */
#include "elements.h"
#include "kmerformer.h"
#include "nn/panels.h"
#include "nn/softmax.h"
#include "run.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* What weights may become. */
static const kmf_operand kinds[] = {KMF_OPERAND_F32, KMF_OPERAND_BF16, KMF_OPERAND_INT8,
                                    KMF_OPERAND_INT16};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static size_t terms_of(kmf_operand operand)
{
    return kmf_kernel_of(operand)->terms;
}

static void weigh(kmf_rows to, float *scores, size_t ld, kmf_softmax_state *r,
                  const float *most, bool first, size_t rows, size_t n, kmf_operand operand)
{
    if (operand == KMF_OPERAND_F32)
        kmf_softmax_step(scores, ld, r, most, first, rows, n);
    else if (operand == KMF_OPERAND_BF16)
        kmf_softmax_step_bf16(to, scores, ld, r, most, first, rows, n);
    else if (operand == KMF_OPERAND_INT8)
        kmf_softmax_step_int8(to, scores, ld, r, most, first, rows, n);
    else
        kmf_softmax_step_int16(to, scores, ld, r, most, first, rows, n);
}

/* A row's scores, the same n times as many pieces, and then some that are 3 larger. */
static const char *sums_of_pieces(kmf_operand operand, bool known)
{
    enum { N = KMF_SOFTMAX_STEP, PIECES = 4 };
    _Alignas(64) float scores[N];
    _Alignas(64) uint32_t words[N];
    kmf_rows to = {words, N, false, terms_of(operand), 1};
    kmf_softmax_state r;
    float sum = 0;
    for (int piece = 0; piece <= PIECES; piece++) {
        for (int j = 0; j < N; j++)
            scores[j] = (piece == PIECES ? 3.0f : 0.0f) - (float)j / 8;
        const float *most = known ? (const float[]){scores[0]} : NULL;
        weigh(to, scores, N, &r, most, piece == 0, 1, N, operand);
        if (piece == 0)
            sum = r.sum[0];
        else if (piece < PIECES &&
                 (r.factor[0] != 1.0f || r.sum[0] != (float)(piece + 1) * sum))
            return "what was summed up has changed, and the maximum has not";
    }
    double want = (1 + PIECES / 8.0) * (double)sum;
    return fabs((double)r.sum[0] / want - 1) <= 1e-4 ? NULL
                                                     : "a larger maximum is not taken in";
}

static const char *a_maximum_may_stay(void)
{
    const char *wrong = NULL;
    for (size_t k = 0; k < N_KINDS && !wrong; k++)
        for (int known = 0; known <= 1 && !wrong; known++)
            if (kmf_kernel_of(kinds[k]))
                wrong = sums_of_pieces(kinds[k], known == 1);
    return wrong;
}

enum { SCORE_ROWS = 21, SCORE_LD = 640, UNTOUCHED = 12345 };

/* Scores of sums, and the rest as it was: the equation of nn/panels.h, rounded as it is there. */
static const char *are_scores(const float *scores, const float *most, const int32_t *sums,
                              const kmf_score_units *units, size_t rows, size_t n)
{
    for (size_t r = 0; r < SCORE_ROWS; r++) {
        float largest = -HUGE_VALF;
        bool number = true;
        for (size_t j = 0; j < SCORE_LD; j++) {
            size_t at = r * SCORE_LD + j;
            bool there = r < rows && j < n;
            float want;
            memcpy(&want, &sums[at], sizeof want);
            if (there)
                want = kmf_int8_number(true, sums[at], units->scale[r], units->low[r],
                                       units->key_scales[j], units->key_sums[j]);
            if (!(there && isnan(want) && isnan(scores[at])) &&
                memcmp(&scores[at], &want, sizeof want) != 0)
                return there ? "a score is wrong" : "what is no score was written";
            if (there && want > largest)
                largest = want;
            number = number && !(there && isnan(want));
        }
        if (r < rows && number && most[r] != largest)
            return "the largest score is another";
    }
    return most[rows] == UNTOUCHED ? NULL : "a maximum of no row was written";
}

/* Any number of rows and keys; a NaN of a key and one of a query. */
static const char *sums_become_scores(void)
{
    static const size_t widths[] = {1, 15, 16, 17, 64, 77, 577};
    static int32_t sums[SCORE_ROWS * SCORE_LD];
    static float scores[SCORE_ROWS * SCORE_LD];
    if (!kmf_kernel_of(KMF_OPERAND_INT8)) {
        puts("skip: no products of integers here");
        return NULL;
    }
    kmf_score_units units;
    float key_scales[SCORE_LD], key_sums[SCORE_LD];
    fill(units.scale, SCORE_ROWS, 0.01f);
    fill(units.low, SCORE_ROWS, 1);
    fill(key_scales, SCORE_LD, 0.01f);
    fill(key_sums, SCORE_LD, 100);
    key_scales[70] = NAN;
    units.scale[2] = NAN;
    units.key_scales = key_scales;
    units.key_sums = key_sums;
    for (size_t i = 0; i < sizeof widths / sizeof widths[0] * SCORE_ROWS; i++) {
        size_t n = widths[i / SCORE_ROWS];
        size_t rows = i % SCORE_ROWS + 1;
        float most[SCORE_ROWS + 1];
        for (size_t j = 0; j < sizeof sums / sizeof sums[0]; j++)
            sums[j] = (int32_t)(1e5f * levels_random(&seed));
        memcpy(scores, sums, sizeof scores);
        most[rows] = UNTOUCHED;
        kmf_scores_of_integers(scores, SCORE_LD, &units, most, rows, n);
        const char *wrong = are_scores(scores, most, sums, &units, rows, n);
        if (wrong)
            return wrong;
    }
    return NULL;
}

/* Rows of scores that are weighed in two pieces. */
typedef struct weighed {
    float scores[SCORE_ROWS * SCORE_LD];
    uint32_t words[SCORE_ROWS * SCORE_LD];
    kmf_softmax_state r;
} weighed;

/* The same numbers each time, with a NaN and an infinity among them. */
static void weigh_rows(weighed *w, kmf_operand operand, size_t first_row, size_t rows, size_t n,
                       bool known)
{
    kmf_rows to = {w->words, SCORE_LD, false, terms_of(operand), 1};
    memset(w, 0, sizeof *w);
    for (int piece = 0; piece < 2; piece++) {
        float most[SCORE_ROWS];
        for (size_t r = 0; r < rows; r++) {
            uint64_t row_seed = 1 + 2 * (first_row + r) + (uint64_t)piece;
            most[r] = -HUGE_VALF;
            for (size_t j = 0; j < n; j++) {
                float x = 10 * levels_random(&row_seed);
                x = first_row + r == 3 && j == n / 2 && piece == 1 ? NAN : x;
                x = first_row + r == 6 && j == n / 3 ? HUGE_VALF : x;
                w->scores[r * SCORE_LD + j] = x;
                most[r] = x > most[r] ? x : most[r];
            }
        }
        const float *largest = known ? most : NULL;
        weigh(to, w->scores, SCORE_LD, &w->r, largest, piece == 0, rows, n, operand);
    }
}

/* Whether row r of one is row k of the other; of words so many are written. */
static bool same_row(const weighed *a, size_t r, const weighed *b, size_t k, size_t n_words)
{
    return memcmp(a->scores + r * SCORE_LD, b->scores + k * SCORE_LD,
                  SCORE_LD * sizeof *a->scores) == 0 &&
           memcmp(a->words + r * SCORE_LD, b->words + k * SCORE_LD,
                  n_words * sizeof *a->words) == 0 &&
           memcmp(&a->r.sum[r], &b->r.sum[k], sizeof a->r.sum[r]) == 0 &&
           memcmp(&a->r.max[r], &b->r.max[k], sizeof a->r.max[r]) == 0 &&
           memcmp(&a->r.factor[r], &b->r.factor[k], sizeof a->r.factor[r]) == 0;
}

/* A row's weights have the same bits with others and alone, with its maximum known and not. */
static const char *rows_have_their_bits(void)
{
    static const size_t widths[] = {1, 15, 16, 17, 33, 64, 577};
    static weighed all, one;
    for (size_t k = 0; k < N_KINDS; k++) {
        if (!kmf_kernel_of(kinds[k]))
            continue;
        size_t in_word = kinds[k] == KMF_OPERAND_F32 ? 2 : terms_of(kinds[k]);
        for (size_t i = 0; i < sizeof widths / sizeof widths[0] * SCORE_ROWS; i++) {
            size_t n = widths[i / SCORE_ROWS];
            size_t rows = i % SCORE_ROWS + 1;
            size_t steps = (n + KMF_SOFTMAX_STEP - 1) / KMF_SOFTMAX_STEP * KMF_SOFTMAX_STEP;
            weigh_rows(&all, kinds[k], 0, rows, n, true);
            for (size_t r = 0; r < rows; r++) {
                weigh_rows(&one, kinds[k], r, 1, n, false);
                bool number = r != 3 && r != 6;
                if (number && !same_row(&all, r, &one, 0, steps / in_word))
                    return "a row's weights depend on other rows, or on who finds its maximum";
                if (number == (bool)isnan(one.r.sum[0]) || number == (bool)isnan(all.r.sum[r]))
                    return "NaN of a row's sum is not where it belongs";
            }
        }
    }
    return NULL;
}

#if defined(__x86_64__)
#define CONTROL 0xffc0u /* of the register: the rest are flags, which any operation may raise */

/* How a thread rounds, and what becomes of its subnormal numbers, is the caller's business. */
static const char *the_thread_is_left_as_it_was(void)
{
    static weighed w;
    for (size_t k = 0; k < N_KINDS; k++)
        for (int flush = 0; flush <= 1; flush++) {
            if (!kmf_kernel_of(kinds[k]))
                continue;
            unsigned before = _mm_getcsr();
            _MM_SET_FLUSH_ZERO_MODE(flush ? _MM_FLUSH_ZERO_ON : _MM_FLUSH_ZERO_OFF);
            unsigned set = _mm_getcsr();
            weigh_rows(&w, kinds[k], 0, SCORE_ROWS, 77, false);
            unsigned after = _mm_getcsr();
            _mm_setcsr(before);
            if ((after & CONTROL) != (set & CONTROL))
                return "the thread's control register has changed";
        }
    return NULL;
}
#else
static const char *the_thread_is_left_as_it_was(void)
{
    puts("skip: no control register known here");
    return NULL;
}
#endif

static const levels_part parts[] = {
    {"stays", a_maximum_may_stay},
    {"control", the_thread_is_left_as_it_was},
    {"numbers", sums_become_scores},
    {"rows", rows_have_their_bits},
};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

LEVELS_TEST(sums_so_far_stay_as_long_as_the_maximum_does, "stays", levels_each[_i])
LEVELS_TEST(sums_of_integers_become_scores, "numbers", levels_digits[_i])
LEVELS_TEST(weights_of_a_row_are_its_own, "rows", levels_each[_i])
LEVELS_TEST(weighing_leaves_the_thread_as_it_was, "control", levels_each[_i])

int main(int argc, char **argv)
{
    if (argc > 2)
        return levels_child(parts, N_PARTS, argv);
    TCase *tcase = untimed_case();
    tcase_add_loop_test(tcase, sums_so_far_stay_as_long_as_the_maximum_does, 0, N_EACH);
    tcase_add_loop_test(tcase, sums_of_integers_become_scores, 0, N_DIGITS);
    tcase_add_loop_test(tcase, weights_of_a_row_are_its_own, 0, N_EACH);
    tcase_add_loop_test(tcase, weighing_leaves_the_thread_as_it_was, 0, N_EACH);
    return run_case("softmax", tcase);
}
