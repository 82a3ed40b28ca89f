/* SPDX-License-Identifier: MIT */
/* Part of kmerformer.h: masked and contrastive pretraining of an encoder on genomes. */
#ifndef KMERFORMER_PRETRAIN_H
#define KMERFORMER_PRETRAIN_H

#include "model.h"
#include "reader.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How the learning rate goes from its greatest, after the warm-up, to the end. */
typedef enum kmf_schedule {
    KMF_SCHEDULE_COSINE,  /* half a cosine down to 0 */
    KMF_SCHEDULE_LINEAR,  /* straight down to 0      */
    KMF_SCHEDULE_CONSTANT /* it stays                */
} kmf_schedule;
KMF_API extern const char *const kmf_schedule_names[]; /* cosine linear constant */

/* What the word table of a new model begins with, all numbers drawn with deviation 0.02. */
typedef enum kmf_words_start {
    KMF_WORDS_LETTERS, /* the sum of a vector for each letter in its place, and a tenth of noise:
                          k-mers that share letters are alike, which saves learning it      */
    KMF_WORDS_RANDOM,  /* every k-mer by itself                                             */
    KMF_WORDS_TETRAMERS /* as LETTERS, and as much again of a vector for each tetramer in it, the
                           same for both strands: a mean of words tells a sequence's tetramers
                           from the beginning. k is 4 or more                           */
} kmf_words_start;
KMF_API extern const char *const kmf_words_start_names[]; /* letters random tetramers */

/* What is learnt. */
typedef enum kmf_objective {
    KMF_OBJECTIVE_MASKED,      /* to tell masked bases                                  */
    KMF_OBJECTIVE_CONTRASTIVE, /* to tell windows of one source from those of others    */
    KMF_OBJECTIVE_BOTH         /* the second on windows of which bases are hidden       */
} kmf_objective;
KMF_API extern const char *const kmf_objective_names[]; /* masked contrastive both */

/* What two windows have to share to be of one source. */
typedef enum kmf_sources {
    KMF_SOURCES_INPUT, /* the input: a file is a genome */
    KMF_SOURCES_RECORD /* the record: a contig          */
} kmf_sources;
KMF_API extern const char *const kmf_sources_names[]; /* input record */

