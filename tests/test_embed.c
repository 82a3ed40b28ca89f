/* SPDX-License-Identifier: MIT */
/*
 * The pipeline: against golden hidden states pooled here, against counting by hand, and against
 * itself under every setting that must not matter.
 */
#include "base/io.h"
#include "base/mem.h"
#include "base/rng.h"
#include "checked.h"
#include "embed/npy.h"
#include "kmerformer.h"
#include "rows.h"
#include "run.h"

#include <check.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL "tests/golden/roformer"
#define GOLDEN_TOLERANCE 1e-4
#define N_SEQ (CHECKED ? 10 : 30)
#define READ_MAX (CHECKED ? 60 : 150)
#define CONTIG_MIN (CHECKED ? 150 : 400)
#define SEQ_MAX (CHECKED ? 250 : 900)

/* ---------------------------------------------------------------- input ----------------- */

static char texts[N_SEQ][SEQ_MAX + 1];
static const char *seqs[N_SEQ];

/* Reads, contigs of several windows, some N, and records without a k-mer. */
static void make_input(void)
{
    kmf_rng rng = kmf_rng_stream(11, 0);
    for (size_t i = 0; i < N_SEQ; i++) {
        size_t len = i % 10 == 9 ? CONTIG_MIN + kmf_rng_below(&rng, SEQ_MAX - CONTIG_MIN)
                                 : kmf_rng_below(&rng, READ_MAX);
        const char *letters = i % 3 ? "ACGT" : "ACGTACGTACGTACGTACGTACGTACGTACGTN";
        for (size_t j = 0; j < len; j++)
            texts[i][j] = letters[kmf_rng_below(&rng, strlen(letters))];
        texts[i][len] = '\0';
        seqs[i] = texts[i];
    }
    texts[7][3] = '\0';
    memset(texts[8], 'N', strlen(texts[8]));
}

