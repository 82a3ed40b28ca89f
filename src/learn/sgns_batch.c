/* SPDX-License-Identifier: MIT */
/*
 * From a stretch of the corpus to examples.
 *
 *   letters -> tokens -> windows -> examples
 *
 * Tokens. Those that start in the stretch are centres. window * stride letters on either side are
 * read as well, so that windows are whole (four times as many with --sample, where windows may yet
 * end early); a window ends where its segment does. What is drawn for a token
 * (its length, whether it stays) hangs on its place in the corpus, so neighbouring batches see the
 * same sentence.
 *
 * Noise. word2vec draws fresh noise words for each pair. Here a part of a batch, of PART centres,
 * draws a pool of PART words, and its examples take theirs from the pool in turn: each noise word
 * has the distribution of word2vec's, but the rows of a part fit the first-level cache, where those
 * of the whole table do not. A noise word equal to the true target is left out, as in word2vec.
 *
 * Order. Skip-gram goes over a part by distance: each centre with its neighbours at distance 1 on
 * both sides, which are one example and share the noise; then each with those at distance 2; and so
 * on. Examples next to each other so have little in common, and the processor works on several at
 * once. CBOW, whose windows overlap, goes over the whole batch in strides of a part for the same
 * reason.
 */
#include "learn/sgns_batch.h"

#include "base/mem.h"
#include "words/kmer.h"

#include <assert.h>
#include <string.h>

#define PART 16
/* Indices copied at once, some beyond the last that is wanted. */
#define CHUNK 8
/* With --sample words drop out, and a window reaches further. */
#define SAMPLE_REACH 4

/*
 * Streams of random numbers in an epoch: those of batches begin at the first number of stream
 * 2 epoch, each batch's own by its number; those of places at that of stream 2 epoch + 1, by the
 * letter's number. All windows of a batch are drawn before its first pool.
 */
enum { OF_BATCH, OF_PLACE };

typedef struct token {
    uint32_t word;
    uint32_t sentence;
    uint32_t input;  /* place of its row in the batch */
    uint32_t target; /* that of its row as a target; centres only */
    bool in_pool;    /* its word is among the noise; centres only  */
} token;

/* The tokens of a centre's window: beg .. end - 1, itself among them. */
typedef struct window {
    size_t beg, end;
} window;

struct kmf_sgns_sampler {
    const kmf_sgns_plan *plan; /* borrowed */
    uint8_t *letters;          /* owned [cap_letters] */
    size_t cap_letters;
    token *tokens; /* owned [cap_tokens] */
    size_t n_tokens, cap_tokens;
    size_t first_centre, n_centres;
    window *windows;   /* owned [most_centres]: of the centres */
    uint32_t *place;   /* owned [2 words]: where a row is in the batch's list, if it is */
    uint32_t *indices; /* owned [cap_indices]: rows of the examples */
    size_t n_indices, cap_indices;
    uint32_t pool_rows[PART + KMF_SGNS_TARGETS_MAX + CHUNK]; /* of the noise, over and over */
};

static size_t reach_letters(const kmf_sgns_plan *s)
{
    return (size_t)s->window * s->stride * (s->keep ? SAMPLE_REACH : 1);
}

/* Letters whose k-mers are the centres of a batch. */
static uint64_t stretch(const kmf_sgns_plan *s)
{
    return (uint64_t)KMF_SGNS_BATCH_TOKENS * s->stride;
}

uint64_t kmf_sgns_plan_batches(const kmf_sgns_plan *plan)
{
    const kmf_sgns_plan *s = plan;
    kmf_corpus_info info;
    kmf_corpus_information(s->corpus, &info);
    return (info.kept + stretch(s) - 1) / stretch(s) * s->frames * s->strands;
}

/* Tokens are a stride apart, or a k-mer where a segment ends and another begins. */
static bool tokens_crowd(const kmf_sgns_plan *s)
{
    return s->stride > (size_t)s->lexicon->k_min;
}

void kmf_sgns_plan_measure(kmf_sgns_plan *plan)
{
    kmf_sgns_plan *s = plan;
    uint64_t k = (uint64_t)s->lexicon->k_min;
    uint64_t batch = 0;
    size_t n = 0; /* centres of that batch */
    s->most_centres = KMF_SGNS_BATCH_TOKENS;
    for (uint64_t segment = 0; tokens_crowd(s) && segment < s->n_segments; segment++) {
        uint64_t at = kmf_corpus_start(s->corpus, segment);
        uint64_t end = kmf_corpus_start(s->corpus, segment + 1);
        for (; at + k <= end; at += s->stride) {
            n = at / stretch(s) == batch ? n + 1 : 1;
            batch = at / stretch(s);
            if (n > s->most_centres)
                s->most_centres = n;
        }
    }
}

