/* SPDX-License-Identifier: MIT */
/*
 * The probe: logistic regression on vectors as they are.
 *
 * It is learnt on standardised numbers, z = (x - m) / s, since the vectors of models differ in size
 * by orders of magnitude; then the scale is folded into the weights, so that whoever uses them
 * needs no m and s:
 *
 *   W z + b = (W / s) x + (b - W (m / s))
 *
 * One l2 has to serve all columns. Where each has its own s, those that hardly change count as much
 * as others, and with few records and many classes their noise is learnt; with one s for all, what
 * is large is learnt first.
 *
 * The values of l2 are tried from the largest down, each beginning where the one before ended.
 */
#include "base/err.h"
#include "base/mem.h"
#include "eval/lbfgs.h"
#include "eval/logistic.h"
#include "eval/probe.h"
#include "eval/scaler.h"
#include "nn/wide_dots.h"

#define PAIRS 10
/* A step that lowers the loss by less is the last one: while values are tried, and at the end. */
#define LEAST_GAIN_TRIED 1e-6
#define LEAST_GAIN 1e-8

static const double grid[KMF_PROBE_GRID] = {1, 0.1, 0.01, 1e-3, 1e-4, 1e-5};

const char *const kmf_probe_scale_names[] = {"column", "common", "auto", NULL};

void kmf_probe_options_default(kmf_probe_options *opts)
{
    *opts = (kmf_probe_options){.scale = -1, .iterations = 500, .tolerance = 1e-4};
}

/* The scale asked for. */
static int scale_of(const kmf_probe_options *opts)
{
    if (opts->scale != -1)
        return opts->scale;
    return opts->l2 > 0 ? KMF_PROBE_COLUMN : KMF_PROBE_AUTO;
}

int kmf_probe_chooses(const kmf_probe_options *opts)
{
    return opts->l2 <= 0 || scale_of(opts) == KMF_PROBE_AUTO;
}

/* ---------------------------------------------------------------- one probe -------------- */

kmf_probe *kmf_probe_new(size_t dim, size_t n_classes, kmf_err *err)
{
    size_t n;
    kmf_probe *p = kmf_calloc(1, sizeof *p, err);
    if (!p)
        return NULL;
    p->dim = dim;
    p->n_classes = n_classes;
    p->chosen = (double)NAN;
    if (!kmf_mul(dim, n_classes, &n)) {
        kmf_fail(err, KMF_ENOMEM, "out of memory: %zu classes of %zu numbers", n_classes, dim);
        goto failed;
    }
    p->weights = kmf_floats(n, err);
    p->biases = kmf_floats(n_classes, err);
    p->shares = kmf_floats(n_classes, err);
    p->labels = kmf_calloc(n_classes, sizeof *p->labels, err);
    if (p->weights && p->biases && p->shares && p->labels)
        return p;
failed:
    kmf_probe_free(p);
    return NULL;
}

void kmf_probe_free(kmf_probe *p)
{
    if (!p)
        return;
    kmf_free(p->weights);
    kmf_free(p->biases);
    kmf_free(p->shares);
    kmf_free(p->labels);
    kmf_free(p->text);
    kmf_free(p->identity);
    kmf_free(p->provenance);
    kmf_free(p);
}

size_t kmf_probe_dim(const kmf_probe *probe)
{
    return probe->dim;
}

size_t kmf_probe_n_classes(const kmf_probe *probe)
{
    return probe->n_classes;
}

double kmf_probe_l2(const kmf_probe *probe)
{
    return probe->l2;
}

kmf_probe_scale kmf_probe_scaled_by(const kmf_probe *probe)
{
    return probe->scale;
}

double kmf_probe_chosen_accuracy(const kmf_probe *probe)
{
    return probe->chosen;
}

const float *kmf_probe_weights(const kmf_probe *probe)
{
    return probe->weights;
}

const float *kmf_probe_biases(const kmf_probe *probe)
{
    return probe->biases;
}

int32_t kmf_probe_predict(const kmf_probe *p, double *probabilities, const float *x)
{
    int32_t best = 0;
    double sum = 0;
    bool there = kmf_row_is_there(x);
    if (there)
        kmf_wide_dots(probabilities, x, p->weights, p->n_classes, p->dim);
    for (size_t c = 0; c < p->n_classes; c++) {
        probabilities[c] =
            there ? probabilities[c] + (double)p->biases[c] : (double)p->shares[c];
        if (probabilities[c] > probabilities[best])
            best = (int32_t)c;
    }
    if (!there)
        return best;
    double most = probabilities[best];
    for (size_t c = 0; c < p->n_classes; c++) {
        probabilities[c] = exp(probabilities[c] - most);
        sum += probabilities[c];
    }
    for (size_t c = 0; c < p->n_classes; c++)
        probabilities[c] /= sum;
    return best;
}

/* ---------------------------------------------------------------- learning --------------- */

