/* SPDX-License-Identifier: MIT */
/*
 * kmerformer vocab stats: what a table of counts holds, and the spectrum of the counts as numbers
 * and as a picture.
 */
#include "cli/cli.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TOP_MAX (1LL << 32)

typedef struct stats_args {
    size_t top;
    const char *spectrum;
    kmf_picture picture; /* path NULL: none */
} stats_args;

static const cli_usage usage = {
    "vocab stats [options] TABLE",
    "Prints what a table holds as name<TAB>value, then its most and least frequent k-mers.", 1,
    1};

/* ---------------------------------------------------------------- the summary ----------- */

static void print_info(const kmf_counts_info *i)
{
    printf("alphabet\t%s\nk\t%d\ncanonical\t%s\nstride\t%" PRIu64 "\n",
           kmf_alphabet_names[i->alphabet], i->k, i->canonical ? "yes" : "no", i->stride);
    if (i->min_count > 1)
        printf("min_count\t%" PRIu64 "\n", i->min_count);
    if (i->max_size > 0)
        printf("max_size\t%" PRIu64 "\n", i->max_size);
    printf("inputs\t%" PRIu64 "\nrecords\t%" PRIu64 "\nletters\t%" PRIu64 "\n", i->inputs,
           i->records, i->letters);
    printf("kmers\t%" PRIu64 "\nambiguous\t%" PRIu64 "\ndistinct\t%" PRIu64 "\n", i->kmers,
           i->ambiguous, i->distinct);
}

static void print_summary(const kmf_counts *counts)
{
    kmf_counts_summary s;
    kmf_counts_summarise(counts, &s);
    cli_progress_end();
    printf("possible\t%.0f\ncoverage\t%.6g\n", s.possible, s.coverage);
    printf("entropy_bits\t%.6f\nentropy_max_bits\t%.6f\n", s.entropy, log2(s.possible));
    if (s.gc >= 0)
        printf("gc\t%.6f\n", s.gc);
    printf("smallest\t%" PRIu64 "\nlargest\t%" PRIu64 "\n", s.smallest, s.largest);
}

static int print_extreme(const kmf_counts *counts, const kmf_counts_info *info, size_t top,
                         int least, kmf_err *err)
{
    char kmer[KMF_K_MAX + 1];
    size_t n = top < info->distinct ? top : (size_t)info->distinct;
    kmf_kmer_count *list = malloc((n ? n : 1) * sizeof *list);
    if (!list)
        return cli_raise(err, KMF_ENOMEM, "out of memory: a list of %zu k-mers", n);
    int64_t got = kmf_counts_extreme(counts, list, n, least, err);
    cli_progress_end();
    for (int64_t i = 0; i < got; i++) {
        kmf_alphabet_decode(info->alphabet, kmer, list[i].code, info->k);
        printf("%s\t%s\t%" PRIu64 "\n", least ? "least_frequent" : "most_frequent", kmer,
               list[i].count);
    }
    free(list);
    return got < 0 ? (int)got : 0;
}

static int print_all(const kmf_counts *counts, const kmf_counts_info *info, size_t top,
                     kmf_err *err)
{
    print_info(info);
    print_summary(counts);
    if (top == 0)
        return 0;
    int status = print_extreme(counts, info, top, 0, err);
    return status == 0 ? print_extreme(counts, info, top, 1, err) : status;
}

/* ---------------------------------------------------------------- the spectrum ---------- */

/* path may be "-". */
static int save_spectrum(const char *path, const kmf_spectrum *s, kmf_err *err)
{
    kmf_out *out = kmf_out_open(path, err);
    int status = out ? kmf_out_print(out, err, "#count\tkmers\n") : (int)err->code;
    for (size_t i = 0; i < s->n && status == 0; i++)
        status =
            kmf_out_print(out, err, "%" PRIu64 "\t%" PRIu64 "\n", s->count[i], s->kmers[i]);
    return kmf_out_end(out, status, err);
}

/* ---------------------------------------------------------------- the run --------------- */

