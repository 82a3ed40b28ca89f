/* SPDX-License-Identifier: MIT */
/* What logits_run.c needs of a run of logits. */
#ifndef KMF_EMBED_LOGITS_H
#define KMF_EMBED_LOGITS_H

#include "kmerformer.h"

/* How far a run has come: the records given up to that of the last row that is out. */
typedef struct kmf_logits_mark {
    uint64_t records; /* 0: nothing is out */
    uint32_t sum;     /* checksum of them */
    uint64_t rows;    /* that are out; of a mark that is given */
} kmf_logits_mark;

/* Options with every default resolved; spans in order, none beside another. Borrowed. */
const kmf_logits_options *kmf_logits_used(const kmf_logits *l);
const kmf_model *kmf_logits_model(const kmf_logits *l);
/* `rows` of it is the output's to know. */
kmf_logits_mark kmf_logits_done(const kmf_logits *l);
/* Before the first record: an earlier run has come so far. */
void kmf_logits_given(kmf_logits *l, const kmf_logits_mark *mark);

#endif
