/* SPDX-License-Identifier: MIT */
/*
 * From records to two corpora.
 *
 *   record     ACGTACGTNNNNacgtACGTACGTAC
 *              |--- learnt from ---|- held out -|      border: len - floor(fraction len)
 *   runs       ACGTACGT    acgtACG  TACGTAC            each a segment, if it is long enough
 *
 * The border needs the length and the name, so records are taken whole. Runs are found here,
 * not by the corpus, because a run may be asked to be longer than the corpus lets letters wait.
 *
 * Soft letters are kept as turns: the places in the corpus, in ascending order, where letters
 * turn soft, back, soft, ... A letter is soft if an odd number of turns lie at it or before it,
 * which is one binary search for a whole window. 16 bytes an interval: 90 MB for the five
 * million of a human genome, where a bit for each letter would be 390 MB.
 *
 * Records may overlap. Of tiles and regions the names tell it, so the places of both parts of them
 * are kept until all are there, and those of whole records, of which they may be, while these are
 * as few as contigs are: reads, of which there are many, have no tiles.
 */
#include "learn/genome.h"

#include "base/crc.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/search.h"
#include "seq/dna.h"
#include "seq/places.h"
#include "seq/seqio.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define FRACTION_MAX 0.5
#define TOLD_EVERY ((uint64_t)1 << 20) /* letters */
#define MOST_WHOLE ((size_t)1 << 18)   /* records whose places are kept: 40 MB */
#define LOWER_CASE 0x20                /* the bit that sets it apart in ASCII */

/* A record to be held out. */
typedef struct held_name {
    char *text; /* owned */
    uint64_t seen;
} held_name;

typedef struct part {
    kmf_corpus *corpus; /* owned */
    kmf_genome_part_info info;
    uint64_t *turns; /* owned */
    size_t n_turns, cap_turns;
    uint64_t *sources; /* owned: where each one's letters begin */
    size_t n_sources, cap_sources;
} part;

struct kmf_genome {
    held_name *held; /* owned [n_held], sorted */
    size_t n_held;
    uint64_t n_offered; /* records of inputs that are not held out as a whole */
    double fraction;
    size_t shortest;
    char *tmp; /* owned or NULL */
    bool soft;
    kmf_sources sources;
    part parts[KMF_GENOME_PARTS];
    char **names; /* owned [n_names], of records whose places are known */
    size_t n_names, cap_names;
    size_t n_whole;          /* of those: whole ones */
    kmf_named_place *places; /* owned [n_places], of their parts; asked about: held out */
    size_t n_places, cap_places;
    kmf_genome_info info; /* without its parts */
};

static int by_text(const void *a, const void *b)
{
    return strcmp(((const held_name *)a)->text, ((const held_name *)b)->text);
}

static held_name *find_held(const kmf_genome *g, const char *text)
{
    held_name key = {.text = (char *)(uintptr_t)text};
    return g->n_held ? bsearch(&key, g->held, g->n_held, sizeof key, by_text) : NULL;
}

void kmf_genome_options_default(kmf_genome_options *opts)
{
    *opts = (kmf_genome_options){.shortest = 1};
}

static int copy_names(kmf_genome *g, const kmf_genome_options *opts, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    g->held = kmf_calloc(opts->n_held, sizeof *g->held, err);
    if (!g->held)
        return KMF_ENOMEM;
    for (; g->n_held < opts->n_held; g->n_held++) {
        g->held[g->n_held].text = kmf_strdup(opts->held[g->n_held], err);
        if (!g->held[g->n_held].text)
            return KMF_ENOMEM;
    }
    if (g->n_held > 1)
        qsort(g->held, g->n_held, sizeof *g->held, by_text);
    for (size_t i = 1; i < g->n_held; i++)
        if (by_text(&g->held[i - 1], &g->held[i]) == 0)
            return kmf_fail(err, KMF_EINVAL,
                            "'%s' is named twice among the records to hold out",
                            kmf_err_show(shown, g->held[i].text));
    return 0;
}

static int check_options(const kmf_genome_options *opts, kmf_err *err)
{
    if (!(opts->fraction >= 0 && opts->fraction <= FRACTION_MAX))
        return kmf_fail(err, KMF_EINVAL,
                        "the fraction to hold out is %g: it must be from 0 to %g",
                        opts->fraction, FRACTION_MAX);
    if (opts->shortest < 1)
        return kmf_fail(err, KMF_EINVAL,
                        "the shortest run has 0 bases: it must have 1 or more");
    return 0;
}

