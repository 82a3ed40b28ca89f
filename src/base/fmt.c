/* SPDX-License-Identifier: MIT */
/*
 * "%.8g" and "%.9g", ten times faster.
 *
 * With e = floor(log10 |v|), eight digits are the integer nearest to s = |v| 10^(7-e). A float has
 * 24 bits and powers of ten up to 10^22 are exact in a double, so s carries one rounding: an error
 * below 10^8 2^-53 = 1.2e-8, for nine digits 1.2e-7. The nearest integer is certain unless s lies
 * that close to a half; there, and outside the exact powers, printf itself decides. The test
 * compares both over millions of floats and all the ties.
 */
#include "base/fmt.h"

#include "base/cpu.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define DIGITS_MAX 9
#define POWER_MAX 22
#define DOUBT 1e-6

static const double power10[POWER_MAX + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                              1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                              1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static size_t by_printf(char *text, float value, int digits)
{
    char buffer[32];
    int n = snprintf(buffer, sizeof buffer, "%.*g", digits, (double)value);
    memcpy(text, buffer, (size_t)n);
    return (size_t)n;
}

/* a scaled so that its first digit is worth 10^(digits-1); false if the factor is not exact. */
static KMF_INLINE int scaled(double a, int e, int digits, double *s)
{
    int power = digits - 1 - e;
    if (power > POWER_MAX || power < -POWER_MAX)
        return 0;
    *s = power >= 0 ? a * power10[power] : a / power10[-power];
    return 1;
}

/* The n significant digits at d, worth d[0].d[1].. 10^e, laid out as %g does. */
static KMF_INLINE size_t lay_out(char *text, const char *d, int n, int e, int digits)
{
    char *p = text;
    if (e < -4 || e >= digits) {
        *p++ = d[0];
        if (n > 1) {
            *p++ = '.';
            memcpy(p, d + 1, (size_t)(n - 1));
            p += n - 1;
        }
        *p++ = 'e';
        *p++ = e < 0 ? '-' : '+';
        int x = e < 0 ? -e : e;
        *p++ = (char)('0' + x / 10);
        *p++ = (char)('0' + x % 10);
    } else if (e < 0) {
        *p++ = '0';
        *p++ = '.';
        for (int i = -1; i > e; i--)
            *p++ = '0';
        memcpy(p, d, (size_t)n);
        p += n;
    } else {
        for (int i = 0; i <= e; i++)
            *p++ = i < n ? d[i] : '0';
        if (n > e + 1) {
            *p++ = '.';
            memcpy(p, d + e + 1, (size_t)(n - e - 1));
            p += n - e - 1;
        }
    }
    return (size_t)(p - text);
}

static KMF_INLINE size_t format(char *text, float value, int digits)
{
    char d[DIGITS_MAX];
    double a = fabs((double)value);
    double s;
    if (isnan(value)) {
        memcpy(text, "nan", 3);
        return 3;
    }
    if (isinf(value))
        return by_printf(text, value, digits);
    size_t sign = signbit(value) ? 1 : 0;
    text[0] = '-';
    if (a == 0) {
        text[sign] = '0';
        return sign + 1;
    }

    uint64_t bits;
    memcpy(&bits, &a, sizeof bits);
    int e2 = (int)(bits >> 52) - 1023;          /* a is a float, so normal as a double */
    int e = (int)(e2 * 0.30102999566398119521); /* log10 2; off by one at most */
    if (!scaled(a, e, digits, &s))
        return by_printf(text, value, digits);
    if (s >= power10[digits])
        e++;
    else if (s < power10[digits - 1])
        e--;
    if (!scaled(a, e, digits, &s))
        return by_printf(text, value, digits);
    uint32_t m = (uint32_t)s;
    double rest = s - m;
    if (fabs(rest - 0.5) < DOUBT)
        return by_printf(text, value, digits);
    m += rest > 0.5;
    if (m == (uint32_t)power10[digits]) {
        m = (uint32_t)power10[digits - 1];
        e++;
    }
    for (int i = digits - 1; i >= 0; i--, m /= 10)
        d[i] = (char)('0' + m % 10);
    int n = digits;
    while (n > 1 && d[n - 1] == '0')
        n--;
    return sign + lay_out(text + sign, d, n, e, digits);
}

size_t kmf_format_float(char *text, float value)
{
    return format(text, value, 8);
}

size_t kmf_format_float9(char *text, float value)
{
    return format(text, value, 9);
}

size_t kmf_format_uint(char *text, uint64_t value)
{
    char digits[KMF_UINT_TEXT];
    char *p = digits + sizeof digits;
    if (value < 10) {
        *text = (char)('0' + value);
        return 1;
    }
    for (; value > 0; value /= 10)
        *--p = (char)('0' + value % 10);
    size_t n = (size_t)(digits + sizeof digits - p);
    memcpy(text, p, n);
    return n;
}
