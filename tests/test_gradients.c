/* SPDX-License-Identifier: MIT */
/*
 * Each backward function against the finite difference of its forward. The arithmetic is compiled
 * a second time in double for it (nn/real.h), so that the two agree to eight digits, and a
 * wrong sign or a term left out cannot hide.
 *
 *   L(x) = sum of c y(x), c random;  dL/dx_i = (L(x + h e_i) - L(x - h e_i)) / 2h + O(h^2)
 *
 * for every element of every input, signed; the error is that of the worst element, over the
 * largest gradient of its tensor. Rows are longer than they are wide: behind each row of an input
 * stands NaN, which no result may show, and behind that of an output a mark that must stay.
 */
#include "checked.h"
#include "levels.h"
#include "nn/adamw.h"
#include "nn/attention_train.h"
#include "nn/dropout.h"
#include "nn/loss.h"
#include "nn/ops.h"
#include "run.h"

#include <math.h>
#include <stdbool.h>

#ifndef KMF_DOUBLE
#error "compiled with -DKMF_DOUBLE, as the arithmetic it tests"
#endif

#define LIMIT 1e-7
#define STEP 1e-5
#define MARK 7.0
#define NOTHING ((double)NAN)

/* ---------------------------------------------------------------- matrices --------------- */

enum { ROOM = 4096 };

/* N rows of D numbers, ld apart. */
typedef struct mat {
    size_t N, D, ld;
    double a[ROOM];
} mat;

static uint64_t seed = 88172645463325252u;

/* Random numbers in [-scale, scale), and `behind` behind each row. */
static void shape(mat *x, size_t N, size_t D, size_t ld, double scale, double behind)
{
    ck_assert(N * ld <= ROOM && D <= ld);
    x->N = N;
    x->D = D;
    x->ld = ld;
    for (size_t n = 0; n < N; n++)
        for (size_t i = 0; i < ld; i++)
            x->a[n * ld + i] = i < D ? scale * (double)levels_random(&seed) : behind;
}

static void input(mat *x, size_t N, size_t D, size_t ld)
{
    shape(x, N, D, ld, 1.5, NOTHING);
}

/* Random too: what is overwritten must not matter, and what is added to must be kept. */
static void output(mat *x, size_t N, size_t D, size_t ld)
{
    shape(x, N, D, ld, 1.0, MARK);
}

static bool marks_stand(const mat *x)
{
    for (size_t n = 0; n < x->N; n++)
        for (size_t i = x->D; i < x->ld; i++)
            if (x->a[n * x->ld + i] != MARK)
                return false;
    return true;
}

/* Equal in every bit inside the rows. */
static bool same(const mat *x, const mat *y)
{
    for (size_t n = 0; n < x->N; n++)
        if (memcmp(x->a + n * x->ld, y->a + n * y->ld, x->D * sizeof *x->a) != 0)
            return false;
    return true;
}

static void subtract(mat *x, const mat *y)
{
    for (size_t n = 0; n < x->N; n++)
        for (size_t i = 0; i < x->D; i++)
            x->a[n * x->ld + i] -= y->a[n * y->ld + i];
}

/* Copies the numbers, into rows of y's own distance. */
static void copy(mat *y, const mat *x)
{
    for (size_t n = 0; n < x->N; n++)
        memcpy(y->a + n * y->ld, x->a + n * x->ld, x->D * sizeof *x->a);
}

static double product(const mat *c, const mat *y)
{
    double sum = 0;
    for (size_t n = 0; n < y->N; n++)
        for (size_t i = 0; i < y->D; i++)
            sum += c->a[n * c->ld + i] * y->a[n * y->ld + i];
    return sum;
}

/* What a gradient is the gradient of. Reads the matrices below. */
typedef double functional(void);

/*
 * The error of dx. A tensor whose gradients all vanish has no largest one to measure by: from
 * 1e-3 down the error is absolute.
 */
static double error_of(const mat *dx, mat *x, functional *loss)
{
    double worst = 0.0;
    double largest = 1e-3;
    for (size_t n = 0; n < x->N; n++)
        for (size_t i = 0; i < x->D; i++) {
            double *at = &x->a[n * x->ld + i];
            double here = *at;
            *at = here + STEP;
            double up = loss();
            *at = here - STEP;
            double down = loss();
            *at = here;
            double right = (up - down) / (2 * STEP);
            double ours = dx->a[n * dx->ld + i];
            double error = fabs(ours - right);
            worst = error <= worst ? worst : error; /* a NaN counts */
            largest = fabs(ours) > largest ? fabs(ours) : largest;
        }
    return worst / largest;
}