kmf_genome *kmf_genome_new(const kmf_genome_options *opts, kmf_err *err)
{
    if (check_options(opts, err) < 0)
        return NULL;
    kmf_genome *g = kmf_calloc(1, sizeof *g, err);
    if (!g)
        return NULL;
    uint64_t memory = opts->memory ? opts->memory : KMF_MEMORY_USUAL;
    g->fraction = opts->fraction;
    g->shortest = opts->shortest;
    g->soft = opts->soft;
    g->sources = opts->sources;
    if (copy_names(g, opts, err) < 0)
        goto failed;
    if (opts->tmp && !(g->tmp = kmf_strdup(opts->tmp, err)))
        goto failed;
    for (int p = 0; p < KMF_GENOME_PARTS; p++) {
        uint64_t share = p == KMF_GENOME_TRAIN ? memory - memory / 4 : memory / 4;
        g->parts[p].corpus = kmf_corpus_new(KMF_DNA, 1, share, g->tmp, err);
        if (!g->parts[p].corpus)
            goto failed;
    }
    return g;
failed:
    kmf_genome_free(g);
    return NULL;
}

static void free_places(kmf_genome *g)
{
    for (size_t i = 0; i < g->n_names; i++)
        kmf_free(g->names[i]);
    kmf_free(g->names);
    kmf_free(g->places);
    g->names = NULL;
    g->places = NULL;
    g->n_names = g->n_places = 0;
}

void kmf_genome_free(kmf_genome *genome)
{
    kmf_genome *g = genome;
    if (!g)
        return;
    free_places(g);
    for (size_t i = 0; i < g->n_held; i++)
        kmf_free(g->held[i].text);
    kmf_free(g->held);
    for (int p = 0; p < KMF_GENOME_PARTS; p++) {
        kmf_corpus_free(g->parts[p].corpus);
        kmf_free(g->parts[p].turns);
        kmf_free(g->parts[p].sources);
    }
    kmf_free(g->tmp);
    kmf_free(g);
}

/* ---------------------------------------------------------------- adding ---------------- */

/* Letters turn at a place; two turns at one are none. */
static int add_turn(part *p, uint64_t at, kmf_err *err)
{
    if (p->n_turns > 0 && p->turns[p->n_turns - 1] == at) {
        p->n_turns--;
        return 0;
    }
    if (kmf_grow(&p->turns, &p->cap_turns, p->n_turns + 1, sizeof *p->turns, err) < 0)
        return KMF_ENOMEM;
    p->turns[p->n_turns++] = at;
    return 0;
}

/* A run whose first letter has number `at` in the corpus. */
static int note_soft(part *p, const char *run, size_t n, uint64_t at, kmf_err *err)
{
    bool soft = false;
    for (size_t i = 0; i < n; i++) {
        bool lower = ((unsigned char)run[i] & LOWER_CASE) != 0;
        if (lower != soft && add_turn(p, at + i, err) < 0)
            return KMF_ENOMEM;
        soft = lower;
        p->info.soft += lower;
    }
    return soft ? add_turn(p, at + n, err) : 0;
}

static int add_run(kmf_genome *g, part *p, const char *run, size_t n, kmf_err *err)
{
    if (n < g->shortest) {
        p->info.too_short += n;
        return 0;
    }
    if (g->soft && note_soft(p, run, n, p->info.kept, err) < 0)
        return KMF_ENOMEM;
    p->info.kept += n;
    p->info.segments++;
    return kmf_corpus_add(p->corpus, run, n, err);
}

static bool is_base(char letter)
{
    return kmf_base_code[(unsigned char)letter] < 4;
}

static int add_stretch(kmf_genome *g, part *p, const char *seq, size_t n, kmf_err *err)
{
    for (size_t i = 0; i < n;) {
        size_t beg = i;
        while (i < n && is_base(seq[i]))
            i++;
        int status = i > beg ? add_run(g, p, seq + beg, i - beg, err) : 0;
        if (status < 0)
            return status;
        beg = i;
        while (i < n && !is_base(seq[i]))
            i++;
        g->info.ambiguous += i - beg;
    }
    return 0;
}

/* Letters that come now are of a source of their own; the last one, if it has none, was none. */
static int begin_source(kmf_genome *g, kmf_err *err)
{
    for (int i = 0; i < KMF_GENOME_PARTS; i++) {
        part *p = &g->parts[i];
        if (p->n_sources > 0 && p->sources[p->n_sources - 1] == p->info.kept)
            continue;
        if (kmf_grow(&p->sources, &p->cap_sources, p->n_sources + 1, sizeof *p->sources, err) <
            0)
            return KMF_ENOMEM;
        p->sources[p->n_sources++] = p->info.kept;
    }
    return 0;
}

