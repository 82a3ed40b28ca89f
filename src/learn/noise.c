/* SPDX-License-Identifier: MIT */
#include "learn/noise.h"

#include "base/mem.h"

#include <assert.h>
#include <math.h>

/*
 * share[i] is n times the probability that bin i has yet to hand out. Bins of less than 1 are
 * filled up from bins of more than 1, which gives each of them its one other element. A bin is a
 * full one in the end: its `other` is itself, so that 2^32 need not fit the threshold.
 */
int kmf_noise_make(kmf_noise *noise, const double *weight, size_t n, kmf_err *err)
{
    assert(n >= 1 && n <= (size_t)1 << 31);
    double *share = kmf_malloc(n, sizeof *share, err);
    uint32_t *stack =
        kmf_malloc(n, sizeof *stack, err); /* poor from the left, rich from the right */
    *noise = (kmf_noise){.n = (uint32_t)n};
    noise->bins = kmf_large(n, sizeof *noise->bins, err);
    if (!share || !stack || !noise->bins) {
        kmf_free(share);
        kmf_free(stack);
        kmf_noise_clear(noise);
        return KMF_ENOMEM;
    }
    double sum = 0;
    uint32_t richest = 0;
    for (size_t i = 0; i < n; i++) {
        assert(isfinite(weight[i]) && weight[i] >= 0);
        sum += weight[i];
        if (weight[i] > weight[richest])
            richest = (uint32_t)i;
    }
    assert(sum > 0);
    size_t n_poor = 0;
    size_t rich = n;
    for (size_t i = 0; i < n; i++) {
        share[i] = weight[i] / sum * (double)n;
        if (share[i] < 1)
            stack[n_poor++] = (uint32_t)i;
        else
            stack[--rich] = (uint32_t)i;
    }
    while (n_poor > 0 && rich < n) {
        uint32_t poor = stack[--n_poor];
        uint32_t giver = stack[rich];
        noise->bins[poor] = (struct kmf_noise_bin){(uint32_t)(share[poor] * 0x1p32), giver};
        share[giver] -= 1 - share[poor];
        if (share[giver] < 1) {
            rich++;
            stack[n_poor++] = giver;
        }
    }
    for (; rich < n; rich++)
        noise->bins[stack[rich]] = (struct kmf_noise_bin){0, stack[rich]};
    /* Left over by rounding: as good as full, unless they must never be drawn. */
    while (n_poor > 0) {
        uint32_t i = stack[--n_poor];
        noise->bins[i] = (struct kmf_noise_bin){0, weight[i] > 0 ? i : richest};
    }
    kmf_free(share);
    kmf_free(stack);
    return 0;
}

void kmf_noise_clear(kmf_noise *noise)
{
    kmf_free(noise->bins);
    *noise = (kmf_noise){0};
}
