/* SPDX-License-Identifier: MIT */
/* kmerformer word2vec: sequences in, a vector for every k-mer out. */
#include "cli/cli.h"
#include "cli/lock.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct word2vec_args {
    kmf_word2vec_options opts;
    kmf_reader_options reader;
    const char *k;
    const char *out;
    const char *resume;     /* auto, never, or a file */
    const char *checkpoint; /* NULL: out.checkpoint */
    int format;             /* kmf_vectors_format */
    double minutes;         /* from one checkpoint to the next; 0: when stopped alone */
    int alphabet;
} word2vec_args;

static const cli_usage usage = {
    "word2vec [options] -o OUT IN...",
    "Learns a vector for every k-mer from FASTA, FASTQ, SAM, BAM or CRAM files, or from csv\n"
    "or tsv with a column sequence, plain or compressed; '-' is standard input. No text is\n"
    "written in between: sequences stay in memory, 2 bits a base. The bits of the vectors\n"
    "don't depend on threads or compression. A signal (TERM, INT, HUP, USR1) ends the "
    "training\n"
    "with a checkpoint and exit status 75; the same command then resumes.",
    1, -1};

static int parse(cli *run, word2vec_args *a, int argc, char **argv)
{
    kmf_word2vec_options *o = &a->opts;
    const cli_option table[] = {
        CLI_HEADING("k-mers"),
        {"k", "kmer", CLI_TEXT, &a->k, 0, 0, NULL, "K",
         "letters of a k-mer; 3-8: a length drawn at each position, one space for all "
         "(dna2vec)",
         0, NULL},
        {NULL, "alphabet", CLI_CHOICE, &a->alphabet, 0, 0, kmf_alphabet_names, NULL,
         "protein: the 20 amino acids, K up to 5 (DNA: 12)", 0, NULL},
        {NULL, "stride", CLI_SIZE, &o->stride, 1, 65536, NULL, "N",
         "letters from one k-mer to the next", 0, NULL},
        {NULL, "frames", CLI_FLAG, &o->frames, 0, 0, NULL, NULL,
         "K sentences of k-mers end to end, each a letter further, as of ProtVec", 0, NULL},
        {NULL, "strand", CLI_CHOICE, &o->strand, 0, 0, kmf_word_strand_names, NULL,
         "as they are; each sequence on both strands; a k-mer and its reverse complement as "
         "one word",
         0, NULL},
        CLI_HEADING("vectors"),
        {NULL, "dim", CLI_SIZE, &o->dim, 1, 1024, NULL, "N", "numbers of a vector", 0, NULL},
        {NULL, "window", CLI_INT, &o->window, 1, 100, NULL, "N",
         "k-mers on either side that may be context; the reach of each window is drawn", 0,
         NULL},
        {NULL, "negative", CLI_INT, &o->negative, 1, 63, NULL, "N",
         "noise words for each pair, by the 3/4th power of their counts", 0, NULL},
        {NULL, "cbow", CLI_FLAG, &o->cbow, 0, 0, NULL, NULL,
         "the centre from the mean of its window, instead of skip-gram", 0, NULL},
        {NULL, "sample", CLI_REAL, &o->sample, 0, 0, NULL, "T",
         "drop words of a frequency f above T: kept with probability sqrt(T/f) + T/f; 0: none",
         0, NULL},
        {NULL, "epochs", CLI_INT, &o->epochs, 1, 10000, NULL, "N", "passes over the sequences",
         0, NULL},
        {NULL, "alpha", CLI_REAL, &o->alpha, 0, 0, NULL, "X",
         "learning rate at the start; it falls to a 10,000th", 0, NULL},
        {NULL, "seed", CLI_SEED, &o->seed, 0, 0, NULL, "N", "of all that is drawn", 0, NULL},
        CLI_HEADING("output"),
        {"o", "output", CLI_TEXT, &a->out, 0, 0, NULL, "FILE", "where the vectors go; needed",
         0, NULL},
        {NULL, "format", CLI_CHOICE, &a->format, 0, 0, kmf_vectors_format_names, NULL,
         "text and binary are those of word2vec, gensim and fastText", -1,
         "text for x.txt and x.vec, binary for x.bin, each also with .gz; else safetensors"},
        CLI_HEADING("input"),
        CLI_READER_OPTIONS(&a->reader),
        CLI_HEADING("the run"),
        CLI_THREADS(&o->threads),
        CLI_MEMORY_OPTIONS(o, "the sequences"),
        {NULL, "checkpoint", CLI_TEXT, &a->checkpoint, 0, 0, NULL, "FILE",
         "where the state is kept until the end", 0, "OUT.checkpoint"},
        {NULL, "checkpoint-every", CLI_REAL, &a->minutes, 0, 0, NULL, "MIN",
         "minutes from one checkpoint to the next; 0: only when stopped", 0, NULL},
        {NULL, "resume", CLI_TEXT, &a->resume, 0, 0, NULL, "HOW",
         "auto: from the checkpoint if there is one; never; or a checkpoint file", 0, NULL},
        CLI_COMMON(run)};
    return cli_parse(run, table, &usage, argc, argv);
}

