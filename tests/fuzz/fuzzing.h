/* SPDX-License-Identifier: MIT */
/* What fuzz targets have in common. */
#ifndef KMF_FUZZING_H
#define KMF_FUZZING_H

#include "kmerformer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void must(int condition)
{
    if (!condition)
        abort();
}

/* What is refused is refused as a file, in one line. */
static inline void must_tell(const kmf_err *err)
{
    must(err->code == KMF_EMODEL && err->msg[0] != '\0' && strchr(err->msg, '\n') == NULL);
}

/* Where `mark`, behind which another file begins, stands in an input; size: nowhere. */
static inline size_t find_mark(const uint8_t *data, size_t size, const char *mark)
{
    size_t n = strlen(mark);
    for (size_t i = 0; i + n <= size; i++)
        if (memcmp(data + i, mark, n) == 0)
            return i;
    return size;
}

#endif