static void check(const char *what, const mat *dx, mat *x, functional *loss)
{
    double error = error_of(dx, x, loss);
    ck_assert_msg(error < LIMIT, "%s [%zu, %zu]: the gradient is %.3g off", what, x->N, x->D,
                  error);
}

/* c: the functional. The rest are inputs, outputs and their gradients, as the names say. */
static mat c, x, y, w, b, dx, dy, dw, db, old;
static double eps;
static kmf_activation form;

static const size_t shapes[][3] = {{1, 3, 3}, {3, 5, 9}, {4, 31, 40}, {5, 32, 32}, {7, 77, 80}};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

/* ---------------------------------------------------------------- rows ------------------- */

static double norm_loss(void)
{
    kmf_layernorm_copy_forward(y.a, y.ld, x.a, x.ld, w.a, b.a, eps, x.N, x.D);
    return product(&c, &y);
}

START_TEST(layernorm_has_the_gradient_of_its_forward)
{
    size_t N = shapes[_i][0], D = shapes[_i][1], ld = shapes[_i][2];
    for (int large = 0; large < 2; large++) {
        eps = large ? 0.3 : 1e-5;
        input(&x, N, D, ld);
        input(&w, 1, D, D);
        input(&b, 1, D, D);
        input(&c, N, D, ld + 1);
        output(&y, N, D, ld + 2);
        output(&dx, N, D, ld + 3);
        output(&dw, 1, D, ld);
        output(&db, 1, D, ld);
        shape(&old, 2, D, D, 0.0, 0.0);
        memcpy(old.a, dw.a, D * sizeof *old.a);
        memcpy(old.a + D, db.a, D * sizeof *old.a);
        kmf_layernorm_backward(dx.a, dx.ld, dw.a, db.a, c.a, c.ld, x.a, x.ld, w.a, eps, N, D);
        ck_assert(marks_stand(&dx) && marks_stand(&dw) && marks_stand(&db));
        for (size_t i = 0; i < D; i++) {
            dw.a[i] -= old.a[i];
            db.a[i] -= old.a[D + i];
        }
        check("layer norm's input", &dx, &x, norm_loss);
        check("layer norm's weight", &dw, &w, norm_loss);
        check("layer norm's bias", &db, &b, norm_loss);
        ck_assert(marks_stand(&y));
        output(&dy, N, D, ld + 3);
        copy(&dy, &c);
        kmf_layernorm_backward(dy.a, dy.ld, dw.a, db.a, dy.a, dy.ld, x.a, x.ld, w.a, eps, N, D);
        ck_assert(same(&dx, &dy) && marks_stand(&dy));
    }
}
END_TEST

/* x += y + bias: the gradient by x and by y is the result's own. */
static bool with_bias;

static double residual_loss(void)
{
    copy(&dy, &x);
    kmf_residual_forward(dy.a, dy.ld, y.a, y.ld, with_bias ? b.a : NULL, x.N, x.D);
    return product(&c, &dy);
}

START_TEST(residual_and_bias_have_the_gradients_of_their_forward)
{
    size_t N = shapes[_i][0], D = shapes[_i][1], ld = shapes[_i][2];
    input(&x, N, D, ld);
    input(&y, N, D, ld + 1);
    input(&b, 1, D, D);
    input(&c, N, D, ld + 2);
    output(&dy, N, D, ld + 3);
    output(&db, 1, D, ld);
    memcpy(&old, &db, sizeof db);
    kmf_bias_backward(db.a, c.a, c.ld, N, D);
    ck_assert(marks_stand(&db));
    subtract(&db, &old);
    for (int bias = 0; bias < 2; bias++) {
        with_bias = bias;
        check("residual's x", &c, &x, residual_loss);
        check("residual's y", &c, &y, residual_loss);
    }
    check("bias", &db, &b, residual_loss);
    ck_assert(marks_stand(&dy));
}
END_TEST

static double activation_loss(void)
{
    kmf_activation_forward(y.a, y.ld, x.a, x.ld, form, x.N, x.D);
    return product(&c, &y);
}