/* "6" or "3-8". */
static int parse_k(cli *run, word2vec_args *a)
{
    uint64_t min, max;
    const char *end = cli_read_range(a->k, 999, false, &min, &max);
    if (!end || *end != '\0')
        return cli_wrong(run, "--kmer: write K, or KMIN-KMAX; got '%s'", a->k);
    a->opts.k_min = (int)min;
    a->opts.k_max = (int)max;
    return -1;
}

/* Would whoever reads a file of this name take it for something else than it is? */
static bool is_misnamed(const char *out, int format, bool asked)
{
    bool safetensors = format == (int)KMF_VECTORS_SAFETENSORS;
    return kmf_foreign_ending(out) || cli_ends_with(out, ".npy") ||
           (safetensors &&
            (cli_ends_with(out, ".gz") || (!asked && cli_ends_with(out, ".tsv"))));
}

/* -1, or the exit code of a contradiction. */
static int settle(cli *run, word2vec_args *a)
{
    a->opts.alphabet = (kmf_alphabet)a->alphabet;
    if (!a->out)
        return cli_wrong(run, "no output given: -o FILE");
    int named = cli_vectors_format(a->out);
    bool asked = a->format >= 0;
    if (!asked)
        a->format = named >= 0 ? named : (int)KMF_VECTORS_SAFETENSORS;
    if (is_misnamed(a->out, a->format, asked))
        return cli_wrong(run,
                         "-o %s: vectors are written as .safetensors, .txt, .vec or .bin, the "
                         "last three also with .gz",
                         a->out);
    if (named >= 0 && named != a->format)
        cli_warn(run, "%s is written as %s", a->out, kmf_vectors_format_names[a->format]);
    if (strcmp(a->out, "-") == 0 && a->format != KMF_VECTORS_TEXT)
        return cli_wrong(run, "-o -: only --format text goes to standard output");
    return parse_k(run, a);
}

/* ---------------------------------------------------------------- the run --------------- */

typedef struct intake {
    cli_progress line;
    kmf_word2vec *trainer;
} intake;

static void show_counting(void *user, uint64_t letters)
{
    cli_progress_letters(user, "counting k-mers", letters);
}

static int take(void *to, kmf_reader *reader, kmf_err *err)
{
    intake *in = to;
    return kmf_word2vec_read(in->trainer, reader, cli_progress_reading, &in->line, err);
}

static int read_files(cli *run, const word2vec_args *a, kmf_word2vec *trainer,
                      const char *const *paths, size_t n, kmf_err *err)
{
    intake in = {.trainer = trainer};
    int status = 0;
    cli_progress_start(&in.line, run);
    for (size_t i = 0; i < n && status == 0; i++)
        status = cli_read_file(run, paths[i], &a->reader, kmf_word2vec_pool(trainer), NULL,
                               take, &in, err);
    if (status == 0)
        status = kmf_word2vec_begin(trainer, show_counting, &in.line, err);
    cli_progress_end();
    return status;
}

