/* SPDX-License-Identifier: MIT */
/*
 * The arithmetic of training in float against its definition in double, at each processor level.
 * That the definitions are the gradients of the forward is tests/test_gradients.c's to say.
 */
#include "base/mem.h"
#include "base/rng.h"
#include "elements.h"
#include "errors.h"
#include "nn/adamw.h"
#include "nn/attention_train.h"
#include "nn/dropout.h"
#include "nn/loss.h"
#include "nn/ops.h"
#include "nn/vmath.h"
#include "run.h"

#include <math.h>
#include <stdbool.h>

/* ---------------------------------------------------------------- slopes ----------------- */

static double gelu_slope(double x)
{
    const double tau = 6.28318530717958647692;
    return 0.5 * erfc(-x / sqrt(2.0)) + x * exp(-0.5 * x * x) / sqrt(tau);
}

/* By the derivative of tanh, 1 / cosh^2. */
static double gelu_tanh_slope(double x)
{
    const double pi = 3.14159265358979323846;
    if (fabs(x) > 20.0)
        return x > 0 ? 1.0 : 0.0;
    double u = sqrt(2.0 / pi) * (x + 0.044715 * x * x * x);
    double du = sqrt(2.0 / pi) * (1.0 + 0.134145 * x * x);
    return 0.5 * (1.0 + tanh(u)) + 0.5 * x * du / (cosh(u) * cosh(u));
}

static const char *slopes_are_right(void)
{
    enum { BLOCK = 4096 };
    static float x[BLOCK], y[BLOCK], one[BLOCK];
    double worst[2] = {0.0, 0.0};
    uint64_t bits = 0;
    uint32_t by = step();
    for (size_t i = 0; i < BLOCK; i++)
        one[i] = 1.0f;
    while (bits <= UINT32_MAX) {
        size_t n = 0;
        for (; n < BLOCK && bits <= UINT32_MAX; bits += by) {
            x[n] = kmf_float_of((uint32_t)bits);
            if (isfinite(x[n]))
                n++;
        }
        for (int tanh_form = 0; tanh_form < 2; tanh_form++) {
            kmf_activation form = tanh_form ? KMF_GELU_TANH : KMF_GELU;
            kmf_activation_backward(y, BLOCK, one, BLOCK, x, BLOCK, form, 1, n);
            for (size_t i = 0; i < n; i++) {
                double right =
                    tanh_form ? gelu_tanh_slope((double)x[i]) : gelu_slope((double)x[i]);
                double error = fabs((double)y[i] - right);
                worst[tanh_form] = error <= worst[tanh_form] ? worst[tanh_form] : error;
            }
        }
    }
    printf("largest absolute error of the slope: gelu %.3g, its tanh form %.3g\n", worst[0],
           worst[1]);
    return worst[0] <= 2e-7 && worst[1] <= 2e-7 ? NULL : "a slope is less exact than stated";
}

static const char *activations_again_are_those_of_the_forward(void)
{
    enum { N = 5, D = 77, LD = 80 };
    static float x[N * LD], dy[N * LD], y[N * LD], dx[N * LD], again[N * LD], slopes[N * LD];
    fill(x, N * LD, 6.0f);
    fill(dy, N * LD, 1.0f);
    for (int act = KMF_GELU; act <= KMF_SILU; act++) {
        kmf_activation form = (kmf_activation)act;
        memset(y, 0, sizeof y);
        memset(again, 0, sizeof again);
        memset(dx, 0, sizeof dx);
        memcpy(slopes, dy, sizeof slopes);
        kmf_activation_forward(y, LD, x, LD, form, N, D);
        for (size_t n = 0; n < N; n++)
            kmf_activation_backward(dx + n * LD, D, dy + n * LD, D, x + n * LD, D, form, 1, D);
        kmf_activation_backward_both(slopes, LD, again, LD, slopes, LD, x, LD, form, N, D);
        for (size_t n = 0; n < N; n++)
            if (memcmp(again + n * LD, y + n * LD, D * sizeof *y) != 0 ||
                memcmp(slopes + n * LD, dx + n * LD, D * sizeof *dx) != 0)
                return "an activation by the way of its slope is another one";
        if (again[D] != 0.0f || slopes[D] != dy[D])
            return "something was written behind a row";
    }
    return NULL;
}

