/* SPDX-License-Identifier: MIT */
/*
 * The kernel of sgns.c, included once for each processor level, for the reason that gemm_tile.h
 * gives:
 *
 *   LEVEL   suffix of the names      TARGET   attribute of the functions
 *   LANES   floats of a vector       FMA      1: fused multiply-add, 0: multiply, then add
 *   MULTIPLY_ADD(a, b, c)            a b + c of vectors, fused if FMA
 *   GROUP   targets that share each load of h, 2, 3 or 6
 *
 * A product has KMF_SGNS_LANES sums, which nn/fold_level.h makes one.
 */
#include "nn/level.h"

#define PARTS (KMF_SGNS_LANES / LANES)

#include "nn/fold_level.h"

TARGET static KMF_INLINE void NAME(store_)(float *p, NAME(vec_) value)
{
    *(NAME(mem_) *)p = value;
}

/* As kmf_rows_add. */
TARGET static void NAME(add_)(float *to, float own, const float *from, float scale, size_t n)
{
    for (size_t i = 0; i < n; i += LANES)
        NAME(store_)(to + i, NAME(load_)(to + i) * own + NAME(load_)(from + i) * scale);
}

/*
 * Products of `cols` rows h with `group` targets, both constants where this is inlined: those of
 * h[c] come to z + c * SLOTS, 0 behind them.
 */
TARGET static KMF_INLINE void NAME(products_)(int cols, int group, float *z,
                                              const float *const *h, const float *rows,
                                              size_t ld, const uint32_t *targets)
{
    NAME(vec_) sum[2][GROUP][PARTS] = {{{{0}}}};
    const float *y[GROUP];
    KMF_UNROLL(8)
    for (int j = 0; j < group; j++)
        y[j] = rows + targets[j] * ld;
    for (size_t d = 0; d < ld; d += KMF_SGNS_LANES) {
        KMF_UNROLL(4)
        for (int p = 0; p < PARTS; p++) {
            NAME(vec_) x[2];
            KMF_UNROLL(2)
            for (int c = 0; c < cols; c++)
                x[c] = NAME(load_)(h[c] + d + p * LANES);
            KMF_UNROLL(8)
            for (int j = 0; j < group; j++) {
                NAME(vec_) row = NAME(load_)(y[j] + d + p * LANES);
                KMF_UNROLL(2)
                for (int c = 0; c < cols; c++)
                    sum[c][j][p] = MULTIPLY_ADD(x[c], row, sum[c][j][p]);
            }
        }
    }
    KMF_UNROLL(2)
    for (int c = 0; c < cols; c++) {
        vec4 quad[8] = {{0}};
        KMF_UNROLL(8)
        for (int j = 0; j < group; j++)
            quad[j] = NAME(fold_)(sum[c][j]);
        vec4 lo = NAME(fold_four_)(quad[0], quad[1], quad[2], quad[3]);
        vec4 hi = NAME(fold_four_)(quad[4], quad[5], quad[6], quad[7]);
#if LANES >= 8
        *(mem8 *)(z + c * SLOTS) = __builtin_shufflevector(lo, hi, 0, 1, 2, 3, 4, 5, 6, 7);
#else
        *(mem4 *)(z + c * SLOTS) = lo;
        *(mem4 *)(z + c * SLOTS + 4) = hi;
#endif
    }
}

/*
 * The steps of `group` targets by the factors g, placed as products are: dx[c] += sum_j g_cj y_j
 * and y_j += sum_c g_cj h[c].
 */
