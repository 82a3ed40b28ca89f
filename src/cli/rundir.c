/* SPDX-License-Identifier: MIT */
#include "cli/rundir.h"

#include "cli/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_CAP 1024
#define SECONDS_COLUMN 8
#define HEADER                                                                          \
    "step\tepoch\ttokens\tloss\tbits\tlr\tgrad_norm\ttokens_per_s\tseconds\tval_loss\t" \
    "val_bits\tmarkov_bits\tcopy_bits\tcontrast\thits\tval_contrast\tval_hits\n"

/* ---------------------------------------------------------------- the directory ---------- */

/* What a pretraining writes, here or, but for the first, in best. */
static const char *const our_names[] = {
    "provenance.json", "config.json",           "checkpoint",
    "metrics.tsv",     "model.safetensors",     "special_tokens_map.json",
    "tokenizer.json",  "tokenizer_config.json", "vocab.txt"};
#define N_NAMES (sizeof our_names / sizeof our_names[0])

/* The first of our names that is a file in a directory; NULL: there is none. */
static const char *name_taken(const char *dir)
{
    char path[CLI_PATH_CAP + 32];
    for (size_t i = 0; i < N_NAMES; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, our_names[i]);
        if (cli_is_file(path))
            return our_names[i];
    }
    return NULL;
}

/*
 * What no pretraining left must be neither overwritten nor, in best, removed. One has a lock, or
 * comes with a checkpoint.
 */
static int check_content(const cli_rundir *d, kmf_err *err)
{
    const char *const places[] = {d->dir, d->best};
    bool ours = cli_is_file(d->lock_path) || cli_is_checkpoint(d->checkpoint, "pretrain");
    for (size_t i = 0; i < sizeof places / sizeof places[0] && !ours; i++) {
        const char *name = name_taken(places[i]);
        if (name)
            return cli_raise(err, KMF_EIO,
                             "%s: %s is there, and no pretraining made it: choose another "
                             "directory",
                             places[i], name);
    }
    return 0;
}

/* No other pretraining writes here while the lock is held. */
static void remove_left_over(const char *dir)
{
    char path[2 * CLI_PATH_CAP];
    for (size_t i = 0; i < N_NAMES; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, our_names[i]);
        cli_remove_left_over(path);
    }
}

int cli_rundir_name(cli_rundir *dir, const char *path, kmf_err *err)
{
    *dir = (cli_rundir){.dir = path, .lock = -1, .journal = -1};
    if (strlen(path) + 24 > CLI_PATH_CAP)
        return cli_raise(err, KMF_EINVAL, "the name of the output is too long");
    snprintf(dir->best, sizeof dir->best, "%s/best", path);
    snprintf(dir->checkpoint, sizeof dir->checkpoint, "%s/checkpoint", path);
    snprintf(dir->metrics, sizeof dir->metrics, "%s/metrics.tsv", path);
    snprintf(dir->provenance, sizeof dir->provenance, "%s/provenance.json", path);
    snprintf(dir->lock_path, sizeof dir->lock_path, "%s/lock", path);
    return 0;
}

int cli_rundir_open(cli_rundir *dir, const char *path, kmf_err *err)
{
    if (cli_rundir_name(dir, path, err) < 0)
        return KMF_EINVAL;
    dir->made = mkdir(path, 0777) == 0;
    if (!dir->made && errno != EEXIST)
        return cli_raise(err, KMF_EIO, "%s: %s", path, strerror(errno));
    int status = check_content(dir, err);
    dir->had_lock = cli_is_file(dir->lock_path);
    if (status == 0)
        dir->lock = cli_lock(dir->lock_path, dir->dir, err);
    if (status == 0 && dir->lock < 0)
        status = err->code;
    if (status == 0) {
        remove_left_over(dir->dir);
        remove_left_over(dir->best);
    }
    return status;
}

int cli_rundir_check_kept(const cli_rundir *dir, const char *resume, kmf_err *err)
{
    char config[CLI_PATH_CAP + 16];
    snprintf(config, sizeof config, "%s/config.json", dir->dir);
    if (strcmp(resume, "auto") != 0 || cli_is_file(dir->checkpoint) || !cli_is_file(config))
        return 0;
    return cli_raise(
        err, KMF_EIO,
        "%s: a trained model is there, and no checkpoint to resume from (removed, or "
        "never written, as on a full disk): choose another directory, or --resume "
        "never to train anew, over it",
        dir->dir);
}

/* A lock that was taken for nothing goes, and a directory that was made for nothing. */
static void leave_unused(const cli_rundir *d)
{
    char config[CLI_PATH_CAP + 16];
    snprintf(config, sizeof config, "%s/config.json", d->dir);
    if (cli_is_file(d->checkpoint) || cli_is_file(d->metrics) || cli_is_file(config))
        return;
    if (d->lock >= 0)
        unlink(d->lock_path);
    if (d->made)
        rmdir(d->dir);
}

void cli_rundir_close(cli_rundir *dir)
{
    if (dir->journal >= 0)
        close(dir->journal);
    if (dir->dir && !dir->had_lock)
        leave_unused(dir);
    if (dir->lock >= 0)
        close(dir->lock);
    dir->journal = dir->lock = -1;
}

