/* SPDX-License-Identifier: MIT */
/*
 * The encoder in bfloat16 and 8 bits: how far its states are from the golden numbers
 * (tests/golden, computed by PyTorch) and from its own in float32.
 */
#include "base/mem.h"
#include "golden.h"
#include "levels.h"

#include "kmerformer.h"
#include "model/model.h"
#include "model/packed.h"
#include "run.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

static bool has(kmf_precision precision)
{
    return kmf_precision_here(precision) == precision;
}

/* ---------------------------------------------------------------- golden numbers --------- */

/* The cosine of the means of two [T, D]. */
static double cosine_of_means(const float *a, const float *b, size_t T, size_t D)
{
    double ab = 0.0, aa = 0.0, bb = 0.0;
    for (size_t i = 0; i < D; i++) {
        double x = 0.0, y = 0.0;
        for (size_t t = 0; t < T; t++) {
            x += (double)a[t * D + i];
            y += (double)b[t * D + i];
        }
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    return ab / sqrt(aa * bb);
}

/* The pooled vectors of the golden cases, in a precision of fewer digits. */
static const char *golden_pooled(const char *dir, kmf_precision precision, double limit)
{
    char path[256];
    kmf_err err = {0};
    size_t n_hidden, c;
    float *hidden = read_npy(dir, "hidden.npy", &n_hidden);
    snprintf(path, sizeof path, "%s/expected.json", dir);
    json_t *expected = json_load_file(path, 0, NULL);
    kmf_model *model = kmf_model_load(dir, &err);
    if (!hidden || !expected || !model || kmf_model_prepare(model, precision, &err) != 0)
        return "the golden files cannot be read";
    const kmf_config *config = kmf_model_config(model);
    size_t D = config->hidden_size;
    kmf_encoder *encoder = kmf_encoder_new(model, 600, 600, &err);
    if (!encoder)
        return "no encoder";
    double worst = 1.0;
    json_t *item;
    json_array_foreach(json_object_get(expected, "cases"), c, item) {
        int32_t ids[GOLDEN_TOKENS];
        size_t T = case_ids(ids, item);
        size_t row = (size_t)json_integer_value(json_object_get(item, "hidden_row"));
        const size_t off[2] = {0, T};
        const float *x = kmf_encoder_forward(encoder, ids, off, 1, config->n_layers);
        double cosine = cosine_of_means(x, hidden + row * D, T, D);
        worst = cosine >= worst ? worst : cosine;
    }
    printf("%s in %s: smallest cosine of a pooled vector %.7f\n", dir,
           kmf_precision_names[precision], worst);
    kmf_encoder_free(encoder);
    kmf_model_free(model);
    json_decref(expected);
    kmf_free(hidden);
    return worst >= limit ? NULL : "the golden vectors are not met";
}

static const char *golden_in_few_digits(void)
{
    static const char *const dirs[] = {"tests/golden/roformer",
                                       "tests/golden/roformer-rotary-value"};
    static const double limits[] = {
        [KMF_PRECISION_BF16] = 0.9999, [KMF_PRECISION_INT8] = 0.999};
    for (int p = KMF_PRECISION_BF16; p <= KMF_PRECISION_INT8; p++) {
        if (!has((kmf_precision)p))
            printf("skip: no %s here\n", kmf_precision_names[p]);
        for (size_t d = 0; d < 2 && has((kmf_precision)p); d++) {
            const char *wrong = golden_pooled(dirs[d], (kmf_precision)p, limits[p]);
            if (wrong)
                return wrong;
        }
    }
    return NULL;
}

/* ---------------------------------------------------------------- float32 ---------------- */

/* Weights as large as those of a trained model, so that no sublayer is lost beside x. */
static void enlarge(kmf_model *model, float factor)
{
    const kmf_config *c = &model->config;
    size_t D = c->hidden_size;
    for (size_t l = 0; l < c->n_layers; l++) {
        const kmf_layer *w = &model->params.layers[l];
        float *const square[] = {w->wq, w->wk, w->wv, w->wo};
        for (size_t i = 0; i < 4 * D * D; i++)
            square[i / D / D][i % (D * D)] *= factor;
        for (size_t i = 0; i < D * c->intermediate_size; i++) {
            w->w1[i] *= factor;
            w->w2[i] *= factor;
        }
    }
}

/* Scores of attention as large as makes a few keys outweigh all others. */
static void sharpen(kmf_model *model, float factor)
{
    size_t D = model->config.hidden_size;
    for (size_t l = 0; l < model->config.n_layers; l++)
        for (size_t i = 0; i < D * D; i++) {
            model->params.layers[l].wq[i] *= factor;
            model->params.layers[l].wk[i] *= factor;
        }
}

/* The states [T, D] of a new model; false: there are none. */
static bool states_of(float *states, const kmf_config *config, kmf_precision precision,
                      float sharp, const int32_t *ids, size_t T)
{
    kmf_err err = {0};
    kmf_model *model = kmf_model_new(config, 7, &err);
    kmf_encoder *encoder = NULL;
    if (model) {
        enlarge(model, 8.0f);
        sharpen(model, sharp);
        if (kmf_model_prepare(model, precision, &err) == 0)
            encoder = kmf_encoder_new(model, T, T, &err);
    }
    if (encoder)
        memcpy(states, kmf_encoder_forward(encoder, ids, (size_t[]){0, T}, 1, config->n_layers),
               T * config->hidden_size * sizeof *states);
    kmf_encoder_free(encoder);
    kmf_model_free(model);
    return encoder != NULL;
}

/* |rough - exact| over |exact|, of n numbers. */
static double relative_error(const float *rough, const float *exact, size_t n)
{
    double off = 0.0, all = 0.0;
    for (size_t i = 0; i < n; i++) {
        off += pow((double)rough[i] - (double)exact[i], 2);
        all += pow((double)exact[i], 2);
    }
    return sqrt(off / all);
}

/*
 * A model of one layer whose scores are so large that those of bfloat16 or bytes would not do: the
 * first layer's have 16 bits beside either.
 */
static const char *first_scores_are_fine(void)
{
    enum { T = 75, D = 128 };
    /* what rounded weights leave; with rough scores it is 0.017 and 0.075 */
    static const double limits[] = {[KMF_PRECISION_BF16] = 0.006, [KMF_PRECISION_INT8] = 0.02};
    static float exact[T * D], rough[T * D];
    kmf_config config;
    int32_t ids[T];
    if (kmf_config_preset(&config, "nano", 3, NULL) != 0)
        return "no preset";
    config.embedding_size = config.hidden_size = D;
    config.n_heads = 2;
    config.n_layers = 1;
    for (size_t t = 0; t < T; t++)
        ids[t] = (int32_t)(t * t % config.vocab_size);
    if (!states_of(exact, &config, KMF_PRECISION_F32, 8.0f, ids, T))
        return "no model";
    for (int p = KMF_PRECISION_BF16; p <= KMF_PRECISION_INT8; p++) {
        if (!has((kmf_precision)p))
            continue;
        if (!states_of(rough, &config, (kmf_precision)p, 8.0f, ids, T))
            return "no model";
        double error = relative_error(rough, exact, T * D);
        printf("first layer, large scores: relative error of %s %.2e\n", kmf_precision_names[p],
               error);
        if (!(error <= limits[p]))
            return "the first layer's scores are rough";
    }
    return NULL;
}

/* Shapes that fill no panel, no word and no vector, against f32. */
static const char *odd_shapes_in_few_digits(void)
{
    enum { T = 75, MAX_D = 264 };
    static const struct {
        size_t E, D, H, F;
        kmf_activation activation;
        int rotary_value;
    } shapes[] = {
        {40, 40, 5, 72, KMF_GELU, 0},      {32, 40, 5, 72, KMF_GELU_TANH, 1},
        {33, 66, 11, 101, KMF_GELU, 1},    {64, 64, 1, 64, KMF_RELU, 0},
        {100, 260, 13, 1031, KMF_GELU, 0}, {48, 4, 1, 3, KMF_GELU, 0},
    };
    static const double limits[] = {[KMF_PRECISION_BF16] = 0.015, [KMF_PRECISION_INT8] = 0.05};
    static float exact[T * MAX_D], rough[T * MAX_D];
    double worst[KMF_PRECISION_AUTO] = {0};
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        kmf_config config;
        int32_t ids[T];
        if (kmf_config_preset(&config, "nano", 3, NULL) != 0)
            return "no preset";
        config.embedding_size = shapes[s].E;
        config.hidden_size = shapes[s].D;
        config.n_heads = shapes[s].H;
        config.intermediate_size = shapes[s].F;
        config.activation = shapes[s].activation;
        config.rotary_value = shapes[s].rotary_value;
        config.n_layers = 2;
        for (size_t t = 0; t < T; t++)
            ids[t] = (int32_t)(t * t % config.vocab_size);
        if (!states_of(exact, &config, KMF_PRECISION_F32, 1.0f, ids, T))
            return "no model";
        for (int p = KMF_PRECISION_BF16; p <= KMF_PRECISION_INT8; p++) {
            if (!has((kmf_precision)p))
                continue;
            if (!states_of(rough, &config, (kmf_precision)p, 1.0f, ids, T))
                return "no model";
            double error = relative_error(rough, exact, T * shapes[s].D);
            worst[p] = error <= worst[p] ? worst[p] : error;
        }
    }
    printf("odd shapes: largest relative error of bf16 %.2e, of int8 %.2e\n",
           worst[KMF_PRECISION_BF16], worst[KMF_PRECISION_INT8]);
    for (int p = KMF_PRECISION_BF16; p <= KMF_PRECISION_INT8; p++)
        if (!(worst[p] <= limits[p]))
            return "a precision is not what f32 rounds to";
    return NULL;
}

