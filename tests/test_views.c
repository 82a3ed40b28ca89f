/* SPDX-License-Identifier: MIT */
/*
 * Second sources: the rule of each thing that is drawn, as chances that are tested by Pearson's
 * chi-square; windows asked for directly; records whose places in the corpus are known.
 */
#include "learn/views.h"

#include "chisquare.h"
#include "run.h"

#include <stdlib.h>
#include <string.h>

#define SEED 31
#define MOST 512 /* pairs of a call */

/* ---------------------------------------------------------------- a genome -------------- */

typedef struct place {
    kmf_genome *genome;
    kmf_windows *windows;
    kmf_viewer viewer;
} place;

/* A record: lengths of its segments, up to a 0. */
typedef size_t record[12];

/* Each record is a source. */
static place place_of(const record *records, size_t n, size_t window, double fraction,
                      uint64_t fixed)
{
    place p = {0};
    kmf_rng rng = kmf_rng_stream(SEED, 5);
    kmf_genome_options o;
    kmf_err err = {0};
    kmf_genome_options_default(&o);
    o.fraction = fraction;
    o.sources = KMF_SOURCES_RECORD;
    p.genome = kmf_genome_new(&o, &err);
    ck_assert_msg(p.genome, "%s", err.msg);
    for (size_t r = 0; r < n; r++) {
        size_t len = 0;
        for (size_t s = 0; records[r][s] > 0; s++)
            len += records[r][s] + 1;
        char *seq = malloc(len);
        size_t at = 0;
        for (size_t s = 0; records[r][s] > 0; s++) {
            for (size_t i = 0; i < records[r][s]; i++)
                seq[at++] = "ACGT"[kmf_rng_below(&rng, 4)];
            seq[at++] = 'N';
        }
        ck_assert_int_eq(kmf_genome_add(p.genome, "r", seq, len, false, &err), 0);
        free(seq);
    }
    ck_assert_msg(kmf_genome_finish(p.genome, &err) == 0, "%s", err.msg);
    kmf_genome_part part = fixed ? KMF_GENOME_HELD : KMF_GENOME_TRAIN;
    p.windows = kmf_windows_new(kmf_genome_corpus(p.genome, part), window, SEED, &err);
    ck_assert_ptr_nonnull(p.windows);
    p.viewer = (kmf_viewer){
        .genome = p.genome, .part = part, .windows = p.windows, .seed = SEED, .fixed = fixed};
    return p;
}

static void leave(place *p)
{
    kmf_windows_free(p->windows);
    kmf_genome_free(p->genome);
}

/* First letter and length of the segment that a letter lies in. */
static void segment_at(const place *p, uint64_t at, uint64_t *beg, uint64_t *len)
{
    const kmf_corpus *corpus = kmf_genome_corpus(p->genome, p->viewer.part);
    uint64_t s = kmf_corpus_segment(corpus, at);
    *beg = kmf_corpus_start(corpus, s);
    *len = kmf_corpus_start(corpus, s + 1) - *beg;
}

/* A view lies in one segment, of its source. */
static bool is_sound(const place *p, const kmf_view *v)
{
    uint64_t beg, len;
    segment_at(p, v->excerpt.at, &beg, &len);
    return v->excerpt.n >= 1 && v->excerpt.at + v->excerpt.n <= beg + len &&
           kmf_genome_source(p->genome, p->viewer.part, v->excerpt.at) == v->source;
}

static bool same_view(const kmf_view *a, const kmf_view *b)
{
    return a->excerpt.at == b->excerpt.at && a->excerpt.n == b->excerpt.n &&
           a->excerpt.reverse == b->excerpt.reverse && a->source == b->source &&
           a->rng.state == b->rng.state && a->drifts == b->drifts &&
           (!a->drifts || a->relative.state == b->relative.state);
}

