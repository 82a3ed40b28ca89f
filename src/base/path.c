/* SPDX-License-Identifier: MIT */
#include "base/path.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/number.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Names of what other processes hold open: a shell's redirection, for one. Files below /dev/shm
 * are files.
 */
static bool is_device(const char *path)
{
    if (strncmp(path, "/dev/shm/", 9) == 0)
        return false;
    return strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0;
}

bool kmf_path_is_special(const char *path)
{
    struct stat st;
    if (is_device(path))
        return true;
    return stat(path, &st) == 0 && !S_ISREG(st.st_mode);
}

int kmf_path_descriptor(const char *path)
{
    static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
    if (strcmp(path, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        size_t n = strlen(folders[i]);
        uint64_t fd;
        const char *end =
            strncmp(path, folders[i], n) == 0 ? kmf_read_digits(path + n, &fd) : NULL;
        if (end && *end == '\0' && fd <= INT_MAX)
            return (int)fd;
    }
    return -1;
}

bool kmf_path_same(const char *a, const char *b)
{
    struct stat s, t;
    return stat(a, &s) == 0 && stat(b, &t) == 0 && s.st_dev == t.st_dev && s.st_ino == t.st_ino;
}

int kmf_out_is_file(const char *path)
{
    return strcmp(path, "-") != 0 && !kmf_path_is_special(path);
}

const char *kmf_foreign_ending(const char *path)
{
    static const char *const endings[] = {
        ".npy",      ".npz", ".csv",   ".csv.gz", ".h5",       ".hdf5",   ".parquet",
        ".bz2",      ".xz",  ".zst",   ".zip",    ".bgz",      ".fa",     ".fasta",
        ".fna",      ".fq",  ".fastq", ".fa.gz",  ".fasta.gz", ".fna.gz", ".fq.gz",
        ".fastq.gz", ".sam", ".bam",   ".cram"};
    size_t n = strlen(path);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t m = strlen(endings[i]);
        if (n >= m && strcasecmp(path + n - m, endings[i]) == 0 && !kmf_ends_with(path, ".npy"))
            return path + n - m;
    }
    return NULL;
}

bool kmf_ends_with(const char *s, const char *suffix)
{
    size_t n = strlen(s);
    size_t m = strlen(suffix);
    return n >= m && strcmp(s + n - m, suffix) == 0;
}

/* The length of the name that the table and its companions share: without .npy, .tsv, .tsv.gz. */
static size_t stem_length(const char *path)
{
    static const char *const suffixes[] = {".npy", ".tsv", ".tsv.gz"};
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (kmf_ends_with(path, suffixes[i]))
            return strlen(path) - strlen(suffixes[i]);
    return strlen(path);
}

char *kmf_companion(const char *path, const char *ending, kmf_err *err)
{
    return kmf_strprintf(err, "%.*s%s", (int)stem_length(path), path, ending);
}

#define LINKS_MOST 40 /* from one to the next, as Linux has it */

/* path, a link, becomes what it names, there or not; -1: errno says why not. */
static int follow_link(char path[PATH_MAX])
{
    char name[PATH_MAX];
    ssize_t n = readlink(path, name, sizeof name);
    if (n < 0)
        return -1;
    char *slash = name[0] == '/' ? NULL : strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash + 1 - path) : 0;
    if (folder + (size_t)n >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(path + folder, name, (size_t)n);
    path[folder + (size_t)n] = '\0';
    return 0;
}

char *kmf_real_name(const char *path, kmf_err *err)
{
    struct stat st;
    char real[PATH_MAX];
    int links = 0;
    if (strlen(path) >= sizeof real)
        return kmf_strdup(path, err);
    if (stat(path, &st) != 0 && errno == EACCES) { /* a link that one may not follow, too */
        kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(errno));
        return NULL;
    }
    strcpy(real, path);
    while (!is_device(real) && lstat(real, &st) == 0 && S_ISLNK(st.st_mode)) {
        if (links++ == LINKS_MOST)
            errno = ELOOP;
        if (links > LINKS_MOST || follow_link(real) < 0) {
            kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(errno));
            return NULL;
        }
    }
    return kmf_strdup(real, err);
}
