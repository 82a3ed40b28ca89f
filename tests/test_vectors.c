/* SPDX-License-Identifier: MIT */
/*
 * Second sources: a look-up that goes through all words, cosines by their definition sorted by
 * qsort, and facts written out by hand.
 */
#include "failing.h"
#include "levels.h"
#include "model/vectors.h"
#include "run.h"
#include "tables.h"

#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- making ----------------- */

/* A word for each of the n texts, row i with the vector (i + 1, -i - 1, ...); not indexed. */
static kmf_vectors *of_words(kmf_alphabet alphabet, const char *const *words, size_t n,
                             size_t dim, bool counted)
{
    kmf_err err = {0};
    kmf_vectors *v = kmf_vectors_new(alphabet, n, dim, counted, &err);
    ck_assert_msg(v != NULL, "%s", err.msg);
    for (size_t i = 0; i < n; i++) {
        v->k[i] = (uint8_t)strlen(words[i]);
        ck_assert_int_eq(kmf_alphabet_encode(alphabet, &v->code[i], words[i], v->k[i]), 0);
        for (size_t j = 0; j < dim; j++)
            v->values[i * dim + j] = (float)(i + 1) * (j % 2 ? -1.0f : 1.0f);
        if (counted)
            v->count[i] = i;
    }
    return v;
}

#define N_OF(words) (sizeof(words) / sizeof(words)[0])

typedef struct word_kind {
    kmf_alphabet alphabet;
    int k_min, k_max;
    int canonical;
    size_t n; /* of each length, at most */
} word_kind;

static const word_kind word_kinds[] = {
    {KMF_DNA, 1, 1, 0, 3},      {KMF_DNA, 3, 8, 0, 40},        {KMF_DNA, 8, 8, 0, 60000},
    {KMF_DNA, 9, 9, 0, 300},    {KMF_DNA, 9, 9, 0, 20000},     {KMF_DNA, 7, 12, 1, 5000},
    {KMF_DNA, 21, 21, 1, 9000}, {KMF_DNA, 30, 32, 0, 1000},    {KMF_DNA, 1, 32, 1, 50},
    {KMF_DNA, 32, 32, 1, 1},    {KMF_PROTEIN, 1, 6, 0, 500},   {KMF_PROTEIN, 3, 3, 0, 8000},
    {KMF_DNA, 13, 13, 0, 2},    {KMF_PROTEIN, 4, 4, 0, 70000}, {KMF_DNA, 2, 31, 0, 300},
};

/* Different words in an order of no meaning. */
static kmf_vectors *random_words(const word_kind *which, uint64_t seed)
{
    size_t n = 0;
    size_t most = which->n * (size_t)(which->k_max - which->k_min + 1);
    kmf_vectors *v = kmf_vectors_new(which->alphabet, most, 1, false, NULL);
    ck_assert_ptr_nonnull(v);
    v->info.canonical = which->canonical;
    for (int k = which->k_min; k <= which->k_max; k++) {
        list l =
            random_list(which->alphabet, k, which->canonical, which->n, 1, seed + (unsigned)k);
        for (size_t i = 0; i < l.n; i++, n++) {
            v->code[n] = l.kmers[i].code;
            v->k[n] = (uint8_t)k;
        }
        free_list(&l);
    }
    v->info.n = n;
    for (size_t i = n - 1; i > 0; i--) {
        size_t j = draw(&seed) % (i + 1);
        uint64_t code = v->code[i];
        uint8_t k = v->k[i];
        v->code[i] = v->code[j];
        v->k[i] = v->k[j];
        v->code[j] = code;
        v->k[j] = k;
    }
    for (size_t i = 0; i < n; i++)
        v->values[i] = (float)i;
    return v;
}

/* ---------------------------------------------------------------- look-up ---------------- */

static int64_t find_naively(const kmf_vectors *v, uint64_t code, int k)
{
    uint64_t other = v->info.canonical ? kmf_kmer_revcomp(code, k) : code;
    for (size_t row = 0; row < v->info.n; row++)
        if (v->k[row] == k && (v->code[row] == code || v->code[row] == other))
            return (int64_t)row;
    return -1;
}

