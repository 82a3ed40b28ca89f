/* SPDX-License-Identifier: MIT */
/*
 * kmerformer probe, and probe train: a classifier of records.
 *
 *   labelled records -> vectors -> logistic regression -> probe.safetensors
 */
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct train_args {
    cli_labelled labelled;
    kmf_probe_options opts;
    const char *model;
    const char *out;
} train_args;

static const cli_usage usage = {
    "probe train [options] --train IN -o PROBE",
    "Learns the labels of records from their vectors, by multinomial logistic regression, and\n"
    "writes a safetensors file with weights, classes, the model and its settings. Inputs are\n"
    "those of kmerformer eval, which tells how good such a probe is: sequences, or vectors,\n"
    "x.npy as embed or another program wrote them.",
    0, 0};

static int parse_train(cli *run, train_args *a, int argc, char **argv, kmf_err *err)
{
    static const char *const others[] = {".npy", ".tsv", ".txt", ".gz", ".json"};
    cli_labelled *l = &a->labelled;
    const cli_option table[] = {
        CLI_HEADING("records"),
        {NULL, "train", CLI_ONCE, &l->train, 0, 0, NULL, "IN", "records to train on", 0, NULL},
        {NULL, "dev", CLI_ONCE, &l->dev, 0, 0, NULL, "IN",
         "records to choose L2 and probe scale by, not to train on", 0,
         "a fifth of --train, if any is chosen"},
        CLI_LABEL_OPTIONS(l),
        CLI_HEADING("model and output"),
        {"m", "model", CLI_TEXT, &a->model, 0, 0, NULL, "MODEL", "as in embed", 0,
         "the default model"},
        {"o", "output", CLI_TEXT, &a->out, 0, 0, NULL, "PROBE", "the file that is written", 0,
         NULL},
        CLI_HEADING("the vector: what the model has, as in embed"),
        CLI_VECTOR_OPTIONS(l),
        CLI_HEADING("the run"),
        CLI_PROBE_OPTIONS(&a->opts),
        {NULL, "seed", CLI_SEED, &l->samples.seed, 0, 0, NULL, "N",
         "of the part to choose by, and of random models", 0, NULL},
        CLI_THREADS(&l->embed.threads),
        CLI_COMMON(run)};
    int leave = cli_parse(run, table, &usage, argc, argv);
    if (leave >= 0)
        return leave;
    if (!l->train || !a->out)
        return cli_wrong(run, "no %s given; usage: kmerformer %s", l->train ? "-o" : "--train",
                         usage.synopsis);
    if (cli_labelled_check(l, err) < 0)
        return cli_fail(run, err);
    if (l->rows && a->model)
        return cli_wrong(run, "-m: the vectors of %s are made already: leave it out", l->train);
    if (strcmp(a->out, "-") == 0)
        return cli_wrong(run, "-o -: a probe is written to a file");
    if (cli_labelled_is_input(l, a->out) || cli_is_an_input(a->out, &a->model, 1))
        return cli_wrong(run, "-o %s: that is an input", a->out);
    bool foreign = kmf_foreign_ending(a->out) != NULL;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        foreign = foreign || cli_ends_with(a->out, others[i]);
    if (foreign)
        return cli_wrong(run, "-o %s: a probe is a safetensors file, as x.safetensors", a->out);
    if (l->embed.pooling == KMF_POOL_NONE)
        return cli_wrong(run, "--pool none: a record has one vector here");
    l->samples.no_test = 1;
    l->samples.no_dev = !kmf_probe_chooses(&a->opts);
    return -1;
}

typedef struct training {
    const cli *run;
    const train_args *args;
    kmf_samples *samples; /* owned, as all below */
    kmf_samples_info info;
    kmf_embedder *embedder; /* NULL: the records are rows */
    const char *name;       /* borrowed; of what the vectors come from */
    size_t dim;
    kmf_pool *pool;
    float *x;
    kmf_probe *probe;
    cli_progress line;
} training;

