/* SPDX-License-Identifier: MIT */
/* kmerformer plot: pictures of vectors, trainings and positions. */
#include "cli/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#define DRAWN_MAX 1000000
#define SIMILARITY_MAX 5000

/* What the four have in common. */
typedef struct plot_args {
    kmf_picture picture;
    const char *size;
} plot_args;

/* clang-format off */
#define PICTURE_OPTIONS(a)                                                                    \
    {"o", "output", CLI_TEXT, &(a)->picture.path, 0, 0, NULL, "FILE",                         \
     "the picture, x.svg or x.png; the numbers are kept in x.tsv, gnuplot's script in x.gp; "   \
     "needed", 0, NULL},                                                                      \
    {NULL, "size", CLI_TEXT, &(a)->size, 0, 0, NULL, "WxH", "pixels of the picture", 0,       \
     "what fits the plot"},                                                                   \
    {NULL, "no-picture", CLI_FLAG, &(a)->picture.data_only, 0, 0, NULL, NULL,                 \
     "numbers and script only; gnuplot is not run", 0, NULL}
#define ROWS_OPTIONS(r, max)                                                                  \
    {NULL, "labels", CLI_ONCE, &(r)->labels, 0, 0, NULL, "FILE",                              \
     "lines name<TAB>label for the names in VECTORS' .ids.tsv", 0, NULL},                     \
    {NULL, "most", CLI_SIZE, &(r)->most, 2, max, NULL, "N",                                   \
     "rows that are drawn; of more, so many evenly spaced", 0, NULL}
/* clang-format on */

/* ---------------------------------------------------------------- in common ------------- */

/* "A<mark>B": two whole numbers in a range. */
static bool two_numbers(const char *text, char mark, long min, long max, int to[2])
{
    for (int i = 0; i < 2; i++) {
        char *end;
        if (*text < '0' || *text > '9')
            return false;
        errno = 0;
        long value = strtol(text, &end, 10);
        if (errno != 0 || value < min || value > max || *end != (i == 0 ? mark : '\0'))
            return false;
        to[i] = (int)value;
        text = end + 1;
    }
    return true;
}

/* -1, or the exit code of what is wrong with the common options. */
static int settle(cli *run, plot_args *a, const char *const *inputs, size_t n)
{
    kmf_err err = {0};
    int size[2];
    if (!a->picture.path)
        return cli_wrong(run, "-o FILE is needed, x.svg or x.png");
    char *name = kmf_picture_name(a->picture.path, "", &err);
    if (!name)
        return cli_fail(run, &err);
    kmf_text_free(name);
    if (a->size) {
        if (!two_numbers(a->size, 'x', KMF_PIXELS_MIN, KMF_PIXELS_MAX, size))
            return cli_wrong(run, "--size: write WxH, each from %d to %d, got '%s'",
                             KMF_PIXELS_MIN, KMF_PIXELS_MAX, a->size);
        a->picture.width = size[0];
        a->picture.height = size[1];
    }
    if (cli_picture_is_an_input(a->picture.path, inputs, n))
        return cli_wrong(
            run,
            "-o %s: an input would be overwritten: the numbers go to a .tsv and the "
            "script to a .gp of that name",
            a->picture.path);
    a->picture.command_line = run->command_line;
    return cli_check_output(a->picture.path, &err) < 0 ? cli_fail(run, &err) : -1;
}

static void say_files(const cli *run, const plot_args *a)
{
    char *data = kmf_picture_name(a->picture.path, ".tsv", NULL);
    char *script = kmf_picture_name(a->picture.path, ".gp", NULL);
    if (data && script && a->picture.data_only)
        cli_note(run, "numbers in %s, script in %s", data, script);
    else if (data && script)
        cli_note(run, "%s; numbers in %s, script in %s", a->picture.path, data, script);
    kmf_text_free(data);
    kmf_text_free(script);
}

static void say_rows(const cli *run, const kmf_plot_rows *rows, const kmf_plot_report *r,
                     const char *why)
{
    if (r->left_out > 0)
        cli_warn(run, "%" PRIu64 " of %" PRIu64 " rows are left out: %s", r->left_out, r->rows,
                 why);
    if (r->drawn < r->rows - r->left_out)
        cli_warn(run, "%zu of %" PRIu64 " rows are drawn, evenly spaced (--most)", r->drawn,
                 r->rows - r->left_out);
    if (rows->labels && r->unlabelled > 0)
        cli_warn(run, "%zu of the rows drawn have no label", r->unlabelled);
}

static void show_rows(void *user, uint64_t done)
{
    cli_progress *p = user;
    char count[CLI_COUNT_TEXT];
    if (cli_progress_due(p))
        cli_progress_show(p, "%s rows read", cli_count(count, (double)done));
}

static int leave(const cli *run, int status, const kmf_err *err, const plot_args *a)
{
    if (status < 0)
        return cli_fail(run, err);
    say_files(run, a);
    return CLI_DONE;
}

/* ---------------------------------------------------------------- vectors --------------- */

