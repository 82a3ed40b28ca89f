/* SPDX-License-Identifier: MIT */
/*
 * AdamW: Adam (Kingma and Ba, 2015, algorithm 1) with decoupled weight decay (Loshchilov and
 * Hutter, 2019, algorithm 2), in the arithmetic of PyTorch's torch.optim.AdamW. For each element,
 * at step t = 1, 2, ...:
 *
 *   g = g clip
 *   w = w - rate decay w
 *   m = beta1 m + (1 - beta1) g
 *   v = beta2 v + (1 - beta2) g^2
 *   w = w - rate / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + epsilon)
 */
#ifndef KMF_ADAMW_H
#define KMF_ADAMW_H

#include "kmerformer.h"
#include "nn/real.h"

typedef struct kmf_adamw_step {
    double rate;        /* the learning rate of this step */
    double beta1;       /* 0 <= beta < 1 */
    double beta2;       /* 0 <= beta < 1 */
    double epsilon;     /* > 0 */
    double decay;       /* 0 for tensors that do not decay */
    double clip;        /* factor of the gradient; 1: as it is */
    double correction1; /* 1 - beta1^t */
    double correction2; /* 1 - beta2^t */
} kmf_adamw_step;

/* Sets both corrections from the betas, for step t >= 1. */
void kmf_adamw_correct(kmf_adamw_step *s, uint64_t t);

/*
 * One step of n weights w with the gradients g (read only) and the moments m and v, 0 before the
 * first step. Elements are independent: any split over threads gives the same bits.
 */
void kmf_adamw_update(kmf_real *w, kmf_real *m, kmf_real *v, const kmf_real *g, size_t n,
                      const kmf_adamw_step *s);

/*
 * The sum of g[i]^2 in double, in an order that depends on n alone; not finite if a g[i] is not.
 */
double kmf_squares(const kmf_real *g, size_t n);

#endif
