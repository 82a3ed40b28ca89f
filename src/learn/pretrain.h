/* SPDX-License-Identifier: MIT */
/* What the trainer (pretrain.c), its steps and its checkpoints share. */
#ifndef KMF_PRETRAIN_H
#define KMF_PRETRAIN_H

#include "kmerformer.h"
#include "learn/checkpoint.h"
#include "learn/genome.h"
#include "learn/mlm.h"
#include "learn/questions.h"
#include "learn/update.h"
#include "learn/windows.h"
#include "model/layout.h"
#include "model/model.h"

/* Gradients of shards that are not summed up yet: a power of 2 of them at each place. */
#define KMF_MOST_SUMS_OPEN 32

struct kmf_pretrain {
    kmf_pretrain_options opts; /* resolved; its strings and lists are not kept */
    kmf_spans_options spans;   /* in training */
    kmf_pool *pool;            /* owned; NULL with one thread */
    kmf_model *model;          /* owned; its slab are the weights */
    kmf_slots slots;           /* owned */
    kmf_spelling spelling;
    kmf_genome *genome; /* owned */
    bool new_head;
    uint32_t first_weights; /* checksum of those that training begins with */

    /* made by begin; owned */
    kmf_windows *windows, *held_windows; /* held_windows: NULL without validation */
    uint64_t n_held;                     /* windows of a validation */
    kmf_questions *questions;
    kmf_mlm *mlm;
    kmf_update *update;
    float *m, *v;                             /* moments, as the slab */
    float *sums[KMF_MOST_SUMS_OPEN];          /* gradients, as the slab */
    kmf_params gradients[KMF_MOST_SUMS_OPEN]; /* fields that lead into them */
    size_t n_sums;
    float *scratch;      /* of ranks */
    double *shard_stats; /* [shards, KMF_SHARD_STATS] */
    uint64_t bytes;
    uint64_t short_segments; /* of those learnt from: shorter than a window */

    uint64_t step, steps, tokens;
    uint64_t val_every;            /* steps, resolved */
    double loss, bits, rate, norm; /* of the last step */
    bool validated;
    double val_loss, val_bits, best_bits;
    uint64_t best_step;
    kmf_score baseline; /* sums over the bases asked in validation */
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

/* Bases of a window. */
size_t kmf_pretrain_letters(const kmf_pretrain *t);
/* Windows of a piece: of what goes through the model at a time. */
size_t kmf_pretrain_piece(const kmf_pretrain *t);
/* The learning rate of a step, 0 .. steps - 1. */
double kmf_pretrain_rate(const kmf_pretrain *t, uint64_t step);
/* Steps that take opts.seconds, by trying. */
int kmf_pretrain_measure(kmf_pretrain *t, uint64_t *steps, kmf_err *err) KMF_MUST_CHECK;
/* Whether there is a validation after the step with this number, counted from 1. */
bool kmf_pretrain_validates(const kmf_pretrain *t, uint64_t step);
/*
 * Whether all ranks have the same settings, inputs, weights and step, or they would learn nonsense
 * together: a node without the checkpoint, an older copy of a genome. Else KMF_EMODEL.
 */
int kmf_pretrain_agree(const kmf_pretrain *t, kmf_err *err) KMF_MUST_CHECK;

#endif
