/* SPDX-License-Identifier: MIT */
#include "cli/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WHO_BYTES 512
#define WHO_BEGINS "process "

/* Is the open file still the one of this name? Who held it may have removed it meanwhile. */
static bool is_at(int file, const char *path)
{
    struct stat s;
    struct stat t;
    return fstat(file, &s) == 0 && stat(path, &t) == 0 && s.st_dev == t.st_dev &&
           s.st_ino == t.st_ino;
}

/* Locked by fcntl, which other machines see as well where the file system can do that. */
static int take(int file, const char *path, const char *place, kmf_err *err)
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char who[WHO_BYTES] = "";
    char host[256] = "";
    ssize_t n = pread(file, who, sizeof who - 1, 0);
    who[n > 0 ? strcspn(who, "\n") : 0] = '\0';
    if (n > 0 && strncmp(who, WHO_BEGINS, strlen(WHO_BEGINS)) != 0)
        return cli_raise(err, KMF_EIO, "%s is there, and is no lock of kmerformer", path);
    bool held = fcntl(file, F_SETLK, &whole) != 0;
    if (held && errno != EACCES && errno != EAGAIN)
        return 0; /* a file system without locks */
    if (held)
        return cli_raise(err, KMF_EIO, "%s: another run is at work there%s%s", place,
                         who[0] ? ": " : "", who);
    gethostname(host, sizeof host - 1);
    n = snprintf(who, sizeof who, WHO_BEGINS "%ld on %s\n", (long)getpid(), host);
    if (ftruncate(file, 0) == 0 && pwrite(file, who, (size_t)n, 0) == n)
        return 0;
    cli_raise(err, KMF_EIO, "%s: %s", path, strerror(errno));
    unlink(path);
    return KMF_EIO;
}

int cli_lock(const char *path, const char *place, kmf_err *err)
{
    for (;;) {
        int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (file < 0) {
            cli_raise(err, KMF_EIO, "%s: %s", path, strerror(errno));
            return -1;
        }
        int status = take(file, path, place, err);
        if (status == 0 && is_at(file, path))
            return file;
        close(file);
        if (status < 0)
            return -1;
    }
}

void cli_unlock(int lock, const char *path)
{
    if (lock < 0)
        return;
    unlink(path);
    close(lock);
}
