/* SPDX-License-Identifier: MIT */
/*
 * Lloyd's iterations from the beginnings of k-means++ (Arthur and Vassilvitskii 2007).
 *
 *   begin     the first centre is a row, all equally likely; each further one a row drawn with a
 *             probability in proportion to its squared distance from the nearest centre so far
 *   repeat    each row goes to its nearest centre, of equally near ones the first; each centre to
 *             the mean of its rows, or stays where it is without any; until no row changes its
 *             cluster, or 300 times
 *
 * A run is a job of its own, with its own numbers, so threads change nothing. Distances to choose
 * by are |c|^2 - 2 x c in float32, by products, of centres times a power of two so that vectors of
 * 1e25 or 1e-25 do not leave float32; no other's bits change by it. Those that are added up, of the
 * beginning and of the inertia, are double and exact to that.
 */
#include "eval/kmeans.h"

#include "base/mem.h"
#include "base/rng.h"
#include "eval/scaler.h"
#include "nn/gemm.h"
#include "seq/par.h"

#include <string.h>

#define ROUNDS 300
#define FARTHEST 100 /* powers of two that centres may be away from 1 */

typedef struct problem {
    const float *x;
    size_t n, dim, k;
    double unit; /* what centres are multiplied by in products */
    uint64_t seed;
    struct attempt {
        int32_t *cluster; /* owned [n] */
        double inertia;
    } * attempts; /* owned [restarts] */
    int caller;   /* the worker who tells */
    kmf_progress_fn *fn;
    void *user;
} problem;

/* The room of one attempt. */
typedef struct room {
    float *centres;  /* owned [k, dim] */
    float *scaled;   /* owned [k, dim]; centres times p->unit */
    double *sums;    /* owned [k, dim] */
    double *nearest; /* owned [n]; squared distance from the nearest centre so far */
    float *square;   /* owned [k] */
    float *products; /* owned [KMF_ROWS_BLOCK, k] */
    size_t *count;   /* owned [k] */
} room;

static double distance(const float *a, const float *b, size_t dim)
{
    double sum = 0;
    for (size_t d = 0; d < dim; d++) {
        double away = (double)a[d] - (double)b[d];
        sum += away * away;
    }
    return sum;
}

/* A row by its distance from the centres; where all are 0 any row. */
static size_t draw_row(const problem *p, const double *nearest, kmf_rng *rng)
{
    double total = 0;
    for (size_t i = 0; i < p->n; i++)
        total += nearest[i];
    double at = kmf_rng_unit(rng) * total;
    if (!(total > 0))
        return (size_t)kmf_rng_below(rng, p->n);
    size_t last = 0;
    for (size_t i = 0; i < p->n; i++) {
        if (nearest[i] <= 0)
            continue;
        last = i;
        if (at < nearest[i])
            break;
        at -= nearest[i];
    }
    return last;
}

static void begin(const problem *p, room *r, kmf_rng *rng)
{
    size_t row = (size_t)kmf_rng_below(rng, p->n);
    for (size_t i = 0; i < p->n; i++)
        r->nearest[i] = HUGE_VAL;
    for (size_t c = 0; c < p->k; c++) {
        float *centre = r->centres + c * p->dim;
        if (c > 0)
            row = draw_row(p, r->nearest, rng);
        memcpy(centre, p->x + row * p->dim, p->dim * sizeof *centre);
        for (size_t i = 0; i < p->n; i++) {
            double d = distance(p->x + i * p->dim, centre, p->dim);
            r->nearest[i] = d < r->nearest[i] ? d : r->nearest[i];
        }
    }
}

/* Each row to its nearest centre; returns how many changed. */
static size_t assign(const problem *p, room *r, int32_t *cluster)
{
    size_t changed = 0;
    for (size_t c = 0; c < p->k; c++) {
        const float *centre = r->centres + c * p->dim;
        double sum = 0;
        for (size_t d = 0; d < p->dim; d++) {
            sum += (double)centre[d] * (double)centre[d];
            r->scaled[c * p->dim + d] = (float)((double)centre[d] * p->unit);
        }
        r->square[c] = (float)(sum * p->unit);
    }
    for (size_t i = 0; i < p->n; i += KMF_ROWS_BLOCK) {
        size_t m = kmf_min(p->n - i, KMF_ROWS_BLOCK);
        kmf_gemm_inner(r->products, p->k, p->x + i * p->dim, p->dim, r->scaled, p->dim, m, p->k,
                       p->dim, KMF_GEMM_TB);
        for (size_t j = 0; j < m; j++) {
            const float *product = r->products + j * p->k;
            size_t best = 0;
            for (size_t c = 1; c < p->k; c++)
                if (r->square[c] - 2 * product[c] < r->square[best] - 2 * product[best])
                    best = c;
            changed += cluster[i + j] != (int32_t)best;
            cluster[i + j] = (int32_t)best;
        }
    }
    return changed;
}

