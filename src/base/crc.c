/* SPDX-License-Identifier: MIT */
#include "base/crc.h"

#ifdef KMF_ISAL
#include <isa-l.h>
#else
#include <zlib.h>
#endif

uint32_t kmf_crc32(uint32_t crc, const void *bytes, size_t n)
{
    if (n == 0)
        return crc;
#ifdef KMF_ISAL
    return crc32_gzip_refl(crc, bytes, n);
#else
    return (uint32_t)crc32_z(crc, bytes, n);
#endif
}
