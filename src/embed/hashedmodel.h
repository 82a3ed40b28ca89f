/* SPDX-License-Identifier: MIT */
/*
 * What makes a model the one that it is, for provenance: the files of its weights, and what they
 * belong to. Weights mean nothing without the number of heads, say, and the order of the tokens:
 * these are told as texts that do not depend on whether the model is a directory or a file, or on
 * how it was made; for the family that is made here, on nothing else in config.json either.
 */
#ifndef KMF_HASHEDMODEL_H
#define KMF_HASHEDMODEL_H

#include "embed/method.h"

typedef struct kmf_hashed_model {
    kmf_method_file list[KMF_METHOD_FILES]; /* as of a method; drawn weights have no file */
    const kmf_map **maps; /* owned, the list; of the files, borrowed from the model */
    char *config;         /* owned; config.json as it would be written, without provenance */
    kmf_map texts[2];     /* that, and the vocabulary, borrowed from the model */
    const kmf_map *of_texts[2];
} kmf_hashed_model;

/* f stays where it is until it is freed, before the model. KMF_ENOMEM: there is nothing in it. */
int kmf_hashed_model_list(kmf_hashed_model *f, const kmf_model *model,
                          kmf_err *err) KMF_MUST_CHECK;
/* Accepts a zeroed one. */
void kmf_hashed_model_free(kmf_hashed_model *f);

#endif
