/* SPDX-License-Identifier: MIT */
/*
 * Steps that compare windows. Second sources: a step put together by hand from three passes, one
 * for each loss alone and their sum; what follows from the description of what is drawn.
 */
#define _XOPEN_SOURCE 700 /* mkdtemp */

#include "trainers.h"

#include "base/mem.h"
#include "chisquare.h"

#include <math.h>

static options pair_options(kmf_objective objective)
{
    options o = small_options();
    o.objective = (int)objective;
    o.sources = KMF_SOURCES_RECORD;
    o.batch = 8;
    o.steps = 6;
    return o;
}

/* ---------------------------------------------------------------- a step ----------------- */

/* The first step's gradient by one loss alone, added up in sums[0]. Its weight, if it asks. */
static double learn_alone(kmf_pretrain *t, bool asks, double contrast)
{
    static int32_t none[1024];
    kmf_mlm_batch batch;
    kmf_mlm_result result;
    kmf_contrast_result compared;
    kmf_comparison *c = &t->comparison;
    size_t n = t->opts.batch;
    memset(t->sums[0], 0, t->slots.total * sizeof(float));
    ck_assert_int_eq(kmf_pretrain_show(t, &batch, 0, 0, n, NULL), 0);
    if (!asks) {
        ck_assert_uint_le(batch.off[n], 1024);
        memset(none, -1, sizeof none);
        batch.labels = none;
    }
    ck_assert_int_eq(kmf_mlm_encode(t->mlm, &batch, c->vectors, NULL), 0);
    kmf_contrast_views views = {.vectors = c->vectors, .sources = c->sources, .n = n};
    ck_assert_int_eq(
        kmf_contrast_learn(c->contrast, c->dvectors, &views, contrast, &compared, NULL), 0);
    ck_assert_int_eq(
        kmf_mlm_return(t->mlm, asks ? NULL : c->dvectors, &t->gradients[0], &result, NULL), 0);
    return result.weight;
}

/*
 * Both losses: the one of hidden bases a mean by their weight, the other one times its own. What
 * is summed up is divided by that weight at the end.
 */
START_TEST(a_step_of_both_is_the_sum_of_both)
{
    for (int variant = 0; variant < 3; variant++) {
        options o = pair_options(KMF_OBJECTIVE_BOTH);
        o.soft_weight = 0.3;
        o.contrast = 0.25;
        o.steps = 1;
        kmf_pretrain *by_hand = begin(&o);
        o.shards = variant == 1 ? 4 : 1;
        o.accumulate = variant == 2 ? 2 : 1;
        kmf_pretrain *t = begin(&o);
        size_t n = t->slots.total;
        train(t, NULL, NULL);
        double weight = learn_alone(by_hand, true, 0);
        float *masked = kmf_floats(n, NULL);
        ck_assert_ptr_nonnull(masked);
        memcpy(masked, by_hand->sums[0], n * sizeof *masked);
        ck_assert(weight > 1 && learn_alone(by_hand, false, 1) <= 0);
        double squares = 0, off = 0, of_pairs = 0;
        for (size_t i = 0; i < n; i++) {
            double pairs = 0.25 * (double)by_hand->sums[0][i];
            double g = (double)masked[i] / weight + pairs;
            double d = (double)t->sums[0][i] / weight - g;
            squares += g * g;
            of_pairs += pairs * pairs;
            off += d * d;
        }
        ck_assert_msg(off < 1e-10 * squares && of_pairs > 0.01 * squares, "%g of %g, %g", off,
                      squares, of_pairs);
        ck_assert(fabs(t->norm / sqrt(squares) - 1) < 1e-5);
        kmf_free(masked);
        kmf_pretrain_free(t);
        kmf_pretrain_free(by_hand);
    }
}
END_TEST

typedef struct tally {
    double least;
    uint64_t least_step, seen, others;
} tally;

