/* SPDX-License-Identifier: MIT */
/*
 * Numbers with a decimal point, whatever locale the program around the library has set: what reads
 * or prints a real number outside kmf_read_float and kmf_format_float does so by these.
 */
#ifndef KMF_POINT_H
#define KMF_POINT_H

#include "kmerformer.h"

#include <locale.h>
#include <stdarg.h>

/* vsnprintf, snprintf and strtod. */
int kmf_vprint(char *text, size_t cap, const char *format, va_list args) KMF_PRINTF(3, 0);
int kmf_print(char *text, size_t cap, const char *format, ...) KMF_PRINTF(3, 4);
double kmf_read_double(const char *text, char **end);

/*
 * From begin to end the calling thread has the locale "C", if that of the program has another
 * point. end is given what begin returned, which may be 0: nothing was changed.
 */
locale_t kmf_point_begin(void);
void kmf_point_end(locale_t before);

#endif