static void show_learning(void *user, const kmf_probe_progress *now)
{
    training *t = user;
    cli_progress_probe(&t->line, t->name, now);
}

static kmf_points points(const training *t, size_t beg, size_t n)
{
    return (kmf_points){t->x + beg * t->dim, kmf_samples_classes(t->samples) + beg, n};
}

#define SHARE_TEXT 24 /* bytes of a share as text */

/* The share of records that the probe is right about. */
static int accuracy(char text[SHARE_TEXT], const training *t, kmf_points p, kmf_err *err)
{
    double *probabilities = calloc(t->info.n_classes, sizeof *probabilities);
    size_t dim = kmf_probe_dim(t->probe);
    size_t right = 0;
    if (!probabilities)
        return cli_raise(err, KMF_ENOMEM, "out of memory");
    for (size_t i = 0; i < p.n; i++)
        right += kmf_probe_predict(t->probe, probabilities, p.x + i * dim) == p.y[i];
    free(probabilities);
    snprintf(text, SHARE_TEXT, "%.6f", (double)right / (double)p.n);
    return 0;
}

static int describe(training *t, kmf_err *err)
{
    size_t C = t->info.n_classes;
    const char **labels = calloc(C, sizeof *labels);
    char *identity = t->embedder ? kmf_embedder_identity(t->embedder, err)
                                 : kmf_row_file_identity(kmf_samples_rows(t->samples), err);
    int status = identity ? 0 : (int)err->code;
    if (!labels)
        status = cli_raise(err, KMF_ENOMEM, "out of memory");
    for (size_t c = 0; labels && c < C; c++)
        labels[c] = kmf_samples_class(t->samples, c);
    if (status == 0)
        status = kmf_probe_describe(t->probe, labels, identity, err);
    free(labels);
    kmf_text_free(identity);
    return status;
}

/* Of records that were not learnt from: those of dev, or those by which settings were chosen. */
typedef struct unseen {
    const char *key; /* NULL: there are none */
    const char *name;
    char share[SHARE_TEXT];
} unseen;

static int ask_unseen(unseen *u, const training *t, kmf_err *err)
{
    double chosen = kmf_probe_chosen_accuracy(t->probe);
    *u = (unseen){.name = ""};
    if (t->args->labelled.dev) {
        *u = (unseen){.key = "accuracy_dev", .name = " of dev"};
        return accuracy(u->share, t, points(t, t->info.dev, t->info.n_dev), err);
    }
    if (!isnan(chosen)) {
        *u = (unseen){.key = "accuracy_kept_back", .name = " of what was kept back at first"};
        snprintf(u->share, sizeof u->share, "%.6f", chosen);
    }
    return 0;
}

static int save(training *t, kmf_err *err)
{
    unseen other = {0};
    char records[24];
    char train[SHARE_TEXT] = "";
    snprintf(records, sizeof records, "%zu", t->info.n_train);
    int status = accuracy(train, t, points(t, 0, t->info.n_train), err);
    if (status == 0)
        status = ask_unseen(&other, t, err);
    if (status == 0)
        status = describe(t, err);
    if (status < 0)
        return status;
    const char *const pairs[] = {
        "version",        kmf_version(), "command", t->run->command_line, "records", records,
        "accuracy_train", train,         other.key, other.share};
    cli_hold_signals();
    status = kmf_probe_save(t->probe, t->args->out, pairs, other.key ? 5 : 4, err);
    cli_release_signals(status == 0);
    if (status == 0)
        cli_note(t->run,
                 "%s: %zu classes, %zu columns, L2 %g, probe scale %s; right about %s of "
                 "train%s%s%s",
                 t->args->out, t->info.n_classes, kmf_probe_dim(t->probe),
                 kmf_probe_l2(t->probe), kmf_probe_scale_names[kmf_probe_scaled_by(t->probe)],
                 train, other.key ? ", " : "", other.share, other.name);
    return status;
}

