/* SPDX-License-Identifier: MIT */
/*
 * Products of weights, each engine, kind of operand and processor level against three loops in
 * double over the operands as they are rounded (products.h), integers by the definition in
 * nn/panels.h.
 */
#include "base/cpu.h"
#include "nn/ops.h"
#include "nn/panels.h"
#include "products.h"
#include "run.h"

#include <math.h>
#include <stdint.h>

/*
 * x as steps of a scale, which float knows to that part of it. *slack: a step, where x lies so near
 * the middle of two that a rounding in float decides, else 0.
 */
static double steps_of(double x, double scale, double part, double *slack)
{
    double steps = scale > 0 ? x / scale : 0.0;
    double off = 1e-4 + part * fabs(steps);
    *slack = fabs(fabs(steps - floor(steps)) - 0.5) < off ? scale : 0.0;
    return nearbyint(steps);
}

/* A row of x in groups of so many, or of w in one group, as integers stand for it. */
typedef struct in_integers {
    double *low;   /* [rows, K]: the least of the group; 0 for weights */
    double *steps; /* [rows, K]: times scale, to be added to low */
    double *scale; /* [rows, K] */
    double *slack; /* [rows, K]: how far off it may be, where the rounding is a tie */
} in_integers;

static bool in_integers_new(in_integers *b, size_t rows, size_t K)
{
    b->low = kmf_calloc(4 * rows * K, sizeof *b->low, NULL);
    b->steps = b->low + rows * K;
    b->scale = b->steps + rows * K;
    b->slack = b->scale + rows * K;
    return b->low;
}

/* int16, either side. */
static void read_by_norm(in_integers *b, size_t at, const float *x, size_t K)
{
    double squares = 0.0;
    for (size_t k = 0; k < K; k++)
        squares += (double)x[k] * (double)x[k];
    for (size_t k = 0; k < K; k++) {
        b->low[at + k] = 0.0;
        b->scale[at + k] = sqrt(squares) / 32000;
        b->steps[at + k] = steps_of((double)x[k], b->scale[at + k], 1e-6, &b->slack[at + k]);
    }
}

static void read_group(in_integers *b, size_t at, const float *x, size_t K)
{
    float low = x[0], high = x[0];
    for (size_t k = 0; k < K; k++) {
        low = fminf(low, x[k]);
        high = fmaxf(high, x[k]);
    }
    for (size_t k = 0; k < K; k++) {
        b->low[at + k] = (double)low;
        b->scale[at + k] = ((double)high - (double)low) / 255.0;
        b->steps[at + k] =
            steps_of((double)x[k] - (double)low, b->scale[at + k], 0, &b->slack[at + k]);
    }
}

static void read_column(in_integers *b, size_t at, const float *w, size_t K)
{
    float most = 0.0f;
    for (size_t k = 0; k < K; k++)
        most = fmaxf(most, fabsf(w[k]));
    for (size_t k = 0; k < K; k++) {
        b->scale[at + k] = (double)most / 127.0;
        b->steps[at + k] = steps_of((double)w[k], b->scale[at + k], 0, &b->slack[at + k]);
    }
}

/* Whether y is the product of a row of x and one of w, both from `at` on. */
UNCHECKED static bool is_sum_of_integers(double y, const in_integers *x, size_t at_x,
                                         const in_integers *w, size_t at_w, size_t K)
{
    double sum = 0.0, limit = 0.0;
    for (size_t i = at_x, j = at_w; i < at_x + K; i++, j++) {
        double u = x->steps[i] * x->scale[i];
        double a = x->low[i] + u;
        double weight = fabs(w->steps[j]) * w->scale[j];
        sum += a * w->steps[j] * w->scale[j];
        limit += x->slack[i] * weight + w->slack[j] * (fabs(a) + x->slack[i]);
        limit += 1e-6 * (fabs(x->low[i]) + fabs(u)) * weight;
    }
    return fabs(y - sum) <= limit;
}

/*
 * Whether y is x w^T with both rounded to bytes or int16, x in groups of so many columns.
 * x: [N, K]   w: [Dout, K]   y: [N, Dout]
 */
static bool is_product_of_integers(const float *y, const float *x, const float *w, size_t N,
                                   size_t Dout, size_t K, size_t group, kmf_operand operand)
{
    bool bytes = operand == KMF_OPERAND_INT8;
    in_integers a, b;
    bool right = in_integers_new(&a, N, K);
    right = in_integers_new(&b, Dout, K) && right;
    for (size_t n = 0; right && n < N; n++)
        for (size_t k = 0; k < K; k += group)
            (bytes ? read_group : read_by_norm)(&a, n * K + k, x + n * K + k,
                                                K - k < group ? K - k : group);
    for (size_t o = 0; right && o < Dout; o++)
        (bytes ? read_column : read_by_norm)(&b, o * K, w + o * K, K);
    for (size_t n = 0; n < N; n++)
        for (size_t o = 0; right && o < Dout; o++)
            right = is_sum_of_integers((double)y[n * Dout + o], &a, n * K, &b, o * K, K);
    kmf_free(a.low);
    kmf_free(b.low);
    return right;
}

