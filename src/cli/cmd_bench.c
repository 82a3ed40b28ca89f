/* SPDX-License-Identifier: MIT */
/* kmerformer bench: what the processor can do, and how much of it the encoder gets. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_SECONDS 0.02
#define LENGTHS_MAX 16
#define LENGTH_MAX 1048576
#define N_PRECISIONS KMF_PRECISION_AUTO
#define PRESET_K 6
#define SEED 1

static const char *const precisions[] = {"f32", "bf16", "int8", "all", NULL};

typedef struct bench_args {
    const char *model;
    const char *preset;
    const char *lengths;
    int precision; /* N_PRECISIONS: all that there are */
    int threads;
    size_t batch_tokens;
    double seconds;
    int json;
} bench_args;

/* The encoder in one precision, or nothing where measured is false. */
typedef struct bench_precision {
    bool measured;
    double load_seconds, pack_seconds;
    kmf_speed speeds[LENGTHS_MAX]; /* for each length */
} bench_precision;

typedef struct bench {
    const cli *run;
    const bench_args *args;
    size_t lengths[LENGTHS_MAX];
    size_t n_lengths;
    kmf_processor processor;
    int cores;
    char *model; /* owned: its directory or preset */
    kmf_config config;
    size_t framing; /* tokens around a sequence */
    double letters; /* of a token; 0: k-mers that overlap */
    uint64_t n_parameters;
    bench_precision precision[N_PRECISIONS];
    double peak_bytes;              /* of memory, before the limits took theirs */
    int n_rows;                     /* of limits: 1 or 2 */
    double limits[2][KMF_N_LIMITS]; /* a second; by one thread, by all of several */
} bench;

static const cli_usage usage = {
    "bench [options]",
    "Measures what the processor can do (multiply-adds of each precision, reading and copying\n"
    "memory) and the encoder's speed as a share of it, on sequences of random tokens.",
    0, 0};

static int parse(cli *run, bench_args *a, int argc, char **argv)
{
    const cli_option table[] = {
        {"m", "model", CLI_TEXT, &a->model, 0, 0, NULL, "MODEL",
         "model directory, or one safetensors file of a model", 0, "the default model"},
        {NULL, "preset", CLI_TEXT, &a->preset, 0, 0, NULL, "NAME",
         "random weights instead: nano, tiny, small, base (see init)", 0, NULL},
        {NULL, "precision", CLI_CHOICE, &a->precision, 0, 0, precisions, NULL,
         "of the encoder's matrix products; all: those that the processor has", 0, NULL},
        {NULL, "lengths", CLI_ONCE, &a->lengths, 0, 0, NULL, "LIST",
         "tokens of a sequence, by commas", 0, NULL},
        {"t@", "threads", CLI_INT, &a->threads, 1, KMF_THREADS_MAX, NULL, "N",
         "threads, each with an encoder of its own", 0, NULL},
        {NULL, "batch-tokens", CLI_SIZE, &a->batch_tokens, 64, 1LL << 24, NULL, "N",
         "tokens worked on at once by a thread; a longer sequence is a batch of its own", 0,
         NULL},
        {NULL, "seconds", CLI_REAL, &a->seconds, 0, 0, NULL, "X",
         "for each length and precision; one batch at least", 0, NULL},
        {NULL, "json", CLI_FLAG, &a->json, 0, 0, NULL, NULL,
         "as JSON, in plain units and numbers: bytes, operations, seconds", 0, NULL},
        CLI_COMMON(run)};
    return cli_parse(run, table, &usage, argc, argv);
}

/* -1 to go on, or an exit code. */
static int parse_lengths(const cli *run, bench *b)
{
    const char *text = b->args->lengths;
    for (;;) {
        uint64_t n;
        const char *end = cli_read_count(text, LENGTH_MAX, true, &n);
        if (!end || n < 1 || (*end != ',' && *end != '\0'))
            return cli_wrong(
                run, "--lengths: numbers from 1 to %d, K and M allowed, by commas; got '%s'",
                LENGTH_MAX, b->args->lengths);
        if (b->n_lengths == LENGTHS_MAX)
            return cli_wrong(run, "--lengths: %d at most", LENGTHS_MAX);
        b->lengths[b->n_lengths++] = (size_t)n;
        if (*end == '\0')
            return -1;
        text = end + 1;
    }
}