/* What a plot of rows begins with, once its options are known to be right; -1, or an exit code. */
static int begin_rows(cli *run, plot_args *a, kmf_plot_rows *rows, cli_progress *progress)
{
    const char *const inputs[] = {rows->vectors, rows->labels};
    int code = settle(run, a, inputs, 2);
    if (code >= 0)
        return code;
    cli_progress_start(progress, run);
    rows->fn = show_rows;
    rows->user = progress;
    return -1;
}

static int plot_map(cli *run, int argc, char **argv)
{
    static const cli_usage usage = {
        "plot map [options] -o FILE VECTORS.npy",
        "A map of vectors as kmerformer embed -o writes them: each row at its place along two\n"
        "principal components of all rows. Rows of NaN are left out.",
        1, 1};
    kmf_err err = {0};
    plot_args a = {0};
    kmf_plot_rows rows = {.most = 20000, .threads = kmf_threads_default()};
    kmf_plot_report report;
    cli_progress progress;
    const char *wanted = "1,2";
    int components[2];
    int colour = -1;
    int l2 = 0;
    const cli_option table[] = {
        CLI_HEADING("picture"),
        PICTURE_OPTIONS(&a),
        ROWS_OPTIONS(&rows, DRAWN_MAX),
        {NULL, "colour", CLI_CHOICE, &colour, 0, 0, kmf_plot_colour_names, NULL,
         "what colours say: the label; the length in bases", -1, "label, if there are labels"},
        CLI_HEADING("components"),
        {NULL, "components", CLI_TEXT, &wanted, 0, 0, NULL, "A,B",
         "those of the two axes, 1 being that of the greatest variance", 0, NULL},
        {NULL, "l2", CLI_FLAG, &l2, 0, 0, NULL, NULL,
         "scale each row to length 1 first; rows of length 0 are left out", 0, NULL},
        CLI_HEADING("the run"),
        CLI_THREADS(&rows.threads),
        CLI_COMMON(run)};
    int code = cli_parse(run, table, &usage, argc, argv);
    if (code >= 0)
        return code;
    rows.vectors = run->inputs[0];
    if (colour == KMF_PLOT_LABEL && !rows.labels)
        return cli_wrong(run, "--colour label: there are none without --labels FILE");
    colour = colour < 0 ? KMF_PLOT_LABEL : colour;
    if (!two_numbers(wanted, ',', 1, KMF_PCA_DIM_MAX, components) ||
        components[0] == components[1])
        return cli_wrong(run, "--components: write A,B, two different numbers from 1; got '%s'",
                         wanted);
    code = begin_rows(run, &a, &rows, &progress);
    if (code >= 0)
        return code;
    int status =
        kmf_plot_map(&a.picture, &rows, components, l2, (kmf_plot_colour)colour, &report, &err);
    cli_progress_end();
    if (report.drawn > 0)
        say_rows(run, &rows, &report, l2 ? "not finite, or of length 0" : "not finite");
    if (status == 0 && report.n_legend < report.n_labels && colour == KMF_PLOT_LABEL)
        cli_warn(run, "%zu labels; the legend has the first %zu", report.n_labels,
                 report.n_legend);
    if (status == 0)
        cli_note(
            run,
            "%llu rows of %zu columns; components %d and %d hold %.1f %% and %.1f %% of the "
            "variance",
            (unsigned long long)(report.rows - report.left_out), report.dim, components[0],
            components[1], 100 * report.explained[0], 100 * report.explained[1]);
    return leave(run, status, &err, &a);
}

static int plot_similarity(cli *run, int argc, char **argv)
{
    static const cli_usage usage = {
        "plot similarity [options] -o FILE VECTORS.npy",
        "A heat map of the cosines of vectors as kmerformer embed -o writes them, in the\n"
        "order of the file, or by label. Rows of NaN or of length 0 are left out.",
        1, 1};
    kmf_err err = {0};
    plot_args a = {0};
    kmf_plot_rows rows = {.most = 500, .threads = kmf_threads_default()};
    kmf_plot_report report;
    cli_progress progress;
    const cli_option table[] = {
        CLI_HEADING("picture"), PICTURE_OPTIONS(&a),        ROWS_OPTIONS(&rows, SIMILARITY_MAX),
        CLI_HEADING("the run"), CLI_THREADS(&rows.threads), CLI_COMMON(run)};
    int code = cli_parse(run, table, &usage, argc, argv);
    if (code >= 0)
        return code;
    rows.vectors = run->inputs[0];
    code = begin_rows(run, &a, &rows, &progress);
    if (code >= 0)
        return code;
    int status = kmf_plot_similarity(&a.picture, &rows, &report, &err);
    cli_progress_end();
    if (report.drawn > 0)
        say_rows(run, &rows, &report, "not finite, or of length 0");
    if (status == 0 && report.n_legend < report.n_labels)
        cli_warn(run, "%zu labels: too many to be named at the axes", report.n_labels);
    return leave(run, status, &err, &a);
}

/* ---------------------------------------------------------------- trainings ------------- */

