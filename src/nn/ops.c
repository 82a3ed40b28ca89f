/* SPDX-License-Identifier: MIT */
/*
 * Everything of the encoder that is not a product, in loops a compiler can turn into vector
 * code, compiled for each processor level (base/cpu.h).
 *
 * Sums over a row are taken in lanes (nn/lanes.h). The layer norm goes over a row once for the
 * mean, once for the sums of d = x - mean and of d^2, which mend the mean and give the variance,
 *
 *   mean' = mean + E[d]   var = E[d^2] - E[d]^2     E[d] is what rounding left
 *
 * and once for the result: with an eps of 1e-12 the formula E[x^2] - E[x]^2 would be all rounding
 * error where a row is nearly constant. It goes over NORM_ROWS rows before the next pass begins:
 * what ends a sum is a chain of additions, and the next row's sum hides it.
 */
#include "nn/ops.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "nn/lanes.h"
#include "nn/vmath.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#define NORM_ROWS 8

/* ---------------------------------------------------------------- layer norm ------------- */

/* The sums of d = x[i] - about and of d^2. */
static KMF_INLINE kmf_real sums_about(kmf_real *squares, const kmf_real *x, kmf_real about,
                                      size_t D)
{
    kmf_real part[KMF_SUM_LANES] = {0};
    kmf_real square[KMF_SUM_LANES] = {0};
    size_t i = 0;
    for (; i + KMF_SUM_LANES <= D; i += KMF_SUM_LANES)
        for (size_t l = 0; l < KMF_SUM_LANES; l++) {
            kmf_real d = x[i + l] - about;
            part[l] += d;
            square[l] += d * d;
        }
    for (size_t l = 0; i + l < D; l++) {
        kmf_real d = x[i + l] - about;
        part[l] += d;
        square[l] += d * d;
    }
    *squares = kmf_sum_lanes(square);
    return kmf_sum_lanes(part);
}

/* mean[n] holds the sum of row n, and becomes its mean; scale[n] = 1 / sqrt(var + eps). */
static KMF_INLINE void moments(kmf_real *mean, kmf_real *scale, const kmf_real *x, size_t ld,
                               double eps, size_t rows, size_t D)
{
    const double share = 1.0 / (double)D;
    for (size_t n = 0; n < rows; n++) {
        kmf_real about = mean[n] * (kmf_real)share;
        kmf_real squares;
        double rest =
            (double)sums_about(&squares, x + n * ld, about, D) * share; /* of the mean */
        double var = (double)squares * share - rest * rest;
        var = var < 0 ? 0 : var;
        mean[n] = about + (kmf_real)rest;
        /* squares that overflow must be seen: 1 / inf would leave the bias and look sound */
        scale[n] = var <= DBL_MAX ? (kmf_real)(1.0 / sqrt(var + eps)) : KMF_REAL(NAN);
    }
}

/* y [rows, D], which may be x. */
static KMF_INLINE void normalise(kmf_real *y, size_t ld_y, const kmf_real *x, size_t ld_x,
                                 const kmf_real *mean, const kmf_real *scale,
                                 const kmf_real *weight, const kmf_real *bias, size_t rows,
                                 size_t D)
{
    for (size_t n = 0; n < rows; n++) {
        kmf_real *to = y + n * ld_y;
        const kmf_real *from = x + n * ld_x;
        kmf_real m = mean[n];
        kmf_real s = scale[n];
        KMF_INDEPENDENT
        for (size_t i = 0; i < D; i++)
            to[i] = (from[i] - m) * s * weight[i] + bias[i];
    }
}

static KMF_INLINE void kmf_layernorm_copy_forward_body(kmf_real *y, size_t ld_y,
                                                       const kmf_real *x, size_t ld_x,
                                                       const kmf_real *weight,
                                                       const kmf_real *bias, double eps,
                                                       size_t N, size_t D)
{
    kmf_real mean[NORM_ROWS], scale[NORM_ROWS];
    for (size_t n = 0; n < N; n += NORM_ROWS) {
        size_t rows = kmf_min(N - n, NORM_ROWS);
        const kmf_real *from = x + n * ld_x;
        for (size_t i = 0; i < rows; i++)
            mean[i] = kmf_sum_row(from + i * ld_x, D);
        moments(mean, scale, from, ld_x, eps, rows, D);
        normalise(y + n * ld_y, ld_y, from, ld_x, mean, scale, weight, bias, rows, D);
    }
}

