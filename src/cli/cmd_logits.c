/* SPDX-License-Identifier: MIT */
/* kmerformer logits: what a model expects at each token, as it stands or with tokens masked. */
#include "cli/resumable.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const cli_usage usage = {
    "logits [options] IN...",
    "The masked-language-model head's output for the tokens of each sequence: a line for each\n"
    "of the best candidates, name<TAB>base<TAB>token<TAB>candidate<TAB>logit<TAB>probability,\n"
    "base counted from 1; or with -o FILE all of them, a row of the array for each token. To\n"
    "ask for a base that is hidden: --positions BASE --mask together. With --bases a line for\n"
    "each base, name<TAB>base<TAB>letter and the probabilities of A, C, G and T there.",
    1, -1};

typedef struct logits_args {
    const char *model, *out, *positions;
    int mask, top, bases, probabilities, exact, threads;
    cli_resumable_options keeping;
    kmf_reader_options reader;
} logits_args;

typedef struct logits_run {
    const logits_args *args;
    const kmf_model *model;
    kmf_logits *logits;
    kmf_bases *bases;     /* NULL: tokens are asked for */
    const char *path;     /* borrowed; the file at hand */
    kmf_base_span *spans; /* owned [n_spans]; n_spans 0: all bases */
    size_t n_spans;
    uint64_t farthest;       /* bases that a record needs to have one of each */
    cli_resumable resumable; /* without an output: the table */
    uint64_t n_records, n_rows;
    uint64_t n_letters;        /* of these records */
    uint64_t n_bases, n_asked; /* lines of bases; and how many would be one for each */
    uint64_t n_before;         /* of the rows, those that an earlier run has made */
    uint64_t n_short;          /* records that end before one of the spans */
    bool failed;               /* the logits did, and give out no more */
    double started;
    cli_progress line;
    cli_inputs inputs;
} logits_run;

static int parse(cli *run, logits_args *a, int argc, char **argv)
{
    const cli_option table[] = {
        {"m", "model", CLI_TEXT, &a->model, 0, 0, NULL, "MODEL",
         "with a masked-language-model head", 0, "the default model"},
        {"o", "output", CLI_TEXT, &a->out, 0, 0, NULL, "FILE",
         "x.npy: all logits, [tokens, vocabulary]; x.tsv or a name of no other format: the "
         "same as a table; each "
         "with x.ids.tsv and x.json beside it",
         0, "the best candidates on standard output"},
        {NULL, "positions", CLI_ONCE, &a->positions, 0, 0, NULL, "LIST",
         "bases, as 5,9-12, counted from 1: the tokens that hold one of them", 0, "all tokens"},
        {NULL, "mask", CLI_CHOICE, &a->mask, 0, 0, kmf_logits_mask_names, NULL,
         "put [MASK] in the place of the tokens asked for: of all at once, or of one after the "
         "other, each in a pass of its own",
         -1, "none; together with --bases"},
        {NULL, "bases", CLI_FLAG, &a->bases, 0, 0, NULL, NULL,
         "what is expected of each base of --positions, or of all, by the tokens that hold it",
         0, NULL},
        {NULL, "top", CLI_INT, &a->top, 1, 1000, NULL, "N", "candidates for a token", 0, "5"},
        {NULL, "probabilities", CLI_FLAG, &a->probabilities, 0, 0, NULL, NULL,
         "with -o: their softmax instead of the logits", 0, NULL},
        {NULL, "exact", CLI_FLAG, &a->exact, 0, 0, NULL, NULL,
         "tokens as the published tokenizer gives them", 0, NULL},
        CLI_READER_OPTIONS(&a->reader),
        CLI_NAME_OPTION(&a->reader),
        CLI_RESUMABLE_OPTIONS(&a->keeping, ""),
        CLI_THREADS(&a->threads),
        CLI_COMMON(run)};
    return cli_parse(run, table, &usage, argc, argv);
}

/* ---------------------------------------------------------------- positions ------------- */

/* "9-12" or "5" at text; NULL if it is neither, else what follows. */
static const char *parse_span(kmf_base_span *s, const char *text)
{
    const char *end = cli_read_range(text, UINT64_MAX - 1, false, &s->beg, &s->end);
    if (!end || s->beg == 0 || s->end < s->beg)
        return NULL;
    s->beg--;
    return end;
}

