/* SPDX-License-Identifier: MIT */
/*
 * The whole training pass, compiled in double (nn/real.h), against three others: the gradients
 * that PyTorch's autograd gives; the loss by its formulas, written down again without tiles; and
 * difference quotients of the loss.
 *
 * A quotient is of the fourth order,
 *
 *   f' ~ ( 8 (f(h) - f(-h)) - (f(2h) - f(-2h)) ) / 12h
 *
 * which at h = 1e-3 leaves some 1e-10 of the truth in double. ReLU has a kink that must not lie
 * between the points: biases of 2 and -2 in front of it keep its arguments away from 0.
 */
#include "base/rng.h"
#include "checked.h"
#include "learn/mlm_room.h"
#include "nn/dropout.h"
#include "passes.h"
#include "run.h"

/* ---------------------------------------------------------------- PyTorch ---------------- */

START_TEST(loss_and_gradients_are_those_of_pytorch)
{
    pass_meets_pytorch(golden_names[_i], 1e-12, 1e-11, 1e-11);
}
END_TEST

/* ---------------------------------------------------------------- models ----------------- */

typedef struct example {
    const char *name;
    kmf_config config;
    double dropout;
    bool weighted;
    size_t lengths[BATCH_SEQS]; /* up to a 0 */
    size_t lengths_checked[BATCH_SEQS];
} example;

/* The row where the second tile begins is inside a sequence. */
static const example examples[] = {
    {"gelu, projection, values turned, dropout, weights",
     {ROFORMER, .vocab_size = 17, .embedding_size = 10, .hidden_size = 12, .n_heads = 2,
      .n_layers = 2, .intermediate_size = 14, .type_vocab_size = 2, .layer_norm_eps = 1e-12,
      .activation = KMF_GELU, .rotary_value = 1},
     0.2,
     true,
     {1, 60, 67, 1, 13},
     {1, 3, 9, 1, 4}},
    {"gelu_tanh, two sequences",
     {ROFORMER, .vocab_size = 19, .embedding_size = 12, .hidden_size = 12, .n_heads = 3,
      .n_layers = 3, .intermediate_size = 20, .type_vocab_size = 1, .layer_norm_eps = 1e-5,
      .activation = KMF_GELU_TANH, .rotary_value = 0},
     0.0,
     false,
     {17, 5},
     {7, 2}},
    {"relu, dropout, one sequence that is longer than a tile",
     {ROFORMER, .vocab_size = 23, .embedding_size = 6, .hidden_size = 6, .n_heads = 1,
      .n_layers = 1, .intermediate_size = 130, .type_vocab_size = 2, .layer_norm_eps = 1e-12,
      .activation = KMF_RELU, .rotary_value = 0},
     0.3,
     false,
     {131},
     {9}},
};
enum { N_EXAMPLES = sizeof examples / sizeof examples[0] };

static bool is_norm(const kmf_slot *slot)
{
    return strstr(slot->name, "LayerNorm.weight") != NULL;
}

/* Biases in front of an activation. */
static bool is_gate(const kmf_slot *slot)
{
    return strstr(slot->name, "intermediate.dense.bias") ||
           strstr(slot->name, "transform.dense.bias");
}

static bool feeds_gate(const kmf_slot *slot)
{
    return strstr(slot->name, "intermediate.dense.weight") ||
           strstr(slot->name, "transform.dense.weight");
}

/* Weights at which nothing is near 0 or saturated, and no argument of a ReLU near 0. */
static void draw_weights(slab *weights, const kmf_slots *slots, const kmf_config *config)
{
    kmf_rng rng = kmf_rng_stream(11, 0);
    bool relu = config->activation == KMF_RELU;
    for (size_t i = 0; i < slots->n; i++) {
        const kmf_slot *slot = &slots->slot[i];
        kmf_real *w = weights->at + slot->begin;
        double size = slot->rank == 1 ? 0.2 : 1.0 / sqrt((double)slot->shape[1]);
        if (relu && feeds_gate(slot))
            size *= 0.1;
        for (size_t k = 0; k < slot->n; k++) {
            w[k] = size * (double)kmf_rng_normal(&rng) + (is_norm(slot) ? 1.0 : 0.0);
            if (relu && is_gate(slot))
                w[k] = k % 3 == 0 ? -2.0 : 2.0;
        }
    }
}

