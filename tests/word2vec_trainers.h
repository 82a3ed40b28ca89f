/* SPDX-License-Identifier: MIT */
/* Trainers of word2vec for tests: their inputs, settings that go different ways, what they make. */
#ifndef KMF_TEST_WORD2VEC_TRAINERS_H
#define KMF_TEST_WORD2VEC_TRAINERS_H

#include "base/rng.h"
#include "checked.h"
#include "files.h"
#include "kmerformer.h"

#include <stdint.h>

typedef kmf_word2vec_options options;

/* Two records, letters of them. */
#define SEQS 2

typedef struct input {
    char *seq[SEQS]; /* owned */
    size_t len[SEQS];
} input;

static inline input random_input(size_t len, const char *of, uint64_t seed)
{
    input in;
    kmf_rng rng = kmf_rng_stream(seed, 0);
    for (size_t i = 0; i < SEQS; i++) {
        in.len[i] = len / (i + 1);
        in.seq[i] = malloc(in.len[i] + 1);
        for (size_t at = 0; at < in.len[i]; at++)
            in.seq[i][at] = of[kmf_rng_below(&rng, strlen(of))];
        in.seq[i][in.len[i]] = '\0';
        in.seq[i][in.len[i] / 2] = 'X';
    }
    return in;
}

static inline void free_input(input *in)
{
    for (size_t i = 0; i < SEQS; i++)
        free(in->seq[i]);
}

static inline options small_options(void)
{
    options o;
    kmf_word2vec_options_default(&o);
    o.k_min = o.k_max = 4;
    o.dim = 20;
    o.epochs = 2;
    o.threads = 1;
    o.alpha = 0.05;
    return o;
}

/* A trainer that has read its input, NULL if memory failed. */
static inline kmf_word2vec *begun(const options *o, const input *in, kmf_err *err)
{
    kmf_word2vec *trainer = kmf_word2vec_new(o, err);
    int status = trainer ? 0 : -1;
    for (size_t i = 0; status == 0 && i < SEQS; i++)
        status = kmf_word2vec_add(trainer, in->seq[i], in->len[i], err);
    if (status == 0)
        status = kmf_word2vec_begin(trainer, NULL, NULL, err);
    if (status == 0)
        return trainer;
    kmf_word2vec_free(trainer);
    return NULL;
}

static inline kmf_word2vec *begin(const options *o, const input *in)
{
    kmf_err err = {0};
    kmf_word2vec *trainer = begun(o, in, &err);
    ck_assert_msg(trainer, "%s", err.msg);
    return trainer;
}

/* 64 bits of all vectors, and of what the trainer says about itself. */
static inline uint64_t print_of(const kmf_word2vec *trainer)
{
    uint64_t sum = 14695981039346656037u;
    kmf_vectors_info info;
    kmf_word2vec_state state;
    kmf_vectors *v = kmf_word2vec_vectors(trainer, NULL);
    ck_assert_ptr_nonnull(v);
    kmf_vectors_information(v, &info);
    for (size_t row = 0; row < info.n; row++) {
        const unsigned char *bytes = (const unsigned char *)kmf_vectors_row(v, row);
        for (size_t i = 0; i < info.dim * sizeof(float); i++)
            sum = (sum ^ bytes[i]) * 1099511628211u;
    }
    kmf_vectors_free(v);
    kmf_word2vec_information(trainer, &state);
    sum = (sum ^ state.tokens) * 1099511628211u;
    uint64_t loss;
    memcpy(&loss, &state.loss, sizeof loss);
    return (sum ^ loss) * 1099511628211u;
}

static inline uint64_t trained(const options *o, const input *in)
{
    kmf_err err = {0};
    kmf_word2vec *trainer = begin(o, in);
    ck_assert_msg(kmf_word2vec_train(trainer, NULL, NULL, &err) == 0, "%s", err.msg);
    uint64_t print = print_of(trainer);
    kmf_word2vec_free(trainer);
    return print;
}

/* Settings that go different ways. */
enum { KINDS = 8 };

static inline options kind(int i, size_t *len, const char **of)
{
    options o = small_options();
    *len = CHECKED ? 3000 : 12000;
    *of = "ACGT";
    switch (i) {
    case 0:
        break;
    case 1:
        o.cbow = 1;
        break;
    case 2:
        o.k_max = 7; /* 21760 words: more batches a step */
        break;
    case 3:
        o.frames = 1;
        o.strand = KMF_WORDS_BOTH;
        break;
    case 4:
        o.strand = KMF_WORDS_CANONICAL;
        o.sample = 1e-3;
        break;
    case 5:
        o.alphabet = KMF_PROTEIN;
        o.k_min = o.k_max = 2;
        *of = "ACDEFGHIKLMNPQRSTVWY";
        break;
    case 6:
        o.k_min = o.k_max = 1; /* rows that every batch moves */
        o.stride = 3;
        o.cbow = 1;
        o.alpha = 0.025;
        break;
    default:
        *len = 40; /* one batch */
        o.dim = 1;
        o.epochs = 3;
        break;
    }
    return o;
}

#endif
