/* SPDX-License-Identifier: MIT */
/*
 * Curves of trainings, from the metrics.tsv that each keeps. Columns are found by their names in
 * the header, so that files with more or other columns are read as well; numbers are copied as
 * text.
 */
#include "base/err.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/point.h"
#include "plot/draft.h"

#include <math.h>
#include <string.h>
#include <sys/stat.h>

#define METRICS_BYTES_MAX ((size_t)1 << 30)
#define COLUMNS_MAX 64
#define CURVES_MAX 8

const char *const kmf_plot_x_names[] = {"step", "tokens", "time", NULL};

static const char *const x_columns[] = {"step", "tokens", "seconds"};

typedef struct run {
    const char *dir; /* borrowed */
    char *path;      /* owned */
    char *text;      /* owned; cut into fields */
    char *header[COLUMNS_MAX];
    size_t n_columns;
    char **fields; /* owned [n_lines, n_columns], borrowed from text */
    size_t n_lines;
} run;

typedef struct curves {
    run *runs; /* owned [n] */
    size_t n;
    char *names; /* owned: the columns asked for, cut */
    const char *column[CURVES_MAX];
    size_t n_columns;
    kmf_plot_x x;
} curves;

/* ---------------------------------------------------------------- reading --------------- */

/* DIR/metrics.tsv, or the file itself. */
static char *metrics_path(const char *dir, kmf_err *err)
{
    struct stat s;
    if (stat(dir, &s) == 0 && !S_ISDIR(s.st_mode))
        return kmf_strdup(dir, err);
    return kmf_strprintf(err, "%s/metrics.tsv", dir);
}

/* Cuts a line at its tabs; how many fields there are, of which `most` are kept. */
static size_t cut(char *line, char **fields, size_t most)
{
    size_t n = 0;
    for (char *next; line; line = next, n++) {
        next = strchr(line, '\t');
        if (next)
            *next++ = '\0';
        if (n < most)
            fields[n] = line;
    }
    return n;
}

static bool is_number(const char *text)
{
    char *end;
    double x = kmf_read_double(text, &end);
    return end > text && *end == '\0' && isfinite(x);
}

static int read_lines(run *r, char *p, kmf_err *err)
{
    size_t cap = 0;
    for (size_t line = 2; *p; line++) {
        char *next = p + strcspn(p, "\n");
        if (*next == '\0')
            return 0; /* it is being written */
        *next++ = '\0';
        if (kmf_grow(&r->fields, &cap, (r->n_lines + 1) * r->n_columns, sizeof *r->fields,
                     err) < 0)
            return KMF_ENOMEM;
        char **fields = r->fields + r->n_lines * r->n_columns;
        size_t n = cut(p, fields, r->n_columns);
        if (n != r->n_columns)
            return kmf_fail(err, KMF_EMODEL, "%s: line %zu has %zu columns, the header %zu",
                            r->path, line, n, r->n_columns);
        r->n_lines++;
        p = next;
    }
    return 0;
}

static int read_run(run *r, const char *dir, kmf_err *err)
{
    size_t len;
    r->dir = dir;
    r->path = metrics_path(dir, err);
    if (!r->path)
        return KMF_ENOMEM;
    r->text = kmf_file_read(r->path, METRICS_BYTES_MAX, &len, err);
    if (!r->text)
        return KMF_EIO;
    char *end = strchr(r->text, '\n');
    if (!end || !strchr(r->text, '\t') || strlen(r->text) != len)
        return kmf_fail(err, KMF_EMODEL, "%s: not a table of metrics as pretrain writes it",
                        r->path);
    *end = '\0';
    r->n_columns = cut(r->text, r->header, COLUMNS_MAX);
    if (r->n_columns > COLUMNS_MAX)
        return kmf_fail(err, KMF_EMODEL, "%s: more than %d columns", r->path, COLUMNS_MAX);
    return read_lines(r, end + 1, err);
}

/* The place of a column; -1: there is none. */
static int find(const run *r, const char *name)
{
    for (size_t i = 0; i < r->n_columns; i++)
        if (strcmp(r->header[i], name) == 0)
            return (int)i;
    return -1;
}

/* How many numbers are in a column, if it is there; the last of them in *last, if not NULL. */
static size_t count_numbers(const run *r, const char *name, const char **last)
{
    int column = find(r, name);
    size_t n = 0;
    for (size_t i = 0; column >= 0 && i < r->n_lines; i++) {
        const char *field = r->fields[i * r->n_columns + (size_t)column];
        if (is_number(field)) {
            n++;
            if (last)
                *last = field;
        }
    }
    return n;
}

static bool in_all(const curves *c, const char *name)
{
    for (size_t i = 0; i < c->n; i++)
        if (find(&c->runs[i], name) < 0)
            return false;
    return true;
}

/* Has every run numbers in it? One of pairs alone has a column of bits, but none in it. */
static bool known_in_all(const curves *c, const char *name)
{
    for (size_t i = 0; i < c->n; i++)
        if (count_numbers(&c->runs[i], name, NULL) == 0)
            return false;
    return true;
}