static void say_begin(cli *run, const kmf_word2vec_options *opts, const kmf_word2vec *trainer)
{
    kmf_word2vec_state s;
    char kmers[CLI_COUNT_TEXT];
    kmf_word2vec_information(trainer, &s);
    if (!opts->frames)
        cli_warn_of_stride(run, opts->stride, opts->k_max);
    if (s.ambiguous > 0)
        cli_warn(run, "%llu letters are none of the alphabet; sequences are cut there",
                 (unsigned long long)s.ambiguous);
    if (opts->alphabet == KMF_PROTEIN && opts->k_min == opts->k_max)
        cli_warn_of_nucleotides(run, opts->k_max, s.kmers, s.words - s.unseen);
    if (s.too_short > 0)
        cli_warn(run, "%llu letters lie in runs too short for a k-mer, and are left out",
                 (unsigned long long)s.too_short);
    if (s.unseen > 0)
        cli_warn(run,
                 "%llu of %llu k-mers never occur: their vectors stay as they were drawn, and "
                 "their count is 0",
                 (unsigned long long)s.unseen, (unsigned long long)s.words);
    cli_note(run, "%llu records, %.3f M letters, %s k-mers, %llu words; %d threads, %.0f MB",
             (unsigned long long)s.records, 1e-6 * (double)s.letters,
             cli_count(kmers, (double)s.kmers), (unsigned long long)s.words, s.threads,
             1e-6 * (double)s.bytes);
}

typedef struct training {
    cli_progress line;
    const word2vec_args *args;
    const kmf_word2vec *trainer;
    const char *checkpoint;
    double started;    /* seconds, the training */
    double done_first; /* share that an earlier run has done */
    uint64_t tokens_first;
    double saved;   /* when a checkpoint was written, or could not be */
    double seconds; /* that the training took */
} training;

static void show_progress(training *t, const kmf_word2vec_state *s)
{
    char rate[CLI_COUNT_TEXT];
    char rest[CLI_COUNT_TEXT];
    double seconds = cli_now() - t->started;
    double left = seconds * (1 - s->done) / (s->done - t->done_first);
    int epochs = t->args->opts.epochs;
    int epoch = s->epoch < epochs ? s->epoch + 1 : epochs;
    if (!cli_progress_due(&t->line))
        return;
    cli_progress_show(
        &t->line, "epoch %d of %d, %.1f %%, loss %.4f, alpha %.5f, %s tokens/s, %s left", epoch,
        epochs, 100 * s->done, s->loss, s->alpha,
        cli_count(rate, (double)(s->tokens - t->tokens_first) / seconds), cli_time(rest, left));
}

/* A kmf_word2vec_fn. A checkpoint that cannot be written is none: the training goes on. */
static int between_steps(void *user, const kmf_word2vec_state *state)
{
    training *t = user;
    double minutes = (cli_now() - t->saved) / 60;
    show_progress(t, state);
    if (t->args->minutes > 0 && minutes >= t->args->minutes) {
        kmf_err own = {0};
        if (kmf_word2vec_save(t->trainer, t->checkpoint, &own) < 0)
            cli_warn(t->line.run,
                     "a checkpoint could not be written, and the training goes on: %s",
                     own.msg);
        t->saved = cli_now();
    }
    return cli_asked_to_stop();
}

/* Takes in the checkpoint, if there is one and it is wanted. */
static int resume(cli *run, const word2vec_args *a, kmf_word2vec *trainer,
                  const char *checkpoint, kmf_err *err)
{
    kmf_word2vec_state state;
    const char *path = cli_kept(a->resume, checkpoint);
    if (!path)
        return 0;
    kmf_err own = {0};
    if (kmf_word2vec_load(trainer, path, &own) < 0)
        return cli_raise(err, own.code, "%s%s", own.msg,
                         path == checkpoint ? " (--resume never begins anew)" : "");
    kmf_word2vec_information(trainer, &state);
    if (state.other_kernels)
        cli_warn_of_kernels(run);
    cli_note(run, "resumes from %s, %.1f %% done", path, 100 * state.done);
    return 0;
}