TARGET static KMF_INLINE void NAME(steps_)(int cols, int group, float *const *dx,
                                           const float *const *h, float *rows, size_t ld,
                                           const uint32_t *targets, const float *g)
{
    NAME(vec_) step[2][GROUP];
    float *y[GROUP];
    KMF_UNROLL(8)
    for (int j = 0; j < group; j++) {
        y[j] = rows + targets[j] * ld;
        KMF_UNROLL(2)
        for (int c = 0; c < cols; c++)
            step[c][j] = g[c * SLOTS + j] - (NAME(vec_)){0};
    }
    for (size_t d = 0; d < ld; d += LANES) {
        NAME(vec_) x[2], sum[2];
        KMF_UNROLL(2)
        for (int c = 0; c < cols; c++) {
            x[c] = NAME(load_)(h[c] + d);
            sum[c] = NAME(load_)(dx[c] + d);
        }
        KMF_UNROLL(8)
        for (int j = 0; j < group; j++) {
            NAME(vec_) row = NAME(load_)(y[j] + d);
            NAME(vec_) moved = row;
            KMF_UNROLL(2)
            for (int c = 0; c < cols; c++) {
                sum[c] = MULTIPLY_ADD(step[c][j], row, sum[c]);
                moved = MULTIPLY_ADD(step[c][j], x[c], moved);
            }
            NAME(store_)(y[j] + d, moved);
        }
        KMF_UNROLL(2)
        for (int c = 0; c < cols; c++)
            NAME(store_)(dx[c] + d, sum[c]);
    }
}

/* g = -alpha s(z) for n products, a multiple of SLOTS. */
TARGET static void NAME(sigmoids_)(float *restrict g, const float *restrict z, size_t n,
                                   float alpha)
{
    for (size_t i = 0; i < n; i++)
        g[i] = -alpha / (1.0f + kmf_exp(FMA, -z[i]));
}

/* h: the mean of several rows. */
TARGET static void NAME(mean_)(float *restrict h, const float *rows, size_t ld,
                               const uint32_t *inputs, uint32_t n)
{
    float part = 1.0f / (float)n;
    for (size_t d = 0; d < ld; d += LANES) {
        NAME(vec_) sum = {0};
        for (uint32_t i = 0; i < n; i++)
            sum += NAME(load_)(rows + inputs[i] * ld + d);
        NAME(store_)(h + d, sum * part);
    }
}

/* f_(cols, group, ...) for the n targets that are left, GROUP of them at most. */
#define FOR_GROUP(f, cols, n, ...)                         \
    switch (n) {                                           \
    case 1:                                                \
        NAME(f)(cols, 1, __VA_ARGS__);                     \
        break;                                             \
    case 2:                                                \
        NAME(f)(cols, GROUP < 2 ? GROUP : 2, __VA_ARGS__); \
        break;                                             \
    case 3:                                                \
        NAME(f)(cols, GROUP < 3 ? GROUP : 3, __VA_ARGS__); \
        break;                                             \
    case 4:                                                \
        NAME(f)(cols, GROUP < 4 ? GROUP : 4, __VA_ARGS__); \
        break;                                             \
    case 5:                                                \
        NAME(f)(cols, GROUP < 5 ? GROUP : 5, __VA_ARGS__); \
        break;                                             \
    default:                                               \
        NAME(f)(cols, GROUP, __VA_ARGS__);                 \
    }

/* The products of an example; z gets SLOTS places for each group and row h. Returns how many. */
TARGET static size_t NAME(forward_)(float *z, const float *const *h, size_t n_h,
                                    const float *rows, size_t ld, const kmf_sgns_example *x)
{
    size_t at = 0;
    for (uint32_t j = 0; j < x->n_targets; j += GROUP, at += n_h * SLOTS) {
        if (n_h == 2)
            FOR_GROUP(products_, 2, x->n_targets - j, z + at, h, rows, ld, x->targets + j)
        else
            FOR_GROUP(products_, 1, x->n_targets - j, z + at, h, rows, ld, x->targets + j)
    }
    return at;
}

/* The steps of an example by factors placed as forward_ places products; dx[c] may be h[c]. */
TARGET static void NAME(backward_)(const float *g, float *const *dx, const float *const *h,
                                   size_t n_h, float *rows, size_t ld,
                                   const kmf_sgns_example *x)
{
    size_t at = 0;
    for (uint32_t j = 0; j < x->n_targets; j += GROUP, at += n_h * SLOTS) {
        if (n_h == 2)
            FOR_GROUP(steps_, 2, x->n_targets - j, dx, h, rows, ld, x->targets + j, g + at)
        else
            FOR_GROUP(steps_, 1, x->n_targets - j, dx, h, rows, ld, x->targets + j, g + at)
    }
}
#undef FOR_GROUP

/* A few examples whose products are taken together. */
typedef struct NAME(batch_) {
    size_t n;
    size_t n_h[BATCH];
    const float *h[BATCH][2];
    float means[BATCH][KMF_SGNS_LD_MAX];
    float z[BATCH * PLACES];
    float g[BATCH * PLACES];
} NAME(batch_);

