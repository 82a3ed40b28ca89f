/* SPDX-License-Identifier: MIT */
/*
 * A map of vectors: each row where it lies along two principal components. All rows make the
 * components, those of the sample are drawn. What a neighbour embedding (t-SNE, UMAP) would show
 * beside it, clusters, it shows at the price of distances; this map is linear, and its axes say
 * how much of the variance they hold.
 */
#include "base/err.h"
#include "base/mem.h"
#include "plot/draft.h"
#include "plot/survey.h"

#include <inttypes.h>
#include <math.h>

const char *const kmf_plot_colour_names[] = {"label", "length", NULL};

#define LEGEND_MOST 40
#define LINE_PIXELS 23 /* of the legend */

typedef struct map {
    const kmf_picture *picture;
    const int *components;
    kmf_plot_colour colour;
    const kmf_mapped_rows *rows;
    const kmf_picked *sample;
    const kmf_pca *pca;
    bool unit;
    const kmf_plot_report *report;
} map;

static int add_block(void *pca, const float *x, size_t n, kmf_pool *pool, kmf_err *err)
{
    return kmf_pca_add(pca, x, n, pool, err);
}

/* ---------------------------------------------------------------- numbers --------------- */

static int write_points(const map *m, FILE *to, kmf_err *err)
{
    const kmf_picked *s = m->sample;
    int most = m->components[0] > m->components[1] ? m->components[0] : m->components[1];
    float *x = kmf_floats(m->rows->dim, err);
    double *y = kmf_malloc((size_t)most, sizeof *y, err);
    int status = x && y ? 0 : KMF_ENOMEM;
    for (size_t i = 0; status == 0 && i < s->n; i++) {
        const kmf_drawn *d = &s->drawn[i];
        bool good = kmf_mapped_rows_get(m->rows, d->row, m->unit, x);
        if (!good) {
            status = kmf_fail(err, KMF_EIO, "%s: it changes while it is read", m->rows->path);
            break;
        }
        kmf_pca_project(m->pca, y, x);
        fprintf(to, "%.8g\t%.8g\t%" PRId32 "\t", y[m->components[0] - 1],
                y[m->components[1] - 1], d->label);
        if (s->named)
            fprintf(to, "%" PRIu64 "\t%" PRIu64 "\t%s", d->length, d->row, d->name);
        else
            fprintf(to, "NA\t%" PRIu64 "\tNA", d->row);
        fprintf(to, "\t%s\n", d->label >= 0 ? s->labels[d->label] : "NA");
    }
    kmf_free(x);
    kmf_free(y);
    return status;
}

static int write_data(const map *m, FILE *to, kmf_err *err)
{
    const kmf_plot_report *r = m->report;
    kmf_draft_remark(to, "vectors", m->rows->path);
    fprintf(to,
            "# rows: %" PRIu64 " of %zu columns%s; left out %" PRIu64 ", drawn %zu\n"
            "# explained variance: component %d %.6g, component %d %.6g\n"
            "#component%d\tcomponent%d\tgroup\tlength\trow\tname\tlabel\n",
            r->rows, r->dim, m->unit ? ", scaled to length 1" : "", r->left_out, r->drawn,
            m->components[0], r->explained[0], m->components[1], r->explained[1],
            m->components[0], m->components[1]);
    return write_points(m, to, err);
}

/* ---------------------------------------------------------------- the script ------------ */

static double point_size(size_t n)
{
    return n <= 500 ? 0.8 : n <= 3000 ? 0.5 : 0.3;
}

/* 1, 2, 5, 10, 20, .. */
static double round_number(int i)
{
    static const int digits[] = {1, 2, 5};
    int power = i / 3;
    return digits[i % 3] * pow(10, power);
}

