/* SPDX-License-Identifier: MIT */
/*
 * What a model is shown in a step: views, each an excerpt of a corpus and what is drawn for it.
 *
 *   masked        the windows of the epoch, one view each
 *   contrastive   pairs: view 2i is cut out of window i of the epoch, view 2i + 1 comes from the
 *                 same source (genome.h), and both are positives of each other
 *
 * Of a pair, the second one lies with probability `near` in the same segment, at a gap to the
 * first that is drawn log-uniformly from 0 to `distance` bases, g with a chance that goes as
 * ln((g + 2) / (g + 1)), and else anywhere in the source: in a segment by its length, every place
 * of it equally likely. Each has a length of its own, its own strand, and its own point mutations.
 * A share of the pairs drifts: both views are of a made-up relative of the source, which has the
 * same genes in another composition (drift.h), and of no source but their own.
 *
 * All that is drawn hangs on the seed, the epoch and the window's place in it. Of a pair, in order:
 *
 *   below      the length of the first view, that of the second: n, unless the lengths are one
 *   below      where the first one lies in its window, from the window's first letter on
 *   unit       < near: the second one is near
 *     unit x     the gap is floor(exp(x ln(distance + 2)) - 1)
 *     below 2    0: behind the first one, 1: before it; the other side if there is no room, and
 *                anywhere if there is none on either
 *   anywhere   below: a letter of the source; below: where in its segment; up to 8 times, until
 *              the segment has n letters, and the last one is cut to what it has
 *   of each    below 2, 1 is the reverse complement; a number, whose stream 0 is the view's own
 *   unit       < drift, if that is above 0: the pair drifts; a number, whose stream 0 is that of
 *              the relative
 */
#ifndef KMF_VIEWS_H
#define KMF_VIEWS_H

#include "learn/windows.h"

typedef struct kmf_view {
    kmf_excerpt excerpt;
    size_t source;
    bool drifts;
    kmf_rng relative; /* which, if it drifts: that of its pair */
    kmf_rng rng;      /* of drift and point mutations, then of what is hidden of it */
} kmf_view;

typedef struct kmf_pair_options {
    size_t length_min, length_max; /* bases of a view, 1 .. those of a window */
    bool one_length;               /* drawn once for all the pairs of a call */
    double near;                   /* 0 .. 1 */
    uint64_t distance;             /* bases, 1 or more */
    double drift;                  /* 0 .. 1 */
} kmf_pair_options;

/* Where views come from; a plain value, all borrowed. */
typedef struct kmf_viewer {
    const kmf_genome *genome;
    kmf_genome_part part;
    const kmf_windows *windows; /* of that part's corpus */
    uint64_t seed;
    uint64_t fixed; /* not 0: the fixed set of so many windows, once */
} kmf_viewer;

/*
 * views[n]: windows first .. first + n - 1, counted over all epochs. Returns how many: n, or of a
 * fixed set what is left of it.
 */
size_t kmf_views_single(kmf_view *views, const kmf_viewer *viewer, uint64_t first, size_t n);
/*
 * views[2 n]: pairs whose first views come from these windows. Returns how many pairs. The source
 * of one that drifts is the number of sources and, added to it, that of its window over all epochs:
 * a window that comes twice in a step has two relatives.
 */
size_t kmf_views_pairs(kmf_view *views, const kmf_viewer *viewer, const kmf_pair_options *opts,
                       uint64_t first, size_t n);

#endif
