/* SPDX-License-Identifier: MIT */
/*
 * kmerformer eval bits: what models know of masked bases, beside Markov models and copying.
 *
 * Each model is asked as a pretraining validates it: it is one whose validation comes before its
 * first step. What stands beside it is counted on the background, never on what is asked for.
 */
#include "cli/cli.h"

#include <stdlib.h>

#define HEADER "#model\tbits\tmarkov_bits\tmarkov_order\tcopy_bits\thidden_bases\twindows\n"

static const char *const precisions[] = {"f32", "bf16", NULL};

typedef struct bits_args {
    kmf_pretrain_options opts;
    kmf_reader_options reader;
    cli_list models;
    cli_list background;
    const char *out;
} bits_args;

static const cli_usage usage = {
    "eval bits [options] GENOME...",
    "Bits that models need per masked base of genomes, a line for each model (2: no\n"
    "information). Spans of bases are masked with all k-mers that overlap them, in windows\n"
    "spread evenly over the genomes. For comparison: the best Markov model of order 1 to 12\n"
    "of the --background, given the preceding bases, and copying from visible k-mers. Without\n"
    "a background the Markov models learn from the first half of every record, and the\n"
    "windows lie in the second; reads, which overlap, tell of each other's, and want a\n"
    "background. For models with a masked-language-model head that kmerformer\n"
    "pretrain can continue.",
    1, -1};

static int parse(cli *run, bits_args *a, int argc, char **argv)
{
    kmf_pretrain_options *o = &a->opts;
    const cli_option table[] = {
        CLI_HEADING("models"),
        {"m", "model", CLI_LIST, &a->models, 0, 0, NULL, "MODEL",
         "model directory, or one safetensors file of a model, once for each", 0,
         "the default model"},
        CLI_HEADING("masking"),
        {NULL, "background", CLI_LIST, &a->background, 0, 0, NULL, "GENOME",
         "what the Markov models learn from, once for each file", 0,
         "the first halves of the records"},
        {NULL, "windows", CLI_COUNT, &o->val_windows, 1, 10000000, NULL, "N",
         "windows of the model's length", 0, NULL},
        {NULL, "window", CLI_SIZE, &o->window, 8, 65536, NULL, "T", "tokens of a window", 0,
         "the model's"},
        {NULL, "stride", CLI_SIZE, &o->stride, 1, 12, NULL, "N",
         "bases from one k-mer to the next", 0, "the model's"},
        {NULL, "mask-rate", CLI_REAL, &o->mask_rate, 0, 0, NULL, "R",
         "share of the bases that is masked, in spans of 1 to 3, one at least in each window",
         0, NULL},
        {NULL, "seed", CLI_SEED, &o->seed, 0, 0, NULL, "N", "of the masks", 0, NULL},
        CLI_HEADING("output"),
        {"o", "output", CLI_TEXT, &a->out, 0, 0, NULL, "FILE", "TSV; -: standard output", 0,
         NULL},
        CLI_HEADING("input"),
        CLI_READER_OPTIONS(&a->reader),
        CLI_HEADING("the run"),
        {NULL, "precision", CLI_CHOICE, &o->precision, 0, 0, precisions, NULL,
         "of matrix products", 0, NULL},
        CLI_THREADS(&o->threads),
        CLI_COMMON(run)};
    return cli_parse(run, table, &usage, argc, argv);
}

/* The background and what is asked for; without one the first halves of that. */
static int read_all(cli *run, const bits_args *a, kmf_pretrain *trainer,
                    const char *const *paths, size_t n, kmf_err *err)
{
    const cli_list *b = &a->background;
    if (b->n == 0)
        return cli_read_genomes(run, trainer, &a->reader, paths, n, NULL, 0, err);
    return cli_read_genomes(run, trainer, &a->reader, b->texts, b->n, paths, n, err);
}

/* A model that can be asked for bases; NULL with *err filled. */
static kmf_pretrain *new_trainer(const bits_args *a, const char *model, kmf_err *err)
{
    kmf_pretrain_options o = a->opts;
    kmf_pretrain_state s;
    o.init = model;
    kmf_pretrain *trainer = kmf_pretrain_new(&o, err);
    if (!trainer)
        return NULL;
    kmf_pretrain_information(trainer, &s);
    if (!s.new_head)
        return trainer;
    cli_raise(err, KMF_EMODEL,
              "%s has no masked-language-model head: it cannot be asked for bases", model);
    kmf_pretrain_free(trainer);
    return NULL;
}

