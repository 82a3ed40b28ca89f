/* SPDX-License-Identifier: MIT */
/*
 * From predictions to scores. With n records, t_k of class k in truth, p_k in prediction, r_k
 * in both:
 *
 *   accuracy   sum r_k / n
 *   macro F1   mean over the k with t_k + p_k > 0 of 2 r_k / (t_k + p_k)
 *   MCC        (n R - sum p_k t_k) / sqrt((n^2 - sum p_k^2) (n^2 - sum t_k^2)), R = sum r_k; 0 if
 *              the root is (Gorodkin 2004, as Jurman, Riccadonna and Furlanello 2012 write it)
 *   AUC        the chance that a record of the class has a greater probability than one of
 *              another, ties counting half: the rank sum (Mann and Whitney). Where there are two
 *              classes and no third that is unknown, either's is the other's; else their mean
 *
 *   ARI        with N_ij records in class i and cluster j, over pairs of records: both together s,
 *              together in the classes alone, in the clusters alone, in neither:
 *              2 (s z - c d) / ((s + c)(c + z) + (s + d)(d + z))
 *   NMI        I(a; b) / ((H(a) + H(b)) / 2), natural logarithms
 *
 * A bootstrap counts how often it drew each record and uses the same formulas with these weights;
 * the order by probability, which costs a sort for each class, is found once for all drawings. It
 * says, too, where probabilities are equal, so that they are not asked for again: of many classes
 * they lie far apart, and n of each would be asked for in every drawing.
 */
#include "eval/scores.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/rng.h"
#include "seq/par.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The records of a class: t_k, p_k, r_k. */
typedef struct tally {
    double truth, predicted, both;
} tally;

/* ---------------------------------------------------------------- AUC -------------------- */

/* A place in the order: the record, and whether its probability is greater than the one before. */
#define GREATER 1u
#define RECORD_SHIFT 1
#define MOST_RECORDS (UINT32_MAX >> RECORD_SHIFT)

typedef struct ranked {
    double probability;
    uint32_t i;
} ranked;

static int by_probability(const void *a, const void *b)
{
    const ranked *x = a;
    const ranked *y = b;
    int order = (x->probability > y->probability) - (x->probability < y->probability);
    return order ? order : (x->i > y->i) - (x->i < y->i);
}

typedef struct sorting {
    uint32_t *order;
    const kmf_scored *scored;
} sorting;

static int sort_class(void *arg, size_t c, int worker, kmf_err *err)
{
    const sorting *s = arg;
    size_t n = s->scored->n;
    (void)worker;
    ranked *list = kmf_malloc(n, sizeof *list, err);
    if (!list)
        return KMF_ENOMEM;
    for (size_t i = 0; i < n; i++)
        list[i] = (ranked){s->scored->probabilities[i * s->scored->n_classes + c], (uint32_t)i};
    if (n > 1)
        qsort(list, n, sizeof *list, by_probability);
    for (size_t i = 0; i < n; i++) {
        bool greater = i > 0 && list[i].probability > list[i - 1].probability;
        s->order[c * n + i] = list[i].i << RECORD_SHIFT | (greater ? GREATER : 0);
    }
    kmf_free(list);
    return 0;
}

/* The order of the records by each class's probability, [n_classes, n]. */
static int sort_all(uint32_t *order, const kmf_scored *scored, kmf_pool *pool, kmf_err *err)
{
    assert(scored->n <= MOST_RECORDS);
    sorting s = {order, scored};
    return kmf_pool_each(pool, scored->n_classes, sort_class, &s, err);
}

/*
 * Of class c against the rest, NaN if one side is empty. order [n]: ascending. Counts are whole
 * numbers, and pairs are counted twice, ties once.
 */
static double auc_of(const kmf_scored *s, size_t c, const uint32_t *order,
                     const uint32_t *weights)
{
    uint64_t below = 0; /* of the rest, with a smaller probability */
    uint64_t own = 0;
    uint64_t twice = 0;
    uint64_t tied[2] = {0}; /* of the rest, and of the class, with the same one */
    for (size_t i = 0; i <= s->n; i++) {
        if (i == s->n || order[i] & GREATER) {
            twice += tied[1] * (2 * below + tied[0]);
            below += tied[0];
            own += tied[1];
            tied[0] = tied[1] = 0;
        }
        if (i == s->n)
            break;
        uint32_t record = order[i] >> RECORD_SHIFT;
        tied[s->truth[record] == (int32_t)c] += weights ? weights[record] : 1;
    }
    return own > 0 && below > 0 ? (double)twice / 2 / ((double)own * (double)below)
                                : (double)NAN;
}