/* Long, in two parts, of many short runs, short, of a run shorter than any length asked for. */
static const record mixed[] = {{6000},  {3000, 2000}, {31, 44, 60, 20, 58, 33, 90, 70, 41},
                               {700},   {20},         {205, 199, 220},
                               {201, 5}};
#define N_MIXED (sizeof mixed / sizeof mixed[0])

static const kmf_pair_options usual = {
    .length_min = 50, .length_max = 200, .near = 0.5, .distance = 300};

/* ---------------------------------------------------------------- both views ------------ */

START_TEST(both_views_are_of_one_source)
{
    static kmf_view views[2 * MOST];
    place p = place_of(mixed, N_MIXED, 200, 0, 0);
    uint64_t count = kmf_windows_count(p.windows);
    size_t wrong = 0;
    for (int i = 0; i < 20; i++) {
        uint64_t first = (uint64_t)i * MOST;
        ck_assert_uint_eq(kmf_views_pairs(views, &p.viewer, &usual, first, MOST), MOST);
        for (size_t j = 0; j < MOST; j++) {
            const kmf_view *a = &views[2 * j], *b = a + 1;
            kmf_excerpt window;
            uint64_t beg, len;
            kmf_windows_get(p.windows, (first + j) / count, (first + j) % count, &window);
            segment_at(&p, b->excerpt.at, &beg, &len);
            uint64_t least = window.n < 50 ? window.n : 50;
            wrong += !is_sound(&p, a) || !is_sound(&p, b) || a->source != b->source;
            wrong += a->excerpt.n < least || a->excerpt.n > 200;
            wrong += b->excerpt.n < (len < 50 ? len : 50) || b->excerpt.n > 200;
            wrong += a->excerpt.at < window.at ||
                     a->excerpt.at + a->excerpt.n > window.at + window.n;
            wrong += a->rng.state == b->rng.state;
            /* a segment that is shorter than all that is asked for is taken as it is */
            wrong += a->source == 4 && (a->excerpt.n != 20 || b->excerpt.n != 20);
        }
    }
    ck_assert_uint_eq(wrong, 0);
    leave(&p);
}
END_TEST

/* As long as a window, the first views are the windows of the epoch, each once. */
START_TEST(first_views_are_the_windows_of_the_epoch)
{
    static kmf_view views[2 * MOST], single[MOST];
    place p = place_of(mixed, N_MIXED, 200, 0, 0);
    kmf_pair_options whole = usual;
    uint64_t count = kmf_windows_count(p.windows);
    ck_assert_uint_lt(count, MOST);
    whole.length_min = whole.length_max = 200;
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        uint8_t *seen = calloc(20000, 1);
        size_t wrong = 0;
        kmf_views_pairs(views, &p.viewer, &whole, epoch * count, count);
        ck_assert_uint_eq(kmf_views_single(single, &p.viewer, epoch * count, count), count);
        for (size_t i = 0; i < count; i++) {
            kmf_excerpt window;
            kmf_windows_get(p.windows, epoch, i, &window);
            wrong += views[2 * i].excerpt.at != window.at || views[2 * i].excerpt.n != window.n;
            wrong += single[i].excerpt.at != window.at || single[i].excerpt.n != window.n ||
                     single[i].excerpt.reverse != window.reverse;
            wrong +=
                single[i].source != kmf_genome_source(p.genome, KMF_GENOME_TRAIN, window.at);
            wrong += seen[window.at]++;
            wrong += single[i].drifts;
        }
        ck_assert_uint_eq(wrong, 0);
        free(seen);
    }
    leave(&p);
}
END_TEST

