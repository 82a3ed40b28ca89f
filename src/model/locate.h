/* SPDX-License-Identifier: MIT */
/* Where the model that comes with the program is. */
#ifndef KMF_LOCATE_H
#define KMF_LOCATE_H

#include "kmerformer.h"

/*
 * The directory of the default model, freed by kmf_free:
 *   $KMERFORMER_MODEL if that is set and not empty, whatever is there; else the first of
 *   ../data/default and ../share/kmerformer/default beside the program's own directory, and
 *   KMF_DATADIR/default as it was built, that holds a config.json.
 * KMF_EMODEL says where it looked.
 */
char *kmf_locate_default(kmf_err *err) KMF_MUST_CHECK;

#endif
