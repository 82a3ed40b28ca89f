/* SPDX-License-Identifier: MIT */
/* The options of kmerformer pretrain. */
#include "cli/pretraining.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const precisions[] = {"f32", "bf16", NULL};

static const cli_usage usage = {
    "pretrain [options] --steps N|--epochs E|--time 3h -o DIR GENOME...",
    "Trains an encoder on genomes, FASTA, FASTQ, SAM, BAM or CRAM, plain or compressed: spans\n"
    "of bases are masked, and it predicts the k-mers that overlap them (--objective masked);\n"
    "or it tells windows of one genome or contig from those of others (contrastive). DIR is a\n"
    "model for embed from the first checkpoint on, DIR/best the one that did best on what was\n"
    "held out. A signal (TERM, INT, HUP, USR1) ends the run with a checkpoint and exit status\n"
    "75; the same command then resumes. The bits of the model don't depend on threads, ranks\n"
    "or interruptions, but on the order of the inputs, --shards and --accumulate.",
    1, -1};

static int parse(cli *run, cli_pretrain_args *a, int argc, char **argv)
{
    kmf_pretrain_options *o = &a->opts;
    char span[32];
    snprintf(span, sizeof span, "%zu-%zu", o->span_min, o->span_max);
    const cli_option table[] = {
        {NULL, "objective", CLI_CHOICE, &o->objective, 0, 0, kmf_objective_names, NULL,
         "masked: predict masked bases; contrastive: tell windows of one source from those of "
         "others; or both",
         0, NULL},
        CLI_HEADING("model"),
        {NULL, "preset", CLI_TEXT, &o->preset, 0, 0, NULL, "NAME",
         "nano, tiny, small or base: the shape of a new model", 0, "tiny"},
        {NULL, "init", CLI_TEXT, &o->init, 0, 0, NULL, "MODEL",
         "continue this model, directory or file, instead; its stride and window are the "
         "defaults",
         0, NULL},
        {"k", "kmer", CLI_INT, &o->k, 1, 12, NULL, "K", "bases of a k-mer of a new model", 0,
         "6"},
        {NULL, "stride", CLI_SIZE, &o->stride, 1, 12, NULL, "N",
         "bases from one k-mer to the next, up to K", 0, "1, or the model's"},
        {NULL, "window", CLI_SIZE, &o->window, 8, 65536, NULL, "T",
         "tokens of a window, [CLS] and [SEP] included", 0, "512, or the model's"},
        {NULL, "parts", CLI_CHOICE, &o->parts, 0, 0, kmf_parts_names, NULL,
         "what a vector contains; pairs train only its composition, if it has one", -1,
         "the model's; with a new composition states+composition, or composition if nothing "
         "trains a new model's states"},
        {NULL, "composition", CLI_SIZE, &o->composition, 1, 1024, NULL, "C",
         "give the model, new or of --init, a composition of C numbers", 0,
         "none, or the model's"},
        {NULL, "words", CLI_CHOICE, &o->words, 0, 0, kmf_words_start_names, NULL,
         "first embeddings of a new model's k-mers: similar if they share letters; "
         "independent; or similar if they share letters or tetramers",
         -1, "letters"},
        {NULL, "embeddings", CLI_TEXT, &o->embeddings, 0, 0, NULL, "FILE",
         "start from these k-mer vectors, as word2vec makes them", 0, NULL},
        CLI_HEADING("how long: one of these"),
        {NULL, "steps", CLI_COUNT, &o->steps, 1, INT64_MAX, NULL, "N", "steps", 0, "none"},
        {NULL, "epochs", CLI_REAL, &o->epochs, 0, 0, NULL, "E", "passes over the genomes", -1,
         "none"},
        {NULL, "time", CLI_TEXT, &a->time, 0, 0, NULL, "3h",
         "as many steps as take this long (s, m, h or d), measured at the start", 0, NULL},
        CLI_HEADING("what is held out, for validation"),
        {NULL, "val", CLI_ONCE, &a->held, 0, 0, NULL, "LIST", "records, contig,contig,...", 0,
         NULL},
        {NULL, "val-genome", CLI_ONCE, &a->held_inputs, 0, 0, NULL, "LIST",
         "whole files, besides those to train on", 0, NULL},
        {NULL, "val-fraction", CLI_REAL, &o->held_fraction, 0, 0, NULL, "F",
         "the last part of every record, to 0.5", 0, NULL},
        {NULL, "val-windows", CLI_COUNT, &o->val_windows, 1, 10000000, NULL, "N",
         "held-out windows of a validation, the same each time", 0, "512"},
        {NULL, "val-every", CLI_COUNT, &o->val_every, 1, INT64_MAX, NULL, "N",
         "steps from one validation to the next", 0,
         "20 in the whole run; with --time, and without --val-windows, fewer, and then fewer "
         "windows, 32 at least, as fit a tenth of it"},
        CLI_HEADING("masking"),
        {NULL, "mask-rate", CLI_REAL, &o->mask_rate, 0, 0, NULL, "R",
         "share of the bases; one span at least in each window", 0, NULL},
        {NULL, "mask-span", CLI_TEXT, &a->span, 0, 0, NULL, "N-M",
         "bases of a span, all lengths equally likely", 0, span},
        {NULL, "mask-share", CLI_REAL, &o->mask_share, 0, 0, NULL, "P",
         "share of the spans that are replaced by [MASK]", 0, NULL},
        {NULL, "random-share", CLI_REAL, &o->random_share, 0, 0, NULL, "P",
         "share of the spans that are replaced by random bases; the rest stay visible", 0,
         NULL},
        {NULL, "softmask", CLI_REAL, &o->soft_weight, 0, 0, NULL, "W",
         "weight of a lower-case base in the loss, 0 to 1", 0, NULL},
        CLI_HEADING("pairs: objective contrastive or both"),
        {NULL, "sources", CLI_CHOICE, &o->sources, 0, 0, kmf_sources_names, NULL,
         "what windows share to be alike: an input, as a genome, or a record, as a contig", 0,
         NULL},
        {NULL, "length", CLI_TEXT, &a->length, 0, 0, NULL, "N-M",
         "bases of a window, all lengths equally likely", 0, "those of --window"},
        {NULL, "all-positives", CLI_FLAG, &o->all_positives, 0, 0, NULL, NULL,
         "all windows of a source in the step are positives, not a window's pair alone", 0,
         NULL},
        {NULL, "near", CLI_REAL, &o->near, 0, 0, NULL, "F",
         "share of the pairs that are neighbours; others are from anywhere in the source", 0,
         NULL},
        {NULL, "distance", CLI_SIZE, &o->distance, 1, (size_t)1 << 40, NULL, "N",
         "bases between neighbours, at most", 0, NULL},
        {NULL, "mutations", CLI_REAL, &o->mutations, 0, 0, NULL, "P",
         "chance that a base of a window is substituted, up to 0.5", 0, NULL},
        {NULL, "drift", CLI_REAL, &o->drift, 0, 0, NULL, "F",
         "share of the pairs that are mutated into a simulated relative of their source, of "
         "another composition",
         0, NULL},
        {NULL, "drift-rate", CLI_REAL, &o->drift_rate, 0, 0, NULL, "P",
         "largest share of a relative's bases that is substituted, up to 0.5", 0, NULL},
        {NULL, "temperature", CLI_REAL, &o->temperature, 0, 0, NULL, "X",
         "cosines are divided by it", 0, NULL},
        {NULL, "hardness", CLI_REAL, &o->hardness, 0, 0, NULL, "X",
         "extra weight of hard (similar) negatives, up to 10; 0: all weigh the same", 0, NULL},
        {NULL, "mix", CLI_REAL, &o->mix, 0, 0, NULL, "F",
         "share of the steps that mix the hidden states of two windows", 0, NULL},
        {NULL, "contrast", CLI_REAL, &o->contrast, 0, 0, NULL, "X",
         "objective both: weight of the contrastive loss beside the other", 0, NULL},
        CLI_HEADING("steps"),
        {NULL, "batch", CLI_SIZE, &o->batch, 1, 1000000, NULL, "N",
         "windows of a step; of pairs 4 to 65536", 0, NULL},
        {NULL, "accumulate", CLI_SIZE, &o->accumulate, 1, 1000000, NULL, "N",
         "process a step, or a shard, in N pieces: less memory", 0, NULL},
        {NULL, "recompute", CLI_FLAG, &o->recompute, 0, 0, NULL, NULL,
         "keep fewer activations: less memory, a third more work", 0, NULL},
        {NULL, "precision", CLI_CHOICE, &o->precision, 0, 0, precisions, NULL,
         "of matrix products; bf16 is faster with AVX512-BF16 (Zen 4) or AMX, f32 elsewhere", 0,
         NULL},
        {NULL, "shards", CLI_SIZE, &o->shards, 1, 65536, NULL, "N",
         "parts of a step, a power of 2, that ranks share: same bits on 1 to N ranks", 0, NULL},
        {NULL, "lr", CLI_REAL, &o->rate, 0, 0, NULL, "X", "greatest learning rate", 0, NULL},
        {NULL, "warmup", CLI_REAL, &o->warmup, 0, 0, NULL, "F",
         "share of the steps on which it rises", 0, NULL},
        {NULL, "schedule", CLI_CHOICE, &o->schedule, 0, 0, kmf_schedule_names, NULL,
         "how it falls afterwards", 0, NULL},
        {NULL, "decay", CLI_REAL, &o->decay, 0, 0, NULL, "X",
         "weight decay of AdamW, of matrices alone", 0, NULL},
        {NULL, "beta1", CLI_REAL, &o->beta1, 0, 0, NULL, "X", "of AdamW", 0, NULL},
        {NULL, "beta2", CLI_REAL, &o->beta2, 0, 0, NULL, "X", "of AdamW", 0, NULL},
        {NULL, "epsilon", CLI_REAL, &o->epsilon, 0, 0, NULL, "X", "of AdamW", 0, NULL},
        {NULL, "clip", CLI_REAL, &o->clip, 0, 0, NULL, "X",
         "greatest norm of the gradient; 0: any", 0, NULL},
        {NULL, "dropout", CLI_REAL, &o->dropout, 0, 0, NULL, "P",
         "of embeddings, sublayers and attention, to 0.9", 0, NULL},
        {NULL, "seed", CLI_SEED, &o->seed, 0, 0, NULL, "N", "of all that is drawn", 0, NULL},
        CLI_HEADING("output"),
        {"o", "output", CLI_TEXT, &a->out, 0, 0, NULL, "DIR",
         "model, best model, checkpoint and metrics", 0, NULL},
        {NULL, "dtype", CLI_CHOICE, &a->dtype, 0, 0, kmf_dtype_names, NULL,
         "number format of saved models; checkpoints stay exact", 0, NULL},
        {NULL, "metrics-every", CLI_SIZE, &a->metrics_every, 1, INT64_MAX, NULL, "N",
         "steps from one line of DIR/metrics.tsv to the next", 0, NULL},
        CLI_HEADING("input"),
        CLI_READER_OPTIONS(&a->reader),
        CLI_HEADING("the run"),
        CLI_THREADS(&o->threads),
        CLI_MEMORY_OPTIONS(o, "the genomes, 2 bits a base"),
        {NULL, "checkpoint-every", CLI_REAL, &a->minutes, 0, 0, NULL, "MIN",
         "minutes from one checkpoint to the next; 0: only when stopped", 0, NULL},
        {NULL, "resume", CLI_TEXT, &a->resume, 0, 0, NULL, "HOW",
         "auto: from DIR/checkpoint if it is there, not over a model in DIR without one; "
         "never: anew, over what is there; or a checkpoint file",
         0, NULL},
        CLI_COMMON(run)};
    return cli_parse(run, table, &usage, argc, argv);
}

