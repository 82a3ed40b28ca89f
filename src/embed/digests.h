/* SPDX-License-Identifier: MIT */
/*
 * The MD5 of each of a method's files, computed by a thread of the pool beside what else a run
 * begins with: a model of 340 MB takes half a second.
 */
#ifndef KMF_DIGESTS_H
#define KMF_DIGESTS_H

#include "embed/method.h"
#include "seq/digest.h"
#include "seq/par.h"

typedef struct kmf_digests kmf_digests;

/* Begins. method and pool are borrowed, and outlive it. */
kmf_digests *kmf_digests_begin(const kmf_method *method, kmf_pool *pool,
                               kmf_err *err) KMF_MUST_CHECK;
/* Stops what is under way; accepts NULL. */
void kmf_digests_free(kmf_digests *digests);
/* That of file i < KMF_METHOD_FILES, which has a key; waits for it. By one thread at a time. */
int kmf_digests_wait(kmf_digests *digests, size_t i, char md5[KMF_MD5_TEXT],
                     kmf_err *err) KMF_MUST_CHECK;

#endif
