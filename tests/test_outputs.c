/* SPDX-License-Identifier: MIT */
/* Parts of outputs: the header of an array, and shards. Writing is in test_io and test_rowstore. */
#include "embed/npy.h"
#include "models.h"
#include "run.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static int read_header(const char header[KMF_NPY_HEADER], uint64_t *rows, size_t *dim,
                       size_t *element, size_t *begin)
{
    return kmf_npy_read((const unsigned char *)header, KMF_NPY_HEADER, "x", rows, dim, element,
                        begin, NULL);
}

START_TEST(npy_headers_come_back_and_others_are_refused)
{
    char header[KMF_NPY_HEADER];
    uint64_t rows;
    size_t dim;
    size_t element;
    size_t begin;
    kmf_npy_header(header, 1234567, 768, 4);
    ck_assert_int_eq(memcmp(header,
                            "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, "
                            "'shape': (1234567, 768), }",
                            77),
                     0);
    ck_assert_int_eq(header[127], '\n');
    ck_assert_int_eq(read_header(header, &rows, &dim, &element, &begin), 0);
    ck_assert_uint_eq(rows, 1234567);
    ck_assert_uint_eq(dim, 768);
    ck_assert_uint_eq(element, 4);
    ck_assert_uint_eq(begin, sizeof header);
    kmf_npy_header(header, UINT64_MAX, SIZE_MAX, 2);
    ck_assert_int_eq(read_header(header, &rows, &dim, &element, &begin), 0);
    for (size_t len = 0; len < sizeof header; len++) /* not all of it */
        ck_assert_int_eq(kmf_npy_read((const unsigned char *)header, len, "x", &rows, &dim,
                                      &element, &begin, NULL),
                         KMF_EMODEL);
    header[12] = 'X';
    ck_assert_int_eq(read_header(header, &rows, &dim, &element, &begin), KMF_EMODEL);
}
END_TEST

START_TEST(a_line_of_provenances_stays_one_list)
{
    char *line = NULL;
    for (int i = 0; i < 100; i++) {
        char own[32];
        snprintf(own, sizeof own, "{\"i\": %d}", i);
        char *next = kmf_json_before(own, line ? line : "{}", NULL);
        ck_assert_ptr_nonnull(next);
        kmf_text_free(line);
        line = next;
        if (i == 2)
            ck_assert_str_eq(line, "{\"i\":2,\"before\":[{},{\"i\":0},{\"i\":1}]}");
    }
    ck_assert_ptr_nonnull(strstr(line, "{\"i\":97},{\"i\":98}]}"));
    kmf_text_free(line);
    ck_assert_ptr_null(kmf_json_before("{}", "[]", NULL));
}
END_TEST

START_TEST(a_shard_that_is_not_there_is_an_input_that_fails)
{
    const char *const shards[] = {"none.npy"};
    kmf_err err = {0};
    ck_assert_int_eq(kmf_merge(shards, 1, "whole.npy", "merge", NULL, NULL, NULL, &err),
                     KMF_EIO);
    ck_assert_int_eq(err.code, KMF_EIO);
    ck_assert_int_eq(kmf_merge(shards, 1, "whole.npy", "merge", NULL, NULL, NULL, NULL),
                     KMF_EIO);
}
END_TEST

#define MANY 10000

static void write_shard(const char *path, uint64_t shard, const char *command)
{
    kmf_embed_options o;
    char name[32];
    kmf_embed_options_default(&o);
    o.threads = 1;
    o.shard = shard;
    o.n_shards = 2;
    kmf_embedder *e = kmf_embedder_new("kmer:1", &o, NULL);
    ck_assert_ptr_nonnull(e);
    kmf_output *out =
        kmf_output_new(path, &(kmf_output_form){.dim = kmf_embedder_dim(e)}, NULL);
    ck_assert_ptr_nonnull(out);
    kmf_output_take(out, e);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "r%d", i);
        ck_assert_int_eq(kmf_embedder_add(e, name, &"ACGTT"[i % 3], 2, NULL), 0);
    }
    ck_assert_int_eq(kmf_embedder_finish(e, NULL), 0);
    char *text = kmf_provenance(e, path, command, NULL, 0, NULL, NULL);
    kmf_embedder_free(e);
    ck_assert_int_eq(kmf_output_commit(out, text, NULL), 0);
    kmf_output_free(out);
    kmf_text_free(text);
}

typedef struct told {
    uint64_t records;
    int times;
} told;

