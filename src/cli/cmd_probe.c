/* SPDX-License-Identifier: MIT */
/*
 * kmerformer probe: a classifier of records in two commands.
 *
 *   labelled records -> vectors -> logistic regression -> probe.safetensors        probe train
 *   records -> vectors, by the model that the probe names -> labels                probe predict
 */
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- train ----------------- */

typedef struct train_args {
    cli_labelled labelled;
    kmf_probe_options opts;
    const char *model;
    const char *out;
} train_args;

static const cli_usage train_usage = {
    "probe train [options] --train IN -o PROBE",
    "Learns the labels of records from their vectors, by multinomial logistic regression, and\n"
    "writes a safetensors file with weights, classes, the model and its settings. Inputs are\n"
    "those of kmerformer eval, which tells how good such a probe is.",
    0, 0};

static int parse_train(cli *run, train_args *a, int argc, char **argv, kmf_err *err)
{
    static const char *const others[] = {".npy", ".tsv", ".txt", ".gz", ".json"};
    cli_labelled *l = &a->labelled;
    int first;
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
    int leave = cli_parse(run, table, &train_usage, argc, argv, &first);
    if (leave >= 0)
        return leave;
    if (!l->train || !a->out)
        return cli_wrong(run, "no %s given; usage: kmerformer %s", l->train ? "-o" : "--train",
                         train_usage.synopsis);
    if (cli_labelled_check(l, err) < 0)
        return cli_fail(run, err);
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
    l->embed.seed = l->samples.seed;
    l->samples.no_test = 1;
    l->samples.no_dev = !kmf_probe_chooses(&a->opts);
    return -1;
}

typedef struct training {
    const cli *run;
    const train_args *args;
    kmf_samples *samples; /* owned, as all below */
    kmf_samples_info info;
    kmf_embedder *embedder;
    kmf_pool *pool;
    float *x;
    kmf_probe *probe;
    cli_progress line;
} training;

static void show_learning(void *user, const kmf_probe_progress *now)
{
    training *t = user;
    cli_progress_probe(&t->line, kmf_embedder_name(t->embedder), now);
}

