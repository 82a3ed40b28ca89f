/* SPDX-License-Identifier: MIT */
/* Labelled records on the command line: what `eval` and `probe train` have in common. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

void cli_labelled_default(cli_labelled *l)
{
    *l = (cli_labelled){0};
    kmf_labelled_options_default(&l->input);
    kmf_samples_options_default(&l->samples);
    kmf_embed_options_default(&l->embed);
    l->embed.threads = kmf_threads_default();
}

/* ---------------------------------------------------------------- inputs ---------------- */

#define N_INPUTS (KMF_N_ROLES + 5)

static const char *const part_names[KMF_N_ROLES] = {"train", "dev", "test"};

/* The parts come first. */
static void list_inputs(const cli_labelled *l, const char *inputs[N_INPUTS])
{
    const char *const all[N_INPUTS] = {
        l->train,
        l->dev,
        l->test,
        l->input.labels,
        l->dev_labels,
        l->test_labels,
        l->input.reader.bed,
        l->input.reader.reference,
    };
    memcpy(inputs, all, sizeof all);
}

/* A part's own labels; NULL: it has those of --labels, if anything. */
static const char *own_labels(const cli_labelled *l, kmf_role role)
{
    return role == KMF_ROLE_DEV ? l->dev_labels : role == KMF_ROLE_TEST ? l->test_labels : NULL;
}

/* How a part is read. */
static kmf_labelled_options input_of(const cli_labelled *l, kmf_role role)
{
    kmf_labelled_options input = l->input;
    const char *own = own_labels(l, role);
    if (own) {
        input.labels = own;
        input.key = input.rank = NULL;
    }
    return input;
}

/* What is judged by, or chosen by, is none of what is learnt from. */
static int check_parts(const char *const inputs[KMF_N_ROLES], kmf_err *err)
{
    for (size_t i = 0; i < KMF_N_ROLES; i++)
        for (size_t j = i + 1; j < KMF_N_ROLES; j++)
            if (inputs[j] && cli_given_as_well(inputs[j], &inputs[i], 1))
                return cli_raise(err, KMF_EINVAL, "--%s %s: that is the input of --%s, too",
                                 part_names[j], inputs[j], part_names[i]);
    return 0;
}

/* Labels are of parts that are there, and a file for several parts can be read so often. */
static int check_labels(const cli_labelled *l, const char *const parts[KMF_N_ROLES],
                        kmf_err *err)
{
    size_t readers = 0;
    if (l->input.labels && l->input.key)
        return cli_raise(err, KMF_EINVAL, "--labels and --label-key: one of them, not both");
    if (l->input.rank && !l->input.key)
        return cli_raise(err, KMF_EINVAL,
                         "--label-rank is of what --label-key finds: give both");
    for (kmf_role role = 0; role < KMF_N_ROLES; role++) {
        const char *own = own_labels(l, role);
        if (own && !parts[role])
            return cli_raise(err, KMF_EINVAL, "--%s-labels: there is no --%s that has them",
                             part_names[role], part_names[role]);
        readers += parts[role] && !own;
    }
    if (l->input.labels && readers > 1 && !cli_is_file(l->input.labels))
        return cli_raise(err, KMF_EINVAL,
                         "--labels %s: it is read for each part anew, and this can be read "
                         "once: give a file",
                         l->input.labels);
    return 0;
}

/* What is asked of vectors that are to be made. */
static const char *asked_of_vectors(const cli_labelled *l)
{
    const kmf_embed_options *e = &l->embed;
    const kmf_reader_options *r = &l->input.reader;
    kmf_embed_options usual;
    kmf_embed_options_default(&usual);
    const struct {
        bool asked;
        const char *option;
    } options[] = {{e->pooling != usual.pooling, "--pool"},
                   {e->layer != usual.layer, "--layer"},
                   {e->parts != usual.parts, "--parts"},
                   {e->strand != usual.strand, "--strand"},
                   {e->stride != usual.stride, "--stride"},
                   {e->exact != usual.exact, "--exact"},
                   {e->precision != usual.precision, "--precision"},
                   {r->regions != NULL, "--regions"},
                   {r->bed != NULL, "--bed"},
                   {r->bed_names, "--bed-names"},
                   {r->reference != NULL, "--reference"}};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        if (options[i].asked)
            return options[i].option;
    return NULL;
}

