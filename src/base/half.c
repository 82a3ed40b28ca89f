/* SPDX-License-Identifier: MIT */
/*
 * float32, binary16 and bfloat16 by shifting bits.
 *
 * Narrowing drops n low bits of a binary number m. Adding 2^(n-1) - 1 plus the lowest bit that
 * stays, before the shift, is rounding to nearest with ties to even: below the middle nothing
 * carries, above it does, and in the middle exactly when that bit is odd. A carry out of the
 * fraction runs into the exponent, which is right too: 1.11..1 becomes 10.0, the largest finite
 * number becomes infinity.
 *
 * A binary16 below 2^-14 is subnormal: no hidden one, the unit is 2^-24. A float32 of exponent
 * e (biased) in 102 .. 112 is written as its 24-bit significand, hidden one included, shifted
 * right by 126 - e, so that a one at the end is worth 2^-24. Below 2^-25 all round to zero.
 */
#include "base/half.h"

#include <string.h>

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* m / 2^n, to nearest, ties to even; 1 <= n <= 24, m < 2^31. */
static uint32_t shift_round(uint32_t m, uint32_t n)
{
    uint32_t odd = (m >> n) & 1u;
    return (m + (1u << (n - 1)) - 1u + odd) >> n;
}

uint16_t kmf_f16_from_f32(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t rest = bits & 0x7fffffffu;
    uint32_t exponent = rest >> 23;
    if (rest > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | ((rest >> 13) & 0x3ffu));
    if (exponent >= 143) /* 2^16 and more, infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (exponent >= 113) /* normal; the exponent's bias falls from 127 to 15 */
        return (uint16_t)(sign | shift_round(rest - (112u << 23), 13));
    if (exponent < 102) /* below 2^-25 */
        return (uint16_t)sign;
    uint32_t significand = (rest & 0x7fffffu) | 0x800000u;
    return (uint16_t)(sign | shift_round(significand, 126 - exponent));
}

uint16_t kmf_bf16_from_f32(float value)
{
    uint32_t bits = bits_of(value);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u)
        return (uint16_t)(sign | 0x0040u | rest >> 16);
    return (uint16_t)(sign | ((rest + 0x7fffu + ((rest >> 16) & 1u)) >> 16));
}
