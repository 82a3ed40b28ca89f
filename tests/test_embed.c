/* SPDX-License-Identifier: MIT */
/*
 * Vectors by an encoder: against golden hidden states pooled here, and against each other under
 * every setting that must not matter.
 */
#include "base/err.h"
#include "base/io.h"
#include "base/rng.h"
#include "base/mem.h"
#include "kmerformer.h"
#include "mixed.h"
#include "run.h"

#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN_TOLERANCE 1e-5

/* ---------------------------------------------------------------- golden ---------------- */

/* A little-endian float32 array [rows, dim] as NumPy wrote it; only the data is wanted. */
static float *read_npy(const char *path, size_t dim, size_t *rows)
{
    size_t len;
    char *bytes = kmf_file_read(path, (size_t)1 << 26, &len, NULL);
    ck_assert_ptr_nonnull(bytes);
    size_t header = 10 + (unsigned char)bytes[8] + 256u * (unsigned char)bytes[9];
    *rows = (len - header) / (dim * sizeof(float));
    float *values = malloc(len - header);
    memcpy(values, bytes + header, len - header);
    kmf_free(bytes);
    return values;
}

static bool plain_upper_case(const char *seq)
{
    return strspn(seq, "ACGTN") == strlen(seq);
}

static void check_golden(const char *dir, size_t dim)
{
    char path[256];
    json_error_t error;
    size_t n_rows;
    size_t n_checked = 0;
    double worst = 0;
    snprintf(path, sizeof path, "%s/expected.json", dir);
    json_t *expected = json_load_file(path, 0, &error);
    ck_assert_msg(expected != NULL, "%s", error.text);
    snprintf(path, sizeof path, "%s/hidden.npy", dir);
    float *hidden = read_npy(path, dim, &n_rows);
    kmf_embed_options o = options();
    o.ambiguous = KMF_AMBIGUOUS_UNK;
    o.policy = KMF_LONG_TRUNCATE; /* as the golden tokens were */
    size_t i;
    json_t *c;
    json_array_foreach(json_object_get(expected, "cases"), i, c) {
        const char *seq = json_string_value(json_object_get(c, "sequence"));
        const json_t *ids = json_object_get(c, "input_ids");
        if (json_object_get(c, "note") || !seq || !plain_upper_case(seq))
            continue;
        size_t row = (size_t)json_integer_value(json_object_get(c, "hidden_row"));
        double mean[512] = {0};
        size_t n = 0;
        for (size_t t = 0; t < json_array_size(ids); t++)
            if (json_integer_value(json_array_get(ids, t)) >= 5) {
                for (size_t d = 0; d < dim; d++)
                    mean[d] += (double)hidden[(row + t) * dim + d];
                n++;
            }
        table *t = run(dir, &o, &seq, 1, NULL);
        ck_assert_uint_eq(t->dim, dim);
        ck_assert_uint_eq(t->tokens[0], n);
        for (size_t d = 0; d < dim; d++) {
            double off = fabs((double)t->values[d] - mean[d] / (double)n);
            worst = off > worst ? off : worst;
        }
        n_checked++;
        drop(t);
    }
    printf("%s: %zu pooled golden cases, largest difference %.2g\n", dir, n_checked, worst);
    ck_assert_uint_ge(n_checked, 5);
    ck_assert_msg(worst <= GOLDEN_TOLERANCE, "%g", worst);
    free(hidden);
    json_decref(expected);
}

START_TEST(mean_vectors_equal_pooled_golden_states)
{
    check_golden("tests/golden/roformer", 48);
    check_golden("tests/golden/roformer-rotary-value", 48);
}
END_TEST

/* ---------------------------------------------------------------- pooling ---------------- */

