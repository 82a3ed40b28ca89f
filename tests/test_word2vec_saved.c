/* SPDX-License-Identifier: MIT */
/*
 * Checkpoints of word2vec. Second source: the training that is not stopped; a damaged file is
 * refused, or is the one that it was.
 */
#include "base/mem.h"
#include "run.h"
#include "word2vec_trainers.h"

#include <unistd.h>

static int stop_at_once(void *user, const kmf_word2vec_state *state)
{
    (void)user;
    ck_assert(state->done > 0 && state->done <= 1);
    return 1;
}

/*
 * Trained as far as it goes before it is told to stop, again and again: each time it is saved,
 * loaded by another trainer with another number of threads, and goes on there.
 */
static void check_resume(int k)
{
    size_t len;
    const char *of;
    kmf_err err = {0};
    options o = kind(k, &len, &of);
    input in = random_input(len, of, 2);
    const char *path = in_dir("checkpoint");
    uint64_t whole = trained(&o, &in);
    int places = 0;
    int status = 1;
    kmf_word2vec *trainer = begin(&o, &in);
    ck_assert_int_eq(kmf_word2vec_save(trainer, path, &err), 0); /* before the first step */
    for (;; places++) {
        ck_assert_int_eq(kmf_word2vec_load(trainer, path, &err), 0);
        if (status == 0)
            break;
        status = kmf_word2vec_train(trainer, stop_at_once, NULL, &err);
        ck_assert_int_ge(status, 0);
        ck_assert_int_eq(kmf_word2vec_save(trainer, path, &err), 0);
        uint64_t before = print_of(trainer);
        kmf_word2vec_free(trainer);
        o.threads = 1 + places % 3;
        trainer = begin(&o, &in);
        ck_assert_int_eq(kmf_word2vec_load(trainer, path, &err), 0);
        ck_assert_msg(print_of(trainer) == before, "kind %d, place %d", k, places);
        if (places % 4 != 1)
            continue;
        /* from here to the end without another stop */
        ck_assert_int_eq(kmf_word2vec_train(trainer, NULL, NULL, &err), 0);
        ck_assert_msg(print_of(trainer) == whole, "kind %d, place %d", k, places);
    }
    ck_assert_msg(print_of(trainer) == whole, "kind %d", k);
    ck_assert_int_ge(places, k == KINDS - 1 || k == 6 ? 1 : 2);
    /* one that has come to the end stays there */
    ck_assert_int_eq(kmf_word2vec_train(trainer, NULL, NULL, &err), 0);
    ck_assert(print_of(trainer) == whole);
    kmf_word2vec_free(trainer);
    free_input(&in);
    unlink(path);
}

START_TEST(what_is_stopped_saved_and_loaded_ends_the_same)
{
    for (int k = 0; k < KINDS; k++)
        check_resume(k);
}
END_TEST

typedef struct saving {
    kmf_word2vec *trainer;
    const char *path;
    int calls;
} saving;

static int save_and_go_on(void *user, const kmf_word2vec_state *state)
{
    saving *s = user;
    ck_assert(state->alpha > 0);
    if (s->calls++ == 0)
        ck_assert_int_eq(kmf_word2vec_save(s->trainer, s->path, NULL), 0);
    return 0;
}

START_TEST(a_checkpoint_can_be_written_on_the_way)
{
    options o = small_options();
    input in = random_input(20000, "ACGT", 3);
    uint64_t whole = trained(&o, &in);
    o.threads = 3;
    saving s = {.trainer = begin(&o, &in), .path = in_dir("on_the_way")};
    ck_assert_int_eq(kmf_word2vec_train(s.trainer, save_and_go_on, &s, NULL), 0);
    ck_assert_int_ge(s.calls, 1);
    ck_assert(print_of(s.trainer) == whole);
    kmf_word2vec_free(s.trainer);
    s.trainer = begin(&o, &in);
    ck_assert_int_eq(kmf_word2vec_load(s.trainer, s.path, NULL), 0);
    ck_assert(print_of(s.trainer) != whole);
    ck_assert_int_eq(kmf_word2vec_train(s.trainer, NULL, NULL, NULL), 0);
    ck_assert(print_of(s.trainer) == whole);
    kmf_word2vec_free(s.trainer);
    unlink(s.path);
    free_input(&in);
}
END_TEST

/* ---------------------------------------------------------------- bad checkpoints ------- */

static void refuse(const options *o, const input *in, const char *path, const char *what)
{
    kmf_err err = {0};
    kmf_word2vec *trainer = begin(o, in);
    uint64_t before = print_of(trainer);
    ck_assert_msg(kmf_word2vec_load(trainer, path, &err) == KMF_EMODEL, "%s", what);
    ck_assert_int_eq(err.code, KMF_EMODEL);
    ck_assert_msg(strstr(err.msg, what), "%s is not named in: %s", what, err.msg);
    ck_assert_msg(strstr(err.msg, path), "the file is not named in: %s", err.msg);
    ck_assert(print_of(trainer) == before);
    kmf_word2vec_free(trainer);
}