/* ---------------------------------------------------------------- measuring ------------- */

static kmf_model *get_model(const bench_args *a, kmf_err *err)
{
    kmf_config config;
    if (!a->preset)
        return kmf_model_load(a->model, err);
    if (kmf_config_preset(&config, a->preset, PRESET_K, err) < 0)
        return NULL;
    return kmf_model_new(&config, SEED, err);
}

/* The letters of a token drawn at random, as those that are measured are. */
static double mean_letters(const kmf_vocab *vocab)
{
    size_t V = kmf_vocab_size(vocab);
    double sum = 0;
    for (size_t id = 0; id < V; id++)
        sum += (double)strlen(kmf_vocab_token(vocab, (int32_t)id));
    return sum / (double)V;
}

/* Leaves out the lengths for which a model has no learned positions. */
static int drop_lengths(bench *b, kmf_err *err)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n_lengths; i++)
        if (b->config.positions != KMF_POSITIONS_LEARNED ||
            b->lengths[i] <= b->config.max_positions)
            b->lengths[n++] = b->lengths[i];
        else
            cli_warn(b->run, "no sequences of %zu tokens: the model has learned %zu positions",
                     b->lengths[i], b->config.max_positions);
    b->n_lengths = n;
    return n > 0 ? 0 : cli_raise(err, KMF_EINVAL, "the model takes none of these lengths");
}

static int describe_model(bench *b, const kmf_model *model, kmf_err *err)
{
    const kmf_vocab *vocab = kmf_model_vocab(model);
    const char *name = b->args->preset ? b->args->preset : kmf_model_path(model);
    b->config = *kmf_model_config(model);
    b->framing = b->config.specials ? kmf_vocab_frame(vocab) : 0;
    b->letters = kmf_vocab_kind_of(vocab) == KMF_VOCAB_KMERS ? 0 : mean_letters(vocab);
    if (drop_lengths(b, err) < 0)
        return KMF_EINVAL;
    b->n_parameters = kmf_model_n_parameters(model);
    b->model = strdup(name);
    return b->model ? 0 : cli_raise(err, KMF_ENOMEM, "out of memory");
}

static int measure_precision(bench *b, kmf_precision precision, cli_progress *progress,
                             kmf_err *err)
{
    const bench_args *a = b->args;
    bench_precision *p = &b->precision[precision];
    double begin = cli_now();
    kmf_model *model = get_model(a, err);
    double loaded = cli_now();
    int status = model ? kmf_model_prepare(model, precision, err) : -1;
    p->load_seconds = loaded - begin;
    p->pack_seconds = cli_now() - loaded;
    if (status == 0 && !b->model)
        status = describe_model(b, model, err);
    for (size_t i = 0; i < b->n_lengths && status == 0; i++) {
        if (cli_progress_due(progress))
            cli_progress_show(progress, "%s, sequences of %zu tokens",
                              kmf_precision_names[precision], b->lengths[i]);
        status = kmf_encoder_speed(&p->speeds[i], model, a->threads, b->lengths[i],
                                   a->batch_tokens, a->seconds, SEED, err);
    }
    p->measured = true;
    kmf_model_free(model);
    return status;
}

/* Of a row of the limits. */
static int row_threads(const bench *b, int row)
{
    return row == 0 ? 1 : b->args->threads;
}

static int measure_limits(bench *b, cli_progress *progress, kmf_err *err)
{
    double seconds = b->args->seconds < LIMIT_SECONDS ? b->args->seconds : LIMIT_SECONDS;
    for (int i = 0; i < KMF_N_LIMITS; i++) {
        if (cli_progress_due(progress))
            cli_progress_show(progress, "limits: %s", kmf_limit_names[i]);
        for (int row = 0; row < b->n_rows; row++) {
            int status = kmf_limit_measure(&b->limits[row][i], (kmf_limit_kind)i,
                                           row_threads(b, row), seconds, err);
            if (status < 0)
                return status;
        }
    }
    return 0;
}

