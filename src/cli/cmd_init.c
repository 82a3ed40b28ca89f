/* SPDX-License-Identifier: MIT */
/* kmerformer init: a model with random weights. */
#include "cli/cli.h"

#include <stdio.h>

#define WIDTH_MAX 65536
#define LARGE_TABLE 1e9 /* bytes of the tokens' vectors, beyond which it is told before */

typedef struct init_args {
    const char *preset;
    const char *out;
    int k;
    size_t width, layers, heads, ff, embedding, positions, composition;
    int rotary_value;
    int pooling, parts, strand, norm;
    int dtype;
    uint64_t seed;
} init_args;

static const cli_usage usage = {
    "init -o DIR [options]",
    "Writes a model directory with random weights in the RoFormer layout: config.json,\n"
    "vocab.txt, model.safetensors. The same seed gives the same bytes everywhere.",
    0, 0};

static int parse(cli *run, init_args *a, int argc, char **argv)
{
    const cli_option table[] = {
        {"o", "output", CLI_TEXT, &a->out, 0, 0, NULL, "DIR",
         "new directory, or x.safetensors, one file; needed", 0, NULL},
        {NULL, "preset", CLI_TEXT, &a->preset, 0, 0, NULL, "NAME",
         "nano (4 layers, width 128), tiny (4, 256), small (6, 384), base (12, 768)", 0, NULL},
        {"k", "kmer", CLI_INT, &a->k, 1, 12, NULL, "K", "bases of a k-mer", 0, NULL},
        {NULL, "seed", CLI_SEED, &a->seed, 0, 0, NULL, "N", "of the weights", 0, NULL},
        {NULL, "dtype", CLI_CHOICE, &a->dtype, 0, 0, kmf_dtype_names, NULL,
         "how weights are stored", 0, NULL},
        CLI_HEADING("shape, where it differs from the preset"),
        {NULL, "width", CLI_SIZE, &a->width, 2, WIDTH_MAX, NULL, "N", "hidden size", 0,
         "the preset's"},
        {NULL, "layers", CLI_SIZE, &a->layers, 1, 1000, NULL, "N", "encoder blocks", 0,
         "the preset's"},
        {NULL, "heads", CLI_SIZE, &a->heads, 1, WIDTH_MAX, NULL, "N", "attention heads", 0,
         "the preset's"},
        {NULL, "ff", CLI_SIZE, &a->ff, 1, 4 * WIDTH_MAX, NULL, "N", "feed-forward width", 0,
         "the preset's, or 4 times --width"},
        {NULL, "embedding", CLI_SIZE, &a->embedding, 1, WIDTH_MAX, NULL, "N",
         "width of the token embeddings", 0, "the hidden size"},
        {NULL, "window", CLI_SIZE, &a->positions, 3, 1LL << 24, NULL, "N",
         "longest chunk in tokens, [CLS] and [SEP] included", 0, "the preset's"},
        {NULL, "composition", CLI_SIZE, &a->composition, 1, 1024, NULL, "C",
         "numbers of a composition beside the encoder", 0, "none"},
        {NULL, "rotary-value", CLI_FLAG, &a->rotary_value, 0, 0, NULL, NULL,
         "turn the values as well", 0, NULL},
        CLI_HEADING("how embed uses it"),
        {NULL, "pool", CLI_CHOICE, &a->pooling, 0, 0, kmf_pooling_names, NULL, "pooling", 0,
         NULL},
        {NULL, "parts", CLI_CHOICE, &a->parts, 0, 0, kmf_parts_names, NULL,
         "what a vector is made of: the encoder's states, the composition, or both", -1,
         "states, with --composition states+composition"},
        {NULL, "strand", CLI_CHOICE, &a->strand, 0, 0, kmf_strand_names, NULL, "strand", 0,
         NULL},
        {NULL, "norm", CLI_CHOICE, &a->norm, 0, 0, kmf_norm_names, NULL, "norm", 0, NULL},
        CLI_COMMON(run)};
    return cli_parse(run, table, &usage, argc, argv);
}

static void apply(kmf_config *c, const init_args *a)
{
    if (a->width > 0) {
        c->hidden_size = c->embedding_size = a->width;
        c->intermediate_size = 4 * a->width;
    }
    if (a->layers > 0)
        c->n_layers = a->layers;
    if (a->heads > 0)
        c->n_heads = a->heads;
    if (a->ff > 0)
        c->intermediate_size = a->ff;
    if (a->embedding > 0)
        c->embedding_size = a->embedding;
    if (a->positions > 0) {
        c->max_positions = c->window = a->positions;
        c->overlap = a->positions / 8;
    }
    c->rotary_value = a->rotary_value;
    c->composition = a->composition;
    c->pooling = (kmf_pooling)a->pooling;
    c->parts = c->composition > 0 ? KMF_PARTS_STATES_COMPOSITION : KMF_PARTS_STATES;
    if (a->parts >= 0)
        c->parts = (kmf_vector_parts)a->parts;
    c->strand = (kmf_strand)a->strand;
    c->norm = (kmf_norm)a->norm;
}

int cli_init(cli *run, int argc, char **argv)
{
    kmf_err err = {0};
    init_args a = {.preset = "tiny", .k = 6, .parts = -1, .seed = 1};
    kmf_config config;
    kmf_model *model = NULL;
    char *provenance = NULL;
    char seed[24];
    int leave = parse(run, &a, argc, argv);
    if (leave >= 0)
        return leave;
    if (!a.out)
        return cli_wrong(run, "-o DIR is needed");
    leave = cli_refuse_model(run, a.out, true);
    if (leave >= 0)
        return leave;
    if (kmf_config_preset(&config, a.preset, a.k, &err) < 0)
        return cli_fail(run, &err);
    apply(&config, &a);
    if (config.pooling == KMF_POOL_NONE && config.strand == KMF_STRAND_BOTH)
        return cli_wrong(run,
                         "--pool none: the strands' tokens have no common vector: --strand "
                         "fwd or rc");
    double table = 4.0 * (double)config.vocab_size * (double)config.embedding_size;
    if (table >= LARGE_TABLE)
        cli_warn(run, "%zu tokens: their vectors alone take %.1f GB of memory",
                 config.vocab_size, 1e-9 * table);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)a.seed);
    const char *pairs[] = {"weights", "random",          "seed",    seed,
                           "command", run->command_line, "version", kmf_version()};
    provenance = kmf_json_pairs(pairs, sizeof pairs / sizeof pairs[0] / 2, &err);
    if (provenance)
        model = kmf_model_new(&config, a.seed, &err);
    cli_hold_signals();
    int status =
        model ? kmf_model_save(model, a.out, (kmf_dtype)a.dtype, provenance, &err) : -1;
    cli_release_signals(status == 0);
    if (status == 0)
        cli_note(run, "%s: %llu random parameters, seed %s", a.out,
                 (unsigned long long)kmf_model_n_parameters(model), seed);
    kmf_model_free(model);
    kmf_text_free(provenance);
    return status == 0 ? CLI_DONE : cli_fail(run, &err);
}
