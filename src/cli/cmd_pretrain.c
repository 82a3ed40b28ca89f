/* SPDX-License-Identifier: MIT */
/* kmerformer pretrain: genomes in, an encoder out. */
#include "cli/rundir.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const precisions[] = {"f32", "bf16", NULL};

/* A list that was given with commas. */
typedef struct name_list {
    char *text;         /* owned: the list, cut up */
    const char **names; /* owned [n] */
    size_t n;
} name_list;

typedef struct pretrain_args {
    kmf_pretrain_options opts;
    kmf_pretrain_options usual; /* the defaults */
    kmf_reader_options reader;
    const char *out;
    const char *time;        /* "3h" */
    const char *span;        /* "3" or "1-6" */
    const char *length;      /* "500" or "150-2000" */
    const char *held;        /* names, by commas */
    const char *held_inputs; /* files, by commas */
    const char *resume;      /* auto, never, or a file */
    int dtype;               /* of the models that are written */
    double minutes;          /* from one checkpoint to the next; 0: when stopped alone */
    size_t steps, val_windows, val_every, metrics_every;
    size_t memory; /* 0: not given */
    name_list held_names, held_files;
    const char *const *inputs; /* [n_inputs] */
    size_t n_inputs;
} pretrain_args;

static const cli_usage usage = {
    "pretrain [options] --steps N|--epochs E|--time 3h -o DIR GENOME...",
    "Trains an encoder on genomes, FASTA, FASTQ, SAM, BAM or CRAM, plain or compressed: bases\n"
    "are hidden in spans, and the k-mers that touch them are to be found (--objective\n"
    "masked); or windows of one genome or contig are told from those of others (contrastive).\n"
    "DIR is a model for embed at any time, DIR/best the one that did best on what was held\n"
    "out. A signal (TERM, INT, HUP, USR1) ends the run with a checkpoint and exit code 75;\n"
    "the same command then goes on where it stopped. The bits of the model don't depend on\n"
    "threads, ranks or interruptions.",
    1, -1};