static const char *slopes_have_limits(void)
{
    const float x[] = {-INFINITY, INFINITY, NAN, -NAN, -100.0f, 100.0f, -1e38f, 1e38f};
    enum { N = sizeof x / sizeof x[0] };
    const float right[N] = {0.0f, 1.0f, NAN, NAN, 0.0f, 1.0f, 0.0f, 1.0f};
    for (int act = KMF_GELU; act <= KMF_RELU; act++) {
        float y[N];
        for (size_t i = 0; i < N; i++)
            y[i] = 3.0f;
        kmf_activation_backward(y, N, y, N, x, N, (kmf_activation)act, 1, N);
        for (size_t i = 0; i < N; i++)
            if (isnan(right[i]) ? !isnan(y[i]) : y[i] != 3.0f * right[i])
                return "a limit of a slope is wrong";
    }
    float y[5];
    kmf_activation_backward(y, 5, (const float[]){1, 2, 3, 4, 5}, 5,
                            (const float[]){-1.0f, 0.0f, 2.0f, -0.0f, 1e-40f}, 5, KMF_RELU, 1,
                            5);
    const float relu[] = {0.0f, 0.0f, 3.0f, 0.0f, 5.0f};
    for (int i = 0; i < 5; i++)
        if (y[i] != relu[i])
            return "the slope of relu is wrong";
    return NULL;
}

/* ---------------------------------------------------------------- rows ------------------- */

enum { MAX_D = 1537, LD = 1600, ROWS = 6 };
static float x0[ROWS * LD], x1[ROWS * LD], y0[ROWS * LD], y1[ROWS * LD];
static float w[LD], b[LD], w0[LD], b0[LD], word[7 * LD];
static double want[LD], want_w[LD], want_b[LD];
static const size_t widths[] = {2, 31, 32, 33, 48, 96, 768, 1537};
enum { N_WIDTHS = sizeof widths / sizeof widths[0] };

/* One row by the definition: dx to want, and what it adds to want_w and want_b. */
static void norm_backward(const float *dy, const float *x, double eps, size_t D)
{
    double mean = 0.0, var = 0.0, g_mean = 0.0, gz_mean = 0.0;
    for (size_t i = 0; i < D; i++)
        mean += (double)x[i] / (double)D;
    for (size_t i = 0; i < D; i++)
        var += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)D;
    double scale = 1.0 / sqrt(var + eps);
    for (size_t i = 0; i < D; i++) {
        double z = ((double)x[i] - mean) * scale;
        double g = (double)dy[i] * (double)w[i];
        g_mean += g / (double)D;
        gz_mean += g * z / (double)D;
        want_w[i] += (double)dy[i] * z;
        want_b[i] += (double)dy[i];
    }
    for (size_t i = 0; i < D; i++) {
        double z = ((double)x[i] - mean) * scale;
        want[i] = scale * ((double)dy[i] * (double)w[i] - g_mean - z * gz_mean);
    }
}

