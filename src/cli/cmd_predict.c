/* SPDX-License-Identifier: MIT */
/*
 * kmerformer probe predict: the labels of records.
 *
 *   records -> vectors, by the model that the probe names -> the probe -> a line of labels
 *   x.npy of embed, which are such vectors -----------------> the probe -> a line of labels
 */
#include "cli/cli.h"
#include "cli/embedding.h"

typedef struct predict_args {
    kmf_reader_options reader;
    const char *probe;
    const char *model;
    const char *out;
    int threads;
    int all, top;
    cli_resumable_options keeping;
    bool vectors; /* the inputs are files of them */
} predict_args;

static const cli_usage usage = {
    "probe predict [options] -p PROBE IN...",
    "The most probable label of each record and its probability, as a table: a line for every\n"
    "record, in input order. Records are FASTA, FASTQ, SAM, BAM, CRAM, or a table (csv, tsv)\n"
    "with a column sequence; plain or compressed; '-' is standard input. The vectors are made\n"
    "as those that the probe learnt from; another model than that one is refused. A long run\n"
    "that is stopped is resumed by the same command. Or all IN are arrays, x.npy as embed or\n"
    "another program wrote them, neither compressed nor '-': their rows are classified.",
    1, -1};

/* Which kind the inputs are, all of them; vectors have no model to choose, nor regions. */
static int check_kind(cli *run, predict_args *a, const char *const *paths, size_t n)
{
    const kmf_reader_options *r = &a->reader;
    size_t vectors = 0;
    for (size_t i = 0; i < n; i++)
        vectors += cli_is_array(paths[i]);
    a->vectors = vectors > 0;
    if (vectors > 0 && vectors < n)
        return cli_wrong(run, "vectors and sequences: in two runs");
    if (a->vectors && (a->model || r->regions || r->bed || r->bed_names || r->reference ||
                       r->tile > 0 || r->tile_step > 0 || r->input_names))
        return cli_wrong(run,
                         "%s: the vectors are made; -m, --regions, --bed, --tile, --reference "
                         "and --input-names are of sequences",
                         paths[0]);
    return -1;
}

static int parse(cli *run, predict_args *a, int argc, char **argv, kmf_err *err)
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
                                CLI_READER_OPTIONS(&a->reader),
                                CLI_NAME_OPTION(&a->reader),
                                CLI_TILE_OPTIONS(&a->reader),
                                CLI_THREADS(&a->threads),
                                CLI_RESUMABLE_OPTIONS(&a->keeping, "an encoder, "),
                                CLI_COMMON(run)};
    int leave = cli_parse(run, table, &usage, argc, argv);
    if (leave >= 0)
        return leave;
    const char *const *paths = run->inputs;
    size_t n = run->n_inputs;
    if (!a->probe)
        return cli_wrong(run, "no -p given; usage: kmerformer %s", usage.synopsis);
    if (a->all && a->top > 1)
        return cli_wrong(run, "--all and --top: one of them");
    if (cli_check_inputs(paths, n, &a->reader, err) < 0)
        return cli_fail(run, err);
    leave = check_kind(run, a, paths, n);
    if (leave >= 0)
        return leave;
    const char *const beside[] = {a->probe, a->model, a->reader.bed, a->reader.reference};
    if (cli_is_an_input(a->out, paths, n) || cli_is_an_input(a->out, beside, 4))
        return cli_wrong(run, "-o %s: that is an input", a->out);
    return cli_refuse_table(run, a->out);
}

/* One run of the program: what it is made of, and how far it is. */
typedef struct prediction {
    cli *run;
    const predict_args *args;
    kmf_probe *probe; /* owned, as the two below */
    kmf_embedder *embedder;
    kmf_label_rows *rows;
    cli_resumable resumable;
    cli_embedding at;
    cli_progress line;
    cli_inputs inputs;
    uint64_t rows_here; /* of the file of vectors at hand */
    kmf_embed_stats stats;
} prediction;

static void show_progress(void *user, uint64_t tokens)
{
    prediction *p = user;
    kmf_embed_stats s;
    char left[CLI_COUNT_TEXT];
    double seconds = cli_embedding_step(&p->at, tokens, &p->inputs, &s);
    if (cli_progress_due(&p->line))
        cli_progress_show(&p->line, "%llu records done%s", (unsigned long long)s.records,
                          cli_inputs_left(&p->inputs, left, seconds));
}

/* The model that the probe names. */
static int open_model(prediction *p, kmf_err *err)
{
    const predict_args *a = p->args;
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
    cli_warn_of_gaps(p->run, p->embedder);
    return 0;
}

/* Of all files, before there is an output: the first line of a table is not taken back. */
static int check_vectors(const prediction *p, kmf_err *err)
{
    int status = 0;
    for (size_t i = 0; i < p->resumable.n_paths && status == 0; i++) {
        const char *path = p->resumable.paths[i];
        kmf_row_file_info info;
        kmf_row_file *file = kmf_row_file_open(path, err);
        if (!file)
            return (int)err->code;
        kmf_row_file_information(file, &info);
        status = kmf_row_file_check_records(file, err);
        if (status == 0)
            status = kmf_row_file_check(file, kmf_probe_identity(p->probe), err);
        if (status == 0)
            cli_warn_of_rows(p->run, path, &info);
        kmf_row_file_close(file);
    }
    return status;
}