static int stats(const cli *run, const stats_args *a, kmf_counts *counts, kmf_err *err)
{
    cli_progress line;
    kmf_counts_info info;
    kmf_spectrum spectrum = {0};
    bool to_stdout = a->spectrum && strcmp(a->spectrum, "-") == 0;
    int status = 0;
    kmf_counts_information(counts, &info);
    cli_progress_start(&line, run);
    kmf_counts_progress(counts, cli_progress_table, &line);
    if (a->spectrum || a->picture.path)
        status = kmf_counts_spectrum(counts, &spectrum, err);
    if (status == 0 && !to_stdout)
        status = print_all(counts, &info, a->top, err);
    if (status == 0 && a->spectrum)
        status = save_spectrum(a->spectrum, &spectrum, err);
    if (status == 0 && a->picture.path)
        status = kmf_plot_spectrum(&a->picture, &spectrum, &info, err);
    cli_progress_end();
    kmf_spectrum_free(&spectrum);
    return status;
}

/* Is the spectrum to be where the picture has its own files? */
static bool is_taken(const char *spectrum, const char *picture)
{
    static const char *const endings[] = {".tsv", ".gp"};
    bool taken =
        cli_same_output(spectrum, picture) || cli_picture_is_an_input(picture, &spectrum, 1);
    for (size_t i = 0; i < 2; i++) {
        char *name = kmf_picture_name(picture, endings[i], NULL);
        taken = taken || (name && cli_same_output(spectrum, name));
        kmf_text_free(name);
    }
    return taken;
}

/* -1, or the exit code of what is wrong with the names of files. */
static int check_names(const cli *run, const stats_args *a, const char *const *table)
{
    kmf_err err = {0};
    const char *picture = a->picture.path;
    if (picture) {
        char *name = kmf_picture_name(picture, "", &err);
        if (!name)
            return cli_fail(run, &err);
        kmf_text_free(name);
    }
    if ((a->spectrum && cli_is_an_input(a->spectrum, table, 1)) ||
        (picture && cli_picture_is_an_input(picture, table, 1)))
        return cli_wrong(run, "%s: the table itself would be overwritten", table[0]);
    int refused = a->spectrum ? cli_refuse_table(run, a->spectrum) : -1;
    if (refused >= 0)
        return refused;
    if ((a->spectrum && cli_check_output(a->spectrum, &err) < 0) ||
        (picture && cli_check_output(picture, &err) < 0))
        return cli_fail(run, &err);
    if (picture && a->spectrum && is_taken(a->spectrum, picture))
        return cli_wrong(run, "--spectrum %s: --plot keeps a file of its own there",
                         a->spectrum);
    return -1;
}

int cli_vocab_stats(cli *run, int argc, char **argv)
{
    kmf_err err = {0};
    stats_args a = {.top = 10};
    const cli_option table[] = {
        {NULL, "top", CLI_SIZE, &a.top, 0, TOP_MAX, NULL, "N",
         "most and least frequent k-mers that are printed", 0, NULL},
        {NULL, "spectrum", CLI_TEXT, &a.spectrum, 0, 0, NULL, "FILE",
         "how many k-mers occur once, twice, ...: count<TAB>kmers; -: instead of the rest", 0,
         NULL},
        {NULL, "plot", CLI_TEXT, &a.picture.path, 0, 0, NULL, "FILE",
         "the spectrum as a picture, x.svg or x.png, by gnuplot; numbers are kept in x.tsv, "
         "the script in x.gp",
         0, NULL},
        CLI_COMMON(run)};
    int leave = cli_parse(run, table, &usage, argc, argv);
    if (leave >= 0)
        return leave;
    leave = check_names(run, &a, run->inputs);
    if (leave >= 0)
        return leave;
    a.picture.command_line = run->command_line;
    kmf_counts *counts = kmf_counts_load(run->inputs[0], &err);
    int status = counts ? stats(run, &a, counts, &err) : -1;
    kmf_counts_free(counts);
    return status == 0 ? CLI_DONE : cli_fail(run, &err);
}
