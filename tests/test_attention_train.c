/* SPDX-License-Identifier: MIT */
/*
 * Training's attention in float and in bfloat16 against its definition in double, at each processor
 * level. That the definition is the gradient of the forward is tests/test_gradients.c's to say.
 */
#include "base/mem.h"
#include "checked.h"
#include "elements.h"
#include "errors.h"
#include "nn/attention_train.h"
#include "nn/dropout.h"
#include "nn/gemm.h"
#include "nn/vmath.h"
#include "run.h"

#include <math.h>
#include <stdbool.h>

enum { GUARD = 64 };

enum { MAX_T = 389 };

/* Head h of one sequence by the definition, all the weights at once. All are [T, D]. */
static void attention_twin(double *dq, double *dk, double *dv, double *out, const float *dout,
                           const float *q, const float *k, const float *v, size_t ld,
                           uint64_t key, double rate, size_t T, size_t h, size_t K, size_t D)
{
    static double p[MAX_T], dp[MAX_T];
    static float f[MAX_T];
    double root = sqrt((double)K);
    for (size_t t = 0; t < T; t++)
        for (size_t i = h * K; i < h * K + K; i++)
            dq[t * D + i] = dk[t * D + i] = dv[t * D + i] = out[t * D + i] = 0.0;
    for (size_t t = 0; t < T; t++) {
        double max = -HUGE_VAL, sum = 0.0, dot = 0.0;
        kmf_dropout_factors(f, key, (h * T + t) * T, rate, T);
        for (size_t u = 0; u < T; u++) {
            p[u] = dp[u] = 0.0;
            for (size_t i = h * K; i < h * K + K; i++) {
                p[u] += (double)q[t * ld + i] * (double)k[u * ld + i] / root;
                dp[u] += (double)f[u] * (double)dout[t * D + i] * (double)v[u * ld + i];
            }
            max = p[u] > max ? p[u] : max;
        }
        for (size_t u = 0; u < T; u++)
            sum += p[u] = exp(p[u] - max);
        for (size_t u = 0; u < T; u++) {
            p[u] /= sum;
            dot += p[u] * dp[u];
        }
        for (size_t u = 0; u < T; u++) {
            double ds = p[u] * (dp[u] - dot) / root;
            for (size_t i = h * K; i < h * K + K; i++) {
                out[t * D + i] += p[u] * (double)f[u] * (double)v[u * ld + i];
                dv[u * D + i] += p[u] * (double)f[u] * (double)dout[t * D + i];
                dq[t * D + i] += ds * (double)k[u * ld + i];
                dk[u * D + i] += ds * (double)q[t * ld + i];
            }
        }
    }
}

/* Scratch of n numbers, NaN if they were read, and some behind it. */
static float *guarded(size_t n)
{
    float *scratch = kmf_floats(n + GUARD, NULL);
    if (scratch)
        memset(scratch, 0xff, (n + GUARD) * sizeof *scratch);
    return scratch;
}

static bool guard_stands(const float *scratch, size_t n)
{
    for (size_t i = 0; i < GUARD; i++)
        if (kmf_bits_of(scratch[n + i]) != UINT32_MAX)
            return false;
    return true;
}

