/* SPDX-License-Identifier: MIT */
/* The encoder's elementwise arithmetic against libm and loops in double. */
#include "elements.h"
#include "nn/ops.h"
#include "nn/vmath.h"
#include "run.h"

#include <math.h>
#include <stdint.h>

static bool close_to(float ours, double right, double limit)
{
    return fabs((double)ours - right) <= limit;
}

/* ---------------------------------------------------------------- exp and GELU ----------- */

/* e^x, or 2^x: what is right, and ours. */
static double exp_both(double *ours, float x, bool base_2, bool fused)
{
    if (base_2)
        *ours = (double)(fused ? kmf_exp2_down(true, x) : kmf_exp2_down(false, x));
    else
        *ours = (double)(fused ? kmf_exp(true, x) : kmf_exp(false, x));
    return base_2 ? exp2((double)x) : exp((double)x);
}

static double exp_error(bool base_2, bool fused)
{
    double worst = 0.0;
    uint32_t by = step();
    float beg = base_2 ? -126.0f : -87.3f;
    float end = base_2 ? 0.0f : 88.3f;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += by) {
        float x = kmf_float_of((uint32_t)bits);
        if (!(x >= beg && x <= end))
            continue;
        double ours;
        double right = exp_both(&ours, x, base_2, fused);
        double error = fabs(ours - right) / right;
        worst = error > worst ? error : worst;
    }
    return worst;
}

START_TEST(exp_is_within_its_error_of_libm)
{
    for (int fused = 0; fused < 2; fused++) {
        double worst = exp_error(false, fused);
        double worst_2 = exp_error(true, fused);
        printf("exp%s: largest relative error %.3g, of 2^x %.3g\n", fused ? " (fused)" : "",
               worst, worst_2);
        ck_assert_double_le(worst, 1.2e-7);
        ck_assert_double_le(worst_2, 2e-7);
    }
}
END_TEST

START_TEST(exp_has_its_limits)
{
    ck_assert(kmf_exp(false, 0.0f) == 1.0f);
    ck_assert(kmf_exp(false, -INFINITY) == 0.0f);
    ck_assert(kmf_exp(false, -1e30f) == 0.0f);
    ck_assert(kmf_exp(false, -87.8f) == 0.0f);
    ck_assert(kmf_exp(false, INFINITY) > 2e38f);
    ck_assert(isnan(kmf_exp(false, NAN)));
    ck_assert(isnan(kmf_exp(false, -NAN)));
    ck_assert(isnan(kmf_exp(true, NAN)));
    ck_assert(kmf_exp2_down(false, 0.0f) == 1.0f && kmf_exp2_down(true, 0.0f) == 1.0f);
    ck_assert(kmf_exp2_down(true, -1.0f) == 0.5f && kmf_exp2_down(true, -126.0f) == 0x1p-126f);
    ck_assert(kmf_exp2_down(false, -1e30f) == 0.0f && kmf_exp2_down(true, -126.6f) == 0.0f);
    ck_assert(kmf_exp2_down(true, -INFINITY) == 0.0f);
    ck_assert(isnan(kmf_exp2_down(false, NAN)) && isnan(kmf_exp2_down(true, -NAN)));
}
END_TEST

static double gelu(double x)
{
    return 0.5 * x * erfc(-x / sqrt(2.0));
}

static double gelu_tanh(double x)
{
    const double pi = 3.14159265358979323846;
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / pi) * (x + 0.044715 * x * x * x)));
}

/* The largest error beyond half a unit in the last place of the result. */
static double silu(double x)
{
    return x / (1.0 + exp(-x));
}

static const char *activation_is_right(void)
{
    enum { BLOCK = 4096 };
    static float x[BLOCK], y[BLOCK];
    double worst[3] = {0.0, 0.0, 0.0};
    static const kmf_activation forms[3] = {KMF_GELU, KMF_GELU_TANH, KMF_SILU};
    static double (*const rights[3])(double) = {gelu, gelu_tanh, silu};
    uint64_t bits = 0;
    uint32_t by = step();
    while (bits <= UINT32_MAX) {
        size_t n = 0;
        for (; n < BLOCK && bits <= UINT32_MAX; bits += by) {
            x[n] = kmf_float_of((uint32_t)bits);
            if (isfinite(x[n]))
                n++;
        }
        for (int form = 0; form < 3; form++) {
            kmf_activation_forward(y, BLOCK, x, BLOCK, forms[form], 1, n);
            for (size_t i = 0; i < n; i++) {
                double right = rights[form]((double)x[i]);
                double ulps = forms[form] == KMF_SILU ? 0x1p-23 : 0x1p-24;
                double error = fabs((double)y[i] - right) - fabs(right) * ulps;
                /* not error > worst: a NaN must count */
                worst[form] = error <= worst[form] ? worst[form] : error;
            }
        }
    }
    printf("largest absolute error beyond rounding: gelu %.3g, its tanh form %.3g, silu %.3g\n",
           worst[0], worst[1], worst[2]);
    if (!(worst[2] <= 2e-7))
        return "silu is less accurate than stated";
    if (!(worst[0] <= 2e-7))
        return "gelu is less accurate than stated";
    if (!(worst[1] <= 4e-7))
        return "the tanh form of gelu is less accurate than stated";
    return NULL;
}

