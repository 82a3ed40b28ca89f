/* SPDX-License-Identifier: MIT */
/*
 * exp, the activations and their slopes in plain arithmetic, without tables, calls or branches,
 * so that a compiler turns a loop over them into vector code. libm's expf and erff, a call an
 * element, would take half the time of a small encoder. Constants come from
 * scripts/make_vmath.py, which says how; the errors stated are measured over all floats by
 * tests/test_ops.c and tests/test_training_ops.c.
 *
 * A choice that hangs on a comparison of floats is one instruction, as long as nobody reads the
 * exception flags that it may raise (-fno-trapping-math, which changes no result). They are put so
 * that a NaN stays a NaN.
 *
 * With KMF_DOUBLE (nn/real.h) the same names are libm's functions in double, exact and slow.
 */
#ifndef KMF_VMATH_H
#define KMF_VMATH_H

#include "base/cpu.h"
#include "base/half.h"
#include "nn/real.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * Before a loop whose rounds do not depend on one another, though an array may stand in the place
 * of another: the compiler need not ask whether they overlap. (clang warns where it is told not to
 * optimise and cannot do as asked.)
 */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed"
#define KMF_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define KMF_INDEPENDENT _Pragma("GCC ivdep")
#else
#define KMF_INDEPENDENT
#endif

#ifndef KMF_DOUBLE

/* a b + c, rounded once if fused, which must be a constant where this is inlined. */
static KMF_INLINE float kmf_multiply_add(bool fused, float a, float b, float c)
{
    return fused ? __builtin_fmaf(a, b, c) : a * b + c;
}

/* Adding it to a float leaves the nearest integer, up to 2^22, in the low bits: 1.5 2^23. */
#define KMF_TO_INTEGER 12582912.0f

#define KMF_SIGN_BIT 0x80000000u
#define KMF_INFINITY_BITS 0x7f800000u

/* x, its magnitude cut at max. */
static KMF_INLINE float kmf_limit(float x, float max)
{
    x = x > max ? max : x;
    return x < -max ? -max : x;
}

/* x, no more than max. */
static KMF_INLINE float kmf_at_most(float x, float max)
{
    return x > max ? max : x;
}

/*
 * |x|, no more than max; max for NaN. By integers, whose minimum is one instruction of AVX-512 for
 * gcc, where that of floats is two.
 */
static KMF_INLINE float kmf_magnitude(float x, float max)
{
    uint32_t bits = kmf_bits_of(x) & ~KMF_SIGN_BIT;
    uint32_t most = kmf_bits_of(max);
    return kmf_float_of(bits < most ? bits : most);
}

static KMF_INLINE float kmf_sqrt(float x)
{
    return sqrtf(x);
}

/* max(x, 0); NaN for NaN. */
static KMF_INLINE float kmf_relu(float x)
{
    return x < 0 ? 0 : x;
}

/* The slope of max(x, 0): 1, or 0 up to x = 0; NaN for NaN. */
static KMF_INLINE float kmf_relu_slope(float x)
{
    uint32_t bits = kmf_bits_of(x);
    uint32_t one = kmf_bits_of(1.0f);
    bool number = (bits & ~KMF_SIGN_BIT) <= KMF_INFINITY_BITS;
    uint32_t slope = bits > 0 && bits < KMF_SIGN_BIT ? one : 0;
    return kmf_float_of(number ? slope : bits);
}

/*
 * An integer that is greater the greater x is, and the way back: the maximum of floats as that
 * of integers. NaN lies at either end.
 */
typedef int32_t kmf_order;
#define KMF_ORDER_LEAST INT32_MIN

static KMF_INLINE kmf_order kmf_order_of(float x)
{
    uint32_t bits = kmf_bits_of(x);
    bits = bits >= KMF_SIGN_BIT ? bits ^ ~KMF_SIGN_BIT : bits;
    return (kmf_order)bits;
}

