/* SPDX-License-Identifier: MIT */
/* kmerformer tokenize: what a model sees. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

enum { AS_IDS, AS_TOKENS };

typedef struct tokenize_args {
    const char *model;
    const char *vocab;
    const char *out;
    int k;
    int as;
    int strand;
    int no_specials;
    int exact;
    size_t stride, window, overlap;
    int ambiguous, policy;
    kmf_reader_options reader;
} tokenize_args;

#define OVERLAP_UNSET ((size_t)-1)
#define LARGEST_WINDOW ((size_t)1 << 24)
#define LINES_AT_ONCE (1 << 16) /* bytes */
#define ID_MOST 10              /* digits */

static const char *const as_names[] = {"ids", "tokens", NULL};
static const char *const strand_names[] = {"fwd", "rc", NULL};

static const cli_usage usage = {
    "tokenize [options] IN...",
    "Prints name<TAB>ids, the ids with blanks between them, a line for every chunk: the input\n"
    "of the encoder as embed makes it. A record without a k-mer has a line without ids; with\n"
    "--exact it has the special tokens.",
    1, -1};

static int parse(cli *run, tokenize_args *a, int argc, char **argv)
{
    const cli_option table[] = {
        {"m", "model", CLI_TEXT, &a->model, 0, 0, NULL, "MODEL",
         "whose vocabulary and settings", 0, "the default model"},
        {"k", "kmer", CLI_INT, &a->k, 1, 12, NULL, "K",
         "no model: all k-mers of K bases in code order, at a stride of 1 in windows of 512 "
         "tokens",
         0, "the model's"},
        {NULL, "vocab", CLI_TEXT, &a->vocab, 0, 0, NULL, "FILE",
         "no model: this vocab.txt or tokenizer.json; a line for a record, of up to 16,777,216 "
         "tokens unless --long or --window says otherwise",
         0, NULL},
        {NULL, "as", CLI_CHOICE, &a->as, 0, 0, as_names, NULL, "numbers or words", 0, NULL},
        {NULL, "strand", CLI_CHOICE, &a->strand, 0, 0, strand_names, NULL,
         "rc: the reverse complement", 0, NULL},
        {NULL, "no-specials", CLI_FLAG, &a->no_specials, 0, 0, NULL, NULL,
         "no [CLS] and [SEP]; k-mers fill their places", 0, NULL},
        {NULL, "exact", CLI_FLAG, &a->exact, 0, 0, NULL, NULL,
         "the ids of the published tokenizer: case kept, U no T", 0, NULL},
        {NULL, "stride", CLI_SIZE, &a->stride, 1, 1LL << 31, NULL, "N",
         "bases from one k-mer to the next", 0, "the model's"},
        {NULL, "ambiguous", CLI_CHOICE, &a->ambiguous, 0, 0, kmf_ambiguous_names, NULL,
         "k-mers that touch a base other than A, C, G, T, U", -1, "the model's"},
        {NULL, "long", CLI_CHOICE, &a->policy, 0, 0, kmf_long_names, NULL,
         "sequences longer than the window", -1, "chunk; exact: as the published tokenizer"},
        {NULL, "window", CLI_SIZE, &a->window, 3, 1LL << 24, NULL, "N",
         "tokens of a chunk, [CLS] and [SEP] included", 0, "the model's"},
        {NULL, "overlap", CLI_SIZE, &a->overlap, 0, 1LL << 23, NULL, "N",
         "tokens that neighbouring chunks share", -1, "the model's"},
        {"o", "output", CLI_TEXT, &a->out, 0, 0, NULL, "FILE",
         "compressed if it ends in .gz; -: standard output", 0, NULL},
        CLI_READER_OPTIONS(&a->reader),
        CLI_NAME_OPTION(&a->reader),
        CLI_COMMON(run)};
    return cli_parse(run, table, &usage, argc, argv);
}

