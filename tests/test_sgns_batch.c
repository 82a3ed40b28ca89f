/* SPDX-License-Identifier: MIT */
/*
 * Second source: sentences listed by hand from corpora in which no k-mer occurs twice, so that a
 * word tells its place. What is drawn is read from the examples and tested: it must be one of the
 * things that can be drawn, and all of them as often as they should.
 */
#include "learn/sgns_batch.h"

#include "base/mem.h"
#include "checked.h"
#include "chisquare.h"
#include "run.h"

#include <string.h>

#define LETTERS_MAX 4000
#define SEGMENTS_MAX 400
#define WINDOW_MAX 20
#define NONE UINT32_MAX

/* ---------------------------------------------------------------- settings -------------- */

typedef struct setting {
    kmf_alphabet alphabet;
    int k_min, k_max;
    bool canonical;
    size_t stride, frames, strands;
    int window, negative;
    bool cbow;
} setting;

/* A setting, the corpus it is applied to and what batches are made with. */
typedef struct school {
    setting set;
    uint8_t letters[LETTERS_MAX]; /* of the corpus */
    size_t n_letters;
    size_t starts[SEGMENTS_MAX + 1];
    size_t n_segments;
    kmf_corpus *corpus;
    kmf_lexicon lexicon;
    kmf_noise noise;
    double *weights;
    float *table, *values;
    kmf_sgns_plan plan;
    kmf_sgns_sampler *sampler;
    kmf_sgns_batch batch;
} school;

/* The word of k letters at a place, read on a strand: letter by letter. */
static uint32_t word_at(const school *s, size_t place, int k, bool reverse)
{
    uint64_t code = 0;
    uint64_t other = 0;
    int bits = s->set.alphabet == KMF_DNA ? 2 : 5;
    for (int i = 0; i < k; i++) {
        code = code << bits | s->letters[place + (size_t)i];
        other = other << bits | (3 - s->letters[place + (size_t)(k - 1 - i)]);
    }
    if (s->set.canonical)
        code = code < other ? code : other;
    return kmf_lexicon_word(&s->lexicon, reverse ? other : code, k);
}

/* Letters of segments, separated in the corpus by one that is none or by the end of a record. */
static void fill_corpus(school *s)
{
    static char text[LETTERS_MAX + SEGMENTS_MAX];
    const char *names = kmf_alphabet_letters(s->set.alphabet);
    size_t n = 0;
    s->corpus = kmf_corpus_new(s->set.alphabet, (size_t)s->set.k_min, 1 << 30, NULL, NULL);
    ck_assert_ptr_nonnull(s->corpus);
    for (size_t i = 0; i < s->n_segments; i++) {
        for (size_t at = s->starts[i]; at < s->starts[i + 1]; at++)
            text[n++] = names[s->letters[at]];
        if (i % 3 == 1 && i + 1 < s->n_segments) {
            text[n++] = i % 2 ? 'X' : '-';
            continue;
        }
        ck_assert_int_eq(kmf_corpus_add(s->corpus, text, n, NULL), 0);
        n = 0;
    }
    ck_assert_int_eq(kmf_corpus_finish(s->corpus, NULL), 0);
    kmf_corpus_info info;
    kmf_corpus_information(s->corpus, &info);
    ck_assert_uint_eq(info.kept, s->n_letters);
    ck_assert_uint_eq(info.segments, s->n_segments);
}

static void make_lexicon(school *s, const setting *set)
{
    *s = (school){.set = *set};
    ck_assert_int_eq(kmf_lexicon_make(&s->lexicon, set->alphabet, set->k_min, set->k_max,
                                      set->canonical, NULL),
                     0);
}

/* Noise by weights, which are taken over; NULL: all words alike. keep: as kmf_sgns_plan. */
static void open_school(school *s, double *weights, const uint32_t *keep)
{
    const setting *set = &s->set;
    uint32_t words = s->lexicon.n;
    fill_corpus(s);
    s->weights = weights ? weights : kmf_malloc(words, sizeof *weights, NULL);
    for (uint32_t w = 0; !weights && w < words; w++)
        s->weights[w] = 1;
    ck_assert_int_eq(kmf_noise_make(&s->noise, s->weights, words, NULL), 0);
    s->table = kmf_calloc(2 * (size_t)words * 16, sizeof *s->table, NULL);
    s->plan = (kmf_sgns_plan){.corpus = s->corpus,
                              .n_segments = s->n_segments,
                              .lexicon = &s->lexicon,
                              .noise = &s->noise,
                              .keep = keep,
                              .stride = set->stride,
                              .frames = set->frames,
                              .strands = set->strands,
                              .window = set->window,
                              .negative = set->negative,
                              .cbow = set->cbow,
                              .seed = 7,
                              .table = s->table,
                              .ld = 16,
                              .owners = 3};
    kmf_sgns_plan_measure(&s->plan);
    s->values = kmf_floats(kmf_sgns_batch_floats(&s->plan), NULL);
    ck_assert_int_eq(kmf_sgns_batch_make(&s->batch, &s->plan, s->values, NULL), 0);
    s->sampler = kmf_sgns_sampler_new(&s->plan, NULL);
    ck_assert_ptr_nonnull(s->sampler);
}

