/* SPDX-License-Identifier: MIT */
/* kmerformer pretrain: genomes in, an encoder out. */
#include "cli/pretraining.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static void say_begin(cli *run, const cli_pretrain_args *a, const kmf_pretrain_state *s)
{
    cli_warn_of_left_out(run, s);
    cli_warn_of_overlap(run, s);
    if (s->short_ones > 0)
        cli_warn(run,
                 "%llu of %llu runs of bases are shorter than a window of %zu bases; each "
                 "is a window of its own",
                 (unsigned long long)s->short_ones, (unsigned long long)s->segments,
                 s->window_bases);
    if (s->new_head)
        cli_warn(run, "%s has no masked-language-model head: a new one was drawn",
                 a->opts.init);
    if (s->undropped)
        cli_warn(run, "--dropout changes nothing: a composition alone learns, of which nothing "
                      "is dropped");
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
                 "validation: %llu masked bases in %llu windows; copying takes %.4f bits a "
                 "base, a Markov model of order %d, the best of 1 to 12, %.4f",
                 (unsigned long long)s->val_hidden, (unsigned long long)s->held_windows,
                 s->copy_bits, s->markov_best, s->markov_bits[s->markov_best]);
    if (s->held_windows > 0)
        cli_note(run, "validation every %llu steps, in %llu windows%s",
                 (unsigned long long)s->val_every, (unsigned long long)s->held_windows,
                 a->time && a->opts.val_share > 0
                     ? ", for a tenth of the time (--val-every, --val-windows)"
                     : "");
}

#define FEW_STEPS 50

/* Takes in the checkpoint, if there is one and it is wanted. */
static int resume(cli *run, const cli_pretrain_args *a, kmf_pretrain *trainer, cli_rundir *dir,
                  kmf_err *err)
{
    kmf_pretrain_state s;
    const char *path = cli_kept(a->resume, dir->checkpoint);
    if (!path && strcmp(a->resume, "auto") == 0 && cli_is_folder(dir->best))
        cli_warn(run,
                 "%s is of a training without a checkpoint: this one begins anew, and "
                 "takes its place",
                 dir->best);
    if (!path)
        return 0;
    kmf_err own = {0};
    if (kmf_pretrain_load(trainer, path, &own) < 0 && path == dir->checkpoint)
        return cli_raise(
            err, own.code,
            "%s (--resume never begins anew; --init %s -o OTHER learns on from its "
            "weights)",
            own.msg, a->out);
    if (own.code)
        return cli_raise(err, own.code, "%s", own.msg);
    kmf_pretrain_information(trainer, &s);
    if (s.other_kernels)
        cli_warn_of_kernels(run);
    cli_note(run, "resumes from %s, step %llu of %llu", path, (unsigned long long)s.step,
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

/* Of pairs one file would be two sources. */
static int refuse_twice(cli *run, const cli_pretrain_args *a, const char *const *paths,
                        size_t n)
{
    const char *twice = cli_given_twice(paths, n);
    if (!twice || a->opts.objective == KMF_OBJECTIVE_MASKED)
        return -1;
    return cli_wrong(run, "%s is given twice: it would be two sources to be told apart", twice);
}

static int check_names(cli *run, const cli_pretrain_args *a)
{
    kmf_err err = {0};
    cli_rundir dir;
    if (cli_rundir_name(&dir, a->out, &err) < 0)
        return cli_fail(run, &err);
    if (cli_is_an_input(a->out, a->inputs, a->n_inputs))
        return cli_wrong(run, "-o %s: that is an input", a->out);
    if (a->opts.init && cli_same_place(a->out, a->opts.init))
        return cli_wrong(
            run, "-o %s: that is the model to go on with; choose another directory", a->out);
    if (a->opts.init && cli_same_place(dir.best, a->opts.init))
        return cli_wrong(run,
                         "-o %s: the model to go on with is the best one there; choose another "
                         "directory",
                         a->out);
    for (size_t i = 0; i < a->held_files.n; i++)
        if (cli_given_as_well(a->held_files.names[i], a->inputs, a->n_inputs))
            return cli_wrong(run,
                             "--val-genome %s: that is an input, too: it would be learnt from",
                             a->held_files.names[i]);
    int leave = refuse_twice(run, a, a->inputs, a->n_inputs);
    return leave < 0 ? refuse_twice(run, a, a->held_files.names, a->held_files.n) : leave;
}

/* Of several ranks the first alone speaks and writes. */
static int enter(cli *run, const cli_pretrain_args *a, cli_rundir *dir, kmf_err *err)
{
    if (kmf_rank() == 0)
        return cli_rundir_open(dir, a->out, err) < 0 ||
                       cli_rundir_check_kept(dir, a->resume, err) < 0 ||
                       cli_check_kept(a->resume, dir->checkpoint, err) < 0
                   ? (int)err->code
                   : 0;
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
static int pretrain(cli *run, const cli_pretrain_args *a)
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
    cli_warn_of_twice(run, paths, n, "counts as often");
    cli_warn_of_twice(run, a->held_files.names, a->held_files.n, "counts as often");
    kmf_pretrain_options opts = a->opts;
    opts.resumes = cli_kept(a->resume, dir.checkpoint) != NULL;
    trainer = kmf_pretrain_new(&opts, &err);
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
    if (s.step == s.steps && !s.val_due)
        cli_note(run, "it was at its end already");
    else if (a->opts.seconds > 0 && s.step < s.steps && s.steps < FEW_STEPS)
        cli_warn(
            run,
            "%llu steps are all that --time %s allows, beside %llu windows of validation at a "
            "time: too few to learn much (--val-windows, --val-every, --batch, --preset)",
            (unsigned long long)s.steps, a->time, (unsigned long long)s.held_windows);
    stopped = cli_pretrain_train(run, a, trainer, &dir, &err);
out:
    kmf_pretrain_free(trainer);
    cli_rundir_close(&dir);
    if (err.code != KMF_OK)
        return tell(run, &err);
    if (stopped == 1 && s.steps == 0)
        cli_note(run, "stopped by a signal before there was anything to keep");
    else if (stopped == 1)
        cli_note(run, "stopped by a signal; the same command%s resumes from %s",
                 cli_to_go_on(a->resume), dir.checkpoint);
    if (stopped == 1)
        return CLI_STOPPED;
    return CLI_DONE;
}

int cli_pretrain(cli *run, int argc, char **argv)
{
    cli_pretrain_args a;
    cli_leave_on_signals(run, NULL, NULL, NULL);
    int code = cli_pretrain_parse(run, &a, argc, argv);
    if (code < 0)
        code = check_names(run, &a);
    if (code < 0) {
        code = pretrain(run, &a);
        kmf_ranks_end();
    }
    cli_pretrain_args_free(&a);
    return code;
}