static KMF_INLINE float kmf_order_back(kmf_order order)
{
    uint32_t bits = (uint32_t)order;
    return kmf_float_of(bits >= KMF_SIGN_BIT ? bits ^ ~KMF_SIGN_BIT : bits);
}

/*
 * e^x, relative error at most 1.2e-7 on [-87.3, 88.3]; 0 from -87.7 down to -88.37.
 *
 * x = n ln 2 + r with |r| <= ln(2)/2, n by the addition that pushes the fraction bits out of a
 * float; then e^x = 2^n (1 + r + r^2 s(r)). 2^n is put together from its bits; n = -127 makes
 * those of 0. The product with 2^n, and not an addition to the exponent bits, is what keeps a
 * NaN a NaN.
 */
static KMF_INLINE float kmf_exp_within(bool fused, float x)
{
    const float shift = KMF_TO_INTEGER;
    float t = kmf_multiply_add(fused, x, 1.44269502f, shift);
    float n = t - shift;
    float r = kmf_multiply_add(fused, n, -0.69140625f, x);
    r = kmf_multiply_add(fused, n, -0.0017409306f, r);
    float s = 0.00138146128f;
    s = kmf_multiply_add(fused, s, r, 0.00836871006f);
    s = kmf_multiply_add(fused, s, r, 0.041668389f);
    s = kmf_multiply_add(fused, s, r, 0.166665211f);
    s = kmf_multiply_add(fused, s, r, 0.49999994f);
    float p = 1.0f + kmf_multiply_add(fused, r * r, s, r);
    return p * kmf_float_of((kmf_bits_of(t) + 127u) << 23); /* the low bits of t hold n */
}

/*
 * e^x for any x: 0 from -87.7 down; from 88.37 up it stays at 2.4e38, not infinity: the arguments
 * met here are never positive.
 */
static KMF_INLINE float kmf_exp(bool fused, float x)
{
    return kmf_exp_within(fused, kmf_limit(x, 88.37f));
}

/*
 * 2^x for x up to 0, relative error at most 2e-7 down to -126; 0 from -126.5 down, NaN for NaN.
 * Four products less than e^x, for the weights of attention, whose scores can be in any unit.
 *
 * x = n + f with |f| <= 1/2, exactly; then 2^n (1 + f s(f)). n = -127 makes the bits of 0.
 */
static KMF_INLINE float kmf_exp2_down(bool fused, float x)
{
    const float shift = KMF_TO_INTEGER;
    float y = x < -127.0f ? -127.0f : x;
    float t = y + shift;
    float f = y - (t - shift);
    float s = 0.00132647273f;
    s = kmf_multiply_add(fused, s, f, 0.00967151299f);
    s = kmf_multiply_add(fused, s, f, 0.0555073358f);
    s = kmf_multiply_add(fused, s, f, 0.240222424f);
    s = kmf_multiply_add(fused, s, f, 0.693147004f);
    s = kmf_multiply_add(fused, s, f, 1.0f);
    return s * kmf_float_of((kmf_bits_of(t) + 127u) << 23);
}

/*
 * GELU(x) = x/2 (1 + erf(x / sqrt 2)) = max(x, 0) - g(|x|),
 *    g(a) = a/2 erfc(a / sqrt 2)     = a e^(-a^2/2) q(a),  q a polynomial of degree 10.
 * Absolute error at most 2e-7, or half a unit in the last place of a large x. The limit of a
 * is where e^(-a^2/2) has reached 0; the polynomial is of no use there but finite.
 */
static KMF_INLINE float kmf_gelu(bool fused, float x)
{
    float a = kmf_at_most(fabsf(x), 13.25f);
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
    return kmf_relu(x) - a * kmf_exp_within(fused, -0.5f * a * a) * q;
}

/*
 * The tanh form, x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3), in the same shape:
 * max(x, 0) - a e / (1 + e) with e = e^(-2 u(a)).
 */