/* Before vectors are made, which takes long: can the probe's file hold all labels? */
static int check_labels(const training *t, kmf_err *err)
{
    for (size_t c = 0; c < t->info.n_classes; c++) {
        const char *label = kmf_samples_class(t->samples, c);
        for (const char *p = label; *p; p++)
            if ((unsigned char)*p < ' ')
                return cli_raise(err, KMF_EFORMAT, "%s: a control character in label '%.63s'",
                                 t->args->labelled.train, label);
    }
    return 0;
}

/* The vectors of all records. */
static int embed_or_take(training *t, kmf_err *err)
{
    const cli_labelled *l = &t->args->labelled;
    t->name = l->train;
    if (l->rows) {
        t->x = cli_labelled_rows(t->samples, &t->info, &t->dim, err);
        return t->x ? 0 : (int)err->code;
    }
    t->embedder = cli_labelled_embedder(l, t->args->model, true, err);
    if (!t->embedder)
        return (int)err->code;
    t->name = kmf_embedder_name(t->embedder);
    t->dim = kmf_embedder_dim(t->embedder);
    t->x = cli_labelled_embed(t->run, l, t->samples, &t->info, t->embedder, err);
    return t->x ? 0 : (int)err->code;
}

static void warn_of_missing(const training *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->info.n; i++)
        n += isnan(t->x[i * t->dim]) != 0;
    if (n > 0)
        cli_warn(t->run, "%zu records have no %s: nothing is learnt from them", n,
                 t->embedder ? "valid k-mer" : "vector");
}

static int train(training *t, kmf_err *err)
{
    const cli_labelled *l = &t->args->labelled;
    if (cli_check_output(t->args->out, err) < 0)
        return (int)err->code;
    t->samples = cli_labelled_read(t->run, l, &t->info, err);
    if (!t->samples || check_labels(t, err) < 0 ||
        kmf_helpers_new(&t->pool, l->embed.threads, err) < 0)
        return (int)err->code;
    if (embed_or_take(t, err) < 0)
        return (int)err->code;
    warn_of_missing(t);
    kmf_points all = points(t, 0, t->info.n_train);
    kmf_points fit = points(t, 0, t->info.n_fit);
    kmf_points dev = points(t, t->info.dev, t->info.n_dev);
    kmf_probe_options opts = t->args->opts;
    opts.fn = show_learning;
    opts.user = t;
    cli_progress_start(&t->line, t->run);
    t->probe =
        kmf_probe_train(&all, &fit, &dev, t->dim, t->info.n_classes, &opts, t->pool, err);
    cli_progress_end();
    return t->probe ? save(t, err) : (int)err->code;
}

static int run_train(cli *run, int argc, char **argv)
{
    kmf_err err = {0};
    train_args a = {0};
    training t = {.run = run, .args = &a};
    cli_labelled_default(&a.labelled);
    kmf_probe_options_default(&a.opts);
    int leave = parse_train(run, &a, argc, argv, &err);
    if (leave >= 0)
        return leave;
    int status = train(&t, &err);
    kmf_samples_free(t.samples);
    kmf_embedder_free(t.embedder);
    kmf_pool_free(t.pool);
    kmf_probe_free(t.probe);
    free(t.x);
    return status == 0 ? CLI_DONE : cli_fail(run, &err);
}

const cli_command cli_probe_subcommands[] = {
    {"probe train", run_train, "learns labels from labelled records", NULL},
    {"probe predict", cli_probe_predict, "gives records labels, with probabilities", NULL},
    CLI_COMMAND_END,
};

int cli_probe(cli *run, int argc, char **argv)
{
    return cli_want_subcommand(run, "probe train|predict [options]...",
                               "Labels for records, learnt from labelled ones:\n",
                               cli_probe_subcommands, argc, argv);
}
