/* SPDX-License-Identifier: MIT */
/* Drawn points of four classes, for the tests of what learns to tell classes apart. */
#ifndef KMF_TEST_DRAWN_POINTS_H
#define KMF_TEST_DRAWN_POINTS_H

#include "base/rng.h"
#include "kmerformer/probe.h"

enum { ROWS = 700, DIM = 5, CLASSES = 4, N_THETA = CLASSES * (DIM + 1) };

typedef struct data {
    float x[ROWS * DIM];
    int32_t y[ROWS];
} data;

static inline void draw(data *d, uint64_t seed)
{
    kmf_rng rng = kmf_rng_stream(seed, 0);
    for (size_t i = 0; i < ROWS; i++) {
        d->y[i] = (int32_t)(i % CLASSES);
        for (size_t j = 0; j < DIM; j++)
            d->x[i * DIM + j] = kmf_rng_normal(&rng) + (float)((size_t)d->y[i] == j ? 1.5 : 0);
    }
}

/* Half of them to choose by. */
static inline kmf_probe *train_probe(const data *d, kmf_pool *pool)
{
    const kmf_points train = {d->x, d->y, ROWS};
    const kmf_points fit = {d->x, d->y, ROWS / 2};
    const kmf_points dev = {d->x + (ROWS / 2) * DIM, d->y + ROWS / 2, ROWS / 2};
    kmf_probe_options opts;
    kmf_probe_options_default(&opts);
    return kmf_probe_train(&train, &fit, &dev, DIM, CLASSES, &opts, pool, NULL);
}

#endif
