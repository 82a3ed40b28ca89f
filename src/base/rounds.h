/* SPDX-License-Identifier: MIT */
/*
 * Work that goes in rounds, of some items each, by threads that may come and go: nobody says
 * beforehand how many they are, and who is free takes the next item. A round begins when all items
 * of the one before are done.
 *
 *   open(0, n) -- take, done -- take, done  ->  open(1, n') -- ...  ->  close
 *                 take, done -- done: the last
 *
 * Whoever is told that an item was the last of its round opens the next one, or closes. What
 * threads wrote for the items of a round is seen by all that take one of a later round, and by who
 * finds the work closed.
 */
#ifndef KMF_ROUNDS_H
#define KMF_ROUNDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct kmf_rounds {
    _Atomic uint64_t left; /* round << 32 | items of the open one that nobody has taken */
    atomic_uint undone;    /* of its items */
    uint32_t n;            /* its items */
} kmf_rounds;

/* Closed. */
void kmf_rounds_init(kmf_rounds *rounds);
/* round below 2^32 - 1, n > 0. By one thread at a time, and when no item is under way. */
void kmf_rounds_open(kmf_rounds *rounds, uint32_t round, uint32_t n);
/*
 * When no item is under way; those that nobody has taken are dropped. From then on whoever finds
 * it closed may open it anew.
 */
void kmf_rounds_close(kmf_rounds *rounds);
bool kmf_rounds_closed(const kmf_rounds *rounds);
/*
 * Takes an item, 0 .. n - 1 of the open round, for which it may have to wait; false: the work is
 * closed. Until the item is done, neither the round changes nor what its opener wrote before.
 */
bool kmf_rounds_take(kmf_rounds *rounds, uint32_t *round, uint32_t *item);
/* An item is done. true: it was the last of its round. */
bool kmf_rounds_done(kmf_rounds *rounds);

#endif
