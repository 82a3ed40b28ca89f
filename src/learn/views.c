/* SPDX-License-Identifier: MIT */
/*
 * A partner is looked for in few tries. Segments of a draft assembly may be shorter than a view,
 * and a gap may lead beyond the end of a segment on either side; after TRIES the last one is
 * taken as it is, cut to what its segment has. In a complete genome the first try holds.
 */
#include "learn/views.h"

#include "base/mem.h"

#include <assert.h>
#include <math.h>

#define TRIES 8

static size_t draw_length(const kmf_pair_options *o, kmf_rng *rng)
{
    return o->length_min + (size_t)kmf_rng_below(rng, o->length_max - o->length_min + 1);
}

/* A piece of n letters at most, anywhere in the segment of a letter drawn from the source. */
static kmf_excerpt draw_anywhere(const kmf_viewer *v, size_t source, size_t n, kmf_rng *rng)
{
    const kmf_corpus *corpus = kmf_genome_corpus(v->genome, v->part);
    uint64_t first = kmf_genome_source_start(v->genome, v->part, source);
    uint64_t end = kmf_genome_source_start(v->genome, v->part, source + 1);
    kmf_excerpt e = {0};
    for (int i = 0; i < TRIES && e.n < n; i++) {
        uint64_t at = first + kmf_rng_below(rng, end - first);
        uint64_t segment = kmf_corpus_segment(corpus, at);
        uint64_t beg = kmf_corpus_start(corpus, segment);
        uint64_t stop = kmf_corpus_start(corpus, segment + 1);
        e.n = kmf_min(n, stop - beg);
        e.at = beg + kmf_rng_below(rng, stop - beg - e.n + 1);
    }
    return e;
}

/* One at a gap from `other` in its segment; false: there is no room on either side. */
static bool draw_near(const kmf_viewer *v, const kmf_pair_options *o, const kmf_excerpt *other,
                      size_t n, kmf_rng *rng, kmf_excerpt *e)
{
    const kmf_corpus *corpus = kmf_genome_corpus(v->genome, v->part);
    uint64_t segment = kmf_corpus_segment(corpus, other->at);
    uint64_t before = other->at - kmf_corpus_start(corpus, segment);
    uint64_t behind = kmf_corpus_start(corpus, segment + 1) - other->at - other->n;
    double drawn = exp(kmf_rng_unit(rng) * log((double)o->distance + 2)) - 1;
    uint64_t gap = (uint64_t)fmin(drawn, (double)o->distance);
    bool left = kmf_rng_below(rng, 2) == 1;
    if (left ? before < gap + n : behind < gap + n)
        left = !left;
    if (left ? before < gap + n : behind < gap + n)
        return false;
    *e = (kmf_excerpt){.at = left ? other->at - gap - n : other->at + other->n + gap, .n = n};
    return true;
}

static void draw_pair(kmf_view pair[2], const kmf_viewer *v, const kmf_pair_options *o,
                      const kmf_excerpt *window, size_t length, kmf_rng *rng)
{
    size_t n[2];
    for (int i = 0; i < 2; i++)
        n[i] = o->one_length ? length : draw_length(o, rng);
    kmf_excerpt *first = &pair[0].excerpt, *second = &pair[1].excerpt;
    size_t source = kmf_genome_source(v->genome, v->part, window->at);
    first->n = kmf_min(n[0], window->n);
    first->at = window->at + kmf_rng_below(rng, window->n - first->n + 1);
    bool near = kmf_rng_unit(rng) < o->near;
    if (!near || !draw_near(v, o, first, n[1], rng, second))
        *second = draw_anywhere(v, source, n[1], rng);
    for (int i = 0; i < 2; i++) {
        pair[i].excerpt.reverse = kmf_rng_below(rng, 2) == 1;
        pair[i].source = source;
        pair[i].rng = kmf_rng_stream(kmf_rng_next(rng), 0);
        pair[i].drifts = false;
    }
}

/* number: of the pair's window, over all epochs. */
static void draw_drift(kmf_view pair[2], const kmf_viewer *v, const kmf_pair_options *o,
                       uint64_t number, kmf_rng *rng)
{
    if (o->drift <= 0 || kmf_rng_unit(rng) >= o->drift)
        return;
    kmf_rng relative = kmf_rng_stream(kmf_rng_next(rng), 0);
    for (int i = 0; i < 2; i++) {
        pair[i].source = kmf_genome_n_sources(v->genome, v->part) + (size_t)number;
        pair[i].drifts = true;
        pair[i].relative = relative;
    }
}

/* Window i of an epoch, or of the fixed set; false: the set ends before it. */
static bool find_window(kmf_excerpt *excerpt, uint64_t *epoch, uint64_t *place,
                        const kmf_viewer *v, uint64_t i)
{
    uint64_t count = v->fixed ? kmf_windows_fixed_count(v->windows, v->fixed)
                              : kmf_windows_count(v->windows);
    *epoch = i / count;
    *place = i % count;
    if (v->fixed && *epoch > 0)
        return false;
    if (v->fixed)
        kmf_windows_fixed(v->windows, v->fixed, *place, excerpt);
    else
        kmf_windows_get(v->windows, *epoch, *place, excerpt);
    return true;
}

size_t kmf_views_single(kmf_view *views, const kmf_viewer *viewer, uint64_t first, size_t n)
{
    uint64_t epoch, place;
    size_t i = 0;
    for (; i < n && find_window(&views[i].excerpt, &epoch, &place, viewer, first + i); i++) {
        views[i].drifts = false;
        views[i].source = kmf_genome_source(viewer->genome, viewer->part, views[i].excerpt.at);
        views[i].rng = kmf_draw(
            viewer->seed, viewer->fixed ? KMF_DRAW_FIXED_SPANS : KMF_DRAW_SPANS, epoch, place);
    }
    return i;
}

size_t kmf_views_pairs(kmf_view *views, const kmf_viewer *viewer, const kmf_pair_options *opts,
                       uint64_t first, size_t n)
{
    uint64_t epoch, place;
    kmf_excerpt window;
    uint64_t purpose = viewer->fixed ? KMF_DRAW_FIXED_PAIR : KMF_DRAW_PAIR;
    kmf_rng rng = kmf_draw(viewer->seed, KMF_DRAW_LENGTH, viewer->fixed > 0, first);
    size_t length = draw_length(opts, &rng);
    size_t i = 0;
    assert(opts->length_min >= 1 && opts->length_min <= opts->length_max);
    for (; i < n && find_window(&window, &epoch, &place, viewer, first + i); i++) {
        rng = kmf_draw(viewer->seed, purpose, epoch, place);
        draw_pair(views + 2 * i, viewer, opts, &window, length, &rng);
        draw_drift(views + 2 * i, viewer, opts, first + i, &rng);
    }
    return i;
}
