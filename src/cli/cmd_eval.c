/* SPDX-License-Identifier: MIT */
/*
 * kmerformer eval: models and baselines side by side on labelled records.
 *
 * Standard output has the same bytes for the same input: times go to standard error, and to the
 * JSON form, which is asked for by those who want them.
 */
#include "cli/cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT_TABLE, FORMAT_TSV, FORMAT_JSON };
static const char *const format_names[] = {"table", "tsv", "json", NULL};

#define SPLIT_UNSET (-1)

typedef struct eval_args {
    cli_labelled labelled;
    cli_list models;
    kmf_eval_options opts;
    double split;
    const char *out;
    const char *predictions;
    int format;
} eval_args;

/* One model's line. */
typedef struct row {
    char *model; /* owned */
    size_t dim;
    kmf_eval_result result;
    double embed_seconds;
} row;

typedef struct eval {
    const cli *run;
    const eval_args *args;
    kmf_samples *samples; /* owned, as all below */
    kmf_samples_info info;
    kmf_pool *pool;
    kmf_out *predictions;
    kmf_eval_answers answers;
    row rows[CLI_LIST_MAX];
    size_t n_rows;
} eval;

static const char synopsis[] = "eval [options] --train IN [--test IN]";
static const char about[] =
    "What the vectors of models are good for, on records with known labels: a table with a\n"
    "line for each model. A linear probe and nearest neighbours learn the labels from the\n"
    "vectors of --train and are scored on --test; k-means, without labels, puts the test\n"
    "records in as many clusters as they have classes. Settings (L2, scales) are chosen on\n"
    "--dev, or a part of --train, never on --test. An input is a table with columns sequence\n"
    "and label (csv or tsv by content), or FASTA, FASTQ, SAM, BAM or CRAM with --labels or\n"
    "--label-key; plain or compressed; '-' is standard input. Or all parts are vectors, x.npy\n"
    "as embed or another program wrote them, neither compressed nor '-', with --labels.\n";

const cli_command cli_eval_subcommands[] = {
    {"eval bits", cli_eval_bits,
     "how well models predict masked bases, compared with Markov models", NULL},
    CLI_COMMAND_END,
};

static int parse(cli *run, eval_args *a, int argc, char **argv)
{
    char text[2048];
    const cli_usage usage = {
        synopsis, cli_list_commands(text, sizeof text, about, cli_eval_subcommands), 0, 0};
    cli_labelled *l = &a->labelled;
    const cli_option table[] = {
        CLI_HEADING("records"),
        {NULL, "train", CLI_ONCE, &l->train, 0, 0, NULL, "IN", "records to train on", 0, NULL},
        {NULL, "test", CLI_ONCE, &l->test, 0, 0, NULL, "IN", "records to test", 0,
         "a part of --train"},
        {NULL, "dev", CLI_ONCE, &l->dev, 0, 0, NULL, "IN",
         "records to choose L2 and scales by, not to train on", 0,
         "a fifth of --train, if any is chosen"},
        {NULL, "split", CLI_REAL, &a->split, 0, 0, NULL, "F",
         "without --test: the share of each class that becomes the test part", SPLIT_UNSET,
         "0.2"},
        CLI_LABEL_OPTIONS(l),
        {NULL, "test-labels", CLI_ONCE, &l->test_labels, 0, 0, NULL, "TSV", "those of --test",
         0, "those of --labels"},
        CLI_HEADING("models"),
        {"m", "model", CLI_LIST, &a->models, 0, 0, NULL, "MODEL",
         "once for each: as in embed; tnf, kmer:K; random: the default model's shape with "
         "random weights, random:MODEL: that of another",
         0, "the default model"},
        CLI_HEADING("the vector, of the models that have the choice; as in embed if none has"),
        CLI_VECTOR_OPTIONS(l),
        CLI_HEADING("evaluation"),
        CLI_PROBE_OPTIONS(&a->opts.probe),
        {"k", "neighbours", CLI_SIZE, &a->opts.k, 1, 1024, NULL, "K", "neighbours that vote", 0,
         NULL},
        {NULL, "scale", CLI_CHOICE, &a->opts.scale, 0, 0, kmf_scale_names, NULL,
         "of vectors, for neighbours and clusters; auto: the one whose neighbours predict "
         "--dev best",
         0, NULL},
        {NULL, "restarts", CLI_INT, &a->opts.restarts, 1, 10000, NULL, "N",
         "runs of k-means; the tightest clusters count", 0, NULL},
        {NULL, "resamples", CLI_INT, &a->opts.resamples, 0, 1000000, NULL, "N",
         "bootstrap samples for the intervals; 0: no intervals", 0, NULL},
        {NULL, "seed", CLI_SEED, &a->opts.seed, 0, 0, NULL, "N",
         "of splits, clusters, drawings and random models", 0, NULL},
        CLI_HEADING("output"),
        {NULL, "format", CLI_CHOICE, &a->format, 0, 0, format_names, NULL,
         "for people; for programs, with all intervals; with seconds as well", 0, NULL},
        {"o", "output", CLI_TEXT, &a->out, 0, 0, NULL, "FILE", "-: standard output", 0, NULL},
        {NULL, "predictions", CLI_TEXT, &a->predictions, 0, 0, NULL, "FILE",
         "TSV of the test records: model, name, label, those of probe and neighbours, cluster; "
         "compressed if it ends in .gz",
         0, NULL},
        CLI_HEADING("the run"),
        CLI_THREADS(&l->embed.threads),
        CLI_COMMON(run)};
    return cli_parse(run, table, &usage, argc, argv);
}