typedef struct kmf_pretrain_options {
    int objective; /* kmf_objective */

    /* the model: of a preset, or one to go on with */
    const char *preset; /* nano tiny small base                                        */
    const char *init;   /* a model directory; NULL: a new model. Its k is used          */
    int k;              /* 1 .. 12                                                     */
    size_t stride;      /* bases from one k-mer to the next, 1 .. k; 0: the model's, else 1 */
    size_t window;      /* tokens, [CLS] and [SEP] included, 8 .. 65536; 0: the model's     */
    int words;          /* kmf_words_start                                             */
    size_t composition; /* that the model gets (kmf_config), to 1024; 0: as it is          */
    int parts;          /* kmf_vector_parts; -1: the model's; if its composition is new
                           STATES_COMPOSITION, or COMPOSITION where nothing teaches states */
    const char *embeddings; /* k-mer vectors (kmf_vectors_load) as the word table to begin with:
                               same k, dim = embedding size; one with a count of 0 is
                               none. NULL: none                                         */

    /* how long: exactly one is above 0 */
    uint64_t steps; /* to 10^15                                                        */
    double epochs;  /* passes over what is learnt from, to 10^9                        */
    double seconds; /* as many steps as will take so long, by a measurement at the start */

    /* what is held out; neither: nothing, and no validation */
    const char *const *held; /* [n_held] names of records                              */
    size_t n_held;
    double held_fraction; /* 0 .. 0.5: the end of every other record                    */
    uint64_t val_windows; /* held-out windows that are looked at, 1 .. 10^7             */
    uint64_t val_every;   /* steps from one validation to the next; 0: a 20th of all,
                             rounded up                                                */
    double val_share;     /* of `seconds`, 0 .. 0.5, that validations may take if val_every is
                             0: there are fewer then, the last at least, and if that takes too
                             long it looks at fewer windows, 32 at least. 0: whatever they take */

    /* what is hidden, see below */
    double mask_rate;          /* share of the bases, 0.001 .. 0.5; a span at least   */
    size_t span_min, span_max; /* bases of a span, 1 .. 64                            */
    double mask_share;         /* of the spans: [MASK]                                */
    double random_share;       /* of the spans: drawn bases; the rest is left to see   */
    double soft_weight;        /* 0, 1e-37 .. 1: of a lower-case base in the loss      */

    /* what is alike, see below; not with the objective MASKED */
    int sources;                   /* kmf_sources                                      */
    size_t length_min, length_max; /* bases of a window; min 0: max alone; both 0: all of it */
    int all_positives;             /* 1: all of the source are positives, not the pair alone */
    double near;                   /* 0 .. 1: share of the pairs that are neighbours   */
    size_t distance;               /* bases between neighbours, at most; 1 .. 2^40      */
    double mutations;              /* 0 .. 0.5: of a base of a window, to be another   */
    double drift;                  /* 0 .. 1: share of the pairs that drift            */
    double drift_rate;             /* 0 .. 0.5: of their bases that become others, at most */
    double temperature;            /* 0.001 .. 10                                      */
    double hardness;               /* 0 .. 10: weight of negatives that are much alike */
    double mix;                    /* 0 .. 1: share of the steps that mix hidden states; with
                                      BOTH below 1                                      */
    double contrast; /* 1e-37 .. 1000: what the contrastive loss counts beside the other */

    /* a step */
    size_t batch;      /* windows, 1 .. 10^6; of pairs both are counted, 4 .. 65536    */
    size_t shards;     /* parts that are summed along a binary tree; a power of 2, to 65536 */
    size_t accumulate; /* pieces that a shard is worked off in; batch is a multiple of both */
    int recompute;     /* 1: less memory, a third more work                            */
    int precision;     /* kmf_precision, F32 or BF16, of the matrix products of the encoder and
                          its head, see below. Where the processor lacks it: F32    */
    double dropout;    /* 0 .. 0.9                                                     */
    double rate;       /* greatest learning rate, 1e-37 .. 1                           */
    double warmup;     /* 0 .. 1: share of the steps on which it rises from 0           */
    int schedule;      /* kmf_schedule                                                 */
    double decay;      /* of weights that are matrices, AdamW, 0 .. 1                   */
    double beta1, beta2; /* AdamW, 0 .. below 1                                        */
    double epsilon;      /* AdamW, 1e-37 .. 1                                          */
    double clip;         /* greatest norm of the gradient, 1e-37 .. 10^9; 0: none      */
    uint64_t seed;

    int resumes;     /* 1: kmf_pretrain_load follows begin, which leaves out what a checkpoint
                        tells, steps of a time and baselines: there is no training before */
    int threads;     /* 1 .. 1024; 0: kmf_threads_default(). Does not change the result */
    uint64_t memory; /* bytes of packed bases kept in memory, 0 = 4 GiB                 */
    const char *tmp; /* folder for what exceeds it; NULL: $TMPDIR, else /tmp            */
} kmf_pretrain_options;

/*
 * A tiny model, k 6, that learns masked bases: 32 windows a step, learning rate 1e-3 with a warm-up
 * of 5 % and a cosine, decay 0.01, beta 0.9 and 0.98, epsilon 1e-6, clip 1, 512 windows in
 * validation, which has a tenth of a time; of pairs a quarter are neighbours within 5000 bases,
 * temperature 0.05. How long, and what is held out, is left to be said.
 */
KMF_API void kmf_pretrain_options_default(kmf_pretrain_options *opts);

