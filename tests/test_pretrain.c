/* SPDX-License-Identifier: MIT */
/*
 * Second sources: a step put together by hand from a pass and from AdamW in double; another number
 * of threads, pieces and shards; another way to the same end (stopped, saved, loaded by another
 * trainer); the learning rate written out; inputs of which all numbers are known.
 */
#include "base/clock.h"
#include "same_training.h"

#include "checked.h"

#include <math.h>

/* Settings that go different ways. */
enum { KINDS = 6 };

static options kind(int i)
{
    options o = small_options();
    switch (i) {
    case 0:
        break;
    case 1:
        o.shards = 4;
        o.dropout = 0.2;
        o.soft_weight = 0.5;
        o.precision = KMF_PRECISION_BF16; /* where it is not to be had, F32 */
        break;
    case 2:
        o.batch = 8;
        o.shards = 2;
        o.accumulate = 2;
        o.recompute = 1;
        o.clip = 0;
        break;
    case 3:
        o.epochs = 0.1;
        o.steps = 0;
        o.stride = 3;
        o.window = 17;
        o.schedule = KMF_SCHEDULE_LINEAR;
        break;
    case 4:
        if (CHECKED) /* too large a model */
            break;
        o.init = NULL;
        o.preset = "nano";
        o.k = 2;
        o.window = 16;
        o.batch = 2;
        o.steps = 4;
        break;
    default:
        o.held_fraction = 0.1; /* the one with a validation: it takes half a second */
        o.val_every = 4;
        break;
    }
    return o;
}

/* ---------------------------------------------------------------- the same bits --------- */

START_TEST(the_bits_do_not_depend_on_the_number_of_threads)
{
    for (int k = 0; k < KINDS - 1; k++) {
        options o = kind(k);
        uint64_t one = trained(&o);
        for (o.threads = 2; o.threads <= 3; o.threads++)
            ck_assert_msg(trained(&o) == one, "kind %d with %d threads", k, o.threads);
        o.threads = 1;
        o.seed++;
        ck_assert_msg(trained(&o) != one, "kind %d", k);
    }
}
END_TEST

START_TEST(recomputing_gives_the_same_bits)
{
    for (int k = 0; k < 4; k++) {
        options o = kind(k);
        uint64_t one = trained(&o);
        o.recompute = !o.recompute;
        ck_assert_msg(trained(&o) == one, "kind %d", k);
    }
}
END_TEST

/* The sums of shards and pieces are added in another order, and are near. */
START_TEST(pieces_and_shards_change_the_rounding_alone)
{
    options o = small_options();
    o.batch = 8;
    kmf_pretrain *whole = begin(&o);
    train(whole, NULL, NULL);
    for (int k = 0; k < 3; k++) {
        o.shards = k == 0 ? 1 : k == 1 ? 8 : 2;
        o.accumulate = k == 0 ? 8 : k == 1 ? 1 : 4;
        kmf_pretrain *cut = begin(&o);
        float most = 0;
        train(cut, NULL, NULL);
        ck_assert(fabs(cut->now.loss - whole->now.loss) < 1e-5 &&
                  cut->now.tokens == whole->now.tokens);
        for (size_t i = 0; i < whole->slots.total; i++)
            most = fmaxf(most, fabsf(cut->model->slab[i] - whole->model->slab[i]));
        ck_assert_msg(most > 0 && most < 1e-4f, "%g", (double)most);
        kmf_pretrain_free(cut);
    }
    kmf_pretrain_free(whole);
}
END_TEST

/* ---------------------------------------------------------------- stopping -------------- */

START_TEST(a_callback_stops_it_and_it_goes_on_from_there)
{
    options o = small_options();
    watch w = {.stop_at = 3, .answer = 1};
    uint64_t whole = trained(&o);
    kmf_pretrain *trainer = begin(&o);
    ck_assert_int_eq(train(trainer, look, &w), 1);
    ck_assert(w.calls == 3 && state_of(trainer).step == 3);
    w.stop_at = 4;
    ck_assert_int_eq(train(trainer, look, &w), 1);
    ck_assert(w.calls == 4 && state_of(trainer).step == 4);
    w = (watch){.calls = 4, .stop_at = 5, .answer = KMF_EIO, .tokens = w.tokens};
    kmf_err err = {0};
    ck_assert_int_eq(kmf_pretrain_train(trainer, look, &w, &err), KMF_EIO);
    ck_assert_str_eq(err.msg, "enough");
    ck_assert_uint_eq(state_of(trainer).step, 5);
    w.stop_at = 0;
    ck_assert_int_eq(train(trainer, look, &w), 0);
    ck_assert(w.calls == 9 && w.wrong == 0 && print_of(trainer) == whole);
    /* at its end it stays */
    ck_assert_int_eq(train(trainer, look, &w), 0);
    ck_assert(w.calls == 9 && print_of(trainer) == whole);
    kmf_pretrain_free(trainer);
}
END_TEST