static int parse(cli *run, pretrain_args *a, int argc, char **argv, int *first)
{
    kmf_pretrain_options *o = &a->opts;
    char span[32];
    snprintf(span, sizeof span, "%zu-%zu", o->span_min, o->span_max);
    const cli_option table[] = {
        {NULL, "objective", CLI_CHOICE, &o->objective, 0, 0, kmf_objective_names, NULL,
         "masked: hidden bases are to be found; contrastive: windows of one source to be told "
         "from those of others; or both",
         0, NULL},
        CLI_HEADING("model"),
        {NULL, "preset", CLI_TEXT, &o->preset, 0, 0, NULL, "NAME",
         "nano, tiny, small or base: the shape of a new model", 0, "tiny"},
        {NULL, "init", CLI_TEXT, &o->init, 0, 0, NULL, "DIR",
         "a model, directory or file, to go on with instead; its stride and window are the "
         "defaults",
         0, NULL},
        {"k", "kmer", CLI_INT, &o->k, 1, 12, NULL, "K", "bases of a k-mer of a new model", 0,
         "6"},
        {NULL, "stride", CLI_SIZE, &o->stride, 1, 12, NULL, "N",
         "bases from one k-mer to the next, up to K", 0, "1, or the model's"},
        {NULL, "window", CLI_SIZE, &o->window, 8, 65536, NULL, "T",
         "tokens of a window, [CLS] and [SEP] included", 0, "512, or the model's"},
        {NULL, "parts", CLI_CHOICE, &o->parts, 0, 0, kmf_parts_names, NULL,
         "what a vector is made of; of those with a composition pairs teach the composition "
         "alone",
         -1,
         "the model's; of a new composition states+composition, or composition if nothing "
         "teaches a new model's states"},
        {NULL, "composition", CLI_SIZE, &o->composition, 1, 1024, NULL, "C",
         "the model, new or of --init, gets a composition of C numbers", 0,
         "none, or the model's"},
        {NULL, "words", CLI_CHOICE, &o->words, 0, 0, kmf_words_start_names, NULL,
         "how a new model's word table begins: k-mers that share letters alike; each by "
         "itself; as letters, and those that share tetramers alike, too",
         -1, "letters"},
        {NULL, "embeddings", CLI_TEXT, &o->embeddings, 0, 0, NULL, "FILE",
         "k-mer vectors, as word2vec makes them, as the word table to begin with", 0, NULL},
        CLI_HEADING("how long: one of these"),
        {NULL, "steps", CLI_SIZE, &a->steps, 1, INT64_MAX, NULL, "N", "steps", 0, "none"},
        {NULL, "epochs", CLI_REAL, &o->epochs, 0, 0, NULL, "E", "passes over the genomes", 0,
         "none"},
        {NULL, "time", CLI_TEXT, &a->time, 0, 0, NULL, "3h",
         "as many steps as take so long (s, m, h or d), by a measurement at the start", 0,
         NULL},
        CLI_HEADING("what is held out, for validation"),
        {NULL, "val", CLI_ONCE, &a->held, 0, 0, NULL, "LIST", "records, contig,contig,...", 0,
         NULL},
        {NULL, "val-genome", CLI_ONCE, &a->held_inputs, 0, 0, NULL, "LIST",
         "whole files, beside those that are learnt from", 0, NULL},
        {NULL, "val-fraction", CLI_REAL, &o->held_fraction, 0, 0, NULL, "F",
         "the last part of every record, to 0.5", 0, NULL},
        {NULL, "val-windows", CLI_SIZE, &a->val_windows, 1, 10000000, NULL, "N",
         "held-out windows that are looked at, the same each time", 0, NULL},
        {NULL, "val-every", CLI_SIZE, &a->val_every, 1, INT64_MAX, NULL, "N",
         "steps from one validation to the next", 0, "20 in the whole run"},
        CLI_HEADING("what is hidden"),
        {NULL, "mask-rate", CLI_REAL, &o->mask_rate, 0, 0, NULL, "R",
         "share of the bases; one span at least in each window", 0, NULL},
        {NULL, "mask-span", CLI_TEXT, &a->span, 0, 0, NULL, "N-M",
         "bases of a span, all lengths equally likely", 0, span},
        {NULL, "mask-share", CLI_REAL, &o->mask_share, 0, 0, NULL, "P",
         "of the spans: the k-mers become [MASK]", 0, NULL},
        {NULL, "random-share", CLI_REAL, &o->random_share, 0, 0, NULL, "P",
         "of the spans: bases drawn from all four stand there; the rest can be seen", 0, NULL},
        {NULL, "softmask", CLI_REAL, &o->soft_weight, 0, 0, NULL, "W",
         "what a lower-case base counts in the loss, 0 to 1", 0, NULL},
        CLI_HEADING("what is alike: objective contrastive or both"),
        {NULL, "sources", CLI_CHOICE, &o->sources, 0, 0, kmf_sources_names, NULL,
         "windows of one input, a genome, are alike; or those of one record, a contig", 0,
         NULL},
        {NULL, "length", CLI_TEXT, &a->length, 0, 0, NULL, "N-M",
         "bases of a window, all lengths equally likely", 0, "those of --window"},
        {NULL, "all-positives", CLI_FLAG, &o->all_positives, 0, 0, NULL, NULL,
         "a window is to be like all others of its source in the step, not like its pair alone",
         0, NULL},
        {NULL, "near", CLI_REAL, &o->near, 0, 0, NULL, "F",
         "share of the pairs that are neighbours; the others are from anywhere in the source",
         0, NULL},
        {NULL, "distance", CLI_SIZE, &o->distance, 1, (size_t)1 << 40, NULL, "N",
         "bases between neighbours, at most", 0, NULL},
        {NULL, "mutations", CLI_REAL, &o->mutations, 0, 0, NULL, "P",
         "chance of a base of a window to be another one, to 0.5", 0, NULL},
        {NULL, "drift", CLI_REAL, &o->drift, 0, 0, NULL, "F",
         "share of the pairs that come from a made-up relative of their source, of another "
         "composition",
         0, NULL},
        {NULL, "drift-rate", CLI_REAL, &o->drift_rate, 0, 0, NULL, "P",
         "share of a relative's bases that are others, at most, to 0.5", 0, NULL},
        {NULL, "temperature", CLI_REAL, &o->temperature, 0, 0, NULL, "X",
         "cosines are divided by it", 0, NULL},
        {NULL, "hardness", CLI_REAL, &o->hardness, 0, 0, NULL, "X",
         "how much more others count that are much alike, to 10; 0: all the same", 0, NULL},
        {NULL, "mix", CLI_REAL, &o->mix, 0, 0, NULL, "F",
         "share of the steps that mix the hidden states of two windows", 0, NULL},
        {NULL, "contrast", CLI_REAL, &o->contrast, 0, 0, NULL, "X",
         "of both: what the contrastive loss counts beside the other", 0, NULL},
        CLI_HEADING("steps"),
        {NULL, "batch", CLI_SIZE, &o->batch, 1, 1000000, NULL, "N", "windows of a step", 0,
         NULL},
        {NULL, "accumulate", CLI_SIZE, &o->accumulate, 1, 1000000, NULL, "N",
         "pieces that a step, or a shard, is worked off in: less memory", 0, NULL},
        {NULL, "recompute", CLI_FLAG, &o->recompute, 0, 0, NULL, NULL,
         "keep fewer activations: less memory, a third more work", 0, NULL},
        {NULL, "precision", CLI_CHOICE, &o->precision, 0, 0, precisions, NULL,
         "of matrix products; bf16 is faster with AVX512-BF16 (Zen 4) or AMX, and else f32", 0,
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
         "numbers of the models in files; the checkpoint has all of them", 0, NULL},
        {NULL, "metrics-every", CLI_SIZE, &a->metrics_every, 1, INT64_MAX, NULL, "N",
         "steps from one line of DIR/metrics.tsv to the next", 0, NULL},
        CLI_HEADING("input"),
        CLI_READER_OPTIONS(&a->reader),
        CLI_HEADING("the run"),
        CLI_THREADS(&o->threads),
        {"m", "memory", CLI_SIZE, &a->memory, 1, INT64_MAX, NULL, "SIZE",
         "bytes for the genomes, 2 bits a base; what exceeds it goes to disk", 0, "4G"},
        {NULL, "tmp", CLI_TEXT, &o->tmp, 0, 0, NULL, "DIR",
         "folder for what exceeds the memory", 0, "$TMPDIR, or /tmp"},
        {NULL, "checkpoint-every", CLI_REAL, &a->minutes, 0, 0, NULL, "MIN",
         "minutes from one checkpoint to the next; 0: only when stopped", 0, NULL},
        {NULL, "resume", CLI_TEXT, &a->resume, 0, 0, NULL, "HOW",
         "auto: from DIR/checkpoint if it is there; never: anew, over what is there; or a "
         "checkpoint file",
         0, NULL},
        CLI_COMMON(run)};
    return cli_parse(run, table, &usage, argc, argv, first);
}

