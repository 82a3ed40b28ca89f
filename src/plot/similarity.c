/* SPDX-License-Identifier: MIT */
/* The cosines of all pairs of rows, as numbers and as a heat map. */
#include "base/err.h"
#include "base/mem.h"
#include "base/path.h"
#include "nn/gemm.h"
#include "plot/draft.h"
#include "plot/survey.h"
#include "seq/par.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STRIP ((size_t)64)
#define TICS_MOST 40

/* ---------------------------------------------------------------- cosines --------------- */

typedef struct product {
    float *c;
    const float *unit; /* [n, dim], rows of length 1 */
    size_t n, dim;
} product;

/* A kmf_item_fn: some rows of c. */
static int multiply(void *arg, size_t strip, int worker, kmf_err *err)
{
    const product *p = arg;
    size_t beg = strip * STRIP;
    size_t rows = kmf_min(p->n - beg, STRIP);
    (void)worker;
    (void)err;
    kmf_gemm_inner(p->c + beg * p->n, p->n, p->unit + beg * p->dim, p->dim, p->unit, p->dim,
                   rows, p->n, p->dim, KMF_GEMM_TB);
    return 0;
}

/* What rounding leaves beyond 1, and of c_ij from c_ji. */
static void tidy(float *c, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        c[i * n + i] = 1;
        for (size_t j = i + 1; j < n; j++) {
            float x = c[i * n + j];
            x = x > 1 ? 1 : x < -1 ? -1 : x;
            c[i * n + j] = c[j * n + i] = x;
        }
    }
}

int kmf_cosines(float *c, const float *x, size_t n, size_t dim, kmf_pool *pool, kmf_err *err)
{
    size_t size;
    float *unit = kmf_mul(n, dim, &size) ? kmf_floats(size, err) : NULL;
    if (!unit)
        return kmf_fail(err, KMF_ENOMEM, "out of memory: %zu rows of %zu columns", n, dim);
    for (size_t i = 0; i < n; i++) {
        double squares = 0;
        for (size_t j = 0; j < dim; j++)
            squares += (double)x[i * dim + j] * (double)x[i * dim + j];
        for (size_t j = 0; j < dim; j++)
            unit[i * dim + j] = (float)((double)x[i * dim + j] / sqrt(squares));
    }
    product p = {c, unit, n, dim};
    int status = kmf_pool_each(pool, kmf_div_up(n, STRIP), multiply, &p, err);
    if (status == 0)
        tidy(c, n);
    kmf_free(unit);
    return status;
}

/* ---------------------------------------------------------------- the picture ----------- */

typedef struct heat {
    const kmf_mapped_rows *rows;
    const kmf_picked *sample;
    const kmf_drawn *order; /* [n], by label, then row; those without a label last */
    const float *cosines;   /* [n, n], in this order */
    const kmf_plot_report *report;
} heat;

static int by_label(const void *a, const void *b)
{
    const kmf_drawn *one = a;
    const kmf_drawn *other = b;
    uint32_t x = (uint32_t)one->label; /* -1 is the greatest */
    uint32_t y = (uint32_t)other->label;
    return x != y ? (x > y) - (x < y) : (one->row > other->row) - (one->row < other->row);
}

static const char *label_of(const heat *h, size_t i)
{
    int32_t label = h->order[i].label;
    return label >= 0 ? h->sample->labels[label] : "NA";
}