static void be_told(void *user, uint64_t records, uint64_t all)
{
    told *t = user;
    ck_assert_uint_eq(all, MANY);
    ck_assert_uint_gt(records, t->records);
    ck_assert_uint_le(records, all);
    t->records = records;
    t->times++;
}

START_TEST(shards_that_are_joined_tell_how_far_they_are)
{
    const char *const shards[] = {in_dir("a.tsv"), in_dir("b.tsv")};
    told t = {0};
    write_shard(shards[0], 0, "embed");
    write_shard(shards[1], 1, "embed");
    ck_assert_int_eq(kmf_merge(shards, 2, in_dir("c.tsv"), "merge", NULL, be_told, &t, NULL),
                     0);
    ck_assert_int_ge(t.times, 2);
    ck_assert_uint_gt(t.records, MANY / 2);
    kmf_err err = {0};
    ck_assert_int_eq(kmf_merge(shards, 2, shards[1], "merge", NULL, NULL, NULL, &err),
                     KMF_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.msg, "b.tsv is one of the shards"));
    err = (kmf_err){0}; /* b.ids.tsv and b.json would be another's */
    ck_assert_int_eq(kmf_merge(shards, 2, in_dir("b.tsv.gz"), "merge", NULL, NULL, NULL, &err),
                     KMF_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.msg, "what lies beside it is a shard's"));
}
END_TEST

/* A program that has no command line tells none, be it of shards that do. */
START_TEST(a_provenance_tells_the_command_that_there_is)
{
    static const char *const commands[] = {"merge", NULL};
    const char *const shards[] = {in_dir("a.tsv"), in_dir("b.tsv")};
    const char *whole = in_dir("c.tsv");
    for (int i = 0; i < 2; i++)
        write_shard(shards[i], (uint64_t)i, "embed");
    for (int i = 0; i < 2; i++) {
        size_t len;
        ck_assert_int_eq(kmf_merge(shards, 2, whole, commands[i], NULL, NULL, NULL, NULL), 0);
        char *text = get(in_dir("c.json"), &len);
        ck_assert_int_eq(strstr(text, "\"command\": \"merge\"") != NULL, commands[i] != NULL);
        ck_assert_int_eq(strstr(text, "\"command\"") != NULL, commands[i] != NULL);
        kmf_free(text);
    }
    write_shard(whole, 0, NULL);
    size_t len;
    char *text = kmf_file_read(in_dir("c.json"), 10000, &len, NULL);
    ck_assert_ptr_nonnull(strstr(text, "\"model\""));
    ck_assert_ptr_null(strstr(text, "\"command\""));
    kmf_free(text);
}
END_TEST

START_TEST(an_output_of_other_rows_takes_none)
{
    kmf_embed_options o;
    kmf_embed_options_default(&o);
    o.threads = 2;
    for (int i = 0; i < 3; i++) {
        kmf_err err = {0};
        kmf_embedder *e = kmf_embedder_new("kmer:2", &o, NULL);
        kmf_output *out =
            kmf_output_new(in_dir("x.npy"),
                           &(kmf_output_form){.dim = kmf_embedder_dim(e) + (size_t)(i == 1),
                                              .per_token = i == 2},
                           NULL);
        kmf_output_take(out, e);
        int status = kmf_embedder_add(e, "r", "ACGTT", 5, &err);
        if (status == 0)
            status = kmf_embedder_finish(e, &err);
        ck_assert_int_eq(status, i == 0 ? 0 : KMF_EINVAL);
        ck_assert(i == 0 || strstr(err.msg, "other rows than its embedder makes"));
        kmf_embedder_free(e);
        kmf_output_free(out);
    }
    ck_assert_int_eq(kmf_out_end(NULL, 0, NULL), 0);
    ck_assert_int_eq(kmf_out_end(NULL, KMF_EIO, NULL), KMF_EIO);
}
END_TEST

/* Rounding to nearest, even if it is as far to either, makes what is below 65520 a 65504. */
START_TEST(a_number_that_float16_would_make_infinite_is_refused_and_told)
{
    static const float last = 65520;
    kmf_err err = {0};
    const char *path = in_dir("x.npy");
    const float good[3] = {nextafterf(last, 0), -nextafterf(last, 0), INFINITY};
    const float bad[2][3] = {{1, last, 2}, {2, -last, -1e9f}};
    kmf_output *output = kmf_output_new(path, &(kmf_output_form){.dim = 3, .f16 = 1}, &err);
    ck_assert_msg(output != NULL, "%s", err.msg);
    kmf_row row = {.name = "r", .vector = good};
    ck_assert_int_eq(kmf_output_row(output, &row, NULL), 0);
    row.vector = bad[0];
    ck_assert_int_eq(kmf_output_row(output, &row, &err), KMF_ENUMERIC);
    ck_assert_str_eq(err.msg, "record 'r': 65520 is too large for float16");
    row.vector = bad[1];
    err = (kmf_err){0};
    ck_assert_int_eq(kmf_output_row(output, &row, &err), KMF_ENUMERIC);
    ck_assert_str_eq(err.msg, "record 'r': -65520 is too large for float16");
    kmf_output_free(output);
}
END_TEST

