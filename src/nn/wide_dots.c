/* SPDX-License-Identifier: MIT */
#include "nn/wide_dots.h"

#include "base/cpu.h"

#include <string.h>

#define ROWS 4 /* of w that share each load of x, and hide the additions' latency */

typedef double wide4 __attribute__((vector_size(32)));

/* By a loop, of which gcc makes one instruction, as it does not of __builtin_convertvector. */
static KMF_INLINE void widen(wide4 *to, const float *p)
{
    double four[4];
    for (size_t j = 0; j < 4; j++)
        four[j] = (double)p[j];
    memcpy(to, four, sizeof four);
}

/* rows is a constant wherever this is inlined. */
static KMF_INLINE void dot_rows(size_t rows, double *y, const float *x, const float *w,
                                size_t K)
{
    wide4 sum[ROWS] = {{0}};
    size_t k = 0;
    for (; k + 4 <= K; k += 4) {
        wide4 right;
        widen(&right, x + k);
        KMF_UNROLL(4)
        for (size_t i = 0; i < rows; i++) {
            wide4 left;
            widen(&left, w + i * K + k);
            sum[i] += left * right;
        }
    }
    for (; k < K; k++)
        for (size_t i = 0; i < rows; i++)
            sum[i][0] += (double)w[i * K + k] * (double)x[k];
    for (size_t i = 0; i < rows; i++)
        y[i] = (sum[i][0] + sum[i][1]) + (sum[i][2] + sum[i][3]);
}

static KMF_INLINE void kmf_wide_dots_body(double *y, const float *x, const float *w, size_t R,
                                          size_t K)
{
    size_t r = 0;
    for (; r + ROWS <= R; r += ROWS)
        dot_rows(ROWS, y + r, x, w + r * K, K);
    for (; r < R; r++)
        dot_rows(1, y + r, x, w + r * K, K);
}

KMF_CLONES(kmf_wide_dots, (double *y, const float *x, const float *w, size_t R, size_t K),
           (y, x, w, R, K))