static const char *attention_of(size_t T, size_t H, size_t K, double rate,
                                kmf_precision precision, double *worst)
{
    enum { N_ARRAYS = 4 };
    const uint64_t key = UINT64_C(0xfeedfacecafebeef);
    size_t D = H * K, ld = 3 * D;
    float *qkv = kmf_floats(T * ld, NULL);
    float *grad = kmf_floats(N_ARRAYS * T * D, NULL); /* out, dq, dk, dv */
    float *dout = kmf_floats(T * D, NULL);
    float *stats = kmf_floats(2 * H * T, NULL);
    size_t n_there = kmf_attention_train_scratch(T, K, precision);
    size_t n_back = kmf_attention_backward_scratch(T, K, precision);
    float *there = guarded(n_there), *back = guarded(n_back);
    double *right = kmf_malloc(N_ARRAYS * T * D, sizeof *right, NULL);
    const char *wrong = "no memory";
    if (!qkv || !grad || !dout || !stats || !there || !back || !right)
        goto out;
    fill(qkv, T * ld, 1.5f);
    fill(dout, T * D, 1.0f);
    size_t n = T * D;
    const float *q = qkv, *k = qkv + D, *v = qkv + 2 * D;
    wrong = "attention of one head differs from that of all";
    kmf_attention_forward_train(
        grad, D, NULL, &(kmf_attention_task){q, k, v, ld, T, K, key, rate, precision, there}, 0,
        H);
    for (size_t h = H; h-- > 0;)
        kmf_attention_forward_train(
            grad + n, D, stats,
            &(kmf_attention_task){q, k, v, ld, T, K, key, rate, precision, there}, h, h + 1);
    if (!equal(grad, grad + n, n))
        goto out;
    memcpy(grad, grad + n, n * sizeof *grad);
    for (size_t h = H; h-- > 0;)
        kmf_attention_backward(
            &(kmf_attention_gradients){grad + n, grad + 2 * n, grad + 3 * n, D}, dout, D, grad,
            D, stats, &(kmf_attention_task){q, k, v, ld, T, K, key, rate, precision, back}, h,
            h + 1);
    wrong = "attention wrote behind its scratch";
    if (!guard_stands(there, n_there) || !guard_stands(back, n_back))
        goto out;
    for (size_t h = 0; h < H; h++)
        attention_twin(right + n, right + 2 * n, right + 3 * n, right, dout, q, k, v, ld, key,
                       rate, T, h, K, D);
    wrong = NULL;
    for (size_t a = 0; a < N_ARRAYS; a++) {
        /* of one token dq and dk are 0 */
        double error = T == 1 ? difference(grad + a * n, right + a * n, n)
                              : relative_error(grad + a * n, right + a * n, n);
        *worst = error <= *worst ? *worst : error;
    }
out:
    kmf_free(qkv);
    kmf_free(grad);
    kmf_free(dout);
    kmf_free(stats);
    kmf_free(there);
    kmf_free(back);
    kmf_free(right);
    return wrong;
}

static const char *attention_is_right(void)
{
    static const size_t sizes[][3] = {
        {1, 2, 4},   {2, 3, 10},   {63, 2, 16}, {193, 2, 6},
        {65, 2, 64}, {148, 3, 22}, {192, 1, 8}, {MAX_T, 2, 32},
    };
    static const struct {
        kmf_precision precision;
        double
            limit; /* bf16: of factors of 8 bits, in scores, weights and products with them */
    } kinds[] = {{KMF_PRECISION_F32, 2e-6}, {KMF_PRECISION_BF16, 3e-2}};
    size_t n_sizes = sizeof sizes / sizeof sizes[0] - (CHECKED ? 3 : 0);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        double worst = 0.0;
        if (kmf_precision_here(kinds[k].precision) != kinds[k].precision)
            continue;
        for (size_t s = 0; s < n_sizes; s++)
            for (int dropped = 0; dropped < 2; dropped++) {
                const char *wrong =
                    attention_of(sizes[s][0], sizes[s][1], sizes[s][2], dropped ? 0.25 : 0.0,
                                 kinds[k].precision, &worst);
                if (wrong)
                    return wrong;
            }
        printf("largest error of attention's gradients over the largest gradient, %s: %.3g\n",
               kmf_precision_names[kinds[k].precision], worst);
        if (!(worst <= kinds[k].limit))
            return "attention's gradients differ from their definition";
    }
    return NULL;
}