/* The second sequence has no label; the others about every third token, the first one too. */
static held_batch draw_batch(const kmf_config *config, const size_t *lengths)
{
    held_batch b = {0};
    kmf_rng rng = kmf_rng_stream(12, 0);
    for (; lengths[b.n_seq] > 0; b.n_seq++)
        b.off[b.n_seq + 1] = b.off[b.n_seq] + lengths[b.n_seq];
    ck_assert_uint_le(b.off[b.n_seq], BATCH_TOKENS);
    for (size_t s = 0; s < b.n_seq; s++)
        for (size_t i = b.off[s]; i < b.off[s + 1]; i++) {
            bool asked = (i == 0 || kmf_rng_below(&rng, 3) == 0) && s != 1;
            b.ids[i] = (int32_t)kmf_rng_below(&rng, config->vocab_size);
            b.labels[i] = asked ? (int32_t)kmf_rng_below(&rng, config->vocab_size) : -1;
            b.weights[i] = 0.25 + kmf_rng_unit(&rng);
        }
    return b;
}

/* ---------------------------------------------------------------- a pass ----------------- */

typedef struct pass {
    kmf_config config;
    kmf_slots slots;
    slab weights, gradients, sink;
    held_batch held;
    kmf_mlm_batch batch;
    kmf_mlm *mlm;
} pass;

static void pass_begin(pass *p, const example *of)
{
    *p = (pass){.config = of->config};
    p->slots = slots_of(&p->config);
    p->weights = slab_new(&p->slots, &p->config);
    p->gradients = slab_new(&p->slots, &p->config);
    p->sink = slab_new(&p->slots, &p->config);
    draw_weights(&p->weights, &p->slots, &p->config);
    p->held = draw_batch(&p->config, CHECKED ? of->lengths_checked : of->lengths);
    p->batch = batch_of(&p->held);
    p->batch.weights = of->weighted ? p->held.weights : NULL;
    p->batch.dropout = of->dropout;
    p->batch.key = 5;
    p->mlm = mlm_for(&p->config, &p->weights.params, &p->held, false, NULL);
}

static void pass_end(pass *p)
{
    kmf_mlm_free(p->mlm);
    slab_free(&p->weights);
    slab_free(&p->gradients);
    slab_free(&p->sink);
    kmf_slots_free(&p->slots);
}

/* ---------------------------------------------------------------- formulas --------------- */

enum { MOST_T = 140, MOST_D = 16, MOST_F = 140 };

/* y = w x + b. */
static void linear(double *y, const double *x, const double *w, const double *b, size_t Dout,
                   size_t Din)
{
    for (size_t o = 0; o < Dout; o++) {
        y[o] = b[o];
        for (size_t i = 0; i < Din; i++)
            y[o] += w[o * Din + i] * x[i];
    }
}

static void normalise(double *x, const double *w, const double *b, double eps, size_t n)
{
    double mean = 0.0, var = 0.0;
    for (size_t i = 0; i < n; i++)
        mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        var += (x[i] - mean) * (x[i] - mean) / (double)n;
    for (size_t i = 0; i < n; i++)
        x[i] = (x[i] - mean) / sqrt(var + eps) * w[i] + b[i];
}

static void activate(double *x, kmf_activation activation, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (activation == KMF_GELU)
            x[i] = x[i] / 2.0 * (1.0 + erf(x[i] / sqrt(2.0)));
        else if (activation == KMF_GELU_TANH)
            x[i] = x[i] / 2.0 *
                   (1.0 + tanh(sqrt(2.0 / acos(-1.0)) * (x[i] + 0.044715 * pow(x[i], 3.0))));
        else
            x[i] = x[i] > 0.0 ? x[i] : 0.0;
}

