/* SPDX-License-Identifier: MIT */
#include "plot/survey.h"

#include "base/err.h"
#include "base/mem.h"
#include "seq/par.h"

#include <string.h>

#define BLOCK ((size_t)KMF_PCA_BLOCK)

typedef struct reading {
    const kmf_mapped_rows *rows;
    bool unit;
    uint64_t at;         /* first row of the block */
    float *x;            /* [BLOCK, dim] */
    unsigned char *good; /* [rows] */
} reading;

/* A kmf_item_fn: one row. */
static int read_row(void *arg, size_t i, int worker, kmf_err *err)
{
    const reading *r = arg;
    uint64_t row = r->at + i;
    (void)worker;
    (void)err;
    r->good[row] = kmf_mapped_rows_get(r->rows, row, r->unit, r->x + i * r->rows->dim);
    return 0;
}

/* Moves the good rows of a block of n to its begin; returns how many there are. */
static size_t close_up(const reading *r, size_t n)
{
    size_t kept = 0;
    size_t D = r->rows->dim;
    for (size_t i = 0; i < n; i++) {
        if (!r->good[r->at + i])
            continue;
        if (kept < i)
            memcpy(r->x + kept * D, r->x + i * D, D * sizeof *r->x);
        kept++;
    }
    return kept;
}

static int read_all(reading *r, const kmf_plot_rows *asked, kmf_survey_fn *fn, void *arg,
                    kmf_pool *pool, uint64_t *left_out, kmf_err *err)
{
    int status = 0;
    *left_out = 0;
    for (r->at = 0; r->at < r->rows->n && status == 0; r->at += BLOCK) {
        size_t n = r->rows->n - r->at < BLOCK ? (size_t)(r->rows->n - r->at) : BLOCK;
        status = kmf_pool_each(pool, n, read_row, r, err);
        size_t kept = close_up(r, n);
        *left_out += n - kept;
        if (status == 0 && fn && kept > 0)
            status = fn(arg, r->x, kept, pool, err);
        if (asked->fn)
            asked->fn(asked->user, r->at + n);
    }
    return status;
}

int kmf_survey(const kmf_mapped_rows *rows, kmf_picked *sample, const kmf_plot_rows *asked,
               bool unit, kmf_survey_fn *fn, void *arg, kmf_pool *pool, kmf_plot_report *report,
               kmf_err *err)
{
    reading r = {.rows = rows, .unit = unit};
    *sample = (kmf_picked){0};
    if (rows->n == 0)
        return kmf_fail(err, KMF_EMODEL, "%s: there are no vectors in it", rows->path);
    if (asked->most < 2)
        return kmf_fail(err, KMF_EINVAL, "%zu rows at most are no picture", asked->most);
    r.x = kmf_floats(BLOCK * rows->dim, err);
    r.good = kmf_malloc((size_t)rows->n, 1, err);
    int status = KMF_ENOMEM;
    if (r.x && r.good)
        status = read_all(&r, asked, fn, arg, pool, &report->left_out, err);
    if (status == 0)
        status = kmf_picked_take(sample, rows, r.good, asked->most, asked->labels, err);
    kmf_free(r.x);
    kmf_free(r.good);
    report->rows = rows->n;
    report->dim = rows->dim;
    report->drawn = sample->n;
    report->unlabelled = sample->unlabelled;
    report->n_labels = sample->n_labels;
    return status;
}
