/* SPDX-License-Identifier: MIT */
/*
 * The contrastive loss as the library has it, in float: the formula written down once more, pair by
 * pair in double, its slopes, and PyTorch's numbers (tests/contrasts.h). In double it is held
 * against them in tests/test_contrast_gradients.c.
 */
#include "contrasts.h"

#include "base/rng.h"
#include "checked.h"
#include "run.h"

/* ---------------------------------------------------------------- the formula ----------- */

typedef struct example {
    size_t n, D, n_sources;
    double temperature, hardness;
    bool mixed, all;
    double *at; /* owned [n, D] */
    kmf_real *vectors, *dvectors;
    size_t *sources;
    uint32_t *partner;
    double *share;
} example;

static const example examples[] = {
    {.n = 4, .D = 3, .n_sources = 2, .temperature = 0.5, .hardness = 0},
    {.n = 30, .D = 7, .n_sources = 5, .temperature = 0.05, .hardness = 0},
    {.n = 30, .D = 7, .n_sources = 5, .temperature = 0.1, .hardness = 1.3},
    {.n = 36, .D = 7, .n_sources = 4, .temperature = 0.2, .hardness = 0, .mixed = true},
    {.n = 36, .D = 7, .n_sources = 9, .temperature = 0.1, .hardness = 0.6, .mixed = true},
    {.n = 300, .D = 10, .n_sources = 40, .temperature = 0.07, .hardness = 0.4},
    {.n = 258, .D = 33, .n_sources = 9, .temperature = 0.1, .hardness = 0.2, .mixed = true},
    {.n = 20, .D = 5, .n_sources = 4, .temperature = 0.001, .hardness = 10},
    {.n = 20, .D = 5, .n_sources = 4, .temperature = 10, .hardness = 0},
    {.n = 120, .D = 9, .n_sources = 6, .temperature = 0.1, .hardness = 0.5, .all = true},
};
enum { N_EXAMPLES = sizeof examples / sizeof examples[0] };

/* Vectors of a pair and of a source are somewhat alike; some are much longer than others. */
static example example_of(int number)
{
    example e = examples[number];
    kmf_rng rng = kmf_rng_stream(17, (uint64_t)number);
    e.at = calloc(e.n * e.D, sizeof *e.at);
    e.vectors = calloc(e.n * e.D, sizeof *e.vectors);
    e.dvectors = calloc(e.n * e.D, sizeof *e.dvectors);
    e.sources = calloc(e.n, sizeof *e.sources);
    e.partner = calloc(e.n, sizeof *e.partner);
    e.share = calloc(e.n, sizeof *e.share);
    for (size_t i = 0; i < e.n; i++) {
        double length = i % 5 == 0 ? 40 : 0.3;
        e.sources[i] = i < 4 ? i / 2 : (size_t)kmf_rng_below(&rng, e.n_sources);
        if (i % 2 == 1)
            e.sources[i] = e.sources[i - 1];
        e.partner[i] = (uint32_t)i;
        e.share[i] = kmf_rng_unit(&rng);
        for (size_t d = 0; d < e.D; d++) {
            double own = (double)kmf_rng_normal(&rng);
            kmf_rng shared = kmf_rng_stream(e.sources[i], d);
            own += 0.7 * (double)kmf_rng_normal(&shared) + 0.3;
            e.vectors[i * e.D + d] = (kmf_real)(length * own);
            e.at[i * e.D + d] = (double)e.vectors[i * e.D + d];
        }
    }
    for (size_t i = 0; i + 4 < e.n; i += 6) { /* of three even views two change places */
        e.partner[i] = (uint32_t)i + 4;
        e.partner[i + 4] = (uint32_t)i;
    }
    return e;
}

static void example_free(example *e)
{
    free(e->at);
    free(e->vectors);
    free(e->dvectors);
    free(e->sources);
    free(e->partner);
    free(e->share);
}