/* ---------------------------------------------------------------- weights ---------------- */

static const struct {
    size_t Dout, Din;
} shapes[] = {{1, 1},    {7, 3},     {24, 32},  {32, 24},  {33, 65},
              {97, 513}, {48, 1030}, {129, 48}, {33, 2100}};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

/* Behind the rows of y there is room for SPARE more, which nobody may touch. */
enum { SPARE = 3, GUARD = 256 };
#define GUARD_BYTE 0xff
#define UNTOUCHED 7.0f

typedef struct weight {
    float *w;
    void *room, *scratch;
    float *x; /* up to a whole tile */
    float *y;
    size_t Dout, Din, N;
    kmf_weight packed;
} weight;

static bool weight_new(weight *p, size_t Dout, size_t Din, size_t N, kmf_operand operand)
{
    *p = (weight){.Dout = Dout, .Din = Din, .N = N};
    p->w = random_floats(Dout * Din);
    p->x = random_floats((N + KMF_TILE) * Din);
    p->y = random_floats((N + SPARE) * Dout);
    p->room = kmf_large(kmf_gemm_packed_bytes(Dout, Din, operand), 1, NULL);
    p->scratch = kmf_large(kmf_gemm_scratch(N, Din, operand) + GUARD, 1, NULL);
    if (!p->w || !p->x || !p->y || !p->room || !p->scratch)
        return false;
    for (size_t i = N * Dout; i < (N + SPARE) * Dout; i++)
        p->y[i] = UNTOUCHED;
    /* what nobody writes is NaN, where it is no integer */
    memset(p->room, GUARD_BYTE, kmf_gemm_packed_bytes(Dout, Din, operand));
    memset(p->scratch, GUARD_BYTE, kmf_gemm_scratch(N, Din, operand) + GUARD);
    p->packed = kmf_gemm_pack(p->room, (const float *[]){p->w}, 1, Din, Dout, Din, operand);
    return true;
}

static void weight_free(weight *p)
{
    kmf_free(p->w);
    kmf_free(p->x);
    kmf_free(p->y);
    kmf_free(p->room);
    kmf_free(p->scratch);
}

static void weight_run(weight *p, const kmf_epilogue *epilogue)
{
    kmf_gemm_weight(p->y, p->Dout, p->x, p->Din, &p->packed, p->N, epilogue, p->scratch);
}

/* Behind the last row, and behind the scratch. */
static bool rows_behind_are_untouched(const weight *p)
{
    const unsigned char *behind =
        (const unsigned char *)p->scratch + kmf_gemm_scratch(p->N, p->Din, p->packed.operand);
    for (size_t i = 0; i < GUARD; i++)
        if (behind[i] != GUARD_BYTE)
            return false;
    for (size_t i = p->N * p->Dout; i < (p->N + SPARE) * p->Dout; i++)
        if (p->y[i] != UNTOUCHED)
            return false;
    return true;
}

static const size_t row_numbers[] = {1, 5, KMF_TILE, 2 * KMF_TILE + 25};
enum { N_ROW_NUMBERS = sizeof row_numbers / sizeof row_numbers[0] };

static bool of_integers(kmf_operand operand)
{
    return operand == KMF_OPERAND_INT8 || operand == KMF_OPERAND_INT16;
}

static const char *weight_is_right(kmf_operand operand)
{
    for (size_t s = 0; s < (size_t)N_SHAPES * N_ROW_NUMBERS; s++) {
        weight p;
        size_t Dout = shapes[s % N_SHAPES].Dout, Din = shapes[s % N_SHAPES].Din;
        if (!weight_new(&p, Dout, Din, row_numbers[s / N_SHAPES], operand))
            return "no memory";
        if (p.N > 4 && Dout > 4) {
            for (size_t k = 0; k < Din; k++) { /* no scale can be made of these */
                p.x[3 * Din + k] = 0.375f;
                p.w[2 * Din + k] = 0.0f;
            }
            kmf_gemm_pack(p.room, (const float *[]){p.w}, 1, Din, Dout, Din, operand);
        }
        weight_run(&p, NULL);
        bool right = of_integers(operand)
                         ? is_product_of_integers(p.y, p.x, p.w, p.N, Dout, Din, Din, operand)
                         : is_rounded_product(p.y, Dout, p.x, Din, p.w, Din, 1, p.N, Dout, Din,
                                              0.0, operand);
        if (!right)
            return "a weight product is not that of three loops";
        if (!rows_behind_are_untouched(&p))
            return "something was written behind the last row";
        weight_free(&p);
    }
    return NULL;
}

