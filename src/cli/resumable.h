/* SPDX-License-Identifier: MIT */
/*
 * An output of an embedder that can outlive its process: what is done is kept now and then, and the
 * same command goes on from there.
 */
#ifndef KMF_RESUMABLE_H
#define KMF_RESUMABLE_H

#include "cli/cli.h"

typedef struct cli_resumable_options {
    double minutes; /* from one checkpoint to the next, or to an earlier first one; 0: none */
    int resume;     /* of cli_resume_words */
} cli_resumable_options;

extern const char *const cli_resume_words[]; /* auto never */

#define CLI_CHECKPOINT_MINUTES 10
#define CLI_RESUMABLE_OPTIONS(o)                                                       \
    {NULL,                                                                             \
     "checkpoint-every",                                                               \
     CLI_REAL,                                                                         \
     &(o)->minutes,                                                                    \
     0,                                                                                \
     0,                                                                                \
     NULL,                                                                             \
     "MIN",                                                                            \
     "an encoder, -o FILE without .gz: minutes after which what is done is kept in "   \
     "FILE.checkpoint, for a run that is stopped or killed, at first after 1; 0: "     \
     "never",                                                                          \
     0,                                                                                \
     NULL},                                                                            \
    {                                                                                  \
        NULL, "resume", CLI_CHOICE, &(o)->resume, 0, 0, cli_resume_words, NULL,        \
            "auto: from FILE.checkpoint if it is there; never: it is removed", 0, NULL \
    }

typedef struct cli_resumable {
    cli *run; /* borrowed, as what follows */
    const cli_resumable_options *opts;
    const char *out;
    const char *const *paths; /* [n_paths], the inputs */
    size_t n_paths;
    const kmf_reader_options *reader;

    kmf_embedder *embedder; /* borrowed; NULL before cli_resumable_open */
    kmf_output *output;     /* owned; its embedder is freed first, whose threads write to it */
    kmf_embed_stats before; /* done by an earlier run */
    double started;         /* seconds, with what that has not done */
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
 * -1, or the exit code if a checkpoint would take the place of an input, or of one of n others;
 * NULL among these is none.
 */
int cli_resumable_refuse(const cli_resumable *k, const char *const *others, size_t n);
/*
 * Before the model is loaded. A signal that comes while there is nothing new leaves what an earlier
 * run has kept.
 */
void cli_resumable_start(cli_resumable *k);
/*
 * The output, to which the rows of the embedder go from now on: a new one, or what an earlier run
 * has kept of it. The statistics of the embedder are then those of that run. NULL: the rows are
 * the caller's, in a new output; nothing is kept, and cli_resumable_step is not for it.
 */
int cli_resumable_open(cli_resumable *k, kmf_embedder *embedder, const kmf_output_form *form,
                       kmf_err *err);
/*
 * To be called whenever the embedder tells how far it is, by the tokens that it is told: keeps what
 * is done, now and then, and ends the process if a signal asked to. *now: the statistics; returns
 * how many seconds it took to get there from `before`. `in` learns how much of what was read needed
 * no work, and how much is done.
 */
double cli_resumable_step(cli_resumable *k, uint64_t tokens, cli_inputs *in,
                          kmf_embed_stats *now);
/* Of the records of a run, " (3 of them before)" or "". */
#define CLI_BEFORE_TEXT 64
const char *cli_resumable_told(const cli_resumable *k, char text[CLI_BEFORE_TEXT]);
/* Publishes the output. provenance: as kmf_output_commit. */
int cli_resumable_finish(cli_resumable *k, const char *provenance, kmf_err *err);
/* In any case; of a run that failed it tells what is kept. */
void cli_resumable_end(cli_resumable *k, bool failed);

#endif
