/* SPDX-License-Identifier: MIT */
/* What embedders lose, and say so; what they refuse; and what a failure leaves. */
#include "failing.h"
#include "kmerformer.h"
#include "mixed.h"
#include "run.h"

#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- losses ----------------- */

START_TEST(records_and_losses_are_counted)
{
    static const char *const four[] = {"ACGTACGTAC", "ACG", "NNNNNNNN",
                                       "ACGTACGTACGTACGTACGTNACGTACGT"};
    kmf_embed_stats s;
    kmf_embed_options o = options();
    o.window = 14;
    o.overlap = 4;
    table *t = run(MODEL, &o, four, 4, &s); /* k = 5 */
    ck_assert_uint_eq(s.records, 4);
    ck_assert_uint_eq(s.bases, 10 + 3 + 8 + 29);
    ck_assert_uint_eq(s.tokens, 6 + 16 + 4);
    ck_assert_uint_eq(s.ambiguous, 4 + 5);
    ck_assert_uint_eq(s.empty, 2);
    ck_assert_uint_eq(s.chunked, 1);
    ck_assert_uint_eq(s.truncated, 0);
    drop(t);
    o.policy = KMF_LONG_SKIP;
    t = run(MODEL, &o, four, 4, &s);
    ck_assert_uint_eq(s.truncated, 1);
    ck_assert_uint_eq(s.empty, 2);
    ck_assert(isnan(t->values[3 * t->dim]));
    drop(t);
}
END_TEST

START_TEST(with_both_strands_the_larger_counts_are_told)
{
    static const char *const one[] = {
        "NACGTAC"}; /* window 0 touches the N, on one strand only */
    kmf_embed_stats s;
    kmf_embed_options o = options();
    o.stride = 7;
    o.strand = KMF_STRAND_BOTH;
    table *t = run(MODEL, &o, one, 1, &s);
    ck_assert_uint_eq(s.tokens, 1);
    ck_assert_uint_eq(s.ambiguous, 1);
    ck_assert_uint_eq(s.empty, 0);
    ck_assert(!isnan(t->values[0]));
    drop(t);
}
END_TEST

/* One strand has a k-mer more than the other, and more than a window takes. */
START_TEST(a_loss_of_either_strand_is_told)
{
    static const kmf_long policies[] = {KMF_LONG_CHUNK, KMF_LONG_TRUNCATE};
    enum { K = 5, STRIDE = 3, TOKENS = 8 };
    char seq[STRIDE * TOKENS + K + 2], other[sizeof seq];
    for (size_t i = 0; i < sizeof seq - 1; i++)
        seq[i] = "ACGGT"[i % 5];
    seq[sizeof seq - 2] = 'N'; /* behind the last k-mer, or in the first one of the reverse */
    seq[sizeof seq - 1] = '\0';
    revcomp(other, seq);
    for (int i = 0; i < 2; i++)
        for (int turned = 0; turned < 2; turned++) {
            const char *one = turned ? other : seq;
            kmf_embed_stats s;
            kmf_embed_options o = options();
            o.stride = STRIDE;
            o.window = TOKENS + 2; /* [CLS] and [SEP] */
            o.overlap = 2;
            o.strand = KMF_STRAND_BOTH;
            o.ambiguous = KMF_AMBIGUOUS_SKIP;
            o.policy = (int)policies[i];
            table *t = run(MODEL, &o, &one, 1, &s);
            ck_assert_uint_eq(s.chunked, policies[i] == KMF_LONG_CHUNK);
            ck_assert_uint_eq(s.truncated, policies[i] == KMF_LONG_TRUNCATE);
            drop(t);
        }
}
END_TEST

START_TEST(strict_refuses_every_loss)
{
    static const char *const bad[] = {"ACG", "ACGTACGTNACGTACGT", "ACGTACGTACGTACGTACGTACGT"};
    for (size_t i = 0; i < 3; i++) {
        kmf_err err = {0};
        kmf_embed_options o = options();
        o.strict = 1;
        o.window = 16;
        o.overlap = 2;
        kmf_embedder *e = kmf_embedder_new(MODEL, &o, &err);
        ck_assert_ptr_nonnull(e);
        int status = kmf_embedder_add(e, "bad", bad[i], strlen(bad[i]), &err);
        if (status == 0)
            status = kmf_embedder_finish(e, &err);
        ck_assert_int_eq(status, KMF_EFORMAT);
        ck_assert_ptr_nonnull(strstr(err.msg, "record 1 'bad'"));
        kmf_embedder_free(e);
    }
}
END_TEST

