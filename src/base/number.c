/* SPDX-License-Identifier: MIT */
/*
 * kmf_read_float: strtof, several times faster and no less exact (after W. D. Clinger, "How to read
 * floating point numbers accurately", 1990, section 3).
 *
 * The digits make a whole number w and a power of ten p. If w is at most 2^53 and |p| at most 22,
 * both w and 10^|p| are doubles, so w 10^p costs one rounding: d is the double nearest to the
 * number. d is then rounded to a float, and two roundings in a row can differ from one only if the
 * first ended half-way between two floats: for if the number lies on one side of such a middle m,
 * which is a double too, then d lies on the same side or is m. A float has 24 of the double's 53
 * bits, so m has the lower 29 bits 1000...0. There, and for longer numbers, strtof decides. Results
 * lie between 1e-22 and 9e37, where floats are normal and finite.
 */
#include "base/number.h"

#include "base/point.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_MAX 127
#define POWER_MAX 22
#define EXPONENT_MAX 99999
#define WHOLE_MAX ((uint64_t)1 << 53)
#define BELOW_FLOAT (((uint64_t)1 << 29) - 1)
#define HALF_WAY ((uint64_t)1 << 28)

static const double power10[POWER_MAX + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                              1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                              1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static unsigned digit_of(char c)
{
    return (unsigned)((unsigned char)c - '0');
}

/* Is text[0 .. n - 1], without a sign, nan or inf or infinity? */
static bool is_word(const char *text, size_t n)
{
    static const char *const words[] = {"nan", "inf", "infinity"};
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
        size_t same = 0;
        while (same < n && words[w][same] && (text[same] | 0x20) == words[w][same])
            same++;
        if (same == n && !words[w][same])
            return true;
    }
    return false;
}

static const char *by_strtof(const char *text, const char *end, float *value)
{
    char copy[LENGTH_MAX + 1];
    size_t n = (size_t)(end - text);
    char *stop;
    if (n > LENGTH_MAX)
        return NULL;
    memcpy(copy, text, n);
    copy[n] = '\0';
    locale_t before = kmf_point_begin();
    *value = strtof(copy, &stop);
    kmf_point_end(before);
    return stop == copy + n ? end : NULL;
}

static const char *read_word(const char *text, const char *end, float *value)
{
    const char *p = text;
    while (p < end && !is_blank(*p))
        p++;
    const char *word = text < p && (*text == '-' || *text == '+') ? text + 1 : text;
    return is_word(word, (size_t)(p - word)) ? by_strtof(text, p, value) : NULL;
}

/* An exponent, at the e; cut at EXPONENT_MAX, far beyond any float. NULL: it has no digits. */
static const char *read_exponent(const char *p, const char *end, int *power)
{
    int exponent = 0;
    p++;
    bool down = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    if (p == end || digit_of(*p) > 9)
        return NULL;
    for (; p < end && digit_of(*p) <= 9; p++)
        if (exponent < EXPONENT_MAX)
            exponent = exponent * 10 + (int)digit_of(*p);
    *power += down ? -exponent : exponent;
    return p;
}

const char *kmf_read_float(const char *text, const char *end, float *value)
{
    const char *p = text;
    uint64_t whole = 0;
    uint64_t bits;
    int n_digits = 0; /* of whole, from the first that is not 0; more than 19 may not fit */
    int power = 0;
    bool any = false;
    bool minus = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    for (bool fraction = false; p < end; p++) {
        unsigned digit = digit_of(*p);
        if (digit > 9) {
            if (*p != '.' || fraction)
                break;
            fraction = true;
            continue;
        }
        any = true;
        whole = whole * 10 + digit; /* may wrap around where it is of no use */
        n_digits += n_digits > 0 || digit > 0;
        power -= fraction;
        if (p - text > LENGTH_MAX)
            return NULL;
    }
    if (!any)
        return read_word(text, end, value);
    if (p < end && (*p | 0x20) == 'e')
        p = read_exponent(p, end, &power);
    if (!p || (p < end && !is_blank(*p)) || p - text > LENGTH_MAX)
        return NULL;
    if (n_digits > 19 || whole > WHOLE_MAX || power > POWER_MAX || power < -POWER_MAX)
        return by_strtof(text, p, value);
    double d = power < 0 ? (double)whole / power10[-power] : (double)whole * power10[power];
    memcpy(&bits, &d, sizeof bits);
    if ((bits & BELOW_FLOAT) == HALF_WAY)
        return by_strtof(text, p, value);
    *value = (float)(minus ? -d : d);
    return p;
}

const char *kmf_read_digits(const char *text, uint64_t *value)
{
    uint64_t sum = 0;
    size_t n = 0;
    for (; n <= 18 && text[n] >= '0' && text[n] <= '9'; n++)
        sum = sum * 10 + (uint64_t)(text[n] - '0');
    if (n == 0 || n > 18)
        return NULL;
    *value = sum;
    return text + n;
}
