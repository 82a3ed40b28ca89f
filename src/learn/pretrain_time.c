/* SPDX-License-Identifier: MIT */
/*
 * How many steps a time makes. The learning rate of each step hangs on their number, so it has to
 * be known before the first, and stays: whole steps are tried, forward, back and update, and pieces
 * of a validation.
 *
 *   time left = steps * step + validations * windows * window
 *
 * A validation of the windows that are usual takes as long as dozens of steps, and 20 of them the
 * greater part of a short run: unless told otherwise they get a share of the time, and are fewer.
 *
 * What is tried leaves no trace: the gradients are those at the first weights, a copy of these
 * learns from them, and the room of the training is made anew afterwards. Not counted are models
 * and checkpoints, which are written within a second or a few, every ten minutes.
 */
#include "learn/pretrain.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "learn/ranks.h"

#include <math.h>
#include <string.h>

/* Steps with a validation after every `every` of them, and after the last. */
static double steps_by_parts(double left, double step, double validation, double every)
{
    double part = every * step + validation;
    double parts = fmax(0, floor(left / part));
    return parts * every + fmax(0, floor((left - parts * part - validation) / step));
}

kmf_pretrain_plan kmf_pretrain_plan_time(const kmf_pretrain_costs *costs, uint64_t windows,
                                         uint64_t val_every, double share)
{
    kmf_pretrain_plan plan = {.val_every = val_every, .windows = windows};
    double left = costs->left, step = costs->step;
    double validation = (double)windows * costs->window;
    double room = share * fmax(0, left);
    double most = KMF_VALIDATIONS;
    if (share > 0 && val_every == 0 && most * validation > room) {
        double fewest = fmin((double)windows, KMF_FEWEST_WINDOWS);
        most = fmax(1, floor(room / validation));
        if (validation > room)
            plan.windows = (uint64_t)fmax(fewest, floor(room / costs->window));
        validation = (double)plan.windows * costs->window;
    }
    double steps = val_every > 0 ? steps_by_parts(left, step, validation, (double)val_every)
                                 : floor((left - most * validation) / step);
    if (val_every == 0 && steps < most)
        steps = floor(left / (step + validation));
    plan.steps = (uint64_t)fmin(fmax(1, steps), KMF_STEPS_MAX);
    if (val_every == 0)
        plan.val_every = (uint64_t)ceil((double)plan.steps / most);
    return plan;
}

/* The first rank's seconds since then, on all ranks: they have to end a trial together. */
static double since(double begun)
{
    double spent = kmf_rank() == 0 ? kmf_now() - begun : 0;
    kmf_ranks_share(&spent, 1);
    return spent;
}

/*
 * The first step touches all memory and may take half as long again as the others: if there is time
 * for these, they are what counts.
 */
static int try_steps(kmf_pretrain *t, double enough, double *cost, kmf_err *err)
{
    kmf_pretrain_state before = t->now;
    float *weights = kmf_floats(t->slots.total, err);
    int status = weights ? 0 : KMF_ENOMEM;
    double first = 0, others = 0;
    uint64_t n = 0;
    if (weights)
        memcpy(weights, t->model->slab, t->slots.total * sizeof *weights);
    while (status == 0 && (n == 0 || (n == 1 ? first < 2 * enough : others < enough))) {
        double begun = kmf_now();
        status = kmf_pretrain_step(t, weights, err);
        double spent = since(begun);
        first = n == 0 ? spent : first;
        others += n == 0 ? 0 : spent;
        n++;
    }
    *cost = n > 1 ? others / (double)(n - 1) : first;
    t->now = before;
    kmf_free(weights);
    return status;
}

/* A window of validation: masked windows are shared by the ranks, pairs are compared by each. */
static int try_validation(kmf_pretrain *t, double enough, double *cost, kmf_err *err)
{
    kmf_pretrain_state before = t->now;
    kmf_comparison *c = &t->comparison;
    double stats[KMF_SHARD_STATS];
    uint64_t held = t->now.held_windows, asked = 0;
    size_t views = 0;
    double begun = kmf_now();
    *cost = 0;
    for (bool more = t->asks && held > 0; more;
         more = asked < held && kmf_now() - begun < enough) {
        int n = kmf_pretrain_ask_held(t, asked, stats, err);
        if (n < 0)
            return n;
        asked += (uint64_t)n;
    }
    if (asked > 0)
        *cost += (kmf_now() - begun) / (double)asked / kmf_ranks();
    begun = kmf_now();
    for (bool more = t->compares && held > 0; more;
         more = views < 2 * held && kmf_now() - begun < enough) {
        int n = kmf_pretrain_encode_held(t, views, err);
        if (n < 0)
            return n;
        views += (size_t)n;
    }
    if (views == 0)
        return 0;
    *cost += 2 * (kmf_now() - begun) / (double)views;
    for (size_t i = views; i < 2 * held; i++) /* sources that compare as others do */
        c->sources[i] = i / 2;
    begun = kmf_now();
    int status = kmf_pretrain_judge_held(t, err);
    *cost += (kmf_now() - begun) / (double)held;
    t->now = before;
    return status;
}

/* Trials take a 25th of the time, or a few steps; what they take is counted. */
int kmf_pretrain_measure(kmf_pretrain *t, kmf_pretrain_costs *costs, kmf_err *err)
{
    double begun = kmf_now();
    double enough = fmin(t->opts.seconds / 25, 5);
    *costs = (kmf_pretrain_costs){0};
    int status = try_steps(t, enough, &costs->step, err);
    if (status == 0)
        status = try_validation(t, enough / 2, &costs->window, err);
    costs->left = t->opts.seconds - (kmf_now() - begun);
    if (kmf_rank() > 0)
        *costs = (kmf_pretrain_costs){0};
    kmf_ranks_share((double *)costs, sizeof *costs / sizeof(double));
    return status;
}