/*
 * An encoder in the making.
 *
 * Bases are hidden in spans, each span masked, replaced or left as it is; a k-mer that touches a
 * masked base is [MASK]. The loss is the cross-entropy of the k-mers that touch a masked base. To
 * tell learning from copying, it is also given per masked base, in bits: every k-mer that covers
 * the base and was asked for gives each letter the sum of the probabilities of all k-mers with that
 * letter in that place; these sums, added up over the k-mers and then scaled to sum 1, are what the
 * model says of the base, and -log2 of what it gives the true one, 2^-126 at least, are the bits. A
 * base that no k-mer covers is not counted.
 *
 * In validation every span is masked, in the same windows each time, and beside the model stand
 *   copy     0 bits if a k-mer that covers the base is still to be seen, else 2: as every span is
 *            masked, and all k-mers that touch it, 2
 *   markov   an order-m Markov model of what is learnt from (both strands, pseudo-count 1/2),
 *            told the m true bases before the hidden one, those hidden themselves included; the
 *            end of a window cuts m
 *
 * Contrastive. A step has batch / 2 pairs of windows of one source: the second one is a neighbour
 * of the first, in the same run of bases, at a gap drawn log-uniformly from 0 to `distance`, or
 * comes from anywhere in the source. Each has a length, a strand and point mutations of its own,
 * and becomes a vector as `embed` makes it: pooled as the model says, then normalised, which the
 * model says from now on too. Of a share of the pairs, `drift`, both windows are read as a made-up
 * relative of their source has them, by one draw of substitutions whose rates hang on a base and
 * its neighbours, the same on both strands; at most drift_rate of the bases become others, and the
 * pair is a source of its own. The loss is InfoNCE over both windows of all pairs,
 *
 *   L_i = ln( sum_p exp(u_ip) + N_i ) - mean_p u_ip,   u_ij = cos(v_i, v_j) / temperature,
 *   N_i = n sum_j exp((1 + h) u_ij) / sum_j exp(h u_ij)   over n windows of other sources,
 *
 * p the other window of the pair, or with all_positives all others of its source, and
 * h the hardness. On steps that mix, the first windows' hidden states become mixtures of two with
 * a drawn share, before a drawn layer, and their vectors are to be alike to both. A step worked off
 * in pieces computes all vectors first and each piece once more on its way back: the loss is that
 * of the whole batch, and memory that of a piece.
 *
 * Where the model's vectors have a composition (kmf_config), that alone is compared and taught: the
 * encoder and its head are left as they are, but with the objective BOTH, where masked bases teach
 * them. There is nothing to mix then.
 *
 * In validation there are the pairs of the held-out windows, the same each time, all of them in one
 * loss, and none drifts or has mutations; a hit is a window of which a positive is more alike than
 * all windows of other sources.
 *
 * With the objective BOTH the losses are added, the contrastive one times `contrast`; the bases of
 * its windows are hidden as above, but not on steps that mix. Without masking nothing trains the
 * head, and the models that are written have none; only beside an encoder that is left as it is,
 * that of init stays.
 *
 * In BF16 both factors of the encoder's and the head's matrix products are rounded, those of the
 * gradients' products as well, and in validation. Sums, weights, moments and all else are float32,
 * compositions and the contrastive loss among it.
 *
 * The bits of the result depend on options, shards and inputs, not on threads or ranks.
 */
typedef struct kmf_pretrain kmf_pretrain;

/*
 * opts, its texts and names are read in this call alone. KMF_EINVAL: an option is out of range;
 * KMF_EMODEL: init or embeddings do not fit.
 */
