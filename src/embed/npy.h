/* SPDX-License-Identifier: MIT */
/*
 * NumPy's format 1.0 for two-dimensional little-endian arrays in C order:
 *
 *   "\x93NUMPY" 01 00  uint16 n  then n bytes: a Python literal
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 256), } padded with blanks, '\n' last
 *
 * magic, version, n and text together fill a multiple of 64 bytes. The header written here always
 * fills KMF_NPY_HEADER bytes, so that the number of rows can be put in when it is known.
 * (numpy.lib.format, NEP 1.)
 */
#ifndef KMF_NPY_H
#define KMF_NPY_H

#include "kmerformer.h"

#define KMF_NPY_HEADER 128
#define KMF_COLUMNS_MAX ((size_t)1 << 24) /* of rows that are read or written */

/* element_bytes: 4 for float32, 2 for float16. */
void kmf_npy_header(char header[KMF_NPY_HEADER], uint64_t rows, size_t dim,
                    size_t element_bytes);

/*
 * Reads it back, and what other programs write: float64, too, versions 1 to 3, any length and
 * spacing of the literal. bytes: [len] of the file   *begin: where its numbers do. KMF_EMODEL, with
 * path in the message: it is none.
 */
int kmf_npy_read(const unsigned char *bytes, size_t len, const char *path, uint64_t *rows,
                 size_t *dim, size_t *element_bytes, size_t *begin,
                 kmf_err *err) KMF_MUST_CHECK;

#endif