static int choose_columns(curves *c, const char *asked, kmf_err *err)
{
    static const char *const usual[][2] = {
        {"bits", "val_bits"}, {"contrast", "val_contrast"}, {"loss", "val_loss"}};
    if (asked) {
        c->names = kmf_strdup(asked, err);
        if (!c->names)
            return KMF_ENOMEM;
        for (char *next, *p = c->names; p; p = next) {
            next = strchr(p, ',');
            if (next)
                *next++ = '\0';
            if (c->n_columns == CURVES_MAX)
                return kmf_fail(err, KMF_EINVAL, "%d columns are the most that are drawn",
                                CURVES_MAX);
            c->column[c->n_columns++] = p;
        }
        return 0;
    }
    for (size_t i = 0; i < sizeof usual / sizeof usual[0] && c->n_columns == 0; i++)
        for (size_t j = 0; j < 2 && known_in_all(c, usual[i][0]); j++)
            if (in_all(c, usual[i][j]))
                c->column[c->n_columns++] = usual[i][j];
    return c->n_columns > 0 ? 0
                            : kmf_fail(err, KMF_EMODEL,
                                       "%s: no column 'bits', 'contrast' or 'loss' has numbers "
                                       "in every run: name the columns",
                                       c->runs[0].path);
}

/* Is every column there, and does each curve of a validation, which may come later, have points? */
static int check_columns(const curves *c, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    for (size_t i = 0; i < c->n; i++) {
        const run *r = &c->runs[i];
        size_t points = 0;
        if (find(r, x_columns[c->x]) < 0)
            return kmf_fail(err, KMF_EMODEL, "%s: it has no column '%s'", r->path,
                            x_columns[c->x]);
        for (size_t j = 0; j < c->n_columns; j++) {
            if (find(r, c->column[j]) < 0)
                return kmf_fail(err, KMF_EMODEL, "%s: it has no column '%s'", r->path,
                                kmf_err_show(shown, c->column[j]));
            points += count_numbers(r, c->column[j], NULL);
        }
        if (points == 0 || count_numbers(r, x_columns[c->x], NULL) != r->n_lines)
            return kmf_fail(err, KMF_EMODEL, "%s: there are no numbers to draw in it", r->path);
    }
    return 0;
}

/* ---------------------------------------------------------------- writing --------------- */

static void write_data(const curves *c, FILE *to)
{
    for (size_t i = 0; i < c->n; i++) {
        const run *r = &c->runs[i];
        fputs(i > 0 ? "\n\n" : "", to);
        kmf_draft_remark(to, "run", r->dir);
        fprintf(to, "#%s", x_columns[c->x]);
        for (size_t j = 0; j < c->n_columns; j++)
            fprintf(to, "\t%s", c->column[j]);
        fputc('\n', to);
        for (size_t line = 0; line < r->n_lines; line++) {
            char *const *fields = r->fields + line * r->n_columns;
            fputs(fields[find(r, x_columns[c->x])], to);
            for (size_t j = 0; j < c->n_columns; j++) {
                const char *y = fields[find(r, c->column[j])];
                fprintf(to, "\t%s", is_number(y) ? y : "NA");
            }
            fputc('\n', to);
        }
    }
}

static bool ends_as(const curves *c, const char *end)
{
    for (size_t j = 0; j < c->n_columns; j++)
        if (strcmp(c->column[j], end) != 0 &&
            (strncmp(c->column[j], "val_", 4) != 0 || strcmp(c->column[j] + 4, end) != 0))
            return false;
    return true;
}

/* How far the longest run goes. */
static double largest_x(const curves *c)
{
    double largest = 0;
    for (size_t i = 0; i < c->n; i++) {
        const char *last = "0";
        count_numbers(&c->runs[i], x_columns[c->x], &last);
        largest = fmax(largest, kmf_read_double(last, NULL));
    }
    return largest;
}

static void write_axes(const curves *c, FILE *to, double *unit)
{
    static const char *const thousands[] = {"", " (thousands)", " (millions)", " (10^9)"};
    double largest = largest_x(c);
    if (c->x == KMF_PLOT_TIME) {
        *unit = largest >= 7200 ? 3600 : largest >= 120 ? 60 : 1;
        fprintf(to, "set xlabel 'time (%s)'\n",
                largest >= 7200  ? "hours"
                : largest >= 120 ? "minutes"
                                 : "seconds");
    } else {
        const char *what = c->x == KMF_PLOT_STEP ? "step" : "tokens";
        fprintf(to, "set xlabel '%s%s'\n", what, thousands[kmf_draft_thousands(largest, unit)]);
    }
    if (ends_as(c, "bits"))
        fputs("set ylabel 'bits a masked base'\n", to);
    else if (ends_as(c, "loss"))
        fputs("set ylabel 'loss (nats a k-mer)'\n", to);
    fputs("set grid ytics linecolor rgb '#dddddd' linetype 1\nset xrange [0:*]\n", to);
}