/* ---------------------------------------------------------------- refusals and failures --- */

START_TEST(a_sequence_alone_is_stopped_as_a_run_is)
{
    static const char *const models[] = {MODEL, "tnf"};
    kmf_embed_options o = options();
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        kmf_err err = {0};
        kmf_embedder *e = kmf_embedder_new(models[i], &o, NULL);
        ck_assert_ptr_nonnull(e);
        float *vector = calloc(kmf_embedder_dim(e), sizeof *vector);
        ck_assert_ptr_nonnull(vector);
        kmf_embedder_stop(e);
        ck_assert_int_eq(kmf_embed_sequence(e, vector, "ACGTACGTACGT", &err), KMF_ESTOPPED);
        ck_assert_int_eq(err.code, KMF_ESTOPPED);
        ck_assert_int_eq(kmf_embed_sequence(e, vector, "ACGTACGTACGT", NULL), 0);
        free(vector);
        kmf_embedder_free(e);
    }
}
END_TEST

START_TEST(a_seed_is_for_random_weights)
{
    static const char *const models[] = {MODEL, "tnf", "kmer:2"};
    kmf_embed_options o = options();
    o.seed = 2;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        kmf_err err = {0};
        ck_assert_ptr_null(kmf_embedder_new(models[i], &o, &err));
        ck_assert_int_eq(err.code, KMF_EINVAL);
        ck_assert_ptr_nonnull(strstr(err.msg, models[i]));
        ck_assert_ptr_nonnull(strstr(err.msg, " has no random weights"));
    }
    kmf_embedder *e = kmf_embedder_new("random:" MODEL, &o, NULL);
    ck_assert_ptr_nonnull(e);
    kmf_embedder_free(e);
}
END_TEST

