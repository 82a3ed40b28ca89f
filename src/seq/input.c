/* SPDX-License-Identifier: MIT */
#include "seq/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/gzip.h"
#include "base/mem.h"

#include <htslib/hfile.h>

size_t kmf_byte_order_mark(const char *text, size_t n)
{
    return n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

const char *kmf_input_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

hFILE *kmf_input_open(const char *path, kmf_err *err)
{
    int fd;
    return kmf_input_open_file(path, &fd, err);
}

hFILE *kmf_input_open_file(const char *path, int *descriptor, kmf_err *err)
{
    struct stat st;
    hFILE *file = NULL;
    *descriptor = -1;
    kmf_silence_htslib();
    if (strcmp(path, "-") == 0) {
        file = hopen("-", "r");
        if (!file)
            kmf_fail(err, KMF_EIO, "standard input: %s", strerror(errno));
        return file;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(errno));
    } else if (S_ISDIR(st.st_mode)) {
        kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(EISDIR));
    } else {
        file = hdopen(fd, "r");
        if (!file)
            kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(errno));
    }
    if (!file && fd >= 0)
        close(fd);
    if (file)
        *descriptor = fd;
    return file;
}

hFILE *kmf_input_memory(const void *bytes, size_t len, kmf_err *err)
{
    char *copy = kmf_malloc(len, 1, err);
    if (!copy)
        return NULL;
    if (len > 0)
        memcpy(copy, bytes, len);
    kmf_silence_htslib();
    /* The file owns the copy from here on, and frees it as kmf_free would. */
    hFILE *file = hopen("mem:", "r:", copy, len);
    if (!file) {
        kmf_fail(err, KMF_ENOMEM, "out of memory: no room for a file in memory");
        kmf_free(copy);
    }
    return file;
}

kmf_watch kmf_watch_begin(int file)
{
    struct stat st;
    if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode))
        return (kmf_watch){0};
    return (kmf_watch){.regular = true, .file = file, .size = st.st_size};
}

int kmf_watch_end(const kmf_watch *watch, kmf_err *err)
{
    struct stat st;
    if (!watch->regular || fstat(watch->file, &st) < 0 || st.st_size >= watch->size)
        return 0;
    return kmf_fail(err, KMF_EIO, "the file became shorter while it was read");
}