START_TEST(what_is_stopped_saved_and_loaded_ends_the_same)
{
    for (int k = 0; k < KINDS; k++)
        check_resume(kind(k), k);
}
END_TEST

START_TEST(a_checkpoint_of_something_else_is_refused_by_name)
{
    options o = small_options();
    const char *path = in_dir("checkpoint");
    kmf_pretrain *trainer = begin(&o);
    ck_assert_int_eq(kmf_pretrain_save(trainer, path, NULL), 0);
    kmf_pretrain_free(trainer);
#define REFUSE(setting, value, name)               \
    do {                                           \
        options changed = o;                       \
        changed.setting = (value);                 \
        cannot_go_on(&changed, input, path, name); \
    } while (0)
    REFUSE(steps, 10, "steps was 9, now it is 10");
    REFUSE(rate, 0.0010000000000000002, "lr was 0.001, now it is 0.0010000000000000002");
    REFUSE(seed, 2, "seed was 1, now it is 2");
    REFUSE(schedule, KMF_SCHEDULE_LINEAR, "schedule was cosine, now it is linear");
    REFUSE(stride, 2, "stride was 1, now it is 2");
    if (kmf_precision_here(KMF_PRECISION_BF16) == KMF_PRECISION_BF16)
        REFUSE(precision, KMF_PRECISION_BF16, "precision was f32, now it is bf16");
    else
        printf("skip: this processor has no products of bfloat16\n");
    REFUSE(val_every, 3, "validation every was 0, now it is 3");
    /* a model to begin with whose last weight is another */
    trainer = begin(&o);
    const kmf_slot *last = &trainer->slots.slot[trainer->slots.n - 1];
    trainer->model->slab[last->begin + last->n - 1] += 1;
    ck_assert_int_eq(kmf_model_save(trainer->model, in_dir("another"), KMF_F32, NULL, NULL), 0);
    kmf_pretrain_free(trainer);
    REFUSE(init, in_dir("another"), "checksum of the first weights");
#undef REFUSE
    *strchr(input, 'C') = 'T';
    cannot_go_on(&o, input, path, "checksum of the inputs");
}
END_TEST

/* ---------------------------------------------------------------- steps ----------------- */

/* Nine steps, of which three are the warm-up: 1/3, 2/3, 1, and then six towards the end. */
START_TEST(the_learning_rate_rises_and_falls)
{
    static const double cosine[] = {1.0 / 3,           2.0 / 3,           1,
                                    0.950484433951210, 0.811744900929367, 0.611260466978157,
                                    0.388739533021843, 0.188255099070633, 0.049515566048790};
    for (int schedule = 0; schedule < 3; schedule++) {
        options o = small_options();
        o.rate = 0.5;
        o.warmup = 0.34; /* floor(0.34 * 9) = 3 */
        o.schedule = schedule;
        kmf_pretrain *t = begin(&o);
        for (uint64_t step = 0; step < 9; step++) {
            double falls = step < 3 ? (double)(step + 1) / 3 : (double)(9 - step) / 7;
            double wanted = schedule == KMF_SCHEDULE_COSINE   ? cosine[step]
                            : schedule == KMF_SCHEDULE_LINEAR ? falls
                            : step < 3                        ? falls
                                                              : 1;
            double got = kmf_pretrain_rate(t, step);
            ck_assert_msg(fabs(got - 0.5 * wanted) < 1e-12, "%d, %d: %.15f", schedule,
                          (int)step, got);
        }
        watch w = {.stop_at = 5, .answer = 1};
        train(t, look, &w);
        ck_assert(state_of(t).rate == kmf_pretrain_rate(t, 4));
        kmf_pretrain_free(t);
    }
}
END_TEST

