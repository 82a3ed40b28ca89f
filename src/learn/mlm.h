/* SPDX-License-Identifier: MIT */
/*
 * One pass of masked-language-model training: forward, loss, and backward by hand, over a batch of
 * sequences packed end to end (model/encoder.c has the diagram).
 *
 *   loss       sum over labelled tokens of weight * -ln p(label)
 *   vectors    one of each sequence, pooled from the hidden states of the last layer, or its
 *              composition; a loss on them is the caller's, who gives its gradients by them back
 *   gradients  of the sum of both, ADDED to those that are there already: batches are accumulated
 *              by calling again, and who wants a mean divides by the sum of the weights
 *
 * Dropout (nn/dropout.h) comes behind the embedding's norm, before its projection; on the weights
 * of the attention; and behind the bias of either sublayer, before it is added to what went in.
 * Keys of layer l are numbers of the streams 3 l + i of the batch's key: of the attention's weights
 * (i = 0) the (s + 1)-th for sequence s, of its sublayer (1) and of the feed-forward (2) the first;
 * the embedding's is that of the feed-forward of one layer more than there are. Element i of token
 * t of the batch is number t width + i; for those of the weights see nn/attention_train.h.
 *
 * Work is cut into items (strips of tokens, heads of a sequence, blocks of a weight), each done by
 * one thread, and every sum has an order that depends on the batch alone: the bits do not depend on
 * the number of threads.
 */
#ifndef KMF_MLM_H
#define KMF_MLM_H

#include "kmerformer.h"
#include "model/params.h"

#include <stdbool.h>

typedef struct kmf_mlm kmf_mlm;

typedef struct kmf_mlm_options {
    size_t max_tokens; /* of a batch */
    size_t max_seq;    /* tokens of its longest sequence */
    bool recompute;    /* keep one layer's activations and compute the others' again */
    bool forward_only; /* no room for kmf_mlm_learn's gradients */
    bool vectors;      /* room for those of sequences; they are pooled as the config says */
    bool composes;     /* they are compositions, and of a batch without labels the encoder has
                          nothing to do; with vectors alone, and pooling MEAN */
    bool unasked;      /* no batch has labels: where it composes the encoder gets no room */
    size_t max_seqs;   /* of a batch; wanted where it composes */
    int32_t unknown; /* id of the token that is no k-mer and is left out of a mean; -1: none */
    /*
     * Of the products of the encoder and the head, F32, or BF16 where kmf_precision_here has it:
     * both factors of each are then rounded to bfloat16, to nearest, ties to even. In y = x W^T + b
     * x and W; on the way back dy and W for dx, dy and x for dW. In attention q and k, turned; the
     * weights, with their dropout, and v; and what nn/attention_train.h says of the way back. The
     * gradients are those of the sum above: of logits, weight (p - 1[label]) is rounded.
     *
     * All else is kmf_real: sums and what is added to them; gradients of biases and norms; rows of
     * the word table that are looked up, and what these add to its gradient; turning, softmax,
     * residuals; sums over sites; compositions, and losses on vectors.
     */
    kmf_precision precision;
    /*
     * [V, n_sites] of 0 and 1, or NULL: for every labelled token the sums of its probabilities
     * over the words with a 1 are wanted. Borrowed.
     */
    const kmf_real *sites;
    size_t n_sites;
} kmf_mlm_options;

typedef struct kmf_mlm_batch {
    const int32_t *ids;      /* [off[n_seq]] */
    const int32_t *labels;   /* the right id, or -1: not asked for */
    const kmf_real *weights; /* of the labelled tokens' losses; NULL: 1 */
    const size_t *off;       /* [n_seq + 1], off[0] = 0 */
    size_t n_seq;
    double dropout; /* of embeddings, sublayers and attention; 0 <= dropout < 1 */
    uint64_t key;   /* of dropout's draws, see above */
    const struct kmf_mlm_mix *mix; /* NULL: none */
} kmf_mlm_batch;

/* Valid until the next call. The n labelled tokens in the order of the batch. */
typedef struct kmf_mlm_result {
    double loss;   /* sum of weight * nll */
    double weight; /* sum of weights */
    size_t n;
    const size_t *rows;    /* [n] which tokens of the batch */
    const double *nll;     /* [n] -ln p(label) */
    const kmf_real *sites; /* [n, n_sites]; NULL without */
} kmf_mlm_result;

/*
 * Hidden states mixed: what goes into block `layer` is, token by token, a share of the sequence's
 * own and the rest of its partner's. A sequence whose partner is itself, or of another length,
 * stays as it is. Each sequence is the partner of one.
 */
typedef struct kmf_mlm_mix {
    size_t layer;
    const uint32_t *partner; /* [n_seq] */
    const uint32_t *served;  /* [n_seq] whose partner it is */
    const double *share;     /* [n_seq] */
} kmf_mlm_mix;

/* Bytes of the workspace, a pure function; threads: the caller's too. 0: does not fit a size_t. */
size_t kmf_mlm_bytes(const kmf_config *config, const kmf_mlm_options *opts, int threads);
/* params: weights with a head, borrowed, may change between calls. pool: borrowed, NULL: none. */
kmf_mlm *kmf_mlm_new(const kmf_config *config, const kmf_params *params,
                     const kmf_mlm_options *opts, kmf_pool *pool, kmf_err *err) KMF_MUST_CHECK;
void kmf_mlm_free(kmf_mlm *mlm);

/*
 * The loss, and the vectors (as in kmf_mlm_encode); dropout is not applied. KMF_ENOMEM is the only
 * failure: threads get their work through a queue.
 */
int kmf_mlm_evaluate(kmf_mlm *mlm, const kmf_mlm_batch *batch, kmf_real *vectors,
                     kmf_mlm_result *result, kmf_err *err) KMF_MUST_CHECK;
/*
 * The way there alone, as in training: with dropout, and with what the way back wants kept, which
 * is good until the next call. vectors: NULL, or room for [n_seq, D] (opts.vectors), of
 * compositions [n_seq, C].
 */
int kmf_mlm_encode(kmf_mlm *mlm, const kmf_mlm_batch *batch, kmf_real *vectors,
                   kmf_err *err) KMF_MUST_CHECK;
/*
 * The way back of the batch that was encoded last, its arrays still there: loss and gradients.
 * dvectors: those by the vectors, of the same shape; NULL: nothing hangs on them.
 */
int kmf_mlm_return(kmf_mlm *mlm, const kmf_real *dvectors, const kmf_params *gradients,
                   kmf_mlm_result *result, kmf_err *err) KMF_MUST_CHECK;
/* Both at once: loss and gradients of the labelled tokens. */
int kmf_mlm_learn(kmf_mlm *mlm, const kmf_mlm_batch *batch, const kmf_params *gradients,
                  kmf_mlm_result *result, kmf_err *err) KMF_MUST_CHECK;

#endif
