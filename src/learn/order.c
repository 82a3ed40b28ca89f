/* SPDX-License-Identifier: MIT */
/*
 * a is near (sqrt 5 - 1) / 2 of n, whose multiples spread evenly: of any few that follow one
 * another no two are close. A sixteenth of n is left to chance, and then the next number
 * coprime to n is taken, which is near.
 *
 * a j + b needs up to twice the bits of n. Below 2^32 it fits 64; above, the product is put
 * together from a's multiples bit by bit of j, each sum below 2 n.
 */
#include "learn/order.h"

#include "base/rng.h"

#include <assert.h>

#define GOLDEN 0.6180339887498949 /* (sqrt 5 - 1) / 2 */

static uint64_t greatest_common_divisor(uint64_t a, uint64_t b)
{
    while (b > 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

kmf_order kmf_order_of(uint64_t seed, uint64_t stream, uint64_t epoch, uint64_t n)
{
    assert(n >= 1 && n <= (uint64_t)1 << 62);
    kmf_rng rng = kmf_rng_stream(seed, stream);
    rng = kmf_rng_stream(kmf_rng_next(&rng), epoch);
    kmf_order o = {.n = n};
    o.a = (uint64_t)(GOLDEN * (double)n) + kmf_rng_below(&rng, n / 16 + 1);
    o.b = kmf_rng_below(&rng, n);
    while (greatest_common_divisor(o.a, n) != 1)
        o.a++;
    o.a %= n;
    return o;
}

/* a j mod n; a, j < n. */
static uint64_t product_mod(uint64_t a, uint64_t j, uint64_t n)
{
    uint64_t sum = 0;
    for (; j > 0; j >>= 1) {
        if (j & 1)
            sum = (sum + a) % n;
        a = 2 * a % n;
    }
    return sum;
}

uint64_t kmf_order_at(const kmf_order *order, uint64_t j)
{
    const kmf_order *o = order;
    assert(j < o->n);
    if (o->n <= (uint64_t)1 << 32)
        return (o->a * j + o->b) % o->n;
    return (product_mod(o->a, j, o->n) + o->b) % o->n;
}
