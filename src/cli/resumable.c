/* SPDX-License-Identifier: MIT */
#include "cli/resumable.h"

#include "cli/lock.h"

#include <math.h>
#include <stdio.h>

#define USUAL_MINUTES 10

enum { RESUME_AUTO, RESUME_NEVER };
const char *const cli_resume_words[] = {"auto", "never", NULL};

/* Is there something from an earlier run? */
static bool has_checkpoint(const cli_resumable *k)
{
    return kmf_out_is_file(k->out) && cli_is_file(k->checkpoint);
}

static const char *to_go_on(const cli_resumable *k)
{
    return cli_to_go_on(cli_resume_words[k->resume]);
}

static void watch(const cli_resumable *k)
{
    cli_watch_kept(k->run, k->checkpoint, to_go_on(k));
}

static void unlock(cli_resumable *k)
{
    cli_unlock(k->lock, k->lock_path);
    k->lock = -1;
}

void cli_resumable_init(cli_resumable *k, cli *run, const cli_resumable_options *opts,
                        const char *out, const char *const *paths, size_t n_paths,
                        const kmf_reader_options *reader)
{
    *k = (cli_resumable){.run = run,
                         .opts = opts,
                         .out = out,
                         .paths = paths,
                         .n_paths = n_paths,
                         .reader = reader,
                         .minutes = opts->minutes < 0 ? USUAL_MINUTES : opts->minutes,
                         .resume = opts->resume < 0 ? RESUME_AUTO : opts->resume,
                         .lock = -1};
    snprintf(k->checkpoint, sizeof k->checkpoint, "%s.checkpoint", out);
    snprintf(k->lock_path, sizeof k->lock_path, "%s.lock", k->checkpoint);
}

static bool takes_one(const cli_resumable *k, const char *const *paths, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (paths[i] && (cli_same_output(k->checkpoint, paths[i]) ||
                         cli_same_output(k->lock_path, paths[i])))
            return true;
    return false;
}

int cli_resumable_refuse_options(const cli *run, const cli_resumable_options *opts,
                                 const char *why)
{
    if (opts->minutes <= 0 && opts->resume < 0)
        return -1;
    return cli_wrong(run, "%s: %s", opts->minutes > 0 ? "--checkpoint-every" : "--resume", why);
}

int cli_resumable_refuse(const cli_resumable *k, const char *const *others, size_t n)
{
    if (!kmf_out_is_file(k->out))
        return cli_resumable_refuse_options(k->run, k->opts,
                                            "what goes to standard output, a pipe or a device "
                                            "has no checkpoints; give -o FILE");
    if (k->opts->minutes > 0 && cli_ends_with(k->out, ".gz"))
        return cli_wrong(
            k->run, "--checkpoint-every: -o %s is compressed, and has no checkpoints", k->out);
    if (!(takes_one(k, k->paths, k->n_paths) || takes_one(k, others, n)))
        return -1;
    return cli_wrong(k->run, "-o %s: its checkpoint would be %s, which is an input", k->out,
                     k->checkpoint);
}

void cli_resumable_start(cli_resumable *k)
{
    if (has_checkpoint(k) && k->resume == RESUME_AUTO)
        cli_leave_on_signals(k->run, k->checkpoint, NULL, NULL);
}

/*
 * What to do about a file that cannot be gone on from. Nothing of somebody else's is removed, and
 * nothing is advised to be that was not read.
 */
static const char *to_begin_anew(const cli_resumable *k, kmf_code why)
{
    if (why != KMF_ENOMEM && kmf_output_is_checkpoint(k->out, k->checkpoint))
        return " (--resume never begins anew)";
    return why == KMF_EMODEL ? " (remove it, or choose another output)" : "";
}

static int discard(cli_resumable *k, kmf_err *err)
{
    kmf_err own = {0};
    if (kmf_output_discard(k->out, k->checkpoint, &own) == 0)
        return 0;
    return cli_raise(err, own.code, "%s%s", own.msg,
                     own.code == KMF_EMODEL ? to_begin_anew(k, own.code) : "");
}

static int resume(cli_resumable *k, const kmf_output_form *form, kmf_err *err)
{
    kmf_err own = {0};
    k->output = kmf_output_resume(k->out, form, &k->work, k->checkpoint, k->paths, k->n_paths,
                                  k->reader, &own);
    if (!k->output)
        return cli_raise(err, own.code, "%s%s", own.msg, to_begin_anew(k, own.code));
    k->kept = true;
    cli_remove_left_over(k->checkpoint);
    watch(k);
    cli_note(k->run, "resumes from %s, %llu rows done", k->checkpoint,
             (unsigned long long)kmf_output_rows(k->output));
    return 0;
}