/* Row `row` of the batch, n wide, as dropout leaves it. */
static void drop(const pass *p, double *x, int site, size_t layer, size_t row, size_t n)
{
    double factors[MOST_D];
    kmf_dropout_factors(factors, kmf_mlm_drop_key(p->mlm, site, layer, 0), row * n,
                        p->batch.dropout, n);
    for (size_t i = 0; i < n; i++)
        x[i] *= factors[i];
}

/* Row t of a head. */
static void turn(double *x, size_t t, size_t K)
{
    for (size_t i = 0; i < K / 2; i++) {
        double angle = (double)t * pow(10000.0, -2.0 * (double)i / (double)K);
        double even = x[2 * i], odd = x[2 * i + 1];
        x[2 * i] = even * cos(angle) - odd * sin(angle);
        x[2 * i + 1] = odd * cos(angle) + even * sin(angle);
    }
}

/* to = attention of query t of sequence s in all heads. */
static void attend(const pass *p, double *to, double (*q)[MOST_D], double (*k)[MOST_D],
                   double (*v)[MOST_D], size_t layer, size_t s, size_t t)
{
    size_t T = p->held.off[s + 1] - p->held.off[s];
    size_t H = p->config.n_heads, K = p->config.hidden_size / H;
    for (size_t h = 0; h < H; h++) {
        double weights[MOST_T], factors[MOST_T];
        double sum = 0.0;
        for (size_t u = 0; u < T; u++) {
            double dot = 0.0;
            for (size_t i = h * K; i < (h + 1) * K; i++)
                dot += q[t][i] * k[u][i];
            weights[u] = exp(dot / sqrt((double)K));
            sum += weights[u];
        }
        kmf_dropout_factors(factors, kmf_mlm_drop_key(p->mlm, KMF_DROP_ATTENTION, layer, s),
                            (h * T + t) * T, p->batch.dropout, T);
        for (size_t i = h * K; i < (h + 1) * K; i++) {
            to[i] = 0.0;
            for (size_t u = 0; u < T; u++)
                to[i] += weights[u] / sum * factors[u] * v[u][i];
        }
    }
}

/* The states of sequence s, a row after the other, through one block. */
static void block(const pass *p, double (*x)[MOST_D], size_t layer, size_t s)
{
    static double q[MOST_T][MOST_D], k[MOST_T][MOST_D], v[MOST_T][MOST_D];
    const kmf_layer *w = &p->weights.params.layers[layer];
    size_t T = p->held.off[s + 1] - p->held.off[s];
    size_t D = p->config.hidden_size, F = p->config.intermediate_size;
    size_t K = D / p->config.n_heads;
    double eps = p->config.layer_norm_eps;
    for (size_t t = 0; t < T; t++) {
        linear(q[t], x[t], w->wq, w->bq, D, D);
        linear(k[t], x[t], w->wk, w->bk, D, D);
        linear(v[t], x[t], w->wv, w->bv, D, D);
        for (size_t at = 0; at < D; at += K) {
            turn(q[t] + at, t, K);
            turn(k[t] + at, t, K);
            if (p->config.rotary_value)
                turn(v[t] + at, t, K);
        }
    }
    for (size_t t = 0; t < T; t++) {
        double heads[MOST_D], y[MOST_D], f[MOST_F];
        attend(p, heads, q, k, v, layer, s, t);
        linear(y, heads, w->wo, w->bo, D, D);
        drop(p, y, KMF_DROP_HEADS, layer, p->held.off[s] + t, D);
        for (size_t i = 0; i < D; i++)
            x[t][i] += y[i];
        normalise(x[t], w->ln1_w, w->ln1_b, eps, D);
        linear(f, x[t], w->w1, w->b1, F, D);
        activate(f, p->config.activation, F);
        linear(y, f, w->w2, w->b2, D, F);
        drop(p, y, KMF_DROP_FEED, layer, p->held.off[s] + t, D);
        for (size_t i = 0; i < D; i++)
            x[t][i] += y[i];
        normalise(x[t], w->ln2_w, w->ln2_b, eps, D);
    }
}