static double auc(const kmf_scored *s, const uint32_t *order, const uint32_t *weights)
{
    double sum = 0;
    size_t n = 0;
    if (!s->probabilities)
        return (double)NAN;
    if (s->n_classes == 2 && s->n_all == 2)
        return auc_of(s, 1, order + s->n, weights);
    for (size_t c = 0; c < s->n_classes; c++) {
        double one = auc_of(s, c, order + c * s->n, weights);
        if (isnan(one))
            continue;
        sum += one;
        n++;
    }
    return n > 0 ? sum / (double)n : (double)NAN;
}

/* ---------------------------------------------------------------- all of them ------------ */

static double mcc(const tally *of, size_t n_all, double n, double right)
{
    double cross = 0;
    double squares[2] = {0};
    for (size_t k = 0; k < n_all; k++) {
        cross += of[k].predicted * of[k].truth;
        squares[0] += of[k].predicted * of[k].predicted;
        squares[1] += of[k].truth * of[k].truth;
    }
    double below = (n * n - squares[0]) * (n * n - squares[1]);
    return below > 0 ? (n * right - cross) / sqrt(below) : 0;
}

/*
 * order may be NULL without probabilities. weights [n]: how often each record counts, NULL: once.
 * What cannot be told is NaN. of [n_all]: room.
 */
static void score(double scores[KMF_N_SCORES], const kmf_scored *s, const uint32_t *order,
                  const uint32_t *weights, tally *of)
{
    double n = 0;
    double right = 0;
    double f1 = 0;
    size_t n_seen = 0;
    memset(of, 0, s->n_all * sizeof *of);
    for (size_t i = 0; i < s->n; i++) {
        double w = weights ? weights[i] : 1;
        n += w;
        of[s->truth[i]].truth += w;
        of[s->predicted[i]].predicted += w;
        if (s->truth[i] == s->predicted[i])
            of[s->truth[i]].both += w;
    }
    for (size_t k = 0; k < s->n_all; k++) {
        double seen = of[k].truth + of[k].predicted;
        right += of[k].both;
        if (seen > 0) {
            f1 += 2 * of[k].both / seen;
            n_seen++;
        }
    }
    scores[KMF_ACCURACY] = right / n;
    scores[KMF_MACRO_F1] = f1 / (double)n_seen;
    scores[KMF_MCC] = mcc(of, s->n_all, n, right);
    scores[KMF_AUC] = auc(s, order, weights);
}

/* ---------------------------------------------------------------- the bootstrap ---------- */

typedef struct bootstrap {
    const kmf_scored *scored;
    const uint32_t *order;
    uint64_t seed;
    tally **tallies;   /* owned [workers], each [n_all] */
    uint32_t *weights; /* owned [workers, n] */
    double *scores;    /* owned [KMF_N_SCORES, resamples] */
    size_t resamples;
} bootstrap;

