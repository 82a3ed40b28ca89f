/* SPDX-License-Identifier: MIT */
/* MD5, for provenance: to recognise a file again, not to trust it. */
#ifndef KMF_DIGEST_H
#define KMF_DIGEST_H

#include "base/io.h"

#include <stdatomic.h>
#include <stdbool.h>

#define KMF_MD5_TEXT 33

/*
 * 32 lower-case hex digits and a NUL, of n files, one behind another; or KMF_ENOMEM. What is read
 * of them does not stay in memory; keep: they are texts in memory, which stay. stop, unless NULL,
 * may become true meanwhile: the digest is then of no use.
 */
int kmf_md5_files(char hex[KMF_MD5_TEXT], const kmf_map *const *files, size_t n, bool keep,
                  const atomic_bool *stop, kmf_err *err) KMF_MUST_CHECK;

#endif