static void close_school(school *s)
{
    kmf_sgns_sampler_free(s->sampler);
    kmf_sgns_batch_clear(&s->batch);
    kmf_free(s->values);
    kmf_free(s->table);
    kmf_free(s->weights);
    kmf_noise_clear(&s->noise);
    kmf_lexicon_clear(&s->lexicon);
    kmf_corpus_free(s->corpus);
}

/* The row of the table that a place in the batch stands for. */
static uint32_t row_of(const kmf_sgns_batch *batch, uint32_t place)
{
    return place < batch->n_rows ? batch->rows[place] : NONE;
}

/* ---------------------------------------------------------------- corpora --------------- */

/* Whether a word is its own reverse complement. */
static bool is_palindrome(const school *s, size_t place)
{
    bool same = s->set.alphabet == KMF_DNA;
    size_t k = (size_t)s->set.k_min;
    for (size_t i = 0; i < k; i++)
        same &= s->letters[place + i] == 3 - s->letters[place + k - 1 - i];
    return same;
}

/*
 * Segments of all lengths from k_min on, in which no word of k_min letters, nor its reverse
 * complement, occurs twice; so no longer one does. Segments end where every letter would repeat.
 */
static void unique_corpus(school *s, size_t n, size_t longest, uint64_t seed)
{
    kmf_rng rng = kmf_rng_stream(seed, 1);
    int k = s->set.k_min;
    bool dna = s->set.alphabet == KMF_DNA;
    uint64_t n_letters = dna ? 4 : 20;
    bool *used = kmf_calloc(s->lexicon.n, sizeof *used, NULL);
    size_t length = 0; /* of the segment under way */
    size_t goal = 0;
    int tries = 0;
    while (s->n_letters < n && s->n_segments < SEGMENTS_MAX - 1) {
        s->letters[s->n_letters] = (uint8_t)kmf_rng_below(&rng, n_letters);
        length++;
        s->n_letters++;
        if (length < (size_t)k)
            continue;
        size_t place = s->n_letters - (size_t)k;
        uint32_t word = word_at(s, place, k, false);
        uint32_t other = dna && !s->set.canonical ? word_at(s, place, k, true) : word;
        bool old = used[word] || used[other] || is_palindrome(s, place);
        if (!old) {
            used[word] = used[other] = true;
            tries = 0;
        } else {
            size_t back = length == (size_t)k ? (size_t)k : 1;
            s->n_letters -= back;
            length -= back;
            if (back == 1 && ++tries > 20)
                goal = length;
        }
        if (length == 0 || length < goal)
            continue;
        s->n_segments++;
        s->starts[s->n_segments] = s->n_letters;
        length = 0;
        tries = 0;
        goal = s->n_segments % 4 == 0 ? longest : (size_t)k + s->n_segments % 23;
    }
    s->n_letters -= length < (size_t)k ? length : 0;
    if (length >= (size_t)k)
        s->n_segments++;
    s->starts[s->n_segments] = s->n_letters;
    kmf_free(used);
}

/* ---------------------------------------------------------------- what is expected ------ */

/* What the batches of one strand and frame said. */
typedef struct said {
    uint32_t *place_of_word;     /* owned [words]: place * (lengths) + length, or NONE */
    uint32_t word[LETTERS_MAX];  /* of the token at a place, as a centre */
    uint32_t batch[LETTERS_MAX]; /* in which it was one */
    uint32_t n_inputs[LETTERS_MAX];
    uint32_t inputs[LETTERS_MAX][2 * WINDOW_MAX];
    size_t wrong;
    uint64_t tokens, pairs;
} said;

