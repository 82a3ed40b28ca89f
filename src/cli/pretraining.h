/* SPDX-License-Identifier: MIT */
/* What the files of `kmerformer pretrain` share: its options, and a training under way. */
#ifndef KMF_PRETRAINING_H
#define KMF_PRETRAINING_H

#include "cli/rundir.h"

/* A list that was given with commas. */
typedef struct cli_name_list {
    char *text;         /* owned: the list, cut up */
    const char **names; /* owned [n] */
    size_t n;
} cli_name_list;

typedef struct cli_pretrain_args {
    kmf_pretrain_options opts;
    kmf_pretrain_options usual; /* the defaults */
    kmf_reader_options reader;
    const char *out;
    const char *time;        /* "3h" */
    const char *span;        /* "3" or "1-6" */
    const char *length;      /* "500" or "150-2000" */
    const char *held;        /* names, by commas */
    const char *held_inputs; /* files, by commas */
    const char *resume;      /* auto, never, or a file */
    int dtype;               /* of the models that are written */
    double minutes;          /* from one checkpoint to the next; 0: when stopped alone */
    size_t metrics_every;
    cli_name_list held_names, held_files;
    const char *const *inputs; /* [n_inputs] */
    size_t n_inputs;
} cli_pretrain_args;

/*
 * Defaults, then the command line: -1, or the exit code of what is wrong with it. inputs are
 * borrowed from argv. Free it in any case.
 */
int cli_pretrain_parse(cli *run, cli_pretrain_args *a, int argc, char **argv);
void cli_pretrain_args_free(cli_pretrain_args *a);

/*
 * Trains to the end, and writes checkpoints, models, metrics and what is told on the way. 0: to the
 * end; 1: stopped, and the checkpoint is written.
 */
int cli_pretrain_train(cli *run, const cli_pretrain_args *a, kmf_pretrain *trainer,
                       cli_rundir *dir, kmf_err *err);

#endif
