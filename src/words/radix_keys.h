/* SPDX-License-Identifier: MIT */
/*
 * The sorting of radix.c, included by it once for each type of key:
 *
 *   KEY    an unsigned type
 *   BITS   its width, the suffix of the names
 */
#define GLUE_(a, b) a##b
#define GLUE(a, b) GLUE_(a, b)
#define NAME(stem) GLUE(stem, BITS)

/* Sorts by the bits shift .. bits - 1; where the keys are then: keys or spare. */
static KEY *NAME(by_digits_)(KEY *keys, KEY *spare, size_t n, unsigned shift, unsigned bits)
{
    uint32_t count[DIGITS_MAX][PLACES_MAX];
    unsigned width = n < FEW ? 8 : WIDTH;
    unsigned n_digits = (bits - shift + width - 1) / width;
    KEY low = (KEY)((1u << width) - 1);
    for (unsigned d = 0; d < n_digits; d++)
        memset(count[d], 0, sizeof count[d][0] << width);
    for (size_t i = 0; i < n; i++)
        for (unsigned d = 0; d < n_digits; d++)
            count[d][keys[i] >> (shift + d * width) & low]++;
    for (unsigned d = 0; d < n_digits && n > 0; d++) {
        unsigned at = shift + d * width;
        uint32_t place = 0;
        if (count[d][keys[0] >> at & low] == n)
            continue;
        for (unsigned i = 0; i <= (unsigned)low; i++) {
            uint32_t here = count[d][i];
            count[d][i] = place;
            place += here;
        }
        for (size_t i = 0; i < n; i++)
            spare[count[d][keys[i] >> at & low]++] = keys[i];
        KEY *sorted = spare;
        spare = keys;
        keys = sorted;
    }
    return keys;
}

static void NAME(by_insertion_)(KEY *keys, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        KEY key = keys[i];
        size_t to = i;
        for (; to > 0 && keys[to - 1] > key; to--)
            keys[to] = keys[to - 1];
        keys[to] = key;
    }
}

KEY *NAME(kmf_radix_sort_)(KEY *keys, KEY *spare, size_t n, unsigned bits)
{
    unsigned shift = bits > FIRST_BITS ? bits - FIRST_BITS : 0;
    KEY *sorted = NAME(by_digits_)(keys, spare, n, shift, bits);
    for (size_t i = 0; i < n && shift > 0;) {
        size_t beg = i++;
        while (i < n && sorted[i] >> shift == sorted[beg] >> shift)
            i++;
        if (i - beg <= GROUP_MAX) {
            NAME(by_insertion_)(sorted + beg, i - beg);
            continue;
        }
        KEY *other = (sorted == keys ? spare : keys) + beg;
        KEY *group = NAME(by_digits_)(sorted + beg, other, i - beg, 0, shift);
        if (group == other)
            memcpy(sorted + beg, other, (i - beg) * sizeof *other);
    }
    return sorted;
}

size_t NAME(kmf_count_equal_)(const KEY *sorted, size_t n, uint64_t *keys, uint64_t *counts)
{
    size_t n_out = 0;
    for (size_t i = 0; i < n;) {
        size_t beg = i++;
        while (i < n && sorted[i] == sorted[beg])
            i++;
        keys[n_out] = sorted[beg];
        counts[n_out++] = i - beg;
    }
    return n_out;
}

#undef NAME
#undef GLUE
#undef GLUE_