static void to_cut_options(kmf_cut_options *cut, const tokenize_args *a, const kmf_config *c,
                           const kmf_vocab *vocab)
{
    bool whole = a->vocab || (a->exact && !c->bounded); /* a record has one line */
    size_t window = whole ? LARGEST_WINDOW : c->window;
    kmf_long policy = a->policy >= 0            ? (kmf_long)a->policy
                      : whole && a->window == 0 ? KMF_LONG_ERROR
                      : a->exact && c->bounded  ? KMF_LONG_TRUNCATE
                                                : KMF_LONG_CHUNK;
    *cut = (kmf_cut_options){
        .stride = a->stride ? a->stride : c->stride,
        .window = a->window ? a->window : window,
        .specials = c->specials && !a->no_specials,
        .ambiguous = (kmf_ambiguous)(a->ambiguous < 0 ? (int)c->ambiguous : a->ambiguous),
        .policy = policy,
        .reverse = a->strand,
        .exact = a->exact ? c->exact : KMF_EXACT_NO};
    cut->overlap = a->overlap != OVERLAP_UNSET
                       ? a->overlap
                       : kmf_config_overlap(c, vocab, cut->window, cut->specials);
}

/* Lines that are not in the output yet. */
typedef struct lines {
    char *text; /* owned [cap] */
    size_t n, cap;
} lines;

/* Room for n bytes more. */
static int reserve(lines *to, size_t n, kmf_err *err)
{
    if (n <= to->cap - to->n)
        return 0;
    size_t cap = 2 * (to->n + n);
    char *text = realloc(to->text, cap);
    if (!text)
        return cli_raise(err, KMF_ENOMEM, "out of memory: a line of %zu bytes", n);
    to->text = text;
    to->cap = cap;
    return 0;
}

static void put(lines *to, const char *text, size_t n)
{
    memcpy(to->text + to->n, text, n);
    to->n += n;
}

