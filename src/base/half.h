/* SPDX-License-Identifier: MIT */
/*
 * The two 16-bit floats of checkpoints and their way to and from float32.
 *
 *   F16   IEEE binary16:  sign 1, exponent 5 (bias 15),  fraction 10
 *   BF16  bfloat16:       sign 1, exponent 8 (bias 127), fraction 7: a float32 cut in half
 *
 * Widening is exact. Narrowing rounds to nearest, ties to even; what is too large becomes an
 * infinity, a NaN stays a (quiet) NaN. The same bits on every machine. Widening has no branch, so
 * that loops over it become vector code.
 */
#ifndef KMF_HALF_H
#define KMF_HALF_H

#include "kmerformer.h"

#include <string.h>

static inline float kmf_float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/*
 * Exponent and fraction go to their places, and the bias from 15 to 127. A subnormal with the
 * exponent of 2^-14 is 2^-14 too much. An infinity or a NaN keeps all ones.
 */
static inline float kmf_f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t rest = (uint32_t)(half & 0x7fffu) << 13;
    float small = kmf_float_of(rest + (113u << 23)) - 0x1p-14f;
    uint32_t bits;
    memcpy(&bits, &small, sizeof bits);
    bits = rest < 1u << 23 ? bits : rest + (112u << 23);
    bits = rest >= 31u << 23 ? rest | 0x7f800000u : bits;
    return kmf_float_of(sign | bits);
}
uint16_t kmf_f16_from_f32(float value);

static inline float kmf_bf16_to_f32(uint16_t half)
{
    return kmf_float_of((uint32_t)half << 16);
}
uint16_t kmf_bf16_from_f32(float value);

#endif