START_TEST(rows_that_no_file_can_have_are_refused)
{
    static const char *const names[] = {"x.npy", "x.tsv", "-"};
    static const size_t dims[] = {0, ((size_t)1 << 24) + 1, SIZE_MAX};
    for (size_t i = 0; i < 9; i++) {
        const kmf_output_form form = {.dim = dims[i / 3]};
        const char *name = names[i % 3];
        kmf_err err = {0};
        ck_assert_ptr_null(
            kmf_output_new(strcmp(name, "-") == 0 ? name : in_dir(name), &form, &err));
        ck_assert_int_eq(err.code, KMF_EINVAL);
        ck_assert_ptr_nonnull(strstr(err.msg, " numbers: there must be 1 to 16777216"));
    }
    const kmf_output_form form = {.dim = (size_t)1 << 24};
    kmf_output *output = kmf_output_new(in_dir("x.npy"), &form, NULL);
    ck_assert_ptr_nonnull(output);
    kmf_output_free(output);
    ck_assert_int_eq(n_entries(dir), 0);
}
END_TEST

START_TEST(an_output_is_committed_once)
{
    static const char *const names[] = {"x.npy", "x.tsv"};
    for (size_t i = 0; i < 2; i++) {
        kmf_err err = {0};
        const kmf_output_form form = {.dim = 1};
        kmf_output *output = kmf_output_new(in_dir(names[i]), &form, NULL);
        ck_assert_ptr_nonnull(output);
        ck_assert_int_eq(kmf_output_commit(output, NULL, NULL), KMF_EINVAL);
        ck_assert_int_eq(kmf_output_commit(output, "[1]", NULL), KMF_EINVAL);
        ck_assert_int_eq(kmf_output_commit(output, "{}", &err), 0);
        ck_assert_int_eq(kmf_output_commit(output, "{}", &err), KMF_EINVAL);
        ck_assert_ptr_nonnull(strstr(err.msg, "its output is finished already"));
        kmf_output_free(output);
    }
    ck_assert_int_eq(n_entries(dir), 4);
}
END_TEST

START_TEST(a_provenance_that_is_no_json_is_written_by_nobody)
{
    kmf_err err = {0};
    const float one = 1;
    const char *path = in_dir("y.tsv");
    kmf_output *output = kmf_output_new(path, &(kmf_output_form){.dim = 1}, NULL);
    ck_assert_ptr_nonnull(output);
    ck_assert_int_eq(kmf_output_row(output, &(kmf_row){.name = "r", .vector = &one}, NULL), 0);
    ck_assert_int_lt(kmf_output_commit(output, "{\"a\": ", &err), 0);
    kmf_output_free(output);
    ck_assert_ptr_null(fopen(path, "rb"));
}
END_TEST

static size_t put_sum(const void *user, void *scratch_here, char *to, const float *vector,
                      size_t dim)
{
    double *sum = scratch_here; /* of all rows that this thread has written */
    for (size_t d = 0; d < dim; d++)
        sum[0] += (double)vector[d];
    return (size_t)sprintf(to, "\t%s %g\n", (const char *)user, sum[0]);
}

static const kmf_row_format sums = {.put = put_sum,
                                    .user = "so far",
                                    .room = 64,
                                    .scratch_bytes = sizeof(double),
                                    .header = "#name\tsum\n",
                                    .name = "sums"};

/* With a first line, even where there is no row, and nothing beside it; as given, on one thread. */
START_TEST(rows_of_a_format_are_a_table_alone)
{
    static const float numbers[] = {1, 2, 4};
    for (size_t n = 0; n <= 3; n += 3) {
        size_t len;
        const kmf_output_form form = {.dim = 1, .format = &sums};
        kmf_output *output = kmf_output_new(in_dir("y.tsv"), &form, NULL);
        ck_assert_ptr_nonnull(output);
        for (size_t i = 0; i < n; i++) {
            kmf_row row = {.name = "r", .vector = numbers + i, .index = i};
            ck_assert_int_eq(kmf_output_row(output, &row, NULL), 0);
        }
        ck_assert_int_eq(kmf_output_commit(output, NULL, NULL), 0);
        kmf_output_free(output);
        ck_assert_int_eq(n_entries(dir), 1);
        char *text = kmf_file_read(in_dir("y.tsv"), 1000, &len, NULL);
        ck_assert_str_eq(text, n == 0 ? "#name\tsum\n"
                                      : "#name\tsum\nr\tso far 1\nr\tso far 3\nr\tso far 7\n");
        kmf_free(text);
    }
}
END_TEST

