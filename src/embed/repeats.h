/* SPDX-License-Identifier: MIT */
/*
 * Sequences that were met lately and what became of them, so that one that comes again is not
 * computed again: its vector is a function of its letters and the options alone. Of reads of an
 * amplicon half are repeats.
 *
 * A sequence has one place, by its checksum, and stays there until another one needs it; so what
 * is kept has a bound, and to look for one takes as long as to read it. Letters are compared.
 *
 * Not for several threads, but for the vector of a place that is held.
 */
#ifndef KMF_REPEATS_H
#define KMF_REPEATS_H

#include "kmerformer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The windows of a strand. */
typedef struct kmf_strand_tally {
    uint64_t tokens, ambiguous, unknown;
} kmf_strand_tally;

/* What was found when a sequence was cut. */
typedef struct kmf_cut_tally {
    kmf_strand_tally strands[2]; /* forward, reverse */
    uint64_t chunks;
    bool cut;
} kmf_cut_tally;

/* A sequence that was met. The result is for whoever holds it to fill in and to read. */
typedef struct kmf_met {
    kmf_cut_tally tally;
    bool empty;    /* it has no vector */
    float *vector; /* owned [dim] */

    char *seq; /* owned [len] */
    size_t len, cap;
    size_t held; /* by so many records, each of which takes itself off */
} kmf_met;

typedef struct kmf_repeats kmf_repeats;

/* dim: of the vectors. */
kmf_repeats *kmf_repeats_new(size_t dim, kmf_err *err) KMF_MUST_CHECK;
void kmf_repeats_free(kmf_repeats *repeats);
/* The most that it takes, in bytes. */
size_t kmf_repeats_bytes(size_t dim);

/*
 * The place of a sequence, *met, which is held once more; NULL: it gets none, for it is too long,
 * or its place is held for another. 1: the sequence was there, its result with whoever got 0; 0: it
 * is new, or *met is NULL; or KMF_ENOMEM.
 */
int kmf_repeats_meet(kmf_met **met, kmf_repeats *repeats, const char *seq, size_t len,
                     kmf_err *err) KMF_MUST_CHECK;
/* Held by none, and forgotten: there will be no result. NULL is allowed. */
void kmf_met_forget(kmf_met *met);

#endif