/* ---------------------------------------------------------------- the tests -------------- */

static const levels_part parts[] = {
    {"golden", golden_in_few_digits},
    {"odd_shapes", odd_shapes_in_few_digits},
    {"first_scores", first_scores_are_fine},
};
enum { N_PARTS = sizeof parts / sizeof parts[0] };

/* A gated middle that no panel halves is one sum of 32 bits: beyond its room it is refused. */
START_TEST(sums_that_could_wrap_are_refused)
{
    const kmf_config config = {.gated = 1, .intermediate_size = 65537};
    kmf_err err = {0};
    kmf_packed *packed = kmf_packed_new(&err);
    ck_assert_ptr_nonnull(packed);
    ck_assert_int_eq(kmf_packed_make(packed, &config, NULL, NULL, KMF_PRECISION_INT8, &err),
                     KMF_EMODEL);
    ck_assert_ptr_nonnull(strstr(err.msg, "intermediate_size 65537: above 65536"));
    kmf_packed_free(packed);
}
END_TEST

LEVELS_TEST(vectors_meet_the_golden_ones, "golden odd_shapes first_scores", levels_digits[_i])

int main(int argc, char **argv)
{
    if (argc > 2)
        return levels_child(parts, N_PARTS, argv);
    TCase *tcase = untimed_case();
    tcase_add_test(tcase, sums_that_could_wrap_are_refused);
    tcase_add_loop_test(tcase, vectors_meet_the_golden_ones, 0, N_DIGITS);
    return run_case("encoder_precision", tcase);
}