START_TEST(rows_of_a_format_are_no_array_and_no_tokens)
{
    const kmf_output_form text = {.dim = 1, .format = &sums};
    const kmf_output_form tokens = {.dim = 1, .per_token = 1, .format = &sums};
    kmf_err err = {0};
    ck_assert_ptr_null(kmf_output_new(in_dir("y.npy"), &text, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.msg, "y.npy: rows of text go to a table"));
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_output_new(in_dir("y.tsv"), &tokens, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    kmf_row_format bare = sums;
    bare.name = NULL;
    const kmf_output_form nameless = {.dim = 1, .format = &bare};
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_output_new(in_dir("y.tsv"), &nameless, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    ck_assert_int_eq(n_entries(dir), 0);
}
END_TEST

/* Lines of any length; vectors have no place among them, nor they among vectors. */
START_TEST(rows_that_are_text_are_written_as_they_are)
{
    static const kmf_row_format lines = {.header = "#name\trank\n", .name = "lines"};
    static const float one = 1;
    static char letters[3000];
    const kmf_row row = {.name = "r", .vector = &one};
    kmf_output_form form = {.format = &lines};
    kmf_err err = {0};
    size_t len;
    kmf_output *output = kmf_output_new(in_dir("y.tsv"), &form, NULL);
    ck_assert_ptr_nonnull(output);
    memset(letters, 'A', sizeof letters - 1);
    ck_assert_int_eq(kmf_output_print(output, 0, NULL, "%s\t%d\n", "a", 1), 0);
    ck_assert_int_eq(kmf_output_print(output, 0, NULL, "%s\t%d\n", letters, 2), 0);
    ck_assert_int_eq(kmf_output_print(output, 7, NULL, "b\n"), 0);
    ck_assert_uint_eq(kmf_output_rows(output), 3);
    ck_assert_int_eq(kmf_output_row(output, &row, &err), KMF_EINVAL);
    ck_assert_int_eq(kmf_output_commit(output, NULL, NULL), 0);
    kmf_output_free(output);
    char *text = kmf_file_read(in_dir("y.tsv"), 10000, &len, NULL);
    const char *behind = text + strlen("#name\trank\na\t1\n");
    ck_assert_int_eq(strncmp(text, "#name\trank\na\t1\n", (size_t)(behind - text)), 0);
    ck_assert_int_eq(strncmp(behind, letters, sizeof letters - 1), 0);
    ck_assert_str_eq(behind + sizeof letters - 1, "\t2\nb\n");
    kmf_free(text);
    form = (kmf_output_form){.dim = 1};
    output = kmf_output_new(in_dir("z.tsv"), &form, NULL);
    ck_assert_int_eq(kmf_output_print(output, 0, &err, "a\n"), KMF_EINVAL);
    ck_assert_uint_eq(kmf_output_rows(output), 0);
    kmf_output_free(output);
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_checked_fixture(tcase, make_dir, remove_dir);
    tcase_add_test(tcase, npy_headers_come_back_and_others_are_refused);
    tcase_add_test(tcase, a_shard_that_is_not_there_is_an_input_that_fails);
    tcase_add_test(tcase, an_output_of_other_rows_takes_none);
    tcase_add_test(tcase, shards_that_are_joined_tell_how_far_they_are);
    tcase_add_test(tcase, a_number_that_float16_would_make_infinite_is_refused_and_told);
    tcase_add_test(tcase, rows_that_no_file_can_have_are_refused);
    tcase_add_test(tcase, an_output_is_committed_once);
    tcase_add_test(tcase, a_provenance_that_is_no_json_is_written_by_nobody);
    tcase_add_test(tcase, a_line_of_provenances_stays_one_list);
    tcase_add_test(tcase, a_provenance_tells_the_command_that_there_is);
    tcase_add_test(tcase, rows_of_a_format_are_a_table_alone);
    tcase_add_test(tcase, rows_of_a_format_are_no_array_and_no_tokens);
    tcase_add_test(tcase, rows_that_are_text_are_written_as_they_are);
    return run_case("outputs", tcase);
}
