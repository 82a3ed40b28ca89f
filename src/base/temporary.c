/* SPDX-License-Identifier: MIT */
#include "base/temporary.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMPORARIES_MAX 64
#define SUFFIX_CAP 32

/*
 * Those that exist, for a signal handler: a handler may read atomics and unlink, no more. Names are
 * copied, so none is freed under it. One that finds no slot, or does not fit, is only left behind
 * by a kill, as all are by SIGKILL.
 */
enum { SLOT_FREE, SLOT_FILLING, SLOT_USED };

static struct {
    atomic_int state;
    char path[PATH_MAX];
} temporaries[TEMPORARIES_MAX];

/* Its slot, or -1. */
static int remember(const char *path)
{
    size_t n = strlen(path) + 1;
    for (int i = 0; n <= PATH_MAX && i < TEMPORARIES_MAX; i++) {
        int state = SLOT_FREE;
        if (atomic_compare_exchange_strong(&temporaries[i].state, &state, SLOT_FILLING)) {
            memcpy(temporaries[i].path, path, n);
            atomic_store(&temporaries[i].state, SLOT_USED);
            return i;
        }
    }
    return -1;
}

void kmf_temporary_keep(kmf_temporary *t)
{
    if (t->slot >= 0)
        atomic_store(&temporaries[t->slot].state, SLOT_FREE);
    t->slot = -1;
}

void kmf_temporary_unkeep(kmf_temporary *t)
{
    if (t->path && t->slot < 0)
        t->slot = remember(t->path);
}

static void forget(kmf_temporary *t)
{
    kmf_temporary_keep(t);
    kmf_free(t->path);
    *t = (kmf_temporary){0};
}

void kmf_remove_temporaries(void)
{
    for (size_t i = 0; i < TEMPORARIES_MAX; i++)
        if (atomic_load(&temporaries[i].state) == SLOT_USED)
            unlink(temporaries[i].path);
    /* folders, once their files are gone */
    for (size_t i = 0; i < TEMPORARIES_MAX; i++)
        if (atomic_load(&temporaries[i].state) == SLOT_USED)
            rmdir(temporaries[i].path);
}

/* Makes what temp names, beside path; false, with errno, if it cannot. */
typedef bool maker(const char *temp, const char *path, FILE **file);

static bool make_file(const char *temp, const char *path, FILE **file)
{
    (void)path;
    *file = fopen(temp, "wbxe");
    return *file != NULL;
}

static bool make_folder(const char *temp, const char *path, FILE **file)
{
    (void)path;
    (void)file;
    return mkdir(temp, 0777) == 0;
}

/* A second name of a file. */
static bool make_link(const char *temp, const char *path, FILE **file)
{
    (void)file;
    return link(path, temp) == 0;
}

static int make(kmf_temporary *t, const char *path, maker *make_it, FILE **file, kmf_err *err)
{
    size_t cap = strlen(path) + SUFFIX_CAP;
    char *temp = kmf_malloc(cap, 1, err);
    if (!temp)
        return KMF_ENOMEM;
    long number = (long)getpid();
    for (bool made = false; !made; number++) {
        snprintf(temp, cap, "%s.tmp.%ld", path, number);
        made = make_it(temp, path, file);
        if (!made && errno != EEXIST) {
            const char *name = errno == ENAMETOOLONG ? temp : path;
            int status = kmf_fail(err, KMF_EIO, "%s: %s%s", name, strerror(errno),
                                  errno == ENOENT ? ": the folder is not there" : "");
            kmf_free(temp);
            return status;
        }
    }
    *t = (kmf_temporary){.path = temp, .slot = remember(temp)};
    return 0;
}

FILE *kmf_temporary_file(kmf_temporary *t, const char *path, kmf_err *err)
{
    FILE *file = NULL;
    return make(t, path, make_file, &file, err) == 0 ? file : NULL;
}

int kmf_temporary_folder(kmf_temporary *t, const char *path, kmf_err *err)
{
    return make(t, path, make_folder, NULL, err);
}

bool kmf_temporary_link(kmf_temporary *t, const char *file)
{
    return make(t, file, make_link, NULL, NULL) == 0;
}

bool kmf_temporary_rename(kmf_temporary *t, const char *path)
{
    if (rename(t->path, path) != 0)
        return false;
    forget(t);
    return true;
}

int kmf_temporary_exchange(kmf_temporary *t, const char *path, kmf_err *err)
{
    struct stat st;
    kmf_err cause = {0};
    kmf_temporary older = {0};
    if (lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
        make(&older, path, make_link, NULL, &cause) == KMF_ENOMEM)
        return kmf_fail(err, cause.code, "%s", cause.msg);
    if (!kmf_temporary_rename(t, path)) {
        int status = kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(errno));
        kmf_temporary_remove(&older);
        return status;
    }
    *t = older;
    return 0;
}

bool kmf_temporary_kept(kmf_temporary *t, const char *path, kmf_err *err)
{
    *t = (kmf_temporary){.path = kmf_strdup(path, err), .slot = -1};
    return t->path != NULL;
}

void kmf_temporary_leave(kmf_temporary *t)
{
    if (t->path)
        forget(t);
}

void kmf_temporary_remove(kmf_temporary *t)
{
    if (!t->path)
        return;
    if (unlink(t->path) != 0)
        rmdir(t->path);
    forget(t);
}
