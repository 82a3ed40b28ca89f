/* SPDX-License-Identifier: MIT */
#include "base/groups.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_CAP 4096

const char *kmf_group_line(char *line, size_t cap, const char *folder, const char *file)
{
    char path[PATH_CAP];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, file) >= sizeof path)
        return NULL;
    FILE *opened = fopen(path, "r");
    if (!opened)
        return NULL;
    const char *read = fgets(line, (int)cap, opened);
    fclose(opened);
    return read;
}

static double tighter(double a, double b)
{
    if (a == 0 || b == 0)
        return a + b;
    return a < b ? a : b;
}

/* From root/path up to root itself. */
static double tightest(const char *root, const char *path, int version,
                       kmf_group_limit_fn *limit)
{
    char folder[PATH_CAP];
    double least = 0;
    size_t n_root = strlen(root);
    if ((size_t)snprintf(folder, sizeof folder, "%s%s", root, path) >= sizeof folder)
        return limit(root, version);
    for (;;) {
        least = tighter(least, limit(folder, version));
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < n_root)
            return least;
        *slash = '\0';
    }
}

/* Is it one of these, separated by commas? */
static bool has_controller(const char *controllers, const char *name)
{
    for (const char *c = controllers; *c;) {
        size_t n = strcspn(c, ",");
        if (n == strlen(name) && memcmp(c, name, n) == 0)
            return true;
        c += n + (c[n] == ',');
    }
    return false;
}

double kmf_group_least(const char *membership, const char *mount, const char *controller,
                       kmf_group_limit_fn *limit)
{
    char line[PATH_CAP];
    char root[PATH_CAP];
    double least = 0;
    FILE *file = fopen(membership, "r");
    if (!file)
        return 0;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        controllers++;
        *path++ = '\0';
        if (*controllers == '\0')
            least = tighter(least, tightest(mount, path, 2, limit));
        if (!has_controller(controllers, controller))
            continue;
        if ((size_t)snprintf(root, sizeof root, "%s/%s", mount, controller) < sizeof root)
            least = tighter(least, tightest(root, path, 1, limit));
    }
    fclose(file);
    return least;
}

/* "max" of version 2 is no number; version 1 has one beyond all memory. */
static double memory_limit(const char *folder, int version)
{
    char line[128];
    const char *file = version == 2 ? "memory.max" : "memory.limit_in_bytes";
    double bytes = kmf_group_line(line, sizeof line, folder, file) ? strtod(line, NULL) : 0;
    return bytes > 0 && bytes < 0x1p62 ? bytes : 0;
}

double kmf_group_memory(const char *membership, const char *mount)
{
    return kmf_group_least(membership, mount, "memory", memory_limit);
}

uint64_t kmf_memory_here(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);
    double machine = pages > 0 && page > 0 ? (double)pages * (double)page : 0;
    double least = tighter(machine, kmf_group_memory(KMF_GROUP_MEMBERSHIP, KMF_GROUP_MOUNT));
    return least > 0 ? (uint64_t)least : UINT64_MAX;
}