/* Arrays have names alone, and are what they are. */
static int check_rows(const cli_labelled *l, const char *const parts[KMF_N_ROLES], kmf_err *err)
{
    const char *asked = asked_of_vectors(l);
    for (size_t i = 0; i < KMF_N_ROLES; i++)
        if (parts[i] && cli_is_array(parts[i]) != l->rows)
            return cli_raise(err, KMF_EINVAL,
                             "%s: all parts are sequences, or all are vectors as --train %s",
                             parts[i], l->rows ? "is" : "is not");
    if (!l->rows)
        return 0;
    if (asked)
        return cli_raise(err, KMF_EINVAL,
                         "%s: the vectors of %s are made already: leave it out", asked,
                         l->train);
    for (kmf_role role = 0; role < KMF_N_ROLES; role++)
        if (parts[role] && !input_of(l, role).labels)
            return cli_raise(err, KMF_EINVAL,
                             "%s: the labels of vectors are in a file of lines "
                             "name<tab>label: --labels",
                             parts[role]);
    return 0;
}

int cli_labelled_check(cli_labelled *l, kmf_err *err)
{
    const char *inputs[N_INPUTS];
    list_inputs(l, inputs);
    l->rows = cli_is_array(l->train);
    int status = cli_check_inputs(inputs, KMF_N_ROLES, &l->input.reader, err);
    if (status == 0) /* labels and regions, too, are read once from standard input, if at all */
        status = cli_check_inputs(inputs, N_INPUTS - 1, NULL, err);
    if (status == 0)
        status = check_labels(l, inputs, err);
    if (status == 0)
        status = check_parts(inputs, err);
    if (status == 0)
        status = check_rows(l, inputs, err);
    return status;
}

bool cli_labelled_is_input(const cli_labelled *l, const char *out)
{
    const char *inputs[N_INPUTS];
    list_inputs(l, inputs);
    return cli_is_an_input(out, inputs, N_INPUTS);
}

/* ---------------------------------------------------------------- reading --------------- */

static int read_records(const cli *run, const kmf_labelled_options *opts, kmf_samples *samples,
                        kmf_role role, const char *path, kmf_err *err)
{
    kmf_reader_stats stats;
    kmf_labelled *input = kmf_labelled_open(path, opts, NULL, err);
    if (!input)
        return (int)err->code;
    int status = kmf_samples_read(samples, role, input, err);
    kmf_labelled_statistics(input, &stats);
    kmf_labelled_close(input);
    if (status == 0)
        cli_warn_of_reading(run, path, &opts->reader, &stats);
    return status;
}

void cli_warn_of_rows(const cli *run, const char *path, const kmf_row_file_info *info)
{
    if (!info->model)
        cli_warn(run, "%s: no .json beside it tells how its vectors were made", path);
    if (!info->named)
        cli_warn(run, "%s: no .ids.tsv beside it tells names: its rows are numbered, from 1",
                 path);
}

/* *named: 0 where its rows have numbers for names. */
static int read_rows(const cli *run, const kmf_labelled_options *opts, kmf_samples *samples,
                     kmf_role role, const char *path, bool *named, kmf_err *err)
{
    kmf_row_file_info info;
    kmf_row_file *file = kmf_row_file_open(path, err);
    if (!file)
        return (int)err->code;
    kmf_row_file_information(file, &info);
    cli_warn_of_rows(run, path, &info);
    kmf_row_file_close(file);
    *named = info.named;
    return kmf_samples_read_rows(samples, role, path, opts, err);
}