START_TEST(every_word_is_found_and_no_other)
{
    const word_kind *which = &word_kinds[_i];
    kmf_err err = {0};
    kmf_vectors *v = random_words(which, 77);
    int status = kmf_vectors_index(v, "x", &err);
    ck_assert_msg(status == 0, "%s", err.msg);
    for (size_t row = 0; row < v->info.n; row++) {
        int k = v->k[row];
        if (kmf_vectors_find(v, v->code[row], k) != (int64_t)row)
            ck_abort_msg("word %zu is not found", row);
        if (which->canonical &&
            kmf_vectors_find(v, kmf_kmer_revcomp(v->code[row], k), k) != (int64_t)row)
            ck_abort_msg("the other strand of word %zu is not found", row);
    }
    uint64_t seed = 5;
    for (int i = 0; i < 500; i++) {
        int span = which->k_max - which->k_min + 1;
        int k = which->k_min + (int)(draw(&seed) % (unsigned)span);
        uint64_t code = draw_code(&seed, which->alphabet, k);
        if (i % 2) /* next to one that is there */
            code = v->code[draw(&seed) % v->info.n] ^ 1;
        int bits = kmf_alphabet_bits(which->alphabet) * k;
        if (bits < 64)
            code &= ((uint64_t)1 << bits) - 1;
        if (kmf_alphabet_round_up(which->alphabet, k, code) == code &&
            kmf_vectors_find(v, code, k) != find_naively(v, code, k))
            ck_abort_msg("code %llx of %d letters", (unsigned long long)code, k);
    }
    kmf_vectors_free(v);
}
END_TEST

START_TEST(what_is_no_kmer_is_not_found)
{
    static const char *const words[] = {"ACG", "T", "GGGTT"};
    static const char *const residues[] = {"MKV", "YYY"};
    kmf_vectors *v = of_words(KMF_DNA, words, 3, 1, false);
    ck_assert_int_eq(kmf_vectors_index(v, "x", NULL), 0);
    ck_assert_int_eq(kmf_vectors_find(v, 6, 3), 0);
    ck_assert_int_eq(kmf_vectors_find(v, 6, 4), -1);
    ck_assert_int_eq(kmf_vectors_find(v, 3, 1), 1);
    for (int k = -2; k <= 40; k++) {
        ck_assert_int_eq(kmf_vectors_find(v, UINT64_MAX, k), -1);
        ck_assert_int_eq(kmf_vectors_find(v, (uint64_t)1 << 63, k), -1);
    }
    ck_assert_int_eq(kmf_vectors_find(v, 6 + 64, 3), -1);
    ck_assert_int_eq(kmf_vectors_find(v, 0, 0), -1);
    kmf_vectors_free(v);
    v = of_words(KMF_PROTEIN, residues, 2, 1, false);
    ck_assert_int_eq(kmf_vectors_index(v, "x", NULL), 0);
    for (uint64_t code = 0; code < 1 << 15; code++) {
        int64_t want = code == v->code[0] ? 0 : code == v->code[1] ? 1 : -1;
        if (kmf_vectors_find(v, code, 3) != want)
            ck_abort_msg("code %llx", (unsigned long long)code);
    }
    ck_assert_int_eq(kmf_vectors_find(v, 1 << 15, 3), -1);
    kmf_vectors_free(v);
}
END_TEST

/* Both forms of the index are taken where they should be. */
START_TEST(an_index_takes_no_more_room_than_its_words_are_worth)
{
    for (size_t i = 0; i < N_OF(word_kinds); i++) {
        kmf_vectors *v = random_words(&word_kinds[i], 1);
        ck_assert_int_eq(kmf_vectors_index(v, "x", NULL), 0);
        for (int k = 0; k <= KMF_K_MAX; k++) {
            const kmf_words *w = &v->words[k];
            int bits = kmf_alphabet_bits(v->info.alphabet) * k;
            bool small = bits <= 16;
            bool filled = bits < 40 && w->n * 16 >= (uint64_t)1 << bits;
            ck_assert_int_eq(w->dense != NULL, w->n > 0 && (small || filled));
            ck_assert_int_eq(w->codes != NULL, w->n > 0 && !w->dense);
        }
        kmf_vectors_free(v);
    }
}
END_TEST

