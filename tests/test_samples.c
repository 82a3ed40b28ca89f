/* SPDX-License-Identifier: MIT */
/*
 * Labelled records in memory: what cannot be read into a part, how parts are drawn, what their
 * vectors are judged by, and parts that cannot be judged.
 */
#include "chisquare.h"
#include "run.h"
#include "seqfiles.h"

#include "base/rng.h"
#include "kmerformer.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

/* Two classes of four records each. */
static const char table[] = "name,sequence,label\n"
                            "a1,ACGTACGT,a\na2,ACGTACGA,a\na3,ACGTACGC,a\na4,ACGTACGG,a\n"
                            "b1,TTTTTTGT,b\nb2,TTTTTTGA,b\nb3,TTTTTTGC,b\nb4,TTTTTTGG,b\n";

static int read_part(kmf_samples *samples, kmf_role role, const char *path, kmf_err *err)
{
    kmf_labelled *input = kmf_labelled_open(path, NULL, NULL, err);
    ck_assert_msg(input != NULL, "%s", err->msg);
    int status = kmf_samples_read(samples, role, input, err);
    kmf_labelled_close(input);
    return status;
}

static int read_records(kmf_samples *samples, const char *path, kmf_err *err)
{
    return read_part(samples, KMF_ROLE_TRAIN, path, err);
}

/* Parts as they were read, in either direction, before and after a part is drawn. */
START_TEST(records_of_two_parts_that_are_called_the_same_are_counted)
{
    const char *train = write_text("train.csv", table);
    const char *test =
        write_text("test.csv", "name,sequence,label\nx,ACGTACGA,a\nb4,TTTTTTGT,b\n"
                               "a2,ACGTACGC,a\nb4,TTTTTTGG,b\nA1,ACGTACGG,a\n");
    kmf_err err = {0};
    kmf_samples_options opts;
    kmf_samples_info info;
    kmf_samples *samples = kmf_samples_new(&err);
    ck_assert_ptr_nonnull(samples);
    ck_assert_int_eq(read_part(samples, KMF_ROLE_TRAIN, train, &err), 0);
    ck_assert_int_eq(read_part(samples, KMF_ROLE_TEST, test, &err), 0);
    kmf_samples_options_default(&opts);
    for (int settled = 0; settled < 2; settled++) {
        static const struct {
            kmf_role a, b;
            size_t n;
            const char *first;
        } cases[] = {{KMF_ROLE_TRAIN, KMF_ROLE_TEST, 3, "b4"},
                     {KMF_ROLE_TEST, KMF_ROLE_TRAIN, 2, "a2"},
                     {KMF_ROLE_TEST, KMF_ROLE_DEV, 0, NULL},
                     {KMF_ROLE_DEV, KMF_ROLE_TEST, 0, NULL}};
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            size_t n = 9;
            const char *first = "";
            ck_assert_int_eq(
                kmf_samples_alike(samples, cases[i].a, cases[i].b, &n, &first, &err), 0);
            ck_assert_uint_eq(n, cases[i].n);
            ck_assert_pstr_eq(first, cases[i].first);
        }
        if (settled == 0)
            ck_assert_int_eq(kmf_samples_settle(samples, &opts, &info, &err), 0);
    }
    kmf_samples_free(samples);
}
END_TEST

/* Of four records to test two are to train, too; a record without a vector is no other's. */
START_TEST(test_records_that_are_learnt_from_are_counted)
{
    enum { DIM = 3 };
    kmf_err err = {0};
    kmf_samples_options opts;
    kmf_samples_info info;
    kmf_eval_options how;
    kmf_eval_result result;
    float x[8 * DIM];
    kmf_samples *samples = kmf_samples_new(&err);
    ck_assert_int_eq(read_records(samples, write_text("t.csv", table), &err), 0);
    kmf_samples_options_default(&opts);
    opts.test_share = 0.5;
    opts.no_dev = 1;
    ck_assert_int_eq(kmf_samples_settle(samples, &opts, &info, &err), 0);
    ck_assert_uint_eq(info.n_test, 4);
    for (size_t i = 0; i < 8 * DIM; i++)
        x[i] = (float)(i * i % 37) - 9;
    kmf_eval_options_default(&how);
    how.probe.l2 = 0.1;
    how.probe.scale = KMF_PROBE_COLUMN;
    how.scale = KMF_SCALE_NONE;
    how.resamples = 0;
    for (size_t repeated = 0; repeated < 3; repeated++) {
        if (repeated > 0)
            memcpy(x + (info.test + repeated) * DIM, x + repeated * DIM, DIM * sizeof *x);
        if (repeated == 2)
            for (size_t d = 0; d < DIM; d++)
                x[d] = x[info.test * DIM + d] = NAN;
        ck_assert_msg(kmf_evaluate(samples, &info, x, DIM, &how, NULL, &result, NULL, &err) ==
                          0,
                      "%s", err.msg);
        ck_assert_uint_eq(result.repeated, repeated);
    }
    kmf_samples_free(samples);
}
END_TEST

