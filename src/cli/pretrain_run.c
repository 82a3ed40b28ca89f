/* SPDX-License-Identifier: MIT */
/* A pretraining under way: what it writes into its directory, and what it tells. */
#include "cli/pretraining.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of what is known of some steps. */
typedef struct mean {
    double sum;
    uint64_t n;
} mean;

static void mean_add(mean *m, double x)
{
    if (isnan(x))
        return;
    m->sum += x;
    m->n++;
}

/* NaN: of nothing. It begins anew. */
static double mean_take(mean *m)
{
    double x = m->n > 0 ? m->sum / (double)m->n : (double)NAN;
    *m = (mean){0};
    return x;
}

typedef struct training {
    cli *run;
    const cli_pretrain_args *args;
    kmf_pretrain *trainer;
    cli_rundir *dir;
    bool writes; /* rank 0 */
    cli_progress line;
    double started, saved;
    double writing; /* seconds spent in checkpoints and models */
    uint64_t first_step, first_tokens;
    double first_validating;
    /* since the last line of metrics, or up to it */
    double line_learning;
    mean loss, bits, contrast, hits;
    uint64_t line_tokens;
    bool line_lost;    /* the disk was full */
    kmf_err best_lost; /* why the best model so far is not in best; KMF_OK: it is */
} training;

/* Seconds spent in steps, without validations and writing. */
static double learning_time(const training *t, const kmf_pretrain_state *s)
{
    return cli_now() - t->started - (s->val_seconds - t->first_validating) - t->writing;
}

/*
 * What the weights follow from but for the names of files, and what they are worth: a JSON object
 * for config.json, with that of the model gone on with in its list "before".
 */
static char *provenance(const training *t, const kmf_pretrain_state *s, kmf_err *err)
{
    const kmf_pretrain_options *o = &t->args->opts;
    cli_pairs p = {0};
    cli_pair(&p, "program", "kmerformer %s", kmf_version());
    cli_pair(&p, "method", "%s pretraining", kmf_objective_names[o->objective]);
    cli_pair(&p, "bases", "%llu", (unsigned long long)s->bases);
    cli_pair(&p, "held_out_bases", "%llu", (unsigned long long)s->held_bases);
    cli_pair(&p, "steps", "%llu of %llu", (unsigned long long)s->step,
             (unsigned long long)s->steps);
    cli_pair(&p, "tokens", "%llu", (unsigned long long)s->tokens);
    cli_pair(&p, "epochs", "%.4g", s->epochs);
    cli_pair(&p, "batch", "%zu", o->batch);
    cli_pair(&p, "lr", "%g", o->rate);
    cli_pair(&p, "precision", "%s", kmf_precision_names[s->precision]);
    if (o->objective != KMF_OBJECTIVE_CONTRASTIVE) {
        cli_pair(&p, "mask_rate", "%g", o->mask_rate);
        cli_pair(&p, "mask_span", "%zu-%zu", o->span_min, o->span_max);
    }
    if (o->objective != KMF_OBJECTIVE_MASKED) {
        cli_pair(&p, "sources", "%llu, by %s", (unsigned long long)s->sources,
                 kmf_sources_names[o->sources]);
        cli_pair(&p, "length", "%zu-%zu", o->length_min ? o->length_min : s->window_bases,
                 o->length_max ? o->length_max : s->window_bases);
        cli_pair(&p, "positives", "%s", o->all_positives ? "source" : "pair");
        cli_pair(&p, "near", "%g within %zu", o->near, o->distance);
        cli_pair(&p, "mutations", "%g", o->mutations);
        if (o->drift > 0)
            cli_pair(&p, "drift", "%g of the pairs, to %g", o->drift, o->drift_rate);
        cli_pair(&p, "temperature", "%g", o->temperature);
        cli_pair(&p, "hardness", "%g", o->hardness);
        cli_pair(&p, "mix", "%g", o->mix);
        cli_pair(&p, "contrast", "%.6g, weight %g", s->contrast, o->contrast);
    }
    cli_pair(&p, "seed", "%llu", (unsigned long long)o->seed);
    if (!isnan(s->loss))
        cli_pair(&p, "loss", "%.6g", s->loss);
    if (!isnan(s->val_contrast))
        cli_pair(&p, "val_contrast", "%.6g, %.4g of the %s found", s->val_contrast, s->val_hits,
                 o->all_positives ? "sources" : "pairs");
    if (!isnan(s->val_bits)) {
        cli_pair(&p, "val_bits", "%.6g", s->val_bits);
        cli_pair(&p, "markov_bits", "%.6g (order %d)", s->markov_bits[s->markov_best],
                 s->markov_best);
    }
    const char *origin = kmf_pretrain_origin(t->trainer);
    char *text = cli_pairs_text(&p, err);
    if (!text || !origin[0])
        return text;
    char *whole = kmf_json_before(text, origin, err);
    kmf_text_free(text);
    return whole;
}

