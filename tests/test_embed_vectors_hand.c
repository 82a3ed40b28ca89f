/* SPDX-License-Identifier: MIT */
/*
 * Mean vectors of k-mers, of files of a few words that are written out here: means and counts by
 * hand, and what is refused and reported.
 */
#include "failing.h"
#include "kmerformer.h"
#include "rows.h"
#include "run.h"
#include "seqfiles.h"

#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* ---------------------------------------------------------------- by hand ---------------- */

static void check_one(const char *path, const kmf_embed_options *o, const char *seq, double x,
                      double y)
{
    table *t = run(path, o, &seq, 1, NULL);
    ck_assert_uint_eq(t->dim, 2);
    ck_assert_double_eq_tol((double)t->values[0], x, 1e-6);
    ck_assert_double_eq_tol((double)t->values[1], y, 1e-6);
    drop(t);
}

START_TEST(means_and_weights_by_hand)
{
    kmf_embed_options o = options();
    const char *path = write_text("x.vec", "3 2\nAC 1 0\nCG 0 2\nGT 4 4\n");
    check_one(path, &o, "ACG", 0.5, 1);      /* AC CG */
    check_one(path, &o, "acgu", 5.0 / 3, 2); /* AC CG GT */
    check_one(path, &o, "ACNACTTT", 1, 0);   /* AC AC, and CT TT TT which have no vector */
    o.strand = KMF_STRAND_RC;
    check_one(path, &o, "AAC", 4, 4); /* GTT */
    o.strand = KMF_STRAND_BOTH;
    check_one(path, &o, "ACC", 2.5, 2); /* AC; GT of GGT */
    o = options();
    o.norm = KMF_NORM_L2;
    check_one(path, &o, "GT", sqrt(0.5), sqrt(0.5));

    /* p = 0.999, 0.001 and 0: w = 1/1000, 1/2 and none. */
    write_text("x.vec.vocab", "AC 999\nCG 1\nGT 0\n");
    o = options();
    check_one(path, &o, "ACGT", 0.5, 1);
    o.weights = KMF_WEIGHTS_SIF;
    check_one(path, &o, "ACGT", 0.001 / 0.501, 1 / 0.501);
    check_one(path, &o, "AC", 1, 0);
}
END_TEST

/* One after the other, and counted. */
START_TEST(the_largest_numbers_add_up)
{
    static const size_t lengths[] = {67, 100, 131, 1000, 300000};
    static char seq[300001];
    kmf_embed_options o = options();
    const char *path = write_text("x.vec", "1 2\nAAAA 1.99999988 -1.99999988\n");
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        memset(seq, 'A', lengths[i]);
        seq[lengths[i]] = '\0';
        check_one(path, &o, seq, 1.99999988, -1.99999988);
    }
}
END_TEST

/* More rows than are listed at a time, of some hundred records: each has its own. */
START_TEST(many_records_of_some_length_keep_their_words_apart)
{
    enum { RECORDS = 300, LETTERS = 1500 };
    static char texts[2][LETTERS + 1];
    const char *records[RECORDS];
    kmf_embed_options o = options();
    o.threads = 1;
    const char *path = write_text("x.vec", "2 2\nAAAAAAAAA 1 0\nCCCCCCCCC 0 2\n");
    memset(texts[0], 'A', LETTERS);
    memset(texts[1], 'C', LETTERS);
    for (size_t i = 0; i < RECORDS; i++)
        records[i] = texts[i % 2];
    table *t = run(path, &o, records, RECORDS, NULL);
    for (size_t i = 0; i < RECORDS; i++) {
        ck_assert_double_eq((double)t->values[2 * i], i % 2 ? 0 : 1);
        ck_assert_double_eq((double)t->values[2 * i + 1], i % 2 ? 2 : 0);
    }
    drop(t);
}
END_TEST

/* All words of 3 letters in the order of the alphabet but the last one, which has no vector. */
START_TEST(a_word_that_lacks_behind_all_others_is_unknown)
{
    static const char *const records[] = {"TTTTG", "TTTT"};
    kmf_embed_options o = options();
    kmf_embed_stats stats;
    char words[1024] = "63 2\n";
    for (int i = 0; i < 63; i++)
        sprintf(words + strlen(words), "%c%c%c 1 %d\n", "ACGT"[i / 16], "ACGT"[i / 4 % 4],
                "ACGT"[i % 4], i);
    table *t = run(write_text("x.vec", words), &o, records, 2, &stats);
    ck_assert(t->values[0] == 1 && t->values[1] == 62 && isnan(t->values[2]));
    ck_assert_uint_eq(stats.unknown, 4);
    drop(t);
}
END_TEST

