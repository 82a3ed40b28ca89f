/* SPDX-License-Identifier: MIT */
#ifndef KMF_NARROW_H
#define KMF_NARROW_H

#include "base/cpu.h"

#include <stddef.h>
#include <stdint.h>
#if KMF_X86_LEVELS
#include <immintrin.h>

/* The bfloat16 next to each of x, as a float, and x becomes what is left. */
KMF_TARGET_BF16 static KMF_INLINE __m512 kmf_take_part(__m512 *x)
{
    __m512i up = _mm512_add_epi32(_mm512_castps_si512(*x), _mm512_set1_epi32(0x8000));
    __m512 part = _mm512_castsi512_ps(_mm512_and_si512(up, _mm512_set1_epi32(-0x10000)));
    *x = _mm512_sub_ps(*x, part);
    return part;
}

/*
 * x and y, 32 numbers, to 32 bfloat16 side by side for each of their parts (nn/kernels.h), one
 * part `step` words behind the other.
 */
KMF_TARGET_BF16 static KMF_INLINE void kmf_store_parts(uint32_t *to, size_t step, size_t parts,
                                                       __m512 x, __m512 y)
{
    for (size_t p = 1; p < parts; p++, to += step) {
        __m512 a = kmf_take_part(&x);
        __m512 b = kmf_take_part(&y);
        _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(b, a));
    }
    _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(y, x));
}

/* The first n of eight lanes, or all. */
KMF_TARGET_AVX2 static KMF_INLINE __m256i kmf_first_lanes_8(size_t n)
{
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n < 8 ? (int)n : 8), lane);
}

/* 64 integers in 0 .. 255 to bytes, in their order. */
KMF_TARGET_AVX512 static KMF_INLINE __m512i kmf_bytes_of(__m512i a, __m512i b, __m512i c,
                                                         __m512i d)
{
    /* packing goes on within 128 bits: four of a, b, c, d, the next four .. */
    __m512i in_order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i packed = _mm512_packus_epi16(_mm512_packus_epi32(a, b), _mm512_packus_epi32(c, d));
    return _mm512_permutexvar_epi32(in_order, packed);
}

/* The same of 32, eight a vector. */
KMF_TARGET_AVX2 static KMF_INLINE __m256i kmf_bytes_of_8(__m256i a, __m256i b, __m256i c,
                                                         __m256i d)
{
    __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i packed = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
    return _mm256_permutevar8x32_epi32(packed, in_order);
}

/* 32 integers in 0 .. 65535 to halves, in their order. */
KMF_TARGET_AVX512 static KMF_INLINE __m512i kmf_halves_of(__m512i a, __m512i b)
{
    __m512i in_order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    return _mm512_permutexvar_epi64(in_order, _mm512_packus_epi32(a, b));
}

/* The same of 16, eight a vector. */
KMF_TARGET_AVX2 static KMF_INLINE __m256i kmf_halves_of_8(__m256i a, __m256i b)
{
    return _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xd8);
}

/* 32 integers to bytes or, where words have two terms, to halves. terms is a constant. */
KMF_TARGET_AVX2 static KMF_INLINE void kmf_store_units_8(uint8_t *to, size_t terms, __m256i a,
                                                         __m256i b, __m256i c, __m256i d)
{
    __m256i *at = (__m256i *)(void *)to;
    if (terms == 4) {
        _mm256_storeu_si256(at, kmf_bytes_of_8(a, b, c, d));
    } else {
        _mm256_storeu_si256(at, kmf_halves_of_8(a, b));
        _mm256_storeu_si256(at + 1, kmf_halves_of_8(c, d));
    }
}

/*
 * c + a0 b0 + .. of the four bytes, those of a unsigned, or two halves in each word. By hand,
 * because gcc 12 copies each sum for the intrinsic functions. That of eight words is AVX-VNNI's,
 * in the encoding that is its own.
 */
KMF_TARGET_VNNI static KMF_INLINE __m512i kmf_dot_bytes(__m512i a, __m512i b, __m512i c)
{
    __asm__("vpdpbusd %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
}

KMF_TARGET_VNNI static KMF_INLINE __m512i kmf_dot_halves(__m512i a, __m512i b, __m512i c)
{
    __asm__("vpdpwssd %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
}

KMF_TARGET_AVX2 static KMF_INLINE __m256i kmf_dot_bytes_8(__m256i a, __m256i b, __m256i c)
{
    __asm__("%{vex%} vpdpbusd %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
    return c;
}
#endif

#endif
