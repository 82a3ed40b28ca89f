/* SPDX-License-Identifier: MIT */
/*
 * A step reads four arrays and writes three, 28 bytes an element: memory is the limit, once the
 * loop is vector code. For that the compiler must be told that nobody reads errno after a square
 * root; the Makefile does (-fno-math-errno). The bits are the same without.
 *
 * The factors are computed in double and rounded once, as PyTorch does with its scalars.
 */
#include "nn/adamw.h"

#include "base/cpu.h"
#include "nn/lanes.h"
#include "nn/vmath.h"

#include <assert.h>
#include <math.h>

#define SUM_LANES 16

/* The factors of a step. */
typedef struct factors {
    kmf_real keep;          /* of a weight */
    kmf_real clip;          /* of a gradient */
    kmf_real old_m, new_m;  /* of the first moment */
    kmf_real old_v, new_v;  /* of the second */
    kmf_real root, epsilon; /* of sqrt(v); beside it */
    kmf_real rate;
} factors;

static void update(kmf_real *w, kmf_real *m, kmf_real *v, const kmf_real *g, size_t n,
                   factors f);

static KMF_INLINE void update_body(kmf_real *restrict w, kmf_real *restrict m,
                                   kmf_real *restrict v, const kmf_real *restrict g, size_t n,
                                   factors f)
{
    for (size_t i = 0; i < n; i++) {
        kmf_real d = g[i] * f.clip;
        m[i] = m[i] * f.old_m + d * f.new_m;
        v[i] = v[i] * f.old_v + d * d * f.new_v;
        w[i] = w[i] * f.keep - f.rate * m[i] / (kmf_sqrt(v[i]) * f.root + f.epsilon);
    }
}

KMF_CLONES(update,
           (kmf_real * w, kmf_real *m, kmf_real *v, const kmf_real *g, size_t n, factors f),
           (w, m, v, g, n, f))

void kmf_adamw_correct(kmf_adamw_step *s, uint64_t t)
{
    assert(t > 0);
    s->correction1 = 1.0 - pow(s->beta1, (double)t);
    s->correction2 = 1.0 - pow(s->beta2, (double)t);
}

void kmf_adamw_update(kmf_real *w, kmf_real *m, kmf_real *v, const kmf_real *g, size_t n,
                      const kmf_adamw_step *s)
{
    assert(s->correction1 > 0.0 && s->correction2 > 0.0);
    factors f = {
        .keep = (kmf_real)(1.0 - s->rate * s->decay),
        .clip = (kmf_real)s->clip,
        .old_m = (kmf_real)s->beta1,
        .new_m = (kmf_real)(1.0 - s->beta1),
        .old_v = (kmf_real)s->beta2,
        .new_v = (kmf_real)(1.0 - s->beta2),
        .root = (kmf_real)(1.0 / sqrt(s->correction2)),
        .epsilon = (kmf_real)s->epsilon,
        .rate = (kmf_real)(s->rate / s->correction1),
    };
    update(w, m, v, g, n, f);
}

static void squares(double *sum, const kmf_real *g, size_t n);

static KMF_INLINE void squares_body(double *sum, const kmf_real *g, size_t n)
{
    double part[SUM_LANES] = {0};
    size_t i = 0;
    for (; i + SUM_LANES <= n; i += SUM_LANES)
        for (size_t l = 0; l < SUM_LANES; l++)
            part[l] += (double)g[i + l] * (double)g[i + l];
    for (size_t l = 0; i + l < n; l++)
        part[l] += (double)g[i + l] * (double)g[i + l];
    *sum = kmf_fold_lanes(part, SUM_LANES);
}

KMF_CLONES(squares, (double *sum, const kmf_real *g, size_t n), (sum, g, n))

double kmf_squares(const kmf_real *g, size_t n)
{
    double sum;
    squares(&sum, g, n);
    return sum;
}
