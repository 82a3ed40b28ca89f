/* SPDX-License-Identifier: MIT */
/*
 * With P the softmax of Z W^T + b [n, C] and Y the true classes, one in each row,
 *
 *   df/dW = (P - Y)^T Z / n + l2 W        df/db = (P - Y)^T 1 / n
 *
 * (Bishop, Pattern Recognition and Machine Learning, 4.3.4). Both products run over blocks of
 * rows that stay in the cache:
 *
 *     rows    | lane 0: block, block, ... | lane 1: block, block, ... | ... at most 16
 *     lane    the gradients of W [C, dim] and b [C] float, the loss double
 *
 * A lane is a job; where lanes begin is fixed by n alone, a lane adds up its blocks in order, and
 * the lanes are added in order in double, so threads change no bit.
 */
#include "eval/logistic.h"

#include "base/err.h"
#include "base/mem.h"
#include "eval/scaler.h"
#include "nn/gemm.h"
#include "nn/loss.h"
#include "nn/ops.h"
#include "seq/par.h"

#include <math.h>
#include <string.h>

#define LANES 16
#define VECTOR 16      /* floats */
#define NEVER (-1e30f) /* beside any logit: its exponential is 0 */

typedef struct lane {
    size_t beg, end; /* rows */
    float *weights;  /* owned [C, dim]; the gradient's sum */
    float *biases;   /* owned [C]; likewise */
    float *logits;   /* owned [KMF_ROWS_BLOCK, ld] */
    double *nll;     /* owned [KMF_ROWS_BLOCK] */
    double loss;
} lane;

struct kmf_logistic {
    const float *z;
    const int32_t *y;
    size_t n, dim, C;
    size_t ld; /* C in whole vectors, filled up with classes of probability 0 */
    double l2;
    kmf_pool *pool;
    float *w;    /* owned [C, dim], then b [C] */
    double *sum; /* owned [C]; of the squares of a row of W */
    lane lanes[LANES];
    size_t n_lanes;
    const double *x;  /* of the call under way */
    double *gradient; /* likewise */
};

static int make_lane(kmf_logistic *l, size_t i, kmf_err *err)
{
    lane *a = &l->lanes[i];
    size_t blocks = kmf_div_up(l->n, KMF_ROWS_BLOCK);
    a->beg = blocks * i / l->n_lanes * KMF_ROWS_BLOCK;
    a->end = blocks * (i + 1) / l->n_lanes * KMF_ROWS_BLOCK;
    a->end = kmf_min(a->end, l->n);
    a->weights = kmf_floats(l->C * l->dim, err);
    a->biases = kmf_floats(l->C, err);
    a->logits = kmf_floats(KMF_ROWS_BLOCK * l->ld, err);
    a->nll = kmf_malloc(KMF_ROWS_BLOCK, sizeof *a->nll, err);
    return a->weights && a->biases && a->logits && a->nll ? 0 : KMF_ENOMEM;
}

kmf_logistic *kmf_logistic_new(const float *z, const int32_t *y, size_t n, size_t dim,
                               size_t n_classes, kmf_pool *pool, kmf_err *err)
{
    size_t room;
    kmf_logistic *l = kmf_calloc(1, sizeof *l, err);
    if (!l)
        return NULL;
    *l = (kmf_logistic){.z = z, .y = y, .n = n, .dim = dim, .C = n_classes, .pool = pool};
    size_t blocks = kmf_div_up(n, KMF_ROWS_BLOCK);
    l->n_lanes = kmf_min(blocks, LANES);
    if (!kmf_mul(dim + 1, n_classes, &room) ||
        !kmf_mul(n_classes + VECTOR, KMF_ROWS_BLOCK, &room)) {
        kmf_fail(err, KMF_ENOMEM, "out of memory: %zu classes of %zu numbers", n_classes, dim);
        goto failed;
    }
    l->ld = kmf_round_up(n_classes, VECTOR);
    l->w = kmf_floats(n_classes * (dim + 1), err);
    l->sum = kmf_calloc(n_classes, sizeof *l->sum, err);
    if (!l->w || !l->sum)
        goto failed;
    for (size_t i = 0; i < l->n_lanes; i++)
        if (make_lane(l, i, err) < 0)
            goto failed;
    return l;
failed:
    kmf_logistic_free(l);
    return NULL;
}

