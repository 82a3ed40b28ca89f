/* SPDX-License-Identifier: MIT */
/* What an encoder can besides what model.h says. */
#ifndef KMF_ENCODER_H
#define KMF_ENCODER_H

#include "kmerformer.h"

/*
 * Does a part of the batch that another thread has given to `owner`, in the room of `own`, an
 * encoder of the same model and size that has no batch itself. Returns when the owner's is done,
 * or at once if it has none: how many items of work were done here. The states have the bits that
 * they have without help.
 */
size_t kmf_encoder_help(kmf_encoder *owner, kmf_encoder *own);

#endif