/* The first one comes early: from then on a signal loses nothing. */
#define FIRST_MINUTES 1

static double first_minutes(const cli_resumable *k)
{
    return fmin(k->minutes, FIRST_MINUTES);
}

int cli_resumable_open(cli_resumable *k, const kmf_run *work, const kmf_output_form *form,
                       kmf_err *err)
{
    int status = 0;
    bool is_there = has_checkpoint(k);
    k->work = work ? *work : (kmf_run){0};
    if (k->opts->minutes > 0 && !k->work.mark)
        return cli_raise(err, KMF_EINVAL,
                         "--checkpoint-every is for encoders: what takes no longer than "
                         "reading has no checkpoints");
    k->saved = cli_now();
    if (is_there && (k->lock = cli_lock(k->lock_path, k->out, err)) < 0)
        return (int)err->code;
    if (is_there && k->resume == RESUME_NEVER) {
        if (discard(k, err) < 0)
            return (int)err->code;
        unlock(k);
        is_there = false;
    }
    if (is_there && !work)
        status = cli_raise(err, KMF_EMODEL, "%s: it is of another run%s", k->checkpoint,
                           to_begin_anew(k, KMF_EMODEL));
    else if (is_there)
        status = resume(k, form, err);
    else if (!(k->output = kmf_output_new(k->out, form, err)))
        status = (int)err->code;
    k->saves = status == 0 && kmf_output_saves(k->output, &k->work);
    if (k->saves && !k->kept && k->minutes > 0)
        cli_tell_of_checkpoints(k->run, first_minutes(k));
    return status;
}

static bool is_due(const cli_resumable *k)
{
    double minutes = k->kept ? k->minutes : first_minutes(k);
    return minutes > 0 && (cli_now() - k->saved) / 60 >= minutes;
}

void cli_resumable_save(cli_resumable *k)
{
    kmf_err err = {0};
    bool asked = k->kept && cli_asked_to_stop();
    if (!k->saves || !(asked || is_due(k)))
        return;
    cli_hold_signals(); /* one that comes now finds the first checkpoint there, or not */
    if (k->lock < 0)
        k->lock = cli_lock(k->lock_path, k->out, &err);
    int status = k->lock < 0 ? (int)err.code
                             : kmf_output_save(k->output, &k->work, k->checkpoint, k->paths,
                                               k->n_paths, k->reader, &err);
    if (!k->kept && status <= 0)
        unlock(k);
    if (status > 0 && !k->kept)
        watch(k);
    cli_release_signals(false);
    if (status < 0 && !k->warned)
        cli_warn(k->run, "a checkpoint could not be written, and the run goes on: %s", err.msg);
    k->warned = k->warned || status < 0;
    k->kept = k->kept || status > 0;
    k->saved = cli_now();
    if (asked) {
        cli_progress_end();
        unlock(k);
        cli_leave(k->run, k->checkpoint, to_go_on(k));
    }
}

const char *cli_told_before(char text[CLI_BEFORE_TEXT], uint64_t before)
{
    text[0] = '\0';
    if (before > 0)
        snprintf(text, CLI_BEFORE_TEXT, " (%llu of them before)", (unsigned long long)before);
    return text;
}

int cli_resumable_finish(cli_resumable *k, const char *provenance, kmf_err *err)
{
    kmf_err own = {0};
    bool file = kmf_out_is_file(k->out); /* what is none may wait for whoever reads it */
    if (file)
        cli_hold_signals();
    int status = kmf_output_commit(k->output, provenance, err);
    if (status == 0 && k->kept && kmf_output_discard(k->out, k->checkpoint, &own) < 0)
        cli_warn(k->run, "the checkpoint could not be removed: %s", own.msg);
    if (status == 0) { /* its temporary names go */
        kmf_output_free(k->output);
        k->output = NULL;
    }
    if (file)
        cli_release_signals(status == 0);
    return status;
}

void cli_resumable_end(cli_resumable *k, bool failed)
{
    if (failed && k->kept)
        cli_note(k->run, "what is done is kept: the same command%s resumes from %s",
                 to_go_on(k), k->checkpoint);
    kmf_output_free(k->output);
    unlock(k);
}