static void write_data(const heat *h, FILE *to)
{
    size_t n = h->sample->n;
    kmf_draft_remark(to, "vectors", h->rows->path);
    fprintf(to,
            "# rows: %" PRIu64 " of %zu columns; left out %" PRIu64 ", drawn %zu\n"
            "# cosines, in this order of rows:\n"
            "#row\tname\tlength\tlabel\n",
            h->report->rows, h->report->dim, h->report->left_out, n);
    for (size_t i = 0; i < n; i++) {
        const kmf_drawn *d = &h->order[i];
        fprintf(to, "#%" PRIu64 "\t%s\t%" PRIu64 "\t%s\n", d->row, d->name ? d->name : "NA",
                d->length, label_of(h, i));
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            fprintf(to, "%.6f%c", (double)h->cosines[i * n + j], j + 1 < n ? '\t' : '\n');
}

/* A tic on both axes; *letters becomes the most that a tic has. */
static void write_tic(FILE *to, const char *text, double at, size_t *letters)
{
    *letters = kmf_max(*letters, kmf_draft_letters(text, KMF_DRAFT_TEXT_MOST / 2));
    static const char *const axes[] = {"x", "y"};
    for (int i = 0; i < 2; i++) {
        fprintf(to, "set %stics add (", axes[i]);
        kmf_draft_quote_tic(to, text, KMF_DRAFT_TEXT_MOST / 2);
        fprintf(to, " %.17g)\n", at);
    }
}

static void write_border(FILE *to, size_t at)
{
    fprintf(to,
            "set arrow from first %zu - 0.5, graph 0 to first %zu - 0.5, graph 1 nohead front "
            "linewidth 1 linecolor rgb '#ffffff'\n"
            "set arrow from graph 0, first %zu - 0.5 to graph 1, first %zu - 0.5 nohead front "
            "linewidth 1 linecolor rgb '#ffffff'\n",
            at, at, at, at);
}

/* Can all labels be named at the axes, with that of rows that have none? */
static bool labels_fit(const kmf_picked *sample)
{
    return sample->n_labels + (sample->unlabelled > 0) <= TICS_MOST;
}

/*
 * Room for the texts, the longest of which has so many letters, and a square in the rest: what
 * gnuplot finds by itself is none once texts at an axis are turned.
 */
static void write_margins(FILE *to, size_t letters, int turned)
{
    double steep = turned == 90 ? 1 : 0.75;
    fprintf(to,
            "left = letter * %zu\nbottom = letter * %.1f\n"
            "side = (width - left - letter * 10) / 1.08\n"
            "if (side > height - bottom - letter * 2) side = height - bottom - letter * 2\n"
            "set lmargin at screen left / width\n"
            "set rmargin at screen (left + side) / width\n"
            "set bmargin at screen bottom / height\n"
            "set tmargin at screen (bottom + side) / height\n",
            letters + 2, turned ? steep * (double)letters + 2 : 7);
}

/* Borders between labels; labels at the middle of their rows if the rows are not named. */
static void write_labels(const heat *h, FILE *to, bool named, size_t *letters)
{
    size_t n = h->sample->n;
    for (size_t beg = 0, end; beg < n; beg = end) {
        end = beg + 1;
        while (end < n && h->order[end].label == h->order[beg].label)
            end++;
        if (beg > 0)
            write_border(to, beg);
        if (!named && labels_fit(h->sample))
            write_tic(to, h->order[beg].label < 0 ? "unlabelled" : label_of(h, beg),
                      0.5 * (double)(beg + end - 1), letters);
    }
}

static void write_script(const heat *h, const char *path, FILE *to)
{
    size_t n = h->sample->n;
    bool named = h->sample->named && n <= TICS_MOST;
    bool labelled = h->sample->n_labels > 0;
    int turned = named && n > TICS_MOST / 4 ? 90 : named || labelled ? 45 : 0;
    size_t letters = turned ? 0 : 8; /* of numbers, and of what they are */
    fprintf(to,
            "set border 15\nunset key\n"
            "set xrange [-0.5:%zu.5]\nset yrange [%zu.5:-0.5]\n"
            "set cblabel 'cosine'\nset colorbox noborder\n",
            n - 1, n - 1);
    kmf_draft_palette(to);
    if (turned)
        fprintf(to, "set xtics rotate by %d right scale 0 ()\nset ytics scale 0 ()\n", turned);
    else
        fprintf(to, "set xlabel 'row drawn'\nset ylabel 'row drawn'\n");
    for (size_t i = 0; named && i < n; i++)
        write_tic(to, h->order[i].name, (double)i, &letters);
    if (labelled)
        write_labels(h, to, named, &letters);
    write_margins(to, letters, turned);
    /* Who shows an SVG may blur a picture in it, so few cells are rectangles. */
    bool sharp = n <= TICS_MOST && kmf_ends_with(path, ".svg");
    fprintf(to, "plot data matrix with image%s\n", sharp ? " pixels" : "");
}

static int draw(const kmf_picture *picture, const heat *h, kmf_err *err)
{
    kmf_draft draft;
    int status = kmf_draft_begin(&draft, picture, "similarity", 780, 680, err);
    if (status == 0) {
        write_data(h, draft.data);
        write_script(h, picture->path, draft.script);
        status = kmf_draft_finish(&draft, err);
    }
    kmf_draft_free(&draft);
    return status;
}

static int compare(const kmf_picture *picture, heat *h, kmf_pool *pool, kmf_err *err)
{
    size_t n = h->sample->n;
    size_t dim = h->rows->dim;
    size_t x_size = 0, c_size = 0;
    bool fits = kmf_mul(n, dim, &x_size) && kmf_mul(n, n, &c_size);
    float *x = fits ? kmf_floats(x_size, err) : NULL;
    float *c = fits ? kmf_floats(c_size, err) : NULL;
    int status = KMF_ENOMEM;
    if (!x || !c) {
        kmf_fail(err, KMF_ENOMEM, "out of memory: the cosines of %zu rows", n);
        goto out;
    }
    status = 0;
    for (size_t i = 0; i < n && status == 0; i++)
        if (!kmf_mapped_rows_get(h->rows, h->order[i].row, true, x + i * dim))
            status = kmf_fail(err, KMF_EIO, "%s: it changes while it is read", h->rows->path);
    if (status == 0)
        status = kmf_cosines(c, x, n, dim, pool, err);
    h->cosines = c;
    if (status == 0)
        status = draw(picture, h, err);
out:
    kmf_free(x);
    kmf_free(c);
    return status;
}

int kmf_plot_similarity(const kmf_picture *picture, const kmf_plot_rows *asked,
                        kmf_plot_report *report, kmf_err *err)
{
    kmf_mapped_rows rows;
    kmf_picked sample = {0};
    kmf_pool *pool = NULL;
    err = kmf_err_or(err, &(kmf_err){0});
    *report = (kmf_plot_report){0};
    int status = kmf_mapped_rows_open(&rows, asked->vectors, err);
    if (status == 0)
        status = kmf_helpers_new(&pool, asked->threads, err);
    if (status == 0)
        status = kmf_survey(&rows, &sample, asked, true, NULL, NULL, pool, report, err);
    if (status == 0 && sample.n < 2)
        status = kmf_fail(err, KMF_EMODEL,
                          "%s: there is one vector to draw: nothing to compare", rows.path);
    if (status == 0) {
        if (sample.n_labels > 0)
            qsort(sample.drawn, sample.n, sizeof *sample.drawn, by_label);
        heat h = {.rows = &rows, .sample = &sample, .order = sample.drawn, .report = report};
        report->n_legend = labels_fit(&sample) ? sample.n_labels : 0;
        status = compare(picture, &h, pool, err);
    }
    kmf_pool_free(pool);
    kmf_picked_free(&sample);
    kmf_mapped_rows_close(&rows);
    return status;
}