static kmf_contrast_views views_of(const example *e)
{
    return (kmf_contrast_views){.vectors = e->vectors,
                                .sources = e->sources,
                                .n = e->n,
                                .partner = e->mixed ? e->partner : NULL,
                                .share = e->mixed ? e->share : NULL};
}

static kmf_contrast *contrast_of(const example *e, kmf_pool *pool)
{
    kmf_err err = {0};
    kmf_contrast_options o = {.most = e->n,
                              .D = e->D,
                              .temperature = e->temperature,
                              .hardness = e->hardness,
                              .all_positives = e->all,
                              .pool = pool};
    kmf_contrast *c = kmf_contrast_new(&o, &err);
    ck_assert_msg(c, "%s", err.msg);
    return c;
}

static double naive_u(const example *e, size_t i, size_t j)
{
    double dot = 0, a = 0, b = 0;
    for (size_t d = 0; d < e->D; d++) {
        double x = e->at[i * e->D + d], y = e->at[j * e->D + d];
        dot += x * y;
        a += x * x;
        b += y * y;
    }
    return a > 0 && b > 0 ? dot / sqrt(a * b) / e->temperature : 0;
}

/* ln(exp(a) + exp(b)) */
static double log_sum(double a, double b)
{
    double most = fmax(a, b);
    return isinf(most) ? most : most + log(exp(a - most) + exp(b - most));
}

static bool is_positive(const example *e, size_t i, size_t j, double *share)
{
    size_t r = e->mixed ? e->partner[i] : i, others = 0;
    for (size_t k = 0; k < e->n; k++)
        others += k != i && e->sources[k] == e->sources[i];
    if (e->all) {
        *share = 1 / (double)others;
        return j != i && e->sources[j] == e->sources[i];
    }
    *share = r == i ? 1 : j == (i ^ 1) ? e->share[i] : 1 - e->share[i];
    return j == (i ^ 1) || (r != i && j == r + 1);
}

static double naive_anchor(const example *e, size_t i, bool *hit)
{
    size_t r = e->mixed ? e->partner[i] : i;
    double n = 0, hard = -HUGE_VAL, soft = -HUGE_VAL, most = -HUGE_VAL, like = -HUGE_VAL;
    double sum = -HUGE_VAL, wanted = 0, share;
    for (size_t j = 0; j < e->n; j++) {
        double u = naive_u(e, i, j);
        if (is_positive(e, i, j, &share)) {
            sum = log_sum(sum, u);
            wanted += share * u;
            like = fmax(like, u);
        }
        if ((e->mixed && j % 2 == 0) || e->sources[j] == e->sources[i] ||
            e->sources[j] == e->sources[r])
            continue;
        hard = log_sum(hard, (1 + e->hardness) * u);
        soft = log_sum(soft, e->hardness * u);
        most = fmax(most, u);
        n++;
    }
    *hit = n > 0 && like > most;
    return log_sum(sum, n > 0 ? log(n) + hard - soft : -HUGE_VAL) - wanted;
}

static double naive(const example *e, double *hits)
{
    double sum = 0, n = 0;
    *hits = 0;
    for (size_t i = 0; i < e->n; i += e->mixed ? 2 : 1) {
        bool hit;
        sum += naive_anchor(e, i, &hit);
        *hits += hit;
        n++;
    }
    return sum / n;
}

START_TEST(the_loss_is_the_formula)
{
    example e = example_of(_i);
    kmf_contrast_views views = views_of(&e);
    kmf_contrast *c = contrast_of(&e, NULL);
    kmf_contrast_result result, again;
    double hits, loss = naive(&e, &hits);
    ck_assert_int_eq(kmf_contrast_learn(c, NULL, &views, 1, &result, NULL), 0);
    ck_assert_msg(fabs(result.loss - loss) <= 1e-5 * fmax(loss, 1), "%.9g, not %.9g",
                  result.loss, loss);
    ck_assert_double_eq(result.hits, hits);
    ck_assert_uint_eq(result.anchors, e.mixed ? e.n / 2 : e.n);
    ck_assert_int_eq(kmf_contrast_learn(c, e.dvectors, &views, 1, &again, NULL), 0);
    ck_assert_int_eq(memcmp(&again, &result, sizeof result), 0);
    kmf_contrast_free(c);
    example_free(&e);
}
END_TEST

