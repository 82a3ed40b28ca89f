/* SPDX-License-Identifier: MIT */
/* kmerformer info: what a model is and what it costs; what a file of vectors or a probe holds. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define USUAL_BATCH_TOKENS 1024

typedef struct info_args {
    size_t batch_tokens; /* 0: not given */
    int threads;
    int tensors;
} info_args;

static const char *const position_names[] = {"rotary", "rotary, in halves", "learned",
                                             "slopes (ALiBi)"};

static const cli_usage usage = {
    "info [options] [MODEL]",
    "Configuration, parameters, vocabulary, provenance and memory of a model directory or of\n"
    "one safetensors file of a model (default: the model that embed uses), or what a file of\n"
    "k-mer vectors, of a probe, or an array of embed holds, as name<TAB>value.",
    0, 1};

static void print_config(const kmf_config *c)
{
    printf("architecture\t%s\n", c->family);
    printf("layers\t%zu\nhidden_size\t%zu\nheads\t%zu\nintermediate_size\t%zu\nembedding_"
           "size\t%zu\n",
           c->n_layers, c->hidden_size, c->n_heads, c->intermediate_size, c->embedding_size);
    printf("activation\t%s%s\nlayer_norm_eps\t%g\nnorms\t%s\n",
           kmf_activation_names[c->activation], c->gated ? ", gated" : "", c->layer_norm_eps,
           !c->pre_norm      ? "after"
           : c->closing_norm ? "before, and after the last layer"
                             : "before");
    printf("positions\t%s\nrotary_value\t%s\n", position_names[c->positions],
           c->rotary_value ? "yes" : "no");
    if (c->bounded)
        printf("max_positions\t%zu\n", c->max_positions);
    else
        printf("max_positions\tno limit\n");
    printf("pool\t%s\nlayer\t%d\nparts\t%s\nstrand\t%s\nnorm\t%s\n",
           kmf_pooling_names[c->pooling], c->layer, kmf_parts_names[c->parts],
           kmf_strand_names[c->strand], kmf_norm_names[c->norm]);
    if (c->composition > 0)
        printf("composition\t%zu\n", c->composition);
    printf("stride\t%zu\nwindow\t%zu\noverlap\t%zu\nambiguous\t%s\n", c->stride, c->window,
           c->overlap, kmf_ambiguous_names[c->ambiguous]);
}

static void print_kmers(const kmf_vocab *v)
{
    uint64_t all = (uint64_t)1 << 2 * kmf_vocab_k(v);
    uint64_t listed = 0;
    for (uint64_t code = 0; code < all; code++)
        listed += kmf_vocab_kmer(v, code) >= 0;
    printf("k-mers\t%llu of %llu\n", (unsigned long long)listed, (unsigned long long)all);
}

static void print_vocabulary(const kmf_vocab *v, bool specials)
{
    static const char *const names[KMF_N_SPECIAL] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]",
                                                     "[MASK]"};
    static const char *const frames[] = {"none", "[CLS] ...", "[CLS] ... [SEP]"};
    static const char *const kinds[] = {"k-mers", "k-mers side by side", "byte-pair encoding"};
    kmf_vocab_kind kind = kmf_vocab_kind_of(v);
    printf("specials\t%s\ntokenizer\t%s\n", frames[specials ? kmf_vocab_frame(v) : 0],
           kinds[kind]);
    if (kind != KMF_VOCAB_BPE)
        printf("k\t%d\n", kmf_vocab_k(v));
    printf("vocabulary\t%zu\n", kmf_vocab_size(v));
    if (kind != KMF_VOCAB_BPE)
        print_kmers(v);
    for (int s = 0; s < KMF_N_SPECIAL; s++)
        if (kmf_vocab_special(v, (kmf_special)s) >= 0)
            printf("%s\t%d\n", names[s], (int)kmf_vocab_special(v, (kmf_special)s));
}

/* "stored<TAB>I8 F32": the kinds of numbers in its files, in their order. */
static void print_stored(const kmf_model *model)
{
    const char *seen[8];
    size_t n = 0;
    printf("stored\t");
    for (size_t i = 0; i < kmf_model_n_tensors(model); i++) {
        kmf_tensor_info t;
        size_t j = 0;
        kmf_model_tensor(model, i, &t);
        while (j < n && strcmp(seen[j], t.stored) != 0)
            j++;
        if (j < n || n == sizeof seen / sizeof seen[0])
            continue;
        printf("%s%s", n > 0 ? " " : "", t.stored);
        seen[n++] = t.stored;
    }
    printf("\n");
}

