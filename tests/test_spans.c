/* SPDX-License-Identifier: MIT */
/*
 * Second sources: what a Python twin draws; the distributions that the process must have, by
 * Pearson's test; a tokeniser that cuts text and looks at every base of every token.
 */
#include "learn/spans.h"

#include "base/mem.h"
#include "checked.h"
#include "chisquare.h"
#include "run.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define LONG 400000
#define K_MAX 8

static uint8_t letters[LONG], seen[LONG], hidden[LONG], soft[LONG];

static void random_letters(size_t n, kmf_rng *rng)
{
    for (size_t i = 0; i < n; i++)
        letters[i] = (uint8_t)kmf_rng_below(rng, 4);
}

static const kmf_spans_options some_options[] = {
    {0.15, 1, 6, 0.8, 0.1}, {0.5, 1, 1, 0.5, 0.5},  {0.02, 3, 3, 1, 0},
    {0.3, 2, 64, 0, 0.25},  {0.25, 1, 2, 0.1, 0.1}, {0.15, 10, 12, 0.6, 0.3},
};
#define N_OPTIONS (sizeof some_options / sizeof some_options[0])

static double mean_length(const kmf_spans_options *o)
{
    return (double)(o->span_min + o->span_max) / 2;
}

/* The chance that a span begins, by halving: the share of masked bases grows with it. */
static double chance_to_begin(const kmf_spans_options *o)
{
    double lo = 0;
    double hi = 1;
    for (int i = 0; i < 60; i++) {
        double s = (lo + hi) / 2;
        double share = s * mean_length(o) / (s * mean_length(o) + (1 - s));
        if (share < o->rate)
            lo = s;
        else
            hi = s;
    }
    return lo;
}

/* ---------------------------------------------------------------- bases ----------------- */

START_TEST(what_is_drawn_is_what_a_python_twin_draws)
{
    static const struct {
        kmf_spans_options opts;
        uint32_t sum;
    } known[] = {{{0.15, 1, 6, 0.8, 0.1}, 0xcb721872},
                 {{0.5, 1, 1, 0.5, 0.5}, 0x25d9694a},
                 {{0.01, 3, 3, 1, 0}, 0x887a7061},
                 {{0.3, 2, 64, 0, 0.25}, 0xde396a4f}};
    for (size_t i = 0; i < 500; i++)
        letters[i] = (uint8_t)((i * 7 + i / 3) % 4);
    for (size_t o = 0; o < sizeof known / sizeof known[0]; o++) {
        uLong sum = crc32(0, NULL, 0);
        kmf_rng rng = kmf_rng_stream(5, 6);
        for (size_t round = 1; round < 60; round++) {
            size_t n = round < 40 ? round : 500;
            kmf_spans_draw(hidden, seen, &known[o].opts, &rng, letters, n);
            sum = crc32(sum, hidden, (uInt)n);
            sum = crc32(sum, seen, (uInt)n);
        }
        ck_assert_uint_eq((uint32_t)sum, known[o].sum);
    }
}
END_TEST

/* Bases 25 and more apart hardly know of each other where spans are short. */
START_TEST(every_base_is_hidden_as_often_the_first_and_the_last_too)
{
    enum { N = 201, APART = 25, ROUNDS = CHECKED ? 4000 : 30000 };
    static const kmf_spans_options opts[] = {{0.15, 1, 6, 0.8, 0.1}, {0.4, 2, 4, 0.8, 0.1}};
    static uint64_t count[N];
    for (size_t o = 0; o < 2; o++) {
        double sum = 0;
        double classes = 0;
        double per_base = opts[o].rate * ROUNDS;
        memset(count, 0, sizeof count);
        for (uint64_t round = 0; round < ROUNDS; round++) {
            kmf_rng rng = kmf_rng_stream(o, round);
            size_t n = kmf_spans_draw(hidden, seen, &opts[o], &rng, letters, N);
            for (size_t i = 0; i < N; i++) {
                count[i] += hidden[i] != KMF_FATE_VISIBLE;
                n -= hidden[i] != KMF_FATE_VISIBLE;
            }
            if (n != 0)
                ck_abort_msg("not the number of hidden bases");
        }
        for (size_t i = 0; i < N; i += APART, classes++) {
            double off = (double)count[i] - per_base;
            sum += off * off / (per_base * (1 - opts[o].rate));
        }
        chi_square_passes("bases of a window", sum, classes);
    }
}
END_TEST