/* Rows of x, y and w that are further apart than they are long. */
static const char *strides_are_kept(kmf_operand operand)
{
    enum { Dout = 37, Din = 29, LD_X = 50, LD_Y = 41, LD_W = 33 };
    weight p;
    if (!weight_new(&p, Dout, Din, KMF_TILE, operand))
        return "no memory";
    float *x = random_floats(KMF_TILE * LD_X);
    float *y = random_floats(KMF_TILE * LD_Y);
    float *w = random_floats(Dout * LD_W);
    if (!x || !y || !w)
        return "no memory";
    for (size_t i = 0; i < KMF_TILE * LD_Y; i++)
        y[i] = UNTOUCHED;
    for (size_t n = 0; n < KMF_TILE; n++)
        memcpy(x + n * LD_X, p.x + n * Din, Din * sizeof *x);
    for (size_t o = 0; o < Dout; o++)
        memcpy(w + o * LD_W, p.w + o * Din, Din * sizeof *w);
    weight_run(&p, NULL);
    p.packed = kmf_gemm_pack(p.room, (const float *[]){w}, 1, LD_W, Dout, Din, operand);
    kmf_gemm_weight(y, LD_Y, x, LD_X, &p.packed, KMF_TILE, NULL, p.scratch);
    for (size_t n = 0; n < KMF_TILE; n++) {
        if (memcmp(y + n * LD_Y, p.y + n * Dout, Dout * sizeof *y) != 0)
            return "a product with strides is wrong";
        for (size_t i = Dout; i < LD_Y; i++)
            if (y[n * LD_Y + i] != UNTOUCHED)
                return "something was written behind a row";
    }
    kmf_free(x);
    kmf_free(y);
    kmf_free(w);
    weight_free(&p);
    return NULL;
}

static const char *parts_are_joined(kmf_operand operand)
{
    enum { PART = 23, Din = 31 };
    float *w = random_floats(3 * PART * Din);
    size_t bytes = kmf_gemm_packed_bytes(3 * PART, Din, operand);
    char *whole = kmf_large_zeroed(bytes, 1, NULL);
    char *joined = kmf_large_zeroed(bytes, 1, NULL);
    if (!w || !whole || !joined)
        return "no memory";
    const float *parts[] = {w, w + PART * Din, w + 2 * PART * Din};
    kmf_gemm_pack(whole, (const float *[]){w}, 1, Din, 3 * PART, Din, operand);
    kmf_gemm_pack(joined, parts, 3, Din, 3 * PART, Din, operand);
    if (memcmp(whole, joined, bytes) != 0)
        return "three matrices packed as one differ from one";
    kmf_free(w);
    kmf_free(whole);
    kmf_free(joined);
    return NULL;
}

/* Row n of a product over N rows moved about equals the row where it was, and the row alone. */
static const char *rows_of(size_t Dout, size_t Din, size_t N, kmf_operand operand)
{
    weight p, q;
    if (!weight_new(&p, Dout, Din, N, operand) || !weight_new(&q, Dout, Din, N, operand))
        return "no memory";
    q.packed = p.packed;
    for (size_t n = 0; n < N; n += 2)
        memcpy(q.x + (n * 29 + 5) % N * Din, p.x + n * Din, Din * sizeof *p.x);
    weight_run(&p, NULL);
    weight_run(&q, NULL);
    for (size_t n = 0; n < N; n += 2)
        if (memcmp(q.y + (n * 29 + 5) % N * Dout, p.y + n * Dout, Dout * sizeof *p.y) != 0)
            return "a row depends on its place or its neighbours";
    for (size_t n = 1; n < N; n += 17) {
        kmf_gemm_weight(q.y, Dout, p.x + n * Din, Din, &p.packed, 1, NULL, q.scratch);
        if (memcmp(q.y, p.y + n * Dout, Dout * sizeof *p.y) != 0)
            return "a row by itself differs";
    }
    weight_free(&p);
    weight_free(&q);
    return NULL;
}

static const char *rows_do_not_see_neighbours(kmf_operand operand)
{
    /* of more rows than any engine takes in a call, and so large that OpenBLAS gets so many */
    const char *wrong = rows_of(520, 200, 11 * KMF_TILE + 5, operand);
    for (size_t s = 0; s < N_SHAPES && !wrong; s++)
        wrong = rows_of(shapes[s].Dout, shapes[s].Din, 2 * KMF_TILE + 38, operand);
    return wrong;
}

/*
 * The NaN is in any place of the vectors that are looked at together, or in the tail. An integer
 * has no infinity; where a number has parts an infinite one may as well become NaN.
 */
static const char *nan_stays_in_its_row(kmf_operand operand)
{
    enum { COLUMNS = 64 };
    bool integers = of_integers(operand);
    bool parts = operand == KMF_OPERAND_F32 && strcmp(kmf_gemm_name(), "plain amx") == 0;
    weight p;
    if (!weight_new(&p, 37, 600, KMF_TILE, operand))
        return "no memory";
    if (!integers)
        p.x[12 * p.Din] = INFINITY;
    for (size_t k = 0; k <= COLUMNS; k++) {
        float *x = p.x + 11 * p.Din + (k < COLUMNS ? k : p.Din - 1);
        float before = *x;
        *x = NAN;
        weight_run(&p, NULL);
        *x = before;
        for (size_t n = 0; n < p.N; n++)
            for (size_t i = 0; i < p.Dout; i++) {
                float y = p.y[n * p.Dout + i];
                bool infinite = n == 12 && !integers;
                if (infinite && parts
                        ? isfinite(y)
                        : (n == 11) != (bool)isnan(y) || infinite != (bool)isinf(y))
                    return "NaN or infinity is not where it belongs";
            }
    }
    weight_free(&p);
    return NULL;
}

