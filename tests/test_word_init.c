/* SPDX-License-Identifier: MIT */
/*
 * Second sources: what follows from what the tables are said to be. Words that differ in the same
 * place by the same letters differ by the same vector; words that share so many letters or
 * tetramers have such a cosine; vectors from a file are theirs times one number.
 */
#include "trainers.h"

#include "learn/word_init.h"
#include "model/vectors.h"

#include <math.h>

enum { WIDTH = 256 };

#define STD 0.02
#define NOISE 0.002 /* what every word keeps of its own: a tenth of what was drawn */

/* ---------------------------------------------------------------- models ----------------- */

/* A model of k-mers whose word table, and composition if C > 0, have WIDTH numbers a row. */
static kmf_model *drawn(int k, size_t C)
{
    kmf_config config;
    kmf_err err = {0};
    ck_assert_int_eq(kmf_config_preset(&config, "nano", k, NULL), 0);
    config.embedding_size = config.hidden_size = WIDTH;
    config.composition = C;
    kmf_model *model = kmf_model_draw(&config, 3, &err);
    ck_assert_msg(model, "%s", err.msg);
    return model;
}

static int32_t id_of(const kmf_model *model, const char *word)
{
    uint64_t code = 0;
    for (const char *c = word; *c; c++)
        code = code << 2 | (uint64_t)(strchr("ACGT", *c) - "ACGT");
    int32_t id = kmf_vocab_kmer(model->vocab, code);
    ck_assert_str_eq(kmf_vocab_token(model->vocab, id), word);
    return id;
}

static const float *row_of(const kmf_model *model, const float *table, const char *word)
{
    return table + (size_t)id_of(model, word) * WIDTH;
}

/* Root of the mean square of the rows of all words without a '['. */
static double size_of(const kmf_model *model, const float *table)
{
    double squares = 0;
    size_t n = 0;
    for (size_t id = 0; id < model->config.vocab_size; id++)
        for (size_t e = 0; kmf_vocab_token(model->vocab, (int32_t)id)[0] != '[' && e < WIDTH;
             e++, n++)
            squares += (double)table[id * WIDTH + e] * (double)table[id * WIDTH + e];
    return sqrt(squares / (double)n);
}

/* Root of the mean square of a - b - (c - d). */
static double off(const float *a, const float *b, const float *c, const float *d)
{
    double squares = 0;
    for (size_t e = 0; e < WIDTH; e++) {
        double x = (double)a[e] - (double)b[e] - (double)c[e] + (double)d[e];
        squares += x * x;
    }
    return sqrt(squares / WIDTH);
}

static double cosine(const float *a, const float *b)
{
    double aa = 0, bb = 0, ab = 0;
    for (size_t e = 0; e < WIDTH; e++) {
        aa += (double)a[e] * (double)a[e];
        bb += (double)b[e] * (double)b[e];
        ab += (double)a[e] * (double)b[e];
    }
    return ab / sqrt(aa * bb);
}

/* Rows of special tokens are `share` times what they were. */
static void specials_keep(const kmf_model *model, const float *table, const float *before,
                          float share)
{
    size_t n = 0;
    for (size_t id = 0; id < model->config.vocab_size; id++) {
        if (kmf_vocab_token(model->vocab, (int32_t)id)[0] != '[')
            continue;
        n++;
        for (size_t e = id * WIDTH; e < (id + 1) * WIDTH; e++)
            ck_assert(table[e] == before[e] * share);
    }
    ck_assert_uint_eq(n, 5);
}

static float *copy_of(const kmf_model *model, const float *table)
{
    size_t n = model->config.vocab_size * WIDTH;
    float *copy = kmf_floats(n, NULL);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, table, n * sizeof *copy);
    return copy;
}

/* ---------------------------------------------------------------- sums ------------------- */

START_TEST(a_word_is_the_sum_of_its_letters)
{
    kmf_model *model = drawn(5, 0);
    const float *w = model->params.word;
    float *before = copy_of(model, w);
    kmf_word_init_letters(model, 7, false);
    specials_keep(model, w, before, 1);
    ck_assert(fabs(size_of(model, w) / STD - 1) < 0.1);
    /* the same exchange in the same place, whatever the other letters: four noises are left */
    ck_assert(off(row_of(model, w, "AACGT"), row_of(model, w, "CACGT"),
                  row_of(model, w, "AGTTG"), row_of(model, w, "CGTTG")) < 2.5 * NOISE);
    ck_assert(off(row_of(model, w, "ACGTA"), row_of(model, w, "ACGTT"),
                  row_of(model, w, "TTTTA"), row_of(model, w, "TTTTT")) < 2.5 * NOISE);
    /* in another place it is another one, and of the size of four letters' vectors */
    double other = off(row_of(model, w, "AACGT"), row_of(model, w, "CACGT"),
                       row_of(model, w, "GACGT"), row_of(model, w, "GCCGT"));
    ck_assert(fabs(other / (2 * STD / sqrt(5)) - 1) < 0.2);
    /* three of five letters; none */
    ck_assert(fabs(cosine(row_of(model, w, "AACGT"), row_of(model, w, "CACGG")) - 0.6) < 0.2);
    ck_assert(fabs(cosine(row_of(model, w, "AACGT"), row_of(model, w, "CCGTA"))) < 0.25);
    kmf_free(before);
    kmf_model_free(model);
}
END_TEST