/* What options mean together; -1 to go on, or an exit code. */
static int settle(cli *run, eval_args *a, kmf_err *err)
{
    cli_labelled *l = &a->labelled;
    if (!l->train)
        return cli_wrong(run, "no --train given; usage: kmerformer %s", synopsis);
    if (cli_labelled_check(l, err) < 0)
        return cli_fail(run, err);
    bool asked = a->split >= 0; /* no option takes a number below 0 */
    if (asked && l->test)
        return cli_wrong(run, "--split: the test part is that of --test");
    if (asked && !(a->split > 0 && a->split < 1))
        return cli_wrong(run, "--split: must be above 0 and below 1, got %g", a->split);
    if (cli_labelled_is_input(l, a->out) ||
        cli_is_an_input(a->out, a->models.texts, a->models.n))
        return cli_wrong(run, "-o %s: that is an input", a->out);
    if (a->format != FORMAT_JSON && cli_ends_with(a->out, ".json"))
        return cli_wrong(run, "-o %s: JSON is written by --format json", a->out);
    int refused = a->format == FORMAT_JSON ? cli_refuse_array(run, a->out)
                                           : cli_refuse_table(run, a->out);
    if (refused >= 0 || (a->predictions && cli_refuse_table(run, a->predictions) >= 0))
        return CLI_USAGE;
    if (a->predictions && (cli_labelled_is_input(l, a->predictions) ||
                           cli_is_an_input(a->predictions, a->models.texts, a->models.n)))
        return cli_wrong(run, "--predictions %s: that is an input", a->predictions);
    if (a->predictions && cli_same_output(a->predictions, a->out))
        return cli_wrong(run, "-o and --predictions: both are %s", a->out);
    if (l->embed.pooling == KMF_POOL_NONE)
        return cli_wrong(run, "--pool none: a record has one vector here");
    if (l->rows && a->models.n > 0)
        return cli_wrong(run, "-m: the vectors of %s are made already: leave it out", l->train);
    if (a->models.n == 0)
        a->models.texts[a->models.n++] = NULL;
    for (size_t i = 0; i < a->models.n && !l->rows; i++) {
        int kind = kmf_embedder_kind_of(a->models.texts[i], err);
        if (kind < 0)
            return cli_fail(run, err);
        l->some_have = l->some_have || kind == KMF_EMBEDDER_ENCODER;
    }
    l->samples.no_dev = !kmf_probe_chooses(&a->opts.probe) && a->opts.scale != KMF_SCALE_AUTO;
    if (l->dev && l->samples.no_dev)
        cli_warn(run, "--dev %s: with --l2 and --scale there is nothing to choose by it",
                 l->dev);
    if (asked)
        l->samples.test_share = a->split;
    l->samples.seed = a->opts.seed;
    return -1;
}