START_TEST(the_learning_rate_has_its_ends)
{
    static const double warmups[] = {0, 0.1, 0.5, 1};
    for (int schedule = 0; schedule < 3; schedule++)
        for (size_t i = 0; i < 4; i++)
            for (uint64_t steps = 1; steps < 40; steps = 3 * steps + 1) {
                options o = small_options();
                o.steps = steps;
                o.schedule = schedule;
                o.warmup = warmups[i];
                kmf_pretrain *t = begin(&o);
                uint64_t rise = (uint64_t)(warmups[i] * (double)steps);
                double before = 0;
                for (uint64_t step = 0; step < steps; step++) {
                    double rate = kmf_pretrain_rate(t, step);
                    bool good = step < rise ? rate > before : step == rise || rate <= before;
                    if (!good || !(rate > 0 && rate <= o.rate))
                        ck_abort_msg("%d, %zu, step %d: %g", schedule, i, (int)step, rate);
                    before = rate;
                }
                if (rise > 0)
                    ck_assert(fabs(kmf_pretrain_rate(t, rise - 1) - o.rate) < 1e-15);
                kmf_pretrain_free(t);
            }
}
END_TEST

/* A second trainer of the same input gives windows, masks and a pass; the rest is by hand. */
START_TEST(a_step_is_adamw_on_the_mean_of_the_batch)
{
    options o = small_options();
    o.soft_weight = 0.3;
    o.decay = 0.7; /* so much that a tensor which should not decay is seen */
    o.clip = 0.25;
    o.warmup = 0.5;
    kmf_pretrain *t = begin(&o);
    kmf_pretrain *p = begin(&o);
    size_t n = t->slots.total;
    double *w = calloc(n, sizeof *w), *m = calloc(n, sizeof *m), *v = calloc(n, sizeof *v);
    for (size_t i = 0; i < n; i++)
        w[i] = (double)p->model->slab[i];
    for (uint64_t step = 0; step < 3; step++) {
        kmf_mlm_batch batch;
        kmf_mlm_result result;
        kmf_score score = {0};
        double squares = 0, most = 0;
        watch watched = {.calls = step, .stop_at = step + 1, .answer = 1};
        memset(p->sums[0], 0, n * sizeof(float));
        ck_assert_int_eq(kmf_pretrain_show(p, &batch, step * o.batch, 0, o.batch, NULL), 0);
        ck_assert_int_eq(kmf_mlm_learn(p->mlm, &batch, &p->gradients[0], &result, NULL), 0);
        ck_assert_int_eq(kmf_masker_score(p->masker, &result, &score, NULL), 0);
        train(t, look, &watched);
        for (size_t i = 0; i < n; i++)
            squares += (double)p->sums[0][i] * (double)p->sums[0][i];
        double norm = sqrt(squares) / result.weight;
        double scale = 1 / result.weight * fmin(1, o.clip / (norm + 1e-6));
        ck_assert(norm > o.clip && fabs(t->now.norm - norm) < 1e-6 * norm);
        ck_assert(fabs(t->now.loss - result.loss / result.weight) < 1e-9);
        ck_assert(fabs(t->now.bits - score.bits / score.hidden) < 1e-9);
        for (size_t s = 0; s < p->slots.n; s++) {
            const kmf_slot *slot = &p->slots.slot[s];
            double decay = slot->rank == 2 ? o.decay : 0;
            double at = (double)step + 1;
            double rate = kmf_pretrain_rate(p, step);
            for (size_t i = slot->begin; i < slot->begin + slot->n; i++) {
                double g = (double)p->sums[0][i] * scale;
                w[i] -= rate * decay * w[i];
                m[i] = o.beta1 * m[i] + (1 - o.beta1) * g;
                v[i] = o.beta2 * v[i] + (1 - o.beta2) * g * g;
                w[i] -= rate * m[i] / (1 - pow(o.beta1, at)) /
                        (sqrt(v[i] / (1 - pow(o.beta2, at))) + o.epsilon);
                most = fmax(most, fabs(w[i] - (double)t->model->slab[i]));
            }
        }
        ck_assert_msg(most < 2e-6, "step %d: %g", (int)step, most);
        memcpy(p->model->slab, t->model->slab, n * sizeof(float));
    }
    free(w);
    free(m);
    free(v);
    kmf_pretrain_free(t);
    kmf_pretrain_free(p);
}
END_TEST

typedef struct breaker {
    kmf_pretrain *trainer;
    const char *path;
    float *kept; /* weights after the step before */
} breaker;

static int break_it(void *user, const state *s, kmf_err *err)
{
    breaker *b = user;
    kmf_pretrain *t = b->trainer;
    if (s->step != 4)
        return 0;
    if (kmf_pretrain_save(t, b->path, err) < 0)
        return err->code;
    t->model->params.layers[1].w1[7] = INFINITY;
    memcpy(b->kept, t->model->slab, t->slots.total * sizeof(float));
    return 0;
}