/* The naive loss as one number goes up and down. */
static double slope(example *e, size_t at)
{
    double x = e->at[at], h = 1e-5 * fmax(fabs(x), 0.1), f[2], hits;
    for (int i = 0; i < 2; i++) {
        e->at[at] = i ? x - h : x + h;
        f[i] = naive(e, &hits);
    }
    e->at[at] = x;
    return (f[0] - f[1]) / (2 * h);
}

START_TEST(the_gradient_is_the_slope_of_the_formula)
{
    example e = example_of(_i);
    const double scale = 2.5;
    kmf_contrast_views views = views_of(&e);
    kmf_contrast *c = contrast_of(&e, NULL);
    kmf_contrast_result result;
    kmf_rng rng = kmf_rng_stream(3, 3);
    double most = 0;
    ck_assert_int_eq(kmf_contrast_learn(c, e.dvectors, &views, scale, &result, NULL), 0);
    for (size_t i = 0; i < e.n * e.D; i++)
        most = fmax(most, fabs((double)e.dvectors[i]));
    ck_assert(most > 0 && isfinite(most));
    for (int i = 0; i < (CHECKED ? 4 : 12); i++) {
        size_t at = (size_t)kmf_rng_below(&rng, e.n * e.D);
        double found = (double)e.dvectors[at], right = scale * slope(&e, at);
        ck_assert_msg(fabs(found - right) <= 1e-4 * most, "%zu: %g, not %g", at, found, right);
    }
    /* along a vector the loss does not change */
    for (size_t i = 0; i < e.n; i++) {
        double along = 0, length = 0;
        for (size_t d = 0; d < e.D; d++) {
            double x = e.at[i * e.D + d];
            along += x * (double)e.dvectors[i * e.D + d];
            length += x * x;
        }
        ck_assert(fabs(along) <= 1e-5 * most * sqrt(length));
    }
    kmf_contrast_free(c);
    example_free(&e);
}
END_TEST

START_TEST(loss_and_gradients_are_those_of_pytorch)
{
    meets_pytorch(_i / 2, _i % 2 == 1, (contrast_limits){.loss = 1e-5, .tensor = 2e-5});
}
END_TEST

/* ---------------------------------------------------------------- ends ------------------ */

START_TEST(threads_do_not_change_a_bit)
{
    for (int number = 4; number < 7; number++) {
        example e = example_of(number);
        kmf_contrast_views views = views_of(&e);
        kmf_real *one = malloc(e.n * e.D * sizeof *one);
        kmf_contrast_result first, result;
        for (int threads = 1; threads <= 3; threads++) {
            kmf_pool *pool = threads > 1 ? kmf_pool_new(threads - 1, NULL) : NULL;
            kmf_contrast *c = contrast_of(&e, pool);
            ck_assert_int_eq(kmf_contrast_learn(c, e.dvectors, &views, 1, &result, NULL), 0);
            if (threads == 1) {
                memcpy(one, e.dvectors, e.n * e.D * sizeof *one);
                first = result;
            }
            ck_assert_int_eq(memcmp(&result, &first, sizeof result), 0);
            ck_assert_int_eq(memcmp(one, e.dvectors, e.n * e.D * sizeof *one), 0);
            kmf_contrast_free(c);
            kmf_pool_free(pool);
        }
        free(one);
        example_free(&e);
    }
}
END_TEST