/* Of row i of the batch, whose last state is x. */
static double weighted_nll(const pass *p, const double *x, size_t i)
{
    const kmf_params *w = &p->weights.params;
    size_t E = p->config.embedding_size;
    double g[MOST_D];
    double sum = 0.0, right = 0.0;
    linear(g, x, w->head_w, w->head_b, E, p->config.hidden_size);
    activate(g, p->config.activation, E);
    normalise(g, w->head_ln_w, w->head_ln_b, p->config.layer_norm_eps, E);
    for (size_t word = 0; word < p->config.vocab_size; word++) {
        double logit;
        linear(&logit, g, w->word + word * E, w->head_bias + word, 1, E);
        sum += exp(logit);
        right = word == (size_t)p->held.labels[i] ? logit : right;
    }
    return (log(sum) - right) * (p->batch.weights ? p->batch.weights[i] : 1.0);
}

/* By the formulas of mlm_embed.c, mlm_block.c and mlm_head.c, a sequence at a time. */
static double formula_loss(const pass *p)
{
    static double x[MOST_T][MOST_D];
    const kmf_params *w = &p->weights.params;
    size_t E = p->config.embedding_size, D = p->config.hidden_size, L = p->config.n_layers;
    double loss = 0.0;
    for (size_t s = 0; s < p->held.n_seq; s++) {
        size_t beg = p->held.off[s], T = p->held.off[s + 1] - beg;
        for (size_t t = 0; t < T; t++) {
            double y[MOST_D];
            for (size_t i = 0; i < E; i++)
                y[i] = w->word[(size_t)p->held.ids[beg + t] * E + i] + w->type[i];
            normalise(y, w->ln_w, w->ln_b, p->config.layer_norm_eps, E);
            drop(p, y, KMF_DROP_FEED, L, beg + t, E);
            if (w->proj_w)
                linear(x[t], y, w->proj_w, w->proj_b, D, E);
            else
                memcpy(x[t], y, D * sizeof *y);
        }
        for (size_t l = 0; l < L; l++)
            block(p, x, l, s);
        for (size_t t = 0; t < T; t++)
            if (p->held.labels[beg + t] >= 0)
                loss += weighted_nll(p, x[t], beg + t);
    }
    return loss;
}

START_TEST(the_loss_is_that_of_the_formulas)
{
    pass p;
    pass_begin(&p, &examples[_i]);
    double loss = learn(p.mlm, &p.batch, &p.gradients).loss;
    double right = formula_loss(&p);
    ck_assert_msg(fabs(loss / right - 1.0) <= 1e-12, "%.17g, not %.17g", loss, right);
    pass_end(&p);
}
END_TEST

/* So that no two things are dropped alike. The embedding draws as a layer after the last. */
START_TEST(every_place_of_dropout_has_a_key_of_its_own)
{
    enum { LAYERS = 4, SEQS = 5, N = 2 * LAYERS * KMF_DROP_SITES * SEQS };
    uint64_t keys[N];
    size_t n = 0, same = 0;
    pass p;
    pass_begin(&p, &examples[0]);
    learn(p.mlm, &p.batch, &p.gradients);
    for (p.batch.key = 8; p.batch.key < 10; p.batch.key++)
        for (size_t layer = 0; layer < LAYERS; layer++)
            for (int site = 0; site < KMF_DROP_SITES; site++)
                for (size_t s = 0; s < SEQS; s++)
                    keys[n++] = kmf_mlm_drop_key(p.mlm, site, layer, s);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            same += keys[i] == keys[j];
    ck_assert_uint_eq(n, N);
    ck_assert_uint_eq(same, 0);
    pass_end(&p);
}
END_TEST

/* ---------------------------------------------------------------- differences ------------ */