static void revcomp(char *out, const char *seq)
{
    size_t n = strlen(seq);
    for (size_t i = 0; i < n; i++) {
        char b = seq[n - 1 - i];
        out[i] = b == 'A' ? 'T' : b == 'C' ? 'G' : b == 'G' ? 'C' : b == 'T' ? 'A' : b;
    }
    out[n] = '\0';
}

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
    json_array_foreach(json_object_get(expected, "cases"), i, c)
    {
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

/* ---------------------------------------------------------------- baselines -------------- */

START_TEST(frequencies_equal_counting_by_hand)
{
    make_input();
    kmf_embed_options o = options();
    o.batch_tokens = 64; /* so that long records fall in many stretches */
    table *tnf = run("tnf", &o, seqs, N_SEQ, NULL);
    table *words = run("kmer:2", &o, seqs, N_SEQ, NULL);
    ck_assert_uint_eq(tnf->dim, 136);
    ck_assert_uint_eq(words->dim, 16);
    for (size_t s = 0; s < N_SEQ; s++) {
        size_t len = strlen(seqs[s]);
        double two[16] = {0};
        double four[256] = {0};
        double n_two = 0;
        double n_four = 0;
        for (size_t i = 0; i + 2 <= len; i++) {
            uint64_t code;
            if (kmf_kmer_encode(&code, seqs[s] + i, 2) == 0) {
                two[code]++;
                n_two++;
            }
            if (i + 4 <= len && kmf_kmer_encode(&code, seqs[s] + i, 4) == 0) {
                char kmer[5], rc[5];
                kmf_kmer_decode(kmer, code, 4);
                revcomp(rc, kmer);
                kmf_kmer_encode(&code, strcmp(rc, kmer) < 0 ? rc : kmer, 4);
                four[code]++;
                n_four++;
            }
        }
        ck_assert_uint_eq(tnf->tokens[s], (uint64_t)n_four);
        for (size_t d = 0; d < 16; d++)
            ck_assert(n_two > 0
                          ? (double)words->values[s * 16 + d] == (double)(float)(two[d] / n_two)
                          : isnan(words->values[s * 16 + d]));
        size_t column = 0;
        for (uint64_t code = 0; code < 256; code++) {
            char kmer[5], rc[5];
            kmf_kmer_decode(kmer, code, 4);
            revcomp(rc, kmer);
            if (strcmp(rc, kmer) < 0)
                continue;
            float got = tnf->values[s * 136 + column++];
            ck_assert(n_four > 0 ? (double)got == (double)(float)(four[code] / n_four)
                                 : isnan(got));
        }
        ck_assert_uint_eq(column, 136);
    }
    drop(tnf);
    drop(words);
}
END_TEST

/* Shares of the k-mers of one sequence, [4^k]; canonical: of each only the smaller has one. */
static void shares_by_hand(double *shares, const char *seq, int k, bool canonical)
{
    char kmer[9], rc[9];
    double n = 0;
    uint64_t code;
    memset(shares, 0, ((size_t)1 << 2 * k) * sizeof *shares);
    for (size_t i = 0; seq[i + (size_t)k - 1]; i++) {
        if (kmf_kmer_encode(&code, seq + i, k) != 0)
            continue;
        kmf_kmer_decode(kmer, code, k);
        revcomp(rc, kmer);
        if (canonical && strcmp(rc, kmer) < 0)
            kmf_kmer_encode(&code, rc, k);
        shares[code]++;
        n++;
    }
    for (uint64_t c = 0; c < (uint64_t)1 << 2 * k; c++)
        shares[c] /= n;
}

/* In one piece, and long enough that several windows are counted at a time. */
START_TEST(frequencies_of_a_long_sequence_equal_counting_by_hand)
{
    enum { LEN = 40003, MOST = 1 << 16 };
    char *seq = malloc(LEN + 1);
    double *right = malloc(MOST * sizeof *right);
    kmf_rng rng = kmf_rng_stream(12, 0);
    for (size_t i = 0; i < LEN; i++) /* a repeat, then letters of unlike shares */
        seq[i] = "ACGGTTTAAAC"[i < 9000 ? i % 7 : kmf_rng_below(&rng, 11)];
    seq[LEN] = '\0';
    memset(seq + 20000, 'N', 3);
    seq[LEN - 5] = 'n';
    kmf_embed_options o = options();
    for (int k = 0; k <= 8; k++) { /* 0: tnf */
        char name[24];
        snprintf(name, sizeof name, "kmer:%d", k);
        table *t = run(k ? name : "tnf", &o, (const char *[]){seq}, 1, NULL);
        int letters = k ? k : 4;
        size_t column = 0;
        shares_by_hand(right, seq, letters, k == 0);
        for (uint64_t code = 0; code < (uint64_t)1 << 2 * letters; code++) {
            char kmer[9], rc[9];
            kmf_kmer_decode(kmer, code, letters);
            revcomp(rc, kmer);
            if (k > 0 || strcmp(rc, kmer) >= 0)
                ck_assert((double)t->values[column++] == (double)(float)right[code]);
        }
        ck_assert_uint_eq(column, t->dim);
        drop(t);
    }
    free(seq);
    free(right);
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
    ck_assert_uint_eq(s.empty, 3);
    ck_assert(isnan(t->values[3 * t->dim]));
    drop(t);
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

static int ignore(void *user, const kmf_row *row, kmf_err *err)
{
    (void)user;
    (void)row;
    (void)err;
    return 0;
}

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

static void add_all(kmf_embedder *e)
{
    for (size_t i = 0; i < N_SEQ; i++)
        ck_assert_int_eq(kmf_embedder_add(e, "a name", seqs[i], strlen(seqs[i]), NULL), 0);
    ck_assert_int_eq(kmf_embedder_finish(e, NULL), 0);
}

START_TEST(no_batch_and_no_record_takes_memory)
{
    static const char *const models[] = {MODEL, "kmer:3"};
    make_input();
    for (size_t m = 0; m < 2; m++) {
        kmf_embed_options o = options();
        o.batch_tokens = 64;
        o.threads = 1; /* no thread is made at the end */
        kmf_embedder *e = kmf_embedder_new(models[m], &o, NULL);
        kmf_embedder_sink(e, ignore, NULL);
        for (int warm = 0; warm < 60 / N_SEQ + 2; warm++) /* each of 50 places has its name */
            add_all(e);
        kmf_mem_fail_at(0);
        add_all(e);
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
            bool reached = kmf_mem_count() >= n;
            kmf_mem_fail_at(0);
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

static void *counted_malloc(size_t n)
{
    return kmf_malloc(n, 1, NULL);
}

/* Whole, or an error: never with null where a part of it could not be made. */
START_TEST(provenance_without_memory_is_an_error_and_never_half)
{
    const kmf_reader_options reader = {.regions = "chr1:1-9", .bed = "x.bed"};
    const char *const inputs[] = {"a.fa", "b\xff.fa"};
    kmf_embed_options o = options();
    json_set_alloc_funcs(counted_malloc, kmf_free);
    kmf_embedder *e = kmf_embedder_new("tnf", &o, NULL);
    ck_assert_ptr_nonnull(e);
    for (int identity = 0; identity < 2; identity++) {
        char *whole = identity ? kmf_embedder_identity(e, NULL)
                               : kmf_provenance(e, "x\xff", inputs, 2, &reader, NULL);
        size_t n_failed = 0;
        bool reached = true;
        ck_assert_ptr_nonnull(whole);
        for (size_t n = 1; reached; n++) {
            kmf_err err = {0};
            kmf_mem_fail_at(n);
            char *text = identity ? kmf_embedder_identity(e, &err)
                                  : kmf_provenance(e, "x\xff", inputs, 2, &reader, &err);
            reached = kmf_mem_count() >= n;
            kmf_mem_fail_at(0);
            ck_assert_int_eq(err.code, text ? KMF_OK : KMF_ENOMEM);
            if (text)
                ck_assert_str_eq(text, whole);
            n_failed += !text;
            kmf_text_free(text);
        }
        ck_assert_uint_gt(n_failed, 10);
        kmf_text_free(whole);
    }
    kmf_embedder_free(e);
    json_set_alloc_funcs(malloc, free);
}
END_TEST

/* Of a vocabulary of many pages, which nothing may give back to the system. */
START_TEST(a_digest_leaves_the_vocabulary_as_it_is)
{
    kmf_embed_options o = options();
    kmf_err err = {0};
    kmf_embedder *e = kmf_embedder_new("data/default", &o, &err);
    ck_assert_msg(e != NULL, "%s", err.msg);
    size_t len, after;
    const kmf_vocab *vocab = kmf_model_vocab(kmf_embedder_model(e));
    char *was = kmf_strdup(kmf_vocab_text(vocab, &len), &err);
    ck_assert_uint_gt(len, 4 * KMF_PAGE);
    char *first = kmf_embedder_identity(e, &err);
    char *second = kmf_embedder_identity(e, &err);
    ck_assert_str_eq(first, second);
    ck_assert_mem_eq(kmf_vocab_text(vocab, &after), was, len);
    ck_assert_uint_eq(after, len);
    kmf_text_free(first);
    kmf_text_free(second);
    kmf_free(was);
    kmf_embedder_free(e);
}
END_TEST

/* Asked for beforehand or not, twice, while a run is under way, and never waited for. */
START_TEST(digests_are_the_same_beside_the_start)
{
    char *text[4];
    for (int early = 0; early < 2; early++) {
        kmf_embed_options o = options();
        kmf_err err = {0};
        o.provenance = early;
        kmf_embedder *e = kmf_embedder_new(MODEL, &o, &err);
        ck_assert_msg(e != NULL, "%s", err.msg);
        ck_assert_int_eq(kmf_embedder_add(e, "a name", "ACGTACGTACGT", 12, &err), 0);
        text[2 * early] = kmf_embedder_identity(e, &err);
        text[2 * early + 1] = kmf_embedder_identity(e, &err);
        kmf_embedder_free(e);
        kmf_embedder_free(kmf_embedder_new(MODEL, &o, &err));
    }
    ck_assert_ptr_nonnull(strstr(text[0], "md5"));
    for (size_t i = 0; i < 4; i++) {
        ck_assert_str_eq(text[0], text[i]);
        if (i > 0)
            kmf_text_free(text[i]);
    }
    kmf_text_free(text[0]);
}
END_TEST

START_TEST(bytes_of_files_reach_no_message_raw)
{
    static const struct {
        const char *identity, *message;
    } lies[] = {{"{\"model\": {\"name\": \"no\\u001b[2J\"}, \"settings\": {}}",
                 "embedder: a control character in the model's name"},
                {"{\"model\": {\"name\": \"no\\u009b2J\"}, \"settings\": {}}",
                 "embedder: a control character in the model's name"},
                {"{\"model\": {\"name\": \"tnf\"}, \"settings\": {\"\\u001b[2J\": 1}}",
                 "tnf is not the model of these vectors: the setting ?[2J differs"}};
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        kmf_err err = {0};
        ck_assert_ptr_null(kmf_embedder_reopen(lies[i].identity, NULL, 1, &err));
        ck_assert_int_eq(err.code, KMF_EMODEL);
        ck_assert_str_eq(err.msg, lies[i].message);
    }
    static const char sound[] = "{\"model\": {\"name\": \"tnf\"}, \"settings\": {}}";
    kmf_err err = {0};
    ck_assert_ptr_null(kmf_embedder_reopen(sound, NULL, 0, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    err = (kmf_err){0};
    ck_assert_ptr_null(kmf_embedder_reopen(sound, NULL, 1025, &err));
    ck_assert_int_eq(err.code, KMF_EINVAL);
    err = (kmf_err){0};
    kmf_embed_options o = options();
    o.ambiguous = KMF_AMBIGUOUS_ERROR;
    kmf_embedder *e = kmf_embedder_new("tnf", &o, &err);
    ck_assert_ptr_nonnull(e);
    ck_assert_int_eq(kmf_embedder_add(e, "x", "ACG\x1b", 4, &err), KMF_EFORMAT);
    ck_assert_ptr_nonnull(strstr(err.msg, "base 4 is '?', not"));
    kmf_embedder_free(e);
}
END_TEST

START_TEST(npy_headers_come_back_and_others_are_refused)
{
    char header[KMF_NPY_HEADER];
    uint64_t rows;
    size_t dim;
    size_t element;
    kmf_npy_header(header, 1234567, 768, 4);
    ck_assert_int_eq(memcmp(header,
                            "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, "
                            "'shape': (1234567, 768), }",
                            77),
                     0);
    ck_assert_int_eq(header[127], '\n');
    ck_assert_int_eq(kmf_npy_parse(header, "x", &rows, &dim, &element, NULL), 0);
    ck_assert_uint_eq(rows, 1234567);
    ck_assert_uint_eq(dim, 768);
    ck_assert_uint_eq(element, 4);
    kmf_npy_header(header, UINT64_MAX, SIZE_MAX, 2);
    ck_assert_int_eq(kmf_npy_parse(header, "x", &rows, &dim, &element, NULL), 0);
    header[12] = 'X';
    ck_assert_int_eq(kmf_npy_parse(header, "x", &rows, &dim, &element, NULL), KMF_EMODEL);
}
END_TEST

START_TEST(a_shard_that_is_not_there_is_an_input_that_fails)
{
    const char *const shards[] = {"none.npy"};
    kmf_err err = {0};
    ck_assert_int_eq(kmf_merge(shards, 1, "whole.npy", "merge", &err), KMF_EIO);
    ck_assert_int_eq(err.code, KMF_EIO);
    ck_assert_int_eq(kmf_merge(shards, 1, "whole.npy", "merge", NULL), KMF_EIO);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("embed");
    TCase *tcase = tcase_create("embed");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, mean_vectors_equal_pooled_golden_states);
    tcase_add_test(tcase, threads_and_batches_change_no_bit);
    tcase_add_test(tcase, order_and_shards_change_no_bit);
    tcase_add_test(tcase, both_strands_make_a_sequence_and_its_reverse_complement_equal);
    tcase_add_test(tcase, frequencies_equal_counting_by_hand);
    tcase_add_test(tcase, frequencies_of_a_long_sequence_equal_counting_by_hand);
    tcase_add_test(tcase, pooled_vectors_are_the_pooled_token_vectors);
    tcase_add_test(tcase, records_and_losses_are_counted);
    tcase_add_test(tcase, strict_refuses_every_loss);
    tcase_add_test(tcase, options_that_do_not_fit_are_refused);
    tcase_add_test(tcase, after_a_failure_the_embedder_is_as_new);
    tcase_add_test(tcase, a_loss_of_either_strand_is_told);
    tcase_add_test(tcase, with_both_strands_the_larger_counts_are_told);
    tcase_add_test(tcase, one_sequence_equals_its_row);
    tcase_add_test(tcase, no_batch_and_no_record_takes_memory);
    tcase_add_test(tcase, any_failing_allocation_is_reported);
    tcase_add_test(tcase, provenance_without_memory_is_an_error_and_never_half);
    tcase_add_test(tcase, a_digest_leaves_the_vocabulary_as_it_is);
    tcase_add_test(tcase, digests_are_the_same_beside_the_start);
    tcase_add_test(tcase, bytes_of_files_reach_no_message_raw);
    tcase_add_test(tcase, a_shard_that_is_not_there_is_an_input_that_fails);
    tcase_add_test(tcase, npy_headers_come_back_and_others_are_refused);
    suite_add_tcase(suite, tcase);
    return run_suite(suite);
}