/* Probe, model and rows. */
static int prepare(prediction *p, kmf_err *err)
{
    const predict_args *a = p->args;
    kmf_err own = {0};
    p->probe = kmf_probe_load(a->probe, &own);
    if (!p->probe)
        return cli_raise(err, own.code, "%s%s", own.msg,
                         own.code == KMF_EMODEL ? " (-p takes what probe train writes)" : "");
    if ((a->vectors ? check_vectors(p, err) : open_model(p, err)) < 0)
        return (int)err->code;
    size_t n = kmf_probe_n_classes(p->probe);
    size_t top = (size_t)a->top < n ? (size_t)a->top : n;
    p->rows = kmf_label_rows_new(p->probe, top, a->all, err);
    return p->rows ? 0 : (int)err->code;
}

static int predict_records(prediction *p, kmf_err *err)
{
    const cli_resumable *k = &p->resumable;
    int status = 0;
    cli_inputs_start(&p->inputs, k->paths, k->n_paths, k->reader);
    cli_progress_start(&p->line, p->run);
    kmf_embedder_progress(p->embedder, show_progress, p);
    for (size_t i = 0; i < k->n_paths && status == 0; i++)
        status = cli_embedding_read(&p->at, k->paths[i], &p->inputs, err);
    if (status == 0)
        status = kmf_embedder_finish(p->embedder, err);
    cli_progress_end();
    kmf_embedder_statistics(p->embedder, &p->stats);
    if (status == 0)
        cli_tell_of_embedding(p->run, p->embedder, false);
    return status;
}

static void show_rows(void *user, uint64_t rows)
{
    prediction *p = user;
    if (cli_progress_due(&p->line))
        cli_progress_show(&p->line, "%llu of %llu rows done", (unsigned long long)rows,
                          (unsigned long long)p->rows_here);
}

static int predict_vectors(prediction *p, kmf_pool *pool, const char *path, kmf_err *err)
{
    kmf_row_file_info info;
    kmf_row_file *file = kmf_row_file_open(path, err);
    if (!file)
        return (int)err->code;
    kmf_row_file_information(file, &info);
    p->rows_here = info.n;
    int status =
        kmf_row_file_copy(file, p->resumable.output, pool, &p->stats, show_rows, p, err);
    kmf_row_file_close(file);
    return status;
}

static int predict_all_vectors(prediction *p, kmf_err *err)
{
    const cli_resumable *k = &p->resumable;
    kmf_pool *pool;
    int status = kmf_helpers_new(&pool, p->args->threads, err);
    if (status < 0)
        return status;
    cli_progress_start(&p->line, p->run);
    for (size_t i = 0; i < k->n_paths && status == 0; i++)
        status = predict_vectors(p, pool, k->paths[i], err);
    cli_progress_end();
    kmf_pool_free(pool);
    return status;
}

static int predict(prediction *p, kmf_err *err)
{
    cli_resumable *k = &p->resumable;
    int status = prepare(p, err);
    if (status < 0)
        return status;
    const kmf_output_form form = {.dim = kmf_probe_dim(p->probe),
                                  .format = kmf_label_rows_format(p->rows)};
    status = p->args->vectors ? cli_resumable_open(k, NULL, &form, err)
                              : cli_embedding_open(&p->at, k, p->embedder, &form, err);
    if (status < 0)
        return status;
    status = p->args->vectors ? predict_all_vectors(p, err) : predict_records(p, err);
    if (status < 0)
        return status;
    return cli_resumable_finish(k, NULL, err);
}

int cli_probe_predict(cli *run, int argc, char **argv)
{
    kmf_err err = {0};
    predict_args a = {.out = "-",
                      .threads = kmf_threads_default(),
                      .top = 1,
                      .keeping = CLI_RESUMABLE_DEFAULT};
    prediction p = {.run = run, .args = &a};
    char before[CLI_BEFORE_TEXT];
    kmf_reader_options_default(&a.reader);
    int leave = parse(run, &a, argc, argv, &err);
    if (leave >= 0)
        return leave;
    cli_resumable_init(&p.resumable, run, &a.keeping, a.out, run->inputs, run->n_inputs,
                       &a.reader);
    const char *const others[] = {a.probe, a.model, a.reader.bed, a.reader.reference};
    leave = cli_resumable_refuse(&p.resumable, others, sizeof others / sizeof others[0]);
    if (leave >= 0)
        return leave;
    cli_resumable_start(&p.resumable);
    cli_warn_of_twice(run, p.resumable.paths, p.resumable.n_paths, "so are its lines");
    int status = predict(&p, &err);
    if (status == 0) {
        if (p.stats.empty > 0)
            cli_warn(run, "%llu records have no %s: NA in place of a label",
                     (unsigned long long)p.stats.empty, a.vectors ? "vector" : "valid k-mer");
        cli_note(run, "%llu records%s, %.3f Mbp in %.2f s", (unsigned long long)p.stats.records,
                 cli_told_before(before, p.at.before.records),
                 1e-6 * (double)(p.stats.bases - p.at.before.bases), cli_now() - run->started);
    }
    int code = status == 0 ? CLI_DONE : cli_fail(run, &err);
    kmf_embedder_free(p.embedder);
    cli_resumable_end(&p.resumable, status < 0);
    kmf_label_rows_free(p.rows);
    kmf_probe_free(p.probe);
    return code;
}