static int parse_positions(logits_run *r, const char *text, kmf_err *err)
{
    size_t n = 1;
    for (const char *c = text; *c; c++)
        n += *c == ',';
    r->spans = calloc(n, sizeof *r->spans);
    if (!r->spans)
        return cli_raise(err, KMF_ENOMEM, "out of memory");
    for (const char *at = text; r->n_spans < n; at++) {
        at = parse_span(&r->spans[r->n_spans++], at);
        if (!at || (*at != ',' && *at != '\0'))
            return cli_raise(err, KMF_EINVAL,
                             "--positions: write bases from 1 on as 5,9-12; got '%.100s'",
                             text);
    }
    for (size_t i = 0; i < r->n_spans; i++)
        r->farthest = r->spans[i].beg >= r->farthest ? r->spans[i].beg + 1 : r->farthest;
    return 0;
}

/* ---------------------------------------------------------------- the rows -------------- */

static void print_best(const logits_run *r, const kmf_logits_row *row)
{
    const kmf_vocab *vocab = kmf_model_vocab(r->model);
    for (size_t i = 0; i < row->n_best; i++) {
        const kmf_candidate *c = &row->best[i];
        printf("%s\t%llu\t", row->name, (unsigned long long)row->position + 1);
        cli_put_token(kmf_vocab_token(vocab, row->id));
        putchar('\t');
        cli_put_token(kmf_vocab_token(vocab, c->id));
        printf("\t%.6g\t%.6g\n", (double)c->logit, (double)c->probability);
    }
}

/* A kmf_base_fn. */
static int print_base(void *user, const kmf_base_row *row, kmf_err *err)
{
    logits_run *r = user;
    (void)err;
    printf("%s\t%llu\t%c", row->name, (unsigned long long)row->position + 1, row->letter);
    for (size_t x = 0; x < sizeof row->p / sizeof row->p[0]; x++)
        printf("\t%.6g", row->p[x]);
    putchar('\n');
    r->n_bases++;
    return 0;
}

/* A kmf_logits_fn. */
static int put_row(void *user, const kmf_logits_row *row, kmf_err *err)
{
    logits_run *r = user;
    uint64_t done = r->n_letters + (row->index == r->n_records ? row->position : 0);
    if (r->n_before > 0 && r->n_rows == r->n_before) { /* what came before took no time */
        cli_inputs_work(&r->inputs, (double)done);
        cli_inputs_pass(&r->inputs);
        r->started = cli_now();
    }
    r->n_rows++;
    cli_progress_tokens(&r->line, &r->inputs, r->n_records, r->n_rows, done,
                        cli_now() - r->started);
    if (r->bases)
        return kmf_bases_add(r->bases, row, err);
    if (!r->args->out) {
        print_best(r, row);
        return 0;
    }
    const kmf_row out = {.index = row->index,
                         .name = row->name,
                         .len = row->len,
                         .tokens = 1,
                         .chunks = 1,
                         .position = (int64_t)row->position,
                         .vector = row->values};
    int status = kmf_output_row(r->resumable.output, &out, err);
    if (status == 0)
        cli_resumable_save(&r->resumable);
    return status;
}

/* Rows that are out have nothing more to tell but their file. No record goes on in the next one. */
static int finish_file(logits_run *r, kmf_err *err)
{
    int status = kmf_logits_flush(r->logits, err);
    if (status == 0 && r->bases)
        status = kmf_bases_finish(r->bases, err);
    r->failed = status < 0;
    if (status == KMF_ENUMERIC)
        cli_name_file(r->path, err);
    return status;
}

/* A cli_record_fn. */
static int put_record(void *to, const char *path, const kmf_record *rec, kmf_err *err)
{
    logits_run *r = to;
    int status = r->path != path ? finish_file(r, err) : 0;
    r->path = path;
    if (status < 0)
        return status;
    if (r->args->out)
        cli_resumable_save(&r->resumable);
    status = kmf_logits_add(r->logits, rec->name, rec->seq, rec->len, err);
    r->failed = status < 0;
    if (status == KMF_EFORMAT)
        cli_name_record(path, rec, err);
    else if (status == KMF_ENUMERIC)
        cli_name_file(path, err);
    r->n_records++;
    r->n_letters += rec->len;
    r->n_short += rec->len < r->farthest;
    r->n_asked += r->bases ? kmf_bases_asked(r->bases, rec->len) : 0;
    return status;
}