/* The bar's tics: both ends, and round numbers that stand apart from these and each other. */
static void write_lengths(FILE *to, double least, double most, bool logarithmic)
{
    static const char *const names[] = {"bases", "kb", "Mb", "Gb"};
    double unit;
    const char *name = names[kmf_draft_thousands(most, &unit)];
    double apart = (logarithmic ? log(most / least) : most - least) / 12;
    double before = least;
    int i = 0;
    while (!logarithmic && round_number(i) < apart)
        i++;
    double step = round_number(i);
    fprintf(
        to,
        "set label 'length (%s)' at screen 1 - letter * 1.5 / width, graph 0.5 center rotate\n"
        "set cbtics ('%.5g' %.17g",
        name, least / unit, least);
    for (i = 0;; i++) {
        double at = logarithmic ? round_number(i) : step * (floor(least / step) + i);
        if (at >= most)
            break;
        double behind = logarithmic ? log(at / before) : at - before;
        double ahead = logarithmic ? log(most / at) : most - at;
        if (behind >= apart && ahead >= apart) {
            fprintf(to, ", '%.5g' %.17g", at / unit, at);
            before = at;
        }
    }
    fprintf(to, ", '%.5g' %.17g)\n", most / unit, most);
}

static void colour_by_length(const map *m, FILE *to)
{
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;
    for (size_t i = 0; i < m->sample->n; i++) {
        uint64_t length = m->sample->drawn[i].length;
        least = length < least ? length : least;
        most = length > most ? length : most;
    }
    kmf_draft_palette(to);
    /* A range of one length, or of 0, has no logarithmic scale. */
    bool logarithmic = least > 0 && most / least >= 10;
    if (logarithmic)
        fprintf(to, "set logscale cb\n");
    fprintf(to, "set cbrange [%.17g:%.17g]\n", (double)least, (double)most + (most == least));
    write_lengths(to, (double)least, (double)most + (most == least), logarithmic);
    fprintf(to,
            "set border 3\nset colorbox noborder\n"
            "set rmargin at screen 0.93 - letter * 10 / width\n"
            "plot data using 1:2:4 with points pointtype 7 pointsize size linecolor palette "
            "notitle\n");
}

/* Points of all labels in the order of the rows, so that none lies on top for its name. */
static void colour_by_label(const map *m, FILE *to)
{
    const kmf_picked *s = m->sample;
    size_t shown = m->report->n_legend;
    size_t more = s->n_labels - shown;
    kmf_draft_colours(to);
    fprintf(to, "array label[%zu]\n", shown);
    for (size_t i = 0; i < shown; i++) {
        fprintf(to, "label[%zu] = ", i + 1);
        kmf_draft_quote(to, s->labels[i], KMF_DRAFT_TEXT_MOST);
        fputc('\n', to);
    }
    fputs("plot \\\n", to);
    if (s->unlabelled > 0)
        fputs("    data using ($3 < 0 ? $1 : NaN):2 with points pointtype 7 pointsize size "
              "linecolor rgb alpha + colour(-1) notitle, \\\n",
              to);
    fprintf(to,
            "    data using ($3 < 0 ? NaN : $1):2:(shape($3)):(alpha + colour($3)) with points "
            "pointtype variable pointsize size linecolor rgb variable notitle, \\\n"
            "    for [i = 1:%zu] NaN with points pointtype shape(i - 1) pointsize 1 linecolor "
            "rgb colour(i - 1) title label[i]",
            shown);
    if (s->unlabelled > 0)
        fputs(
            ", \\\n    NaN with points pointtype 7 pointsize 1 linecolor rgb colour(-1) title "
            "'unlabelled'",
            to);
    if (more > 0)
        fprintf(to, ", \\\n    NaN with dots linecolor rgb 0xffffff title 'and %zu more'",
                more);
    fputc('\n', to);
}

static void write_script(const map *m, FILE *to)
{
    const kmf_plot_report *r = m->report;
    static const char *const axes[] = {"x", "y"};
    for (int i = 0; i < 2; i++)
        fprintf(to, "set %slabel 'principal component %d (%.1f %% of the variance)'\n", axes[i],
                m->components[i], 100 * r->explained[i]);
    fprintf(to, "size = %.1f\nalpha = 0x%d0000000\n", point_size(r->drawn),
            r->drawn <= 3000 ? 4 : 9);
    fputs("set autoscale fix\nset offsets graph 0.03, graph 0.03, graph 0.03, graph 0.03\n",
          to);
    if (r->n_legend == 0)
        fputs("unset key\n", to);
    if (m->colour == KMF_PLOT_LENGTH)
        colour_by_length(m, to);
    else if (m->sample->n_labels > 0)
        colour_by_label(m, to);
    else
        fputs(
            "plot data using 1:2 with points pointtype 7 pointsize size linecolor rgb alpha + "
            "0x332288 notitle\n",
            to);
}

