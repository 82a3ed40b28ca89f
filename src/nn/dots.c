/* SPDX-License-Identifier: MIT */
#include "nn/dots.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "nn/lanes.h"
#include "nn/vec.h"

#include <string.h>

/* Rows of x that go past the rows of w together. */
#define AT_ONCE ((size_t)16)

/* Four rows of w, of which n are there; in place of the others is the last one. */
typedef struct four_rows {
    size_t n;
    const float *row[4];
    const float *rests[4];
    float rest[4][KMF_SUM_LANES];
} four_rows;

/* The terms of a row behind the last multiple of KMF_SUM_LANES, and zeros, which change no sum. */
static inline void take_rest(float rest[KMF_SUM_LANES], const float *row, size_t K)
{
    size_t n = K % KMF_SUM_LANES;
    if (n == 0)
        return;
    memset(rest, 0, KMF_SUM_LANES * sizeof *rest);
    memcpy(rest, row + K - n, n * sizeof *rest);
}

/* w: [n, K], of which four at most are taken. */
static inline void take_four(four_rows *four, const float *w, size_t ld_w, size_t n, size_t K)
{
    four->n = n < 4 ? n : 4;
    for (size_t j = 0; j < 4; j++) {
        four->row[j] = w + (j < four->n ? j : four->n - 1) * ld_w;
        four->rests[j] = four->rest[j];
        take_rest(four->rest[j], four->row[j], K);
    }
}

#define LEVEL baseline
#define TARGET
#define LANES 4
#define ROWS 2
#include "nn/dots_tile.h"

#if KMF_X86_LEVELS
#define LEVEL avx2
#define TARGET KMF_TARGET_AVX2
#define LANES 8
#define ROWS 3
#include "nn/dots_tile.h"

#define LEVEL avx512
#define TARGET KMF_TARGET_AVX512
#define LANES 16
#define ROWS 4
#include "nn/dots_tile.h"
#endif

typedef void product_fn(float *y, size_t ld_y, const float *x, size_t ld_x, const float *w,
                        size_t ld_w, size_t N, size_t R, size_t K);

static product_fn *const levels[] = {
    [KMF_CPU_BASELINE] = product_baseline,
#if KMF_X86_LEVELS
    [KMF_CPU_AVX2] = product_avx2,
    [KMF_CPU_AVX512] = product_avx512,
#endif
};

void kmf_dots_product(float *y, size_t ld_y, const float *x, size_t ld_x, const float *w,
                      size_t ld_w, size_t N, size_t R, size_t K)
{
    product_fn *product = levels[kmf_cpu_vectors()];
    for (size_t n = 0; n < N; n += AT_ONCE)
        product(y + n * ld_y, ld_y, x + n * ld_x, ld_x, w, ld_w, kmf_min(N - n, AT_ONCE), R, K);
}
