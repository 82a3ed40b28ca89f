/* SPDX-License-Identifier: MIT */
/* kmerformer merge: the shards of an embed run, back in input order. */
#include "cli/cli.h"

#include <sys/resource.h>

static const cli_usage usage = {
    "merge -o FILE SHARD...",
    "Joins the outputs of kmerformer embed --shard 0/N ... N-1/N, given in any order, into\n"
    "the files that the run without --shard would have written. The .ids.tsv and .json of\n"
    "every shard must stand beside it.",
    1, -1};

#define FILES_BESIDE 16 /* open beside those of the shards */

/* Every shard has two files open: take as many as the system would give. */
static int allow_open_files(size_t n, kmf_err *err)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max == RLIM_INFINITY || 2 * n + FILES_BESIDE <= limit.rlim_max)
        return 0;
    return cli_raise(err, KMF_EIO,
                     "%zu shards are %zu open files, and %llu are allowed here: ulimit -n %zu",
                     n, 2 * n, (unsigned long long)limit.rlim_max, 2 * n + FILES_BESIDE);
}

/* -1, or the exit code if a file of a shard, or a foreign one, would be written over. */
static int refuse_shards(cli *run, const char *out, const char *const *shards, size_t n)
{
    int leave = cli_refuse_inputs(run, out, cli_row_endings, shards, n);
    for (size_t i = 0; i < n; i++)
        for (const char *const *ending = cli_row_endings; *ending && leave < 0; ending++) {
            char *name = kmf_companion(shards[i], *ending, NULL);
            const char *const beside[] = {name};
            leave = cli_refuse_inputs(run, out, cli_row_endings, beside, 1);
            kmf_text_free(name);
        }
    return leave < 0 ? cli_check_companions(run, out, cli_row_endings) : leave;
}

static void show_progress(void *progress, uint64_t records, uint64_t all)
{
    if (cli_progress_due(progress))
        cli_progress_show(progress, "%llu of %llu records joined", (unsigned long long)records,
                          (unsigned long long)all);
}

static int merge(const cli *run, const char *const *shards, size_t n, const char *out,
                 int threads, kmf_err *err)
{
    cli_progress line;
    kmf_pool *pool;
    if (allow_open_files(n, err) < 0 || kmf_helpers_new(&pool, threads, err) < 0)
        return (int)err->code;
    cli_progress_start(&line, run);
    int status = kmf_merge(shards, n, out, run->command_line, pool, show_progress, &line, err);
    cli_progress_end();
    kmf_pool_free(pool);
    return status;
}

int cli_merge(cli *run, int argc, char **argv)
{
    kmf_err err = {0};
    const char *out = NULL;
    int threads = kmf_threads_default();
    const cli_option table[] = {{"o", "output", CLI_TEXT, &out, 0, 0, NULL, "FILE",
                                 "of the same kind as the shards; needed", 0, NULL},
                                CLI_THREADS(&threads),
                                CLI_COMMON(run)};
    int leave = cli_parse(run, table, &usage, argc, argv);
    if (leave >= 0)
        return leave;
    if (!out)
        return cli_wrong(run, "-o FILE is needed");
    const char *const *shards = run->inputs;
    size_t n = run->n_inputs;
    leave = refuse_shards(run, out, shards, n);
    if (leave >= 0)
        return leave;
    if (cli_check_inputs(shards, n, NULL, &err) < 0 ||
        merge(run, shards, n, out, threads, &err) < 0)
        return cli_fail(run, &err);
    cli_note(run, "%zu shards joined in %s", n, out);
    return CLI_DONE;
}