static int measure(const cli *run, bench *b, kmf_err *err)
{
    const bench_args *a = b->args;
    cli_progress progress;
    cli_progress_start(&progress, run);
    int status = 0;
    for (int p = 0; p < N_PRECISIONS && status == 0; p++) {
        bool wanted = a->precision == N_PRECISIONS || a->precision == p;
        if (wanted && kmf_precision_here((kmf_precision)p) == (kmf_precision)p)
            status = measure_precision(b, (kmf_precision)p, &progress, err);
    }
    b->peak_bytes = cli_peak_memory();
    if (status == 0)
        status = measure_limits(b, &progress, err);
    cli_progress_end();
    return status;
}

/* ---------------------------------------------------------------- printing -------------- */

/* Bases of a sequence that makes T tokens, special ones included. */
static double bases(const bench *b, size_t T)
{
    if (T <= b->framing)
        return 0;
    size_t n = T - b->framing;
    return b->letters > 0 ? (double)n * b->letters
                          : (double)((n - 1) * b->config.stride + (size_t)b->config.k);
}

/* One line of the table. */
typedef struct bench_cell {
    double tokens, bases, operations, limit; /* a second */
} bench_cell;

static bench_cell get_cell(const bench *b, int precision, size_t i)
{
    size_t T = b->lengths[i];
    const kmf_speed *speed = &b->precision[precision].speeds[i];
    double operations = speed->tokens * kmf_encoder_operations(&b->config, T);
    return (bench_cell){speed->tokens, speed->tokens / (double)T * bases(b, T), operations,
                        speed->limit};
}

static const char *limit_unit(int limit)
{
    return limit == KMF_LIMIT_INT8 ? "GOP/s" : limit < KMF_LIMIT_READ_L1 ? "GFLOP/s" : "GB/s";
}

static void print_limit(const bench *b, int limit)
{
    printf("%-12s", kmf_limit_names[limit]);
    for (int row = 0; row < b->n_rows; row++)
        printf("%9.1f %s%*s", 1e-9 * b->limits[row][limit], limit_unit(limit),
               row + 1 < b->n_rows ? 7 - (int)strlen(limit_unit(limit)) : 0, "");
    printf("\n");
}

static void print_text(const bench *b)
{
    char tokens[CLI_COUNT_TEXT];
    char letters[CLI_COUNT_TEXT];
    printf("processor    %s, %d cores; level %s, float32 products by %s\n", b->processor.name,
           b->cores, b->processor.level, b->processor.products);
    printf("model        %s: %zu layers, width %zu, %llu parameters\n", b->model,
           b->config.n_layers, b->config.hidden_size, (unsigned long long)b->n_parameters);
    printf("memory       %.0f MB at most\n", 1e-6 * b->peak_bytes);
    for (int p = 0; p < N_PRECISIONS; p++)
        if (b->precision[p].measured)
            printf("start %-6s %.1f ms to %s the model, %.1f ms to pack its weights\n",
                   kmf_precision_names[p], 1e3 * b->precision[p].load_seconds,
                   b->args->preset ? "draw" : "load", 1e3 * b->precision[p].pack_seconds);
    printf("\n%-12s%17s", "limits", "1 thread");
    if (b->n_rows > 1)
        printf("%9d threads", b->args->threads);
    printf("\n");
    for (int i = 0; i < KMF_N_LIMITS; i++)
        if (b->limits[0][i] > 0)
            print_limit(b, i);
    printf("\nencoder, %d thread%s, batches of %zu tokens\n", b->args->threads,
           b->args->threads > 1 ? "s" : "", b->args->batch_tokens);
    for (int p = 0; p < N_PRECISIONS; p++)
        for (size_t i = 0; i < b->n_lengths && b->precision[p].measured; i++) {
            bench_cell c = get_cell(b, p, i);
            printf("%-5s %6zu tokens: %8s tokens/s %8s bp/s %8.1f %-7s %5.1f %% of %.1f %s\n",
                   kmf_precision_names[p], b->lengths[i], cli_count(tokens, c.tokens),
                   cli_count(letters, c.bases), 1e-9 * c.operations, limit_unit(p),
                   100 * c.operations / c.limit, 1e-9 * c.limit, limit_unit(p));
        }
}