START_TEST(a_pair_hangs_on_its_number_alone)
{
    static kmf_view views[2 * MOST], again[2 * MOST];
    place p = place_of(mixed, N_MIXED, 200, 0, 0);
    kmf_pair_options o = usual;
    size_t wrong = 0, same = 0;
    o.drift = 0.4;
    kmf_views_pairs(views, &p.viewer, &o, 1000, MOST);
    for (size_t i = 0; i < MOST; i += 1 + i % 3) {
        kmf_views_pairs(again, &p.viewer, &o, 1000 + i, 1);
        wrong += !same_view(&again[0], &views[2 * i]);
        wrong += !same_view(&again[1], &views[2 * i + 1]);
    }
    ck_assert_uint_eq(wrong, 0);
    p.viewer.seed++;
    kmf_views_pairs(again, &p.viewer, &o, 1000, MOST);
    for (size_t i = 0; i < 2 * MOST; i++)
        same += same_view(&again[i], &views[i]);
    ck_assert_uint_eq(same, 0);
    leave(&p);
}
END_TEST

/* ---------------------------------------------------------------- drift ----------------- */

static bool is_among(const uint64_t *list, size_t n, uint64_t x)
{
    size_t i = 0;
    while (i < n && list[i] != x)
        i++;
    return i < n;
}

/*
 * Both of a pair are of one relative, which is that of no other pair of the call. There are fewer
 * windows than pairs, so some come again.
 */
START_TEST(a_relative_is_that_of_one_pair)
{
    static kmf_view views[2 * MOST];
    uint64_t sources[MOST], relatives[MOST];
    place p = place_of(mixed, N_MIXED, 200, 0, 0);
    size_t n_sources = kmf_genome_n_sources(p.genome, KMF_GENOME_TRAIN), wrong = 0, n = 0;
    kmf_pair_options o = usual;
    o.drift = 0.6;
    ck_assert_uint_lt(kmf_windows_count(p.windows), MOST / 2);
    kmf_views_pairs(views, &p.viewer, &o, 0, MOST);
    for (size_t i = 0; i < MOST; i++) {
        const kmf_view *a = &views[2 * i], *b = a + 1;
        wrong += a->drifts != b->drifts || a->source != b->source;
        if (!a->drifts) {
            wrong += !is_sound(&p, a) || !is_sound(&p, b);
            continue;
        }
        wrong += a->source < n_sources || is_among(sources, n, a->source);
        wrong +=
            a->relative.state != b->relative.state || is_among(relatives, n, a->relative.state);
        wrong += a->relative.state == a->rng.state || a->relative.state == b->rng.state;
        sources[n] = a->source;
        relatives[n++] = a->relative.state;
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert(n > MOST / 2 && n < MOST);
    leave(&p);
}
END_TEST

/* Excerpts and what is drawn for them are those without; sources too of pairs that do not drift. */
START_TEST(drift_changes_nothing_else)
{
    static kmf_view views[2 * MOST], without[2 * MOST];
    static const double shares[] = {0.5, 1};
    place p = place_of(mixed, N_MIXED, 200, 0, 0);
    kmf_views_pairs(without, &p.viewer, &usual, 300, MOST);
    for (size_t s = 0; s < 2; s++) {
        kmf_pair_options o = usual;
        size_t wrong = 0, n = 0;
        o.drift = shares[s];
        kmf_views_pairs(views, &p.viewer, &o, 300, MOST);
        for (size_t i = 0; i < 2 * MOST; i++) {
            kmf_view v = views[i];
            n += v.drifts;
            if (v.drifts) {
                v.drifts = false;
                v.source = without[i].source;
            }
            wrong += !same_view(&v, &without[i]) || !is_sound(&p, &v);
        }
        ck_assert_uint_eq(wrong, 0);
        ck_assert(s == 0 ? n > 0 && n < 2 * MOST : n == 2 * MOST);
    }
    leave(&p);
}
END_TEST

/* ---------------------------------------------------------------- chances --------------- */

enum { ROUNDS = 40 };

START_TEST(lengths_are_uniform)
{
    static kmf_view views[2 * MOST];
    static const record two[] = {{60000}, {50000}};
    uint64_t seen[2][41] = {{0}};
    uint64_t together[41] = {0};
    double expected[41];
    place p = place_of(two, 2, 100, 0, 0);
    kmf_pair_options o = usual;
    o.length_min = 50;
    o.length_max = 90;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        kmf_views_pairs(views, &p.viewer, &o, i * MOST, MOST);
        for (size_t j = 0; j < 2 * MOST; j++)
            seen[j % 2][views[j].excerpt.n - 50]++;
    }
    for (size_t n = 0; n < 41; n++)
        expected[n] = ROUNDS * MOST / 41.0;
    chi_square_test("first", seen[0], expected, 41);
    chi_square_test("second", seen[1], expected, 41);

    o.one_length = true;
    size_t wrong = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        kmf_views_pairs(views, &p.viewer, &o, 4 * i, 4);
        for (size_t j = 1; j < 8; j++)
            wrong += views[j].excerpt.n != views[0].excerpt.n;
        together[views[0].excerpt.n - 50]++;
    }
    ck_assert_uint_eq(wrong, 0);
    for (size_t n = 0; n < 41; n++)
        expected[n] = 1000 / 41.0;
    chi_square_test("of a call", together, expected, 41);
    leave(&p);
}
END_TEST