static const char *norms_are_right(void)
{
    for (size_t d = 0; d < N_WIDTHS; d++) {
        size_t D = widths[d];
        double eps = d % 2 ? 1e-12 : 0.1;
        fill(x0, ROWS * LD, 3.0f);
        fill(y0, ROWS * LD, 1.0f);
        fill(w, D, 2.0f);
        fill(w0, D, 1.0f);
        fill(b0, D, 1.0f);
        for (size_t i = 0; i < D; i++) {
            w[i] += 3.0f;
            want_w[i] = (double)w0[i];
            want_b[i] = (double)b0[i];
        }
        memcpy(y1, y0, sizeof y0);
        kmf_layernorm_backward(y1, LD, w0, b0, y1, LD, x0, LD, w, eps, ROWS, D);
        for (size_t n = 0; n < ROWS; n++) {
            norm_backward(y0 + n * LD, x0 + n * LD, eps, D);
            if (!(difference(y1 + n * LD, want, D) <= 1e-5))
                return "the norm's gradient differs from its definition";
            if (!equal(y1 + n * LD + D, y0 + n * LD + D, LD - D))
                return "the norm's gradient wrote behind a row";
            /* a row by itself, and not in place */
            kmf_layernorm_backward(x1, LD, word, b, y0 + n * LD, LD, x0 + n * LD, LD, w, eps, 1,
                                   D);
            if (!equal(x1, y1 + n * LD, D))
                return "a row of the norm's gradient depends on its neighbours";
        }
        if (!(difference(w0, want_w, D) <= 1e-5) || !(difference(b0, want_b, D) <= 1e-5))
            return "the gradients of the norm's weights differ from their definition";
    }
    return NULL;
}

/* The parts of a fused forward give its bits. */
static const char *parts_are_the_whole(void)
{
    for (size_t d = 0; d < N_WIDTHS; d++) {
        size_t D = widths[d];
        fill(x0, ROWS * LD, 3.0f);
        fill(y0, ROWS * LD, 1.0f);
        fill(w, D, 2.0f);
        fill(b, D, 2.0f);
        fill(b0, D, 1.0f);
        memcpy(x1, x0, sizeof x0);
        kmf_residual_forward(x1, LD, y0, LD, b0, ROWS, D);
        kmf_layernorm_copy_forward(y1, LD, x1, LD, w, b, 1e-12, ROWS, D);
        kmf_residual_layernorm_forward(x0, LD, y0, LD, b0, w, b, 1e-12, ROWS, D);
        for (size_t n = 0; n < ROWS; n++)
            if (!equal(y1 + n * LD, x0 + n * LD, D))
                return "residual and norm are not the two together";
        kmf_layernorm_forward(x1, LD, w, b, 1e-12, ROWS, D);
        for (size_t n = 0; n < ROWS; n++)
            if (!equal(y1 + n * LD, x1 + n * LD, D))
                return "the norm in place is another";
        memcpy(x1, x0, sizeof x0);
        kmf_residual_forward(x0, LD, y0, LD, NULL, ROWS, D);
        for (size_t n = 0; n < ROWS; n++)
            for (size_t i = 0; i < D; i++)
                if (x0[n * LD + i] != x1[n * LD + i] + y0[n * LD + i])
                    return "a residual without a bias is not the sum";
        for (int act = KMF_GELU; act <= KMF_SILU; act++) {
            memcpy(x1, y0, sizeof y0);
            kmf_activation_forward(x1, LD, x1, LD, (kmf_activation)act, ROWS, D);
            kmf_activation_forward(y1, LD, y0, LD, (kmf_activation)act, ROWS, D);
            for (size_t n = 0; n < ROWS; n++)
                if (!equal(x1 + n * LD, y1 + n * LD, D))
                    return "an activation out of place is another";
        }
    }
    return NULL;
}

/* Sums over rows are taken in their order: a loop in float gives the same bits. */
static const char *sums_are_in_order(void)
{
    static const int32_t ids[ROWS] = {3, 0, 6, 3, 3, 0};
    static float words[7 * LD];
    for (size_t d = 0; d < N_WIDTHS; d++) {
        size_t D = widths[d];
        fill(y0, ROWS * LD, 1.0f);
        fill(b, D, 1.0f);
        fill(word, 7 * LD, 1.0f);
        memcpy(b0, b, sizeof b);
        memcpy(words, word, sizeof word);
        for (size_t n = 0; n < ROWS; n++)
            for (size_t i = 0; i < D; i++) {
                b0[i] += y0[n * LD + i];
                words[(size_t)ids[n] * D + i] += y0[n * LD + i];
            }
        kmf_bias_backward(b, y0, LD, ROWS, D);
        if (!equal(b, b0, D))
            return "the gradient of a bias is not the sum of the rows";
        kmf_gather_backward(word, ids, y0, LD, D / 2, D, ROWS, D);
        kmf_gather_backward(word, ids, y0, LD, 0, D / 2, ROWS, D);
        if (!equal(word, words, 7 * LD))
            return "the gradient of the words is not the sum of their rows";
    }
    return NULL;
}

