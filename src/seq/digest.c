/* SPDX-License-Identifier: MIT */
/* MD5 by way of htslib, which needs it for CRAM references and so always has it. */
#include "seq/digest.h"

#include "base/err.h"

#include <htslib/hts.h>

int kmf_md5(char hex[KMF_MD5_TEXT], const void *bytes, size_t n, kmf_err *err)
{
    unsigned char digest[16];
    hts_md5_context *md5 = hts_md5_init();
    if (!md5)
        return kmf_fail(err, KMF_ENOMEM, "out of memory: no room for a digest");
    hts_md5_update(md5, bytes, n);
    hts_md5_final(digest, md5);
    hts_md5_hex(hex, digest);
    hts_md5_destroy(md5);
    return 0;
}
