/* SPDX-License-Identifier: MIT */
/* Scores against scikit-learn's, intervals against drawings written out naively. */
#include "base/rng.h"
#include "eval/scores.h"
#include "numbers.h"
#include "run.h"

#include <math.h>
#include <stdbool.h>

/* As sums go, in any order. */
#define TOLERANCE 1e-12

START_TEST(scores_are_those_of_scikit_learn)
{
    FILE *f = golden_open();
    int n_cases = 0;
    for (; golden_next(f, "scores"); n_cases++) {
        size_t n = (size_t)golden_number(f);
        size_t C = (size_t)golden_number(f);
        int32_t *truth = golden_classes(f, n);
        int32_t *predicted = golden_classes(f, n);
        double *p = golden_numbers(f, n * C);
        const kmf_scored scored = {truth, predicted, p, n, C, C};
        kmf_interval got[KMF_N_SCORES];
        ck_assert_int_eq(kmf_score_intervals(got, &scored, 0, 1, NULL, NULL), 0);
        for (int k = 0; k < KMF_N_SCORES; k++) {
            ck_assert_double_eq_tol(got[k].value, golden_number(f), TOLERANCE);
            ck_assert(isnan(got[k].low) && isnan(got[k].high));
        }
        free(truth);
        free(predicted);
        free(p);
    }
    ck_assert_int_eq(n_cases, 4);
    fclose(f);
}
END_TEST

START_TEST(clusters_are_scored_as_by_scikit_learn)
{
    FILE *f = golden_open();
    int n_cases = 0;
    for (; golden_next(f, "parts"); n_cases++) {
        size_t n = (size_t)golden_number(f);
        int32_t *a = golden_classes(f, n);
        int32_t *b = golden_classes(f, n);
        double ari;
        double nmi;
        ck_assert_int_eq(kmf_score_clusters(&ari, &nmi, a, 9, b, 7, n, NULL), 0);
        ck_assert_double_eq_tol(ari, golden_number(f), TOLERANCE);
        ck_assert_double_eq_tol(nmi, golden_number(f), TOLERANCE);
        free(a);
        free(b);
    }
    ck_assert_int_eq(n_cases, 5);
    fclose(f);
}
END_TEST

/* Of 4 records 3 right, one of a class that cannot be predicted. By hand. */
START_TEST(a_class_that_training_lacks_counts_as_a_mistake)
{
    const int32_t truth[] = {0, 0, 1, 2};
    const int32_t predicted[] = {0, 0, 1, 1};
    const double p[] = {0.9, 0.1, 0.8, 0.2, 0.4, 0.6, 0.45, 0.55};
    const kmf_scored scored = {truth, predicted, p, 4, 2, 3};
    kmf_interval got[KMF_N_SCORES];
    ck_assert_int_eq(kmf_score_intervals(got, &scored, 0, 1, NULL, NULL), 0);
    ck_assert_double_eq_tol(got[KMF_ACCURACY].value, 0.75, TOLERANCE);
    /* 1, 2/3 and 0 */
    ck_assert_double_eq_tol(got[KMF_MACRO_F1].value, (1 + 2.0 / 3) / 3, TOLERANCE);
    ck_assert_double_eq_tol(got[KMF_MCC].value, (4 * 3 - (2 * 2 + 2 * 1)) / sqrt(8 * 10.0),
                            TOLERANCE);
    ck_assert_double_eq_tol(got[KMF_AUC].value, 1, TOLERANCE);
}
END_TEST

/*
 * A record of an unknown class is neither of the two that are known: whichever of these is the
 * first, they have 1 and 2/3. By hand.
 */
START_TEST(the_auc_of_two_classes_and_others_does_not_depend_on_their_order)
{
    const double first[] = {0.9, 0.4, 0.3, 0.2}; /* the probability of one of them */
    for (int32_t one = 0; one < 2; one++) {
        const int32_t truth[] = {one, one, 1 - one, 2};
        double p[8];
        for (size_t i = 0; i < 4; i++) {
            p[2 * i + (size_t)one] = first[i];
            p[2 * i + (size_t)(1 - one)] = 1 - first[i];
        }
        const kmf_scored scored = {truth, truth, p, 4, 2, 3};
        kmf_interval got[KMF_N_SCORES];
        ck_assert_int_eq(kmf_score_intervals(got, &scored, 0, 1, NULL, NULL), 0);
        ck_assert_double_eq_tol(got[KMF_AUC].value, (1 + 2.0 / 3) / 2, TOLERANCE);
    }
}
END_TEST

