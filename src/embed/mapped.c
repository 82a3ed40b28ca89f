/* SPDX-License-Identifier: MIT */
#include "embed/mapped.h"

#include "base/err.h"
#include "base/half.h"
#include "base/le.h"
#include "base/mem.h"
#include "embed/npy.h"
#include "embed/vector.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

int kmf_mapped_rows_open(kmf_mapped_rows *rows, const char *path, kmf_err *err)
{
    size_t bytes;
    *rows = (kmf_mapped_rows){.path = path};
    int status = kmf_map_open(&rows->map, path, err);
    if (status < 0)
        return status;
    status = kmf_npy_read(rows->map.bytes, rows->map.len, path, &rows->n, &rows->dim,
                          &rows->element_bytes, &rows->begin, err);
    if (status < 0)
        return status;
    if (rows->dim == 0 || rows->dim > KMF_COLUMNS_MAX)
        return kmf_fail(err, KMF_EMODEL, "%s: its rows have %zu columns", path, rows->dim);
    if (!kmf_mul(rows->dim, rows->element_bytes, &bytes) || !kmf_mul(bytes, rows->n, &bytes) ||
        bytes != rows->map.len - rows->begin)
        return kmf_fail(err, KMF_EMODEL,
                        "%s: it has %zu bytes, not those of %" PRIu64 " rows of %zu columns",
                        path, rows->map.len, rows->n, rows->dim);
    return 0;
}

void kmf_mapped_rows_close(kmf_mapped_rows *rows)
{
    kmf_map_close(&rows->map);
}

static float double_at(const unsigned char *p)
{
    double value;
    uint64_t bits = kmf_le_load64(p);
    memcpy(&value, &bits, sizeof value);
    return (float)value;
}

bool kmf_mapped_rows_read(const kmf_mapped_rows *rows, uint64_t i, float *x)
{
    size_t dim = rows->dim;
    bool finite;
    const unsigned char *p =
        rows->map.bytes + rows->begin + (size_t)i * dim * rows->element_bytes;
    assert(i < rows->n);
    if (rows->element_bytes == 2)
        for (size_t j = 0; j < dim; j++)
            x[j] = kmf_f16_to_f32(kmf_le_load16(p + 2 * j));
    else if (rows->element_bytes == 4)
        for (size_t j = 0; j < dim; j++)
            x[j] = kmf_float_of(kmf_le_load32(p + 4 * j));
    else
        for (size_t j = 0; j < dim; j++)
            x[j] = double_at(p + 8 * j);
    kmf_vector_finite(x, dim, &finite);
    return finite;
}

bool kmf_row_to_unit(float *x, size_t dim)
{
    double squares = 0;
    for (size_t j = 0; j < dim; j++)
        squares += (double)x[j] * (double)x[j];
    if (!isfinite(squares) || squares == 0)
        return false;
    double length = sqrt(squares);
    for (size_t j = 0; j < dim; j++)
        x[j] = (float)((double)x[j] / length);
    return true;
}

bool kmf_mapped_rows_get(const kmf_mapped_rows *rows, uint64_t i, bool unit, float *x)
{
    return kmf_mapped_rows_read(rows, i, x) && (!unit || kmf_row_to_unit(x, rows->dim));
}
