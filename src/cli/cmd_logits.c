/* SPDX-License-Identifier: MIT */
/* kmerformer logits: what a model expects at each token, as it stands or with tokens masked. */
#include "cli/cli.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Tokens that the head takes at a time. */
#define ROWS ((size_t)96)

enum { MASK_NONE, MASK_TOGETHER, MASK_EACH };
static const char *const mask_names[] = {"none", "together", "each", NULL};

static const cli_usage usage = {
    "logits [options] IN...",
    "The masked-language-model head's output for the tokens of each sequence: a line for each\n"
    "of the best candidates, name<TAB>base<TAB>token<TAB>candidate<TAB>logit<TAB>probability,\n"
    "base counted from 1; or with -o FILE all of them, a row of the array for each token. To\n"
    "ask for a base that is hidden: --positions BASE --mask together.",
    1, -1};

typedef struct logits_args {
    const char *model, *out, *positions;
    int mask, top, probabilities, exact, threads;
    kmf_reader_options reader;
} logits_args;

/* Bases beg .. end, from 0, end excluded. */
typedef struct span {
    uint64_t beg, end;
} span;

typedef struct logits_run {
    const logits_args *args;
    const kmf_model *model;
    const char *path; /* borrowed; the file at hand */
    kmf_cutter *cutter;
    kmf_encoder **encoders; /* owned [threads] */
    int32_t *ids;           /* owned [window]; as the encoder sees them */
    size_t *rows;           /* owned [window]; tokens of the chunk that are asked for */
    float *logits;          /* owned [ROWS, V] */
    size_t *best;           /* owned [top] */
    size_t lead, trail;     /* tokens that frame a chunk */
    span *spans;            /* owned [n_spans]; n_spans 0: all bases */
    size_t n_spans;
    uint64_t farthest;  /* bases that a record needs to have one of each */
    kmf_output *output; /* NULL: the table */
    uint64_t n_records, n_rows;
    uint64_t n_short; /* records that end before one of the spans */
    cli_progress line;
    cli_inputs inputs;
    kmf_embed_stats losses;
} logits_run;

static int parse(cli *run, logits_args *a, int argc, char **argv, int *first)
{
    const cli_option table[] = {
        {"m", "model", CLI_TEXT, &a->model, 0, 0, NULL, "MODEL",
         "with a masked-language-model head", 0, "the default model"},
        {"o", "output", CLI_TEXT, &a->out, 0, 0, NULL, "FILE",
         "x.npy: all logits, [tokens, vocabulary]; any other name: the same as a table; each "
         "with x.ids.tsv and x.json beside it",
         0, "the best candidates on standard output"},
        {NULL, "positions", CLI_ONCE, &a->positions, 0, 0, NULL, "LIST",
         "bases, as 5,9-12, counted from 1: the tokens that hold one of them", 0, "all tokens"},
        {NULL, "mask", CLI_CHOICE, &a->mask, 0, 0, mask_names, NULL,
         "put [MASK] in the place of the tokens asked for: of all at once, or of one after the "
         "other, each in a pass of its own",
         0, NULL},
        {NULL, "top", CLI_INT, &a->top, 1, 1000, NULL, "N", "candidates for a token", 0, "5"},
        {NULL, "probabilities", CLI_FLAG, &a->probabilities, 0, 0, NULL, NULL,
         "with -o: their softmax instead of the logits", 0, NULL},
        {NULL, "exact", CLI_FLAG, &a->exact, 0, 0, NULL, NULL,
         "tokens as the published tokenizer gives them", 0, NULL},
        CLI_READER_OPTIONS(&a->reader),
        CLI_THREADS(&a->threads),
        CLI_COMMON(run)};
    return cli_parse(run, table, &usage, argc, argv, first);
}

/* ---------------------------------------------------------------- positions ------------- */

/* "9-12" or "5" at text; NULL if it is neither, else what follows. */
static const char *parse_span(span *s, const char *text)
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

static bool is_wanted(const logits_run *r, const kmf_chunk *chunk, size_t t)
{
    for (size_t i = 0; i < r->n_spans; i++)
        if (r->spans[i].beg < chunk->end[t] && chunk->pos[t] < r->spans[i].end)
            return true;
    return r->n_spans == 0;
}

/* ---------------------------------------------------------------- one token ------------- */

static double sum_of_exponentials(const float *logits, size_t V, double max)
{
    double sum = 0;
    for (size_t v = 0; v < V; v++)
        sum += exp((double)logits[v] - max);
    return sum;
}

