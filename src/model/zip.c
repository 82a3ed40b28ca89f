/* SPDX-License-Identifier: MIT */
/*
 * Read from the end, as the format wants it (PKWARE's APPNOTE.TXT, 4.3):
 *
 *   local header, name, extra, data     one after another, an entry each
 *   central directory                   46 bytes, name, extra, comment for each entry
 *   ZIP64 end record, its locator       always written by PyTorch, else in large files only
 *   end record                          22 bytes and a comment
 *
 * A number of 16 or 32 bits that is all ones stands in a ZIP64 field. Sizes are those of the
 * directory: a local header may leave them to a descriptor behind the data. What is asked of the
 * local header is that it is there and has the entry's name, so that a directory of another file
 * is noticed.
 *
 * Cost: O(n log n) in the number of entries; memory a little more than the directory's length.
 */
#include "model/zip.h"

#include "base/crc.h"
#include "base/err.h"
#include "base/le.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define LOCAL_SIGNATURE 0x04034b50u
#define LOCAL_BYTES 30
#define CENTRAL_SIGNATURE 0x02014b50u
#define CENTRAL_BYTES 46
#define END_SIGNATURE 0x06054b50u
#define END_BYTES 22
#define END64_SIGNATURE 0x06064b50u
#define END64_BYTES 56
#define LOCATOR_SIGNATURE 0x07064b50u
#define LOCATOR_BYTES 20
#define EXTRA_ZIP64 1
#define COMMENT_MAX 0xffff
#define ENCRYPTED 1u
#define STORED 0

bool kmf_zip_begins(const unsigned char *bytes, size_t len)
{
    return len >= LOCAL_BYTES && kmf_le_load32(bytes) == LOCAL_SIGNATURE;
}

/* What the end of the archive says about the directory. */
struct end {
    uint64_t n;
    uint64_t begin;
    uint64_t bytes;
    size_t limit; /* where the directory must have ended */
};

/* The end record: the last place where its comment reaches the end of the file. 0 if none is. */
static size_t find_end(const unsigned char *bytes, size_t len)
{
    for (size_t comment = 0; comment <= COMMENT_MAX && comment + END_BYTES < len; comment++) {
        const unsigned char *p = bytes + len - comment - END_BYTES;
        if (kmf_le_load32(p) == END_SIGNATURE && kmf_le_load16(p + 20) == comment)
            return len - comment - END_BYTES;
    }
    return 0;
}

static int read_end64(struct end *end, const unsigned char *bytes, size_t at, const char *name,
                      kmf_err *err)
{
    const unsigned char *locator = bytes + at - LOCATOR_BYTES;
    uint64_t begin = kmf_le_load64(locator + 8);
    if (at < LOCATOR_BYTES + END64_BYTES || begin > at - LOCATOR_BYTES - END64_BYTES ||
        kmf_le_load32(bytes + begin) != END64_SIGNATURE)
        return kmf_fail(err, KMF_EMODEL, "%s: damaged: no ZIP64 end record at byte %llu", name,
                        (unsigned long long)begin);
    end->n = kmf_le_load64(bytes + begin + 32);
    end->bytes = kmf_le_load64(bytes + begin + 40);
    end->begin = kmf_le_load64(bytes + begin + 48);
    end->limit = (size_t)begin;
    return 0;
}

static int read_end(struct end *end, const unsigned char *bytes, size_t len, const char *name,
                    kmf_err *err)
{
    size_t at = find_end(bytes, len);
    if (at == 0)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: cut off: begins as a ZIP archive, but has no directory at its end",
                        name);
    *end = (struct end){.n = kmf_le_load16(bytes + at + 10),
                        .bytes = kmf_le_load32(bytes + at + 12),
                        .begin = kmf_le_load32(bytes + at + 16),
                        .limit = at};
    if (at >= LOCATOR_BYTES && kmf_le_load32(bytes + at - LOCATOR_BYTES) == LOCATOR_SIGNATURE &&
        read_end64(end, bytes, at, name, err) < 0)
        return KMF_EMODEL;
    if (end->begin > end->limit || end->bytes > end->limit - end->begin ||
        end->n > end->bytes / CENTRAL_BYTES)
        return kmf_fail(err, KMF_EMODEL, "%s: damaged: its ZIP directory lies beyond its end",
                        name);
    return 0;
}

/* Fills what is all ones from the entry's ZIP64 field; false if that is not there or too short. */
static bool widen(uint64_t *number[3], const unsigned char *extra, size_t len)
{
    while (len >= 4) {
        size_t size = kmf_le_load16(extra + 2);
        bool wide = kmf_le_load16(extra) == EXTRA_ZIP64;
        extra += 4;
        len -= 4;
        if (size > len)
            return false;
        for (size_t i = 0, at = 0; wide && i < 3; i++) {
            if (*number[i] != UINT32_MAX)
                continue;
            if (at + 8 > size)
                return false;
            *number[i] = kmf_le_load64(extra + at);
            at += 8;
        }
        if (wide)
            return true;
        extra += size;
        len -= size;
    }
    return false;
}

