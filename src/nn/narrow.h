/* SPDX-License-Identifier: MIT */
#ifndef KMF_NARROW_H
#define KMF_NARROW_H

#include "base/cpu.h"

#if KMF_X86_LEVELS
#include <immintrin.h>

/* 64 integers in 0 .. 255 to bytes, in their order. */
KMF_TARGET_VNNI static KMF_INLINE __m512i kmf_bytes_of(__m512i a, __m512i b, __m512i c,
                                                       __m512i d)
{
    /* packing goes on within 128 bits: four of a, b, c, d, the next four .. */
    __m512i in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i packed = _mm512_packus_epi16(_mm512_packus_epi32(a, b), _mm512_packus_epi32(c, d));
    return _mm512_permutexvar_epi32(in_order, packed);
}
#endif

#endif
