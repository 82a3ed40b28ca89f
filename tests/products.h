/* SPDX-License-Identifier: MIT */
/*
 * What tests of matrix products share: three loops in double over the operands as the precision
 * rounds them, bfloat16 by frexp; the settings to run them under; the parts (levels.h).
 */
#ifndef PRODUCTS_H
#define PRODUCTS_H

#include "base/mem.h"
#include "checked.h"
#include "levels.h"
#include "nn/gemm.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>

static uint64_t seed = 88172645463325252u;

static inline float *random_floats(size_t n)
{
    float *x = kmf_floats(n, NULL);
    for (size_t i = 0; x && i < n; i++)
        x[i] = levels_random(&seed);
    return x;
}

/* ---------------------------------------------------------------- second sources --------- */

/* Loops that take most of the time of a test, and are not what it tests. */
#define UNCHECKED __attribute__((no_sanitize("address", "undefined")))

/* To 8 bits of mantissa, ties to even. */
static inline float bf16_of(float x)
{
    int exponent;
    double mantissa = frexp((double)x, &exponent);
    return (float)ldexp(nearbyint(ldexp(mantissa, 8)), exponent - 8);
}

/*
 * Whether c is a b^T to float accuracy: K roundings of sums of at most sum |a b| each.
 * a: [M, K], ld_a   b: [N, K], element (n, k) at b[n * step_n + k * step_k]
 * beside: the size of what was in c before and was taken off again.
 */
UNCHECKED static inline bool is_product(const float *c, size_t ld_c, const float *a,
                                        size_t ld_a, const float *b, size_t step_n,
                                        size_t step_k, size_t M, size_t N, size_t K,
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
            double limit = fmin((double)(K + 2) * 0x1p-24, 1e-6);
            if (!(fabs((double)c[m * ld_c + n] - sum) <= limit * size))
                return false;
        }
    return true;
}

/* The same of a and b as a product of f32 or bf16 rounds them. */
static inline bool is_rounded_product(const float *c, size_t ld_c, const float *a, size_t ld_a,
                                      const float *b, size_t step_n, size_t step_k, size_t M,
                                      size_t N, size_t K, double beside, kmf_operand operand)
{
    assert(operand == KMF_OPERAND_F32 || operand == KMF_OPERAND_BF16);
    if (operand == KMF_OPERAND_F32)
        return is_product(c, ld_c, a, ld_a, b, step_n, step_k, M, N, K, beside);
    float *x = kmf_floats(M * K, NULL);
    float *y = kmf_floats(N * K, NULL);
    for (size_t m = 0; x && m < M; m++)
        for (size_t k = 0; k < K; k++)
            x[m * K + k] = bf16_of(a[m * ld_a + k]);
    for (size_t n = 0; y && n < N; n++)
        for (size_t k = 0; k < K; k++)
            y[n * K + k] = bf16_of(b[n * step_n + k * step_k]);
    bool right = x && y && is_product(c, ld_c, x, K, y, K, 1, M, N, K, beside);
    kmf_free(x);
    kmf_free(y);
    return right;
}

/* ---------------------------------------------------------------- settings --------------- */

/*
 * Levels above what the other tests go through, at which the products of float32 are the same: one
 * of them under sanitizers.
 */
static const char *const settings[] = {"KMERFORMER_CPU=avx512", "KMERFORMER_CPU=vnni",
                                       "KMERFORMER_CPU=bf16"};
enum { N_ABOVE = CHECKED ? 1 : sizeof settings / sizeof settings[0] };
enum { N_SETTINGS = (int)N_LEVELS + (int)N_ABOVE };

static inline const char *setting(int i)
{
    return i < (int)N_LEVELS ? levels_all[i] : settings[i - (int)N_LEVELS];
}

/* "f32 f32": what is used for bf16 and int8. */
static inline const char *here(void)
{
    printf("%s %s", kmf_precision_names[kmf_precision_here(KMF_PRECISION_BF16)],
           kmf_precision_names[kmf_precision_here(KMF_PRECISION_INT8)]);
    return NULL;
}

/* "f32 int8": what the processor has, under these settings. */
static inline bool has(const char *precision, const char *under)
{
    char said[256] = "";
    levels_run("here", under, said);
    return strstr(said, precision) != NULL;
}

/* With either engine of float32; bytes need less of a processor than bfloat16. */
static const char *const precise[] = {"",
                                      "KMERFORMER_GEMM=openblas",
                                      "KMERFORMER_CPU=bf16",
                                      "KMERFORMER_CPU=vnni",
                                      "KMERFORMER_CPU=avxvnni",
                                      "KMERFORMER_CPU=avx2"};
enum { N_PRECISE = sizeof precise / sizeof precise[0], N_BF16 = 3 }; /* the first, with bf16 */

/* A part for a kind of operand: weight_F32, weight_BF16, .. */
#define PART(name, operand, function)           \
    static const char *name##_##operand(void)   \
    {                                           \
        return function(KMF_OPERAND_##operand); \
    }

#endif