static void move_centres(const problem *p, room *r, const int32_t *cluster)
{
    memset(r->sums, 0, p->k * p->dim * sizeof *r->sums);
    memset(r->count, 0, p->k * sizeof *r->count);
    for (size_t i = 0; i < p->n; i++) {
        double *sum = r->sums + (size_t)cluster[i] * p->dim;
        r->count[cluster[i]]++;
        for (size_t d = 0; d < p->dim; d++)
            sum[d] += (double)p->x[i * p->dim + d];
    }
    for (size_t c = 0; c < p->k; c++)
        for (size_t d = 0; d < p->dim && r->count[c] > 0; d++)
            r->centres[c * p->dim + d] = (float)(r->sums[c * p->dim + d] / (double)r->count[c]);
}

static int make_room(room *r, const problem *p, kmf_err *err)
{
    *r = (room){0};
    r->centres = kmf_floats(p->k * p->dim, err);
    r->scaled = kmf_floats(p->k * p->dim, err);
    r->sums = kmf_malloc(p->k * p->dim, sizeof *r->sums, err);
    r->nearest = kmf_malloc(p->n, sizeof *r->nearest, err);
    r->square = kmf_malloc(p->k, sizeof *r->square, err);
    r->products = kmf_floats(KMF_ROWS_BLOCK * p->k, err);
    r->count = kmf_malloc(p->k, sizeof *r->count, err);
    bool all = r->centres && r->scaled && r->sums && r->nearest && r->square && r->products &&
               r->count;
    return all ? 0 : KMF_ENOMEM;
}

static void free_room(room *r)
{
    kmf_free(r->centres);
    kmf_free(r->scaled);
    kmf_free(r->sums);
    kmf_free(r->nearest);
    kmf_free(r->square);
    kmf_free(r->products);
    kmf_free(r->count);
}

static int run(void *arg, size_t number, int worker, kmf_err *err)
{
    problem *p = arg;
    struct attempt *a = &p->attempts[number];
    kmf_rng rng = kmf_rng_stream(p->seed, number);
    room r;
    int status = make_room(&r, p, err);
    a->cluster = kmf_malloc(p->n, sizeof *a->cluster, err);
    if (!a->cluster)
        status = KMF_ENOMEM;
    if (status == 0) {
        for (size_t i = 0; i < p->n; i++)
            a->cluster[i] = -1;
        begin(p, &r, &rng);
        for (int i = 0; i < ROUNDS && assign(p, &r, a->cluster) > 0; i++) {
            if (p->fn && worker == p->caller)
                p->fn(p->user, number);
            move_centres(p, &r, a->cluster);
        }
        a->inertia = 0;
        for (size_t i = 0; i < p->n; i++)
            a->inertia +=
                distance(p->x + i * p->dim, r.centres + (size_t)a->cluster[i] * p->dim, p->dim);
    }
    free_room(&r);
    return status;
}

/*
 * 2^-2e, 2^e being above all numbers, so that products are about 1; the centres become 2^-e, and
 * are to stay float32 themselves.
 */
static double find_unit(const float *x, size_t n, size_t dim)
{
    int e;
    (void)frexpf(kmf_rows_largest(x, n, dim), &e);
    int centres = e > FARTHEST ? -FARTHEST : e < -FARTHEST ? FARTHEST : -e;
    return ldexp(1, centres - e);
}

int kmf_kmeans(int32_t *cluster, double *inertia, const float *x, size_t n, size_t dim,
               size_t k, int restarts, uint64_t seed, kmf_pool *pool, kmf_progress_fn *fn,
               void *user, kmf_err *err)
{
    problem p = {.x = x,
                 .n = n,
                 .dim = dim,
                 .k = k,
                 .unit = find_unit(x, n, dim),
                 .seed = seed,
                 .caller = kmf_pool_threads(pool),
                 .fn = fn,
                 .user = user};
    size_t n_runs = (size_t)restarts;
    p.attempts = kmf_calloc(n_runs, sizeof *p.attempts, err);
    if (!p.attempts)
        return KMF_ENOMEM;
    int status = kmf_pool_each(pool, n_runs, run, &p, err);
    if (status == 0) {
        size_t best = 0;
        for (size_t i = 1; i < n_runs; i++)
            if (p.attempts[i].inertia < p.attempts[best].inertia)
                best = i;
        memcpy(cluster, p.attempts[best].cluster, n * sizeof *cluster);
        *inertia = p.attempts[best].inertia;
    }
    for (size_t i = 0; i < n_runs; i++)
        kmf_free(p.attempts[i].cluster);
    kmf_free(p.attempts);
    return status;
}