static KMF_INLINE float kmf_gelu_tanh(bool fused, float x)
{
    float a = kmf_at_most(fabsf(x), 13.25f);
    float u = a * kmf_multiply_add(fused, 0.044715f, a * a, 1.0f);
    float e = kmf_exp(fused, -1.59576912f * u); /* -2 sqrt(2/pi) */
    return kmf_relu(x) - a * e / (1.0f + e);
}

/*
 * Either GELU to 1e-4 absolute, by a polynomial and nothing else, for values that are rounded to
 * bfloat16 or 8 bits anyway: max(x, 0) - a q(a), a = min(|x|, 4.25).
 */
static KMF_INLINE float kmf_gelu_rough(bool fused, float x)
{
    float a = kmf_magnitude(x, 4.25f);
    float q = 3.14772187e-05f;
    q = kmf_multiply_add(fused, q, a, -0.00050709839f);
    q = kmf_multiply_add(fused, q, a, 0.00263585313f);
    q = kmf_multiply_add(fused, q, a, -0.000801440736f);
    q = kmf_multiply_add(fused, q, a, -0.0395953171f);
    q = kmf_multiply_add(fused, q, a, 0.127748787f);
    q = kmf_multiply_add(fused, q, a, -0.0459739715f);
    q = kmf_multiply_add(fused, q, a, -0.383112639f);
    q = kmf_multiply_add(fused, q, a, 0.498179138f);
    return kmf_multiply_add(fused, -a, q, kmf_relu(x));
}

static KMF_INLINE float kmf_gelu_tanh_rough(bool fused, float x)
{
    float a = kmf_magnitude(x, 4.25f);
    float q = 2.81515349e-05f;
    q = kmf_multiply_add(fused, q, a, -0.000446787599f);
    q = kmf_multiply_add(fused, q, a, 0.00220173621f);
    q = kmf_multiply_add(fused, q, a, 0.000746556208f);
    q = kmf_multiply_add(fused, q, a, -0.0423216969f);
    q = kmf_multiply_add(fused, q, a, 0.129601926f);
    q = kmf_multiply_add(fused, q, a, -0.0457248203f);
    q = kmf_multiply_add(fused, q, a, -0.383595258f);
    q = kmf_multiply_add(fused, q, a, 0.498275697f);
    return kmf_multiply_add(fused, -a, q, kmf_relu(x));
}

/*
 * SiLU(x) = x / (1 + e^-x). Absolute error at most 2e-7, or a unit in the last place of a large x.
 * Below -88, where it is 0, it stays at -5e-37.
 */
static KMF_INLINE float kmf_silu(bool fused, float x)
{
    float y = x < -88.0f ? -88.0f : x;
    return y / (1.0f + kmf_exp(fused, -y));
}

/* SiLU'(x) = s (1 + x (1 - s)),  s = 1 / (1 + e^-x). */
static KMF_INLINE float kmf_silu_slope(bool fused, float x)
{
    float y = kmf_limit(x, 88.0f);
    float s = 1.0f / (1.0f + kmf_exp(fused, -y));
    return s * (1.0f + y * (1.0f - s));
}

/*
 * The slope of a function with f(x) - f(-x) = x, as both forms of GELU are, from that at -|x|:
 * f'(x) + f'(-x) = 1.
 */
static KMF_INLINE float kmf_slope_of(float x, float below)
{
    uint32_t negative = kmf_bits_of(x) & KMF_SIGN_BIT;
    float step = kmf_float_of(negative ? 0 : kmf_bits_of(1.0f));
    return step - kmf_float_of(kmf_bits_of(below) ^ negative);
}

/*
 * GELU'(x) = F(x) + x f(x), F and f the normal distribution and its density:
 *    GELU'(-a) = erfc(a / sqrt 2) / 2 - a f(a) = e^(-a^2/2) r(a),  r a polynomial of degree 11.
 * Absolute error at most 2e-7.
 */