START_TEST(only_what_a_record_has_is_averaged)
{
    static const char *const five[] = {"ACGT", "GT", "TTTT", "NNNN", ""};
    kmf_embed_stats s;
    kmf_embed_options o = options();
    const char *path = write_text("x.vec", "3 2\nAC 1 0\nCG 0 2\nGT 4 4\n");
    write_text("x.vec.vocab", "AC 5\nCG 6\nGT 0\n");
    table *t = run(path, &o, five, 5, &s);
    ck_assert_uint_eq(t->tokens[0], 2);
    ck_assert_uint_eq(s.records, 5);
    ck_assert_uint_eq(s.bases, 14);
    ck_assert_uint_eq(s.tokens, 2);
    ck_assert_uint_eq(s.unknown, 1 + 1 + 3);
    ck_assert_uint_eq(s.ambiguous, 3);
    ck_assert_uint_eq(s.empty, 4);
    ck_assert_uint_eq(s.chunked, 0);
    for (size_t i = 1; i < 5; i++)
        ck_assert(isnan(t->values[2 * i]) && isnan(t->values[2 * i + 1]));
    drop(t);
}
END_TEST

/* They are counted, but there is nothing to multiply. */
/* A mean of length 0 has no direction, and stays. */
START_TEST(what_cancels_out_is_zero_whatever_the_norm)
{
    kmf_embed_options o = options();
    const char *path = write_text("x.vec", "2 2\nA 1 0.5\nC -1 -0.5\n");
    check_one(path, &o, "AC", 0, 0);
    o.norm = KMF_NORM_L2;
    check_one(path, &o, "ACCA", 0, 0);
}
END_TEST

START_TEST(words_that_all_have_no_weight_make_no_vector)
{
    static const char *const two[] = {"ACACACAC", "ACACACACAC"};
    kmf_embed_stats s;
    kmf_embed_options o = options();
    const char *path = write_text("x.vec", "1 2\nAC 1 0\n");
    write_text("x.vec.vocab", "AC 0\n");
    table *t = run(path, &o, two, 2, &s);
    ck_assert_uint_eq(s.tokens, 0);
    ck_assert_uint_eq(s.unknown, 7 + 9);
    ck_assert_uint_eq(s.empty, 2);
    ck_assert(isnan(t->values[0]) && isnan(t->values[3]));
    drop(t);
}
END_TEST

/* Letters are passed over where a stride is longer than all words, and not than the shortest. */
START_TEST(strict_takes_a_stride_up_to_the_longest_words)
{
    const char *path = write_text("x.vec", "3 2\nAC 1 0\nCGT 0 2\nACGT 4 4\n");
    kmf_embed_options o = options();
    o.strict = 1;
    for (size_t stride = 2; stride <= 5; stride++) {
        o.stride = stride;
        kmf_embedder *e = kmf_embedder_new(path, &o, NULL);
        ck_assert((e != NULL) == (stride <= 4));
        kmf_embedder_free(e);
    }
}
END_TEST

START_TEST(strict_refuses_every_loss)
{
    static const struct {
        const char *seq, *message;
    } bad[] = {{"TTT", "no valid k-mer"},
               {"ACGN", "ambiguous"},
               {"ACGG", "k-mers that have no vector or were never seen"},
               {"ACGT", "k-mers that have no vector or were never seen"}};
    const char *path = write_text("x.vec", "3 2\nAC 1 0\nCG 0 2\nGT 4 4\n");
    write_text("x.vec.vocab", "AC 5\nCG 6\nGT 0\n");
    for (size_t i = 0; i < 4; i++) {
        kmf_err err = {0};
        kmf_embed_options o = options();
        o.strict = 1;
        kmf_embedder *e = kmf_embedder_new(path, &o, &err);
        ck_assert_ptr_nonnull(e);
        ck_assert_int_eq(kmf_embedder_add(e, "good", "ACG", 3, &err), 0);
        int status = kmf_embedder_add(e, "bad", bad[i].seq, strlen(bad[i].seq), &err);
        if (status == 0)
            status = kmf_embedder_finish(e, &err);
        ck_assert_int_eq(status, KMF_EFORMAT);
        ck_assert_ptr_nonnull(strstr(err.msg, "record 2 'bad'"));
        ck_assert_msg(strstr(err.msg, bad[i].message) != NULL, "%s", err.msg);
        kmf_embedder_free(e);
    }
}
END_TEST

/* ---------------------------------------------------------------- refused, reported ------ */

static void refused(const char *path, const kmf_embed_options *o, kmf_code code,
                    const char *message)
{
    kmf_err err = {0};
    ck_assert_ptr_null(kmf_embedder_new(path, o, &err));
    ck_assert_int_eq(err.code, code);
    ck_assert_msg(strstr(err.msg, message) != NULL, "%s", err.msg);
    ck_assert_ptr_nonnull(strstr(err.msg, path));
}

