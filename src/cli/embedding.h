/* SPDX-License-Identifier: MIT */
/* An embedder whose rows go to an output that can outlive its process. */
#ifndef KMF_CLI_EMBEDDING_H
#define KMF_CLI_EMBEDDING_H

#include "cli/resumable.h"

typedef struct cli_embedding {
    cli_resumable *resumable; /* borrowed, as the embedder, which is freed before that ends */
    kmf_embedder *embedder;
    kmf_embed_stats before; /* done by an earlier run */
    double started;         /* seconds, with what that has not done */
} cli_embedding;

/*
 * cli_resumable_open; the rows of the embedder go to the output from now on, and its statistics
 * begin with those of an earlier run.
 */
int cli_embedding_open(cli_embedding *e, cli_resumable *resumable, kmf_embedder *embedder,
                       const kmf_output_form *form, kmf_err *err);
/*
 * To be called whenever the embedder tells how far it is, by the tokens that it is told:
 * cli_resumable_save. *now: the statistics; returns how many seconds it took to get there from
 * `before`. `in` learns how much of what was read needed no work, and how much is done.
 */
double cli_embedding_step(cli_embedding *e, uint64_t tokens, cli_inputs *in,
                          kmf_embed_stats *now);
/* Adds the records of a file, by the options of the run; `in` tells how much of it is read. */
int cli_embedding_read(const cli_embedding *e, const char *path, cli_inputs *in, kmf_err *err);

#endif