static void learn_places(said *all, const school *s, bool reverse)
{
    uint32_t lengths = (uint32_t)(s->set.k_max - s->set.k_min + 1);
    all->place_of_word = kmf_malloc(s->lexicon.n, sizeof *all->place_of_word, NULL);
    for (uint32_t w = 0; w < s->lexicon.n; w++)
        all->place_of_word[w] = NONE;
    for (size_t segment = 0; segment < s->n_segments; segment++)
        for (size_t at = s->starts[segment]; at < s->starts[segment + 1]; at++)
            for (uint32_t l = 0; l < lengths; l++) {
                int k = s->set.k_min + (int)l;
                if (at + (size_t)k > s->starts[segment + 1])
                    continue;
                uint32_t word = word_at(s, at, k, reverse);
                quick_assert(all->place_of_word[word] == NONE);
                all->place_of_word[word] = (uint32_t)at;
            }
}

static void note_example(said *all, const school *s, uint32_t number, const kmf_sgns_example *x)
{
    const kmf_sgns_batch *batch = &s->batch;
    uint32_t words = s->lexicon.n;
    uint32_t target = row_of(batch, x->targets[0]);
    uint32_t negative = (uint32_t)s->set.negative;
    all->wrong += target < words || target >= 2 * words;
    all->wrong += x->n_targets < 1 || x->n_targets > 1 + negative;
    all->wrong += x->n_inputs < 1 || (!s->set.cbow && x->n_inputs > 2);
    for (uint32_t j = 1; j < x->n_targets; j++) {
        uint32_t noise = row_of(batch, x->targets[j]);
        all->wrong += noise < words || noise >= 2 * words || noise == target;
    }
    uint32_t at = all->wrong ? NONE : all->place_of_word[target - words];
    if (at == NONE || (all->word[at] != NONE && all->word[at] != target - words) ||
        (all->batch[at] != NONE && all->batch[at] != number)) {
        all->wrong++;
        return;
    }
    all->word[at] = target - words;
    all->batch[at] = number;
    for (uint32_t i = 0; i < x->n_inputs; i++) {
        uint32_t input = row_of(batch, x->inputs[i]);
        if (input < words && all->n_inputs[at] < 2 * WINDOW_MAX)
            all->inputs[at][all->n_inputs[at]++] = input;
        else
            all->wrong++;
    }
}

/* Whether the inputs of a centre, in any order, are the n tokens before and behind it. */
static bool inputs_are(const said *all, size_t centre, const uint32_t *tokens, size_t n,
                       size_t i, size_t reach)
{
    size_t expected = 0;
    for (size_t j = i > reach ? i - reach : 0; j < n && j <= i + reach; j++) {
        size_t found = 0;
        for (uint32_t x = 0; j != i && x < all->n_inputs[centre]; x++)
            found += all->inputs[centre][x] == all->word[tokens[j]];
        if (j != i && found != 1)
            return false;
        expected += j != i;
    }
    return expected == all->n_inputs[centre];
}

/*
 * One sentence: tokens that must be there are, and each has the neighbours of one reach or
 * another. Counts the reaches that are certain, and the lengths at places where all fit.
 */
static void check_sentence(said *all, const school *s, size_t segment, size_t frame,
                           uint64_t *reaches, uint64_t *lengths)
{
    static uint32_t tokens[LETTERS_MAX];
    size_t n = 0;
    size_t end = s->starts[segment + 1];
    size_t window = (size_t)s->set.window;
    size_t n_places = 0;
    for (size_t at = s->starts[segment] + frame; at + (size_t)s->set.k_min <= end;
         at += s->set.stride, n_places++) {
        bool sure = at + (size_t)s->set.k_max <= end;
        if (all->word[at] != NONE)
            tokens[n++] = (uint32_t)at;
        if (sure && all->word[at] != NONE)
            for (int k = s->set.k_min; k <= s->set.k_max; k++)
                lengths[k] += all->word[at] >= s->lexicon.first[k] &&
                              all->word[at] < s->lexicon.first[k + 1];
        /* alone in its sentence, a token has no example */
        if (sure && all->word[at] == NONE && at + (size_t)s->set.k_max + s->set.stride <= end)
            all->wrong++;
    }
    if (s->set.k_min == s->set.k_max)
        all->wrong += n != (n_places < 2 ? 0 : n_places);
    for (size_t i = 0; i < n; i++) {
        size_t found = 0;
        size_t reach = 0;
        for (size_t r = 1; r <= window; r++)
            if (inputs_are(all, tokens[i], tokens, n, i, r)) {
                found++;
                reach = r;
            }
        all->wrong += found == 0;
        if (i >= window && i + window < n) {
            all->wrong += found != 1;
            reaches[reach]++;
        }
    }
}