START_TEST(a_word_that_is_listed_twice_is_named)
{
    static const char *const few[] = {"TT", "ACG", "CC", "ACG"};
    static const char *const longer[] = {"ACGTACGTACGTACG", "TTTTTTTTTTTTTTT",
                                         "ACGTACGTACGTACG"};
    kmf_err err = {0};
    kmf_vectors *v = of_words(KMF_DNA, few, 4, 2, false);
    ck_assert_int_eq(kmf_vectors_index(v, "file", &err), KMF_EMODEL);
    ck_assert_str_eq(err.msg, "file: ACG is listed twice, as words 2 and 4");
    kmf_vectors_free(v);
    err = (kmf_err){0};
    v = of_words(KMF_DNA, longer, 3, 2, false);
    ck_assert_int_eq(kmf_vectors_index(v, "file", &err), KMF_EMODEL);
    ck_assert_str_eq(err.msg, "file: ACGTACGTACGTACG is listed twice, as words 1 and 3");
    kmf_vectors_free(v);
}
END_TEST

START_TEST(information_tells_what_the_words_are)
{
    static const char *const words[] = {"ACG", "TTTTT", "GGGG"};
    kmf_vectors_info info;
    char text[KMF_K_MAX + 1];
    for (int counted = 0; counted < 2; counted++) {
        kmf_vectors *v = of_words(KMF_DNA, words, 3, 2, counted);
        ck_assert_int_eq(kmf_vectors_index(v, "x", NULL), 0);
        kmf_vectors_information(v, &info);
        ck_assert_int_eq((int)info.alphabet, KMF_DNA);
        ck_assert_int_eq(info.k_min, 3);
        ck_assert_int_eq(info.k_max, 5);
        ck_assert_int_eq(info.canonical, 0);
        ck_assert_int_eq(info.counted, counted);
        ck_assert_uint_eq(info.n, 3);
        ck_assert_uint_eq(info.dim, 2);
        ck_assert_uint_eq(info.unseen, counted ? 1 : 0);
        ck_assert_uint_eq(info.foreign, 0);
        for (size_t row = 0; row < 3; row++) {
            ck_assert_int_eq(kmf_vectors_word(v, row, text), (int)strlen(words[row]));
            ck_assert_str_eq(text, words[row]);
            ck_assert_uint_eq(kmf_vectors_count(v, row), counted ? row : 0);
            ck_assert(kmf_vectors_row(v, row)[1] == -(float)(row + 1));
        }
        ck_assert_str_eq(kmf_vectors_provenance(v), "");
        ck_assert_int_eq(kmf_vectors_set_provenance(v, "{}", NULL), 0);
        ck_assert_str_eq(kmf_vectors_provenance(v), "{}");
        kmf_vectors_free(v);
    }
    kmf_vectors_free(NULL);
}
END_TEST

/* ---------------------------------------------------------------- canonical -------------- */

static int inferred(kmf_alphabet alphabet, const char *const *words, size_t n)
{
    kmf_err err = {0};
    kmf_vectors *v = of_words(alphabet, words, n, 1, false);
    int status = kmf_vectors_index(v, "x", &err);
    ck_assert_msg(status == 0, "%s", err.msg);
    int canonical = v->info.canonical;
    kmf_vectors_free(v);
    return canonical;
}

START_TEST(all_canonical_kmers_and_no_others_are_taken_for_canonical)
{
    static const char *const one[] = {"C", "A"};
    static const char *const two[] = {"AA", "AC", "AG", "AT", "CA",
                                      "CC", "CG", "GA", "GC", "TA"};
    static const char *const both[] = {"AA", "AC", "AG", "A",  "AT", "CA",
                                       "CC", "CG", "GA", "GC", "C",  "TA"};
    static const char *const all[] = {"A", "C", "G", "T"};
    static const char *const others[] = {"G", "T"};
    static const char *const half[] = {"A", "C", "AA"};
    static const char *const more[] = {"A", "C", "G"};
    static const char *const swapped[] = {"AA", "AC", "AG", "AT", "CA",
                                          "CC", "CG", "GA", "GC", "TT"};
    ck_assert_int_eq(inferred(KMF_DNA, one, N_OF(one)), 1);
    ck_assert_int_eq(inferred(KMF_DNA, two, N_OF(two)), 1);
    ck_assert_int_eq(inferred(KMF_DNA, two, N_OF(two) - 1), 0);
    ck_assert_int_eq(inferred(KMF_DNA, both, N_OF(both)), 1);
    ck_assert_int_eq(inferred(KMF_DNA, all, N_OF(all)), 0);
    ck_assert_int_eq(inferred(KMF_DNA, others, N_OF(others)), 0);
    ck_assert_int_eq(inferred(KMF_DNA, half, N_OF(half)), 0);
    ck_assert_int_eq(inferred(KMF_DNA, more, N_OF(more)), 0);
    ck_assert_int_eq(inferred(KMF_DNA, swapped, N_OF(swapped)), 0);
    ck_assert_int_eq(inferred(KMF_PROTEIN, one, N_OF(one)), 0);
}
END_TEST