/* One model's line. */
static int judge(cli *run, const bits_args *a, const char *model, const char *const *paths,
                 size_t n, kmf_out *out, kmf_err *err)
{
    kmf_pretrain_state s;
    kmf_pretrain *trainer = new_trainer(a, model, err);
    if (!trainer)
        return (int)err->code;
    int status = read_all(run, a, trainer, paths, n, err);
    if (status == 0)
        status = kmf_pretrain_validate(trainer, err);
    kmf_pretrain_information(trainer, &s);
    if (status == 0 && a->models.texts[0] == model)
        cli_warn_of_precision(run, a->opts.precision, s.precision);
    if (status == 0 && s.val_hidden == 0)
        status = cli_raise(err, KMF_EFORMAT,
                           "%s: of the bases that its k-mers cover none was hidden: more "
                           "sequence is needed, or a larger --mask-rate",
                           model);
    if (status == 0 && s.held_windows < a->opts.val_windows)
        cli_warn(run, "%s: the genomes have %llu windows, not %llu (--windows)", model,
                 (unsigned long long)s.held_windows, (unsigned long long)a->opts.val_windows);
    if (status == 0 && a->models.texts[0] == model) {
        cli_warn_of_left_out(run, &s);
        cli_warn_of_overlap(run, &s);
        status = kmf_out_print(out, err, HEADER);
    }
    char *name = status == 0 ? cli_plain_name(model) : NULL;
    if (status == 0 && !name)
        status = cli_raise(err, KMF_ENOMEM, "out of memory");
    if (status == 0)
        status =
            kmf_out_print(out, err, "%s\t%.6f\t%.6f\t%d\t%.6f\t%llu\t%llu\n", name, s.val_bits,
                          s.markov_bits[s.markov_best], s.markov_best, s.copy_bits,
                          (unsigned long long)s.val_hidden, (unsigned long long)s.held_windows);
    free(name);
    kmf_pretrain_free(trainer);
    return status;
}

/* Are all genomes there, and as often as they are read? -1 to go on, or an exit code. */
static int check_genomes(cli *run, const bits_args *a, const char *const *paths, size_t n,
                         kmf_err *err)
{
    const cli_list *b = &a->background;
    if (cli_check_genomes(&a->reader, paths, n, b->texts, b->n, err) < 0)
        return cli_fail(run, err);
    for (size_t i = 0; i < b->n; i++)
        if (cli_given_as_well(b->texts[i], paths, n))
            return cli_wrong(run,
                             "--background %s: that is an input, too: the Markov models would "
                             "be asked what they have learnt",
                             b->texts[i]);
    const char *again = a->reader.bed && !cli_is_file(a->reader.bed) ? a->reader.bed : NULL;
    for (size_t i = 0; i < n; i++)
        again = cli_is_file(paths[i]) ? again : paths[i];
    for (size_t i = 0; i < b->n; i++)
        again = cli_is_file(b->texts[i]) ? again : b->texts[i];
    if (again && a->models.n > 1)
        return cli_wrong(run, "%s: it can be read once, and every model reads it", again);
    return -1;
}

/* Before the first is asked, which takes long: can the others be? */
static int check_models(const bits_args *a, kmf_err *err)
{
    int status = 0;
    for (size_t i = 1; i < a->models.n && status == 0; i++) {
        kmf_pretrain *trainer = new_trainer(a, a->models.texts[i], err);
        status = trainer ? 0 : (int)err->code;
        kmf_pretrain_free(trainer);
    }
    return status;
}

/* Where the default model is, if no other is given; *owner keeps the name of it. */
static int settle_models(bits_args *a, kmf_model **owner, kmf_err *err)
{
    if (a->models.n > 0)
        return 0;
    *owner = kmf_model_load(NULL, err);
    if (!*owner)
        return (int)err->code;
    a->models.texts[a->models.n++] = kmf_model_path(*owner);
    return 0;
}

/* All lines, of models that are there. */
static int judge_all(cli *run, const bits_args *a, const char *const *paths, size_t n,
                     kmf_err *err)
{
    bool ready = cli_check_output(a->out, err) == 0 && check_models(a, err) == 0;
    kmf_out *out = ready ? kmf_out_open(a->out, err) : NULL;
    int status = (int)err->code;
    for (size_t i = 0; i < a->models.n && status == 0; i++)
        status = judge(run, a, a->models.texts[i], paths, n, out, err);
    return kmf_out_end(out, status, err);
}

int cli_eval_bits(cli *run, int argc, char **argv)
{
    kmf_err err = {0};
    bits_args a = {.out = "-"};
    kmf_pretrain_options_default(&a.opts);
    kmf_reader_options_default(&a.reader);
    a.opts.threads = kmf_threads_default();
    int leave = parse(run, &a, argc, argv);
    if (leave >= 0)
        return leave;
    const char *const *paths = run->inputs;
    size_t n = run->n_inputs;
    const char *const of_reader[] = {a.reader.bed, a.reader.reference};
    if (cli_is_an_input(a.out, paths, n) || cli_is_an_input(a.out, of_reader, 2) ||
        cli_is_an_input(a.out, a.models.texts, a.models.n) ||
        cli_is_an_input(a.out, a.background.texts, a.background.n))
        return cli_wrong(run, "-o %s: that is an input", a.out);
    leave = cli_refuse_table(run, a.out);
    if (leave < 0)
        leave = check_genomes(run, &a, paths, n, &err);
    if (leave >= 0)
        return leave;
    cli_warn_of_twice(run, paths, n, "counts as often");
    cli_warn_of_twice(run, a.background.texts, a.background.n, "counts as often");
    a.opts.steps = 1;
    a.opts.held_fraction = a.background.n > 0 ? 0 : 0.5;
    kmf_model *owner = NULL;
    int status = settle_models(&a, &owner, &err);
    if (status == 0)
        status = judge_all(run, &a, paths, n, &err);
    kmf_model_free(owner);
    return status == 0 ? CLI_DONE : cli_fail(run, &err);
}