static const char *attention_keeps_nan(void)
{
    enum { T = 200, H = 2, K = 8, D = H * K };
    static float q[T * D], k[T * D], v[T * D], out[T * D];
    float *scratch = kmf_floats(kmf_attention_train_scratch(T, K, KMF_PRECISION_F32), NULL);
    if (!scratch)
        return "no memory";
    fill(q, T * D, 1.0f);
    fill(k, T * D, 1.0f);
    fill(v, T * D, 1.0f);
    q[194 * D + 1] = NAN; /* one query of head 0: that row of that head */
    kmf_attention_forward_train(
        out, D, NULL,
        &(kmf_attention_task){q, k, v, D, T, K, 0, 0.0, KMF_PRECISION_F32, scratch}, 0, H);
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < D; i++)
            if ((t == 194 && i < K) != (bool)isnan(out[t * D + i]))
                return "NaN of a query is not where it belongs";
    k[5 * D + K] = NAN; /* one key of head 1: all of that head */
    kmf_attention_forward_train(
        out, D, NULL,
        &(kmf_attention_task){q, k, v, D, T, K, 0, 0.0, KMF_PRECISION_F32, scratch}, 0, H);
    kmf_free(scratch);
    for (size_t t = 0; t < T; t++)
        for (size_t i = K; i < D; i++)
            if (!isnan(out[t * D + i]))
                return "NaN of a key was lost";
    return NULL;
}

/* Scores of hundreds: exp would overflow without the maximum taken off. */
static const char *attention_stands_large_scores(void)
{
    enum { T = 5, K = 4 };
    float q[T * K], k[T * K], v[T * K], out[T * K];
    float *scratch = kmf_floats(kmf_attention_train_scratch(T, K, KMF_PRECISION_F32), NULL);
    if (!scratch)
        return "no memory";
    fill(v, T * K, 1.0f);
    for (size_t i = 0; i < T * K; i++) {
        q[i] = 100.0f;
        k[i] = i / K == 3 ? 100.0f : 1.0f;
    }
    kmf_attention_forward_train(
        out, K, NULL,
        &(kmf_attention_task){q, k, v, K, T, K, 0, 0.0, KMF_PRECISION_F32, scratch}, 0, 1);
    kmf_free(scratch);
    for (size_t i = 0; i < T * K; i++)
        if (!(fabs((double)out[i] - (double)v[3 * K + i % K]) <= 1e-6))
            return "a large score is not all there is";
    return NULL;
}

static const levels_part parts[] = {
    {"attention", attention_is_right},
    {"attention_nan", attention_keeps_nan},
    {"attention_large", attention_stands_large_scores},
};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

LEVELS_TEST(gradients_of_attention_equal_their_definition,
            "attention attention_nan attention_large", levels_vectors[_i])

START_TEST(attention_scratch_that_does_not_fit_is_0)
{
    const kmf_precision f32 = KMF_PRECISION_F32;
    static const size_t sizes[][2] = {{SIZE_MAX / 8, 64}, {64, SIZE_MAX / 8}, {SIZE_MAX, 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        ck_assert_uint_eq(kmf_attention_train_scratch(sizes[i][0], sizes[i][1], f32), 0);
        ck_assert_uint_eq(kmf_attention_backward_scratch(sizes[i][0], sizes[i][1], f32), 0);
    }
    /* Linear in T: blocks of rows, keys and values; of 1152 and 192 all panels are whole. */
    size_t rows = KMF_ATTENTION_TRAIN_ROWS, T = 1152, K = 192;
    size_t packed = kmf_gemm_inner_floats(T, K, KMF_GEMM_TILES);
    ck_assert_uint_ge(packed, T * K);
    ck_assert_uint_eq(packed, kmf_gemm_inner_floats(K, T, KMF_GEMM_TILES));
    ck_assert_uint_eq(kmf_attention_train_scratch(T, K, f32), rows * T + 2 * packed);
    ck_assert_uint_eq(kmf_attention_train_scratch(2 * T, K, f32), 2 * (rows * T + 2 * packed));
    ck_assert_uint_eq(kmf_attention_backward_scratch(T, K, f32),
                      (2 * rows + 1) * T + 3 * packed);
    ck_assert_uint_ge(kmf_attention_train_scratch(100, 5, f32), (100 + 2 * 5) * 100);
    ck_assert_uint_eq(kmf_attention_train_scratch(101, 5, f32) % 16, 0);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 2)
        return levels_child(parts, N_PARTS, argv);
    TCase *tcase = untimed_case();
    tcase_add_loop_test(tcase, gradients_of_attention_equal_their_definition, 0, N_VECTORS);
    tcase_add_test(tcase, attention_scratch_that_does_not_fit_is_0);
    return run_case("attention_train", tcase);
}
