/* SPDX-License-Identifier: MIT */
/* What word2vec.c, the training (steps.c) and its checkpoints share. */
#ifndef KMF_WORD2VEC_H
#define KMF_WORD2VEC_H

#include "kmerformer.h"
#include "learn/checkpoint.h"
#include "learn/sgns_batch.h"

struct kmf_word2vec {
    kmf_word2vec_options opts; /* resolved; tmp owned */
    kmf_corpus *corpus;        /* owned */
    kmf_lexicon lexicon;
    kmf_noise noise;
    kmf_pool *pool;   /* owned; NULL with one thread */
    uint64_t *counts; /* owned [words]: windows of the corpus */
    uint64_t kmers;   /* their sum */
    uint64_t unseen;  /* counts of 0 */
    uint32_t *keep;   /* owned [words] or NULL; kmf_sgns_plan.keep */
    kmf_sgns_plan plan;

    size_t ld;       /* floats from one row to the next */
    float *table;    /* owned [2 words, ld]: vectors, then those of the words as targets */
    uint8_t *visits; /* owned [2 words]: batches of a step that hold a row; 0 between steps */

    kmf_sgns_batch *batches;     /* owned [KMF_STEP_BATCHES] */
    float *copies;               /* owned; where the batches' values lie */
    kmf_sgns_sampler **samplers; /* owned [threads] */
    uint64_t steps_per_epoch;
    uint64_t step; /* steps done */

    uint64_t tokens; /* centres learnt */
    double loss_sum; /* of the batches asked since the loss was last told */
    uint64_t loss_pairs;
    double loss; /* as kmf_word2vec_state */
    int other_kernels;
    bool tried, begun; /* kmf_word2vec_begin was called; and went well */
    bool cut_short;    /* an input was not read to its end */
};

/* Batches of a step. 64 cost 0.01 of the rank correlation of 8-mers, trained with k = 3-8. */
#define KMF_STEP_BATCHES 16

/* Streams of random numbers; batches use those from 0 on. */
#define KMF_STREAM_OF_VECTORS UINT64_MAX
#define KMF_STREAM_OF_ORDER (UINT64_MAX - 1)

/* KMF_EINVAL before kmf_word2vec_begin. */
int kmf_word2vec_check_begun(const kmf_word2vec *trainer, kmf_err *err) KMF_MUST_CHECK;

/* Steps of the whole training; 0 before kmf_word2vec_begin. */
uint64_t kmf_word2vec_steps(const kmf_word2vec *trainer);
/* The learning rate of a step. */
double kmf_word2vec_alpha(const kmf_word2vec *trainer, uint64_t step);

#endif