/* The rows of a part that are there, standardised, and the way to their minimum. */
typedef struct fitting {
    size_t n, dim, n_classes;
    kmf_probe_scale scale;
    float *z;               /* owned [n, dim] */
    int32_t *y;             /* owned [n] */
    double *mean, *spread;  /* owned [dim] */
    double *shares;         /* owned [n_classes]; of the whole part */
    double *theta;          /* owned [n_classes (dim + 1)] */
    kmf_logistic *logistic; /* owned */
} fitting;

static void fitting_free(fitting *l)
{
    kmf_logistic_free(l->logistic);
    kmf_free(l->z);
    kmf_free(l->y);
    kmf_free(l->mean);
    kmf_free(l->spread);
    kmf_free(l->shares);
    kmf_free(l->theta);
}

static int fitting_init(fitting *l, const kmf_points *part, size_t dim, size_t n_classes,
                        kmf_probe_scale scale, kmf_pool *pool, kmf_err *err)
{
    size_t n_theta = n_classes * (dim + 1);
    *l = (fitting){.dim = dim, .n_classes = n_classes, .scale = scale};
    l->y = kmf_malloc(part->n, sizeof *l->y, err);
    l->mean = kmf_calloc(dim, sizeof *l->mean, err);
    l->spread = kmf_calloc(dim, sizeof *l->spread, err);
    l->shares = kmf_calloc(n_classes, sizeof *l->shares, err);
    l->theta = kmf_calloc(n_theta, sizeof *l->theta, err);
    l->z = kmf_large(part->n * dim, sizeof *l->z, err);
    if (!l->z || !l->y || !l->mean || !l->spread || !l->shares || !l->theta)
        return KMF_ENOMEM;
    kmf_rows_mean(l->mean, part->x, part->n, dim);
    if (scale == KMF_PROBE_COMMON)
        kmf_rows_common_deviation(l->spread, l->mean, part->x, part->n, dim);
    else
        kmf_rows_deviation(l->spread, l->mean, part->x, part->n, dim);
    (void)kmf_most_frequent(l->shares, part->y, part->n, n_classes);
    for (size_t i = 0; i < part->n; i++) {
        const float *x = part->x + i * dim;
        if (!kmf_row_is_there(x))
            continue;
        for (size_t d = 0; d < dim; d++)
            l->z[l->n * dim + d] = (float)(((double)x[d] - l->mean[d]) / l->spread[d]);
        l->y[l->n++] = part->y[i];
    }
    if (l->n == 0)
        return kmf_fail(err, KMF_EFORMAT, "no record to learn from has a vector");
    l->logistic = kmf_logistic_new(l->z, l->y, l->n, dim, n_classes, pool, err);
    return l->logistic ? 0 : KMF_ENOMEM;
}

/* What is learnt, one probe after the other, and how far that is. */
typedef struct training {
    const kmf_probe_options *opts;
    const kmf_points *fit, *dev;
    kmf_pool *pool;
    kmf_probe *probe; /* the last one learnt */
    kmf_probe_progress now;
} training;

static void report(void *user, int done)
{
    training *t = user;
    t->now.iteration = done;
    t->opts->fn(t->opts->user, &t->now);
}

/* The weights that a column's numbers are multiplied by as they are: of tiny ones they are huge. */
static int check_weights(const kmf_probe *p, const fitting *l, kmf_err *err)
{
    for (size_t i = 0; i < p->n_classes * p->dim; i++)
        if (!isfinite(p->weights[i]))
            return kmf_fail(err, KMF_ENUMERIC,
                            "column %zu: its numbers differ by %.2g alone, for which no weight "
                            "in float32 is large enough: they must be larger, or divided by "
                            "what all columns are (probe-scale common)",
                            i % p->dim + 1, l->spread[i % p->dim]);
    return 0;
}

/* Goes on to the minimum for l2, and puts it into the probe. */
static int learn(training *t, fitting *l, double l2, double least_gain, kmf_err *err)
{
    const kmf_probe_options *opts = t->opts;
    const kmf_lbfgs_options how = {.pairs = PAIRS,
                                   .iterations = opts->iterations,
                                   .tolerance = opts->tolerance,
                                   .least_gain = least_gain,
                                   .before = opts->fn ? report : NULL,
                                   .about = t};
    kmf_probe *p = t->probe;
    size_t dim = l->dim;
    t->now.number++;
    t->now.l2 = l2;
    t->now.scale = l->scale;
    kmf_logistic_set_l2(l->logistic, l2);
    int status = kmf_lbfgs(l->theta, l->n_classes * (dim + 1), kmf_logistic_loss, l->logistic,
                           &how, err);
    if (status < 0)
        return status;
    p->l2 = l2;
    p->scale = l->scale;
    for (size_t c = 0; c < l->n_classes; c++) {
        double bias = l->theta[l->n_classes * dim + c];
        for (size_t d = 0; d < dim; d++) {
            double w = l->theta[c * dim + d] / l->spread[d];
            p->weights[c * dim + d] = (float)w;
            bias -= w * l->mean[d];
        }
        p->biases[c] = (float)bias;
        p->shares[c] = (float)l->shares[c];
    }
    return check_weights(p, l, err);
}

