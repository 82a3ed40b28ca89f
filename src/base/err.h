/* SPDX-License-Identifier: MIT */
/*
 * The one error idiom. What the outside world can spoil takes a kmf_err as its last argument and
 * leaves by `return kmf_fail(err, code, ...)`; what makes an object returns NULL after kmf_fail.
 * The message is one sentence for the user: file, place, expectation; no newline, no capital.
 * What only a programming error can spoil is an assert.
 */
#ifndef KMF_ERR_H
#define KMF_ERR_H

#include "kmerformer.h"

/* Fills *err (if there is one and it is still empty: the first cause wins), returns code. */
int kmf_fail(kmf_err *err, kmf_code code, const char *format, ...) KMF_PRINTF(3, 4);

/*
 * err, or own if that is NULL: in functions that need the code of what failed below,
 *     err = kmf_err_or(err, &(kmf_err){0});
 */
static inline kmf_err *kmf_err_or(kmf_err *err, kmf_err *own)
{
    return err ? err : own;
}

/*
 * What a function of the caller's answered, as it is; `what` tells of a failure that the function
 * itself has not told of. A negative number that is no kmf_code is KMF_EINVAL.
 */
int kmf_told(int answer, const char *what, kmf_err *err);
/* Of one that takes rows, as a status: a number above 0, which is no kmf_code, is KMF_EINVAL. */
int kmf_answered(int answer, kmf_err *err);

/* Puts "prefix: " before the message of a failed err. */
void kmf_err_prefix(kmf_err *err, const char *prefix);

/* Room for kmf_err_show. */
#define KMF_ERR_SHOW 80
/*
 * Text out of a file, for a message: cut, and whatever is not printable ASCII replaced by '?', so
 * that no file speaks to the user's terminal. Returns buf.
 */
const char *kmf_err_show(char buf[KMF_ERR_SHOW], const char *s);
/* The same of len bytes, or up to a NUL among them. */
const char *kmf_err_show_n(char buf[KMF_ERR_SHOW], const char *s, size_t len);
/* One byte of it, for %c. */
char kmf_err_letter(char c);

#endif
