/* SPDX-License-Identifier: MIT */
/*
 * Windows of a genome as batches for a pass, and what the model's answers are worth: bits per
 * hidden base (kmerformer/pretrain.h says how), beside what copying and Markov models would take.
 */
#ifndef KMF_QUESTIONS_H
#define KMF_QUESTIONS_H

#include "learn/markov.h"
#include "learn/mlm.h"
#include "learn/spans.h"
#include "learn/windows.h"

typedef struct kmf_questions kmf_questions;

/* All borrowed. */
typedef struct kmf_questions_options {
    const kmf_genome *genome;
    kmf_spelling spelling;
    size_t letters; /* of a window */
    size_t most;    /* windows of a batch */
    float soft_weight;
    uint64_t seed;
    kmf_pool *pool;
} kmf_questions_options;

size_t kmf_questions_bytes(const kmf_questions_options *opts);
kmf_questions *kmf_questions_new(const kmf_questions_options *opts,
                                 kmf_err *err) KMF_MUST_CHECK;
void kmf_questions_free(kmf_questions *questions);

/* [V, 4 k] of 0 and 1: kmf_mlm_options.sites. Owned by questions. */
const kmf_real *kmf_questions_sites(const kmf_questions *questions);

/*
 * Windows first .. first + n - 1, counted over all epochs, hidden by spans; or of the fixed set of
 * `fixed` windows, if that is not 0, of which n may be more than there are. *batch is valid until
 * the next call. Returns how many windows it holds, or KMF_ENOMEM.
 */
int kmf_questions_draw(kmf_questions *questions, kmf_mlm_batch *batch,
                       const kmf_windows *windows, kmf_genome_part part,
                       const kmf_spans_options *spans, uint64_t fixed, uint64_t first, size_t n,
                       kmf_err *err) KMF_MUST_CHECK;

typedef struct kmf_score {
    double hidden; /* bases that were asked for */
    double bits;   /* sums over them */
    double copy;
    double markov[KMF_MARKOV_MAX + 1];
} kmf_score;

/* What the answers to the batch drawn last are worth; added to score->hidden and bits. */
int kmf_questions_score(kmf_questions *questions, const kmf_mlm_result *result,
                        kmf_score *score, kmf_err *err) KMF_MUST_CHECK;
/* The same for those who do not know the model: added to hidden, copy and markov. */
int kmf_questions_baselines(kmf_questions *questions, const kmf_markov *markov,
                            kmf_score *score, kmf_err *err) KMF_MUST_CHECK;

#endif