static size_t count_right(const kmf_probe *p, double *probabilities, const kmf_points *part)
{
    size_t right = 0;
    for (size_t i = 0; i < part->n; i++)
        right += kmf_probe_predict(p, probabilities, part->x + i * p->dim) == part->y[i];
    return right;
}

/* What a probe is learnt with, and how many of dev it is right about then. */
typedef struct choice {
    double l2;
    kmf_probe_scale scale;
    size_t right;
} choice;

static size_t n_values(const kmf_probe_options *opts)
{
    return opts->l2 > 0 ? 1 : KMF_PROBE_GRID;
}

static int n_tried(const kmf_probe_options *opts)
{
    int scales = scale_of(opts) == KMF_PROBE_AUTO ? KMF_PROBE_AUTO : 1;
    return kmf_probe_chooses(opts) ? scales * (int)n_values(opts) : 0;
}

/* Tries the values of l2, or the one given, at one scale. Of equals the first stays. */
static int try_scale(training *t, choice *best, kmf_probe_scale scale, kmf_err *err)
{
    fitting l;
    const kmf_probe *p = t->probe;
    const kmf_probe_options *opts = t->opts;
    const double *values = opts->l2 > 0 ? &opts->l2 : grid;
    int status = fitting_init(&l, t->fit, p->dim, p->n_classes, scale, t->pool, err);
    double *probabilities = kmf_calloc(p->n_classes, sizeof *probabilities, err);
    if (!probabilities)
        status = KMF_ENOMEM;
    for (size_t i = 0; i < n_values(opts) && status == 0; i++) {
        status = learn(t, &l, values[i], LEAST_GAIN_TRIED, err);
        size_t right = status == 0 ? count_right(p, probabilities, t->dev) : 0;
        if (best->l2 <= 0 || right > best->right)
            *best = (choice){values[i], scale, right};
    }
    kmf_free(probabilities);
    fitting_free(&l);
    return status;
}

static int choose(training *t, choice *best, kmf_err *err)
{
    const kmf_probe_options *opts = t->opts;
    bool chooses = kmf_probe_chooses(opts);
    int status = 0;
    *best = (choice){0};
    if (!chooses)
        *best = (choice){.l2 = opts->l2, .scale = (kmf_probe_scale)scale_of(opts)};
    for (int scale = 0; chooses && scale < KMF_PROBE_AUTO && status == 0; scale++)
        if (scale_of(opts) == KMF_PROBE_AUTO || scale_of(opts) == scale)
            status = try_scale(t, best, (kmf_probe_scale)scale, err);
    return status;
}

static int check_options(const kmf_probe_options *o, const kmf_points *fit,
                         const kmf_points *dev, size_t dim, size_t n_classes, kmf_err *err)
{
    if (!(o->l2 >= 0 && isfinite(o->l2)) || o->iterations < 1 || !(o->tolerance > 0))
        return kmf_fail(err, KMF_EINVAL,
                        "l2 must be 0 or more, and iterations and tolerance above 0");
    if (scale_of(o) < 0 || scale_of(o) > KMF_PROBE_AUTO)
        return kmf_fail(err, KMF_EINVAL, "scale: %d is none of its values", o->scale);
    if (kmf_probe_chooses(o) && (!fit || !dev || dev->n == 0))
        return kmf_fail(err, KMF_EINVAL,
                        "l2 and scale can only be chosen with a part to try them on");
    if (dim == 0 || n_classes == 0 || n_classes > INT32_MAX)
        return kmf_fail(err, KMF_EINVAL, "%zu classes of vectors of %zu numbers", n_classes,
                        dim);
    return 0;
}

static int check_classes(const kmf_points *part, size_t n_classes, kmf_err *err)
{
    for (size_t i = 0; i < part->n; i++)
        if (part->y[i] < 0 || (size_t)part->y[i] >= n_classes)
            return kmf_fail(err, KMF_EINVAL, "row %zu is of class %d: there are 0 to %zu", i,
                            part->y[i], n_classes - 1);
    return 0;
}

kmf_probe *kmf_probe_train(const kmf_points *train, const kmf_points *fit,
                           const kmf_points *dev, size_t dim, size_t n_classes,
                           const kmf_probe_options *opts, kmf_pool *pool, kmf_err *err)
{
    fitting l = {0};
    choice how;
    if (check_options(opts, fit, dev, dim, n_classes, err) < 0 ||
        check_classes(train, n_classes, err) < 0 ||
        (kmf_probe_chooses(opts) && check_classes(fit, n_classes, err) < 0))
        return NULL;
    kmf_probe *p = kmf_probe_new(dim, n_classes, err);
    if (!p)
        return NULL;
    training t = {opts, fit, dev, pool, p, {.count = n_tried(opts) + 1}};
    int status = choose(&t, &how, err);
    if (status == 0)
        status = fitting_init(&l, train, dim, n_classes, how.scale, pool, err);
    if (status == 0)
        status = learn(&t, &l, how.l2, LEAST_GAIN, err);
    fitting_free(&l);
    if (status == 0 && kmf_probe_chooses(opts))
        p->chosen = (double)how.right / (double)dev->n;
    if (status == 0)
        return p;
    kmf_probe_free(p);
    return NULL;
}