static kmf_points points(const training *t, size_t beg, size_t n)
{
    return (kmf_points){t->x + beg * kmf_embedder_dim(t->embedder),
                        kmf_samples_classes(t->samples) + beg, n};
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
    char *identity = kmf_embedder_identity(t->embedder, err);
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

static int save(training *t, kmf_err *err)
{
    char records[24];
    char train[SHARE_TEXT] = "";
    char dev[SHARE_TEXT] = "";
    snprintf(records, sizeof records, "%zu", t->info.n_train);
    int status = accuracy(train, t, points(t, 0, t->info.n_train), err);
    if (status == 0 && t->args->labelled.dev)
        status = accuracy(dev, t, points(t, t->info.dev, t->info.n_dev), err);
    const char *const pairs[] = {
        "version", kmf_version(),    "command", t->run->command_line, "records",
        records,   "accuracy_train", train,     "accuracy_dev",       dev};
    if (status == 0)
        status = describe(t, err);
    cli_hold_signals();
    if (status == 0)
        status = kmf_probe_save(t->probe, t->args->out, pairs, dev[0] ? 5 : 4, err);
    cli_release_signals(status == 0);
    if (status == 0)
        cli_note(t->run,
                 "%s: %zu classes, %zu columns, L2 %g, probe scale %s; right about %s of "
                 "train%s%s%s",
                 t->args->out, t->info.n_classes, kmf_probe_dim(t->probe),
                 kmf_probe_l2(t->probe), kmf_probe_scale_names[kmf_probe_scaled_by(t->probe)],
                 train, dev[0] ? ", " : "", dev, dev[0] ? " of dev" : "");
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

static int train(training *t, kmf_err *err)
{
    const cli_labelled *l = &t->args->labelled;
    if (cli_check_output(t->args->out, err) < 0)
        return (int)err->code;
    t->samples = cli_labelled_read(t->run, l, &t->info, err);
    if (!t->samples || check_labels(t, err) < 0 ||
        kmf_helpers_new(&t->pool, l->embed.threads, err) < 0)
        return (int)err->code;
    t->embedder = cli_labelled_embedder(l, t->args->model, true, err);
    if (t->embedder)
        t->x = cli_labelled_embed(t->run, l, t->samples, &t->info, t->embedder, err);
    if (!t->x)
        return (int)err->code;
    kmf_embed_stats s;
    kmf_embedder_statistics(t->embedder, &s);
    if (s.empty > 0)
        cli_warn(t->run, "%llu records have no valid k-mer: nothing is learnt from them",
                 (unsigned long long)s.empty);
    kmf_points all = points(t, 0, t->info.n_train);
    kmf_points fit = points(t, 0, t->info.n_fit);
    kmf_points dev = points(t, t->info.dev, t->info.n_dev);
    kmf_probe_options opts = t->args->opts;
    opts.fn = show_learning;
    opts.user = t;
    cli_progress_start(&t->line, t->run);
    t->probe = kmf_probe_train(&all, &fit, &dev, kmf_embedder_dim(t->embedder),
                               t->info.n_classes, &opts, t->pool, err);
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

/* ---------------------------------------------------------------- predict --------------- */

typedef struct predict_args {
    kmf_labelled_options input;
    const char *probe;
    const char *model;
    const char *out;
    int threads;
    int all, top;
} predict_args;

static const cli_usage predict_usage = {
    "probe predict [options] -p PROBE IN...",
    "The most probable label of each record and its probability, as a table: a line for every\n"
    "record, in input order. Records are FASTA, FASTQ, SAM, BAM, CRAM, or a table (csv, tsv)\n"
    "with a column sequence; plain or compressed; '-' is standard input. The vectors are made\n"
    "as those that the probe learnt from; another model than that one is refused.",
    1, -1};

static int parse_predict(cli *run, predict_args *a, int argc, char **argv, int *first,
                         kmf_err *err)
{
    const cli_option table[] = {{"p", "probe", CLI_TEXT, &a->probe, 0, 0, NULL, "PROBE",
                                 "as probe train wrote it", 0, NULL},
                                {"m", "model", CLI_TEXT, &a->model, 0, 0, NULL, "MODEL",
                                 "the same model, elsewhere", 0, "where it was"},
                                {NULL, "all", CLI_FLAG, &a->all, 0, 0, NULL, NULL,
                                 "a column more for each class: its probability", 0, NULL},
                                {NULL, "top", CLI_INT, &a->top, 1, 1000000, NULL, "N",
                                 "the N most probable labels, each with its probability", 0,
                                 NULL},
                                {"o", "output", CLI_TEXT, &a->out, 0, 0, NULL, "FILE",
                                 "compressed if it ends in .gz; -: standard output", 0, NULL},
                                CLI_READER_OPTIONS(&a->input.reader),
                                CLI_THREADS(&a->threads),
                                CLI_COMMON(run)};
    int leave = cli_parse(run, table, &predict_usage, argc, argv, first);
    if (leave >= 0)
        return leave;
    const char *const *paths = (const char *const *)(argv + *first);
    size_t n = (size_t)(argc - *first);
    if (!a->probe)
        return cli_wrong(run, "no -p given; usage: kmerformer %s", predict_usage.synopsis);
    if (a->all && a->top > 1)
        return cli_wrong(run, "--all and --top: one of them");
    if (cli_check_inputs(paths, n, &a->input.reader, err) < 0)
        return cli_fail(run, err);
    const char *const beside[] = {a->probe, a->model, a->input.reader.bed,
                                  a->input.reader.reference};
    if (cli_is_an_input(a->out, paths, n) || cli_is_an_input(a->out, beside, 4))
        return cli_wrong(run, "-o %s: that is an input", a->out);
    return cli_refuse_table(run, a->out);
}

typedef struct prediction {
    const cli *run;
    const predict_args *args;
    kmf_probe *probe; /* owned, as all below */
    kmf_embedder *embedder;
    kmf_out *out;
    size_t top;            /* classes told first, no more than there are */
    double *probabilities; /* [n_classes] */
    bool *told;            /* [n_classes]; in the line under way */
    bool begun;            /* the first line, of names, is written */
    cli_progress line;
} prediction;

/* Names of the columns, before the first record or, without one, at the end. */
static int put_header(prediction *p, kmf_err *err)
{
    if (p->begun)
        return 0;
    p->begun = true;
    int status = kmf_out_print(p->out, err, "#name\tlabel\tprobability");
    for (size_t i = 2; i <= p->top && status == 0; i++)
        status = kmf_out_print(p->out, err, "\tlabel%zu\tprobability%zu", i, i);
    for (size_t c = 0; p->args->all && c < kmf_probe_n_classes(p->probe) && status == 0; c++)
        status = kmf_out_print(p->out, err, "\t%s", kmf_probe_label(p->probe, c));
    return status < 0 ? status : kmf_out_print(p->out, err, "\n");
}

/* The most probable class that has not been told; there is one. */
static size_t next_best(const prediction *p)
{
    size_t n = kmf_probe_n_classes(p->probe);
    size_t best = n;
    for (size_t c = 0; c < n; c++)
        if (!p->told[c] && (best == n || p->probabilities[c] > p->probabilities[best]))
            best = c;
    return best;
}

/* Of a record that has no vector. */
static int put_missing(prediction *p, kmf_err *err)
{
    size_t fields = 2 * p->top + (p->args->all ? kmf_probe_n_classes(p->probe) : 0);
    int status = 0;
    for (size_t i = 0; i < fields && status == 0; i++)
        status = kmf_out_print(p->out, err, "\tNA");
    return status;
}

static int put_labels(prediction *p, const float *vector, kmf_err *err)
{
    size_t n = kmf_probe_n_classes(p->probe);
    int status = 0;
    memset(p->told, 0, n * sizeof *p->told);
    (void)kmf_probe_predict(p->probe, p->probabilities, vector);
    for (size_t i = 0; i < p->top && status == 0; i++) {
        size_t c = next_best(p);
        p->told[c] = true;
        status = kmf_out_print(p->out, err, "\t%s\t%.6g", kmf_probe_label(p->probe, c),
                               p->probabilities[c]);
    }
    for (size_t c = 0; p->args->all && c < n && status == 0; c++)
        status = kmf_out_print(p->out, err, "\t%.6g", p->probabilities[c]);
    return status;
}

/* A kmf_row_fn. */
static int put_row(void *user, const kmf_row *row, kmf_err *err)
{
    prediction *p = user;
    int status = put_header(p, err);
    if (status == 0)
        status = kmf_out_print(p->out, err, "%s", row->name);
    if (status == 0)
        status = isnan(row->vector[0]) ? put_missing(p, err) : put_labels(p, row->vector, err);
    return status < 0 ? status : kmf_out_print(p->out, err, "\n");
}

static void show_progress(void *user, uint64_t tokens)
{
    prediction *p = user;
    kmf_embed_stats s;
    (void)tokens;
    if (!cli_progress_due(&p->line))
        return;
    kmf_embedder_statistics(p->embedder, &s);
    cli_progress_show(&p->line, "%llu records done", (unsigned long long)s.records);
}

static int predict_file(prediction *p, const char *path, kmf_err *err)
{
    kmf_labelled_record rec;
    kmf_reader_stats stats;
    kmf_labelled *input =
        kmf_labelled_open(path, &p->args->input, kmf_embedder_pool(p->embedder), err);
    if (!input)
        return (int)err->code;
    kmf_embedder_source(p->embedder, cli_input_name(path));
    int got;
    while ((got = kmf_labelled_next(input, &rec, err)) > 0) {
        got = kmf_embedder_add(p->embedder, rec.name, rec.seq, rec.len, err);
        if (got < 0)
            break;
    }
    kmf_labelled_statistics(input, &stats);
    kmf_labelled_close(input);
    if (got == 0)
        cli_warn_of_reading(p->run, path, &p->args->input.reader, &stats);
    return got;
}

static int prepare_prediction(prediction *p, kmf_err *err)
{
    const predict_args *a = p->args;
    p->probe = kmf_probe_load(a->probe, err);
    if (!p->probe)
        return (int)err->code;
    kmf_err cause = {0};
    p->embedder =
        kmf_embedder_reopen(kmf_probe_identity(p->probe), a->model, a->threads, &cause);
    if (!p->embedder)
        return cli_raise(err, cause.code, "%s%s", cause.msg,
                         a->model || cause.code != KMF_EIO
                             ? ""
                             : " (the probe's model; -m tells where it is now)");
    const char *model = kmf_embedder_name(p->embedder);
    if (cli_is_an_input(a->out, &model, 1)) /* where none is given, the probe names it */
        return cli_raise(err, KMF_EINVAL, "-o %s: that is an input", a->out);
    if (kmf_embedder_dim(p->embedder) != kmf_probe_dim(p->probe))
        return cli_raise(err, KMF_EMODEL, "%s: %zu columns, but the model has %zu", a->probe,
                         kmf_probe_dim(p->probe), kmf_embedder_dim(p->embedder));
    size_t n = kmf_probe_n_classes(p->probe);
    p->top = (size_t)a->top < n ? (size_t)a->top : n;
    p->probabilities = calloc(n, sizeof *p->probabilities);
    p->told = calloc(n, sizeof *p->told);
    if (!p->probabilities || !p->told)
        return cli_raise(err, KMF_ENOMEM, "out of memory");
    p->out = kmf_out_open(a->out, err);
    return p->out ? 0 : KMF_EIO;
}

static int predict(prediction *p, const char *const *paths, size_t n, kmf_err *err)
{
    int status = prepare_prediction(p, err);
    if (status < 0)
        return status;
    cli_progress_start(&p->line, p->run);
    kmf_embedder_sink(p->embedder, put_row, p);
    kmf_embedder_progress(p->embedder, show_progress, p);
    for (size_t i = 0; i < n && status == 0; i++)
        status = predict_file(p, paths[i], err);
    if (status == 0)
        status = kmf_embedder_finish(p->embedder, err);
    if (status == 0)
        status = put_header(p, err);
    cli_progress_end();
    if (status == 0) {
        cli_warn_of_embedding(p->run, p->embedder, false);
        status = kmf_out_finish(p->out, err);
    }
    cli_hold_signals();
    if (status == 0)
        status = kmf_out_publish(p->out, err);
    cli_release_signals(status == 0);
    return status;
}

static int run_predict(cli *run, int argc, char **argv)
{
    kmf_err err = {0};
    predict_args a = {.out = "-", .threads = kmf_threads_default(), .top = 1};
    prediction p = {.run = run, .args = &a};
    kmf_embed_stats s;
    int first;
    kmf_labelled_options_default(&a.input);
    a.input.optional = 1;
    int leave = parse_predict(run, &a, argc, argv, &first, &err);
    if (leave >= 0)
        return leave;
    int status = predict(&p, (const char *const *)(argv + first), (size_t)(argc - first), &err);
    if (status == 0) {
        kmf_embedder_statistics(p.embedder, &s);
        if (s.empty > 0)
            cli_warn(run, "%llu records have no valid k-mer: NA in place of a label",
                     (unsigned long long)s.empty);
        cli_note(run, "%llu records, %.3f Mbp in %.2f s", (unsigned long long)s.records,
                 1e-6 * (double)s.bases, cli_now() - run->started);
    }
    kmf_probe_free(p.probe);
    kmf_embedder_free(p.embedder);
    kmf_out_free(p.out);
    free(p.probabilities);
    free(p.told);
    return status == 0 ? CLI_DONE : cli_fail(run, &err);
}

/* ---------------------------------------------------------------- both ------------------ */

const cli_command cli_probe_subcommands[] = {
    {"probe train", run_train, "learns labels from labelled records", NULL},
    {"probe predict", run_predict, "gives records labels, with probabilities", NULL},
    CLI_COMMAND_END,
};

int cli_probe(cli *run, int argc, char **argv)
{
    return cli_want_subcommand(run, "probe train|predict [options]...",
                               "Labels for records, learnt from labelled ones:\n",
                               cli_probe_subcommands, argc, argv);
}