/* The best step is that of the least contrastive loss, and not that of the fewest bits. */
static int keep_least(void *user, const state *s, kmf_err *err)
{
    tally *a = user;
    (void)err;
    if (!s->validated)
        return 0;
    a->seen++;
    ck_assert(isfinite(s->val_bits) && isfinite(s->val_contrast));
    if (s->val_contrast < a->least) {
        a->least = s->val_contrast;
        a->least_step = s->step;
    }
    ck_assert(s->best == a->least && s->best_step == a->least_step);
    return 0;
}

START_TEST(with_both_the_best_model_is_that_of_the_pairs)
{
    options o = pair_options(KMF_OBJECTIVE_BOTH);
    tally a = {.least = (double)INFINITY};
    o.held_fraction = 0.1;
    o.val_every = 2;
    kmf_pretrain *t = begin(&o);
    train(t, keep_least, &a);
    ck_assert_uint_eq(a.seen, 3);
    kmf_pretrain_free(t);
}
END_TEST

/* ---------------------------------------------------------------- draws ------------------ */

static int compare_keys(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* No two pieces of a training share their draws of dropout; the same piece has them twice. */
START_TEST(each_piece_has_a_dropout_of_its_own)
{
    enum { STEPS = 60, PIECES = 2, SEEDS = 2 };
    uint64_t keys[STEPS * PIECES * SEEDS];
    size_t n = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        options o = pair_options(KMF_OBJECTIVE_CONTRASTIVE);
        kmf_mlm_batch batch;
        o.shards = PIECES;
        o.dropout = 0.2;
        o.seed = seed;
        kmf_pretrain *t = begin(&o);
        for (t->step = 0; t->step < STEPS; t->step++)
            for (size_t at = 0; at < o.batch; at += o.batch / PIECES) {
                for (int time = 0; time < 2; time++) {
                    uint64_t first = t->step * o.batch + at;
                    ck_assert_int_eq(
                        kmf_pretrain_show(t, &batch, first, at, o.batch / PIECES, NULL), 0);
                    ck_assert(batch.dropout == o.dropout);
                    ck_assert(time == 0 || batch.key == keys[n]);
                    keys[n] = batch.key;
                }
                n++;
            }
        kmf_pretrain_free(t);
    }
    qsort(keys, n, sizeof *keys, compare_keys);
    for (size_t i = 1; i < n; i++)
        ck_assert(keys[i] != keys[i - 1]);
}
END_TEST

/* Contigs, many of them shorter than a window, so that a batch has windows of several lengths. */
static const char *short_and_long(void)
{
    kmf_rng rng = kmf_rng_stream(21, 0);
    input[0] = '\0';
    for (int i = 0; i < 200; i++)
        add_contig("c", kmf_rng_below(&rng, 2) == 0 ? 17 : 72, &rng);
    return input;
}

/* What must hold of the mixture of a piece whatever is drawn; returns how many may be mixed. */
static size_t is_a_mixture(const kmf_pretrain *t, size_t at, size_t n)
{
    const kmf_comparison *c = &t->comparison;
    size_t longest = 0, mixed = 0;
    bool served[64] = {false};
    ck_assert(c->mix.layer < t->model->config.n_layers && n <= 64);
    ck_assert(c->mix.partner == c->piece_partner && c->mix.served == c->piece_served);
    ck_assert(c->mix.share == c->share + at);
    for (size_t i = 0; i < n; i++)
        longest = t->views[i].excerpt.n > longest ? t->views[i].excerpt.n : longest;
    for (size_t i = 0; i < n; i++) {
        size_t partner = c->mix.partner[i];
        bool may = i % 2 == 0 && t->views[i].excerpt.n == longest;
        ck_assert(partner < n && !served[partner] && c->mix.served[partner] == i);
        served[partner] = true;
        ck_assert_uint_eq(c->partner[at + i], at + partner);
        if (may)
            ck_assert(partner % 2 == 0 && t->views[partner].excerpt.n == longest &&
                      c->mix.share[i] >= 0 && c->mix.share[i] < 1);
        else
            ck_assert(partner == i && c->mix.share[i] >= 1 && c->mix.share[i] <= 1);
        mixed += may;
    }
    return mixed;
}

