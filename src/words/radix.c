/* SPDX-License-Identifier: MIT */
/*
 * Few passes over many keys.
 *
 * By digits: one pass counts all digits; then each digit, from the least significant on, moves the
 * keys to where the counts say, in stable order. A digit that all keys share is passed over. Digits
 * have 11 bits, 2048 places: few enough that the places written to stay in the cache, many enough
 * that 22 bits take two passes. Few keys take digits of 8 bits, so that clearing the counts does not
 * cost more than sorting.
 *
 * Keys of more than 22 bits are sorted by their first 22 only. Of some 100,000 keys, as many as the
 * counting has in a part, hardly two different ones then share a place, and one more pass puts these
 * right: neighbours that share their first bits are a group, small groups are sorted by insertion,
 * larger ones, which real sequences have as well, by their other digits.
 */
#include "words/radix.h"

#include <string.h>

#define WIDTH 11
#define DIGITS_MAX 8
#define PLACES_MAX (1 << WIDTH)
#define FEW 4096
#define FIRST_BITS (2 * WIDTH)
#define GROUP_MAX 32 /* keys sorted by insertion at most */

#define DEFINE_SORT(type, name)                                                      \
    /* Sorts by the bits shift .. bits - 1 */                                        \
    static type *by_digits_##name(type *keys, type *spare, size_t n, unsigned shift, \
                                  unsigned bits)                                     \
    {                                                                                \
        uint32_t count[DIGITS_MAX][PLACES_MAX];                                      \
        unsigned width = n < FEW ? 8 : WIDTH;                                        \
        unsigned n_digits = (bits - shift + width - 1) / width;                      \
        type low = (type)((1u << width) - 1);                                        \
        for (unsigned d = 0; d < n_digits; d++)                                      \
            memset(count[d], 0, sizeof count[d][0] << width);                        \
        for (size_t i = 0; i < n; i++)                                               \
            for (unsigned d = 0; d < n_digits; d++)                                  \
                count[d][keys[i] >> (shift + d * width) & low]++;                    \
        for (unsigned d = 0; d < n_digits && n > 0; d++) {                           \
            unsigned at = shift + d * width;                                         \
            uint32_t place = 0;                                                      \
            if (count[d][keys[0] >> at & low] == n)                                  \
                continue;                                                            \
            for (unsigned i = 0; i <= (unsigned)low; i++) {                          \
                uint32_t here = count[d][i];                                         \
                count[d][i] = place;                                                 \
                place += here;                                                       \
            }                                                                        \
            for (size_t i = 0; i < n; i++)                                           \
                spare[count[d][keys[i] >> at & low]++] = keys[i];                    \
            type *sorted = spare;                                                    \
            spare = keys;                                                            \
            keys = sorted;                                                           \
        }                                                                            \
        return keys;                                                                 \
    }                                                                                \
                                                                                     \
    static void by_insertion_##name(type *keys, size_t n)                            \
    {                                                                                \
        for (size_t i = 1; i < n; i++) {                                             \
            type key = keys[i];                                                      \
            size_t to = i;                                                           \
            for (; to > 0 && keys[to - 1] > key; to--)                               \
                keys[to] = keys[to - 1];                                             \
            keys[to] = key;                                                          \
        }                                                                            \
    }                                                                                \
                                                                                     \
    type *kmf_radix_sort_##name(type *keys, type *spare, size_t n, unsigned bits)    \
    {                                                                                \
        unsigned shift = bits > FIRST_BITS ? bits - FIRST_BITS : 0;                  \
        type *sorted = by_digits_##name(keys, spare, n, shift, bits);                \
        for (size_t i = 0; i < n && shift > 0;) {                                    \
            size_t beg = i++;                                                        \
            while (i < n && sorted[i] >> shift == sorted[beg] >> shift)              \
                i++;                                                                 \
            if (i - beg <= GROUP_MAX) {                                              \
                by_insertion_##name(sorted + beg, i - beg);                          \
                continue;                                                            \
            }                                                                        \
            type *other = (sorted == keys ? spare : keys) + beg;                     \
            type *group = by_digits_##name(sorted + beg, other, i - beg, 0, shift);  \
            if (group == other)                                                      \
                memcpy(sorted + beg, other, (i - beg) * sizeof *other);              \
        }                                                                            \
        return sorted;                                                               \
    }

DEFINE_SORT(uint32_t, 32)
DEFINE_SORT(uint64_t, 64)
