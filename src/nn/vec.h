/* SPDX-License-Identifier: MIT */
/* Vectors of four and eight floats, the same anywhere in memory, and masks of sixteen. */
#ifndef KMF_VEC_H
#define KMF_VEC_H

#include "base/cpu.h"

#include <stddef.h>
#include <stdint.h>

typedef float vec4 __attribute__((vector_size(16)));
typedef float vec8 __attribute__((vector_size(32)));
typedef float mem4 __attribute__((vector_size(16), aligned(4), may_alias));
typedef float mem8 __attribute__((vector_size(32), aligned(4), may_alias));

/* The first n of 16 lanes, or all: a mask of AVX-512. */
static KMF_INLINE uint16_t kmf_first_lanes(size_t n)
{
    return (uint16_t)(n < 16 ? (1u << n) - 1u : 0xffffu);
}

#endif