/* ---------------------------------------------------------------- the picture ----------- */

static int draw(map *m, kmf_err *err)
{
    kmf_draft draft;
    int lines = (int)m->report->n_legend + 3;
    int width = lines > 3 ? 900 : 760;
    int height = lines > 600 / LINE_PIXELS ? LINE_PIXELS * lines : 600;
    int status = kmf_draft_begin(&draft, m->picture, "map", width, height, err);
    if (status == 0)
        status = write_data(m, draft.data, err);
    if (status == 0) {
        write_script(m, draft.script);
        status = kmf_draft_finish(&draft, err);
    }
    kmf_draft_free(&draft);
    return status;
}

static int finish(map *m, kmf_pca *pca, kmf_plot_report *report, kmf_err *err)
{
    const int *c = m->components;
    if (m->colour == KMF_PLOT_LENGTH && !m->sample->named)
        return kmf_fail(err, KMF_EMODEL, "%s: the .ids.tsv with the lengths is not beside it",
                        m->rows->path);
    int status = kmf_pca_finish(pca, (size_t)(c[0] > c[1] ? c[0] : c[1]), err);
    if (status < 0)
        return status;
    for (int i = 0; i < 2; i++)
        report->explained[i] = kmf_pca_variance(pca, (size_t)c[i] - 1) / kmf_pca_total(pca);
    bool by_label = m->colour == KMF_PLOT_LABEL;
    report->n_legend = !by_label ? 0 : kmf_min(report->n_labels, LEGEND_MOST);
    m->pca = pca;
    m->report = report;
    return draw(m, err);
}

int kmf_plot_map(const kmf_picture *picture, const kmf_plot_rows *asked,
                 const int components[2], int l2, kmf_plot_colour colour,
                 kmf_plot_report *report, kmf_err *err)
{
    kmf_mapped_rows rows;
    kmf_picked sample = {0};
    kmf_pca *pca = NULL;
    kmf_pool *pool = NULL;
    err = kmf_err_or(err, &(kmf_err){0});
    *report = (kmf_plot_report){0};
    if (colour < KMF_PLOT_LABEL || colour > KMF_PLOT_LENGTH)
        return kmf_fail(err, KMF_EINVAL, "colour: there is no number %d", (int)colour);
    int status = kmf_mapped_rows_open(&rows, asked->vectors, err);
    if (status == 0 && components[0] == components[1])
        status = kmf_fail(err, KMF_EINVAL, "component %d twice: the axes of a map are two",
                          components[0]);
    for (int i = 0; i < 2 && status == 0; i++)
        if (components[i] < 1 || (size_t)components[i] > rows.dim)
            status =
                kmf_fail(err, KMF_EINVAL, "component %d: the vectors of %s have %zu columns",
                         components[i], rows.path, rows.dim);
    if (status < 0)
        goto out;
    pca = kmf_pca_new(rows.dim, err);
    status = pca ? kmf_helpers_new(&pool, asked->threads, err) : KMF_ENOMEM;
    if (status < 0)
        goto out;
    map m = {.picture = picture,
             .components = components,
             .colour = colour,
             .rows = &rows,
             .sample = &sample,
             .unit = l2 != 0};
    status = kmf_survey(&rows, &sample, asked, l2 != 0, add_block, pca, pool, report, err);
    if (status == 0)
        status = finish(&m, pca, report, err);
out:
    kmf_pool_free(pool);
    kmf_pca_free(pca);
    kmf_picked_free(&sample);
    kmf_mapped_rows_close(&rows);
    return status;
}