static int read_part(const cli *run, const cli_labelled *l, kmf_samples *samples, kmf_role role,
                     const char *path, bool *named, kmf_err *err)
{
    kmf_err cause = {0};
    kmf_labelled_options opts = input_of(l, role);
    *named = true;
    if (!path)
        return 0;
    int status = l->rows ? read_rows(run, &opts, samples, role, path, named, &cause)
                         : read_records(run, &opts, samples, role, path, &cause);
    if (status == 0)
        return 0;
    bool empty = cause.code == KMF_EFORMAT && strncmp(cause.msg, "no records to ", 14) == 0;
    return cli_raise(err, cause.code, "%s%s%s", empty ? path : "", empty ? ": " : "",
                     cause.msg);
}

/* A spreadsheet's "A " is another class than "A". */
static void warn_of_blanks(const cli *run, const kmf_samples *samples, size_t n_classes)
{
    size_t n = 0;
    const char *first = NULL;
    for (size_t i = 0; i < n_classes; i++) {
        const char *name = kmf_samples_class(samples, i);
        size_t len = strlen(name);
        if (len == 0 || (name[0] != ' ' && name[len - 1] != ' '))
            continue;
        first = first ? first : name;
        n++;
    }
    if (n > 0)
        cli_warn(run,
                 "%zu of %zu classes begin or end with a blank, such as '%s': they are others "
                 "than those without it",
                 n, n_classes, first);
}

static void tell(const cli *run, const cli_labelled *l, const kmf_samples *samples,
                 const kmf_samples_info *info)
{
    warn_of_blanks(run, samples, info->n_all);
    if (info->unlabelled > 0)
        cli_warn(run, "%zu records have no label and are left out (--skip-unlabelled)",
                 info->unlabelled);
    if (info->left_out > 0)
        cli_warn(run,
                 "%zu records are left out: their classes, %zu, have fewer than %zu records to "
                 "train (--min-class)",
                 info->left_out, info->classes_left_out, l->samples.min_class);
    if (info->unknown > 0)
        cli_warn(run,
                 "%zu records to test are of %zu classes that training lacks: they count as "
                 "mistakes",
                 info->unknown, info->classes_unknown);
    if (info->dev_unknown > 0)
        cli_warn(run,
                 "%zu records to choose by are of classes that training lacks: they count as "
                 "mistakes, whatever is chosen",
                 info->dev_unknown);
    cli_note(run, "%zu classes; %zu records to train, %zu %s to choose by, %zu to test",
             info->n_classes, info->n_train, info->n_dev, l->dev ? "others" : "of them",
             info->n_test);
}

/* Have both parts their labels from one file, by the names of records? */
static bool share_labels(const cli_labelled *l, kmf_role a, kmf_role b)
{
    const char *one = input_of(l, a).labels;
    const char *other = input_of(l, b).labels;
    return one && other && cli_same_place(one, other);
}

/* Of two such parts. */
static int check_names(const cli *run, const kmf_samples *samples, kmf_role a, kmf_role b,
                       bool numbered, kmf_err *err)
{
    size_t n;
    const char *name;
    int status = kmf_samples_alike(samples, a, b, &n, &name, err);
    if (status < 0 || n == 0)
        return status;
    if (numbered)
        return cli_raise(
            err, KMF_EINVAL,
            "the rows of --%s and of --%s have numbers for names, by which one file "
            "of labels cannot tell them apart: give another one as --%s-labels",
            part_names[a], part_names[b], part_names[b]);
    cli_warn(
        run,
        "%zu records of --%s are called as some of --%s, such as '%s', and have their labels "
        "from one file: if they are others, give another one as --%s-labels",
        n, part_names[b], part_names[a], name, part_names[b]);
    return 0;
}

static int read_parts(const cli *run, const cli_labelled *l, kmf_samples *samples, kmf_err *err)
{
    const char *const parts[KMF_N_ROLES] = {l->train, l->dev, l->test};
    bool named[KMF_N_ROLES];
    for (kmf_role b = 0; b < KMF_N_ROLES; b++) {
        int status = read_part(run, l, samples, b, parts[b], &named[b], err);
        for (kmf_role a = 0; a < b && status == 0; a++)
            if (parts[a] && parts[b] && share_labels(l, a, b))
                status = check_names(run, samples, a, b, !named[a] && !named[b], err);
        if (status < 0)
            return status;
    }
    return 0;
}