static const struct plain_case {
    kmf_alphabet alphabet;
    int canonical;
    size_t n;
    const char *words[5];
    int plain;
} plain_cases[] = {
    {KMF_DNA, 0, 4, {"A", "C", "G", "T"}, 1},
    {KMF_DNA, 1, 2, {"A", "C"}, 1},
    {KMF_DNA, 0, 2, {"A", "C"}, 0},
    {KMF_DNA, 1, 3, {"AAA", "AAC", "ACG"}, 0},
    {KMF_DNA, 0, 3, {"AAA", "AAC", "ACG"}, 1},
    {KMF_PROTEIN, 0, 3, {"ACG", "LEF", "KKK"}, 1},
    {KMF_PROTEIN, 0, 2, {"KKK", "RRR"}, 1},
    {KMF_PROTEIN, 0, 4, {"ACG", "CCA", "LEF", "KKK"}, 0},
    {KMF_PROTEIN, 0, 2, {"A", "C"}, 0},
};

START_TEST(vectors_are_plain_if_their_words_tell_what_they_are)
{
    const struct plain_case *c = &plain_cases[_i];
    kmf_err err = {0};
    kmf_vectors *v = of_words(c->alphabet, c->words, c->n, 1, false);
    v->info.canonical = c->canonical;
    ck_assert_msg(kmf_vectors_index(v, "f", &err) == 0, "%s", err.msg);
    ck_assert_int_eq(kmf_vectors_plain(v), c->plain);
    kmf_vectors_free(v);
}
END_TEST

START_TEST(canonical_is_what_the_maker_says)
{
    static const char *const few[] = {"AAC", "CAG"};
    static const char *const wrong[] = {"AAC", "CTG"};
    static const char *const one[] = {"A", "C"};
    kmf_err err = {0};
    uint64_t code = 0;
    kmf_vectors *v = of_words(KMF_DNA, few, 2, 1, false);
    v->info.canonical = 1;
    ck_assert_int_eq(kmf_vectors_index(v, "x", NULL), 0);
    kmf_kmer_encode(&code, "CTG", 3);
    ck_assert_int_eq(kmf_vectors_find(v, code, 3), 1);
    kmf_vectors_free(v);

    v = of_words(KMF_DNA, one, 2, 1, false);
    v->info.canonical = 0;
    ck_assert_int_eq(kmf_vectors_index(v, "x", NULL), 0);
    ck_assert_int_eq(v->info.canonical, 0);
    ck_assert_int_eq(kmf_vectors_find(v, 3, 1), -1);
    kmf_vectors_free(v);

    v = of_words(KMF_DNA, wrong, 2, 1, false);
    v->info.canonical = 1;
    ck_assert_int_eq(kmf_vectors_index(v, "f", &err), KMF_EMODEL);
    ck_assert_str_eq(
        err.msg, "f: the k-mers are canonical, but CTG is larger than its reverse complement");
    kmf_vectors_free(v);

    err = (kmf_err){0};
    v = of_words(KMF_PROTEIN, one, 2, 1, false);
    v->info.canonical = 1;
    ck_assert_int_eq(kmf_vectors_index(v, "f", &err), KMF_EMODEL);
    ck_assert_str_eq(err.msg, "f: k-mers of protein cannot be canonical");
    kmf_vectors_free(v);
}
END_TEST

START_TEST(a_value_that_is_not_finite_is_named)
{
    static const char *const words[] = {"ACG", "TTT", "GGG"};
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    static const char *const says[] = {"not a number", "infinite", "infinite"};
    for (size_t i = 0; i < 3; i++)
        for (size_t at = 0; at < 15; at++) {
            char want[128];
            kmf_err err = {0};
            kmf_vectors *v = of_words(KMF_DNA, words, 3, 5, false);
            v->values[at] = bad[i];
            ck_assert_int_eq(kmf_vectors_index(v, "f", &err), KMF_EMODEL);
            snprintf(want, sizeof want, "f: number %zu of the vector of %s is %s", at % 5 + 1,
                     words[at / 5], says[i]);
            ck_assert_str_eq(err.msg, want);
            kmf_vectors_free(v);
        }
}
END_TEST

