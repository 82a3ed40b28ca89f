/* SPDX-License-Identifier: MIT */
#include "embed/npy.h"

#include "base/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PREFIX 10

void kmf_npy_header(char header[KMF_NPY_HEADER], uint64_t rows, size_t dim,
                    size_t element_bytes)
{
    size_t n = KMF_NPY_HEADER - PREFIX;
    memset(header, ' ', KMF_NPY_HEADER);
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)n;
    header[9] = 0;
    char text[KMF_NPY_HEADER];
    int len =
        snprintf(text, sizeof text,
                 "{'descr': '<f%zu', 'fortran_order': False, 'shape': (%" PRIu64 ", %zu), }",
                 element_bytes, rows, dim);
    memcpy(header + PREFIX, text, (size_t)len);
    header[KMF_NPY_HEADER - 1] = '\n';
}

int kmf_npy_parse(const char header[KMF_NPY_HEADER], const char *path, uint64_t *rows,
                  size_t *dim, size_t *element_bytes, kmf_err *err)
{
    char text[KMF_NPY_HEADER - PREFIX + 1];
    char again[KMF_NPY_HEADER];
    memcpy(text, header + PREFIX, sizeof text - 1);
    text[sizeof text - 1] = '\0';
    int got = sscanf(
        text, "{'descr': '<f%zu', 'fortran_order': False, 'shape': (%" SCNu64 ", %zu), }",
        element_bytes, rows, dim);
    if (got == 3 && (*element_bytes == 2 || *element_bytes == 4)) {
        kmf_npy_header(again, *rows, *dim, *element_bytes);
        if (memcmp(again, header, sizeof again) == 0)
            return 0;
    }
    return kmf_fail(err, KMF_EMODEL, KMF_NPY_NONE, path);
}