/* ---------------------------------------------------------------- models ---------------- */

static int put_predictions(eval *e, const row *r, kmf_err *err)
{
    const kmf_eval_answers *a = &e->answers;
    int status = 0;
    for (size_t i = 0; e->predictions && i < e->info.n_test && status == 0; i++) {
        kmf_sample s;
        kmf_samples_get(e->samples, e->info.test + i, &s);
        status = kmf_out_print(e->predictions, err, "%s\t%s\t%s\t%s\t%s\t%d\n", r->model,
                               s.name, kmf_samples_class(e->samples, (size_t)s.y),
                               kmf_samples_class(e->samples, (size_t)a->probe[i]),
                               kmf_samples_class(e->samples, (size_t)a->knn[i]), a->cluster[i]);
    }
    return status;
}

static void warn_of_missing(const eval *e, const row *r)
{
    if (r->result.without_train + r->result.without_test > 0)
        cli_warn(
            e->run,
            "%s: %zu records to train and %zu to test have no %s: those are not learnt from, "
            "these count as of the most frequent class",
            r->model, r->result.without_train, r->result.without_test,
            e->args->labelled.rows ? "vector" : "valid k-mer");
}

/* The same sequence is the commonest reason by far, or its reverse complement. */
static void warn_of_repeated(const eval *e, const row *r)
{
    if (r->result.repeated > 0)
        cli_warn(
            e->run,
            "%s: %zu of %zu records to test have the very vector of one to train: the same "
            "sequences?",
            r->model, r->result.repeated, e->info.n_test);
}

typedef struct judging {
    cli_progress line;
    const char *model;
} judging;

static void show_progress(void *user, const char *doing, double share)
{
    judging *j = user;
    if (cli_progress_due(&j->line))
        cli_progress_show(&j->line, "%s: %s, %.0f %%", j->model, doing, 100 * share);
}

static void show_probe(void *user, const kmf_probe_progress *now)
{
    judging *j = user;
    cli_progress_probe(&j->line, j->model, now);
}

static float *embed(const eval *e, const char *model, row *r, kmf_err *err)
{
    cli run = *e->run;
    float *x = NULL;
    kmf_embedder *embedder = cli_labelled_embedder(&e->args->labelled, model, false, err);
    if (!embedder)
        return NULL;
    r->dim = kmf_embedder_dim(embedder);
    r->model = cli_plain_name(kmf_embedder_name(embedder));
    if (e->args->models.n > 1)
        run.about = r->model;
    x = cli_labelled_embed(&run, &e->args->labelled, e->samples, &e->info, embedder, err);
    kmf_embedder_free(embedder);
    return x;
}

static float *take_rows(const eval *e, row *r, kmf_err *err)
{
    r->model = cli_plain_name(e->args->labelled.train);
    return cli_labelled_rows(e->samples, &e->info, &r->dim, err);
}

/* model: the default one if NULL; of rows there is none */
static int judge(eval *e, const char *model, row *r, kmf_err *err)
{
    judging progress;
    kmf_eval_options opts = e->args->opts;
    double begun = cli_now();
    float *x = kmf_samples_rows(e->samples) ? take_rows(e, r, err) : embed(e, model, r, err);
    if (!x)
        return (int)err->code;
    r->embed_seconds = cli_now() - begun;
    cli_note(e->run, "%s: %zu columns, %.2f s to embed; judging", r->model ? r->model : "",
             r->dim, r->embed_seconds);
    begun = cli_now();
    progress.model = r->model ? r->model : "";
    cli_progress_start(&progress.line, e->run);
    opts.fn = show_progress;
    opts.user = &progress;
    opts.probe.fn = show_probe;
    opts.probe.user = &progress;
    int status = kmf_evaluate(e->samples, &e->info, x, r->dim, &opts, e->pool, &r->result,
                              &e->answers, err);
    cli_progress_end();
    free(x);
    if (status == 0 && !r->model)
        status = cli_raise(err, KMF_ENOMEM, "out of memory");
    if (status < 0)
        return status;
    warn_of_missing(e, r);
    warn_of_repeated(e, r);
    cli_note(e->run, "%s: %.2f s to judge", r->model, cli_now() - begun);
    return put_predictions(e, r, err);
}