/* ---------------------------------------------------------------- nearest ---------------- */

static double cosine_of(const float *a, const float *b, size_t dim)
{
    double ab = 0;
    double aa = 0;
    double bb = 0;
    for (size_t i = 0; i < dim; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

/* DNA of two lengths; some words unseen, some vectors 0, some equal. */
static kmf_vectors *random_vectors(size_t n, size_t dim, uint64_t seed)
{
    kmf_vectors *v = kmf_vectors_new(KMF_DNA, n, dim, true, NULL);
    if (!v)
        return NULL;
    for (size_t row = 0; row < n; row++) {
        v->code[row] = row;
        v->k[row] = row % 3 ? 8 : 7;
        v->count[row] = row % 11 ? row : 0;
        float *x = v->values + row * dim;
        for (size_t i = 0; i < dim; i++)
            x[i] = row % 13 ? levels_random(&seed) : 0;
        if (row % 7 == 6)
            memcpy(x, x - 5 * dim, dim * sizeof *x);
    }
    return v;
}

/* What is wrong, or NULL. Neighbours are compared by cosine, which rounding may move a little. */
static const char *compare_nearest(const kmf_vectors *v, const float *query, int k,
                                   const size_t *without, size_t n_without, size_t n)
{
    static char wrong[128];
    size_t N = v->info.n;
    kmf_neighbour *got = malloc((n + 1) * sizeof *got);
    bool *allowed = malloc(N);
    double *cosine = malloc(N * sizeof *cosine);
    size_t n_allowed = 0;
    wrong[0] = '\0';
    for (size_t row = 0; row < N; row++) {
        const float *x = kmf_vectors_row(v, row);
        cosine[row] = cosine_of(query, x, v->info.dim);
        allowed[row] = !(v->count && v->count[row] == 0) && !isnan(cosine[row]) &&
                       (k == 0 || v->k[row] == k);
        for (size_t i = 0; i < n_without; i++)
            allowed[row] = allowed[row] && without[i] != row;
        n_allowed += allowed[row];
    }
    int64_t found = kmf_vectors_nearest(v, query, k, without, n_without, got, n, NULL);
    if (found != (int64_t)(n < n_allowed ? n : n_allowed))
        snprintf(wrong, sizeof wrong, "%lld found of %zu", (long long)found, n_allowed);
    for (size_t i = 0; !wrong[0] && i < (size_t)found; i++) {
        size_t row = got[i].row;
        if (row >= N || !allowed[row] || fabs(cosine[row] - (double)got[i].cosine) > 1e-6)
            snprintf(wrong, sizeof wrong, "neighbour %zu, row %zu", i, row);
        else if (i > 0 && (got[i - 1].cosine < got[i].cosine ||
                           (got[i - 1].cosine == got[i].cosine && got[i - 1].row >= row)))
            snprintf(wrong, sizeof wrong, "neighbours %zu and %zu in order", i - 1, i);
        allowed[row] = false;
    }
    for (size_t row = 0; !wrong[0] && found > 0 && row < N; row++)
        if (allowed[row] && cosine[row] > (double)got[found - 1].cosine + 1e-6)
            snprintf(wrong, sizeof wrong, "row %zu is missing", row);
    free(got);
    free(allowed);
    free(cosine);
    return wrong[0] ? wrong : NULL;
}

static const char *part_nearest(void)
{
    static const size_t dims[] = {1, 2, 3, 7, 8, 9, 16, 100};
    static const size_t wanted[] = {0, 1, 2, 3, 10, 64, 65, 299, 300, 1000};
    uint64_t seed = 99;
    for (size_t d = 0; d < N_OF(dims); d++) {
        size_t without[9];
        kmf_vectors *v = random_vectors(300, dims[d], d + 1);
        if (!v || kmf_vectors_index(v, "x", NULL) < 0)
            return "no vectors";
        for (size_t w = 0; w < N_OF(wanted); w++) {
            size_t n_without = (w + d) % 9;
            const float *query = kmf_vectors_row(v, 1 + w);
            for (size_t i = 0; i < n_without; i++) /* in any order, some twice, some nowhere */
                without[i] = i % 4 == 3 ? without[i - 1] : draw(&seed) % 310;
            const char *wrong = compare_nearest(v, query, w % 3 ? 0 : 7 + (int)w % 2, without,
                                                n_without, wanted[w]);
            if (wrong)
                return wrong;
        }
        kmf_vectors_free(v);
    }
    return NULL;
}

/* The same bits on every level: of all cosines with a query one sum, printed. */
static const char *part_bits(void)
{
    kmf_neighbour near[300];
    uint64_t sum = 0;
    kmf_vectors *v = random_vectors(300, 37, 4);
    if (!v || kmf_vectors_index(v, "x", NULL) < 0)
        return "no vectors";
    int64_t n = kmf_vectors_nearest(v, kmf_vectors_row(v, 1), 0, NULL, 0, near, 300, NULL);
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &near[i].cosine, sizeof bits);
        sum = (sum * 31 + bits) * 31 + near[i].row;
    }
    printf("%llx\n", (unsigned long long)sum);
    kmf_vectors_free(v);
    return n > 200 ? NULL : "too few";
}

