/* SPDX-License-Identifier: MIT */
/*
 * The composition of a sequence out of z [C], the mean of its k-mers' rows in a table:
 *
 *   u = LN(z)    h = W1 u + b1    c = u + W2 gelu(h) + b2        h: [4 C]
 *
 * A sequence's bits do not depend on those it comes with, nor on how many there are.
 */
#ifndef KMF_COMPOSITION_H
#define KMF_COMPOSITION_H

#include "nn/real.h"

#include <stddef.h>

#define KMF_COMPOSITION_MAX ((size_t)1024)
#define KMF_COMPOSITION_HIDDEN ((size_t)4) /* numbers of h for one of u */

/* Weights, borrowed; or gradients, of the same shapes. */
typedef struct kmf_composer {
    kmf_real *ln_w, *ln_b; /* [C] */
    kmf_real *w1, *b1;     /* [4C, C], [4C] */
    kmf_real *w2, *b2;     /* [C, 4C], [C] */
    size_t C;
    double eps;
} kmf_composer;

/* What lies between z and c, for N sequences; backward makes use of it, and of dh. */
typedef struct kmf_composing {
    kmf_real *u;       /* [N, C] */
    kmf_real *h, *act; /* [N, 4C]; without a way back they may be one */
    kmf_real *dh;      /* [N, 4C]; NULL: there is no way back */
} kmf_composing;

/* c, z: [N, C]; some at a time are faster than one. */
void kmf_composition_forward(kmf_real *c, const kmf_real *z, const kmf_composer *weights,
                             const kmf_composing *between, size_t N);
/* Adds to gradients, and dz [N, C] is that by z [N, C], from dc [N, C]. */
void kmf_composition_backward(kmf_real *dz, const kmf_composer *gradients, const kmf_real *dc,
                              const kmf_real *z, const kmf_composer *weights,
                              const kmf_composing *between, size_t N);

#endif
