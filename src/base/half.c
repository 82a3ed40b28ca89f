/* SPDX-License-Identifier: MIT */
#include "base/half.h"

#include "base/cpu.h"

static KMF_INLINE void kmf_f16_narrow_body(uint16_t *restrict halves,
                                           const float *restrict values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        halves[i] = kmf_f16_from_f32(values[i]);
}

KMF_CLONES(kmf_f16_narrow, (uint16_t * halves, const float *values, size_t n),
           (halves, values, n))

uint16_t kmf_bf16_from_f32(float value)
{
    uint32_t bits = kmf_bits_of(value);
    uint32_t sign = (bits >> 16) & 0x8000u;
    uint32_t rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u)
        return (uint16_t)(sign | 0x0040u | rest >> 16);
    return (uint16_t)(sign | ((rest + 0x7fffu + ((rest >> 16) & 1u)) >> 16));
}