/* Every batch of a strand and frame; then every sentence. */
static void check_group(school *s, size_t strand, size_t frame, uint64_t epoch,
                        uint64_t *reaches, uint64_t *lengths)
{
    static said all;
    const setting *set = &s->set;
    uint64_t n = kmf_sgns_plan_batches(&s->plan);
    all = (said){0};
    memset(all.word, 0xff, sizeof all.word);
    memset(all.batch, 0xff, sizeof all.batch);
    learn_places(&all, s, strand == 1);
    ck_assert_uint_eq(n % (set->strands * set->frames), 0);
    for (uint64_t number = frame * set->strands + strand; number < n;
         number += set->strands * set->frames) {
        uint64_t inputs = 0;
        kmf_sgns_sampler_prepare(s->sampler, &s->batch, epoch, number);
        for (size_t i = 0; i < s->batch.n_examples; i++) {
            note_example(&all, s, (uint32_t)number, &s->batch.examples[i]);
            inputs += s->batch.examples[i].n_inputs;
        }
        all.tokens += s->batch.n_tokens;
        all.pairs += s->batch.n_pairs;
        all.wrong += s->batch.n_pairs != (set->cbow ? s->batch.n_examples : inputs);
    }
    uint64_t places = 0;
    for (size_t segment = 0; segment < s->n_segments; segment++) {
        check_sentence(&all, s, segment, frame, reaches, lengths);
        for (size_t at = s->starts[segment] + frame;
             at + (size_t)set->k_min <= s->starts[segment + 1]; at += set->stride)
            places++;
    }
    if (set->k_min == set->k_max)
        ck_assert_uint_eq(all.tokens, places);
    ck_assert_uint_gt(all.pairs, 0);
    ck_assert_uint_eq(all.wrong, 0);
    kmf_free(all.place_of_word);
}

static void check_setting(const setting *set, size_t n, size_t longest)
{
    static school s;
    uint64_t reaches[WINDOW_MAX + 1] = {0};
    uint64_t lengths[KMF_K_MAX + 1] = {0};
    double expected[KMF_K_MAX + 1] = {0};
    uint64_t sum = 0;
    make_lexicon(&s, set);
    unique_corpus(&s, n, longest, 1);
    open_school(&s, NULL, NULL);
    for (uint64_t epoch = 0; epoch < 3; epoch++)
        for (size_t strand = 0; strand < set->strands; strand++)
            for (size_t frame = 0; frame < set->frames; frame++)
                check_group(&s, strand, frame, epoch, reaches, lengths);
    for (int r = 1; r <= set->window; r++)
        sum += reaches[r];
    for (int r = 1; r <= set->window; r++)
        expected[r] = (double)sum / set->window;
    if (set->window > 1 && sum >= 16 * (uint64_t)set->window)
        chi_square_test("reach", reaches, expected, (size_t)set->window + 1);
    sum = 0;
    for (int k = set->k_min; k <= set->k_max; k++)
        sum += lengths[k];
    for (int k = 0; k <= KMF_K_MAX; k++)
        expected[k] =
            k < set->k_min || k > set->k_max ? 0 : (double)sum / (set->k_max - set->k_min + 1);
    if (set->k_max > set->k_min && sum >= 100)
        chi_square_test("length", lengths, expected, KMF_K_MAX + 1);
    close_school(&s);
}

/* ---------------------------------------------------------------- tests: pairs ---------- */

static const setting plain = {.alphabet = KMF_DNA,
                              .k_min = 6,
                              .k_max = 6,
                              .stride = 1,
                              .frames = 1,
                              .strands = 1,
                              .window = 5,
                              .negative = 5};

START_TEST(every_token_is_a_centre_once_and_has_its_neighbours)
{
    for (int cbow = 0; cbow <= 1; cbow++)
        for (int window = 1; window <= WINDOW_MAX; window += 1 + window / 2) {
            setting set = plain;
            set.window = window;
            set.cbow = cbow;
            check_setting(&set, 1500, 300);
        }
}
END_TEST

START_TEST(any_number_of_noise_words_goes_with_them)
{
    for (int cbow = 0; cbow <= 1; cbow++)
        for (int negative = 1; negative <= 63; negative += negative < 20 ? 1 : 7) {
            setting set = plain;
            set.negative = negative;
            set.cbow = cbow;
            check_setting(&set, 300, 200);
        }
}
END_TEST

START_TEST(strides_begin_with_the_segment)
{
    for (size_t stride = 2; stride <= 6; stride++)
        for (size_t strands = 1; strands <= 2; strands++) {
            setting set = plain;
            set.stride = stride;
            set.strands = strands;
            check_setting(&set, 1800, 900);
        }
}
END_TEST

