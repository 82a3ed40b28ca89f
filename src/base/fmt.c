/* SPDX-License-Identifier: MIT */
/*
 * "%.8g" and "%.9g" in a fourteenth of their time (tests/bench/results/pipeline.md).
 *
 * With e = floor(log10 |v|), eight digits are the integer nearest to s = |v| 10^(7-e). A float has
 * 24 bits and powers of ten up to 10^22 are exact in a double, so s carries one rounding: an error
 * below 10^8 2^-53 = 1.2e-8, for nine digits 1.2e-7. The nearest integer is certain unless s lies
 * that close to a half; there, and outside the exact powers, printf itself decides. The test
 * compares both over millions of floats and all the ties.
 *
 * e is floor(log10 2^x), x the exponent of two, or one more. Which of them is told by comparing
 * with a power of ten as a double: if it is not exact it still lies where no float does.
 *
 * What limits the speed is how many steps wait for the one before, so there are few of them, and no
 * branch that could go either way.
 */
#include "base/fmt.h"

#include "base/cpu.h"
#include "base/half.h"
#include "base/le.h"
#include "base/point.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#define DOUBT 1e-6
#define WHOLE 0x1p52 /* a number below, added to it, is rounded to a whole one: its last bits */
#define ZEROS 0x3030303030303030u /* letters */

/* Of numbers in between the digits are found here, of others by printf. */
#define E_MIN (-14)
#define E_MAX 22

/* 10^i at i - E_MIN. */
static const double powers[] = {1e-14, 1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5,
                                1e-4,  1e-3,  1e-2,  1e-1,  1e0,   1e1,  1e2,  1e3,  1e4,  1e5,
                                1e6,   1e7,   1e8,   1e9,   1e10,  1e11, 1e12, 1e13, 1e14, 1e15,
                                1e16,  1e17,  1e18,  1e19,  1e20,  1e21, 1e22};

static KMF_INLINE double power10(int i)
{
    return powers[i - E_MIN];
}

static KMF_APART size_t by_printf(char *text, float value, int n_digits)
{
    char buffer[32];
    int n = kmf_print(buffer, sizeof buffer, "%.*g", n_digits, (double)value);
    memcpy(text, buffer, (size_t)n);
    return (size_t)n;
}

/* 0, NaN, an infinity, or a number far from 1. */
static size_t unusual(char *text, float value, int n_digits)
{
    if (isnan(value)) {
        memcpy(text, "nan", 3);
        return 3;
    }
    if (value < 0 || value > 0)
        return by_printf(text, value, n_digits);
    size_t sign = signbit(value) ? 1 : 0;
    text[0] = '-';
    text[sign] = '0';
    return sign + 1;
}

/* floor(x log10 2) of the exponent of two, x = biased - 127. */
static KMF_INLINE int floor_log10(uint32_t biased)
{
    const uint32_t log10_2 = 78913; /* in units of 2^-18: enough for |x| to 1650 */
    const uint32_t above = 64;      /* all these logarithms */
    return (int)((biased * log10_2 + (above << 18) - 127 * log10_2) >> 18) - (int)above;
}

/* Significant digits: the first one alone if there are nine, and eight, which begin with byte 0. */
typedef struct decimal {
    uint32_t first;
    uint64_t eight; /* as letters */
    int n;          /* of all, without zeros at the end; 1 or more */
} decimal;

/*
 * m < 10^8 is two numbers of four digits, these four of two, and these eight of one, in lanes of
 * 32, 16 and 8 bits: a number is divided by multiplication, which is exact for those below 10^4
 * and 10^2, and what is left over takes the lane above.
 */
static KMF_INLINE uint64_t eight_digits(uint32_t m)
{
    uint64_t fours = m / 10000 | (uint64_t)(m % 10000) << 32;
    uint64_t hundreds = (fours * 10486 >> 20) & 0x0000007f0000007fu;
    uint64_t twos = hundreds | (fours - 100 * hundreds) << 16;
    uint64_t tens = (twos * 103 >> 10) & 0x000f000f000f000fu;
    return tens | (twos - 10 * tens) << 8;
}

static KMF_INLINE decimal decimal_of(uint32_t m, int n)
{
    uint32_t first = n > 8 ? m / 100000000 : 0;
    uint64_t eight = eight_digits(m - first * 100000000);
    int zeros = eight ? __builtin_clzll(eight) / 8 : 8;
    return (decimal){
        .first = first, .eight = eight | ZEROS, .n = n - zeros > 1 ? n - zeros : 1};
}

static KMF_INLINE void put_digits(char *text, const decimal *d, int lead)
{
    if (lead)
        *text = (char)('0' + d->first);
    kmf_le_store64((unsigned char *)text + lead, d->eight);
}

/* Digits worth d.ddd 10^e, of which the eight are those from `lead` on, laid out as %g does. */
static KMF_INLINE size_t lay_out(char *text, const decimal *d, int e, int lead)
{
    if (e >= -4 && e < 0) {
        memcpy(text, "0.000000", 8);
        int before = 1 - e; /* the zeros, and the point */
        put_digits(text + before, d, lead);
        return (size_t)before + (size_t)d->n;
    }
    put_digits(text, d, lead);
    if (e >= 0 && e < 8 + lead) {
        int behind = 4 * (e + 1 - lead); /* bits, half of those of digits before the point */
        text[e + 1] = '.';
        kmf_le_store64((unsigned char *)text + e + 2, d->eight >> behind >> behind);
        return (size_t)(d->n > e + 1 ? d->n + 1 : e + 1);
    }
    int x = e < 0 ? -e : e;
    char *p = text + 1;
    if (d->n > 1) {
        memmove(text + 2, text + 1, (size_t)(d->n - 1));
        text[1] = '.';
        p += d->n;
    }
    *p++ = 'e';
    *p++ = e < 0 ? '-' : '+';
    *p++ = (char)('0' + x / 10);
    *p++ = (char)('0' + x % 10);
    return (size_t)(p - text);
}

static KMF_INLINE size_t format(char *text, float value, int n)
{
    uint32_t bits = kmf_bits_of(value);
    size_t sign = bits >> 31;
    double a = fabs((double)value);
    int e = floor_log10(bits >> 23 & 255);
    if (e < E_MIN || e >= E_MAX)
        return unusual(text, value, n);
    e += a >= power10(e + 1);
    double s = e < n ? a * power10(n - 1 - e) : a / power10(e + 1 - n);
    double whole = s + WHOLE;
    if (fabs(s - (whole - WHOLE)) > 0.5 - DOUBT)
        return by_printf(text, value, n);
    uint64_t m;
    memcpy(&m, &whole, sizeof m);
    m &= UINT32_MAX;
    if (m == (uint64_t)power10(n)) {
        m = (uint64_t)power10(n - 1);
        e++;
    }
    text[0] = '-';
    decimal d = decimal_of((uint32_t)m, n);
    return sign + lay_out(text + sign, &d, e, n - 8);
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
