/* SPDX-License-Identifier: MIT */
/*
 * k-mers and their vectors: the object, and how a k-mer finds its row.
 *
 * Rows stand in the order of their maker; words of several lengths may be mixed. Beside them is
 * one index for each length, in one of two forms:
 *
 *   table   row or -1 for each of the 2^(bits k) codes: one load for a look-up. Taken where it is
 *           small (2^16 codes: DNA to k = 8, protein to k = 3) or well filled (a word for every 16
 *           codes or more, so that it takes 64 bytes a word at most, less than its vector)
 *   list    codes in ascending order and their rows: bisection, without a branch that has to be
 *           guessed
 *
 * Canonical vectors list the smaller strand of each k-mer. Their tables have the row under both
 * codes, so that a look-up needs no reverse complement; for lists it takes the smaller strand
 * first.
 *
 * Whether the words of a plain file are canonical is not written in it. They are taken for it if
 * for each length they are all canonical k-mers that there are and none else: a list that merely
 * lacks the larger strands by chance would need luck for every pair.
 */
#include "model/vectors.h"

#include "base/err.h"
#include "base/mem.h"
#include "model/vectorfile.h"
#include "words/alphabet.h"
#include "words/counts.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_BITS 16
#define LARGE_BITS 36
#define CODES_PER_WORD 16

/* ---------------------------------------------------------------- life ------------------- */

kmf_vectors *kmf_vectors_new(kmf_alphabet alphabet, size_t n, size_t dim, bool counted,
                             kmf_err *err)
{
    size_t n_values;
    assert(n > 0 && dim > 0);
    if (n > INT32_MAX || !kmf_mul(n, dim, &n_values)) {
        kmf_fail(err, KMF_ENOMEM, "%zu words of %zu numbers are more than can be held", n, dim);
        return NULL;
    }
    kmf_vectors *v = kmf_calloc(1, sizeof *v, err);
    if (!v)
        return NULL;
    v->info = (kmf_vectors_info){.alphabet = alphabet,
                                 .canonical = KMF_CANONICAL_UNKNOWN,
                                 .counted = counted,
                                 .n = n,
                                 .dim = dim};
    v->code = kmf_malloc(n, sizeof *v->code, err);
    v->k = kmf_malloc(n, sizeof *v->k, err);
    v->count = counted ? kmf_calloc(n, sizeof *v->count, err) : NULL;
    v->values = kmf_floats(n_values, err);
    v->provenance = kmf_strdup("", err);
    if (!v->code || !v->k || (counted && !v->count) || !v->values || !v->provenance) {
        kmf_vectors_free(v);
        return NULL;
    }
    return v;
}

void kmf_vectors_free(kmf_vectors *vectors)
{
    if (!vectors)
        return;
    for (int k = 0; k <= KMF_K_MAX; k++) {
        kmf_free(vectors->words[k].dense);
        kmf_free(vectors->words[k].codes);
        kmf_free(vectors->words[k].rows);
    }
    kmf_free(vectors->code);
    kmf_free(vectors->k);
    kmf_free(vectors->count);
    kmf_free(vectors->values);
    kmf_free(vectors->provenance);
    kmf_free(vectors);
}

int kmf_vectors_set_provenance(kmf_vectors *vectors, const char *text, kmf_err *err)
{
    char *copy = kmf_strdup(text, err);
    if (!copy)
        return KMF_ENOMEM;
    kmf_free(vectors->provenance);
    vectors->provenance = copy;
    return 0;
}

/* ---------------------------------------------------------------- the index -------------- */

static int check_values(const kmf_vectors *v, const char *name, kmf_err *err)
{
    char word[KMF_K_MAX + 1];
    size_t dim = v->info.dim;
    for (size_t row = 0; row < v->info.n; row++) {
        const float *x = v->values + row * dim;
        float zero = 0; /* 0 times what is not finite is NaN */
        for (size_t i = 0; i < dim; i++)
            zero += 0 * x[i];
        if (zero == 0)
            continue;
        for (size_t i = 0; i < dim; i++)
            if (!isfinite(x[i])) {
                kmf_vectors_word(v, row, word);
                return kmf_fail(err, KMF_EMODEL, "%s: number %zu of the vector of %s is %s",
                                name, i + 1, word, isnan(x[i]) ? "not a number" : "infinite");
            }
    }
    return 0;
}

