/* SPDX-License-Identifier: MIT */
/*
 * A step. Its windows are dealt out to shards, each worked off in pieces that fit the memory:
 *
 *   batch     | shard 0           | shard 1           | shard 2           | shard 3           |
 *   pieces    |    0    |    1    |    0    |    1    |    0    |    1    |    0    |    1    |
 *   gradients   g0 = p0 + p1        g1                  g2                  g3
 *   their sum   (g0 + g1)                             + (g2 + g3)
 *
 * Shards are summed along a binary tree. A rank has neighbouring shards, as many as each other
 * rank, so the lower levels of the tree are its own and the upper ones go across ranks: the sum
 * has the same bits wherever the shards lie. On one rank the tree is worked off like a binary
 * counter, with one open sum for each level.
 *
 * Loss and its like are kept for each shard, brought together and added in the order of shards.
 */
#include "learn/pretrain.h"

#include "base/err.h"
#include "learn/ranks.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#define PI 3.14159265358979323846
#define CLIP_EPSILON 1e-6    /* as PyTorch's clip_grad_norm_ has it */
#define FORWARD_SHARE 0.4    /* of the time of forward and backward, about */
#define VALIDATION_SHARE 0.3 /* of the time, at most, that is taken off for validation */
#define DROPOUT_DRAWS (KMF_DRAW_FREE + 1)

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

double kmf_pretrain_rate(const kmf_pretrain *t, uint64_t step)
{
    const kmf_pretrain_options *o = &t->opts;
    double rise = floor(o->warmup * (double)t->steps);
    double at = (double)step + 1;
    if (at <= rise)
        return o->rate * at / rise;
    double done = (at - rise) / ((double)t->steps - rise + 1);
    switch ((kmf_schedule)o->schedule) {
    case KMF_SCHEDULE_COSINE:
        return o->rate * 0.5 * (1 + cos(PI * done));
    case KMF_SCHEDULE_LINEAR:
        return o->rate * (1 - done);
    case KMF_SCHEDULE_CONSTANT:
        break;
    }
    return o->rate;
}

/* ---------------------------------------------------------------- gradients -------------- */

/* Windows first .. first + n - 1 through the model and back. */
static int learn_piece(kmf_pretrain *t, uint64_t first, size_t n, const kmf_params *gradients,
                       double *stats, kmf_err *err)
{
    kmf_mlm_batch batch;
    kmf_mlm_result result;
    kmf_score score = {0};
    kmf_rng key = kmf_draw(t->opts.seed, DROPOUT_DRAWS, t->step, first);
    int drawn = kmf_questions_draw(t->questions, &batch, t->windows, KMF_GENOME_TRAIN,
                                   &t->spans, 0, first, n, err);
    if (drawn < 0)
        return drawn;
    batch.dropout = t->opts.dropout;
    batch.key = kmf_rng_next(&key);
    if (kmf_mlm_learn(t->mlm, &batch, gradients, &result, err) < 0 ||
        kmf_questions_score(t->questions, &result, &score, err) < 0)
        return KMF_ENOMEM;
    stats[KMF_STAT_LOSS] += result.loss;
    stats[KMF_STAT_WEIGHT] += result.weight;
    stats[KMF_STAT_BITS] += score.bits;
    stats[KMF_STAT_HIDDEN] += score.hidden;
    stats[KMF_STAT_TOKENS] += (double)batch.off[n];
    return 0;
}

