/* SPDX-License-Identifier: MIT */
/*
 * Why so few examples at a time. With a batch of many the steps become matrix products, which run
 * faster by far; but each row is then moved by many examples at once, from a place that the first
 * of them would have left. Measured on the 6-mers of three bacteria, as the rank correlation of the
 * cosine with the alignment score (scripts/w2v_quality.py), where gensim gives 0.560: products of
 * 42 inputs with 32 shared noise words 0.507, all inputs of a window with its noise words 0.534,
 * the two inputs at one distance, as here, 0.556. What large products would gain is had by keeping
 * the rows in the first-level cache instead (learn/sgns_batch.c).
 *
 * What limits the kernel is the traffic of rows: two inputs to an example halve it.
 */
#include "nn/sgns.h"

#include "base/cpu.h"
#include "nn/vec.h"
#include "nn/vmath.h"

#include <assert.h>
#include <math.h>
#if KMF_X86_LEVELS
#include <immintrin.h>
#endif

/* Examples whose products are taken before the first of their steps. */
#define BATCH 4
/* Floats that the products of a group take up: a vector of 8. */
#define SLOTS 8
/* Those of an example with two inputs: groups of two at the least. */
#define PLACES (2 * KMF_SGNS_TARGETS_MAX / 2 * SLOTS)

/* -log s(z_0) - sum_{j>0} log s(-z_j), the products in groups that are `step` floats apart. */
static double loss_of(const float *z, uint32_t n_targets, uint32_t group, size_t step)
{
    double sum = 0;
    for (uint32_t j = 0; j < n_targets; j++) {
        double product = (double)z[j / group * step + j % group];
        double x = j == 0 ? -product : product;
        sum += x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
    }
    return sum;
}

#if KMF_BASELINE_FMA
static KMF_INLINE vec4 multiply_add(vec4 a, vec4 b, vec4 c)
{
    for (int l = 0; l < 4; l++)
        c[l] = __builtin_fmaf(a[l], b[l], c[l]);
    return c;
}
#define MULTIPLY_ADD(a, b, c) multiply_add(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif
#define LEVEL baseline
#define TARGET
#define LANES 4
#define FMA KMF_BASELINE_FMA
#define GROUP 2
#include "nn/sgns_tile.h"

#if KMF_X86_LEVELS
/* By name: gcc 12 does a loop over the lanes one by one where it is deep inside others. */
#define MULTIPLY_ADD(a, b, c) _mm256_fmadd_ps(a, b, c)
#define LEVEL avx2
#define TARGET KMF_TARGET_AVX2
#define LANES 8
#define FMA 1
#define GROUP 3
#include "nn/sgns_tile.h"

#define MULTIPLY_ADD(a, b, c) _mm512_fmadd_ps(a, b, c)
#define LEVEL avx512
#define TARGET KMF_TARGET_AVX512
#define LANES 16
#define FMA 1
#define GROUP 6
#include "nn/sgns_tile.h"
#endif

static const struct level {
    void (*learn)(float *rows, size_t ld, const kmf_sgns_example *examples, size_t n, bool mean,
                  float alpha, double *loss);
    void (*add)(float *to, float own, const float *from, float scale, size_t n);
} levels[] = {
    [KMF_CPU_BASELINE] = {learn_baseline, add_baseline},
#if KMF_X86_LEVELS
    [KMF_CPU_AVX2] = {learn_avx2, add_avx2},
    [KMF_CPU_AVX512] = {learn_avx512, add_avx512},
#endif
};

void kmf_sgns_learn(float *rows, size_t ld, const kmf_sgns_example *examples, size_t n,
                    bool mean, float alpha, double *loss)
{
    assert(ld % KMF_SGNS_LANES == 0 && ld <= KMF_SGNS_LD_MAX);
    levels[kmf_cpu_vectors()].learn(rows, ld, examples, n, mean, alpha, loss);
}

void kmf_rows_add(float *to, float own, const float *from, float scale, size_t n)
{
    levels[kmf_cpu_vectors()].add(to, own, from, scale, n);
}
