/* SPDX-License-Identifier: MIT */
/*
 * What the trainer (pretrain.c), its steps and its checkpoints share.
 *
 * Step s, 0 .. n - 1, of a training shows views s batch .. (s + 1) batch - 1 of all, in pieces of
 * batch / (shards accumulate), one after another. With the sums over all of the step, it learns
 * from
 *
 *   loss       sum of weight * -ln p(label) / sum of weights, of labelled tokens; 0 without one
 *   + contrast * the contrastive loss (contrast.h)
 *
 * Its gradient g, of what is learnt (update.h), is scaled by min(1, clip / (|g| + 1e-6)), and goes
 * into AdamW (nn/adamw.h) as that of t = s + 1, at a rate of, with r = floor(warmup n),
 *
 *   t <= r     rate t / r
 *   t > r      rate (1 + cos(pi d)) / 2, rate (1 - d) or rate,   d = (t - r) / (n - r + 1)
 *
 * so that the last step, too, learns something.
 *
 * With something held out, validation follows each t that val_every divides, and the last, with the
 * weights as they are then and the products in the precision of the training. Nothing is dropped,
 * mixed, mutated or of a relative. Masked, all spans are: val_loss is loss as above, val_bits the
 * mean over the masked bases, both with their sums over all windows of the fixed set (windows.h).
 * Of pairs all views are in one loss.
 *
 * A step that mixes masks nothing, and the views of a piece are of one length, but where a segment
 * is too short. In a piece the first views of the greatest length are mixed, each with one of them,
 * itself perhaps. Drawn: below the number of layers, the one before which they are; and for each in
 * turn below how many of them are left, the one of the list that it is mixed with, whose place the
 * last of the list takes; and a unit, its own share.
 */
#ifndef KMF_PRETRAIN_H
#define KMF_PRETRAIN_H

#include "kmerformer.h"
#include "learn/checkpoint.h"
#include "learn/contrast.h"
#include "learn/genome.h"
#include "learn/masker.h"
#include "learn/mlm.h"
#include "learn/update.h"
#include "learn/windows.h"
#include "model/layout.h"
#include "model/model.h"

/* What is drawn for beside views (kmf_draw), by the step and a view, a piece's first, of all. */
enum {
    KMF_DRAW_DROPOUT = KMF_DRAW_FREE + 1, /* (step, view): the first number is mlm.h's key */
    KMF_DRAW_MIX = KMF_DRAW_FREE + 3      /* (step, 0): unit < mix, the step mixes; and
                                             (step, 1 + view): how its piece does */
};
/* Gradients of shards that are not summed up yet: a power of 2 of them at each place. */
#define KMF_MOST_SUMS_OPEN 32
/* In a whole training, if val_every does not say otherwise. */
#define KMF_VALIDATIONS 20
/* If a time has no room for more: the bits of so many are good for two digits. */
#define KMF_FEWEST_WINDOWS 32

/*
 * What a step that compares needs of all its views, and of the piece under way; without one all is
 * NULL. n: views of a batch or of validation, whichever are more.
 */
typedef struct kmf_comparison {
    kmf_contrast *contrast;       /* owned, as all arrays */
    kmf_real *vectors, *dvectors; /* [n, D] */
    double *shared;               /* [batch, D] for other ranks; one row with one */
    size_t *sources;              /* [n] */
    double *asked;                /* [shards] what their labelled tokens weigh */
    /* hidden states mixed */
    uint32_t *partner;                      /* [batch] */
    double *share;                          /* [batch] */
    uint32_t *piece_partner, *piece_served; /* [piece] */
    kmf_mlm_mix mix;                        /* of the piece under way */
} kmf_comparison;

struct kmf_pretrain {
    kmf_pretrain_options opts; /* resolved; its strings and lists are not kept */
    kmf_spans_options spans;   /* in training */
    kmf_pair_options pairs;    /* resolved */
    bool asks, compares;       /* the objective: masked, contrastive */
    bool composes;             /* what is compared are compositions */
    kmf_pool *pool;            /* owned; NULL with one thread */
    kmf_model *model;          /* owned; its slab are the weights */
    kmf_slots slots;           /* owned */
    kmf_spelling spelling;
    kmf_genome *genome;      /* owned */
    bool tried, begun;       /* kmf_pretrain_begin was called; and went well */
    bool cut_short;          /* an input was not read to its end */
    bool unloaded;           /* a checkpoint is to come, with what begin has not measured */
    bool new_head, old_head; /* of init: it lacked one; it has one. Of a new model neither */
    uint32_t first_weights;  /* checksum of those that training begins with */

    /* made by begin; owned */
    kmf_windows *windows, *held_windows; /* held_windows: NULL without validation */
    kmf_masker *masker;
    kmf_view *views; /* [piece] */
    kmf_mlm *mlm;
    kmf_comparison comparison;
    kmf_update *update;
    float *m, *v;                             /* moments, as the slab */
    float *sums[KMF_MOST_SUMS_OPEN];          /* gradients, as the slab */
    kmf_params gradients[KMF_MOST_SUMS_OPEN]; /* fields that lead into them */
    size_t n_sums;
    float *scratch;      /* of ranks */
    double *shard_stats; /* [shards, KMF_SHARD_STATS] */

