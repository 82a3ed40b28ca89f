/* SPDX-License-Identifier: MIT */
/*
 * Limited-memory BFGS (Nocedal 1980; Nocedal and Wright, Numerical Optimization, 2nd ed.,
 * algorithms 7.4 and 7.5).
 *
 *   d = -H g       H: an approximation of the inverse Hessian, never written down, from the last
 *                  m pairs s = x' - x, y = g' - g by two loops over them
 *   x' = x + t d
 *
 * The step t has to lower f enough and to have passed most of the slope (weak Wolfe):
 *
 *   f(x + t d) <= f + c1 t d'g          d'g(x + t d) >= c2 d'g
 *
 * found by doubling and halving an interval (Lewis and Overton 2013, section 4): twenty lines that
 * cannot stall, where cubic interpolation takes two hundred. The second condition gives s'y > 0, so
 * that H stays positive definite. Nearly always t = 1 will do, which costs one call of f.
 *
 * All in double and in one order: n is some ten thousands, and f costs a hundred times as much.
 */
#include "eval/lbfgs.h"

#include "base/err.h"
#include "base/mem.h"

#include <math.h>
#include <string.h>

#define ENOUGH 1e-4 /* c1 */
#define PASSED 0.9  /* c2 */
#define TRIALS 40   /* of one step: an interval of 2^-40 holds nothing more */

typedef struct search {
    size_t n, m;
    kmf_objective_fn *fn;
    void *user;
    double value;
    double *x, *g, *d;         /* borrowed; owned [n] */
    double *next_x, *next_g;   /* owned [n] */
    double *s, *y;             /* owned [m, n], a ring */
    double *rho, *alpha;       /* owned [m]; 1 / s'y; of the two loops */
    size_t n_pairs, last_pair; /* there are; the newest */
} search;

