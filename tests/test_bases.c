/* SPDX-License-Identifier: MIT */
/*
 * What tokens tell of bases against the definition, over the letters of the vocabulary's tokens, of
 * rows with numbers that no model gave. That they are those of logits is in tests/cli/bases.reg.
 */
#include "base/rng.h"
#include "kmerformer.h"
#include "run.h"

#include <check.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define KMERS "tests/golden/roformer"
#define NUCLEOTIDE "tests/golden/nt-v2" /* 6-mers and single letters */

enum { LEN = 60, TOKENS_MAX = LEN };

/* A token of the record, and what a model says there. */
typedef struct told {
    uint64_t position;
    int32_t id;
    float *values; /* owned [V] */
} told;

typedef struct scene {
    kmf_model *model;
    const kmf_vocab *vocab;
    size_t V, n;
    char seq[LEN + 1];
    told tokens[TOKENS_MAX];
} scene;

typedef struct given {
    size_t n;
    kmf_base_row rows[4 * LEN];
    int answer; /* of the function */
} given;

static size_t length_of(const char *token)
{
    return token && strspn(token, "ACGT") == strlen(token) ? strlen(token) : 0;
}

static int32_t id_of(const scene *s, const char *letters, size_t n)
{
    for (size_t id = 0; id < s->V; id++) {
        const char *token = kmf_vocab_token(s->vocab, (int32_t)id);
        if (token && strlen(token) == n && strncmp(token, letters, n) == 0)
            return (int32_t)id;
    }
    return -1;
}

static void add_token(scene *s, kmf_rng *rng, size_t at, size_t n)
{
    told *t = &s->tokens[s->n++];
    *t = (told){.position = at, .id = id_of(s, s->seq + at, n)};
    ck_assert_int_ge(t->id, 0);
    t->values = calloc(s->V, sizeof *t->values);
    for (size_t i = 0; i < s->V; i++)
        t->values[i] = (float)kmf_rng_below(rng, 1000) / 1000;
}

/* k-mers at this stride; where singles are asked for, some letters alone between them. */
static void make(scene *s, const char *path, size_t stride, bool singles)
{
    kmf_rng rng = kmf_rng_stream(5, stride);
    *s = (scene){.model = kmf_model_load(path, NULL)};
    ck_assert_ptr_nonnull(s->model);
    s->vocab = kmf_model_vocab(s->model);
    s->V = kmf_model_config(s->model)->vocab_size;
    size_t k = (size_t)kmf_vocab_k(s->vocab);
    for (size_t i = 0; i < LEN; i++)
        s->seq[i] = "ACGT"[kmf_rng_below(&rng, 4)];
    for (size_t at = 0; at + k <= LEN; at += stride) {
        if (at / stride % 7 == 5) /* as behind an ambiguous letter */
            continue;
        for (; singles && at / stride % 3 == 1 && at + k < LEN && at % 5 != 0; at++)
            add_token(s, &rng, at, 1);
        add_token(s, &rng, at, k);
    }
}

static void unmake(scene *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->tokens[i].values);
    kmf_model_free(s->model);
}

/* P of base b by the tokens whose letters have the length of the one that stands there. */
static size_t naive(double p[4], const scene *s, uint64_t b)
{
    size_t n = 0;
    double all = 0;
    memset(p, 0, 4 * sizeof *p);
    for (size_t i = 0; i < s->n; i++) {
        const told *t = &s->tokens[i];
        size_t length = length_of(kmf_vocab_token(s->vocab, t->id));
        if (b < t->position || b >= t->position + length)
            continue;
        n++;
        for (size_t id = 0; id < s->V; id++) {
            const char *token = kmf_vocab_token(s->vocab, (int32_t)id);
            if (length_of(token) == length)
                p[strchr("ACGT", token[b - t->position]) - "ACGT"] += (double)t->values[id];
        }
    }
    for (int x = 0; x < 4; x++)
        all += p[x];
    for (int x = 0; x < 4; x++)
        p[x] /= all;
    return n;
}

static int take(void *user, const kmf_base_row *row, kmf_err *err)
{
    given *g = user;
    (void)err;
    ck_assert_str_eq(row->name, row->index == 0 ? "first" : "other");
    g->rows[g->n++] = *row;
    return g->answer;
}