/* Parts that share bases are a warning: scores are of what was learnt. */
static int check_places(const cli *run, const kmf_samples *samples,
                        const kmf_samples_info *info, kmf_err *err)
{
    size_t n;
    const char *name;
    int status = kmf_samples_overlap(samples, info, &n, &name, err);
    if (status == 0 && n > 0)
        cli_warn(run,
                 "%zu of %zu records to test have, by their names, bases of records to train, "
                 "such as %s: scores tell little",
                 n, info->n_test, name);
    return status;
}

kmf_samples *cli_labelled_read(const cli *run, const cli_labelled *l, kmf_samples_info *info,
                               kmf_err *err)
{
    kmf_samples *samples = kmf_samples_new(err);
    if (samples && read_parts(run, l, samples, err) == 0 &&
        kmf_samples_settle(samples, &l->samples, info, err) == 0 &&
        check_places(run, samples, info, err) == 0) {
        tell(run, l, samples, info);
        return samples;
    }
    kmf_samples_free(samples);
    return NULL;
}

/* ---------------------------------------------------------------- vectors --------------- */

kmf_embedder *cli_labelled_embedder(const cli_labelled *l, const char *model, bool identity,
                                    kmf_err *err)
{
    kmf_embed_options opts = l->embed;
    int kind = kmf_embedder_kind_of(model, err);
    if (kind < 0)
        return NULL;
    if (l->some_have && kind != KMF_EMBEDDER_ENCODER) {
        kmf_embed_options_default(&opts);
        opts.threads = l->embed.threads;
        opts.strand = l->embed.strand;
        opts.stride = kind == KMF_EMBEDDER_VECTORS ? l->embed.stride : 0;
    }
    if (kmf_is_random(model))
        opts.seed = l->samples.seed;
    opts.provenance = identity;
    return kmf_embedder_new(model, &opts, err);
}

typedef struct embedding {
    cli_progress line;
    const kmf_embedder *embedder;
    size_t n;
} embedding;

static void show_progress(void *user, uint64_t tokens)
{
    embedding *e = user;
    kmf_embed_stats s;
    (void)tokens;
    if (!cli_progress_due(&e->line))
        return;
    kmf_embedder_statistics(e->embedder, &s);
    cli_progress_show(&e->line, "%s: %llu of %zu records", kmf_embedder_name(e->embedder),
                      (unsigned long long)s.records, e->n);
}

static float *room(const kmf_samples_info *info, size_t dim, kmf_err *err)
{
    float *x = calloc(info->n, dim * sizeof *x);
    if (!x)
        cli_raise(err, KMF_ENOMEM, "out of memory: no room for %zu vectors of %zu numbers",
                  info->n, dim);
    return x;
}

float *cli_labelled_embed(const cli *run, const cli_labelled *l, const kmf_samples *samples,
                          const kmf_samples_info *info, kmf_embedder *embedder, kmf_err *err)
{
    embedding e = {.embedder = embedder, .n = info->n};
    float *x = room(info, kmf_embedder_dim(embedder), err);
    if (!x)
        return NULL;
    cli_warn_of_vectors(run, embedder, &l->embed);
    cli_progress_start(&e.line, run);
    kmf_embedder_progress(embedder, show_progress, &e);
    int status = kmf_samples_embed(samples, embedder, x, err);
    kmf_embedder_progress(embedder, NULL, NULL);
    cli_progress_end();
    if (status == 0) {
        cli_tell_of_embedding(run, embedder, false);
        return x;
    }
    free(x);
    return NULL;
}

float *cli_labelled_rows(const kmf_samples *samples, const kmf_samples_info *info, size_t *dim,
                         kmf_err *err)
{
    kmf_row_file_info rows;
    kmf_row_file_information(kmf_samples_rows(samples), &rows);
    float *x = room(info, rows.dim, err);
    *dim = rows.dim;
    if (x && kmf_samples_vectors(samples, x, err) < 0) {
        free(x);
        return NULL;
    }
    return x;
}