/* The gradients of all shards, summed, in sums[0]; stats of each in shard_stats. */
static int learn_shards(kmf_pretrain *t, kmf_err *err)
{
    const kmf_pretrain_options *o = &t->opts;
    size_t own = o->shards / (size_t)kmf_ranks();
    size_t beg = own * (size_t)kmf_rank();
    size_t piece = kmf_pretrain_piece(t);
    size_t open = 0;
    int status = 0;
    memset(t->shard_stats, 0, o->shards * KMF_SHARD_STATS * sizeof *t->shard_stats);
    for (size_t s = 0; s < own && status == 0; s++) {
        uint64_t first = t->step * o->batch + (beg + s) * (o->batch / o->shards);
        double *stats = t->shard_stats + (beg + s) * KMF_SHARD_STATS;
        status = kmf_update_clear(t->update, t->sums[open], err);
        for (size_t a = 0; a < o->accumulate && status == 0; a++)
            status = learn_piece(t, first + a * piece, piece, &t->gradients[open], stats, err);
        open++;
        for (size_t pairs = s; pairs & 1 && status == 0; pairs >>= 1, open--)
            status = kmf_update_add(t->update, t->sums[open - 2], t->sums[open - 1], err);
    }
    if (status < 0)
        return status;
    kmf_ranks_sum(t->sums[0], t->slots.total, t->scratch);
    kmf_ranks_share(t->shard_stats, o->shards * KMF_SHARD_STATS);
    return 0;
}

/* ---------------------------------------------------------------- validation ------------- */

bool kmf_pretrain_validates(const kmf_pretrain *t, uint64_t step)
{
    return t->n_held > 0 && (step % t->val_every == 0 || step == t->steps);
}

/* Pieces of the fixed set are dealt out to ranks; what each is worth is a place of its own. */
static int validate(kmf_pretrain *t, kmf_err *err)
{
    kmf_spans_options all_masked = t->spans;
    size_t piece = kmf_pretrain_piece(t);
    double loss = 0, weight = 0, bits = 0, hidden = 0;
    all_masked.p_mask = 1;
    all_masked.p_random = 0;
    for (uint64_t first = 0, i = 0; first < t->n_held; first += piece, i++) {
        double stats[KMF_SHARD_STATS] = {0};
        if (i % (uint64_t)kmf_ranks() == (uint64_t)kmf_rank()) {
            kmf_mlm_batch batch;
            kmf_mlm_result result;
            kmf_score score = {0};
            int status =
                kmf_questions_draw(t->questions, &batch, t->held_windows, KMF_GENOME_HELD,
                                   &all_masked, t->n_held, first, piece, err);
            if (status < 0 || kmf_mlm_evaluate(t->mlm, &batch, &result, err) < 0 ||
                kmf_questions_score(t->questions, &result, &score, err) < 0)
                return KMF_ENOMEM;
            stats[KMF_STAT_LOSS] = result.loss;
            stats[KMF_STAT_WEIGHT] = result.weight;
            stats[KMF_STAT_BITS] = score.bits;
            stats[KMF_STAT_HIDDEN] = score.hidden;
        }
        kmf_ranks_share(stats, KMF_SHARD_STATS);
        loss += stats[KMF_STAT_LOSS];
        weight += stats[KMF_STAT_WEIGHT];
        bits += stats[KMF_STAT_BITS];
        hidden += stats[KMF_STAT_HIDDEN];
    }
    if (!isfinite(loss))
        return kmf_fail(err, KMF_ENUMERIC,
                        "step %" PRIu64 ": the loss of what is held out is not finite: try a "
                        "smaller --lr or a longer --warmup; the last checkpoint is good",
                        t->step);
    t->val_loss = loss / weight;
    t->val_bits = bits / hidden;
    t->validated = true;
    if (isnan(t->best_bits) || t->val_bits < t->best_bits) {
        t->best_bits = t->val_bits;
        t->best_step = t->step;
    }
    return 0;
}

/* ---------------------------------------------------------------- steps ------------------ */

static int not_finite(const kmf_pretrain *t, const char *what, kmf_err *err)
{
    const char *tensor = kmf_update_broken(t->update, t->sums[0]);
    return kmf_fail(err, KMF_ENUMERIC,
                    "step %" PRIu64 ": %s is not finite%s%s: try a smaller --lr, a longer "
                    "--warmup or a smaller --clip; the last checkpoint is good",
                    t->step + 1, what, tensor ? ", first in the gradient of " : "",
                    tensor ? tensor : "");
}

