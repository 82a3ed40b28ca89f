/* SPDX-License-Identifier: MIT */
/*
 * Hidden states mixed (V. Verma et al., "Manifold mixup", arXiv 1806.05236): with share a of a
 * sequence s and partner p,
 *
 *   x'_s = a_s x_s + (1 - a_s) x_p       dx_s = a_s dx'_s + (1 - a_r) dx'_r,   s the partner of r
 *
 * One pass over memory beside the products of a block, so it is done by the caller's thread.
 */
#include "learn/mlm_room.h"

#include <string.h>

static size_t length_of(const kmf_mlm *m, size_t s)
{
    return m->batch->off[s + 1] - m->batch->off[s];
}

/* Is it mixed with its partner? */
static bool mixes(const kmf_mlm *m, size_t s)
{
    size_t p = m->batch->mix->partner[s];
    return p != s && length_of(m, p) == length_of(m, s);
}

/* to [T, D] = a x_s + b x_r */
static void combine(const kmf_mlm *m, kmf_real *to, const kmf_real *x, size_t s, double a,
                    size_t r, double b)
{
    const kmf_real *own = x + m->batch->off[s] * m->D;
    const kmf_real *other = x + m->batch->off[r] * m->D;
    kmf_real p = (kmf_real)a, q = (kmf_real)b;
    size_t n = length_of(m, s) * m->D;
    to += m->batch->off[s] * m->D;
    for (size_t i = 0; i < n; i++)
        to[i] = p * own[i] + q * other[i];
}

static bool mixes_here(const kmf_mlm *m, size_t layer)
{
    return m->batch->mix && m->batch->mix->layer == layer;
}

void kmf_mlm_mix_forward(const kmf_mlm *m, kmf_real *x, size_t layer)
{
    if (!mixes_here(m, layer))
        return;
    const kmf_mlm_mix *mix = m->batch->mix;
    memcpy(m->mixed, x, m->n * m->D * sizeof *x);
    for (size_t s = 0; s < m->batch->n_seq; s++)
        if (mixes(m, s))
            combine(m, x, m->mixed, s, mix->share[s], mix->partner[s], 1 - mix->share[s]);
}

void kmf_mlm_mix_backward(const kmf_mlm *m, kmf_real *dx, size_t layer)
{
    if (!mixes_here(m, layer))
        return;
    const kmf_mlm_mix *mix = m->batch->mix;
    memcpy(m->mixed, dx, m->n * m->D * sizeof *dx);
    for (size_t s = 0; s < m->batch->n_seq; s++) {
        size_t r = mix->served[s];
        double own = mixes(m, s) ? mix->share[s] : 1;
        if (mixes(m, r))
            combine(m, dx, m->mixed, s, own, r, 1 - mix->share[r]);
        else if (own < 1)
            combine(m, dx, m->mixed, s, own, s, 0);
    }
}