static size_t most_tokens(const kmf_sgns_plan *s)
{
    size_t beside = reach_letters(s) / s->stride + 1;
    if (tokens_crowd(s))
        beside = (reach_letters(s) / (size_t)stretch(s) + 1) * s->most_centres;
    return s->most_centres + 2 * beside;
}

/* That count; room is for one more, which is written and not accepted. */
static size_t most_examples(const kmf_sgns_plan *s)
{
    return s->most_centres * (s->cbow ? 1 : 2 * (size_t)s->window);
}

kmf_sgns_sampler *kmf_sgns_sampler_new(const kmf_sgns_plan *plan, kmf_err *err)
{
    const kmf_sgns_plan *s = plan;
    kmf_sgns_sampler *t = kmf_calloc(1, sizeof *t, err);
    if (!t)
        return NULL;
    size_t inputs = s->most_centres * 2 * (size_t)s->window;
    size_t targets = (most_examples(s) + 2) * (size_t)(1 + s->negative);
    t->plan = s;
    t->cap_letters = (size_t)stretch(s) + 2 * reach_letters(s) + (size_t)s->lexicon->k_max;
    t->cap_tokens = most_tokens(s);
    t->cap_indices = inputs + 2 + targets + CHUNK;
    t->letters = kmf_malloc(t->cap_letters, sizeof *t->letters, err);
    t->tokens = kmf_malloc(t->cap_tokens, sizeof *t->tokens, err);
    t->windows = kmf_malloc(s->most_centres, sizeof *t->windows, err);
    t->place = kmf_large_zeroed(2 * (size_t)s->lexicon->n, sizeof *t->place, err);
    t->indices = kmf_malloc(t->cap_indices, sizeof *t->indices, err);
    if (t->letters && t->tokens && t->windows && t->place && t->indices)
        return t;
    kmf_sgns_sampler_free(t);
    return NULL;
}

void kmf_sgns_sampler_free(kmf_sgns_sampler *sampler)
{
    if (!sampler)
        return;
    kmf_free(sampler->letters);
    kmf_free(sampler->tokens);
    kmf_free(sampler->windows);
    kmf_free(sampler->place);
    kmf_free(sampler->indices);
    kmf_free(sampler);
}

/* Those of the tokens, of the centres as targets and of the noise, PART words at a time. */
static size_t most_rows(const kmf_sgns_plan *s)
{
    size_t pools = s->cbow ? PART : kmf_div_up(s->most_centres, PART);
    return most_tokens(s) + s->most_centres + pools * PART;
}

size_t kmf_sgns_batch_floats(const kmf_sgns_plan *plan)
{
    return most_rows(plan) * plan->ld;
}

int kmf_sgns_batch_make(kmf_sgns_batch *batch, const kmf_sgns_plan *plan, float *values,
                        kmf_err *err)
{
    *batch = (kmf_sgns_batch){
        .values = values, .cap_rows = most_rows(plan), .cap_examples = most_examples(plan) + 1};
    batch->rows = kmf_malloc(batch->cap_rows, sizeof *batch->rows, err);
    batch->examples = kmf_malloc(batch->cap_examples, sizeof *batch->examples, err);
    batch->by_owner = kmf_malloc(batch->cap_rows, sizeof *batch->by_owner, err);
    batch->owner_beg = kmf_calloc(plan->owners + 1, sizeof *batch->owner_beg, err);
    if (batch->rows && batch->examples && batch->by_owner && batch->owner_beg)
        return 0;
    kmf_sgns_batch_clear(batch);
    return KMF_ENOMEM;
}

void kmf_sgns_batch_clear(kmf_sgns_batch *batch)
{
    kmf_free(batch->rows);
    kmf_free(batch->examples);
    kmf_free(batch->by_owner);
    kmf_free(batch->owner_beg);
    *batch = (kmf_sgns_batch){0};
}

/* ---------------------------------------------------------------- tokens ---------------- */

