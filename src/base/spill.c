/* SPDX-License-Identifier: MIT */
/*
 * The file is made under a name that is taken away at once, as tmpfile(3) does, but in a folder
 * of the user's choice. Appending reserves a stretch by adding to the size, then writes it with
 * pwrite, so that threads need no lock.
 */
#define _XOPEN_SOURCE 700 /* mkstemp */
#include "base/spill.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct kmf_spill {
    int fd;
    char *dir; /* owned; for messages */
    _Atomic uint64_t size;
};

static int fail_io(const kmf_spill *s, uint64_t size, kmf_err *err)
{
    return kmf_fail(err, KMF_EIO, "%s: %s, with %llu MB of temporary data there", s->dir,
                    strerror(errno), (unsigned long long)(size >> 20));
}

kmf_spill *kmf_spill_new(const char *dir, kmf_err *err)
{
    const char *variable = getenv("TMPDIR");
    if (!dir || !dir[0])
        dir = variable && variable[0] ? variable : "/tmp";
    kmf_spill *s = kmf_calloc(1, sizeof *s, err);
    char *path = kmf_strprintf(err, "%s/kmerformer.XXXXXX", dir);
    if (s)
        s->fd = -1;
    if (!s || !path)
        goto failed;
    atomic_init(&s->size, 0);
    s->dir = kmf_strdup(dir, err);
    if (!s->dir)
        goto failed;
    s->fd = mkstemp(path);
    if (s->fd < 0) {
        kmf_fail(err, KMF_EIO, "%s: no temporary file can be made there: %s", dir,
                 strerror(errno));
        goto failed;
    }
    unlink(path);
    kmf_free(path);
    return s;
failed:
    kmf_free(path);
    kmf_spill_free(s);
    return NULL;
}

void kmf_spill_free(kmf_spill *spill)
{
    if (!spill)
        return;
    if (spill->fd >= 0)
        close(spill->fd);
    kmf_free(spill->dir);
    kmf_free(spill);
}

int kmf_spill_append(kmf_spill *spill, const void *bytes, size_t n, uint64_t *offset,
                     kmf_err *err)
{
    *offset = atomic_fetch_add(&spill->size, (n + 7) & ~(uint64_t)7);
    return kmf_write_at(spill->fd, bytes, n, *offset) ? 0 : fail_io(spill, *offset, err);
}

int kmf_spill_read(const kmf_spill *spill, uint64_t offset, void *bytes, size_t n, kmf_err *err)
{
    size_t got;
    if (kmf_read_at(spill->fd, bytes, n, offset, &got)) {
        if (got == n)
            return 0;
        errno = EIO;
    }
    return fail_io(spill, kmf_spill_size(spill), err);
}

int kmf_spill_map(const kmf_spill *spill, kmf_map *map, kmf_err *err)
{
    uint64_t size = kmf_spill_size(spill);
    *map = (kmf_map){0};
    if (size == 0)
        return 0;
    if (size > SIZE_MAX)
        return kmf_fail(err, KMF_ENOMEM, "the table of %llu bytes exceeds the address space",
                        (unsigned long long)size);
    /* The last bytes of a stretch may never have been written. */
    if (ftruncate(spill->fd, (off_t)size) < 0)
        return fail_io(spill, size, err);
    void *bytes = mmap(NULL, (size_t)size, PROT_READ, MAP_SHARED, spill->fd, 0);
    if (bytes == MAP_FAILED)
        return fail_io(spill, size, err);
    map->bytes = bytes;
    map->len = (size_t)size;
    return 0;
}

uint64_t kmf_spill_size(const kmf_spill *spill)
{
    return atomic_load(&spill->size);
}