KMF_CLONES(kmf_layernorm_copy_forward,
           (kmf_real * y, size_t ld_y, const kmf_real *x, size_t ld_x, const kmf_real *weight,
            const kmf_real *bias, double eps, size_t N, size_t D),
           (y, ld_y, x, ld_x, weight, bias, eps, N, D))

void kmf_layernorm_forward(kmf_real *x, size_t ld, const kmf_real *weight, const kmf_real *bias,
                           double eps, size_t N, size_t D)
{
    kmf_layernorm_copy_forward(x, ld, x, ld, weight, bias, eps, N, D);
}

/* One row of kmf_layernorm_backward: what is summed, then dx, which may be dy. */
static KMF_INLINE void layernorm_row_backward(kmf_real *dx, kmf_real *restrict dweight,
                                              kmf_real *restrict dbias, const kmf_real *dy,
                                              const kmf_real *x, const kmf_real *weight,
                                              double eps, size_t D)
{
    kmf_real scale;
    kmf_real mean = kmf_sum_row(x, D);
    moments(&mean, &scale, x, D, eps, 1, D);
    kmf_real g_part[KMF_SUM_LANES] = {0};
    kmf_real gz_part[KMF_SUM_LANES] = {0};
    for (size_t i = 0; i < D; i += KMF_SUM_LANES) {
        size_t lanes = kmf_min(D - i, KMF_SUM_LANES);
        for (size_t l = 0; l < lanes; l++) {
            kmf_real z = (x[i + l] - mean) * scale;
            kmf_real g = dy[i + l] * weight[i + l];
            g_part[l] += g;
            gz_part[l] += g * z;
            dweight[i + l] += dy[i + l] * z;
            dbias[i + l] += dy[i + l];
        }
    }
    kmf_real g_mean = kmf_sum_lanes(g_part) / (kmf_real)D;
    kmf_real gz_mean = kmf_sum_lanes(gz_part) / (kmf_real)D;
    KMF_INDEPENDENT
    for (size_t i = 0; i < D; i++) {
        kmf_real z = (x[i] - mean) * scale;
        dx[i] = (dy[i] * weight[i] - g_mean - z * gz_mean) * scale;
    }
}

static KMF_INLINE void
kmf_layernorm_backward_body(kmf_real *dx, size_t ld_dx, kmf_real *dweight, kmf_real *dbias,
                            const kmf_real *dy, size_t ld_dy, const kmf_real *x, size_t ld_x,
                            const kmf_real *weight, double eps, size_t N, size_t D)
{
    for (size_t n = 0; n < N; n++)
        layernorm_row_backward(dx + n * ld_dx, dweight, dbias, dy + n * ld_dy, x + n * ld_x,
                               weight, eps, D);
}

KMF_CLONES(kmf_layernorm_backward,
           (kmf_real * dx, size_t ld_dx, kmf_real *dweight, kmf_real *dbias, const kmf_real *dy,
            size_t ld_dy, const kmf_real *x, size_t ld_x, const kmf_real *weight, double eps,
            size_t N, size_t D),
           (dx, ld_dx, dweight, dbias, dy, ld_dy, x, ld_x, weight, eps, N, D))

/* ---------------------------------------------------------------- residual --------------- */

static KMF_INLINE void add_row(kmf_real *restrict x, const kmf_real *restrict y,
                               const kmf_real *y_bias, size_t D)
{
    for (size_t i = 0; i < D; i++)
        x[i] += y[i] + y_bias[i];
}

/* The same, and the sum of the row that x becomes. */
static KMF_INLINE kmf_real add_row_sum(kmf_real *restrict x, const kmf_real *restrict y,
                                       const kmf_real *restrict y_bias, size_t D)
{
    kmf_real part[KMF_SUM_LANES] = {0};
    size_t i = 0;
    for (; i + KMF_SUM_LANES <= D; i += KMF_SUM_LANES)
        for (size_t l = 0; l < KMF_SUM_LANES; l++) {
            x[i + l] += y[i + l] + y_bias[i + l];
            part[l] += x[i + l];
        }
    for (size_t l = 0; i + l < D; l++) {
        x[i + l] += y[i + l] + y_bias[i + l];
        part[l] += x[i + l];
    }
    return kmf_sum_lanes(part);
}