/* Root mean square of errors, in units of the sum of all |x w|; what a loop of fmaf makes is 1. */
static const char *f32_is_exact(void)
{
    enum { N = 40, Dout = 50, Din = 1030 };
    weight p;
    if (!weight_new(&p, Dout, Din, N, KMF_OPERAND_F32))
        return "no memory";
    weight_run(&p, NULL);
    double error = 0, usual = 0;
    for (size_t n = 0; n < N; n++)
        for (size_t o = 0; o < Dout; o++) {
            double right = 0, size = 0;
            float fused = 0;
            for (size_t k = 0; k < Din; k++) {
                float x = p.x[n * Din + k], w = p.w[o * Din + k];
                right += (double)x * (double)w;
                size += fabs((double)x * (double)w);
                fused = fmaf(x, w, fused);
            }
            error += pow(((double)p.y[n * Dout + o] - right) / size, 2);
            usual += pow(((double)fused - right) / size, 2);
        }
    double ratio = sqrt(error / usual);
    printf("float32: errors %.2f of those of fused multiply-add\n", ratio);
    weight_free(&p);
    return ratio < 1.6 ? NULL : "sums of float32 are rougher than their numbers";
}

static bool is_near(const float *y, const float *right, double limit, size_t n)
{
    if (limit == 0.0)
        return memcmp(y, right, n * sizeof *y) == 0;
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)y[i] - (double)right[i]) <= limit))
            return false;
    return true;
}

/* Bias and activation, in the bits of the loops of nn/ops.h; GELU as near as it is said to be. */
static const char *endings_are_those_of_the_loops(kmf_operand operand)
{
    for (size_t s = 0; s < N_SHAPES; s++) {
        weight p;
        size_t Dout = shapes[s].Dout, N = KMF_TILE + 31, n = N * Dout;
        if (!weight_new(&p, Dout, shapes[s].Din, N, operand))
            return "no memory";
        float *bias = random_floats(Dout);
        float *sums = kmf_floats(n, NULL);
        float *right = kmf_floats(n, NULL);
        if (!bias || !sums || !right)
            return "no memory";
        weight_run(&p, NULL);
        memcpy(sums, p.y, n * sizeof *sums);
        for (int end = 0; end < 5; end++) {
            static const kmf_activation kinds[] = {KMF_GELU, KMF_GELU_TANH, KMF_RELU, KMF_SILU};
            bool activate = end < 4;
            kmf_epilogue epilogue = {bias, activate, activate ? kinds[end] : KMF_GELU};
            memcpy(right, sums, n * sizeof *right);
            kmf_bias_forward(right, Dout, bias, N, Dout);
            if (activate)
                kmf_activation_forward(right, Dout, right, Dout, kinds[end], N, Dout);
            weight_run(&p, &epilogue);
            bool rough = operand != KMF_OPERAND_F32 && end < 2;
            if (!is_near(p.y, right, rough ? 1e-4 : 0.0, n))
                return "a bias or an activation differs from its loop";
            if (!rows_behind_are_untouched(&p))
                return "something was written behind the last row";
        }
        kmf_free(bias);
        kmf_free(sums);
        kmf_free(right);
        weight_free(&p);
    }
    return NULL;
}

/*
 * A product whose columns are whole blocks may be ended while it is computed; the same weights with
 * some columns more are ended behind it. Neither is to be seen.
 */
static const char *more_columns_change_no_bit(kmf_operand operand)
{
    static const size_t depths[] = {3, 96, 260, 1024, 2400};
    const size_t n_depths = sizeof depths / sizeof depths[0] - CHECKED;
    static const kmf_activation kinds[] = {KMF_GELU, KMF_GELU_TANH, KMF_RELU, KMF_SILU};
    for (size_t s = 0; s < n_depths * N_ROW_NUMBERS; s++) {
        enum { Dout = 160, MORE = 9, WIDE = Dout + MORE };
        size_t Din = depths[s / N_ROW_NUMBERS], N = row_numbers[s % N_ROW_NUMBERS];
        weight p, q;
        if (!weight_new(&p, Dout, Din, N, operand) || !weight_new(&q, WIDE, Din, N, operand))
            return "no memory";
        float *bias = random_floats(WIDE);
        if (!bias)
            return "no memory";
        memcpy(q.w, p.w, Dout * Din * sizeof *q.w);
        memcpy(q.x, p.x, N * Din * sizeof *q.x);
        q.packed = kmf_gemm_pack(q.room, (const float *[]){q.w}, 1, Din, WIDE, Din, operand);
        for (int end = 0; end < 6; end++) {
            kmf_epilogue epilogue = {end < 5 ? bias : NULL, end < 4, kinds[end % 4]};
            weight_run(&p, &epilogue);
            weight_run(&q, &epilogue);
            for (size_t n = 0; n < N; n++)
                if (memcmp(p.y + n * Dout, q.y + n * WIDE, Dout * sizeof *p.y) != 0)
                    return "a product with other columns beside it has other bits";
            if (!rows_behind_are_untouched(&p))
                return "something was written behind the last row";
        }
        kmf_free(bias);
        weight_free(&p);
        weight_free(&q);
    }
    return NULL;
}

