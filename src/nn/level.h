/* SPDX-License-Identifier: MIT */
/*
 * For text that is included once for each processor level (gemm_tile.h says why), LEVEL being its
 * suffix: NAME(stem) is the stem with the suffix.
 */
#ifndef KMF_LEVEL_H
#define KMF_LEVEL_H

#include "base/cpu.h"

#define KMF_GLUE_(a, b) a##b
#define KMF_GLUE(a, b) KMF_GLUE_(a, b)
#define NAME(stem) KMF_GLUE(stem, LEVEL)

#endif