/* Of three classes one is not there to be tested; the others have 3/4 and 1. By hand. */
START_TEST(a_class_that_the_test_part_lacks_has_no_part_in_the_auc)
{
    const int32_t truth[] = {0, 0, 1, 1};
    const double p[] = {0.7, 0.2, 0.1, 0.3, 0.5, 0.2, 0.35, 0.6, 0.05, 0.1, 0.8, 0.1};
    const kmf_scored scored = {truth, truth, p, 4, 3, 3};
    kmf_interval got[KMF_N_SCORES];
    ck_assert_int_eq(kmf_score_intervals(got, &scored, 0, 1, NULL, NULL), 0);
    ck_assert_double_eq_tol(got[KMF_AUC].value, (0.75 + 1) / 2, TOLERANCE);
    ck_assert_double_eq_tol(got[KMF_MACRO_F1].value, 1, TOLERANCE); /* nor in the mean of F1 */
}
END_TEST

/* Of two records half of the drawings have one class alone, and no AUC; all others have 1. */
START_TEST(drawings_without_an_auc_are_left_out_of_its_interval)
{
    const int32_t truth[] = {0, 1};
    const double p[] = {0.9, 0.1, 0.2, 0.8};
    const kmf_scored scored = {truth, truth, p, 2, 2, 2};
    kmf_interval got[KMF_N_SCORES];
    ck_assert_int_eq(kmf_score_intervals(got, &scored, 200, 1, NULL, NULL), 0);
    ck_assert_double_eq_tol(got[KMF_AUC].value, 1, TOLERANCE);
    ck_assert_double_eq_tol(got[KMF_AUC].low, 1, TOLERANCE);
    ck_assert_double_eq_tol(got[KMF_AUC].high, 1, TOLERANCE);
}
END_TEST

START_TEST(without_a_second_class_there_is_no_auc)
{
    const int32_t truth[] = {1, 1, 1};
    const double p[] = {0.5, 0.5, 0.4, 0.6, 0.3, 0.7};
    const kmf_scored scored = {truth, truth, p, 3, 2, 2};
    kmf_interval got[KMF_N_SCORES];
    for (int drawings = 1; drawings <= 20; drawings += 19) {
        ck_assert_int_eq(kmf_score_intervals(got, &scored, drawings, 1, NULL, NULL), 0);
        ck_assert_double_eq_tol(got[KMF_ACCURACY].low, 1, TOLERANCE);
        ck_assert(isnan(got[KMF_AUC].value) && isnan(got[KMF_AUC].low));
        ck_assert_double_eq(got[KMF_MCC].value, 0);
        /* what lies behind it, AUC's, is no number */
        ck_assert_double_eq(got[KMF_MCC].high, 0);
    }
}
END_TEST

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { N = 997, DRAWINGS = 41 };

/* 40 gaps between 41 values: percentile 2.5 is the second, 97.5 the last but one. */
START_TEST(intervals_are_percentiles_of_scores_of_drawn_records)
{
    int32_t truth[N];
    int32_t predicted[N];
    double accuracy[DRAWINGS];
    kmf_interval got[KMF_N_SCORES];
    kmf_interval threaded[KMF_N_SCORES];
    kmf_rng rng = kmf_rng_stream(5, 5);
    for (int i = 0; i < N; i++) {
        truth[i] = (int32_t)kmf_rng_below(&rng, 3);
        predicted[i] = kmf_rng_unit(&rng) < 0.6 ? truth[i] : (int32_t)kmf_rng_below(&rng, 3);
    }
    for (uint64_t r = 0; r < DRAWINGS; r++) {
        kmf_rng draw = kmf_rng_stream(77, r);
        int right = 0;
        for (int i = 0; i < N; i++) {
            uint64_t j = kmf_rng_below(&draw, N);
            right += truth[j] == predicted[j];
        }
        accuracy[r] = right / (double)N;
    }
    qsort(accuracy, DRAWINGS, sizeof *accuracy, compare);
    for (int i = 0; i < 2; i++) { /* so that none can be taken for its neighbour */
        ck_assert_double_lt(accuracy[i], accuracy[i + 1]);
        ck_assert_double_lt(accuracy[DRAWINGS - 2 - i], accuracy[DRAWINGS - 1 - i]);
    }
    const kmf_scored scored = {truth, predicted, NULL, N, 3, 3};
    ck_assert_int_eq(kmf_score_intervals(got, &scored, DRAWINGS, 77, NULL, NULL), 0);
    ck_assert_double_eq_tol(got[KMF_ACCURACY].low, accuracy[1], TOLERANCE);
    ck_assert_double_eq_tol(got[KMF_ACCURACY].high, accuracy[DRAWINGS - 2], TOLERANCE);
    ck_assert(got[KMF_MCC].low < got[KMF_MCC].value && got[KMF_MCC].value < got[KMF_MCC].high);
    ck_assert(isnan(got[KMF_AUC].value));
    kmf_pool *pool = kmf_pool_new(3, NULL);
    ck_assert_ptr_nonnull(pool);
    ck_assert_int_eq(kmf_score_intervals(threaded, &scored, DRAWINGS, 77, pool, NULL), 0);
    ck_assert_int_eq(memcmp(got, threaded, 3 * sizeof *got), 0);
    kmf_pool_free(pool);
}
END_TEST