/* The command and the names in it, beside the model. */
static int save_names(const training *t, kmf_err *err)
{
    const cli_pretrain_args *a = t->args;
    cli_pairs p = {0};
    cli_pair(&p, "program", "kmerformer");
    cli_pair(&p, "version", "%s", kmf_version());
    cli_pair(&p, "command", "%s", t->run->command_line);
    cli_pair_lines(&p, "inputs", a->inputs, a->n_inputs);
    if (a->held_files.n > 0)
        cli_pair_lines(&p, "held_out_inputs", a->held_files.names, a->held_files.n);
    if (a->opts.init)
        cli_pair(&p, "init", "%s", a->opts.init);
    if (a->opts.embeddings)
        cli_pair(&p, "embeddings", "%s", a->opts.embeddings);
    char *text = cli_pairs_text(&p, err);
    int status = text ? kmf_file_save(t->dir->provenance, text, strlen(text), err) : KMF_ENOMEM;
    kmf_text_free(text);
    return status;
}

static int save_model(const training *t, const kmf_pretrain_state *s, const char *dir,
                      kmf_err *err)
{
    char *text = provenance(t, s, err);
    int status = text
                     ? kmf_pretrain_model(t->trainer, dir, (kmf_dtype)t->args->dtype, text, err)
                     : KMF_ENOMEM;
    kmf_text_free(text);
    return status;
}

/* Checkpoint and model, which takes a third of the room: where the one fails, the other may not. */
static int save(const training *t, const kmf_pretrain_state *s, kmf_err *err)
{
    kmf_err own = {0};
    cli_hold_signals();
    int status = kmf_pretrain_save(t->trainer, t->dir->checkpoint, &own);
    int model = save_model(t, s, t->dir->dir, status == 0 ? err : NULL);
    cli_release_signals(false);
    if (status == 0)
        return model;
    return cli_raise(err, own.code, "%s%s", own.msg,
                     model == 0 ? "; the model is written" : "");
}

/* In the midst of a run a full disk is a warning: the last checkpoint is still there. */
static void save_or_warn(training *t, const kmf_pretrain_state *s, const char *what,
                         int (*fn)(const training *, const kmf_pretrain_state *, kmf_err *),
                         kmf_err *reason)
{
    double begun = cli_now();
    *reason = (kmf_err){0};
    if (fn(t, s, reason) < 0)
        cli_warn(t->run, "%s could not be written, and the training goes on: %s", what,
                 reason->msg);
    t->writing += cli_now() - begun;
}

static int save_best(const training *t, const kmf_pretrain_state *s, kmf_err *err)
{
    cli_hold_signals();
    int status = save_model(t, s, t->dir->best, err);
    cli_release_signals(false);
    return status;
}