static void to_probabilities(float *logits, size_t V)
{
    double max = (double)logits[0];
    for (size_t v = 1; v < V; v++)
        max = (double)logits[v] > max ? (double)logits[v] : max;
    double sum = sum_of_exponentials(logits, V, max);
    for (size_t v = 0; v < V; v++)
        logits[v] = (float)(exp((double)logits[v] - max) / sum);
}

/* best [n]: the n largest, of equal ones the first; returns how many there are. */
static size_t largest(size_t *best, size_t n, const float *x, size_t V)
{
    size_t found = 0;
    for (size_t v = 0; v < V; v++) {
        size_t at = found < n ? found++ : n;
        for (; at > 0 && x[v] > x[best[at - 1]]; at--)
            if (at < n)
                best[at] = best[at - 1];
        if (at < n)
            best[at] = v;
    }
    return found;
}

static void print_best(const logits_run *r, const float *logits, const char *name, uint64_t pos,
                       int32_t id)
{
    const kmf_vocab *vocab = kmf_model_vocab(r->model);
    size_t V = kmf_vocab_size(vocab);
    size_t n = largest(r->best, (size_t)r->args->top, logits, V);
    double max = (double)logits[r->best[0]];
    double sum = sum_of_exponentials(logits, V, max);
    for (size_t i = 0; i < n; i++) {
        double logit = (double)logits[r->best[i]];
        printf("%s\t%llu\t", name, (unsigned long long)pos + 1);
        cli_put_token(kmf_vocab_token(vocab, id));
        putchar('\t');
        cli_put_token(kmf_vocab_token(vocab, (int32_t)r->best[i]));
        printf("\t%.6g\t%.6g\n", logit, exp(logit - max) / sum);
    }
}

static int check_finite(const logits_run *r, const kmf_record *rec, const float *logits,
                        kmf_err *err)
{
    size_t V = kmf_vocab_size(kmf_model_vocab(r->model));
    size_t v = 0;
    while (v < V && isfinite(logits[v]))
        v++;
    if (v == V)
        return 0;
    cli_raise(err, KMF_ENUMERIC, "record %llu: the model gives logits that are not finite",
              (unsigned long long)rec->index + 1);
    cli_name_file(r->path, err);
    return KMF_ENUMERIC;
}

/* The logits of token t, which are changed if probabilities are asked for. */
static int put_row(logits_run *r, const kmf_record *rec, const kmf_chunk *chunk, size_t t,
                   float *logits, kmf_err *err)
{
    if (check_finite(r, rec, logits, err) < 0)
        return KMF_ENUMERIC;
    r->n_rows++;
    cli_progress_tokens(&r->line, &r->inputs, r->n_records, r->n_rows);
    if (!r->output) {
        print_best(r, logits, rec->name, chunk->pos[t], chunk->ids[t]);
        return 0;
    }
    if (r->args->probabilities)
        to_probabilities(logits, kmf_vocab_size(kmf_model_vocab(r->model)));
    kmf_row row = {.index = r->n_records,
                   .name = rec->name,
                   .len = rec->len,
                   .tokens = 1,
                   .chunks = 1,
                   .position = (int64_t)chunk->pos[t],
                   .vector = logits};
    return kmf_output_row(r->output, &row, err);
}

/* Tokens rows [n] of the chunk that has gone forward. */
static int put_rows(logits_run *r, const kmf_record *rec, const kmf_chunk *chunk,
                    const size_t *rows, size_t n, kmf_err *err)
{
    size_t V = kmf_vocab_size(kmf_model_vocab(r->model));
    int status = 0;
    for (size_t i = 0; i < n && status == 0; i += ROWS) {
        size_t m = n - i < ROWS ? n - i : ROWS;
        status = kmf_encoder_logits(r->encoders[0], r->logits, rows + i, m, err);
        for (size_t j = 0; j < m && status == 0; j++)
            status = put_row(r, rec, chunk, rows[i + j], r->logits + j * V, err);
    }
    return status;
}

/* ---------------------------------------------------------------- one chunk ------------- */

static int forward(logits_run *r, size_t n, kmf_err *err)
{
    const float *hidden;
    const size_t off[2] = {0, n};
    size_t L = kmf_model_config(r->model)->n_layers;
    return kmf_encoder_forward_together(r->encoders, (size_t)r->args->threads, &hidden, r->ids,
                                        off, 1, L, err);
}

/*
 * A token that a neighbouring chunk counts is masked here as well: k-mers overlap, and it would
 * tell what is hidden.
 */