START_TEST(a_vector_of_length_0_has_no_gradient)
{
    for (int number = 1; number < 5; number++) {
        example e = example_of(number);
        kmf_contrast_views views = views_of(&e);
        kmf_contrast *c = contrast_of(&e, NULL);
        kmf_contrast_result result;
        double hits, most = 0;
        for (size_t d = 0; d < 2 * e.D; d++)
            e.vectors[6 * e.D + d] = 0, e.at[6 * e.D + d] = 0;
        ck_assert_int_eq(kmf_contrast_learn(c, e.dvectors, &views, 1, &result, NULL), 0);
        ck_assert(fabs(result.loss - naive(&e, &hits)) < 1e-5);
        for (size_t i = 0; i < e.n * e.D; i++) {
            ck_assert(isfinite(e.dvectors[i]));
            ck_assert(i / e.D / 2 != 3 || e.dvectors[i] == 0);
            most = fmax(most, fabs((double)e.dvectors[i]));
        }
        ck_assert(most > 0);
        kmf_contrast_free(c);
        example_free(&e);
    }
}
END_TEST

/* All of one source: nothing to be told from. With a pair of another it is told from that. */
START_TEST(without_others_there_is_nothing_to_learn)
{
    for (int number = 1; number < 5; number++) {
        example e = example_of(number);
        kmf_contrast_views views = views_of(&e);
        kmf_contrast *c = contrast_of(&e, NULL);
        kmf_contrast_result result;
        double hits;
        for (size_t i = 0; i < e.n; i++)
            e.sources[i] = 7;
        ck_assert_int_eq(kmf_contrast_learn(c, e.dvectors, &views, 1, &result, NULL), 0);
        double loss = naive(&e, &hits);
        ck_assert(fabs(result.loss - loss) < 1e-5 && result.hits == hits);
        if (!e.mixed) {
            ck_assert(result.loss == 0 && result.hits == 0);
            for (size_t i = 0; i < e.n * e.D; i++)
                ck_assert(e.dvectors[i] == 0);
        }
        e.sources[8] = e.sources[9] = 5;
        ck_assert_int_eq(kmf_contrast_learn(c, e.dvectors, &views, 1, &result, NULL), 0);
        ck_assert(result.loss > 0 && fabs(result.loss - naive(&e, &hits)) < 1e-5);
        kmf_contrast_free(c);
        example_free(&e);
    }
}
END_TEST

/*
 * All vectors are the same, in numbers that are exact: nothing is nearer than anything else, so
 * there is no hit, and each loss is the logarithm of how many are compared, those alike among them.
 */
START_TEST(as_near_as_the_others_is_no_hit)
{
    for (int number = 0; number < N_EXAMPLES; number++) {
        example e = example_of(number);
        kmf_contrast_views views = views_of(&e);
        kmf_contrast_result result;
        e.all = false;
        for (size_t i = 0; i < e.n * e.D; i++)
            e.vectors[i] = i % e.D == 0 ? 2 : 0;
        kmf_contrast *c = contrast_of(&e, NULL);
        ck_assert_int_eq(kmf_contrast_learn(c, NULL, &views, 1, &result, NULL), 0);
        ck_assert_msg(result.hits == 0, "%d: %g hits", number, result.hits);
        double loss = 0, anchors = 0;
        for (size_t i = 0; i < e.n; i += e.mixed ? 2 : 1, anchors++) {
            size_t r = e.mixed ? e.partner[i] : i, others = 0;
            for (size_t j = 0; j < e.n; j++)
                others += (j % 2 == 1 || !e.mixed) && e.sources[j] != e.sources[i] &&
                          e.sources[j] != e.sources[r];
            loss += log((double)others + (r != i ? 2 : 1));
        }
        ck_assert_msg(fabs(result.loss - loss / anchors) < 1e-5, "%d: %.9g, not %.9g", number,
                      result.loss, loss / anchors);
        kmf_contrast_free(c);
        example_free(&e);
    }
}
END_TEST