TARGET static void NAME(batch_forward_)(NAME(batch_) * b, const float *rows, size_t ld,
                                        const kmf_sgns_example *x, size_t n, bool mean,
                                        float alpha)
{
    size_t at = 0;
    b->n = n;
    for (size_t i = 0; i < n; i++) {
        b->n_h[i] = mean ? 1 : x[i].n_inputs;
        b->h[i][0] = rows + x[i].inputs[0] * ld;
        b->h[i][1] = rows + x[i].inputs[b->n_h[i] - 1] * ld;
        if (mean && x[i].n_inputs > 1) {
            NAME(mean_)(b->means[i], rows, ld, x[i].inputs, x[i].n_inputs);
            b->h[i][0] = b->means[i];
        }
        at += NAME(forward_)(b->z + at, b->h[i], b->n_h[i], rows, ld, &x[i]);
    }
    NAME(sigmoids_)(b->g, b->z, at, alpha);
}

/*
 * The steps of one example. An input's row takes them one by one: in place if all targets are one
 * group, else, since a later group must meet h as it was, on a copy. Where several rows take the
 * same sum (mean), or one row two of them, the sums are made first.
 */
TARGET static void NAME(example_backward_)(const float *g, const float *const *h, size_t n_h,
                                           float *rows, size_t ld, const kmf_sgns_example *x,
                                           bool mean)
{
    float copies[2][KMF_SGNS_LD_MAX];
    float *const apart[2] = {copies[0], copies[1]};
    float *const here[2] = {rows + x->inputs[0] * ld, rows + x->inputs[n_h - 1] * ld};
    bool sums = mean || (n_h == 2 && here[0] == here[1]);
    if (!sums && x->n_targets <= GROUP) {
        NAME(backward_)(g, here, h, n_h, rows, ld, x);
        return;
    }
    for (size_t c = 0; c < n_h; c++)
        for (size_t d = 0; d < ld; d++)
            copies[c][d] = sums ? 0.0f : here[c][d];
    NAME(backward_)(g, apart, h, n_h, rows, ld, x);
    for (uint32_t j = 0; j < x->n_inputs; j++) {
        if (sums)
            NAME(add_)(rows + x->inputs[j] * ld, 1, copies[mean ? 0 : j], 1, ld);
        else
            memcpy(here[j], copies[j], ld * sizeof *here[j]);
    }
}

TARGET static void NAME(batch_backward_)(NAME(batch_) * b, float *rows, size_t ld,
                                         const kmf_sgns_example *x, bool mean, float alpha,
                                         double *loss)
{
    size_t at = 0;
    for (size_t i = 0; i < b->n; i++) {
        size_t n_h = b->n_h[i];
        for (size_t c = 0; c < n_h; c++) {
            if (loss)
                *loss += loss_of(b->z + at + c * SLOTS, x[i].n_targets, GROUP, n_h * SLOTS);
            b->g[at + c * SLOTS] += alpha;
        }
        NAME(example_backward_)(b->g + at, b->h[i], n_h, rows, ld, &x[i], mean);
        at += (x[i].n_targets + GROUP - 1) / GROUP * n_h * SLOTS;
    }
}

TARGET static void NAME(learn_)(float *rows, size_t ld, const kmf_sgns_example *x, size_t n,
                                bool mean, float alpha, double *loss)
{
    NAME(batch_) batches[2];
    NAME(batch_forward_)(&batches[0], rows, ld, x, n < BATCH ? n : BATCH, mean, alpha);
    for (size_t e = 0; e < n; e += BATCH) {
        NAME(batch_) *batch = &batches[e / BATCH % 2];
        size_t next = e + BATCH;
        size_t count = next >= n ? 0 : n - next < BATCH ? n - next : BATCH;
        NAME(batch_forward_)
        (&batches[next / BATCH % 2], rows, ld, x + (count > 0 ? next : e), count, mean, alpha);
        NAME(batch_backward_)(batch, rows, ld, x + e, mean, alpha, loss);
    }
}

#undef PARTS
#undef LEVEL
#undef TARGET
#undef LANES
#undef FMA
#undef MULTIPLY_ADD
#undef GROUP