/*
 * Runs of hidden bases are one span, or several that touch:
 * f(L) = p(L) (1 - s) + sum over l < L of p(l) s f(L - l).
 */
static void expect_runs(double *f, size_t n, const kmf_spans_options *o)
{
    double s = chance_to_begin(o);
    double p = 1 / (double)(o->span_max - o->span_min + 1);
    for (size_t L = 0; L < n; L++) {
        f[L] = L >= o->span_min && L <= o->span_max ? (1 - s) * p : 0;
        for (size_t l = o->span_min; l <= o->span_max && l < L; l++)
            f[L] += s * p * f[L - l];
    }
}

START_TEST(spans_and_gaps_are_as_long_as_they_should_be)
{
    enum { MOST = 2000 };
    static uint64_t runs[MOST], gaps[MOST];
    static double expected[MOST];
    for (size_t o = 0; o < N_OPTIONS; o++) {
        const kmf_spans_options *opts = &some_options[o];
        double n_runs = 0;
        double n_gaps = 0;
        double s = chance_to_begin(opts);
        kmf_rng rng = kmf_rng_stream(o, 9);
        memset(runs, 0, sizeof runs);
        memset(gaps, 0, sizeof gaps);
        kmf_spans_draw(hidden, seen, opts, &rng, letters, LONG);
        size_t beg = LONG;
        for (size_t i = 1; i < LONG; i++) {
            bool now = hidden[i] != KMF_FATE_VISIBLE;
            if (now == (hidden[i - 1] != KMF_FATE_VISIBLE))
                continue;
            if (beg < LONG) { /* what ends here did not begin with the window */
                ck_assert(i - beg < MOST);
                (now ? gaps : runs)[i - beg]++;
                *(now ? &n_gaps : &n_runs) += 1;
            }
            beg = i;
        }
        expect_runs(expected, MOST, opts);
        for (size_t i = 0; i < MOST; i++)
            expected[i] *= n_runs;
        chi_square_test("runs of hidden bases", runs, expected, MOST);
        for (size_t i = 0; i < MOST; i++)
            expected[i] = i > 0 ? n_gaps * pow(1 - s, (double)i - 1) * s : 0;
        chi_square_test("gaps", gaps, expected, MOST);
    }
}
END_TEST

/* Spans of one length: runs of hidden bases fall into them. */
START_TEST(a_span_has_one_fate_and_fates_have_their_shares)
{
    static const double shares[][2] = {{0.8, 0.1}, {0.5, 0.5}, {0, 0.3}, {1, 0}, {0, 0}};
    for (size_t o = 0; o < sizeof shares / sizeof shares[0]; o++) {
        enum { LEN = 5 };
        kmf_spans_options opts = {0.3, LEN, LEN, shares[o][0], shares[o][1]};
        kmf_rng rng = kmf_rng_stream(o, 4);
        uint64_t fates[4] = {0};
        uint64_t pairs[16] = {0};
        size_t torn = 0;
        double n = 0;
        size_t last = 0;
        kmf_spans_draw(hidden, seen, &opts, &rng, letters, LONG);
        size_t i = 0;
        while (hidden[i] != KMF_FATE_VISIBLE) /* a span that is cut off */
            i++;
        for (; i + LEN <= LONG; i++) {
            if (hidden[i] == KMF_FATE_VISIBLE)
                continue;
            for (size_t j = 1; j < LEN; j++)
                torn += hidden[i + j] != hidden[i];
            fates[hidden[i]]++;
            pairs[last * 4 + hidden[i]]++;
            last = hidden[i];
            n++;
            i += LEN - 1;
        }
        double expected[4] = {0, n * shares[o][0], n * shares[o][1],
                              n * (1 - shares[o][0] - shares[o][1])};
        double expected_pairs[16];
        for (size_t p = 0; p < 16; p++)
            expected_pairs[p] = expected[p / 4] * expected[p % 4] / n;
        ck_assert_uint_eq(torn, 0);
        for (size_t f = 0; f < 4; f++)
            expected[f] = expected[f] < 1e-6 ? 0 : expected[f];
        if (o > 2)
            ck_assert_uint_eq(fates[o == 3 ? KMF_FATE_MASKED : KMF_FATE_KEPT], (uint64_t)n);
        else
            chi_square_test("fates", fates, expected, 4);
        pairs[0] = pairs[1] = pairs[2] = pairs[3] = 0;
        if (o == 0)
            chi_square_test("fates of two spans", pairs, expected_pairs, 16);
    }
}
END_TEST

