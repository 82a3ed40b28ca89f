/* SPDX-License-Identifier: MIT */
/*
 * Mean vectors of k-mers: against a twin that slices strings and looks words up one after the
 * other, in fixed point and in doubles, and against itself under every setting that must not
 * matter. The files of vectors are written here, as text; test_embed_vectors_hand has small ones.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "checked.h"
#include "kmerformer.h"
#include "levels.h"
#include "rows.h"
#include "run.h"
#include "seqfiles.h"

#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_SEQ 40
#define LONG_FROM 262500 /* more than the windows of a piece */
#define SEQ_MAX (CHECKED ? 265000 : 300000)
#define WORDS_MAX 2048
#define DIM_MAX 149

/* ---------------------------------------------------------------- words ------------------ */

typedef struct lexicon {
    char words[WORDS_MAX][33];
    float vectors[WORDS_MAX][DIM_MAX];
    uint64_t counts[WORDS_MAX];
    size_t n;
    size_t dim;
    bool counted;
} lexicon;

static const char *letters_of(kmf_alphabet alphabet)
{
    return kmf_alphabet_letters(alphabet);
}

static char complement(char c)
{
    return c == 'A' ? 'T' : c == 'C' ? 'G' : c == 'G' ? 'C' : c == 'T' ? 'A' : c;
}

static void revcomp(char *out, const char *seq, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = complement(seq[n - 1 - i]);
    out[n] = '\0';
}

static double random_number(kmf_rng *rng)
{
    return ((double)kmf_rng_below(rng, 2000001) - 1e6) / 3e5;
}

static void add_word(lexicon *x, const char *word, kmf_rng *rng)
{
    ck_assert_uint_lt(x->n, WORDS_MAX);
    strcpy(x->words[x->n], word);
    for (size_t d = 0; d < x->dim; d++)
        x->vectors[x->n][d] = (float)random_number(rng);
    x->counts[x->n] = kmf_rng_below(rng, 4) ? kmf_rng_below(rng, 1000) : 0;
    x->n++;
}

/* All words of k letters, or the canonical ones alone; `keep` of 8, so that some are lacking. */
static void add_words(lexicon *x, kmf_alphabet alphabet, int k, bool canonical, unsigned share,
                      kmf_rng *rng)
{
    const char *letters = letters_of(alphabet);
    size_t base = strlen(letters);
    size_t all = 1;
    for (int i = 0; i < k; i++)
        all *= base;
    for (size_t code = 0; code < all; code++) {
        char word[33];
        char other[33];
        size_t rest = code;
        for (int i = k - 1; i >= 0; i--, rest /= base)
            word[i] = letters[rest % base];
        word[k] = '\0';
        revcomp(other, word, (size_t)k);
        if ((canonical && strcmp(other, word) < 0) || kmf_rng_below(rng, 8) >= share)
            continue;
        add_word(x, word, rng);
    }
}

/* Writes it as text, its counts beside it, and returns the path. */
static const char *write_lexicon(const lexicon *x, const char *name)
{
    char vocab[520];
    const char *path = in_dir(name);
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fprintf(file, "%zu %zu\n", x->n, x->dim);
    for (size_t i = 0; i < x->n; i++) {
        fputs(x->words[i], file);
        for (size_t d = 0; d < x->dim; d++)
            fprintf(file, " %.9g", (double)x->vectors[i][d]);
        fputc('\n', file);
    }
    ck_assert_int_eq(fclose(file), 0);
    snprintf(vocab, sizeof vocab, "%s.vocab", path);
    remove(vocab);
    if (!x->counted)
        return path;
    file = fopen(vocab, "w");
    ck_assert_ptr_nonnull(file);
    for (size_t i = 0; i < x->n; i++)
        fprintf(file, "%s %llu\n", x->words[i], (unsigned long long)x->counts[i]);
    ck_assert_int_eq(fclose(file), 0);
    return path;
}

/* ---------------------------------------------------------------- the twin --------------- */

typedef struct twin {
    int64_t units[DIM_MAX]; /* of the sum */
    int64_t weight;         /* times 2^40 */
    double sum[DIM_MAX];    /* of numbers as they are */
    double plain_weight;
    size_t tokens, ambiguous, unknown;
} twin;

typedef struct how {
    kmf_alphabet alphabet;
    bool canonical, sif;
    int k; /* 0: all */
    size_t stride;
} how;

