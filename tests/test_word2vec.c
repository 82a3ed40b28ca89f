/* SPDX-License-Identifier: MIT */
/*
 * Second sources: another number of threads, and corpora of which it is known what must be near
 * what. Checkpoints are in test_word2vec_saved.
 */
#include "base/mem.h"
#include "seq/seqio.h"
#include "run.h"
#include "word2vec_trainers.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---------------------------------------------------------------- the same bits --------- */

START_TEST(the_bits_do_not_depend_on_the_number_of_threads)
{
    static const int threads[] = {1, 2, 3, 5};
    for (int k = 0; k < KINDS; k++) {
        uint64_t first = 0;
        size_t len;
        const char *of;
        options o = kind(k, &len, &of);
        input in = random_input(len, of, 1);
        for (size_t i = 0; i < sizeof threads / sizeof threads[0]; i++) {
            o.threads = threads[i];
            uint64_t print = trained(&o, &in);
            if (i == 0)
                first = print;
            ck_assert_msg(print == first, "kind %d with %d threads", k, threads[i]);
        }
        o.threads = 1;
        o.seed++;
        ck_assert_uint_ne(trained(&o, &in), first);
        free_input(&in);
    }
}
END_TEST

/* ---------------------------------------------------------------- options, memory ------- */

START_TEST(options_out_of_range_are_refused)
{
#define BAD(setting, value, word)                       \
    do {                                                \
        kmf_err err = {0};                              \
        options o = small_options();                    \
        o.setting = (value);                            \
        ck_assert_ptr_null(kmf_word2vec_new(&o, &err)); \
        ck_assert_int_eq(err.code, KMF_EINVAL);         \
        ck_assert_ptr_nonnull(strstr(err.msg, word));   \
    } while (0)
    BAD(alphabet, (kmf_alphabet)7, "alphabet");
    BAD(k_min, 0, "k");
    BAD(k_min, 5, "k");
    BAD(k_max, 3, "k");
    BAD(k_max, 13, "12");
    BAD(strand, 3, "strand");
    BAD(strand, -1, "strand");
    BAD(stride, 0, "stride");
    BAD(stride, 65537, "stride");
    BAD(dim, 0, "dim");
    BAD(dim, 1025, "dim");
    BAD(window, 0, "window");
    BAD(window, 101, "window");
    BAD(negative, 0, "negative");
    BAD(negative, 64, "negative");
    BAD(sample, -0.1, "sample");
    BAD(sample, 1.1, "sample");
    BAD(sample, (double)NAN, "sample");
    BAD(alpha, 0, "alpha");
    BAD(alpha, 1e-50, "alpha"); /* 0 in float32 */
    BAD(alpha, 1.1, "alpha");
    BAD(alpha, (double)NAN, "alpha");
    BAD(epochs, 0, "epochs");
    BAD(epochs, 10001, "epochs");
    BAD(threads, -1, "threads");
    BAD(threads, 1025, "threads");
#undef BAD
    kmf_err err = {0};
    options o = small_options();
    o.frames = 1;
    o.stride = 2;
    ck_assert_ptr_null(kmf_word2vec_new(&o, &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "frames"));
    err = (kmf_err){0};
    o = small_options();
    o.alphabet = KMF_PROTEIN;
    o.strand = KMF_WORDS_BOTH;
    ck_assert_ptr_null(kmf_word2vec_new(&o, &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "strand"));
    err = (kmf_err){0};
    o.strand = KMF_WORDS_FWD;
    o.k_max = 6;
    ck_assert_ptr_null(kmf_word2vec_new(&o, &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "5"));
    kmf_word2vec_free(NULL);
}
END_TEST

