/* SPDX-License-Identifier: MIT */
/* MD5 by way of htslib, which needs it for CRAM references and so always has it. */
#include "seq/digest.h"

#include "base/err.h"
#include "base/mem.h"

#include <htslib/hts.h>

#define PIECE ((size_t)16 << 20)

static hts_md5_context *begin(kmf_err *err)
{
    hts_md5_context *md5 = hts_md5_init();
    if (!md5)
        kmf_fail(err, KMF_ENOMEM, "out of memory: no room for a digest");
    return md5;
}

static void end(char hex[KMF_MD5_TEXT], hts_md5_context *md5)
{
    unsigned char digest[16];
    hts_md5_final(digest, md5);
    hts_md5_hex(hex, digest);
    hts_md5_destroy(md5);
}

int kmf_md5_files(char hex[KMF_MD5_TEXT], const kmf_map *const *files, size_t n, bool keep,
                  const atomic_bool *stop, kmf_err *err)
{
    hts_md5_context *md5 = begin(err);
    if (!md5)
        return KMF_ENOMEM;
    for (size_t i = 0; i < n; i++)
        for (size_t at = 0; at < files[i]->len && !(stop && *stop); at += PIECE) {
            size_t left = files[i]->len - at;
            size_t m = kmf_min(left, PIECE);
            const unsigned char *piece = files[i]->bytes + at;
            hts_md5_update(md5, piece, m);
            if (!keep)
                kmf_discard((void *)(uintptr_t)piece, m);
        }
    end(hex, md5);
    return 0;
}