/* "bits" of a run is its training, "val_bits" its validation; other names stand for themselves. */
static void write_title(const curves *c, FILE *to, size_t i, size_t j)
{
    static const char *const words[][2] = {{"bits", "training"},
                                           {"loss", "training"},
                                           {"val_bits", "validation"},
                                           {"val_loss", "validation"}};
    const char *word = c->column[j];
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++)
        if (strcmp(word, words[k][0]) == 0 && (ends_as(c, "bits") || ends_as(c, "loss")))
            word = words[k][1];
    if (c->n > 1) {
        kmf_draft_quote(to, c->runs[i].dir, KMF_DRAFT_TEXT_MOST);
        fputs(" . ', ' . ", to);
    }
    kmf_draft_quote(to, word, KMF_DRAFT_TEXT_MOST);
}

/* Validation has points; the training itself, which goes up and down at every step, is fainter. */
static const char *style_of(const run *r, const char *column)
{
    size_t n = count_numbers(r, column, NULL);
    return strncmp(column, "val_", 4) == 0 || n == 1
               ? "linespoints pointtype 7 pointsize 0.5 linewidth 2 linecolor rgb"
               : "lines linewidth 1 linecolor rgb 0x60000000 +";
}

/* What the Markov model of run i takes, as text; NULL: it does not say. */
static const char *markov_of(const curves *c, size_t i)
{
    const char *bits = NULL;
    count_numbers(&c->runs[i], "markov_bits", &bits);
    return bits;
}

/* One line where all runs that know it say the same, as those of the same data do. */
static void write_markov(const curves *c, FILE *to)
{
    const char *first = NULL;
    bool same = true;
    for (size_t i = 0; i < c->n; i++) {
        const char *bits = markov_of(c, i);
        same = same && (!bits || !first || strcmp(bits, first) == 0);
        first = first ? first : bits;
    }
    for (size_t i = 0; i < c->n && first; i++) {
        const char *bits = same ? first : markov_of(c, i);
        if (!bits)
            continue;
        fprintf(to, ", \\\n    %s with lines dashtype 2 linewidth 1.5 linecolor rgb ", bits);
        if (same) {
            fputs("0x555555 title 'Markov model'", to);
            break;
        }
        fprintf(to, "colour(%zu) title ", i);
        kmf_draft_quote(to, c->runs[i].dir, KMF_DRAFT_TEXT_MOST);
        fputs(" . ', Markov model'", to);
    }
}

static void write_script(const curves *c, FILE *to)
{
    const char *comma = "";
    double unit;
    write_axes(c, to, &unit);
    kmf_draft_colours(to);
    fputs("plot \\\n", to);
    for (size_t i = 0; i < c->n; i++)
        for (size_t j = 0; j < c->n_columns; j++) {
            if (count_numbers(&c->runs[i], c->column[j], NULL) == 0)
                continue; /* no validation yet */
            fprintf(to, "%s    data index %zu using ($1 / %g):%zu with %s colour(%zu) title ",
                    comma, i, unit, j + 2, style_of(&c->runs[i], c->column[j]),
                    c->n > 1 ? i : j);
            write_title(c, to, i, j);
            comma = ", \\\n";
        }
    if (ends_as(c, "bits"))
        write_markov(c, to);
    fputc('\n', to);
}

static int draw(const kmf_picture *picture, const curves *c, kmf_err *err)
{
    kmf_draft draft;
    int status = kmf_draft_begin(&draft, picture, "loss", 800, 480, err);
    if (status == 0) {
        write_data(c, draft.data);
        write_script(c, draft.script);
        status = kmf_draft_finish(&draft, err);
    }
    kmf_draft_free(&draft);
    return status;
}

int kmf_plot_loss(const kmf_picture *picture, const char *const *dirs, size_t n, kmf_plot_x x,
                  const char *columns, kmf_err *err)
{
    curves c = {.n = n, .x = x};
    int status = 0;
    if (n == 0)
        return kmf_fail(err, KMF_EINVAL, "no training is given");
    if ((unsigned)x > KMF_PLOT_TIME)
        return kmf_fail(err, KMF_EINVAL, "x: %d is none of its values", (int)x);
    c.runs = kmf_calloc(n, sizeof *c.runs, err);
    if (!c.runs)
        return KMF_ENOMEM;
    for (size_t i = 0; i < n && status == 0; i++)
        status = read_run(&c.runs[i], dirs[i], err);
    if (status == 0)
        status = choose_columns(&c, columns, err);
    if (status == 0)
        status = check_columns(&c, err);
    if (status == 0)
        status = draw(picture, &c, err);
    for (size_t i = 0; i < n; i++) {
        kmf_free(c.runs[i].path);
        kmf_free(c.runs[i].text);
        kmf_free(c.runs[i].fields);
    }
    kmf_free(c.runs);
    kmf_free(c.names);
    return status;
}
