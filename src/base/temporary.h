/* SPDX-License-Identifier: MIT */
/*
 * Names of what is not finished yet: "path.tmp.NUMBER", the first free one from the process's
 * number on, as processes in containers, or on several machines, may have the same one.
 */
#ifndef KMF_TEMPORARY_H
#define KMF_TEMPORARY_H

#include "kmerformer.h"

#include <stdbool.h>
#include <stdio.h>

typedef struct kmf_temporary {
    char *path; /* owned; NULL: there is none */
    int slot;   /* among those that kmf_remove_temporaries takes away */
} kmf_temporary;

/* A new file beside path, open for writing; NULL on failure, which names path. */
FILE *kmf_temporary_file(kmf_temporary *t, const char *path, kmf_err *err) KMF_MUST_CHECK;
/* A new folder beside path. KMF_EIO names path. */
int kmf_temporary_folder(kmf_temporary *t, const char *path, kmf_err *err) KMF_MUST_CHECK;
/* A second name of a file; false: it can have no other. */
bool kmf_temporary_link(kmf_temporary *t, const char *file) KMF_MUST_CHECK;
/* Gives it its final name; false, with errno, and it stays what it was, if it cannot. */
bool kmf_temporary_rename(kmf_temporary *t, const char *path) KMF_MUST_CHECK;
/*
 * The same, but t then is the regular file that had the name, if there was one, under a temporary
 * name: it can be given back, by another rename, or removed. Where a file cannot have two names,
 * and if it is another user's, it is gone, as after a rename. A failure names path.
 */
int kmf_temporary_exchange(kmf_temporary *t, const char *path, kmf_err *err) KMF_MUST_CHECK;
/* It is no longer taken away by kmf_remove_temporaries; or it is again. */
void kmf_temporary_keep(kmf_temporary *t);
void kmf_temporary_unkeep(kmf_temporary *t);
/* One that was kept, maybe by another process; false: out of memory. */
bool kmf_temporary_kept(kmf_temporary *t, const char *path, kmf_err *err) KMF_MUST_CHECK;
/* Forgets it, and it stays where it is. */
void kmf_temporary_leave(kmf_temporary *t);
/* Removes it: a file, or a folder in which nothing is. Accepts a zeroed one. */
void kmf_temporary_remove(kmf_temporary *t);

#endif