/* A record whose last n_held letters are held out; on the other strand these are the first. */
static int note_places(kmf_genome *g, const char *name, size_t len, size_t n_held, kmf_err *err)
{
    kmf_named_place place;
    if (!kmf_named_place_read(&place, name) || place.last - place.beg + 1 != len) {
        if (len == 0 || g->n_whole == MOST_WHOLE)
            return 0;
        place = kmf_named_place_whole(name, len);
        g->n_whole++;
    }
    if (kmf_grow(&g->names, &g->cap_names, g->n_names + 1, sizeof *g->names, err) < 0 ||
        kmf_grow(&g->places, &g->cap_places, g->n_places + 2, sizeof *g->places, err) < 0 ||
        !(g->names[g->n_names] = kmf_strdup(name, err)))
        return KMF_ENOMEM;
    place.name = g->names[g->n_names++];
    place.input = g->info.inputs;
    for (int held = 0; held < 2; held++) {
        size_t n = held ? n_held : len - n_held;
        kmf_named_place own = place;
        own.asked = held;
        if (own.asked == own.reverse)
            own.last = own.beg + n - 1;
        else
            own.beg = own.last - n + 1;
        if (n > 0)
            g->places[g->n_places++] = own;
    }
    return 0;
}

int kmf_genome_add(kmf_genome *genome, const char *name, const char *seq, size_t len,
                   bool held_whole, kmf_err *err)
{
    kmf_genome *g = genome;
    held_name *held = find_held(g, name);
    size_t n_held = (size_t)(g->fraction * (double)len);
    if (held)
        held->seen++;
    g->n_offered += !held_whole;
    if (held || held_whole) {
        g->info.held_records++;
        n_held = len;
    }
    g->info.records++;
    g->info.letters += len;
    size_t border = len - n_held;
    if ((g->sources == KMF_SOURCES_RECORD || g->info.records == 1) && begin_source(g, err) < 0)
        return KMF_ENOMEM;
    int status = note_places(g, name, len, n_held, err);
    if (status == 0)
        status = add_stretch(g, &g->parts[KMF_GENOME_TRAIN], seq, border, err);
    if (status < 0)
        return status;
    return add_stretch(g, &g->parts[KMF_GENOME_HELD], seq + border, n_held, err);
}

int kmf_genome_read(kmf_genome *genome, kmf_reader *reader, bool held_whole,
                    kmf_progress_fn *fn, void *user, kmf_err *err)
{
    kmf_genome *g = genome;
    kmf_record rec;
    int status = kmf_reader_unread(reader, err);
    if (status < 0)
        return status;
    uint64_t told = g->info.letters;
    g->info.inputs++;
    if (begin_source(g, err) < 0)
        return KMF_ENOMEM;
    while ((status = kmf_reader_next(reader, &rec, err)) > 0) {
        status = kmf_genome_add(g, rec.name, rec.seq, rec.len, held_whole, err);
        if (status < 0)
            return status;
        if (!fn || g->info.letters - told < TOLD_EVERY)
            continue;
        told = g->info.letters;
        fn(user, told);
    }
    return status;
}

/* ---------------------------------------------------------------- the end --------------- */

static int check_names(const kmf_genome *g, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    for (size_t i = 0; i < g->n_held; i++) {
        const held_name *held = &g->held[i];
        if (held->seen == 0)
            return kmf_fail(err, KMF_EINVAL,
                            "no record is called '%s', which is to be held out: a name ends at "
                            "the first blank of a header",
                            kmf_err_show(shown, held->text));
        if (held->seen > 1)
            return kmf_fail(err, KMF_EINVAL,
                            "%" PRIu64 " records are called '%s', which is to be held out: it "
                            "must be one",
                            held->seen, kmf_err_show(shown, held->text));
    }
    return 0;
}