/* ---------------------------------------------------------------- tables ---------------- */

typedef struct score {
    const char *name;
    const kmf_interval *value;
} score;

enum { N_SCORES = 5 };

static void list_scores(score scores[N_SCORES], const kmf_eval_result *r)
{
    const score all[N_SCORES] = {{"accuracy", &r->accuracy},
                                 {"macro_f1", &r->macro_f1},
                                 {"mcc", &r->mcc},
                                 {"auc", &r->auc},
                                 {"knn", &r->knn}};
    memcpy(scores, all, sizeof all);
}

/* What cannot be told is a point, in JSON null. */
static void put_number(FILE *to, const char *before, int digits, double value, const char *none)
{
    fputs(before, to);
    if (isnan(value))
        fputs(none, to);
    else
        fprintf(to, "%.*f", digits, value);
}

/* The same with all digits. */
static void put_exact(FILE *to, const char *before, double value, const char *none)
{
    fputs(before, to);
    if (isnan(value))
        fputs(none, to);
    else
        fprintf(to, "%.15g", value);
}

static const char *interval_text(char text[40], const kmf_interval *v)
{
    if (isnan(v->low))
        snprintf(text, 40, "%.4f", v->value);
    else
        snprintf(text, 40, "%.4f (%.4f-%.4f)", v->value, v->low, v->high);
    return text;
}

static void put_table(FILE *to, const eval *e)
{
    int width = 5;
    for (size_t i = 0; i < e->n_rows; i++) {
        int n = (int)strlen(e->rows[i].model);
        width = n > width ? n : width;
    }
    fprintf(to, "%-*s %5s %7s  %-22s %8s %7s %6s  %-22s %7s %6s %6s  %-11s  %s\n", width,
            "model", "dim", "records", "accuracy", "macro-F1", "MCC", "AUC", "kNN", "ARI",
            "NMI", "L2", "probe-scale", "scale");
    for (size_t i = 0; i < e->n_rows; i++) {
        const row *r = &e->rows[i];
        char accuracy[40];
        char knn[40];
        fprintf(to, "%-*s %5zu %7zu  %-22s %8.4f %7.4f ", width, r->model, r->dim,
                e->info.n_test, interval_text(accuracy, &r->result.accuracy),
                r->result.macro_f1.value, r->result.mcc.value);
        put_number(to, "", 4, r->result.auc.value, "     .");
        char ari[16] = ".";
        char nmi[16] = ".";
        if (!isnan(r->result.ari)) {
            snprintf(ari, sizeof ari, "%.4f", r->result.ari);
            snprintf(nmi, sizeof nmi, "%.4f", r->result.nmi);
        }
        fprintf(to, "  %-22s %7s %6s %6g  %-11s  %s\n", interval_text(knn, &r->result.knn), ari,
                nmi, r->result.l2, kmf_probe_scale_names[r->result.probe_scale],
                kmf_scale_names[r->result.scale]);
    }
}