/*
 * The bits of a product, what lies between, and a product; of integers those in groups, which
 * are whole rows where the gate's columns are no whole panels. gated: kmf_gate_forward lies there.
 */
static const char *a_pair_in(kmf_operand operand, kmf_operand then)
{
    static const struct {
        size_t F, D;
    } inner[] = {{1, 67},     {24, 67},   {65, 67},   {96, 67},   {130, 67},
                 {512, 67},   {1030, 67}, {512, 96},  {2112, 64}, {96, 1100},
                 {130, 1100}, {336, 67},  {2112, 67}, {1030, 160}};
    const size_t n_inner = sizeof inner / sizeof inner[0] - (CHECKED ? 3 : 0);
    size_t most = kmf_gemm_rows(operand);
    size_t most_then = kmf_gemm_rows(then);
    const size_t row_counts[] = {1, 41, most < most_then ? most : most_then};
    for (size_t s = 0; s < n_inner * 6; s++) {
        size_t F = inner[s / 6].F, D = inner[s / 6].D, N = row_counts[s / 2 % 3];
        bool gated = s % 2 != 0;
        size_t wide = gated ? 2 * F : F;
        weight first, second;
        if (!weight_new(&first, wide, D, N, operand) || !weight_new(&second, D, F, N, then))
            return "no memory";
        float *bias = random_floats(wide);
        float *y = random_floats((N + SPARE) * D);
        size_t bytes = kmf_gemm_pair_scratch(D, F, gated, operand, then);
        unsigned char *scratch = kmf_large(bytes + GUARD, 1, NULL);
        if (!bias || !y || !scratch)
            return "no memory";
        memset(scratch, GUARD_BYTE, bytes + GUARD);
        for (size_t i = N * D; i < (N + SPARE) * D; i++)
            y[i] = UNTOUCHED;
        kmf_epilogue between = {bias, true, N % 2 == 0 ? KMF_GELU : KMF_RELU};
        weight_run(&first, gated ? &(kmf_epilogue){.bias = bias} : &between);
        if (gated)
            kmf_gate_forward(second.x, F, first.y, wide, between.activation, N, F);
        else
            memcpy(second.x, first.y, N * F * sizeof *second.x);
        weight_run(&second, NULL);
        kmf_gemm_pair(y, D, first.x, D, &first.packed, &second.packed, N, &between, gated,
                      scratch);
        bool in_groups = of_integers(then) && F > KMF_INT8_GROUP && !(gated && F % 64 != 0);
        if (in_groups)
            memcpy(second.y, y, N * D * sizeof *y);
        if (memcmp(y, second.y, (N + SPARE) * D * sizeof *y) != 0)
            return "two products in a row differ from one after the other";
        if (in_groups &&
            !is_product_of_integers(y, second.x, second.w, N, D, F, KMF_INT8_GROUP, then))
            return "a product of integers in groups is not that of three loops";
        for (size_t i = 0; i < GUARD; i++)
            if (scratch[bytes + i] != GUARD_BYTE)
                return "something was written behind the scratch";
        kmf_free(bias);
        kmf_free(y);
        kmf_free(scratch);
        weight_free(&first);
        weight_free(&second);
    }
    return NULL;
}

static const char *a_pair_is_two_products(kmf_operand operand)
{
    const char *wrong = a_pair_in(operand, operand);
    if (!wrong && operand == KMF_OPERAND_INT8)
        wrong = a_pair_in(operand, kmf_operand_finer());
    if (!wrong && operand == KMF_OPERAND_INT8)
        wrong = a_pair_in(operand, KMF_OPERAND_INT16);
    return wrong;
}

/* ---------------------------------------------------------------- the way back ----------- */

/* dx = dy W with W in two parts, rows ld apart. */
static const char *the_way_back_is_right(kmf_operand operand)
{
    enum { PARTS = 2, APART = 3 };
    for (size_t s = 0; s < N_SHAPES; s++) {
        size_t Dout = PARTS * shapes[s].Dout, Din = shapes[s].Din, N = KMF_TILE + 23;
        size_t ld = Din + APART;
        float *w = random_floats(Dout * ld);
        float *dy = random_floats((N + KMF_TILE) * Dout);
        float *dx = random_floats(N * Din);
        char *room = kmf_large(kmf_gemm_packed_bytes(Din, Dout, operand), 1, NULL);
        void *scratch = kmf_large(kmf_gemm_scratch(N, Dout, operand) + 64, 1, NULL);
        if (!w || !dy || !dx || !room || !scratch)
            return "no memory";
        const float *parts[] = {w, w + Dout / PARTS * ld};
        kmf_weight back = kmf_gemm_pack_back(room, parts, PARTS, ld, Dout, Din, operand);
        kmf_gemm_weight(dx, Din, dy, Dout, &back, N, NULL, scratch);
        if (!is_rounded_product(dx, Din, dy, Dout, w, 1, ld, N, Din, Dout, 0.0, operand))
            return "dy W is not that of three loops";
        kmf_free(w);
        kmf_free(dy);
        kmf_free(dx);
        kmf_free(room);
        kmf_free(scratch);
    }
    return NULL;
}