static KMF_INLINE void
kmf_residual_layernorm_forward_body(kmf_real *x, size_t ld_x, const kmf_real *y, size_t ld_y,
                                    const kmf_real *y_bias, const kmf_real *weight,
                                    const kmf_real *bias, double eps, size_t N, size_t D)
{
    kmf_real mean[NORM_ROWS], scale[NORM_ROWS];
    for (size_t n = 0; n < N; n += NORM_ROWS) {
        size_t rows = kmf_min(N - n, NORM_ROWS);
        kmf_real *sum = x + n * ld_x;
        for (size_t i = 0; i < rows; i++)
            mean[i] = add_row_sum(sum + i * ld_x, y + (n + i) * ld_y, y_bias, D);
        moments(mean, scale, sum, ld_x, eps, rows, D);
        normalise(sum, ld_x, sum, ld_x, mean, scale, weight, bias, rows, D);
    }
}

KMF_CLONES(kmf_residual_layernorm_forward,
           (kmf_real * x, size_t ld_x, const kmf_real *y, size_t ld_y, const kmf_real *y_bias,
            const kmf_real *weight, const kmf_real *bias, double eps, size_t N, size_t D),
           (x, ld_x, y, ld_y, y_bias, weight, bias, eps, N, D))

static KMF_INLINE void kmf_residual_forward_body(kmf_real *x, size_t ld_x, const kmf_real *y,
                                                 size_t ld_y, const kmf_real *y_bias, size_t N,
                                                 size_t D)
{
    for (size_t n = 0; n < N; n++) {
        kmf_real *restrict sum = x + n * ld_x;
        const kmf_real *restrict add = y + n * ld_y;
        if (y_bias)
            add_row(sum, add, y_bias, D);
        else
            for (size_t i = 0; i < D; i++)
                sum[i] += add[i];
    }
}

KMF_CLONES(kmf_residual_forward,
           (kmf_real * x, size_t ld_x, const kmf_real *y, size_t ld_y, const kmf_real *y_bias,
            size_t N, size_t D),
           (x, ld_x, y, ld_y, y_bias, N, D))

/* ---------------------------------------------------------------- dot products --------- */

static KMF_INLINE void kmf_dots_forward_body(kmf_real *dots, const kmf_real *a, size_t ld_a,
                                             const kmf_real *b, size_t ld_b, size_t rows,
                                             size_t K)
{
    for (size_t r = 0; r < rows; r++) {
        const kmf_real *x = a + r * ld_a;
        const kmf_real *y = b + r * ld_b;
        kmf_real part[KMF_SUM_LANES] = {0};
        size_t i = 0;
        for (; i + KMF_SUM_LANES <= K; i += KMF_SUM_LANES)
            for (size_t l = 0; l < KMF_SUM_LANES; l++)
                part[l] += x[i + l] * y[i + l];
        for (size_t l = 0; i + l < K; l++)
            part[l] += x[i + l] * y[i + l];
        dots[r] = kmf_sum_lanes(part);
    }
}

KMF_CLONES(kmf_dots_forward,
           (kmf_real * dots, const kmf_real *a, size_t ld_a, const kmf_real *b, size_t ld_b,
            size_t rows, size_t K),
           (dots, a, ld_a, b, ld_b, rows, K))

/* ---------------------------------------------------------------- bias, activation ------- */

static KMF_INLINE void kmf_bias_forward_body(kmf_real *x, size_t ld, const kmf_real *bias,
                                             size_t N, size_t D)
{
    for (size_t n = 0; n < N; n++) {
        kmf_real *restrict row = x + n * ld;
        for (size_t i = 0; i < D; i++)
            row[i] += bias[i];
    }
}

KMF_CLONES(kmf_bias_forward,
           (kmf_real * x, size_t ld, const kmf_real *bias, size_t N, size_t D),
           (x, ld, bias, N, D))

