/* SPDX-License-Identifier: MIT */
/* The MD5 of a file, for provenance: to recognise a file again, not to trust it. */
#ifndef KMF_DIGEST_H
#define KMF_DIGEST_H

#include "kmerformer.h"

/* 32 lower-case hex digits and a NUL. KMF_EIO if path cannot be read. */
int kmf_file_md5(char hex[33], const char *path, kmf_err *err) KMF_MUST_CHECK;

#endif