/* ---------------------------------------------------------------- parts ------------------ */

/* Prints a checksum of the bits of some products. */
static const char *checksum(void)
{
    uint64_t sum = 14695981039346656037u;
    seed = 88172645463325252u;
    for (size_t s = 0; s < N_SHAPES; s++) {
        weight p;
        if (!weight_new(&p, shapes[s].Dout, shapes[s].Din, KMF_TILE, KMF_OPERAND_F32))
            return "no memory";
        weight_run(&p, NULL);
        for (size_t i = 0; i < p.N * p.Dout; i++) {
            uint32_t bits;
            memcpy(&bits, &p.y[i], sizeof bits);
            sum = (sum ^ bits) * 1099511628211u;
        }
        weight_free(&p);
    }
    printf("%016llx\n", (unsigned long long)sum);
    return NULL;
}

static const char *name(void)
{
    printf("%s", kmf_gemm_name());
    return NULL;
}

static const char *level(void)
{
    printf("%s", kmf_cpu_name(kmf_cpu_level()));
    return NULL;
}

PART(weight, F32, weight_is_right)
PART(weight, BF16, weight_is_right)
PART(weight, INT8, weight_is_right)
PART(weight, INT16, weight_is_right)
PART(strides, F32, strides_are_kept)
PART(strides, BF16, strides_are_kept)
PART(strides, INT8, strides_are_kept)
PART(strides, INT16, strides_are_kept)
PART(parts, F32, parts_are_joined)
PART(parts, BF16, parts_are_joined)
PART(parts, INT8, parts_are_joined)
PART(parts, INT16, parts_are_joined)
PART(rows, F32, rows_do_not_see_neighbours)
PART(rows, BF16, rows_do_not_see_neighbours)
PART(rows, INT8, rows_do_not_see_neighbours)
PART(rows, INT16, rows_do_not_see_neighbours)
PART(nan, F32, nan_stays_in_its_row)
PART(nan, BF16, nan_stays_in_its_row)
PART(nan, INT8, nan_stays_in_its_row)
PART(nan, INT16, nan_stays_in_its_row)
PART(endings, F32, endings_are_those_of_the_loops)
PART(columns, F32, more_columns_change_no_bit)
PART(columns, BF16, more_columns_change_no_bit)
PART(columns, INT8, more_columns_change_no_bit)
PART(columns, INT16, more_columns_change_no_bit)
PART(pair, F32, a_pair_is_two_products)
PART(endings, BF16, endings_are_those_of_the_loops)
PART(pair, BF16, a_pair_is_two_products)
PART(endings, INT8, endings_are_those_of_the_loops)
PART(endings, INT16, endings_are_those_of_the_loops)
PART(pair, INT8, a_pair_is_two_products)
PART(back, F32, the_way_back_is_right)
PART(back, BF16, the_way_back_is_right)

static const levels_part parts[] = {
    {"weight_f32", weight_F32},
    {"weight_bf16", weight_BF16},
    {"weight_int8", weight_INT8},
    {"weight_int16", weight_INT16},
    {"strides_f32", strides_F32},
    {"strides_bf16", strides_BF16},
    {"strides_int8", strides_INT8},
    {"strides_int16", strides_INT16},
    {"parts_f32", parts_F32},
    {"parts_bf16", parts_BF16},
    {"parts_int8", parts_INT8},
    {"parts_int16", parts_INT16},
    {"rows_f32", rows_F32},
    {"rows_bf16", rows_BF16},
    {"rows_int8", rows_INT8},
    {"rows_int16", rows_INT16},
    {"nan_f32", nan_F32},
    {"exact_f32", f32_is_exact},
    {"nan_bf16", nan_BF16},
    {"nan_int8", nan_INT8},
    {"nan_int16", nan_INT16},
    {"endings_f32", endings_F32},
    {"columns_f32", columns_F32},
    {"columns_bf16", columns_BF16},
    {"columns_int8", columns_INT8},
    {"columns_int16", columns_INT16},
    {"pair_f32", pair_F32},
    {"endings_bf16", endings_BF16},
    {"pair_bf16", pair_BF16},
    {"endings_int8", endings_INT8},
    {"endings_int16", endings_INT16},
    {"pair_int8", pair_INT8},
    {"back_f32", back_F32},
    {"back_bf16", back_BF16},
    {"checksum", checksum},
    {"name", name},
    {"level", level},
    {"here", here},
};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

