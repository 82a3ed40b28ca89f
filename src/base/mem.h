/* SPDX-License-Identifier: MIT */
/*
 * All memory of the project comes from here, so that a test can make any one allocation fail,
 * and all sizes are computed here, so that none can wrap around.
 */
#ifndef KMF_MEM_H
#define KMF_MEM_H

#include "kmerformer.h"

#include <stdbool.h>

/* *out = a * b or a + b; false, *out untouched, if it does not fit. */
bool kmf_mul(size_t a, size_t b, size_t *out) KMF_MUST_CHECK;
bool kmf_add(size_t a, size_t b, size_t *out) KMF_MUST_CHECK;

/*
 * For the parts of one block of memory: *at = where a part of n elements of `size` bytes begins,
 * *total moves on behind it, to a cache line. false, *total as it was, if it does not fit.
 */
bool kmf_place(size_t *at, size_t *total, size_t n, size_t size) KMF_MUST_CHECK;

static inline size_t kmf_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t kmf_max(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* i modulo n of i < 2 n, for places of rings that each record has: no division. */
static inline size_t kmf_wrap(size_t i, size_t n)
{
    return i < n ? i : i - n;
}

/* How many blocks of `each` hold n; each > 0, and n + each fits. */
static inline size_t kmf_div_up(size_t n, size_t each)
{
    return (n + each - 1) / each;
}

/* The least multiple of unit that is not below n; as above. */
static inline size_t kmf_round_up(size_t n, size_t unit)
{
    return kmf_div_up(n, unit) * unit;
}

/*
 * n elements of `size` bytes; NULL after KMF_ENOMEM when there are none to be had or n * size
 * does not fit. n = 0 gives a valid pointer. kmf_calloc's are zero. Freed by kmf_free.
 */
void *kmf_malloc(size_t n, size_t size, kmf_err *err) KMF_MUST_CHECK;
void *kmf_calloc(size_t n, size_t size, kmf_err *err) KMF_MUST_CHECK;
/* On failure p stays valid. */
void *kmf_realloc(void *p, size_t n, size_t size, kmf_err *err) KMF_MUST_CHECK;
char *kmf_strdup(const char *s, kmf_err *err) KMF_MUST_CHECK;
/* What printf would print. */
char *kmf_strprintf(kmf_err *err, const char *format, ...) KMF_PRINTF(2, 3) KMF_MUST_CHECK;
void kmf_free(void *p);

/*
 * For tensors and tables: 64-byte aligned; blocks of 4 MB and more are aligned to 2 MB and ask the
 * kernel for huge pages. Not zeroed. Freed by kmf_free.
 */
void *kmf_large(size_t n, size_t size, kmf_err *err) KMF_MUST_CHECK;
float *kmf_floats(size_t n, kmf_err *err) KMF_MUST_CHECK;
/* Zero, of any alignment; from 4 MB on in huge pages, which take memory once they are touched. */
void *kmf_large_zeroed(size_t n, size_t size, kmf_err *err) KMF_MUST_CHECK;

/*
 * Room that is filled and given back in pieces: aligned to KMF_PAGE, in ordinary pages, which take
 * memory only once they are written to; until then the system need not have as much. Zero. Freed by
 * kmf_unreserve, which is told the same bytes.
 */
#define KMF_PAGE ((size_t)4096)
void *kmf_reserve(size_t bytes, kmf_err *err) KMF_MUST_CHECK;
void kmf_unreserve(void *p, size_t bytes);
/*
 * Gives the whole pages in p .. p + bytes - 1 back to the system: what was in them is lost. They
 * may be written to again.
 */
void kmf_discard(void *p, size_t bytes);

/*
 * Makes room for `need` elements in the array *p of *cap elements, growing it by half at least.
 * 0 or KMF_ENOMEM (array and *cap stay as they are).
 */
int kmf_grow(void *p, size_t *cap, size_t need, size_t size, kmf_err *err) KMF_MUST_CHECK;

/* What options that bound memory, and are 0, stand for: 4 GiB. */
#define KMF_MEMORY_USUAL ((uint64_t)4 << 30)

/* For tests: the n-th allocation from now (1 = the next) fails, once. 0 turns it off. */
void kmf_mem_fail_at(size_t n);
/* For tests: allocations since the last kmf_mem_fail_at. */
size_t kmf_mem_count(void);

#endif