void kmf_logistic_free(kmf_logistic *l)
{
    if (!l)
        return;
    for (size_t i = 0; i < LANES; i++) {
        kmf_free(l->lanes[i].weights);
        kmf_free(l->lanes[i].biases);
        kmf_free(l->lanes[i].logits);
        kmf_free(l->lanes[i].nll);
    }
    kmf_free(l->w);
    kmf_free(l->sum);
    kmf_free(l);
}

void kmf_logistic_set_l2(kmf_logistic *l, double l2)
{
    l->l2 = l2;
}

/* W z of some rows becomes p - y, and adds to the lane's loss and biases. */
static void take_rows(const kmf_logistic *l, lane *a, const int32_t *y, size_t n)
{
    size_t C = l->C;
    size_t ld = l->ld;
    kmf_bias_forward(a->logits, ld, l->w + C * l->dim, n, C);
    for (size_t r = 0; r < n; r++)
        for (size_t c = C; c < ld; c++)
            a->logits[r * ld + c] = NEVER;
    kmf_softmax_forward(a->logits, ld, a->nll, y, n, ld);
    for (size_t r = 0; r < n; r++) {
        a->loss += a->nll[r]; /* not finite: lbfgs.c takes a shorter step */
        a->logits[r * ld + (size_t)y[r]] -= 1;
    }
    kmf_bias_backward(a->biases, a->logits, ld, n, C);
}

static int work_lane(void *arg, size_t i, int worker, kmf_err *err)
{
    kmf_logistic *l = arg;
    lane *a = &l->lanes[i];
    size_t C = l->C;
    (void)worker;
    (void)err;
    a->loss = 0;
    memset(a->biases, 0, C * sizeof *a->biases);
    for (size_t beg = a->beg; beg < a->end; beg += KMF_ROWS_BLOCK) {
        size_t n = kmf_min(a->end - beg, KMF_ROWS_BLOCK);
        const float *z = l->z + beg * l->dim;
        kmf_gemm_inner(a->logits, l->ld, z, l->dim, l->w, l->dim, n, C, l->dim, KMF_GEMM_TB);
        take_rows(l, a, l->y + beg, n);
        kmf_gemm_inner(a->weights, l->dim, a->logits, l->ld, z, l->dim, C, l->dim, n,
                       KMF_GEMM_TA | (beg > a->beg ? KMF_GEMM_ADD : 0));
    }
    return 0;
}

/* The gradient of class c's weights. */
static int add_lanes(void *arg, size_t c, int worker, kmf_err *err)
{
    kmf_logistic *l = arg;
    const double *w = l->x + c * l->dim;
    double *g = l->gradient + c * l->dim;
    double square = 0;
    (void)worker;
    (void)err;
    for (size_t d = 0; d < l->dim; d++) {
        double sum = 0;
        for (size_t i = 0; i < l->n_lanes; i++)
            sum += (double)l->lanes[i].weights[c * l->dim + d];
        g[d] = sum / (double)l->n + l->l2 * w[d];
        square += w[d] * w[d];
    }
    l->sum[c] = square;
    return 0;
}

int kmf_logistic_loss(void *user, double *value, double *gradient, const double *x,
                      kmf_err *err)
{
    kmf_logistic *l = user;
    size_t n_weights = l->C * l->dim;
    l->x = x;
    l->gradient = gradient;
    for (size_t i = 0; i < n_weights + l->C; i++)
        l->w[i] = (float)x[i];
    int status = kmf_pool_each(l->pool, l->n_lanes, work_lane, l, err);
    if (status == 0)
        status = kmf_pool_each(l->pool, l->C, add_lanes, l, err);
    if (status < 0)
        return status;
    double loss = 0;
    double square = 0;
    for (size_t i = 0; i < l->n_lanes; i++)
        loss += l->lanes[i].loss;
    for (size_t c = 0; c < l->C; c++) {
        double sum = 0;
        for (size_t i = 0; i < l->n_lanes; i++)
            sum += (double)l->lanes[i].biases[c];
        gradient[n_weights + c] = sum / (double)l->n;
        square += l->sum[c];
    }
    *value = loss / (double)l->n + l->l2 / 2 * square;
    return 0;
}
