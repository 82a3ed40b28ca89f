/* SPDX-License-Identifier: MIT */
#include "model/ffn_order.h"

#include "base/mem.h"
#include "nn/panels.h"

#include <math.h>
#include <stdlib.h>

#define DEVIATIONS 4
#define PORTION 64 /* of a row, rounded at a time */

typedef struct column {
    double reach;
    size_t index;
} column;

static int by_reach(const void *a, const void *b)
{
    const column *x = a;
    const column *y = b;
    if (x->reach != y->reach)
        return x->reach < y->reach ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/*
 * Mean and deviation of row o of W1, as int8 rounds it, times what the norm gives; norms may lack
 * weight or bias.
 */
static void moments(double *mean, double *deviation, const kmf_layer *w, const float *norm_w,
                    const float *norm_b, size_t o, size_t D)
{
    const float *row = w->w1 + o * D;
    float scale = kmf_int8_scale(row, D);
    float unused = 0;
    double sum = w->b1 ? (double)w->b1[o] : 0;
    double squares = 0;
    int8_t q[PORTION];
    for (size_t i = 0; i < D; i++) {
        if (i % PORTION == 0)
            kmf_int8_round(q, &unused, row + i, scale, kmf_min(D - i, PORTION));
        double weight = (double)q[i % PORTION] * (double)scale;
        double scaled = weight * (norm_w ? (double)norm_w[i] : 1);
        squares += scaled * scaled;
        sum += norm_b ? weight * (double)norm_b[i] : 0;
    }
    *mean = sum;
    *deviation = sqrt(squares);
}

int kmf_ffn_order(size_t *order, const kmf_config *config, const kmf_layer *layer, kmf_err *err)
{
    size_t D = config->hidden_size;
    size_t F = config->intermediate_size;
    const float *norm_w = config->pre_norm ? layer->ln2_w : layer->ln1_w;
    const float *norm_b = config->pre_norm ? layer->ln2_b : layer->ln1_b;
    column *columns = kmf_malloc(F, sizeof *columns, err);
    if (!columns)
        return KMF_ENOMEM;
    for (size_t f = 0; f < F; f++) {
        double mean, deviation;
        moments(&mean, &deviation, layer, norm_w, norm_b, f, D);
        columns[f] = (column){mean + DEVIATIONS * deviation, f};
        if (config->gated) {
            moments(&mean, &deviation, layer, norm_w, norm_b, F + f, D);
            columns[f].reach *= fabs(mean) + DEVIATIONS * deviation;
        }
        if (isnan(columns[f].reach))
            columns[f].reach = HUGE_VAL; /* there is an order, whatever the weights are */
    }
    qsort(columns, F, sizeof *columns, by_reach);
    for (size_t f = 0; f < F; f++)
        order[f] = columns[f].index;
    kmf_free(columns);
    return 0;
}
