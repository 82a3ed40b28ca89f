/* SPDX-License-Identifier: MIT */
/* What a model's name stands for, and where the model that comes with the program is. */
#ifndef KMF_LOCATE_H
#define KMF_LOCATE_H

#include "kmerformer.h"

#include <stdbool.h>

/* A name, or NULL, that embed takes for no path, as those of kmf_is_random: "tnf" and "kmer:K". */
bool kmf_is_counts(const char *name);

/*
 * The directory of the default model, freed by kmf_free:
 *   $KMERFORMER_MODEL if that is set and not empty, whatever is there; else the first of
 *   ../data/default and ../share/kmerformer/default beside the program's own directory, and
 *   KMF_DATADIR/default as it was built, that holds a config.json.
 * KMF_EMODEL says where it looked.
 */
char *kmf_locate_default(kmf_err *err) KMF_MUST_CHECK;

#endif
