/* SPDX-License-Identifier: MIT */
/*
 * Random numbers with the same bits on every machine: SplitMix64 in numbered streams.
 *
 *   stream s of seed:   state_0 = mix(mix(seed + g) + s g)
 *   i-th number, i >= 1: mix(state_0 + i g)                        g = 0x9e3779b97f4a7c15
 *   mix(z):              z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9
 *                        z = (z ^ z >> 27) * 0x94d049bb133111eb,  and of that z ^ z >> 31
 *
 * Because the state is a plain count in steps of g, any number of any stream can be had without
 * those before it: work can be split over threads and ranks without changing the draw.
 */
#ifndef KMF_RNG_H
#define KMF_RNG_H

#include "kmerformer.h"

/* A place in a stream; a plain value that may be copied and stored. */
typedef struct kmf_rng {
    uint64_t state;
} kmf_rng;

kmf_rng kmf_rng_stream(uint64_t seed, uint64_t stream);
/* 64 random bits. */
uint64_t kmf_rng_next(kmf_rng *rng);
/* Goes on as if n numbers had been drawn. */
void kmf_rng_skip(kmf_rng *rng, uint64_t n);
/*
 * 0 .. n - 1, all equally likely; n >= 1: the next number mod n, but numbers below 2^64 mod n are
 * passed over.
 */
uint64_t kmf_rng_below(kmf_rng *rng, uint64_t n);
/* In [0, 1), a multiple of 2^-53: the upper 53 bits of a number. */
double kmf_rng_unit(kmf_rng *rng);

/* Numbers drawn by one kmf_rng_normal. */
#define KMF_RNG_NORMAL_DRAWS 3
/*
 * Mean 0, variance 1 (to 2^-32), within -6 .. 6, a multiple of 2^-16: normal-like, and exact,
 * so without a library's logarithm or cosine. Of three numbers it is the sum of their twelve 16-bit
 * parts, less 6 (2^16 - 1), over 2^16.
 */
float kmf_rng_normal(kmf_rng *rng);

#endif
