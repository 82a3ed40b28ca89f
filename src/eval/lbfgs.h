/* SPDX-License-Identifier: MIT */
/* The minimum of a smooth function of many numbers, by L-BFGS. */
#ifndef KMF_LBFGS_H
#define KMF_LBFGS_H

#include "kmerformer.h"

/* *value = f(x), gradient = its derivatives there, [n] both. 0 or a negative kmf_code. */
typedef int kmf_objective_fn(void *user, double *value, double *gradient, const double *x,
                             kmf_err *err);

typedef struct kmf_lbfgs_options {
    size_t pairs;      /* of steps and changes of the gradient that are remembered, 1 or more */
    int iterations;    /* at most */
    double tolerance;  /* ends when no |derivative| is larger */
    double least_gain; /* ends when a step lowers f by less than this times max(1, |f|) */
    /* Called before each iteration with the number of those done; NULL: none. */
    void (*before)(void *about, int done);
    void *about;
} kmf_lbfgs_options;

/*
 * Goes downhill from x [n], which becomes the best place found. The same bits for the same f.
 * Returns the number of iterations, or a negative kmf_code: that of fn, KMF_ENOMEM, or
 * KMF_ENUMERIC: f is not finite at the beginning.
 */
int kmf_lbfgs(double *x, size_t n, kmf_objective_fn *fn, void *user,
              const kmf_lbfgs_options *opts, kmf_err *err) KMF_MUST_CHECK;

#endif