START_TEST(a_checkpoint_of_other_settings_is_refused_by_name)
{
    const char *path = in_dir("others");
    input in = random_input(500, "ACGT", 4);
    input other = random_input(500, "ACGT", 5);
    options o = small_options();
    kmf_word2vec *trainer = begin(&o, &in);
    ck_assert_int_eq(kmf_word2vec_save(trainer, path, NULL), 0);
    kmf_word2vec_free(trainer);
    refuse(&o, &other, path, "checksum of the inputs");
#define REFUSE(setting, value, name)       \
    do {                                   \
        options changed = o;               \
        changed.setting = (value);         \
        refuse(&changed, &in, path, name); \
    } while (0)
    REFUSE(k_max, 5, "k_max was 4, now it is 5");
    REFUSE(strand, KMF_WORDS_BOTH, "strand was fwd, now it is both");
    REFUSE(stride, 2, "stride was 1, now it is 2");
    REFUSE(frames, 1, "frames");
    REFUSE(dim, 21, "dim was 20, now it is 21");
    REFUSE(window, 6, "window");
    REFUSE(negative, 6, "negative");
    REFUSE(cbow, 1, "cbow");
    REFUSE(sample, 1e-5, "sample");
    REFUSE(alpha, 0.05000000000000001, "alpha");
    REFUSE(epochs, 3, "epochs");
    REFUSE(seed, 2, "seed");
#undef REFUSE
    options longer = o;
    longer.k_min = longer.k_max = 5;
    refuse(&longer, &in, path, "k_min was 4, now it is 5");
    in.len[0]--;
    refuse(&o, &in, path, "letters of the inputs");
    in.len[0]++;
    unlink(path);
    free_input(&in);
    free_input(&other);
}
END_TEST

/*
 * A changed file is refused, or, where the change means nothing (a blank of the header), it is the
 * checkpoint that it was.
 */
START_TEST(a_damaged_checkpoint_is_refused)
{
    const char *path = in_dir("good");
    const char *bad = in_dir("bad");
    const char *again = in_dir("again");
    options o = small_options();
    o.k_min = o.k_max = 1;
    o.dim = 3;
    input in = random_input(5000, "ACGT", 6);
    size_t len, len_again;
    size_t taken = 0;
    kmf_word2vec *trainer = begin(&o, &in);
    ck_assert_int_eq(kmf_word2vec_train(trainer, stop_at_once, NULL, NULL), 1);
    ck_assert_int_eq(kmf_word2vec_save(trainer, path, NULL), 0);
    char *good = get(path, &len);
    kmf_word2vec_free(trainer);
    trainer = begin(&o, &in);
    for (size_t at = 0; at < len; at += CHECKED ? 3 : 1)
        for (int bit = 1; bit <= 32; bit <<= 5) {
            kmf_err err = {0};
            good[at] = (char)(good[at] ^ bit);
            put(bad, good, len);
            good[at] = (char)(good[at] ^ bit);
            int status = kmf_word2vec_load(trainer, bad, &err);
            if (status != 0) {
                if (status != KMF_EMODEL || !*err.msg)
                    ck_abort_msg("byte %zu: %d, %s", at, status, err.msg);
                continue;
            }
            taken++;
            ck_assert_int_eq(kmf_word2vec_save(trainer, again, NULL), 0);
            char *bytes = get(again, &len_again);
            if (len_again != len || memcmp(bytes, good, len) != 0)
                ck_abort_msg("byte %zu of %zu, bit %d, changes the checkpoint", at, len, bit);
            kmf_free(bytes);
        }
    ck_assert_uint_lt(taken, 200);
    for (size_t n = 0; n < len; n += CHECKED ? 3 : 1) {
        kmf_err err = {0};
        put(bad, good, n);
        if (kmf_word2vec_load(trainer, bad, &err) != KMF_EMODEL)
            ck_abort_msg("the first %zu bytes are taken for a checkpoint", n);
    }
    kmf_err err = {0};
    ck_assert_int_eq(kmf_word2vec_load(trainer, in_dir("none"), &err), KMF_EIO);
    kmf_word2vec_free(trainer);
    kmf_free(good);
    unlink(path);
    unlink(bad);
    unlink(again);
    free_input(&in);
}
END_TEST

START_TEST(a_checkpoint_that_cannot_be_written_is_reported)
{
    kmf_err err = {0};
    options o = small_options();
    input in = random_input(100, "ACGT", 7);
    kmf_word2vec *trainer = begin(&o, &in);
    ck_assert_int_eq(kmf_word2vec_save(trainer, "/nonexistent/checkpoint", &err), KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "/nonexistent/checkpoint"));
    kmf_word2vec_free(trainer);
    free_input(&in);
}
END_TEST

int main(void)
{
    TCase *c = untimed_case();
    tcase_add_checked_fixture(c, make_dir, remove_empty_dir);
    tcase_add_test(c, what_is_stopped_saved_and_loaded_ends_the_same);
    tcase_add_test(c, a_checkpoint_can_be_written_on_the_way);
    tcase_add_test(c, a_checkpoint_of_other_settings_is_refused_by_name);
    tcase_add_test(c, a_damaged_checkpoint_is_refused);
    tcase_add_test(c, a_checkpoint_that_cannot_be_written_is_reported);
    return run_case("word2vec_saved", c);
}