static const levels_part parts[] = {{"nearest", part_nearest}, {"bits", part_bits}};

LEVELS_TEST(nearest_words_are_those_of_the_greatest_cosine, "nearest", levels_all[_i])

START_TEST(cosines_are_the_same_bits_on_every_level)
{
    char first[256] = "";
    char other[256] = "";
    levels_run("bits", levels_all[0], first);
    levels_run("bits", levels_all[_i], other);
    ck_assert_uint_gt(strlen(first), 1);
    ck_assert_str_eq(first, other);
}
END_TEST

/* By hand: the query (3, 4) and vectors whose cosines with it are 1, 0.96, 0.6, 0, -1. */
START_TEST(cosines_are_those_computed_by_hand)
{
    static const char *const words[] = {"AA", "CC", "GG", "TT", "AC", "CA"};
    static const float values[] = {1, 0, 4, 3, 6, 8, -4, 3, -3, -4, 0, 0};
    static const float query[] = {3, 4};
    static const size_t order[] = {2, 1, 0, 3, 4};
    static const float cosines[] = {1, 0.96f, 0.6f, 0, -1};
    kmf_neighbour near[6];
    kmf_vectors *v = of_words(KMF_DNA, words, 6, 2, false);
    memcpy(v->values, values, sizeof values);
    ck_assert_int_eq(kmf_vectors_index(v, "x", NULL), 0);
    ck_assert_int_eq(kmf_vectors_nearest(v, query, 0, NULL, 0, near, 6, NULL), 5);
    for (size_t i = 0; i < 5; i++) {
        ck_assert_uint_eq(near[i].row, order[i]);
        ck_assert(near[i].cosine == cosines[i]);
    }
    kmf_vectors_free(v);
}
END_TEST

/* Squares of such floats are no floats. */
START_TEST(very_large_and_very_small_vectors_have_a_cosine)
{
    static const char *const words[] = {"AA", "CC", "GG"};
    static const float values[] = {3e38f, 0, -1e-44f, 1e-44f, 2e38f, -2e38f};
    static const float query[] = {3e38f, 3e38f};
    kmf_neighbour near[3];
    kmf_vectors *v = of_words(KMF_DNA, words, 3, 2, false);
    memcpy(v->values, values, sizeof values);
    ck_assert_int_eq(kmf_vectors_index(v, "x", NULL), 0);
    ck_assert_int_eq(kmf_vectors_nearest(v, query, 0, NULL, 0, near, 3, NULL), 3);
    ck_assert_uint_eq(near[0].row, 0);
    ck_assert(near[0].cosine == (float)sqrt(0.5));
    ck_assert_uint_eq(near[1].row, 1);
    ck_assert_uint_eq(near[2].row, 2);
    ck_assert(near[1].cosine == 0 && near[2].cosine == 0);
    kmf_vectors_free(v);
}
END_TEST