static size_t find_word(const lexicon *x, const char *word)
{
    size_t i = 0;
    while (i < x->n && (x->words[i][0] != word[0] || strcmp(x->words[i], word) != 0))
        i++; /* the first letter alone, mostly: strcmp is dear where sanitizers watch it */
    return i;
}

static double weight_of(const lexicon *x, size_t row, bool sif)
{
    double total = 0;
    if (!sif)
        return 1;
    for (size_t i = 0; i < x->n; i++)
        if (strlen(x->words[i]) == strlen(x->words[row]))
            total += (double)x->counts[i];
    return 1e-3 / (1e-3 + (double)x->counts[row] / total);
}

/* The word's row, or as many as there are if it has none, or was never seen. */
static size_t row_of(const lexicon *x, const how *h, const char *word)
{
    char other[33];
    revcomp(other, word, strlen(word));
    size_t row = find_word(x, h->canonical && strcmp(other, word) < 0 ? other : word);
    return row < x->n && x->counted && x->counts[row] == 0 ? x->n : row;
}

/*
 * What rows are in fixed point: weights times numbers, in units of 2^-24 of the least power of two
 * above the column's largest; weights rounded to 40 bits behind the point.
 */
typedef struct fixed {
    int64_t weight[WORDS_MAX]; /* times 2^40 */
    int64_t units[WORDS_MAX][DIM_MAX];
    double unit[DIM_MAX];
    double most[DIM_MAX]; /* of magnitudes without a weight */
} fixed;

static void fix_column(fixed *f, const lexicon *x, size_t d)
{
    double most = 0;
    f->most[d] = 0;
    for (size_t row = 0; row < x->n; row++) {
        double w = ldexp((double)f->weight[row], -40);
        most = fmax(most, fabs(w * (double)x->vectors[row][d]));
        f->most[d] = fmax(f->most[d], fabs((double)x->vectors[row][d]));
    }
    f->unit[d] = 0x1p-24;
    while (f->unit[d] * 0x1p24 > most && most > 0)
        f->unit[d] /= 2;
    while (f->unit[d] * 0x1p24 <= most)
        f->unit[d] *= 2;
    for (size_t row = 0; row < x->n; row++) {
        double w = ldexp((double)f->weight[row], -40);
        f->units[row][d] = llrint(w * (double)x->vectors[row][d] / f->unit[d]);
    }
}

static const fixed *fixed_of(const lexicon *x, const how *h)
{
    static fixed f;
    for (size_t row = 0; row < x->n; row++) {
        bool unseen = x->counted && x->counts[row] == 0;
        bool other = h->k != 0 && strlen(x->words[row]) != (size_t)h->k;
        f.weight[row] = unseen || other ? 0 : llround(ldexp(weight_of(x, row, h->sif), 40));
    }
    for (size_t d = 0; d < x->dim; d++)
        fix_column(&f, x, d);
    return &f;
}

static void add_row(twin *t, const lexicon *x, const fixed *f, const how *h, size_t row)
{
    if (row == x->n) {
        t->unknown++;
        return;
    }
    double w = weight_of(x, row, h->sif);
    for (size_t d = 0; d < x->dim; d++) {
        t->units[d] += f->units[row][d];
        t->sum[d] += w * (double)x->vectors[row][d];
    }
    t->weight += f->weight[row];
    t->plain_weight += w;
    t->tokens++;
}

/* The window at seq, which is in upper case and has no U. false: it holds what is no letter. */
static bool read_window(char word[33], twin *t, const how *h, const char *seq, size_t k)
{
    memcpy(word, seq, k);
    word[k] = '\0';
    if (strspn(word, letters_of(h->alphabet)) == k)
        return true;
    t->ambiguous++;
    return false;
}

static twin *twin_of(const lexicon *x, const fixed *f, const how *h, const char *seq)
{
    size_t len = strlen(seq);
    twin *t = calloc(1, sizeof *t);
    char word[33];
    for (size_t k = 1; k <= 32; k++) {
        bool listed = false;
        for (size_t i = 0; i < x->n && !listed; i++)
            listed = strlen(x->words[i]) == k;
        if (!listed || (h->k != 0 && (size_t)h->k != k))
            continue;
        for (size_t at = 0; at + k <= len; at += h->stride)
            if (read_window(word, t, h, seq + at, k))
                add_row(t, x, f, h, row_of(x, h, word));
    }
    return t;
}