static int step(kmf_pretrain *t, kmf_err *err)
{
    const kmf_pretrain_options *o = &t->opts;
    double sum[KMF_SHARD_STATS] = {0};
    double norm;
    int status = learn_shards(t, err);
    if (status < 0)
        return status;
    for (size_t s = 0; s < o->shards; s++)
        for (size_t i = 0; i < KMF_SHARD_STATS; i++)
            sum[i] += t->shard_stats[s * KMF_SHARD_STATS + i];
    double scale = sum[KMF_STAT_WEIGHT] > 0 ? 1 / sum[KMF_STAT_WEIGHT] : 0;
    if (!isfinite(sum[KMF_STAT_LOSS]))
        return not_finite(t, "the loss", err);
    if (kmf_update_norm(t->update, &norm, t->sums[0], err) < 0)
        return KMF_ENOMEM;
    if (!isfinite(norm))
        return not_finite(t, "the gradient", err);
    norm *= scale;
    if (o->clip > 0 && o->clip < norm + CLIP_EPSILON)
        scale *= o->clip / (norm + CLIP_EPSILON);
    kmf_adamw_step adamw = {.rate = kmf_pretrain_rate(t, t->step),
                            .beta1 = o->beta1,
                            .beta2 = o->beta2,
                            .epsilon = o->epsilon,
                            .decay = o->decay,
                            .clip = scale};
    kmf_adamw_correct(&adamw, t->step + 1);
    if (kmf_update_step(t->update, t->model->slab, t->m, t->v, t->sums[0], &adamw, err) < 0)
        return KMF_ENOMEM;
    t->step++;
    t->tokens += (uint64_t)sum[KMF_STAT_TOKENS];
    t->loss = sum[KMF_STAT_WEIGHT] > 0 ? sum[KMF_STAT_LOSS] / sum[KMF_STAT_WEIGHT] : 0;
    t->bits =
        sum[KMF_STAT_HIDDEN] > 0 ? sum[KMF_STAT_BITS] / sum[KMF_STAT_HIDDEN] : (double)NAN;
    t->norm = norm;
    t->rate = adamw.rate;
    t->validated = false;
    return kmf_pretrain_validates(t, t->step) ? validate(t, err) : 0;
}

int kmf_pretrain_train(kmf_pretrain *trainer, kmf_pretrain_fn *fn, void *user, kmf_err *err)
{
    kmf_pretrain *t = trainer;
    int status = kmf_pretrain_agree(t, err);
    if (status < 0)
        return status;
    while (t->step < t->steps) {
        status = step(t, err);
        if (status == 0 && fn) {
            kmf_pretrain_state state;
            kmf_pretrain_information(t, &state);
            status = fn(user, &state, err);
        }
        if (status != 0)
            return status;
    }
    return 0;
}

int kmf_pretrain_measure(kmf_pretrain *t, uint64_t *steps, kmf_err *err)
{
    double stats[KMF_SHARD_STATS] = {0};
    double piece = 0;
    for (int round = 0; round < 2; round++) { /* the first one touches all memory */
        double begun = now();
        if (learn_piece(t, 0, kmf_pretrain_piece(t), &t->gradients[0], stats, err) < 0)
            return KMF_ENOMEM;
        piece = now() - begun;
    }
    const kmf_pretrain_options *o = &t->opts;
    double pieces = (double)o->shards / kmf_ranks() * (double)o->accumulate;
    double held = (double)t->n_held / (double)kmf_pretrain_piece(t) / kmf_ranks();
    double validations = 21 * held * FORWARD_SHARE * piece; /* at val_every 0 */
    if (validations > VALIDATION_SHARE * o->seconds)
        validations = VALIDATION_SHARE * o->seconds;
    double found = kmf_rank() == 0 ? floor((o->seconds - validations) / (pieces * piece)) : 0;
    kmf_ranks_share(&found, 1);
    *steps = found < 1 ? 1 : (uint64_t)found;
    return 0;
}