static void put_tsv(FILE *to, const eval *e)
{
    score s[N_SCORES];
    fputs("#model\tdim\trecords\tclasses", to);
    list_scores(s, &e->rows[0].result);
    for (size_t j = 0; j < N_SCORES; j++)
        fprintf(to, "\t%s\t%s_low\t%s_high", s[j].name, s[j].name, s[j].name);
    fputs("\tari\tnmi\tl2\tprobe_scale\tscale\twithout_vector\n", to);
    for (size_t i = 0; i < e->n_rows; i++) {
        const row *r = &e->rows[i];
        fprintf(to, "%s\t%zu\t%zu\t%zu", r->model, r->dim, e->info.n_test, e->info.n_classes);
        list_scores(s, &r->result);
        for (size_t j = 0; j < N_SCORES; j++) {
            put_number(to, "\t", 6, s[j].value->value, ".");
            put_number(to, "\t", 6, s[j].value->low, ".");
            put_number(to, "\t", 6, s[j].value->high, ".");
        }
        put_exact(to, "\t", r->result.ari, ".");
        put_exact(to, "\t", r->result.nmi, ".");
        fprintf(to, "\t%g\t%s\t%s\t%zu\n", r->result.l2,
                kmf_probe_scale_names[r->result.probe_scale], kmf_scale_names[r->result.scale],
                r->result.without_test);
    }
}

static int put_json_text(FILE *to, const char *before, const char *text, kmf_err *err)
{
    char *string = kmf_json_string(text, err);
    if (!string)
        return KMF_ENOMEM;
    fprintf(to, "%s%s", before, string);
    kmf_text_free(string);
    return 0;
}

static int put_json_row(FILE *to, const eval *e, const row *r, kmf_err *err)
{
    score s[N_SCORES];
    int status = put_json_text(to, "    {\"model\": ", r->model, err);
    if (status < 0)
        return status;
    fprintf(to, ", \"dim\": %zu", r->dim);
    list_scores(s, &r->result);
    for (size_t j = 0; j < N_SCORES; j++) {
        fprintf(to, ",\n     \"%s\": {\"value\": ", s[j].name);
        put_number(to, "", 10, s[j].value->value, "null");
        put_number(to, ", \"low\": ", 10, s[j].value->low, "null");
        put_number(to, ", \"high\": ", 10, s[j].value->high, "null");
        fputc('}', to);
    }
    put_exact(to, ",\n     \"ari\": ", r->result.ari, "null");
    put_exact(to, ", \"nmi\": ", r->result.nmi, "null");
    fprintf(to,
            ", \"l2\": %g, \"probe_scale\": \"%s\", "
            "\"scale\": \"%s\", \"without_vector\": %zu, \"embed_seconds\": %.3f}%s\n",
            r->result.l2, kmf_probe_scale_names[r->result.probe_scale],
            kmf_scale_names[r->result.scale], r->result.without_test, r->embed_seconds,
            r + 1 < e->rows + e->n_rows ? "," : "");
    return 0;
}

static int put_json(FILE *to, const eval *e, kmf_err *err)
{
    const kmf_eval_options *o = &e->args->opts;
    fputs("{\n  \"program\": \"kmerformer\"", to);
    int status = put_json_text(to, ", \"version\": ", kmf_version(), err);
    if (status == 0)
        status = put_json_text(to, ", \"command\": ", e->run->command_line, err);
    fprintf(to,
            ",\n  \"classes\": %zu, \"train\": %zu, \"dev\": %zu, \"test\": %zu, \"left_out\": "
            "%zu, \"unknown\": %zu,\n  \"neighbours\": %zu, \"restarts\": %d, \"resamples\": "
            "%d, \"seed\": %llu,\n  \"models\": [\n",
            e->info.n_classes, e->info.n_train, e->info.n_dev, e->info.n_test, e->info.left_out,
            e->info.unknown, o->k, o->restarts, o->resamples, (unsigned long long)o->seed);
    for (size_t i = 0; i < e->n_rows && status == 0; i++)
        status = put_json_row(to, e, &e->rows[i], err);
    fputs("  ]\n}\n", to);
    return status;
}

static int put_rows(kmf_out *out, const eval *e, kmf_err *err)
{
    char *text = NULL;
    size_t n = 0;
    int status = 0;
    FILE *to = open_memstream(&text, &n);
    if (!to)
        return cli_raise(err, KMF_ENOMEM, "out of memory");
    if (e->args->format == FORMAT_JSON)
        status = put_json(to, e, err);
    else if (e->args->format == FORMAT_TSV)
        put_tsv(to, e);
    else
        put_table(to, e);
    bool bad = ferror(to) != 0;
    if ((fclose(to) != 0 || bad) && status == 0)
        status = cli_raise(err, KMF_ENOMEM, "out of memory");
    if (status == 0)
        status = kmf_out_write(out, text, n, err);
    if (status == 0)
        status = kmf_out_finish(out, err);
    free(text);
    return status;
}

