/* SPDX-License-Identifier: MIT */
/*
 * The contrastive loss and the way back through pooling, mixing and compositions, compiled in
 * double, against difference quotients of the fourth order (tests/test_mlm_gradients.c) of the loss
 * by the vectors and by the weights, and against PyTorch's autograd
 * (scripts/contrast_reference.py).
 */
#include "base/rng.h"
#include "checked.h"
#include "contrasts.h"
#include "run.h"

enum { VIEWS = 12 };

/* ---------------------------------------------------------------- by the vectors --------- */

typedef struct variant {
    double temperature, hardness;
    bool mixed, all;
} variant;

static const variant variants[] = {{0.05, 0, false, false},
                                   {0.2, 1, false, false},
                                   {1, 0.3, true, false},
                                   {0.1, 0, true, true},
                                   {0.2, 0.5, false, true}};
enum { N_VARIANTS = sizeof variants / sizeof variants[0] };

static const size_t sources[VIEWS] = {0, 0, 1, 1, 2, 2, 0, 0, 3, 3, 4, 4};
static const uint32_t partner[VIEWS] = {4, 1, 2, 3, 6, 5, 0, 7, 10, 9, 8, 11};
static const uint32_t served[VIEWS] = {6, 1, 2, 3, 0, 5, 4, 7, 10, 9, 8, 11};
static const double share[VIEWS] = {0.7, 1, 0.2, 1, 0.55, 1, 0.9, 1, 0.01, 1, 0.4, 1};

static double loss_at(kmf_contrast *c, const kmf_contrast_views *views)
{
    kmf_contrast_result result;
    ck_assert_int_eq(kmf_contrast_learn(c, NULL, views, 1, &result, NULL), 0);
    return result.loss;
}

static kmf_contrast_views views_of(const variant *v, const kmf_real *vectors)
{
    return (kmf_contrast_views){.vectors = vectors,
                                .sources = sources,
                                .n = VIEWS,
                                .partner = v->mixed ? partner : NULL,
                                .share = share};
}

static kmf_contrast *contrast_of(const variant *v, size_t D)
{
    kmf_contrast_options o = {.most = VIEWS,
                              .D = D,
                              .temperature = v->temperature,
                              .hardness = v->hardness,
                              .all_positives = v->all};
    kmf_contrast *c = kmf_contrast_new(&o, NULL);
    ck_assert_ptr_nonnull(c);
    return c;
}

static double quotient_of(const double f[4], double h)
{
    return (8.0 * (f[0] - f[1]) - (f[2] - f[3])) / (12.0 * h);
}

static const double steps[4] = {1.0, -1.0, 2.0, -2.0};

START_TEST(the_gradient_is_the_slope_of_the_loss)
{
    enum { D = 5 };
    const double h = 1e-4, scale = 3;
    kmf_real vectors[VIEWS * D], gradient[VIEWS * D];
    kmf_rng rng = kmf_rng_stream(5, (uint64_t)_i);
    kmf_contrast *c = contrast_of(&variants[_i], D);
    kmf_contrast_result result;
    kmf_contrast_views views = views_of(&variants[_i], vectors);
    double worst = 0;
    for (size_t i = 0; i < VIEWS * D; i++)
        vectors[i] = (kmf_real)kmf_rng_normal(&rng) + 1;
    ck_assert_int_eq(kmf_contrast_learn(c, gradient, &views, scale, &result, NULL), 0);
    for (size_t i = 0; i < VIEWS * D; i++) {
        kmf_real x = vectors[i];
        double f[4];
        for (size_t s = 0; s < 4; s++) {
            vectors[i] = x + steps[s] * h;
            f[s] = loss_at(c, &views);
        }
        vectors[i] = x;
        worst = fmax(worst, fabs(gradient[i] - scale * quotient_of(f, h)));
    }
    ck_assert_msg(worst <= 1e-8, "%g", worst);
    kmf_contrast_free(c);
}
END_TEST

/* ---------------------------------------------------------------- by the weights --------- */

/* What is compared, and what else is asked for. */
typedef struct plan {
    kmf_pooling pooling;
    size_t variant;
    bool asks, recompute;
    size_t composition; /* not 0: its numbers, and vectors are compositions */
} plan;

static const plan plans[] = {
    {KMF_POOL_MEAN, 1, false, false, 0},   {KMF_POOL_MEAN, 2, false, true, 0},
    {KMF_POOL_CLS, 3, true, false, 0},     {KMF_POOL_MAX, 4, true, true, 0},
    {KMF_POOL_MEAN_ALL, 2, true, true, 0}, {KMF_POOL_MEAN, 1, false, false, 7},
    {KMF_POOL_MEAN, 4, true, false, 5}};
enum { N_PLANS = sizeof plans / sizeof plans[0] };

typedef struct pass {
    kmf_config config;
    kmf_slots slots;
    slab weights, gradients;
    kmf_mlm *mlm;
    kmf_contrast *contrast;
    int32_t ids[VIEWS * 16], labels[VIEWS * 16];
    size_t off[VIEWS + 1];
    kmf_mlm_batch batch;
    kmf_mlm_mix mix;
    const variant *variant;
} pass;

