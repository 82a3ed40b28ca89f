/* SPDX-License-Identifier: MIT */
/*
 * Windows are numbered through the corpus; first[s] is that of segment s's first one, so a
 * number leads to its segment by binary search. What is kept is 8 bytes a segment, whatever the
 * epoch.
 *
 *   segment   |------------------------- n --------------------------|
 *   windows   |offset|---- W ----|---- W ----| .. |---- W ----| rest |  offset + rest = n - c W
 *
 * The offset moves from epoch to epoch, so that no base always stands at the same place of a
 * window, and none is for ever left over. To have room for it a window is given up where less
 * than half of one would be left: its letters come into the others' reach.
 */
#include "learn/windows.h"

#include "base/mem.h"
#include "base/search.h"
#include "learn/order.h"

#include <assert.h>

struct kmf_windows {
    const kmf_corpus *corpus; /* borrowed */
    size_t letters;           /* W */
    uint64_t seed;
    uint64_t n_segments;
    uint64_t *first; /* owned [n_segments + 1]; the last one is the number of windows */
};

kmf_rng kmf_draw(uint64_t seed, uint64_t purpose, uint64_t epoch, uint64_t number)
{
    kmf_rng rng = kmf_rng_stream(seed, purpose);
    rng = kmf_rng_stream(kmf_rng_next(&rng), epoch);
    return kmf_rng_stream(kmf_rng_next(&rng), number);
}

static uint64_t windows_of(uint64_t n, uint64_t letters)
{
    uint64_t c = n / letters;
    if (c <= 1)
        return 1;
    return 2 * (n % letters) < letters ? c - 1 : c;
}

kmf_windows *kmf_windows_new(const kmf_corpus *corpus, size_t letters, uint64_t seed,
                             kmf_err *err)
{
    assert(letters >= 1);
    kmf_corpus_info info;
    kmf_windows *w = kmf_calloc(1, sizeof *w, err);
    if (!w)
        return NULL;
    kmf_corpus_information(corpus, &info);
    w->corpus = corpus;
    w->letters = letters;
    w->seed = seed;
    w->n_segments = info.segments;
    w->first = kmf_malloc((size_t)info.segments + 1, sizeof *w->first, err);
    if (!w->first) {
        kmf_windows_free(w);
        return NULL;
    }
    w->first[0] = 0;
    for (uint64_t s = 0; s < w->n_segments; s++) {
        uint64_t n = kmf_corpus_start(corpus, s + 1) - kmf_corpus_start(corpus, s);
        w->first[s + 1] = w->first[s] + windows_of(n, letters);
    }
    return w;
}

void kmf_windows_free(kmf_windows *windows)
{
    if (!windows)
        return;
    kmf_free(windows->first);
    kmf_free(windows);
}

uint64_t kmf_windows_bytes(const kmf_windows *windows)
{
    return sizeof *windows + (windows->n_segments + 1) * sizeof *windows->first;
}

uint64_t kmf_windows_count(const kmf_windows *windows)
{
    return windows->first[windows->n_segments];
}

/* Window `number` of an epoch, in the order of the corpus; its strand is yet to be drawn. */
static kmf_excerpt cut(const kmf_windows *w, uint64_t epoch, uint64_t number)
{
    uint64_t segment = kmf_count_up_to(w->first, w->n_segments, number) - 1;
    uint64_t at = kmf_corpus_start(w->corpus, segment);
    uint64_t n = kmf_corpus_start(w->corpus, segment + 1) - at;
    if (n <= w->letters)
        return (kmf_excerpt){.at = at, .n = (size_t)n};
    uint64_t c = w->first[segment + 1] - w->first[segment];
    kmf_rng rng = kmf_draw(w->seed, KMF_DRAW_OFFSET, epoch, segment);
    at += kmf_rng_below(&rng, n - c * w->letters + 1);
    at += (number - w->first[segment]) * w->letters;
    return (kmf_excerpt){.at = at, .n = w->letters};
}

static bool draw_strand(const kmf_windows *w, uint64_t purpose, uint64_t epoch, uint64_t number)
{
    kmf_rng rng = kmf_draw(w->seed, purpose, epoch, number);
    return kmf_rng_below(&rng, 2) == 1;
}

void kmf_windows_get(const kmf_windows *windows, uint64_t epoch, uint64_t i,
                     kmf_excerpt *excerpt)
{
    const kmf_windows *w = windows;
    kmf_order order = kmf_order_of(w->seed, KMF_DRAW_ORDER, epoch, kmf_windows_count(w));
    uint64_t number = kmf_order_at(&order, i);
    *excerpt = cut(w, epoch, number);
    excerpt->reverse = draw_strand(w, KMF_DRAW_STRAND, epoch, number);
}

uint64_t kmf_windows_fixed_count(const kmf_windows *windows, uint64_t wanted)
{
    uint64_t count = kmf_windows_count(windows);
    return wanted < count ? wanted : count;
}

void kmf_windows_fixed(const kmf_windows *windows, uint64_t wanted, uint64_t i,
                       kmf_excerpt *excerpt)
{
    const kmf_windows *w = windows;
    uint64_t count = kmf_windows_count(w);
    uint64_t n = kmf_windows_fixed_count(w, wanted);
    assert(i < n && n <= (uint64_t)1 << 32);
    /* i count / n, put together from parts that fit */
    uint64_t number = count / n * i + count % n * i / n;
    *excerpt = cut(w, 0, number);
    excerpt->reverse = draw_strand(w, KMF_DRAW_FIXED_STRAND, 0, number);
}

/* ---------------------------------------------------------------- reading --------------- */

/* flip: what an element becomes is flip - it; 0: it stays. */
static void turn_round(uint8_t *to, size_t n, int flip)
{
    for (size_t i = 0; i < n - i; i++) {
        uint8_t a = to[i];
        uint8_t b = to[n - 1 - i];
        to[i] = (uint8_t)(flip ? flip - b : b);
        to[n - 1 - i] = (uint8_t)(flip ? flip - a : a);
    }
}

void kmf_excerpt_letters(const kmf_excerpt *excerpt, const kmf_corpus *corpus, uint8_t *to)
{
    kmf_corpus_letters(corpus, to, excerpt->at, excerpt->n);
    if (excerpt->reverse)
        turn_round(to, excerpt->n, 3);
}

void kmf_excerpt_soft(const kmf_excerpt *excerpt, const kmf_genome *genome,
                      kmf_genome_part part, uint8_t *to)
{
    kmf_genome_soft(genome, part, to, excerpt->at, excerpt->n);
    if (excerpt->reverse)
        turn_round(to, excerpt->n, 0);
}
