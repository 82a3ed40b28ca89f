/* SPDX-License-Identifier: MIT */
/* kmerformer vocab merge, export and show: tables of counts in. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Checks, and writes the table that came from the inputs. An exit code. */
static int write_table(cli *run, const cli_listing *l, kmf_counts *counts,
                       const char *const *inputs, size_t n_inputs, int threads)
{
    kmf_err err = {0};
    kmf_counts_info info;
    kmf_pool *pool = NULL;
    kmf_counts_information(counts, &info);
    int leave = cli_listing_check(run, l, &info);
    if (leave >= 0)
        return leave;
    if (threads > 1) {
        pool = kmf_pool_new(threads, &err);
        if (!pool)
            return cli_fail(run, &err);
    }
    int status = cli_listing_save(run, l, counts, inputs, n_inputs, pool, &info, &err);
    kmf_pool_free(pool);
    if (status < 0)
        return cli_fail(run, &err);
    cli_note(run, "%zu table%s, %" PRIu64 " distinct of %" PRIu64 " k-mers", n_inputs,
             n_inputs == 1 ? "" : "s", info.distinct, info.kmers);
    return CLI_DONE;
}

/* ---------------------------------------------------------------- merge ----------------- */

static kmf_counts *merge(const cli *run, const char *const *paths, size_t n, kmf_err *err)
{
    cli_progress line;
    kmf_counts *sum = NULL;
    size_t loaded = 0;
    kmf_counts **tables = calloc(n, sizeof *tables);
    if (!tables) {
        cli_raise(err, KMF_ENOMEM, "out of memory");
        return NULL;
    }
    while (loaded < n && (tables[loaded] = kmf_counts_load(paths[loaded], err)))
        loaded++;
    if (loaded == n) {
        cli_progress_start(&line, run);
        kmf_counts_progress(tables[0], cli_progress_table, &line);
        sum = kmf_counts_merge((const kmf_counts *const *)tables, n, err);
        cli_progress_end();
    }
    for (size_t i = 0; i < loaded; i++)
        kmf_counts_free(tables[i]);
    free(tables);
    return sum;
}

int cli_vocab_merge(cli *run, int argc, char **argv)
{
    static const cli_usage usage = {
        "vocab merge [options] TABLE...",
        "Adds up tables of kmerformer vocab, tsv or binary, '-' for standard input: the bytes\n"
        "are those of the table that counting all their inputs at once would have given.",
        1, -1};
    kmf_err err = {0};
    cli_listing l = CLI_LISTING_DEFAULT;
    int threads = kmf_threads_default();
    const cli_option table[] = {CLI_LISTING_OPTIONS(&l), CLI_THREADS(&threads),
                                CLI_COMMON(run)};
    int leave = cli_parse(run, table, &usage, argc, argv);
    if (leave >= 0)
        return leave;
    const char *const *paths = run->inputs;
    size_t n = run->n_inputs;
    leave = cli_check_place(run, l.out, cli_listing_endings(&l), paths, n, NULL, NULL);
    if (leave >= 0)
        return leave;
    bool ready =
        cli_check_inputs(paths, n, NULL, &err) == 0 && cli_check_output(l.out, &err) == 0;
    if (ready)
        cli_warn_of_twice(run, paths, n, "counts as often");
    kmf_counts *sum = ready ? merge(run, paths, n, &err) : NULL;
    if (!sum)
        return cli_fail(run, &err);
    int code = write_table(run, &l, sum, paths, n, threads);
    kmf_counts_free(sum);
    return code;
}

/* ---------------------------------------------------------------- export ---------------- */

int cli_vocab_export(cli *run, int argc, char **argv)
{
    static const cli_usage usage = {
        "vocab export [options] TABLE",
        "Writes a table in another format, or a part of it: a model's vocab.txt of the most\n"
        "frequent k-mers, say.",
        1, 1};
    kmf_err err = {0};
    cli_listing l = CLI_LISTING_DEFAULT;
    int threads = kmf_threads_default();
    const cli_option table[] = {CLI_LISTING_OPTIONS(&l), CLI_SELECTION_OPTIONS(&l),
                                CLI_THREADS(&threads), CLI_COMMON(run)};
    int leave = cli_parse(run, table, &usage, argc, argv);
    if (leave >= 0)
        return leave;
    const char *const *paths = run->inputs;
    leave = cli_check_place(run, l.out, cli_listing_endings(&l), paths, 1, NULL, NULL);
    if (leave >= 0)
        return leave;
    kmf_counts *counts =
        cli_check_output(l.out, &err) == 0 ? kmf_counts_load(paths[0], &err) : NULL;
    if (!counts)
        return cli_fail(run, &err);
    int code = write_table(run, &l, counts, paths, 1, threads);
    kmf_counts_free(counts);
    return code;
}

/* ---------------------------------------------------------------- show ------------------ */

/* Is word a k-mer of such a table? -1, or an exit code after a message. */
static int check_word(cli *run, const kmf_counts_info *info, const char *word)
{
    uint64_t code;
    if (strlen(word) != (size_t)info->k)
        return cli_wrong(run, "'%s' has %zu letters, the k-mers of the table have %d", word,
                         strlen(word), info->k);
    if (kmf_alphabet_encode(info->alphabet, &code, word, info->k) != 0)
        return cli_wrong(run, "'%s': a letter is not one of %s", word,
                         kmf_alphabet_letters(info->alphabet));
    return -1;
}

static void print_counts(const kmf_counts *counts, const kmf_counts_info *info,
                         const char *const *words, size_t n)
{
    char text[KMF_K_MAX + 1];
    uint64_t code = 0;
    for (size_t i = 0; i < n; i++) {
        kmf_alphabet_encode(info->alphabet, &code, words[i], info->k);
        kmf_alphabet_decode(info->alphabet, text, code, info->k);
        printf("%s\t%" PRIu64 "\n", text, kmf_counts_get(counts, code));
    }
}

int cli_vocab_show(cli *run, int argc, char **argv)
{
    static const cli_usage usage = {
        "vocab show TABLE KMER...",
        "Prints k-mer<TAB>count for each KMER, 0 for one that was never seen. Either case, U\n"
        "is T; in a canonical table a k-mer and its reverse complement have the same count.",
        2, -1};
    kmf_err err = {0};
    kmf_counts_info info;
    const cli_option table[] = {CLI_COMMON(run)};
    int code = -1;
    int leave = cli_parse(run, table, &usage, argc, argv);
    if (leave >= 0)
        return leave;
    const char *const *words = run->inputs + 1;
    size_t n = run->n_inputs - 1;
    kmf_counts *counts = kmf_counts_load(run->inputs[0], &err);
    if (!counts)
        return cli_fail(run, &err);
    kmf_counts_information(counts, &info);
    for (size_t i = 0; i < n && code < 0; i++)
        code = check_word(run, &info, words[i]);
    if (code < 0) {
        code = CLI_DONE;
        print_counts(counts, &info, words, n);
        if (info.min_count > 1 || info.max_size > 0)
            cli_warn(run, "k-mers were left out of the table: a count of 0 may mean that");
    }
    kmf_counts_free(counts);
    return code;
}