/* 0: to the end; 1: stopped, and the checkpoint is written. */
static int train(cli *run, training *t, kmf_word2vec *trainer, kmf_err *err)
{
    kmf_word2vec_state s;
    kmf_word2vec_information(trainer, &s);
    t->started = t->saved = cli_now();
    t->done_first = s.done;
    t->tokens_first = s.tokens;
    cli_progress_start(&t->line, run);
    cli_tell_of_stopping(run, "the training stops after this step");
    int status = kmf_word2vec_train(trainer, between_steps, t, err);
    cli_progress_end();
    if (err->code != KMF_OK)
        return err->code;
    if (status == 1) {
        int saved = kmf_word2vec_save(trainer, t->checkpoint, err);
        return saved < 0 ? saved : 1;
    }
    kmf_word2vec_information(trainer, &s);
    if (isnan(s.loss))
        return cli_raise(err, KMF_EFORMAT, "%s",
                         t->args->opts.sample > 0
                             ? "nothing was learnt: --sample leaves no k-mer a neighbour"
                             : "no k-mer has a neighbour in its sequence: nothing was learnt");
    t->seconds = cli_now() - t->started;
    return 0;
}

static void say_end(const cli *run, const training *t)
{
    kmf_word2vec_state s;
    char tokens[CLI_COUNT_TEXT];
    char rate[CLI_COUNT_TEXT];
    kmf_word2vec_information(t->trainer, &s);
    cli_note(run, "%s tokens learnt in %.2f s: %s tokens/s; loss %.4f; peak memory %.0f MB",
             cli_count(tokens, (double)(s.tokens - t->tokens_first)), t->seconds,
             cli_count(rate, (double)(s.tokens - t->tokens_first) / t->seconds), s.loss,
             1e-6 * cli_peak_memory());
}

/* A JSON object of the settings and figures and, with inputs, of the command and its inputs. */
static char *settings_text(const cli *run, const word2vec_args *a, const kmf_word2vec *trainer,
                           const char *const *inputs, size_t n, kmf_err *err)
{
    const kmf_word2vec_options *o = &a->opts;
    kmf_word2vec_state s;
    cli_pairs p = {0};
    kmf_word2vec_information(trainer, &s);
    cli_pair(&p, "version", "%s", kmf_version());
    cli_pair(&p, "method", "%s", o->cbow ? "cbow" : "skip-gram");
    cli_pair(&p, "k", "%s", a->k);
    cli_pair(&p, "strand", "%s", kmf_word_strand_names[o->strand]);
    cli_pair(&p, "stride", "%zu", o->frames ? (size_t)o->k_max : o->stride);
    cli_pair(&p, "frames", "%d", o->frames ? o->k_max : 1);
    cli_pair(&p, "dim", "%zu", o->dim);
    cli_pair(&p, "window", "%d", o->window);
    cli_pair(&p, "negative", "%d", o->negative);
    cli_pair(&p, "sample", "%g", o->sample);
    cli_pair(&p, "epochs", "%d", o->epochs);
    cli_pair(&p, "alpha", "%g", o->alpha);
    cli_pair(&p, "seed", "%llu", (unsigned long long)o->seed);
    cli_pair(&p, "records", "%llu", (unsigned long long)s.records);
    cli_pair(&p, "letters", "%llu", (unsigned long long)s.letters);
    cli_pair(&p, "kmers", "%llu", (unsigned long long)s.kmers);
    cli_pair(&p, "loss", "%.6g", s.loss);
    if (inputs) {
        cli_pair(&p, "program", "kmerformer");
        cli_pair(&p, "command", "%s", run->command_line);
        cli_pair_lines(&p, "inputs", inputs, n);
    }
    return cli_pairs_text(&p, err);
}

/* x.json, whole and on the disk, but for its name. NULL with *err filled, or if it has none. */
static kmf_out *write_beside(const char *out, const char *text, kmf_err *err)
{
    char name[CLI_PATH_CAP + 8];
    if (!kmf_out_is_file(out))
        return NULL;
    snprintf(name, sizeof name, "%s.json", out);
    kmf_out *beside = cli_check_output(name, err) == 0 ? kmf_out_open(name, err) : NULL;
    if (beside && kmf_out_write(beside, text, strlen(text), err) == 0 &&
        kmf_out_finish(beside, err) == 0)
        return beside;
    kmf_out_free(beside);
    return NULL;
}