START_TEST(only_random_spans_show_other_letters_and_those_are_uniform)
{
    kmf_spans_options opts = {0.4, 1, 6, 0.3, 0.4};
    kmf_rng rng = kmf_rng_stream(3, 4);
    uint64_t pairs[16] = {0};
    double expected[16];
    size_t changed = 0;
    double n = 0;
    random_letters(LONG, &rng);
    kmf_spans_draw(hidden, seen, &opts, &rng, letters, LONG);
    for (size_t i = 0; i < LONG; i++) {
        if (hidden[i] == KMF_FATE_RANDOM) {
            pairs[letters[i] * 4 + seen[i]]++;
            n++;
        } else {
            changed += seen[i] != letters[i];
        }
    }
    for (size_t i = 0; i < 16; i++)
        expected[i] = n / 16;
    ck_assert_uint_eq(changed, 0);
    chi_square_test("letters of random spans", pairs, expected, 16);
}
END_TEST

START_TEST(something_is_hidden_in_every_window)
{
    enum { N = 10, ROUNDS = 20000 };
    kmf_spans_options opts = {0.001, 1, 1, 0.8, 0.1};
    uint64_t places[N] = {0};
    double expected[N];
    size_t empty = 0;
    double n = 0;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        kmf_rng rng = kmf_rng_stream(1, round);
        empty += kmf_spans_draw(hidden, seen, &opts, &rng, letters, 1 + round % 10) == 0;
        if (round % N + 1 != N)
            continue;
        for (size_t i = 0; i < N; i++) {
            places[i] += hidden[i] != KMF_FATE_VISIBLE;
            n += hidden[i] != KMF_FATE_VISIBLE;
        }
    }
    for (size_t i = 0; i < N; i++)
        expected[i] = n / N;
    ck_assert_uint_eq(empty, 0);
    chi_square_test("places of a span that must be", places, expected, N);
    opts.span_min = opts.span_max = KMF_SPAN_MAX;
    kmf_rng rng = kmf_rng_stream(1, 1);
    ck_assert_uint_eq(kmf_spans_draw(hidden, seen, &opts, &rng, letters, 1), 1);
}
END_TEST

