/* SPDX-License-Identifier: MIT */
/*
 * Allocations that fail one after the other:
 *
 *   for (size_t n = 1; reached; n++) {
 *       kmf_mem_fail_at(n);
 *       int status = what_is_tried(&err);
 *       reached = failed_at(n);
 *       ...
 */
#ifndef KMF_TEST_FAILING_H
#define KMF_TEST_FAILING_H

#include "base/mem.h"

#include <stdbool.h>

/* Was there an n-th allocation, which has failed? No further one will. */
static inline bool failed_at(size_t n)
{
    bool reached = kmf_mem_count() >= n;
    kmf_mem_fail_at(0);
    return reached;
}

/* For jansson, whose allocations count and fail, too. */
static inline void *counted_malloc(size_t n)
{
    return kmf_malloc(n, 1, NULL);
}

#endif