static int draw_once(void *arg, size_t r, int worker, kmf_err *err)
{
    bootstrap *b = arg;
    size_t n = b->scored->n;
    uint32_t *weights = b->weights + (size_t)worker * n;
    kmf_rng rng = kmf_rng_stream(b->seed, r);
    double scores[KMF_N_SCORES];
    (void)err;
    memset(weights, 0, n * sizeof *weights);
    for (size_t i = 0; i < n; i++)
        weights[kmf_rng_below(&rng, n)]++;
    score(scores, b->scored, b->order, weights, b->tallies[worker]);
    for (size_t k = 0; k < KMF_N_SCORES; k++)
        b->scores[k * b->resamples + r] = scores[k];
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Linear between the two nearest of n > 0 sorted values. */
static double percentile(const double *values, size_t n, double share)
{
    double at = share * (double)(n - 1);
    size_t i = (size_t)at;
    double next = i + 1 < n ? values[i + 1] : values[i];
    return values[i] + (at - (double)i) * (next - values[i]);
}

static void read_percentiles(bootstrap *b, kmf_interval *intervals)
{
    for (size_t k = 0; k < KMF_N_SCORES; k++) {
        double *values = b->scores + k * b->resamples;
        size_t n = 0;
        for (size_t i = 0; i < b->resamples; i++)
            if (!isnan(values[i]))
                values[n++] = values[i];
        if (n == 0)
            continue;
        qsort(values, n, sizeof *values, by_value);
        intervals[k].low = percentile(values, n, 0.025);
        intervals[k].high = percentile(values, n, 0.975);
    }
}

int kmf_score_intervals(kmf_interval *intervals, const kmf_scored *s, int resamples,
                        uint64_t seed, kmf_pool *pool, kmf_err *err)
{
    size_t workers = (size_t)kmf_pool_threads(pool) + 1;
    uint32_t *order = NULL;
    double scores[KMF_N_SCORES];
    int status = KMF_ENOMEM;
    bootstrap b = {.scored = s, .seed = seed, .resamples = (size_t)resamples};
    b.tallies = kmf_calloc(workers, sizeof *b.tallies, err);
    b.weights = kmf_malloc(workers * s->n, sizeof *b.weights, err);
    b.scores = kmf_malloc(KMF_N_SCORES * b.resamples, sizeof *b.scores, err);
    if (s->probabilities)
        order = kmf_malloc(s->n_classes * s->n, sizeof *order, err);
    if (!b.tallies || !b.weights || !b.scores || (s->probabilities && !order))
        goto out;
    for (size_t i = 0; i < workers; i++) {
        b.tallies[i] = kmf_malloc(s->n_all, sizeof **b.tallies, err);
        if (!b.tallies[i])
            goto out;
    }
    status = order ? sort_all(order, s, pool, err) : 0;
    if (status < 0)
        goto out;
    b.order = order;
    score(scores, s, order, NULL, b.tallies[0]);
    for (size_t k = 0; k < KMF_N_SCORES; k++)
        intervals[k] = (kmf_interval){scores[k], (double)NAN, (double)NAN};
    status = kmf_pool_each(pool, b.resamples, draw_once, &b, err);
    if (status == 0)
        read_percentiles(&b, intervals);
out:
    for (size_t i = 0; b.tallies && i < workers; i++)
        kmf_free(b.tallies[i]);
    kmf_free(b.tallies);
    kmf_free(b.weights);
    kmf_free(b.scores);
    kmf_free(order);
    return status;
}

/* ---------------------------------------------------------------- clusters --------------- */

/* -sum p log p of n records in `count` parts. */
static double entropy(const double *count, size_t n_parts, double n)
{
    double h = 0;
    for (size_t i = 0; i < n_parts; i++)
        if (count[i] > 0)
            h -= count[i] / n * (log(count[i]) - log(n));
    return h;
}

static double square_sum(const double *count, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += count[i] * count[i];
    return sum;
}

/* Ordered pairs of records, from the sums of squares of the table and of its margins. */
static double adjusted_rand(double both, double a, double b, double n)
{
    double s = both - n;
    double c = b - both;
    double d = a - both;
    double z = n * n - both - c - d;
    if (c <= 0 && d <= 0)
        return 1;
    return 2 * (s * z - c * d) / ((s + c) * (c + z) + (s + d) * (d + z));
}

int kmf_score_clusters(double *ari, double *nmi, const int32_t *a, size_t n_a, const int32_t *b,
                       size_t n_b, size_t n, kmf_err *err)
{
    size_t cells;
    if (!kmf_mul(n_a, n_b, &cells))
        return kmf_fail(err, KMF_ENOMEM, "out of memory: %zu classes in %zu clusters", n_a,
                        n_b);
    double *table = kmf_calloc(cells, sizeof *table, err);
    double *in_a = kmf_calloc(n_a, sizeof *in_a, err);
    double *in_b = kmf_calloc(n_b, sizeof *in_b, err);
    int status = table && in_a && in_b ? 0 : KMF_ENOMEM;
    if (status == 0) {
        double N = (double)n;
        double information = 0;
        for (size_t i = 0; i < n; i++) {
            table[(size_t)a[i] * n_b + (size_t)b[i]]++;
            in_a[a[i]]++;
            in_b[b[i]]++;
        }
        for (size_t i = 0; i < cells; i++)
            if (table[i] > 0)
                information +=
                    table[i] / N *
                    (log(table[i] / N) - log(in_a[i / n_b] / N * (in_b[i % n_b] / N)));
        double mean = (entropy(in_a, n_a, N) + entropy(in_b, n_b, N)) / 2;
        *ari = adjusted_rand(square_sum(table, cells), square_sum(in_a, n_a),
                             square_sum(in_b, n_b), N);
        /* both of one part: the same; else nothing may be known beyond roundings */
        *nmi = mean <= 0 ? 1 : information > 0 ? information / mean : 0;
    }
    kmf_free(table);
    kmf_free(in_a);
    kmf_free(in_b);
    return status;
}