static KMF_INLINE void kmf_bias_backward_body(kmf_real *restrict dbias, const kmf_real *dy,
                                              size_t ld, size_t N, size_t D)
{
    size_t n = 0;
    for (; n + 4 <= N; n += 4) {
        const kmf_real *row = dy + n * ld;
        for (size_t i = 0; i < D; i++)
            dbias[i] = dbias[i] + row[i] + row[ld + i] + row[2 * ld + i] + row[3 * ld + i];
    }
    for (; n < N; n++)
        for (size_t i = 0; i < D; i++)
            dbias[i] += dy[n * ld + i];
}

KMF_CLONES(kmf_bias_backward,
           (kmf_real * dbias, const kmf_real *dy, size_t ld, size_t N, size_t D),
           (dbias, dy, ld, N, D))

/* act(x) or, with slope, act'(x). Both choices are constants where this is inlined. */
static KMF_INLINE kmf_real activate(bool fused, kmf_activation activation, bool slope,
                                    kmf_real x)
{
    switch (activation) {
    case KMF_GELU:
        return slope ? kmf_gelu_slope(fused, x) : kmf_gelu(fused, x);
    case KMF_GELU_TANH:
        return slope ? kmf_gelu_tanh_slope(fused, x) : kmf_gelu_tanh(fused, x);
    case KMF_SILU:
        return slope ? kmf_silu_slope(fused, x) : kmf_silu(fused, x);
    case KMF_RELU:
        break;
    }
    return slope ? kmf_relu_slope(x) : kmf_relu(x);
}

/* rows(fused, activation, ...), inlined once for each activation. */
#define BY_ACTIVATION(rows, activation, ...)         \
    do {                                             \
        if ((activation) == KMF_GELU)                \
            rows(fused, KMF_GELU, __VA_ARGS__);      \
        else if ((activation) == KMF_GELU_TANH)      \
            rows(fused, KMF_GELU_TANH, __VA_ARGS__); \
        else if ((activation) == KMF_SILU)           \
            rows(fused, KMF_SILU, __VA_ARGS__);      \
        else                                         \
            rows(fused, KMF_RELU, __VA_ARGS__);      \
    } while (0)

static KMF_INLINE void activate_rows(bool fused, kmf_activation activation, kmf_real *y,
                                     size_t ld_y, const kmf_real *x, size_t ld_x, size_t N,
                                     size_t D)
{
    for (size_t n = 0; n < N; n++) {
        kmf_real *to = y + n * ld_y;
        const kmf_real *from = x + n * ld_x;
        KMF_INDEPENDENT
        for (size_t i = 0; i < D; i++)
            to[i] = activate(fused, activation, false, from[i]);
    }
}

static KMF_INLINE void kmf_activation_forward_body(bool fused, kmf_real *y, size_t ld_y,
                                                   const kmf_real *x, size_t ld_x,
                                                   kmf_activation activation, size_t N,
                                                   size_t D)
{
    BY_ACTIVATION(activate_rows, activation, y, ld_y, x, ld_x, N, D);
}

KMF_CLONES_FUSED(kmf_activation_forward,
                 (kmf_real * y, size_t ld_y, const kmf_real *x, size_t ld_x,
                  kmf_activation activation, size_t N, size_t D),
                 (y, ld_y, x, ld_x, activation, N, D))

/* y NULL: act(x) is not wanted. */
static KMF_INLINE void activate_rows_backward(bool fused, kmf_activation activation,
                                              kmf_real *dx, size_t ld_dx, kmf_real *y,
                                              size_t ld_y, const kmf_real *dy, size_t ld_dy,
                                              const kmf_real *x, size_t ld_x, size_t N,
                                              size_t D)
{
    for (size_t n = 0; n < N; n++) {
        kmf_real *to = dx + n * ld_dx;
        const kmf_real *from = dy + n * ld_dy;
        const kmf_real *at = x + n * ld_x;
        if (!y) {
            KMF_INDEPENDENT
            for (size_t i = 0; i < D; i++)
                to[i] = from[i] * activate(fused, activation, true, at[i]);
            continue;
        }
        kmf_real *forward = y + n * ld_y;
        KMF_INDEPENDENT
        for (size_t i = 0; i < D; i++) {
            kmf_real value = at[i];
            forward[i] = activate(fused, activation, false, value);
            to[i] = from[i] * activate(fused, activation, true, value);
        }
    }
}