static int put_chunk(logits_run *r, const kmf_record *rec, const kmf_chunk *chunk, kmf_err *err)
{
    int32_t mask = kmf_vocab_special(kmf_model_vocab(r->model), KMF_MASK);
    size_t n = 0;
    int status = 0;
    memcpy(r->ids, chunk->ids, chunk->n * sizeof *r->ids);
    for (size_t t = r->lead; t < chunk->n - r->trail; t++) {
        if (!is_wanted(r, chunk, t))
            continue;
        if (r->args->mask == MASK_TOGETHER)
            r->ids[t] = mask;
        if (t >= chunk->own_beg && t < chunk->own_end)
            r->rows[n++] = t;
    }
    if (r->args->mask != MASK_EACH) {
        if (n > 0)
            status = forward(r, chunk->n, err);
        return status == 0 ? put_rows(r, rec, chunk, r->rows, n, err) : status;
    }
    for (size_t i = 0; i < n && status == 0; i++) {
        size_t t = r->rows[i];
        r->ids[t] = mask;
        status = forward(r, chunk->n, err);
        r->ids[t] = chunk->ids[t];
        if (status == 0)
            status = put_rows(r, rec, chunk, &t, 1, err);
    }
    return status;
}

/* A cli_record_fn. */
static int put_record(void *to, const char *path, const kmf_record *rec, kmf_err *err)
{
    logits_run *r = to;
    kmf_chunk chunk;
    kmf_cut_stats s;
    int got;
    r->path = path;
    kmf_cutter_start(r->cutter, rec->name, rec->seq, rec->len);
    while ((got = kmf_cutter_next(r->cutter, &chunk, err)) > 0) {
        int status = put_chunk(r, rec, &chunk, err);
        if (status < 0)
            return status;
    }
    if (got < 0)
        cli_name_record(path, rec, err);
    kmf_cutter_statistics(r->cutter, &s);
    kmf_embed_stats_add(&r->losses, &s);
    r->n_records++;
    r->n_short += rec->len < r->farthest;
    return got;
}

/* ---------------------------------------------------------------- the run --------------- */

static int prepare(logits_run *r, kmf_err *err)
{
    const kmf_config *c = kmf_model_config(r->model);
    const kmf_vocab *vocab = kmf_model_vocab(r->model);
    const logits_args *a = r->args;
    kmf_long policy = !a->exact    ? KMF_LONG_CHUNK
                      : c->bounded ? KMF_LONG_TRUNCATE
                                   : KMF_LONG_ERROR;
    kmf_cut_options cut = {.stride = c->stride,
                           .window = c->window,
                           .overlap = kmf_config_overlap(c, vocab, c->window, c->specials),
                           .specials = c->specials,
                           .ambiguous = c->ambiguous,
                           .policy = policy,
                           .exact = a->exact ? c->exact : KMF_EXACT_NO};
    if (a->mask != MASK_NONE && kmf_vocab_special(vocab, KMF_MASK) < 0)
        return cli_raise(err, KMF_EMODEL, "the vocabulary has no [MASK]");
    r->cutter = kmf_cutter_new(vocab, &cut, err);
    r->encoders = calloc((size_t)a->threads, sizeof(kmf_encoder *));
    r->ids = calloc(c->window, sizeof *r->ids);
    r->rows = calloc(c->window, sizeof *r->rows);
    r->logits = calloc(c->vocab_size, ROWS * sizeof *r->logits);
    r->lead = c->specials && kmf_vocab_frame(vocab) > 0;
    r->trail = c->specials && kmf_vocab_frame(vocab) > 1;
    r->best = calloc((size_t)a->top, sizeof *r->best);
    if (!r->cutter)
        return (int)err->code;
    if (!r->encoders || !r->ids || !r->rows || !r->logits || !r->best)
        return cli_raise(err, KMF_ENOMEM, "out of memory");
    for (int i = 0; i < a->threads; i++) {
        r->encoders[i] = kmf_encoder_new(r->model, c->window, c->window, err);
        if (!r->encoders[i])
            return (int)err->code;
    }
    /* is there a head at all? */
    if (kmf_encoder_logits(r->encoders[0], r->logits, NULL, 0, err) < 0)
        return (int)err->code;
    if (a->out) {
        r->output = kmf_output_new(a->out, c->vocab_size, 0, 1, err);
        if (!r->output)
            return (int)err->code;
    }
    return a->positions ? parse_positions(r, a->positions, err) : 0;
}