/* ---------------------------------------------------------------- the run --------------- */

static int prepare(logits_run *r, kmf_err *err)
{
    const logits_args *a = r->args;
    kmf_logits_options o;
    if (a->positions && parse_positions(r, a->positions, err) < 0)
        return (int)err->code;
    kmf_logits_options_default(&o);
    o.mask = (kmf_logits_mask)a->mask;
    o.spans = r->spans;
    o.n_spans = r->n_spans;
    o.exact = a->exact;
    o.top = a->out || a->bases ? 0 : (size_t)a->top;
    o.probabilities = a->probabilities || a->bases;
    o.threads = a->threads;
    if (a->bases) {
        r->bases = kmf_bases_new(r->model, r->spans, r->n_spans, print_base, r, err);
        if (!r->bases)
            return (int)err->code;
    }
    r->logits = kmf_logits_new(r->model, &o, put_row, r, err);
    const kmf_output_form form = {.dim = kmf_model_config(r->model)->vocab_size,
                                  .per_token = 1};
    if (!r->logits || !a->out)
        return (int)err->code;
    const kmf_run work = kmf_logits_run(r->logits);
    int status = cli_resumable_open(&r->resumable, &work, &form, err);
    if (status == 0)
        r->n_before = r->n_rows = kmf_output_rows(r->resumable.output);
    return status;
}

/* What stands in x.json, all of it as texts. NULL with *err filled. */
static char *provenance(const cli *run, const logits_run *r, const kmf_embed_stats *s,
                        kmf_err *err)
{
    const logits_args *a = r->args;
    const char *slash = strrchr(a->out, '/');
    cli_pairs p = {0};
    cli_pair(&p, "program", "kmerformer");
    cli_pair(&p, "version", "%s", kmf_version());
    cli_pair(&p, "command", "%s", run->command_line);
    cli_pair(&p, "output", "%s", slash ? slash + 1 : a->out);
    cli_pair(&p, "model", "%s", kmf_model_path(r->model));
    cli_pair(&p, "values", "%s", a->probabilities ? "probabilities" : "logits");
    cli_pair(&p, "mask", "%s", kmf_logits_mask_names[a->mask]);
    cli_pair(&p, "tokens", "%s", a->exact ? "exact" : "of bases");
    cli_pair(&p, "positions", "%s", a->positions ? a->positions : "all");
    cli_pair_lines(&p, "inputs", r->resumable.paths, r->resumable.n_paths);
    cli_pair(&p, "records", "%" PRIu64, r->n_records);
    cli_pair(&p, "rows", "%" PRIu64, r->n_rows);
    cli_pair(&p, "ambiguous", "%" PRIu64, s->ambiguous);
    cli_pair(&p, "unknown", "%" PRIu64, s->unknown);
    cli_pair(&p, "chunked", "%" PRIu64, s->chunked);
    cli_pair(&p, "truncated", "%" PRIu64, s->truncated);
    cli_pair(&p, "empty", "%" PRIu64, s->empty);
    return cli_pairs_text(&p, err);
}

static int commit(const cli *run, logits_run *r, const kmf_embed_stats *stats, kmf_err *err)
{
    if (!r->args->out)
        return 0;
    char *text = provenance(run, r, stats, err);
    int status = text ? cli_resumable_finish(&r->resumable, text, err) : (int)err->code;
    kmf_text_free(text);
    return status;
}

/* -1, or the exit code if an option or a file is of no use. */
static int check(cli *run, const logits_args *a, const cli_resumable *k)
{
    kmf_err err = {0};
    const char *const others[] = {a->model, a->reader.bed, a->reader.reference};
    int leave = a->out ? cli_check_place(run, a->out, cli_row_endings, k->paths, k->n_paths,
                                         a->model, &a->reader)
                       : -1;
    if (leave < 0)
        leave = cli_resumable_refuse(k, others, sizeof others / sizeof others[0]);
    if (leave >= 0)
        return leave;
    if (cli_check_inputs(k->paths, k->n_paths, &a->reader, &err) < 0)
        return cli_fail(run, &err);
    if (a->probabilities && !a->out)
        return cli_wrong(run,
                         "--probabilities is for -o: the table has them in its last column");
    if (a->top > 0 && a->out)
        return cli_wrong(run, "--top is for the table: -o has the logits of all candidates");
    if (a->bases && (a->out || a->top > 0))
        return cli_wrong(run, "--bases is a table of bases: -o and --top are for tokens");
    if (a->bases && a->mask == KMF_LOGITS_MASK_TOGETHER && !a->positions)
        return cli_wrong(run,
                         "--bases: all bases would be masked at once; give --positions, or "
                         "--mask none or each");
    return -1;
}

