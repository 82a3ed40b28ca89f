/* SPDX-License-Identifier: MIT */
/*
 * The program finds its data from where it lies itself, so that a build tree, an unpacked
 * archive and an installation in any prefix work without a setting. /proc/self/exe is the path
 * of the program that runs, symbolic links followed.
 */
#include "model/locate.h"

#include "base/err.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_CAP 4096

bool kmf_is_counts(const char *name)
{
    return name && (strcmp(name, "tnf") == 0 || strncmp(name, "kmer:", 5) == 0);
}

int kmf_is_random(const char *name)
{
    return name && (strcmp(name, "random") == 0 || strncmp(name, "random:", 7) == 0);
}

static bool holds_model(const char *dir)
{
    char path[PATH_CAP + 16];
    int n = snprintf(path, sizeof path, "%s/config.json", dir);
    return n > 0 && (size_t)n < sizeof path && access(path, F_OK) == 0;
}

/* The directory of the running program without a slash at its end; false if it is not known. */
static bool program_dir(char dir[PATH_CAP])
{
    ssize_t n = readlink("/proc/self/exe", dir, PATH_CAP - 1);
    if (n <= 0 || n >= PATH_CAP - 1)
        return false;
    dir[n] = '\0';
    char *slash = strrchr(dir, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return true;
}

char *kmf_locate_default(kmf_err *err)
{
    static const char *const beside[] = {"/../data/default", "/../share/kmerformer/default"};
    char dir[PATH_CAP];
    char path[PATH_CAP + 64];
    char tried[2 * sizeof path] = "";
    size_t used = 0;
    const char *wish = getenv("KMERFORMER_MODEL");
    if (wish && *wish)
        return kmf_strdup(wish, err);
    for (size_t i = 0; i < 2 && program_dir(dir); i++) {
        snprintf(path, sizeof path, "%s%s", dir, beside[i]);
        if (holds_model(path))
            return kmf_strdup(path, err);
        if (used < sizeof tried)
            used += (size_t)snprintf(tried + used, sizeof tried - used, ", %s", path);
    }
#ifdef KMF_DATADIR
    snprintf(path, sizeof path, "%s", KMF_DATADIR "/default");
    if (holds_model(path))
        return kmf_strdup(path, err);
    if (used < sizeof tried)
        snprintf(tried + used, sizeof tried - used, ", %s", path);
#endif
    kmf_fail(err, KMF_EMODEL,
             "the default model was not found; looked at: the variable KMERFORMER_MODEL (not "
             "set)%s",
             tried);
    return NULL;
}
