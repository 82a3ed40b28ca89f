/* SPDX-License-Identifier: MIT */
/* Sequences for tests of embedders: reads, contigs of several windows, N, and nothing to embed. */
#ifndef KMF_TEST_MIXED_H
#define KMF_TEST_MIXED_H

#include "base/rng.h"
#include "checked.h"
#include "rows.h"

#include <stddef.h>
#include <string.h>

#define MODEL "tests/golden/roformer"
#define N_SEQ (CHECKED ? 10 : 30)
#define READ_MAX (CHECKED ? 60 : 150)
#define CONTIG_MIN (CHECKED ? 150 : 400)
#define SEQ_MAX (CHECKED ? 250 : 900)

static char texts[N_SEQ][SEQ_MAX + 1];
static const char *seqs[N_SEQ];

/* Reads, contigs of several windows, some N, and records without a k-mer. */
static inline void make_input(void)
{
    kmf_rng rng = kmf_rng_stream(11, 0);
    for (size_t i = 0; i < N_SEQ; i++) {
        size_t len = i % 10 == 9 ? CONTIG_MIN + kmf_rng_below(&rng, SEQ_MAX - CONTIG_MIN)
                                 : kmf_rng_below(&rng, READ_MAX);
        const char *letters = i % 3 ? "ACGT" : "ACGTACGTACGTACGTACGTACGTACGTACGTN";
        for (size_t j = 0; j < len; j++)
            texts[i][j] = letters[kmf_rng_below(&rng, strlen(letters))];
        texts[i][len] = '\0';
        seqs[i] = texts[i];
    }
    texts[7][3] = '\0';
    memset(texts[8], 'N', strlen(texts[8]));
}

static inline void revcomp(char *out, const char *seq)
{
    size_t n = strlen(seq);
    for (size_t i = 0; i < n; i++) {
        char b = seq[n - 1 - i];
        out[i] = b == 'A' ? 'T' : b == 'C' ? 'G' : b == 'G' ? 'C' : b == 'T' ? 'A' : b;
    }
    out[n] = '\0';
}

#endif
