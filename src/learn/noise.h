/* SPDX-License-Identifier: MIT */
/*
 * Draws from a discrete distribution in constant time: Walker's alias method (A. J. Walker, "An
 * efficient method for generating discrete random variables with general distributions", ACM TOMS
 * 3, 1977; the construction with two stacks is M. D. Vose's, 1991).
 *
 * n equal bins; bin i holds i itself up to a threshold and one other element above it.
 */
#ifndef KMF_NOISE_H
#define KMF_NOISE_H

#include "kmerformer.h"

typedef struct kmf_noise {
    uint32_t n;
    struct kmf_noise_bin {
        uint32_t below; /* a draw below it, of 2^32, means the bin's own element */
        uint32_t other;
    } * bins; /* owned [n] */
} kmf_noise;

/*
 * Element i with probability weight[i] / sum of weights, exact to n 2^-32. Weights are 0 or more,
 * finite, one at least above 0; n from 1 to 2^31. An element of weight 0 is never drawn.
 */
int kmf_noise_make(kmf_noise *noise, const double *weight, size_t n,
                   kmf_err *err) KMF_MUST_CHECK;
/* Accepts a zeroed one. */
void kmf_noise_clear(kmf_noise *noise);

/* The element that 64 random bits stand for. */
static inline uint32_t kmf_noise_draw(const kmf_noise *noise, uint64_t random)
{
    uint32_t i = (uint32_t)((random >> 32) * noise->n >> 32);
    const struct kmf_noise_bin *bin = &noise->bins[i];
    return (uint32_t)random < bin->below ? i : bin->other;
}

#endif