/* Fewer views than there is room for, and none. */
START_TEST(room_for_more_does_not_matter)
{
    example e = example_of(1), more = e;
    kmf_contrast_views views = views_of(&e);
    kmf_contrast_result result, again;
    kmf_contrast *c = contrast_of(&e, NULL);
    kmf_real *one = malloc(e.n * e.D * sizeof *one);
    more.n = 200;
    kmf_contrast *wide = contrast_of(&more, NULL);
    ck_assert_int_eq(kmf_contrast_learn(c, one, &views, 1, &result, NULL), 0);
    ck_assert_int_eq(kmf_contrast_learn(wide, e.dvectors, &views, 1, &again, NULL), 0);
    ck_assert_int_eq(memcmp(&result, &again, sizeof result), 0);
    ck_assert_int_eq(memcmp(one, e.dvectors, e.n * e.D * sizeof *one), 0);
    views.n = 0;
    ck_assert_int_eq(kmf_contrast_learn(wide, NULL, &views, 1, &again, NULL), 0);
    ck_assert(again.loss == 0 && again.anchors == 0);
    free(one);
    kmf_contrast_free(c);
    kmf_contrast_free(wide);
    example_free(&e);
}
END_TEST

START_TEST(memory_is_told)
{
    kmf_contrast_options o = {.most = 1000, .D = 64, .temperature = 1};
    size_t numbers = 2 * 1000 * 1000 + 2 * 1000 * 64;
    ck_assert_uint_ge(kmf_contrast_bytes(&o), numbers * sizeof(kmf_real));
    ck_assert_uint_le(kmf_contrast_bytes(&o), numbers * sizeof(kmf_real) + 20000);
    o.most = SIZE_MAX / 2;
    ck_assert_uint_eq(kmf_contrast_bytes(&o), 0);
    o.most = 1000;
    o.D = SIZE_MAX / 100;
    ck_assert_uint_eq(kmf_contrast_bytes(&o), 0);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    kmf_contrast_options o = {.most = 40, .D = 4, .temperature = 1};
    kmf_mem_fail_at(0);
    kmf_contrast_free(kmf_contrast_new(&o, NULL));
    size_t n = kmf_mem_count();
    ck_assert_uint_gt(n, 5);
    for (size_t at = 1; at <= n; at++) {
        kmf_err err = {0};
        kmf_mem_fail_at(at);
        ck_assert_ptr_null(kmf_contrast_new(&o, &err));
        ck_assert_int_eq(err.code, KMF_ENOMEM);
    }
    kmf_mem_fail_at(0);
    kmf_contrast_free(NULL);
    /* threads get their work through a queue */
    example e = example_of(5);
    kmf_contrast_views views = views_of(&e);
    kmf_contrast_result result;
    kmf_err err = {0};
    kmf_pool *pool = kmf_pool_new(2, NULL);
    kmf_contrast *c = contrast_of(&e, pool);
    kmf_mem_fail_at(1);
    ck_assert_int_eq(kmf_contrast_learn(c, e.dvectors, &views, 1, &result, &err), KMF_ENOMEM);
    kmf_mem_fail_at(0);
    ck_assert_int_eq(err.code, KMF_ENOMEM);
    ck_assert_int_eq(kmf_contrast_learn(c, e.dvectors, &views, 1, &result, NULL), 0);
    kmf_contrast_free(c);
    kmf_pool_free(pool);
    example_free(&e);
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_loop_test(tcase, the_loss_is_the_formula, 0, N_EXAMPLES);
    tcase_add_loop_test(tcase, the_gradient_is_the_slope_of_the_formula, 0, N_EXAMPLES);
    tcase_add_loop_test(tcase, loss_and_gradients_are_those_of_pytorch, 0,
                        2 * GOLDEN_CONTRASTS);
    tcase_add_test(tcase, threads_do_not_change_a_bit);
    tcase_add_test(tcase, a_vector_of_length_0_has_no_gradient);
    tcase_add_test(tcase, without_others_there_is_nothing_to_learn);
    tcase_add_test(tcase, as_near_as_the_others_is_no_hit);
    tcase_add_test(tcase, room_for_more_does_not_matter);
    tcase_add_test(tcase, memory_is_told);
    tcase_add_test(tcase, every_allocation_may_fail);
    return run_case("contrast", tcase);
}