START_TEST(options_out_of_range_are_refused)
{
    static const struct {
        kmf_spans_options opts;
        const char *says;
    } bad[] = {
        {{0, 1, 6, 0.8, 0.1}, "share"},           {{0.51, 1, 6, 0.8, 0.1}, "share"},
        {{-0.1, 1, 6, 0.8, 0.1}, "share"},        {{(double)NAN, 1, 6, 0.8, 0.1}, "share"},
        {{0.15, 0, 6, 0.8, 0.1}, "spans"},        {{0.15, 7, 6, 0.8, 0.1}, "spans"},
        {{0.15, 1, 65, 0.8, 0.1}, "spans"},       {{0.15, 1, 6, -0.1, 0.1}, "masked"},
        {{0.15, 1, 6, 0.8, -0.1}, "masked"},      {{0.15, 1, 6, 0.95, 0.1}, "masked"},
        {{0.15, 1, 6, (double)NAN, 0}, "masked"},
    };
    kmf_spans_options opts;
    kmf_spans_options_default(&opts);
    ck_assert_int_eq(kmf_spans_options_check(&opts, NULL), 0);
    for (size_t i = 0; i < N_OPTIONS; i++)
        ck_assert_int_eq(kmf_spans_options_check(&some_options[i], NULL), 0);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        kmf_err err = {0};
        ck_assert_int_eq(kmf_spans_options_check(&bad[i].opts, &err), KMF_EINVAL);
        ck_assert_msg(strstr(err.msg, bad[i].says) != NULL, "%s", err.msg);
    }
}
END_TEST

/* ---------------------------------------------------------------- vocabularies ---------- */

/* Which k-mers the vocabulary made last has. */
static bool present[1 << 2 * K_MAX];

/* All k-mers but about one of `rare` (0: all), and the specials, in an order of its own. */
static kmf_vocab *shuffled_vocab(int k, size_t rare, const char *specials, kmf_rng *rng)
{
    size_t n = (size_t)1 << 2 * k;
    size_t lines = 0;
    size_t len = 0;
    char(*line)[16] = malloc((n + KMF_N_SPECIAL) * sizeof *line);
    char *text = malloc((n + KMF_N_SPECIAL) * sizeof *line);
    for (uint64_t code = 0; code < n; code++) {
        present[code] = !rare || kmf_rng_below(rng, rare) > 0 || code == 0;
        if (present[code])
            kmf_kmer_decode(line[lines++], code, k);
    }
    for (const char *s = specials; *s; s += strcspn(s, "]") + 1)
        snprintf(line[lines++], sizeof *line, "%.*s", (int)strcspn(s, "]") + 1, s);
    for (size_t i = lines; i-- > 0;) {
        char swap[16];
        size_t j = (size_t)kmf_rng_below(rng, i + 1);
        memcpy(swap, line[i], sizeof swap);
        memcpy(line[i], line[j], sizeof swap);
        memcpy(line[j], swap, sizeof swap);
        len += (size_t)sprintf(text + len, "%s\n", line[i]);
    }
    kmf_err err = {0};
    kmf_vocab *vocab = kmf_vocab_parse(text, len, "test", &err);
    ck_assert_msg(vocab != NULL, "%s", err.msg);
    free(line);
    free(text);
    return vocab;
}

#define ALL_SPECIALS "[PAD][UNK][CLS][SEP][MASK]"

START_TEST(a_vocabulary_without_what_is_needed_is_refused)
{
    static const struct {
        const char *specials;
        size_t rare;
        bool framed, good;
        const char *says;
    } cases[] = {
        {"[MASK]", 0, false, true, ""},
        {"[MASK][UNK]", 5, false, true, ""},
        {"[MASK]", 5, false, false, "[UNK]"},
        {"[MASK][CLS][SEP]", 0, true, true, ""},
        {"[MASK][CLS]", 0, true, false, "[CLS] and [SEP]"},
        {"[MASK][SEP]", 0, true, false, "[CLS] and [SEP]"},
        {"[PAD][UNK][CLS][SEP]", 0, true, false, "[MASK]"},
    };
    kmf_rng rng = kmf_rng_stream(8, 8);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kmf_err err = {0};
        kmf_spelling s;
        kmf_vocab *vocab = shuffled_vocab(3, cases[i].rare, cases[i].specials, &rng);
        int status = kmf_spelling_make(&s, vocab, 1, cases[i].framed, &err);
        ck_assert_int_eq(status, cases[i].good ? 0 : KMF_EMODEL);
        ck_assert_msg(strstr(err.msg, cases[i].says) != NULL, "%s", err.msg);
        kmf_vocab_free(vocab);
    }
}
END_TEST