/* Letters between two excerpts; -1: they have some in common. */
static int64_t gap_of(const kmf_excerpt *a, const kmf_excerpt *b)
{
    if (b->at >= a->at + a->n)
        return (int64_t)(b->at - a->at - a->n);
    return a->at >= b->at + b->n ? (int64_t)(a->at - b->at - b->n) : -1;
}

START_TEST(neighbours_lie_at_log_uniform_gaps_on_either_side)
{
    static kmf_view views[2 * MOST];
    static const record two[] = {{90000}, {90000}};
    static const size_t distances[] = {1, 2, 37, 300};
    place p = place_of(two, 2, 100, 0, 0);
    for (size_t d = 0; d < 4; d++) {
        kmf_pair_options o = usual;
        uint64_t gaps[301] = {0}, sides[2] = {0}, n = 0;
        double expected[301];
        o.length_min = 40;
        o.length_max = 100;
        o.near = 1;
        o.distance = distances[d];
        for (uint64_t i = 0; i < ROUNDS; i++) {
            kmf_views_pairs(views, &p.viewer, &o, i * MOST, MOST);
            for (size_t j = 0; j < MOST; j++) {
                const kmf_excerpt *a = &views[2 * j].excerpt, *b = a;
                b = &views[2 * j + 1].excerpt;
                uint64_t beg, len;
                int64_t gap = gap_of(a, b);
                segment_at(&p, a->at, &beg, &len);
                ck_assert(gap >= 0 && gap <= (int64_t)o.distance);
                ck_assert(b->at >= beg && b->at + b->n <= beg + len);
                gaps[gap]++;
                /* near an end there is one side alone */
                if (a->at >= beg + 400 && a->at + a->n + 400 <= beg + len) {
                    sides[b->at > a->at]++;
                    n++;
                }
            }
        }
        for (size_t g = 0; g <= o.distance; g++)
            expected[g] = ROUNDS * MOST * log((double)(g + 2) / (double)(g + 1)) /
                          log((double)o.distance + 2);
        chi_square_test("gaps", gaps, expected, o.distance + 1);
        expected[0] = expected[1] = (double)n / 2;
        chi_square_test("sides", sides, expected, 2);
    }
    leave(&p);
}
END_TEST

START_TEST(the_share_of_pairs_that_drift_is_what_was_asked_for)
{
    static kmf_view views[2 * MOST];
    static const double shares[] = {0, 0.07, 0.5, 0.8, 1};
    place p = place_of(mixed, N_MIXED, 200, 0, 0);
    for (size_t s = 0; s < 5; s++) {
        kmf_pair_options o = usual;
        uint64_t seen[2] = {0};
        const double expected[] = {ROUNDS * MOST * (1 - shares[s]), ROUNDS * MOST * shares[s]};
        o.drift = shares[s];
        for (uint64_t i = 0; i < ROUNDS; i++) {
            kmf_views_pairs(views, &p.viewer, &o, i * MOST, MOST);
            for (size_t j = 0; j < MOST; j++)
                seen[views[2 * j].drifts]++;
        }
        if (shares[s] <= 0 || shares[s] >= 1)
            ck_assert_uint_eq(seen[shares[s] <= 0], 0);
        else
            chi_square_test("pairs that drift", seen, expected, 2);
    }
    leave(&p);
}
END_TEST