START_TEST(frames_are_sentences_of_k_mers_end_to_end)
{
    for (int k = 5; k <= 7; k++) {
        setting set = plain;
        set.k_min = set.k_max = k;
        set.stride = set.frames = (size_t)k;
        set.window = 3;
        set.strands = k == 6 ? 2 : 1;
        set.cbow = k == 7;
        check_setting(&set, k == 5 ? 300 : 1500, 800);
    }
}
END_TEST

START_TEST(both_strands_are_gone_over)
{
    setting set = plain;
    set.strands = 2;
    check_setting(&set, 1200, 300);
    set.cbow = true;
    check_setting(&set, 1200, 300);
}
END_TEST

START_TEST(canonical_words_stand_for_both_strands)
{
    setting set = plain;
    set.canonical = true;
    check_setting(&set, 900, 200);
    set.k_max = 8;
    check_setting(&set, 900, 200);
}
END_TEST

START_TEST(all_lengths_of_a_range_are_equally_likely)
{
    for (int k_max = 7; k_max <= 9; k_max++)
        for (size_t strands = 1; strands <= 2; strands++) {
            setting set = plain;
            set.k_max = k_max;
            set.strands = strands;
            set.stride = k_max == 8 ? 3 : 1;
            check_setting(&set, 1200, 400);
        }
}
END_TEST

START_TEST(proteins_are_words_of_amino_acids)
{
    setting set = plain;
    set.alphabet = KMF_PROTEIN;
    set.k_min = set.k_max = 3;
    check_setting(&set, 2000, 300);
    set.k_max = 4;
    set.cbow = true;
    check_setting(&set, 2000, 300);
    set.k_max = 3;
    set.stride = set.frames = 3;
    check_setting(&set, 2000, 300);
}
END_TEST

/* A stride that skips the rest of most segments: a stretch then holds many of them. */
START_TEST(segments_shorter_than_the_stride_have_one_token_each)
{
    for (int cbow = 0; cbow <= 1; cbow++) {
        setting set = plain;
        set.stride = 40;
        set.cbow = cbow;
        check_setting(&set, 2500, 150);
        set.stride = 400;
        set.k_max = 8;
        check_setting(&set, 2500, 900);
    }
}
END_TEST

/* ---------------------------------------------------------------- tests: chance --------- */

/* Random letters, A the most frequent. */
static void skewed_corpus(school *s, size_t n, size_t n_segments)
{
    kmf_rng rng = kmf_rng_stream(11, n);
    s->n_letters = n;
    s->n_segments = n_segments;
    for (size_t i = 0; i < n; i++)
        s->letters[i] = (uint8_t)("0000012233"[kmf_rng_below(&rng, 10)] - '0');
    for (size_t i = 0; i <= n_segments; i++)
        s->starts[i] = n * i / n_segments;
}

static uint64_t *count_words(const school *s)
{
    uint64_t *counts = kmf_calloc(s->lexicon.n, sizeof *counts, NULL);
    int k = s->set.k_min;
    for (size_t i = 0; i < s->n_segments; i++)
        for (size_t at = s->starts[i]; at + (size_t)k <= s->starts[i + 1]; at++)
            counts[word_at(s, at, k, false)]++;
    return counts;
}

/*
 * The noise of the first example of each batch: fresh draws, of which those that are the true
 * word are left out.
 */
static void check_noise(bool cbow, int negative, uint64_t epochs)
{
    static school s;
    setting set = plain;
    uint64_t seen[64] = {0};
    double expected[64] = {0};
    uint64_t drawn = 0;
    uint64_t left_out = 0;
    double expected_out = 0;
    double sum = 0;
    set.k_min = set.k_max = 3;
    set.cbow = cbow;
    set.negative = negative;
    make_lexicon(&s, &set);
    skewed_corpus(&s, LETTERS_MAX, 3);
    uint64_t *counts = count_words(&s);
    double *weights = kmf_malloc(64, sizeof *weights, NULL);
    for (size_t w = 0; w < 64; w++)
        sum += weights[w] = sqrt((double)counts[w]) * sqrt(sqrt((double)counts[w]));
    open_school(&s, weights, NULL);
    for (uint64_t epoch = 0; epoch < epochs; epoch++)
        for (uint64_t number = 0; number < kmf_sgns_plan_batches(&s.plan); number++) {
            kmf_sgns_sampler_prepare(s.sampler, &s.batch, epoch, number);
            const kmf_sgns_example *x = &s.batch.examples[0];
            uint32_t target = row_of(&s.batch, x->targets[0]) - 64;
            for (uint32_t j = 1; j < x->n_targets; j++)
                seen[row_of(&s.batch, x->targets[j]) - 64]++;
            for (size_t w = 0; w < 64; w++)
                expected[w] += w == target ? 0 : negative * weights[w] / sum;
            drawn += (uint64_t)negative;
            left_out += (uint64_t)negative + 1 - x->n_targets;
            expected_out += negative * weights[target] / sum;
        }
    chi_square_test("noise", seen, expected, 64);
    double off = (double)left_out - expected_out;
    chi_square_passes("left out", off * off / expected_out, 1);
    ck_assert_uint_gt(drawn, 20000);
    kmf_free(counts);
    close_school(&s);
}

