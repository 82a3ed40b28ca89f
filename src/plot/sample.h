/* SPDX-License-Identifier: MIT */
/* The rows of a file that are drawn, with what x.ids.tsv and a file of labels say about each. */
#ifndef KMF_SAMPLE_H
#define KMF_SAMPLE_H

#include "embed/mapped.h"
#include "seq/labels.h"

#include <stdbool.h>

/* A row that is drawn. */
typedef struct kmf_drawn {
    uint64_t row;
    const char *name; /* borrowed from the sample; NULL if there is no x.ids.tsv */
    uint64_t length;  /* bases; 0 if there is none */
    int32_t label;    /* index of kmf_picked.labels; -1: none */
} kmf_drawn;

typedef struct kmf_picked {
    kmf_drawn *drawn; /* owned [n], by row */
    size_t n;
    bool named; /* there is an x.ids.tsv */
    const char *
        *labels; /* owned [n_labels], borrowed from the file; numbers in them in order */
    size_t n_labels;
    size_t unlabelled;      /* of the n */
    char *names;            /* owned: the names, NUL after each */
    kmf_labels *label_file; /* owned */
} kmf_picked;

/*
 * Of the rows i with good[i] those that are drawn: all, or `most` of them, evenly spaced. labels:
 * file as in seq/labels.h, NULL: none. KMF_EMODEL: x.ids.tsv does not fit the rows, labels without
 * names, or for no row; KMF_EFORMAT: a line of labels.
 */
int kmf_picked_take(kmf_picked *sample, const kmf_mapped_rows *rows, const unsigned char *good,
                    size_t most, const char *labels, kmf_err *err) KMF_MUST_CHECK;
/* Accepts a zeroed one. */
void kmf_picked_free(kmf_picked *sample);

#endif