/* ---------------------------------------------------------------- input ------------------ */

static char texts[N_SEQ][SEQ_MAX + 1];
static const char *seqs[N_SEQ];

/*
 * Short ones, some of several pieces, lower case, letters that are none of the alphabet, and
 * records without a k-mer.
 */
static void make_input(kmf_alphabet alphabet)
{
    kmf_rng rng = kmf_rng_stream(17, 0);
    const char *letters = alphabet == KMF_DNA ? "ACGTACGTACGTACGTACGTACGTacgtUuNR-"
                                              : "ACDEFGHIKLMNPQRSTVWYaklsvX*B";
    for (size_t i = 0; i < N_SEQ; i++) {
        size_t len = i % 20 == 19 ? LONG_FROM + kmf_rng_below(&rng, SEQ_MAX - LONG_FROM)
                                  : kmf_rng_below(&rng, 90);
        size_t n_letters = i % 2 ? strlen(letters) : 20;
        for (size_t j = 0; j < len; j++)
            texts[i][j] = letters[kmf_rng_below(&rng, n_letters)];
        texts[i][len] = '\0';
        seqs[i] = texts[i];
    }
    texts[3][1] = '\0';
    memset(texts[5], 'N', strlen(texts[5]));
    if (alphabet == KMF_PROTEIN)
        memset(texts[5], 'X', strlen(texts[5]));
    texts[6][0] = '\0';
}

/* In upper case, T for U in DNA; the other strand of it. */
static void plain(char *out, const char *seq, kmf_alphabet alphabet, bool reverse)
{
    static char upper[SEQ_MAX + 1];
    size_t n = strlen(seq);
    for (size_t i = 0; i < n; i++) {
        char c = seq[i] >= 'a' && seq[i] <= 'z' ? (char)(seq[i] - 'a' + 'A') : seq[i];
        upper[i] = alphabet == KMF_DNA && c == 'U' ? 'T' : c;
    }
    upper[n] = '\0';
    if (reverse)
        revcomp(out, upper, n);
    else
        memcpy(out, upper, n + 1);
}

/* ---------------------------------------------------------------- against the twin ------- */

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static double number_of(const twin *t, const fixed *f, size_t d)
{
    return (double)t->units[d] * f->unit[d] / ldexp((double)t->weight, -40);
}

/*
 * How far that may be from the mean of numbers as they are: each is off by half a unit at most, and
 * its weight by 2^-41, which the sum of weights is, too.
 */
static double bound_of(const twin *t, const fixed *f, size_t d)
{
    if (t->tokens == 0)
        return 0;
    return (double)t->tokens / t->plain_weight * (f->unit[d] / 2 + 0x1p-40 * f->most[d]);
}

/* The mean of two strands, or of the one that has a k-mer; NaN if none has. */
static double either(double a, double b)
{
    return isnan(a) ? b : isnan(b) ? a : (a + b) / 2;
}