START_TEST(half_of_a_word_is_the_sum_of_its_tetramers)
{
    kmf_model *model = drawn(5, 0), *letters = drawn(5, 0);
    const float *w = model->params.word, *l = letters->params.word;
    float *before = copy_of(model, w);
    kmf_word_init_letters(model, 7, true);
    kmf_word_init_letters(letters, 7, false);
    specials_keep(model, w, before, 1);
    ck_assert(fabs(size_of(model, w) / STD - 1) < 0.1);
    /* no letter is in its place, but both tetramers are there, on the other strand */
    ck_assert(fabs(cosine(row_of(model, l, "AACCG"), row_of(model, l, "CGGTT"))) < 0.25);
    ck_assert(fabs(cosine(row_of(model, w, "AACCG"), row_of(model, w, "CGGTT")) - 0.5) < 0.2);
    /* what is over the letters' half is the same for both, but for its own noise's share */
    float *tetramers = kmf_floats(model->config.vocab_size * WIDTH, NULL);
    ck_assert_ptr_nonnull(tetramers);
    for (size_t i = 0; i < model->config.vocab_size * WIDTH; i++)
        tetramers[i] = w[i] - sqrtf(0.5f) * l[i];
    ck_assert(fabs(size_of(model, tetramers) / (STD * sqrt(0.5)) - 1) < 0.15);
    ck_assert(cosine(row_of(model, tetramers, "AACCG"), row_of(model, tetramers, "CGGTT")) >
              0.98);
    /* one of two tetramers, in another place: ACCG */
    ck_assert(
        fabs(cosine(row_of(model, tetramers, "AACCG"), row_of(model, tetramers, "ACCGT")) -
             0.5) < 0.2);
    kmf_free(tetramers);
    kmf_free(before);
    kmf_model_free(model);
    kmf_model_free(letters);
}
END_TEST

START_TEST(a_composition_begins_as_that_of_tetramers)
{
    kmf_model *model = drawn(6, WIDTH);
    const float *w = model->params.comp_word;
    float *before = copy_of(model, w);
    kmf_word_init_composition(model, 7);
    specials_keep(model, w, before, 0.1f);
    ck_assert(fabs(size_of(model, w) / STD - 1) < 0.1);
    ck_assert(cosine(row_of(model, w, "AACCGT"), row_of(model, w, "ACGGTT")) > 0.97);
    /* two of three, one, none */
    ck_assert(fabs(cosine(row_of(model, w, "AACCGT"), row_of(model, w, "ACCGTA")) - 2.0 / 3) <
              0.2);
    ck_assert(fabs(cosine(row_of(model, w, "AACCGT"), row_of(model, w, "GAAACC")) - 1.0 / 3) <
              0.2);
    ck_assert(fabs(cosine(row_of(model, w, "AACCGT"), row_of(model, w, "TTATAA"))) < 0.25);
    kmf_free(before);
    kmf_model_free(model);
    model = drawn(3, WIDTH);
    before = copy_of(model, model->params.comp_word);
    kmf_word_init_composition(model, 7);
    ck_assert_mem_eq(before, model->params.comp_word,
                     model->config.vocab_size * WIDTH * sizeof *before);
    kmf_free(before);
    kmf_model_free(model);
}
END_TEST

/* ---------------------------------------------------------------- vectors ---------------- */

/* Vectors of some 3-mers, large ones, in a file; returns its path. */
static const char *vectors_of(const uint64_t *codes, size_t n, float scale)
{
    kmf_err err = {0};
    kmf_rng rng = kmf_rng_stream(11, 0);
    kmf_vectors *v = kmf_vectors_new(KMF_DNA, n, WIDTH, false, &err);
    ck_assert_msg(v, "%s", err.msg);
    for (size_t i = 0; i < n; i++) {
        v->code[i] = codes[i];
        v->k[i] = 3;
        for (size_t e = 0; e < WIDTH; e++)
            v->values[i * WIDTH + e] = kmf_rng_normal(&rng) * scale * (float)(i + 1);
    }
    ck_assert_msg(kmf_vectors_index(v, "made", &err) == 0, "%s", err.msg);
    ck_assert_msg(kmf_vectors_save(v, in_dir("v"), KMF_VECTORS_SAFETENSORS, NULL, &err) == 0,
                  "%s", err.msg);
    kmf_vectors_free(v);
    return in_dir("v");
}

