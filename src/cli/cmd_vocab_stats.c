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
    const char *plot;
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

static void write_spectrum(FILE *to, const kmf_spectrum *s)
{
    for (size_t i = 0; i < s->n; i++)
        fprintf(to, "%" PRIu64 "\t%" PRIu64 "\n", s->count[i], s->kmers[i]);
}

/* A file that is made in memory first. */
typedef struct draft {
    FILE *to;
    char *bytes;
    size_t n;
} draft;

static int draft_open(draft *d, kmf_err *err)
{
    *d = (draft){0};
    d->to = open_memstream(&d->bytes, &d->n);
    return d->to ? 0 : cli_raise(err, KMF_ENOMEM, "out of memory");
}

/* Saves it if status is 0. Returns status, or what failed. */
static int draft_close(draft *d, const char *path, int status, kmf_err *err)
{
    if (fclose(d->to) != 0 && status == 0)
        status = cli_raise(err, KMF_ENOMEM, "out of memory");
    if (status == 0)
        status = kmf_file_save(path, d->bytes, d->n, err);
    free(d->bytes);
    return status;
}

static int save_spectrum(const char *path, const kmf_spectrum *s, kmf_err *err)
{
    draft text;
    int status = draft_open(&text, err);
    if (status < 0)
        return status;
    fprintf(text.to, "#count\tkmers\n");
    write_spectrum(text.to, s);
    return draft_close(&text, path, 0, err);
}

/* ---------------------------------------------------------------- the picture ----------- */

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text);
    size_t m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

static uint64_t largest_of(const uint64_t *values, size_t n)
{
    uint64_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

/* Both axes reach beyond the points, so that a single one has room. */
static void write_script(FILE *to, const char *path, const kmf_counts_info *info,
                         const kmf_spectrum *s)
{
    if (ends_in(path, ".svg"))
        fprintf(to, "set terminal svg size 800,600 background '#ffffff'\n");
    else
        fprintf(to, "if (strstrt(GPVAL_TERMINALS, 'pngcairo')) set terminal pngcairo size "
                    "800,600; else set terminal png size 800,600\n");
    fprintf(to,
            "set title '%s k-mers, k = %d%s: %" PRIu64 " distinct'\n"
            "set xlabel 'occurrences of a k-mer'\nset ylabel 'k-mers with so many'\n"
            "set logscale xy\nset format '10^{%%L}'\nset key off\nset grid\n"
            "set xrange [0.5:%.17g]\nset yrange [0.5:%.17g]\n"
            "plot '-' using 1:2 with points pointtype 7 pointsize 0.5\n",
            info->alphabet == KMF_DNA ? "DNA" : "protein", info->k,
            info->canonical ? ", canonical" : "", info->distinct,
            2 * (double)largest_of(s->count, s->n), 2 * (double)largest_of(s->kmers, s->n));
    write_spectrum(to, s);
    fprintf(to, "e\n");
}

static int draw(const char *path, const char *data, const kmf_counts_info *info,
                const kmf_spectrum *s, kmf_err *err)
{
    draft script;
    kmf_err why = {0};
    int status = draft_open(&script, err);
    if (status < 0)
        return status;
    write_script(script.to, path, info, s);
    if (fclose(script.to) != 0)
        status = cli_raise(err, KMF_ENOMEM, "out of memory");
    else if (kmf_gnuplot(path, NULL, script.bytes, script.n, &why) < 0)
        status = cli_raise(err, why.code, "%s; the data is in %s", why.msg, data);
    free(script.bytes);
    return status;
}

/* Freed by free; NULL: out of memory. */
static char *data_beside(const char *picture)
{
    size_t cap = strlen(picture) + sizeof ".tsv";
    char *name = malloc(cap);
    if (name)
        snprintf(name, cap, "%s.tsv", picture);
    return name;
}

/* The data is kept in any case: beside the picture unless it has a place already. */
static int plot(const stats_args *a, const kmf_counts_info *info, const kmf_spectrum *s,
                kmf_err *err)
{
    char *beside = NULL;
    int status = 0;
    if (s->n == 0)
        return cli_raise(err, KMF_EMODEL, "%s: the table is empty: nothing to draw", a->plot);
    const char *data = a->spectrum;
    if (!data || strcmp(data, "-") == 0) {
        beside = data_beside(a->plot);
        if (!beside)
            return cli_raise(err, KMF_ENOMEM, "out of memory");
        data = beside;
        status = save_spectrum(data, s, err);
    }
    if (status == 0)
        status = draw(a->plot, data, info, s, err);
    free(beside);
    return status;
}

/* ---------------------------------------------------------------- the run --------------- */

static int stats(const stats_args *a, const kmf_counts *counts, kmf_err *err)
{
    kmf_counts_info info;
    kmf_spectrum spectrum = {0};
    bool to_stdout = a->spectrum && strcmp(a->spectrum, "-") == 0;
    int status = 0;
    kmf_counts_information(counts, &info);
    if (a->spectrum || a->plot)
        status = kmf_counts_spectrum(counts, &spectrum, err);
    if (status == 0 && !to_stdout)
        status = print_all(counts, &info, a->top, err);
    if (status == 0 && to_stdout) {
        printf("#count\tkmers\n");
        write_spectrum(stdout, &spectrum);
    } else if (status == 0 && a->spectrum) {
        status = save_spectrum(a->spectrum, &spectrum, err);
    }
    if (status == 0 && a->plot)
        status = plot(a, &info, &spectrum, err);
    kmf_spectrum_free(&spectrum);
    return status;
}

static bool would_overwrite(const stats_args *a, const char *const *table)
{
    bool hit = (a->spectrum && cli_is_an_input(a->spectrum, table, 1)) ||
               (a->plot && cli_is_an_input(a->plot, table, 1));
    char *data = a->plot ? data_beside(a->plot) : NULL;
    if (data)
        hit = hit || cli_is_an_input(data, table, 1);
    free(data);
    return hit;
}

int cli_vocab_stats(cli *run, int argc, char **argv)
{
    kmf_err err = {0};
    stats_args a = {.top = 10};
    int first;
    const cli_option table[] = {
        {NULL, "top", CLI_SIZE, &a.top, 0, TOP_MAX, NULL, "N",
         "most and least frequent k-mers that are printed", 0, NULL},
        {NULL, "spectrum", CLI_TEXT, &a.spectrum, 0, 0, NULL, "FILE",
         "how many k-mers occur once, twice, ...: count<TAB>kmers; -: instead of the rest", 0,
         NULL},
        {NULL, "plot", CLI_TEXT, &a.plot, 0, 0, NULL, "FILE",
         "the spectrum as a picture, x.svg or x.png, by gnuplot; the data is in FILE.tsv "
         "unless --spectrum names a file",
         0, NULL},
        CLI_COMMON(run)};
    int leave = cli_parse(run, table, &usage, argc, argv, &first);
    if (leave >= 0)
        return leave;
    if (a.plot && !ends_in(a.plot, ".svg") && !ends_in(a.plot, ".png"))
        return cli_wrong(run, "--plot %s: the name must end in .svg or .png", a.plot);
    const char *const *table_path = (const char *const *)(argv + first);
    if (would_overwrite(&a, table_path))
        return cli_wrong(run, "%s: the table itself would be overwritten", argv[first]);
    kmf_counts *counts = kmf_counts_load(argv[first], &err);
    int status = counts ? stats(&a, counts, &err) : -1;
    kmf_counts_free(counts);
    return status == 0 ? CLI_DONE : cli_fail(run, &err);
}