START_TEST(activations_have_the_gradient_of_their_forward)
{
    size_t N = shapes[_i][0], D = shapes[_i][1], ld = shapes[_i][2];
    for (int act = KMF_GELU; act <= KMF_SILU; act++) {
        form = (kmf_activation)act;
        shape(&x, N, D, ld, 4.0, NOTHING);
        input(&c, N, D, ld + 1);
        output(&y, N, D, ld + 2);
        output(&dx, N, D, ld + 3);
        kmf_activation_backward(dx.a, dx.ld, c.a, c.ld, x.a, x.ld, form, N, D);
        check("activation", &dx, &x, activation_loss);
        ck_assert(marks_stand(&dx) && marks_stand(&y));
        output(&dy, N, D, ld + 3);
        copy(&dy, &c);
        kmf_activation_backward(dy.a, dy.ld, dy.a, dy.ld, x.a, x.ld, form, N, D);
        ck_assert(same(&dx, &dy) && marks_stand(&dy));
        copy(&dy, &x);
        kmf_activation_forward(dy.a, dy.ld, dy.a, dy.ld, form, N, D);
        activation_loss();
        ck_assert(same(&dy, &y) && marks_stand(&dy));
    }
}
END_TEST

static double dropout_loss(void)
{
    copy(&y, &x);
    kmf_dropout_forward(y.a, y.ld, 99, UINT64_C(0x7ffffff0), 0.4, x.N, x.D);
    return product(&c, &y);
}

START_TEST(dropout_has_the_gradient_of_its_forward)
{
    size_t N = shapes[_i][0], D = shapes[_i][1], ld = shapes[_i][2];
    input(&x, N, D, ld);
    input(&c, N, D, ld + 1);
    output(&y, N, D, ld + 2);
    output(&dx, N, D, ld + 3);
    copy(&dx, &c);
    kmf_dropout_forward(dx.a, dx.ld, 99, UINT64_C(0x7ffffff0), 0.4, N, D);
    check("dropout", &dx, &x, dropout_loss);
    ck_assert(marks_stand(&dx) && marks_stand(&y));
}
END_TEST

/* ---------------------------------------------------------------- embedding -------------- */

enum { WORDS = 6 };
static const int32_t ids[] = {3, 0, 5, 3, 1, 3, 0};

static double gather_loss(void)
{
    kmf_gather_forward(y.a, y.ld, ids, x.a, b.a, y.N, y.D);
    return product(&c, &y);
}

START_TEST(gathered_words_have_the_gradient_of_their_forward)
{
    size_t N = shapes[_i][0], D = shapes[_i][1], ld = shapes[_i][2];
    input(&x, WORDS, D, D);
    input(&b, 1, D, D);
    input(&c, N, D, ld + 1);
    output(&y, N, D, ld + 2);
    output(&dx, WORDS, D, D);
    output(&db, 1, D, ld);
    memcpy(&old, &dx, sizeof dx);
    size_t cut = D / 3; /* two threads' columns */
    kmf_gather_backward(dx.a, ids, c.a, c.ld, cut, D, N, D);
    for (size_t n = 0; n < WORDS; n++)
        ck_assert(memcmp(dx.a + n * D, old.a + n * D, cut * sizeof *dx.a) == 0);
    kmf_gather_backward(dx.a, ids, c.a, c.ld, 0, cut, N, D);
    subtract(&dx, &old);
    check("words", &dx, &x, gather_loss);
    memcpy(&old, &db, sizeof db);
    kmf_bias_backward(db.a, c.a, c.ld, N, D);
    subtract(&db, &old);
    check("type", &db, &b, gather_loss);
    ck_assert(marks_stand(&y));
}
END_TEST

/* ---------------------------------------------------------------- rotary ----------------- */

static size_t T, H, K;
static double cos_t[512], sin_t[512];

static double rotary_loss(void)
{
    copy(&y, &x);
    kmf_rotary_forward(y.a, y.ld, cos_t, sin_t, T, H, K);
    return product(&c, &y);
}

