/* SPDX-License-Identifier: MIT */
/* Matrix products, each engine and processor level against three loops in double. */
#include "base/cpu.h"
#include "base/mem.h"
#include "levels.h"
#include "nn/gemm.h"
#include "run.h"

#include <math.h>
#include <stdint.h>

static uint64_t seed = 88172645463325252u;

static float *random_floats(size_t n)
{
    float *x = kmf_floats(n, NULL);
    for (size_t i = 0; x && i < n; i++)
        x[i] = levels_random(&seed);
    return x;
}

/*
 * Whether c is a b^T to float accuracy: K roundings of sums of at most sum |a b| each.
 * a: [M, K], ld_a   b: [N, K], element (n, k) at b[n * step_n + k * step_k]
 * beside: the size of what was in c before and was taken off again.
 */
static bool is_product(const float *c, size_t ld_c, const float *a, size_t ld_a, const float *b,
                       size_t step_n, size_t step_k, size_t M, size_t N, size_t K,
                       double beside)
{
    for (size_t m = 0; m < M; m++)
        for (size_t n = 0; n < N; n++) {
            double sum = 0.0;
            double size = beside;
            for (size_t k = 0; k < K; k++) {
                double term = (double)a[m * ld_a + k] * (double)b[n * step_n + k * step_k];
                sum += term;
                size += fabs(term);
            }
            if (!(fabs((double)c[m * ld_c + n] - sum) <= (double)(K + 2) * 0x1p-24 * size))
                return false;
        }
    return true;
}

static const struct {
    size_t Dout, Din;
} shapes[] = {{1, 1}, {7, 3}, {24, 32}, {32, 24}, {33, 65}, {97, 513}, {48, 1030}, {129, 48}};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

typedef struct weight {
    float *w;
    float *packed;
    float *x;
    float *y;
    size_t Dout, Din, N;
} weight;

static bool weight_new(weight *p, size_t Dout, size_t Din, size_t N)
{
    *p = (weight){.Dout = Dout, .Din = Din, .N = N};
    p->w = random_floats(Dout * Din);
    p->x = random_floats(N * Din);
    p->y = random_floats(N * Dout);
    p->packed = kmf_floats(kmf_gemm_packed_size(Dout, Din), NULL);
    if (!p->w || !p->x || !p->y || !p->packed)
        return false;
    kmf_gemm_pack(p->packed, (const float *[]){p->w}, 1, Dout, Din);
    return true;
}

static void weight_free(weight *p)
{
    kmf_free(p->w);
    kmf_free(p->x);
    kmf_free(p->y);
    kmf_free(p->packed);
}

static void weight_run(weight *p)
{
    kmf_gemm_weight(p->y, p->Dout, p->x, p->Din, p->packed, p->N, p->Dout, p->Din);
}

static const char *weight_is_right(void)
{
    for (size_t s = 0; s < N_SHAPES; s++) {
        weight p;
        if (!weight_new(&p, shapes[s].Dout, shapes[s].Din, 2 * KMF_TILE))
            return "no memory";
        weight_run(&p);
        if (!is_product(p.y, p.Dout, p.x, p.Din, p.w, p.Din, 1, p.N, p.Dout, p.Din, 0.0))
            return "a weight product is not that of three loops";
        weight_free(&p);
    }
    return NULL;
}

static const char *strides_are_kept(void)
{
    enum { Dout = 37, Din = 29, LD_X = 50, LD_Y = 41 };
    weight p;
    if (!weight_new(&p, Dout, Din, KMF_TILE))
        return "no memory";
    float *x = random_floats(KMF_TILE * LD_X);
    float *y = random_floats(KMF_TILE * LD_Y);
    if (!x || !y)
        return "no memory";
    for (size_t i = 0; i < KMF_TILE * LD_Y; i++)
        y[i] = 7.0f;
    kmf_gemm_weight(y, LD_Y, x, LD_X, p.packed, KMF_TILE, Dout, Din);
    if (!is_product(y, LD_Y, x, LD_X, p.w, Din, 1, KMF_TILE, Dout, Din, 0.0))
        return "a product with strides is wrong";
    for (size_t n = 0; n < KMF_TILE; n++)
        for (size_t i = Dout; i < LD_Y; i++)
            if (y[n * LD_Y + i] != 7.0f)
                return "something was written behind a row";
    kmf_free(x);
    kmf_free(y);
    weight_free(&p);
    return NULL;
}

