/* SPDX-License-Identifier: MIT */
/*
 * An output that can outlive its process: what is done is kept now and then, and the same command
 * goes on from there.
 */
#ifndef KMF_RESUMABLE_H
#define KMF_RESUMABLE_H

#include "cli/cli.h"

typedef struct cli_resumable_options {
    double minutes; /* from one checkpoint to the next, or to an earlier first one; 0: none */
    int resume;     /* of cli_resume_words; of both, -1: not given */
} cli_resumable_options;

extern const char *const cli_resume_words[]; /* auto never */

#define CLI_RESUMABLE_DEFAULT       \
    {                               \
        .minutes = -1, .resume = -1 \
    }
/* which: of what runs, with a comma behind it, or "". */
#define CLI_RESUMABLE_OPTIONS(o, which)                                                   \
    {NULL,                                                                                \
     "checkpoint-every",                                                                  \
     CLI_REAL,                                                                            \
     &(o)->minutes,                                                                       \
     0,                                                                                   \
     0,                                                                                   \
     NULL,                                                                                \
     "MIN",                                                                               \
     which "-o FILE without .gz: minutes after which what is done is kept in "            \
           "FILE.checkpoint, for a run that is stopped or killed, at first after 1; 0: "  \
           "never",                                                                       \
     -1,                                                                                  \
     "10"},                                                                               \
    {                                                                                     \
        NULL, "resume", CLI_CHOICE, &(o)->resume, 0, 0, cli_resume_words, NULL,           \
            "auto: from FILE.checkpoint if it is there; never: it is removed", -1, "auto" \
    }

typedef struct cli_resumable {
    cli *run; /* borrowed, as what follows */
    const cli_resumable_options *opts;
    const char *out;
    const char *const *paths; /* [n_paths], the inputs */
    size_t n_paths;
    const kmf_reader_options *reader;
    double minutes; /* of opts, or as they are by default */
    int resume;

    kmf_run work;       /* whose rows the output's are */
    kmf_output *output; /* owned; NULL before cli_resumable_open */
    char checkpoint[CLI_PATH_CAP + 16];
    char lock_path[CLI_PATH_CAP + 32];
    int lock;     /* held from the first checkpoint on; -1: none */
    double saved; /* when one was written, or was not */
    bool saves;   /* there may be one */
    bool kept;    /* it is there */
    bool warned;  /* one could not be written */
} cli_resumable;

void cli_resumable_init(cli_resumable *k, cli *run, const cli_resumable_options *opts,
                        const char *out, const char *const *paths, size_t n_paths,
                        const kmf_reader_options *reader);
/*
 * -1, or the exit code if one of the options asks for something, in a run that has no checkpoints:
 * why says so.
 */
int cli_resumable_refuse_options(const cli *run, const cli_resumable_options *opts,
                                 const char *why);
/*
 * -1, or the exit code if an option was given that the output has no use for, or if a checkpoint
 * would take the place of an input, or of one of n others; NULL among these is none.
 */
int cli_resumable_refuse(const cli_resumable *k, const char *const *others, size_t n);
/*
 * Before the model is loaded. A signal that comes while there is nothing new leaves what an earlier
 * run has kept.
 */
void cli_resumable_start(cli_resumable *k);
/*
 * The output of a run: a new one, or what an earlier run has kept of it, on which that one goes on.
 * work: NULL: none whose rows could be kept. KMF_EINVAL if checkpoints were asked for, and the work
 * has none.
 */
int cli_resumable_open(cli_resumable *k, const kmf_run *work, const kmf_output_form *form,
                       kmf_err *err);
/*
 * To be called where kmf_output_save may be: keeps what is done, now and then, and ends the process
 * if a signal asked to.
 */
void cli_resumable_save(cli_resumable *k);
/* Of what a run has made, and what an earlier one of that: " (3 of them before)", or "". */
#define CLI_BEFORE_TEXT 64
const char *cli_told_before(char text[CLI_BEFORE_TEXT], uint64_t before);
/* Publishes the output. provenance: as kmf_output_commit. */
int cli_resumable_finish(cli_resumable *k, const char *provenance, kmf_err *err);
/* In any case, once no thread writes to the output; of a run that failed it tells what is kept. */
void cli_resumable_end(cli_resumable *k, bool failed);

#endif