static const char *activation_has_limits(void)
{
    float x[] = {-INFINITY, INFINITY, NAN, -NAN, 0.0f, -100.0f, 100.0f, -1e38f, 1e38f};
    enum { N = sizeof x / sizeof x[0] };
    const float right[N] = {0.0f, INFINITY, NAN, NAN, 0.0f, 0.0f, 100.0f, 0.0f, 1e38f};
    for (int act = KMF_GELU; act <= KMF_SILU; act++) {
        float y[N];
        float nothing = act == KMF_SILU ? 1e-36f : 0.0f;
        kmf_activation_forward(y, N, x, N, (kmf_activation)act, 1, N);
        for (size_t i = 0; i < N; i++)
            if (isnan(right[i])    ? !isnan(y[i])
                : right[i] == 0.0f ? !(fabsf(y[i]) <= nothing)
                                   : y[i] != right[i])
                return "a limit of an activation is wrong";
    }
    float y[] = {-0.5f, 3.5f, -1.0f};
    kmf_activation_forward(y, 3, y, 3, KMF_RELU, 1, 3);
    if (y[0] != 0.0f || y[1] != 3.5f || y[2] != 0.0f)
        return "relu is wrong";
    return NULL;
}

/* ---------------------------------------------------------------- rough ------------------ */

static float gelu_rough(bool tanh_form, bool fused, float x)
{
    if (tanh_form)
        return fused ? kmf_gelu_tanh_rough(true, x) : kmf_gelu_tanh_rough(false, x);
    return fused ? kmf_gelu_rough(true, x) : kmf_gelu_rough(false, x);
}

/* Beyond half a unit in the last place of a large result, as above. */
static double gelu_rough_error(bool tanh_form, bool fused)
{
    double worst = 0.0;
    uint32_t by = step();
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += by) {
        float x = kmf_float_of((uint32_t)bits);
        if (!isfinite(x))
            continue;
        double right = tanh_form ? gelu_tanh((double)x) : gelu((double)x);
        double error = fabs((double)gelu_rough(tanh_form, fused, x) - right);
        error -= fabs(right) * 0x1p-24;
        worst = error <= worst ? worst : error;
    }
    return worst;
}

START_TEST(rough_gelus_are_within_their_error)
{
    bool tanh_form = _i & 1;
    bool fused = _i & 2;
    double worst = gelu_rough_error(tanh_form, fused);
    printf("gelu%s, rough%s: largest absolute error %.3g\n", tanh_form ? " by tanh" : "",
           fused ? " (fused)" : "", worst);
    ck_assert_double_le(worst, 1e-4);
    ck_assert(gelu_rough(tanh_form, fused, INFINITY) == INFINITY);
    ck_assert(fabsf(gelu_rough(tanh_form, fused, -INFINITY)) <= 1e-4f);
    ck_assert(gelu_rough(tanh_form, fused, 0.0f) == 0.0f);
    ck_assert(gelu_rough(tanh_form, fused, 3e38f) == 3e38f);
    ck_assert(isnan(gelu_rough(tanh_form, fused, NAN)));
    ck_assert(isnan(gelu_rough(tanh_form, fused, -NAN)));
}
END_TEST

/* ---------------------------------------------------------------- rows ------------------- */

/* Whether y = LN(x) of one row, by the definition in double. */
static bool is_norm(const float *y, const double *x, const float *weight, const float *bias,
                    double eps, size_t D, double limit)
{
    double mean = 0.0;
    double var = 0.0;
    for (size_t i = 0; i < D; i++)
        mean += x[i] / (double)D;
    for (size_t i = 0; i < D; i++)
        var += (x[i] - mean) * (x[i] - mean) / (double)D;
    for (size_t i = 0; i < D; i++) {
        double scaled = (x[i] - mean) / sqrt(var + eps);
        if (!close_to(y[i], scaled * (double)weight[i] + (double)bias[i], limit))
            return false;
    }
    return true;
}

