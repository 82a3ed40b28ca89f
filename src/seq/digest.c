/* SPDX-License-Identifier: MIT */
/* MD5 by way of htslib, which needs it for CRAM references and so always has it. */
#include "seq/digest.h"

#include "base/err.h"
#include "base/mem.h"

#include <htslib/hts.h>

#define PIECE ((size_t)16 << 20)

int kmf_md5_files(char hex[KMF_MD5_TEXT], const kmf_map *const *files, size_t n, bool keep,
                  const atomic_bool *stop, kmf_err *err)
{
    unsigned char digest[16];
    hts_md5_context *md5 = hts_md5_init();
    if (!md5)
        return kmf_fail(err, KMF_ENOMEM, "out of memory: no room for a digest");
    for (size_t i = 0; i < n; i++)
        for (size_t at = 0; at < files[i]->len && !(stop && *stop); at += PIECE) {
            size_t left = files[i]->len - at;
            size_t m = kmf_min(left, PIECE);
            const unsigned char *piece = files[i]->bytes + at;
            hts_md5_update(md5, piece, m);
            if (!keep)
                kmf_discard((void *)(uintptr_t)piece, m);
        }
    hts_md5_final(digest, md5);
    hts_md5_hex(hex, digest);
    hts_md5_destroy(md5);
    return 0;
}