/* ---------------------------------------------------------------- metrics ---------------- */

/*
 * Of a training that this one does not go on with. The checkpoint goes first: were this run killed
 * before it has one of its own, the next would go on from there, without the metrics and the best
 * model that belong to it. What is left of the other model is none: it has no config.json.
 */
static void remove_other(const cli_rundir *d)
{
    char path[CLI_PATH_CAP + 32];
    unlink(d->checkpoint);
    snprintf(path, sizeof path, "%s/config.json", d->dir);
    unlink(path);
    for (size_t i = 1; i < N_NAMES; i++) {
        snprintf(path, sizeof path, "%s/%s", d->best, our_names[i]);
        unlink(path);
    }
    rmdir(d->best);
}

/* The metrics beside the checkpoint. */
static void metrics_beside(char path[CLI_PATH_CAP], const char *checkpoint)
{
    const char *slash = strrchr(checkpoint, '/');
    int n = slash ? (int)(slash - checkpoint) + 1 : 0;
    if (snprintf(path, CLI_PATH_CAP, "%.*smetrics.tsv", n, checkpoint) >= CLI_PATH_CAP)
        path[0] = '\0';
}

/* The column `seconds` of a line; 0: there is none. */
static double seconds_of(const char *line)
{
    for (int column = 0; column < SECONDS_COLUMN && line; column++) {
        line = strchr(line, '\t');
        line = line ? line + 1 : NULL;
    }
    return line ? strtod(line, NULL) : 0;
}

/* Is it a whole line, of a step up to this one? */
static bool is_until(const char *line, uint64_t step)
{
    char *end;
    unsigned long long at = strtoull(line, &end, 10);
    return end > line && *end == '\t' && strchr(line, '\n') && at <= step;
}

/*
 * The header, and the lines up to step of a file that has the same; *seconds: what the last of them
 * says. Freed by free; NULL: there is no memory.
 */
static char *lines_until(const char *path, uint64_t step, double *seconds)
{
    char line[LINE_CAP];
    size_t len;
    char *kept = NULL;
    FILE *to = open_memstream(&kept, &len);
    if (!to)
        return NULL;
    fputs(HEADER, to);
    FILE *f = fopen(path, "r");
    bool ours = f && fgets(line, sizeof line, f) && strcmp(line, HEADER) == 0;
    for (*seconds = 0; ours && fgets(line, sizeof line, f) && is_until(line, step);) {
        fputs(line, to);
        *seconds = seconds_of(line);
    }
    if (f)
        fclose(f);
    bool lost = ferror(to) != 0;
    if (fclose(to) == 0 && !lost)
        return kept;
    free(kept);
    return NULL;
}

int cli_metrics_open(cli_rundir *dir, uint64_t step, kmf_err *err)
{
    char source[CLI_PATH_CAP] = "";
    if (dir->from)
        metrics_beside(source, dir->from);
    if (!dir->from || !cli_same_place(dir->from, dir->checkpoint))
        remove_other(dir);
    char *text = lines_until(source, step, &dir->seconds);
    if (!text)
        return cli_raise(err, KMF_ENOMEM, "out of memory");
    int status = kmf_file_save(dir->metrics, text, strlen(text), err);
    free(text);
    if (status < 0)
        return status;
    dir->journal = open(dir->metrics, O_WRONLY | O_APPEND | O_CLOEXEC);
    return dir->journal >= 0 ? 0
                             : cli_raise(err, KMF_EIO, "%s: %s", dir->metrics, strerror(errno));
}

/* A NaN is not known. */
static size_t print_known(char *to, size_t cap, double x)
{
    return (size_t)(isnan(x) ? snprintf(to, cap, "\tNA") : snprintf(to, cap, "\t%.6g", x));
}

/* A line is written as a whole, or not at all: where the disk is full its first half goes. */
int cli_metrics_write(cli_rundir *dir, const kmf_pretrain_state *state,
                      const cli_metrics_line *line, kmf_err *err)
{
    double no = (double)NAN;
    bool val = state->validated != 0;
    const double columns[] = {line->loss,
                              line->bits,
                              state->rate,
                              state->norm,
                              line->tokens_per_second,
                              line->seconds,
                              val ? state->val_loss : no,
                              val ? state->val_bits : no,
                              val ? state->markov_bits[state->markov_best] : no,
                              val ? state->copy_bits : no,
                              line->contrast,
                              line->hits,
                              val ? state->val_contrast : no,
                              val ? state->val_hits : no};
    char text[LINE_CAP];
    struct stat before;
    size_t len = (size_t)snprintf(text, sizeof text, "%" PRIu64 "\t%.6g\t%" PRIu64, state->step,
                                  state->epochs, state->tokens);
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++)
        len += print_known(text + len, sizeof text - len, columns[i]);
    text[len++] = '\n';
    bool known = fstat(dir->journal, &before) == 0;
    errno = 0;
    ssize_t written = write(dir->journal, text, len);
    if (written == (ssize_t)len)
        return 0;
    int reason = errno ? errno : ENOSPC;
    if (known && written > 0 && ftruncate(dir->journal, before.st_size) != 0)
        reason = errno;
    return cli_raise(err, KMF_EIO, "%s: %s", dir->metrics, strerror(reason));
}