START_TEST(without_a_test_part_nothing_is_judged)
{
    kmf_err err = {0};
    kmf_samples_options opts;
    kmf_samples_info info;
    kmf_eval_options how;
    kmf_eval_result result;
    kmf_samples *samples = kmf_samples_new(&err);
    ck_assert_ptr_nonnull(samples);
    ck_assert_int_eq(read_records(samples, write_text("t.csv", table), &err), 0);
    kmf_samples_options_default(&opts);
    opts.no_test = 1;
    ck_assert_int_eq(kmf_samples_settle(samples, &opts, &info, &err), 0);
    kmf_samples_info again = info;
    ck_assert_int_eq(kmf_samples_settle(samples, &opts, &again, NULL), KMF_EINVAL);
    ck_assert_int_eq(read_records(samples, write_text("more.csv", table), NULL), KMF_EINVAL);
    ck_assert_mem_eq(&again, &info, sizeof info);
    ck_assert_uint_eq(info.n, 8);
    ck_assert_uint_eq(info.n_test, 0);
    const float x[8] = {1, 2, 3, 4, -1, -2, -3, -4};
    kmf_eval_options_default(&how);
    ck_assert_int_eq(kmf_evaluate(samples, &info, x, 1, &how, NULL, &result, NULL, &err),
                     KMF_EINVAL);
    ck_assert_int_eq(err.code, KMF_EINVAL);
    ck_assert_str_eq(err.msg, "no record to test: the samples have no test part");
    kmf_samples_free(samples);
}
END_TEST

/* The file is cut to `then` rows of 2000 once the first has been read. */
static int read_while_it_is_cut(size_t then, size_t *n_rows, kmf_err *err)
{
    enum { ROWS = 2000, HEADER = 15, LETTERS = 997, EACH = LETTERS + 3 };
    text t = {0};
    char line[EACH + 1];
    kmf_labelled_record rec;
    memset(line, 'A', LETTERS);
    strcpy(line + LETTERS, ",a\n");
    add(&t, "sequence,label\n");
    for (size_t i = 0; i < ROWS; i++)
        add(&t, line);
    const char *path = write_text("t.csv", t.bytes);
    free(t.bytes);
    kmf_labelled *input = kmf_labelled_open(path, NULL, NULL, err);
    ck_assert_int_eq(kmf_labelled_next(input, &rec, err), 1);
    ck_assert_int_eq(truncate(path, (off_t)(HEADER + then * EACH)), 0);
    int status = 1;
    for (*n_rows = 0; status > 0; ++*n_rows)
        status = kmf_labelled_next(input, &rec, err);
    kmf_labelled_close(input);
    return status;
}

START_TEST(a_table_that_becomes_shorter_while_it_is_read_is_refused)
{
    kmf_err err = {0};
    size_t n;
    ck_assert_int_eq(read_while_it_is_cut(2000, &n, NULL), 0);
    ck_assert_uint_eq(n, 2000);
    ck_assert_int_eq(read_while_it_is_cut(1500, &n, &err), KMF_EIO);
    ck_assert_uint_eq(n, 1500);
    ck_assert_ptr_nonnull(strstr(err.msg, "t.csv: the file became shorter while it was read"));
}
END_TEST

/* Wherever a gzip member ends: in the first there may be half of a column's name. */
START_TEST(a_table_is_read_from_members_of_any_length)
{
    static const char tabs[] = "name\tsequence\tlabel\nr 1\tACGT\ta,b\n";
    for (size_t n = 1; n + 1 < sizeof tabs; n++) {
        kmf_err err = {0};
        kmf_labelled_record rec;
        text packed = gzipped(tabs, n), rest = gzipped(tabs + n, sizeof tabs - 1 - n);
        add_bytes(&packed, rest.bytes, rest.len);
        const char *path = write_bytes("t.tsv.gz", packed.bytes, packed.len);
        kmf_labelled *input = kmf_labelled_open(path, NULL, NULL, &err);
        ck_assert_msg(input != NULL, "%zu bytes in the first: %s", n, err.msg);
        ck_assert_int_eq(kmf_labelled_next(input, &rec, &err), 1);
        ck_assert_str_eq(rec.name, "r 1");
        ck_assert_str_eq(rec.seq, "ACGT");
        ck_assert_str_eq(rec.label, "a,b");
        ck_assert_int_eq(kmf_labelled_next(input, &rec, &err), 0);
        kmf_labelled_close(input);
        free(rest.bytes);
        free(packed.bytes);
    }
}
END_TEST

