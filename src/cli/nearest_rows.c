/* SPDX-License-Identifier: MIT */
/* kmerformer nearest, of arrays: the references that are nearest to each row of the queries. */
#include "cli/cli.h"
#include "cli/nearest.h"

#include <inttypes.h>

typedef struct rows {
    cli *run;
    const cli_nearest_options *o;
    const char *references; /* borrowed, as the others */
    const char *const *queries;
    size_t n_queries;
    kmf_row_file_info info; /* of the references */
    kmf_row_search *search; /* owned, as what follows */
    cli_resumable resumable;
    cli_progress line;
    double pairs;      /* to be compared in all, and those */
    double before;     /* of the files that are done */
    uint64_t n_before; /* queries that an earlier run has answered */
} rows;

/* -1, or an exit code: the files are there, and all of them arrays. */
static int check_inputs(const rows *r, const char *const *paths, size_t n)
{
    kmf_err err = {0};
    if (r->o->k != 0)
        return cli_wrong(r->run, "-k: of k-mers; %s is an array", r->references);
    if (cli_check_inputs(paths, n, NULL, &err) < 0)
        return cli_fail(r->run, &err);
    for (size_t i = 1; i < n; i++)
        if (!cli_is_array(paths[i]))
            return cli_wrong(r->run,
                             "%s: it is no array in a plain file, and %s, in which the "
                             "neighbours are looked for, is one",
                             cli_input_name(paths[i]), r->references);
    return -1;
}

/* ---------------------------------------------------------------- answers --------------- */

static uint64_t n_answered(const rows *r)
{
    kmf_row_search_stats s;
    kmf_row_search_statistics(r->search, &s);
    return s.queries;
}

static int print_answer(void *user, uint64_t row, const char *name, const kmf_neighbour *list,
                        size_t n, kmf_err *err)
{
    rows *r = user;
    kmf_output *out = r->resumable.output;
    uint64_t query = n_answered(r);
    (void)row;
    int status = n > 0 ? 0 : kmf_output_print(out, query, err, "%s\tNA\tNA\tNA\n", name);
    for (size_t i = 0; i < n && status == 0; i++)
        status = kmf_output_print(out, query, err, "%s\t%zu\t%s\t%.6f\n", name, i + 1,
                                  kmf_row_search_name(r->search, list[i].row),
                                  (double)list[i].cosine);
    if (status == 0)
        cli_resumable_save(&r->resumable);
    return status;
}

static void show_pairs(void *user, uint64_t done)
{
    rows *r = user;
    char count[CLI_COUNT_TEXT];
    cli_resumable_save(&r->resumable);
    if (cli_progress_due(&r->line))
        cli_progress_show(&r->line, "%.0f %% of %s pairs of rows compared",
                          100 * (r->before + (double)done) / r->pairs,
                          cli_count(count, r->pairs));
}

/* ---------------------------------------------------------------- queries --------------- */

/* Of all files, before there is an output: the first line of a table is not taken back. */
static int check_queries(rows *r, const kmf_row_file *references, kmf_err *err)
{
    int status = kmf_row_file_check_records(references, err);
    for (size_t i = 0; i < r->n_queries && status == 0; i++) {
        const char *path = r->queries[i];
        kmf_row_file_info info;
        kmf_row_file *file = kmf_row_file_open(path, err);
        if (!file)
            return (int)err->code;
        kmf_row_file_information(file, &info);
        status = kmf_row_file_check_records(file, err);
        if (status == 0)
            status = kmf_row_file_check_alike(file, references, err);
        if (status == 0 && !cli_same_place(path, r->references))
            cli_warn_of_rows(r->run, path, &info);
        r->pairs += (double)info.n * (double)r->info.n;
        kmf_row_file_close(file);
    }
    return status;
}

static int ask(rows *r, const char *path, kmf_err *err)
{
    kmf_row_file_info info;
    kmf_row_file *file = kmf_row_file_open(path, err);
    if (!file)
        return (int)err->code;
    kmf_row_file_information(file, &info);
    int status = kmf_row_search_ask(r->search, file, cli_same_place(path, r->references),
                                    print_answer, r, show_pairs, r, err);
    r->before += (double)info.n * (double)r->info.n;
    kmf_row_file_close(file);
    return status;
}

static int ask_all(rows *r, kmf_err *err)
{
    static const kmf_row_format lines = {.header = "#query\trank\tname\tcosine\n",
                                         .name = "neighbours"};
    const kmf_output_form form = {.format = &lines};
    const kmf_run work = kmf_row_search_run(r->search);
    int status = cli_resumable_open(&r->resumable, &work, &form, err);
    if (status < 0)
        return status;
    r->n_before = n_answered(r);
    cli_progress_start(&r->line, r->run);
    for (size_t i = 0; i < r->n_queries && status == 0; i++)
        status = ask(r, r->queries[i], err);
    if (status == 0)
        status = kmf_row_search_finish(r->search, err);
    cli_progress_end();
    return status < 0 ? status : cli_resumable_finish(&r->resumable, NULL, err);
}

static void tell(const rows *r)
{
    char before[CLI_BEFORE_TEXT];
    kmf_row_search_stats s;
    kmf_row_search_statistics(r->search, &s);
    if (s.references_without > 0)
        cli_warn(r->run,
                 "%" PRIu64 " of the %" PRIu64 " references have no vector, or one of zeros: "
                 "they are nobody's neighbours",
                 s.references_without, r->info.n);
    if (s.queries_without > 0)
        cli_warn(r->run,
                 "%" PRIu64 " of the %" PRIu64
                 " queries have no vector, or one of zeros: NA in "
                 "place of neighbours",
                 s.queries_without, s.queries);
    cli_note(r->run, "%" PRIu64 " queries%s, %" PRIu64 " references, %zu columns, in %.2f s",
             s.queries, cli_told_before(before, r->n_before), r->info.n, r->info.dim,
             cli_now() - r->run->started);
}

int cli_nearest_rows(cli *run, const cli_nearest_options *o, const char *const *paths, size_t n)
{
    kmf_err err = {0};
    rows r = {
        .run = run, .o = o, .references = paths[0], .queries = paths + 1, .n_queries = n - 1};
    kmf_pool *pool = NULL;
    cli_resumable_init(&r.resumable, run, &o->keeping, o->out, paths, n, NULL);
    int code = check_inputs(&r, paths, n);
    if (code < 0)
        code = cli_resumable_refuse(&r.resumable, NULL, 0);
    if (code >= 0)
        return code;
    cli_resumable_start(&r.resumable);
    cli_warn_of_twice(run, r.queries, r.n_queries, "counts as often");
    kmf_row_file *references = kmf_row_file_open(paths[0], &err);
    int status = references ? 0 : (int)err.code;
    if (status == 0) {
        kmf_row_file_information(references, &r.info);
        cli_warn_of_rows(run, paths[0], &r.info);
        if (r.info.n == 0)
            cli_warn(run, "%s: it has no rows: nothing has neighbours", paths[0]);
        status = check_queries(&r, references, &err);
    }
    if (status == 0)
        status = kmf_helpers_new(&pool, o->threads, &err);
    if (status == 0) {
        r.search = kmf_row_search_new(references, o->n, pool, &err);
        status = r.search ? ask_all(&r, &err) : (int)err.code;
    }
    if (status == 0)
        tell(&r);
    kmf_row_search_free(r.search);
    kmf_row_file_close(references);
    kmf_pool_free(pool);
    code = status == 0 ? CLI_DONE : cli_fail(run, &err);
    cli_resumable_end(&r.resumable, status < 0);
    return code;
}
