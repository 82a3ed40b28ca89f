/* SPDX-License-Identifier: MIT */
/*
 * Second sources: a twin in double, written from the equations, which takes examples in the
 * documented order; differences of the loss against the steps; AVX-512 against AVX2 bit by bit.
 */
#include "nn/sgns.h"

#include "base/cpu.h"
#include "base/mem.h"
#include "levels.h"
#include "run.h"

#include <math.h>
#include <stdbool.h>

#define BATCH 4
#define INPUTS_MAX 20
#define EXAMPLES_MAX 37
#define ROWS 40    /* of inputs; so few that examples meet */
#define TARGETS 70 /* rows of targets, behind those of the inputs */
#define ALL_ROWS (ROWS + TARGETS)

/* ---------------------------------------------------------------- examples -------------- */

typedef struct lot {
    size_t ld, n;
    bool mean;
    kmf_sgns_example examples[EXAMPLES_MAX];
    uint32_t inputs[EXAMPLES_MAX][INPUTS_MAX];
    uint32_t targets[EXAMPLES_MAX][KMF_SGNS_TARGETS_MAX];
    float *rows; /* owned [ALL_ROWS, ld] */
} lot;

static uint64_t state;

static uint32_t below(uint32_t n)
{
    double unit = ((double)levels_random(&state) + 1) / 2;
    uint32_t i = (uint32_t)(unit * n);
    return i < n ? i : n - 1;
}

/* Rows of length 1.5 or so. */
static void fill_rows(lot *l)
{
    float scale = 2.5f / sqrtf((float)l->ld);
    l->rows = kmf_floats(ALL_ROWS * l->ld, NULL);
    for (size_t i = 0; i < ALL_ROWS * l->ld; i++)
        l->rows[i] = scale * levels_random(&state);
}

static void make_lot(lot *l, size_t ld, size_t n, bool mean, uint32_t n_inputs,
                     uint32_t n_targets)
{
    *l = (lot){.ld = ld, .n = n, .mean = mean};
    fill_rows(l);
    for (size_t e = 0; e < n; e++) {
        for (uint32_t i = 0; i < n_inputs; i++)
            l->inputs[e][i] = below(ROWS);
        if (n_inputs == 2 && e % 5 == 3)
            l->inputs[e][1] = l->inputs[e][0];
        for (uint32_t j = 0; j < n_targets; j++)
            l->targets[e][j] = ROWS + below(TARGETS);
        l->examples[e] = (kmf_sgns_example){.inputs = l->inputs[e],
                                            .targets = l->targets[e],
                                            .n_inputs = n_inputs,
                                            .n_targets = n_targets};
    }
}

static void free_lot(lot *l)
{
    kmf_free(l->rows);
}

/* ---------------------------------------------------------------- the twin -------------- */

/* What the products of an example leave for its steps. */
typedef struct forward {
    double g[2][KMF_SGNS_TARGETS_MAX]; /* of each h */
    double mean[KMF_SGNS_LD_MAX];
    double loss;
} forward;

static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static size_t n_h_of(const lot *l, const kmf_sgns_example *x)
{
    return l->mean ? 1 : x->n_inputs;
}

static const double *h_of(const lot *l, const kmf_sgns_example *x, const forward *f,
                          const double *rows, size_t c)
{
    return l->mean && x->n_inputs > 1 ? f->mean : rows + x->inputs[c] * l->ld;
}

static void twin_forward(forward *f, const lot *l, const kmf_sgns_example *x,
                         const double *rows, double alpha)
{
    f->loss = 0;
    for (size_t d = 0; d < l->ld; d++) {
        f->mean[d] = 0;
        for (uint32_t i = 0; i < x->n_inputs; i++)
            f->mean[d] += rows[x->inputs[i] * l->ld + d] / x->n_inputs;
    }
    for (size_t c = 0; c < n_h_of(l, x); c++)
        for (uint32_t j = 0; j < x->n_targets; j++) {
            const double *h = h_of(l, x, f, rows, c);
            const double *y = rows + x->targets[j] * l->ld;
            double z = 0;
            for (size_t d = 0; d < l->ld; d++)
                z += h[d] * y[d];
            f->loss += softplus(j == 0 ? -z : z);
            f->g[c][j] = alpha * ((j == 0) - 1 / (1 + exp(-z)));
        }
}