START_TEST(numbers_that_are_none_end_it_with_step_and_tensor)
{
    options o = small_options();
    uint64_t whole = trained(&o);
    kmf_err err = {0};
    breaker b = {.trainer = begin(&o), .path = in_dir("good")};
    size_t bytes = b.trainer->slots.total * sizeof(float);
    b.kept = malloc(bytes);
    ck_assert_int_eq(kmf_pretrain_train(b.trainer, break_it, &b, &err), KMF_ENUMERIC);
    ck_assert_int_eq(err.code, KMF_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(err.msg, "step 5: the loss is not finite, first in the "));
    bool named = false;
    for (size_t i = 0; i < b.trainer->slots.n; i++)
        named = named || strstr(err.msg, b.trainer->slots.slot[i].name);
    ck_assert_msg(named, "%s", err.msg);
    ck_assert_uint_eq(state_of(b.trainer).step, 4);
    ck_assert_int_eq(memcmp(b.kept, b.trainer->model->slab, bytes), 0);
    /* the checkpoint before is good */
    ck_assert_int_eq(kmf_pretrain_load(b.trainer, b.path, NULL), 0);
    train(b.trainer, NULL, NULL);
    ck_assert(print_of(b.trainer) == whole);
    free(b.kept);
    kmf_pretrain_free(b.trainer);
}
END_TEST

/* Answers 1 when it is asked the `at`-th time. */
typedef struct stopper {
    uint64_t asked, at;
} stopper;

static int stop_at(void *user)
{
    stopper *s = user;
    return ++s->asked == s->at;
}

/* Each validation is abandoned at each of its pieces, and another trainer goes on from there. */
START_TEST(a_validation_that_is_abandoned_comes_again)
{
    const char *path = in_dir("checkpoint");
    for (int objective = KMF_OBJECTIVE_MASKED; objective <= KMF_OBJECTIVE_BOTH; objective++) {
        options o = small_options();
        o.objective = objective;
        o.sources = KMF_SOURCES_RECORD;
        o.held_fraction = 0.2;
        o.steps = 3;
        o.val_every = 2;
        uint64_t whole = trained(&o);
        kmf_pretrain *t = begin(&o);
        uint64_t pieces = 0, stops = 0;
        for (int status = 1; status == 1; pieces++) {
            stopper stop = {.at = 1 + pieces % 10};
            watch w = {.calls = t->now.step - (t->val_due ? 1 : 0)};
            double best = t->now.best, bits = t->now.val_bits, contrast = t->now.val_contrast;
            uint64_t from = t->now.step;
            kmf_pretrain_on_validation(t, stop_at, &stop);
            status = kmf_pretrain_train(t, objective ? NULL : look, &w, NULL);
            ck_assert(status == 0 || status == 1);
            ck_assert(objective || (w.wrong == 0 && w.calls == t->now.step - (uint64_t)status));
            state s = state_of(t);
            ck_assert_int_eq(s.val_due, status);
            if (status == 0 || s.step != from)
                continue;
            ck_assert(!s.validated && memcmp(&s.best, &best, sizeof best) == 0);
            ck_assert(memcmp(&s.val_bits, &bits, sizeof bits) == 0 &&
                      memcmp(&s.val_contrast, &contrast, sizeof contrast) == 0);
            ck_assert_int_eq(kmf_pretrain_save(t, path, NULL), 0);
            if (++stops % 2 == 0) {
                kmf_pretrain_free(t);
                t = begin(&o);
            }
            ck_assert_int_eq(kmf_pretrain_load(t, path, NULL), 0);
            ck_assert_int_eq(state_of(t).val_due, 1);
        }
        ck_assert_uint_ge(stops, 2);
        ck_assert(print_of(t) == whole);
        kmf_pretrain_free(t);
    }
}
END_TEST

START_TEST(a_validation_may_be_of_one_window)
{
    options o = small_options();
    o.held_fraction = 0.2;
    o.val_windows = 1;
    o.val_every = 2;
    o.steps = 3;
    kmf_pretrain *t = begin(&o);
    ck_assert_uint_eq(state_of(t).held_windows, 1);
    for (uint64_t step = 1; step <= 3; step++) {
        watch w = {.calls = step - 1, .stop_at = step, .answer = 1};
        train(t, look, &w);
        ck_assert_int_eq(state_of(t).validated, step >= 2);
    }
    ck_assert(state_of(t).val_hidden > 0 && state_of(t).val_bits > 0);
    kmf_pretrain_free(t);
}
END_TEST