enum { MAX_D = 1537, LD = 1600, ROWS = 19 }; /* a layer norm takes 8 at a time */
static float x0[ROWS * LD], x1[ROWS * LD], y0[ROWS * LD];
static float weight[MAX_D], bias[MAX_D], y_bias[MAX_D], word[7 * MAX_D];
static double sum[MAX_D];
static const size_t widths[] = {1, 2, 31, 32, 33, 48, 96, 768, 1537};
enum { N_WIDTHS = sizeof widths / sizeof widths[0] };

static const char *norms_are_right(void)
{
    for (size_t w = 0; w < N_WIDTHS; w++) {
        size_t D = widths[w];
        fill(x0, ROWS * LD, 3.0f);
        fill(y0, ROWS * LD, 1.0f);
        fill(weight, D, 2.0f);
        fill(bias, D, 1.0f);
        fill(y_bias, D, 1.0f);
        fill(word, 7 * D, 1.0f);
        memcpy(x1, x0, sizeof x0);
        kmf_layernorm_forward(x1, LD, weight, bias, 1e-12, ROWS, D);
        for (size_t n = 0; n < ROWS; n++) {
            for (size_t i = 0; i < D; i++)
                sum[i] = (double)x0[n * LD + i];
            if (!is_norm(x1 + n * LD, sum, weight, bias, 1e-12, D, 1e-5))
                return "the layer norm differs from its definition";
            if (memcmp(x1 + n * LD + D, x0 + n * LD + D, (LD - D) * sizeof *x0) != 0)
                return "the layer norm wrote behind a row";
        }
        if (D < 31)
            continue; /* a sum of a few may cancel to nothing, which no float survives */
        memcpy(x1, x0, sizeof x0);
        kmf_residual_layernorm_forward(x1, LD, y0, LD, y_bias, weight, bias, 1e-5, ROWS, D);
        for (size_t n = 0; n < ROWS; n++) {
            for (size_t i = 0; i < D; i++)
                sum[i] = (double)x0[n * LD + i] + (double)y0[n * LD + i] + (double)y_bias[i];
            if (!is_norm(x1 + n * LD, sum, weight, bias, 1e-5, D, 1e-5))
                return "the norm of a residual differs from its definition";
        }
        const int32_t ids[] = {3, 0, 6, 3, 1};
        kmf_gather_forward(x1, LD, ids, word, y_bias, 5, D);
        for (size_t n = 0; n < 5; n++)
            for (size_t i = 0; i < D; i++)
                if (x1[n * LD + i] != word[(size_t)ids[n] * D + i] + y_bias[i])
                    return "an embedding is not the sum of its token and type";
    }
    return NULL;
}

/* A mean of 1000 and a deviation of 0.01: E[x^2] - E[x]^2 in float would have no digit left. */
static const char *norm_of_a_nearly_constant_row(void)
{
    enum { D = 768 };
    for (size_t i = 0; i < D; i++) {
        x0[i] = 1000.0f + 0.01f * levels_random(&seed);
        sum[i] = (double)x0[i];
        weight[i] = 1.0f;
        bias[i] = 0.0f;
    }
    kmf_layernorm_forward(x0, LD, weight, bias, 1e-12, 1, D);
    /* The mean is a float: up to 3e-5 off, half its last place, over a deviation of 6e-3. */
    if (!is_norm(x0, sum, weight, bias, 1e-12, D, 1e-2))
        return "the norm of a nearly constant row is wrong";
    for (size_t i = 0; i < D; i++)
        x0[i] = 0.37f;
    kmf_layernorm_forward(x0, LD, weight, bias, 1e-12, 1, D);
    for (size_t i = 0; i < D; i++)
        if (!(fabsf(x0[i]) < 0.2f))
            return "the norm of a constant row is not small";
    for (size_t i = 0; i < D; i++)
        x0[i] = i % 2 ? 1e25f : -1e25f; /* squares overflow a float */
    kmf_layernorm_forward(x0, LD, weight, bias, 1e-12, 1, D);
    if (!isnan(x0[0]))
        return "a variance that overflows looks sound";
    return NULL;
}