/* Random numbers of a place in the corpus, in an epoch. */
static kmf_rng at_place(const kmf_sgns_plan *s, uint64_t epoch, uint64_t place)
{
    kmf_rng rng = kmf_rng_stream(s->seed, 2 * epoch + OF_PLACE);
    return kmf_rng_stream(kmf_rng_next(&rng), place);
}

/*
 * The token at letter `at` of a segment that ends at `end`; false if there is none: the length that
 * is drawn does not fit, or the word is dropped, which is drawn next. letters[0] is letter `at`.
 */
static bool read_token(const kmf_sgns_plan *s, const uint8_t *letters, uint64_t epoch,
                       uint64_t at, uint64_t end, bool reverse, uint32_t *word)
{
    const kmf_lexicon *lexicon = s->lexicon;
    int k = lexicon->k_min;
    kmf_rng rng = {0};
    if (s->keep || k < lexicon->k_max)
        rng = at_place(s, epoch, at);
    if (k < lexicon->k_max)
        k += (int)kmf_rng_below(&rng, (uint64_t)(lexicon->k_max - k) + 1);
    if (at + (uint64_t)k > end)
        return false;
    uint64_t code = 0;
    for (int i = 0; i < k; i++)
        code = code << lexicon->alphabet->bits | letters[i];
    *word = kmf_lexicon_word(lexicon, reverse ? kmf_revcomp_of(code, k) : code, k);
    return !s->keep || kmf_rng_next(&rng) >> 32 < s->keep[*word];
}

/*
 * Reads letters beg .. end - 1 and the tokens that start there; those from core_beg to core_end - 1
 * are centres.
 */
static void read_tokens(kmf_sgns_sampler *t, uint64_t epoch, uint64_t core_beg,
                        uint64_t core_end, size_t frame, bool reverse)
{
    const kmf_sgns_plan *s = t->plan;
    size_t reach = reach_letters(s);
    uint64_t all = kmf_corpus_start(s->corpus, s->n_segments);
    uint64_t beg = core_beg > reach ? core_beg - reach : 0;
    uint64_t end = all - core_end > reach ? core_end + reach : all;
    uint64_t tail = (uint64_t)s->lexicon->k_max - 1;
    uint64_t stop = all - end > tail ? end + tail : all;
    uint32_t sentence = 0;
    kmf_corpus_letters(s->corpus, t->letters, beg, (size_t)(stop - beg));
    t->n_tokens = t->first_centre = t->n_centres = 0;
    for (uint64_t segment = kmf_corpus_segment(s->corpus, beg); segment < s->n_segments;
         segment++, sentence++) {
        uint64_t first = kmf_corpus_start(s->corpus, segment);
        uint64_t last = kmf_corpus_start(s->corpus, segment + 1);
        if (first >= end)
            break;
        uint64_t at = first + frame;
        if (at < beg)
            at += (beg - at + s->stride - 1) / s->stride * s->stride;
        for (; at < last && at < end; at += s->stride) {
            uint32_t word;
            if (!read_token(s, t->letters + (at - beg), epoch, at, last, reverse, &word))
                continue;
            if (at < core_beg)
                t->first_centre++;
            else if (at < core_end)
                t->n_centres++;
            assert(t->n_tokens < t->cap_tokens);
            t->tokens[t->n_tokens++] = (token){.word = word, .sentence = sentence};
        }
    }
}

/* ---------------------------------------------------------------- examples -------------- */

/*
 * The place of a row of the table in the batch, which takes it in if it is new. The row is sent
 * for: by the time that it is copied it has come into a cache.
 */
static uint32_t place_of(kmf_sgns_sampler *t, kmf_sgns_batch *batch, uint32_t row)
{
    uint32_t place = t->place[row];
    if (place < batch->n_rows && batch->rows[place] == row)
        return place;
    assert(batch->n_rows < batch->cap_rows);
    place = (uint32_t)batch->n_rows++;
    batch->rows[place] = row;
    t->place[row] = place;
    kmf_rows_prefetch(t->plan->table + row * t->plan->ld, t->plan->ld);
    return place;
}

/* Gives every token its rows, so that neighbours lie side by side. */
static void place_tokens(kmf_sgns_sampler *t, kmf_sgns_batch *batch)
{
    uint32_t words = t->plan->lexicon->n;
    for (size_t i = 0; i < t->n_tokens; i++) {
        token *x = &t->tokens[i];
        x->input = place_of(t, batch, x->word);
        if (i >= t->first_centre && i - t->first_centre < t->n_centres)
            x->target = place_of(t, batch, words + x->word);
    }
}

