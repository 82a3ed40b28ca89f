/* SPDX-License-Identifier: MIT */
/* What an encoder can besides what model.h says. */
#ifndef KMF_ENCODER_H
#define KMF_ENCODER_H

#include "kmerformer.h"

/*
 * With the room of `own`, of the same model and size, does a part of the batch that another thread
 * gave to `owner`, now or before it is done; returns when it is done, or at once if there is none.
 * The states have the bits that they have without help.
 */
void kmf_encoder_help(kmf_encoder *owner, kmf_encoder *own);

#endif
