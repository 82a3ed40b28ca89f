/* SPDX-License-Identifier: MIT */
/* What a probe is made of. */
#ifndef KMF_PROBE_H
#define KMF_PROBE_H

#include "kmerformer.h"

struct kmf_probe {
    size_t dim, n_classes;
    double l2;
    kmf_probe_scale scale; /* COLUMN or COMMON */
    double chosen;         /* kmf_probe_chosen_accuracy */
    float *weights;        /* owned [n_classes, dim] */
    float *biases;         /* owned [n_classes] */
    float *shares;         /* owned [n_classes]; of the classes in training */
    const char **labels;   /* owned [n_classes]; borrowed from text; NULL: not described */
    char *text;            /* owned; the names of the classes, each with a NUL */
    size_t text_len;
    char *identity;   /* owned; of the embedder; NULL: not described */
    char *provenance; /* owned; JSON of the pairs that it was saved with; NULL: not loaded */
};

/* Weights, biases and shares are to be filled in. */
kmf_probe *kmf_probe_new(size_t dim, size_t n_classes, kmf_err *err) KMF_MUST_CHECK;

#endif
