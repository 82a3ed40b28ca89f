/* SPDX-License-Identifier: MIT */
/* Rows of labels, against classes that are sorted by the probabilities of kmf_probe_predict. */
#include "base/rng.h"
#include "eval/probe.h"
#include "run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIM 3
#define CLASSES 7
#define ROOM 2048

static const char *const labels[CLASSES] = {"c", "a longer name", "b", "a", "e", "d", "f"};

/* Classes 2 and 5 are as probable as each other, whatever the vector, and so are 0, 4 and 6. */
static kmf_probe *make_probe(void)
{
    static const int like[CLASSES] = {0, 1, 2, 3, 0, 2, 0};
    kmf_rng rng = kmf_rng_stream(3, 0);
    kmf_probe *p = kmf_probe_new(DIM, CLASSES, NULL);
    ck_assert_ptr_nonnull(p);
    for (int c = 0; c < CLASSES; c++) {
        for (int d = 0; d < DIM; d++)
            p->weights[c * DIM + d] = like[c] == c ? (float)kmf_rng_unit(&rng) * 4 - 2
                                                   : p->weights[like[c] * DIM + d];
        p->biases[c] = 0;
        p->shares[c] = 1.0f / CLASSES;
    }
    ck_assert_int_eq(kmf_probe_describe(p, labels, "{}", NULL), 0);
    return p;
}

static const double *sorted_by;

/* The most probable first, then as they are numbered. */
static int by_probability(const void *a, const void *b)
{
    int i = *(const int *)a;
    int j = *(const int *)b;
    if (sorted_by[i] > sorted_by[j] || sorted_by[i] < sorted_by[j])
        return sorted_by[i] > sorted_by[j] ? -1 : 1;
    return i - j;
}

static size_t expect(char *to, const kmf_probe *p, size_t top, int all, const float *x)
{
    double probabilities[CLASSES];
    int order[CLASSES] = {0, 1, 2, 3, 4, 5, 6};
    size_t n = 0;
    (void)kmf_probe_predict(p, probabilities, x);
    sorted_by = probabilities;
    qsort(order, CLASSES, sizeof *order, by_probability);
    for (size_t i = 0; i < top; i++)
        n += (size_t)sprintf(to + n, "\t%s\t%.6g", labels[order[i]], probabilities[order[i]]);
    for (int c = 0; all && c < CLASSES; c++)
        n += (size_t)sprintf(to + n, "\t%.6g", probabilities[c]);
    return n + (size_t)sprintf(to + n, "\n");
}

static void check_rows(const kmf_probe *p, size_t top, int all)
{
    char text[ROOM];
    char right[ROOM];
    double scratch_here[CLASSES];
    kmf_rng rng = kmf_rng_stream(5, top);
    kmf_label_rows *rows = kmf_label_rows_new(p, top, all, NULL);
    ck_assert_ptr_nonnull(rows);
    const kmf_row_format *f = kmf_label_rows_format(rows);
    ck_assert_uint_le(f->room, ROOM);
    ck_assert_uint_le(f->scratch_bytes, sizeof scratch_here);
    for (int i = 0; i < 200; i++) {
        float x[DIM];
        for (int d = 0; d < DIM; d++) /* the last ones leave no class but one a chance */
            x[d] = ((float)kmf_rng_unit(&rng) - 0.5f) * (i < 150 ? 3 : 300);
        size_t n = f->put(f->user, scratch_here, text, x, DIM);
        quick_assert_msg(n <= f->room && n == expect(right, p, top, all, x) &&
                             memcmp(text, right, n) == 0,
                         "%.*s is not %s", (int)n, text, right);
    }
    kmf_label_rows_free(rows);
}

START_TEST(a_row_has_the_most_probable_labels)
{
    kmf_probe *p = make_probe();
    for (size_t top = 1; top <= CLASSES; top++)
        check_rows(p, top, 0);
    check_rows(p, 1, 1);
    check_rows(p, CLASSES, 1);
    kmf_probe_free(p);
}
END_TEST

/* As many fields as any other row. */
START_TEST(a_record_without_a_vector_has_no_label)
{
    static const float none[][DIM] = {
        {NAN, NAN, NAN}, {1, NAN, 2}, {1, INFINITY, 2}, {-INFINITY, INFINITY, 0}};
    char text[ROOM];
    double scratch_here[CLASSES];
    kmf_probe *p = make_probe();
    kmf_label_rows *rows = kmf_label_rows_new(p, 2, 1, NULL);
    ck_assert_ptr_nonnull(rows);
    const kmf_row_format *f = kmf_label_rows_format(rows);
    for (int i = 0; i < 4; i++) {
        text[f->put(f->user, scratch_here, text, none[i], DIM)] = '\0';
        ck_assert_str_eq(text, "\tNA\tNA\tNA\tNA\tNA\tNA\tNA\tNA\tNA\tNA\tNA\n");
    }
    ck_assert_str_eq(f->header, "#name\tlabel\tprobability\tlabel2\tprobability2"
                                "\tc\ta longer name\tb\ta\te\td\tf\n");
    kmf_label_rows_free(rows);
    kmf_probe_free(p);
}
END_TEST

/* By what would give other rows: each of these has another name than all before it. */
START_TEST(rows_of_another_kind_have_another_name)
{
    static const char *const others[CLASSES] = {"c", "a longer name", "b", "a", "e", "d", "g"};
    char names[6][128];
    kmf_probe *p = make_probe();
    for (int i = 0; i < 6; i++) {
        if (i == 3)
            p->weights[DIM * CLASSES - 1] += 1;
        if (i == 4)
            p->biases[CLASSES - 1] += 1;
        if (i == 5)
            ck_assert_int_eq(kmf_probe_describe(p, others, "{}", NULL), 0);
        kmf_label_rows *rows = kmf_label_rows_new(p, i == 1 ? 2 : 1, i == 2, NULL);
        ck_assert_ptr_nonnull(rows);
        snprintf(names[i], sizeof names[i], "%s", kmf_label_rows_format(rows)->name);
        for (int j = 0; j < i; j++)
            ck_assert_str_ne(names[i], names[j]);
        kmf_label_rows_free(rows);
    }
    kmf_probe_free(p);
}
END_TEST

START_TEST(what_cannot_be_is_refused)
{
    kmf_probe *p = make_probe();
    for (size_t top = 0; top <= CLASSES + 1; top += CLASSES + 1) {
        kmf_err err = {0};
        ck_assert_ptr_null(kmf_label_rows_new(p, top, 0, &err));
        ck_assert_int_eq(err.code, KMF_EINVAL);
    }
    kmf_probe *bare = kmf_probe_new(DIM, CLASSES, NULL);
    ck_assert_ptr_nonnull(bare);
    kmf_err err = {0};
    ck_assert_ptr_null(kmf_label_rows_new(bare, 1, 0, &err));
    ck_assert_str_eq(err.msg, "the classes of the probe have no names");
    kmf_label_rows_free(NULL);
    kmf_probe_free(bare);
    kmf_probe_free(p);
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("label_rows");
    tcase_add_test(tcase, a_row_has_the_most_probable_labels);
    tcase_add_test(tcase, a_record_without_a_vector_has_no_label);
    tcase_add_test(tcase, rows_of_another_kind_have_another_name);
    tcase_add_test(tcase, what_cannot_be_is_refused);
    return run_case("label_rows", tcase);
}