LEVELS_TEST(weight_products_equal_three_loops_in_double, "weight_f32 strides_f32", setting(_i))
LEVELS_TEST(matrices_packed_together_are_one_matrix, "parts_f32", setting(_i))
LEVELS_TEST(a_row_does_not_depend_on_neighbours_or_place, "rows_f32", setting(_i))
LEVELS_TEST(float32_is_as_exact_as_fused_multiply_add, "exact_f32", setting(_i))
LEVELS_TEST(nan_and_infinity_stay_in_their_rows, "nan_f32", setting(_i))
LEVELS_TEST(the_gradient_of_a_weight_products_input_equals_three_loops_in_double, "back_f32",
            setting(_i))
LEVELS_TEST(endings_equal_the_loops_that_they_stand_for, "endings_f32 columns_f32 pair_f32",
            setting(_i))

START_TEST(bf16_products_equal_those_of_the_rounded_operands)
{
    if (!has("bf16", "")) {
        printf("skip: this processor has no products of bfloat16\n");
        return;
    }
    levels_run("weight_bf16 strides_bf16 parts_bf16 rows_bf16 nan_bf16 endings_bf16 "
               "columns_bf16 pair_bf16 back_bf16",
               precise[_i], NULL);
}
END_TEST

START_TEST(int8_products_equal_those_of_the_quantised_operands)
{
    if (!has("int8", precise[_i])) {
        printf("skip: this processor has no products of bytes\n");
        return;
    }
    levels_run("weight_int8 strides_int8 parts_int8 rows_int8 nan_int8 endings_int8 "
               "columns_int8 pair_int8",
               precise[_i], NULL);
}
END_TEST

START_TEST(int16_products_equal_those_of_the_rounded_operands)
{
    if (!has("int8", precise[_i])) {
        printf("skip: this processor has no products of int16\n");
        return;
    }
    levels_run("weight_int16 strides_int16 parts_int16 rows_int16 nan_int16 endings_int16 "
               "columns_int16",
               precise[_i], NULL);
}
END_TEST

/* Is the processor's own level avx512 or above it? */
static bool has_vectors_of_512(void)
{
    char now[256] = "";
    levels_run("level", "KMERFORMER_CPU=avx512", now);
    return strcmp(now, "avx512") == 0;
}

START_TEST(a_precision_that_the_processor_lacks_is_f32)
{
    ck_assert(!has("bf16", "KMERFORMER_CPU=vnni"));
    ck_assert(!has("bf16", "KMERFORMER_CPU=avx512"));
    ck_assert(!has_vectors_of_512() || !has("int8", "KMERFORMER_CPU=avx512"));
    ck_assert(!has("bf16", "KMERFORMER_CPU=avx2"));
    ck_assert(has("f32 f32", "KMERFORMER_CPU=baseline"));
    ck_assert(has("int8", "") == has("int8", "KMERFORMER_CPU=vnni"));
    ck_assert_int_eq(kmf_precision_here(KMF_PRECISION_F32), KMF_PRECISION_F32);
    ck_assert_int_eq(kmf_precision_here(KMF_PRECISION_AUTO),
                     kmf_cpu_bf16_is_faster() ? KMF_PRECISION_BF16 : KMF_PRECISION_F32);
    char now[256] = "";
    char said[256] = "";
    levels_run("level", "", now);
    levels_run("level", "KMERFORMER_CPU=bf16", said);
    if (strcmp(now, "amx") == 0)
        ck_assert_str_eq(said, "bf16");
    else
        printf("skip: this processor has no tile registers, or may not use them\n");
}
END_TEST

START_TEST(openblas_when_asked_for_computes_the_same)
{
    char said[256];
    levels_run("name", "KMERFORMER_GEMM=openblas", said);
    ck_assert_msg(strncmp(said, "openblas ", 9) == 0, "%s", said);
    levels_run("weight_f32 strides_f32 parts_f32 nan_f32 back_f32 endings_f32 pair_f32",
               "KMERFORMER_GEMM=openblas", NULL);
}
END_TEST

START_TEST(openblas_is_used_where_nothing_better_is_there_and_it_treats_rows_alike)
{
#if defined(__x86_64__)
    char said[256] = "";
    levels_run("name", "KMERFORMER_CPU=baseline OPENBLAS_CORETYPE=Nehalem", said);
    ck_assert_str_eq(said, "openblas Nehalem");
    levels_run("name", "KMERFORMER_CPU=baseline OPENBLAS_CORETYPE=Haswell", said);
    ck_assert_str_eq(said, "plain baseline");
    char now[256] = "";
    char plain[300];
    levels_run("level", "", now);
    if (strcmp(now, "baseline") == 0) {
        printf("skip: a processor without AVX2 has one level\n");
        return;
    }
    snprintf(plain, sizeof plain, "plain %s", now);
    levels_run("name", "", said);
    ck_assert_str_eq(said, plain);
    if (has_vectors_of_512())
        levels_run("rows_f32 weight_f32", "KMERFORMER_GEMM=openblas OPENBLAS_CORETYPE=SkylakeX",
                   NULL);
#else
    printf("skip: the core types are those of x86-64\n");
#endif
}
END_TEST