static const char *rotary_turns_back(void)
{
    enum { T = 37, H = 3, K = 22, WIDTH = 80 };
    static float table_c[T * K / 2], table_s[T * K / 2], x[T * WIDTH], y[T * WIDTH];
    kmf_rotary_table(table_c, table_s, 10000.0, 0, T, K);
    fill(x, T * WIDTH, 1.0f);
    memcpy(y, x, sizeof x);
    kmf_rotary_backward(y, WIDTH, table_c, table_s, T, H, K);
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < WIDTH; i++) {
            double right = (double)x[t * WIDTH + i];
            if (i < H * K) {
                size_t even = i - i % 2;
                double angle = -(double)t / pow(10000.0, (double)(even % K) / K);
                double re = (double)x[t * WIDTH + even];
                double im = (double)x[t * WIDTH + even + 1];
                right = i % 2 ? im * cos(angle) + re * sin(angle)
                              : re * cos(angle) - im * sin(angle);
            }
            if (fabs((double)y[t * WIDTH + i] - right) > 1e-6)
                return "the way back of rotary is not a turn by the negative angle";
        }
    return NULL;
}

/* ---------------------------------------------------------------- dropout ---------------- */

/* An element's own number: it is dropped below a rate of so many times 2^-32. */
static uint32_t dropout_hash(uint64_t key, uint64_t counter)
{
    kmf_rng rng = kmf_rng_stream(key, counter >> 31);
    uint64_t words = kmf_rng_next(&rng);
    uint32_t z = (uint32_t)(counter & 0x7fffffff) + (uint32_t)words;
    z ^= z >> 16;
    z = z * 2146121005u + (uint32_t)(words >> 32);
    z ^= z >> 15;
    return z * 2221713035u;
}

/* The rule once more, one element at a time. */
static float dropout_twin(uint64_t key, uint64_t counter, double p)
{
    double z = dropout_hash(key, counter);
    return z < floor(p * 4294967296.0) ? 0.0f : (float)(1.0 / (1.0 - p));
}

/* At a rate just below and just above an element's own number of 2^-32. */
static bool border_is_right(uint64_t counter)
{
    float f[2];
    double z = dropout_hash(3, counter);
    for (int i = 0; i < 2; i++)
        kmf_dropout_factors(f + i, 3, counter, (z + i) / 4294967296.0, 1);
    return f[0] > 0 && f[1] == 0;
}

static const char *dropout_is_right(void)
{
    enum { N = 5, D = 77, STRIDE = 80 };
    static float x[N * STRIDE], y[N * STRIDE], f[N * D];
    /* in two of them a row's last element, or its first, is alone in a block of 2^31 */
    static const uint64_t firsts[] = {0,
                                      12345,
                                      (UINT64_C(1) << 31) - 100,
                                      (UINT64_C(1) << 32) - 200,
                                      UINT64_C(77) << 40,
                                      (UINT64_C(1) << 31) - D + 1,
                                      (UINT64_C(1) << 31) - 1};
    for (size_t k = 0; k < sizeof firsts / sizeof firsts[0]; k++) {
        double p = k % 2 ? 0.5 : 0.15;
        fill(x, N * STRIDE, 1.0f);
        memcpy(y, x, sizeof x);
        kmf_dropout_forward(y, STRIDE, 7 + k, firsts[k], p, N, D);
        kmf_dropout_factors(f, 7 + k, firsts[k], p, N * D);
        for (size_t n = 0; n < N; n++)
            for (size_t i = 0; i < STRIDE; i++) {
                float twin = i < D ? dropout_twin(7 + k, firsts[k] + n * D + i, p) : 1.0f;
                if (y[n * STRIDE + i] != x[n * STRIDE + i] * twin)
                    return "an element is not treated by its number";
                float own = NAN;
                kmf_dropout_factors(&own, 7 + k, firsts[k] + n * D + i, p, 1);
                if (i < D && (f[n * D + i] != twin || own != twin))
                    return "a factor is not the one applied";
            }
        memcpy(y, x, sizeof x);
        kmf_dropout_forward(y, STRIDE, 7 + k, firsts[k], 0.0, N, D);
        if (!equal(x, y, N * STRIDE))
            return "something was dropped at a rate of 0";
        if (!border_is_right(firsts[k]))
            return "an element is dropped at another rate than its own";
    }
    for (size_t i = 0; i < D; i++)
        x[i] = NAN;
    kmf_dropout_forward(x, D, 1, 2, 0.5, 1, D);
    for (size_t i = 0; i < D; i++)
        if (!isnan(x[i]))
            return "dropout hides a NaN";
    return NULL;
}