static void twin_backward(const forward *f, const lot *l, const kmf_sgns_example *x,
                          double *rows)
{
    static double dx[2][KMF_SGNS_LD_MAX];
    size_t n_h = n_h_of(l, x);
    memset(dx, 0, sizeof dx);
    for (uint32_t j = 0; j < x->n_targets; j++) {
        double *y = rows + x->targets[j] * l->ld;
        for (size_t d = 0; d < l->ld; d++) {
            double before = y[d];
            for (size_t c = 0; c < n_h; c++) {
                dx[c][d] += f->g[c][j] * before;
                y[d] += f->g[c][j] * h_of(l, x, f, rows, c)[d];
            }
        }
    }
    for (uint32_t i = 0; i < x->n_inputs; i++)
        for (size_t d = 0; d < l->ld; d++)
            rows[x->inputs[i] * l->ld + d] += dx[l->mean ? 0 : i][d];
}

/* The products of the next four examples come before the steps of these four. */
static double twin_learn(const lot *l, double *rows, double alpha)
{
    static forward all[EXAMPLES_MAX];
    double loss = 0;
    size_t known = 0;
    for (size_t e = 0; e < l->n; e++) {
        for (; known < l->n && known < (e / BATCH + 2) * BATCH; known++)
            twin_forward(&all[known], l, &l->examples[known], rows, alpha);
        twin_backward(&all[e], l, &l->examples[e], rows);
        loss += all[e].loss;
    }
    return loss;
}

static const char *check_lot(size_t ld, size_t n, bool mean, uint32_t n_inputs,
                             uint32_t n_targets)
{
    static char wrong[200];
    static double rows[ALL_ROWS * KMF_SGNS_LD_MAX];
    static lot l;
    double loss = 0.5;
    double off = 0;
    double moved = 0;
    const double alpha = n_inputs > 4 ? 0.03 : 0.2;
    make_lot(&l, ld, n, mean, n_inputs, n_targets);
    float *silent = kmf_floats(ALL_ROWS * ld, NULL);
    memcpy(silent, l.rows, ALL_ROWS * ld * sizeof *silent);
    for (size_t i = 0; i < ALL_ROWS * ld; i++)
        rows[i] = (double)l.rows[i];
    kmf_sgns_learn(l.rows, ld, l.examples, n, mean, (float)alpha, &loss);
    kmf_sgns_learn(silent, ld, l.examples, n, mean, (float)alpha, NULL);
    double twin = twin_learn(&l, rows, (double)(float)alpha);
    for (size_t i = 0; i < ALL_ROWS * ld; i++) {
        /* Without fmax, on which gcc 12 for arm64 breaks down where floats are mixed in. */
        double d = fabs((double)l.rows[i] - rows[i]);
        double value = fabs(rows[i]);
        off = d > off ? d : off;
        moved = value > moved ? value : moved;
    }
    bool same = memcmp(silent, l.rows, ALL_ROWS * ld * sizeof *silent) == 0;
    kmf_free(silent);
    free_lot(&l);
    if (same && off <= 4e-6 * moved && fabs(loss - 0.5 - twin) <= 1e-6 * twin)
        return NULL;
    snprintf(wrong, sizeof wrong,
             "ld %zu, %zu examples, mean %d, %u inputs, %u targets: rows are off by %g of %g, "
             "loss %.9g for %.9g, same without loss: %d",
             ld, n, mean, n_inputs, n_targets, off, moved, loss - 0.5, twin, same);
    return wrong;
}

static const char *twin_part(void)
{
    static const size_t lds[] = {16, 48, 112, 512, 1024};
    static const size_t ns[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 23, EXAMPLES_MAX};
    const char *wrong = NULL;
    state = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < sizeof ns / sizeof ns[0]; i++)
        for (uint32_t inputs = 1; inputs <= 2; inputs++)
            for (uint32_t targets = 1; targets <= 13; targets++)
                if ((wrong = check_lot(32, ns[i], false, inputs, targets)))
                    return wrong;
    for (size_t i = 0; i < sizeof lds / sizeof lds[0]; i++)
        for (uint32_t inputs = 1; inputs <= INPUTS_MAX; inputs += 1 + inputs / 3)
            for (uint32_t targets = 1; targets <= 64; targets += 1 + targets / 4)
                if ((inputs <= 2 && (wrong = check_lot(lds[i], 9, false, inputs, targets))) ||
                    (wrong = check_lot(lds[i], 7, true, inputs, targets)))
                    return wrong;
    return check_lot(1024, 5, true, 20, 64);
}

