/* SPDX-License-Identifier: MIT */
#include "nn/composition.h"

#include "base/cpu.h"
#include "nn/gemm.h"
#include "nn/ops.h"

#include <string.h>

/* Partial sums of a row's product: what the widest processor adds at a time, a few times over. */
#define LANES 32

/* y[o] += w_o . x for the rows w_o of w [Dout, Din]. */
static void multiply(kmf_real *y, const kmf_real *w, const kmf_real *x, size_t Dout,
                     size_t Din);

static KMF_INLINE kmf_real sum_of(kmf_real part[LANES])
{
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            part[l] += part[l + half];
    return part[0];
}

static KMF_INLINE void multiply_body(kmf_real *restrict y, const kmf_real *restrict w,
                                     const kmf_real *restrict x, size_t Dout, size_t Din)
{
    for (size_t o = 0; o < Dout; o++) {
        const kmf_real *row = w + o * Din;
        kmf_real part[LANES] = {0};
        size_t i = 0;
        for (; i + LANES <= Din; i += LANES)
            for (size_t l = 0; l < LANES; l++)
                part[l] += row[i + l] * x[i + l];
        for (size_t l = 0; i + l < Din; l++)
            part[l] += row[i + l] * x[i + l];
        y[o] += sum_of(part);
    }
}

KMF_CLONES(multiply,
           (kmf_real * y, const kmf_real *w, const kmf_real *x, size_t Dout, size_t Din),
           (y, w, x, Dout, Din))

void kmf_composition_forward(kmf_real *c, const kmf_real *z, const kmf_composer *weights,
                             const kmf_composing *between, size_t i)
{
    const kmf_composer *w = weights;
    size_t C = w->C, F = KMF_COMPOSITION_HIDDEN * C;
    kmf_real *u = between->u + i * C;
    kmf_real *h = between->h + i * F, *act = between->act + i * F;
    kmf_layernorm_copy_forward(u, C, z, C, w->ln_w, w->ln_b, w->eps, 1, C);
    memcpy(h, w->b1, F * sizeof *h);
    multiply(h, w->w1, u, F, C);
    kmf_activation_forward(act, F, h, F, KMF_GELU, 1, F);
    memcpy(c, u, C * sizeof *c);
    kmf_bias_forward(c, C, w->b2, 1, C);
    multiply(c, w->w2, act, C, F);
}

void kmf_composition_backward(kmf_real *dz, const kmf_composer *gradients, const kmf_real *dc,
                              const kmf_real *z, const kmf_composer *weights,
                              const kmf_composing *between, size_t N)
{
    const kmf_composer *w = weights, *d = gradients;
    size_t C = w->C, F = KMF_COMPOSITION_HIDDEN * C;
    int to_weight = KMF_GEMM_TA | KMF_GEMM_ADD;
    kmf_bias_backward(d->b2, dc, C, N, C);
    kmf_gemm_inner(d->w2, F, dc, C, between->act, F, C, F, N, to_weight);
    kmf_gemm_inner(between->dh, F, dc, C, w->w2, F, N, F, C, 0);
    kmf_activation_backward(between->dh, F, between->dh, F, between->h, F, KMF_GELU, N, F);
    kmf_bias_backward(d->b1, between->dh, F, N, F);
    kmf_gemm_inner(d->w1, C, between->dh, F, between->u, C, F, C, N, to_weight);
    memcpy(dz, dc, N * C * sizeof *dz);
    kmf_gemm_inner(dz, C, between->dh, F, w->w1, C, N, C, F, KMF_GEMM_ADD);
    kmf_layernorm_backward(dz, C, d->ln_w, d->ln_b, dz, C, z, C, w->ln_w, w->eps, N, C);
}