START_TEST(an_input_without_k_mers_is_refused)
{
    static const char *const seqs[] = {"", "ACG", "NNNNNNNNNN", "ACGNACGNACG"};
    for (size_t i = 0; i < sizeof seqs / sizeof seqs[0]; i++) {
        kmf_err err = {0};
        options o = small_options();
        kmf_word2vec *trainer = kmf_word2vec_new(&o, &err);
        ck_assert_int_eq(kmf_word2vec_add(trainer, seqs[i], strlen(seqs[i]), &err), 0);
        ck_assert_int_eq(kmf_word2vec_begin(trainer, NULL, NULL, &err), KMF_EFORMAT);
        ck_assert_ptr_nonnull(strstr(err.msg, "no k-mer"));
        ck_assert_int_eq(kmf_word2vec_begin(trainer, NULL, NULL, NULL), KMF_EINVAL);
        kmf_word2vec_free(trainer);
    }
}
END_TEST

START_TEST(a_reader_is_read_once)
{
    options o = small_options();
    kmf_err err = {0};
    kmf_word2vec *trainer = kmf_word2vec_new(&o, NULL);
    kmf_reader *reader = kmf_reader_open("data/contigs.fa.gz", NULL, NULL, NULL);
    ck_assert_int_eq(kmf_word2vec_read(trainer, reader, NULL, NULL, NULL), 0);
    ck_assert_int_eq(kmf_word2vec_read(trainer, reader, NULL, NULL, &err), KMF_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.msg, "taken before"));
    kmf_record rec;
    err = (kmf_err){0};
    ck_assert_int_eq(kmf_reader_next(reader, &rec, &err), KMF_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.msg, "taken before"));
    kmf_reader_close(reader);
    kmf_word2vec_free(trainer);
}
END_TEST

