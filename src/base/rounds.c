/* SPDX-License-Identifier: MIT */
#include "base/rounds.h"

#include "base/spin.h"

#include <assert.h>

#define CLOSED UINT32_MAX

static uint64_t of_round(uint32_t round, uint32_t left)
{
    return (uint64_t)round << 32 | left;
}

void kmf_rounds_init(kmf_rounds *rounds)
{
    atomic_init(&rounds->left, of_round(CLOSED, 0));
    atomic_init(&rounds->undone, 0);
    rounds->n = 0;
}

void kmf_rounds_open(kmf_rounds *rounds, uint32_t round, uint32_t n)
{
    assert(n > 0 && round != CLOSED && atomic_load(&rounds->undone) == 0);
    rounds->n = n;
    atomic_store(&rounds->undone, n);
    atomic_store(&rounds->left, of_round(round, n));
}

void kmf_rounds_close(kmf_rounds *rounds)
{
    atomic_store(&rounds->undone, 0);
    atomic_store(&rounds->left, of_round(CLOSED, 0));
}

bool kmf_rounds_closed(const kmf_rounds *rounds)
{
    return atomic_load(&rounds->left) == of_round(CLOSED, 0);
}

bool kmf_rounds_take(kmf_rounds *rounds, uint32_t *round, uint32_t *item)
{
    for (int tries = 0;;) {
        uint64_t left = atomic_load(&rounds->left);
        *round = (uint32_t)(left >> 32);
        if (*round == CLOSED)
            return false;
        if ((uint32_t)left == 0) {
            kmf_spin(&tries);
        } else if (atomic_compare_exchange_strong(&rounds->left, &left, left - 1)) {
            *item = rounds->n - (uint32_t)left;
            return true;
        }
    }
}

bool kmf_rounds_done(kmf_rounds *rounds)
{
    return atomic_fetch_sub(&rounds->undone, 1) == 1;
}
