/* SPDX-License-Identifier: MIT */
/*
 * One pass over the keys counts all their digits; then each digit, from the least significant on,
 * moves the keys to where the counts say, in stable order. A digit that all keys share is passed
 * over. Digits are 11 bits, 2048 places: few enough that the places written to stay in the cache,
 * many enough that 32 bits take three passes. Few keys take digits of 8 bits, so that clearing the
 * counts does not cost more than sorting.
 */
#include "words/radix.h"

#include <string.h>

#define DIGITS_MAX 8
#define PLACES_MAX 2048
#define FEW 4096

#define RADIX_SORT(name, type)                                       \
    type *name(type *keys, type *spare, size_t n, unsigned bits)     \
    {                                                                \
        uint32_t count[DIGITS_MAX][PLACES_MAX];                      \
        unsigned width = n < FEW ? 8 : 11;                           \
        unsigned n_digits = (bits + width - 1) / width;              \
        type low = (type)((1u << width) - 1);                        \
        for (unsigned d = 0; d < n_digits; d++)                      \
            memset(count[d], 0, sizeof count[d][0] << width);        \
        for (size_t i = 0; i < n; i++)                               \
            for (unsigned d = 0; d < n_digits; d++)                  \
                count[d][keys[i] >> d * width & low]++;              \
        for (unsigned d = 0; d < n_digits && n > 0; d++) {           \
            unsigned shift = d * width;                              \
            uint32_t place = 0;                                      \
            if (count[d][keys[0] >> shift & low] == n)               \
                continue;                                            \
            for (unsigned i = 0; i <= (unsigned)low; i++) {          \
                uint32_t here = count[d][i];                         \
                count[d][i] = place;                                 \
                place += here;                                       \
            }                                                        \
            for (size_t i = 0; i < n; i++)                           \
                spare[count[d][keys[i] >> shift & low]++] = keys[i]; \
            type *sorted = spare;                                    \
            spare = keys;                                            \
            keys = sorted;                                           \
        }                                                            \
        return keys;                                                 \
    }

RADIX_SORT(kmf_radix_sort32, uint32_t)
RADIX_SORT(kmf_radix_sort64, uint64_t)
