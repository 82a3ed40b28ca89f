/* SPDX-License-Identifier: MIT */
/* Genomes on their way into a pretraining. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct intake {
    kmf_pretrain *trainer;
    cli_progress line;
    int held_whole;
} intake;

static void show_counting(void *user, uint64_t letters)
{
    cli_progress_letters(user, "counting for the Markov models", letters);
}

static int take(void *to, kmf_reader *reader, kmf_err *err)
{
    intake *in = to;
    return kmf_pretrain_read(in->trainer, reader, in->held_whole, cli_progress_reading,
                             &in->line, err);
}

static int read_files(cli *run, const kmf_reader_options *opts, intake *in,
                      const char *const *paths, size_t n, kmf_err *err)
{
    int status = 0;
    for (size_t i = 0; i < n && status == 0 && !cli_asked_to_stop(); i++)
        status = cli_read_file(run, paths[i], opts, kmf_pretrain_pool(in->trainer), NULL, take,
                               in, err);
    return status;
}

void cli_warn_of_left_out(const cli *run, const kmf_pretrain_state *s)
{
    if (s->ambiguous > 0)
        cli_warn(run, "%llu letters are not A, C, G, T or U: sequences are cut there",
                 (unsigned long long)s->ambiguous);
    if (s->too_short > 0)
        cli_warn(run, "%llu bases lie in runs too short to learn from, and are left out",
                 (unsigned long long)s->too_short);
}

void cli_warn_of_overlap(const cli *run, const kmf_pretrain_state *s)
{
    if (s->held_shared > 0)
        cli_warn(
            run,
            "%llu records overlap others, by their names, so that bases to validate on are "
            "learnt from there: validation tells little",
            (unsigned long long)s->held_shared);
}

int cli_check_genomes(const kmf_reader_options *opts, const char *const *learn, size_t n_learn,
                      const char *const *held, size_t n_held, kmf_err *err)
{
    const char **all = calloc(n_learn + n_held + 1, sizeof *all);
    if (!all)
        return cli_raise(err, KMF_ENOMEM, "out of memory");
    memcpy(all, learn, n_learn * sizeof *all);
    if (n_held > 0)
        memcpy(all + n_learn, held, n_held * sizeof *all);
    int status = cli_check_inputs(all, n_learn + n_held, opts, err);
    free(all);
    return status;
}

int cli_read_genomes(cli *run, kmf_pretrain *trainer, const kmf_reader_options *opts,
                     const char *const *learn, size_t n_learn, const char *const *held,
                     size_t n_held, kmf_err *err)
{
    intake in = {.trainer = trainer};
    cli_progress_start(&in.line, run);
    int status = read_files(run, opts, &in, learn, n_learn, err);
    in.held_whole = 1;
    if (status == 0)
        status = read_files(run, opts, &in, held, n_held, err);
    bool go_on = status == 0 && !kmf_ranks_any(cli_asked_to_stop());
    if (go_on)
        status = kmf_pretrain_begin(trainer, show_counting, &in.line, err);
    cli_progress_end();
    return status == 0 ? !go_on : status;
}
