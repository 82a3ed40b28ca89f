/* SPDX-License-Identifier: MIT */
/* Bases of a sequence that are asked for. */
#ifndef KMF_BASESPANS_H
#define KMF_BASESPANS_H

#include "kmerformer.h"

#include <stdbool.h>

typedef struct kmf_base_spans {
    kmf_base_span *list; /* owned [n]; in order, none beside another */
    size_t n;            /* 0: all bases */
} kmf_base_spans;

/* In any order; they may overlap. KMF_EINVAL: one holds no base. */
int kmf_base_spans_make(kmf_base_spans *spans, const kmf_base_span *given, size_t n,
                        kmf_err *err) KMF_MUST_CHECK;
/* Accepts a zeroed one. */
void kmf_base_spans_free(kmf_base_spans *spans);
/* Is one of the bases beg .. end - 1 asked for? */
bool kmf_base_spans_meet(const kmf_base_spans *spans, uint64_t beg, uint64_t end);

#endif