static int check_rest(const kmf_genome *g, kmf_err *err)
{
    const kmf_genome_info *info = &g->info;
    uint64_t held = g->parts[KMF_GENOME_HELD].info.kept;
    bool asked = g->fraction > 0 || info->held_records > 0;
    if (g->parts[KMF_GENOME_TRAIN].info.kept > 0 && (held > 0 || !asked))
        return 0;
    if (g->parts[KMF_GENOME_TRAIN].info.kept > 0)
        return kmf_fail(
            err, KMF_EINVAL,
            "there is nothing to validate on: no run of at least %zu bases A, C, G, "
            "T is held out",
            g->shortest);
    if (g->n_offered == 0)
        return kmf_fail(err, KMF_EFORMAT, "there is nothing to learn from: no record%s",
                        info->records > 0 ? " but those of inputs that are held out" : "");
    if (held > 0)
        return kmf_fail(
            err, KMF_EINVAL,
            "there is nothing to learn from: all runs of at least %zu bases A, C, G, "
            "T are held out",
            g->shortest);
    return kmf_fail(err, KMF_EFORMAT,
                    "there is nothing to learn from: no run of at least %zu bases A, C, G, T%s "
                    "(%" PRIu64 " records, %" PRIu64 " letters, of which %" PRIu64
                    " are others)",
                    g->shortest, asked ? " outside of what is held out" : "", info->records,
                    info->letters, info->ambiguous);
}

static uint32_t checksum(const kmf_genome *g)
{
    uint32_t sum = 0;
    for (int p = 0; p < KMF_GENOME_PARTS; p++) {
        const part *one = &g->parts[p];
        kmf_corpus_info info;
        kmf_corpus_information(one->corpus, &info);
        uint64_t numbers[2] = {info.checksum, one->n_turns};
        sum = kmf_crc32(sum, numbers, sizeof numbers);
        sum = kmf_crc32(sum, one->turns, one->n_turns * sizeof *one->turns);
    }
    return sum;
}

/* Parts that are held out and share bases with others. */
static uint64_t count_shared(kmf_genome *g)
{
    uint64_t n = 0;
    kmf_named_places_meet(g->places, g->n_places);
    for (size_t i = 0; i < g->n_places; i++)
        n += g->places[i].meets;
    free_places(g);
    return n;
}

int kmf_genome_finish(kmf_genome *genome, kmf_err *err)
{
    kmf_genome *g = genome;
    g->info.held_shared = count_shared(g);
    int status = check_names(g, err);
    if (status == 0)
        status = check_rest(g, err);
    for (int p = 0; p < KMF_GENOME_PARTS && status == 0; p++) {
        part *one = &g->parts[p];
        if (one->n_sources > 0 && one->sources[one->n_sources - 1] == one->info.kept)
            one->n_sources--; /* the last one had no letters */
        status = kmf_corpus_finish(one->corpus, err);
    }
    if (status == 0)
        g->info.checksum = checksum(g);
    return status;
}

/* ---------------------------------------------------------------- using it -------------- */

const kmf_corpus *kmf_genome_corpus(const kmf_genome *genome, kmf_genome_part of)
{
    return genome->parts[of].corpus;
}

void kmf_genome_soft(const kmf_genome *genome, kmf_genome_part of, uint8_t *to, uint64_t at,
                     size_t n)
{
    const part *p = &genome->parts[of];
    size_t turn = kmf_count_up_to(p->turns, p->n_turns, at);
    for (size_t i = 0; i < n; turn++) {
        size_t left = n - i;
        uint64_t next = turn < p->n_turns ? p->turns[turn] - at : n;
        size_t run = next - i < left ? (size_t)(next - i) : left;
        memset(to + i, (int)(turn % 2), run);
        i += run;
    }
}

size_t kmf_genome_n_sources(const kmf_genome *genome, kmf_genome_part of)
{
    return genome->parts[of].n_sources;
}

size_t kmf_genome_source(const kmf_genome *genome, kmf_genome_part of, uint64_t at)
{
    const part *p = &genome->parts[of];
    return kmf_count_up_to(p->sources, p->n_sources, at) - 1;
}

uint64_t kmf_genome_source_start(const kmf_genome *genome, kmf_genome_part of, size_t source)
{
    const part *p = &genome->parts[of];
    return source < p->n_sources ? p->sources[source] : p->info.kept;
}

void kmf_genome_information(const kmf_genome *genome, kmf_genome_info *info)
{
    *info = genome->info;
    for (int p = 0; p < KMF_GENOME_PARTS; p++)
        info->parts[p] = genome->parts[p].info;
}

uint64_t kmf_genome_bytes(const kmf_genome *genome)
{
    uint64_t bytes = genome->n_held * sizeof *genome->held;
    for (int p = 0; p < KMF_GENOME_PARTS; p++)
        bytes += kmf_corpus_bytes(genome->parts[p].corpus) +
                 genome->parts[p].cap_turns * sizeof *genome->parts[p].turns +
                 genome->parts[p].cap_sources * sizeof *genome->parts[p].sources;
    return bytes;
}