START_TEST(vectors_are_taken_times_one_number)
{
    static const uint64_t codes[] = {0, 5, 63, 17};
    kmf_model *model = drawn(3, 0);
    float *before = copy_of(model, model->params.word);
    uint64_t unfilled = 0;
    kmf_err err = {0};
    const char *path = vectors_of(codes, 4, 50);
    ck_assert_msg(kmf_word_init_vectors(model, path, &unfilled, &err) == 0, "%s", err.msg);
    kmf_vectors *v = kmf_vectors_load(path, &err);
    ck_assert_msg(v, "%s", err.msg);
    double squares = 0, ratio = 0;
    size_t taken = 0;
    for (uint64_t code = 0; code < 64; code++) {
        size_t at = (size_t)kmf_vocab_kmer(model->vocab, code) * WIDTH;
        int64_t row = kmf_vectors_find(v, code, 3);
        if (row < 0) {
            ck_assert_mem_eq(before + at, model->params.word + at, WIDTH * sizeof *before);
            continue;
        }
        taken++;
        for (size_t e = 0; e < WIDTH; e++) {
            double x = (double)model->params.word[at + e];
            double from = (double)kmf_vectors_row(v, (size_t)row)[e];
            ratio = ratio > 0 ? ratio : x / from;
            ck_assert(fabs(x / from / ratio - 1) < 1e-6);
            squares += x * x;
        }
    }
    ck_assert(ratio > 0 && taken == 4 && unfilled == 60);
    ck_assert(fabs(sqrt(squares / (4 * WIDTH)) / STD - 1) < 1e-6);
    specials_keep(model, model->params.word, before, 1);
    kmf_vectors_free(v);
    kmf_free(before);
    kmf_model_free(model);
}
END_TEST

START_TEST(vectors_that_do_not_fit_are_refused)
{
    static const uint64_t codes[] = {0, 5};
    kmf_model *model = drawn(4, 0);
    uint64_t unfilled = 0;
    kmf_err err = {0};
    ck_assert_int_eq(kmf_word_init_vectors(model, vectors_of(codes, 2, 1), &unfilled, &err),
                     KMF_EMODEL);
    ck_assert_msg(strstr(err.msg, "3- to 3-mers, 256 numbers"), "%s", err.msg);
    kmf_model_free(model);
    model = drawn(3, 0);
    err = (kmf_err){0};
    ck_assert_int_eq(kmf_word_init_vectors(model, vectors_of(codes, 2, 0), &unfilled, &err),
                     KMF_EMODEL);
    ck_assert_msg(strstr(err.msg, "none of the model's k-mers"), "%s", err.msg);
    err = (kmf_err){0};
    ck_assert_int_eq(kmf_word_init_vectors(model, in_dir("none"), &unfilled, &err), KMF_EIO);
    kmf_model_free(model);
}
END_TEST

/* ---------------------------------------------------------------- trainers --------------- */

/* The options choose them. */
START_TEST(a_trainer_begins_with_the_words_it_was_told)
{
    static const kmf_words_start words[] = {KMF_WORDS_LETTERS, KMF_WORDS_RANDOM,
                                            KMF_WORDS_TETRAMERS};
    for (int i = 0; i < 3; i++) {
        options o = small_options();
        kmf_config config;
        kmf_err err = {0};
        o.init = NULL;
        o.preset = "nano";
        o.k = 4;
        o.words = (int)words[i];
        kmf_pretrain *t = kmf_pretrain_new(&o, &err);
        ck_assert_msg(t, "%s", err.msg);
        ck_assert_int_eq(kmf_config_preset(&config, "nano", 4, NULL), 0);
        kmf_model *model = kmf_model_draw(&config, o.seed, &err);
        ck_assert_msg(model, "%s", err.msg);
        if (words[i] != KMF_WORDS_RANDOM)
            kmf_word_init_letters(model, o.seed, words[i] == KMF_WORDS_TETRAMERS);
        ck_assert_mem_eq(model->params.word, t->model->params.word,
                         config.vocab_size * config.embedding_size * sizeof(float));
        kmf_model_free(model);
        kmf_pretrain_free(t);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("word_init");
    TCase *tables = tcase_create("tables");
    TCase *files = tcase_create("files");
    tcase_add_test(tables, a_word_is_the_sum_of_its_letters);
    tcase_add_test(tables, half_of_a_word_is_the_sum_of_its_tetramers);
    tcase_add_test(tables, a_composition_begins_as_that_of_tetramers);
    tcase_add_checked_fixture(files, begin_test, remove_dir);
    tcase_add_test(files, vectors_are_taken_times_one_number);
    tcase_add_test(files, vectors_that_do_not_fit_are_refused);
    tcase_add_test(files, a_trainer_begins_with_the_words_it_was_told);
    suite_add_tcase(suite, tables);
    suite_add_tcase(suite, files);
    return run_suite(suite);
}