static const char *rows_are_alone(void)
{
    for (size_t w = 0; w < N_WIDTHS; w++) {
        size_t D = widths[w];
        fill(x0, ROWS * LD, 3.0f);
        fill(weight, D, 2.0f);
        fill(bias, D, 1.0f);
        x0[2 * LD + D / 2] = NAN;
        memcpy(x1, x0, sizeof x0);
        kmf_layernorm_forward(x1, LD, weight, bias, 1e-12, ROWS, D);
        kmf_activation_forward(x1, LD, x1, LD, KMF_GELU, ROWS, D);
        for (size_t n = 0; n < ROWS; n++) {
            static float row[MAX_D];
            memcpy(row, x0 + n * LD, D * sizeof *row);
            kmf_layernorm_forward(row, D, weight, bias, 1e-12, 1, D);
            kmf_activation_forward(row, D, row, D, KMF_GELU, 1, D);
            for (size_t i = 0; i < D; i++) {
                if ((n == 2) != (bool)isnan(x1[n * LD + i]))
                    return "NaN is not where it belongs";
                if (n != 2 && x1[n * LD + i] != row[i])
                    return "a row depends on its neighbours";
            }
        }
    }
    return NULL;
}

static const char *bias_is_added(void)
{
    float x[] = {1.0f, 2.0f, 99.0f, 3.0f, 4.0f, 99.0f};
    kmf_bias_forward(x, 3, (const float[]){0.5f, -2.0f}, 2, 2);
    const float right[] = {1.5f, 0.0f, 99.0f, 3.5f, 2.0f, 99.0f};
    return memcmp(x, right, sizeof x) == 0 ? NULL : "x + bias is wrong";
}

/* ---------------------------------------------------------------- rotary ----------------- */

static const char *rotary_is_right(void)
{
    /* K = 2, base anything: the frequency is 1, so position t turns by t radians. */
    float c[3], s[3];
    kmf_rotary_table(c, s, 10000.0, 0, 3, 2);
    for (int t = 0; t < 3; t++)
        if (!close_to(c[t], cos(t), 6e-8) || !close_to(s[t], sin(t), 6e-8))
            return "the table of one pair is wrong";
    float x[] = {1.0f, 0.0f, 1.0f, 0.0f, 0.0f, 1.0f};
    kmf_rotary_forward(x, 2, c, s, 3, 1, 2);
    const double right[] = {1.0, 0.0, cos(1.0), sin(1.0), -sin(2.0), cos(2.0)};
    for (size_t i = 0; i < 6; i++)
        if (!close_to(x[i], right[i], 1e-7))
            return "a pair is not turned by its position";

    enum { T = 37, H = 3, K = 22, WIDTH = 80 };
    static float table_c[T * K / 2], table_s[T * K / 2], a[T * WIDTH], b[T * WIDTH];
    kmf_rotary_table(table_c, table_s, 10000.0, 0, T, K);
    fill(a, T * WIDTH, 1.0f);
    memcpy(b, a, sizeof a);
    kmf_rotary_forward(b, WIDTH, table_c, table_s, T, H, K);
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < WIDTH; i++) {
            double ours = (double)b[t * WIDTH + i];
            double want = (double)a[t * WIDTH + i];
            if (i < H * K) {
                size_t even = i - i % 2;
                double angle = (double)t / pow(10000.0, (double)(even % K) / K);
                double re = (double)a[t * WIDTH + even];
                double im = (double)a[t * WIDTH + even + 1];
                want = i % 2 ? im * cos(angle) + re * sin(angle)
                             : re * cos(angle) - im * sin(angle);
            }
            if (fabs(ours - want) > 1e-6)
                return "rotary differs from a turn of the plane";
        }
    return NULL;
}

/* ---------------------------------------------------------------- the tests -------------- */

/* Pairs (i, i + r/2) of the first r columns of each head; the others stay. */
static const char *halves_are_turned(void)
{
    enum { T = 7, H = 3, K = 10, R = 6, WIDTH = H * K + 3 };
    static float c[T * R / 2], s[T * R / 2], x[T * WIDTH], y[T * WIDTH];
    kmf_rotary_table(c, s, 5000.0, 0, T, R);
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++)
        x[i] = levels_random(&seed);
    memcpy(y, x, sizeof y);
    kmf_rotary_halves_forward(y, WIDTH, c, s, T, H, K, R);
    for (size_t t = 0; t < T; t++)
        for (size_t j = 0; j < WIDTH; j++) {
            size_t i = j % K;
            double right = (double)x[t * WIDTH + j];
            if (j < H * K && i < R) {
                bool low = i < R / 2;
                size_t pair = i % (R / 2);
                double angle = (double)t * pow(5000.0, -2.0 * (double)pair / R);
                double other = (double)x[t * WIDTH + (low ? j + R / 2 : j - R / 2)];
                right = right * cos(angle) + (low ? -other : other) * sin(angle);
            }
            if (fabs((double)y[t * WIDTH + j] - right) > 2e-6)
                return "a head is not turned in halves";
        }
    return NULL;
}

