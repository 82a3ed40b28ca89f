/* SPDX-License-Identifier: MIT */
/* kmerformer vocab: sequences in, a table of k-mers and their counts out. */
#include "cli/cli.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

typedef struct vocab_args {
    kmf_count_options opts;
    kmf_reader_options reader;
    cli_listing listing;
    int alphabet;
    size_t stride; /* 0: not given */
    int frames;
} vocab_args;

const cli_command cli_vocab_subcommands[] = {
    {"vocab merge", cli_vocab_merge, "the sum of tables", NULL},
    {"vocab stats", cli_vocab_stats, "totals, entropy, extremes and the count spectrum", NULL},
    {"vocab export", cli_vocab_export, "another format of a table, or a part of it", NULL},
    {"vocab show", cli_vocab_show, "the counts of some k-mers", NULL},
    CLI_COMMAND_END,
};

static const char about[] =
    "Counts the k-mers of FASTA, FASTQ, SAM, BAM or CRAM files, or of csv or tsv with a "
    "column\n"
    "sequence, plain or compressed; '-' is standard input. Counts are exact, and the bytes of\n"
    "the table don't depend on threads, memory, compression or the order of the inputs. With\n"
    "tables of counts:\n";

static int parse(cli *run, vocab_args *a, int argc, char **argv)
{
    char text[1024];
    const cli_usage usage = {"vocab [options] IN...",
                             cli_list_commands(text, sizeof text, about, cli_vocab_subcommands),
                             1, -1};
    kmf_count_options *o = &a->opts;
    cli_listing *l = &a->listing;
    const cli_option table[] = {
        CLI_HEADING("k-mers"),
        {"k", "kmer", CLI_INT, &o->k, 1, KMF_K_MAX, NULL, "K", "letters of a k-mer", 0, NULL},
        {"C", "canonical", CLI_FLAG, &o->canonical, 0, 0, NULL, NULL,
         "count a k-mer and its reverse complement as one", 0, NULL},
        {NULL, "alphabet", CLI_CHOICE, &a->alphabet, 0, 0, kmf_alphabet_names, NULL,
         "protein: the 20 amino acids, K up to 6", 0, NULL},
        {NULL, "stride", CLI_SIZE, &a->stride, 1, 1LL << 31, NULL, "N",
         "letters from one k-mer to the next", 0, "1"},
        {NULL, "frames", CLI_FLAG, &a->frames, 0, 0, NULL, NULL,
         "K shifted sentences of non-overlapping words, as of ProtVec: in sum the counts of "
         "--stride 1",
         0, NULL},
        CLI_HEADING("output"),
        CLI_LISTING_OPTIONS(l),
        CLI_SELECTION_OPTIONS(l),
        CLI_HEADING("input"),
        CLI_READER_OPTIONS(&a->reader),
        CLI_HEADING("the run"),
        CLI_THREADS(&o->threads),
        CLI_MEMORY_OPTIONS(o, "tables and buffers"),
        CLI_COMMON(run)};
    return cli_parse(run, table, &usage, argc, argv);
}

/* What the options mean together; -1, or the exit code of a contradiction. */
static int settle(cli *run, vocab_args *a)
{
    kmf_count_options *o = &a->opts;
    o->alphabet = (kmf_alphabet)a->alphabet;
    if (a->frames && a->stride > 0)
        return cli_wrong(run, "--frames takes every k-mer: --stride does not go with it");
    if (o->k > kmf_alphabet_k_max(o->alphabet))
        return cli_wrong(run, "--kmer: must be between 1 and %d for %s, got %d",
                         kmf_alphabet_k_max(o->alphabet), kmf_alphabet_names[o->alphabet],
                         o->k);
    if (o->canonical && o->alphabet != KMF_DNA)
        return cli_wrong(run, "--canonical: %s has no reverse complement",
                         kmf_alphabet_names[o->alphabet]);
    o->stride = a->stride > 0 ? a->stride : 1;
    const kmf_counts_info info = {
        .alphabet = o->alphabet, .k = o->k, .canonical = o->canonical, .min_count = 1};
    return cli_listing_check(run, &a->listing, &info);
}

/* ---------------------------------------------------------------- the run --------------- */

typedef struct vocab_progress {
    cli_progress line;
    cli_inputs inputs;
} vocab_progress;

static void show_progress(void *user, uint64_t letters, double made)
{
    vocab_progress *p = user;
    char rate[CLI_COUNT_TEXT];
    char left[CLI_COUNT_TEXT];
    if (!cli_progress_due(&p->line))
        return;
    double seconds = cli_now() - p->line.run->started;
    if (made > 0) {
        cli_progress_show(&p->line, "%.3f M letters; the table: %.0f %%",
                          1e-6 * (double)letters, 100 * made);
        return;
    }
    cli_progress_show(&p->line, "%.3f M letters, %s letters/s%s", 1e-6 * (double)letters,
                      cli_count(rate, (double)letters / seconds),
                      cli_inputs_left(&p->inputs, left, seconds));
}

static int take(void *counter, kmf_reader *reader, kmf_err *err)
{
    return kmf_counter_read(counter, reader, err);
}