/* The vectors, and x.json beside them if they are a file. */
static int save(const cli *run, const word2vec_args *a, const kmf_word2vec *trainer,
                const char *const *paths, size_t n, kmf_err *err)
{
    char *kept = settings_text(run, a, trainer, NULL, 0, err);
    char *beside = kept ? settings_text(run, a, trainer, paths, n, err) : NULL;
    kmf_vectors *vectors = beside ? kmf_word2vec_vectors(trainer, err) : NULL;
    kmf_out *file = vectors ? write_beside(a->out, beside, err) : NULL;
    int status = (int)err->code;
    if (status == 0) {
        cli_hold_signals();
        status = kmf_vectors_save_with(vectors, a->out, (kmf_vectors_format)a->format, kept,
                                       file, err);
        cli_release_signals(status == 0);
    }
    kmf_out_free(file);
    kmf_vectors_free(vectors);
    kmf_text_free(beside);
    kmf_text_free(kept);
    return status;
}

/* The files that a training leaves: the vectors, x.json, the counts beside a text. */
typedef struct outputs {
    char beside[CLI_PATH_CAP + 8];
    char counts[CLI_PATH_CAP + 8];
    const char *names[3];
    size_t n;
} outputs;

static void list_outputs(outputs *o, const word2vec_args *a)
{
    assert(a->out); /* settle has seen to it */
    snprintf(o->beside, sizeof o->beside, "%s.json", a->out);
    snprintf(o->counts, sizeof o->counts, "%s.vocab", a->out);
    o->names[0] = a->out;
    o->names[1] = o->beside;
    o->names[2] = o->counts;
    o->n = !kmf_out_is_file(a->out) ? 1 : a->format == KMF_VECTORS_SAFETENSORS ? 2 : 3;
}

/*
 * -1, or the exit code if a file that will be written is an input, or would replace one of
 * something else, or the checkpoint, which goes in the end, is one that stays.
 */
static int check_outputs(cli *run, const word2vec_args *a, const outputs *o,
                         const char *checkpoint, const char *const *paths, size_t n)
{
    const char *const of_reader[] = {a->reader.bed, a->reader.reference};
    if (cli_is_an_input(checkpoint, paths, n) || cli_is_an_input(checkpoint, of_reader, 2))
        return cli_wrong(run, "--checkpoint %s: that is an input", checkpoint);
    for (size_t i = 0; i < o->n; i++) {
        const char *name = o->names[i];
        if (cli_is_an_input(name, paths, n) || cli_is_an_input(name, of_reader, 2))
            return cli_wrong(run, "-o %s: %s: that is an input", a->out, name);
        if (cli_same_output(checkpoint, name))
            return cli_wrong(run, "--checkpoint %s: the vectors go there", checkpoint);
    }
    int leave = cli_refuse_companion(run, a->out);
    for (size_t i = 1; i < o->n && leave < 0; i++)
        leave = cli_refuse_foreign_words(run, a->out, o->names[i]);
    return leave;
}

/*
 * Can all of them be made? A checkpoint is looked into before it is replaced, and in the end
 * removed, but not where --resume names another one, or none.
 */
static int check_places(const outputs *o, const char *checkpoint, bool unread, kmf_err *err)
{
    int status = 0;
    if (unread && cli_is_file(checkpoint) && !cli_is_checkpoint(checkpoint, "word2vec"))
        return cli_raise(err, KMF_EIO,
                         "%s is there, and is no checkpoint of word2vec: it is not "
                         "overwritten; give --checkpoint another name",
                         checkpoint);
    for (size_t i = 0; i < o->n && status == 0; i++)
        status = cli_check_output(o->names[i], err);
    return status == 0 ? cli_check_output(checkpoint, err) : status;
}

