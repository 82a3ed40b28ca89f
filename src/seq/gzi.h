/* SPDX-License-Identifier: MIT */
/* The index of a BGZF file, x.gz.gzi: where its blocks begin. htslib believes what it says. */
#ifndef KMF_GZI_H
#define KMF_GZI_H

#include "kmerformer.h"

/*
 * Does the index at gzi say of every block of the file at path where it begins, in it and in what
 * it holds? *text = the bytes that all blocks hold. KMF_EFORMAT: it does not, or the file is no
 * sound sequence of blocks; KMF_EIO.
 */
int kmf_gzi_check(const char *path, const char *gzi, uint64_t *text,
                  kmf_err *err) KMF_MUST_CHECK;

#endif