START_TEST(noise_words_are_drawn_by_the_power_of_their_counts)
{
    check_noise(false, 5, 400);
    check_noise(true, 5, 400);
    check_noise(false, 16, 200);
}
END_TEST

/*
 * Tokens that are kept are centres of an example, but for those without a neighbour. Centres that
 * occur n times are kept by n independent draws.
 */
START_TEST(sampling_keeps_a_word_as_often_as_it_should)
{
    static school s;
    setting set = plain;
    uint32_t keep[64];
    uint64_t seen[64] = {0};
    const double t = 0.0035;
    const uint64_t epochs = CHECKED ? 30 : 100;
    double sum = 0;
    double fewest = 1;
    set.k_min = set.k_max = 3;
    set.window = 1;
    make_lexicon(&s, &set);
    skewed_corpus(&s, LETTERS_MAX, 3);
    uint64_t *counts = count_words(&s);
    uint64_t all = 0;
    for (size_t w = 0; w < 64; w++)
        all += counts[w];
    for (size_t w = 0; w < 64; w++) {
        double f = (double)counts[w] / (double)all;
        double p = fmin(sqrt(t / f) + t / f, 1);
        keep[w] = p < 1 ? (uint32_t)(p * 0x1p32) : UINT32_MAX;
        fewest = fmin(fewest, p);
    }
    ck_assert(fewest < 0.5);
    open_school(&s, NULL, keep);
    for (uint64_t epoch = 0; epoch < epochs; epoch++)
        for (uint64_t number = 0; number < kmf_sgns_plan_batches(&s.plan); number++) {
            kmf_sgns_sampler_prepare(s.sampler, &s.batch, epoch, number);
            ck_assert(s.batch.n_examples == s.batch.n_tokens);
            for (size_t i = 0; i < s.batch.n_examples; i++)
                seen[row_of(&s.batch, s.batch.examples[i].targets[0]) - 64]++;
        }
    double freedom = 0;
    for (size_t w = 0; w < 64; w++) {
        double p = (double)keep[w] * 0x1p-32;
        double n = (double)(counts[w] * epochs);
        double off = (double)seen[w] - n * p;
        if (keep[w] == UINT32_MAX) {
            ck_assert_uint_eq(seen[w], counts[w] * epochs);
            continue;
        }
        sum += off * off / (n * p * (1 - p));
        freedom++;
    }
    ck_assert(freedom > 10 && freedom < 64);
    chi_square_passes("kept", sum, freedom);
    kmf_free(counts);
    close_school(&s);
}
END_TEST

/*
 * Words that are dropped are no tokens: windows reach over them, and a neighbouring batch drops
 * the same ones.
 */
START_TEST(windows_reach_over_words_that_are_dropped)
{
    static school s;
    static said all;
    setting set = plain;
    static uint32_t keep[4096];
    uint64_t reaches[WINDOW_MAX + 1] = {0};
    static uint32_t tokens[LETTERS_MAX];
    set.window = 3;
    make_lexicon(&s, &set);
    unique_corpus(&s, 1500, 700, 2);
    for (size_t w = 0; w < 4096; w++)
        keep[w] = UINT32_MAX / 10 * 7;
    open_school(&s, NULL, keep);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        all = (said){0};
        memset(all.word, 0xff, sizeof all.word);
        memset(all.batch, 0xff, sizeof all.batch);
        learn_places(&all, &s, false);
        for (uint64_t number = 0; number < kmf_sgns_plan_batches(&s.plan); number++) {
            kmf_sgns_sampler_prepare(s.sampler, &s.batch, epoch, number);
            for (size_t i = 0; i < s.batch.n_examples; i++)
                note_example(&all, &s, (uint32_t)number, &s.batch.examples[i]);
        }
        size_t kept = 0;
        for (size_t segment = 0; segment < s.n_segments; segment++) {
            size_t n = 0;
            for (size_t at = s.starts[segment]; at < s.starts[segment + 1]; at++)
                if (all.word[at] != NONE)
                    tokens[n++] = (uint32_t)at;
            kept += n;
            for (size_t i = 0; i < n; i++) {
                size_t found = 0;
                for (size_t r = 1; r <= 3; r++)
                    found += inputs_are(&all, tokens[i], tokens, n, i, r);
                all.wrong += found == 0;
                reaches[1] += found;
            }
        }
        ck_assert_uint_eq(all.wrong, 0);
        ck_assert_uint_gt(kept, s.n_letters / 2);
        ck_assert_uint_lt(kept, s.n_letters * 8 / 10);
        kmf_free(all.place_of_word);
    }
    close_school(&s);
}
END_TEST

