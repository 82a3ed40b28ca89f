/* SPDX-License-Identifier: MIT */
/* tnf and kmer:K against counting by hand. */
#include "embed/flow.h"
#include "kmerformer.h"
#include "mixed.h"
#include "run.h"

#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        ck_assert_uint_eq(tnf->tokens[s] + tnf->ambiguous[s], len < 4 ? 0 : len - 3);
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

/* Each thread has counts of its own, of 32 bits. */
START_TEST(memory_of_counts_is_told)
{
    kmf_embed_options o = options();
    for (o.threads = 1; o.threads <= 3; o.threads++) {
        kmf_embedder *e = kmf_embedder_new("kmer:8", &o, NULL);
        ck_assert_ptr_nonnull(e);
        ck_assert_uint_ge(e->method->kind->bytes(e->method), (size_t)o.threads << 18);
        kmf_embedder_free(e);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_test(tcase, frequencies_equal_counting_by_hand);
    tcase_add_test(tcase, frequencies_of_a_long_sequence_equal_counting_by_hand);
    tcase_add_test(tcase, memory_of_counts_is_told);
    return run_case("frequency", tcase);
}
