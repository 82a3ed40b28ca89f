/* SPDX-License-Identifier: MIT */
/* Second source: qsort. */
#include "words/radix.h"

#include "base/rng.h"
#include "run.h"

#include <stdbool.h>

#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* Keys below 2^bits; every other draw has few values, so that many are equal. */
static void check_sorting(size_t n, unsigned bits, uint64_t seed)
{
    kmf_rng rng = kmf_rng_stream(seed, bits);
    uint64_t *expected = malloc((n + 1) * sizeof *expected);
    uint64_t *wide = malloc((n + 1) * sizeof *wide);
    uint64_t *wide_spare = malloc((n + 1) * sizeof *wide_spare);
    uint32_t *narrow = malloc((n + 1) * sizeof *narrow);
    uint32_t *narrow_spare = malloc((n + 1) * sizeof *narrow_spare);
    bool same = true;
    for (size_t i = 0; i < n; i++) {
        uint64_t key = kmf_rng_next(&rng) >> (64 - bits);
        if (seed % 3 == 1)
            key &= 0x8000400020001003u; /* few values */
        if (seed % 3 == 2 && bits > 30)
            key &= ~((uint64_t)0) >> (64 - bits + 20); /* the first bits alike */
        expected[i] = wide[i] = key;
        narrow[i] = (uint32_t)key;
    }
    qsort(expected, n, sizeof *expected, by_value);
    const uint64_t *sorted = kmf_radix_sort_64(wide, wide_spare, n, bits);
    for (size_t i = 0; i < n; i++)
        same = same && sorted[i] == expected[i];
    if (bits <= 32) {
        const uint32_t *sorted32 = kmf_radix_sort_32(narrow, narrow_spare, n, bits);
        for (size_t i = 0; i < n; i++)
            same = same && sorted32[i] == expected[i];
    }
    ck_assert_msg(same, "n %zu, %u bits, seed %d", n, bits, (int)seed);
    free(expected);
    free(wide);
    free(wide_spare);
    free(narrow);
    free(narrow_spare);
}

START_TEST(keys_of_every_width_and_number_are_sorted)
{
    static const size_t ns[] = {0, 1, 2, 3, 100, 4095, 4096, 20000};
    for (size_t i = 0; i < sizeof ns / sizeof ns[0]; i++)
        for (unsigned bits = 1; bits <= 64; bits++)
            check_sorting(ns[i], bits, i + bits);
}
END_TEST

int main(void)
{
    TCase *c = untimed_case();
    tcase_add_test(c, keys_of_every_width_and_number_are_sorted);
    return run_case("radix", c);
}