KMF_API kmf_pretrain *kmf_pretrain_new(const kmf_pretrain_options *opts,
                                       kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_pretrain_free(kmf_pretrain *trainer);
/* For readers, which are closed before the trainer is freed; NULL with one thread. */
KMF_API kmf_pool *kmf_pretrain_pool(kmf_pretrain *trainer);
/*
 * All records of a reader from which none was taken, as one input; held_whole: all of them are
 * held out. fn (NULL: none) is told how many letters were read so far. KMF_EINVAL: the training has
 * begun, or some were taken. After another failure the trainer can only be freed: this and
 * kmf_pretrain_begin are KMF_EINVAL.
 */
KMF_API int kmf_pretrain_read(kmf_pretrain *trainer, kmf_reader *reader, int held_whole,
                              kmf_progress_fn *fn, void *user, kmf_err *err) KMF_MUST_CHECK;
/*
 * Ends the reading, counts the Markov models and makes all room that training takes. fn (NULL:
 * none) is told how many letters are counted. May be called once, even if it fails; before it there
 * is no training, and no checkpoint to save or load (KMF_EINVAL). KMF_EINVAL: a name to be held out
 * never came, or all that is held out is too short to ask about, or pairs are wanted and there is
 * one source, or one that is held out; KMF_EFORMAT: nothing to learn from; KMF_EMODEL: the ranks
 * do not have the same options, inputs and weights; KMF_ENOMEM says what would be needed.
 */
KMF_API int kmf_pretrain_begin(kmf_pretrain *trainer, kmf_progress_fn *fn, void *user,
                               kmf_err *err) KMF_MUST_CHECK;

#define KMF_MARKOV_ORDERS 13 /* 0 .. 12 */

typedef struct kmf_pretrain_state {
    /* what is learnt from */
    uint64_t records, letters, ambiguous, too_short; /* read                           */
    uint64_t bases, held_bases;     /* learnt from, held out                            */
    uint64_t held_shared;           /* records, one of them like chr:beg-end, of which bases
                                       that are held out lie, by their names, in what is learnt
                                       from another of the same input; 0 until begin    */
    uint64_t segments, short_ones;  /* runs of bases; of those: shorter than a window   */
    uint64_t windows, held_windows; /* of an epoch; looked at in validation             */
    uint64_t sources;               /* of the part that is learnt from                  */
    uint64_t parameters;
    size_t window, window_bases;
    int precision; /* kmf_precision that is computed in                              */
    int new_head;  /* init had no masked-language-model head: one was drawn to learn */
    int undropped; /* dropout was asked for, and changes nothing: a composition alone learns */
    uint64_t
        unfilled;    /* k-mers that `embeddings` has no vector for: their words are as drawn */
    uint64_t bytes;  /* of memory held, all in all, from begin on                      */
    int ranks, rank; /* 1 and 0 without MPI                                            */
    int other_kernels; /* 1: the checkpoint gone on from was written where last digits differ */

    /* how far it is */
    uint64_t step, steps; /* steps: 0 until begin                                      */
    double epochs;        /* done                                                      */
    uint64_t tokens;      /* done                                                      */
    double loss;          /* nats a labelled k-mer, of the last step; NaN: none was asked */
    double bits;          /* a masked base, of the last step                            */
    double contrast;      /* contrastive loss of the last step, nats; NaN: not learnt   */
    double hits;          /* share of its windows that are hits, as in validation       */
    double rate;
    double norm; /* of the gradient before clipping                                    */

    /* validation; NaN before the first, val_loss also if soft_weight 0 leaves nothing of it */
    int validated;      /* 1 if it came with the last step                        */
    int val_due;        /* 1: that of the last step was abandoned, and is still to come */
    uint64_t val_every; /* steps from one to the next; 0 until begin             */
    double val_seconds; /* that this process has spent in validations; 0 before     */
    double val_loss, val_bits;
    double val_contrast, val_hits;
    double best; /* the least val_bits so far, or val_contrast if that is learnt        */
    uint64_t best_step;
    uint64_t val_hidden;                   /* masked bases asked                       */
    double copy_bits;                      /* what can be read off the input          */
    double markov_bits[KMF_MARKOV_ORDERS]; /* by order                                */
    int markov_best;                       /* the best order of 1 .. 12                */
} kmf_pretrain_state;

KMF_API void kmf_pretrain_information(const kmf_pretrain *trainer, kmf_pretrain_state *state);

/* What the model that `init` named tells of itself, as kmf_model_provenance; "" of a new one. */
KMF_API const char *kmf_pretrain_origin(const kmf_pretrain *trainer);

/*
 * Called after each step. 0: go on; above 0: stop here. Negative, a kmf_code with *err filled: the
 * training ends with it. May call the functions below.
 */
typedef int kmf_pretrain_fn(void *user, const kmf_pretrain_state *state, kmf_err *err);

/*
 * Trains on to the end, or until fn (NULL: none) says stop: 0 or 1. KMF_ENUMERIC: loss or gradient
 * are no longer finite, and the message names step and tensor; the weights are then those before
 * the step. Or the validation is not, and they are those after it.
 *
 * Of several ranks all call it, and kmf_pretrain_begin and _validate, and fn must answer the same
 * on all; a rank that fails alone ends the others by kmf_ranks_abort, or they wait for it.
 */
KMF_API int kmf_pretrain_train(kmf_pretrain *trainer, kmf_pretrain_fn *fn, void *user,
                               kmf_err *err) KMF_MUST_CHECK;

/*
 * fn (NULL: none) is asked between the batches of a validation, which may take minutes: not 0, and
 * it is abandoned, as if it had not begun, and kmf_pretrain_train ends with 1 and without telling
 * of the step. The next one, or that of a checkpoint that is loaded, begins with this validation
 * and tells then. Of several ranks all answer the same.
 */
typedef int kmf_pretrain_stop_fn(void *user);
KMF_API void kmf_pretrain_on_validation(kmf_pretrain *trainer, kmf_pretrain_stop_fn *fn,
                                        void *user);

/*
 * The held-out windows, as after a step: the fields val_ of the state. For who wants to know what
 * a model knows and does not train it. 1: abandoned. KMF_EINVAL: nothing is held out, or it has not
 * begun; KMF_ENUMERIC: the loss is not finite.
 */
KMF_API int kmf_pretrain_validate(kmf_pretrain *trainer, kmf_err *err) KMF_MUST_CHECK;

/*
 * Checkpoint: all that is needed to go on as if nothing had happened, bit for bit. It is loaded
 * after kmf_pretrain_begin with the same inputs. KMF_EMODEL: the file is damaged, or of other
 * settings or inputs, and the message names the first that differs.
 */
KMF_API int kmf_pretrain_save(const kmf_pretrain *trainer, const char *path,
                              kmf_err *err) KMF_MUST_CHECK;
KMF_API int kmf_pretrain_load(kmf_pretrain *trainer, const char *path,
                              kmf_err *err) KMF_MUST_CHECK;

/*
 * The model as it is now, as a model directory: dir is made, or the model in it replaced, once the
 * new one is wholly written; other files in dir stay. dtype: any but F64. provenance: JSON object
 * text for config.json.
 */
KMF_API int kmf_pretrain_model(const kmf_pretrain *trainer, const char *dir, kmf_dtype dtype,
                               const char *provenance, kmf_err *err) KMF_MUST_CHECK;

/*
 * Data-parallel training by MPI: one call each before and after all else of the program, by every
 * rank. Without MPI (make MPI=1 builds with it) there is one rank. abort ends all ranks.
 */
KMF_API int kmf_ranks_start(int *argc, char ***argv, kmf_err *err) KMF_MUST_CHECK;
KMF_API void kmf_ranks_end(void);
KMF_API void kmf_ranks_abort(int exit_code);
KMF_API int kmf_ranks(void);
KMF_API int kmf_rank(void);
/* 1 on all ranks if flag is not 0 on any. Every rank has to call it. */
KMF_API int kmf_ranks_any(int flag);

#ifdef __cplusplus
}
#endif

#endif