static void measure(kmf_vectors *v)
{
    kmf_vectors_info *info = &v->info;
    info->k_min = v->k[0];
    info->k_max = v->k[0];
    info->unseen = 0;
    for (size_t row = 0; row < info->n; row++) {
        int k = v->k[row];
        info->k_min = k < info->k_min ? k : info->k_min;
        info->k_max = k > info->k_max ? k : info->k_max;
        info->unseen += v->count && v->count[row] == 0;
        v->words[k].n++;
    }
}

/* The first row whose word is the larger of the two strands; n: none. */
static size_t larger_strand(const kmf_vectors *v)
{
    size_t row = 0;
    while (row < v->info.n && kmf_kmer_canonical(v->code[row], v->k[row]) == v->code[row])
        row++;
    return row;
}

static bool looks_canonical(const kmf_vectors *v)
{
    if (!kmf_alphabet_of(v->info.alphabet)->complement)
        return false;
    for (int k = v->info.k_min; k <= v->info.k_max; k++) {
        kmf_counts_info kind = {.alphabet = v->info.alphabet, .k = k, .canonical = 1};
        if (v->words[k].n > 0 && (double)v->words[k].n != kmf_counts_possible(&kind))
            return false;
    }
    return larger_strand(v) == v->info.n;
}

static int settle_canonical(kmf_vectors *v, const char *name, kmf_err *err)
{
    char word[KMF_K_MAX + 1];
    if (v->info.canonical == KMF_CANONICAL_UNKNOWN)
        v->info.canonical = looks_canonical(v);
    if (!v->info.canonical)
        return 0;
    if (!kmf_alphabet_of(v->info.alphabet)->complement)
        return kmf_fail(err, KMF_EMODEL, "%s: k-mers of %s cannot be canonical", name,
                        kmf_alphabet_names[v->info.alphabet]);
    size_t row = larger_strand(v);
    if (row == v->info.n)
        return 0;
    kmf_vectors_word(v, row, word);
    return kmf_fail(
        err, KMF_EMODEL,
        "%s: the k-mers are canonical, but %s is larger than its reverse complement", name,
        word);
}

static int listed_twice(const kmf_vectors *v, size_t a, size_t b, const char *name,
                        kmf_err *err)
{
    char word[KMF_K_MAX + 1];
    kmf_vectors_word(v, a, word);
    return kmf_fail(err, KMF_EMODEL, "%s: %s is listed twice, as words %zu and %zu", name, word,
                    a < b ? a + 1 : b + 1, a < b ? b + 1 : a + 1);
}

static int make_table(kmf_vectors *v, int k, size_t n_codes, const char *name, kmf_err *err)
{
    kmf_words *words = &v->words[k];
    words->dense = kmf_large(n_codes, sizeof *words->dense, err);
    if (!words->dense)
        return KMF_ENOMEM;
    memset(words->dense, 0xff, n_codes * sizeof *words->dense); /* -1 */
    for (size_t row = 0; row < v->info.n; row++) {
        if (v->k[row] != k)
            continue;
        int32_t *at = &words->dense[v->code[row]];
        if (*at >= 0)
            return listed_twice(v, (size_t)*at, row, name, err);
        *at = (int32_t)row;
        if (v->info.canonical)
            words->dense[kmf_kmer_revcomp(v->code[row], k)] = (int32_t)row;
    }
    return 0;
}

typedef struct entry {
    uint64_t code;
    int32_t row;
} entry;

