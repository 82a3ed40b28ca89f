/* SPDX-License-Identifier: MIT */
/* Golden numbers between blanks: tests/golden/eval.txt, as scripts/golden_eval.py has it. */
#ifndef KMF_TEST_NUMBERS_H
#define KMF_TEST_NUMBERS_H

#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline FILE *golden_open(void)
{
    FILE *f = fopen("tests/golden/eval.txt", "r");
    ck_assert_msg(f != NULL, "tests/golden/eval.txt cannot be opened");
    return f;
}

/* Goes on to the next case of a kind; 0: there is none. */
static inline int golden_next(FILE *f, const char *kind)
{
    char word[64];
    while (fscanf(f, "%63s", word) == 1)
        if (strcmp(word, kind) == 0)
            return 1;
    return 0;
}

static inline double golden_number(FILE *f)
{
    double value = 0;
    ck_assert_int_eq(fscanf(f, "%lf", &value), 1);
    return value;
}

/* Freed by free. */
static inline double *golden_numbers(FILE *f, size_t n)
{
    double *values = calloc(n, sizeof *values);
    ck_assert_ptr_nonnull(values);
    for (size_t i = 0; i < n; i++)
        values[i] = golden_number(f);
    return values;
}

static inline int32_t *golden_classes(FILE *f, size_t n)
{
    int32_t *values = calloc(n, sizeof *values);
    ck_assert_ptr_nonnull(values);
    for (size_t i = 0; i < n; i++)
        values[i] = (int32_t)golden_number(f);
    return values;
}

#endif