/* The bits of all rows, and the counts. */
static void check_rows(const lexicon *x, const how *h, const char *path, int strand)
{
    static char strands[2][SEQ_MAX + 1];
    kmf_embed_stats stats;
    kmf_embed_options o = options();
    size_t tokens = 0;
    size_t ambiguous = 0;
    size_t unknown = 0;
    size_t empty = 0;
    const fixed *f = fixed_of(x, h);
    o.strand = strand;
    o.stride = h->stride;
    o.k = h->k;
    o.weights = h->sif ? KMF_WEIGHTS_SIF : -1;
    o.batch_tokens = 64;
    table *t = run(path, &o, seqs, N_SEQ, &stats);
    ck_assert_uint_eq(t->n, N_SEQ);
    ck_assert_uint_eq(t->dim, x->dim);
    o.batch_tokens = 0; /* many in a batch, whose counted words are multiplied together */
    table *together = run(path, &o, seqs, N_SEQ, NULL);
    ck_assert_mem_eq(together->values, t->values, N_SEQ * x->dim * sizeof *t->values);
    ck_assert_mem_eq(together->tokens, t->tokens, N_SEQ * sizeof *t->tokens);
    ck_assert_mem_eq(together->ambiguous, t->ambiguous, N_SEQ * sizeof *t->ambiguous);
    drop(together);
    for (size_t i = 0; i < N_SEQ; i++) {
        twin *of[2];
        for (int s = 0; s < 2; s++) {
            bool wanted = strand == KMF_STRAND_BOTH || strand == s;
            plain(strands[s], seqs[i], h->alphabet, s == 1);
            of[s] = twin_of(x, f, h, wanted ? strands[s] : "");
        }
        for (size_t d = 0; d < x->dim; d++) {
            float want = (float)either(number_of(of[0], f, d), number_of(of[1], f, d));
            float got = t->values[i * x->dim + d];
            if (isnan(want) ? !isnan(got) : memcmp(&want, &got, sizeof got) != 0)
                ck_abort_msg("record %zu, column %zu: %.9g instead of %.9g", i, d, (double)got,
                             (double)want);
            double mean = either(of[0]->sum[d] / of[0]->plain_weight,
                                 of[1]->sum[d] / of[1]->plain_weight);
            if (!isnan(mean))
                ck_assert_double_eq_tol((double)got, mean,
                                        fmax(bound_of(of[0], f, d), bound_of(of[1], f, d)) +
                                            0x1p-24 * fabs(mean));
        }
        size_t n = larger(of[0]->tokens, of[1]->tokens);
        size_t n_ambiguous = larger(of[0]->ambiguous, of[1]->ambiguous);
        ck_assert_uint_eq(t->tokens[i], n);
        ck_assert_uint_eq(t->ambiguous[i], n_ambiguous);
        tokens += n;
        ambiguous += n_ambiguous;
        unknown += larger(of[0]->unknown, of[1]->unknown);
        empty += n == 0;
        free(of[0]);
        free(of[1]);
    }
    ck_assert_uint_eq(stats.records, N_SEQ);
    ck_assert_uint_eq(stats.tokens, tokens);
    ck_assert_uint_eq(stats.ambiguous, ambiguous);
    ck_assert_uint_eq(stats.unknown, unknown);
    ck_assert_uint_eq(stats.empty, empty);
    ck_assert_uint_ge(empty, 2);
    drop(t);
}

typedef struct variant {
    kmf_alphabet alphabet;
    int k_min, k_max;
    bool canonical, counted, sif;
    unsigned share; /* of 8 words that there are */
    int k;
    size_t stride, dim;
    int strand;
} variant;

/* clang-format off */
static const variant variants[] = {
    /*           k     can    count  sif  of 8 -k stride dim */
    {KMF_DNA,     3, 3, false, false, false, 8, 0,    1,   1, KMF_STRAND_FWD},
    {KMF_DNA,     4, 4, false, false, false, 6, 0,    1,  33, KMF_STRAND_RC},
    {KMF_DNA,     4, 4, false, true,  false, 7, 0,    1,   7, KMF_STRAND_BOTH},
    {KMF_DNA,     4, 4, false, true,  true,  8, 0,    1, 100, KMF_STRAND_BOTH},
    {KMF_DNA,     4, 4, false, true,  false, 8, 0,    1,  12, KMF_STRAND_FWD},
    {KMF_DNA,     3, 5, false, false, false, 8, 0,    1,  20, KMF_STRAND_BOTH},
    {KMF_DNA,     1, 4, false, true,  true,  6, 0,    1,  36, KMF_STRAND_FWD},
    {KMF_DNA,     1, 4, false, true,  true,  6, 3,    1,  36, KMF_STRAND_RC},
    {KMF_DNA,     2, 4, false, false, false, 8, 0,    3,   5, KMF_STRAND_BOTH},
    {KMF_DNA,     3, 4, false, true,  false, 8, 0,    1,  10, KMF_STRAND_BOTH},
    {KMF_DNA,     3, 4, true,  false, false, 8, 0,    1,  64, KMF_STRAND_BOTH},
    {KMF_DNA,     4, 4, false, false, false, 8, 0,    1, 149, KMF_STRAND_FWD},
    {KMF_DNA,     3, 4, true,  true,  true,  8, 0,    1, 149, KMF_STRAND_RC},
    {KMF_DNA,     4, 4, true,  true,  true,  8, 0,    7,  13, KMF_STRAND_RC},
    {KMF_DNA,     2, 3, false, false, false, 5, 2, 262143, 8, KMF_STRAND_BOTH},
    {KMF_DNA,     2, 3, false, false, false, 5, 0, 262145, 8, KMF_STRAND_RC},
    {KMF_PROTEIN, 2, 2, false, true,  true,  7, 0,    1,  20, KMF_STRAND_FWD},
    {KMF_PROTEIN, 1, 2, false, false, false, 7, 0,    2,  20, KMF_STRAND_FWD},
};
/* clang-format on */