/* ---------------------------------------------------------------- arguments -------------- */

/* "90s", "45m", "3h", "2d". */
static int parse_time(cli *run, pretrain_args *a)
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
    const char *end = cli_read_range(text, 9999999, &first, &last);
    if (!end || *end != '\0')
        return cli_wrong(run, "%s: write N, or MIN-MAX; got '%s'", option, text);
    *min = (size_t)first;
    *max = (size_t)last;
    return -1;
}

/* Settings that the objective does not look at are a mistake. */
static int check_objective(cli *run, const pretrain_args *a)
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
    if (o->drift_rate != usual->drift_rate && o->drift <= 0)
        return cli_wrong(run, "--drift-rate is for pairs that drift: --drift F");
    if (o->objective == KMF_OBJECTIVE_CONTRASTIVE && hidden)
        return cli_wrong(run, "--mask-rate, --mask-span, --mask-share, --random-share and "
                              "--softmask are for --objective masked or both");
    if (o->objective != KMF_OBJECTIVE_BOTH && o->contrast != usual->contrast)
        return cli_wrong(run, "--contrast is for --objective both");
    return -1;
}

static void free_list(name_list *list)
{
    free(list->text);
    free(list->names);
}

static int cut_list(name_list *list, const char *option, const char *text, kmf_err *err)
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
static int settle_model(cli *run, pretrain_args *a)
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
static int settle(cli *run, pretrain_args *a)
{
    kmf_pretrain_options *o = &a->opts;
    kmf_err err = {0};
    int leave = settle_model(run, a);
    if (leave >= 0)
        return leave;
    o->steps = a->steps;
    o->val_windows = a->val_windows;
    o->val_every = a->val_every;
    o->memory = a->memory;
    if (!a->out)
        return cli_wrong(run, "no output given: -o DIR");
    leave = cli_refuse_model(run, a->out, false);
    if (leave >= 0)
        return leave;
    if ((a->steps > 0) + (o->epochs > 0) + (a->time != NULL) != 1)
        return cli_wrong(run, "how long? One of --steps N, --epochs E and --time 3h");
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

/* ---------------------------------------------------------------- what is told ----------- */

static void say_begin(cli *run, const pretrain_args *a, const kmf_pretrain_state *s)
{
    cli_warn_of_left_out(run, s);
    if (s->short_ones > 0)
        cli_warn(run,
                 "%llu of %llu runs of bases are shorter than a window of %zu bases; each "
                 "is a window of its own",
                 (unsigned long long)s->short_ones, (unsigned long long)s->segments,
                 s->window_bases);
    if (s->new_head)
        cli_warn(run, "%s has no masked-language-model head: a new one was drawn",
                 a->opts.init);
    if (s->unfilled > 0)
        cli_warn(run, "%llu k-mers have no vector in %s: their words are as drawn",
                 (unsigned long long)s->unfilled, a->opts.embeddings);
    cli_note(run,
             "%llu records, %.3f Mb to learn from, %.3f Mb held out; %llu windows of %zu "
             "tokens",
             (unsigned long long)s->records, 1e-6 * (double)s->bases,
             1e-6 * (double)s->held_bases, (unsigned long long)s->windows, s->window);
    cli_note(run,
             "%.2f M parameters, %llu steps of %zu windows; %d threads%s, %.0f MB of memory",
             1e-6 * (double)s->parameters, (unsigned long long)s->steps, a->opts.batch,
             a->opts.threads, s->ranks > 1 ? " a rank" : "", 1e-6 * (double)s->bytes);
    if (a->opts.objective != KMF_OBJECTIVE_MASKED)
        cli_note(run, "pairs of windows of %llu sources", (unsigned long long)s->sources);
    if (s->held_windows == 0)
        cli_note(run,
                 "nothing is held out (--val, --val-fraction, --val-genome): no validation");
    else if (s->val_hidden > 0)
        cli_note(run,
                 "validation: %llu hidden bases in %llu windows; copying takes %.4f bits a "
                 "base, a Markov model of order %d, the best of 1 to 12, %.4f",
                 (unsigned long long)s->val_hidden, (unsigned long long)s->held_windows,
                 s->copy_bits, s->markov_best, s->markov_bits[s->markov_best]);
}

/* ---------------------------------------------------------------- training --------------- */

/* Of what is known of some steps. */
typedef struct mean {
    double sum;
    uint64_t n;
} mean;

static void mean_add(mean *m, double x)
{
    if (isnan(x))
        return;
    m->sum += x;
    m->n++;
}

/* NaN: of nothing. It begins anew. */
static double mean_take(mean *m)
{
    double x = m->n > 0 ? m->sum / (double)m->n : (double)NAN;
    *m = (mean){0};
    return x;
}

typedef struct training {
    cli *run;
    const pretrain_args *args;
    kmf_pretrain *trainer;
    cli_rundir *dir;
    bool writes; /* rank 0 */
    cli_progress line;
    double started, saved;
    uint64_t first_step, first_tokens;
    /* since the last line of metrics */
    double line_begun;
    mean loss, bits, contrast, hits;
    uint64_t line_tokens;
    bool line_lost;    /* the disk was full */
    kmf_err best_lost; /* why the best model so far is not in best; KMF_OK: it is */
} training;

/*
 * What the weights follow from but for the names of files, and what they are worth: a JSON object
 * for config.json, with that of the model gone on with in its list "before".
 */
static char *provenance(const training *t, const kmf_pretrain_state *s, kmf_err *err)
{
    const kmf_pretrain_options *o = &t->args->opts;
    cli_pairs p = {0};
    cli_pair(&p, "program", "kmerformer %s", kmf_version());
    cli_pair(&p, "method", "%s pretraining", kmf_objective_names[o->objective]);
    cli_pair(&p, "bases", "%llu", (unsigned long long)s->bases);
    cli_pair(&p, "held_out_bases", "%llu", (unsigned long long)s->held_bases);
    cli_pair(&p, "steps", "%llu of %llu", (unsigned long long)s->step,
             (unsigned long long)s->steps);
    cli_pair(&p, "tokens", "%llu", (unsigned long long)s->tokens);
    cli_pair(&p, "epochs", "%.4g", s->epochs);
    cli_pair(&p, "batch", "%zu", o->batch);
    cli_pair(&p, "lr", "%g", o->rate);
    cli_pair(&p, "precision", "%s", kmf_precision_names[s->precision]);
    if (o->objective != KMF_OBJECTIVE_CONTRASTIVE) {
        cli_pair(&p, "mask_rate", "%g", o->mask_rate);
        cli_pair(&p, "mask_span", "%zu-%zu", o->span_min, o->span_max);
    }
    if (o->objective != KMF_OBJECTIVE_MASKED) {
        cli_pair(&p, "sources", "%llu, by %s", (unsigned long long)s->sources,
                 kmf_sources_names[o->sources]);
        cli_pair(&p, "length", "%zu-%zu", o->length_min ? o->length_min : s->window_bases,
                 o->length_max ? o->length_max : s->window_bases);
        cli_pair(&p, "positives", "%s", o->all_positives ? "source" : "pair");
        cli_pair(&p, "near", "%g within %zu", o->near, o->distance);
        cli_pair(&p, "mutations", "%g", o->mutations);
        if (o->drift > 0)
            cli_pair(&p, "drift", "%g of the pairs, to %g", o->drift, o->drift_rate);
        cli_pair(&p, "temperature", "%g", o->temperature);
        cli_pair(&p, "hardness", "%g", o->hardness);
        cli_pair(&p, "mix", "%g", o->mix);
        cli_pair(&p, "contrast", "%.6g, weight %g", s->contrast, o->contrast);
    }
    cli_pair(&p, "seed", "%llu", (unsigned long long)o->seed);
    if (!isnan(s->loss))
        cli_pair(&p, "loss", "%.6g", s->loss);
    if (!isnan(s->val_contrast))
        cli_pair(&p, "val_contrast", "%.6g, %.4g of the %s found", s->val_contrast, s->val_hits,
                 o->all_positives ? "sources" : "pairs");
    if (!isnan(s->val_bits)) {
        cli_pair(&p, "val_bits", "%.6g", s->val_bits);
        cli_pair(&p, "markov_bits", "%.6g (order %d)", s->markov_bits[s->markov_best],
                 s->markov_best);
    }
    const char *origin = kmf_pretrain_origin(t->trainer);
    char *text = cli_pairs_text(&p, err);
    if (!text || !origin[0])
        return text;
    char *whole = kmf_json_before(text, origin, err);
    kmf_text_free(text);
    return whole;
}

/* The command and the names in it, beside the model. */
static int save_names(const training *t, kmf_err *err)
{
    const pretrain_args *a = t->args;
    cli_pairs p = {0};
    cli_pair(&p, "program", "kmerformer");
    cli_pair(&p, "version", "%s", kmf_version());
    cli_pair(&p, "command", "%s", t->run->command_line);
    cli_pair_lines(&p, "inputs", a->inputs, a->n_inputs);
    if (a->held_files.n > 0)
        cli_pair_lines(&p, "held_out_inputs", a->held_files.names, a->held_files.n);
    if (a->opts.init)
        cli_pair(&p, "init", "%s", a->opts.init);
    if (a->opts.embeddings)
        cli_pair(&p, "embeddings", "%s", a->opts.embeddings);
    char *text = cli_pairs_text(&p, err);
    int status = text ? kmf_file_save(t->dir->provenance, text, strlen(text), err) : KMF_ENOMEM;
    kmf_text_free(text);
    return status;
}

static int save_model(const training *t, const kmf_pretrain_state *s, const char *dir,
                      kmf_err *err)
{
    char *text = provenance(t, s, err);
    int status = text
                     ? kmf_pretrain_model(t->trainer, dir, (kmf_dtype)t->args->dtype, text, err)
                     : KMF_ENOMEM;
    kmf_text_free(text);
    return status;
}

/* Checkpoint and model, which takes a third of the room: where the one fails, the other may not. */
static int save(const training *t, const kmf_pretrain_state *s, kmf_err *err)
{
    kmf_err own = {0};
    cli_hold_signals();
    int status = kmf_pretrain_save(t->trainer, t->dir->checkpoint, &own);
    int model = save_model(t, s, t->dir->dir, status == 0 ? err : NULL);
    cli_release_signals(false);
    if (status == 0)
        return model;
    return cli_raise(err, own.code, "%s%s", own.msg,
                     model == 0 ? "; the model is written" : "");
}

/* In the midst of a run a full disk is a warning: the last checkpoint is still there. */
static void save_or_warn(training *t, const kmf_pretrain_state *s, const char *what,
                         int (*fn)(const training *, const kmf_pretrain_state *, kmf_err *),
                         kmf_err *reason)
{
    *reason = (kmf_err){0};
    if (fn(t, s, reason) < 0)
        cli_warn(t->run, "%s could not be written, and the training goes on: %s", what,
                 reason->msg);
}

static int save_best(const training *t, const kmf_pretrain_state *s, kmf_err *err)
{
    cli_hold_signals();
    int status = save_model(t, s, t->dir->best, err);
    cli_release_signals(false);
    return status;
}

/* ", loss 5.4, 1.9 bits, validation 1.9 (markov-9 2.0), contrast 3.2, validation 3.3" */
static void tell_losses(char *to, size_t cap, const kmf_pretrain_state *s)
{
    size_t n = 0;
#define TELL(known, ...)                                         \
    do {                                                         \
        if (!isnan(known) && n < cap)                            \
            n += (size_t)snprintf(to + n, cap - n, __VA_ARGS__); \
    } while (0)
    TELL(s->loss, ", loss %.4f, %.4f bits", s->loss, s->bits);
    TELL(s->val_bits, ", validation %.4f (markov-%d %.4f)", s->val_bits, s->markov_best,
         s->markov_bits[s->markov_best]);
    TELL(s->contrast, ", contrast %.4f, %.1f %% hits", s->contrast, 100 * s->hits);
    TELL(s->val_contrast, ", validation %.4f, %.1f %%", s->val_contrast, 100 * s->val_hits);
#undef TELL
}

static void show_progress(training *t, const kmf_pretrain_state *s)
{
    char rate[CLI_COUNT_TEXT];
    char rest[CLI_COUNT_TEXT];
    char losses[192] = "";
    double seconds = cli_now() - t->started;
    double left = seconds * (double)(s->steps - s->step) / (double)(s->step - t->first_step);
    if (!cli_progress_due(&t->line))
        return;
    tell_losses(losses, sizeof losses, s);
    cli_progress_show(&t->line, "step %llu of %llu, epoch %.2f%s, %s tokens/s, %s left",
                      (unsigned long long)s->step, (unsigned long long)s->steps, s->epochs,
                      losses, cli_count(rate, (double)(s->tokens - t->first_tokens) / seconds),
                      cli_time(rest, left));
}

static void note_metrics(training *t, const kmf_pretrain_state *s)
{
    kmf_err own = {0};
    double now = cli_now();
    mean_add(&t->loss, s->loss);
    mean_add(&t->bits, s->bits);
    mean_add(&t->contrast, s->contrast);
    mean_add(&t->hits, s->hits);
    if (s->step % t->args->metrics_every != 0 && !s->validated && s->step != s->steps)
        return;
    cli_metrics_line line = {.loss = mean_take(&t->loss),
                             .bits = mean_take(&t->bits),
                             .contrast = mean_take(&t->contrast),
                             .hits = mean_take(&t->hits),
                             .tokens_per_second =
                                 (double)(s->tokens - t->line_tokens) / (now - t->line_begun),
                             .seconds = t->dir->seconds + (now - t->run->started)};
    bool lost = cli_metrics_write(t->dir, s, &line, &own) < 0;
    if (lost && !t->line_lost)
        cli_warn(t->run, "lines are missing from the metrics: %s", own.msg);
    t->line_lost = lost;
    t->line_begun = now;
    t->line_tokens = s->tokens;
}

/* A kmf_pretrain_fn. */
static int after_step(void *user, const kmf_pretrain_state *s, kmf_err *err)
{
    training *t = user;
    double minutes = (cli_now() - t->saved) / 60;
    (void)err;
    if (t->writes) {
        note_metrics(t, s);
        if (s->validated && s->best_step == s->step)
            save_or_warn(t, s, "the best model", save_best, &t->best_lost);
        if (t->args->minutes > 0 && minutes >= t->args->minutes && s->step < s->steps) {
            kmf_err own;
            save_or_warn(t, s, "a checkpoint", save, &own);
            t->saved = cli_now();
        }
    }
    show_progress(t, s);
    return kmf_ranks_any(cli_asked_to_stop());
}

/* Takes in the checkpoint, if there is one and it is wanted. */
static int resume(cli *run, const pretrain_args *a, kmf_pretrain *trainer, cli_rundir *dir,
                  kmf_err *err)
{
    kmf_pretrain_state s;
    const char *path = cli_kept(a->resume, dir->checkpoint);
    if (!path)
        return 0;
    kmf_err own = {0};
    if (kmf_pretrain_load(trainer, path, &own) < 0)
        return cli_raise(err, own.code, "%s%s", own.msg,
                         path == dir->checkpoint ? " (--resume never begins anew)" : "");
    kmf_pretrain_information(trainer, &s);
    if (s.other_kernels)
        cli_warn_of_kernels(run);
    cli_note(run, "goes on from %s, step %llu of %llu", path, (unsigned long long)s.step,
             (unsigned long long)s.steps);
    dir->from = path;
    if (!isnan(s.best) && !cli_same_place(path, dir->checkpoint))
        cli_warn(
            run,
            "the best model so far, %.4f of step %llu, is not taken along: %s comes with a "
            "better one",
            s.best, (unsigned long long)s.best_step, dir->best);
    return 0;
}

static void say_end(const training *t, const kmf_pretrain_state *s)
{
    char tokens[CLI_COUNT_TEXT];
    char rate[CLI_COUNT_TEXT];
    double seconds = cli_now() - t->started;
    cli_note(t->run, "%s tokens in %.1f s: %s tokens/s; peak memory %.0f MB",
             cli_count(tokens, (double)(s->tokens - t->first_tokens)), seconds,
             cli_count(rate, (double)(s->tokens - t->first_tokens) / seconds),
             1e-6 * cli_peak_memory());
    if (!isnan(s->val_bits))
        cli_note(t->run,
                 "validation: %.4f bits a hidden base; Markov model of order %d %.4f, copying "
                 "%.4f",
                 s->val_bits, s->markov_best, s->markov_bits[s->markov_best], s->copy_bits);
    if (!isnan(s->val_contrast))
        cli_note(t->run,
                 "validation: contrastive loss %.4f; of %llu windows %.1f %% are most like %s",
                 s->val_contrast, 2 * (unsigned long long)s->held_windows, 100 * s->val_hits,
                 t->args->opts.all_positives ? "one of their source" : "their pair");
    if (!isnan(s->best))
        cli_note(t->run, "the best was %.4f, of step %llu", s->best,
                 (unsigned long long)s->best_step);
}

/* The step of the model in a folder, as its provenance tells; 0: it cannot be read. */
static uint64_t step_of(const char *folder)
{
    static const char key[] = "\"steps\":\"";
    kmf_model *model = cli_is_folder(folder) ? kmf_model_load(folder, NULL) : NULL;
    const char *at = model ? strstr(kmf_model_provenance(model), key) : NULL;
    uint64_t step = at ? strtoull(at + strlen(key), NULL, 10) : 0;
    kmf_model_free(model);
    return step;
}

/* 0: to the end; 1: stopped, and the checkpoint is written. */
static int train(cli *run, const pretrain_args *a, kmf_pretrain *trainer, cli_rundir *dir,
                 kmf_err *err)
{
    kmf_pretrain_state s;
    kmf_pretrain_information(trainer, &s);
    training t = {.run = run, .args = a, .trainer = trainer, .dir = dir};
    t.writes = s.rank == 0;
    t.started = t.saved = t.line_begun = cli_now();
    t.first_step = s.step;
    t.first_tokens = t.line_tokens = s.tokens;
    if (t.writes && (cli_metrics_open(dir, s.step, err) < 0 || save_names(&t, err) < 0))
        return (int)err->code;
    if (t.writes && dir->from && !isnan(s.best) && cli_same_place(dir->from, dir->checkpoint) &&
        step_of(dir->best) < s.best_step)
        (void)cli_raise(&t.best_lost, KMF_EIO, "%s: was not written, or is gone", dir->best);
    cli_progress_start(&t.line, run);
    int status = kmf_pretrain_train(trainer, after_step, &t, err);
    cli_progress_end();
    if (status < 0)
        return status;
    kmf_pretrain_information(trainer, &s);
    if (t.writes && save(&t, &s, err) < 0)
        return (int)err->code;
    if (s.step > t.first_step)
        say_end(&t, &s);
    if (status == 0 && t.best_lost.code != KMF_OK) /* it does not come again */
        return cli_raise(err, t.best_lost.code,
                         "%s; the best model, of step %llu, is lost, the last one is written",
                         t.best_lost.msg, (unsigned long long)s.best_step);
    return status;
}

/* ---------------------------------------------------------------- the command ------------ */

static int check_names(cli *run, const pretrain_args *a)
{
    kmf_err err = {0};
    cli_rundir dir;
    if (cli_rundir_name(&dir, a->out, &err) < 0)
        return cli_fail(run, &err);
    if (cli_is_an_input(a->out, a->inputs, a->n_inputs))
        return cli_wrong(run, "-o %s: that is an input", a->out);
    if (a->opts.init && cli_same_place(a->out, a->opts.init))
        return cli_wrong(run, "-o %s: that is the model to go on with", a->out);
    if (a->opts.init && cli_same_place(dir.best, a->opts.init))
        return cli_wrong(run, "-o %s: the model to go on with is the best one there", a->out);
    for (size_t i = 0; i < a->held_files.n; i++)
        if (cli_is_an_input(a->held_files.names[i], a->inputs, a->n_inputs))
            return cli_wrong(run,
                             "--val-genome %s: that is an input, too: it would be learnt from",
                             a->held_files.names[i]);
    const char *twice = cli_given_twice(a->inputs, a->n_inputs);
    if (twice && a->opts.objective != KMF_OBJECTIVE_MASKED)
        return cli_wrong(run, "%s is given twice: it would be two sources to be told apart",
                         twice);
    return -1;
}

/* Of several ranks the first alone speaks and writes. */
static int enter(cli *run, const pretrain_args *a, cli_rundir *dir, kmf_err *err)
{
    if (kmf_rank() == 0)
        return cli_rundir_open(dir, a->out, err);
    run->quiet = 1;
    return cli_rundir_name(dir, a->out, err);
}

/*
 * Most of what fails, fails on all ranks: the first one tells it and ends the others, which wait
 * for that. A rank that fails alone tells it itself after these seconds.
 */
#define FIRST_TELLS 5

static int tell(const cli *run, const kmf_err *err)
{
    unsigned left = kmf_rank() > 0 ? FIRST_TELLS : 0;
    while (left > 0)
        left = sleep(left);
    int code = cli_fail(run, err);
    kmf_ranks_abort(code);
    return code;
}

/* An exit code. */
static int pretrain(cli *run, const pretrain_args *a)
{
    const char *const *paths = a->inputs;
    size_t n = a->n_inputs;
    kmf_err err = {0};
    cli_rundir dir = {.lock = -1, .journal = -1};
    kmf_pretrain_state s = {0};
    kmf_pretrain *trainer = NULL;
    int stopped = 0;
    if (kmf_ranks_start(NULL, NULL, &err) < 0)
        goto out;
    if (kmf_ranks() > 1)
        cli_watch_signals(); /* they have to agree to end */
    for (size_t i = 0; i < n && kmf_ranks() > 1; i++)
        if (strcmp(paths[i], "-") == 0)
            (void)cli_raise(&err, KMF_EINVAL,
                            "-: standard input reaches one rank alone: give files");
    if (err.code != KMF_OK ||
        cli_check_genomes(&a->reader, paths, n, a->held_files.names, a->held_files.n, &err) < 0)
        goto out;
    cli_delay_signals(true);
    int status = enter(run, a, &dir, &err);
    bool made = dir.made && dir.lock >= 0;
    if (kmf_ranks() == 1) /* until the training begins a signal ends the process at once */
        cli_leave_on_signals(run, cli_kept(a->resume, dir.checkpoint), made ? dir.dir : NULL,
                             made ? dir.lock_path : NULL);
    cli_delay_signals(false);
    if (status < 0)
        goto out;
    cli_warn_of_twice(run, paths, n);
    trainer = kmf_pretrain_new(&a->opts, &err);
    if (!trainer)
        goto out;
    kmf_pretrain_information(trainer, &s);
    cli_warn_of_precision(run, a->opts.precision, s.precision);
    stopped = cli_read_genomes(run, trainer, &a->reader, paths, n, a->held_files.names,
                               a->held_files.n, &err);
    if (stopped != 0)
        goto out;
    cli_watch_signals();
    if (resume(run, a, trainer, &dir, &err) < 0)
        goto out;
    kmf_pretrain_information(trainer, &s);
    say_begin(run, a, &s);
    if (s.step == s.steps)
        cli_note(run, "it was at its end already");
    stopped = train(run, a, trainer, &dir, &err);
out:
    kmf_pretrain_free(trainer);
    cli_rundir_close(&dir);
    if (err.code != KMF_OK)
        return tell(run, &err);
    if (stopped == 1 && s.steps == 0)
        cli_note(run, "stopped by a signal before there was anything to keep");
    else if (stopped == 1)
        cli_note(run, "stopped by a signal; the same command%s goes on from %s",
                 cli_to_go_on(a->resume), dir.checkpoint);
    if (stopped == 1)
        return CLI_STOPPED;
    return CLI_DONE;
}

int cli_pretrain(cli *run, int argc, char **argv)
{
    pretrain_args a = {.resume = "auto", .minutes = 10, .metrics_every = 10};
    int first;
    cli_leave_on_signals(run, NULL, NULL, NULL);
    kmf_pretrain_options_default(&a.opts);
    kmf_reader_options_default(&a.reader);
    a.opts.threads = kmf_threads_default();
    a.val_windows = (size_t)a.opts.val_windows;
    a.usual = a.opts;
    a.opts.preset = NULL;
    a.opts.k = 0;
    a.opts.words = -1;
    int code = parse(run, &a, argc, argv, &first);
    if (code >= 0)
        return code;
    a.inputs = (const char *const *)(argv + first);
    a.n_inputs = (size_t)(argc - first);
    code = settle(run, &a);
    if (code < 0)
        code = check_names(run, &a);
    if (code < 0) {
        code = pretrain(run, &a);
        kmf_ranks_end();
    }
    free_list(&a.held_names);
    free_list(&a.held_files);
    return code;
}
