/* SPDX-License-Identifier: MIT */
/*
 * Three products and what lies between, all in blocks of rows:
 *
 *   u = z z^T / t                           [n, n]
 *   C = dL/du, row by row, in the place of u
 *   dz = (C + C^T) z / t                    [n, D]
 *   dv = (dz - (z . dz) z) / |v|            back through the norm
 *
 * With S = sum_p exp(u_ip) + N, C_ip = exp(u_ip) / S - a_p, and for a negative j, from
 * ln N = ln n + lse((1 + b) u) - lse(b u),
 *
 *   C_ij = (N / S) ((1 + b) softmax_j((1 + b) u) - b softmax_j(b u))
 *
 * Exponentials are taken of differences to the row's greatest u and summed in double.
 */
#include "learn/contrast.h"

#include "base/mem.h"
#include "nn/gemm.h"
#include "seq/par.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define TINY 1e-20

struct kmf_contrast {
    kmf_contrast_options opts;
    kmf_real *z, *dz; /* owned [most, D] */
    double *length;   /* owned [most] of the vectors */
    kmf_real *u, *g;  /* owned [most, most]: u, then C; C + C^T */
    double *loss;     /* owned [most] of an anchor */
    uint8_t *hit;     /* owned [most] */
    /* of the call under way */
    const kmf_contrast_views *views;
    kmf_real *dvectors;
    double scale;
};

size_t kmf_contrast_bytes(const kmf_contrast_options *opts)
{
    size_t square, rows;
    size_t n = opts->most;
    if (!kmf_mul(n, n, &square) || !kmf_mul(n, opts->D, &rows) ||
        !kmf_mul(square, 2 * sizeof(kmf_real), &square) ||
        !kmf_mul(rows, 2 * sizeof(kmf_real), &rows) || rows > SIZE_MAX / 4 ||
        square > SIZE_MAX / 4)
        return 0;
    return sizeof(kmf_contrast) + square + rows + n * (2 * sizeof(double) + 1);
}

kmf_contrast *kmf_contrast_new(const kmf_contrast_options *opts, kmf_err *err)
{
    kmf_contrast *c = kmf_calloc(1, sizeof *c, err);
    if (!c)
        return NULL;
    size_t n = opts->most;
    assert(n % 2 == 0 && opts->temperature > 0 && opts->hardness >= 0);
    c->opts = *opts;
    c->z = kmf_calloc(n, opts->D * sizeof *c->z, err);
    c->dz = kmf_calloc(n, opts->D * sizeof *c->dz, err);
    c->length = kmf_calloc(n, sizeof *c->length, err);
    c->u = kmf_calloc(n, n * sizeof *c->u, err);
    c->g = kmf_calloc(n, n * sizeof *c->g, err);
    c->loss = kmf_calloc(n, sizeof *c->loss, err);
    c->hit = kmf_calloc(n, sizeof *c->hit, err);
    if (c->z && c->dz && c->length && c->u && c->g && c->loss && c->hit)
        return c;
    kmf_contrast_free(c);
    return NULL;
}

void kmf_contrast_free(kmf_contrast *contrast)
{
    kmf_contrast *c = contrast;
    if (!c)
        return;
    kmf_free(c->z);
    kmf_free(c->dz);
    kmf_free(c->length);
    kmf_free(c->u);
    kmf_free(c->g);
    kmf_free(c->loss);
    kmf_free(c->hit);
    kmf_free(c);
}

/* ---------------------------------------------------------------- rows ------------------- */

static void normalise(kmf_contrast *c, size_t i)
{
    size_t D = c->opts.D;
    const kmf_real *v = c->views->vectors + i * D;
    double squares = 0;
    for (size_t d = 0; d < D; d++)
        squares += (double)v[d] * (double)v[d];
    c->length[i] = sqrt(squares);
    for (size_t d = 0; d < D; d++)
        c->z[i * D + d] =
            c->length[i] > TINY ? (kmf_real)((double)v[d] / c->length[i]) : KMF_REAL(0.0);
}

/* What the views are to an anchor. */
typedef struct relations {
    const kmf_contrast_views *views;
    size_t anchor;
    size_t pair, partner; /* positives; equal if there is one */
    double share;         /* of the pair's */
    double all;           /* not 0: the share of every view of the source */
} relations;

static relations relations_of(const kmf_contrast *c, size_t i)
{
    const kmf_contrast_views *v = c->views;
    relations r = {.views = v, .anchor = i, .pair = i ^ 1, .partner = i ^ 1, .share = 1};
    size_t others = 0;
    if (v->partner && v->partner[i] != i) {
        r.partner = v->partner[i] + 1;
        r.share = v->share[i];
    }
    for (size_t j = 0; c->opts.all_positives && !v->partner && j < v->n; j++)
        others += j != i && v->sources[j] == v->sources[i];
    r.all = others > 0 ? 1 / (double)others : 0;
    return r;
}

/* 0: it is none. */
static double positive_share(const relations *r, size_t j)
{
    const size_t *sources = r->views->sources;
    if (r->all > 0)
        return j != r->anchor && sources[j] == sources[r->anchor] ? r->all : 0;
    if (j == r->pair)
        return r->share;
    return j == r->partner ? 1 - r->share : 0;
}

static bool is_negative(const relations *r, size_t j)
{
    const size_t *sources = r->views->sources;
    bool key = r->views->partner ? j % 2 == 1 : j != r->anchor;
    return key && sources[j] != sources[r->anchor] && sources[j] != sources[r->partner];
}