enum { N_VARIANTS = sizeof variants / sizeof variants[0] };

/* Its words and sequences. */
static void make_variant(lexicon *x, int i)
{
    const variant *v = &variants[i];
    kmf_rng rng = kmf_rng_stream(3, (uint64_t)i);
    make_input(v->alphabet);
    x->n = 0;
    x->dim = v->dim;
    x->counted = v->counted;
    for (int k = v->k_min; k <= v->k_max; k++)
        add_words(x, v->alphabet, k, v->canonical, v->share, &rng);
}

START_TEST(rows_have_the_bits_of_a_mean_made_of_strings)
{
    static lexicon x;
    const variant *v = &variants[_i];
    how h = {v->alphabet, v->canonical, v->sif, v->k, v->stride};
    make_variant(&x, _i);
    check_rows(&x, &h, write_lexicon(&x, "x.vec"), v->strand);
}
END_TEST

/* For levels to be compared. */
START_TEST(a_checksum_of_all_rows_is_printed)
{
    static lexicon x;
    uint64_t sum = 14695981039346656037u;
    for (int i = 0; i < N_VARIANTS; i++) {
        const variant *v = &variants[i];
        kmf_embed_options o = options();
        o.strand = v->strand;
        o.stride = v->stride;
        o.k = v->k;
        o.weights = v->sif ? KMF_WEIGHTS_SIF : -1;
        make_variant(&x, i);
        table *t = run(write_lexicon(&x, "x.vec"), &o, seqs, N_SEQ, NULL);
        for (size_t j = 0; j < N_SEQ * t->dim; j++) {
            uint32_t bits;
            memcpy(&bits, &t->values[j], sizeof bits);
            sum = (sum ^ (isnan(t->values[j]) ? 0 : bits)) * 1099511628211u;
        }
        drop(t);
    }
    printf("%016llx\n", (unsigned long long)sum);
}
END_TEST

static const char *bits_part(void)
{
    TCase *tcase = untimed_case();
    tcase_add_checked_fixture(tcase, make_dir, remove_dir);
    tcase_add_test(tcase, a_checksum_of_all_rows_is_printed);
    return run_case("bits", tcase) == EXIT_SUCCESS ? NULL : "it fails";
}

static const levels_part parts[] = {{"bits", bits_part}};

/* Counts are multiplied by bytes or by halves, or each row is added as often as it occurs. */
START_TEST(all_levels_give_the_same_bits)
{
    char usual[256] = "";
    levels_run("bits", "", usual);
    ck_assert_str_ne(usual, "");
    for (int i = 1; i < N_DIGITS + 1; i++) {
        char other[256] = "";
        levels_run("bits", i < N_DIGITS ? levels_digits[i] : "KMERFORMER_CPU=baseline", other);
        ck_assert_str_eq(usual, other);
    }
}
END_TEST

/* Of words too long for a table. */
START_TEST(words_of_32_letters_are_found)
{
    static lexicon x;
    kmf_rng rng = kmf_rng_stream(5, 0);
    how h = {.alphabet = KMF_DNA, .stride = 1};
    char upper[SEQ_MAX + 1];
    make_input(KMF_DNA);
    x.n = 0;
    x.dim = 11;
    for (size_t i = 0; i < N_SEQ; i += 2) {
        plain(upper, seqs[i], KMF_DNA, i % 4 == 0);
        for (size_t at = 0; at + 32 <= strlen(upper) && at < 40; at += 9) {
            upper[at + 32] = '\0';
            if (strspn(upper + at, "ACGT") == 32 && find_word(&x, upper + at) == x.n)
                add_word(&x, upper + at, &rng);
            plain(upper, seqs[i], KMF_DNA, i % 4 == 0);
        }
    }
    ck_assert_uint_gt(x.n, 20);
    const char *path = write_lexicon(&x, "x.vec");
    for (int strand = KMF_STRAND_FWD; strand <= KMF_STRAND_BOTH; strand++)
        check_rows(&x, &h, path, strand);
}
END_TEST

/* ---------------------------------------------------------------- what must not matter --- */