/* "90s", "45m", "3h", "2d". */
static int parse_time(cli *run, cli_pretrain_args *a)
{
    static const struct {
        char unit;
        double seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    char *end;
    double n = strtod(a->time, &end);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (end != a->time && end[0] == units[i].unit && end[1] == '\0' && n > 0 &&
            isfinite(n)) {
            a->opts.seconds = n * units[i].seconds;
            return -1;
        }
    return cli_wrong(run, "--time: a number and s, m, h or d, such as 90m; got '%s'", a->time);
}

/* "3" or "1-6". */
static int parse_range(cli *run, const char *option, const char *text, size_t *min, size_t *max)
{
    uint64_t first, last;
    const char *end = cli_read_range(text, 9999999, true, &first, &last);
    if (!end || *end != '\0')
        return cli_wrong(run, "%s: write N, or MIN-MAX; got '%s'", option, text);
    *min = (size_t)first;
    *max = (size_t)last;
    return -1;
}

/* Settings that the objective does not look at are a mistake. */
static int check_objective(cli *run, const cli_pretrain_args *a)
{
    const kmf_pretrain_options *o = &a->opts, *usual = &a->usual;
    bool alike = a->length || o->all_positives || o->sources != usual->sources ||
                 o->near != usual->near || o->distance != usual->distance ||
                 o->mutations != usual->mutations || o->temperature != usual->temperature ||
                 o->hardness != usual->hardness || o->mix != usual->mix ||
                 o->drift != usual->drift || o->drift_rate != usual->drift_rate;
    bool hidden =
        a->span || o->mask_rate != usual->mask_rate || o->mask_share != usual->mask_share ||
        o->random_share != usual->random_share || o->soft_weight != usual->soft_weight;
    if (o->objective == KMF_OBJECTIVE_MASKED && alike)
        return cli_wrong(
            run,
            "--sources, --length, --all-positives, --near, --distance, --mutations, "
            "--drift, --drift-rate, --temperature, --hardness and --mix are for --objective "
            "contrastive or both");
    if (o->distance != usual->distance && o->near <= 0)
        return cli_wrong(run, "--distance is for pairs that are neighbours: --near F");
    if (o->drift_rate != usual->drift_rate && o->drift <= 0)
        return cli_wrong(run, "--drift-rate is for pairs that drift: --drift F");
    if (o->objective == KMF_OBJECTIVE_CONTRASTIVE && hidden)
        return cli_wrong(run, "--mask-rate, --mask-span, --mask-share, --random-share and "
                              "--softmask are for --objective masked or both");
    if (o->objective != KMF_OBJECTIVE_BOTH && o->contrast != usual->contrast)
        return cli_wrong(run, "--contrast is for --objective both");
    return -1;
}

static void free_list(cli_name_list *list)
{
    free(list->text);
    free(list->names);
}

static int cut_list(cli_name_list *list, const char *option, const char *text, kmf_err *err)
{
    size_t most = 1;
    for (const char *at = text; (at = strchr(at, ',')); at++)
        most++;
    list->text = malloc(strlen(text) + 1);
    list->names = calloc(most, sizeof *list->names);
    if (!list->text || !list->names)
        return cli_raise(err, KMF_ENOMEM, "out of memory");
    strcpy(list->text, text);
    for (char *next = list->text; next;) {
        char *comma = strchr(next, ',');
        if (comma)
            *comma = '\0';
        if (*next == '\0')
            return cli_raise(err, KMF_EINVAL, "%s: an empty name in '%s'", option, text);
        list->names[list->n++] = next;
        next = comma ? comma + 1 : NULL;
    }
    return 0;
}

/* What a new model begins with; one to go on with is as it is. */
static int settle_model(cli *run, cli_pretrain_args *a)
{
    kmf_pretrain_options *o = &a->opts;
    if (o->init && (o->preset || o->k != 0 || o->words >= 0))
        return cli_wrong(run,
                         "--preset, -k and --words are for a new model, and --init %s is "
                         "one to go on with",
                         o->init);
    o->preset = o->preset ? o->preset : a->usual.preset;
    o->k = o->k != 0 ? o->k : a->usual.k;
    o->words = o->words >= 0 ? o->words : a->usual.words;
    return -1;
}

/* -1, or the exit code of a contradiction. */
static int settle(cli *run, cli_pretrain_args *a)
{
    kmf_pretrain_options *o = &a->opts;
    kmf_err err = {0};
    int leave = settle_model(run, a);
    if (leave >= 0)
        return leave;
    if (!a->out)
        return cli_wrong(run, "no output given: -o DIR");
    leave = cli_refuse_model(run, a->out, false);
    if (leave >= 0)
        return leave;
    bool passes = o->epochs >= 0;
    if ((o->steps > 0) + passes + (a->time != NULL) != 1)
        return cli_wrong(run, "how long? One of --steps N, --epochs E and --time 3h");
    if (passes && o->epochs <= 0)
        return cli_wrong(run, "--epochs: must be above 0");
    o->epochs = passes ? o->epochs : 0;
    bool asked = o->val_windows > 0 || o->val_every > 0;
    if (asked && !a->held && !a->held_inputs && o->held_fraction <= 0)
        return cli_wrong(run, "--val-windows and --val-every are for a validation, and nothing "
                              "is held out for one: --val, --val-genome or --val-fraction");
    if (asked)
        o->val_share = 0; /* what is asked for, whatever it takes */
    o->val_windows = o->val_windows > 0 ? o->val_windows : a->usual.val_windows;
    if (a->time)
        leave = parse_time(run, a);
    if (leave < 0 && a->span)
        leave = parse_range(run, "--mask-span", a->span, &o->span_min, &o->span_max);
    if (leave < 0 && a->length)
        leave = parse_range(run, "--length", a->length, &o->length_min, &o->length_max);
    if (leave < 0 && a->length && o->length_min < 1)
        leave = cli_wrong(run, "--length: from 1 base; got '%s'", a->length);
    if (leave < 0)
        leave = check_objective(run, a);
    if (leave < 0 && a->held && cut_list(&a->held_names, "--val", a->held, &err) < 0)
        leave = cli_fail(run, &err);
    if (leave < 0 && a->held_inputs &&
        cut_list(&a->held_files, "--val-genome", a->held_inputs, &err) < 0)
        leave = cli_fail(run, &err);
    o->held = a->held_names.names;
    o->n_held = a->held_names.n;
    return leave;
}

int cli_pretrain_parse(cli *run, cli_pretrain_args *a, int argc, char **argv)
{
    *a = (cli_pretrain_args){.resume = "auto", .minutes = 10, .metrics_every = 10};
    kmf_pretrain_options_default(&a->opts);
    kmf_reader_options_default(&a->reader);
    a->opts.threads = kmf_threads_default();
    a->usual = a->opts;
    a->opts.preset = NULL;
    a->opts.k = 0;
    a->opts.words = -1;
    a->opts.epochs = -1;
    a->opts.val_windows = 0;
    int code = parse(run, a, argc, argv);
    if (code >= 0)
        return code;
    a->inputs = run->inputs;
    a->n_inputs = run->n_inputs;
    return settle(run, a);
}

void cli_pretrain_args_free(cli_pretrain_args *a)
{
    free_list(&a->held_names);
    free_list(&a->held_files);
}
