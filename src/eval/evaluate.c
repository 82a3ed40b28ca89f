/* SPDX-License-Identifier: MIT */
/*
 * One model's vectors, judged.
 *
 *     fit, dev --> l2 and probe's scale --> probe of train --------> test: accuracy, F1, MCC, AUC
 *     fit, dev --> scale --------------+--> neighbours in train ---> test: accuracy
 *                                      +--> k-means of test -------> ARI, NMI
 *
 * The test part is only ever asked, never chosen by: the scale is the one whose neighbours in fit
 * are right about dev most often, of equal ones the first.
 */
#include "base/err.h"
#include "base/mem.h"
#include "eval/kmeans.h"
#include "eval/neighbours.h"
#include "eval/repeated.h"
#include "eval/scaler.h"
#include "eval/scores.h"

#include <string.h>

#define RESTARTS_MAX 10000
#define RESAMPLES_MAX 1000000

const char *const kmf_scale_names[] = {"none", "standard", "l2", "center-l2", "auto", NULL};

typedef struct judge {
    const kmf_eval_options *opts;
    kmf_pool *pool;
    const float *x;
    size_t dim;
    const int32_t *y;
    const kmf_samples_info *info;
    kmf_points fit, dev, train, test;
    int32_t most_frequent; /* class of train */
    float *scaled;         /* owned [n, dim] */
    int32_t *answers;      /* owned [n]; room */
    kmf_eval_result *result;
    double compared, comparisons; /* of two records each: of the votes before, and of all */
    size_t n_learnt;              /* records that each one is compared with in this vote */
} judge;

void kmf_eval_options_default(kmf_eval_options *opts)
{
    *opts = (kmf_eval_options){
        .scale = KMF_SCALE_AUTO, .k = 5, .restarts = 10, .resamples = 1000, .seed = 1};
    kmf_probe_options_default(&opts->probe);
}

static int check_options(const kmf_eval_options *o, kmf_err *err)
{
    if (o->scale < 0 || o->scale > KMF_SCALE_AUTO)
        return kmf_fail(err, KMF_EINVAL, "scale: %d is none of its values", o->scale);
    if (o->k < 1 || o->k > KMF_NEIGHBOURS_MAX)
        return kmf_fail(err, KMF_EINVAL, "%zu neighbours: it must be 1 to %d", o->k,
                        KMF_NEIGHBOURS_MAX);
    if (o->restarts < 1 || o->restarts > RESTARTS_MAX)
        return kmf_fail(err, KMF_EINVAL, "%d restarts: it must be 1 to %d", o->restarts,
                        RESTARTS_MAX);
    if (o->resamples < 0 || o->resamples > RESAMPLES_MAX)
        return kmf_fail(err, KMF_EINVAL, "%d resamples: it must be 0 to %d", o->resamples,
                        RESAMPLES_MAX);
    return 0;
}

static kmf_points part(const judge *j, const float *x, size_t beg, size_t n)
{
    return (kmf_points){x + beg * j->dim, j->y + beg, n};
}

static size_t count_missing(const kmf_points *p, size_t dim)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        n += !kmf_row_is_there(p->x + i * dim);
    return n;
}

/* ---------------------------------------------------------------- the probe -------------- */

static int judge_probe(judge *j, kmf_err *err)
{
    size_t C = j->info->n_classes;
    kmf_eval_result *r = j->result;
    kmf_interval intervals[KMF_N_SCORES];
    int status = KMF_ENOMEM;
    err = kmf_err_or(err, &(kmf_err){0});
    kmf_probe *probe =
        kmf_probe_train(&j->train, &j->fit, &j->dev, j->dim, C, &j->opts->probe, j->pool, err);
    if (!probe)
        return (int)err->code;
    double *probabilities = kmf_malloc(j->test.n * C, sizeof *probabilities, err);
    if (probabilities) {
        for (size_t i = 0; i < j->test.n; i++)
            j->answers[i] =
                kmf_probe_predict(probe, probabilities + i * C, j->test.x + i * j->dim);
        const kmf_scored scored = {.truth = j->test.y,
                                   .predicted = j->answers,
                                   .probabilities = probabilities,
                                   .n = j->test.n,
                                   .n_classes = C,
                                   .n_all = j->info->n_all};
        status = kmf_score_intervals(intervals, &scored, j->opts->resamples, j->opts->seed,
                                     j->pool, err);
    }
    if (status == 0) {
        r->accuracy = intervals[KMF_ACCURACY];
        r->macro_f1 = intervals[KMF_MACRO_F1];
        r->mcc = intervals[KMF_MCC];
        r->auc = intervals[KMF_AUC];
        r->l2 = kmf_probe_l2(probe);
        r->probe_scale = kmf_probe_scaled_by(probe);
    }
    kmf_free(probabilities);
    kmf_probe_free(probe);
    return status;
}

