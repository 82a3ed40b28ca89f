/* SPDX-License-Identifier: MIT */
/*
 * Sums over rows run in double and in row order: columns of frequencies have deviations that are
 * a thousandth of what float32 could sum up, and one pass costs little beside what follows.
 */
#include "eval/scaler.h"

#include "base/mem.h"

#include <string.h>

/* A deviation below this part of the mean is that of roundings: the column does not change. */
#define CONSTANT 1e-9

size_t kmf_rows_there(size_t *keep, const float *x, size_t n, size_t dim)
{
    size_t n_there = 0;
    for (size_t i = 0; i < n; i++)
        if (kmf_row_is_there(x + i * dim))
            keep[n_there++] = i;
    return n_there;
}

float kmf_rows_largest(const float *x, size_t n, size_t dim)
{
    float most = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < dim; d++) { /* a NaN is no greater */
            float size = fabsf(x[i * dim + d]);
            most = size > most ? size : most;
        }
    return most;
}

void kmf_rows_mean(double *mean, const float *x, size_t n, size_t dim)
{
    size_t n_there = 0;
    memset(mean, 0, dim * sizeof *mean);
    for (size_t i = 0; i < n; i++) {
        const float *row = x + i * dim;
        if (!kmf_row_is_there(row))
            continue;
        n_there++;
        for (size_t d = 0; d < dim; d++)
            mean[d] += (double)row[d];
    }
    for (size_t d = 0; d < dim && n_there > 0; d++)
        mean[d] /= (double)n_there;
}

static void rows_variance(double *variance, const double *mean, const float *x, size_t n,
                          size_t dim)
{
    size_t n_there = 0;
    memset(variance, 0, dim * sizeof *variance);
    for (size_t i = 0; i < n; i++) {
        const float *row = x + i * dim;
        if (!kmf_row_is_there(row))
            continue;
        n_there++;
        for (size_t d = 0; d < dim; d++) {
            double away = (double)row[d] - mean[d];
            variance[d] += away * away;
        }
    }
    for (size_t d = 0; d < dim && n_there > 0; d++)
        variance[d] /= (double)n_there;
}

static double deviation_of(double variance, double size_of_mean)
{
    double s = sqrt(variance);
    return s > CONSTANT * size_of_mean ? s : 1;
}

void kmf_rows_deviation(double *deviation, const double *mean, const float *x, size_t n,
                        size_t dim)
{
    rows_variance(deviation, mean, x, n, dim);
    for (size_t d = 0; d < dim; d++)
        deviation[d] = deviation_of(deviation[d], fabs(mean[d]));
}

void kmf_rows_common_deviation(double *deviation, const double *mean, const float *x, size_t n,
                               size_t dim)
{
    double variance = 0;
    double square = 0;
    rows_variance(deviation, mean, x, n, dim);
    for (size_t d = 0; d < dim; d++) {
        variance += deviation[d];
        square += mean[d] * mean[d];
    }
    double common = deviation_of(variance / (double)dim, sqrt(square / (double)dim));
    for (size_t d = 0; d < dim; d++)
        deviation[d] = common;
}

int32_t kmf_most_frequent(double *shares, const int32_t *y, size_t n, size_t n_classes)
{
    size_t n_known = 0;
    int32_t best = 0;
    memset(shares, 0, n_classes * sizeof *shares);
    for (size_t i = 0; i < n; i++)
        if ((size_t)y[i] < n_classes) {
            shares[y[i]]++;
            n_known++;
        }
    for (size_t c = 0; c < n_classes; c++) {
        if (shares[c] > shares[best])
            best = (int32_t)c;
    }
    for (size_t c = 0; c < n_classes && n_known > 0; c++)
        shares[c] /= (double)n_known;
    return best;
}

/* ---------------------------------------------------------------- scales ----------------- */

static bool takes_mean(kmf_scale kind)
{
    return kind == KMF_SCALE_STANDARD || kind == KMF_SCALE_CENTER_L2;
}

static bool takes_length(kmf_scale kind)
{
    return kind == KMF_SCALE_L2 || kind == KMF_SCALE_CENTER_L2;
}

int kmf_scaler_init(kmf_scaler *s, kmf_scale kind, const float *x, size_t n, size_t dim,
                    kmf_err *err)
{
    *s = (kmf_scaler){.kind = kind, .dim = dim};
    s->mean = kmf_calloc(dim, sizeof *s->mean, err);
    s->deviation = kmf_calloc(dim, sizeof *s->deviation, err);
    s->middle = kmf_calloc(dim, sizeof *s->middle, err);
    double *sum = kmf_calloc(dim, sizeof *sum, err);
    float *row = kmf_floats(dim, err);
    int status = s->mean && s->deviation && s->middle && sum && row ? 0 : KMF_ENOMEM;
    if (status == 0) {
        size_t n_there = 0;
        kmf_rows_mean(s->mean, x, n, dim);
        kmf_rows_deviation(s->deviation, s->mean, x, n, dim);
        for (size_t i = 0; i < n; i++) {
            if (!kmf_row_is_there(x + i * dim))
                continue;
            kmf_scaler_apply(s, row, x + i * dim, 1);
            n_there++;
            for (size_t d = 0; d < dim; d++)
                sum[d] += (double)row[d];
        }
        for (size_t d = 0; d < dim && n_there > 0; d++)
            s->middle[d] = sum[d] / (double)n_there;
    }
    kmf_free(row);
    kmf_free(sum);
    return status;
}

void kmf_scaler_free(kmf_scaler *s)
{
    kmf_free(s->mean);
    kmf_free(s->deviation);
    kmf_free(s->middle);
}

static double length_of(const kmf_scaler *s, const float *x)
{
    double square = 0;
    for (size_t d = 0; d < s->dim; d++) {
        double v = (double)x[d] - (takes_mean(s->kind) ? s->mean[d] : 0);
        square += v * v;
    }
    return square > 0 ? sqrt(square) : 1;
}

void kmf_scaler_apply(const kmf_scaler *s, float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++, x += s->dim, y += s->dim) {
        double length = takes_length(s->kind) ? length_of(s, x) : 1;
        for (size_t d = 0; d < s->dim; d++) {
            double v = (double)x[d] - (takes_mean(s->kind) ? s->mean[d] : 0);
            v /= s->kind == KMF_SCALE_STANDARD ? s->deviation[d] : length;
            y[d] = (float)(v - s->middle[d]);
        }
    }
}