START_TEST(pooled_vectors_are_the_pooled_token_vectors)
{
    make_input();
    kmf_embed_options o = options();
    o.window = 80;
    o.overlap = 16;
    o.pooling = KMF_POOL_NONE;
    table *tokens = run(MODEL, &o, seqs, N_SEQ, NULL);
    o.pooling = KMF_POOL_MEAN;
    table *mean = run(MODEL, &o, seqs, N_SEQ, NULL);
    o.pooling = KMF_POOL_MAX;
    table *max = run(MODEL, &o, seqs, N_SEQ, NULL);
    size_t D = mean->dim;
    size_t row = 0;
    for (size_t s = 0; s < N_SEQ; s++) {
        if (mean->tokens[s] == 0) {
            ck_assert(isnan(mean->values[s * D]) && isnan(max->values[s * D]));
            ck_assert(isnan(tokens->values[row * D]));
            ck_assert_int_eq(tokens->position[row], -1);
            row++;
            continue;
        }
        for (size_t d = 0; d < D; d++) {
            double sum = 0;
            double most = -HUGE_VAL;
            for (size_t i = 0; i < mean->tokens[s]; i++) {
                double v = (double)tokens->values[(row + i) * D + d];
                sum += v;
                most = v > most ? v : most;
            }
            ck_assert_double_eq_tol((double)mean->values[s * D + d],
                                    sum / (double)mean->tokens[s], 1e-6);
            ck_assert((double)max->values[s * D + d] == most);
        }
        for (size_t i = 0; i < mean->tokens[s]; i++) {
            ck_assert_uint_eq(tokens->index[row + i], s);
            ck_assert_int_eq(strspn(seqs[s] + tokens->position[row + i], "ACGT") >= 5, 1);
            ck_assert(i == 0 || tokens->position[row + i] > tokens->position[row + i - 1]);
        }
        row += mean->tokens[s];
    }
    ck_assert_uint_eq(row, tokens->n);
    drop(tokens);
    drop(mean);
    drop(max);
}
END_TEST

START_TEST(one_sequence_equals_its_row)
{
    make_input();
    kmf_embed_options o = options();
    table *t = run(MODEL, &o, seqs, N_SEQ, NULL);
    kmf_embedder *e = kmf_embedder_new(MODEL, &o, NULL);
    float vector[64];
    for (size_t i = 0; i < 10; i++) {
        ck_assert_int_eq(kmf_embed_sequence(e, vector, seqs[i], NULL), 0);
        ck_assert_int_eq(memcmp(vector, t->values + i * t->dim, t->dim * sizeof(float)), 0);
    }
    kmf_embedder_free(e);
    drop(t);
}
END_TEST

/* ---------------------------------------------------------------- what must not matter -- */

static void check_settings(const char *model, kmf_embed_options o)
{
    static const size_t batches[] = {64, 1000};
    o.threads = 1;
    table *reference = run(model, &o, seqs, N_SEQ, NULL);
    for (int threads = 1; threads <= 3; threads += 2)
        for (size_t b = 0; b < sizeof batches / sizeof batches[0]; b++) {
            o.threads = threads;
            o.batch_tokens = batches[b];
            table *t = run(model, &o, seqs, N_SEQ, NULL);
            assert_same(t, reference);
            drop(t);
        }
    drop(reference);
}

START_TEST(threads_and_batches_change_no_bit)
{
    kmf_embed_options o = options();
    o.window = 100;
    o.overlap = 20;
    make_input();
    check_settings(MODEL, o);
    o.strand = KMF_STRAND_BOTH;
    o.pooling = KMF_POOL_MAX;
    check_settings(MODEL, o);
    o.strand = KMF_STRAND_RC;
    o.pooling = KMF_POOL_NONE;
    check_settings(MODEL, o);
    o.pooling = KMF_POOL_CLS;
    o.norm = KMF_NORM_L2;
    o.layer = 1;
    check_settings(MODEL, o);
    for (int p = KMF_PRECISION_BF16; p <= KMF_PRECISION_INT8; p++) {
        o = options();
        o.window = 100;
        o.precision = p; /* or f32, where the processor lacks it */
        check_settings(MODEL, o);
    }
    o = options();
    check_settings("tnf", o);
    o.strand = KMF_STRAND_BOTH;
    check_settings("kmer:3", o);
}
END_TEST

START_TEST(order_and_shards_change_no_bit)
{
    kmf_embed_options o = options();
    const char *turned[N_SEQ];
    make_input();
    table *all = run(MODEL, &o, seqs, N_SEQ, NULL);
    ck_assert_uint_eq(all->n, N_SEQ);
    for (size_t i = 0; i < N_SEQ; i++)
        turned[i] = seqs[(i * 7 + 5) % N_SEQ];
    table *t = run(MODEL, &o, turned, N_SEQ, NULL);
    for (size_t i = 0; i < N_SEQ; i++)
        ck_assert_int_eq(memcmp(t->values + i * t->dim,
                                all->values + (i * 7 + 5) % N_SEQ * t->dim,
                                t->dim * sizeof(float)),
                         0);
    drop(t);
    o.n_shards = 0; /* as good as one */
    t = run(MODEL, &o, seqs, N_SEQ, NULL);
    ck_assert_uint_eq(t->n, N_SEQ);
    ck_assert_int_eq(memcmp(t->values, all->values, N_SEQ * t->dim * sizeof(float)), 0);
    drop(t);
    o.n_shards = 7;
    for (o.shard = 0; o.shard < 7; o.shard++) {
        t = run(MODEL, &o, seqs, N_SEQ, NULL);
        for (size_t i = 0; i < t->n; i++) {
            ck_assert_uint_eq(t->index[i], o.shard + 7 * i);
            ck_assert_int_eq(memcmp(t->values + i * t->dim, all->values + t->index[i] * t->dim,
                                    t->dim * sizeof(float)),
                             0);
        }
        drop(t);
    }
    drop(all);
}
END_TEST

