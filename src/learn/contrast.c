/* SPDX-License-Identifier: MIT */
/*
 * Three products and what lies between, all in blocks of rows:
 *
 *   u = z z^T / t                           [n, n]
 *   C = dL/du, row by row, in the place of u
 *   dz = (C + C^T) z / t                    [n, D]
 *   dv = (dz - (z . dz) z) / |v|            back through the norm
 *
 * With P the softmax of the denominator's terms, C_ip = P_ip - 1, and for a negative j, from
 * ln N = ln n + lse((1 + b) u) - lse(b u),
 *
 *   C_ij = (N / (exp(u_ip) + N)) ((1 + b) softmax_j((1 + b) u) - b softmax_j(b u))
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

/* What an anchor is to be like: views and their shares. */
typedef struct targets {
    size_t view[2];
    double share[2];
    size_t n;
    size_t source[2]; /* whose views are no negatives */
} targets;

static targets targets_of(const kmf_contrast_views *v, size_t i)
{
    targets t = {
        .view = {i ^ 1}, .share = {1}, .n = 1, .source = {v->sources[i], v->sources[i]}};
    if (!v->partner || v->partner[i] == i)
        return t;
    t.n = 2;
    t.view[1] = v->partner[i] + 1;
    t.share[0] = v->share[i];
    t.share[1] = 1 - v->share[i];
    t.source[1] = v->sources[v->partner[i]];
    return t;
}

static bool is_negative(const kmf_contrast_views *v, const targets *t, size_t i, size_t j)
{
    bool key = v->partner ? j % 2 == 1 : j != i;
    return key && v->sources[j] != t->source[0] && v->sources[j] != t->source[1];
}

/* Over the negatives of a row: their number, greatest u, and the sums that N is made of. */
typedef struct crowd {
    size_t n;
    double greatest;
    double hard, soft; /* of exp((1 + b) (u - greatest)) and of exp(b (u - greatest)) */
} crowd;

static crowd look_at(const kmf_contrast *c, const targets *t, size_t i, const kmf_real *u)
{
    crowd all = {.greatest = -HUGE_VAL};
    double b = c->opts.hardness;
    for (size_t j = 0; j < c->views->n; j++)
        if (is_negative(c->views, t, i, j)) {
            all.n++;
            all.greatest = fmax(all.greatest, (double)u[j]);
        }
    for (size_t j = 0; j < c->views->n; j++)
        if (is_negative(c->views, t, i, j)) {
            double x = (double)u[j] - all.greatest;
            all.hard += exp((1 + b) * x);
            all.soft += exp(b * x);
        }
    return all;
}

/* A row of u becomes one of C. */
static void anchor(kmf_contrast *c, size_t i, kmf_real *u)
{
    const kmf_contrast_views *v = c->views;
    targets t = targets_of(v, i);
    crowd all = look_at(c, &t, i, u);
    double b = c->opts.hardness;
    double top = all.greatest;
    double like[2];
    for (size_t k = 0; k < t.n; k++) {
        like[k] = (double)u[t.view[k]];
        top = fmax(top, like[k]);
    }
    /* all terms as multiples of exp(top) */
    double crowded =
        all.n > 0 ? (double)all.n * all.hard / all.soft * exp(all.greatest - top) : 0;
    double sum = crowded;
    for (size_t k = 0; k < t.n; k++)
        sum += exp(like[k] - top);
    c->loss[i] = top + log(sum);
    for (size_t k = 0; k < t.n; k++)
        c->loss[i] -= t.share[k] * like[k];
    c->hit[i] = like[t.share[0] >= 0.5 || t.n < 2 ? 0 : 1] > all.greatest;
    for (size_t j = 0; j < v->n; j++) {
        double x = (double)u[j] - all.greatest;
        u[j] = is_negative(v, &t, i, j) ? (kmf_real)(crowded / sum *
                                                     ((1 + b) * exp((1 + b) * x) / all.hard -
                                                      b * exp(b * x) / all.soft))
                                        : KMF_REAL(0.0);
    }
    for (size_t k = 0; k < t.n; k++)
        u[t.view[k]] += (kmf_real)(exp(like[k] - top) / sum - t.share[k]);
}

/* ---------------------------------------------------------------- blocks of rows --------- */

static size_t block_rows(const kmf_contrast *c, size_t block)
{
    size_t beg = block * KMF_TILE;
    return c->views->n - beg < KMF_TILE ? c->views->n - beg : KMF_TILE;
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
    size_t blocks = (views->n + KMF_TILE - 1) / KMF_TILE;
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