/*
 * A fair coin of probability p: how many are dropped, and how often an element is dropped
 * together with another, so and so far away, or the same of another key. Each count lies within
 * five deviations of its mean; 60 counts, so one in 30000 seeds would fail.
 */
static const char *dropout_looks_random(void)
{
    enum { N = 1 << 18 };
    static float a[N], other[N];
    static const size_t lags[] = {0, 1, 2, 3, 4, 8, 16, 64, 128, 512, 4096, 65536};
    static const double rates[] = {0.02, 0.1, 0.5};
    for (size_t r = 0; r < 3; r++) {
        double p = rates[r];
        kmf_dropout_factors(a, 1000, 0, p, N);
        for (size_t l = 0; l < sizeof lags / sizeof lags[0]; l++) {
            size_t lag = lags[l];
            for (uint64_t key = 1000; key <= 1001; key++) {
                kmf_dropout_factors(other, key, lag, p, N);
                double both = 0.0;
                for (size_t i = 0; i < N; i++)
                    both += a[i] == 0.0f && other[i] == 0.0f;
                double chance = lag == 0 && key == 1000 ? p : p * p;
                double deviation = sqrt(N * chance * (1.0 - chance));
                if (fabs(both - N * chance) > 5.0 * deviation)
                    return "elements are not dropped independently";
            }
        }
    }
    return NULL;
}

/* ---------------------------------------------------------------- loss ------------------- */

static const char *loss_is_right(void)
{
    enum { N = 4, V = 1031, STRIDE = 1040 };
    static float x[N * STRIDE], p[N * STRIDE];
    static double right[V];
    static const int32_t labels[N] = {0, V - 1, 500, 17};
    static const float weights[N] = {1.0f, 0.25f, -2.0f, 0.0f};
    double nll[N];
    for (int large = 0; large < 2; large++) {
        fill(x, N * STRIDE, large ? 60.0f : 2.0f);
        if (large)
            x[17 + 3 * STRIDE] = 90.0f; /* sure, and right: a loss of next to nothing */
        memcpy(p, x, sizeof x);
        kmf_softmax_forward(p, STRIDE, nll, labels, N, V);
        for (size_t n = 0; n < N; n++) {
            float max = x[n * STRIDE];
            double sum = 0.0;
            for (size_t i = 1; i < V; i++)
                max = fmaxf(max, x[n * STRIDE + i]);
            for (size_t i = 0; i < V; i++)
                sum += right[i] = exp((double)x[n * STRIDE + i] - (double)max);
            for (size_t i = 0; i < V; i++)
                right[i] /= sum;
            if (!(difference(p + n * STRIDE, right, V) <= 3e-7))
                return "softmax differs from its definition";
            double loss = -log(right[labels[n]]);
            if (!(fabs(nll[n] - loss) <= 1e-6 + 1e-7 * loss))
                return "the loss differs from its definition";
        }
        if (large && !(nll[3] > 0.0 && nll[3] < 1e-9))
            return "a small loss is lost";
        memcpy(right, nll, sizeof nll);
        static float alone[V];
        memcpy(alone, x + 2 * STRIDE, sizeof alone);
        kmf_softmax_forward(alone, V, NULL, NULL, 1, V);
        if (!equal(alone, p + 2 * STRIDE, V))
            return "a row depends on its neighbours, or on being asked for the loss";
        memcpy(alone, p + STRIDE, sizeof alone);
        kmf_softmax_backward(p, STRIDE, labels, weights, N, V);
        for (size_t i = 0; i < V; i++)
            if (p[STRIDE + i] != (alone[i] - (i == V - 1 ? 1.0f : 0.0f)) * 0.25f ||
                p[3 * STRIDE + i] != 0.0f)
                return "the gradient is not (p - 1 at the label) times the weight";
        for (size_t n = 0; n < N; n++)
            if (!equal(p + n * STRIDE + V, x + n * STRIDE + V, STRIDE - V))
                return "the loss wrote behind a row";
    }
    return NULL;
}

