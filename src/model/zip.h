/* SPDX-License-Identifier: MIT */
/*
 * A ZIP archive whose entries are stored as they are, as in PyTorch's checkpoints: its entries are
 * found by name and used where they lie. With the ZIP64 fields, so files may be of any size.
 */
#ifndef KMF_ZIP_H
#define KMF_ZIP_H

#include "kmerformer.h"

#include <stdbool.h>

typedef struct kmf_zip_entry {
    const char *name; /* borrowed from the archive [name_len], not terminated */
    size_t name_len;
    size_t header; /* offset of its local header */
    size_t len;    /* bytes as they are read */
    size_t stored; /* bytes in the archive */
    unsigned method;
    unsigned flags;
    uint32_t checksum; /* CRC-32 of the bytes as they are read; not all writers compute it */
} kmf_zip_entry;

typedef struct kmf_zip {
    kmf_zip_entry *entries; /* owned [n], by name */
    size_t n;
    const unsigned char *bytes; /* borrowed [len] */
    size_t len;
    size_t directory; /* offset of the central directory: entries end before it */
} kmf_zip;

/* Do the bytes begin with a local header? */
bool kmf_zip_begins(const unsigned char *bytes, size_t len);

/*
 * Reads the central directory alone. KMF_EMODEL: there is none, or it is damaged, or has a name
 * twice. bytes must outlive *zip; name is the file's, for messages. On failure *zip needs no free.
 */
int kmf_zip_open(kmf_zip *zip, const unsigned char *bytes, size_t len, const char *name,
                 kmf_err *err) KMF_MUST_CHECK;
/* Accepts a zeroed one. */
void kmf_zip_free(kmf_zip *zip);

/* NULL if there is none of this name. */
const kmf_zip_entry *kmf_zip_find(const kmf_zip *zip, const char *name);
/*
 * *data: the entry->len bytes of an entry. KMF_EMODEL if they are compressed or encrypted, or the
 * directory and the entry's own header contradict each other; name is the file's.
 */
int kmf_zip_data(const unsigned char **data, const kmf_zip *zip, const kmf_zip_entry *entry,
                 const char *name, kmf_err *err) KMF_MUST_CHECK;
/* Is the checksum that of the entry's data? */
bool kmf_zip_checks(const kmf_zip_entry *entry, const unsigned char *data);

#endif