/* ", loss 5.4, 1.9 bits, validation 1.9 (markov-9 2.0), contrast 3.2, validation 3.3" */
static void tell_losses(char *to, size_t cap, const kmf_pretrain_state *s)
{
    size_t n = 0;
#define TELL(known, ...)                                         \
    do {                                                         \
        if (!isnan(known) && n < cap)                            \
            n += (size_t)snprintf(to + n, cap - n, __VA_ARGS__); \
    } while (0)
    TELL(s->loss, ", loss %.4f, %.4f bits", s->loss, s->bits);
    TELL(s->val_bits, ", validation %.4f (markov-%d %.4f)", s->val_bits, s->markov_best,
         s->markov_bits[s->markov_best]);
    TELL(s->contrast, ", contrast %.4f, %.1f %% hits", s->contrast, 100 * s->hits);
    TELL(s->val_contrast, ", validation %.4f, %.1f %%", s->val_contrast, 100 * s->val_hits);
#undef TELL
}

static void show_progress(training *t, const kmf_pretrain_state *s)
{
    char rate[CLI_COUNT_TEXT];
    char rest[CLI_COUNT_TEXT];
    char losses[192] = "";
    double seconds = cli_now() - t->started;
    double left = seconds * (double)(s->steps - s->step) / (double)(s->step - t->first_step);
    if (s->step == t->first_step || !cli_progress_due(&t->line))
        return;
    tell_losses(losses, sizeof losses, s);
    cli_progress_show(
        &t->line, "step %llu of %llu, epoch %.2f%s, %s tokens/s, %s left",
        (unsigned long long)s->step, (unsigned long long)s->steps, s->epochs, losses,
        cli_count(rate, (double)(s->tokens - t->first_tokens) / learning_time(t, s)),
        cli_time(rest, left));
}

static void note_metrics(training *t, const kmf_pretrain_state *s)
{
    kmf_err own = {0};
    double learning = learning_time(t, s);
    mean_add(&t->loss, s->loss);
    mean_add(&t->bits, s->bits);
    mean_add(&t->contrast, s->contrast);
    mean_add(&t->hits, s->hits);
    if (s->step % t->args->metrics_every != 0 && !s->validated && s->step != s->steps)
        return;
    cli_metrics_line line = {.loss = mean_take(&t->loss),
                             .bits = mean_take(&t->bits),
                             .contrast = mean_take(&t->contrast),
                             .hits = mean_take(&t->hits),
                             .tokens_per_second = (double)(s->tokens - t->line_tokens) /
                                                  (learning - t->line_learning),
                             .seconds = t->dir->seconds + (cli_now() - t->run->started)};
    if (s->tokens == t->line_tokens) /* a validation alone, made up for */
        line.tokens_per_second = (double)NAN;
    bool lost = cli_metrics_write(t->dir, s, &line, &own) < 0;
    if (lost && !t->line_lost)
        cli_warn(t->run, "lines are missing from the metrics: %s", own.msg);
    t->line_lost = lost;
    t->line_learning = learning;
    t->line_tokens = s->tokens;
}

/* A kmf_pretrain_stop_fn. */
static int is_stopping(void *user)
{
    (void)user;
    return kmf_ranks_any(cli_asked_to_stop());
}

/* A kmf_pretrain_fn. */
static int after_step(void *user, const kmf_pretrain_state *s, kmf_err *err)
{
    training *t = user;
    double minutes = (cli_now() - t->saved) / 60;
    (void)err;
    if (t->writes) {
        note_metrics(t, s);
        if (s->validated && s->best_step == s->step)
            save_or_warn(t, s, "the best model", save_best, &t->best_lost);
        if (t->args->minutes > 0 && minutes >= t->args->minutes && s->step < s->steps) {
            kmf_err own;
            save_or_warn(t, s, "a checkpoint", save, &own);
            t->saved = cli_now();
        }
    }
    show_progress(t, s);
    return is_stopping(NULL);
}