static const char *loss_keeps_nan(void)
{
    static const float bad[] = {NAN, -NAN, INFINITY};
    for (size_t k = 0; k < 3; k++) {
        float x[2 * 40];
        double nll[2];
        fill(x, 80, 1.0f);
        x[23] = bad[k];
        kmf_softmax_forward(x, 40, nll, (const int32_t[]){5, 5}, 2, 40);
        if (!isnan(nll[0]) || isnan(nll[1]))
            return "the loss of a row that is not finite is";
        for (size_t i = 0; i < 80; i++)
            if ((i < 40) != (bool)isnan(x[i]))
                return "NaN is not where it belongs";
    }
    float x[3] = {0.0f, -INFINITY, 0.0f};
    double nll[1];
    kmf_softmax_forward(x, 3, nll, (const int32_t[]){2}, 1, 3);
    if (x[1] != 0.0f || fabs(nll[0] - log(2.0)) > 1e-7)
        return "a word that cannot be is not simply left out";
    for (size_t k = 0; k < 3; k++) { /* one word has all, wherever it stands */
        float y[3] = {-500.0f, -500.0f, -500.0f};
        y[k] = 500.0f;
        kmf_softmax_forward(y, 3, nll, (const int32_t[]){(int32_t)k}, 1, 3);
        if (y[k] != 1.0f || nll[0] != 0.0)
            return "a word far above all others is not certain";
    }
    return NULL;
}

/* ---------------------------------------------------------------- the step --------------- */

static const char *steps_are_right(void)
{
    enum { N = 1003, STEPS = 30 };
    static float at[N], m[N], v[N], g[N];
    static double want_at[N], want_m[N], want_v[N];
    for (int decays = 0; decays < 2; decays++) {
        kmf_adamw_step s = {.rate = 1e-3,
                            .beta1 = 0.9,
                            .beta2 = 0.98,
                            .epsilon = 1e-6,
                            .decay = decays ? 0.1 : 0.0,
                            .clip = 0.5};
        fill(at, N, 1.0f);
        memset(m, 0, sizeof m);
        memset(v, 0, sizeof v);
        for (size_t i = 0; i < N; i++) {
            want_at[i] = (double)at[i];
            want_m[i] = want_v[i] = 0.0;
        }
        for (int t = 1; t <= STEPS; t++) {
            fill(g, N, t % 7 == 0 ? 30.0f : 1e-3f);
            g[5] = 0.0f; /* never a gradient: m / (sqrt 0 + eps) is 0 */
            s.rate = 1e-3 * t / STEPS;
            kmf_adamw_correct(&s, (uint64_t)t);
            kmf_adamw_update(at, m, v, g, 500, &s);
            kmf_adamw_update(at + 500, m + 500, v + 500, g + 500, N - 500, &s);
            for (size_t i = 0; i < N; i++) {
                double d = 0.5 * (double)g[i];
                want_at[i] *= 1.0 - s.rate * s.decay;
                want_m[i] = 0.9 * want_m[i] + 0.1 * d;
                want_v[i] = 0.98 * want_v[i] + 0.02 * d * d;
                double mean = want_m[i] / (1.0 - pow(0.9, t));
                double var = want_v[i] / (1.0 - pow(0.98, t));
                want_at[i] -= s.rate * mean / (sqrt(var) + 1e-6);
            }
        }
        if (!(difference(at, want_at, N) <= 5e-7))
            return "the weights differ from AdamW's in double";
        if (!(difference(m, want_m, N) <= 2e-6) || !(relative_error(v, want_v, N) <= 1e-6))
            return "the moments differ from AdamW's in double";
    }
    return NULL;
}

