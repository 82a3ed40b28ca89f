/* SPDX-License-Identifier: MIT */
/*
 * Views of a genome as batches for a pass, and what the model's answers are worth: bits per
 * masked base (kmerformer/pretrain.h says how), beside what copying and Markov models would take.
 */
#ifndef KMF_MASKER_H
#define KMF_MASKER_H

#include "learn/markov.h"
#include "learn/mlm.h"
#include "learn/spans.h"
#include "learn/views.h"

typedef struct kmf_masker kmf_masker;

/* All borrowed. */
typedef struct kmf_masker_options {
    const kmf_genome *genome;
    kmf_spelling spelling;
    size_t letters; /* of a view, at most */
    size_t most;    /* views of a batch */
    float soft_weight;
    kmf_pool *pool;
} kmf_masker_options;

size_t kmf_masker_bytes(const kmf_masker_options *opts);
kmf_masker *kmf_masker_new(const kmf_masker_options *opts, kmf_err *err) KMF_MUST_CHECK;
void kmf_masker_free(kmf_masker *masker);

/* [V, 4 k] of 0 and 1: kmf_mlm_options.sites. Owned by masker. */
const kmf_real *kmf_masker_sites(const kmf_masker *masker);

/*
 * What becomes of the letters of a view, as they are read, before the model sees them. Drawn from
 * the view's stream: the drift, if it drifts; then, where mutations are above 0, a unit for every
 * letter and, if that is below them, below 3, x: letter l (0 .. 3) becomes (l + 1 + x) mod 4; then
 * what is hidden.
 */
typedef struct kmf_masking {
    double drift_rate; /* of views that drift, at most */
    double mutations;  /* chance of a base to be another one, 0 .. 1, after the drift */
    const kmf_spans_options *spans; /* what is hidden; NULL: nothing, and nothing is asked */
} kmf_masking;

/*
 * The n views as a batch, masked. *batch is valid until the next call; the letters that are asked
 * for are those after the mutations.
 */
int kmf_masker_draw(kmf_masker *masker, kmf_mlm_batch *batch, kmf_genome_part part,
                    const kmf_view *views, size_t n, const kmf_masking *masking,
                    kmf_err *err) KMF_MUST_CHECK;

typedef struct kmf_score {
    double hidden; /* bases that were asked for */
    double bits;   /* sums over them */
    double copy;
    double markov[KMF_MARKOV_MAX + 1];
} kmf_score;

/* What the answers to the batch drawn last are worth; added to score->hidden and bits. */
int kmf_masker_score(kmf_masker *masker, const kmf_mlm_result *result, kmf_score *score,
                     kmf_err *err) KMF_MUST_CHECK;
/* The same for those who do not know the model: added to hidden, copy and markov. */
int kmf_masker_baselines(kmf_masker *masker, const kmf_markov *markov, kmf_score *score,
                         kmf_err *err) KMF_MUST_CHECK;

#endif