/* The entry at p, of which `room` bytes are in the directory; its length there, 0 if damaged. */
static size_t read_entry(kmf_zip_entry *entry, const unsigned char *p, size_t room)
{
    if (room < CENTRAL_BYTES || kmf_le_load32(p) != CENTRAL_SIGNATURE)
        return 0;
    uint64_t stored = kmf_le_load32(p + 20);
    uint64_t len = kmf_le_load32(p + 24);
    uint64_t header = kmf_le_load32(p + 42);
    uint64_t *numbers[3] = {&len, &stored, &header}; /* in the order of the ZIP64 field */
    size_t name_len = kmf_le_load16(p + 28);
    size_t extra_len = kmf_le_load16(p + 30);
    size_t all = CENTRAL_BYTES + name_len + extra_len + kmf_le_load16(p + 32);
    if (all > room)
        return 0;
    if ((len == UINT32_MAX || stored == UINT32_MAX || header == UINT32_MAX) &&
        !widen(numbers, p + CENTRAL_BYTES + name_len, extra_len))
        return 0;
    if (len > SIZE_MAX || stored > SIZE_MAX || header > SIZE_MAX)
        return 0;
    *entry = (kmf_zip_entry){.name = (const char *)p + CENTRAL_BYTES,
                             .name_len = name_len,
                             .header = (size_t)header,
                             .len = (size_t)len,
                             .stored = (size_t)stored,
                             .method = kmf_le_load16(p + 10),
                             .flags = kmf_le_load16(p + 8),
                             .checksum = kmf_le_load32(p + 16)};
    return all;
}

static int by_name(const void *a, const void *b)
{
    const kmf_zip_entry *x = a;
    const kmf_zip_entry *y = b;
    size_t shorter = kmf_min(x->name_len, y->name_len);
    int order = memcmp(x->name, y->name, shorter);
    return order != 0 ? order : (x->name_len > y->name_len) - (x->name_len < y->name_len);
}

static int read_entries(kmf_zip *zip, size_t bytes, const char *name, kmf_err *err)
{
    const unsigned char *p = zip->bytes + zip->directory;
    for (size_t i = 0; i < zip->n; i++) {
        size_t n = read_entry(&zip->entries[i], p, bytes);
        if (n == 0)
            return kmf_fail(err, KMF_EMODEL, "%s: damaged: entry %zu of its ZIP directory",
                            name, i + 1);
        p += n;
        bytes -= n;
    }
    qsort(zip->entries, zip->n, sizeof *zip->entries, by_name);
    for (size_t i = 1; i < zip->n; i++)
        if (by_name(&zip->entries[i - 1], &zip->entries[i]) == 0)
            return kmf_fail(err, KMF_EMODEL, "%s: damaged: a name twice in its ZIP directory",
                            name);
    return 0;
}

int kmf_zip_open(kmf_zip *zip, const unsigned char *bytes, size_t len, const char *name,
                 kmf_err *err)
{
    struct end end = {0};
    *zip = (kmf_zip){.bytes = bytes, .len = len};
    if (read_end(&end, bytes, len, name, err) < 0)
        return KMF_EMODEL;
    zip->directory = (size_t)end.begin;
    zip->n = (size_t)end.n;
    zip->entries = kmf_calloc(zip->n, sizeof *zip->entries, err);
    int rc = zip->entries ? read_entries(zip, (size_t)end.bytes, name, err) : KMF_ENOMEM;
    if (rc < 0)
        kmf_zip_free(zip);
    return rc;
}

void kmf_zip_free(kmf_zip *zip)
{
    kmf_free(zip->entries);
    *zip = (kmf_zip){0};
}

const kmf_zip_entry *kmf_zip_find(const kmf_zip *zip, const char *name)
{
    kmf_zip_entry key = {.name = name, .name_len = strlen(name)};
    if (zip->n == 0)
        return NULL;
    return bsearch(&key, zip->entries, zip->n, sizeof *zip->entries, by_name);
}

static int wrong(const kmf_zip_entry *entry, const char *what, const char *name, kmf_err *err)
{
    char shown[KMF_ERR_SHOW];
    return kmf_fail(err, KMF_EMODEL, "%s: entry %s %s", name,
                    kmf_err_show_n(shown, entry->name, entry->name_len), what);
}

int kmf_zip_data(const unsigned char **data, const kmf_zip *zip, const kmf_zip_entry *entry,
                 const char *name, kmf_err *err)
{
    size_t room = zip->directory;
    if (entry->method != STORED || entry->flags & ENCRYPTED)
        return wrong(entry, "is compressed or encrypted; PyTorch stores it as it is", name,
                     err);
    if (entry->stored != entry->len)
        return wrong(entry, "is damaged: two lengths in the ZIP directory", name, err);
    if (entry->header > room || room - entry->header < LOCAL_BYTES + entry->name_len)
        return wrong(entry, "lies beyond the end of the file", name, err);
    const unsigned char *local = zip->bytes + entry->header;
    if (kmf_le_load32(local) != LOCAL_SIGNATURE ||
        kmf_le_load16(local + 26) != entry->name_len ||
        memcmp(local + LOCAL_BYTES, entry->name, entry->name_len) != 0)
        return wrong(entry, "is not where the ZIP directory says", name, err);
    size_t skip = LOCAL_BYTES + entry->name_len + kmf_le_load16(local + 28);
    room -= entry->header;
    if (skip > room || entry->len > room - skip)
        return wrong(entry, "lies beyond the end of the file", name, err);
    *data = local + skip;
    return 0;
}

bool kmf_zip_checks(const kmf_zip_entry *entry, const unsigned char *data)
{
    return kmf_crc32(0, data, entry->len) == entry->checksum;
}