static const char *gates_multiply(void)
{
    enum { N = 5, F = 37, APART = 2 * F + 3 };
    static float x[N * APART], y[N * APART];
    for (int act = KMF_GELU; act <= KMF_SILU; act++) {
        for (size_t i = 0; i < N * APART; i++)
            x[i] = 4.0f * levels_random(&seed);
        memcpy(y, x, sizeof y);
        kmf_gate_forward(y, APART, y, APART, (kmf_activation)act, N, F);
        for (size_t n = 0; n < N; n++)
            for (size_t i = 0; i < APART; i++) {
                const float *row = x + n * APART;
                double g = (double)row[i < F ? i : 0];
                double h = act == KMF_GELU        ? gelu(g)
                           : act == KMF_GELU_TANH ? gelu_tanh(g)
                           : act == KMF_SILU      ? silu(g)
                                                  : fmax(g, 0.0);
                double right = i < F ? h * (double)row[F + i] : (double)row[i];
                if (fabs((double)y[n * APART + i] - right) > 4e-6)
                    return "a gate is wrong, or something beside it has changed";
            }
    }
    return NULL;
}

/* Of whole numbers, so that sums are exact, for any number of terms. */
static const char *dots_are_sums(void)
{
    enum { N_DOTS = 3, TERMS = 70, APART = TERMS + 1 };
    float a[N_DOTS * APART], b[N_DOTS * APART], dots[N_DOTS];
    for (int i = 0; i < N_DOTS * APART; i++) {
        a[i] = (float)(i % 13 - 6);
        b[i] = (float)(i % 11 - 4);
    }
    for (size_t K = 0; K <= TERMS; K++) {
        kmf_dots_forward(dots, a, APART, b, APART, N_DOTS, K);
        for (size_t r = 0; r < N_DOTS; r++) {
            float right = 0;
            for (size_t i = r * APART; i < r * APART + K; i++)
                right += a[i] * b[i];
            if (dots[r] != right)
                return "a dot product is not the sum of its terms";
        }
    }
    return NULL;
}

static const levels_part parts[] = {
    {"activation", activation_is_right}, {"limits", activation_has_limits},
    {"norms", norms_are_right},          {"constant", norm_of_a_nearly_constant_row},
    {"alone", rows_are_alone},           {"bias", bias_is_added},
    {"rotary", rotary_is_right},         {"halves", halves_are_turned},
    {"gates", gates_multiply},           {"dots", dots_are_sums},
};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

LEVELS_TEST(gelu_is_within_its_error_of_libm, "activation", levels_vectors[_i])
LEVELS_TEST(activations_have_their_limits_and_keep_nan, "limits", levels_vectors[_i])
LEVELS_TEST(norms_equal_their_definition_in_double, "norms constant", levels_vectors[_i])
LEVELS_TEST(a_row_depends_on_itself_alone_and_keeps_nan, "alone", levels_vectors[_i])
LEVELS_TEST(a_bias_is_added_to_every_row, "bias", levels_vectors[_i])
LEVELS_TEST(gates_and_halves_equal_their_definition, "halves gates", levels_vectors[_i])
LEVELS_TEST(dot_products_of_any_length_are_sums, "dots", levels_vectors[_i])
LEVELS_TEST(rotary_turns_interleaved_pairs_by_position, "rotary", levels_vectors[_i])

int main(int argc, char **argv)
{
    if (argc > 2)
        return levels_child(parts, N_PARTS, argv);
    TCase *tcase = untimed_case();
    tcase_add_test(tcase, exp_is_within_its_error_of_libm);
    tcase_add_test(tcase, exp_has_its_limits);
    tcase_add_loop_test(tcase, rough_gelus_are_within_their_error, 0, 4);
    tcase_add_loop_test(tcase, gelu_is_within_its_error_of_libm, 0, N_VECTORS);
    tcase_add_loop_test(tcase, activations_have_their_limits_and_keep_nan, 0, N_VECTORS);
    tcase_add_loop_test(tcase, norms_equal_their_definition_in_double, 0, N_VECTORS);
    tcase_add_loop_test(tcase, a_row_depends_on_itself_alone_and_keeps_nan, 0, N_VECTORS);
    tcase_add_loop_test(tcase, a_bias_is_added_to_every_row, 0, N_VECTORS);
    tcase_add_loop_test(tcase, gates_and_halves_equal_their_definition, 0, N_VECTORS);
    tcase_add_loop_test(tcase, dot_products_of_any_length_are_sums, 0, N_VECTORS);
    tcase_add_loop_test(tcase, rotary_turns_interleaved_pairs_by_position, 0, N_VECTORS);
    return run_case("ops", tcase);
}
