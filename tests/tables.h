/* SPDX-License-Identifier: MIT */
/*
 * Tables of counts and their naive twins: a sorted list of k-mers and counts, made from random
 * numbers, against which every function of a table is compared.
 */
#ifndef KMF_TEST_TABLES_H
#define KMF_TEST_TABLES_H

#include "base/mem.h"
#include "words/alphabet.h"
#include "words/counts.h"

#include <check.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct list {
    kmf_counts_info info;
    kmf_kmer_count *kmers; /* owned [n]; in code order */
    size_t n;
} list;

static inline uint64_t draw(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* 1 or more, of at most `bits` bits. */
static inline uint64_t draw_count(uint64_t *state, unsigned bits)
{
    unsigned n = 1 + (unsigned)(draw(state) % bits);
    return 1 + (draw(state) >> (64 - n)) % ((((uint64_t)1 << (n - 1)) << 1) - 1);
}

static inline uint64_t draw_code(uint64_t *state, kmf_alphabet alphabet, int k)
{
    const kmf_alphabet_row *row = kmf_alphabet_of(alphabet);
    uint64_t code = 0;
    for (int i = 0; i < k; i++)
        code = code << row->bits | draw(state) % (uint64_t)row->n_letters;
    return code;
}

static inline int by_code(const void *a, const void *b)
{
    const kmf_kmer_count *x = a;
    const kmf_kmer_count *y = b;
    return (x->code > y->code) - (x->code < y->code);
}

/* Sorts and keeps one of each k-mer, or adds them up. */
static inline void tidy(list *l, int add)
{
    size_t n = 0;
    if (l->n > 0)
        qsort(l->kmers, l->n, sizeof *l->kmers, by_code);
    for (size_t i = 0; i < l->n; i++) {
        if (n == 0 || l->kmers[n - 1].code != l->kmers[i].code)
            l->kmers[n++] = l->kmers[i];
        else if (add)
            l->kmers[n - 1].count += l->kmers[i].count;
    }
    l->n = n;
    l->info.distinct = n;
    l->info.kmers = 0;
    for (size_t i = 0; i < n; i++)
        l->info.kmers += l->kmers[i].count;
}

/* n draws, not all different; n = SIZE_MAX: every k-mer that there is, of 2^24 codes at most. */
static inline list random_list(kmf_alphabet alphabet, int k, int canonical, size_t n,
                               unsigned count_bits, uint64_t seed)
{
    list l = {.info = {.alphabet = alphabet,
                       .k = k,
                       .canonical = canonical,
                       .stride = 1,
                       .inputs = 1,
                       .records = 3,
                       .letters = 1000,
                       .ambiguous = 7,
                       .min_count = 1}};
    const kmf_alphabet_row *row = kmf_alphabet_of(alphabet);
    uint64_t all = n == SIZE_MAX ? (uint64_t)1 << k * row->bits : n;
    l.kmers = malloc((all ? all : 1) * sizeof *l.kmers);
    ck_assert_ptr_nonnull(l.kmers);
    for (uint64_t i = 0; i < all; i++) {
        uint64_t code = n == SIZE_MAX ? i : draw_code(&seed, alphabet, k);
        if (n == SIZE_MAX && kmf_alphabet_round_up(alphabet, k, code) != code)
            continue;
        if (canonical)
            code = kmf_kmer_canonical(code, k);
        l.kmers[l.n++] = (kmf_kmer_count){code, draw_count(&seed, count_bits)};
    }
    tidy(&l, 0);
    return l;
}

static inline list copy_of(const list *from)
{
    list l = *from;
    l.kmers = malloc((l.n ? l.n : 1) * sizeof *l.kmers);
    ck_assert_ptr_nonnull(l.kmers);
    if (l.n > 0)
        memcpy(l.kmers, from->kmers, l.n * sizeof *l.kmers);
    return l;
}

static inline void free_list(list *l)
{
    free(l->kmers);
    *l = (list){0};
}

/* NULL after KMF_ENOMEM, when a test makes allocations fail. */
static inline kmf_counts *try_table(const list *l, kmf_err *err)
{
    kmf_counts *counts = kmf_counts_new(&l->info, err);
    kmf_counts_builder *builder = counts ? kmf_counts_builder_new(counts, err) : NULL;
    int status = builder ? 0 : KMF_ENOMEM;
    for (size_t i = 0; i < l->n && status == 0; i++)
        status = kmf_counts_builder_add(builder, l->kmers[i].code, l->kmers[i].count, err);
    if (status == 0)
        status = kmf_counts_builder_finish(builder, err);
    kmf_counts_builder_free(builder);
    if (status == 0)
        return counts;
    kmf_counts_free(counts);
    return NULL;
}

static inline kmf_counts *table_of(const list *l)
{
    kmf_err err = {0};
    kmf_counts *counts = try_table(l, &err);
    ck_assert_msg(counts != NULL, "%s", err.msg);
    return counts;
}

static inline void same_info(const kmf_counts_info *a, const kmf_counts_info *b)
{
    ck_assert_int_eq((int)a->alphabet, (int)b->alphabet);
    ck_assert_int_eq(a->k, b->k);
    ck_assert_int_eq(a->canonical, b->canonical);
    ck_assert_uint_eq(a->stride, b->stride);
    ck_assert_uint_eq(a->inputs, b->inputs);
    ck_assert_uint_eq(a->records, b->records);
    ck_assert_uint_eq(a->letters, b->letters);
    ck_assert_uint_eq(a->kmers, b->kmers);
    ck_assert_uint_eq(a->ambiguous, b->ambiguous);
    ck_assert_uint_eq(a->distinct, b->distinct);
    ck_assert_uint_eq(a->min_count, b->min_count);
    ck_assert_uint_eq(a->max_size, b->max_size);
}

/* Does the table hold the list, info and all, and nothing else? */
static inline void same_table(const kmf_counts *counts, const list *l)
{
    kmf_counts_info info;
    kmf_counts_walk walk;
    uint64_t code;
    uint64_t count;
    size_t i = 0;
    kmf_counts_information(counts, &info);
    same_info(&info, &l->info);
    for (kmf_counts_start(&walk, counts); kmf_counts_next(&walk, &code, &count); i++) {
        if (i >= l->n || code != l->kmers[i].code || count != l->kmers[i].count)
            ck_abort_msg("k-mer %zu of %zu: code %llx, count %llu", i, l->n,
                         (unsigned long long)code, (unsigned long long)count);
    }
    ck_assert_uint_eq(i, l->n);
    ck_assert_int_eq(kmf_counts_next(&walk, &code, &count), 0);
}

/* The kinds of table that the tests go through. */
typedef struct kind {
    kmf_alphabet alphabet;
    int k;
    int canonical;
    size_t n;
    unsigned count_bits;
} kind;

static const kind kinds[] = {
    {KMF_DNA, 1, 0, SIZE_MAX, 3},  {KMF_DNA, 1, 1, 1, 40},
    {KMF_DNA, 2, 0, 5, 8},         {KMF_DNA, 2, 1, SIZE_MAX, 9},
    {KMF_DNA, 8, 0, SIZE_MAX, 17}, {KMF_DNA, 8, 0, 300, 40},
    {KMF_DNA, 8, 1, 20000, 8},     {KMF_DNA, 9, 0, 30000, 2},
    {KMF_DNA, 9, 0, SIZE_MAX, 1},  {KMF_DNA, 9, 0, 150000, 8},
    {KMF_DNA, 9, 1, 100000, 33},   {KMF_DNA, 12, 0, 50000, 8},
    {KMF_DNA, 13, 0, 50000, 16},   {KMF_DNA, 13, 1, 0, 1},
    {KMF_DNA, 21, 1, 50000, 8},    {KMF_DNA, 31, 0, 3000, 20},
    {KMF_DNA, 31, 1, 20000, 4},    {KMF_DNA, 32, 0, 50000, 8},
    {KMF_DNA, 32, 1, 1, 40},       {KMF_PROTEIN, 1, 0, SIZE_MAX, 5},
    {KMF_PROTEIN, 2, 0, 100, 8},   {KMF_PROTEIN, 3, 0, SIZE_MAX, 9},
    {KMF_PROTEIN, 4, 0, 50000, 3}, {KMF_PROTEIN, 5, 0, 10000, 40},
    {KMF_PROTEIN, 6, 0, 40000, 8},
};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

static inline list list_of_kind(size_t i, uint64_t seed)
{
    const kind *t = &kinds[i];
    return random_list(t->alphabet, t->k, t->canonical, t->n, t->count_bits, seed + i);
}

#endif