static void print_json_limits(const bench *b)
{
    for (int row = 0; row < b->n_rows; row++) {
        printf("%s\n    {\"threads\": %d", row > 0 ? "," : "", row_threads(b, row));
        for (int i = 0; i < KMF_N_LIMITS; i++)
            if (b->limits[row][i] > 0)
                printf(", \"%s\": %.6g", kmf_limit_names[i], b->limits[row][i]);
        printf("}");
    }
}

static void print_json_encoder(const bench *b)
{
    const char *comma = "";
    for (int p = 0; p < N_PRECISIONS; p++)
        for (size_t i = 0; i < b->n_lengths && b->precision[p].measured; i++) {
            bench_cell c = get_cell(b, p, i);
            printf(
                "%s\n    {\"precision\": \"%s\", \"length\": %zu, \"tokens_per_second\": %.6g, "
                "\"bases_per_second\": %.6g, \"operations_per_second\": %.6g, "
                "\"limit_per_second\": %.6g, \"share_of_limit\": %.4g}",
                comma, kmf_precision_names[p], b->lengths[i], c.tokens, c.bases, c.operations,
                c.limit, c.operations / c.limit);
            comma = ",";
        }
}

static void print_json_start(const bench *b)
{
    const char *comma = "";
    for (int p = 0; p < N_PRECISIONS; p++)
        if (b->precision[p].measured) {
            printf("%s\n    {\"precision\": \"%s\", \"load_seconds\": %.6g, "
                   "\"pack_seconds\": %.6g}",
                   comma, kmf_precision_names[p], b->precision[p].load_seconds,
                   b->precision[p].pack_seconds);
            comma = ",";
        }
}

static int print_json(const bench *b, kmf_err *err)
{
    const char *pairs[] = {
        "version",          kmf_version(), "processor",           b->processor.name, "level",
        b->processor.level, "products",    b->processor.products, "model",           b->model};
    char *about = kmf_json_pairs(pairs, sizeof pairs / sizeof pairs[0] / 2, err);
    if (!about)
        return KMF_ENOMEM;
    printf("{\n  \"about\": %s,\n", about);
    printf("  \"cores\": %d,\n  \"threads\": %d,\n  \"batch_tokens\": %zu,\n", b->cores,
           b->args->threads, b->args->batch_tokens);
    printf("  \"parameters\": %llu,\n  \"peak_bytes\": %.0f,\n  \"start\": [",
           (unsigned long long)b->n_parameters, b->peak_bytes);
    print_json_start(b);
    printf("\n  ],\n  \"limits\": [");
    print_json_limits(b);
    printf("\n  ],\n  \"encoder\": [");
    print_json_encoder(b);
    printf("\n  ]\n}\n");
    kmf_text_free(about);
    return 0;
}

int cli_bench(cli *run, int argc, char **argv)
{
    kmf_err err = {0};
    bench_args a = {.lengths = "148,512,2048",
                    .precision = N_PRECISIONS,
                    .threads = kmf_threads_default(),
                    .batch_tokens = 1024,
                    .seconds = 1};
    bench b = {.run = run, .args = &a, .cores = kmf_threads_default()};
    int leave = parse(run, &a, argc, argv);
    if (leave < 0)
        leave = parse_lengths(run, &b);
    if (leave >= 0)
        return leave;
    if (a.model && a.preset)
        return cli_wrong(run, "--model or --preset, not both");
    if (a.seconds > KMF_BENCH_SECONDS_MAX)
        return cli_wrong(run, "--seconds: at most %.0f, got %g", KMF_BENCH_SECONDS_MAX,
                         a.seconds);
    if (a.precision < N_PRECISIONS &&
        kmf_precision_here((kmf_precision)a.precision) != (kmf_precision)a.precision)
        return cli_wrong(run, "--precision: this processor, or KMERFORMER_CPU, lacks %s",
                         precisions[a.precision]);
    b.n_rows = a.threads > 1 ? 2 : 1;
    kmf_processor_describe(&b.processor);
    int status = measure(run, &b, &err);
    if (status == 0 && a.json)
        status = print_json(&b, &err);
    else if (status == 0)
        print_text(&b);
    free(b.model);
    return status == 0 ? CLI_DONE : cli_fail(run, &err);
}
