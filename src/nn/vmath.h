/* SPDX-License-Identifier: MIT */
/*
 * exp and GELU in plain arithmetic, without tables, calls or branches, so that a compiler turns
 * a loop over them into vector code. libm's expf and erff, a call an element, would take half
 * the time of a small encoder. Constants come from scripts/make_vmath.py, which says how; the
 * errors stated are measured over all floats by tests/test_ops.c.
 *
 * Limits are set and signs taken on the bits of a float, as integers: a choice that hangs on a
 * comparison of floats may raise an exception flag, for which gcc leaves the loop as it is. And
 * a NaN stays a NaN.
 */
#ifndef KMF_VMATH_H
#define KMF_VMATH_H

#include "base/cpu.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* a b + c, rounded once if fused, which must be a constant where this is inlined. */
static KMF_INLINE float kmf_multiply_add(bool fused, float a, float b, float c)
{
    return fused ? __builtin_fmaf(a, b, c) : a * b + c;
}

static KMF_INLINE uint32_t kmf_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static KMF_INLINE float kmf_bits_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#define KMF_SIGN_BIT 0x80000000u
#define KMF_INFINITY_BITS 0x7f800000u

/* x, its magnitude cut at max. */
static KMF_INLINE float kmf_limit(float x, float max)
{
    uint32_t sign = kmf_float_bits(x) & KMF_SIGN_BIT;
    uint32_t size = kmf_float_bits(x) & ~KMF_SIGN_BIT;
    uint32_t most = kmf_float_bits(max);
    size = size > most && size <= KMF_INFINITY_BITS ? most : size;
    return kmf_bits_float(sign | size);
}

/* max(x, 0); NaN for NaN. */
static KMF_INLINE float kmf_relu(float x)
{
    uint32_t bits = kmf_float_bits(x);
    bool below = bits >= KMF_SIGN_BIT && bits <= (KMF_SIGN_BIT | KMF_INFINITY_BITS);
    return kmf_bits_float(below ? 0 : bits);
}

/*
 * An integer that is greater the greater x is, and the way back: the maximum of floats as that
 * of integers. NaN lies at either end.
 */
static KMF_INLINE int32_t kmf_float_order(float x)
{
    uint32_t bits = kmf_float_bits(x);
    bits = bits >= KMF_SIGN_BIT ? bits ^ ~KMF_SIGN_BIT : bits;
    int32_t order;
    memcpy(&order, &bits, sizeof order);
    return order;
}

static KMF_INLINE float kmf_order_float(int32_t order)
{
    uint32_t bits;
    memcpy(&bits, &order, sizeof bits);
    return kmf_bits_float(bits >= KMF_SIGN_BIT ? bits ^ ~KMF_SIGN_BIT : bits);
}

/*
 * e^x, relative error at most 1.2e-7 on [-87.3, 88.3]; 0 from -87.7 down; from 88.37 up it
 * stays at 2.4e38, not infinity: the arguments met here are never positive.
 *
 * x = n ln 2 + r with |r| <= ln(2)/2, n by the addition that pushes the fraction bits out of a
 * float; then e^x = 2^n (1 + r + r^2 s(r)). 2^n is put together from its bits; n = -127 makes
 * those of 0. The product with 2^n, and not an addition to the exponent bits, is what keeps a
 * NaN a NaN.
 */
static KMF_INLINE float kmf_exp(bool fused, float x)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23 */
    float y = kmf_limit(x, 88.37f);
    float t = kmf_multiply_add(fused, y, 1.44269502f, shift);
    float n = t - shift;
    float r = kmf_multiply_add(fused, n, -0.69140625f, y);
    r = kmf_multiply_add(fused, n, -0.0017409306f, r);
    float s = 0.00138146128f;
    s = kmf_multiply_add(fused, s, r, 0.00836871006f);
    s = kmf_multiply_add(fused, s, r, 0.041668389f);
    s = kmf_multiply_add(fused, s, r, 0.166665211f);
    s = kmf_multiply_add(fused, s, r, 0.49999994f);
    float p = 1.0f + kmf_multiply_add(fused, r * r, s, r);
    return p * kmf_bits_float((kmf_float_bits(t) + 127u) << 23); /* the low bits of t hold n */
}

/*
 * GELU(x) = x/2 (1 + erf(x / sqrt 2)) = max(x, 0) - g(|x|),
 *    g(a) = a/2 erfc(a / sqrt 2)     = a e^(-a^2/2) q(a),  q a polynomial of degree 10.
 * Absolute error at most 2e-7, or half a unit in the last place of a large x. The limit of a
 * is where e^(-a^2/2) has reached 0; the polynomial is of no use there but finite.
 */
static KMF_INLINE float kmf_gelu(bool fused, float x)
{
    float a = kmf_limit(fabsf(x), 14.0f);
    float q = 9.07947594e-07f;
    q = kmf_multiply_add(fused, q, a, -2.18752502e-05f);
    q = kmf_multiply_add(fused, q, a, 0.000236165812f);
    q = kmf_multiply_add(fused, q, a, -0.00153121038f);
    q = kmf_multiply_add(fused, q, a, 0.00679177325f);
    q = kmf_multiply_add(fused, q, a, -0.022460416f);
    q = kmf_multiply_add(fused, q, a, 0.0592930056f);
    q = kmf_multiply_add(fused, q, a, -0.131390095f);
    q = kmf_multiply_add(fused, q, a, 0.249538988f);
    q = kmf_multiply_add(fused, q, a, -0.398875684f);
    q = kmf_multiply_add(fused, q, a, 0.499996662f);
    return kmf_relu(x) - a * kmf_exp(fused, -0.5f * a * a) * q;
}

/*
 * The tanh form, x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3), in the same shape:
 * max(x, 0) - a e / (1 + e) with e = e^(-2 u(a)).
 */
static KMF_INLINE float kmf_gelu_tanh(bool fused, float x)
{
    float a = kmf_limit(fabsf(x), 14.0f);
    float u = a * kmf_multiply_add(fused, 0.044715f, a * a, 1.0f);
    float e = kmf_exp(fused, -1.59576912f * u); /* -2 sqrt(2/pi) */
    return kmf_relu(x) - a * e / (1.0f + e);
}

#endif