static KMF_INLINE float kmf_gelu_slope(bool fused, float x)
{
    float a = kmf_at_most(fabsf(x), 13.25f);
    float r = -3.15543076e-07f;
    r = kmf_multiply_add(fused, r, a, 7.70877978e-06f);
    r = kmf_multiply_add(fused, r, a, -8.47710035e-05f);
    r = kmf_multiply_add(fused, r, a, 0.000563652779f);
    r = kmf_multiply_add(fused, r, a, -0.0025900905f);
    r = kmf_multiply_add(fused, r, a, 0.00900384784f);
    r = kmf_multiply_add(fused, r, a, -0.0254718177f);
    r = kmf_multiply_add(fused, r, a, 0.0619239323f);
    r = kmf_multiply_add(fused, r, a, -0.13280578f);
    r = kmf_multiply_add(fused, r, a, 0.249972567f);
    r = kmf_multiply_add(fused, r, a, -0.797882855f);
    r = kmf_multiply_add(fused, r, a, 0.49999997f);
    return kmf_slope_of(x, kmf_exp_within(fused, -0.5f * a * a) * r);
}

/*
 * The tanh form's, with s = (1 + tanh u) / 2 = 1 / (1 + e) and e = e^(-2 u(a)):
 * its slope at -a is e s (1 - 2 a s u'(a)).
 */
static KMF_INLINE float kmf_gelu_tanh_slope(bool fused, float x)
{
    float a = kmf_at_most(fabsf(x), 13.25f);
    float u = a * kmf_multiply_add(fused, 0.044715f, a * a, 1.0f);
    float du = kmf_multiply_add(fused, 0.134145f, a * a, 1.0f);
    float e = kmf_exp(fused, -1.59576912f * u);
    float s = 1.0f / (1.0f + e);
    return kmf_slope_of(x, e * s * (1.0f - 1.59576912f * a * du * s));
}

#else

static inline double kmf_sqrt(double x)
{
    return sqrt(x);
}

static inline double kmf_relu(double x)
{
    return x < 0 ? 0 : x;
}

static inline double kmf_relu_slope(double x)
{
    return x <= 0 ? 0 : isnan(x) ? x : 1;
}

typedef double kmf_order;
#define KMF_ORDER_LEAST (-HUGE_VAL)

static inline kmf_order kmf_order_of(double x)
{
    return x;
}

static inline double kmf_order_back(kmf_order order)
{
    return order;
}

static inline double kmf_exp(bool fused, double x)
{
    (void)fused;
    return exp(x);
}

#define KMF_SQRT_HALF 0.70710678118654752440
#define KMF_SQRT_TAU 2.50662827463100050242         /* sqrt(2 pi) */
#define KMF_SQRT_TWO_OVER_PI 0.79788456080286535588 /* sqrt(2 / pi) */

static inline double kmf_gelu(bool fused, double x)
{
    (void)fused;
    return 0.5 * x * erfc(-KMF_SQRT_HALF * x);
}

static inline double kmf_gelu_slope(bool fused, double x)
{
    (void)fused;
    return 0.5 * erfc(-KMF_SQRT_HALF * x) + x * exp(-0.5 * x * x) / KMF_SQRT_TAU;
}

static inline double kmf_gelu_tanh(bool fused, double x)
{
    (void)fused;
    return 0.5 * x * (1 + tanh(KMF_SQRT_TWO_OVER_PI * (x + 0.044715 * x * x * x)));
}

static inline double kmf_gelu_tanh_slope(bool fused, double x)
{
    (void)fused;
    double t = tanh(KMF_SQRT_TWO_OVER_PI * (x + 0.044715 * x * x * x));
    double du = KMF_SQRT_TWO_OVER_PI * (1 + 3 * 0.044715 * x * x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * du;
}

static inline double kmf_silu(bool fused, double x)
{
    (void)fused;
    return x / (1 + exp(-x));
}

static inline double kmf_silu_slope(bool fused, double x)
{
    (void)fused;
    double s = 1 / (1 + exp(-x));
    return s * (1 + x * (1 - s));
}

#endif

#endif