/* ---------------------------------------------------------------- what is known --------- */

START_TEST(the_state_tells_what_was_read)
{
    static const char *const held[] = {"b"};
    options o = small_options();
    o.held = held;
    o.n_held = 1;
    o.val_every = 2;
    o.steps = 5;
    kmf_err err = {0};
    kmf_pretrain *t = kmf_pretrain_new(&o, &err);
    ck_assert_msg(t, "%s", err.msg);
    state s = state_of(t);
    ck_assert(s.steps == 0 && s.records == 0 && s.window == 24 && s.window_bases == 24);
    ck_assert(s.ranks == 1 && s.rank == 0 && s.new_head == 0 && isnan(s.val_bits));
    ck_assert_int_eq(read_text(t, input, 0, &err), 0);
    /* 20 bases, shorter than a window; 10 bases, too short; four that are none */
    ck_assert_int_eq(
        read_text(t, ">s\nACGTACGTACGTTTTACGCA\n>z\nACGTACGTAC\n>n\nNNRY\n", 0, &err), 0);
    ck_assert_int_eq(read_text(t, ">x\nACGTACGTACGTTTTACGCAACGTACGTACGTTTTACGCA\n", 1, &err),
                     0);
    ck_assert_msg(kmf_pretrain_begin(t, NULL, NULL, &err) == 0, "%s", err.msg);
    s = state_of(t);
    ck_assert_uint_eq(s.records, 7);
    ck_assert_uint_eq(s.letters, 6500 + 34 + 40);
    ck_assert_uint_eq(s.ambiguous, 1 + 4);
    ck_assert_uint_eq(s.too_short, 10);
    ck_assert_uint_eq(s.bases, 4000 + 20);
    ck_assert_uint_eq(s.held_bases, 2499 + 40);
    ck_assert_uint_eq(s.segments, 3);
    ck_assert_uint_eq(s.short_ones, 1);
    ck_assert_uint_eq(s.windows, 124 + 41 + 1);
    ck_assert_uint_eq(s.held_windows, 12);
    ck_assert_uint_eq(s.parameters, kmf_model_n_parameters(t->model));
    ck_assert(s.steps == 5 && s.step == 0 && s.tokens == 0);
    ck_assert_uint_gt(s.bytes, 4 * s.parameters * sizeof(float)); /* two moments, a gradient */
    ck_assert(s.val_hidden > 12 && fabs(s.copy_bits - 2) < 1e-12 && !s.validated);
    ck_assert(s.val_seconds >= 0 && s.val_seconds <= 0);
    int best = 1;
    for (int m = 0; m < KMF_MARKOV_ORDERS; m++) {
        ck_assert(s.markov_bits[m] > 1 && s.markov_bits[m] < 4);
        best = m > 1 && s.markov_bits[m] < s.markov_bits[best] ? m : best;
    }
    ck_assert_int_eq(s.markov_best, best);
    double least = (double)INFINITY;
    uint64_t best_step = 0;
    for (uint64_t step = 1; step <= 5; step++) {
        watch w = {.calls = step - 1, .stop_at = step, .answer = 1};
        double spent = s.val_seconds;
        double begun = kmf_now();
        train(t, look, &w);
        s = state_of(t);
        ck_assert((s.val_seconds > spent) == (s.validated == 1));
        ck_assert(s.val_seconds - spent < kmf_now() - begun);
        ck_assert(s.validated == (step % 2 == 0 || step == 5));
        ck_assert((step < 2) == isnan(s.val_bits));
        ck_assert(fabs(s.epochs - 4 * (double)step / 166) < 1e-12);
        ck_assert(s.tokens <= 24 * 4 * step && s.tokens + 8 >= 24 * 4 * step);
        if (!s.validated)
            continue;
        best_step = s.val_bits < least ? step : best_step;
        least = fmin(least, s.val_bits);
        ck_assert(s.best == least && s.best_step == best_step);
        ck_assert(s.val_loss > 3 && s.val_loss < 5 && s.val_bits > 1.8 && s.val_bits < 2.2);
    }
    kmf_pretrain_free(t);
}
END_TEST

