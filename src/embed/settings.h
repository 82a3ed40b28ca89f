/* SPDX-License-Identifier: MIT */
/*
 * What was asked for, what the model says and our defaults, made one: afterwards no field of the
 * options means "as the model says". KMF_EINVAL names what does not go together.
 */
#ifndef KMF_SETTINGS_H
#define KMF_SETTINGS_H

#include "kmerformer.h"

/* Shards, threads, batches: the same for every kind of model. */
int kmf_settings_common(kmf_embed_options *o, kmf_err *err) KMF_MUST_CHECK;
/* For an encoder; layer becomes 0 .. L. */
int kmf_settings_model(kmf_embed_options *o, const kmf_config *c, const kmf_vocab *vocab,
                       kmf_err *err) KMF_MUST_CHECK;
/* For k-mer vectors out of the file `name`; k is only held against their range. */
int kmf_settings_vectors(kmf_embed_options *o, const char *name, const kmf_vectors_info *info,
                         kmf_err *err) KMF_MUST_CHECK;
/* For tnf and kmer:K; name is one of them. */
int kmf_settings_frequency(kmf_embed_options *o, const char *name, kmf_err *err) KMF_MUST_CHECK;

#endif