START_TEST(an_input_that_is_cut_short_is_not_learnt_from)
{
    static const char cut[] = "@x\nACGTACGTACGT\n+\nIIIIIIIIIIII\n@y\nACGT\n+\nII\n";
    options o = small_options();
    kmf_err err = {0};
    const char *path = in_dir("cut.fq");
    ck_assert_int_eq(kmf_file_save(path, cut, sizeof cut - 1, NULL), 0);
    kmf_word2vec *trainer = kmf_word2vec_new(&o, NULL);
    kmf_reader *reader = kmf_reader_open(path, NULL, NULL, NULL);
    ck_assert_int_eq(kmf_word2vec_read(trainer, reader, NULL, NULL, NULL), KMF_EFORMAT);
    kmf_reader_close(reader);
    ck_assert_int_eq(kmf_word2vec_begin(trainer, NULL, NULL, &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "an input was not read to its end");
    kmf_word2vec_free(trainer);
    ck_assert_int_eq(unlink(path), 0);
    /* nor are letters that could not all be taken */
    char *letters = calloc(1, 1 << 20);
    memset(letters, 'A', 1 << 20);
    trainer = kmf_word2vec_new(&o, NULL);
    kmf_mem_fail_at(1);
    ck_assert_int_eq(kmf_word2vec_add(trainer, letters, 1 << 20, NULL), KMF_ENOMEM);
    kmf_mem_fail_at(0);
    kmf_err more = {0};
    ck_assert_int_eq(kmf_word2vec_add(trainer, letters, 100, &more), KMF_EINVAL);
    ck_assert_str_eq(more.msg, "an input was not read to its end");
    ck_assert_int_eq(kmf_word2vec_begin(trainer, NULL, NULL, &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "an input was not read to its end");
    kmf_word2vec_free(trainer);
    free(letters);
}
END_TEST

START_TEST(nothing_is_trained_before_the_training_begins)
{
    kmf_err err = {0};
    options o = small_options();
    kmf_word2vec *trainer = kmf_word2vec_new(&o, NULL);
    ck_assert_int_eq(kmf_word2vec_train(trainer, NULL, NULL, &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "the training has not begun");
    ck_assert_int_eq(kmf_word2vec_save(trainer, "none/x", NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_word2vec_load(trainer, "none/x", NULL), KMF_EINVAL);
    ck_assert_ptr_null(kmf_word2vec_vectors(trainer, NULL));
    ck_assert_int_eq(kmf_word2vec_add(trainer, "ACGTACGTACGT", 12, NULL), 0);
    ck_assert_int_eq(kmf_word2vec_begin(trainer, NULL, NULL, NULL), 0);
    kmf_reader *late = kmf_reader_open("data/contigs.fa.gz", NULL, NULL, NULL);
    ck_assert_int_eq(kmf_word2vec_read(trainer, late, NULL, NULL, NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_word2vec_add(trainer, "ACGT", 4, NULL), KMF_EINVAL);
    kmf_reader_close(late);
    ck_assert_int_eq(kmf_word2vec_train(trainer, NULL, NULL, NULL), 0);
    kmf_word2vec_free(trainer);
}
END_TEST

/* Sentences of one token, of which nothing can be learnt. */
START_TEST(lonely_k_mers_end_as_they_began)
{
    options o = small_options();
    kmf_word2vec_state state;
    for (o.cbow = 0; o.cbow <= 1; o.cbow++) {
        kmf_word2vec *trainer = kmf_word2vec_new(&o, NULL);
        for (int i = 0; i < 500; i++)
            ck_assert_int_eq(kmf_word2vec_add(trainer, "ACGT", 4, NULL), 0);
        ck_assert_int_eq(kmf_word2vec_begin(trainer, NULL, NULL, NULL), 0);
        ck_assert_int_eq(kmf_word2vec_train(trainer, NULL, NULL, NULL), 0);
        kmf_word2vec_information(trainer, &state);
        ck_assert_uint_eq(state.tokens, 1000);
        ck_assert_uint_eq(state.kmers, 500);
        ck_assert_uint_eq(state.unseen, 255);
        ck_assert(isnan(state.loss));
        kmf_word2vec_free(trainer);
    }
}
END_TEST

/* Everything that allocates. */
static int live(const options *o, const input *in, const char *path, kmf_err *err)
{
    int status = KMF_ENOMEM;
    kmf_vectors *vectors = NULL;
    kmf_word2vec *trainer = begun(o, in, err);
    if (trainer)
        status = kmf_word2vec_train(trainer, NULL, NULL, err);
    if (status == 0)
        status = kmf_word2vec_save(trainer, path, err);
    if (status == 0)
        status = kmf_word2vec_load(trainer, path, err);
    if (status == 0 && !(vectors = kmf_word2vec_vectors(trainer, err)))
        status = KMF_ENOMEM;
    kmf_vectors_free(vectors);
    kmf_word2vec_free(trainer);
    return status;
}

START_TEST(every_allocation_may_fail)
{
    const char *path = in_dir("memory");
    input in = random_input(300, "ACGT", 8);
    for (int i = 0; i < 2; i++) {
        options o = small_options();
        kmf_err err = {0};
        o.threads = 2;
        o.tmp = dir;
        o.sample = i ? 0.01 : 0;
        o.strand = i ? KMF_WORDS_CANONICAL : KMF_WORDS_FWD;
        o.epochs = 1;
        kmf_mem_fail_at(0);
        ck_assert_int_eq(live(&o, &in, path, &err), 0);
        size_t n = kmf_mem_count();
        ck_assert_uint_gt(n, 50);
        for (size_t at = 1; at <= n; at++) {
            kmf_mem_fail_at(at);
            int status = live(&o, &in, path, &err);
            if (status != KMF_ENOMEM || err.code != KMF_ENOMEM)
                ck_abort_msg("allocation %zu of %zu: %d, %s", at, n, status, err.msg);
            err = (kmf_err){0};
        }
        kmf_mem_fail_at(0);
    }
    unlink(path);
    free_input(&in);
}
END_TEST

/* ---------------------------------------------------------------- what is learnt -------- */

typedef struct watch {
    double first, last;
    double alpha, done;
    int calls, wrong;
} watch;

static int note_state(void *user, const kmf_word2vec_state *state)
{
    watch *w = user;
    w->calls++;
    w->wrong += !(state->alpha <= w->alpha) || !(state->done >= w->done);
    w->alpha = state->alpha;
    w->done = state->done;
    if (!isnan(state->loss) && w->calls <= 2)
        w->first = state->loss;
    w->last = state->loss;
    return 1;
}

typedef struct listener {
    uint64_t last;
    int calls, backwards;
} listener;

static void listen(void *user, uint64_t letters)
{
    listener *l = user;
    l->backwards += letters <= l->last;
    l->last = letters;
    l->calls++;
}

/*
 * What is told is at most 2^20 letters behind; in the counting each letter is met for each length.
 */
START_TEST(reading_and_counting_tell_how_far_they_are)
{
    const uint64_t behind = (uint64_t)1 << 20;
    const size_t len = 2500000;
    options o = small_options();
    kmf_rng rng = kmf_rng_stream(12, 0);
    listener reading = {0};
    listener counting = {0};
    kmf_word2vec_state state;
    char *file = malloc(len + 4);
    memcpy(file, ">r\n", 3);
    for (size_t i = 0; i < len; i++)
        file[3 + i] = "ACGT"[kmf_rng_below(&rng, 4)];
    file[3 + len] = '\n';
    o.k_min = 2;
    kmf_word2vec *trainer = kmf_word2vec_new(&o, NULL);
    kmf_reader *reader = kmf_reader_open_memory(file, len + 4, NULL, NULL);
    ck_assert_int_eq(kmf_word2vec_read(trainer, reader, listen, &reading, NULL), 0);
    kmf_reader_close(reader);
    ck_assert_int_gt(reading.calls, 1);
    ck_assert_uint_eq(reading.last, len);
    ck_assert_int_eq(kmf_word2vec_begin(trainer, listen, &counting, NULL), 0);
    ck_assert_int_gt(counting.calls, 3);
    ck_assert(counting.last <= 3 * len && counting.last + behind > 3 * len);
    ck_assert_int_eq(reading.backwards + counting.backwards, 0);
    kmf_word2vec_information(trainer, &state);
    ck_assert_uint_eq(state.letters, len);
    ck_assert_uint_eq(state.kmers, 3 * len - 1 - 2 - 3);
    kmf_word2vec_free(trainer);
    free(file);
}
END_TEST

START_TEST(threads_are_told_as_they_are_used)
{
    static const int asked[] = {1, 3, 16, 17, 1024};
    options o = small_options();
    input in = random_input(500, "ACGT", 5);
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        kmf_word2vec_state state;
        o.threads = asked[i];
        kmf_word2vec *trainer = begin(&o, &in);
        kmf_word2vec_information(trainer, &state);
        ck_assert_int_eq(state.threads, asked[i] < 16 ? asked[i] : 16);
        kmf_word2vec_free(trainer);
    }
    free_input(&in);
}
END_TEST

START_TEST(the_loss_begins_where_it_must_and_falls)
{
    for (int cbow = 0; cbow <= 1; cbow++) {
        options o = small_options();
        watch w = {.alpha = 1};
        kmf_word2vec_state state;
        /* repeats, of which much can be learnt */
        input in = random_input(600, "ACGT", 9);
        o.cbow = cbow;
        o.alpha = 0.025;
        o.epochs = 30;
        kmf_word2vec *trainer = kmf_word2vec_new(&o, NULL);
        for (int i = 0; i < 30; i++)
            ck_assert_int_eq(kmf_word2vec_add(trainer, in.seq[0], 600, NULL), 0);
        ck_assert_int_eq(kmf_word2vec_begin(trainer, NULL, NULL, NULL), 0);
        kmf_word2vec_information(trainer, &state);
        ck_assert(isnan(state.loss) && state.done <= 0 && state.tokens == 0);
        ck_assert(fabs(state.alpha - 0.025) < 1e-12);
        while (kmf_word2vec_train(trainer, note_state, &w, NULL) == 1)
            continue;
        kmf_word2vec_information(trainer, &state);
        ck_assert_int_eq(w.wrong, 0);
        ck_assert_int_gt(w.calls, 10);
        /* the targets begin at 0: each of the 6 words costs log 2, less those left out */
        ck_assert_msg(w.first < 6 * log(2) + 1e-6 && w.first > 3, "begins at %g", w.first);
        ck_assert_msg(state.loss < 0.8 * w.first, "from %g to %g", w.first, state.loss);
        ck_assert(state.done >= 1 && state.done <= 1);
        ck_assert_int_eq(state.epoch, o.epochs);
        ck_assert(fabs(state.alpha - 0.025e-4) < 1e-12);
        ck_assert_uint_eq(state.tokens, state.kmers * (uint64_t)o.epochs);
        kmf_word2vec_free(trainer);
        free_input(&in);
    }
}
END_TEST

static double cosine(const float *a, const float *b, size_t n)
{
    double ab = 0;
    double aa = 0;
    double bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

/*
 * Two languages that share no word of 4 letters: one of A and C, one of G and T. Words of one are
 * nearer to each other than to those of the other, and their counts are those of the corpus.
 */
static void check_languages(const options *o, size_t words)
{
    kmf_rng rng = kmf_rng_stream(10, 0);
    kmf_err err = {0};
    const size_t len = CHECKED ? 200 : 400;
    char seq[400];
    kmf_vectors_info info;
    double sums[2] = {0};
    double n[2] = {0};
    uint64_t counted = 0;
    kmf_word2vec *trainer = kmf_word2vec_new(o, &err);
    ck_assert_msg(trainer, "%s", err.msg);
    for (int i = 0; i < 80; i++) {
        for (size_t at = 0; at < len; at++)
            seq[at] = (i % 2 ? "AC" : "GT")[kmf_rng_below(&rng, 2)];
        ck_assert_int_eq(kmf_word2vec_add(trainer, seq, len, NULL), 0);
    }
    ck_assert_int_eq(kmf_word2vec_begin(trainer, NULL, NULL, &err), 0);
    ck_assert_int_eq(kmf_word2vec_train(trainer, NULL, NULL, &err), 0);
    kmf_vectors *v = kmf_word2vec_vectors(trainer, &err);
    ck_assert_ptr_nonnull(v);
    kmf_vectors_information(v, &info);
    ck_assert_uint_eq(info.unseen, info.n - 2 * words);
    for (size_t a = 0; a < info.n; a++) {
        char text[8], other[8];
        kmf_vectors_word(v, a, text);
        bool mixed = strpbrk(text, "AC") && strpbrk(text, "GT");
        ck_assert(mixed == (kmf_vectors_count(v, a) == 0));
        counted += kmf_vectors_count(v, a);
        for (size_t b = 0; b < a && !mixed; b++) {
            if (kmf_vectors_count(v, b) == 0)
                continue;
            kmf_vectors_word(v, b, other);
            int apart = (strpbrk(text, "AC") != NULL) != (strpbrk(other, "AC") != NULL);
            sums[apart] += cosine(kmf_vectors_row(v, a), kmf_vectors_row(v, b), info.dim);
            n[apart]++;
        }
    }
    size_t windows = 0;
    for (int k = o->k_min; k <= o->k_max; k++)
        windows += 80 * ((len - (size_t)k) / o->stride + 1);
    ck_assert_uint_eq(counted, windows);
    ck_assert_msg(sums[0] / n[0] > sums[1] / n[1] + 0.3, "within %.3f, between %.3f",
                  sums[0] / n[0], sums[1] / n[1]);
    kmf_vectors_free(v);
    kmf_word2vec_free(trainer);
}

START_TEST(words_that_keep_company_come_near_each_other)
{
    options o = small_options();
    o.epochs = 40;
    o.alpha = 0.025;
    check_languages(&o, 16);
    if (CHECKED)
        return;
    o.cbow = 1;
    check_languages(&o, 16);
    o.cbow = 0;
    o.stride = 2;
    check_languages(&o, 16);
    o.stride = 1;
    o.k_min = 3;
    check_languages(&o, 8 + 16);
}
END_TEST

START_TEST(words_that_were_never_met_keep_what_they_were_given)
{
    options o = small_options();
    kmf_vectors_info info;
    kmf_word2vec *trainer = kmf_word2vec_new(&o, NULL);
    ck_assert_int_eq(kmf_word2vec_add(trainer, "AAAAAAAACCCCCCCAAAAACCCAAAACCAA", 31, NULL), 0);
    ck_assert_int_eq(kmf_word2vec_begin(trainer, NULL, NULL, NULL), 0);
    kmf_vectors *before = kmf_word2vec_vectors(trainer, NULL);
    ck_assert_int_eq(kmf_word2vec_train(trainer, NULL, NULL, NULL), 0);
    kmf_vectors *after = kmf_word2vec_vectors(trainer, NULL);
    kmf_vectors_information(after, &info);
    ck_assert_uint_eq(info.n, 256);
    for (size_t row = 0; row < info.n; row++) {
        const float *old = kmf_vectors_row(before, row);
        const float *new = kmf_vectors_row(after, row);
        bool same = memcmp(old, new, info.dim * sizeof *old) == 0;
        ck_assert(same == (kmf_vectors_count(after, row) == 0));
        for (size_t d = 0; d < info.dim; d++)
            if (fabsf(old[d]) > 0.5f / 20)
                ck_abort_msg("word %zu begins beyond 0.5 / dim", row);
    }
    kmf_vectors_free(before);
    kmf_vectors_free(after);
    kmf_word2vec_free(trainer);
}
END_TEST

START_TEST(vectors_that_grow_beyond_all_bounds_are_an_error)
{
    options o = small_options();
    kmf_err err = {0};
    o.alpha = 1;
    o.cbow = 1;
    o.window = 100;
    o.negative = 63;
    o.epochs = 300;
    input in = random_input(3000, "ACGT", 12);
    kmf_word2vec *trainer = begin(&o, &in);
    ck_assert_int_eq(kmf_word2vec_train(trainer, NULL, NULL, &err), KMF_ENUMERIC);
    ck_assert_int_eq(err.code, KMF_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(err.msg, "alpha"));
    kmf_word2vec_free(trainer);
    free_input(&in);
}
END_TEST

int main(void)
{
    TCase *c = untimed_case();
    tcase_add_checked_fixture(c, make_dir, remove_empty_dir);
    tcase_add_test(c, the_bits_do_not_depend_on_the_number_of_threads);
    tcase_add_test(c, options_out_of_range_are_refused);
    tcase_add_test(c, an_input_without_k_mers_is_refused);
    tcase_add_test(c, a_reader_is_read_once);
    tcase_add_test(c, an_input_that_is_cut_short_is_not_learnt_from);
    tcase_add_test(c, nothing_is_trained_before_the_training_begins);
    tcase_add_test(c, lonely_k_mers_end_as_they_began);
    tcase_add_test(c, every_allocation_may_fail);
    tcase_add_test(c, reading_and_counting_tell_how_far_they_are);
    tcase_add_test(c, threads_are_told_as_they_are_used);
    tcase_add_test(c, the_loss_begins_where_it_must_and_falls);
    tcase_add_test(c, words_that_keep_company_come_near_each_other);
    tcase_add_test(c, words_that_were_never_met_keep_what_they_were_given);
    tcase_add_test(c, vectors_that_grow_beyond_all_bounds_are_an_error);
    return run_case("word2vec", c);
}