/* ---------------------------------------------------------------- differences ----------- */

/* Of one example: the loss itself, from its definition. */
static double loss_at(const lot *l, const double *rows)
{
    static forward f;
    twin_forward(&f, l, &l->examples[0], rows, 0);
    return f.loss;
}

/*
 * The steps of one example with alpha 1, of the kernel, are the slopes downhill; with CBOW those of
 * an input n times as much. Distinct targets: of equal ones the second meets the first's step.
 */
static const char *check_slopes(size_t ld, bool mean, uint32_t n_inputs, uint32_t n_targets)
{
    static char wrong[200];
    static double rows[ALL_ROWS * KMF_SGNS_LD_MAX];
    static lot l;
    const double h = 1e-5;
    make_lot(&l, ld, 1, mean, n_inputs, n_targets);
    for (uint32_t j = 0; j < n_targets; j++)
        l.targets[0][j] = ROWS + (j * 11 + 3) % TARGETS;
    for (size_t i = 0; i < ALL_ROWS * ld; i++)
        rows[i] = (double)l.rows[i];
    kmf_sgns_learn(l.rows, ld, l.examples, 1, mean, 1, NULL);
    for (size_t r = 0; r < ALL_ROWS; r++) {
        double off = 0;
        double length = 0;
        for (size_t d = 0; d < ld; d++) {
            double *x = &rows[r * ld + d];
            double at = *x;
            *x = at + h;
            double slope = loss_at(&l, rows);
            *x = at - h;
            slope = (slope - loss_at(&l, rows)) / (2 * h);
            *x = at;
            if (mean && r < ROWS)
                slope *= n_inputs;
            double step = (double)l.rows[r * ld + d] - at;
            off += (step + slope) * (step + slope);
            length += slope * slope;
        }
        if (sqrt(off) <= 1e-6 + 1e-5 * sqrt(length))
            continue;
        snprintf(wrong, sizeof wrong,
                 "ld %zu, mean %d, %u inputs, %u targets, row %zu: the step is off by %g of %g",
                 ld, mean, n_inputs, n_targets, r, sqrt(off), sqrt(length));
        free_lot(&l);
        return wrong;
    }
    free_lot(&l);
    return NULL;
}

static const char *slopes_part(void)
{
    static const uint32_t targets[] = {1, 2, 3, 4, 5, 6, 7, 12, 13, 64};
    const char *wrong = NULL;
    state = 88172645463325252u;
    for (size_t j = 0; j < sizeof targets / sizeof targets[0]; j++) {
        for (uint32_t inputs = 1; inputs <= 2; inputs++)
            if ((wrong = check_slopes(16, false, inputs, targets[j])))
                return wrong;
        for (uint32_t inputs = 1; inputs <= INPUTS_MAX; inputs += 1 + inputs / 2)
            if ((wrong = check_slopes(16, true, inputs, targets[j])))
                return wrong;
    }
    return check_slopes(48, false, 2, 6);
}

/* ---------------------------------------------------------------- the rest -------------- */

/* Beyond the vectors' dimension: 0 stays 0. */
static const char *padding_part(void)
{
    static lot l;
    state = 362436069;
    for (uint32_t inputs = 1; inputs <= 3; inputs++) {
        make_lot(&l, 48, 20, inputs == 3, inputs, 6);
        for (size_t i = 0; i < ALL_ROWS * 48; i++)
            l.rows[i] = i % 48 < 37 ? l.rows[i] : 0;
        kmf_sgns_learn(l.rows, 48, l.examples, l.n, l.mean, 0.1f, NULL);
        for (size_t i = 0; i < ALL_ROWS * 48; i++)
            if (i % 48 >= 37 && l.rows[i] != 0)
                return "what lies beyond the dimension has changed";
        free_lot(&l);
    }
    return NULL;
}

