/* SPDX-License-Identifier: MIT */
/*
 * The hash that decides. A 64-bit mix for each element, as in base/rng.h, would take as long as
 * the attention's products, for want of vector instructions that multiply 64 bits. So the counter
 * is split: its upper part and the key go through SplitMix64 once for 2^31 elements, which gives
 * two words a and b, and the lower 31 bits through a 32-bit finaliser between them (constants:
 * C. Wellons, "Prospecting for hash functions", lowbias32, whose last shift only mends the low
 * bits). b between the multiplications keeps two keys from having one mask, shifted. The comparison
 * hangs on the best mixed bits.
 */
#include "nn/dropout.h"

#include "base/cpu.h"
#include "base/rng.h"

#include <assert.h>

#define BLOCK (UINT64_C(1) << 31)

/* The rule for a run of counters inside one block. */
typedef struct rule {
    uint32_t a, b;
    uint32_t below; /* dropped */
    kmf_real scale; /* of what is kept */
} rule;

static KMF_INLINE kmf_real factor(rule r, uint32_t n)
{
    uint32_t z = n + r.a;
    z = (z ^ z >> 16) * UINT32_C(0x7feb352d) + r.b;
    z = (z ^ z >> 15) * UINT32_C(0x846ca68b);
    return z < r.below ? 0 : r.scale;
}

static void scale_run(kmf_real *x, rule r, uint32_t beg, uint32_t n);

static KMF_INLINE void scale_run_body(kmf_real *x, rule r, uint32_t beg, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        x[i] *= factor(r, beg + i);
}

KMF_CLONES(scale_run, (kmf_real * x, rule r, uint32_t beg, uint32_t n), (x, r, beg, n))

static void write_run(kmf_real *factors, rule r, uint32_t beg, uint32_t n);

static KMF_INLINE void write_run_body(kmf_real *factors, rule r, uint32_t beg, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        factors[i] = factor(r, beg + i);
}

KMF_CLONES(write_run, (kmf_real * factors, rule r, uint32_t beg, uint32_t n),
           (factors, r, beg, n))

typedef void run_function(kmf_real *x, rule r, uint32_t beg, uint32_t n);

/* run over the elements first .. first + n - 1, block by block. */
static void for_runs(run_function *run, kmf_real *x, uint64_t key, uint64_t first, double p,
                     size_t n)
{
    while (n > 0) {
        uint64_t left = BLOCK - first % BLOCK;
        size_t count = n < left ? n : (size_t)left;
        kmf_rng rng = kmf_rng_stream(key, first / BLOCK);
        uint64_t words = kmf_rng_next(&rng);
        rule r = {(uint32_t)words, (uint32_t)(words >> 32), (uint32_t)(p * 0x1p32),
                  (kmf_real)(1.0 / (1.0 - p))};
        run(x, r, (uint32_t)(first % BLOCK), (uint32_t)count);
        x += count;
        first += count;
        n -= count;
    }
}

void kmf_dropout_forward(kmf_real *x, size_t ld, uint64_t key, uint64_t first, double p,
                         size_t N, size_t D)
{
    assert(p >= 0.0 && p < 1.0);
    if (p == 0.0)
        return;
    for (size_t n = 0; n < N; n++)
        for_runs(scale_run, x + n * ld, key, first + n * D, p, D);
}

void kmf_dropout_factors(kmf_real *factors, uint64_t key, uint64_t first, double p, size_t n)
{
    assert(p >= 0.0 && p < 1.0);
    for_runs(write_run, factors, key, first, p, n);
}