/* What has been learnt when its vectors could not be written. */
static void keep(const cli *run, const kmf_word2vec *trainer, const char *checkpoint,
                 const char *resume)
{
    kmf_err err = {0};
    if (kmf_word2vec_save(trainer, checkpoint, &err) == 0)
        cli_warn(run,
                 "the vectors could not be written; the training is kept in %s, and the same "
                 "command%s resumes from there",
                 checkpoint, cli_to_go_on(resume));
}

int cli_word2vec(cli *run, int argc, char **argv)
{
    kmf_err err = {0};
    word2vec_args a = {.k = "6", .format = -1, .resume = "auto", .minutes = 10};
    char checkpoint[CLI_PATH_CAP];
    char lock_path[CLI_PATH_CAP + 8];
    outputs o;
    cli_leave_on_signals(run, NULL, NULL, NULL);
    kmf_word2vec_options_default(&a.opts);
    kmf_reader_options_default(&a.reader);
    a.opts.threads = kmf_threads_default();
    int leave = parse(run, &a, argc, argv);
    if (leave < 0)
        leave = settle(run, &a);
    if (leave >= 0)
        return leave;
    const char *const *paths = run->inputs;
    size_t n_paths = run->n_inputs;
    int length = a.checkpoint ? snprintf(checkpoint, sizeof checkpoint, "%s", a.checkpoint)
                              : snprintf(checkpoint, sizeof checkpoint, "%s.checkpoint", a.out);
    if (length >= (int)sizeof checkpoint)
        return cli_wrong(run, "the name of the output is too long");
    snprintf(lock_path, sizeof lock_path, "%s.lock", checkpoint);
    list_outputs(&o, &a);
    leave = check_outputs(run, &a, &o, checkpoint, paths, n_paths);
    if (leave >= 0)
        return leave;
    if (cli_check_inputs(paths, n_paths, &a.reader, &err) < 0 ||
        check_places(&o, checkpoint, strcmp(a.resume, "auto") != 0, &err) < 0 ||
        cli_check_kept(a.resume, checkpoint, &err) < 0)
        return cli_fail(run, &err);
    if (!kmf_out_is_file(a.out) && !a.checkpoint)
        return cli_wrong(run, "-o %s: --checkpoint FILE has to say where the state is kept",
                         a.out);

    cli_warn_of_twice(run, paths, n_paths, "counts as often");
    int stopped = 0;
    bool alone = kmf_out_is_file(checkpoint);
    cli_delay_signals(true);
    int lock = alone ? cli_lock(lock_path, checkpoint, &err) : -1;
    cli_leave_on_signals(run, cli_kept(a.resume, checkpoint), NULL,
                         lock >= 0 ? lock_path : NULL);
    cli_delay_signals(false);
    if (alone && lock < 0)
        return cli_fail(run, &err);
    if (alone)
        cli_remove_left_over(checkpoint);
    kmf_word2vec *trainer = kmf_word2vec_new(&a.opts, &err);
    if (!trainer || read_files(run, &a, trainer, paths, n_paths, &err) < 0)
        goto out;
    cli_watch_signals();
    say_begin(run, &a.opts, trainer);
    if (resume(run, &a, trainer, checkpoint, &err) < 0)
        goto out;
    training t = {.args = &a, .trainer = trainer, .checkpoint = checkpoint};
    stopped = train(run, &t, trainer, &err);
    if (stopped == 0 && save(run, &a, trainer, paths, n_paths, &err) < 0) {
        keep(run, trainer, checkpoint, a.resume);
    } else if (stopped == 0) {
        if (cli_is_file(checkpoint))
            (void)remove(checkpoint);
        say_end(run, &t);
    }
out:
    kmf_word2vec_free(trainer);
    cli_unlock(lock, lock_path);
    if (err.code != KMF_OK)
        return cli_fail(run, &err);
    if (stopped == 1) {
        cli_note(run, "stopped by a signal; the same command%s resumes from %s",
                 cli_to_go_on(a.resume), checkpoint);
        return CLI_STOPPED;
    }
    return CLI_DONE;
}
