/* SPDX-License-Identifier: MIT */
/* Sorting of whole numbers by their digits, and counting equal ones. */
#ifndef KMF_RADIX_H
#define KMF_RADIX_H

#include <stddef.h>
#include <stdint.h>

/*
 * Sorts keys [n], all below 2^bits, in ascending order; spare [n] is scratch. Returns where the
 * sorted keys are: keys or spare. n is below 2^32.
 */
uint32_t *kmf_radix_sort_32(uint32_t *keys, uint32_t *spare, size_t n, unsigned bits);
uint64_t *kmf_radix_sort_64(uint64_t *keys, uint64_t *spare, size_t n, unsigned bits);

/* The different ones of n sorted keys, and how often each occurs; returns how many there are. */
size_t kmf_count_equal_32(const uint32_t *sorted, size_t n, uint64_t *keys, uint64_t *counts);
size_t kmf_count_equal_64(const uint64_t *sorted, size_t n, uint64_t *keys, uint64_t *counts);

#endif
