/* SPDX-License-Identifier: MIT */
#include "embed/vector.h"

#include "base/cpu.h"
#include "base/half.h"

#include <math.h>

#define FLOAT_EXPONENT 0x7f800000u /* all ones: infinite or NaN */
#define FIRST_SHARE (1.0 / 5)      /* of a squared length of 1, where there are two parts */

static KMF_INLINE void kmf_vector_mean_body(float *restrict vector,
                                            const double *restrict total, double weight,
                                            size_t dim)
{
    for (size_t d = 0; d < dim; d++)
        vector[d] = (float)(total[d] / weight);
}

KMF_CLONES(kmf_vector_mean, (float *vector, const double *total, double weight, size_t dim),
           (vector, total, weight, dim))

static void l2_normalise(float *vector, size_t dim, double length)
{
    double square = 0;
    for (size_t d = 0; d < dim; d++)
        square += (double)vector[d] * (double)vector[d];
    if (square <= 0)
        return;
    double scale = length / sqrt(square);
    for (size_t d = 0; d < dim; d++)
        vector[d] = (float)((double)vector[d] * scale);
}

void kmf_vector_norm(float *vector, size_t dim, size_t first, kmf_norm norm)
{
    if (norm != KMF_NORM_L2)
        return;
    if (first > 0)
        l2_normalise(vector, first, sqrt(FIRST_SHARE));
    l2_normalise(vector + first, dim - first, first > 0 ? sqrt(1 - FIRST_SHARE) : 1);
}

static KMF_INLINE void kmf_vector_finite_body(const float *vector, size_t dim, bool *finite)
{
    unsigned bad = 0;
    for (size_t d = 0; d < dim; d++)
        bad |= (kmf_bits_of(vector[d]) & FLOAT_EXPONENT) == FLOAT_EXPONENT;
    *finite = !bad;
}

KMF_CLONES(kmf_vector_finite, (const float *vector, size_t dim, bool *finite),
           (vector, dim, finite))