/* As far as drawn, and to the ends of the sentence. */
static void draw_windows(kmf_sgns_sampler *t, kmf_rng *rng)
{
    for (size_t i = 0; i < t->n_centres; i++) {
        size_t centre = t->first_centre + i;
        size_t reach = 1 + (size_t)kmf_rng_below(rng, (uint64_t)t->plan->window);
        window w = {centre, centre + 1};
        uint32_t sentence = t->tokens[centre].sentence;
        while (w.beg > 0 && centre - w.beg < reach && t->tokens[w.beg - 1].sentence == sentence)
            w.beg--;
        while (w.end < t->n_tokens && w.end - centre <= reach &&
               t->tokens[w.end].sentence == sentence)
            w.end++;
        t->windows[i] = w;
    }
}

static void fill_pool(kmf_sgns_sampler *t, kmf_sgns_batch *batch, kmf_rng *rng)
{
    for (int i = 0; i < PART; i++) {
        uint32_t word = kmf_noise_draw(t->plan->noise, kmf_rng_next(rng));
        t->pool_rows[i] = place_of(t, batch, t->plan->lexicon->n + word);
    }
    /* as far as the last turn reaches, a chunk at a time */
    for (int i = PART; i < PART + t->plan->negative + CHUNK; i++)
        t->pool_rows[i] = t->pool_rows[i - PART];
}

/* Indices of an example with n_inputs rows: it takes them whether all are needed or not. */
static size_t n_indices_of(const kmf_sgns_plan *s, uint32_t n_inputs)
{
    return n_inputs + 1 + (size_t)s->negative;
}

/*
 * Writes the example of a centre and the n_inputs rows that stand at the end of the indices. It
 * counts once it is accepted.
 */
static void write_example(kmf_sgns_sampler *t, kmf_sgns_batch *batch, size_t centre,
                          uint32_t n_inputs, unsigned turn)
{
    const token *c = &t->tokens[centre];
    uint32_t negative = (uint32_t)t->plan->negative;
    const uint32_t *noise = t->pool_rows + turn % PART;
    uint32_t *inputs = t->indices + t->n_indices;
    uint32_t *targets = inputs + n_inputs;
    uint32_t n = 1 + negative;
    targets[0] = c->target;
    for (uint32_t i = 0; i < negative; i += CHUNK)
        memcpy(targets + 1 + i, noise + i, CHUNK * sizeof *noise);
    if (c->in_pool) {
        n = 1;
        for (uint32_t i = 0; i < negative; i++)
            if (noise[i] != c->target)
                targets[n++] = noise[i];
    }
    batch->examples[batch->n_examples] = (kmf_sgns_example){
        .inputs = inputs, .targets = targets, .n_inputs = n_inputs, .n_targets = n};
}

/* yes: 1, or 0 for an example that is not to be: without a branch, which nobody could predict. */
static void accept_example(kmf_sgns_sampler *t, kmf_sgns_batch *batch, uint32_t n_inputs,
                           uint32_t yes, unsigned *turn)
{
    t->n_indices += yes * n_indices_of(t->plan, n_inputs);
    batch->n_pairs += yes * (t->plan->cbow ? 1 : n_inputs);
    batch->n_examples += yes;
    *turn += yes * (unsigned)t->plan->negative;
}

/* Notes whether a centre's own word is among the noise. */
static void look_in_pool(kmf_sgns_sampler *t, size_t centre)
{
    token *c = &t->tokens[centre];
    bool found = false;
    for (int i = 0; i < PART; i++)
        found |= t->pool_rows[i] == c->target;
    c->in_pool = found;
}

/* Token `other`, if it is in the window of the i-th centre, as another input. Returns how many. */
static uint32_t add_input(kmf_sgns_sampler *t, uint32_t n, size_t i, size_t other)
{
    bool in = other >= t->windows[i].beg && other < t->windows[i].end;
    t->indices[t->n_indices + n] = t->tokens[in ? other : t->first_centre].input;
    return n + in;
}