/* seconds: of steps. */
static void say_end(const training *t, const kmf_pretrain_state *s, double seconds)
{
    char tokens[CLI_COUNT_TEXT];
    char rate[CLI_COUNT_TEXT];
    char validations[48] = "";
    double validating = s->val_seconds - t->first_validating;
    if (validating > 0)
        snprintf(validations, sizeof validations, "; validations %.1f s", validating);
    if (s->step > t->first_step)
        cli_note(t->run, "%s tokens in %.1f s: %s tokens/s%s; peak memory %.0f MB",
                 cli_count(tokens, (double)(s->tokens - t->first_tokens)), seconds,
                 cli_count(rate, (double)(s->tokens - t->first_tokens) / seconds), validations,
                 1e-6 * cli_peak_memory());
    if (!isnan(s->val_bits))
        cli_note(t->run,
                 "validation: %.4f bits a masked base; Markov model of order %d %.4f, copying "
                 "%.4f",
                 s->val_bits, s->markov_best, s->markov_bits[s->markov_best], s->copy_bits);
    if (!isnan(s->val_contrast))
        cli_note(t->run,
                 "validation: contrastive loss %.4f; of %llu windows %.1f %% are most like %s",
                 s->val_contrast, 2 * (unsigned long long)s->held_windows, 100 * s->val_hits,
                 t->args->opts.all_positives ? "one of their source" : "their pair");
    if (!isnan(s->best))
        cli_note(t->run, "the best was %.4f, of step %llu", s->best,
                 (unsigned long long)s->best_step);
}

/* The step of the model in a folder, as its provenance tells; 0: it cannot be read. */
static uint64_t step_of(const char *folder)
{
    static const char key[] = "\"steps\":\"";
    char *text = cli_is_folder(folder) ? kmf_model_read_provenance(folder, NULL) : NULL;
    const char *at = text ? strstr(text, key) : NULL;
    uint64_t step = at ? strtoull(at + strlen(key), NULL, 10) : 0;
    kmf_text_free(text);
    return step;
}

int cli_pretrain_train(cli *run, const cli_pretrain_args *a, kmf_pretrain *trainer,
                       cli_rundir *dir, kmf_err *err)
{
    kmf_pretrain_state s;
    kmf_pretrain_information(trainer, &s);
    training t = {.run = run, .args = a, .trainer = trainer, .dir = dir};
    t.writes = s.rank == 0;
    t.started = t.saved = cli_now();
    t.first_step = s.step;
    t.first_tokens = t.line_tokens = s.tokens;
    t.first_validating = s.val_seconds;
    if (t.writes && (cli_metrics_open(dir, s.step, err) < 0 || save_names(&t, err) < 0))
        return (int)err->code;
    if (t.writes && dir->from && !isnan(s.best) && cli_same_place(dir->from, dir->checkpoint) &&
        step_of(dir->best) < s.best_step)
        (void)cli_raise(&t.best_lost, KMF_EIO, "%s: was not written, or is gone", dir->best);
    cli_progress_start(&t.line, run);
    kmf_pretrain_on_validation(trainer, is_stopping, NULL);
    cli_tell_of_stopping(run, "the run stops after this step, or within a validation");
    int status = kmf_pretrain_train(trainer, after_step, &t, err);
    cli_progress_end();
    if (status < 0)
        return status;
    kmf_pretrain_information(trainer, &s);
    double seconds = learning_time(&t, &s);
    if (t.writes && save(&t, &s, err) < 0)
        return (int)err->code;
    if (s.step > t.first_step || s.validated)
        say_end(&t, &s, seconds);
    /* a signal that came in the last step has stopped nothing */
    if (s.step == s.steps && !s.val_due)
        status = 0;
    if (status == 0 && t.best_lost.code != KMF_OK) /* it does not come again */
        return cli_raise(err, t.best_lost.code,
                         "%s; the best model, of step %llu, is lost, the last one is written",
                         t.best_lost.msg, (unsigned long long)s.best_step);
    return status;
}
