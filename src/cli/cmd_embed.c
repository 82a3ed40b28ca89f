/* SPDX-License-Identifier: MIT */
/* kmerformer embed: sequences in, one vector for each out. */
#include "cli/cli.h"
#include "cli/embedding.h"

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct embed_args {
    kmf_embed_options opts;
    kmf_reader_options reader;
    const char *model;
    const char *out;
    const char *shard;
    int f16;
    cli_resumable_options keeping;
} embed_args;

static const cli_usage usage = {
    "embed [options] IN...",
    "One vector for every sequence of FASTA, FASTQ, SAM, BAM or CRAM files, or of tables "
    "(csv,\n"
    "tsv) with a column sequence; plain or compressed; '-' is standard input. Vectors go to\n"
    "standard output as a table, or to the file of -o, with x.ids.tsv and x.json beside x.npy\n"
    "or x.tsv. Rows are in input order, one for every record, and their bits don't depend on\n"
    "threads, batches, shards or compression. A long run that is stopped is resumed by the\n"
    "same command.",
    1, -1};

static int parse(cli *run, embed_args *a, int argc, char **argv)
{
    kmf_embed_options *o = &a->opts;
    const cli_option table[] = {
        CLI_HEADING("model and output"),
        {"m", "model", CLI_TEXT, &a->model, 0, 0, NULL, "MODEL",
         "model directory, ours or as downloaded from a hub, or one safetensors file of a "
         "model; a file of k-mer vectors; tnf (canonical tetranucleotide frequencies); kmer:K "
         "(k-mer frequencies); random or random:MODEL (the default model's shape, or MODEL's, "
         "with random weights)",
         0, "the default model"},
        {NULL, "seed", CLI_SEED, &o->seed, 0, 0, NULL, "N", "of random weights", 0, NULL},
        {"o", "output", CLI_TEXT, &a->out, 0, 0, NULL, "FILE",
         "x.npy: NumPy array; x.tsv or a name of no other format: table, compressed if it "
         "ends in .gz; -: standard output",
         0, NULL},
        {NULL, "f16", CLI_FLAG, &a->f16, 0, 0, NULL, NULL, "float16 in the .npy file", 0, NULL},
        CLI_HEADING("the vector"),
        {NULL, "pool", CLI_CHOICE, &o->pooling, 0, 0, kmf_pooling_names, NULL,
         "over the tokens of a sequence; none: a vector for each token; mean-all: [CLS] and "
         "[SEP] included; pooler: [CLS] through the model's own layer",
         -1, "the model's"},
        {NULL, "layer", CLI_INT, &o->layer, -1000, 1000, NULL, "N",
         "0: embeddings, 1, 2, ...; negative from the end, -1 the last", KMF_LAYER_MODEL,
         "the model's"},
        {NULL, "parts", CLI_CHOICE, &o->parts, 0, 0, kmf_parts_names, NULL,
         "the encoder's pooled states; the composition, if the model has one, which skips the "
         "encoder; or both, concatenated",
         -1, "the model's"},
        {NULL, "strand", CLI_CHOICE, &o->strand, 0, 0, kmf_strand_names, NULL,
         "both: the mean over both, of a composition one for both: the same vector for a "
         "sequence and its reverse complement",
         -1, "the model's"},
        {NULL, "norm", CLI_CHOICE, &o->norm, 0, 0, kmf_norm_names, NULL,
         "l2: scaled to length 1; with a composition, the states' part to 1 / sqrt(5)", -1,
         "the model's"},
        {NULL, "weights", CLI_CHOICE, &o->weights, 0, 0, kmf_weights_names, NULL,
         "k-mer vectors: sif: frequent k-mers weigh less, by a / (a + p), a = 0.001, p their "
         "share in training",
         -1, "none"},
        {NULL, "precision", CLI_CHOICE, &o->precision, 0, 0, kmf_precision_names, NULL,
         "of the encoder's matrix products; auto: bf16 where it is faster than f32", -1, "f32"},
        CLI_HEADING("k-mers"),
        {"k", "kmer", CLI_INT, &o->k, 0, KMF_K_MAX, NULL, "K",
         "k-mer vectors: only k-mers of K letters, if the file has several lengths", 0, "all"},
        {NULL, "stride", CLI_SIZE, &o->stride, 1, 1LL << 31, NULL, "N",
         "bases from one k-mer to the next", 0, "the model's"},
        {NULL, "ambiguous", CLI_CHOICE, &o->ambiguous, 0, 0, kmf_ambiguous_names, NULL,
         "k-mers that touch a base other than A, C, G, T, U: leave out; [UNK] in their place; "
         "start a new chunk; fail",
         -1, "the model's"},
        {NULL, "long", CLI_CHOICE, &o->policy, 0, 0, kmf_long_names, NULL,
         "sequences longer than the window: overlapping chunks, each k-mer counted once; the "
         "first window only; a row of NaN; fail",
         -1, "chunk; exact: as the published tokenizer"},
        {NULL, "exact", CLI_FLAG, &o->exact, 0, 0, NULL, NULL,
         "the tokens that the published tokenizer gives: case is kept, U is not T, what it "
         "does not know is [UNK] and counted; a sequence longer than it takes is cut (--long)",
         0, NULL},
        {NULL, "window", CLI_SIZE, &o->window, 3, 1LL << 24, NULL, "N",
         "tokens of a chunk, [CLS] and [SEP] included", 0, "the model's"},
        {NULL, "overlap", CLI_SIZE, &o->overlap, 0, 1LL << 23, NULL, "N",
         "tokens that neighbouring chunks share", -1, "the model's"},
        {NULL, "strict", CLI_FLAG, &o->strict, 0, 0, NULL, NULL,
         "fail on any cut, chunk, ambiguous base, unknown k-mer, record without a k-mer, input "
         "without a record, or stride above k",
         0, NULL},
        CLI_HEADING("input"),
        CLI_READER_OPTIONS(&a->reader),
        CLI_NAME_OPTION(&a->reader),
        CLI_TILE_OPTIONS(&a->reader),
        CLI_HEADING("the run"),
        CLI_THREADS(&o->threads),
        {NULL, "batch-tokens", CLI_SIZE, &o->batch_tokens, 64, 1LL << 24, NULL, "N",
         "tokens (tnf, kmer:K, k-mer vectors: letters) worked on at once by a thread; memory "
         "grows with it, results do not change",
         0, "1024; of a composition alone 16384; 1048576 letters"},
        {NULL, "shard", CLI_TEXT, &a->shard, 0, 0, NULL, "I/N",
         "only records I, I+N, I+2N, ... (I from 0), to be joined by kmerformer merge; auto: "
         "from SLURM_ARRAY_TASK_ID and _COUNT",
         0, NULL},
        CLI_RESUMABLE_OPTIONS(&a->keeping, "an encoder, "),
        CLI_COMMON(run)};
    return cli_parse(run, table, &usage, argc, argv);
}