static int give(const scene *s, kmf_bases *bases, kmf_err *err)
{
    int status = 0;
    for (uint64_t record = 0; record < 2 && status == 0; record++)
        for (size_t i = 0; i < s->n && status == 0; i++) {
            const kmf_logits_row row = {.index = record,
                                        .name = record == 0 ? "first" : "other",
                                        .len = LEN,
                                        .position = s->tokens[i].position,
                                        .id = s->tokens[i].id,
                                        .values = s->tokens[i].values};
            status = kmf_bases_add(bases, &row, err);
        }
    return status == 0 ? kmf_bases_finish(bases, err) : status;
}

static void expect(const scene *s, const kmf_base_span *spans, size_t n_spans)
{
    static given got;
    kmf_err err = {0};
    got = (given){0};
    kmf_bases *bases = kmf_bases_new(s->model, spans, n_spans, take, &got, &err);
    ck_assert_msg(bases != NULL, "%s", err.msg);
    ck_assert_int_eq(give(s, bases, &err), 0);
    size_t n = 0;
    uint64_t asked = 0;
    for (uint64_t record = 0; record < 2; record++)
        for (uint64_t b = 0; b < LEN; b++) {
            double p[4];
            bool wanted = n_spans == 0;
            for (size_t i = 0; i < n_spans; i++)
                wanted = wanted || (spans[i].beg <= b && b < spans[i].end);
            asked += wanted && record == 0;
            size_t tokens = naive(p, s, b);
            if (!wanted || tokens == 0)
                continue;
            ck_assert_uint_lt(n, got.n);
            const kmf_base_row *row = &got.rows[n++];
            ck_assert_uint_eq(row->index, record);
            ck_assert_uint_eq(row->position, b);
            ck_assert_uint_eq(row->n_tokens, tokens);
            ck_assert_int_eq(row->letter, s->seq[b]);
            for (int x = 0; x < 4; x++)
                ck_assert_double_eq_tol(row->p[x], p[x], 1e-12);
        }
    ck_assert_uint_eq(got.n, n);
    ck_assert_uint_gt(n, 0);
    ck_assert_uint_eq(kmf_bases_asked(bases, LEN), asked);
    ck_assert_uint_eq(kmf_bases_asked(bases, 0), 0);
    kmf_bases_free(bases);
}

START_TEST(bases_are_sums_over_the_tokens_that_hold_them)
{
    static const kmf_base_span spans[] = {{50, 55}, {7, 9}, {8, 12}, {58, 1000}};
    for (size_t stride = 1; stride <= 6; stride++) {
        scene s;
        bool nucleotide = stride == 6;
        make(&s, nucleotide ? NUCLEOTIDE : KMERS, stride, nucleotide);
        expect(&s, NULL, 0);
        expect(&s, spans, sizeof spans / sizeof spans[0]);
        unmake(&s);
    }
}
END_TEST

START_TEST(what_cannot_be_told_is_refused)
{
    static given got;
    static const kmf_base_span nothing = {3, 3};
    kmf_err err = {0};
    scene s;
    make(&s, KMERS, 1, false);
    ck_assert_ptr_null(kmf_bases_new(s.model, &nothing, 1, take, &got, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    got = (given){.answer = 3};
    err = (kmf_err){0};
    kmf_bases *bases = kmf_bases_new(s.model, NULL, 0, take, &got, &err);
    ck_assert_int_eq(give(&s, bases, &err), KMF_EINVAL);
    ck_assert_uint_eq(got.n, 1);
    kmf_bases_free(bases);
    for (size_t i = 0; i < s.n; i++)
        memset(s.tokens[i].values, 0, s.V * sizeof *s.tokens[i].values);
    got = (given){0};
    err = (kmf_err){0};
    bases = kmf_bases_new(s.model, NULL, 0, take, &got, &err);
    ck_assert_int_eq(give(&s, bases, &err), KMF_ENUMERIC);
    ck_assert_str_eq(err.msg, "record 'first': base 1: the model takes no k-mer for possible");
    ck_assert_uint_eq(got.n, 0);
    kmf_bases_free(bases);
    unmake(&s);
    kmf_model *pieces = kmf_model_load("tests/golden/dnabert-2", &err);
    err = (kmf_err){0};
    ck_assert_ptr_nonnull(pieces);
    ck_assert_ptr_null(kmf_bases_new(pieces, NULL, 0, take, &got, &err));
    ck_assert_int_eq(err.code, KMF_EMODEL);
    kmf_model_free(pieces);
    kmf_bases_free(NULL);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("bases");
    tcase_add_test(tcase, bases_are_sums_over_the_tokens_that_hold_them);
    tcase_add_test(tcase, what_cannot_be_told_is_refused);
    return run_case("bases", tcase);
}
