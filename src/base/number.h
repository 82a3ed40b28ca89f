/* SPDX-License-Identifier: MIT */
/* Numbers from text: where strtof is too slow, and where strtoull takes too much. */
#ifndef KMF_NUMBER_H
#define KMF_NUMBER_H

#include <stdint.h>

/*
 * Reads the decimal number that begins at text and ends at a blank (space, tab, line end) or at
 * end: digits, perhaps a sign, a point, an exponent; or nan, inf, infinity in either case. *value
 * is the float nearest to it, as strtof has it. Returns the number's end, NULL if there is none, or
 * if it is longer than 127 bytes.
 */
const char *kmf_read_float(const char *text, const char *end, float *value);

/*
 * Reads the digits that text begins with, 1 to 18: any such number fits an int64_t. Returns where
 * they end, NULL if there are none, or more.
 */
const char *kmf_read_digits(const char *text, uint64_t *value);

#endif
