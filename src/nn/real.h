/* SPDX-License-Identifier: MIT */
/*
 * The type of the arithmetic's numbers: float, or double where KMF_DOUBLE is defined. The same
 * sources are compiled a second time with it for tests/test_gradients.c, which can then tell a
 * gradient from its finite difference to ten digits instead of three.
 */
#ifndef KMF_REAL_H
#define KMF_REAL_H

#ifdef KMF_DOUBLE
typedef double kmf_real;
#else
typedef float kmf_real;
#endif

/* A constant of that type, rounded once. */
#define KMF_REAL(x) ((kmf_real)(x))

#endif