static const char *squares_are_right(void)
{
    static float g[5000];
    static const size_t sizes[] = {0, 1, 15, 16, 17, 4999};
    fill(g, 5000, 1e-3f);
    g[7] = 1e25f; /* its square is no float */
    for (size_t s = 0; s < 6; s++) {
        double right = 0.0;
        for (size_t i = 0; i < sizes[s]; i++)
            right += (double)g[i] * (double)g[i];
        if (!(fabs(kmf_squares(g, sizes[s]) - right) <= 1e-13 * right))
            return "the sum of squares is wrong";
    }
    g[7] = NAN;
    if (!isnan(kmf_squares(g, 4999)))
        return "the sum of squares hides a NaN";
    g[7] = -INFINITY;
    if (isfinite(kmf_squares(g, 4999)))
        return "the sum of squares hides an infinity";
    return NULL;
}

/* ---------------------------------------------------------------- bits ------------------- */

static uint64_t hash_of(uint64_t hash, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ kmf_bits_of(x[i])) * UINT64_C(1099511628211);
    return hash;
}

/* What has no product in it, which no level may round otherwise. */
static const char *print_common_bits(void)
{
    enum { N = 6, D = 333 };
    static float x[N * D], y[N * D], weight[D], dweight[D], dbias[D], m[D], v[D];
    uint64_t hash = 0;
    fill(x, N * D, 2.0f);
    fill(y, N * D, 1.0f);
    fill(weight, D, 1.0f);
    kmf_layernorm_backward(y, D, dweight, dbias, y, D, x, D, weight, 1e-12, N, D);
    kmf_bias_backward(dbias, y, D, N, D);
    kmf_dropout_forward(x, D, 5, 6, 0.3, N, D);
    kmf_activation_backward(y, D, y, D, x, D, KMF_RELU, N, D);
    hash = hash_of(hash_of(hash_of(hash, y, N * D), dweight, D), dbias, D);
    kmf_adamw_step s = {1e-3, 0.9, 0.98, 1e-6, 0.1, 0.7, 0.1, 0.02};
    kmf_adamw_update(x, m, v, y, D, &s);
    hash = hash_of(hash_of(hash_of(hash, x, N * D), m, D), v, D);
    printf("%016llx %a\n", (unsigned long long)hash, kmf_squares(x, N * D));
    return NULL;
}

/* What has: AVX2 and AVX-512 agree. */
static const char *print_fused_bits(void)
{
    enum { T = 200, H = 2, K = 24, D = H * K };
    static float q[T * D], k[T * D], v[T * D], out[T * D], dout[T * D], stats[2 * H * T];
    static float dq[T * D], dk[T * D], dv[T * D];
    float *scratch = kmf_floats(kmf_attention_backward_scratch(T, K, KMF_PRECISION_F32), NULL);
    static double nll[T];
    static int32_t labels[T];
    uint64_t hash = 0;
    if (!scratch)
        return "no memory";
    fill(q, T * D, 1.5f);
    fill(k, T * D, 1.5f);
    fill(v, T * D, 1.5f);
    fill(dout, T * D, 1.5f);
    kmf_attention_forward_train(
        out, D, stats,
        &(kmf_attention_task){q, k, v, D, T, K, 1, 0.1, KMF_PRECISION_F32, scratch}, 0, H);
    kmf_attention_backward(
        &(kmf_attention_gradients){dq, dk, dv, D}, dout, D, out, D, stats,
        &(kmf_attention_task){q, k, v, D, T, K, 1, 0.1, KMF_PRECISION_F32, scratch}, 0, H);
    kmf_free(scratch);
    hash = hash_of(hash_of(hash_of(hash, dq, T * D), dk, T * D), dv, T * D);
    kmf_activation_backward(dq, D, dk, D, dv, D, KMF_GELU, T, D);
    kmf_activation_backward(dk, D, dq, D, dv, D, KMF_GELU_TANH, T, D);
    hash = hash_of(hash_of(hash, dq, T * D), dk, T * D);
    kmf_softmax_forward(q, D, nll, labels, T, D);
    printf("%016llx %a\n", (unsigned long long)hash_of(hash, q, T * D), nll[0] + nll[T - 1]);
    return NULL;
}