START_TEST(rotary_has_the_gradient_of_its_forward)
{
    static const size_t sizes[][3] = {{1, 1, 2}, {5, 3, 6}, {17, 2, 16}, {9, 1, 30}};
    T = sizes[_i][0], H = sizes[_i][1], K = sizes[_i][2];
    kmf_rotary_table(cos_t, sin_t, 100.0, 0, T, K);
    input(&x, T, H * K, H * K + 1);
    input(&c, T, H * K, H * K + 2);
    output(&y, T, H * K, H * K + 3);
    output(&dx, T, H * K, H * K + 4);
    copy(&dx, &c);
    kmf_rotary_backward(dx.a, dx.ld, cos_t, sin_t, T, H, K);
    check("rotary", &dx, &x, rotary_loss);
    ck_assert(marks_stand(&dx) && marks_stand(&y));
}
END_TEST

/* ---------------------------------------------------------------- attention -------------- */

enum { SCRATCH = 80000 };
static mat q, k, v, dq, dk, dv;
static double stats[2048], scratch[SCRATCH], rate;
static const uint64_t key = UINT64_C(0x123456789abcdef);

static double attention_loss(void)
{
    kmf_attention_forward_train(
        y.a, y.ld, stats,
        &(kmf_attention_task){q.a, k.a, v.a, q.ld, T, K, key, rate, KMF_PRECISION_F32, scratch},
        0, H);
    return product(&c, &y);
}

static void attention_backward(size_t h0, size_t h1)
{
    for (size_t i = 0; i < SCRATCH; i++)
        scratch[i] = NOTHING;
    ck_assert_uint_le(kmf_attention_backward_scratch(T, K, KMF_PRECISION_F32), SCRATCH);
    kmf_attention_backward(
        &(kmf_attention_gradients){dq.a, dk.a, dv.a, dq.ld}, c.a, c.ld, y.a, y.ld, stats,
        &(kmf_attention_task){q.a, k.a, v.a, q.ld, T, K, key, rate, KMF_PRECISION_F32, scratch},
        h0, h1);
}

static void attention_outputs(void)
{
    size_t D = H * K;
    output(&y, T, D, D + 2);
    output(&dq, T, D, D + 5);
    output(&dk, T, D, D + 5);
    output(&dv, T, D, D + 5);
}

static void attention_begins(void)
{
    size_t D = H * K, ld = D + 3;
    input(&q, T, D, ld);
    input(&k, T, D, ld);
    input(&v, T, D, ld);
    input(&c, T, D, D + 1);
    attention_outputs();
}

static const size_t attention_sizes[][3] = {{1, 1, 2},  {1, 3, 4},  {2, 3, 5},  {13, 2, 7},
                                            {31, 1, 6}, {64, 1, 4}, {65, 2, 3}, {194, 1, 2}};
enum { N_ATTENTION_SIZES = sizeof attention_sizes / sizeof attention_sizes[0] };

START_TEST(attention_has_the_gradient_of_its_forward)
{
    T = attention_sizes[_i][0], H = attention_sizes[_i][1], K = attention_sizes[_i][2];
    if (CHECKED && T * K > 200)
        return;
    for (int dropped = 0; dropped < 2; dropped++) {
        rate = dropped ? 0.3 : 0.0;
        attention_begins();
        attention_loss();
        attention_backward(0, H);
        check("q", &dq, &q, attention_loss);
        check("k", &dk, &k, attention_loss);
        check("v", &dv, &v, attention_loss);
        ck_assert(marks_stand(&y));
        ck_assert(marks_stand(&dq) && marks_stand(&dk) && marks_stand(&dv));
    }
}
END_TEST

/* The backward of heads one by one, the last first, after a forward of the same kind. */
START_TEST(attention_takes_heads_in_any_order)
{
    T = 67, H = 3, K = 4, rate = 0.2;
    attention_begins();
    attention_loss();
    attention_backward(0, H);
    memcpy(&x, &dq, sizeof x);
    memcpy(&w, &dk, sizeof w);
    memcpy(&b, &dv, sizeof b);
    memcpy(&old, &y, sizeof old);
    attention_outputs();
    for (size_t i = 0; i < 2 * H * T; i++)
        stats[i] = NOTHING;
    for (size_t h = H; h-- > 0;)
        kmf_attention_forward_train(y.a, y.ld, stats,
                                    &(kmf_attention_task){q.a, k.a, v.a, q.ld, T, K, key, rate,
                                                          KMF_PRECISION_F32, scratch},
                                    h, h + 1);
    for (size_t h = H; h-- > 0;)
        attention_backward(h, h + 1);
    ck_assert(same(&y, &old) && same(&dq, &x) && same(&dk, &w) && same(&dv, &b));
}
END_TEST