/* By chance others are neighbours, too. */
START_TEST(the_share_of_neighbours_is_what_was_asked_for)
{
    static kmf_view views[2 * MOST];
    static const record two[] = {{90000}, {90000}};
    static const double shares[] = {0, 0.25, 0.8};
    place p = place_of(two, 2, 100, 0, 0);
    for (size_t s = 0; s < 3; s++) {
        kmf_pair_options o = {
            .length_min = 50, .length_max = 50, .near = shares[s], .distance = 80};
        uint64_t seen[2] = {0};
        double chance = 2.0 * 81 / (90000 - 50 + 1);
        double near = o.near + (1 - o.near) * chance;
        const double expected[] = {ROUNDS * MOST * (1 - near), ROUNDS * MOST * near};
        for (uint64_t i = 0; i < ROUNDS; i++) {
            kmf_views_pairs(views, &p.viewer, &o, i * MOST, MOST);
            for (size_t j = 0; j < MOST; j++) {
                int64_t gap = gap_of(&views[2 * j].excerpt, &views[2 * j + 1].excerpt);
                seen[gap >= 0 && gap <= 80]++;
            }
        }
        chi_square_test("neighbours", seen, expected, 2);
    }
    leave(&p);
}
END_TEST

/* Where there is no room on either side, the second one is from anywhere in the source. */
START_TEST(neighbours_without_room_are_from_anywhere)
{
    static kmf_view views[2 * MOST];
    static const record tight[] = {{110, 5000}, {110}};
    place p = place_of(tight, 2, 100, 0, 0);
    kmf_pair_options o = {.length_min = 60, .length_max = 60, .near = 1, .distance = 1};
    size_t alone = 0, wrong = 0, elsewhere = 0;
    for (uint64_t i = 0; i < 8; i++) {
        kmf_views_pairs(views, &p.viewer, &o, i * MOST, MOST);
        for (size_t j = 0; j < MOST; j++) {
            const kmf_view *a = &views[2 * j], *b = a + 1;
            uint64_t beg, len;
            segment_at(&p, a->excerpt.at, &beg, &len);
            wrong += !is_sound(&p, b) || a->source != b->source || b->excerpt.n != 60;
            if (len == 5000) {
                int64_t gap = gap_of(&a->excerpt, &b->excerpt);
                wrong += gap < 0 || gap > 1;
                continue;
            }
            alone++;
            elsewhere += b->excerpt.at < beg || b->excerpt.at >= beg + len;
            wrong += a->source == 1 && (b->excerpt.at < beg || b->excerpt.at > beg + 50);
        }
    }
    ck_assert(wrong == 0 && alone > 20 && elsewhere > 5);
    leave(&p);
}
END_TEST