START_TEST(a_query_without_a_direction_is_refused)
{
    static const char *const words[] = {"AA", "CC"};
    static const float none[] = {0, 0, 0};
    static const float odd[] = {1, NAN, 0};
    static const float endless[] = {1, 2, INFINITY};
    kmf_neighbour near[2];
    kmf_err err = {0};
    kmf_vectors *v = of_words(KMF_DNA, words, 2, 3, false);
    ck_assert_int_eq(kmf_vectors_index(v, "x", NULL), 0);
    ck_assert_int_eq(kmf_vectors_nearest(v, none, 0, NULL, 0, near, 2, &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "the query's vector is 0");
    err = (kmf_err){0};
    ck_assert_int_eq(kmf_vectors_nearest(v, odd, 0, NULL, 0, near, 2, &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "the query's vector is not finite");
    ck_assert_int_eq(kmf_vectors_nearest(v, endless, 0, NULL, 0, near, 2, NULL), KMF_EINVAL);
    kmf_vectors_free(v);
}
END_TEST

/* ---------------------------------------------------------------- limits ----------------- */

START_TEST(too_many_words_are_refused)
{
    kmf_err err = {0};
    ck_assert_ptr_null(kmf_vectors_new(KMF_DNA, (size_t)1 << 31, 1, false, &err));
    ck_assert_int_eq(err.code, KMF_ENOMEM);
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_vectors_new(KMF_DNA, 1 << 30, (size_t)1 << 40, false, &err));
    ck_assert_int_eq(err.code, KMF_ENOMEM);
    ck_assert_ptr_null(kmf_vectors_new(KMF_DNA, 1 << 30, SIZE_MAX / 2, false, NULL));
}
END_TEST

/* Whichever allocation fails, all ends in KMF_ENOMEM and nothing is lost. */
START_TEST(every_failed_allocation_is_reported)
{
    const word_kind *which = &word_kinds[8]; /* tables and lists */
    kmf_neighbour near[3];
    size_t fail = 0;
    bool done = false;
    while (!done) {
        kmf_err err = {0};
        kmf_vectors *v = random_words(which, 3);
        size_t skip[1] = {0};
        v->values[1] = 1;
        kmf_mem_fail_at(++fail);
        int64_t status = kmf_vectors_index(v, "x", &err);
        if (status == 0)
            status = kmf_vectors_nearest(v, v->values + 1, 0, skip, 1, near, 3, &err);
        done = !failed_at(fail);
        ck_assert_int_eq(status, done ? 3 : KMF_ENOMEM);
        ck_assert_int_eq(err.code, done ? KMF_OK : KMF_ENOMEM);
        kmf_vectors_free(v);
    }
    ck_assert_uint_gt(fail, 40);
    for (fail = 1, done = false; !done; fail++) {
        kmf_mem_fail_at(fail);
        kmf_vectors *v = kmf_vectors_new(KMF_DNA, 4, 4, true, NULL);
        done = !failed_at(fail);
        ck_assert_int_eq(v != NULL, done);
        kmf_vectors_free(v);
    }
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 2)
        return levels_child(parts, N_OF(parts), argv);
    TCase *tcase = untimed_case();
    tcase_add_loop_test(tcase, every_word_is_found_and_no_other, 0, (int)N_OF(word_kinds));
    tcase_add_test(tcase, what_is_no_kmer_is_not_found);
    tcase_add_test(tcase, an_index_takes_no_more_room_than_its_words_are_worth);
    tcase_add_test(tcase, a_word_that_is_listed_twice_is_named);
    tcase_add_test(tcase, information_tells_what_the_words_are);
    tcase_add_test(tcase, all_canonical_kmers_and_no_others_are_taken_for_canonical);
    tcase_add_loop_test(tcase, vectors_are_plain_if_their_words_tell_what_they_are, 0,
                        (int)N_OF(plain_cases));
    tcase_add_test(tcase, canonical_is_what_the_maker_says);
    tcase_add_test(tcase, a_value_that_is_not_finite_is_named);
    tcase_add_loop_test(tcase, nearest_words_are_those_of_the_greatest_cosine, 0, 4);
    tcase_add_loop_test(tcase, cosines_are_the_same_bits_on_every_level, 1, 4);
    tcase_add_test(tcase, cosines_are_those_computed_by_hand);
    tcase_add_test(tcase, very_large_and_very_small_vectors_have_a_cosine);
    tcase_add_test(tcase, a_query_without_a_direction_is_refused);
    tcase_add_test(tcase, too_many_words_are_refused);
    tcase_add_test(tcase, every_failed_allocation_is_reported);
    return run_case("vectors", tcase);
}