static const char *parts_are_joined(void)
{
    enum { PART = 23, Din = 31 };
    float *w = random_floats(3 * PART * Din);
    size_t n = kmf_gemm_packed_size(3 * PART, Din);
    float *whole = kmf_floats(n, NULL);
    float *joined = kmf_floats(n, NULL);
    if (!w || !whole || !joined)
        return "no memory";
    kmf_gemm_pack(whole, (const float *[]){w}, 1, 3 * PART, Din);
    kmf_gemm_pack(joined, (const float *[]){w, w + PART * Din, w + 2 * PART * Din}, 3, 3 * PART,
                  Din);
    if (memcmp(whole, joined, n * sizeof *whole) != 0)
        return "three matrices packed as one differ from one";
    kmf_free(w);
    kmf_free(whole);
    kmf_free(joined);
    return NULL;
}

/* Row n of a product over rows moved about equals the row where it was. */
static const char *rows_do_not_see_neighbours(void)
{
    for (size_t s = 0; s < N_SHAPES; s++) {
        weight p, q;
        if (!weight_new(&p, shapes[s].Dout, shapes[s].Din, 3 * KMF_TILE) ||
            !weight_new(&q, shapes[s].Dout, shapes[s].Din, 3 * KMF_TILE))
            return "no memory";
        memcpy(q.packed, p.packed, kmf_gemm_packed_size(p.Dout, p.Din) * sizeof *q.packed);
        for (size_t n = 0; n < p.N; n += 2)
            memcpy(q.x + (n * 29 + 5) % p.N * p.Din, p.x + n * p.Din, p.Din * sizeof *p.x);
        weight_run(&p);
        weight_run(&q);
        for (size_t n = 0; n < p.N; n += 2)
            if (memcmp(q.y + (n * 29 + 5) % p.N * p.Dout, p.y + n * p.Dout,
                       p.Dout * sizeof *p.y) != 0)
                return "a row depends on its place or its neighbours";
        weight_free(&p);
        weight_free(&q);
    }
    return NULL;
}

static const char *nan_stays_in_its_row(void)
{
    weight p;
    if (!weight_new(&p, 37, 600, KMF_TILE))
        return "no memory";
    p.x[11 * p.Din + 599] = NAN;
    p.x[12 * p.Din] = INFINITY;
    weight_run(&p);
    for (size_t n = 0; n < p.N; n++)
        for (size_t i = 0; i < p.Dout; i++)
            if ((n == 11) != (bool)isnan(p.y[n * p.Dout + i]) ||
                (n == 12) != (bool)isinf(p.y[n * p.Dout + i]))
                return "NaN or infinity is not where it belongs";
    weight_free(&p);
    return NULL;
}

/* x turned about: [K, M] of [M, K], ld_to and ld. */
static void turn(float *to, size_t ld_to, const float *x, size_t ld, size_t M, size_t K)
{
    for (size_t m = 0; m < M; m++)
        for (size_t k = 0; k < K; k++)
            to[k * ld_to + m] = x[m * ld + k];
}

