/* SPDX-License-Identifier: MIT */
#include "embed/npy.h"

#include "base/err.h"
#include "base/le.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define PREFIX 10
#define LITERAL_MOST ((size_t)4096) /* bytes of one for two numbers */
#define NONE "%s: not an array [rows, columns] of float16, float32 or float64 in C order"

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

/* Behind 'key' : in the literal; NULL: there is none. */
static const char *value_of(const char *literal, const char *key)
{
    const char *at = strstr(literal, key);
    if (!at)
        return NULL;
    at += strlen(key);
    at += strspn(at, " ");
    return *at == ':' ? at + 1 + strspn(at + 1, " ") : NULL;
}

/* Of a little-endian float; 0: it is of another type. */
static size_t float_bytes(const char *type)
{
    static const char *const types[] = {"'<f2'", "'<f4'", "'<f8'"};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strncmp(type, types[i], strlen(types[i])) == 0)
            return (size_t)2 << i;
    return 0;
}

static bool read_literal(const char *literal, uint64_t *rows, size_t *dim,
                         size_t *element_bytes)
{
    const char *type = value_of(literal, "'descr'");
    const char *order = value_of(literal, "'fortran_order'");
    const char *shape = value_of(literal, "'shape'");
    int end = 0;
    if (!type || !order || !shape || strncmp(order, "False", 5) != 0)
        return false;
    *element_bytes = float_bytes(type);
    (void)sscanf(shape, "( %" SCNu64 " , %zu %n", rows, dim, &end);
    const char *rest = shape + end;
    rest += *rest == ',';
    rest += strspn(rest, " ");
    return *element_bytes > 0 && end > 0 && *rest == ')' && !strchr(shape, '-');
}

int kmf_npy_read(const unsigned char *bytes, size_t len, const char *path, uint64_t *rows,
                 size_t *dim, size_t *element_bytes, size_t *begin, kmf_err *err)
{
    char literal[LITERAL_MOST + 1];
    if (len < PREFIX + 2 || memcmp(bytes, "\x93NUMPY", 6) != 0 || bytes[6] < 1 || bytes[6] > 3)
        return kmf_fail(err, KMF_EMODEL, NONE, path);
    size_t prefix = bytes[6] == 1 ? PREFIX : PREFIX + 2;
    size_t n = bytes[6] == 1 ? kmf_le_load16(bytes + 8) : kmf_le_load32(bytes + 8);
    if (n > len - prefix || n > LITERAL_MOST)
        return kmf_fail(err, KMF_EMODEL, NONE, path);
    memcpy(literal, bytes + prefix, n);
    *begin = prefix + n;
    while (n > 0 && (literal[n - 1] == '\n' || literal[n - 1] == ' '))
        n--;
    literal[n] = '\0';
    if (read_literal(literal, rows, dim, element_bytes))
        return 0;
    char shown[KMF_ERR_SHOW];
    return kmf_fail(err, KMF_EMODEL,
                    NONE ": %s; numpy.ascontiguousarray(x, \"f4\") makes one, of two "
                         "dimensions",
                    path, kmf_err_show(shown, literal));
}