START_TEST(numbers_of_tokens_and_letters_fit_each_other)
{
    kmf_rng rng = kmf_rng_stream(8, 8);
    for (int k = 1; k <= K_MAX; k++) {
        kmf_vocab *vocab = shuffled_vocab(k, 0, ALL_SPECIALS, &rng);
        for (size_t stride = 1; stride <= 12; stride++) {
            kmf_spelling s;
            size_t wrong = 0;
            ck_assert_int_eq(kmf_spelling_make(&s, vocab, stride, stride % 2, NULL), 0);
            for (size_t n = 0; n < 60; n++) {
                size_t kmers = 0;
                while (kmers * stride + (size_t)k <= n)
                    kmers++;
                wrong += kmf_spelling_kmers(&s, n) != kmers;
                wrong += kmf_spelling_tokens(&s, n) != kmers + (stride % 2 ? 2 : 0);
                for (size_t i = 0; i < n; i++) {
                    size_t first, end;
                    kmf_spelling_covers(&s, n, i, &first, &end);
                    wrong += first > end || end > kmers;
                    for (size_t j = 0; j < kmers; j++) {
                        bool covers = j * stride <= i && i < j * stride + (size_t)k;
                        wrong += covers != (j >= first && j < end);
                    }
                }
            }
            for (size_t tokens = s.frame + 1; tokens < 30; tokens++) {
                size_t n = kmf_spelling_letters(&s, tokens);
                wrong += kmf_spelling_tokens(&s, n) != tokens;
                wrong += kmf_spelling_tokens(&s, n - 1) >= tokens;
            }
            ck_assert_uint_eq(wrong, 0);
        }
        kmf_vocab_free(vocab);
    }
}
END_TEST

/* ---------------------------------------------------------------- tokens ---------------- */

#define MOST_LETTERS 160

static int32_t ids[MOST_LETTERS + 3], labels[MOST_LETTERS + 3];
static float weights[MOST_LETTERS + 3];
static uint32_t asked[MOST_LETTERS];

static void spell(char *text, const uint8_t *from, size_t k)
{
    for (size_t i = 0; i < k; i++)
        text[i] = "ACGT"[from[i]];
    text[k] = '\0';
}

/* Whether id is that of the k-mer, or `otherwise` if the vocabulary lacks it. */
static bool is_kmer(const kmf_spelling *s, int32_t id, const char *text, int32_t otherwise)
{
    uint64_t code;
    ck_assert(kmf_kmer_encode(&code, text, (int)s->k) == 0);
    if (!present[code])
        return id == otherwise;
    return id >= 0 && strcmp(kmf_vocab_token(s->vocab, id), text) == 0;
}

static bool is_token(const kmf_spelling *s, int32_t id, const char *text)
{
    return id >= 0 && strcmp(kmf_vocab_token(s->vocab, id), text) == 0;
}

/* Token by token, base by base. Returns what is wrong. */
static size_t check_tokens(const kmf_spelling *s, const kmf_question *q, size_t n_labels)
{
    size_t wrong = 0;
    size_t kmers = kmf_spelling_kmers(s, q->n);
    for (size_t j = 0; j < kmers; j++) {
        const uint8_t *fates = q->hidden + j * s->stride;
        size_t at = j + s->lead;
        size_t masked = 0;
        size_t touched = 0;
        double weight = 0;
        char truth[K_MAX + 1], shown[K_MAX + 1];
        for (size_t i = 0; i < s->k; i++) {
            masked += fates[i] == KMF_FATE_MASKED;
            touched += fates[i] != KMF_FATE_VISIBLE;
            if (fates[i] != KMF_FATE_VISIBLE)
                weight += q->soft && q->soft[j * s->stride + i] ? (double)q->soft_weight : 1;
        }
        spell(truth, q->letters + j * s->stride, s->k);
        spell(shown, q->seen + j * s->stride, s->k);
        if (masked)
            wrong += !is_token(s, ids[at], "[MASK]");
        else
            wrong += !is_kmer(s, ids[at], touched ? shown : truth, s->unk);
        wrong += touched ? !is_kmer(s, labels[at], truth, -1) : labels[at] != -1;
        weight = labels[at] >= 0 ? weight / (double)touched : 0;
        wrong += fabs((double)weights[at] - weight) > 1e-6;
        n_labels -= labels[at] >= 0;
    }
    if (s->frame)
        wrong += !is_token(s, ids[0], "[CLS]") || !is_token(s, ids[kmers + 1], "[SEP]") ||
                 labels[0] != -1 || labels[kmers + 1] != -1 || weights[0] > 0 ||
                 weights[kmers + 1] > 0;
    return wrong + (n_labels != 0);
}

