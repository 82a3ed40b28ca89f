/* SPDX-License-Identifier: MIT */
#include "learn/drift.h"

#include <math.h>

#define SUM_MAX 0.9
enum { CONTEXTS = 64 };

/* abc read from the other strand. */
static size_t other_strand(size_t abc)
{
    return (3 - abc % 4) * 16 + (3 - abc / 4 % 4) * 4 + (3 - abc / 16);
}

void kmf_drift_draw(kmf_drift *drift, double rate, kmf_rng *rng)
{
    double weights[CONTEXTS][4] = {{0}};
    double sums[CONTEXTS] = {0};
    double all = 0;
    double r = rate * kmf_rng_unit(rng);
    for (size_t abc = 0; abc < CONTEXTS; abc++)
        for (size_t x = 0; x < 4 && abc <= other_strand(abc); x++) {
            double w = exp((double)kmf_rng_normal(rng));
            weights[abc][x] = weights[other_strand(abc)][3 - x] = x == abc / 4 % 4 ? 0 : w;
        }
    for (size_t abc = 0; abc < CONTEXTS; abc++)
        for (size_t x = 0; x < 4; x++)
            all += weights[abc][x];
    for (size_t abc = 0; abc < CONTEXTS; abc++) {
        double scale = r * CONTEXTS / all;
        for (size_t x = 0; x < 4; x++)
            sums[abc] += scale * weights[abc][x];
        if (sums[abc] > SUM_MAX)
            scale *= SUM_MAX / sums[abc];
        double upto = 0, stays = 1 - fmin(sums[abc], SUM_MAX);
        for (size_t x = 0; x < 4; x++) {
            upto += x == abc / 4 % 4 ? stays : scale * weights[abc][x];
            drift->upto[abc][x] = upto;
        }
    }
}

void kmf_drift_apply(const kmf_drift *drift, uint8_t *letters, size_t n, kmf_rng *rng)
{
    uint8_t before = n > 0 ? letters[0] : 0;
    for (size_t i = 1; i + 1 < n; i++) {
        const double *upto =
            drift->upto[(size_t)before * 16 + (size_t)letters[i] * 4 + letters[i + 1]];
        double u = kmf_rng_unit(rng);
        before = letters[i];
        letters[i] = (uint8_t)((u >= upto[0]) + (u >= upto[1]) + (u >= upto[2]));
    }
}