START_TEST(levels_with_fused_products_agree_in_every_bit)
{
    if (!has_vectors_of_512()) {
        printf("skip: this processor has vectors of one such width or none\n");
        return;
    }
    char wide[256], narrow[256];
    levels_run("checksum", "KMERFORMER_GEMM=plain KMERFORMER_CPU=avx512", wide);
    levels_run("checksum", "KMERFORMER_GEMM=plain KMERFORMER_CPU=avx2", narrow);
    ck_assert_str_eq(wide, narrow);
}
END_TEST

START_TEST(a_size_that_does_not_fit_is_0)
{
    ck_assert_uint_eq(kmf_gemm_packed_bytes(SIZE_MAX / 2, 3, KMF_OPERAND_F32), 0);
    ck_assert_uint_eq(kmf_gemm_packed_bytes(3, SIZE_MAX / 2, KMF_OPERAND_F32), 0);
    ck_assert_uint_eq(kmf_gemm_packed_bytes(SIZE_MAX - 1, 1, KMF_OPERAND_F32), 0);
    ck_assert_uint_ge(kmf_gemm_packed_bytes(100, 10, KMF_OPERAND_F32), 4000);
    ck_assert_uint_eq(kmf_gemm_packed_bytes(101, 11, KMF_OPERAND_F32) % 64, 0);
    bool plain = kmf_gemm_rows(KMF_OPERAND_F32) == KMF_TILE;
    ck_assert_int_eq(kmf_gemm_scratch(1, 1000, KMF_OPERAND_F32) == 0, plain);
}
END_TEST

/* What is enough for some terms and rows is enough for fewer, so that one scratch serves all. */
START_TEST(scratch_for_more_terms_or_rows_is_no_smaller)
{
    static const kmf_operand wishes[] = {KMF_OPERAND_F32, KMF_OPERAND_BF16, KMF_OPERAND_INT8,
                                         KMF_OPERAND_INT16};
    kmf_operand operand = kmf_kernel_of(wishes[_i]) ? wishes[_i] : KMF_OPERAND_F32;
    size_t before = 0;
    for (size_t Din = 1; Din < 6000; Din += 31) {
        size_t bytes = kmf_gemm_scratch(2 * KMF_TILE, Din, operand);
        ck_assert_msg(bytes >= before, "%zu bytes for %zu terms, more for fewer", bytes, Din);
        ck_assert_uint_le(kmf_gemm_scratch(KMF_TILE, Din, operand), bytes);
        before = bytes;
    }
    if (kmf_gemm_rows(operand) == (size_t)2 * KMF_TILE && operand != KMF_OPERAND_INT8)
        ck_assert_uint_eq(kmf_gemm_scratch(1, 3000, operand),
                          kmf_gemm_scratch(1, 6000, operand));
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 2)
        return levels_child(parts, N_PARTS, argv);
    TCase *tcase = untimed_case();
    tcase_add_loop_test(tcase, weight_products_equal_three_loops_in_double, 0, N_SETTINGS);
    tcase_add_loop_test(tcase, matrices_packed_together_are_one_matrix, 0, N_SETTINGS);
    tcase_add_loop_test(tcase, a_row_does_not_depend_on_neighbours_or_place, 0, N_SETTINGS);
    tcase_add_loop_test(tcase, float32_is_as_exact_as_fused_multiply_add, 0, N_SETTINGS);
    tcase_add_loop_test(tcase, nan_and_infinity_stay_in_their_rows, 0, N_SETTINGS);
    tcase_add_loop_test(tcase,
                        the_gradient_of_a_weight_products_input_equals_three_loops_in_double, 0,
                        N_SETTINGS);
    tcase_add_loop_test(tcase, endings_equal_the_loops_that_they_stand_for, 0, N_SETTINGS);
    tcase_add_loop_test(tcase, bf16_products_equal_those_of_the_rounded_operands, 0, N_BF16);
    tcase_add_loop_test(tcase, int8_products_equal_those_of_the_quantised_operands, 0,
                        N_PRECISE);
    tcase_add_loop_test(tcase, int16_products_equal_those_of_the_rounded_operands, 0,
                        N_PRECISE);
    tcase_add_test(tcase, a_precision_that_the_processor_lacks_is_f32);
    tcase_add_test(tcase, openblas_when_asked_for_computes_the_same);
    tcase_add_test(tcase,
                   openblas_is_used_where_nothing_better_is_there_and_it_treats_rows_alike);
    tcase_add_test(tcase, levels_with_fused_products_agree_in_every_bit);
    tcase_add_test(tcase, a_size_that_does_not_fit_is_0);
    tcase_add_loop_test(tcase, scratch_for_more_terms_or_rows_is_no_smaller, 0, 4);
    return run_case("gemm", tcase);
}