START_TEST(epochs_and_seconds_make_steps)
{
    options o = small_options();
    o.steps = 0;
    o.epochs = 1.5; /* of 268 windows, by 4: 100.5 */
    kmf_pretrain *t = begin(&o);
    /* 24 letters each, from 3000, 1501, 998 and 1000; 12 or more are over */
    ck_assert_uint_eq(state_of(t).windows, 124 + 62 + 41 + 41);
    ck_assert_uint_eq(state_of(t).steps, 101);
    kmf_pretrain_free(t);
    o.epochs = 1e-9;
    t = begin(&o);
    ck_assert_uint_eq(state_of(t).steps, 1);
    uint64_t bytes = state_of(t).bytes;
    kmf_pretrain_free(t);
    o.epochs = 0;
    o.seconds = 1e-9;
    t = begin(&o);
    ck_assert_uint_eq(state_of(t).steps, 1);
    /* weights that learn while steps are tried */
    ck_assert_uint_eq(state_of(t).bytes, bytes + t->slots.total * sizeof(float));
    kmf_pretrain_free(t);
    o.seconds = 1e6;
    t = begin(&o);
    ck_assert_uint_gt(state_of(t).steps, 1000);
    kmf_pretrain_free(t);
}
END_TEST

/* What n steps of a second each take, with validations where kmf_pretrain_train has them. */
static double seconds_of(uint64_t n, double validation, uint64_t val_every)
{
    uint64_t every = val_every > 0 ? val_every : (n + 19) / 20;
    return (double)n + (double)((n + every - 1) / every) * validation;
}

/* What is said fits, and a step more would not, but for validations of a part that is cut. */
START_TEST(a_time_has_to_do_for_validations)
{
    static const double takes[] = {0, 0.01, 0.4, 1, 30};
    static const uint64_t every[] = {0, 1, 2, 7, 100};
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < 5; j++)
            for (double seconds = 0.5; seconds < 3000; seconds *= 1.3) {
                kmf_pretrain_costs c = {.left = seconds, .step = 1, .window = takes[i] / 8};
                kmf_pretrain_plan plan = kmf_pretrain_plan_time(&c, 8, every[j], 0);
                uint64_t n = plan.steps;
                ck_assert(plan.windows == 8 && (every[j] == 0 || plan.val_every == every[j]));
                ck_assert_uint_ge(n, 1);
                if (n > 1)
                    ck_assert_double_le(seconds_of(n, takes[i], every[j]), seconds + 1e-9);
                ck_assert_double_gt(seconds_of(n + 1, takes[i], every[j]) + 20 * takes[i],
                                    seconds);
                if (every[j] > 0)
                    ck_assert_double_gt(seconds_of(n + 1, takes[i], every[j]) + 1e-9, seconds);
            }
    kmf_pretrain_costs c = {.left = 100, .step = 0.5, .window = 0.25};
#define STEPS(windows, every) kmf_pretrain_plan_time(&c, windows, every, 0).steps
    ck_assert_uint_eq(STEPS(0, 0), 200);
    ck_assert_uint_eq(STEPS(4, 0), 160);
    ck_assert_uint_eq(STEPS(4, 1), 66);
    ck_assert_uint_eq(STEPS(4, 150), 196);
    ck_assert_uint_eq(STEPS(400, 0), 1);
    c.left = -3;
    ck_assert_uint_eq(STEPS(4, 0), 1);
    ck_assert_uint_eq(STEPS(4, 9), 1);
#undef STEPS
}
END_TEST

/* A second a step; what validations take, and how many there are, by hand. */
START_TEST(validations_have_a_share_of_a_time)
{
    static const struct {
        double left, window;
        uint64_t windows, every, steps, val_every, chosen;
    } cases[] = {
        {1000, 0.01, 100, 0, 980, 49, 100},  /* all 20 fit                       */
        {1000, 0.1, 100, 0, 900, 90, 100},   /* 10 of 10 s                       */
        {1000, 0.11, 100, 0, 901, 101, 100}, /* 9 of 11 s                        */
        {1000, 1, 100, 0, 900, 900, 100},    /* the last one                     */
        {1000, 1.25, 100, 0, 900, 900, 80},  /* of 80 windows                    */
        {1000, 10, 100, 0, 680, 680, 32},    /* of 32, though that is a third    */
        {1000, 50, 12, 0, 400, 400, 12},     /* of all, there being no more      */
        {10, 1, 100, 0, 1, 1, 32},           /* there is no time for a step      */
        {1000, 10, 100, 500, 1, 500, 100},   /* as told: whatever it takes       */
        {-1, 1, 100, 0, 1, 1, 32},           /* trials took all of it            */
        {1000, 0, 100, 0, 1000, 50, 100},    /* they take nothing                */
        {1000, 1, 0, 0, 1000, 50, 0},        /* nothing is held out              */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kmf_pretrain_costs c = {.left = cases[i].left, .step = 1, .window = cases[i].window};
        kmf_pretrain_plan p = kmf_pretrain_plan_time(&c, cases[i].windows, cases[i].every, 0.1);
        ck_assert_msg(p.steps == cases[i].steps && p.val_every == cases[i].val_every &&
                          p.windows == cases[i].chosen,
                      "%zu: %d steps, every %d, %d windows", i, (int)p.steps, (int)p.val_every,
                      (int)p.windows);
    }
}
END_TEST

