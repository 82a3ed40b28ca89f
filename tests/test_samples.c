/* SPDX-License-Identifier: MIT */
/* Labelled records in memory: what cannot be read into a part, and parts that cannot be judged. */
#include "run.h"
#include "seqfiles.h"

#include "kmerformer.h"

/* Two classes of four records each. */
static const char table[] = "name,sequence,label\n"
                            "a1,ACGTACGT,a\na2,ACGTACGA,a\na3,ACGTACGC,a\na4,ACGTACGG,a\n"
                            "b1,TTTTTTGT,b\nb2,TTTTTTGA,b\nb3,TTTTTTGC,b\nb4,TTTTTTGG,b\n";

static int read_as(kmf_samples *samples, const char *path, int optional, kmf_err *err)
{
    kmf_labelled_options opts;
    kmf_labelled_options_default(&opts);
    opts.optional = optional;
    kmf_labelled *input = kmf_labelled_open(path, &opts, NULL, err);
    ck_assert_msg(input != NULL, "%s", err->msg);
    int status = kmf_samples_read(samples, KMF_ROLE_TRAIN, input, err);
    kmf_labelled_close(input);
    return status;
}

START_TEST(a_record_without_a_label_is_refused_by_its_name)
{
    make_dir();
    const char *const inputs[] = {write_text("t.csv", table),
                                  write_text("r.fa", ">a1\nACGT\n")};
    for (size_t i = 0; i < 2; i++) {
        kmf_err err = {0};
        kmf_samples *samples = kmf_samples_new(&err);
        ck_assert_ptr_nonnull(samples);
        ck_assert_int_eq(read_as(samples, inputs[i], 1, &err), KMF_EINVAL);
        ck_assert_str_eq(err.msg, "record 1 'a1' has no label: none was asked for");
        kmf_samples_free(samples);
    }
    remove_dir();
}
END_TEST

START_TEST(without_a_test_part_nothing_is_judged)
{
    kmf_err err = {0};
    kmf_samples_options opts;
    kmf_samples_info info;
    kmf_eval_options how;
    kmf_eval_result result;
    make_dir();
    kmf_samples *samples = kmf_samples_new(&err);
    ck_assert_ptr_nonnull(samples);
    ck_assert_int_eq(read_as(samples, write_text("t.csv", table), 0, &err), 0);
    kmf_samples_options_default(&opts);
    opts.no_test = 1;
    ck_assert_int_eq(kmf_samples_settle(samples, &opts, &info, &err), 0);
    kmf_samples_info again;
    ck_assert_int_eq(kmf_samples_settle(samples, &opts, &again, NULL), KMF_EINVAL);
    ck_assert_uint_eq(info.n, 8);
    ck_assert_uint_eq(info.n_test, 0);
    const float x[8] = {1, 2, 3, 4, -1, -2, -3, -4};
    kmf_eval_options_default(&how);
    ck_assert_int_eq(kmf_evaluate(samples, &info, x, 1, &how, NULL, &result, NULL, &err),
                     KMF_EINVAL);
    ck_assert_int_eq(err.code, KMF_EINVAL);
    ck_assert_str_eq(err.msg, "no record to test: the samples have no test part");
    kmf_samples_free(samples);
    remove_dir();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("samples");
    TCase *tc = tcase_create("samples");
    tcase_set_timeout(tc, 0);
    tcase_add_test(tc, a_record_without_a_label_is_refused_by_its_name);
    tcase_add_test(tc, without_a_test_part_nothing_is_judged);
    suite_add_tcase(suite, tc);
    return run_suite(suite);
}