/* ---------------------------------------------------------------- shards ---------------- */

/* Of a variable that is not set *value stays what it is; false: it is set, and no number. */
static bool environment_number(const char *name, uint64_t *value)
{
    const char *text = getenv(name);
    const char *end = text ? cli_read_count(text, INT64_MAX, false, value) : "";
    return end && *end == '\0';
}

/* The place of this task in a Slurm array, however its numbers begin and step. */
static int shard_from_slurm(cli *run, embed_args *a)
{
    uint64_t id = UINT64_MAX;
    uint64_t count = UINT64_MAX;
    uint64_t min = 0;
    uint64_t step = 1;
    bool numbers = environment_number("SLURM_ARRAY_TASK_ID", &id) &&
                   environment_number("SLURM_ARRAY_TASK_COUNT", &count) &&
                   environment_number("SLURM_ARRAY_TASK_MIN", &min) &&
                   environment_number("SLURM_ARRAY_TASK_STEP", &step);
    if (!numbers || id == UINT64_MAX || count == UINT64_MAX)
        return cli_wrong(run,
                         "--shard auto: SLURM_ARRAY_TASK_ID and SLURM_ARRAY_TASK_COUNT are "
                         "not set, or one of these, _MIN and _STEP is no number");
    if (step == 0 || id < min || (id - min) % step != 0 || (id - min) / step >= count)
        return cli_wrong(run,
                         "--shard auto: task %" PRIu64 " does not fit an array of %" PRIu64
                         " from %" PRIu64 " by %" PRIu64,
                         id, count, min, step);
    a->opts.shard = (id - min) / step;
    a->opts.n_shards = count;
    return -1;
}