static void skip_gram(kmf_sgns_sampler *t, kmf_sgns_batch *batch, kmf_rng *rng)
{
    for (size_t part = 0; part < t->n_centres; part += PART) {
        size_t part_end = t->n_centres - part < PART ? t->n_centres : part + PART;
        unsigned turn = 0;
        fill_pool(t, batch, rng);
        for (size_t i = part; i < part_end; i++)
            look_in_pool(t, t->first_centre + i);
        for (size_t d = 1; d <= (size_t)t->plan->window; d++)
            for (size_t i = part; i < part_end; i++) {
                size_t centre = t->first_centre + i;
                uint32_t n = 0;
                n = add_input(t, n, i, centre + d);
                n = add_input(t, n, i, centre - d); /* may wrap: outside */
                write_example(t, batch, centre, n, turn);
                accept_example(t, batch, n, n > 0, &turn);
            }
    }
}

static void cbow(kmf_sgns_sampler *t, kmf_sgns_batch *batch, kmf_rng *rng)
{
    for (size_t first = 0; first < PART; first++) {
        unsigned turn = 0;
        fill_pool(t, batch, rng);
        for (size_t i = first; i < t->n_centres; i += PART) {
            size_t centre = t->first_centre + i;
            uint32_t n = 0;
            for (size_t j = t->windows[i].beg; j < t->windows[i].end; j++)
                if (j != centre)
                    t->indices[t->n_indices + n++] = t->tokens[j].input;
            look_in_pool(t, centre);
            write_example(t, batch, centre, n, turn);
            accept_example(t, batch, n, n > 0, &turn);
        }
    }
}

void kmf_sgns_sampler_prepare(kmf_sgns_sampler *sampler, kmf_sgns_batch *batch, uint64_t epoch,
                              uint64_t number)
{
    kmf_sgns_sampler *t = sampler;
    const kmf_sgns_plan *s = t->plan;
    kmf_rng rng = kmf_rng_stream(s->seed, 2 * epoch + OF_BATCH);
    rng = kmf_rng_stream(kmf_rng_next(&rng), number);
    uint64_t all = kmf_corpus_start(s->corpus, s->n_segments);
    uint64_t beg = number / s->strands / s->frames * stretch(s);
    uint64_t end = all - beg > stretch(s) ? beg + stretch(s) : all;
    size_t frame = (size_t)(number / s->strands % s->frames);

    read_tokens(t, epoch, beg, end, frame, number % s->strands == 1);
    batch->n_rows = batch->n_examples = 0;
    batch->n_pairs = 0;
    batch->loss = 0;
    batch->n_tokens = t->n_centres;
    t->n_indices = 0;
    place_tokens(t, batch);
    draw_windows(t, &rng);
    if (s->cbow)
        cbow(t, batch, &rng);
    else
        skip_gram(t, batch, &rng);
}

/* ---------------------------------------------------------------- learning -------------- */

/* Sorts the places by the thread that owns the row: a counting sort. */
static void share_out(kmf_sgns_batch *batch, uint32_t owners)
{
    uint32_t *beg = batch->owner_beg;
    memset(beg, 0, (owners + 1) * sizeof *beg);
    for (size_t i = 0; i < batch->n_rows; i++)
        beg[kmf_row_owner(batch->rows[i], owners) + 1]++;
    for (uint32_t o = 0; o < owners; o++)
        beg[o + 1] += beg[o];
    for (size_t i = 0; i < batch->n_rows; i++)
        batch->by_owner[beg[kmf_row_owner(batch->rows[i], owners)]++] = (uint32_t)i;
    for (uint32_t o = owners; o > 0; o--)
        beg[o] = beg[o - 1];
    beg[0] = 0;
}

void kmf_sgns_batch_learn(kmf_sgns_batch *batch, const kmf_sgns_plan *plan, float alpha,
                          bool want_loss)
{
    size_t ld = plan->ld;
    for (size_t i = 0; i < batch->n_rows; i++)
        memcpy(batch->values + i * ld, plan->table + batch->rows[i] * ld,
               ld * sizeof *batch->values);
    kmf_sgns_learn(batch->values, ld, batch->examples, batch->n_examples, plan->cbow, alpha,
                   want_loss ? &batch->loss : NULL);
    share_out(batch, plan->owners);
}

void kmf_sgns_batch_skip(kmf_sgns_batch *batch, const kmf_sgns_plan *plan)
{
    batch->n_rows = batch->n_examples = 0;
    batch->n_tokens = batch->n_pairs = 0;
    batch->loss = 0;
    share_out(batch, plan->owners);
}
