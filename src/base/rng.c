/* SPDX-License-Identifier: MIT */
/*
 * SplitMix64: G. L. Steele, D. Lea, C. H. Flood, "Fast splittable pseudorandom number
 * generators", OOPSLA 2014, figure 14 with the mixing constants of D. Stafford's variant 13.
 *
 * mix is a bijection of 64-bit words, so one stream visits each word once in 2^64 draws.
 * Streams start at mixed places of the same orbit; two of n draws overlap with probability n /
 * 2^63.
 *
 * The normal-like number is the sum of twelve uniform 16-bit integers u (Irwin and Hall). Each
 * has mean (2^16 - 1) / 2 and variance (2^32 - 1) / 12, so the sum less 6 (2^16 - 1), over
 * 2^16, has mean 0 and variance 1 - 2^-32. The sum has 20 bits: every step is exact in a float.
 * The tails end at 6 and the excess kurtosis is -0.1, which does not matter for a first weight.
 */
#include "base/rng.h"

#include <assert.h>

#define GAMMA UINT64_C(0x9e3779b97f4a7c15)

static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

kmf_rng kmf_rng_stream(uint64_t seed, uint64_t stream)
{
    return (kmf_rng){mix(mix(seed + GAMMA) + stream * GAMMA)};
}

uint64_t kmf_rng_next(kmf_rng *rng)
{
    rng->state += GAMMA;
    return mix(rng->state);
}

void kmf_rng_skip(kmf_rng *rng, uint64_t n)
{
    rng->state += n * GAMMA;
}

/* Numbers below 2^64 mod n are drawn again, so that each remainder has equally many left. */
uint64_t kmf_rng_below(kmf_rng *rng, uint64_t n)
{
    assert(n >= 1);
    uint64_t surplus = (UINT64_MAX - n + 1) % n;
    uint64_t x;
    do {
        x = kmf_rng_next(rng);
    } while (x < surplus);
    return x % n;
}

double kmf_rng_unit(kmf_rng *rng)
{
    return (double)(kmf_rng_next(rng) >> 11) * 0x1p-53;
}

float kmf_rng_normal(kmf_rng *rng)
{
    int32_t sum = 0;
    for (int i = 0; i < KMF_RNG_NORMAL_DRAWS; i++) {
        uint64_t x = kmf_rng_next(rng);
        sum += (int32_t)(x & 0xffff) + (int32_t)(x >> 16 & 0xffff) +
               (int32_t)(x >> 32 & 0xffff) + (int32_t)(x >> 48);
    }
    return (float)(sum - 6 * 65535) * 0x1p-16f;
}
