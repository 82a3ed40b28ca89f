/* SPDX-License-Identifier: MIT */
/* What names of files say. path.c has such functions of output.h, too: kmf_companion and others. */
#ifndef KMF_PATH_H
#define KMF_PATH_H

#include "kmerformer.h"

#include <stdbool.h>

bool kmf_ends_with(const char *s, const char *suffix);

/* Does path exist and is no regular file: a pipe, a device? Such are written in place. */
bool kmf_path_is_special(const char *path);

/* The descriptor that path names, as /dev/stdout and /dev/fd/3 do; -1: it names none. */
int kmf_path_descriptor(const char *path);

/* Are both there, and one file? */
bool kmf_path_same(const char *a, const char *b);

#endif