/* ---------------------------------------------------------------- tests: the rest ------- */

/* Copies what a batch says, to be compared. */
typedef struct copy {
    size_t n;
    uint32_t numbers[200000];
} copy;

static void write_down(copy *c, const kmf_sgns_batch *batch)
{
    c->n = 0;
    for (size_t i = 0; i < batch->n_examples; i++) {
        const kmf_sgns_example *x = &batch->examples[i];
        ck_assert_uint_lt(c->n + x->n_inputs + x->n_targets + 2, 200000);
        c->numbers[c->n++] = x->n_inputs;
        c->numbers[c->n++] = x->n_targets;
        for (uint32_t j = 0; j < x->n_inputs; j++)
            c->numbers[c->n++] = row_of(batch, x->inputs[j]);
        for (uint32_t j = 0; j < x->n_targets; j++)
            c->numbers[c->n++] = row_of(batch, x->targets[j]);
    }
}

static bool equal(const copy *a, const copy *b)
{
    return a->n == b->n && memcmp(a->numbers, b->numbers, a->n * sizeof *a->numbers) == 0;
}

START_TEST(a_batch_hangs_on_nothing_but_its_epoch_and_number)
{
    static school s;
    static copy first, second, other;
    setting set = plain;
    for (int cbow = 0; cbow <= 1; cbow++) {
        set.cbow = cbow;
        make_lexicon(&s, &set);
        unique_corpus(&s, 1500, 300, 3);
        open_school(&s, NULL, NULL);
        kmf_sgns_sampler_prepare(s.sampler, &s.batch, 1, 4);
        write_down(&first, &s.batch);
        kmf_sgns_sampler_prepare(s.sampler, &s.batch, 2, 4);
        write_down(&other, &s.batch);
        kmf_sgns_sampler_prepare(s.sampler, &s.batch, 1, 5);
        kmf_sgns_sampler_free(s.sampler);
        s.sampler = kmf_sgns_sampler_new(&s.plan, NULL);
        kmf_sgns_sampler_prepare(s.sampler, &s.batch, 1, 4);
        write_down(&second, &s.batch);
        ck_assert(equal(&first, &second));
        ck_assert(!equal(&first, &other));
        s.plan.seed++;
        kmf_sgns_sampler_prepare(s.sampler, &s.batch, 1, 4);
        write_down(&other, &s.batch);
        ck_assert(!equal(&first, &other));
        close_school(&s);
    }
}
END_TEST

