/* SPDX-License-Identifier: MIT */
/*
 * Pretraining that is refused or runs out of something. Second sources: the kernel, for memory;
 * allocations that fail one after the other.
 */
#include "trainers.h"

#include "base/err.h"
#include "checked.h"

#include <math.h>
#include <sys/resource.h>
#include <sys/wait.h>

/* ---------------------------------------------------------------- bad input ------------- */

static void bad_options(const options *o, const char *word)
{
    kmf_err err = {0};
    ck_assert_ptr_null(kmf_pretrain_new(o, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    ck_assert_msg(strstr(err.msg, word), "%s is not in %s", word, err.msg);
    ck_assert_ptr_null(kmf_pretrain_new(o, NULL));
}

START_TEST(something_to_begin_with_is_asked_for)
{
    options o = small_options();
    o.preset = o.init = NULL;
    bad_options(&o, "neither a preset nor a model");
}
END_TEST

#define BAD(setting, value, word) \
    do {                          \
        options o = usual;        \
        o.setting = (value);      \
        bad_options(&o, word);    \
    } while (0)

START_TEST(options_out_of_range_are_refused)
{
    const options usual = small_options();
    BAD(steps, 0, "how long");
    BAD(epochs, 1, "how long");
    BAD(epochs, -1, "how long");
    BAD(epochs, (double)NAN, "how long");
    BAD(seconds, (double)NAN, "how long");
    BAD(parts, -2, "parts: unknown");
    BAD(seconds, 1, "how long");
    BAD(steps, UINT64_MAX, "steps");
    BAD(stride, 4, "stride");
    BAD(stride, SIZE_MAX, "stride");
    BAD(window, 7, "window");
    BAD(window, 65537, "window");
    BAD(window, SIZE_MAX, "window");
    BAD(words, 3, "words");
    BAD(words, -1, "words");
    BAD(precision, KMF_PRECISION_INT8, "precision");
    BAD(precision, KMF_PRECISION_AUTO, "precision");
    BAD(precision, -1, "precision");
    BAD(schedule, 3, "schedule");
    BAD(schedule, -1, "schedule");
    BAD(val_windows, 0, "val-windows");
    BAD(val_windows, UINT64_MAX, "val-windows");
    BAD(val_share, 0.6, "val-share");
    BAD(held_fraction, 0.6, "val-fraction");
    BAD(held_fraction, (double)NAN, "val-fraction");
    BAD(mask_rate, 0, "masked bases");
    BAD(mask_rate, (double)NAN, "masked bases");
    BAD(span_min, 0, "spans");
    BAD(span_max, 65, "spans");
    BAD(mask_share, 1.1, "spans");
    BAD(random_share, (double)NAN, "spans");
    BAD(soft_weight, -0.1, "softmask");
    BAD(soft_weight, (double)NAN, "softmask");
    BAD(batch, 0, "batch");
    BAD(batch, SIZE_MAX, "batch");
    BAD(shards, 0, "shards");
    BAD(shards, 3, "shards");
    BAD(shards, 8, "batch");
    BAD(accumulate, 0, "batch");
    BAD(accumulate, 3, "batch");
    BAD(dropout, 0.91, "dropout");
    BAD(dropout, (double)NAN, "dropout");
    BAD(rate, 0, "lr");
    BAD(rate, (double)NAN, "lr");
    BAD(warmup, 1.1, "warmup");
    BAD(decay, -1, "decay");
    BAD(beta1, 1, "beta");
    BAD(beta2, (double)NAN, "beta");
    BAD(epsilon, 0, "epsilon");
    /* what would be 0 in float32, or nearly: a step by 0 / 0, or by nothing */
    BAD(epsilon, 1e-46, "epsilon");
    BAD(clip, 1e-50, "clip");
    BAD(soft_weight, 1e-50, "softmask");
    BAD(rate, 1e-300, "lr");
    BAD(clip, -1, "clip");
    BAD(clip, (double)INFINITY, "clip");
    BAD(threads, -1, "threads");
    BAD(threads, 1025, "threads");
    kmf_err err = {0};
    options o = small_options();
    o.steps = 0;
    o.epochs = (double)INFINITY;
    bad_options(&o, "");
    err = (kmf_err){0};
    o = small_options();
    o.init = NULL;
    o.preset = "giant";
    ck_assert_ptr_null(kmf_pretrain_new(&o, &err));
    ck_assert_ptr_nonnull(strstr(err.msg, "giant"));
    err = (kmf_err){0};
    o.preset = "nano";
    o.k = 13;
    bad_options(&o, "");
    kmf_pretrain_free(NULL);
}
END_TEST

START_TEST(options_of_pairs_out_of_range_are_refused)
{
    options usual = small_options();
    usual.objective = KMF_OBJECTIVE_CONTRASTIVE;
    BAD(objective, 3, "objective");
    BAD(objective, -1, "objective");
    BAD(batch, 2, "two pairs, 4 windows");
    BAD(batch, 5, "do not make pairs");
    BAD(batch, 65538, "65536");
    BAD(shards, 4, "4 windows in 4 shards of 1 pieces do not make pairs");
    BAD(accumulate, 4, "do not make pairs");
    BAD(sources, 2, "sources");
    BAD(sources, -1, "sources");
    BAD(length_min, 25, "length");
    BAD(length_max, 25, "length: from 3, a k-mer, to 24 bases, a window of 24 tokens");
    BAD(length_max, 2, "length: from 3");
    BAD(length_max, SIZE_MAX, "length");
    BAD(near, -0.1, "near");
    BAD(near, (double)NAN, "near");
    BAD(distance, 0, "distance");
    BAD(distance, ((size_t)1 << 40) + 1, "distance");
    BAD(mutations, 0.6, "mutations");
    BAD(mutations, (double)NAN, "mutations");
    BAD(temperature, 0, "temperature");
    BAD(temperature, (double)NAN, "temperature");
    BAD(hardness, 10.5, "hardness");
    BAD(hardness, (double)NAN, "hardness");
    BAD(drift, 1.1, "drift");
    BAD(drift, (double)NAN, "drift");
    BAD(drift_rate, 0.6, "drift-rate");
    BAD(drift_rate, (double)NAN, "drift-rate");
    BAD(parts, 3, "parts");
    BAD(parts, KMF_PARTS_COMPOSITION, "the model has no composition");
    BAD(composition, 1025, "composition: to 1024 numbers");
    BAD(mix, 1.1, "mix");
    BAD(mix, (double)NAN, "mix");
    BAD(contrast, 0, "contrast");
    BAD(contrast, (double)INFINITY, "contrast");
#undef BAD
    /* a range that is upside down */
    options o = small_options();
    o.objective = KMF_OBJECTIVE_BOTH;
    o.length_min = 20;
    o.length_max = 10;
    bad_options(&o, "20 is more than 10");
    /* a composition that nothing teaches, or that is to be mixed */
    o.length_min = o.length_max = 20;
    o.composition = 8;
    o.parts = KMF_PARTS_STATES;
    bad_options(&o, "nothing would teach it");
    o.parts = KMF_PARTS_STATES_COMPOSITION;
    o.objective = KMF_OBJECTIVE_MASKED;
    bad_options(&o, "nothing would teach it");
    o.objective = KMF_OBJECTIVE_BOTH;
    o.mix = 0.1;
    bad_options(&o, "no hidden states to mix");
    /* what masked training does not look at */
    o = small_options();
    o.temperature = 0;
    o.batch = 5;
    kmf_pretrain *t = kmf_pretrain_new(&o, NULL);
    ck_assert_ptr_nonnull(t);
    kmf_pretrain_free(t);
}
END_TEST

START_TEST(a_reader_is_read_once)
{
    options o = small_options();
    kmf_err err = {0};
    kmf_pretrain *t = kmf_pretrain_new(&o, NULL);
    kmf_reader *reader = kmf_reader_open("data/contigs.fa.gz", NULL, NULL, NULL);
    ck_assert_int_eq(kmf_pretrain_read(t, reader, 0, NULL, NULL, NULL), 0);
    ck_assert_int_eq(kmf_pretrain_read(t, reader, 0, NULL, NULL, &err), KMF_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.msg, "taken before"));
    kmf_reader_close(reader);
    kmf_pretrain_free(t);
}
END_TEST

START_TEST(an_input_that_is_cut_short_is_not_learnt_from)
{
    kmf_err err = {0};
    options o = small_options();
    kmf_pretrain *t = kmf_pretrain_new(&o, NULL);
    ck_assert_int_eq(read_text(t, input, 0, NULL), 0);
    ck_assert_int_eq(read_text(t, "@x\nACGT\n+\nII\n", 0, NULL), KMF_EFORMAT);
    ck_assert_int_eq(read_text(t, input, 0, NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_pretrain_begin(t, NULL, NULL, &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "an input was not read to its end");
    kmf_pretrain_free(t);
}
END_TEST

static int answer_step(void *user, const kmf_pretrain_state *told, kmf_err *err)
{
    const int *answer = user;
    (void)told;
    (void)err;
    return *answer;
}

START_TEST(an_answer_without_a_message_ends_the_training_and_is_told)
{
    kmf_err err = {0};
    options o = small_options();
    kmf_pretrain *t = begin(&o);
    int answer = 2;
    ck_assert_int_eq(kmf_pretrain_train(t, answer_step, &answer, &err), 1);
    ck_assert_int_eq(err.code, KMF_OK);
    answer = KMF_EIO;
    ck_assert_int_eq(kmf_pretrain_train(t, answer_step, &answer, &err), KMF_EIO);
    ck_assert_int_eq(err.code, KMF_EIO);
    ck_assert_str_eq(err.msg, "the training was ended");
    ck_assert_uint_eq(t->now.step, 2);
    kmf_pretrain_free(t);
}
END_TEST

START_TEST(nothing_is_trained_before_the_training_begins)
{
    kmf_err err = {0};
    options o = small_options();
    kmf_pretrain *t = kmf_pretrain_new(&o, NULL);
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(kmf_pretrain_train(t, NULL, NULL, &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "the training has not begun");
    ck_assert_int_eq(kmf_pretrain_save(t, "none/x", NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_pretrain_load(t, "none/x", NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_pretrain_begin(t, NULL, NULL, NULL), KMF_EFORMAT);
    ck_assert_int_eq(kmf_pretrain_begin(t, NULL, NULL, NULL), KMF_EINVAL);
    kmf_reader *late = kmf_reader_open("data/contigs.fa.gz", NULL, NULL, NULL);
    ck_assert_int_eq(kmf_pretrain_read(t, late, 0, NULL, NULL, NULL), KMF_EINVAL);
    kmf_reader_close(late);
    kmf_pretrain_free(t);
}
END_TEST

START_TEST(after_a_beginning_that_failed_nothing_is_validated)
{
    options o = small_options();
    o.held_fraction = 0.1;
    bool begins = false;
    for (size_t at = 1; !begins; at++) {
        kmf_err err = {0};
        kmf_pretrain *t = kmf_pretrain_new(&o, NULL);
        ck_assert_int_eq(read_text(t, input, 0, NULL), 0);
        kmf_mem_fail_at(at);
        int status = kmf_pretrain_begin(t, NULL, NULL, &err);
        begins = status == 0;
        kmf_mem_fail_at(0);
        ck_assert_int_eq(status, begins ? 0 : KMF_ENOMEM);
        err = (kmf_err){0};
        ck_assert_int_eq(kmf_pretrain_validate(t, &err), begins ? 0 : KMF_EINVAL);
        ck_assert_str_eq(err.msg, begins ? "" : "the training has not begun");
        kmf_pretrain_free(t);
        ck_assert_msg(!begins || at > 5, "%zu allocations", at - 1);
    }
}
END_TEST

START_TEST(one_source_is_refused)
{
    static const char *const a[] = {"a"};
    options o = small_options();
    kmf_err err = {0};
    o.objective = KMF_OBJECTIVE_CONTRASTIVE;
    ck_assert_ptr_null(begun(&o, input, &err));
    ck_assert_msg(err.code == KMF_EINVAL && strstr(err.msg, "is one input") &&
                      strstr(err.msg, "or take each record as a source"),
                  "%s", err.msg);
    o.sources = KMF_SOURCES_RECORD;
    o.held = a;
    o.n_held = 1;
    err = (kmf_err){0};
    ck_assert_ptr_null(begun(&o, input, &err));
    ck_assert_msg(err.code == KMF_EINVAL && strstr(err.msg, "held out is of one record"), "%s",
                  err.msg);
    o.n_held = 0;
    err = (kmf_err){0};
    ck_assert_ptr_null(begun(&o, ">x\nACGTACGTACGTACGTACGT\n>y\nACGTNACGT\n", &err));
    ck_assert_msg(err.code == KMF_EINVAL && strstr(err.msg, "is one record"), "%s", err.msg);
    /* masked, all of that is fine */
    o.objective = KMF_OBJECTIVE_MASKED;
    o.n_held = 1;
    kmf_pretrain *t = begin(&o);
    kmf_pretrain_free(t);
}
END_TEST

START_TEST(inputs_without_anything_to_learn_from_are_refused)
{
    static const char *const b[] = {"b"};
    static const char *const no[] = {"no"};
    static const struct {
        const char *text;
        const char *const *held;
        double soft;
        kmf_code code;
        const char *says;
    } cases[] = {
        {">x\nACGTACGTACGTACG\n", NULL, 1, KMF_EFORMAT, "at least 16 bases"},
        {">x\nNNNNNNNNNNNNNNNNNNNNNNNNNN\n", NULL, 1, KMF_EFORMAT, "at least 16 bases"},
        {">b\nACGTACGTACGTACGTACGT\n", b, 1, KMF_EINVAL, "held out"},
        {">b\nACGTACGTACGTACGTACGT\n", no, 1, KMF_EINVAL, "no record is called 'no'"},
        {">b\nacgtacgtacgtacgtacgt\n", NULL, 0, KMF_EFORMAT, "lower case"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kmf_err err = {0};
        options o = small_options();
        o.held = cases[i].held;
        o.n_held = cases[i].held != NULL;
        o.soft_weight = cases[i].soft;
        ck_assert_ptr_null(begun(&o, cases[i].text, &err));
        ck_assert_msg(err.code == cases[i].code && strstr(err.msg, cases[i].says), "%zu: %s", i,
                      err.msg);
    }
}
END_TEST

/* Whole by their checksum, but of a training that cannot be: nothing is filled. */
START_TEST(a_checkpoint_of_an_impossible_progress_is_refused)
{
    const char *path = in_dir("checkpoint");
    options o = small_options();
    o.held_fraction = 0.1;
    for (int k = 0; k < 6; k++) {
        kmf_err err = {0};
        kmf_pretrain *t = begin(&o);
        uint64_t steps = t->now.steps, val_every = t->val_every, held = t->now.held_windows;
        t->now.step = 7;
        t->model->slab[0] = 3;
        if (k == 1)
            t->val_every = 0; /* by which steps are divided */
        if (k == 2)
            t->now.step = steps + 1;
        if (k == 3 || k == 4) /* windows that there is no room for, or none */
            t->now.held_windows = k == 3 ? held + 1 : 0;
        if (k == 5)
            t->val_due = 2;
        ck_assert_int_eq(kmf_pretrain_save(t, path, NULL), 0);
        t->now.step = 2;
        t->val_due = 0;
        t->val_every = val_every;
        t->now.held_windows = held;
        t->model->slab[0] = 4;
        int status = kmf_pretrain_load(t, path, &err);
        ck_assert_int_eq(status, k == 0 ? 0 : KMF_EMODEL);
        ck_assert_msg(k == 0 || (strstr(err.msg, path) && strstr(err.msg, "damaged")), "%s",
                      err.msg);
        ck_assert(t->now.step == (k == 0 ? 7 : 2) && t->now.steps == steps &&
                  t->val_every == val_every && t->now.held_windows == held && t->val_due == 0 &&
                  t->model->slab[0] == (k == 0 ? 3 : 4));
        kmf_pretrain_free(t);
    }
}
END_TEST

/* ---------------------------------------------------------------- memory ---------------- */

/* In kB, by the kernel; reset by the one who forked. */
static uint64_t peak_memory(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return 1024 * (uint64_t)usage.ru_maxrss;
}

/* Bytes in memory now, after a small training, so that the libraries' own pages are there. */
static uint64_t memory_after_another(void)
{
    unsigned long all = 0, resident = 0;
    options small = small_options();
    kmf_pretrain *t = begun(&small, input, NULL);
    int status = t ? kmf_pretrain_train(t, NULL, NULL, NULL) : -1;
    kmf_pretrain_free(t);
    FILE *file = fopen("/proc/self/statm", "r");
    if (status < 0 || !file || fscanf(file, "%lu %lu", &all, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/*
 * A process of its own, whose memory at its peak is compared with what was told: more by a few
 * megabytes of threads' stacks and of the library is allowed, and less by what was never touched.
 */
static void check_memory(const options *o, const char *what)
{
    int pipes[2];
    double told[2];
    ck_assert_int_eq(pipe(pipes), 0);
    fflush(NULL);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        uint64_t before = memory_after_another();
        kmf_pretrain *t = begun(o, input, NULL);
        int status = t ? kmf_pretrain_train(t, NULL, NULL, NULL) : -1;
        double answer[2] = {t ? (double)state_of(t).bytes : 0,
                            (double)(peak_memory() - before)};
        ssize_t n = write(pipes[1], answer, sizeof answer);
        _exit(status == 0 && n == sizeof answer ? 0 : 1);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(read(pipes[0], told, sizeof told), sizeof told);
    close(pipes[0]);
    close(pipes[1]);
    ck_assert_msg(told[1] <= told[0] + 8e6, "%s: %.1f MB told, %.1f taken", what,
                  1e-6 * told[0], 1e-6 * told[1]);
    ck_assert_msg(told[1] >= 0.8 * told[0] - 4e6, "%s: %.1f MB told, %.1f taken", what,
                  1e-6 * told[0], 1e-6 * told[1]);
}

START_TEST(memory_is_told_and_not_exceeded)
{
    if (CHECKED)
        return;
    options o = small_options();
    o.steps = 2;
    o.init = NULL;
    o.preset = "nano";
    o.k = 5;
    o.batch = 16;
    o.window = 200;
    o.threads = 2;
    check_memory(&o, "plain");
    o.recompute = 1;
    check_memory(&o, "recompute");
    o.recompute = 0;
    o.shards = 8;
    o.accumulate = 2;
    o.threads = 3;
    check_memory(&o, "shards");
    o = small_options();
    o.held_fraction = 0.1;
    check_memory(&o, "held out");
    o = small_options();
    o.objective = KMF_OBJECTIVE_BOTH;
    o.sources = KMF_SOURCES_RECORD;
    o.batch = 1024;
    o.accumulate = 16;
    o.mix = 0.5;
    o.steps = 2;
    check_memory(&o, "pairs");
    o.objective = KMF_OBJECTIVE_CONTRASTIVE;
    o.mix = 0;
    o.composition = 500;
    check_memory(&o, "compositions");
}
END_TEST

/* Everything that allocates, the reader apart. */
static int live(const options *o, const char *path, const char *out, kmf_err *err)
{
    kmf_pretrain *t = begun(o, input, err);
    int status = t ? kmf_pretrain_train(t, NULL, NULL, err) : KMF_ENOMEM;
    if (status == 0)
        status = kmf_pretrain_save(t, path, err);
    if (status == 0)
        status = kmf_pretrain_load(t, path, err);
    if (status == 0)
        status = kmf_pretrain_model(t, out, KMF_F32, "{}", err);
    kmf_pretrain_free(t);
    return status;
}

START_TEST(every_allocation_may_fail)
{
    const char *path = in_dir("checkpoint"), *out = in_dir("out");
    for (int k = 0; k < 4; k++) {
        options o = small_options();
        kmf_err err = {0};
        if (k == 3) {
            o.objective = KMF_OBJECTIVE_BOTH;
            o.sources = KMF_SOURCES_RECORD;
            o.mix = 0.9;
        }
        if (k == 1)
            o.threads = 2;
        if (k == 2) {
            o.init = NULL;
            o.preset = "nano";
            o.k = 1;
            o.shards = 2;
            o.window = 8;
            o.batch = 2;
        }
        o.steps = 1;
        kmf_mem_fail_at(0);
        ck_assert_msg(live(&o, path, out, &err) == 0, "%s", err.msg);
        size_t n = kmf_mem_count();
        ck_assert_uint_gt(n, 50);
        /* a large model is drawn again and again: a few places must do */
        for (size_t at = 1; at <= n; at += k < 2 ? 1 : CHECKED ? 29 : k == 3 ? 3 : 11) {
            err = (kmf_err){0};
            kmf_mem_fail_at(at);
            int status = live(&o, path, out, &err);
            if (status != KMF_ENOMEM || err.code != KMF_ENOMEM)
                ck_abort_msg("allocation %zu of %zu: %d, %s", at, n, status, err.msg);
        }
        kmf_mem_fail_at(0);
    }
}
END_TEST

int main(void)
{
    TCase *bad = tcase_create("bad");
    tcase_add_checked_fixture(bad, begin_test, remove_dir);
    tcase_add_test(bad, something_to_begin_with_is_asked_for);
    tcase_add_test(bad, options_out_of_range_are_refused);
    tcase_add_test(bad, options_of_pairs_out_of_range_are_refused);
    tcase_add_test(bad, a_reader_is_read_once);
    tcase_add_test(bad, an_input_that_is_cut_short_is_not_learnt_from);
    tcase_add_test(bad, an_answer_without_a_message_ends_the_training_and_is_told);
    tcase_add_test(bad, nothing_is_trained_before_the_training_begins);
    tcase_add_test(bad, after_a_beginning_that_failed_nothing_is_validated);
    tcase_add_test(bad, one_source_is_refused);
    tcase_add_test(bad, inputs_without_anything_to_learn_from_are_refused);
    tcase_add_test(bad, a_checkpoint_of_an_impossible_progress_is_refused);
    tcase_add_test(bad, memory_is_told_and_not_exceeded);
    tcase_add_test(bad, every_allocation_may_fail);
    return run_case("pretrain_bad", bad);
}
