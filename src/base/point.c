/* SPDX-License-Identifier: MIT */
#include "base/point.h"

#include <langinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static locale_t plain; /* for as long as the process */

static void make_plain(void)
{
    plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

locale_t kmf_point_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (strcmp(nl_langinfo(RADIXCHAR), ".") == 0)
        return (locale_t)0;
    pthread_once(&once, make_plain);
    return plain ? uselocale(plain) : (locale_t)0;
}

void kmf_point_end(locale_t before)
{
    if (before)
        uselocale(before);
}

int kmf_vprint(char *text, size_t cap, const char *format, va_list args)
{
    locale_t before = kmf_point_begin();
    int n = vsnprintf(text, cap, format, args);
    kmf_point_end(before);
    return n;
}

int kmf_print(char *text, size_t cap, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = kmf_vprint(text, cap, format, args);
    va_end(args);
    return n;
}

double kmf_read_double(const char *text, char **end)
{
    locale_t before = kmf_point_begin();
    double value = strtod(text, end);
    kmf_point_end(before);
    return value;
}