START_TEST(options_that_do_not_fit_are_refused)
{
    kmf_embed_options o = options();
    kmf_err err = {0};
    o.layer = 4; /* of 3 */
    ck_assert_ptr_null(kmf_embedder_new(MODEL, &o, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    o = options();
    o.layer = -5;
    ck_assert_ptr_null(kmf_embedder_new(MODEL, &o, NULL));
    o = options();
    o.pooling = KMF_POOL_NONE;
    o.strand = KMF_STRAND_BOTH;
    ck_assert_ptr_null(kmf_embedder_new(MODEL, &o, NULL));
    o = options();
    o.shard = 2;
    o.n_shards = 2;
    ck_assert_ptr_null(kmf_embedder_new(MODEL, &o, NULL));
    o = options();
    o.layer = 1;
    ck_assert_ptr_null(kmf_embedder_new("tnf", &o, NULL));
    o = options();
    o.pooling = KMF_POOL_POOLER + 1;
    ck_assert_ptr_null(kmf_embedder_new(MODEL, &o, NULL));
    o = options();
    o.precision = -2;
    ck_assert_ptr_null(kmf_embedder_new(MODEL, &o, NULL));
    o = options();
    o.pooling = KMF_POOL_POOLER; /* it has none */
    ck_assert_ptr_null(kmf_embedder_new(MODEL, &o, NULL));
    o = options();
    o.exact = 1;
    o.ambiguous = KMF_AMBIGUOUS_SKIP;
    ck_assert_ptr_null(kmf_embedder_new(MODEL, &o, NULL));
    o = options();
    o.threads = -1;
    ck_assert_ptr_null(kmf_embedder_new(MODEL, &o, NULL));
    o = options();
    o.precision = KMF_PRECISION_AUTO + 1;
    ck_assert_ptr_null(kmf_embedder_new(MODEL, &o, NULL));
    o.precision = KMF_PRECISION_F32; /* for an encoder alone */
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_embedder_new("tnf", &o, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    ck_assert_ptr_null(kmf_embedder_new("kmer:3", &o, NULL));
    for (int m = 0; m < 3; m++) { /* those of k-mer vectors */
        static const char *const models[] = {MODEL, "tnf", "kmer:3"};
        o = options();
        o.k = 4;
        ck_assert_ptr_null(kmf_embedder_new(models[m], &o, NULL));
        o.k = 0;
        o.weights = KMF_WEIGHTS_NONE;
        ck_assert_ptr_null(kmf_embedder_new(models[m], &o, NULL));
    }
    o = options();
    ck_assert_ptr_null(kmf_embedder_new("kmer:9", &o, NULL));
    ck_assert_ptr_null(kmf_embedder_new("kmer:+3", &o, NULL));
    ck_assert_ptr_null(kmf_embedder_new("kmer:03", &o, NULL));
    ck_assert_ptr_null(kmf_embedder_new("kmer:x", &o, NULL));
    ck_assert_ptr_null(kmf_embedder_new("/nonexistent", &o, NULL));
}
END_TEST

static int refuse(void *user, const kmf_row *row, kmf_err *err)
{
    int *left = user;
    (void)row;
    (void)err;
    return (*left)-- > 0 ? 0 : KMF_EIO;
}

/* The row of one good sequence after a failure is what it would have been without. */
static void check_as_new(kmf_embedder *e, const float *want)
{
    float vector[64];
    ck_assert_int_eq(kmf_embed_sequence(e, vector, "ACGTACGTACGT", NULL), 0);
    ck_assert_int_eq(memcmp(vector, want, kmf_embedder_dim(e) * sizeof *vector), 0);
}

START_TEST(after_a_failure_the_embedder_is_as_new)
{
    float want[64];
    int left = 3;
    kmf_err err = {0};
    kmf_embed_options o = options();
    make_input();
    o.ambiguous = KMF_AMBIGUOUS_ERROR;
    kmf_embedder *e = kmf_embedder_new(MODEL, &o, NULL);
    ck_assert_ptr_nonnull(e);
    ck_assert_int_eq(kmf_embed_sequence(e, want, "ACGTACGTACGT", NULL), 0);
    ck_assert_int_eq(kmf_embed_sequence(e, (float[64]){0}, "ACGTACNACGT", &err), KMF_EFORMAT);
    check_as_new(e, want);
    ck_assert_int_eq(kmf_embedder_add(e, "a", "ACGTACGT", 8, NULL), 0); /* under way */
    ck_assert_int_eq(kmf_embedder_add(e, "a\tb", "ACGTACGTACGT", 12, NULL), KMF_EINVAL);
    ck_assert_int_eq(kmf_embedder_add(e, "a\nb", "ACGTACGTACGT", 12, NULL), KMF_EINVAL);
    check_as_new(e, want);
    kmf_embedder_free(e);

    o.ambiguous = -1;
    o.batch_tokens = 64;
    e = kmf_embedder_new(MODEL, &o, NULL);
    kmf_embedder_sink(e, refuse, &left);
    int status = 0;
    for (size_t i = 0; i < N_SEQ && status == 0; i++)
        status = kmf_embedder_add(e, "x", seqs[i], strlen(seqs[i]), NULL);
    if (status == 0)
        status = kmf_embedder_finish(e, NULL);
    ck_assert_int_eq(status, KMF_EIO);
    check_as_new(e, want);
    ck_assert_int_eq(kmf_embedder_add(e, "x", "ACGTACGT", 8, NULL), 0);
    err = (kmf_err){0};
    ck_assert_int_eq(kmf_embed_sequence(e, want, "ACGTACGT", &err), KMF_EINVAL);
    kmf_embedder_free(e);
}
END_TEST

/* ---------------------------------------------------------------- memory ----------------- */

/* The bits of a vector, added up. */
static int add_bits(void *user, const kmf_row *row, kmf_err *err)
{
    uint64_t *sum = user;
    (void)err;
    for (size_t d = 0; d < 32; d++) {
        uint32_t bits;
        memcpy(&bits, &row->vector[d], sizeof bits);
        *sum = *sum * 31 + bits;
    }
    return 0;
}

/* kmf_embed_sequence knows no source, and one that was given is forgotten with its records. */
START_TEST(a_source_is_that_of_its_records)
{
    kmf_err err = {0};
    kmf_embed_options o = options();
    float vector[512];
    o.ambiguous = KMF_AMBIGUOUS_ERROR;
    kmf_embedder *e = kmf_embedder_new(MODEL, &o, &err);
    ck_assert_msg(e && kmf_embedder_dim(e) <= 512, "%s", err.msg);
    char *source = strdup("x.fa");
    kmf_embedder_source(e, source);
    ck_assert_int_lt(kmf_embed_sequence(e, vector, "ACGTNACGT", &err), 0);
    ck_assert_msg(strstr(err.msg, "x.fa") == NULL, "%s", err.msg);
    err = (kmf_err){0};
    kmf_embedder_source(e, source);
    ck_assert_int_lt(kmf_embedder_add(e, "a", "ACGTNACGT", 9, &err), 0);
    ck_assert_msg(strncmp(err.msg, "x.fa: record 1 'a'", 18) == 0, "%s", err.msg);
    err = (kmf_err){0};
    kmf_embedder_source(e, source);
    ck_assert_int_eq(kmf_embedder_add(e, "a", "ACGTTACGT", 9, &err), 0);
    ck_assert_int_eq(kmf_embedder_finish(e, &err), 0);
    free(source);
    ck_assert_int_lt(kmf_embedder_add(e, "b", "ACGTNACGT", 9, &err), 0);
    ck_assert_msg(strncmp(err.msg, "record 1 'b'", 12) == 0, "%s", err.msg);
    /* nor does it go on to count from where a second source of a run began */
    ck_assert_int_eq(kmf_embedder_add(e, "a", "ACGTTACGT", 9, NULL), 0);
    kmf_embedder_source(e, "y.fa");
    ck_assert_int_eq(kmf_embedder_add(e, "a", "ACGTTACGT", 9, NULL), 0);
    ck_assert_int_eq(kmf_embedder_finish(e, NULL), 0);
    err = (kmf_err){0};
    ck_assert_int_lt(kmf_embedder_add(e, "c", "ACGTNACGT", 9, &err), 0);
    ck_assert_msg(strncmp(err.msg, "record 1 'c'", 12) == 0, "%s", err.msg);
    /* records of a second source are counted from its own first one */
    ck_assert_int_eq(kmf_embedder_add(e, "a", "ACGTTACGT", 9, NULL), 0);
    kmf_embedder_source(e, "y.fa");
    ck_assert_int_eq(kmf_embedder_add(e, "a", "ACGTTACGT", 9, NULL), 0);
    err = (kmf_err){0};
    ck_assert_int_lt(kmf_embedder_add(e, "d", "ACGTNACGT", 9, &err), 0);
    ck_assert_msg(strncmp(err.msg, "y.fa: record 2 'd'", 18) == 0, "%s", err.msg);
    /* one sequence by itself is of no source, and leaves the one that was told */
    kmf_embedder_source(e, "z.fa");
    ck_assert_int_eq(kmf_embed_sequence(e, vector, "ACGTTACGT", NULL), 0);
    err = (kmf_err){0};
    ck_assert_int_lt(kmf_embedder_add(e, "e", "ACGTNACGT", 9, &err), 0);
    ck_assert_msg(strncmp(err.msg, "z.fa: record 1 'e'", 18) == 0, "%s", err.msg);
    kmf_embedder_free(e);
}
END_TEST

typedef struct answerer {
    int answer;
    int rows; /* it was given */
} answerer;

static int answer_row(void *user, const kmf_row *row, kmf_err *err)
{
    answerer *a = user;
    (void)row;
    (void)err;
    a->rows++;
    return a->answer;
}

static void check_answer(int answer, int code, const char *message)
{
    kmf_err err = {0};
    kmf_embed_options o = options();
    answerer a = {.answer = answer};
    kmf_embedder *e = kmf_embedder_new("tnf", &o, &err);
    ck_assert_msg(e != NULL, "%s", err.msg);
    kmf_embedder_sink(e, answer_row, &a);
    int status = 0;
    for (int i = 0; i < 3 && status == 0; i++)
        status = kmf_embedder_add(e, "a", "ACGTTACGT", 9, &err);
    if (status == 0)
        status = kmf_embedder_finish(e, &err);
    ck_assert_int_eq(status, code);
    ck_assert_int_eq(err.code, code);
    ck_assert_str_eq(err.msg, message);
    ck_assert_int_eq(a.rows, 1);
    kmf_embedder_free(e);
}

START_TEST(an_answer_that_is_no_code_or_has_no_message_ends_the_run)
{
    check_answer(1, KMF_EINVAL, "a row was answered by 1, which is no kmf_code");
    check_answer(KMF_EIO, KMF_EIO, "a row was refused");
    check_answer(KMF_ESTOPPED, KMF_ESTOPPED, "a row was refused");
    check_answer(-8, KMF_EINVAL, "a row was refused: -8, which is no kmf_code");
}
END_TEST

/* Which function a row or progress function called, and what that returned. */
typedef struct caller {
    kmf_embedder *embedder;
    int what;
    int status;
    int calls;
} caller;

static int call_back(caller *c)
{
    float vector[1024]; /* room for any model of the tests */
    kmf_reader_stats stats;
    c->calls++;
    switch (c->what) {
    case 0:
        return kmf_embedder_add(c->embedder, "b", "ACGTTACGT", 9, NULL);
    case 1:
        return kmf_embedder_read(c->embedder, "data/contigs.fa.gz", NULL, &stats, NULL);
    case 2:
        return kmf_embedder_finish(c->embedder, NULL);
    default:
        return kmf_embed_sequence(c->embedder, vector, "ACGTTACGT", NULL);
    }
}

static int call_of_row(void *user, const kmf_row *row, kmf_err *err)
{
    caller *c = user;
    (void)row;
    (void)err;
    c->status = call_back(c);
    return 0;
}

static void call_of_progress(void *user, uint64_t done)
{
    caller *c = user;
    (void)done;
    c->status = call_back(c);
}

/* The second run's record was met in the first: its row is given out while it is being added. */
START_TEST(a_function_that_is_called_leaves_the_run_alone)
{
    static const char seq[] = "ACGTTACGTAGGCATTCA";
    for (int what = 0; what < 4; what++)
        for (int progress = 0; progress < 2; progress++) {
            kmf_err err = {0};
            kmf_embed_options o = options();
            answerer a = {.answer = 0};
            kmf_embedder *e = kmf_embedder_new(MODEL, &o, &err);
            ck_assert_msg(e != NULL, "%s", err.msg);
            caller c = {.embedder = e, .what = what};
            if (progress)
                kmf_embedder_progress(e, call_of_progress, &c);
            for (int run = 0; run < 2; run++) {
                if (progress)
                    kmf_embedder_sink(e, answer_row, &a);
                else
                    kmf_embedder_sink(e, call_of_row, &c);
                c.calls = 0;
                c.status = 0;
                ck_assert_int_eq(kmf_embedder_add(e, "a", seq, strlen(seq), &err), 0);
                ck_assert_int_eq(kmf_embedder_finish(e, &err), 0);
                ck_assert_int_ge(c.calls, 1);
                ck_assert_int_eq(c.status, KMF_EINVAL);
            }
            ck_assert_uint_eq(kmf_embedder_repeats(e), 1);
            ck_assert_int_eq(a.rows, progress ? 2 : 0);
            kmf_embed_stats stats;
            kmf_embedder_statistics(e, &stats);
            ck_assert_uint_eq(stats.records, 2);
            kmf_embedder_free(e);
        }
}
END_TEST

/* Row or progress function, a call before the next record or before the end. */
START_TEST(a_run_that_is_stopped_ends_and_leaves_the_next_one_alone)
{
    static const char *const models[] = {"tnf", MODEL};
    for (int m = 0; m < 2; m++)
        for (int before = 0; before < 2; before++) {
            kmf_err err = {0};
            kmf_embed_options o = options();
            answerer a = {.answer = 0};
            kmf_embedder *e = kmf_embedder_new(models[m], &o, &err);
            ck_assert_msg(e != NULL, "%s", err.msg);
            kmf_embedder_sink(e, answer_row, &a);
            ck_assert_int_eq(kmf_embedder_add(e, "a", "ACGTTACGT", 9, &err), 0);
            kmf_embedder_stop(e);
            int status = before ? kmf_embedder_add(e, "b", "ACGTTACGT", 9, &err)
                                : kmf_embedder_finish(e, &err);
            ck_assert_int_eq(status, KMF_ESTOPPED);
            ck_assert_str_eq(err.msg, "the run was stopped");
            ck_assert_int_eq(a.rows, 0);
            ck_assert_int_eq(kmf_embedder_add(e, "c", "ACGTTACGT", 9, NULL), 0);
            ck_assert_int_eq(kmf_embedder_finish(e, NULL), 0);
            ck_assert_int_eq(a.rows, 1);
            kmf_embedder_free(e);
        }
}
END_TEST

/* A row a token is computed anew each time; of vectors all these records repeat earlier ones. */
START_TEST(no_batch_and_no_record_takes_memory)
{
    static const char *const models[] = {MODEL, MODEL, "kmer:3"};
    make_input();
    for (size_t m = 0; m < 3; m++) {
        kmf_embed_options o = options();
        if (m == 0)
            o.pooling = KMF_POOL_NONE;
        o.batch_tokens = 64;
        o.threads = 1; /* no thread is made at the end */
        kmf_embedder *e = kmf_embedder_new(models[m], &o, NULL);
        kmf_embedder_sink(e, ignore, NULL);
        for (int warm = 0; warm < 60 / N_SEQ + 2; warm++) /* each of 50 places has its name */
            add_all(e, seqs, N_SEQ);
        kmf_mem_fail_at(0);
        add_all(e, seqs, N_SEQ);
        ck_assert_uint_eq(kmf_mem_count(), 0);
        kmf_embedder_free(e);
    }
}
END_TEST

/* But the one for a thread that would have helped: without it the vector is the same. */
START_TEST(any_failing_allocation_is_reported)
{
    kmf_embed_options o = options();
    static const char *const models[] = {MODEL, "kmer:3", MODEL};
    for (size_t m = 0; m < 3; m++) {
        size_t n_without = 0;
        uint64_t without = 0;
        for (size_t n = 1;; n++) {
            kmf_err err = {0};
            uint64_t bits = 0;
            o.provenance = m == 2;
            int status = KMF_ENOMEM;
            kmf_mem_fail_at(n);
            kmf_embedder *e = kmf_embedder_new(models[m], &o, &err);
            if (e)
                kmf_embedder_sink(e, add_bits, &bits);
            if (e)
                status = kmf_embedder_add(e, "a name", "ACGTACGTACGT", 12, &err);
            if (status == 0)
                status = kmf_embedder_finish(e, &err);
            bool reached = failed_at(n);
            kmf_embedder_free(e);
            if (!reached) {
                ck_assert_int_eq(status, 0);
                ck_assert_uint_le(n_without, m != 1); /* 0: the batch was done before the end */
                ck_assert(n_without == 0 || bits == without);
                break;
            }
            if (status == 0) {
                n_without++;
                without = bits;
                continue;
            }
            ck_assert_msg(status == KMF_ENOMEM && err.code == KMF_ENOMEM,
                          "allocation %zu: %d, %s", n, status, err.msg);
        }
    }
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_test(tcase, records_and_losses_are_counted);
    tcase_add_test(tcase, with_both_strands_the_larger_counts_are_told);
    tcase_add_test(tcase, a_loss_of_either_strand_is_told);
    tcase_add_test(tcase, strict_refuses_every_loss);
    tcase_add_test(tcase, a_sequence_alone_is_stopped_as_a_run_is);
    tcase_add_test(tcase, a_seed_is_for_random_weights);
    tcase_add_test(tcase, options_that_do_not_fit_are_refused);
    tcase_add_test(tcase, after_a_failure_the_embedder_is_as_new);
    tcase_add_test(tcase, a_source_is_that_of_its_records);
    tcase_add_test(tcase, an_answer_that_is_no_code_or_has_no_message_ends_the_run);
    tcase_add_test(tcase, a_function_that_is_called_leaves_the_run_alone);
    tcase_add_test(tcase, a_run_that_is_stopped_ends_and_leaves_the_next_one_alone);
    tcase_add_test(tcase, no_batch_and_no_record_takes_memory);
    tcase_add_test(tcase, any_failing_allocation_is_reported);
    return run_case("embed_bad", tcase);
}