START_TEST(options_that_do_not_fit_are_refused)
{
    kmf_embed_options o = options();
    const char *path = write_text("x.vec", "3 2\nAC 1 0\nCG 0 2\nGTTA 4 4\n");
    o.pooling = KMF_POOL_MEAN;
    o.ambiguous = KMF_AMBIGUOUS_SKIP;
    o.policy = KMF_LONG_CHUNK;
    o.k = 4;
    const char *one = "GTTA";
    drop(run(path, &o, &one, 1, NULL)); /* these are what it does */
    for (o.pooling = KMF_POOL_CLS; o.pooling <= KMF_POOL_NONE; o.pooling++)
        refused(path, &o, KMF_EINVAL, "no other pooling");
    o = options();
    o.layer = 0;
    refused(path, &o, KMF_EINVAL, "no layer");
    o = options();
    o.window = 100;
    refused(path, &o, KMF_EINVAL, "window");
    o = options();
    o.overlap = 0;
    refused(path, &o, KMF_EINVAL, "overlap");
    o = options();
    for (o.policy = KMF_LONG_TRUNCATE; o.policy <= KMF_LONG_ERROR; o.policy++)
        refused(path, &o, KMF_EINVAL, "long");
    o = options();
    for (o.ambiguous = KMF_AMBIGUOUS_UNK; o.ambiguous <= KMF_AMBIGUOUS_ERROR; o.ambiguous++)
        refused(path, &o, KMF_EINVAL, "ambiguous");
    o = options();
    o.k = 3;
    refused(path, &o, KMF_EINVAL, "no words of 3 letters");
    o.k = 5;
    refused(path, &o, KMF_EINVAL, "no words of 5 letters");
    o = options();
    o.weights = KMF_WEIGHTS_SIF;
    refused(path, &o, KMF_EMODEL, "how often");
    o.weights = KMF_WEIGHTS_SIF + 1;
    ck_assert_ptr_null(kmf_embedder_new(path, &o, NULL));
    o = options();
    path = write_text("p.vec", "2 2\nEF 1 0\nLQ 0 2\n");
    for (o.strand = KMF_STRAND_RC; o.strand <= KMF_STRAND_BOTH; o.strand++)
        refused(path, &o, KMF_EINVAL, "no strand");
    o = options();
    refused(write_text("n.vec", "2 2\nAC 1 0\nCG 0 nan\n"), &o, KMF_EMODEL, "CG");
}
END_TEST

START_TEST(any_failing_allocation_is_reported)
{
    const char *path = write_text("x.vec", "3 2\nAC 1 0\nCG 0 2\nGTTA 4 4\n");
    write_text("x.vec.vocab", "AC 5\nCG 6\nGTTA 0\n");
    bool reached = true;
    for (size_t n = 1; reached; n++) {
        kmf_err err = {0};
        kmf_embed_options o = options();
        int status = KMF_ENOMEM;
        char *json = NULL;
        kmf_mem_fail_at(n);
        kmf_embedder *e = kmf_embedder_new(path, &o, &err);
        if (e)
            status = kmf_embedder_add(e, "a name", "ACGTACGTACGT", 12, &err);
        if (status == 0)
            status = kmf_embedder_finish(e, &err);
        if (status == 0) {
            json = kmf_provenance(e, "x.npy", "command", &path, 1, NULL, &err);
            status = json ? 0 : (int)err.code;
        }
        reached = failed_at(n);
        kmf_text_free(json);
        kmf_embedder_free(e);
        ck_assert_msg(status == (reached ? KMF_ENOMEM : 0) && (int)err.code == status,
                      "allocation %zu: %d, %s", n, status, err.msg);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_checked_fixture(tcase, make_dir, remove_dir);
    tcase_add_test(tcase, means_and_weights_by_hand);
    tcase_add_test(tcase, the_largest_numbers_add_up);
    tcase_add_test(tcase, many_records_of_some_length_keep_their_words_apart);
    tcase_add_test(tcase, a_word_that_lacks_behind_all_others_is_unknown);
    tcase_add_test(tcase, only_what_a_record_has_is_averaged);
    tcase_add_test(tcase, what_cancels_out_is_zero_whatever_the_norm);
    tcase_add_test(tcase, words_that_all_have_no_weight_make_no_vector);
    tcase_add_test(tcase, strict_takes_a_stride_up_to_the_longest_words);
    tcase_add_test(tcase, strict_refuses_every_loss);
    tcase_add_test(tcase, options_that_do_not_fit_are_refused);
    tcase_add_test(tcase, any_failing_allocation_is_reported);
    return run_case("embed_vectors_hand", tcase);
}
