/* SPDX-License-Identifier: MIT */
/*
 * Products whose bits are the same everywhere: against the order that nn/lanes.h promises, written
 * out term by term, at every level and at every place of a row; and against sums in double.
 */
#include "nn/dots.h"

#include "levels.h"
#include "nn/lanes.h"
#include "run.h"

#include <math.h>

/* The largest shape, and floats between one row and the next that belong to nobody. */
enum { MOST_N = 37, MOST_R = 70, MOST_K = 300, APART = 5 };

static const float nobodys = 12345.0f;

/* Term i to sum i % 32; then in halves. */
static float in_order(const float *x, const float *w, size_t K, double *exact)
{
    float part[KMF_SUM_LANES] = {0};
    *exact = 0;
    for (size_t i = 0; i < K; i++) {
        float product = x[i] * w[i];
        part[i % KMF_SUM_LANES] += product;
        *exact += (double)x[i] * (double)w[i];
    }
    for (size_t half = KMF_SUM_LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            part[l] += part[l + half];
    return part[0];
}

static void draw(float *rows, size_t n, uint64_t *seed)
{
    for (size_t i = 0; i < n; i++)
        rows[i] = levels_random(seed);
}

static const char *product_is_in_order(size_t N, size_t R, size_t K)
{
    uint64_t seed = 1 + N * 10007 + R * 101 + K;
    size_t ld_x = K + APART, ld_w = K + 2, ld_y = R + APART;
    static float x[MOST_N * (MOST_K + APART)], w[MOST_R * (MOST_K + 2)];
    static float y[MOST_N * (MOST_R + APART)];
    const char *wrong = NULL;
    draw(x, N * ld_x, &seed);
    draw(w, R * ld_w, &seed);
    for (size_t i = 0; i < N * ld_y; i++)
        y[i] = nobodys;
    kmf_dots_product(y, ld_y, x, ld_x, w, ld_w, N, R, K);
    for (size_t n = 0; n < N; n++) {
        for (size_t r = 0; r < R; r++) {
            double exact;
            float right = in_order(x + n * ld_x, w + r * ld_w, K, &exact);
            float got = y[n * ld_y + r];
            if (memcmp(&got, &right, sizeof got) != 0)
                wrong = "a sum is not in the order that is promised";
            if (fabs((double)got - exact) > 1e-6 * (double)K)
                wrong = "a sum is wrong";
        }
        for (size_t r = R; r < ld_y; r++)
            if (y[n * ld_y + r] != nobodys)
                wrong = "what lies behind a row has changed";
    }
    return wrong;
}

/* Rows of all remainders by the tiles', and sums with and without a rest. */
static const char *products_are_in_order(void)
{
    static const size_t rows[] = {1, 2, 3, 4, 5, 7, 15, 16, 17, MOST_N};
    static const size_t columns[] = {1, 2, 3, 4, 6, 13, MOST_R};
    static const size_t terms[] = {1, 5, 31, 32, 33, 64, 70, 127, MOST_K};
    for (size_t n = 0; n < sizeof rows / sizeof rows[0]; n++)
        for (size_t r = 0; r < sizeof columns / sizeof columns[0]; r++)
            for (size_t k = 0; k < sizeof terms / sizeof terms[0]; k++) {
                const char *wrong = product_is_in_order(rows[n], columns[r], terms[k]);
                if (wrong)
                    return wrong;
            }
    return NULL;
}

/* A row that is not finite does not touch those that come with it, nor do zeros behind its end. */
static const char *rows_are_alone(void)
{
    enum { N = 6, R = 5, K = 45 };
    float x[N * K], w[R * K], clean[N * R], y[N * R];
    uint64_t seed = 77;
    draw(x, N * K, &seed);
    draw(w, R * K, &seed);
    kmf_dots_product(clean, R, x, K, w, K, N, R, K);
    x[2 * K + K - 1] = INFINITY;
    kmf_dots_product(y, R, x, K, w, K, N, R, K);
    for (size_t n = 0; n < N; n++)
        for (size_t r = 0; r < R; r++)
            if (n == 2 ? !isinf(y[n * R + r]) : y[n * R + r] != clean[n * R + r])
                return "an infinite term is lost, or found in another row";
    return NULL;
}

/* Nothing is read behind a matrix: a sanitizer would tell. */
static const char *ends_are_ends(void)
{
    enum { N = 5, R = 6, K = 37 };
    float *x = malloc(N * K * sizeof *x), *w = malloc(R * K * sizeof *w);
    float y[N * R], exact = N * K;
    const char *wrong = x && w ? NULL : "no memory";
    for (size_t i = 0; i < N * K && !wrong; i++)
        x[i] = 1;
    for (size_t i = 0; i < R * K && !wrong; i++)
        w[i] = N;
    if (!wrong)
        kmf_dots_product(y, R, x, K, w, K, N, R, K);
    for (size_t i = 0; i < N * R && !wrong; i++)
        wrong = y[i] == exact ? NULL : "a sum of whole numbers is wrong";
    free(x);
    free(w);
    return wrong;
}

static const levels_part parts[] = {
    {"order", products_are_in_order}, {"alone", rows_are_alone}, {"ends", ends_are_ends}};

LEVELS_TEST(products_have_the_same_bits_at_every_level, "order alone ends", levels_vectors[_i])

int main(int argc, char **argv)
{
    if (argc > 2)
        return levels_child(parts, sizeof parts / sizeof parts[0], argv);
    TCase *c = tcase_create("products");
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, products_have_the_same_bits_at_every_level, 0, N_VECTORS);
    return run_case("dots", c);
}