/* -1, or the exit code of what is no shard. */
static int parse_shard(cli *run, embed_args *a)
{
    char *slash;
    char *end = NULL;
    if (!a->shard)
        return -1;
    if (strcmp(a->shard, "auto") == 0)
        return shard_from_slurm(run, a);
    errno = 0;
    unsigned long long i = strtoull(a->shard, &slash, 10);
    unsigned long long n = *slash == '/' ? strtoull(slash + 1, &end, 10) : 0;
    bool digits = strspn(a->shard, "0123456789/") == strlen(a->shard);
    if (!digits || errno != 0 || !end || *end != '\0' || slash == a->shard || i >= n ||
        n > INT64_MAX)
        return cli_wrong(run, "--shard: write I/N with I from 0 to N-1, or auto; got '%s'",
                         a->shard);
    a->opts.shard = i;
    a->opts.n_shards = n;
    return -1;
}

/* ---------------------------------------------------------------- the run --------------- */

static void say_begin(const cli *run, const kmf_embedder *embedder,
                      const kmf_embed_options *used)
{
    const kmf_vectors_info *v = kmf_embedder_vectors(embedder);
    char lengths[CLI_LENGTHS_TEXT];
    cli_note(
        run,
        "model %s, %d threads, at most %.0f MB besides the program, mapped weights and the "
        "longest record",
        kmf_embedder_name(embedder), used->threads,
        1e-6 * (double)kmf_embedder_bytes(embedder));
    if (!v)
        return;
    if (used->k)
        snprintf(lengths, sizeof lengths, "%d", used->k);
    else
        cli_lengths(lengths, v);
    cli_note(run, "%zu %sk-mers of %s, %zu of them never seen; those of %s letters, weights %s",
             v->n, v->canonical ? "canonical " : "", kmf_alphabet_names[v->alphabet], v->unseen,
             lengths, kmf_weights_names[used->weights]);
}

/* Things that are allowed, but hardly meant. */
static void warn_of_settings(cli *run, const embed_args *a, const kmf_embedder *embedder,
                             const kmf_embed_options *used)
{
    const kmf_model *model = kmf_embedder_model(embedder);
    if (model && used->window > kmf_model_config(model)->max_positions)
        cli_warn(run, "a window of %zu tokens; the model was made for %zu at most",
                 used->window, kmf_model_config(model)->max_positions);
    cli_warn_of_vectors(run, embedder, &a->opts);
    if (used->n_shards > 1 && strcmp(a->out, "-") == 0)
        cli_warn(run,
                 "a shard on standard output cannot be merged: -o FILE keeps what merge needs");
}

/* One run of the program: what it is made of, and how far it is. */
typedef struct embedding {
    cli *run;
    const embed_args *args;
    kmf_embedder *embedder; /* owned */
    cli_resumable resumable;
    cli_embedding at;
    cli_progress line;
    cli_inputs inputs;
} embedding;

static void show_progress(void *user, uint64_t tokens)
{
    embedding *e = user;
    kmf_embed_stats s;
    char done[CLI_COUNT_TEXT];
    char rate[CLI_COUNT_TEXT];
    char left[CLI_COUNT_TEXT];
    double seconds = cli_embedding_step(&e->at, tokens, &e->inputs, &s);
    if (!cli_progress_due(&e->line))
        return;
    cli_progress_show(&e->line, "%llu records done, %.3f Mbp read, %s tokens, %s tokens/s%s",
                      (unsigned long long)s.records,
                      1e-6 * (double)(e->inputs.letters + e->inputs.now.bases),
                      cli_count(done, (double)(e->at.before.tokens + tokens)),
                      cli_count(rate, seconds > 0 ? (double)tokens / seconds : 0),
                      cli_inputs_left(&e->inputs, left, seconds));
}

static void say_end(const embedding *e)
{
    const kmf_embed_stats *done = &e->at.before;
    kmf_embed_stats s;
    char tokens[CLI_COUNT_TEXT];
    char rate[CLI_COUNT_TEXT];
    char base_rate[CLI_COUNT_TEXT];
    char before[CLI_BEFORE_TEXT];
    kmf_embedder_statistics(e->embedder, &s);
    double seconds = cli_now() - e->run->started;
    uint64_t n_tokens = s.tokens - done->tokens;
    uint64_t n_bases = s.bases - done->bases;
    cli_tell_of_embedding(e->run, e->embedder, true);
    cli_note(e->run,
             "%llu records%s x %zu columns; %.3f Mbp, %s tokens in %.2f s (%.2f s of processor "
             "time): %s bp/s, %s tokens/s; peak memory %.0f MB",
             (unsigned long long)s.records, cli_told_before(before, e->at.before.records),
             kmf_embedder_dim(e->embedder), 1e-6 * (double)n_bases,
             cli_count(tokens, (double)n_tokens), seconds, cli_cpu_seconds(),
             cli_count(base_rate, (double)n_bases / seconds),
             cli_count(rate, (double)n_tokens / seconds), 1e-6 * cli_peak_memory());
}