static int plot_loss(cli *run, int argc, char **argv)
{
    static const cli_usage usage = {
        "plot loss [options] -o FILE DIR...",
        "The curves of one or more trainings: DIR of kmerformer pretrain, or its metrics.tsv.\n"
        "Training and validation, in bits per masked base or by the loss of pairs, and the\n"
        "best Markov model as a line.",
        1, -1};
    kmf_err err = {0};
    plot_args a = {0};
    const char *columns = NULL;
    int x = KMF_PLOT_STEP;
    const cli_option table[] = {PICTURE_OPTIONS(&a),
                                {NULL, "x", CLI_CHOICE, &x, 0, 0, kmf_plot_x_names, NULL,
                                 "the horizontal axis", 0, NULL},
                                {NULL, "columns", CLI_ONCE, &columns, 0, 0, NULL, "A,B,...",
                                 "curves, by their names in the header of metrics.tsv", 0,
                                 "bits, contrast or loss, and val_"},
                                CLI_COMMON(run)};
    int code = cli_parse(run, table, &usage, argc, argv);
    if (code >= 0)
        return code;
    const char *const *dirs = run->inputs;
    size_t n = run->n_inputs;
    code = settle(run, &a, dirs, n);
    if (code >= 0)
        return code;
    int status = kmf_plot_loss(&a.picture, dirs, n, (kmf_plot_x)x, columns, &err);
    return leave(run, status, &err, &a);
}

/* ---------------------------------------------------------------- positions ------------- */

typedef struct positions {
    const char *model;
    size_t head_size, tokens, width; /* 0: the model's */
    double base;                     /* 0: the model's */
} positions;

/* What is not given is the model's. */
static int ask_model(positions *p, kmf_err *err)
{
    if (!p->model && p->head_size && p->base > 0 && p->width)
        return 0;
    kmf_model *model = kmf_model_load(p->model, err);
    if (!model)
        return err->code;
    const kmf_config *c = kmf_model_config(model);
    size_t rotary = kmf_config_rotary_size(c);
    int status = 0;
    if (rotary == 0 && !(p->head_size && p->base > 0))
        status = cli_raise(err, KMF_EMODEL,
                           "%s has no rotary positions; --head-size and --base draw any",
                           kmf_model_path(model));
    p->head_size = p->head_size ? p->head_size : rotary;
    p->base = p->base > 0 ? p->base : c->rotary_base;
    p->width = p->width ? p->width : c->hidden_size;
    kmf_model_free(model);
    return status;
}

static int plot_positions(cli *run, int argc, char **argv)
{
    static const cli_usage usage = {
        "plot positions [options] -o FILE",
        "Two panels: how rotary scores fall with the distance of two tokens, with the bound\n"
        "of RoFormer, section 3.4.3; and the table of sinusoidal positions.",
        0, 0};
    kmf_err err = {0};
    plot_args a = {0};
    positions p = {.tokens = 512};
    const cli_option table[] = {
        PICTURE_OPTIONS(&a),
        {"m", "model", CLI_TEXT, &p.model, 0, 0, NULL, "MODEL",
         "a model directory or file, for what is not given below", 0, "the default model"},
        {NULL, "head-size", CLI_SIZE, &p.head_size, 2, KMF_POSITIONS_MAX, NULL, "K",
         "numbers of a head that are turned, in pairs", 0, "the model's"},
        {NULL, "base", CLI_REAL, &p.base, 0, 0, NULL, "B",
         "pair i is turned by B^(-2i/K) a token; 0: the model's", 0, NULL},
        {NULL, "tokens", CLI_SIZE, &p.tokens, 2, KMF_POSITIONS_MAX, NULL, "N",
         "greatest distance, and positions of the table", 0, NULL},
        {NULL, "width", CLI_SIZE, &p.width, 4, KMF_POSITIONS_MAX, NULL, "D",
         "columns of the table", 0, "the model's"},
        CLI_COMMON(run)};
    int code = cli_parse(run, table, &usage, argc, argv);
    if (code >= 0)
        return code;
    code = settle(run, &a, NULL, 0);
    if (code >= 0)
        return code;
    int status = ask_model(&p, &err);
    if (status == 0)
        status = kmf_plot_positions(&a.picture, p.head_size, p.base, p.tokens, p.width, &err);
    return leave(run, status, &err, &a);
}

/* ---------------------------------------------------------------- which ----------------- */

const cli_command cli_plot_subcommands[] = {
    {"plot map", plot_map, "vectors along two principal components", NULL},
    {"plot similarity", plot_similarity, "cosines of vectors as a heat map", NULL},
    {"plot loss", plot_loss, "the curves of trainings", NULL},
    {"plot positions", plot_positions, "rotary decay and sinusoidal table", NULL},
    CLI_COMMAND_END,
};

int cli_plot(cli *run, int argc, char **argv)
{
    static const char about[] =
        "Pictures by gnuplot, as SVG or PNG; the numbers in them, and the script that makes\n"
        "them again, are kept beside. Which:\n";
    return cli_want_subcommand(run, "plot map|similarity|loss|positions [options] -o FILE ...",
                               about, cli_plot_subcommands, argc, argv);
}
