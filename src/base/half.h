/* SPDX-License-Identifier: MIT */
/*
 * The two 16-bit floats of checkpoints and their way to and from float32.
 *
 *   F16   IEEE binary16:  sign 1, exponent 5 (bias 15),  fraction 10
 *   BF16  bfloat16:       sign 1, exponent 8 (bias 127), fraction 7: a float32 cut in half
 *
 * Widening is exact. Narrowing rounds to nearest, ties to even; what is too large becomes an
 * infinity, a NaN stays a (quiet) NaN. The same bits on every machine. F16 has no branch either
 * way, so that loops over it become vector code.
 */
#ifndef KMF_HALF_H
#define KMF_HALF_H

#include "base/cpu.h"
#include "kmerformer.h"

#include <stddef.h>
#include <string.h>

static KMF_INLINE float kmf_float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static KMF_INLINE uint32_t kmf_bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/*
 * Exponent and fraction go to their places, and the bias from 15 to 127. A subnormal with the
 * exponent of 2^-14 is 2^-14 too much. An infinity or a NaN keeps all ones.
 */
static inline float kmf_f16_to_f32(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t rest = (uint32_t)(half & 0x7fffu) << 13;
    uint32_t bits = kmf_bits_of(kmf_float_of(rest + (113u << 23)) - 0x1p-14f);
    bits = rest < 1u << 23 ? bits : rest + (112u << 23);
    bits = rest >= 31u << 23 ? rest | 0x7f800000u : bits;
    return kmf_float_of(sign | bits);
}

/*
 * Dropping the 13 low bits of a number m after adding 2^12 - 1 and the lowest bit that stays is
 * rounding to nearest with ties to even: below the middle nothing carries, above it does, and in
 * the middle exactly when that bit is odd. A carry out of the fraction runs into the exponent,
 * which is right too: 1.11..1 becomes 10.0, the largest finite number infinity. What is below
 * 2^-14 is subnormal, in units of 2^-24, as a float32 is that has 1/2 added to it.
 */
static inline uint16_t kmf_f16_from_f32(float value)
{
    uint32_t sign = (kmf_bits_of(value) >> 16) & 0x8000u;
    uint32_t rest = kmf_bits_of(value) & 0x7fffffffu;
    uint32_t half = (rest - (112u << 23) + 0xfffu + (rest >> 13 & 1u)) >> 13;
    uint32_t small = kmf_bits_of(kmf_float_of(rest) + 0.5f) - kmf_bits_of(0.5f);
    half = rest < 113u << 23 ? small : half;
    half = rest >= 143u << 23 ? 0x7c00u : half; /* 2^16 and more, infinity */
    half = rest > 0x7f800000u ? 0x7e00u | (rest >> 13 & 0x3ffu) : half;
    return (uint16_t)(sign | half);
}
/* n of them. */
void kmf_f16_narrow(uint16_t *halves, const float *values, size_t n);

static inline float kmf_bf16_to_f32(uint16_t half)
{
    return kmf_float_of((uint32_t)half << 16);
}
uint16_t kmf_bf16_from_f32(float value);

#endif