/* Blank lines are none of a table, but a row of one empty field in quotes is. */
START_TEST(a_row_may_be_an_empty_sequence)
{
    kmf_err err = {0};
    kmf_record rec;
    const char *path = write_text("t.csv", "sequence\n\"\"\n\n \t\nACGT\n");
    kmf_reader *input = kmf_reader_open(path, NULL, NULL, &err);
    ck_assert_msg(input != NULL, "%s", err.msg);
    ck_assert_int_eq(kmf_reader_next(input, &rec, &err), 1);
    ck_assert_uint_eq(rec.len, 0);
    ck_assert_int_eq(kmf_reader_next(input, &rec, &err), 1);
    ck_assert_str_eq(rec.seq, "ACGT");
    ck_assert_str_eq(rec.name, "2");
    ck_assert_int_eq(kmf_reader_next(input, &rec, &err), 0);
    kmf_reader_close(input);
}
END_TEST

/* Of three records of a class one is drawn for the test, and none of two to choose by. */
START_TEST(where_nothing_is_chosen_no_part_is_needed_for_it)
{
    kmf_err err = {0};
    kmf_samples_options opts;
    kmf_samples_info info;
    kmf_eval_options how;
    kmf_eval_result result;
    float x[6];
    const char *path = write_text("t.csv", "sequence,label\nA,a\nC,a\nG,a\nT,b\nAA,b\nCC,b\n");
    kmf_samples_options_default(&opts);
    kmf_samples *samples = kmf_samples_new(NULL);
    ck_assert_int_eq(read_records(samples, path, NULL), 0);
    ck_assert_int_eq(kmf_samples_settle(samples, &opts, &info, NULL), KMF_EFORMAT);
    kmf_samples_free(samples);

    opts.no_dev = 1;
    samples = kmf_samples_new(NULL);
    ck_assert_int_eq(read_records(samples, path, NULL), 0);
    ck_assert_int_eq(kmf_samples_settle(samples, &opts, &info, NULL), 0);
    ck_assert(info.n_train == 4 && info.n_fit == 4 && info.n_dev == 0 && info.n_test == 2);
    for (size_t i = 0; i < 6; i++)
        x[i] = (float)kmf_samples_classes(samples)[i];
    kmf_eval_options_default(&how);
    how.probe.l2 = 0.1;
    how.probe.scale = KMF_PROBE_COLUMN;
    ck_assert_int_eq(kmf_evaluate(samples, &info, x, 1, &how, NULL, &result, NULL, &err),
                     KMF_EINVAL);
    ck_assert_str_eq(err.msg, "no record to choose the scale by");
    how.scale = KMF_SCALE_NONE;
    ck_assert_int_eq(kmf_evaluate(samples, &info, x, 1, &how, NULL, &result, NULL, NULL), 0);
    ck_assert_double_eq(result.accuracy.value, 1);
    const kmf_eval_options right = how;
    for (int wrong = 0; wrong < 8; wrong++) {
        static const char *const says[] = {"scale: -1 is", "scale: 5 is",   "0 neighbours",
                                           "1025 neigh",   "0 restarts",    "10001 restarts",
                                           "-1 resamples", "1000001 resamp"};
        how = right;
        how.scale = wrong == 0 ? -1 : wrong == 1 ? KMF_SCALE_AUTO + 1 : right.scale;
        how.k = wrong == 2 ? 0 : wrong == 3 ? 1025 : right.k;
        how.restarts = wrong == 4 ? 0 : wrong == 5 ? 10001 : right.restarts;
        how.resamples = wrong == 6 ? -1 : wrong == 7 ? 1000001 : right.resamples;
        err = (kmf_err){0};
        ck_assert_int_eq(kmf_evaluate(samples, &info, x, 1, &how, NULL, &result, NULL, &err),
                         KMF_EINVAL);
        ck_assert_msg(strstr(err.msg, says[wrong]) == err.msg, "%s", err.msg);
    }
    kmf_samples_free(samples);
}
END_TEST