static int count_files(cli *run, const vocab_args *a, kmf_counter *counter,
                       const char *const *paths, size_t n, kmf_counts_info *info, kmf_err *err)
{
    vocab_progress progress;
    int status = 0;
    cli_inputs_start(&progress.inputs, paths, n, &a->reader);
    cli_progress_start(&progress.line, run);
    kmf_counter_progress(counter, show_progress, &progress);
    for (size_t i = 0; i < n && status == 0; i++)
        status = cli_read_file(run, paths[i], &a->reader, kmf_counter_pool(counter),
                               &progress.inputs, take, counter, err);
    if (status == 0)
        status = cli_listing_finish(run, &a->listing, counter, paths, n, info, err);
    cli_progress_end();
    return status;
}

static void warn_of_losses(cli *run, const kmf_counts_info *info)
{
    if (info->ambiguous > 0)
        cli_warn(run, "%llu k-mers touch a letter other than %s and are not counted%s",
                 (unsigned long long)info->ambiguous,
                 info->alphabet == KMF_DNA ? "A, C, G, T or U" : "those of the 20 amino acids",
                 cli_asks_for_alphabet(info->alphabet, info->ambiguous, info->kmers));
    if (info->alphabet == KMF_PROTEIN && info->min_count <= 1 && info->max_size == 0)
        cli_warn_of_nucleotides(run, info->k, info->kmers, info->distinct);
    if (info->records > 0 && info->kmers == 0 && info->stride > 1)
        cli_warn(run,
                 "no k-mer was counted: no record has %d valid letters in a row where --stride "
                 "%llu begins a k-mer",
                 info->k, (unsigned long long)info->stride);
    else if (info->records > 0 && info->kmers == 0)
        cli_warn(run, "no k-mer was counted: no record has %d valid letters in a row", info->k);
    else if (info->kmers > 0 && info->distinct == 0)
        cli_warn(run, "the table is empty: no k-mer has a count of %llu (--min-count)",
                 (unsigned long long)info->min_count);
}

static void say_end(cli *run, const kmf_counts_info *info)
{
    char kmers[CLI_COUNT_TEXT];
    double seconds = cli_now() - run->started;
    cli_warn_of_stride(run, (size_t)info->stride, info->k);
    warn_of_losses(run, info);
    cli_note(run,
             "%llu records, %.3f M letters, %s k-mers, %llu distinct in %.2f s (%.2f s of "
             "processor time): %.1f M letters/s; peak memory %.0f MB",
             (unsigned long long)info->records, 1e-6 * (double)info->letters,
             cli_count(kmers, (double)info->kmers), (unsigned long long)info->distinct, seconds,
             cli_cpu_seconds(), 1e-6 * (double)info->letters / seconds,
             1e-6 * cli_peak_memory());
}

/* A plain word that is no file was probably meant as a sub-command. */
static bool is_mistyped(const char *word)
{
    struct stat s;
    return !strpbrk(word, "./-") && stat(word, &s) != 0 && errno == ENOENT;
}

int cli_vocab(cli *run, int argc, char **argv)
{
    kmf_err err = {0};
    vocab_args a = {.listing = CLI_LISTING_DEFAULT};
    kmf_counts_info info;
    kmf_count_options_default(&a.opts);
    kmf_reader_options_default(&a.reader);
    a.opts.k = 6;
    a.opts.threads = kmf_threads_default();
    int leave = parse(run, &a, argc, argv);
    if (leave < 0)
        leave = settle(run, &a);
    if (leave >= 0)
        return leave;
    const char *const *paths = run->inputs;
    size_t n_paths = run->n_inputs;
    leave = cli_check_place(run, a.listing.out, cli_listing_endings(&a.listing), paths, n_paths,
                            NULL, &a.reader);
    if (leave >= 0)
        return leave;
    if (is_mistyped(paths[0]) && cli_find_command(cli_vocab_subcommands, paths[0]))
        return cli_wrong(run, "%s: a sub-command stands before all options", paths[0]);
    if (is_mistyped(paths[0]))
        cli_raise(&err, KMF_EIO, "there is neither a file nor a sub-command '%s'%s", paths[0],
                  cli_command_meant(cli_vocab_subcommands, paths[0]).text);
    if (err.code != KMF_OK || cli_check_inputs(paths, n_paths, &a.reader, &err) < 0 ||
        cli_check_output(a.listing.out, &err) < 0)
        return cli_fail(run, &err);
    cli_warn_of_twice(run, paths, n_paths, "counts as often");
    if (run->verbose)
        cli_note(run, "k = %d, %s, stride %zu, %d threads", a.opts.k,
                 kmf_alphabet_names[a.opts.alphabet], a.opts.stride, a.opts.threads);
    kmf_counter *counter = kmf_counter_new(&a.opts, &err);
    if (counter && count_files(run, &a, counter, paths, n_paths, &info, &err) == 0)
        say_end(run, &info);
    kmf_counter_free(counter);
    return err.code == KMF_OK ? CLI_DONE : cli_fail(run, &err);
}
