/* SPDX-License-Identifier: MIT */
/*
 * The unit of word2vec's work: a stretch of the corpus turned into examples on a private copy of
 * the vectors that they touch.
 *
 *   batch    the starts of k-mers in a stretch of KMF_SGNS_BATCH_TOKENS strides of letters; fewer
 *            where the corpus has other letters or --sample drops words, more where segments are
 *            shorter than the stride. Each is a centre; the words of its window may lie outside.
 *            Number: (stretch * frames + frame) * strands + strand
 *   token    a k-mer of the corpus as it is read here: at a stride, in a frame, on a strand, its
 *            length drawn if there are several, kept or dropped by --sample. Strides are counted
 *            from the first letter of the segment; on the reverse strand tokens keep their order
 *
 * A batch is a function of corpus, settings, seed, epoch and number, and changes nothing but
 * itself. So batches may be worked on by any threads at once, and the result does not depend on
 * them.
 */
#ifndef KMF_SGNS_BATCH_H
#define KMF_SGNS_BATCH_H

#include "base/rng.h"
#include "kmerformer.h"
#include "learn/lexicon.h"
#include "learn/noise.h"
#include "nn/sgns.h"
#include "words/corpus.h"

#define KMF_SGNS_BATCH_TOKENS 128

/* What batches are made from; all borrowed. */
typedef struct kmf_sgns_plan {
    const kmf_corpus *corpus;
    uint64_t n_segments; /* of the corpus */
    const kmf_lexicon *lexicon;
    const kmf_noise *noise;
    const uint32_t *keep; /* [words] of 2^32: how often --sample keeps a word; NULL: always */
    size_t stride;        /* letters from one token of a sentence to the next */
    size_t frames;        /* sentences that a sequence gives: 1, or stride */
    size_t strands;       /* 1 or 2 */
    int window, negative;
    bool cbow;
    uint64_t seed;
    /* [2 words, ld]: word w's vector is row w, the one that it has as a target row words + w */
    const float *table;
    size_t ld;
    size_t most_centres; /* of a batch; by kmf_sgns_plan_measure */
    uint32_t owners;     /* threads among which the rows are shared out, 1 or more */
} kmf_sgns_plan;

/*
 * 0 .. owners - 1. 64 neighbouring rows have one owner: what is kept for rows, a byte each, then
 * shares no cache line with that of another thread.
 */
static inline uint32_t kmf_row_owner(uint32_t row, uint32_t owners)
{
    return (uint32_t)((uint64_t)(uint32_t)((row >> 6) * UINT32_C(2654435769)) * owners >> 32);
}

/* Sets most_centres from all the rest; before anything else. */
void kmf_sgns_plan_measure(kmf_sgns_plan *plan);
/* Batches of an epoch. */
uint64_t kmf_sgns_plan_batches(const kmf_sgns_plan *plan);

typedef struct kmf_sgns_batch {
    uint32_t *rows; /* owned; of the table, each once */
    float *values;  /* borrowed [cap_rows, ld]; copies of them, then what became of these */
    size_t n_rows, cap_rows;
    uint32_t *by_owner;  /* owned; places in `rows`, in order for each owner of the rows */
    uint32_t *owner_beg; /* owned [owners + 1]; where each one's begin in by_owner */
    kmf_sgns_example *examples; /* owned; rows are places in `rows` */
    size_t n_examples, cap_examples;
    uint64_t n_tokens; /* centres */
    uint64_t n_pairs;  /* skip-gram: pairs of centre and context; CBOW: centres */
    double loss;       /* of all examples, if it was asked for */
} kmf_sgns_batch;

/* One thread's tools to make batches. */
typedef struct kmf_sgns_sampler kmf_sgns_sampler;

kmf_sgns_sampler *kmf_sgns_sampler_new(const kmf_sgns_plan *plan, kmf_err *err) KMF_MUST_CHECK;
void kmf_sgns_sampler_free(kmf_sgns_sampler *sampler);
/* Floats of a batch's values. */
size_t kmf_sgns_batch_floats(const kmf_sgns_plan *plan);
int kmf_sgns_batch_make(kmf_sgns_batch *batch, const kmf_sgns_plan *plan, float *values,
                        kmf_err *err) KMF_MUST_CHECK;
/* Accepts a zeroed one. */
void kmf_sgns_batch_clear(kmf_sgns_batch *batch);

/*
 * Prepares batch `number` of an epoch: rows and examples. They point into the sampler until the
 * next call.
 */
void kmf_sgns_sampler_prepare(kmf_sgns_sampler *sampler, kmf_sgns_batch *batch, uint64_t epoch,
                              uint64_t number);
/* Makes it a batch without examples. */
void kmf_sgns_batch_skip(kmf_sgns_batch *batch, const kmf_sgns_plan *plan);
/* Copies the rows of the table and learns the examples on the copies. */
void kmf_sgns_batch_learn(kmf_sgns_batch *batch, const kmf_sgns_plan *plan, float alpha,
                          bool want_loss);

#endif