static double dot(const double *a, const double *b, size_t n)
{
    double sum[4] = {0};
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (size_t j = 0; j < 4; j++)
            sum[j] += a[i + j] * b[i + j];
    for (; i < n; i++)
        sum[0] += a[i] * b[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static void add(double *a, double t, const double *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        a[i] += t * b[i];
}

static double largest(const double *a, size_t n)
{
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fabs(a[i]) > most ? fabs(a[i]) : most;
    return most;
}

/* The pair that is `age` steps old. */
static size_t pair(const search *p, size_t age)
{
    return (p->last_pair + p->m - age) % p->m;
}

/* d = -H g */
static void choose_direction(search *p)
{
    size_t n = p->n;
    for (size_t i = 0; i < n; i++)
        p->d[i] = -p->g[i];
    for (size_t age = 0; age < p->n_pairs; age++) {
        size_t j = pair(p, age);
        p->alpha[j] = p->rho[j] * dot(p->s + j * n, p->d, n);
        add(p->d, -p->alpha[j], p->y + j * n, n);
    }
    if (p->n_pairs > 0) {
        const double *y = p->y + p->last_pair * n;
        double scale = 1 / (p->rho[p->last_pair] * dot(y, y, n));
        for (size_t i = 0; i < n; i++)
            p->d[i] *= scale;
    }
    for (size_t age = p->n_pairs; age-- > 0;) {
        size_t j = pair(p, age);
        double beta = p->rho[j] * dot(p->y + j * n, p->d, n);
        add(p->d, p->alpha[j] - beta, p->s + j * n, n);
    }
}

/* 1: next_x, next_g and *value are those of a good step; 0: there is none; negative: an error. */
static int find_step(search *p, double *value, kmf_err *err)
{
    double slope = dot(p->d, p->g, p->n);
    double low = 0;
    double high = HUGE_VAL;
    double t = 1;
    if (p->n_pairs == 0) {
        double length = sqrt(dot(p->g, p->g, p->n));
        t = length > 1 ? 1 / length : 1;
    }
    for (int trial = 0; trial < TRIALS && slope < 0; trial++) {
        memcpy(p->next_x, p->x, p->n * sizeof *p->x);
        add(p->next_x, t, p->d, p->n);
        int status = p->fn(p->user, value, p->next_g, p->next_x, err);
        if (status < 0)
            return status;
        if (!(*value <= p->value + ENOUGH * t * slope)) /* not finite: too far as well */
            high = t;
        else if (dot(p->d, p->next_g, p->n) < PASSED * slope)
            low = t;
        else
            return 1;
        t = isinf(high) ? 2 * t : (low + high) / 2;
    }
    return 0;
}

static void swap(double **a, double **b)
{
    double *c = *a;
    *a = *b;
    *b = c;
}

static void take_step(search *p, double value)
{
    size_t j = (p->last_pair + 1) % p->m;
    double *s = p->s + j * p->n;
    double *y = p->y + j * p->n;
    for (size_t i = 0; i < p->n; i++) {
        s[i] = p->next_x[i] - p->x[i];
        y[i] = p->next_g[i] - p->g[i];
    }
    double curvature = dot(s, y, p->n);
    if (curvature > 0) {
        p->rho[j] = 1 / curvature;
        p->last_pair = j;
        p->n_pairs += p->n_pairs < p->m;
    } else {
        p->n_pairs -= p->n_pairs == p->m; /* the oldest one's place is overwritten */
    }
    memcpy(p->x, p->next_x, p->n * sizeof *p->x);
    swap(&p->g, &p->next_g);
    p->value = value;
}

static int descend(search *p, const kmf_lbfgs_options *opts, kmf_err *err)
{
    int status = p->fn(p->user, &p->value, p->g, p->x, err);
    if (status < 0)
        return status;
    if (!isfinite(p->value))
        return kmf_fail(err, KMF_ENUMERIC, "what is to be minimised is not finite");
    int done = 0;
    while (done < opts->iterations && largest(p->g, p->n) > opts->tolerance) {
        double value;
        if (opts->before)
            opts->before(opts->about, done);
        choose_direction(p);
        status = find_step(p, &value, err);
        if (status < 0)
            return status;
        if (status == 0 && p->n_pairs == 0)
            break;
        if (status == 0) { /* once more, straight downhill */
            p->n_pairs = 0;
            continue;
        }
        double gain = p->value - value;
        double size = fabs(p->value) > 1 ? fabs(p->value) : 1;
        take_step(p, value);
        done++;
        if (gain < opts->least_gain * size)
            break;
    }
    return done;
}

int kmf_lbfgs(double *x, size_t n, kmf_objective_fn *fn, void *user,
              const kmf_lbfgs_options *opts, kmf_err *err)
{
    size_t m = opts->pairs;
    size_t room;
    search p = {.n = n, .m = m, .fn = fn, .user = user, .x = x, .last_pair = m - 1};
    int status = KMF_ENOMEM;
    if (!kmf_mul(m, n, &room))
        return kmf_fail(err, KMF_ENOMEM, "out of memory: too many numbers to fit");
    p.g = kmf_malloc(n, sizeof *p.g, err);
    p.d = kmf_malloc(n, sizeof *p.d, err);
    p.next_x = kmf_malloc(n, sizeof *p.next_x, err);
    p.next_g = kmf_malloc(n, sizeof *p.next_g, err);
    p.s = kmf_malloc(room, sizeof *p.s, err);
    p.y = kmf_malloc(room, sizeof *p.y, err);
    p.rho = kmf_calloc(m, sizeof *p.rho, err);
    p.alpha = kmf_calloc(m, sizeof *p.alpha, err);
    if (p.g && p.d && p.next_x && p.next_g && p.s && p.y && p.rho && p.alpha)
        status = descend(&p, opts, err);
    kmf_free(p.g);
    kmf_free(p.d);
    kmf_free(p.next_x);
    kmf_free(p.next_g);
    kmf_free(p.s);
    kmf_free(p.y);
    kmf_free(p.rho);
    kmf_free(p.alpha);
    return status;
}