static pass *pass_new(const plan *of)
{
    pass *p = calloc(1, sizeof *p);
    const variant *v = &variants[of->variant];
    kmf_rng rng = kmf_rng_stream(7, (uint64_t)of->pooling);
    p->config = (kmf_config){ROFORMER,
                             .vocab_size = 17,
                             .embedding_size = 10,
                             .hidden_size = 12,
                             .n_heads = 2,
                             .n_layers = 3,
                             .intermediate_size = 14,
                             .type_vocab_size = 2,
                             .layer_norm_eps = 1e-12,
                             .activation = KMF_GELU,
                             .specials = 1,
                             .composition = of->composition,
                             .pooling = of->pooling};
    p->slots = slots_of(&p->config);
    p->weights = slab_new(&p->slots, &p->config);
    p->gradients = slab_new(&p->slots, &p->config);
    for (size_t i = 0; i < p->slots.total; i++)
        p->weights.at[i] = (kmf_real)(0.5 * (double)kmf_rng_normal(&rng));
    for (size_t s = 0; s < VIEWS; s++) {
        size_t T = s % 2 == 0 ? 9 : 5 + s;
        if (s == 1)
            T = 3; /* one token between the specials */
        p->off[s + 1] = p->off[s] + T;
        for (size_t t = p->off[s]; t < p->off[s + 1]; t++) {
            p->ids[t] = (int32_t)kmf_rng_below(&rng, 17);
            p->labels[t] = of->asks && kmf_rng_below(&rng, 5) == 0 ? (p->ids[t] + 3) % 17 : -1;
        }
        if (s == 1)
            p->ids[p->off[s] + 1] = 7; /* a known one, which counts */
    }
    p->mix = (kmf_mlm_mix){.layer = 1, .partner = partner, .served = served, .share = share};
    p->batch = (kmf_mlm_batch){.ids = p->ids,
                               .labels = p->labels,
                               .off = p->off,
                               .n_seq = VIEWS,
                               .mix = v->mixed ? &p->mix : NULL};
    kmf_mlm_options opts = {.max_tokens = p->off[VIEWS],
                            .max_seq = 16,
                            .recompute = of->recompute,
                            .vectors = true,
                            .composes = of->composition > 0,
                            .unasked = !of->asks,
                            .max_seqs = VIEWS,
                            .unknown = 1};
    p->mlm = kmf_mlm_new(&p->config, &p->weights.params, &opts, NULL, NULL);
    p->contrast = contrast_of(v, of->composition > 0 ? of->composition : p->config.hidden_size);
    p->variant = v;
    ck_assert_ptr_nonnull(p->mlm);
    return p;
}

static void pass_free(pass *p)
{
    kmf_mlm_free(p->mlm);
    kmf_contrast_free(p->contrast);
    slab_free(&p->weights);
    slab_free(&p->gradients);
    kmf_slots_free(&p->slots);
    free(p);
}

/* Contrastive loss and, of what is asked, the sum. */
static double both_losses(pass *p)
{
    kmf_real vectors[VIEWS * 48];
    kmf_mlm_result asked;
    kmf_contrast_views views = views_of(p->variant, vectors);
    ck_assert_int_eq(kmf_mlm_evaluate(p->mlm, &p->batch, vectors, &asked, NULL), 0);
    return 2 * loss_at(p->contrast, &views) + asked.loss;
}

/* The same by the way of training, with gradients added. */
static double both_learnt(pass *p)
{
    kmf_real vectors[VIEWS * 48], dvectors[VIEWS * 48];
    kmf_contrast_result compared;
    kmf_mlm_result asked;
    kmf_contrast_views views = views_of(p->variant, vectors);
    ck_assert_int_eq(kmf_mlm_encode(p->mlm, &p->batch, vectors, NULL), 0);
    ck_assert_int_eq(kmf_contrast_learn(p->contrast, dvectors, &views, 2, &compared, NULL), 0);
    ck_assert_int_eq(kmf_mlm_return(p->mlm, dvectors, &p->gradients.params, &asked, NULL), 0);
    return 2 * compared.loss + asked.loss;
}

START_TEST(gradients_of_weights_are_slopes_of_the_loss)
{
    const double h = 1e-5;
    pass *p = pass_new(&plans[_i]);
    kmf_rng rng = kmf_rng_stream(9, 0);
    size_t n = p->slots.total;
    double worst = 0;
    ck_assert_double_eq(both_learnt(p), both_losses(p));
    kmf_real *gradient = malloc(n * sizeof *gradient);
    memcpy(gradient, p->gradients.at, n * sizeof *gradient);
    for (size_t s = 0; s < p->slots.n; s++) {
        const kmf_slot *slot = &p->slots.slot[s];
        for (int k = 0; k < (CHECKED ? 1 : 2); k++) {
            kmf_real *w = &p->weights.at[slot->begin + kmf_rng_below(&rng, slot->n)];
            kmf_real x = *w, g = gradient[w - p->weights.at];
            double f[4];
            for (size_t i = 0; i < 4; i++) {
                *w = x + steps[i] * h;
                f[i] = both_losses(p);
            }
            *w = x;
            double error = fabs(g - quotient_of(f, h)) / (1e-2 + fabs(g));
            ck_assert_msg(error <= 1e-6, "%s: %.9g, not %.9g", slot->name, g,
                          quotient_of(f, h));
            worst = fmax(worst, error);
        }
    }
    printf("largest relative error %.1e\n", worst);
    free(gradient);
    pass_free(p);
}
END_TEST

/* ---------------------------------------------------------------- PyTorch ---------------- */

START_TEST(loss_and_gradients_are_those_of_pytorch)
{
    meets_pytorch(_i / 2, _i % 2 == 1, (contrast_limits){.loss = 1e-12, .tensor = 1e-10});
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_loop_test(tcase, the_gradient_is_the_slope_of_the_loss, 0, N_VARIANTS);
    tcase_add_loop_test(tcase, gradients_of_weights_are_slopes_of_the_loss, 0, N_PLANS);
    tcase_add_loop_test(tcase, loss_and_gradients_are_those_of_pytorch, 0,
                        2 * GOLDEN_CONTRASTS);
    return run_case("contrast_gradients", tcase);
}
