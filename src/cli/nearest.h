/* SPDX-License-Identifier: MIT */
/* What the two kinds of `kmerformer nearest` share, of k-mers and of rows. */
#ifndef KMF_CLI_NEAREST_H
#define KMF_CLI_NEAREST_H

#include "cli/resumable.h"

typedef struct cli_nearest_options {
    const char *out;
    size_t n;    /* neighbours */
    int k;       /* of k-mers alone; 0: not given */
    int threads; /* of rows alone, as what follows */
    cli_resumable_options keeping;
} cli_nearest_options;

/* Of arrays, REFERENCES.npy QUERIES.npy...; the first one is known to be one. An exit code. */
int cli_nearest_rows(cli *run, const cli_nearest_options *o, const char *const *paths,
                     size_t n);

#endif