/* Words of 1 to 4 letters with counts, some lacking. */
static const char *usual_words(void)
{
    static lexicon x;
    kmf_rng rng = kmf_rng_stream(29, 0);
    x.n = 0;
    x.dim = 37;
    x.counted = true;
    for (int k = 1; k <= 4; k++)
        add_words(&x, KMF_DNA, k, false, 7, &rng);
    return write_lexicon(&x, "usual.vec");
}

static void check_settings(const char *path, kmf_embed_options o)
{
    static const size_t batches[] = {64, 1000, 40000, 100000};
    o.threads = 1;
    table *reference = run(path, &o, seqs, N_SEQ, NULL);
    for (int threads = 1; threads <= 3; threads += 2)
        for (size_t b = 0; b < sizeof batches / sizeof batches[0]; b++) {
            o.threads = threads;
            o.batch_tokens = batches[b];
            table *t = run(path, &o, seqs, N_SEQ, NULL);
            assert_same(t, reference);
            drop(t);
        }
    o.n_shards = 3;
    for (o.shard = 0; o.shard < 3; o.shard++) {
        table *t = run(path, &o, seqs, N_SEQ, NULL);
        for (size_t i = 0; i < t->n; i++) {
            ck_assert_uint_eq(t->index[i], o.shard + 3 * i);
            ck_assert_int_eq(memcmp(t->values + i * t->dim,
                                    reference->values + t->index[i] * t->dim,
                                    t->dim * sizeof(float)),
                             0);
        }
        drop(t);
    }
    drop(reference);
}

START_TEST(threads_batches_and_shards_change_no_bit)
{
    make_input(KMF_DNA);
    const char *path = usual_words();
    kmf_embed_options o = options();
    check_settings(path, o);
    o.weights = KMF_WEIGHTS_SIF;
    o.strand = KMF_STRAND_BOTH;
    o.stride = 3;
    check_settings(path, o);
    o.norm = KMF_NORM_L2;
    o.strand = KMF_STRAND_RC;
    o.k = 4;
    check_settings(path, o);
}
END_TEST

/* More pieces in a batch than are added at a time, some counted and some not: as each alone. */
START_TEST(many_short_records_are_as_each_alone)
{
    enum { KINDS = 61, LETTERS = 90, RECORDS = 3000 };
    static char kinds[KINDS][LETTERS + 1];
    static const char *records[RECORDS];
    kmf_rng rng = kmf_rng_stream(71, 0);
    kmf_embed_options o = options();
    table *alone[KINDS];
    const char *path = usual_words();
    o.threads = 1;
    for (size_t i = 0; i < KINDS; i++) {
        size_t n = 4 + (size_t)kmf_rng_below(&rng, LETTERS - 3);
        for (size_t j = 0; j < n; j++)
            kinds[i][j] = "ACGT"[kmf_rng_below(&rng, 4)];
        const char *one = kinds[i];
        alone[i] = run(path, &o, &one, 1, NULL);
    }
    for (size_t i = 0; i < RECORDS; i++)
        records[i] = kinds[i % KINDS];
    table *t = run(path, &o, records, RECORDS, NULL);
    ck_assert_uint_eq(t->n, RECORDS);
    for (size_t i = 0; i < RECORDS; i++)
        ck_assert_msg(memcmp(t->values + i * t->dim, alone[i % KINDS]->values,
                             t->dim * sizeof(float)) == 0,
                      "record %zu", i);
    for (size_t i = 0; i < KINDS; i++)
        drop(alone[i]);
    drop(t);
}
END_TEST

START_TEST(both_strands_make_a_sequence_and_its_reverse_complement_equal)
{
    static char rc_texts[N_SEQ][SEQ_MAX + 1];
    const char *rc[N_SEQ];
    make_input(KMF_DNA);
    for (size_t i = 0; i < N_SEQ; i++) {
        plain(rc_texts[i], seqs[i], KMF_DNA, true);
        rc[i] = rc_texts[i];
    }
    const char *path = usual_words();
    for (size_t stride = 1; stride <= 5; stride += 2)
        for (int weights = KMF_WEIGHTS_NONE; weights <= KMF_WEIGHTS_SIF; weights++) {
            kmf_embed_options o = options();
            o.stride = stride;
            o.weights = weights;
            o.strand = KMF_STRAND_BOTH;
            table *a = run(path, &o, seqs, N_SEQ, NULL);
            table *b = run(path, &o, rc, N_SEQ, NULL);
            assert_same(a, b);
            drop(b);
            o.strand = KMF_STRAND_RC;
            b = run(path, &o, rc, N_SEQ, NULL);
            o.strand = KMF_STRAND_FWD;
            table *c = run(path, &o, seqs, N_SEQ, NULL);
            assert_same(b, c);
            ck_assert_int_ne(memcmp(a->values, c->values, a->n * a->dim * sizeof *a->values),
                             0);
            drop(a);
            drop(b);
            drop(c);
        }
}
END_TEST

