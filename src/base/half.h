/* SPDX-License-Identifier: MIT */
/*
 * The two 16-bit floats of checkpoints and their way to and from float32.
 *
 *   F16   IEEE binary16:  sign 1, exponent 5 (bias 15),  fraction 10
 *   BF16  bfloat16:       sign 1, exponent 8 (bias 127), fraction 7: a float32 cut in half
 *
 * Widening is exact. Narrowing rounds to nearest, ties to even; what is too large becomes an
 * infinity, a NaN stays a (quiet) NaN. Integer arithmetic only: the same bits on every machine.
 */
#ifndef KMF_HALF_H
#define KMF_HALF_H

#include "kmerformer.h"

float kmf_f16_to_f32(uint16_t half);
uint16_t kmf_f16_from_f32(float value);

float kmf_bf16_to_f32(uint16_t half);
uint16_t kmf_bf16_from_f32(float value);

#endif