/* Of the batch at the weights as they are; only learning applies dropout. */
static double loss_of(pass *p)
{
    if (p->batch.dropout > 0)
        return learn(p->mlm, &p->batch, &p->sink).loss;
    return evaluate(p->mlm, &p->batch).loss;
}

/* Of the loss as the n weights w go by steps of `way`. */
static double slope(pass *p, kmf_real *w, const double *way, size_t n)
{
    static const double steps[4] = {1.0, -1.0, 2.0, -2.0};
    const double h = 1e-3;
    double f[4];
    kmf_real *begin = kmf_calloc(n, sizeof *begin, NULL);
    ck_assert_ptr_nonnull(begin);
    memcpy(begin, w, n * sizeof *w);
    for (size_t s = 0; s < 4; s++) {
        for (size_t i = 0; i < n; i++)
            w[i] = begin[i] + steps[s] * h * way[i];
        f[s] = loss_of(p);
    }
    memcpy(w, begin, n * sizeof *w);
    kmf_free(begin);
    return (8.0 * (f[0] - f[1]) - (f[2] - f[3])) / (12.0 * h);
}

static double norm(const kmf_real *x, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

/* The error of a quotient for a slope, beside the slope or what is usual in its tensor. */
static double error_of(double slope, double quotient, double usual)
{
    double size = fabs(quotient) > usual ? fabs(quotient) : usual;
    double error = fabs(slope - quotient) / size;
    return isfinite(error) ? error : HUGE_VAL;
}

/* Of the element with the largest gradient and of two others. */
static double worst_element(pass *p, const kmf_slot *slot, double usual)
{
    const kmf_real *g = p->gradients.at + slot->begin;
    kmf_rng rng = kmf_rng_stream(13, slot->begin);
    size_t at[3] = {0, kmf_rng_below(&rng, slot->n), kmf_rng_below(&rng, slot->n)};
    double worst = 0.0;
    for (size_t i = 0; i < slot->n; i++)
        at[0] = fabs(g[i]) > fabs(g[at[0]]) ? i : at[0];
    for (size_t k = 0; k < 3; k++) {
        double quotient =
            slope(p, p->weights.at + slot->begin + at[k], (const double[]){1.0}, 1);
        double error = error_of(g[at[k]], quotient, usual);
        worst = error > worst ? error : worst;
    }
    return worst;
}

/* Of one way of length 1 through all of a tensor. */
static double way_error(pass *p, const kmf_slot *slot, double usual)
{
    const kmf_real *g = p->gradients.at + slot->begin;
    kmf_rng rng = kmf_rng_stream(14, slot->begin);
    double *way = kmf_calloc(slot->n, sizeof *way, NULL);
    ck_assert_ptr_nonnull(way);
    double length = 0.0, along = 0.0;
    for (size_t i = 0; i < slot->n; i++) {
        way[i] = (double)kmf_rng_normal(&rng);
        length += way[i] * way[i];
    }
    for (size_t i = 0; i < slot->n; i++) {
        way[i] /= sqrt(length);
        along += way[i] * g[i];
    }
    double error = error_of(along, slope(p, p->weights.at + slot->begin, way, slot->n), usual);
    kmf_free(way);
    return error;
}

START_TEST(gradients_are_slopes_of_the_loss)
{
    pass p;
    pass_begin(&p, &examples[_i]);
    learn(p.mlm, &p.batch, &p.gradients);
    double worst = 0.0;
    for (size_t i = 0; i < p.slots.n; i++) {
        const kmf_slot *slot = &p.slots.slot[i];
        double usual = norm(p.gradients.at + slot->begin, slot->n) / sqrt((double)slot->n);
        ck_assert_msg(usual > 1e-6, "%s has no gradient", slot->name);
        double of_element = worst_element(&p, slot, usual);
        double of_way = way_error(&p, slot, usual);
        ck_assert_msg(of_element < 1e-7 && of_way < 1e-7,
                      "%s: %s: relative error of elements %.2e, of a way through it %.2e",
                      examples[_i].name, slot->name, of_element, of_way);
        worst = of_element > worst ? of_element : worst;
        worst = of_way > worst ? of_way : worst;
    }
    printf("%s: %zu tensors, largest relative error %.1e\n", examples[_i].name, p.slots.n,
           worst);
    pass_end(&p);
}
END_TEST

/* ---------------------------------------------------------------- recompute -------------- */

START_TEST(activations_made_again_give_the_same_bits)
{
    pass p;
    pass_begin(&p, &examples[_i]);
    kmf_mlm *again = mlm_for(&p.config, &p.weights.params, &p.held, true, NULL);
    double loss = learn(p.mlm, &p.batch, &p.gradients).loss;
    ck_assert_double_eq(learn(again, &p.batch, &p.sink).loss, loss);
    ck_assert_int_eq(memcmp(p.gradients.at, p.sink.at, p.slots.total * sizeof *p.gradients.at),
                     0);
    kmf_mlm_free(again);
    pass_end(&p);
}
END_TEST

/* ---------------------------------------------------------------- parts of the head ------ */

/*
 * A vocabulary so large that the head takes 192 tokens at a time. The loss is a sum over labels,
 * so the gradient of a batch is that of its labels a hundred at a time, added up, each of which
 * fits the head at once.
 */
static const example large_vocabulary = {"",
                                         {ROFORMER, .vocab_size = 16500, .embedding_size = 6,
                                          .hidden_size = 4, .n_heads = 1, .n_layers = 1,
                                          .intermediate_size = 8, .type_vocab_size = 1,
                                          .layer_norm_eps = 1e-12, .activation = KMF_GELU},
                                         0.1,
                                         true,
                                         {70, 130, 80},
                                         {70, 130, 80}};

START_TEST(labels_in_several_parts_are_as_labels_in_one)
{
    enum { PART = 100 };
    pass p;
    pass_begin(&p, &large_vocabulary);
    size_t n = p.held.off[p.held.n_seq];
    for (size_t i = 0; i < n; i++)
        p.held.labels[i] = (int32_t)((i * 37) % p.config.vocab_size);
    kmf_mlm_result whole = learn(p.mlm, &p.batch, &p.gradients);
    ck_assert_uint_eq(whole.n, n);
    double loss = whole.loss;

    double parts = 0.0;
    held_batch some = p.held;
    p.batch.labels = some.labels;
    for (size_t beg = 0; beg < n; beg += PART) {
        for (size_t i = 0; i < n; i++)
            some.labels[i] = i >= beg && i < beg + PART ? p.held.labels[i] : -1;
        parts += learn(p.mlm, &p.batch, &p.sink).loss;
    }
    ck_assert_double_le(fabs(loss / parts - 1.0), 1e-12);
    for (size_t i = 0; i < p.slots.n; i++) {
        const kmf_slot *slot = &p.slots.slot[i];
        double error =
            far_from(p.gradients.at + slot->begin, 1.0, p.sink.at + slot->begin, slot->n);
        ck_assert_msg(error <= 1e-11, "%s: relative error %.2e", slot->name, error);
    }
    pass_end(&p);
}
END_TEST

int main(void)
{
    TCase *tcase = untimed_case();
    tcase_add_loop_test(tcase, loss_and_gradients_are_those_of_pytorch, 0, 2);
    tcase_add_loop_test(tcase, the_loss_is_that_of_the_formulas, 0, N_EXAMPLES);
    tcase_add_test(tcase, every_place_of_dropout_has_a_key_of_its_own);
    tcase_add_loop_test(tcase, gradients_are_slopes_of_the_loss, 0, N_EXAMPLES);
    tcase_add_loop_test(tcase, activations_made_again_give_the_same_bits, 0, N_EXAMPLES);
    tcase_add_test(tcase, labels_in_several_parts_are_as_labels_in_one);
    return run_case("mlm_gradients", tcase);
}