START_TEST(a_newline_is_a_letter_that_is_none)
{
    const char *two[] = {"ACGTAC-GTACGGT", "ACGTAC\nGTACGGT"};
    kmf_embed_stats s;
    for (size_t stride = 1; stride <= 3; stride++) {
        kmf_embed_options o = options();
        o.stride = stride;
        o.k = 3;
        table *t = run(usual_words(), &o, two, 2, &s);
        ck_assert_int_eq(memcmp(t->values, t->values + t->dim, t->dim * sizeof *t->values), 0);
        ck_assert_uint_eq(t->ambiguous[0], t->ambiguous[1]);
        ck_assert_uint_eq(t->ambiguous[0], stride == 1 ? 3 : stride == 2 ? 2 : 1);
        drop(t);
    }
}
END_TEST

/* ---------------------------------------------------------------- the rest --------------- */

START_TEST(an_embedder_tells_what_it_is)
{
    kmf_embed_options o = options();
    kmf_vectors_info info;
    const char *path = usual_words();
    kmf_embedder *e = kmf_embedder_new(path, &o, NULL);
    ck_assert_ptr_nonnull(e);
    ck_assert_str_eq(kmf_embedder_name(e), path);
    ck_assert_ptr_null(kmf_embedder_model(e));
    ck_assert_uint_eq(kmf_embedder_dim(e), 37);
    info = *kmf_embedder_vectors(e);
    ck_assert_int_eq(info.k_max, 4);
    ck_assert_uint_gt(kmf_embedder_bytes(e), info.n * info.dim * sizeof(float));
    kmf_embedder_options(e, &o);
    ck_assert_int_eq(o.k, 0);
    ck_assert_int_eq(o.weights, KMF_WEIGHTS_NONE);
    ck_assert_int_eq(o.pooling, KMF_POOL_MEAN);
    ck_assert_int_eq(o.strand, KMF_STRAND_FWD);
    ck_assert_int_eq(o.norm, KMF_NORM_NONE);
    ck_assert_int_eq(o.ambiguous, KMF_AMBIGUOUS_SKIP);
    ck_assert_uint_eq(o.stride, 1);
    kmf_embedder_free(e);
    o = options();
    e = kmf_embedder_new("tnf", &o, NULL);
    ck_assert_ptr_null(kmf_embedder_vectors(e));
    kmf_embedder_free(e);
}
END_TEST

START_TEST(no_batch_and_no_record_takes_memory)
{
    kmf_embed_options o = options();
    make_input(KMF_DNA);
    o.batch_tokens = 64;
    kmf_embedder *e = kmf_embedder_new(usual_words(), &o, NULL);
    ck_assert_ptr_nonnull(e);
    kmf_embedder_sink(e, ignore, NULL);
    for (int warm = 0; warm < 5; warm++)
        add_all(e, seqs, N_SEQ);
    kmf_mem_fail_at(0);
    add_all(e, seqs, N_SEQ);
    ck_assert_uint_eq(kmf_mem_count(), 0);
    kmf_embedder_free(e);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 2)
        return levels_child(parts, 1, argv);
    TCase *tcase = untimed_case();
    tcase_add_checked_fixture(tcase, make_dir, remove_dir);
    tcase_add_loop_test(tcase, rows_have_the_bits_of_a_mean_made_of_strings, 0, N_VARIANTS);
    tcase_add_test(tcase, all_levels_give_the_same_bits);
    tcase_add_test(tcase, words_of_32_letters_are_found);
    tcase_add_test(tcase, threads_batches_and_shards_change_no_bit);
    tcase_add_test(tcase, many_short_records_are_as_each_alone);
    tcase_add_test(tcase, both_strands_make_a_sequence_and_its_reverse_complement_equal);
    tcase_add_test(tcase, a_newline_is_a_letter_that_is_none);
    tcase_add_test(tcase, an_embedder_tells_what_it_is);
    tcase_add_test(tcase, no_batch_and_no_record_takes_memory);
    return run_case("embed_vectors", tcase);
}