START_TEST(mixtures_are_drawn_evenly)
{
    enum { STEPS = 800, BINS = 10 };
    options o = pair_options(KMF_OBJECTIVE_CONTRASTIVE);
    kmf_err err = {0};
    kmf_mlm_batch batch;
    uint64_t layers[2] = {0}, partners[16] = {0}, shares[BINS] = {0}, all_four = 0, fewer = 0;
    o.mix = 1;
    o.shards = 2;
    o.batch = 16;
    kmf_pretrain *t = begun(&o, short_and_long(), &err);
    ck_assert_msg(t, "%s", err.msg);
    for (t->step = 0; t->step < STEPS; t->step++)
        for (size_t at = 0; at < 16; at += 8) {
            ck_assert_int_eq(kmf_pretrain_show(t, &batch, t->step * o.batch + at, at, 8, NULL),
                             0);
            ck_assert_ptr_eq(batch.mix, &t->comparison.mix);
            size_t mixed = is_a_mixture(t, at, 8);
            layers[batch.mix->layer]++;
            for (size_t i = 0; mixed == 4 && i < 8; i += 2) {
                partners[i / 2 * 4 + batch.mix->partner[i] / 2]++;
                shares[(size_t)(batch.mix->share[i] * BINS)]++;
            }
            all_four += mixed == 4;
            fewer += mixed > 0 && mixed < 4;
        }
    ck_assert(all_four > 100 && fewer > 100);
    double half[2] = {STEPS, STEPS}, quarter[16], tenth[BINS];
    for (size_t i = 0; i < 16; i++)
        quarter[i] = (double)all_four / 4;
    for (size_t i = 0; i < BINS; i++)
        tenth[i] = (double)all_four * 4 / BINS;
    chi_square_test("layers", layers, half, 2);
    chi_square_test("shares", shares, tenth, BINS);
    for (size_t i = 0; i < 16; i += 4)
        chi_square_test("partners", partners + i, quarter + i, 4);
    kmf_pretrain_free(t);
}
END_TEST

/* A step mixes with the chance that was asked for, and as a whole. */
START_TEST(so_many_steps_mix)
{
    enum { STEPS = 4000 };
    options o = pair_options(KMF_OBJECTIVE_BOTH);
    kmf_mlm_batch batch;
    uint64_t seen[2] = {0};
    o.mix = 0.3;
    o.shards = 2;
    kmf_pretrain *t = begin(&o);
    for (t->step = 0; t->step < STEPS; t->step++) {
        bool mixes = kmf_pretrain_mixes(t);
        seen[mixes]++;
        for (size_t at = 0; t->step < 20 && at < 8; at += 4) {
            size_t labelled = 0;
            ck_assert_int_eq(kmf_pretrain_show(t, &batch, t->step * o.batch + at, at, 4, NULL),
                             0);
            for (size_t i = 0; i < batch.off[4]; i++)
                labelled += batch.labels[i] >= 0;
            /* what is mixed is not asked */
            ck_assert((batch.mix != NULL) == mixes && (labelled == 0) == mixes);
        }
    }
    chi_square_test("steps that mix", seen, (double[]){0.7 * STEPS, 0.3 * STEPS}, 2);
    kmf_pretrain_free(t);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pretrain_pairs");
    TCase *steps = tcase_create("steps");
    TCase *draws = tcase_create("draws");
    tcase_add_checked_fixture(steps, begin_test, tear_down);
    tcase_add_test(steps, a_step_of_both_is_the_sum_of_both);
    tcase_add_test(steps, with_both_the_best_model_is_that_of_the_pairs);
    tcase_add_checked_fixture(draws, begin_test, tear_down);
    tcase_add_test(draws, each_piece_has_a_dropout_of_its_own);
    tcase_add_test(draws, mixtures_are_drawn_evenly);
    tcase_add_test(draws, so_many_steps_mix);
    suite_add_tcase(suite, steps);
    suite_add_tcase(suite, draws);
    return run_suite(suite);
}