/* What stands in x.json, all of it as texts. NULL with *err filled. */
static char *provenance(const cli *run, const logits_run *r, const char *const *paths, size_t n,
                        kmf_err *err)
{
    const logits_args *a = r->args;
    const kmf_embed_stats *s = &r->losses;
    cli_pairs p = {0};
    cli_pair(&p, "program", "kmerformer");
    cli_pair(&p, "version", "%s", kmf_version());
    cli_pair(&p, "command", "%s", run->command_line);
    cli_pair(&p, "model", "%s", kmf_model_path(r->model));
    cli_pair(&p, "values", "%s", a->probabilities ? "probabilities" : "logits");
    cli_pair(&p, "mask", "%s", mask_names[a->mask]);
    cli_pair(&p, "tokens", "%s", a->exact ? "exact" : "of bases");
    cli_pair(&p, "positions", "%s", a->positions ? a->positions : "all");
    cli_pair_lines(&p, "inputs", paths, n);
    cli_pair(&p, "records", "%" PRIu64, r->n_records);
    cli_pair(&p, "rows", "%" PRIu64, r->n_rows);
    cli_pair(&p, "ambiguous", "%" PRIu64, s->ambiguous);
    cli_pair(&p, "unknown", "%" PRIu64, s->unknown);
    cli_pair(&p, "chunked", "%" PRIu64, s->chunked);
    cli_pair(&p, "truncated", "%" PRIu64, s->truncated);
    cli_pair(&p, "empty", "%" PRIu64, s->empty);
    return cli_pairs_text(&p, err);
}

static int commit(const cli *run, logits_run *r, const char *const *paths, size_t n,
                  kmf_err *err)
{
    if (!r->output)
        return 0;
    char *text = provenance(run, r, paths, n, err);
    int status = text ? 0 : (int)err->code;
    cli_hold_signals();
    if (status == 0)
        status = kmf_output_commit(r->output, text, err);
    cli_release_signals(status == 0);
    kmf_text_free(text);
    return status;
}

static void release(logits_run *r)
{
    for (int i = 0; r->encoders && i < r->args->threads; i++)
        kmf_encoder_free(r->encoders[i]);
    kmf_cutter_free(r->cutter);
    kmf_output_free(r->output);
    free(r->encoders);
    free(r->ids);
    free(r->rows);
    free(r->logits);
    free(r->best);
    free(r->spans);
}

int cli_logits(cli *run, int argc, char **argv)
{
    kmf_err err = {0};
    logits_args a = {.threads = kmf_threads_default()};
    int first;
    kmf_reader_options_default(&a.reader);
    int leave = parse(run, &a, argc, argv, &first);
    if (leave >= 0)
        return leave;
    const char *const *paths = (const char *const *)(argv + first);
    size_t n_paths = (size_t)(argc - first);
    if (a.out)
        leave =
            cli_check_place(run, a.out, cli_row_endings, paths, n_paths, a.model, &a.reader);
    if (leave >= 0)
        return leave;
    if (cli_check_inputs(paths, n_paths, &a.reader, &err) < 0)
        return cli_fail(run, &err);
    if (a.probabilities && !a.out)
        return cli_wrong(run,
                         "--probabilities is for -o: the table has them in its last column");
    if (a.top > 0 && a.out)
        return cli_wrong(run, "--top is for the table: -o has the logits of all candidates");
    a.top = a.top > 0 ? a.top : 5;
    kmf_model *model = kmf_model_load(a.model, &err);
    logits_run r = {.args = &a, .model = model};
    int status = model ? prepare(&r, &err) : -1;
    cli_progress_start(&r.line, run);
    if (status == 0)
        status =
            cli_read_records(run, paths, n_paths, &a.reader, &r.inputs, put_record, &r, &err);
    cli_progress_end();
    if (status == 0)
        status = commit(run, &r, paths, n_paths, &err);
    if (status == 0) {
        cli_warn_of_losses(run, &r.losses, false);
        if (r.n_spans > 0 && r.n_rows == 0)
            cli_warn(run, "no token holds one of the bases %s", a.positions);
        else if (r.n_short > 0)
            cli_warn(run, "%llu records end before a base of --positions %s",
                     (unsigned long long)r.n_short, a.positions);
        cli_note(run, "%llu tokens of %llu records", (unsigned long long)r.n_rows,
                 (unsigned long long)r.n_records);
    }
    release(&r);
    kmf_model_free(model);
    return status == 0 ? CLI_DONE : cli_fail(run, &err);
}