START_TEST(others_are_from_anywhere_in_the_source)
{
    static kmf_view views[2 * MOST];
    static const record two[] = {{260}, {9001, 6000}};
    uint64_t small[61] = {0}, blocks[60] = {0}, parts[2] = {0}, strands[4] = {0};
    double expected[61];
    uint64_t n[2] = {0}, in_first = 0;
    place p = place_of(two, 2, 200, 0, 0);
    kmf_pair_options o = {.length_min = 200, .length_max = 200, .near = 0, .distance = 1};
    for (uint64_t i = 0; i < 4 * ROUNDS; i++) {
        kmf_views_pairs(views, &p.viewer, &o, i * MOST, MOST);
        for (size_t j = 0; j < MOST; j++) {
            const kmf_view *a = &views[2 * j], *b = a + 1;
            uint64_t at = b->excerpt.at - 260 * b->source; /* in its source */
            ck_assert(is_sound(&p, b) && b->excerpt.n == 200 && a->source == b->source);
            strands[2 * a->excerpt.reverse + b->excerpt.reverse]++;
            n[b->source]++;
            if (b->source == 0) {
                small[at]++;
                continue;
            }
            parts[at >= 9001]++;
            if (at < 9001) {
                blocks[at * 60 / (9001 - 200 + 1)]++;
                in_first++;
            }
        }
    }
    for (size_t i = 0; i < 61; i++)
        expected[i] = (double)n[0] / 61;
    chi_square_test("places of a short source", small, expected, 61);
    double start = 0;
    for (size_t i = 0; i < 60; i++) {
        double end = ceil((double)(i + 1) * 8802 / 60);
        expected[i] = (double)in_first * (end - start) / 8802;
        start = end;
    }
    chi_square_test("blocks of a long one", blocks, expected, 60);
    expected[0] = (double)n[1] * 9001 / 15001;
    expected[1] = (double)n[1] * 6000 / 15001;
    chi_square_test("its segments", parts, expected, 2);
    for (size_t i = 0; i < 4; i++)
        expected[i] = (double)(n[0] + n[1]) / 4;
    chi_square_test("strands", strands, expected, 4);
    leave(&p);
}
END_TEST

/* ---------------------------------------------------------------- a fixed set ----------- */

START_TEST(a_fixed_set_is_the_same_each_time_and_ends)
{
    static kmf_view views[2 * MOST], again[2 * MOST];
    place p = place_of(mixed, N_MIXED, 100, 0.5, 23);
    size_t wrong = 0, n = kmf_windows_fixed_count(p.windows, 23);
    ck_assert_uint_eq(n, 23);
    ck_assert_uint_eq(kmf_views_pairs(views, &p.viewer, &usual, 0, MOST), n);
    for (size_t at = 0; at < n; at += 5) {
        size_t left = n - at < 5 ? n - at : 5;
        ck_assert_uint_eq(kmf_views_pairs(again, &p.viewer, &usual, at, 5), left);
        for (size_t i = 0; i < 2 * left; i++)
            wrong += !same_view(&again[i], &views[2 * at + i]);
    }
    for (size_t i = 0; i < n; i++) {
        kmf_excerpt window;
        const kmf_excerpt *a = &views[2 * i].excerpt;
        kmf_windows_fixed(p.windows, 23, i, &window);
        wrong += !is_sound(&p, &views[2 * i]) || !is_sound(&p, &views[2 * i + 1]);
        wrong += views[2 * i].source != views[2 * i + 1].source;
        wrong += a->at < window.at || a->at + a->n > window.at + window.n;
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_eq(kmf_views_pairs(again, &p.viewer, &usual, n, 5), 0);
    ck_assert_uint_eq(kmf_views_single(again, &p.viewer, 20, 5), 3);
    leave(&p);
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_test(tcase, both_views_are_of_one_source);
    tcase_add_test(tcase, first_views_are_the_windows_of_the_epoch);
    tcase_add_test(tcase, a_pair_hangs_on_its_number_alone);
    tcase_add_test(tcase, neighbours_without_room_are_from_anywhere);
    tcase_add_test(tcase, a_fixed_set_is_the_same_each_time_and_ends);
    tcase_add_test(tcase, a_relative_is_that_of_one_pair);
    tcase_add_test(tcase, drift_changes_nothing_else);
    tcase_add_test(tcase, lengths_are_uniform);
    tcase_add_test(tcase, neighbours_lie_at_log_uniform_gaps_on_either_side);
    tcase_add_test(tcase, the_share_of_pairs_that_drift_is_what_was_asked_for);
    tcase_add_test(tcase, the_share_of_neighbours_is_what_was_asked_for);
    tcase_add_test(tcase, others_are_from_anywhere_in_the_source);
    return run_case("views", tcase);
}
