/* SPDX-License-Identifier: MIT */
/*
 * The directory of a pretraining:
 *
 *   DIR/config.json, vocab.txt, ..   the model as of the last checkpoint
 *   DIR/best/                        the one that was best in validation
 *   DIR/checkpoint                   all that is needed to go on
 *   DIR/metrics.tsv                  a line for every so many steps
 *   DIR/provenance.json              the last command, its inputs
 *   DIR/lock                         held by the process that is at work there
 */
#ifndef KMF_RUNDIR_H
#define KMF_RUNDIR_H

#include "cli/cli.h"

typedef struct cli_rundir {
    const char *dir; /* borrowed */
    char best[CLI_PATH_CAP], checkpoint[CLI_PATH_CAP], metrics[CLI_PATH_CAP];
    char provenance[CLI_PATH_CAP], lock_path[CLI_PATH_CAP];
    int lock;         /* descriptor; -1: none */
    int journal;      /* descriptor of the metrics, while they are written; else -1 */
    bool made;        /* the directory was not there before */
    bool had_lock;    /* as a pretraining leaves it */
    const char *from; /* borrowed; the checkpoint that it goes on from; NULL: it begins */
    double seconds;   /* what the metrics had come to by then */
} cli_rundir;

/* Only writes down the names in it: for those who read there. */
int cli_rundir_name(cli_rundir *dir, const char *path, kmf_err *err);
/*
 * Makes the directory if it is not there, and locks it: KMF_EIO if another process is at work in
 * it, or if it holds something else than a pretraining.
 */
int cli_rundir_open(cli_rundir *dir, const char *path, kmf_err *err);
void cli_rundir_close(cli_rundir *dir);
/*
 * KMF_EIO if a model is there whose checkpoint is not, which a training would take the place of
 * without having been told so (resume: of --resume).
 */
int cli_rundir_check_kept(const cli_rundir *dir, const char *resume, kmf_err *err);

/*
 * Opens the metrics, with the lines up to `step` of those beside the checkpoint that it goes on
 * from: later ones are of a run that was broken off. Checkpoint and models of another go.
 */
int cli_metrics_open(cli_rundir *dir, uint64_t step, kmf_err *err);
/* What happened between two lines. */
typedef struct cli_metrics_line {
    double loss, bits; /* means of the steps since the last line; NaN: there was none */
    double contrast, hits;
    double tokens_per_second; /* of these steps alone */
    double seconds;           /* since the training began, in all runs */
} cli_metrics_line;
int cli_metrics_write(cli_rundir *dir, const kmf_pretrain_state *state,
                      const cli_metrics_line *line, kmf_err *err);

#endif
