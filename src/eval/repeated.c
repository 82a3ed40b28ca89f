/* SPDX-License-Identifier: MIT */
#include "eval/repeated.h"

#include "base/crc.h"
#include "base/mem.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct mark {
    uint32_t sum;
    size_t row;
} mark;

static int by_sum(const void *a, const void *b)
{
    const mark *x = a;
    const mark *y = b;
    return (x->sum > y->sum) - (x->sum < y->sum);
}

/* The first mark of this sum, or of a larger one. */
static size_t first_of(const mark *marks, size_t n, uint32_t sum)
{
    size_t beg = 0;
    while (beg < n) {
        size_t mid = beg + (n - beg) / 2;
        if (marks[mid].sum < sum)
            beg = mid + 1;
        else
            n = mid;
    }
    return beg;
}

static bool is_there(const mark *marks, size_t n, const float *x, const kmf_points *train,
                     size_t dim)
{
    size_t bytes = dim * sizeof *x;
    uint32_t sum = kmf_crc32(0, x, bytes);
    for (size_t i = first_of(marks, n, sum); i < n && marks[i].sum == sum; i++)
        if (memcmp(train->x + marks[i].row * dim, x, bytes) == 0)
            return true;
    return false;
}

int kmf_count_repeated(size_t *n, const kmf_points *test, const kmf_points *train, size_t dim,
                       kmf_err *err)
{
    *n = 0;
    mark *marks = kmf_malloc(train->n, sizeof *marks, err);
    if (!marks)
        return KMF_ENOMEM;
    for (size_t i = 0; i < train->n; i++)
        marks[i] = (mark){kmf_crc32(0, train->x + i * dim, dim * sizeof *train->x), i};
    qsort(marks, train->n, sizeof *marks, by_sum);
    for (size_t i = 0; i < test->n; i++) {
        const float *x = test->x + i * dim;
        *n += !isnan(x[0]) && is_there(marks, train->n, x, train, dim);
    }
    kmf_free(marks);
    return 0;
}