/* The bases that the input's tokens spell, as text; what was asked; what can be read. */
static size_t check_bases(const kmf_spelling *s, const kmf_question *q)
{
    size_t wrong = 0;
    size_t n_asked = 0;
    size_t kmers = kmf_spelling_kmers(s, q->n);
    size_t n = kmf_spelling_asked(s, q, labels, asked);
    for (size_t i = 0; i < q->n; i++) {
        bool shown = false;
        bool labelled = false;
        for (size_t j = 0; j < kmers; j++) {
            if (i < j * s->stride || i >= j * s->stride + s->k)
                continue;
            const char *text = kmf_vocab_token(s->vocab, ids[j + s->lead]);
            labelled |= labels[j + s->lead] >= 0;
            if (text[0] == '[')
                continue;
            shown = true;
            wrong += text[i - j * s->stride] != "ACGT"[q->seen[i]];
        }
        wrong += shown != kmf_spelling_readable(s, ids, q->n, i);
        wrong += shown && q->hidden[i] == KMF_FATE_MASKED;
        if (q->hidden[i] != KMF_FATE_VISIBLE && labelled)
            wrong += n_asked >= n || asked[n_asked++] != i;
    }
    return wrong + (n_asked != n);
}

/* Windows of any length, options in turn. Returns how many masked bases there were. */
static uint64_t check_windows(const kmf_spelling *s, size_t windows, kmf_rng *rng)
{
    uint64_t masked = 0;
    for (size_t w = 0; w < windows; w++) {
        size_t n = 1 + (size_t)kmf_rng_below(rng, MOST_LETTERS);
        kmf_question q = {letters, seen, hidden, w % 3 ? soft : NULL, n, 0.25f};
        random_letters(n, rng);
        for (size_t i = 0; i < n; i++)
            soft[i] = (uint8_t)kmf_rng_below(rng, 2);
        kmf_spans_draw(hidden, seen, &some_options[w % N_OPTIONS], rng, letters, n);
        memset(ids, 0x7f, sizeof ids);
        memset(labels, 0x7f, sizeof labels);
        size_t n_labels = kmf_spelling_ask(s, &q, ids, labels, weights);
        size_t tokens = kmf_spelling_tokens(s, n);
        size_t wrong = check_tokens(s, &q, n_labels) + check_bases(s, &q);
        wrong += ids[tokens] != 0x7f7f7f7f || labels[tokens] != 0x7f7f7f7f;
        if (wrong > 0)
            ck_abort_msg("k %zu, stride %zu, %zu letters: %zu wrong", s->k, s->stride, n,
                         wrong);
        for (size_t i = 0; i < n; i++)
            masked += hidden[i] == KMF_FATE_MASKED;
    }
    return masked;
}