static void print_memory(const kmf_model *model, const info_args *a)
{
    const kmf_config *c = kmf_model_config(model);
    size_t tokens = a->batch_tokens > c->window ? a->batch_tokens : c->window;
    bool encodes = c->parts != KMF_PARTS_COMPOSITION;
    uint64_t workspace =
        encodes ? kmf_encoder_bytes(c, KMF_PRECISION_F32, tokens, c->window) : 0;
    uint64_t weights = kmf_model_n_parameters(model) * sizeof(float);
    printf("parameters\t%" PRIu64 "\n", kmf_model_n_parameters(model));
    printf("unused_tensors\t%zu\n", kmf_model_n_unused(model));
    print_stored(model);
    printf("bytes_weights\t%" PRIu64 "\n", weights);
    printf("bytes_workspace\t%" PRIu64 " for each thread at %zu tokens\n", workspace, tokens);
    uint64_t held = encodes ? kmf_model_bytes(model) : weights;
    printf("bytes_embed\t%" PRIu64
           " with %d threads: weights, as they are held, and workspaces\n",
           held + workspace * (uint64_t)a->threads, a->threads);
}

static void print_tensors(const kmf_model *model)
{
    kmf_tensor_info t;
    for (size_t i = 0; i < kmf_model_n_tensors(model); i++) {
        kmf_model_tensor(model, i, &t);
        printf("tensor\t%s\t%s\t%zu", t.name, t.stored, t.shape[0]);
        if (t.rank > 1)
            printf(" x %zu", t.shape[1]);
        printf("\n");
    }
}

static int print_model(const cli *run, const char *path, const info_args *a)
{
    kmf_err err = {0};
    kmf_model *model = kmf_model_load(path, &err);
    if (!model)
        return cli_fail(run, &err);
    printf("model\t%s\n", kmf_model_path(model));
    print_config(kmf_model_config(model));
    print_vocabulary(kmf_model_vocab(model), kmf_model_config(model)->specials);
    print_memory(model, a);
    if (kmf_model_provenance(model)[0])
        printf("provenance\t%s\n", kmf_model_provenance(model));
    if (a->tensors)
        print_tensors(model);
    kmf_model_free(model);
    return CLI_DONE;
}

/* ---------------------------------------------------------------- vectors --------------- */

/* "words_6<TAB>4096" for each length that there is. */
static void print_lengths(const kmf_vectors *vectors)
{
    size_t words[KMF_K_MAX + 1] = {0};
    char text[KMF_K_MAX + 1];
    kmf_vectors_info v;
    kmf_vectors_information(vectors, &v);
    for (size_t row = 0; row < v.n; row++)
        words[kmf_vectors_word(vectors, row, text)]++;
    for (int k = v.k_min; k <= v.k_max; k++)
        if (words[k] > 0)
            printf("words_%d\t%zu\n", k, words[k]);
}

/* JSON on one line: where it has control characters, blanks mean the same. */
static void print_json(const char *name, const char *text)
{
    printf("%s\t", name);
    for (; *text; text++)
        putchar((unsigned char)*text < ' ' ? ' ' : *text);
    putchar('\n');
}

/* What is no file of vectors may be a table of counts, which another command describes. */
static int fail_vectors(const cli *run, const char *path, const kmf_err *err)
{
    kmf_counts *counts = err->code == KMF_EMODEL ? kmf_counts_load(path, NULL) : NULL;
    kmf_err table = {0};
    if (counts)
        (void)cli_raise(&table, KMF_EMODEL,
                        "%s: a table of counts; kmerformer vocab stats tells what it holds",
                        path);
    kmf_counts_free(counts);
    return cli_fail(run, table.code != KMF_OK ? &table : err);
}