#define PASSED_OVER ((size_t)1 << 20)

static void count_calls(void *user, uint64_t tokens)
{
    (void)tokens;
    ++*(size_t *)user;
}

START_TEST(progress_is_told_while_other_shards_are_passed_over)
{
    kmf_embed_options o = options();
    size_t n = 0;
    o.threads = 1;
    o.n_shards = 4;
    o.shard = 3;
    kmf_embedder *e = kmf_embedder_new("tnf", &o, NULL);
    kmf_embedder_progress(e, count_calls, &n);
    char *seq = malloc(PASSED_OVER);
    memset(seq, 'A', PASSED_OVER);
    for (size_t i = 0; i < 11; i++) { /* 3 and 7 are the shard's own */
        size_t before = n;
        size_t len = i < 8 ? PASSED_OVER : PASSED_OVER / 2;
        ck_assert_int_eq(kmf_embedder_add(e, "name", seq, len, NULL), 0);
        if (i % 4 != 3)
            ck_assert_uint_eq(n, before + (i != 8 && i != 10));
    }
    free(seq);
    ck_assert_int_eq(kmf_embedder_finish(e, NULL), 0);
    kmf_embedder_free(e);
}
END_TEST

static void keep_last(void *user, uint64_t tokens)
{
    *(uint64_t *)user = tokens;
}

/* Of two strands half of both is told: a stride of 1 has as many k-mers on either. */
START_TEST(the_last_number_told_is_that_of_all_tokens)
{
    static const char *const models[] = {MODEL, "tnf", "kmer:3"};
    make_input();
    for (size_t m = 0; m < 3; m++)
        for (int strand = KMF_STRAND_FWD; strand <= KMF_STRAND_BOTH; strand++) {
            kmf_embed_options o = options();
            uint64_t told = 0;
            o.strand = strand;
            kmf_embedder *e = kmf_embedder_new(models[m], &o, NULL);
            ck_assert_ptr_nonnull(e);
            kmf_embedder_progress(e, keep_last, &told);
            add_all(e, seqs, N_SEQ);
            kmf_embed_stats stats;
            kmf_embedder_statistics(e, &stats);
            ck_assert_uint_gt(told, 0);
            ck_assert_uint_eq(told, stats.tokens);
            kmf_embedder_free(e);
        }
}
END_TEST

/* ---------------------------------------------------------------- repeats ---------------- */

#define N_DRAWN (6 * (size_t)N_SEQ)

/* Of N_DRAWN records, drawn from the sequences, the number of each. */
static void draw(size_t *of, const char **drawn)
{
    kmf_rng rng = kmf_rng_stream(23, 0);
    for (size_t i = 0; i < N_DRAWN; i++) {
        of[i] = kmf_rng_below(&rng, N_SEQ);
        drawn[i] = seqs[of[i]];
    }
}

/* Those before which an equal one with letters stands. */
static size_t count_repeats(const size_t *of)
{
    size_t n = 0;
    for (size_t i = 0; i < N_DRAWN; i++) {
        size_t before = 0;
        while (of[before] != of[i])
            before++;
        n += before < i && strlen(seqs[of[i]]) > 0;
    }
    return n;
}

