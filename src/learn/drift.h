/* SPDX-License-Identifier: MIT */
/*
 * A made-up relative of a genome: its sequence after substitutions whose rates depend on the base
 * and on both neighbours, as mutation and its biases give every lineage a composition of its own.
 * The rates are the same on either strand.
 *
 *   rate r                 uniform from 0 to the greatest rate
 *   w[abc][x], x != b      log-normal, log-variance 1; that of the reverse complement is the same
 *   P(b -> x | a, c)       r times w over the mean, over all abc, of their sums; the sum over x
 *                          is cut at 0.9
 *
 * Contexts are those before any substitution. The first and the last base stay.
 *
 * Drawn of a relative: a unit for r; then for every abc whose number is below that of its reverse
 * complement, and every x from A to T, b too, a normal one g, w = exp(g). Of letters, each but the
 * first and the last: a unit, and the base becomes the first x whose upto is above it.
 */
#ifndef KMF_DRIFT_H
#define KMF_DRIFT_H

#include "base/rng.h"

#include <stddef.h>

typedef struct kmf_drift {
    double upto[64][4]; /* P(b becomes one of 0 .. x | abc), abc = 16 a + 4 b + c */
} kmf_drift;

void kmf_drift_draw(kmf_drift *drift, double rate, kmf_rng *rng);
/* letters [n]: 0 .. 3, A C G T. */
void kmf_drift_apply(const kmf_drift *drift, uint8_t *letters, size_t n, kmf_rng *rng);

#endif