static KMF_INLINE void kmf_activation_backward_both_body(
    bool fused, kmf_real *dx, size_t ld_dx, kmf_real *y, size_t ld_y, const kmf_real *dy,
    size_t ld_dy, const kmf_real *x, size_t ld_x, kmf_activation activation, size_t N, size_t D)
{
    BY_ACTIVATION(activate_rows_backward, activation, dx, ld_dx, y, ld_y, dy, ld_dy, x, ld_x, N,
                  D);
}

KMF_CLONES_FUSED(kmf_activation_backward_both,
                 (kmf_real * dx, size_t ld_dx, kmf_real *y, size_t ld_y, const kmf_real *dy,
                  size_t ld_dy, const kmf_real *x, size_t ld_x, kmf_activation activation,
                  size_t N, size_t D),
                 (dx, ld_dx, y, ld_y, dy, ld_dy, x, ld_x, activation, N, D))

void kmf_activation_backward(kmf_real *dx, size_t ld_dx, const kmf_real *dy, size_t ld_dy,
                             const kmf_real *x, size_t ld_x, kmf_activation activation,
                             size_t N, size_t D)
{
    kmf_activation_backward_both(dx, ld_dx, NULL, 0, dy, ld_dy, x, ld_x, activation, N, D);
}

static KMF_INLINE void gate_rows(bool fused, kmf_activation activation, kmf_real *y,
                                 size_t ld_y, const kmf_real *x, size_t ld_x, size_t N,
                                 size_t F)
{
    for (size_t n = 0; n < N; n++) {
        kmf_real *to = y + n * ld_y;
        const kmf_real *gate = x + n * ld_x;
        KMF_INDEPENDENT
        for (size_t i = 0; i < F; i++)
            to[i] = activate(fused, activation, false, gate[i]) * gate[F + i];
    }
}

static KMF_INLINE void kmf_gate_forward_body(bool fused, kmf_real *y, size_t ld_y,
                                             const kmf_real *x, size_t ld_x,
                                             kmf_activation activation, size_t N, size_t F)
{
    BY_ACTIVATION(gate_rows, activation, y, ld_y, x, ld_x, N, F);
}

KMF_CLONES_FUSED(kmf_gate_forward,
                 (kmf_real * y, size_t ld_y, const kmf_real *x, size_t ld_x,
                  kmf_activation activation, size_t N, size_t F),
                 (y, ld_y, x, ld_x, activation, N, F))

void kmf_bias_tanh_forward(kmf_real *x, size_t ld, const kmf_real *bias, size_t N, size_t D)
{
    for (size_t n = 0; n < N; n++)
        for (size_t i = 0; i < D; i++)
            x[n * ld + i] = (kmf_real)tanh((double)(x[n * ld + i] + bias[i]));
}

/* ---------------------------------------------------------------- embedding -------------- */

static KMF_INLINE void gather_row(kmf_real *restrict y, const kmf_real *restrict token,
                                  const kmf_real *restrict type0, size_t E)
{
    for (size_t i = 0; i < E; i++)
        y[i] = token[i] + type0[i];
}

static KMF_INLINE void kmf_gather_forward_body(kmf_real *y, size_t ld, const int32_t *ids,
                                               const kmf_real *word, const kmf_real *type0,
                                               size_t N, size_t E)
{
    for (size_t n = 0; n < N; n++)
        if (type0)
            gather_row(y + n * ld, word + (size_t)ids[n] * E, type0, E);
        else
            memcpy(y + n * ld, word + (size_t)ids[n] * E, E * sizeof *y);
}

KMF_CLONES(kmf_gather_forward,
           (kmf_real * y, size_t ld, const int32_t *ids, const kmf_real *word,
            const kmf_real *type0, size_t N, size_t E),
           (y, ld, ids, word, type0, N, E))

static KMF_INLINE void kmf_gather_backward_body(kmf_real *dword, const int32_t *ids,
                                                const kmf_real *dy, size_t ld, size_t beg,
                                                size_t end, size_t N, size_t E)
{
    for (size_t n = 0; n < N; n++) {
        kmf_real *restrict token = dword + (size_t)ids[n] * E;
        const kmf_real *restrict row = dy + n * ld;
        for (size_t i = beg; i < end; i++)
            token[i] += row[i];
    }
}

