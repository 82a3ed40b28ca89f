/* SPDX-License-Identifier: MIT */
/* Numbers as text, where printf is too slow. */
#ifndef KMF_FMT_H
#define KMF_FMT_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that any float needs, without a NUL; they may all be written, however few are returned. */
#define KMF_FLOAT_TEXT 20

#define KMF_UINT_TEXT 20 /* likewise of a uint64_t */

/* Exactly printf's "%.8g" of a float, NaN always as "nan". Returns the length; no NUL. */
size_t kmf_format_float(char *text, float value);
/* The same for "%.9g", from which the float can be read back. */
size_t kmf_format_float9(char *text, float value);
/* Exactly printf's PRIu64. Returns the length; no NUL. */
size_t kmf_format_uint(char *text, uint64_t value);

#endif