static void check_repeats(const kmf_embed_options *o)
{
    size_t of[N_DRAWN];
    const char *drawn[N_DRAWN];
    uint64_t told = 0;
    kmf_embed_stats stats;
    draw(of, drawn);
    table *once = run(MODEL, o, seqs, N_SEQ, NULL);
    kmf_embedder *e = kmf_embedder_new(MODEL, o, NULL);
    table *t = calloc(1, sizeof *t);
    t->dim = kmf_embedder_dim(e);
    kmf_embedder_sink(e, keep, t);
    kmf_embedder_progress(e, keep_last, &told);
    add_all(e, drawn, N_DRAWN);
    ck_assert_uint_eq(t->n, N_DRAWN);
    uint64_t tokens = 0, ambiguous = 0;
    for (size_t i = 0; i < N_DRAWN; i++) {
        ck_assert_uint_eq(t->index[i], i);
        ck_assert_uint_eq(t->tokens[i], once->tokens[of[i]]);
        ck_assert_uint_eq(t->ambiguous[i], once->ambiguous[of[i]]);
        ck_assert_int_eq(memcmp(t->values + i * t->dim, once->values + of[i] * t->dim,
                                t->dim * sizeof(float)),
                         0);
        tokens += t->tokens[i];
        ambiguous += t->ambiguous[i];
    }
    kmf_embedder_statistics(e, &stats);
    ck_assert_uint_eq(stats.records, N_DRAWN);
    ck_assert_uint_eq(stats.tokens, tokens);
    ck_assert_uint_eq(stats.ambiguous, ambiguous);
    ck_assert_uint_eq(told, tokens);
    ck_assert_uint_eq(kmf_embedder_repeats(e), count_repeats(of));
    kmf_embedder_free(e);
    drop(t);
    drop(once);
}

/* In batches of which each has few, so that some repeat what is computed, and some what is done. */
START_TEST(a_repeat_has_the_vector_of_its_sequence_and_is_not_computed)
{
    kmf_embed_options o = options();
    make_input();
    check_repeats(&o);
    o.window = 100;
    o.overlap = 20;
    o.batch_tokens = 256;
    for (int strand = KMF_STRAND_FWD; strand <= KMF_STRAND_BOTH; strand++) {
        o.strand = strand;
        for (o.threads = 1; o.threads < 4; o.threads++)
            check_repeats(&o);
    }
    o.threads = 2;
    o.pooling = KMF_POOL_MAX;
    o.norm = KMF_NORM_L2;
    check_repeats(&o);
}
END_TEST

typedef struct refusal {
    size_t at; /* the row that is refused */
    size_t n;
} refusal;

static int refuse(void *user, const kmf_row *row, kmf_err *err)
{
    refusal *r = user;
    (void)row;
    return r->n++ == r->at ? kmf_fail(err, KMF_EIO, "no room") : 0;
}

/* Whatever was under way or refused, nothing of it is taken for a result. */
START_TEST(what_a_failed_run_had_met_is_not_repeated)
{
    kmf_embed_options o = options();
    make_input();
    o.batch_tokens = 256;
    table *once = run(MODEL, &o, seqs, N_SEQ, NULL);
    for (size_t at = 0; at < N_SEQ; at += 3) {
        refusal r = {.at = at};
        int status = 0;
        kmf_embedder *e = kmf_embedder_new(MODEL, &o, NULL);
        kmf_embedder_sink(e, refuse, &r);
        for (size_t i = 0; i < N_SEQ && status == 0; i++)
            status = kmf_embedder_add(e, "x", seqs[i], strlen(seqs[i]), NULL);
        if (status == 0)
            status = kmf_embedder_finish(e, NULL);
        ck_assert_int_eq(status, KMF_EIO);
        table *t = calloc(1, sizeof *t);
        t->dim = kmf_embedder_dim(e);
        kmf_embedder_sink(e, keep, t);
        add_all(e, seqs, N_SEQ);
        assert_same(t, once);
        drop(t);
        kmf_embedder_free(e);
    }
    drop(once);
}
END_TEST

/* At the greatest length that is kept, and beyond. */
START_TEST(long_sequences_are_computed_each_time)
{
    enum { N = 24, LEN = 2047 };
    static char text[N][LEN + 3];
    const char *twice[2 * N];
    kmf_rng rng = kmf_rng_stream(29, 0);
    for (size_t i = 0; i < N; i++) {
        memset(text[i], 'N', LEN + 2);
        for (size_t j = 0; j < 40; j++)
            text[i][j] = "ACGT"[kmf_rng_below(&rng, 4)];
        text[i][LEN + i % 3] = '\0'; /* 2047 to 2049 letters */
        twice[i] = twice[N + i] = text[i];
    }
    kmf_embed_options o = options();
    kmf_embedder *e = kmf_embedder_new(MODEL, &o, NULL);
    table *t = calloc(1, sizeof *t);
    t->dim = kmf_embedder_dim(e);
    kmf_embedder_sink(e, keep, t);
    add_all(e, twice, 2 * N);
    ck_assert_int_eq(memcmp(t->values, t->values + N * t->dim, N * t->dim * sizeof(float)), 0);
    ck_assert_uint_eq(kmf_embedder_repeats(e), N - N / 3); /* the longest are not kept */
    kmf_embedder_free(e);
    drop(t);
}
END_TEST