START_TEST(tokens_are_a_naive_tokenisers_and_no_masked_base_can_be_read)
{
    kmf_rng rng = kmf_rng_stream(12, 1);
    uint64_t masked = 0;
    for (int k = 1; k <= K_MAX; k++)
        for (size_t rare = 0; rare <= 4; rare += 4) {
            kmf_vocab *vocab = shuffled_vocab(k, rare, ALL_SPECIALS, &rng);
            for (size_t stride = 1; stride <= (size_t)k + 2; stride++)
                for (int framed = 0; framed < 2; framed++) {
                    kmf_spelling s;
                    ck_assert_int_eq(kmf_spelling_make(&s, vocab, stride, framed, NULL), 0);
                    masked += check_windows(&s, CHECKED ? 5 : 60, &rng);
                }
            kmf_vocab_free(vocab);
        }
    ck_assert_uint_gt(masked, CHECKED ? 1000 : 20000);
}
END_TEST

START_TEST(a_window_is_asked_as_by_hand)
{
    /*
     * letters  A C G T A C G T A C      3-mers, stride 2: ACG GTA ACG GTA, which begin at
     * hidden       m       r r   k      0, 2, 4 and 6; base 9 is in none of them
     */
    static const uint8_t l[] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1};
    static const uint8_t h[] = {0, 0, 1, 0, 0, 0, 2, 2, 0, 3};
    static const uint8_t v[] = {0, 1, 2, 3, 0, 1, 3, 3, 0, 1};
    static const uint8_t f[] = {0, 0, 1, 0, 0, 0, 0, 1, 0, 0};
    kmf_question q = {l, v, h, f, 10, 0.5f};
    kmf_vocab *vocab = kmf_vocab_new(3, NULL); /* [MASK] is 4, a k-mer 5 + its code */
    kmf_spelling s;
    ck_assert_int_eq(kmf_spelling_make(&s, vocab, 2, true, NULL), 0);
    ck_assert_uint_eq(kmf_spelling_ask(&s, &q, ids, labels, weights), 4);
    enum { ACG = 5 + 6, GTA = 5 + 44, ACT = 5 + 7, TTA = 5 + 60 };
    static const int32_t expected_ids[] = {2, 4, 4, ACT, TTA, 3};
    static const int32_t expected_labels[] = {-1, ACG, GTA, ACG, GTA, -1};
    static const float expected_weights[] = {0, 0.5f, 0.5f, 1, 0.75f, 0};
    ck_assert_mem_eq(ids, expected_ids, sizeof expected_ids);
    ck_assert_mem_eq(labels, expected_labels, sizeof expected_labels);
    ck_assert_mem_eq(weights, expected_weights, sizeof expected_weights);
    ck_assert_uint_eq(kmf_spelling_asked(&s, &q, labels, asked), 3);
    ck_assert(asked[0] == 2 && asked[1] == 6 && asked[2] == 7);
    static const bool readable[] = {false, false, false, false, true,
                                    true,  true,  true,  true,  false};
    for (size_t i = 0; i < 10; i++)
        ck_assert_msg(kmf_spelling_readable(&s, ids, 10, i) == readable[i], "base %zu", i);
    kmf_vocab_free(vocab);
}
END_TEST

int main(void)
{
    TCase *c = untimed_case();
    tcase_add_test(c, what_is_drawn_is_what_a_python_twin_draws);
    tcase_add_test(c, every_base_is_hidden_as_often_the_first_and_the_last_too);
    tcase_add_test(c, spans_and_gaps_are_as_long_as_they_should_be);
    tcase_add_test(c, a_span_has_one_fate_and_fates_have_their_shares);
    tcase_add_test(c, only_random_spans_show_other_letters_and_those_are_uniform);
    tcase_add_test(c, something_is_hidden_in_every_window);
    tcase_add_test(c, options_out_of_range_are_refused);
    tcase_add_test(c, a_vocabulary_without_what_is_needed_is_refused);
    tcase_add_test(c, numbers_of_tokens_and_letters_fit_each_other);
    tcase_add_test(c, tokens_are_a_naive_tokenisers_and_no_masked_base_can_be_read);
    tcase_add_test(c, a_window_is_asked_as_by_hand);
    return run_case("spans", c);
}
