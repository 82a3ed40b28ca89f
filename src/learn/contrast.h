/* SPDX-License-Identifier: MIT */
/*
 * The contrastive loss of a step (InfoNCE: A. van den Oord et al., arXiv 1807.03748; over both
 * views of a pair as in SimCLR, T. Chen et al., arXiv 2002.05709). Views 2i and 2i + 1 are a pair.
 *
 *   z_i = v_i / |v_i|      u_ij = z_i . z_j / temperature
 *   L_i = ln( sum_p exp(u_ip) + N_i ) - sum_p a_p u_ip
 *   N_i = n sum_j exp((1 + b) u_ij) / sum_j exp(b u_ij)    over the n views of other sources
 *
 * p goes over the positives of i, with shares a_p: the other view of its pair alone, or all other
 * views of its source, each with the same share (P. Khosla et al., "Supervised contrastive
 * learning", arXiv 2004.11362). Views of the same source are never among the negatives. b =
 * hardness: 0 is the plain sum of exp(u_ij); above it negatives weigh the more the more alike they
 * are (J. Robinson et al., arXiv 2010.04592). The loss is the mean over all anchors i.
 *
 * Mixed (K. Lee et al., "i-Mix", arXiv 2010.08887): the anchors are the even views alone, each the
 * mixture of two by share a, and their keys the odd ones. Positives are the pair's with share a and
 * the partner's pair's with 1 - a; views of the partner's source are no negatives either.
 */
#ifndef KMF_CONTRAST_H
#define KMF_CONTRAST_H

#include "kmerformer.h"
#include "nn/real.h"

#include <stdbool.h>

typedef struct kmf_contrast kmf_contrast;

typedef struct kmf_contrast_options {
    size_t most;        /* views, even */
    size_t D;           /* width of a vector */
    double temperature; /* above 0 */
    double hardness;    /* 0 or above */
    bool all_positives; /* all of the source; of those that are not mixed */
    kmf_pool *pool;     /* borrowed, NULL: none */
} kmf_contrast_options;

typedef struct kmf_contrast_views {
    const kmf_real *vectors; /* [n, D] */
    const size_t *sources;   /* [n] */
    size_t n;                /* even, to `most` */
    /* mixed; NULL: they are not. Of even views; a partner is an even view, or the view itself */
    const uint32_t *partner; /* [n] */
    const double *share;     /* [n] */
} kmf_contrast_views;

typedef struct kmf_contrast_result {
    double loss; /* the mean over the anchors, nats */
    /* anchors of which a positive is more alike than every negative; none without negatives */
    double hits;
    size_t anchors;
} kmf_contrast_result;

/* Bytes held, a pure function; 0: does not fit a size_t. */
size_t kmf_contrast_bytes(const kmf_contrast_options *opts);
kmf_contrast *kmf_contrast_new(const kmf_contrast_options *opts, kmf_err *err) KMF_MUST_CHECK;
void kmf_contrast_free(kmf_contrast *contrast);

/*
 * The loss, and dvectors [n, D] = scale times its gradient by the vectors, or NULL: none. A vector
 * of length 0 is like none and has no gradient. KMF_ENOMEM is the only failure. The bits do not
 * depend on threads.
 */
int kmf_contrast_learn(kmf_contrast *contrast, kmf_real *dvectors,
                       const kmf_contrast_views *views, double scale,
                       kmf_contrast_result *result, kmf_err *err) KMF_MUST_CHECK;

#endif
