/* SPDX-License-Identifier: MIT */
/*
 * Second sources: windows drawn again by the functions below this module, their tokens written out
 * by slicing text; bits in double, by adding up the probabilities of every k-mer with the letter in
 * its place; copying by looking for a token that shows the letter; Markov models asked directly.
 */
#include "learn/masker.h"

#include "base/mem.h"
#include "base/rng.h"
#include "chisquare.h"
#include "learn/drift.h"
#include "run.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define SEED 23
#define K_MAX 4
#define LETTERS_MAX 64 /* of a window */
#define BATCH 5
#define V_MAX 300

/* ---------------------------------------------------------------- a place to ask -------- */

typedef struct kind {
    int k;
    size_t stride, letters;
    bool specials, lacks; /* lacks: some k-mers are not in the vocabulary */
    double p_mask, p_random;
    float soft_weight;
} kind;

static const kind kinds[] = {
    {3, 1, 40, true, false, 1, 0, 1},      {3, 1, 40, true, false, 0, 0, 1},
    {3, 1, 40, true, false, 0.6, 0.2, 1},  {4, 2, 50, true, false, 0.6, 0.2, 0.25f},
    {2, 2, 33, false, false, 0.5, 0.5, 0}, {3, 3, 64, true, true, 0.8, 0.1, 0.5f},
    {1, 1, 20, true, false, 0.7, 0.3, 1},  {4, 1, 45, false, true, 0.7, 0.1, 1},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

typedef struct place {
    kind kind;
    kmf_vocab *vocab;
    kmf_genome *genome;
    kmf_windows *windows, *held;
    kmf_pool *pool;
    kmf_spans_options spans;
    kmf_masker_options opts;
    kmf_masker *masker;
} place;

static kmf_vocab *vocab_of(const kind *of)
{
    char text[8 * V_MAX] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    size_t len = strlen(text);
    kmf_err err = {0};
    for (int code = 1 << 2 * of->k; code-- > 0;) { /* backwards: not in code order */
        if (of->lacks && code % 7 == 3)
            continue;
        for (int i = 0; i < of->k; i++)
            text[len++] = "ACGT"[code >> 2 * (of->k - 1 - i) & 3];
        text[len++] = '\n';
    }
    kmf_vocab *vocab = kmf_vocab_parse(text, len, "test", &err);
    ck_assert_msg(vocab, "%s", err.msg);
    return vocab;
}

static void add_random(kmf_genome *genome, const char *name, size_t len, kmf_rng *rng)
{
    char *seq = malloc(len);
    for (size_t i = 0; i < len; i++)
        seq[i] = "ACGTACGAacgt"[kmf_rng_below(rng, i / 30 % 2 ? 12 : 8)];
    seq[len / 3] = 'N';
    ck_assert_int_eq(kmf_genome_add(genome, name, seq, len, false, NULL), 0);
    free(seq);
}

static place place_of(const kind *of, int threads)
{
    static const char *const held[] = {"h"};
    place p = {.kind = *of, .vocab = vocab_of(of)};
    kmf_rng rng = kmf_rng_stream(SEED, 0);
    kmf_genome_options genome;
    kmf_err err = {0};
    kmf_genome_options_default(&genome);
    genome.held = held;
    genome.n_held = 1;
    genome.shortest = 16;
    genome.soft = of->soft_weight < 1;
    p.genome = kmf_genome_new(&genome, &err);
    add_random(p.genome, "a", 700, &rng);
    add_random(p.genome, "h", 300, &rng);
    add_random(p.genome, "b", 57, &rng);
    ck_assert_msg(kmf_genome_finish(p.genome, &err) == 0, "%s", err.msg);
    p.windows =
        kmf_windows_new(kmf_genome_corpus(p.genome, KMF_GENOME_TRAIN), of->letters, SEED, &err);
    p.held =
        kmf_windows_new(kmf_genome_corpus(p.genome, KMF_GENOME_HELD), of->letters, SEED, &err);
    if (threads > 1)
        p.pool = kmf_pool_new(threads - 1, &err);
    kmf_spans_options_default(&p.spans);
    p.spans.p_mask = of->p_mask;
    p.spans.p_random = of->p_random;
    p.opts = (kmf_masker_options){.genome = p.genome,
                                  .letters = of->letters,
                                  .most = BATCH,
                                  .soft_weight = of->soft_weight,
                                  .pool = p.pool};
    ck_assert_int_eq(
        kmf_spelling_make(&p.opts.spelling, p.vocab, of->stride, of->specials, &err), 0);
    p.masker = kmf_masker_new(&p.opts, &err);
    ck_assert_msg(p.masker, "%s", err.msg);
    return p;
}

/* Windows of those learnt from; with fixed, of that set of those held out, *n at most. */
static int try_draw(place *p, kmf_mlm_batch *batch, uint64_t fixed, uint64_t first, size_t *n,
                    kmf_err *err)
{
    kmf_view views[BATCH];
    kmf_viewer viewer = {.genome = p->genome,
                         .part = fixed ? KMF_GENOME_HELD : KMF_GENOME_TRAIN,
                         .windows = fixed ? p->held : p->windows,
                         .seed = SEED,
                         .fixed = fixed};
    kmf_masking masking = {.spans = &p->spans};
    *n = kmf_views_single(views, &viewer, first, *n);
    return kmf_masker_draw(p->masker, batch, viewer.part, views, *n, &masking, err);
}

static int draw(place *p, kmf_mlm_batch *batch, uint64_t fixed, uint64_t first, size_t n)
{
    kmf_err err = {0};
    ck_assert_msg(try_draw(p, batch, fixed, first, &n, &err) == 0, "%s", err.msg);
    return (int)n;
}

static void leave(place *p)
{
    kmf_masker_free(p->masker);
    kmf_windows_free(p->windows);
    kmf_windows_free(p->held);
    kmf_genome_free(p->genome);
    kmf_pool_free(p->pool);
    kmf_vocab_free(p->vocab);
}

/* ---------------------------------------------------------------- the twin -------------- */

/* A window, its letters as text, what was drawn for it, and its tokens. */
typedef struct twin {
    size_t n, n_tokens;
    uint8_t letters[LETTERS_MAX], hidden[LETTERS_MAX], seen[LETTERS_MAX], soft[LETTERS_MAX];
    int32_t ids[LETTERS_MAX + 2], labels[LETTERS_MAX + 2];
    size_t covers_from[LETTERS_MAX + 2]; /* the first letter of a token; SIZE_MAX: no k-mer */
} twin;

static int32_t id_of(const place *p, const char *token)
{
    for (size_t id = 0; id < kmf_vocab_size(p->vocab); id++)
        if (strcmp(kmf_vocab_token(p->vocab, (int32_t)id), token) == 0)
            return (int32_t)id;
    return -1;
}

static void add_token(twin *t, int32_t id, int32_t label, size_t from)
{
    t->ids[t->n_tokens] = id;
    t->labels[t->n_tokens] = label;
    t->covers_from[t->n_tokens++] = from;
}

static void slice(const place *p, const uint8_t *letters, size_t from, char *token)
{
    for (int i = 0; i < p->kind.k; i++)
        token[i] = "ACGT"[letters[from + (size_t)i]];
    token[p->kind.k] = '\0';
}

static void spell(const place *p, twin *t)
{
    size_t k = (size_t)p->kind.k;
    char is[K_MAX + 1], looks[K_MAX + 1];
    t->n_tokens = 0;
    if (p->kind.specials)
        add_token(t, id_of(p, "[CLS]"), -1, SIZE_MAX);
    for (size_t from = 0; from + k <= t->n; from += p->kind.stride) {
        bool masked = false;
        bool hidden = false;
        for (size_t i = from; i < from + k; i++) {
            masked = masked || t->hidden[i] == KMF_FATE_MASKED;
            hidden = hidden || t->hidden[i] != KMF_FATE_VISIBLE;
        }
        slice(p, t->letters, from, is);
        slice(p, t->seen, from, looks);
        int32_t id = id_of(p, masked ? "[MASK]" : looks);
        add_token(t, id >= 0 ? id : id_of(p, "[UNK]"), hidden ? id_of(p, is) : -1, from);
    }
    if (p->kind.specials)
        add_token(t, id_of(p, "[SEP]"), -1, SIZE_MAX);
}

/* Window `number` of those counted over all epochs, or of a fixed set. */
static void draw_twin(const place *p, twin *t, kmf_genome_part part, uint64_t fixed,
                      uint64_t number)
{
    const kmf_windows *windows = part == KMF_GENOME_TRAIN ? p->windows : p->held;
    uint64_t count =
        fixed ? kmf_windows_fixed_count(windows, fixed) : kmf_windows_count(windows);
    kmf_excerpt e;
    kmf_rng rng = kmf_draw(SEED, fixed ? KMF_DRAW_FIXED_SPANS : KMF_DRAW_SPANS, number / count,
                           number % count);
    if (fixed)
        kmf_windows_fixed(windows, fixed, number % count, &e);
    else
        kmf_windows_get(windows, number / count, number % count, &e);
    t->n = e.n;
    kmf_excerpt_letters(&e, kmf_genome_corpus(p->genome, part), t->letters);
    memset(t->soft, 0, sizeof t->soft);
    if (p->kind.soft_weight < 1)
        kmf_excerpt_soft(&e, p->genome, part, t->soft);
    kmf_spans_draw(t->hidden, t->seen, &p->spans, &rng, t->letters, t->n);
    spell(p, t);
}

/* Is the base hidden, and covered by a token that is asked for? */
static bool is_asked(const place *p, const twin *t, size_t base)
{
    if (t->hidden[base] == KMF_FATE_VISIBLE)
        return false;
    for (size_t j = 0; j < t->n_tokens; j++)
        if (t->labels[j] >= 0 && base >= t->covers_from[j] &&
            base - t->covers_from[j] < (size_t)p->kind.k)
            return true;
    return false;
}

/* ---------------------------------------------------------------- answers --------------- */

/* Made-up probabilities for the tokens asked for, and their sums as a pass has them. */
typedef struct answers {
    double p[BATCH * (LETTERS_MAX + 2)][V_MAX];
    size_t rows[BATCH * (LETTERS_MAX + 2)];
    kmf_real *sites; /* owned */
    kmf_mlm_result result;
} answers;

static answers *answer(const place *p, const kmf_mlm_batch *batch, kmf_rng *rng)
{
    answers *a = calloc(1, sizeof *a);
    const kmf_real *sites = kmf_masker_sites(p->masker);
    size_t V = kmf_vocab_size(p->vocab);
    size_t width = 4 * (size_t)p->kind.k;
    size_t n = 0;
    a->sites = calloc(BATCH * (LETTERS_MAX + 2) * width, sizeof *a->sites);
    for (size_t i = 0; i < batch->off[batch->n_seq]; i++) {
        if (batch->labels[i] < 0)
            continue;
        double sum = 0;
        for (size_t v = 0; v < V; v++)
            sum += a->p[n][v] = exp(6 * kmf_rng_unit(rng));
        for (size_t v = 0; v < V; v++)
            a->p[n][v] /= sum;
        for (size_t s = 0; s < width; s++) {
            double of_site = 0;
            for (size_t v = 0; v < V; v++)
                of_site += a->p[n][v] * (double)sites[v * width + s];
            a->sites[n * width + s] = (kmf_real)of_site;
        }
        a->rows[n++] = i;
    }
    a->result = (kmf_mlm_result){.n = n, .rows = a->rows, .sites = a->sites};
    return a;
}

static void answers_free(answers *a)
{
    free(a->sites);
    free(a);
}

/* What a token says of the letter in place i of it: of all k-mers with that letter there. */
static void marginal(const place *p, const double *probabilities, size_t i, double says[4])
{
    memset(says, 0, 4 * sizeof *says);
    for (size_t v = 0; v < kmf_vocab_size(p->vocab); v++) {
        const char *token = kmf_vocab_token(p->vocab, (int32_t)v);
        if (token[0] != '[')
            says[strchr("ACGT", token[i]) - "ACGT"] += probabilities[v];
    }
}

/* Bits of a base: the sum of what its tokens say, scaled. first: of the window in the batch. */
static double twin_bits(const place *p, const twin *t, const answers *a, size_t first,
                        size_t base)
{
    double sum[4] = {0};
    for (size_t j = 0; j < t->n_tokens; j++) {
        if (t->labels[j] < 0 || base < t->covers_from[j] ||
            base - t->covers_from[j] >= (size_t)p->kind.k)
            continue;
        double says[4];
        size_t row = 0;
        while (a->rows[row] != first + j)
            row++;
        marginal(p, a->p[row], base - t->covers_from[j], says);
        for (size_t b = 0; b < 4; b++)
            sum[b] += says[b];
    }
    return -log2(sum[t->letters[base]] / (sum[0] + sum[1] + sum[2] + sum[3]));
}

/* ---------------------------------------------------------------- drawing --------------- */

static size_t n_wrong; /* counted, so that not every comparison is written down */

static void compare_batch(const place *p, const kmf_mlm_batch *batch, kmf_genome_part part,
                          uint64_t fixed, uint64_t first)
{
    for (size_t s = 0; s < batch->n_seq; s++) {
        twin t;
        draw_twin(p, &t, part, fixed, first + s);
        size_t at = batch->off[s];
        n_wrong += batch->off[s + 1] - at != t.n_tokens;
        for (size_t j = 0; j < t.n_tokens; j++) {
            n_wrong += batch->ids[at + j] != t.ids[j] || batch->labels[at + j] != t.labels[j];
            if (!batch->weights || t.labels[j] < 0)
                continue;
            double weight = 0;
            double hidden = 0;
            for (size_t i = t.covers_from[j]; i < t.covers_from[j] + (size_t)p->kind.k; i++) {
                if (t.hidden[i] == KMF_FATE_VISIBLE)
                    continue;
                weight += t.soft[i] ? (double)p->kind.soft_weight : 1;
                hidden++;
            }
            if (!(fabs((double)batch->weights[at + j] - weight / hidden) < 1e-6))
                n_wrong++;
        }
    }
}

START_TEST(a_batch_is_what_slicing_makes_of_its_windows)
{
    for (size_t i = 0; i < KINDS; i++) {
        place p = place_of(&kinds[i], 1);
        kmf_mlm_batch batch;
        uint64_t epoch = kmf_windows_count(p.windows);
        ck_assert(epoch > BATCH);
        for (uint64_t first = 0; first < 2 * epoch + 3; first += BATCH) {
            ck_assert_int_eq(draw(&p, &batch, 0, first, BATCH), BATCH);
            ck_assert(batch.n_seq == BATCH && batch.off[0] == 0 && batch.dropout <= 0);
            ck_assert((batch.weights == NULL) == !(kinds[i].soft_weight < 1));
            n_wrong = 0;
            compare_batch(&p, &batch, KMF_GENOME_TRAIN, 0, first);
            ck_assert_msg(n_wrong == 0, "kind %zu, window %" PRIu64 ": %zu", i, first, n_wrong);
        }
        leave(&p);
    }
}
END_TEST

/* The last batch of a fixed set holds what is left, and nothing comes after it. */
START_TEST(a_fixed_set_ends)
{
    place p = place_of(&kinds[2], 1);
    kmf_mlm_batch batch;
    uint64_t count = kmf_windows_fixed_count(p.held, 1000);
    ck_assert(count > BATCH && count % BATCH != 0 && count < 20);
    for (uint64_t first = 0; first < count + 3 * BATCH; first += BATCH) {
        uint64_t left = first < count ? count - first : 0;
        int n = draw(&p, &batch, 1000, first, BATCH);
        ck_assert_int_eq(n, left < BATCH ? (int)left : BATCH);
        ck_assert_uint_eq(batch.n_seq, (size_t)n);
        n_wrong = 0;
        compare_batch(&p, &batch, KMF_GENOME_HELD, 1000, first);
        ck_assert_uint_eq(n_wrong, 0);
    }
    /* fewer than there are */
    ck_assert_int_eq(draw(&p, &batch, 3, 0, BATCH), 3);
    n_wrong = 0;
    compare_batch(&p, &batch, KMF_GENOME_HELD, 3, 0);
    ck_assert_uint_eq(n_wrong, 0);
    leave(&p);
}
END_TEST

/* ---------------------------------------------------------------- scores ---------------- */

START_TEST(bits_are_those_of_adding_up_all_k_mers)
{
    kmf_rng rng = kmf_rng_stream(SEED, 1);
    for (size_t i = 0; i < KINDS; i++) {
        place p = place_of(&kinds[i], 1);
        kmf_mlm_batch batch;
        kmf_score score = {0};
        double bits = 0;
        double hidden = 0;
        for (uint64_t first = 0; first < 3 * BATCH; first += BATCH) {
            int n = draw(&p, &batch, 0, first, BATCH);
            answers *a = answer(&p, &batch, &rng);
            ck_assert_int_eq(kmf_masker_score(p.masker, &a->result, &score, NULL), 0);
            for (int s = 0; s < n; s++) {
                twin t;
                draw_twin(&p, &t, KMF_GENOME_TRAIN, 0, first + (uint64_t)s);
                for (size_t base = 0; base < t.n; base++)
                    if (is_asked(&p, &t, base)) {
                        bits += twin_bits(&p, &t, a, batch.off[s], base);
                        hidden++;
                    }
            }
            answers_free(a);
        }
        ck_assert_msg(hidden > 10 && score.hidden == hidden, "%g %g", score.hidden, hidden);
        ck_assert_msg(fabs(score.bits - bits) < 1e-5 * bits, "kind %zu: %.9g instead of %.9g",
                      i, score.bits, bits);
        ck_assert(score.copy <= 0 && score.markov[0] <= 0);
        leave(&p);
    }
}
END_TEST

/* Certain of the truth: 0 bits. Of all k-mers equally: 2. Certain of another letter: many. */
START_TEST(bits_of_knowing_and_of_guessing)
{
    place p = place_of(&kinds[0], 1);
    kmf_mlm_batch batch;
    size_t width = 4 * (size_t)p.kind.k;
    draw(&p, &batch, 0, 0, BATCH);
    kmf_rng rng = kmf_rng_stream(SEED, 2);
    answers *a = answer(&p, &batch, &rng);
    for (int guess = 0; guess < 3; guess++) {
        kmf_score score = {0};
        for (size_t row = 0; row < a->result.n; row++) {
            const char *token = kmf_vocab_token(p.vocab, batch.labels[a->rows[row]]);
            for (size_t s = 0; s < width; s++) {
                bool right = "ACGT"[s % 4] == token[s / 4];
                a->sites[row * width + s] = guess == 0   ? (kmf_real)right
                                            : guess == 1 ? (kmf_real)0.25
                                            : right      ? (kmf_real)0.0625
                                                         : (kmf_real)0.3125;
            }
        }
        ck_assert_int_eq(kmf_masker_score(p.masker, &a->result, &score, NULL), 0);
        double each = score.bits / score.hidden;
        ck_assert_msg(fabs(each - 2 * guess) < 1e-6, "%d: %g", guess, each);
    }
    answers_free(a);
    leave(&p);
}
END_TEST

START_TEST(baselines_are_those_of_asking_base_by_base)
{
    kmf_markov *markov = NULL; /* that of the first genome, which the others are too */
    for (size_t i = 0; i < KINDS; i++) {
        place p = place_of(&kinds[i], 1);
        kmf_mlm_batch batch;
        kmf_score score = {0};
        double copy = 0, hidden = 0, sums[KMF_MARKOV_MAX + 1] = {0};
        double scale = 0;
        int32_t mask = id_of(&p, "[MASK]");
        int32_t unknown = id_of(&p, "[UNK]");
        if (i == 0)
            markov = kmf_markov_new(kmf_genome_corpus(p.genome, KMF_GENOME_TRAIN),
                                    KMF_MARKOV_MAX, NULL, NULL, NULL);
        ck_assert_ptr_nonnull(markov);
        uint64_t count = kmf_windows_fixed_count(p.held, 1000);
        for (uint64_t first = 0; first < count; first += BATCH) {
            int n = draw(&p, &batch, 1000, first, BATCH);
            ck_assert_int_eq(kmf_masker_baselines(p.masker, markov, &score, NULL), 0);
            for (int s = 0; s < n; s++) {
                twin t;
                draw_twin(&p, &t, KMF_GENOME_HELD, 1000, first + (uint64_t)s);
                for (size_t base = 0; base < t.n; base++) {
                    bool shown = false;
                    if (!is_asked(&p, &t, base))
                        continue;
                    for (size_t j = 0; j < t.n_tokens; j++)
                        shown = shown || (t.ids[j] != mask && t.ids[j] != unknown &&
                                          base >= t.covers_from[j] &&
                                          base - t.covers_from[j] < (size_t)p.kind.k);
                    copy += shown ? 0 : 2;
                    hidden++;
                    for (int m = 0; m <= KMF_MARKOV_MAX; m++)
                        sums[m] += kmf_markov_bits(markov, m, t.letters, base);
                }
            }
        }
        ck_assert_msg(hidden > 10 && score.hidden == hidden, "%g %g", score.hidden, hidden);
        ck_assert_msg(score.copy == copy, "kind %zu: %g instead of %g", i, score.copy, copy);
        for (int m = 0; m <= KMF_MARKOV_MAX; m++)
            scale = fmax(scale, fabs(score.markov[m] - sums[m]) / sums[m]);
        ck_assert_msg(scale < 1e-12, "kind %zu: %g", i, scale);
        ck_assert(score.bits <= 0);
        if (kinds[i].p_mask >= 1)
            ck_assert(score.copy == 2 * score.hidden); /* nothing leaks */
        if (kinds[i].p_mask <= 0)
            ck_assert(score.copy <= 0); /* all of it does */
        leave(&p);
    }
    kmf_markov_free(markov);
}
END_TEST

/* ---------------------------------------------------------------- the rest -------------- */

/* ---------------------------------------------------------------- mutations ------------- */

/* Letters of a window as ids show them, k 1: their tokens stand backwards in the vocabulary. */
static int shown_letter(const place *p, int32_t id)
{
    const char *token = kmf_vocab_token(p->vocab, id);
    return token[0] == '[' ? -1 : (int)(strchr("ACGT", token[0]) - "ACGT");
}

/* How many of all letters are others than in the corpus; each of the three is as likely. */
static uint64_t mutated(place *p, double rate, uint64_t to[3], uint64_t *n)
{
    uint64_t changed = 0;
    *n = 0;
    for (uint64_t first = 0; first < 2500; first += BATCH) {
        kmf_view views[BATCH];
        kmf_mlm_batch batch;
        kmf_viewer viewer = {
            .genome = p->genome, .part = KMF_GENOME_TRAIN, .windows = p->windows, .seed = SEED};
        kmf_masking masking = {.mutations = rate};
        kmf_views_single(views, &viewer, first, BATCH);
        ck_assert_int_eq(
            kmf_masker_draw(p->masker, &batch, KMF_GENOME_TRAIN, views, BATCH, &masking, NULL),
            0);
        for (size_t s = 0; s < BATCH; s++) {
            uint8_t was[LETTERS_MAX];
            kmf_excerpt_letters(&views[s].excerpt,
                                kmf_genome_corpus(p->genome, KMF_GENOME_TRAIN), was);
            ck_assert_uint_eq(batch.off[s + 1] - batch.off[s], views[s].excerpt.n + 2);
            for (size_t i = 0; i < views[s].excerpt.n; i++) {
                size_t at = batch.off[s] + 1 + i;
                int is = shown_letter(p, batch.ids[at]);
                ck_assert(is >= 0 && batch.labels[at] == -1);
                ++*n;
                if (is == was[i])
                    continue;
                changed++;
                to[(is + 3 - was[i]) % 4]++;
            }
        }
    }
    return changed;
}

START_TEST(mutations_come_as_often_as_asked_for)
{
    static const double rates[] = {0, 0.02, 0.5};
    place p = place_of(&kinds[6], 1);
    for (size_t r = 0; r < 3; r++) {
        uint64_t n, to[3] = {0};
        uint64_t changed = mutated(&p, rates[r], to, &n);
        ck_assert_uint_gt(n, 40000);
        if (rates[r] == 0) {
            ck_assert_uint_eq(changed, 0);
            continue;
        }
        const uint64_t seen[] = {changed, n - changed};
        const double expected[] = {rates[r] * (double)n, (1 - rates[r]) * (double)n};
        const double each[] = {(double)changed / 3, (double)changed / 3, (double)changed / 3};
        chi_square_test("mutations", seen, expected, 2);
        chi_square_test("letters", to, each, 3);
    }
    leave(&p);
}
END_TEST

/* A view that drifts: its letters as its relative has them, and then their mutations. */
START_TEST(drift_comes_before_the_mutations)
{
    const double rate = 0.5, mutations = 0.1;
    place p = place_of(&kinds[6], 1);
    kmf_viewer viewer = {
        .genome = p.genome, .part = KMF_GENOME_TRAIN, .windows = p.windows, .seed = SEED};
    kmf_masking masking = {.drift_rate = rate, .mutations = mutations};
    size_t wrong = 0, changed = 0;
    for (uint64_t first = 0; first < 500; first += BATCH) {
        kmf_view views[BATCH];
        kmf_mlm_batch batch;
        kmf_views_single(views, &viewer, first, BATCH);
        for (size_t s = 0; s < BATCH; s++) {
            views[s].drifts = s % 3 > 0;
            views[s].relative = kmf_rng_stream(SEED, first + s);
        }
        ck_assert_int_eq(
            kmf_masker_draw(p.masker, &batch, KMF_GENOME_TRAIN, views, BATCH, &masking, NULL),
            0);
        for (size_t s = 0; s < BATCH; s++) {
            uint8_t was[LETTERS_MAX], is[LETTERS_MAX];
            size_t n = views[s].excerpt.n;
            kmf_rng rng = views[s].rng;
            kmf_drift drift;
            kmf_excerpt_letters(&views[s].excerpt,
                                kmf_genome_corpus(p.genome, KMF_GENOME_TRAIN), was);
            memcpy(is, was, n);
            kmf_drift_draw(&drift, rate, &views[s].relative);
            if (views[s].drifts)
                kmf_drift_apply(&drift, is, n, &rng);
            for (size_t i = 0; i < n; i++)
                changed += is[i] != was[i];
            for (size_t i = 0; i < n; i++)
                if (kmf_rng_unit(&rng) < mutations)
                    is[i] = (uint8_t)((is[i] + 1 + kmf_rng_below(&rng, 3)) % 4);
            for (size_t i = 0; i < n; i++)
                wrong += shown_letter(&p, batch.ids[batch.off[s] + 1 + i]) != is[i];
        }
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_uint_gt(changed, 500);
    leave(&p);
}
END_TEST

/* With spans beside them, what is asked for is what stands there now. */
START_TEST(what_is_asked_for_is_what_the_mutations_made)
{
    place p = place_of(&kinds[6], 1);
    kmf_mlm_batch batch;
    kmf_view views[BATCH];
    kmf_viewer viewer = {
        .genome = p.genome, .part = KMF_GENOME_TRAIN, .windows = p.windows, .seed = SEED};
    kmf_masking masking = {.mutations = 0.5, .spans = &p.spans};
    size_t asked = 0, other = 0;
    for (uint64_t first = 0; first < 500; first += BATCH) {
        int32_t clear[BATCH * (LETTERS_MAX + 2)];
        kmf_views_single(views, &viewer, first, BATCH);
        masking.spans = NULL;
        ck_assert_int_eq(
            kmf_masker_draw(p.masker, &batch, KMF_GENOME_TRAIN, views, BATCH, &masking, NULL),
            0);
        size_t n = batch.off[BATCH];
        memcpy(clear, batch.ids, n * sizeof *clear);
        masking.spans = &p.spans;
        ck_assert_int_eq(
            kmf_masker_draw(p.masker, &batch, KMF_GENOME_TRAIN, views, BATCH, &masking, NULL),
            0);
        for (size_t i = 0; i < n; i++)
            if (batch.labels[i] >= 0) {
                asked++;
                other += batch.labels[i] != clear[i];
            } else {
                other += batch.ids[i] != clear[i];
            }
    }
    ck_assert(asked > 100 && other == 0);
    leave(&p);
}
END_TEST

START_TEST(threads_do_not_change_a_bit)
{
    for (size_t i = 2; i < 6; i++) {
        kmf_score scores[3] = {0};
        uint64_t sums[3];
        for (int t = 0; t < 3; t++) {
            place p = place_of(&kinds[i], 1 + 2 * t);
            kmf_rng rng = kmf_rng_stream(SEED, 3);
            kmf_mlm_batch batch;
            draw(&p, &batch, 0, 7, BATCH);
            answers *a = answer(&p, &batch, &rng);
            ck_assert_int_eq(kmf_masker_score(p.masker, &a->result, &scores[t], NULL), 0);
            sums[t] = 0;
            for (size_t at = 0; at < batch.off[BATCH]; at++)
                sums[t] = (sums[t] ^ (uint64_t)(batch.ids[at] + 1000 * batch.labels[at])) *
                          1099511628211u;
            answers_free(a);
            leave(&p);
        }
        ck_assert(sums[0] == sums[1] && sums[0] == sums[2]);
        ck_assert_int_eq(memcmp(&scores[0], &scores[1], sizeof scores[0]), 0);
        ck_assert_int_eq(memcmp(&scores[0], &scores[2], sizeof scores[0]), 0);
    }
}
END_TEST

START_TEST(sites_tell_the_letters_of_every_word)
{
    place p = place_of(&kinds[5], 1);
    const kmf_real *sites = kmf_masker_sites(p.masker);
    size_t wrong = 0;
    for (size_t v = 0; v < kmf_vocab_size(p.vocab); v++) {
        const char *token = kmf_vocab_token(p.vocab, (int32_t)v);
        for (size_t s = 0; s < 12; s++) {
            bool has = token[0] != '[' && token[s / 4] == "ACGT"[s % 4];
            wrong += sites[v * 12 + s] != (kmf_real)has;
        }
    }
    ck_assert_uint_eq(wrong, 0);
    size_t bytes = kmf_masker_bytes(&p.opts), letters = p.opts.letters;
    ck_assert_uint_ge(bytes, kmf_vocab_size(p.vocab) * 12 * sizeof *sites);
    /* one window more: its letters, ids and labels of 4 bytes a token, and not much beside these */
    p.opts.most++;
    size_t more = kmf_masker_bytes(&p.opts) - bytes;
    ck_assert_uint_ge(more, letters + 8 * kmf_spelling_tokens(&p.opts.spelling, letters));
    ck_assert_uint_le(more, 48 * letters + 1000);
    p.opts.most--;
    leave(&p);
    kmf_masker_free(NULL);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    place p = place_of(&kinds[3], 1);
    kmf_masker_free(p.masker);
    kmf_mem_fail_at(0);
    p.masker = kmf_masker_new(&p.opts, NULL);
    size_t n = kmf_mem_count();
    ck_assert(p.masker && n > 8);
    for (size_t at = 1; at <= n; at++) {
        kmf_err err = {0};
        kmf_mem_fail_at(at);
        ck_assert_ptr_null(kmf_masker_new(&p.opts, &err));
        ck_assert_int_eq(err.code, KMF_ENOMEM);
    }
    kmf_mem_fail_at(0);
    leave(&p);
    /* threads get their work through a queue */
    p = place_of(&kinds[3], 3);
    kmf_mlm_batch batch;
    kmf_err err = {0};
    kmf_mem_fail_at(1);
    n = BATCH;
    ck_assert_int_eq(try_draw(&p, &batch, 0, 0, &n, &err), KMF_ENOMEM);
    kmf_mem_fail_at(0);
    ck_assert_int_eq(err.code, KMF_ENOMEM);
    ck_assert_int_eq(try_draw(&p, &batch, 0, 0, &n, NULL), 0);
    ck_assert_uint_eq(n, BATCH);
    leave(&p);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    tcase_add_test(tcase, a_batch_is_what_slicing_makes_of_its_windows);
    tcase_add_test(tcase, a_fixed_set_ends);
    tcase_add_test(tcase, mutations_come_as_often_as_asked_for);
    tcase_add_test(tcase, drift_comes_before_the_mutations);
    tcase_add_test(tcase, what_is_asked_for_is_what_the_mutations_made);
    tcase_add_test(tcase, bits_are_those_of_adding_up_all_k_mers);
    tcase_add_test(tcase, bits_of_knowing_and_of_guessing);
    tcase_add_test(tcase, baselines_are_those_of_asking_base_by_base);
    tcase_add_test(tcase, threads_do_not_change_a_bit);
    tcase_add_test(tcase, sites_tell_the_letters_of_every_word);
    tcase_add_test(tcase, every_allocation_may_fail);
    return run_case("masker", tcase);
}
