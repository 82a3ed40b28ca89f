/* SPDX-License-Identifier: MIT */
/*
 * Checkpoints of a run that is the caller's own: what its functions say, and what an output makes
 * of that. Runs of an encoder are in test_resume.c, logits in test_logits.c, searches of rows in
 * test_rownearest.c.
 */
#include "kmerformer.h"
#include "models.h"
#include "run.h"

#include <unistd.h>

static const char *const inputs[] = {"r.fa"};

/* Lines of text, two for each record, which is done when the second is out. */
typedef struct lines {
    kmf_output *output; /* owned */
    uint64_t records;   /* that the mark tells of */
    const char *mark, *description;
    int status; /* negative: it cannot be described */
    int silent; /* 1: and does not say why; 2: it cannot be marked or go on, likewise */
} lines;

static int describe_lines(void *user, char **text, kmf_err *err)
{
    const lines *l = user;
    if (l->status < 0 && !l->silent)
        *err = (kmf_err){(kmf_code)l->status, "it fails"};
    else if (l->status == 0)
        *text = kmf_strdup(l->description, NULL);
    return l->status;
}

static int mark_lines(void *user, char **text, uint64_t *records, kmf_err *err)
{
    const lines *l = user;
    (void)err;
    if (l->silent == 2)
        return KMF_ENUMERIC;
    *text = kmf_strdup(l->mark, NULL);
    *records = l->records;
    return 1;
}

static int go_on_with_lines(void *user, const char *mark, uint64_t rows, const char *where,
                            kmf_err *err)
{
    lines *l = user;
    (void)where;
    (void)err;
    ck_assert_str_eq(mark, "{\"so far\":3}");
    ck_assert_uint_eq(rows, 6);
    if (l->silent == 2)
        return KMF_ENUMERIC;
    l->records = 3;
    return 0;
}

static kmf_run run_of(lines *l)
{
    return (kmf_run){"lines", l, describe_lines, mark_lines, go_on_with_lines};
}

static const kmf_row_format of_lines = {.header = "#line\n", .name = "lines"};
static const kmf_output_form lines_form = {.format = &of_lines};

/* With the lines of records up to this one, and of its two so many. */
static lines begin_lines(uint64_t last, int n)
{
    lines l = {.mark = "{\"so far\": 3}", .description = "{\"what\": 1}"};
    l.output = kmf_output_new(in_dir("x.tsv"), &lines_form, NULL);
    ck_assert_ptr_nonnull(l.output);
    for (uint64_t i = 0; i <= last; i++)
        for (int j = 0; j < (i < last ? 2 : n); j++)
            ck_assert_int_eq(
                kmf_output_print(l.output, i, NULL, "%llu\t%d\n", (unsigned long long)i, j), 0);
    return l;
}

static int save_lines(lines *l, kmf_err *err)
{
    const kmf_run run = run_of(l);
    *err = (kmf_err){0};
    return kmf_output_save(l->output, &run, in_dir("checkpoint"), inputs, 1, NULL, err);
}

/* Whether the record behind those of the mark is not begun, in its middle, or whole. */
START_TEST(a_run_of_ones_own_goes_on_behind_its_mark)
{
    kmf_err err = {0};
    lines l = begin_lines(_i < 1 ? 2 : 3, _i < 1 ? 2 : _i);
    l.records = 3;
    ck_assert_int_eq(save_lines(&l, &err), 1);
    kmf_output_free(l.output);
    l = (lines){.description = "{\"what\": 1}"};
    const kmf_run run = run_of(&l);
    l.output = kmf_output_resume(in_dir("x.tsv"), &lines_form, &run, in_dir("checkpoint"),
                                 inputs, 1, NULL, &err);
    ck_assert_msg(l.output != NULL, "%s", err.msg);
    ck_assert_uint_eq(l.records, 3);
    ck_assert_int_eq(kmf_output_print(l.output, 3, NULL, "end\n"), 0);
    ck_assert_int_eq(kmf_output_commit(l.output, NULL, NULL), 0);
    kmf_output_free(l.output);
    size_t len;
    char *text = kmf_file_read(in_dir("x.tsv"), 1000, &len, NULL);
    ck_assert_str_eq(text, "#line\n0\t0\n0\t1\n1\t0\n1\t1\n2\t0\n2\t1\nend\n");
    kmf_free(text);
}
END_TEST

START_TEST(what_a_run_of_ones_own_may_not_say)
{
    kmf_err err;
    lines l = begin_lines(4, 1);
    l.records = 3; /* two records have rows behind it */
    ck_assert_int_eq(save_lines(&l, &err), KMF_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.msg, "rows of several records are out"));
    l.records = 4;
    l.status = KMF_EFORMAT;
    kmf_output_free(l.output);
    l.output = begin_lines(4, 1).output; /* nothing is known of it */
    ck_assert_int_eq(save_lines(&l, &err), KMF_EFORMAT);
    ck_assert_str_eq(err.msg, "it fails");
    l.status = 0;
    l.description = "[1]";
    ck_assert_int_eq(save_lines(&l, &err), KMF_EMODEL);
    l.description = "{\"what\": 1}";
    l.mark = "none";
    ck_assert_int_eq(save_lines(&l, &err), KMF_EMODEL);
    ck_assert_int_eq(access(in_dir("checkpoint"), F_OK), -1);
    kmf_output_free(l.output);
    ck_assert_int_eq(n_entries(dir), 0);
}
END_TEST

/* The code is the function's, with a message of ours. */
START_TEST(a_run_of_ones_own_may_fail_without_a_word)
{
    kmf_err err;
    lines l = begin_lines(2, 2);
    l.records = 3;
    l.silent = 2;
    ck_assert_int_eq(save_lines(&l, &err), KMF_ENUMERIC);
    ck_assert_int_eq(err.code, KMF_ENUMERIC);
    ck_assert_str_eq(err.msg, "the run could not be marked");
    l.silent = 1;
    l.status = KMF_EFORMAT;
    ck_assert_int_eq(save_lines(&l, &err), KMF_EFORMAT);
    ck_assert_int_eq(err.code, KMF_EFORMAT);
    ck_assert_str_eq(err.msg, "the run could not be described");
    l.status = l.silent = 0;
    ck_assert_int_eq(save_lines(&l, &err), 1);
    kmf_output_free(l.output);
    l.silent = 2;
    const kmf_run run = run_of(&l);
    ck_assert_ptr_null(kmf_output_resume(in_dir("x.tsv"), &lines_form, &run,
                                         in_dir("checkpoint"), inputs, 1, NULL, &err));
    ck_assert_int_eq(err.code, KMF_ENUMERIC);
    ck_assert_str_eq(err.msg, "the run could not go on");
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_checked_fixture(tcase, make_dir, remove_dir);
    tcase_add_loop_test(tcase, a_run_of_ones_own_goes_on_behind_its_mark, 0, 3);
    tcase_add_test(tcase, what_a_run_of_ones_own_may_not_say);
    tcase_add_test(tcase, a_run_of_ones_own_may_fail_without_a_word);
    return run_case("own_run", tcase);
}