/* Products that s(z) is 0 or 1 for: steps of 0 or alpha, and no NaN. */
static const char *extremes_part(void)
{
    static float rows[3 * 16];
    static const uint32_t input = 0;
    static const uint32_t targets[2] = {1, 2};
    kmf_sgns_example x = {.inputs = &input, .targets = targets, .n_inputs = 1, .n_targets = 2};
    for (int sign = -1; sign <= 1; sign += 2) {
        double loss = 0;
        memset(rows, 0, sizeof rows);
        rows[0] = 100;
        rows[16] = rows[32] = (float)sign * 100;
        kmf_sgns_learn(rows, 16, &x, 1, false, 0.5f, &loss);
        /* z is 10^4 or -10^4 for both: one of them is right, the other as wrong as can be */
        double pulled = 100 + 0.5 * (sign < 0 ? -100 : -100);
        double true_row = sign < 0 ? -100 + 0.5 * 100 : 100;
        double noise_row = sign < 0 ? -100 : 100 - 0.5 * 100;
        if (fabs(loss - 1e4) > 1e-3 || fabs((double)rows[0] - pulled) > 1e-4 ||
            fabs((double)rows[16] - true_row) > 1e-4 ||
            fabs((double)rows[32] - noise_row) > 1e-4)
            return "products of 10^4 go wrong";
    }
    return NULL;
}

static const char *add_part(void)
{
    static float to[160], from[160], before[160];
    state = 521288629;
    for (size_t n = 16; n <= 160; n += 16) {
        float own = levels_random(&state);
        float scale = levels_random(&state);
        for (size_t i = 0; i < 160; i++) {
            before[i] = to[i] = levels_random(&state);
            from[i] = levels_random(&state);
        }
        kmf_rows_add(to, own, from, scale, n);
        for (size_t i = 0; i < 160; i++)
            if (to[i] != (i < n ? before[i] * own + from[i] * scale : before[i]))
                return "own * to + scale * from is not what it should be";
    }
    return NULL;
}

/* Prints a checksum of much that was learnt, for AVX2 and AVX-512 to be compared. */
static const char *bits_part(void)
{
    static lot l;
    uint64_t sum = 14695981039346656037u;
    double loss = 0;
    state = 123456789;
    for (uint32_t inputs = 1; inputs <= 5; inputs++)
        for (uint32_t targets = 1; targets <= 64; targets += 1 + targets / 3) {
            make_lot(&l, 16 * (1 + (inputs + targets) % 9), 21, inputs > 2, inputs, targets);
            kmf_sgns_learn(l.rows, l.ld, l.examples, l.n, l.mean, 0.05f, &loss);
            const unsigned char *bytes = (const unsigned char *)l.rows;
            for (size_t i = 0; i < ALL_ROWS * l.ld * sizeof *l.rows; i++)
                sum = (sum ^ bytes[i]) * 1099511628211u;
            free_lot(&l);
        }
    printf("%016llx %.17g\n", (unsigned long long)sum, loss);
    return NULL;
}

static const levels_part parts[] = {
    {"twin", twin_part},         {"slopes", slopes_part}, {"padding", padding_part},
    {"extremes", extremes_part}, {"add", add_part},       {"bits", bits_part},
};

LEVELS_TEST(rows_and_losses_are_those_of_the_twin, "twin", levels_vectors[_i])
LEVELS_TEST(steps_are_the_slopes_of_the_loss, "slopes", levels_vectors[_i])
LEVELS_TEST(what_lies_beyond_the_dimension_stays_zero, "padding", levels_vectors[_i])
LEVELS_TEST(products_out_of_all_proportion_give_finite_steps, "extremes", levels_vectors[_i])
LEVELS_TEST(rows_are_added_as_by_plain_arithmetic, "add", levels_vectors[_i])

START_TEST(avx512_and_avx2_give_the_same_bits)
{
    char all[256] = "";
    char avx2[256] = "";
    levels_run("bits", "", all);
    levels_run("bits", "KMERFORMER_CPU=avx2", avx2);
    ck_assert_str_ne(all, "");
    ck_assert_str_eq(all, avx2);
    if (kmf_cpu_vectors() != KMF_CPU_AVX512)
        printf("skip: AVX-512 against AVX2, there is no AVX-512\n");
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 2)
        return levels_child(parts, sizeof parts / sizeof parts[0], argv);
    TCase *c = untimed_case();
    tcase_add_loop_test(c, rows_and_losses_are_those_of_the_twin, 0, N_VECTORS);
    tcase_add_loop_test(c, steps_are_the_slopes_of_the_loss, 0, N_VECTORS);
    tcase_add_loop_test(c, what_lies_beyond_the_dimension_stays_zero, 0, N_VECTORS);
    tcase_add_loop_test(c, products_out_of_all_proportion_give_finite_steps, 0, N_VECTORS);
    tcase_add_loop_test(c, rows_are_added_as_by_plain_arithmetic, 0, N_VECTORS);
    tcase_add_test(c, avx512_and_avx2_give_the_same_bits);
    return run_case("sgns", c);
}