/* Fewer windows have baselines of their own, which a checkpoint keeps; another time has others. */
START_TEST(a_share_of_validation_is_kept_in_the_checkpoint)
{
    const char *path = in_dir("checkpoint");
    options o = small_options();
    o.steps = 0;
    o.seconds = 1e-6;
    o.val_windows = 60;
    o.held_fraction = 0.4;
    kmf_pretrain *few = begin(&o);
    state told = state_of(few);
    ck_assert_uint_eq(told.held_windows, 32);
    ck_assert(told.steps == 1 && told.val_every == 1);
    ck_assert_int_eq(kmf_pretrain_save(few, path, NULL), 0);
    train(few, NULL, NULL);
    uint64_t whole = print_of(few);
    kmf_pretrain_free(few);
    /* one whose trials found another plan */
    o.val_share = 0;
    kmf_pretrain *t = begin(&o);
    ck_assert_uint_eq(state_of(t).held_windows, 60);
    ck_assert(state_of(t).val_hidden > told.val_hidden);
    ck_assert_int_eq(kmf_pretrain_load(t, path, NULL), KMF_EMODEL);
    t->opts.val_share = 0.1;
    ck_assert_int_eq(kmf_pretrain_load(t, path, NULL), 0);
    state s = state_of(t);
    ck_assert(s.held_windows == 32 && s.val_hidden == told.val_hidden);
    for (int m = 0; m < KMF_MARKOV_ORDERS; m++)
        ck_assert(s.markov_bits[m] == told.markov_bits[m]);
    train(t, NULL, NULL);
    ck_assert(print_of(t) == whole);
    kmf_pretrain_free(t);
    /* the plan of steps is the same for any share */
    o.seconds = 0;
    o.steps = 50;
    t = begin(&o);
    ck_assert(state_of(t).held_windows == 60 && state_of(t).val_every == 3);
    kmf_pretrain_free(t);
}
END_TEST

/* One that resumes measures nothing that its checkpoint tells, and goes on to the same end. */
START_TEST(what_a_checkpoint_tells_is_not_measured_again)
{
    const char *path = in_dir("checkpoint");
    options o = small_options();
    kmf_err err = {0};
    o.steps = 0;
    o.seconds = 1e-6;
    o.held_fraction = 0.4;
    kmf_pretrain *t = begin(&o);
    state told = state_of(t);
    ck_assert_int_eq(kmf_pretrain_save(t, path, NULL), 0);
    train(t, NULL, NULL);
    uint64_t whole = print_of(t);
    kmf_pretrain_free(t);
    o.resumes = 1;
    t = begin(&o);
    ck_assert(state_of(t).steps == 0 && state_of(t).val_hidden == 0);
    ck_assert_int_eq(kmf_pretrain_train(t, NULL, NULL, &err), KMF_EINVAL);
    ck_assert_str_eq(err.msg, "the checkpoint to resume from is not loaded");
    ck_assert_int_eq(kmf_pretrain_load(t, path, NULL), 0);
    state s = state_of(t);
    ck_assert(s.steps == told.steps && s.val_every == told.val_every);
    ck_assert(s.val_hidden == told.val_hidden && s.held_windows == told.held_windows);
    ck_assert(s.copy_bits == told.copy_bits && s.markov_best == told.markov_best);
    train(t, NULL, NULL);
    ck_assert(print_of(t) == whole);
    kmf_pretrain_free(t);
}
END_TEST

