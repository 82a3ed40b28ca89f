/* SPDX-License-Identifier: MIT */
/* A limit of arithmetic in small portions, to be measured in turns with what it limits. */
#ifndef KMF_NN_LIMITS_H
#define KMF_NN_LIMITS_H

#include "kmerformer.h"

/*
 * A fraction of a millisecond of the loop whose speed is the limit, KMF_LIMIT_F32 to
 * KMF_LIMIT_INT8, on the calling thread. Returns the operations that it did; 0 if the level lacks
 * the instruction, or for another kind. Thread-safe.
 */
double kmf_limit_portion(kmf_limit_kind kind);

/* 0; KMF_EINVAL: nothing is measured for so many seconds. */
int kmf_limit_check_seconds(double seconds, kmf_err *err) KMF_MUST_CHECK;

#endif