START_TEST(an_input_that_is_cut_short_is_not_judged)
{
    kmf_err err = {0};
    kmf_samples_options opts;
    kmf_samples_info info;
    const char *whole = write_text("x.csv", table);
    const char *none = write_text("none.csv", "sequence,label\n");
    const char *cut = write_text("cut.csv", "sequence,label\nACGT,a\nACGG,\"b\n");
    kmf_samples_options_default(&opts);
    kmf_samples *samples = kmf_samples_new(NULL);
    ck_assert_int_eq(read_records(samples, whole, NULL), 0);
    ck_assert_int_eq(read_part(samples, KMF_ROLE_TEST, none, &err), KMF_EFORMAT);
    /* none of it was there */
    ck_assert_int_eq(read_part(samples, KMF_ROLE_TEST, whole, NULL), 0);
    err = (kmf_err){0};
    ck_assert_int_eq(read_records(samples, cut, &err), KMF_EFORMAT);
    err = (kmf_err){0};
    ck_assert_int_eq(read_records(samples, whole, &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "an input was not read to its end");
    err = (kmf_err){0};
    ck_assert_int_eq(kmf_samples_settle(samples, &opts, &info, &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "an input was not read to its end");
    kmf_samples_free(samples);
}
END_TEST

START_TEST(roles_shares_and_embedders_are_looked_at)
{
    static const double shares[] = {0, 1, -0.5, (double)NAN};
    kmf_err err = {0};
    kmf_samples_info info;
    const char *path = write_text("x.csv", "sequence,label\nACGT,a\nACGG,b\nACCT,a\nACGA,b\n");
    kmf_samples *samples = kmf_samples_new(NULL);
    ck_assert_int_eq(read_part(samples, KMF_N_ROLES, path, &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "there is no role number 3");
    kmf_samples_free(samples);
    for (size_t i = 0; i < 2 * sizeof shares / sizeof shares[0]; i++) {
        kmf_samples_options opts;
        kmf_samples_options_default(&opts);
        *(i % 2 ? &opts.test_share : &opts.dev_share) = shares[i / 2];
        samples = kmf_samples_new(NULL);
        ck_assert_int_eq(read_records(samples, path, NULL), 0);
        err = (kmf_err){0};
        ck_assert_int_eq(kmf_samples_settle(samples, &opts, &info, &err), KMF_EINVAL);
        ck_assert_str_eq(err.msg, "a share must be above 0 and below 1");
        kmf_samples_free(samples);
    }
    kmf_embed_options of_shard;
    kmf_samples_options opts;
    float x[4 * 4];
    kmf_embed_options_default(&of_shard);
    of_shard.n_shards = 2;
    kmf_embedder *embedder = kmf_embedder_new("kmer:1", &of_shard, NULL);
    ck_assert_ptr_nonnull(embedder);
    kmf_samples_options_default(&opts);
    opts.no_test = opts.no_dev = 1;
    samples = kmf_samples_new(NULL);
    ck_assert_int_eq(read_records(samples, path, NULL), 0);
    ck_assert_int_eq(kmf_samples_settle(samples, &opts, &info, NULL), 0);
    err = (kmf_err){0};
    ck_assert_int_eq(kmf_samples_embed(samples, embedder, x, &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "one vector for each record is needed");
    kmf_embedder_free(embedder);
    kmf_samples_free(samples);
}
END_TEST

/* ---------------------------------------------------------------- places ------------------ */

typedef struct span {
    int record;
    unsigned beg, last;
    bool whole; /* the record itself */
} span;

/* As records are called; all ways that tell the place. */
static void name_place(char name[64], const span *s, size_t i)
{
    static const char *const ends[] = {"", "(-)"};
    int n = snprintf(name, 64, "c%d%s", s->record, s->record == 2 ? ":1-x" : "");
    if (!s->whole)
        snprintf(name + n, 64 - (size_t)n, ":%u-%u%s", s->beg, s->last, ends[i % 2]);
}

/* Two records of one name may be two. */
static bool are_meeting(const span *a, const span *b)
{
    if (a->record != b->record || (a->whole && b->whole))
        return false;
    return a->whole || b->whole || (a->beg <= b->last && b->beg <= a->last);
}

/* Spans drawn at random in three records, against a comparison of all pairs. */
START_TEST(records_to_test_that_share_bases_with_one_to_train_are_counted)
{
    enum { TRAIN = 12, TEST = 9, ROUNDS = 200, NOWHERE = 5 };
    static const char *const nowhere[NOWHERE] = {"d0", "c0:", "c0:5", "c0:9-5", "c0:0-4"};
    kmf_rng rng = kmf_rng_stream(21, 0);
    size_t met = 0;
    for (int round = 0; round < ROUNDS; round++) {
        span spans[TRAIN + TEST];
        text parts[2] = {{0}, {0}};
        char name[64];
        char line[96];
        size_t want = 0;
        for (size_t i = 0; i < TRAIN + TEST; i++) {
            span *s = &spans[i];
            s->record = (int)kmf_rng_below(&rng, 3);
            s->beg = 1 + (unsigned)kmf_rng_below(&rng, 400);
            s->last = s->beg + (unsigned)kmf_rng_below(&rng, 12);
            s->whole = kmf_rng_below(&rng, 150) == 0;
            name_place(name, s, i);
            snprintf(line, sizeof line, "%s,ACGT,%c\n", name, 'a' + (int)(i % 2));
            text *part = &parts[i >= TRAIN];
            add(part, part->len == 0 ? "name,sequence,label\n" : "");
            add(part, line);
        }
        for (size_t i = 0; i < NOWHERE; i++) {
            snprintf(line, sizeof line, "%s,ACGT,a\n", nowhere[i]);
            add(&parts[i % 2], line);
        }
        for (size_t i = TRAIN; i < TRAIN + TEST; i++) {
            bool meets = false;
            for (size_t j = 0; j < TRAIN; j++)
                meets = meets || are_meeting(&spans[i], &spans[j]);
            want += meets;
        }
        kmf_err err = {0};
        kmf_samples_options opts;
        kmf_samples_info info;
        size_t got;
        const char *first;
        kmf_samples *samples = kmf_samples_new(NULL);
        ck_assert_int_eq(read_records(samples, write_text("t.csv", parts[0].bytes), NULL), 0);
        const char *test = write_text("e.csv", parts[1].bytes);
        ck_assert_int_eq(read_part(samples, KMF_ROLE_TEST, test, NULL), 0);
        if (round % 2) /* the part to choose by is none to train, whatever it shares */
            ck_assert_int_eq(read_part(samples, KMF_ROLE_DEV, test, NULL), 0);
        kmf_samples_options_default(&opts);
        ck_assert_int_eq(kmf_samples_settle(samples, &opts, &info, &err), 0);
        ck_assert_int_eq(kmf_samples_overlap(samples, &info, &got, &first, &err), 0);
        ck_assert_uint_eq(got, want);
        ck_assert_int_eq(first != NULL, want > 0);
        met += want;
        kmf_samples_free(samples);
        free(parts[0].bytes);
        free(parts[1].bytes);
    }
    ck_assert_uint_gt(met, ROUNDS);
    ck_assert_uint_lt(met, (size_t)ROUNDS * TEST / 2);
}
END_TEST

/* ---------------------------------------------------------------- parts ------------------- */

/* Of x three records, two of them to test; of y one to test, of z one to choose by. */
START_TEST(classes_that_train_lacks_are_counted_once_in_the_test_part_alone)
{
    kmf_samples_options opts;
    kmf_samples_info info;
    kmf_samples *samples = kmf_samples_new(NULL);
    const char *dev = write_text("d.csv", "sequence,label\nA,a\nC,x\nG,z\n");
    const char *test = write_text("e.csv", "sequence,label\nA,x\nC,a\nG,y\nT,x\nAA,b\n");
    ck_assert_int_eq(read_records(samples, write_text("t.csv", table), NULL), 0);
    ck_assert_int_eq(read_part(samples, KMF_ROLE_DEV, dev, NULL), 0);
    ck_assert_int_eq(read_part(samples, KMF_ROLE_TEST, test, NULL), 0);
    kmf_samples_options_default(&opts);
    ck_assert_int_eq(kmf_samples_settle(samples, &opts, &info, NULL), 0);
    ck_assert_uint_eq(info.n_classes, 2);
    ck_assert_uint_eq(info.n_all, 5);
    ck_assert_uint_eq(info.unknown, 3);
    ck_assert_uint_eq(info.classes_unknown, 2);
    ck_assert_uint_eq(info.dev_unknown, 2);
    kmf_samples_free(samples);
}
END_TEST

/* A table of n records, each with the label that follows from its number, which is its name. */
static const char *write_numbered(size_t n, const char *(*label)(size_t))
{
    text t = {0};
    add(&t, "name,sequence,label\n");
    for (size_t i = 0; i < n; i++) {
        char line[64];
        snprintf(line, sizeof line, "%zu,ACGTACGT,%s\n", i, label(i));
        add(&t, line);
    }
    const char *path = write_text("t.csv", t.bytes);
    free(t.bytes);
    return path;
}

static kmf_samples *read_train(const char *path)
{
    kmf_err err = {0};
    kmf_samples *samples = kmf_samples_new(&err);
    ck_assert_ptr_nonnull(samples);
    ck_assert_int_eq(read_records(samples, path, &err), 0);
    return samples;
}

static size_t number_of(const kmf_samples *samples, size_t i)
{
    kmf_sample s;
    kmf_samples_get(samples, i, &s);
    return (size_t)strtoul(s.name, NULL, 10);
}

enum { UNEVEN = 1 + 2 + 7 + 20, SEEDS = 1000 };

/* a, b b, c x 7, d x 20, mixed. */
static const char *uneven_label(size_t i)
{
    return i == 11 ? "a" : i == 4 || i == 29 ? "b" : i % 4 == 1 ? "c" : "d";
}

static size_t class_size(const char *label)
{
    size_t n = 0;
    for (size_t i = 0; i < UNEVEN; i++)
        n += strcmp(uneven_label(i), label) == 0;
    return n;
}

/* By the contract: share x n, rounded, but never the last one. */
static size_t drawn_of(double share, size_t n)
{
    size_t take = (size_t)(share * (double)n + 0.5);
    return take < n ? take : n - 1;
}

/*
 * Every record of a class is as likely in a part as the others: with m of n drawn, that one is in
 * it has the variance p (1 - p), p = m / n; drawings without replacement have n - 1 degrees of
 * freedom and a sum that is n / (n - 1) times too small for them.
 */
static void draws_evenly(double test_share, double dev_share)
{
    static const char *const labels[] = {"a", "b", "c", "d"};
    uint64_t seen[2][UNEVEN] = {{0}};
    const char *path = write_numbered(UNEVEN, uneven_label);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        kmf_samples *samples = read_train(path);
        kmf_samples_options opts;
        kmf_samples_info info;
        kmf_samples_options_default(&opts);
        opts.min_class = 1;
        opts.seed = seed;
        opts.test_share = test_share;
        opts.dev_share = dev_share;
        ck_assert_int_eq(kmf_samples_settle(samples, &opts, &info, NULL), 0);
        ck_assert_uint_eq(info.n, UNEVEN);
        for (size_t i = 0; i < info.n_test; i++)
            seen[0][number_of(samples, info.test + i)]++;
        for (size_t i = 0; i < info.n_dev; i++)
            seen[1][number_of(samples, info.dev + i)]++;
        kmf_samples_free(samples);
    }
    for (size_t c = 0; c < 4; c++) {
        size_t n = class_size(labels[c]);
        size_t test = drawn_of(test_share, n);
        const size_t take[2] = {test, drawn_of(dev_share, n - test)};
        for (size_t part = 0; part < 2; part++) {
            double p = (double)take[part] / (double)n;
            uint64_t sum = 0;
            double square = 0;
            for (size_t i = 0; i < UNEVEN; i++) {
                if (strcmp(uneven_label(i), labels[c]) != 0)
                    continue;
                sum += seen[part][i];
                square += pow((double)seen[part][i] - SEEDS * p, 2);
            }
            ck_assert_uint_eq(sum, SEEDS * take[part]);
            if (take[part] > 0)
                chi_square_passes(labels[c],
                                  square / (SEEDS * p * (1 - p)) * (double)(n - 1) / (double)n,
                                  (double)(n - 1));
        }
    }
}

START_TEST(a_part_has_its_share_of_each_class_and_any_record_of_it)
{
    draws_evenly(0.2, 0.2);
    draws_evenly(0.5, 0.9);
}
END_TEST

/* ---------------------------------------------------------------- the judgement ----------- */

enum { JUDGED = 200 };

static const char *even_label(size_t i)
{
    return i % 2 ? "b" : "a";
}

/* So many records of two classes, of which the one nearest neighbour is to be asked. */
static kmf_samples *judged(kmf_samples_info *info, kmf_eval_options *how)
{
    kmf_err err = {0};
    kmf_samples_options opts;
    kmf_samples *samples = read_train(write_numbered(JUDGED, even_label));
    kmf_samples_options_default(&opts);
    ck_assert_int_eq(kmf_samples_settle(samples, &opts, info, &err), 0);
    kmf_eval_options_default(how);
    how->k = 1;
    how->resamples = 0;
    return samples;
}

/*
 * Of two columns one tells the class and is small, the other does not and is large: neighbours
 * know the class by standardised columns alone. Whoever asks for records that are among those
 * that are learnt from finds them by any scale; and a record of dev far away must not spread
 * the column that tells.
 */
START_TEST(a_scale_is_chosen_by_records_that_nothing_was_learnt_from)
{
    kmf_err err = {0};
    kmf_samples_info info;
    kmf_eval_options how;
    kmf_eval_result result;
    kmf_samples *samples = judged(&info, &how);
    float x[JUDGED][2];
    ck_assert_uint_eq(info.n, JUDGED);
    ck_assert_uint_eq(info.n_dev, 32);
    ck_assert_uint_eq(info.n_test, 40);
    for (size_t i = 0; i < JUDGED; i++) {
        x[i][0] = (kmf_samples_classes(samples)[i] ? 1.0f : -1.0f) + (float)(i % 7) / 16;
        x[i][1] = (float)(i * 7919 % 1009) + 0.5f;
    }
    x[info.dev][0] = 1e6f;
    ck_assert_int_eq(kmf_evaluate(samples, &info, x[0], 2, &how, NULL, &result, NULL, &err), 0);
    ck_assert_int_eq(result.scale, KMF_SCALE_STANDARD);
    kmf_samples_free(samples);
}
END_TEST

/*
 * Records of dev, which are part of train in the end, spread the column that misleads: neighbours
 * know the class by the scale of all of train, and are wrong by that of its rest.
 */
START_TEST(a_scale_is_that_of_all_of_train_once_it_is_chosen)
{
    kmf_err err = {0};
    kmf_samples_info info;
    kmf_eval_options how;
    kmf_eval_result result;
    kmf_samples *samples = judged(&info, &how);
    float x[JUDGED][2];
    for (size_t i = 0; i < JUDGED; i++) {
        float side = kmf_samples_classes(samples)[i] ? 1.0f : -1.0f;
        bool test = i >= info.test;
        x[i][0] = test ? 0.6f * side : side;
        x[i][1] = test ? -side : i < info.dev ? side : 1000 * side;
    }
    how.scale = KMF_SCALE_STANDARD;
    ck_assert_int_eq(kmf_evaluate(samples, &info, x[0], 2, &how, NULL, &result, NULL, &err), 0);
    ck_assert_double_eq(result.knn.value, 1);
    kmf_samples_free(samples);
}
END_TEST

/* The adjusted Rand index by its definition: pairs that two partitions put together or apart. */
static double pairs_agree(const int32_t *y, const int32_t *cluster, size_t n)
{
    double pairs[2][2] = {{0}};
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            pairs[y[i] == y[j]][cluster[i] == cluster[j]]++;
    double a = pairs[1][1], b = pairs[1][0], c = pairs[0][1], d = pairs[0][0];
    return 2 * (a * d - b * c) / ((a + b) * (b + d) + (a + c) * (c + d));
}

/* Where all but n records of the test part have no vector: they are what is left of clusters. */
START_TEST(records_without_a_vector_are_a_cluster_of_their_own)
{
    static const size_t there[] = {39, 2, 1, 0};
    const char *path = write_numbered(JUDGED, even_label);
    for (size_t c = 0; c < 4; c++) {
        kmf_err err = {0};
        kmf_samples *samples = read_train(path);
        kmf_samples_options opts;
        kmf_samples_info info;
        kmf_eval_options how;
        kmf_eval_result result;
        int32_t cluster[JUDGED];
        const kmf_eval_answers answers = {.cluster = cluster};
        float x[JUDGED];
        size_t k = there[c] < 2 ? there[c] : 2;
        kmf_samples_options_default(&opts);
        ck_assert_int_eq(kmf_samples_settle(samples, &opts, &info, &err), 0);
        const int32_t *y = kmf_samples_classes(samples) + info.test;
        for (size_t i = 0; i < JUDGED; i++)
            x[i] = (kmf_samples_classes(samples)[i] ? 1.0f : -1.0f) + (float)(i % 7) / 16;
        for (size_t i = there[c]; i < info.n_test; i++)
            x[info.test + i] = NAN;
        kmf_eval_options_default(&how);
        ck_assert_int_eq(
            kmf_evaluate(samples, &info, x, 1, &how, NULL, &result, &answers, &err), 0);
        ck_assert_uint_eq(result.without_test, info.n_test - there[c]);
        for (size_t i = 0; i < info.n_test; i++) {
            if (i >= there[c])
                ck_assert_int_eq(cluster[i], (int)k);
            else
                ck_assert(cluster[i] >= 0 && cluster[i] < (int)k);
            for (size_t j = 0; j < there[c] && i < there[c] && there[c] == 39; j++)
                ck_assert_int_eq(y[i] == y[j], cluster[i] == cluster[j]);
        }
        ck_assert_double_eq_tol(result.ari, pairs_agree(y, cluster, info.n_test), 1e-12);
        kmf_samples_free(samples);
    }
}
END_TEST

#define TOLD 1000
#define TOLD_MOST 64
typedef struct told {
    pthread_t caller;
    size_t n;
    struct {
        char doing[16];
        double share;
    } calls[TOLD_MOST];
} told;

static void note_progress(void *user, const char *doing, double share)
{
    told *t = user;
    ck_assert(pthread_equal(pthread_self(), t->caller));
    ck_assert_uint_lt(t->n, TOLD_MOST);
    snprintf(t->calls[t->n].doing, sizeof t->calls[0].doing, "%s", doing);
    t->calls[t->n++].share = share;
}

/*
 * 800 records train, 160 of which are a dev part that is compared with 640 by each of four scales;
 * then 200 with all 800: by 64 at a time.
 */
START_TEST(comparisons_and_clusters_are_told_as_they_are_made)
{
    kmf_samples *samples = read_train(write_numbered(TOLD, even_label));
    kmf_samples_options opts;
    kmf_samples_info info;
    kmf_eval_options how;
    kmf_eval_result silent, alone, threaded;
    static float x[TOLD];
    told t = {.caller = pthread_self()};
    size_t n = 0;
    kmf_samples_options_default(&opts);
    ck_assert_int_eq(kmf_samples_settle(samples, &opts, &info, NULL), 0);
    for (size_t i = 0; i < TOLD; i++)
        x[i] = (kmf_samples_classes(samples)[i] ? 1.0f : -1.0f) + (float)(i % 7) / 16;
    kmf_eval_options_default(&how);
    how.restarts = 3;
    ck_assert_int_eq(kmf_evaluate(samples, &info, x, 1, &how, NULL, &silent, NULL, NULL), 0);
    how.fn = note_progress;
    how.user = &t;
    ck_assert_int_eq(kmf_evaluate(samples, &info, x, 1, &how, NULL, &alone, NULL, NULL), 0);
    ck_assert_mem_eq(&alone, &silent, sizeof alone);
    for (int vote = 0; vote < 5; vote++)
        for (int asked = 0; asked < (vote < 4 ? 160 : 200); asked += 64) {
            double compared = vote * 160 * 640 + asked * (vote < 4 ? 640 : 800);
            ck_assert_str_eq(t.calls[n].doing, "neighbours");
            ck_assert_double_eq(t.calls[n++].share, compared / (4.0 * 160 * 640 + 200.0 * 800));
        }
    for (int run = 0; run < 3; run++) {
        ck_assert_str_eq(t.calls[n].doing, "clusters");
        ck_assert_double_eq(t.calls[n].share, run / 3.0);
        while (n < t.n && t.calls[n].share <= run / 3.0)
            n++;
    }
    ck_assert_uint_eq(n, t.n);
    kmf_pool *pool = kmf_pool_new(3, NULL);
    t.n = 0;
    ck_assert_int_eq(kmf_evaluate(samples, &info, x, 1, &how, pool, &threaded, NULL, NULL), 0);
    ck_assert_mem_eq(&threaded, &silent, sizeof threaded);
    for (size_t i = 1; i < t.n; i++)
        if (strcmp(t.calls[i].doing, t.calls[i - 1].doing) == 0)
            ck_assert_double_ge(t.calls[i].share, t.calls[i - 1].share);
    kmf_pool_free(pool);
    kmf_samples_free(samples);
}
END_TEST

START_TEST(vectors_are_those_of_the_samples_alone)
{
    kmf_samples_options opts;
    kmf_samples_info info;
    kmf_embed_options how;
    float x[8 * 4];
    kmf_samples *samples = kmf_samples_new(NULL);
    ck_assert_int_eq(read_records(samples, write_text("t.csv", table), NULL), 0);
    kmf_samples_options_default(&opts);
    ck_assert_int_eq(kmf_samples_settle(samples, &opts, &info, NULL), 0);
    ck_assert_uint_eq(info.n, 8);
    kmf_embed_options_default(&how);
    how.threads = 1;
    kmf_embedder *embedder = kmf_embedder_new("kmer:1", &how, NULL);
    ck_assert_ptr_nonnull(embedder);
    kmf_err err = {0};
    ck_assert_int_eq(kmf_embedder_add(embedder, "other", "ACGT", 4, NULL), 0);
    ck_assert_int_eq(kmf_samples_embed(samples, embedder, x, &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "the embedder has other records under way");
    ck_assert_int_eq(kmf_samples_embed(samples, embedder, x, NULL), 0);
    kmf_embedder_free(embedder);
    kmf_samples_free(samples);
}
END_TEST

int main(void)
{
    TCase *tc = untimed_case();
    tcase_add_checked_fixture(tc, make_dir, remove_dir);
    tcase_add_test(tc, test_records_that_are_learnt_from_are_counted);
    tcase_add_test(tc, records_of_two_parts_that_are_called_the_same_are_counted);
    tcase_add_test(tc, without_a_test_part_nothing_is_judged);
    tcase_add_test(tc, where_nothing_is_chosen_no_part_is_needed_for_it);
    tcase_add_test(tc, a_table_that_becomes_shorter_while_it_is_read_is_refused);
    tcase_add_test(tc, a_table_is_read_from_members_of_any_length);
    tcase_add_test(tc, a_row_may_be_an_empty_sequence);
    tcase_add_test(tc, a_part_has_its_share_of_each_class_and_any_record_of_it);
    tcase_add_test(tc, a_scale_is_chosen_by_records_that_nothing_was_learnt_from);
    tcase_add_test(tc, an_input_that_is_cut_short_is_not_judged);
    tcase_add_test(tc, a_scale_is_that_of_all_of_train_once_it_is_chosen);
    tcase_add_test(tc, roles_shares_and_embedders_are_looked_at);
    tcase_add_test(tc, records_to_test_that_share_bases_with_one_to_train_are_counted);
    tcase_add_test(tc, classes_that_train_lacks_are_counted_once_in_the_test_part_alone);
    tcase_add_test(tc, records_without_a_vector_are_a_cluster_of_their_own);
    tcase_add_test(tc, comparisons_and_clusters_are_told_as_they_are_made);
    tcase_add_test(tc, vectors_are_those_of_the_samples_alone);
    return run_case("samples", tc);
}