/* ---------------------------------------------------------------- the tests -------------- */

static const levels_part parts[] = {
    {"slopes", slopes_are_right},
    {"limits", slopes_have_limits},
    {"again", activations_again_are_those_of_the_forward},
    {"norms", norms_are_right},
    {"whole", parts_are_the_whole},
    {"sums", sums_are_in_order},
    {"rotary", rotary_turns_back},
    {"dropout", dropout_is_right},
    {"random", dropout_looks_random},
    {"loss", loss_is_right},
    {"loss_nan", loss_keeps_nan},
    {"steps", steps_are_right},
    {"squares", squares_are_right},
    {"common_bits", print_common_bits},
    {"fused_bits", print_fused_bits},
};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

LEVELS_TEST(slopes_are_within_their_error_of_libm, "slopes limits again", levels_vectors[_i])
LEVELS_TEST(gradients_of_a_norm_equal_their_definition, "norms", levels_vectors[_i])
LEVELS_TEST(parts_of_a_fused_forward_give_its_bits, "whole", levels_vectors[_i])
LEVELS_TEST(sums_over_rows_are_taken_in_order, "sums", levels_vectors[_i])
LEVELS_TEST(rotary_turns_gradients_back, "rotary", levels_vectors[_i])
LEVELS_TEST(dropout_goes_by_the_number_of_an_element, "dropout", levels_vectors[_i])

START_TEST(dropout_is_random_enough)
{
    ck_assert_ptr_null(dropout_looks_random());
}
END_TEST

LEVELS_TEST(loss_equals_its_definition_and_keeps_nan, "loss loss_nan", levels_vectors[_i])
LEVELS_TEST(adamw_equals_its_definition, "steps squares", levels_vectors[_i])

START_TEST(levels_agree_in_every_bit)
{
    char first[256], other[256];
    levels_run("common_bits", levels_vectors[0], first);
    ck_assert_uint_gt(strlen(first), 16);
    for (int i = 1; i < N_VECTORS; i++) {
        levels_run("common_bits", levels_vectors[i], other);
        ck_assert_str_eq(first, other);
    }
    levels_run("fused_bits", "KMERFORMER_CPU=avx512", first);
    levels_run("fused_bits", "KMERFORMER_CPU=avx2", other);
    ck_assert_str_eq(first, other);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 2)
        return levels_child(parts, N_PARTS, argv);
    TCase *tcase = untimed_case();
    tcase_add_loop_test(tcase, slopes_are_within_their_error_of_libm, 0, N_VECTORS);
    tcase_add_loop_test(tcase, gradients_of_a_norm_equal_their_definition, 0, N_VECTORS);
    tcase_add_loop_test(tcase, parts_of_a_fused_forward_give_its_bits, 0, N_VECTORS);
    tcase_add_loop_test(tcase, sums_over_rows_are_taken_in_order, 0, N_VECTORS);
    tcase_add_loop_test(tcase, rotary_turns_gradients_back, 0, N_VECTORS);
    tcase_add_loop_test(tcase, dropout_goes_by_the_number_of_an_element, 0, N_VECTORS);
    tcase_add_test(tcase, dropout_is_random_enough);
    tcase_add_loop_test(tcase, loss_equals_its_definition_and_keeps_nan, 0, N_VECTORS);
    tcase_add_loop_test(tcase, adamw_equals_its_definition, 0, N_VECTORS);
    tcase_add_test(tcase, levels_agree_in_every_bit);
    return run_case("training_ops", tcase);
}