/* ---------------------------------------------------------------- neighbours ------------- */

/* The part's rows of j->scaled, as those of `learnt` scale them. */
static int scale(judge *j, kmf_scale kind, const kmf_points *learnt, kmf_err *err)
{
    kmf_scaler scaler;
    int status = kmf_scaler_init(&scaler, kind, learnt->x, learnt->n, j->dim, err);
    if (status == 0)
        kmf_scaler_apply(&scaler, j->scaled, j->x, j->info->n);
    kmf_scaler_free(&scaler);
    return status;
}

static void tell_neighbours(void *arg, uint64_t asked)
{
    const judge *j = arg;
    double compared = j->compared + (double)asked * (double)j->n_learnt;
    j->opts->fn(j->opts->user, "neighbours", compared / j->comparisons);
}

/* Vectors that are not scaled are asked as they are: less their mean they would be rounded. */
static int vote(judge *j, kmf_scale kind, const kmf_points *learnt, const kmf_points *asked,
                kmf_err *err)
{
    const float *x = kind == KMF_SCALE_NONE ? j->x : j->scaled;
    kmf_points near = part(j, x, (size_t)(learnt->y - j->y), learnt->n);
    const float *q = x + (size_t)(asked->y - j->y) * j->dim;
    j->n_learnt = learnt->n;
    int status = kmf_neighbours_vote(j->answers, &near, q, asked->n, j->dim, j->opts->k,
                                     j->most_frequent, j->pool,
                                     j->opts->fn ? tell_neighbours : NULL, j, err);
    j->compared += (double)learnt->n * (double)asked->n;
    return status;
}

static int choose_scale(judge *j, kmf_err *err)
{
    size_t most = 0;
    j->result->scale = j->opts->scale;
    if (j->opts->scale != KMF_SCALE_AUTO)
        return 0;
    for (int kind = 0; kind < KMF_SCALE_AUTO; kind++) {
        size_t right = 0;
        int status = scale(j, (kmf_scale)kind, &j->fit, err);
        if (status == 0)
            status = vote(j, (kmf_scale)kind, &j->fit, &j->dev, err);
        if (status < 0)
            return status;
        for (size_t i = 0; i < j->dev.n; i++)
            right += j->answers[i] == j->dev.y[i];
        if (kind == 0 || right > most) {
            most = right;
            j->result->scale = kind;
        }
    }
    return 0;
}

static int judge_neighbours(judge *j, kmf_err *err)
{
    kmf_interval intervals[KMF_N_SCORES];
    int status = vote(j, (kmf_scale)j->result->scale, &j->train, &j->test, err);
    if (status < 0)
        return status;
    const kmf_scored scored = {.truth = j->test.y,
                               .predicted = j->answers,
                               .n = j->test.n,
                               .n_classes = j->info->n_classes,
                               .n_all = j->info->n_all};
    status = kmf_score_intervals(intervals, &scored, j->opts->resamples, j->opts->seed, j->pool,
                                 err);
    j->result->knn = intervals[KMF_ACCURACY];
    return status;
}

/* ---------------------------------------------------------------- clusters --------------- */

static size_t count_classes(const kmf_points *p, size_t n_all, kmf_err *err)
{
    size_t n = 0;
    unsigned char *seen = kmf_calloc(n_all, 1, err);
    if (!seen)
        return 0;
    for (size_t i = 0; i < p->n; i++) {
        n += !seen[p->y[i]];
        seen[p->y[i]] = 1;
    }
    kmf_free(seen);
    return n;
}

static void tell_clusters(void *arg, uint64_t runs)
{
    const judge *j = arg;
    j->opts->fn(j->opts->user, "clusters", (double)runs / j->opts->restarts);
}