/* ---------------------------------------------------------------- loss ------------------- */

static const int32_t labels[] = {2, 0, 1, 2, 0, 1, 1};
static double weights[7], nll[7];

static double softmax_loss(void)
{
    copy(&y, &x);
    kmf_softmax_forward(y.a, y.ld, nll, labels, x.N, x.D);
    double sum = 0;
    for (size_t n = 0; n < x.N; n++)
        sum += weights[n] * nll[n];
    return sum;
}

START_TEST(softmax_has_the_gradient_of_its_forward)
{
    size_t N = shapes[_i][0], D = shapes[_i][1], ld = shapes[_i][2];
    shape(&x, N, D, ld, 4.0, NOTHING);
    output(&y, N, D, ld + 2);
    for (size_t n = 0; n < N; n++)
        weights[n] = 0.25 + (double)n;
    softmax_loss();
    memcpy(&dx, &y, sizeof dx);
    kmf_softmax_backward(dx.a, dx.ld, labels, weights, N, D);
    check("softmax", &dx, &x, softmax_loss);
    ck_assert(marks_stand(&dx) && marks_stand(&y));
}
END_TEST

/* ---------------------------------------------------------------- the step --------------- */

/*
 * Five steps of torch.optim.AdamW (PyTorch 1.13, float64): lr 0.01, betas 0.9 and 0.98, eps 1e-6,
 * weight_decay 0.1; the gradients at step t are half of 0.3 t, -0.02, 2 (-1)^t and 1e-5 t.
 */
START_TEST(adamw_takes_the_steps_of_pytorch)
{
    static const double right[5][4] = {
        {0.489500066666222, -1.23875099990001, 2.00799999000001, -0.00833333333333333},
        {0.479386458441218, -1.22751324880012, 2.00546567474685, -0.0168713698936996},
        {0.469379232014662, -1.21628673545133, 2.00681813929351, -0.0255792397300913},
        {0.459381760183533, -1.20507144861589, 2.00428500589106, -0.0344383331612286},
        {0.449349883828419, -1.19386737706728, 2.00432486916702, -0.0434375752295015},
    };
    double at[4] = {0.5, -1.25, 2.0, 0.0}, m[4] = {0}, m2[4] = {0};
    kmf_adamw_step s = {
        .rate = 0.01, .beta1 = 0.9, .beta2 = 0.98, .epsilon = 1e-6, .decay = 0.1, .clip = 0.5};
    for (int t = 1; t <= 5; t++) {
        double g[4] = {0.3 * t, -0.02, t % 2 ? -2.0 : 2.0, 1e-5 * t};
        kmf_adamw_correct(&s, (uint64_t)t);
        kmf_adamw_update(at, m, m2, g, 4, &s);
        for (int i = 0; i < 4; i++)
            ck_assert_double_eq_tol(at[i], right[t - 1][i], 1e-13);
    }
}
END_TEST

/* ---------------------------------------------------------------- the tests -------------- */

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_loop_test(tcase, layernorm_has_the_gradient_of_its_forward, 0, N_SHAPES);
    tcase_add_loop_test(tcase, residual_and_bias_have_the_gradients_of_their_forward, 0,
                        N_SHAPES);
    tcase_add_loop_test(tcase, activations_have_the_gradient_of_their_forward, 0, N_SHAPES);
    tcase_add_loop_test(tcase, dropout_has_the_gradient_of_its_forward, 0, N_SHAPES);
    tcase_add_loop_test(tcase, gathered_words_have_the_gradient_of_their_forward, 0, N_SHAPES);
    tcase_add_loop_test(tcase, rotary_has_the_gradient_of_its_forward, 0, 4);
    tcase_add_loop_test(tcase, attention_has_the_gradient_of_its_forward, 0, N_ATTENTION_SIZES);
    tcase_add_test(tcase, attention_takes_heads_in_any_order);
    tcase_add_loop_test(tcase, softmax_has_the_gradient_of_its_forward, 0, N_SHAPES);
    tcase_add_test(tcase, adamw_takes_the_steps_of_pytorch);
    return run_case("gradients", tcase);
}
