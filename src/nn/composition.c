/* SPDX-License-Identifier: MIT */
#include "nn/composition.h"

#include "nn/dots.h"
#include "nn/gemm.h"
#include "nn/ops.h"

#include <string.h>

void kmf_composition_forward(kmf_real *c, const kmf_real *z, const kmf_composer *weights,
                             const kmf_composing *between, size_t N)
{
    const kmf_composer *w = weights;
    size_t C = w->C, F = KMF_COMPOSITION_HIDDEN * C;
    kmf_real *u = between->u, *h = between->h, *act = between->act;
    kmf_layernorm_copy_forward(u, C, z, C, w->ln_w, w->ln_b, w->eps, N, C);
    kmf_dots_product(h, F, u, C, w->w1, C, N, F, C);
    kmf_bias_forward(h, F, w->b1, N, F);
    kmf_activation_forward(act, F, h, F, KMF_GELU, N, F);
    kmf_dots_product(c, C, act, F, w->w2, F, N, C, F);
    kmf_residual_forward(c, C, u, C, w->b2, N, C);
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
