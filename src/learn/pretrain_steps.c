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
 * Vectors that are compared are those of the whole batch, so a step that compares encodes all
 * pieces first, takes the loss of their vectors, and goes over the pieces again, on the way back
 * this time (L. Gao et al., "Scaling deep contrastive learning batch size under memory limited
 * setup", arXiv 2101.06983). Where the batch is one piece, it is still there.
 *
 * Loss and its like are kept for each shard, brought together and added in the order of shards.
 */
#include "learn/pretrain.h"

#include "base/clock.h"
#include "base/err.h"
#include "learn/ranks.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846
#define CLIP_EPSILON 1e-6 /* as PyTorch's clip_grad_norm_ has it */
#define HOW_ON                                                                                \
    ": begin anew, or elsewhere from the last model, with a smaller learning rate, a longer " \
    "warm-up or a smaller clip"

double kmf_pretrain_rate(const kmf_pretrain *t, uint64_t step)
{
    const kmf_pretrain_options *o = &t->opts;
    double rise = floor(o->warmup * (double)t->now.steps);
    double at = (double)step + 1;
    if (at <= rise)
        return o->rate * at / rise;
    double done = (at - rise) / ((double)t->now.steps - rise + 1);
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

/* A piece: where its windows stand in the step's batch, and which they are of all. */
typedef struct piece {
    size_t shard, at;
    uint64_t first;
} piece;

static piece piece_of(const kmf_pretrain *t, size_t shard, size_t i)
{
    size_t at = shard * (t->opts.batch / t->opts.shards) + i * kmf_pretrain_piece(t);
    return (piece){.shard = shard, .at = at, .first = t->now.step * t->opts.batch + at};
}

/* Shards of this rank: beg .. end - 1. */
static void own_shards(const kmf_pretrain *t, size_t *beg, size_t *end)
{
    size_t own = t->opts.shards / (size_t)kmf_ranks();
    *beg = own * (size_t)kmf_rank();
    *end = *beg + own;
}

/* Does this rank work its part off at once, so that it stays encoded until the way back? */
static bool is_one_piece(const kmf_pretrain *t)
{
    return t->opts.shards == (size_t)kmf_ranks() && t->opts.accumulate == 1;
}

/* Windows of a piece through the model; vectors: NULL, or room for theirs. */
static int encode_piece(kmf_pretrain *t, const piece *p, kmf_mlm_batch *batch,
                        kmf_real *vectors, kmf_err *err)
{
    int status = kmf_pretrain_show(t, batch, p->first, p->at, kmf_pretrain_piece(t), err);
    return status < 0 ? status : kmf_mlm_encode(t->mlm, batch, vectors, err);
}

/* And back, with their gradients by the vectors if they compare. */
static int return_piece(kmf_pretrain *t, const piece *p, const kmf_mlm_batch *batch,
                        const kmf_params *gradients, double *stats, kmf_err *err)
{
    kmf_mlm_result result;
    kmf_score score = {0};
    assert(batch->off);
    const kmf_real *dvectors =
        t->compares ? t->comparison.dvectors + p->at * kmf_pretrain_columns(t) : NULL;
    if (kmf_mlm_return(t->mlm, dvectors, gradients, &result, err) < 0 ||
        kmf_masker_score(t->masker, &result, &score, err) < 0)
        return KMF_ENOMEM;
    stats[KMF_STAT_LOSS] += result.loss;
    stats[KMF_STAT_WEIGHT] += result.weight;
    stats[KMF_STAT_BITS] += score.bits;
    stats[KMF_STAT_HIDDEN] += score.hidden;
    stats[KMF_STAT_TOKENS] += (double)batch->off[batch->n_seq];
    return 0;
}

static double asked_of(const kmf_mlm_batch *batch)
{
    double sum = 0;
    for (size_t i = 0; i < batch->off[batch->n_seq]; i++)
        if (batch->labels[i] >= 0)
            sum += batch->weights ? (double)batch->weights[i] : 1;
    return sum;
}

/*
 * All vectors of the step, what they are worth, and the gradients by them. The losses of hidden
 * k-mers are summed and divided by their weight in the end: so that this one is not, it is
 * multiplied by it. *batch: the last piece's.
 */
static int compare_shards(kmf_pretrain *t, kmf_mlm_batch *batch, kmf_err *err)
{
    kmf_comparison *c = &t->comparison;
    size_t D = kmf_pretrain_columns(t);
    size_t beg, end;
    double asked = 0;
    own_shards(t, &beg, &end);
    memset(c->asked, 0, t->opts.shards * sizeof *c->asked);
    for (size_t s = beg; s < end; s++)
        for (size_t a = 0; a < t->opts.accumulate; a++) {
            piece p = piece_of(t, s, a);
            if (encode_piece(t, &p, batch, c->vectors + p.at * D, err) < 0)
                return KMF_ENOMEM;
            c->asked[s] += asked_of(batch);
        }
    kmf_ranks_share(c->asked, t->opts.shards);
    for (size_t s = 0; s < t->opts.shards; s++)
        asked += c->asked[s];
    return kmf_pretrain_compare(t, t->opts.contrast * (asked > 0 ? asked : 1), err);
}

/* The gradients of all shards, summed, in sums[0]; stats of each in shard_stats. */
static int learn_shards(kmf_pretrain *t, kmf_err *err)
{
    const kmf_pretrain_options *o = &t->opts;
    kmf_mlm_batch batch = {0};
    size_t beg, end;
    size_t open = 0;
    int status = 0;
    own_shards(t, &beg, &end);
    memset(t->shard_stats, 0, o->shards * KMF_SHARD_STATS * sizeof *t->shard_stats);
    if (t->compares && compare_shards(t, &batch, err) < 0)
        return KMF_ENOMEM;
    bool encoded = t->compares && is_one_piece(t);
    for (size_t s = beg; s < end && status == 0; s++) {
        double *stats = t->shard_stats + s * KMF_SHARD_STATS;
        status = kmf_update_clear(t->update, t->sums[open], err);
        for (size_t a = 0; a < o->accumulate && status == 0; a++) {
            piece p = piece_of(t, s, a);
            if (!encoded)
                status = encode_piece(t, &p, &batch, NULL, err);
            if (status == 0)
                status = return_piece(t, &p, &batch, &t->gradients[open], stats, err);
        }
        open++;
        for (size_t pairs = s - beg; pairs & 1 && status == 0; pairs >>= 1, open--)
            status = kmf_update_add(t->update, t->sums[open - 2], t->sums[open - 1], err);
    }
    if (status < 0)
        return status;
    kmf_ranks_sum(t->sums[0], t->slots.total, t->scratch);
    kmf_ranks_share(t->shard_stats, o->shards * KMF_SHARD_STATS);
    return 0;
}

/* ---------------------------------------------------------------- validation ------------- */

static int held_not_finite(const kmf_pretrain *t, kmf_err *err)
{
    return kmf_fail(err, KMF_ENUMERIC,
                    "step %" PRIu64 ": the loss of what is held out is not finite" HOW_ON,
                    t->now.step);
}

/* Is the validation under way to be abandoned? */
static bool is_stopped(const kmf_pretrain *t)
{
    return t->stop && t->stop(t->stop_user) != 0;
}

int kmf_pretrain_ask_held(kmf_pretrain *t, uint64_t first, double *stats, kmf_err *err)
{
    kmf_mlm_batch batch;
    kmf_mlm_result result;
    kmf_score score = {0};
    int n = kmf_pretrain_show_held(t, &batch, first, err);
    if (n < 0 || kmf_mlm_evaluate(t->mlm, &batch, NULL, &result, err) < 0 ||
        kmf_masker_score(t->masker, &result, &score, err) < 0)
        return KMF_ENOMEM;
    stats[KMF_STAT_LOSS] = result.loss;
    stats[KMF_STAT_WEIGHT] = result.weight;
    stats[KMF_STAT_BITS] = score.bits;
    stats[KMF_STAT_HIDDEN] = score.hidden;
    return n;
}

/*
 * Pieces of the fixed set are dealt out to ranks; what each is worth is a place of its own. Where
 * only soft letters were hidden, and those count nothing, there are bits and no loss.
 */
static int validate_masked(kmf_pretrain *t, kmf_err *err)
{
    size_t n = kmf_pretrain_piece(t);
    double loss = 0, weight = 0, bits = 0, hidden = 0;
    for (uint64_t first = 0, i = 0; first < t->now.held_windows; first += n, i++) {
        double stats[KMF_SHARD_STATS] = {0};
        if (is_stopped(t))
            return 1;
        bool own = i % (uint64_t)kmf_ranks() == (uint64_t)kmf_rank();
        if (own && kmf_pretrain_ask_held(t, first, stats, err) < 0)
            return KMF_ENOMEM;
        kmf_ranks_share(stats, KMF_SHARD_STATS);
        loss += stats[KMF_STAT_LOSS];
        weight += stats[KMF_STAT_WEIGHT];
        bits += stats[KMF_STAT_BITS];
        hidden += stats[KMF_STAT_HIDDEN];
    }
    t->now.val_loss = weight > 0 ? loss / weight : (double)NAN;
    t->now.val_bits = hidden > 0 ? bits / hidden : (double)NAN;
    return isfinite(loss) ? 0 : held_not_finite(t, err);
}

static int validate_pairs(kmf_pretrain *t, kmf_err *err)
{
    size_t all = 2 * (size_t)t->now.held_windows;
    for (size_t at = 0; at < all; at += kmf_pretrain_piece(t)) {
        if (is_stopped(t))
            return 1;
        if (kmf_pretrain_encode_held(t, at, err) < 0)
            return KMF_ENOMEM;
    }
    int status = kmf_pretrain_judge_held(t, err);
    if (status == 0 && !isfinite(t->now.val_contrast))
        status = held_not_finite(t, err);
    return status;
}

void kmf_pretrain_on_validation(kmf_pretrain *trainer, kmf_pretrain_stop_fn *fn, void *user)
{
    trainer->stop = fn;
    trainer->stop_user = user;
}

int kmf_pretrain_validate(kmf_pretrain *trainer, kmf_err *err)
{
    kmf_pretrain *t = trainer;
    if (kmf_pretrain_check_begun(t, err) < 0)
        return KMF_EINVAL;
    if (t->now.held_windows == 0)
        return kmf_fail(err, KMF_EINVAL, "nothing is held out that could be asked for");
    kmf_pretrain_state before = t->now;
    double begun = kmf_now();
    int status = t->asks ? validate_masked(t, err) : 0;
    if (status == 0 && t->compares)
        status = validate_pairs(t, err);
    if (status < 0)
        return status;
    if (status == 1)
        t->now = before; /* of two parts the first may have come to its end */
    t->now.val_seconds += kmf_now() - begun;
    t->val_due = status == 1;
    if (t->val_due)
        return 1;
    double goal = t->compares ? t->now.val_contrast : t->now.val_bits;
    t->now.validated = true;
    if (isnan(t->now.best) || goal < t->now.best) {
        t->now.best = goal;
        t->now.best_step = t->now.step;
    }
    return 0;
}

/* ---------------------------------------------------------------- steps ------------------ */

static int not_finite(const kmf_pretrain *t, const char *what, kmf_err *err)
{
    const char *tensor = kmf_update_broken(t->update, t->sums[0]);
    return kmf_fail(err, KMF_ENUMERIC, "step %" PRIu64 ": %s is not finite%s%s" HOW_ON,
                    t->now.step + 1, what, tensor ? ", first in the gradient of " : "",
                    tensor ? tensor : "");
}

int kmf_pretrain_step(kmf_pretrain *t, float *weights, kmf_err *err)
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
    double scale = sum[KMF_STAT_WEIGHT] > 0 ? 1 / sum[KMF_STAT_WEIGHT] : t->compares;
    if (!isfinite(sum[KMF_STAT_LOSS]) || (t->compares && !isfinite(t->now.contrast)))
        return not_finite(t, "the loss", err);
    if (kmf_update_norm(t->update, &norm, t->sums[0], err) < 0)
        return KMF_ENOMEM;
    if (!isfinite(norm))
        return not_finite(t, "the gradient", err);
    norm *= scale;
    if (o->clip > 0 && o->clip < norm + CLIP_EPSILON)
        scale *= o->clip / (norm + CLIP_EPSILON);
    kmf_adamw_step adamw = {.rate = kmf_pretrain_rate(t, t->now.step),
                            .beta1 = o->beta1,
                            .beta2 = o->beta2,
                            .epsilon = o->epsilon,
                            .decay = o->decay,
                            .clip = scale};
    kmf_adamw_correct(&adamw, t->now.step + 1);
    if (kmf_update_step(t->update, weights, t->m, t->v, t->sums[0], &adamw, err) < 0)
        return KMF_ENOMEM;
    t->now.step++;
    t->now.tokens += (uint64_t)sum[KMF_STAT_TOKENS];
    t->now.loss =
        sum[KMF_STAT_WEIGHT] > 0 ? sum[KMF_STAT_LOSS] / sum[KMF_STAT_WEIGHT] : (double)NAN;
    t->now.bits =
        sum[KMF_STAT_HIDDEN] > 0 ? sum[KMF_STAT_BITS] / sum[KMF_STAT_HIDDEN] : (double)NAN;
    t->now.norm = norm;
    t->now.rate = adamw.rate;
    t->now.validated = false;
    return 0;
}

/* Does a validation come with the step just done? */
static bool validates(const kmf_pretrain *t)
{
    return t->now.held_windows > 0 &&
           (t->now.step % t->val_every == 0 || t->now.step == t->now.steps);
}

int kmf_pretrain_train(kmf_pretrain *trainer, kmf_pretrain_fn *fn, void *user, kmf_err *err)
{
    kmf_pretrain *t = trainer;
    if (kmf_pretrain_check_begun(t, err) < 0)
        return KMF_EINVAL;
    int status = kmf_pretrain_agree(t, err);
    if (status < 0)
        return status;
    while (t->val_due || t->now.step < t->now.steps) {
        if (!t->val_due)
            status = kmf_pretrain_step(t, t->model->slab, err);
        if (status == 0 && validates(t))
            status = kmf_pretrain_validate(t, err);
        if (status == 0 && fn) {
            kmf_pretrain_state state;
            kmf_pretrain_information(t, &state);
            int answer = fn(user, &state, err);
            status = answer > 0 ? 1 : kmf_told(answer, "the training was ended", err);
        }
        if (status != 0)
            return status;
    }
    return 0;
}