static int print_vectors(const cli *run, const char *path)
{
    kmf_err err = {0};
    kmf_vectors_info v;
    kmf_vectors *vectors = kmf_vectors_load(path, &err);
    if (!vectors)
        return fail_vectors(run, path, &err);
    kmf_vectors_information(vectors, &v);
    printf("vectors\t%s\nalphabet\t%s\nk_min\t%d\nk_max\t%d\ncanonical\t%s\n", path,
           kmf_alphabet_names[v.alphabet], v.k_min, v.k_max, v.canonical ? "yes" : "no");
    printf("columns\t%zu\nwords\t%zu\n", v.dim, v.n);
    print_lengths(vectors);
    printf("counted\t%s\nunseen\t%zu\nforeign\t%zu\n", v.counted ? "yes" : "no", v.unseen,
           v.foreign);
    printf("bytes_vectors\t%" PRIu64 "\n", (uint64_t)v.n * v.dim * sizeof(float));
    if (kmf_vectors_provenance(vectors)[0])
        print_json("provenance", kmf_vectors_provenance(vectors));
    kmf_vectors_free(vectors);
    return CLI_DONE;
}

/* ---------------------------------------------------------------- probe ----------------- */

static int print_probe(const cli *run, const char *path)
{
    kmf_err err = {0};
    kmf_probe *probe = kmf_probe_load(path, &err);
    if (!probe)
        return cli_fail(run, &err);
    printf("probe\t%s\nclasses\t%zu\ncolumns\t%zu\nl2\t%g\nprobe_scale\t%s\n", path,
           kmf_probe_n_classes(probe), kmf_probe_dim(probe), kmf_probe_l2(probe),
           kmf_probe_scale_names[kmf_probe_scaled_by(probe)]);
    for (size_t c = 0; c < kmf_probe_n_classes(probe); c++)
        printf("class_%zu\t%s\n", c, kmf_probe_label(probe, c));
    print_json("embedder", kmf_probe_identity(probe));
    print_json("provenance", kmf_probe_provenance(probe));
    kmf_probe_free(probe);
    return CLI_DONE;
}

/* Vectors of records. */
static int print_rows(const cli *run, const char *path)
{
    kmf_err err = {0};
    kmf_row_file_info info;
    kmf_row_file *file = kmf_row_file_open(path, &err);
    if (!file)
        return cli_fail(run, &err);
    kmf_row_file_information(file, &info);
    printf("array\t%s\nrows\t%" PRIu64 "\ncolumns\t%zu\nnumbers\tfloat%d\n", path, info.n,
           info.dim, 8 * info.element_bytes);
    printf("rows_are\t%s\nnames\t%s\n", info.per_token ? "tokens" : "records",
           info.named ? "yes" : "no");
    char *identity = info.model ? kmf_row_file_identity(file, &err) : NULL;
    if (identity)
        printf("embedder\t%s\n", identity);
    kmf_text_free(identity);
    kmf_row_file_close(file);
    return err.code ? cli_fail(run, &err) : CLI_DONE;
}

int cli_info(cli *run, int argc, char **argv)
{
    info_args a = {.threads = kmf_threads_default()};
    const cli_option table[] = {
        {NULL, "batch-tokens", CLI_SIZE, &a.batch_tokens, 64, 1LL << 24, NULL, "N",
         "tokens of a batch, for the memory", 0, "1024"},
        {"t@", "threads", CLI_INT, &a.threads, 1, KMF_THREADS_MAX, NULL, "N",
         "threads, for the memory", 0, NULL},
        {NULL, "tensors", CLI_FLAG, &a.tensors, 0, 0, NULL, NULL, "list all tensors", 0, NULL},
        CLI_COMMON(run)};
    int leave = cli_parse(run, table, &usage, argc, argv);
    if (leave >= 0)
        return leave;
    const char *path = run->inputs[0];
    kmf_err err = {0};
    int whole = path ? kmf_model_is_file(path, &err) : 0;
    if (whole < 0)
        return cli_fail(run, &err);
    if (!path || !cli_is_file(path) || whole) {
        a.batch_tokens = a.batch_tokens > 0 ? a.batch_tokens : USUAL_BATCH_TOKENS;
        return print_model(run, path, &a);
    }
    if (a.batch_tokens > 0 || a.tensors)
        return cli_wrong(run, "%s: for models; %s is none",
                         a.tensors ? "--tensors" : "--batch-tokens", path);
    if (cli_is_array(path))
        return print_rows(run, path);
    return kmf_probe_is_file(path) ? print_probe(run, path) : print_vectors(run, path);
}
