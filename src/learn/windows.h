/* SPDX-License-Identifier: MIT */
/*
 * The windows of an epoch: every segment of a corpus cut into pieces of W letters.
 *
 *   segment of n letters   c windows: one, the whole segment, if n <= W; else floor(n / W),
 *                          less one if there are several and less than W / 2 letters would be
 *                          over
 *   where                  one after another, from an offset drawn for each epoch and segment,
 *                          0 .. n - c W
 *   strand                 drawn for each epoch and window: below 2, 1 is the reverse complement
 *   order                  that of order.h, another one in each epoch
 *
 * Windows of an epoch have no letter in common, and none crosses the end of a segment. All that
 * is drawn hangs on the seed, the epoch and a number: any window is had without those before
 * it.
 */
#ifndef KMF_WINDOWS_H
#define KMF_WINDOWS_H

#include "base/rng.h"
#include "kmerformer.h"
#include "learn/genome.h"
#include "words/corpus.h"

#include <stdbool.h>

/* What a pretraining draws for, a family of streams each: kmf_draw. */
typedef enum kmf_draw_purpose {
    KMF_DRAW_ORDER,        /* (epoch): of windows */
    KMF_DRAW_OFFSET,       /* (epoch, segment) */
    KMF_DRAW_STRAND,       /* (epoch, window) */
    KMF_DRAW_SPANS,        /* (epoch, place in its order): what is hidden of a window */
    KMF_DRAW_FIXED_STRAND, /* (0, window): of the fixed set */
    KMF_DRAW_FIXED_SPANS,  /* (0, number in the set) */
    KMF_DRAW_PAIR,         /* (epoch, place in its order): two views */
    KMF_DRAW_FIXED_PAIR,   /* (0, number in the set) */
    KMF_DRAW_LENGTH,       /* (0; of a fixed set 1, first window): for all of a call */
    KMF_DRAW_FREE = 16     /* from here on the trainer's: weights, dropout, ... */
} kmf_draw_purpose;

/*
 * Stream `number` of a seed that is the first number of stream `epoch` of a seed that is the first
 * number of stream `purpose` of `seed`.
 */
kmf_rng kmf_draw(uint64_t seed, uint64_t purpose, uint64_t epoch, uint64_t number);

/* Letters at .. at + n - 1 of a corpus; reverse: to be read as their reverse complement. */
typedef struct kmf_excerpt {
    uint64_t at;
    size_t n;
    bool reverse;
} kmf_excerpt;

typedef struct kmf_windows kmf_windows;

/* corpus: finished, of DNA; borrowed. letters: W, 1 or more. */
kmf_windows *kmf_windows_new(const kmf_corpus *corpus, size_t letters, uint64_t seed,
                             kmf_err *err) KMF_MUST_CHECK;
void kmf_windows_free(kmf_windows *windows);
uint64_t kmf_windows_bytes(const kmf_windows *windows);

/* Windows of an epoch: the same number in each. */
uint64_t kmf_windows_count(const kmf_windows *windows);
/* The window that comes i-th in an epoch, i below the count. */
void kmf_windows_get(const kmf_windows *windows, uint64_t epoch, uint64_t i,
                     kmf_excerpt *excerpt);

/* How many windows a fixed set of `wanted` has: as many, or all that there are. */
uint64_t kmf_windows_fixed_count(const kmf_windows *windows, uint64_t wanted);
/*
 * The i-th window of that set, in the order of the corpus: of n windows it is number
 * floor(i count / n) of epoch 0. The same whatever was asked before. wanted: up to 2^32.
 */
void kmf_windows_fixed(const kmf_windows *windows, uint64_t wanted, uint64_t i,
                       kmf_excerpt *excerpt);

/* to[n]: the letters as the excerpt wants them read. */
void kmf_excerpt_letters(const kmf_excerpt *excerpt, const kmf_corpus *corpus, uint8_t *to);
/* to[n]: 1 where that letter is soft. corpus of the excerpt: that of the part. */
void kmf_excerpt_soft(const kmf_excerpt *excerpt, const kmf_genome *genome,
                      kmf_genome_part part, uint8_t *to);

#endif