KMF_CLONES(kmf_gather_backward,
           (kmf_real * dword, const int32_t *ids, const kmf_real *dy, size_t ld, size_t beg,
            size_t end, size_t N, size_t E),
           (dword, ids, dy, ld, beg, end, N, E))

/* ---------------------------------------------------------------- rotary ----------------- */

void kmf_rotary_table(kmf_real *cos_t, kmf_real *sin_t, double base, size_t beg, size_t end,
                      size_t K)
{
    assert(K % 2 == 0);
    for (size_t i = 0; i < K / 2; i++) {
        double frequency = pow(base, -2.0 * (double)i / (double)K);
        for (size_t t = beg; t < end; t++) {
            cos_t[t * (K / 2) + i] = (kmf_real)cos((double)t * frequency);
            sin_t[t * (K / 2) + i] = (kmf_real)sin((double)t * frequency);
        }
    }
}

/* By the angles, or back by them, which must be a constant where this is inlined. */
static KMF_INLINE void turn(bool back, kmf_real *x, size_t ld, const kmf_real *cos_t,
                            const kmf_real *sin_t, size_t T, size_t H, size_t K)
{
    size_t pairs = K / 2;
    for (size_t t = 0; t < T; t++) {
        const kmf_real *restrict c = cos_t + t * pairs;
        const kmf_real *restrict s = sin_t + t * pairs;
        for (size_t h = 0; h < H; h++) {
            kmf_real *restrict head = x + t * ld + h * K;
            for (size_t i = 0; i < pairs; i++) {
                kmf_real even = head[2 * i];
                kmf_real odd = head[2 * i + 1];
                kmf_real sine = back ? -s[i] : s[i];
                head[2 * i] = even * c[i] - odd * sine;
                head[2 * i + 1] = odd * c[i] + even * sine;
            }
        }
    }
}

static KMF_INLINE void kmf_rotary_forward_body(kmf_real *x, size_t ld, const kmf_real *cos_t,
                                               const kmf_real *sin_t, size_t T, size_t H,
                                               size_t K)
{
    turn(false, x, ld, cos_t, sin_t, T, H, K);
}

KMF_CLONES(kmf_rotary_forward,
           (kmf_real * x, size_t ld, const kmf_real *cos_t, const kmf_real *sin_t, size_t T,
            size_t H, size_t K),
           (x, ld, cos_t, sin_t, T, H, K))

static KMF_INLINE void kmf_rotary_backward_body(kmf_real *dx, size_t ld, const kmf_real *cos_t,
                                                const kmf_real *sin_t, size_t T, size_t H,
                                                size_t K)
{
    turn(true, dx, ld, cos_t, sin_t, T, H, K);
}

KMF_CLONES(kmf_rotary_backward,
           (kmf_real * dx, size_t ld, const kmf_real *cos_t, const kmf_real *sin_t, size_t T,
            size_t H, size_t K),
           (dx, ld, cos_t, sin_t, T, H, K))

static KMF_INLINE void kmf_rotary_halves_forward_body(kmf_real *x, size_t ld,
                                                      const kmf_real *cos_t,
                                                      const kmf_real *sin_t, size_t T, size_t H,
                                                      size_t K, size_t r)
{
    size_t pairs = r / 2;
    for (size_t t = 0; t < T; t++) {
        const kmf_real *restrict c = cos_t + t * pairs;
        const kmf_real *restrict s = sin_t + t * pairs;
        for (size_t h = 0; h < H; h++) {
            kmf_real *restrict low = x + t * ld + h * K;
            kmf_real *restrict high = low + pairs;
            for (size_t i = 0; i < pairs; i++) {
                kmf_real a = low[i];
                kmf_real b = high[i];
                low[i] = a * c[i] - b * s[i];
                high[i] = b * c[i] + a * s[i];
            }
        }
    }
}

KMF_CLONES(kmf_rotary_halves_forward,
           (kmf_real * x, size_t ld, const kmf_real *cos_t, const kmf_real *sin_t, size_t T,
            size_t H, size_t K, size_t r),
           (x, ld, cos_t, sin_t, T, H, K, r))
