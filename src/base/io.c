/* SPDX-License-Identifier: MIT */
#include "base/io.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

char *kmf_file_read(const char *path, size_t limit, size_t *len_bytes, kmf_err *err)
{
    char *text = NULL;
    size_t len = 0;
    size_t cap = 0;
    bool done = false;
    FILE *file = fopen(path, "rb");
    if (!file) {
        kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(errno));
        return NULL;
    }
    while (!done) {
        if (kmf_grow(&text, &cap, len + 65536, 1, err) < 0)
            goto out;
        size_t got = fread(text + len, 1, cap - len - 1, file);
        len += got;
        if (len > limit) {
            kmf_fail(err, KMF_EMODEL, "%s: more than %zu bytes", path, limit);
            goto out;
        }
        if (got == 0 && ferror(file)) {
            kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(errno));
            goto out;
        }
        done = got == 0;
    }
    text[len] = '\0';
    *len_bytes = len;
out:
    fclose(file);
    if (!done) {
        kmf_free(text);
        return NULL;
    }
    return text;
}

int kmf_file_there(const char *path, kmf_err *err)
{
    struct stat st;
    if (stat(path, &st) == 0)
        return S_ISFIFO(st.st_mode)
                   ? kmf_fail(err, KMF_EIO, "%s: not a regular file, but a pipe", path)
                   : 1;
    if (errno != ENOENT && errno != ENOTDIR)
        return kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(errno));
    if (lstat(path, &st) == 0)
        return kmf_fail(err, KMF_EIO, "%s: a symbolic link to a file that is not there", path);
    return 0;
}

bool kmf_read_at(int fd, void *to, size_t n, uint64_t at, size_t *got)
{
    *got = 0;
    while (*got < n) {
        ssize_t done = pread(fd, (char *)to + *got, n - *got, (off_t)(at + *got));
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return false;
        if (done == 0)
            break;
        *got += (size_t)done;
    }
    return true;
}

bool kmf_write_at(int fd, const void *bytes, size_t n, uint64_t at)
{
    for (size_t put = 0; put < n;) {
        ssize_t done = pwrite(fd, (const char *)bytes + put, n - put, (off_t)(at + put));
        if (done < 0 && errno == EINTR)
            continue;
        if (done == 0)
            errno = EIO;
        if (done <= 0)
            return false;
        put += (size_t)done;
    }
    return true;
}

static kmf_stamp stamp_of(const struct stat *st)
{
    return (kmf_stamp){.device = (uint64_t)st->st_dev,
                       .inode = (uint64_t)st->st_ino,
                       .size = (uint64_t)st->st_size,
                       .seconds = (int64_t)st->st_mtim.tv_sec,
                       .nanoseconds = (int64_t)st->st_mtim.tv_nsec};
}

int kmf_map_check(const kmf_map *map, kmf_err *err)
{
    struct stat st;
    if (!map->path || stat(map->path, &st) < 0)
        return 0;
    kmf_stamp was = map->stamp;
    kmf_stamp is = stamp_of(&st);
    if (is.device != was.device || is.inode != was.inode)
        return 0; /* another file has the name */
    if (is.size == was.size && is.seconds == was.seconds && is.nanoseconds == was.nanoseconds)
        return 0;
    return kmf_fail(
        err, KMF_EIO,
        "%s: the file was written to while it was in use: results may be of what it "
        "was, of what it is, or of both",
        map->path);
}

int kmf_map_open(kmf_map *map, const char *path, kmf_err *err)
{
    struct stat st;
    void *bytes = NULL;
    int status = KMF_EIO;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would wait for a writer */
    *map = (kmf_map){0};
    if (fd < 0)
        return kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st) < 0) {
        kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(errno));
        goto out;
    }
    if (!S_ISREG(st.st_mode)) {
        kmf_fail(err, KMF_EIO, "%s: not a regular file", path);
        goto out;
    }
    if (st.st_size > 0) {
        bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED) {
            kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(errno));
            goto out;
        }
    }
    map->bytes = bytes;
    map->len = (size_t)st.st_size;
    map->stamp = stamp_of(&st);
    map->path = kmf_strdup(path, err);
    status = map->path ? 0 : KMF_ENOMEM;
out:
    close(fd);
    if (status < 0)
        kmf_map_close(map);
    return status;
}

void kmf_map_close(kmf_map *map)
{
    if (map->bytes)
        munmap((void *)(uintptr_t)map->bytes, map->len);
    kmf_free(map->path);
    *map = (kmf_map){0};
}