/* Whole steps are tried, whose moments are those of updates; weights and progress stay. */
START_TEST(what_a_step_takes_is_tried_with_its_update)
{
    for (int objective = KMF_OBJECTIVE_MASKED; objective <= KMF_OBJECTIVE_BOTH; objective++) {
        options o = small_options();
        kmf_pretrain_costs costs;
        kmf_err err = {0};
        double moved = 0;
        o.objective = objective;
        o.sources = KMF_SOURCES_RECORD;
        o.held_fraction = 0.1;
        o.shards = 2;
        o.batch = 8;
        kmf_pretrain *t = begin(&o);
        uint32_t weights = kmf_pretrain_checksum(t);
        t->opts.seconds = 1;
        ck_assert_msg(kmf_pretrain_measure(t, &costs, &err) == 0, "%s", err.msg);
        ck_assert(costs.step > 0 && costs.left < 1 - costs.step);
        ck_assert(costs.window >
                  1e-9); /* seconds: no processor asks a window as fast as that */
        ck_assert(kmf_pretrain_checksum(t) == weights && t->now.step == 0);
        ck_assert(t->now.tokens == 0 && isnan(t->now.loss) && isnan(t->now.val_contrast));
        for (size_t i = 0; i < t->slots.total; i++)
            moved += fabs((double)t->m[i]);
        ck_assert_double_gt(moved, 0);
        kmf_pretrain_free(t);
    }
}
END_TEST

START_TEST(a_model_is_written_and_can_be_loaded)
{
    options o = small_options();
    kmf_err err = {0};
    kmf_pretrain *t = begin(&o);
    for (int time = 0; time < 2; time++) {
        train(t, NULL, NULL);
        ck_assert_msg(kmf_pretrain_model(t, in_dir("out"), KMF_F32, "{\"a\":\"b\"}", &err) == 0,
                      "%s", err.msg);
        kmf_model *model = kmf_model_load(in_dir("out"), &err);
        ck_assert_msg(model, "%s", err.msg);
        assert_same_weights(model, t->model);
        ck_assert_ptr_nonnull(strstr(kmf_model_provenance(model), "\"a\""));
        kmf_model_free(model);
    }
    ck_assert_int_eq(kmf_pretrain_model(t, "/nonexistent/x", KMF_F32, "{}", &err), KMF_EIO);
    ck_assert_ptr_nonnull(strstr(err.msg, "/nonexistent/x"));
    kmf_pretrain_free(t);
}
END_TEST

/* The model to begin with has 24, and windows of as many tokens. */
START_TEST(positions_are_as_many_as_the_longest_window_has)
{
    static const size_t windows[] = {0, 20, 24, 25, 40};
    options o = small_options();
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        o.window = windows[i];
        kmf_pretrain *t = kmf_pretrain_new(&o, NULL);
        ck_assert_ptr_nonnull(t);
        ck_assert_uint_eq(t->model->config.window, windows[i] > 0 ? windows[i] : 24);
        ck_assert_uint_eq(t->model->config.max_positions, windows[i] > 24 ? windows[i] : 24);
        kmf_pretrain_free(t);
    }
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("all");
    tcase_add_checked_fixture(tcase, begin_test, remove_dir);
    tcase_add_test(tcase, the_bits_do_not_depend_on_the_number_of_threads);
    tcase_add_test(tcase, recomputing_gives_the_same_bits);
    tcase_add_test(tcase, pieces_and_shards_change_the_rounding_alone);
    tcase_add_test(tcase, a_callback_stops_it_and_it_goes_on_from_there);
    tcase_add_test(tcase, what_is_stopped_saved_and_loaded_ends_the_same);
    tcase_add_test(tcase, a_checkpoint_of_something_else_is_refused_by_name);
    tcase_add_test(tcase, the_learning_rate_rises_and_falls);
    tcase_add_test(tcase, the_learning_rate_has_its_ends);
    tcase_add_test(tcase, a_step_is_adamw_on_the_mean_of_the_batch);
    tcase_add_test(tcase, numbers_that_are_none_end_it_with_step_and_tensor);
    tcase_add_test(tcase, a_validation_that_is_abandoned_comes_again);
    tcase_add_test(tcase, a_validation_may_be_of_one_window);
    tcase_add_test(tcase, the_state_tells_what_was_read);
    tcase_add_test(tcase, epochs_and_seconds_make_steps);
    tcase_add_test(tcase, a_time_has_to_do_for_validations);
    tcase_add_test(tcase, validations_have_a_share_of_a_time);
    tcase_add_test(tcase, what_a_checkpoint_tells_is_not_measured_again);
    tcase_add_test(tcase, a_share_of_validation_is_kept_in_the_checkpoint);
    tcase_add_test(tcase, what_a_step_takes_is_tried_with_its_update);
    tcase_add_test(tcase, a_model_is_written_and_can_be_loaded);
    tcase_add_test(tcase, positions_are_as_many_as_the_longest_window_has);
    return run_case("pretrain", tcase);
}