/* Of a row: its greatest terms, and sums of the terms as multiples of the greatest. */
typedef struct sums {
    size_t n;            /* negatives */
    double negative;     /* the greatest u of theirs */
    double positive;     /* and of the positives */
    double greatest;     /* of both */
    double hard, soft;   /* of exp((1 + b) (u - negative)) and of exp(b (u - negative)) */
    double crowd, whole; /* N and N + sum_p exp(u), over exp(greatest) */
} sums;

static sums sum_up(const kmf_contrast *c, const relations *r, const kmf_real *u)
{
    sums s = {.negative = -HUGE_VAL, .positive = -HUGE_VAL};
    double b = c->opts.hardness;
    for (size_t j = 0; j < c->views->n; j++) {
        if (positive_share(r, j) > 0)
            s.positive = fmax(s.positive, (double)u[j]);
        if (!is_negative(r, j))
            continue;
        s.n++;
        s.negative = fmax(s.negative, (double)u[j]);
    }
    s.greatest = fmax(s.positive, s.negative);
    for (size_t j = 0; j < c->views->n; j++) {
        if (positive_share(r, j) > 0)
            s.whole += exp((double)u[j] - s.greatest);
        if (!is_negative(r, j))
            continue;
        s.hard += exp((1 + b) * ((double)u[j] - s.negative));
        s.soft += exp(b * ((double)u[j] - s.negative));
    }
    s.crowd = s.n > 0 ? (double)s.n * s.hard / s.soft * exp(s.negative - s.greatest) : 0;
    s.whole += s.crowd;
    return s;
}

/* A row of u becomes one of C. */
static void anchor(kmf_contrast *c, size_t i, kmf_real *u)
{
    relations r = relations_of(c, i);
    sums s = sum_up(c, &r, u);
    double b = c->opts.hardness;
    c->loss[i] = s.greatest + log(s.whole);
    c->hit[i] = s.n > 0 && s.positive > s.negative;
    for (size_t j = 0; j < c->views->n; j++) {
        double share = positive_share(&r, j);
        double x = (double)u[j];
        double slope = 0;
        if (share > 0) {
            c->loss[i] -= share * x;
            slope = exp(x - s.greatest) / s.whole - share;
        } else if (is_negative(&r, j)) {
            x -= s.negative;
            slope = s.crowd / s.whole *
                    ((1 + b) * exp((1 + b) * x) / s.hard - b * exp(b * x) / s.soft);
        }
        u[j] = (kmf_real)slope;
    }
}

/* ---------------------------------------------------------------- blocks of rows --------- */

static size_t block_rows(const kmf_contrast *c, size_t block)
{
    size_t beg = block * KMF_TILE;
    return kmf_min(c->views->n - beg, KMF_TILE);
}

static int compare_block(void *arg, size_t block, int worker, kmf_err *err)
{
    kmf_contrast *c = arg;
    size_t beg = block * KMF_TILE;
    size_t rows = block_rows(c, block);
    size_t n = c->views->n, D = c->opts.D;
    (void)worker;
    (void)err;
    kmf_gemm_inner(c->u + beg * n, n, c->z + beg * D, D, c->z, D, rows, n, D, KMF_GEMM_TB);
    for (size_t i = beg; i < beg + rows; i++) {
        kmf_real *u = c->u + i * n;
        for (size_t j = 0; j < n; j++)
            u[j] = (kmf_real)((double)u[j] / c->opts.temperature);
        c->loss[i] = 0;
        c->hit[i] = 0;
        if (c->views->partner && i % 2 == 1)
            memset(u, 0, n * sizeof *u);
        else
            anchor(c, i, u);
    }
    return 0;
}

static int return_block(void *arg, size_t block, int worker, kmf_err *err)
{
    kmf_contrast *c = arg;
    size_t beg = block * KMF_TILE;
    size_t rows = block_rows(c, block);
    size_t n = c->views->n, D = c->opts.D;
    (void)worker;
    (void)err;
    for (size_t i = beg; i < beg + rows; i++)
        for (size_t j = 0; j < n; j++)
            c->g[i * n + j] = c->u[i * n + j] + c->u[j * n + i];
    kmf_gemm_inner(c->dz + beg * D, D, c->g + beg * n, n, c->z, D, rows, D, n, 0);
    for (size_t i = beg; i < beg + rows; i++) {
        const kmf_real *z = c->z + i * D, *dz = c->dz + i * D;
        double along = 0;
        double scale = c->length[i] > TINY ? c->scale / c->length[i] : 0;
        for (size_t d = 0; d < D; d++)
            along += (double)z[d] * (double)dz[d];
        for (size_t d = 0; d < D; d++)
            c->dvectors[i * D + d] = (kmf_real)(scale * ((double)dz[d] - along * (double)z[d]));
    }
    return 0;
}

int kmf_contrast_learn(kmf_contrast *contrast, kmf_real *dvectors,
                       const kmf_contrast_views *views, double scale,
                       kmf_contrast_result *result, kmf_err *err)
{
    kmf_contrast *c = contrast;
    size_t blocks = kmf_div_up(views->n, KMF_TILE);
    assert(views->n % 2 == 0 && views->n <= c->opts.most);
    c->views = views;
    c->dvectors = dvectors;
    *result = (kmf_contrast_result){.anchors = views->partner ? views->n / 2 : views->n};
    if (result->anchors == 0)
        return 0;
    c->scale = scale / (c->opts.temperature * (double)result->anchors);
    for (size_t i = 0; i < views->n; i++)
        normalise(c, i);
    if (kmf_pool_each(c->opts.pool, blocks, compare_block, c, err) < 0 ||
        (dvectors && kmf_pool_each(c->opts.pool, blocks, return_block, c, err) < 0))
        return KMF_ENOMEM;
    for (size_t i = 0; i < views->n; i++) {
        result->loss += c->loss[i];
        result->hits += c->hit[i];
    }
    result->loss /= (double)result->anchors;
    return 0;
}
