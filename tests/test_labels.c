/* SPDX-License-Identifier: MIT */
/* Files of labels: what is a line, a comment, a header, and what two lines of one name may say. */
#include "base/mem.h"
#include "files.h"
#include "run.h"
#include "seq/labels.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static kmf_labels *load(const char *text, size_t n, kmf_err *err)
{
    return kmf_labels_load(write_bytes("labels", text, n), err);
}

/* Text makes labels, among them those of name and label in turn; a label NULL: there is none. */
static void expect(const char *text, const char *const *pairs, size_t n)
{
    kmf_err err = {0};
    kmf_labels *labels = load(text, strlen(text), &err);
    ck_assert_msg(labels != NULL, "%s", err.msg);
    for (size_t i = 0; i < n; i++)
        ck_assert_pstr_eq(kmf_labels_find(labels, pairs[2 * i]), pairs[2 * i + 1]);
    kmf_labels_free(labels);
}

START_TEST(a_name_has_the_label_behind_its_tab)
{
    const char *const pairs[] = {"b", "x y",  "a", "1",  "c", "z",
                                 "",  "none", "d", NULL, "B", NULL};
    expect("b\tx y\na\t1\r\n\n\tnone\nc\tz", pairs, 6);
    expect("c\tz\tmore\nb\tx y\t\t\r\na\t1\t2\t3\n\r\n\tnone\tx\n", pairs, 6);
    expect(" \nb\tx y\n\t \r\na\t1\n  \nc\tz\n\tnone\n ", pairs, 6);
    expect("", (const char *const[]){"", NULL, "a", NULL}, 2);
}
END_TEST

START_TEST(comments_are_anywhere_and_a_header_is_first)
{
    const char *const pairs[] = {"a", "1", "b", "2", "name", NULL, "#c", NULL};
    expect("#c\t3\na\t1\n#c\nb\t2\n# more", pairs, 4);
    expect("name\tlabel\na\t1\nb\t2\n", pairs, 4);
    expect("# of probe predict\n\nname\tlabel\tprobability\r\na\t1\t0.5\nb\t2\t1\n", pairs, 4);
    expect("a\t1\nname\tlabel\n", (const char *const[]){"name", "label", "a", "1"}, 2);
    expect("name\tlabel\nname\tlabel\n", (const char *const[]){"name", "label"}, 1);
    expect("name\tlabels\n", (const char *const[]){"name", "labels"}, 1);
}
END_TEST

START_TEST(an_empty_label_is_none)
{
    const char *const pairs[] = {"a", NULL, "b", "2", "c", NULL};
    expect("a\t\nb\t2\nc\t\tmore\n", pairs, 3);
}
END_TEST

START_TEST(lines_of_one_name_agree)
{
    kmf_err err = {0};
    char want[300];
    expect("r\tx\ns\ty\nr\tx\n", (const char *const[]){"r", "x", "s", "y"}, 2);
    static const char text[] = "r\tx\n# r\n\nr\tx\ns\tx\nr\ty\nr\tz\n";
    ck_assert_ptr_null(load(text, strlen(text), &err));
    snprintf(want, sizeof want, "%s: line 6: 'r' has another label on line 4",
             in_dir("labels"));
    ck_assert_int_eq(err.code, KMF_EFORMAT);
    ck_assert_str_eq(err.msg, want);
}
END_TEST

START_TEST(what_is_no_line_of_labels_is_told_with_its_number)
{
    static const struct {
        const char *text;
        size_t n;
    } bad[] = {{"# x\na x\n", 8}, {"\na\n", 3}, {"b\t1\na\0\t2\n", 10}, {"b\t1\na\t2\0", 9}};
    char want[300];
    snprintf(want, sizeof want, "%s: line 2: must be a name, a tab and a label",
             in_dir("labels"));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        kmf_err err = {0};
        ck_assert_ptr_null(load(bad[i].text, bad[i].n, &err));
        ck_assert_int_eq(err.code, KMF_EFORMAT);
        ck_assert_str_eq(err.msg, want);
    }
    kmf_err err = {0};
    ck_assert_ptr_null(kmf_labels_load("/nowhere/labels", &err));
    ck_assert_int_eq(err.code, KMF_EIO);
}
END_TEST

/* More than one block of input. */
START_TEST(a_compressed_file_is_read_to_its_end)
{
    enum { N = 100000 };
    char name[32];
    const char *path = in_dir("labels");
    gzFile file = gzopen(path, "wb1");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < N; i++)
        ck_assert_int_gt(gzprintf(file, "read%d\tof %d\n", i, i % 7), 0);
    ck_assert_int_eq(gzclose(file), Z_OK);
    kmf_labels *labels = kmf_labels_load(path, NULL);
    ck_assert_ptr_nonnull(labels);
    for (int i = 0; i < N; i += 997) {
        char want[32];
        snprintf(name, sizeof name, "read%d", i);
        snprintf(want, sizeof want, "of %d", i % 7);
        ck_assert_pstr_eq(kmf_labels_find(labels, name), want);
    }
    ck_assert_ptr_null(kmf_labels_find(labels, "read100000"));
    kmf_labels_free(labels);
    FILE *cut = fopen(path, "r+b");
    ck_assert_ptr_nonnull(cut);
    ck_assert_int_eq(ftruncate(fileno(cut), 20000), 0);
    fclose(cut);
    kmf_err err = {0};
    ck_assert_ptr_null(kmf_labels_load(path, &err));
    ck_assert_int_eq(err.code, KMF_EFORMAT);
}
END_TEST

START_TEST(no_memory_is_an_error_wherever_it_runs_out)
{
    static const char text[] = "a\t1\nb\t2\n";
    kmf_labels *labels = NULL;
    for (size_t n = 1; !labels; n++) {
        kmf_err err = {0};
        kmf_mem_fail_at(n);
        labels = load(text, strlen(text), &err);
        kmf_mem_fail_at(0);
        ck_assert(labels ? n > 3 : err.code == KMF_ENOMEM);
    }
    ck_assert_pstr_eq(kmf_labels_find(labels, "b"), "2");
    kmf_labels_free(labels);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("labels");
    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_add_test(tc, a_name_has_the_label_behind_its_tab);
    tcase_add_test(tc, comments_are_anywhere_and_a_header_is_first);
    tcase_add_test(tc, an_empty_label_is_none);
    tcase_add_test(tc, lines_of_one_name_agree);
    tcase_add_test(tc, what_is_no_line_of_labels_is_told_with_its_number);
    tcase_add_test(tc, a_compressed_file_is_read_to_its_end);
    tcase_add_test(tc, no_memory_is_an_error_wherever_it_runs_out);
    return run_case("labels", tc);
}