static int embed_files(embedding *e, kmf_err *err)
{
    const cli_resumable *k = &e->resumable;
    int status = 0;
    cli_warn_of_twice(e->run, k->paths, k->n_paths, "so are its rows");
    cli_inputs_start(&e->inputs, k->paths, k->n_paths, k->reader);
    cli_progress_start(&e->line, e->run);
    kmf_embedder_progress(e->embedder, show_progress, e);
    for (size_t i = 0; i < k->n_paths && status == 0; i++)
        status = cli_embedding_read(&e->at, k->paths[i], &e->inputs, err);
    if (status == 0)
        status = kmf_embedder_finish(e->embedder, err);
    cli_progress_end();
    kmf_embedder_progress(e->embedder, NULL, NULL);
    return status;
}

/* Standard output has no file beside it that could tell where it came from. */
static bool has_provenance(const embed_args *a)
{
    return strcmp(a->out, "-") != 0;
}

static int finish(embedding *e, kmf_err *err)
{
    const cli_resumable *k = &e->resumable;
    char *provenance = NULL;
    if (has_provenance(e->args)) {
        provenance = kmf_provenance(e->embedder, k->out, e->run->command_line, k->paths,
                                    k->n_paths, k->reader, err);
        if (!provenance)
            return (int)err->code;
    }
    int status = cli_resumable_finish(&e->resumable, provenance, err);
    kmf_text_free(provenance);
    return status;
}

static int embed(embedding *e, const kmf_embed_options *used, kmf_err *err)
{
    const kmf_output_form form = {.dim = kmf_embedder_dim(e->embedder),
                                  .f16 = e->args->f16,
                                  .per_token = used->pooling == KMF_POOL_NONE};
    int status = cli_embedding_open(&e->at, &e->resumable, e->embedder, &form, err);
    if (status == 0)
        status = embed_files(e, err);
    return status < 0 ? status : finish(e, err);
}

int cli_embed(cli *run, int argc, char **argv)
{
    kmf_err err = {0};
    embed_args a = {.out = "-", .keeping = CLI_RESUMABLE_DEFAULT};
    embedding e = {.run = run, .args = &a};
    kmf_embed_options used;
    int code = CLI_DONE;
    kmf_embed_options_default(&a.opts);
    kmf_reader_options_default(&a.reader);
    a.opts.threads = kmf_threads_default();
    int leave = parse(run, &a, argc, argv);
    if (leave >= 0)
        return leave;
    const char *const *paths = run->inputs;
    size_t n_paths = run->n_inputs;
    leave = parse_shard(run, &a);
    cli_resumable_init(&e.resumable, run, &a.keeping, a.out, paths, n_paths, &a.reader);
    if (leave < 0)
        leave =
            cli_check_place(run, a.out, cli_row_endings, paths, n_paths, a.model, &a.reader);
    const char *const others[] = {a.model, a.reader.bed, a.reader.reference};
    if (leave < 0)
        leave = cli_resumable_refuse(&e.resumable, others, sizeof others / sizeof others[0]);
    if (leave >= 0)
        return leave;
    if (cli_check_inputs(paths, n_paths, &a.reader, &err) < 0)
        return cli_fail(run, &err);
    cli_resumable_start(&e.resumable);
    a.opts.provenance = has_provenance(&a);
    e.embedder = kmf_embedder_new(a.model, &a.opts, &err);
    if (!e.embedder)
        goto out;
    kmf_embedder_options(e.embedder, &used);
    if (run->verbose)
        say_begin(run, e.embedder, &used);
    warn_of_settings(run, &a, e.embedder, &used);
    if (embed(&e, &used, &err) == 0)
        say_end(&e);
out:
    if (err.code != KMF_OK)
        code = cli_fail(run, &err);
    kmf_embedder_free(e.embedder);
    cli_resumable_end(&e.resumable, code != CLI_DONE);
    return code;
}