/* Each way to store a and b, and with something in c already. */
static const char *inner_is_right(void)
{
    static const size_t sizes[][3] = {{1, 1, 1},      {3, 50, 7},    {64, 148, 64},
                                      {20, 64, 148},  {13, 33, 300}, {70, 31, 513},
                                      {300, 40, 260}, {7, 3, 2},     {133, 65, 9}};
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
        for (int how = 0; how < 8; how++) {
            const float *left = how & KMF_GEMM_TA ? t : a;
            memcpy(c, before, M * ld_c * sizeof *c);
            kmf_gemm_inner(c, ld_c, left, how & KMF_GEMM_TA ? ld_t : ld_a, b, ld_b, M, N, K,
                           how);
            for (size_t m = 0; m < M; m++) {
                for (size_t i = N; i < ld_c; i++)
                    if (memcmp(&c[m * ld_c + i], &before[m * ld_c + i], sizeof *c) != 0)
                        return "something was written behind a row";
                for (size_t i = 0; how & KMF_GEMM_ADD && i < N; i++)
                    c[m * ld_c + i] -= before[m * ld_c + i];
            }
            bool turned = how & KMF_GEMM_TB;
            if (!is_product(c, ld_c, a, ld_a, b, turned ? ld_b : 1, turned ? 1 : ld_b, M, N, K,
                            how & KMF_GEMM_ADD ? 4.0 : 0.0))
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

/* dx = dy W with W in two parts. */
static const char *the_way_back_is_right(void)
{
    enum { PARTS = 2 };
    for (size_t s = 0; s < N_SHAPES; s++) {
        size_t Dout = PARTS * shapes[s].Dout, Din = shapes[s].Din, N = 2 * KMF_TILE;
        float *w = random_floats(Dout * Din);
        float *dy = random_floats(N * Dout);
        float *dx = random_floats(N * Din);
        float *packed = kmf_floats(kmf_gemm_packed_size(Din, Dout), NULL);
        if (!w || !dy || !dx || !packed)
            return "no memory";
        kmf_gemm_pack_back(packed, (const float *[]){w, w + Dout / PARTS * Din}, PARTS, Dout,
                           Din);
        kmf_gemm_weight(dx, Din, dy, Dout, packed, N, Din, Dout);
        if (!is_product(dx, Din, dy, Dout, w, 1, Din, N, Din, Dout, 0.0))
            return "dy W is not that of three loops";
        kmf_free(w);
        kmf_free(dy);
        kmf_free(dx);
        kmf_free(packed);
    }
    return NULL;
}

/* Prints a checksum of the bits of some products. */
static const char *checksum(void)
{
    uint64_t sum = 14695981039346656037u;
    seed = 88172645463325252u;
    for (size_t s = 0; s < N_SHAPES; s++) {
        weight p;
        if (!weight_new(&p, shapes[s].Dout, shapes[s].Din, KMF_TILE))
            return "no memory";
        weight_run(&p);
        for (size_t i = 0; i < p.N * p.Dout; i++) {
            uint32_t bits;
            memcpy(&bits, &p.y[i], sizeof bits);
            sum = (sum ^ bits) * 1099511628211u;
        }
        weight_free(&p);
    }
    printf("%016llx\n", (unsigned long long)sum);
    return NULL;
}

static const char *name(void)
{
    printf("%s", kmf_gemm_name());
    return NULL;
}

static const char *level(void)
{
    printf("%s", kmf_cpu_name(kmf_cpu_level()));
    return NULL;
}

static const levels_part parts[] = {
    {"weight", weight_is_right},
    {"strides", strides_are_kept},
    {"parts", parts_are_joined},
    {"rows", rows_do_not_see_neighbours},
    {"nan", nan_stays_in_its_row},
    {"inner", inner_is_right},
    {"back", the_way_back_is_right},
    {"checksum", checksum},
    {"name", name},
    {"level", level},
};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

START_TEST(weight_products_equal_three_loops_in_double)
{
    levels_run("weight", levels_all[_i], NULL);
    levels_run("strides", levels_all[_i], NULL);
}
END_TEST

START_TEST(matrices_packed_together_are_one_matrix)
{
    levels_run("parts", levels_all[_i], NULL);
}
END_TEST

START_TEST(a_row_does_not_depend_on_neighbours_or_place)
{
    levels_run("rows", levels_all[_i], NULL);
}
END_TEST

START_TEST(nan_and_infinity_stay_in_their_rows)
{
    levels_run("nan", levels_all[_i], NULL);
}
END_TEST

START_TEST(inner_products_equal_three_loops_in_double)
{
    levels_run("inner", levels_all[_i], NULL);
}
END_TEST

START_TEST(the_gradient_of_a_weight_products_input_equals_three_loops_in_double)
{
    levels_run("back", levels_all[_i], NULL);
}
END_TEST

START_TEST(openblas_when_asked_for_computes_the_same)
{
    char said[256];
    levels_run("name", "KMERFORMER_GEMM=openblas", said);
    ck_assert_msg(strncmp(said, "openblas ", 9) == 0, "%s", said);
    levels_run("weight", "KMERFORMER_GEMM=openblas", NULL);
    levels_run("strides", "KMERFORMER_GEMM=openblas", NULL);
    levels_run("parts", "KMERFORMER_GEMM=openblas", NULL);
    levels_run("nan", "KMERFORMER_GEMM=openblas", NULL);
    levels_run("back", "KMERFORMER_GEMM=openblas", NULL);
}
END_TEST

START_TEST(openblas_is_used_where_nothing_better_is_there_and_it_treats_rows_alike)
{
#if defined(__x86_64__)
    char said[256] = "";
    levels_run("name", "KMERFORMER_CPU=baseline OPENBLAS_CORETYPE=Nehalem", said);
    ck_assert_str_eq(said, "openblas Nehalem");
    levels_run("name", "KMERFORMER_CPU=baseline OPENBLAS_CORETYPE=Haswell", said);
    ck_assert_str_eq(said, "plain baseline");
    char now[256] = "";
    char plain[300];
    levels_run("level", "", now);
    if (strcmp(now, "baseline") == 0) {
        printf("skip: a processor without AVX2 has one level\n");
        return;
    }
    snprintf(plain, sizeof plain, "plain %s", now);
    levels_run("name", "", said);
    ck_assert_str_eq(said, plain);
    if (strcmp(now, "avx512") == 0) {
        levels_run("rows", "KMERFORMER_GEMM=openblas OPENBLAS_CORETYPE=SkylakeX", NULL);
        levels_run("weight", "KMERFORMER_GEMM=openblas OPENBLAS_CORETYPE=SkylakeX", NULL);
    }
#else
    printf("skip: the core types are those of x86-64\n");
#endif
}
END_TEST

START_TEST(levels_with_fused_products_agree_in_every_bit)
{
    char now[256] = "";
    levels_run("level", "", now);
    if (strcmp(now, "avx512") != 0) {
        printf("skip: this processor has one such level or none\n");
        return;
    }
    char wide[256], narrow[256];
    levels_run("checksum", "KMERFORMER_GEMM=plain", wide);
    levels_run("checksum", "KMERFORMER_GEMM=plain KMERFORMER_CPU=avx2", narrow);
    ck_assert_str_eq(wide, narrow);
}
END_TEST

START_TEST(a_size_that_does_not_fit_is_0)
{
    ck_assert_uint_eq(kmf_gemm_packed_size(SIZE_MAX / 2, 3), 0);
    ck_assert_uint_ge(kmf_gemm_packed_size(100, 10), 1000);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3)
        return levels_child(parts, N_PARTS, argv);
    Suite *suite = suite_create("gemm");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, weight_products_equal_three_loops_in_double, 0, N_LEVELS);
    tcase_add_loop_test(tcase, matrices_packed_together_are_one_matrix, 0, N_LEVELS);
    tcase_add_loop_test(tcase, a_row_does_not_depend_on_neighbours_or_place, 0, N_LEVELS);
    tcase_add_loop_test(tcase, nan_and_infinity_stay_in_their_rows, 0, N_LEVELS);
    tcase_add_loop_test(tcase, inner_products_equal_three_loops_in_double, 0, N_LEVELS);
    tcase_add_loop_test(tcase,
                        the_gradient_of_a_weight_products_input_equals_three_loops_in_double, 0,
                        N_LEVELS);
    tcase_add_test(tcase, openblas_when_asked_for_computes_the_same);
    tcase_add_test(tcase,
                   openblas_is_used_where_nothing_better_is_there_and_it_treats_rows_alike);
    tcase_add_test(tcase, levels_with_fused_products_agree_in_every_bit);
    tcase_add_test(tcase, a_size_that_does_not_fit_is_0);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
