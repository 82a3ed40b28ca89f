/* SPDX-License-Identifier: MIT */
/* One run at a time: a file that a process holds locked while it writes to a place. */
#ifndef KMF_LOCK_H
#define KMF_LOCK_H

#include "cli/cli.h"

/*
 * Makes the file at path if it is not there, and locks it. Its descriptor; -1 after an error:
 * KMF_EIO if another process holds it (place: what that one works at) or if it is of something
 * else. On file systems without locks it is there, and holds nobody off.
 */
int cli_lock(const char *path, const char *place, kmf_err *err);
/* Removes the file, while nobody else can have it locked, and lets go of it; lock -1: nothing. */
void cli_unlock(int lock, const char *path);

#endif