/* As printf would, which takes most of a run's time here. */
static void put_number(lines *to, int32_t id)
{
    char digits[ID_MOST];
    size_t at = sizeof digits;
    uint32_t left = (uint32_t)id; /* none is negative */
    do {
        digits[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    put(to, digits + at, sizeof digits - at);
}

typedef struct tokenize_run {
    const tokenize_args *args;
    cli_progress line;
    cli_inputs inputs;
    uint64_t records, printed; /* done; tokens */
    uint64_t letters;          /* of the records that are done */
    kmf_cutter *cutter;
    const kmf_vocab *vocab;
    kmf_embed_stats total;
    kmf_out *out; /* owned */
    lines lines;
} tokenize_run;

/* Lines to the output, where there are many, or all of them. */
static int pass_lines(tokenize_run *r, bool all, kmf_err *err)
{
    if (!all && r->lines.n < LINES_AT_ONCE)
        return 0;
    int status = kmf_out_write(r->out, r->lines.text, r->lines.n, err);
    r->lines.n = 0;
    return status;
}

/* After a tab or a blank. */
static int print_token(tokenize_run *r, char before, int32_t id, kmf_err *err)
{
    lines *to = &r->lines;
    const char *token = r->args->as == AS_IDS ? NULL : kmf_vocab_token(r->vocab, id);
    if (reserve(to, token ? 4 * strlen(token) + 2 : ID_MOST + 1, err) < 0)
        return KMF_ENOMEM;
    put(to, &before, 1);
    if (token)
        to->n += cli_token_text(to->text + to->n, token);
    else
        put_number(to, id);
    return pass_lines(r, false, err);
}

/* name<TAB>id id .., which leaves in pieces. */
static int print_chunk(tokenize_run *r, const char *name, const kmf_chunk *chunk, kmf_err *err)
{
    size_t length = strlen(name);
    int status = reserve(&r->lines, length + 2, err);
    if (status < 0)
        return status;
    put(&r->lines, name, length);
    if (chunk->n == 0)
        put(&r->lines, "\t", 1);
    for (size_t i = 0; i < chunk->n && status == 0; i++)
        status = print_token(r, i > 0 ? ' ' : '\t', chunk->ids[i], err);
    if (status == 0)
        status = reserve(&r->lines, 1, err);
    if (status < 0)
        return status;
    put(&r->lines, "\n", 1);
    return pass_lines(r, false, err);
}

/* A cli_record_fn. */
static int tokenize_record(void *to, const char *path, const kmf_record *rec, kmf_err *err)
{
    tokenize_run *r = to;
    kmf_chunk chunk;
    kmf_cut_stats stats;
    int got;
    kmf_cutter_start(r->cutter, rec->name, rec->seq, rec->len);
    while ((got = kmf_cutter_next(r->cutter, &chunk, err)) > 0) {
        got = print_chunk(r, rec->name, &chunk, err);
        if (got < 0)
            return got;
        r->printed += chunk.n;
        uint64_t at = chunk.own_end > chunk.own_beg ? chunk.end[chunk.own_end - 1] : 0;
        cli_progress_tokens(&r->line, &r->inputs, r->records, r->printed, r->letters + at,
                            cli_now() - r->line.run->started);
    }
    kmf_cutter_statistics(r->cutter, &stats);
    if (got == 0 && stats.chunks == 0 && print_chunk(r, rec->name, &(kmf_chunk){0}, err) < 0)
        return err->code;
    kmf_embed_stats_add(&r->total, &stats);
    r->total.tokens += stats.tokens;
    r->records++;
    r->letters += rec->len;
    if (got < 0)
        cli_name_record(path, rec, err);
    return got;
}

/* The vocabulary and settings that -k, --vocab or the model stand for. */
static int load(const tokenize_args *a, kmf_model **model, kmf_vocab **own, kmf_config *config,
                kmf_err *err)
{
    if (a->k > 0) {
        *own = kmf_vocab_new(a->k, err);
        return *own ? kmf_config_preset(config, "tiny", a->k, err) : (int)err->code;
    }
    if (a->vocab) {
        *own = kmf_vocab_load(a->vocab, err);
        if (!*own)
            return (int)err->code;
        *config = (kmf_config){.stride = 1,
                               .specials = kmf_vocab_frame(*own) > 0,
                               .ambiguous = KMF_AMBIGUOUS_SKIP,
                               .exact = KMF_EXACT_SPLIT};
        return 0;
    }
    *model = kmf_model_load(a->model, err);
    if (!*model)
        return (int)err->code;
    *config = *kmf_model_config(*model);
    return 0;
}

int cli_tokenize(cli *run, int argc, char **argv)
{
    kmf_err err = {0};
    tokenize_args a = {.out = "-", .ambiguous = -1, .policy = -1, .overlap = OVERLAP_UNSET};
    kmf_config config = {0};
    kmf_cut_options cut;
    kmf_model *model = NULL;
    kmf_vocab *own_vocab = NULL;
    tokenize_run r = {.args = &a};
    kmf_reader_options_default(&a.reader);
    int leave = parse(run, &a, argc, argv);
    if (leave >= 0)
        return leave;
    if ((a.k > 0) + (a.vocab != NULL) + (a.model != NULL) > 1)
        return cli_wrong(run, "give one of --model, --kmer and --vocab");
    if (a.exact && a.ambiguous >= 0)
        return cli_wrong(run, "--ambiguous has no meaning with --exact");
    const char *const *paths = run->inputs;
    size_t n_paths = run->n_inputs;
    const char *const beside[] = {a.model, a.vocab, a.reader.bed, a.reader.reference};
    if (cli_is_an_input(a.out, paths, n_paths) || cli_is_an_input(a.out, beside, 4))
        return cli_wrong(run, "-o %s: that is an input", a.out);
    leave = cli_refuse_table(run, a.out);
    if (leave >= 0)
        return leave;
    if (cli_check_inputs(paths, n_paths, &a.reader, &err) < 0)
        return cli_fail(run, &err);
    int status = load(&a, &model, &own_vocab, &config, &err);
    if (status < 0)
        goto out;
    r.vocab = model ? kmf_model_vocab(model) : own_vocab;
    to_cut_options(&cut, &a, &config, r.vocab);
    r.cutter = kmf_cutter_new(r.vocab, &cut, &err);
    r.out = r.cutter ? kmf_out_open(a.out, &err) : NULL;
    status = (int)err.code;
    if (status == 0) {
        cli_warn_of_stride(run, cut.stride, config.k);
        cli_warn_of_twice(run, paths, n_paths, "so are its lines");
    }
    cli_progress_start(&r.line, run);
    if (status == 0)
        status = cli_read_records(run, paths, n_paths, &a.reader, &r.inputs, tokenize_record,
                                  &r, &err);
    cli_progress_end();
    kmf_err own = {0}; /* what comes before a record at fault is written, too */
    int passed = r.out ? pass_lines(&r, true, &own) : 0;
    if (status == 0 && passed < 0)
        status = cli_raise(&err, own.code, "%s", own.msg);
    if (status == 0)
        cli_warn_of_losses(run, &r.total, true);
    cli_hold_signals();
    status = kmf_out_end(r.out, status, &err);
    cli_release_signals(status == 0);
    free(r.lines.text);
out:
    kmf_cutter_free(r.cutter);
    kmf_vocab_free(own_vocab);
    kmf_model_free(model);
    return status == 0 ? CLI_DONE : cli_fail(run, &err);
}