static int by_code(const void *a, const void *b)
{
    const entry *x = a;
    const entry *y = b;
    if (x->code != y->code)
        return x->code < y->code ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static int make_list(kmf_vectors *v, int k, const char *name, kmf_err *err)
{
    kmf_words *words = &v->words[k];
    size_t n = 0;
    int status = 0;
    words->codes = kmf_malloc(words->n, sizeof *words->codes, err);
    words->rows = kmf_malloc(words->n, sizeof *words->rows, err);
    entry *list = kmf_malloc(words->n, sizeof *list, err);
    if (!words->codes || !words->rows || !list) {
        kmf_free(list);
        return KMF_ENOMEM;
    }
    for (size_t row = 0; row < v->info.n; row++)
        if (v->k[row] == k)
            list[n++] = (entry){v->code[row], (int32_t)row};
    qsort(list, n, sizeof *list, by_code);
    for (size_t i = 0; i < n && status == 0; i++) {
        words->codes[i] = list[i].code;
        words->rows[i] = list[i].row;
        if (i > 0 && list[i - 1].code == list[i].code)
            status = listed_twice(v, (size_t)list[i - 1].row, (size_t)list[i].row, name, err);
    }
    kmf_free(list);
    return status;
}

int kmf_vectors_index(kmf_vectors *vectors, const char *name, kmf_err *err)
{
    kmf_vectors *v = vectors;
    int bits = kmf_alphabet_bits(v->info.alphabet);
    measure(v);
    int status = check_values(v, name, err);
    if (status == 0)
        status = settle_canonical(v, name, err);
    for (int k = v->info.k_min; k <= v->info.k_max && status == 0; k++) {
        size_t n = v->words[k].n;
        int code_bits = bits * k;
        bool table = code_bits <= SMALL_BITS ||
                     (code_bits <= LARGE_BITS &&
                      UINT64_C(1) << code_bits <= (uint64_t)n * CODES_PER_WORD);
        if (n > 0)
            status = table ? make_table(v, k, (size_t)1 << code_bits, name, err)
                           : make_list(v, k, name, err);
    }
    return status;
}

/* ---------------------------------------------------------------- questions -------------- */

int64_t kmf_words_find(const kmf_words *words, uint64_t code)
{
    const uint64_t *beg = words->codes;
    size_t n = words->n;
    if (n == 0)
        return -1;
    while (n > 1) { /* the word, if it is there, is one of beg[0 .. n - 1] */
        size_t half = n / 2;
        beg += beg[half] <= code ? half : 0;
        n -= half;
    }
    return *beg == code ? words->rows[beg - words->codes] : -1;
}

int64_t kmf_vectors_find(const kmf_vectors *vectors, uint64_t code, int k)
{
    if (k < vectors->info.k_min || k > vectors->info.k_max)
        return -1;
    int code_bits = kmf_alphabet_bits(vectors->info.alphabet) * k;
    if (code_bits < 64 && code >> code_bits != 0)
        return -1;
    return kmf_vectors_lookup(vectors, code, k);
}

void kmf_vectors_information(const kmf_vectors *vectors, kmf_vectors_info *info)
{
    *info = vectors->info;
}

int kmf_vectors_plain(const kmf_vectors *vectors)
{
    return kmf_maker_alphabet(vectors) == vectors->info.alphabet &&
           looks_canonical(vectors) == (vectors->info.canonical != 0);
}

const char *kmf_vectors_provenance(const kmf_vectors *vectors)
{
    return vectors->provenance;
}

const float *kmf_vectors_row(const kmf_vectors *vectors, size_t row)
{
    assert(row < vectors->info.n && vectors->values);
    return vectors->values + row * vectors->info.dim;
}

float *kmf_vectors_take_values(kmf_vectors *vectors)
{
    float *values = vectors->values;
    vectors->values = NULL;
    return values;
}

uint64_t kmf_vectors_count(const kmf_vectors *vectors, size_t row)
{
    assert(row < vectors->info.n);
    return vectors->count ? vectors->count[row] : 0;
}

int kmf_vectors_word(const kmf_vectors *vectors, size_t row, char *text)
{
    assert(row < vectors->info.n);
    kmf_alphabet_decode(vectors->info.alphabet, text, vectors->code[row], vectors->k[row]);
    return vectors->k[row];
}