/* The rows that are there are moved together, at the cost of j->scaled. */
static int judge_clusters(judge *j, kmf_err *err)
{
    size_t n = j->test.n;
    size_t n_classes = count_classes(&j->test, j->info->n_all, err);
    size_t k = n_classes;
    float *x = j->scaled + j->info->test * j->dim;
    size_t *keep = kmf_malloc(n, sizeof *keep, err);
    int32_t *cluster = kmf_malloc(n, sizeof *cluster, err);
    double inertia;
    int status = n_classes > 0 && keep && cluster ? 0 : KMF_ENOMEM;
    if (status == 0) {
        size_t n_there = kmf_rows_there(keep, x, n, j->dim);
        k = kmf_min(k, n_there);
        for (size_t i = 0; i < n_there; i++)
            memmove(x + i * j->dim, x + keep[i] * j->dim, j->dim * sizeof *x);
        if (k > 0)
            status =
                kmf_kmeans(cluster, &inertia, x, n_there, j->dim, k, j->opts->restarts,
                           j->opts->seed, j->pool, j->opts->fn ? tell_clusters : NULL, j, err);
        for (size_t i = 0; i < n; i++)
            j->answers[i] = (int32_t)k;
        for (size_t i = 0; i < n_there; i++)
            j->answers[keep[i]] = cluster[i];
    }
    if (status == 0)
        status = kmf_score_clusters(&j->result->ari, &j->result->nmi, j->test.y, j->info->n_all,
                                    j->answers, k + 1, n, err);
    if (n_classes == 1) /* whatever the vectors are, one cluster is that class */
        j->result->ari = j->result->nmi = (double)NAN;
    kmf_free(keep);
    kmf_free(cluster);
    return status;
}

/* ---------------------------------------------------------------- all of it -------------- */

static void hand_over(const judge *j, int32_t *to)
{
    if (to)
        memcpy(to, j->answers, j->test.n * sizeof *to);
}

static int find_most_frequent(judge *j, kmf_err *err)
{
    double *shares = kmf_calloc(j->info->n_classes, sizeof *shares, err);
    if (!shares)
        return KMF_ENOMEM;
    j->most_frequent = kmf_most_frequent(shares, j->train.y, j->train.n, j->info->n_classes);
    kmf_free(shares);
    return 0;
}

static int work(judge *j, const kmf_eval_answers *answers, kmf_err *err)
{
    int status = find_most_frequent(j, err);
    if (status == 0)
        status = judge_probe(j, err);
    if (status == 0) {
        hand_over(j, answers->probe);
        status = choose_scale(j, err);
    }
    if (status == 0)
        status = scale(j, (kmf_scale)j->result->scale, &j->train, err);
    if (status == 0)
        status = judge_neighbours(j, err);
    if (status == 0) {
        hand_over(j, answers->knn);
        status = judge_clusters(j, err);
    }
    if (status == 0)
        hand_over(j, answers->cluster);
    return status;
}

int kmf_evaluate(const kmf_samples *samples, const kmf_samples_info *info, const float *x,
                 size_t dim, const kmf_eval_options *opts, kmf_pool *pool,
                 kmf_eval_result *result, const kmf_eval_answers *answers, kmf_err *err)
{
    const kmf_eval_answers none = {0};
    judge j = {.opts = opts,
               .pool = pool,
               .x = x,
               .dim = dim,
               .y = kmf_samples_classes(samples),
               .info = info,
               .result = result};
    int status = check_options(opts, err);
    if (status == 0 && info->n_test == 0)
        status = kmf_fail(err, KMF_EINVAL, "no record to test: the samples have no test part");
    if (status == 0 && info->n_dev == 0 && opts->scale == KMF_SCALE_AUTO)
        status = kmf_fail(err, KMF_EINVAL, "no record to choose the scale by");
    if (status < 0)
        return status;
    *result = (kmf_eval_result){0};
    j.train = part(&j, x, 0, info->n_train);
    j.fit = part(&j, x, 0, info->n_fit);
    j.dev = part(&j, x, info->dev, info->n_dev);
    j.test = part(&j, x, info->test, info->n_test);
    j.comparisons = (double)info->n_train * (double)info->n_test;
    if (opts->scale == KMF_SCALE_AUTO)
        j.comparisons += KMF_SCALE_AUTO * (double)info->n_fit * (double)info->n_dev;
    result->without_train = count_missing(&j.train, dim);
    result->without_test = count_missing(&j.test, dim);
    if (result->without_train == info->n_train)
        return kmf_fail(err, KMF_EFORMAT, "no record to learn from has a %s",
                        kmf_samples_rows(samples) ? "vector" : "valid k-mer");
    status = kmf_count_repeated(&result->repeated, &j.test, &j.train, dim, err);
    if (status < 0)
        return status;
    j.scaled = kmf_large(info->n * dim, sizeof *j.scaled, err);
    j.answers = kmf_malloc(info->n, sizeof *j.answers, err);
    status = j.scaled && j.answers ? work(&j, answers ? answers : &none, err) : KMF_ENOMEM;
    kmf_free(j.scaled);
    kmf_free(j.answers);
    return status;
}