/* By pairs, of records drawn as often as `times` says; NaN without both sides. */
static double naive_auc(const kmf_scored *s, size_t c, const int *times)
{
    double pairs = 0;
    double right = 0;
    for (size_t i = 0; i < s->n; i++) {
        for (size_t j = 0; j < s->n; j++) {
            if (s->truth[i] != (int32_t)c || s->truth[j] == (int32_t)c)
                continue;
            double own = s->probabilities[i * s->n_classes + c];
            double other = s->probabilities[j * s->n_classes + c];
            pairs += times[i] * times[j];
            right += times[i] * times[j] * (own > other ? 1 : own < other ? 0 : 0.5);
        }
    }
    return pairs > 0 ? right / pairs : (double)NAN;
}

/* Probabilities of few values, so that most are tied, and a class that some drawings lack. */
START_TEST(the_auc_of_a_drawing_is_that_of_its_records)
{
    enum { FEW = 61, CLASSES = 4 };
    int32_t truth[FEW];
    double p[FEW * CLASSES];
    double aucs[DRAWINGS];
    kmf_interval got[KMF_N_SCORES];
    const kmf_scored scored = {truth, truth, p, FEW, CLASSES, CLASSES};
    kmf_rng rng = kmf_rng_stream(6, 6);
    for (size_t i = 0; i < FEW; i++) {
        truth[i] = i == 7 ? 3 : (int32_t)kmf_rng_below(&rng, 3);
        for (size_t c = 0; c < CLASSES; c++)
            p[i * CLASSES + c] = (double)(kmf_rng_below(&rng, 6) + (truth[i] == (int32_t)c));
    }
    bool lacks = false;
    for (uint64_t r = 0; r < DRAWINGS; r++) {
        kmf_rng draw = kmf_rng_stream(78, r);
        int times[FEW] = {0};
        double sum = 0;
        int n = 0;
        for (size_t i = 0; i < FEW; i++)
            times[kmf_rng_below(&draw, FEW)]++;
        for (size_t c = 0; c < CLASSES; c++) {
            double one = naive_auc(&scored, c, times);
            lacks = lacks || isnan(one);
            sum += isnan(one) ? 0 : one;
            n += !isnan(one);
        }
        aucs[r] = sum / n;
    }
    ck_assert(lacks);
    qsort(aucs, DRAWINGS, sizeof *aucs, compare);
    ck_assert_double_lt(aucs[0], aucs[1]);
    ck_assert_int_eq(kmf_score_intervals(got, &scored, DRAWINGS, 78, NULL, NULL), 0);
    ck_assert_double_eq_tol(got[KMF_AUC].low, aucs[1], TOLERANCE);
    ck_assert_double_eq_tol(got[KMF_AUC].high, aucs[DRAWINGS - 2], TOLERANCE);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("scores");
    tcase_add_test(tc, scores_are_those_of_scikit_learn);
    tcase_add_test(tc, clusters_are_scored_as_by_scikit_learn);
    tcase_add_test(tc, a_class_that_training_lacks_counts_as_a_mistake);
    tcase_add_test(tc, the_auc_of_two_classes_and_others_does_not_depend_on_their_order);
    tcase_add_test(tc, a_class_that_the_test_part_lacks_has_no_part_in_the_auc);
    tcase_add_test(tc, without_a_second_class_there_is_no_auc);
    tcase_add_test(tc, drawings_without_an_auc_are_left_out_of_its_interval);
    tcase_add_test(tc, intervals_are_percentiles_of_scores_of_drawn_records);
    tcase_add_test(tc, the_auc_of_a_drawing_is_that_of_its_records);
    return run_case("scores", tc);
}
