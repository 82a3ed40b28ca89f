/* SPDX-License-Identifier: MIT */
/* Vectors of four and eight floats, and the same anywhere in memory. */
#ifndef KMF_VEC_H
#define KMF_VEC_H

typedef float vec4 __attribute__((vector_size(16)));
typedef float vec8 __attribute__((vector_size(32)));
typedef float mem4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float mem8 __attribute__((vector_size(32), aligned(4), may_alias));

#endif
