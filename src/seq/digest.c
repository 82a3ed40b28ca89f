/* SPDX-License-Identifier: MIT */
/* MD5 of a file by way of htslib, which needs it for CRAM references and so always has it. */
#include "seq/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mem.h"

#include <htslib/hts.h>

#define BLOCK ((size_t)1 << 18)

int kmf_file_md5(char hex[33], const char *path, kmf_err *err)
{
    int status = KMF_EIO;
    char *block = NULL;
    hts_md5_context *md5 = NULL;
    unsigned char digest[16];
    ssize_t got;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(errno));
    block = kmf_malloc(BLOCK, 1, err);
    md5 = block ? hts_md5_init() : NULL;
    if (!md5) {
        status = kmf_fail(err, KMF_ENOMEM, "out of memory: no room for a digest");
        goto out;
    }
    while ((got = read(fd, block, BLOCK)) != 0) {
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            kmf_fail(err, KMF_EIO, "%s: %s", path, strerror(errno));
            goto out;
        }
        hts_md5_update(md5, block, (unsigned long)got);
    }
    hts_md5_final(digest, md5);
    hts_md5_hex(hex, digest);
    status = 0;
out:
    if (md5)
        hts_md5_destroy(md5);
    kmf_free(block);
    close(fd);
    return status;
}