/* All records; what came before an input that fails is told. */
static int ask(cli *run, logits_run *r, kmf_err *err)
{
    const cli_resumable *k = &r->resumable;
    cli_progress_start(&r->line, run);
    int status =
        cli_read_records(run, k->paths, k->n_paths, k->reader, &r->inputs, put_record, r, err);
    if (status == 0)
        status = finish_file(r, err);
    else if (!r->failed)
        (void)finish_file(r, &(kmf_err){0});
    if (status == 0)
        status = kmf_logits_finish(r->logits, err);
    cli_progress_end();
    return status;
}

static void tell(cli *run, const logits_run *r, const kmf_embed_stats *losses)
{
    char before[CLI_BEFORE_TEXT];
    const char *positions = r->args->positions;
    cli_warn_of_losses(run, losses, false);
    if (r->n_spans > 0 && r->n_rows == 0)
        cli_warn(run, "no token holds one of the bases %s", positions);
    else if (r->n_short > 0)
        cli_warn(run, "%llu records end before a base of --positions %s",
                 (unsigned long long)r->n_short, positions);
    if (r->n_bases < r->n_asked)
        cli_warn(run, "%llu of %llu bases asked for are in no k-mer: they have no line",
                 (unsigned long long)(r->n_asked - r->n_bases), (unsigned long long)r->n_asked);
    if (r->bases)
        cli_note(run, "%llu bases, by %llu tokens, of %llu records",
                 (unsigned long long)r->n_bases, (unsigned long long)r->n_rows,
                 (unsigned long long)r->n_records);
    else
        cli_note(run, "%llu tokens%s of %llu records", (unsigned long long)r->n_rows,
                 cli_told_before(before, r->n_before), (unsigned long long)r->n_records);
}

int cli_logits(cli *run, int argc, char **argv)
{
    kmf_err err = {0};
    logits_args a = {
        .mask = -1, .threads = kmf_threads_default(), .keeping = CLI_RESUMABLE_DEFAULT};
    logits_run r = {.args = &a, .started = run->started};
    kmf_embed_stats losses = {0};
    kmf_reader_options_default(&a.reader);
    int leave = parse(run, &a, argc, argv);
    if (leave >= 0)
        return leave;
    cli_resumable_init(&r.resumable, run, &a.keeping, a.out ? a.out : "-", run->inputs,
                       run->n_inputs, &a.reader);
    if (a.mask < 0)
        a.mask = a.bases ? KMF_LOGITS_MASK_TOGETHER : KMF_LOGITS_MASK_NONE;
    leave = check(run, &a, &r.resumable);
    if (leave >= 0)
        return leave;
    a.top = a.top > 0 ? a.top : 5;
    cli_resumable_start(&r.resumable);
    kmf_model *model = kmf_model_load(a.model, &err);
    r.model = model;
    int status = model ? prepare(&r, &err) : (int)err.code;
    if (status == 0) {
        const kmf_config *config = kmf_model_config(model);
        cli_warn_of_stride(run, config->stride, config->k);
        cli_warn_of_twice(run, r.resumable.paths, r.resumable.n_paths, "so are its tokens");
    }
    if (status == 0)
        status = ask(run, &r, &err);
    if (status == 0) {
        kmf_logits_statistics(r.logits, &losses);
        status = commit(run, &r, &losses, &err);
    }
    if (status == 0)
        tell(run, &r, &losses);
    int code = status == 0 ? CLI_DONE : cli_fail(run, &err);
    kmf_logits_free(r.logits);
    kmf_bases_free(r.bases);
    cli_resumable_end(&r.resumable, status < 0);
    free(r.spans);
    kmf_model_free(model);
    return code;
}