START_TEST(learning_changes_the_copies_alone_and_shares_them_out)
{
    static school s;
    setting set = plain;
    make_lexicon(&s, &set);
    unique_corpus(&s, 1500, 300, 4);
    open_school(&s, NULL, NULL);
    size_t rows = 2 * (size_t)s.lexicon.n;
    for (size_t i = 0; i < rows * 16; i++)
        s.table[i] = (float)(i % 101) * 0.01f - 0.5f;
    float *before = kmf_floats(rows * 16, NULL);
    memcpy(before, s.table, rows * 16 * sizeof *before);
    for (uint32_t owners = 1; owners <= 3; owners++) {
        s.plan.owners = owners;
        kmf_sgns_batch *l = &s.batch;
        kmf_sgns_sampler_prepare(s.sampler, l, 0, 2);
        kmf_sgns_batch_learn(l, &s.plan, 0.1f, true);
        ck_assert_mem_eq(before, s.table, rows * 16 * sizeof *before);
        ck_assert(l->loss > 0);
        float *twin = kmf_floats(l->n_rows * 16, NULL);
        double loss = 0;
        for (size_t i = 0; i < l->n_rows; i++) {
            memcpy(twin + i * 16, before + l->rows[i] * 16, 16 * sizeof *twin);
            for (size_t j = 0; j < i; j++)
                if (l->rows[i] == l->rows[j])
                    ck_abort_msg("row %u is listed twice", l->rows[i]);
        }
        kmf_sgns_learn(twin, 16, l->examples, l->n_examples, false, 0.1f, &loss);
        ck_assert_mem_eq(twin, l->values, l->n_rows * 16 * sizeof *twin);
        ck_assert(loss <= l->loss && loss >= l->loss);
        kmf_free(twin);
        size_t wrong = 0;
        ck_assert_uint_eq(l->owner_beg[0], 0);
        ck_assert_uint_eq(l->owner_beg[owners], l->n_rows);
        for (uint32_t o = 0; o < owners; o++)
            for (uint32_t i = l->owner_beg[o]; i < l->owner_beg[o + 1]; i++) {
                wrong += kmf_row_owner(l->rows[l->by_owner[i]], owners) != o;
                wrong += i > l->owner_beg[o] && l->by_owner[i] <= l->by_owner[i - 1];
            }
        ck_assert_uint_eq(wrong, 0);
        kmf_sgns_batch_skip(l, &s.plan);
        ck_assert_uint_eq(l->n_rows + l->n_examples + l->n_tokens + l->n_pairs, 0);
        ck_assert_uint_eq(l->owner_beg[owners], 0);
        ck_assert(l->loss <= 0);
    }
    kmf_free(before);
    close_school(&s);
}
END_TEST

START_TEST(every_owner_has_about_its_share_of_the_rows)
{
    for (uint32_t owners = 1; owners <= 16; owners++) {
        uint32_t n[16] = {0};
        size_t wrong = 0;
        const uint32_t rows = 64 * 4096;
        for (uint32_t row = 0; row < rows; row++) {
            uint32_t o = kmf_row_owner(row, owners);
            wrong += o >= owners || o != kmf_row_owner(row / 64 * 64, owners);
            n[o % 16]++;
        }
        ck_assert_uint_eq(wrong, 0);
        for (uint32_t o = 0; o < owners; o++) {
            ck_assert_uint_gt(n[o], rows / owners * 9 / 10);
            ck_assert_uint_lt(n[o], rows / owners * 11 / 10);
        }
    }
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    static school s;
    make_lexicon(&s, &plain);
    unique_corpus(&s, 300, 100, 5);
    open_school(&s, NULL, NULL);
    for (size_t at = 1; at <= 6; at++) {
        kmf_err err = {0};
        kmf_mem_fail_at(at);
        ck_assert_ptr_null(kmf_sgns_sampler_new(&s.plan, &err));
        ck_assert_int_eq(err.code, KMF_ENOMEM);
    }
    for (size_t at = 1; at <= 4; at++) {
        kmf_err err = {0};
        kmf_sgns_batch batch;
        kmf_mem_fail_at(at);
        ck_assert_int_eq(kmf_sgns_batch_make(&batch, &s.plan, s.values, &err), KMF_ENOMEM);
        ck_assert_int_eq(err.code, KMF_ENOMEM);
    }
    kmf_mem_fail_at(0);
    close_school(&s);
}
END_TEST

int main(void)
{
    TCase *c = untimed_case();
    tcase_add_test(c, every_token_is_a_centre_once_and_has_its_neighbours);
    tcase_add_test(c, any_number_of_noise_words_goes_with_them);
    tcase_add_test(c, strides_begin_with_the_segment);
    tcase_add_test(c, frames_are_sentences_of_k_mers_end_to_end);
    tcase_add_test(c, both_strands_are_gone_over);
    tcase_add_test(c, canonical_words_stand_for_both_strands);
    tcase_add_test(c, all_lengths_of_a_range_are_equally_likely);
    tcase_add_test(c, proteins_are_words_of_amino_acids);
    tcase_add_test(c, segments_shorter_than_the_stride_have_one_token_each);
    tcase_add_test(c, noise_words_are_drawn_by_the_power_of_their_counts);
    tcase_add_test(c, sampling_keeps_a_word_as_often_as_it_should);
    tcase_add_test(c, windows_reach_over_words_that_are_dropped);
    tcase_add_test(c, a_batch_hangs_on_nothing_but_its_epoch_and_number);
    tcase_add_test(c, learning_changes_the_copies_alone_and_shares_them_out);
    tcase_add_test(c, every_owner_has_about_its_share_of_the_rows);
    tcase_add_test(c, every_allocation_may_fail);
    return run_case("batch", c);
}