/* ---------------------------------------------------------------- the run --------------- */

/* Before any is judged, which takes long: can all be opened? */
static int check_models(const eval_args *a, kmf_err *err)
{
    for (size_t i = 0; i < a->models.n && !a->labelled.rows; i++) {
        kmf_embedder *embedder =
            cli_labelled_embedder(&a->labelled, a->models.texts[i], false, err);
        if (!embedder)
            return (int)err->code;
        kmf_embedder_free(embedder);
    }
    return 0;
}

static int prepare(eval *e, kmf_err *err)
{
    const eval_args *a = e->args;
    if (cli_check_output(a->out, err) < 0 ||
        (a->predictions && cli_check_output(a->predictions, err) < 0))
        return (int)err->code;
    if (check_models(a, err) < 0)
        return (int)err->code;
    e->samples = cli_labelled_read(e->run, &a->labelled, &e->info, err);
    if (!e->samples || kmf_helpers_new(&e->pool, a->labelled.embed.threads, err) < 0)
        return (int)err->code;
    if (!a->predictions)
        return 0;
    e->answers.probe = calloc(e->info.n_test, sizeof *e->answers.probe);
    e->answers.knn = calloc(e->info.n_test, sizeof *e->answers.knn);
    e->answers.cluster = calloc(e->info.n_test, sizeof *e->answers.cluster);
    if (!e->answers.probe || !e->answers.knn || !e->answers.cluster)
        return cli_raise(err, KMF_ENOMEM, "out of memory");
    e->predictions = kmf_out_open(a->predictions, err);
    return e->predictions ? kmf_out_print(e->predictions, err,
                                          "#model\tname\tlabel\tprobe\tknn\tcluster\n")
                          : KMF_EIO;
}

/* Both are whole before the first has its name, so that a full disk leaves neither. */
static int finish(eval *e, kmf_err *err)
{
    int status = e->predictions ? kmf_out_finish(e->predictions, err) : 0;
    kmf_out *table = status == 0 ? kmf_out_open(e->args->out, err) : NULL;
    status = table ? 0 : (int)err->code;
    cli_hold_signals();
    if (status == 0)
        status = put_rows(table, e, err);
    if (status == 0 && e->predictions)
        status = kmf_out_publish(e->predictions, err);
    if (status == 0)
        status = kmf_out_publish(table, err);
    kmf_out_free(table);
    cli_release_signals(status == 0);
    return status;
}

static void release(eval *e)
{
    kmf_samples_free(e->samples);
    kmf_pool_free(e->pool);
    kmf_out_free(e->predictions);
    free(e->answers.probe);
    free(e->answers.knn);
    free(e->answers.cluster);
    for (size_t i = 0; i < CLI_LIST_MAX; i++)
        free(e->rows[i].model);
}

int cli_eval(cli *run, int argc, char **argv)
{
    kmf_err err = {0};
    eval_args a = {.out = "-", .split = SPLIT_UNSET};
    eval e = {.run = run, .args = &a};
    cli_labelled_default(&a.labelled);
    kmf_eval_options_default(&a.opts);
    int leave = parse(run, &a, argc, argv);
    if (leave < 0)
        leave = settle(run, &a, &err);
    if (leave >= 0)
        return leave;
    int status = prepare(&e, &err);
    for (; e.n_rows < a.models.n && status == 0; e.n_rows++)
        status = judge(&e, a.models.texts[e.n_rows], &e.rows[e.n_rows], &err);
    if (status == 0)
        status = finish(&e, &err);
    if (status == 0)
        cli_note(run, "%.2f s, %.2f s of processor time; peak memory %.0f MB",
                 cli_now() - run->started, cli_cpu_seconds(), 1e-6 * cli_peak_memory());
    release(&e);
    return status == 0 ? CLI_DONE : cli_fail(run, &err);
}