    /* What kmf_pretrain_information tells, but for what it looks up: records and letters of the
       genome, windows, epochs, baselines. */
    kmf_pretrain_state now;
    uint64_t val_every;         /* steps, resolved */
    uint64_t val_due;           /* 1: that of the last step was abandoned */
    uint64_t most_held;         /* now.held_windows, if no time makes them fewer */
    kmf_score baseline;         /* sums over the bases asked in validation */
    kmf_pretrain_stop_fn *stop; /* NULL: none */
    void *stop_user;            /* borrowed */
};

/* What is known of a shard's part of a step: sums. */
enum {
    KMF_STAT_LOSS,
    KMF_STAT_WEIGHT,
    KMF_STAT_BITS,
    KMF_STAT_HIDDEN,
    KMF_STAT_TOKENS,
    KMF_SHARD_STATS
};

/* Numbers of a vector that is compared. */
size_t kmf_pretrain_columns(const kmf_pretrain *t);
/* Windows of a piece: of what goes through the model at a time. */
size_t kmf_pretrain_piece(const kmf_pretrain *t);
/* KMF_EINVAL before kmf_pretrain_begin. */
int kmf_pretrain_check_begun(const kmf_pretrain *t, kmf_err *err) KMF_MUST_CHECK;

/* ---- pretrain_options.c ----------------------------------------------------------------- */

#define KMF_STEPS_MAX 1e15
/* KMF_EINVAL names the first option that is out of range or contradicts another. */
int kmf_pretrain_check_options(const kmf_pretrain_options *o, kmf_err *err) KMF_MUST_CHECK;

/* ---- pretrain_views.c: what a step shows, and how its vectors compare -------------------- */

int kmf_comparison_new(kmf_comparison *c, const kmf_pretrain *t, kmf_err *err) KMF_MUST_CHECK;
void kmf_comparison_clear(kmf_comparison *c);
uint64_t kmf_comparison_bytes(const kmf_pretrain *t);
/* Is the step under way one that mixes? */
bool kmf_pretrain_mixes(const kmf_pretrain *t);
/*
 * Windows first .. first + n - 1, counted over all epochs, as a batch for the model, n those of a
 * piece. at: where they stand in the step's batch.
 */
int kmf_pretrain_show(kmf_pretrain *t, kmf_mlm_batch *batch, uint64_t first, size_t at,
                      size_t n, kmf_err *err) KMF_MUST_CHECK;
/* Windows of the fixed set of validation from `first` on, all spans masked; returns how many. */
int kmf_pretrain_show_held(kmf_pretrain *t, kmf_mlm_batch *batch, uint64_t first,
                           kmf_err *err) KMF_MUST_CHECK;
/* The loss of the step's vectors, and scale times its gradients by them. */
int kmf_pretrain_compare(kmf_pretrain *t, double scale, kmf_err *err) KMF_MUST_CHECK;
/* Vectors of held-out pairs, a piece of them, from view `at` on; returns how many. */
int kmf_pretrain_encode_held(kmf_pretrain *t, size_t at, kmf_err *err) KMF_MUST_CHECK;
/* What they all are worth: val_contrast and val_hits. */
int kmf_pretrain_judge_held(kmf_pretrain *t, kmf_err *err) KMF_MUST_CHECK;

/* ---- pretrain_steps.c ------------------------------------------------------------------- */

/* The learning rate of a step, 0 .. steps - 1. */
double kmf_pretrain_rate(const kmf_pretrain *t, uint64_t step);
/* A step by the gradient at the model's weights; `weights`, its slab or a copy, learn from it. */
int kmf_pretrain_step(kmf_pretrain *t, float *weights, kmf_err *err) KMF_MUST_CHECK;
/* A piece of the windows of validation, from `first` on: its stats; returns how many. */
int kmf_pretrain_ask_held(kmf_pretrain *t, uint64_t first, double *stats,
                          kmf_err *err) KMF_MUST_CHECK;

/* ---- pretrain_time.c: how many steps a time makes ---------------------------------------- */

/* Seconds. */
typedef struct kmf_pretrain_costs {
    double left; /* of those asked for, when these were measured */
    double step;
    double window; /* of validation */
} kmf_pretrain_costs;

typedef struct kmf_pretrain_plan {
    uint64_t steps, val_every;
    uint64_t windows; /* of a validation */
} kmf_pretrain_plan;

/*
 * Steps, at least one, for a time, with a validation after every val_every of them and one at the
 * end. val_every 0: after every KMF_VALIDATIONS-th part of them, but no more than one a step; and
 * share above 0: fewer, or, of the last one, fewer windows, so that they take this share of it.
 */
kmf_pretrain_plan kmf_pretrain_plan_time(const kmf_pretrain_costs *costs, uint64_t windows,
                                         uint64_t val_every, double share);
/* By trying, in the room of the training, whose moments are not to be used any more. */
int kmf_pretrain_measure(kmf_pretrain *t, kmf_pretrain_costs *costs,
                         kmf_err *err) KMF_MUST_CHECK;

/* ---- pretrain_saved.c: checkpoints, and what all ranks have in common ------------------- */

#define KMF_STEP_RESUMED "the step they resume from"
/* Fails with what ranks differ in. */
int kmf_pretrain_disagree(const char *what, kmf_err *err);
/* Of the weights as they are. */
uint32_t kmf_pretrain_checksum(const kmf_pretrain *t);
/*
 * Whether all ranks have the same settings, inputs, weights and step, or they would learn nonsense
 * together: a node without the checkpoint, an older copy of a genome. Else KMF_EMODEL.
 */
int kmf_pretrain_agree(const kmf_pretrain *t, kmf_err *err) KMF_MUST_CHECK;

#endif