/* ---------------------------------------------------------------- memory ----------------- */

/*
 * Numbers of a file are used where they are, but for those that are packed, which are not held
 * twice; drawn ones are all held beside what is packed of them: that much more, by hand.
 */
START_TEST(memory_that_is_told_is_that_of_four_bytes_a_number)
{
    enum { LAYERS = 3, WORD = 32, WIDTH = 48, INNER = 96 };
    const size_t packed = WIDTH * WORD + LAYERS * (4 * WIDTH * WIDTH + 2 * WIDTH * INNER);
    kmf_embed_options o = options();
    kmf_embedder *stored = kmf_embedder_new(MODEL, &o, NULL);
    kmf_embedder *drawn = kmf_embedder_new("random:" MODEL, &o, NULL);
    ck_assert(stored && drawn);
    size_t n = (size_t)kmf_model_n_parameters(kmf_embedder_model(drawn));
    ck_assert_uint_ge(kmf_embedder_bytes(drawn), 4 * (n + packed));
    ck_assert_uint_eq(kmf_embedder_bytes(drawn) - kmf_embedder_bytes(stored), 4 * packed);
    kmf_embedder_free(stored);
    kmf_embedder_free(drawn);
}
END_TEST

/* ---------------------------------------------------------------- strands ---------------- */

START_TEST(both_strands_make_a_sequence_and_its_reverse_complement_equal)
{
    static char rc_texts[N_SEQ][SEQ_MAX + 1];
    const char *rc[N_SEQ];
    make_input();
    for (size_t i = 0; i < N_SEQ; i++) {
        revcomp(rc_texts[i], seqs[i]);
        rc[i] = rc_texts[i];
    }
    static const char *const models[] = {MODEL, "tnf", "kmer:4"};
    for (size_t m = 0; m < 3; m++) {
        kmf_embed_options o = options();
        if (m == 0) {
            o.window = 64;
            o.overlap = 9;
            o.stride = 2;
        }
        o.strand = KMF_STRAND_BOTH;
        table *a = run(models[m], &o, seqs, N_SEQ, NULL);
        table *b = run(models[m], &o, rc, N_SEQ, NULL);
        assert_same(a, b);
        drop(b);
        o.strand = KMF_STRAND_RC;
        b = run(models[m], &o, rc, N_SEQ, NULL);
        o.strand = KMF_STRAND_FWD;
        table *c = run(models[m], &o, seqs, N_SEQ, NULL);
        assert_same(b, c);
        drop(a);
        drop(b);
        drop(c);
    }
}
END_TEST

/* Window 0 touches the N, on one strand only; the record before it has both, in one batch. */
START_TEST(a_strand_without_a_kmer_adds_nothing)
{
    static const char *const two[] = {"ACGGTACCATTGA", "NACGTAC"};
    kmf_embed_options o = options();
    o.stride = 7;
    o.strand = KMF_STRAND_BOTH;
    table *both = run(MODEL, &o, two, 2, NULL);
    o.strand = KMF_STRAND_RC;
    table *rc = run(MODEL, &o, two + 1, 1, NULL);
    ck_assert_uint_eq(rc->tokens[0], 1);
    ck_assert_mem_eq(both->values + both->dim, rc->values, rc->dim * sizeof *rc->values);
    drop(both);
    drop(rc);
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_test(tcase, mean_vectors_equal_pooled_golden_states);
    tcase_add_test(tcase, pooled_vectors_are_the_pooled_token_vectors);
    tcase_add_test(tcase, one_sequence_equals_its_row);
    tcase_add_test(tcase, threads_and_batches_change_no_bit);
    tcase_add_test(tcase, order_and_shards_change_no_bit);
    tcase_add_test(tcase, progress_is_told_while_other_shards_are_passed_over);
    tcase_add_test(tcase, both_strands_make_a_sequence_and_its_reverse_complement_equal);
    tcase_add_test(tcase, a_strand_without_a_kmer_adds_nothing);
    tcase_add_test(tcase, the_last_number_told_is_that_of_all_tokens);
    tcase_add_test(tcase, a_repeat_has_the_vector_of_its_sequence_and_is_not_computed);
    tcase_add_test(tcase, what_a_failed_run_had_met_is_not_repeated);
    tcase_add_test(tcase, long_sequences_are_computed_each_time);
    tcase_add_test(tcase, memory_that_is_told_is_that_of_four_bytes_a_number);
    return run_case("embed", tcase);
}
